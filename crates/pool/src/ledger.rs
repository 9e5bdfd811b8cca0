//! Limits that span workers, the side that counts: how many slots of a key each worker holds, and who waits for one.
//!
//! Always true: what the ledger has given out, spare slots and answers under way included, is within the limit of a key,
//! unless the limit was lowered or set below what is already there; then nothing is given until enough came home. Nobody
//! is denied while a slot is free or may lie spare in a worker's quota. Letters and answers between the ledger and one worker's quota
//! arrive in the order in which they were written.
//! Not here: the other side (`worker_quota`), who carries the letters (the workers).
//!
//! Two kinds of asks. A login has to know soon: it is answered yes or no, after spare slots of other workers have been
//! called back if that may help. A server can wait: it stands in line until a slot comes home, and everybody is told
//! that one is wanted, so that an idle server may be given up for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::WorkerId;

/// What a limit that spans workers counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LedgerKey {
    /// All clients of the process (`max_client_conn`).
    Clients,
    /// The clients of one user (`max_user_client_connections`).
    UserClients(Arc<str>),
    /// The servers of one user (`max_user_connections`).
    UserServers(Arc<str>),
}

/// A key without its user: what a default limit is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LedgerKind {
    /// Of [`LedgerKey::Clients`].
    Clients,
    /// Of [`LedgerKey::UserClients`].
    UserClients,
    /// Of [`LedgerKey::UserServers`].
    UserServers,
}

impl LedgerKey {
    /// What kind of key it is.
    #[must_use]
    pub fn kind(&self) -> LedgerKind {
        match self {
            Self::Clients => LedgerKind::Clients,
            Self::UserClients(_) => LedgerKind::UserClients,
            Self::UserServers(_) => LedgerKind::UserServers,
        }
    }
}

/// The limits of all keys; 0 is off.
#[derive(Debug, Default)]
pub(crate) struct KeyLimits {
    own: BTreeMap<LedgerKey, u32>,
    defaults: BTreeMap<LedgerKind, u32>,
}

impl KeyLimits {
    pub(crate) fn set(&mut self, key: LedgerKey, slots_max: u32) {
        self.own.insert(key, slots_max);
    }

    pub(crate) fn inherit(&mut self, key: &LedgerKey) {
        self.own.remove(key);
    }

    pub(crate) fn set_default(&mut self, kind: LedgerKind, slots_max: u32) {
        self.defaults.insert(kind, slots_max);
    }

    /// The limit of a key, if it has one.
    pub(crate) fn of(&self, key: &LedgerKey) -> Option<u32> {
        let set = self.own.get(key).or_else(|| self.defaults.get(&key.kind()));
        set.copied().filter(|slots_max| *slots_max > 0)
    }
}

/// Whether an ask may stand in line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// It is answered yes or no as soon as that is certain.
    Now,
    /// It waits until a slot comes back or it is withdrawn.
    Wait,
}

/// From a worker's quota to the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Letter {
    /// One slot for somebody, and up to so many in advance if there are plenty.
    Ask {
        /// Of what.
        key: LedgerKey,
        /// Whether it may stand in line.
        patience: Patience,
        /// Slots in advance.
        spare: u32,
    },
    /// Slots that were taken without asking, since the key had no limit.
    Took {
        /// Of what.
        key: LedgerKey,
        /// How many.
        slots: u32,
    },
    /// Slots come home.
    Give {
        /// Of what.
        key: LedgerKey,
        /// How many.
        slots: u32,
    },
    /// The answer to a recall: so many spare slots come home, perhaps none.
    Home {
        /// Of what.
        key: LedgerKey,
        /// How many.
        slots: u32,
    },
    /// The last ask of this worker that still stands in line need not be answered.
    Withdraw {
        /// Of what.
        key: LedgerKey,
    },
}

impl Letter {
    /// What it is about.
    #[must_use]
    pub fn key(&self) -> &LedgerKey {
        match self {
            Self::Ask { key, .. }
            | Self::Took { key, .. }
            | Self::Give { key, .. }
            | Self::Home { key, .. }
            | Self::Withdraw { key } => key,
        }
    }
}

