//! `SHOW FDS`: the clients and servers that an online restart hands over, with PgBouncer's columns.
//!
//! Always true: the table contains no descriptors and no secrets. PgBouncer hands over its sockets by this command;
//! here a new process receives everything through a separate channel (`transfer`), so that a console user cannot take
//! connections.

use worker::letters::{Parts, Row};

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};

pub(super) const FDS: Subject = Subject {
    name: super::view::FOR_ADMINS,
    doc: "The connections that an online restart hands over, in the columns of PgBouncer's `SHOW FDS`, but without file descriptors, passwords and keys. Only for `admin_users`.",
    parts: Parts { clients: true, servers: true, ..NOTHING },
    own_columns: 0,
    columns: &[
        Column::int("fd"),
        Column::text("task"),
        Column::text("user"),
        Column::text("database"),
        Column::text("addr"),
        Column::int("port"),
        Column::big("cancel"),
        Column::int("link"),
        Column::text("client_encoding"),
        Column::text("std_strings"),
        Column::text("datestyle"),
        Column::text("timezone"),
        Column::text("password"),
        Column::bytes("scram_client_key"),
        Column::bytes("scram_server_key"),
    ],
    rows: |view: &View<'_>| {
        let snapshots = view.snapshots.iter();
        let clients = snapshots.clone().flat_map(|snapshot| &snapshot.clients);
        let clients = clients.filter(|row| *row.database != *crate::CONSOLE).map(|row| (row, "client"));
        let servers = snapshots.flat_map(|snapshot| &snapshot.servers).map(|row| (row, "server"));
        // Connections with TLS and replication connections are not handed over.
        let goes_along = |row: &Row| row.tls.is_empty() && row.replication == NO_STREAM;
        clients.chain(servers).filter(|(row, _)| goes_along(row)).map(|(row, task)| cells(row, task)).collect()
    },
};

/// Descriptors are replaced by the ids of SHOW CLIENTS and SHOW SERVERS.
fn cells(row: &Row, task: &str) -> Vec<Cell> {
    let known = [
        number(row.id),
        text(task),
        text(&*row.user),
        text(&*row.database),
        text(&*row.addr),
        number(row.port),
        None,
        number(row.link.unwrap_or(0)),
    ];
    known.into_iter().chain(std::iter::repeat_n(None, 7)).collect()
}

/// The value of `replication` for ordinary connections.
const NO_STREAM: &str = "none";

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use worker::letters::Snapshot;

    #[test]
    fn the_columns_are_pgbouncers() {
        let columns = "fd i, task s, user s, database s, addr s, port i, cancel q, link i, client_encoding s, std_strings s, \
                       datestyle s, timezone s, password s, scram_client_key b, scram_server_key b";
        assert_eq!(heads("FDS"), columns);
    }

    #[test]
    fn what_stays_behind_is_not_shown() {
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let stream = |id| Row { replication: "physical", ..row(id) };
        let secured = |id| Row { tls: "TLSv1.3/X".into(), ..row(id) };
        let console = Row { database: crate::CONSOLE.into(), ..row(4) };
        let snapshot = Snapshot {
            clients: vec![row(1), stream(2), secured(3), console],
            servers: vec![row(5), stream(6), secured(7)],
            ..Snapshot::default()
        };
        let rows = table_of("FDS", &settings, "", &[snapshot]).rows;
        let shown: Vec<_> = rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
        assert_eq!(shown, [(number(1), text("client")), (number(5), text("server"))]);
    }
}
