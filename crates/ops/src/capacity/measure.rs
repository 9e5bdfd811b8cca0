//! A measurement: what the generator can do, the bound, the scalability law, the search for the knee, idle connections, shares of tables.
//!
//! Always true: each part that was reached is in the result; Ctrl-C ends the part that runs, and skips the rest. What was made is removed.
//! Not here: single steps (`rig`), what is printed (`words`).

use std::time::{Duration, Instant};

use super::attribution::{Attribution, Observation};
use super::course::CapacityError;
use super::evidence::Evidence;
use super::knee::{Knee, knee_of};
use super::observe::Observer;
use super::options::CapacityOptions;
use super::own_schema::OwnSchema;
use super::plan::{Bound, Plan};
use super::probe::{Closed, bound_of, next_clients};
use super::rig::{Rig, login_of};
use super::scaling::Scaling;
use super::search::Search;
use super::slo::Slo;
use super::workload::{Workload, statements_of};
use crate::connection::{Progress, address, console_target, server_target, writing_target};
use crate::facts;
use crate::hatest::Target;
use crate::load::{Capability, capability};
use crate::trial::{Interrupt, raise_descriptor_limit};

/// What was measured.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// Where the load went.
    pub(crate) target: String,
    /// What was asked, in words.
    pub(crate) workload: String,
    pub(crate) slo: Slo,
    pub(crate) clients: u32,
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    pub(crate) generator: Option<Capability>,
    pub(crate) probes: Vec<Closed>,
    pub(crate) bound: Option<Bound>,
    /// What was seen with the most clients of the probe.
    pub(crate) evidence: Evidence,
    pub(crate) search: Option<Search>,
    pub(crate) knee: Option<Knee>,
    pub(crate) scaling: Option<Scaling>,
    /// Numbers of idle connections, and the throughput beside them.
    pub(crate) idle: Vec<(u32, f64)>,
    pub(crate) attribution: Option<Attribution>,
    pub(crate) notes: Vec<String>,
    pub(crate) seconds: f64,
}

/// Measures.
///
/// # Errors
/// Nothing can be measured.
pub(crate) fn measure(
    target: &str,
    options: &CapacityOptions,
    interrupt: &Interrupt,
) -> Result<Measurement, CapacityError> {
    let began = Instant::now();
    let failed = |why: String| CapacityError::Failed(why);
    let named = |option: &str, target: Result<Target, String>| {
        target.map_err(|why| CapacityError::Usage(format!("{option}: {why}")))
    };
    let to = named("--target", writing_target(LOOKING_ON, target))?;
    let server =
        options.server.as_ref().map(|conninfo| named("--server", server_target(LOOKING_ON, conninfo))).transpose()?;
    let console =
        options.pooler.as_ref().map(|conninfo| named("--pooler", console_target(LOOKING_ON, conninfo))).transpose()?;
    let login = login_of(&to).map_err(|why| failed(format!("--target: {why}")))?;
    let statements = statements(options)?;
    // Made before anything is measured, removed when this is dropped.
    let own = match options.may_write {
        true => {
            let may = options.production.as_deref();
            Some(OwnSchema::make(target, may, options.is_kept).map_err(failed)?)
        }
        false => None,
    };
    let (workload, what) = workload(&statements, own.as_ref()).map_err(CapacityError::Usage)?;
    // Each client has a descriptor.
    let _ = raise_descriptor_limit();
    let plan = Plan::of(options.minutes, options.confirmations);
    let observer = Observer {
        server: server.clone().ok_or_else(|| "--server".to_owned()),
        console: console.ok_or_else(|| "--pooler".to_owned()),
        database: login.database.to_string(),
        is_host: options.is_host,
        cores: options.cores,
        pooler_pid: options.pooler_pid,
    };
    let mut measured = Measurement {
        target: format!("{}/{} as {}", address(&to), login.database, login.user),
        workload: what,
        slo: options.slo,
        clients: options.clients,
        seed: options.seed,
        plan,
        generator: None,
        probes: Vec::new(),
        bound: None,
        evidence: Evidence::default(),
        search: None,
        knee: None,
        scaling: None,
        idle: Vec::new(),
        attribution: None,
        notes: Vec::new(),
        seconds: 0.0,
    };
    let progress = Progress::of_parts();
    let tick = |share: f64| progress.step(share);
    progress.say("the generator against a responder that answers at once", 0.0);
    let generator = capability(options.clients.min(SELF_CHECK_CLIENTS), SELF_CHECK);
    measured.generator = Some(generator.map_err(|why| failed(format!("the generator cannot run: {why}")))?);
    let mut rig = Rig {
        login: login.into(),
        workload,
        slo: options.slo,
        clients: options.clients,
        seed: options.seed,
        observer,
        rate_max: measured.generator.map(|generator| generator.rate),
        interrupt,
        tick: &tick,
        failure: None,
    };
    let watched = options.is_attributed || options.is_hot_set;
    let observation = server.as_ref().filter(|_| watched).map(Observation::begin);
    let until = began + Duration::from_secs_f64(options.minutes * 60.0 * OVERTIME);
    let outcome = course(&mut rig, &mut measured, options, &progress, until);
    progress.end();
    if let Some(observation) = observation {
        measured.attribution = Some(observation.end(options.is_hot_set));
    }
    if let Some(own) = own {
        measured.notes.extend(own.remove());
    }
    measured.seconds = began.elapsed().as_secs_f64();
    outcome.map_err(failed)?;
    Ok(measured)
}

