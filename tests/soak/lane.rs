//! One direction of a connection through the proxy.
//!
//! Always true: the number of held bytes is bounded; bytes leave in the order in which they arrived.
//! Not here: the lifetime of the two sockets (`proxy`).

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use base::Random;

use super::faults::{Fault, LanePlan, Pieces};

/// Bytes on their way from a source to a sink.
#[derive(Debug)]
pub(crate) struct Lane {
    plan: LanePlan,
    held: Vec<u8>,
    passed: u64,
    /// Nothing passes before this time.
    resting_until: Instant,
    /// Whether the sink took less than there was.
    pub(crate) is_blocked: bool,
    has_source_ended: bool,
    end: End,
}

/// State of the sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Open,
    /// The end of the stream has been passed on; further bytes are dropped.
    Told,
}

/// Result of one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Fine,
    /// A fault was due; the lane has done its own part.
    Met(Fault),
    /// One of the sockets is gone.
    Broken,
}

impl Lane {
    pub(crate) fn new(plan: LanePlan, resting_until: Instant) -> Self {
        Self {
            plan,
            held: Vec::new(),
            passed: 0,
            resting_until,
            is_blocked: false,
            has_source_ended: false,
            end: End::Open,
        }
    }

    /// Whether the source is to be read.
    pub(crate) fn has_room(&self) -> bool {
        !self.has_source_ended && self.held.len() < ROOM
    }

    /// Reads what the source has sent.
    pub(crate) fn take(&mut self, mut source: &TcpStream) -> Step {
        let mut chunk = [0; 16_384];
        match source.read(&mut chunk) {
            Ok(0) => self.has_source_ended = true,
            Ok(_) if self.end == End::Told => {}
            Ok(count) => self.held.extend_from_slice(&chunk[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Step::Broken,
        }
        Step::Fine
    }

    /// Writes to the sink as much as the plan allows now.
    pub(crate) fn give(&mut self, mut sink: &TcpStream, now: Instant, random: &mut Random) -> Step {
        self.is_blocked = false;
        while self.end == End::Open && !self.held.is_empty() && now >= self.resting_until {
            if let Some((_, fault)) = self.plan.event.take_if(|(at, _)| self.passed >= *at) {
                return self.meet(fault, sink, now);
            }
            let length = self.length_now();
            match sink.write(&self.held[..length]) {
                Ok(count) => {
                    self.held.drain(..count);
                    self.passed += count as u64;
                    self.rest(now, random);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return Step::Fine;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Step::Broken,
            }
        }
        if self.has_source_ended && self.held.is_empty() && self.end == End::Open && now >= self.resting_until {
            self.tell_end(sink);
        }
        Step::Fine
    }

    /// From now on bytes pass without faults.
    pub(crate) fn heal(&mut self) {
        self.plan = LanePlan::default();
        self.resting_until = Instant::now();
    }

    /// Replaces the plan with which the lane began.
    pub(crate) fn replan(&mut self, plan: LanePlan, resting_until: Instant) {
        (self.plan, self.resting_until) = (plan, resting_until);
    }

    /// Whether nothing will ever pass again.
    pub(crate) fn is_over(&self) -> bool {
        self.has_source_ended && self.end == End::Told
    }

    /// When the lane has to act although neither socket is ready.
    pub(crate) fn next_moment(&self) -> Option<Instant> {
        let waits = !self.is_blocked && self.end == End::Open && (!self.held.is_empty() || self.has_source_ended);
        waits.then_some(self.resting_until)
    }

    /// The first bytes, as long as none has passed.
    pub(crate) fn opening(&self) -> &[u8] {
        &self.held[..self.held.len().min(8)]
    }

    /// Returns whether the source has ended.
    pub(crate) fn has_source_ended(&self) -> bool {
        self.has_source_ended
    }

    fn meet(&mut self, fault: Fault, sink: &TcpStream, now: Instant) -> Step {
        match fault {
            Fault::Close | Fault::Reset => {}
            Fault::HalfClose => self.tell_end(sink),
            Fault::Stall(time) => self.resting_until = now + time,
            Fault::Trickle => {
                self.plan.pieces = Some(Pieces { until: self.passed + Pieces::TRICKLE.until, ..Pieces::TRICKLE });
            }
        }
        Step::Met(fault)
    }

    fn tell_end(&mut self, sink: &TcpStream) {
        let _ = sink.shutdown(Shutdown::Write);
        self.end = End::Told;
        self.held = Vec::new();
    }

    /// Returns how many bytes may be written now: at most one piece, and not beyond the place of the next fault.
    fn length_now(&self) -> usize {
        let piece = self.plan.pieces.filter(|pieces| self.passed < pieces.until).map_or(u64::MAX, |p| p.length_max);
        let border = self.plan.event.map_or(u64::MAX, |(at, _)| at - self.passed);
        self.held.len().min(usize::try_from(piece.min(border)).unwrap_or(usize::MAX))
    }

    fn rest(&mut self, now: Instant, random: &mut Random) {
        let Some(pieces) = self.plan.pieces.filter(|pieces| self.passed < pieces.until) else { return };
        // No pause behind every piece: there are few servers, and clients that wait for one send no requests.
        if random.below(3) > 0 {
            return;
        }
        self.resting_until = now + Duration::from_micros(1 + random.below(pieces.pause_max.as_micros() as u64));
    }
}

/// With so many bytes held, the source has to wait.
const ROOM: usize = 256 * 1024;
