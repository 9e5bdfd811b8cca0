//! A client's first request goes along with what its server is told first, in one packet, where that is safe, or without that, where it needs nothing.
//!
//! Always true: a request that went along is not run if the server does not take what it is told, for it skips everything up to the
//! next Sync then: there is one in the request, its end, or none. What follows a request before which the server was told nothing waits until
//! the server has been told.
//! Not here: what a server is told (`protocol::state`), when (`loan`).

use pool::{ClientKey, Mode, ServerKey};
use protocol::request::{is_one_request, messages};
use protocol::state::Overrides;
use reactor::Io;
use wire::frontend;

use crate::client::{Client, Ready, Stage};
use crate::loan::differ;
use crate::server::{CatchingUp, Server, Stage as ServerStage};
use crate::turn::Worker;

/// A longer text is not looked at before it is sent.
const TEXT_BYTES_MAX: usize = 1024;

impl Ready {
    /// Whether what it has said is one request, which may go along with what its server is told first.
    pub(crate) fn says_one_request(&self) -> bool {
        let is_between_messages = !self.session.scanner.is_in_body() && self.session.scanner.torn_header().is_empty();
        let held = self.held.as_ref().and_then(|held| held.in_one_piece());
        is_between_messages && !self.session.is_collecting() && held.is_some_and(is_one_request)
    }
}

impl<I: Io> Worker<I> {
    /// Whether a client's request can be sent to a server that has other settings, and needs none of the client's.
    pub(crate) fn needs_nothing(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(client_key) else { return false };
        let Some(server) = self.servers.get(server_key) else { return false };
        let place = self.places.pool(server.pool).filter(|place| place.follows && place.mode != Mode::Session);
        let has_more =
            ready.session.ear.is_some() || ready.session.traces.as_ref().is_some_and(|traces| traces.is_marked());
        // At its end the server would be asked, and what that has is not what its client is to have.
        if self.force.settings.session_verify
            || place.is_none()
            || server.private.is_some()
            || has_more
            || !ready.says_one_request()
        {
            return false;
        }
        let held = ready.held.as_ref().and_then(|held| held.in_one_piece()).unwrap_or_default();
        // A text that is read alike whatever the settings are.
        let text = messages(held).next().filter(|(_, kind, _)| *kind == frontend::QUERY).map(|(_, _, body)| body);
        let text =
            text.and_then(|body| body.strip_suffix(&[0])).filter(|text| text.is_ascii() && !text.contains(&b'\\'));
        let Some(text) = text else { return false };
        let learned = &self.places.databases[server.database as usize].learned;
        if text.len() > TEXT_BYTES_MAX || learned.is_due(self.now) {
            return false;
        }
        let class = self.texts.class(text, &ready.session.vars, &self.force.tracked, learned);
        let none = Overrides::default();
        let (theirs, ours) =
            (server.session.overrides.as_deref().unwrap_or(&none), ready.session.overrides.as_deref().unwrap_or(&none));
        protocol::state::needs_nothing(&class, theirs, ours)
    }

    /// A server is sent a request that needs nothing of what its client has set.
    pub(crate) fn lend_untold(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        server.stage = ServerStage::Lent { client: client_key, catching_up: Some(CatchingUp::Untold) };
        if let Some(request) = ready.pop_held() {
            self.forward(client_key, server_key, request);
        }
        self.arm_server(server_key);
    }

    /// Such a request has been answered: it has done what its text tells to both, or nothing.
    pub(crate) fn end_untold(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if let Some(traces) = ready.session.traces.as_mut().filter(|traces| !traces.is_known()) {
            traces.leave();
        }
        server.stage = ServerStage::Lent { client: client_key, catching_up: None };
        self.end_loan_if_over(server_key, client_key);
        // Unless its loan has ended, it is told before anything else is said to it.
        let is_lent = |server: &&mut Server| server.client() == Some(client_key);
        let Some(server) = self.servers.get_mut(server_key).filter(is_lent) else { return };
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(client_key) else { return };
        if differ(server, ready) && server.session.exchange.may_end() {
            self.catch_up(server_key, client_key, self.now);
        }
    }
}
