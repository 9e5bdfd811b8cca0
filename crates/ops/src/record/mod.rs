//! `trunkline record`: writes down what the clients of a database ask for, and when.
//!
//! Always true: clients notice nothing of it; no value is written unless literals are asked for; the console shows values in traces only as long
//! as this needs them, unless it did before.
//! Not here: playing it again (`replay`). Begin with `recording`, then `recorder`.

mod options;
mod recorder;
mod recording;
mod spread;
mod template;
mod trace_line;

pub use options::{RecordOptions, USAGE};
pub(crate) use recording::{RecordedRequest, Recording, Statement, Values};

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::connection::{Progress, Stop, address, console_target};
use crate::deliver::deliver_privately;
use crate::hatest::{Codes, Session, Target};
use recorder::Recorder;
use recording::SCHEMA;

/// Records, and writes the file. Returns what to tell the person at the terminal.
///
/// # Errors
/// A connection string is wrong, the pooler cannot be asked, or the file cannot be written; in words for an operator.
pub fn run(options: &RecordOptions) -> Result<String, String> {
    let target = console_target(NAME, &options.pooler).map_err(|why| format!("--pooler: {why}"))?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let recorded = LocalSet::new().block_on(&runtime, record(options, &target));
    // A lookup of a host name that is under way is not waited for.
    runtime.shutdown_background();
    let recording = recorded?;
    // Statements tell much of a database even without their values.
    deliver_privately(options.output.as_deref(), &recording.text()?)?;
    Ok(summary(&recording))
}

async fn record(options: &RecordOptions, target: &Target) -> Result<Recording, String> {
    let mut stop = Stop::listen()?;
    let shows_values = match options.values {
        Values::None => None,
        Values::Spread | Values::Literals => Some(show_values(target, true).await?),
    };
    let began = jiff::Timestamp::now();
    let traced = trace(options, target, &mut stop).await;
    if shows_values == Some(Changed::Yes)
        && let Err(why) = show_values(target, false).await
    {
        eprintln!("trunkline record: {why}; traces still show values: SET trace_values = 0 ends that");
    }
    let recorder = traced?;
    let (seconds, dropped, left_out) = (recorder.length(), recorder.dropped, recorder.left_out);
    let (statements, sessions) = recorder.end();
    Ok(Recording {
        schema: SCHEMA,
        kind: "trunkline recording".to_owned(),
        pooler: address(target),
        database: options.database.clone(),
        began: began.to_string(),
        seconds,
        values: options.values,
        dropped,
        left_out,
        statements,
        sessions,
    })
}

/// Whether the setting was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Changed {
    Yes,
    No,
}

/// Has traces show values, or not any more.
async fn show_values(target: &Target, wanted: bool) -> Result<Changed, String> {
    let mut session = open(target, Rc::new(|_| {})).await?;
    let settings = session.records("SHOW CONFIG").await.map_err(|failure| refused(&failure.text()))?;
    let setting = settings.iter().find(|row| row.get("key").is_some_and(|key| key == "trace_values"));
    let value =
        setting.and_then(|row| row.get("value")).ok_or("the console is none of trunkline: it has no trace_values")?;
    let changed = if (value == "1") == wanted {
        Changed::No
    } else {
        let order = format!("SET trace_values = {}", u8::from(wanted));
        session.rows(&order, |_| {}).await.map_err(|failure| refused(&failure.text()))?;
        Changed::Yes
    };
    session.close().await;
    Ok(changed)
}

/// Runs the trace, and returns what it has told.
async fn trace(options: &RecordOptions, target: &Target, stop: &mut Stop) -> Result<Recorder, String> {
    let recorder = Rc::new(RefCell::new(Recorder::new(options.values)));
    let heard = recorder.clone();
    let mut session = open(target, Rc::new(move |line| heard.borrow_mut().hear(line))).await?;
    let database = options.database.replace('"', "\"\"");
    let order = format!("TRACE DATABASE \"{database}\" FOR {} SECONDS", options.time.as_secs());
    let progress = Progress::of(options.time, "recording");
    let tracing = async {
        tokio::select! {
            traced = timeout(options.time + SPARE, session.rows(&order, |_| {})) => match traced {
                Ok(traced) => traced.map_err(|failure| refused(&failure.text())),
                Err(_) => Err("the pooler has not ended the trace".to_owned()),
            },
            () = async {
                progress.pass(options.time).await;
                std::future::pending::<()>().await;
            } => Ok(()),
        }
    };
    let ended = stop.or(tracing).await.unwrap_or(Ok(()));
    progress.end();
    // What was heard before the pooler vanished is worth keeping; nothing heard is an error.
    drop(session);
    let recorder = recorder.replace(Recorder::new(options.values));
    match ended {
        Err(why) if recorder.length() == 0.0 => Err(why),
        Err(why) => {
            eprintln!("trunkline record: {why}; what came before is kept");
            Ok(recorder)
        }
        Ok(()) => Ok(recorder),
    }
}

async fn open(target: &Target, hear: Rc<dyn Fn(&str)>) -> Result<Session, String> {
    Session::open_hearing(target, &mut Codes::default(), hear).await.map_err(|why| format!("the pooler: {why}"))
}

fn refused(why: &str) -> String {
    format!("the pooler refuses: {why}")
}

fn summary(recording: &Recording) -> String {
    let mut text = format!(
        "recorded {} of {} sessions in {:.1} s: {} statements",
        base::counted(recording.requests() as u64, "request"),
        recording.sessions.len(),
        recording.seconds,
        recording.statements.len()
    );
    if recording.left_out > 0 {
        text.push_str(&format!("; {} left out, whose text was cut off, concealed or unreadable", recording.left_out));
    }
    if recording.dropped > 0 {
        text.push_str(&format!(
            "; {} lines of the trace were dropped: more happened than it can tell",
            recording.dropped
        ));
    }
    text.push('\n');
    text
}

const NAME: &str = "trunkline record";
/// How much longer than it was to last a trace is waited for.
const SPARE: Duration = Duration::from_secs(10);
