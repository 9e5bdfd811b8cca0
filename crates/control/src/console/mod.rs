//! The console, the database `pgbouncer`: from the text of a command to its meaning, and from there to an answer.
//!
//! A command is text, then a tree (`grammar`), then a [`Command`]: a table made from snapshots (`show`) or an order
//! (`act`).
//!
//! Always true: an answer consists of whole messages and ends with `ReadyForQuery`; texts, codes, columns and types are
//! PgBouncer's.
//! Not here: collecting snapshots from the workers, carrying out orders (`control`).

mod act;
mod answer;
mod concealed;
mod formats;
mod grammar;
mod happening;
mod pause;
mod reference;
mod refusals;
mod session;
mod sessions;
pub(crate) mod show;
pub(crate) mod table;
mod trace;

pub(crate) use act::Order;
pub(crate) use answer::{Answer, Notice, write_line};
pub(crate) use concealed::speaks_of_password;
pub(crate) use happening::{line as happening_line, text_without_values};
pub(crate) use pause::{Hold, Pause};
pub use reference::reference;
pub use refusals::reference as errors_reference;
pub(crate) use session::Next;
pub(crate) use sessions::Sessions;
pub(crate) use trace::{Trace, ended_by_restart as trace_ended_by_restart, too_many as too_many_traces, whom};

use std::borrow::Cow;
use std::sync::Arc;

use config::CATALOG;
use wire::write::{self, Says};
use worker::letters::Right;

use act::Heard;
use grammar::{Misread, Tree, is_show};
use show::{Breadth, Showing};
use table::{Column, Table, text};

/// A console command.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Show a table.
    Show(Showing),
    /// Show the help.
    Help,
    /// Show a parameter that every PostgreSQL session has.
    Parameter(&'static Parameter),
    /// Change such a parameter, which drivers do on their own; nothing is done.
    SetParameter,
    /// Carry out an order.
    Order(Order),
}

/// The error for a command that is not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// The SQLSTATE.
    pub(crate) sqlstate: &'static str,
    /// The message.
    pub(crate) text: String,
    /// The detail.
    pub(crate) detail: Option<String>,
    /// The hint.
    pub(crate) hint: Option<String>,
}

/// A session parameter with a constant value.
#[derive(Debug)]
pub(crate) struct Parameter {
    name: &'static str,
    value: &'static str,
    columns: &'static [Column],
}

/// Parses a query of a client with this right.
///
/// # Errors
/// It is no command, or this right does not allow it.
pub(crate) fn understand(query: &str, right: Right) -> Result<Command, Refusal> {
    let invalid = || Refusal::new(format!("invalid command '{}', use SHOW HELP;", without_secrets(query)));
    let tree = grammar::parse(query).map_err(|misread| match misread {
        Misread::Shape if is_verb(query, TRACE) => invalid().hinted(trace::USAGE),
        Misread::Shape if is_verb(query, "PAUSE") => invalid().hinted(pause::USAGE),
        Misread::Shape if is_verb(query, "HOLD") => invalid().hinted(pause::HOLD_USAGE),
        Misread::Shape if is_verb(query, "SWITCHOVER") => invalid().hinted(act::SWITCHOVER_USAGE),
        Misread::Shape => invalid(),
        Misread::TooLong => Refusal::new("bad arguments"),
    })?;
    match tree {
        Tree::Words { verb, object: Some(object) } if is_show(&verb) => {
            show(&object, right).unwrap_or_else(|| Err(near_subject(invalid(), &object)))
        }
        Tree::Extended { subject } => match table(&subject, Breadth::Extended, right) {
            Some(command) => command,
            None => Err(near_subject(invalid(), &subject)),
        },
        Tree::Words { verb, object } if verb.eq_ignore_ascii_case(TRACE) => {
            trace_of((&object.unwrap_or_default(), None), None, right, invalid)
        }
        Tree::Trace { kind, name, lasts } => {
            let lasts = lasts.as_ref().map(|(count, unit)| (&**count, unit.as_deref()));
            trace_of((&kind, Some(&name)), lasts, right, invalid)
        }
        Tree::Words { verb, object } => match act::hear(&verb, object.as_deref()) {
            Heard::Unknown => Err(near_order(invalid(), &verb)),
            _ if right != Right::Admin => Err(Refusal::admin_needed()),
            Heard::Refused(refusal) => Err(refusal),
            Heard::Order(order) => Ok(Command::Order(order)),
        },
        Tree::Timed { .. } | Tree::Switchover { .. } if right != Right::Admin => Err(Refusal::admin_needed()),
        Tree::Timed { verb, object, lasts } => {
            // As in PgBouncer, an empty quoted name counts as no object.
            let whose = object.filter(|object| !object.is_empty()).map(Arc::from);
            match verb.eq_ignore_ascii_case("PAUSE") {
                true => Pause::timed(whose, &lasts).map(|pause| Command::Order(Order::Pause(pause))),
                false => Hold::timed(whose, &lasts).map(|hold| Command::Order(Order::Hold(hold))),
            }
        }
        Tree::Switchover { cluster, to } => {
            let (cluster, to) = (cluster.filter(|cluster| !cluster.is_empty()).map(Arc::from), Some(to.into()));
            Ok(Command::Order(Order::Switchover { cluster, to }))
        }
        Tree::Set { key, .. } if is_of_a_session(&key, right) => Ok(Command::SetParameter),
        Tree::Set { .. } if right != Right::Admin => Err(Refusal::admin_needed()),
        Tree::Set { key, value } => Ok(Command::Order(Order::Set { key, value })),
    }
}

