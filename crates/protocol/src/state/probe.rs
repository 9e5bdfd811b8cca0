//! The state probe: a query about what a server's session keeps, and the answer.
//!
//! Always true: only what may have been touched is queried; no setting of the session can mislead the query, because
//! every name is qualified.
//! Not here: what follows from the answer (`session_effects`, `worker::data::probe`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use route::{DirtyState, Knowledge};

use super::answer::Answer;
use super::effects::{INDEPENDENT, is_first};
use super::overrides::{IDENTITY, Overrides};
use super::pins::{Hold, Kind};
use super::statements::{PATH_BYTES_MAX, Statement, Statements};
use super::subscriptions::MARKS;
use crate::planted::{are_all_told, that_keep_a_server};
use crate::vars::Literal;

/// What servers can be probed for: settings, advisory locks, channels, temporary tables, cursors `WITH HOLD`, statements
/// prepared by SQL, temporary replication slots, and which functions there are.
pub const PROBED: [&str; 8] = ["settings", "lock", "listen", "temporary", "cursor", "statement", "slot", "functions"];

/// A probe, and the part of its answer that has come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    asked: DirtyState,
    /// The settings that are queried by name: custom settings (names with a dot), and the session's identity.
    custom: Vec<Box<str>>,
    /// The other touched settings.
    named: Vec<Box<str>>,
    answer: Answer,
    misses_settings: bool,
    is_broken: bool,
    is_cancelled: bool,
    /// How often it has been sent before.
    tries: u8,
    unlistens: bool,
    carries_statements: bool,
    /// The user that the pool logs in as, if the session may have another identity by now, to which not everything is
    /// shown.
    login: Option<Box<str>>,
    /// The probe queries nothing, but sends a mark with this number.
    mark: Option<u64>,
    /// The probe queries nothing at all: only the time of its answer matters.
    is_empty: bool,
    /// The session's state as far as it is known without a probe, where both must be compared.
    known: Option<Overrides>,
}

/// What a server has reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// What the server was probed for.
    pub asked: DirtyState,
    /// What the session holds on this server only.
    pub holds: Vec<Hold>,
    /// What the functions of the database may do, if the probe asked for that.
    pub knowledge: Option<Knowledge>,
    /// Whether the session has left all channels that it listened to.
    pub has_left_channels: bool,
    settings: Vec<(Box<str>, Box<str>)>,
    custom: Vec<Box<str>>,
    named: Vec<Box<str>>,
    misses_settings: bool,
    /// The statements prepared by SQL that can be prepared on any server.
    statements: Vec<(Box<str>, Box<str>)>,
    /// What was known before the probe, and its values in the server's spelling.
    known: Option<Overrides>,
    spelled: Vec<(Box<str>, Box<str>)>,
}

