//! A client, and what becomes of the bytes it sends.
//!
//! Always true: a client that waits for a server keeps its bytes, unread, in the order in which they came; bytes that go to
//! its server are not copied; nothing is taken for a client whose connection does not take its answers.
//! Not here: how it came in (`admission::accept`, `admission::login`), how a loan begins and ends (`loan`).

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use base::{Key, Time};
use pool::{Haste, Mode, PoolKey, ServerKey};
use protocol::cancel::CancelKey;
use protocol::fault::Fault;
use protocol::loan::{ClientSession, Forwarded, Requests, Then, ToServer};
use protocol::prepared::Bytes;
use protocol::replication::Replication;
use protocol::state::Unseen;
use reactor::tls::Security;
use reactor::{Chunk, Conn, Io, Level, Peer, TimerId};
use serde::{Deserialize, Serialize};
use wire::{MESSAGE_BYTES_MAX, frontend};

use crate::admin::console::ConsoleClient;
use crate::admission::accept::Greeting;
use crate::admission::applicant::LoggingIn;
use crate::data::advance::are_asked_about;
use crate::data::claims::{Claimed, may_claim};
use crate::data::flow::{send_part, unpinned_for};
use crate::data::held::Held;
use crate::letters::Waits;
use crate::notify::join::Joining;
use crate::places::DatabasePlace;
use crate::turn::Worker;

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) conn: Conn,
    /// Its number in the logs and on the console.
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    /// How it is secured, if it is.
    pub(crate) security: Option<Arc<Security>>,
    /// When it was accepted.
    pub(crate) since: Time,
    /// When it last said something.
    pub(crate) asked: Time,
    /// When it was last left with nothing to wait for.
    pub(crate) answered: Time,
    pub(crate) timer: Option<(TimerId, Time)>,
    /// What it takes of the limits.
    pub(crate) seat: Seat,
    /// It is the control thread: nobody sees it, no limit counts it.
    pub(crate) is_own: bool,
    /// It is the control thread that listens for all: what it is told is for them.
    pub(crate) is_listener: bool,
    pub(crate) stage: Stage,
}

/// What a client takes of the limits; given back when it goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seat {
    /// Of `max_client_conn`.
    pub(crate) has_client_slot: bool,
    /// Of `max_user_client_connections`.
    pub(crate) has_user_slot: bool,
    /// Its place among the connections that have not logged in.
    pub(crate) unauthenticated: Option<NonZeroU64>,
    /// The database and user numbers among whose clients it is counted.
    pub(crate) counted: Option<(u32, u32)>,
}

/// What its conversation waits for.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Its startup packet.
    Greeting(Box<Greeting>),
    /// What it asked to be cancelled to be done, for so long.
    Cancelling(Waits),
    /// Its password, or the first server of its pool.
    Login(Box<LoggingIn>),
    /// Its queries.
    Ready(Ready),
    /// Its commands to the console.
    Console(Box<ConsoleClient>),
}

/// A client that is logged in to a pool.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) pool: PoolKey,
    /// What it has said and set.
    pub(crate) session: ClientSession,
    /// The stream that its server is for, which is its alone.
    pub(crate) replication: Option<Replication>,
    pub(crate) cancel_key: CancelKey,
    pub(crate) link: Link,
    /// The server that it has had last.
    pub(crate) last_server: Option<ServerKey>,
    /// Whether it is worth waiting for.
    pub(crate) haste: Haste,
    /// Whether a server of its pool has taken what it began with.
    pub(crate) is_taken: bool,
    pub(crate) is_paused: bool,
    pub(crate) is_notified: bool,
    /// Its server has gone in the middle of a message to it: anything more would be taken for the rest of that message.
    pub(crate) is_answer_torn: bool,
    /// A statement that it has said last, and that needs a database to itself.
    pub(crate) claimed: Option<Box<Claimed>>,
    /// It has said LISTEN, first of what is held, and needs no server for that.
    pub(crate) joins: Option<Box<Joining>>,
    /// What becomes of what it says, after an error of ours.
    pub(crate) skips: Skips,
    /// What it has said and nobody has looked at.
    pub(crate) held: Option<Box<Held>>,
}

/// What is skipped of what a client without a server says: the rest of a request that a rate limit has rejected, as PostgreSQL skips it after
/// an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Skips {
    #[default]
    Nothing,
    /// One message, which is a whole request.
    Message,
    /// All up to a Sync.
    UpToSync,
}

impl Skips {
    /// Whether a message of this kind is the last that is skipped.
    pub(crate) fn end_with(self, kind: u8) -> bool {
        self == Self::Message || self == Self::UpToSync && kind == frontend::SYNC
    }
}

