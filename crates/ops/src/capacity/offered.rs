//! The traffic of a step: arrivals at random at one rate after another, or a closed loop; and what is counted of it.
//!
//! Always true: nothing is sent before the connections are there, or have had their time; what is sent before the measured part is not counted.
//! Not here: playing it (`load`), what follows from it (`rig`).

use std::cell::Cell;

use crate::load::{Dice, End, Ended, LoginTimes, Order, Refused, Request, Step, Tally, Traffic};

use super::workload::Workload;

/// How requests come.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Arrival {
    /// At random: rates, each for so many microseconds, of which the last is measured.
    Open(Vec<(f64, u64)>),
    /// From so many clients as soon as they are answered, for so many microseconds without and with counting.
    Closed(u32, u64, u64),
}

/// The traffic of a step.
pub(crate) struct Offered<'w> {
    arrival: Arrival,
    workload: &'w mut Workload,
    dice: Dice,
    /// Connections of each lane that are opened before.
    connections: Vec<u32>,
    stage: Stage,
    /// Connections that have been opened, or refused.
    opened: u32,
    /// Why the first connection was refused, if one was.
    pub(crate) refused: Option<Refused>,
    /// Requests of a closed loop that are to be sent.
    asking: u32,
    /// The measured part: its beginning and its end.
    measured: Option<(u64, u64)>,
    /// Told when the measured part begins.
    is_measuring: &'w Cell<bool>,
    /// Everything in the measured part, with times since its beginning.
    pub(crate) tally: Tally,
    /// Requests of each second of the measured part, and those of them that were late.
    pub(crate) slices: Vec<(u64, u64)>,
    late_after: u64,
    /// Answers in the measured part; in an open loop those of requests that were due in it.
    pub(crate) answered: u64,
    pub(crate) first_failure: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    /// Nothing has been asked for.
    New,
    /// Connections are being opened, until then at the latest.
    Opening(u64),
    /// A part, when it ends, and when the next request comes.
    Running {
        part: usize,
        ends: u64,
        next: u64,
    },
    Over,
}

impl<'w> Offered<'w> {
    /// Times that are longer than `late_after` microseconds count as late.
    pub(crate) fn new(
        arrival: Arrival,
        workload: &'w mut Workload,
        connections: Vec<u32>,
        late_after: u64,
        seed: u64,
        is_measuring: &'w Cell<bool>,
    ) -> Self {
        Self {
            arrival,
            workload,
            dice: Dice::new(seed, 11),
            connections,
            stage: Stage::New,
            opened: 0,
            refused: None,
            asking: 0,
            measured: None,
            is_measuring,
            tally: Tally::new(late_after),
            slices: Vec::new(),
            late_after,
            answered: 0,
            first_failure: None,
        }
    }

    /// The rate and the length of a part of the run. The last part is measured.
    fn part(&self, number: usize) -> Option<(f64, u64)> {
        match &self.arrival {
            Arrival::Open(parts) => parts.get(number).copied(),
            Arrival::Closed(_, before, measured) => [(0.0, *before), (0.0, *measured)].get(number).copied(),
        }
    }

    /// A part begins when the one before was to end, not when we came to it.
    fn begin_part(&mut self, part: usize, at: u64) {
        let Some((_, length)) = self.part(part) else {
            self.stage = Stage::Over;
            return;
        };
        if self.part(part + 1).is_none() {
            self.measured = Some((at, at + length));
            self.is_measuring.set(true);
        }
        let next = self.after(part, at);
        self.stage = Stage::Running { part, ends: at + length, next };
    }

    fn after(&mut self, part: usize, at: u64) -> u64 {
        match self.part(part) {
            Some((rate, _)) if rate > 0.0 => at + (self.dice.exponential() / rate * 1e6) as u64,
            _ => u64::MAX,
        }
    }

    fn send(&mut self, at: u64, orders: &mut Vec<Order>) {
        let is_measured = self.measured.is_some_and(|(from, until)| (from..until).contains(&at));
        let text = self.workload.next(&mut self.dice);
        orders.push(Order::Send(Request { at, lane: 0, tag: u64::from(is_measured), steps: vec![Step::Ask(text)] }));
    }
}