/// Parses a `TRACE`, which is for admins.
fn trace_of(
    whom: (&str, Option<&str>),
    lasts: Option<(&str, Option<&str>)>,
    right: Right,
    invalid: impl Fn() -> Refusal,
) -> Result<Command, Refusal> {
    let trace = trace::hear(whom, lasts, invalid)?;
    if right != Right::Admin {
        return Err(Refusal::admin_needed());
    }
    Ok(Command::Order(Order::Trace(trace)))
}

/// Returns whether a text begins with this word.
fn is_verb(query: &str, verb: &str) -> bool {
    let first = query.trim_start().split(|char: char| !char.is_ascii_alphanumeric() && char != '_').next();
    first.is_some_and(|first| first.eq_ignore_ascii_case(verb))
}

/// Returns a text that is no command in a form that may be shown and logged: a `SET` that was not understood may
/// contain a secret after its key.
fn without_secrets(query: &str) -> Cow<'_, str> {
    let lower = query.to_ascii_lowercase();
    let keys = CATALOG.iter().filter(|entry| entry.is_secret).map(|entry| entry.name);
    let ends = keys.chain(SECRET_WORDS).filter_map(|word| lower.find(word).map(|start| start + word.len()));
    match ends.min() {
        // Lower-casing ASCII keeps byte positions, and the word ends at a character boundary.
        Some(end) if end < query.len() => Cow::Owned(format!("{} ...", &query[..end])),
        Some(_) | None => Cow::Borrowed(query),
    }
}

/// Returns what a `SHOW` of this object means, if the object is known.
fn show(object: &str, right: Right) -> Option<Result<Command, Refusal>> {
    if object.eq_ignore_ascii_case("HELP") {
        return Some(Ok(Command::Help));
    }
    if let Some(parameter) = parameter(object) {
        return Some(Ok(Command::Parameter(parameter)));
    }
    table(object, Breadth::Plain, right)
}

/// Returns what a `SHOW` of this table means, if there is such a table.
fn table(name: &str, breadth: Breadth, right: Right) -> Option<Result<Command, Refusal>> {
    if name.eq_ignore_ascii_case(show::FOR_ADMINS) && right != Right::Admin {
        return Some(Err(Refusal::admin_needed()));
    }
    show::find(name).map(|subject| Ok(Command::Show(Showing { subject, breadth })))
}

/// Adds a hint with the nearest subject to a refusal.
fn near_subject(refusal: Refusal, object: &str) -> Refusal {
    match config::nearest(object, show::CATALOG.iter().map(|subject| subject.name)) {
        Some(name) => refusal.hinted(format!("Did you mean SHOW {name}?")),
        None => refusal,
    }
}

