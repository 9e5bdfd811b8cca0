//! What becomes of the bytes of a logged-in client: they are forwarded to its server, or held.
//!
//! Always true: while a client waits for a server its bytes are kept, unread, in the order in which they came; nothing
//! is read from a client that does not read its answers.
//! Not here: how bytes are forwarded (`forward`), how a server is asked for (`want`).

use base::Key;
use measure::Phase;
use reactor::{Chunk, Io};

use crate::data::client::{Client, ClientStage, Link};
use crate::data::held::{Held, Skips};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Handles bytes of a logged-in client.
    pub(crate) fn hear(&mut self, key: Key, chunk: Chunk) {
        let Some(ready) = self.clients.ready(key) else { return };
        if ready.is_leaving {
            return;
        }
        let is_first = ready.held.is_none();
        match ready.link {
            Link::Loan(server) if is_first && self.may_forward(server) => self.forward(key, server, chunk),
            Link::None if is_first => {
                if let Some(chunk) = self.forward_at_once(key, chunk) {
                    self.take_in(key, chunk);
                }
            }
            _ => {
                let chunk = self.unpinned(chunk);
                let Some(ready) = self.clients.ready_mut(key) else { return };
                let held = ready.held.get_or_insert_default();
                held.push(chunk);
                let is_full = held.len() > HELD_BYTES_MAX;
                if is_first && matches!(ready.link, Link::Loan(_)) && ready.meter.division.present().is_none() {
                    // The server is probed, or given the client's settings, before this request.
                    ready.meter.division.enter(self.hands.now, Phase::Settings);
                }
                if ready.link == Link::None && ready.listen_wait.is_none() {
                    self.want_when_whole(key);
                    if self.limits.has_rejected() {
                        self.skip_rejected(key);
                    }
                } else {
                    if is_full {
                        self.pause_client(key);
                    }
                    if self.limits.holds_clients() {
                        self.charge_hold(key);
                    }
                }
            }
        }
    }

    /// Forwards the held bytes of a client to its server, as far as that is allowed.
    pub(crate) fn forward_held(&mut self, key: Key) {
        loop {
            let Some(ready) = self.clients.ready(key) else { return };
            if ready.is_leaving {
                return;
            }
            let link = ready.link;
            let may_forward = matches!(link, Link::Loan(server) if self.may_forward(server));
            let Some(ready) = self.clients.ready_mut(key) else { return };
            let server = match link {
                Link::Loan(server) if may_forward => server,
                Link::Loan(_) => return,
                Link::None | Link::Waiting(_) | Link::AsksReplica(_) | Link::Delayed(_) => {
                    // The loan ended before all that was held was forwarded: the rest is looked at again.
                    let rest = ready.held.take();
                    self.hold_again(key, rest);
                    return;
                }
            };
            let Some(chunk) = ready.pop_held() else { break };
            self.forward(key, server, chunk);
        }
        self.resume_client(key);
    }

    /// Queues what was held behind what has just been looked at.
    pub(crate) fn hold_again(&mut self, key: Key, rest: Option<Box<Held>>) {
        let Some(mut rest) = rest else { return };
        while let Some(chunk) = rest.pop() {
            self.hear(key, chunk);
        }
    }

    /// Looks at bytes of a client without a server: messages that need no server are dealt with, the rest is held.
    pub(crate) fn take_in(&mut self, key: Key, chunk: Chunk) {
        self.take_in_some(key, chunk);
        if self.limits.has_rejected() {
            self.skip_rejected(key);
        }
    }

    /// Skips the held part of a rejected request and looks at what follows it, no faster than the client reads its answers.
    pub(crate) fn skip_rejected(&mut self, key: Key) {
        loop {
            let is_behind = self.is_behind(key);
            let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
            if ready.skips == Skips::Nothing || ready.link != Link::None || ready.held.is_none() {
                return;
            }
            if is_behind {
                self.hands.io.tell_when_drained(*conn);
                self.pause_client(key);
                return;
            }
            if let Some(chunk) = ready.pop_held() {
                self.take_in_some(key, chunk);
            }
        }
    }
}

/// Bytes that may wait for a server before the client is no longer read.
const HELD_BYTES_MAX: usize = 16_384;
