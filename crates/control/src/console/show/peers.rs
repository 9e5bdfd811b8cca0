//! `SHOW PEERS` and `SHOW PEER_POOLS`: the other processes of a group that shares a port.

use super::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};

pub(super) const PEERS: Subject = Subject {
    name: "PEERS",
    parts: NOTHING,
    columns: &[Column::int("peer_id"), Column::text("host"), Column::int("port"), Column::int("pool_size")],
    rows: peers,
};

pub(super) const PEER_POOLS: Subject = Subject {
    name: "PEER_POOLS",
    parts: NOTHING,
    columns: &[
        Column::int("peer_id"),
        Column::int("cl_active_cancel_req"),
        Column::int("cl_waiting_cancel_req"),
        Column::int("sv_active_cancel"),
        Column::int("sv_login"),
    ],
    // There are none: a cancel request for a peer is not passed on in this version.
    rows: |_: &View<'_>| Vec::new(),
};

fn peers(view: &View<'_>) -> Vec<Vec<Cell>> {
    let peers = view.settings.peers.values();
    let row = |peer: &config::Peer| {
        let pool_size = peer.pool_size.unwrap_or(view.settings.default_pool_size);
        vec![number(peer.id), text(&*peer.host_text), number(peer.port), number(pool_size)]
    };
    peers.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

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
}
