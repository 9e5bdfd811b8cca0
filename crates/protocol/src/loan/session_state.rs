//! What a session has at the end of a transaction: known from the statements that were certain, or told by its server when that is asked.
//!
//! Always true: what is noted of the server is what it has, or it is asked; what is noted of the client is what every server that the client
//! gets is to have.
//! Not here: what is asked and how an answer is read (`state`), when the server is asked and what follows for the loan (`worker::data::probe`).

use std::rc::Rc;

use base::Time;
use route::{DirtyState, Knowledge};
use wire::write;

use super::client_session::ClientSession;
use super::server_session::ServerSession;
use crate::planted::settings_told;
use crate::state::{Circumstances, FunctionCatalog, Kind, Overrides, PinRules, Policy, Probe, Unseen};
use crate::vars::{Known, Tracked, Vars};

/// By what rules the state of a session follows its client.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The time.
    pub now: Time,
    /// The parameters that PostgreSQL reports.
    pub tracked: &'a Tracked,
    /// The user that servers of the pool log in as.
    pub login: &'a str,
    /// That user's number.
    pub server_user: u32,
    /// What clients of the pool may hold on its servers.
    pub rules: &'a PinRules,
    /// What is known is compared with what the server tells (`session_verify`).
    pub verifies: bool,
}

/// What a server has told of its session.
#[derive(Debug)]
pub enum Probed {
    /// What functions set, of which nothing was known when it was asked: it is to be asked again.
    Functions(Option<Knowledge>),
    /// What the session has.
    State(ProbedState),
    /// Nothing that can be relied upon: the client keeps the server.
    Nothing,
}

/// What follows from what the session has.
#[derive(Debug)]
pub struct ProbedState {
    /// What is known of functions now.
    pub knowledge: Option<Knowledge>,
    /// In what it differs from what was known, if that was compared.
    pub verdict: Option<Result<(), Box<str>>>,
    /// The client has reset parameters, and these are what it has now.
    pub reset: Option<Vars>,
    /// It was asked which channels it listens to,
    pub has_asked_channels: bool,
    /// and has left them.
    pub has_left_channels: bool,
}

/// What the client's statements have certainly done to the session is noted, if that is all that they can have done: the parameters that the
/// client has now if it has reset some. `None` where the server has to be asked.
pub fn apply_effects(server: &mut ServerSession, client: &mut ClientSession, terms: Terms<'_>) -> Option<Option<Vars>> {
    let session_effects = client.session_effects.as_mut().filter(|session_effects| session_effects.is_known())?;
    let (tracked, parameters) = (terms.tracked, server.vars.clone());
    let circumstances = Circumstances {
        login: terms.login,
        is_reported: &|name| tracked.place(name).is_some_and(|at| parameters.get(at).is_some()),
        carries_statements: terms.rules.policy(Kind::Statement) == Policy::Virtualize,
    };
    let none = Overrides::default();
    let effects = session_effects.effects();
    let before = server.overrides.as_deref().unwrap_or(&none);
    let (Some(of_server), Some(of_client)) =
        (effects.on(before, circumstances), effects.on(client.overrides.as_deref().unwrap_or(&none), circumstances))
    else {
        session_effects.effects_in_doubt();
        return None;
    };
    if terms.verifies && session_effects.pins().is_empty() {
        session_effects.verify(of_server);
        return None;
    }
    if !before.reads_like(&of_server) {
        // What has been prepared meanwhile may have been read before or after that.
        server.server_statements.doubt_this_loan();
    }
    if effects.concern_statements_of_ours() {
        server.told_by.doubt();
    }
    let vars = client.vars.reset(&client.began, tracked, |name| effects.is_reset(name));
    let is_same = of_server == of_client;
    server.overrides = shared(of_server);
    let of_client = if is_same { server.overrides.clone() } else { shared(of_client) };
    client.overrides = with_given(&of_client, client.given.as_deref());
    if client.overrides.as_ref().is_none_or(|overrides| overrides.statements().is_empty()) {
        session_effects.has_no_statements();
    }
    session_effects.effects_applied();
    Some(vars)
}

