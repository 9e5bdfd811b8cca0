//! Reads the functions of a database, one after the other as a server returns them.
//!
//! Always true: of a function no more is kept than its name and the functions that it mentions, and all of that within
//! bounds; a text is read when it arrives, so that the work left for the end is proportional to the functions and their
//! mentions.
//! Not here: how a statement is read (`classify`), what is known in the end (`knowledge`).

use crate::body::is_dark;
use crate::callers::{Mentioned, Names, key};
use crate::classify::calls;
use crate::knowledge::{Functions, Knowledge, Silent, Source, Unread};
use crate::lexer::{Dialect, Lexer, Token};
use crate::lock;
use crate::meaning::sets_locally;
use crate::mentions::Mentions;
use crate::words::Words;

/// What has been read so far: first the names of all functions, then each with its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    stage: Stage,
    /// How many bytes of texts may still be read.
    room: usize,
    /// How many functions have been read.
    count: usize,
    mentions: Mentions,
    has_namesakes: bool,
    unread: Unread,
    /// Functions whose names were not announced: they have been created meanwhile.
    strangers: Vec<Box<[u8]>>,
    has_hidden_strangers: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// Names are read, of this many bytes in all.
    Names { names: Vec<Box<[u8]>>, bytes: usize },
    /// Texts are read.
    Texts(Box<Texts>),
    /// There is more than is read.
    Overfull,
}

/// What the texts have told, by the positions of the names.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Texts {
    names: Names,
    mentioned: Mentioned,
    suspects: Vec<bool>,
    notifiers: Vec<bool>,
    writers: Vec<bool>,
    /// Called by something other than a function; and, in `in_queries`, other than a trigger as well.
    hidden: Vec<bool>,
    in_queries: Vec<bool>,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            stage: Stage::Names { names: Vec::new(), bytes: 0 },
            room: TEXTS_BYTES_MAX,
            count: 0,
            mentions: Mentions::new(SETTINGS_MAX),
            has_namesakes: false,
            unread: Unread::Nothing,
            strangers: Vec::new(),
            has_hidden_strangers: false,
        }
    }
}

impl Reading {
    /// Adds the name of a function. All names come before the first text.
    pub fn name(&mut self, name: &str) {
        let Stage::Names { names, bytes } = &mut self.stage else {
            self.stage = Stage::Overfull;
            return;
        };
        let name = key(name.as_bytes());
        *bytes += name.len();
        match names.len() < NAMES_MAX && *bytes <= NAMES_BYTES_MAX {
            true => names.push(name.into()),
            false => self.stage = Stage::Overfull,
        }
    }

    /// The text of the next function is missing, because it or all texts together are too long: it may mention any setting.
    pub fn misses_text(&mut self) {
        self.mentions.miss_some();
        self.unread = Unread::Some;
    }

    /// Reads a function. Where there are too many functions, any statement may do anything; a function behind the first
    /// [`TEXTS_BYTES_MAX`] is not read, and may do anything.
    pub fn add(&mut self, source: Source<'_>) {
        if let Stage::Names { names, .. } = &mut self.stage {
            self.stage = Stage::Texts(Box::new(Texts::of(Names::new(std::mem::take(names)))));
        }
        self.count += 1;
        if self.count > FUNCTIONS_MAX {
            self.stage = Stage::Overfull;
        }
        let Stage::Texts(texts) = &mut self.stage else { return };
        self.has_namesakes |= is_namesake(source.name);
        let Some(own) = texts.names.place(source.name.as_bytes()) else {
            self.has_hidden_strangers |= source.is_hidden;
            if self.strangers.len() < STRANGERS_MAX {
                self.strangers.push(source.name.as_bytes().into());
            } else {
                self.stage = Stage::Overfull;
            }
            return;
        };
        texts.hidden[own] |= source.is_hidden;
        texts.in_queries[own] |= source.is_hidden && source.is_in_queries;
        let Some(left) = self.room.checked_sub(source.text.len()) else {
            texts.suspects[own] = true;
            self.misses_text();
            return;
        };
        self.room = left;
        if !texts.read(own, &source, &mut self.mentions) {
            self.stage = Stage::Overfull;
        }
    }

