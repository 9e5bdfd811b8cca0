//! What a session keeps, where that follows clients (`session_state`): what they say is read, and their servers are asked.
//!
//! Always true: a loan in which something may have been touched ends only when its server has told what it has, and that is known
//! to follow; otherwise the server stays its client's, and is made clean or closed when that leaves.
//! Not here: what a text touches (crate `route`), what is asked and what the answer means (`protocol::state`).

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use base::Time;
use base::planted::{self, Planted};
use config::{PinRules, Policy};
use pool::{ClientKey, PoolKey, ServerKey};
use protocol::fault::Fault;
use protocol::prepared::{Charge, Library};
use protocol::state::{Kind, Overrides, Pin, Traces};
use protocol::vars::{Tracked, Vars};
use reactor::{Io, Level};
use route::{Cache, Class, Dialect, Encoding, Knowledge, Touches, condense};
use wire::frame::Part;
use wire::write::Says;
use wire::{Piece, frontend, write};

use crate::client::{Client, Ready, Stage as ClientStage};
use crate::mend::UNPROVEN;
use crate::server::Server;
use crate::turn::Worker;

/// What gives a server back as it was when it logged in.
pub(crate) const DISCARD_ALL: &str = "DISCARD ALL";

/// As much of a message as has come, of one that cannot be read by its beginning.
#[derive(Debug)]
pub(crate) struct Torn {
    bytes: Vec<u8>,
    charge: Charge,
    /// When it is this long, its strings are left out.
    condense_at: usize,
    is_condensed: bool,
}

impl Torn {
    fn new(library: &mut Library, body: &[u8]) -> Option<Box<Self>> {
        let charge = library.charge(body.len())?;
        Some(Box::new(Self { bytes: body.into(), charge, condense_at: TORN_BYTES_FEW, is_condensed: false }))
    }

    /// More of it has come. False if it cannot be kept.
    fn push(&mut self, kind: u8, body: &[u8], dialect: Dialect) -> bool {
        if !self.charge.grow(body.len()) {
            return false;
        }
        self.bytes.extend_from_slice(body);
        if self.bytes.len() < self.condense_at {
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
        self.condense_at = self.bytes.len() + TORN_BYTES_FEW;
        self.bytes.len() <= TORN_BYTES_MAX
    }
}

/// What is known of a database's texts and functions.
#[derive(Debug)]
pub(crate) struct Learned {
    /// What its functions do to sessions, and since when that is known.
    knowledge: Option<(Rc<Knowledge>, Time)>,
    /// When they are to be read again: somebody else may have made others.
    again_at: Time,
    /// What tells its texts from those of others, and from those read with older knowledge.
    scope: u32,
    /// Settings with a dot in their names that anybody has set: there is no list of them to be had.
    custom: BTreeSet<Box<str>>,
    /// Which kind has been said to be held by which statement.
    told: BTreeSet<(Kind, Box<str>)>,
    /// How often something of each kind began to be held.
    pins: [u64; Kind::ALL.len()],
}

impl Learned {
    /// Nothing yet.
    pub(crate) fn new(scope: u32) -> Self {
        Self {
            knowledge: None,
            again_at: Time(0),
            scope,
            custom: BTreeSet::new(),
            told: BTreeSet::new(),
            pins: [0; Kind::ALL.len()],
        }
    }

    fn knowledge(&self) -> Option<&Knowledge> {
        self.knowledge.as_ref().map(|(knowledge, _)| &**knowledge)
    }

    fn learn(&mut self, knowledge: Knowledge, now: Time, scope: u32) {
        (self.knowledge, self.again_at) = (Some((Rc::new(knowledge), now)), now + KNOWLEDGE_FRESH);
        self.scope = scope;
    }

    /// Forgets what is too old to be relied upon.
    fn forget_old(&mut self, now: Time, scopes: &mut u32) {
        if self.knowledge.as_ref().is_some_and(|(_, since)| now.since(*since) > KNOWLEDGE_AGE_MAX) {
            *scopes += 1;
            (self.knowledge, self.scope) = (None, *scopes);
        }
    }

    /// Whether the functions are to be read again, by who asks first.
    fn is_to_be_read(&mut self, now: Time) -> bool {
        let is_due = self.knowledge.is_some() && now >= self.again_at;
        if is_due {
            // Whoever it is may leave before it has been told.
            self.again_at = now + KNOWLEDGE_FRESH / 3;
        }
        is_due
    }

    fn count_pin(&mut self, kind: Kind) {
        self.pins[kind as usize] += 1;
    }

    /// How often something of each kind began to be held.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.into_iter().zip(self.pins)
    }

