//! What a server has to know of the client whose it is.
//!
//! Always true: it is one client's alone, from before its login to its end.
//! Not here: how the two come together (`dedicated`).

use std::borrow::Cow;

use pool::ClientKey;
use protocol::replication::Replication;

/// What a server has to know of the client whose it is.
#[derive(Debug)]
pub(crate) struct Dedicated {
    pub(crate) client: ClientKey,
    pub(crate) kind: Replication,
    /// What the client said, for the startup packet: there is no other way to tell a walsender.
    pub(super) parameters: Vec<(Cow<'static, str>, Box<str>)>,
}

impl Dedicated {
    /// Whether it understands SQL: a walsender without a database does not.
    pub(crate) fn takes_queries(&self) -> bool {
        self.kind == Replication::Logical
    }
}

/// Why a server is closed whose client has gone before it was ready.
pub(crate) const CLIENT_GONE: &str = "replication client disconnected";
pub(crate) const CLIENT_GONE_IN_THE_MIDDLE: &str = "client disconnect while server was not ready";
