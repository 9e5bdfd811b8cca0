//! The state of an application, and queries of it.
//!
//! Always true: the application knows which answers are due; all that it sends carries its number.
//! Not here: what the application does (`app`).

use std::collections::VecDeque;
use std::sync::Arc;

use auth::Secret;
use base::Time;
use protocol::server::login::ServerLogin;
use wire::backend::TxStatus;

use super::belief::{Belief, Request, ZONES};
use super::guise::Guise;
use crate::checks::witness::{Charge, Witness};
use crate::plan::auth_plan::LoginPlan;
use crate::plan::{Habits, Person, Plan};
use crate::postgres::sql::Nonce;
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::sim::net::Net;

/// A simulated application.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) number: u32,
    pub(crate) person: Person,
    pub(super) habits: Habits,
    pub(super) dice: Dice,
    pub(crate) secret: Arc<Secret>,
    pub(crate) login_plan: LoginPlan,
    pub(crate) end: Option<u32>,
    pub(crate) stage: Stage,
    pub(super) input: Vec<u8>,
    /// The unanswered requests, the oldest first.
    pub(crate) asked: VecDeque<Request>,
    pub(super) belief: Belief,
    pub(super) next: u32,
    pub(super) key: Vec<u8>,
    /// Number of statements that remain in the current transaction block.
    pub(super) left_in_tx: u32,
    /// The unsent rest of a request.
    pub(super) rest: Vec<u8>,
    pub(crate) cancel_end: Option<u32>,
    /// The connection for the cancel request still needs a TLS handshake.
    pub(super) cancel_asks_for_tls: bool,
    pub(super) cancel_input: Vec<u8>,
    /// The key in the cancel request: that of the connection on which the request was made, which may have ended.
    pub(super) cancel_key: Vec<u8>,
    /// The request to be cancelled.
    pub(super) cancel_asked: Option<Nonce>,
    /// The application has sent a cancel request and does not know what became of it.
    pub(crate) is_cancel_loose: bool,
    /// The number of the first request that was sent while a cancel request was under way, and the time of it.
    pub(crate) went_on: Option<(u32, Time)>,
    pub(super) cancel_since: Time,
    /// The range of statements that the cancel request may hit.
    pub(crate) cancel_range: (u32, u32),
    /// The statement that its server was running when the cancel request was made.
    pub(crate) was_running: Option<Nonce>,
    pub(super) is_aborted: bool,
    /// Number of extra `ReadyForQuery` messages that are allowed beside the next expected one.
    pub(super) readies_allowed: u32,
    pub(super) guise: Guise,
    /// The bytes to be sent after the answer to the request for encryption.
    pub(super) after_encryption: Option<Vec<u8>>,
    /// The bytes to be sent under TLS, when the handshake is done.
    pub(super) shaking: Option<Vec<u8>>,
    /// The error texts one of which must arrive before the connection is closed.
    pub(super) refusal_due: Option<&'static [&'static str]>,
    /// The pooler may count more requests than the application does.
    pub(super) is_uncountable: bool,
    pub(crate) last_words: Option<(String, String)>,
    pub(super) is_deaf: bool,
    /// Where the messages read so far allow a notification.
    pub(super) news: News,
    pub(super) alarms: Vec<(u32, Alarm)>,
    pub(super) alarms_set: u32,
    pub(crate) transactions: u64,
    pub(crate) logins: u64,
    /// Number of answered requests.
    pub(crate) queries: u64,
    /// Whether the request needs a server and has not got one.
    pub(super) is_hungry: bool,
    /// When the current wait for the pooler began.
    pub(crate) waits_since: Option<Time>,
    /// Time of the login or of the last answer.
    pub(super) answered: Time,
    /// When the pooler sent the last `ReadyForQuery` that was read. A long answer takes a while to arrive.
    pub(super) ready_given: Time,
    /// When the application last connected.
    pub(crate) came: Time,
    /// When the application sent its last request on the present or last connection.
    pub(crate) asked_at: Option<Time>,
    /// When it began the transaction that has not ended.
    pub(crate) begun: Option<Time>,
    pub(crate) is_gentle: bool,
    pub(crate) has_left_by_itself: bool,
    /// The writes of its transaction that were answered.
    pub(super) writes: Vec<Nonce>,
    /// Whether it waited for an answer when its last connection ended, and the writes that would have been committed then.
    pub(crate) was_waiting: bool,
    pub(crate) in_doubt: Vec<Nonce>,
}