    /// Whether nobody has been told yet that this statement holds something of this kind.
    fn is_news(&mut self, kind: Kind, statement: &str) -> bool {
        if self.told.len() >= TOLD_MAX {
            self.told.clear();
        }
        self.told.insert((kind, statement.into()))
    }

    /// Whether there are more settings with a dot than are known.
    fn is_overfull(&self) -> bool {
        self.custom.len() >= CUSTOM_MAX
    }

    /// The settings with a dot that somebody has mentioned.
    pub(crate) fn custom(&self) -> impl Iterator<Item = &str> {
        self.custom.iter().map(|name| &**name)
    }

    /// Somebody mentions settings.
    pub(crate) fn mention<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if self.custom.len() < CUSTOM_MAX && !self.custom.contains(name) {
                self.custom.insert(name.into());
            }
        }
    }
}

/// The texts that have been read, and how those of the last client were to be read.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    cache: Cache,
    /// Most clients have the same parameters, and then the very same.
    last: Option<(Rc<Vars>, Dialect)>,
}

impl Texts {
    /// The parameters that follow clients are others now.
    pub(crate) fn forget_parameters(&mut self) {
        self.last = None;
    }

    fn dialect(&mut self, vars: &Rc<Vars>, tracked: &Tracked) -> Dialect {
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

/// Reads what one client says.
pub(crate) struct Reading<'a> {
    texts: &'a mut Cache,
    learned: &'a mut Learned,
    dialect: Dialect,
    now: Time,
}

impl<'a> Reading<'a> {
    /// Of the texts of one database, of which `learned` is known; `scopes` is the last number of a scope.
    pub(crate) fn new(
        texts: &'a mut Texts,
        (learned, scopes): (&'a mut Learned, &mut u32),
        ready: &Ready,
        tracked: &Tracked,
        now: Time,
    ) -> Self {
        learned.forget_old(now, scopes);
        let dialect = texts.dialect(&ready.vars, tracked);
        Self { texts: &mut texts.cache, learned, dialect, now }
    }

    /// What stands in the place of a message that plainly takes hold of what these rules refuse: one that its server will refuse with
    /// our words, whatever transaction or pipeline it stands in.
    pub(crate) fn refused(
        &mut self,
        rules: &PinRules,
        ready: &mut Ready,
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
        let takes = self.class(ready, Some(text)).takes;
        if takes == Touches::NOTHING {
            return None;
        }
        let kind = Kind::taken(takes).find(|kind| rules.policy(*kind) == Policy::Reject)?;
        let mut out = Vec::new();
        match statement {
            None => write::query(&mut out, &kind.refusal()),
            Some(statement) => {
                // What is bound to it must fit, and anything is a `bytea`.
                let declared = body.get(at + text.len() + 1..).and_then(|rest| rest.first_chunk());
                let declared = declared.map_or(0, |count| u16::from_be_bytes(*count));
                let count = declared.max(route::parameters(text, self.dialect));
                let types = std::iter::repeat_n(BYTEA, usize::from(count));
                write::parse(&mut out, statement, &kind.refusal(), types);
            }
        }
        Some(out)
    }

    /// Takes note of what a message touches.
    pub(crate) fn read(&mut self, ready: &mut Ready, library: &mut Library, piece: &Piece, bytes: &[u8]) {
        let body = &bytes[piece.body.clone()];
        if piece.is_whole() {
            self.message(ready, piece.kind, body);
        } else if matches!(piece.part, Part::First { .. }) {
            if is_enough(piece.kind, body) {
                self.message(ready, piece.kind, body);
            } else if !planted::is(Planted::TornTextUnread) {
                ready.torn_text = Torn::new(library, body);
                if ready.torn_text.is_none() {
                    traces(ready).unheard();
                }
            }
        } else if let Some(mut torn) = ready.torn_text.take() {
            if !torn.push(piece.kind, body, self.dialect) {
                traces(ready).unheard();
            } else if !piece.is_last() && !is_enough(piece.kind, &torn.bytes) {
                ready.torn_text = Some(torn);
            } else if !torn.is_condensed {
                self.message(ready, piece.kind, &torn.bytes);
            } else if !self.is_harmless(ready, piece.kind, &torn.bytes) {
                // What its strings said is not known any more.
                traces(ready).unheard();
            }
        }
    }

    /// Whether a Query or a Parse with strings left out does nothing.
    fn is_harmless(&mut self, ready: &mut Ready, kind: u8, body: &[u8]) -> bool {
        let at = if kind == frontend::PARSE { name(body).map_or(0, |name| name.len() + 1) } else { 0 };
        let class = self.class(ready, name_behind(body, at));
        if let (frontend::PARSE, Some(statement), Some(traces)) = (kind, name(body), &mut ready.traces) {
            traces.given(statement, &class);
        }
        class.is_harmless()
    }

    fn message(&mut self, ready: &mut Ready, kind: u8, body: &[u8]) {
        match kind {
            frontend::QUERY => {
                let class = self.class(ready, name(body));
                if !class.is_harmless() {
                    traces(ready).said(&class);
                }
            }
            frontend::PARSE => {
                let statement = name(body);
                let class = self.class(ready, statement.and_then(|statement| name_behind(body, statement.len() + 1)));
                if !class.is_harmless() || ready.traces.is_some() {
                    traces(ready).given(statement.unwrap_or_default(), &class);
                }
            }
            // Without traces it has prepared nothing that matters.
            frontend::BIND => {
                let Some(traces) = &mut ready.traces else { return };
                match bound(body) {
                    Some(statement) => traces.bound(statement),
                    // The server will say that this is none.
                    None => traces.unheard(),
                }
            }
            frontend::FUNCTION_CALL => match body.first_chunk().map(|oid| u32::from_be_bytes(*oid)) {
                Some(oid) if route::touch::is_tame(oid) => {}
                Some(oid) if oid >= route::touch::FIRST_MADE => traces(ready).dark(),
                _ => traces(ready).unheard(),
            },
            _ => {}
        }
    }

    fn class(&mut self, ready: &mut Ready, text: Option<&[u8]>) -> Rc<Class> {
        if self.learned.is_to_be_read(self.now) {
            traces(ready).wants_functions();
        }
        let is_in_doubt = ready.traces.as_ref().is_some_and(|traces| traces.is_dialect_in_doubt());
        let Some(text) = text else { return Rc::new(Class::unread()) };
        let class = self.texts.class(text, self.dialect, self.learned.scope, self.learned.knowledge());
        if !class.mentions.is_empty() {
            self.learned.mention(class.mentions.iter().map(|name| &**name));
        }
        if is_in_doubt { Rc::new(Class::unread()) } else { class }
    }
}

/// Whether so much of a message tells what it is about. The values of a Bind come behind that and may be long.
fn is_enough(kind: u8, body: &[u8]) -> bool {
    match kind {
        frontend::QUERY | frontend::PARSE => false,
        frontend::BIND => bound(body).is_some(),
        frontend::FUNCTION_CALL => body.len() >= size_of::<u32>(),
        _ => true,
    }
}

/// The statement that a Bind is of.
fn bound(body: &[u8]) -> Option<&[u8]> {
    name_behind(body, name(body)?.len() + 1)
}

fn traces(ready: &mut Ready) -> &mut Traces {
    ready.traces.get_or_insert_default()
}

/// The text up to its zero byte, which must be there.
fn name(body: &[u8]) -> Option<&[u8]> {
    Some(&body[..body.iter().position(|&byte| byte == 0)?])
}

fn name_behind(body: &[u8], at: usize) -> Option<&[u8]> {
    name(body.get(at..)?)
}

/// The SQL that brings a server to what its client has set.
pub(crate) fn changes(server: Option<&Overrides>, client: Option<&Overrides>) -> Option<String> {
    match (server, client) {
        (None, None) => None,
        (Some(server), Some(client)) if std::ptr::eq(server, client) => None,
        (server, client) => {
            let none = Overrides::default();
            server.unwrap_or(&none).changes_to(client.unwrap_or(&none))
        }
    }
}

/// In the hands of everybody who has them; nothing where there are none.
pub(crate) fn shared(overrides: Overrides) -> Option<Rc<Overrides>> {
    (!overrides.is_empty()).then(|| Rc::new(overrides))
}

impl<I: Io> Worker<I> {
    /// Whether a client has something on its server, or may have.
    pub(crate) fn is_marked(&self, client: ClientKey) -> bool {
        match self.clients.get(client) {
            Some(Client { stage: ClientStage::Ready(ready), .. }) => {
                ready.traces.as_ref().is_some_and(|traces| traces.is_marked())
            }
            _ => false,
        }
    }

