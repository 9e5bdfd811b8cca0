//! Runs the pooler under valgrind, and computes what a transaction has cost.
//!
//! Always true: only the time between two moments at which everything is idle is counted, so neither start nor end,
//! where threads race each other; the system calls are those that the pooler makes without valgrind, except for those of
//! the clock, which are left out. Once a second a busy worker reads its time on the processor, so a slow machine counts a
//! few calls more.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ops::trial::{DATABASE, ShutdownSignal, Trial, TrialError, USER, free_ports};

use super::kinds::{Kind, Play};
use super::player::Player;
use super::quiet::wait_for_quiet;
use super::table::{Figures, SERVER};
use crate::bench::Tap;

/// What a run needs.
pub(super) struct Stage<'a> {
    pub(super) trial: &'a Trial,
    pub(super) program: &'a Path,
    pub(super) tap: &'a Tap,
}

impl Stage<'_> {
    /// Starts a new pooler, and runs transactions: first so many that are not counted, twice, then so many that are.
    pub(super) fn play(&self, kind: Kind, unseen: u64, counted: u64) -> Result<Figures, TrialError> {
        let trial = self.trial;
        let [port] = free_ports()?;
        let (server, servers, looks_at) = (self.tap.port(), kind.servers(), kind.looks_at());
        let ini = format!(
            "[databases]\n{DATABASE} = host=127.0.0.1 port={server} dbname={DATABASE}\n[pgbouncer]\nlisten_port = {port}\n\
             default_pool_size = {servers}\ntrack_statements = {looks_at}\n{INI}"
        );
        let path = trial.scratch.write(&trial.system_user, "cost.ini", &ini)?;
        trial.scratch.write(&trial.system_user, "users.txt", &format!("\"{USER}\" \"\"\n"))?;
        let log = trial.scratch.write(&trial.system_user, "valgrind.log", "")?;
        let mut command = trial.command(Path::new("valgrind"));
        command.args([
            "--tool=callgrind",
            "--trace-syscalls=yes",
            "--instr-atstart=no",
            "--callgrind-out-file=/dev/null",
        ]);
        command.arg(self.prefix()).arg(format!("--log-file={}", log.display())).arg(self.program).arg(path);
        let mut pooler = trial.start("cost", &mut command, ShutdownSignal::Quit)?;
        let failed = |why: std::io::Error| {
            let words = format!("{why}\n  {}", trial.last_words("cost"));
            TrialError::step(format!("{} under valgrind", kind.name()), words)
        };
        let until = Instant::now() + PATIENCE;
        let first = loop {
            match Player::come(port, kind.startup()) {
                Ok(player) => break player,
                Err(why) if Instant::now() > until || pooler.ended().is_some() => return Err(failed(why)),
                Err(_) => trial.interrupt.wait(Duration::from_millis(20))?,
            }
        };
        let others = (1..kind.clients()).map(|_| Player::come(port, kind.startup()));
        let players = std::iter::once(Ok(first)).chain(others).collect::<Result<_, _>>().map_err(failed)?;
        let mut play = Play::begin(kind, players).map_err(failed)?;
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
        self.monitor(pooler.pid(), &["instrumentation", "off"])?;
        drop(pooler);
        let text = fs::read_to_string(&log).unwrap_or_default();
        let calls = text.get(begin..end).unwrap_or_default();
        let instructions =
            collected(&text).ok_or_else(|| failed(std::io::Error::other("no totals in valgrind's log")))?;
        let figures = Figures { instructions, messages: messages as f64, ..calls_in(calls) };
        Ok(figures.for_each_of(counted))
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

/// Returns the instructions in a log of callgrind; None if none were counted.
fn collected(log: &str) -> Option<f64> {
    let total = log.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    total.filter(|&instructions| instructions > 0.0)
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
io_backend = epoll
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
==7== Collected : 756827
";
        let wanted = Figures { instructions: 756_827.0, calls: 3.0, packets: 1.0, messages: 0.0 };
        assert_eq!(Figures { instructions: collected(log).expect("a total"), ..calls_in(log) }, wanted);
    }
}
