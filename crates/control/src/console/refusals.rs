//! The catalog of the console's errors.
//!
//! Always true: every refusal uses a text of this catalog, which [`is_known`] checks in debug builds; the connection
//! stays open.
//! Not here: when a command is refused (`console`, `session`, `control::orders`).

/// One error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The SQLSTATE.
    sqlstate: &'static str,
    /// The text, with placeholders in braces.
    text: &'static str,
    /// When it is sent.
    doc: &'static str,
}

/// Returns whether the catalog has this text with this SQLSTATE.
pub(super) fn is_known(sqlstate: &str, text: &str) -> bool {
    CATALOG.iter().any(|entry| entry.sqlstate == sqlstate && fits(entry.text, text))
}

/// Returns the table of all console errors for the reference page, in Markdown.
#[must_use]
pub fn reference() -> String {
    let head = "| code | text | when |\n|---|---|---|\n";
    let row = |entry: &Entry| format!("| `{}` | `{}` | {} |\n", entry.sqlstate, entry.text, entry.doc);
    CATALOG.iter().map(row).fold(head.to_owned(), |page, row| page + &row)
}

/// Returns whether a text matches a pattern whose placeholders in braces stand for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(before) else { return false };
    let mut rest = rest.split_once('}').map_or("", |(_, rest)| rest);
    // The last piece must match the end; each earlier one is matched as early as possible.
    while let Some((piece, more)) = rest.split_once('{') {
        let Some(place) = left.find(piece) else { return false };
        left = &left[place + piece.len()..];
        rest = more.split_once('}').map_or("", |(_, rest)| rest);
    }
    left.ends_with(rest)
}

const fn entry(sqlstate: &'static str, text: &'static str, doc: &'static str) -> Entry {
    Entry { sqlstate, text, doc }
}

