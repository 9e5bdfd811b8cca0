//! Rules about the sizes of pools.
//!
//! Always true: the number of users of a database is what was given, or one if the file forces a user; otherwise the rule says from how many
//! users on it would fire.
//! Not here: limits of clients (`limits`).

use config::Place;

use crate::facts::{PoolTerms, Pooler, Program};
use crate::findings::{Groups, Severity, Verdicts};

use super::totals::{Total, totals};
use super::{Case, plain, span};

/// L01: minimum pools of several users that do not fit under the limit of their database.
pub(super) fn minimum_above_cap(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut groups = Groups::default();
    let severity = match (pooler.program, case.given.pgbouncer_version) {
        (Program::Pgbouncer, None) => Severity::Error,
        (Program::Pgbouncer, Some(version)) if version < NO_EVICTION_FOR_MINIMUM => Severity::Error,
        _ => Severity::Warning,
    };
    for (pool, cap) in capped(pooler).filter(|(pool, _)| pool.min > 0) {
        let min = f64::from(pool.min);
        let Some((low, high)) = case.users(pool).or((min > cap).then_some((1.0, 1.0))) else {
            let enough = plain((cap / min).floor() + 1.0);
            let known = format!(
                "min_pool_size {} under max_db_connections {}: {enough} users are too many",
                pool.min,
                plain(cap)
            );
            verdicts.needs(TENANTS, Some(known));
            continue;
        };
        if high * min > cap {
            let sum = span((low * min, high * min));
            let evidence = format!(
                "{} x min_pool_size {} = {sum} servers that are to stay open, and max_db_connections is {}",
                users(low, high),
                pool.min,
                plain(cap)
            );
            groups.add(severity, &cap_at(pooler, cap, pool), &pool.name(), evidence);
        }
    }
    groups.tell(verdicts);
}

/// L02: pools that together want several times what their database may have.
pub(super) fn overcommitted(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut groups = Groups::default();
    for (pool, cap) in capped(pooler).filter(|(pool, _)| pool.size > 0) {
        let size = f64::from(pool.size);
        let Some((low, high)) = case.users(pool) else {
            let enough = plain((OVERCOMMIT_MAX * cap / size).floor() + 1.0);
            let known =
                format!("pool_size {} under max_db_connections {}: {enough} users are too many", pool.size, plain(cap));
            verdicts.needs(TENANTS, Some(known));
            continue;
        };
        if high * size / cap > OVERCOMMIT_MAX {
            let ratio = span((low * size / cap, high * size / cap));
            let evidence = format!(
                "{} x pool_size {} / max_db_connections {} = {ratio} times",
                users(low, high),
                pool.size,
                plain(cap)
            );
            groups.add(Severity::Warning, &cap_at(pooler, cap, pool), &pool.name(), evidence);
        }
    }
    groups.tell(verdicts);
}

/// L03: few servers for each tenant.
pub(super) fn few_for_each_tenant(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut groups = Groups::default();
    for (pool, cap) in capped(pooler).filter(|(pool, _)| pool.user.is_none()) {
        let Some((low, high)) = case.given.tenants else {
            let enough = plain((cap / TENANT_SERVERS_WANTED).floor() + 1.0);
            verdicts.needs(TENANTS, Some(format!("max_db_connections {}: {enough} tenants are too many", plain(cap))));
            continue;
        };
        let worst = cap / high;
        if worst < TENANT_SERVERS_WANTED && high > 1.0 {
            let severity = if worst < TENANT_SERVERS_LEAST { Severity::Error } else { Severity::Warning };
            let each = span((worst, cap / low));
            let evidence = format!(
                "max_db_connections {} / {} = {each} servers for each (wanted 2.5, least 1.5, as long as nobody has measured the demand)",
                plain(cap),
                users(low, high)
            );
            groups.add(severity, &cap_at(pooler, cap, pool), &pool.name(), evidence);
        }
    }
    groups.tell(verdicts);
}

