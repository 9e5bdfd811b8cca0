//! What a running PostgreSQL says of itself, as plain values.
//!
//! Always true: what was refused, failed or does not exist in this version is absent with its reason, never a default; no password, secret or
//! text of a statement is asked for. Ages and times are in seconds, sizes in bytes.
//! Not here: the connection (`connection`), the questions (`queries`), conclusions.

mod queries;

pub(crate) use queries::{DATABASE_QUERIES, Query, RATE_QUERIES, SERVER_QUERIES};

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A value, or why it is not known, as words that may follow "needs".
pub(crate) type Observed<T> = Result<T, String>;

/// The rows of each query, one JSON object each, or why there are none.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Answers(BTreeMap<&'static str, Observed<Vec<String>>>);

impl Answers {
    /// Keeps the answer to a query.
    pub(crate) fn put(&mut self, name: &'static str, answer: Observed<Vec<String>>) {
        self.0.insert(name, answer);
    }

    /// The rows of a query.
    pub(crate) fn rows<T: DeserializeOwned>(&self, name: &str) -> Observed<Vec<T>> {
        let rows = self.0.get(name).ok_or_else(|| NOT_ASKED.to_owned())?.as_ref().map_err(String::clone)?;
        let read =
            |row: &String| serde_json::from_str(row).map_err(|error| format!("{name}, whose answer is odd: {error}"));
        rows.iter().map(read).collect()
    }

    /// The only row of a query.
    fn row<T: DeserializeOwned>(&self, name: &str) -> Observed<T> {
        self.rows(name)?.pop().ok_or_else(|| format!("{name}, whose answer is empty"))
    }
}

/// A server, as its catalogs and statistics show it.
#[derive(Clone, Debug)]
pub(crate) struct Postgres {
    /// Where it was reached.
    pub(crate) address: String,
    pub(crate) about: Observed<About>,
    pub(crate) settings: Observed<BTreeMap<String, PgSetting>>,
    pub(crate) databases: Observed<Vec<PgDatabase>>,
    pub(crate) roles: Observed<Vec<Role>>,
    pub(crate) secrets: Observed<Vec<Secret>>,
    pub(crate) hba: Observed<Vec<HbaLine>>,
    pub(crate) activity: Observed<Vec<Backend>>,
    pub(crate) prepared: Observed<Vec<PreparedTransaction>>,
    pub(crate) advisory: Observed<Vec<AdvisoryLock>>,
    pub(crate) slots: Observed<Vec<Slot>>,
    pub(crate) replication: Observed<Vec<Walsender>>,
    /// Temporary files in the default tablespace.
    pub(crate) temporary: Observed<Vec<TemporaryFiles>>,
    pub(crate) histories: Observed<f64>,
    /// How long commits take, if that was tried.
    pub(crate) commits: Observed<Commits>,
    /// What each database says: its name, and the answer or why there is none.
    pub(crate) inside: Vec<(String, Observed<Inside>)>,
    /// The counters at the beginning.
    pub(crate) before: Counters,
    /// The counters at the end, and the time between.
    pub(crate) after: Observed<(f64, Counters)>,
}

impl Postgres {
    /// Reads the answers to [`SERVER_QUERIES`] and [`RATE_QUERIES`].
    pub(crate) fn read(address: &str, answers: &Answers) -> Self {
        let settings = answers.rows::<PgSetting>("pg_settings");
        let about = answers.row::<About>("the server's version");
        let seen = about.as_ref().map_or(Ok(()), About::sees_sessions);
        Self {
            address: address.to_owned(),
            about,
            settings: settings.map(|rows| rows.into_iter().map(|row| (row.name.clone(), row)).collect()),
            databases: answers.rows("pg_database"),
            roles: answers.rows("pg_roles"),
            secrets: answers.rows("pg_authid"),
            hba: answers.rows("pg_hba_file_rules"),
            activity: seen.clone().and_then(|()| answers.rows("pg_stat_activity")),
            prepared: answers.rows("pg_prepared_xacts"),
            advisory: seen.clone().and_then(|()| answers.rows("pg_locks")),
            slots: answers.rows("pg_replication_slots"),
            replication: seen.clone().and_then(|()| answers.rows("pg_stat_replication")),
            temporary: answers.rows("pg_ls_tmpdir"),
            commits: Err("--commit-probe".to_owned()),
            histories: answers.row::<Counted>("pg_ls_waldir").map(|counted| counted.count),
            inside: Vec::new(),
            before: Counters::read(answers),
            after: Err("a second reading (--seconds)".to_owned()),
        }
    }

    /// The major version; 0 if it is not known.
    pub(crate) fn major(&self) -> u32 {
        self.about.as_ref().map_or(0, |about| about.version / 10_000)
    }

    /// A setting as the server writes it.
    pub(crate) fn setting(&self, name: &str) -> Observed<&str> {
        let settings = self.settings.as_ref().map_err(String::clone)?;
        let found = settings.get(name).and_then(|setting| setting.setting.as_deref());
        found.ok_or_else(|| format!("the setting {name}, which this server does not show"))
    }

