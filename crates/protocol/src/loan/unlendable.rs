//! Why a server cannot be lent any more.
//!
//! Always true: a reason that lies in what the server was sent takes precedence over any other reason.
//! Not here: when that is decided (`ending`).

use crate::exchange::Exchange;

/// Why a server cannot be lent any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unlendable {
    /// The server may answer more than it was asked. See [`Exchange::is_proven`].
    Unproven,
    /// PostgreSQL 18 would fail at the next message. See [`Exchange::may_be_lent`].
    Mixed,
    /// The client left in the middle of a message, and the server waits for the rest.
    TornRequest,
    /// The server is in the middle of an unsolicited message whose beginning went to the client that has left.
    TornAnswer,
    /// The client left behind what only the end of the session ends.
    Undiscardable,
    /// The server rejects the client's session state.
    NotTakenOver,
    /// The apply of the client's session state was cancelled, so it is unknown whether the server has it.
    ToldCancelled,
    /// A cleanup query failed, or did not make the server clean.
    NotClean,
}

impl Unlendable {
    /// Why a server is closed that may not be lent again ([`Exchange::may_be_lent`]).
    #[must_use]
    pub fn of(exchange: &Exchange) -> Self {
        if exchange.is_proven() { Self::Mixed } else { Self::Unproven }
    }

    /// Why a server cannot be cleaned: because of what it was sent, or else because of `otherwise`.
    pub(super) fn hopeless(exchange: &Exchange, otherwise: Self) -> Self {
        if exchange.may_be_lent() { otherwise } else { Self::of(exchange) }
    }

    /// The reason as the log words it.
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
