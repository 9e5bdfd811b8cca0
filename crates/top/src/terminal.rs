//! The hand that has the terminal: keys in, pictures out.
//!
//! Always true: the terminal is as it was before when the process ends, whether by a key, a signal, an error or a panic.
//! Not here: what a key means (`screen`), what is drawn (`draw`).

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

/// Says so where there is no terminal.
///
/// # Errors
/// What to do instead.
pub(crate) fn check() -> Result<(), String> {
    match stdout().is_terminal() {
        true => Ok(()),
        false => Err("the output is not a terminal; --once prints one picture as text".to_owned()),
    }
}

/// Shows the screen until it is left; then the signal that ended it, if one did.
///
/// # Errors
/// The terminal does not do what it should.
pub(crate) fn show(screen: &mut Screen, hands: &Hands) -> Result<Option<i32>, String> {
    let palette = if is_colourless() { Palette::plain() } else { Palette::coloured() };
    // Sets a hook for panics that restores the terminal before anything is said, also where a panic aborts.
    let mut terminal = ratatui::try_init().map_err(|error| {
        // Half of it may have been done.
        let _ = ratatui::try_restore();
        format!("cannot use the terminal: {error}")
    })?;
    show_cursor_at_a_panic();
    read_keys(hands.sender.clone());
    let ended = until_left(screen, hands, &mut terminal, &palette);
    let restored = ratatui::try_restore().map_err(|error| format!("cannot restore the terminal: {error}"));
    let signal = ended?;
    restored.map(|()| signal)
}

/// What connects the screen with the hand that asks.
pub(crate) struct Hands {
    /// Since when time is counted.
    pub(crate) start: Instant,
    /// What happens.
    pub(crate) events: Receiver<Event>,
    /// For the keyboard.
    pub(crate) sender: SyncSender<Event>,
    /// What is wished.
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
        // What comes together is drawn once: keys that are held down, an answer with them.
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

/// Has all of the screen drawn anew. `Terminal::clear` would ask the terminal where its cursor is, and the answer goes to the thread that reads keys.
fn redraw(terminal: &mut DefaultTerminal) -> std::io::Result<()> {
    let size = terminal.size()?;
    terminal.resize(Rect::from((Position::ORIGIN, size)))
}

/// Drawing hides the cursor, and it is shown again when the terminal is dropped, which does not happen where a panic aborts.
fn show_cursor_at_a_panic() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let _ = execute!(stdout(), Show);
        hook(panic);
    }));
}

/// Keys are read in a thread of their own, because reading them blocks; it ends with the process.
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

/// How often ages and pauses on the screen are told anew.
const TICK: Duration = Duration::from_secs(1);

/// SIGHUP.
const HANGUP: i32 = 1;
