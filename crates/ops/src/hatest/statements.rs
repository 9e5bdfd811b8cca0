//! The SQL of the command.
//!
//! Always true: every statement is one that PostgreSQL 9.5 and all poolers take, sent as a simple query, so that no
//! pooler has to know prepared statements. Names of tables and paths have passed `options`, so nothing else can be in them.

/// The table, and the run whose rows are meant.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    table: String,
    run: i64,
}

impl Statements {
    /// For rows of `run` in `table`: one name, or schema and name.
    pub(crate) fn new(table: &[String], run: i64) -> Self {
        let quoted: Vec<String> = table.iter().map(|name| format!("\"{name}\"")).collect();
        Self { table: quoted.join("."), run }
    }

    /// Whether the table exists.
    pub(crate) fn exists(&self) -> String {
        format!("SELECT to_regclass('{}') IS NOT NULL", self.table)
    }

    /// Creates the table.
    pub(crate) fn create(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (run bigint, path text, writer int, seq bigint, sent timestamptz NOT NULL, \
             PRIMARY KEY (run, path, writer, seq))",
            self.table
        )
    }

    /// Fails if the table has other columns.
    pub(crate) fn probe(&self) -> String {
        format!("SELECT run, path, writer, seq, sent FROM {} WHERE run = {} LIMIT 1", self.table, self.run)
    }

    /// Which server answers.
    pub(crate) fn server(&self) -> String {
        format!("SELECT {MEMBER}")
    }

    /// Writes a row, and returns which server has done it. `sent_micros` is the client's time, in microseconds since 1970.
    pub(crate) fn insert(&self, path: &str, writer: u32, seq: u64, sent_micros: i64) -> String {
        format!(
            "INSERT INTO {} (run, path, writer, seq, sent) VALUES ({}, '{path}', {writer}, {seq}, to_timestamp({})) \
             RETURNING {MEMBER}",
            self.table,
            self.run,
            seconds(sent_micros)
        )
    }

    /// Reads the newest row of all writers, from the index, whatever the size of the table; the server; whether it is in
    /// recovery.
    pub(crate) fn newest(&self, writers: &[(&str, u32)]) -> String {
        let writers: Vec<String> = writers.iter().map(|(path, writer)| format!("('{path}', {writer})")).collect();
        format!(
            "SELECT {MEMBER}, pg_is_in_recovery(), n.seq, (extract(epoch from n.sent) * 1000000)::bigint \
             FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT x.seq, x.sent FROM (VALUES {}) w(path, writer), \
             LATERAL (SELECT l.seq, l.sent FROM {} l WHERE l.run = {} AND l.path = w.path AND l.writer = w.writer \
             ORDER BY l.seq DESC LIMIT 1) x ORDER BY x.sent DESC LIMIT 1) n ON true",
            writers.join(", "),
            self.table,
            self.run
        )
    }

    /// Which rows of a path are there: a bit for each, 64 in a row of the answer.
    pub(crate) fn present(&self, path: &str) -> String {
        format!(
            "SELECT writer, seq >> 6, count(*), bit_or(1::bigint << (seq & 63)::int) FROM {} \
             WHERE run = {} AND path = '{path}' GROUP BY 1, 2",
            self.table, self.run
        )
    }

    /// Removes the rows of the run.
    pub(crate) fn clean(&self) -> String {
        format!("DELETE FROM {} WHERE run = {}", self.table, self.run)
    }
}

/// Microseconds as seconds with a fraction.
fn seconds(micros: i64) -> String {
    format!("{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
}

/// The address and the port of the server that executes the statement, not of a pooler before it.
const MEMBER: &str = "coalesce(host(inet_server_addr()), 'socket') || ':' || \
     coalesce(inet_server_port()::text, current_setting('port'))";

/// Whether a session can write: in recovery, and read-only.
pub(crate) const ROLE: &str = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_times_are_exact() {
        let statements = Statements::new(&["Ops".to_owned(), "ledger".to_owned()], 7);
        let insert = statements.insert("A", 1, 2, 1_700_000_000_000_042);
        assert!(insert.starts_with("INSERT INTO \"Ops\".\"ledger\" (run"), "{insert}");
        assert!(insert.contains("(7, 'A', 1, 2, to_timestamp(1700000000.000042))"), "{insert}");
        assert!(statements.newest(&[("A", 0), ("B", 1)]).contains("(VALUES ('A', 0), ('B', 1))"));
        assert!(statements.exists().contains("to_regclass('\"Ops\".\"ledger\"')"));
    }
}
