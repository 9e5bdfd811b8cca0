//! `SHOW CLIENTS`, `SHOW SERVERS`, `SHOW SOCKETS` and `SHOW ACTIVE_SOCKETS`: one row for each connection, ordered by
//! id.

use base::Id;
use worker::letters::{Parts, Row};

use super::view::{NOTHING, Subject, View, moment};
use crate::console::table::{Cell, Column, flag, number, text};

pub(super) const CLIENTS: Subject = Subject {
    name: "CLIENTS",
    doc: "The clients that have logged in, including those of the console.",
    parts: Parts { clients: true, ..NOTHING },
    own_columns: 2,
    columns: &COLUMNS_OF_CLIENTS,
    rows: |view: &View<'_>| clients(view),
};

pub(super) const SERVERS: Subject = Subject {
    name: "SERVERS",
    doc: "The server connections.",
    parts: Parts { servers: true, ..NOTHING },
    own_columns: 1,
    columns: &COLUMNS_OF_SERVERS,
    rows: |view: &View<'_>| servers(view),
};

pub(super) const SOCKETS: Subject = Subject {
    name: "SOCKETS",
    doc: "All connections, including those that are logging in.",
    parts: ALL,
    own_columns: 0,
    columns: COLUMNS_OF_SOCKETS,
    rows: |view: &View<'_>| sockets(view, |_| true),
};

pub(super) const ACTIVE_SOCKETS: Subject = Subject {
    name: "ACTIVE_SOCKETS",
    doc: "The connections with bytes that wait to be processed or sent.",
    parts: ALL,
    own_columns: 0,
    columns: COLUMNS_OF_SOCKETS,
    rows: |view: &View<'_>| sockets(view, |row| row.held + row.unsent > 0),
};

const ALL: Parts = Parts { clients: true, logins: true, servers: true, ..NOTHING };

const COLUMNS: &[Column] = COLUMNS_OF_SOCKETS.split_at(COLUMNS_COMMON).0;
/// The number of columns that clients and servers have in common; sockets have further columns about buffers.
const COLUMNS_COMMON: usize = 21;

/// Clients have two more columns: the memory used for each (`max_client_memory`, and its session state), and its state
/// in detail.
const COLUMNS_OF_CLIENTS: [Column; COLUMNS_COMMON + 2] = {
    let mut columns = [Column::big("memory_bytes"); COLUMNS_COMMON + 2];
    columns.split_at_mut(COLUMNS_COMMON).0.copy_from_slice(COLUMNS);
    columns[COLUMNS_COMMON + 1] = STATE_DETAIL;
    columns
};

const COLUMNS_OF_SERVERS: [Column; COLUMNS_COMMON + 1] = {
    let mut columns = [STATE_DETAIL; COLUMNS_COMMON + 1];
    columns.split_at_mut(COLUMNS_COMMON).0.copy_from_slice(COLUMNS);
    columns
};

const STATE_DETAIL: Column = Column::text("state_detail");

const COLUMNS_OF_SOCKETS: &[Column] = &[
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
    Column::int("recv_pos"),
    Column::int("pkt_pos"),
    Column::int("pkt_remain"),
    Column::int("send_pos"),
    Column::int("send_remain"),
    Column::int("pkt_avail"),
    Column::int("send_avail"),
];

fn clients(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut all: Vec<&Row> = view.snapshots.iter().flat_map(|snapshot| &snapshot.clients).collect();
    all.sort_by_key(|row| row.id);
    let row = |row: &Row| {
        let mut cells = cells("C", row);
        cells.extend([number(row.memory), text(row.state_detail)]);
        cells
    };
    all.into_iter().map(row).collect()
}

fn servers(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut all: Vec<&Row> = view.snapshots.iter().flat_map(|snapshot| &snapshot.servers).collect();
    all.sort_by_key(|row| row.id);
    let row = |row: &Row| {
        let mut cells = cells("S", row);
        cells.push(text(row.state_detail));
        cells
    };
    all.into_iter().map(row).collect()
}

