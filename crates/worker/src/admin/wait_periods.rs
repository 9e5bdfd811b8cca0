//! Logs that clients of a pool have begun to wait for a server, or no longer wait.
//!
//! Always true: pools are looked at only while a client waits; for each pool a line is logged at most once in some
//! seconds (`pool::WaitPeriod`).
//! Not here: when such a wait period begins and ends (crate `pool`), what the pool's servers are used for (`data::unserved`).

use std::time::Duration;

use base::Time;
use pool::{PoolKey, WaitReason, WaitReport};
use reactor::{Io, Level, Subject};

use crate::reports::ReportKind;
use crate::watched::{LOOKS_MAX, Watched};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Looks at the waits of some pools.
    pub(crate) fn watch_waits(&mut self) {
        let after = self.registry.watch_mut().next_pass();
        let some = self.registry.pools_after(after, LOOKS_MAX);
        let is_last = some.len() < LOOKS_MAX;
        for (numbers, pool) in some {
            let due = self.watch_pool(pool);
            self.registry.watch_mut().looked(numbers, due);
        }
        let next = match is_last {
            true => self.registry.watch_mut().ends(self.hands.now, self.hands.active.settings.log_pool_wait),
            false => Some(self.hands.now + NEXT_TURN),
        };
        next.into_iter().for_each(|next| self.watch_at(next));
    }

    /// Looks at the waits of a pool; returns when to look again.
    fn watch_pool(&mut self, pool: PoolKey) -> Option<Time> {
        let now = self.hands.now;
        let seen = self.pools.look_at_waits(now, pool)?;
        let watched = &mut self.registry.pool_mut(pool)?.watched;
        let Some(enough) = self.hands.active.settings.log_pool_wait else {
            *watched = Watched::default();
            return None;
        };
        let (report, due) = watched.sample(now, enough, &seen);
        if let Some(report) = report {
            self.tell_of_waits(pool, report, seen.why);
        }
        due
    }

    fn tell_of_waits(&mut self, pool: PoolKey, report: WaitReport, why: Option<WaitReason>) {
        let told = why.and_then(|why| self.unserved(pool, why));
        let is_failing = self.pools.has_failed(pool);
        let Some(place) = self.registry.pool_mut(pool) else { return };
        let names = (place.database_name.clone(), place.user_name.clone());
        let about = Subject::pool(&place.database_name, &place.user_name);
        if let (WaitReport::Begins { .. } | WaitReport::Worse, Some(told)) = (report, &told) {
            place.watched.held_by(&told.holders);
        }
        let (holders, failed) = (place.watched.holders(), place.watched.failed());
        match report {
            WaitReport::Worse => {}
            WaitReport::Begins { most, longest, why } => {
                let failure = told.and_then(|told| told.failure.clone()).map(|failure| format!(": {failure}"));
                let detail = format!(
                    "{most} {}, the first for {}, because {}{}{}",
                    clients(most),
                    shown(longest),
                    clause(why),
                    failure.unwrap_or_default(),
                    behind("; ", holders),
                );
                self.hands.log.about(&about, Level::Log, format_args!("pool begins to wait: {detail}"));
                self.report(ReportKind::WaitBegins, "", names, "", &detail);
            }
            WaitReport::Ends { lasted, most, longest, why } => {
                let detail = format!(
                    "after {}, {}{}: {most} {} at most, the longest for {}, mostly because {}{}",
                    shown(lasted),
                    how_it_ended(failed),
                    if is_failing { ", logins at its host still fail" } else { "" },
                    clients(most),
                    shown(longest),
                    clause(why),
                    behind("; when most waited, ", holders),
                );
                place.watched = Watched::default();
                self.hands.log.about(&about, Level::Log, format_args!("pool waits no more {detail}"));
                self.report(ReportKind::WaitEnds, "", names, "", &detail);
            }
        }
    }
}

fn clients(count: u32) -> &'static str {
    if count == 1 { "client" } else { "clients" }
}

/// Whether the clients that waited were served, or what they got instead.
fn how_it_ended(failed: Option<(u32, &str)>) -> String {
    match failed {
        None => "no client failed".to_owned(),
        Some((1, why)) => format!("1 client failed with \"{why}\""),
        Some((count, why)) => format!("{count} clients failed, the last with \"{why}\""),
    }
}

fn clause(why: Option<WaitReason>) -> &'static str {
    why.map_or("no server was free", WaitReason::clause)
}

fn behind(words: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{words}{text}") }
}

fn shown(time: Duration) -> String {
    format!("{}.{:01} s", time.as_secs(), time.subsec_millis() / 100)
}

/// The pause before the next pools are looked at.
const NEXT_TURN: Duration = Duration::from_millis(1);
