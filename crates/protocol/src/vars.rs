//! The parameters that servers report, of which most follow a client from server to server.
//!
//! Always true: a parameter is set on a server only if servers report it; values are compared in PostgreSQL's spelling; no
//! value can break out of its literal in the SQL that sets it on a server.
//! Not here: when values are set (`worker::data::catch_up`); the settings of a client whose session state follows it, which
//! include some of these parameters (`state::overrides`).

use std::fmt::{self, Write as _};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::spelling;

/// Which parameters servers report, in the order in which a client is sent their `ParameterStatus`: first those that are
/// followed as parameters in any case, then the others that can be set, then those that only a server itself changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracked {
    names: Box<[Box<str>]>,
    /// The number of those that are followed as parameters in any case.
    followed: usize,
    /// The number of those that a startup packet may set.
    startup: usize,
    /// The number of those that can be set.
    settable: usize,
    /// The index of `default_transaction_read_only`.
    read_only: usize,
}

impl Tracked {
    /// The parameters that PgBouncer follows and those of `track_extra_parameters`, each once, and all others that
    /// PostgreSQL reports.
    pub fn new<'a>(extra: impl IntoIterator<Item = &'a str>) -> Self {
        fn add<'a>(names: &mut Vec<Box<str>>, more: impl IntoIterator<Item = &'a str>) -> usize {
            for name in more {
                if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                    names.push(name.into());
                }
            }
            names.len()
        }
        let mut names = Vec::new();
        add(&mut names, ALWAYS);
        add(&mut names, [INTERVAL_STYLE]);
        let followed = add(&mut names, extra);
        let startup = add(&mut names, SETTABLE);
        let settable = add(&mut names, [SESSION_USER]);
        add(&mut names, OF_SERVER);
        let read_only = names.iter().position(|name| name.eq_ignore_ascii_case(READ_ONLY));
        let read_only = read_only.expect("it is one of those that can be set");
        Self { names: names.into(), followed, startup, settable, read_only }
    }

    /// The index of `default_transaction_read_only`, with which every transaction of a session only reads.
    #[must_use]
    pub fn read_only_place(&self) -> usize {
        self.read_only
    }

    /// The index of a parameter that is followed as one in any case; the case of its name does not matter.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// The index of a parameter that servers may report.
    #[must_use]
    pub fn reported_place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// The index of a parameter that servers may report and clients may set in their startup packets.
    #[must_use]
    pub fn startup_place(&self, name: &str) -> Option<usize> {
        self.reported_place(name).filter(|place| self.is_of_startup(*place))
    }

    /// The names of those that are followed as parameters in any case, in order of their index.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.reported_names().take(self.followed)
    }

    /// Whether a startup packet may set the parameter at this index.
    #[must_use]
    pub fn is_of_startup(&self, place: usize) -> bool {
        place < self.startup
    }

    /// The index and name of each that a startup packet may set.
    pub fn startup_names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.reported_names().enumerate().take(self.startup)
    }

    /// The names of all that servers may report, in order of their index.
    pub fn reported_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Whether the parameter at this index is followed as one in any case.
    #[must_use]
    pub fn is_followed(&self, place: usize) -> bool {
        place < self.followed
    }

    /// Whether a client decides on the parameter at this index: it can be set, or the role decides it.
    #[must_use]
    pub fn is_of_session(&self, place: usize) -> bool {
        place < self.settable || &*self.names[place] == SUPERUSER
    }

    /// How many parameters, from the first on, a server is given as its client has them. Where all session state
    /// follows the client, the others that can be set are settings like any that servers do not report.
    fn applied(&self, follows: bool) -> usize {
        if follows { self.followed } else { self.settable }
    }

    /// The index of `application_name`.
    #[must_use]
    pub fn application_name(&self) -> usize {
        ALWAYS.len() - 1
    }
}

/// The parameter values of a client or of a server; `None` where a value was never reported.
#[derive(Clone, Eq, Debug, Default)]
pub struct Vars {
    values: Box<[Option<Arc<str>>]>,
}

impl PartialEq for Vars {
    fn eq(&self, other: &Self) -> bool {
        self.values.len() == other.values.len()
            && self.values.iter().zip(&other.values).all(|(mine, theirs)| is_same(mine, theirs))
    }
}