/// L04: more connections than PostgreSQL has.
pub(super) fn above_max_connections(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut groups = Groups::default();
    for total in totals(case, pooler) {
        if let Some(name) = &total.unlimited {
            let evidence = format!("{name} has no limit of servers: pool_size is 0, and so is max_db_connections");
            groups.add(Severity::Error, &total.at, &total.server, evidence);
            continue;
        }
        let replicas = case.replicas().unwrap_or(1.0);
        let all = (total.connections.0 * replicas, total.connections.1 * replicas);
        let sum = told(case.replicas(), &total, all);
        match budget(case) {
            Some((budget, terms)) if all.1 > budget => {
                groups.add(Severity::Error, &total.at, &total.server, format!("{sum}, and PostgreSQL has {terms}"));
            }
            Some((_, terms)) if case.replicas().is_none() => {
                verdicts.needs("--replicas", Some(format!("{sum}; PostgreSQL has {terms}")));
            }
            Some((_, terms)) if total.is_lower_bound => {
                verdicts.needs(TENANTS, Some(format!("{sum}; PostgreSQL has {terms}")));
            }
            Some(_) => {}
            None if case.replicas().is_none() => verdicts.needs("--max-connections, --replicas", Some(sum)),
            None => verdicts.needs("--max-connections", Some(sum)),
        }
    }
    groups.tell(verdicts);
}

/// L36: a rolling deployment, in which old and new processes have their pools at once.
pub(super) fn doubled_by_a_rollout(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut groups = Groups::default();
    for total in totals(case, pooler).into_iter().filter(|total| total.unlimited.is_none()) {
        let Some(replicas) = case.replicas() else {
            let twice = span((2.0 * total.connections.0, 2.0 * total.connections.1));
            let known = format!("2 x {} = {twice} for each process that is replaced", total.terms);
            verdicts.needs("--max-connections, --replicas", Some(known));
            continue;
        };
        let once = (total.connections.0 * replicas, total.connections.1 * replicas);
        let twice = (once.0 * 2.0, once.1 * 2.0);
        let at_least = if total.is_lower_bound { "at least " } else { "" };
        let sum = format!("2 x {} x {} = {at_least}{} connections", plain(replicas), total.terms, span(twice));
        match budget(case) {
            // L04 says it already.
            Some((budget, _)) if once.1 > budget => {}
            Some((budget, terms)) if twice.1 > budget => {
                groups.add(Severity::Warning, &total.at, &total.server, format!("{sum}, and PostgreSQL has {terms}"));
            }
            Some(_) => {}
            None => verdicts.needs("--max-connections", Some(sum)),
        }
    }
    groups.tell(verdicts);
}

/// L05: a limit that can never bind.
pub(super) fn never_binds(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut groups = Groups::default();
    for (pool, cap) in capped(pooler) {
        let Some(reach) = pool.reach() else { continue };
        let sum = format!("pool_size {} + reserve_pool_size {} = {reach}", pool.size, pool.reserve);
        let reach = reach as f64;
        let wanted = plain((cap / reach).ceil());
        let evidence = match case.users(pool) {
            Some((_, high)) if high * reach < cap => {
                format!(
                    "max_db_connections {} can never bind: {} x ({sum}) = {} is the most",
                    plain(cap),
                    users(high, high),
                    plain(high * reach)
                )
            }
            Some(_) => continue,
            None if cap > LIMIT_FAR_AWAY * reach => format!(
                "max_db_connections {} can never bind with one user: {sum} is the most; only {wanted} users of one database reach it",
                plain(cap)
            ),
            None => {
                let known = format!("max_db_connections {} binds from {wanted} users on ({sum} each)", plain(cap));
                verdicts.needs(TENANTS, Some(known));
                continue;
            }
        };
        groups.add(Severity::Information, &cap_at(pooler, cap, pool), &pool.name(), evidence);
    }
    groups.tell(verdicts);
    user_limit_never_binds(pooler, verdicts);
    client_limits_never_bind(pooler, verdicts);
}

fn user_limit_never_binds(pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(most) = pooler.number("max_user_connections").filter(|most| *most > 0.0) else { return };
    let is_open_ended = pooler.lent().any(|pool| &*pool.database == "*");
    let reach = pooler.lent().map(PoolTerms::reach).try_fold(0, |sum, reach| Some(sum + reach?));
    let Some(reach) = reach.map(|reach| reach as f64).filter(|reach| !is_open_ended && *reach < most) else { return };
    let evidence = format!(
        "max_user_connections {} can never bind: the pools of one user in {} have {} servers at most",
        plain(most),
        counted(pooler.lent().count(), "database"),
        plain(reach)
    );
    verdicts.fires(&pooler.at("max_user_connections"), "max_user_connections", evidence);
}

fn client_limits_never_bind(pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(all) = pooler.number("max_client_conn").filter(|all| *all > 0.0) else { return };
    for name in ["max_db_client_connections", "max_user_client_connections"] {
        if let Some(most) = pooler.number(name).filter(|most| *most > 0.0 && *most >= all) {
            let evidence = format!("{name} {} can never bind below max_client_conn {}", plain(most), plain(all));
            verdicts.fires(&pooler.at(name), name, evidence);
        }
    }
}

