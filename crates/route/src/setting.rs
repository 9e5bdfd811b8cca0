//! `SET`, `RESET` and similar: which setting gets which value.
//!
//! Always true: what cannot be told from the text alone is [`Value::Unknown`], never a guess.
//! Not here: what a client's settings are (`protocol`).

use std::borrow::Cow;

use crate::lexer::Kind;
use crate::words::Words;

/// A change of one setting for the rest of the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its name, in lower case.
    pub name: Box<str>,
    /// The value that it gets.
    pub value: Value,
}

/// The value that a setting gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// This text, as `set_config` takes it.
    Text(Box<str>),
    /// These names; the server quotes them as it must (`GUC_LIST_QUOTE`).
    Names(Box<[Box<str>]>),
    /// The value with which the session began.
    Default,
    /// The server has to be asked.
    Unknown,
}

impl Change {
    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let value = match &self.value {
            Value::Text(text) => text.len(),
            Value::Names(names) => names.iter().map(|name| size_of_val(name) + name.len()).sum(),
            Value::Default | Value::Unknown => 0,
        };
        size_of::<Self>() + self.name.len() + value
    }

    /// Whether the setting certainly has the value with which the session began when the statement has succeeded.
    #[must_use]
    pub fn is_reset(&self) -> bool {
        self.value == Value::Default && self.certain() == Some(Certain::First)
    }

    /// The value that the setting certainly has when the statement has succeeded: a text as `set_config` takes it, or the
    /// value with which the session began. `None` where the text does not tell that, or where the setting is more than
    /// its value.
    #[must_use]
    pub fn certain(&self) -> Option<Certain<'_>> {
        if NEVER_CERTAIN.contains(&&*self.name) || !self.name.is_ascii() {
            return None;
        }
        match &self.value {
            Value::Text(text) => text.is_ascii().then_some(Certain::Value(Cow::Borrowed(text))),
            Value::Names(names) => {
                let quoted: Option<Vec<String>> = names.iter().map(|name| quoted(name)).collect();
                Some(Certain::Value(Cow::Owned(quoted?.join(", "))))
            }
            Value::Default => Some(Certain::First),
            Value::Unknown => None,
        }
    }
}

/// The certain value of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Certain<'a> {
    /// This text.
    Value(Cow<'a, str>),
    /// The value with which the session began.
    First,
}

