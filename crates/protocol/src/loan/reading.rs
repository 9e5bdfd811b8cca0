//! Reads what clients send, where session state follows them (`session_state`): what it may touch, and what is refused.
//!
//! Always true: every message of a client is read before the server has it, whole or in parts; a message that cannot be
//! read may touch anything.
//! Not here: what a text touches (crate `route`), and what is done about it (`worker::data::probe`).

use std::rc::Rc;

use base::Time;
use route::{Act, Cache, Class, Condenser, Dialect, DirtyState, Encoding, Knowledge};
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
    /// What has arrived; of a long text what stands before it.
    bytes: Vec<u8>,
    charge: Charge,
    /// What reads a long text as it arrives.
    long: Option<Box<LongText>>,
}

/// A text of which only what matters is kept.
#[derive(Debug)]
struct LongText {
    condenser: Condenser,
    /// Whether its zero byte has arrived.
    has_ended: bool,
}

impl LongText {
    fn push(&mut self, part: &[u8]) {
        if self.has_ended {
            return;
        }
        let text = name(part);
        self.has_ended = text.is_some();
        self.condenser.push(text.unwrap_or(part));
    }
}

impl Torn {
    fn new(account: &Account, statement_registry: &mut StatementRegistry, body: &[u8]) -> Option<Box<Self>> {
        let charge = statement_registry.charge(account, body.len()).ok()?;
        Some(Box::new(Self { bytes: body.into(), charge, long: None }))
    }

    /// Appends a part. Returns false if it cannot be kept. Of a long text each part is read once, when it arrives.
    fn push(&mut self, kind: u8, body: &[u8], dialect: Dialect) -> bool {
        if let Some(long) = &mut self.long {
            long.push(body);
        } else {
            if self.charge.grow(body.len()).is_err() {
                return false;
            }
            self.bytes.extend_from_slice(body);
            if self.bytes.len() >= TORN_BYTES_FEW
                && let Some(at) = text_at(kind, &self.bytes)
            {
                let mut long = LongText { condenser: Condenser::new(dialect), has_ended: false };
                long.push(&self.bytes[at..]);
                self.bytes.truncate(at);
                self.bytes.shrink_to_fit();
                self.long = Some(Box::new(long));
            }
        }
        let held = self.bytes.len() + self.long.as_ref().map_or(0, |long| long.condenser.bytes());
        self.charge.shrink_to(held);
        held < TORN_BYTES_MAX && self.charge.grow(held - self.charge.bytes()).is_ok()
    }
}

