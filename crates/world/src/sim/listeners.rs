//! The control thread's sessions that listen for all: one for each database, clients of our own workers as any.
//!
//! Always true: every channel that a worker asks for is answered, whatever comes; a session that was there and has ended is told of,
//! and comes again after a pause, as long as somebody listens.
//! Not here: who listens, and what a notification means to whom (`worker::notify::listen`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::Time;
use protocol::server::login::{LoginFault, ServerLogin, Step};
use protocol::state::MARKS;
use wire::notice::Notice;
use wire::{backend, write};
use worker::letters::{ToControl, ToWorker};

use crate::checks::witness::Charge;
use crate::plan::Plan;
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::sim::io::SimSocket;
use crate::sim::net::{Holder, Net};
use crate::sim::secrets::{AFTER_THE_LOGIN, LOGIN_MAX, own_identity};
use crate::world::World;

/// All sessions that have ever listened for all.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// Those of a process that has gone are without orders for ever.
    all: Vec<ForAll>,
    dice: Dice,
    /// What was asked of servers and answered, by database.
    pub(crate) put: BTreeMap<String, u64>,
    /// What is to be posted, to the worker on which a database lives.
    out: VecDeque<(Arc<str>, ToWorker<SimSocket>)>,
}

/// One of them.
#[derive(Debug)]
struct ForAll {
    database: Arc<str>,
    user: Arc<str>,
    /// How long a login or a command may take.
    limit: Duration,
    channels: BTreeMap<Box<str>, Channel>,
    orders: VecDeque<Order>,
    stage: Stage,
    input: Vec<u8>,
    /// The alarm that counts; earlier ones mean nothing.
    alarm: u32,
    /// When its last connection ended.
    ended: Time,
    /// Its process has gone.
    is_forgotten: bool,
}

#[derive(Clone, Copy, Debug)]
struct Channel {
    number: u64,
    is_relied_on: bool,
}

#[derive(Clone, Debug)]
enum Order {
    Listen(Box<str>, u64, bool),
    Unlisten(Box<str>),
    UnlistenAll,
}

#[derive(Debug)]
enum Stage {
    /// It has nothing to listen to, or is about to come.
    Away,
    Login {
        end: u32,
        login: Box<ServerLogin>,
    },
    /// It has said the first of these, and is going to say the others.
    Says {
        end: u32,
        words: VecDeque<Word>,
        error: Option<String>,
    },
    Attends {
        end: u32,
    },
    /// It has ended, and comes again.
    Pauses,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    Marks,
    Listen(Box<str>),
    Unlisten(Box<str>),
}

impl Listeners {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { all: Vec::new(), dice: Dice::new(plan.seed, STREAM), put: BTreeMap::new(), out: VecDeque::new() }
    }

    /// Whether nobody has anything to do.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.all.iter().all(|one| matches!(one.stage, Stage::Away) && one.orders.is_empty())
    }

    /// Whether these are the words of a session for all that ended right before or after then, or has been ended and does not know it yet.
    pub(crate) fn has_left(&self, net: &Net, words: &str, then: Time) -> bool {
        let is_its = words.starts_with("LISTEN \"") || words.starts_with("UNLISTEN \"");
        let is_near = |ended: Time| ended.0.abs_diff(then.0) < NEAR.as_micros() as u64;
        let is_cut = |end: u32| net.end(end ^ 1).is_closed;
        is_its && self.all.iter().any(|one| is_near(one.ended) || one.end().is_some_and(is_cut))
    }

    /// Whether somebody listens for all as this user, or has done so since then: that server is beside those of its pool.
    pub(crate) fn is_beside(&self, database: &str, user: &str, since: Time) -> bool {
        let is_there = |one: &ForAll| one.end().is_some() || one.ended >= since;
        self.all.iter().any(|one| *one.database == *database && *one.user == *user && is_there(one))
    }
}

impl ForAll {
    fn note(&mut self, order: Order) {
        match order {
            Order::Listen(name, number, is_relied_on) => {
                self.channels.insert(name, Channel { number, is_relied_on });
            }
            Order::Unlisten(name) => drop(self.channels.remove(&name)),
            Order::UnlistenAll => self.channels.clear(),
        }
    }

