//! `cargo xtask coverage`: which lines of the machines and of the worker are executed by their unit tests and the
//! world.
//!
//! Always true: everything is built in a separate folder (`target/coverage`), so that no other build is invalidated;
//! test code does not count; coverage below `AT_LEAST` percent of any of the crates is a failure.
//! Not here: the tests of `tests/` with the real binary; a line that only they execute is not covered.

mod lines;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use setup::which;

use crate::house::House;
use lines::Report;

pub(crate) fn run(house: &House, arguments: &[OsString]) -> Result<(), String> {
    let options = Options::read(arguments)?;
    let tools = Tools::find()?;
    let stage = Stage::new(house)?;
    let programs = stage.build(&options)?;
    let failed = stage.play(&options, &programs)?;
    let report = stage.report(house, &tools, &programs)?;
    println!("{report}");
    let low = report.below(AT_LEAST);
    match (low.is_empty(), failed.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("coverage: below {AT_LEAST} %: {}", low.join(", "))),
        (true, false) => Err(format!("coverage: high enough, but {} failed", failed.join(", "))),
    }
}

/// The command line.
struct Options {
    /// Number of seeds of the world besides its tests.
    seeds: u64,
    /// The world is run as well.
    with_world: bool,
}

impl Options {
    fn read(arguments: &[OsString]) -> Result<Self, String> {
        let mut options = Self { seeds: SEEDS, with_world: true };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            match argument {
                lexopt::Arg::Long("seeds") => {
                    let value = parser.value().and_then(|value| lexopt::ValueExt::parse(&value));
                    options.seeds = value.map_err(|error| error.to_string())?;
                }
                lexopt::Arg::Long("without-world") => options.with_world = false,
                other => return Err(format!("{}\n\n{USAGE}", other.unexpected())),
            }
        }
        Ok(options)
    }
}

/// The toolchain's programs that read profiles.
struct Tools {
    profdata: PathBuf,
    cov: PathBuf,
}

impl Tools {
    fn find() -> Result<Self, String> {
        let folder = Self::folder()?;
        let find = || {
            let (profdata, cov) = (folder.join("llvm-profdata"), folder.join("llvm-cov"));
            (profdata.is_file() && cov.is_file()).then_some(Self { profdata, cov })
        };
        if let Some(tools) = find() {
            return Ok(tools);
        }
        eprintln!("llvm-tools are missing: rustup component add llvm-tools");
        let is_added = which("rustup", &[]).is_some_and(|rustup| {
            Command::new(rustup).args(["component", "add", "llvm-tools"]).status().is_ok_and(|status| status.success())
        });
        find().filter(|_| is_added).ok_or_else(|| {
            format!("no llvm-profdata and llvm-cov in {}: run `rustup component add llvm-tools`", folder.display())
        })
    }

    /// The folder where rustup installs them: beside the standard library of this machine.
    fn folder() -> Result<PathBuf, String> {
        let sysroot = words_of(Command::new("rustc").args(["--print", "sysroot"]))?;
        let version = words_of(Command::new("rustc").arg("-vV"))?;
        let host =
            version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not tell its host")?;
        Ok(Path::new(sysroot.trim()).join("lib").join("rustlib").join(host).join("bin"))
    }
}

/// The folder in which everything happens.
struct Stage {
    house: House,
    target: PathBuf,
    profiles: PathBuf,
    packages: Vec<String>,
}

/// An instrumented program.
struct Program {
    path: PathBuf,
    /// A program of tests, not the world itself.
    is_test: bool,
}

impl Stage {
    fn new(house: &House) -> Result<Self, String> {
        let target = house.root().join("target").join("coverage");
        let profiles = target.join("profiles");
        // Profiles of an earlier run belong to other programs.
        let _ = fs::remove_dir_all(&profiles);
        fs::create_dir_all(&profiles).map_err(|error| format!("cannot make {}: {error}", profiles.display()))?;
        let packages = CRATES.iter().map(|name| (*name).to_owned()).collect();
        Ok(Self { house: House::find()?, target, profiles, packages })
    }

