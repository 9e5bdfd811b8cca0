//! A server connection of the pooler and the PostgreSQL behind it, with all bytes under way between the two, and a
//! client.
//!
//! The pooler's side uses its machines as `worker` does: `protocol::loan` reads every byte of the client and of the
//! server, a loan ends when the exchange says so, and a server that its client left is cleaned up.
//!
//! Always true, and asserted at every step: a client receives what the server sent for it, complete and in order, and
//! nothing else; the server receives what the client sent, once and in order, except for what arrives too late to have
//! an effect; a server that is lent again, or was cleaned up, is really at rest, with nothing under way that could
//! still be answered. All of this holds however the bytes are cut. No answer is a protocol violation, except to a client that
//! breaks the protocol while answers are under way; and with a client that keeps to the protocol no cleanup waits for
//! ever.

use std::collections::VecDeque;

use base::Random;
use protocol::exchange::Exchange;
use protocol::loan::{NextStep, Place, ServerEvent};
use protocol::server::cleanup::{Cleanup, Progress};
use protocol::server::reset::ResetQuery;

use super::machines::Machines;
use super::messages;
use super::postgres::{self, Asks, Does, Postgres};

/// How a client behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// It keeps to the protocol.
    Polite,
    /// It sends any message, but waits for each answer.
    Prompt,
    /// It sends any message at any time.
    Rude,
}

/// The sender of a message to the server: the pooler itself, or the client of this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    Us,
    Client(u32),
}

/// The state of the server connection in the pooler.
#[derive(Debug)]
enum Stage {
    Idle,
    /// It runs a query of the pooler before the first message of the loan.
    CatchingUp,
    Lent,
    Mending(Cleanup),
    /// It is closed, or its process is gone.
    Over,
}

/// A message of a client.
#[derive(Clone, Debug)]
struct Said {
    client: u32,
    asks: Asks,
    bytes: Vec<u8>,
    /// It arrived together with one for which the client was refused.
    is_refused: bool,
}

impl Said {
    /// Returns whether the server need not receive it: it may belong to a COPY that has failed, or to none.
    fn may_be_dropped(&self) -> bool {
        self.is_refused || !self.asks.may_be_answered()
    }
}

/// A message of the server; one that it sends unasked has no asker.
#[derive(Clone, Debug)]
struct Spoken {
    asker: Option<Asker>,
    kind: u8,
    bytes: Vec<u8>,
    /// Its position in all bytes that the server has sent.
    from: usize,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Pair {
    machines: Machines,
    postgres: Postgres,
    stage: Stage,
    manner: Manner,
    /// Cuts the streams; `None` if each message arrives whole and alone.
    cuts: Option<Random>,
    /// The number of the present client.
    client: u32,
    /// Number of messages made.
    made: u32,
    /// Messages that the client has sent and the pooler has not read completely; the next field is how much of the
    /// first was read.
    unheard: VecDeque<Said>,
    unheard_from: usize,
    /// Messages of clients that the pooler has read, at least in part, and the server has not read.
    unread: VecDeque<Said>,
    /// Bytes under way to the server.
    there: Vec<u8>,
    /// Messages under way from the server; the next field is how much of the first the pooler has read.
    back: VecDeque<Spoken>,
    back_from: usize,
    /// Messages of the server that the pooler has read, at least in part, and the client has not received.
    ungiven: VecDeque<Spoken>,
    /// Number of bytes that the server has sent, and number of those that the pooler has handled.
    spoken: usize,
    decided: usize,
    /// The beginning of a message that the client is receiving.
    given: Vec<u8>,
    /// What the reset query does.
    reset: Option<Does>,
}

impl Pair {
    pub(crate) fn new(manner: Manner, reset: Option<Does>) -> Self {
        Self {
            machines: Machines::new(),
            postgres: Postgres::default(),
            stage: Stage::Idle,
            manner,
            cuts: None,
            client: 0,
            made: 0,
            unheard: VecDeque::new(),
            unheard_from: 0,
            unread: VecDeque::new(),
            there: Vec::new(),
            back: VecDeque::new(),
            back_from: 0,
            ungiven: VecDeque::new(),
            spoken: 0,
            decided: 0,
            given: Vec::new(),
            reset,
        }
    }