impl Probe {
    /// A probe for what has been touched, and for the settings of these names.
    #[must_use]
    pub fn new<'a>(touched: DirtyState, names: impl Iterator<Item = &'a str>) -> Self {
        let (mut custom, mut named): (Vec<Box<str>>, Vec<Box<str>>) = (Vec::new(), Vec::new());
        for name in names {
            let side = if name.contains('.') || IDENTITY.contains(&name) { &mut custom } else { &mut named };
            side.push(name.into());
        }
        Self { asked: touched, custom, named, ..Self::default() }
    }

    /// A probe that queries nothing: its server sends a mark, at which the listener takes over the channels, and delivers
    /// the notifications before the mark.
    #[must_use]
    pub fn of_mark(number: u64) -> Self {
        Self { mark: Some(number), ..Self::default() }
    }

    /// A probe that queries nothing: when the server has answered it, it has delivered all notifications that were
    /// committed before.
    #[must_use]
    pub fn of_nothing() -> Self {
        Self { is_empty: true, ..Self::default() }
    }

    /// Whether it queries nothing at all.
    #[must_use]
    pub fn is_of_nothing(&self) -> bool {
        self.is_empty
    }

    /// The number of its mark, if it only sends a mark.
    #[must_use]
    pub fn mark(&self) -> Option<u64> {
        self.mark
    }

    /// Adds these custom settings if any setting may have been touched, because no server lists custom settings. Unless
    /// `is_complete`, there may be others.
    pub fn add_custom<'a>(&mut self, names: impl Iterator<Item = &'a str>, is_complete: bool) {
        if !self.asked.has(DirtyState::ANY_SETTING) {
            return;
        }
        self.misses_settings = !is_complete;
        // There may be thousands of names.
        let mut known: BTreeSet<Box<str>> = self.custom.iter().cloned().collect();
        for name in names.chain(IDENTITY).filter(|name| name.contains('.') || IDENTITY.contains(name)) {
            if known.insert(name.into()) {
                self.custom.push(name.into());
            }
        }
    }

    /// Has the server leave all channels, which the session then no longer holds.
    pub fn unlisten(&mut self) {
        self.unlistens = true;
    }

    /// Statements prepared by SQL do not count as held, as far as they can be prepared on other servers.
    pub fn carry_statements(&mut self) {
        self.carries_statements = true;
    }

    /// The session may have another identity than `login`, the user that the pool logs in as: settings are queried as
    /// `login`, since PostgreSQL shows some settings to few users (`GUC_SUPERUSER_ONLY` in `utils/misc/guc.c`).
    pub fn ask_as(&mut self, login: &str) {
        self.login = Some(login.into());
    }

    /// Adds what the functions of the database may do.
    pub fn add_functions(&mut self) {
        self.asked |= DirtyState::FUNCTIONS;
    }

    /// The state of the session is known to be this, and is probed all the same (`session_verify`).
    pub fn verify(&mut self, known: Overrides) {
        self.known = Some(known);
    }

    /// What it asks for, in the order of [`PROBED`].
    #[must_use]
    pub fn asks_for(&self) -> [bool; PROBED.len()] {
        let asks_settings =
            self.asked.has(DirtyState::ANY_SETTING) || !self.named.is_empty() || !self.custom.is_empty();
        let asked = |what| self.asked.has(what);
        [
            asks_settings,
            asked(DirtyState::LOCKS),
            asked(DirtyState::CHANNELS),
            asked(DirtyState::TEMPORARY),
            asked(DirtyState::CURSORS),
            asked(DirtyState::STATEMENTS),
            asked(DirtyState::SLOTS),
            asked(DirtyState::FUNCTIONS),
        ]
    }

    /// The SQL, for one simple query.
    #[must_use]
    pub fn question(&self) -> String {
        if let Some(number) = self.mark {
            return format!("LISTEN \"{MARKS}\";NOTIFY \"{MARKS}\",'{number}'");
        }
        // The comment tells readers of `pg_stat_activity` whose query it is.
        let mut sql = String::with_capacity(QUESTION_BYTES);
        sql.push_str("/* trunkline: what this session keeps */");
        let asked = |what| self.asked.has(what);
        select_by_name(&mut sql, CUSTOM, self.custom.iter());
        let is_any = asked(DirtyState::ANY_SETTING);
        // Servers report `default_transaction_read_only`, so it matters even if it was set to its initial value.
        let is_one_by_one =
            |name: &str| !is_any && name != "default_transaction_read_only" && INDEPENDENT.contains(&name);
        let asks_settings = is_any || !self.named.iter().all(|name| is_one_by_one(name));
        if let Some(login) = self.login.as_ref().filter(|_| asks_settings) {
            let _ = write!(sql, "SELECT {AS_LOGIN}{};", Literal(login));
            select(&mut sql, true, WITHOUT_ROLE);
        }
        select(&mut sql, asks_settings, SETTINGS);
        select_by_name(&mut sql, ONE_BY_ONE, self.named.iter().filter(|name| is_one_by_one(name)));
        let known = self.known.iter().flat_map(Overrides::iter).filter(|(name, _)| !IDENTITY.contains(name));
        for (name, value) in known {
            // A known value is compared in the server's spelling, because the server knows the units and words of the
            // setting.
            let (name, value) = (Literal(name), Literal(value));
            let _ = write!(sql, "SELECT 'v',{name},pg_catalog.set_config({name},{value},true),NULL;");
        }
        if asked(DirtyState::FUNCTIONS) {
            // The only part that may take long. It comes behind the settings, because the timeout is one of them.
            sql.push_str("SET LOCAL statement_timeout=0;");
        }
        select(&mut sql, asked(DirtyState::LOCKS), LOCKS);
        select(&mut sql, asked(DirtyState::CHANNELS) && !self.unlistens, CHANNELS);
        select(&mut sql, asked(DirtyState::TEMPORARY), TEMPORARY);
        select(&mut sql, asked(DirtyState::CURSORS), CURSORS);
        select(&mut sql, asked(DirtyState::STATEMENTS), STATEMENTS);
        select(&mut sql, asked(DirtyState::SLOTS), SLOTS);
        select(&mut sql, asked(DirtyState::FUNCTIONS), NAMES);
        select(&mut sql, asked(DirtyState::FUNCTIONS), FUNCTIONS);
        if self.unlistens {
            sql.push_str("UNLISTEN *;");
        }
        sql
    }

    /// Takes a `DataRow` of the answer.
    pub fn row(&mut self, body: &[u8]) {
        // No later row can repair an answer of which a row was not understood.
        if !self.is_broken && self.answer.row(body, self.carries_statements).is_none() {
            self.is_broken = true;
        }
    }

    /// The answer is lost.
    pub fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// The probe was cancelled, by a timeout that its session has set or by a cancel request of its client.
    pub fn cancel(&mut self) {
        (self.is_broken, self.is_cancelled) = (true, true);
    }

    /// Whether the probe was cancelled and is worth another try; if so, it is ready to be sent again.
    pub fn tries_again(&mut self) -> bool {
        let tries_again = self.is_cancelled && self.tries < TRIES_MAX;
        if tries_again {
            self.tries += 1;
            (self.is_broken, self.is_cancelled) = (false, false);
            self.answer = Answer::default();
        }
        tries_again
    }

    /// The answer is complete; `None` if it cannot be understood.
    #[must_use]
    pub fn end(self) -> Option<Seen> {
        if self.is_broken {
            return None;
        }
        let Answer { holds, settings, statements, spelled, functions, .. } = self.answer;
        let knowledge = self.asked.has(DirtyState::FUNCTIONS).then(|| functions.unwrap_or_default().end());
        let is_missed = knowledge.as_ref().is_some_and(Knowledge::misses_settings);
        Some(Seen {
            asked: self.asked,
            holds: that_keep_a_server(holds),
            knowledge,
            has_left_channels: self.unlistens,
            settings,
            custom: self.custom,
            named: self.named,
            misses_settings: self.misses_settings || is_missed && self.asked.has(DirtyState::ANY_SETTING),
            statements,
            known: self.known,
            spelled,
        })
    }

    /// Whether the answer includes functions, which take time to read.
    #[must_use]
    pub fn reads_functions(&self) -> bool {
        self.asked.has(DirtyState::FUNCTIONS)
    }

    /// Whether the session has more than is kept of an answer, which therefore is not understood.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.answer.is_overfull()
    }
}

