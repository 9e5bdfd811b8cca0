//! `cargo xtask drivers`: real drivers of many languages, directly and through the pooler as it ships.
//!
//! Always true: what is asked for goes to the matrix as it is; its exit code is this chore's.
//! Not here: the programs and the comparison (`tests/drivers`).

use std::ffi::OsString;

use crate::house::House;
use crate::setup::{self, Purpose};

pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    setup::run(&[Purpose::Test])?;
    let program = house.build_release()?;
    let mut command = house.cargo_command();
    command.args(["test", "--quiet", "--package", "tests", "--test", "drivers", "--"]).args(arguments);
    let status =
        command.env("TRUNKLINE_BIN", program).status().map_err(|error| format!("cannot start cargo: {error}"))?;
    status.success().then_some(()).ok_or("drivers: failed".to_owned())
}
