//! What a dedicated server knows of its client.
//!
//! Always true: the server is this client's alone, from before its login to its end.
//! Not here: how the two are bound (`dedicated`).

use std::borrow::Cow;

use pool::ClientKey;
use protocol::replication::Replication;

/// What a dedicated server knows of its client.
#[derive(Debug)]
pub(crate) struct Dedicated {
    pub(super) client: ClientKey,
    pub(super) kind: Replication,
    /// The client's parameters for the startup packet: a walsender cannot be given them in any other way.
    pub(super) parameters: Vec<(Cow<'static, str>, Box<str>)>,
}

impl Dedicated {
    pub(crate) fn client(&self) -> ClientKey {
        self.client
    }

    pub(crate) fn kind(&self) -> Replication {
        self.kind
    }

    /// Whether the server understands SQL: a walsender without a database does not.
    pub(crate) fn takes_queries(&self) -> bool {
        self.kind == Replication::Logical
    }
}

/// Why a dedicated server is closed whose client has gone before the server was ready.
pub(crate) const CLIENT_GONE: &str = "replication client disconnected";
pub(crate) const CLIENT_GONE_IN_THE_MIDDLE: &str = "client disconnect while server was not ready";
