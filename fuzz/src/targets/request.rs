//! Requests of a client to the console: the bodies of its messages.
//!
//! Input: the type of the message, then its body.
//!
//! Always true: a request is exactly as long as its body; a body that is truncated anywhere, or has an additional byte,
//! is another request or none.

use wire::frontend;
use wire::request::{Request, Target as Aim};

use crate::Target;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "request",
    run,
    words: &[
        b"QSHOW POOLS\0",
        b"Ps\0SHOW POOLS\0\0\0",
        b"Bp\0s\0\0\0\0\0\0\0",
        b"DSs\0",
        b"DPp\0",
        b"Ep\0\0\0\0\0",
        b"CPp\0",
        b"H",
        b"S",
        b"\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\x01",
        b"\x7f\xff",
        b"\x80",
    ],
    bytes_max: 200,
};

/// Parses the body.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let Some((&kind, body)) = input.split_first() else { return };
    let request = Request::parse(kind, body);
    assert!(request.is_none() || Request::is_kind(kind), "a request of an unknown kind");
    assert_eq!(Request::is_kind(kind), Request::name(kind) != "unknown");
    let Some(request) = request else { return };
    // Names that are not UTF-8 become longer when they are parsed.
    let is_text = std::str::from_utf8(body).is_ok();
    match &request {
        Request::Query(text) => assert!(!is_text || body.len() - text.len() <= 1),
        Request::Parse { statement, text, types } => {
            assert!(!is_text || body.len() == statement.len() + 1 + text.len() + 1 + 2 + 4 * types);
        }
        Request::Bind { portal, statement, parameters, formats } => {
            let least = portal.len() + 1 + statement.len() + 1 + 2 + 2 + 4 * parameters + 2 + 2 * formats.len();
            assert!(!is_text || body.len() >= least);
        }
        Request::Describe(aim) | Request::Close(aim) => {
            let (Aim::Statement(name) | Aim::Portal(name)) = aim;
            assert!(!is_text || body.len() == 1 + name.len() + 1);
        }
        Request::Execute { portal, .. } => assert!(!is_text || body.len() == portal.len() + 1 + 4),
        Request::Flush | Request::Sync => assert!(body.is_empty()),
    }
    if kind != frontend::QUERY {
        assert!(
            (0..body.len()).all(|end| Request::parse(kind, &body[..end]).is_none()),
            "a shorter body is whole, too"
        );
        assert_eq!(Request::parse(kind, &[body, b"\0"].concat()), None, "a longer body is whole, too");
    }
}
