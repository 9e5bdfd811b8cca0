//! What a running pooler says on its console: Trunkline's or PgBouncer's.
//!
//! Always true: columns are found by their names, so that another version's tables can be read; a table that the console does not have is absent.
//! Times are in seconds.
//! Not here: the connection, the division of time (`doctor/division`).

use std::collections::BTreeMap;

use super::postgres::{Answers, Observed};

/// A row of a console's table: values by the names of their columns.
pub(crate) type Record = BTreeMap<String, String>;

/// A console.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    /// Where it was reached.
    pub(crate) address: String,
    /// What `SHOW VERSION` says.
    pub(crate) version: String,
    /// Whether it is Trunkline's.
    pub(crate) is_ours: bool,
    /// Settings by name.
    pub(crate) config: Observed<BTreeMap<String, String>>,
    pub(crate) databases: Observed<Vec<Record>>,
    pub(crate) pools: Observed<Vec<Record>>,
    pub(crate) servers: Observed<Vec<Record>>,
    /// The session state that keeps servers, which only Trunkline tells.
    pub(crate) pins: Observed<Vec<Record>>,
    /// Counters at the beginning.
    pub(crate) before: Observed<Tally>,
    /// Counters at the end, and the time between.
    pub(crate) after: Observed<(f64, Tally)>,
}

/// Counters of all databases together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) transactions: f64,
    pub(crate) transaction_time: f64,
    pub(crate) query_time: f64,
    pub(crate) wait_time: f64,
    /// Trunkline's own division.
    pub(crate) phases: Option<Phases>,
}

/// Where the time of transactions went, at Trunkline.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Phases {
    pub(crate) waiting: f64,
    pub(crate) settings: f64,
    pub(crate) first_byte: f64,
    pub(crate) streaming: f64,
    pub(crate) client_blocked: f64,
    pub(crate) client_thinking: f64,
}

/// The tables that are asked for once.
pub(crate) const CONSOLE_TABLES: [&str; 7] = ["VERSION", "CONFIG", "DATABASES", "POOLS", "SERVERS", "WAITS", "PINS"];
/// Those that are asked for twice.
pub(crate) const CONSOLE_COUNTERS: [&str; 2] = ["STATS", "APPLICATIONS"];

impl Console {
    /// Reads the answers to [`CONSOLE_TABLES`] and [`CONSOLE_COUNTERS`].
    pub(crate) fn read(address: &str, answers: &Answers) -> Self {
        let config = answers.rows::<Record>("CONFIG");
        let version = answers.rows::<Record>("VERSION").ok().and_then(|rows| rows.into_iter().next());
        Self {
            address: address.to_owned(),
            version: version.and_then(|row| row.into_values().next()).unwrap_or_default(),
            is_ours: answers.rows::<Record>("WAITS").is_ok(),
            config: config.map(|rows| rows.iter().map(|row| (word(row, "key"), word(row, "value"))).collect()),
            databases: answers.rows("DATABASES"),
            pools: answers.rows("POOLS"),
            servers: answers.rows("SERVERS"),
            pins: answers.rows("PINS"),
            before: Tally::read(answers),
            after: Err("a second reading (--seconds)".to_owned()),
        }
    }

    /// What was counted between both readings.
    pub(crate) fn total(&self) -> Observed<Tally> {
        let (_, after) = self.after.as_ref().map_err(String::clone)?;
        Ok(after.since(self.before.as_ref().map_err(String::clone)?))
    }

    /// A setting that is a number of seconds or things.
    pub(crate) fn setting(&self, name: &str) -> Observed<f64> {
        let config = self.config.as_ref().map_err(String::clone)?;
        let value = config.get(name).and_then(|value| value.parse().ok());
        value.ok_or_else(|| format!("{name} in SHOW CONFIG"))
    }

    /// The server connection of a backend.
    pub(crate) fn server(&self, pid: u32) -> Observed<Option<&Record>> {
        let servers = self.servers.as_ref().map_err(String::clone)?;
        Ok(servers.iter().find(|row| amount(row, "remote_pid") == Some(f64::from(pid))))
    }
}

