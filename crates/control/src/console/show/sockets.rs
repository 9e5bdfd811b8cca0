//! `SHOW CLIENTS` and `SHOW SERVERS`: one row for each connection, in the order in which they came.

use worker::letters::{Parts, Row};

use super::{NOTHING, Subject, View, moment};
use crate::console::table::{Cell, Column, flag, number, text};

pub(super) const CLIENTS: Subject = Subject {
    name: "CLIENTS",
    parts: Parts { clients: true, ..NOTHING },
    columns: COLUMNS,
    rows: |view: &View<'_>| rows("C", view.snapshots.iter().flat_map(|snapshot| &snapshot.clients)),
};

pub(super) const SERVERS: Subject = Subject {
    name: "SERVERS",
    parts: Parts { servers: true, ..NOTHING },
    columns: COLUMNS,
    rows: |view: &View<'_>| rows("S", view.snapshots.iter().flat_map(|snapshot| &snapshot.servers)),
};

const COLUMNS: &[Column] = &[
    Column::text("type"),
    Column::text("user"),
    Column::text("database"),
    Column::text("replication"),
    Column::text("state"),
    Column::text("addr"),
    Column::int("port"),
    Column::text("local_addr"),
    Column::int("local_port"),
    Column::text("connect_time"),
    Column::text("request_time"),
    Column::int("wait"),
    Column::int("wait_us"),
    Column::int("close_needed"),
    Column::text("ptr"),
    Column::text("link"),
    Column::int("remote_pid"),
    Column::text("tls"),
    Column::text("application_name"),
    Column::int("prepared_statements"),
    Column::int("id"),
];

fn rows<'r>(kind: &str, all: impl Iterator<Item = &'r Row>) -> Vec<Vec<Cell>> {
    let mut all: Vec<&Row> = all.collect();
    all.sort_by_key(|row| row.id);
    all.into_iter().map(|row| cells(kind, row)).collect()
}

fn cells(kind: &str, row: &Row) -> Vec<Cell> {
    vec![
        text(kind),
        text(&*row.user),
        text(&*row.database),
        text("none"),
        text(row.state),
        text(&*row.addr),
        number(row.port),
        text(&*row.local_addr),
        number(row.local_port),
        moment(row.connect_time),
        moment(row.request_time),
        number(row.wait.as_secs()),
        number(row.wait.subsec_micros()),
        flag(row.close_needed),
        text(pointer(row.id)),
        text(row.link.map(pointer).unwrap_or_default()),
        number(row.remote_pid),
        text(&*row.tls),
        text(&*row.application_name),
        number(0),
        number(row.id),
    ]
}

/// Where PgBouncer shows an address in memory, the number is as good: it names one connection, and only one.
fn pointer(id: u64) -> String {
    format!("0x{id:x}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use std::time::Duration;
    use worker::letters::Snapshot;

    #[test]
    fn the_columns_are_pgbouncers() {
        let expected = "type s, user s, database s, replication s, state s, addr s, port i, local_addr s, local_port i, \
                        connect_time s, request_time s, wait i, wait_us i, close_needed i, ptr s, link s, remote_pid i, \
                        tls s, application_name s, prepared_statements i, id i";
        assert_eq!((heads("CLIENTS").as_str(), heads("SERVERS").as_str()), (expected, expected));
    }

    #[test]
    fn connections_of_all_workers_are_in_the_order_of_their_numbers() {
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let linked = Row {
            state: "active",
            link: Some(17),
            wait: Duration::from_micros(2_000_003),
            close_needed: true,
            application_name: "shop".into(),
            tls: "TLSv1.3/X".into(),
            remote_pid: 99,
            ..row(30)
        };
        let first = Snapshot { clients: vec![linked, row(2)], ..Snapshot::default() };
        let second = Snapshot { clients: vec![row(5)], servers: vec![row(4)], ..Snapshot::default() };
        let snapshots = [first, second];
        let clients = table_of("CLIENTS", &settings, "", &snapshots);
        let ids: Vec<_> = clients.rows.iter().map(|row| row[20].clone().expect("a number")).collect();
        assert_eq!(ids, ["2", "5", "30"]);
        let lines = lines(&clients);
        assert!(lines[0].starts_with("C|u|d|none|idle|10.0.0.7|5000|10.0.0.1|6432|"), "{lines:?}");
        assert!(lines[0].ends_with("|0|0|0|0x2||0|||0|2"), "{lines:?}");
        assert!(lines[2].ends_with("|2|3|1|0x1e|0x11|99|TLSv1.3/X|shop|0|30"), "{lines:?}");
        let servers = table_of("SERVERS", &settings, "", &snapshots);
        assert_eq!((servers.rows.len(), servers.rows[0][0].as_deref()), (1, Some("S")));
    }
}
