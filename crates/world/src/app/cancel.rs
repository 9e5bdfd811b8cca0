//! How an application has a request of its own cancelled: by a second connection.
//!
//! Always true: it asks for nothing new before that connection has come to its end, so that the cancel can hit nothing else,
//! unless it cannot know how far the cancel has come.
//! Not here: what it says of the cancelled request (`ear`).

use base::Time;
use wire::write;

use super::{App, Expect, Stage};
use crate::net::{Holder, Net};
use crate::witness::Witness;

impl App {
    /// Asks for the request that is not answered to be cancelled.
    pub(super) fn cancel(&mut self, net: &mut Net, witness: &mut Witness) {
        let Some(request) = self.asked.front().filter(|_| self.asked.len() == 1 && self.cancel_end.is_none()) else {
            return;
        };
        if request.expects.iter().any(|(_, expect)| matches!(expect, Expect::Zone(_))) {
            // It could not tell afterwards which TimeZone is in force.
            return;
        }
        self.cancel_asked = Some(request.nonce);
        if !self.is_cancel_loose {
            self.cancel_range = (request.nonce.number, request.last);
        }
        witness.count("cancels");
        self.cancel_since = witness.now;
        self.cancel_end = Some(net.dial(Holder::Canceller(self.number), None));
    }

    /// Its second connection was answered.
    pub(crate) fn cancel_connected(&mut self, net: &mut Net, is_welcome: bool) {
        let Some(end) = self.cancel_end.filter(|_| is_welcome) else {
            self.cancel_over(net);
            return;
        };
        let mut out = Vec::new();
        write::cancel_request(&mut out, &self.key);
        net.say(end, out);
    }

    /// Something has happened at its second connection: it ends.
    pub(crate) fn cancel_heard(&mut self, net: &mut Net, jumped: Time) {
        let Some(end) = self.cancel_end else { return };
        let row = net.end(end);
        if row.is_eof || row.is_reset {
            if row.is_reset || jumped >= self.cancel_since {
                // Cut, or given up for lack of time. Nobody knows how far it has come: it may hit whatever it asks on this connection.
                self.is_cancel_loose = true;
                self.cancel_range = (0, u32::MAX);
            }
            net.close(end);
            self.cancel_over(net);
        }
    }

    fn cancel_over(&mut self, net: &mut Net) {
        self.cancel_end = None;
        if matches!(self.stage, Stage::Ready) && self.asked.is_empty() {
            self.act_soon(net);
        }
    }
}
