//! The simulated PostgreSQL servers: hosts with moods, and logins.
//!
//! Always true: a session ends with its connection; a cancel request hits the statement that its session runs at the
//! moment when the request arrives, or nothing.
//! Not here: what a session does (`session`).

pub(crate) mod manner;
pub(crate) mod session;
pub(crate) mod sql;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use auth::Secret;
use base::Time;
use wire::startup::Startup;

use crate::checks::board::Board;
use crate::checks::witness::{Charge, Witness};
use crate::members::history::History;
use crate::plan::Plan;
use crate::postgres::manner::{HostTls, Manner, Mood};
use crate::postgres::session::{Life, Session, Wish};
use crate::postgres::sql::Nonce;
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::sim::fake_tls::{ANSWER, HELLO};
use crate::sim::net::{Holder, Net};

/// A simulated PostgreSQL host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) mood: Mood,
    pub(crate) manner: Manner,
    pub(crate) tls: HostTls,
    /// Nothing reaches its sessions, and nothing that they send reaches the pooler.
    is_cut: bool,
}

/// All simulated hosts and their sessions.
#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) hosts: Vec<Host>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) secrets: BTreeMap<String, Arc<Secret>>,
    dice: Dice,
    /// Cancel requests that have hit a statement, for the checker.
    pub(crate) hits: Vec<Hit>,
    /// Sessions whose startup packet has just arrived, for the checker.
    pub(crate) newcomers: Vec<u32>,
    board: Rc<RefCell<Board>>,
    /// The longest time until a session is woken for a notification, microseconds.
    wakes_in: u64,
    wake_dice: Dice,
    /// What the hosts have in common, if they are members of a cluster.
    history: Option<Rc<RefCell<History>>>,
}

impl Postgres {
    /// The hosts of a plan.
    pub(crate) fn of(plan: &Plan, board: Rc<RefCell<Board>>, history: Option<Rc<RefCell<History>>>) -> Self {
        board.borrow_mut().is_calm = plan.is_calm;
        let host = |(number, &tls): (usize, &HostTls)| {
            let secrets = Arc::new(plan.auth.secrets(number, &BTreeMap::new()));
            Host { mood: Mood::Well, manner: Manner { secrets, ..plan.manner.clone() }, tls, is_cut: false }
        };
        let hosts = plan.tls.hosts.iter().enumerate().map(host).collect();
        board.borrow_mut().word_of_loss = plan.shape.word_of_loss();
        let mut wake_dice = Dice::new(plan.seed, WAKES_STREAM);
        Self {
            hosts,
            sessions: Vec::new(),
            secrets: plan.secrets.clone(),
            dice: Dice::new(plan.seed, 3),
            hits: Vec::new(),
            newcomers: Vec::new(),
            board,
            wakes_in: wake_dice.pick(&[0, 100, 5_000]),
            wake_dice,
            history,
        }
    }

    /// A connection attempt has reached a host.
    pub(crate) fn knocked(&mut self, net: &mut Net, far: u32, host: usize) {
        match self.hosts[host].mood {
            Mood::Refusing => net.answer(far, false),
            Mood::Hanging => {}
            _ => {
                let number = self.sessions.len() as u32;
                let mut session = Session::new(far, host, number, self.dice.any() as u32, self.board.clone());
                session.born = net.agenda.now();
                session.history.clone_from(&self.history);
                self.sessions.push(session);
                net.end_mut(far).holder = Holder::Session(number);
                net.answer(far, true);
            }
        }
    }

    /// Handles an event on a session's connection.
    pub(crate) fn heard(&mut self, net: &mut Net, number: u32, witness: &mut Witness) {
        let end = self.sessions[number as usize].end;
        if net.end(end).is_closed || self.is_cut(number) {
            return;
        }
        let mut bytes = Vec::new();
        // A session that runs a statement reads a little ahead; during a handshake it reads nothing behind that.
        let room = if self.sessions[number as usize].is_handshaking {
            HELLO.len() - self.sessions[number as usize].unread()
        } else if self.sessions[number as usize].is_working() {
            READ_AHEAD_BYTES.saturating_sub(self.sessions[number as usize].unread())
        } else {
            usize::MAX
        };
        net.read(end, room, &mut bytes);
        let is_over = net.end(end).is_reset || (net.end(end).is_eof && net.end(end).arrived_bytes == 0);
        let session = &mut self.sessions[number as usize];
        let host = &self.hosts[session.host];
        let wish = match (&session.life, host.mood) {
            (Life::Dead, _) => Wish::Close,
            (_, Mood::Dying) => Wish::Close,
            (Life::Signals(_), _) => Wish::Nothing,
            (Life::Startup, _) if session.is_handshaking => self.shake(net, number, &bytes),
            (Life::Startup, _) => self.greet(net, number, &bytes, witness),
            _ if bytes.is_empty() => Wish::Nothing,
            _ => session.hear(&bytes, &host.manner, &mut self.dice, witness),
        };
        self.settle(net, number, wish);
        let session = &mut self.sessions[number as usize];
        // As in PostgreSQL, a session notices that its client has left only when no statement runs; a late signal is
        // still sent.
        let is_busy = session.is_working() || matches!(session.life, Life::Signals(_));
        if is_over && !net.end(end).is_closed && !is_busy {
            session.life = Life::Dead;
            net.close(end);
        }
    }

