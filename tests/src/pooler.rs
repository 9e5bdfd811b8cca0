//! The pooler as a child process.
//!
//! Always true: it has a port, a unix socket directory, a configuration and a log of its own; it ends with the guard, and a
//! failed test shows the end of its log.
//! Not here: which settings make sense.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::client::{Answer, Client};
use crate::peer::Peer;
use crate::place::{Place, free_port};
use crate::program;
use crate::wait::{LIMIT, try_wait_for, wait_for, wait_until};

/// The configuration to be written.
#[derive(Debug, Clone, Default)]
pub struct Ini {
    databases: Vec<String>,
    users: Vec<String>,
    peers: Vec<String>,
    clusters: Vec<String>,
    rate_limits: Vec<String>,
    settings: Vec<String>,
    secrets: Vec<(String, String)>,
    descriptors: Option<u32>,
    program: Option<PathBuf>,
    environment: Vec<(String, String)>,
}

impl Ini {
    /// One database line.
    pub fn new(database: &str) -> Self {
        Self::default().database(database)
    }

    /// Another line of `[databases]`.
    pub fn database(mut self, line: &str) -> Self {
        self.databases.push(line.to_string());
        self
    }

    /// A line of `[users]`.
    pub fn user(mut self, line: &str) -> Self {
        self.users.push(line.to_string());
        self
    }

    /// A line of `[peers]`.
    pub fn peer(mut self, line: &str) -> Self {
        self.peers.push(line.to_string());
        self
    }

    /// A line of `[clusters]`.
    pub fn cluster(mut self, line: &str) -> Self {
        self.clusters.push(line.to_string());
        self
    }

    /// A line of `[rate_limits]`.
    pub fn rate_limit(mut self, line: &str) -> Self {
        self.rate_limits.push(line.to_string());
        self
    }

    /// A line of `[pgbouncer]`; it comes after the default ones, so it overrides them.
    pub fn set(mut self, line: &str) -> Self {
        self.settings.push(line.to_string());
        self
    }

    /// A line of the auth file, in addition to the users `u`, `v`, `admin` and `stats`, which have no secret.
    pub fn secret(mut self, user: &str, secret: &str) -> Self {
        self.secrets.push((user.to_string(), secret.to_string()));
        self
    }

    /// The limit of the pooler's file descriptors, instead of ours.
    pub fn descriptors(mut self, count: u32) -> Self {
        self.descriptors = Some(count);
        self
    }

    /// Another program than the pooler under test, for a comparison.
    pub fn program(mut self, path: &Path) -> Self {
        self.program = Some(path.to_owned());
        self
    }

    /// An environment variable for the pooler.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_string(), value.to_string()));
        self
    }

    fn text(&self, directory: &Path, port: u16) -> String {
        let directory = directory.display();
        let mut text = String::from("[databases]\n");
        let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        text.push_str(&lines(&self.databases));
        if !self.users.is_empty() {
            text.push_str(&format!("[users]\n{}", lines(&self.users)));
        }
        if !self.peers.is_empty() {
            text.push_str(&format!("[peers]\n{}", lines(&self.peers)));
        }
        if !self.clusters.is_empty() {
            text.push_str(&format!("[clusters]\n{}", lines(&self.clusters)));
        }
        if !self.rate_limits.is_empty() {
            text.push_str(&format!("[rate_limits]\n{}", lines(&self.rate_limits)));
        }
        text.push_str(&format!(
            "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {directory}\n\
             logfile = {directory}/log\npidfile =\nauth_type = trust\nauth_file = {directory}/users\n\
             admin_users = admin\nstats_users = stats\npool_mode = transaction\n"
        ));
        // Runs all tests with one kernel interface, whatever `auto` would select.
        if let Ok(kernel) = std::env::var("TRUNKLINE_TEST_IO_BACKEND") {
            text.push_str(&format!("io_backend = {kernel}\n"));
        }
        text.push_str(&lines(&self.settings));
        text
    }

    fn secrets_text(&self) -> String {
        let none =
            ["u", "v", "admin", "stats"].into_iter().filter(|name| self.secrets.iter().all(|(user, _)| user != name));
        let none = none.map(|name| (name, ""));
        let given = self.secrets.iter().map(|(user, secret)| (user.as_str(), secret.as_str()));
        none.chain(given).map(|(user, secret)| format!("\"{}\" \"{}\"\n", double(user), double(secret))).collect()
    }
}

/// A running pooler.
#[derive(Debug)]
pub struct Pooler {
    place: Arc<Place>,
    child: Child,
    directory: PathBuf,
    port: u16,
    ended: Option<ExitStatus>,
}

impl Pooler {
    /// Writes the configuration, starts the pooler and waits until it answers.
    ///
    /// # Panics
    /// With its log, when it does not.
    pub fn start(place: &Arc<Place>, ini: &Ini) -> Self {
        let mut pooler = Self::launch(place, ini, free_port());
        pooler.await_port();
        pooler
    }

