//! Rules that need the pooler's console.
//!
//! Always true: one console is one process; how many processes there are is known only if it is given.
//! Not here: the division of time (`doctor/division`).

use std::collections::{BTreeMap, BTreeSet};

use crate::doctor::division::divide;
use crate::facts::{Backend, Console, Observed, PoolUsage, Record, amount, word};
use crate::findings::{Groups, Severity, Verdicts};

use super::transactions::who;
use super::{Case, at, counted, judged, listed, percent, plain, time};

/// D20: clients wait for a pool that is too small.
pub(super) fn too_small(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let total = case.pooler()?.total()?;
        if total.transactions < TRANSACTIONS_MIN {
            return Err(format!("more load: {} transactions in this time", plain(total.transactions)));
        }
        let division = divide(Some(&total), None, None).ok_or("time that transactions took")?;
        let share = division.waiting / division.total();
        if share <= WAIT_SHARE_MAX {
            return Ok(());
        }
        let (waits, cores) = (case.waits()?, case.cores()?);
        let running = waits.of_type("") / waits.samples.max(1) as f64;
        if running < BUSY_SHARE_MAX * cores {
            let evidence = format!(
                "clients waited {} of their time for a server; {} of {} processors ran statements",
                percent(share),
                plain(running),
                plain(cores)
            );
            verdicts.fires(&at("pooler"), "pool_size", evidence);
        }
        Ok(())
    });
}

/// D21: a pool is never half used.
pub(super) fn too_large(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let console = case.pooler()?;
        let databases = console.databases.as_ref().map_err(String::clone)?;
        let sizes: BTreeMap<String, f64> =
            databases.iter().filter_map(|row| Some((word(row, "name"), amount(row, "pool_size")?))).collect();
        let size = |database: &str| sizes.get(database).copied().filter(|size| *size > 0.0);
        let used = |row: &Record| {
            let name = word(row, "database");
            let size = size(&name)?;
            Some(format!("{name} {} of {}", plain(amount(row, "sv_active").unwrap_or(0.0)), plain(size)))
        };
        let now: Vec<String> = console.pools.as_ref().map_err(String::clone)?.iter().filter_map(used).collect();
        let known = (!now.is_empty()).then(|| format!("in use now: {}", listed(now)));
        let usage = match &case.seen.history {
            Ok(usage) if usage.seconds >= WEEK && usage.gap <= DAY && usage.readings >= READINGS_MIN => usage,
            Ok(PoolUsage { seconds, readings, gap, .. }) => {
                verdicts.needs(
                    format!(
                        "a history of 7 days with a reading an hour (there are {readings} in {}, up to {} apart)",
                        time(*seconds),
                        time(*gap)
                    ),
                    known,
                );
                return Ok(());
            }
            Err(why) => {
                verdicts.needs(why, known);
                return Ok(());
            }
        };
        let mut groups = Groups::default();
        for ((database, user), peak) in &usage.peaks {
            let Some(size) = size(database).filter(|size| *peak < HALF * size) else { continue };
            let evidence = format!(
                "pool {database}/{user}: at most {} of {} servers were at work at {} readings in {}",
                plain(*peak),
                plain(size),
                plain(usage.readings as f64),
                time(usage.seconds)
            );
            groups.add(Severity::Warning, &at("pooler"), &format!("{database}/{user}"), evidence);
        }
        groups.tell(verdicts);
        Ok(())
    });
}

/// `pool_size` and `reserve_pool_size` of each database together, and what each may have.
fn sizes(console: &Console) -> Observed<BTreeMap<String, f64>> {
    let databases = console.databases.as_ref().map_err(String::clone)?;
    let reserve = |row: &Record| amount(row, "reserve_pool_size").or(amount(row, "reserve_pool")).unwrap_or(0.0);
    let size = |row: &Record| Some((word(row, "name"), amount(row, "pool_size")? + reserve(row)));
    Ok(databases.iter().filter(|row| word(row, "name") != CONSOLE).filter_map(size).collect())
}

/// D22: max_connections is larger than needed.
pub(super) fn unneeded(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let most = server.number("max_connections")?;
        let reserved =
            server.number("superuser_reserved_connections")? + server.number("reserved_connections").unwrap_or(0.0);
        let console = case.pooler()?;
        let pools = console.pools.as_ref().map_err(String::clone)?;
        let sizes = sizes(console)?;
        let pools: f64 = pools.iter().filter_map(|row| sizes.get(&word(row, "database"))).sum();
        let known = format!("{} servers in the pools that there are", plain(pools));
        let (Some(replicas), Some(direct)) = (case.given.replicas, case.given.direct) else {
            verdicts.needs("--replicas and --direct", Some(known));
            return Ok(());
        };
        let unused = most - pools * replicas - direct - reserved;
        if unused > UNUSED_SHARE_MAX * most {
            let evidence = format!(
                "max_connections {} - {} x {} in pools - {} direct - {} reserved = {} unused",
                plain(most),
                plain(replicas),
                plain(pools),
                plain(direct),
                plain(reserved),
                plain(unused)
            );
            verdicts.fires(&at("server"), "max_connections", evidence);
        }
        Ok(())
    });
}

