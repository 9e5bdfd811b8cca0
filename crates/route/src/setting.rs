//! `SET`, `RESET` and their kin: which setting gets which value.
//!
//! Always true: what cannot be told from the text alone is [`Value::Unknown`], never a guess.
//! Not here: what a client's settings are (`protocol`).

use crate::lexer::Kind;
use crate::words::Words;

/// A change of one setting for the rest of the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its name, in small letters.
    pub name: Box<str>,
    /// What it gets.
    pub value: Value,
}

/// What a setting gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// This, as `set_config` takes it.
    Text(Box<str>),
    /// These names; the server quotes them as it must (`GUC_LIST_QUOTE`).
    Names(Box<[Box<str>]>),
    /// What the session began with.
    Default,
    /// The server has to be asked.
    Unknown,
}

/// What a `SET` means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// It ends with its transaction.
    Local,
    /// These settings change.
    Changes(Vec<Change>),
    /// It is not understood.
    Unclear,
}

/// Whether a word of a SET is a name, or the first part of one: a setting may be called `local` or `session`.
fn is_name(words: &Words<'_>, at: usize) -> bool {
    words.is(at + 1, "to") || words.is_symbol(at + 1, b"=") || words.is_symbol(at + 1, b".")
}

/// Whether a statement whose first word is SET is a `SET LOCAL`.
pub(crate) fn is_local(words: &Words<'_>) -> bool {
    words.is(1, "local") && !is_name(words, 1)
}

/// The setting that a call of `set_config` names, behind its parenthesis, if it does so plainly.
pub(crate) fn configured_name(words: &Words<'_>, open: usize) -> Option<String> {
    let is_literal = matches!(words.kind(open + 1), Some(Kind::String | Kind::Escaped | Kind::Dollar));
    let name = words.unquoted(open + 1).filter(|_| is_literal && words.is_symbol(open + 2, b","))?;
    Some(canonical(&name.to_ascii_lowercase()).to_owned())
}

/// Reads a statement whose first word is SET.
pub(crate) fn set(words: &Words<'_>) -> Meaning {
    let mut at = 1;
    let is_name = |at: usize| is_name(words, at);
    if is_local(words) {
        return Meaning::Local;
    }
    if words.is(at, "session") && !is_name(at) {
        if words.is(at + 1, "characteristics") {
            let names =
                ["default_transaction_isolation", "default_transaction_read_only", "default_transaction_deferrable"];
            return Meaning::Changes(names.map(|name| change(name, Value::Unknown)).into());
        }
        if words.is(at + 1, "authorization") {
            return one(change("session_authorization", name_or_string(words, at + 2)));
        }
        at += 1;
    }
    if words.is(at, "session") && words.is(at + 1, "authorization") {
        return one(change("session_authorization", name_or_string(words, at + 2)));
    }
    if is_name(at) {
        return named(words, at);
    }
    if words.is(at, "constraints") || words.is(at, "transaction") {
        return Meaning::Local;
    }
    let name = match () {
        () if words.is(at, "time") && words.is(at + 1, "zone") => {
            at += 1;
            "timezone"
        }
        () if words.is(at, "role") => "role",
        () if words.is(at, "names") && words.end() == at + 1 => return one(change("client_encoding", Value::Default)),
        () if words.is(at, "names") => "client_encoding",
        () if words.is(at, "schema") => "search_path",
        () if words.is(at, "xml") && words.is(at + 1, "option") => {
            at += 1;
            "xmloption"
        }
        () => return Meaning::Unclear,
    };
    let value = match name {
        "timezone" if words.is(at + 1, "local") => Value::Default,
        "search_path" | "timezone" => values(words, at + 1, name),
        _ => name_or_string(words, at + 1),
    };
    one(change(name, value))
}

/// `SET a.b.c TO value, ...`
fn named(words: &Words<'_>, at: usize) -> Meaning {
    let Some((name, at)) = name(words, at) else { return Meaning::Unclear };
    if !words.is(at, "to") && !words.is_symbol(at, b"=") {
        return Meaning::Unclear;
    }
    let value = values(words, at + 1, &name);
    one(Change { name: name.into(), value })
}

