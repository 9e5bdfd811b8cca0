//! `max_user_connections`: the production ledger and the quota of its only worker, so that limits of users are as exact here as there.
//!
//! Always true: letters arrive at once, in their order.
//! Not here: what the pools do with a grant.

use std::collections::{BTreeMap, VecDeque};

use base::WorkerId;
use pool::{Event, Ledger, LedgerKey, Letter, Need, Outcome, Patience, Taken, WorkerQuota};

/// The slots of all users.
#[derive(Debug)]
pub(super) struct Quota {
    ledger: Ledger,
    own: WorkerQuota,
    keys: BTreeMap<u32, LedgerKey>,
}

impl Quota {
    pub(super) fn new() -> Self {
        Self { ledger: Ledger::new(1), own: WorkerQuota::new(), keys: BTreeMap::new() }
    }

    /// Sets the limit of a user.
    pub(super) fn limit(&mut self, user: u32, most: u32) {
        let key = LedgerKey::UserServers(user.to_string().into());
        self.ledger.set_limit(key.clone(), most, &mut Vec::new());
        self.own.set_limit(key.clone(), most);
        self.keys.insert(user, key);
    }

    /// A pool asks for a server of a user. What the pools are to be told.
    pub(super) fn ask(&mut self, user: u32, need: Need) -> Vec<Event> {
        let patience = if need == Need::Client { Patience::Wait } else { Patience::Now };
        let Some(key) = self.keys.get(&user) else { return vec![Event::Granted { user, need }] };
        let mut letters = Vec::new();
        match self.own.take(key, claim(user, need), patience, &mut letters) {
            Taken::Took => [vec![Event::Granted { user, need }], self.send(letters)].concat(),
            Taken::Asked => self.send(letters),
        }
    }

    pub(super) fn withdraw(&mut self, user: u32) -> Vec<Event> {
        let Some(key) = self.keys.get(&user) else { return Vec::new() };
        let mut letters = Vec::new();
        if !self.own.withdraw(key, claim(user, Need::Client), &mut letters) {
            self.own.give(key, &mut letters);
        }
        self.send(letters)
    }

    pub(super) fn give_back(&mut self, user: u32) -> Vec<Event> {
        let Some(key) = self.keys.get(&user) else { return Vec::new() };
        let mut letters = Vec::new();
        self.own.give(key, &mut letters);
        self.send(letters)
    }

    fn send(&mut self, letters: Vec<Letter>) -> Vec<Event> {
        let (mut letters, mut events) = (VecDeque::from(letters), Vec::new());
        while let Some(letter) = letters.pop_front() {
            let (mut answers, mut outcomes, mut more) = (Vec::new(), Vec::new(), Vec::new());
            self.ledger.handle(WorkerId(0), letter, &mut answers);
            for (_, answer) in answers {
                self.own.handle(answer, &mut outcomes, &mut more);
            }
            letters.extend(more);
            events.extend(outcomes.iter().filter_map(event_of));
        }
        events
    }
}

fn claim(user: u32, need: Need) -> u64 {
    u64::from(user) << 1 | u64::from(need == Need::Minimum)
}

fn event_of(outcome: &Outcome) -> Option<Event> {
    let read = |claim: u64| ((claim >> 1) as u32, if claim & 1 == 1 { Need::Minimum } else { Need::Client });
    Some(match outcome {
        Outcome::Granted { claimant, .. } => {
            let (user, need) = read(*claimant);
            Event::Granted { user, need }
        }
        Outcome::Denied { claimant, .. } => Event::Denied { user: read(*claimant).0 },
        Outcome::Wanted { key: LedgerKey::UserServers(name), is_wanted } => {
            Event::Wanted { user: name.parse().ok()?, is_wanted: *is_wanted }
        }
        Outcome::Wanted { .. } => return None,
    })
}
