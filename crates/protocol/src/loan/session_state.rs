//! The session state at the end of a transaction: known from statements whose effects are certain, or read from the
//! server by a state probe.
//!
//! Always true: the overrides noted for a server are what it has, or else it is probed; the overrides noted for a client
//! are what every server lent to it has to have.
//! Not here: the probe and how its answer is read (`state`), when a server is probed and what follows for the loan
//! (`worker::data::probe`).

use std::rc::Rc;

use base::Time;
use route::{DirtyState, Knowledge};
use wire::write;

use super::client_session::ClientSession;
use super::server_session::ServerSession;
use super::set_parameters::SetParameters;
use crate::planted::settings_told;
use crate::state::{Circumstances, FunctionCatalog, Kind, Overrides, PinRules, Policy, Probe, Seen, Unseen};
use crate::vars::{Known, Tracked, Vars};

/// The rules by which session state follows its client.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The time.
    pub now: Time,
    /// The parameters that PostgreSQL reports.
    pub tracked: &'a Tracked,
    /// The user that servers of the pool log in as.
    pub login: &'a str,
    /// The number of that user.
    pub server_user: u32,
    /// What clients of the pool may hold on its servers.
    pub rules: &'a PinRules,
    /// The known session state is compared with a state probe (`session_verify`).
    pub verifies: bool,
}

/// The result of a state probe.
#[derive(Debug)]
pub enum Probed {
    /// Functions mention settings that the probe did not ask for: the server is to be probed again. What the probe told
    /// of functions.
    Functions(Option<Knowledge>),
    /// The state of the session.
    State(ProbedState),
    /// Nothing reliable: the client keeps the server.
    Nothing,
}

/// What follows from the state of a session.
#[derive(Debug)]
pub struct ProbedState {
    /// What is known of functions now.
    pub knowledge: Option<Knowledge>,
    /// The difference from the session state that was known, if the two were compared.
    pub verdict: Option<Result<(), Box<str>>>,
    /// The client's parameters, if it has reset some.
    pub reset: Option<Vars>,
    /// The server was asked which channels the session listens to,
    pub has_asked_channels: bool,
    /// and the session has left them.
    pub has_left_channels: bool,
}

/// Applies the effects of the client's statements to both sessions, if they are certain and nothing else can have
/// changed. Returns the client's parameters if it has reset some; `None` where the server has to be probed.
pub fn apply_effects(server: &mut ServerSession, client: &mut ClientSession, terms: Terms<'_>) -> Option<Option<Vars>> {
    let session_effects = client.session_effects.as_mut().filter(|effects| effects.is_known())?;
    let (tracked, parameters) = (terms.tracked, server.vars.clone());
    let circumstances = Circumstances {
        login: terms.login,
        is_reported: &|name| parameters.reports(tracked, name),
        carries_statements: terms.rules.policy(Kind::Statement) == Policy::Virtualize,
    };
    let none = Overrides::default();
    let effects = session_effects.effects();
    let before = server.overrides.as_deref().unwrap_or(&none);
    let (Some(mut of_server), Some(mut of_client)) =
        (effects.on(before, circumstances), effects.on(client.overrides.as_deref().unwrap_or(&none), circumstances))
    else {
        session_effects.effects_in_doubt();
        return None;
    };
    let path = parameters.search_path(tracked);
    [&mut of_server, &mut of_client].into_iter().for_each(|overrides| overrides.note_reported_path(path));
    if terms.verifies && session_effects.pins().is_empty() {
        session_effects.verify(of_server);
        return None;
    }
    if !before.reads_like(&of_server) {
        // Statements prepared meanwhile may have been parsed before or after that change.
        server.server_statements.doubt_this_loan();
    }
    if effects.concern_statements_of_ours() {
        server.setting_statements.doubt();
    }
    let vars = client.vars.reset(&client.initial_vars, tracked, |name| effects.is_reset(name));
    for set in effects.settings() {
        match set {
            None => server.set_parameters = SetParameters::default(),
            Some((name, is_reset)) => {
                tracked.startup_place(name).into_iter().for_each(|place| server.set_parameters.list(place, !is_reset));
            }
        }
    }
    let is_same = of_server == of_client;
    server.overrides = shared(of_server);
    let of_client = if is_same { server.overrides.clone() } else { shared(of_client) };
    client.overrides = with_given(&of_client, client.initial_overrides.as_deref());
    if client.overrides.as_ref().is_none_or(|overrides| overrides.statements().is_empty()) {
        session_effects.has_no_statements();
    }
    session_effects.forget();
    Some(vars)
}