/// Whether two values are equal. Most are shared by all sets that have them.
fn is_same(mine: &Option<Arc<str>>, theirs: &Option<Arc<str>>) -> bool {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs) || mine == theirs,
        (mine, theirs) => mine.is_none() && theirs.is_none(),
    }
}

/// Parameter sets shared by sessions with equal values, each stored once.
#[derive(Debug, Default)]
pub struct Known {
    sets: Vec<Weak<Vars>>,
}

impl Known {
    /// Returns the shared set that has this value at this index of [`Tracked`], and otherwise equals `vars`.
    pub fn with(&mut self, vars: &Vars, place: usize, value: &str) -> Rc<Vars> {
        let is_wanted = |known: &Rc<Vars>| {
            let mut all = known.values.iter().zip(&vars.values).enumerate();
            known.get(place) == Some(value) && all.all(|(at, (theirs, ours))| at == place || is_same(theirs, ours))
        };
        if let Some(known) = self.sets.iter().filter_map(Weak::upgrade).find(is_wanted) {
            return known;
        }
        let mut changed = vars.clone();
        changed.set(place, value);
        self.add(changed)
    }

    /// Returns the shared set that equals `vars`.
    pub fn share(&mut self, vars: Vars) -> Rc<Vars> {
        if let Some(known) = self.sets.iter().filter_map(Weak::upgrade).find(|known| **known == vars) {
            return known;
        }
        self.add(vars)
    }

    fn add(&mut self, vars: Vars) -> Rc<Vars> {
        let vars = Rc::new(vars);
        self.sets.retain(|known| known.strong_count() > 0);
        if self.sets.len() < KNOWN_MAX {
            self.sets.push(Rc::downgrade(&vars));
        }
        vars
    }
}

/// How many different sets are searched before a new one is made.
const KNOWN_MAX: usize = 32;

impl Vars {
    /// A set in which no value is known.
    #[must_use]
    pub fn new(tracked: &Tracked) -> Self {
        Self { values: vec![None; tracked.names.len()].into() }
    }

    /// The value at this index of [`Tracked`].
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&str> {
        self.values.get(place)?.as_deref()
    }

    /// Whether another set has the same value at this index, or neither has one.
    #[must_use]
    pub fn has_same(&self, other: &Self, place: usize) -> bool {
        match (self.values.get(place), other.values.get(place)) {
            (Some(mine), Some(theirs)) => is_same(mine, theirs),
            (mine, theirs) => mine.is_none() && theirs.is_none(),
        }
    }

    /// Sets the value at this index; returns whether it has changed.
    pub fn set(&mut self, place: usize, value: &str) -> bool {
        match self.values.get_mut(place) {
            Some(old) if old.as_deref() != Some(value) => {
                *old = Some(value.into());
                true
            }
            _ => false,
        }
    }

    /// This set with each parameter that was reset (`was_reset`) at the value with which the client's session began; the
    /// server itself has gone back to the value with which *its* session began. `None` if nothing changes.
    #[must_use]
    pub fn reset(&self, initial: &Self, tracked: &Tracked, was_reset: impl Fn(&str) -> bool) -> Option<Self> {
        let mut vars = None;
        for (place, name) in tracked.startup_names() {
            if let Some(value) = initial.get(place).filter(|value| self.get(place) != Some(value))
                && was_reset(name)
            {
                vars.get_or_insert_with(|| self.clone()).set(place, value);
            }
        }
        vars
    }

    /// Spells what a startup packet says as a server will report it, where its sessions begin with `other`.
    pub fn spell_like(&mut self, other: &Self, tracked: &Tracked) {
        let Some(place) = tracked.place(DATE_STYLE) else { return };
        let spelled = match (self.get(place), other.get(place)) {
            (Some(written), Some(default)) => spelling::date_style(written, default),
            _ => None,
        };
        if let Some(spelled) = spelled {
            self.set(place, &spelled);
        }
    }

