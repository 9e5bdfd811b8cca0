//! The auth file (`userlist.txt`): one `"user" "secret"` per line.
//!
//! Always true: users come out in the order of the file; of two lines for one user the later one counts, at the
//! place of the first; reading stops at the first malformed line and keeps what came before.
//! Not here: opening the file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::Secret;
use crate::scram::server::made_up_number;

/// The users of an auth file.
#[derive(Clone, Debug, Default)]
pub struct UserFile {
    entries: Vec<(Arc<str>, Arc<Secret>)>,
    /// Where in `entries` a user stands.
    places: BTreeMap<Arc<str>, usize>,
}

/// Something wrong in an auth file, to be told to the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Which line, counted from 1.
    pub line: usize,
    /// What is wrong with it, in PgBouncer's words where it has some.
    pub text: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {})", self.text, self.line)
    }
}

impl UserFile {
    /// Reads a whole file.
    ///
    /// A line is blank, a comment (its first character is `;`), or holds two strings in double quotes, in which `""`
    /// stands for a quote; what stands between the two or after them is ignored. Unlike PgBouncer, which looks for the
    /// next quote wherever it is, a string ends on its line: otherwise a forgotten secret would be replaced by the name
    /// of the next user.
    ///
    /// A malformed line ends the reading. A user name that is not UTF-8 costs only its line.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> (Self, Vec<Problem>) {
        let mut file = Self::default();
        let mut problems = Vec::new();
        for (line, content) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let content = trim_start(content);
            if content.is_empty() || content[0] == b';' {
                continue;
            }
            match entry(content) {
                Ok((user, secret)) => match std::str::from_utf8(&user) {
                    Ok(user) => file.put(user, Secret::parse(secret)),
                    Err(_) => problems.push(Problem { line, text: NOT_UTF8 }),
                },
                Err(text) => {
                    problems.push(Problem { line, text });
                    break;
                }
            }
        }
        (file, problems)
    }

    fn put(&mut self, user: &str, secret: Secret) {
        if let Some(&place) = self.places.get(user) {
            self.entries[place].1 = Arc::new(secret);
            return;
        }
        let user = Arc::<str>::from(user);
        self.places.insert(Arc::clone(&user), self.entries.len());
        self.entries.push((user, Arc::new(secret)));
    }

    /// The secret of a user; `None` for one the file does not name.
    #[must_use]
    pub fn secret(&self, user: &str) -> Option<&Arc<Secret>> {
        self.places.get(user).map(|&place| &self.entries[place].1)
    }

    /// All users with their secrets, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Arc<Secret>)> {
        self.entries.iter().map(|(user, secret)| (&**user, secret))
    }

    /// The secret of a user whom somebody unknown is treated like: always the same one for a name, and any of them that is a
    /// secret, as far as one is found soon.
    #[must_use]
    pub fn like(&self, unknown: &str, key: &[u8; 32]) -> Option<&Arc<Secret>> {
        let number = made_up_number(unknown, key).checked_rem(self.entries.len() as u64)?;
        let (before, from) = self.entries.split_at(number as usize);
        let mut secrets = from.iter().chain(before).map(|(_, secret)| secret).take(LOOKED_AT_MAX);
        secrets.find(|secret| !secret.is_none())
    }

    /// How many users there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no user.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The longest user name in an auth file, in bytes.
pub const USER_BYTES_MAX: usize = 127;

/// The longest secret in an auth file, in bytes.
pub const SECRET_BYTES_MAX: usize = 65_530;

/// The user and the secret of a line.
type Entry<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Reads the two strings of a line.
fn entry(line: &[u8]) -> Result<Entry<'_>, &'static str> {
    let (user, rest) = quoted(line).ok_or(BROKEN)?;
    if user.len() > USER_BYTES_MAX {
        return Err(USER_TOO_LONG);
    }
    let start = rest.iter().position(|&byte| byte == b'"').ok_or(BROKEN)?;
    let (secret, _) = quoted(&rest[start..]).ok_or(BROKEN)?;
    if secret.len() > SECRET_BYTES_MAX {
        return Err(SECRET_TOO_LONG);
    }
    Ok((user, secret))
}

/// Reads the string that starts here, and tells what stands behind it. A string with a NUL is malformed: no message of
/// the protocol could carry it.
fn quoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let mut end = 0;
    let mut has_quotes = false;
    loop {
        end += text[end..].iter().position(|&byte| byte == b'"')?;
        if text.get(end + 1) != Some(&b'"') {
            break;
        }
        has_quotes = true;
        end += 2;
    }
    let inner = &text[..end];
    if inner.contains(&0) {
        return None;
    }
    let inner = if has_quotes { Cow::Owned(undoubled(inner)) } else { Cow::Borrowed(inner) };
    Some((inner, &text[end + 1..]))
}

fn undoubled(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(byte);
        if byte == b'"' {
            bytes.next();
        }
    }
    plain
}

/// Without the white space of C's `isspace` at its start; a line feed cannot be here.
fn trim_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c));
    &line[start.unwrap_or(line.len())..]
}

const BROKEN: &str = "broken auth file";
const USER_TOO_LONG: &str = "username too long in auth file";
const SECRET_TOO_LONG: &str = "password too long in auth file";
const NOT_UTF8: &str = "username is not UTF-8 in auth file";

/// How many users are looked at for one who has a secret: this is done for whoever comes.
const LOOKED_AT_MAX: usize = 64;

#[cfg(test)]
#[path = "users_tests.rs"]
mod tests;
