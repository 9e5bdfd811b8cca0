//! The text of a request: to be shown where a request takes long, or to be read before it is sent.
//!
//! Always true: no more than [`REQUEST_TEXT_BYTES_MAX`] of it are examined, however long it is, because a client may bind
//! a named statement any number of times.
//! Not here: how it is shown without its values (`route`).

use wire::frontend;

use crate::prepared::Names;
use crate::request::messages;

/// A text, or the beginning of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestText<'r> {
    /// What is known of it; empty if nothing is.
    pub bytes: &'r [u8],
    /// These are all of its bytes.
    pub is_whole: bool,
}

/// The text of the request that begins with these bytes: for a Query or a Parse its own, for a Bind the text of the named
/// statement.
#[must_use]
pub fn request_text<'r>(bytes: &'r [u8], names: Option<&'r Names>) -> RequestText<'r> {
    let Some((&kind, body)) = bytes.get(HEADER_BYTES..).and_then(|body| Some((bytes.first()?, body))) else {
        return RequestText::default();
    };
    let text = match kind {
        frontend::QUERY => Some(body),
        frontend::PARSE => field(body).map(|(_, text)| text),
        frontend::BIND => {
            let name = field(body).and_then(|(_, rest)| field(rest)).map(|(name, _)| name);
            names.zip(name).and_then(|(names, name)| names.statement(name)).map(|statement| &**statement.text())
        }
        _ => None,
    };
    let Some(text) = text else { return RequestText::default() };
    match field(text) {
        Some((bytes, _)) => RequestText { bytes, is_whole: true },
        None => RequestText { bytes: &text[..text.len().min(REQUEST_TEXT_BYTES_MAX)], is_whole: false },
    }
}

/// The bytes up to a zero byte, and the bytes behind it.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().take(REQUEST_TEXT_BYTES_MAX).position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// The number of bytes of a text that are examined at most.
pub const REQUEST_TEXT_BYTES_MAX: usize = 16_384;
/// A message begins with its kind and length.
const HEADER_BYTES: usize = 5;

/// The text of the only statement that a request runs, once: that of a Query, or of a batch that binds and executes one
/// statement, also one that was prepared under a name before. `None` for other requests, for long texts, and for requests
/// that are not here as a whole.
#[must_use]
pub(super) fn only_text<'r>(request: &'r [u8], names: Option<&'r Names>) -> Option<&'r [u8]> {
    let (mut prepared, mut bound, mut is_executed) = (None, None, false);
    for (_, kind, body) in messages(request) {
        match kind {
            frontend::QUERY => return body.strip_suffix(&[0]),
            frontend::PARSE if prepared.is_none() && bound.is_none() => {
                let (name, rest) = field(body)?;
                prepared = Some((name, field(rest)?.0));
            }
            frontend::BIND if bound.is_none() => {
                let (_, rest) = field(body)?;
                let (name, _) = field(rest)?;
                bound = Some(match prepared {
                    Some((given, text)) if given == name => text,
                    Some(_) => return None,
                    // Its parameter types follow.
                    None => field(names?.statement(name)?.text())?.0,
                });
            }
            // A statement that is described may have to be prepared on the server first, where settings matter.
            frontend::DESCRIBE if body.starts_with(b"P") => {}
            frontend::EXECUTE if bound.is_some() && !is_executed => is_executed = true,
            frontend::SYNC if is_executed => return bound,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use wire::write;

    use super::*;

    fn told(bytes: &[u8]) -> (String, bool) {
        let text = request_text(bytes, None);
        (String::from_utf8_lossy(text.bytes).into_owned(), text.is_whole)
    }

    #[test]
    fn the_text_is_known_as_far_as_it_has_come() {
        for (bytes, text, is_whole) in [
            (&b"Q\0\0\0\rselect 1\0"[..], "select 1", true),
            (b"Q\0\0\0\rselect", "select", false),
            (b"P\0\0\0\rs\0select 1\0\0\0", "select 1", true),
            (b"P\0\0\0\rs", "", false),
            (b"B\0\0\0\r\0s\0", "", false),
            (b"S\0\0\0\x04", "", false),
            (b"Q\0\0", "", false),
            (b"", "", false),
        ] {
            assert_eq!(told(bytes), (text.to_owned(), is_whole), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn no_more_is_looked_at_than_there_may_be() {
        let long = [&b"Q\0\0\0\0"[..], &b"x".repeat(10 * REQUEST_TEXT_BYTES_MAX), b"\0"].concat();
        let (text, is_whole) = told(&long);
        assert_eq!((text.len(), is_whole), (REQUEST_TEXT_BYTES_MAX, false));
    }

    #[test]
    fn one_statement_has_one_text() {
        let text = |make: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            make(&mut bytes);
            only_text(&bytes, None).map(|text| String::from_utf8_lossy(text).into_owned())
        };
        let parse = |out: &mut Vec<u8>, name: &str| write::parse(out, name.as_bytes(), "set a = 1", std::iter::empty());
        let bind = |out: &mut Vec<u8>, name: &str| write::bind(out, name, std::iter::empty::<Option<&str>>());
        let set = Some("set a = 1".to_owned());
        assert_eq!(text(&|out| write::query(out, "set a = 1")), set);
        for name in ["", "s"] {
            let batch = |out: &mut Vec<u8>| {
                parse(out, name);
                bind(out, name);
                write::message(out, frontend::DESCRIBE, |out| out.extend_from_slice(b"P\0"));
                write::execute(out);
            };
            assert_eq!(
                text(&|out| {
                    batch(out);
                    write::bare(out, frontend::SYNC)
                }),
                set
            );
            assert_eq!(
                text(&|out| {
                    parse(out, name);
                    bind(out, name);
                    write::message(out, frontend::DESCRIBE, |out| out.extend_from_slice(b"Sother\0"));
                    write::execute(out);
                    write::bare(out, frontend::SYNC)
                }),
                None,
                "the other may be prepared by it"
            );
            assert_eq!(text(&|out| batch(out)), None, "its end is not here");
            assert_eq!(
                text(&|out| {
                    batch(out);
                    write::execute(out);
                    write::bare(out, frontend::SYNC)
                }),
                None
            );
            assert_eq!(
                text(&|out| {
                    batch(out);
                    bind(out, name);
                    write::bare(out, frontend::SYNC)
                }),
                None
            );
            assert_eq!(
                text(&|out| {
                    batch(out);
                    parse(out, name);
                    write::bare(out, frontend::SYNC)
                }),
                None
            );
            assert_eq!(
                text(&|out| {
                    batch(out);
                    write::bare(out, frontend::FLUSH);
                    write::bare(out, frontend::SYNC)
                }),
                None
            );
        }
        let of_another = |out: &mut Vec<u8>| {
            parse(out, "s");
            bind(out, "t");
            write::execute(out);
            write::bare(out, frontend::SYNC);
        };
        assert_eq!(text(&of_another), None);
        let of_nobody = |out: &mut Vec<u8>| {
            bind(out, "t");
            write::execute(out);
            write::bare(out, frontend::SYNC);
        };
        assert_eq!(text(&of_nobody), None);
        let not_executed = |out: &mut Vec<u8>| {
            parse(out, "");
            bind(out, "");
            write::bare(out, frontend::SYNC);
        };
        assert_eq!(text(&not_executed), None);
        assert_eq!(only_text(b"", None), None);
        assert_eq!(only_text(b"B\0\0\0\x04S\0\0\0\x04", None), None, "no name ends");
    }
}
