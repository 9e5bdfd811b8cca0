//! A limit for the processor time of a process, as container platforms set it.
//!
//! Always true: the control group is removed at the end, and its processes go on without the limit.

use std::fs;
use std::path::{Path, PathBuf};

/// A control group with a part of a processor.
pub(crate) struct Quota {
    group: PathBuf,
    /// Where its processes were before.
    above: PathBuf,
}

impl Quota {
    /// Gives a process a share of one processor; `None` where this system does not let us.
    pub(crate) fn of(pid: u32, share: f64) -> Option<Self> {
        let name = format!("trunkline-test-{pid}");
        let root = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|root| root.join("cpu.cfs_quota_us").exists() || root.join("cgroup.controllers").exists())?;
        let quota = Self { group: root.join(name), above: root.to_owned() };
        fs::create_dir(&quota.group).ok()?;
        let write = |file: &str, text: String| fs::write(quota.group.join(file), text);
        let time = (share * PERIOD) as u64;
        write("cpu.cfs_period_us", format!("{PERIOD}"))
            .and_then(|()| write("cpu.cfs_quota_us", time.to_string()))
            .or_else(|_| write("cpu.max", format!("{time} {PERIOD}")))
            .ok()?;
        write("cgroup.procs", pid.to_string()).ok()?;
        Some(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let pids = fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines() {
            // It may have ended meanwhile.
            let _ = fs::write(self.above.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

/// Microseconds; the shortest that the kernel takes is 1,000.
const PERIOD: f64 = 100_000.0;
