//! How much the generator can do on this machine, against a responder that answers at once.
//!
//! Always true: it is measured with as many connections as the run will have, so that what a connection costs is part of it.
//! Not here: what follows from it (`check`).

use std::io;
use std::sync::Arc;

use super::driver::Driver;
use super::null::NullResponder;
use super::request::{Effort, Ended, Lane, Order, Patience, Request, Step, Traffic};
use super::session::{LoginTimes, Refused};
use super::tally::Tally;

/// What the generator can do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Capability {
    /// Requests of one statement in a second.
    pub(crate) rate: f64,
    /// Processor time of the generator for a request, in microseconds.
    pub(crate) cpu: f64,
}

/// Measures it for so many microseconds, with users who ask as soon as they are answered.
pub(crate) fn capability(users: u32, micros: u64) -> io::Result<Capability> {
    let responder = NullResponder::start()?;
    let mut driver = Driver::new(Patience { request_max: 10_000_000, drain_max: 1_000_000 }, 1)?;
    driver.add_lane(Lane {
        login: Arc::new(responder.login()),
        clients_max: users,
        waiting_max: users as usize,
        requests_max: 0,
        idle_max: None,
        lifetime: None,
    });
    let mut crowd = Crowd { asking: users, until: micros, statement: "select 1".into(), tally: Tally::new(u64::MAX) };
    let effort: Effort = driver.play(&mut crowd, &mut |_| true)?;
    let done = crowd.tally.done.max(1) as f64;
    Ok(Capability { rate: done / effort.wall.max(1) as f64 * 1e6, cpu: effort.cpu as f64 / done })
}

/// Users who ask as soon as they are answered.
struct Crowd {
    /// How many are about to ask.
    asking: u32,
    until: u64,
    statement: Arc<str>,
    tally: Tally,
}

impl Traffic for Crowd {
    fn next_at(&self) -> Option<u64> {
        (self.asking > 0).then_some(0)
    }

    fn due(&mut self, now: u64, orders: &mut Vec<Order>) {
        for _ in 0..std::mem::take(&mut self.asking) {
            let steps = vec![Step::Ask(self.statement.clone())];
            orders.push(Order::Send(Request { at: now, lane: 0, tag: 0, steps }));
        }
    }

    fn ended(&mut self, now: u64, ended: &Ended) {
        self.tally.note(&ended.passage);
        self.asking += u32::from(now < self.until);
    }

    fn opened(&mut self, _lane: u32, _opened: Result<&LoginTimes, &Refused>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figure itself depends on the machine, and on how the test was built: an optimised build does more than 50,000 a second here.
    #[test]
    fn the_generator_knows_what_it_can_do() {
        let found = capability(8, 200_000).expect("a measurement");
        println!("{found:?}");
        assert!(found.rate > 1000.0 && found.cpu > 0.0 && found.cpu < 1000.0, "{found:?}");
    }
}
