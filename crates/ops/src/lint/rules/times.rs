//! Rules about times.
//!
//! Always true: a time of 0 that means "no limit" is not compared as a short one.
//! Not here: how long a shutdown may take (`around`).

use pool::Mode;

use crate::facts::{Pooler, Program};
use crate::findings::{Groups, Severity, Verdicts};

use super::{Case, DAY, plain, seconds};

/// L10: a reset after every transaction.
pub(super) fn reset_always(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let is_forced = pooler.number("server_reset_query_always").is_some_and(|flag| flag > 0.0);
    let is_shared = pooler.lent().any(|pool| pool.mode != Mode::Session);
    if is_forced && is_shared {
        let evidence =
            format!("{}: one more round trip for each transaction", pooler.shown("server_reset_query_always"));
        verdicts.fires(&pooler.at("server_reset_query_always"), "server_reset_query_always", evidence);
    }
}

/// L11: clients that wait longer for a server than anybody waits for them.
pub(super) fn query_wait(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut groups = Groups::default();
    let mut longest = 0.0_f64;
    for pool in pooler.lent() {
        let Some(wait) = pool.wait_max.map(|wait| wait.as_secs_f64()) else {
            let evidence = "query_wait_timeout = 0: a client waits for a server without limit".to_owned();
            groups.add(Severity::Warning, &pool.at, &pool.name(), evidence);
            continue;
        };
        longest = longest.max(wait);
        let client = case.given.client_timeout.filter(|client| wait > *client);
        let evidence = match client {
            Some(client) => {
                format!("query_wait_timeout = {}, and clients give up after {}", seconds(wait), seconds(client))
            }
            None if wait > WAIT_MAX => format!("query_wait_timeout = {}, above {}", seconds(wait), seconds(WAIT_MAX)),
            None => continue,
        };
        groups.add(Severity::Warning, &pool.at, &pool.name(), evidence);
    }
    if case.given.client_timeout.is_none() && longest > 0.0 && groups.is_empty() {
        verdicts.needs("--client-timeout", Some(format!("query_wait_timeout is {} at most", seconds(longest))));
    }
    groups.tell(verdicts);
}

/// L12: a pause after a failed login that lengthens each failover.
pub(super) fn login_retry(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(pause) = pooler.number("server_login_retry").filter(|pause| *pause > 0.0) else { return };
    let (at, shown) = (pooler.at("server_login_retry"), pooler.shown("server_login_retry"));
    let several = pooler.lent().find(|pool| pool.hosts > 1 && !pool.is_clustered);
    match (several, case.given.failover_budget) {
        (Some(pool), budget) if pause > budget.map_or(LOGIN_RETRY_MAX, |budget| budget / 2.0) => {
            let evidence = format!(
                "{shown}, and {} has {} hosts: each switch takes up to {} longer",
                pool.name(),
                pool.hosts,
                seconds(pause)
            );
            verdicts.fires(&at, "server_login_retry", evidence);
        }
        (None, Some(budget)) if pause > budget / 2.0 => {
            let evidence = format!("{shown}, and a failover may take {}", seconds(budget));
            verdicts.fires(&at, "server_login_retry", evidence);
        }
        (None, None) if pooler.lent().any(|pool| !pool.is_clustered) => {
            verdicts.needs("--failover-budget", Some(shown))
        }
        _ => {}
    }
}

/// L13: a connect timeout that leaves nobody to connect for.
pub(super) fn connect_timeout(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(limit) = pooler.number("server_connect_timeout") else { return };
    let (at, shown) = (pooler.at("server_connect_timeout"), pooler.shown("server_connect_timeout"));
    let limit = if limit > 0.0 { limit } else { f64::INFINITY };
    match case.given.client_connect_timeout {
        Some(client) if limit >= client => {
            let evidence = format!("{shown}, and clients give up connecting after {}", seconds(client));
            verdicts.fires(&at, "server_connect_timeout", evidence);
        }
        Some(_) => {}
        None => verdicts.needs("--client-connect-timeout", Some(shown.clone())),
    }
    match case.given.failover_budget {
        Some(budget) if limit > budget / 2.0 => {
            let evidence = format!(
                "{shown}: one attempt to reach a dead host takes more than half of the {} of a failover",
                seconds(budget)
            );
            verdicts.fires(&at, "server_connect_timeout", evidence);
        }
        Some(_) => {}
        None => verdicts.needs("--failover-budget", None),
    }
}

