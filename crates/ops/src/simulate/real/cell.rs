//! One run at one target: plays it, watches it, reads the counters, checks the posts, balances the books.
//!
//! Always true: counters are read when no session is left, so that none is on its way.
//! Not here: making what a run needs (`stage`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::book::{Around, Book, Posts};
use super::facts::{Generator, Held, MemoryPeaks, Processors, Quantiles, RealRun, law_of};
use super::objects::{Manner, Objects};
use super::play::Play;
use super::probe::Probe;
use super::server::{Counters, Server};
use super::sessions::{Turn, turns};
use super::watch::{Look, Watch, Watched, nearest};
use crate::load::{Capability, Driver, Effort, Fitness, Login, Patience, Place, reasons_against, steadiness};
use crate::simulate::engine::{Balance, Outcome};
use crate::simulate::spec::Spec;

/// What a run told.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) outcome: Outcome,
    pub(super) facts: RealRun,
}

/// What a run is played with.
pub(super) struct Setup<'a> {
    pub(super) spec: &'a Spec,
    pub(super) objects: &'a Objects,
    pub(super) target: String,
    pub(super) setting: usize,
    pub(super) seed: u64,
    /// The number of the run.
    pub(super) run: u32,
    pub(super) manner: Manner,
    pub(super) place: Place,
    pub(super) secret: Arc<auth::Secret>,
    pub(super) watched: Watched,
    pub(super) capability: Capability,
    /// Where logins are measured while the run goes on.
    pub(super) probe: Option<Login>,
}

/// A run that was played, before its pooler is gone.
pub(super) struct Played {
    book: Book,
    effort: Effort,
    looks: Vec<Look>,
    /// Seconds since 1970.
    began: f64,
    ended: u64,
    is_complete: bool,
    has_jumped: bool,
    server_logins: Vec<u64>,
}

/// Plays a run.
pub(super) fn play(
    setup: &Setup<'_>,
    goes_on: &mut dyn FnMut(f64) -> bool,
    happens: &mut dyn FnMut(u64),
) -> Result<Played, String> {
    let spec = setup.spec;
    let patience = Patience { request_max: REQUEST_MAX, drain_max: DRAIN_MAX };
    let mut driver = Driver::new(patience, setup.seed).map_err(|why| why.to_string())?;
    let mut play = Play::new(spec, setup.objects, setup.seed, setup.run, setup.manner, &setup.place, &setup.secret);
    for lane in play.lanes() {
        driver.add_lane(lane);
    }
    let probe = setup.probe.clone().map(Probe::begin);
    let watch = Watch::begin(setup.watched.clone(), vec![spec.warm_up, spec.duration]);
    let (began, clock) = (unix_time(), Instant::now());
    let mut is_complete = true;
    let mut look = |now: u64| {
        happens(now);
        let goes = goes_on((now as f64 / spec.duration as f64).min(1.0));
        is_complete &= goes || now >= spec.duration;
        goes
    };
    let effort = driver.play(&mut play, &mut look).map_err(|why| why.to_string())?;
    let has_jumped = (unix_time() - began - clock.elapsed().as_secs_f64()).abs() > JUMP_MIN;
    let looks = watch.end();
    let server_logins = probe.map(Probe::end).unwrap_or_default();
    Ok(Played { server_logins, book: play.book, effort, looks, began, ended: effort.wall, is_complete, has_jumped })
}

/// What is read when all sessions are gone.
pub(super) struct After<'a> {
    pub(super) before: Counters,
    /// The log of the server, if it is ours, with the length that it had before.
    pub(super) log: Option<&'a str>,
    /// What the pooler said of closed servers, by cause.
    pub(super) closed_by_cause: BTreeMap<String, u64>,
    /// Servers that the pooler says that it has opened.
    pub(super) opened_by_pooler: Option<u64>,
    /// Whether the server works for nobody else.
    pub(super) is_alone: bool,
    /// Logins that may have been cut off by restarts of the server, after which its log and its counters may differ.
    pub(super) cut_off: u64,
}

impl After<'_> {
    /// Two counts that are equal, but for logins that a restart has cut off; how the second is called then.
    fn equal(&self, what: &'static str, beyond: &'static str, left: u64, right: u64) -> Balance {
        match self.cut_off {
            0 => Balance { what, left, right },
            most => Balance { what: beyond, left: left.abs_diff(right).saturating_sub(most), right: 0 },
        }
    }
}

