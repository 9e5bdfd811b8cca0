//! What is measured of transactions, for nearly nothing: where their time goes, and how it is spread.
//!
//! Always true: no sockets, no clock, no allocation for each transaction; whoever measures is one thread.
//! Not here: which moment is which (`worker`), how it is told (`control`).

mod connections;
mod division;
mod heaviest;
mod histogram;
mod opened;
mod words;

pub use connections::{CancelRequest, Connections, HandshakeOutcome, HandshakePeer, LoginOutcome, LoginStep};
pub use division::{Division, PHASES, Phase, Spent, Sums};
pub use heaviest::{Call, Description, Heaviest, ROWS_MAX, Room, STATES_MAX, Statement, StatementSums};
pub use histogram::{Histogram, Histograms, QUANTILE_ERROR};
pub use opened::{Closed, Lives, Opened};
