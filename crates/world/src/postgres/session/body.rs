//! The bodies of frontend messages: nonces, values, strings.
//!
//! Always true: a body that is too short contains nothing.
//! Not here: what a session does with them (`session`).

use wire::frontend;

use crate::postgres::sql::Nonce;

/// Returns the nonce of a message, if there is one.
pub(super) fn nonce_of(kind: u8, body: &[u8]) -> Option<Nonce> {
    let text = match kind {
        frontend::QUERY => body,
        frontend::PARSE => body.split(|&byte| byte == 0).nth(1)?,
        // The only argument of a `Bind` or `FunctionCall` is the nonce.
        frontend::BIND => return Nonce::read(first_value(body.splitn(3, |&byte| byte == 0).nth(2)?)?),
        frontend::FUNCTION_CALL => return Nonce::read(first_value(body.get(4..)?)?),
        _ => return None,
    };
    let text = std::str::from_utf8(text).ok()?;
    Nonce::read(text.split_once(" n=")?.1)
}

/// Returns the first value behind the number of formats (zero) and the number of values.
pub(super) fn first_value(body: &[u8]) -> Option<&str> {
    let length = u32::from_be_bytes(*body.get(4..8)?.first_chunk::<4>()?) as usize;
    std::str::from_utf8(body.get(8..8 + length)?).ok()
}

/// Returns the string before the first zero byte.
pub(super) fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}
