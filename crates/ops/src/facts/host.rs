//! What the kernel says of the server's machine: memory, pages, processes of PostgreSQL.
//!
//! Always true: files below `/proc` and `/sys` are read and nothing else is done; what may not be read is absent with its reason. Sizes are in
//! bytes, times in seconds.
//! Not here: which processes are the server's (`pg_stat_activity` says it), conclusions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::postgres::Observed;

/// A machine.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// `/proc/meminfo`.
    pub(crate) memory: Observed<BTreeMap<String, f64>>,
    /// Processors, or as many as the control group allows.
    pub(crate) cores: Observed<f64>,
    /// The limit of the control group of the postmaster.
    pub(crate) group_limit: Option<f64>,
    /// `transparent_hugepage/enabled`.
    pub(crate) transparent: Observed<String>,
    /// `vm.overcommit_memory`.
    pub(crate) overcommit: Observed<f64>,
    /// The processes of the server.
    pub(crate) processes: Observed<Processes>,
    /// The filesystem of the data directory.
    pub(crate) filesystem: Observed<String>,
    /// The size of the disk of the data directory.
    pub(crate) disk: Option<f64>,
    /// The share of one processor that each process used between the readings.
    pub(crate) usage: Observed<BTreeMap<u32, f64>>,
}

/// The processes of the server.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Processes {
    /// The postmaster.
    pub(crate) postmaster: u32,
    /// Its `oom_score_adj`.
    pub(crate) oom_score_adj: Option<f64>,
    /// Its largest address space (`VmPeak`).
    pub(crate) peak: Option<f64>,
    /// Processes whose memory could be read, and the sum of their proportional set sizes (`smaps_rollup`), or why not.
    pub(crate) pss: Observed<(usize, f64)>,
    /// The sum of their page tables (`VmPTE`).
    pub(crate) page_tables: f64,
    /// Their number.
    pub(crate) count: usize,
}

impl Host {
    /// Reads what there is below `root` (`/`). `pids` are backends of the server, `data_directory` its files, if they are known.
    pub(crate) fn read(root: &Path, pids: &Observed<Vec<u32>>, data_directory: Option<&str>) -> Self {
        let processes = pids.clone().and_then(|pids| processes(root, &pids));
        let postmaster = processes.as_ref().ok().map(|processes| processes.postmaster);
        let group = postmaster.map(|pid| groups(root, pid)).unwrap_or_default();
        Self {
            memory: meminfo(root),
            cores: cores(root, &group),
            group_limit: group_limit(root, &group),
            transparent: text(root, "sys/kernel/mm/transparent_hugepage/enabled").map(|line| bracketed(&line)),
            overcommit: text(root, "proc/sys/vm/overcommit_memory")
                .and_then(|line| line.trim().parse().map_err(|_| "vm.overcommit_memory as a number".to_owned())),
            processes,
            filesystem: filesystem(root, data_directory),
            disk: None,
            usage: Err("a second reading (--seconds)".to_owned()),
        }
    }

    /// All memory in bytes, or what the control group allows.
    pub(crate) fn memory(&self) -> Observed<f64> {
        let all = self.of_memory("MemTotal")?;
        Ok(self.group_limit.map_or(all, |limit| limit.min(all)))
    }

    /// A line of `/proc/meminfo`.
    pub(crate) fn of_memory(&self, name: &str) -> Observed<f64> {
        let memory = self.memory.as_ref().map_err(String::clone)?;
        memory.get(name).copied().ok_or_else(|| format!("{name} in /proc/meminfo"))
    }
}

/// The processor time that each process has used since it began.
pub(crate) fn processor_times(root: &Path, pids: &[u32]) -> BTreeMap<u32, f64> {
    pids.iter().filter_map(|pid| Some((*pid, time_of(root, &format!("proc/{pid}/stat"))?))).collect()
}

/// The processor time in a file `stat`.
fn time_of(root: &Path, path: &str) -> Option<f64> {
    let line = text(root, path).ok()?;
    // The name in parentheses may contain anything.
    let (_, rest) = line.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace().skip(11);
    let (user, system): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((user + system) / TICKS_A_SECOND)
}