    /// Handles bytes of a TLS handshake.
    fn shake(&mut self, net: &mut Net, number: u32, bytes: &[u8]) -> Wish {
        let session = &mut self.sessions[number as usize];
        match session.shake(bytes) {
            Some(false) => Wish::Nothing,
            Some(true) => {
                net.say(session.end, ANSWER.to_vec());
                net.end_mut(session.end).is_encrypted = true;
                Wish::Nothing
            }
            None => Wish::Close,
        }
    }

    fn greet(&mut self, net: &mut Net, number: u32, bytes: &[u8], witness: &mut Witness) -> Wish {
        let session = &mut self.sessions[number as usize];
        let host = &self.hosts[session.host];
        let is_encrypted = net.end(session.end).is_encrypted;
        let is_stripped = matches!(host.mood, Mood::Mad | Mood::Odd | Mood::Forgetful);
        let packet = session.startup_packet(bytes);
        match packet.as_deref().and_then(|packet| Startup::parse(packet).ok()) {
            None => Wish::Nothing,
            Some(Startup::Session { .. } | Startup::Cancel { .. })
                if host.tls == HostTls::Demanded && !is_encrypted =>
            {
                let text = format!("server {number} is told in clear what must be said by TLS");
                witness.accuse(Charge::ForeignBytes, text);
                Wish::Close
            }
            Some(Startup::Session { parameters, .. }) => match host.mood {
                Mood::Starting => session.refuse("57P03", "the database system is starting up"),
                Mood::Full => session.refuse("53300", "sorry, too many clients already"),
                Mood::Mad => session.rave(),
                Mood::Odd => session.ask_for_gss(),
                _ => {
                    let user = parameters.iter().find(|(name, _)| *name == "user").map(|(_, user)| *user);
                    let is_known = host.mood != Mood::Forgetful;
                    let user = user.unwrap_or_default();
                    let secret = host.manner.secrets.get(user).or_else(|| self.secrets.get(user));
                    let secret = secret.filter(|_| is_known).cloned();
                    let wish = session.begin(&parameters, secret, is_encrypted, &host.manner, &mut self.dice);
                    self.newcomers.push(number);
                    wish
                }
            },
            // Something in between may have removed the answer of a host that offers TLS.
            Some(Startup::Ssl) if host.tls == HostTls::None || is_stripped => session.answer_tls(b'N'),
            Some(Startup::Ssl) => session.answer_tls(b'S'),
            Some(Startup::Cancel { key }) => {
                let late = host.manner.signals_late;
                if late > 0 && self.dice.chance(late) {
                    session.life = Life::Signals(key.to_vec());
                    if self.dice.chance(200) {
                        // Something in between resets the connection; the host still carries out the request.
                        net.reset(session.end);
                    }
                    let longest = SIGNALLED >> self.dice.among(0..=9);
                    return Wish::Work(self.dice.micros(0..=longest));
                }
                self.cancel(net, number, &key, witness);
                Wish::Close
            }
            Some(_) => Wish::Close,
        }
    }

    /// A cancel request hits the statement that its session runs now.
    fn cancel(&mut self, net: &mut Net, from: u32, key: &[u8], witness: &mut Witness) {
        let host = self.sessions[from as usize].host;
        let (Some(number), Some(secret)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) else { return };
        let (number, secret) = (u32::from_be_bytes(*number), u32::from_be_bytes(*secret));
        let Some(session) = self.sessions.get_mut(number as usize) else { return };
        if session.secret != secret || session.host != host || matches!(session.life, Life::Dead) {
            return;
        }
        let hit = session.cancel();
        witness.note(|| format!("server {number} is cancelled: {hit:?}"));
        if let Some(hit) = hit {
            let requested = net.end(self.sessions[from as usize].end ^ 1).given;
            self.hits.push(Hit { what: hit, requested });
            let session = &mut self.sessions[number as usize];
            let wish = session.resume(&self.hosts[host].manner, &mut self.dice, witness);
            self.settle(net, number, wish);
            self.heard(net, number, witness);
        }
    }

