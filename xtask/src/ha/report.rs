//! What the cases gave: for a terminal, as JSON, and as the page `docs/high-availability.md`.
//!
//! Always true: medians with the smallest and the largest, no means; a case that failed or was not run is named.
//! Not here: how it was measured (`course`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path as FilePath;
use std::process::Command;

use serde_json::{Value, json};

use super::cases::{self, Case, Loss};
use super::lab::{Lab, call};
use super::ledger::{Measured, Reads, Seen};
use super::namespaces::TRUNKLINE;
use super::paths::Path;
use crate::house::House;

/// The runs of each case, by its name.
#[derive(Default)]
pub(super) struct Results {
    measured: BTreeMap<&'static str, Vec<Measured>>,
    failed: Vec<(&'static str, String)>,
}

impl Results {
    pub(super) fn add(&mut self, case: &'static str, measured: Measured) {
        self.measured.entry(case).or_default().push(measured);
    }

    pub(super) fn fail(&mut self, case: &'static str, why: String) {
        self.failed.push((case, why));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.measured.is_empty()
    }

    fn of(&self, case: &Case) -> &[Measured] {
        self.measured.get(case.name).map_or(&[], Vec::as_slice)
    }
}

pub(super) struct Report<'a> {
    machine: Vec<(&'static str, String)>,
    cases: &'a [&'static Case],
    results: &'a Results,
}