/// The processor time that each thread of a process has used since it began.
pub(crate) fn thread_times(root: &Path, pid: u32) -> Observed<BTreeMap<u32, f64>> {
    let folder = root.join(format!("proc/{pid}/task"));
    let refused = |error: std::io::Error| format!("/proc/{pid}/task ({error})");
    let names = fs::read_dir(folder).map_err(refused)?.flatten();
    let threads: Vec<u32> = names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
    let nanoseconds = |thread: &u32| -> Option<f64> {
        let line = text(root, &format!("proc/{pid}/task/{thread}/schedstat")).ok()?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    let exact: BTreeMap<u32, f64> =
        threads.iter().filter_map(|thread| Some((*thread, nanoseconds(thread)? / 1e9))).collect();
    if !exact.is_empty() {
        return Ok(exact);
    }
    // A kernel without it counts ticks, of which a thread that sleeps often has too many or too few.
    Ok(threads
        .iter()
        .filter_map(|thread| Some((*thread, time_of(root, &format!("proc/{pid}/task/{thread}/stat"))?)))
        .collect())
}

/// The share of a time for which the busiest thread of a process wanted a processor and had none, by two readings: others had it, or the control
/// group's time was used up.
pub(crate) fn starvation(before: &ThreadWaits, after: &ThreadWaits, seconds: f64) -> Observed<f64> {
    let grown = after.iter().filter_map(|(thread, (used, waited))| {
        let (used_then, waited_then) = before.get(thread)?;
        Some((used - used_then, waited - waited_then))
    });
    let busiest = grown.max_by(|one, other| (one.0 + one.1).total_cmp(&(other.0 + other.1)));
    let (_, waited) = busiest.ok_or("the same process at the end of the time")?;
    Ok((waited / seconds.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0))
}

/// Of each thread the processor time that it has used, and the time for which it has waited for one, in seconds since it began.
pub(crate) type ThreadWaits = BTreeMap<u32, (f64, f64)>;

/// How long the threads of a process have waited for processors.
pub(crate) fn thread_waits(root: &Path, pid: u32) -> Observed<ThreadWaits> {
    let folder = root.join(format!("proc/{pid}/task"));
    let refused = |error: std::io::Error| format!("/proc/{pid}/task ({error})");
    let names = fs::read_dir(folder).map_err(refused)?.flatten();
    let threads = names.filter_map(|name| name.file_name().to_str()?.parse::<u32>().ok());
    let waits: ThreadWaits = threads
        .filter_map(|thread| {
            let line = text(root, &format!("proc/{pid}/task/{thread}/schedstat")).ok()?;
            let mut words = line.split_ascii_whitespace().map(|word| word.parse::<f64>().ok());
            Some((thread, (words.next()?? / 1e9, words.next()?? / 1e9)))
        })
        .collect();
    match waits.is_empty() {
        true => Err(format!("/proc/{pid}/task/*/schedstat, which this kernel does not have")),
        false => Ok(waits),
    }
}

/// The processor time that the whole machine has used, and all that there was, since it began. The unit is the kernel's.
pub(crate) fn machine_times(root: &Path) -> Observed<(f64, f64)> {
    let text = text(root, "proc/stat")?;
    let words = text.lines().next().unwrap_or_default().split_ascii_whitespace().skip(1);
    // What guests use is part of what users use.
    let times: Vec<f64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
    let all: f64 = times.iter().sum();
    let idle = times.get(3).copied().unwrap_or(0.0) + times.get(4).copied().unwrap_or(0.0);
    if all > 0.0 { Ok((all - idle, all)) } else { Err("/proc/stat, which has no times".to_owned()) }
}

/// Processors that a process may use: all, or as many as its control groups allow.
pub(crate) fn allowed_processors(root: &Path, pid: u32) -> Observed<f64> {
    cores(root, &groups(root, pid))
}

/// Pages that memory needs.
pub(crate) fn pages_needed(bytes: f64, page: f64) -> f64 {
    (bytes / page).ceil()
}

fn text(root: &Path, path: &str) -> Observed<String> {
    fs::read_to_string(root.join(path)).map_err(|error| format!("/{path} ({error})"))
}

fn meminfo(root: &Path) -> Observed<BTreeMap<String, f64>> {
    Ok(amounts(&text(root, "proc/meminfo")?))
}

/// Lines such as `MemTotal: 123 kB`, and those that count pages.
fn amounts(text: &str) -> BTreeMap<String, f64> {
    let amount = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let mut words = rest.split_whitespace();
        let number: f64 = words.next()?.parse().ok()?;
        let times = if words.next() == Some("kB") { 1024.0 } else { 1.0 };
        Some((name.to_owned(), number * times))
    };
    text.lines().filter_map(amount).collect()
}

/// `always [madvise] never` is `madvise`.
fn bracketed(line: &str) -> String {
    let inner = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(line.trim(), |(word, _)| word).to_owned()
}