/// Where a client stands with its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// It wants nothing.
    None,
    /// A rate limit delays it, since then.
    Delayed(Time),
    /// It waits for a server, since then.
    Waiting(Time),
    /// It has one.
    Loan(ServerKey),
}

impl Ready {
    /// The bytes that are remembered for it: its prepared statements, what it has said and no server has had, what its session has set and keeps.
    pub(crate) fn memory(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.len());
        self.session.memory() + held
    }

    pub(crate) fn new(pool: PoolKey, session: ClientSession, cancel_key: CancelKey) -> Self {
        Self {
            pool,
            session,
            replication: None,
            cancel_key,
            link: Link::None,
            last_server: None,
            haste: Haste::default(),
            is_taken: false,
            is_paused: false,
            is_notified: false,
            is_answer_torn: false,
            claimed: None,
            joins: None,
            skips: Skips::Nothing,
            held: None,
        }
    }

    /// Whether this is the server it has.
    pub(crate) fn has_loan_of(&self, server: ServerKey) -> bool {
        self.link == Link::Loan(server)
    }
}

impl Client {
    /// Since when it has been silent, where nothing is owed to it: what it waited for does not count.
    pub(crate) fn silent_since(&self) -> Time {
        self.asked.max(self.answered)
    }
}

impl<I: Io> Worker<I> {
    /// Bytes have come from a client.
    pub(crate) fn client_received(&mut self, key: Key, chunk: Chunk) {
        let Some(client) = self.clients.get_mut(key) else { return };
        client.asked = self.now;
        match &mut client.stage {
            Stage::Ready(ready) => {
                if let Some(pool) = self.places.pool(ready.pool) {
                    let database = pool.database as usize;
                    self.places.databases[database].totals.received += chunk.len() as u64;
                }
                self.hear(key, chunk);
            }
            Stage::Greeting(_) => self.greeted(key, chunk.bytes()),
            Stage::Cancelling(_) => {}
            Stage::Login(_) => self.login_received(key, chunk.bytes()),
            Stage::Console(_) => self.console_received(key, chunk.bytes()),
        }
    }

    /// A client that is logged in has said something.
    pub(crate) fn hear(&mut self, key: Key, chunk: Chunk) {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(key) else { return };
        let is_first = ready.held.is_none();
        match ready.link {
            Link::Loan(server) if is_first && self.may_forward(server) => self.forward(key, server, chunk),
            Link::None if is_first => self.take_in(key, chunk),
            _ => {
                let chunk = self.unpinned(chunk);
                let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
                let held = ready.held.get_or_insert_default();
                held.push(chunk);
                let is_full = held.len() > HELD_BYTES_MAX;
                if ready.link == Link::None && ready.joins.is_none() {
                    self.want_when_whole(key);
                    if self.rating.has_rejected {
                        self.skip_rejected(key);
                    }
                } else if is_full {
                    self.pause_client(key);
                }
            }
        }
    }

    /// Gives what a client has held back to its server, now that it may.
    pub(crate) fn forward_held(&mut self, key: Key) {
        loop {
            let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(key) else { return };
            let link = ready.link;
            let may_forward = matches!(link, Link::Loan(server) if self.may_forward(server));
            let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
            let server = match link {
                Link::Loan(server) if may_forward => server,
                Link::Loan(_) => return,
                Link::None | Link::Waiting(_) | Link::Delayed(_) => {
                    // The loan has ended with less than all that was held: the rest is looked at anew.
                    let rest = ready.held.take();
                    self.hold_again(key, rest);
                    return;
                }
            };
            let Some(chunk) = ready.pop_held() else { break };
            self.forward(key, server, chunk);
        }
        self.resume_client(key);
    }

    /// Puts what was held behind what has just been looked at.
    pub(crate) fn hold_again(&mut self, key: Key, rest: Option<Box<Held>>) {
        let Some(mut rest) = rest else { return };
        while let Some(chunk) = rest.pop() {
            self.hear(key, chunk);
        }
    }

    /// Sends what a client says to its server, message by message counted and byte by byte uncopied.
    pub(crate) fn forward(&mut self, key: Key, server_key: ServerKey, chunk: Chunk) {
        let mut next = Some(chunk);
        while let Some(chunk) = next {
            next = self.forward_some(key, server_key, chunk);
        }
    }

