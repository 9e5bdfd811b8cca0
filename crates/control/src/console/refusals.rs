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
        "It is no command, or has an object that it does not take.",
    ),
    entry("08P01", "bad arguments", "A word is longer than any that there is."),
    entry("08P01", "admin access needed", "The user does not stand in `admin_users`."),
    entry("08P01", "already suspended/paused", "`PAUSE` or `KILL` while everything is paused."),
    entry("08P01", "pooler is not paused/suspended", "`RESUME` while not everything is paused."),
    entry("08P01", "database {name} is not paused", "`RESUME` of a database that is not."),
    entry("08P01", "pooler is shutting down", "`RESUME`, or waiting for clients, while the process goes down."),
    entry("08P01", "no such database: {name}", "The configuration has no such database."),
    entry("08P01", "cannot {do that to} admin db: pgbouncer", "The order is not for the console's own database."),
    entry("08P01", "a database is required", "`DISABLE` or `ENABLE` without a database."),
    entry("08P01", "invalid client pointer supplied", "`KILL_CLIENT` or `TRACE CLIENT` without a number."),
    entry("08P01", "client not found", "`KILL_CLIENT` or `TRACE CLIENT` of somebody who is not there."),
    entry("22023", "TRACE cannot last {n} seconds", "A time that is not from 1 to 3600."),
    entry("53400", "no more than {n} traces at a time", "Another one has to end first."),
    entry("57P01", "the trace was ended by an online restart", "The new process does not go on with it."),
    entry("08P01", "SET failed", "The setting is unknown or its value is wrong; the detail says which and why."),
    entry("F0000", "RELOAD failed, see logs for additional details", "There is a mistake; nothing has changed."),
    entry(
        "08P01",
        "no answer within {n} seconds from {workers}",
        "Some workers do not answer; that is a fault of ours.",
    ),
    entry("57014", "canceling statement due to user request", "Ctrl-C at an order that waits; a pause is taken back."),
    entry("57014", "PAUSE was ended by RESUME", "Somebody has ended the pause that this one waits for."),
    entry("57014", "SUSPEND was ended by {whom}", "Somebody has ended it while this one waits for it."),
    entry(
        "08P01",
        "cannot suspend with paused databases",
        "`SUSPEND`, or an online restart, while a database is paused.",
    ),
    entry("08P01", "an online restart is in progress", "An order while a new process takes over."),
    entry("08P01", "cannot hand over without a unix socket", "`unix_socket_dir` is empty."),
    entry("08P01", "this process hands over in version {n}, not {n}", "The new process is of another version."),
    entry("0A000", "console commands take no parameters", "A statement with `$1`, or a Parse with types."),
    entry("42P05", "prepared statement \"{name}\" already exists", "A Parse with a name that is in use."),
    entry(
        "26000",
        "prepared statement \"{name}\" does not exist",
        "A Bind or Describe of a statement that is not there.",
    ),
    entry("26000", "unnamed prepared statement does not exist", "The same, for the one without a name."),
    entry("42P03", "cursor \"{name}\" already exists", "A Bind with the name of a portal that is in use."),
    entry(
        "34000",
        "portal \"{name}\" does not exist",
        "An Execute or Describe of a portal that is not there; Sync ends them.",
    ),
    entry("55000", "portal \"{name}\" cannot be run", "An Execute of an order that has been carried out."),
    entry("53400", "the console keeps no more than {n} prepared statements of a client", "Close some."),
    entry("53400", "the console keeps no more than {n} portals of a client", "Close some, or send a Sync."),
    entry(
        "53200",
        "the console keeps too much for its clients",
        "So much has been prepared, or is to be fetched in parts, that there is no room: fetch all rows at once, or close statements.",
    ),
    entry(
        "08P01",
        "bind message supplies {n} parameters, but prepared statement \"{name}\" requires 0",
        "A Bind with values.",
    ),
    entry(
        "08P01",
        "bind message has {n} result formats but query has {n} columns",
        "A Bind with too many or too few formats.",
    ),
    entry("22023", "unsupported format code: {n}", "A format that is neither 0 nor 1."),
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
