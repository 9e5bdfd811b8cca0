//! How long a login at the server takes while the run goes on, with the first answers: what a pooler waits for when it opens a server.
//!
//! Always true: few logins a second, in a database of no tenant, so that no counter of the run knows of them.
//! Not here: logins of the applications (`book`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::load::{Driver, Ended, Lane, Login, LoginTimes, Order, Patience, Refused, Request, Step, Traffic};

/// A thread that logs in now and then.
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

impl Probe {
    pub(super) fn begin(login: Login) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut logins = Logins { next: 0, times: Vec::new() };
            let Ok(mut driver) = Driver::new(Patience { request_max: 10_000_000, drain_max: 0 }, 1) else {
                return Vec::new();
            };
            driver.add_lane(Lane {
                login: Arc::new(login),
                clients_max: 0,
                waiting_max: 0,
                requests_max: 1,
                idle_max: None,
                lifetime: None,
            });
            // What was measured before a failure is as good as ever.
            let _ = driver.play(&mut logins, &mut |_| !seen.load(Ordering::Relaxed));
            logins.times.sort_unstable();
            logins.times
        });
        Self { is_over, thread }
    }

    /// The times in microseconds, ascending.
    pub(super) fn end(self) -> Vec<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

struct Logins {
    next: u64,
    times: Vec<u64>,
}

impl Traffic for Logins {
    fn next_at(&self) -> Option<u64> {
        Some(self.next)
    }

    fn due(&mut self, _now: u64, orders: &mut Vec<Order>) {
        // As a pooler does it: the client's settings, then its statement.
        let steps = ["set application_name = 'simulate'", "begin", "commit"].map(|sql| Step::Ask(sql.into())).to_vec();
        orders.push(Order::Send(Request { at: self.next, lane: 0, tag: 0, steps }));
        self.next += PAUSE;
    }

    fn ended(&mut self, _now: u64, ended: &Ended) {
        if let (Some(answered), true) = (ended.first_answered, self.times.len() < TIMES_MAX) {
            self.times.push(answered - ended.passage.noticed);
        }
    }

    fn opened(&mut self, _lane: u32, _opened: Result<&LoginTimes, &Refused>) {}
}

/// Between two logins, in microseconds.
const PAUSE: u64 = 200_000;
const TIMES_MAX: usize = 1 << 18;
