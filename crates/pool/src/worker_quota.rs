//! Limits that span workers, the spending side: one quota for each worker.
//!
//! Always true: a slot is taken only if the key has no limit or the ledger has granted it. Claims of the same patience
//! are answered in the order in which they were made. Returned slots go back to the ledger, except for a few that are kept
//! for the next logins while the ledger has plenty.
//! Not here: the slots of other workers (`ledger`).

use std::collections::{BTreeMap, VecDeque};

use crate::ledger::KeyLimits;
use crate::planted::{is_used, keep_account};
use crate::{Answer, LedgerKey, LedgerKind, Letter, Patience};

/// The requester of a slot, as a number of the caller's choice.
pub type Claimant = u64;

/// The immediate result of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The slot is taken.
    Took,
    /// The ledger has to be asked; [`WorkerQuota::handle`] yields its answer.
    Asked,
}

/// The meaning of a ledger's answer for this worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The slot is taken for the claimant.
    Granted {
        /// The key.
        key: LedgerKey,
        /// The claimant.
        claimant: Claimant,
        /// The patience of the claim.
        patience: Patience,
    },
    /// The claimant gets no slot.
    Denied {
        /// The key.
        key: LedgerKey,
        /// The claimant.
        claimant: Claimant,
    },
    /// Whether any worker waits in line for a slot of this key.
    Wanted {
        /// The key.
        key: LedgerKey,
        /// Whether a worker waits.
        is_wanted: bool,
    },
}

/// The slots that one worker holds.
#[derive(Debug, Default)]
pub struct WorkerQuota {
    limits: KeyLimits,
    accounts: BTreeMap<LedgerKey, Account>,
}

/// The slots and open claims of one key. An account is removed when it is empty.
#[derive(Debug, Default)]
struct Account {
    held: u32,
    spare: u32,
    /// Whether returned slots may be kept: from a grant of several slots until the ledger recalls them.
    may_keep: bool,
    /// Open claims of [`Patience::Now`]; `None` stands for a withdrawn claim whose answer has not arrived yet.
    nows: VecDeque<Option<Claimant>>,
    waits: VecDeque<Claimant>,
}

impl WorkerQuota {
    /// Returns an empty quota without limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limit of a key, to the same value as in the ledger; with 0 (off) the ledger is not asked.
    pub fn set_limit(&mut self, key: LedgerKey, slots_max: u32) {
        keep_account(&mut self.accounts, &key);
        self.limits.set(key, slots_max);
    }

    /// Removes a key's own limit; the default limit of its kind applies from now on.
    pub fn inherit_limit(&mut self, key: &LedgerKey) {
        self.limits.inherit(key);
    }

    /// Sets the default limit of a kind, which applies to keys without an own limit.
    pub fn set_default(&mut self, kind: LedgerKind, slots_max: u32) {
        self.limits.set_default(kind, slots_max);
    }

    /// Takes one slot for the claimant, or asks the ledger for it.
    pub fn take(
        &mut self,
        key: &LedgerKey,
        claimant: Claimant,
        patience: Patience,
        letters: &mut Vec<Letter>,
    ) -> Taken {
        let is_limited = self.limits.of(key).is_some();
        let account = self.accounts.entry(key.clone()).or_default();
        let is_first = account.nows.is_empty();
        if is_first && account.spare > 0 {
            account.spare -= 1;
            account.held += 1;
            return Taken::Took;
        }
        if !is_limited {
            account.held += 1;
            letters.push(Letter::Took { key: key.clone(), slots: 1 });
            return Taken::Took;
        }
        match patience {
            Patience::Now => account.nows.push_back(Some(claimant)),
            Patience::Wait => account.waits.push_back(claimant),
        }
        let is_batched = is_first && key.kind() == LedgerKind::Clients;
        letters.push(Letter::Ask { key: key.clone(), patience, spare: if is_batched { SPARE_MAX } else { 0 } });
        Taken::Asked
    }

    /// Gives back one slot that was taken.
    pub fn give(&mut self, key: &LedgerKey, letters: &mut Vec<Letter>) {
        let Some(account) = self.accounts.get_mut(key) else { return };
        debug_assert!(account.held > 0, "nobody gives back what was not taken");
        if account.held == 0 {
            return;
        }
        account.held -= 1;
        account.keep(1, key, letters);
        self.tidy(key);
    }

