//! Waiting until the listener (`subscriptions`) has delivered all notifications that are committed: it is queried in
//! rounds, and has delivered them when it answers (`ProcessNotifyInterrupt` in PostgreSQL's `tcop/postgres.c` comes
//! before each `ReadyForQuery` outside of transactions).
//!
//! Always true: a client that comes while a query is under way waits for the answer to the next one; once the listener
//! has not answered in time, no client waits for it until it answers.
//! Not here: what is queried, when it is too late, and what the waiting clients do (`worker::notify::own_news`).

/// The rounds of one listener.
#[derive(Clone, Debug)]
pub struct Rounds<K> {
    /// Those who wait for the answer to the query that is under way.
    asked: Vec<K>,
    /// Those who wait for the next query.
    next: Vec<K>,
    is_asked: bool,
    is_late: bool,
}

impl<K> Default for Rounds<K> {
    fn default() -> Self {
        Self { asked: Vec::new(), next: Vec::new(), is_asked: false, is_late: false }
    }
}

impl<K> Rounds<K> {
    /// Adds `who`. Returns false if it need not wait, because nobody waits for a late listener.
    #[must_use]
    pub fn comes(&mut self, who: K) -> bool {
        if !self.is_late {
            self.next.push(who);
        }
        !self.is_late
    }

    /// Whether nobody waits, because the listener has not answered in time.
    #[must_use]
    pub fn are_late(&self) -> bool {
        self.is_late
    }

    /// Whether a query must be sent.
    #[must_use]
    pub fn wants_question(&self) -> bool {
        !self.is_asked && !self.next.is_empty()
    }

    /// The query is sent.
    pub fn asks(&mut self) {
        self.is_asked = true;
        self.asked.append(&mut self.next);
    }

    /// The listener has answered the query: returns those who need not wait any longer.
    pub fn answered(&mut self) -> Vec<K> {
        (self.is_asked, self.is_late) = (false, false);
        std::mem::take(&mut self.asked)
    }

    /// The listener has answered something else: it is no longer late, unless a query is under way.
    pub fn answers_other(&mut self) {
        self.is_late &= self.is_asked;
    }

    /// A waiter has waited long enough: the listener is late. Returns all waiters, as none need wait any longer.
    pub fn give_up(&mut self) -> Vec<K> {
        self.is_late = true;
        self.everybody()
    }

    /// The listener's session has ended. Returns all waiters, as none need wait any longer.
    pub fn ends(&mut self) -> Vec<K> {
        (self.is_asked, self.is_late) = (false, false);
        self.everybody()
    }

    fn everybody(&mut self) -> Vec<K> {
        self.asked.append(&mut self.next);
        std::mem::take(&mut self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_while_a_question_is_on_its_way_waits_for_the_next() {
        let mut rounds = Rounds::default();
        assert!(!rounds.wants_question());
        assert!(rounds.comes("ann") && rounds.comes("bob"));
        assert!(rounds.wants_question());
        rounds.asks();
        assert!(rounds.comes("cyd") && !rounds.wants_question());
        assert_eq!(rounds.answered(), ["ann", "bob"]);
        assert!(rounds.wants_question());
        rounds.asks();
        assert_eq!(rounds.answered(), ["cyd"]);
        assert!(!rounds.wants_question());
    }

    #[test]
    fn who_does_not_answer_is_waited_for_once() {
        let mut rounds = Rounds::default();
        assert!(rounds.comes("ann"));
        rounds.asks();
        assert!(rounds.comes("bob"));
        assert_eq!(rounds.give_up(), ["ann", "bob"]);
        assert!(rounds.are_late() && !rounds.comes("ann"));
        rounds.answers_other();
        assert!(!rounds.comes("ann"), "that was not the answer");
        assert!(rounds.answered().is_empty());
        assert!(rounds.comes("ann"));
        // The listener is busy with something else.
        assert_eq!(rounds.give_up(), ["ann"]);
        assert!(!rounds.comes("bob"));
        rounds.answers_other();
        assert!(rounds.comes("bob"));
    }

    #[test]
    fn nobody_waits_for_a_session_that_has_ended() {
        let mut rounds = Rounds::default();
        assert!(rounds.comes("ann"));
        rounds.asks();
        assert!(rounds.comes("bob"));
        assert_eq!(rounds.ends(), ["ann", "bob"]);
        assert!(rounds.comes("ann") && rounds.wants_question(), "another one comes");
    }
}
