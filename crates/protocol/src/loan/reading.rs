//! Reads what clients send, where session state follows them (`session_state`): what it may touch, and what is refused.
//!
//! Always true: every message of a client is read before the server has it, whole or in parts; a message that cannot be
//! read may touch anything.
//! Not here: what a text touches (crate `route`), and what is done about it (`worker::data::probe`).

use std::ffi::CStr;
use std::rc::Rc;

use base::Time;
use route::{Cache, Class, Dialect, DirtyState, Encoding, condense};
use wire::frame::Part;
use wire::{Piece, frontend, write};

use super::client_session::ClientSession;
use super::statements::may_be_by_sql;
use crate::planted::is_read_from;
use crate::prepared::{Account, Charge, StatementRegistry, cut};
use crate::state::{FunctionCatalog, Kind, PinRules, Policy, SessionEffects, Unseen, is_ours};
use crate::vars::{Tracked, Vars};

/// The part of a message that has arrived, where the beginning is not enough to read it.
#[derive(Debug)]
pub struct Torn {
    bytes: Vec<u8>,
    charge: Charge,
    /// The length at which string literals are left out of it.
    condense_at: usize,
    is_condensed: bool,
}

impl Torn {
    fn new(account: &Account, statement_registry: &mut StatementRegistry, body: &[u8]) -> Option<Box<Self>> {
        let charge = statement_registry.charge(account, body.len()).ok()?;
        Some(Box::new(Self { bytes: body.into(), charge, condense_at: TORN_BYTES_FEW, is_condensed: false }))
    }

    /// Appends a part. Returns false if it cannot be kept. To leave out string literals all of it has to be scanned,
    /// which is done when it is twice as long as after the last scan.
    fn push(&mut self, kind: u8, body: &[u8], dialect: Dialect) -> bool {
        if self.charge.grow(body.len()).is_err() {
            return false;
        }
        self.bytes.extend_from_slice(body);
        let length = self.bytes.len();
        if length < self.condense_at {
            return true;
        }
        let text_at = if kind == frontend::PARSE { name(&self.bytes).map(|name| name.len() + 1) } else { Some(0) };
        if let Some(at) = text_at
            && matches!(kind, frontend::QUERY | frontend::PARSE)
            && !self.bytes[at..].contains(&0)
        {
            let mut text = self.bytes.split_off(at);
            condense(&mut text, dialect);
            self.bytes.append(&mut text);
            self.charge.shrink_to(self.bytes.len());
            self.is_condensed = true;
        }
        let left = self.bytes.len();
        self.condense_at = (2 * left).clamp(TORN_BYTES_FEW, TORN_BYTES_MAX);
        length < TORN_BYTES_MAX || left <= TORN_BYTES_MAX / 2
    }
}

/// The texts that have been classified, and the dialect of the last client's texts.
#[derive(Debug, Default)]
pub struct Texts {
    cache: Cache,
    /// Most clients have equal parameters, and then share them.
    last: Option<(Rc<Vars>, Dialect)>,
}

impl Texts {
    /// Forgets the dialect, because other parameters are tracked now.
    pub fn forget_parameters(&mut self) {
        self.last = None;
    }

    /// Returns the class of a text that a client with these parameters sends.
    pub fn class(
        &mut self,
        text: &[u8],
        vars: &Rc<Vars>,
        tracked: &Tracked,
        function_catalog: &FunctionCatalog,
    ) -> Rc<Class> {
        let dialect = self.dialect(vars, tracked);
        self.cache.class(text, dialect, function_catalog.scope(), function_catalog.knowledge())
    }

    /// Returns how texts of a client with these parameters are read.
    pub fn dialect(&mut self, vars: &Rc<Vars>, tracked: &Tracked) -> Dialect {
        if let Some((last, dialect)) = &self.last
            && Rc::ptr_eq(last, vars)
        {
            return *dialect;
        }
        let value = |name| tracked.place(name).and_then(|place| vars.get(place));
        let dialect = Dialect {
            encoding: value("client_encoding").map_or(Encoding::Safe, Encoding::of),
            backslashes: value("standard_conforming_strings") == Some("off"),
        };
        self.last = Some((vars.clone(), dialect));
        dialect
    }
}

