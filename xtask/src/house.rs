//! Where the project is, and how its programs are started.
//!
//! Always true: the cargo that started us is used, and it works in the project's root whatever the caller's folder is.
//! Not here: what the programs are started for.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project on this machine.
pub(crate) struct House {
    root: PathBuf,
}

impl House {
    /// The folder above this package's.
    pub(crate) fn find() -> Result<House, String> {
        let package =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.parent().ok_or("the project has no root folder")?;
        Ok(House { root: root.to_owned() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs cargo and waits for it. Its output goes where ours goes.
    pub(crate) fn cargo<const N: usize>(&self, arguments: [&str; N]) -> Result<(), String> {
        let words = arguments.join(" ");
        eprintln!("cargo {words}");
        let mut command = self.cargo_command();
        let status = command.args(arguments).status().map_err(|error| format!("cannot start cargo: {error}"))?;
        status.success().then_some(()).ok_or(format!("failed: cargo {words}"))
    }

    pub(crate) fn cargo_command(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        command.current_dir(&self.root);
        // These variables describe this package; the cargo started here must not take them for its own.
        for (name, _) in env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"CARGO_PKG_")) {
            command.env_remove(name);
        }
        command.env_remove("CARGO_MANIFEST_DIR");
        command
    }

    /// Like [`House::cargo_command`], for what has to be fast: a compiler that gives the lints does not optimize in full.
    pub(crate) fn optimizing_cargo_command(&self) -> Command {
        let mut command = self.cargo_command();
        command.env_remove(COMPILER_OF_WORKSPACE);
        command
    }

    /// Whether the compiler of the tests gives the lints, so that nothing has to be looked through twice.
    pub(crate) fn lints_in_builds(&self) -> bool {
        env::var_os(COMPILER_OF_WORKSPACE).is_some_and(|compiler| compiler == "clippy-driver")
    }

    /// Builds the release binary of the pooler and returns its path.
    pub(crate) fn build_release(&self) -> Result<PathBuf, String> {
        self.build_as("release")
    }

    /// Builds the pooler as `make demo` does, and returns its path.
    pub(crate) fn build_demo(&self) -> Result<PathBuf, String> {
        self.build_as("demo")
    }

    fn build_as(&self, profile: &str) -> Result<PathBuf, String> {
        let mut command = self.optimizing_cargo_command();
        command.args(["build", "--profile", profile, "--package", "trunkline"]);
        let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
        status.success().then_some(()).ok_or(format!("failed: cargo build --profile {profile} --package trunkline"))?;
        Ok(self.target().join(profile).join("trunkline"))
    }

    /// The target folder of cargo.
    pub(crate) fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), |path| self.root.join(path))
    }
}

/// By what cargo compiles the packages of the workspace, if not by `rustc` (documented in cargo's reference, `build.rustc-workspace-wrapper`).
const COMPILER_OF_WORKSPACE: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Replaces this program by another. Returns only when that failed, with the reason.
pub(crate) fn become_program<'a>(program: &Path, arguments: impl IntoIterator<Item = &'a OsString>) -> String {
    let error = Command::new(program).args(arguments).exec();
    format!("cannot start {}: {error}", program.display())
}
