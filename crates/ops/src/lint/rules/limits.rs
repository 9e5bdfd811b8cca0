//! Rules about clients, files and memory.
//!
//! Always true: a limit of the machine is what was given.
//! Not here: the sizes of pools (`pools`).

use pool::Mode;

use crate::facts::{PoolTerms, Pooler, Program};
use crate::findings::{Groups, Severity, Verdicts};

use super::totals::totals;
use super::{Case, plain};

/// L06: more sockets than the process may open.
pub(super) fn open_files(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(clients) = pooler.number("max_client_conn").filter(|clients| *clients > 0.0) else {
        return verdicts.needs("a limit of clients (max_client_conn, client_max)", None);
    };
    let totals = totals(case, pooler);
    if let Some(total) = totals.iter().find(|total| total.unlimited.is_some()) {
        let what = format!("a limit of servers for {}", total.unlimited.as_deref().unwrap_or_default());
        return verdicts.needs(what, None);
    }
    let servers: f64 = totals.iter().map(|total| total.connections.1).sum();
    let wanted = clients + servers + OPEN_FILES_MARGIN;
    let at_least = if totals.iter().any(|total| total.is_lower_bound) { "at least " } else { "" };
    let sum = format!(
        "max_client_conn {} + {} servers + {} for listeners, logs and cancel requests = {at_least}{}",
        plain(clients),
        plain(servers),
        plain(OPEN_FILES_MARGIN),
        plain(wanted)
    );
    match case.given.open_files {
        Some(most) if wanted > most => {
            verdicts.fires(
                &pooler.at("max_client_conn"),
                "max_client_conn",
                format!("{sum}; the process may open {}", plain(most)),
            );
        }
        Some(_) => {}
        None => verdicts.needs("--open-files", Some(sum)),
    }
}

/// L07: one tenant may take every client connection.
pub(super) fn no_client_cap(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    if pooler.has_user_client_limit {
        return;
    }
    let uncapped = pooler.lent().filter(|pool| pool.clients_max.is_none_or(|most| most == 0));
    let names: Vec<String> = uncapped.take(2).map(PoolTerms::name).collect();
    let count = pooler.lent().count();
    let is_many = count > 1 || pooler.lent().any(|pool| &*pool.database == "*");
    let is_many = is_many || case.given.tenants.is_some_and(|(_, high)| high > 1.0);
    let Some(first) = names.first() else { return };
    if !is_many {
        return verdicts
            .needs("--tenants", Some("one database without a limit of clients for it or for a user".to_owned()));
    }
    let all = match pooler.number("max_client_conn").filter(|all| *all > 0.0) {
        Some(all) => format!("all {} of max_client_conn", plain(all)),
        None => "any number".to_owned(),
    };
    let evidence = format!("neither a database nor a user has a limit of clients: {first} may have {all}");
    verdicts.fires(&pooler.at("max_client_conn"), "max_client_conn", evidence);
}

/// L08: sessions that wait for ever for a server.
pub(super) fn sessions_wait(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let all = pooler.number("max_client_conn").filter(|all| *all > 0.0).unwrap_or(f64::INFINITY);
    let mut groups = Groups::default();
    for pool in pooler.lent().filter(|pool| pool.mode == Mode::Session && pool.wait_max.is_none()) {
        let Some(reach) = pool.reach().map(|reach| reach as f64) else { continue };
        let clients = pool.clients_max.filter(|most| *most > 0).map_or(all, f64::from);
        if clients > reach {
            let clients = if clients.is_finite() { plain(clients) } else { "unlimited".to_owned() };
            let evidence = format!(
                "pool_mode = session: {clients} clients for {} servers, and a client waits without limit",
                plain(reach)
            );
            groups.add(Severity::Warning, &pool.at, &pool.name(), evidence);
        }
    }
    groups.tell(verdicts);
}

