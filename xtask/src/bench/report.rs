//! The results as tables for a terminal, as JSON, and as the page `docs/benchmarks.md`.

use serde_json::{Map, Value, json};

use ops::table::Table;

use super::contestant::{Contestant, SERVERS};
use super::figures::{Figure, Verdict};
use super::machine::Machine;
use super::options::Options;
use super::scenario::Scenario;
use super::tally::{Metric, Tally};

pub(super) struct Report<'a> {
    machine: Machine,
    options: &'a Options,
    scenarios: &'a [Scenario],
    tally: &'a Tally,
}

/// A table before it is laid out: heads, and rows with as many cells.
struct Grid {
    /// The first columns, so many, hold words.
    words: usize,
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(machine: Machine, options: &'a Options, scenarios: &'a [Scenario], tally: &'a Tally) -> Self {
        Self { machine, options, scenarios, tally }
    }

    pub(super) fn terminal(&self) -> String {
        let mut text = String::new();
        for (word, what) in self.machine.lines() {
            text += &format!("{word:<11}{what}\n");
        }
        for (title, grid) in self.grids() {
            text += &format!("\n{title}\n\n{}\n", grid.for_terminal());
        }
        for failure in self.tally.failures() {
            text += &format!("\nfailed: {failure}\n");
        }
        text
    }

    pub(super) fn page(&self) -> String {
        let mut text = format!("# Benchmarks\n\n{}\n", self.preface());
        text += "| | |\n|---|---|\n";
        for (word, what) in self.machine.lines() {
            text += &format!("| {word} | {what} |\n");
        }
        for (title, grid) in self.grids() {
            text += &format!("\n## {title}\n\n{}", grid.for_page());
        }
        text += "\n## What was measured\n\n";
        let are_habits = |scenario: &&Scenario| matches!(scenario, Scenario::Habit(_));
        for scenario in self.scenarios.iter().filter(|scenario| !are_habits(scenario)) {
            text += &format!("- `{}`: {}\n", scenario.name(), scenario.title());
        }
        if self.scenarios.iter().any(|scenario| are_habits(&scenario)) {
            text += "- `habits`: [what drivers send by themselves](operating/habits.md)\n";
        }
        if !self.tally.failures().is_empty() {
            text += "\n## What failed\n\n";
            text.extend(self.tally.failures().iter().map(|failure| format!("- {}\n", failure.replace('\n', " "))));
        }
        text
    }

    fn preface(&self) -> String {
        let left_out = match self.options.without.as_slice() {
            [] => String::new(),
            names => format!("\nLeft out in this run: {}.\n", names.join(", ")),
        };
        format!(
            "Written by `make bench`; do not edit. Trunkline and PgBouncer before the same \
             PostgreSQL, one after the\nother in the order A B B A, {} rounds of it, {} s each. One worker, \
             transaction pooling, {SERVERS} servers, TCP over the loopback\ninterface, the same configuration but \
             for `workers` and `io_backend`. The load is pgbench with two threads, on the same\nprocessors. CPU is \
             the pooler's, user and system, per transaction, logins included. A ratio is the median of the ratios\n\
             of neighbouring runs, with the smallest and the largest in parentheses.\n\nHabits are the scripts of \
             `tests/habits`, in one round, of at most 2 s in a whole run, played by 40 clients (20 where\nthey keep \
             their server, 8 where each transaction has a connection of its own), which are threads of the bench and send \
             them\nin the form in which their driver does: protocol, names, limits. With PgBouncer what they set\nor take \
             stays on whatever server they had: its side of the comparison is the cost of doing nothing about \
             that.\n`messages` and `round trips` are what PostgreSQL is sent and asked to answer for one transaction of a \
             script, by Trunkline and\nby PgBouncer, counted in a run of its own.\n\nThe clients of `tenants` are threads of the bench. For each run, \
             of at least 10 s, a pooler is started; logins of servers are those of\nPostgreSQL's log.\n{left_out}",
            self.options.rounds, self.options.seconds
        )
    }

    fn grids(&self) -> Vec<(&'static str, Grid)> {
        let all = [
            ("Medians", self.medians()),
            ("Ratios to PgBouncer", self.ratios()),
            ("Pools that compete", self.tenants()),
            ("Habits of drivers", self.habits()),
            ("Memory and start", self.singles()),
            ("Figures to reach", self.figures()),
        ];
        all.into_iter().filter(|(_, grid)| !grid.rows.is_empty()).collect()
    }

    fn loads(&self) -> impl Iterator<Item = Scenario> {
        let is_load =
            |scenario: &Scenario| matches!(scenario, Scenario::Tenants { .. }) || scenario.load(0, 1).is_some();
        self.scenarios.iter().copied().filter(is_load)
    }

