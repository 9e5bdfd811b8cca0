//! What a session has set beyond its beginning and any server can be given: settings, and statements prepared by SQL.
//!
//! Always true: names are unique and in lower case; a value has the server's spelling; no value can break out of the SQL
//! that gives one server the settings of another.
//! Not here: parameters that servers report by themselves (`vars`), which statements can be carried (`route::prepared`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::statements::{Preparation, Statements};
use crate::hash::hash_of;
use crate::planted::are_other_statements;
use crate::vars::Literal;

/// Settings and statements prepared by SQL, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Overrides {
    settings: BTreeMap<Box<str>, Box<str>>,
    statements: Statements,
    /// Combined from the hashes of the settings.
    fingerprint: u32,
    /// One of the settings acts on a session that does nothing ([`ACTS_AT_REST`]).
    acts_at_rest: bool,
}

/// The serialized form, without the derived fingerprint.
#[derive(Serialize, Deserialize)]
struct Written {
    settings: BTreeMap<Box<str>, Box<str>>,
    #[serde(default)]
    statements: Statements,
}

impl From<Written> for Overrides {
    fn from(Written { settings, statements }: Written) -> Self {
        let fingerprint = settings.iter().fold(0, |all, (name, value)| all ^ hash(name, value));
        let acts_at_rest = ACTS_AT_REST.iter().any(|name| settings.contains_key(*name));
        Self { settings, statements, fingerprint, acts_at_rest }
    }
}

impl From<Overrides> for Written {
    fn from(Overrides { settings, statements, .. }: Overrides) -> Self {
        Self { settings, statements }
    }
}