impl<'a> Report<'a> {
    pub(super) fn new(machine: &[(&'static str, String)], cases: &'a [&'static Case], results: &'a Results) -> Self {
        Self { machine: machine.to_vec(), cases, results }
    }

    pub(super) fn terminal(&self) -> String {
        let mut text = self.gaps();
        text += &self.comparison();
        text += "\n";
        text += &self.acceptance();
        text += &self.rest();
        text
    }

    pub(super) fn page(&self) -> String {
        let mut text = PREFACE.to_owned();
        text += "\n| | |\n|---|---|\n";
        for (word, what) in &self.machine {
            text += &format!("| {word} | {what} |\n");
        }
        text += "\n## The longest time without an acknowledged write\n\n";
        text += &self.gaps();
        text += &self.comparison();
        text += "\n## After the new primary accepts writes\n\n";
        text += ACCEPTANCE;
        text += &self.acceptance();
        text += "\n## Errors, and what became of the writes\n\n";
        text += &self.counts();
        text += "\n## Readers of a standby\n\n";
        text += &self.reads();
        text += &self.rest();
        text
    }

    fn measured(&self) -> impl Iterator<Item = (&'static Case, &'a [Measured])> {
        let cases = self.cases.iter().map(|case| (*case, self.results.of(case)));
        cases.filter(|(_, runs)| !runs.is_empty())
    }

    /// The cases that have no result, not even a failure.
    fn not_run(&self) -> Vec<String> {
        let has_failed = |case: &&Case| self.results.failed.iter().any(|(name, _)| *name == case.name);
        let run = self.cases.iter().copied().filter(|case| !self.results.of(case).is_empty() || has_failed(case));
        cases::not_run(&run.collect::<Vec<_>>())
    }

    fn gaps(&self) -> String {
        let mut text =
            head(&["case", "A direct", "B HAProxy", "C PgBouncer, HAProxy", "D Trunkline", "wanted of D", ""]);
        for (case, runs) in self.measured() {
            let gaps = Path::ALL.map(|path| {
                let gap = spread(&numbers(runs, path, |seen| seen.gap_ms), seconds);
                match numbers(runs, path, |seen| seen.lost as f64).iter().sum::<f64>() {
                    0.0 => gap,
                    lost => format!("{gap}, {lost:.0} lost"),
                }
            });
            text += &format!(
                "| {}: {} | {} | {} | {} |\n",
                case.name,
                case.title,
                gaps.join(" | "),
                wanted(case),
                verdict(case, runs)
            );
        }
        text
    }

    /// How path D's gap compares with those of A and B in the same runs.
    fn comparison(&self) -> String {
        let mut shorter = Vec::new();
        let mut others = Vec::new();
        for (case, runs) in self.measured() {
            let [a, b, d] = [Path::Direct, Path::HaProxy, Path::Trunkline]
                .map(|path| median(&numbers(runs, path, |seen| seen.gap_ms)).unwrap_or_default());
            if a.max(b).max(d) < OUTAGE_MS {
                continue;
            }
            let lost = |path| match numbers(runs, path, |seen| seen.lost as f64).iter().sum::<f64>() {
                0.0 => String::new(),
                lost => format!(", which has lost {lost:.0} writes"),
            };
            if d <= a + RESOLUTION_MS && d <= b + RESOLUTION_MS {
                shorter.push(case.name);
            } else {
                let times = |other: f64| format!("{:.2}", d / other.max(1.0));
                let words =
                    format!("{} of A{}, {} of B{}", times(a), lost(Path::Direct), times(b), lost(Path::HaProxy));
                others.push(format!("{} ({words})", case.name));
            }
        }
        let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let shorter: Vec<String> = shorter.into_iter().map(str::to_owned).collect();
        format!(
            "\nOf the cases with an outage on any of these paths, that of D is not longer than those of A and B in: {}. It is longer than one of them in: {}.\n",
            list(&shorter),
            list(&others)
        )
    }

    /// When each path's writes go on, counted from when the new primary accepts them.
    fn acceptance(&self) -> String {
        let mut text = head(&[
            "case",
            "A direct",
            "B HAProxy",
            "C PgBouncer, HAProxy",
            "D Trunkline",
            "writes at another host for longer than that",
        ]);
        for (case, runs) in self.measured() {
            let promoted: Vec<_> = runs.iter().filter_map(|run| Some((run, run.acceptance.as_ref()?))).collect();
            if promoted.is_empty() {
                continue;
            }
            let seen = |path| promoted.iter().filter_map(move |(run, accepts)| Some((run.seen.get(&path)?, *accepts)));
            let firsts = Path::ALL.map(|path| {
                let all: Vec<f64> = seen(path).filter_map(|(seen, accepts)| accepts.first_write_ms(seen)).collect();
                if all.is_empty() { "never".to_owned() } else { spread(&all, |ms| format!("{:.2} s", ms / 1e3)) }
            });
            let olds = Path::ALL.into_iter().filter_map(|path| {
                let longest = seen(path).map(|(seen, accepts)| accepts.old_writes_ms(seen)).fold(0.0, f64::max);
                let divergence = seen(path).filter_map(|(seen, _)| seen.divergence).max().unwrap_or(0);
                let rows = if divergence == 0 { String::new() } else { format!(" ({divergence} rows)") };
                (longest > 0.0).then(|| format!("{}: {:.2} s{rows}", path.letter(), longest / 1e3))
            });
            let olds: Vec<String> = olds.collect();
            let olds = if olds.is_empty() { "none".to_owned() } else { olds.join(", ") };
            text += &format!("| {} | {} | {olds} |\n", case.name, firsts.join(" | "));
        }
        text
    }

    fn counts(&self) -> String {
        let mut text = head(&[
            "case",
            "path",
            "acknowledged",
            "refused",
            "unknown",
            "lost",
            "duplicate",
            "failed connects",
            "SQLSTATE",
            "acknowledged by",
        ]);
        for (case, runs) in self.measured() {
            for path in Path::ALL {
                let of = |what: fn(&Seen) -> u64| {
                    spread(&numbers(runs, path, |seen| what(seen) as f64), |count| format!("{count:.0}"))
                };
                let kinds: [fn(&Seen) -> u64; 6] = [
                    |seen| seen.acked,
                    |seen| seen.refused,
                    |seen| seen.unknown,
                    |seen| seen.lost,
                    |seen| seen.duplicate,
                    |seen| seen.connects_failed,
                ];
                let seen = || runs.iter().filter_map(|run| run.seen.get(&path));
                let (codes, members) = (sums(seen().map(|seen| &seen.codes)), sums(seen().map(|seen| &seen.members)));
                let counts = kinds.map(of).join(" | ");
                text += &format!("| {} | {} | {counts} | {codes} | {members} |\n", case.name, path.label());
            }
        }
        text
    }

    fn reads(&self) -> String {
        let mut text =
            head(&["case", "path", "longest time without an answer", "failed reads", "stale at most", "answered by"]);
        for (case, runs) in self.measured() {
            for path in Path::ALL {
                let of = |what: fn(&Reads) -> f64| -> Vec<f64> {
                    runs.iter().filter_map(|run| run.read.get(&path)).map(what).collect()
                };
                let gap = spread(&of(|read| read.gap_ms), seconds);
                let failed = spread(&of(|read| read.failed as f64), |count| format!("{count:.0}"));
                let stale = spread(&of(|read| read.stale_ms), seconds);
                let members = sums(runs.iter().filter_map(|run| run.read.get(&path)).map(|read| &read.members));
                text += &format!("| {} | {} | {gap} | {failed} | {stale} | {members} |\n", case.name, path.label());
            }
        }
        text
    }

    /// What cannot be told by a number.
    fn rest(&self) -> String {
        let notes = self.measured().flat_map(|(case, runs)| runs.iter().map(move |run| (case, run)));
        let notes: Vec<String> = notes
            .flat_map(|(case, run)| run.notes.iter().map(move |note| format!("- {}: {note}\n", case.name)))
            .collect();
        let mut text = String::new();
        if !notes.is_empty() {
            text += "\n## Besides\n\n";
            text.extend(notes);
        }
        text += "\n## Not run\n\n";
        text.extend(self.not_run().iter().map(|line| format!("- {line}\n")));
        if !self.results.failed.is_empty() {
            text += "\n## Failed\n\n";
            text.extend(
                self.results.failed.iter().map(|(case, why)| format!("- {case}: {}\n", why.replace('\n', " "))),
            );
        }
        let unasked = self.measured().filter(|(_, runs)| runs.iter().any(|run| run.etcd_changed));
        let names: Vec<&str> = unasked.map(|(case, _)| case.name).collect();
        if !names.is_empty() {
            text += &format!("\netcd changed its leader during {}.\n", names.join(", "));
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let cases: Vec<Value> = self
            .measured()
            .map(|(case, runs)| json!({"case": case.name, "runs": runs.iter().map(of_run).collect::<Vec<_>>()}))
            .collect();
        let machine: BTreeMap<&str, &String> = self.machine.iter().map(|(word, what)| (*word, what)).collect();
        let failed: Vec<Value> =
            self.results.failed.iter().map(|(case, why)| json!({"case": case, "why": why})).collect();
        format!("{:#}\n", json!({"machine": machine, "cases": cases, "failed": failed, "not_run": self.not_run()}))
    }
}

fn of_run(run: &Measured) -> Value {
    let seen: BTreeMap<&str, Value> = run
        .seen
        .iter()
        .map(|(path, seen)| {
            let counts = json!({
                "gap_ms": seen.gap_ms, "acked": seen.acked, "refused": seen.refused, "unknown": seen.unknown, "lost": seen.lost,
                "phantom": seen.phantom, "divergence": seen.divergence, "p99_ms": seen.p99_ms, "duplicate": seen.duplicate, "connects_failed": seen.connects_failed,
                "codes": seen.codes, "members": seen.members,
                "first_write_after_acceptance_ms": run.acceptance.as_ref().and_then(|accepts| accepts.first_write_ms(seen)),
                "writes_elsewhere_after_acceptance_ms": run.acceptance.as_ref().map(|accepts| accepts.old_writes_ms(seen)),
            });
            (path.letter(), counts)
        })
        .collect();
    let read: BTreeMap<&str, Value> = run
        .read
        .iter()
        .map(|(path, read)| {
            let counts = json!({"gap_ms": read.gap_ms, "failed": read.failed, "stale_ms": read.stale_ms, "members": read.members});
            (path.letter(), counts)
        })
        .collect();
    json!({"paths": seen, "readers": read, "etcd_changed": run.etcd_changed, "load": run.load, "notes": run.notes})
}

fn head(words: &[&str]) -> String {
    format!("| {} |\n|{}|\n", words.join(" | "), vec!["---"; words.len()].join("|"))
}

fn numbers(runs: &[Measured], path: Path, what: impl Fn(&Seen) -> f64) -> Vec<f64> {
    runs.iter().filter_map(|run| run.seen.get(&path)).map(what).collect()
}

/// The median, and if there are several numbers, the smallest and the largest.
fn spread(numbers: &[f64], show: impl Fn(f64) -> String) -> String {
    let (least, most) =
        numbers.iter().fold((f64::MAX, f64::MIN), |(least, most), number| (least.min(*number), most.max(*number)));
    match (median(numbers).map(&show), numbers.len()) {
        (None, _) => "-".into(),
        (Some(median), 1) => median,
        (Some(median), _) => format!("{median} ({}..{})", show(least), show(most)),
    }
}

fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let low = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*low, sorted[sorted.len() / 2]))
}

fn seconds(ms: f64) -> String {
    format!("{:.1} s", ms / 1e3)
}

/// What clients of path D may notice at most.
fn wanted(case: &Case) -> String {
    let loss = match case.loss {
        Loss::None => ", nothing lost",
        Loss::NotReplicated => "",
    };
    let errors = if case.errors_max == 0 { "no error".to_owned() } else { format!("{} errors", case.errors_max) };
    format!("at most {} s, {errors}{loss}", case.gap_seconds_max)
}

/// Whether path D met that in all runs, and if not, in what.
fn verdict(case: &Case, runs: &[Measured]) -> String {
    let mut missed: Vec<&str> = Vec::new();
    for run in runs {
        let Some(seen) = run.seen.get(&Path::Trunkline) else { continue };
        let old_writes_ms = run.acceptance.as_ref().map_or(0.0, |accepts| accepts.old_writes_ms(seen));
        let wants = [
            ("the gap", seen.gap_ms <= case.gap_seconds_max * 1e3),
            ("errors", seen.refused + seen.unknown + seen.connects_failed <= case.errors_max),
            ("lost writes", case.loss == Loss::NotReplicated || seen.lost == 0),
            ("writes done twice", seen.duplicate == 0),
            ("refused writes that were done", seen.phantom == 0),
            // Both are seen every 20 ms.
            ("writes at two primaries", old_writes_ms <= 2.0 * WRITE_EVERY_MS),
        ];
        missed.extend(wants.iter().filter(|(_, is_met)| !is_met).map(|(what, _)| *what));
    }
    missed.sort_unstable();
    missed.dedup();
    if missed.is_empty() { "met".into() } else { format!("missed: {}", missed.join(", ")) }
}

/// Counts by name, summed over all runs.
fn sums<'a>(counts: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> String {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in counts.flatten() {
        *all.entry(name).or_default() += count;
    }
    all.iter().map(|(name, count)| format!("{name}: {count}")).collect::<Vec<_>>().join(", ")
}

