//! Waits until the pooler, PostgreSQL and the relay between them are idle.
//!
//! Always true: when a wait has ended, every thread of this process and of all its descendants was asleep at the same
//! moment. On the loopback interface bytes wake their receiver before the sender continues, so no bytes were on their
//! way either.
//! Not here: which processes are meant; it is all that this process has started.

use std::fs;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::gettid;
use ops::trial::children_of;

/// Returns when everything is idle, so that the next message finds the same state in each run.
pub(super) fn wait_for_quiet() -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut before = None;
    loop {
        let now = asleep();
        // A thread that was asleep twice and has not run in between was asleep all the time.
        if now.is_some() && now == before {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(io::Error::new(ErrorKind::TimedOut, "somebody is always busy"));
        }
        before = now;
        thread::yield_now();
    }
}

/// The number of context switches of each thread but our own, if all of them sleep.
fn asleep() -> Option<Vec<(u32, u64)>> {
    let own = gettid().as_raw().unsigned_abs();
    let mut programs = vec![std::process::id()];
    let mut threads = Vec::new();
    while let Some(program) = programs.pop() {
        programs.extend(children_of(program));
        // A process that has ended meanwhile does nothing any more.
        let entries = fs::read_dir(format!("/proc/{program}/task")).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for thread in numbers.filter(|&thread| thread != own) {
            let status = fs::read_to_string(format!("/proc/{program}/task/{thread}/status")).unwrap_or_default();
            threads.push((thread, switches_of_a_sleeper(&status)?));
        }
    }
    Some(threads)
}

fn switches_of_a_sleeper(status: &str) -> Option<u64> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    match field("State").and_then(|state| state.chars().next()) {
        // A stopped one is to stay so until this process says otherwise.
        Some('S' | 'T') => {}
        None | Some('Z' | 'X') => return Some(0),
        Some(_) => return None,
    }
    let count = |name| field(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    Some(count("voluntary_ctxt_switches") + count("nonvoluntary_ctxt_switches"))
}

const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_told_by_its_state_and_its_switches() {
        let status = |state: &str| {
            format!("Name:\ta\nState:\t{state}\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n")
        };
        assert_eq!(switches_of_a_sleeper(&status("S (sleeping)")), Some(9));
        assert_eq!(switches_of_a_sleeper(&status("T (stopped)")), Some(9));
        assert_eq!(switches_of_a_sleeper(&status("R (running)")), None);
        assert_eq!(switches_of_a_sleeper(&status("D (disk sleep)")), None);
        assert_eq!(switches_of_a_sleeper(&status("Z (zombie)")), Some(0));
        assert_eq!(switches_of_a_sleeper(""), Some(0));
    }
}
