//! A password that came in the clear (AuthenticationCleartextPassword), compared with whatever is stored.
//!
//! Always true: the comparison takes the same time wherever the first difference is; nothing matches an empty password
//! or a secret that is not there.
//! Not here: the answer we give to a server that asks so (`Secret::text`).

use std::hint::black_box;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{Secret, md5};

/// Whether the text a client sent is the user's password; `secret` is `None` for an unknown user.
///
/// An unknown user costs as much as one with a plain or md5 secret. A SCRAM secret costs its iterations on top (a
/// millisecond or so for 4096): where the users have those, judge an unknown one by [`refuse`].
#[must_use]
pub fn verify(secret: Option<&Secret>, user: &str, received: impl AsRef<[u8]>) -> bool {
    let received = received.as_ref();
    // Both are computed for every kind of secret, also when they are not wanted: the time must not tell the kinds
    // apart.
    let clear_digest = black_box(digest(received));
    let md5_digits = black_box(md5::stored(user, received));
    let expected = match secret {
        Some(Secret::Plain(password)) => digest(password.as_bytes()),
        _ => black_box(digest(DECOY)),
    };
    let is_match = match secret {
        Some(Secret::Md5(digits)) => md5_digits.ct_eq(digits),
        Some(Secret::Scram(scram)) => scram.is_of(received),
        _ => clear_digest.ct_eq(&expected),
    };
    bool::from(is_match) & matches!(secret, Some(secret) if *secret != Secret::None) & !received.is_empty()
}

/// Refuses an unknown user after the work that a user with a secret such as `like` would have cost. Never true.
#[must_use]
pub fn refuse(like: &Secret, user: &str, received: impl AsRef<[u8]>) -> bool {
    black_box(verify(Some(like), user, received));
    false
}

/// Passwords are compared by their digests, which are equally long and differ everywhere when they differ at all.
fn digest(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Hashed in place of a password that is not there. It may be guessed freely: it never opens anything.
const DECOY: &[u8] = b"no password";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScramSecret;

    fn secrets() -> [Secret; 3] {
        [
            Secret::parse("pencil"),
            Secret::Md5(md5::stored("user", "pencil")),
            Secret::Scram(ScramSecret::derive("pencil", b"salt", 3).into()),
        ]
    }

    #[test]
    fn the_right_password_fits_every_kind_of_secret() {
        for secret in secrets() {
            assert!(verify(Some(&secret), "user", "pencil"), "{secret:?}");
        }
    }

    #[test]
    fn any_other_password_fits_none() {
        for secret in secrets() {
            for received in ["", "p", "penci", "pencil ", "Pencil", "no password", "md5"] {
                assert!(!verify(Some(&secret), "user", received), "{secret:?} {received}");
            }
            assert!(!verify(Some(&secret), "user", secret.text()) || matches!(secret, Secret::Plain(_)));
        }
    }

    #[test]
    fn an_md5_secret_belongs_to_its_user() {
        assert!(!verify(Some(&secrets()[1]), "another", "pencil"));
    }

    #[test]
    fn nothing_fits_a_secret_that_is_not_there() {
        for received in ["", "pencil", "no password", "md5"] {
            assert!(!verify(None, "user", received));
            assert!(!verify(Some(&Secret::None), "user", received));
        }
    }

    #[test]
    fn an_empty_password_fits_not_even_its_own_hash() {
        assert!(!verify(Some(&Secret::Md5(md5::stored("user", ""))), "user", ""));
        assert!(!verify(Some(&Secret::Scram(ScramSecret::derive("", b"salt", 1).into())), "user", ""));
    }

    #[test]
    fn a_refusal_is_one_even_for_the_right_password() {
        for secret in secrets() {
            assert!(!refuse(&secret, "user", "pencil"));
        }
    }
}
