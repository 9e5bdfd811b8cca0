//! What must hold for any bytes that a stranger sends, told as functions that take bytes and panic.
//!
//! Each target is one function, `run(input)`, of its own file in `targets`. Three things call it: `cargo fuzz` on nightly
//! (`fuzz_targets/`), the search of `cargo xtask fuzz` on stable, and the smoke run of `cargo test -p fuzz`.
//!
//! Always true: a target is a function of its bytes alone (no clock, no randomness, no file), so that a failing input
//! fails again; the seeds of `corpus/` are all the ending `.seed`, whatever else lies there is somebody's own search.
//! Not here: bugs that need several machines and time to show; those are for `world`.

pub mod corpus;
pub mod mutate;
pub mod search;
pub mod targets;

mod draw;
mod model;

pub use targets::{TARGETS, target};

/// One thing to be fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of its file, its folder of seeds and its entry point.
    pub name: &'static str,
    /// Does with the input what a stranger could cause, and panics when something is not as promised.
    pub run: fn(&[u8]),
    /// The words of its language: what mutations insert.
    pub words: &'static [&'static [u8]],
    /// Longer inputs find nothing that shorter ones do not.
    pub bytes_max: usize,
}