    /// Those that nobody has listened to yet are told of to their worker, and forgotten.
    fn refuse_new(&mut self, error: &str, out: &mut VecDeque<(Arc<str>, ToWorker<SimSocket>)>) {
        let database = &self.database;
        let refused = self.channels.iter().filter(|(_, channel)| !channel.is_relied_on);
        let channels: Vec<_> = refused.map(|(name, channel)| (name.clone(), channel.number)).collect();
        self.channels.retain(|_, channel| channel.is_relied_on);
        if !channels.is_empty() {
            let letter = ToWorker::Unheard { database: database.clone(), channels, error: error.to_owned() };
            out.push_back((database.clone(), letter));
        }
    }

    fn end(&self) -> Option<u32> {
        match self.stage {
            Stage::Login { end, .. } | Stage::Says { end, .. } | Stage::Attends { end } => Some(end),
            Stage::Away | Stage::Pauses => None,
        }
    }
}

impl Word {
    fn sql(&self) -> String {
        match self {
            Self::Marks => format!("LISTEN \"{MARKS}\""),
            Self::Listen(name) => format!("LISTEN \"{name}\""),
            Self::Unlisten(name) => format!("UNLISTEN \"{name}\""),
        }
    }
}

impl World {
    /// A worker wants somebody to listen for all, or no longer.
    pub(crate) fn order_listener(&mut self, letter: ToControl) {
        let (database, user, order) = match letter {
            ToControl::Listen { database, user, channel, number, is_relied_on } => {
                (database, Some(user), Order::Listen(channel, number, is_relied_on))
            }
            ToControl::Unlisten { database, channel } => (database, None, Order::Unlisten(channel)),
            ToControl::UnlistenAll { database } => (database, None, Order::UnlistenAll),
            other => unreachable!("{other:?} is not about channels"),
        };
        let is_its = |one: &ForAll| one.database == database && !one.is_forgotten;
        let place = match (self.listeners.all.iter().position(is_its), user) {
            (Some(place), _) => place,
            (None, None) => return,
            (None, Some(user)) => {
                let limit = self.force.settings.client_login_timeout.unwrap_or(LOGIN_MAX) + AFTER_THE_LOGIN;
                let (channels, orders) = (BTreeMap::new(), VecDeque::new());
                let (stage, input, alarm, is_forgotten) = (Stage::Away, Vec::new(), 0, false);
                let ended = Time(0);
                let one = ForAll { database, user, limit, channels, orders, stage, input, alarm, ended, is_forgotten };
                self.listeners.all.push(one);
                self.listeners.all.len() - 1
            }
        };
        let one = &mut self.listeners.all[place];
        let is_needed = match one.stage {
            Stage::Away => {
                let was_idle = one.channels.is_empty();
                one.note(order);
                was_idle
            }
            Stage::Pauses => {
                one.note(order);
                false
            }
            Stage::Login { .. } | Stage::Says { .. } | Stage::Attends { .. } => {
                one.orders.push_back(order);
                matches!(one.stage, Stage::Attends { .. }) && one.orders.len() == 1
            }
        };
        if is_needed {
            let net = self.net.clone();
            self.listener_thinks(&mut net.borrow_mut(), place as u32);
        }
    }

    /// The control thread takes its time for the next step.
    fn listener_thinks(&mut self, net: &mut Net, number: u32) {
        let (low, high) = if self.is_healed() { (0, HEALED_PAUSE) } else { self.plan.auth.pause };
        let pause = self.listeners.dice.micros(low..=high * self.thread.slowness);
        self.wake_listener_in(net, number, pause);
    }

    fn wake_listener_in(&mut self, net: &mut Net, number: u32, pause: Duration) {
        let one = &mut self.listeners.all[number as usize];
        one.alarm += 1;
        net.agenda.after(pause, Event::Listens { number, alarm: one.alarm });
    }

