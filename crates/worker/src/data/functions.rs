//! What workers tell each other of functions that are made.
//!
//! Always true: whoever knows already is named, and does not hear it again.
//! Not here: who notices (`catalog`).

use base::WorkerId;
use reactor::Address;

/// Functions of a database are being made, or have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionsMade {
    /// Which worker knows of that, and for which of its databases.
    pub(super) known: (WorkerId, u32),
    /// The database on the server,
    pub(super) dbname: Box<str>,
    /// and where that is.
    pub(super) address: Address,
}
