//! The lab from outside: a tree of processes in namespaces of its own.
//!
//! Always true: every process, link and file of the lab is in PID, network and mount namespaces that end with the lab's
//! first process, so nothing is left behind, however it ends. In the lab no other process of the machine is visible, so
//! none can be hit. All that is outside is the folder `ha` in the target folder: a record of the lab, and logs; and, while
//! a case wants processors to be short, a control group, which whoever has started the lab removes.
//! Not here: what is in the lab (`lab`).

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use ops::trial::{Interrupt, children_of};

use super::lab::FOLDER;
use super::{INSIDE, quota};
use crate::house::House;

/// Why there can be no lab on this machine; `None` if there can.
pub(super) fn refusal() -> Option<String> {
    if !Uid::effective().is_root() {
        return Some("namespaces of the network need root".into());
    }
    match Command::new("unshare").args(FLAGS).args(["sh", "-c", TRIAL]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("namespaces are not allowed: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("cannot start unshare: {error}")),
    }
}

/// Whether the first process here is that of a lab.
pub(super) fn is_inside() -> bool {
    let words = fs::read("/proc/1/cmdline").unwrap_or_default();
    let words: Vec<&[u8]> = words.split(|&byte| byte == 0).collect();
    words.windows(2).any(|pair| pair == [&b"ha"[..], INSIDE.as_bytes()])
}

/// Ends this process when its standard input ends, so that the lab does not outlive who asked for it. As the first
/// process of a PID namespace it takes all others with it.
pub(super) fn end_with_input() {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(130);
    });
}

/// Where the record of the lab and its logs are.
pub(super) fn folder(house: &House) -> PathBuf {
    house.target().join("ha")
}

/// A lab that is up: its first process as seen from outside, and the `unshare` that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    unshare: u32,
    first: u32,
}

pub(super) struct Namespaces {
    folder: PathBuf,
}

impl Namespaces {
    pub(super) fn of(house: &House) -> Self {
        Self { folder: folder(house) }
    }

    /// The lab that `up` has left running.
    pub(super) fn standing(&self) -> Option<Standing> {
        let text = fs::read_to_string(self.record()).ok()?;
        let (unshare, started) = text.trim().split_once(' ')?;
        let unshare: u32 = unshare.parse().ok()?;
        // The process id alone may belong to another process by now.
        (started_at(unshare)? == started).then_some(())?;
        Some(Standing { unshare, first: *children_of(unshare).first()? })
    }

    /// Starts the lab, waits until it is ready, and leaves it running.
    pub(super) fn up(&self, trunkline: &Path) -> Result<(), String> {
        let log = self.folder.join("lab.log");
        fs::create_dir_all(&self.folder).map_err(|error| format!("cannot make {}: {error}", self.folder.display()))?;
        let open = || File::create(&log).map_err(|error| format!("cannot write {}: {error}", log.display()));
        let log_of_both = open()?;
        let errors = log_of_both.try_clone().map_err(|error| error.to_string())?;
        let mut command = unshare(trunkline)?;
        command.arg(STAY).stdin(Stdio::null()).stdout(log_of_both).stderr(errors).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("cannot start unshare: {error}"))?;
        let started = started_at(child.id()).ok_or("the lab ended at once")?;
        fs::write(self.record(), format!("{} {started}\n", child.id())).map_err(|error| error.to_string())?;
        let interrupt = Interrupt::listen().map_err(|error| error.to_string())?;
        let ready = self.wait_until_ready(&mut child, &interrupt, &log);
        if ready.is_err() {
            self.down()?;
            let _ = child.wait();
            return ready;
        }
        println!("the lab is up; `cargo xtask ha down` ends it");
        Ok(())
    }

    /// Ends the lab that `up` has left running, and waits until it is gone.
    pub(super) fn down(&self) -> Result<(), String> {
        if let Some(Standing { unshare, first }) = self.standing() {
            // `--kill-child`: the first process dies with `unshare`, and all others with the first.
            let _ = kill(pid(unshare), Signal::SIGKILL);
            let until = Instant::now() + PATIENCE;
            while Path::new(&format!("/proc/{first}")).exists() {
                if Instant::now() > until {
                    return Err(format!("process {first} of the lab does not end"));
                }
                thread::sleep(PAUSE);
            }
        }
        quota::remove_all();
        let _ = fs::remove_file(self.record());
        println!("the lab is down");
        Ok(())
    }

    /// Runs ourselves in namespaces that last as long as this run.
    pub(super) fn alone(&self, trunkline: &Path, words: &[String]) -> Result<(), String> {
        fs::create_dir_all(&self.folder).map_err(|error| format!("cannot make {}: {error}", self.folder.display()))?;
        let mut command = unshare(trunkline)?;
        command.arg("alone").args(words);
        attend(command)
    }

    /// Runs ourselves in the namespaces of a lab that is up.
    pub(super) fn join(&self, standing: Standing, words: &[String]) -> Result<(), String> {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &standing.first.to_string(), "-m", "-n", "-p", "--"])
            .arg(ourselves()?)
            .args(["ha", INSIDE]);
        command.args(words).env("TMPDIR", FOLDER);
        attend(command)
    }

    fn wait_until_ready(&self, child: &mut Child, interrupt: &Interrupt, log: &Path) -> Result<(), String> {
        let read = || fs::read_to_string(log).unwrap_or_default();
        while !read().lines().any(|line| line == READY) {
            if child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(format!("the lab did not come up:\n{}", read()));
            }
            interrupt.wait(PAUSE).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn record(&self) -> PathBuf {
        self.folder.join("lab.pid")
    }
}

