//! Reads a server's answer to a state probe, row by row.
//!
//! Always true: a row is read when it comes, and no more is kept than the bounds allow; what exceeds them makes the whole
//! answer unusable, except texts of statements (such statements count as held) and functions (`route::Reading` has its
//! own bounds).
//! Not here: what is queried (`probe`), what follows from the answer (`session_effects`).

use route::{LockKey, Reading, Source};
use wire::backend;

use super::pins::{Hold, Kind, PINS_MAX};
use super::statements::STATEMENT_BYTES_MAX;

/// The part of an answer that has come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Answer {
    pub(super) holds: Vec<Hold>,
    /// How many holds of each kind the answer had, kept or not.
    told: [usize; Kind::ALL.len()],
    pub(super) settings: Vec<(Box<str>, Box<str>)>,
    /// The statements prepared by SQL that can be prepared on any server, and their bytes.
    pub(super) statements: Vec<(Box<str>, Box<str>)>,
    statement_bytes: usize,
    /// Values in the server's spelling.
    pub(super) spelled: Vec<(Box<str>, Box<str>)>,
    /// What the functions of the database do.
    pub(super) functions: Option<Box<Reading>>,
    /// How many bytes are kept of the session's state.
    bytes: usize,
    is_overfull: bool,
}

impl Answer {
    /// Takes a `DataRow`; `None` if it cannot be understood, or cannot be kept.
    pub(super) fn row(&mut self, body: &[u8], carries_statements: bool) -> Option<()> {
        // A letter that says what the row is about, and three texts.
        let row = backend::data_row(body)?;
        let [Some(&[about, ..]), Some(first), second, third] = *row else { return None };
        let [second, third] = [second, third].map(|text| text.map(String::from_utf8_lossy));
        let first = String::from_utf8_lossy(first);
        match about {
            b'i' => {}
            b'g' => self.functions.get_or_insert_default().name(&first),
            b'f' => {
                let (probe, functions) = (second.unwrap_or_default(), self.functions.get_or_insert_default());
                if third.is_none() {
                    functions.misses_text();
                }
                functions.add(Source {
                    name: &first,
                    is_readable: third.is_some() && probe.contains('r'),
                    is_hidden: probe.contains('h'),
                    is_in_queries: probe.contains('q'),
                    text: &third.unwrap_or_default(),
                });
            }
            // A setting with the value with which the session began counts as not set.
            b'd' if second == third => {}
            b's' | b'd' | b'v' => {
                let value = second.unwrap_or_default();
                self.takes(first.len() + value.len())?;
                let name = if about == b's' { first.to_ascii_lowercase().into() } else { first.into() };
                let values = if about == b'v' { &mut self.spelled } else { &mut self.settings };
                values.push((name, value.into()));
            }
            b'p' => {
                if self.is_listed(Kind::Statement) {
                    let text = second.filter(|_| carries_statements);
                    let sql = text.as_deref().and_then(|text| route::prepared(text, &first));
                    self.prepared(&first, sql)?;
                }
            }
            _ => {
                let kind = match about {
                    b'l' => Kind::Lock,
                    b'n' => Kind::Channel,
                    b't' => Kind::Temporary,
                    b'h' => Kind::Cursor,
                    b'r' => Kind::Slot,
                    _ => return None,
                };
                if self.is_listed(kind) {
                    self.takes(first.len() + second.as_ref().map_or(0, |text| text.len()))?;
                    self.holds.push(match kind {
                        Kind::Lock => Hold::lock(&lock_key(&first)?, second.as_deref()),
                        kind => Hold::new(kind, &first),
                    });
                }
            }
        }
        Some(())
    }

    /// Whether one more hold of a kind is listed: of channels all are, of other kinds [`PINS_MAX`]. The first beyond that
    /// adds a hold that says that there are more.
    fn is_listed(&mut self, kind: Kind) -> bool {
        let told = &mut self.told[kind as usize];
        *told += 1;
        if kind == Kind::Channel || *told <= PINS_MAX {
            return true;
        }
        if *told == PINS_MAX + 1 {
            self.holds.push(Hold::more(kind));
        }
        false
    }

    /// Takes a statement prepared by SQL: it is carried to other servers if there is room, and held otherwise.
    fn prepared(&mut self, name: &str, sql: Option<&str>) -> Option<()> {
        let bytes = |sql: &str| sql.len() + name.len();
        let is_carried = |sql: &&str| self.statement_bytes + bytes(sql) <= STATEMENT_BYTES_MAX;
        match sql.filter(is_carried) {
            Some(sql) => {
                self.statement_bytes += bytes(sql);
                self.takes(bytes(sql))?;
                self.statements.push((name.into(), sql.into()));
            }
            None => {
                self.takes(name.len())?;
                self.holds.push(Hold::new(Kind::Statement, name));
            }
        }
        Some(())
    }

    /// Counts bytes that are to be kept; `None` if they are too many.
    fn takes(&mut self, bytes: usize) -> Option<()> {
        self.bytes += bytes + ROW_BYTES;
        if self.bytes > ANSWER_BYTES_MAX {
            *self = Self { is_overfull: true, ..Self::default() };
            return None;
        }
        Some(())
    }

    /// Whether the session has more than is kept.
    pub(super) fn is_overfull(&self) -> bool {
        self.is_overfull
    }
}

/// The key of an advisory lock as the client gave it, one number or two, from `objsubid`, `classid` and `objid` in
/// `pg_locks`. `None` where these are not numbers.
#[must_use]
pub fn lock_key(parts: &str) -> Option<String> {
    let mut parts = parts.split(' ');
    let mut part = || parts.next()?.parse::<u32>().ok();
    let (kind, high, low) = (part()?, part()?, part()?);
    let key = match kind {
        1 => LockKey::One((u64::from(high) << 32 | u64::from(low)).cast_signed()),
        _ => LockKey::Two(high.cast_signed(), low.cast_signed()),
    };
    Some(key.to_string())
}

/// The most bytes that are kept of a session's state; a client whose session has more keeps its server.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Approximate size of a row without its texts.
const ROW_BYTES: usize = 64;
