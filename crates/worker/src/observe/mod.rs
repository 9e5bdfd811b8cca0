//! What is looked at beside a request: traces on the console, spans for a collector, samples for `SHOW STATEMENTS`, the course
//! of long transactions.
//!
//! Always true: nothing here changes what a client or a server is sent; a request that nobody looks at is asked about once for
//! all of it.
//! Not here: where the time of a transaction goes (`measured`), how a trace is shown and how spans are posted (`control`).

pub(crate) mod carried;
pub(crate) mod course;
pub(crate) mod long;
pub(crate) mod pipeline;
pub(crate) mod sampled;
pub(crate) mod spanning;
pub(crate) mod spans;
pub(crate) mod statements;
pub(crate) mod tracers;
pub(crate) mod tracing;
