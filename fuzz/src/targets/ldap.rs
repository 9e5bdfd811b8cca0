//! Answers of an LDAP server, and filters.
//!
//! Always true: the possible length of a message is known before it is complete, and does not change while it arrives;
//! no message that is read is longer; a filter that is read is an element of the length that it states.

use auth::LdapScope;
use auth::ldap::{Filter, MESSAGE_BYTES_MAX, Request, read, wanted};

use crate::Target;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "ldap",
    run,
    words: &[
        b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00",
        b"\x30\x0b\x02\x01\x02\x64\x06\x04\x02ou\x30\x00",
        b"\x30\x84\x00\x00\x00",
        b"\x02\x01\x01",
        b"\x65\x07\x0a\x01\x00\x04\x00\x04\x00",
        b"\x78\x07",
        b"\xa0\x00",
        b"(uid=ann)",
        b"(&",
        b"(|",
        b"(!",
        b")",
        b"*",
        b"\\2a",
        b":dn:1.2:=",
        b">=",
    ],
    bytes_max: 400,
};

/// Receives a message in parts, and reads a filter.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut there = 0;
    while let Ok(more) = wanted(&input[..there]) {
        assert!((there..=MESSAGE_BYTES_MAX + 6).contains(&more), "{more} bytes are wanted after {there}");
        if more == there {
            let _ = read(&input[..there]);
            break;
        }
        if more > input.len() {
            break;
        }
        there = more;
    }
    let _ = read(input);
    if let Ok(filter) = Filter::parse(&String::from_utf8_lossy(input)) {
        let sent = Request::Search { base: "", scope: LdapScope::Base, filter: &filter }.message(1);
        assert_eq!(wanted(&sent), Ok(sent.len()));
    }
}