/// The parts of a measurement. Those that were reached are in `measured`, however it ends.
fn course(
    rig: &mut Rig<'_>,
    measured: &mut Measurement,
    options: &CapacityOptions,
    progress: &Progress,
    until: Instant,
) -> Result<(), String> {
    let mut short = (measured.plan.seconds_min / 2.0).clamp(0.5, 10.0);
    while let Some(clients) = next_clients(&measured.probes, options.clients) {
        progress.say(&format!("closed loop, {clients} clients"), 0.02);
        let Some((closed, evidence)) = rig.closed(clients, 0, short)? else { return Ok(()) };
        if closed.throughput * short < ANSWERS_MIN && closed.failed == 0 && short < SLOW_SECONDS_MAX {
            short = (short * 4.0).min(SLOW_SECONDS_MAX);
            continue;
        }
        measured.probes.push(closed);
        measured.evidence = evidence;
    }
    // What limits shows itself with all clients; fewer may be just enough for the bound.
    if measured.probes.last().is_some_and(|last| last.clients < options.clients) {
        progress.say(&format!("closed loop, {} clients", options.clients), 0.05);
        let Some((closed, evidence)) = rig.closed(options.clients, 0, short.max(SATURATED))? else { return Ok(()) };
        measured.probes.push(closed);
        measured.evidence = evidence;
    }
    measured.bound = bound_of(&measured.probes);
    let Some(bound) = measured.bound else {
        let failures = measured.probes.iter().map(|closed| closed.failed).sum::<u64>();
        return Err(format!("nothing was answered within {short:.0} s; {failures} requests failed{}", rig.failure()));
    };
    if !options.scaling.is_empty() {
        let mut points = Vec::new();
        for clients in &options.scaling {
            progress.say(&format!("scaling, {clients} clients"), 0.1);
            let Some((closed, evidence)) = rig.closed(*clients, 0, short)? else { return Ok(()) };
            // What the generator could not do is no property of the target.
            match evidence.generator {
                None => points.push(closed),
                Some(why) => measured.notes.push(format!("scaling with {clients} clients: {why}")),
            }
        }
        measured.scaling = Some(Scaling::of(points, &options.predict, options.seed));
    }
    let mut search = Search::new(measured.slo, measured.plan, bound);
    let searched = climb(rig, &mut search, progress, until);
    measured.knee = knee_of(&search, &measured.slo);
    measured.search = Some(search);
    searched?;
    let best =
        measured.probes.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput)).map_or(1, |best| best.clients);
    for idle in &options.idle {
        progress.say(&format!("beside {idle} idle connections"), 0.95);
        let Some((closed, evidence)) = rig.closed(best, *idle, short.max(SATURATED))? else { return Ok(()) };
        match evidence.generator {
            None => measured.idle.push((*idle, closed.throughput)),
            Some(why) => measured.notes.push(format!("beside {idle} idle connections: {why}")),
        }
    }
    Ok(())
}

fn climb(rig: &mut Rig<'_>, search: &mut Search, progress: &Progress, until: Instant) -> Result<(), String> {
    while let Some(ask) = search.next() {
        if Instant::now() > until && search.steps().len() >= STEPS_AT_LEAST {
            search.stop();
            break;
        }
        let what = format!("{}: {} requests a second", ask.phase.word(), crate::table::short(ask.rate));
        progress.say(&what, search.progress());
        match rig.step(&ask)? {
            Some(step) => search.take(step),
            None => {
                search.stop();
                break;
            }
        }
    }
    Ok(())
}

fn statements(options: &CapacityOptions) -> Result<Vec<String>, CapacityError> {
    let Some(path) = &options.file else { return Ok(options.statements.clone()) };
    let bytes = facts::read(path).map_err(|why| CapacityError::Failed(format!("{path}: {why}")))?;
    let text = String::from_utf8(bytes).map_err(|_| CapacityError::Failed(format!("{path}: it is not UTF-8")))?;
    Ok(statements_of(&text))
}

fn workload(statements: &[String], own: Option<&OwnSchema>) -> Result<(Workload, String), String> {
    match (statements.len(), own) {
        (0, Some(own)) => Ok((own.workload(), "updates of our own accounts".to_owned())),
        (0, None) => Ok((Workload::built_in(), "select 1".to_owned())),
        (count, own) => {
            let words = if own.is_some() { "statements that may write" } else { "statements that may only read" };
            Ok((Workload::of(statements, own.is_some())?, format!("{count} {words}")))
        }
    }
}

/// The `application_name` of connections that are no part of the load.
pub(super) const LOOKING_ON: &str = "trunkline capacity, looking on";
/// In microseconds.
const SELF_CHECK: u64 = 1_000_000;
const SELF_CHECK_CLIENTS: u32 = 64;
/// Fewer answers are no throughput: the next attempt is longer, up to this.
const ANSWERS_MIN: f64 = 8.0;
const SLOW_SECONDS_MAX: f64 = 30.0;
/// What limits is looked at for so long, in seconds: processor times come in steps of 10 ms.
const SATURATED: f64 = 2.0;
/// A search that is about to end may take so many times as long as was said.
const OVERTIME: f64 = 1.25;
/// A search that has no time at all still does so much.
const STEPS_AT_LEAST: usize = 4;
