//! Limits that span workers, the side that spends: one quota for each worker.
//!
//! Always true: a slot is taken only if the key has no limit or the ledger has granted it. Claims of the same patience
//! are answered in the order in which they were made. What comes back goes home, except for a few slots that are kept
//! for the next logins while the ledger has plenty.
//! Not here: who else holds slots (`ledger`).

use std::collections::{BTreeMap, VecDeque};

use crate::ledger::KeyLimits;
use crate::planted::{is_used, keep_account};
use crate::{Answer, LedgerKey, LedgerKind, Letter, Patience};

/// Whoever asked for a slot, in a number of the caller's choice.
pub type Claimant = u64;

/// What became of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is taken.
    Took,
    /// The ledger has to be asked; [`WorkerQuota::handle`] will tell.
    Asked,
}

/// What the ledger's answer means here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The slot is taken for the claimant.
    Granted {
        /// Of what.
        key: LedgerKey,
        /// For whom.
        claimant: Claimant,
        /// How it was asked for.
        patience: Patience,
    },
    /// There is none for the claimant.
    Denied {
        /// Of what.
        key: LedgerKey,
        /// For whom.
        claimant: Claimant,
    },
    /// Whether somebody, on whichever worker, waits in line for a slot of this key.
    Wanted {
        /// Of what.
        key: LedgerKey,
        /// Whether somebody waits.
        is_wanted: bool,
    },
}

/// The slots that this worker holds.
#[derive(Debug, Default)]
pub struct WorkerQuota {
    limits: KeyLimits,
    accounts: BTreeMap<LedgerKey, Account>,
}

/// What is held of one key. Keys of which nothing is held are forgotten.
#[derive(Debug, Default)]
struct Account {
    held: u32,
    spare: u32,
    /// Whether slots that come back may be kept: from a grant of several until the ledger calls them back.
    may_keep: bool,
    /// Claims that want to know now; `None` for one that was withdrawn, whose answer is still to come.
    nows: VecDeque<Option<Claimant>>,
    waits: VecDeque<Claimant>,
}

impl WorkerQuota {
    /// A worker_quota with nothing in it, without any limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the limit of a key, as the ledger is told; 0 is off, and the ledger is not asked.
    pub fn set_limit(&mut self, key: LedgerKey, slots_max: u32) {
        keep_account(&mut self.accounts, &key);
        self.limits.set(key, slots_max);
    }

    /// A key has no limit of its own any longer; that of its kind holds.
    pub fn inherit_limit(&mut self, key: &LedgerKey) {
        self.limits.inherit(key);
    }

    /// Tells the limit of all keys of a kind that have none of their own.
    pub fn set_default(&mut self, kind: LedgerKind, slots_max: u32) {
        self.limits.set_default(kind, slots_max);
    }

    /// Takes one slot for the claimant, or asks for it.
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

    /// Gives one slot back that was taken.
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

    /// The claimant no longer waits for an answer. Whether it did; if not, it has its slot and gives it back.
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

    /// Whether the ledger's answer to a claim that wants to know now is still to come.
    #[must_use]
    pub fn is_asking(&self, key: &LedgerKey, claimant: Claimant) -> bool {
        self.accounts.get(key).is_some_and(|account| account.nows.contains(&Some(claimant)))
    }

    /// An answer of the ledger has come.
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

    /// Slots of a key that are taken on this worker.
    #[must_use]
    pub fn held(&self, key: &LedgerKey) -> u32 {
        self.accounts.get(key).map_or(0, |account| account.held)
    }

    /// Slots of a key that are kept for the next claims.
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
    /// Keeps slots that are not needed as far as they may be kept, and sends the rest home.
    fn keep(&mut self, slots: u32, key: &LedgerKey, letters: &mut Vec<Letter>) {
        let room = if self.may_keep { SPARE_MAX.saturating_sub(self.spare) } else { 0 };
        let kept = slots.min(room);
        self.spare += kept;
        if slots > kept {
            letters.push(Letter::Give { key: key.clone(), slots: slots - kept });
        }
    }

    /// Lets go of what is spare.
    fn empty_out(&mut self) -> u32 {
        self.may_keep = false;
        std::mem::take(&mut self.spare)
    }

    fn is_empty(&self) -> bool {
        self.held == 0 && self.spare == 0 && !self.may_keep && self.nows.is_empty() && self.waits.is_empty()
    }
}

/// Slots that a worker may keep in advance of its next logins.
const SPARE_MAX: u32 = 8;
