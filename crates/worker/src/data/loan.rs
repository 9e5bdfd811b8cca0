//! Loans: from attaching a server to a client until it is given back.
//!
//! Always true: a server is given back only when it owes nothing, stands outside a transaction, no half message is on its
//! way to it and no cancel request is; otherwise it is mended first or closed.
//! Not here: who gets which server (crate `pool`), how a server is made clean (`upstream::cleanup`).

use std::time::Duration;

use base::Time;
use base::planted::{self, Planted};
use pool::{ClientKey, Event, Fingerprint, Linger, Mode, Return, ServerKey};
use protocol::fault::Fault;
use protocol::loan::{Differences, Life, Told, begin, doubt_what_was_read};
use protocol::state::{Counted, Kind, Probe};
use reactor::{Io, Level};

use crate::data::client::{Client, Link, Stage as ClientStage};
use crate::data::probe::{DISCARD_ALL, fingerprint};
use crate::data::server::Stage;
use crate::turn::Worker;
use crate::upstream::cleanup::unfit;

impl<I: Io> Worker<I> {
    /// Lends a server to a client.
    pub(crate) fn attach(&mut self, client_key: ClientKey, server_key: ServerKey, waited: Duration) {
        let since = Time(self.now.0.saturating_sub(waited.as_micros() as u64));
        let (ready, is_listener) = match self.clients.get_mut(client_key) {
            Some(Client { stage: ClientStage::Ready(ready), is_listener, .. })
                if matches!(ready.link, Link::Waiting(_)) =>
            {
                (ready, *is_listener)
            }
            _ => {
                // It has gone in this very turn, or wants nothing any more; the server has heard nothing of it.
                self.give_back(server_key);
                return;
            }
        };
        let Some(server) = self.servers.get_mut(server_key) else {
            // The server has gone in this very turn: the client, whose request is still held, asks for another.
            self.want_again(client_key, since);
            return;
        };
        // Whatever could mix two clients' bytes ends the process: a restart costs a second, a mixed answer cannot be undone.
        assert!(matches!(server.stage, Stage::Idle), "a server was to be lent that is not at rest");
        assert!(server.session.exchange.may_end(), "a server was to be lent that owes an answer");
        assert!(server.private.is_none(), "a server was to be lent that is one client's alone");
        let totals = &mut self.places.databases[server.database as usize].totals;
        totals.server_assignment_count += 1;
        server.linger = Linger::default();
        server.is_full = false;
        totals.wait_time += waited.as_micros() as u64;
        ready.link = Link::Loan(server_key);
        let is_anew = server.last_client.replace(client_key) != Some(client_key)
            || ready.last_server.replace(server_key) != Some(server_key);
        begin(&mut server.session, &mut ready.session, client_key, is_anew);
        if is_listener {
            self.tell_pools(Event::SetAside { server: server_key });
        }
        self.catch_up(server_key, client_key, since);
    }