/// Reads the messages of one client.
pub(super) struct Reading<'a> {
    texts: &'a mut Cache,
    function_catalog: &'a mut FunctionCatalog,
    /// The last scope number.
    scopes: &'a mut u32,
    /// Whether a message has created functions, or objects that call functions.
    pub(super) makes_functions: bool,
    /// The user that the servers are logged in as.
    user: u32,
    dialect: Dialect,
    now: Time,
    /// The class of the last message, or of the statement that it binds, if it mentions names of prepared statements.
    pub(super) says_names: Option<Rc<Class>>,
    /// The custom settings (names with a dot) that were mentioned so far where something may have been set
    /// (`pool::Fingerprint::placeholders`).
    pub(super) placeholders: u64,
}

impl<'a> Reading<'a> {
    /// `function_catalog` is what is known of the database, `user` the user of its servers, `unseen` what is done about
    /// functions that are not known, and `scopes` the last scope number.
    pub(super) fn new(
        texts: &'a mut Texts,
        (function_catalog, user, unseen, scopes): (&'a mut FunctionCatalog, u32, Unseen, &'a mut u32),
        client: &ClientSession,
        tracked: &Tracked,
        now: Time,
    ) -> Self {
        function_catalog.trust(unseen == Unseen::Ignore, scopes);
        function_catalog.forget_old(now, scopes);
        let dialect = texts.dialect(&client.vars, tracked);
        let texts = &mut texts.cache;
        Self {
            texts,
            function_catalog,
            scopes,
            makes_functions: false,
            user,
            dialect,
            now,
            says_names: None,
            placeholders: 0,
        }
    }

    /// Notes that there may be functions that no server has been asked for, if the text may create some.
    fn note_functions(&mut self, class: &Class) {
        if class.touches.has(DirtyState::MAKINGS) {
            self.may_make_functions();
        }
    }

    fn may_make_functions(&mut self) {
        self.makes_functions = true;
        self.function_catalog.functions_created(self.scopes);
    }

    fn note_names(&mut self, class: &Rc<Class>) {
        if !class.statements.is_empty() {
            self.says_names = Some(class.clone());
        }
    }

    /// Notes that a program of this user asks for sequence values that it has drawn in an earlier transaction.
    pub(super) fn note_asker(&mut self, user: u32) {
        self.function_catalog.note_asker(user);
    }

    /// Returns the replacement for a message that plainly takes what these rules reject: a message that fails on the
    /// server with our error text, in whatever transaction or pipeline it stands.
    pub(super) fn refused(
        &mut self,
        rules: &PinRules,
        client: &mut ClientSession,
        piece: &Piece,
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        if !piece.is_whole() {
            return None;
        }
        let body = &bytes[piece.body.clone()];
        let statement = match piece.kind {
            frontend::QUERY => None,
            frontend::PARSE => Some(name(body)?),
            _ => return None,
        };
        let at = statement.map_or(0, |statement| statement.len() + 1);
        let text = name_behind(body, at)?;
        let takes = self.class(client, Some(text)).takes;
        let kind = Kind::taken(takes).find(|kind| rules.policy(*kind) == Policy::Reject)?;
        let mut out = Vec::new();
        match statement {
            None => write::query(&mut out, &kind.refusal()),
            Some(statement) => {
                // The parameters of a Bind must fit the statement, and anything is a `bytea`.
                let declared = body.get(at + text.len() + 1..).and_then(|rest| rest.first_chunk());
                let declared = declared.map_or(0, |count| u16::from_be_bytes(*count));
                let count = declared.max(route::parameters(text, self.dialect));
                let types = std::iter::repeat_n(BYTEA, usize::from(count));
                write::parse(&mut out, statement, &kind.refusal(), types);
            }
        }
        Some(out)
    }

