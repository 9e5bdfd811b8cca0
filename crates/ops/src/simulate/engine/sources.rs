//! The groups of tenants of a spec, and what asks for their transactions: the same for a simulated run and for one that is played against real
//! servers.
//!
//! Always true: by the same seed the same is asked at the same times, of the same tenants and processes, whatever becomes of it.
//! Not here: when a single source asks (`traffic`), what asking leads to (`run`, `asking`).

use rand_distr::weighted::WeightedAliasIndex;

use super::clock::{Clock, Next};
use super::traffic::{Source, weights};
use crate::load::Dice;
use crate::simulate::spec::{Arrivals, Group};

/// The groups and their sources.
#[derive(Debug)]
pub(super) struct Sources<'a> {
    pub(super) groups: Vec<GroupRow<'a>>,
    sources: Vec<Source>,
    dice: Dice,
}

/// Tenants that are alike, in one database.
#[derive(Debug)]
pub(super) struct GroupRow<'a> {
    pub(super) database: u32,
    pub(super) group: &'a Group,
    pub(super) first_tenant: u32,
    popularity: Option<WeightedAliasIndex<f64>>,
    pub(super) kinds: Option<WeightedAliasIndex<f64>>,
    /// What the rate of arrivals is multiplied with.
    factor: f64,
}

impl<'a> Sources<'a> {
    pub(super) fn new(seed: u64) -> Self {
        Self { groups: Vec::new(), sources: Vec::new(), dice: Dice::new(seed, 1) }
    }

    /// Adds a group, and plans what its sources begin with. Returns its number.
    pub(super) fn add_group(&mut self, database: u32, group: &'a Group, first_tenant: u32, clock: &mut Clock) -> u32 {
        let number = self.groups.len() as u32;
        let shares: Vec<f64> = group.transactions.iter().map(|transaction| transaction.weight).collect();
        let is_asked = group.tenants > 0 && !group.transactions.is_empty();
        self.groups.push(GroupRow {
            database,
            group,
            first_tenant,
            popularity: is_asked.then(|| weights(&group.popularity)),
            kinds: is_asked.then(|| weights(&shares)),
            factor: 1.0,
        });
        let first = self.sources.len() as u32;
        self.sources.extend(Source::of(number, group, first, &mut self.dice, clock));
        number
    }

    /// The tenant at which a source asks now, after which its next arrival is planned; `None` if the arrival is stale.
    pub(super) fn arrives(&mut self, now: u64, source: u32, epoch: u32, clock: &mut Clock) -> Option<u32> {
        let row = &mut self.sources[source as usize];
        let group = &self.groups[row.group as usize];
        let tenant = row.arrives(epoch, group.group, group.popularity.as_ref()?, &mut self.dice)?;
        row.plan(now, source, group.factor, group.group, &mut self.dice, clock);
        Some(group.first_tenant + tenant)
    }

    /// A source whose rate changes by itself enters its next state.
    pub(super) fn next_state(&mut self, now: u64, source: u32, clock: &mut Clock) {
        let row = &mut self.sources[source as usize];
        let group = &self.groups[row.group as usize];
        row.next_state(now, source, group.factor, group.group, &mut self.dice, clock);
    }

    /// The tenant of a user of a closed loop.
    pub(super) fn tenant_of(&self, source: u32, user: u32) -> u32 {
        let row = &self.sources[source as usize];
        self.groups[row.group as usize].first_tenant + row.tenant_of(user)
    }

    /// A user of a closed loop has an answer, and thinks.
    pub(super) fn user_thinks(&mut self, now: u64, source: u32, user: u32, clock: &mut Clock) {
        let group = self.groups[self.sources[source as usize].group as usize].group;
        if let Arrivals::Closed { think, .. } = &group.arrivals {
            // A refusal at once, without thinking, would be repeated at the same instant without end.
            let thinks = think.draw(&mut self.dice).max(1);
            clock.plan(now + thinks, Next::User { source, user });
        }
    }

    /// The process of several that gets a transaction.
    pub(super) fn one_of(&mut self, processes: &[u32]) -> u32 {
        match processes.len() {
            1 => processes[0],
            _ => self.any_of(processes),
        }
    }

    /// Any of some processes, of which there is at least one.
    pub(super) fn any_of(&mut self, processes: &[u32]) -> u32 {
        processes[self.dice.below(processes.len() as u32) as usize]
    }

    /// Plans the clients of a storm, at some process each.
    pub(super) fn storm(&mut self, now: u64, processes: &[u32], clients: u32, within: u64, clock: &mut Clock) {
        for client in (0..u64::from(clients)).filter(|_| !processes.is_empty()) {
            let process = self.any_of(processes);
            clock.plan(now + within * client / u64::from(clients), Next::StormClient { process });
        }
    }

    /// The tenants of the groups with a name; of all groups without one.
    pub(super) fn tenants_of(&self, name: &Option<String>) -> Vec<u32> {
        let groups = self.groups_of(name).into_iter().map(|number| &self.groups[number as usize]);
        groups.flat_map(|group| group.first_tenant..group.first_tenant + group.group.tenants).collect()
    }

    /// The rate of the groups with a name is multiplied from now on.
    pub(super) fn change_rate(&mut self, now: u64, name: &Option<String>, factor: f64, clock: &mut Clock) {
        for number in self.groups_of(name) {
            let group = &mut self.groups[number as usize];
            group.factor = factor;
            for (source, index) in self.sources.iter_mut().zip(0..).filter(|(source, _)| source.group == number) {
                source.plan_anew(now, index, factor, group.group, &mut self.dice, clock);
            }
        }
    }

    fn groups_of(&self, name: &Option<String>) -> Vec<u32> {
        let is_meant = |group: &str| name.as_ref().is_none_or(|name| name == group);
        (0..self.groups.len() as u32).filter(|number| is_meant(&self.groups[*number as usize].group.name)).collect()
    }
}
