//! `SHOW HOSTS`: which hosts answer logins. `SHOW DNS_HOSTS` and `SHOW DNS_ZONES`: host names and what is cached about them.
//!
//! Always true: each host of the databases is shown once, those that no database has any longer are not.
//! Not here: what counts as an answer (`worker::failing`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use std::time::Duration;

use base::Wall;
use measure::KnownHost;
use worker::letters::{HostRow, Parts};

use super::view::{NOTHING, Subject, View, moment};
use crate::console::table::{Cell, Column, number, text};

pub(super) const DNS_HOSTS: Subject = Subject {
    name: "DNS_HOSTS",
    doc: "The host names that have been looked up, and their addresses.",
    parts: Parts { hosts: true, ..NOTHING },
    own_columns: 0,
    columns: &[Column::text("hostname"), Column::big("ttl"), Column::text("addrs")],
    rows: hosts,
};

pub(super) const HOSTS: Subject = Subject {
    name: "HOSTS",
    doc: "The hosts of the databases: whether they answer logins of the pooler, since when, the role that their servers report, and the last error. A host that refuses a login can be reached.",
    parts: Parts { hosts: true, ..NOTHING },
    own_columns: 0,
    columns: &[
        Column::text("host"),
        Column::text("state"),
        Column::text("role"),
        Column::text("since"),
        Column::text("last_login"),
        Column::big("failed_logins"),
        Column::text("last_error"),
        Column::text("last_error_time"),
        Column::text("zone"),
        Column::big("weight"),
        Column::big("lag"),
        Column::big("lag_us"),
        Column::text("in_rotation"),
    ],
    rows: known_hosts,
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

fn known_hosts(view: &View<'_>) -> Vec<Vec<Cell>> {
    let ago = |time: Duration| moment(Wall(view.wall.0 - time.as_micros() as i64));
    let cells = |(name, host): (String, Option<KnownHost>)| {
        let mut place = placed(view, &name);
        let Some(host) = host else {
            let mut row = vec![text(name), text("unknown"), None, None, None, number(0), None, None];
            row.append(&mut place);
            return row;
        };
        let state = match host_state(view, &host) {
            Some(true) => "reachable",
            Some(false) => "unreachable",
            None => "unknown",
        };
        let since = if state == "unknown" { None } else { ago(host.since) };
        let (error, at) = host.error.map_or((None, None), |(error, at)| (text(&*error), ago(at)));
        let role = host.role.and_then(|role| text(role.word()));
        let mut row = vec![text(name), text(state), role, since, ago(host.heard), number(host.failed), error, at];
        row.append(&mut place);
        row
    };
    all_hosts(view).into_iter().map(cells).collect()
}

/// Where a host is and how it is chosen: its zone and weight in the first line that names it, and what its cluster knows of it.
fn placed(view: &View<'_>, name: &str) -> Vec<Cell> {
    let databases = view.settings.databases.values().chain(view.settings.fallback.iter());
    let line = databases.filter_map(|entry| Some((entry, entry.place_of(|host, port| host.at(port) == name)?))).next();
    let zone = line.and_then(|(entry, place)| text(&**entry.zone_at(place)?));
    let weight = line.and_then(|(entry, place)| number(entry.weight_at(place)));
    let members = view.clusters.rows().filter_map(|(name_of_cluster, cluster)| {
        let member = cluster.members().iter().find(|member| **member.name() == *name)?;
        Some((view.rotations.of(name_of_cluster)?, cluster, member))
    });
    let (mut lag, mut is_readable) = (None, None);
    for (rotation, cluster, member) in members {
        lag = lag.or(rotation.lag_of(cluster, member));
        is_readable = is_readable.or(rotation.is_readable(name));
    }
    let lag_us = lag.and_then(|lag| number(lag.time.as_micros() as u64));
    let in_rotation = is_readable.and_then(|is_readable| text(if is_readable { "yes" } else { "no" }));
    vec![zone, weight, lag.and_then(|lag| number(lag.bytes)), lag_us, in_rotation]
}

/// Returns the hosts of the databases of which it is known whether they can be reached, and whether they can.
pub(crate) fn hosts_with_state(view: &View<'_>) -> Vec<(KnownHost, bool)> {
    let hosts = all_hosts(view).into_iter().filter_map(|(_, host)| host);
    hosts.filter_map(|host| host_state(view, &host).map(|is_reachable| (host, is_reachable))).collect()
}

/// Returns the hosts of the databases, and what all workers together know of each.
fn all_hosts(view: &View<'_>) -> Vec<(String, Option<KnownHost>)> {
    let databases = view.settings.fallback.iter().chain(view.settings.databases.values());
    let places: BTreeSet<_> = databases.flat_map(|database| database.hosts_with_ports()).collect();
    let known = measure::merged(view.snapshots.iter().flat_map(|snapshot| snapshot.known_hosts.iter().cloned()));
    let mut known: BTreeMap<Arc<str>, KnownHost> = known.into_iter().map(|host| (host.name.clone(), host)).collect();
    let names: BTreeSet<String> = places.into_iter().map(|(host, port)| host.at(port)).collect();
    names
        .into_iter()
        .map(|name| (known.remove(name.as_str())).map_or((name, None), |host| (host.name.to_string(), Some(host))))
        .collect()
}

/// Whether a host can be reached. One that did not answer, and at which nobody has wanted to log in since, may have
/// recovered: after a while nothing is known of it.
fn host_state(view: &View<'_>, host: &KnownHost) -> Option<bool> {
    let retried = view.settings.server_login_retry;
    (host.is_reachable || host.heard < UNTRIED_MAX.max(retried * 2)).then_some(host.is_reachable)
}

/// A host is told to be unreachable for this time after the last failed login; twice as long as `server_login_retry` if
/// that is more.
const UNTRIED_MAX: Duration = Duration::from_secs(300);

fn zones(view: &View<'_>) -> Vec<Vec<Cell>> {
    let cells = |(name, serial, count): (&Arc<str>, u32, usize)| vec![text(&**name), number(serial), number(count)];
    view.zones.rows().map(cells).collect()
}

#[cfg(test)]
mod tests {
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
    fn each_host_of_the_databases_is_shown_with_its_state_and_its_last_error() {
        let told = "host s, state s, role s, since s, last_login s, failed_logins q, last_error s, last_error_time s, zone s, weight q, lag q, lag_us q, in_rotation s";
        assert_eq!(heads("HOSTS"), told);
        let databases =
            "d = host=a,b port=1 weights=3,1 zones=x\ne = host=b port=1\n* = host=c port=1\nf = host=d port=1";
        let settings = settings(&format!("[databases]\n{databases}\n[pgbouncer]\nauth_type=any\n"));
        let host = |name: &str, is_reachable, heard, error: Option<&str>| KnownHost {
            name: name.into(),
            is_reachable,
            role: (name == "a:1").then_some(measure::HostRole::Standby),
            since: Duration::ZERO,
            heard: Duration::from_secs(heard),
            failed: 3,
            error: error.map(|error| (error.into(), Duration::ZERO)),
        };
        let known_hosts = vec![
            host("a:1", true, 10_000, None),
            host("b:1", false, 299, Some("connect failed")),
            host("c:1", false, 300, Some("connect timeout")),
            host("gone:1", false, 0, Some("of a database that was removed")),
        ];
        let snapshots = [Snapshot { known_hosts, ..Snapshot::default() }];
        let shown = lines(&table_of("HOSTS", &settings, "", &snapshots));
        assert_eq!(shown.len(), 4, "{shown:?}");
        assert!(
            shown[0].starts_with("a:1|reachable|standby|") && shown[0].ends_with("|3|NULL|NULL|x|3|NULL|NULL|NULL"),
            "{shown:?}"
        );
        assert!(shown[1].starts_with("b:1|unreachable|NULL|") && shown[1].contains("|3|connect failed|"), "{shown:?}");
        assert!(
            shown[2].starts_with("c:1|unknown|NULL|NULL|") && shown[2].contains("|3|connect timeout|"),
            "{shown:?}"
        );
        assert_eq!(shown[3], "d:1|unknown|NULL|NULL|NULL|0|NULL|NULL|NULL|1|NULL|NULL|NULL");
        let states = with_view(&settings, &snapshots, hosts_with_state);
        let states: Vec<_> = states.iter().map(|(host, is_reachable)| (&*host.name, *is_reachable)).collect();
        assert_eq!(states, [("a:1", true), ("b:1", false)]);
    }

    #[test]
    fn a_zone_is_shown_with_its_serial_and_how_many_names_are_in_it() {
        assert_eq!(heads("DNS_ZONES"), "zonename s, serial q, count i");
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        assert_eq!(lines(&table_of("DNS_ZONES", &settings, "", &[])), ["z.example|0|2"]);
    }
}
