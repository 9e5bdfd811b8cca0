//! What a load is made of: lanes of connections, requests, and who decides what is asked.
//!
//! Always true: a request says for itself when it was to be sent; how it ended says so, too.
//! Not here: sending (`driver`).

use std::sync::Arc;

use super::Law;
use super::session::{Login, LoginTimes, Refused};
use super::tally::Passage;

/// Connections that are alike and serve the same requests, as those of one process of an application do.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) login: Arc<Login>,
    /// Connections at once; 0 is no limit.
    pub(crate) clients_max: u32,
    /// Requests that may wait for a connection; one more is skipped.
    pub(crate) waiting_max: usize,
    /// A connection is closed after this many requests; 0 is never, 1 is a connection for each request.
    pub(crate) requests_max: u32,
    /// A connection is closed when it has been idle for so long, in microseconds.
    pub(crate) idle_max: Option<u64>,
    /// A connection is closed at the end of its first request after a time by this law.
    pub(crate) lifetime: Option<Law>,
}

/// A request: statements one after the other on one connection.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Request {
    /// When it is to be sent, in microseconds of the run.
    pub(crate) at: u64,
    /// The number of its lane.
    pub(crate) lane: u32,
    /// What the traffic knows it by.
    pub(crate) tag: u64,
    /// At least one, of which the first is a question.
    pub(crate) steps: Vec<Step>,
}

/// A step of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A statement, by the simple protocol.
    Ask(Arc<str>),
    /// The connection is kept and nothing is asked, for so many microseconds.
    Think(u64),
}

/// What a traffic wants done.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    Send(Request),
    /// A further lane, with the next number.
    AddLane(Lane),
    /// A lane opens this many connections before it needs them.
    Open {
        lane: u32,
        clients: u32,
    },
    /// A lane gets no more requests; its connections close when they are idle.
    Retire {
        lane: u32,
    },
}

/// A request that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    pub(crate) tag: u64,
    pub(crate) lane: u32,
    pub(crate) passage: Passage,
    /// When the first statement was answered without an error; `None` if it never was.
    pub(crate) first_answered: Option<u64>,
    /// How many steps were begun.
    pub(crate) begun: usize,
    /// How many steps were over, without an error.
    pub(crate) over: usize,
    /// The error, if it ended with one.
    pub(crate) error: Option<Refused>,
}

/// Decides what is asked, and when.
pub(crate) trait Traffic {
    /// When something is to be done next, in microseconds of the run; `None` if nothing is planned, and nothing will be unless a request ends.
    fn next_at(&self) -> Option<u64>;
    /// The time has come.
    fn due(&mut self, now: u64, orders: &mut Vec<Order>);
    /// A request has ended.
    fn ended(&mut self, now: u64, ended: &Ended);
    /// A connection is logged in, or could not be opened.
    fn opened(&mut self, lane: u32, opened: Result<&LoginTimes, &Refused>);
    /// A connection has ended, whoever ended it.
    fn closed(&mut self, _lane: u32) {}
}

/// What the generator itself needed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Effort {
    /// Of the run, in microseconds.
    pub(crate) wall: u64,
    /// Processor time of the thread, in microseconds.
    pub(crate) cpu: u64,
    /// The most connections at once.
    pub(crate) clients_peak: u32,
}

impl Effort {
    /// The share of a processor, from 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.cpu as f64 / self.wall.max(1) as f64
    }
}

/// Limits of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    /// A request is not waited for any longer, from the moment at which the generator came to it; in microseconds.
    pub(crate) request_max: u64,
    /// After the last request is due, the run ends after so long at the latest.
    pub(crate) drain_max: u64,
}