    /// A session's statement is done, or a late signal is due.
    pub(crate) fn worked(&mut self, net: &mut Net, number: u32, alarm: u32, witness: &mut Witness) {
        let session = &mut self.sessions[number as usize];
        if let Life::Signals(key) = &mut session.life {
            // As in PostgreSQL, the signal is sent even if the client of the cancel request has gone.
            let key = std::mem::take(key);
            witness.count("late signals");
            self.cancel(net, number, &key, witness);
            self.settle(net, number, Wish::Close);
            return;
        }
        if net.end(session.end).is_closed {
            return;
        }
        let manner = &self.hosts[session.host].manner;
        let wish = session.worked(alarm, manner, &mut self.dice, witness);
        self.settle(net, number, wish);
        if !self.sessions[number as usize].is_working() {
            self.heard(net, number, witness);
        }
    }

    /// Sends a session's output, and does what the session wants next.
    fn settle(&mut self, net: &mut Net, number: u32, wish: Wish) {
        let is_cut = self.is_cut(number);
        let session = &mut self.sessions[number as usize];
        if !is_cut && (session.is_flushed || session.out.len() > OUT_BYTES || wish == Wish::Close) {
            session.is_flushed = false;
            let out = std::mem::take(&mut session.out);
            net.say(session.end, out);
        }
        match wish {
            Wish::Nothing => {}
            Wish::Work(time) => net.agenda.after(time, Event::Session { session: number, number: session.alarm }),
            // Nobody hears of its end yet.
            Wish::Close if is_cut => session.life = Life::Dead,
            Wish::Close => {
                session.life = Life::Dead;
                net.close(session.end);
            }
        }
        self.wake_listeners(net);
    }

    /// Schedules the waking of all sessions that listen in a place with new notifications.
    fn wake_listeners(&mut self, net: &mut Net) {
        let news = std::mem::take(&mut self.board.borrow_mut().news);
        for (host, database) in news {
            let is_there = |session: &&Session| {
                session.host == host && session.database == database && session.channels.is_listening()
            };
            for session in self.sessions.iter_mut().filter(|session| is_there(&&**session)) {
                session.signal();
                let pause = self.wake_dice.micros(0..=self.wakes_in);
                net.agenda.after(pause, Event::Woken { session: session.number });
            }
        }
    }

    /// A listening session is woken for new notifications.
    pub(crate) fn woken(&mut self, net: &mut Net, number: u32) {
        let session = &mut self.sessions[number as usize];
        if !net.end(session.end).is_closed {
            session.wake();
            self.settle(net, number, Wish::Nothing);
        }
    }

    /// Returns the sessions that are logged in and alive.
    pub(crate) fn living(&self, net: &Net) -> Vec<u32> {
        let living = self.sessions.iter().filter(|session| {
            matches!(session.life, Life::Ready) && !net.end(session.end).is_closed && !net.end(session.end).is_reset
        });
        living.map(|session| session.number).collect()
    }

    /// Ends a session as `pg_terminate_backend` does.
    pub(crate) fn terminate(&mut self, net: &mut Net, number: u32) {
        let wish = self.sessions[number as usize].terminate();
        self.settle(net, number, wish);
    }

    /// Ends a session in the middle of its output, without an error.
    pub(crate) fn crash(&mut self, net: &mut Net, number: u32) {
        let is_cut = self.is_cut(number);
        let session = &mut self.sessions[number as usize];
        if is_cut {
            session.life = Life::Dead;
            return;
        }
        if session.channels.is_listening() {
            // This session may just have begun to listen for all, and the pooler will use another one for that.
            self.board.borrow_mut().gaps.insert(session.database.clone());
        }
        let half = session.out.len() / 2;
        session.out.truncate(half);
        let out = std::mem::take(&mut session.out);
        net.say(session.end, out);
        session.life = Life::Dead;
        if self.dice.chance(500) {
            net.reset(session.end);
        } else {
            net.close(session.end);
        }
    }

    /// PostgreSQL on a host stops: in order, or at once.
    pub(crate) fn stop_host(&mut self, net: &mut Net, host: usize, is_clean: bool, witness: &mut Witness) {
        for number in 0..self.sessions.len() as u32 {
            let session = &mut self.sessions[number as usize];
            if session.host != host || matches!(session.life, Life::Dead) || net.end(session.end).is_closed {
                continue;
            }
            if !is_clean && session.is_working() && self.dice.chance(500) {
                // It is carried out, and nobody hears of it.
                let alarm = session.alarm;
                session.worked(alarm, &self.hosts[host].manner, &mut self.dice, witness);
                session.out.clear();
            }
            session.alarm += 1;
            match session.life {
                Life::Ready if is_clean => self.terminate(net, number),
                Life::Ready => self.crash(net, number),
                _ => self.settle(net, number, Wish::Close),
            }
        }
    }

