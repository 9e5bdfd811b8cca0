//! HTTP for operators and their programs: `/metrics`, `/live`, `/ready`, the console's tables as JSON, and the page.
//!
//! Always true: HTTP only reads; requests that arrive together share one survey of the workers; what a remote peer
//! sends, or does not read, is bounded and never reaches a worker.
//! Not here: the values shown (`metrics`, `console::show`), the answers to questions (`Control`).

mod compression;
mod guard;
pub(crate) mod json;
pub(crate) mod overview;
mod pace;
mod queue;
mod room;
mod routes;
mod server;
mod stalled;
mod tries;

pub(crate) use compression::gzip;
pub use queue::{HttpAnswer, HttpQuestion};
pub(crate) use queue::{HttpQueue, NO_TABLE, Round, table};
pub use server::HASHINGS_MAX;
pub(crate) use server::serve;
