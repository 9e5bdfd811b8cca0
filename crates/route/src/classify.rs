//! What an SQL text does, statement by statement.
//!
//! Always true: there is one [`Act`] for each statement that the server would answer, in their order; a statement that is
//! not understood touches anything. A text that PostgreSQL would refuse as a whole may get any class.
//! Not here: how a text becomes tokens (`lexer`), what a SET says (`setting`).

use std::cell::OnceCell;

use crate::act::{Act, Control, NAMES_MAX, all_touched};
use crate::alone::calls_alone;
use crate::body::is_dark;
use crate::builtin::{known_name, may_matter, unlocks};
use crate::class::{ACTS_BYTES_MAX, Class};
use crate::configured::{Configured, LocalCalls};
use crate::dirty_state::DirtyState;
use crate::knowledge::Knowledge;
use crate::lexer::{Dialect, Kind, Lexer, Token};
use crate::lock::locks_alone;
use crate::makings::{MAKERS, is_behaviour, makes_behaviour, makings_of};
use crate::meaning;
use crate::notify::may_notify;
use crate::prepare::{explained, is_query, named, prepared};
use crate::sequences::{self, Sequences};
use crate::setting::{self, Meaning};
use crate::split::Split;
use crate::words::Words;

/// Reads a text. Without knowledge of the database's functions every call may touch anything.
#[must_use]
pub fn classify(text: &[u8], dialect: Dialect, knowledge: Option<&Knowledge>) -> Class {
    let split = Split::of(text, dialect);
    let tokens = &split.tokens;
    if split.is_dark {
        return Class::unread_with(makings_of(text)).with_mentions(text, tokens, dialect);
    }
    let reader = Reader { dialect, knowledge };
    let (mut takes, mut sets_locally, mut sequences) = (DirtyState::NOTHING, false, Sequences::default());
    let (mut acts, mut statements) = (Vec::new(), Vec::<Box<str>>::new());
    let (mut notifies, mut is_unread, mut makings) = (false, false, DirtyState::NOTHING);
    for range in split.statements() {
        let words = Words::new(text, &tokens[range], dialect.encoding);
        takes |= taken(&words);
        sets_locally |= meaning::sets_locally(&words);
        sequences = sequences.and_then(sequences::of(&words));
        notifies = notifies || may_notify(&words, knowledge);
        if acts.len() < ACTS_MAX {
            statements.extend(named(&words).map(Into::into));
            acts.push(reader.act(words));
        } else {
            is_unread = true;
            if words.is(0, "do") || words.is_one_of(0, &MAKERS) {
                makings = DirtyState::MAKINGS;
            }
        }
    }
    if let [Act::Prepare { name, sql, .. }] = &mut acts[..] {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() < CARRIED_BYTES_MAX);
        *sql = text.and_then(|text| prepared(text, name)).map(Into::into);
    }
    let touches = all_touched(&acts);
    let notifies = notifies || touches.has(DirtyState::ANYTHING);
    let (acts, statements) = (acts.into(), statements.into());
    let class = Class { acts, touches, takes, sets_locally, statements, sequences, notifies, ..Class::default() };
    if is_unread || class.acts_bytes() > ACTS_BYTES_MAX {
        if class.touches.has(DirtyState::MAKINGS) {
            makings = DirtyState::MAKINGS;
        }
        let unread = Class::unread_with(makings);
        let class = Class { takes, sets_locally, statements: class.statements, sequences, ..unread };
        return class.with_mentions(text, tokens, dialect);
    }
    if touches.is_nothing() { class } else { class.with_mentions(text, tokens, dialect) }
}

