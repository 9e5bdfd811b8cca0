//! Where things are on this machine: the programs, a scratch directory, free ports, and the user of the child processes.
//!
//! Always true: PostgreSQL and the pooler never run as root; the scratch directory is removed at the end.
//! Not here: the children themselves (`postgres`, `pooler`).

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::unistd::{User, geteuid};

/// The places of one run.
#[derive(Debug)]
pub struct Place {
    scratch: PathBuf,
    owner: Option<(u32, u32)>,
    pooler: PathBuf,
    is_trunkline: bool,
    /// The folders that are searched for PostgreSQL's programs, in this order.
    postgres_programs: Vec<PathBuf>,
    leash: bool,
}

impl Place {
    /// Finds everything and makes the scratch directory.
    ///
    /// # Errors
    /// A sentence for the user: what is missing and how to get it.
    pub fn find() -> Result<Self, String> {
        let source = pooler_program()?;
        let postgres_programs = vec![postgres_programs()?];
        let owner = owner()?;
        let scratch = scratch();
        fs::create_dir_all(&scratch).map_err(|e| format!("cannot make {}: {e}", scratch.display()))?;
        let is_trunkline = source.file_name() != Some(OsStr::new("pgbouncer"));
        let mut place = Self { scratch, owner, pooler: source, is_trunkline, postgres_programs, leash: has_setpriv() };
        place.give_away(&place.scratch);
        if owner.is_some() {
            // Other users cannot enter a clone below /root, so the binary is copied to where they can run it.
            let copy = place.scratch.join("pooler");
            fs::copy(&place.pooler, &copy).map_err(|e| format!("cannot copy {}: {e}", place.pooler.display()))?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
            place.pooler = copy;
        }
        if let Some(wanted) = wanted_postgres()? {
            let wanted =
                if owner.is_some() && !is_open_to_all(&wanted) { place.copy_postgres(&wanted)? } else { wanted };
            place.postgres_programs.insert(0, wanted);
        }
        Ok(place)
    }

    /// A new directory owned by the children's user.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn directory(&self) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let path = self.scratch.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path).expect("the scratch directory takes a new directory");
        self.give_away(&path);
        path
    }

    /// Writes a file owned by the children's user.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, path: &Path, text: &str) {
        fs::write(path, text).expect("the scratch directory takes a file");
        self.give_away(path);
    }

    /// Writes a file owned by the children's user that nobody else can read.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write_secret(&self, path: &Path, text: &str) {
        self.write(path, text);
        let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(path, only_owner).expect("our own file takes permissions");
    }

    /// A command that runs as the ordinary user, and gets `signal` (a name such as `KILL`) if this process dies.
    pub fn command(&self, program: &Path, signal: &str) -> Command {
        let mut command = if self.leash {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", signal, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        if let Some((uid, gid)) = self.owner {
            command.gid(gid).uid(uid);
        }
        command.current_dir(&self.scratch);
        command
    }

    /// A command of PostgreSQL's client programs, run as the user of the tests.
    pub fn unleashed(&self, name: &str) -> Command {
        Command::new(self.postgres_program(name))
    }

    /// The pooler's program.
    pub fn pooler(&self) -> &Path {
        &self.pooler
    }

    /// Whether the program under test is Trunkline, and not the distribution's PgBouncer (which passes most of the tests as
    /// well).
    pub fn is_trunkline(&self) -> bool {
        self.is_trunkline
    }

    /// One of PostgreSQL's programs, such as `initdb`. If the selected PostgreSQL lacks it, as a package of the server alone
    /// lacks `psql`, that of the distribution is used.
    ///
    /// # Panics
    /// When there is none.
    pub fn postgres_program(&self, name: &str) -> PathBuf {
        let mut programs = self.postgres_programs.iter().map(|folder| folder.join(name));
        programs.find(|program| program.is_file()).unwrap_or_else(|| panic!("PostgreSQL's {name} is missing"))
    }

    /// Copies PostgreSQL, because the children's user cannot enter the folder of its programs.
    fn copy_postgres(&self, programs: &Path) -> Result<PathBuf, String> {
        let copy = self.scratch.join("postgresql");
        let whole = programs.parent().ok_or("PostgreSQL's programs are in no folder")?;
        let status = Command::new("cp").arg("-a").arg(whole).arg(&copy).status();
        match status.is_ok_and(|status| status.success()) {
            true => Ok(copy.join("bin")),
            false => Err(format!("cannot copy {} to {}", whole.display(), copy.display())),
        }
    }

    fn give_away(&self, path: &Path) {
        if let Some((uid, gid)) = self.owner {
            chown(path, Some(uid), Some(gid)).expect("root may give a file away");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.scratch).is_err() {
            eprintln!("could not remove {}", self.scratch.display());
        }
    }
}

/// A port without a listener. It is below the range from which the kernel takes ports for outgoing connections, so that it
/// remains free until it is used.
///
/// # Panics
/// When no port is free.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) + std::process::id().wrapping_mul(61);
        let port = (PORT_FIRST + step % PORTS) as u16;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free between {PORT_FIRST} and {}", PORT_FIRST + PORTS);
}

/// The directory of all files of this run.
pub fn scratch() -> PathBuf {
    env::temp_dir().join(format!("trunkline-tests-{}", std::process::id()))
}

fn pooler_program() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("TRUNKLINE_BIN") {
        let path = PathBuf::from(path);
        return match path.is_file() {
            true => Ok(path),
            false => Err(format!("TRUNKLINE_BIN names {}, which is not a file", path.display())),
        };
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    ["release", "debug"]
        .into_iter()
        .map(|profile| target.join(profile).join("trunkline"))
        .find(|path| path.is_file())
        .ok_or_else(|| "there is no trunkline to test: run `make build`, or set TRUNKLINE_BIN".to_string())
}

/// The folder of the programs of another PostgreSQL than the distribution's, if one is selected.
fn wanted_postgres() -> Result<Option<PathBuf>, String> {
    let Some(folder) = env::var_os("TRUNKLINE_TEST_POSTGRES").map(PathBuf::from) else { return Ok(None) };
    match ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file()) {
        true => Ok(Some(folder)),
        false => Err(format!("TRUNKLINE_TEST_POSTGRES names {}, which lacks initdb or postgres", folder.display())),
    }
}

fn is_open_to_all(folder: &Path) -> bool {
    let may_enter = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    folder.ancestors().all(may_enter)
}

fn postgres_programs() -> Result<PathBuf, String> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, path)| path.join("initdb").is_file())
        .collect();
    versions.sort();
    let in_path = || {
        env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .chain([PathBuf::from("/usr/local/pgsql/bin")])
            .find(|path| path.join("initdb").is_file() && path.join("postgres").is_file())
    };
    versions.pop().map(|(_, path)| path).or_else(in_path).ok_or_else(|| {
        "PostgreSQL's programs (initdb, postgres, psql, pgbench) are missing: run `make setup`".to_string()
    })
}

fn owner() -> Result<Option<(u32, u32)>, String> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| User::from_name(name).ok().flatten())
        .map(|user| Some((user.uid.as_raw(), user.gid.as_raw())))
        .ok_or_else(|| "run as root, but there is neither a user `postgres` nor `nobody` to become".to_string())
}

fn has_setpriv() -> bool {
    Command::new("setpriv").args(["--pdeathsig", "KILL", "--", "true"]).status().is_ok_and(|status| status.success())
}

const PORT_FIRST: u32 = 15_000;
const PORTS: u32 = 16_000;