    /// A loan could end, but its client may have something on the server: that is asked, or it is known and stays.
    pub(crate) fn keep_or_look(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        if !self.places.pool(server.pool).is_some_and(|place| place.follows) {
            // Not any more. The server is closed as it comes back.
            ready.traces = None;
            self.end_loan(server_key, client_key);
            return;
        }
        // A cancel request that is still on its way would hit our question.
        let is_aimed_at = server.cancels_sent > 0;
        let learned = &self.places.databases[server.database as usize].learned;
        let question = ready.traces.as_ref().and_then(|traces| traces.question());
        let Some(mut look) = question.filter(|_| !is_aimed_at) else {
            self.arm_server(server_key);
            return;
        };
        if !server.exchange.is_proven() {
            // It cannot be told any more what answers what, and so not what the session has.
            self.lose_server(server_key, UNPROVEN);
            self.fail_client(client_key, &Fault::StateLost);
            return;
        }
        let own = ready.overrides.as_deref().into_iter().flat_map(Overrides::iter).map(|(name, _)| name);
        let of_functions = learned.knowledge().into_iter().flat_map(Knowledge::settings);
        look.add_custom(learned.custom().chain(own).chain(of_functions), !learned.is_overfull());
        if learned.knowledge.is_none() {
            look.add_functions();
        }
        let mut out = Vec::new();
        write::query(&mut out, &look.question());
        server.exchange.asks_ours();
        server.look = Some(Box::new(look));
        server.asked = self.now;
        self.io.send(server.conn, out.into());
        self.arm_server(server_key);
    }