/// L27: a queue of connections that is shorter than a burst.
pub(super) fn backlog(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(backlog) = pooler.number("listen_backlog") else { return };
    let (at, shown) = (pooler.at("listen_backlog"), pooler.shown("listen_backlog"));
    match case.given.connect_burst {
        Some(burst) if backlog < burst => {
            verdicts.fires(&at, "listen_backlog", format!("{shown}, and {} clients may connect at once", plain(burst)));
        }
        Some(_) => {}
        None => verdicts.needs("--connect-burst", Some(shown.clone())),
    }
    match case.given.somaxconn {
        Some(most) if backlog > most => {
            verdicts.fires(
                &at,
                "listen_backlog",
                format!("{shown}, and the kernel cuts it to somaxconn = {}", plain(most)),
            );
        }
        Some(_) => {}
        None => verdicts.needs("--somaxconn", None),
    }
}

/// L32: prepared statements that take too much memory, or are not kept at all.
pub(super) fn prepared_statements(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let Some(kept) = pooler.number("max_prepared_statements") else { return };
    let at = pooler.at("max_prepared_statements");
    let is_shared = pooler.lent().any(|pool| pool.mode != Mode::Session);
    if kept < 1.0 {
        if !is_shared {
            return;
        }
        let shown = pooler.shown("max_prepared_statements");
        let Some(drivers) = &case.given.drivers else { return verdicts.needs("--drivers", Some(shown)) };
        let named = drivers.split(',').map(str::trim).find(|driver| NAMED_STATEMENTS.contains(driver));
        if let Some(driver) = named {
            let evidence =
                format!("{shown}, and {driver} prepares statements with names: another server does not have them");
            verdicts.fires(&at, "max_prepared_statements", evidence);
        }
        return;
    }
    let totals = totals(case, pooler);
    if !is_shared || totals.iter().any(|total| total.unlimited.is_some()) {
        return;
    }
    let servers: f64 = totals.iter().map(|total| total.connections.1).sum();
    let megabytes = servers * kept * PLAN_KILOBYTES / 1024.0;
    let sum = format!(
        "{} servers x {} statements x {} kB = {} MB for each process",
        plain(servers),
        plain(kept),
        plain(PLAN_KILOBYTES),
        plain(megabytes.round())
    );
    match case.given.plan_memory {
        Some(most) => {
            let megabytes = megabytes * case.replicas().unwrap_or(1.0);
            if megabytes > most {
                let evidence =
                    format!("{sum}; {} MB in all, and there are {} MB", plain(megabytes.round()), plain(most));
                verdicts.fires(&at, "max_prepared_statements", evidence);
            }
        }
        None => verdicts.needs("--plan-memory", Some(sum)),
    }
}

/// L35: background jobs that take the servers of the web.
pub(super) fn shared_with_background(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut entries = std::collections::BTreeMap::<(&str, &str), usize>::new();
    for pool in pooler.lent().filter(|_| pooler.program != Program::Odyssey) {
        *entries.entry((&pool.server, &pool.dbname)).or_default() += 1;
    }
    let mut groups = Groups::default();
    let forced = pooler.lent().filter(|pool| pool.user.is_some() && pooler.program != Program::Odyssey);
    for pool in forced.filter(|pool| entries.get(&(&*pool.server, &*pool.dbname)).is_some_and(|count| *count == 1)) {
        match &case.given.background_user {
            Some(user) => {
                let forced = pool.user.as_deref().unwrap_or_default();
                let evidence = format!(
                    "user={forced} makes one pool of {} servers for all users, {user} of the background jobs among them",
                    pool.size
                );
                groups.add(Severity::Warning, &pool.at, &pool.name(), evidence);
            }
            None => verdicts.needs(
                "--background-user",
                Some("a database with a forced user has one pool for all users".to_owned()),
            ),
        }
    }
    groups.tell(verdicts);
}

/// Listeners, log, signals, the event loop, and cancel requests under way.
const OPEN_FILES_MARGIN: f64 = 100.0;
/// A statement with its generic plan takes some tens of kilobytes in a backend.
const PLAN_KILOBYTES: f64 = 30.0;
/// Drivers that prepare statements with names of their own accord.
const NAMED_STATEMENTS: [&str; 9] =
    ["jdbc", "pgjdbc", "pgx", "asyncpg", "psycopg", "psycopg3", "sqlx", "tokio-postgres", "activerecord"];
