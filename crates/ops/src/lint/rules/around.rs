//! Rules about what stands around a pooler: Kubernetes, Patroni, HAProxy.
//!
//! Always true: what values of a chart leave out is not evaluated, since the chart says it.
//! Not here: the pooler's own configuration.

use crate::facts::{Patroni, Pooler, Program, Proxied, Workload};
use crate::findings::{Groups, Severity, Verdicts};

use super::totals::totals;
use super::{Case, plain, seconds};

/// L28: processes that are killed while clients are still served.
pub(super) fn stop(case: &Case<'_>, workload: &Workload, verdicts: &mut Verdicts<'_>) {
    let name = format!("{} ({})", workload.name, if workload.is_values { "values" } else { "manifest" });
    let sleep = workload.pre_stop.as_deref().and_then(slept);
    match &workload.grace {
        None => verdicts.needs("terminationGracePeriodSeconds: render the chart (helm template)", None),
        Some((grace, at)) => {
            let shown = format!("terminationGracePeriodSeconds = {}", plain(*grace));
            if let Some(sleep) = sleep.filter(|sleep| grace <= sleep) {
                let evidence = format!(
                    "{shown}, and preStop sleeps {} s: the process is killed before it hears the signal",
                    plain(sleep)
                );
                verdicts.fires(at, name.clone(), evidence);
            }
            match drain(case) {
                Some((drain, whose)) if *grace < drain + GRACE_MARGIN + sleep.unwrap_or(0.0) => {
                    let sum = plain(drain + GRACE_MARGIN + sleep.unwrap_or(0.0));
                    let slept = sleep.map_or(String::new(), |sleep| format!(" + {} s of preStop", plain(sleep)));
                    let evidence =
                        format!("{shown} < {whose} {} s{slept} + {} s = {sum} s", plain(drain), plain(GRACE_MARGIN));
                    verdicts.fires(at, name.clone(), evidence);
                }
                Some(_) => {}
                None => verdicts.needs("--drain", Some(shown)),
            }
        }
    }
    if workload.pre_stop.is_some() {
        return;
    }
    match workload.pgbouncer_version.or(case.given.pgbouncer_version) {
        _ if workload.is_values => verdicts.needs("lifecycle.preStop: render the chart (helm template)", None),
        Some(version) if version < GRACEFUL_SIGTERM => {
            let evidence = format!(
                "PgBouncer {}.{} ends at once on SIGTERM, and there is no preStop that sends SIGINT",
                version.0, version.1
            );
            verdicts.fires(&workload.at, name, evidence);
        }
        _ => {
            let evidence =
                "no preStop: clients still connect for the moment until the service has forgotten the process";
            verdicts.fires_as(Severity::Warning, &workload.at, name, evidence);
        }
    }
}

/// L29: replicas that end together.
pub(super) fn apart(case: &Case<'_>, workload: &Workload, verdicts: &mut Verdicts<'_>) {
    let replicas = workload.replicas.as_ref().map(|(replicas, _)| *replicas).or(case.given.replicas);
    let Some(replicas) = replicas else { return verdicts.needs("--replicas", None) };
    if replicas <= 1.0 {
        return;
    }
    let missing = [
        ("a PodDisruptionBudget", workload.has_budget),
        ("podAntiAffinity or topologySpreadConstraints", workload.is_spread),
    ];
    let missing: Vec<&str> = missing.into_iter().filter(|(_, is_there)| !is_there).map(|(what, _)| what).collect();
    if missing.is_empty() {
        return;
    }
    let evidence = format!("{} replicas without {}", plain(replicas), missing.join(", and without "));
    if workload.is_values {
        verdicts.needs("the manifests: render the chart (helm template)", Some(evidence));
    } else {
        verdicts.fires(&workload.at, workload.name.clone(), evidence);
    }
}

/// L30: reads from replicas that may be far behind.
pub(super) fn replica_lag(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    let facts = case.facts;
    let mut groups = Groups::default();
    for pool in facts.poolers.iter().flat_map(Pooler::lent).filter(|pool| pool.is_of_replicas && !pool.has_lag_limit) {
        groups.add(Severity::Warning, &pool.at, &pool.name(), "a route to replicas without a limit of lag".to_owned());
    }
    groups.tell(verdicts);
    let loop_wait = facts.patronis.iter().find_map(|patroni| patroni.loop_wait.as_ref()).map(|(time, _)| *time);
    for proxied in &facts.proxies {
        let Some((path, at)) = proxied.check.as_ref().filter(|(path, _)| is_of_replicas(path)) else { continue };
        match (path.contains("lag="), loop_wait) {
            (false, _) => verdicts.fires(
                at,
                proxied.name.clone(),
                format!("the check {path} has no lag=: a replica that is hours behind is used"),
            ),
            (true, Some(wait)) => {
                let evidence =
                    format!("the check {path} compares positions that are up to loop_wait = {} old", seconds(wait));
                verdicts.fires_as(Severity::Information, at, proxied.name.clone(), evidence);
            }
            (true, None) => verdicts.needs("Patroni's configuration (loop_wait)", Some(format!("the check {path}"))),
        }
    }
    if facts.poolers.is_empty() && facts.proxies.is_empty() {
        verdicts.needs("the configuration of a pooler, or HAProxy's", None);
    }
}

