//! The tables of a report: where the time went, and what sessions waited for.
//!
//! Always true: a table says over which time and from how many samples; a division that is not fully known says what is missing.
//! Not here: the rules.

use crate::findings::Measured;

use super::division::{Kind, divide};
use super::rules::{Case, percent, time};

/// The tables, the most telling first.
pub(crate) fn tables(case: &Case<'_>) -> Vec<Measured> {
    division(case).into_iter().chain(waits(case)).collect()
}

fn division(case: &Case<'_>) -> Option<Measured> {
    let total = case.seen.pooler.as_ref().ok().and_then(|pooler| pooler.total().ok());
    let waits = case.seen.waits.as_ref().ok();
    // If no transaction of the pooler has ended in this time, it has counted none.
    let starved = case.seen.starved.as_ref().ok().copied();
    let division = divide(total.as_ref(), waits, starved).or_else(|| divide(None, waits, None))?;
    let note = match division.kind {
        Kind::Measured => "Trunkline's phases of transactions, merged with what the server waited for",
        Kind::OfPooler => {
            "Trunkline's phases of transactions; with --server, rows that the pooler did not pass on would be told apart"
        }
        Kind::Approximate => {
            "approximate: PgBouncer's waits and times; a slow pooler cannot be told from a slow client"
        }
        Kind::OfServer => {
            "from the server's samples alone: the pooler's part needs --pooler, and transactions that end there in this time"
        }
    };
    let note = match starved.filter(|_| division.starved.is_some()) {
        Some(share) => format!("{note}; the pooler waited for a processor for {} of the time", percent(share)),
        None => note.to_owned(),
    };
    let others = match division.kind {
        Kind::OfServer => "client, network or pooler",
        Kind::Approximate => "client, network, slow pooler",
        Kind::Measured | Kind::OfPooler => "client, or network to it",
    };
    let mut parts = vec![("server", division.server), (others, division.client)];
    if division.kind != Kind::OfServer {
        parts.push(("pooler: wait for a server", division.waiting));
        parts.extend(division.starved.map(|seconds| ("pooler: wait for a processor", seconds)));
        parts.push(("pooler: other", division.pooler - division.waiting - division.starved.unwrap_or(0.0)));
    }
    let rows = parts.into_iter().map(|(name, seconds)| {
        let share = seconds / division.total();
        (vec![name.to_owned(), time(seconds), percent(share)], share)
    });
    let columns = ["where", "time of sessions", "share"].map(str::to_owned).to_vec();
    Some(Measured {
        title: "Where the time of transactions went".to_owned(),
        note,
        words: 1,
        columns,
        rows: rows.collect(),
    })
}

fn waits(case: &Case<'_>) -> Option<Measured> {
    let waits = case.seen.waits.as_ref().ok()?;
    let busy = waits.busy();
    let row = |(group, count): (&[String; 6], u64)| {
        let [state, kind, event, database, role, application] = group;
        let event = match (kind.as_str(), state.as_str()) {
            ("", "active") => "on a processor".to_owned(),
            ("", _) => String::new(),
            // The state is read a moment before the wait.
            ("Client", "active") if event == "ClientRead" => "Client:ClientRead (copy, or just ended)".to_owned(),
            (kind, _) => format!("{kind}:{event}"),
        };
        let share = count as f64 / busy;
        (
            vec![
                state.clone(),
                event,
                database.clone(),
                role.clone(),
                application.clone(),
                count.to_string(),
                percent(share),
            ],
            share,
        )
    };
    let rows: Vec<_> = waits.largest().into_iter().take(ROWS_MAX).map(row).collect();
    if rows.is_empty() {
        return None;
    }
    let note = format!(
        "{} samples in {}; at most {} sessions, {} of them running a statement",
        waits.samples,
        time(waits.seconds),
        waits.sessions_max,
        waits.active_max
    );
    let columns = ["state", "wait", "database", "role", "application", "samples", "share"].map(str::to_owned).to_vec();
    Some(Measured { title: "What sessions in use waited for".to_owned(), note, words: 5, columns, rows })
}

/// Groups that are shown.
const ROWS_MAX: usize = 20;
