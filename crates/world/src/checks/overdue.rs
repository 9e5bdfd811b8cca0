//! Timers keep to what they are set to: nobody is sent away before a limit is reached, or in its name without it, and whoever has reached
//! one is sent away.
//!
//! Always true: what a limit is counted from is what an application or a server has seen itself, never what a worker believes; from where it
//! cannot be known exactly, the moment is taken that speaks for the pooler.
//! Not here: clients that are silent (`idle_check`), what is drawn (`lengths`), what else clients may be told (`checks`).

use std::collections::BTreeMap;
use std::time::Duration;

use base::Time;
use config::Settings;

use crate::app::{App, Ended, Stage};
use crate::checks::checkers::Phase;
use crate::checks::witness::Charge;
use crate::postgres::sql::Nonce;
use crate::sim::net::Net;
use crate::state::World;

impl World {
    /// A client is told that it has to go: by a timer that is set, and whose time has come.
    pub(crate) fn check_timer(&mut self, number: u32, ended: &Ended) {
        let Ended::Refused { text, is_due, .. } = ended else { return };
        let app = &self.apps[number as usize];
        let Some(timer) = Timer::ALL.into_iter().find(|timer| text.starts_with(timer.words())) else {
            let is_excused = *is_due
                || !matches!(self.checkers.phase, Phase::Faults)
                || EXCUSED.iter().any(|words| text.contains(words));
            if self.plan.is_timed && !is_excused {
                let text = format!("application {number} is told {text:?}, and nothing goes wrong here");
                self.witness.accuse(Charge::NoReason, text);
            }
            return;
        };
        // A clock that has jumped ends what it ends.
        if self.jumped > Time(0) {
            return;
        }
        self.witness.count("ended by a timer");
        let Some(since) = timer.since(app, self.plan.is_timed, self.witness.now) else { return };
        let waited = self.witness.now.since(since);
        let user = &app.person.user;
        let limits: Vec<Duration> = self
            .checkers
            .forces_since(since, HEARD)
            .filter_map(|active| timer.limit(&active.settings, user, app))
            .collect();
        let least = limits.iter().min();
        if least.is_none_or(|&least| waited + SLACK < least) {
            let text = format!("application {number} is told {text:?} after {waited:?}; limits are {limits:?}");
            self.witness.accuse(Charge::NoReason, text);
        }
    }

    /// Now and then: nothing goes on for longer than it may, where nothing goes wrong.
    pub(crate) fn look_at_the_overdue(&mut self) {
        if !self.plan.is_timed || !matches!(self.checkers.phase, Phase::Faults) {
            return;
        }
        self.look_at_the_running();
        self.look_at_the_waiting();
        self.look_at_the_left();
    }

    fn look_at_the_running(&mut self) {
        let (now, settings) = (self.witness.now, &self.active.settings);
        let net = self.net.borrow();
        for session in self.postgres.sessions.iter().filter(|session| !net.end(session.end).is_closed) {
            let running = session.running().and_then(Result::ok).filter(|_| session.is_working());
            let here = |number: u32| self.apps.get(number as usize).filter(|app| is_here(app, &net));
            if let Some((nonce, app)) = running.and_then(|nonce| Some((nonce, here(nonce.app)?)))
                && asks_for(app, nonce)
                && let Some(limit) = settings.query_timeout(&app.person.user)
                && now.since(session.works_since) > limit + LATE
            {
                let lasts = now.since(session.works_since);
                let text = format!("{nonce} has been running for {lasts:?}, and may for {limit:?} (query_timeout)");
                self.witness.accuse(Charge::NotServed, text);
            }
            if let Some(app) = session.owner().and_then(here)
                && let Some(limit) = settings.transaction_timeout(&app.person.user)
                && now.since(session.begun.max(app.came)) > limit + LATE
            {
                let lasts = now.since(session.begun);
                let text = format!(
                    "the transaction of application {} has lasted for {lasts:?}, and may for {limit:?} (transaction_timeout)",
                    app.number
                );
                self.witness.accuse(Charge::NotServed, text);
            }
        }
    }

    fn look_at_the_waiting(&mut self) {
        let (now, settings) = (self.witness.now, &self.active.settings);
        let net = self.net.borrow();
        for app in self.apps.iter().filter(|app| is_here(app, &net) && !app.person.database.starts_with("session")) {
            let (Some(_), Some(since)) = (app.waits_for_a_server(), app.asked_at) else { continue };
            if self.witness.heard.get(&app.number).is_some_and(|&heard| heard >= since) {
                continue;
            }
            let limits =
                [Timer::QueryWait, Timer::QueryWaiting].map(|timer| timer.limit(settings, &app.person.user, app));
            let Some(limit) = limits.into_iter().flatten().min() else { continue };
            if now.since(since) > limit + LATE {
                let (number, waits) = (app.number, now.since(since));
                let text =
                    format!("application {number} has been waiting for a server for {waits:?}, and may for {limit:?}");
                self.witness.accuse(Charge::NotServed, text);
            }
        }
    }

