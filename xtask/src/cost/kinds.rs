//! The rows of the table of costs.

use std::io;

use habits::{Habit, Reconnects};

use super::crowd::Held;
use super::player::{Player, message};
use crate::playing::{Draws, Script};

/// What is run repeatedly for one row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Simple,
    Extended,
    Prepared,
    Login,
    NewText,
    CachedText,
    /// Simple queries, each of which is sampled for `SHOW STATEMENTS`.
    LookedAt,
    /// Simple queries of a client whose reads may go to replicas (`read_routing = automatic`), of which there is none.
    Routed,
    /// A login over TLS.
    TlsLogin,
    /// Simple queries of 64 clients at once, for which there are 20 servers; with this way to the kernel.
    Crowd(Backend),
    /// A script of what drivers send on their own; with one connection for all of its transactions, or one for each.
    Habit(&'static Habit, Reconnects),
}

/// How the pooler asks the kernel (`io_backend`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Epoll,
    Uring,
}

impl Backend {
    /// Its name in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Uring => "io_uring",
        }
    }
}

impl Kind {
    /// All rows in their order. Habits that send something at connect have a second row, for that.
    pub(super) fn all(habits: &'static [Habit]) -> Vec<Self> {
        let mut all = vec![Self::Simple, Self::Extended, Self::Prepared, Self::Login, Self::TlsLogin];
        all.extend([Backend::Epoll, Backend::Uring].map(Self::Crowd));
        all.extend([Self::NewText, Self::CachedText, Self::LookedAt, Self::Routed]);
        for habit in habits {
            all.push(Self::Habit(habit, Reconnects::Never));
            if !habit.connect.is_empty() {
                all.push(Self::Habit(habit, Reconnects::Always));
            }
        }
        all
    }

    /// The name of the row; for a habit the same as in `cargo xtask bench`.
    pub(super) fn name(self) -> String {
        match self {
            Self::Simple => "simple".into(),
            Self::Extended => "extended".into(),
            Self::Prepared => "prepared".into(),
            Self::Login => "login".into(),
            Self::NewText => "new text of 1 kB".into(),
            Self::CachedText => "cached text of 1 kB".into(),
            Self::LookedAt => "simple, looked at".into(),
            Self::Routed => "simple, reads routed".into(),
            Self::TlsLogin => "login over TLS".into(),
            Self::Crowd(backend) => format!("simple, 64 clients, {}", backend.name()),
            Self::Habit(habit, Reconnects::Never) => format!("{HABITS}{}", habit.name),
            Self::Habit(habit, Reconnects::Always) => format!("{HABITS}{}/connect", habit.name),
        }
    }

    /// How many times each thing is done that is counted, and before that so many of those that are not.
    pub(super) fn times(self) -> (u64, u64) {
        match self {
            Self::Habit(..) => (80, UNSEEN),
            Self::Crowd(_) => (20, UNSEEN / 4),
            _ => (200, UNSEEN),
        }
    }

    /// The number of transactions that are run at a time.
    pub(super) fn at_once(self) -> u32 {
        if matches!(self, Self::Crowd(_)) { CROWD } else { 1 }
    }

    /// Whether its clients encrypt.
    pub(super) fn is_secured(self) -> bool {
        matches!(self, Self::TlsLogin)
    }

    /// Whether the database is on a cluster, to whose replicas reads are routed.
    pub(super) fn is_routed(self) -> bool {
        matches!(self, Self::Routed)
    }

    /// The way to the kernel for everything but the entries by io_uring.
    pub(super) fn backend(self) -> Backend {
        if let Self::Crowd(backend) = self { backend } else { Backend::Epoll }
    }

    /// Whether the entries to the kernel by io_uring are counted as well. Not where a thread of its own does the handshake:
    /// valgrind lets no other thread run while one waits for io_uring.
    pub(super) fn counts_entries(self) -> bool {
        !matches!(self, Self::Habit(..) | Self::Crowd(Backend::Epoll) | Self::TlsLogin)
    }

    /// Number of clients, which take turns. Two clients of a habit share a server, so each finds what the other has
    /// left there.
    pub(super) fn clients(self) -> u32 {
        if matches!(self, Self::Habit(..)) { 2 } else { self.at_once() }
    }

    /// Number of servers: one for all clients, unless clients keep theirs.
    pub(super) fn servers(self) -> u32 {
        match self {
            Self::Habit(habit, _) if habit.keeps.is_some() => self.clients(),
            Self::Crowd(_) => CROWD_SERVERS,
            _ => 1,
        }
    }