impl ClientSession {
    /// The state probe for everything that the client has touched, which connected at the time `since`.
    #[must_use]
    pub fn question(&self, since: Time, terms: Terms<'_>, function_catalog: &FunctionCatalog) -> Option<Probe> {
        let session_effects = self.session_effects.as_ref()?;
        let mut probe = session_effects.question()?;
        let own = self.overrides.as_deref().into_iter().flat_map(Overrides::iter).map(|(name, _)| name);
        let misses_some = function_catalog.knowledge().is_some_and(Knowledge::misses_settings);
        let is_complete = function_catalog.custom.is_complete(terms.server_user, since);
        let names = function_catalog.custom.of(terms.server_user).chain(own).chain(function_catalog.settings());
        probe.add_custom(names, is_complete && !misses_some);
        if function_catalog.knowledge().is_none() || !session_effects.long_texts.is_empty() {
            probe.add_functions();
        }
        let has_identity = self.overrides.as_ref().is_some_and(|overrides| overrides.has_identity());
        if session_effects.may_be_another() || has_identity {
            probe.ask_as(terms.login);
        }
        if terms.rules.policy(Kind::Statement) == Policy::Virtualize {
            probe.carry_statements();
        }
        Some(probe)
    }

    /// The client has these parameters from now on. Returns the `ParameterStatus` messages for the client.
    pub fn becomes(&mut self, vars: Vars, tracked: &Tracked, known: &mut Known) -> Vec<u8> {
        let before = std::mem::replace(&mut self.vars, known.share(vars));
        let mut out = Vec::new();
        let is_changed =
            |name: &str, value: &str| tracked.reported_place(name).and_then(|place| before.get(place)) != Some(value);
        let changed = self.vars.known(tracked).filter(|(name, value)| is_changed(name, value));
        changed.for_each(|(name, value)| write::parameter_status(&mut out, name, value));
        out
    }
}

/// Evaluates a state probe that the server has answered.
pub fn conclude(server: &mut ServerSession, client: &mut ClientSession, probe: Probe, terms: Terms<'_>) -> Probed {
    let session_effects = client.session_effects.get_or_insert_default();
    let Some(seen) = probe.end() else {
        session_effects.unseen(terms.now);
        return Probed::Nothing;
    };
    if seen.has_learned_settings() {
        session_effects.judge_long_texts(seen.knowledge.as_ref());
        return Probed::Functions(seen.knowledge);
    }
    let before = server.overrides.take().as_deref().cloned().unwrap_or_default();
    let mut overrides = {
        let reported = |name: &str| server.vars.reports(terms.tracked, name);
        settings_told(seen.overrides(&before, &reported, terms.login), client.overrides.as_deref())
    };
    overrides.note_reported_path(server.vars.search_path(terms.tracked));
    let verdict = seen.verdict(&overrides);
    server.is_verified |= verdict.is_some();
    let missing = client.overrides.as_ref().and_then(|ours| ours.statements().missing(before.statements()));
    if !before.reads_like(&overrides) {
        // Statements prepared meanwhile may have been parsed before or after that change.
        server.server_statements.doubt_this_loan();
    }
    session_effects.seen(&seen, &overrides, terms.rules.unseen == Unseen::Pin, terms.now);
    let is_too_much = overrides.is_too_much();
    if is_too_much {
        overrides.forget_most();
    }
    let overrides = shared(overrides);
    if seen.asked.has(DirtyState::STATEMENTS) {
        server.setting_statements.doubt();
    }
    client.overrides = with_given(&overrides, client.initial_overrides.as_deref());
    // Overrides too large to be remembered: the client keeps the server, and none of them are sent to it.
    let mut overrides = if is_too_much { client.overrides.clone() } else { overrides };
    if let Some(overrides) = overrides.as_mut().filter(|overrides| overrides.get("session_authorization").is_some()) {
        // Before PostgreSQL 17.1 the session has lost its role when the probe sets the session authorization again at its end.
        Rc::make_mut(overrides).doubt_identity();
    }
    if let Some(missing) = missing {
        // A statement that could not be prepared on this server is the client's nevertheless.
        Rc::make_mut(client.overrides.get_or_insert_default()).statements_mut().add(missing);
    }
    server.overrides = overrides;
    let reset = server.parameters_reset(client, &seen, terms.tracked);
    server.list_parameters(&seen, terms.tracked);
    Probed::State(ProbedState {
        verdict,
        reset,
        has_asked_channels: seen.asked.has(DirtyState::CHANNELS),
        has_left_channels: seen.has_left_channels,
        knowledge: seen.knowledge,
    })
}

