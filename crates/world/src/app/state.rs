//! What there is of an application, and what may be asked of it.
//!
//! Always true: it knows what it is owed; everything it says carries its number.
//! Not here: what it does (`app`).

use std::collections::VecDeque;
use std::sync::Arc;

use auth::Secret;
use base::Time;
use protocol::server::login::ServerLogin;
use wire::backend::TxStatus;

use super::belief::{Belief, Request, ZONES};
use super::guise::Guise;
use crate::checks::witness::{Charge, Witness};
use crate::plan::auth_plan::Door;
use crate::plan::{Habits, Person, Plan};
use crate::postgres::sql::Nonce;
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::sim::net::Net;

/// An application.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) number: u32,
    pub(crate) person: Person,
    pub(super) habits: Habits,
    pub(super) dice: Dice,
    pub(crate) secret: Arc<Secret>,
    pub(crate) door: Door,
    pub(crate) end: Option<u32>,
    pub(crate) stage: Stage,
    pub(super) input: Vec<u8>,
    /// Requests that are not answered, the oldest first.
    pub(crate) asked: VecDeque<Request>,
    pub(super) belief: Belief,
    pub(super) next: u32,
    pub(super) key: Vec<u8>,
    /// What is left of the present transaction.
    pub(super) left_in_tx: u32,
    /// The rest of what it has begun to say.
    pub(super) rest: Vec<u8>,
    pub(crate) cancel_end: Option<u32>,
    /// Its second connection is to be under TLS before it asks.
    pub(super) cancel_asks_for_tls: bool,
    pub(super) cancel_input: Vec<u8>,
    /// The key that it names in it: that of its connection when it asked, which may have been another one.
    pub(super) cancel_key: Vec<u8>,
    /// The request that it wants cancelled.
    pub(super) cancel_asked: Option<Nonce>,
    /// It has sent a cancel request of which it does not know what became.
    pub(crate) is_cancel_loose: bool,
    /// Since when, and from which request on, it has gone on beside a cancel request of its own.
    pub(crate) went_on: Option<(u32, Time)>,
    pub(super) cancel_since: Time,
    /// The statements that its cancel may hit.
    pub(crate) cancel_range: (u32, u32),
    /// The statement of its request that was being run when it asked for the cancel.
    pub(crate) was_running: Option<Nonce>,
    pub(super) is_aborted: bool,
    /// So many `ReadyForQuery` beside the one that is due are no surprise.
    pub(super) readies_allowed: u32,
    pub(super) guise: Guise,
    /// What it will say when it has been told that nothing is encrypted here.
    pub(super) after_encryption: Option<Vec<u8>>,
    /// What it will say under TLS, when the handshake that it has begun is done.
    pub(super) shaking: Option<Vec<u8>>,
    /// What it must be told, in one of these words, before it is closed.
    pub(super) refusal_due: Option<&'static [&'static str]>,
    /// The pooler may count more requests than it does itself.
    pub(super) is_uncountable: bool,
    pub(crate) last_words: Option<(String, String)>,
    pub(super) is_deaf: bool,
    /// Where it stands between what it is answered and what it is told of channels.
    pub(super) news: News,
    pub(super) alarms: Vec<(u32, Alarm)>,
    pub(super) alarms_set: u32,
    pub(crate) transactions: u64,
    pub(crate) logins: u64,
    /// Requests answered.
    pub(crate) queries: u64,
    /// Whether what it asks needs a server that it has not got.
    pub(super) is_hungry: bool,
    /// Since when it waits for somebody else.
    pub(crate) waits_since: Option<Time>,
    /// When it was let in, or its last request was answered.
    pub(super) answered: Time,
    /// When the last `ReadyForQuery` was given that it has heard. A long answer is under way for a while.
    pub(super) ready_given: Time,
    /// When it came for the last time.
    pub(crate) came: Time,
    /// When it asked for the last time, on the connection that it has or had.
    pub(crate) asked_at: Option<Time>,
    /// When it asked for the transaction that has not ended.
    pub(crate) begun: Option<Time>,
    pub(crate) is_gentle: bool,
    pub(crate) has_left_by_itself: bool,
}

/// What it is doing.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Nothing yet, or between two lives.
    Away,
    Connecting,
    Login(Box<ServerLogin>),
    Ready,
    /// It has gone for good.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    /// To do the next thing.
    Act,
    /// To cancel what it asked.
    Cancel,
    /// To listen again.
    Listen,
    /// To say the rest.
    Rest,
    /// To leave without a word.
    Vanish,
}

/// What a world tells of the end of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// As the application wanted.
    Wanted,
    /// The pooler said why.
    Refused { sqlstate: String, text: String, is_due: bool },
    /// Without a word.
    Silent,
    /// By a reset, after it had spoken before it was let in: if there was a word, it is lost, as on a real network.
    Drowned,
}

