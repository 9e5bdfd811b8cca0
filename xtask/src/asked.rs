//! Programs of `tests` that run only on demand: `cargo xtask drivers`, `cargo xtask hostile`, `cargo xtask migrations`,
//! `cargo xtask soak`, `cargo xtask regress`, `cargo xtask page`.
//!
//! Always true: they run against the release build of the pooler; their arguments are passed on unchanged, and their
//! exit code decides that of the command.
//! Not here: what they do and check (`tests/drivers`, `tests/hostile`, `tests/migrations`, `tests/soak`, `tests/regress`).

use std::ffi::OsString;

use crate::house::House;
use crate::oracle::postgres_source;
use setup::Purpose;

pub(crate) fn run(house: &House, name: &str, arguments: &[OsString]) -> Result<(), String> {
    setup::run(&[Purpose::Test])?;
    if arguments.iter().any(|argument| argument == "--pgbouncer") {
        setup::run(&[Purpose::Bench])?;
    }
    if name == "page" {
        setup::run(&[Purpose::Page])?;
    }
    let program = house.build_release()?;
    let mut command = house.cargo_command();
    if name == "regress" {
        setup::run(regress_purposes(arguments))?;
        command.env("TRUNKLINE_REGRESS", postgres_source(&house.target().join("oracle"))?);
    }
    // `page` runs those tests of `real` that `test` skips where there is no browser.
    let (binary, filter) = if name == "page" { ("real", Some("console::page")) } else { (name, None) };
    command.args(["test", "--quiet", "--package", "tests", "--test", binary, "--"]).args(filter).args(arguments);
    let status =
        command.env("TRUNKLINE_BIN", program).status().map_err(|error| format!("cannot start cargo: {error}"))?;
    status.success().then_some(()).ok_or(format!("{name}: failed"))
}

/// The isolation tests alone do not need the PostgreSQL server headers, whose package depends on LLVM.
fn regress_purposes(arguments: &[OsString]) -> &'static [Purpose] {
    let is_isolation = |argument: &OsString| argument.to_string_lossy().starts_with("isolation");
    if arguments.iter().any(is_isolation) { &[Purpose::Isolation] } else { &[Purpose::Isolation, Purpose::Regress] }
}
