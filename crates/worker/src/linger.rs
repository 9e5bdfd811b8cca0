//! A server stays for a moment with a client that comes back at once, where everybody who waits for it would need other things set there.
//!
//! To change what is set in a session costs PostgreSQL about as much as a short query. Clients in a loop, each with settings of its
//! own, would pay that with each transaction; so each has some in a row.
//!
//! Always true: no client is passed over by one server for more than [`LOANS_MAX`] transactions, nor by one that does nothing for longer
//! than [`LINGER`]; whatever an operator orders finds no server lingering.
//! Not here: who waits (crate `pool`), what is told to a server (`loan`).

use std::collections::VecDeque;
use std::time::Duration;

use base::Time;
use base::planted::{self, Planted};
use pool::{ClientKey, ServerKey};
use reactor::Io;

use crate::client::{Client, Ready, Stage as ClientStage};
use crate::look::likeness;
use crate::server::{Server, Stage};
use crate::turn::Worker;

/// How a server lingers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Linger {
    /// Until when, if it does or has done so last.
    until: Option<Time>,
    /// How many loans it has made of one.
    loans: u32,
}

impl Linger {
    /// Whether its client may come back.
    pub(crate) fn is_waiting(&self) -> bool {
        self.until.is_some()
    }

    /// Whether its client has come back. It does not linger now.
    pub(crate) fn is_over(&mut self) -> bool {
        self.until.take().is_some()
    }
}

/// The servers that linger, and some that did, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    rows: VecDeque<(Time, ServerKey)>,
}

impl Lingering {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.rows.front().map(|(until, _)| *until)
    }
}

/// What is learned of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Haste {
    /// So many of its loans end without a server lingering, for the last one that did so did it in vain.
    ends: u32,
}

impl<I: Io> Worker<I> {
    /// A loan could end. Whether it does not, since its client may come back at once; it has done so last time, or not.
    pub(crate) fn lingers(&mut self, server_key: ServerKey, client_key: ClientKey, has_come_back: bool) -> bool {
        let Some(server) = self.servers.get_mut(server_key) else { return false };
        let Some(Client { stage: ClientStage::Ready(ready), is_listener, .. }) = self.clients.get_mut(client_key)
        else {
            return false;
        };
        if self.pools.wants_back(server.pool, likeness(server.overrides.as_deref())) {
            return false;
        }
        let is_ending = self.shutdown.is_some() || self.rest.is_some() || self.pools.is_obsolete(server_key);
        let is_clean = server.exchange.is_proven() && server.cancels_sent == 0;
        if *is_listener || is_ending || !is_clean || !may_linger(server, ready, has_come_back) {
            return false;
        }
        let until = self.now + LINGER;
        server.linger.until = Some(until);
        server.linger.loans += 1;
        self.lingering.rows.push_back((until, server_key));
        // What it has said meanwhile is its next request.
        self.forward_held(client_key);
        true
    }

    /// Ends the loans of those who have lingered in vain.
    pub(crate) fn end_lingering(&mut self) {
        self.end_lingering_until(self.now);
    }

    /// Ends all of them: something may have been ordered.
    pub(crate) fn end_all_lingering(&mut self) {
        if let Some((last, _)) = self.lingering.rows.back() {
            self.end_lingering_until(*last);
        }
    }

    fn end_lingering_until(&mut self, now: Time) {
        while let Some(&(until, server_key)) = self.lingering.rows.front().filter(|(until, _)| *until <= now) {
            self.lingering.rows.pop_front();
            let Some(server) = self.servers.get(server_key) else { continue };
            let has_come_back = server.linger.until != Some(until) && !planted::is(Planted::LingerMistaken);
            if !has_come_back {
                self.end_linger(server_key);
                self.settle();
            }
        }
    }

    /// Ends the loan of a server that lingers, if its client has not come back.
    pub(crate) fn end_linger(&mut self, server_key: ServerKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Stage::Lent { client: client_key, catching_up: None } = server.stage else { return };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        if !server.exchange.may_end() || ready.is_torn() || ready.is_collecting() {
            return;
        }
        server.linger.until = None;
        ready.haste.ends = IN_VAIN;
        self.end_loan(server_key, client_key);
    }
}

/// As far as this client and this server are concerned.
fn may_linger(server: &Server, ready: &mut Ready, has_come_back: bool) -> bool {
    if !has_come_back && ready.haste.ends > 0 {
        ready.haste.ends -= 1;
        return false;
    }
    server.linger.loans < LOANS_MAX
}

/// So long a server lingers: about what it takes a client nearby to read an answer and to ask again.
const LINGER: Duration = Duration::from_micros(500);
/// So many transactions follow each other.
const LOANS_MAX: u32 = 8;
/// Whoever has not come back in time is not waited for so many times.
const IN_VAIN: u32 = 32;
