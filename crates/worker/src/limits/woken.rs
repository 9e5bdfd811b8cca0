//! Resumes clients that a rate limit has delayed.
//!
//! Always true: each client is counted when it goes on; if the limit has no room then, the client is delayed again or
//! rejected.
//! Not here: which clients are delayed (`rates`).

use base::{Key, Time};
use pool::{Admission, RateStage, Relief, Ticket};
use reactor::{Io, Level};

use crate::admission::applicant::LoginWait;
use crate::data::client::{ClientStage, Link};
use crate::limits::rate_limits::Comes;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client imported from another process wanted a server and was counted there: it is counted here again, and
    /// delayed if necessary.
    pub(crate) fn begin_here(&mut self, key: Key, since: Time) {
        let is_rated = self.limits.rating.counts_transactions && self.is_rated(key);
        match is_rated.then(|| self.admit(key, RateStage::Begins, false)) {
            None | Some(Admission::Admitted) => self.want_again(key, since),
            // No message may be sent before all clients resume: a client that is to be rejected is told when it is woken.
            Some(Admission::Delayed(shortage) | Admission::Rejected(shortage)) => {
                self.delay(key, &shortage, Comes::Anew);
                if let Some(ready) = self.clients.ready_mut(key) {
                    ready.takes(Link::Delayed(since));
                }
            }
        }
    }

    /// The delay of a client may be over, or a limit may no longer limit anybody.
    pub(crate) fn rates_due(&mut self, at: Time) {
        if self.limits.rating.armed != Some(at) {
            // A later timer has replaced this one.
            return;
        }
        self.limits.rating.armed = None;
        while let Some((client, ticket)) = self.limits.rating.delayed.due(self.hands.now) {
            self.wake(client, ticket);
            self.settle();
        }
        let ended = self.hands.active.rates.rates().ended(self.hands.now);
        for Relief { rule, lasted, tally } in ended {
            let (secs, millis) = (lasted.as_secs(), lasted.subsec_millis());
            let (admitted, delayed, rejected) = (tally.admitted, tally.delayed, tally.rejected);
            self.hands.log.add(
                Level::Log,
                format_args!(
                    "rate limit {rule} has ended to hold {} back: {admitted} admitted, {delayed} delayed, {rejected} rejected \
                     in {secs}.{millis:03} s",
                    rule.counts
                ),
            );
        }
        self.arm_rates();
    }

    /// It is the turn of a delayed client.
    fn wake(&mut self, key: Key, ticket: Ticket) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let comes = Comes::Again(ticket);
        match &client.stage {
            ClientStage::Ready(ready) => {
                let Link::Delayed(since) = ready.link() else { return };
                if !self.is_rated(key) || self.is_admitted(key, RateStage::Begins, comes) {
                    self.want_again(key, since);
                } else {
                    self.skip_rejected(key);
                    self.resume_if_free(key);
                }
            }
            ClientStage::Login(login) if matches!(login.waits(), LoginWait::RateBeforeProof) => {
                if self.is_admitted(key, RateStage::Knocks, comes)
                    && let Some(login) = self.clients.login_mut(key)
                {
                    login.wait_for(LoginWait::Slot);
                    self.take_place(key);
                }
            }
            ClientStage::Login(_) => {
                if self.is_admitted(key, RateStage::LogsIn, comes) {
                    let keys = self.take_shown_keys(key);
                    self.come_in(key, keys);
                }
            }
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => {}
        }
    }

    /// Resumes reading from a client that was paused while it was delayed and has been rejected.
    fn resume_if_free(&mut self, key: Key) {
        let is_behind = self.is_behind(key);
        let Some(ready) = self.clients.ready(key) else { return };
        if ready.link() == Link::None && !is_behind {
            self.resume_client(key);
            self.arm_client(key);
        }
    }
}
