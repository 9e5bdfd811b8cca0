//! Rules about what the server does and waits for, over the time between two readings.
//!
//! Always true: a rate needs both readings, a share needs enough samples; too few are no finding and no "good".
//! Not here: pools (`pooled`).

use crate::facts::{Counters, Observed, Postgres};
use crate::findings::{Severity, Verdicts};

use super::transactions::enough;
use super::{Case, at, judged, percent, plain, size, time};

/// Counters at both readings, and the time between in seconds.
fn both(server: &Postgres) -> Observed<(f64, &Counters, &Counters)> {
    let (seconds, after) = server.after.as_ref().map_err(String::clone)?;
    Ok((*seconds, &server.before, after))
}

/// D02: connections live for few transactions.
pub(super) fn churn(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let (seconds, before, after) = both(case.server()?)?;
        let opened = after.sum(|one| one.sessions)? - before.sum(|one| one.sessions)?;
        // Each of our samples was a transaction.
        let own = case.waits().map_or(0.0, |waits| waits.samples as f64);
        let done = after.sum(|one| Some(one.xact))? - before.sum(|one| Some(one.xact))? - own;
        if opened < CHURN_SESSIONS_MIN {
            return Ok(());
        }
        let ratio = opened / done.max(1.0);
        if ratio > CHURN_MAX {
            let evidence = format!(
                "{} sessions for {} transactions in {} = {}",
                plain(opened),
                plain(done),
                time(seconds),
                plain(ratio)
            );
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

/// D24: many logins.
pub(super) fn logins(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let (seconds, before, after) = both(case.server()?)?;
        let opened = after.sum(|one| one.sessions)? - before.sum(|one| one.sessions)?;
        let rate = opened / seconds;
        if rate > LOGINS_MAX {
            let evidence = format!("{} sessions in {} = {} a second", plain(opened), time(seconds), plain(rate));
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

/// D16: many pages are read from disk.
pub(super) fn hit_ratio(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let (_, before, after) = both(case.server()?)?;
        let grown = |of| Ok::<f64, String>(after.sum(of)? - before.sum(of)?);
        let (reads, hits) = (grown(|one| Some(one.blks_read))?, grown(|one| Some(one.blks_hit))?);
        let read_time = grown(|one| Some(one.blk_read_time))? / 1000.0;
        let ratio = hits / (hits + reads).max(1.0);
        if reads >= READS_MIN && ratio < HIT_RATIO_MIN {
            let took = if read_time > 0.0 { format!(", which took {}", time(read_time)) } else { String::new() };
            let evidence = format!(
                "{} of {} pages were read{took}: hit ratio {}",
                plain(reads),
                plain(hits + reads),
                percent(ratio)
            );
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

/// D17: the server waits to send rows.
pub(super) fn client_write(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let waits = case.waits()?;
        enough(waits)?;
        let (writing, active) = (waits.waiting_for(&["ClientWrite"]), waits.active());
        if writing / active > WRITE_SHARE_MAX {
            let evidence = format!(
                "ClientWrite in {} of {} active samples = {}",
                plain(writing),
                plain(active),
                percent(writing / active)
            );
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

/// D18: transactions wait for their clients.
pub(super) fn client_read(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let waits = case.waits()?;
        enough(waits)?;
        let (reading, busy) = (waits.at_client() - waits.waiting_for(&["ClientWrite"]), waits.busy());
        if reading / busy > READ_SHARE_MAX {
            let evidence = format!(
                "{} of {} samples of sessions in use = {}",
                plain(reading),
                plain(busy),
                percent(reading / busy)
            );
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

/// D19: sessions wait for the lock manager or for snapshots.
pub(super) fn light_locks(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let waits = case.waits()?;
        enough(waits)?;
        // Two spellings: PostgreSQL 13 has lock_manager and proc_array in some places.
        let waiting = waits.waiting_for(&["LockManager", "ProcArray", "lock_manager", "proc_array", "LockFastPath"]);
        let active = waits.active();
        if waiting / active > LIGHT_LOCK_SHARE_MAX {
            let evidence =
                format!("{} of {} active samples = {}", plain(waiting), plain(active), percent(waiting / active));
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

/// D31: logical decoding spills to disk.
pub(super) fn spilled(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let (seconds, before, after) = both(server)?;
        let (before, after) =
            (before.slots.as_ref().map_err(String::clone)?, after.slots.as_ref().map_err(String::clone)?);
        for slot in after {
            let Some(old) = before.iter().find(|old| old.slot_name == slot.slot_name) else { continue };
            let spilled = slot.spill_bytes - old.spill_bytes;
            if spilled > 0.0 && slot.stream_txns <= old.stream_txns {
                let evidence = format!("{} spilled in {}, nothing streamed", size(spilled), time(seconds));
                verdicts.fires(&at("server"), &*slot.slot_name, evidence);
            } else if slot.spill_bytes > 0.0 && slot.stream_txns <= 0.0 {
                let evidence = format!(
                    "{} in {} transactions spilled since the statistics began, nothing streamed",
                    size(slot.spill_bytes),
                    plain(slot.spill_txns)
                );
                verdicts.fires_as(Severity::Information, &at("server"), &*slot.slot_name, evidence);
            }
        }
        Ok(())
    });
}

/// D34: autovacuum is slower than the writes.
pub(super) fn slow_vacuum(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let (seconds, before, after) = both(server)?;
        let delay = server.number("autovacuum_vacuum_cost_delay")?;
        let delay = if delay < 0.0 { server.number("vacuum_cost_delay")? } else { delay };
        let limit = server.number("autovacuum_vacuum_cost_limit")?;
        let limit = if limit <= 0.0 { server.number("vacuum_cost_limit")? } else { limit };
        let page = server.number("vacuum_cost_page_dirty")? + server.number("vacuum_cost_page_hit")?;
        if delay <= 0.0 {
            return Ok(());
        }
        let changed = (after.sum(|one| Some(one.changed))? - before.sum(|one| Some(one.changed))?) / seconds;
        let pages = limit / page.max(1.0) / delay;
        if changed > pages {
            let evidence = format!(
                "{} rows change a second; cost_limit {} / {} every {} lets all workers together clean {} pages a second",
                plain(changed),
                plain(limit),
                plain(page),
                time(delay),
                plain(pages)
            );
            verdicts.fires(&at("server"), "autovacuum_vacuum_cost_limit", evidence);
        }
        Ok(())
    });
}

/// Sessions below which a ratio says nothing.
const CHURN_SESSIONS_MIN: f64 = 10.0;
const CHURN_MAX: f64 = 0.1;
/// A second.
const LOGINS_MAX: f64 = 9.0;
/// Pages below which a ratio says nothing.
const READS_MIN: f64 = 1000.0;
const HIT_RATIO_MIN: f64 = 0.99;
const WRITE_SHARE_MAX: f64 = 0.2;
const READ_SHARE_MAX: f64 = 0.2;
const LIGHT_LOCK_SHARE_MAX: f64 = 0.05;
