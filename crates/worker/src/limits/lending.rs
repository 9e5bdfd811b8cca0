//! This worker's part in the limits of the process: its quota, and on worker 0 the ledger.
//!
//! Always true: the ledger is asked by letter, on worker 0 directly; it answers by letter also on worker 0, because
//! whoever asked is still at work.
//! Not here: how the ledger shares out slots (`pool::ledger`); what a slot is for, and what an outcome means
//! (`shared_slots`).

use std::sync::Arc;

use base::WorkerId;
use pool::{Answer, Ledger, LedgerKey, LedgerKind, Letter, Outcome, Patience, Taken, WorkerQuota};
use reactor::Io;

use crate::hands::Hands;
use crate::letters::ToWorker;

/// Slots that workers share.
#[derive(Debug)]
pub(super) struct Lending {
    worker_quota: WorkerQuota,
    /// Only on worker 0.
    ledger: Option<Ledger>,
    /// Users with limits of their own, from `[users]`.
    own: Vec<Arc<str>>,
}

impl Lending {
    /// Without any limit.
    pub(super) fn new(id: WorkerId, workers: u8) -> Self {
        let ledger = (id.0 == 0).then(|| Ledger::new(workers));
        Self { worker_quota: WorkerQuota::new(), ledger, own: Vec::new() }
    }

    /// Passes the limits that are in force to the ledger and to this worker's quota.
    pub(super) fn limit<I: Io>(&mut self, hands: &Hands<I>) {
        let settings = &hands.active.settings;
        let mut answers = Vec::new();
        let mut keyed = vec![(LedgerKey::Clients, settings.max_client_conn)];
        for name in settings.users.keys() {
            let clients = settings.max_user_client_connections(name).unwrap_or(0);
            let servers = settings.max_user_connections(name).unwrap_or(0);
            keyed.push((LedgerKey::UserClients(name.clone()), clients));
            keyed.push((LedgerKey::UserServers(name.clone()), servers));
        }
        let kinds = [
            (LedgerKind::UserClients, settings.max_user_client_connections),
            (LedgerKind::UserServers, settings.max_user_connections),
        ];
        for (kind, slots_max) in kinds {
            self.worker_quota.set_default(kind, slots_max);
            if let Some(ledger) = &mut self.ledger {
                ledger.set_default(kind, slots_max, &mut answers);
            }
        }
        // Users that were removed from [users] have the default limits again.
        for name in std::mem::take(&mut self.own).iter().filter(|name| !settings.users.contains_key(*name)) {
            for key in [LedgerKey::UserClients(name.clone()), LedgerKey::UserServers(name.clone())] {
                self.worker_quota.inherit_limit(&key);
                if let Some(ledger) = &mut self.ledger {
                    ledger.inherit_limit(&key, &mut answers);
                }
            }
        }
        self.own = settings.users.keys().cloned().collect();
        for (key, slots_max) in keyed {
            self.worker_quota.set_limit(key.clone(), slots_max);
            if let Some(ledger) = &mut self.ledger {
                ledger.set_limit(key, slots_max, &mut answers);
            }
        }
        send_answers(answers, hands);
    }

    /// Whether the ledger is being asked for a slot for this claimant.
    pub(super) fn is_asking(&self, key: &LedgerKey, claimant: u64) -> bool {
        self.worker_quota.is_asking(key, claimant)
    }

    /// Takes a slot. If it cannot be had at once, the ledger answers.
    pub(super) fn take<I: Io>(
        &mut self,
        key: &LedgerKey,
        claimant: u64,
        patience: Patience,
        hands: &Hands<I>,
    ) -> Taken {
        let mut letters = Vec::new();
        let taken = self.worker_quota.take(key, claimant, patience, &mut letters);
        self.send_letters(letters, hands);
        taken
    }

    /// Gives a slot back.
    pub(super) fn give<I: Io>(&mut self, key: &LedgerKey, hands: &Hands<I>) {
        let mut letters = Vec::new();
        self.worker_quota.give(key, &mut letters);
        self.send_letters(letters, hands);
    }

    /// The claimant needs no slots any more. An answer that is on its way already is given back when it comes.
    pub(super) fn withdraw<I: Io>(&mut self, keys: &[LedgerKey], claimant: u64, hands: &Hands<I>) {
        let mut letters = Vec::new();
        for key in keys {
            self.worker_quota.withdraw(key, claimant, &mut letters);
        }
        self.send_letters(letters, hands);
    }

    /// Handles a letter from another worker to the ledger.
    pub(super) fn ledger_hears<I: Io>(&mut self, from: WorkerId, letter: Letter, hands: &Hands<I>) {
        let mut answers = Vec::new();
        if let Some(ledger) = &mut self.ledger {
            ledger.handle(from, letter, &mut answers);
        }
        send_answers(answers, hands);
    }

    /// Handles an answer of the ledger. Returns what follows from it.
    pub(super) fn hears<I: Io>(&mut self, answer: Answer, hands: &Hands<I>) -> Vec<Outcome> {
        let (mut outcomes, mut letters) = (Vec::new(), Vec::new());
        self.worker_quota.handle(answer, &mut outcomes, &mut letters);
        self.send_letters(letters, hands);
        outcomes
    }

    fn send_letters<I: Io>(&mut self, letters: Vec<Letter>, hands: &Hands<I>) {
        for letter in letters {
            match &self.ledger {
                Some(_) => self.ledger_hears(hands.id, letter, hands),
                None => (hands.posts.workers[0])(ToWorker::Ledger { from: hands.id, letter }),
            }
        }
    }
}