    /// Takes from `server` the values that are not known here, and forgets those that it does not report. Returns whether the
    /// two are equal now.
    pub fn complete_from(&mut self, server: &Self) -> bool {
        let mut are_equal = self.values.len() == server.values.len();
        for (mine, theirs) in self.values.iter_mut().zip(&server.values) {
            match (&*mine, theirs) {
                (Some(_), Some(_)) => are_equal &= is_same(mine, theirs),
                _ => mine.clone_from(theirs),
            }
        }
        are_equal
    }

    /// Takes from `server` the values that it reports, of those that it was given: after the server has accepted our
    /// settings, its spelling is the right one.
    pub fn respell(&mut self, server: &Self, tracked: &Tracked, follows: bool) {
        for (mine, theirs) in self.values.iter_mut().zip(&server.values).take(tracked.applied(follows)) {
            if theirs.is_some() {
                mine.clone_from(theirs);
            }
        }
    }

    /// This set with what only a server itself changes as `server` has it: its version, whether it is a standby. If session
    /// state does not `follow` the client, that includes whether the user is a superuser. `None` if nothing differs.
    #[must_use]
    pub fn with_those_of_server(&self, server: &Self, tracked: &Tracked, follows: bool) -> Option<Self> {
        let mut vars = None;
        for (place, name) in tracked.reported_names().enumerate().skip(tracked.settable) {
            if let Some(value) = server.get(place).filter(|value| self.get(place) != Some(value))
                && (!follows || name != SUPERUSER)
            {
                vars.get_or_insert_with(|| self.clone()).set(place, value);
            }
        }
        vars
    }