    /// The value of `track_statements`: none, because the number of samples depends on the time a transaction takes, or
    /// every one.
    pub(super) fn looks_at(self) -> u32 {
        if matches!(self, Self::LookedAt) { 1_000_000 } else { 0 }
    }

    /// Parameters of the startup packet besides user and database.
    pub(super) fn startup(self) -> &'static [(String, String)] {
        if let Self::Habit(habit, _) = self { &habit.startup } else { &[] }
    }
}

/// The clients of a row.
pub(super) struct Play<'a> {
    kind: Kind,
    held: Held<'a>,
    clients: Vec<(Player, Option<Script>)>,
    /// Number of transactions so far.
    played: u64,
}

impl<'a> Play<'a> {
    /// Does what each client does once.
    pub(super) fn begin(kind: Kind, players: Vec<Player>, held: Held<'a>) -> io::Result<Self> {
        let mut play = Self { kind, held, clients: Vec::new(), played: 0 };
        for (mut player, number) in players.into_iter().zip(0..) {
            let script = match kind {
                Kind::Habit(habit, _) => Some(Script::of(habit, number, Draws::Same)),
                _ => None,
            };
            if matches!(kind, Kind::Prepared) {
                let parse = message(b'P', format!("s\0{}\0\0\0", accounts("$1")).as_bytes());
                player.ask(&[parse, message(b'S', b"")].concat())?;
            }
            play.clients.push((player, script));
        }
        if matches!(kind, Kind::Habit(_, Reconnects::Never)) {
            for (player, script) in &mut play.clients {
                script.iter_mut().try_for_each(|script| script.connect(player))?;
            }
        }
        Ok(play)
    }

    /// Runs this many more transactions, by one client after the other.
    pub(super) fn go_on(&mut self, times: u64) -> io::Result<()> {
        (0..times).try_for_each(|_| self.once())
    }

    fn once(&mut self) -> io::Result<()> {
        if let Kind::Crowd(_) = self.kind {
            return self.held.ask_all(self.clients.iter_mut().map(|(player, _)| player), &query(&accounts("4711")));
        }
        let at = self.played as usize % self.clients.len();
        self.played += 1;
        let (player, script) = &mut self.clients[at];
        match self.kind {
            Kind::Simple | Kind::LookedAt | Kind::Routed => player.ask(&query(&accounts("4711"))),
            Kind::Extended => {
                let parse = message(b'P', format!("\0{}\0\0\0", accounts("$1")).as_bytes());
                player.ask(&[parse, run("")].concat())
            }
            Kind::Prepared => player.ask(&run("s")),
            Kind::Login | Kind::TlsLogin => player.log_in(),
            Kind::Crowd(_) => Ok(()),
            Kind::NewText => player.ask(&query(&long(self.played))),
            Kind::CachedText => player.ask(&query(&long(0))),
            Kind::Habit(habit, reconnects) => {
                if reconnects == Reconnects::Always {
                    player.log_in()?;
                    *script = Some(Script::of(habit, at as u32, Draws::Same));
                    script.iter_mut().try_for_each(|script| script.connect(player))?;
                }
                script.iter_mut().try_for_each(|script| script.each(player))
            }
        }
    }
}

fn accounts(id: &str) -> String {
    format!("SELECT abalance FROM pgbench_accounts WHERE aid = {id}")
}

/// A query of a kilobyte. Different numbers differ in a column name, because numbers and strings in the text would be
/// normalized away.
fn long(number: u64) -> String {
    let mut text = format!("SELECT abalance AS name_{number:06}");
    for column in 0.. {
        let more = format!(", bid + aid AS sum_{column:02}");
        if text.len() + more.len() + 40 > 1000 {
            break;
        }
        text.push_str(&more);
    }
    format!("{text} FROM pgbench_accounts WHERE aid = 4711")
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

/// `Bind`, `Describe`, `Execute`, `Sync` with one parameter.
fn run(name: &str) -> Vec<u8> {
    let mut bind = format!("\0{name}\0").into_bytes();
    bind.extend(*b"\0\0\0\x01\0\0\0\x044711\0\0");
    [message(b'B', &bind), message(b'D', b"P\0"), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()
}

/// Number of transactions that are not counted. Everything that changes after some transactions (16 at most) has
/// changed by then.
const UNSEEN: u64 = 40;
/// The clients of a crowd, and its servers.
const CROWD: u32 = 64;
const CROWD_SERVERS: u32 = 20;

/// The first part of the names of rows of habits.
pub(super) const HABITS: &str = "habits/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_have_a_kilobyte_and_differ() {
        assert!((950..=1000).contains(&long(1).len()), "{}", long(1).len());
        assert_ne!(long(1), long(2));
    }
}
