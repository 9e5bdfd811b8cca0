//! Rules about transactions that last too long.
//!
//! Always true: our own sessions are not judged.
//! Not here: what sessions wait for (`work`).

use crate::facts::{Backend, Waits, amount, word};
use crate::findings::Verdicts;

use super::{Case, at, counted, judged, listed, percent, plain, size, time};

/// D03: sessions are idle in a transaction.
pub(super) fn idle_in_transaction(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let activity = server.activity.as_ref().map_err(String::clone)?;
        let is_old = |one: &&Backend| {
            let is_idle = one.state.as_deref().is_some_and(|state| state.starts_with("idle in transaction"));
            is_idle && !one.is_own && one.state_age.unwrap_or(0.0) > IDLE_MAX
        };
        let old: Vec<&Backend> = activity.iter().filter(is_old).collect();
        if let Some(oldest) = old.iter().filter_map(|one| one.state_age).max_by(f64::total_cmp) {
            let names = listed(old.iter().map(|one| who(one)));
            let evidence = format!("{}, the longest for {}: {names}", counted(old.len(), "session"), time(oldest));
            verdicts.fires(&at("server"), "", evidence);
        }
        let waits = case.waits()?;
        let share = waits.idle_in_transaction() / waits.busy().max(1.0);
        if share > IDLE_SHARE_MAX && waits.busy() >= SAMPLES_MIN {
            let busy = plain(waits.busy());
            let evidence = format!("{} of {busy} samples of sessions in use", percent(share));
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

/// D04: something old keeps dead rows.
pub(super) fn old_xmin(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let mut holders: Vec<(f64, String)> = Vec::new();
        let mut lacking = None;
        let mut add = |age: Option<f64>, what: String| {
            if let Some(age) = age.filter(|age| *age > XMIN_AGE_MAX) {
                holders.push((age, what));
            }
        };
        match &server.activity {
            // Those that replicate are told below, by name.
            Ok(all) => all
                .iter()
                .filter(|one| !one.is_own && one.kind.as_deref() != Some("walsender"))
                .for_each(|one| add(one.xmin_age, who(one))),
            Err(why) => lacking = Some(why),
        }
        match &server.slots {
            Ok(all) => all.iter().for_each(|one| add(one.xmin_age, format!("the slot {}", one.slot_name))),
            Err(why) => lacking = Some(why),
        }
        match &server.prepared {
            Ok(all) => all.iter().for_each(|one| {
                add(Some(one.xid_age), format!("the prepared transaction {:?} in {}", one.gid, one.database))
            }),
            Err(why) => lacking = Some(why),
        }
        match &server.replication {
            Ok(all) => all.iter().for_each(|one| {
                add(one.xmin_age, format!("the standby {}", one.application.as_deref().unwrap_or("without a name")))
            }),
            Err(why) => lacking = Some(why),
        }
        holders.sort_by(|one, other| other.0.total_cmp(&one.0));
        if let Some((oldest, _)) = holders.first() {
            let oldest = plain(*oldest);
            let evidence = format!("{oldest} transactions: {}", listed(holders.iter().map(|(_, what)| what)));
            verdicts.fires(&at("server"), "", evidence);
        }
        lacking.map_or(Ok(()), |why| Err(why.clone()))
    });
}

/// D25: a prepared transaction or a cursor WITH HOLD is old.
pub(super) fn prepared(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let activity = server.activity.as_ref().map_err(String::clone)?;
        let session = |pid: u32| activity.iter().find(|one| one.pid == pid);
        // Outside of a transaction nothing else has a temporary file.
        for files in server.temporary.as_ref().map_err(String::clone)?.iter().filter(|files| files.age > PREPARED_MAX) {
            let Some(idle) = session(files.pid).filter(|one| one.state.as_deref() == Some("idle")) else { continue };
            let (size, age) = (size(files.size), time(files.age));
            let evidence = format!("{} is idle, and keeps a cursor WITH HOLD of {size} for {age}", who(idle));
            verdicts.fires(&at(&format!("database {}", idle.database.as_deref().unwrap_or_default())), "", evidence);
        }
        Ok(())
    });
    judged(verdicts, |verdicts| {
        let pins = case.seen.pooler.as_ref().ok().and_then(|console| console.pins.as_ref().ok());
        for pin in pins.into_iter().flatten().filter(|pin| word(pin, "kind") == "cursor") {
            let Some(age) = amount(pin, "age").filter(|age| *age > PREPARED_MAX) else { continue };
            let (client, server) = (word(pin, "client"), word(pin, "server"));
            let evidence = format!("client {client} keeps server {server} by a cursor WITH HOLD for {}", time(age));
            verdicts.fires(&at(&format!("database {}", word(pin, "database"))), "", evidence);
        }
        Ok(())
    });
    judged(verdicts, |verdicts| {
        let prepared = case.server()?.prepared.as_ref().map_err(String::clone)?;
        for one in prepared.iter().filter(|one| one.age > PREPARED_MAX) {
            let evidence = format!("{:?} was prepared {} ago", one.gid, time(one.age));
            verdicts.fires(&at(&format!("database {}", one.database)), "", evidence);
        }
        Ok(())
    });
}

/// A session in words: `pid 17 (rails, user web, database app)`.
pub(super) fn who(one: &Backend) -> String {
    let name = |text: &Option<String>, before: &str| {
        text.as_deref().filter(|text| !text.is_empty()).map(|text| format!("{before}{text}"))
    };
    let words = [name(&one.application, ""), name(&one.role, "user "), name(&one.database, "database ")];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() { format!("pid {}", one.pid) } else { format!("pid {} ({})", one.pid, words.join(", ")) }
}

/// Whether samples show enough sessions in use to tell shares.
pub(super) fn enough(waits: &Waits) -> Result<(), String> {
    if waits.active() >= SAMPLES_MIN {
        return Ok(());
    }
    Err(format!(
        "more load: in {} samples {} sessions were running a statement, and shares need {SAMPLES_MIN}",
        waits.samples,
        plain(waits.active())
    ))
}

/// Seconds.
const IDLE_MAX: f64 = 60.0;
const IDLE_SHARE_MAX: f64 = 0.05;
/// Transactions.
const XMIN_AGE_MAX: f64 = 10_000.0;
/// Seconds.
const PREPARED_MAX: f64 = 3600.0;
/// Samples below which a share says nothing.
const SAMPLES_MIN: f64 = 100.0;
