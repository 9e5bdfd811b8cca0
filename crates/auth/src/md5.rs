//! md5 authentication: AuthenticationMD5Password and its answer, as in PostgreSQL's `md5_common.c`.
//!
//! Always true: an answer is compared in constant time, and a user without a usable secret costs the same work.
//! Not here: the generation of the salt.

use std::hint::black_box;

use ::md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use crate::Secret;

/// The 32 hexadecimal digits that are stored for a password: md5(password, user), as in [`Secret::Md5`].
#[must_use]
pub fn stored(user: &str, password: impl AsRef<[u8]>) -> [u8; 32] {
    hex_digest(&[password.as_ref(), user.as_bytes()])
}

/// The answer to a server that sent this salt: `md5` and 32 digits, for a PasswordMessage. `None` if the secret is neither
/// a password nor an md5 hash.
#[must_use]
pub fn answer(secret: &Secret, user: &str, salt: [u8; 4]) -> Option<[u8; 35]> {
    match secret {
        Secret::Plain(password) => Some(salted(&stored(user, password.as_bytes()), salt)),
        Secret::Md5(digits) => Some(salted(digits, salt)),
        Secret::None | Secret::Scram(_) => None,
    }
}

/// Whether a client's answer to this salt is correct; `secret` is `None` for an unknown user.
#[must_use]
pub fn verify(secret: Option<&Secret>, user: &str, salt: [u8; 4], answer: &[u8]) -> bool {
    let (password, kept) = match secret {
        Some(Secret::Plain(password)) => (password.as_bytes(), None),
        Some(Secret::Md5(digits)) => (DECOY, Some(digits)),
        _ => (DECOY, None),
    };
    let is_usable = matches!(secret, Some(Secret::Plain(_) | Secret::Md5(_)));
    // Computed for every kind of secret, even if the result is not used, so that the time does not reveal the kind.
    let hashed = black_box(stored(user, password));
    let expected = salted(kept.unwrap_or(&hashed), salt);
    bool::from(expected[..].ct_eq(answer)) & is_usable
}

fn salted(digits: &[u8; 32], salt: [u8; 4]) -> [u8; 35] {
    let mut text = [0; 35];
    text[..3].copy_from_slice(b"md5");
    text[3..].copy_from_slice(&hex_digest(&[digits, &salt]));
    text
}

fn hex_digest(parts: &[&[u8]]) -> [u8; 32] {
    let digest = parts.iter().fold(Md5::new(), |hash, part| hash.chain_update(part)).finalize();
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    text
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Hashed in place of a missing password. It need not be secret, because it never lets a client in.
const DECOY: &[u8] = b"no password";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScramSecret;

    const SALT: [u8; 4] = [1, 2, 3, 4];

    // Computed with `md5sum`: printf 'foosomeuser' | md5sum, and the digits followed by the four bytes of the salt.
    const STORED: &[u8; 32] = b"00cc3cd43ac1459b31f1ac2d7d8ca40a";
    const ANSWER: &[u8; 35] = b"md563516d7bbf8c00e6d934bc31be828c1a";

    fn scram() -> Secret {
        Secret::Scram(ScramSecret::derive("foo", b"salt", 1).into())
    }

    #[test]
    fn the_digest_of_nothing_is_the_known_one() {
        assert_eq!(&stored("", ""), b"d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(&stored("c", "ab"), b"900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn the_stored_form_is_that_of_postgresql() {
        assert_eq!(&stored("someuser", "foo"), STORED);
    }

    #[test]
    fn the_same_answer_comes_from_the_password_and_from_its_hash() {
        assert_eq!(answer(&Secret::parse("foo"), "someuser", SALT), Some(*ANSWER));
        assert_eq!(answer(&Secret::Md5(*STORED), "someuser", SALT), Some(*ANSWER));
    }

    #[test]
    fn nothing_is_answered_without_a_fitting_secret() {
        assert_eq!(answer(&Secret::None, "someuser", SALT), None);
        assert_eq!(answer(&scram(), "someuser", SALT), None);
    }

    #[test]
    fn the_right_answer_is_accepted_for_both_kinds() {
        assert!(verify(Some(&Secret::parse("foo")), "someuser", SALT, ANSWER));
        assert!(verify(Some(&Secret::Md5(*STORED)), "someuser", SALT, ANSWER));
    }

    #[test]
    fn a_wrong_answer_is_refused() {
        let secret = Secret::parse("foo");
        assert!(!verify(Some(&secret), "someuser", [1, 2, 3, 5], ANSWER));
        assert!(!verify(Some(&secret), "another", SALT, ANSWER));
        assert!(!verify(Some(&secret), "someuser", SALT, &ANSWER[..34]));
        assert!(!verify(Some(&secret), "someuser", SALT, b""));
        assert!(!verify(Some(&secret), "someuser", SALT, b"foo"));
        assert!(!verify(Some(&Secret::Md5(*STORED)), "someuser", SALT, STORED));
    }

    #[test]
    fn no_answer_fits_a_secret_that_is_not_there() {
        let decoyed = answer(&Secret::parse(DECOY), "someuser", SALT).expect("a password answers");
        for secret in [None, Some(&Secret::None), Some(&scram())] {
            assert!(!verify(secret, "someuser", SALT, ANSWER));
            assert!(!verify(secret, "someuser", SALT, &decoyed));
        }
    }
}
