//! The environment of an attack: a database of its own, a pooler in front of it, and connections.
//!
//! Always true: nothing is measured before the pooler is first used, so what an attack prepares directly in PostgreSQL does
//! not count; from then on the bystander runs its queries.
//! Not here: how the results are judged (`trial`).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tests::message;
use tests::peer::Peer;
use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;

use super::bystander::{Bystander, RunQueue};
use super::told::Told;

/// The environment of one attack.
pub(crate) struct Scene<'a> {
    pub(crate) place: &'a Arc<Place>,
    pub(crate) postgres: &'a Postgres,
    pub(crate) database: String,
    ini: Ini,
    line: String,
    begun: Option<Begun>,
}

/// What runs from the start of the pooler on.
pub(crate) struct Begun {
    pub(crate) pooler: Pooler,
    pub(crate) memory_kb: u64,
    pub(crate) bystander: Bystander,
    /// The same without a pooler: shows how busy the machine is.
    pub(crate) witness: Bystander,
    pub(crate) at: Instant,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(place: &'a Arc<Place>, postgres: &'a Postgres, database: String, ini: Ini) -> Self {
        let line = format!("{database} = host=127.0.0.1 port={} dbname={database}", postgres.port());
        Self { place, postgres, database, ini, line, begun: None }
    }

    /// Adds a line to the pooler's configuration, before it has started.
    pub(crate) fn set(&mut self, line: &str) {
        self.ini = std::mem::take(&mut self.ini).set(line);
    }

    /// Adds to the line of the stranger's database.
    pub(crate) fn set_own(&mut self, words: &str) {
        self.line = format!("{} {words}", self.line);
    }

    /// The stranger's database is at this port only.
    pub(crate) fn lead_to(&mut self, port: u16, words: &str) {
        self.line = format!("{} = host=127.0.0.1 port={port} {words}", self.database);
    }

    /// Adds a line to the file of users.
    pub(crate) fn secret(&mut self, user: &str, secret: &str) {
        self.ini = std::mem::take(&mut self.ini).secret(user, secret);
    }

    /// Whether the pooler was started, so that its configuration stands.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// The pooler's address. Starts the pooler when it is called first.
    pub(crate) fn address(&mut self) -> SocketAddr {
        self.begin().pooler.address()
    }

    /// What runs, if the pooler was started.
    pub(crate) fn take(self) -> Option<Begun> {
        self.begun
    }

    /// A connection that has sent nothing.
    pub(crate) fn knock(&mut self) -> Option<Peer> {
        Peer::tcp(self.address()).ok()
    }

    /// The same from another address of the machine than the bystander's.
    pub(crate) fn knock_from_elsewhere(&mut self) -> Option<Peer> {
        Peer::tcp_from(Ipv4Addr::new(127, 0, 0, 2), self.address()).ok()
    }

    /// So many logins, one after the other, each of which disconnects at once, until time is up. Returns what the last was
    /// told.
    pub(crate) fn logins(
        &mut self,
        count: usize,
        parameters: impl Fn(usize, &str) -> Vec<(&'static str, String)>,
    ) -> Told {
        let (end, mut told) = (Instant::now() + POUR_MAX, Told::Nothing);
        for number in 0..count {
            let parameters = parameters(number, &self.database);
            let parameters: Vec<_> = parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let Some(mut peer) = self.knock() else { return Told::Closed };
            if peer.try_send(&message::startup(0, &parameters)).is_err() {
                return Told::Closed;
            }
            told = Told::read(&mut peer, Instant::now() + PATIENCE);
            if Instant::now() > end {
                break;
            }
        }
        told
    }

    /// Logs the attacker in. Returns what it was told if that fails.
    pub(crate) fn stranger(&mut self) -> Result<Peer, Told> {
        let parameters = [("user", STRANGER), ("database", self.database.as_str())];
        let packet = message::startup(0, &parameters);
        let mut peer = self.knock().ok_or(Told::Closed)?;
        peer.try_send(&packet).map_err(|_| Told::Closed)?;
        match Told::read(&mut peer, Instant::now() + PATIENCE) {
            Told::Answered => Ok(peer),
            told => Err(told),
        }
    }

    /// The attacker runs a query.
    pub(crate) fn ask(&mut self, sql: &str) -> Told {
        self.send(&message::query(sql))
    }

    /// The attacker logs in and sends these bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Told {
        let mut peer = match self.stranger() {
            Ok(peer) => peer,
            Err(told) => return told,
        };
        send(&mut peer, bytes)
    }

    fn begin(&mut self) -> &mut Begun {
        if self.begun.is_none() {
            let ini = std::mem::take(&mut self.ini).database(&self.line);
            let pooler = Pooler::start(self.place, &ini);
            let bystander =
                Bystander::begin(pooler.address(), BYSTANDER, BYSTANDERS, RunQueue::of(pooler.pid(), "worker"));
            let witness = Bystander::begin(self.postgres.address(), "v", BYSTANDERS, RunQueue::none());
            let memory_kb = pooler.memory_kb("VmRSS");
            self.begun = Some(Begun { pooler, memory_kb, bystander, witness, at: Instant::now() });
        }
        self.begun.as_mut().expect("it has just begun")
    }
}

/// Sends bytes as far as they are taken, and reads the answer.
pub(crate) fn send(peer: &mut Peer, bytes: &[u8]) -> Told {
    let end = Instant::now() + PATIENCE;
    match peer.pour(bytes, end) {
        Ok(count) if count < bytes.len() => Told::Held,
        // The pooler may have sent an error before it closed.
        Ok(_) | Err(_) => Told::read(peer, end),
    }
}

/// Sends what `next` returns, piece after piece, without reading, until enough bytes are sent, nobody takes them any more,
/// or time is up; then reads the answer.
pub(crate) fn pour(peer: &mut Peer, bytes_max: usize, mut next: impl FnMut(usize) -> Vec<u8>) -> Told {
    let end = Instant::now() + POUR_MAX;
    let (mut sent, mut number, mut is_held) = (0, 0, false);
    while sent < bytes_max && Instant::now() < end && !is_held {
        let mut bytes = Vec::with_capacity(PIECE);
        while bytes.len() < PIECE {
            bytes.extend(next(number));
            number += 1;
        }
        match peer.pour(&bytes, end) {
            Ok(count) => is_held = count < bytes.len(),
            Err(_) => break,
        }
        sent += bytes.len();
    }
    match Told::read(peer, Instant::now() + LAST_WORDS) {
        Told::Nothing if is_held => Told::Held,
        told => told,
    }
}

/// Rules that let everybody in who matches no rule before.
pub(crate) const EVERYBODY: &str = "host all all all trust\nlocal all all trust\n";
/// The owner of the database of each attack; an ordinary role.
pub(crate) const STRANGER: &str = "stranger";
/// The user that must notice nothing.
pub(crate) const BYSTANDER: &str = "v";
/// The database of the bystander.
pub(crate) const BYSTANDERS: &str = "hostile_bystanders";
/// How long an attacker waits for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a stream is sent.
pub(crate) const POUR_MAX: Duration = Duration::from_secs(2);
const LAST_WORDS: Duration = Duration::from_millis(300);
const PIECE: usize = 64 << 10;
