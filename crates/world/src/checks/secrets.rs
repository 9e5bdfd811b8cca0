//! What is known of users' secrets: which they have had, which of them workers may believe in, and what the control thread has been asked
//! and has told of them (`auth_query`).
//!
//! Always true: what a worker is told is about whom it has asked for, and once.
//! Not here: what the answer is (`session::secrets`), which question is put (`worker::secrets`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use base::{Time, WorkerId};
use worker::letters::{Inquirer, SecretQuestion, Told};

use crate::app::App;
use crate::checks::witness::Charge;
use crate::plan::fault::{Command, What};
use crate::plan::{Plan, Proof};
use crate::world::World;

/// What is known of users, and of who has asked for them.
#[derive(Debug)]
pub(crate) struct Archive {
    /// What the control thread was asked and has not answered. What is unneeded is not answered at all, or may be.
    pub(crate) asked: Vec<SecretQuestion>,
    /// How many times each user has been given another secret; those that never were are not here.
    pub(crate) versions: BTreeMap<String, u32>,
    /// Until when a worker may believe in a user's old secret.
    believed_until: BTreeMap<String, Time>,
    /// Refusals that clients may meet because of what went wrong with their questions, and how often.
    pub(crate) excuses: BTreeMap<&'static str, u64>,
    /// Workers may be held up for seconds.
    pub(crate) are_workers_slow: bool,
    /// The file of secrets may lack somebody about whom nobody can be asked, or the database that is asked may be gone.
    are_secrets_lost: bool,
}

impl Archive {
    pub(crate) fn new(plan: &Plan) -> Self {
        let is_slow = |what: &What| matches!(what, What::Stall { .. } | What::Order(_) | What::Jump { .. });
        let has_one = plan.shape.settings.contains_key("auth_dbname");
        // Another process may come with other settings.
        let brings_settings = |what: &What| matches!(what, What::Reload { .. } | What::Order(Command::Handover { .. }));
        let is_lost = |what: &What| matches!(what, What::Secrets { .. }) || has_one && brings_settings(what);
        Self {
            asked: Vec::new(),
            versions: BTreeMap::new(),
            believed_until: BTreeMap::new(),
            excuses: BTreeMap::new(),
            are_workers_slow: plan.faults.iter().any(|(_, fault)| is_slow(&fault.what)),
            are_secrets_lost: plan.auth.is_asked && plan.faults.iter().any(|(_, fault)| is_lost(&fault.what)),
        }
    }

    /// Whether this refusal follows from something that went wrong with a question; `is_early` is before everything has healed.
    pub(crate) fn excuses(&mut self, text: &str, user: &str, is_early: bool, now: Time) -> bool {
        // What answers SCRAM says nothing about another secret: whoever meets an old one is refused, and has to come again.
        let is_behind = text.starts_with("SASL") && self.believed_until.get(user).is_some_and(|&until| now <= until);
        if is_behind || text == MISTAKEN && is_early && self.are_secrets_lost {
            return true;
        }
        match self.excuses.get_mut(text).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                true
            }
            None => false,
        }
    }

    /// Whether this refusal may come from there being another secret by now than the one by which somebody came: whoever waits for
    /// the only server, which somebody else keeps, may have waited for long.
    pub(crate) fn is_outdated(&self, text: &str, user: &str) -> bool {
        let is_about_secrets = text.contains("password authentication failed") || text.starts_with("SASL");
        is_about_secrets && self.versions.contains_key(user)
    }
}

impl World {
    /// A worker wants to know of a user.
    pub(crate) fn note_question(&mut self, question: SecretQuestion) {
        self.witness.count("questions about users");
        self.archive.asked.push(question);
    }

    /// A worker is told of a user.
    pub(crate) fn is_told(&mut self, from: WorkerId, inquirer: Inquirer, told: &Told) {
        let is_its = |asked: &SecretQuestion| (asked.from, asked.inquirer) == (from, inquirer);
        let Some(place) = self.archive.asked.iter().position(is_its) else {
            self.witness.accuse(Charge::ForeignBytes, format!("worker {from:?} is told what it has not asked"));
            return;
        };
        let asked = self.archive.asked.remove(place);
        match told {
            Told::User { name, secret } => {
                self.check_told_secret(&asked, name, secret);
                self.note_told(&asked, secret);
            }
            Told::Unanswered(_) if matches!(inquirer, Inquirer::Client(_)) => {
                *self.archive.excuses.entry(MISTAKEN).or_default() += 1;
            }
            Told::Unanswered(_) | Told::Nobody | Told::Refused { .. } => {}
        }
        self.witness.count(match told {
            Told::User { .. } => "answers about users",
            Told::Nobody => "answers that there is no such user",
            Told::Unanswered(_) => "questions without an answer",
            Told::Refused { .. } => "questions that could not be asked",
        });
    }

