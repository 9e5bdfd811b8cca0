//! What `/proc` tells about a running program: its children, its memory, its processor time.
//!
//! Always true: a program that has ended meanwhile counts as nothing and is never an error.

use std::fs;

/// Memory, and how it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The amount.
    pub bytes: u64,
    /// How it was counted.
    pub kind: MemoryKind,
}

/// How memory was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Proportional set size without shared memory: a page that n programs share counts for one nth in each, and
    /// PostgreSQL's shared buffers, which exist in any case, do not count. Such values may be added up.
    Proportional,
    /// Resident set size: shared pages count in full in each program. Used if the kernel does not let us read the
    /// proportional size.
    Resident,
}

/// Processor time of all threads of a program, in microseconds, to the kernel's tick of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// In user mode.
    pub user_us: u64,
    /// In the kernel.
    pub system_us: u64,
}

impl Cpu {
    /// The sum of both.
    #[must_use]
    pub fn total_us(self) -> u64 {
        self.user_us + self.system_us
    }

    /// The time used since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
        }
    }
}

/// The direct children of a program.
#[must_use]
pub fn children_of(pid: u32) -> Vec<u32> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(list) => list.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
        // The kernel was built without CONFIG_PROC_CHILDREN.
        Err(_) => all_programs().into_iter().filter(|&child| parent_of(child) == Some(pid)).collect(),
    }
}

/// The memory of a program: the proportional size if the kernel tells it, else the resident size.
#[must_use]
pub fn memory_of(pid: u32) -> Option<Memory> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    match rollup.and_then(|text| proportional_in(&text)) {
        Some(bytes) => Some(Memory { bytes, kind: MemoryKind::Proportional }),
        None => resident_of(pid).map(|bytes| Memory { bytes, kind: MemoryKind::Resident }),
    }
}

/// Bytes that a program has in memory now (`VmRSS`).
#[must_use]
pub fn resident_of(pid: u32) -> Option<u64> {
    kib_after(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

/// Most bytes that a program ever had in memory at one time (`VmHWM`).
#[must_use]
pub fn resident_peak_of(pid: u32) -> Option<u64> {
    kib_after(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM:")
}

/// The processor time that a program has used so far.
#[must_use]
pub fn cpu_of(pid: u32) -> Option<Cpu> {
    cpu_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The processor time of a program and its children, those included that have ended.
#[must_use]
pub fn family_cpu_of(pid: u32) -> Cpu {
    let read = |pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let own = read(pid).and_then(|stat| cpu_in(&stat));
    let ended = read(pid).and_then(|stat| ended_cpu_in(&stat));
    let children = children_of(pid).into_iter().filter_map(cpu_of);
    own.into_iter().chain(ended).chain(children).fold(Cpu::default(), |sum, cpu| Cpu {
        user_us: sum.user_us + cpu.user_us,
        system_us: sum.system_us + cpu.system_us,
    })
}

/// Fields 14 and 15 of `/proc/PID/stat` (proc(5)). The second field, in parentheses, may contain spaces.
fn cpu_in(stat: &str) -> Option<Cpu> {
    cpu_from(stat, 14)
}

/// Fields 16 and 17: those of the children that have ended and been waited for.
fn ended_cpu_in(stat: &str) -> Option<Cpu> {
    cpu_from(stat, 16)
}

/// The field of this number, and the next one.
fn cpu_from(stat: &str, number: usize) -> Option<Cpu> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(number - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Cpu { user_us: user * US_PER_TICK, system_us: system * US_PER_TICK })
}

/// Before Linux 5.4 the kernel does not report the share of shared memory, which is then included.
fn proportional_in(rollup: &str) -> Option<u64> {
    let shared = kib_after(rollup, "Pss_Shmem:").unwrap_or(0);
    kib_after(rollup, "Pss:").map(|all| all.saturating_sub(shared))
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn all_programs() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn kib_after(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// `USER_HZ` is 100 on every Linux that PostgreSQL runs on.
const US_PER_TICK: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_a_name_with_spaces_and_parentheses() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 25 40 0 0 20 0 1 0 100 1000 10";
        let cpu = cpu_in(stat).expect("times");
        assert_eq!(cpu, Cpu { user_us: 250_000, system_us: 400_000 });
        let ended = ended_cpu_in(&stat.replace("25 40 0 0", "25 40 3 4")).expect("times");
        assert_eq!(ended, Cpu { user_us: 30_000, system_us: 40_000 });
        assert_eq!(cpu.since(Cpu { user_us: 50_000, system_us: 100_000 }).total_us(), 500_000);
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "VmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(kib_after(status, "VmRSS:"), Some(1_048_576));
        assert_eq!(kib_after(status, "VmSwap:"), None);
    }

    #[test]
    fn shared_memory_is_not_charged_to_those_who_share_it() {
        assert_eq!(proportional_in("Pss:  900 kB\nPss_Anon:  80 kB\nPss_Shmem:  800 kB\n"), Some(102_400));
        assert_eq!(proportional_in("Pss:  900 kB\n"), Some(921_600));
    }

    #[test]
    fn our_own_memory_is_more_than_nothing() {
        let own = std::process::id();
        assert!(memory_of(own).expect("ours").bytes > 0);
        assert!(resident_peak_of(own) >= Some(4096));
    }

    #[test]
    fn a_program_that_is_gone_has_nothing() {
        assert!(children_of(u32::MAX).is_empty());
        assert_eq!(memory_of(u32::MAX), None);
        assert_eq!(cpu_of(u32::MAX), None);
    }
}
