//! The control thread's part in PAM and LDAP, and in who is whom to the system.
//!
//! Always true: a verdict is about the password that was shown, and a name about the number that was asked for.
//! Not here: what is drawn of all this (`gate`).

use base::WorkerId;
use pool::ClientKey;
use worker::letters::{PasswordQuestion, ToControl, ToWorker};

use crate::agenda::Event;
use crate::gate::system_user;
use crate::world::World;

/// What is to be answered.
#[derive(Debug)]
pub(crate) enum Case {
    Password(PasswordQuestion),
    SystemUser {
        from: WorkerId,
        client: ClientKey,
        uid: u32,
    },
    /// Answered, or unneeded.
    Closed,
}

/// Those who wait for an answer, and what keeps the judge from giving one.
#[derive(Debug, Default)]
pub(crate) struct Court {
    cases: Vec<Case>,
    /// It cannot be asked.
    pub(crate) is_away: bool,
}

impl Court {
    /// Whether nobody waits.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.cases.iter().all(|case| matches!(case, Case::Closed))
    }
}

impl World {
    /// Another process has taken over: nobody waits any more.
    pub(crate) fn close_all_cases(&mut self) {
        self.court.cases.iter_mut().for_each(|case| *case = Case::Closed);
    }

    /// A worker asks who somebody is, or does not need to know any more.
    pub(crate) fn consult(&mut self, letter: ToControl) {
        match letter {
            ToControl::SystemUser { from, client, uid } => self.bring(Case::SystemUser { from, client, uid }),
            ToControl::AskSecret(asked) => self.ask_secret(asked),
            ToControl::SecretUnneeded { from, client } => self.forget_secret(from, client),
            ToControl::AskJudge(asked) => self.bring(Case::Password(asked)),
            ToControl::JudgeUnneeded { from, client } => self.drop_case(from, client),
            letter @ (ToControl::Listen { .. } | ToControl::Unlisten { .. }) => self.order_listener(letter),
            other => unreachable!("{other:?} is not a question about anybody"),
        }
    }

    fn bring(&mut self, case: Case) {
        let number = self.court.cases.len() as u32;
        self.court.cases.push(case);
        let pause = self.control_pause();
        self.net.borrow_mut().agenda.after(pause, Event::Verdict { number });
    }

    /// The client of a case has gone. What has begun may end all the same.
    fn drop_case(&mut self, from: WorkerId, client: ClientKey) {
        let has_begun = self.archive.dice.chance(500);
        let is_its =
            |case: &&mut Case| matches!(case, Case::Password(asked) if (asked.from, asked.client) == (from, client));
        for case in self.court.cases.iter_mut().filter(is_its) {
            if !has_begun {
                *case = Case::Closed;
            }
        }
    }

    /// The answer is there.
    pub(crate) fn decide(&mut self, number: u32) {
        match std::mem::replace(&mut self.court.cases[number as usize], Case::Closed) {
            Case::Password(asked) => {
                self.witness.count("verdicts");
                let right = self.plan.gate.password(&asked.user, 0, 0);
                let verdict = if self.court.is_away {
                    for text in ["PAM authentication failed", "LDAP authentication failed"] {
                        *self.archive.excuses.entry(text).or_default() += 1;
                    }
                    Err("the judge cannot be asked".into())
                } else if *right.text() == *asked.password.as_bytes() {
                    Ok(())
                } else {
                    Err("the judge says no".into())
                };
                self.post(self.place_of(asked.from), ToWorker::Judged { client: asked.client, verdict });
            }
            Case::SystemUser { from, client, uid } => {
                self.witness.count("users of the system");
                self.post(self.place_of(from), ToWorker::SystemUser { client, name: system_user(uid).map(Into::into) });
            }
            Case::Closed => {}
        }
    }
}