impl Seen {
    /// The settings and statements of the session, which were `before` when they were last known. `login` is the user
    /// that the pool logs in as. Parameters that the server reports by itself, and that follow as such, are left out.
    #[must_use]
    pub fn overrides(&self, before: &Overrides, is_reported: &dyn Fn(&str) -> bool, login: &str) -> Overrides {
        let is_all = self.asked.has(DirtyState::ANY_SETTING);
        let mut overrides = before.clone();
        if is_all {
            overrides.forget_settings();
        }
        if are_all_told(self.asked.has(DirtyState::STATEMENTS)) {
            *overrides.statements_mut() = Statements::default();
        }
        self.custom.iter().chain(&self.named).for_each(|name| overrides.reset(name));
        let asked: BTreeSet<&str> = self.custom.iter().chain(&self.named).map(|name| &**name).collect();
        for (name, value) in &self.settings {
            let is_asked = is_all || asked.contains(&**name);
            let is_first = is_first(name, value, login) || OF_A_TRANSACTION.contains(&&**name);
            if is_asked && !is_first && !is_reported(name) {
                overrides.set(name, value);
            }
        }
        let search_path: Option<Box<str>> = overrides.get("search_path").map(Box::from);
        let mut path_bytes = 0;
        for (name, sql) in &self.statements {
            let known = before.statements().get(name).filter(|known| known.sql == *sql).cloned();
            let statement = known.unwrap_or_else(|| {
                path_bytes += search_path.as_ref().map_or(0, |path| path.len());
                Statement { sql: sql.clone(), search_path: search_path.clone() }
            });
            overrides.statements_mut().insert(name, statement);
            // The path may be long, and is copied for each statement. More than this is not kept anyway
            // ([`Overrides::is_too_much`]).
            if path_bytes > PATH_BYTES_MAX {
                break;
            }
        }
        overrides
    }

