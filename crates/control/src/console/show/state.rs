//! `SHOW STATE`: whether the pooler is active, paused or suspended.

use worker::letters::Shutdown;

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, text};

pub(super) const STATE: Subject = Subject {
    name: "STATE",
    doc: "Whether the pooler is active, paused or suspended, and what a shutdown waits for.",
    parts: NOTHING,
    own_columns: 0,
    columns: &[Column::text("key"), Column::text("value")],
    rows,
};

/// Databases paused by name are shown by `SHOW DATABASES`.
fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let is_paused = view.standing.is_all_paused();
    let is_suspended = view.is_suspended;
    let is_active = !is_paused && !is_suspended;
    let states = [("active", is_active), ("paused", is_paused), ("suspended", is_suspended)];
    let states = states.map(|(key, is_so)| vec![text(key), text(if is_so { "yes" } else { "no" })]);
    // PgBouncer has no such row: it exists only during a shutdown.
    let shutdown = view.shutdown.map(|(way, waited)| {
        let what = match way {
            Shutdown::WaitForClients => "waits until all clients have gone (SHOW CLIENTS)",
            Shutdown::WaitForServers => "waits until all servers are given back and closed (SHOW SERVERS)",
            Shutdown::Now => "ends",
        };
        let limit = match view.settings.shutdown_timeout {
            Some(limit) => format!("{} s at most (shutdown_timeout)", limit.as_secs()),
            None => "without end (shutdown_timeout)".to_owned(),
        };
        vec![text("shutdown"), text(format!("{what} for {} s, {limit}", waited.as_secs()))]
    });
    states.into_iter().chain(shutdown).collect()
}

#[cfg(test)]
mod tests {
    use worker::letters::Standing;

    use super::super::tests::*;

    #[test]
    fn a_pause_of_everything_is_told() {
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let mut standing = Standing::default();
        standing.pause(&None);
        let table = table_under(&standing, "STATE", &settings, "", &[]);
        assert_eq!(lines(&table), ["active|no", "paused|yes", "suspended|no"]);
    }

    #[test]
    fn it_is_active() {
        assert_eq!(heads("STATE"), "key s, value s");
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        assert_eq!(lines(&table_of("STATE", &settings, "", &[])), ["active|yes", "paused|no", "suspended|no"]);
    }
}
