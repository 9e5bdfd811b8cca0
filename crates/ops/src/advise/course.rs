//! The course of an advice: the demand from its source, what the source knows of the server, the advice, its printing.
//!
//! Always true: what the operator says outweighs what a source says. Ctrl-C ends without an advice.
//! Not here: the advice (`advise`), exit statuses of a wrong command line (crate `trunkline`).

use std::fmt;
use std::time::Duration;

use super::options::{AdviseOptions, Format, Source};
use super::rehearsal::{Never, Stage};
use super::terms::Terms;
use super::{Advice, advise, formats, page, sources, words};
use crate::deliver::deliver;
use crate::facts::{self, Demand, Facts};
use crate::simulate::{SimulateError, Spec, SpecSource, demand_of, spec_of};
use crate::trial::Interrupt;

/// Why there is no advice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdviseError {
    /// The command line or the spec is wrong.
    Usage(String),
    /// A file cannot be read or written, or the system refuses something.
    Failed(String),
}

impl fmt::Display for AdviseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl From<SimulateError> for AdviseError {
    fn from(why: SimulateError) -> Self {
        match why {
            SimulateError::Failed(text) => Self::Failed(text),
            SimulateError::Usage(text) => Self::Usage(text),
            SimulateError::Spec(text) => Self::Usage(format!("the spec has mistakes:\n{text}")),
        }
    }
}

/// Prints the advice, and returns the exit status: 0, 1 if no size works, 4 if it was ended early, 5 if too little was observed.
///
/// # Errors
/// There is no advice.
pub fn run(options: &AdviseOptions) -> Result<u8, AdviseError> {
    let interrupt = Interrupt::listen().map_err(|why| AdviseError::Failed(why.to_string()))?;
    let present = options.config.as_deref().map(|path| present(path, &options.terms)).transpose()?;
    let mut said = options.terms.clone();
    if let Some(conninfo) = &options.server {
        sources::of_server(conninfo, &mut said).map_err(|why| AdviseError::Failed(format!("--server: {why}")))?;
    }
    let interval = options.interval.unwrap_or(INTERVAL);
    let observed = match options.sources.first() {
        Some(Source::Simulation(_)) | None => Ok(None),
        Some(Source::Metrics(names)) => sources::of_metrics(names, interval, &interrupt),
        Some(Source::History(path)) => sources::of_history(path).map(Some),
        Some(Source::Console(conninfo)) => {
            sources::of_console(conninfo, interval, &interrupt).map_err(|why| format!("--pooler: {why}"))
        }
    };
    let observed = observed.map_err(AdviseError::Failed)?;
    let advice = match options.sources.first() {
        Some(Source::Simulation(source)) => simulated(source, options, &said, &interrupt)?,
        None => Some(advise(&nothing(), &said, &Never)),
        Some(_) => observed.map(|demand| advise(&demand, &said, &Never)),
    };
    let Some(mut advice) = advice.filter(|_| !interrupt.is_raised()) else { return Ok(ENDED_EARLY) };
    advice.present = present.unwrap_or_default();
    let text = shown(&advice, options)?;
    if let Some(path) = &options.output {
        deliver(Some(path), &page::html(&advice)).map_err(AdviseError::Failed)?;
    }
    deliver(None, &text).map_err(AdviseError::Failed)?;
    Ok(match (advice.is_unknown(), advice.is_impossible()) {
        (true, _) => TOO_LITTLE,
        (false, true) => NO_SIZE_WORKS,
        (false, false) => 0,
    })
}

fn shown(advice: &Advice, options: &AdviseOptions) -> Result<String, AdviseError> {
    let diff = || -> Result<String, AdviseError> {
        options.config.as_deref().map_or(Ok(String::new()), |path| {
            let diff = formats::diff(path, &|name| facts::read(name), &advice.plan());
            diff.map_err(|why| AdviseError::Failed(format!("{path}: {why}")))
        })
    };
    Ok(match options.format {
        Format::Text if options.config.is_some() => {
            let diff = diff()?;
            words::text(advice) + if diff.is_empty() { "" } else { "\n" } + &diff
        }
        Format::Text => words::text(advice),
        Format::Json => formats::json(advice),
        Format::Helm => formats::helm(advice, options.terms.replicas),
        Format::Diff => diff()?,
    })
}

