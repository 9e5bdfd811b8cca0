//! Checks a cleartext password (AuthenticationCleartextPassword) against any kind of stored secret.
//!
//! Always true: the comparison takes the same time wherever the first difference is; nothing matches an empty password
//! or a missing secret. A SCRAM secret is compared with the result of the password's [`Derivation`], which is slow and
//! therefore runs elsewhere.
//! Not here: our answer to a server that asks for a cleartext password (`Secret::text`).

use std::hint::black_box;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{Derivation, Password, SaltedPassword, ScramSecret, Secret, md5};

/// The result of checking a password that a client sent.
#[derive(Debug)]
pub enum Check {
    /// Whether the password is correct.
    Done(bool),
    /// The password must be hashed, and the result compared with the SCRAM secret by [`fits`].
    Derive(Derivation),
}

/// Checks whether the text that a client sent is the user's password; `secret` is `None` for an unknown user.
///
/// An unknown user costs as much as a user with a plain or md5 secret. A SCRAM secret costs its iterations on top, so if the
/// users have SCRAM secrets, the caller should check an unknown user against one of them and refuse whatever the result.
#[must_use]
pub fn check(secret: Option<&Secret>, user: &str, received: &[u8]) -> Check {
    match (secret, Password::new(received)) {
        (Some(Secret::Scram(scram)), Some(password)) => Check::Derive(scram.derivation(password)),
        (secret, _) => Check::Done(verify(secret, user, received)),
    }
}

/// Whether a hashed password is the password of the SCRAM secret for which it was hashed.
#[must_use]
pub fn fits(secret: &ScramSecret, salted: &SaltedPassword) -> bool {
    secret.is_of(salted).into()
}

fn verify(secret: Option<&Secret>, user: &str, received: &[u8]) -> bool {
    // Both are computed for every kind of secret, even if not used, so that the time does not reveal the kind.
    let clear_digest = black_box(digest(received));
    let md5_digits = black_box(md5::stored(user, received));
    let expected = match secret {
        Some(Secret::Plain(password)) => digest(password.as_bytes()),
        _ => black_box(digest(DECOY)),
    };
    let is_match = match secret {
        Some(Secret::Md5(digits)) => md5_digits.ct_eq(digits),
        _ => clear_digest.ct_eq(&expected),
    };
    bool::from(is_match) & matches!(secret, Some(Secret::Plain(_) | Secret::Md5(_))) & !received.is_empty()
}

/// Passwords are compared by their digests, which have equal lengths and reveal nothing by the place of a difference.
fn digest(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Hashed in place of a missing password. It need not be secret, because it never lets a client in.
const DECOY: &[u8] = b"no password";

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a password, including the derivation if one is needed.
    fn is_right(secret: Option<&Secret>, user: &str, received: impl AsRef<[u8]>) -> bool {
        match (check(secret, user, received.as_ref()), secret) {
            (Check::Done(is_right), _) => is_right,
            (Check::Derive(derivation), Some(Secret::Scram(scram))) => fits(scram, &derivation.run()),
            (Check::Derive(_), _) => panic!("nothing to be hashed"),
        }
    }

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
            assert!(is_right(Some(&secret), "user", "pencil"), "{secret:?}");
        }
    }

    #[test]
    fn any_other_password_fits_none() {
        for secret in secrets() {
            for received in ["", "p", "penci", "pencil ", "Pencil", "no password", "md5"] {
                assert!(!is_right(Some(&secret), "user", received), "{secret:?} {received}");
            }
            assert!(!is_right(Some(&secret), "user", secret.text()) || matches!(secret, Secret::Plain(_)));
        }
    }

    #[test]
    fn an_md5_secret_belongs_to_its_user() {
        assert!(!is_right(Some(&secrets()[1]), "another", "pencil"));
    }

    #[test]
    fn nothing_fits_a_secret_that_is_not_there() {
        for received in ["", "pencil", "no password", "md5"] {
            assert!(!is_right(None, "user", received));
            assert!(!is_right(Some(&Secret::None), "user", received));
        }
    }

    #[test]
    fn an_empty_password_fits_not_even_its_own_hash() {
        assert!(!is_right(Some(&Secret::Md5(md5::stored("user", ""))), "user", ""));
        assert!(!is_right(Some(&Secret::Scram(ScramSecret::derive("", b"salt", 1).into())), "user", ""));
    }

    #[test]
    fn what_is_slow_is_not_done_here() {
        let is_slow = |secret| matches!(check(Some(&secret), "user", b"pencil"), Check::Derive(_));
        assert_eq!(secrets().map(is_slow), [false, false, true]);
    }
}