    fn cargo(&self) -> Command {
        let mut cargo = self.house.cargo_command();
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        cargo.env("RUSTFLAGS", format!("{flags} -C instrument-coverage"));
        cargo.env("CARGO_TARGET_DIR", &self.target);
        // Profiles of build scripts are not used.
        cargo.env("LLVM_PROFILE_FILE", self.target.join("build-script.profraw"));
        cargo
    }

    /// Builds the programs and returns them.
    fn build(&self, options: &Options) -> Result<Vec<Program>, String> {
        let mut packages = self.packages.clone();
        if options.with_world && self.house.root().join("crates/world/Cargo.toml").is_file() {
            packages.push(WORLD.to_owned());
        }
        let mut programs = Vec::new();
        let mut cargo = self.cargo();
        cargo.args(["test", "--no-run", "--lib", "--bins", "--tests", "--message-format=json"]);
        programs.extend(self.built(&mut cargo, &packages)?);
        if packages.iter().any(|name| name == WORLD) {
            let mut cargo = self.cargo();
            // With the profile of the tests, so that cargo builds each package once for both.
            cargo.args(["build", "--profile", "test", "--bins", "--message-format=json"]);
            programs.extend(self.built(&mut cargo, &[WORLD.to_owned()])?);
        }
        Ok(programs)
    }

    fn built(&self, cargo: &mut Command, packages: &[String]) -> Result<Vec<Program>, String> {
        for package in packages {
            cargo.args(["--package", package]);
        }
        eprintln!("building {} with counters", packages.join(", "));
        let built = cargo.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot start cargo: {error}"))?;
        if !built.status.success() {
            return Err("coverage: the build failed".to_owned());
        }
        let messages = String::from_utf8_lossy(&built.stdout).into_owned();
        Ok(messages.lines().filter_map(program).collect())
    }

    /// Runs every program. Each writes a profile, even if it fails. Returns those that have failed.
    fn play(&self, options: &Options, programs: &[Program]) -> Result<Vec<String>, String> {
        let mut failed = Vec::new();
        for program in programs {
            let name = program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut command = Command::new(&program.path);
            command.env("LLVM_PROFILE_FILE", self.profiles.join("%m-%p.profraw")).current_dir(self.house.root());
            if !program.is_test {
                command.args(["--seeds".to_owned(), options.seeds.to_string()]);
            }
            eprintln!("running {name}");
            let played = command.output().map_err(|error| format!("cannot start {name}: {error}"))?;
            if !played.status.success() {
                print!("{}{}", String::from_utf8_lossy(&played.stdout), String::from_utf8_lossy(&played.stderr));
                failed.push(name);
            }
        }
        Ok(failed)
    }

    fn report(&self, house: &House, tools: &Tools, programs: &[Program]) -> Result<Report, String> {
        let merged = self.target.join("merged.profdata");
        let written = fs::read_dir(&self.profiles).map_err(|error| error.to_string())?;
        let raw: Vec<PathBuf> = written.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let mut merge = Command::new(&tools.profdata);
        merge.args(["merge", "-sparse", "-o"]).arg(&merged).args(&raw);
        words_of(&mut merge)?;
        let mut export = Command::new(&tools.cov);
        export.args(["export", "-format=lcov", "-instr-profile"]).arg(&merged);
        for program in programs {
            export.arg("-object").arg(&program.path);
        }
        let lcov = words_of(&mut export)?;
        Ok(Report::read(&lcov, house.root(), &CRATES, |path| fs::read_to_string(path).ok()))
    }
}

/// Returns the program in a message of cargo.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = message.get("executable")?.as_str()?.into();
    let is_test = message.pointer("/profile/test").and_then(Value::as_bool).unwrap_or(false);
    Some(Program { path, is_test })
}

/// Returns the output of a program, which must succeed.
fn words_of(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_owned();
    let name = Path::new(&name).file_name().and_then(OsStr::to_str).unwrap_or("a program").to_owned();
    let output = command.output().map_err(|error| format!("cannot start {name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// The crates that are measured.
const CRATES: [&str; 3] = ["protocol", "pool", "worker"];
/// The program that executes all of them together.
const WORLD: &str = "world";
/// The required percentage of lines of each crate.
const AT_LEAST: u32 = 90;
/// Number of seeds, besides those of the world's own tests.
const SEEDS: u64 = 500;

const USAGE: &str = "usage: cargo xtask coverage [--seeds N] [--without-world]";
