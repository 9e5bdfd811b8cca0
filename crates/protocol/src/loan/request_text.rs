//! The text of a request, to be shown where a request takes long.
//!
//! Always true: no more than [`REQUEST_TEXT_BYTES_MAX`] of it are examined, however long it is, because a client may bind
//! a named statement any number of times.
//! Not here: how it is shown without its values (`route`).

use wire::frontend;

use crate::prepared::Names;

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
            names.zip(name).and_then(|(names, name)| names.text_of(name))
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

#[cfg(test)]
mod tests {
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
}