    /// A setting that is a number: bytes, seconds, or the plain number.
    pub(crate) fn number(&self, name: &str) -> Observed<f64> {
        let settings = self.settings.as_ref().map_err(String::clone)?;
        let setting =
            settings.get(name).ok_or_else(|| format!("the setting {name}, which this server does not show"))?;
        setting.number().ok_or_else(|| format!("the setting {name} as a number"))
    }

    /// Whether a setting is `on`.
    pub(crate) fn is_on(&self, name: &str) -> Observed<bool> {
        self.setting(name).map(|value| value == "on")
    }
}

/// Counters of which differences are taken.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) databases: Observed<Vec<DatabaseCounters>>,
    pub(crate) slots: Observed<Vec<SlotCounters>>,
    pub(crate) wal: Observed<f64>,
    pub(crate) checkpoints: Observed<Checkpoints>,
    pub(crate) conflicts: Observed<f64>,
}

impl Counters {
    /// Reads the answers to [`RATE_QUERIES`].
    pub(crate) fn read(answers: &Answers) -> Self {
        Self {
            databases: answers.rows("pg_stat_database"),
            slots: answers.rows("pg_stat_replication_slots (PostgreSQL 14 and later)"),
            wal: answers.row::<Counted>("the position of the log").map(|counted| counted.count),
            checkpoints: answers.row("pg_stat_checkpointer").or_else(|_| answers.row("pg_stat_bgwriter")),
            conflicts: answers.row::<Counted>("pg_stat_database_conflicts").map(|counted| counted.count),
        }
    }

    /// The sum of one counter over all databases; absent if a database does not have it.
    pub(crate) fn sum(&self, of: fn(&DatabaseCounters) -> Option<f64>) -> Observed<f64> {
        let databases = self.databases.as_ref().map_err(String::clone)?;
        databases.iter().map(of).sum::<Option<f64>>().ok_or_else(|| "counters that PostgreSQL 14 introduced".to_owned())
    }
}

/// How long commits take, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Commits {
    /// The number of commits that were tried.
    pub(crate) count: usize,
    /// Half took at most so long.
    pub(crate) median: f64,
    /// 99 % took at most so long.
    pub(crate) p99: f64,
    /// Of that, the way to the server and back: half of the requests that wait for nothing took at most so long.
    pub(crate) way: f64,
}

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty,)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default, Deserialize)]
        #[serde(default)]
        pub(crate) struct $name { $(pub(crate) $field: $kind,)* })*
    };
}

rows! {
    /// One number.
    Counted { count: f64, }

    /// Version and role of the server.
    About {
        version: u32, words: String, is_in_recovery: bool, uptime: f64, now: f64, has_pg_monitor: bool, sees_sessions: bool,
    }

    /// A row of `pg_settings`.
    PgSetting { name: String, setting: Option<String>, unit: Option<String>, }

    /// A database.
    PgDatabase { name: String, limit: i64, may_connect: bool, is_template: bool, backends: f64, since_reset: Option<f64>, }

    /// A role.
    Role { name: String, may_login: bool, is_superuser: bool, limit: i64, }

    /// What kind of secret a role has.
    Secret { name: String, kind: String, }

    /// A line of pg_hba.conf.
    HbaLine { line: f64, kind: String, address: Option<String>, method: String, error: Option<String>, }

    /// A session.
    Backend {
        pid: u32, database: Option<String>, role: Option<String>, application: Option<String>, address: Option<String>,
        state: Option<String>, kind: Option<String>, transaction_age: Option<f64>, state_age: Option<f64>,
        xmin_age: Option<f64>, is_own: bool,
    }

    /// A prepared transaction.
    PreparedTransaction { gid: String, database: String, age: f64, xid_age: f64, }

    /// Temporary files of a session: bytes, and seconds since the oldest was last written.
    TemporaryFiles { pid: u32, size: f64, age: f64, }

    /// An advisory lock that is granted.
    AdvisoryLock {
        pid: u32, database: Option<String>, key: String, mode: String, role: Option<String>, application: Option<String>,
        state: Option<String>, state_age: Option<f64>,
    }

    /// A replication slot.
    Slot {
        slot_name: String, slot_type: String, active: bool, temporary: bool, wal_status: Option<String>, retained: Option<f64>,
        xmin_age: Option<f64>,
    }

    /// A session that sends the log.
    Walsender {
        pid: u32, application: Option<String>, address: Option<String>, state: Option<String>, sync_state: Option<String>,
        xmin_age: Option<f64>,
    }

    /// Counters of a database.
    DatabaseCounters {
        name: String, xact: f64, sessions: Option<f64>, blks_read: f64, blks_hit: f64, blk_read_time: f64, temp_bytes: f64,
        changed: f64, deadlocks: f64,
    }

    /// Counters of a slot.
    SlotCounters { slot_name: String, spill_txns: f64, spill_bytes: f64, stream_txns: f64, }

    /// Checkpoints since the statistics were reset.
    Checkpoints { timed: f64, requested: f64, }

    /// A function that may look up secrets.
    LookupFunction {
        name: String, is_definer: bool, has_search_path: bool, is_public: bool, owner: String, owner_may_login: bool,
        owner_is_superuser: bool, has_filter: bool,
    }

    /// A table or index, with one number about it.
    Relation { name: String, number: Option<f64>, limit: Option<f64>, reason: Option<String>, }
}

