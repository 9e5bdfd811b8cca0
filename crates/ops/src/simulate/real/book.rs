//! What a real run has counted of its transactions, and what follows: the same outcome as of a simulated run.
//!
//! Always true: counts of the outcome begin with the end of the warm-up; books are of the whole run. The wait in the pooler is the time until BEGIN
//! is answered, which a server has to be lent for; it includes the way there and back.
//! Not here: playing (`play`), what the server counted (`server`).

use std::collections::{BTreeMap, BTreeSet};

use super::objects::Objects;
use super::sessions::Turn;
use crate::load::{End, Ended, Passage, Tally, Times};
use crate::simulate::engine::{
    Balance, Counts, GroupOutcome, LIFETIME, Means, Measured, Outcome, Refused, SLICES, ServerCounts, Slice,
    TenantOutcome, overall,
};
use crate::simulate::spec::Spec;
use crate::theory::estimate::{batch_mean, warm_up};

/// A transaction that was begun or is to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flight {
    pub(super) tenant: u32,
    pub(super) group: u32,
    pub(super) kind: u32,
    /// The user of a closed loop.
    pub(super) user: Option<(u32, u32)>,
    /// How many steps it has; the first is BEGIN and the last COMMIT.
    pub(super) steps: usize,
    /// The time of thinking in it.
    pub(super) thinks: u64,
    pub(super) posts: bool,
    /// Whether it belongs to the applications' work, not to an event.
    pub(super) is_ordinary: bool,
}

/// What was counted.
#[derive(Debug)]
pub(super) struct Book {
    warm_up: u64,
    duration: u64,
    tenants: Vec<TenantBook>,
    groups: Vec<(Times, Times)>,
    waits: Times,
    responses: Times,
    app_waits: Times,
    slices: Vec<Slice>,
    /// By group and kind: how long a server was held, from the answer to BEGIN to that to COMMIT.
    pub(super) held: BTreeMap<(u32, u32), Times>,
    /// Requests of the counted time.
    pub(super) tally: Tally,
    pub(super) whole: Whole,
    /// Errors and how often.
    pub(super) errors: BTreeMap<String, u64>,
    /// Logins of clients.
    pub(super) logins: Times,
    /// For how long transactions had a server, one by one.
    pub(super) loans: Vec<Measured>,
}

#[derive(Debug)]
struct TenantBook {
    counts: Counts,
    waits: Times,
    acknowledged: Vec<u64>,
    unknown: Vec<u64>,
}

/// Counts of the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Whole {
    pub(super) started: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) refused: u64,
    /// Ended by the end of the run.
    pub(super) in_flight: u64,
    /// Those whose BEGIN was answered.
    pub(super) begun: u64,
    /// Those whose BEGIN was sent and never answered.
    pub(super) perhaps_begun: u64,
    pub(super) logins_failed: u64,
}

/// What the check of the posts found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub(super) struct Posts {
    /// Posts that were acknowledged by an answer to COMMIT.
    pub(super) acknowledged: u64,
    /// Posts of which it is not known whether they were committed.
    pub(super) unknown: u64,
    /// Rows that were found.
    pub(super) found: u64,
    /// Acknowledged posts that were not found.
    pub(super) lost: u64,
    /// Rows that nobody was told of, and that no unknown outcome explains.
    pub(super) unexplained: u64,
}

impl Book {
    pub(super) fn new(spec: &Spec, objects: &Objects) -> Self {
        let tenant = |_| TenantBook {
            counts: Counts::default(),
            waits: Times::new(2),
            acknowledged: Vec::new(),
            unknown: Vec::new(),
        };
        let groups = spec.databases.iter().map(|database| database.groups.len()).sum();
        Self {
            warm_up: spec.warm_up,
            duration: spec.duration,
            tenants: objects.tenants.iter().map(tenant).collect(),
            groups: (0..groups).map(|_| (Times::new(3), Times::new(3))).collect(),
            waits: Times::new(3),
            responses: Times::new(3),
            app_waits: Times::new(3),
            slices: vec![Slice::default(); SLICES],
            held: BTreeMap::new(),
            tally: Tally::new(u64::MAX),
            whole: Whole::default(),
            errors: BTreeMap::new(),
            logins: Times::new(3),
            loans: Vec::new(),
        }
    }