impl Overrides {
    /// Whether there are no settings and no statements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.statements.is_empty()
    }

    /// Each setting with its value, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The value of a setting.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|value| &**value)
    }

    /// Sets a setting.
    pub fn set(&mut self, name: &str, value: &str) {
        self.reset(name);
        self.settings.insert(name.into(), value.into());
        self.fingerprint ^= hash(name, value);
        self.acts_at_rest |= ACTS_AT_REST.contains(&name);
    }

    /// Removes a setting: it has the value with which the session began.
    pub fn reset(&mut self, name: &str) {
        if let Some(value) = self.settings.remove(name) {
            self.fingerprint ^= hash(name, &value);
            if self.acts_at_rest {
                self.acts_at_rest = ACTS_AT_REST.iter().any(|name| self.settings.contains_key(*name));
            }
        }
    }

    /// Whether the session has another user or role than after its login.
    #[must_use]
    pub fn has_identity(&self) -> bool {
        IDENTITY.iter().any(|name| self.settings.contains_key(*name))
    }

    /// The identity was set for another client. A role is bound to its OID when it is set, so the same name may mean
    /// another role by now: the identity becomes a value that no client has.
    pub fn doubt_identity(&mut self) {
        for name in IDENTITY {
            if self.get(name).is_some() {
                self.set(name, NOBODY);
            }
        }
    }

    /// Whether timeouts of a session with these settings may end queries of ours, or of another client, too early.
    #[must_use]
    pub fn is_hasty(&self) -> bool {
        let mut limits = HASTY.iter().filter_map(|name| self.get(name));
        limits.any(|value| millis(value).is_none_or(|millis| (1..HASTY_MILLIS).contains(&millis)))
    }

    /// Removes these timeouts and returns the SQL that resets them. The session's own timeout still applies while this
    /// SQL runs.
    #[must_use]
    pub fn calm(&mut self) -> String {
        self.reset_those(&HASTY)
    }

    /// Whether a setting acts on a session that does nothing, so that no server may rest with it.
    #[must_use]
    pub fn acts_at_rest(&self) -> bool {
        self.acts_at_rest
    }

    /// Removes these settings and returns the SQL that resets them.
    #[must_use]
    pub fn reset_what_acts_at_rest(&mut self) -> String {
        self.reset_those(&ACTS_AT_REST)
    }

    fn reset_those(&mut self, names: &[&str]) -> String {
        let mut sql = String::new();
        for name in names {
            if self.get(name).is_some() {
                self.reset(name);
                let _ = write!(sql, "RESET {name};");
            }
        }
        sql
    }

    /// After how long without a request PostgreSQL would end the session (`idle_session_timeout`), if at all.
    #[must_use]
    pub fn idle_limit(&self) -> Option<Duration> {
        let value = self.acts_at_rest.then(|| self.get(IDLE_SESSION_TIMEOUT))??;
        millis(value).filter(|millis| *millis > 0).map(Duration::from_millis)
    }

    /// Size of names, values and statements in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.settings_bytes() + self.statements.bytes()
    }

    fn settings_bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Whether it exceeds what follows a client.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        self.are_settings_too_much() || self.statements.are_too_much()
    }

    fn are_settings_too_much(&self) -> bool {
        self.settings_bytes() > SETTINGS_BYTES_MAX || self.settings.len() > SETTINGS_MAX
    }

    /// Removes what exceeds that: settings with long values, or all settings but the identity where that is not enough;
    /// and all statements.
    pub fn forget_most(&mut self) {
        self.forget_settings_if(|value| value.len() > LONG_BYTES);
        if self.are_settings_too_much() {
            self.forget_settings_if(|_| true);
        }
        self.statements = Statements::default();
    }

    fn forget_settings_if(&mut self, is_forgotten: impl Fn(&str) -> bool) {
        let forgotten = self.others().filter(|(_, value)| is_forgotten(value));
        let forgotten: Vec<Box<str>> = forgotten.map(|(name, _)| name.into()).collect();
        forgotten.iter().for_each(|name| self.reset(name));
    }

    /// The statements prepared by SQL.
    #[must_use]
    pub fn statements(&self) -> &Statements {
        &self.statements
    }

    /// The statements prepared by SQL, to be changed.
    pub fn statements_mut(&mut self) -> &mut Statements {
        &mut self.statements
    }

    /// Removes all settings.
    pub fn forget_settings(&mut self) {
        let settings = std::mem::take(&mut self.settings);
        settings.iter().for_each(|(name, value)| self.fingerprint ^= hash(name, value));
        self.acts_at_rest = false;
    }

    /// A number that is equal for equal contents, and rarely for others; 0 for none.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint ^ self.statements.fingerprint()
    }

    /// The SQL by which a server with these settings gets those of `client`; `None` where they agree. The identity
    /// changes last, so that the other settings are set with the rights of the user that the pool logs in as.
    #[must_use]
    pub fn changes_to(&self, client: &Self) -> Option<String> {
        let mut sql = String::new();
        let is_somebody_else = self.has_identity();
        let others_differ = self.others().ne(client.others());
        let identity_differs = IDENTITY.iter().any(|name| self.get(name) != client.get(name));
        if is_somebody_else && (others_differ || identity_differs) {
            sql.push_str("RESET SESSION AUTHORIZATION;RESET ROLE;");
        }
        for name in self.resets_to(client) {
            sql.push_str("RESET ");
            for (place, part) in name.split('.').enumerate() {
                let dot = if place == 0 { "" } else { "." };
                let _ = write!(sql, "{dot}\"{}\"", part.replace('"', "\"\""));
            }
            sql.push(';');
        }
        let changed = client.others().filter(|(name, value)| self.get(name) != Some(value));
        let was_reset = !sql.is_empty() && is_somebody_else;
        let identity = IDENTITY.iter().filter_map(|name| Some((*name, client.get(name)?)));
        let identity = identity.filter(|(name, value)| was_reset || self.get(name) != Some(value));
        for (place, (name, value)) in changed.chain(identity).enumerate() {
            let before = if place == 0 { "SELECT " } else { "," };
            let (name, value) = (Literal(name), Literal(value));
            let _ = write!(sql, "{before}pg_catalog.set_config({name},{value},false)");
        }
        if sql.is_empty() {
            return None;
        }
        // A transaction that is serializable, read only and deferrable waits for other transactions.
        Some(match self.get(DEFERRABLE).is_some() {
            true => format!("{BEGIN};{sql};COMMIT"),
            false => sql,
        })
    }

    /// The settings, but for the identity, that a session with those of `client` has to reset.
    pub fn resets_to<'a>(&'a self, client: &'a Self) -> impl Iterator<Item = &'a str> {
        self.others().map(|(name, _)| name).filter(|name| client.get(name).is_none())
    }

    /// Appends the settings that decide how the text of a statement is read: what its names mean, and its literals.
    pub fn write_dialect(&self, out: &mut Vec<u8>) {
        for (name, value) in self.iter().filter(|(name, _)| route::decides_meaning(name)) {
            for text in [name, value] {
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
        }
    }

    /// Whether both agree in these settings.
    #[must_use]
    pub fn reads_like(&self, other: &Self) -> bool {
        let dialect = |all: &Self| {
            let mut written = Vec::new();
            all.write_dialect(&mut written);
            written
        };
        dialect(self) == dialect(other)
    }

    /// What must be set on a server with these settings so that it has those of `client`, in order: each setting with its
    /// value, or with `None` for the value with which the session began. All but a role are set with the rights of the
    /// user that the pool logs in as. `None` where a session authorization or `default_transaction_deferrable` is
    /// involved, or where statements differ, because that takes more than these settings.
    #[must_use]
    pub fn differences<'a>(&'a self, client: &'a Self) -> Option<Vec<(&'a str, Option<&'a str>)>> {
        if are_other_statements(self.statements != client.statements) {
            return None;
        }
        let [session_authorization, role] = IDENTITY;
        if self.get(session_authorization).is_some() || client.get(session_authorization).is_some() {
            return None;
        }
        // A transaction that is serializable, read only and deferrable waits for other transactions.
        if self.get(DEFERRABLE).is_some() {
            return None;
        }
        let (their_role, our_role) = (self.get(role), client.get(role));
        let mut differences = Vec::new();
        if their_role.is_some() && (our_role.is_none() || self.others().ne(client.others())) {
            differences.push((role, None));
        }
        let gone = self.others().filter(|(name, _)| client.get(name).is_none()).map(|(name, _)| (name, None));
        let changed = client.others().filter(|(name, value)| self.get(name) != Some(value));
        let is_reset = !differences.is_empty();
        differences.extend(gone.chain(changed.map(|(name, value)| (name, Some(value)))));
        if our_role.is_some() && (is_reset || our_role != their_role) {
            differences.push((role, our_role));
        }
        Some(differences)
    }

    /// The queries, one by one, by which a server that has the client's settings gets the client's statements. `reported` is
    /// the client's `search_path`, where servers report it.
    #[must_use]
    pub fn preparations_to(&self, client: &Self, reported: Option<&str>) -> Vec<(Preparation, Box<str>)> {
        self.statements.changes_to(&client.statements, client.get("search_path").or(reported))
    }

    /// Notes the `search_path` that the server reports for statements that have just been prepared: it is not one of the
    /// overrides then.
    pub fn note_reported_path(&mut self, reported: Option<&str>) {
        if let Some(path) = reported.filter(|_| !self.statements.is_empty()) {
            self.statements_mut().note_path(path);
        }
    }

    fn others(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(|(name, _)| !IDENTITY.contains(name))
    }
}

