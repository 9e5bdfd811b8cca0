//! OpenTelemetry: spans of statements that carry the context of a trace are posted to a collector (OTLP over HTTP, as JSON).
//!
//! Always true: nobody waits for a collector but the spans for it, of which there are no more than fit.
//! Not here: which statements have spans (`worker`), where they go (`config`).

mod encode;
mod exporter;
mod post;

pub(crate) use exporter::{Counts, Exporter};
pub use exporter::{Posted, Posting};
pub(crate) use post::post;
