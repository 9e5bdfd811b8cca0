//! The models that targets compare with: the other side of a conversation, written from PostgreSQL's sources and manual
//! and not from our code.

pub(crate) mod ini;
mod machines;
pub(crate) mod pair;
pub(crate) mod postgres;

/// Splits our own output into messages: types and bodies.
///
/// # Panics
/// The bytes are not a sequence of whole messages.
pub(crate) fn messages(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [kind, a, b, c, d, rest @ ..] = bytes {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        assert!(length >= 4 && length - 4 <= rest.len(), "a message of ours is torn: kind {kind}, length {length}");
        found.push((*kind, &rest[..length - 4]));
        bytes = &rest[length - 4..];
    }
    assert!(bytes.is_empty(), "bytes of ours that are no message: {bytes:?}");
    found
}
