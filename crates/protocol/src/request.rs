//! A client's request as bytes: the messages that the server answers with one `ReadyForQuery`.
//!
//! Always true: a message that has not come whole is not counted.
//! Not here: messages in pieces (`wire::Scanner`), what the server owes for a request (`exchange`).

use wire::{frontend, write};

/// The whole messages at the start of `bytes`, each with its offset, kind and body; stops at the first incomplete one.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = (usize, u8, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let (&kind, rest) = bytes.get(start..)?.split_first()?;
        let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let body = rest.get(size_of::<u32>()..length)?;
        at = start + 1 + length;
        Some((start, kind, body))
    })
}

/// Whether these bytes are one request: a Query, or messages of the extended protocol up to their Sync.
#[must_use]
pub fn is_one_request(bytes: &[u8]) -> bool {
    for (at, kind, body) in messages(bytes) {
        let is_end = at + 1 + size_of::<u32>() + body.len() == bytes.len();
        match kind {
            frontend::QUERY => return at == 0 && is_end,
            frontend::SYNC => return at > 0 && is_end,
            frontend::PARSE
            | frontend::BIND
            | frontend::DESCRIBE
            | frontend::EXECUTE
            | frontend::CLOSE
            | frontend::FLUSH => {}
            _ => return false,
        }
    }
    false
}

/// Whether these bytes are one request that runs at most one statement: a Query, or a batch with at most one Bind.
#[must_use]
pub fn is_of_one_statement(bytes: &[u8]) -> bool {
    is_one_request(bytes) && messages(bytes).filter(|(_, kind, _)| *kind == frontend::BIND).count() <= 1
}

/// The request with another text in its Query, or in its first Parse.
#[must_use]
pub fn with_text(request: &[u8], text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.len() + text.len());
    let mut is_said = false;
    for (_, kind, body) in messages(request) {
        match kind {
            frontend::QUERY if !is_said => write::query(&mut out, text),
            frontend::PARSE if !is_said => write::message(&mut out, kind, |out| {
                let ends: Vec<usize> =
                    body.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at + 1).take(2).collect();
                let [name, statement] = ends[..] else { return out.extend_from_slice(body) };
                out.extend_from_slice(&body[..name]);
                out.extend_from_slice(text.as_bytes());
                out.push(0);
                out.extend_from_slice(&body[statement..]);
            }),
            _ => write::message(&mut out, kind, |out| out.extend_from_slice(body)),
        }
        is_said |= matches!(kind, frontend::QUERY | frontend::PARSE);
    }
    out
}

/// A request of these messages, each with its kind and body.
#[cfg(test)]
pub(crate) fn request_of(messages: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    messages.iter().for_each(|(kind, body)| write::message(&mut out, *kind, |out| out.extend_from_slice(body)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(kinds: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        kinds.iter().for_each(|&kind| write::bare(&mut bytes, kind));
        bytes
    }

    #[test]
    fn one_request_goes_along() {
        for kinds in [&b"Q"[..], b"PBDES", b"BEBES", b"PDHS", b"CS"] {
            assert!(is_one_request(&batch(kinds)), "{kinds:?}");
        }
    }

    #[test]
    fn a_request_gets_another_text() {
        let mut query = Vec::new();
        write::query(&mut query, "old");
        let mut wanted = Vec::new();
        write::query(&mut wanted, "a new one");
        assert_eq!(with_text(&query, "a new one"), wanted);
        let batch = |text: &str| {
            let parse = [b"name\0", text.as_bytes(), b"\0\0\x01\0\0\0\x17"].concat();
            request_of(&[(frontend::PARSE, &parse), (frontend::DESCRIBE, b"Sname\0"), (frontend::SYNC, b"")])
        };
        assert_eq!(with_text(&batch("old"), "a new one"), batch("a new one"));
    }

    #[test]
    fn two_binds_run_two_statements() {
        for (kinds, is_one) in [(&b"Q"[..], true), (b"PBDES", true), (b"PS", true), (b"BEBES", false), (b"BE", false)] {
            assert_eq!(is_of_one_statement(&batch(kinds)), is_one, "{kinds:?}");
        }
    }

    #[test]
    fn what_would_be_run_behind_a_sync_does_not() {
        for kinds in [&b"BE"[..], b"BESBES", b"BESQ", b"QQ", b"BEQ", b"S", b"BESX", b"FS", b"dS", b""] {
            assert!(!is_one_request(&batch(kinds)), "{kinds:?}");
        }
        let mut query = Vec::new();
        write::query(&mut query, "select 1");
        assert!(!is_one_request(&query[..7]), "it has not come whole");
        assert!(!is_one_request(b"Q\0\0\0\x02"), "no message is that short");
    }
}
