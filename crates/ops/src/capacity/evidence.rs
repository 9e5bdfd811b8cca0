//! Which resource limits: what was observed while a load ran, and the decision.
//!
//! Always true: the evidence is looked at in one order, and the first that explains the limit is the limit; what was not observed is told as such
//! and explains nothing. Waits count as shares of sessions that were running a statement.
//! Not here: observing (`observe`).

use crate::facts::Observed;

/// What was observed of pooler, server and machine during a step.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Evidence {
    /// The pool: the share of its slots that were taken on average, and the clients that waited.
    pub(crate) pool: Observed<PoolUse>,
    /// Of the processors that the server may use, the share that it used.
    pub(crate) server_cpu: Observed<f64>,
    /// Of all processors of the server's machine, the share that anybody used.
    pub(crate) machine_cpu: Observed<f64>,
    /// What sessions that ran a statement waited for.
    pub(crate) waits: Observed<Shares>,
    /// Relations for which sessions waited, with the number of times each was seen, the most frequent first.
    pub(crate) contended: Observed<Vec<(String, u64)>>,
    /// The busiest thread of the pooler, as a share of the processor time that it may have.
    pub(crate) pooler_cpu: Observed<f64>,
    /// Why the load generator was the limit, if it was.
    pub(crate) generator: Option<String>,
}

/// How a pool was used.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct PoolUse {
    /// Servers that it may have.
    pub(crate) size: f64,
    /// Servers that were at work, on average.
    pub(crate) taken: f64,
    /// Clients that waited for one, on average.
    pub(crate) waiting: f64,
}

/// What running sessions waited for; the parts add up to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Shares {
    /// Sessions that ran a statement, on average.
    pub(crate) active: f64,
    /// They used a processor, or waited for one.
    pub(crate) processor: f64,
    pub(crate) disk: f64,
    /// Locks of relations, rows and transactions, and those within the server.
    pub(crate) lock: f64,
    /// Sending rows, or waiting for more from the client.
    pub(crate) client: f64,
    pub(crate) other: f64,
}

/// What limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Limit {
    /// Servers of the pool.
    Pool,
    /// Processors of the server.
    Processors,
    /// The server's disk.
    Disk,
    /// Sessions wait for each other.
    Contention,
    /// The client or the network.
    Client,
    /// A thread of the pooler.
    Pooler,
    /// The load generator: the run is void.
    Generator,
    /// Nothing that was observed.
    Unknown,
}

impl Limit {
    /// How a report names it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Processors => "processors",
            Self::Disk => "disk",
            Self::Contention => "contention",
            Self::Client => "client or network",
            Self::Pooler => "pooler",
            Self::Generator => "generator",
            Self::Unknown => "unknown",
        }
    }
}

/// One look at the evidence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    pub(crate) limit: Limit,
    /// What was seen, or what is missing.
    pub(crate) seen: String,
    /// Whether it explains the limit; `None` if it could not be seen.
    pub(crate) is_it: Option<bool>,
}

impl Default for Evidence {
    fn default() -> Self {
        let nothing = || "an observation".to_owned();
        Self {
            pool: Err(nothing()),
            server_cpu: Err(nothing()),
            machine_cpu: Err(nothing()),
            waits: Err(nothing()),
            contended: Err(nothing()),
            pooler_cpu: Err(nothing()),
            generator: None,
        }
    }
}