/// The advice for a spec; `None` if it was ended early.
fn simulated(
    source: &SpecSource,
    options: &AdviseOptions,
    said: &Terms,
    interrupt: &Interrupt,
) -> Result<Option<Advice>, AdviseError> {
    let (_, spec) = spec_of(source, &options.values)?;
    Ok(of_spec(&spec, said, options.is_checked, interrupt))
}

/// The advice for a spec, with the sizes around it tried if `is_checked`.
pub(super) fn of_spec(spec: &Spec, said: &Terms, is_checked: bool, interrupt: &Interrupt) -> Option<Advice> {
    let terms = terms_of(spec, said);
    let demand = demand_of(spec, interrupt)?;
    let stage = Stage { spec, interrupt };
    let mut advice = advise(&demand, &terms, &stage);
    if is_checked && !advice.is_unknown() {
        advice.check = Some(stage.apply_check(&advice.plan(), terms.slo)?);
    }
    Some(advice)
}

/// What a spec says of the server, where the operator says nothing.
pub(super) fn terms_of(spec: &Spec, said: &Terms) -> Terms {
    let mut terms = said.clone();
    let server = &spec.server;
    terms.cores = terms.cores.or(server.cores.map(f64::from));
    terms.scalability = terms.scalability.or(server.contention);
    let most = (server.connections_max > 0).then(|| f64::from(server.connections_max));
    terms.max_connections = terms.max_connections.or(most);
    terms.slo = terms.slo.or(spec.knee.p99_max.map(|most| most as f64 / 1e6));
    let can = server.cores.filter(|_| server.login_cpu > 0.0).map(|cores| f64::from(cores) / server.login_cpu);
    terms.login_rate = terms.login_rate.or(can);
    terms.evictions_max = terms.evictions_max.or((spec.knee.churn_max > 0.0).then_some(spec.knee.churn_max));
    terms
}

/// Where nothing was observed.
fn nothing() -> Demand {
    Demand {
        origin: facts::Origin::Derived("no observation".to_owned()),
        pools: Vec::new(),
        seconds: 0.0,
        is_of_one_process: false,
        computing: None,
        sampled: None,
        clients_peak: None,
        notes: vec!["only the configuration was read; a source of demand is needed for sizes".to_owned()],
    }
}

/// What a configuration amounts to, in lines.
pub(super) fn present(path: &str, terms: &Terms) -> Result<Vec<String>, AdviseError> {
    let mut facts = Facts::default();
    facts::read_ini(path, &|name| facts::read(name), None, &mut facts)
        .map_err(|why| AdviseError::Failed(format!("{path}: {why}")))?;
    let mut lines = Vec::new();
    let replicas = terms.replicas();
    let mut total = 0.0;
    for pool in facts.poolers.iter().flat_map(facts::Pooler::lent) {
        let (size, reserve) = (f64::from(pool.size), f64::from(pool.reserve));
        let reach = size + reserve;
        total += reach * replicas;
        lines.push(format!(
            "{}: {replicas} x (pool_size {size} + reserve_pool_size {reserve}) = {} connections for each user; min_pool_size {}",
            pool.name(),
            reach * replicas,
            pool.min
        ));
        if let Some(most) = pool.servers_max.filter(|most| *most > 0 && f64::from(*most) > reach) {
            lines.push(format!(
                "{}: max_db_connections {most} cannot bind with one user: {size} + {reserve} = {reach} is the most",
                pool.name()
            ));
        }
    }
    lines.push(format!("all databases, with one user each: {total} connections to the server"));
    Ok(lines)
}

/// A minute, as dashboards have it.
const INTERVAL: Duration = Duration::from_secs(60);
const NO_SIZE_WORKS: u8 = 1;
const ENDED_EARLY: u8 = 4;
const TOO_LITTLE: u8 = 5;
