//! A fake application: it connects, makes requests, compares the answers, and leaves, politely or not.
//!
//! Always true: it knows what it is owed; everything it says carries its number.
//! Not here: how it comes in (`door`) and leaves (`leave`), what it may say (`speech`), how it compares (`ear`), how it cancels
//! (`cancel`), what is drawn of its habits (`plan`).

mod cancel;
mod channels;
mod console;
mod copies;
mod door;
mod ear;
mod function;
mod guise;
mod lasting;
mod leave;
mod named;
mod prepared;
mod speech;
mod stream;

use std::collections::VecDeque;
use std::sync::Arc;

use auth::Secret;
use base::Time;
use protocol::server::login::ServerLogin;
use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use crate::checks::witness::Witness;
use crate::plan::auth_plan::Door;
use crate::plan::{Habits, Person, Plan};
use crate::postgres::sql::{Nonce, Verb};
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::sim::fake_tls::ANSWER;
use crate::sim::net::{Holder, Net};

use channels::News;
use ear::Heard;
pub(crate) use guise::Guise;
pub(crate) use speech::{Belief, Expect, Request, Speaker, ZONES};

/// An application.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) number: u32,
    pub(crate) person: Person,
    habits: Habits,
    dice: Dice,
    pub(crate) secret: Arc<Secret>,
    pub(crate) door: Door,
    pub(crate) end: Option<u32>,
    pub(crate) stage: Stage,
    input: Vec<u8>,
    /// Requests that are not answered, the oldest first.
    pub(crate) asked: VecDeque<Request>,
    belief: Belief,
    next: u32,
    key: Vec<u8>,
    /// What is left of the present transaction.
    left_in_tx: u32,
    /// The rest of what it has begun to say.
    rest: Vec<u8>,
    pub(crate) cancel_end: Option<u32>,
    /// Its second connection is to be under TLS before it asks.
    cancel_asks_for_tls: bool,
    cancel_input: Vec<u8>,
    /// The key that it names in it: that of its connection when it asked, which may have been another one.
    cancel_key: Vec<u8>,
    /// The request that it wants cancelled.
    cancel_asked: Option<Nonce>,
    /// It has sent a cancel request of which it does not know what became.
    pub(crate) is_cancel_loose: bool,
    /// Since when, and from which request on, it has gone on beside a cancel request of its own.
    pub(crate) went_on: Option<(u32, Time)>,
    cancel_since: Time,
    /// The statements that its cancel may hit.
    pub(crate) cancel_range: (u32, u32),
    /// The statement of its request that was being run when it asked for the cancel.
    pub(crate) was_running: Option<Nonce>,
    is_aborted: bool,
    /// So many `ReadyForQuery` beside the one that is due are no surprise.
    readies_allowed: u32,
    guise: Guise,
    /// What it will say when it has been told that nothing is encrypted here.
    after_encryption: Option<Vec<u8>>,
    /// What it will say under TLS, when the handshake that it has begun is done.
    shaking: Option<Vec<u8>>,
    /// What it must be told, in one of these words, before it is closed.
    refusal_due: Option<&'static [&'static str]>,
    /// The pooler may count more requests than it does itself.
    is_uncountable: bool,
    pub(crate) last_words: Option<(String, String)>,
    is_deaf: bool,
    /// Where it stands between what it is answered and what it is told of channels.
    news: News,
    alarms: Vec<(u32, Alarm)>,
    alarms_set: u32,
    pub(crate) transactions: u64,
    pub(crate) logins: u64,
    /// Requests answered.
    pub(crate) queries: u64,
    /// Whether what it asks needs a server that it has not got.
    is_hungry: bool,
    /// Since when it waits for somebody else.
    pub(crate) waits_since: Option<Time>,
    /// When it was let in, or its last request was answered.
    answered: Time,
    /// When the last `ReadyForQuery` was given that it has heard. A long answer is under way for a while.
    ready_given: Time,
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
enum Alarm {
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

    fn set_alarm(&mut self, net: &mut Net, micros: u64, alarm: Alarm) {
        self.alarms_set += 1;
        self.alarms.push((self.alarms_set, alarm));
        let event = Event::App { app: self.number, number: self.alarms_set };
        net.agenda.after(std::time::Duration::from_micros(micros), event);
    }