impl Traffic for Offered<'_> {
    fn next_at(&self) -> Option<u64> {
        match self.stage {
            Stage::New => Some(0),
            Stage::Opening(_) if self.opened >= self.connections.iter().sum() => Some(0),
            Stage::Opening(until) => Some(until),
            Stage::Running { .. } if self.asking > 0 => Some(0),
            Stage::Running { ends, next, .. } => Some(next.min(ends)),
            Stage::Over => None,
        }
    }

    fn due(&mut self, now: u64, orders: &mut Vec<Order>) {
        match self.stage {
            Stage::New => {
                let lanes = self.connections.iter().enumerate();
                orders.extend(lanes.map(|(lane, clients)| Order::Open { lane: lane as u32, clients: *clients }));
                self.stage = Stage::Opening(now + OPENING_MAX);
            }
            Stage::Opening(_) => {
                self.begin_part(0, now);
                if let Arrival::Closed(clients, ..) = self.arrival {
                    self.asking = clients;
                }
            }
            Stage::Running { part, ends, next } if next < ends => {
                self.send(next, orders);
                let next = self.after(part, next);
                self.stage = Stage::Running { part, ends, next };
            }
            Stage::Running { part, ends, .. } if now >= ends => self.begin_part(part + 1, ends),
            Stage::Running { .. } => {
                for _ in 0..std::mem::take(&mut self.asking) {
                    self.send(now, orders);
                }
            }
            Stage::Over => {}
        }
    }

    fn ended(&mut self, _now: u64, ended: &Ended) {
        let is_closed = matches!(self.arrival, Arrival::Closed(..));
        self.asking += u32::from(is_closed && matches!(self.stage, Stage::Running { .. }));
        let Some((from, until)) = self.measured else { return };
        let mut passage = ended.passage;
        // A closed loop counts what is answered in its time, an open one what is asked in it.
        let is_counted = ended.tag == 1 || is_closed && passage.ended >= from;
        self.answered += u64::from(is_counted && passage.end == End::Done && passage.ended <= until);
        if ended.tag == 0 {
            return;
        }
        let since = |at: u64| at.saturating_sub(from);
        passage.at = since(passage.at);
        passage.noticed = since(passage.noticed);
        passage.sent = passage.sent.map(since);
        passage.ended = since(passage.ended);
        self.tally.note(&passage);
        if let (None, Some(error)) = (&self.first_failure, &ended.error) {
            self.first_failure = Some(error.to_string());
        }
        let second = (passage.at / 1_000_000) as usize;
        if second >= self.slices.len() {
            self.slices.resize(second + 1, (0, 0));
        }
        let slice = &mut self.slices[second];
        slice.0 += 1;
        slice.1 += u64::from(passage.ended - passage.at > self.late_after || passage.end != End::Done);
    }

    fn opened(&mut self, _lane: u32, opened: Result<&LoginTimes, &Refused>) {
        self.opened += 1;
        if let Err(refused) = opened {
            self.refused.get_or_insert_with(|| refused.clone());
        }
    }
}

/// So long connections may take to be opened.
const OPENING_MAX: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Passage;

    fn sent(offered: &mut Offered<'_>, until: u64) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        let mut orders = Vec::new();
        while let Some(at) = offered.next_at().filter(|at| *at <= until) {
            offered.due(at.max(1), &mut orders);
            for order in orders.drain(..) {
                if let Order::Send(request) = order {
                    sent.push((request.at, request.tag));
                }
            }
        }
        sent
    }

    #[test]
    fn arrivals_keep_their_rates_part_by_part_and_only_the_last_is_measured() {
        let (mut workload, is_measuring) = (Workload::built_in(), Cell::new(false));
        let parts = Arrival::Open(vec![(1000.0, 10_000_000), (200.0, 10_000_000)]);
        let mut offered = Offered::new(parts, &mut workload, vec![0], 50_000, 3, &is_measuring);
        let sent = sent(&mut offered, u64::MAX);
        assert!(is_measuring.get() && offered.next_at().is_none() && sent.is_sorted_by_key(|(at, _)| *at));
        let (first, last): (Vec<_>, Vec<_>) = sent.iter().partition(|(at, _)| *at < 10_000_001);
        assert!(
            first.len().abs_diff(10_000) < 400 && last.len().abs_diff(2000) < 200,
            "{} {}",
            first.len(),
            last.len()
        );
        assert!(first.iter().all(|(_, tag)| *tag == 0) && last.iter().all(|(_, tag)| *tag == 1));
    }

    #[test]
    fn nothing_is_sent_before_the_connections_are_there() {
        let (mut workload, is_measuring) = (Workload::built_in(), Cell::new(false));
        let mut offered = Offered::new(Arrival::Closed(2, 10, 100), &mut workload, vec![2], 50_000, 3, &is_measuring);
        assert!(sent(&mut offered, 1000).is_empty());
        offered.opened(0, Ok(&LoginTimes::default()));
        offered.opened(0, Ok(&LoginTimes::default()));
        let mut orders = Vec::new();
        offered.due(2000, &mut orders);
        offered.due(2001, &mut orders);
        assert_eq!(orders.len(), 2);
        // Asked before the measured part, answered in it.
        offered.due(2011, &mut orders);
        let passage = Passage { at: 2001, noticed: 2001, sent: Some(2001), ended: 2050, end: End::Done };
        let ended = Ended { tag: 0, lane: 0, passage, first_answered: Some(2050), begun: 1, over: 1, error: None };
        offered.ended(2050, &ended);
        assert_eq!((offered.answered, offered.tally.done), (1, 0));
    }
}