impl Evidence {
    /// All evidence in its order.
    pub(crate) fn looks(&self) -> Vec<Look> {
        let look = |limit, seen: Observed<(String, bool)>| match seen {
            Ok((seen, is_it)) => Look { limit, seen, is_it: Some(is_it) },
            Err(needs) => Look { limit, seen: format!("not evaluated: needs {needs}"), is_it: None },
        };
        let share = |of: fn(&Shares) -> f64| self.waits.clone().map(|shares| (of(&shares), shares.active));
        let generator = match &self.generator {
            Some(why) => (why.clone(), true),
            None => ("the generator kept up".to_owned(), false),
        };
        vec![
            look(Limit::Pool, self.pool_look()),
            look(Limit::Processors, self.processors_look()),
            look(
                Limit::Disk,
                share(|shares| shares.disk)
                    .map(|(disk, active)| (of_active(disk, active, "on the disk"), dominates(disk))),
            ),
            look(
                Limit::Contention,
                share(|shares| shares.lock).map(|(lock, active)| {
                    let names = self.contended.as_ref().map_or(String::new(), |names| named(names));
                    (of_active(lock, active, "for each other") + &names, dominates(lock))
                }),
            ),
            look(
                Limit::Client,
                share(|shares| shares.client).map(|(client, active)| {
                    (of_active(client, active, "for the client or the network"), dominates(client))
                }),
            ),
            look(
                Limit::Pooler,
                self.pooler_cpu.clone().map(|used| {
                    (format!("the pooler's busiest thread used {} of its processor time", percent(used)), used >= BUSY)
                }),
            ),
            look(Limit::Generator, Ok(generator)),
        ]
    }

    /// What limits.
    pub(crate) fn limit(&self) -> Limit {
        self.looks().into_iter().find(|look| look.is_it == Some(true)).map_or(Limit::Unknown, |look| look.limit)
    }

    /// Slots full while the server has processors left. Sessions that wait for a disk, for each other or for the client fill a pool as well, which is
    /// not the pool's fault.
    fn pool_look(&self) -> Observed<(String, bool)> {
        let pool = self.pool.clone()?;
        let share = pool.taken / pool.size.max(1.0);
        let seen = format!(
            "{} of {} servers at work, {} clients waited",
            crate::table::short(pool.taken),
            pool.size,
            crate::table::short(pool.waiting)
        );
        if share < FULL || pool.waiting < WAITING_MIN {
            return Ok((seen, false));
        }
        let server = self.server_cpu.clone()?;
        let machine = self.machine_cpu.clone().unwrap_or(server);
        // On a machine that others keep busy, sessions that do not want a processor are not held up by that.
        let wants_none = self.waits.as_ref().is_ok_and(|shares| !dominates(shares.processor));
        let is_idle = server < BUSY && (machine < BUSY || wants_none);
        let is_elsewhere = self
            .waits
            .as_ref()
            .is_ok_and(|shares| dominates(shares.disk) || dominates(shares.lock) || dominates(shares.client));
        let because = match (is_idle, is_elsewhere) {
            (true, true) => ", each of which waits for something else",
            (true, false) => ", while the server has processors left",
            (false, _) => ", but so are the processors",
        };
        Ok((seen + because, is_idle && !is_elsewhere))
    }

    /// Processors of the server. On a machine that it shares, its own part must be the largest that is left to it.
    fn processors_look(&self) -> Observed<(String, bool)> {
        let server = self.server_cpu.clone()?;
        let machine = self.machine_cpu.clone().ok();
        let seen = match machine {
            Some(machine) => {
                format!("the server used {} of the processors, all together {}", percent(server), percent(machine))
            }
            None => format!("the server used {} of its processors", percent(server)),
        };
        let is_shared = machine.is_some_and(|machine| machine >= BUSY && server >= machine / 2.0);
        Ok((seen, server >= BUSY || is_shared))
    }
}

fn dominates(share: f64) -> bool {
    share >= MOST
}

fn of_active(share: f64, active: f64, what: &str) -> String {
    format!("{} of {} running sessions waited {what}", percent(share), crate::table::short(active))
}

fn named(names: &[(String, u64)]) -> String {
    match names.first() {
        Some((name, _)) => format!(", most often at {name}"),
        None => String::new(),
    }
}