impl Tally {
    /// Reads the answers to [`CONSOLE_COUNTERS`].
    pub(crate) fn read(answers: &Answers) -> Observed<Self> {
        let stats = answers.rows::<Record>("STATS")?;
        let served = || stats.iter().filter(|row| word(row, "database") != "pgbouncer");
        let sum = |name: &str| served().filter_map(|row| amount(row, name)).sum::<f64>();
        let phases = answers.rows::<Record>("APPLICATIONS").ok().map(|rows| {
            let sum = |name: &str| rows.iter().filter_map(|row| amount(row, name)).sum::<f64>() * MICROSECOND;
            Phases {
                waiting: sum("waiting"),
                settings: sum("settings"),
                first_byte: sum("first_byte"),
                streaming: sum("streaming"),
                client_blocked: sum("client_blocked"),
                client_thinking: sum("client_thinking"),
            }
        });
        Ok(Self {
            transactions: sum("total_xact_count"),
            transaction_time: sum("total_xact_time") * MICROSECOND,
            query_time: sum("total_query_time") * MICROSECOND,
            wait_time: sum("total_wait_time") * MICROSECOND,
            phases,
        })
    }

    /// What was counted since an earlier reading.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let phases = self.phases.zip(before.phases).map(|(now, then)| Phases {
            waiting: now.waiting - then.waiting,
            settings: now.settings - then.settings,
            first_byte: now.first_byte - then.first_byte,
            streaming: now.streaming - then.streaming,
            client_blocked: now.client_blocked - then.client_blocked,
            client_thinking: now.client_thinking - then.client_thinking,
        });
        Self {
            transactions: self.transactions - before.transactions,
            transaction_time: self.transaction_time - before.transaction_time,
            query_time: self.query_time - before.query_time,
            wait_time: self.wait_time - before.wait_time,
            phases,
        }
    }
}

/// A value, empty if there is none.
pub(crate) fn word(row: &Record, column: &str) -> String {
    row.get(column).cloned().unwrap_or_default()
}

/// A value that is a number.
pub(crate) fn amount(row: &Record, column: &str) -> Option<f64> {
    row.get(column)?.parse().ok()
}

const MICROSECOND: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(tables: &[(&'static str, &[&str])]) -> Answers {
        let mut answers = Answers::default();
        for (name, rows) in tables {
            answers.put(name, Ok(rows.iter().map(|&row| row.to_owned()).collect()));
        }
        answers
    }

    #[test]
    fn pgbouncers_console_has_no_phases_and_its_own_database_is_not_counted() {
        let stats = |count: u32| {
            format!(r#"{{"database":"app","total_xact_count":"{count}","total_xact_time":"{count}000000"}}"#)
        };
        let own = r#"{"database":"pgbouncer","total_xact_count":"99","total_xact_time":"99"}"#;
        let mut all = answers(&[("VERSION", &[r#"{"version":"PgBouncer 1.18.0"}"#]), ("STATS", &[&stats(5), own])]);
        all.put("WAITS", Err("SHOW WAITS (08P01)".to_owned()));
        let mut console = Console::read("a", &all);
        assert_eq!((console.is_ours, &*console.version), (false, "PgBouncer 1.18.0"));
        assert!(console.total().expect_err("one reading").contains("--seconds"));
        let later = Tally::read(&answers(&[("STATS", &[&stats(8), own])])).expect("counters");
        console.after = Ok((1.0, later));
        let total = console.total().expect("two readings");
        assert_eq!((total.transactions, total.transaction_time, total.phases), (3.0, 3.0, None));
    }

    #[test]
    fn trunklines_phases_are_sums_over_applications() {
        let row = |waiting: u32| format!(r#"{{"database":"app","waiting":"{waiting}","streaming":"1000000"}}"#);
        let tally = Tally::read(&answers(&[("STATS", &[]), ("APPLICATIONS", &[&row(500_000), &row(250_000)])]))
            .expect("counters");
        let phases = tally.phases.expect("phases");
        assert_eq!((phases.waiting, phases.streaming, phases.client_blocked), (0.75, 2.0, 0.0));
    }

    #[test]
    fn the_server_of_a_backend_is_found_by_its_pid() {
        let console = Console::read("a", &answers(&[("SERVERS", &[r#"{"remote_pid":"17","ptr":"S-0x1"}"#])]));
        assert_eq!(console.server(17).expect("a table").map(|row| word(row, "ptr")).as_deref(), Some("S-0x1"));
        assert_eq!(console.server(18), Ok(None));
        assert!(console.setting("query_timeout").is_err());
    }
}