    /// Compares what was known, which includes no hold, with what the server has reported: the settings and statements
    /// `told`, and its holds. An error names the first difference, without its value. `None` where nothing was known, or
    /// where not everything can be compared.
    #[must_use]
    pub fn verdict(&self, told: &Overrides) -> Option<Result<(), Box<str>>> {
        // Where not all statements are listed, nothing is known about the rest.
        let is_listed = !self.holds.iter().any(|hold| hold.is_more && hold.kind == Kind::Statement);
        let known = self.known.as_ref().filter(|_| is_listed)?;
        let spelled: BTreeMap<&str, &str> = self.spelled.iter().map(|(name, value)| (&**name, &**value)).collect();
        let is_told = |(name, value): &(&str, &str)| told.get(name) == Some(*spelled.get(name).unwrap_or(value));
        let mistaken = known.iter().find(|setting| !is_told(setting));
        let unknown = || told.iter().find(|(name, _)| known.get(name).is_none());
        if let Some((name, _)) = mistaken.or_else(unknown) {
            return Some(Err(format!("setting \"{name}\"").into()));
        }
        let missing = |of: &Overrides, from: &Overrides| {
            let is_missing = |(name, statement): &(&str, &Statement)| {
                from.statements().get(name).is_none_or(|other| other.sql != statement.sql)
            };
            of.statements().iter().find(is_missing).map(|(name, _)| format!("prepared statement \"{name}\""))
        };
        if let Some(what) = missing(known, told).or_else(|| missing(told, known)) {
            return Some(Err(what.into()));
        }
        Some(self.holds.first().map_or(Ok(()), |hold| Err(hold.words())))
    }

    /// The names of all statements prepared by SQL, whether or not they can be carried.
    pub fn statements(&self) -> impl Iterator<Item = &str> {
        let held = self.holds.iter().filter(|hold| hold.kind == Kind::Statement).map(|hold| &*hold.what);
        held.chain(self.statements.iter().map(|(name, _)| &**name))
    }

    /// Whether this setting has the value with which a session on its server begins; `None` if the probe did not ask for
    /// it.
    #[must_use]
    pub fn is_first(&self, name: &str) -> Option<bool> {
        let is_it = |known: &str| known.eq_ignore_ascii_case(name);
        let is_asked = self.asked.has(DirtyState::ANY_SETTING) || self.named.iter().any(|known| is_it(known));
        is_asked.then(|| !self.settings.iter().any(|(known, _)| is_it(known)))
    }

    /// Whether functions mention settings that the probe did not ask for, where any setting may have been touched.
    #[must_use]
    pub fn has_learned_settings(&self) -> bool {
        let custom: BTreeSet<&str> = self.custom.iter().map(|name| &**name).collect();
        let is_new = |name: &str| !custom.contains(name);
        self.asked.has(DirtyState::ANY_SETTING)
            && self.knowledge.as_ref().is_some_and(|knowledge| knowledge.settings().any(is_new))
    }