    /// Notes what a message touches.
    pub(super) fn read(
        &mut self,
        client: &mut ClientSession,
        statement_registry: &mut StatementRegistry,
        piece: &Piece,
        bytes: &[u8],
    ) {
        let body = &bytes[piece.body.clone()];
        if let Some(subscriptions) = client.subscriptions.as_mut().filter(|_| !piece.is_whole()) {
            subscriptions.sends_unread();
        }
        let is_first = matches!(piece.part, Part::First { .. });
        if piece.is_whole() || is_first && is_enough(piece.kind, body) {
            self.message(client, piece.kind, body);
        } else if is_read_from(is_first) {
            client.torn_text = Torn::new(&client.account, statement_registry, body);
            if client.torn_text.is_none() {
                session_effects(client).sends_unread();
            }
        } else if let Some(mut torn) = client.torn_text.take() {
            if !torn.push(piece.kind, body, self.dialect) {
                session_effects(client).sends_unread();
            } else if !piece.is_last() && !is_enough_now(piece.kind, body, &torn.bytes) {
                client.torn_text = Some(torn);
            } else if !torn.is_condensed {
                self.message(client, piece.kind, &torn.bytes);
            } else {
                self.condensed(client, piece.kind, &torn.bytes);
            }
        }
    }

    /// The same for a Query or a Parse without its string literals: unless it is harmless it may do anything, because the
    /// literals are lost.
    fn condensed(&mut self, client: &mut ClientSession, kind: u8, body: &[u8]) {
        let statement = name(body).filter(|_| kind == frontend::PARSE);
        let class = self.class(client, name_behind(body, statement.map_or(0, |statement| statement.len() + 1)));
        let statement = statement.map(cut);
        if !class.is_harmless() {
            session_effects(client).sends_unread();
        } else if kind == frontend::QUERY {
            session_effects(client).executes(&class);
        }
        if let Some(statement) = statement {
            session_effects(client).prepares(statement, &class, false);
        }
    }

    fn message(&mut self, client: &mut ClientSession, kind: u8, body: &[u8]) {
        match kind {
            frontend::QUERY => self.query(client, body),
            frontend::PARSE => self.parse(client, body),
            frontend::BIND => self.bind(client, body),
            frontend::EXECUTE => {
                if let Some(session_effects) = &mut client.session_effects {
                    let portal = name(body);
                    let rows_max = portal.and_then(|portal| body.get(portal.len() + 1..)?.first_chunk());
                    session_effects.executes_portal(cut(portal.unwrap_or_default()), rows_max != Some(&[0; 4]));
                }
            }
            frontend::FUNCTION_CALL => self.function_call(client, body),
            _ => {}
        }
    }

    fn query(&mut self, client: &mut ClientSession, body: &[u8]) {
        let class = self.class(client, name(body));
        self.note_names(&class);
        client.counting.executes(&class);
        if let Some(subscriptions) = client.subscriptions.as_mut().filter(|_| class.notifies) {
            subscriptions.note_notify();
        }
        // The command tag tells what a ROLLBACK by itself takes back (`tags`).
        let counts = class.sequences.are_drawn && self.function_catalog.asks_for_sequences(client.user);
        if !class.is_harmless() || class.sets_locally || counts {
            session_effects(client).executes(&class);
            if class.acts.len() > 1 && class.touches.has(DirtyState::MAKINGS) {
                // The text may call the functions that it creates.
                session_effects(client).calls_unknown();
            }
        }
    }

