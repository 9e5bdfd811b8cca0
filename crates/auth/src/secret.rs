//! The four kinds of secrets that are stored for users.
//!
//! Always true: a [`Password`] is never empty, so an empty one can match nothing; `Debug` shows kinds, never contents.
//! Not here: how each kind is used (`md5`, `plain`, `scram`).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::scram::ScramSecret;

/// A cleartext password of at least one byte, in any encoding. A clone shares the bytes.
///
/// `==` is for noticing that a reload changed the password; it never decides a login, because it is not constant-time.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Arc<[u8]>);

impl Password {
    /// Returns a password of these bytes; `None` if they are empty, because an empty password matches no user.
    #[must_use]
    pub fn new(text: impl AsRef<[u8]>) -> Option<Self> {
        let text = text.as_ref();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The bytes, at least one.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// The stored secret of a user. `==` is for noticing that a reload changed it; it never decides a login.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Secret {
    /// Nothing: the user exists but has no password.
    #[default]
    None,
    /// The password itself.
    Plain(Password),
    /// The 32 lower-case hexadecimal digits of md5(password, user), without the prefix `md5`.
    Md5([u8; 32]),
    /// PostgreSQL's SCRAM secret; shared, because a login holds it over several turns.
    Scram(Arc<ScramSecret>),
}

impl Secret {
    /// Parses the textual form that `pg_authid.rolpassword` and the auth file use. A text that resembles md5 or SCRAM but does
    /// not match the format exactly is a plain password, as in PgBouncer; the empty text is [`Secret::None`].
    #[must_use]
    pub fn parse(text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        if let Some(digits) = md5_digits(text) {
            return Self::Md5(digits);
        }
        if let Some(scram) = std::str::from_utf8(text).ok().and_then(ScramSecret::parse) {
            return Self::Scram(Arc::new(scram));
        }
        Password::new(text).map_or(Self::None, Self::Plain)
    }

    /// Whether there is no secret.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The textual form; empty for [`Secret::None`]. It is sent to a server that asks for a cleartext password, even
    /// if it is a hash that will be refused, as in PgBouncer.
    #[must_use]
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Self::None => Cow::Borrowed(b""),
            Self::Plain(password) => Cow::Borrowed(password.as_bytes()),
            Self::Md5(digits) => Cow::Owned([MD5_WORD, digits].concat()),
            Self::Scram(scram) => Cow::Owned(scram.to_string().into_bytes()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Plain(_) => "Plain(..)",
            Self::Md5(_) => "Md5(..)",
            Self::Scram(_) => "Scram(..)",
        })
    }
}

fn md5_digits(text: &[u8]) -> Option<[u8; 32]> {
    let digits: [u8; 32] = text.strip_prefix(MD5_WORD)?.try_into().ok()?;
    digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')).then_some(digits)
}

const MD5_WORD: &[u8] = b"md5";

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAM: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                         wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    fn is_plain(text: &str) -> bool {
        Secret::parse(text) == Secret::Plain(Password::new(text).expect("not empty"))
    }

    #[test]
    fn no_text_is_no_secret() {
        assert_eq!(Secret::parse(""), Secret::None);
        assert_eq!(Password::new(""), None);
    }

    #[test]
    fn md5_is_the_word_and_32_lower_case_digits() {
        assert_eq!(
            Secret::parse("md50123456789abcdef0123456789abcdef"),
            Secret::Md5(*b"0123456789abcdef0123456789abcdef")
        );
    }

    #[test]
    fn what_only_resembles_md5_is_a_plain_password() {
        assert!(is_plain("md5"));
        assert!(is_plain("md50123456789ABCDEF0123456789abcdef"));
        assert!(is_plain("md50123456789abcdef0123456789abcde"));
        assert!(is_plain("md50123456789abcdef0123456789abcdef0"));
        assert!(is_plain("md50123456789abcdef0123456789abcdeg"));
        assert!(is_plain("MD50123456789abcdef0123456789abcdef"));
    }

    #[test]
    fn a_scram_secret_is_read_as_postgresql_writes_it() {
        let Secret::Scram(scram) = Secret::parse(SCRAM) else { panic!("not recognised") };
        assert_eq!((scram.iterations, scram.salt.len()), (4096, 16));
        assert_eq!(scram.to_string(), SCRAM);
    }

    #[test]
    fn what_only_resembles_a_scram_secret_is_a_plain_password() {
        assert!(is_plain("SCRAM-SHA-256"));
        assert!(is_plain("SCRAM-SHA-256$"));
        assert!(is_plain(&SCRAM.replace("SHA-256", "SHA-1")));
        assert!(is_plain(&SCRAM.replace("4096", "0")));
        assert!(is_plain(&SCRAM.replace("4096", "-1")));
        assert!(is_plain(&SCRAM.replace("4096", "+4096")));
        assert!(is_plain(&SCRAM.replace("4096", "4294967296")));
        assert!(is_plain(&SCRAM.replace("4096", "")));
        assert!(is_plain(&SCRAM.replace("W22Z", "W2?Z")));
        assert!(is_plain(&SCRAM.replace("gQ==", "gQ")));
        assert!(is_plain(&SCRAM.replace("WG5d", "")));
        assert!(is_plain(&SCRAM.replace("wfPL", "wfPLwfPL")));
        assert!(is_plain(&format!("{SCRAM}:")));
        assert!(is_plain(&format!("{SCRAM} ")));
    }

    #[test]
    fn a_secret_is_written_as_it_was_read() {
        for text in ["", "pencil", "md50123456789abcdef0123456789abcdef", "md5", SCRAM] {
            assert_eq!(Secret::parse(text).text(), text.as_bytes());
        }
    }

    #[test]
    fn a_password_may_be_in_any_encoding() {
        assert_eq!(Secret::parse(b"p\xe4ssword").text(), &b"p\xe4ssword"[..]);
    }

    #[test]
    fn debug_shows_kinds_and_never_contents() {
        let shown = |text: &str| format!("{:?} {:#?}", Secret::parse(text), Secret::parse(text));
        assert_eq!(shown(""), "None None");
        assert_eq!(shown("pencil"), "Plain(..) Plain(..)");
        assert_eq!(shown("md50123456789abcdef0123456789abcdef"), "Md5(..) Md5(..)");
        assert_eq!(shown(SCRAM), "Scram(..) Scram(..)");
        assert_eq!(format!("{:?}", Password::new("pencil")), "Some(Password(..))");
    }
}