    fn slice(&mut self, at: u64) -> Option<&mut Slice> {
        let length = (self.duration - self.warm_up).div_ceil(SLICES as u64).max(1);
        self.slices.get_mut((at.checked_sub(self.warm_up)? / length) as usize)
    }

    /// Notes the end of a transaction. `id` is that of its post.
    pub(super) fn note(&mut self, flight: &Flight, id: u64, ended: &Ended) {
        let passage = &ended.passage;
        self.whole.started += 1;
        self.outcome_of_post(flight, id, ended);
        let attached = ended.first_answered;
        match (attached, passage.sent) {
            (Some(_), _) => self.whole.begun += 1,
            (None, Some(_)) => self.whole.perhaps_begun += 1,
            (None, None) => {}
        }
        let refused = self.refusal(ended);
        let tenant = &mut self.tenants[flight.tenant as usize].counts;
        let is_counted = |at: u64| at >= self.warm_up && at <= self.duration;
        tenant.arrived += u64::from(passage.at >= self.warm_up);
        if is_counted(passage.ended) {
            tenant.in_system += passage.ended - passage.at;
            match (passage.end, refused) {
                (End::Done, _) => tenant.done += 1,
                (End::Abandoned, _) => {}
                (_, Some(why)) => tenant.refused[why as usize] += 1,
                (_, None) => tenant.failed += 1,
            }
        }
        match (passage.end, refused) {
            (End::Done, _) => self.whole.done += 1,
            (End::Abandoned, _) => self.whole.in_flight += 1,
            (_, Some(_)) => self.whole.refused += 1,
            (_, None) => self.whole.failed += 1,
        }
        if let (Some(attached), End::Done) = (attached, passage.end) {
            self.note_loan(flight, attached, passage);
        }
        self.note_times(flight, attached, passage);
        if let Some(error) = &ended.error {
            let text = error.to_string();
            if self.errors.len() < ERRORS_MAX || self.errors.contains_key(&text) {
                *self.errors.entry(text).or_default() += 1;
            }
        }
    }

    /// Notes for how long a server was lent.
    fn note_loan(&mut self, flight: &Flight, attached: u64, passage: &Passage) {
        let held = passage.ended - attached;
        if passage.ended >= self.warm_up && passage.ended <= self.duration {
            let counts = &mut self.tenants[flight.tenant as usize].counts;
            counts.held += held;
            counts.executed += held.saturating_sub(flight.thinks);
            if let Some(slice) = self.slice(passage.ended) {
                slice.done += 1;
            }
        }
        if flight.is_ordinary && self.loans.len() < LOANS_MAX {
            self.loans.push(Measured { arrived: passage.at, tenant: flight.tenant, held });
        }
        if flight.is_ordinary && passage.at >= self.warm_up {
            self.held.entry((flight.group, flight.kind)).or_insert_with(|| Times::new(3)).note(held);
        }
    }

    /// Notes waits and responses, of transactions that arrived in the counted time.
    fn note_times(&mut self, flight: &Flight, attached: Option<u64>, passage: &Passage) {
        if passage.at < self.warm_up {
            return;
        }
        let times = &mut self.groups[flight.group as usize];
        if let Some(sent) = passage.sent {
            self.app_waits.note(sent - passage.at);
            // One that got no server counts with the time after which it was given up.
            let waited = attached.unwrap_or(passage.ended) - sent;
            let tenant = &mut self.tenants[flight.tenant as usize];
            tenant.counts.attached += u64::from(attached.is_some());
            tenant.counts.waited += waited;
            tenant.waits.note(waited);
            self.waits.note(waited);
            times.0.note(waited);
            if let Some(slice) = self.slice(passage.at) {
                slice.attached += 1;
                slice.waited += waited;
            }
        }
        if flight.is_ordinary {
            let response = passage.ended - passage.at;
            self.responses.note(response);
            self.groups[flight.group as usize].1.note(response);
        }
        self.tally.note(passage);
    }

