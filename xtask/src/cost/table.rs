//! The table of costs: written, read, and compared with another.
//!
//! Always true: figures of instructions are compared only where compiler, C library, processor and valgrind are the
//! same; the other figures do not depend on these. Rows of habits are compared only with the same major version of
//! PostgreSQL, because another version is sent other messages.

use super::kinds::HABITS;

/// The cost of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) instructions: f64,
    /// Bytes of the code that every second transaction passes at least.
    pub(super) code: f64,
    pub(super) calls: f64,
    /// System calls by io_uring, where they are counted.
    pub(super) entries: Option<f64>,
    pub(super) packets: f64,
    pub(super) messages: f64,
}

impl Figures {
    /// From a sum, the cost of one of so many.
    pub(super) fn for_each_of(self, times: u64) -> Self {
        let each = |sum: f64| sum / times as f64;
        let Self { instructions, code, calls, entries, packets, messages } = self;
        Self {
            instructions: each(instructions),
            code,
            calls: each(calls),
            entries,
            packets: each(packets),
            messages: each(messages),
        }
    }

    pub(super) fn least(self, other: Self) -> Self {
        Self {
            instructions: self.instructions.min(other.instructions),
            code: self.code.min(other.code),
            calls: self.calls.min(other.calls),
            entries: self.entries.zip(other.entries).map(|(one, two)| one.min(two)),
            packets: self.packets.min(other.packets),
            messages: self.messages.min(other.messages),
        }
    }

    pub(super) fn words(self) -> String {
        let figures = self.named().into_iter().filter_map(|(name, figure)| Some(format!("{:.2} {name}", figure?)));
        figures.collect::<Vec<_>>().join(", ")
    }

    /// Those that depend on the compiler first.
    fn named(self) -> [(&'static str, Option<f64>); 6] {
        [
            ("instructions", Some(self.instructions)),
            ("bytes of code", Some(self.code)),
            ("system calls", Some(self.calls)),
            ("by io_uring", self.entries),
            ("packets", Some(self.packets)),
            ("messages to the server", Some(self.messages)),
        ]
    }
}

/// All rows, and what they were counted with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    pub(super) key: String,
    pub(super) rows: Vec<(String, Figures)>,
}

/// The result of a comparison.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Verdict {
    /// Rows that cost over 1 % more, or are in one table only.
    pub(super) grown: Vec<String>,
    /// Lines that are printed, and are no failure.
    pub(super) told: Vec<String>,
}

impl Table {
    pub(super) fn page(&self) -> String {
        let row = |(name, figures): &(String, Figures)| {
            let Figures { instructions, code, calls, entries, packets, messages } = figures;
            let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), |figure| format!("{figure:.2}"));
            let (entries, packets) = (shown(*entries), shown(packets.is_normal().then_some(*packets)));
            format!("| {name} | {instructions:.0} | {code:.0} | {calls:.2} | {entries} | {packets} | {messages:.2} |\n")
        };
        let is_habit = |(name, _): &&(String, Figures)| name.starts_with(HABITS);
        let own: String = self.rows.iter().filter(|one| !is_habit(one)).map(row).collect();
        let habits: String = self.rows.iter().filter(is_habit).map(row).collect();
        format!("{HEAD}{KEY}{}\n\n{COLUMNS}{own}{HABITS_HEAD}{COLUMNS}{habits}", self.key)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let key = text.lines().find_map(|line| line.strip_prefix(KEY))?.to_owned();
        let rows = text.lines().filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
            let [name, instructions, code, calls, entries, packets, messages] = cells[..] else { return None };
            let number = |cell: &str| cell.parse().ok();
            let figures = Figures {
                instructions: number(instructions)?,
                code: number(code)?,
                calls: number(calls)?,
                entries: number(entries),
                packets: number(packets).unwrap_or_default(),
                messages: number(messages)?,
            };
            Some((name.to_owned(), figures))
        });
        Some(Self { key, rows: rows.collect() })
    }

    /// Returns whether this row is more expensive now.
    pub(super) fn is_dearer(&self, key: &str, name: &str, figures: Figures) -> bool {
        let rows: Vec<_> = self.rows.iter().filter(|(other, _)| other == name).cloned().collect();
        let now = Self { key: key.to_owned(), rows: vec![(name.to_owned(), figures)] };
        !rows.is_empty() && !Self { key: self.key.clone(), rows }.compare(&now).grown.is_empty()
    }

    /// Compares new figures with this table.
    pub(super) fn compare(&self, now: &Self) -> Verdict {
        let mut verdict = Verdict::default();
        let is_same = self.key == now.key;
        if !is_same {
            let (old, new) = (&self.key, &now.key);
            verdict.told.push(format!("instructions are not compared: the table is of {old}, and this is {new}"));
        }
        let server = |key: &str| key.split(", ").find(|word| word.starts_with(SERVER)).map(str::to_owned);
        let is_same_server = server(&self.key) == server(&now.key);
        if !is_same_server {
            verdict.told.push("habits are not compared, either: PostgreSQL is another".to_owned());
        }
        for (name, new) in now.rows.iter().filter(|(name, _)| is_same_server || !name.starts_with(HABITS)) {
            let Some((_, old)) = self.rows.iter().find(|(other, _)| other == name) else {
                verdict.grown.push(format!("{name}: not in the table"));
                continue;
            };
            let compared = old.named().into_iter().zip(new.named()).skip(if is_same { 0 } else { BY_COMPILER });
            for ((what, old), (_, new)) in compared {
                let (Some(old), Some(new)) = (old, new) else { continue };
                let line = format!("{name}: {what} were {old:.2} and are {new:.2}");
                // Figures in the table are rounded to hundredths.
                if new > old * 1.01 + 0.005 {
                    verdict.grown.push(line);
                } else if new < old * 0.99 - 0.005 {
                    verdict.told.push(format!("{line}: have the table written anew"));
                }
            }
        }
        let is_gone = |name: &str| now.rows.iter().all(|(other, _)| other != name);
        let gone = self.rows.iter().filter(|(name, _)| is_gone(name));
        verdict.grown.extend(gone.map(|(name, _)| format!("{name}: in the table, and not counted any more")));
        verdict
    }
}

