//! `SHOW LISTS`: the numbers of databases, users, pools, clients and so on.

use worker::letters::{Parts, Snapshot, Verified};

use super::view::{NOTHING, Subject, View};
use super::{databases, peers, pools, users};
use crate::console::table::{Cell, Column, number, text};

pub(super) const LISTS: Subject = Subject {
    name: "LISTS",
    doc: "How many databases, users, pools, clients, servers and so on there are, and a few counters.",
    parts: Parts { pools: true, memory: true, ..NOTHING },
    own_columns: 0,
    columns: &[Column::text("list"), Column::int("items")],
    rows,
};

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let sum = |part: fn(&Snapshot) -> u32| view.snapshots.iter().map(|snapshot| part(snapshot) as usize).sum();
    let (clients_used, clients_free) = table(view, "client_cache");
    let (servers_used, servers_free) = table(view, "server_cache");
    let violations: u64 = view.snapshots.iter().map(|snapshot| snapshot.protocol_violations).sum();
    let turned_away: u64 = view.snapshots.iter().map(|snapshot| snapshot.turned_away).sum();
    let verified = |part: fn(&Verified) -> u64| {
        let sum: u64 = view.snapshots.iter().map(|snapshot| part(&snapshot.verified)).sum();
        usize::try_from(sum).unwrap_or(usize::MAX)
    };
    let lists: [(&str, usize); 22] = [
        // Plus the console.
        ("databases", databases::all(view).len() + 1),
        ("users", users::all(view).len()),
        ("peers", view.settings.peers.len()),
        ("pools", pools::all(view).len()),
        ("peer_pools", peers::peer_pools(view).len()),
        ("free_clients", clients_free),
        ("used_clients", clients_used),
        ("login_clients", sum(|snapshot| snapshot.login_clients)),
        ("free_servers", servers_free),
        ("used_servers", servers_used),
        ("dns_names", sum(|snapshot| snapshot.names)),
        ("dns_zones", view.zones.rows().count()),
        ("dns_queries", sum(|snapshot| snapshot.names_asked) + view.zones.under_way()),
        ("dns_pending", 0),
        // Ours: stays 0 as long as no server breaks the protocol.
        ("protocol_violations", usize::try_from(violations).unwrap_or(usize::MAX)),
        // Ours: since the log was opened.
        ("log_lines_lost", usize::try_from(view.log_lines_lost).unwrap_or(usize::MAX)),
        // Ours: how often `session_verify` compared a session with its server, and how often they differed.
        ("sessions_verified", verified(|verified| verified.sessions)),
        ("sessions_mistaken", verified(|verified| verified.mistaken)),
        // Ours: passwords that are being hashed for SCRAM, and those that wait to be hashed.
        ("passwords_hashing", view.hashings.under_way()),
        ("passwords_waiting", view.hashings.waiting()),
        // Ours: connections that have not logged in, and how many such connections were refused or displaced by others.
        ("unauthenticated", sum(|snapshot| snapshot.unauthenticated)),
        ("unauthenticated_refused", usize::try_from(turned_away).unwrap_or(usize::MAX)),
    ];
    lists.into_iter().map(|(name, items)| vec![text(name), number(items)]).collect()
}

/// Sums the used and free rows of a table over all workers.
fn table(view: &View<'_>, name: &str) -> (usize, usize) {
    let tables = view.snapshots.iter().flat_map(|snapshot| &snapshot.tables);
    let wanted = tables.filter(|table| table.name == name);
    wanted.fold((0, 0), |(used, free), table| (used + table.used, free + table.free))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use worker::letters::TableRow;

    #[test]
    fn the_columns_are_pgbouncers() {
        assert_eq!(heads("LISTS"), "list s, items i");
    }

    #[test]
    fn the_lists_are_in_pgbouncers_order_and_sum_all_workers() {
        let settings = settings("[databases]\nd =\n[pgbouncer]\nauth_type=any\n");
        let tables = |used| {
            vec![
                TableRow { name: "client_cache", size: 1, used, free: 2 },
                TableRow { name: "server_cache", size: 1, used: used + 1, free: 0 },
                TableRow { name: "iobuf_cache", size: 1, used: 99, free: 99 },
            ]
        };
        let first = Snapshot {
            tables: tables(3),
            login_clients: 1,
            unauthenticated: 2,
            turned_away: 3,
            names: 2,
            names_asked: 1,
            pools: vec![pool_row("d", "u"), pool_row("d", "v")],
            ..Snapshot::default()
        };
        let verified = Verified { sessions: 7, mistaken: 1 };
        let second = Snapshot {
            tables: tables(5),
            login_clients: 2,
            verified,
            unauthenticated: 5,
            turned_away: 1,
            ..Snapshot::default()
        };
        assert_eq!(
            lines(&table_of("LISTS", &settings, "\"u\" \"\"\n", &[first, second])),
            [
                "databases|2",
                "users|2",
                "peers|0",
                "pools|3",
                "peer_pools|0",
                "free_clients|4",
                "used_clients|8",
                "login_clients|3",
                "free_servers|0",
                "used_servers|10",
                "dns_names|2",
                "dns_zones|1",
                "dns_queries|1",
                "dns_pending|0",
                "protocol_violations|0",
                "log_lines_lost|0",
                "sessions_verified|7",
                "sessions_mistaken|1",
                "passwords_hashing|0",
                "passwords_waiting|0",
                "unauthenticated|7",
                "unauthenticated_refused|4",
            ]
        );
    }
}