/// Adds a hint with the nearest order to a refusal.
fn near_order(refusal: Refusal, verb: &str) -> Refusal {
    let verbs = act::CATALOG.iter().map(|entry| entry.usage.split(' ').next().unwrap_or_default());
    match config::nearest(verb, verbs.chain(["SHOW"])) {
        Some(name) if !name.eq_ignore_ascii_case(verb) => refusal.hinted(format!("Did you mean {name}?")),
        _ => refusal,
    }
}

/// Returns whether a `SET` is about a PostgreSQL session and not about a setting of ours. PgBouncer accepts
/// [`PARAMETERS`] only, so that other drivers fail. For an admin an unknown key is an error; other users may not change
/// our settings, so that an unknown key of theirs must be about the session.
fn is_of_a_session(key: &str, right: Right) -> bool {
    parameter(key).is_some()
        || SET_BY_DRIVERS.iter().any(|name| name.eq_ignore_ascii_case(key))
        || (right != Right::Admin
            && !CATALOG.iter().any(|entry| entry.name.eq_ignore_ascii_case(key))
            && !key.starts_with("rate_limits."))
}

fn parameter(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
}

impl Refusal {
    /// A refusal with the SQLSTATE that PgBouncer uses for most errors.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { sqlstate: "08P01", text: text.into(), detail: None, hint: None }
    }

    /// The answer to a RELOAD that changed nothing; `lines` have been logged.
    pub(crate) fn reload_failed(lines: &[String]) -> Self {
        Self { sqlstate: "F0000", ..Self::new("RELOAD failed, see logs for additional details") }.because(lines)
    }

    /// Adds lines as the detail; of many, the first ones.
    fn because(self, lines: &[String]) -> Self {
        let mut detail = String::new();
        for (number, line) in lines.iter().enumerate() {
            let line: String = line.chars().take(DETAIL_LINE_CHARS_MAX).collect();
            let end = if number == 0 { "" } else { "\n" };
            if number == DETAIL_LINES_MAX {
                detail.push_str(&format!("{end}{} more are in the log", lines.len() - number));
                break;
            }
            detail.push_str(end);
            detail.push_str(&line);
        }
        Self { detail: (!detail.is_empty()).then_some(detail), ..self }
    }

    /// Adds a hint.
    pub(crate) fn hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The answer to a SET that changed nothing.
    pub(crate) fn set_failed(why: String) -> Self {
        Self { detail: Some(why), ..Self::new("SET failed") }
    }

    /// The answer to a SET that failed because of a file; `lines` have been logged.
    pub(crate) fn set_failed_by(why: &str, lines: &[String]) -> Self {
        let lines: Vec<String> = std::iter::once(why.to_owned()).chain(lines.iter().cloned()).collect();
        Self::new("SET failed").because(&lines)
    }

    /// The answer to a command that was cancelled by its client or by another one.
    pub(crate) fn canceled(text: &str) -> Self {
        Self { sqlstate: "57014", ..Self::new(text) }
    }

    fn admin_needed() -> Self {
        Self::new("admin access needed")
    }

    /// A refusal for the extended protocol, with PostgreSQL's SQLSTATE and text.
    pub(crate) fn coded(sqlstate: &'static str, text: impl Into<String>) -> Self {
        Self { sqlstate, ..Self::new(text) }
    }

    /// Appends the `ErrorResponse`.
    fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(refusals::is_known(self.sqlstate, &self.text), "an error that is on no page: {self:?}");
        let (sqlstate, message) = (self.sqlstate, self.text.as_str());
        let (detail, hint) = (self.detail.as_deref(), self.hint.as_deref());
        write::error(out, Says { severity: "ERROR", sqlstate, message, detail, hint });
    }
}

impl Command {
    /// Returns the columns of the result; `None` if the command returns no rows.
    fn columns(&self) -> Option<&'static [Column]> {
        match self {
            Self::Show(showing) => Some(showing.columns()),
            Self::Parameter(parameter) => Some(parameter.columns),
            Self::Help | Self::SetParameter | Self::Order(_) => None,
        }
    }
}

