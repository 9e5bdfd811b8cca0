//! The control thread of a world: the product's own ([`Control`]), and its surroundings: files, host names, external
//! authenticators, threads that hash.
//!
//! Always true: it learns of each event at once, and answers to its questions take time; workers get orders from nobody
//! else, and each order is recorded when it is given, whatever the operator meant.
//! Not here: what operators want of it (`operator`), how an online restart goes (`takeover`).

use std::sync::Arc;
use std::time::Duration;

use base::Time;
use control::{Event, Posted, PutPassword, SystemUserQuestion};
use worker::letters::{Addresses, Found, HashQuestion, ToControl};

use crate::plan::auth_plan::system_user;
use crate::plan::group::address_of_peer;
use crate::sim::agenda;
use crate::sim::dead_addresses::dead_address;
use crate::sim::thread::Asked;
use crate::state::World;

impl World {
    /// The control thread handles an event.
    pub(crate) fn control_hears(&mut self, event: Event) {
        let now = self.moment();
        self.thread.control.handle(now, event);
        self.serve_control();
        self.send_mail();
    }

    /// Schedules answers to what the control thread has asked for.
    fn serve_control(&mut self) {
        while let Some(name) = self.thread.control.next_lookup() {
            self.answer_later(Asked::Name(name));
        }
        while let Some(put) = self.thread.control.next_password() {
            self.answer_later(Asked::Password(put));
        }
        while let Some(question) = self.thread.control.next_hashing() {
            self.answer_later(Asked::Hash(question));
        }
        while let Some(question) = self.thread.control.next_system_user() {
            self.answer_later(Asked::SystemUser(question));
        }
        while self.thread.control.next_posting().is_some() {
            self.answer_later(Asked::Posting);
        }
        if let Some(transfer) = self.thread.control.next_transfer() {
            self.courier_sets_out(transfer);
        }
        self.serve_cluster();
        self.courier_waits();
        self.carry_own_clients();
        let deadline = Time(self.thread.control.next_deadline().0.saturating_sub(self.ahead()));
        if self.thread.wakes_at.is_none_or(|at| at > deadline) {
            self.thread.wakes_at = Some(deadline);
            self.net.borrow_mut().agenda.at(deadline, agenda::Event::ControlWakes);
        }
    }

    /// A deadline of the control thread may have come.
    pub(crate) fn control_wakes(&mut self) {
        if self.thread.wakes_at.is_none_or(|at| at > self.witness.now) {
            return;
        }
        self.thread.wakes_at = None;
        match self.thread.control.next_deadline() <= self.moment().time {
            true => self.control_hears(Event::Tick),
            false => self.serve_control(),
        }
    }

    /// How long something outside of the control thread takes.
    pub(crate) fn control_pause(&mut self) -> Duration {
        let (low, high) = if self.are_faults_over() { (0, HEALED_PAUSE) } else { self.plan.auth.pause };
        let slowness = self.thread.slowness;
        self.thread.dice.micros(low..=high * slowness)
    }

    /// A letter that need not be read at once: its sender may no longer need the answer by then.
    pub(crate) fn control_reads_later(&mut self, letter: ToControl) {
        if let ToControl::AskSecret(question) = &letter {
            self.note_question(question.clone());
        }
        let at = (self.witness.now + self.control_pause()).max(self.thread.reads_until);
        self.thread.reads_until = at;
        self.thread.letters.push_back(letter);
        self.net.borrow_mut().agenda.at(at, agenda::Event::ControlReads);
    }

    /// The control thread reads the next of these letters.
    pub(crate) fn control_reads(&mut self) {
        if let Some(letter) = self.thread.letters.pop_front() {
            self.control_hears(Event::Letter(letter));
        }
    }

    fn answer_later(&mut self, asked: Asked) {
        let number = self.thread.asked.len() as u32;
        self.thread.asked.push(Some(asked));
        // A lookup must be shorter than the timeouts of connections to servers and peers.
        let is_name = matches!(self.thread.asked[number as usize], Some(Asked::Name(_)));
        let pause = if is_name { self.thread.dice.micros(0..=LOOKUP_MAX) } else { self.control_pause() };
        self.net.borrow_mut().agenda.after(pause, agenda::Event::ControlIsTold { number });
    }

    /// Gives the control thread the answer.
    pub(crate) fn tell_control(&mut self, number: u32) {
        let Some(asked) = self.thread.asked[number as usize].take() else { return };
        let event = match asked {
            Asked::Name(name) => {
                let found = self.addresses_of(&name);
                Event::Found { name, found }
            }
            Asked::Password(PutPassword { question, .. }) => {
                self.witness.count("verdicts");
                let right = self.plan.auth.password(&question.user, 0, 0);
                let verdict = if self.thread.has_no_external_auth {
                    for text in ["PAM authentication failed", "LDAP authentication failed"] {
                        *self.archive.excuses.entry(text).or_default() += 1;
                    }
                    Err("the judge cannot be asked".into())
                } else if *right.text() == *question.password.as_bytes() {
                    Ok(())
                } else {
                    Err("the judge says no".into())
                };
                Event::Judged {
                    from: question.from,
                    client: question.client,
                    authenticator: question.authenticator,
                    verdict,
                }
            }
            Asked::Hash(HashQuestion { from, asker, origin, derivation }) => {
                self.witness.count("hashes");
                let hashed = if self.thread.has_no_external_auth && !origin.is_of_servers() {
                    *self.archive.excuses.entry(HASHING_FULL).or_default() += 1;
                    Err("no thread is to be had".into())
                } else {
                    Ok(Arc::new(derivation.run()))
                };
                Event::Hashed { from, asker, hashed }
            }
            Asked::SystemUser(SystemUserQuestion { from, client, uid }) => {
                self.witness.count("users of the system");
                let found = if self.thread.has_no_external_auth {
                    *self.archive.excuses.entry(SYSTEM_USERS_FULL).or_default() += 1;
                    Err("the system does not answer".into())
                } else {
                    Ok(system_user(uid).map(Into::into))
                };
                Event::SystemUser { from, client, found }
            }
            Asked::Posting => {
                let why = || "the collector says no".to_owned();
                Event::Posted(match self.thread.dice.among(0..=5) {
                    0 => Posted::Again { after: None, why: why() },
                    1 => Posted::Again { after: Some(Duration::from_secs(2)), why: why() },
                    2 => Posted::Refused { why: why() },
                    rejected => Posted::Taken { rejected: rejected - 3, why: why() },
                })
            }
        };
        self.control_hears(event);
    }

    fn addresses_of(&mut self, name: &Arc<str>) -> Found {
        let host = name.strip_prefix("host").map(|host| [10, 200, 0, host.parse().unwrap_or(0)].into());
        match host.or_else(|| address_of_peer(name)).filter(|_| self.thread.are_names_known) {
            Some(address) if self.thread.has_dead_addresses => {
                Ok(Addresses { all: vec![dead_address(address), address], ttl: None })
            }
            Some(address) => Ok(Addresses { all: vec![address], ttl: None }),
            None => {
                self.peers.has_no_address(name.clone(), self.witness.now);
                Err("Name or service not known".into())
            }
        }
    }
}

/// How long the lookup of a host name takes at most, microseconds.
const LOOKUP_MAX: u64 = 2_000;
/// How long answers take at most after the faults, microseconds.
const HEALED_PAUSE: u64 = 2_000;
/// The error for a client whose password could not be hashed.
const HASHING_FULL: &str = "too many logins wait for their passwords to be hashed";
/// The error for a client whose system user could not be looked up.
const SYSTEM_USERS_FULL: &str = "too many logins wait for the names of system users";