    /// What whoever has gone has asked for ends in PostgreSQL, too.
    fn look_at_the_left(&mut self) {
        let now = self.witness.now;
        let net = self.net.borrow();
        let mut left = BTreeMap::new();
        for session in
            self.postgres.sessions.iter().filter(|session| !net.end(session.end).is_closed && session.is_working())
        {
            let Some(nonce) = session.running().and_then(Result::ok) else { continue };
            let app = &self.apps[nonce.app as usize];
            if is_here(app, &net) && asks_for(app, nonce) || app.replicates() || app.has_left_by_itself {
                continue;
            }
            let before = self.checkers.left_running.get(&session.number).filter(|(other, _)| *other == nonce);
            let since = before.map_or(now, |(_, since)| *since);
            if now.since(since) > LATE {
                let text = format!("{nonce} runs on in server {}, and whoever asked for it has gone", session.number);
                self.witness.accuse(Charge::NotServed, text);
            }
            left.insert(session.number, (nonce, since));
        }
        self.checkers.left_running = left;
    }
}

/// Whether it is in, and has not been sent away.
fn is_here(app: &App, net: &Net) -> bool {
    let is_open = |end: u32| !net.end(end).is_closed && !net.end(end ^ 1).is_closed;
    matches!(app.stage, Stage::Ready) && !app.replicates() && !app.is_deaf() && app.end.is_some_and(is_open)
}

/// Whether it still waits for what this statement answers.
fn asks_for(app: &App, nonce: Nonce) -> bool {
    app.asked.back().is_some_and(|request| nonce.number <= request.last)
}

/// A timer that ends a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    Query,
    QueryWait,
    QueryWaiting,
    Transaction,
    IdleTransaction,
    ClientIdle,
    Login,
    Pinned,
}

impl Timer {
    const ALL: [Self; 8] = [
        Self::Query,
        Self::QueryWait,
        Self::QueryWaiting,
        Self::Transaction,
        Self::IdleTransaction,
        Self::ClientIdle,
        Self::Login,
        Self::Pinned,
    ];

    /// How it begins to say that it has ended somebody.
    fn words(self) -> &'static str {
        match self {
            Self::Query => "query timeout",
            Self::QueryWait => "query_wait_timeout",
            Self::QueryWaiting => "query_timeout",
            Self::Transaction => "transaction timeout",
            Self::IdleTransaction => "idle transaction timeout",
            Self::ClientIdle => "client_idle_timeout",
            Self::Login => "client_login_timeout",
            Self::Pinned => "pinned_server_timeout",
        }
    }

    /// The last moment from which it can have been counted; `None` if that is not known.
    fn since(self, app: &App, is_timed: bool, now: Time) -> Option<Time> {
        let asked = app.asked_at.unwrap_or(app.came);
        match self {
            Self::Query | Self::QueryWait | Self::QueryWaiting => Some(asked),
            Self::Transaction => Some(app.begun.unwrap_or(app.came)),
            // Where connections are narrow, or workers stand still, nobody can tell when a worker knew of an answer or of a request.
            Self::IdleTransaction | Self::ClientIdle if !is_timed => None,
            // What it has just asked and the refusal may have crossed each other.
            Self::IdleTransaction | Self::ClientIdle if now.since(asked) < SLACK => Some(app.ready_given()),
            Self::IdleTransaction | Self::ClientIdle => Some(asked.max(app.ready_given())),
            Self::Login | Self::Pinned => Some(app.came),
        }
    }

    /// What it is set to.
    fn limit(self, settings: &Settings, user: &str, app: &App) -> Option<Duration> {
        match self {
            Self::Query | Self::QueryWaiting => settings.query_timeout(user).or(settings.query_timeout),
            Self::QueryWait => {
                let entry = settings.database(&app.person.database)?;
                settings.query_wait_timeout(&entry, user)
            }
            Self::Transaction => settings.transaction_timeout(user),
            Self::IdleTransaction => settings.idle_transaction_timeout(user),
            Self::ClientIdle => settings.client_idle_timeout(user),
            Self::Login => settings.client_login_timeout,
            Self::Pinned => settings.pinned_server_timeout,
        }
    }
}

/// What may be told at any time where nothing goes wrong.
const EXCUSED: [&str; 5] = [
    "notifications may have been lost",
    "max_pinned_servers",
    "pinned_server_timeout",
    "the session's settings cannot be followed through a failed COPY",
    "max_client_conn",
];
/// Longer than a worker and the network need for anything.
const LATE: Duration = Duration::from_secs(2);
/// One message may take so much longer than another.
const SLACK: Duration = Duration::from_millis(50);
/// A limit that was replaced may be in force for as long, somewhere.
const HEARD: Duration = Duration::from_secs(30);
