//! The life of a server as its pool sees it, as one table of moves.
//!
//! Always true: [`State::after`] is the only way from one state to another, and a pair of state and move that is not in
//! its table does not happen.
//! Not here: who decides on a move (`pool`), the lists that follow from the state (`servers`).

use base::Time;

use crate::list::{Linked, Links};
use crate::planted::{frees_its_slot, is_for_anybody};
use crate::{ClientKey, Fingerprint, PoolKey};

/// Where a server stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There is no server; the slot may be taken by another.
    Free,
    /// The login is on its way.
    Dialing,
    /// It waits for a client.
    Idle,
    /// A client has it.
    Lent,
    /// It is made or proven fit for the next client.
    Cleaning(Work),
    /// The login is on its way for one client alone.
    Dedicating,
    /// It is that client's, and nobody else's, as long as it lasts.
    Dedicated,
    /// The connection is being closed.
    Closing,
}

/// What is done to a server between two clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// The reset query runs.
    Reset,
    /// The check query runs, because a client waits and the server has been idle for long.
    Check,
    /// The worker cancels, rolls back and resets what an abandoned loan left behind.
    Cleanup,
}

/// What may happen to a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// A login begins.
    Dial,
    /// It comes from another process, logged in.
    Arrive,
    /// The login is complete.
    Ready,
    /// A client gets it.
    Attach,
    /// The loan is over and nothing has to be done.
    Return,
    /// The loan is over and this has to be done, or an idle one has to be checked.
    Work(Work),
    /// What had to be done is done.
    Clean,
    /// A login begins for one client alone.
    Dedicate,
    /// That login is complete.
    Bind,
    /// It is to be closed.
    Expire,
    /// It has been closed on order.
    Close,
    /// The connection ended by itself.
    Lose,
}

impl State {
    /// Where the move leads, or nothing if it is forbidden.
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

/// The right to have one server, and what the pool knows about the server in it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) pool: PoolKey,
    pub(crate) state: State,
    /// Since when it stands there.
    pub(crate) since: Time,
    /// When the login began, then when it was complete.
    pub(crate) born: Time,
    /// The era of the pool in which it was dialed; in a later one it is obsolete.
    pub(crate) era: u32,
    /// Whether the ledger counts it against the limit of its user.
    pub(crate) is_granted: bool,
    /// For whom alone it is.
    pub(crate) owner: Option<Owner>,
    /// What is set in its session, as far as is known.
    pub(crate) fingerprint: Fingerprint,
    links: Links,
}

impl Slot {
    /// A free slot of a pool, from now on.
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

/// The client that a dedicated server is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) client: ClientKey,
    /// Since when it waits, or has waited.
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