    /// The server has told what its session has.
    pub(crate) fn looked(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(look) = server.look.take() else { return };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let traces = ready.traces.get_or_insert_default();
        match look.end() {
            // Of what functions set, nothing was known when it was asked.
            Some(seen) if seen.has_learned_settings() => {
                self.learn(server_key, seen.knowledge);
                self.keep_or_look(server_key, client_key);
                return;
            }
            Some(seen) => {
                let before = ready.overrides.as_deref().cloned().unwrap_or_default();
                let login = self.places.pool(server.pool).map_or("", |place| &*place.user_name);
                let mut overrides = seen.overrides(&before, &self.force.tracked, login);
                if planted::is(Planted::ResetUndone) && overrides.is_empty() {
                    overrides = before;
                }
                let overrides = shared(overrides);
                traces.seen(&seen, self.now);
                ready.overrides.clone_from(&overrides);
                server.overrides = overrides;
                self.learn(server_key, seen.knowledge);
            }
            None => traces.unseen(self.now),
        }
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(traces) = &ready.traces else { return };
        if traces.pins().is_empty() || planted::is(Planted::PinForgotten) {
            if !traces.pins().is_empty() {
                ready.traces = None;
            }
            self.end_loan_if_over(server_key, client_key);
            return;
        }
        self.tell_of_pins(server_key, client_key);
        if let Some(fault) = self.refuses_pins(server_key, client_key) {
            self.fail_client(client_key, &fault);
            return;
        }
        self.arm_server(server_key);
        self.forward_held(client_key);
    }

    /// Why a client may not keep its server, if it may not.
    fn refuses_pins(&self, server: ServerKey, client: ClientKey) -> Option<Fault> {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get(client) else { return None };
        let (pins, pool) = (ready.traces.as_ref()?.pins(), self.servers.get(server)?.pool);
        let rules = &self.places.pool(pool)?.pin_rules;
        let refused = pins.iter().map(|pin| pin.hold.kind).find(|kind| rules.policy(*kind) == Policy::Reject);
        if let Some(kind) = refused {
            return Some(Fault::HoldRefused { kind });
        }
        let is_new = pins.iter().all(|pin| pin.since == self.now);
        let limit = rules.servers_max.filter(|_| is_new)?;
        let is_kept = |client: &&Client| match &client.stage {
            ClientStage::Ready(ready) if ready.pool == pool => {
                ready.traces.as_ref().is_some_and(|traces| !traces.pins().is_empty())
            }
            _ => false,
        };
        let kept = self.clients.iter().map(|(_, client)| client).filter(is_kept).count();
        let is_over = kept > limit as usize;
        is_over.then(|| Fault::PinsFull { limit, what: pins[0].hold.words() })
    }

    /// When a client has kept its server for too long, or has been idle for too long with it.
    pub(crate) fn pin_due(&self, server: &Server) -> Option<(Time, Fault)> {
        let Some(Client { stage: ClientStage::Ready(ready), asked, .. }) = self.clients.get(server.client()?) else {
            return None;
        };
        let first = ready.traces.as_ref()?.pins().iter().min_by_key(|pin| pin.since)?;
        let limit = self.places.pool(server.pool)?.pin_rules.age_max;
        let too_long = limit.map(|limit| {
            (first.since + limit, Fault::PinnedTooLong { secs: limit.as_secs(), what: first.hold.words() })
        });
        let is_idle = server.exchange.may_end();
        let idle = self.places.users[ready.user as usize].client_idle_timeout.filter(|_| is_idle);
        let idle = idle.map(|limit| (*asked + limit, Fault::ClientIdleTimeout));
        too_long.into_iter().chain(idle).min_by_key(|(at, _)| *at)
    }