    fn medians(&self) -> Grid {
        let mut grid = Grid { words: 2, heads: vec!["load", "pooler"], rows: Vec::new() };
        grid.heads.extend(Metric::OF_LOADS.map(Metric::label));
        for scenario in self.loads() {
            for contestant in Contestant::ALL {
                let mut cells = vec![scenario.name(), contestant.label().to_owned()];
                cells.extend(Metric::OF_LOADS.map(|metric| {
                    self.tally.median(scenario, contestant, metric).map_or("-".into(), |value| metric.show(value))
                }));
                grid.rows.push(cells);
            }
        }
        grid
    }

    fn ratios(&self) -> Grid {
        let metrics = [Metric::Tps, Metric::CpuUs, Metric::MeanMs, Metric::P99Ms];
        let heads = vec!["load", "pooler", "transactions/s", "CPU", "mean", "p99"];
        let mut grid = Grid { words: 2, heads, rows: Vec::new() };
        for scenario in self.loads() {
            for contestant in Contestant::OURS {
                let mut cells = vec![scenario.name(), contestant.key().to_owned()];
                cells.extend(metrics.map(|metric| {
                    self.tally.ratio(scenario, contestant, metric).map_or("-".into(), |ratio| ratio.show())
                }));
                grid.rows.push(cells);
            }
        }
        grid
    }

    /// What competing pools cost besides: a row for each load and pooler.
    fn tenants(&self) -> Grid {
        let metrics = [Metric::LoginsPerMinute, Metric::SlowestMs];
        let mut grid = Grid { words: 2, heads: vec!["load", "pooler"], rows: Vec::new() };
        grid.heads.extend(metrics.map(Metric::label));
        for scenario in self.loads().filter(|scenario| matches!(scenario, Scenario::Tenants { .. })) {
            for contestant in Contestant::ALL {
                let mut cells = vec![scenario.name(), contestant.label().to_owned()];
                cells.extend(metrics.map(|metric| {
                    self.tally.median(scenario, contestant, metric).map_or("-".into(), |value| metric.show(value))
                }));
                grid.rows.push(cells);
            }
        }
        grid
    }

    /// One row for each habit: its cost, and what PostgreSQL is sent for one transaction.
    fn habits(&self) -> Grid {
        let mut heads = vec!["habit", "transactions/s", "CPU, us", Metric::ServerCpuUs.label()];
        heads.extend(HABIT_RATIOS);
        heads.extend(["messages", "round trips"]);
        let mut grid = Grid { words: 1, heads, rows: Vec::new() };
        for scenario in self.scenarios.iter().copied().filter(|scenario| matches!(scenario, Scenario::Habit(_))) {
            let is_measured = |who: &Contestant| self.tally.median(scenario, *who, Metric::Tps).is_some();
            let Some(ours) = Contestant::OURS.into_iter().find(is_measured) else { continue };
            let value = |who, metric| self.tally.median(scenario, who, metric);
            let show = |who, metric: Metric| value(who, metric).map_or("-".into(), |value| metric.show(value));
            let mut cells = vec![scenario.name(), show(ours, Metric::Tps)];
            cells.extend([Metric::CpuUs, Metric::ServerCpuUs].map(|metric| show(ours, metric)));
            cells.extend(
                [Metric::Tps, Metric::CpuUs, Metric::ServerCpuUs]
                    .map(|metric| self.tally.ratio(scenario, ours, metric).map_or("-".into(), |ratio| ratio.show())),
            );
            cells.extend(
                [Metric::Messages, Metric::RoundTrips]
                    .map(|metric| format!("{}, {}", show(ours, metric), show(Contestant::PgBouncer, metric))),
            );
            grid.rows.push(cells);
        }
        grid
    }

    fn singles(&self) -> Grid {
        let mut heads = vec!["what"];
        heads.extend(Contestant::ALL.map(Contestant::label));
        let mut grid = Grid { words: 1, heads, rows: Vec::new() };
        let singles = [Metric::IdleBytes, Metric::RowGrowthMib, Metric::StartupMs];
        for &scenario in self.scenarios {
            for metric in singles {
                let values = Contestant::ALL.map(|contestant| self.tally.median(scenario, contestant, metric));
                if values.iter().any(Option::is_some) {
                    let mut cells = vec![format!("{}: {}", scenario.name(), metric.label())];
                    cells.extend(values.map(|value| value.map_or("-".into(), |value| metric.show(value))));
                    grid.rows.push(cells);
                }
            }
        }
        grid
    }

    /// In a partial run, only the figures for which something was measured.
    fn figures(&self) -> Grid {
        let findings = Figure::all().into_iter().map(|figure| figure.judge(self.tally));
        let shown = findings.filter(|finding| self.options.is_whole() || finding.verdict != Verdict::NotMeasured);
        let rows = shown.map(|finding| vec![finding.wanted, finding.found, finding.verdict.word().to_owned()]);
        Grid { words: 3, heads: vec!["wanted", "found", "verdict"], rows: rows.collect() }
    }

