//! What workers tell each other when functions are created.
//!
//! Always true: the message names the worker and the database that know already, and is ignored there.
//! Not here: how that is noticed (`catalog`).

use base::WorkerId;
use reactor::Address;

/// Functions of a database are being created, or have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionsMade {
    /// The worker that knows of them, and for which of its databases.
    pub(super) known: (WorkerId, u32),
    /// The name of the database on the server,
    pub(super) dbname: Box<str>,
    /// and the server's address.
    pub(super) address: Address,
}