/// The most bytes of settings that follow a client. A client that has more keeps its server.
const SETTINGS_BYTES_MAX: usize = 64 * 1024;
/// The most settings that follow a client. A client that has more keeps its server.
const SETTINGS_MAX: usize = 1000;
/// Longer values are the first to be removed where there are too many settings.
const LONG_BYTES: usize = 64;
const DEFERRABLE: &str = "default_transaction_deferrable";
/// Begins a transaction of our own, also on a standby.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY NOT DEFERRABLE";

const IDLE_SESSION_TIMEOUT: &str = "idle_session_timeout";
/// The settings that act on a session that does nothing: PostgreSQL ends it, or its kernel ends the connection.
const ACTS_AT_REST: [&str; 6] = [
    IDLE_SESSION_TIMEOUT,
    "client_connection_check_interval",
    "tcp_keepalives_count",
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_user_timeout",
];

/// The timeouts of statements and transactions.
const HASTY: [&str; 2] = ["statement_timeout", "transaction_timeout"];
/// A shorter timeout may end before a server has executed what it is sent.
const HASTY_MILLIS: u64 = 1000;

/// Reads a time in a form that PostgreSQL prints and in which its unit is milliseconds (`GUC_UNIT_MS`); `None` for other
/// forms.
fn millis(value: &str) -> Option<u64> {
    let value = value.trim();
    let unit_at = value.find(|character: char| !character.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(unit_at);
    let millis = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis)
}

fn hash(name: &str, value: &str) -> u32 {
    hash_of((name, value)) as u32
}

/// No role has this name (`ERRCODE_SYNTAX_ERROR` in `parser/scan.l`: a delimited identifier has at least one character).
const NOBODY: &str = "";
/// The settings of a session's identity, in the order in which they must be set: a new session authorization drops the
/// role.
pub(super) const IDENTITY: [&str; 2] = ["session_authorization", "role"];

