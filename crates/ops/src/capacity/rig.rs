//! Runs steps against a target.
//!
//! Always true: a step has connections of its own, which are there before its first request; its own generator is judged before anything follows.
//! Not here: which steps are run (`search`, `probe`), what is asked (`workload`).

use std::cell::Cell;
use std::net::ToSocketAddrs as _;
use std::sync::Arc;

use auth::Secret;
use conninfo::Address;

use super::evidence::Evidence;
use super::observe::{Look, Observer, Seen};
use super::offered::{Arrival, Offered};
use super::probe::Closed;
use super::slo::Slo;
use super::step::{Ask, Step};
use super::workload::Workload;
use crate::connection::tls_of;
use crate::hatest::Target;
use crate::load::{Driver, Effort, Fitness, Lane, Login, Patience, Place, Times, micros, reasons_against, steadiness};
use crate::theory::estimate::batch_mean;
use crate::trial::Interrupt;

/// What steps are run with.
pub(crate) struct Rig<'a> {
    pub(crate) login: Arc<Login>,
    pub(crate) workload: Workload,
    pub(crate) slo: Slo,
    /// The most client connections.
    pub(crate) clients: u32,
    pub(crate) seed: u64,
    pub(crate) observer: Observer,
    /// Requests a second that the generator can do.
    pub(crate) rate_max: Option<f64>,
    pub(crate) interrupt: &'a Interrupt,
    /// Told how far a step is, from 0 to 1.
    pub(crate) tick: &'a dyn Fn(f64),
    /// What the first failure of the last closed loop said.
    pub(crate) failure: Option<String>,
}

impl Rig<'_> {
    /// Runs a step. `None` if the run was ended before it.
    ///
    /// # Errors
    /// The system refuses something, or the target refuses every connection.
    pub(crate) fn step(&mut self, ask: &Ask) -> Result<Option<Step>, String> {
        let before = ask.before.unwrap_or((ask.rate, (ask.seconds * SETTLING).clamp(0.2, 5.0)));
        let parts = vec![(before.0, micros_of(before.1)), (ask.rate, micros_of(ask.seconds))];
        let expected = before.1 + ask.seconds;
        let arrival = Arrival::Open(parts);
        let Some(played) = self.play(arrival, vec![self.clients], expected)? else { return Ok(None) };
        let Played { tally, slices, answered, first_failure, effort, seen } = played;
        let due = tally.offered().max(1);
        let (mut evidence, service) = (seen.evidence, seen.service.ok());
        let fitness = Fitness {
            lag_p99: tally.lag.histogram().value_at_quantile(0.99),
            reported_p50: tally.total.histogram().value_at_quantile(0.5),
            cpu_share: effort.share(),
            achieved: answered as f64 / due as f64,
            is_server_idle: None,
            rate: ask.rate,
            rate_max: self.rate_max,
        };
        let against = reasons_against(&fitness);
        let void = (!against.is_empty()).then(|| against.join("; "));
        evidence.generator.clone_from(&void);
        let whole = ask.seconds as usize;
        let per_second = &tally.per_second()[..whole.min(tally.per_second().len())];
        let steady = steadiness(&tally.samples(), per_second);
        // After an overload the beginning is what is looked for.
        let begins = if ask.before.is_some() { 0 } else { steady.begins };
        let times = if begins == 0 || steady.begins > micros_of(ask.seconds) / 2 {
            tally.total.clone()
        } else {
            let mut times = Times::new(3);
            tally.samples().iter().filter(|sample| sample.at >= begins).for_each(|sample| times.note(sample.total));
            times
        };
        let is_judged = ask.before.is_none() && ask.seconds >= STEADY_SECONDS_MIN;
        let unsteady = (!steady.reasons.is_empty() && is_judged).then(|| steady.reasons.join("; "));
        Ok(Some(Step {
            phase: ask.phase,
            offered: ask.rate,
            achieved: ask.rate * answered as f64 / due as f64,
            seconds: ask.seconds,
            times: times.histogram().clone(),
            failed: tally.errored + tally.timed_out + tally.skipped,
            first_failure,
            service,
            slices,
            void,
            unsteady,
            evidence,
        }))
    }

    /// Runs a closed loop of so many clients, beside idle connections. `None` if the run was ended before it.
    ///
    /// # Errors
    /// As [`Rig::step`].
    pub(crate) fn closed(
        &mut self,
        clients: u32,
        idle: u32,
        seconds: f64,
    ) -> Result<Option<(Closed, Evidence)>, String> {
        let settling = (seconds * SETTLING).clamp(0.1, 5.0);
        let arrival = Arrival::Closed(clients, micros_of(settling), micros_of(seconds));
        let lanes = if idle > 0 { vec![clients, idle] } else { vec![clients] };
        let Some(played) = self.play(arrival, lanes, settling + seconds)? else { return Ok(None) };
        let tally = &played.tally;
        let whole = (seconds as usize).min(tally.per_second().len());
        let rates: Vec<f64> = tally.per_second()[..whole].iter().map(|count| f64::from(*count)).collect();
        let error = batch_mean(&rates, 0.68).map_or(0.0, |interval| (interval.high - interval.low) / 2.0);
        let throughput = played.answered as f64 / seconds;
        let mut evidence = played.seen.evidence;
        // A closed loop has no intended times to be late for.
        let reached = Fitness {
            lag_p99: 0,
            reported_p50: 0,
            cpu_share: played.effort.share(),
            achieved: 1.0,
            is_server_idle: None,
            rate: throughput,
            rate_max: self.rate_max,
        };
        let against = reasons_against(&reached);
        evidence.generator = (!against.is_empty()).then(|| against.join("; "));
        self.failure = played.first_failure;
        let closed = Closed {
            clients,
            throughput,
            error,
            response: tally.total.histogram().mean() / 1e6,
            service: played.seen.service.ok(),
            failed: tally.errored + tally.timed_out,
        };
        Ok(Some((closed, evidence)))
    }

    /// The first failure of the last closed loop, to be appended to a text.
    pub(crate) fn failure(&self) -> String {
        self.failure.as_ref().map_or(String::new(), |failure| format!(": {failure}"))
    }

    fn play(&mut self, arrival: Arrival, lanes: Vec<u32>, seconds: f64) -> Result<Option<Played>, String> {
        let failed = |why: std::io::Error| format!("the load cannot be played: {why}");
        let patience = self.slo.seconds.max(1.0);
        let limits =
            Patience { request_max: micros((PATIENCE * patience).max(10.0)), drain_max: micros(2.0 * patience) };
        self.seed = self.seed.wrapping_add(1);
        let mut driver = Driver::new(limits, self.seed).map_err(failed)?;
        for clients in &lanes {
            driver.add_lane(Lane {
                login: self.login.clone(),
                clients_max: *clients,
                waiting_max: WAITING_MAX,
                requests_max: 0,
                idle_max: None,
                lifetime: None,
            });
        }
        let late_after = micros(self.slo.seconds);
        let is_measuring = Cell::new(false);
        let mut offered = Offered::new(arrival, &mut self.workload, lanes, late_after, self.seed, &is_measuring);
        let (interrupt, tick, expected) = (self.interrupt, self.tick, seconds * 1e6);
        // Connections that are opened are no part of what is looked at.
        let mut look = None;
        let mut goes_on = |now: u64| {
            tick((now as f64 / expected).min(1.0));
            if is_measuring.get() && look.is_none() {
                look = Some(self.observer.begin());
            }
            !interrupt.is_raised()
        };
        let effort = driver.play(&mut offered, &mut goes_on);
        let seen = look.transpose()?.map_or_else(Seen::nothing, Look::end);
        let effort = effort.map_err(failed)?;
        if self.interrupt.is_raised() {
            return Ok(None);
        }
        let Offered { tally, slices, answered, first_failure, refused, .. } = offered;
        match refused {
            Some(refused) if tally.done == 0 => Err(format!("the target refuses connections: {refused}")),
            refused => {
                let first_failure = first_failure.or_else(|| refused.map(|refused| refused.to_string()));
                Ok(Some(Played { tally, slices, answered, first_failure, effort, seen }))
            }
        }
    }
}

