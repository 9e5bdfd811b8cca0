//! The framing of messages, in both directions.
//!
//! Input: the bound of lengths, how the stream is cut (two bytes), and the stream.
//!
//! Always true: however the stream is cut, the same messages are found, with the same bytes, up to the same end; no
//! piece lies outside of the given bytes; no declared length above the bound is accepted; the bodies that the pooler
//! reads are parsed or refused, and what is parsed is what was written.

use wire::backend::{self, Authentication, TxStatus};
use wire::frame::Part;
use wire::notice::Notice;
use wire::{MESSAGE_BYTES_MAX, Scanner, Step, write};

use crate::Target;
use crate::draw::{Draw, cuts};

/// See the head of this file.
pub const TARGET: Target = Target {
    name: "framing",
    run,
    words: &[
        b"Q\0\0\0\x0dselect 1\0",
        b"S\0\0\0\x04",
        b"Z\0\0\0\x05I",
        b"E\0\0\0\x12SERROR\0C42601\0\0",
        b"R\0\0\0\x08\0\0\0\0",
        b"d\0\0\0\x06ab",
        b"\0\0\0\x04",
        b"\0\0\0\x05",
    ],
    bytes_max: 400,
};

/// Reads a stream whole, byte by byte and cut at random.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let length_max = draw.pick(&[MESSAGE_BYTES_MAX, 66_560, 100, 8, u32::MAX]);
    let seed = draw.number();
    let stream = draw.rest();
    let expected = expected(stream, length_max);
    assert_eq!(read(&[stream], length_max), expected, "in one piece");
    assert_eq!(read(&stream.chunks(1).collect::<Vec<_>>(), length_max), expected, "byte by byte");
    assert_eq!(read(&cuts(stream, seed), length_max), expected, "cut");
    for message in &expected.messages {
        understand(message.kind, &message.body);
    }
}

/// The messages of a stream.
#[derive(PartialEq, Eq, Debug, Default)]
struct Reading {
    messages: Vec<Message>,
    end: End,
}

/// A message, whole or as far as it has arrived.
#[derive(PartialEq, Eq, Debug)]
struct Message {
    kind: u8,
    body: Vec<u8>,
    body_bytes: u32,
}

/// How a stream ends.
#[derive(PartialEq, Eq, Debug, Default)]
enum End {
    #[default]
    Between,
    Header(Vec<u8>),
    Body,
    Bad {
        kind: u8,
        length: u32,
    },
}

/// The expected result, by simpler means, since all bytes are here.
fn expected(mut rest: &[u8], length_max: u32) -> Reading {
    let mut reading = Reading::default();
    loop {
        let [kind, a, b, c, d, body @ ..] = rest else {
            if !rest.is_empty() {
                reading.end = End::Header(rest.to_vec());
            }
            return reading;
        };
        let length = u32::from_be_bytes([*a, *b, *c, *d]);
        if length < 4 || length > length_max {
            reading.end = End::Bad { kind: *kind, length };
            return reading;
        }
        let here = body.len().min(length as usize - 4);
        let message = Message { kind: *kind, body: body[..here].to_vec(), body_bytes: length - 4 };
        reading.messages.push(message);
        if here < length as usize - 4 {
            reading.end = End::Body;
            return reading;
        }
        rest = &body[here..];
    }
}

fn read(parts: &[&[u8]], length_max: u32) -> Reading {
    let mut scanner = Scanner::default();
    let mut reading = Reading::default();
    for part in parts {
        let mut at = 0;
        while at < part.len() {
            match scanner.next(part, at, length_max) {
                Step::Piece(piece) => {
                    assert!(piece.range.start == at && at < piece.range.end && piece.range.end <= part.len());
                    assert!(piece.range.start <= piece.body.start && piece.body.end == piece.range.end);
                    if let Part::First { carried, body_bytes } = piece.part {
                        assert_eq!(piece.body.start - at, 5 - usize::from(carried), "header bytes in the piece");
                        assert_eq!(scanner.header()[usize::from(carried)..], part[at..piece.body.start]);
                        reading.messages.push(Message { kind: piece.kind, body: Vec::new(), body_bytes });
                    }
                    let message = reading.messages.last_mut().expect("a first piece comes first");
                    assert_eq!((message.kind, scanner.header()[0]), (piece.kind, piece.kind));
                    message.body.extend_from_slice(&part[piece.body.clone()]);
                    assert_eq!(message.body_bytes - piece.left, message.body.len() as u32);
                    assert_eq!(piece.is_last(), !scanner.is_in_body());
                    at = piece.range.end;
                }
                Step::More => break,
                Step::Bad { kind, length } => {
                    reading.end = End::Bad { kind, length };
                    return reading;
                }
            }
        }
    }
    reading.end = match scanner.torn_header() {
        [] if scanner.is_in_body() => End::Body,
        [] => End::Between,
        torn => End::Header(torn.to_vec()),
    };
    assert_eq!(scanner.is_between(), reading.end == End::Between);
    reading
}

/// Parses a body in all the ways in which the pooler parses bodies.
fn understand(kind: u8, body: &[u8]) {
    if let Some(status) = TxStatus::parse(body) {
        assert_eq!(body, [status.byte()]);
    }
    if let Some((name, value)) = backend::parameter_status(body) {
        let mut out = Vec::new();
        write::parameter_status(&mut out, name, value);
        assert_eq!(&out[5..], body, "a parameter is read as it was written");
    }
    if let Some((text, rest)) = backend::c_string(body) {
        assert_eq!([text.as_bytes(), b"\0", rest].concat(), body);
    }
    if let Some(Authentication::Sasl { mechanisms: rest } | Authentication::SaslContinue(rest)) =
        Authentication::parse(body)
    {
        assert!(body.ends_with(rest) && body.len() == rest.len() + 4);
    }
    let notice = Notice::parse(body);
    let texts = [&notice.severity, &notice.sqlstate, &notice.message];
    let bytes: usize = texts.iter().map(|text| text.len()).chain(notice.detail.iter().map(String::len)).sum();
    // A byte that is not valid UTF-8 becomes a character of three bytes.
    assert!(bytes <= 3 * body.len(), "a notice of kind {kind} grows");
}
