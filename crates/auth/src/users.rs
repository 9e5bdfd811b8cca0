//! The auth file (`userlist.txt`): one `"user" "secret"` per line.
//!
//! Always true: users keep the order of the file; of two lines for one user the later one counts, at the place of the
//! first; parsing stops at the first malformed line and keeps the lines before it.
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
    /// The index of each user in `entries`.
    places: BTreeMap<Arc<str>, usize>,
}

/// A mistake in an auth file, to be reported to the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The number of the line, counted from 1.
    pub line: usize,
    /// The mistake, in PgBouncer's words where PgBouncer reports it.
    pub text: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {})", self.text, self.line)
    }
}

impl UserFile {
    /// Parses a whole file.
    ///
    /// A line is blank, a comment (its first character is `;`), or has two strings in double quotes, in which `""`
    /// stands for a quote; anything between the two or after them is ignored. A string must end on its line. PgBouncer, in
    /// contrast, searches for the next quote across lines, so that a forgotten secret is replaced by the name of the next user.
    ///
    /// A malformed line ends the parsing. For a user name that is not UTF-8, only its line is dropped.
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

    /// The secret of a user; `None` if the file does not name the user.
    #[must_use]
    pub fn secret(&self, user: &str) -> Option<&Arc<Secret>> {
        self.places.get(user).map(|&place| &self.entries[place].1)
    }

    /// All users with their secrets, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Arc<Secret>)> {
        self.entries.iter().map(|(user, secret)| (&**user, secret))
    }

    /// Picks an existing user's secret as a stand-in for an unknown user, so that both cost the same work. The choice depends on
    /// the name and the key only. Users without a secret are skipped, up to `LOOKED_AT_MAX` users in all.
    #[must_use]
    pub fn like(&self, unknown: &str, key: &[u8; 32]) -> Option<&Arc<Secret>> {
        let number = made_up_number(unknown, key).checked_rem(self.entries.len() as u64)?;
        let (before, from) = self.entries.split_at(number as usize);
        let mut secrets = from.iter().chain(before).map(|(_, secret)| secret).take(LOOKED_AT_MAX);
        secrets.find(|secret| !secret.is_none())
    }

    /// The number of users.
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

/// Parses the two strings of a line.
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

/// Parses the quoted string at the start of `text`, and returns it with the rest. A string with a NUL is malformed, because
/// no protocol message can carry it.
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

/// Removes the white space of C's `isspace` from the start of a line, in which there is no line feed.
fn trim_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c));
    &line[start.unwrap_or(line.len())..]
}

const BROKEN: &str = "broken auth file";
const USER_TOO_LONG: &str = "username too long in auth file";
const SECRET_TOO_LONG: &str = "password too long in auth file";
const NOT_UTF8: &str = "username is not UTF-8 in auth file";

/// How many users are examined for one with a secret. The number is bounded because any unknown client causes the search.
const LOOKED_AT_MAX: usize = 64;

#[cfg(test)]
#[path = "users_tests.rs"]
mod tests;