    /// It is time for the next step.
    pub(crate) fn mind_listener(&mut self, number: u32, alarm: u32) {
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        let one = &mut self.listeners.all[number as usize];
        if one.alarm != alarm || one.is_forgotten {
            return;
        }
        match std::mem::replace(&mut one.stage, Stage::Away) {
            Stage::Away | Stage::Pauses if one.channels.is_empty() => {}
            Stage::Away | Stage::Pauses => self.listener_comes(net, number),
            Stage::Login { end, .. } => {
                net.drop_end(end);
                self.listener_ends(net, number, false, Some("no answer in time"));
            }
            Stage::Says { end, words, .. } => {
                net.drop_end(end);
                let takes_new = !matches!(words.front(), Some(Word::Unlisten(_)));
                self.listener_ends(net, number, true, takes_new.then_some("no answer in time"));
            }
            Stage::Attends { end } => match one.orders.pop_front() {
                Some(order) => {
                    one.note(order.clone());
                    let word = match order {
                        Order::Listen(name, ..) => Word::Listen(name),
                        Order::Unlisten(name) => Word::Unlisten(name),
                        Order::UnlistenAll => {
                            net.drop_end(end);
                            return self.listener_ends(net, number, true, None);
                        }
                    };
                    self.say_for_all(net, number, end, [word].into());
                }
                // Nobody has wanted anything for some time.
                None => {
                    one.ended = self.witness.now;
                    self.witness.note(|| format!("the session for all of {} goes", one.database));
                    self.witness.count("sessions for all that nobody needed");
                    net.drop_end(end);
                }
            },
        }
    }

    fn listener_comes(&mut self, net: &mut Net, number: u32) {
        if net.descriptors >= net.descriptors_max {
            return self.listener_ends(net, number, false, Some("Too many open files"));
        }
        net.descriptors += 1;
        let near = net.pair(Holder::ForAll(number));
        self.witness.count("sessions for all");
        let one = &mut self.listeners.all[number as usize];
        let letter = ToWorker::Listener(SimSocket(near ^ 1));
        self.listeners.out.push_back((one.database.clone(), letter));
        let identity = own_identity(&one.user, &one.database, Some("trunkline listens"));
        let mut out = Vec::new();
        let login = ServerLogin::begin(identity, [0; auth::scram::NONCE_BYTES], &mut out);
        one.input.clear();
        one.stage = Stage::Login { end: near, login: Box::new(login) };
        net.say(near, out);
        let limit = one.limit;
        self.wake_listener_in(net, number, limit);
    }

    /// It says the first of these to its server, or waits for orders if there is none.
    fn say_for_all(&mut self, net: &mut Net, number: u32, end: u32, words: VecDeque<Word>) {
        let one = &mut self.listeners.all[number as usize];
        self.witness.note(|| format!("the session for all of {} says {words:?}", one.database));
        if let Some(word) = words.front() {
            let mut out = Vec::new();
            write::query(&mut out, &word.sql());
            net.say(end, out);
            one.stage = Stage::Says { end, words, error: None };
            let limit = one.limit;
            return self.wake_listener_in(net, number, limit);
        }
        one.stage = Stage::Attends { end };
        if !one.orders.is_empty() {
            self.listener_thinks(net, number);
        } else if one.channels.is_empty() {
            self.wake_listener_in(net, number, LINGERS);
        } else {
            // Whatever was to wake it is over.
            one.alarm += 1;
        }
    }

    /// It has ended, and comes again after a pause. Those that nobody has listened to yet are refused for this reason, if there is one.
    fn listener_ends(&mut self, net: &mut Net, number: u32, was_there: bool, refused: Option<&str>) {
        let Listeners { all, out, .. } = &mut self.listeners;
        let one = &mut all[number as usize];
        self.witness.note(|| format!("the session for all of {} ends: {refused:?}", one.database));
        if let Some(error) = refused {
            one.refuse_new(error, out);
        }
        if was_there {
            self.witness.count("sessions for all that ended");
            let database = one.database.clone();
            self.witness.board.borrow_mut().gaps.insert(database.to_string());
            out.push_back((database.clone(), ToWorker::ListenerLost { database }));
        }
        one.stage = Stage::Pauses;
        one.ended = self.witness.now;
        for order in std::mem::take(&mut one.orders) {
            one.note(order);
        }
        self.wake_listener_in(net, number, PAUSE);
    }

    /// Something has come for a session.
    pub(crate) fn hear_for_all(&mut self, net: &mut Net, number: u32, end: u32) {
        let one = &mut self.listeners.all[number as usize];
        if one.end() != Some(end) {
            return;
        }
        let mut input = std::mem::take(&mut one.input);
        net.read(end, usize::MAX, &mut input);
        let mut at = 0;
        while let Some((kind, body, next)) = crate::message_at(&input, at) {
            at = next;
            self.hear_word_for_all(net, number, kind, body);
            if self.listeners.all[number as usize].end() != Some(end) {
                return;
            }
        }
        let one = &mut self.listeners.all[number as usize];
        one.input = input[at..].to_vec();
        let is_over = net.end(end).is_reset || (net.end(end).is_eof && net.end(end).arrived_bytes == 0);
        if !is_over {
            return;
        }
        net.close(end);
        let (was_there, refused) = match std::mem::replace(&mut one.stage, Stage::Away) {
            Stage::Attends { .. } => (true, None),
            Stage::Says { words, .. } if matches!(words.front(), Some(Word::Unlisten(_))) => (true, None),
            Stage::Says { .. } => (true, Some("connection closed")),
            _ => (false, Some("connection closed")),
        };
        self.listener_ends(net, number, was_there, refused);
    }