/// What was measured, and on what: read before the first case, since a set takes long.
pub(super) fn machine(house: &House, lab: &Lab) -> Vec<(&'static str, String)> {
    let line = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(house.root()).output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().next().map_or_else(|| "unknown".into(), |line| line.trim().to_owned())
    };
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Of a program that was built elsewhere, or when the lab was raised, nobody knows it.
    let is_own = std::env::var_os(TRUNKLINE).is_some_and(|program| FilePath::new(&program).starts_with(house.target()));
    let commit = if is_own { line("git", &["rev-parse", "--short", "HEAD"]) } else { "unknown".to_owned() };
    vec![
        ("processors", format!("{processors}, for everything")),
        ("kernel", format!("Linux {}", kernel.trim())),
        ("Trunkline", trunkline_version()),
        ("commit", commit),
        ("PostgreSQL", lab.trial().programs.version.clone()),
        ("Patroni", line("patroni", &["--version"]).trim_start_matches("patroni ").to_owned()),
        ("etcd", line("etcd", &["--version"]).trim_start_matches("etcd Version: ").to_owned()),
        ("HAProxy", line("haproxy", &["-v"]).split_whitespace().nth(2).unwrap_or("unknown").to_owned()),
        ("PgBouncer", line("pgbouncer", &["--version"]).trim_start_matches("PgBouncer ").to_owned()),
        ("date", line("date", &["-u", "+%F"])),
    ]
}

