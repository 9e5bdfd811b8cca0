//! What happens when a deadline is due.
//!
//! Always true: the deadline is computed again when its timer fires, so that a busy row postpones it without touching
//! the wheel.
//! Not here: when a deadline is due (`deadlines`).

use base::{Key, Time};
use measure::Closed;
use pool::{Failure, ServerKey};
use protocol::fault::Fault;
use reactor::{Io, Level};
use wire::write;

use crate::data::client::{Client, ClientStage};
use crate::data::server::{Server, ServerStage};
use crate::deadlines::ClientDue;
use crate::planted::has_hold_expired;
use crate::timers::Timer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    pub(crate) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Client(key) => self.client_due(key),
            Timer::Server(key) => self.server_due(key),
            Timer::Redial(key) => self.redial(key),
            Timer::Cancel(key) => self.cancel_too_late(key),
            Timer::Forward(key) => self.forward_too_late(key),
            Timer::Claim(key) => self.claim_due(key),
            Timer::Rates(at) => self.rates_due(at),
            Timer::Sweep => self.sweep(),
            Timer::Reports => self.send_reports(),
            Timer::Traced => self.send_traced(),
            Timer::Spans => self.send_spans(),
            Timer::Watch => self.watch_waits(),
        }
    }

    fn client_due(&mut self, key: Key) {
        if let Some(client) = self.clients.get_mut(key) {
            client.timer = None;
        }
        match self.next_of_client(key) {
            Some((at, ClientDue::Fault(fault))) if at <= self.now => {
                let fault = self.explained(key, fault);
                self.fail_client(key, &fault);
            }
            Some((at, ClientDue::Farewell)) if at <= self.now => self.drop_client(key, "cancel_wait_timeout"),
            Some((at, ClientDue::Late)) if at <= self.now => self.join_too_late(key),
            Some((at, ClientDue::Notice)) if at <= self.now => {
                self.tell_that_it_waits(key);
                self.arm_client(key);
            }
            _ => self.arm_client(key),
        }
    }

    fn tell_that_it_waits(&mut self, key: Key) {
        let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        ready.is_notified = true;
        let mut out = Vec::new();
        let says = write::Says {
            severity: "NOTICE",
            sqlstate: "00000",
            message: "No server connection available in postgres backend, client being queued",
            detail: None,
            hint: None,
        };
        write::notice(&mut out, says);
        self.io.send(*conn, out.into());
    }

    fn server_due(&mut self, key: ServerKey) {
        if let Some(server) = self.servers.get_mut(key) {
            server.timer = None;
        }
        let withheld = self.servers.get(key).and_then(Server::withheld_until);
        if withheld.is_some_and(|at| at <= self.now) {
            self.end_waiting_for_listener(key);
            self.arm_server(key);
            return;
        }
        let numbers = self.servers.get(key).and_then(Server::sequences_due);
        if numbers.is_some_and(|at| at <= self.now) {
            self.sequences_are_over(key);
            return;
        }
        let Some((_, fault)) = self.next_of_server(key).filter(|(at, _)| *at <= self.now) else {
            self.arm_server(key);
            return;
        };
        let Some(server) = self.servers.get(key) else { return };
        match &server.stage {
            ServerStage::Lent { client } => {
                let (client, is_waiting) = (*client, server.session.life.waits_since().is_some());
                if server.session.life.probe().is_some() {
                    self.lose_server(key, Closed::Dirty, "its session could not be read in time");
                } else if is_waiting && matches!(fault, Fault::ServerCrashed) {
                    self.lose_server(
                        key,
                        Closed::Dirty,
                        "did not take over the client's settings in time (server_mend_timeout)",
                    );
                }
                self.fail_client(client, &fault);
                if matches!(fault, Fault::QueryTimeout) {
                    self.hurry_cleaning(key);
                }
            }
            ServerStage::Cleaning(cleaning) if self.now < cleaning.ends(self.active.settings.server_mend_timeout) => {
                self.cancel_again(key);
            }
            ServerStage::Cleaning(cleaning) => {
                let why = cleaning.too_late();
                self.log_server(key, Level::Warning, format_args!("was not clean in time ({why})"));
                self.lose_server(key, Closed::Dirty, "could not be made clean in time");
            }
            ServerStage::Idle => {}
            ServerStage::Connecting(_) => self.connect_is_late(key),
            _ => self.dial_failed(key, Failure::unreachable("connect timeout")),
        }
    }

    /// The client has not called `currval` or `lastval` in time: its loan need not be kept for that any longer.
    pub(crate) fn sequences_are_over(&mut self, server_key: ServerKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        server.session.sequences_until = None;
        if let Some(client_key) = server.client() {
            self.forget_sequences(server_key, client_key);
            self.end_loan_if_over(server_key, client_key);
        }
    }

    /// Ends the affinity holds that have expired: their clients have not come back.
    pub(crate) fn end_expired_affinity_holds(&mut self) {
        self.end_affinity_hold_until(self.now);
    }

    /// Ends all affinity holds, because an order may come.
    pub(crate) fn end_all_affinity_holds(&mut self) {
        if let Some(last) = self.affinity_holds.last_deadline() {
            self.end_affinity_hold_until(last);
        }
    }

    fn end_affinity_hold_until(&mut self, now: Time) {
        while let Some((until, server_key)) = self.affinity_holds.take_due(now) {
            let Some(server) = self.servers.get(server_key) else { continue };
            if has_hold_expired(server.affinity_hold.is_waiting_until(until)) {
                self.end_affinity_hold(server_key);
                self.settle();
            }
        }
    }
}