impl Parameter {
    /// Returns the answer that shows the parameter.
    pub(crate) fn answer(&self) -> Answer {
        Answer::Table(Table { columns: self.columns, rows: vec![vec![text(self.value)]] })
    }
}

/// The answer to an ignored SET.
pub(crate) fn set_ignored_answer() -> Answer {
    Answer::noted("SET", "SET ignored")
}

/// The answer to SHOW HELP.
pub(crate) fn help_answer() -> Answer {
    let notice = Notice { text: "Console usage".to_owned(), detail: Some(help()) };
    Answer::Done { tag: answer::SHOW.to_owned(), notice: Some(notice) }
}

fn help() -> String {
    let subjects = show::CATALOG.iter().map(|subject| subject.name).collect::<Vec<_>>();
    let lines = subjects.chunks(NAMES_PER_LINE).map(|names| format!("\n\tSHOW {}", names.join("|")));
    let shows = std::iter::once("\n\tSHOW HELP".to_owned()).chain(lines).collect::<String>();
    let extended = show::CATALOG.iter().filter(|subject| subject.has_own_columns());
    let extended: Vec<_> = extended.map(|subject| format!("{} EXTENDED", subject.name)).collect();
    let shows = format!("{shows}\n\tSHOW {}", extended.join("|"));
    let orders: Vec<_> = act::CATALOG.iter().map(|entry| entry.usage).collect();
    format!("{shows}\n\t{}", orders.join("\n\t"))
}

const TRACE: &str = "TRACE";

/// The parameters that drivers and connection pools query in every session.
const PARAMETERS: &[Parameter] = &[
    Parameter { name: "client_encoding", value: "UTF-8", columns: &[Column::text("client_encoding")] },
    Parameter {
        name: "default_transaction_isolation",
        value: "read committed",
        columns: &[Column::text("default_transaction_isolation")],
    },
    Parameter {
        name: "standard_conforming_strings",
        value: "on",
        columns: &[Column::text("standard_conforming_strings")],
    },
    Parameter { name: "datestyle", value: "ISO", columns: &[Column::text("datestyle")] },
    Parameter { name: "timezone", value: "GMT", columns: &[Column::text("timezone")] },
];

/// The parameters that drivers and frameworks set in every session on their own: JDBC the first two.
const SET_BY_DRIVERS: [&str; 9] = [
    "extra_float_digits",
    "application_name",
    "bytea_output",
    "client_min_messages",
    "idle_in_transaction_session_timeout",
    "intervalstyle",
    "lock_timeout",
    "search_path",
    "statement_timeout",
];

/// Words that precede a secret, even where the key of the setting is misspelt.
const SECRET_WORDS: [&str; 2] = ["passwd", "password"];

/// The number of lines in a detail, and the length of each; the log has the rest.
const DETAIL_LINES_MAX: usize = 20;
const DETAIL_LINE_CHARS_MAX: usize = 500;

