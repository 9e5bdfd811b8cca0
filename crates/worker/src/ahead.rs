//! A client's first request goes along with what its server is told first, in one packet, where that is safe.
//!
//! Always true: a request that went along is not run if the server does not take what it is told, for it skips everything up to the
//! next Sync then: there is one in the request, its end, or none.
//! Not here: what a server is told (`protocol::state`), when (`loan`).

use protocol::request::is_one_request;
use protocol::vars::Tracked;
use wire::backend;

use crate::client::{Client, Ready, Stage};

impl Ready {
    /// Whether what it has said is one request, which may go along with what its server is told first.
    pub(crate) fn says_one_request(&self) -> bool {
        let is_between_messages = !self.scanner.is_in_body() && self.scanner.torn_header().is_empty();
        let held = self.held.as_ref().and_then(|held| held.in_one_piece());
        is_between_messages && !self.is_collecting() && held.is_some_and(is_one_request)
    }
}

impl Client {
    /// Whether this `ParameterStatus` tells it the `application_name` that it has.
    pub(crate) fn has_name(&self, tracked: &Tracked, status: &[u8]) -> bool {
        let place = tracked.application_name();
        match (backend::parameter_status(status), &self.stage) {
            (Some((name, value)), Stage::Ready(ready)) => {
                tracked.place(name) == Some(place) && ready.vars.get(place) == Some(value)
            }
            _ => false,
        }
    }
}
