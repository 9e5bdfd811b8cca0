//! Where the time of transactions goes: the server, the network or client, the pooler.
//!
//! Always true: the parts are not negative and sum to the whole. The server alone cannot tell a slow client from a slow pooler: it sees only
//! that nobody takes its rows. The pooler knows when its client's socket was full; what the server waited beyond that, the pooler caused. A pooler that
//! waits for a processor sees everything late, so that as large a share of what it measured is its own as it waited of the time.
//! Not here: taking samples and counters.

use crate::facts::{Phases, Tally, Waits};

/// The division, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Division {
    /// Statements ran on the server.
    pub(crate) server: f64,
    /// The client, or the network to it: rows not taken, requests not sent in a transaction.
    pub(crate) client: f64,
    /// Clients waited in the pooler, or the pooler did not pass on what it could.
    pub(crate) pooler: f64,
    /// Of the pooler's part, the wait for a server.
    pub(crate) waiting: f64,
    /// Of the pooler's part, what it saw late because it waited for a processor; absent if that is not known.
    pub(crate) starved: Option<f64>,
    /// How well it is known.
    pub(crate) kind: Kind,
}

/// How well a division is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Trunkline's own division, merged with the server's waits.
    Measured,
    /// Trunkline's own division alone.
    OfPooler,
    /// PgBouncer's waits and times, which do not tell a slow client from a slow pooler.
    Approximate,
    /// The server's samples alone: the pooler's part is in the client's.
    OfServer,
}

impl Division {
    /// The whole, in seconds.
    pub(crate) fn total(&self) -> f64 {
        self.server + self.client + self.pooler
    }
}

/// Divides the time of the transactions that a pooler has counted; without a pooler, that of the sessions on the server. `starved` is the share of the
/// time for which the pooler waited for a processor.
pub(crate) fn divide(tally: Option<&Tally>, waits: Option<&Waits>, starved: Option<f64>) -> Option<Division> {
    let mut division = whole(tally, waits)?;
    if let Some(share) = starved.filter(|_| division.kind != Kind::OfServer) {
        // What the server was seen to work on, it did work on.
        let worked = waits.map_or(0.0, worked).min(division.server);
        let late = (division.server * share).min(division.server - worked);
        let unseen = division.client * share;
        division.server -= late;
        division.client -= unseen;
        division.pooler += late + unseen;
        division.starved = Some(late + unseen);
    }
    Some(division)
}

/// How long sessions were running a statement and did not wait for somebody to take rows, in seconds.
fn worked(waits: &Waits) -> f64 {
    (waits.active() - waits.waiting_for(&["ClientWrite"])) * waits.seconds / waits.samples.max(1) as f64
}

fn whole(tally: Option<&Tally>, waits: Option<&Waits>) -> Option<Division> {
    // How long sessions waited for somebody to take rows.
    let unsent = waits.map(|waits| waits.waiting_for(&["ClientWrite"]) / waits.samples.max(1) as f64 * waits.seconds);
    let division = match (tally, tally.and_then(|tally| tally.phases)) {
        (_, Some(phases)) => ours(&phases, unsent),
        (Some(tally), None) => {
            // PgBouncer's clocks of a transaction and of a query begin when the client's request comes, before a server is found, and end when the
            // client has the answer: what of a query the server did not work on, others took.
            let (waiting, held) = (tally.wait_time, (tally.transaction_time - tally.wait_time).max(0.0));
            let queries = (tally.query_time - tally.wait_time).clamp(0.0, held);
            let server = queries.min(waits.map_or(f64::INFINITY, worked));
            Division { server, client: held - server, pooler: waiting, waiting, starved: None, kind: Kind::Approximate }
        }
        (None, _) => {
            let waits = waits?;
            let each = waits.seconds / waits.samples.max(1) as f64;
            let client = waits.at_client() * each;
            Division {
                server: waits.busy() * each - client,
                client,
                pooler: 0.0,
                waiting: 0.0,
                starved: None,
                kind: Kind::OfServer,
            }
        }
    };
    (division.total() > 0.0).then_some(division)
}

