//! Reads what a message of the extended protocol says about a statement, from the part that has arrived.
//!
//! Always true: nothing is copied; names of statements are truncated as PostgreSQL truncates them; a message that
//! concerns no named statement is recognised as soon as that can be known, which is after one or two bytes for drivers
//! that use no names, or when an unnamed Parse is complete.
//! Not here: what is done about it (`server_statements`).

use wire::frontend;

use super::{NAME_BYTES_MAX, cut};
use crate::fault::Fault;

/// What is known of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head<'a> {
    /// Too little has arrived.
    More,
    /// It concerns no named statement.
    Plain,
    /// It concerns a named statement.
    Named(Ask<'a>),
}

/// What a client asks of a named statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask<'a> {
    /// Parse.
    Parse {
        /// The client's name for it.
        name: &'a [u8],
        /// The query, its zero byte, and the types of its parameters: all that follows the name.
        text: &'a [u8],
    },
    /// Bind.
    Bind {
        /// The portal that it creates.
        portal: &'a [u8],
        /// The client's name for the statement.
        name: &'a [u8],
        /// The position in the body where the values begin.
        end: usize,
    },
    /// Describe.
    Describe {
        /// The client's name for the statement.
        name: &'a [u8],
    },
    /// Close.
    Close {
        /// The client's name for the statement.
        name: &'a [u8],
    },
}

/// Whether messages of this kind can concern a named statement.
#[must_use]
pub fn concerns(kind: u8) -> bool {
    matches!(kind, frontend::PARSE | frontend::BIND | frontend::DESCRIBE | frontend::CLOSE)
}

/// Reads the beginning of a body that has `body_bytes` in all.
///
/// # Errors
/// The message is malformed; the server would report the same.
#[inline]
pub fn head(kind: u8, body: &[u8], body_bytes: usize) -> Result<Head<'_>, Fault> {
    let is_whole = body.len() == body_bytes;
    let broken = Fault::BrokenMessage { kind };
    let found = match kind {
        frontend::PARSE => look_at_parse(body, is_whole, body_bytes),
        frontend::BIND => head_of_bind(body),
        frontend::DESCRIBE | frontend::CLOSE => look_at_target(kind, body, is_whole),
        _ => Some(Head::Plain),
    };
    match found {
        Some(Head::More) if is_whole || body.len() > 2 * NAME_BYTES_MAX && kind != frontend::PARSE => Err(broken),
        Some(head) => Ok(head),
        None => Err(broken),
    }
}

/// What is asked of the unnamed statement, where that is treated as a named one, by a body that is plain according to
/// [`head`]. `None` if it concerns a portal, is malformed, or is an incomplete Parse.
#[must_use]
pub fn head_of_unnamed(kind: u8, body: &[u8]) -> Option<Ask<'_>> {
    let name: &[u8] = b"";
    match kind {
        frontend::PARSE => {
            let text = body.strip_prefix(b"\0").filter(|text| is_statement(text))?;
            Some(Ask::Parse { name, text })
        }
        frontend::BIND => {
            let (portal, rest) = c_string(body)?;
            let rest = rest.strip_prefix(b"\0")?;
            Some(Ask::Bind { portal, name, end: body.len() - rest.len() })
        }
        frontend::DESCRIBE => (body == b"S\0").then_some(Ask::Describe { name }),
        frontend::CLOSE => (body == b"S\0").then_some(Ask::Close { name }),
        _ => None,
    }
}

/// The name in the part of a Parse that has arrived, if it gives one.
#[must_use]
pub fn given_name(body: &[u8]) -> Option<&[u8]> {
    c_string(body).map(|(name, _)| name).filter(|name| (1..NAME_BYTES_MAX).contains(&name.len())).map(cut)
}

/// Returns `None` for a malformed message.
#[inline]
fn look_at_parse(body: &[u8], is_whole: bool, body_bytes: usize) -> Option<Head<'_>> {
    let Some((name, text)) = c_string(body) else {
        return (body.len() <= NAME_BYTES_MAX).then_some(Head::More);
    };
    match (name.len(), is_whole) {
        // A Parse that arrives in parts can only be kept while it arrives.
        (0, false) if body_bytes <= UNNAMED_BYTES_MAX => Some(Head::More),
        (0, _) => Some(Head::Plain),
        (NAME_BYTES_MAX.., _) => None,
        (_, false) => Some(Head::More),
        (_, true) => is_statement(text).then_some(Head::Named(Ask::Parse { name: cut(name), text })),
    }
}

