//! Timers: no client is disconnected before a limit is reached or by a timer that is not set, and every client that has
//! reached a limit is disconnected.
//!
//! Always true: time is counted from what an application or a server has seen itself, never from what a worker
//! believes. Where the beginning is not known exactly, the moment is taken that favours the pooler.
//! Not here: idle clients (`idle_check`), how lengths are drawn (`lengths`), other errors (`checks`).

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
    /// Checks the error of a disconnected client: the timer that it names must be set and must have expired.
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
        // After a jump of the clock any timer may have expired.
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

    /// Checks, in a world without faults, that nothing lasts longer than its timer.
    pub(crate) fn look_at_the_overdue(&mut self) {
        if !matches!(self.checkers.phase, Phase::Faults) {
            return;
        }
        if self.plan.is_timed || self.plan.cluster.is_some() {
            self.look_at_the_waiting();
        }
        if !self.plan.is_timed {
            return;
        }
        self.look_at_the_running();
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
        let now = self.witness.now;
        let net = self.net.borrow();
        for app in self.apps.iter().filter(|app| is_here(app, &net) && !app.person.database.starts_with("session")) {
            let (Some(_), Some(since)) = (app.waits_for_a_server(), app.asked_at) else { continue };
            if self.witness.heard.get(&app.number).is_some_and(|&heard| heard >= since) {
                continue;
            }
            // What was sent to a host that cannot be reached waits for its answer, not for a server.
            if self.members.as_ref().is_some_and(|members| !members.are_reached_since(since)) {
                continue;
            }
            // A reload may have come in between.
            let limits = self.checkers.forces_since(since, Duration::ZERO).map(|active| {
                let limit = |timer: Timer| timer.limit(&active.settings, &app.person.user, app);
                [Timer::QueryWait, Timer::QueryWaiting].into_iter().filter_map(limit).min()
            });
            let Some(limit) = limits.collect::<Option<Vec<_>>>().and_then(|limits| limits.into_iter().max()) else {
                continue;
            };
            if now.since(since) > limit + LATE {
                let (number, waits) = (app.number, now.since(since));
                let text =
                    format!("application {number} has been waiting for a server for {waits:?}, and may for {limit:?}");
                self.witness.accuse(Charge::NotServed, text);
            }
        }
    }

    /// Statements of clients that have left must end in PostgreSQL as well.
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

/// Returns whether an application is logged in and has not been disconnected.
fn is_here(app: &App, net: &Net) -> bool {
    let is_open = |end: u32| !net.end(end).is_closed && !net.end(end ^ 1).is_closed;
    matches!(app.stage, Stage::Ready) && !app.replicates() && !app.is_deaf() && app.end.is_some_and(is_open)
}

/// Returns whether an application still waits for the answer to this statement.
fn asks_for(app: &App, nonce: Nonce) -> bool {
    app.asked.back().is_some_and(|request| nonce.number <= request.last)
}

/// A timer that disconnects a client.
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

    /// How the error of this timer begins.
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

    /// Returns the latest time from which the timer can count; `None` if that is not known.
    fn since(self, app: &App, is_timed: bool, now: Time) -> Option<Time> {
        let asked = app.asked_at.unwrap_or(app.came);
        match self {
            Self::Query | Self::QueryWait | Self::QueryWaiting => Some(asked),
            Self::Transaction => Some(app.begun.unwrap_or(app.came)),
            // Where connections are narrow or workers stall, nobody can tell when a worker knew of an answer or of a
            // request.
            Self::IdleTransaction | Self::ClientIdle if !is_timed => None,
            // The request just sent and the error may have crossed each other.
            Self::IdleTransaction | Self::ClientIdle if now.since(asked) < SLACK => Some(app.ready_given()),
            Self::IdleTransaction | Self::ClientIdle => Some(asked.max(app.ready_given())),
            Self::Login | Self::Pinned => Some(app.came),
        }
    }

    /// Returns the value of the timer's setting.
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

/// Errors that are allowed at any time in a world without faults.
const EXCUSED: [&str; 5] = [
    "notifications may have been lost",
    "max_pinned_servers",
    "pinned_server_timeout",
    "the session's settings cannot be followed through a failed COPY",
    "max_client_conn",
];
/// Longer than a worker and the network need to react.
const LATE: Duration = Duration::from_secs(2);
/// The difference in time that two messages may take.
const SLACK: Duration = Duration::from_millis(50);
/// How long a replaced limit may remain in force somewhere.
const HEARD: Duration = Duration::from_secs(30);
