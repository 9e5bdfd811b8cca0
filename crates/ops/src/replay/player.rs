//! Plays a script against a target: each session on a connection of its own, each request when it is to be sent.
//!
//! Always true: a request that is late because the one before it still runs waits, and counts from when it was to be sent; a connection that
//! breaks is opened anew for the next request.
//! Not here: what is played (`script`), what the answers mean (`comparison`).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use tokio::task::{spawn_local, yield_now};
use tokio::time::{Instant, sleep_until, timeout};

use super::script::{Planned, Script};
use crate::connection::Stop;
use crate::hatest::{Codes, Failure, Session, Target};
use crate::load::{End, Passage, Tally};

/// What a run has shown.
#[derive(Debug)]
pub(super) struct Run {
    /// The answers, in the order of the script; `None` where there was none.
    pub(super) outcomes: Vec<Option<Outcome>>,
    pub(super) tally: Tally,
    pub(super) logins: u64,
    /// Logins that failed, and why the last one did.
    pub(super) failed_logins: u64,
    pub(super) refusal: Option<String>,
    /// How long it took, in seconds, and the processor time of the generator in that time.
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    /// Whether it was ended before its time.
    pub(super) is_cut: bool,
}

/// How a request was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    pub(super) statement: usize,
    pub(super) answer: Answer,
    /// From when it was to be sent, in microseconds.
    pub(super) took: u64,
}

/// An answer, as far as it is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Rows {
        rows: u64,
        digest: u64,
    },
    /// The SQLSTATE, or a word.
    Refused(String),
}

impl Answer {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Rows { rows, digest } => format!("{}, digest {digest:016x}", base::counted(*rows, "row")),
            Self::Refused(code) => format!("error {code}"),
        }
    }
}

impl Default for Run {
    fn default() -> Self {
        Self {
            outcomes: Vec::new(),
            tally: Tally::new(u64::MAX),
            logins: 0,
            failed_logins: 0,
            refusal: None,
            seconds: 0.0,
            cpu_seconds: 0.0,
            is_cut: false,
        }
    }
}

/// Plays a script. Needs a `LocalSet`.
///
/// # Errors
/// The target cannot be used at all.
pub(super) async fn play(
    script: &Script,
    target: &Rc<Target>,
    patience: Duration,
    stop: &mut Stop,
) -> Result<Run, String> {
    // A target that is not there is told before anything is played.
    let first = Session::open(target, &mut Codes::default()).await?;
    first.close().await;
    let run = Rc::new(RefCell::new(Run { outcomes: vec![None; script.requests()], ..Run::default() }));
    let (begin, cpu) = (Instant::now() + LEAD, processor_time());
    let mut number = 0;
    let mut tasks = Vec::new();
    for session in &script.sessions {
        let seat = Seat { target: target.clone(), run: run.clone(), begin, patience, first: number };
        number += session.len();
        tasks.push(spawn_local(seat.play(session.clone())));
    }
    let all = async {
        for task in &mut tasks {
            let _ = task.await;
        }
    };
    let is_cut = stop.or(all).await.is_none();
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let mut run = run.replace(Run::default());
    (run.seconds, run.cpu_seconds) = (begin.elapsed().as_secs_f64(), processor_time() - cpu);
    run.is_cut = is_cut;
    Ok(run)
}

/// A session.
struct Seat {
    target: Rc<Target>,
    run: Rc<RefCell<Run>>,
    begin: Instant,
    patience: Duration,
    /// The number of its first request in the script.
    first: usize,
}

impl Seat {
    async fn play(self, requests: Vec<Planned>) {
        let mut session = None;
        for (number, planned) in requests.iter().enumerate() {
            let due = self.begin + Duration::from_micros(planned.at);
            let is_late = Instant::now() > due;
            wait_until(due).await;
            // Whoever still waits for the answer before is not delayed by the generator.
            let noticed = if is_late { planned.at } else { self.micros() };
            if session.as_ref().is_none_or(Session::is_broken) {
                session = self.open().await;
            }
            let sent = session.is_some().then(|| self.micros());
            let asked = match &mut session {
                None => Some(Err(Failure::Broken("login"))),
                Some(session) => timeout(self.patience, session.digest(&planned.sql)).await.ok(),
            };
            let ended = self.micros();
            let (end, answer) = match asked {
                Some(Ok((rows, digest))) => (End::Done, Some(Answer::Rows { rows, digest })),
                Some(Err(failure)) => (End::Errored, Some(Answer::Refused(failure.code()))),
                None => {
                    session = None;
                    (End::TimedOut, None)
                }
            };
            let mut run = self.run.borrow_mut();
            run.tally.note(&Passage { at: planned.at, noticed, sent, ended, end });
            let took = ended.saturating_sub(planned.at);
            run.outcomes[self.first + number] =
                answer.map(|answer| Outcome { statement: planned.statement, answer, took });
        }
        if let Some(session) = session {
            session.close().await;
        }
    }

    async fn open(&self) -> Option<Session> {
        let opened = Session::open(&self.target, &mut Codes::default()).await;
        let mut run = self.run.borrow_mut();
        run.logins += 1;
        opened
            .map_err(|why| {
                run.failed_logins += 1;
                run.refusal = Some(why);
            })
            .ok()
    }

    fn micros(&self) -> u64 {
        Instant::now().saturating_duration_since(self.begin).as_micros() as u64
    }
}

/// Waits more exactly than timers of the runtime ring, which is by whole milliseconds: the last of them is spent looking at the clock, between which
/// other sessions go on.
async fn wait_until(due: Instant) {
    if let Some(early) = due.checked_sub(TICK).filter(|early| *early > Instant::now()) {
        sleep_until(early).await;
    }
    while Instant::now() < due {
        yield_now().await;
    }
}

/// Of this thread, in seconds.
fn processor_time() -> f64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0.0, |usage| {
        (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6
    })
}

/// Time for the tasks to be there.
const LEAD: Duration = Duration::from_millis(100);
/// By how much a timer of the runtime may ring late.
const TICK: Duration = Duration::from_micros(1100);
