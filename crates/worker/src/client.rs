//! A client, and what becomes of the bytes it sends.
//!
//! Always true: a client that waits for a server keeps its bytes, unread, in the order in which they came; bytes that go to
//! its server are not copied; nothing is taken for a client whose connection does not take its answers.
//! Not here: how it came in (`accept`, `login`), how a loan begins and ends (`loan`).

use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;

use base::planted::{self, Planted};
use base::{Key, Time};
use config::Unseen;
use pool::{Haste, PoolKey, ServerKey};
use protocol::cancel::CancelKey;
use protocol::exchange::{Asked, Exchange};
use protocol::fault::Fault;
use protocol::prepared::{Account, Kept, Moment, Names, Tally, Unnamed, may_be_refused};
use protocol::replication::Replication;
use protocol::state::{Asking, Counting, Ear, Overrides, Traces};
use protocol::vars::Vars;
use reactor::tls::Security;
use reactor::{Chunk, Conn, Io, Peer, TimerId};
use serde::{Deserialize, Serialize};
use wire::backend::TxStatus;
use wire::frame::Part;
use wire::{MESSAGE_BYTES_MAX, Scanner, Step, frontend};

use crate::accept::Greeting;
use crate::advance::are_asked_about;
use crate::applicant::LoggingIn;
use crate::claims::{Claimed, may_claim};
use crate::console::ConsoleClient;
use crate::flow::send_part;
use crate::held::Held;
use crate::join::Joining;
use crate::letters::Waits;
use crate::places::DatabasePlace;
use crate::reading::{Reading, Torn, may_name_ours};
use crate::statements::{Collected, Following, Taken};
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
    /// The number of the user it logged in as.
    pub(crate) user: u32,
    /// The stream that its server is for, which is its alone.
    pub(crate) replication: Option<Replication>,
    pub(crate) vars: Rc<Vars>,
    /// The parameters that its session began with.
    pub(crate) began: Rc<Vars>,
    pub(crate) cancel_key: CancelKey,
    pub(crate) scanner: Scanner,
    pub(crate) link: Link,
    /// The server that it has had last.
    pub(crate) last_server: Option<ServerKey>,
    /// What becomes of the rest of the message whose beginning is known.
    pub(crate) fate: Fate,
    /// Its prepared statements, once it has any.
    pub(crate) names: Option<Box<Names>>,
    /// The one without a name.
    pub(crate) unnamed: Unnamed,
    /// What it holds of these, and of messages that are being received.
    pub(crate) account: Account,
    /// The beginning of a message that cannot be understood yet.
    pub(crate) collected: Option<Box<Collected>>,
    /// What its session began with, where that follows it: what RESET goes back to.
    pub(crate) given: Option<Rc<Overrides>>,
    /// What it has set in its session, where that follows it.
    pub(crate) overrides: Option<Rc<Overrides>>,
    /// The settings with a dot that it has ever mentioned where it may have set them ([`Likeness::placeholders`]).
    pub(crate) placeholders: u64,
    /// Whether it is worth waiting for.
    pub(crate) haste: Haste,
    /// What it listens to, where somebody does that for all.
    pub(crate) ear: Option<Box<Ear>>,
    /// What it may have changed in its session since that was last known.
    pub(crate) traces: Option<Box<Traces>>,
    /// What its transaction does with numbers of sequences.
    pub(crate) counting: Counting,
    /// A text that it is saying, if that has to be read.
    pub(crate) torn_text: Option<Box<Torn>>,
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

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Fate {
    Forward,
    Drop,
    /// It is kept until it is known which statement it concerns.
    Collect,
}

impl Ready {
    /// The bytes that are remembered for it: its prepared statements, what it has said and no server has had, what its session has set and keeps.
    pub(crate) fn memory(&self) -> usize {
        let held = self.held.as_ref().map_or(0, |held| held.len());
        let set = self.overrides.as_ref().map_or(0, |overrides| overrides.bytes());
        self.account.held() + held + set + self.traces.as_ref().map_or(0, |traces| traces.bytes())
    }

