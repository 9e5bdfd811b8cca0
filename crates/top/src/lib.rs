//! `trunkline top`: the console of Trunkline or PgBouncer in a terminal; and `trunkline switchover`, which gives it an order.
//!
//! Always true: it is an ordinary client of the console and sends only `SHOW` commands, but for `trunkline switchover`; of the
//! pooler's code it imports nothing but TLS.
//! Not here: the command line's first word and configuration files (crate `trunkline`).

mod board;
mod commands;
mod console;
mod draw;
mod options;
mod picture;
mod rates;
mod screen;
mod sentence;
mod switchover;
mod table;
mod target;
mod terminal;
mod view;
mod watch;

use std::io::{ErrorKind, Write as _};
use std::time::{Duration, Instant};

use nix::unistd::{User, geteuid};
use tokio::runtime::{Builder, Runtime};

pub use options::{TopOptions, USAGE};
pub use switchover::{SWITCHOVER_USAGE, SwitchoverOptions, switch_over};
pub use target::Listening;

use board::{Board, Choice};
use console::{Console, LEAVE_TIME_MAX};
use screen::Screen;
use table::Order;
use target::{ConsoleLogin, Machine};
use terminal::Hands;
use view::{VIEWS, View};
use watch::Watch;

/// Runs the command. `listening` comes from the configuration file, if the options name one. Returns the signal that
/// ended the command, if one did.
///
/// # Errors
/// One line for the person at the terminal.
pub fn run(options: &TopOptions, listening: Option<&Listening>) -> Result<Option<i32>, String> {
    let login = console_login(options, listening)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    if options.is_once {
        return once(options, &login, &runtime).map(|()| None);
    }
    terminal::check()?;
    let console = runtime.block_on(Console::reach(&login))?;
    let mut screen = Screen::new(options, &choice(options, &VIEWS[options.view]));
    screen.reached(console.title(&login), console.commands.clone());
    let (sender, events) = std::sync::mpsc::sync_channel(EVENTS_MAX);
    let (wishes, wished) = tokio::sync::watch::channel(screen.wish());
    let start = Instant::now();
    let watch = Watch { login, console, start, wishes: wished, events: sender.clone() };
    let (running, over) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        watch.run(&runtime);
        drop(running);
    });
    let shown = terminal::show(&mut screen, Hands { start, events, sender, wishes });
    // The thread leaves the console when the screen is gone, but not while it tries to reach one.
    let _ = over.recv_timeout(LEAVE_TIME_MAX * 2);
    shown
}

fn console_login(options: &TopOptions, listening: Option<&Listening>) -> Result<ConsoleLogin, String> {
    let machine = Machine {
        variable: &|name| std::env::var(name).ok(),
        passwords: &passwords,
        user: User::from_uid(geteuid()).ok().flatten().map(|user| user.name),
    };
    target::console_login(options, listening, &machine)
}

/// Reads a file with passwords. As in libpq, a file that others may read is not used.
fn passwords(path: &str) -> Option<String> {
    conninfo::read_private(path).unwrap_or_else(|text| {
        eprintln!("trunkline top: {text}");
        None
    })
}

/// Asks once, and prints the answer.
fn once(options: &TopOptions, login: &ConsoleLogin, runtime: &Runtime) -> Result<(), String> {
    let view = &VIEWS[options.view];
    let mut board = Board::default();
    let mut console = runtime.block_on(Console::reach(login))?;
    board.reached(console.commands.clone());
    let asked = runtime.block_on(async {
        for command in board.needed(view) {
            board.take(Duration::ZERO, command, console.ask(command).await?);
        }
        Ok::<(), String>(())
    });
    let title = console.title(login);
    runtime.block_on(console.leave());
    asked?;
    let mut table = board.rows(view)?;
    if let Some(column) = options.sort.as_ref().filter(|column| table.place(column).is_none()) {
        return Err(format!(
            "there is no column {column:?} to sort by; the columns are {}",
            table.columns().join(", ")
        ));
    }
    choice(options, view).apply(&mut table);
    let picture = picture::picture(&title, board.sentence().as_ref(), view.name, &table);
    // The reader may have ended (`| head`).
    match std::io::stdout().write_all(picture.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// How many keys, answers and other events may wait while the terminal accepts no output.
const EVENTS_MAX: usize = 16;

/// The rows and their order according to the options.
fn choice(options: &TopOptions, view: &View) -> Choice {
    let mut choice = Choice::of(view);
    if let Some(column) = &options.sort {
        choice.sort = Some((column.clone(), Order::Falling));
    }
    if options.is_reversed {
        choice.sort = choice.sort.map(|(column, order)| (column, order.reverse()));
    }
    choice.filter.clone_from(&options.filter);
    choice
}
