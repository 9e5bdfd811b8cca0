//! The table before a run, and its rows after it.
//!
//! Always true: the rows are read from a server that is not in recovery, in words of 64, so that memory is a bit for each
//! write of one path. Nothing is removed but the rows of this run.
//! Not here: the comparison (`ledger`).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::answer::{Codes, Failure};
use super::ledger::{Compared, Ledger, RowSet};
use super::run_clock::Stop;
use super::session::{Row, Session};
use super::statements::{ROLE, Statements};
use super::target::Target;

/// Creates the table if there is none, on the first target where that is possible.
///
/// # Errors
/// No target allows it in [`PREPARE_TIME_MAX`], or the stop has come; the text says why.
pub(crate) async fn prepare(targets: &[&Target], statements: &Statements, stop: &mut Stop) -> Result<(), String> {
    let until = Instant::now() + PREPARE_TIME_MAX;
    loop {
        let mut whys = Vec::new();
        for target in targets {
            let tried = stop.before(within(PREPARE_TIME_MAX, prepare_on(target, statements))).await;
            match tried.ok_or("it was interrupted before the first write")? {
                Ok(()) => return Ok(()),
                Err(why) if !whys.contains(&why) => whys.push(why),
                Err(_) => {}
            }
        }
        if Instant::now() > until {
            return Err(format!("the table cannot be used: {}", whys.join("; ")));
        }
        let _ = stop.before(sleep(PAUSE)).await;
    }
}

/// Tries something with a time limit.
async fn within<T>(limit: Duration, tried: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = |_| Err(format!("there was no answer within {} s", limit.as_secs()));
    timeout(limit, tried).await.unwrap_or_else(late)
}

async fn prepare_on(target: &Target, statements: &Statements) -> Result<(), String> {
    let mut session = Session::open(target, &mut Codes::default()).await?;
    let words = |what: &str, failure: &Failure| format!("{what}: {}", failure.text());
    let exists = session.row(&statements.exists()).await.map_err(|failure| words("looking for it", &failure))?;
    if exists.first().and_then(Option::as_deref) != Some("t") {
        session.row(&statements.create()).await.map_err(|failure| words("CREATE TABLE", &failure))?;
    }
    session.row(&statements.probe()).await.map_err(|failure| words("reading its columns", &failure))?;
    session.close().await;
    Ok(())
}

/// The rows of a path: of each writer, which of them are there.
pub(crate) type Rows = BTreeMap<u32, RowSet>;

/// A path whose rows are checked.
pub(crate) struct Checked<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The ledgers of its writers.
    pub(crate) ledgers: Vec<&'a Ledger>,
}

/// The result for one path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathResult {
    /// The comparison for each writer.
    pub(crate) writers: Vec<Compared>,
    /// Rows that only the former primary has, if one was named and could be asked.
    pub(crate) divergence: Option<u64>,
}

/// What the check found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// For each path.
    pub(crate) paths: Vec<PathResult>,
    /// The server that was asked.
    pub(crate) server: String,
    /// Why the former primary could not be asked.
    pub(crate) old_primary_error: Option<String>,
}

