//! `SHOW USERS`: all known users, with limits and connections.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::view::{POOLS_PART, Subject, View, mode};
use crate::CONSOLE;
use crate::console::table::{Cell, Column, number, text};

pub(super) const USERS: Subject = Subject {
    name: "USERS",
    doc: "The known users, with their own limits.",
    parts: POOLS_PART,
    own_columns: 0,
    columns: &[
        Column::text("name"),
        Column::text("pool_size"),
        Column::text("reserve_pool_size"),
        Column::text("pool_mode"),
        Column::int("max_user_connections"),
        Column::int("current_connections"),
        Column::int("max_user_client_connections"),
        Column::int("current_client_connections"),
    ],
    rows,
};

/// The connections of a user over all workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Held {
    servers: u32,
    clients: u32,
}

/// Returns all users: those of `auth_file`, of `[users]`, of the databases' `user` and `auth_user`, the console's, and
/// every other user that has logged in.
pub(super) fn all(view: &View<'_>) -> BTreeMap<Arc<str>, Held> {
    let settings = view.settings;
    let in_file = view.users.iter().map(|(name, _)| Arc::from(name));
    let with_settings = settings.users.keys().cloned();
    let databases = settings.databases.values().chain(&settings.fallback);
    let of_databases = databases.flat_map(|database| database.user.iter().chain(&database.auth_user)).cloned();
    let asking = settings.auth_user.as_deref().map(Arc::from);
    let known = in_file.chain(with_settings).chain(of_databases).chain(asking).chain([CONSOLE.into()]);
    let mut all: BTreeMap<Arc<str>, Held> = known.map(|name| (name, Held::default())).collect();
    for row in view.snapshots.iter().flat_map(|snapshot| &snapshot.users) {
        let held = all.entry(Arc::clone(&row.name)).or_default();
        held.servers += row.servers;
        held.clients += row.clients;
    }
    all
}

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    all(view).into_iter().map(|(name, held)| row(view, &name, held)).collect()
}

fn row(view: &View<'_>, name: &str, held: Held) -> Vec<Cell> {
    let settings = view.settings;
    let own = settings.users.get(name);
    // In PgBouncer these two columns are text, padded to the width of its numbers.
    let size = |size: Option<u32>| text(size.map(|size| format!("{size:>9}")).unwrap_or_default());
    vec![
        text(name),
        size(own.and_then(|user| user.pool_size)),
        size(own.and_then(|user| user.reserve_pool_size)),
        own.and_then(|user| user.pool_mode).and_then(mode),
        number(settings.max_user_connections(name).unwrap_or(0)),
        number(held.servers),
        number(settings.max_user_client_connections(name).unwrap_or(0)),
        number(held.clients),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use worker::letters::Snapshot;

    #[test]
    fn the_columns_are_pgbouncers() {
        assert_eq!(
            heads("USERS"),
            "name s, pool_size s, reserve_pool_size s, pool_mode s, max_user_connections i, current_connections i, \
             max_user_client_connections i, current_client_connections i"
        );
    }

    #[test]
    fn users_come_from_everywhere_and_each_is_told_once() {
        let settings = settings(
            "[databases]\nd = user=forced\n[users]\nv = pool_size=3 max_user_connections=9 pool_mode=session\n\
             [pgbouncer]\nauth_type=any\nmax_user_client_connections=7\n",
        );
        let first = Snapshot { users: vec![user_row("u", 1, 2), user_row("guest", 0, 1)], ..Snapshot::default() };
        let second = Snapshot { users: vec![user_row("u", 10, 20)], ..Snapshot::default() };
        assert_eq!(
            lines(&table_of("USERS", &settings, "\"u\" \"x\"\n\"v\" \"\"\n", &[first, second])),
            [
                "forced|||NULL|0|0|7|0",
                "guest|||NULL|0|0|7|1",
                "pgbouncer|||NULL|0|0|7|0",
                "u|||NULL|0|11|7|22",
                "v|        3||session|9|0|7|0",
            ]
        );
    }
}
