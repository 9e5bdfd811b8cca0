//! Cheap measurements of transactions, statements, servers and logins.
//!
//! Always true: no sockets, no clock, no allocation per transaction; each value belongs to a single thread.
//! Not here: the events that are measured (`worker`), their display (`control`).

mod connections;
mod division;
mod failed_queries;
mod failures;
mod heaviest;
mod histogram;
mod hosts;
mod opened;

pub use connections::{CancelRequest, Connections, HandshakeOutcome, HandshakePeer, LoginOutcome, LoginStep};
pub use division::{Division, PHASES, Phase, Spent, Sums};
pub use failed_queries::{Excess, FailedQueries};
pub use failures::{Failing, Failure, Failures, KEPT, Recent, WINDOW};
pub use heaviest::{Call, Description, Heaviest, ROWS_MAX, Room, STATES_MAX, Statement, StatementSums};
pub use histogram::{Histogram, Histograms, QUANTILE_ERROR};
pub use hosts::{HostRole, Hosts, KnownHost, LoginEnd, merged};
pub use opened::{Closed, Lives, Opened};
