//! What is remembered of users' secrets, and which refusals follow from that.
//!
//! Always true: a refusal is excused only by something that has gone wrong before.
//! Not here: what changes it (`secrets`).

use std::collections::BTreeMap;

use base::Time;
use worker::letters::SecretQuestion;

use crate::plan::Plan;
use crate::plan::fault::{Command, What};

/// What is known of users, and of who has asked for them.
#[derive(Debug)]
pub(crate) struct Archive {
    /// What the control thread was asked and has not answered. What is unneeded is not answered at all, or may be.
    pub(crate) asked: Vec<SecretQuestion>,
    /// How many times each user has been given another secret; those that never were are not here.
    pub(crate) versions: BTreeMap<String, u32>,
    /// Until when a worker may believe in a user's old secret.
    pub(super) believed_until: BTreeMap<String, Time>,
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

/// What a client is told whose question has no answer.
pub(super) const MISTAKEN: &str = "bouncer config error";