    /// Tells a server what its client has set, if that differs, and then what the client says: in the same packet, if that can be.
    pub(crate) fn catch_up(&mut self, server_key: ServerKey, client_key: ClientKey, since: Time) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if server.session.life.probe().is_some() {
            // It has been asked something meanwhile, and is told after that.
            return;
        }
        server.asked = self.now;
        let learned = &self.places.databases[server.database as usize].learned;
        let differences = Differences::of(&server.session, &ready.session, &self.force.tracked, learned);
        if differences.are_of_settings_only() && self.needs_nothing(server_key, client_key) {
            self.lend_untold(server_key, client_key);
            return;
        }
        let is_taken = (differences.settings || differences.parameters) && self.is_taken(client_key);
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let may_go_along = is_taken && ready.session.says_one_request(ready.held_in_one_piece());
        let Told { out, is_along, texts } =
            server.session.apply(&ready.session, client_key, differences, may_go_along, &self.force.tracked);
        if out.is_empty() {
            server.lends(client_key, Life::Running);
            self.forward_held(client_key);
            return;
        }
        server.lends(client_key, if is_along { Life::ApplyingAlong } else { Life::ApplyingBefore(since) });
        self.io.send(server.conn, out.into());
        let along = if is_along { ready.pop_held() } else { None };
        if self.force.settings.verbose > 0 {
            let line = self.server_prefix(server_key);
            for sql in &texts {
                self.log.add(Level::Debug, format_args!("{line}varcache_apply: {sql}"));
            }
        }
        if let Some(along) = along {
            self.forward(client_key, server_key, along);
        }
        self.arm_server(server_key);
    }

    /// The server has taken over the client's parameters.
    pub(crate) fn caught_up(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if server.session.exchange.is_ours() {
            return;
        }
        if matches!(server.session.life, Life::Unapplied) {
            self.end_untold(server_key, client_key);
            return;
        }
        server.session.life.becomes(Life::Running);
        if server.session.again.has_forgotten() {
            self.catch_up(server_key, client_key, self.now);
            return;
        }
        let server_vars = server.session.vars.clone();
        if let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get(client_key) {
            let mut vars = (*ready.session.vars).clone();
            if self.force.settings.verbose > 0 {
                let line = self.client_prefix(client_key);
                for (name, ours, theirs) in vars.respellings(&server_vars, &self.force.tracked) {
                    let what = format_args!(
                        "{line}varcache_set_canonical: setting {name} to its canonical version {ours} -> {theirs}"
                    );
                    self.log.add(Level::Debug, what);
                }
            }
            vars.respell(&server_vars);
            let vars = self.known_vars.share(vars);
            if let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) {
                ready.session.vars = vars;
            }
            self.takes_what_it_began_with(client_key);
        }
        self.forward_held(client_key);
        // Other limits hold for what went along.
        self.arm_server(server_key);
    }

    /// Whether bytes of the client may go to this server now.
    pub(crate) fn may_forward(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        // A cancel request that is still on its way must not meet the client's next query.
        let is_aimed_at = server.session.cancels_sent > 0
            && server.session.exchange.owes_nothing()
            && !planted::is(Planted::CancelMeetsNextQuery);
        let is_free = server.session.life.is_running() && !server.session.again.is_refused() && !server.is_full;
        matches!(server.stage, Stage::Lent { .. }) && is_free && !is_aimed_at
    }

    /// Ends the loan if it is over by the rules of its pool.
    pub(crate) fn end_loan_if_over(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        server.linger.come_back();
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        // In session mode a loan lasts as long as its client, and so it does in any mode where the server is its client's alone.
        let is_session =
            server.private.is_some() || self.places.pool(server.pool).is_none_or(|place| place.mode == Mode::Session);
        if is_session {
            self.arm_server(server_key);
            if !planted::is(Planted::BusySessionKept) {
                self.close_obsolete_session(server_key);
            }
            return;
        }
        // What the server says by itself may have begun, and its end is the same client's.
        let is_half_said = ready.session.is_torn() || ready.session.is_collecting() || server.session.is_in_message();
        if !server.session.exchange.may_end() || is_half_said {
            self.arm_server(server_key);
            return;
        }
        doubt_what_was_read(&mut server.session, &mut ready.session);
        let counted = ready.session.counting.ends();
        let mut is_marked = ready.session.traces.as_ref().is_some_and(|traces| traces.is_marked());
        if counted != Counted::Neither || server.session.numbers_until.is_some() {
            is_marked = self.count_numbers(server_key, client_key, counted);
        }
        if is_marked || self.verify_untouched(server_key, client_key) {
            self.keep_or_probe(server_key, client_key);
        } else if !self.lingers(server_key, client_key) {
            self.end_loan(server_key, client_key);
        }
    }

    /// What the client has just said may be the rest of something that its server does not wait for any more, such as the
    /// data of a COPY that has failed: then the loan is over now. Not while more is held, which may be the rest of a header.
    pub(crate) fn end_loan_after(&mut self, key: ClientKey, server_key: ServerKey) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get(key) else { return };
        let is_at_rest = self.servers.get(server_key).is_some_and(|server| server.session.exchange.may_end());
        if is_at_rest
            && !ready.session.is_torn()
            && !ready.session.is_collecting()
            && ready.held.is_none()
            && ready.has_loan_of(server_key)
        {
            self.end_loan_if_over(server_key, key);
        } else {
            self.arm_server(server_key);
        }
    }

    /// Ends a loan whose server is clean.
    pub(crate) fn end_loan(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if let Some(Client { stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(client_key) {
            ready.link = Link::None;
            *answered = (*answered).max(server.answered);
        }
        if !server.session.exchange.may_be_lent() {
            let why = unfit(&server.session.exchange);
            self.unlink_flow(client_key, server_key);
            self.lose_server(server_key, why);
        } else if server.session.cancels_sent > 0 {
            let is_reset = self.pools.limits(server.pool).is_some_and(|limits| limits.reset);
            if is_reset {
                self.mend(server_key, false);
            } else {
                self.hold_for_cancels(server_key);
            }
            self.unlink_flow(client_key, server_key);
        } else {
            server.comes_to_rest();
            self.unlink_flow(client_key, server_key);
            self.give_back(server_key);
        }
        // What the client said meanwhile begins its next request, if it has taken most of its answers.
        if !self.is_behind(client_key) {
            self.forward_held(client_key);
        }
        if self.places.has_idle_timeouts {
            self.arm_client(client_key);
        }
    }

    /// A server that is clean goes back to its pool.
    fn give_back(&mut self, server: ServerKey) {
        let fingerprint = self.servers.get(server).map_or(Fingerprint::default(), |server| {
            fingerprint(server.session.overrides.as_deref(), server.session.placeholders, server.last_client)
        });
        self.tell_pools(Event::Returned { server, as_: Return::Clean, fingerprint });
    }

    /// A client leaves its server, in whatever state.
    pub(crate) fn abandon(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        ready.link = Link::None;
        // Whoever asked it nothing waits for no answer.
        if server.session.life.probe().is_some_and(Probe::is_of_nothing) {
            server.session.life.take_probe();
        }
        server.session.again.forget();
        if server.private.is_some() {
            self.leave_private(server_key);
            return;
        }
        doubt_what_was_read(&mut server.session, &mut ready.session);
        let is_forgotten = planted::is(Planted::StateLeftBehind);
        let is_torn = ready.session.is_torn();
        if is_torn {
            server.session.exchange.torn(ready.session.scanner.header()[0]);
        }
        if server.session.numbers_until.is_some() {
            self.forget_numbers(server_key, client_key);
        }
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        if let Some(traces) = ready.session.traces.as_mut().filter(|traces| traces.is_marked() && !is_forgotten) {
            if server.session.life.probe().is_some() && !is_torn && traces.is_all_told() {
                traces.leave();
                self.await_probe(server_key);
                return;
            }
            let can_be_discarded = traces.pins().kinds().all(Kind::is_discarded);
            traces.leave();
            server.session.life.take_probe();
            match can_be_discarded {
                true => self.mend_with(server_key, is_torn, Some(DISCARD_ALL)),
                false => self.doom(server_key, "its client left what cannot be discarded"),
            }
            return;
        }
        let is_clean = server.session.exchange.may_end() && server.session.exchange.may_be_lent() && !is_torn;
        if planted::is(Planted::HeldBytesSentAfterAll)
            && let Some(mut held) = ready.held.take()
        {
            std::iter::from_fn(|| held.pop()).for_each(|chunk| self.io.send(server.conn, chunk));
        }
        if is_clean && server.session.is_in_message() {
            self.doom(server_key, "its client left in the middle of a message that the server sent by itself");
            return;
        }
        if is_clean && server.session.cancels_sent == 0 {
            server.comes_to_rest();
            self.resume_server(server_key);
            self.give_back(server_key);
            return;
        }
        self.mend(server_key, is_torn);
    }

    /// A server is lost before its client's request was sent to it: the request is still held, and is served by another one.
    pub(crate) fn lose_before_use(&mut self, server: ServerKey, client: ClientKey, since: Time, why: &str) {
        let Some(database) = self.servers.get(server).map(|server| server.database) else { return };
        let is_missed = self.keeps_something(client);
        self.lose_server(server, why);
        if is_missed {
            self.fail_client(client, &Fault::ServerCrashed);
            return;
        }
        self.lose_given_channels(client, database);
        self.want_again(client, since);
    }

    /// Whether the server of a client has what that would miss on any other: one that forgets its plans, or is told something anew, in the
    /// middle of a loan. The session for all misses nothing that its clients are not told of (`lose_given_channels`).
    fn keeps_something(&self, client: ClientKey) -> bool {
        let client = self.clients.get(client).filter(|client| !client.is_listener);
        client.is_some_and(|client| match &client.stage {
            ClientStage::Ready(ready) => ready.session.traces.as_ref().is_some_and(|traces| !traces.pins().is_empty()),
            _ => false,
        })
    }
}
