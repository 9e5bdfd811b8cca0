//! What a session keeps, where that follows clients (`session_state`): what they say is read, and their servers are asked.
//!
//! Always true: a loan in which something may have been touched ends only when its server has told what it has, and that is known
//! to follow; otherwise the server stays its client's, and is made clean or closed when that leaves.
//! Not here: what a text touches (crate `route`), what is asked and what the answer means (`protocol::state`).

use std::collections::BTreeSet;
use std::rc::Rc;

use base::planted::{self, Planted};
use pool::{ClientKey, PoolKey, ServerKey};
use protocol::fault::Fault;
use protocol::prepared::{Charge, Library};
use protocol::state::{Overrides, Traces};
use protocol::vars::Tracked;
use reactor::{Io, Level};
use route::{Cache, Class, Dialect, Encoding, Knowledge};
use wire::frame::Part;
use wire::{Piece, frontend, write};

use crate::client::{Client, Ready, Stage as ClientStage};
use crate::mend::UNPROVEN;
use crate::turn::Worker;

/// What gives a server back as it was when it logged in.
pub(crate) const DISCARD_ALL: &str = "DISCARD ALL";

/// Texts that have been read.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    cache: Cache,
}

/// As much of a text as has come.
#[derive(Debug)]
pub(crate) struct Torn {
    bytes: Vec<u8>,
    charge: Charge,
}

/// What is known of a database's texts and functions.
#[derive(Debug)]
pub(crate) struct Learned {
    /// What its functions do to sessions.
    knowledge: Option<Rc<Knowledge>>,
    /// What tells its texts from those of others, and from those read with older knowledge.
    scope: u32,
    /// Settings with a dot in their names that anybody has set: there is no list of them to be had.
    custom: BTreeSet<Box<str>>,
}

impl Learned {
    /// Nothing yet.
    pub(crate) fn new(scope: u32) -> Self {
        Self { knowledge: None, scope, custom: BTreeSet::new() }
    }
}

impl Learned {
    /// The settings with a dot that somebody has mentioned.
    pub(crate) fn custom(&self) -> impl Iterator<Item = &str> {
        self.custom.iter().map(|name| &**name)
    }

    /// Somebody mentions settings.
    pub(crate) fn mention<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let room = CUSTOM_MAX.saturating_sub(self.custom.len());
        self.custom.extend(names.take(room).map(Into::into));
    }
}

/// Reads what one client says.
pub(crate) struct Reading<'a> {
    texts: &'a mut Texts,
    learned: &'a mut Learned,
    dialect: Dialect,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(texts: &'a mut Texts, learned: &'a mut Learned, ready: &Ready, tracked: &Tracked) -> Self {
        let value = |name| tracked.place(name).and_then(|place| ready.vars.get(place));
        let dialect = Dialect {
            encoding: value("client_encoding").map_or(Encoding::Safe, Encoding::of),
            backslashes: value("standard_conforming_strings") == Some("off"),
        };
        Self { texts, learned, dialect }
    }

    /// Takes note of what a message touches.
    pub(crate) fn read(&mut self, ready: &mut Ready, library: &mut Library, piece: &Piece, bytes: &[u8]) {
        let body = &bytes[piece.body.clone()];
        if piece.is_whole() {
            self.message(ready, piece.kind, body);
        } else if matches!(piece.part, Part::First { .. }) {
            match piece.kind {
                frontend::QUERY | frontend::PARSE => {
                    if planted::is(Planted::TornTextUnread) {
                        return;
                    }
                    ready.torn_text =
                        library.charge(body.len()).map(|charge| Box::new(Torn { bytes: body.into(), charge }));
                    if ready.torn_text.is_none() {
                        traces(ready).unheard();
                    }
                }
                // What it is about comes first; its values may be long.
                frontend::BIND => self.message(ready, piece.kind, body),
                frontend::FUNCTION_CALL => {
                    let is_known = body.len() >= 4;
                    if is_known { self.message(ready, piece.kind, body) } else { traces(ready).dark() }
                }
                _ => {}
            }
        } else if let Some(mut torn) = ready.torn_text.take() {
            if !torn.charge.grow(body.len()) {
                traces(ready).unheard();
                return;
            }
            torn.bytes.extend_from_slice(body);
            match piece.is_last() {
                true => self.message(ready, piece.kind, &torn.bytes),
                false => ready.torn_text = Some(torn),
            }
        }
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
                let statement = name(body).and_then(|portal| name_behind(body, portal.len() + 1));
                match statement {
                    Some(statement) => traces.bound(statement),
                    None => traces.dark(),
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

    fn class(&mut self, ready: &Ready, text: Option<&[u8]>) -> Rc<Class> {
        let is_in_doubt = ready.traces.as_ref().is_some_and(|traces| traces.is_dialect_in_doubt());
        let Some(text) = text else { return Rc::new(Class::unread()) };
        let knowledge = self.learned.knowledge.as_deref();
        let class = self.texts.cache.class(text, self.dialect, self.learned.scope, knowledge);
        if !class.mentions.is_empty() {
            self.learned.mention(class.mentions.iter().map(|name| &**name));
        }
        if is_in_doubt { Rc::new(Class::unread()) } else { class }
    }
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
        let of_functions = learned.knowledge.iter().flat_map(|knowledge| knowledge.settings());
        look.add_custom(learned.custom.iter().map(|name| &**name).chain(own).chain(of_functions));
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
        let had_holds = !traces.holds().is_empty();
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
                traces.seen(&seen);
                ready.overrides.clone_from(&overrides);
                server.overrides = overrides;
                self.learn(server_key, seen.knowledge);
            }
            None => traces.unseen(),
        }
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get(client_key) else { return };
        let Some(traces) = &ready.traces else { return };
        if traces.holds().is_empty() || planted::is(Planted::PinForgotten) {
            let is_forgotten = !traces.holds().is_empty();
            if is_forgotten
                && let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key)
            {
                ready.traces = None;
            }
            self.end_loan_if_over(server_key, client_key);
            return;
        }
        if !had_holds {
            let holds: Vec<String> =
                traces.holds().iter().map(|hold| format!("{} {}", hold.kind.word(), hold.what)).collect();
            let line = self.client_prefix(client_key);
            self.log.add(Level::Log, format_args!("{line}keeps its server: {}", holds.join(", ")));
        }
        self.arm_server(server_key);
        self.forward_held(client_key);
    }

    fn learn(&mut self, server: ServerKey, knowledge: Option<Knowledge>) {
        let (Some(server), Some(knowledge)) = (self.servers.get(server), knowledge) else { return };
        self.places.scopes += 1;
        let learned = &mut self.places.databases[server.database as usize].learned;
        (learned.knowledge, learned.scope) = (Some(Rc::new(knowledge)), self.places.scopes);
    }

    /// From now on the state of sessions follows the clients of a pool, or does no longer: what its servers have is not known.
    pub(crate) fn begin_anew(&mut self, pool: PoolKey) {
        self.tell_pools(pool::Event::Retire { pool });
        for (_, client) in self.clients.iter_mut() {
            if let ClientStage::Ready(ready) = &mut client.stage
                && ready.pool == pool
            {
                ready.overrides = None;
                ready.traces = Some(Box::new(Traces::unread(true)));
            }
        }
    }
}

/// So many settings with a dot are known of a database; of more, values may stay behind on a server that is asked about any.
const CUSTOM_MAX: usize = 1000;