    /// Begins its day.
    pub(crate) fn begin(&mut self, net: &mut Net) {
        let (low, high) = self.habits.arrival;
        let after = self.dice.among(low..=high);
        self.set_alarm(net, after, Alarm::Act);
    }

    fn act_soon(&mut self, net: &mut Net) {
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

    /// An alarm rings.
    pub(crate) fn ring(&mut self, net: &mut Net, number: u32, witness: &mut Witness) {
        let Some(at) = self.alarms.iter().position(|(set, _)| *set == number) else { return };
        let (_, alarm) = self.alarms.swap_remove(at);
        match alarm {
            Alarm::Act => self.act(net, witness),
            Alarm::Cancel => self.cancel(net, witness),
            Alarm::Listen => {
                self.is_deaf = false;
                self.listen(net, witness);
            }
            Alarm::Rest => {
                let rest = std::mem::take(&mut self.rest);
                if let Some(end) = self.end.filter(|_| !rest.is_empty()) {
                    net.say(end, rest);
                }
            }
            Alarm::Vanish => self.vanish(net, witness),
        }
    }

    fn act(&mut self, net: &mut Net, witness: &mut Witness) {
        match self.stage {
            Stage::Away if self.person.errands == 0 => self.stage = Stage::Done,
            Stage::Away => {
                let end = net.dial(Holder::App(self.number), None);
                net.end_mut(end ^ 1).uid = self.door.uid(&mut self.dice, self.is_gentle);
                self.end = Some(end);
                self.stage = Stage::Connecting;
                self.last_words = None;
                self.begin_to_listen(witness);
                self.came = witness.now;
                (self.asked_at, self.begun) = (None, None);
                self.waits_since = Some(witness.now);
                witness.count("connections");
            }
            // It has been rude, and waits for what it is told for that.
            Stage::Ready if matches!(self.refusal_due, Some(due) if due == RUDE || due == RUDE_ON_THE_CONSOLE) => {}
            Stage::Ready if self.asked.is_empty() && self.rest.is_empty() => match self.cancel_end {
                None => self.ask(net, witness),
                Some(_) => self.hurry_off(net, witness),
            },
            _ => {}
        }
    }

    /// The next errand, or the next step of it.
    fn ask(&mut self, net: &mut Net, witness: &mut Witness) {
        if self.is_cancel_loose {
            // What it asks from now on might be hit: it comes back with another key.
            self.part(net, witness);
            return;
        }
        self.cancel_asked = None;
        self.cancel_range = (0, 0);
        if self.belief.tx == TxStatus::Idle {
            if self.person.errands == 0 && self.is_gentle && self.is_owed_news(witness) {
                self.set_alarm(net, LINGERS, Alarm::Act);
                return;
            }
            let is_weary = self.person.errands > 0 && self.dice.chance(self.habits.reconnects);
            if self.person.errands == 0 || is_weary {
                self.part(net, witness);
                return;
            }
            self.person.errands -= 1;
        }
        let was_outside = self.belief.tx == TxStatus::Idle;
        if was_outside && !self.is_gentle && self.dice.chance(self.habits.rude) {
            self.be_rude(net, witness);
            return;
        }
        self.belief.settle();
        let habits = self.habits.clone();
        let mut requests = Vec::new();
        let (mut next, mut left) = (self.next, self.left_in_tx);
        let is_pipelined = self.dice.chance(habits.pipelines);
        let is_stubborn = self.person.database.starts_with("statement") && self.dice.chance(habits.stubborn);
        let mut speaker = Speaker {
            dice: &mut self.dice,
            habits: &habits,
            app: self.number,
            next: &mut next,
            belief: &mut self.belief,
        };
        let steps = if is_pipelined { speaker.dice.among(2..=5) } else { 1 };
        for _ in 0..steps {
            let request = match speaker.belief.tx {
                TxStatus::Idle if self.person.transactions && speaker.dice.chance(habits.transactions) => {
                    left = speaker.dice.among(0..=4) as u32;
                    speaker.word(Verb::Begin)
                }
                TxStatus::Idle if is_stubborn => {
                    self.is_uncountable = true;
                    self.refusal_due = Some(NO_TRANSACTIONS);
                    speaker.word(Verb::Begin)
                }
                TxStatus::Idle => speaker.any(),
                _ if left == 0 => {
                    let verb = if speaker.dice.chance(200) { Verb::Rollback } else { Verb::Commit };
                    speaker.word(verb)
                }
                _ => {
                    left -= 1;
                    speaker.any()
                }
            };
            let is_spoken = request.expects.iter().any(|(_, is)| matches!(is, Expect::Say(_)));
            let goes_on = !is_stubborn && !request.is_long && !is_spoken && !speaker.belief.is_leaving;
            requests.push(request);
            speaker.belief.is_answered = false;
            if !goes_on {
                // What waits for an answer cannot have anything behind it.
                break;
            }
        }
        (self.next, self.left_in_tx) = (next, left);
        let is_alone = requests.len() == 1;
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend_from_slice(&request.bytes);
            witness.count("requests");
            self.says(&request, witness);
            self.asked.push_back(request);
        }
        self.waits_since = Some(witness.now);
        self.asked_at = Some(witness.now);
        self.begun = self.begun.filter(|_| !was_outside).or(Some(witness.now));
        // A request that does not show its nonce is not seen when it is sent on.
        let is_seen = crate::postgres::sql::first_nonce(&bytes[..bytes.len().min(100)]).is_some();
        // Nor does one that may need no server.
        let may_join = self.asked.front().is_some_and(|request| request.joins.is_some());
        self.is_hungry = was_outside && is_seen && !may_join && !self.habits.replicates;
        witness.note(|| {
            let asked = self.asked.iter().map(|request| request.nonce.to_string()).collect::<Vec<_>>();
            format!("application {} asks {}", self.number, asked.join(", "))
        });
        self.utter(net, bytes);
        if is_alone && self.dice.chance(self.habits.cancels) {
            let after = self.dice.among(0..=20_000);
            self.set_alarm(net, after, Alarm::Cancel);
        }
        if !self.is_gentle && self.dice.chance(self.habits.vanishes) {
            let after = self.dice.among(0..=5_000);
            self.set_alarm(net, after, Alarm::Vanish);
        }
        if !self.is_gentle && self.dice.chance(self.habits.deafness) {
            self.is_deaf = true;
            let after = self.dice.among(1_000..=3_000_000);
            self.set_alarm(net, after, Alarm::Listen);
        }
    }