const CATALOG: &[Entry] = &[
    entry(
        "08P01",
        "invalid command '{text}', use SHOW HELP;",
        "There is no such command, or it does not take this argument.",
    ),
    entry("08P01", "bad arguments", "A word is longer than any command, key or value may be."),
    entry("08P01", "admin access needed", "The user is not one of `admin_users`."),
    entry(
        "08P01",
        "already suspended/paused",
        "`PAUSE`, `HOLD`, `KILL`, `SUSPEND`, `SWITCHOVER` or an online restart, while everything is paused or suspended.",
    ),
    entry(
        "08P01",
        "pooler is not paused/suspended",
        "`RESUME` of everything, while not everything is paused or suspended.",
    ),
    entry("08P01", "database {name} is not paused", "`RESUME` of a database that is not paused."),
    entry(
        "08P01",
        "pooler is shutting down",
        "`RESUME`, `SUSPEND`, an online restart, or `SHUTDOWN WAIT_FOR_CLIENTS` after `WAIT_FOR_SERVERS`, during a shutdown.",
    ),
    entry("08P01", "no such database: {name}", "The configuration has no such database."),
    entry(
        "08P01",
        "cannot {do that to} admin db: pgbouncer",
        "The command does not apply to the console's own database.",
    ),
    entry("08P01", "a database is required", "`DISABLE`, `ENABLE`, `HOLD` or `RELEASE` without a database."),
    entry(
        "08P01",
        "database {name} is not held",
        "`RELEASE` of a database that is not held, or by something else: the hint says what.",
    ),
    entry("08P01", "no such cluster: {name}", "The configuration has no such cluster."),
    entry("08P01", "a cluster is required: {names}", "`SWITCHOVER` without a cluster, while there are several."),
    entry("08P01", "there is no cluster in the configuration", "`SWITCHOVER` without a section `[clusters]`."),
    entry(
        "08P01",
        "cannot suspend while clients are held",
        "`SUSPEND` or an online restart during a switchover or a `HOLD`.",
    ),
    entry(
        "55000",
        "no switchover: {why}",
        "The switchover could not begin, or a step has failed; clients go on at whichever host proves to be the primary. The log tells each step.",
    ),
    entry(
        "08P01",
        "invalid client pointer supplied",
        "`KILL_CLIENT` or `TRACE CLIENT` without a client's number or name.",
    ),
    entry("08P01", "client not found", "`KILL_CLIENT` or `TRACE CLIENT` of a client that is not connected."),
    entry("22023", "TRACE cannot last {n} seconds", "The number of seconds is not from 1 to 3600."),
    entry("53400", "no more than {n} traces at a time", "Another trace has to end first."),
    entry("57P01", "the trace was ended by an online restart", "The new process does not continue traces."),
    entry("08P01", "SET failed", "The setting is unknown or its value is invalid; the DETAIL says why."),
    entry(
        "F0000",
        "RELOAD failed, see logs for additional details",
        "The configuration has a mistake; nothing has changed.",
    ),
    entry(
        "08P01",
        "no answer within {n} seconds from {workers}",
        "Some workers do not answer, which is a fault of the pooler.",
    ),
    entry(
        "57014",
        "canceling statement due to user request",
        "A cancel request (Ctrl-C) for a command that waits; a pause is undone.",
    ),
    entry(
        "57014",
        "PAUSE was ended by {what}",
        "`RESUME`, or the time given in `PAUSE ... FOR`, has ended the pause before it was complete.",
    ),
    entry(
        "57014",
        "HOLD was ended by {what}",
        "`RELEASE`, or the time of the hold, has ended it before all servers were free.",
    ),
    entry("22023", "PAUSE cannot last \"{text}\"", "What follows `FOR` is no number of seconds from 1 to 86400."),
    entry("57014", "SUSPEND was ended by {whom}", "The suspension was ended before it was complete."),
    entry(
        "08P01",
        "cannot suspend with paused databases",
        "`SUSPEND`, or an online restart, while a database is paused.",
    ),
    entry(
        "08P01",
        "an online restart is in progress",
        "A command that changes something, other than `SHUTDOWN` and `RESUME` of everything, while a new process takes over.",
    ),
    entry("08P01", "cannot hand over without a unix socket", "`unix_socket_dir` is empty."),
    entry(
        "08P01",
        "this process hands over in version {n}, not {n}",
        "An online restart by a version of the program that takes over in another way.",
    ),
    entry("0A000", "console commands take no parameters", "A statement with `$1`, or a Parse with parameter types."),
    entry(
        "42P05",
        "prepared statement \"{name}\" already exists",
        "A Parse with the name of an existing prepared statement.",
    ),
    entry(
        "26000",
        "prepared statement \"{name}\" does not exist",
        "A Bind or Describe of a prepared statement that does not exist.",
    ),
    entry("26000", "unnamed prepared statement does not exist", "The same, for the unnamed statement."),
    entry("42P03", "cursor \"{name}\" already exists", "A Bind with the name of an existing portal."),
    entry(
        "34000",
        "portal \"{name}\" does not exist",
        "An Execute or Describe of a portal that does not exist; a Sync closes all portals.",
    ),
    entry("55000", "portal \"{name}\" cannot be run", "An Execute of a command that has been executed already."),
    entry(
        "53400",
        "the console keeps no more than {n} prepared statements of a client",
        "Close prepared statements that are not needed.",
    ),
    entry(
        "53400",
        "the console keeps no more than {n} portals of a client",
        "Close portals, or send a Sync, which closes all of them.",
    ),
    entry(
        "53200",
        "the console keeps too much for its clients",
        "Prepared statements and results that are fetched in parts take all the memory of the console: fetch all rows at once, or close prepared statements.",
    ),
    entry(
        "08P01",
        "bind message supplies {n} parameters, but prepared statement \"{name}\" requires 0",
        "A Bind with parameter values.",
    ),
    entry(
        "08P01",
        "bind message has {n} result formats but query has {n} columns",
        "A Bind with too many or too few result format codes.",
    ),
    entry("22023", "unsupported format code: {n}", "A result format code that is neither 0 nor 1."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_fits_its_pattern_and_no_other() {
        assert!(is_known("08P01", "invalid command 'it's', use SHOW HELP;', use SHOW HELP;"));
        assert!(is_known("08P01", "bind message has 3 result formats but query has 2 columns"));
        assert!(!is_known("08P01", "bind message has 3 result formats but query has 2 rows"));
        assert!(!is_known("57014", "client not found"));
        assert!(!is_known("08P01", "client not found at all"));
        assert!(is_known("34000", "portal \"\" does not exist"));
    }

    #[test]
    fn every_error_has_a_sentence_and_stands_once() {
        for entry in CATALOG {
            assert!(entry.doc.ends_with('.'), "{}", entry.text);
            assert_eq!(CATALOG.iter().filter(|other| other.text == entry.text).count(), 1, "{}", entry.text);
        }
    }
}
