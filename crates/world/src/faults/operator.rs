//! The operator of a world: the orders that were given, and the `auth_file`.
//!
//! Always true: a pause that is no longer in force holds no database.
//! Not here: how an order is given (`command`), whether it is carried out (`checks::orders`), online restarts
//! (`takeover`).

use std::collections::{BTreeMap, BTreeSet};

use pool::ClientKey;
use worker::letters::{Order, Standing, Whose};

use crate::plan::Plan;
use crate::sim::dice::Dice;
use crate::sim::handover::{Arriving, Handover};

/// What the operator remembers.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    /// Number of commands so far.
    pub(crate) said: u32,
    /// The commands without an answer, by the client that has sent them.
    pub(crate) asked: BTreeMap<ClientKey, String>,
    /// The commands to be repeated after the online restart.
    pub(crate) owed: Vec<String>,
    /// Orders that not all workers have carried out, by number.
    pub(crate) open: BTreeMap<u64, Given>,
    /// Pauses that were reported complete.
    pub(crate) held: Vec<Whose>,
    /// A SUSPEND is in force.
    pub(crate) is_suspended: bool,
    /// An online restart in progress.
    pub(crate) handover: Option<Handover>,
    /// An online restart that is about to begin: its seed, and whether the new process comes up.
    pub(crate) comes: Option<(u64, bool)>,
    /// Connections that the last online restart has brought and that have not reached their worker.
    pub(crate) arriving: Vec<Arriving>,
}

/// An order to the workers.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) order: Order,
    /// The workers that have carried out the order.
    pub(crate) obeyed: BTreeSet<u8>,
    /// Number of workers that had something to do for it.
    pub(crate) done: usize,
    /// The pause of this order has already been ended.
    pub(crate) is_undone: bool,
}

impl Operator {
    /// Forgets pauses that are no longer in force, such as those of removed databases.
    pub(crate) fn mind(&mut self, standing: &Standing) {
        self.held.retain(|whose| stands(standing, whose));
        let pauses = self.open.values_mut().filter_map(|given| match &given.order {
            Order::Kill(whose) | Order::AwaitUnused(whose) => Some((whose, &mut given.is_undone)),
            _ => None,
        });
        pauses.for_each(|(whose, is_undone)| *is_undone |= !stands(standing, whose));
    }
}

/// Returns whether a pause is in force.
pub(crate) fn stands(standing: &Standing, whose: &Whose) -> bool {
    match whose {
        Some(name) => standing.paused().contains(name),
        None => standing.is_all_paused(),
    }
}

/// Returns the text of `auth_file`: as the applications know the secrets, or with some wrong or missing.
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

/// The command that reads the files again.
pub(crate) const RELOAD: &str = "RELOAD";