/// D23: sessions bypass the pooler.
pub(super) fn direct(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let servers = case.pooler()?.servers.as_ref().map_err(String::clone)?;
        let pids: BTreeSet<u32> = servers.iter().filter_map(|row| word(row, "remote_pid").parse().ok()).collect();
        let activity = server.activity.as_ref().map_err(String::clone)?;
        let is_pooled = |one: &&Backend| pids.contains(&one.pid);
        let homes: BTreeSet<&str> =
            activity.iter().filter(is_pooled).filter_map(|one| one.address.as_deref()).collect();
        if pids.is_empty() {
            return Err("a server connection of the pooler, by which its sessions are known".to_owned());
        }
        // Another process of the pooler has the same address; on one machine everybody has it.
        let is_direct = |one: &&Backend| {
            let is_client = one.kind.as_deref() == Some("client backend") && !one.is_own && !pids.contains(&one.pid);
            is_client && !one.address.as_deref().is_some_and(|address| homes.contains(address) && !is_loopback(address))
        };
        let direct: Vec<&Backend> = activity.iter().filter(is_direct).collect();
        let most = case.given.direct.unwrap_or(0.0);
        if direct.len() as f64 > most {
            let evidence = format!(
                "{}, of which {} may: {}",
                counted(direct.len(), "session"),
                plain(most),
                listed(direct.iter().map(|one| who(one)))
            );
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

fn is_loopback(address: &str) -> bool {
    address.starts_with("127.") || address == "::1"
}

/// D26: an advisory lock is stranded on a pooled connection.
pub(super) fn stranded_locks(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let locks = case.server()?.advisory.as_ref().map_err(String::clone)?;
        let idle: Vec<_> = locks.iter().filter(|lock| lock.state.as_deref() == Some("idle")).collect();
        if idle.is_empty() {
            return Ok(());
        }
        let console = match case.pooler() {
            Ok(console) => console,
            Err(why) => {
                let holders = idle
                    .iter()
                    .map(|lock| format!("pid {} ({})", lock.pid, lock.application.as_deref().unwrap_or_default()));
                let known =
                    format!("{} held by idle sessions: {}", counted(idle.len(), "advisory lock"), listed(holders));
                verdicts.needs(why, Some(known));
                return Ok(());
            }
        };
        for lock in idle {
            let Some(row) = console.server(lock.pid)? else { continue };
            // A server that a client has, in session mode or pinned, holds the lock for that client.
            if !word(row, "link").is_empty() || word(row, "state") == "active" {
                continue;
            }
            let name = Some(word(row, "ptr")).filter(|name| !name.is_empty()).unwrap_or_default();
            let evidence = format!(
                "lock ({}) {} on the idle server {name} of pool {}/{}, pid {}, which no client has, for {} or longer",
                lock.key,
                lock.mode,
                word(row, "database"),
                word(row, "user"),
                lock.pid,
                time(lock.state_age.unwrap_or(0.0))
            );
            verdicts.fires(
                &at(&format!("database {}", lock.database.as_deref().unwrap_or_default())),
                &*lock.key,
                evidence,
            );
        }
        Ok(())
    });
}

/// D30: a role or database has fewer connections than its pool.
pub(super) fn role_limits(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let (server, console) = (case.server()?, case.pooler()?);
        let sizes = sizes(console)?;
        let replicas = case.given.replicas.unwrap_or(1.0);
        let (roles, databases) =
            (server.roles.as_ref().map_err(String::clone)?, server.databases.as_ref().map_err(String::clone)?);
        let pools = console.pools.as_ref().map_err(String::clone)?;
        let names = console.databases.as_ref().map_err(String::clone)?;
        let name_of =
            |alias: &str| names.iter().find(|row| word(row, "name") == alias).map(|row| word(row, "database"));
        let mut by_role = BTreeMap::<String, f64>::new();
        let mut by_database = BTreeMap::<String, f64>::new();
        for row in pools {
            let alias = word(row, "database");
            let Some(size) = sizes.get(&alias) else { continue };
            *by_role.entry(word(row, "user")).or_default() += size * replicas;
            *by_database.entry(name_of(&alias).unwrap_or(alias)).or_default() += size * replicas;
        }
        let limits = roles.iter().map(|role| ("role", &role.name, role.limit, by_role.get(&role.name)));
        let limits =
            limits.chain(databases.iter().map(|one| ("database", &one.name, one.limit, by_database.get(&one.name))));
        for (kind, name, limit, wanted) in limits {
            let Some(wanted) = wanted.filter(|wanted| limit >= 0 && (limit as f64) < **wanted) else { continue };
            let evidence = format!("{kind} {name} may have {limit} connections, its pools {}", plain(*wanted));
            verdicts.fires(&at("server"), &**name, evidence);
        }
        Ok(())
    });
}

/// D46: the pooler may close quiet replication.
pub(super) fn replication_idle(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let (server, console) = (case.server()?, case.pooler()?);
        let servers = console.servers.as_ref().map_err(String::clone)?;
        let is_replication = |row: &&Record| !matches!(&*word(row, "replication"), "" | "none");
        if !servers.iter().any(|row| is_replication(&row)) {
            return Ok(());
        }
        let timeout = server.number("wal_sender_timeout")?;
        let quiet = if timeout > 0.0 { timeout / 2.0 } else { f64::INFINITY };
        for name in ["client_idle_timeout", "query_timeout"] {
            let limit = console.setting(name)?;
            if limit > 0.0 && limit < quiet {
                let sender = if timeout > 0.0 { time(timeout) } else { "0".to_owned() };
                verdicts.fires(&at("pooler"), name, format!("{name} = {}, wal_sender_timeout = {sender}", time(limit)));
            }
        }
        Ok(())
    });
}

/// The console's own database.
const CONSOLE: &str = "pgbouncer";
/// Transactions below which a share says nothing.
const TRANSACTIONS_MIN: f64 = 100.0;
const WAIT_SHARE_MAX: f64 = 0.2;
const HALF: f64 = 0.5;
const DAY: f64 = 86_400.0;
const WEEK: f64 = 7.0 * DAY;
/// One an hour for a week.
const READINGS_MIN: usize = 168;
const BUSY_SHARE_MAX: f64 = 0.5;
const UNUSED_SHARE_MAX: f64 = 0.3;