impl ServerSession {
    /// The client's parameters, if its request has reset some. A parameter that this session had not set before the request
    /// is not known to be reset: the server has its client's value by itself.
    fn parameters_reset(&self, client: &ClientSession, seen: &Seen, tracked: &Tracked) -> Option<Vars> {
        let was_set = |name: &str| tracked.startup_place(name).is_some_and(|place| self.set_parameters.has(place));
        let is_reset = |name: &str| was_set(name) && seen.is_first(name) == Some(true);
        client.vars.reset(&client.initial_vars, tracked, is_reset)
    }

    /// Notes which parameters the session has set, as far as the state probe has asked for them.
    fn list_parameters(&mut self, seen: &Seen, tracked: &Tracked) {
        for (place, name) in tracked.startup_names() {
            if let Some(is_first) = seen.is_first(name) {
                self.set_parameters.list(place, !is_first);
            }
        }
    }
}

/// Evaluates the state probe of a server whose client has left meanwhile. Returns whether the session has only settings
/// that any client can be given, or nothing, and nothing that has to be discarded; and what is known of functions now.
pub(super) fn conclude_alone(server: &mut ServerSession, probe: Probe, terms: Terms<'_>) -> (bool, Option<Knowledge>) {
    let Some(seen) = probe.end() else { return (false, None) };
    let is_known = !seen.has_learned_settings() && !seen.has_foreign_values() && !seen.misses_settings();
    server.setting_statements.doubt();
    let before = server.overrides.take().as_deref().cloned().unwrap_or_default();
    let mut overrides = seen.overrides(&before, &|name| server.vars.reports(terms.tracked, name), terms.login);
    overrides.note_reported_path(server.vars.search_path(terms.tracked));
    server.list_parameters(&seen, terms.tracked);
    let is_clean = is_known && seen.holds.is_empty() && !overrides.is_too_much();
    server.overrides = shared(overrides);
    (is_clean, seen.knowledge)
}

/// The overrides of a client whose session began with the settings `given`: a setting that the client has reset returns
/// to its value there.
fn with_given(overrides: &Option<Rc<Overrides>>, given: Option<&Overrides>) -> Option<Rc<Overrides>> {
    let is_set = |name: &str| overrides.as_ref().is_some_and(|overrides| overrides.get(name).is_some());
    match given {
        Some(given) if given.iter().any(|(name, _)| !is_set(name)) => {
            let mut all = overrides.as_deref().cloned().unwrap_or_default();
            given.iter().filter(|(name, _)| !is_set(name)).for_each(|(name, value)| all.set(name, value));
            Some(Rc::new(all))
        }
        _ => overrides.clone(),
    }
}

/// Wraps overrides to be shared; None if they are empty.
#[must_use]
pub fn shared(overrides: Overrides) -> Option<Rc<Overrides>> {
    (!overrides.is_empty()).then(|| Rc::new(overrides))
}
