//! `SHOW PINS`, `SHOW PIN_TOTALS`, `SHOW LOCKS` and `SHOW CHANNELS`: what keeps servers for single clients in
//! transaction pooling, and the channels that a shared server listens on.

use std::collections::{BTreeMap, BTreeSet};

use base::{Id, Time};
use protocol::state::Kind;
use worker::letters::{ChannelRow, Parts, PinRow};

use super::view::{NOTHING, Subject, View, moment};
use crate::console::table::{Cell, Column, number, text};
use crate::sweeper::Stranded;

const PINS_PART: Parts = Parts { pins: true, ..NOTHING };

pub(super) const PINS: Subject = Subject {
    name: "PINS",
    doc: "The session state that pins servers to clients, the statement that created it, and what ends it.",
    parts: PINS_PART,
    own_columns: 0,
    columns: &[
        Column::text("database"),
        Column::text("user"),
        Column::text("application_name"),
        Column::text("addr"),
        Column::int("port"),
        Column::text("client"),
        Column::text("server"),
        Column::int("remote_pid"),
        Column::text("kind"),
        Column::text("what"),
        Column::text("statement"),
        Column::text("since"),
        Column::big("age"),
        Column::text("ends_by"),
    ],
    rows: pins,
};

pub(super) const PIN_TOTALS: Subject = Subject {
    name: "PIN_TOTALS",
    doc: "How many servers are pinned by each kind of session state, and how often that has begun.",
    parts: PINS_PART,
    own_columns: 0,
    columns: &[Column::text("database"), Column::text("kind"), Column::int("pinned"), Column::big("total")],
    rows: totals,
};

pub(super) const LOCKS: Subject = Subject {
    name: "LOCKS",
    doc: "The session-level advisory locks that clients hold, and those that our servers hold but no client is known to (`lock_sweep_interval`).",
    parts: Parts { servers: true, ..PINS_PART },
    own_columns: 0,
    columns: &[
        Column::text("database"),
        Column::text("key"),
        Column::text("mode"),
        Column::text("user"),
        Column::text("application_name"),
        Column::text("addr"),
        Column::int("port"),
        Column::text("client"),
        Column::text("server"),
        Column::int("remote_pid"),
        Column::text("since"),
        Column::big("age"),
    ],
    rows: locks,
};

pub(super) const CHANNELS: Subject = Subject {
    name: "CHANNELS",
    doc: "The channels that clients LISTEN to through the listener of their database.",
    parts: PINS_PART,
    own_columns: 0,
    columns: &[Column::text("database"), Column::text("channel"), Column::int("clients"), Column::text("state")],
    rows: channels,
};

/// Returns the pins, oldest first, which is what an operator looks for.
fn rows<'v>(view: &View<'v>) -> Vec<&'v PinRow> {
    let mut rows: Vec<&PinRow> = view.snapshots.iter().flat_map(|snapshot| &snapshot.pins).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.age), row.client));
    rows
}

fn pins(view: &View<'_>) -> Vec<Vec<Cell>> {
    let cells = |row: &PinRow| {
        let hold = &row.pin.hold;
        let [client, server] = names(row);
        vec![
            text(&*row.database),
            text(&*row.user),
            text(&*row.application_name),
            text(&*row.addr),
            number(row.port),
            client,
            server,
            number(row.remote_pid),
            text(hold.kind.short()),
            text(&*hold.what),
            text(&*row.pin.statement),
            moment(row.since),
            number(row.age.as_secs()),
            text(hold.kind.ends_by()),
        ]
    };
    rows(view).into_iter().map(cells).collect()
}

fn totals(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut sums: BTreeMap<(&str, Kind), (BTreeSet<u64>, u64)> = BTreeMap::new();
    for snapshot in view.snapshots {
        for row in &snapshot.pin_totals {
            sums.entry((&row.database, row.kind)).or_default().1 += row.total;
        }
        for row in &snapshot.pins {
            sums.entry((&row.database, row.pin.hold.kind)).or_default().0.insert(row.server);
        }
    }
    let cells = |((database, kind), (now, total)): ((&str, Kind), (BTreeSet<u64>, u64))| {
        vec![text(database), text(kind.short()), number(now.len()), number(total)]
    };
    sums.into_iter().map(cells).collect()
}