    /// What [`Vars::respell`] would change: the name, our value, and the server's value.
    pub fn respellings<'a>(
        &'a self,
        server: &'a Self,
        tracked: &'a Tracked,
        follows: bool,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        let values = tracked.names.iter().zip(&self.values).zip(&server.values);
        values.take(tracked.applied(follows)).filter_map(|((name, mine), theirs)| match (mine, theirs) {
            (Some(mine), Some(theirs)) if mine != theirs => Some((&**name, &**mine, &**theirs)),
            _ => None,
        })
    }

    /// The index, name, and value of each parameter that is not followed as one in any case, and that a client has otherwise.
    pub fn unlike<'a>(
        &'a self,
        client: &'a Self,
        tracked: &'a Tracked,
    ) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
        let all = tracked.reported_names().enumerate().skip(tracked.followed);
        all.filter_map(|(place, name)| Some((place, name, self.get(place)?)))
            .filter(|(place, _, value)| client.get(*place) != Some(value))
    }

    /// Whether a server reports this parameter, which is followed as one.
    #[must_use]
    pub fn reports(&self, tracked: &Tracked, name: &str) -> bool {
        tracked.place(name).is_some_and(|place| self.get(place).is_some())
    }

    /// The `search_path`, where servers report it, as from PostgreSQL 18 on.
    #[must_use]
    pub fn search_path(&self, tracked: &Tracked) -> Option<&str> {
        self.get(tracked.place("search_path")?)
    }

    /// The queries that give a server with the values `self` the values of `client`; none where they agree. A parameter
    /// that the server does not report is left alone. The encoding is set first and in a query of its own, so that the
    /// server reads what follows in the new client's encoding and not in the previous client's. `follows`: all session
    /// state follows the client.
    #[must_use]
    pub fn catch_up(&self, client: &Self, tracked: &Tracked, follows: bool) -> Vec<String> {
        let (mut encoding, mut sql) = (String::new(), String::new());
        let all = tracked.names.iter().zip(&self.values).zip(&client.values);
        for ((name, mine), theirs) in all.take(tracked.applied(follows)) {
            let (Some(mine), Some(theirs)) = (mine, theirs) else { continue };
            // PgBouncer ignores case here. But `Shop` is not `shop` in an application_name or a search_path. A client
            // that spells a value differently from its server is sent the server's spelling, so this costs it one SET.
            if mine == theirs {
                continue;
            }
            let sql = if name.eq_ignore_ascii_case("client_encoding") { &mut encoding } else { &mut sql };
            // SET would take a quoted list such as a search_path for one name, and SET accepts no expression.
            let is_call = name.eq_ignore_ascii_case("search_path") || !theirs.is_ascii();
            let value = Literal(theirs);
            let _ = match is_call {
                true => write!(sql, "SELECT pg_catalog.set_config('{name}', {value}, false);"),
                false => write!(sql, "SET {name}={value};"),
            };
        }
        [encoding, sql].into_iter().filter(|sql| !sql.is_empty()).collect()
    }

    /// The indexes of the parameters that [`catch_up`](Self::catch_up) sets.
    pub fn set_by_catch_up<'a>(
        &'a self,
        client: &'a Self,
        tracked: &Tracked,
        follows: bool,
    ) -> impl Iterator<Item = usize> + 'a {
        let both = self.values.iter().zip(&client.values).take(tracked.applied(follows)).enumerate();
        both.filter(|(_, (mine, theirs))| mine.is_some() && theirs.is_some() && mine != theirs).map(|(place, _)| place)
    }

    /// Whether a server with these values has those of this client, as far as it is given them.
    #[must_use]
    pub fn has_those_of(&self, client: &Self, tracked: &Tracked, follows: bool) -> bool {
        self.values
            .iter()
            .zip(&client.values)
            .take(tracked.applied(follows))
            .all(|(mine, theirs)| is_same(mine, theirs))
    }

    /// Whether both sets make PostgreSQL read a statement's text alike: of what decides that they differ in
    /// `application_name` at most.
    #[must_use]
    pub fn read_alike(&self, other: &Self, tracked: &Tracked) -> bool {
        self.agrees(other, tracked, tracked.followed)
    }

    /// Whether both sets agree in all that can be set, but for `application_name`.
    #[must_use]
    pub fn differ_in_name_only(&self, other: &Self, tracked: &Tracked) -> bool {
        self.agrees(other, tracked, tracked.settable)
    }

    /// Whether both sets have the same among this many of their first values, but for `application_name`.
    fn agrees(&self, other: &Self, tracked: &Tracked, count: usize) -> bool {
        let pairs = self.values.iter().zip(&other.values).take(count).enumerate();
        pairs.filter(|(place, _)| *place != tracked.application_name()).all(|(_, (mine, theirs))| is_same(mine, theirs))
    }

    /// This set with the `application_name` of another.
    #[must_use]
    pub fn named_as(self: &Rc<Self>, other: &Rc<Self>, tracked: &Tracked) -> Rc<Self> {
        if self.agrees(other, tracked, tracked.names.len()) {
            return other.clone();
        }
        let (mut vars, place) = ((**self).clone(), tracked.application_name());
        vars.values[place].clone_from(&other.values[place]);
        Rc::new(vars)
    }

    /// The values that decide how the text of a statement is read: all but `application_name`. The first four bytes are
    /// the length of the rest.
    #[must_use]
    pub fn dialect(&self, tracked: &Tracked) -> Vec<u8> {
        let values = self.values.iter().take(tracked.followed).enumerate();
        let values = values.filter(|(place, _)| *place != tracked.application_name());
        written_dialect(values.map(|(_, value)| value.as_deref().unwrap_or_default().as_bytes()))
    }

    /// The name and value of each parameter whose value is known.
    pub fn known<'a>(&'a self, tracked: &'a Tracked) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = tracked.names.iter().zip(&self.values);
        pairs.filter_map(|(name, value)| Some((&**name, value.as_deref()?)))
    }
}

/// The values, each with a zero byte, behind their length.
fn written_dialect<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut dialect = vec![0; size_of::<u32>()];
    for value in values {
        dialect.extend_from_slice(value);
        dialect.push(0);
    }
    let length = (dialect.len() - size_of::<u32>()) as u32;
    dialect[..size_of::<u32>()].copy_from_slice(&length.to_be_bytes());
    dialect
}

