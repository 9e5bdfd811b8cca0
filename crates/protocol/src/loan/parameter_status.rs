//! What a `ParameterStatus` of a server means to the two sessions, and what the client is told of parameters.
//!
//! Always true: a client is told each value that its own requests have given a parameter, and none that belongs to another
//! client or to the startup of its server.
//! Not here: when a message comes (`answers`), when a server is given its client's values (`applying`).

use std::rc::Rc;

use wire::{backend, write};

use super::answers::{Answers, Gives, ServerEvent, ToClient};
use super::client_session::ClientSession;
use super::loan_phase::LoanPhase;
use super::server_session::ServerSession;
use crate::planted::is_known;
use crate::vars::{READ_ONLY, Vars};

impl Answers<'_> {
    /// What the client is given of this `ParameterStatus`, which has arrived completely.
    pub(super) fn gives_status(&self, client: &ClientSession, server: &ServerSession, status: &[u8]) -> Gives {
        // While an answer is hidden, the parameter returns to its old value as soon as the server has read the message for which
        // it was changed.
        if server.exchange.is_hiding() {
            return Gives::Nothing;
        }
        let Some((name, value)) = backend::parameter_status(status) else { return Gives::Message };
        let place = self.tracked.reported_place(name);
        // The server comes back to the value that the client has had all the time.
        let is_back = |place| client.vars.get(place) == Some(value) && server.vars.get(place) != Some(value);
        if place.is_some_and(|place| client.has_been_told(self.tracked, place, value) || is_back(place))
            || server.is_applied_along && client.has_set(self.tracked, (place, name), value)
        {
            return Gives::Nothing;
        }
        let Some(place) = place else { return Gives::Message };
        match client.value_for(self.tracked, &server.initial_vars, (place, name), value) {
            own if own == value => Gives::Message,
            own if client.vars.get(place) == Some(own) => Gives::Nothing,
            own => Gives::Instead(parameter_status(name, own)),
        }
    }

    /// Handles a `ParameterStatus`; a client that has the server receives the same message.
    pub(super) fn parameter<'b>(
        &mut self,
        client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        status: &[u8],
    ) -> Option<ServerEvent<'b>> {
        let (name, value) = backend::parameter_status(status)?;
        let place = self.tracked.reported_place(name)?;
        let tells_role = tells_role(client.as_deref(), (place, name), value);
        self.parameter_is(client, server, (place, name), value);
        tells_role.then_some(ServerEvent::RoleReport)
    }

    fn parameter_is(
        &mut self,
        client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        (place, name): (usize, &str),
        value: &str,
    ) {
        let is_name = place == self.tracked.application_name();
        if is_name {
            server.reported_name = None;
        }
        let is_known = is_known(server.vars.get(place) == Some(value), client.is_some());
        let client = client.filter(|_| self.shares_parameters);
        let has_same = client.as_ref().is_some_and(|client| Rc::ptr_eq(&client.vars, &server.vars));
        if !is_known {
            server.vars = self.known.with(&server.vars, place, value);
            // The client may have left before it received the message.
            if !is_name && self.tracked.is_followed(place) {
                server.server_statements.doubt_this_loan();
            }
        }
        let Some(client) = client else { return };
        let own = client.value_for(self.tracked, &server.initial_vars, (place, name), value);
        if has_same && own == value {
            client.vars = server.vars.clone();
        } else if client.vars.get(place) != Some(own) {
            client.vars = self.known.with(&client.vars, place, own);
        }
    }

    /// The server is ready. Returns the client's parameters if its request has changed some and the server has not reported that:
    /// those that are reset go back to the client's startup values, not to those of the server; and a request that was sent without its
    /// client's settings, or together with them, may have set what the server had already. In a transaction, a parameter that has
    /// been reset may have been set again until the end of it.
    #[cold]
    pub(super) fn vars_after(&self, client: &ClientSession, server: &ServerSession, is_outside: bool) -> Option<Vars> {
        let effects = client.effects_on_parameters();
        let is_at_first = |name: &str| {
            let place = self.tracked.reported_place(name);
            is_outside || place.is_none_or(|place| server.vars.get(place) == server.initial_vars.get(place))
        };
        let is_reset = |name: &str| effects.is_some_and(|effects| effects.is_reset(name)) && is_at_first(name);
        let decides = |name: &str| effects.is_some_and(|effects| effects.decides(name));
        let mut vars = client.vars.reset(&client.initial_vars, self.tracked, is_reset);
        // The server has its client's settings since before the request, so that its values are those of the client.
        let has_all = server.is_applied_along && matches!(server.phase, LoanPhase::Running);
        if has_all || matches!(server.phase, LoanPhase::Unapplied) {
            for (place, name, value) in server.vars.unlike(&client.vars, self.tracked) {
                if decides(name) || has_all && self.tracked.is_of_session(place) && !is_reset(name) {
                    vars.get_or_insert_with(|| (*client.vars).clone()).set(place, value);
                }
            }
        }
        vars
    }

    /// The server is ready, received its client's `application_name` along with the request, and has not reported one
    /// since: the request has set the name that was reported last, or reset it, and the client is sent its own.
    pub(super) fn keep_name(
        &mut self,
        client: Option<&mut ClientSession>,
        server: &mut ServerSession,
        to_client: &mut impl ToClient,
    ) {
        let Some(name) = server.reported_name.take() else { return };
        let place = self.tracked.application_name();
        if let Some(client) = client.as_deref() {
            let own = client.value_for(self.tracked, &server.initial_vars, (place, "application_name"), &name);
            if own == &*name || client.vars.get(place) != Some(own) {
                to_client.send(parameter_status("application_name", own));
            }
        }
        self.parameter_is(client, server, (place, "application_name"), &name);
    }
}

fn parameter_status(name: &str, value: &str) -> Box<[u8]> {
    let mut status = Vec::new();
    write::parameter_status(&mut status, name, value);
    status.into()
}

/// Whether a report tells the role of the server's host: that recovery has ended, or that transactions are read-only, or no longer,
/// unless the client has set that itself.
fn tells_role(client: Option<&ClientSession>, (place, name): (usize, &str), value: &str) -> bool {
    let is_own = |client: &ClientSession| {
        client.vars.get(place) == Some(value)
            || client.effects_on_parameters().is_some_and(|effects| effects.decides(name))
    };
    name == "in_hot_standby" || name == READ_ONLY && !client.is_some_and(is_own)
}
