//! Why nobody can have a server any more.
//!
//! Always true: what a server has been sent comes before what else there is to be said of it.
//! Not here: when that is decided (`ending`).

use crate::exchange::Exchange;

/// Why nobody can have a server any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It may answer more than it was asked. See [`Exchange::is_proven`].
    Unproven,
    /// PostgreSQL 18 would fail with whatever comes next. See [`Exchange::may_be_lent`].
    Mixed,
    /// Its client left in the middle of a message, whose rest it waits for.
    TornRequest,
    /// It is in the middle of a message that it says by itself, whose rest is its client's.
    TornAnswer,
    /// Its client left what only the end of the session ends.
    Undiscardable,
    /// It does not take what its client has set.
    NotTakenOver,
    /// It was cancelled while it was told that: nobody knows whether it has taken it.
    ToldCancelled,
    /// What it was told to be made clean has failed, or has not helped.
    NotClean,
}

impl Unfit {
    /// Why a server is closed that may not be lent again ([`Exchange::may_be_lent`]).
    #[must_use]
    pub fn of(exchange: &Exchange) -> Self {
        if exchange.is_proven() { Self::Mixed } else { Self::Unproven }
    }

    /// Why a server cannot be made clean: because of what it has been sent, or because of `otherwise`.
    pub(super) fn hopeless(exchange: &Exchange, otherwise: Self) -> Self {
        if exchange.may_be_lent() { otherwise } else { Self::of(exchange) }
    }

    /// As the log has it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Unproven => "unproven after a failed COPY",
            Self::Mixed => "Query or FunctionCall in a batch of the extended protocol",
            Self::TornRequest => "client disconnect before everything was sent to the server",
            Self::TornAnswer => "its client left in the middle of a message that the server sent by itself",
            Self::Undiscardable => "its client left what cannot be discarded",
            Self::NotTakenOver => "invalid server parameter",
            Self::ToldCancelled => "what it was told has been cancelled",
            Self::NotClean => "could not be made clean",
        }
    }
}
