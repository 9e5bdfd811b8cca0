//! HTTP for operators and their programs: `/metrics`, `/live`, `/ready`, the console's tables as JSON, and the page.
//!
//! Always true: it only reads; a request is answered from one look at the workers, which many requests share; what a
//! stranger sends or does not read is bounded, and never reaches a worker.
//! Not here: what is measured (`metrics`, `console::show`), what a question means (`Control`).

mod desk;
mod guard;
pub(crate) mod json;
pub(crate) mod overview;
mod room;
mod routes;
mod server;
mod stalled;
mod tries;

pub(crate) use desk::{Desk, NO_TABLE, Round, table};
pub use desk::{HttpAnswer, HttpQuestion};
pub use server::HASHINGS_MAX;
pub(crate) use server::serve;
