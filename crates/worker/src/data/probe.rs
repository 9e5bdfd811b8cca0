//! What a session keeps, where that follows clients (`session_state`): their servers are asked, and what they tell is acted upon.
//!
//! Always true: a loan in which something may have been touched ends only when its server has told what it has, and that is known
//! to follow; otherwise the server stays its client's, and is made clean or closed when that leaves.
//! Not here: what clients say (`reading`), what is asked and what the answer means (`protocol::state`).

use std::hash::{DefaultHasher, Hash, Hasher};

use base::Time;
use base::planted::{self, Planted};
use pool::{ClientKey, Fingerprint, Mode, PoolKey, ServerKey};
use protocol::fault::Fault;
use protocol::loan::{Life, Probed, ProbedState, Terms, apply_effects, conclude, conclude_alone};
use protocol::state::{ANSWER_BYTES_MAX, Kind, Overrides, Pin, Policy, Probe};
use protocol::vars::Vars;
use reactor::{Io, Level};
use route::{Knowledge, Unread};
use wire::frontend;
use wire::write::{self, Says};

use crate::data::client::{Client, Stage as ClientStage};
use crate::letters::Force;
use crate::places::PoolPlace;
use crate::turn::Worker;
use crate::upstream::cleanup::UNPROVEN;

/// What gives a server back as it was when it logged in.
pub(crate) const DISCARD_ALL: &str = "DISCARD ALL";

/// What is set in a session that this client has, or has had last, and which settings with a dot have ever been. Who the session is must be set
/// again for anybody else ([`Overrides::doubt_identity`]), so that it suits nobody else.
pub(crate) fn fingerprint(overrides: Option<&Overrides>, placeholders: u64, client: Option<ClientKey>) -> Fingerprint {
    let Some(overrides) = overrides else { return Fingerprint { settings: 0, placeholders } };
    let mut settings = overrides.fingerprint();
    if overrides.has_identity() {
        let mut hasher = DefaultHasher::new();
        client.hash(&mut hasher);
        settings ^= hasher.finish() as u32;
    }
    Fingerprint { settings, placeholders }
}

/// By what rules the state of sessions follows the clients of a pool.
fn terms<'a>(place: &'a PoolPlace, force: &'a Force, now: Time) -> Terms<'a> {
    Terms {
        now,
        tracked: &force.tracked,
        login: &place.user_name,
        server_user: place.user,
        rules: &place.pin_rules,
        verifies: force.settings.session_verify,
    }
}

impl<I: Io> Worker<I> {
    /// Whether a client has something on its server, or may have.
    pub(crate) fn is_marked(&self, client: ClientKey) -> bool {
        match self.clients.get(client) {
            Some(Client { stage: ClientStage::Ready(ready), .. }) => {
                ready.session.traces.as_ref().is_some_and(|traces| traces.is_marked())
            }
            _ => false,
        }
    }

    /// A loan could end, but its client may have something on the server: that is known, or is asked.
    pub(crate) fn keep_or_probe(&mut self, server_key: ServerKey, client_key: ClientKey) {
        if self.settle_lock(server_key, client_key) {
            self.tell_of_pins(server_key, client_key);
            if let Some(fault) = self.refuses_pins(server_key, client_key) {
                self.fail_client(client_key, &fault);
                return;
            }
            self.end_or_keep(server_key, client_key);
            return;
        }
        if self.apply_effects(server_key, client_key) {
            self.end_or_keep(server_key, client_key);
            return;
        }
        let is_known = match self.clients.get(client_key) {
            Some(Client { stage: ClientStage::Ready(ready), .. }) => {
                ready.session.traces.as_ref().is_some_and(|traces| !traces.is_asked_for())
            }
            _ => false,
        };
        if !is_known || !self.move_channels(server_key, client_key) {
            self.probe_session(server_key, client_key, false);
        }
    }

    /// What the client's statements have certainly done to its session is noted, if that is all that they can have done.
    fn apply_effects(&mut self, server_key: ServerKey, client_key: ClientKey) -> bool {
        let Some(server) = self.servers.get_mut(server_key) else { return false };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else {
            return false;
        };
        let place = self.places.pool(server.pool).filter(|place| place.follows);
        let Some(terms) = place.map(|place| terms(place, &self.force, self.now)) else { return false };
        let Some(reset) = apply_effects(&mut server.session, &mut ready.session, terms) else { return false };
        if let Some(vars) = reset {
            self.go_back(client_key, vars);
        }
        true
    }

