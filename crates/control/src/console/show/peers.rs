//! `SHOW PEERS` and `SHOW PEER_POOLS`: the other processes of a group that shares a port.

use worker::letters::{Parts, PeerRow};

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};

pub(super) const PEERS: Subject = Subject {
    name: "PEERS",
    doc: "The peers of this process (`[peers]`).",
    parts: NOTHING,
    own_columns: 0,
    columns: &[Column::int("peer_id"), Column::text("host"), Column::int("port"), Column::int("pool_size")],
    rows: peers,
};

pub(super) const PEER_POOLS: Subject = Subject {
    name: "PEER_POOLS",
    doc: "The cancel requests that are under way to peers.",
    parts: Parts { pools: true, ..NOTHING },
    own_columns: 0,
    columns: &[
        Column::int("peer_id"),
        Column::int("cl_active_cancel_req"),
        Column::int("cl_waiting_cancel_req"),
        Column::int("sv_active_cancel"),
        Column::int("sv_login"),
    ],
    rows: peer_pools,
};

fn peers(view: &View<'_>) -> Vec<Vec<Cell>> {
    let peers = view.settings.peers.values();
    let row = |peer: &config::Peer| {
        let pool_size = peer.pool_size.unwrap_or(view.settings.default_pool_size);
        vec![number(peer.id), text(&*peer.host_text), number(peer.port), number(pool_size)]
    };
    peers.map(row).collect()
}

/// All cancel requests for a peer are handled by one worker.
pub(super) fn peer_pools(view: &View<'_>) -> Vec<Vec<Cell>> {
    let mut rows: Vec<_> = view.snapshots.iter().flat_map(|snapshot| &snapshot.peers).collect();
    rows.sort_by_key(|row| row.peer);
    let cells = |row: &PeerRow| {
        // Each forwarded request has a connection of its own.
        vec![number(row.peer), number(row.active), number(row.waiting), number(row.active), number(row.dialing)]
    };
    rows.into_iter().map(cells).collect()
}

#[cfg(test)]
mod tests {
    use worker::letters::Snapshot;

    use super::super::tests::*;
    use super::*;

    #[test]
    fn peers_are_shown_with_what_they_inherit() {
        assert_eq!(heads("PEERS"), "peer_id i, host s, port i, pool_size i");
        assert_eq!(
            heads("PEER_POOLS"),
            "peer_id i, cl_active_cancel_req i, cl_waiting_cancel_req i, sv_active_cancel i, sv_login i"
        );
        let settings = settings("[peers]\n2 = host=a port=7\n1 = host=/run pool_size=3\n[pgbouncer]\nauth_type=any\n");
        assert_eq!(lines(&table_of("PEERS", &settings, "", &[])), ["1|/run|6432|3", "2|a|7|20"]);
    }

    #[test]
    fn the_requests_for_each_peer_are_shown_in_the_order_of_peers() {
        let settings = settings("[pgbouncer]\nauth_type=any\n");
        let row = |peer, active| PeerRow { peer, active, waiting: 2, dialing: 1 };
        let snapshot = |peers| Snapshot { peers, ..Snapshot::default() };
        let snapshots = [snapshot(vec![row(4, 0), row(2, 3)]), snapshot(vec![row(3, 1)])];
        assert_eq!(lines(&table_of("PEER_POOLS", &settings, "", &snapshots)), ["2|3|2|3|1", "3|1|2|1|1", "4|0|2|0|1"]);
    }
}