/// Reads a statement whose first word is RESET: `None` for all settings.
pub(crate) fn reset(words: &Words<'_>) -> Option<Meaning> {
    if words.is(1, "all") && words.end() == 2 {
        return None;
    }
    let name = match () {
        () if words.is(1, "time") && words.is(2, "zone") => "timezone".to_owned(),
        () if words.is(1, "session") && words.is(2, "authorization") => "session_authorization".to_owned(),
        () if words.is(1, "transaction") && words.is(2, "isolation") => return Some(Meaning::Local),
        () => match name(words, 1) {
            Some((name, end)) if end == words.end() => name,
            _ => return Some(Meaning::Unclear),
        },
    };
    Some(one(Change { name: name.into(), value: Value::Default }))
}

/// The name of a setting, as all names for one thing are the same, and where it ends.
pub(crate) fn name(words: &Words<'_>, at: usize) -> Option<(String, usize)> {
    let mut name = part_of_name(words, at)?;
    let mut at = at + 1;
    while words.is_symbol(at, b".") {
        name.push('.');
        name.push_str(&part_of_name(words, at + 1)?);
        at += 2;
    }
    Some((canonical(&name).to_owned(), at))
}

fn part_of_name(words: &Words<'_>, at: usize) -> Option<String> {
    match words.kind(at)? {
        // PostgreSQL compares names of settings without regard to case, whatever the quotes.
        Kind::Word | Kind::Quoted => Some(words.unquoted(at)?.to_ascii_lowercase()),
        _ => None,
    }
}

/// The name that PostgreSQL knows it by (`map_old_guc_names` in `utils/misc/guc.c`).
#[must_use]
pub fn canonical(name: &str) -> &str {
    match name {
        "sort_mem" => "work_mem",
        "vacuum_mem" => "maintenance_work_mem",
        other => other,
    }
}

fn change(name: &str, value: Value) -> Change {
    Change { name: name.into(), value }
}

fn one(change: Change) -> Meaning {
    Meaning::Changes(vec![change])
}

/// What `ROLE`, `NAMES` and the like take: one word or string.
fn name_or_string(words: &Words<'_>, at: usize) -> Value {
    let is_all = words.end() == at + 1;
    match words.kind(at) {
        Some(Kind::Word) if is_all && words.is(at, "default") => Value::Default,
        Some(Kind::Word | Kind::Quoted | Kind::String | Kind::Escaped | Kind::Dollar) if is_all => {
            words.unquoted(at).map_or(Value::Unknown, |text| Value::Text(text.into()))
        }
        _ => Value::Unknown,
    }
}

/// What stands behind `=`, as one value (`flatten_set_variable_args` in `utils/misc/guc.c`).
fn values(words: &Words<'_>, mut at: usize, name: &str) -> Value {
    if words.is(at, "default") && words.end() == at + 1 {
        return Value::Default;
    }
    let mut values: Vec<Box<str>> = Vec::new();
    loop {
        let Some((value, end)) = value(words, at) else { return Value::Unknown };
        values.push(value.into());
        if end == words.end() {
            break;
        }
        if !words.is_symbol(end, b",") {
            return Value::Unknown;
        }
        at = end + 1;
    }
    match LISTS.contains(&name) {
        true => Value::Names(values.into()),
        false => Value::Text(values.join(", ").into()),
    }
}

/// One value, and where it ends.
fn value(words: &Words<'_>, at: usize) -> Option<(String, usize)> {
    let sign = ["-", "+"].into_iter().find(|sign| words.is_symbol(at, sign.as_bytes()));
    let at = at + usize::from(sign.is_some());
    let value = match words.kind(at)? {
        Kind::Number => {
            // How another number is written, `0x10` or `1_000` or `1.50`, is not how PostgreSQL says it again.
            let digits = std::str::from_utf8(words.text(at)?).ok().filter(|digits| is_plain(digits))?;
            let minus = if sign == Some("-") { "-" } else { "" };
            format!("{minus}{digits}")
        }
        Kind::Word | Kind::Quoted | Kind::String | Kind::Escaped | Kind::Dollar if sign.is_none() => {
            words.unquoted(at)?
        }
        _ => return None,
    };
    Some((value, at + 1))
}

fn is_plain(digits: &str) -> bool {
    let is_round = digits.len() == 1 || !digits.starts_with('0');
    is_round && digits.len() < 10 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The settings whose value is a list of names (`GUC_LIST_QUOTE`; `variable_is_guc_list_quote` in `fe_utils`).
const LISTS: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];
