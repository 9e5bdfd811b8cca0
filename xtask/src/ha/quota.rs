//! A quota of processor time for some processes of the lab, by a control group.
//!
//! Always true: the group is removed when the quota ends, and by whoever has started the lab when the lab ends before
//! that (`remove_all`), because a group does not end with the namespaces.
//! Not here: whose time is short, and when (`course`).

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

/// Gives these processes, and all that they start, this share of one processor from now on.
pub(super) fn limit(name: &str, percent: u32, processes: &[Pid]) -> Result<(), String> {
    let group = root()?.join(format!("{PREFIX}{name}"));
    fs::create_dir_all(&group).map_err(|why| format!("cannot make {}: {why}", group.display()))?;
    let quota = percent * PERIOD_MICROS / 100;
    if is_first_version() {
        write(&group, "cpu.cfs_period_us", &PERIOD_MICROS.to_string())?;
        write(&group, "cpu.cfs_quota_us", &quota.to_string())?;
    } else {
        write(&group, "cpu.max", &format!("{quota} {PERIOD_MICROS}"))?;
    }
    for process in processes {
        // It may have ended meanwhile.
        let _ = fs::write(group.join(MEMBERS), process.to_string());
    }
    let inside = fs::read_to_string(group.join(MEMBERS)).unwrap_or_default().lines().count();
    if inside == 0 { Err(format!("no process went into {}", group.display())) } else { Ok(()) }
}

/// Ends a quota; nothing happens if there is none.
pub(super) fn lift(name: &str) -> Result<(), String> {
    // Where there are no control groups, none has a quota.
    root().map_or(Ok(()), |root| remove(&root, &format!("{PREFIX}{name}")))
}

/// Ends all quotas of labs.
pub(super) fn remove_all() {
    let Ok(root) = root() else { return };
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with(PREFIX)) {
            let _ = remove(&root, name);
        }
    }
}

/// Moves all processes of a group to the group above, and removes it.
fn remove(root: &Path, name: &str) -> Result<(), String> {
    let group = root.join(name);
    let until = Instant::now() + PATIENCE;
    while group.is_dir() {
        for process in fs::read_to_string(group.join(MEMBERS)).unwrap_or_default().lines() {
            let _ = fs::write(root.join(MEMBERS), process);
        }
        // One that ends just now is in the group until the kernel has forgotten it.
        match fs::remove_dir(&group) {
            Err(why) if group.is_dir() && Instant::now() > until => {
                return Err(format!("cannot remove {}: {why}", group.display()));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
            Ok(()) => break,
        }
    }
    Ok(())
}

/// The folder of all groups that have processor time to share out.
fn root() -> Result<PathBuf, String> {
    let known = if is_first_version() { Some(PathBuf::from(FIRST_VERSION)) } else { second_version() };
    known.ok_or_else(|| "no quota of processor time can be set: no control groups".into())
}

fn is_first_version() -> bool {
    Path::new(FIRST_VERSION).join("cpu.cfs_quota_us").exists() || Path::new(FIRST_VERSION).join("cpu.shares").exists()
}

fn second_version() -> Option<PathBuf> {
    let root = PathBuf::from("/sys/fs/cgroup");
    let shared = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
    shared.split_whitespace().any(|word| word == "cpu").then_some(root)
}

fn write(group: &Path, file: &str, text: &str) -> Result<(), String> {
    fs::write(group.join(file), text).map_err(|why| format!("cannot write {file} of {}: {why}", group.display()))
}

const FIRST_VERSION: &str = "/sys/fs/cgroup/cpu";

/// The processes of a group.
const MEMBERS: &str = "cgroup.procs";

const PREFIX: &str = "trunkline-ha-";

const PERIOD_MICROS: u32 = 100_000;

const PATIENCE: Duration = Duration::from_secs(5);
