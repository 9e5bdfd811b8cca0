//! Limits that span workers, the counting side: how many slots of a key each worker holds, and which workers wait for one.
//!
//! Always true: the slots that the ledger has granted, including spare slots and answers in transit, are within the limit of
//! a key, unless the limit was lowered or set below what was already granted; then nothing is granted until enough slots
//! are returned. No ask is denied while a slot is free or may be spare in a worker's quota. Letters and answers between the
//! ledger and one worker's quota arrive in the order in which they were sent.
//! Not here: the other side (`worker_quota`), the transport of letters (crate `worker`).
//!
//! There are two kinds of asks. A login needs a quick answer: it is granted or denied, after spare slots of other workers
//! have been recalled if that may help. A server can wait: its ask stands in line until a slot is returned, and all workers
//! are told that a slot is wanted, so that one of them may close an idle server.

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

/// A key without its user: what a default limit applies to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LedgerKind {
    /// The kind of [`LedgerKey::Clients`].
    Clients,
    /// The kind of [`LedgerKey::UserClients`].
    UserClients,
    /// The kind of [`LedgerKey::UserServers`].
    UserServers,
}

impl LedgerKey {
    /// The kind of the key.
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
    /// The ask is granted or denied as soon as the answer is certain.
    Now,
    /// The ask waits until it is granted or withdrawn.
    Wait,
}

/// A message from a worker's quota to the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Letter {
    /// Asks for one slot, and for up to `spare` more in advance if there are plenty.
    Ask {
        /// The key.
        key: LedgerKey,
        /// Whether the ask may stand in line.
        patience: Patience,
        /// How many slots in advance.
        spare: u32,
    },
    /// Reports slots that were taken without asking, because the key had no limit.
    Took {
        /// The key.
        key: LedgerKey,
        /// How many.
        slots: u32,
    },
    /// Returns slots.
    Give {
        /// The key.
        key: LedgerKey,
        /// How many.
        slots: u32,
    },
    /// Answers a recall: returns all spare slots, perhaps none.
    Home {
        /// The key.
        key: LedgerKey,
        /// How many.
        slots: u32,
    },
    /// Withdraws the last ask of this worker that still stands in line.
    Withdraw {
        /// The key.
        key: LedgerKey,
    },
}

impl Letter {
    /// The key of the letter.
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

/// A message from the ledger to a worker's quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Grants one slot for the worker's first ask of this patience, and spare slots beyond it.
    Granted {
        /// The key.
        key: LedgerKey,
        /// The patience of the ask.
        patience: Patience,
        /// How many, at least 1.
        slots: u32,
    },
    /// Denies the worker's first ask of [`Patience::Now`].
    Denied {
        /// The key.
        key: LedgerKey,
    },
    /// Recalls spare slots.
    Recall {
        /// The key.
        key: LedgerKey,
    },
    /// Tells whether any worker waits in line for this key; repeated after each grant while one does.
    Wanted {
        /// The key.
        key: LedgerKey,
        /// Whether a worker waits.
        is_wanted: bool,
    },
}

/// The counting side, owned by worker 0.
#[derive(Debug)]
pub struct Ledger {
    workers: u8,
    limits: KeyLimits,
    accounts: BTreeMap<LedgerKey, Account>,
}

/// The granted slots and the open asks of one key. An account is removed when it is empty.
#[derive(Debug)]
struct Account {
    /// How many slots each worker holds, or will hold when the answers in transit have arrived.
    slots: Vec<u32>,
    /// Which workers may have spare slots: they were granted some, and those have not been recalled since.
    may_spare: Vec<bool>,
    /// How many recalls each worker has not answered yet. A second recall may follow before the first is answered, if slots
    /// were returned and the worker was granted spare ones again in the meantime.
    recalls: Vec<u32>,
    /// Open asks of [`Patience::Now`].
    nows: VecDeque<Ask>,
    /// The line: open asks of [`Patience::Wait`].
    waits: VecDeque<WorkerId>,
    /// Whether the workers were last told that a slot is wanted.
    is_wanted: bool,
    /// Whether slots were returned, or an ask was withdrawn, since the workers were last told.
    has_shrunk: bool,
}

#[derive(Debug)]
struct Ask {
    from: WorkerId,
    spare: u32,
}

impl Ledger {
    /// Returns a ledger for this number of workers, without limits.
    #[must_use]
    pub fn new(workers: u8) -> Self {
        Self { workers, limits: KeyLimits::default(), accounts: BTreeMap::new() }
    }

    /// Changes the limit of a key; 0 is off. A lowered limit takes no granted slot away.
    pub fn set_limit(&mut self, key: LedgerKey, slots_max: u32, answers: &mut Vec<(WorkerId, Answer)>) {
        self.limits.set(key.clone(), slots_max);
        self.settle(&key, answers);
    }

    /// Removes a key's own limit; the default limit of its kind applies from now on.
    pub fn inherit_limit(&mut self, key: &LedgerKey, answers: &mut Vec<(WorkerId, Answer)>) {
        self.limits.inherit(key);
        self.settle(key, answers);
    }

    /// Changes the default limit of a kind, which applies to keys without an own limit; 0 is off.
    pub fn set_default(&mut self, kind: LedgerKind, slots_max: u32, answers: &mut Vec<(WorkerId, Answer)>) {
        self.limits.set_default(kind, slots_max);
        let keys: Vec<_> = self.accounts.keys().filter(|key| key.kind() == kind).cloned().collect();
        keys.iter().for_each(|key| self.settle(key, answers));
    }

    /// Handles a letter from a worker's quota.
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

    /// How many slots of a key are granted, including spare ones in workers' quotas.
    #[must_use]
    pub fn granted(&self, key: &LedgerKey) -> u32 {
        self.accounts.get(key).map_or(0, Account::granted)
    }

    /// Answers the asks that can be answered, in their order.
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
        // Repeated after a grant, because no worker owes another server after closing one for that grant; and after a returned
        // slot that was not enough, because more slots than the limit were granted.
        let has_shrunk = std::mem::take(&mut self.has_shrunk);
        if self.is_wanted != was_wanted || (self.is_wanted && (has_moved || has_shrunk)) {
            let is_wanted = self.is_wanted;
            answers.extend(self.workers().map(|to| (to, Answer::Wanted { key: key.clone(), is_wanted })));
        }
    }

    /// Answers the asks of [`Patience::Now`], unless recalled spare slots may still help them.
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

    /// Recalls spare slots from every worker that may have some.
    fn recall(&mut self, key: &LedgerKey, answers: &mut Vec<(WorkerId, Answer)>) {
        for to in self.workers() {
            let index = usize::from(to.0);
            if std::mem::take(&mut self.may_spare[index]) {
                self.recalls[index] += 1;
                answers.push((to, Answer::Recall { key: key.clone() }));
            }
        }
    }

    /// Takes the last ask of a worker out of the line. If there is none, its grant is in transit and the worker's quota will
    /// return it.
    fn withdraw(&mut self, from: WorkerId) {
        if let Some(place) = self.waits.iter().rposition(|worker| *worker == from) {
            self.waits.remove(place);
            // The server that was closed for this ask may have had no grant, so that no slot is returned for it.
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

    /// Whether a recall is unanswered, so that spare slots may still be returned.
    fn is_recalling(&self) -> bool {
        self.recalls.iter().any(|recalls| *recalls > 0)
    }

    fn is_empty(&self) -> bool {
        self.granted() == 0 && self.nows.is_empty() && self.waits.is_empty() && !self.is_recalling()
    }
}