/// The stage of an application's connection.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Not connected: not yet, or between two connections.
    Away,
    Connecting,
    Login(Box<ServerLogin>),
    Ready,
    /// It has left for good.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    /// Do the next thing.
    Act,
    /// Cancel the request.
    Cancel,
    /// Read again.
    Listen,
    /// Send the rest.
    Rest,
    /// Disconnect without `Terminate`.
    Vanish,
}

/// How a connection has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// As the application wanted.
    Wanted,
    /// After an error from the pooler.
    Refused { sqlstate: String, text: String, is_due: bool },
    /// Without an error.
    Silent,
    /// By a reset, after the application had sent a request before its login ended: an error, if there was one, is lost
    /// as on a real network.
    Drowned,
}

/// The last message read: notifications may come between a `ReadyForQuery` outside of transactions and the next answer,
/// or right before such a `ReadyForQuery`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum News {
    /// Such a `ReadyForQuery`, or nothing yet.
    #[default]
    Between,
    /// A part of an answer, or of a transaction.
    Within,
    /// A notification after that.
    ToldWithin,
}

impl App {
    /// A new application with its password.
    pub(crate) fn new(plan: &Plan, number: u32, mut person: Person, mut habits: Habits) -> Self {
        let dice = Dice::new(plan.seed, 1000 + u64::from(number));
        let usual = plan.passwords[&person.user].clone();
        let (secret, login_plan) =
            plan.login_plan(number, &mut person, &mut habits).unwrap_or_else(|| (usual, LoginPlan::default()));
        Self {
            number,
            person,
            habits,
            dice,
            secret,
            login_plan,
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
            writes: Vec::new(),
            was_waiting: false,
            in_doubt: Vec::new(),
        }
    }

    /// Returns whether the application uses replication connections, for which other rules hold than for its database.
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

    /// Returns when the application was last answered, if no answer is due and nothing remains to be sent.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        let is_silent = self.asked.is_empty() && self.rest.is_empty() && self.readies_allowed == 0 && !self.is_deaf;
        is_silent.then_some(self.answered)
    }

    /// Returns when the pooler sent the last `ReadyForQuery` that was read.
    pub(crate) fn ready_given(&self) -> Time {
        self.ready_given
    }

    /// Returns whether the application does not read.
    pub(crate) fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    /// Returns the oldest unanswered request, if the application waits for nothing but a server.
    pub(crate) fn waits_for_a_server(&self) -> Option<&Request> {
        self.asked.front().filter(|_| self.is_hungry && self.rest.is_empty())
    }

    /// Returns the transaction status as last expected.
    pub(crate) fn status(&self) -> TxStatus {
        self.belief.tx
    }

    /// Returns whether the application waits for the server of a new transaction.
    pub(crate) fn is_waiting(&self) -> bool {
        // An application that does not read seems to wait, and may have been answered.
        let is_lent_anew = !self.is_deaf && self.habits.is_plain && !self.person.database.starts_with("session");
        is_lent_anew && self.is_hungry && !self.asked.is_empty() && self.rest.is_empty()
    }

    /// Returns whether the pooler must count the same number of transactions: the application sends one request after
    /// the other.
    pub(crate) fn is_countable(&self) -> bool {
        self.habits.pipelines == 0 && self.habits.cancels == 0 && !self.is_uncountable
    }

    /// The cancel key of its connection.
    pub(crate) fn key_in_use(&self) -> Option<&[u8]> {
        Some(&*self.key).filter(|_| matches!(self.stage, Stage::Ready))
    }

    /// Returns whether the application has left for good.
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

/// A TimeZone that is unknown to every server.
pub(crate) const NOWHERE: &str = "Nowhere";
/// The error for a BEGIN in statement pooling mode.
pub(crate) const NO_TRANSACTIONS: &[&str] = &["transaction blocks not allowed in statement pooling mode"];
