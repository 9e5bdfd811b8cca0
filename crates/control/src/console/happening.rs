//! Formats a happening of a traced client as one line.
//!
//! Always true: a line contains no value of a statement unless `trace_values` is set, and even then none of a statement
//! that mentions a password; it has no line break, and its length is bounded.
//! Not here: errors (`concealed`), which tracers get a line (`crate::tracers`).

use std::fmt::Write as _;
use std::time::Duration;

use base::{Id, counted};
use pool::WaitReason;
use route::{Dialect, Encoding, normalize, shape_however_read, shape_of};
use wire::backend::TxStatus;
use wire::frame::HEADER_BYTES;
use wire::frontend;
use worker::letters::{Happening, Requested, What};

use super::concealed;

/// Formats the line, without the time.
pub(crate) fn line(happening: &Happening) -> String {
    let mut line = Id::Client(happening.client).to_string();
    if let Some(server) = happening.server {
        // Writing to a string cannot fail.
        let _ = write!(line, " {}", Id::Server(server));
    }
    line.push(' ');
    line.push_str(&words(&happening.what));
    line
}

fn words(what: &What) -> String {
    match what {
        What::LoggedIn { database, user, application, addr } => {
            let application = plain(application);
            format!("login: {}/{}, application \"{application}\", from {addr}", plain(database), plain(user))
        }
        What::Requested(requested) => format!("request: {}", request(requested)),
        What::Waits { why, request: wanted } => {
            let why = why.map_or("it is next", WaitReason::clause);
            let wanted = wanted.as_ref().map_or(String::new(), |wanted| format!(", with {}", request(wanted)));
            format!("waits for a server: {why}{wanted}")
        }
        What::Delayed => "waits: a rate limit delays it".to_owned(),
        What::Lent { waited } => format!("server lent after {}", millis(*waited)),
        What::Told { texts } if texts.is_empty() => "settings applied in the packet of the request".to_owned(),
        What::Told { texts } => {
            let shown = |text: &String| plain(&shape_however_read(text.as_bytes(), Encoding::Safe));
            let texts: Vec<_> = texts.iter().take(TEXTS_MAX).map(shown).collect();
            let more = if texts.len() == TEXTS_MAX { "; ..." } else { "" };
            format!("settings applied: {}{more}", texts.join("; "))
        }
        What::Answers { after } => format!("first byte after {}", millis(*after)),
        What::Failed(failed) => concealed::error(failed),
        What::Answered { rows, bytes, took, status } => {
            let (rows, bytes) = (counted(*rows, "row"), counted(*bytes, "byte"));
            format!("completed after {}: {rows}, {bytes}, {}", millis(*took), standing(*status))
        }
        What::Stays => "server stays a moment: its client may come back at once".to_owned(),
        What::Keeps { what } => format!("server kept: {}", plain(what)),
        What::Returned => "server given back".to_owned(),
        What::Lost { why } => format!("server closed: {}", plain(why)),
        What::Refused { why } => format!("request refused: {}", plain(why)),
        What::Cancelled => "cancel request".to_owned(),
        What::Left { why } => format!("client left: {}", plain(why)),
    }
}

fn standing(status: TxStatus) -> &'static str {
    match status {
        TxStatus::Idle => "idle",
        TxStatus::Open => "in transaction",
        TxStatus::Failed => "in failed transaction",
    }
}

/// Formats a request: its messages, its size and its text.
fn request(requested: &Requested) -> String {
    let Requested { kinds, bytes, text, is_whole, dialect, raw } = requested;
    let mut names: Vec<&str> = kinds.iter().map(|kind| name_of(*kind)).collect();
    names.dedup();
    let mut line = if names.is_empty() { "more".to_owned() } else { names.join(" ") };
    // Writing to a string cannot fail.
    let _ = write!(line, ", {bytes} bytes");
    let shown = raw.as_ref().filter(|raw| !concealed::speaks_of_password(text) && !concealed::speaks_of_password(raw));
    if text.is_empty() {
    } else if shown.is_some() {
        let dots = if *is_whole { "" } else { "..." };
        let _ = write!(line, ": {}{dots}", plain(&String::from_utf8_lossy(text)));
    } else {
        let _ = write!(line, ": {}", plain(&text_without_values(text, *is_whole, *dialect)));
    }
    shown.into_iter().for_each(|raw| write_parameters(&mut line, raw));
    line
}