    /// Why a transaction got no server, if it got none.
    fn refusal(&self, ended: &Ended) -> Option<Refused> {
        if ended.over > 0 {
            return None;
        }
        let text = ended.error.as_ref().map_or("", |error| error.text.as_str());
        Some(match ended.passage.end {
            End::Skipped => Refused::ApplicationFull,
            _ if text.contains("query_wait_timeout") || ended.passage.end == End::TimedOut => Refused::QueryWaitTimeout,
            // Odyssey's words for it.
            _ if text.contains("too many active clients for user") => Refused::QueryWaitTimeout,
            _ if CLIENTS_REFUSED.iter().any(|words| text.contains(words)) => Refused::MaxClientConn,
            _ => Refused::LoginFailed,
        })
    }

    fn outcome_of_post(&mut self, flight: &Flight, id: u64, ended: &Ended) {
        if !flight.posts {
            return;
        }
        let tenant = &mut self.tenants[flight.tenant as usize];
        // A server that answers COMMIT with an error has not committed; one that does not answer may have.
        let is_told = ended.error.as_ref().is_some_and(|error| !error.sqlstate.is_empty());
        if ended.passage.end == End::Done {
            tenant.acknowledged.push(id);
        } else if ended.begun == flight.steps && !is_told {
            tenant.unknown.push(id);
        }
    }

    /// Compares the posts that were acknowledged with the rows that are there, tenant by tenant and row by row.
    pub(super) fn check(&self, found: &[Vec<u64>]) -> Posts {
        let mut posts = Posts::default();
        for (tenant, found) in self.tenants.iter().zip(found) {
            let acknowledged: BTreeSet<u64> = tenant.acknowledged.iter().copied().collect();
            let unknown: BTreeSet<u64> = tenant.unknown.iter().copied().collect();
            let found: BTreeSet<u64> = found.iter().copied().collect();
            posts.acknowledged += acknowledged.len() as u64;
            posts.unknown += unknown.len() as u64;
            posts.found += found.len() as u64;
            posts.lost += acknowledged.difference(&found).count() as u64;
            posts.unexplained +=
                found.iter().filter(|id| !acknowledged.contains(id) && !unknown.contains(id)).count() as u64;
        }
        posts
    }

