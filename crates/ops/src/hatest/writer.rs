//! A writer: one row at a time, on an open schedule, for as long as the run lasts.
//!
//! Always true: each row is sent once; whatever happens to the connection, the writer makes another.
//! Not here: what an answer means (`answer`), what is counted (`tally`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::answer::Failure;
use super::ledger::Outcome;
use super::run_clock::{RunClock, Stop};
use super::schedule::Schedule;
use super::session::Session;
use super::statements::Statements;
use super::tally::{Connections, PathTally};
use super::target::Target;

/// A writer of a path.
pub(crate) struct Writer {
    pub(crate) path: String,
    pub(crate) number: u32,
    pub(crate) target: Rc<Target>,
    pub(crate) statements: Statements,
    pub(crate) schedule: Schedule,
    pub(crate) clock: RunClock,
    pub(crate) stop: Stop,
    pub(crate) answer_timeout: Option<Duration>,
    pub(crate) tally: Rc<RefCell<PathTally>>,
    /// The time of the newest acknowledged row of all writers, in microseconds since 1970.
    pub(crate) newest_micros: Rc<Cell<i64>>,
}

impl Writer {
    /// Writes until the stop, then waits for the last answer. `writes` is the most that it writes.
    pub(crate) async fn run(mut self, writes: u64) {
        let mut session: Option<Session> = None;
        for number in 0..writes {
            if self.stop.before(self.clock.until(self.schedule.due(number))).await.is_none() {
                break;
            }
            let Some(mut open) = self.session(session.take()).await else { break };
            if self.write(&mut open).await {
                session = Some(open);
            }
        }
        self.stop.come().await;
        let over = self.clock.now();
        if let Some(session) = session {
            session.close().await;
        }
        let at = self.number as usize;
        let mut tally = self.tally.borrow_mut();
        let due = self.schedule.count_before(over).min(writes);
        let sent = tally.writers[at].ledger.sent();
        tally.writers[at].unsent = due.saturating_sub(sent);
    }

    /// A session that is not known to be broken; `None` if the stop comes first.
    async fn session(&mut self, session: Option<Session>) -> Option<Session> {
        if let Some(mut session) = session {
            if !session.is_broken() {
                return Some(session);
            }
            let why = session.end().await.unwrap_or(Failure::Broken("closed"));
            self.tally.borrow_mut().connections.broken.count(why.code());
        }
        let tally = self.tally.clone();
        self.stop.before(connect(&self.target, |count| count(&mut tally.borrow_mut().connections))).await
    }

    /// Writes a row, and returns whether the session goes on.
    async fn write(&mut self, session: &mut Session) -> bool {
        let at = self.number as usize;
        let seq = self.tally.borrow_mut().writers[at].ledger.begin();
        let sent_micros = self.clock.micros(self.clock.now());
        let sql = self.statements.insert(&self.path, self.number, seq, sent_micros);
        let answer = within(self.answer_timeout, session.row(&sql));
        let answer = self.stop.soon_after(GRACE, answer).await.unwrap_or(Err(Failure::Broken(NO_ANSWER)));
        let mut tally = self.tally.borrow_mut();
        match answer {
            Ok(row) => {
                let member = row.first().and_then(Option::as_deref).unwrap_or("?");
                let now = self.clock.now();
                tally.acked(at, seq, &conninfo::clean(member), self.schedule.due(seq), now);
                self.newest_micros.set(self.newest_micros.get().max(sent_micros));
                true
            }
            Err(failure) => {
                tally.failed(at, seq, &failure);
                let goes_on = matches!(failure, Failure::Server { goes_on: true, .. });
                if !goes_on && failure != Failure::Broken(NO_ANSWER) {
                    tally.connections.broken.count(failure.code());
                }
                debug_assert!(goes_on || failure.outcome() == Outcome::Unknown, "an answer was refused and lost");
                goes_on
            }
        }
    }
}

/// Connects, however long it takes. `note` gets the counts of connections to change.
pub(crate) async fn connect(target: &Target, note: impl Fn(&mut dyn FnMut(&mut Connections))) -> Session {
    loop {
        let mut failed = super::answer::Codes::default();
        let opened = Session::open(target, &mut failed).await;
        note(&mut |connections| {
            connections.made += u64::from(opened.is_ok());
            failed.0.iter().for_each(|(code, count)| (0..*count).for_each(|_| connections.failed.count(code.clone())));
        });
        match opened {
            Ok(session) => return session,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Waits for an answer, with a limit or without.
pub(crate) async fn within<T>(
    limit: Option<Duration>,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match limit {
        None => answer.await,
        Some(limit) => tokio::time::timeout(limit, answer).await.unwrap_or(Err(Failure::Broken("timeout"))),
    }
}

/// The pause after all hosts of a target have failed. With two writers that take turns, a recovery is seen within half of it.
const PAUSE: Duration = Duration::from_millis(50);
/// Why the outcome of a write is unknown that had no answer at the end of the run.
const NO_ANSWER: &str = "no-answer";
/// How long a last answer is waited for at the end of the run.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
