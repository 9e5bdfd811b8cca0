//! The thread that asks the console again and again.
//!
//! Always true: a slow or lost console never keeps the screen from reacting to a key; after a loss the connection is
//! tried again with pauses that grow to [`PAUSE_MAX`]. While the screen is paused, the console is not asked.
//! Not here: what is done with the answers (`screen`).

use std::sync::mpsc::{SyncSender, TrySendError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant as Deadline, sleep_until, timeout};

use crate::commands::Commands;
use crate::console::{Answer, Console};
use crate::screen::Wish;
use crate::target::ConsoleLogin;

/// Events for the screen, from this thread and from the keyboard.
pub(crate) enum Event {
    /// An event of the terminal: a key, or another size.
    Terminal(ratatui::crossterm::event::Event),
    /// Answers, each with the time of its arrival.
    Answers(Vec<(Duration, &'static str, Answer)>),
    /// A new connection: its title and its commands.
    Reached(String, Commands),
    /// The connection is lost: the reason, and the time of the next attempt.
    Lost(String, Duration),
    /// The process has to end: this signal arrived, or the terminal is gone.
    End(i32),
}

/// What the thread needs.
pub(crate) struct Watch {
    pub(crate) login: ConsoleLogin,
    pub(crate) console: Console,
    /// The start of the time line.
    pub(crate) start: Instant,
    pub(crate) wishes: Receiver<Wish>,
    pub(crate) events: SyncSender<Event>,
}

impl Watch {
    /// Asks the console until the screen is gone, and leaves it.
    pub(crate) fn run(mut self, runtime: &Runtime) {
        runtime.block_on(async {
            let events = self.events.clone();
            let wishes = self.wishes.clone();
            tokio::select! {
                signal = ended() => drop(events.send(Event::End(signal))),
                () = is_gone(wishes) => {}
                () = self.look() => {}
            }
            self.console.leave().await;
        });
    }

    async fn look(&mut self) {
        loop {
            let why = match self.look_well().await {
                Ended::Nobody => return,
                Ended::Lost(why) => why,
            };
            if !self.reach_again(why).await {
                return;
            }
        }
    }

    /// Asks as the screen wishes, as long as the connection is good.
    async fn look_well(&mut self) -> Ended {
        loop {
            let wish = self.wishes.borrow_and_update().clone();
            let begun = Deadline::now();
            if !wish.is_paused {
                let mut answers = Vec::with_capacity(wish.commands.len());
                for command in &wish.commands {
                    match self.console.ask(command).await {
                        Ok(answer) => answers.push((self.start.elapsed(), *command, answer)),
                        Err(why) => return Ended::Lost(why),
                    }
                }
                // If the screen does not keep up, the next answers replace these.
                if let Err(TrySendError::Disconnected(_)) = self.events.try_send(Event::Answers(answers)) {
                    return Ended::Nobody;
                }
            }
            loop {
                let next = begun + self.wishes.borrow().interval;
                let changed = if wish.is_paused {
                    self.wishes.changed().await.is_ok()
                } else {
                    tokio::select! {
                        changed = self.wishes.changed() => changed.is_ok(),
                        () = sleep_until(next) => break,
                    }
                };
                if !changed {
                    return Ended::Nobody;
                }
                if self.is_urgent(&wish) {
                    break;
                }
            }
        }
    }

    /// Whether the new wish cannot wait for the end of the interval: other commands, or the end of a pause.
    fn is_urgent(&self, before: &Wish) -> bool {
        let now = self.wishes.borrow();
        now.is_paused != before.is_paused || now.commands.iter().any(|command| !before.commands.contains(command))
    }

    /// Tries until there is a connection. Returns `false` if the screen is gone.
    async fn reach_again(&mut self, mut why: String) -> bool {
        let mut pause = PAUSE_MIN;
        loop {
            if self.events.send(Event::Lost(why, self.start.elapsed() + pause)).is_err() {
                return false;
            }
            let end = Deadline::now() + pause;
            while let Ok(changed) = timeout(end - Deadline::now(), self.wishes.changed()).await {
                if changed.is_err() {
                    return false;
                }
            }
            match Console::reach(&self.login).await {
                Ok(console) => {
                    let reached = Event::Reached(console.title(&self.login), console.commands.clone());
                    self.console = console;
                    return self.events.send(reached).is_ok();
                }
                Err(reason) => why = reason,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

enum Ended {
    Nobody,
    Lost(String),
}

/// Waits until nobody wishes anything any more: the screen is gone.
async fn is_gone(mut wishes: Receiver<Wish>) {
    while wishes.changed().await.is_ok() {}
}

/// Waits for the first signal that ends the process.
async fn ended() -> i32 {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
    let mut waits: Vec<_> =
        kinds.into_iter().filter_map(|kind| Some((kind.as_raw_value(), signal(kind).ok()?))).collect();
    std::future::poll_fn(|cx| {
        let mut came =
            waits.iter_mut().filter_map(|(number, signal)| signal.poll_recv(cx).is_ready().then_some(*number));
        came.next().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// The first pause before a lost connection is tried again.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