    /// The outcome of the run.
    pub(super) fn outcome(self, spec: &Spec, objects: &Objects, around: &Around<'_>) -> Outcome {
        let seconds = (self.duration.min(around.ended) - self.warm_up.min(around.ended)).max(1) as f64 / 1e6;
        let (from, until) = (self.warm_up as f64 / 1e6, self.duration.min(around.ended) as f64 / 1e6);
        let by_role = by_role(around.turns, from, until);
        let mut groups: Vec<GroupOutcome> = spec
            .databases
            .iter()
            .flat_map(|database| database.groups.iter().map(move |group| (database, group)))
            .zip(&self.groups)
            .map(|((database, group), (waits, responses))| GroupOutcome {
                database: database.name.clone(),
                group: group.name.clone(),
                tenants: group.tenants,
                counts: Counts::default(),
                servers: ServerCounts::default(),
                waits: waits.clone(),
                responses: responses.clone(),
            })
            .collect();
        let mut shared = BTreeSet::new();
        let mut by_tenant = Vec::new();
        for (tenant, book) in objects.tenants.iter().zip(&self.tenants) {
            let servers = by_role.get(tenant.role.as_str()).copied().unwrap_or_default();
            groups[tenant.group].counts.add(&book.counts);
            if tenant.is_alone || shared.insert(tenant.role.as_str()) {
                groups[tenant.group].servers.add(&servers);
            }
            by_tenant.push(TenantOutcome {
                group: tenant.group as u32,
                number: tenant.number,
                counts: book.counts,
                servers: tenant.is_alone.then_some(servers),
                waits: Some(book.waits.clone()),
            });
        }
        let (mut counts, mut servers) = (Counts::default(), ServerCounts::default());
        groups.iter().for_each(|group| {
            counts.add(&group.counts);
            servers.add(&group.servers);
        });
        share_out(&mut servers, around.closed_for_age);
        let means: Vec<f64> = self
            .slices
            .iter()
            .filter(|slice| slice.attached > 0)
            .map(|slice| slice.waited as f64 / 1e6 / slice.attached as f64)
            .collect();
        let wait_mean = batch_mean(&means, 0.95).map(|mean| overall(mean, &counts));
        Outcome {
            is_complete: around.is_complete,
            seconds,
            tenants: objects.tenants.len() as u32,
            mean: Means {
                in_system: counts.in_system as f64 / 1e6 / seconds,
                waiting: counts.waited as f64 / 1e6 / seconds,
                lent: counts.held as f64 / 1e6 / seconds,
                open: around.servers_mean,
                clients: f64::from(around.clients_peak),
            },
            counts,
            servers,
            by_tenant,
            groups,
            cpu: around.server_cpu,
            wait_mean,
            is_unsteady: around.is_complete && warm_up(&means) * 2 > means.len() && !means.is_empty(),
            servers_peak: around.servers_peak,
            slices: self.slices,
            balances: around.balances.clone(),
            broken: Vec::new(),
            waits: self.waits,
            responses: self.responses,
            app_waits: self.app_waits,
        }
    }
}

/// What others than the book know of a run.
#[derive(Clone, Debug)]
pub(super) struct Around<'a> {
    pub(super) is_complete: bool,
    /// In microseconds of the run.
    pub(super) ended: u64,
    /// Beginnings and ends of sessions, in seconds of the run.
    pub(super) turns: &'a [Turn],
    /// Servers that were closed for their age in the counted time, if the pooler tells it.
    pub(super) closed_for_age: u64,
    pub(super) servers_mean: f64,
    pub(super) servers_peak: u32,
    pub(super) clients_peak: u32,
    /// Processor seconds of PostgreSQL in the counted time.
    pub(super) server_cpu: f64,
    pub(super) balances: Vec<Balance>,
}

/// Sessions that began and ended between two times, by role. The log does not know why.
fn by_role(turns: &[Turn], from: f64, until: f64) -> BTreeMap<&str, ServerCounts> {
    let mut roles: BTreeMap<&str, ServerCounts> = BTreeMap::new();
    for turn in turns.iter().filter(|turn| (from..=until).contains(&turn.at)) {
        let counts = roles.entry(turn.role.as_str()).or_default();
        if turn.is_begin {
            counts.opened += 1;
            counts.dialed[0] += 1;
        } else {
            counts.closed[OTHER] += 1;
        }
    }
    roles
}

/// Of the servers that were closed, so many were for their age.
fn share_out(servers: &mut ServerCounts, for_age: u64) {
    let for_age = for_age.min(servers.closed[OTHER]);
    servers.closed[OTHER] -= for_age;
    servers.closed[LIFETIME] += for_age;
}

/// The place of closings without a known reason.
const OTHER: usize = 6;
/// What poolers say to one client too many.
const CLIENTS_REFUSED: [&str; 3] =
    ["no more connections allowed", "max_client_conn", "tcp connections (" /* Odyssey's client_max */];
const ERRORS_MAX: usize = 20;
/// Later transactions draw their times by the measured law.
const LOANS_MAX: usize = 1 << 22;

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
