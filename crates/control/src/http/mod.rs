//! HTTP for operators and their programs: `/metrics`, `/live`, `/ready`, the console's tables as JSON, and the page.
//!
//! Always true: HTTP only reads; requests that arrive together share one survey of the workers; what a remote peer
//! sends, or does not read, is bounded and never reaches a worker.
//! Not here: the values shown (`metrics`, `console::show`), the answers to questions (`Control`).

mod compression;
mod desk;
mod guard;
pub(crate) mod json;
pub(crate) mod overview;
mod pace;
mod room;
mod routes;
mod server;
mod stalled;
mod tries;

pub(crate) use compression::gzip;
pub(crate) use desk::{Desk, NO_TABLE, Round, table};
pub use desk::{HttpAnswer, HttpQuestion};
pub use server::HASHINGS_MAX;
pub(crate) use server::serve;