    /// Ends the reading: finds the functions that touch the session or notify, and those that mention one of them.
    #[must_use]
    pub fn end(self) -> Knowledge {
        let mut texts = match self.stage {
            Stage::Names { names, .. } => Box::new(Texts::of(Names::new(names))),
            Stage::Texts(texts) => texts,
            Stage::Overfull => return Knowledge::overfull(),
        };
        let silent_notifiers = texts.spread();
        let is_hidden =
            texts.hidden.iter().zip(&texts.suspects).any(|(is_hidden, is_suspect)| *is_hidden && *is_suspect);
        let functions = |marks: &[bool]| {
            let strangers = self.strangers.iter().map(|name| &**name);
            Functions::new(texts.names.marked(marks).chain(strangers))
        };
        Knowledge {
            silent_notifiers: if self.has_hidden_strangers { Silent::Queries } else { silent_notifiers },
            is_hidden: is_hidden || self.has_hidden_strangers,
            has_namesakes: self.has_namesakes,
            suspects: functions(&texts.suspects),
            notifiers: functions(&texts.notifiers),
            misses_settings: self.mentions.are_incomplete(),
            settings: self.mentions.into_names(),
            is_trusting: false,
            unread: self.unread,
        }
    }
}

impl Knowledge {
    /// What these functions do. A server returns its functions one by one: [`Reading`].
    pub fn read<'a>(sources: impl Iterator<Item = Source<'a>>) -> Self {
        let sources: Vec<Source<'a>> = sources.take(FUNCTIONS_MAX + 1).collect();
        let mut reading = Reading::default();
        sources.iter().for_each(|source| reading.name(source.name));
        sources.into_iter().for_each(|source| reading.add(source));
        reading.end()
    }
}

impl Texts {
    fn of(names: Names) -> Self {
        let none = vec![false; names.len()];
        Self {
            mentioned: Mentioned::new(names.len()),
            suspects: none.clone(),
            notifiers: none.clone(),
            writers: none.clone(),
            hidden: none.clone(),
            in_queries: none,
            names,
        }
    }

    /// Reads one text. Returns false if functions mention each other too often.
    fn read(&mut self, own: usize, source: &Source<'_>, mentions: &mut Mentions) -> bool {
        let (text, dialect) = (source.text.as_bytes(), Dialect::default());
        let mut tokens: Vec<Token> = Vec::with_capacity(text.len() / FEW_BYTES);
        tokens.extend(Lexer::new(text, dialect));
        let words = Words::new(text, &tokens, dialect.encoding);
        mentions.read(&words, dialect);
        self.suspects[own] |= !source.is_readable || touches(&words, dialect);
        self.notifiers[own] |= names_one_of(&words, &NOTIFY);
        self.writers[own] |= names_one_of(&words, &WRITE);
        self.mentioned.add(own, self.names.mentioned(&words))
    }

    /// Spreads what a function may do to all functions that mention it. Returns which statements may notify without saying so.
    fn spread(&mut self) -> Silent {
        let callers = std::mem::take(&mut self.mentioned).sorted();
        let also =
            |marks: &mut [bool], more: &[bool]| marks.iter_mut().zip(more).for_each(|(mark, more)| *mark |= more);
        callers.mark(&mut self.suspects);
        also(&mut self.notifiers, &self.suspects);
        callers.mark(&mut self.notifiers);
        if self.silent() == Silent::Writes {
            // A function that writes may notify, too.
            also(&mut self.notifiers, &self.writers);
            callers.mark(&mut self.notifiers);
        }
        self.silent()
    }

    fn silent(&self) -> Silent {
        let meets = |marks: &[bool]| marks.iter().zip(&self.notifiers).any(|(mark, notifies)| *mark && *notifies);
        match meets(&self.in_queries) {
            true => Silent::Queries,
            false if meets(&self.hidden) => Silent::Writes,
            false => Silent::Nothing,
        }
    }
}