/// The number of subjects per line of the help.
const NAMES_PER_LINE: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str, right: Right) -> (&'static str, String) {
        let refusal = understand(query, right).expect_err("refused");
        (refusal.sqlstate, refusal.text)
    }

    #[test]
    fn what_is_nearly_a_command_is_named() {
        let hint = |query| understand(query, Right::Admin).expect_err("refused").hint;
        assert_eq!(hint("show poolz").as_deref(), Some("Did you mean SHOW POOLS?"));
        assert_eq!(hint("RELAOD").as_deref(), Some("Did you mean RELOAD?"));
        assert_eq!(hint("show nonsense"), None);
    }

    #[test]
    fn everybody_may_look_and_only_admins_may_change() {
        for query in
            ["SHOW POOLS", "select version;", "show \"mem\"", "SHOW HELP", "SHOW datestyle", "SET timezone='UTC'"]
        {
            assert!(understand(query, Right::Stats).is_ok(), "{query}");
        }
        for query in ["RELOAD", "SHUTDOWN", "PAUSE", "SHOW FDS", "SET verbose=1"] {
            assert_eq!(refused(query, Right::Stats), ("08P01", "admin access needed".to_owned()), "{query}");
        }
        assert!(matches!(understand("RELOAD;", Right::Admin), Ok(Command::Order(Order::Reload))));
    }

    /// JDBC sends two of them when it connects.
    #[test]
    fn what_drivers_set_by_themselves_keeps_nobody_from_looking() {
        for query in
            ["SET extra_float_digits = 3", "SET application_name = 'PostgreSQL JDBC Driver'", "set Search_Path to x"]
        {
            for right in [Right::Stats, Right::Admin] {
                assert!(matches!(understand(query, right), Ok(Command::SetParameter)), "{query}");
            }
        }
        let unknown = "SET defualt_pool_size = 3";
        assert!(matches!(understand(unknown, Right::Stats), Ok(Command::SetParameter)));
        assert!(matches!(understand(unknown, Right::Admin), Ok(Command::Order(Order::Set { .. }))));
        for entry in CATALOG {
            let query = format!("SET {} = 1", entry.name.to_ascii_uppercase());
            assert_eq!(refused(&query, Right::Stats).1, "admin access needed", "{query}");
        }
    }

    #[test]
    fn nonsense_is_repeated_with_where_to_look() {
        for query in ["drop everything", "SHOW nothing", "SHOW", "RELOAD now", "", "SHUTDOWN x"] {
            let text = format!("invalid command '{query}', use SHOW HELP;");
            assert_eq!(refused(query, Right::Admin), ("08P01", text.clone()));
            assert_eq!(refused(query, Right::Stats), ("08P01", text));
        }
        assert_eq!(refused(&"x".repeat(20), Right::Admin), ("08P01", "bad arguments".to_owned()));
    }

    /// Refused commands are logged.
    #[test]
    fn a_set_that_is_not_understood_shows_its_key_and_no_secret() {
        for (query, shown) in [
            ("SET auth_ldap_options = ldapbindpasswd=topsecret", "SET auth_ldap_options ..."),
            ("set \"AUTH_LDAP_OPTIONS\" to 'topsecret", "set \"AUTH_LDAP_OPTIONS ..."),
            ("ALTER SYSTEM SET auth_ldap_options='topsecret'", "ALTER SYSTEM SET auth_ldap_options ..."),
            ("SET auth_ldap_option = ldapbindpasswd=topsecret", "SET auth_ldap_option = ldapbindpasswd ..."),
            ("SET \u{e4} = a password=topsecret", "SET \u{e4} = a password ..."),
            ("SET auth_ldap_options", "SET auth_ldap_options"),
        ] {
            let text = format!("invalid command '{shown}', use SHOW HELP;");
            assert_eq!(refused(query, Right::Admin), ("08P01", text));
        }
    }

    #[test]
    fn answers_end_with_ready_for_query() {
        let written = |answer: Answer| {
            let mut out = Vec::new();
            answer.write_simple(&mut out);
            out
        };
        let error = written(Answer::Refused(Refusal::reload_failed(&[])));
        assert!(error.starts_with(b"E") && error.ends_with(b"Z\0\0\0\x05I"));
        let text = String::from_utf8_lossy(&error).into_owned();
        assert!(text.contains("SERROR\0VERROR\0CF0000\0MRELOAD failed, see logs for additional details\0"), "{text:?}");
        assert_eq!(written(Answer::done("RELOAD")), b"C\0\0\0\x0bRELOAD\0Z\0\0\0\x05I");
        assert!(written(set_ignored_answer()).ends_with(b"C\0\0\0\x08SET\0Z\0\0\0\x05I"));
        let help = String::from_utf8_lossy(&written(help_answer())).into_owned();
        assert!(help.contains("C00000\0MConsole usage\0D\n\tSHOW HELP\n\tSHOW ") && help.contains("VERSION"), "{help}");
        assert!(help.contains("Z\0\0\0\u{5}I"));
    }

    #[test]
    fn a_parameter_is_a_column_of_its_name() {
        let Ok(Command::Parameter(parameter)) = understand("SHOW TimeZone", Right::Stats) else {
            panic!("a parameter")
        };
        let Answer::Table(table) = parameter.answer() else { panic!("a table") };
        assert_eq!((table.columns[0].name, &table.rows[..]), ("timezone", &[vec![text("GMT")]][..]));
    }
}
