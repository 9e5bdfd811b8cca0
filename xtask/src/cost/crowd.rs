//! Many clients at once, in steps that are the same each time.
//!
//! Always true: the pooler is stopped while its clients send and while answers are let through to it, and runs until nothing is
//! left to do; so each of its turns finds what it found the time before.
//! Not here: what the clients send (`kinds`).

use std::io;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::player::Player;
use super::quiet::wait_for_quiet;
use crate::bench::Tap;

/// A pooler that can be stopped, and the relay that holds back PostgreSQL's answers to it.
pub(super) struct Held<'a> {
    pub(super) tap: &'a Tap,
    pub(super) pooler: u32,
}

impl Held<'_> {
    /// Has all clients send the same query, which is answered to those that have a server, then to the next ones.
    pub(super) fn ask_all<'b>(&self, players: impl Iterator<Item = &'b mut Player>, query: &[u8]) -> io::Result<()> {
        wait_for_quiet()?;
        self.tap.hold_answers(true);
        let mut waiting: Vec<_> = players.collect();
        self.while_stopped(|| waiting.iter_mut().try_for_each(|player| player.send(query)))?;
        while !waiting.is_empty() {
            self.while_stopped(|| {
                self.tap.hold_answers(false);
                wait_for_quiet()?;
                self.tap.hold_answers(true);
                Ok(())
            })?;
            let (asking, mut unanswered) = (waiting.len(), Vec::new());
            for player in waiting {
                if player.has_answer()? { player.read_answer()? } else { unanswered.push(player) }
            }
            if unanswered.len() == asking {
                return Err(io::Error::other("nobody was answered"));
            }
            waiting = unanswered;
        }
        self.tap.hold_answers(false);
        Ok(())
    }

    /// Does something while the pooler is stopped, and returns when the pooler has dealt with it.
    fn while_stopped(&self, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.signal(Signal::SIGSTOP)?;
        let done = act();
        self.signal(Signal::SIGCONT)?;
        done.and_then(|()| wait_for_quiet())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.pooler).map_err(io::Error::other)?;
        kill(Pid::from_raw(pid), signal).map_err(io::Error::from)
    }
}
