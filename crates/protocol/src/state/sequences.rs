//! Tracks how a client uses sequences: `currval` and `lastval` return what its session has drawn, and only one server
//! knows that.
//!
//! Always true: numbers that a transaction may have drawn itself are never discarded; a client that is known to ask never
//! reads a number that another client has drawn.
//! Not here: which texts draw numbers or ask for them (`route::Sequences`), how long a server is kept for that
//! (`session_effects`).

use std::collections::BTreeMap;

use route::{Act, Class, Control, Sequences};

/// What the current transaction of a client has done with sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counting {
    /// It has sent something that may have drawn numbers, for instance in a function.
    has_worked: bool,
    /// It creates rows, or draws numbers by a sequence's name.
    has_drawn: bool,
    /// It has asked for a number that was drawn before it.
    has_asked: bool,
    /// It asks for a number, and it has not been decided yet whether its server may answer.
    asking: Option<Asking>,
    /// The client has prepared a statement that draws numbers, and its name was not noted.
    is_unnoted: bool,
}

impl Counting {
    /// For a client whose earlier statements were not read: it may have drawn whatever it asks for.
    #[must_use]
    pub fn unread() -> Self {
        Self { has_worked: true, has_drawn: true, is_unnoted: true, ..Self::default() }
    }

    /// The client executes a text.
    pub fn executes(&mut self, class: &Class) {
        self.asks(class.sequences);
        self.has_asked |= class.sequences.are_read && !self.has_drawn;
        self.has_drawn |= class.sequences.are_drawn;
        self.has_worked |= class.acts.iter().any(|act| !is_introduction(act));
    }

    /// The client prepares a statement. Unless its name is noted, the statement counts as executed.
    pub fn prepares(&mut self, class: &Class, is_noted: bool) {
        self.asks(class.sequences);
        if !is_noted {
            self.has_drawn |= class.sequences.are_drawn;
            self.is_unnoted |= class.sequences.are_drawn;
        }
        self.has_worked |= class.acts.iter().any(|act| !is_introduction(act));
    }

    /// The client executes a statement that was not noted, or calls a function.
    pub fn executes_unnoted(&mut self) {
        self.has_drawn |= self.is_unnoted;
        self.has_worked = true;
    }

    fn asks(&mut self, sequences: Sequences) {
        if sequences.are_read && !self.has_drawn {
            self.asking = Some(if self.has_worked { Asking::Later } else { Asking::First });
        }
    }

    /// Whether and how the transaction is about to ask for numbers of earlier ones. Each time is returned once.
    pub fn asking(&mut self) -> Option<Asking> {
        self.asking.take()
    }

    /// Whether the transaction has neither drawn numbers nor asked for earlier ones.
    #[must_use]
    pub fn has_done_neither(&self) -> bool {
        !self.has_drawn && !self.has_asked
    }

    /// The transaction has ended, or another begins: returns what it has done.
    pub fn ends(&mut self) -> Counted {
        let Self { has_drawn, has_asked, is_unnoted, .. } = *self;
        *self = Self { is_unnoted, ..Self::default() };
        match (has_drawn, has_asked) {
            (true, _) => Counted::Drew,
            (false, true) => Counted::Asked,
            (false, false) => Counted::Neither,
        }
    }
}

/// How a transaction asks for numbers that it has not plainly drawn itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asking {
    /// Before it has done anything: the numbers are those of an earlier transaction.
    First,
    /// Behind something that may have drawn them, for instance a function.
    Later,
}

/// What a transaction has done with sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// It may have drawn numbers.
    Drew,
    /// It has asked for numbers that were drawn before it.
    Asked,
    /// It has done neither.
    Neither,
}

/// Whether a statement only begins a transaction, or sets something.
fn is_introduction(act: &Act) -> bool {
    matches!(act, Act::Transaction(Control::Begin) | Act::Set(_) | Act::ResetAll)
}

/// Statements whose numbers later transactions ask for: a server is worth keeping only for these.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Habits {
    /// For each statement, without its values: how many more times a server may be kept for it in vain.
    rows: BTreeMap<Box<str>, u32>,
}

impl Habits {
    /// Whether a server is kept for the numbers that this statement has drawn.
    #[must_use]
    pub fn is_worth_it(&self, statement: &str) -> bool {
        self.rows.get(statement).is_none_or(|&left| left > 0)
    }

    /// A client has asked for a number that this statement had drawn.
    pub fn asked(&mut self, statement: &str) {
        self.set(statement, VAIN_AFTER_ASKED);
    }