/// Where the text of a message begins, if that is known.
fn text_at(kind: u8, body: &[u8]) -> Option<usize> {
    match kind {
        frontend::QUERY => Some(0),
        frontend::PARSE => name(body).map(|name| name.len() + 1),
        _ => None,
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

    /// Returns the class of a text that a client with these parameters sends, if the text is so short that it takes
    /// little to read it twice. `None` for a longer one.
    pub(super) fn short_class(
        &mut self,
        text: &[u8],
        vars: &Rc<Vars>,
        tracked: &Tracked,
        function_catalog: &FunctionCatalog,
    ) -> Option<Rc<Class>> {
        (text.len() <= route::TEXT_BYTES_MAX).then(|| self.class(text, vars, tracked, function_catalog))
    }

    /// Returns how texts of a client with these parameters are read.
    #[inline]
    pub fn dialect(&mut self, vars: &Rc<Vars>, tracked: &Tracked) -> Dialect {
        match &self.last {
            Some((last, dialect)) if Rc::ptr_eq(last, vars) => *dialect,
            _ => self.dialect_anew(vars, tracked),
        }
    }

    #[cold]
    fn dialect_anew(&mut self, vars: &Rc<Vars>, tracked: &Tracked) -> Dialect {
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
    /// The class of the last message, or of the statement that it binds, if it mentions names of prepared statements or drops
    /// all.
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
        function_catalog.renew(unseen, now, scopes);
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
        if !class.statements.is_empty() || drops_names(class) {
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
            } else if let Some(long) = torn.long {
                self.long(client, piece.kind, &torn.bytes, *long);
            } else {
                self.message(client, piece.kind, &torn.bytes);
            }
        }
    }

    /// Reads a Query or a Parse by what is left of its text, and by what came before that. Unless it is harmless it may do
    /// anything, because its values are lost.
    fn long(&mut self, client: &mut ClientSession, kind: u8, body: &[u8], long: LongText) {
        let is_read_alike = long.condenser.is_read_alike();
        // What was sent before the text may have changed how it is read.
        let is_read_rightly = long.has_ended && (is_read_alike || long.condenser.dialect() == self.dialect);
        let text = long.condenser.end().filter(|_| is_read_rightly);
        let class = self.class_as(client, text.as_deref(), is_read_alike);
        let statement = name(body).filter(|_| kind == frontend::PARSE);
        let mut is_told =
            || text.as_deref().is_some_and(|text| self.is_told_by_functions(client, text, statement, &class));
        if class.is_harmless() || is_told() {
            match kind {
                frontend::QUERY => self.query(client, &class),
                _ => self.parse(client, statement, &class),
            }
        } else {
            session_effects(client).sends_unread();
            if let Some(statement) = statement {
                session_effects(client).prepares(cut(statement), &class, false);
            }
        }
    }

    /// Whether the functions of the database, which are not known yet, will tell what a long text does: they are read by the
    /// state probe. A statement with a name may be executed later than that.
    fn is_told_by_functions(
        &self,
        client: &mut ClientSession,
        text: &[u8],
        statement: Option<&[u8]>,
        class: &Class,
    ) -> bool {
        let is_harmless = || route::classify(text, self.dialect, Some(&Knowledge::default())).is_harmless();
        self.function_catalog.knowledge().is_none()
            && !class.is_unread
            && statement.is_none_or(<[u8]>::is_empty)
            && is_harmless()
            && session_effects(client).long_texts.add(text, self.dialect)
    }

    fn message(&mut self, client: &mut ClientSession, kind: u8, body: &[u8]) {
        match kind {
            frontend::QUERY => {
                let class = self.class(client, name(body));
                self.query(client, &class);
            }
            frontend::PARSE => {
                let statement = name(body);
                let text = statement.and_then(|statement| name_behind(body, statement.len() + 1));
                let class = self.class(client, text);
                self.parse(client, statement, &class);
            }
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

    fn query(&mut self, client: &mut ClientSession, class: &Rc<Class>) {
        self.note_names(class);
        client.counting.executes(class);
        if let Some(subscriptions) = client.subscriptions.as_mut().filter(|_| class.notifies) {
            subscriptions.note_notify();
        }
        // The command tag tells what a ROLLBACK by itself takes back (`tags`).
        let counts = class.sequences.are_drawn && self.function_catalog.asks_for_sequences(client.user);
        if !class.is_harmless() || class.sets_locally || counts {
            session_effects(client).executes(class);
            if class.acts.len() > 1 && class.touches.has(DirtyState::MAKINGS) {
                // The text may call the functions that it creates.
                session_effects(client).calls_unknown();
            }
        }
    }

    fn parse(&mut self, client: &mut ClientSession, statement: Option<&[u8]>, class: &Rc<Class>) {
        let statement = statement.map(cut);
        self.note_names(class);
        if let (Some(subscriptions), Some(statement)) = (&mut client.subscriptions, statement) {
            subscriptions.prepares(statement, class.notifies);
        }
        let counts = !class.sequences.is_nothing()
            && (class.sequences.are_read || self.function_catalog.asks_for_sequences(client.user));
        let is_taken = statement.is_some_and(|name| !name.is_empty() && is_taken(client, name));
        client.counting.prepares(class, counts);
        if !class.is_harmless() || class.sets_locally || counts || client.session_effects.is_some() {
            match is_taken {
                true => session_effects(client).prepares_again(statement.unwrap_or_default(), class),
                false => session_effects(client).prepares(statement.unwrap_or_default(), class, counts),
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
        let is_in_doubt = client.session_effects.as_ref().is_some_and(|effects| effects.is_dialect_in_doubt());
        self.class_as(client, text, !is_in_doubt || text.is_some_and(is_read_alike))
    }

    /// Returns the class of a client's text of which it is known whether all of it `is_read_alike` by any parameters.
    fn class_as(&mut self, client: &mut ClientSession, text: Option<&[u8]>, is_read_alike: bool) -> Rc<Class> {
        if self.function_catalog.is_to_be_read(self.now) {
            session_effects(client).wants_functions();
        }
        let is_in_doubt = client.session_effects.as_ref().is_some_and(|effects| effects.is_dialect_in_doubt());
        let Some(text) = text else {
            self.may_make_functions();
            return Rc::new(Class::unread());
        };
        let is_in_doubt = is_in_doubt && !is_read_alike;
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

/// Whether a text plainly drops prepared statements.
pub(super) fn drops_names(class: &Class) -> bool {
    let drops = |act: &Act| matches!(act, Act::Deallocate { .. } | Act::DiscardAll);
    class.touches.has(DirtyState::STATEMENTS) && class.acts.iter().any(drops)
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

/// Whether this much of a message tells what it is about, after this part was appended: a Bind is not searched again
/// for a name if no name ends in the part.
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
    if body.first() == Some(&0) {
        return Some(&[]);
    }
    memchr::memchr(0, body).map(|end| &body[..end])
}

/// The text from this position on up to its zero byte, which must be there.
#[must_use]
pub fn name_behind(body: &[u8], at: usize) -> Option<&[u8]> {
    name(body.get(at..)?)
}

/// From this length on, only what matters is kept of a text that arrives in parts.
const TORN_BYTES_FEW: usize = 64 * 1024;
/// More is not kept: the message may do anything.
const TORN_BYTES_MAX: usize = 1024 * 1024;
/// The OID of the type `bytea` (`pg_type.dat`).
const BYTEA: u32 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn torn(kind: u8, text: &[u8], piece_bytes: usize) -> (Box<Torn>, usize) {
        let mut statement_registry = StatementRegistry::new(1, 1);
        let account = Account::default();
        let mut torn = Torn::new(&account, &mut statement_registry, b"").expect("room");
        let mut most = 0;
        for piece in text.chunks(piece_bytes) {
            assert!(torn.push(kind, piece, Dialect::default()), "room");
            most = most.max(account.held());
        }
        (torn, most)
    }

    /// Of a text of any length little is kept, whatever stands in it beside its first words.
    #[test]
    fn a_long_text_is_read_as_it_arrives_and_not_kept() {
        for part in ["1, ", "'x', ", "('a''b', null, now()), ", "-- a comment\n", "/* another */ "] {
            for piece_bytes in [100, 8192, 60_000] {
                let text = format!("select {}2\0", part.repeat(3 * TORN_BYTES_MAX / part.len()));
                let (torn, most) = torn(frontend::QUERY, text.as_bytes(), piece_bytes);
                assert!(most < 3 * TORN_BYTES_FEW, "{part} by {piece_bytes}: {most}");
                let long = torn.long.expect("a long text");
                assert!(long.has_ended && long.condenser.end().is_some(), "{part} by {piece_bytes}");
            }
        }
    }

    #[test]
    fn what_stands_behind_a_long_text_is_no_part_of_it() {
        let text = format!("s\0select {}\0; set a.b = 1", "1, ".repeat(30_000));
        for piece_bytes in [100, 8192] {
            let long = torn(frontend::PARSE, text.as_bytes(), piece_bytes).0.long.expect("a long text");
            let left = long.condenser.end().expect("little is left");
            assert!(!left.windows(3).any(|bytes| bytes == b"set"), "{}", left.escape_ascii());
        }
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
        assert!(torn.long.is_some() && account.held() < TORN_BYTES_FEW, "{}", account.held());
    }

    #[test]
    fn only_of_a_text_less_is_kept_than_has_arrived() {
        let long = [&b"'"[..], &b"x".repeat(TORN_BYTES_FEW), b"', "].concat();
        for (kind, begins, is_condensed) in [
            (frontend::QUERY, &b"select "[..], true),
            (frontend::PARSE, b"s\0select ", true),
            (frontend::PARSE, b"s", true),
            (frontend::PARSE, b"s\0", true),
            (frontend::BIND, b"p\0s\0", false),
            (frontend::BIND, b"p", false),
            (frontend::PARSE, b"s\0select 1\0", true),
            (frontend::QUERY, b"select 1\0", true),
        ] {
            let mut torn = Torn::new(&Account::default(), &mut StatementRegistry::new(1, 1), begins).expect("room");
            torn.push(kind, if begins == b"s" { b"\0select " } else { b"" }, Dialect::default());
            torn.push(kind, &long, Dialect::default());
            assert_eq!(torn.long.is_some(), is_condensed, "{}", begins.escape_ascii());
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