    /// What a client has on its server is known: the loan ends, or the server is kept for it.
    fn end_or_keep(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        if ready.session.traces.as_ref().is_none_or(|traces| traces.pins().is_empty()) {
            self.end_loan_if_over(server_key, client_key);
        } else if !self.move_channels(server_key, client_key) {
            self.arm_server(server_key);
            self.catch_up(server_key, client_key, self.now);
        }
    }

    /// Asks a server what its session has, if that is not known; it may leave its channels at once.
    pub(crate) fn probe_session(&mut self, server_key: ServerKey, client_key: ClientKey, unlistens: bool) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        if !self.places.pool(server.pool).is_some_and(|place| place.follows) {
            // Not any more. The server is closed as it comes back.
            ready.session.traces = None;
            self.end_loan(server_key, client_key);
            return;
        }
        // A cancel request that is still on its way would hit our question.
        let is_asked_for = ready.session.traces.as_ref().is_some_and(|traces| traces.is_asked_for());
        if server.session.cancels_sent > 0 || !is_asked_for {
            self.arm_server(server_key);
            return;
        }
        if !server.session.exchange.is_proven() {
            // It cannot be told any more what answers what, and so not what the session has.
            self.lose_server(server_key, UNPROVEN);
            self.fail_client(client_key, &Fault::StateLost);
            return;
        }
        if let Some(mut probe) = self.question_of(server_key, client_key) {
            if unlistens {
                probe.unlisten();
            }
            self.ask(server_key, probe);
        }
        self.arm_server(server_key);
    }

    /// The question that tells what a session has that was touched.
    pub(crate) fn question_of(&self, server_key: ServerKey, client_key: ClientKey) -> Option<Probe> {
        let server = self.servers.get(server_key)?;
        let Some(Client { stage: ClientStage::Ready(ready), since, .. }) = self.clients.get(client_key) else {
            return None;
        };
        let terms = terms(self.places.pool(server.pool)?, &self.force, self.now);
        ready.session.question(*since, terms, &self.places.databases[server.database as usize].learned)
    }

    /// Sends a question of ours to a server.
    pub(crate) fn ask(&mut self, server_key: ServerKey, probe: Probe) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let mut out = Vec::new();
        if probe.is_of_nothing() {
            write::bare(&mut out, frontend::SYNC);
        } else {
            write::query(&mut out, &probe.question());
        }
        server.session.exchange.asks_ours();
        server.session.makings_asked = self.places.databases[server.database as usize].learned.makings();
        server.session.life.becomes(Life::Probing(Box::new(probe)));
        server.asked = self.now;
        self.io.send(server.conn, out.into());
    }

    /// The server has told what its session has.
    pub(crate) fn probed(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get_mut(server_key) else { return };
        let Some(mut probe) = server.session.life.take_probe() else { return };
        if probe.is_of_nothing() {
            self.listener_is_level(server_key, client_key);
            return;
        }
        if probe.tries_again() {
            self.ask(server_key, *probe);
            self.arm_server(server_key);
            return;
        }
        if probe.is_mark() {
            self.marked(server_key, client_key, *probe);
            return;
        }
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(place) = self.places.pool(server.pool) else {
            // It is closed as it comes back.
            ready.session.traces = None;
            self.end_loan(server_key, client_key);
            return;
        };
        let is_overfull = probe.is_overfull();
        match conclude(&mut server.session, &mut ready.session, *probe, terms(place, &self.force, self.now)) {
            Probed::Functions(knowledge) => {
                self.learn(server_key, knowledge);
                self.keep_or_probe(server_key, client_key);
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
            let (server, most) = (server.trim_end(), ANSWER_BYTES_MAX >> 20);
            let text = format_args!("{client}session has more than is followed ({most} MiB), server {server}");
            self.log.add(Level::Warning, text);
        }
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else { return };
        let Some(traces) = &ready.session.traces else { return };
        if traces.pins().is_empty() || planted::is(Planted::PinForgotten) {
            if !traces.pins().is_empty() {
                ready.session.traces = None;
            }
            self.end_loan_if_over(server_key, client_key);
            return;
        }
        self.tell_of_pins(server_key, client_key);
        if let Some(fault) = self.refuses_pins(server_key, client_key) {
            self.fail_client(client_key, &fault);
            return;
        }
        self.arm_server(server_key);
        self.catch_up(server_key, client_key, self.now);
    }

    /// A server has told what its session has. Whether it is being told to leave its channels now.
    fn heed_state(&mut self, server_key: ServerKey, client_key: ClientKey, state: ProbedState) -> bool {
        let Some(database) = self.servers.get(server_key).map(|server| server.database) else { return true };
        let Some(Client { stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(client_key) else {
            return true;
        };
        let losses = self.places.databases[database as usize].listening.losses;
        let has_left = state.has_left_channels;
        let is_cut_off = has_left
            && ready.session.subscriptions_if_any(losses).is_some_and(|subscriptions| subscriptions.has_moved());
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

    /// A client has reset parameters that it is told of: not to what a server begins with, but to what it has begun with itself.
    fn go_back(&mut self, client: ClientKey, vars: Vars) {
        let Some(client) = self.clients.get_mut(client) else { return };
        let ClientStage::Ready(ready) = &mut client.stage else { return };
        let out = ready.session.goes_back(vars, &self.force.tracked, &mut self.known_vars);
        self.io.send(client.conn, out.into());
    }

    /// Why a client may not keep its server, if it may not.
    fn refuses_pins(&self, server: ServerKey, client: ClientKey) -> Option<Fault> {
        let Some(Client { stage: ClientStage::Ready(ready), is_own: false, .. }) = self.clients.get(client) else {
            return None;
        };
        let (pins, pool) = (ready.session.traces.as_ref()?.pins(), self.servers.get(server)?.pool);
        let rules = &self.places.pool(pool)?.pin_rules;
        let refused = pins.kinds().find(|kind| rules.policy(*kind) == Policy::Reject);
        if let Some(kind) = refused {
            return Some(Fault::HoldRefused { kind });
        }
        // Who listens keeps its server only until somebody else does that for all, and numbers are kept for a moment.
        let listens_for_all = self.listens_for_all(server, client);
        let passes = |kind| match kind {
            Kind::Channel => listens_for_all,
            kind => kind == Kind::Sequence,
        };
        let is_passing = pins.kinds().all(passes);
        let is_new = !is_passing && pins.iter().all(|pin| pin.since == self.now);
        let limit = rules.servers_max.filter(|_| is_new)?;
        // Clients may be thousands of times as many as the servers that they keep.
        let is_kept = |client: &&Client| match &client.stage {
            ClientStage::Ready(ready) if !client.is_own => {
                ready.session.traces.as_ref().is_some_and(|traces| !traces.pins().is_empty())
            }
            _ => false,
        };
        let lent = self.servers.iter().filter(|(_, server)| server.pool == pool);
        let lent = lent.filter_map(|(_, server)| self.clients.get(server.client()?));
        let kept = lent.filter(is_kept).count();
        let is_over = kept > limit as usize;
        let first = pins.iter().next().filter(|_| is_over)?;
        Some(Fault::PinsFull { limit, what: first.hold.words() })
    }

    /// When a client has kept its server for too long, or has been idle for too long with it.
    pub(crate) fn pin_due(&self, key: ServerKey) -> Option<(Time, Fault)> {
        let server = self.servers.get(key)?;
        let Some(client @ Client { stage: ClientStage::Ready(ready), is_own: false, .. }) =
            self.clients.get(server.client()?)
        else {
            return None;
        };
        let traces = ready.session.traces.as_ref()?;
        let kept = traces.pins().oldest().zip(traces.kept_since());
        let limit = self.places.pool(server.pool)?.pin_rules.age_max;
        let too_long = kept.zip(limit).map(|((first, since), limit)| {
            (since + limit, Fault::PinnedTooLong { secs: limit.as_secs(), what: first.hold.words() })
        });
        // Without a pin the loan goes on until the server can be asked what the session has, which is after the cancel requests (`probe_session`).
        let is_kept = kept.is_some() || server.session.cancels_sent > 0 && traces.is_marked();
        // A client whose next request waits for the end of a cancel request is not idle.
        let waits = ready.held.is_some() && !self.may_forward(key);
        let is_idle = is_kept && server.session.exchange.may_end() && !waits;
        let idle = self.places.users[ready.session.user as usize].client_idle_timeout.filter(|_| is_idle);
        let silent_since = client.silent_since().max(server.answered);
        let idle = idle.map(|limit| (silent_since + limit, Fault::ClientIdleTimeout));
        too_long.into_iter().chain(idle).min_by_key(|(at, _)| *at)
    }

    /// Who keeps its server, and why, is said once for each statement and kind.
    pub(crate) fn tell_of_pins(&mut self, server: ServerKey, client: ClientKey) {
        let listens_for_all = self.listens_for_all(server, client);
        let Some(Client { stage: ClientStage::Ready(ready), is_own: false, .. }) = self.clients.get(client) else {
            return;
        };
        let (Some(traces), Some(server)) = (&ready.session.traces, self.servers.get(server)) else { return };
        let Some(rules) = self.places.pool(server.pool).map(|place| place.pin_rules.clone()) else { return };
        let learned = &mut self.places.databases[server.database as usize].learned;
        let (mut texts, mut notices) = (Vec::new(), Vec::new());
        let is_passing = |kind: Kind| kind == Kind::Channel && listens_for_all;
        traces.pins().begun(self.now).filter(|kind| !is_passing(*kind)).for_each(|kind| learned.count_pin(kind));
        for Pin { hold, statement, .. } in traces.pins().news(self.now).filter(|pin| !is_passing(pin.hold.kind)) {
            if learned.is_news(hold.kind, statement) {
                let by = if statement.is_empty() { "" } else { " by " };
                texts.push(format!("keeps its server: {}{by}{statement}", hold.words()));
            }
            if rules.policy(hold.kind) == Policy::Warn {
                let message = format!("this session keeps its server: {}", hold.words());
                let says = Says {
                    severity: "NOTICE",
                    sqlstate: "00000",
                    message: &message,
                    detail: None,
                    hint: Some(hold.kind.instead()),
                };
                write::notice(&mut notices, says);
            }
        }
        if !notices.is_empty()
            && let Some(client) = self.clients.get(client)
        {
            self.io.send(client.conn, notices.into());
        }
        let line = self.client_prefix(client);
        for text in texts {
            self.log.add(Level::Log, format_args!("{line}{text}"));
        }
    }

    /// A server whose client has gone meanwhile has told what its session has: settings that any client can be given, nothing, or
    /// something that has to be discarded.
    pub(crate) fn probed_behind(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let probe = server.session.life.take_probe().map(|probe| *probe);
        let Some(place) = self.places.pool(server.pool) else { return self.end_probe(key, false) };
        let (is_clean, knowledge) = conclude_alone(&mut server.session, probe, terms(place, &self.force, self.now));
        self.learn(key, knowledge);
        self.end_probe(key, is_clean);
    }

    pub(crate) fn learn(&mut self, server: ServerKey, knowledge: Option<Knowledge>) {
        let (Some(row), Some(knowledge)) = (self.servers.get(server), knowledge) else { return };
        self.places.scopes += 1;
        let learned = &mut self.places.databases[row.database as usize].learned;
        let what = match learned.learn(knowledge, row.session.makings_asked, self.now, self.places.scopes) {
            None | Some(Unread::Nothing) => return,
            Some(Unread::Some) => "functions with longer texts than are read: these may do anything",
            Some(Unread::All) => "more functions than are read: any statement may do anything",
        };
        let line = self.server_prefix(server);
        self.log.add(Level::Warning, format_args!("{line}database has {what}"));
    }

    /// From now on the state of sessions follows the clients of a pool, or does no longer: what its servers have is not known.
    pub(crate) fn begin_anew(&mut self, pool: PoolKey) {
        self.tell_pools(pool::Event::Retire { pool });
        // In session pooling a client keeps its server anyway.
        let keeps = self.places.pool(pool).is_some_and(|place| place.follows || place.mode == Mode::Session);
        let mut holders = Vec::new();
        for (key, client) in self.clients.iter_mut() {
            if let ClientStage::Ready(ready) = &mut client.stage
                && ready.pool == pool
            {
                let holds = ready.session.traces.as_ref().is_some_and(|traces| traces.kept_since().is_some());
                if holds && !keeps && !client.is_own {
                    holders.push(key);
                }
                ready.session.overrides.clone_from(&ready.session.given);
                ready.session.begin_unread();
            }
        }
        // Nobody would know any more when to leave them their servers: better an error than a lock that is gone without a word.
        for holder in holders {
            self.fail_client(holder, &Fault::ConfigurationChanged);
        }
    }
}