/// Whether this is a text and the types of its parameters, and nothing more.
fn is_statement(text: &[u8]) -> bool {
    let types = c_string(text).and_then(|(_, types)| types.split_first_chunk::<2>());
    types.is_some_and(|(count, oids)| oids.len() == 4 * usize::from(u16::from_be_bytes(*count)))
}

/// Reads the beginning of a Bind; `None` if it is malformed.
#[inline]
#[must_use]
pub fn head_of_bind(body: &[u8]) -> Option<Head<'_>> {
    let Some((portal, rest)) = c_string(body) else { return Some(Head::More) };
    let Some((name, rest)) = c_string(rest) else { return Some(Head::More) };
    match name.len() {
        0 => Some(Head::Plain),
        NAME_BYTES_MAX.. => None,
        _ => Some(Head::Named(Ask::Bind { portal, name: cut(name), end: body.len() - rest.len() })),
    }
}

/// Describe and Close name a statement or a portal.
fn look_at_target(kind: u8, body: &[u8], is_whole: bool) -> Option<Head<'_>> {
    match body {
        [] | [b'S'] => Some(Head::More),
        [b'S', 0, ..] => Some(Head::Plain),
        [b'S', name @ ..] if is_whole => {
            let (given, rest) = c_string(name)?;
            let name = cut(given);
            let ask = if kind == frontend::CLOSE { Ask::Close { name } } else { Ask::Describe { name } };
            (rest.is_empty() && given.len() < NAME_BYTES_MAX).then_some(Head::Named(ask))
        }
        [b'S', ..] => Some(Head::More),
        // A portal, or something that the server refuses itself.
        _ => Some(Head::Plain),
    }
}

/// A longer unnamed Parse that arrives in parts is not kept.
const UNNAMED_BYTES_MAX: usize = 1 << 20;

/// How many bytes of a string are looked at one by one.
const SHORT_BYTES: usize = 8;

/// Splits off a zero-terminated string.
#[inline]
fn c_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // Most names are short, and found sooner byte by byte.
    let end = bytes.iter().take(SHORT_BYTES).position(|&byte| byte == 0).or_else(|| memchr::memchr(0, bytes))?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_the_statement_without_a_name_is_known_where_it_is_whole() {
        let name: &[u8] = b"";
        for (kind, body, ask) in [
            (frontend::PARSE, &b"\0select 1\0\0\0"[..], Some(Ask::Parse { name, text: b"select 1\0\0\0" })),
            (frontend::PARSE, b"\0select 1\0\0\x01", None),
            (frontend::PARSE, b"a\0select 1\0\0\0", None),
            (frontend::BIND, b"p\0\0\0\0", Some(Ask::Bind { portal: b"p", name, end: 3 })),
            (frontend::BIND, b"p\0a\0", None),
            (frontend::DESCRIBE, b"S\0", Some(Ask::Describe { name })),
            (frontend::DESCRIBE, b"P\0", None),
            (frontend::CLOSE, b"S\0", Some(Ask::Close { name })),
            (frontend::CLOSE, b"Sa\0", None),
            (frontend::EXECUTE, b"\0", None),
        ] {
            assert_eq!(head_of_unnamed(kind, body), ask, "{} {}", char::from(kind), body.escape_ascii());
        }
    }

    #[test]
    fn a_name_that_a_parse_gives_is_known_as_soon_as_it_has_come() {
        let long = [&b"x".repeat(NAME_BYTES_MAX)[..], b"\0"].concat();
        for (body, name) in [(&b"a\0select"[..], Some(&b"a"[..])), (b"a", None), (b"\0select", None), (&long, None)] {
            assert_eq!(given_name(body), name, "{}", body.escape_ascii());
        }
    }

    #[test]
    fn a_name_is_shorter_than_the_longest() {
        for (bytes, is_one) in [(NAME_BYTES_MAX - 1, true), (NAME_BYTES_MAX, false)] {
            let body = [&b"S"[..], &b"x".repeat(bytes), b"\0"].concat();
            for kind in [frontend::DESCRIBE, frontend::CLOSE] {
                assert_eq!(head(kind, &body, body.len()).is_ok(), is_one, "{bytes}");
            }
        }
        let begun = [b'x'; 2 * NAME_BYTES_MAX + 1];
        for (bytes, may_come) in [(2 * NAME_BYTES_MAX, true), (2 * NAME_BYTES_MAX + 1, false)] {
            assert_eq!(head(frontend::BIND, &begun[..bytes], 10_000).is_ok(), may_come, "{bytes}");
        }
    }
}
