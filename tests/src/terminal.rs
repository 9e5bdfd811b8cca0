//! A program in a terminal: a test presses keys, and reads the screen.
//!
//! Always true: the program ends with the guard; all that it has written is kept, byte by byte.
//! Not here: what the program should show.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::signal::Signal;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::program;
use crate::wait::{LIMIT, try_wait_for, wait_until};

/// A program in a terminal.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Terminal {
    /// Starts a program in a terminal with so many lines and columns, and in a session of its own, so that it is signalled
    /// when the size changes.
    ///
    /// # Panics
    /// When no terminal can be opened.
    pub fn start(command: &Command, lines: u16, columns: u16) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&keyboard).expect("our own terminal");
        unlockpt(&keyboard).expect("our own terminal");
        let name = ptsname(&keyboard, Vec::new()).expect("our own terminal has a name");
        tcsetwinsize(&keyboard, size(lines, columns)).expect("a terminal takes any size");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open =
            || -> OwnedFd { rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("our own terminal opens") };
        let mut session = in_session(command);
        let session = session.stdin(open()).stdout(open()).stderr(open()).env("TERM", "xterm-256color");
        let child = session.spawn().expect("the program can be started");
        let keyboard = File::from(keyboard);
        let parser = vt100::Parser::new(count(lines), count(columns), 0);
        let seen = Arc::new(Mutex::new(Seen { parser, bytes: Vec::new() }));
        let (mut screen, told) = (keyboard.try_clone().expect("one more descriptor"), seen.clone());
        thread::spawn(move || {
            let mut part = [0; 4096];
            // Reading fails once nobody has the terminal open any more.
            while let Ok(count @ 1..) = screen.read(&mut part) {
                let mut seen = told.lock().expect("nobody panics with it");
                seen.parser.process(&part[..count]);
                seen.bytes.extend(&part[..count]);
            }
        });
        Self { child, keyboard, seen }
    }

    /// Presses keys.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    /// Changes the size.
    ///
    /// # Panics
    /// When it cannot be changed.
    pub fn resize(&mut self, lines: u16, columns: u16) {
        let mut seen = self.seen.lock().expect("nobody panics with it");
        seen.parser.screen_mut().set_size(count(lines), count(columns));
        tcsetwinsize(&self.keyboard, size(lines, columns)).expect("a terminal takes any size");
    }

    /// Waits until the screen shows a text, wherever its lines break. Returns the whole screen.
    ///
    /// # Panics
    /// With the screen, when it does not.
    pub fn await_text(&self, wanted: &str) -> String {
        let words = |screen: &str| screen.split_whitespace().collect::<Vec<_>>().join(" ");
        self.await_screen(wanted, |screen| words(screen).contains(wanted))
    }

    /// Waits until the screen is as wanted. Returns the whole screen.
    ///
    /// # Panics
    /// With the screen, when it does not become so.
    pub fn await_screen(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let seen = try_wait_for(LIMIT, || Some(self.screen()).filter(|screen| is_so(screen)));
        seen.unwrap_or_else(|| panic!("waited in vain for {what:?}:\n{}", self.screen()))
    }

    /// The text on the screen.
    ///
    /// # Panics
    /// Never, because nobody panics while holding the lock.
    pub fn screen(&self) -> String {
        self.seen.lock().expect("nobody panics with it").parser.screen().contents()
    }

    /// Every byte that was written to it.
    ///
    /// # Panics
    /// Never, because nobody panics while holding the lock.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().expect("nobody panics with it").bytes.clone()
    }

    /// Returns whether lines are edited and echoed, as a shell expects, and the main screen is shown.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.keyboard).expect("our own terminal").local_modes;
        let seen = self.seen.lock().expect("nobody panics with it");
        let screen = seen.parser.screen();
        modes.contains(LocalModes::ICANON | LocalModes::ECHO) && !screen.alternate_screen() && !screen.hide_cursor()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        program::signal(self.child.id(), signal);
    }

    /// Waits until it is as a shell expects; the program's last output may be read after its end.
    ///
    /// # Panics
    /// When it does not become so.
    pub fn await_restored(&self) {
        wait_until("the terminal is restored", LIMIT, || self.is_restored());
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// With the screen, when it does not end.
    pub fn await_end(&mut self) -> ExitStatus {
        let ended = try_wait_for(LIMIT, || self.child.try_wait().expect("our own child"));
        ended.unwrap_or_else(|| panic!("the program goes on:\n{}", self.screen()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command as the leader of a new session whose controlling terminal is its standard input.
fn in_session(command: &Command) -> Command {
    let mut session = Command::new("setsid");
    session.arg("--ctty").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => session.env(name, value),
            None => session.env_remove(name),
        };
    }
    session
}

fn size(lines: u16, columns: u16) -> Winsize {
    Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn count(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a terminal has lines and columns")
}
