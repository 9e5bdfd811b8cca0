//! A client: what is known of it, wherever it stands.
//!
//! Always true: a stage carries what exists only in it; a client has one server at most.
//! Not here: what becomes of what it says (`hear`, `forward`), how it came in (`admission`).

use std::num::NonZeroU64;
use std::sync::Arc;

use base::{Slab, Time};
use pool::{ClientKey, HoldHistory, PoolKey, ServerKey};
use protocol::cancel::CancelKey;
use protocol::loan::ClientSession;
use protocol::replication::Replication;
use reactor::tls::Security;
use reactor::{Chunk, Conn, Peer, TimerId};
use wire::{Scanner, Step, frontend};

use crate::admin::console::ConsoleClient;
use crate::admission::applicant::LoggingIn;
use crate::admission::greeting::Greeting;
use crate::data::claims::Claimed;
use crate::data::client::Stage as ClientStage;
use crate::data::held::{Held, Skips, first_request};
use crate::letters::Waits;
use crate::measured::Meter;
use crate::notify::listening::Joining;
use crate::tracers::Mask;

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
    /// Which tracers of the console are about it.
    pub(crate) tracers: Mask,
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
#[allow(clippy::large_enum_variant)] // Nearly all clients are ready: a box would cost each message a step.
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
    pub(crate) hold_history: HoldHistory,
    /// Whether a server of its pool has taken what it began with.
    pub(crate) is_taken: bool,
    pub(crate) is_paused: bool,
    pub(crate) is_notified: bool,
    /// Its server has gone in the middle of a message to it: anything more would be taken for the rest of that message.
    pub(crate) is_answer_torn: bool,
    /// It is closed as soon as it has been given what is withheld from it: nothing more is taken from it.
    pub(crate) is_leaving: bool,
    /// A statement that it has said last, and that needs a database to itself.
    pub(crate) claimed: Option<Box<Claimed>>,
    /// It has said LISTEN, first of what is held, and needs no server for that.
    pub(crate) joins: Option<Box<Joining>>,
    /// What becomes of what it says, after an error of ours.
    pub(crate) skips: Skips,
    /// What it has said and nobody has looked at.
    pub(crate) held: Option<Box<Held>>,
    /// Where the time of its present transaction goes.
    pub(crate) meter: Meter,
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
            hold_history: HoldHistory::default(),
            is_taken: false,
            is_paused: false,
            is_notified: false,
            is_answer_torn: false,
            is_leaving: false,
            claimed: None,
            joins: None,
            skips: Skips::Nothing,
            held: None,
            meter: Meter::default(),
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

impl Ready {
    /// The first bytes that are held.
    pub(crate) fn pop_held(&mut self) -> Option<Chunk> {
        let held = self.held.as_mut()?;
        let chunk = held.pop();
        if held.is_empty() {
            self.held = None;
        }
        chunk
    }

    /// What it has said and nobody has looked at, if that has come in one piece.
    pub(crate) fn held_in_one_piece(&self) -> Option<&[u8]> {
        self.held.as_ref().and_then(|held| held.in_one_piece())
    }

    /// Whether what is held ends with a Terminate.
    pub(crate) fn has_said_goodbye(&self) -> bool {
        let Some(held) = self.held.as_ref() else { return false };
        let mut scanner = self.session.scanner.clone();
        let mut is_goodbye = false;
        for bytes in held.chunks() {
            let mut at = 0;
            while let Step::Piece(piece) = scanner.next(bytes, at, u32::MAX) {
                is_goodbye = piece.kind == frontend::TERMINATE && piece.is_last();
                at = piece.range.end;
                if at == bytes.len() {
                    break;
                }
            }
        }
        is_goodbye
    }

    /// Forgets the first request that is held, if it is there whole, and the Syncs that stand alone before it: how many.
    pub(crate) fn drop_first_request(&mut self) -> Option<usize> {
        let held = self.held.as_ref()?;
        let mut bytes: Vec<u8> = self.session.scanner.torn_header().to_vec();
        bytes.extend(held.bytes());
        let first = first_request(&bytes)?;
        bytes.drain(..first.end);
        self.session.scanner = Scanner::default();
        self.held = (!bytes.is_empty()).then(|| {
            let mut held = Held::default();
            held.push(bytes.into());
            Box::new(held)
        });
        Some(first.syncs)
    }

    /// The kind and declared length of the message that begins next, as far as its header is here.
    pub(crate) fn next_header(&self) -> Option<(u8, u32)> {
        let mut header = [0; 5];
        let torn = self.session.scanner.torn_header();
        let held = self.held.iter().flat_map(|held| held.bytes());
        let mut bytes = torn.iter().copied().chain(held);
        for place in &mut header {
            *place = bytes.next()?;
        }
        Some((header[0], u32::from_be_bytes([header[1], header[2], header[3], header[4]])))
    }
}

/// Whether a client's notifications are looked at.
pub(crate) fn has_subscriptions(clients: &Slab<Client>, client: ClientKey) -> bool {
    subscriptions_and_session_effects(clients, Some(client)).0
}

/// The same, and whether it may have changed something in its session.
pub(crate) fn subscriptions_and_session_effects(clients: &Slab<Client>, client: Option<ClientKey>) -> (bool, bool) {
    match client.and_then(|client| clients.get(client)) {
        Some(Client { is_listener, stage: ClientStage::Ready(ready), .. }) => {
            (*is_listener || ready.session.subscriptions.is_some(), ready.session.session_effects.is_some())
        }
        Some(Client { is_listener, .. }) => (*is_listener, false),
        None => (false, false),
    }
}
