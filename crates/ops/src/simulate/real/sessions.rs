//! When sessions of tenants began and ended, as PostgreSQL's log tells it.
//!
//! Always true: lines that are not about our databases, and lines that are cut, count for nothing.
//! Not here: reading the file.

use super::objects::PREFIX;

/// The settings of the server by which its log can be read.
pub(super) const LOG_SETTINGS: [&str; 3] = ["log_connections=on", "log_disconnections=on", "log_line_prefix=%n "];

/// The beginning or the end of a session.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Turn {
    /// Seconds since 1970.
    pub(super) at: f64,
    pub(super) role: String,
    pub(super) is_begin: bool,
}

/// Reads a log.
pub(super) fn turns(log: &str) -> Vec<Turn> {
    log.lines().filter_map(turn).collect()
}

fn turn(line: &str) -> Option<Turn> {
    let (at, rest) = line.split_once(' ')?;
    let at = at.parse().ok()?;
    let is_begin = rest.contains("connection authorized: ");
    if !is_begin && !rest.contains("disconnection: session time: ") {
        return None;
    }
    let value = |name: &str| rest.split_whitespace().find_map(|word| word.strip_prefix(name));
    let (role, database) = (value("user=")?, value("database=")?);
    (database.starts_with(PREFIX) && role.starts_with(PREFIX)).then(|| Turn { at, role: role.to_owned(), is_begin })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_and_ends_are_read_and_other_lines_are_not() {
        let log = "1700000000.123 LOG:  connection received: host=127.0.0.1 port=1\n\
                   1700000000.125 LOG:  connection authorized: user=tlsim_1_1_2 database=tlsim_1 application_name=x\n\
                   1700000001.500 LOG:  disconnection: session time: 0:00:01.375 user=tlsim_1_1_2 database=tlsim_1 host=127.0.0.1 port=1\n\
                   1700000001.500 LOG:  connection authorized: user=demo database=postgres\n\
                   1700000002.0 LOG:  connection auth";
        let found = turns(log);
        let begin = Turn { at: 1_700_000_000.125, role: "tlsim_1_1_2".to_owned(), is_begin: true };
        assert_eq!(found, [begin.clone(), Turn { at: 1_700_000_001.5, is_begin: false, ..begin }]);
    }
}