    /// Cuts the way between the pooler and a host, or opens it again: then all arrives that was on its way.
    pub(crate) fn set_cut(&mut self, net: &mut Net, host: usize, is_cut: bool, witness: &mut Witness) {
        if std::mem::replace(&mut self.hosts[host].is_cut, is_cut) == is_cut || is_cut {
            return;
        }
        for number in 0..self.sessions.len() as u32 {
            let session = &self.sessions[number as usize];
            if session.host != host || net.end(session.end).is_closed {
                continue;
            }
            // What was sent to it before it told its role arrives now.
            self.sessions[number as usize].forget_told();
            let session = &self.sessions[number as usize];
            if matches!(session.life, Life::Dead) {
                net.reset(session.end);
            } else {
                self.settle(net, number, Wish::Nothing);
                self.heard(net, number, witness);
            }
        }
    }

    fn is_cut(&self, number: u32) -> bool {
        self.hosts[self.sessions[number as usize].host].is_cut
    }

    /// Checks, when a session has begun, that the limits of servers hold.
    pub(crate) fn check_limits(&mut self, net: &Net, limits: impl Fn(&str, &str) -> Limits, witness: &mut Witness) {
        for number in std::mem::take(&mut self.newcomers) {
            let newcomer = &self.sessions[number as usize];
            let (database, user) = (&newcomer.database, &newcomer.user);
            let limits = limits(database, user);
            // A connection that the pooler has closed does not count, even if PostgreSQL has not noticed.
            let open = |session: &&Session| {
                session.is_server()
                    && !matches!(session.life, Life::Dead)
                    && !net.end(session.end ^ 1).is_closed
                    && !net.end(session.end).is_closed
            };
            let there: Vec<&Session> = self.sessions.iter().filter(open).collect();
            let count = |is: &dyn Fn(&Session) -> bool| there.iter().filter(|session| is(session)).count() as u32;
            let is_of_pool = |session: &Session| session.database == *database && session.user == *user;
            let (pool, of_pool) = match limits.private {
                Some(private) if newcomer.alone.is_some() => {
                    (private, count(&|session| is_of_pool(session) && session.alone.is_some()))
                }
                Some(_) => (limits.pool, count(&|session| is_of_pool(session) && session.alone.is_none())),
                None => (limits.pool, count(&is_of_pool)),
            };
            let counts = [
                (ITS_POOL, of_pool, pool),
                ("its database", count(&|session| session.database == *database), limits.database),
                ("its user", count(&|session| session.user == *user), limits.user),
            ];
            for (what, count, limit) in counts {
                let beside = if what == ITS_POOL { limits.beside } else { 0 };
                if limit > 0 && count > limit + beside {
                    let others: Vec<u32> = there.iter().map(|session| session.number).collect();
                    let text = format!(
                        "server {number} of {database}/{user} is number {count} of {what}, limit {limit}; open are {others:?}"
                    );
                    witness.accuse(Charge::LimitExceeded, text);
                }
            }
        }
    }
}

/// A cancel request has hit a statement.
#[derive(Debug)]
pub(crate) struct Hit {
    /// An application's statement, or the text of the pooler's own.
    pub(crate) what: Result<Nonce, String>,
    /// When the pooler sent the cancel request.
    pub(crate) requested: Time,
}

/// How many servers are allowed; 0 is any number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) pool: u32,
    /// Servers of its pool that do not count there (those that listen for all).
    pub(crate) beside: u32,
    pub(crate) database: u32,
    pub(crate) user: u32,
    /// The limit of dedicated servers of its pool, if these do not count among the others.
    pub(crate) private: Option<u32>,
}

/// The text for the limit of a pool.
const ITS_POOL: &str = "its pool";
/// How many bytes a busy session reads ahead; the rest waits in the network.
const READ_AHEAD_BYTES: usize = 32_768;
/// Output is sent when there is so much of it, as in PostgreSQL (`PQ_SEND_BUFFER_SIZE`).
const OUT_BYTES: usize = 8192;
/// The stream of chance for the waking of sessions.
const WAKES_STREAM: u64 = 8;
/// The longest delay of a late cancel signal, microseconds.
const SIGNALLED: u64 = 4_000_000;
