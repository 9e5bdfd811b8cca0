//! How an application cancels its own request: by a second connection.
//!
//! Always true: the application sends no new request before that connection has ended, so that the cancel request can
//! hit nothing else, unless the application cannot know how far the cancel request has come, or is in a hurry.
//! Not here: the error of the cancelled request (`answers`).

use base::Time;
use wire::backend::TxStatus;
use wire::{backend, write};

use super::belief::Expect;
use super::guise::{self, SSL_REQUEST};
use super::state::{App, Stage};
use crate::checks::witness::{Charge, Witness};
use crate::plan::group::count_hops;
use crate::sim::fake_tls::{ANSWER, HELLO};
use crate::sim::net::{Holder, Net};

impl App {
    /// Opens the connection for a cancel request, if exactly one request is unanswered.
    pub(super) fn cancel(&mut self, net: &mut Net, witness: &mut Witness) {
        let Some(request) = self.asked.front().filter(|_| self.asked.len() == 1 && self.cancel_end.is_none()) else {
            return;
        };
        if request.expects.iter().any(|(_, expect)| matches!(expect, Expect::Zone(_))) {
            // After the error the application could not tell which TimeZone is in force.
            return;
        }
        self.cancel_asked = Some(request.nonce);
        if !self.is_cancel_loose {
            self.cancel_range = (request.nonce.number, request.last);
        }
        witness.count("cancels");
        witness.note(|| format!("application {} wants {} cancelled", self.number, request.nonce));
        self.cancel_since = witness.now;
        self.cancel_input.clear();
        self.cancel_key.clone_from(&self.key);
        self.cancel_asks_for_tls = false;
        self.cancel_end = Some(net.dial(Holder::Canceller(self.number), None));
    }

    /// The connection for the cancel request was accepted or refused.
    pub(crate) fn cancel_connected(&mut self, net: &mut Net, is_welcome: bool) {
        let Some(end) = self.cancel_end.filter(|_| is_welcome) else {
            self.cancel_over(net);
            return;
        };
        self.cancel_input.clear();
        self.cancel_asks_for_tls = self.habits.tls > 0 && self.dice.chance(self.habits.tls);
        match self.cancel_asks_for_tls {
            true => net.say(end, guise::encryption_request(SSL_REQUEST)),
            false => self.request_cancel(net, end),
        }
    }

    fn request_cancel(&mut self, net: &mut Net, end: u32) {
        let mut key = self.cancel_key.clone();
        if self.habits.relays > 0 && self.dice.chance(self.habits.relays) {
            // The key looks as if one to three other pooler processes had forwarded the cancel request (`[peers]`).
            count_hops(&mut key, self.dice.among(1..=3) as u8);
        }
        let mut out = Vec::new();
        write::cancel_request(&mut out, &key);
        net.say(end, out);
    }

    /// Continues the TLS handshake on the connection for the cancel request.
    fn shake_for_the_cancel(&mut self, net: &mut Net, end: u32, witness: &mut Witness) {
        let answers = [b"S", ANSWER].concat();
        net.read(end, answers.len() - self.cancel_input.len(), &mut self.cancel_input);
        if self.cancel_input.first() == Some(&backend::ERROR_RESPONSE) {
            // The pooler refuses the connection: it has no room for it.
            self.cancel_asks_for_tls = false;
        } else if !answers.starts_with(&self.cancel_input) {
            self.accuse(witness, Charge::ForeignBytes, "nonsense in the handshake for its cancel");
        } else if self.cancel_input.len() == 1 {
            net.say(end, HELLO.to_vec());
        } else if self.cancel_input.len() == answers.len() {
            self.cancel_asks_for_tls = false;
            net.end_mut(end).is_encrypted = true;
            self.request_cancel(net, end);
        }
    }

    /// Handles an event on the connection for the cancel request. Where that connection was opened before `unsure`, its
    /// end does not prove that the cancel request was carried out.
    pub(crate) fn cancel_heard(&mut self, net: &mut Net, unsure: Time, witness: &mut Witness) {
        let Some(end) = self.cancel_end else { return };
        if self.cancel_asks_for_tls && net.end(end).arrived_bytes > 0 {
            self.shake_for_the_cancel(net, end, witness);
        }
        let row = net.end(end);
        if row.is_eof || row.is_reset {
            let how = if row.is_reset { "is cut" } else { "ends" };
            witness.note(|| format!("application {} sees that its cancel request {how}", self.number));
            if row.is_reset || unsure >= self.cancel_since {
                // The connection was cut, or given up after a timeout. Nobody knows how far the cancel request has
                // come: it may hit any request on this connection.
                self.is_cancel_loose = true;
                self.cancel_range = (0, u32::MAX);
            }
            net.close(end);
            self.cancel_over(net);
        }
    }

    /// The request was answered, so the cancel request came too late. Some applications do not wait for its end.
    pub(super) fn hurry_off(&mut self, net: &mut Net, witness: &mut Witness) {
        if self.habits.hurries == 0 || self.is_cancel_loose || !self.dice.chance(self.habits.hurries) {
            return;
        }
        if self.belief.tx == TxStatus::Idle && self.dice.chance(500) {
            witness.count("left with a cancel under way");
            self.part(net, witness);
            return;
        }
        if self.habits.zones {
            // The application could not tell which TimeZone is in force, nor which part of a pipeline was hit.
            return;
        }
        // Earlier requests are not meant: their cancel requests may still be under way for somebody who has left.
        let first = self.next + 1;
        let pipelines = std::mem::take(&mut self.habits.pipelines);
        self.ask(net, witness);
        self.habits.pipelines = pipelines;
        if !self.asked.is_empty() {
            witness.count("went on beside a cancel under way");
            // A cancel request that has just reached the pooler may hit what is asked now; one that the pooler has
            // already sent on may not.
            self.is_cancel_loose = true;
            self.cancel_range = (0, u32::MAX);
            self.went_on = Some((first, witness.now));
        }
    }

    fn cancel_over(&mut self, net: &mut Net) {
        self.cancel_end = None;
        if matches!(self.stage, Stage::Ready) && self.asked.is_empty() {
            self.act_soon(net);
        }
    }
}
