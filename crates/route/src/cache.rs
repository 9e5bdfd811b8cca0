//! Classes of texts that have been read before.
//!
//! Always true: an answer from here is the one that reading the text again would give; what is held is bounded.
//! Not here: the reading (`classify`).

use std::rc::Rc;

use crate::act::Act;
use crate::class::Class;
use crate::classify::classify;
use crate::condense::condensed;
use crate::dirty_state::DirtyState;
use crate::knowledge::Knowledge;
use crate::lexer::Dialect;
use crate::plain::{INSERT, SELECT, plain_verb};
use crate::sequences::Sequences;

/// The classes of texts, each in the one place that its hash gives it: a frequent text is found there, and a text that
/// comes once costs little more than reading it.
#[derive(Debug)]
pub struct Cache {
    rows: Box<[Option<Row>]>,
    /// A part of the hash of the plain text that last came in vain to each place.
    sights: Box<[u32]>,
    plain: PlainClasses,
}

/// The classes of nearly all texts.
#[derive(Debug)]
struct PlainClasses {
    /// One statement that leaves nothing.
    plain: Rc<Class>,
    /// One statement that creates rows and leaves nothing else.
    inserts: Rc<Class>,
    /// Both for a database where such statements may notify without saying so.
    notifying: [Rc<Class>; 2],
}

#[derive(Debug)]
struct Row {
    hash: u64,
    dialect: Dialect,
    scope: u32,
    text: Box<[u8]>,
    class: Rc<Class>,
}

impl Default for PlainClasses {
    fn default() -> Self {
        let plain = Class {
            acts: [Act::Other { touches: DirtyState::NOTHING, releases: DirtyState::NOTHING, names: Box::default() }]
                .into(),
            touches: DirtyState::NOTHING,
            ..Class::default()
        };
        let inserts = Class { sequences: Sequences::DRAWN, ..plain.clone() };
        let notifying = [&plain, &inserts].map(|class| Rc::new(Class { notifies: true, ..class.clone() }));
        Self { plain: Rc::new(plain), inserts: Rc::new(inserts), notifying }
    }
}

impl PlainClasses {
    /// The class of a text that is seen to be plain without reading all of it.
    fn class(&self, text: &[u8], dialect: Dialect, knowledge: Option<&Knowledge>) -> Option<&Rc<Class>> {
        let knowledge = knowledge?;
        let verb = plain_verb(text, dialect, knowledge)?;
        let [notifying, notifying_inserts] = &self.notifying;
        Some(match (knowledge.notifies_silently(verb == SELECT), verb == INSERT) {
            (false, false) => &self.plain,
            (false, true) => &self.inserts,
            (true, false) => notifying,
            (true, true) => notifying_inserts,
        })
    }

    /// One of them instead of an equal one.
    fn shared(&self, class: Class) -> Rc<Class> {
        let mut all = [&self.plain, &self.inserts].into_iter().chain(&self.notifying);
        all.find(|known| ***known == class).cloned().unwrap_or_else(|| Rc::new(class))
    }
}

impl Default for Cache {
    fn default() -> Self {
        let sights = vec![0; ROWS].into_boxed_slice();
        Self { rows: (0..ROWS).map(|_| None).collect(), sights, plain: PlainClasses::default() }
    }
}

impl Cache {
    /// Returns what [`classify`] says of a text. The same `scope` stands for the same knowledge.
    pub fn class(&mut self, text: &[u8], dialect: Dialect, scope: u32, knowledge: Option<&Knowledge>) -> Rc<Class> {
        if text.len() > TEXT_BYTES_MAX {
            let class = self.plain.class(&condensed(text, dialect), dialect, knowledge).cloned();
            return class.unwrap_or_else(|| Rc::new(classify(text, dialect, knowledge)));
        }
        let hash = hash(text);
        let place = (hash >> 32) as usize % ROWS;
        let row = &mut self.rows[place];
        if let Some(row) = row
            && row.hash == hash
            && (row.dialect, row.scope) == (dialect, scope)
            && *row.text == *text
        {
            return row.class.clone();
        }
        let class = match self.plain.class(text, dialect, knowledge) {
            // Many texts come once, because their values stand in them. They are plain, and nothing is forgotten for them.
            Some(class) if std::mem::replace(&mut self.sights[place], hash as u32) != hash as u32 => {
                return class.clone();
            }
            Some(class) => class.clone(),
            None => self.plain.shared(classify(text, dialect, knowledge)),
        };
        *row = Some(Row { hash, dialect, scope, text: text.into(), class: class.clone() });
        class
    }