/// Makes the outcome of a run.
pub(super) fn finish(
    setup: &Setup<'_>,
    played: Played,
    after: &After<'_>,
    server: &mut Server,
) -> Result<Cell, String> {
    let Played { book, effort, looks, began, ended, is_complete, has_jumped, server_logins } = played;
    let spec = setup.spec;
    let counters = server.counters()?;
    let (sessions, transactions) =
        (counters.sessions - after.before.sessions, counters.transactions - after.before.transactions);
    let posts = book.check(&server.posts(setup.objects, setup.run)?);
    let mut sessions_seen = after.log.map(turns).unwrap_or_default();
    sessions_seen.iter_mut().for_each(|turn| turn.at -= began);
    let balances = balances(&book, &sessions_seen, sessions, transactions, posts, after);
    let (from, until) = (spec.warm_up as f64 / 1e6, (spec.duration.min(ended)) as f64 / 1e6);
    let (first, last) = (nearest(&looks, from), nearest(&looks, until));
    let counted = (last.at - first.at).max(0.001);
    let cpu = Processors {
        server: last.server_cpu - first.server_cpu,
        pooler: last.pooler_cpu - first.pooler_cpu,
        ourselves: last.own_cpu - first.own_cpu,
        counted,
    };
    let servers: Vec<f64> =
        looks.iter().filter(|look| look.at >= from && look.at <= until).map(|look| f64::from(look.servers)).collect();
    let opened = sessions_seen.iter().filter(|turn| turn.is_begin && (from..=until).contains(&turn.at)).count();
    let mut facts = facts(
        setup,
        &book,
        effort,
        &looks,
        after,
        cpu,
        posts,
        (has_jumped, is_complete),
        opened as f64 / (until - from),
    );
    facts.server_logins = server_logins;
    facts.loans.clone_from(&book.loans);
    let around = Around {
        is_complete,
        ended,
        turns: &sessions_seen,
        closed_for_age: share_for_age(&after.closed_by_cause, &sessions_seen, from),
        servers_mean: servers.iter().sum::<f64>() / servers.len().max(1) as f64,
        servers_peak: looks.iter().map(|look| look.servers).max().unwrap_or(0),
        clients_peak: effort.clients_peak,
        server_cpu: cpu.server,
        balances,
    };
    Ok(Cell { outcome: book.outcome(spec, setup.objects, &around), facts })
}

/// The pooler counts over the whole run; of the closings in the counted time, the same share is for age.
fn share_for_age(by_cause: &BTreeMap<String, u64>, sessions: &[Turn], from: f64) -> u64 {
    let all: u64 = by_cause.values().sum();
    let for_age = by_cause.get("lifetime").copied().unwrap_or(0);
    let counted = sessions.iter().filter(|turn| !turn.is_begin && turn.at >= from).count() as u64;
    (counted * for_age + all / 2).checked_div(all).unwrap_or(0)
}

/// The books of a run.
fn balances(
    book: &Book,
    seen: &[Turn],
    sessions: u64,
    transactions: u64,
    posts: Posts,
    after: &After<'_>,
) -> Vec<Balance> {
    let whole = book.whole;
    let mut list = vec![
        Balance {
            what: "arrived = done + failed + refused + in progress",
            left: whole.started,
            right: whole.done + whole.failed + whole.refused + whole.in_flight,
        },
        Balance { what: "acknowledged posts that are not there", left: posts.lost, right: 0 },
        Balance { what: "posts that nobody knows of", left: posts.unexplained, right: 0 },
    ];
    if let Some(opened) = after.opened_by_pooler {
        list.push(after.equal(
            "servers that the pooler opened = sessions of the server",
            "servers that the pooler opened without sessions of the server, or these without those, beyond logins that a restart cut off",
            opened,
            sessions,
        ));
    }
    if after.log.is_some() {
        let begun = seen.iter().filter(|turn| turn.is_begin).count() as u64;
        let ended = seen.iter().filter(|turn| !turn.is_begin).count() as u64;
        list.push(after.equal(
            "sessions in the server's log = those that it counts",
            "sessions that only the server's log or only its counters have, beyond logins that a restart cut off",
            begun,
            sessions,
        ));
        list.push(after.equal(
            "sessions begun = ended",
            "sessions begun without an end, beyond logins that a restart cut off",
            begun,
            ended,
        ));
    }
    if after.is_alone {
        // Each login is a transaction of the server, and each session may have been checked or reset by the pooler.
        let most = whole.begun + whole.perhaps_begun + sessions * TRANSACTIONS_OF_A_SESSION;
        list.push(Balance {
            what: "transactions that the server counts and nobody sent",
            left: transactions.saturating_sub(most),
            right: 0,
        });
        list.push(Balance {
            what: "transactions that were begun and the server does not count",
            left: whole.begun.saturating_sub(transactions),
            right: 0,
        });
    }
    list
}