    /// The same on a port that others may listen on too (`so_reuseport`). Waits until it answers on its unix socket.
    ///
    /// # Panics
    /// With its log, when it does not.
    pub fn start_on(place: &Arc<Place>, ini: &Ini, port: u16) -> Self {
        let mut pooler = Self::launch(place, ini, port);
        pooler.await_socket();
        pooler
    }

    /// Starts it again after its end, with the configuration on disk.
    ///
    /// # Panics
    /// With its log, when it does not answer on its unix socket.
    pub fn start_again(&mut self) {
        assert!(self.look().is_some(), "it still runs");
        fs::write(self.directory.join("said"), "").expect("a file can be written");
        self.child = Self::spawn(&mut self.place.command(self.place.pooler(), "KILL"), &self.directory);
        self.ended = None;
        self.await_socket();
    }

    /// Writes the configuration and starts the pooler, which is expected to end at once. Returns its exit code and its
    /// output.
    ///
    /// # Panics
    /// When it does not end.
    pub fn start_in_vain(place: &Arc<Place>, ini: &Ini) -> (i32, String) {
        let mut pooler = Self::launch(place, ini, free_port());
        let status = pooler.await_end(LIMIT);
        (status.code().unwrap_or(-1), pooler.said() + &pooler.log())
    }

