//! The terminal: reads keys and draws the screen.
//!
//! Always true: the terminal is restored when the process ends, whether by a key, a signal, an error or a panic.
//! Not here: the meaning of keys (`screen`), drawing (`draw`).

use std::io::{IsTerminal as _, stdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event as Input, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::layout::{Position, Rect};
use tokio::sync::watch;

use crate::draw::{Palette, draw};
use crate::screen::{Next, Screen, Wish};
use crate::watch::Event;

/// Checks that the output is a terminal.
///
/// # Errors
/// Says what to do instead.
pub(crate) fn check() -> Result<(), String> {
    match stdout().is_terminal() {
        true => Ok(()),
        false => Err("the output is not a terminal; --once prints one picture as text".to_owned()),
    }
}

/// Shows the screen until the user leaves it. Returns the signal that ended it, if one did.
///
/// # Errors
/// The terminal fails.
pub(crate) fn show(screen: &mut Screen, hands: Hands) -> Result<Option<i32>, String> {
    let palette = if is_colourless() { Palette::plain() } else { Palette::coloured() };
    // Installs a panic hook that restores the terminal before the message is printed, which works also where a panic
    // aborts.
    let mut terminal = ratatui::try_init().map_err(|error| {
        // The setup may have failed halfway.
        let _ = ratatui::try_restore();
        format!("cannot use the terminal: {error}")
    })?;
    show_cursor_at_a_panic();
    read_keys(hands.sender.clone());
    let ended = until_left(screen, &hands, &mut terminal, &palette);
    // The thread that asks the console sees by this that the screen is gone.
    drop(hands);
    let restored = ratatui::try_restore().map_err(|error| format!("cannot restore the terminal: {error}"));
    let signal = ended?;
    restored.map(|()| signal)
}

/// What connects the screen with the thread that asks the console.
pub(crate) struct Hands {
    /// The start of the time line.
    pub(crate) start: Instant,
    /// Events for the screen.
    pub(crate) events: Receiver<Event>,
    /// For the keyboard thread.
    pub(crate) sender: SyncSender<Event>,
    /// The commands to ask.
    pub(crate) wishes: watch::Sender<Wish>,
}

fn until_left(
    screen: &mut Screen,
    hands: &Hands,
    terminal: &mut DefaultTerminal,
    palette: &Palette,
) -> Result<Option<i32>, String> {
    let failed = |error: std::io::Error| format!("cannot write to the terminal: {error}");
    loop {
        terminal.draw(|frame| draw(frame, screen, hands.start.elapsed(), palette)).map_err(failed)?;
        // Events that arrive together are drawn once: repeated keys, or an answer with them.
        let mut event = match hands.events.recv_timeout(TICK) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        };
        while let Some(one) = event {
            match one {
                Event::End(signal) => return Ok(Some(signal)),
                Event::Terminal(Input::Key(key)) if key.kind != KeyEventKind::Release => match screen.key(key) {
                    Next::Quit => return Ok(None),
                    Next::Redraw => redraw(terminal).map_err(failed)?,
                    Next::GoOn => {}
                },
                Event::Terminal(_) => {}
                Event::Answers(answers) => screen.take(answers),
                Event::Reached(title, commands) => screen.reached(title, commands),
                Event::Lost(why, again) => screen.lost(why, again),
            }
            event = hands.events.try_recv().ok();
        }
        let wish = screen.wish();
        hands.wishes.send_if_modified(|before| {
            let is_new = *before != wish;
            *before = wish;
            is_new
        });
    }
}

/// Draws the whole screen again. `Terminal::clear` would ask the terminal for its cursor position, and the answer would
/// go to the thread that reads keys.
fn redraw(terminal: &mut DefaultTerminal) -> std::io::Result<()> {
    let size = terminal.size()?;
    terminal.resize(Rect::from((Position::ORIGIN, size)))
}

/// Drawing hides the cursor. It is shown again when the terminal is dropped, which does not happen if a panic aborts.
fn show_cursor_at_a_panic() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let _ = execute!(stdout(), Show);
        hook(panic);
    }));
}

/// Reads keys in a thread of its own, because reading blocks; the thread ends with the process.
fn read_keys(events: SyncSender<Event>) {
    thread::spawn(move || {
        while let Ok(input) = event::read() {
            if events.send(Event::Terminal(input)).is_err() {
                return;
            }
        }
        // The terminal is gone.
        drop(events.send(Event::End(HANGUP)));
    });
}

/// Whether the user wants no colours (<https://no-color.org>).
fn is_colourless() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// How often ages and countdowns on the screen are updated.
const TICK: Duration = Duration::from_secs(1);

/// SIGHUP.
const HANGUP: i32 = 1;