    /// A server was kept for this statement, and the client has not asked.
    pub fn in_vain(&mut self, statement: &str) {
        let left = self.rows.get(statement).copied().unwrap_or(VAIN_AT_FIRST);
        self.set(statement, left.saturating_sub(1));
    }

    fn set(&mut self, statement: &str, left: u32) {
        if self.rows.len() >= STATEMENTS_MAX && !self.rows.contains_key(statement) {
            self.rows.clear();
        }
        self.rows.insert(statement.into(), left);
    }
}

/// How often a server is kept in vain for a statement of which nothing is known.
const VAIN_AT_FIRST: u32 = 4;
/// How often it is kept in vain after a client has asked.
const VAIN_AFTER_ASKED: u32 = 16;
/// The most statements that are remembered; when there are more, all are forgotten.
const STATEMENTS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use route::{Dialect, Knowledge, classify};

    #[test]
    fn who_has_done_something_may_have_drawn_what_it_asks_for() {
        let asks = |begin: &dyn Fn(&mut Counting)| {
            let mut counting = Counting::default();
            begin(&mut counting);
            counting.executes(&class("select currval('n')"));
            counting.asking()
        };
        assert_eq!(asks(&|_| {}), Some(Asking::First));
        assert_eq!(asks(&|counting| counting.executes(&class("begin; set work_mem = 1"))), Some(Asking::First));
        assert_eq!(asks(&|counting| counting.executes(&class("begin; select 1"))), Some(Asking::Later));
        assert_eq!(asks(&|counting| counting.prepares(&class("select 1"), false)), Some(Asking::Later));
        assert_eq!(asks(&|counting| counting.executes_unnoted()), Some(Asking::Later));
        assert_eq!(asks(&|counting| counting.executes(&class("select nextval('n')"))), None);
    }

    fn class(text: &str) -> Class {
        classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default()))
    }

    #[test]
    fn who_asks_first_asks_for_what_was_drawn_before() {
        for (texts, asking, counted) in [
            (&["select lastval()"][..], Some(Asking::First), Counted::Asked),
            (&["begin", "set a.b = 1", "select currval('s')"], Some(Asking::First), Counted::Asked),
            (&["insert into t values (1)", "select lastval()"], None, Counted::Drew),
            (&["insert into t values (1); select lastval()"], None, Counted::Drew),
            // No text tells what a function draws.
            (&["select f()", "select lastval()"], Some(Asking::Later), Counted::Asked),
            (&["select lastval()", "insert into t values (1)"], Some(Asking::First), Counted::Drew),
            (&["select 1"], None, Counted::Neither),
        ] {
            let mut counting = Counting::default();
            let mut asked = None;
            for text in texts {
                counting.executes(&class(text));
                asked = asked.or(counting.asking());
            }
            assert_eq!((asked, counting.ends()), (asking, counted), "{texts:?}");
            assert_eq!(counting, Counting::default());
        }
    }

    #[test]
    fn what_nobody_has_noted_may_draw_whenever_it_is_bound() {
        let mut counting = Counting::default();
        counting.prepares(&class("insert into t values ($1)"), false);
        assert_eq!(counting.ends(), Counted::Drew);
        counting.executes_unnoted();
        assert_eq!(counting.ends(), Counted::Drew, "it may be that one");
        let mut counting = Counting::default();
        counting.prepares(&class("insert into t values ($1)"), true);
        assert_eq!(counting.ends(), Counted::Neither, "it is not bound");
        counting.executes_unnoted();
        assert_eq!(counting.ends(), Counted::Neither, "nor is this it");
        let mut counting = Counting::unread();
        counting.executes(&class("select lastval()"));
        assert_eq!(counting.asking(), None, "what it may have drawn before anybody listened is not forgotten");
    }

    #[test]
    fn a_server_is_kept_for_statements_whose_numbers_are_asked_for() {
        let mut habits = Habits::default();
        for _ in 0..VAIN_AT_FIRST {
            assert!(habits.is_worth_it("insert into log"));
            habits.in_vain("insert into log");
        }
        assert!(!habits.is_worth_it("insert into log") && habits.is_worth_it("insert into t"));
        habits.asked("insert into log");
        for _ in 0..VAIN_AFTER_ASKED {
            assert!(habits.is_worth_it("insert into log"));
            habits.in_vain("insert into log");
        }
        assert!(!habits.is_worth_it("insert into log"));
        for number in 0..10 * STATEMENTS_MAX {
            habits.in_vain(&number.to_string());
            assert!(habits.rows.len() <= STATEMENTS_MAX);
        }
    }
}
