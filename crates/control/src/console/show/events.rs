//! `SHOW EVENTS`: important events.

use super::view::{NOTHING, Subject, View, moment};
use crate::console::table::{Cell, Column, Table, number, text};
use crate::events::EventRecord;

pub(super) const EVENTS: Subject = Subject {
    name: "EVENTS",
    doc: "The last 10,000 important events, the oldest first: `start`, `reload` with what changed, `order` (an administrative command on the console, with the user who gave it), `signal`, `shutdown`, `restart` (online), `wait_begins` and `wait_ends` of a pool (`log_pool_wait`), `host_down` and `host_up`, `host_role` (a host has another role), `server_fault` (a server was closed), `login_refused`, `dropped` (a worker had more events than it may report). Similar refused logins or server faults within a minute are one row, with their `count` and the time of the `last`; where their names differ widely, `database`, `user` and `host` are NULL.",
    parts: NOTHING,
    own_columns: 0,
    columns: &[
        Column::text("time"),
        Column::text("kind"),
        Column::text("database"),
        Column::text("user"),
        Column::text("host"),
        Column::text("detail"),
        Column::big("count"),
        Column::text("last"),
    ],
    rows,
};

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    view.events.iter().map(cells).collect()
}

/// Returns these events as a table.
pub(crate) fn event_table<'e>(events: impl IntoIterator<Item = &'e EventRecord>) -> Table {
    Table { columns: EVENTS.columns, rows: events.into_iter().map(cells).collect() }
}

fn cells(event: &EventRecord) -> Vec<Cell> {
    let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
    vec![
        moment(event.at),
        text(event.kind.word()),
        named(&event.database),
        named(&event.user),
        named(&event.host),
        text(&*event.detail),
        number(event.count),
        moment(event.last),
    ]
}
