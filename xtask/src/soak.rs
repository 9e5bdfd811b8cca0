//! `cargo xtask soak`: minutes of chaos around the pooler as it ships and a real PostgreSQL.
//!
//! Always true: what is asked for goes to the soak as it is; its exit code is this chore's.
//! Not here: the chaos and its checks (`tests/soak`).

use std::ffi::OsString;

use crate::house::House;
use crate::setup::{self, Purpose};

pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    setup::run(&[Purpose::Test])?;
    let program = house.build_release()?;
    let mut command = house.cargo_command();
    command.args(["test", "--quiet", "--package", "tests", "--test", "soak", "--"]).args(arguments);
    let status =
        command.env("TRUNKLINE_BIN", program).status().map_err(|error| format!("cannot start cargo: {error}"))?;
    status.success().then_some(()).ok_or("soak: failed".to_owned())
}