    /// Starts another process with the same files, and with these arguments and environment variables.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn beside(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = self.place.command(self.place.pooler(), "KILL");
        command.args(arguments).envs(environment.iter().copied());
        let child = Self::spawn(&mut command, &self.directory);
        let (place, directory) = (self.place.clone(), self.directory.clone());
        Self { place, child, directory, port: self.port, ended: None }
    }

    /// Starts a new process that takes over from this one (`-R`), and waits for the end of this one.
    ///
    /// # Panics
    /// When it does not end.
    pub fn restart_online(&mut self) {
        let taken = |log: &str| log.matches("online restart: took over ").count();
        let before = taken(&self.log());
        let new = self.beside(&["-R"], &[]);
        let mut old = std::mem::replace(self, new);
        assert_eq!(old.await_end(HANDOVER_MAX).code(), Some(0));
        wait_until("the new process has taken over", LIMIT, || taken(&self.log()) > before);
    }

    /// Its TCP address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join(format!(".s.PGSQL.{}", self.port))
    }

    /// A connection to its unix socket, which it opens a moment after its port.
    ///
    /// # Panics
    /// When it does not listen there.
    pub fn knock(&self) -> Peer {
        wait_for("the unix socket answers", LIMIT, || Peer::unix(&self.socket()).ok())
    }

    /// Its directory: `ini`, `users`, `log`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The places of this run.
    pub fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A client of it.
    pub fn client(&self, user: &str, database: &str) -> Client {
        Client::login(self.address(), user, database)
    }

    /// A console command by the user `admin`.
    pub fn console(&self, command: &str) -> Answer {
        self.client("admin", "pgbouncer").query(command)
    }

    /// One row of SHOW POOLS.
    ///
    /// # Panics
    /// When there is no such pool.
    pub fn pool(&self, database: &str, user: &str) -> std::collections::BTreeMap<String, String> {
        let answer = self.console("SHOW POOLS");
        (0..answer.rows.len())
            .map(|row| answer.named(row))
            .find(|row| row["database"] == database && row["user"] == user)
            .unwrap_or_else(|| panic!("no pool {database}/{user} in {answer:?}"))
    }

    /// Waits until a column of a row of SHOW POOLS has this value.
    pub fn await_pool(&self, database: &str, column: &str, value: &str) {
        let mut console = self.client("admin", "pgbouncer");
        wait_until(&format!("{column} of {database} is {value}"), LIMIT, || {
            let answer = console.query("SHOW POOLS");
            (0..answer.rows.len())
                .map(|row| answer.named(row))
                .any(|row| row["database"] == database && row[column] == value)
        });
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        fs::read(self.directory.join("log")).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }

    /// Waits until the log contains this text.
    pub fn await_log(&self, text: &str) {
        wait_until(&format!("the log says {text:?}"), LIMIT, || self.log().contains(text));
    }

    /// Replaces the configuration on disk (the running pooler does not notice).
    pub fn rewrite(&self, ini: &Ini) {
        self.rewrite_raw(&ini.text(&self.directory, self.port));
        self.place.write(&self.directory.join("users"), &ini.secrets_text());
    }

    /// Replaces the configuration on disk with any text.
    pub fn rewrite_raw(&self, text: &str) {
        self.place.write(&self.directory.join("ini"), text);
    }

    /// The text of the configuration file.
    pub fn ini_text(&self) -> String {
        fs::read_to_string(self.directory.join("ini")).unwrap_or_default()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn signal(&self, signal: Signal) {
        program::signal(self.child.id(), signal);
    }

    /// Returns whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.look().is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn await_end(&mut self, limit: Duration) -> ExitStatus {
        match try_wait_for(limit, || self.look()) {
            Some(status) => status,
            None => panic!("the pooler still runs after {limit:?}"),
        }
    }

    /// A number of kB from `/proc/PID/status`, such as `VmRSS` or `VmHWM`.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn memory_kb(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the pooler runs");
        let line = status.lines().find(|line| line.starts_with(name)).expect("a known name");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }

    /// How many file descriptors it holds.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// How many established TCP connections it holds toward a port of this machine, at one instant.
    ///
    /// # Panics
    /// When the kernel's tables cannot be read.
    pub fn connections_to(&self, port: u16) -> usize {
        let sockets = || -> BTreeSet<PathBuf> {
            let files = fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("the pooler runs");
            files.flatten().filter_map(|file| fs::read_link(file.path()).ok()).collect()
        };
        let wanted = format!(":{port:04X}");
        let established = || -> BTreeSet<PathBuf> {
            let table = fs::read_to_string("/proc/net/tcp").expect("the kernel tells its connections");
            let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            rows.filter(|words| words.len() > 9 && words[2].ends_with(&wanted) && words[3] == "01")
                .map(|words| format!("socket:[{}]", words[9]).into())
                .collect()
        };
        // The kernel returns its table in pieces, while connections come and go. A connection that is established in a first
        // reading and in a second was established at the instant between them; one that is held before and after was not
        // closed, although a closed one stays established for a moment.
        let tellings = [sockets(), established(), established(), sockets()];
        let [first, rest @ ..] = &tellings;
        first.iter().filter(|file| rest.iter().all(|telling| telling.contains(*file))).count()
    }

    fn launch(place: &Arc<Place>, ini: &Ini, port: u16) -> Self {
        let directory = place.directory();
        place.write(&directory.join("ini"), &ini.text(&directory, port));
        place.write(&directory.join("users"), &ini.secrets_text());
        let program = ini.program.as_deref().unwrap_or(place.pooler());
        let mut command = match ini.descriptors {
            None => place.command(program, "KILL"),
            Some(count) => {
                let mut command = place.command(Path::new("/bin/sh"), "KILL");
                command.args(["-c", &format!("ulimit -n {count}; exec \"$0\" \"$1\"")]).arg(program);
                command
            }
        };
        let child = Self::spawn(command.envs(ini.environment.iter().cloned()), &directory);
        Self { place: place.clone(), child, directory, port, ended: None }
    }

    fn spawn(command: &mut Command, directory: &Path) -> Child {
        // Several processes may share the file, so each appends to it.
        let said = fs::File::options().create(true).append(true).open(directory.join("said"));
        let said = said.expect("a file can be written");
        let out = said.try_clone().expect("a file can be shared");
        let command = command.arg(directory.join("ini")).stdin(Stdio::null()).stdout(out).stderr(said);
        command.spawn().expect("the pooler starts")
    }

    fn await_port(&mut self) {
        let address = self.address();
        self.await_answer(|| TcpStream::connect(address).is_ok());
    }

    fn await_socket(&mut self) {
        let path = self.socket();
        self.await_answer(|| UnixStream::connect(&path).is_ok());
    }

    fn await_answer(&mut self, answers: impl Fn() -> bool) {
        let ready = try_wait_for(LIMIT, || match self.look() {
            Some(status) => panic!("the pooler ended with {status}:\n{}{}", self.said(), self.log()),
            None => answers().then_some(()),
        });
        assert!(ready.is_some(), "the pooler does not listen:\n{}{}", self.said(), self.log());
    }

    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child can be waited for");
        }
        self.ended
    }

    /// Its standard output and standard error.
    pub fn said(&self) -> String {
        fs::read_to_string(self.directory.join("said")).unwrap_or_default()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        if self.look().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let log = self.log();
        if std::thread::panicking() {
            let lines: Vec<_> = log.lines().rev().take(25).collect();
            let name = std::thread::current().name().unwrap_or("?").to_string();
            let ended = self.ended.map_or("was running".to_string(), |status| format!("ended with {status}"));
            let lines: String = lines.into_iter().rev().map(|line| format!("  | {line}\n")).collect();
            eprintln!("the pooler of {name} {ended}; the end of its log:\n{lines}");
        }
    }
}

/// How long an online restart may take. Longer than the timeouts of both sides (20 s and `suspend_timeout`), so that these
/// report what went wrong.
pub const HANDOVER_MAX: Duration = Duration::from_secs(60);

fn double(text: &str) -> String {
    text.replace('"', "\"\"")
}