/// What a statement takes hold of for its session. A statement that only releases something, as drivers send to tidy up,
/// takes nothing.
fn taken(words: &Words<'_>) -> DirtyState {
    let ends = words.end();
    let has = |names: &[&str]| (0..ends).any(|at| words.is_one_of(at, names));
    let first = |names: &[&str]| words.is_one_of(0, names);
    match () {
        () if first(&["listen"]) => DirtyState::CHANNELS,
        () if first(&["load"]) => DirtyState::LIBRARIES,
        () if first(&["prepare"]) && !words.is(1, "transaction") => DirtyState::STATEMENTS,
        () if first(&["declare"]) => {
            let query = (1..ends).find(|&at| words.is(at, "for")).unwrap_or(ends);
            let is_held = (1..query).any(|at| words.are(at, &["with", "hold"]));
            if is_held { DirtyState::CURSORS } else { DirtyState::NOTHING }
        }
        () if first(&["create"]) => {
            let beside = |at: &usize| !words.is_one_of(*at, &["or", "replace", "global", "local"]);
            let is_temporary = (1..ends).find(beside).is_some_and(|at| words.is_one_of(at, &["temp", "temporary"]));
            let is_dropped = (1..ends).any(|at| words.are(at, &["on", "commit", "drop"]));
            if is_temporary && !is_dropped { DirtyState::TEMPORARY } else { DirtyState::NOTHING }
        }
        () if first(&["select", "with", "values", "insert", "update", "delete", "call"])
            || words.is_symbol(0, b"(") =>
        {
            let mut taken = DirtyState::NOTHING;
            if has(&LOCKERS) {
                taken |= DirtyState::LOCKS;
            }
            if (0..ends).any(|at| words.is(at, "into") && words.is_one_of(at + 1, &["temp", "temporary"])) {
                taken |= DirtyState::TEMPORARY;
            }
            taken
        }
        () => DirtyState::NOTHING,
    }
}

/// The highest parameter number in a text.
#[must_use]
pub fn parameters(text: &[u8], dialect: Dialect) -> u16 {
    let tokens = Lexer::new(text, dialect).filter(|token| token.kind == Kind::Parameter);
    let number = |token: Token| std::str::from_utf8(&text[token.range()][1..]).ok()?.parse().ok();
    tokens.filter_map(number).max().unwrap_or(0)
}

/// Functions that take an advisory lock of the session.
const LOCKERS: [&str; 4] =
    ["pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"];

/// How many statements of a text are classified one by one. Scripts have more, and are sent once.
const ACTS_MAX: usize = 256;
/// The longest text of a PREPARE that is read from a server, and so the longest that is carried to others.
const CARRIED_BYTES_MAX: usize = 20_000;

/// Reads statements.
struct Reader<'a> {
    dialect: Dialect,
    knowledge: Option<&'a Knowledge>,
}

