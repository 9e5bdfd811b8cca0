//! The first packet of a client, up to the parameters that it asks for.
//!
//! Input: which parameters the operator ignores, and the packet with any bytes behind it.
//!
//! Always true: more bytes do not change a decision; a packet is bounded; the parsed packet is what was written; a
//! request has a user and a database; every fault can be sent as an error.

use protocol::client::greeting::{self, Opening, Request, StartupRules};
use protocol::fault::Fault;
use protocol::vars::Tracked;
use wire::notice::Notice;
use wire::startup::{self, Startup};
use wire::{STARTUP_BYTES_MAX, write};

use crate::Target;
use crate::draw::Draw;
use crate::model::messages;

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "startup",
    run,
    words: &[
        b"user\0",
        b"database\0",
        b"options\0",
        b"replication\0",
        b"_pq_.x\0",
        b"application_name\0",
        b"client_encoding\0",
        b"extra_float_digits\0",
        b"-c ",
        b"--timezone=UTC ",
        b"\\ ",
        b"\0\x03\0\0",
        b"\0\x03\0\x02",
        b"\x04\xd2\x16\x2f",
        b"\x04\xd2\x16\x2e",
        b"\x04\xd2\x16\x30",
    ],
    bytes_max: 600,
};

/// Opens a conversation.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let ignored: &[&str] = draw.pick(&[&[], &["extra_float_digits"], &["options"], &["extra_float_digits", "options"]]);
    let bytes = draw.rest();
    let opening = greeting::open(bytes);
    for end in 0..bytes.len().min(PREFIXES_MAX) {
        is_stable(&greeting::open(&bytes[..end]), &opening);
    }
    is_bounded(bytes, &opening);
    match opening {
        Opening::Session { bytes: length, minor, parameters } => {
            assert!(length <= bytes.len() && length <= STARTUP_BYTES_MAX as usize);
            reads_back(&bytes[..length], minor, &parameters);
            request(minor, parameters, ignored);
        }
        Opening::Cancel { key } => {
            let mut out = Vec::new();
            write::cancel_request(&mut out, &key);
            assert!(bytes.starts_with(&out), "a cancel request is read as it was written");
        }
        Opening::Encryption { bytes: length, .. } => assert_eq!(length, 8),
        Opening::Bad(fault) => tells(&fault),
        Opening::More => assert!(bytes.len() < STARTUP_BYTES_MAX as usize, "it waits for ever"),
        Opening::DirectTls | Opening::Farewell => {}
    }
}

/// A packet has 8 to 10,000 bytes; with another length it is not a packet, unless it is TLS.
fn is_bounded(bytes: &[u8], opening: &Opening) {
    if let [first, b, c, d, ..] = *bytes {
        let is_packet = (8..=10_000).contains(&u32::from_be_bytes([first, b, c, d]));
        let is_refused = matches!(opening, Opening::Bad(Fault::BadHeader { .. } | Fault::PasswordBeforeStartup));
        let is_no_packet = matches!(opening, Opening::DirectTls | Opening::Farewell) || bytes == b"X\0\0\0";
        assert!(is_refused != is_packet || is_no_packet, "{opening:?}");
    }
}

/// A decision does not change; only the bytes that an error shows may become more.
fn is_stable(early: &Opening, late: &Opening) {
    match (early, late) {
        (Opening::More, _) | (Opening::Bad(Fault::BadHeader { .. }), Opening::Bad(Fault::BadHeader { .. })) => {}
        _ => assert_eq!(early, late, "more bytes change the decision"),
    }
}

fn reads_back(packet: &[u8], minor: u16, parameters: &[(&str, &str)]) {
    let mut out = Vec::new();
    write::startup(&mut out, minor, parameters.iter().copied());
    assert_eq!(out, packet);
    assert_eq!(startup::packet_bytes(&out), Ok(Some(out.len())));
    assert_eq!(Startup::parse(&out), Ok(Startup::Session { minor, parameters: parameters.to_vec() }));
}

fn request(minor: u16, parameters: Vec<(&str, &str)>, ignored: &[&str]) {
    let tracked = Tracked::new(["IntervalStyle", "search_path"]);
    let ignored: Vec<Box<str>> = ignored.iter().map(|&name| name.into()).collect();
    let last = |wanted: &str| {
        parameters.iter().rev().find(|(name, _)| *name == wanted).map(|(_, value)| *value).unwrap_or_default()
    };
    let (user, database) = (last("user"), last("database"));
    let request = match Request::read(minor, parameters, &StartupRules { tracked: &tracked, ignored: &ignored }) {
        Ok(request) => request,
        Err(fault) => return tells(&fault),
    };
    assert_eq!(*request.user, *user);
    assert!(!user.is_empty() && user.len() <= 127);
    assert_eq!(&*request.database, if database.is_empty() { user } else { database });
    let mut out = Vec::new();
    request.negotiate(&mut out);
    let kinds: Vec<u8> = messages(&out).iter().map(|(kind, _)| *kind).collect();
    assert!(kinds.is_empty() || kinds == b"v");
    assert_eq!(kinds.is_empty(), minor <= startup::MINOR_NEWEST && request.unknown_options.is_empty());
}

/// A fault is one whole ErrorResponse with the text of the fault.
pub(crate) fn tells(fault: &Fault) {
    let mut out = Vec::new();
    fault.write(&mut out);
    let told = messages(&out);
    let [(b'E', body)] = &told[..] else { panic!("one error, not {told:?}") };
    let notice = Notice::parse(body);
    assert_eq!((notice.severity.as_str(), notice.sqlstate.len()), ("FATAL", 5));
    assert_eq!(notice.message, fault.text().replace('\0', ""));
    assert!(!notice.message.is_empty());
}

/// How many prefixes are tried; the length of the packet is decided within eight bytes.
const PREFIXES_MAX: usize = 300;