    /// Who keeps its server, and why, is said once for each statement and kind.
    fn tell_of_pins(&mut self, server: ServerKey, client: ClientKey) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get(client) else { return };
        let (Some(traces), Some(server)) = (&ready.traces, self.servers.get(server)) else { return };
        let Some(rules) = self.places.pool(server.pool).map(|place| place.pin_rules.clone()) else { return };
        let learned = &mut self.places.databases[server.database as usize].learned;
        let (mut texts, mut notices) = (Vec::new(), Vec::new());
        for Pin { hold, statement, .. } in traces.pins().iter().filter(|pin| pin.since == self.now) {
            learned.count_pin(hold.kind);
            if learned.is_news(hold.kind, statement) {
                let by = if statement.is_empty() { "" } else { " by " };
                texts.push(format!("keeps its server: {}{by}{statement}", hold.words()));
            }
            if rules.policy(hold.kind) == Policy::Warn {
                let message = format!("this session keeps its server: {}", hold.words());
                let says = Says {
                    severity: "NOTICE",
                    sqlstate: "00000",
                    message: &message,
                    detail: None,
                    hint: Some(hold.kind.instead()),
                };
                write::notice(&mut notices, says);
            }
        }
        if !notices.is_empty()
            && let Some(client) = self.clients.get(client)
        {
            self.io.send(client.conn, notices.into());
        }
        let line = self.client_prefix(client);
        for text in texts {
            self.log.add(Level::Log, format_args!("{line}{text}"));
        }
    }

    /// A server whose client has gone meanwhile has told what its session has: settings that any client can be given, nothing, or
    /// something that has to be discarded.
    pub(crate) fn looked_behind(&mut self, key: ServerKey, before: Option<&Overrides>) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let seen = server.look.take().and_then(|look| look.end());
        let is_clean = seen.as_ref().is_some_and(|seen| {
            let is_known = !seen.has_learned_settings() && !seen.has_foreign_values() && !seen.misses_settings();
            is_known && seen.holds.is_empty()
        });
        if let Some(seen) = seen {
            let login = self.places.pool(server.pool).map_or("", |place| &*place.user_name);
            let before = before.cloned().unwrap_or_default();
            server.overrides = shared(seen.overrides(&before, &self.force.tracked, login));
            self.learn(key, seen.knowledge);
        }
        self.end_look(key, is_clean);
    }

    fn learn(&mut self, server: ServerKey, knowledge: Option<Knowledge>) {
        let (Some(server), Some(knowledge)) = (self.servers.get(server), knowledge) else { return };
        self.places.scopes += 1;
        self.places.databases[server.database as usize].learned.learn(knowledge, self.now, self.places.scopes);
    }

    /// From now on the state of sessions follows the clients of a pool, or does no longer: what its servers have is not known.
    pub(crate) fn begin_anew(&mut self, pool: PoolKey) {
        self.tell_pools(pool::Event::Retire { pool });
        for (_, client) in self.clients.iter_mut() {
            if let ClientStage::Ready(ready) = &mut client.stage
                && ready.pool == pool
            {
                ready.overrides = None;
                ready.begin_unread();
            }
        }
    }
}

impl Ready {
    /// Nobody has read what it has said so far, and where it has been torn nobody will.
    pub(crate) fn begin_unread(&mut self) {
        let mut traces = Traces::unread();
        if self.scanner.is_in_body() {
            traces.unheard();
        }
        self.traces = Some(Box::new(traces));
    }
}

/// From this length on, the strings of a text that comes in parts are not kept,
const TORN_BYTES_FEW: usize = 64 * 1024;
/// and what is longer without them is not read: it may do anything.
const TORN_BYTES_MAX: usize = 1024 * 1024;
/// The number of the type `bytea` (`pg_type.dat`).
const BYTEA: u32 = 17;
/// So many settings with a dot are known of a database. If there are more, who touches any setting keeps its server.
const CUSTOM_MAX: usize = 1000;
/// So many statements that keep servers are remembered as told.
const TOLD_MAX: usize = 1000;
/// Knowledge of a database's functions that is older is renewed by who comes next,
const KNOWLEDGE_FRESH: Duration = Duration::from_secs(30);
/// and when it is older than this it is none: somebody else may have made functions meanwhile.
const KNOWLEDGE_AGE_MAX: Duration = Duration::from_secs(60);
