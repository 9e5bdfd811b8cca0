//! The control thread's part in PAM and LDAP, in who is whom to the system, and in the hashing of passwords.
//!
//! Always true: a verdict is about the password that was shown, and a name about the number that was asked for.
//! Not here: what is drawn of all this (`auth_plan`).

use std::sync::Arc;

use base::WorkerId;
use pool::ClientKey;
use worker::letters::{HashAsker, HashQuestion, PasswordQuestion, ToControl, ToWorker};

use crate::plan::auth_plan::system_user;
use crate::sim::agenda::Event;
use crate::world::World;

/// What is to be answered.
#[derive(Debug)]
pub(crate) enum Case {
    Password(PasswordQuestion),
    Hash(HashQuestion),
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
            ToControl::JudgeUnneeded { from, client } | ToControl::SystemUserUnneeded { from, client } => {
                self.drop_case(from, HashAsker::Client(client))
            }
            ToControl::Hash(asked) => self.bring(Case::Hash(asked)),
            ToControl::HashUnneeded { from, asker } => self.drop_case(from, asker),
            letter @ (ToControl::Listen { .. } | ToControl::Unlisten { .. } | ToControl::UnlistenAll { .. }) => {
                self.order_listener(letter)
            }
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
    fn drop_case(&mut self, from: WorkerId, whose: HashAsker) {
        let has_begun = self.archive.dice.chance(500);
        let is_its = |case: &&mut Case| match case {
            Case::Password(asked) => (asked.from, HashAsker::Client(asked.client)) == (from, whose),
            Case::Hash(asked) => (asked.from, asked.asker) == (from, whose),
            Case::SystemUser { from: of, client, .. } => (*of, HashAsker::Client(*client)) == (from, whose),
            Case::Closed => false,
        };
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
                let right = self.plan.auth.password(&asked.user, 0, 0);
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
            Case::Hash(HashQuestion { from, asker, origin, derivation }) => {
                self.witness.count("hashes");
                let hashed = if self.court.is_away && !origin.is_of_servers() {
                    *self.archive.excuses.entry(HASHING_FULL).or_default() += 1;
                    Err("too many passwords wait to be hashed".into())
                } else {
                    Ok(Arc::new(derivation.run()))
                };
                self.post(self.place_of(from), ToWorker::Hashed { asker, hashed });
            }
            Case::SystemUser { from, client, uid } => {
                self.witness.count("users of the system");
                let found = if self.court.is_away {
                    *self.archive.excuses.entry(SYSTEM_USERS_FULL).or_default() += 1;
                    Err("too many clients wait for the names of system users".into())
                } else {
                    Ok(system_user(uid).map(Into::into))
                };
                self.post(self.place_of(from), ToWorker::SystemUser { client, found });
            }
            Case::Closed => {}
        }
    }
}

/// What a client reads whose password could not be hashed.
const HASHING_FULL: &str = "too many logins wait for their passwords to be hashed";
/// What a client reads whose user could not be looked up.
const SYSTEM_USERS_FULL: &str = "too many logins wait for the names of system users";
