//! `demote_command`: the command that stops or demotes the primary in a switchover without Patroni.
//!
//! Always true: it has an end. After `demote_timeout` it is killed with its process group, and has failed; what it has written to its standard error is read
//! all the time, and its last line kept.
//! Not here: what follows from its outcome (`cluster::Switchover`). After a failure nobody is promoted, because the primary may still write.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::http_client::plain;
use crate::source::words_of;

/// Runs the command. It learns from its environment which host is the primary, and which one follows.
///
/// # Errors
/// It has failed, or was killed; why, in words.
pub(super) async fn run(cluster: Arc<config::Cluster>, from: usize, to: usize) -> Result<(), Arc<str>> {
    let Some(command) = cluster.demote_command.clone() else { return Err("there is no demote_command".into()) };
    let place = |member: usize| cluster.hosts_with_ports().nth(member).map(|(host, port)| host.at(port));
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(&*command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    shell.env("TRUNKLINE_CLUSTER", &*cluster.name);
    shell.env("TRUNKLINE_PRIMARY", place(from).unwrap_or_default());
    shell.env("TRUNKLINE_TARGET", place(to).unwrap_or_default());
    run_within(shell, cluster.demote_timeout).await.map_err(Arc::from)
}

async fn run_within(mut shell: Command, limit: Duration) -> Result<(), String> {
    let mut child = shell.spawn().map_err(|error| words_of(&error))?;
    let said = last_line(child.stderr.take());
    // The process group, until its leader is waited for: then its number may be that of another one.
    let group = Arc::new(Mutex::new(Pid::from_raw(child.id().cast_signed())));
    let own = Arc::clone(&group);
    let mut waited = spawn_blocking(move || await_end(child, &own));
    let outcome = match timeout(limit, &mut waited).await {
        Ok(outcome) => outcome,
        Err(_) => {
            if let Some(group) = *group.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = waited.await;
            let secs = limit.as_secs_f64();
            return Err(format!(
                "it was killed, since it had not ended within {secs} s (demote_timeout); no other host is promoted, because the primary may still accept writes"
            ));
        }
    };
    match outcome.map_err(|error| error.to_string())? {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let last = said.recv_timeout(LAST_WORDS).ok().filter(|last| !last.is_empty());
            Err(last.map_or_else(|| status.to_string(), |last| format!("{status}: {last}")))
        }
        Err(error) => Err(words_of(&error)),
    }
}

/// Waits for the shell. From then on there is no group to be killed.
fn await_end(mut child: Child, group: &Mutex<Option<Pid>>) -> std::io::Result<std::process::ExitStatus> {
    let known = *group.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pid) = known {
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {
        }
    }
    *group.lock().unwrap_or_else(PoisonError::into_inner) = None;
    child.wait()
}

/// Reads all that is said, and tells the last line of it at the end. Who has inherited the pipe may keep it open for longer than the shell lives.
fn last_line(stderr: Option<ChildStderr>) -> Receiver<String> {
    let (tell, told) = mpsc::channel();
    if let Some(mut stderr) = stderr {
        let read = move || {
            let (mut tail, mut part) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = stderr.read(&mut part) {
                tail.extend_from_slice(&part[..count]);
                let excess = tail.len().saturating_sub(TAIL_BYTES);
                drop(tail.drain(..excess));
            }
            let said = String::from_utf8_lossy(&tail);
            let _ = tell.send(said.lines().rev().find(|line| !line.trim().is_empty()).map(plain).unwrap_or_default());
        };
        // Without a thread its words are lost, and the command may have to wait until it is killed.
        let _ = thread::Builder::new().name("demote_command".to_owned()).spawn(read);
    }
    told
}

/// As much as the last line of an error has.
const TAIL_BYTES: usize = 4096;
/// How long the last line is waited for when the shell has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs this text with a limit.
    fn ran(text: &str, limit: Duration) -> Result<(), String> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(text).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(run_within(shell, limit))
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_ends_well_or_with_its_last_words() {
        assert_eq!(ran("exit 0", LONG), Ok(()));
        let failed = "echo first >&2; echo 'no such host' >&2; echo >&2; exit 3";
        assert_eq!(ran(failed, LONG), Err("exit status: 3: no such host".to_owned()));
        assert_eq!(ran("yes | head -c 1000000 >&2; exit 1", LONG), Err("exit status: 1: y".to_owned()));
        assert_eq!(ran("exit 1", LONG), Err("exit status: 1".to_owned()));
    }

    #[test]
    fn what_it_leaves_behind_is_not_waited_for() {
        assert_eq!(ran("sleep 60 & exit 0", LONG), Ok(()));
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_with_its_children() {
        // A child of it keeps the pipe open until it is killed, too.
        let dir = std::env::temp_dir().join(format!("trunkline_demotion_{}", std::process::id()));
        let text = format!("mkfifo {0}; (sleep 600; echo x > {0}) & echo $! > {0}.pid; wait; exit 0", dir.display());
        let told = ran(&text, Duration::from_millis(500)).expect_err("it does not end");
        assert!(told.starts_with("it was killed, since it had not ended within 0.5 s (demote_timeout)"), "{told}");
        let pid = format!("{}.pid", dir.display());
        let child = std::fs::read_to_string(&pid).expect("it has begun");
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        let is_gone = |state: &str| state.is_empty() || state.contains(") Z ");
        let deadline = std::time::Instant::now() + LONG;
        while !is_gone(&state()) && std::time::Instant::now() < deadline {
            thread::yield_now();
        }
        assert!(is_gone(&state()), "{}", state());
        let _ = std::fs::remove_file(dir);
        let _ = std::fs::remove_file(pid);
    }
}
