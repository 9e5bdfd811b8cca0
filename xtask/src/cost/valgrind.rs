//! The pooler under valgrind: one run, and what it has cost in all.
//!
//! Always true: nothing periodic comes within a run; system calls are those that the pooler makes without valgrind, but for
//! the clock's, which are left out.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ops::trial::{DATABASE, Farewell, Trial, TrialError, USER, free_ports};

use super::kinds::Kind;
use super::player::Player;
use super::table::Figures;
use crate::bench::Tap;

/// What a run needs.
pub(super) struct Stage<'a> {
    pub(super) trial: &'a Trial,
    pub(super) program: &'a Path,
    pub(super) tap: &'a Tap,
}

impl Stage<'_> {
    /// A fresh pooler, so many transactions, and its end.
    pub(super) fn play(&self, kind: Kind, times: u64) -> Result<Figures, TrialError> {
        let trial = self.trial;
        let [port] = free_ports()?;
        let user = trial.account.become_name().map(|name| format!("user = {name}\n")).unwrap_or_default();
        let server = self.tap.port();
        let ini = format!(
            "[databases]\n{DATABASE} = host=127.0.0.1 port={server} dbname={DATABASE}\n[pgbouncer]\n{user}listen_port = {port}\n{INI}"
        );
        let path = trial.scratch.write(&trial.account, "cost.ini", &ini)?;
        trial.scratch.write(&trial.account, "users.txt", &format!("\"{USER}\" \"\"\n"))?;
        let log = trial.scratch.path().join("valgrind.log");
        let _ = fs::remove_file(&log);
        let mut command = trial.own_command(Path::new("valgrind"));
        command.args(["--tool=callgrind", "--trace-syscalls=yes", "--vgdb=no", "--callgrind-out-file=/dev/null"]);
        command.arg(format!("--log-file={}", log.display())).arg(self.program).arg(path);
        let mut pooler = trial.start("cost", &mut command, Farewell::Quit)?;
        let failed = |why: std::io::Error| {
            let words = format!("{why}\n  {}", trial.last_words("cost"));
            TrialError::step(format!("{} under valgrind", kind.name()), words)
        };
        let until = Instant::now() + PATIENCE;
        let mut player = loop {
            match Player::come(port, DATABASE) {
                Ok(player) => break player,
                Err(why) if Instant::now() > until || pooler.ended().is_some() => return Err(failed(why)),
                Err(_) => trial.interrupt.wait(Duration::from_millis(20))?,
            }
        };
        self.tap.take();
        kind.play(&mut player, times).map_err(failed)?;
        let messages = self.tap.take().messages;
        drop(pooler);
        let text = fs::read_to_string(&log).unwrap_or_default();
        let totals = read(&text).ok_or_else(|| failed(std::io::Error::other("no totals in valgrind's log")))?;
        Ok(Figures { messages: messages as f64, ..totals })
    }
}

/// What the figures of instructions depend on besides the pooler: compiler, C library, valgrind.
pub(super) fn key() -> Result<String, String> {
    let commands: [&[&str]; 3] = [&["rustc", "-V"], &["getconf", "GNU_LIBC_VERSION"], &["valgrind", "--version"]];
    let say = |words: &[&str]| {
        let output = Command::new(words[0]).args(&words[1..]).output();
        let output = output.map_err(|error| format!("cannot run {}: {error}", words[0]))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    Ok(commands.into_iter().map(say).collect::<Result<Vec<_>, String>>()?.join(", "))
}

/// The totals in a log of callgrind with `--trace-syscalls=yes`.
fn read(log: &str) -> Option<Figures> {
    let mut figures = Figures::default();
    let (mut collected, mut pending) = (None, std::collections::BTreeMap::new());
    for line in log.lines() {
        if let Some((_, count)) = line.split_once("Collected : ") {
            collected = count.trim().parse().ok();
        }
        let Some(call) = line.strip_prefix("SYSCALL[") else { continue };
        let (thread, rest) = call.split_once(']')?;
        let number = rest.strip_prefix('(')?.split(')').next()?.trim().to_owned();
        if rest.contains(") ... ") {
            let name = pending.remove(thread).unwrap_or(number);
            figures.packets += f64::from(u8::from(is_packet(&name, rest)));
            continue;
        }
        figures.calls += f64::from(u8::from(!CLOCK.contains(&number.as_str())));
        figures.packets += f64::from(u8::from(is_packet(&number, rest)));
        pending.insert(thread.to_owned(), number);
    }
    figures.instructions = collected?;
    Some(figures)
}

/// Whether something was sent or received.
fn is_packet(number: &str, rest: &str) -> bool {
    let result = rest.rsplit_once("Success(0x").map(|(_, result)| result);
    PACKETS.contains(&number) && result.is_some_and(|result| result.trim_start_matches('0') != ")")
}

/// clock_gettime and gettimeofday, by their numbers on x86-64.
const CLOCK: [&str; 2] = ["228", "96"];

/// sendto, recvfrom, sendmsg, recvmsg.
const PACKETS: [&str; 4] = ["44", "45", "46", "47"];

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
        assert_eq!(read(log), Some(wanted));
    }
}