    /// It is about whom was asked for: a secret that this user has or had at some host, or none.
    fn check_told_secret(&mut self, asked: &SecretQuestion, name: &str, secret: &Secret) {
        let version = self.archive.versions.get(&*asked.user).copied().unwrap_or_default();
        let stored = |host| (0..=version).any(|version| *self.plan.auth.stored(&asked.user, host, version) == *secret);
        let is_own = *secret == Secret::None || (0..self.plan.hosts).any(stored);
        if !is_own || (*name != *asked.user && *name != *"somebody else") {
            let text = format!("the question for {} is answered by what is known of {name}", asked.user);
            self.witness.accuse(Charge::ForeignBytes, text);
        }
    }

    /// A worker hears an old secret: it may believe in it for its time, until the operator reloads.
    fn note_told(&mut self, asked: &SecretQuestion, secret: &Secret) {
        let Some(&version) = self.archive.versions.get(&*asked.user) else { return };
        let hosts = 0..self.plan.hosts;
        let is_new = hosts.into_iter().any(|host| *self.plan.auth.stored(&asked.user, host, version) == *secret);
        if !is_new {
            let until = self.witness.now + Duration::from_micros(self.plan.auth.believed);
            self.believe_until(&asked.user.clone(), until);
        }
    }

    fn believe_until(&mut self, user: &str, until: Time) {
        let held_up = if self.archive.are_workers_slow { HELD_UP_MAX } else { POST_MAX };
        let until = until + held_up;
        let row = self.archive.believed_until.entry(user.to_owned()).or_insert(until);
        *row = until.max(*row);
    }

    /// What servers have told is forgotten by workers that take over new settings.
    pub(crate) fn forget_old_secrets(&mut self) {
        let users: Vec<String> = self.archive.versions.keys().cloned().collect();
        for user in users {
            self.archive.believed_until.remove(&user);
            let now = self.witness.now;
            self.believe_until(&user, now);
        }
    }

    /// A user gets another secret, at all servers at once, and whoever comes as that user knows it.
    pub(crate) fn change_secret(&mut self, user: &str) {
        let version = self.archive.versions.entry(user.to_owned()).or_default();
        *version += 1;
        let version = *version;
        self.witness.count("new secrets of users");
        for (number, host) in self.postgres.hosts.iter_mut().enumerate() {
            host.manner.secrets = Arc::new(self.plan.auth.secrets(number, &self.archive.versions));
        }
        for app in self.apps.iter_mut().filter(|app| app.person.user == user) {
            let host = self.plan.host_of(&app.person.database);
            app.secret = Arc::new(self.plan.auth.password(user, host, version));
            // Who shows nothing has nothing old to show.
            let old = (app.person.proof != Proof::None).then(|| self.plan.auth.password(user, host, version - 1));
            app.door.old = old.map(Arc::new);
        }
        let until = self.witness.now + Duration::from_micros(self.plan.auth.believed);
        self.believe_until(user, until);
    }

    /// Somebody new knows the secret of now.
    pub(crate) fn renew_password(&self, app: &mut App) {
        if let Some(&version) = self.archive.versions.get(&app.person.user) {
            let host = self.plan.host_of(&app.person.database);
            app.secret = Arc::new(self.plan.auth.password(&app.person.user, host, version));
        }
    }

    /// Somebody is about to come: is their old password still good?
    pub(crate) fn mind_old_password(&mut self, app: u32) {
        let app = &mut self.apps[app as usize];
        if app.door.old.is_some() {
            let until = self.archive.believed_until.get(&app.person.user);
            app.door.is_old_over = until.is_none_or(|&until| self.witness.now > until);
        }
    }
}

/// What a client is told whose question has no answer.
const MISTAKEN: &str = "bouncer config error";
/// How long a letter may lie in a worker's box: where something holds workers up, and otherwise.
const HELD_UP_MAX: Duration = Duration::from_secs(10);
const POST_MAX: Duration = Duration::from_millis(100);