    pub(crate) fn new(pool: PoolKey, user: u32, vars: Rc<Vars>, cancel_key: CancelKey) -> Self {
        Self {
            pool,
            user,
            replication: None,
            began: vars.clone(),
            vars,
            cancel_key,
            scanner: Scanner::default(),
            link: Link::None,
            last_server: None,
            fate: Fate::Forward,
            names: None,
            unnamed: Unnamed::default(),
            account: Account::default(),
            collected: None,
            overrides: None,
            traces: None,
            counting: Counting::default(),
            haste: Haste::default(),
            ear: None,
            given: None,
            placeholders: 0,
            torn_text: None,
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

    /// Whether a message is half forwarded, so that its server cannot be taken away.
    pub(crate) fn is_torn(&self) -> bool {
        self.scanner.is_in_body() && self.fate == Fate::Forward && !planted::is(Planted::HalfMessageLeftBehind)
    }

    /// Whether the message that begins with this byte begins a request, or goes on with one, and has to wait until another one is answered.
    fn next_waits(&self, exchange: &Exchange, first: u8) -> bool {
        let kind = self.scanner.torn_header().first().copied().unwrap_or(first);
        let is_of_copy = matches!(kind, frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL);
        let is_of_request = !is_of_copy && !matches!(kind, frontend::FLUSH | frontend::TERMINATE);
        is_of_request && !self.scanner.is_in_body() && exchange.awaits_ready()
    }

    /// Whether a message has begun of which its server has heard nothing yet.
    pub(crate) fn is_collecting(&self) -> bool {
        self.collected.is_some()
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
        let is_query_refused = self.force.settings.disable_pqexec;
        let one_by_one = self.rating.counts_transactions && self.goes_one_by_one(key);
        let shared = self.servers.get(server_key).filter(|server| server.private.is_none());
        let max = shared.map_or(0, |server| self.statements_max(server.pool));
        let client = self.clients.get_mut(key)?;
        let Stage::Ready(ready) = &mut client.stage else { return None };
        let server = self.servers.get_mut(server_key)?;
        let (library, tracked) = (&mut self.library, &self.force.tracked);
        let moment = Moment { now: self.now, changes: self.places.databases[server.database as usize].changes };
        let follows = server.private.is_none() && self.places.pool(server.pool).is_some_and(|place| place.follows);
        let (tally, reuses) = (Tally::default(), self.force.settings.reuse_unnamed_statements);
        let mut following = Following { max, follows, reuses, library, moment, tracked, tally, unbound: None };
        let place = self.places.pool(server.pool);
        let (rules, user) = (place.map(|place| &place.pin_rules), place.map_or(u32::MAX, |place| place.user));
        let unseen = rules.map_or(Unseen::Verify, |rules| rules.unseen);
        let rules = rules.filter(|rules| follows && rules.has_refusals()).cloned();
        let DatabasePlace { totals, learned, .. } = &mut self.places.databases[server.database as usize];
        let learned = (learned, user, unseen, &mut self.places.scopes);
        let mut reading = follows.then(|| Reading::new(&mut self.texts, learned, ready, tracked, self.now));
        let bytes = chunk.bytes();
        let kept = match (max, reuses) {
            (0, _) => Kept::Nothing,
            (_, false) => Kept::Named,
            (_, true) => Kept::All,
        };
        let has_statements = ready.overrides.as_ref().is_some_and(|overrides| !overrides.statements().is_empty());
        server.is_verified = false;
        let is_between = follows && server.exchange.owes_nothing() && server.exchange.status() == TxStatus::Idle;
        let is_between = is_between && ready.traces.as_mut().is_none_or(|traces| traces.begins_request());
        if server.again.is_sent() {
            server.again.forget();
        } else if may_be_refused(bytes, kept, has_statements)
            && server.exchange.owes_client_nothing()
            && server.exchange.status() == TxStatus::Idle
            && !ready.is_torn()
        {
            server.again.keep(bytes);
        }
        let (mut start, mut at) = (0, 0);
        let mut fault = None;
        let (mut leaves, mut waits) = (false, false);
        let mut instead: Option<Vec<u8>> = None;
        while at < bytes.len() && (ready.scanner.is_in_body() || !server.exchange.is_full()) {
            waits = one_by_one && ready.next_waits(&server.exchange, bytes[at]);
            if waits {
                break;
            }
            let piece = match ready.scanner.next(bytes, at, length_max) {
                Step::Piece(piece) => piece,
                Step::More => {
                    // The torn header is kept by the scanner and sent with the rest of its message.
                    send_part(&mut self.io, server.conn, &chunk, start..at);
                    start = bytes.len();
                    break;
                }
                Step::Bad { .. } => {
                    fault = Some(Fault::BadHeader { header: *ready.scanner.header() });
                    break;
                }
            };
            if let (Some(rules), Some(reading)) = (&rules, &mut reading)
                && let Some(mut message) = reading.refused(rules, ready, &piece, bytes)
            {
                message.extend_from_slice(&bytes[piece.range.end..]);
                instead = Some(message);
                break;
            }
            if following.deallocates(&mut self.io, ready, server, &chunk, start, &piece) {
                server.query_begins(self.now, totals);
                (start, at) = (piece.range.end, piece.range.end);
                continue;
            }
            if let Some(reading) = &mut reading {
                if max == 0 && may_name_ours(&piece, bytes) {
                    server.told_by.doubt();
                }
                reading.read(ready, following.library, &piece, bytes);
                server.placeholders |= reading.placeholders();
                if let Some(class) = reading.says_names()
                    && following.brings(&mut self.io, ready, server, &chunk, start, &piece, &class)
                {
                    start = piece.range.start;
                }
                if let Some(asking) = ready.counting.asking() {
                    reading.note_asker(ready.user);
                    let is_between = piece.is_whole() && server.exchange.owes_nothing() && server.exchange.is_proven();
                    if asking == Asking::First && is_between && server.drawers.are_others() {
                        send_part(&mut self.io, server.conn, &chunk, start..piece.range.start);
                        start = piece.range.start;
                        server.forget_numbers(&mut self.io, key);
                    }
                }
            }
            if is_query_refused && piece.kind == frontend::QUERY && matches!(piece.part, Part::First { .. }) {
                ready.fate = Fate::Drop;
                fault = Some(Fault::QueryDisallowed);
                break;
            }
            let was_at_rest = server.exchange.owes_client_nothing();
            let taken = following.take(&mut self.io, ready, server, &chunk, start, &piece);
            if let Taken::UpTo(here) = taken {
                (start, at) = (here, piece.range.end);
                if was_at_rest && !server.exchange.owes_client_nothing() {
                    server.query_begins(self.now, totals);
                }
                continue;
            } else if let Taken::From(here) = taken {
                start = here;
            } else if let Taken::Wrong(why) = taken {
                fault = Some(why);
                break;
            }
            if let Part::First { carried, .. } = piece.part {
                if piece.kind == frontend::TERMINATE {
                    leaves = true;
                    break;
                }
                ready.fate = match server.exchange.asked(piece.kind) {
                    Asked::Forward => Fate::Forward,
                    Asked::Drop => Fate::Drop,
                    Asked::Unexpected => {
                        ready.fate = Fate::Drop;
                        let in_copy = server.exchange.is_copying_in();
                        fault = Some(if in_copy { Fault::UnexpectedInCopy } else { Fault::UnknownMessage });
                        break;
                    }
                };
                if was_at_rest && !server.exchange.owes_client_nothing() {
                    server.query_begins(self.now, totals);
                } else if planted::is(Planted::QueriesCountedTwice) {
                    totals.query_count += 1;
                }
                if carried > 0 && ready.fate == Fate::Forward {
                    let torn = &ready.scanner.header()[..usize::from(carried)];
                    self.io.send(server.conn, Chunk::Own(torn.into()));
                }
            }
            if ready.fate == Fate::Drop {
                send_part(&mut self.io, server.conn, &chunk, start..piece.range.start);
                start = piece.range.end;
            } else if planted::is(Planted::MiddleSentTwice) && piece.part == Part::Later && !piece.is_last() {
                send_part(&mut self.io, server.conn, &chunk, piece.range.clone());
            }
            at = piece.range.end;
        }
        let is_full = server.exchange.is_full() || waits;
        let is_over = fault.is_some() || leaves || instead.is_some();
        let rest = (is_full && !is_over && at < bytes.len()).then(|| chunk.part(at..bytes.len()));
        let end = if is_over || rest.is_some() { at } else { bytes.len() };
        following.end_of_chunk(ready, bytes);
        totals.add_statements(following.tally);
        // Whoever says so time and again is told of once, until its transaction has ended.
        let makes_functions = reading.is_some_and(|reading| reading.makes_functions()) && !server.makes_functions;
        server.makes_functions |= makes_functions;
        let conn = server.conn;
        let is_whole = start == 0 && end == bytes.len();
        let asks_in_advance = is_whole && is_between && ready.traces.is_some() && are_asked_about(ready, server, bytes);
        if is_whole {
            let chunk = self.unpinned_for(conn, chunk);
            self.io.send(conn, chunk);
        } else {
            send_part(&mut self.io, conn, &chunk, start..end);
        }
        if makes_functions {
            self.tell_of_functions(server_key);
        }
        if asks_in_advance {
            self.ask_in_advance(server_key, key);
        }
        if is_full {
            self.wait_for_answers(server_key, key, rest);
        }
        self.give_due(server_key);
        if let Some(fault) = fault {
            self.explain_statement(key, &fault);
            self.fail_client(key, &fault);
        } else if leaves {
            self.part_from_client(key, "client close request");
        } else if let Some(instead) = instead {
            return Some(instead.into());
        } else {
            self.mind_flow_to_server(key, server_key);
            self.end_loan_after(key, server_key);
        }
        None
    }

    /// The longest message that is taken from a client, by its length word.
    pub(crate) fn message_bytes_max(&self) -> u32 {
        self.force.settings.max_packet_size.min(MESSAGE_BYTES_MAX)
    }
}

/// Bytes that may wait for a server before the client is not listened to any more.
const HELD_BYTES_MAX: usize = 16_384;