fn cores(root: &Path, groups: &[PathBuf]) -> Observed<f64> {
    let online = text(root, "proc/cpuinfo")?.lines().filter(|line| line.starts_with("processor")).count();
    if online == 0 {
        return Err("/proc/cpuinfo, which names no processor".to_owned());
    }
    let online = online as f64;
    let quota = |group: &PathBuf| {
        let group = group.display();
        if let Ok(line) = text(root, &format!("{group}/cpu.max")) {
            let (quota, period) = line.trim().split_once(' ')?;
            return Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?);
        }
        let number = |name: &str| text(root, &format!("{group}/{name}")).ok()?.trim().parse::<f64>().ok();
        Some(number("cpu.cfs_quota_us").filter(|quota| *quota > 0.0)? / number("cpu.cfs_period_us")?)
    };
    Ok(groups.iter().filter_map(quota).fold(online, f64::min))
}

/// The folders of a process's control groups, and of those above, in both versions.
fn groups(root: &Path, pid: u32) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text(root, &format!("proc/{pid}/cgroup")).unwrap_or_default().lines().take(GROUPS_MAX) {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(kinds), Some(path)) = (parts.next(), parts.next()) else { continue };
        let bases: Vec<String> = match kinds {
            "" => vec!["sys/fs/cgroup".to_owned()],
            kinds => kinds.split(',').chain([kinds]).map(|kind| format!("sys/fs/cgroup/{kind}")).collect(),
        };
        for base in bases {
            let base = PathBuf::from(base);
            let inner = Path::new(path.trim_start_matches('/'));
            folders.extend(inner.ancestors().take(GROUPS_MAX).map(|part| base.join(part)));
        }
    }
    folders
}

fn group_limit(root: &Path, groups: &[PathBuf]) -> Option<f64> {
    let limit = |group: &PathBuf| {
        let read = |name: &str| text(root, &format!("{}/{name}", group.display())).ok();
        let line = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
        line.trim().parse::<f64>().ok()
    };
    // A limit that is not set is the largest number in version 1.
    groups.iter().filter_map(limit).filter(|limit| *limit < NO_LIMIT).min_by(f64::total_cmp)
}

fn processes(root: &Path, pids: &[u32]) -> Observed<Processes> {
    let status = |pid: u32| text(root, &format!("proc/{pid}/status"));
    let field = |status: &str, name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.get(name.len()..)?.trim_start_matches(':').split_whitespace().next().map(str::to_owned)
    };
    let postmaster = pids.iter().find_map(|pid| {
        let status = status(*pid).ok()?;
        let is_postgres = field(&status, "Name").is_some_and(|name| name.starts_with("postgres"));
        field(&status, "PPid").filter(|_| is_postgres)?.parse::<u32>().ok()
    });
    let not_here = || "processes of the server on this machine (its backends are not among them)".to_owned();
    let postmaster = postmaster.filter(|pid| *pid > 1).ok_or_else(not_here)?;
    let mut found = Processes {
        postmaster,
        oom_score_adj: text(root, &format!("proc/{postmaster}/oom_score_adj"))
            .ok()
            .and_then(|line| line.trim().parse().ok()),
        peak: status(postmaster).ok().and_then(|status| amounts(&status).get("VmPeak").copied()),
        pss: Ok((0, 0.0)),
        page_tables: 0.0,
        count: 0,
    };
    for pid in pids.iter().chain([&postmaster]) {
        let Ok(status) = status(*pid) else { continue };
        found.count += 1;
        found.page_tables += amounts(&status).get("VmPTE").copied().unwrap_or(0.0);
        match (text(root, &format!("proc/{pid}/smaps_rollup")), &mut found.pss) {
            (Ok(rollup), Ok((count, sum))) => {
                *count += 1;
                *sum += amounts(&rollup).get("Pss").copied().unwrap_or(0.0);
            }
            // A process may have ended meanwhile.
            (Err(why), pss) if !why.contains("No such") => *pss = Err(why),
            _ => {}
        }
    }
    Ok(found)
}

fn filesystem(root: &Path, data_directory: Option<&str>) -> Observed<String> {
    let directory = Path::new(data_directory.ok_or("data_directory, which the server does not show")?);
    let mounts = text(root, "proc/self/mounts")?;
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(point), Some(kind)) = (words.next(), words.next()) else { continue };
        let point = point.replace("\\040", " ");
        if directory.starts_with(&point) && best.is_none_or(|(length, _)| point.len() >= length) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned()).ok_or_else(|| "the mount of data_directory".to_owned())
}

