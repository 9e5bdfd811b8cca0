//! `SHOW DNS_HOSTS` and `SHOW DNS_ZONES`: host names and what is cached about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use worker::letters::{HostRow, Parts};

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};

pub(super) const DNS_HOSTS: Subject = Subject {
    name: "DNS_HOSTS",
    doc: "The host names that have been looked up, and their addresses.",
    parts: Parts { hosts: true, ..NOTHING },
    own_columns: 0,
    columns: &[Column::text("hostname"), Column::big("ttl"), Column::text("addrs")],
    rows: hosts,
};

pub(super) const DNS_ZONES: Subject = Subject {
    name: "DNS_ZONES",
    doc: "The DNS zones of those names, and their serial numbers.",
    parts: NOTHING,
    own_columns: 0,
    columns: &[Column::text("zonename"), Column::big("serial"), Column::int("count")],
    rows: zones,
};

/// Each worker has its own cache: of several entries for a name, the one with the longest remaining TTL is shown.
fn hosts(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut hosts: BTreeMap<&str, &HostRow> = BTreeMap::new();
    for row in view.snapshots.iter().flat_map(|snapshot| &snapshot.hosts) {
        let known = hosts.entry(&row.name).or_insert(row);
        if row.ttl > known.ttl {
            *known = row;
        }
    }
    let cells = |row: &HostRow| {
        let addresses: Vec<String> = row.addresses.iter().map(ToString::to_string).collect();
        vec![text(&*row.name), number(row.ttl.as_secs()), text(addresses.join(","))]
    };
    hosts.into_values().map(cells).collect()
}

fn zones(view: &View<'_>) -> Vec<Vec<Cell>> {
    let cells = |(name, serial, count): (&Arc<str>, u32, usize)| vec![text(&**name), number(serial), number(count)];
    view.zones.rows().map(cells).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use worker::letters::Snapshot;

    use super::super::tests::*;
    use super::*;

    #[test]
    fn a_name_is_shown_once_with_its_addresses() {
        assert_eq!(heads("DNS_HOSTS"), "hostname s, ttl q, addrs s");
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let host = |name: &str, secs, addresses: &[&str]| HostRow {
            name: name.into(),
            ttl: Duration::from_secs(secs),
            addresses: addresses.iter().map(|address| address.parse().expect("an address")).collect(),
        };
        let first = Snapshot { hosts: vec![host("db", 3, &["10.0.0.1"]), host("no", 0, &[])], ..Snapshot::default() };
        let second = Snapshot { hosts: vec![host("db", 9, &["10.0.0.2", "::1"])], ..Snapshot::default() };
        let shown = lines(&table_of("DNS_HOSTS", &settings, "", &[first, second]));
        assert_eq!(shown, ["db|9|10.0.0.2,::1", "no|0|"]);
    }

    #[test]
    fn a_zone_is_shown_with_its_serial_and_how_many_names_are_in_it() {
        assert_eq!(heads("DNS_ZONES"), "zonename s, serial q, count i");
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        assert_eq!(lines(&table_of("DNS_ZONES", &settings, "", &[])), ["z.example|0|2"]);
    }
}
