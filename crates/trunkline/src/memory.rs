//! How much memory the process may take, as its control group says.
//!
//! Always true: the least limit on the way from the process's own group to the root counts, for both versions of control
//! groups; without a limit, or where they cannot be read, there is none.
//! Not here: what workers may hold for their clients (`protocol::prepared`).

use std::fs;
use std::path::{Path, PathBuf};

/// The bytes that each of so many workers may hold for its clients: a quarter of the process's memory, shared equally.
pub(crate) fn held_bytes_max(limit: Option<u64>, workers: usize) -> usize {
    let share = limit.map_or(u64::MAX, |limit| limit / 4 / workers.max(1) as u64);
    usize::try_from(share).unwrap_or(usize::MAX)
}

/// The limit of this process's control group, in bytes.
pub(crate) fn limit() -> Option<u64> {
    limit_in(Path::new("/sys/fs/cgroup"), &fs::read_to_string("/proc/self/cgroup").ok()?)
}

/// The limit of a process's control group, in bytes, from the lines of its `/proc/self/cgroup` (cgroups(7)) and the
/// file system of control groups.
fn limit_in(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) =
            (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (place, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        limits_of(&place, group, file)
    });
    // Version 1 says that there is no limit by a number that no machine has.
    limits.filter(|limit| *limit < NO_LIMIT).min()
}

/// The limits of a group and of those that it belongs to. In a container the path may be that of the host, where only the
/// root can be read.
fn limits_of(place: &Path, group: &str, file: &str) -> Vec<u64> {
    let mut path: PathBuf = place.join(group.trim_start_matches('/'));
    let mut limits = Vec::new();
    while path.starts_with(place) {
        let text = fs::read_to_string(path.join(file)).unwrap_or_default();
        limits.extend(text.trim().parse::<u64>().ok());
        if !path.pop() {
            break;
        }
    }
    limits
}

/// From this number of bytes on a limit is none.
const NO_LIMIT: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_on_the_way_counts() {
        let root = std::env::temp_dir().join(format!("trunkline-cgroup-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("written");
        };
        write("a/memory.max", "300\n");
        write("a/b/memory.max", "max\n");
        write("memory/c/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/memory.limit_in_bytes", "500\n");
        for (groups, limit) in [
            ("0::/a/b\n", Some(300)),
            ("0::/a\n", Some(300)),
            ("0::/\n", None),
            ("4:memory:/c\n0::/\n", Some(500)),
            ("4:cpu,memory:/gone/from/here\n", Some(500)),
            ("4:cpu:/c\n", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(limit_in(&root, groups), limit, "{groups:?}");
        }
        fs::remove_dir_all(&root).expect("removed");
    }

    #[test]
    fn workers_share_a_quarter() {
        assert!(held_bytes_max(None, 2) > 1 << 40);
        assert_eq!(held_bytes_max(Some(200 << 20), 2), 25 << 20);
        assert_eq!(held_bytes_max(Some(1000), 0), 250);
    }
}
