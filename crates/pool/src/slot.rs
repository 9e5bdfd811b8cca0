//! The states of a server as its pool sees it, and the table of moves between them.
//!
//! Always true: [`State::after`] is the only way from one state to another, and a pair of state and move that is not in
//! its table is refused.
//! Not here: who decides on a move (`pool`), the lists that follow from the state (`pool_servers`).

use base::Time;

use crate::list::{Linked, Links};
use crate::planted::{frees_its_slot, is_for_anybody};
use crate::{ClientKey, Fingerprint, PoolKey};

/// The state of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There is no server; the slot may be reused.
    Free,
    /// The server is being dialed or logged in to.
    Dialing,
    /// The server waits for a client.
    Idle,
    /// The server is lent to a client.
    Lent,
    /// The server is being reset, checked or cleaned up for the next client.
    Cleaning(Work),
    /// A dedicated server is being dialed or logged in to for its client.
    Dedicating,
    /// The server belongs to one client until it is closed.
    Dedicated,
    /// The connection is being closed.
    Closing,
}

/// The work done on a server between two clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// The reset query runs.
    Reset,
    /// The check query runs, because a client waits and the server has been idle for `server_check_delay`.
    Check,
    /// The worker cancels, rolls back and resets the session that an abandoned loan left behind.
    Cleanup,
}

/// A change of a server's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// A login begins.
    Dial,
    /// The server is taken over from another process, logged in.
    Arrive,
    /// The login is complete.
    Ready,
    /// The server is lent to a client.
    Attach,
    /// The loan is over and nothing has to be done.
    Return,
    /// The loan is over and this work begins, or the check of an idle server begins.
    Work(Work),
    /// The work has succeeded.
    Clean,
    /// A dedicated login begins.
    Dedicate,
    /// The dedicated login is complete.
    Bind,
    /// The server is to be closed.
    Expire,
    /// The connection has been closed on the pool's order.
    Close,
    /// The connection has ended without an order.
    Lose,
}

impl State {
    /// The state after a move; `None` if the move is not allowed in this state.
    #[inline]
    pub(crate) fn after(self, by: Move) -> Option<Self> {
        use State::{Cleaning, Closing, Dedicated, Dedicating, Dialing, Free, Idle, Lent};
        Some(match (self, by) {
            (Free, Move::Dial) => Dialing,
            (Free, Move::Arrive) => Idle,
            (from, Move::Ready) if is_for_anybody(from) => Idle,
            (Idle, Move::Attach) => Lent,
            (Idle, Move::Work(Work::Check)) => Cleaning(Work::Check),
            (Lent, Move::Return) => Idle,
            (Lent, Move::Work(work @ (Work::Reset | Work::Cleanup))) => Cleaning(work),
            (Cleaning(_), Move::Clean) => Idle,
            (Free, Move::Dedicate) => Dedicating,
            (Dedicating, Move::Bind) => Dedicated,
            (Dialing | Idle | Lent | Cleaning(_) | Dedicating | Dedicated, Move::Expire) => Closing,
            (Closing, Move::Close) => Free,
            (from, Move::Lose) if frees_its_slot(from) => Free,
            _ => return None,
        })
    }
}

/// The right to have one server, and the pool's record of that server.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) pool: PoolKey,
    pub(crate) state: State,
    /// When the server entered this state.
    pub(crate) since: Time,
    /// When the login began; after the login, when it was completed.
    pub(crate) born: Time,
    /// The era of the pool in which the server was dialed; in a later era it is obsolete.
    pub(crate) era: u32,
    /// Whether the ledger counts the server against the limit of its user.
    pub(crate) is_granted: bool,
    /// The client of a dedicated server.
    pub(crate) owner: Option<Owner>,
    /// The settings of the session, as far as they are known.
    pub(crate) fingerprint: Fingerprint,
    links: Links,
}

impl Slot {
    /// Returns a free slot of a pool.
    pub(crate) fn new(pool: PoolKey, now: Time, era: u32, is_granted: bool) -> Self {
        let (owner, fingerprint) = (None, Fingerprint::default());
        Self {
            pool,
            state: State::Free,
            since: now,
            born: now,
            era,
            is_granted,
            owner,
            fingerprint,
            links: Links::default(),
        }
    }
}

/// The client of a dedicated server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) client: ClientKey,
    /// When the client began to wait.
    pub(crate) since: Time,
}

impl Linked for Slot {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 10] = [
        State::Free,
        State::Dialing,
        State::Idle,
        State::Lent,
        State::Cleaning(Work::Reset),
        State::Cleaning(Work::Check),
        State::Cleaning(Work::Cleanup),
        State::Dedicating,
        State::Dedicated,
        State::Closing,
    ];

    const MOVES: [Move; 14] = [
        Move::Dial,
        Move::Arrive,
        Move::Ready,
        Move::Attach,
        Move::Return,
        Move::Work(Work::Reset),
        Move::Work(Work::Check),
        Move::Work(Work::Cleanup),
        Move::Clean,
        Move::Dedicate,
        Move::Bind,
        Move::Expire,
        Move::Close,
        Move::Lose,
    ];

    /// `Cleaning(Reset)` as `reset`, to keep the table on a page.
    fn short(value: impl std::fmt::Debug) -> String {
        let text = format!("{value:?}").to_lowercase();
        text.split_once('(').map_or(text.clone(), |(_, work)| work.trim_end_matches(')').to_owned())
    }

    #[test]
    fn the_table_of_moves_is_the_committed_one() {
        let row = |name: &str, cells: [String; 10]| {
            format!("{name:<10}{}", cells.map(|cell| format!("{cell:>11}")).concat().trim_end()) + "\n"
        };
        let mut table = row("", STATES.map(short));
        for by in MOVES {
            table += &row(&short(by), STATES.map(|state| state.after(by).map_or("-".to_owned(), short)));
        }
        assert_eq!(table, include_str!("slot_moves.txt"), "the table is now:\n{table}");
    }
}
