//! A simulated application: it connects, sends requests, compares the answers, and disconnects, politely or not.
//!
//! Always true: the application knows which answers are due; all that it sends carries its number.
//! Not here: how it logs in (`login`) and leaves (`leave`), its requests (`speech`), how it compares answers
//! (`answers`), how it cancels (`cancel`), how its habits are drawn (`plan`).

mod answers;
mod belief;
mod cancel;
mod channels;
mod console;
mod copies;
mod function;
mod guise;
mod lasting;
mod leave;
mod login;
mod named;
mod names;
mod prepared;
mod speaker;
mod speech;
mod state;
mod stream;
mod writes;

use wire::backend::{self, TxStatus};
use wire::{frontend, write};

use crate::checks::witness::Witness;
use crate::postgres::sql::{Nonce, Verb};
use crate::sim::fake_tls::ANSWER;
use crate::sim::net::{Holder, Net};

use answers::Heard;
use belief::{Expect, Request};
pub(crate) use guise::Guise;
use speaker::Speaker;
use state::{Alarm, NO_TRANSACTIONS, NOWHERE};
pub(crate) use state::{App, Ended, Stage};

impl App {
    /// Sets the alarm for the first connection.
    pub(crate) fn begin(&mut self, net: &mut Net) {
        let (low, high) = self.habits.arrival;
        let after = self.dice.among(low..=high);
        self.set_alarm(net, after, Alarm::Act);
    }

    /// Does what the alarm with this number was set for.
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
                net.end_mut(end ^ 1).uid = self.login_plan.uid(&mut self.dice, self.is_gentle);
                self.end = Some(end);
                self.stage = Stage::Connecting;
                self.last_words = None;
                self.begin_to_listen(witness);
                self.came = witness.now;
                (self.asked_at, self.begun) = (None, None);
                self.waits_since = Some(witness.now);
                witness.count("connections");
            }
            // It has broken the protocol, and waits for the error.
            Stage::Ready if matches!(self.refusal_due, Some(due) if due == RUDE || due == RUDE_ON_THE_CONSOLE) => {}
            Stage::Ready if self.asked.is_empty() && self.rest.is_empty() => match self.cancel_end {
                None => self.ask(net, witness),
                Some(_) => self.hurry_off(net, witness),
            },
            _ => {}
        }
    }

    /// Sends the requests of the next errand, or of the next step of it.
    pub(super) fn ask(&mut self, net: &mut Net, witness: &mut Witness) {
        if !self.stays(net, witness) {
            return;
        }
        let was_outside = self.belief.tx == TxStatus::Idle;
        if was_outside && !self.is_gentle && self.dice.chance(self.habits.rude) {
            self.be_rude(net, witness);
            return;
        }
        self.belief.settle();
        let requests = self.requests();
        let is_alone = requests.len() == 1;
        let bytes = self.note_asked(requests, was_outside, witness);
        self.utter(net, bytes);
        self.draw_what_comes_between(net, is_alone);
    }

    /// Returns whether the application sends a request now, and neither leaves nor waits for a notification.
    fn stays(&mut self, net: &mut Net, witness: &mut Witness) -> bool {
        if self.is_cancel_loose {
            // The cancel request might hit its next requests, so it comes back with another key.
            self.part(net, witness);
            return false;
        }
        self.cancel_asked = None;
        self.cancel_range = (0, 0);
        if self.belief.tx == TxStatus::Idle {
            if self.person.errands == 0 && self.is_gentle && self.is_owed_news(witness) {
                self.set_alarm(net, LINGERS, Alarm::Act);
                return false;
            }
            let is_weary = self.person.errands > 0 && self.dice.chance(self.habits.reconnects);
            if self.person.errands == 0 || is_weary {
                self.part(net, witness);
                return false;
            }
            self.person.errands -= 1;
        }
        true
    }

    /// The requests that are sent in one go.
    fn requests(&mut self) -> Vec<Request> {
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
                // Nothing can be pipelined behind a request that waits for an answer.
                break;
            }
        }
        (self.next, self.left_in_tx) = (next, left);
        requests
    }

    /// Remembers the requests and returns their bytes.
    fn note_asked(&mut self, requests: Vec<Request>, was_outside: bool, witness: &mut Witness) -> Vec<u8> {
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
        // The pooler forwards the request unseen by the checkers if it does not show its nonce early.
        let is_seen = crate::postgres::sql::first_nonce(&bytes[..bytes.len().min(100)]).is_some();
        // The same holds for a request that may need no server.
        let may_join = self.asked.front().is_some_and(|request| request.joins.is_some());
        self.is_hungry = was_outside && is_seen && !may_join && !self.habits.replicates;
        witness.note(|| {
            let asked = self.asked.iter().map(|request| request.nonce.to_string()).collect::<Vec<_>>();
            format!("application {} asks {}", self.number, asked.join(", "))
        });
        bytes
    }

    /// Sets alarms for what may happen before the answer: a cancel request, vanishing, or not reading for a while.
    fn draw_what_comes_between(&mut self, net: &mut Net, is_alone: bool) {
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

    /// Breaks the protocol, for which the pooler must disconnect it.
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

    /// Sends bytes, at once or in two parts.
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

    /// Handles an event on its connection. Returns how the connection has ended, if it has.
    pub(crate) fn listen(&mut self, net: &mut Net, witness: &mut Witness) -> Option<Ended> {
        let end = self.end.filter(|_| !self.is_deaf)?;
        // During a handshake no byte behind its answer is read, because the pooler may send an error before it.
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
        // The refusal is due however long the application has waited for the server that does not know its TimeZone.
        // The requests behind may have set another one.
        let before = self.asked.front().is_some_and(|request| request.before.zone == NOWHERE);
        let is_refused = |mark: &str| Nonce::read(mark).is_some_and(Nonce::is_refused_elsewhere);
        let is_marked_so = is_refused(&self.belief.mark) || is_refused(&self.belief.mark_before);
        let marked_before = self.asked.front().is_some_and(|request| is_refused(&request.before.mark));
        let is_lost = before || self.belief.zone == NOWHERE || is_marked_so || marked_before;
        // A client that continues to send when it is refused may lose the error to the reset of its connection, as on a
        // real network.
        let was_wanted = self.has_left_by_itself || due.is_some();
        let words = self.last_words.take();
        self.note_doubts();
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
            Stage::Login(_) => self.hear_login(net, kind, body, witness),
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

    /// From now on the application hurries, behaves, and leaves soon.
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
            // Others wait for the server that it keeps as long as it is connected.
            self.habits.reconnects = self.habits.reconnects.max(150);
        }
        self.is_deaf = false;
        // An application that sends nothing still leaves at the time of its alarm.
        let is_mute = self.guise == Guise::Silent;
        self.alarms.retain(|(_, alarm)| matches!(alarm, Alarm::Rest) || is_mute && *alarm == Alarm::Vanish);
        self.set_alarm(net, 0, Alarm::Rest);
        self.set_alarm(net, 1, Alarm::Listen);
        self.set_alarm(net, 2, Alarm::Act);
    }
}

/// How often an application that is about to leave checks whether a notification is still due, microseconds.
const LINGERS: u64 = 100_000;

/// Errors after a protocol violation, from a pool and from the console.
const RUDE: &[&str] = &["unknown pkt", "bad packet header"];
const RUDE_ON_THE_CONSOLE: &[&str] = &["bad packet", "broken Parse packet", "broken Bind packet"];
