//! Whoever waits first is served first: how often a waiting application is overtaken.
//!
//! Always true: only what a worker has read counts as said, and only what it has given to a server counts as served; who is
//! overtaken a few times is not accused, since the order in which servers are given away is not quite that of service.
//! Not here: whether anybody is served at all (`checks`).

use std::collections::BTreeMap;

use crate::app::{App, Stage};
use crate::checks::witness::{Charge, Witness};
use crate::postgres::sql::Nonce;
use crate::sim::net::Net;

/// Who waits, since which turn, and how often they were overtaken.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    is_on: bool,
    /// How often somebody may be overtaken.
    overtaken_max: u32,
    turn: u64,
    waiting: BTreeMap<u32, Wait>,
    /// The last request of each application that went to a server.
    served: BTreeMap<u32, Nonce>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    /// For what.
    nonce: Nonce,
    since: u64,
    overtaken: u32,
}

impl Fairness {
    pub(crate) fn new(is_on: bool, follows_state: bool) -> Self {
        let overtaken_max = if follows_state { OVERTAKEN_MAX_FOLLOWING } else { OVERTAKEN_MAX };
        Self { is_on, overtaken_max, ..Self::default() }
    }

    /// Whether it looks at all.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// After a worker's turn: whose requests it has read, and whose it has sent to a server.
    pub(crate) fn look(&mut self, apps: &[App], net: &Net, sent: &[u32], witness: &mut Witness) {
        self.turn += 1;
        for &app in sent {
            if let Some(request) = apps[app as usize].asked.front() {
                self.served.insert(app, request.nonce);
            }
            let Some(served) = self.waiting.remove(&app) else { continue };
            let person = &apps[app as usize].person;
            for (&other, wait) in &mut self.waiting {
                let theirs = &apps[other as usize].person;
                if wait.since < served.since && theirs.database == person.database && theirs.user == person.user {
                    wait.overtaken += 1;
                    if wait.overtaken > self.overtaken_max {
                        let text = format!("application {other} waits, and {app}, who came later, is served");
                        witness.accuse(Charge::NotServed, text);
                    }
                }
            }
        }
        let asked = |app: &App| app.asked.front().map(|request| request.nonce);
        self.waiting.retain(|&app, wait| {
            let app = &apps[app as usize];
            // Whoever has been refused may not have heard it yet.
            let is_refused = app.end.is_none_or(|end| net.end(end ^ 1).is_closed);
            app.is_waiting() && !is_refused && asked(app) == Some(wait.nonce)
        });
        for app in apps.iter().filter(|app| app.is_waiting() && matches!(app.stage, Stage::Ready)) {
            let (Some(end), Some(nonce)) = (app.end, asked(app)) else { continue };
            let is_served = self.served.get(&app.number) == Some(&nonce);
            if !is_served && !self.waiting.contains_key(&app.number) && net.is_heard(end) {
                self.waiting.insert(app.number, Wait { nonce, since: self.turn, overtaken: 0 });
            }
        }
    }
}

/// Who is next may have to wait while its server, a new one, takes over parameters, and others are served meanwhile: three times is
/// seldom, nine times was seen in one of some hundred thousand worlds (seed 8003369, where a SET took as long as nine queries), and seventeen once
/// (seed 931040: its server had just logged in, and took 1.4 ms to be told its parameters, while five others did a transaction each in 0.2 ms).
const OVERTAKEN_MAX: u32 = 32;
/// The same where a server may have to be told what its client has set, too (seed 1781), and where each of the servers before which it waits may do 8
/// transactions in a row for each of those who wait before it (seed 640020751).
const OVERTAKEN_MAX_FOLLOWING: u32 = 320;
