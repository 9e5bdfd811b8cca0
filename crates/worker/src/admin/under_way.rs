//! The snapshots that a worker was asked for: how far each has been read, and what was counted so far.
//!
//! Always true: the first one is being taken, and the others wait; every client and every server is counted once, unless
//! it moves meanwhile.
//! Not here: reading the rows (`slices`), what is in them (`snapshot`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pool::PoolKey;

use crate::letters::{Parts, Snapshot, WaitRow};

/// The snapshots that were asked for, in this order. The first one is being taken.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(pub(super) VecDeque<UnderWay>);

impl Snapshots {
    pub(crate) fn ask(&mut self, question: u64, what: Parts) {
        self.0.push_back(UnderWay {
            question,
            what,
            place: Place::Start,
            tallies: Tallies::default(),
            snapshot: Box::default(),
        });
    }

    /// Whether the next turn has to go on.
    pub(crate) fn is_any_under_way(&self) -> bool {
        !self.0.is_empty()
    }
}

/// A snapshot that is being taken.
#[derive(Debug)]
pub(crate) struct UnderWay {
    /// The control thread's number for it.
    pub(super) question: u64,
    pub(super) what: Parts,
    pub(super) place: Place,
    pub(super) tallies: Tallies,
    pub(super) snapshot: Box<Snapshot>,
}

/// The row that is read next. The tables are read in this order.
#[derive(Debug)]
pub(super) enum Place {
    /// Nothing has been read.
    Start,
    /// The client at this place of its table.
    Clients(u32),
    /// The server at this place.
    Servers(u32),
    /// The pool behind the one with these numbers of its database and user.
    Pools(Option<(u32, u32)>),
    /// The database of this number.
    Databases(u32),
    /// The channel behind this one, of the database of this number.
    Channels(u32, Option<Box<str>>),
    /// The user behind the one of this name.
    Users(Option<Arc<str>>),
    /// The name of a host behind this one.
    Names(Option<Arc<str>>),
    /// Everything that is small.
    Rest,
}

/// What is counted before the rows are made to which it belongs.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    pub(super) pools: BTreeMap<PoolKey, PoolTally>,
    pub(super) databases: BTreeMap<u32, DatabaseTally>,
    /// The servers of each user.
    pub(super) users: BTreeMap<u32, u32>,
    /// Clients of the console.
    pub(super) consoles: u32,
    /// All servers.
    pub(super) servers: usize,
    /// Rows of clients that wait for the first server of their pool, of others that wait, and of those that have a
    /// server.
    pub(super) waits: [Vec<WaitRow>; 3],
}

/// The clients and servers of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PoolTally {
    pub(super) cl_active: u32,
    pub(super) cl_waiting: u32,
    pub(super) sv_active: u32,
    pub(super) sv_being_canceled: u32,
    pub(super) sv_idle: u32,
    pub(super) sv_used: u32,
    pub(super) sv_tested: u32,
    pub(super) sv_login: u32,
}

/// The servers and pools of a database.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DatabaseTally {
    pub(super) servers: u32,
    pub(super) has_pool: bool,
    /// Whether session state follows the clients of one of its pools.
    pub(super) follows: bool,
}