    fn hear_word_for_all(&mut self, net: &mut Net, number: u32, kind: u8, body: &[u8]) {
        let Listeners { all, put, out, .. } = &mut self.listeners;
        let one = &mut all[number as usize];
        let is_news = matches!(kind, backend::PARAMETER_STATUS | backend::NOTICE_RESPONSE);
        match &mut one.stage {
            Stage::Login { end, login } => match login.hear(kind, body) {
                Ok(Step::Ready(_)) => {
                    let end = *end;
                    let names = one.channels.keys().cloned().map(Word::Listen);
                    let words = [Word::Marks].into_iter().chain(names).collect();
                    self.say_for_all(net, number, end, words);
                }
                // Why it is refused is in the log.
                Ok(Step::Wait) | Err(LoginFault::Refused(_)) => {}
                other => {
                    let text = format!("a session for all hears nonsense at its login: {:?}", other.is_ok());
                    self.witness.accuse(Charge::ForeignBytes, text);
                }
            },
            Stage::Says { end, words, error } if kind == backend::READY_FOR_QUERY => {
                *put.entry(one.database.to_string()).or_default() += 1;
                let (end, word, words) = (*end, words.pop_front(), std::mem::take(words));
                if let Some(error) = error.take() {
                    net.drop_end(end);
                    let takes_new = !matches!(word, Some(Word::Unlisten(_)));
                    return self.listener_ends(net, number, true, takes_new.then_some(&*error));
                }
                if let Some(Word::Listen(channel)) = word
                    && let Some(row) = one.channels.get_mut(&channel)
                {
                    row.is_relied_on = true;
                    let database = one.database.clone();
                    let letter = ToWorker::Heard { database: database.clone(), channel, number: row.number };
                    out.push_back((database, letter));
                }
                self.say_for_all(net, number, end, words);
            }
            Stage::Says { error, .. } if kind == backend::ERROR_RESPONSE => {
                *error = Some(Notice::parse(body).message.to_string());
            }
            Stage::Says { .. } if kind == backend::COMMAND_COMPLETE || is_news => {}
            Stage::Attends { .. } if kind == backend::ERROR_RESPONSE || is_news => {}
            stage => {
                // What it is told of channels its worker keeps to itself.
                let text = format!("a session for all hears a message {} when it {stage:?}", kind.escape_ascii());
                self.witness.accuse(Charge::ForeignBytes, text);
            }
        }
    }

    /// Posts what sessions say.
    pub(crate) fn post_for_all(&mut self) {
        while let Some((database, letter)) = self.listeners.out.pop_front() {
            let home = self.place_of(self.force.homes.home_of(&database));
            self.post(home, letter);
        }
    }

    /// Another process has taken over: this one's sessions end with it.
    pub(crate) fn forget_listeners(&mut self) {
        for one in &mut self.listeners.all {
            self.witness.board.borrow_mut().gaps.insert(one.database.to_string());
            if let Some(end) = one.end() {
                one.ended = self.witness.now;
                let net = &mut self.net.borrow_mut();
                net.drop_end(end);
                // Its letter may be one that a worker at rest has not read, and never will.
                net.end_travels(&[end ^ 1]);
            }
            one.stage = Stage::Away;
            one.orders.clear();
            one.is_forgotten = true;
        }
        self.listeners.out.clear();
    }
}

/// The stream of chance for how long the control thread takes for all this.
const STREAM: u64 = 9;
/// So long a session stays that nobody needs.
const LINGERS: Duration = Duration::from_secs(5);
/// An end and what comes of it.
const NEAR: Duration = Duration::from_millis(500);
/// Between two logins.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the control thread takes when the world has healed, microseconds.
const HEALED_PAUSE: u64 = 2_000;
