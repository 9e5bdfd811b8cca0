//! A PostgreSQL cluster for the duration of a trial.
//!
//! Always true: it listens on the loopback interface only, trusts all connections, and gives no guarantee of
//! durability.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::reading::family_cpu_of;
use super::{Client, Cpu, Kept, ShutdownSignal, Trial, TrialError, children_of};

/// The database with pgbench's tables.
pub const DATABASE: &str = "demo";

/// The user of all connections; the superuser of the cluster.
pub const USER: &str = "demo";

/// The dimensions of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterShape {
    /// `max_connections`.
    pub connections_max: u32,
    /// `shared_buffers` in MiB.
    pub buffers_mib: u32,
    /// pgbench's scale: 100,000 accounts and 15 MB per unit.
    pub scale: u32,
}

/// A running PostgreSQL with pgbench's tables.
#[derive(Debug)]
pub struct Cluster {
    server: Kept,
    /// What starts it.
    command: Command,
    port: u16,
    /// PostgreSQL's own processes, such as the checkpointer.
    housekeeping: Vec<u32>,
}

impl Cluster {
    /// Creates the cluster, starts its server on `port`, and fills it.
    ///
    /// # Errors
    /// One of these steps fails; the text contains PostgreSQL's own message.
    pub fn start(trial: &Trial, port: u16, shape: ClusterShape) -> Result<Self, TrialError> {
        let cluster = Self::start_empty(trial, port, shape, &[])?;
        fill(trial, port, shape.scale)?;
        Ok(cluster)
    }

    /// Creates the cluster and starts its server on `port` with further settings, `name=value`. Its database is empty, and `shape.scale`
    /// does not matter.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_empty(trial: &Trial, port: u16, shape: ClusterShape, more: &[&str]) -> Result<Self, TrialError> {
        let place = trial.scratch.path().join("cluster");
        init(trial, &place)?;
        let mut command = trial.command(&trial.programs.path("postgres"));
        command.arg("-D").arg(&place);
        for setting in settings(port, shape).iter().map(String::as_str).chain(more.iter().copied()) {
            command.arg("-c").arg(setting);
        }
        let server = trial.start("postgres", &mut command, ShutdownSignal::Quit)?;
        let mut cluster = Self { server, command, port, housekeeping: Vec::new() };
        let mut client = wait_until_ready(trial, &mut cluster.server, "postgres", port, "postgres")?;
        client
            .run(&format!("CREATE DATABASE {DATABASE}"))
            .map_err(|why| TrialError::step("cannot create a database".into(), why))?;
        cluster.housekeeping = children_of(cluster.server.pid());
        cluster.housekeeping.retain(|&pid| !serves_a_client(pid));
        Ok(cluster)
    }

    /// Has the server end all its connections and stop (a fast shutdown). Does not wait for it.
    pub(crate) fn stop(&self) {
        self.server.send(Signal::SIGINT);
    }

    /// Starts the server again if it has stopped, and returns whether it had. Its log goes on in the same file. Does not wait until it can be logged
    /// in to. [`Cluster::serving`] counts PostgreSQL's own processes from then on.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start_again(&mut self, trial: &Trial) -> Result<bool, TrialError> {
        if self.server.ended().is_none() {
            return Ok(false);
        }
        self.server = trial.go_on("postgres", &mut self.command, ShutdownSignal::Quit)?;
        self.housekeeping.clear();
        Ok(true)
    }

    /// Waits until a server that was told to stop has stopped.
    pub(crate) fn await_stop(&mut self) {
        self.server.await_end();
    }

    /// Waits until a server that was started again can be logged in to.
    ///
    /// # Errors
    /// It cannot, or we are interrupted.
    pub(crate) fn await_ready(&mut self, trial: &Trial) -> Result<(), TrialError> {
        wait_until_ready(trial, &mut self.server, "postgres", self.port, "postgres").map(drop)
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the server, for `/proc`.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The processor time of the server and of all its processes, also of those that have ended.
    #[must_use]
    pub fn cpu(&self) -> Cpu {
        family_cpu_of(self.server.pid())
    }

    /// The processes that serve clients now, poolers included.
    #[must_use]
    pub fn serving(&self) -> Vec<u32> {
        let mut all = children_of(self.server.pid());
        all.retain(|pid| !self.housekeeping.contains(pid));
        all
    }
}

/// Tries to log in until that succeeds, the program has ended, or [`READY_PATIENCE`] is over.
pub(super) fn wait_until_ready(
    trial: &Trial,
    program: &mut Kept,
    name: &str,
    port: u16,
    database: &str,
) -> Result<Client, TrialError> {
    let until = Instant::now() + READY_PATIENCE;
    loop {
        let why = match Client::log_in(port, USER, database, LOGIN_PATIENCE) {
            Ok(client) => return Ok(client),
            Err(why) => why,
        };
        if let Some(status) = program.ended() {
            let words = format!("{status}\n  {}", trial.last_words(name));
            return Err(TrialError::step(format!("{name} did not start"), words));
        }
        if Instant::now() > until {
            let words = format!("{why}\n  {}", trial.last_words(name));
            return Err(TrialError::step(format!("{name} does not answer on port {port}"), words));
        }
        trial.interrupt.wait(Duration::from_millis(5))?;
    }
}

/// Recognised by the process title that PostgreSQL sets: `postgres: demo demo 127.0.0.1(40606) idle`.
fn serves_a_client(pid: u32) -> bool {
    let title = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&title).contains("127.0.0.1(")
}

fn init(trial: &Trial, place: &Path) -> Result<(), TrialError> {
    let mut command = trial.command(&trial.programs.path("initdb"));
    command.arg("-D").arg(place);
    command.args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
    trial.succeed("initdb", &mut command, Duration::from_secs(120))
}

fn fill(trial: &Trial, port: u16, scale: u32) -> Result<(), TrialError> {
    let mut command = trial.command(&trial.programs.path("pgbench"));
    command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", USER]);
    command.args(["-i", "-q", "-s", &scale.to_string(), DATABASE]);
    trial.succeed("pgbench-init", &mut command, Duration::from_secs(600))
}

fn settings(port: u16, shape: ClusterShape) -> Vec<String> {
    let mut all = vec![
        format!("port={port}"),
        format!("max_connections={}", shape.connections_max),
        format!("shared_buffers={}MB", shape.buffers_mib),
    ];
    all.extend(QUIET.iter().map(|&setting| setting.to_owned()));
    all
}

/// Nothing is durable, no background work happens by itself, and the loopback interface is the only way to connect.
const QUIET: [&str; 12] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "autovacuum=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=2GB",
    "checkpoint_timeout=1d",
    "huge_pages=off",
    "logging_collector=off",
];

const READY_PATIENCE: Duration = Duration::from_secs(30);

/// The limit of one attempt; Ctrl-C is noticed only between attempts.
const LOGIN_PATIENCE: Duration = Duration::from_secs(5);