impl About {
    /// Whether what other roles' sessions do is shown; if not, PostgreSQL shows them with empty columns.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn sees_sessions(&self) -> Observed<()> {
        if self.sees_sessions {
            Ok(())
        } else {
            Err("pg_monitor (or pg_read_all_stats), to see the sessions of other roles".to_owned())
        }
    }
}

impl PgSetting {
    fn number(&self) -> Option<f64> {
        let number: f64 = self.setting.as_ref()?.parse().ok()?;
        let (times, unit) = match self.unit.as_deref() {
            None | Some("") => return Some(number),
            Some(unit) => {
                let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
                (unit[..digits].parse().unwrap_or(1.0), &unit[digits..])
            }
        };
        // -1 and 0 are words, not amounts.
        let scale = match unit {
            _ if number <= 0.0 => return Some(number),
            "B" => 1.0,
            "kB" => 1024.0,
            "MB" => 1024.0 * 1024.0,
            "ms" => 0.001,
            "s" => 1.0,
            "min" => 60.0,
            _ => return None,
        };
        Some(number * times * scale)
    }
}

/// What a connection to one database shows.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    pub(crate) lookups: Observed<Vec<LookupFunction>>,
    pub(crate) unkeyed: Observed<Vec<Relation>>,
    pub(crate) indexes: Observed<Vec<Relation>>,
    pub(crate) unvacuumed: Observed<Vec<Relation>>,
    pub(crate) repack: Observed<Vec<Relation>>,
}

impl Inside {
    /// Reads the answers to [`DATABASE_QUERIES`].
    pub(crate) fn read(answers: &Answers) -> Self {
        Self {
            lookups: answers.rows("functions"),
            unkeyed: answers.rows("tables"),
            indexes: answers.rows("indexes"),
            unvacuumed: answers.rows("dead rows"),
            repack: answers.rows("leftovers of pg_repack"),
        }
    }
}

const NOT_ASKED: &str = "an answer of the server, which was not asked any more";

#[cfg(test)]
mod tests {
    use super::*;

    fn server(rows: &[&str]) -> Postgres {
        let mut answers = Answers::default();
        answers.put("pg_settings", Ok(rows.iter().map(|&row| row.to_owned()).collect()));
        answers.put("pg_authid", Err("permission denied".to_owned()));
        Postgres::read("a", &answers)
    }

    #[test]
    fn numbers_are_in_bytes_and_seconds() {
        let server = server(&[
            r#"{"name":"shared_buffers","setting":"16384","unit":"8kB"}"#,
            r#"{"name":"statement_timeout","setting":"1500","unit":"ms"}"#,
            r#"{"name":"checkpoint_timeout","setting":"5","unit":"min"}"#,
            r#"{"name":"max_slot_wal_keep_size","setting":"-1","unit":"MB"}"#,
            r#"{"name":"max_connections","setting":"100","unit":null}"#,
            r#"{"name":"jit","setting":"on"}"#,
        ]);
        let numbers =
            ["shared_buffers", "statement_timeout", "checkpoint_timeout", "max_slot_wal_keep_size", "max_connections"];
        assert_eq!(numbers.map(|name| server.number(name)), [134_217_728.0, 1.5, 300.0, -1.0, 100.0].map(Ok));
        assert!(server.number("jit").is_err() && server.is_on("jit") == Ok(true));
    }

    #[test]
    fn what_was_refused_is_absent_with_its_reason() {
        let server = server(&[]);
        assert_eq!(server.secrets, Err("permission denied".to_owned()));
        assert!(server.roles.is_err() && server.about.is_err());
        assert!(server.setting("jit").expect_err("absent").contains("jit"));
    }

    #[test]
    fn sessions_whose_columns_are_hidden_are_not_known() {
        let mut answers = Answers::default();
        answers.put("pg_stat_activity", Ok(vec![r#"{"pid":7,"state":null}"#.to_owned()]));
        answers.put("the server's version", Ok(vec![r#"{"version":150018,"sees_sessions":false}"#.to_owned()]));
        let hidden = Postgres::read("a", &answers);
        assert!(
            hidden.activity.expect_err("hidden").contains("pg_monitor")
                && hidden.advisory.is_err()
                && hidden.replication.is_err()
        );
        answers.put("the server's version", Ok(vec![r#"{"version":150018,"sees_sessions":true}"#.to_owned()]));
        assert_eq!(Postgres::read("a", &answers).activity.map(|rows| rows.len()), Ok(1));
    }

    #[test]
    fn a_column_that_a_version_lacks_is_absent() {
        let mut answers = Answers::default();
        answers.put("pg_stat_database", Ok(vec![r#"{"name":"d","xact":5,"sessions":null}"#.to_owned()]));
        let counters = Counters::read(&answers);
        assert_eq!(counters.sum(|one| Some(one.xact)), Ok(5.0));
        assert!(counters.sum(|one| one.sessions).is_err());
    }
}
