//! Plays a load: sends requests when they are due, on connections that it opens as lanes allow, and says how each ended.
//!
//! Always true: one thread, which never blocks but in its one wait; a request that is due is sent at once, or waits for a connection of its
//! lane, or ends as skipped: none is dropped unsaid. Memory is bounded by the limits of the lanes.
//! Not here: what is asked, and when (a `Traffic`); what the figures mean (`tally`, `check`, `steady`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::SaltedPassword;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use wire::backend::TxStatus;

use super::Dice;
use super::poll::{Poll, Ready};
use super::request::{Effort, Ended, Lane, Order, Patience, Request, Step, Traffic};
use super::session::{Heard, Refused, Session};
use super::tally::{End, Passage};

/// Plays a load.
pub(crate) struct Driver {
    poll: Poll,
    began: Instant,
    patience: Patience,
    lanes: Vec<LaneRow>,
    rows: Vec<Option<Row>>,
    free: Vec<u32>,
    epoch: u32,
    alarms: BinaryHeap<Reverse<(u64, u32, u32, Alarm)>>,
    /// Requests that have been sent, or wait for a connection.
    in_flight: usize,
    open: u32,
    clients_peak: u32,
    buffer: Vec<u8>,
    dice: Dice,
}

struct LaneRow {
    lane: Lane,
    salted: Option<Arc<SaltedPassword>>,
    idle: Vec<u32>,
    open: u32,
    waiting: VecDeque<Running>,
    is_retired: bool,
}

struct Row {
    session: Session,
    lane: u32,
    /// The epoch of what it does now: alarms of another one are stale.
    turn: u32,
    is_open: bool,
    wanted_write: bool,
    running: Option<Running>,
    requests: u32,
    dies_at: u64,
}