    fn parse(&mut self, client: &mut ClientSession, body: &[u8]) {
        let statement = name(body);
        let class = self.class(client, statement.and_then(|statement| name_behind(body, statement.len() + 1)));
        let statement = statement.map(cut);
        self.note_names(&class);
        if let (Some(subscriptions), Some(statement)) = (&mut client.subscriptions, statement) {
            subscriptions.prepares(statement, class.notifies);
        }
        let counts = !class.sequences.is_nothing()
            && (class.sequences.are_read || self.function_catalog.asks_for_sequences(client.user));
        let is_taken = statement.is_some_and(|name| !name.is_empty() && is_taken(client, name));
        client.counting.prepares(&class, counts);
        if !class.is_harmless() || class.sets_locally || counts || client.session_effects.is_some() {
            match is_taken {
                true => session_effects(client).prepares_again(statement.unwrap_or_default(), &class),
                false => session_effects(client).prepares(statement.unwrap_or_default(), &class, counts),
            }
        }
    }

    fn bind(&mut self, client: &mut ClientSession, body: &[u8]) {
        if let Some(subscriptions) = &mut client.subscriptions {
            subscriptions.binds(bound(body).unwrap_or_default());
        }
        if client.session_effects.is_some() {
            // What the Bind says about channels depends on whether the client has subscriptions.
            session_effects(client);
        }
        // Without session effects the client has prepared nothing that matters.
        let class = match (&mut client.session_effects, bound(body)) {
            (None, _) => None,
            (Some(session_effects), Some(statement)) => {
                let names = &client.names;
                let is_own = || names.as_ref().is_some_and(|names| names.has(statement));
                session_effects.binds(cut(name(body).unwrap_or_default()), statement, is_own)
            }
            // The server will reject the Bind.
            (Some(session_effects), None) => {
                session_effects.sends_unread();
                None
            }
        };
        match class {
            Some(class) => {
                self.note_names(&class);
                self.note_functions(&class);
                client.counting.executes(&class);
            }
            None => client.counting.executes_unnoted(),
        }
    }

    fn function_call(&mut self, client: &mut ClientSession, body: &[u8]) {
        if let Some(subscriptions) = &mut client.subscriptions {
            subscriptions.note_notify();
        }
        match body.first_chunk().map(|oid| u32::from_be_bytes(*oid)) {
            Some(oid) if route::dirty_state::is_tame(oid) => {}
            Some(oid) if oid >= route::dirty_state::FIRST_MADE && self.function_catalog.is_trusting() => {}
            Some(oid) if oid >= route::dirty_state::FIRST_MADE => session_effects(client).calls_unknown(),
            _ => session_effects(client).sends_unread(),
        }
    }

    fn class(&mut self, client: &mut ClientSession, text: Option<&[u8]>) -> Rc<Class> {
        if self.function_catalog.is_to_be_read(self.now) {
            session_effects(client).wants_functions();
        }
        let is_in_doubt = client.session_effects.as_ref().is_some_and(|effects| effects.is_dialect_in_doubt());
        let Some(text) = text else {
            self.may_make_functions();
            return Rc::new(Class::unread());
        };
        let is_in_doubt = is_in_doubt && !is_read_alike(text);
        let class =
            self.texts.class(text, self.dialect, self.function_catalog.scope(), self.function_catalog.knowledge());
        self.note_functions(&class);
        if !class.mentions.is_empty() {
            let names = class.mentions.iter().map(|name| &**name);
            let placeholders = self.function_catalog.custom.mention(self.user, names, self.now);
            client.placeholders |= placeholders;
            self.placeholders |= placeholders;
        }
        match class.sequences {
            // A text that asks for sequence values, or mentions names of statements, most likely does so in whatever
            // dialect it is read.
            sequences if is_in_doubt => {
                Rc::new(Class { sequences, statements: class.statements.clone(), ..Class::unread() })
            }
            sequences
                if sequences.are_drawn
                    && class.shape.is_empty()
                    && self.function_catalog.asks_for_sequences(client.user) =>
            {
                Rc::new(Class { shape: route::shape_of(text, self.dialect), ..(*class).clone() })
            }
            _ => class,
        }
    }
}