/// Also how often each node is asked whether it is in recovery.
const WRITE_EVERY_MS: f64 = 20.0;

/// Writers write every 20 ms, and those that have no connection try again every 50 ms: shorter differences are chance.
const RESOLUTION_MS: f64 = 70.0;

/// A shorter gap is no outage: a checkpoint or a busy machine makes one.
const OUTAGE_MS: f64 = 500.0;

const ACCEPTANCE: &str = "\
Each node is asked directly every 20 ms whether it is in recovery; counted is from the first no of a node that was a standby to the first write
that a path's writers had acknowledged there, and how long writers of a path still had writes acknowledged elsewhere. A node that could not be asked for a moment is
seen late, so 0.00 s may be a little more.

";

/// Its first line is for those who expect PgBouncer.
fn trunkline_version() -> String {
    let said = call(&Lab::trunkline().display().to_string(), &["--version"]).unwrap_or_default();
    said.lines().find_map(|line| line.strip_prefix("trunkline ")).unwrap_or("unknown").to_owned()
}

const PREFACE: &str = "\
# High availability, measured

Written by `make ha`; do not edit. Three nodes with etcd, Patroni and PostgreSQL, each in a network namespace of its own, on one
machine; four paths from the same client to the primary, which see the same fault at the same time:

* A, directly: three hosts as libpq takes them, and `target_session_attrs=read-write`;
* B, HAProxy, which asks Patroni's `/primary` once a second (three failures take a host out, two successes bring it back);
* C, PgBouncer before that HAProxy;
* D, Trunkline with a cluster of the three hosts, and Patroni's interfaces ([Several hosts, and failover](operating/high-availability.md)).