    /// Says what nobody may say, and is shown the door.
    fn be_rude(&mut self, net: &mut Net, witness: &mut Witness) {
        witness.count("rude words");
        let mut bytes = Vec::new();
        let due: &[&str] = if self.person.is_operator() {
            write::bare(&mut bytes, self.dice.pick(&[frontend::PARSE, frontend::BIND, frontend::COPY_DONE, b'?']));
            RUDE_ON_THE_CONSOLE
        } else {
            match self.dice.among(0..=3) {
                0 => bytes.extend(b"?\0\0\0\x04"),
                1 => bytes.extend(b"Q\0\0\0\x01"),
                2 => bytes.extend(b"Q\x7f\0\0\0never comes"),
                _ => bytes.extend(b"d\0\0\0\x01"),
            }
            RUDE
        };
        self.refusal_due = Some(due);
        self.waits_since = Some(witness.now);
        self.utter(net, bytes);
    }

    /// Says something, at once or in two goes.
    fn utter(&mut self, net: &mut Net, mut bytes: Vec<u8>) {
        let Some(end) = self.end else { return };
        if bytes.len() > 1 && !self.is_gentle && self.dice.chance(self.habits.dawdles) {
            let cut = self.dice.among(1..=bytes.len() as u64 - 1) as usize;
            self.rest = bytes.split_off(cut);
            let after = self.dice.among(1..=20_000);
            self.set_alarm(net, after, Alarm::Rest);
        }
        net.say(end, bytes);
    }