impl ClientSession {
    /// The question that tells what the session has that was touched, of a client that came at a time `since`.
    #[must_use]
    pub fn question(&self, since: Time, terms: Terms<'_>, function_catalog: &FunctionCatalog) -> Option<Probe> {
        let session_effects = self.session_effects.as_ref()?;
        let mut probe = session_effects.question()?;
        let own = self.overrides.as_deref().into_iter().flat_map(Overrides::iter).map(|(name, _)| name);
        let misses_some = function_catalog.knowledge().is_some_and(Knowledge::misses_settings);
        let is_complete = function_catalog.custom.is_complete(terms.server_user, since);
        let names = function_catalog.custom.of(terms.server_user).chain(own).chain(function_catalog.settings());
        probe.add_custom(names, is_complete && !misses_some);
        if function_catalog.knowledge().is_none() {
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

    /// The client has reset parameters that it is told of: not to what a server begins with, but to what it has begun with itself. What it is
    /// told.
    pub fn goes_back(&mut self, vars: Vars, tracked: &Tracked, known: &mut Known) -> Vec<u8> {
        let before = std::mem::replace(&mut self.vars, known.share(vars));
        let mut out = Vec::new();
        let is_changed =
            |name: &str, value: &str| tracked.place(name).and_then(|place| before.get(place)) != Some(value);
        let changed = self.vars.known(tracked).filter(|(name, value)| is_changed(name, value));
        changed.for_each(|(name, value)| write::parameter_status(&mut out, name, value));
        out
    }
}

/// A server has answered what its session has.
pub fn conclude(server: &mut ServerSession, client: &mut ClientSession, probe: Probe, terms: Terms<'_>) -> Probed {
    let session_effects = client.session_effects.get_or_insert_default();
    let Some(seen) = probe.end() else {
        session_effects.unseen(terms.now);
        return Probed::Nothing;
    };
    if seen.has_learned_settings() {
        return Probed::Functions(seen.knowledge);
    }
    let before = server.overrides.take().as_deref().cloned().unwrap_or_default();
    let mut overrides = settings_told(seen.overrides(&before, terms.tracked, terms.login), client.overrides.as_deref());
    let verdict = seen.verdict(&overrides);
    server.is_verified |= verdict.is_some();
    let missing = client.overrides.as_ref().and_then(|ours| ours.statements().missing(before.statements()));
    if !before.reads_like(&overrides) {
        // What has been prepared meanwhile may have been read before or after that.
        server.server_statements.doubt_this_loan();
    }
    session_effects.seen(&seen, &overrides, terms.rules.unseen == Unseen::Pin, terms.now);
    let is_too_much = overrides.is_too_much();
    if is_too_much {
        overrides.forget_most();
    }
    let overrides = shared(overrides);
    if seen.asked.has(DirtyState::STATEMENTS) {
        server.told_by.doubt();
    }
    client.overrides = with_given(&overrides, client.given.as_deref());
    // Where not all of it is remembered, the server is its client's alone, and is told nothing of it.
    let mut overrides = if is_too_much { client.overrides.clone() } else { overrides };
    if let Some(overrides) = overrides.as_mut().filter(|overrides| overrides.get("session_authorization").is_some()) {
        // Before PostgreSQL 17.1 it has lost its role when it is told again who it is, at the end of the question.
        Rc::make_mut(overrides).doubt_identity();
    }
    if let Some(missing) = missing {
        // It could not be prepared there, and is its client's nevertheless.
        Rc::make_mut(client.overrides.get_or_insert_default()).statements_mut().add(missing);
    }
    server.overrides = overrides;
    let reset = client.vars.reset(&client.began, terms.tracked, |name| seen.is_first(name) == Some(true));
    Probed::State(ProbedState {
        verdict,
        reset,
        has_asked_channels: seen.asked.has(DirtyState::CHANNELS),
        has_left_channels: seen.has_left_channels,
        knowledge: seen.knowledge,
    })
}

/// A server whose client has gone meanwhile has told what its session has. Whether that is settings that any client can be given, or nothing,
/// and not something that has to be discarded; what is known of functions now.
pub(super) fn conclude_alone(server: &mut ServerSession, probe: Probe, terms: Terms<'_>) -> (bool, Option<Knowledge>) {
    let Some(seen) = probe.end() else { return (false, None) };
    let is_known = !seen.has_learned_settings() && !seen.has_foreign_values() && !seen.misses_settings();
    server.told_by.doubt();
    let before = server.overrides.take().as_deref().cloned().unwrap_or_default();
    let overrides = seen.overrides(&before, terms.tracked, terms.login);
    let is_clean = is_known && seen.holds.is_empty() && !overrides.is_too_much();
    server.overrides = shared(overrides);
    (is_clean, seen.knowledge)
}

/// What a client is to have that was given settings to begin with: what it has reset is what they were.
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

/// In the hands of everybody who has them; nothing where there are none.
#[must_use]
pub fn shared(overrides: Overrides) -> Option<Rc<Overrides>> {
    (!overrides.is_empty()).then(|| Rc::new(overrides))
}
