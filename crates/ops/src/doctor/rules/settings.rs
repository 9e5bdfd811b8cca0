//! Rules about settings, the release, and how the server stands in its cluster.
//!
//! Always true: a setting that a version does not have is not judged in it.
//! Not here: settings that need the machine's memory (`machine`).

use crate::doctor::division::divide;
use crate::facts::Postgres;
use crate::findings::Verdicts;

use super::transactions::who;
use super::{Case, at, judged, listed, plain, size, time};

/// D05: statements of vanished clients run on.
pub(super) fn connection_check(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        server.settings.as_ref().map_err(String::clone)?;
        if server.major() < 14 {
            return Err("PostgreSQL 14 or later".to_owned());
        }
        if server.number("client_connection_check_interval")? <= 0.0 {
            verdicts.fires(&at("server"), "client_connection_check_interval", "client_connection_check_interval = 0");
        }
        Ok(())
    });
}

/// D06: nothing ends a statement, a lock wait or an idle transaction.
pub(super) fn no_timeouts(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        // What our own session has is not the server's: we are given limits of our own at login.
        let names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
        for name in names {
            if server.number(name)? > 0.0 {
                return Ok(());
            }
        }
        verdicts.fires(&at("server"), "", format!("{} are all 0", names.join(", ")));
        Ok(())
    });
}

/// D07: the server closes pooled connections.
pub(super) fn idle_session(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        server.settings.as_ref().map_err(String::clone)?;
        if server.major() < 14 {
            return Ok(());
        }
        let limit = server.number("idle_session_timeout")?;
        if limit > 0.0 {
            verdicts.fires(&at("server"), "idle_session_timeout", format!("idle_session_timeout = {}", time(limit)));
        }
        Ok(())
    });
}

/// D37: checkpoints are frequent or abrupt.
pub(super) fn checkpoints(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let (every, target) = (server.number("checkpoint_timeout")?, server.number("checkpoint_completion_target")?);
        let most = server.number("max_wal_size")?;
        if every < CHECKPOINT_TIMEOUT_MIN {
            verdicts.fires(&at("server"), "checkpoint_timeout", format!("checkpoint_timeout = {}", time(every)));
        }
        if target < COMPLETION_TARGET_MIN {
            verdicts.fires(
                &at("server"),
                "checkpoint_completion_target",
                format!("checkpoint_completion_target = {}", plain(target)),
            );
        }
        let counts = server.before.checkpoints.as_ref().map_err(String::clone)?;
        if counts.requested > counts.timed && counts.requested > REQUESTED_MIN {
            let evidence =
                format!("{} checkpoints were requested, {} came by time", plain(counts.requested), plain(counts.timed));
            verdicts.fires(&at("server"), "max_wal_size", evidence);
        }
        let (seconds, after) = server.after.as_ref().map_err(String::clone)?;
        let written = after.wal.clone()? - server.before.wal.clone()?;
        let hourly = written / seconds * 3600.0;
        if hourly > most {
            let evidence = format!(
                "{} of log in {} = {} an hour; max_wal_size = {}",
                size(written),
                time(*seconds),
                size(hourly),
                size(most)
            );
            verdicts.fires(&at("server"), "max_wal_size", evidence);
        }
        Ok(())
    });
}

/// D38: statements may be compiled.
pub(super) fn jit(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        // Our own session has it off, so that the server's value is what would be at reset.
        if !case.server()?.is_on("jit")? {
            return Ok(());
        }
        let took = match mean_transaction(case) {
            Some(mean) if mean >= SHORT_TRANSACTION => return Ok(()),
            Some(mean) => format!("transactions take {} on average", time(mean)),
            None => "how long transactions take is not measured (--pooler does)".to_owned(),
        };
        verdicts.fires(&at("server"), "jit", format!("jit = on; {took}"));
        Ok(())
    });
}

/// What a transaction takes, in seconds, once it has a server.
fn mean_transaction(case: &Case<'_>) -> Option<f64> {
    let total = case.seen.pooler.as_ref().ok()?.total().ok().filter(|total| total.transactions > 0.0)?;
    let division = divide(Some(&total), None, None)?;
    Some((division.total() - division.waiting) / total.transactions)
}

/// D39: the server does not measure itself.
pub(super) fn not_measured(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        if !server.is_on("track_io_timing")? {
            verdicts.fires(&at("server"), "track_io_timing", "track_io_timing = off");
        }
        if !server.setting("shared_preload_libraries")?.contains("pg_stat_statements") {
            verdicts.fires(
                &at("server"),
                "shared_preload_libraries",
                "pg_stat_statements is not in shared_preload_libraries",
            );
        }
        Ok(())
    });
}

/// D40: the release of PostgreSQL is old.
pub(super) fn version(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let about = case.server()?.about.as_ref().map_err(String::clone)?;
        let (major, minor) = (about.version / 10_000, about.version % 10_000);
        let Some((_, latest, end)) = RELEASES.iter().find(|(known, ..)| *known == major) else {
            if major < RELEASES[0].0 {
                verdicts.fires(&at("server"), "", format!("PostgreSQL {} has no support any more", about.words));
                return Ok(());
            }
            return Err(format!("a list of releases that knows PostgreSQL {major}"));
        };
        if minor < *latest {
            verdicts.fires(
                &at("server"),
                "",
                format!("PostgreSQL {}; {major}.{latest} or a later one is out", about.words),
            );
        }
        if about.now > *end {
            verdicts.fires(
                &at("server"),
                "",
                format!("PostgreSQL {major} has had no support for {}", time(about.now - end)),
            );
        }
        Ok(())
    });
}