/// L34: pools so small that each process has a server or none.
pub(super) fn fragmented(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut groups = Groups::default();
    let is_shared_port = pooler.number("so_reuseport").is_some_and(|flag| flag > 0.0);
    for pool in pooler.lent().filter(|pool| pool.size == 1) {
        match case.replicas() {
            Some(replicas) if replicas > 1.0 => {
                let evidence = format!(
                    "{} processes with a pool of 1 server each: a client cannot use the others' idle ones",
                    plain(replicas)
                );
                groups.add(Severity::Information, &pool.at, &pool.name(), evidence);
            }
            None if is_shared_port => {
                let evidence = "so_reuseport = 1: several processes with a pool of 1 server each".to_owned();
                groups.add(Severity::Information, &pool.at, &pool.name(), evidence);
            }
            None => verdicts.needs("--replicas", None),
            Some(_) => {}
        }
    }
    groups.tell(verdicts);
}

/// L37: minimum pools of one user in several databases that do not fit under the limit of the user.
pub(super) fn minimum_above_user_cap(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(most) = pooler.number("max_user_connections").filter(|most| *most > 0.0) else { return };
    let mut sums = std::collections::BTreeMap::<&str, (f64, usize, &PoolTerms)>::new();
    for pool in pooler.lent().filter(|pool| pool.min > 0) {
        let Some(user) = &pool.user else {
            verdicts.needs("the users of each database: user= in [databases]", None);
            continue;
        };
        let sum = sums.entry(user).or_insert((0.0, 0, pool));
        sum.0 += f64::from(pool.min);
        sum.1 += 1;
    }
    let mut groups = Groups::default();
    for (user, (sum, count, pool)) in sums.into_iter().filter(|(_, (sum, ..))| *sum > most) {
        let evidence = format!(
            "min_pool_size of {} = {} servers that are to stay open, and max_user_connections is {}",
            counted(count, "database"),
            plain(sum),
            plain(most)
        );
        groups.add(Severity::Error, &pool.at, &format!("user {user}"), evidence);
    }
    groups.tell(verdicts);
}

fn capped(pooler: &Pooler) -> impl Iterator<Item = (&PoolTerms, f64)> {
    pooler.lent().filter_map(|pool| Some((pool, f64::from(pool.servers_max.filter(|most| *most > 0)?))))
}

/// Where the limit of a database was set: for all of them, or in its own line.
fn cap_at(pooler: &Pooler, cap: f64, pool: &PoolTerms) -> Place {
    let at = pooler.at("max_db_connections");
    let is_for_all = at.line > 0 && pooler.number("max_db_connections").is_some_and(|most| (most - cap).abs() < 0.5);
    if is_for_all { at } else { pool.at.clone() }
}

/// What PostgreSQL has for poolers, and how that comes about.
fn budget(case: &Case<'_>) -> Option<(f64, String)> {
    let given = case.given;
    let (all, reserved, direct) =
        (given.max_connections?, given.reserved.unwrap_or(RESERVED), given.direct.unwrap_or(0.0));
    let budget = all - reserved - direct;
    let terms = format!(
        "{} (max_connections {} - {} reserved - {} direct)",
        plain(budget.max(0.0)),
        plain(all),
        plain(reserved),
        plain(direct)
    );
    Some((budget, terms))
}

fn told(replicas: Option<f64>, total: &Total, all: (f64, f64)) -> String {
    let at_least = if total.is_lower_bound { "at least " } else { "" };
    match replicas {
        Some(replicas) => {
            format!("{} processes x {} = {at_least}{} connections", plain(replicas), total.terms, span(all))
        }
        None => format!("{} = {at_least}{} connections for each process", total.terms, span(all)),
    }
}

fn users(low: f64, high: f64) -> String {
    if high < 1.5 { "1 user".to_owned() } else { format!("{} users", span((low, high))) }
}

fn counted(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

const TENANTS: &str = "--tenants";
/// Beyond this, pools wait for each other rather than for their own servers.
const OVERCOMMIT_MAX: f64 = 2.0;
/// Where Mattermost's disconnections ended, and half a connection less than its lower bound.
const TENANT_SERVERS_WANTED: f64 = 2.5;
const TENANT_SERVERS_LEAST: f64 = 1.5;
/// A limit of so many pools was hardly meant for one.
const LIMIT_FAR_AWAY: f64 = 4.0;
/// PostgreSQL's default of `superuser_reserved_connections`.
const RESERVED: f64 = 3.0;
/// From this version on PgBouncer closes no other pool's server for a minimum.
const NO_EVICTION_FOR_MINIMUM: (u32, u32) = (1, 18);