fn channels(view: &View<'_>) -> Vec<Vec<Cell>> {
    let rows = view.snapshots.iter().flat_map(|snapshot| &snapshot.channels);
    let cells = |row: &ChannelRow| {
        let state = if row.is_heard { "shared" } else { "waiting" };
        vec![text(&*row.database), text(&*row.channel), number(row.clients), text(state)]
    };
    rows.map(cells).collect()
}

fn locks(view: &View<'_>) -> Vec<Vec<Cell>> {
    let cells = |row: &&PinRow| {
        let [client, server] = names(row);
        vec![
            text(&*row.database),
            text(&*row.pin.hold.what),
            row.pin.hold.mode.as_deref().map(str::to_owned),
            text(&*row.user),
            text(&*row.application_name),
            text(&*row.addr),
            number(row.port),
            client,
            server,
            number(row.remote_pid),
            moment(row.since),
            number(row.age.as_secs()),
        ]
    };
    let known = rows(view);
    let known = known.iter().filter(|row| row.pin.hold.kind == Kind::Lock).map(cells);
    known.chain(view.sweeper.stranded(view.snapshots).map(|stranded| stranded_cells(stranded, view.now))).collect()
}

/// Returns the row of a lock without a client.
fn stranded_cells(stranded: &Stranded, now: Time) -> Vec<Cell> {
    let (key, mode) = &stranded.lock;
    vec![
        text(&*stranded.database),
        text(&**key),
        text(&**mode),
        text(&*stranded.user),
        None,
        None,
        None,
        None,
        text(Id::Server(stranded.server).to_string()),
        number(stranded.pid),
        moment(stranded.since.wall),
        number(now.since(stranded.since.time).as_secs()),
    ]
}

/// Returns the names of the client and the server as in the log.
fn names(row: &PinRow) -> [Cell; 2] {
    [text(Id::Client(row.client).to_string()), text(Id::Server(row.server).to_string())]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use worker::letters::{PinTotal, Snapshot};

    use super::super::tests::*;
    use super::*;

    #[test]
    fn the_oldest_pin_comes_first_and_locks_have_a_table_of_their_own() {
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let young = PinRow { age: Duration::from_secs(3), ..pin(Kind::Lock, "42") };
        let total = |kind, total| PinTotal { database: "d".into(), kind, total };
        let snapshots = [
            Snapshot { pins: vec![young], pin_totals: vec![total(Kind::Lock, 7)], ..Snapshot::default() },
            Snapshot {
                pins: vec![pin(Kind::Channel, "news")],
                pin_totals: vec![total(Kind::Lock, 2)],
                ..Snapshot::default()
            },
        ];
        let pins = lines(&table_of("PINS", &settings, "", &snapshots));
        assert!(
            pins[0].starts_with("d|u|app|10.0.0.7|5000|C-0x12|S-0x13|77|listen|news|SELECT f(?)|1970-01-01 "),
            "{pins:?}"
        );
        assert!(pins[0].ends_with("|90|UNLISTEN") && pins[1].contains("|lock|42|") && pins.len() == 2, "{pins:?}");
        let locks = lines(&table_of("LOCKS", &settings, "", &snapshots));
        assert!(locks[0].starts_with("d|42|ExclusiveLock|u|app|10.0.0.7|5000|C-0x12|S-0x13|77|"), "{locks:?}");
        let row = |channel: &str, clients, is_heard| ChannelRow {
            database: "d".into(),
            channel: channel.into(),
            clients,
            is_heard,
        };
        let channels = vec![row("news", 1000, true), row("new", 1, false)];
        let listening = [Snapshot { channels, ..Snapshot::default() }];
        assert_eq!(lines(&table_of("CHANNELS", &settings, "", &listening)), ["d|news|1000|shared", "d|new|1|waiting"]);
        assert_eq!(lines(&table_of("PIN_TOTALS", &settings, "", &snapshots)), ["d|lock|1|9", "d|listen|1|0"]);
    }
}
