//! Who waits until the session that listens for all has told what was committed before: it is asked something, in rounds, and answers when it
//! has told that (`ProcessNotifyInterrupt` in PostgreSQL's `tcop/postgres.c` comes before each `ReadyForQuery` outside of transactions).
//!
//! Always true: who comes while a question is on its way waits for the answer to the next one; a session that has once not answered in time is
//! waited for by nobody until it answers.
//! Not here: what is asked, when it is too late, and what those do who wait (`worker::notify::own_news`).

/// The rounds of one session.
#[derive(Clone, Debug)]
pub struct Rounds<K> {
    /// Those for whom the question was asked that is on its way.
    asked: Vec<K>,
    /// Those who have come since.
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
    /// Somebody comes. False if it need not wait: nobody does.
    #[must_use]
    pub fn comes(&mut self, who: K) -> bool {
        if !self.is_late {
            self.next.push(who);
        }
        !self.is_late
    }

    /// Whether nobody waits, since the session has not answered in time.
    #[must_use]
    pub fn are_late(&self) -> bool {
        self.is_late
    }

    /// Whether a question is to be asked.
    #[must_use]
    pub fn wants_question(&self) -> bool {
        !self.is_asked && !self.next.is_empty()
    }

    /// It is asked.
    pub fn asks(&mut self) {
        self.is_asked = true;
        self.asked.append(&mut self.next);
    }

    /// The session has answered it: those who need not wait any longer.
    pub fn answered(&mut self) -> Vec<K> {
        (self.is_asked, self.is_late) = (false, false);
        std::mem::take(&mut self.asked)
    }

    /// The session has answered something else: it is well.
    pub fn is_heard(&mut self) {
        self.is_late &= self.is_asked;
    }

    /// Somebody has waited long enough: those who need not wait any longer, which are all.
    pub fn is_too_late(&mut self) -> Vec<K> {
        self.is_late = true;
        self.everybody()
    }

    /// The session has ended: the same.
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
        assert_eq!(rounds.is_too_late(), ["ann", "bob"]);
        assert!(rounds.are_late() && !rounds.comes("ann"));
        rounds.is_heard();
        assert!(!rounds.comes("ann"), "that was not the answer");
        assert!(rounds.answered().is_empty());
        assert!(rounds.comes("ann"));
        // It is busy with something else.
        assert_eq!(rounds.is_too_late(), ["ann"]);
        assert!(!rounds.comes("bob"));
        rounds.is_heard();
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