/// Ourselves in new namespaces; the order is the next argument.
fn unshare(trunkline: &Path) -> Result<Command, String> {
    let mut command = Command::new("unshare");
    command.args(FLAGS).arg(ourselves()?).args(["ha", INSIDE]).env("TMPDIR", FOLDER).env(TRUNKLINE, trunkline);
    Ok(command)
}

/// Runs a command to its end. If we are asked to end, its input ends, by which it ends too.
fn attend(mut command: Command) -> Result<(), String> {
    let interrupt = Interrupt::listen().map_err(|error| error.to_string())?;
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| format!("cannot start the lab: {error}"))?;
    let status = loop {
        if let Ok(Some(status)) = child.try_wait() {
            break status;
        }
        if interrupt.wait(PAUSE).is_err() {
            break end(&mut child)?;
        }
    };
    quota::remove_all();
    status.success().then_some(()).ok_or("ha: failed".into())
}

fn end(child: &mut Child) -> Result<ExitStatus, String> {
    drop(child.stdin.take());
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
    let _ = child.kill();
    child.wait().map_err(|error| error.to_string())
}

fn ourselves() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))
}

/// When a process was started, in ticks since the machine was (proc(5), `stat`, field 22).
fn started_at(process: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold blanks.
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap_or(i32::MAX))
}

/// The variable with the path of Trunkline's binary.
pub(super) const TRUNKLINE: &str = "TRUNKLINE_BIN";

/// The order to raise the lab and wait.
pub(super) const STAY: &str = "stay";

/// The line by which a lab says that it is up.
pub(super) const READY: &str = "ready";

const FLAGS: [&str; 6] = ["--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"];

/// What the lab needs of the kernel.
const TRIAL: &str = "mount -t tmpfs tmpfs /run && mkdir /run/netns && ip netns add one && ip link add name bridge0 type bridge && \
                     ip link add name port0 type veth peer name eth0 netns one";

const PAUSE: Duration = Duration::from_millis(100);

const PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_process_that_is_gone_is_no_lab() {
        let folder = std::env::temp_dir().join(format!("trunkline-ha-test-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("folder");
        let namespaces = Namespaces { folder: folder.clone() };
        assert_eq!(namespaces.standing(), None);
        // Our own process id with another start: the id was given out again.
        fs::write(namespaces.record(), format!("{} 1\n", std::process::id())).expect("record");
        assert_eq!(namespaces.standing(), None);
        namespaces.down().expect("nothing to end");
        assert!(!namespaces.record().exists());
        fs::remove_dir_all(folder).expect("removed");
    }
}