struct Played {
    tally: crate::load::Tally,
    slices: Vec<(u64, u64)>,
    answered: u64,
    first_failure: Option<String>,
    effort: Effort,
    seen: Seen,
}

/// Where a connection string leads, and as whom.
///
/// # Errors
/// The load cannot go there; the text repeats no password.
pub(crate) fn login_of(target: &Target) -> Result<Login, String> {
    let host = target.hosts.first().ok_or("no host")?;
    let place = match &host.address {
        Address::Socket { path } => Place::Unix(path.into()),
        Address::Tcp { host, port } => {
            let found =
                (host.as_str(), *port).to_socket_addrs().map_err(|why| format!("{}: {why}", conninfo::clean(host)))?;
            Place::Tcp(found.into_iter().next().ok_or("the name has no address")?)
        }
    };
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    Ok(Login {
        place,
        user: text(host.login.get_user()).into(),
        database: text(host.login.get_dbname()).into(),
        secret: Arc::new(host.login.get_password().map_or(Secret::None, plain)),
        name: NAME.into(),
        tls: tls_of(target, host)?,
    })
}

fn plain(password: &[u8]) -> Secret {
    auth::Password::new(password).map_or(Secret::None, Secret::Plain)
}

fn micros_of(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

/// The `application_name` of the load.
const NAME: &str = "trunkline capacity";
/// The part of a step that comes before it, at the same rate, and is not measured.
const SETTLING: f64 = 0.1;
/// In a shorter step chance looks like a drift.
const STEADY_SECONDS_MIN: f64 = 5.0;
/// So many times as long as the objective allows a request is waited for.
const PATIENCE: f64 = 20.0;
const WAITING_MAX: usize = 1 << 20;
