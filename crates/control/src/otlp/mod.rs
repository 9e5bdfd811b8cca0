//! OpenTelemetry: spans of statements that carry a trace context are posted to a collector (OTLP over HTTP, as JSON).
//!
//! Always true: nothing waits for a collector except the spans for it, whose number is bounded.
//! Not here: which statements have spans (`worker`), where the spans are sent (`config`).

mod encode;
mod exporter;
mod post;

pub(crate) use exporter::{Counts, Exporter};
pub use exporter::{Posted, Posting};
pub(crate) use post::post;