/// L14: connections whose other end may be gone for hours.
pub(super) fn keepalive(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(keepalive) = pooler.number("tcp_keepalive") else { return };
    let idle = pooler.number("tcp_keepidle").unwrap_or(0.0);
    let unacknowledged = pooler.number("tcp_user_timeout").unwrap_or(0.0);
    let is_idle_noticed = keepalive > 0.0 && idle > 0.0 && idle < SYSTEM_KEEPIDLE;
    if is_idle_noticed || unacknowledged > 0.0 {
        return;
    }
    if keepalive > 0.0 && idle > 0.0 {
        let evidence = format!("keepalive probes begin after {}, and tcp_user_timeout = 0", seconds(idle));
        return verdicts.fires(&pooler.at("tcp_keepidle"), "tcp_keepidle", evidence);
    }
    let (name, evidence) = if keepalive > 0.0 {
        (
            "tcp_keepidle",
            "tcp_keepidle = 0 and tcp_user_timeout = 0: the system's 7,200 s of idleness, and about 924 s for data without acknowledgement",
        )
    } else {
        (
            "tcp_keepalive",
            "tcp_keepalive = 0 and tcp_user_timeout = 0: an idle connection is never tested, and data without acknowledgement waits about 924 s",
        )
    };
    verdicts.fires(&pooler.at(name), name, evidence);
}

/// L15: servers that are opened and closed too often, or live too long.
pub(super) fn lifetimes(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    if let Some(life) = pooler.number("server_lifetime").filter(|life| *life >= DAY) {
        let evidence =
            format!("server_lifetime = {}: a backend's page tables grow up to shared_buffers / 512", seconds(life));
        verdicts.fires(&pooler.at("server_lifetime"), "server_lifetime", evidence);
    }
    if pooler.number("server_lifetime").is_some_and(|life| life < 1.0) && pooler.program != Program::Odyssey {
        let evidence = format!("{}: each server is closed after its first loan", pooler.shown("server_lifetime"));
        verdicts.fires(&pooler.at("server_lifetime"), "server_lifetime", evidence);
    }
    let Some(idle) = pooler.number("server_idle_timeout").filter(|idle| *idle > 0.0) else { return };
    match case.given.gap {
        Some(gap) if idle < gap => {
            let evidence = format!(
                "{}, and a server is used every {}: it is opened anew each time",
                pooler.shown("server_idle_timeout"),
                seconds(gap)
            );
            verdicts.fires(&pooler.at("server_idle_timeout"), "server_idle_timeout", evidence);
        }
        Some(_) => {}
        None => verdicts.needs("--gap", Some(pooler.shown("server_idle_timeout"))),
    }
}

/// L16: a reserve that comes too late, or never.
pub(super) fn reserve(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(delay) = pooler.number("reserve_pool_timeout") else { return };
    let Some(pool) = pooler.lent().find(|pool| pool.reserve_written > 0) else { return };
    let (at, name) = (pooler.at("reserve_pool_timeout"), "reserve_pool_timeout");
    if delay <= 0.0 {
        let evidence = format!("reserve_pool_size {}, and reserve_pool_timeout = 0 disables it", pool.reserve_written);
        return verdicts.fires(&at, name, evidence);
    }
    match case.given.slo {
        Some(slo) if delay > slo / 2.0 => {
            let evidence = format!(
                "{}, and applications expect an answer within {} s: half of that is {} s",
                pooler.shown(name),
                plain(slo),
                plain(slo / 2.0)
            );
            verdicts.fires(&at, name, evidence);
        }
        Some(_) => {}
        None => {
            verdicts.needs("--slo", Some(format!("{} with a reserve of {}", pooler.shown(name), pool.reserve_written)))
        }
    }
}

/// The system's time of idleness before the first probe.
const SYSTEM_KEEPIDLE: f64 = 7_200.0;
/// PgBouncer's default; longer is longer than a browser waits.
const WAIT_MAX: f64 = 120.0;
/// Without a budget for failovers: a pause of this length is hardly noticed.
const LOGIN_RETRY_MAX: f64 = 2.0;