    /// Whether any setting may have been touched, and not all could be named.
    #[must_use]
    pub fn misses_settings(&self) -> bool {
        self.misses_settings
    }

    /// Whether the session has set `temp_buffers`, which another server may refuse (`check_temp_buffers` in PostgreSQL's
    /// `utils/misc/guc.c`).
    #[must_use]
    pub fn sets_temp_buffers(&self) -> bool {
        self.settings.iter().any(|(name, _)| &**name == "temp_buffers")
    }

    /// Whether a value is beyond ASCII and so cannot be carried: its bytes mean something else in another encoding.
    #[must_use]
    pub fn has_foreign_values(&self) -> bool {
        self.settings.iter().any(|(_, value)| !value.is_ascii())
    }
}

/// Appends a query, if it is asked for.
fn select(sql: &mut String, is_asked: bool, text: &str) {
    if is_asked {
        ["SELECT ", text, ";"].into_iter().for_each(|part| sql.push_str(part));
    }
}

/// Appends a SELECT with the names, if there are any, between the two parts of a text.
fn select_by_name<'a>(sql: &mut String, [before, behind]: [&str; 2], mut names: impl Iterator<Item = &'a Box<str>>) {
    let Some(first) = names.next() else { return };
    let _ = write!(sql, "SELECT {before}{}", Literal(first));
    names.for_each(|name| {
        let _ = write!(sql, ",{}", Literal(name));
    });
    let _ = write!(sql, "{behind};");
}

/// What most probes take.
const QUESTION_BYTES: usize = 256;

/// How often a cancelled probe is sent again. Even with a timeout of one millisecond, most probes are answered then.
const TRIES_MAX: u8 = 5;

/// Settings that belong to a transaction, whatever `pg_settings` says.
const OF_A_TRANSACTION: [&str; 4] =
    ["seed", "transaction_deferrable", "transaction_isolation", "transaction_read_only"];

const SETTINGS: &str = "'s',name,pg_catalog.current_setting(name),NULL FROM pg_catalog.pg_settings \
    WHERE source OPERATOR(pg_catalog.=) 'session'";
/// The values of settings that any user may set to any value, each with the value with which the session began: for few
/// settings this takes a tenth of the time of [`SETTINGS`].
const ONE_BY_ONE: [&str; 2] = [
    "'d',n,pg_catalog.current_setting(n),pg_catalog.set_config(n,NULL,true) FROM pg_catalog.unnest(ARRAY[",
    "]::pg_catalog.text[]) n",
];
/// These two changes end with the probe's transaction.
const AS_LOGIN: &str = "'i',pg_catalog.set_config('session_authorization',NULL,true),NULL,NULL \
    WHERE pg_catalog.current_setting('session_authorization') OPERATOR(pg_catalog.<>) ";
const WITHOUT_ROLE: &str = "'i',pg_catalog.set_config('role','none',true),NULL,NULL \
    WHERE pg_catalog.current_setting('role') OPERATOR(pg_catalog.<>) 'none'";
const CUSTOM: [&str; 2] = [
    "'s',n,pg_catalog.current_setting(n,true),NULL FROM pg_catalog.unnest(ARRAY[",
    "]::pg_catalog.text[]) n WHERE pg_catalog.current_setting(n,true) IS NOT NULL",
];
/// Advisory locks with the parts of their keys. This query and the following ones, except that for channels, return at
/// most one row more than is listed one by one ([`PINS_MAX`](super::pins::PINS_MAX)): a session may have a hundred
/// thousand. The function beneath `pg_locks` is called, and the parts of the key are returned as they are, because
/// planning the view and the expressions takes the server longer than running them.
const LOCKS: &str = "'l',pg_catalog.concat(objsubid,' ',classid,' ',objid),mode,NULL FROM pg_catalog.pg_lock_status() \
    WHERE locktype OPERATOR(pg_catalog.=) 'advisory' AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() LIMIT 1001";