/// Returns a statement, or the beginning of one, without its values.
pub(crate) fn text_without_values(text: &[u8], is_whole: bool, dialect: Dialect) -> Box<str> {
    let normalized = if is_whole { normalize(text, dialect) } else { None };
    normalized.map_or_else(|| shape_of(text, dialect), |normalized| normalized.text)
}

/// Appends the parameter values of each Bind among these messages.
fn write_parameters(line: &mut String, raw: &[u8]) {
    let mut at = 0;
    while let Some(&[kind, a, b, c, d]) = raw.get(at..).and_then(|rest| rest.first_chunk::<HEADER_BYTES>()) {
        let end = at + 1 + u32::from_be_bytes([a, b, c, d]).max(4) as usize;
        let body = &raw[at + HEADER_BYTES..end.min(raw.len())];
        if kind == frontend::BIND && write_bound(line, body).is_none() {
            line.push_str(" ...");
        }
        at = end;
    }
}

/// Appends the parameter values of one Bind. `None` if the message is incomplete.
fn write_bound(line: &mut String, body: &[u8]) -> Option<()> {
    let mut rest = Reader(body);
    rest.string()?;
    rest.string()?;
    let formats: Vec<u16> = (0..rest.short()?).map(|_| rest.short()).collect::<Option<_>>()?;
    for number in 0..usize::from(rest.short()?) {
        line.push_str(if number == 0 { " with $" } else { ", $" });
        // Writing to a string cannot fail.
        let _ = write!(line, "{} = ", number + 1);
        let length = u32::from_be_bytes(*rest.take(4)?.first_chunk()?);
        if length == u32::MAX {
            line.push_str("NULL");
            continue;
        }
        let value = rest.take(length as usize)?;
        let format = if formats.len() == 1 { formats.first() } else { formats.get(number) };
        if format == Some(&1) {
            line.push_str("\\x");
            line.extend(value.iter().map(|byte| format!("{byte:02x}")));
        } else {
            let _ = write!(line, "'{}'", plain(&String::from_utf8_lossy(value)).replace('\'', "''"));
        }
    }
    Some(())
}

/// Reads from the front of a message.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }

    fn string(&mut self) -> Option<&'b [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        self.take(end + 1)
    }
}

/// Escapes control characters, which could end the line or control a terminal.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() {
            true => plain.extend(char.escape_debug()),
            false => plain.push(char),
        }
    }
    plain
}

fn millis(time: Duration) -> String {
    let micros = time.as_micros();
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}

fn name_of(kind: u8) -> &'static str {
    match kind {
        frontend::QUERY => "Query",
        frontend::PARSE => "Parse",
        frontend::BIND => "Bind",
        frontend::DESCRIBE => "Describe",
        frontend::EXECUTE => "Execute",
        frontend::CLOSE => "Close",
        frontend::SYNC => "Sync",
        frontend::FLUSH => "Flush",
        frontend::FUNCTION_CALL => "FunctionCall",
        frontend::COPY_DATA => "CopyData",
        frontend::COPY_DONE => "CopyDone",
        frontend::COPY_FAIL => "CopyFail",
        frontend::TERMINATE => "Terminate",
        _ => "another message",
    }
}

