//! What is known of a database's functions and custom settings, for clients whose session state follows them.
//!
//! Always true: the knowledge comes from a server's answer no older than [`KNOWLEDGE_AGE_MAX`]; nothing is assumed about what is unknown.
//! Not here: what it means for a text (crate `route`), how servers are asked (`probe`).

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use super::mentioned::Mentioned;
use super::pins::Kind;
use super::policy::Unseen;
use super::sequences::Habits;
use base::Time;
use route::{Knowledge, Unread};

/// What is known of one database.
#[derive(Debug, Default)]
pub struct FunctionCatalog {
    /// What the functions do to sessions, and when a server reported it.
    knowledge: Option<(Rc<Knowledge>, Time)>,
    /// What a server has last reported of the functions, even if that is no longer relied on.
    last_report: Option<Rc<Knowledge>>,
    /// How often functions have been created since the start, or may have been.
    creations: u64,
    /// Whether functions could not be read in the last report, even if that report was dropped.
    unread: Unread,
    /// When the functions are read again, because others than our clients may have created some.
    again_at: Time,
    /// Distinguishes what is known of this database's texts from other databases, and from older knowledge.
    scope: u32,
    /// Custom settings (names with a dot) that any client has mentioned.
    pub custom: Mentioned,
    /// Users whose programs ask for numbers of sequences that they have drawn in an earlier transaction.
    askers: BTreeSet<u32>,
    /// The statements of these users for which a server is worth keeping.
    pub numbers: Habits,
    /// Kinds of holds and the statements that were reported as their cause.
    reported: BTreeSet<(Kind, Box<[u8]>)>,
    /// How often a hold of each kind has begun.
    pins: [u64; Kind::ALL.len()],
}

impl FunctionCatalog {
    /// A catalog in which nothing is known.
    pub fn new(scope: u32) -> Self {
        Self { scope, ..Self::default() }
    }

    /// What the functions do, if that is known.
    pub fn knowledge(&self) -> Option<&Knowledge> {
        self.knowledge.as_ref().map(|(knowledge, _)| &**knowledge)
    }

