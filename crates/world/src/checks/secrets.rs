//! The secrets of users: which they have had, which of them workers may use, and the questions about them to the
//! control thread with their answers (`auth_query`).
//!
//! Always true: a worker gets exactly one answer to a question, about the user that it has asked for.
//! Not here: what a server answers (`session::secrets`), which question is asked (`worker::admission::secrets`).

use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use base::{Time, WorkerId};
use worker::letters::{AuthQueryAnswer, Inquirer, SecretQuestion};

use crate::app::App;
use crate::checks::archive::MISTAKEN;
use crate::checks::witness::Charge;
use crate::plan::Proof;
use crate::state::World;

impl World {
    /// A worker asks for the secret of a user.
    pub(crate) fn note_question(&mut self, question: SecretQuestion) {
        self.witness.count("questions about users");
        self.archive.asked.push(question);
    }

    /// A worker gets the answer about a user.
    pub(crate) fn hear_secret(&mut self, from: WorkerId, inquirer: Inquirer, told: &AuthQueryAnswer) {
        let is_its = |asked: &SecretQuestion| (asked.from, asked.inquirer) == (from, inquirer);
        let Some(place) = self.archive.asked.iter().position(is_its) else {
            self.witness.accuse(Charge::ForeignBytes, format!("worker {from:?} is told what it has not asked"));
            return;
        };
        let asked = self.archive.asked.remove(place);
        match told {
            AuthQueryAnswer::User { name, secret } => {
                self.check_told_secret(&asked, name, secret);
                self.note_told(&asked, secret);
            }
            AuthQueryAnswer::Unanswered(_) if matches!(inquirer, Inquirer::Client(_)) => {
                *self.archive.excuses.entry(MISTAKEN).or_default() += 1;
            }
            AuthQueryAnswer::Unanswered(_) | AuthQueryAnswer::Nobody | AuthQueryAnswer::Refused { .. } => {}
        }
        self.witness.count(match told {
            AuthQueryAnswer::User { .. } => "answers about users",
            AuthQueryAnswer::Nobody => "answers that there is no such user",
            AuthQueryAnswer::Unanswered(_) => "questions without an answer",
            AuthQueryAnswer::Refused { .. } => "questions that could not be asked",
        });
    }

    /// Checks that the answer is a secret that the user has or had at some host, or none.
    fn check_told_secret(&mut self, asked: &SecretQuestion, name: &str, secret: &Secret) {
        let version = self.archive.versions.get(&*asked.user).copied().unwrap_or_default();
        let stored = |host| (0..=version).any(|version| *self.plan.auth.stored(&asked.user, host, version) == *secret);
        let is_own = *secret == Secret::None || (0..self.plan.hosts).any(stored);
        if !is_own || (*name != *asked.user && *name != *"somebody else") {
            let text = format!("the question for {} is answered by what is known of {name}", asked.user);
            self.witness.accuse(Charge::ForeignBytes, text);
        }
    }

    /// A worker gets an old secret: it may use that for `auth_query_cache_ttl`, or until the operator reloads.
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

    /// Workers that get a new configuration forget the secrets from servers.
    pub(crate) fn forget_old_secrets(&mut self) {
        let users: Vec<String> = self.archive.versions.keys().cloned().collect();
        for user in users {
            self.archive.believed_until.remove(&user);
            let now = self.witness.now;
            self.believe_until(&user, now);
        }
    }

    /// Changes a user's secret on all servers at once. Applications of that user use the new one from now on.
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
            // An application without a password has no old one either.
            let old = (app.person.proof != Proof::None).then(|| self.plan.auth.password(user, host, version - 1));
            app.login_plan.old = old.map(Arc::new);
        }
        let until = self.witness.now + Duration::from_micros(self.plan.auth.believed);
        self.believe_until(user, until);
    }

    /// A new application gets the current secret of its user.
    pub(crate) fn renew_password(&self, app: &mut App) {
        if let Some(&version) = self.archive.versions.get(&app.person.user) {
            let host = self.plan.host_of(&app.person.database);
            app.secret = Arc::new(self.plan.auth.password(&app.person.user, host, version));
        }
    }

    /// Before an application connects: notes whether its old password may still be accepted.
    pub(crate) fn mind_old_password(&mut self, app: u32) {
        let app = &mut self.apps[app as usize];
        if app.login_plan.old.is_some() {
            let until = self.archive.believed_until.get(&app.person.user);
            app.login_plan.is_old_over = until.is_none_or(|&until| self.witness.now > until);
        }
    }
}

/// How long a letter may wait for a worker: where faults hold up workers, and otherwise.
const HELD_UP_MAX: Duration = Duration::from_secs(10);
const POST_MAX: Duration = Duration::from_millis(100);