/// Splits a dialect into what [`Vars::dialect`] has written and what has been appended to it; `None` if the bytes are
/// malformed.
#[must_use]
pub fn split_dialect(dialect: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = dialect.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// The dialect `now` with `client_encoding` and `standard_conforming_strings` of `given`; `None` if the two agree in
/// these.
#[must_use]
pub fn spelled_like(given: &[u8], now: &[u8]) -> Option<Vec<u8>> {
    let values = |dialect| split_dialect(dialect).map(|(values, _)| values.split(|&byte| byte == 0));
    let pairs = values(given)?.zip(values(now)?).enumerate().take(values(now)?.count() - 1);
    let spelled = pairs.map(|(place, (given, now))| if SPELLING.contains(&place) { given } else { now });
    let mut mixed = written_dialect(spelled);
    mixed.extend_from_slice(split_dialect(now)?.1);
    (mixed != now).then_some(mixed)
}

/// The commands, one statement each, that change a session from one dialect to another. `None` if they cannot be
/// determined.
#[must_use]
pub fn changes_of_dialect(from: &[u8], to: &[u8], tracked: &Tracked) -> Option<Vec<String>> {
    let values = |dialect| {
        let (values, _) = split_dialect(dialect)?;
        values.strip_suffix(&[0]).map(|values| values.split(|&byte| byte == 0).collect::<Vec<_>>())
    };
    let (from, to) = (values(from)?, values(to)?);
    let names = || tracked.names().enumerate().filter(|(place, _)| *place != tracked.application_name());
    if from.len() != to.len() || from.len() != names().count() {
        return None;
    }
    let mut commands = Vec::new();
    for ((_, name), (before, after)) in names().zip(from.into_iter().zip(to)) {
        if before == after {
            continue;
        }
        // SET would take a quoted list such as a search_path for one name, and SET accepts no expression.
        let after = std::str::from_utf8(after).ok().filter(|value| value.is_ascii() && !value.is_empty())?;
        commands.push((name != "search_path").then(|| format!("SET {name}={}", Literal(after)))?);
    }
    Some(commands)
}

/// A string literal that means this text whatever `standard_conforming_strings` says. Text beyond ASCII becomes an
/// expression in pure ASCII, since in some client encodings (SJIS, BIG5, GBK) a byte of a letter may be a backslash or a
/// quote. Zero bytes are left out.
pub(crate) struct Literal<'a>(pub(crate) &'a str);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, sql: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        if !rest.is_ascii() {
            sql.write_str("pg_catalog.convert_from(pg_catalog.decode('")?;
            rest.bytes().filter(|&byte| byte != 0).try_for_each(|byte| write!(sql, "{byte:02x}"))?;
            return sql.write_str("','hex'),'UTF8')");
        }
        sql.write_str(if rest.contains('\\') { " E'" } else { "'" })?;
        while let Some(at) = rest.find(['\'', '\\', '\0']) {
            sql.write_str(&rest[..at])?;
            sql.write_str(match rest.as_bytes()[at] {
                b'\'' => "''",
                b'\\' => "\\\\",
                _ => "",
            })?;
            rest = &rest[at + 1..];
        }
        sql.write_str(rest)?;
        sql.write_str("'")
    }
}

/// The parameter with which every transaction of a session only reads, unless it asks for something else.
pub const READ_ONLY: &str = "default_transaction_read_only";
/// The other parameters that PostgreSQL reports and clients may set, up to version 18. `search_path` decides nothing about
/// how a text is read: the names in a prepared statement are resolved again when it has changed.
const SETTABLE: [&str; 3] = [READ_ONLY, "scram_iterations", "search_path"];
/// It decides how literals are read, so that it is followed as a parameter even where `track_extra_parameters` lacks it.
pub(crate) const INTERVAL_STYLE: &str = "IntervalStyle";
const DATE_STYLE: &str = "DateStyle";
/// The one that a startup packet cannot set.
const SESSION_USER: &str = "session_authorization";
/// The parameters that PostgreSQL reports and that only a server itself changes.
const OF_SERVER: [&str; 5] = [SUPERUSER, "in_hot_standby", "server_version", "server_encoding", "integer_datetimes"];
const SUPERUSER: &str = "is_superuser";

/// Whether servers report changes of this parameter (`ParameterStatus`), and clients are always followed in it.
#[must_use]
pub fn is_told(name: &str) -> bool {
    ALWAYS.iter().any(|told| told.eq_ignore_ascii_case(name))
}

/// The parameters that PgBouncer always follows, in the order in which it reports them to a client. `application_name` is
/// the last.
const ALWAYS: [&str; 5] =
    [DATE_STYLE, "client_encoding", "TimeZone", "standard_conforming_strings", "application_name"];