/// What it has heard last: notifications come between a `ReadyForQuery` outside of transactions and the next answer, or right before
/// such a `ReadyForQuery`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum News {
    /// Such a `ReadyForQuery`, or nothing yet.
    #[default]
    Between,
    /// Something of an answer, or of a transaction.
    Within,
    /// A notification behind that.
    ToldWithin,
}

impl App {
    /// With what it has to prove itself by.
    pub(crate) fn new(plan: &Plan, number: u32, mut person: Person, mut habits: Habits) -> Self {
        let dice = Dice::new(plan.seed, 1000 + u64::from(number));
        let usual = plan.passwords[&person.user].clone();
        let (secret, door) = plan.door(number, &mut person, &mut habits).unwrap_or_else(|| (usual, Door::default()));
        Self {
            number,
            person,
            habits,
            dice,
            secret,
            door,
            end: None,
            stage: Stage::Away,
            input: Vec::new(),
            asked: VecDeque::new(),
            belief: Belief::new(ZONES[0]),
            next: 0,
            key: Vec::new(),
            left_in_tx: 0,
            rest: Vec::new(),
            cancel_end: None,
            cancel_asks_for_tls: false,
            cancel_input: Vec::new(),
            cancel_key: Vec::new(),
            cancel_asked: None,
            is_cancel_loose: false,
            went_on: None,
            cancel_since: Time(0),
            cancel_range: (0, 0),
            was_running: None,
            is_aborted: false,
            readies_allowed: 0,
            guise: Guise::Own,
            after_encryption: None,
            shaking: None,
            refusal_due: None,
            is_uncountable: false,
            last_words: None,
            is_deaf: false,
            news: News::default(),
            alarms: Vec::new(),
            alarms_set: 0,
            transactions: 0,
            logins: 0,
            queries: 0,
            is_hungry: false,
            waits_since: None,
            answered: Time(0),
            ready_given: Time(0),
            came: Time(0),
            asked_at: None,
            begun: None,
            is_gentle: false,
            has_left_by_itself: false,
        }
    }

    /// Whether it wants a stream; for that there are other rules than for its database.
    pub(crate) fn replicates(&self) -> bool {
        self.habits.replicates
    }

    pub(super) fn set_alarm(&mut self, net: &mut Net, micros: u64, alarm: Alarm) {
        self.alarms_set += 1;
        self.alarms.push((self.alarms_set, alarm));
        let event = Event::App { app: self.number, number: self.alarms_set };
        net.agenda.after(std::time::Duration::from_micros(micros), event);
    }

    pub(super) fn act_soon(&mut self, net: &mut Net) {
        let (low, high) = self.habits.think;
        let mut after = self.dice.among(low..=high);
        if self.dice.chance(self.habits.rests) && !self.is_gentle {
            after += self.dice.among(0..=20_000_000);
        }
        self.set_alarm(net, after, Alarm::Act);
    }

    /// Since when it has said nothing, and is owed nothing.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        let is_silent = self.asked.is_empty() && self.rest.is_empty() && self.readies_allowed == 0 && !self.is_deaf;
        is_silent.then_some(self.answered)
    }

    /// When the pooler gave the last `ReadyForQuery` that it has heard.
    pub(crate) fn ready_given(&self) -> Time {
        self.ready_given
    }

    /// Whether it does not read.
    pub(crate) fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    /// Its first request that is not answered, if it waits for nothing but a server.
    pub(crate) fn waits_for_a_server(&self) -> Option<&Request> {
        self.asked.front().filter(|_| self.is_hungry && self.rest.is_empty())
    }

    /// The status of its transaction, as it was told.
    pub(crate) fn status(&self) -> TxStatus {
        self.belief.tx
    }

    /// Whether it waits for its first server of a transaction.
    pub(crate) fn is_waiting(&self) -> bool {
        // One that does not read its answers seems to wait and does not.
        let is_lent_anew = !self.is_deaf && self.habits.is_plain && !self.person.database.starts_with("session");
        is_lent_anew && self.is_hungry && !self.asked.is_empty() && self.rest.is_empty()
    }

    /// Whether the pooler counts its transactions as it does itself: it asks one thing after the other.
    pub(crate) fn is_countable(&self) -> bool {
        self.habits.pipelines == 0 && self.habits.cancels == 0 && !self.is_uncountable
    }

    /// The cancel key of its connection.
    pub(crate) fn key_in_use(&self) -> Option<&[u8]> {
        Some(&*self.key).filter(|_| matches!(self.stage, Stage::Ready))
    }

    /// Whether it has gone for good.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    pub(crate) fn accuse(&self, witness: &mut Witness, charge: Charge, what: &str) {
        witness.accuse(charge, format!("application {}: {what}", self.number));
    }

    /// Its `application_name`.
    pub(super) fn name(&self) -> String {
        if self.habits.is_plain { "app".to_owned() } else { format!("app{}", self.number) }
    }
}

/// A TimeZone that no server knows.
pub(crate) const NOWHERE: &str = "Nowhere";
/// What whoever begins a transaction in statement mode is told.
pub(crate) const NO_TRANSACTIONS: &[&str] = &["transaction blocks not allowed in statement pooling mode"];