impl Reader<'_> {
    fn act(&self, words: Words<'_>) -> Act {
        let Some(first) = words.text(0) else { return Act::nothing() };
        if words.kind(0) != Some(Kind::Word) {
            // `(SELECT ...) UNION ...`
            return if words.is_symbol(0, b"(") { self.query(words) } else { Act::other(DirtyState::ANYTHING) };
        }
        let first = first.to_ascii_lowercase();
        match &*first {
            b"begin" | b"start" => Act::Transaction(Control::Begin),
            b"commit" | b"end" if words.is(1, "prepared") => Act::nothing(),
            b"rollback" if words.is(1, "prepared") => Act::nothing(),
            b"commit" | b"end" | b"rollback" | b"abort" | b"savepoint" | b"release" => control(words),
            b"prepare" if words.is(1, "transaction") => Act::Transaction(Control::Commit { chain: false }),
            b"prepare" => self.prepare(words),
            b"execute" => self.execute(words),
            b"deallocate" => deallocate(&words),
            b"set" => changed(setting::set(&words)),
            b"reset" => setting::reset(&words).map_or(Act::ResetAll, changed),
            b"discard" if words.is(1, "all") => Act::DiscardAll,
            b"discard" if words.is_one_of(1, &["temp", "temporary"]) => Act::releasing(DirtyState::TEMPORARY),
            b"discard" => Act::nothing(),
            b"unlisten" if words.is_symbol(1, b"*") => Act::Unlisten { channel: None },
            b"unlisten" => match words.unquoted(1) {
                Some(name) if words.is_name(1) => Act::Unlisten { channel: Some(name.into()) },
                _ => Act::other(DirtyState::CHANNELS),
            },
            b"listen" => Act::other(DirtyState::CHANNELS),
            b"load" => Act::other(DirtyState::LIBRARIES),
            b"declare" => self.declare(words),
            b"close" => Act::releasing(DirtyState::CURSORS),
            b"do" => self.block(words),
            b"explain" => self.explain(words),
            b"create" | b"alter" | b"drop" | b"import" => self.define(words),
            b"select" if let Some(act) = calls_alone(&words, self.knowledge) => act,
            b"select" if let Some(call) = locks_alone(&words, self.knowledge) => Act::Lock(call),
            b"select" | b"insert" | b"update" | b"delete" | b"merge" | b"with" | b"values" | b"table" | b"copy"
            | b"call" | b"refresh" | b"lock" | b"truncate" | b"vacuum" | b"analyze" | b"analyse" | b"cluster"
            | b"reindex" => self.query(words),
            // These call nothing of their own, but event triggers may.
            b"comment" | b"grant" | b"revoke" | b"security" | b"reassign" => self.query(words),
            // What a cursor calls was examined when it was declared.
            b"show" | b"fetch" | b"move" | b"notify" | b"checkpoint" => Act::nothing(),
            _ => Act::other(DirtyState::ANYTHING),
        }
    }

    /// A statement that reads or writes tables, and may call functions.
    fn query(&self, words: Words<'_>) -> Act {
        let touches = match self.knowledge {
            None => DirtyState::ANYTHING,
            Some(knowledge) if knowledge.is_hidden() => DirtyState::ANYTHING.with(DirtyState::CALLS),
            Some(_) => DirtyState::NOTHING,
        };
        self.with_calls(words, Act::other(touches))
    }

    /// Adds what the called functions may do, and a temporary table that a query creates.
    fn with_calls(&self, words: Words<'_>, act: Act) -> Act {
        let (mut touches, mut releases) = (DirtyState::NOTHING, DirtyState::NOTHING);
        let mut names: Vec<Box<str>> = Vec::new();
        let lengths = self.knowledge.map_or(0, Knowledge::lengths);
        // Each is computed once, and only if something depends on it.
        let (local_calls, has_update) = (OnceCell::new(), OnceCell::new());
        for at in words.places(|first, length| may_matter(first, length) || lengths & 1 << (length % 64) != 0) {
            let Some(name) = words.name(at) else { return Act::other(DirtyState::ANYTHING) };
            let name = name.bytes();
            if self.knowledge.is_some_and(|knowledge| knowledge.suspects(name)) {
                return Act::other(DirtyState::ANYTHING.with(DirtyState::CALLS));
            }
            touches |= match name {
                b"set_config" => {
                    match Configured::read(&words, at + 1, local_calls.get_or_init(|| LocalCalls::of(&words))) {
                        Configured::Local => DirtyState::NOTHING,
                        Configured::Named(_) if names.len() == NAMES_MAX => {
                            DirtyState::ANY_SETTING.with(DirtyState::UNTOLD)
                        }
                        Configured::Named(name) => {
                            names.push(name);
                            DirtyState::SETTINGS
                        }
                        Configured::Unclear => DirtyState::ANY_SETTING.with(DirtyState::UNTOLD),
                    }
                }
                b"into" => {
                    let scope = usize::from(words.is_one_of(at + 1, &["local", "global"]));
                    let is_temporary = words.is_one_of(at + 1 + scope, &["temp", "temporary"]);
                    if is_temporary { DirtyState::TEMPORARY } else { DirtyState::NOTHING }
                }
                // A rule turns the UPDATE into a call of `set_config`.
                b"pg_settings" if *has_update.get_or_init(|| (0..words.end()).any(|at| words.is(at, "update"))) => {
                    DirtyState::ANY_SETTING
                }
                name if unlocks(name) => {
                    releases |= DirtyState::LOCKS;
                    DirtyState::NOTHING
                }
                name => known_name(name),
            };
        }
        match act {
            Act::Other { touches: before, releases: let_go, .. } => {
                Act::Other { touches: before | touches, releases: let_go | releases, names: names.into() }
            }
            // Its parameters call something.
            _ if !(touches | releases).is_nothing() => Act::other(DirtyState::ANYTHING),
            other => other,
        }
    }

    fn prepare(&self, words: Words<'_>) -> Act {
        let Some(name) = words.cut_name(1) else { return Act::other(DirtyState::ANYTHING) };
        let Some(body) = (2..words.end()).find(|&at| words.is(at, "as")) else {
            return Act::other(DirtyState::ANYTHING);
        };
        let body = words.from(body + 1);
        // PostgreSQL prepares nothing else (`PreparableStmt` in `parser/gram.y`).
        let mut touches = if is_query(&body) { self.query(body).touches() } else { DirtyState::ANYTHING };
        if touches.has(DirtyState::SETTINGS) {
            // The names of the settings are not kept.
            touches |= DirtyState::ANY_SETTING;
        }
        Act::Prepare { name: name.into(), touches, sql: None }
    }

    /// What the prepared statement does is known from its PREPARE.
    fn execute(&self, words: Words<'_>) -> Act {
        match words.cut_name(1) {
            Some(name) => self.with_calls(words, Act::Execute { name: name.into() }),
            None => Act::other(DirtyState::ANYTHING),
        }
    }

    fn declare(&self, words: Words<'_>) -> Act {
        let query = (1..words.end()).find(|&at| words.is(at, "for")).unwrap_or(words.end());
        let is_held = (1..query).any(|at| words.are(at, &["with", "hold"]));
        match self.query(words) {
            act if is_held => act.with(DirtyState::CURSORS, DirtyState::NOTHING),
            act => act,
        }
    }

    fn explain(&self, words: Words<'_>) -> Act {
        let words = words.from(explained(&words));
        match () {
            () if is_query(&words) || words.is(0, "refresh") => self.query(words),
            () if words.is(0, "declare") => self.declare(words),
            () if words.is(0, "create") => self.define(words),
            () if words.is(0, "execute") => self.execute(words),
            // Nothing else can be explained (`ExplainableStmt` in `parser/gram.y`), least of all another EXPLAIN.
            () => Act::other(DirtyState::ANYTHING),
        }
    }

    /// A statement that creates, changes or drops something in the catalog.
    fn define(&self, words: Words<'_>) -> Act {
        let mut at = 1;
        while words
            .is_one_of(at, &["or", "replace", "global", "local", "unlogged", "recursive", "materialized", "constraint"])
        {
            at += 1;
        }
        let is_temporary = words.is_one_of(at, &["temp", "temporary"]);
        at += usize::from(is_temporary);
        let (mut touches, mut releases) = (DirtyState::NOTHING, DirtyState::NOTHING);
        // What is dropped may have been temporary: then there may be no reason any more to keep the server.
        if words.is(0, "drop") {
            releases |= DirtyState::TEMPORARY;
        }
        let is_dropped_at_once =
            words.is(at, "table") && (at..words.end()).any(|at| words.are(at, &["on", "commit", "drop"]));
        if is_temporary && !is_dropped_at_once {
            touches |= DirtyState::TEMPORARY;
        }
        if is_behaviour(&words, at) {
            touches |= DirtyState::FUNCTIONS;
            if !is_temporary {
                touches |= DirtyState::MAKINGS;
            }
        }
        // `CREATE TABLE ... AS EXECUTE ...`
        if (at..words.end()).any(|at| words.are(at, &["as", "execute"])) {
            touches |= DirtyState::ANYTHING;
        }
        self.query(words).with(touches, releases)
    }

    /// `DO`: what its body may do. A body in any language but PL/pgSQL may do anything.
    fn block(&self, words: Words<'_>) -> Act {
        let mut body = None;
        let mut at = 1;
        while at < words.end() {
            match () {
                () if words.is(at, "language") => {
                    if words.unquoted(at + 1).as_deref() != Some("plpgsql") {
                        return Act::other(self.dark());
                    }
                    at += 1;
                }
                () if words.is_string(at) && body.is_none() => body = words.unquoted(at),
                () => return Act::other(DirtyState::ANYTHING),
            }
            at += 1;
        }
        body.map_or(Act::other(DirtyState::ANYTHING), |body| self.body(body.as_bytes()))
    }

    /// The body of a block of PL/pgSQL.
    fn body(&self, body: &[u8]) -> Act {
        let tokens: Vec<Token> = Lexer::new(body, self.dialect).collect();
        let words = Words::new(body, &tokens, self.dialect.encoding);
        match self.query(words) {
            _ if is_dark(&words) => Act::other(self.dark().with(makings_of(body))),
            act if makes_behaviour(&words) => {
                act.with(DirtyState::FUNCTIONS.with(DirtyState::MAKINGS), DirtyState::NOTHING)
            }
            act if !act.touches().is_nothing() => act.with(DirtyState::CALLS, DirtyState::NOTHING),
            other => other,
        }
    }

    /// What a block may do whose effects cannot be read.
    fn dark(&self) -> DirtyState {
        let is_trusted = self.knowledge.is_some_and(Knowledge::is_trusting);
        if is_trusted { DirtyState::NOTHING } else { DirtyState::ANYTHING.with(DirtyState::CALLS) }
    }
}

