//! The secrets that users have had, and which refusals they excuse.
//!
//! Always true: a refusal is excused only by something that went wrong before.
//! Not here: what changes the secrets (`secrets`).

use std::collections::BTreeMap;

use base::Time;
use worker::letters::SecretQuestion;

use crate::plan::Plan;
use crate::plan::fault::{Command, What};

/// What is known of users' secrets, and which questions about them are open.
#[derive(Debug)]
pub(crate) struct Archive {
    /// Questions of workers that the control thread has not answered. A question that is no longer needed may stay
    /// unanswered.
    pub(crate) asked: Vec<SecretQuestion>,
    /// How many times each user's secret was changed; users whose secret never changed are missing.
    pub(crate) versions: BTreeMap<String, u32>,
    /// Until when a worker may use a user's old secret.
    pub(super) believed_until: BTreeMap<String, Time>,
    /// Refusals that clients may get because a question about a secret went wrong, and how many of them.
    pub(crate) excuses: BTreeMap<&'static str, u64>,
    /// Workers may be held up for seconds.
    pub(crate) are_workers_slow: bool,
    /// `auth_file` may lack a user for whom there is no `auth_query`, or the database of the `auth_query` may have been
    /// removed.
    are_secrets_lost: bool,
}

impl Archive {
    pub(crate) fn new(plan: &Plan) -> Self {
        let is_slow = |what: &What| matches!(what, What::Stall { .. } | What::Order(_) | What::Jump { .. });
        let has_one = plan.shape.settings.contains_key("auth_dbname");
        // The new process of an online restart may have other settings.
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

    /// Returns whether a failed question excuses this refusal. `is_early`: the faults have not ended.
    pub(crate) fn excuses(&mut self, text: &str, user: &str, is_early: bool, now: Time) -> bool {
        // A failed SCRAM proof does not reveal which secret the client has used, so a worker that still has the old one
        // refuses it.
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

    /// Returns whether this refusal may come from a change of the secret after the client had connected: a client may
    /// wait long for the only server, if another one keeps that.
    pub(crate) fn is_outdated(&self, text: &str, user: &str) -> bool {
        let is_about_secrets = text.contains("password authentication failed") || text.starts_with("SASL");
        is_about_secrets && self.versions.contains_key(user)
    }
}

/// The error for a client whose secret could not be looked up.
pub(super) const MISTAKEN: &str = "bouncer config error";
