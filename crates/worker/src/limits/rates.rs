//! Rate limits: when clients are counted, delayed or rejected, and the errors for that.
//!
//! Always true: nothing is read from a delayed client until it is admitted, and it may leave like a client that waits
//! for a server; a rejected request is skipped as PostgreSQL does after an error, and the session goes on. Nothing here
//! costs anything where no rule applies.
//! Not here: counting (`pool::Rates`), the order of delayed clients (`pool::Delayed`).

use auth::ScramKeys;
use base::Key;
use measure::Phase;
use pool::{Admission, Mode, RateRule, RateStage, Shortage, millis};
use protocol::fault::Fault;
use protocol::loan::RequestFate;
use reactor::{Io, Level, Receive};
use wire::backend::TxStatus;
use wire::{frontend, write};

use crate::admin::console::CONSOLE;
use crate::admission::applicant::LoginWait;
use crate::data::client::{Client, ClientStage, Link};
use crate::data::held::Skips;
use crate::limits::rate_limits::Comes;
use crate::observe::spans::SpanError;
use crate::observe::tracers::What;
use crate::timers::Timer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// New rules have come into force: the delayed clients are woken one after the other.
    pub(crate) fn renew_rates(&mut self) {
        let is_any = |stage| self.hands.active.settings.rate_limits.values().any(|rule| rule.stage() == stage);
        let (knocks, logins, transactions) =
            (is_any(RateStage::Knocks), is_any(RateStage::LogsIn), is_any(RateStage::Begins));
        let rating = &mut self.limits.rating;
        (rating.counts_knocks, rating.counts_logins, rating.counts_transactions) = (knocks, logins, transactions);
        rating.delayed.wake_all(self.hands.now);
        self.arm_rates();
    }

    /// Whether a client that has sent its startup packet may begin to authenticate. Every client is counted, because
    /// authentication itself costs something, except an admin of the console, who may have to correct the limit.
    pub(crate) fn may_knock(&mut self, key: Key) -> bool {
        if !self.limits.rating.counts_knocks {
            return true;
        }
        let Some(Client { is_own: false, stage: ClientStage::Login(login), .. }) = self.clients.get(key) else {
            return true;
        };
        if *login.request().database == *CONSOLE && self.is_admin(&login.request().user) {
            return true;
        }
        let is_admitted = self.is_admitted(key, RateStage::Knocks, Comes::Anew);
        if let Some(login) = self.clients.login_mut(key) {
            login.wait_for(if is_admitted { LoginWait::Slot } else { LoginWait::RateBeforeProof });
        }
        is_admitted
    }

    /// Whether an authenticated client may come in, with its SCRAM keys; while it is delayed, its login keeps them.
    pub(crate) fn may_come_in(&mut self, key: Key, keys: Option<ScramKeys>) -> Option<Option<ScramKeys>> {
        if !self.limits.rating.counts_logins {
            return Some(keys);
        }
        let Some(Client { is_own: false, stage: ClientStage::Login(login), .. }) = self.clients.get_mut(key) else {
            return Some(keys);
        };
        login.wait_for(LoginWait::RateAfterProof(keys));
        self.is_admitted(key, RateStage::LogsIn, Comes::Anew).then(|| self.take_shown_keys(key))
    }

    pub(crate) fn take_shown_keys(&mut self, key: Key) -> Option<ScramKeys> {
        let login = self.clients.login_mut(key)?;
        login.take_awaiting_rate().flatten()
    }

    /// Whether a client without a server may begin a transaction.
    pub(crate) fn may_begin(&mut self, key: Key) -> bool {
        !self.is_rated(key) || self.is_admitted(key, RateStage::Begins, Comes::Anew)
    }

    /// Whether the requests of a client are forwarded one by one: where transactions are counted, the beginning of each
    /// must be seen. In session pooling one loan serves all transactions.
    pub(crate) fn goes_one_by_one(&self, key: Key) -> bool {
        let Some(ready) = self.clients.ready(key) else { return false };
        let is_shared = self.registry.pool(ready.pool()).is_some_and(|place| place.mode != Mode::Session);
        is_shared && self.is_rated(key)
    }

    /// Whether a rule for transactions applies to this client.
    pub(crate) fn is_rated(&self, key: Key) -> bool {
        let Some(ready) = self.clients.ready_unless_own(key) else { return false };
        let rules = self.hands.active.settings.rate_limits.values();
        ready.replication().is_none()
            && self.subject(key).is_some_and(|subject| {
                rules.into_iter().any(|rule| rule.stage() == RateStage::Begins && rule.only.is_about(&subject))
            })
    }

    pub(crate) fn admit(&self, key: Key, stage: RateStage, is_again: bool) -> Admission {
        let Some(subject) = self.subject(key) else { return Admission::Admitted };
        let is_queued = |bucket| self.limits.rating.delayed.is_queued(bucket);
        self.hands.active.rates.rates().admit(self.hands.now, stage, &subject, is_again, &is_queued)
    }

    /// Whether a client is admitted. If not, it is delayed, or has got its error.
    pub(crate) fn is_admitted(&mut self, key: Key, stage: RateStage, comes: Comes) -> bool {
        match self.admit(key, stage, comes != Comes::Anew) {
            Admission::Admitted => return true,
            Admission::Delayed(shortage) => self.delay(key, &shortage, comes),
            Admission::Rejected(shortage) => self.reject(key, &shortage),
        }
        false
    }

    pub(crate) fn delay(&mut self, key: Key, shortage: &Shortage, comes: Comes) {
        self.log_beginning(key, shortage);
        let Shortage { bucket, until, .. } = *shortage;
        match comes {
            Comes::Anew => self.limits.rating.delayed.join(key, bucket, until),
            Comes::Again(ticket) => self.limits.rating.delayed.rejoin(key, ticket, bucket, until),
        }
        self.arm_rates();
        let Some(client) = self.clients.get_mut(key) else { return };
        match &mut client.stage {
            ClientStage::Ready(ready) if matches!(ready.link(), Link::Delayed(_)) => {}
            ClientStage::Ready(ready) => {
                ready.note_delayed(self.hands.now);
                ready.meter_mut().division.enter(self.hands.now, Phase::Waiting);
                self.arm_client(key);
                self.trace(key, |_, _| Some(What::Delayed));
                if self.spans.is_on() {
                    self.note_wait_for(key, "rate_limit");
                }
            }
            // So that a disconnect of the client is noticed.
            ClientStage::Login(_) => self.hands.io.receive(client.conn, Receive::Stream),
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => {}
        }
    }

    fn reject(&mut self, key: Key, shortage: &Shortage) {
        self.log_beginning(key, shortage);
        self.arm_rates();
        let (rule, millis) = (Box::from(&*shortage.rule.name), millis(shortage.until.since(self.hands.now)));
        if self.spans.is_on() {
            self.tell_unserved(key, SpanError::State(*b"53400"));
        }
        let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else {
            self.fail_client(key, &Fault::LoginRateExceeded { rule, limit: limit(&shortage.rule), millis });
            return;
        };
        self.limits.rating.has_rejected = true;
        ready.takes(Link::None);
        let skips = match ready.next_header() {
            Some((frontend::QUERY | frontend::FUNCTION_CALL | frontend::SYNC, _)) => Skips::Message,
            _ => Skips::UpToSync,
        };
        ready.skips_from_now(skips);
        let mut out = Vec::new();
        let fault = Fault::TransactionRateExceeded { rule, limit: limit(&shortage.rule), millis };
        fault.write_and_go_on(&mut out);
        self.hands.io.send(*conn, out.into());
        self.trace(key, |_, _| Some(What::Refused { why: fault.text().into() }));
    }

    /// The end of a rejected request has arrived: sends `ReadyForQuery`.
    pub(crate) fn end_skipping(&mut self, key: Key) {
        let Some(Client { conn, stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(key) else {
            return;
        };
        ready.skips_from_now(Skips::Nothing);
        (ready.session_mut().fate, *answered) = (RequestFate::Forward, self.hands.now);
        let mut out = Vec::new();
        write::ready_for_query(&mut out, TxStatus::Idle);
        self.hands.io.send(*conn, out.into());
    }

    fn log_beginning(&mut self, key: Key, shortage: &Shortage) {
        if shortage.begins {
            let (line, rule) = (self.client_prefix(key), &shortage.rule);
            let what = if rule.excess == pool::Excess::Delay { "delay" } else { "reject" };
            self.hands.log.about(
                &line,
                Level::Warning,
                format_args!("rate limit {rule} begins to {what} {}", rule.counts),
            );
        }
    }

    /// Arms the timer for the next delayed client or the next end of a limit.
    pub(crate) fn arm_rates(&mut self) {
        let has_rules = !self.hands.active.settings.rate_limits.is_empty();
        let end = if has_rules { self.hands.active.rates.rates().next_end() } else { None };
        let Some(next) = self.limits.rating.delayed.next_deadline().into_iter().chain(end).min() else { return };
        if self.limits.rating.armed.is_none_or(|armed| next < armed) {
            self.limits.rating.armed = Some(next);
            self.hands.timers.insert(next, Timer::Rates(next));
        }
    }
}

/// A limit in words: `100 transactions a second by user, burst 200`.
fn limit(rule: &RateRule) -> Box<str> {
    rule.limit().into()
}