/// Indexes of the parameters that decide where a string literal ends and how its bytes are decoded.
const SPELLING: [usize; 2] = [1, 3];

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked() -> Tracked {
        Tracked::new(["IntervalStyle", "timezone"])
    }

    fn vars(values: &[(&str, &str)]) -> Vars {
        let tracked = tracked();
        let mut vars = Vars::new(&tracked);
        for (name, value) in values {
            vars.set(tracked.reported_place(name).expect("a tracked name"), value);
        }
        vars
    }

    #[test]
    fn what_was_reset_is_what_the_session_began_with() {
        let initial = vars(&[("DateStyle", "Postgres, MDY"), ("TimeZone", "UTC")]);
        let now = vars(&[("DateStyle", "ISO, MDY"), ("TimeZone", "Asia/Tokyo"), ("client_encoding", "UTF8")]);
        let reset = now.reset(&initial, &tracked(), |name| name == "DateStyle").expect("a change");
        assert_eq!(
            reset,
            vars(&[("DateStyle", "Postgres, MDY"), ("TimeZone", "Asia/Tokyo"), ("client_encoding", "UTF8")])
        );
        assert_eq!(now.reset(&initial, &tracked(), |_| false), None);
        assert_eq!(initial.reset(&initial, &tracked(), |_| true), None);
    }

    #[test]
    fn where_all_state_follows_what_is_not_tracked_is_a_setting() {
        let server = vars(&[("search_path", "a"), ("session_authorization", "ann"), ("is_superuser", "on")]);
        let client = vars(&[("search_path", "b"), ("session_authorization", "bob"), ("is_superuser", "off")]);
        assert!(
            server.catch_up(&client, &tracked(), true).is_empty() && server.has_those_of(&client, &tracked(), true)
        );
        let expected = "SELECT pg_catalog.set_config('search_path', 'b', false);SET session_authorization='bob';";
        assert_eq!(server.catch_up(&client, &tracked(), false), [expected]);
        assert!(!server.has_those_of(&client, &tracked(), false));
        assert!(server.read_alike(&client, &tracked()) && !server.differ_in_name_only(&client, &tracked()));
    }

    #[test]
    fn a_client_is_told_what_only_servers_change() {
        let server = vars(&[("server_version", "17.2"), ("is_superuser", "off"), ("TimeZone", "UTC")]);
        let client = vars(&[("server_version", "16.4"), ("is_superuser", "on"), ("TimeZone", "GMT")]);
        let of = |vars: &Vars, follows| vars.with_those_of_server(&server, &tracked(), follows);
        let told = of(&client, true).expect("another version");
        assert_eq!(told, vars(&[("server_version", "17.2"), ("is_superuser", "on"), ("TimeZone", "GMT")]));
        assert_eq!(of(&told, true), None);
        let told = of(&told, false).expect("another user");
        assert_eq!(told, vars(&[("server_version", "17.2"), ("is_superuser", "off"), ("TimeZone", "GMT")]));
    }

    #[test]
    fn what_a_server_does_not_report_is_not_told() {
        let mut client = vars(&[("search_path", "zz"), ("TimeZone", "UTC")]);
        let server = vars(&[("TimeZone", "GMT")]);
        assert!(!client.complete_from(&server));
        assert_eq!(client, vars(&[("TimeZone", "UTC")]));
        for mut client in [vars(&[("search_path", "zz"), ("TimeZone", "GMT")]), vars(&[])] {
            assert!(client.complete_from(&server) && client == server);
        }
    }

    #[test]
    fn a_parameter_named_twice_is_followed_once() {
        assert_eq!(tracked().names().count(), 6);
        assert_eq!(tracked().place("INTERVALSTYLE"), Some(5));
    }

    #[test]
    fn only_what_differs_is_set_and_only_what_is_reported() {
        let server = vars(&[("DateStyle", "ISO, MDY"), ("TimeZone", "UTC"), ("client_encoding", "UTF8")]);
        let client = vars(&[("DateStyle", "ISO, MDY"), ("TimeZone", "Asia/Tokyo"), ("IntervalStyle", "iso_8601")]);
        assert_eq!(server.catch_up(&client, &tracked(), true), ["SET TimeZone='Asia/Tokyo';"]);
        assert!(server.catch_up(&server, &tracked(), true).is_empty());
    }

    /// Found by random programs: a client named `shop` was served under the name of another, `Shop`.
    #[test]
    fn what_differs_in_case_differs() {
        let (server, client) = (vars(&[("application_name", "Shop")]), vars(&[("application_name", "shop")]));
        assert_eq!(server.catch_up(&client, &tracked(), true), ["SET application_name='shop';"]);
    }

    #[test]
    fn no_value_leaves_its_quotes() {
        let server = vars(&[("application_name", "")]);
        let client = vars(&[("application_name", "x'; drop table t; --")]);
        assert_eq!(server.catch_up(&client, &tracked(), true), ["SET application_name='x''; drop table t; --';"]);
        let client = vars(&[("application_name", r"\'; drop table t; --")]);
        assert_eq!(server.catch_up(&client, &tracked(), true), [r"SET application_name= E'\\''; drop table t; --';"]);
    }

    /// Found by SJIS, where the last byte of a letter may be a backslash.
    #[test]
    fn the_encoding_comes_alone_and_first_and_nothing_is_beyond_ascii() {
        let server = vars(&[("client_encoding", "LATIN1"), ("application_name", ""), ("TimeZone", "UTC")]);
        let client = vars(&[("client_encoding", "SJIS"), ("application_name", "ぃ\\''"), ("TimeZone", "GMT")]);
        assert_eq!(
            server.catch_up(&client, &tracked(), true),
            [
                "SET client_encoding='SJIS';",
                "SET TimeZone='GMT';SELECT pg_catalog.set_config('application_name', \
                 pg_catalog.convert_from(pg_catalog.decode('e381835c2727','hex'),'UTF8'), false);"
            ]
        );
    }

    #[test]
    fn only_a_change_is_one() {
        let tracked = tracked();
        let place = tracked.application_name();
        let mut vars = Vars::new(&tracked);
        assert_eq!(tracked.place("application_name"), Some(place));
        assert!(vars.set(place, "till") && !vars.set(place, "till") && vars.set(place, "Till"));
        assert!(!vars.set(99, "nowhere"));
        assert_eq!((vars.get(place), vars.get(99)), (Some("Till"), None));
    }

    #[test]
    fn a_client_is_told_its_own_values_and_the_servers_for_the_rest() {
        let mut client = vars(&[("TimeZone", "UTC")]);
        assert!(!client.complete_from(&vars(&[("TimeZone", "Asia/Tokyo"), ("DateStyle", "ISO, MDY")])));
        let tracked = tracked();
        assert_eq!(client.known(&tracked).collect::<Vec<_>>(), [("DateStyle", "ISO, MDY"), ("TimeZone", "UTC")]);
    }

    #[test]
    fn a_search_path_is_set_as_a_list() {
        let tracked = Tracked::new(["search_path"]);
        let place = tracked.place("search_path").expect("tracked");
        let (mut server, mut client) = (Vars::new(&tracked), Vars::new(&tracked));
        server.set(place, "public");
        client.set(place, "\"$user\", shop");
        let expected = "SELECT pg_catalog.set_config('search_path', '\"$user\", shop', false);";
        assert_eq!(server.catch_up(&client, &tracked, true), [expected]);
    }

    #[test]
    fn a_client_takes_the_spelling_of_its_server() {
        let mut client = vars(&[("DateStyle", "german"), ("IntervalStyle", "iso_8601"), ("TimeZone", "UTC")]);
        let server = vars(&[("DateStyle", "German, DMY"), ("TimeZone", "UTC")]);
        let tracked = tracked();
        let told: Vec<_> = client.respellings(&server, &tracked, true).collect();
        assert_eq!(told, [("DateStyle", "german", "German, DMY")]);
        client.respell(&server, &tracked, true);
        let expected = vars(&[("DateStyle", "German, DMY"), ("IntervalStyle", "iso_8601"), ("TimeZone", "UTC")]);
        assert_eq!(client, expected);
    }
}