    /// The same with streams that are cut anywhere; messages may also arrive together.
    pub(crate) fn in_parts(self, seed: u64) -> Self {
        Self { cuts: Some(Random::new(seed)), ..self }
    }

    pub(crate) fn exchange(&self) -> &Exchange {
        &self.machines.server.exchange
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Returns whether a client may send to the server.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Idle | Stage::Lent)
    }

    pub(crate) fn is_lent(&self) -> bool {
        matches!(self.stage, Stage::Lent)
    }

    /// Returns whether a message under way may begin a COPY FROM STDIN.
    pub(crate) fn may_become_copy(&self) -> bool {
        let mut said = self.unread.iter().chain(&self.unheard);
        said.any(|said| said.asks.does == Does::CopiesIn && matches!(said.asks.kind, b'Q' | b'E'))
            || self.back.iter().any(|spoken| spoken.kind == b'G')
    }

    /// A query of the pooler goes first, as when the client has other parameters than the server.
    pub(crate) fn catch_up(&mut self, does: Does) {
        if matches!(self.stage, Stage::Idle) {
            self.lend();
            self.stage = Stage::CatchingUp;
            self.machines.server.exchange.asks_ours();
            wire::write::message(&mut self.there, b'Q', |out| out.extend([OURS, does as u8]));
        }
    }

    fn lend(&mut self) {
        assert!(self.exchange().may_end() && self.exchange().is_proven());
        self.stage = Stage::Lent;
    }

    /// The client sends a message. Returns whether it may go on.
    pub(crate) fn client_says(&mut self, asks: Asks) -> bool {
        if !self.is_open() {
            return true;
        }
        self.made += 1;
        let mut bytes = Vec::new();
        wire::write::message(&mut bytes, asks.kind, |out| {
            // PostgreSQL refuses a Flush that has a body.
            if asks.kind == b'H' {
                return;
            }
            out.extend([THEIRS, asks.does as u8]);
            out.extend(self.client.to_be_bytes());
            out.extend(self.made.to_be_bytes());
            out.resize(out.len() + self.made as usize * 7 % 23, b'x');
        });
        self.unheard.push_back(Said { client: self.client, asks, bytes, is_refused: false });
        let Some(random) = &mut self.cuts else { return self.pooler_hears_client(usize::MAX) };
        let parts: Vec<usize> = (0..random.below(5)).map(|_| part(random)).collect();
        parts.into_iter().all(|bytes| self.pooler_hears_client(bytes))
    }

    /// All that the client has sent arrives. Returns whether it may go on.
    pub(crate) fn client_is_heard(&mut self) -> bool {
        while self.is_open() && !self.unheard.is_empty() {
            let bytes = self.cuts.as_mut().map_or(usize::MAX, part);
            if !self.pooler_hears_client(bytes) {
                return false;
            }
        }
        true
    }

    /// So many bytes of the client arrive at once. Returns whether it may go on.
    fn pooler_hears_client(&mut self, bytes: usize) -> bool {
        // A message that needs no server does not get one (`worker::data::client`).
        while matches!(self.stage, Stage::Idle)
            && self.unheard_from == 0
            && self.unheard.front().is_some_and(|said| !said.asks.may_be_answered())
        {
            self.unheard.pop_front();
        }
        if !self.is_open() || self.unheard.is_empty() {
            return true;
        }
        if matches!(self.stage, Stage::Idle) {
            self.lend();
        }
        let heard_before = self.unread.len();
        let chunk = self.next_of_client(bytes);
        let next_step = self.machines.hear_client(&chunk, &mut self.there);
        if let NextStep::Fail(fault) = next_step {
            assert!(self.manner != Manner::Polite, "a polite client is refused, {fault:?}: {self:?}");
            // A message that was begun before may be the refused one, if only part of its header had arrived.
            self.unread.iter_mut().skip(heard_before.saturating_sub(1)).for_each(|said| said.is_refused = true);
            return false;
        }
        assert_eq!(next_step, NextStep::Go);
        self.may_have_ended();
        true
    }

    fn next_of_client(&mut self, bytes: usize) -> Vec<u8> {
        let mut chunk = Vec::new();
        while chunk.len() < bytes
            && let Some(said) = self.unheard.front()
        {
            if self.unheard_from == 0 {
                self.unread.push_back(said.clone());
            }
            let end = said.bytes.len().min(self.unheard_from.saturating_add(bytes - chunk.len()));
            chunk.extend_from_slice(&said.bytes[self.unheard_from..end]);
            self.unheard_from = end;
            if end == said.bytes.len() {
                self.unheard.pop_front();
                self.unheard_from = 0;
            }
        }
        chunk
    }

