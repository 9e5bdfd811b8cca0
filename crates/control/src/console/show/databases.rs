//! `SHOW DATABASES`: every database that clients may connect to, and the number of its connections.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Wall;
use config::Database;

use super::view::{POOLS_PART, Subject, View, load_balance, mode, moment};
use crate::CONSOLE;
use crate::console::table::{Cell, Column, number, text};

pub(super) const DATABASES: Subject = Subject {
    name: "DATABASES",
    doc: "The databases of the configuration, those that were made from `*` and are in use, and the console.",
    parts: POOLS_PART,
    own_columns: 2,
    columns: &[
        Column::text("name"),
        Column::text("host"),
        Column::int("port"),
        Column::text("database"),
        Column::text("force_user"),
        Column::int("pool_size"),
        Column::int("min_pool_size"),
        Column::int("reserve_pool_size"),
        Column::int("server_lifetime"),
        Column::text("pool_mode"),
        Column::text("load_balance_hosts"),
        Column::int("max_connections"),
        Column::int("current_connections"),
        Column::int("max_client_connections"),
        Column::int("current_client_connections"),
        Column::int("paused"),
        Column::int("disabled"),
        Column::text("functions"),
        Column::text("paused_until"),
    ],
    rows,
};

/// A database and its connections.
#[derive(Debug)]
pub(super) struct Held {
    entry: Arc<Database>,
    servers: u32,
    clients: u32,
    /// Whether its functions are known; empty if no client has needed them.
    functions: &'static str,
}

/// All databases but the console: the configured ones, and those made from the fallback that are in use.
pub(super) fn all(view: &View<'_>) -> BTreeMap<Arc<str>, Held> {
    let configured = view.settings.databases.iter();
    let held = |entry: &Arc<Database>| Held { entry: Arc::clone(entry), servers: 0, clients: 0, functions: "" };
    let mut all: BTreeMap<_, _> = configured.map(|(name, entry)| (Arc::clone(name), held(entry))).collect();
    for row in view.snapshots.iter().flat_map(|snapshot| &snapshot.databases) {
        let database = all.entry(Arc::clone(&row.name)).or_insert_with(|| held(&row.entry));
        database.servers += row.servers;
        database.clients += row.clients;
        database.functions = row.functions;
    }
    // A database made from `*` may be paused or disabled before any client uses it.
    for name in view.standing.paused().iter().chain(view.standing.disabled()) {
        if let Some(entry) = view.settings.database(name) {
            all.entry(Arc::clone(name)).or_insert_with(|| held(&entry));
        }
    }
    all
}

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut rows: BTreeMap<Arc<str>, _> = all(view).into_iter().map(|(name, held)| (name, row(view, &held))).collect();
    rows.insert(CONSOLE.into(), console(view));
    rows.into_values().collect()
}

fn row(view: &View<'_>, held: &Held) -> Vec<Cell> {
    let (settings, entry) = (view.settings, &held.entry);
    let name = |name: &Option<Arc<str>>| name.as_deref().map(str::to_owned);
    vec![
        text(&*entry.name),
        name(&entry.host_text),
        number(entry.port),
        text(&*entry.dbname),
        name(&entry.user),
        number(entry.pool_size.unwrap_or(settings.default_pool_size)),
        number(entry.min_pool_size.unwrap_or(settings.min_pool_size)),
        number(entry.reserve_pool_size.unwrap_or(settings.reserve_pool_size)),
        number(entry.server_lifetime.unwrap_or(settings.server_lifetime).as_secs()),
        entry.pool_mode.and_then(mode),
        load_balance(entry),
        number(settings.max_db_connections(entry).unwrap_or(0)),
        number(held.servers),
        number(settings.max_db_client_connections(entry).unwrap_or(0)),
        number(held.clients),
        number(u8::from(view.standing.paused().contains(&entry.name))),
        number(u8::from(view.standing.disabled().contains(&entry.name))),
        text(held.functions),
        paused_until(view, &entry.name),
    ]
}

fn paused_until(view: &View<'_>, database: &str) -> Cell {
    let until = view.timed_pauses.until(view.standing, database)?;
    moment(Wall(view.wall.0 + until.since(view.now).as_micros() as i64))
}

/// The console is also a database: of its own process, with a user of its own name.
fn console(view: &View<'_>) -> Vec<Cell> {
    let settings = view.settings;
    let pools = view.snapshots.iter().flat_map(|snapshot| &snapshot.pools);
    let clients: u32 = pools.filter(|pool| *pool.database == *CONSOLE).map(|pool| pool.cl_active).sum();
    vec![
        text(CONSOLE),
        None,
        number(settings.listen_port),
        text(CONSOLE),
        text(CONSOLE),
        number(CONSOLE_POOL_SIZE),
        number(0),
        number(0),
        number(settings.server_lifetime.as_secs()),
        mode(pool::Mode::Statement),
        None,
        number(settings.max_db_connections),
        number(0),
        number(settings.max_db_client_connections),
        number(clients),
        number(0),
        number(0),
        text(""),
        None,
    ]
}

/// As in PgBouncer, whose console pool could have this many servers.
const CONSOLE_POOL_SIZE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use worker::letters::Snapshot;

    #[test]
    fn the_columns_are_pgbouncers() {
        assert_eq!(
            heads("DATABASES"),
            "name s, host s, port i, database s, force_user s, pool_size i, min_pool_size i, reserve_pool_size i, \
             server_lifetime i, pool_mode s, load_balance_hosts s, max_connections i, current_connections i, \
             max_client_connections i, current_client_connections i, paused i, disabled i, functions s, \
             paused_until s"
        );
    }

    #[test]
    fn all_databases_are_there_whether_somebody_uses_them_or_not() {
        let settings = settings(
            "[databases]\nz = host=h1,h2 port=5433 dbname=zz user=f pool_size=3 pool_mode=session\nb =\n* = host=h\n\
             [pgbouncer]\nauth_type=any\nmax_db_connections=9\nmax_db_client_connections=8\nlisten_port=7\nserver_lifetime=60\n",
        );
        let (automatic, z) = (database(&settings, "auto"), database(&settings, "z"));
        let mut console = pool_row(CONSOLE, CONSOLE);
        console.cl_active = 2;
        let first = Snapshot { databases: vec![database_row(&z, 2, 5)], ..Snapshot::default() };
        let second = Snapshot {
            databases: vec![database_row(&automatic, 1, 1)],
            pools: vec![console.clone()],
            ..Snapshot::default()
        };
        let table = table_of("DATABASES", &settings, "", &[first, second]);
        assert_eq!(
            lines(&table),
            [
                "auto|h|5432|auto|NULL|20|0|0|60|NULL|NULL|9|1|8|1|0|0|known|NULL",
                "b|NULL|5432|b|NULL|20|0|0|60|NULL|NULL|9|0|8|0|0|0||NULL",
                "pgbouncer|NULL|7|pgbouncer|pgbouncer|2|0|0|60|statement|NULL|9|0|8|2|0|0||NULL",
                "z|h1,h2|5433|zz|f|3|0|0|60|session|round-robin|9|2|8|5|0|0|known|NULL",
            ]
        );
    }
}
