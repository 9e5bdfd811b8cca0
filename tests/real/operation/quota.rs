//! Limits for what a process may use of the machine, as container platforms set them: processor time, and writes to a disk.
//!
//! Always true: the control group is removed at the end, and its processes go on without the limit.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A control group with a limit.
pub(crate) struct Quota {
    group: PathBuf,
    /// Where its processes were before.
    above: PathBuf,
}

impl Quota {
    /// Gives a process a share of one processor; `None` where this system does not let us.
    pub(crate) fn of_processor(pid: u32, share: f64) -> Option<Self> {
        let quota = Self::begin("cpu", "cpu.cfs_quota_us", pid)?;
        let time = (share * PERIOD) as u64;
        quota
            .write("cpu.cfs_period_us", &format!("{PERIOD}"))
            .and_then(|()| quota.write("cpu.cfs_quota_us", &time.to_string()))
            .or_else(|_| quota.write("cpu.max", &format!("{time} {PERIOD}")))
            .ok()?;
        quota.write("cgroup.procs", &pid.to_string()).ok()?;
        Some(quota)
    }

    /// Lets a process and its children write to the device of a folder so many times a second; `None` where this system does not let us.
    pub(crate) fn of_disk(pid: u32, folder: &Path, writes: u32) -> Option<Self> {
        let quota = Self::begin("blkio", "blkio.throttle.write_iops_device", pid)?;
        let device = fs::metadata(folder).ok()?.dev();
        let device = disk_of(device)?;
        quota
            .write("blkio.throttle.write_iops_device", &format!("{device} {writes}"))
            .or_else(|_| quota.write("io.max", &format!("{device} wiops={writes}")))
            .ok()?;
        quota.write("cgroup.procs", &pid.to_string()).ok()?;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        // One that has ended meanwhile needs no limit.
        children.split_whitespace().for_each(|pid| drop(quota.write("cgroup.procs", pid)));
        Some(quota)
    }

    fn begin(controller: &str, file: &str, pid: u32) -> Option<Self> {
        let roots = [Path::new("/sys/fs/cgroup").join(controller), PathBuf::from("/sys/fs/cgroup")];
        let root = roots.into_iter().find(|root| {
            // The group at the top has no limit of its own processor time.
            root.join(file).exists() || root.join("tasks").exists() || root.join("cgroup.controllers").exists()
        })?;
        let quota = Self { group: root.join(format!("trunkline-test-{pid}")), above: root };
        fs::create_dir(&quota.group).ok()?;
        Some(quota)
    }

    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        fs::write(self.group.join(file), text)
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

/// The disk of a file system, as `major:minor`. A root without a block device of its own is looked up in the table of mounts.
fn disk_of(device: u64) -> Option<String> {
    // As the C library divides the number of a device.
    let major = |device: u64| (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = |device: u64| (device & 0xff) | (device >> 12 & !0xff);
    let numbers = |device: u64| format!("{}:{}", major(device), minor(device));
    let own = numbers(device);
    if Path::new("/sys/dev/block").join(&own).exists() {
        return Some(own);
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(own.as_str()))?;
    let (_, behind) = line.split_once(" - ")?;
    let path = behind.split(' ').nth(1)?;
    Some(numbers(fs::metadata(path).ok()?.rdev()))
}

/// Microseconds; the shortest that the kernel takes is 1,000.
const PERIOD: f64 = 100_000.0;