    /// The same, up to a message that something else takes the place of: that, and what comes behind it, is to be forwarded next.
    fn forward_some(&mut self, key: Key, server_key: ServerKey, chunk: Chunk) -> Option<Chunk> {
        if may_claim(chunk.bytes()) || self.has_claimed(key) {
            self.note_claim(key, server_key, chunk.bytes());
        }
        let length_max = self.message_bytes_max();
        let one_by_one = self.rating.counts_transactions && self.goes_one_by_one(key);
        let settings = &self.force.settings;
        let client = self.clients.get_mut(key)?;
        let Stage::Ready(ready) = &mut client.stage else { return None };
        let server = self.servers.get_mut(server_key)?;
        let place = self.places.pool(server.pool);
        let is_shared = server.private.is_none();
        let follows_statements = is_shared && place.is_some_and(|place| place.mode != Mode::Session);
        let follows = is_shared && place.is_some_and(|place| place.follows);
        let rules = place.map(|place| &place.pin_rules);
        let unseen = rules.map_or(Unseen::Verify, |rules| rules.unseen);
        let refusals = rules.filter(|rules| follows && rules.has_refusals()).cloned();
        let server_user = place.map_or(u32::MAX, |place| place.user);
        let DatabasePlace { totals, learned, changes, .. } = &mut self.places.databases[server.database as usize];
        let mut requests = Requests {
            now: self.now,
            client: key,
            length_max,
            statements_max: if follows_statements { settings.max_prepared_statements as usize } else { 0 },
            reuses_unnamed: settings.reuse_unnamed_statements,
            refuses_queries: settings.disable_pqexec,
            one_by_one,
            follows,
            unseen,
            refusals,
            server_user,
            changes: *changes,
            library: &mut self.library,
            texts: &mut self.texts,
            tracked: &self.force.tracked,
            learned,
            scopes: &mut self.places.scopes,
        };
        let conn = server.conn;
        let mut to_server = Parts { io: &mut self.io, conn, chunk: &chunk };
        let Forwarded { unsent, then, waits, begun, tally, makes_functions, is_alone } =
            requests.hear(&mut ready.session, &mut server.session, chunk.bytes(), &mut to_server);
        totals.add_statements(tally);
        server.queries_begin(begun, self.now, totals);
        let asks_in_advance = is_alone && are_asked_about(ready, server, chunk.bytes());
        let rest = match then {
            Then::Hold(at) => Some(chunk.part(at..chunk.len())),
            _ => None,
        };
        if unsent == (0..chunk.len()) {
            let chunk = unpinned_for(&self.io, conn, chunk);
            self.io.send(conn, chunk);
        } else {
            send_part(&mut self.io, conn, &chunk, unsent);
        }
        if makes_functions {
            self.tell_of_functions(server_key);
        }
        if asks_in_advance {
            self.ask_in_advance(server_key, key);
        }
        if waits {
            self.wait_for_answers(server_key, key, rest);
        }
        self.give_due(server_key);
        match then {
            Then::Go | Then::Hold(_) => {
                self.mind_flow_to_server(key, server_key);
                self.end_loan_after(key, server_key);
            }
            Then::Instead(bytes) => return Some(bytes.into()),
            Then::Leave => self.part_from_client(key, "client close request"),
            Then::Fail(fault) => {
                self.explain_statement(key, &fault);
                self.fail_client(key, &fault);
            }
        }
        None
    }

    /// Says in the log which statement it was.
    pub(crate) fn explain_statement(&mut self, client: Key, fault: &Fault) {
        let (name, what) = match fault {
            Fault::StatementUnknown { name } => (name, "not found"),
            Fault::StatementInUse { name } => (name, "was already prepared"),
            _ => return,
        };
        let line = self.client_prefix(client);
        self.log.add(Level::Error, format_args!("{line}prepared statement '{name}' {what}"));
    }

    /// The longest message that is taken from a client, by its length word.
    pub(crate) fn message_bytes_max(&self) -> u32 {
        self.force.settings.max_packet_size.min(MESSAGE_BYTES_MAX)
    }
}

/// Sends what the bytes of a client become.
struct Parts<'a, I: Io> {
    io: &'a mut I,
    conn: Conn,
    chunk: &'a Chunk,
}

impl<I: Io> ToServer for Parts<'_, I> {
    fn part(&mut self, range: Range<usize>) {
        send_part(self.io, self.conn, self.chunk, range);
    }

    fn send(&mut self, bytes: Bytes) {
        let chunk = match bytes {
            Bytes::Own(bytes) => Chunk::Own(bytes.into()),
            Bytes::Shared(bytes) => Chunk::Shared(bytes),
        };
        self.io.send(self.conn, chunk);
    }
}

/// Bytes that may wait for a server before the client is not listened to any more.
const HELD_BYTES_MAX: usize = 16_384;