    /// How many bytes the texts take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rows.iter().flatten().map(|row| row.text.len()).sum()
    }
}

/// Fast, and good enough to find a place: the text that is found there is compared.
pub(crate) fn hash(text: &[u8]) -> u64 {
    let mut hash = text.len() as u64;
    let mut add = |word: u64| hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = text.as_chunks::<8>();
    words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    add(u64::from_le_bytes(last));
    hash
}

/// How many texts are held.
const ROWS: usize = 1024;
/// The class of a text is kept if the text is no longer than this. A longer one is read each time, which takes a small part of
/// what its server does.
pub const TEXT_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::Source;

    #[test]
    fn a_text_that_was_read_is_not_read_again() {
        let (mut cache, tame) = (Cache::default(), Knowledge::default());
        let mut class = |text: &str, knowledge| cache.class(text.as_bytes(), Dialect::default(), 0, knowledge);
        let first = class("SET a.b = 1", Some(&tame));
        assert!(Rc::ptr_eq(&first, &class("SET a.b = 1", Some(&tame))));
        assert!(Rc::ptr_eq(&class("SELECT 1", Some(&tame)), &class("SELECT 2", Some(&tame))));
        assert_eq!(*first, classify(b"SET a.b = 1", Dialect::default(), Some(&tame)));
    }

    /// A text that the quick check finds plain gets the same class when it is read completely.
    #[test]
    fn what_is_plain_at_a_glance_is_plain() {
        let known = Knowledge::new(["touch"], false);
        let (mut cache, plain) = (Cache::default(), PlainClasses::default().plain);
        let texts = [
            "SELECT 1",
            "select a from t where b = 'x';",
            "SELECT 1; SELECT 2",
            "SELECT set_config('a', 'b', false)",
            "SELECT touch()",
            "SELECT \"touch\"()",
            "SELECT 1 INTO TEMP t",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO \"users\" (\"id\", \"name\") VALUES (1, 'x') RETURNING \"id\"",
            "SELECT \"users\".\"id\" FROM \"users\" WHERE \"id\" = 7",
            "SELECT atomic FROM t",
            "INSERT INTO t VALUES (currval('s'))",
            "SELECT nextval('s')",
            "SELECT lastval()",
            "SELECT insert FROM t",
            "UPDATE t SET a = 1",
            "SELECT pg_advisory_lock(1)",
            "SELECT 1;;",
            "DELETE FROM pg_temp.t",
            "BEGIN",
            "SELECT",
            "SELECT 'never ended",
            "WITH x AS (SELECT 1) SELECT 2",
            "",
        ];
        let mut count = 0;
        for text in texts.map(str::as_bytes) {
            if plain_verb(text, Dialect::default(), &known).is_some() {
                count += 1;
                let class = classify(text, Dialect::default(), Some(&known));
                assert_eq!(class, Class { sequences: class.sequences, ..(*plain).clone() }, "{}", text.escape_ascii());
                assert_eq!(*cache.class(text, Dialect::default(), 0, Some(&known)), class, "{}", text.escape_ascii());
            }
        }
        assert!(count >= 4, "only {count}");
    }

    /// A text of a verb and any three words gets the same class from the cache as when it is read completely.
    #[test]
    fn no_few_words_are_plain_that_are_not_when_they_are_read() {
        let known = Knowledge::new(["touch"], false);
        let words = [
            "insert",
            "into",
            "\"into\"",
            "temp",
            "TEMPORARY",
            "local",
            "\"temp\"",
            "touch",
            "\"touch\"",
            "\"Touch\"",
            "set_config",
            "pg_temp.t",
            "nextval",
            "\"lastval\"",
            "pg_notify",
            "t",
            "\"t\"\"\"",
            "\"\"",
            "'x'",
            "(",
            ";",
            "$1",
            "U&\"t\"",
        ];
        let mut cache = Cache::default();
        let (mut all, mut plain) = (0, 0);
        for verb in ["SELECT", "insert", "UPDATE", "delete", "with"] {
            for first in words {
                for second in words {
                    for third in words {
                        let text = format!("{verb} {first} {second} {third}");
                        let text = text.as_bytes();
                        let class = classify(text, Dialect::default(), Some(&known));
                        let found = cache.class(text, Dialect::default(), 0, Some(&known));
                        assert_eq!(*found, class, "{}", text.escape_ascii());
                        all += 1;
                        plain += u32::from(plain_verb(text, Dialect::default(), &known).is_some());
                    }
                }
            }
        }
        assert!((all / 50..all / 2).contains(&plain), "{plain} of {all}");
    }

    /// A text that may notify gets the same class from the cache as when it is read, wherever the function is hidden.
    #[test]
    fn what_is_plain_at_a_glance_notifies_as_it_does_when_it_is_read() {
        let source = |is_in_queries| Source {
            name: "tell",
            is_readable: true,
            is_hidden: true,
            is_in_queries,
            text: "begin perform pg_notify('a', 'b'); return new; end",
        };
        let by_writes = Knowledge::read([source(false)].into_iter());
        let by_queries = Knowledge::read([source(true)].into_iter());
        for (knowledge, expected) in [
            (&Knowledge::default(), [false, false, false]),
            (&by_writes, [false, true, true]),
            (&by_queries, [true, true, true]),
        ] {
            let mut cache = Cache::default();
            let texts = ["SELECT 1", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1"];
            for (text, notifies) in texts.map(str::as_bytes).into_iter().zip(expected) {
                let class = cache.class(text, Dialect::default(), 0, Some(knowledge));
                let is_plain = plain_verb(text, Dialect::default(), knowledge).is_some();
                assert!(is_plain);
                assert_eq!(*class, classify(text, Dialect::default(), Some(knowledge)));
                assert_eq!(class.notifies, notifies, "{}", text.escape_ascii());
            }
            for text in ["SELECT tell()", "SELECT pg_notify('a', 'b')"] {
                let is_called = *knowledge != Knowledge::default() || text.contains("pg_notify");
                let class = cache.class(text.as_bytes(), Dialect::default(), 0, Some(knowledge));
                assert_eq!(class.notifies, is_called, "{text}");
                assert!(class.is_harmless(), "{text}");
            }
        }
    }

    #[test]
    fn a_plain_text_is_held_when_it_comes_again() {
        let (mut cache, tame) = (Cache::default(), Knowledge::default());
        for (text, bytes) in [("SELECT 1", 0), ("SELECT 2", 0), ("SELECT 1", 8), ("SELECT 1", 8), ("SET a = 1", 17)] {
            cache.class(text.as_bytes(), Dialect::default(), 0, Some(&tame));
            assert_eq!(cache.bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn another_dialect_is_another_text() {
        let (mut cache, tame) = (Cache::default(), Knowledge::default());
        let text = br"SELECT 'a\'; LISTEN c --'";
        let backslashes = Dialect { backslashes: true, ..Dialect::default() };
        assert!(!cache.class(text, Dialect::default(), 0, Some(&tame)).is_harmless());
        assert!(cache.class(text, backslashes, 0, Some(&tame)).is_harmless());
    }

    #[test]
    fn what_is_held_has_an_end() {
        let (mut cache, tame) = (Cache::default(), Knowledge::default());
        for number in (0..10 * ROWS).flat_map(|number| [number, number]) {
            let text = format!("SELECT '{}', {number}", "x".repeat(TEXT_BYTES_MAX - 100));
            cache.class(text.as_bytes(), Dialect::default(), 0, Some(&tame));
        }
        assert!(cache.bytes() > 0 && cache.bytes() <= ROWS * TEXT_BYTES_MAX);
        let long = format!("SELECT '{}'", "x".repeat(TEXT_BYTES_MAX));
        let before = cache.bytes();
        assert!(cache.class(long.as_bytes(), Dialect::default(), 0, Some(&tame)).is_harmless());
        assert_eq!(cache.bytes(), before);
    }

    #[test]
    fn what_is_learned_is_another_scope() {
        let mut cache = Cache::default();
        assert!(!cache.class(b"SELECT 1", Dialect::default(), 0, None).is_harmless());
        assert!(cache.class(b"SELECT 1", Dialect::default(), 1, Some(&Knowledge::default())).is_harmless());
    }
}
