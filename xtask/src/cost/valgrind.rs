//! Runs the pooler under valgrind, and computes what a transaction has cost.
//!
//! Always true: only the time between two moments at which everything is idle is counted, so neither start nor end,
//! where threads race each other; the system calls are those that the pooler makes without valgrind, except for those of
//! the clock, which are left out. Once a second a busy worker reads its time on the processor, so a slow machine counts a
//! few calls more.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ops::trial::{DATABASE, ShutdownSignal, Trial, TrialError, USER, free_ports};
use rustls::ClientConfig;

use super::code::Executed;
use super::crowd::Held;
use super::kinds::{Backend, Kind, Play};
use super::player::{Door, Player};
use super::quiet::wait_for_quiet;
use super::table::{Figures, SERVER};
use crate::bench::Tap;

/// What a run needs.
pub(super) struct Stage<'a> {
    pub(super) trial: &'a Trial,
    pub(super) program: &'a Path,
    pub(super) tap: &'a Tap,
    /// What a client over TLS trusts.
    pub(super) tls: Arc<ClientConfig>,
}

impl Stage<'_> {
    /// Counts a row.
    pub(super) fn play(&self, kind: Kind) -> Result<Figures, TrialError> {
        let mut figures = self.play_by(kind, kind.backend())?;
        if kind.counts_entries() {
            let by_uring = if kind.backend() == Backend::Uring { figures } else { self.play_by(kind, Backend::Uring)? };
            figures.entries = Some(by_uring.calls);
        }
        Ok(figures)
    }

    /// Starts a new pooler, and runs transactions: first so many that are not counted, twice, then so many that are.
    fn play_by(&self, kind: Kind, backend: Backend) -> Result<Figures, TrialError> {
        let trial = self.trial;
        let [port] = free_ports()?;
        let (server, servers, looks_at) = (self.tap.port(), kind.servers(), kind.looks_at());
        let (backend, tls) = (backend.name(), if kind.is_secured() { TLS } else { "" });
        let place = format!("127.0.0.1 port={server}");
        let (clusters, place) = match kind.is_routed() {
            // Its checks are seldom enough not to be counted.
            true => (
                format!("[clusters]\nmain = hosts={place} user={USER} dbname={DATABASE} check_interval=60\n"),
                "cluster=main read_routing=automatic".to_owned(),
            ),
            false => (String::new(), format!("host={place}")),
        };
        let ini = format!(
            "{clusters}[databases]\n{DATABASE} = {place} dbname={DATABASE}\n[pgbouncer]\nlisten_port = {port}\n\
             default_pool_size = {servers}\ntrack_statements = {looks_at}\nio_backend = {backend}\n{tls}{INI}"
        );
        let path = trial.scratch.write(&trial.system_user, "cost.ini", &ini)?;
        trial.scratch.write(&trial.system_user, "users.txt", &format!("\"{USER}\" \"\"\n"))?;
        let log = trial.scratch.write(&trial.system_user, "valgrind.log", "")?;
        let counted_by = trial.scratch.path().join("callgrind.out");
        let mut command = trial.command(Path::new("valgrind"));
        command.args([
            "--tool=callgrind",
            "--trace-syscalls=yes",
            "--instr-atstart=no",
            "--dump-instr=yes",
            "--dump-line=no",
            "--compress-pos=no",
        ]);
        command.arg(format!("--callgrind-out-file={}", counted_by.display()));
        command.arg(self.prefix()).arg(format!("--log-file={}", log.display())).arg(self.program).arg(path);
        let mut pooler = trial.start("cost", &mut command, ShutdownSignal::Quit)?;
        let failed = |why: std::io::Error| {
            let words = format!("{why}\n  {}", trial.last_words("cost"));
            TrialError::step(format!("{} under valgrind", kind.name()), words)
        };
        let tls = kind.is_secured().then(|| Arc::clone(&self.tls));
        let door = Door { port, startup: kind.startup(), tls };
        let until = Instant::now() + PATIENCE;
        let first = loop {
            match Player::come(door.clone()) {
                Ok(player) => break player,
                Err(why) if Instant::now() > until || pooler.ended().is_some() => return Err(failed(why)),
                Err(_) => trial.interrupt.wait(Duration::from_millis(20))?,
            }
        };
        let others = (1..kind.clients()).map(|_| Player::come(door.clone()));
        let players = std::iter::once(Ok(first)).chain(others).collect::<Result<_, _>>().map_err(failed)?;
        let held = Held { tap: self.tap, pooler: pooler.pid() };
        let mut play = Play::begin(kind, players, held).map_err(failed)?;
        let (counted, unseen) = kind.times();
        play.go_on(unseen).map_err(failed)?;
        self.monitor(pooler.pid(), &["instrumentation", "on"])?;
        // Valgrind translates the pooler anew, so the first turns are slow, which the pooler logs.
        play.go_on(unseen).map_err(failed)?;
        wait_for_quiet().map_err(failed)?;
        self.monitor(pooler.pid(), &["zero"])?;
        let begin = fs::read_to_string(&log).unwrap_or_default().len();
        self.tap.take();
        play.go_on(counted).map_err(failed)?;
        wait_for_quiet().map_err(failed)?;
        let messages = self.tap.take().messages;
        let end = fs::read_to_string(&log).unwrap_or_default().len();
        self.monitor(pooler.pid(), &["dump"])?;
        drop(pooler);
        let text = fs::read_to_string(&log).unwrap_or_default();
        let calls = text.get(begin..end).unwrap_or_default();
        let transactions = counted * u64::from(kind.at_once());
        let dump = fs::read_to_string(counted_by.with_extension("out.1")).map_err(failed)?;
        let executed = Executed::read(&dump, transactions);
        let executed = executed.ok_or_else(|| failed(std::io::Error::other("callgrind has counted nothing")))?;
        let (instructions, code) = (executed.instructions, executed.code_bytes);
        let figures = Figures { instructions, messages: messages as f64, ..calls_in(calls) };
        Ok(Figures { code, ..figures.for_each_of(transactions) })
    }

    /// Gives callgrind a command.
    fn monitor(&self, pid: u32, words: &[&str]) -> Result<(), TrialError> {
        let mut command = self.trial.command(Path::new("vgdb"));
        command.arg(format!("--pid={pid}")).arg(self.prefix()).args(words);
        self.trial.succeed("vgdb", &mut command, PATIENCE)
    }

    /// The files by which valgrind and vgdb find each other.
    fn prefix(&self) -> String {
        format!("--vgdb-prefix={}", self.trial.scratch.path().join("vgdb").display())
    }
}

