//! A server has answered a query of our own.
//!
//! Always true: what the answer says is noted before the loan goes on or ends.
//! Not here: what is asked or set (`probe`, `catch_up`), errors (`own_errors`).

use pool::{ClientKey, ServerKey};
use protocol::loan::{LoanPhase, Probed, ProbedState, conclude, differ, doubt_what_was_read};
use protocol::state::ANSWER_BYTES_MAX;
use reactor::{Io, Level};

use crate::data::client::{Client, ClientStage};
use crate::data::probe::terms;
use crate::data::server::Server;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The server has the client's settings.
    pub(crate) fn caught_up(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if server.session.exchange.is_ours() {
            return;
        }
        if matches!(server.session.phase, LoanPhase::Unapplied) {
            self.end_unapplied(server_key, client_key);
            return;
        }
        server.session.phase.becomes(LoanPhase::Running);
        if server.session.repeatable.end_deallocation() {
            self.catch_up(server_key, client_key, self.hands.now);
            return;
        }
        let (server_vars, pool) = (server.session.vars.clone(), server.pool);
        if !server.resetting.is_empty()
            && let Some(place) = self.registry.pool_mut(pool)
        {
            place.accepted_parameters.add_resets(std::mem::take(&mut server.resetting));
        }
        let follows = self.registry.pool(pool).is_some_and(|place| place.follows);
        if let Some(ready) = self.clients.ready(client_key) {
            let vars = &ready.session.vars;
            if self.hands.active.settings.verbose > 0 {
                let line = self.client_prefix(client_key);
                for (name, ours, theirs) in vars.respellings(&server_vars, &self.hands.active.tracked, follows) {
                    let what = format_args!(
                        "varcache_set_canonical: setting {name} to its canonical version {ours} -> {theirs}"
                    );
                    self.hands.log.about(&line, Level::Debug, what);
                }
            }
            if vars.respellings(&server_vars, &self.hands.active.tracked, follows).next().is_some() {
                let mut vars = (**vars).clone();
                vars.respell(&server_vars, &self.hands.active.tracked, follows);
                let vars = self.known_vars.share(vars);
                if let Some(ready) = self.clients.ready_mut(client_key) {
                    ready.session.vars = vars;
                }
            } else if **vars == *server_vars
                && let Some(ready) = self.clients.ready_mut(client_key)
            {
                ready.session.vars = server_vars;
            }
            self.startup_parameters_accepted(client_key);
        }
        self.hands.enqueue(Task::ForwardHeld(client_key));
        // Other timeouts hold for a request that went along with the settings.
        self.arm_server(server_key);
    }

    /// A request that was sent without settings has been answered: its known effects hold for both sessions, or it had none.
    pub(crate) fn end_unapplied(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if let Some(session_effects) =
            ready.session.session_effects.as_mut().filter(|session_effects| !session_effects.is_known())
        {
            session_effects.leave();
        }
        server.session.phase.becomes(LoanPhase::Running);
        self.end_loan_if_over(server_key, client_key);
        // If the loan goes on, the server is sent the settings before any other request.
        let is_lent = |server: &&mut Server| server.client() == Some(client_key);
        let Some(server) = self.servers.get_mut(server_key).filter(is_lent) else { return };
        let Some(ready) = self.clients.ready(client_key) else { return };
        if differ(&server.session, &ready.session) && server.session.exchange.may_end() {
            self.catch_up(server_key, client_key, self.hands.now);
        }
    }

    /// The server has answered a probe.
    pub(crate) fn probed(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        if server.session.exchange.is_ours() {
            // This was the answer to a stray Sync.
            return;
        }
        let Some(mut probe) = server.session.phase.take_probe() else { return };
        if probe.is_of_nothing() {
            self.listener_has_caught_up(server_key, client_key);
            return;
        }
        if probe.tries_again() {
            self.ask(server_key, *probe);
            self.arm_server(server_key);
            return;
        }
        if probe.mark().is_some() {
            self.marked(server_key, client_key, *probe);
            return;
        }
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        let Some(place) = self.registry.pool(server.pool) else {
            // The server is closed when it is given back.
            ready.session.session_effects = None;
            self.end_loan(server_key, client_key);
            return;
        };
        let is_overfull = probe.is_overfull();
        match conclude(
            &mut server.session,
            &mut ready.session,
            *probe,
            terms(place, &self.hands.active, self.hands.now),
        ) {
            Probed::Functions(knowledge) => {
                self.learn(server_key, knowledge);
                if self.keep_or_probe(server_key, client_key) {
                    self.end_loan_if_over(server_key, client_key);
                }
                return;
            }
            Probed::State(state) => {
                if self.heed_state(server_key, client_key, state) {
                    return;
                }
            }
            Probed::Nothing => {}
        }
        if is_overfull {
            let (client, server) = (self.client_prefix(client_key), self.server_prefix(server_key));
            let (server, most) = (server.to_string(), ANSWER_BYTES_MAX >> 20);
            let server = server.trim_end();
            let text = format_args!("session has more than is followed ({most} MiB), server {server}");
            self.hands.log.about(&client, Level::Warning, text);
        }
        let Some(ready) = self.clients.ready_mut(client_key) else { return };
        let Some(session_effects) = &ready.session.session_effects else { return };
        if session_effects.pins().is_empty() {
            self.end_loan_if_over(server_key, client_key);
            return;
        }
        self.tell_of_pins(server_key, client_key);
        if let Some(fault) = self.refuses_pins(server_key, client_key) {
            self.fail_client(client_key, &fault);
            return;
        }
        self.arm_server(server_key);
        self.catch_up(server_key, client_key, self.hands.now);
    }

    /// Applies what a probe has reported. Returns whether the server is being sent UNLISTEN now.
    fn heed_state(&mut self, server_key: ServerKey, client_key: ClientKey, state: ProbedState) -> bool {
        let Some(database) = self.servers.get(server_key).map(|server| server.database) else { return true };
        let Some(ready) = self.clients.ready_mut(client_key) else { return true };
        let losses = self.registry.database_at(database).listening.losses();
        let has_left = state.has_left_channels;
        let is_cut_off = has_left
            && ready.session.subscriptions_if_any(losses).is_some_and(|subscriptions| subscriptions.move_to_listener());
        if let Some(vars) = state.reset {
            self.go_back(client_key, vars);
        }
        if let Some(verdict) = state.verdict {
            self.verified.sessions += 1;
            if let Err(what) = verdict {
                self.tell_of_mistake(server_key, client_key, &what);
            }
        }
        self.learn(server_key, state.knowledge);
        if is_cut_off {
            self.tell_of_loss(client_key, true);
        }
        if !state.has_asked_channels {
            return false;
        }
        self.leave_channels(client_key, database);
        self.tell_news(client_key);
        self.move_channels(server_key, client_key)
    }

    /// The request has been answered, and the answer to the probe behind it comes next.
    pub(crate) fn answers_next(&mut self, server_key: ServerKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let client = server.client().and_then(|client| self.clients.get_mut(client));
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = client else { return };
        server.affinity_hold.come_back();
        doubt_what_was_read(&mut server.session, &mut ready.session);
        server.request_time = self.hands.now;
        self.arm_server(server_key);
    }
}
