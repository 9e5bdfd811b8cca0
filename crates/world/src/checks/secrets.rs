//! What is known of users' secrets: which they have had, which of them workers may believe in, and what the control thread has been asked
//! and has told of them (`auth_query`).
//!
//! Always true: what a worker is told is about whom it has asked for, and once.
//! Not here: what the answer is (`session::secrets`), which question is put (`worker::secrets`).

use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use base::{Time, WorkerId};
use worker::letters::{Inquirer, SecretQuestion, Told};

use crate::app::App;
use crate::checks::archive::MISTAKEN;
use crate::checks::witness::Charge;
use crate::plan::Proof;
use crate::state::World;

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

/// How long a letter may lie in a worker's box: where something holds workers up, and otherwise.
const HELD_UP_MAX: Duration = Duration::from_secs(10);
const POST_MAX: Duration = Duration::from_millis(100);