/// From the ledger to a worker's quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// One slot for the first who asked like this, the others to spare.
    Granted {
        /// Of what.
        key: LedgerKey,
        /// How the ask was meant.
        patience: Patience,
        /// How many, at least 1.
        slots: u32,
    },
    /// Nothing for the first who asked for an answer now.
    Denied {
        /// Of what.
        key: LedgerKey,
    },
    /// Send spare slots home.
    Recall {
        /// Of what.
        key: LedgerKey,
    },
    /// Whether somebody waits in line for this key; said again after each grant while somebody does.
    Wanted {
        /// Of what.
        key: LedgerKey,
        /// Whether somebody waits.
        is_wanted: bool,
    },
}

/// The counting side; worker 0 owns it.
#[derive(Debug)]
pub struct Ledger {
    workers: u8,
    limits: KeyLimits,
    accounts: BTreeMap<LedgerKey, Account>,
}

/// What is out of one key. Keys of which nothing is out are forgotten.
#[derive(Debug)]
struct Account {
    /// What each worker holds or will hold when its answer arrives.
    slots: Vec<u32>,
    /// Which workers may have spare slots: they were granted some and not called back since.
    may_spare: Vec<bool>,
    /// How many recalls each worker has not yet answered. It may be called back again before it has answered, when slots
    /// came home meanwhile and it was granted some in advance again.
    recalls: Vec<u32>,
    /// Asks that want to know now.
    nows: VecDeque<Ask>,
    /// The line.
    waits: VecDeque<WorkerId>,
    /// Whether everybody was last told that somebody waits.
    is_wanted: bool,
    /// Whether slots have come home, or a place in the line was given up, since they were told.
    has_shrunk: bool,
}

#[derive(Debug)]
struct Ask {
    from: WorkerId,
    spare: u32,
}

impl Ledger {
    /// A ledger for so many workers, without any limit.
    #[must_use]
    pub fn new(workers: u8) -> Self {
        Self { workers, limits: KeyLimits::default(), accounts: BTreeMap::new() }
    }

    /// Changes the limit of a key; 0 is off. A lowered limit takes nothing away from who has it.
    pub fn set_limit(&mut self, key: LedgerKey, slots_max: u32, answers: &mut Vec<(WorkerId, Answer)>) {
        self.limits.set(key.clone(), slots_max);
        self.settle(&key, answers);
    }

    /// A key has no limit of its own any longer; that of its kind holds.
    pub fn inherit_limit(&mut self, key: &LedgerKey, answers: &mut Vec<(WorkerId, Answer)>) {
        self.limits.inherit(key);
        self.settle(key, answers);
    }

    /// Changes the limit of all keys of a kind that have none of their own; 0 is off.
    pub fn set_default(&mut self, kind: LedgerKind, slots_max: u32, answers: &mut Vec<(WorkerId, Answer)>) {
        self.limits.set_default(kind, slots_max);
        let keys: Vec<_> = self.accounts.keys().filter(|key| key.kind() == kind).cloned().collect();
        keys.iter().for_each(|key| self.settle(key, answers));
    }

    /// A letter of a worker's quota has come.
    pub fn handle(&mut self, from: WorkerId, letter: Letter, answers: &mut Vec<(WorkerId, Answer)>) {
        let key = letter.key().clone();
        let workers = usize::from(self.workers);
        let account = self.accounts.entry(key.clone()).or_insert_with(|| Account::new(workers));
        match letter {
            Letter::Ask { patience: Patience::Now, spare, .. } => account.nows.push_back(Ask { from, spare }),
            Letter::Ask { patience: Patience::Wait, .. } => account.waits.push_back(from),
            Letter::Withdraw { .. } => account.withdraw(from),
            Letter::Took { slots, .. } => account.slots[usize::from(from.0)] += slots,
            Letter::Give { slots, .. } => account.come_home(from, slots),
            Letter::Home { slots, .. } => {
                account.come_home(from, slots);
                let recalls = &mut account.recalls[usize::from(from.0)];
                *recalls = recalls.saturating_sub(1);
            }
        }
        self.settle(&key, answers);
    }

    /// Slots of a key that are out, those included that lie spare in a worker's quota.
    #[must_use]
    pub fn granted(&self, key: &LedgerKey) -> u32 {
        self.accounts.get(key).map_or(0, Account::granted)
    }

    /// Answers whom it can, in the order of the line.
    fn settle(&mut self, key: &LedgerKey, answers: &mut Vec<(WorkerId, Answer)>) {
        let Some(account) = self.accounts.get_mut(key) else { return };
        account.settle(key, self.limits.of(key), answers);
        if account.is_empty() {
            self.accounts.remove(key);
        }
    }
}