    /// The settings that the texts of functions mention, as far as a server has reported them.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.last_report.iter().flat_map(|knowledge| knowledge.settings())
    }

    /// The state of the knowledge in one word, for people.
    pub fn word(&self, now: Time) -> &'static str {
        match &self.knowledge {
            Some((knowledge, _)) if knowledge.is_trusting() => "ignored",
            Some((_, since)) if now.since(*since) > KNOWLEDGE_AGE_MAX => "unknown",
            Some((knowledge, _)) => match knowledge.unread() {
                Unread::Nothing => "known",
                Unread::Some => "partly",
                Unread::All => "unread",
            },
            None => "unknown",
        }
    }

    /// The scope in which texts are classified.
    pub fn scope(&self) -> u32 {
        self.scope
    }

    /// Brings what is known up to date before a client's messages are read.
    pub fn renew(&mut self, unseen: Unseen, now: Time, scopes: &mut u32) {
        self.trust(unseen == Unseen::Ignore, scopes);
        self.forget_old(now, scopes);
    }

    /// Sets whether the functions are taken to do nothing, whatever they do (`session_unseen = ignore`).
    fn trust(&mut self, is_trusting: bool, scopes: &mut u32) {
        if self.is_trusting() != is_trusting {
            *scopes += 1;
            self.knowledge = is_trusting.then(|| (Rc::new(Knowledge::trusting()), Time(0)));
            self.scope = *scopes;
        }
    }

    /// Whether the functions are taken to do nothing.
    pub fn is_trusting(&self) -> bool {
        self.knowledge().is_some_and(Knowledge::is_trusting)
    }

    /// A server has reported what the functions do. It was asked when [`Self::creations`] was `creations`, so it may have missed functions
    /// created since. Returns how much could not be read, if that differs from the last report.
    pub fn learn(&mut self, knowledge: Knowledge, creations: u64, now: Time, scope: u32) -> Option<Unread> {
        if self.is_trusting() {
            return None;
        }
        let unread = knowledge.unread();
        let before = std::mem::replace(&mut self.unread, unread);
        let knowledge = Rc::new(knowledge);
        self.last_report = Some(knowledge.clone());
        if creations == self.creations {
            (self.knowledge, self.again_at) = (Some((knowledge, now)), now + KNOWLEDGE_FRESH);
            self.scope = scope;
        }
        (unread != before).then_some(unread)
    }

    /// How often functions have been created, or may have been.
    pub fn creations(&self) -> u64 {
        self.creations
    }

    /// Functions are being created, or have been: the knowledge is incomplete.
    pub fn functions_created(&mut self, scopes: &mut u32) {
        self.creations += 1;
        self.forget(scopes);
    }

    /// Forgets knowledge that is too old to be relied on.
    fn forget_old(&mut self, now: Time, scopes: &mut u32) {
        if self.knowledge.as_ref().is_some_and(|(_, since)| now.since(*since) > KNOWLEDGE_AGE_MAX) {
            self.forget(scopes);
        }
    }

    /// Forgets the functions, for instance because the name leads to another database now.
    pub fn forget(&mut self, scopes: &mut u32) {
        if self.knowledge.is_some() && !self.is_trusting() {
            *scopes += 1;
            (self.knowledge, self.scope) = (None, *scopes);
        }
    }

    /// Whether it is time to read the functions again.
    pub fn is_due(&self, now: Time) -> bool {
        self.knowledge.is_some() && !self.is_trusting() && now >= self.again_at
    }

    /// Whether the caller is the one that must read the functions again.
    pub fn is_to_be_read(&mut self, now: Time) -> bool {
        let is_due = self.is_due(now);
        if is_due {
            // The caller's client may leave before the server has answered.
            self.again_at = now + KNOWLEDGE_FRESH / 3;
        }
        is_due
    }

    /// A program of this user asks for a number that it has drawn in an earlier transaction.
    pub fn note_asker(&mut self, user: u32) {
        self.askers.insert(user);
    }

    /// Whether programs of this user ask for numbers that they have drawn in an earlier transaction.
    pub fn asks_for_sequences(&self, user: u32) -> bool {
        self.askers.contains(&user)
    }

    /// Forgets users whose numbers are given to others.
    pub fn forget_users(&mut self, users: &BTreeSet<u32>) {
        self.askers.retain(|user| !users.contains(user));
        self.custom.forget_users(users);
    }

    /// A hold of this kind begins.
    pub fn count_pin(&mut self, kind: Kind) {
        self.pins[kind as usize] += 1;
    }

    /// How often a hold of each kind has begun.
    pub fn pins(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.into_iter().zip(self.pins)
    }

    /// Whether this statement has not been reported yet as the cause of such a hold. Statements that differ only in the numbers of names
    /// count as one, because drivers number their cursors (`_django_curs_139905_sync_7`); names of cursors with
    /// digits do not count at all, because they may be random (UUIDs).
    pub fn is_news(&mut self, kind: Kind, statement: &str) -> bool {
        if self.reported.len() >= REPORTED_MAX {
            self.reported.clear();
        }
        let mut plain = Vec::with_capacity(statement.len() + 1);
        let rest = match behind_cursor_name(statement).filter(|_| kind == Kind::Cursor) {
            Some(rest) => {
                plain.extend_from_slice(b"declare ?");
                rest
            }
            None => statement,
        };
        push_without_counters(&mut plain, rest.as_bytes());
        self.reported.insert((kind, plain.into()))
    }
}

/// What stands behind the name in `DECLARE name ...`, if the name has digits.
fn behind_cursor_name(statement: &str) -> Option<&str> {
    let (verb, rest) = statement.split_at_checked("DECLARE ".len())?;
    let end = match rest.strip_prefix('"') {
        Some(quoted) => quoted.find('"')? + "\"\"".len(),
        None => rest.find(char::is_whitespace)?,
    };
    let (name, rest) = rest.split_at(end);
    (verb.eq_ignore_ascii_case("DECLARE ") && name.bytes().any(|byte| byte.is_ascii_digit())).then_some(rest)
}