/// L31: Patroni's times, and what keeps an old primary from writing.
pub(super) fn patroni(case: &Case<'_>, patroni: &Patroni, verdicts: &mut Verdicts<'_>) {
    if patroni.ttl.is_none() && patroni.loop_wait.is_none() && patroni.retry_timeout.is_none() {
        verdicts.needs("the dynamic configuration (patronictl show-config)", None);
    } else {
        times(patroni, verdicts);
    }
    if patroni.watchdog.is_some() || case.facts.poolers.iter().any(|pooler| pooler.has_fencing) {
        return;
    }
    match patroni.is_of_member {
        true => verdicts.fires(
            &patroni.at,
            "watchdog.mode",
            "no watchdog, and no pooler beside it that fences: a member whose Patroni has died may write on",
        ),
        false => verdicts.needs("a member's file (watchdog), or a pooler that fences", None),
    }
}

fn times(patroni: &Patroni, verdicts: &mut Verdicts<'_>) {
    let value = |said: &Option<(f64, config::Place)>, default: f64| said.as_ref().map_or(default, |(value, _)| *value);
    let (ttl, wait, retry) =
        (value(&patroni.ttl, 30.0), value(&patroni.loop_wait, 10.0), value(&patroni.retry_timeout, 10.0));
    let at = [&patroni.ttl, &patroni.loop_wait, &patroni.retry_timeout].into_iter().flatten().next();
    let at = at.map_or(&patroni.at, |(_, at)| at);
    let needed = wait + 2.0 * retry;
    if needed > ttl {
        let evidence = format!(
            "loop_wait {} + 2 x retry_timeout {} = {} > ttl {}",
            plain(wait),
            plain(retry),
            plain(needed),
            plain(ttl)
        );
        verdicts.fires(at, "ttl", evidence);
    }
    if ttl < TTL_LEAST {
        verdicts.fires(at, "ttl", format!("ttl {} < {}", plain(ttl), plain(TTL_LEAST)));
    }
}

/// L33: a proxy that closes what the pooler still uses.
pub(super) fn proxy(case: &Case<'_>, proxied: &Proxied, verdicts: &mut Verdicts<'_>) {
    let timeouts = [("timeout client", &proxied.client), ("timeout server", &proxied.server)];
    for (name, said) in timeouts {
        let Some((time, at)) = said else { continue };
        match case.given.longest_transaction {
            Some(longest) if *time < longest => {
                let evidence = format!("{name} {} < the longest transaction of {}", seconds(*time), seconds(longest));
                verdicts.fires(at, proxied.name.clone(), evidence);
            }
            Some(_) => {}
            None => verdicts.needs("--longest-transaction", Some(format!("{name} {}", seconds(*time)))),
        }
    }
    let Some((most, at)) = &proxied.maxconn else { return };
    let totals: Vec<_> = case.facts.poolers.iter().flat_map(|pooler| totals(case, pooler)).collect();
    if totals.is_empty() {
        return verdicts.needs("the configuration of a pooler", Some(format!("maxconn {}", plain(*most))));
    }
    let servers: f64 = totals.iter().map(|total| total.connections.1).sum::<f64>() * case.replicas().unwrap_or(1.0);
    if *most < servers {
        let evidence = format!("maxconn {} < {} servers of the pools", plain(*most), plain(servers));
        verdicts.fires(at, proxied.name.clone(), evidence);
    }
}

/// How long a pooler that is told to stop may take.
fn drain(case: &Case<'_>) -> Option<(f64, &'static str)> {
    if let Some(drain) = case.given.drain {
        return Some((drain, "a drain of"));
    }
    let own = case.facts.poolers.iter().filter(|pooler| pooler.program == Program::Trunkline);
    let limits = own.filter_map(|pooler| pooler.number("shutdown_timeout").filter(|limit| *limit > 0.0));
    limits.reduce(f64::max).map(|limit| (limit, "shutdown_timeout"))
}

/// The seconds of `sleep 15`, or of `sh -c "sleep 15"`.
fn slept(hook: &str) -> Option<f64> {
    let mut words = hook.split(|c: char| c.is_whitespace() || c == ';' || c == '&');
    words.find(|word| word.ends_with("sleep"))?;
    words.find(|word| !word.is_empty())?.trim_end_matches('s').parse().ok().filter(|time: &f64| *time >= 0.0)
}

fn is_of_replicas(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    ["/replica", "/read-only", "/async", "/asynchronous"].contains(&path)
}

/// The time between the end of a drain and the end of the process.
const GRACE_MARGIN: f64 = 15.0;
/// From this version on SIGTERM lets PgBouncer's clients end.
const GRACEFUL_SIGTERM: (u32, u32) = (1, 23);
/// Patroni's documented minimum.
const TTL_LEAST: f64 = 20.0;