impl Account {
    fn new(workers: usize) -> Self {
        Self {
            slots: vec![0; workers],
            may_spare: vec![false; workers],
            recalls: vec![0; workers],
            nows: VecDeque::new(),
            waits: VecDeque::new(),
            is_wanted: false,
            has_shrunk: false,
        }
    }

    fn settle(&mut self, key: &LedgerKey, slots_max: Option<u32>, answers: &mut Vec<(WorkerId, Answer)>) {
        let was_wanted = self.is_wanted;
        let mut has_moved = false;
        while self.free(slots_max) > 0 {
            let Some(from) = self.waits.pop_front() else { break };
            has_moved = true;
            self.grant(key, from, Patience::Wait, 1, answers);
        }
        self.answer_nows(key, slots_max, answers);
        self.is_wanted = !self.waits.is_empty();
        // Said again after a grant, since the server that was given up for it is no longer owed by anybody; and when one that
        // came home was not enough, since more than the limit were out.
        let has_shrunk = std::mem::take(&mut self.has_shrunk);
        if self.is_wanted != was_wanted || (self.is_wanted && (has_moved || has_shrunk)) {
            let is_wanted = self.is_wanted;
            answers.extend(self.workers().map(|to| (to, Answer::Wanted { key: key.clone(), is_wanted })));
        }
    }

    /// Answers those who want to know now, unless spare slots that come home may help them.
    fn answer_nows(&mut self, key: &LedgerKey, slots_max: Option<u32>, answers: &mut Vec<(WorkerId, Answer)>) {
        let is_over = slots_max.is_some_and(|slots_max| self.granted() > slots_max);
        if is_over {
            self.recall(key, answers);
        }
        while let Some(ask) = self.nows.front() {
            let (from, free) = (ask.from, self.free(slots_max));
            if free > 0 {
                let plenty = (free - 1) / (2 * self.slots.len() as u32);
                let slots = 1 + ask.spare.min(plenty);
                self.grant(key, from, Patience::Now, slots, answers);
            } else {
                self.recall(key, answers);
                if self.is_recalling() {
                    return;
                }
                answers.push((from, Answer::Denied { key: key.clone() }));
            }
            self.nows.pop_front();
        }
    }

    fn grant(
        &mut self,
        key: &LedgerKey,
        to: WorkerId,
        patience: Patience,
        slots: u32,
        answers: &mut Vec<(WorkerId, Answer)>,
    ) {
        self.slots[usize::from(to.0)] += slots;
        self.may_spare[usize::from(to.0)] |= slots > 1;
        answers.push((to, Answer::Granted { key: key.clone(), patience, slots }));
    }

    /// Calls spare slots back from everybody who may have some.
    fn recall(&mut self, key: &LedgerKey, answers: &mut Vec<(WorkerId, Answer)>) {
        for to in self.workers() {
            let index = usize::from(to.0);
            if std::mem::take(&mut self.may_spare[index]) {
                self.recalls[index] += 1;
                answers.push((to, Answer::Recall { key: key.clone() }));
            }
        }
    }

    /// Takes the last ask of a worker out of the line. If there is none, its grant is on the way and the worker's quota will
    /// give it back.
    fn withdraw(&mut self, from: WorkerId) {
        if let Some(place) = self.waits.iter().rposition(|worker| *worker == from) {
            self.waits.remove(place);
            // What was closed for it may have been a server without a grant, which nobody brings home.
            self.has_shrunk = true;
        }
    }

    fn come_home(&mut self, from: WorkerId, slots: u32) {
        let held = &mut self.slots[usize::from(from.0)];
        debug_assert!(*held >= slots, "nobody gives back what is not out");
        *held = held.saturating_sub(slots);
        self.has_shrunk |= slots > 0;
    }

    fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.slots.len()).map(|index| WorkerId(index as u8))
    }

    fn granted(&self) -> u32 {
        self.slots.iter().sum()
    }

    fn free(&self, slots_max: Option<u32>) -> u32 {
        slots_max.unwrap_or(u32::MAX).saturating_sub(self.granted())
    }

    /// Whether spare slots may still come home.
    fn is_recalling(&self) -> bool {
        self.recalls.iter().any(|recalls| *recalls > 0)
    }

    fn is_empty(&self) -> bool {
        self.granted() == 0 && self.nows.is_empty() && self.waits.is_empty() && !self.is_recalling()
    }
}