/// What the names in a text touch through PostgreSQL's own functions.
pub(crate) fn calls(words: Words<'_>, dialect: Dialect) -> DirtyState {
    let tame = Knowledge::default();
    Reader { dialect, knowledge: Some(&tame) }.query(words).touches()
}

/// `DEALLOCATE`
fn deallocate(words: &Words<'_>) -> Act {
    let at = if words.is(1, "prepare") && words.end() == 3 { 2 } else { 1 };
    let is_all = words.kind(at) == Some(Kind::Word) && words.is(at, "all");
    match words.cut_name(at) {
        _ if words.end() != at + 1 => Act::other(DirtyState::STATEMENTS),
        _ if is_all => Act::Deallocate { name: None },
        Some(name) => Act::Deallocate { name: Some(name.into()) },
        None => Act::other(DirtyState::STATEMENTS),
    }
}

fn changed(meaning: Meaning) -> Act {
    match meaning {
        Meaning::Local => Act::nothing(),
        Meaning::Changes(changes) => Act::Set(changes.into()),
        Meaning::Unclear => Act::other(DirtyState::ANY_SETTING),
    }
}

/// `COMMIT` and similar.
fn control(words: Words<'_>) -> Act {
    let rest = 1 + usize::from(words.is_one_of(1, &["work", "transaction"]));
    let name = |at: usize| {
        let at = at + usize::from(words.is(at, "savepoint") && words.is_name(at + 1));
        words.unquoted(at).filter(|_| words.is_name(at) && words.end() == at + 1).map(Into::into)
    };
    let chain = words.are(rest, &["and", "chain"]);
    let control = match () {
        () if words.is(0, "savepoint") => name(1).map(Control::Savepoint),
        () if words.is(0, "release") => name(1).map(Control::Release),
        () if words.is(0, "rollback") && words.is(rest, "to") => name(rest + 1).map(Control::RollbackTo),
        () if words.is_one_of(0, &["commit", "end"]) => Some(Control::Commit { chain }),
        () => Some(Control::Rollback { chain }),
    };
    control.map_or(Act::other(DirtyState::ANYTHING), Act::Transaction)
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
