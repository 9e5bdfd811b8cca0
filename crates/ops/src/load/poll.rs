//! Waiting for sockets and for a time, whichever comes first.
//!
//! Always true: a wait ends within some tens of microseconds of its time, because the kernel's timer is one of the things that are waited for;
//! the timeout of the system call alone would be rounded to milliseconds.
//! Not here: what is done then (`driver`, `null`).

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Waits for many sockets.
#[derive(Debug)]
pub(super) struct Poll {
    epoll: Epoll,
    timer: TimerFd,
    events: Vec<EpollEvent>,
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// What the socket was registered with.
    pub(super) token: u64,
    pub(super) is_writable: bool,
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        // With edges, an expiry needs not be read.
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, TIMER))?;
        Ok(Self { epoll, timer, events: vec![EpollEvent::empty(); EVENTS_MAX] })
    }

    pub(super) fn add(&self, socket: impl AsFd, token: u64, wants_write: bool) -> io::Result<()> {
        Ok(self.epoll.add(socket, EpollEvent::new(flags(wants_write), token))?)
    }

    pub(super) fn change(&self, socket: impl AsFd, token: u64, wants_write: bool) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut EpollEvent::new(flags(wants_write), token))?)
    }

    /// Waits until sockets are ready, at most for so long, and adds them to `ready`. Does not wait at all for a time of zero.
    pub(super) fn wait(&mut self, time: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = if time.is_zero() {
            EpollTimeout::ZERO
        } else {
            self.timer.set(Expiration::OneShot(TimeSpec::from_duration(time)), TimerSetTimeFlags::empty())?;
            EpollTimeout::NONE
        };
        let count = match self.epoll.wait(&mut self.events, timeout) {
            Ok(count) => count,
            // A signal: whoever waits looks what it was.
            Err(nix::errno::Errno::EINTR) => 0,
            Err(why) => return Err(why.into()),
        };
        ready.extend(self.events[..count].iter().filter(|event| event.data() != TIMER).map(|event| Ready {
            token: event.data(),
            is_writable: event.events().intersects(EpollFlags::EPOLLOUT | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP),
        }));
        Ok(())
    }
}

fn flags(wants_write: bool) -> EpollFlags {
    if wants_write { EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN }
}

const TIMER: u64 = u64::MAX;
const EVENTS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_wait_ends_at_its_time_and_not_before() {
        let mut poll = Poll::new().expect("a poll");
        let mut ready = Vec::new();
        for micros in [300, 2500, 100] {
            let began = Instant::now();
            poll.wait(Duration::from_micros(micros), &mut ready).expect("a wait");
            assert!(began.elapsed() >= Duration::from_micros(micros) && ready.is_empty());
        }
        poll.wait(Duration::ZERO, &mut ready).expect("no wait");
    }
}