/// Compares the ledgers with the rows of the surviving primary, which is waited for.
///
/// # Errors
/// None could be asked in [`VERIFY_TIME_MAX`]; the text says why.
pub(crate) async fn verify(
    target: &Target,
    old: Option<&Target>,
    statements: &Statements,
    paths: &[Checked<'_>],
) -> Result<Verdict, String> {
    let until = Instant::now() + VERIFY_TIME_MAX;
    let mut verdict = loop {
        match within(ATTEMPT_TIME_MAX, verify_once(target, old, statements, paths)).await {
            Ok(verdict) => break verdict,
            Err(why) if Instant::now() > until => return Err(why),
            Err(_) => sleep(PAUSE).await,
        }
    };
    verdict.server = conninfo::clean(&verdict.server);
    Ok(verdict)
}

async fn verify_once(
    target: &Target,
    old: Option<&Target>,
    statements: &Statements,
    paths: &[Checked<'_>],
) -> Result<Verdict, String> {
    let mut session = Session::open(target, &mut Codes::default()).await?;
    let role = session.row(ROLE).await.map_err(|failure| failure.text())?;
    if role.first().and_then(Option::as_deref) != Some("f") {
        return Err("the server is in recovery, so it is not the primary".to_owned());
    }
    let server = session.row(&statements.server()).await.map_err(|failure| failure.text())?;
    let mut verdict = Verdict { server: server.into_iter().flatten().next().unwrap_or_default(), ..Verdict::default() };
    let mut former = match old {
        None => None,
        Some(old) => match Session::open(old, &mut Codes::default()).await {
            Ok(session) => Some(session),
            Err(why) => {
                verdict.old_primary_error = Some(why);
                None
            }
        },
    };
    for path in paths {
        let rows = present(&mut session, statements, path).await.map_err(|failure| failure.text())?;
        let writers = path.ledgers.iter().zip(0..);
        let compared = writers.map(|(ledger, writer)| ledger.compare(rows.get(&writer).unwrap_or(&RowSet::default())));
        let mut result = PathResult { writers: compared.collect(), divergence: None };
        if let Some(former) = &mut former {
            match present(former, statements, path).await {
                Ok(there) => result.divergence = Some(divergence(&there, &rows)),
                Err(failure) => verdict.old_primary_error = Some(failure.text()),
            }
        }
        verdict.paths.push(result);
    }
    session.close().await;
    Ok(verdict)
}

/// Reads which rows of a path are there.
async fn present(session: &mut Session, statements: &Statements, path: &Checked<'_>) -> Result<Rows, Failure> {
    let mut rows = Rows::new();
    session.rows(&statements.present(path.name), |row| note(&mut rows, &row, path)).await?;
    Ok(rows)
}

/// Notes a row of the answer: writer, word, number of rows, bits. Rows of a writer that there is not are counted with the
/// first one, of which nobody has written them either.
fn note(rows: &mut Rows, row: &Row, path: &Checked<'_>) {
    let number = |at: usize| row.get(at).and_then(Option::as_deref).and_then(|text| text.parse::<i64>().ok());
    let count = number(2).and_then(|count| u64::try_from(count).ok()).unwrap_or(1);
    let writer = number(0).and_then(|writer| usize::try_from(writer).ok()).filter(|at| *at < path.ledgers.len());
    let (writer, word) = match (writer, number(1)) {
        (Some(writer), Some(word)) => (writer, word),
        _ => (0, -1),
    };
    let sent = path.ledgers.get(writer).map_or(0, |ledger| ledger.sent());
    let bits = number(3).unwrap_or(0).cast_unsigned();
    rows.entry(u32::try_from(writer).unwrap_or(0)).or_default().note(word, count, bits, sent);
}

fn divergence(there: &Rows, here: &Rows) -> u64 {
    let beyond = |(writer, present): (&u32, &RowSet)| present.beyond(here.get(writer).unwrap_or(&RowSet::default()));
    there.iter().map(beyond).sum()
}

/// Removes the rows of the run.
///
/// # Errors
/// The server does not do it; the text says why.
pub(crate) async fn clean(target: &Target, statements: &Statements) -> Result<(), String> {
    let removed = async {
        let mut session = Session::open(target, &mut Codes::default()).await?;
        session.row(&statements.clean()).await.map_err(|failure| failure.text())?;
        session.close().await;
        Ok(())
    };
    within(ATTEMPT_TIME_MAX, removed).await
}

/// How long the first write may wait for a table.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(15);
/// How long a primary is waited for at the end.
const VERIFY_TIME_MAX: Duration = Duration::from_secs(60);
/// How long one attempt may take, in which the server has to read all rows of the run.
const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(120);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::super::ledger::Outcome;
    use super::*;

    #[test]
    fn an_answer_becomes_bits_of_writers() {
        let mut ledgers = [Ledger::default(), Ledger::default()];
        for ledger in &mut ledgers {
            for _ in 0..70 {
                let number = ledger.begin();
                ledger.end(number, Outcome::Acked);
            }
        }
        let path = Checked { name: "A", ledgers: ledgers.iter().collect() };
        let mut rows = Rows::new();
        let row = |values: [&str; 4]| values.map(|value| Some(value.to_owned())).to_vec();
        note(&mut rows, &row(["0", "0", "64", "-1"]), &path);
        note(&mut rows, &row(["0", "1", "6", "63"]), &path);
        note(&mut rows, &row(["1", "0", "63", "-2"]), &path);
        let lost = |writer: u32| ledgers[writer as usize].compare(&rows[&writer]).lost_ranges;
        assert_eq!((lost(0), lost(1)), (vec![], vec![(0, 0), (64, 69)]));
        assert_eq!(divergence(&rows, &Rows::new()), 133);
        // What no writer of this run can have written.
        note(&mut rows, &row(["9", "0", "3", "7"]), &path);
        note(&mut rows, &row(["x", "y", "z", "?"]), &path);
        assert_eq!(ledgers[0].compare(&rows[&0]).phantom, 4);
    }
}