    /// The client has gone; with `is_torn` in the middle of a message.
    pub(crate) fn client_leaves(&mut self, is_torn: bool) {
        let is_torn = is_torn || self.machines.client.is_torn();
        if self.unheard_from > 0
            && let Some(said) = self.unread.back_mut()
        {
            // The message is not sent completely, or not at all.
            said.is_refused = true;
        }
        self.unheard.clear();
        self.unheard_from = 0;
        self.given.clear();
        self.client += 1;
        self.machines.next_client();
        if !matches!(self.stage, Stage::Lent | Stage::CatchingUp) {
            return;
        }
        if is_torn {
            self.stage = Stage::Over;
            return;
        }
        if self.exchange().may_end() && self.exchange().is_proven() {
            if self.machines.server.is_in_message() {
                // The rest of it must not be sent to the next client.
                self.stage = Stage::Over;
            } else {
                self.ends();
            }
            return;
        }
        let mut out = Vec::new();
        let reset = self.reset.map(|_| ResetQuery::new(RESET));
        let (cleanup, progress) = Cleanup::begin(&mut self.machines.server.exchange, reset.as_ref(), &mut out);
        self.stage = Stage::Mending(cleanup);
        self.there.extend(out);
        if progress == Progress::WantsCancel {
            self.postgres.cancel();
        }
        self.progresses(progress);
    }

    fn progresses(&mut self, progress: Progress) {
        match progress {
            Progress::Wait | Progress::WantsCancel => {}
            Progress::Clean => self.ends(),
            Progress::Hopeless => self.stage = Stage::Over,
        }
    }

    /// Ends the loan, if nothing is owed any more.
    fn may_have_ended(&mut self) {
        let is_half_said = self.machines.client.is_torn() || self.machines.server.is_in_message();
        if matches!(self.stage, Stage::Lent) && self.exchange().may_end() && !is_half_said {
            if self.exchange().is_proven() { self.ends() } else { self.stage = Stage::Over }
        }
    }