/// A share for people.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The share of a processor above which it is the limit.
const BUSY: f64 = 0.9;
/// The share of slots above which a pool is full, if clients wait: between two loans a server is at work for nobody, for longer on a busy machine.
const FULL: f64 = 0.75;
/// Clients that wait when a pool limits.
const WAITING_MIN: f64 = 0.5;
/// The share of running sessions that explains a limit.
const MOST: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(size: f64, taken: f64, waiting: f64) -> Observed<PoolUse> {
        Ok(PoolUse { size, taken, waiting })
    }

    fn shares(active: f64, [processor, disk, lock, client, other]: [f64; 5]) -> Observed<Shares> {
        Ok(Shares { active, processor, disk, lock, client, other })
    }

    fn evidence(pool: Observed<PoolUse>, server: f64, machine: f64, waits: Observed<Shares>, pooler: f64) -> Evidence {
        Evidence {
            pool,
            server_cpu: Ok(server),
            machine_cpu: Ok(machine),
            waits,
            contended: Ok(Vec::new()),
            pooler_cpu: Ok(pooler),
            generator: None,
        }
    }

    #[test]
    fn each_of_seven_rigs_has_its_limit() {
        let rigs = [
            // Two servers, each statement sleeps.
            (evidence(pool(2.0, 1.98, 30.0), 0.01, 0.2, shares(2.0, [0.02, 0.0, 0.0, 0.0, 0.98]), 0.05), Limit::Pool),
            // The same beside others that compute.
            (evidence(pool(2.0, 1.78, 20.0), 0.01, 1.0, shares(2.0, [0.02, 0.0, 0.0, 0.0, 0.98]), 0.05), Limit::Pool),
            // A query that computes; the generator and the pooler are on the same machine.
            (
                evidence(pool(20.0, 20.0, 12.0), 0.85, 0.99, shares(20.0, [0.97, 0.0, 0.02, 0.01, 0.0]), 0.1),
                Limit::Processors,
            ),
            // A disk that is limited.
            (evidence(pool(8.0, 7.9, 20.0), 0.04, 0.1, shares(8.0, [0.05, 0.92, 0.02, 0.01, 0.0]), 0.02), Limit::Disk),
            // One row.
            (
                evidence(pool(20.0, 19.9, 20.0), 0.1, 0.3, shares(20.0, [0.04, 0.02, 0.93, 0.01, 0.0]), 0.05),
                Limit::Contention,
            ),
            // A reader that is slow to take its rows.
            (evidence(pool(8.0, 7.8, 9.0), 0.1, 0.2, shares(7.0, [0.1, 0.0, 0.0, 0.9, 0.0]), 0.1), Limit::Client),
            // A pooler with a fifth of a processor.
            (evidence(pool(20.0, 1.2, 0.0), 0.1, 0.4, shares(0.5, [0.8, 0.0, 0.0, 0.2, 0.0]), 0.98), Limit::Pooler),
        ];
        for (evidence, limit) in rigs {
            assert_eq!(evidence.limit(), limit, "{:#?}", evidence.looks());
        }
        let responder =
            Evidence { generator: Some("late by more than the answers take".to_owned()), ..Evidence::default() };
        assert_eq!(responder.limit(), Limit::Generator);
    }

    #[test]
    fn what_was_not_observed_explains_nothing() {
        let blind = Evidence::default();
        assert_eq!(blind.limit(), Limit::Unknown);
        assert_eq!(blind.looks().iter().filter(|look| look.is_it.is_none()).count(), 6);
        // A full pool without a look at the server may have another reason.
        let half = Evidence { pool: pool(2.0, 2.0, 9.0), ..Evidence::default() };
        assert_eq!((half.limit(), half.looks()[0].is_it), (Limit::Unknown, None));
    }

    #[test]
    fn the_relation_that_sessions_wait_for_is_named() {
        let mut seen = evidence(pool(9.0, 9.0, 9.0), 0.1, 0.1, shares(9.0, [0.0, 0.0, 1.0, 0.0, 0.0]), 0.1);
        seen.contended = Ok(vec![("public.counters".to_owned(), 70), ("public.other".to_owned(), 1)]);
        assert!(seen.looks()[3].seen.ends_with("most often at public.counters"), "{:?}", seen.looks()[3]);
    }
}
