//! Clients that a rate limit has held back go on.
//!
//! Always true: each is counted when it goes on, and waits again or is rejected where there is nothing left for it.
//! Not here: who is held back (`rates`).

use base::{Key, Time};
use pool::{Admission, Moment, Relief, Ticket};
use reactor::{Io, Level};

use crate::admission::applicant::Waits;
use crate::data::client::{Client, Link, Ready, Stage};
use crate::limits::rate_limits::Comes;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client that was to have a server comes from another process, which has counted it: here it is counted anew, and waits if it has to.
    pub(crate) fn begin_here(&mut self, key: Key, since: Time) {
        let is_rated = self.limits.rating.counts_transactions && self.is_rated(key);
        match is_rated.then(|| self.admit(key, Moment::Begins, false)) {
            None | Some(Admission::Admitted) => self.want_again(key, since),
            // Nothing is said before everybody goes on: it is told when it is woken.
            Some(Admission::Delayed(shortage) | Admission::Rejected(shortage)) => {
                self.delay(key, &shortage, Comes::Anew);
                if let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) {
                    ready.link = Link::Delayed(since);
                }
            }
        }
    }

    /// Somebody may have waited for long enough, or a limit may hold nobody back any more.
    pub(crate) fn rates_due(&mut self, at: Time) {
        if self.limits.rating.armed != Some(at) {
            // Another deadline has taken its place.
            return;
        }
        self.limits.rating.armed = None;
        while let Some((client, ticket)) = self.limits.rating.delayed.due(self.now) {
            self.wake(client, ticket);
            self.settle();
        }
        let ended = self.active.rates.rates().ended(self.now);
        for Relief { rule, lasted, tally } in ended {
            let (secs, millis) = (lasted.as_secs(), lasted.subsec_millis());
            let (admitted, delayed, rejected) = (tally.admitted, tally.delayed, tally.rejected);
            self.log.add(
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

    /// A client that was delayed is next.
    fn wake(&mut self, key: Key, ticket: Ticket) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let comes = Comes::Again(ticket);
        match &client.stage {
            Stage::Ready(Ready { link: Link::Delayed(since), .. }) => {
                let since = *since;
                if !self.is_rated(key) || self.is_admitted(key, Moment::Begins, comes) {
                    self.want_again(key, since);
                } else {
                    self.skip_rejected(key);
                    self.resume_if_free(key);
                }
            }
            Stage::Login(login) if matches!(login.waits, Waits::Knock) => {
                if self.is_admitted(key, Moment::Knocks, comes)
                    && let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key)
                {
                    login.wait_for(Waits::Slot);
                    self.take_place(key);
                }
            }
            Stage::Login(_) => {
                if self.is_admitted(key, Moment::LogsIn, comes) {
                    let keys = self.take_shown_keys(key);
                    self.come_in(key, keys);
                }
            }
            Stage::Ready(_) | Stage::Greeting(_) | Stage::Cancelling(_) | Stage::Console(_) => {}
        }
    }

    /// A client that was paused while it waited, and was rejected then, is heard again.
    fn resume_if_free(&mut self, key: Key) {
        let is_behind = self.is_behind(key);
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(key) else { return };
        if ready.link == Link::None && !is_behind {
            self.resume_client(key);
            self.arm_client(key);
        }
    }
}