/// The unit of `/proc/PID/stat` on all machines that Linux has.
const TICKS_A_SECOND: f64 = 100.0;
/// Bytes; half of an address space.
const NO_LIMIT: f64 = 4_611_686_018_427_387_904.0;
/// Control groups, and levels of them, that are read.
const GROUPS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that exist until the end of a test.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("trunkline-host-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                fs::write(path, text).expect("a file");
            }
            Self(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_sources_example_is_rounded_up() {
        assert_eq!(pages_needed(148_392_404.0, 2048.0), 72_458.0);
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let tree = Tree::new(
            "machine",
            &[
                (
                    "proc/meminfo",
                    "MemTotal:       24000000 kB\nPageTables:  100 kB\nHugePages_Total:  7\nHugepagesize:  2048 kB\n",
                ),
                ("proc/cpuinfo", "processor\t: 0\nprocessor\t: 1\nprocessor\t: 2\n"),
                ("proc/sys/vm/overcommit_memory", "2\n"),
                ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
                ("proc/self/mounts", "a / ext4 rw 0 0\nb /var nfs4 rw 0 0\nc /var/lib xfs rw 0 0\n"),
                ("proc/17/status", "Name:\tpostgres\nPPid:\t16\nVmPTE:\t 300 kB\n"),
                ("proc/17/smaps_rollup", "55 ---p [rollup]\nRss: 9 kB\nPss:  7 kB\n"),
                ("proc/17/stat", "17 (post) gres) S 16 1 1 0 -1 1 1 1 1 1 150 50 0 0"),
                ("proc/16/status", "Name:\tpostgres\nPPid:\t1\nVmPeak:\t 4096 kB\n"),
                ("proc/16/smaps_rollup", "Pss:  3 kB\n"),
                ("proc/17/task/18/stat", "18 (worker) S 16 1 1 0 -1 1 1 1 1 1 10 5 0 0"),
                ("proc/16/task/16/schedstat", "2500000000 7 8\n"),
                ("proc/stat", "cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 1\n"),
                ("proc/16/oom_score_adj", "-900\n"),
                ("proc/16/cgroup", "4:cpu,cpuacct:/a/b\n3:memory:/a/b\n"),
                ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n"),
                ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1048576\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        let root = tree.0.as_path();
        let host = Host::read(root, &Ok(vec![17, 18]), Some("/var/lib/postgresql"));
        assert_eq!((host.cores, host.overcommit, host.filesystem), (Ok(1.5), Ok(2.0), Ok("xfs".to_owned())));
        assert_eq!((host.transparent, host.group_limit), (Ok("madvise".to_owned()), Some(1_048_576.0)));
        let memory = host.memory.expect("memory");
        assert_eq!((memory["PageTables"], memory["HugePages_Total"]), (102_400.0, 7.0));
        let processes = host.processes.expect("processes");
        assert_eq!((processes.postmaster, processes.oom_score_adj), (16, Some(-900.0)));
        assert_eq!((processes.pss, processes.page_tables), (Ok((2, 10_240.0)), 307_200.0));
        assert_eq!(processor_times(root, &[17, 99]), BTreeMap::from([(17, 2.0)]));
        assert_eq!(thread_times(root, 17), Ok(BTreeMap::from([(18, 0.15)])));
        assert_eq!(thread_times(root, 16), Ok(BTreeMap::from([(16, 2.5)])));
        let begin = thread_waits(root, 16).expect("one thread");
        assert_eq!(begin, BTreeMap::from([(16, (2.5, 7e-9))]));
        assert!(thread_waits(root, 17).expect_err("ticks only").contains("schedstat"));
        // The busiest thread ran for 1 s and waited for 6 s of 10.
        let end = BTreeMap::from([(16, (3.5, 6.0)), (21, (9.0, 9.0))]);
        assert_eq!(starvation(&begin, &end, 10.0).map(|share| (share * 1000.0).round()), Ok(600.0));
        assert!(starvation(&begin, &BTreeMap::new(), 1.0).is_err());
        assert!(thread_times(root, 99).is_err() && machine_times(root) == Ok((20.0, 100.0)));
        assert_eq!(allowed_processors(root, 16), Ok(1.5));
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        let tree = Tree::new("other", &[("proc/17/status", "Name:\tbash\nPPid:\t16\n")]);
        let host = Host::read(&tree.0, &Ok(vec![17]), None);
        assert!(host.memory().expect_err("no file").contains("/proc/meminfo"));
        assert!(host.processes.expect_err("another's").contains("on this machine"));
        assert!(host.cores.is_err() && host.filesystem.is_err());
    }
}