    /// Withdraws a claim. Returns false if the claimant does not wait; it then has its slot and must give it back.
    pub fn withdraw(&mut self, key: &LedgerKey, claimant: Claimant, letters: &mut Vec<Letter>) -> bool {
        let Some(account) = self.accounts.get_mut(key) else { return false };
        if let Some(place) = account.waits.iter().rposition(|waiting| *waiting == claimant) {
            account.waits.remove(place);
            letters.push(Letter::Withdraw { key: key.clone() });
            self.tidy(key);
            return true;
        }
        let asked = account.nows.iter_mut().find(|waiting| **waiting == Some(claimant));
        asked.and_then(Option::take).is_some()
    }

    /// Whether a claim of [`Patience::Now`] still waits for the ledger's answer.
    #[must_use]
    pub fn is_asking(&self, key: &LedgerKey, claimant: Claimant) -> bool {
        self.accounts.get(key).is_some_and(|account| account.nows.contains(&Some(claimant)))
    }

    /// Handles an answer of the ledger.
    pub fn handle(&mut self, answer: Answer, outcomes: &mut Vec<Outcome>, letters: &mut Vec<Letter>) {
        match answer {
            Answer::Granted { key, patience, slots } => self.granted(key, patience, slots, outcomes, letters),
            Answer::Denied { key } => {
                let account = self.accounts.get_mut(&key);
                let claimant = account.and_then(|account| account.nows.pop_front()).flatten();
                self.tidy(&key);
                if let Some(claimant) = claimant {
                    outcomes.push(Outcome::Denied { key, claimant });
                }
            }
            Answer::Recall { key } => {
                let slots = self.accounts.get_mut(&key).map_or(0, Account::empty_out);
                self.tidy(&key);
                letters.push(Letter::Home { key, slots });
            }
            Answer::Wanted { key, is_wanted } => outcomes.push(Outcome::Wanted { key, is_wanted }),
        }
    }

    /// How many slots of a key are taken on this worker.
    #[must_use]
    pub fn held(&self, key: &LedgerKey) -> u32 {
        self.accounts.get(key).map_or(0, |account| account.held)
    }

    /// How many slots of a key are kept for the next claims.
    #[must_use]
    pub fn spare(&self, key: &LedgerKey) -> u32 {
        self.accounts.get(key).map_or(0, |account| account.spare)
    }

    fn granted(
        &mut self,
        key: LedgerKey,
        patience: Patience,
        slots: u32,
        outcomes: &mut Vec<Outcome>,
        letters: &mut Vec<Letter>,
    ) {
        let account = self.accounts.entry(key.clone()).or_default();
        account.may_keep |= slots > 1;
        let claimant = match patience {
            Patience::Now => account.nows.pop_front().flatten(),
            Patience::Wait => account.waits.pop_front(),
        };
        account.keep(slots - u32::from(is_used(claimant.is_some())), &key, letters);
        if let Some(claimant) = claimant {
            account.held += 1;
            outcomes.push(Outcome::Granted { key: key.clone(), claimant, patience });
        }
        self.tidy(&key);
    }

    fn tidy(&mut self, key: &LedgerKey) {
        if self.accounts.get(key).is_some_and(Account::is_empty) {
            self.accounts.remove(key);
        }
    }
}

impl Account {
    /// Keeps unneeded slots as far as allowed, and returns the rest to the ledger.
    fn keep(&mut self, slots: u32, key: &LedgerKey, letters: &mut Vec<Letter>) {
        let room = if self.may_keep { SPARE_MAX.saturating_sub(self.spare) } else { 0 };
        let kept = slots.min(room);
        self.spare += kept;
        if slots > kept {
            letters.push(Letter::Give { key: key.clone(), slots: slots - kept });
        }
    }

    /// Takes out all spare slots.
    fn empty_out(&mut self) -> u32 {
        self.may_keep = false;
        std::mem::take(&mut self.spare)
    }

    fn is_empty(&self) -> bool {
        self.held == 0 && self.spare == 0 && !self.may_keep && self.nows.is_empty() && self.waits.is_empty()
    }
}

/// How many slots a worker may keep for its next logins.
const SPARE_MAX: u32 = 8;