/// Removes all statements prepared by SQL.
pub fn without_statements(overrides: &mut Option<Rc<Overrides>>) {
    if let Some(some) = overrides.as_mut().filter(|some| !some.statements().is_empty()) {
        let some = Rc::make_mut(some);
        *some.statements_mut() = Statements::default();
        if some.is_empty() {
            *overrides = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statements::Statement;
    use super::*;

    fn overrides(values: &[(&str, &str)]) -> Overrides {
        let mut all = Overrides::default();
        values.iter().for_each(|(name, value)| all.set(name, value));
        all
    }

    fn changes(from: &[(&str, &str)], to: &[(&str, &str)]) -> String {
        overrides(from).changes_to(&overrides(to)).unwrap_or_default()
    }

    #[test]
    fn the_same_settings_have_the_same_fingerprint_however_they_came_to_be() {
        let (one, mut other) =
            (overrides(&[("a.b", "1"), ("x", "y")]), overrides(&[("x", "z"), ("q", "r"), ("x", "y")]));
        assert_ne!(one.fingerprint(), other.fingerprint());
        other.reset("q");
        other.reset("not.there");
        other.set("a.b", "1");
        assert_eq!((one.fingerprint(), &one), (other.fingerprint(), &other));
        assert_eq!(Overrides::from(Written::from(one.clone())), one, "it is what it was in another process");
        assert_eq!(Overrides::default().fingerprint(), 0);
        assert_eq!(overrides(&[("x", "y"), ("x", "z")]).fingerprint(), overrides(&[("x", "z")]).fingerprint());
    }

    #[test]
    fn what_is_more_than_follows_is_forgotten_but_for_who_the_session_is() {
        let with = |count: usize, value: &str| {
            let mut all = overrides(&[("role", "ann"), ("work_mem", "1MB")]);
            (0..count).for_each(|number| all.set(&format!("a.b{number:04}"), value));
            all
        };
        let names = |all: &Overrides| all.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert!(!with(998, "1").is_too_much());
        for (mut all, left) in [(with(999, "1"), vec!["role"]), (with(70, &"x".repeat(1000)), vec!["role", "work_mem"])]
        {
            all.statements_mut().insert("p", Statement { sql: "prepare p as select 1".into(), search_path: None });
            assert!(all.is_too_much());
            all.forget_most();
            assert_eq!((names(&all), all.is_too_much()), (left.into_iter().map(String::from).collect(), false));
            assert!(all.statements().is_empty());
            assert_eq!(Overrides::from(Written::from(all.clone())), all, "its fingerprint is that of what is left");
        }
        let mut all = Overrides::default();
        (0..300).for_each(|number| {
            let statement = Statement { sql: "A".into(), search_path: Some("p".repeat(1000).into()) };
            all.statements_mut().insert(&number.to_string(), statement);
        });
        assert!(all.is_too_much(), "the paths of statements count");
    }

    #[test]
    fn statements_are_part_of_what_a_session_has() {
        let (mut server, mut client) = (Overrides::default(), overrides(&[("a.b", "1")]));
        server.set("a.b", "1");
        let statement = Statement { sql: "prepare p as select 1".into(), search_path: None };
        client.statements_mut().insert("p", statement);
        assert_eq!((server.differences(&client), server.changes_to(&client)), (None, None));
        assert_eq!(server.preparations_to(&client, None).len(), 1);
        assert_ne!(server.fingerprint(), client.fingerprint());
        assert_eq!(Overrides::from(Written::from(client.clone())), client);
        client.forget_settings();
        assert!(!client.is_empty());
        client.statements_mut().remove("p");
        assert!(client.is_empty() && client.fingerprint() == 0);
    }

    #[test]
    fn only_what_decides_what_a_statement_means_is_part_of_its_dialect() {
        let plain = overrides(&[("a.b", "1"), ("work_mem", "1MB"), ("enable_seqscan", "off"), ("lock_timeout", "1s")]);
        let mut out = Vec::new();
        plain.write_dialect(&mut out);
        assert!(out.is_empty() && plain.reads_like(&Overrides::default()));
        for deciding in ["search_path", "role", "xmloption", "transform_null_equals", "timezone_abbreviations"] {
            let other = overrides(&[("a.b", "1"), (deciding, "x")]);
            other.write_dialect(&mut out);
            assert!(!out.is_empty() && !plain.reads_like(&other));
            assert_eq!(out, [deciding, "x"].map(|text| format!("{text}\0")).concat().as_bytes());
            out.clear();
        }
    }

    #[test]
    fn what_ends_others_statements_is_hasty() {
        for (value, expected) in [
            ("0", false),
            ("1", true),
            ("999ms", true),
            ("1000", false),
            ("1s", false),
            (" 2 min", false),
            ("0.5s", true),
            ("1us", true),
            ("99999999999999999999", true),
            ("", true),
        ] {
            assert_eq!(
                overrides(&[("statement_timeout", value), ("lock_timeout", "1")]).is_hasty(),
                expected,
                "{value}"
            );
        }
        let mut hasty = overrides(&[("statement_timeout", "1"), ("a.b", "1"), ("transaction_timeout", "5s")]);
        assert_eq!(hasty.calm(), "RESET statement_timeout;RESET transaction_timeout;");
        assert_eq!(hasty, overrides(&[("a.b", "1")]));
    }

    #[test]
    fn nothing_is_sent_where_both_agree() {
        assert_eq!(changes(&[], &[]), "");
        assert_eq!(changes(&[("app.tenant", "7"), ("role", "ann")], &[("app.tenant", "7"), ("role", "ann")]), "");
    }

    #[test]
    fn only_the_difference_is_sent() {
        let sql =
            changes(&[("a.b", "1"), ("work_mem", "4MB"), ("x", "y")], &[("a.b", "2"), ("x", "y"), ("z", "it's \\")]);
        assert_eq!(
            sql,
            "RESET \"work_mem\";SELECT pg_catalog.set_config('a.b','2',false),pg_catalog.set_config('z', E'it''s \\\\',false)"
        );
        assert_eq!(changes(&[("a.b", "1")], &[]), "RESET \"a\".\"b\";");
    }

    #[test]
    fn what_differs_can_be_told_one_by_one_unless_it_is_who_it_is() {
        let (server, client) = (overrides(&[("a.b", "1"), ("x", "y")]), overrides(&[("a.b", "2"), ("z", "")]));
        assert_eq!(server.differences(&client), Some(vec![("x", None), ("a.b", Some("2")), ("z", Some(""))]));
        assert_eq!(client.differences(&client), Some(vec![]));
    }

    /// A role comes last; other settings are set with the rights of the user that the pool logs in as.
    #[test]
    fn a_role_goes_along_and_a_session_authorization_does_not() {
        let ann = ("role", "ann");
        for (from, to, expected) in [
            (&[][..], &[ann][..], &[("role", Some("ann"))][..]),
            (&[ann], &[], &[("role", None)]),
            (&[ann], &[ann], &[]),
            (&[("role", NOBODY)], &[ann], &[("role", Some("ann"))]),
            (&[ann], &[ann, ("x", "1")], &[("role", None), ("x", Some("1")), ("role", Some("ann"))]),
            (&[ann, ("x", "1")], &[], &[("role", None), ("x", None)]),
        ] {
            assert_eq!(overrides(from).differences(&overrides(to)).as_deref(), Some(expected), "{from:?} to {to:?}");
        }
        for of_session in [("session_authorization", "ann"), ("default_transaction_deferrable", "on")] {
            assert_eq!(overrides(&[of_session]).differences(&overrides(&[])), None);
        }
        assert_eq!(overrides(&[]).differences(&overrides(&[("session_authorization", "ann")])), None);
    }

    /// Otherwise the SQL might wait for serializable transactions of others.
    #[test]
    fn a_server_whose_transactions_are_deferrable_is_changed_in_a_transaction_that_is_not() {
        assert_eq!(
            changes(&[("default_transaction_deferrable", "on"), ("x", "y")], &[("x", "z")]),
            format!(
                "{BEGIN};RESET \"default_transaction_deferrable\";SELECT pg_catalog.set_config('x','z',false);COMMIT"
            )
        );
        let set_only = changes(&[], &[("default_transaction_deferrable", "on")]);
        assert!(!set_only.contains("BEGIN"), "{set_only}");
    }

    #[test]
    fn a_server_that_is_somebody_else_becomes_itself_first() {
        assert_eq!(
            changes(&[("role", "ann"), ("a.b", "1")], &[("role", "bob")]),
            "RESET SESSION AUTHORIZATION;RESET ROLE;RESET \"a\".\"b\";SELECT pg_catalog.set_config('role','bob',false)"
        );
        // The role is the same, but other settings are set with the rights of the user that the pool logs in as.
        assert_eq!(
            changes(&[("role", "ann")], &[("role", "ann"), ("a.b", "1")]),
            "RESET SESSION AUTHORIZATION;RESET ROLE;SELECT pg_catalog.set_config('a.b','1',false),\
             pg_catalog.set_config('role','ann',false)"
        );
        assert_eq!(changes(&[("role", "ann")], &[]), "RESET SESSION AUTHORIZATION;RESET ROLE;");
        assert_eq!(
            changes(&[], &[("role", "ann"), ("session_authorization", "bob")]),
            "SELECT pg_catalog.set_config('session_authorization','bob',false),pg_catalog.set_config('role','ann',false)"
        );
    }
}