struct Running {
    request: Request,
    noticed: u64,
    sent: Option<u64>,
    first_answered: Option<u64>,
    step: usize,
    begun: usize,
    error: Option<Refused>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Alarm {
    /// Of a lane: the request that has waited longest.
    Waiting,
    /// Of a connection: what it does takes too long.
    Request,
    Think,
    Idle,
}

impl Driver {
    pub(crate) fn new(patience: Patience, seed: u64) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            began: Instant::now(),
            patience,
            lanes: Vec::new(),
            rows: Vec::new(),
            free: Vec::new(),
            epoch: 0,
            alarms: BinaryHeap::new(),
            in_flight: 0,
            open: 0,
            clients_peak: 0,
            buffer: vec![0; BUFFER_BYTES],
            dice: Dice::new(seed, 4),
        })
    }

    /// Adds a lane and returns its number. Numbers begin with 0.
    pub(crate) fn add_lane(&mut self, lane: Lane) -> u32 {
        let row =
            LaneRow { lane, salted: None, idle: Vec::new(), open: 0, waiting: VecDeque::new(), is_retired: false };
        self.lanes.push(row);
        self.lanes.len() as u32 - 1
    }

    /// Microseconds since the run began.
    fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Plays until nothing is planned and everything has ended, or until `goes_on`, which is asked many times a second with the time,
    /// says no. What has not ended then is abandoned. Time 0 is when this is called.
    pub(crate) fn play(
        &mut self,
        traffic: &mut dyn Traffic,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<Effort> {
        self.began = Instant::now();
        let before = thread_cpu();
        let (mut ready, mut orders) = (Vec::new(), Vec::new());
        let (mut look_at, mut drained_by) = (0, None);
        loop {
            let mut now = self.now();
            if now >= look_at {
                if !goes_on(now) {
                    break;
                }
                look_at = now + LOOK;
            }
            for _ in 0..DUE_IN_A_ROW {
                if traffic.next_at().is_none_or(|at| at > now) {
                    break;
                }
                traffic.due(now, &mut orders);
                for order in orders.drain(..) {
                    self.obey(order, now, traffic);
                }
                now = self.now();
            }
            self.ring(now, traffic);
            if traffic.next_at().is_none() {
                let by = *drained_by.get_or_insert(now + self.patience.drain_max);
                if self.in_flight == 0 || now >= by {
                    break;
                }
            } else {
                drained_by = None;
            }
            let alarm = self.alarms.peek().map(|Reverse((at, ..))| *at);
            let until =
                traffic.next_at().into_iter().chain(alarm).chain(drained_by).chain([look_at]).min().unwrap_or(now);
            self.poll.wait(Duration::from_micros(until.saturating_sub(self.now())), &mut ready)?;
            for event in ready.drain(..) {
                self.turn(event, traffic);
            }
        }
        self.abandon(traffic);
        let cpu = thread_cpu().saturating_sub(before);
        Ok(Effort { wall: self.now(), cpu, clients_peak: self.clients_peak })
    }

    fn obey(&mut self, order: Order, now: u64, traffic: &mut dyn Traffic) {
        match order {
            Order::AddLane(lane) => drop(self.add_lane(lane)),
            Order::Send(request) => {
                let lane = request.lane;
                let running =
                    Running { request, noticed: now, sent: None, first_answered: None, step: 0, begun: 0, error: None };
                self.in_flight += 1;
                self.give(lane, running, now, traffic);
            }
            Order::Open { lane, clients } => {
                for _ in 0..clients {
                    self.connect(lane, None, now, traffic);
                }
            }
            Order::Retire { lane } => {
                let row = &mut self.lanes[lane as usize];
                row.is_retired = true;
                for slot in std::mem::take(&mut row.idle) {
                    self.close(slot, traffic);
                }
            }
        }
    }

    /// Begins a request on an idle connection or a new one, or lets it wait.
    fn give(&mut self, lane: u32, running: Running, now: u64, traffic: &mut dyn Traffic) {
        let row = &mut self.lanes[lane as usize];
        if let Some(slot) = row.idle.pop() {
            self.begin(slot, running, now, traffic);
        } else if row.lane.clients_max == 0 || row.open < row.lane.clients_max {
            self.connect(lane, Some(running), now, traffic);
        } else if row.waiting.len() < row.lane.waiting_max {
            if row.waiting.is_empty() {
                self.alarms.push(Reverse((running.noticed + self.patience.request_max, lane, 0, Alarm::Waiting)));
            }
            row.waiting.push_back(running);
        } else {
            self.end(lane, running, End::Skipped, now, traffic);
        }
    }

    fn connect(&mut self, lane: u32, running: Option<Running>, now: u64, traffic: &mut dyn Traffic) {
        let row = &mut self.lanes[lane as usize];
        let opened = Session::open(&row.lane.login, row.salted.clone(), now);
        let slot = self.free.pop().unwrap_or(self.rows.len() as u32);
        let registered = opened.and_then(|session| {
            self.poll.add(&session, u64::from(slot), true)?;
            Ok(session)
        });
        let session = match registered {
            Ok(session) => session,
            Err(why) => {
                // The slot is as free as before.
                if (slot as usize) < self.rows.len() {
                    self.free.push(slot);
                }
                let error = Refused { sqlstate: String::new(), text: why.to_string() };
                traffic.opened(lane, Err(&error));
                if let Some(running) = running {
                    self.end(lane, Running { error: Some(error), ..running }, End::Errored, now, traffic);
                }
                return;
            }
        };
        self.epoch = self.epoch.wrapping_add(1);
        let dies_at = row.lane.lifetime.as_ref().map_or(u64::MAX, |law| now + law.draw(&mut self.dice));
        row.open += 1;
        self.open += 1;
        self.clients_peak = self.clients_peak.max(self.open);
        let deadline = running.as_ref().map_or(now, |running| running.noticed) + self.patience.request_max;
        self.alarms.push(Reverse((deadline, slot, self.epoch, Alarm::Request)));
        let row =
            Row { session, lane, turn: self.epoch, is_open: false, wanted_write: true, running, requests: 0, dies_at };
        match self.rows.get_mut(slot as usize) {
            Some(place) => *place = Some(row),
            None => self.rows.push(Some(row)),
        }
    }

    /// A connection begins a request.
    fn begin(&mut self, slot: u32, running: Running, now: u64, traffic: &mut dyn Traffic) {
        let deadline = running.noticed + self.patience.request_max;
        let turn = self.next_turn(slot);
        self.alarms.push(Reverse((deadline, slot, turn, Alarm::Request)));
        let Some(row) = self.rows[slot as usize].as_mut() else { return };
        row.running = Some(running);
        row.requests += 1;
        self.advance(slot, now, traffic);
    }

    fn next_turn(&mut self, slot: u32) -> u32 {
        self.epoch = self.epoch.wrapping_add(1);
        if let Some(row) = self.rows[slot as usize].as_mut() {
            row.turn = self.epoch;
        }
        self.epoch
    }

    /// Begins the next step of a request.
    fn advance(&mut self, slot: u32, now: u64, traffic: &mut dyn Traffic) {
        let Some(row) = self.rows[slot as usize].as_mut() else { return };
        let Some(running) = row.running.as_mut() else { return };
        running.sent.get_or_insert(now);
        running.begun = running.step + 1;
        let asked = match &running.request.steps[running.step] {
            Step::Ask(sql) => row.session.ask(sql, now),
            Step::Think(time) => {
                self.alarms.push(Reverse((now + time, slot, row.turn, Alarm::Think)));
                return;
            }
        };
        self.settle(slot, asked, now, traffic);
    }

    /// A socket is ready.
    fn turn(&mut self, event: Ready, traffic: &mut dyn Traffic) {
        let (slot, now) = (event.token as u32, self.now());
        let Some(row) = self.rows.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        if event.is_writable
            && let Err(why) = row.session.flush(now)
        {
            self.broke(slot, why, now, traffic);
            return;
        }
        let heard = row.session.hear(&mut self.buffer, now);
        match heard {
            Ok(None) => self.settle(slot, Ok(()), now, traffic),
            Ok(Some(Heard::LoggedIn(times, salted))) => {
                row.is_open = true;
                let lane = row.lane;
                if salted.is_some() {
                    self.lanes[lane as usize].salted = salted;
                }
                traffic.opened(lane, Ok(&times));
                self.settle(slot, Ok(()), now, traffic);
                match self.rows[slot as usize].as_mut().map(|row| row.running.take()) {
                    Some(Some(running)) => self.begin(slot, running, now, traffic),
                    Some(None) => self.rest(slot, now, traffic),
                    None => {}
                }
            }
            Ok(Some(Heard::Answered { status, error })) => self.answered(slot, status, error, now, traffic),
            Err(why) => self.broke(slot, why, now, traffic),
        }
    }

    /// A statement is answered.
    fn answered(&mut self, slot: u32, status: TxStatus, error: Option<Refused>, now: u64, traffic: &mut dyn Traffic) {
        let Some(row) = self.rows[slot as usize].as_mut() else { return };
        let Some(running) = row.running.as_mut() else {
            let why = Refused { sqlstate: String::new(), text: "an answer that nobody asked for".to_owned() };
            self.broke(slot, why, now, traffic);
            return;
        };
        match error {
            Some(error) => drop(running.error.get_or_insert(error)),
            // What is answered after an error is only the end of its transaction.
            None if running.error.is_none() => {
                running.first_answered.get_or_insert(now);
                running.step += 1;
            }
            None => {}
        }
        if running.error.is_none() && running.step < running.request.steps.len() {
            self.advance(slot, now, traffic);
        } else if status != TxStatus::Idle {
            // A transaction that is not over by itself must not meet the next request.
            running.error.get_or_insert_with(|| Refused { sqlstate: String::new(), text: NOT_OVER.to_owned() });
            let asked = row.session.ask("ROLLBACK", now);
            self.settle(slot, asked, now, traffic);
        } else {
            self.request_ends(slot, now, traffic);
        }
    }

    /// A time of thinking is over.
    fn thought(&mut self, slot: u32, now: u64, traffic: &mut dyn Traffic) {
        let Some(running) = self.rows[slot as usize].as_mut().and_then(|row| row.running.as_mut()) else { return };
        running.step += 1;
        if running.step < running.request.steps.len() {
            self.advance(slot, now, traffic);
        } else {
            self.request_ends(slot, now, traffic);
        }
    }

    fn request_ends(&mut self, slot: u32, now: u64, traffic: &mut dyn Traffic) {
        let Some((lane, running)) =
            self.rows[slot as usize].as_mut().and_then(|row| Some((row.lane, row.running.take()?)))
        else {
            return;
        };
        let end = if running.error.is_some() { End::Errored } else { End::Done };
        self.end(lane, running, end, now, traffic);
        self.rest(slot, now, traffic);
    }

    /// A connection without a request takes the next one of its lane, or is idle, or closes.
    fn rest(&mut self, slot: u32, now: u64, traffic: &mut dyn Traffic) {
        let Some(row) = self.rows[slot as usize].as_ref() else { return };
        let lane = &mut self.lanes[row.lane as usize];
        let most = lane.lane.requests_max;
        let number = row.lane;
        if (most > 0 && row.requests >= most) || row.dies_at <= now || (lane.is_retired && lane.waiting.is_empty()) {
            self.close(slot, traffic);
            self.serve_waiting(number, now, traffic);
        } else if let Some(running) = lane.waiting.pop_front() {
            self.begin(slot, running, now, traffic);
        } else {
            lane.idle.push(slot);
            let idle_max = lane.lane.idle_max;
            let turn = self.next_turn(slot);
            if let Some(idle_max) = idle_max {
                self.alarms.push(Reverse((now + idle_max, slot, turn, Alarm::Idle)));
            }
        }
    }

    /// A lane may open a connection for a request that waits.
    fn serve_waiting(&mut self, lane: u32, now: u64, traffic: &mut dyn Traffic) {
        let row = &mut self.lanes[lane as usize];
        if (row.lane.clients_max == 0 || row.open < row.lane.clients_max)
            && let Some(running) = row.waiting.pop_front()
        {
            self.connect(lane, Some(running), now, traffic);
        }
    }

    /// After something was sent or heard: the poll must know whether more is to be sent.
    fn settle(&mut self, slot: u32, asked: Result<(), Refused>, now: u64, traffic: &mut dyn Traffic) {
        if let Err(why) = asked {
            self.broke(slot, why, now, traffic);
            return;
        }
        let Some(row) = self.rows[slot as usize].as_mut() else { return };
        let wants_write = row.session.wants_write();
        if wants_write != row.wanted_write {
            row.wanted_write = wants_write;
            if let Err(why) = self.poll.change(&row.session, u64::from(slot), wants_write) {
                let why = Refused { sqlstate: String::new(), text: why.to_string() };
                self.broke(slot, why, now, traffic);
            }
        }
    }

    /// A connection has broken, or could not log in.
    fn broke(&mut self, slot: u32, why: Refused, now: u64, traffic: &mut dyn Traffic) {
        let Some(row) = self.rows[slot as usize].as_mut() else { return };
        let (lane, running) = (row.lane, row.running.take());
        if !row.is_open {
            traffic.opened(lane, Err(&why));
        }
        self.close(slot, traffic);
        if let Some(mut running) = running {
            running.error.get_or_insert(why);
            self.end(lane, running, End::Errored, now, traffic);
        }
        self.serve_waiting(lane, now, traffic);
    }

    fn close(&mut self, slot: u32, traffic: &mut dyn Traffic) {
        let Some(row) = self.rows[slot as usize].take() else { return };
        let lane = &mut self.lanes[row.lane as usize];
        lane.idle.retain(|idle| *idle != slot);
        lane.open -= 1;
        self.open -= 1;
        self.free.push(slot);
        if row.is_open {
            traffic.closed(row.lane);
        }
        row.session.terminate();
    }

    fn end(&mut self, lane: u32, running: Running, end: End, now: u64, traffic: &mut dyn Traffic) {
        self.in_flight -= 1;
        let passage = Passage { at: running.request.at, noticed: running.noticed, sent: running.sent, ended: now, end };
        let ended = Ended {
            tag: running.request.tag,
            lane,
            passage,
            first_answered: running.first_answered,
            begun: running.begun,
            over: running.step,
            error: running.error,
        };
        traffic.ended(now, &ended);
    }

    /// Rings the alarms that are due.
    fn ring(&mut self, now: u64, traffic: &mut dyn Traffic) {
        while let Some(Reverse((at, number, turn, alarm))) = self.alarms.peek().copied() {
            if at > now {
                return;
            }
            self.alarms.pop();
            if alarm == Alarm::Waiting {
                self.waited_too_long(number, now, traffic);
                continue;
            }
            let Some(row) = self.rows.get_mut(number as usize).and_then(Option::as_mut) else { continue };
            if row.turn != turn {
                continue;
            }
            match alarm {
                Alarm::Think => self.thought(number, now, traffic),
                Alarm::Idle => self.close(number, traffic),
                Alarm::Request | Alarm::Waiting => self.timed_out(number, now, traffic),
            }
        }
    }

    fn timed_out(&mut self, slot: u32, now: u64, traffic: &mut dyn Traffic) {
        let Some(row) = self.rows[slot as usize].as_mut() else { return };
        let (lane, running) = (row.lane, row.running.take());
        // Its answer may still come, so the connection is of no more use.
        self.close(slot, traffic);
        if let Some(running) = running {
            self.end(lane, running, End::TimedOut, now, traffic);
        }
        self.serve_waiting(lane, now, traffic);
    }

    /// Ends the requests of a lane that have waited for too long, of which the first has waited longest.
    fn waited_too_long(&mut self, lane: u32, now: u64, traffic: &mut dyn Traffic) {
        while let Some(first) = self.lanes[lane as usize].waiting.front() {
            let deadline = first.noticed + self.patience.request_max;
            if deadline > now {
                self.alarms.push(Reverse((deadline, lane, 0, Alarm::Waiting)));
                return;
            }
            if let Some(running) = self.lanes[lane as usize].waiting.pop_front() {
                self.end(lane, running, End::TimedOut, now, traffic);
            }
        }
    }

    /// Ends everything.
    fn abandon(&mut self, traffic: &mut dyn Traffic) {
        let now = self.now();
        for lane in 0..self.lanes.len() as u32 {
            while let Some(running) = self.lanes[lane as usize].waiting.pop_front() {
                self.end(lane, running, End::Abandoned, now, traffic);
            }
        }
        for slot in 0..self.rows.len() as u32 {
            let running = self.rows[slot as usize].as_mut().and_then(|row| Some((row.lane, row.running.take()?)));
            self.close(slot, traffic);
            if let Some((lane, running)) = running {
                self.end(lane, running, End::Abandoned, now, traffic);
            }
        }
    }
}

/// The processor time of this thread, in microseconds.
fn thread_cpu() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD);
    usage.map_or(0, |usage| (usage.user_time() + usage.system_time()).num_microseconds().unsigned_abs())
}

const NOT_OVER: &str = "the last statement left a transaction open";
/// The time between two looks whether to go on, in microseconds.
const LOOK: u64 = 20_000;
/// So many requests that are due are sent before answers are looked at, so that none starves.
const DUE_IN_A_ROW: u32 = 64;
const BUFFER_BYTES: usize = 65_536;

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