/// Returns clients, clients that are logging in, and servers, each ordered by id. A connection has no buffer of its own
/// here, so buffer positions are 0; shown are the bytes that wait to be processed (`pkt_avail`) and to be sent
/// (`send_avail`).
fn sockets(view: &View<'_>, is_wanted: fn(&Row) -> bool) -> Vec<Vec<Cell>> {
    let clients = view.snapshots.iter().flat_map(|snapshot| snapshot.clients.iter().chain(&snapshot.logins));
    let servers = view.snapshots.iter().flat_map(|snapshot| &snapshot.servers);
    let mut all: Vec<(&str, &Row)> = clients.map(|row| ("C", row)).chain(servers.map(|row| ("S", row))).collect();
    all.retain(|(_, row)| is_wanted(row));
    all.sort_by_key(|(kind, row)| (*kind, row.id));
    let row = |(kind, row): (&str, &Row)| {
        let mut cells = cells(kind, row);
        cells[STATE] = text(state_of_socket(kind, row.state));
        cells.extend([0, 0, 0, 0, row.unsent, row.held, row.unsent].map(number));
        cells
    };
    all.into_iter().map(row).collect()
}

/// The column of the state.
const STATE: usize = 4;

/// Returns PgBouncer's name for the list in which a socket is.
fn state_of_socket(kind: &str, state: &str) -> String {
    match (kind, state) {
        ("C", "idle") => "cl_active".to_owned(),
        ("C", state) => format!("cl_{state}"),
        (_, "new") => "sv_login".to_owned(),
        (_, state) => format!("sv_{state}"),
    }
}

fn cells(kind: &str, row: &Row) -> Vec<Cell> {
    // Where PgBouncer shows a memory address, the name in the log identifies the connection as well.
    let is_client = kind == "C";
    let own = if is_client { Id::Client } else { Id::Server };
    let peer = if is_client { Id::Server } else { Id::Client };
    vec![
        text(kind),
        text(&*row.user),
        text(&*row.database),
        text(row.replication),
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
        text(own(row.id).to_string()),
        text(row.link.map(|id| peer(id).to_string()).unwrap_or_default()),
        number(row.remote_pid),
        text(&*row.tls),
        text(&*row.application_name),
        number(row.prepared_statements),
        number(row.id),
    ]
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
        assert_eq!(heads("SERVERS"), format!("{expected}, state_detail s"));
        assert_eq!(heads("CLIENTS"), format!("{expected}, memory_bytes q, state_detail s"));
    }

    #[test]
    fn sockets_are_those_and_more_with_what_waits_at_them() {
        let more = "recv_pos i, pkt_pos i, pkt_remain i, send_pos i, send_remain i, pkt_avail i, send_avail i";
        let common = heads("SERVERS").replace(", state_detail s", "");
        assert_eq!(heads("SOCKETS"), format!("{common}, {more}"));
        assert_eq!(heads("ACTIVE_SOCKETS"), heads("SOCKETS"));
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let snapshot = Snapshot {
            clients: vec![Row { held: 7, ..row(5) }],
            logins: vec![Row { state: "login", ..row(3) }],
            servers: vec![Row { state: "new", ..row(4) }, Row { unsent: 9, state: "used", ..row(2) }],
            ..Snapshot::default()
        };
        let states = |name| {
            let rows = table_of(name, &settings, "", std::slice::from_ref(&snapshot)).rows;
            rows.into_iter().map(|row| format!("{:?} {:?}", row[4], &row[25..])).collect::<Vec<_>>()
        };
        let told = |state: &str, unsent, held| {
            format!("{:?} {:?}", text(state), [number(unsent), number(held), number(unsent)])
        };
        let (held, unsent) = (told("cl_active", 0, 7), told("sv_used", 9, 0));
        let all = [told("cl_login", 0, 0), held.clone(), unsent.clone(), told("sv_login", 0, 0)];
        assert_eq!(states("SOCKETS"), all);
        assert_eq!(states("ACTIVE_SOCKETS"), [held, unsent]);
    }

    #[test]
    fn connections_of_all_workers_are_in_the_order_of_their_numbers() {
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let linked = Row {
            state: "active",
            state_detail: "idle in transaction",
            link: Some(17),
            wait: Duration::from_micros(2_000_003),
            close_needed: true,
            application_name: "shop".into(),
            prepared_statements: 4,
            memory: 1234,
            at_rest_since: None,
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
        assert!(lines[0].ends_with("|0|0|0|C-0x2||0|||0|2|0|"), "{lines:?}");
        assert!(
            lines[2].ends_with("|2|3|1|C-0x1e|S-0x11|99|TLSv1.3/X|shop|4|30|1234|idle in transaction"),
            "{lines:?}"
        );
        let servers = table_of("SERVERS", &settings, "", &snapshots);
        assert_eq!((servers.rows.len(), servers.rows[0][0].as_deref()), (1, Some("S")));
    }
}