/// Appends the statement with each name that contains digits cut behind the last underscore before the first digit.
fn push_without_counters(plain: &mut Vec<u8>, statement: &[u8]) {
    let (mut word, mut is_cut) = (plain.len(), false);
    for &byte in statement {
        let is_digit = byte.is_ascii_digit();
        if !(is_digit || byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii()) {
            plain.push(byte);
            (word, is_cut) = (plain.len(), false);
        } else if is_digit && !is_cut {
            if let Some(at) = plain[word..].iter().rposition(|&earlier| earlier == b'_') {
                plain.truncate(word + at + 1);
            }
            plain.push(b'?');
            is_cut = true;
        } else if !is_cut {
            plain.push(byte);
        }
    }
}

/// The most statements that are remembered as reported.
const REPORTED_MAX: usize = 1000;
/// Older knowledge of a database's functions is renewed by the next client.
const KNOWLEDGE_FRESH: Duration = Duration::from_secs(30);
/// Older knowledge is not used, because others than our clients may have created functions meanwhile.
const KNOWLEDGE_AGE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_that_a_driver_counts_are_told_of_once() {
        let mut function_catalog = FunctionCatalog::new(1);
        let declare = |name: &str| format!("DECLARE \"{name}\" CURSOR WITH HOLD FOR select x from t");
        assert!(function_catalog.is_news(Kind::Cursor, &declare("_django_curs_139905_sync_1")));
        for other in [
            "_django_curs_139905_sync_2",
            "_django_curs_140001_async_30",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "abcdefab-cdef-4abc-8def-0123456789ab",
        ] {
            assert!(!function_catalog.is_news(Kind::Cursor, &declare(other)), "{other}");
        }
        assert!(
            function_catalog.is_news(Kind::Cursor, &declare("mine"))
                && !function_catalog.is_news(Kind::Cursor, &declare("mine"))
        );
        assert!(function_catalog.is_news(Kind::Temporary, &declare("_django_curs_139905_sync_1")), "of another kind");
        for (statement, plain) in
            [("create temp table a_b12_3 (d)", "create temp table a_? (d)"), ("", ""), ("é7é x", "é? x")]
        {
            let mut found = Vec::new();
            push_without_counters(&mut found, statement.as_bytes());
            assert_eq!(found, plain.as_bytes(), "{statement}");
        }
    }

    #[test]
    fn knowledge_is_renewed_by_one_and_forgotten_when_nobody_has_renewed_it() {
        let (mut function_catalog, mut scopes) = (FunctionCatalog::new(1), 2);
        let at = Time::from_secs;
        assert!(!function_catalog.is_to_be_read(at(100)), "who knows nothing is asked anyway");
        function_catalog.learn(Knowledge::default(), 0, at(100), 2);
        assert!(!function_catalog.is_to_be_read(at(129)));
        assert!(function_catalog.is_to_be_read(at(130)) && !function_catalog.is_to_be_read(at(130)), "one is enough");
        assert!(function_catalog.is_to_be_read(at(140)), "that one may have left");
        function_catalog.forget_old(at(160), &mut scopes);
        assert!(function_catalog.knowledge().is_some() && function_catalog.scope() == 2);
        assert_eq!((function_catalog.word(at(160)), function_catalog.word(at(161))), ("known", "unknown"));
        function_catalog.forget_old(at(161), &mut scopes);
        assert!(function_catalog.knowledge().is_none());
        assert_ne!(function_catalog.scope(), 2, "what was read with it is read anew");
    }

    #[test]
    fn who_was_asked_before_functions_were_made_has_not_told_of_them() {
        let (mut function_catalog, mut scopes) = (FunctionCatalog::new(1), 2);
        function_catalog.learn(Knowledge::default(), function_catalog.creations(), Time(0), 2);
        let asked = function_catalog.creations();
        function_catalog.functions_created(&mut scopes);
        assert!(function_catalog.knowledge().is_none() && function_catalog.scope() == 3);
        function_catalog.learn(Knowledge::default(), asked, Time(1), 4);
        assert!(function_catalog.knowledge().is_none());
        function_catalog.learn(Knowledge::default(), function_catalog.creations(), Time(2), 5);
        assert!(function_catalog.knowledge().is_some() && function_catalog.scope() == 5);
    }

    #[test]
    fn what_cannot_be_read_is_news_once() {
        let (mut function_catalog, mut scopes) = (FunctionCatalog::new(1), 2);
        let many = || Knowledge::read((0..100_001).map(|_| SOURCE));
        assert_eq!(function_catalog.learn(Knowledge::default(), 0, Time::from_secs(0), 2), None);
        assert_eq!(function_catalog.learn(many(), 0, Time::from_secs(1), 2), Some(Unread::All));
        function_catalog.forget_old(Time::from_secs(100), &mut scopes);
        assert!(function_catalog.knowledge().is_none());
        assert_eq!(function_catalog.learn(many(), 0, Time::from_secs(100), 2), None);
        assert_eq!(function_catalog.learn(Knowledge::default(), 0, Time::from_secs(101), 2), Some(Unread::Nothing));
    }

    const SOURCE: route::Source<'static> =
        route::Source { name: "f", is_readable: true, is_hidden: false, is_in_queries: false, text: "" };

    #[test]
    fn who_trusts_functions_learns_nothing_of_them() {
        let (mut function_catalog, mut scopes) = (FunctionCatalog::new(1), 1);
        function_catalog.learn(Knowledge::new(["f"], true), 0, Time(0), 1);
        function_catalog.trust(true, &mut scopes);
        assert!(
            function_catalog.knowledge().is_some_and(|knowledge| !knowledge.suspects(b"f") && !knowledge.is_hidden())
        );
        assert_eq!((function_catalog.scope(), scopes), (2, 2), "what was read before is read anew");
        function_catalog.learn(Knowledge::new(["f"], true), 0, Time(0), 3);
        function_catalog.forget_old(Time::from_secs(1000), &mut scopes);
        assert!(!function_catalog.is_to_be_read(Time::from_secs(1000)) && function_catalog.scope() == 2);
        assert!(function_catalog.knowledge().is_some_and(|knowledge| !knowledge.is_hidden()));
        function_catalog.trust(false, &mut scopes);
        assert!(function_catalog.knowledge().is_none() && function_catalog.scope() == 3);
    }

    #[test]
    fn users_are_forgotten_one_by_one_and_what_is_held_is_counted() {
        let mut function_catalog = FunctionCatalog::new(1);
        [1, 2].into_iter().for_each(|user| function_catalog.note_asker(user));
        function_catalog.forget_users(&BTreeSet::from([1]));
        assert!(!function_catalog.asks_for_sequences(1) && function_catalog.asks_for_sequences(2));
        [Kind::Lock, Kind::Lock, Kind::Cursor].into_iter().for_each(|kind| function_catalog.count_pin(kind));
        let counts: Vec<_> = function_catalog.pins().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts.len(), 2);
        assert!(counts.contains(&(Kind::Lock, 2)) && counts.contains(&(Kind::Cursor, 1)));
    }

    #[test]
    fn what_was_told_is_forgotten_when_it_is_too_much() {
        let mut function_catalog = FunctionCatalog::new(1);
        let statement = |number: usize| "x".repeat(number + 1);
        assert!((0..REPORTED_MAX).all(|number| function_catalog.is_news(Kind::Lock, &statement(number))));
        assert_eq!(function_catalog.reported.len(), REPORTED_MAX);
        assert!(function_catalog.is_news(Kind::Lock, &statement(REPORTED_MAX)));
        assert_eq!(function_catalog.reported.len(), 1);
    }

    #[test]
    fn each_pair_of_kind_and_statement_is_news_once() {
        let mut function_catalog = FunctionCatalog::new(1);
        assert!(function_catalog.is_news(Kind::Lock, "a") && function_catalog.is_news(Kind::Channel, "a"));
        assert!(!function_catalog.is_news(Kind::Lock, "a"));
    }
}
