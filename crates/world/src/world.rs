//! A world: workers, applications, servers and faults, run from its first event to its last.
//!
//! Always true: everything that happens is an event of the agenda; the same plan runs the same way every time.
//! Not here: what is drawn (`plan`), what must not happen (`checks`).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{Time, Wall};
use control::{Clocks, Signal};
use reactor::{Address, Buffers, Completion};
use worker::letters::{Ids, Shutdown};

use crate::app::App;
use crate::checks::archive::Archive;
use crate::checks::checkers::{Checkers, Phase};
use crate::checks::fairness::Fairness;
use crate::checks::witness::{Charge, Witness};
use crate::faults::evict::Evicted;
use crate::faults::operator::{Operator, secrets};
use crate::faults::peers::Peers;
use crate::members::Members;
use crate::plan::Plan;
use crate::plan::fault::What;
use crate::plan::group::peer_at;
use crate::postgres::Postgres;
use crate::sim::agenda::Event;
use crate::sim::dead_addresses::{Silence, silence_at};
use crate::sim::dice::Dice;
use crate::sim::io::CALENDAR;
use crate::sim::net::{Holder, Net};
use crate::sim::own_clients::OwnClients;
use crate::sim::thread::{ControlThread, Disk, posts_to};
use crate::state::{START, World};

impl World {
    /// A world before its first event.
    pub(crate) fn new(plan: Plan, buffers: &Buffers, moments_max: usize) -> Self {
        let net =
            Rc::new(RefCell::new(Net::new(Time(START), Dice::new(plan.seed, 2), plan.pace.clone(), plan.ignores_cuts)));
        let disk = Disk::of(&plan, secrets(&plan, None));
        let settings = disk.settings().unwrap_or_else(|mistakes| panic!("the plan has a mistake: {}", mistakes[0]));
        let active = Arc::new(disk.first_config(settings, plan.workers));
        let mail = Arc::new(Mutex::new(Vec::new()));
        let ids = Ids::default();
        let now = Clocks { time: Time(START), wall: Wall(CALENDAR + START as i64) };
        let control = disk.control(&active, posts_to(&(0..plan.workers), &mail), now, ids.clone());
        let thread = ControlThread::new(&plan, control);
        let witness = Witness::new(moments_max);
        let members = Members::of(&plan, Time(START));
        let history = members.as_ref().map(|members| members.history.clone());
        let postgres = Postgres::of(&plan, witness.board.clone(), history);
        let apps =
            plan.people.iter().map(|(number, person, habits)| App::new(&plan, *number, person.clone(), habits.clone()));
        let apps: Vec<App> = apps.collect();
        // Where servers must be sent parameters, or a reload changes pools, the order in which requests are sent is not
        // the order of service.
        let is_unclear = |what: &What| {
            matches!(
                what,
                What::Reload { .. }
                    | What::Order(_)
                    | What::Secrets { .. }
                    | What::AuthType { .. }
                    | What::SlowServers { .. }
                    | What::Trouble(_)
                    | What::Cluster(_)
            )
        };
        let is_fairness_known = !plan.faults.iter().any(|(_, fault)| is_unclear(&fault.what))
            && plan.people.iter().all(|(_, _, habits)| habits.is_plain)
            // A state probe takes as long on a narrow connection as some hundred transactions elsewhere.
            && !(plan.shape.follows_state() && plan.pace.narrow > 0);
        let mut world = Self {
            checkers: Checkers::new(&plan, &active),
            operator: Operator::default(),
            peers: Peers::new(&plan),
            evicted: Evicted::default(),
            archive: Archive::new(&plan),
            own_clients: OwnClients::default(),
            members,
            post_dice: Dice::new(plan.seed, 4),
            workers: Vec::new(),
            serving_workers: 0..0,
            ids,
            inboxes: Vec::new(),
            mail,
            bags: Vec::new(),
            bag_ends: Vec::new(),
            apps,
            postgres,
            witness,
            active,
            disk,
            thread,
            fairness: Fairness::new(is_fairness_known, plan.shape.follows_state()),
            jumped: Time(0),
            net,
            plan,
        };
        world.witness.now = Time(START);
        world.start_workers(world.plan.workers, buffers, false);
        world.begin();
        world.begin_agents();
        world
    }