/// What the figures depend on besides the pooler: compiler, C library (which has several versions of its functions, for
/// different processors) and valgrind; and for the messages to PostgreSQL, its version.
pub(super) fn key(postgres: &str) -> Result<String, TrialError> {
    let commands: [&[&str]; 3] = [&["rustc", "-V"], &["getconf", "GNU_LIBC_VERSION"], &["valgrind", "--version"]];
    let say = |words: &[&str]| {
        let output = Command::new(words[0]).args(&words[1..]).output();
        let output = output.map_err(|why| TrialError::step(format!("cannot run {}", words[0]), why))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let mut words = commands.into_iter().map(say).collect::<Result<Vec<_>, TrialError>>()?;
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    // The processor that valgrind emulates depends on these flags alone.
    words.extend(FEATURES.into_iter().filter(|name| flags.split(' ').any(|flag| flag == *name)).map(str::to_owned));
    words.push(format!("{SERVER}{}", postgres.split(['.', ' ']).next().unwrap_or_default()));
    Ok(words.join(", "))
}

/// Counts the calls in a part of a log with `--trace-syscalls=yes`.
fn calls_in(log: &str) -> Figures {
    let mut figures = Figures::default();
    for call in log.lines().filter_map(|line| line.strip_prefix("SYSCALL[")) {
        let Some((number, rest)) = call.split_once("](").and_then(|(_, rest)| rest.split_once(')')) else { continue };
        let number = number.trim();
        // The end of a blocking call has a line of its own.
        let is_end = rest.starts_with(" ... ");
        figures.calls += f64::from(u8::from(!is_end && !CLOCK.contains(&number)));
        figures.packets += f64::from(u8::from(is_packet(number, rest)));
    }
    figures
}

/// Returns whether the call has sent or received something.
fn is_packet(number: &str, rest: &str) -> bool {
    let result = rest.rsplit_once("Success(0x").map(|(_, result)| result);
    PACKETS.contains(&number) && result.is_some_and(|result| result.trim_start_matches('0') != ")")
}

/// clock_gettime and gettimeofday, by their numbers on x86-64.
const CLOCK: [&str; 2] = ["228", "96"];

/// sendto, recvfrom, sendmsg, recvmsg.
const PACKETS: [&str; 4] = ["44", "45", "46", "47"];

const FEATURES: [&str; 2] = ["avx", "avx2"];

const INI: &str = "\
listen_addr = 127.0.0.1
unix_socket_dir =
auth_type = trust
auth_file = users.txt
admin_users = demo
pool_mode = transaction
log_connections = 0
log_disconnections = 0
stats_period = 86400
lock_sweep_interval = 0
server_check_delay = 86400
workers = 1
";

const TLS: &str = "\
client_tls_sslmode = require
client_tls_cert_file = bench.crt
client_tls_key_file = bench.key
";

const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_once_and_packets_by_what_has_passed() {
        let log = "\
SYSCALL[7,2](232) sys_epoll_wait ( 3, 0x1, 5, -1 ) --> [async] ... 
SYSCALL[7,2](232) ... [async] --> Success(0x1) 
SYSCALL[7,2](228) sys_clock_gettime( 1, 0x1 )[sync] --> Success(0x0) 
SYSCALL[7,2](45) sys_recvfrom ( 9, 0x1, 16384 ) --> [async] ... 
SYSCALL[7,2](45) ... [async] --> Success(0x1f) 
SYSCALL[7,2](45) sys_recvfrom ( 9, 0x1, 16384 ) --> [async] ... 
SYSCALL[7,2](45) ... [async] --> Failure(0xb) 
";
        assert_eq!(calls_in(log), Figures { calls: 3.0, packets: 1.0, ..Figures::default() });
    }
}