/// D41: the server was restarted, or failed over, recently or often.
pub(super) fn restarted(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let about = server.about.as_ref().map_err(String::clone)?;
        if about.uptime < UPTIME_MIN {
            verdicts.fires(&at("server"), "", format!("it started {} ago", time(about.uptime)));
        }
        let histories = server.histories.clone()?;
        if histories > HISTORIES_MAX {
            verdicts.fires(
                &at("server"),
                "",
                format!("{} timeline histories in pg_wal: as many promotions", plain(histories)),
            );
        }
        Ok(())
    });
}

/// D42: idle connections slow an old version down.
pub(super) fn idle_snapshots(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let about = server.about.as_ref().map_err(String::clone)?;
        if about.version >= 140_000 {
            return Ok(());
        }
        let activity = server.activity.as_ref().map_err(String::clone)?;
        let idle = activity.iter().filter(|one| one.state.as_deref() == Some("idle")).count();
        if idle as f64 > IDLE_SESSIONS_MAX {
            verdicts.fires(&at("server"), "", format!("{idle} idle sessions, PostgreSQL {}", about.words));
        }
        Ok(())
    });
}

/// D43: commits wait for a standby that is not there.
pub(super) fn lonely_commits(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let names = server.setting("synchronous_standby_names")?;
        if names.is_empty() || is_replica(server)? {
            return Ok(());
        }
        let standbys = server.replication.as_ref().map_err(String::clone)?;
        if standbys.iter().any(|one| one.sync_state.is_none()) {
            return Err("pg_monitor, to see the state of standbys".to_owned());
        }
        let is_synchronous = |state: &Option<String>| matches!(state.as_deref(), Some("sync" | "quorum"));
        if !standbys.iter().any(|one| is_synchronous(&one.sync_state)) {
            let evidence = format!(
                "synchronous_standby_names = '{names}'; {} standbys are connected, none is synchronous",
                standbys.len()
            );
            verdicts.fires(&at("server"), "synchronous_standby_names", evidence);
        }
        Ok(())
    });
}

/// D45: a replica cancels its readers, or keeps no rows for them.
pub(super) fn replica(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        if !is_replica(server)? {
            return Ok(());
        }
        if !server.is_on("hot_standby_feedback")? {
            let activity = server.activity.as_ref().map_err(String::clone)?;
            let long = activity.iter().filter(|one| !one.is_own && one.transaction_age.unwrap_or(0.0) > LONG_READ);
            let long: Vec<String> = long.map(who).collect();
            if !long.is_empty() {
                let evidence = format!(
                    "hot_standby_feedback = off, and transactions longer than {}: {}",
                    time(LONG_READ),
                    listed(long)
                );
                verdicts.fires(&at("server"), "hot_standby_feedback", evidence);
            }
            let slots = server.slots.as_ref().map_err(String::clone)?;
            let logical: Vec<&str> =
                slots.iter().filter(|slot| slot.slot_type == "logical").map(|slot| &*slot.slot_name).collect();
            if !logical.is_empty() {
                let evidence = format!("hot_standby_feedback = off, and logical slots are here: {}", listed(logical));
                verdicts.fires(&at("server"), "hot_standby_feedback", evidence);
            }
        }
        let (seconds, after) = server.after.as_ref().map_err(String::clone)?;
        let cancelled = after.conflicts.clone()? - server.before.conflicts.clone()?;
        if cancelled > 0.0 {
            let evidence = format!("{} statements were cancelled in {} by replay", plain(cancelled), time(*seconds));
            verdicts.fires(&at("server"), "max_standby_streaming_delay", evidence);
        }
        Ok(())
    });
}

fn is_replica(server: &Postgres) -> Result<bool, String> {
    server.about.as_ref().map(|about| about.is_in_recovery).map_err(String::clone)
}

/// Major version, the minor release that is known, and the end of its support in seconds since 1970.
const RELEASES: [(u32, u32, f64); 6] = [
    (13, 23, 1_762_992_000.0),
    (14, 23, 1_794_441_600.0),
    (15, 18, 1_825_891_200.0),
    (16, 14, 1_857_340_800.0),
    (17, 10, 1_888_790_400.0),
    (18, 4, 1_920_844_800.0),
];
/// Seconds.
const CHECKPOINT_TIMEOUT_MIN: f64 = 1200.0;
const COMPLETION_TARGET_MIN: f64 = 0.7;
/// Checkpoints at start and shutdown are requested, too.
const REQUESTED_MIN: f64 = 10.0;
/// Seconds.
const SHORT_TRANSACTION: f64 = 0.1;
/// Seconds.
const UPTIME_MIN: f64 = 86_400.0;
const HISTORIES_MAX: f64 = 5.0;
const IDLE_SESSIONS_MAX: f64 = 500.0;
/// Seconds.
const LONG_READ: f64 = 60.0;