    fn begin(&mut self) {
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        let start = net.agenda.now().0;
        for at in 0..self.apps.len() {
            self.apps[at].begin(net);
        }
        for (index, (_, fault)) in self.plan.faults.iter().enumerate() {
            let index = index as u32;
            net.agenda.at(Time(start + fault.at), Event::Fault { index });
            net.agenda.at(Time(start + (fault.at + fault.lasts).min(self.plan.heals_at)), Event::Mended { index });
        }
        net.agenda.at(Time(start + self.plan.heals_at), Event::Heals);
        self.begin_group(net);
        for (index, (at, _)) in self.plan.shutdowns.iter().enumerate() {
            net.agenda.at(Time(start + at), Event::GoesDown { index: index as u32 });
        }
        net.agenda.after(LOOK, Event::Look);
        net.agenda.at(self.witness.now, Event::ControlWakes);
    }

    /// Runs until the world is over or an accusation is made.
    pub(crate) fn live(&mut self) {
        let mut events = 0_u64;
        while self.witness.accusation.is_none() && self.checkers.phase != Phase::Over {
            events += 1;
            if events > EVENTS_MAX {
                let text = "this world goes on and on: somebody is woken for nothing, again and again".to_owned();
                self.witness.accuse(Charge::NotServed, text);
            }
            let Some(event) = self.next_event() else {
                self.witness.accuse(Charge::NotServed, "nothing happens any more".to_owned());
                return;
            };
            self.happen(event);
            self.pass_news_on();
            self.check();
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        let net = &mut self.net.borrow_mut();
        let event = net.agenda.next();
        self.witness.now = net.agenda.now();
        self.witness.board.borrow_mut().now = self.witness.now;
        if let Some(members) = &self.members {
            members.history.borrow_mut().now = self.witness.now;
        }
        event
    }

    fn happen(&mut self, event: Event) {
        // When a worker looks whether anything is due, and finds nothing, changes nothing.
        if !matches!(event, Event::Turn { .. }) {
            self.witness.fold(self.witness.now.0);
        }
        let net = self.net.clone();
        match event {
            Event::Handshaken { worker, line, is_good } => net.borrow_mut().handshaken(worker, line, is_good),
            Event::Turn { worker } => self.turn(worker),
            Event::Arrives { end, what } => {
                self.witness.fold(u64::from(end));
                net.borrow_mut().arrive(end, what);
            }
            Event::Lingered { end } => net.borrow_mut().lingered(end),
            Event::Knocks { end } => self.knock(end),
            Event::Answered { end, is_welcome } => self.answered(end, is_welcome),
            Event::Letter { to } => {
                if let Some(letter) = self.bags[usize::from(to)].pop_front() {
                    self.note_arrival(to, &letter);
                    // A worker that has ended reads nothing.
                    let _ = self.inboxes[usize::from(to)].send(letter);
                    net.borrow_mut().complete(to, Completion::Woken);
                }
            }
            Event::App { app, number } => {
                let net = &mut net.borrow_mut();
                self.apps[app as usize].ring(net, number, &mut self.witness);
            }
            Event::Session { session, number } => {
                self.postgres.worked(&mut net.borrow_mut(), session, number, &mut self.witness);
            }
            Event::Woken { session } => self.postgres.woken(&mut net.borrow_mut(), session),
            Event::ControlReads => self.control_reads(),
            Event::ControlIsTold { number } => self.tell_control(number),
            Event::ControlWakes => self.control_wakes(),
            Event::Fault { index } => {
                let what = self.plan.faults[index as usize].1.what.clone();
                self.begin_fault(&what);
                if let What::Cluster(trouble) = &what {
                    self.begin_cluster_trouble(index, trouble);
                }
            }
            Event::Mended { index } => {
                let what = self.plan.faults[index as usize].1.what.clone();
                self.end_fault(&what);
                if let What::Cluster(trouble) = &what {
                    self.end_cluster_trouble(index, trouble);
                }
            }
            Event::Peers(alarm) => self.peers_happen(alarm),
            Event::Members(alarm) => self.members_happen(alarm),
            Event::Heals => self.heal(),
            Event::GoesDown { index } => self.go_down(self.plan.shutdowns[index as usize].1),
            Event::Look => {
                self.look();
                let is_last = matches!(self.checkers.phase, Phase::Last { .. });
                net.borrow_mut().agenda.after(if is_last { LOOK_LAST } else { LOOK }, Event::Look);
            }
        }
    }

    /// A worker has its turn.
    fn turn(&mut self, worker: u8) {
        {
            let net = &mut self.net.borrow_mut();
            let (now, takes_time) = (net.agenda.now(), net.turns_take_time());
            let worker_io = net.worker_io(worker);
            if worker_io.turn_at != Some(now) {
                return;
            }
            worker_io.turn_at = None;
            if self.workers[usize::from(worker)].is_none() {
                return;
            }
            if worker_io.busy_until > now {
                let until = worker_io.busy_until;
                net.wake(worker, until);
                return;
            }
            worker_io.busy_until = if takes_time { now + TURN } else { now };
        }
        let Some(living) = &mut self.workers[usize::from(worker)] else { return };
        living.turn(&mut Vec::new());
        let is_over = living.is_over();
        self.net.borrow_mut().flush(worker);
        self.take_parcels();
        self.close_the_unwanted(worker);
        if self.fairness.is_on() {
            let net = &mut self.net.borrow_mut();
            let sent = net.worker_io(worker).sent.replace(Vec::new()).unwrap_or_default();
            self.fairness.look(&self.apps, net, &sent, &mut self.witness);
        }
        match is_over {
            true => self.worker_is_over(worker),
            false => self.mind(worker),
        }
        self.send_mail();
    }

    /// Plans the turn at the worker's next deadline.
    fn mind(&mut self, worker: u8) {
        let Some(deadline) = self.deadline_of(worker) else { return };
        let net = &mut self.net.borrow_mut();
        let ahead = net.worker_io(worker).ahead;
        net.wake(worker, Time(deadline.0.saturating_sub(ahead)));
    }

    fn knock(&mut self, far: u32) {
        let net = self.net.clone();
        let net = &mut net.borrow_mut();
        match net.aims[far as usize].clone() {
            // The kernel keeps the connection in its backlog while no worker accepts.
            None if net.is_accepting_paused() => net.agenda.after(KNOCKS_AGAIN, Event::Knocks { end: far }),
            None => {
                let is_welcome = net.accept(far);
                net.answer(far, is_welcome);
            }
            // After the faults nothing may take long, nor what began during them.
            Some(aim) if silence_at(&aim) == Some(Silence::Hangs) && self.checkers.phase == Phase::Faults => {
                if !net.ends[far as usize ^ 1].is_closed {
                    net.agenda.after(HANGS_AGAIN, Event::Knocks { end: far });
                }
            }
            Some(aim) if silence_at(&aim).is_some() => net.answer(far, false),
            Some(aim) if peer_at(&aim).is_some() => {
                self.peer_knocked(net, far, peer_at(&aim).unwrap_or_default());
            }
            Some(Address::Tcp(address)) => {
                let host = match address.ip() {
                    std::net::IpAddr::V4(ip) => usize::from(ip.octets()[3]),
                    std::net::IpAddr::V6(_) => 0,
                };
                self.postgres.knocked(net, far, host);
            }
            Some(_) => net.answer(far, false),
        }
    }

    fn answered(&mut self, near: u32, is_welcome: bool) {
        let net = self.net.clone();
        if let Holder::App(app) = net.borrow().end(near).holder {
            self.mind_old_password(app);
        }
        let net = &mut net.borrow_mut();
        if net.end(near).is_closed {
            return;
        }
        match net.end(near).holder {
            Holder::Worker { worker, line } => net.line_answered(worker, line, is_welcome),
            Holder::App(app) => drop(self.apps[app as usize].connected(net, is_welcome, &mut self.witness)),
            Holder::Canceller(app) => {
                let app = &mut self.apps[app as usize];
                let (number, range) = (app.number, app.cancel_range);
                app.was_running = self.postgres.sessions.iter().find_map(|session| session.runs(number, range));
                app.cancel_connected(net, is_welcome);
            }
            Holder::Asker(asker) => self.asker_answered(net, asker, is_welcome),
            Holder::Nobody | Holder::Session(_) | Holder::Peer(_) | Holder::OwnClient(_) => {}
        }
    }

    /// Lets applications, sessions and others handle the events at their ends.
    fn pass_news_on(&mut self) {
        let mut own_clients = Vec::new();
        {
            let net = self.net.clone();
            let net = &mut net.borrow_mut();
            while let Some(end) = net.news.pop_front() {
                match net.end(end).holder {
                    Holder::App(app) => {
                        if self.apps[app as usize].end == Some(end) {
                            let ended = self.apps[app as usize].listen(net, &mut self.witness);
                            if let Some(ended) = ended {
                                let who = &self.apps[app as usize].person;
                                self.checkers.client_ended(app, &ended, who, &mut self.archive, &mut self.witness);
                                self.check_eviction(app, &ended);
                                self.check_timer(app, &ended);
                                self.check_doubt(app, &ended);
                            }
                        }
                    }
                    Holder::Canceller(app) => {
                        let app = &mut self.apps[app as usize];
                        if app.cancel_end == Some(end) {
                            // A process that ends at once closes its connections, whatever became of the cancel
                            // request.
                            let is_ending = self.checkers.shutdown == Some(Shutdown::Now);
                            let unsure = if is_ending { self.witness.now } else { self.jumped.max(self.evicted.last) };
                            app.cancel_heard(net, unsure, &mut self.witness);
                            let (number, range) = (app.number, app.cancel_range);
                            let is_over = app.cancel_end.is_none() && self.plan.is_calm;
                            let was_running = app.was_running.filter(|_| is_over);
                            let mut sessions = self.postgres.sessions.iter();
                            // A cancel request that has reached its server between two statements of a request is over
                            // as well.
                            if was_running.is_some()
                                && sessions.any(|session| session.runs(number, range) == was_running)
                            {
                                let text = format!(
                                    "application {number} is told that its cancel is done, and its request runs on"
                                );
                                self.witness.accuse(Charge::StrayCancel, text);
                            }
                        } else {
                            net.close(end);
                        }
                    }
                    Holder::Session(session) => self.postgres.heard(net, session, &mut self.witness),
                    Holder::Peer(call) => self.peer_heard(net, call),
                    Holder::Asker(asker) => self.asker_heard(net, asker),
                    Holder::OwnClient(number) => own_clients.push((number, end)),
                    Holder::Nobody | Holder::Worker { .. } => {}
                }
            }
        }
        for (number, end) in own_clients {
            self.hear_own_client(number, end);
        }
    }

    /// Sends the pooler a signal to shut down: at once, or when nothing is left to wait for.
    pub(crate) fn go_down(&mut self, way: Shutdown) {
        if self.checkers.shutdown == Some(Shutdown::Now) {
            return;
        }
        self.witness.note(|| format!("GOES DOWN {way:?}"));
        self.control_hears(control::Event::Signal(match way {
            Shutdown::Now => Signal::Quit,
            Shutdown::WaitForClients => Signal::Terminate,
            Shutdown::WaitForServers => Signal::Interrupt,
        }));
    }
}

/// How often the periodic checks run.
const LOOK: Duration = Duration::from_millis(200);
/// The same when no client is left.
const LOOK_LAST: Duration = Duration::from_secs(100);
/// Far more events than the busiest world has.
const EVENTS_MAX: u64 = 30_000_000;
/// How soon a connection in the backlog is tried again.
const KNOCKS_AGAIN: Duration = Duration::from_millis(1);
/// How soon a packet that was lost is sent again.
const HANGS_AGAIN: Duration = Duration::from_secs(1);
/// How long a turn takes.
const TURN: Duration = Duration::from_micros(5);