    pub(super) fn json(&self) -> String {
        let figures = Figure::all().into_iter().map(|figure| figure.judge(self.tally)).map(
            |finding| json!({"wanted": finding.wanted, "value": finding.value, "verdict": finding.verdict.word()}),
        );
        let machine: Map<String, Value> =
            self.machine.lines().into_iter().map(|(word, what)| (word.to_owned(), what.into())).collect();
        let all = json!({
            "machine": machine,
            "seconds": self.options.seconds,
            "rounds": self.options.rounds,
            "scenarios": self.scenarios.iter().map(|&scenario| self.scenario_json(scenario)).collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "failures": self.tally.failures(),
        });
        format!("{all:#}\n")
    }

    fn scenario_json(&self, scenario: Scenario) -> Value {
        let mut contestants = Map::new();
        for contestant in Contestant::ALL {
            let mut metrics = Map::new();
            for metric in ALL_METRICS {
                let runs = self.tally.values(scenario, contestant, metric);
                if runs.is_empty() {
                    continue;
                }
                let mut entry = json!({"median": self.tally.median(scenario, contestant, metric), "runs": runs});
                if let Some(ratio) =
                    self.tally.ratio(scenario, contestant, metric).filter(|_| contestant != Contestant::PgBouncer)
                {
                    entry["ratio"] = json!({"median": ratio.median, "min": ratio.min, "max": ratio.max});
                }
                metrics.insert(metric.key().to_owned(), entry);
            }
            contestants.insert(contestant.key().to_owned(), metrics.into());
        }
        json!({"name": scenario.name(), "title": scenario.title(), "contestants": contestants})
    }
}

impl Grid {
    fn for_terminal(&self) -> String {
        let groups: Vec<(&str, &[&str])> = self.heads.iter().map(|head| ("", std::slice::from_ref(head))).collect();
        let mut table = Table::new(&groups).with_words(self.words);
        for row in &self.rows {
            table.row(row.clone());
        }
        table.lines().join("\n")
    }

    fn for_page(&self) -> String {
        let mut text = format!("| {} |\n|{}|\n", self.heads.join(" | "), vec!["---"; self.heads.len()].join("|"));
        for row in &self.rows {
            text += &format!("| {} |\n", row.join(" | "));
        }
        text
    }
}

const HABIT_RATIOS: [&str; 3] =
    ["transactions/s to PgBouncer's", "CPU to PgBouncer's", "PostgreSQL's CPU to that with PgBouncer"];

const ALL_METRICS: [Metric; 13] = [
    Metric::Tps,
    Metric::CpuUs,
    Metric::CpuUserUs,
    Metric::ServerCpuUs,
    Metric::MeanMs,
    Metric::P99Ms,
    Metric::IdleBytes,
    Metric::RowGrowthMib,
    Metric::StartupMs,
    Metric::Messages,
    Metric::RoundTrips,
    Metric::LoginsPerMinute,
    Metric::SlowestMs,
];

#[cfg(test)]
mod tests {
    use super::super::tally::Readings;
    use super::*;

    const WHAT: Scenario = Scenario::Simple { clients: 64 };

    fn machine() -> Machine {
        Machine {
            processor: "P".into(),
            processors: 2,
            memory_gib: 4.0,
            kernel: "6.1".into(),
            trunkline: "0.1.0".into(),
            pgbouncer: "1.18.0".into(),
            postgresql: "15".into(),
            date: "2026-01-01".into(),
        }
    }

    fn tally() -> Tally {
        let mut tally = Tally::default();
        tally.begin_pass(WHAT);
        tally.add(WHAT, Contestant::Uring, Readings::of(Metric::CpuUs, 12.0));
        tally.add(WHAT, Contestant::PgBouncer, Readings::of(Metric::CpuUs, 20.0));
        tally
    }

    #[test]
    fn page_terminal_and_json_tell_the_same() {
        let options = Options::for_tests();
        let tally = tally();
        let report = Report::new(machine(), &options, &[WHAT], &tally);
        assert!(report.page().contains("| simple-64 | io_uring | - | 0.60 (0.60..0.60) | - | - |"));
        assert!(report.page().contains("CPU at most 0.70 times PgBouncer's | 0.60 (0.60..0.60) | met |"));
        assert!(report.terminal().contains("0.60 (0.60..0.60)"));
        let json: Value = serde_json::from_str(&report.json()).expect("JSON");
        let cpu = &json["scenarios"][0]["contestants"]["io_uring"]["cpu_us_per_transaction"];
        assert_eq!(cpu["ratio"]["median"], 0.6);
        assert_eq!(cpu["runs"], json!([12.0]));
    }

    #[test]
    fn what_failed_is_told() {
        let options = Options::for_tests();
        let mut tally = tally();
        tally.fail(WHAT, Contestant::Epoll, "no");
        let report = Report::new(machine(), &options, &[WHAT], &tally);
        assert!(report.terminal().contains("failed: simple-64, Trunkline epoll: no"));
        assert!(report.page().contains("## What failed"));
    }
}