/// For each advisory lock of a backend in `$1`: the answering backend's PID, the holder's PID, the parts of the key
/// ([`lock_key`]) and the mode. At least one row.
pub const ALL_LOCKS: &str = "/* trunkline: who holds locks */ SELECT pg_catalog.pg_backend_pid(),l.pid,\
    pg_catalog.concat(objsubid,' ',classid,' ',objid),l.mode FROM (VALUES (1)) one LEFT JOIN pg_catalog.pg_locks l \
    ON l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted AND l.pid OPERATOR(pg_catalog.=) ANY($1)";
const CHANNELS: &str = "'n',c,NULL,NULL FROM pg_catalog.pg_listening_channels() c";
const TEMPORARY: &str = "'t',relname::pg_catalog.text,NULL,NULL FROM pg_catalog.pg_class \
    WHERE pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0 \
    AND relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() AND relkind OPERATOR(pg_catalog.<>) 'i' \
    UNION ALL SELECT 't',proname::pg_catalog.text,NULL,NULL FROM pg_catalog.pg_proc \
    WHERE pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0 \
    AND pronamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
    UNION ALL SELECT 't',typname::pg_catalog.text,NULL,NULL FROM pg_catalog.pg_type \
    WHERE pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0 \
    AND typnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
    AND typrelid OPERATOR(pg_catalog.=) 0 AND typelem OPERATOR(pg_catalog.=) 0 \
    UNION ALL SELECT 't',pg_catalog.pg_describe_object(classid,objid,0),NULL,NULL FROM pg_catalog.pg_depend \
    WHERE pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0 \
    AND refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass \
    AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
    AND classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_class'::pg_catalog.regclass \
    AND classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_proc'::pg_catalog.regclass \
    AND classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_type'::pg_catalog.regclass LIMIT 1001";
const CURSORS: &str = "'h',name,NULL,NULL FROM pg_catalog.pg_cursors WHERE is_holdable LIMIT 1001";
/// Each with the whole text that has prepared it, perhaps among other statements, as long as these texts together have at
/// most 1 MiB.
const STATEMENTS: &str = "'p',name,CASE WHEN pg_catalog.octet_length(statement) OPERATOR(pg_catalog.<) 20000 \
    AND pg_catalog.sum(pg_catalog.octet_length(statement)) OVER (ROWS UNBOUNDED PRECEDING) OPERATOR(pg_catalog.<=) 1048576 \
    THEN statement END,NULL FROM pg_catalog.pg_prepared_statements WHERE from_sql LIMIT 1001";
const SLOTS: &str = "'r',slot_name::pg_catalog.text,NULL,NULL FROM pg_catalog.pg_replication_slots \
    WHERE temporary AND active_pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() LIMIT 1001";
/// The names of functions that users have created, and of those that [`FUNCTIONS`] adds, sorted because they are kept
/// sorted.
const NAMES: &str = "DISTINCT 'g',proname COLLATE pg_catalog.\"C\",NULL,NULL FROM (\
    SELECT proname::pg_catalog.text FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l \
    ON l.oid OPERATOR(pg_catalog.=) p.prolang \
    WHERE p.oid OPERATOR(pg_catalog.>=) 16384 AND lanname OPERATOR(pg_catalog.<>) 'c' \
    AND lanname OPERATOR(pg_catalog.<>) 'internal' \
    UNION ALL SELECT pg_catalog.unnest('{notify,set_config,pg_advisory_lock,pg_advisory_lock_shared,pg_try_advisory_lock,\
    pg_try_advisory_lock_shared,query_to_xml}'::pg_catalog.text[])) n(proname) ORDER BY 2 LIMIT 100016";
