//! What callgrind has written down: the instructions, and the code that they are in.
//!
//! Always true: an instruction is counted where it stands, not where it is called from.
//! Not here: when callgrind counts (`valgrind`).

use std::collections::{BTreeMap, BTreeSet};

/// What was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Executed {
    pub(super) instructions: f64,
    /// The lines of the cache, in bytes, of all instructions that were executed in at least every second transaction.
    pub(super) code_bytes: f64,
}

impl Executed {
    /// Reads a dump made with `--dump-instr=yes --dump-line=no --compress-pos=no`. `None` if it counts nothing.
    pub(super) fn read(dump: &str, transactions: u64) -> Option<Self> {
        let mut executed: BTreeMap<u64, u64> = BTreeMap::new();
        let mut is_call = false;
        for line in dump.lines() {
            if line.starts_with("calls=") {
                // The line behind it is what the called function has cost.
                is_call = true;
                continue;
            }
            let Some((address, cost)) = line.strip_prefix("0x").and_then(|line| line.split_once(' ')) else { continue };
            if std::mem::take(&mut is_call) {
                continue;
            }
            *executed.entry(u64::from_str_radix(address, 16).ok()?).or_default() += cost.trim().parse::<u64>().ok()?;
        }
        let instructions: u64 = executed.values().sum();
        let usual = executed.iter().filter(|(_, times)| **times * 2 >= transactions);
        let lines: BTreeSet<u64> = usual.map(|(address, _)| address / CACHE_LINE).collect();
        let code = lines.len() as u64 * CACHE_LINE;
        (instructions > 0).then_some(Self { instructions: instructions as f64, code_bytes: code as f64 })
    }
}

/// Bytes.
const CACHE_LINE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_counted_by_lines_of_the_cache_and_calls_are_not_counted_twice() {
        let dump = "\
version: 1
positions: instr
events: Ir

fn=(1) main
0x1000 10
0x1004 10
calls=10 0x2000
0x1004 400
0x1040 10

fn=(2) called
0x2000 39
0x203f 10
0x2040 4
totals: 83
";
        let wanted = Executed { instructions: 83.0, code_bytes: 3.0 * 64.0 };
        assert_eq!(Executed::read(dump, 10), Some(wanted));
        assert_eq!(Executed::read(dump, 8).map(|executed| executed.code_bytes), Some(4.0 * 64.0));
        assert_eq!(Executed::read("events: Ir\n", 1), None);
    }
}