fn ours(phases: &Phases, unsent: Option<f64>) -> Division {
    let at_server = phases.first_byte + phases.streaming;
    // Rows that the server could not send while no client of ours was slow.
    let ours = unsent.map_or(0.0, |unsent| (unsent - phases.client_blocked).clamp(0.0, phases.streaming));
    Division {
        server: at_server - ours,
        client: phases.client_blocked + phases.client_thinking,
        pooler: phases.waiting + phases.settings + ours,
        waiting: phases.waiting,
        starved: None,
        kind: if unsent.is_some() { Kind::Measured } else { Kind::OfPooler },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::waits;

    fn phases(streaming: f64, client_blocked: f64) -> Tally {
        let phases =
            Phases { waiting: 1.0, settings: 0.5, first_byte: 2.0, streaming, client_blocked, client_thinking: 0.5 };
        Tally { phases: Some(phases), ..Tally::default() }
    }

    #[test]
    fn rows_that_a_client_does_not_take_are_the_clients() {
        // 10 s in which one session always waits to send.
        let waits = waits(1000, &[("active", "Client", "ClientWrite", 1)]);
        let division = divide(Some(&phases(0.5, 9.5)), Some(&waits), None).expect("time");
        assert_eq!((division.client, division.kind), (10.0, Kind::Measured));
        assert_eq!((division.server, division.pooler), (2.0, 2.0));
    }

    #[test]
    fn rows_that_nobody_takes_while_no_client_is_slow_are_the_poolers() {
        let waits = waits(1000, &[("active", "Client", "ClientWrite", 1)]);
        let division = divide(Some(&phases(10.0, 0.0)), Some(&waits), None).expect("time");
        assert_eq!((division.server, division.client, division.pooler), (2.0, 0.5, 11.5));
        assert_eq!(division.total(), 14.0);
    }

    #[test]
    fn what_a_pooler_sees_late_because_it_has_no_processor_is_its_own() {
        // Clients are fast, and the pooler had a fifth of the processor time that it wanted: it saw their sockets full for 9.5 s.
        let waits = waits(1000, &[("active", "Client", "ClientWrite", 1)]);
        let division = divide(Some(&phases(0.5, 9.5)), Some(&waits), Some(0.8)).expect("time");
        assert!((division.client - 2.0).abs() < 1e-9 && (division.total() - 14.0).abs() < 1e-9, "{division:?}");
        assert!((division.starved.expect("known") - 9.6).abs() < 1e-9, "{division:?}");
        // A server that was seen at work was at work.
        let waits = crate::facts::waits(1000, &[("active", "", "", 1)]);
        let division = divide(Some(&phases(0.5, 9.5)), Some(&waits), Some(0.8)).expect("time");
        assert_eq!(division.server, 2.5);
        // With a slow client the pooler sleeps.
        let division = divide(Some(&phases(0.5, 9.5)), None, Some(0.0)).expect("time");
        assert_eq!((division.client, division.starved), (10.0, Some(0.0)));
    }

    #[test]
    fn with_pgbouncer_it_is_approximate_and_with_nothing_the_server_tells_two_parts() {
        let tally = Tally { transactions: 1.0, transaction_time: 11.0, query_time: 9.0, wait_time: 3.0, phases: None };
        let division = divide(Some(&tally), None, None).expect("time");
        assert_eq!(
            (division.server, division.client, division.pooler, division.kind),
            (6.0, 2.0, 3.0, Kind::Approximate)
        );
        // Three sessions worked for the second of the samples, seven had rows that nobody took.
        let half = waits(100, &[("active", "", "", 3), ("active", "Client", "ClientWrite", 7)]);
        let division = divide(Some(&tally), Some(&half), None).expect("time");
        assert_eq!((division.server, division.client, division.pooler), (3.0, 5.0, 3.0));
        let waits = waits(100, &[("active", "", "", 3), ("idle in transaction", "Client", "ClientRead", 1)]);
        let division = divide(None, Some(&waits), None).expect("time");
        assert_eq!((division.server, division.client, division.kind), (3.0, 1.0, Kind::OfServer));
        assert_eq!(divide(None, None, None), None);
        assert_eq!(divide(Some(&Tally::default()), None, None), None);
    }
}