/// A name as PostgreSQL quotes it where it must (`quote_identifier` in `utils/adt/ruleutils.c`). Which keywords are
/// quoted depends on the version: for a keyword nothing is certain.
fn quoted(name: &str) -> Option<String> {
    let is_plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
    let begins = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_');
    match () {
        () if !name.is_ascii() || is_keyword(name) => None,
        () if begins && name.bytes().all(is_plain) => Some(name.to_owned()),
        () => Some(format!("\"{}\"", name.replace('"', "\"\""))),
    }
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

/// The setting that a call of `set_config` names, whose parenthesis stands at `open`, if it is a plain literal.
pub(crate) fn configured_name(words: &Words<'_>, open: usize) -> Option<String> {
    let is_literal = matches!(words.kind(open + 1), Some(Kind::String | Kind::Escaped | Kind::Dollar));
    let name = words.unquoted(open + 1).filter(|_| is_literal && words.is_symbol(open + 2, b","))?;
    Some(canonical(&name.to_ascii_lowercase()).to_owned())
}

/// A call of `set_config` with literals as arguments, whose parenthesis stands at `open`: what it changes for the
/// session, nothing if only for the transaction; and where it ends.
pub(crate) fn configured(words: &Words<'_>, open: usize) -> Option<(Option<Change>, usize)> {
    let name = configured_name(words, open)?;
    let is_literal = |at| matches!(words.kind(at), Some(Kind::String | Kind::Escaped | Kind::Dollar));
    let value = words.unquoted(open + 3).filter(|_| is_literal(open + 3) && words.is_symbol(open + 4, b","))?;
    let is_local = words.is(open + 5, "true");
    let is_plain =
        words.is_symbol(open, b"(") && (is_local || words.is(open + 5, "false")) && words.is_symbol(open + 6, b")");
    let change = Change { name: name.into(), value: Value::Text(value.into()) };
    is_plain.then_some(((!is_local).then_some(change), open + 7))
}

/// What `SET SESSION CHARACTERISTICS AS TRANSACTION` sets, read from behind these words.
fn characteristics(words: &Words<'_>, mut at: usize) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    let text = |name: &str, value: &str| change(name, Value::Text(value.into()));
    while at < words.end() {
        if changes.len() == CHARACTERISTICS_MAX {
            return None;
        }
        let (change, taken) = match () {
            () if words.are(at, &["isolation", "level", "serializable"]) => (text(ISOLATION, "serializable"), 3),
            () if words.are(at, &["isolation", "level", "repeatable", "read"]) => {
                (text(ISOLATION, "repeatable read"), 4)
            }
            () if words.are(at, &["isolation", "level", "read", "committed"]) => (text(ISOLATION, "read committed"), 4),
            () if words.are(at, &["isolation", "level", "read", "uncommitted"]) => {
                (text(ISOLATION, "read uncommitted"), 4)
            }
            () if words.are(at, &["read", "only"]) => (text(READ_ONLY, "on"), 2),
            () if words.are(at, &["read", "write"]) => (text(READ_ONLY, "off"), 2),
            () if words.is(at, "deferrable") => (text(DEFERRABLE, "on"), 1),
            () if words.are(at, &["not", "deferrable"]) => (text(DEFERRABLE, "off"), 2),
            () => return None,
        };
        changes.push(change);
        at += taken;
        at += usize::from(words.is_symbol(at, b",") && at + 1 < words.end());
    }
    (!changes.is_empty()).then_some(changes)
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
            let all = || [ISOLATION, READ_ONLY, DEFERRABLE].map(|name| change(name, Value::Unknown)).into();
            let known = words.are(at + 2, &["as", "transaction"]).then(|| characteristics(words, at + 4)).flatten();
            return Meaning::Changes(known.unwrap_or_else(all));
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

/// The name of a setting, with old names replaced, and where it ends.
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

/// The name by which PostgreSQL knows a setting (`map_old_guc_names` in `utils/misc/guc.c`).
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

/// The argument of `ROLE`, `NAMES` and the like: one word or string.
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

/// The values behind `=`, as one value (`flatten_set_variable_args` in `utils/misc/guc.c`).
fn values(words: &Words<'_>, mut at: usize, name: &str) -> Value {
    if words.is(at, "default") && words.end() == at + 1 {
        return Value::Default;
    }
    let mut values: Vec<Box<str>> = Vec::new();
    loop {
        let Some((value, end)) = value(words, at).filter(|_| values.len() < VALUES_MAX) else { return Value::Unknown };
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
            // A number in another notation, `0x10` or `1_000` or `1.50`, is not shown like that by PostgreSQL.
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

/// There are three, and a client may give each twice: for more of them the server is asked.
const CHARACTERISTICS_MAX: usize = 6;
/// For a longer list the server is asked.
const VALUES_MAX: usize = 256;

const ISOLATION: &str = "default_transaction_isolation";
const READ_ONLY: &str = "default_transaction_read_only";
const DEFERRABLE: &str = "default_transaction_deferrable";

/// Settings that belong to their transaction, or that cannot always be set in another session.
const NEVER_CERTAIN: [&str; 6] = [
    "seed",
    "temp_buffers",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
    "is_superuser",
];

/// Whether a name is quoted because it could be taken for a keyword.
pub(crate) fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// The keywords that `quote_identifier` quotes in some version from 10 to 18 (`parser/kwlist.h`: all but the unreserved).
const KEYWORDS: [&str; 164] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "json",
    "json_array",
    "json_arrayagg",
    "json_exists",
    "json_object",
    "json_objectagg",
    "json_query",
    "json_scalar",
    "json_serialize",
    "json_table",
    "json_value",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "merge_action",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// The settings whose value is a list of names (`GUC_LIST_QUOTE`; `variable_is_guc_list_quote` in `fe_utils`).
const LISTS: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];