/// Functions that users have created: the source text, if it is in a language that can be read, is no longer than what is
/// kept of an answer in one row, and the texts of older functions together do not exceed what is read in all
/// ([`route::TEXTS_BYTES_MAX`]); whether anything other than a function refers to the function (a trigger, a view, a
/// default, a policy, an operator); and whether that is something other than a trigger. At most one function more than is
/// read is returned ([`route::FUNCTIONS_MAX`]). Rules and views that notify (NOTIFY, or `pg_notify`, which is number 3036
/// in `pg_proc.dat`) are reported as a function that does.
const FUNCTIONS: &str = "'f',proname::pg_catalog.text,\
    pg_catalog.concat(CASE WHEN (lanname OPERATOR(pg_catalog.=) 'plpgsql' OR lanname OPERATOR(pg_catalog.=) 'sql' \
    AND prosrc OPERATOR(pg_catalog.<>) '') THEN 'r' END,\
    CASE WHEN EXISTS(SELECT FROM pg_catalog.pg_depend d \
    WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass \
    AND d.refobjid OPERATOR(pg_catalog.=) p.oid \
    AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_proc'::pg_catalog.regclass) THEN 'h' END,\
    CASE WHEN EXISTS(SELECT FROM pg_catalog.pg_depend d \
    WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass \
    AND d.refobjid OPERATOR(pg_catalog.=) p.oid \
    AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_proc'::pg_catalog.regclass \
    AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_trigger'::pg_catalog.regclass \
    AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_event_trigger'::pg_catalog.regclass) THEN 'q' END),\
    CASE WHEN bytes OPERATOR(pg_catalog.<) 200000 AND pg_catalog.sum(CASE WHEN bytes OPERATOR(pg_catalog.<) 200000 THEN bytes END) \
    OVER (ROWS UNBOUNDED PRECEDING) OPERATOR(pg_catalog.<=) 16777216 THEN prosrc END \
    FROM (SELECT p.oid,proname,lanname,prosrc,pg_catalog.octet_length(prosrc) FROM pg_catalog.pg_proc p \
    JOIN pg_catalog.pg_language l ON l.oid OPERATOR(pg_catalog.=) p.prolang \
    WHERE p.oid OPERATOR(pg_catalog.>=) 16384 AND lanname OPERATOR(pg_catalog.<>) 'c' \
    AND lanname OPERATOR(pg_catalog.<>) 'internal' ORDER BY p.oid LIMIT 100001) p(oid,proname,lanname,prosrc,bytes) \
    UNION ALL SELECT 'f','notify',CASE WHEN ev_type::pg_catalog.text OPERATOR(pg_catalog.=) '1' THEN 'rhq' ELSE 'rh' END,'notify' \
    FROM pg_catalog.pg_rewrite WHERE oid OPERATOR(pg_catalog.>=) 16384 \
    AND (pg_catalog.strpos(ev_action::pg_catalog.text,'{NOTIFY') OPERATOR(pg_catalog.>) 0 \
    OR pg_catalog.strpos(ev_action::pg_catalog.text,':funcid 3036 ') OPERATOR(pg_catalog.>) 0) \
    UNION ALL SELECT 'f',proname::pg_catalog.text,'hq','' FROM pg_catalog.pg_proc p \
    WHERE p.oid OPERATOR(pg_catalog.<) 16384 AND proname OPERATOR(pg_catalog.=) ANY \
    ('{set_config,pg_advisory_lock,pg_advisory_lock_shared,pg_try_advisory_lock,pg_try_advisory_lock_shared,query_to_xml}'\
    ::pg_catalog.name[]) AND EXISTS(SELECT FROM (\
    SELECT ev_action::pg_catalog.text FROM pg_catalog.pg_rewrite WHERE oid OPERATOR(pg_catalog.>=) 16384 \
    UNION ALL SELECT adbin::pg_catalog.text FROM pg_catalog.pg_attrdef \
    UNION ALL SELECT conbin::pg_catalog.text FROM pg_catalog.pg_constraint WHERE conbin IS NOT NULL \
    UNION ALL SELECT pg_catalog.concat(polqual,polwithcheck) FROM pg_catalog.pg_policy) t(tree) \
    WHERE pg_catalog.strpos(tree,pg_catalog.concat(':funcid ',p.oid,' ')) OPERATOR(pg_catalog.>) 0)";

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
