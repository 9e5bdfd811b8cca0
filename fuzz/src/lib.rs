//! What must hold for any bytes from a stranger, as functions that take bytes and panic.
//!
//! Each target is a function `run(input)` in a file of `targets`. It has three callers: `cargo fuzz` on nightly
//! (`fuzz_targets/`), the search of `cargo xtask fuzz` on stable, and the smoke run of `cargo test -p fuzz`.
//!
//! Always true: a target depends on its bytes alone (no clock, no randomness, no file), so a failing input fails again;
//! the seeds of `corpus/` end in `.seed`, and all other files there come from somebody's own search.
//! Not here: bugs that need several machines and time; those are for `world`.

pub mod corpus;
pub mod mutate;
pub mod search;
pub mod targets;

mod draw;
mod model;

pub use targets::{TARGETS, target};

/// A target of the fuzzer.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its file, its folder of seeds and its entry point.
    pub name: &'static str,
    /// Handles the input as if a stranger had sent it, and panics when a promise is broken.
    pub run: fn(&[u8]),
    /// Words of its language, which mutations insert.
    pub words: &'static [&'static [u8]],
    /// The longest inputs that are useful.
    pub bytes_max: usize,
}