/// Whether a text of SQL or PL/pgSQL touches the session.
fn touches(words: &Words<'_>, dialect: Dialect) -> bool {
    is_dark(words) || sets_locally(words) || !calls(*words, dialect).is_nothing()
}

/// Whether one of these keywords or names stands in a text.
fn names_one_of(words: &Words<'_>, names: &[&str]) -> bool {
    let lengths = names.iter().fold(0_u64, |lengths, name| lengths | 1 << name.len());
    let mut places = words.places(|_, length| length < 64 && lengths & 1 << length != 0);
    places.any(|at| words.name(at).is_some_and(|name| names.iter().any(|known| known.as_bytes() == name.bytes())))
}

/// Whether a function of this name could be called instead of one whose calls are read.
fn is_namesake(name: &str) -> bool {
    NAMESAKES.contains(&name) || lock::CALLS.iter().any(|(known, ..)| *known == name)
}

/// PostgreSQL's own functions whose effect is read from a call, beside those that take and release advisory locks.
const NAMESAKES: [&str; 2] = ["set_config", "pg_advisory_unlock_all"];
/// Words in the text of a function that notifies.
const NOTIFY: [&str; 2] = ["notify", "pg_notify"];
/// Words in the text of a function that writes to tables.
const WRITE: [&str; 7] = ["insert", "update", "delete", "merge", "copy", "truncate", "call"];

/// Few texts have more than one token in this many bytes.
const FEW_BYTES: usize = 4;
/// How many functions of a database are read,
pub const FUNCTIONS_MAX: usize = 100_000;
/// how many bytes of their texts,
pub const TEXTS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// and how many names of settings in these. A worker keeps no more for a database.
const SETTINGS_MAX: usize = 1000;
/// Beside the names of user-defined functions there are a few of PostgreSQL's own.
const NAMES_MAX: usize = FUNCTIONS_MAX + 16;
/// PostgreSQL's names have 63 bytes (`NAMEDATALEN`), unless it was built otherwise.
const NAMES_BYTES_MAX: usize = 64 * NAMES_MAX;
/// How many functions may be created while others are read.
const STRANGERS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::{Lexer, Token};

    fn touches(text: &str) -> bool {
        let tokens: Vec<Token> = Lexer::new(text.as_bytes(), Dialect::default()).collect();
        let dialect = Dialect::default();
        super::touches(&Words::new(text.as_bytes(), &tokens, dialect.encoding), dialect)
    }

    #[test]
    fn what_only_reads_and_writes_tables_touches_nothing() {
        assert!(!touches("BEGIN UPDATE t SET a = 1; IF FOUND THEN RETURN 1; END IF; END"));
        assert!(!touches("SELECT count(*) FROM t WHERE temp > 1"));
        assert!(!touches("BEGIN PERFORM set_config('a.b', 'c', true); PERFORM pg_advisory_xact_lock(1); END"));
        assert!(!touches("BEGIN RAISE NOTICE 'set a = b; execute'; END"));
    }

    #[test]
    fn what_touches_the_session_is_found() {
        for text in [
            "BEGIN SET search_path = a; END",
            "BEGIN -- now\n SET search_path = a; END",
            "BEGIN IF x THEN RESET ALL; END IF; END",
            "BEGIN <<label>> SET a.b = 1; END",
            "BEGIN EXECUTE format('x %s', y); END",
            "BEGIN RETURN QUERY EXECUTE q; END",
            "BEGIN CREATE TEMP TABLE t (a int); END",
            "BEGIN PERFORM pg_advisory_lock(1); END",
            "SELECT set_config('app.tenant', $1, false)",
            "SELECT 1; SET a.b = 1",
            "BEGIN INSERT INTO pg_temp.t VALUES (1); END",
            "BEGIN 'never ended",
        ] {
            assert!(touches(text), "{text}");
        }
    }
}