/// Whether a Parse or Close may name one of our own statements that set settings, where the client's statement names are
/// the server's.
pub(super) fn may_name_ours(piece: &Piece, bytes: &[u8]) -> bool {
    let body = &bytes[piece.body.clone()];
    let named = match piece.kind {
        _ if !matches!(piece.part, Part::First { .. }) => return false,
        frontend::PARSE => body,
        frontend::CLOSE => body.get(1..).unwrap_or_default(),
        _ => return false,
    };
    match name(named) {
        Some(name) => is_ours(name),
        // The name has not arrived completely.
        None => true,
    }
}

/// Whether a text is read alike whatever the parameters are: without strings, and in ASCII. A ROLLBACK must not be missed.
fn is_read_alike(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii() && !matches!(byte, b'\'' | b'\\'))
}

/// Whether this much of a message tells what it is about. The values of a Bind come behind that and may be long.
fn is_enough(kind: u8, body: &[u8]) -> bool {
    match kind {
        frontend::QUERY | frontend::PARSE => false,
        frontend::BIND => bound(body).is_some(),
        frontend::FUNCTION_CALL => body.len() >= size_of::<u32>(),
        // The maximum number of rows follows the name of the portal.
        frontend::EXECUTE => name(body).is_some_and(|portal| body.len() > portal.len() + size_of::<u32>()),
        _ => true,
    }
}

/// The same after this part was appended: a Bind is not searched again for a name if no name ends in the part.
fn is_enough_now(kind: u8, part: &[u8], body: &[u8]) -> bool {
    (kind != frontend::BIND || part.contains(&0)) && is_enough(kind, body)
}

/// The name of the statement that a Bind refers to.
#[must_use]
pub fn bound(body: &[u8]) -> Option<&[u8]> {
    name_behind(body, name(body)?.len() + 1).map(cut)
}

/// Whether the client has given this name to a statement already: another Parse of that name most likely fails.
fn is_taken(client: &ClientSession, name: &[u8]) -> bool {
    client.names.as_ref().is_some_and(|names| names.has(name)) || may_be_by_sql(client, name)
}

fn session_effects(client: &mut ClientSession) -> &mut SessionEffects {
    let session_effects = client.session_effects.get_or_insert_default();
    session_effects.listen_elsewhere(client.subscriptions.is_some());
    session_effects
}

/// The text up to its zero byte, which must be there.
#[must_use]
pub fn name(body: &[u8]) -> Option<&[u8]> {
    CStr::from_bytes_until_nul(body).ok().map(CStr::to_bytes)
}

/// The same from this position on.
#[must_use]
pub fn name_behind(body: &[u8], at: usize) -> Option<&[u8]> {
    name(body.get(at..)?)
}

