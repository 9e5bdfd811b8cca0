//! A throw-away PostgreSQL, a pooler in front of it, and a load on both: the basis of the demo and the bench.
//!
//! Always true: everything started or created here is removed when its guard is dropped, and also when this program
//! ends in any other way (`keeper`); nothing listens outside the loopback interface.
//! Not here: what is compared, and how it is reported (`demo`, and `xtask bench`).

mod client;
mod cluster;
mod error;
mod interrupt;
mod keeper;
mod load;
mod pooler;
mod programs;
mod reading;
mod scratch;
mod system_user;

pub use client::{Client, ClientError};
pub use cluster::{Cluster, ClusterShape, DATABASE, USER};
pub use error::TrialError;
pub use interrupt::{Interrupt, raise_descriptor_limit};
pub use keeper::{Keeper, Kept, ShutdownSignal};
pub use load::{Load, LoadOutcome, LoadResult, Protocol, Script, percentile};
pub use pooler::Pooler;
pub use programs::Programs;
pub use reading::{
    Cpu, Memory, MemoryKind, children_of, cpu_of, family_cpu_of, memory_of, resident_of, resident_peak_of,
};
pub use scratch::Scratch;
pub use system_user::SystemUser;

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The environment of a demo or a bench: the programs, the user who runs them, the directory of their files, and the
/// keeper.
#[derive(Debug)]
pub struct Trial {
    /// PostgreSQL's programs.
    pub programs: Programs,
    /// The user who runs the programs.
    pub system_user: SystemUser,
    /// Raised by Ctrl-C and similar signals.
    pub interrupt: Interrupt,
    /// The directory of all files. Dropped before `keeper`, which would otherwise have to remove it.
    pub scratch: Scratch,
    keeper: Rc<Keeper>,
}

impl Trial {
    /// Finds PostgreSQL, installs signal handlers, and creates a directory whose name begins with `prefix`.
    ///
    /// # Errors
    /// PostgreSQL's programs are missing, there is no ordinary user to run them, or the directory cannot be created.
    pub fn open(prefix: &str) -> Result<Self, TrialError> {
        let programs = Programs::find()?;
        let system_user = SystemUser::ordinary()?;
        let interrupt = Interrupt::listen()?;
        let keeper = Rc::new(Keeper::start()?);
        let scratch = Scratch::create(prefix, &system_user, &keeper)?;
        Ok(Self { programs, system_user, interrupt, scratch, keeper })
    }

    /// A command that runs as the trial's user in the trial's directory, without input from our terminal and without
    /// the `PG*` variables of our environment.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = self.own_command(program);
        self.system_user.dress(&mut command);
        command
    }

    /// A command that runs as our own user in the trial's directory, without input from our terminal and without the
    /// `PG*` variables of our environment: for a pooler whose configuration names the user to switch to.
    #[must_use]
    pub fn own_command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        // libpq looks for certificates and passwords at home, which the trial's user may not be allowed to read. pgbench's
        // output is parsed, so it must be English.
        command
            .env("HOME", self.scratch.path())
            .env("LC_ALL", "C")
            .current_dir(self.scratch.path())
            .stdin(Stdio::null());
        command
    }

    /// Starts a program whose output goes to the files `name.out` and `name.err` of the trial's directory.
    ///
    /// # Errors
    /// The files cannot be created, or the program cannot be started.
    pub fn start(&self, name: &str, command: &mut Command, signal: ShutdownSignal) -> Result<Kept, TrialError> {
        self.launch(name, command, signal, File::options().write(true).create(true).truncate(true))
    }

    /// Starts a program again, whose output goes on in its files.
    ///
    /// # Errors
    /// As [`Trial::start`].
    pub(crate) fn go_on(&self, name: &str, command: &mut Command, signal: ShutdownSignal) -> Result<Kept, TrialError> {
        self.launch(name, command, signal, File::options().append(true).create(true))
    }

    fn launch(
        &self,
        name: &str,
        command: &mut Command,
        signal: ShutdownSignal,
        how: &OpenOptions,
    ) -> Result<Kept, TrialError> {
        let open = |end: &str| {
            let path = self.scratch.path().join(format!("{name}.{end}"));
            how.open(&path).map_err(|why| TrialError::step(format!("cannot write {}", path.display()), why))
        };
        command.stdout(open("out")?).stderr(open("err")?);
        Kept::start(&self.keeper, command, signal).map_err(|why| {
            TrialError::step(format!("cannot start {}", Path::new(command.get_program()).display()), why)
        })
    }

    /// Runs a program to its end, at most for `patience`, and calls `watch` many times a second meanwhile.
    ///
    /// # Errors
    /// The program cannot be started, we are interrupted, or `patience` is over; the program is gone in each case.
    pub fn run(
        &self,
        name: &str,
        command: &mut Command,
        patience: Duration,
        watch: &mut dyn FnMut(Duration),
    ) -> Result<ExitStatus, TrialError> {
        let mut kept = self.start(name, command, ShutdownSignal::Terminate)?;
        let begun = Instant::now();
        loop {
            if let Some(status) = kept.ended() {
                return Ok(status);
            }
            if begun.elapsed() > patience {
                return Err(TrialError::step(format!("{name} did not end"), format!("{} s", patience.as_secs())));
            }
            watch(begun.elapsed());
            self.interrupt.wait(Duration::from_millis(20))?;
        }
    }

    /// Runs a program to its end. A failure becomes an error that quotes the last lines of the program's output.
    ///
    /// # Errors
    /// As [`Trial::run`], and a program that reports failure.
    pub fn succeed(&self, name: &str, command: &mut Command, patience: Duration) -> Result<(), TrialError> {
        let status = self.run(name, command, patience, &mut |_| {})?;
        if status.success() { Ok(()) } else { Err(TrialError::step(format!("{name} failed"), self.last_words(name))) }
    }

    /// What a program started under this name has written to its standard output.
    #[must_use]
    pub fn output(&self, name: &str) -> String {
        self.read(&format!("{name}.out"))
    }

    /// What a program started under this name has written to its standard error.
    #[must_use]
    pub fn complaints(&self, name: &str) -> String {
        self.read(&format!("{name}.err"))
    }

    /// The last lines of a program's standard error, which tell why it failed.
    #[must_use]
    pub fn last_words(&self, name: &str) -> String {
        let text = self.complaints(name);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() { "it said nothing".into() } else { lines[lines.len().saturating_sub(5)..].join("\n  ") }
    }

    fn read(&self, file: &str) -> String {
        let bytes = std::fs::read(self.scratch.path().join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// `N` different TCP ports of the loopback interface that were free a moment ago.
///
/// # Errors
/// The kernel gives out no port.
pub fn free_ports<const N: usize>() -> Result<[u16; N], TrialError> {
    let mut ports = [0; N];
    // All listeners are kept until the last port is known, so that no two are the same.
    let mut held = Vec::new();
    for port in &mut ports {
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| {
            *port = listener.local_addr()?.port();
            Ok(listener)
        });
        held.push(free.map_err(|why| TrialError::step("no free port".into(), why))?);
    }
    Ok(ports)
}
