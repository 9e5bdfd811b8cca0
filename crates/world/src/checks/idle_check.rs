//! Applications that are idle for longer than a timeout allows: the pooler must disconnect them in time.
//!
//! Always true: no application is accused of an idle time that a fault may have extended.
//! Not here: the error that they get (`checks`), whether they may connect (`limit_check`).

use std::time::Duration;

use base::Time;
use wire::backend::TxStatus;

use crate::app::{App, Stage};
use crate::checks::checkers::Checkers;
use crate::checks::witness::Charge;
use crate::state::World;

impl World {
    /// Checks that no application is connected that should have been disconnected.
    pub(crate) fn look_at_the_silent(&mut self) {
        if self.checkers.shutdown.is_some() || self.operator.handover.is_some() {
            return;
        }
        let now = self.witness.now;
        let calm_since = self.calm_since(now);
        let net = self.net.borrow();
        let is_there = |end: u32| !net.end(end).is_closed && !net.end(end ^ 1).is_closed;
        let silent = self.apps.iter().filter(|app| {
            matches!(app.stage, Stage::Ready)
                && !app.person.is_operator()
                && !app.replicates()
                && app.end.is_some_and(is_there)
        });
        for app in silent {
            let Some(since) = app.silent_since() else { continue };
            let Some(limit) = limit(&self.checkers, app, since) else { continue };
            let silent = now.since(since.max(calm_since));
            if silent > limit + LATE {
                let (number, tx) = (app.number, app.status());
                let text = format!("application {number} is silent for {silent:?} in {tx:?}, and may be for {limit:?}");
                self.witness.accuse(Charge::NotServed, text);
            }
        }
    }
}

/// Returns the longest idle time allowed under any configuration in force since; `None` if there is no limit.
fn limit(checkers: &Checkers, app: &App, since: Time) -> Option<Duration> {
    let user = &app.person.user;
    let limits = checkers.forces_since(since, Duration::ZERO).map(|active| match app.status() {
        // As in PgBouncer, `client_idle_timeout` is only for clients without a server.
        TxStatus::Idle if app.person.database.starts_with("session") => None,
        TxStatus::Idle => active.settings.client_idle_timeout(user),
        TxStatus::Open | TxStatus::Failed => active.settings.idle_transaction_timeout(user),
    });
    limits.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Longer than a worker needs to notice.
const LATE: Duration = Duration::from_secs(1);
