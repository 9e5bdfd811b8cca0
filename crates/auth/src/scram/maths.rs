//! The functions of RFC 5802, section 3, with SHA-256: `Hi`, `HMAC`, `H`, and PostgreSQL's preparation of a password.
//!
//! Always true: keys are compared in constant time.
//! Not here: the order of the computations in a login (`server`, `client`).

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// A key, a digest, a signature or a proof.
pub(super) type Key = [u8; 32];

/// `Hi(Normalize(password), salt, iterations)`, the slow function. 0 iterations count as 1.
pub(super) fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let mut salted = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(&prepared(password), salt, iterations.max(1), &mut salted);
    salted
}

/// `HMAC(key, parts)` over the concatenated parts.
pub(super) fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    // HMAC accepts keys of any length: a long key is hashed, a short one is padded (RFC 2104, section 2).
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().fold(mac, |mac, part| mac.chain_update(part)).finalize().into_bytes().into()
}

/// `H(key)`.
pub(super) fn hash(key: &Key) -> Key {
    Sha256::digest(key).into()
}

pub(super) fn xor(a: &Key, b: &Key) -> Key {
    std::array::from_fn(|at| a[at] ^ b[at])
}

pub(super) fn equal(a: &[u8], b: &[u8]) -> Choice {
    a.ct_eq(b)
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(super) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

pub(super) fn key_from_base64(text: &[u8]) -> Option<Key> {
    from_base64(text)?.try_into().ok()
}

/// SASLprep (RFC 4013) as PostgreSQL applies its `saslprep.c`: a password that is not UTF-8, has a prohibited character, or
/// would become empty, is used unchanged.
fn prepared(password: &[u8]) -> Cow<'_, [u8]> {
    let prepared = std::str::from_utf8(password).ok().and_then(|text| stringprep::saslprep(text).ok());
    match prepared {
        Some(text) if !text.is_empty() => match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
        _ => Cow::Borrowed(password),
    }
}

/// Base64 with padding. Like PostgreSQL's `base64.c`, it ignores the unused bits of the last digit.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared_text(password: &str) -> Vec<u8> {
        prepared(password.as_bytes()).into_owned()
    }

    // The examples of RFC 4013, section 3, with PostgreSQL's fallback for the last two.
    #[test]
    fn passwords_are_prepared_as_in_the_examples_of_the_rfc() {
        assert_eq!(prepared_text("I\u{ad}X"), b"IX");
        assert_eq!(prepared_text("user"), b"user");
        assert_eq!(prepared_text("USER"), b"USER");
        assert_eq!(prepared_text("\u{aa}"), b"a");
        assert_eq!(prepared_text("\u{2168}"), b"IX");
        assert_eq!(prepared_text("\u{7}"), b"\x07");
        assert_eq!(prepared_text("\u{627}\u{31}"), "\u{627}\u{31}".as_bytes());
    }

    #[test]
    fn what_cannot_be_prepared_is_taken_as_it_is() {
        assert_eq!(prepared_text("\u{aa}\u{7}"), "\u{aa}\u{7}".as_bytes());
        assert_eq!(prepared_text("\u{ad}"), "\u{ad}".as_bytes());
        assert_eq!(&*prepared(b"\xaa\xff"), b"\xaa\xff");
    }

    #[test]
    fn base64_without_padding_is_none() {
        assert_eq!(from_base64(b"YQ=="), Some(b"a".to_vec()));
        assert_eq!(from_base64(b"YR=="), Some(b"a".to_vec()));
        for text in [&b"YQ"[..], b"YQ=", b"Y", b"Y Q==", b"YQ==YQ=="] {
            assert_eq!(from_base64(text), None);
        }
    }
}