/// The number of statements shown of those sent to set up a server.
const TEXTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use base::Wall;
    use route::Dialect;

    use super::*;

    fn told(what: What) -> String {
        line(&Happening { at: Wall(0), tracers: 1, client: 42, server: Some(31), what })
    }

    fn requested(messages: &[u8], text: &str, shows_values: bool) -> String {
        told(What::Requested(Box::new(Requested {
            kinds: if messages[0] == b'Q' { b"Q"[..].into() } else { b"PBDES"[..].into() },
            bytes: messages.len(),
            text: text.as_bytes().into(),
            is_whole: true,
            dialect: Dialect::default(),
            raw: shows_values.then(|| messages.into()),
        })))
    }

    fn query(text: &str, shows_values: bool) -> String {
        let length = (text.len() as u32 + 5).to_be_bytes();
        requested(&[b"Q", &length[..], text.as_bytes(), b"\0"].concat(), text, shows_values)
    }

    fn bind(shows_values: bool) -> String {
        let body = b"\0s\0\0\x02\0\0\0\x01\0\x03\0\0\0\x06it's\nm\0\0\0\x02\x01\xff\xff\xff\xff\xff\0\0";
        let length = (body.len() as u32 + 4).to_be_bytes();
        requested(&[b"B", &length[..], body, b"E\0\0\0\x09\0\0\0\0\0"].concat(), "select $1, $2, $3", shows_values)
    }

    #[test]
    fn values_are_shown_to_nobody_who_has_not_asked_for_them() {
        let secret = "select 'topsecret', 4711 from t";
        assert_eq!(query(secret, false), "C-0x2a S-0x1f request: Query, 37 bytes: select ?, ... from t");
        assert_eq!(query(secret, true), "C-0x2a S-0x1f request: Query, 37 bytes: select 'topsecret', 4711 from t");
        assert_eq!(bind(false), "C-0x2a S-0x1f request: Parse Bind Describe Execute Sync, 48 bytes: select ?, ...");
        assert_eq!(
            bind(true),
            "C-0x2a S-0x1f request: Parse Bind Describe Execute Sync, 48 bytes: select $1, $2, $3 with $1 = 'it''s\\nm', $2 = \\x01ff, $3 = NULL"
        );
    }

    #[test]
    fn passwords_are_shown_to_nobody() {
        for text in ["alter role x PASSWORD 'topsecret'", "select dblink('host=h passwd=topsecret')"] {
            assert!(!query(text, true).contains("topsecret"), "{text}");
        }
    }

    #[test]
    fn a_text_that_ends_early_or_cannot_be_read_has_no_value_either() {
        for (text, is_whole) in
            [("select 'topsecret", false), ("select 'topsecret", true), ("select $a$topsecret", true)]
        {
            let line = told(What::Requested(Box::new(Requested {
                kinds: b"Q"[..].into(),
                bytes: 7,
                text: text.as_bytes().into(),
                is_whole,
                dialect: Dialect::default(),
                raw: None,
            })));
            assert!(line.ends_with("bytes: select..."), "{line}");
        }
    }

    #[test]
    fn any_bytes_make_a_line() {
        for raw in
            [&b"B\0\0\0\x09\0\0\0\x01"[..], b"B\xff\xff\xff\xff\0\0\0\0\0\x01\xff\xff\xff\x00", b"B\0\0\0\0B\0\0"]
        {
            let line = requested(raw, "x\r\n\u{1b}[2J", true);
            assert!(line.chars().all(|char| !char.is_control()), "{line}");
        }
    }

    #[test]
    fn what_happens_is_told_in_words() {
        let took = Duration::from_micros(12_345);
        for (what, expected) in [
            (What::Lent { waited: took }, "server lent after 12.345 ms"),
            (What::Answers { after: took }, "first byte after 12.345 ms"),
            (
                What::Answered { rows: 1, bytes: 67, took, status: TxStatus::Open },
                "completed after 12.345 ms: 1 row, 67 bytes, in transaction",
            ),
            (
                What::Waits { why: Some(WaitReason::NoneFree), request: None },
                "waits for a server: every server of the pool is taken",
            ),
            (What::Told { texts: vec!["SET a = 'topsecret'".to_owned()] }, "settings applied: SET a = ?"),
            (What::Told { texts: Vec::new() }, "settings applied in the packet of the request"),
            (What::Left { why: "client\nclose".into() }, "client left: client\\nclose"),
        ] {
            assert_eq!(told(what), format!("C-0x2a S-0x1f {expected}"));
        }
    }
}
