//! `cargo xtask fuzz`: the search of the package `fuzz`, optimized and with all assertions.
//!
//! Always true: it needs nothing but the stable toolchain; its arguments and its exit code are the search's own.
//! Not here: the search (`fuzz/src/main.rs`), and `cargo fuzz`, which needs nightly and sees branches.

use std::ffi::OsString;
use std::path::Path;

use crate::house::{House, become_program};

pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    house.cargo(["build", "--profile", PROFILE, "--package", "fuzz", "--bin", "fuzz"])?;
    let program = house.target().join(PROFILE).join("fuzz");
    // The program is not started in the project's root, so paths in its arguments are relative to the caller's folder.
    Err(become_program(Path::new(&program), arguments))
}

/// Fast, unwinding, and with assertions, as simulations are.
const PROFILE: &str = "world";