    /// The server may be lent to another client, so it must be at rest.
    fn ends(&mut self) {
        self.stage = Stage::Idle;
        if self.postgres.is_dead() {
            return;
        }
        assert!(self.postgres.is_at_rest(), "given back, but not at rest: {self:?}");
        let on_their_way = messages(&self.there);
        assert!(
            on_their_way.iter().all(|(kind, _)| matches!(kind, b'H' | b'd' | b'c' | b'f')),
            "given back with a question: {self:?}"
        );
        let decided = self.decided;
        let is_heard = |spoken: &Spoken| spoken.from + spoken.bytes.len() <= decided;
        let (heard, coming): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ungiven).into_iter().partition(is_heard);
        assert!(
            coming.iter().chain(&self.back).all(|spoken| spoken.asker.is_none()),
            "given back with an answer: {self:?}"
        );
        assert!(
            heard.iter().all(|spoken| spoken.asker != Some(Asker::Client(self.client))),
            "an answer was given to nobody: {heard:?}, {self:?}"
        );
        assert!(self.given.is_empty(), "given back in the middle of an answer: {self:?}");
        self.ungiven = coming.into();
    }

    /// PostgreSQL reads the next message. Returns whether there was one.
    pub(crate) fn server_reads(&mut self) -> bool {
        let Some(length) = self.there.get(1..5).map(|word| u32::from_be_bytes(word.try_into().expect("four bytes")))
        else {
            return false;
        };
        if self.there.len() <= length as usize {
            return false;
        }
        let message: Vec<u8> = self.there.drain(..=length as usize).collect();
        let (asker, asks) = match message.get(5) {
            Some(&THEIRS) => self.read_of_client(&message),
            _ => (Asker::Us, self.ours(&message)),
        };
        let is_ours_to_end = asker != Asker::Us || asks.kind != b'S' || !self.postgres.would_commit();
        assert!(is_ours_to_end, "committed for a client that never asked for it: {self:?}");
        for (kind, status) in self.postgres.reads(asks) {
            self.speaks(Some(asker), kind, status);
        }
        true
    }

    /// The message must be the next one of the client, except for those that the server need not receive.
    fn read_of_client(&mut self, message: &[u8]) -> (Asker, Asks) {
        loop {
            let Some(said) = self.unread.pop_front() else {
                panic!("the server was sent what nobody said, or twice: {}: {self:?}", message.escape_ascii());
            };
            if said.bytes == message {
                return (Asker::Client(said.client), said.asks);
            }
            assert!(said.may_be_dropped(), "{said:?} was not sent, but {}: {self:?}", message.escape_ascii());
        }
    }

    /// Returns what a message of the pooler does.
    fn ours(&self, message: &[u8]) -> Asks {
        let kind = message[0];
        let does = match (kind, &message[5..]) {
            (b'Q', [OURS, does]) => postgres::ALL[usize::from(*does)],
            (b'Q', b"ROLLBACK\0") => Does::Ends,
            (b'Q', _) => self.reset.unwrap_or(Does::Nothing),
            // `Execute` of a portal that does not exist, which makes the batch fail.
            (b'E', _) => Does::Fails,
            _ => Does::Nothing,
        };
        Asks { kind, does }
    }

    /// PostgreSQL sends a message unasked.
    pub(crate) fn server_says(&mut self, kind: u8) {
        if !self.postgres.is_dead() {
            self.speaks(None, kind, b"");
        }
    }

    /// A message contains its number, so that no two are equal; a `ReadyForQuery` contains the status.
    fn speaks(&mut self, asker: Option<Asker>, kind: u8, status: &[u8]) {
        self.made += 1;
        let number = format!("{}{}", self.made, "x".repeat(self.made as usize * 5 % 19));
        let mut bytes = Vec::new();
        wire::write::message(&mut bytes, kind, |out| match kind {
            b'Z' => out.extend_from_slice(status),
            b'E' | b'N' => out.extend_from_slice(format!("SERROR\0C57014\0M{number}\0\0").as_bytes()),
            b'C' => out.extend_from_slice(format!("SELECT {number}\0").as_bytes()),
            b'S' => out.extend_from_slice(format!("a.b\0{number}\0").as_bytes()),
            b'A' => out.extend_from_slice(format!("\0\0\0\0channel\0{number}\0").as_bytes()),
            _ => out.extend_from_slice(number.as_bytes()),
        });
        let from = self.spoken;
        self.spoken += bytes.len();
        self.back.push_back(Spoken { asker, kind, bytes, from });
    }

    /// The pooler reads the next message of the server, or parts of the next ones. Returns whether there was one.
    pub(crate) fn pooler_hears(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        let Some(next) = self.back.front() else {
            if self.postgres.is_dead() {
                self.stage = Stage::Over;
            }
            return false;
        };
        let bytes = match &mut self.cuts {
            None => next.bytes.len(),
            Some(random) => part(random),
        };
        let chunk = self.next_of_server(bytes);
        self.decide(&chunk);
        true
    }

    fn next_of_server(&mut self, bytes: usize) -> Vec<u8> {
        let mut chunk = Vec::new();
        while chunk.len() < bytes
            && let Some(spoken) = self.back.front()
        {
            if self.back_from == 0 {
                self.ungiven.push_back(spoken.clone());
            }
            let end = spoken.bytes.len().min(self.back_from + bytes - chunk.len());
            chunk.extend_from_slice(&spoken.bytes[self.back_from..end]);
            self.back_from = end;
            if end == spoken.bytes.len() {
                self.back.pop_front();
                self.back_from = 0;
            }
        }
        chunk
    }

    /// Handles bytes of the server as `worker::data::server` does.
    fn decide(&mut self, chunk: &[u8]) {
        let before = self.decided;
        let mut place = Place { start: 0, at: 0 };
        while place.at < chunk.len() && !self.is_over() {
            let has_client = matches!(self.stage, Stage::Lent | Stage::CatchingUp);
            let is_lent = self.is_lent();
            let (heard, given) = self.machines.hear_server(chunk, &mut place, has_client, is_lent);
            self.decided = before + place.at;
            assert!(has_client || given.is_empty(), "nobody was given an answer: {self:?}");
            self.given.extend(given);
            self.is_given_what_was_said();
            match heard {
                ServerEvent::All => {}
                ServerEvent::QueryFailed(_) => assert!(has_client, "an error for nobody: {self:?}"),
                ServerEvent::Ready { .. } => self.is_answered(),
                ServerEvent::CopyBegins if matches!(self.stage, Stage::Mending(_)) => self.is_answered(),
                ServerEvent::CopyBegins => {}
                // A FATAL error of the server (`worker::data::loss`).
                ServerEvent::FatalError(_) => self.stage = Stage::Over,
                // A query of the pooler failed (`worker::data::own_errors`).
                ServerEvent::Error(_) if self.exchange().is_ours() => self.stage = Stage::Over,
                ServerEvent::Error(_) => {
                    assert!(!has_client, "an error of a client's request was not for it: {self:?}")
                }
                // A notification that began while the server had no client is dropped to its end
                // (`worker::notify::own_news`).
                ServerEvent::Notification(_) => {}
                ServerEvent::Unexpected { kind, .. } => {
                    assert!(self.manner == Manner::Rude, "a protocol violation: {} in {self:?}", char::from(kind));
                    self.stage = Stage::Over;
                }
                other => {
                    let other = format!("{other:?}");
                    panic!("nobody has asked for that: {other}: {self:?}");
                }
            }
        }
    }

    /// Checks that every whole message that the client receives is the next one that the server sent for it or unasked.
    fn is_given_what_was_said(&mut self) {
        while let Some(word) = self.given.get(1..5) {
            let length = 1 + u32::from_be_bytes(word.try_into().expect("four bytes")) as usize;
            if self.given.len() < length {
                return;
            }
            let message: Vec<u8> = self.given.drain(..length).collect();
            loop {
                let Some(spoken) = self.ungiven.pop_front() else {
                    panic!("the client was given what nobody said: {}: {self:?}", message.escape_ascii());
                };
                let is_for_client = spoken.asker == Some(Asker::Client(self.client));
                if spoken.bytes == message && (is_for_client || spoken.asker.is_none()) {
                    break;
                }
                assert!(!is_for_client, "{spoken:?} was not given, but {}: {self:?}", message.escape_ascii());
            }
        }
    }

    /// A `ReadyForQuery` or a `CopyInResponse` has arrived.
    fn is_answered(&mut self) {
        match &mut self.stage {
            Stage::CatchingUp if self.machines.server.exchange.owes_nothing() => self.stage = Stage::Lent,
            Stage::Lent => self.may_have_ended(),
            Stage::Mending(cleanup) => {
                let mut out = Vec::new();
                let progress = cleanup.go_on(&mut self.machines.server.exchange, &mut out);
                if !out.is_empty() {
                    // The worker sends nothing before its cancel requests have finished.
                    self.postgres.cancel_is_over();
                }
                self.there.extend(out);
                self.progresses(progress);
            }
            _ => {}
        }
    }

    /// Everything under way arrives.
    pub(crate) fn settle(&mut self) {
        loop {
            let is_said = self.is_open() && !self.unheard.is_empty();
            if is_said && !self.client_is_heard() {
                self.client_leaves(false);
            }
            if !is_said && !self.server_reads() && !self.pooler_hears() {
                break;
            }
        }
        if self.is_over() || self.postgres.is_dead() {
            return;
        }
        let lost = self.unread.drain(..).find(|said| !said.may_be_dropped());
        assert!(lost.is_none(), "the server was not sent {lost:?}: {self:?}");
        if self.manner != Manner::Polite {
            return;
        }
        if self.is_lent() && self.exchange().is_proven() {
            assert_eq!(self.exchange().may_end(), self.postgres.is_at_rest(), "all has arrived: {self:?}");
        }
        assert!(!matches!(self.stage, Stage::CatchingUp), "our own query is never answered: {self:?}");
        assert!(!matches!(self.stage, Stage::Mending(_)), "mended for ever: {self:?}");
    }
}

/// How many bytes arrive at once: mostly few, so that headers are cut.
fn part(random: &mut Random) -> usize {
    let bytes_max = if random.below(4) == 0 { 90 } else { 9 };
    1 + random.below(bytes_max) as usize
}

/// The text does not matter, as long as it is not the rollback.
const RESET: &str = "DISCARD ALL";
/// The first byte of the body of a client's message, and of the query of the pooler before a loan.
const THEIRS: u8 = 0xc1;
const OURS: u8 = 0xc2;