const HEAD: &str = "\
# What a transaction costs

<!-- Written by `cargo xtask cost --write`. Not edited by hand. -->

Counted, not timed, for one transaction of one client in lock-step, one worker, epoll: instructions of the pooler in user space
(valgrind's callgrind), the code that they are in (distinct lines of the cache, of 64 bytes, that every second transaction passes at least),
its system calls (but for those that read a clock, which the vDSO answers without one), by epoll and by io_uring, packets (what it
sends and receives on sockets), and messages to PostgreSQL. The first 80 of each are not counted. A client says nothing before the
pooler and PostgreSQL sleep, and what PostgreSQL answers comes at once, so that no figure depends on who was quicker. Of the rows with
64 clients, all of which ask at once, 20 have a server; the others wait, and 20 answers come at a time. (Packets by io_uring are not seen.)
`SHOW STATEMENTS` looks at 50 requests a second of a worker (`track_statements`), here at none, and at each in the row `simple, looked at`.
`cargo xtask cost --check` fails when a row is above its [budget](cost-budget.md), or a figure has grown by more than 1 %.

";
const HABITS_HEAD: &str = "
## Habits

What drivers send by themselves ([habits](../operating/habits.md)), each script once: by two clients in turn on one server, so that
each finds there what the other has left (on two where a client keeps its server). What scripts draw, the tenant for example, is
another for each client. `/connect` is a script with a connection for each time, and what is sent at its begin.

";
/// The prefix of PostgreSQL's version in a key.
pub(super) const SERVER: &str = "PostgreSQL ";

const KEY: &str = "Counted with: ";
const COLUMNS: &str = "\
| one | instructions | bytes of code | system calls | by io_uring | packets | messages to the server |
|---|---|---|---|---|---|---|
";
/// How many of the figures depend on the compiler.
const BY_COMPILER: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(key: &str, instructions: f64, calls: f64) -> Table {
        let figures = Figures { instructions, calls, packets: 4.0, messages: 1.0, ..Figures::default() };
        Table { key: key.into(), rows: vec![("simple".into(), figures)] }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut table = table("rustc 1", 8000.0, 7.0);
        table.rows.push(("habits/one/connect".into(), table.rows[0].1));
        table.rows[0].1.entries = Some(2.03);
        assert_eq!(Table::read(&table.page()), Some(table));
    }

    #[test]
    fn more_than_a_hundredth_more_fails_and_less_is_told() {
        let old = table("a", 8000.0, 7.0);
        assert_eq!(old.compare(&table("a", 8070.0, 7.0)), Verdict::default());
        let grown = old.compare(&table("a", 8100.0, 7.0)).grown;
        assert_eq!(grown, ["simple: instructions were 8000.00 and are 8100.00"]);
        let shrunk = old.compare(&table("a", 7900.0, 7.0));
        assert_eq!((shrunk.grown.len(), shrunk.told.len()), (0, 1));
    }

    #[test]
    fn rows_that_come_and_go_fail() {
        let (some, none) = (table("a", 1.0, 1.0), Table { key: "a".into(), rows: Vec::new() });
        assert_eq!(none.compare(&some).grown, ["simple: not in the table"]);
        assert_eq!(some.compare(&none).grown, ["simple: in the table, and not counted any more"]);
    }

    #[test]
    fn another_compiler_leaves_instructions_out_and_nothing_else() {
        let verdict = table("a", 8000.0, 7.0).compare(&table("b", 9000.0, 8.0));
        assert_eq!(verdict.grown, ["simple: system calls were 7.00 and are 8.00"]);
        assert!(verdict.told[0].starts_with("instructions are not compared"));
    }

    #[test]
    fn another_postgresql_leaves_habits_out_and_a_habit_that_grows_is_named() {
        let habit = |server: &str, calls| {
            let mut table = table(&format!("a, PostgreSQL {server}"), 1.0, calls);
            table.rows[0].0 = "habits/one".into();
            table
        };
        assert_eq!(habit("15", 7.0).compare(&habit("16", 8.0)).grown, [""; 0]);
        let grown = habit("15", 7.0).compare(&habit("15", 8.0)).grown;
        assert_eq!(grown, ["habits/one: system calls were 7.00 and are 8.00"]);
        let dearer = |name, now: Table| habit("15", 7.0).is_dearer(&now.key, name, now.rows[0].1);
        assert!(dearer("habits/one", habit("15", 8.0)) && !dearer("habits/one", habit("15", 7.0)));
        assert!(!dearer("habits/new", habit("15", 8.0)) && !dearer("habits/one", habit("16", 8.0)));
    }
}