On each path two writers insert a row about every 20 ms, each row in a transaction of its own, and connect again when they have to;
`connect_timeout` is 5 s. Patroni has its shortest times: `ttl` 20 s, `loop_wait` 5 s, `retry_timeout` 5 s. Replication is asynchronous unless a case says otherwise, there is no
watchdog, and the poolers have their defaults except for `query_wait_timeout`, 60 s. The fault comes at a random time within `loop_wait`. Of
several runs the median is given, with the smallest and the largest in parentheses. All share the processors that the table names, with whatever else runs on the
machine, so compare the paths of a case rather than its times with those of another machine. Errors are writes that were refused or whose outcome is unknown, and failed connects.

The client is `trunkline hatest`; [its page](operating/hatest.md) says what *refused*, *unknown*, *lost* and *stale* mean, and the words beside SQLSTATEs. What is lost
is asked of Patroni's leader afterwards. The files are in memory and processes are killed, not the machine:
writes that were not synced to a disk cannot be lost here.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_with_the_smallest_and_the_largest() {
        let show = |number: f64| format!("{number}");
        assert_eq!(spread(&[], show), "-");
        assert_eq!(spread(&[7.0], show), "7");
        assert_eq!(spread(&[9.0, 1.0, 5.0], show), "5 (1..9)");
        assert_eq!(spread(&[1.0, 2.0, 4.0, 8.0], show), "3 (1..8)");
    }

    #[test]
    fn the_page_names_the_gap_of_each_path_and_what_failed() {
        let mut results = Results::default();
        let seen = Path::ALL.map(|path| (path, Seen { gap_ms: 1500.0, acked: 7, ..Seen::default() }));
        results.add("6a", Measured { seen: seen.into(), ..Measured::default() });
        results.fail("3", "it did not settle".into());
        let cases: Vec<&'static Case> = cases::CASES.iter().collect();
        let report = Report { machine: Vec::new(), cases: &cases, results: &results };
        let page = report.page();
        assert!(
            page.contains("| 1.5 s | 1.5 s | 1.5 s | 1.5 s | at most 6 s, no error, nothing lost | met |"),
            "{page}"
        );
        results.measured.values_mut().flatten().flat_map(|run| run.seen.values_mut()).for_each(|seen| seen.lost = 1);
        let report = Report { machine: Vec::new(), cases: &cases, results: &results };
        assert!(report.page().contains("1.5 s, 1 lost | at most 6 s, no error, nothing lost | missed: lost writes |"));
        assert!(page.contains("- 3: it did not settle"));
        assert!(page.contains("- 9: "));
        assert!(page.contains("not longer than those of A and B in: 6a."), "{page}");
        let json: Value = serde_json::from_str(&report.json()).expect("JSON");
        assert_eq!(json["cases"][0]["runs"][0]["paths"]["D"]["acked"], 7);
    }
}
