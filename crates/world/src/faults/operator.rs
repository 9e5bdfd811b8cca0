//! The operator of a world: what is remembered of what was ordered, and the file of secrets that is written.
//!
//! Always true: pauses that do not stand any more hold nobody.
//! Not here: how something is ordered (`command`), whether it is obeyed (`checks::orders`), online restarts (`takeover`).

use std::collections::{BTreeMap, BTreeSet};

use pool::ClientKey;
use worker::letters::{Order, Standing, Whose};

use crate::plan::Plan;
use crate::sim::dice::Dice;
use crate::sim::handover::{Arriving, Handover};

/// What the operator remembers.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    /// How many commands have been said.
    pub(crate) said: u32,
    /// Those that are not answered, by the clients that have said them.
    pub(crate) asked: BTreeMap<ClientKey, String>,
    /// What is to be said when no online restart is in the way any more.
    pub(crate) owed: Vec<String>,
    /// Orders that have not been obeyed by everybody, by their numbers.
    pub(crate) open: BTreeMap<u64, Given>,
    /// Pauses that were reported complete.
    pub(crate) held: Vec<Whose>,
    /// SUSPEND.
    pub(crate) is_suspended: bool,
    /// An online restart that is under way.
    pub(crate) handover: Option<Handover>,
    /// One that is about to begin: its chance, and whether its new process comes up.
    pub(crate) comes: Option<(u64, bool)>,
    /// What the last one has brought and has not come to its worker.
    pub(crate) arriving: Vec<Arriving>,
}

/// An order.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) order: Order,
    /// The workers that have obeyed.
    pub(crate) obeyed: BTreeSet<u8>,
    /// How many of them had something to do it to.
    pub(crate) done: usize,
    /// What it has paused goes on already.
    pub(crate) is_undone: bool,
}

impl Operator {
    /// Pauses that do not stand any more, such as those of databases that are gone, hold nobody.
    pub(crate) fn mind(&mut self, standing: &Standing) {
        self.held.retain(|whose| stands(standing, whose));
        let pauses = self.open.values_mut().filter_map(|given| match &given.order {
            Order::Kill(whose) | Order::AwaitUnused(whose) => Some((whose, &mut given.is_undone)),
            _ => None,
        });
        pauses.for_each(|(whose, is_undone)| *is_undone |= !stands(standing, whose));
    }
}

/// Whether a pause stands.
pub(crate) fn stands(standing: &Standing, whose: &Whose) -> bool {
    match whose {
        Some(name) => standing.paused.contains(name),
        None => standing.is_paused,
    }
}

/// The file of secrets: as the applications know them, or with some that are wrong or missing.
pub(crate) fn secrets(plan: &Plan, mut dice: Option<Dice>) -> String {
    let mut file = String::new();
    for (user, secret) in plan.secrets.iter().filter(|(user, _)| !plan.auth.unlisted.contains(&***user)) {
        let fate = dice.as_mut().map_or(0, |dice| dice.among(0..=5));
        match fate {
            4 => file.push_str(&format!("\"{user}\" \"forgotten\"\n")),
            5 => {}
            _ => file.push_str(&format!("\"{user}\" \"{}\"\n", String::from_utf8_lossy(&secret.text()))),
        }
    }
    file
}

/// Has the files read again.
pub(crate) const RELOAD: &str = "RELOAD";