fn send_answers<I: Io>(answers: Vec<(WorkerId, Answer)>, hands: &Hands<I>) {
    for (worker, answer) in answers {
        (hands.posts.workers[usize::from(worker.0)])(ToWorker::WorkerQuota(answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::still::{Letters, StillHands, configure};

    const LIMITED: &str =
        "[users]\nann = max_user_client_connections=1\n[pgbouncer]\nauth_type=any\nmax_client_conn=2\n";
    const UNLIMITED: &str = "[pgbouncer]\nauth_type=any\nmax_client_conn=2\n";

    /// The parts of two workers, and their hands.
    struct LendingTest([(Lending, StillHands); 2]);

    impl LendingTest {
        fn with(settings: &str) -> Self {
            let worker = |number: u8| {
                let mut still = StillHands::with(settings, 2);
                still.hands.id = WorkerId(number);
                let mut lending = Lending::new(still.hands.id, 2);
                lending.limit(&still.hands);
                (lending, still)
            };
            Self([worker(0), worker(1)])
        }

        fn reload(&mut self, settings: &str) {
            for (lending, still) in &mut self.0 {
                configure(&mut still.hands, settings);
                lending.limit(&still.hands);
            }
        }

        fn takes(&mut self, worker: usize, key: &LedgerKey, claimant: u64) -> Taken {
            let (lending, still) = &mut self.0[worker];
            lending.take(key, claimant, Patience::Now, &still.hands)
        }

        fn gives(&mut self, worker: usize, key: &LedgerKey) {
            let (lending, still) = &mut self.0[worker];
            lending.give(key, &still.hands);
        }

        fn withdraws(&mut self, worker: usize, key: LedgerKey, claimant: u64) {
            let (lending, still) = &mut self.0[worker];
            lending.withdraw(&[key], claimant, &still.hands);
        }

        /// Delivers letters until none is left. Returns who was granted or denied a slot: worker, claimant, and whether granted.
        fn delivers(&mut self) -> Vec<(usize, u64, bool)> {
            let mut told = Vec::new();
            loop {
                let posted: Vec<_> = self.0.iter().flat_map(|(_, still)| taken(&still.workers_told)).collect();
                if posted.is_empty() {
                    return told;
                }
                for (worker, letter) in posted {
                    let (lending, still) = &mut self.0[worker];
                    let outcomes = match letter {
                        ToWorker::Ledger { from, letter } => {
                            lending.ledger_hears(from, letter, &still.hands);
                            continue;
                        }
                        ToWorker::WorkerQuota(answer) => lending.hears(answer, &still.hands),
                        other => panic!("another letter: {other:?}"),
                    };
                    told.extend(outcomes.into_iter().filter_map(|outcome| match outcome {
                        Outcome::Granted { claimant, .. } => Some((worker, claimant, true)),
                        Outcome::Denied { claimant, .. } => Some((worker, claimant, false)),
                        Outcome::Wanted { .. } => None,
                    }));
                }
            }
        }
    }

    fn taken<L>(letters: &Letters<L>) -> Vec<L> {
        std::mem::take(&mut *letters.lock().expect("a list"))
    }

    fn ann() -> LedgerKey {
        LedgerKey::UserClients("ann".into())
    }

    #[test]
    fn a_slot_that_is_free_is_granted_to_any_worker_and_no_more_than_there_are() {
        let mut test = LendingTest::with(LIMITED);
        assert_eq!(test.takes(0, &LedgerKey::Clients, 1), Taken::Asked);
        assert_eq!(test.takes(1, &LedgerKey::Clients, 2), Taken::Asked);
        assert_eq!(test.delivers(), [(0, 1, true), (1, 2, true)], "the ledger answers its own worker by letter, too");
        test.takes(0, &LedgerKey::Clients, 3);
        assert_eq!(test.delivers(), [(0, 3, false)]);
        test.gives(1, &LedgerKey::Clients);
        test.delivers();
        test.takes(0, &LedgerKey::Clients, 4);
        assert_eq!(test.delivers(), [(0, 4, true)]);
    }

    #[test]
    fn nobody_is_asked_about_a_user_without_a_limit_until_a_reload_gives_it_one() {
        let mut test = LendingTest::with(UNLIMITED);
        assert_eq!([1, 2].map(|claimant| test.takes(1, &ann(), claimant)), [Taken::Took, Taken::Took]);
        assert_eq!(test.delivers(), []);
        test.gives(1, &ann());
        test.gives(1, &ann());
        test.delivers();
        test.reload(LIMITED);
        test.takes(1, &ann(), 1);
        test.takes(0, &ann(), 2);
        let told = test.delivers();
        assert_eq!((told.len(), told.iter().filter(|(.., is_granted)| *is_granted).count()), (2, 1), "{told:?}");
        test.reload(UNLIMITED);
        assert_eq!(test.takes(0, &ann(), 3), Taken::Took);
    }

    /// The place of a client that has left while the ledger was asked would be lost for ever.
    #[test]
    fn a_slot_that_comes_too_late_is_given_to_another() {
        let mut test = LendingTest::with(LIMITED);
        test.takes(1, &ann(), 1);
        assert!(test.0[1].0.is_asking(&ann(), 1));
        test.withdraws(1, ann(), 1);
        assert!(!test.0[1].0.is_asking(&ann(), 1));
        assert_eq!(test.delivers(), []);
        test.takes(0, &ann(), 2);
        assert_eq!(test.delivers(), [(0, 2, true)]);
    }
}