/// From this length on, the string literals of a text that arrives in parts are not kept.
const TORN_BYTES_FEW: usize = 64 * 1024;
/// A text of this length that without its string literals is longer than half of it is not read: it may do anything.
const TORN_BYTES_MAX: usize = 1024 * 1024;
/// The OID of the type `bytea` (`pg_type.dat`).
const BYTEA: u32 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps a text that arrives in pieces. Returns whether all of it was kept, the greatest length that was kept, and
    /// how many bytes were scanned to leave out string literals.
    fn kept(text: &str, piece_bytes: usize) -> (bool, usize, usize) {
        let mut statement_registry = StatementRegistry::new(1, 1);
        let mut torn = Torn::new(&Account::default(), &mut statement_registry, b"").expect("room");
        let (mut most, mut read) = (0, 0);
        for piece in text.as_bytes().chunks(piece_bytes) {
            let length = torn.bytes.len() + piece.len();
            let is_due = length >= torn.condense_at;
            if !torn.push(frontend::QUERY, piece, Dialect::default()) {
                return (false, most, read);
            }
            read += if is_due { length } else { 0 };
            most = most.max(length);
        }
        (true, most, read)
    }

    /// A text of a megabyte was scanned sixteen times as it arrived.
    #[test]
    fn a_text_that_grows_is_read_when_it_has_doubled() {
        for piece_bytes in [100, 8192, 60_000] {
            let text = "select 1, ".repeat((TORN_BYTES_MAX - 100_000) / 10);
            let (is_kept, most, read) = kept(&text, piece_bytes);
            assert!(is_kept && most == text.len() && read <= 2 * text.len(), "{piece_bytes}: {read}");
            // Twice as long a text is not kept, but any number of long strings is.
            let (is_kept, most, read) = kept(&text.repeat(2), piece_bytes);
            assert!(
                !is_kept && most < TORN_BYTES_MAX + piece_bytes && read <= 3 * TORN_BYTES_MAX,
                "{piece_bytes}: {read}"
            );
            let text = format!("('{}'),", "x".repeat(10_000)).repeat(2000);
            let (is_kept, most, read) = kept(&text, piece_bytes);
            assert!(is_kept && most < 4 * TORN_BYTES_FEW && read <= 3 * text.len(), "{piece_bytes}: {most} {read}");
            // Half of it is strings: the time of the scans grows linearly with the text, however little is left out.
            let text = format!("('{}'){}", "x".repeat(1000), ",".repeat(1000)).repeat(2000);
            let (is_kept, most, read) = kept(&text, piece_bytes);
            assert!(!is_kept && most < TORN_BYTES_MAX + piece_bytes && read <= 3 * text.len(), "{piece_bytes}: {read}");
        }
    }

    #[test]
    fn a_long_text_goes_on_with_strings() {
        let text = format!("{}{}", "select 1, ".repeat(50_000), format!("'{}', ", "x".repeat(10_000)).repeat(200));
        assert!(kept(&text, 8192).0);
        // It is scanned at the length at which texts are given up, and half of it is strings by then.
        assert!(kept(&text, 600_000).0);
    }

    #[test]
    fn a_text_for_which_its_client_has_no_room_is_not_kept() {
        let (mut statement_registry, account) = (StatementRegistry::new(1, 1), Account::default());
        statement_registry.limit_clients(1000);
        let mut torn = Torn::new(&account, &mut statement_registry, &[b'x'; 600]).expect("room");
        assert!(torn.push(frontend::QUERY, &[b'x'; 300], Dialect::default()));
        assert!(!torn.push(frontend::QUERY, &[b'x'; 300], Dialect::default()));
        assert!(Torn::new(&account, &mut statement_registry, &[b'x'; 600]).is_none(), "what is kept counts");
        drop(torn);
        assert!(Torn::new(&account, &mut statement_registry, &[b'x'; 600]).is_some());
    }

    #[test]
    fn what_is_left_out_of_a_text_makes_room() {
        let (mut statement_registry, account) = (StatementRegistry::new(1, 1), Account::default());
        let mut torn = Torn::new(&account, &mut statement_registry, b"select '").expect("room");
        for _ in 0..100 {
            assert!(torn.push(frontend::QUERY, &[b'x'; 8192], Dialect::default()));
        }
        assert!(torn.is_condensed && account.held() < 2 * TORN_BYTES_FEW, "{}", account.held());
    }

    #[test]
    fn the_strings_of_a_bind_and_of_what_has_come_to_its_end_stay() {
        let long = [&b"'"[..], &b"x".repeat(TORN_BYTES_FEW), b"', "].concat();
        for (kind, begins, is_condensed) in [
            (frontend::QUERY, &b"select "[..], true),
            (frontend::PARSE, b"s\0select ", true),
            (frontend::PARSE, b"s", true),
            (frontend::PARSE, b"s\0", true),
            (frontend::BIND, b"p\0s\0", false),
            (frontend::BIND, b"p", false),
            (frontend::PARSE, b"s\0select 1\0", false),
            (frontend::QUERY, b"select 1\0", false),
        ] {
            let mut torn = Torn::new(&Account::default(), &mut StatementRegistry::new(1, 1), begins).expect("room");
            torn.push(kind, if begins == b"s" { b"\0select " } else { b"" }, Dialect::default());
            torn.push(kind, &long, Dialect::default());
            assert_eq!(torn.is_condensed, is_condensed, "{}", begins.escape_ascii());
            assert!(torn.bytes.starts_with(begins), "{}", begins.escape_ascii());
            let is_less = torn.bytes.len() < long.len();
            assert_eq!(is_less, is_condensed, "{}", begins.escape_ascii());
        }
    }

    #[test]
    fn texts_are_read_by_the_parameters_of_their_client() {
        let tracked = Tracked::new([]);
        let vars = |standard: &str, encoding: &str| {
            let mut vars = Vars::new(&tracked);
            vars.set(tracked.place("standard_conforming_strings").expect("tracked"), standard);
            vars.set(tracked.place("client_encoding").expect("tracked"), encoding);
            Rc::new(vars)
        };
        let (on, off) = (vars("on", "UTF8"), vars("off", "SJIS"));
        let mut texts = Texts::default();
        for _ in 0..2 {
            assert!(!texts.dialect(&on, &tracked).backslashes && texts.dialect(&off, &tracked).backslashes);
            assert_ne!(texts.dialect(&on, &tracked).encoding, texts.dialect(&off, &tracked).encoding);
        }
        let none = Rc::new(Vars::new(&tracked));
        assert!(!texts.dialect(&none, &tracked).backslashes);
        assert_eq!(texts.dialect(&none, &tracked).encoding, Encoding::Safe);
        assert!(texts.last.is_some());
        texts.forget_parameters();
        assert!(texts.last.is_none(), "other parameters may stand in the same place");
    }

    #[test]
    fn so_much_of_a_message_is_enough() {
        for (kind, body, is_it) in [
            (frontend::QUERY, &b"select 1"[..], false),
            (frontend::PARSE, b"s\0select 1\0", false),
            (frontend::BIND, b"p\0s", false),
            (frontend::BIND, b"p\0s\0", true),
            (frontend::FUNCTION_CALL, b"\0\0\0", false),
            (frontend::FUNCTION_CALL, b"\0\0\0\x01", true),
            (frontend::EXECUTE, b"p\0\0\0\0", false),
            (frontend::EXECUTE, b"p\0\0\0\0\0", true),
            (frontend::CLOSE, b"", true),
        ] {
            assert_eq!(is_enough(kind, body), is_it, "{} {}", char::from(kind), body.escape_ascii());
        }
        assert!(!is_enough_now(frontend::BIND, b"value", b"p\0s\0value"), "no name ends in this part");
        assert!(is_enough_now(frontend::BIND, b"s\0value", b"p\0s\0value"));
        assert!(is_enough_now(frontend::FUNCTION_CALL, b"\x01", b"\0\0\0\x01"));
    }

    #[test]
    fn names_of_ours_are_known_by_their_beginning_and_what_has_not_come_may_be_one() {
        let piece = |kind: u8, body: &[u8], part: Part| {
            let range = 0..body.len();
            Piece { kind, range: range.clone(), body: range, left: 0, part }
        };
        let first = |body: &[u8]| Part::First { carried: 0, body_bytes: body.len() as u32 };
        for (kind, body, may) in [
            (frontend::PARSE, &b"TRUNKLINE_STATE_1\0select 1\0\0\0"[..], true),
            (frontend::PARSE, b"p\0select 1\0\0\0", false),
            (frontend::PARSE, b"TRUNK", true),
            (frontend::CLOSE, b"STRUNKLINE_STATE_1\0", true),
            (frontend::CLOSE, b"Sp\0", false),
            (frontend::CLOSE, b"", true),
            (frontend::BIND, b"TRUNKLINE_STATE_1\0", false),
        ] {
            assert_eq!(may_name_ours(&piece(kind, body, first(body)), body), may, "{}", body.escape_ascii());
        }
        let body = b"TRUNKLINE_STATE_1\0";
        assert!(!may_name_ours(&piece(frontend::PARSE, body, Part::Later), body));
    }
}