    /// Something has happened at its end.
    pub(crate) fn listen(&mut self, net: &mut Net, witness: &mut Witness) -> Option<Ended> {
        let end = self.end.filter(|_| !self.is_deaf)?;
        // A refusal may have come before it said anything.
        let most = self.shaking.as_ref().map_or(usize::MAX, |_| ANSWER.len().saturating_sub(self.input.len()));
        net.read(end, most, &mut self.input);
        self.understand(net, witness);
        let row = net.end(end);
        if self.end != Some(end) || !(row.is_eof || row.is_reset) {
            return None;
        }
        let has_spoken_early = row.is_reset && matches!(self.stage, Stage::Login(_)) && !self.asked.is_empty();
        net.close(end);
        let due = self.refusal_due;
        // However long it has waited for the server that does not know its TimeZone.
        // What it asks for may be another one.
        let before = self.asked.front().is_some_and(|request| request.before.zone == NOWHERE);
        let is_refused = |mark: &str| Nonce::read(mark).is_some_and(Nonce::is_refused_elsewhere);
        let is_marked_so = is_refused(&self.belief.mark) || is_refused(&self.belief.mark_before);
        let marked_before = self.asked.front().is_some_and(|request| is_refused(&request.before.mark));
        let is_lost = before || self.belief.zone == NOWHERE || is_marked_so || marked_before;
        // Who goes on speaking when it is refused may lose the words to the reset of its connection, as on a real network.
        let was_wanted = self.has_left_by_itself || due.is_some();
        let words = self.last_words.take();
        self.gone(net, witness, "is left");
        match words {
            Some((sqlstate, text)) => {
                let is_due = due.is_some_and(|due| due.iter().any(|due| text.starts_with(due)))
                    || is_lost && text.starts_with("invalid server parameter");
                Some(Ended::Refused { sqlstate, text, is_due })
            }
            None if was_wanted => Some(Ended::Wanted),
            None if has_spoken_early => Some(Ended::Drowned),
            None => Some(Ended::Silent),
        }
    }

    fn understand(&mut self, net: &mut Net, witness: &mut Witness) {
        self.mind_encryption(net, witness);
        if self.shaking.is_some() {
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        while let Some((kind, body, next)) = crate::message_at(&input, at) {
            at = next;
            if kind == backend::READY_FOR_QUERY {
                let given = self.end.and_then(|end| net.was_given(end, input.len() - at));
                self.ready_given = given.unwrap_or(witness.now);
            }
            self.message(net, kind, body, witness);
            if self.end.is_none() {
                return;
            }
        }
        input.drain(..at);
        self.input = input;
    }

    fn message(&mut self, net: &mut Net, kind: u8, body: &[u8], witness: &mut Witness) {
        match self.stage {
            Stage::Login(_) => self.hear_at_the_door(net, kind, body, witness),
            Stage::Ready => match self.hear(kind, body, witness) {
                Heard::Nothing => {}
                Heard::Say(bytes) if self.rest.is_empty() => self.utter(net, bytes),
                Heard::Say(bytes) => self.rest.extend(bytes),
                Heard::Answered => {
                    if self.asked.is_empty() {
                        self.waits_since = None;
                        self.answered = witness.now;
                        self.act_soon(net);
                    }
                }
            },
            Stage::Away | Stage::Connecting | Stage::Done => {}
        }
    }

    /// From now on it hurries, behaves, and leaves soon.
    pub(crate) fn calm_down(&mut self, net: &mut Net, errands: u32) {
        self.is_gentle = true;
        self.person.errands = self.person.errands.min(errands);
        self.habits.think = (0, 1_000);
        self.habits.arrival = (0, 100_000);
        self.habits.vanishes = 0;
        self.habits.deafness = 0;
        self.habits.rests = 0;
        self.habits.lasts.often = 0;
        if self.person.database.starts_with("session") {
            // Others wait for the server that it keeps for as long as it stays.
            self.habits.reconnects = self.habits.reconnects.max(150);
        }
        self.is_deaf = false;
        // Who says nothing goes when it would have gone.
        let is_mute = self.guise == Guise::Silent;
        self.alarms.retain(|(_, alarm)| matches!(alarm, Alarm::Rest) || is_mute && *alarm == Alarm::Vanish);
        self.set_alarm(net, 0, Alarm::Rest);
        self.set_alarm(net, 1, Alarm::Listen);
        self.set_alarm(net, 2, Alarm::Act);
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
}

/// How often who is about to leave looks whether it is still owed a notification, microseconds.
const LINGERS: u64 = 100_000;
/// A TimeZone that no server knows.
pub(crate) const NOWHERE: &str = "Nowhere";

/// What whoever breaks the protocol is told, and on the console.
const RUDE: &[&str] = &["unknown pkt", "bad packet header"];
const RUDE_ON_THE_CONSOLE: &[&str] = &["bad packet", "broken Parse packet", "broken Bind packet"];
/// What whoever begins a transaction in statement mode is told.
pub(crate) const NO_TRANSACTIONS: &[&str] = &["transaction blocks not allowed in statement pooling mode"];