#[allow(clippy::too_many_arguments, reason = "each is known by another step of the run")]
fn facts(
    setup: &Setup<'_>,
    book: &Book,
    effort: Effort,
    looks: &[Look],
    after: &After<'_>,
    cpu: Processors,
    posts: Posts,
    (has_jumped, is_complete): (bool, bool),
    opened_a_second: f64,
) -> RealRun {
    let tally = &book.tally;
    let lag = |share: f64| tally.lag.histogram().value_at_quantile(share);
    let processors = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    let busy = (cpu.server + cpu.pooler + cpu.ourselves) / cpu.counted / processors;
    let offered = tally.offered().max(1);
    // What a limit of the pooler refused is its answer, not a weakness of the generator.
    let answered = tally.done + tally.errored;
    let statements =
        looks.last().map_or(0.0, |last| book.whole.begun as f64 * STATEMENTS_AT_LEAST / last.at.max(0.001));
    // One that was ended early was not meant to answer all.
    let offered = if is_complete { offered } else { answered.max(1) };
    let fitness = Fitness {
        lag_p99: lag(0.99),
        reported_p50: tally.percentile(50.0).micros,
        cpu_share: effort.share(),
        achieved: answered as f64 / offered as f64,
        is_server_idle: setup.watched.server.as_ref().map(|_| busy < IDLE_BELOW),
        rate: statements,
        rate_max: Some(setup.capability.rate),
    };
    let mut void = reasons_against(&fitness);
    if has_jumped {
        void.push(
            "the clock of the machine was set during the run, so that the server's log cannot be counted".to_owned(),
        );
    }
    let unsteady = if setup.spec.events.is_empty() {
        let per_second = tally.per_second();
        let whole = (setup.spec.duration / 1_000_000) as usize;
        let first = setup.spec.warm_up.div_ceil(1_000_000) as usize;
        steadiness(&tally.samples(), per_second.get(first..whole.min(per_second.len())).unwrap_or_default()).reasons
    } else {
        // It is not meant to be steady.
        Vec::new()
    };
    RealRun {
        target: setup.target.clone(),
        setting: setup.setting,
        seed: setup.seed,
        void,
        unsteady,
        generator: Generator {
            lag_p50: lag(0.5) as f64 / 1e6,
            lag_p99: lag(0.99) as f64 / 1e6,
            cpu_share: effort.share(),
            rate_max: setup.capability.rate,
            clients_peak: effort.clients_peak,
        },
        timed_out: tally.timed_out,
        skipped: tally.skipped,
        abandoned: tally.abandoned,
        errors: book.errors.clone(),
        held: book
            .held
            .iter()
            .map(|((group, kind), times)| Held {
                group: *group,
                kind: *kind,
                times: Quantiles::of(times),
                law: law_of(times),
            })
            .collect(),
        login: Quantiles::of(&book.logins),
        cpu,
        memory: MemoryPeaks {
            pooler: looks.iter().map(|look| look.pooler_memory).max().unwrap_or(0),
            servers: looks.iter().map(|look| look.server_memory).max().unwrap_or(0),
        },
        posts,
        opened_a_second,
        closed_by_cause: after.closed_by_cause.clone(),
        looks: looks.to_vec(),
        server_logins: Vec::new(),
        loans: Vec::new(),
        whole: book.whole,
    }
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Ten minutes: longer than poolers let anybody wait.
const REQUEST_MAX: u64 = 600_000_000;
/// What has not ended so long after the end is abandoned.
const DRAIN_MAX: u64 = 3_000_000;
/// The clock of the machine was set, in seconds.
const JUMP_MIN: f64 = 0.2;
/// A login counts as one, and the pooler may check and reset.
const TRANSACTIONS_OF_A_SESSION: u64 = 3;
/// BEGIN, a statement, COMMIT.
const STATEMENTS_AT_LEAST: f64 = 3.0;
/// The machine has processors to spare.
const IDLE_BELOW: f64 = 0.6;
