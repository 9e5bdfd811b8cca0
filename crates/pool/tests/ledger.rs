//! Limits that span workers: the quotas of three workers and a ledger, with delayed letters between them.
//!
//! Always true: letters between the ledger and one worker's quota keep their order; everything else is random.

use std::collections::VecDeque;

use base::WorkerId;
use pool::{Answer, Claimant, Ledger, LedgerKey, LedgerKind, Letter, Outcome, Patience, Taken, WorkerQuota};
use proptest::prelude::*;

const WORKERS: usize = 3;

/// One pooler: its workers, its ledger, and the letters in transit between them, all about one key.
struct House {
    key: LedgerKey,
    slots_max: u32,
    /// Whether the granted slots must be within the limit, because none was granted under a higher limit.
    is_exact: bool,
    ledger: Ledger,
    worker_quotas: [WorkerQuota; WORKERS],
    up: [VecDeque<Letter>; WORKERS],
    down: [VecDeque<Answer>; WORKERS],
    /// The claimants that have a slot, and those that wait for an answer, in the order of their claims.
    holders: [Vec<Claimant>; WORKERS],
    claims: [Vec<(Claimant, Patience)>; WORKERS],
    claims_made: Claimant,
    denied: u32,
    wanted: [bool; WORKERS],
}

impl House {
    fn new(key: LedgerKey, slots_max: u32) -> Self {
        let mut house = Self {
            key,
            slots_max: 0,
            is_exact: true,
            ledger: Ledger::new(WORKERS as u8),
            worker_quotas: Default::default(),
            up: Default::default(),
            down: Default::default(),
            holders: Default::default(),
            claims: Default::default(),
            claims_made: 0,
            denied: 0,
            wanted: [false; WORKERS],
        };
        house.set_limit(slots_max);
        house
    }

    fn set_limit(&mut self, slots_max: u32) {
        self.slots_max = slots_max;
        self.is_exact = slots_max > 0 && self.out() <= slots_max;
        self.worker_quotas.iter_mut().for_each(|worker_quota| worker_quota.set_limit(self.key.clone(), slots_max));
        let mut answers = Vec::new();
        self.ledger.set_limit(self.key.clone(), slots_max, &mut answers);
        self.send(answers);
    }

    fn take(&mut self, worker: usize, patience: Patience) -> Option<Taken> {
        self.claims_made += 1;
        let (claimant, mut letters) = (self.claims_made, Vec::new());
        let taken = self.worker_quotas[worker].take(&self.key, claimant, patience, &mut letters);
        match taken {
            Taken::Took => self.holders[worker].push(claimant),
            Taken::Asked => self.claims[worker].push((claimant, patience)),
        }
        self.up[worker].extend(letters);
        Some(taken)
    }

    fn give(&mut self, worker: usize) {
        if self.holders[worker].pop().is_some() {
            let mut letters = Vec::new();
            self.worker_quotas[worker].give(&self.key, &mut letters);
            self.up[worker].extend(letters);
        }
    }

    fn withdraw(&mut self, worker: usize, pick: usize) {
        if self.claims[worker].is_empty() {
            return;
        }
        let (claimant, _) = self.claims[worker].remove(pick % self.claims[worker].len());
        let mut letters = Vec::new();
        assert!(self.worker_quotas[worker].withdraw(&self.key, claimant, &mut letters), "a claim can be withdrawn");
        self.up[worker].extend(letters);
    }

    /// Delivers the next letter of a worker to the ledger, and returns whether there was one.
    fn deliver_up(&mut self, worker: usize) -> bool {
        let Some(letter) = self.up[worker].pop_front() else { return false };
        let mut answers = Vec::new();
        self.ledger.handle(WorkerId(worker as u8), letter, &mut answers);
        self.send(answers);
        true
    }

    fn send(&mut self, answers: Vec<(WorkerId, Answer)>) {
        for (to, answer) in answers {
            if matches!(answer, Answer::Denied { .. }) {
                self.check_denial();
            }
            self.down[usize::from(to.0)].push_back(answer);
        }
    }

    /// Delivers the next answer to a worker, and returns whether there was one.
    fn deliver_down(&mut self, worker: usize) -> bool {
        let Some(answer) = self.down[worker].pop_front() else { return false };
        let (mut outcomes, mut letters) = (Vec::new(), Vec::new());
        self.worker_quotas[worker].handle(answer, &mut outcomes, &mut letters);
        self.up[worker].extend(letters);
        for outcome in outcomes {
            match outcome {
                Outcome::Granted { claimant, patience, .. } => {
                    self.settle_claim(worker, claimant, patience);
                    self.holders[worker].push(claimant);
                }
                Outcome::Denied { claimant, .. } => {
                    self.settle_claim(worker, claimant, Patience::Now);
                    self.denied += 1;
                }
                Outcome::Wanted { is_wanted, .. } => self.wanted[worker] = is_wanted,
            }
        }
        true
    }

    /// Removes an answered claim, which must be the first of its patience.
    fn settle_claim(&mut self, worker: usize, claimant: Claimant, patience: Patience) {
        let claims = &mut self.claims[worker];
        let first = claims.iter().position(|(_, other)| *other == patience).expect("somebody has claimed");
        assert_eq!(claims.remove(first), (claimant, patience), "somebody is passed over");
    }

    /// The slots at the workers and in transit to them.
    fn out(&self) -> u32 {
        let held: u32 = self
            .worker_quotas
            .iter()
            .map(|worker_quota| worker_quota.held(&self.key) + worker_quota.spare(&self.key))
            .sum();
        held + self.down.iter().flatten().map(granted_slots).sum::<u32>()
    }

    fn check(&self) {
        assert!(!self.is_exact || self.out() <= self.slots_max, "{} of {}", self.out(), self.slots_max);
        assert!(!self.is_exact || self.ledger.granted(&self.key) <= self.slots_max);
        for worker in 0..WORKERS {
            assert_eq!(self.worker_quotas[worker].held(&self.key) as usize, self.holders[worker].len());
        }
    }

    /// No claim is denied while a slot is free at the ledger, spare at a worker, or in transit as a spare slot in either
    /// direction.
    fn check_denial(&self) {
        assert!(self.ledger.granted(&self.key) >= self.slots_max, "somebody is denied while slots are free");
        assert!(
            self.worker_quotas.iter().all(|worker_quota| worker_quota.spare(&self.key) == 0),
            "somebody is denied while slots lie spare"
        );
        assert!(self.down.iter().flatten().all(|answer| granted_slots(answer) <= 1));
        let comes_home = |letter: &Letter| matches!(letter, Letter::Home { slots, .. } if *slots > 0);
        assert!(!self.up.iter().flatten().any(comes_home), "somebody is denied while spare slots come home");
    }

    fn deliver_all(&mut self) {
        while (0..WORKERS).any(|worker| self.deliver_up(worker) || self.deliver_down(worker)) {
            self.check();
        }
    }

    fn step(&mut self, choice: u8, pick: u8) {
        let worker = usize::from(pick) % WORKERS;
        match choice % 10 {
            0 | 1 => drop(self.take(worker, Patience::Now)),
            2 if self.key.kind() == LedgerKind::UserServers => drop(self.take(worker, Patience::Wait)),
            2 | 3 => self.give(worker),
            4 if pick < 100 => self.withdraw(worker, usize::from(pick)),
            4..=6 => drop(self.deliver_up(worker)),
            _ => drop(self.deliver_down(worker)),
        }
        self.check();
    }
}

fn granted_slots(answer: &Answer) -> u32 {
    match answer {
        Answer::Granted { slots, .. } => *slots,
        _ => 0,
    }
}

fn user_servers() -> LedgerKey {
    LedgerKey::UserServers("u".into())
}

fn keys() -> impl Strategy<Value = LedgerKey> {
    prop_oneof![Just(LedgerKey::Clients), Just(LedgerKey::UserClients("u".into())), Just(user_servers())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_exceeded_and_every_slot_comes_home(
        key in keys(),
        slots_max in 1u32..60,
        steps in proptest::collection::vec(any::<(u8, u8)>(), 1..300),
    ) {
        let mut house = House::new(key, slots_max);
        for (choice, pick) in steps {
            house.step(choice, pick);
        }
        // Every slot is given back as soon as it is granted, so that every claim in line is answered in the end.
        house.deliver_all();
        while house.holders.iter().any(|holders| !holders.is_empty()) {
            (0..WORKERS).for_each(|worker| house.give(worker));
            house.deliver_all();
        }
        prop_assert!(house.claims.iter().all(Vec::is_empty), "{:?} wait forever", house.claims);
        let spare: u32 = house.worker_quotas.iter().map(|worker_quota| worker_quota.spare(&house.key)).sum();
        prop_assert_eq!(house.ledger.granted(&house.key), spare);
        // Spare slots are not lost: one worker can get all slots of the limit.
        house.denied = 0;
        for _ in 0..slots_max {
            house.take(1, Patience::Now);
            house.deliver_all();
        }
        prop_assert_eq!((house.holders[1].len() as u32, house.denied), (slots_max, 0));
        house.take(0, Patience::Now);
        house.deliver_all();
        prop_assert_eq!(house.denied, 1);
    }

    #[test]
    fn a_limit_may_change_at_any_moment(
        key in keys(),
        steps in proptest::collection::vec((any::<(u8, u8)>(), proptest::option::weighted(0.1, 0u32..8)), 1..300),
    ) {
        let mut house = House::new(key, 3);
        for ((choice, pick), slots_max) in steps {
            if let Some(slots_max) = slots_max {
                house.deliver_all();
                house.set_limit(slots_max);
            }
            house.step(choice, pick);
        }
        house.set_limit(0);
        house.deliver_all();
        prop_assert!(house.claims.iter().all(Vec::is_empty), "without a limit nobody waits");
        while house.holders.iter().any(|holders| !holders.is_empty()) {
            (0..WORKERS).for_each(|worker| house.give(worker));
            house.deliver_all();
        }
        let spare: u32 = house.worker_quotas.iter().map(|worker_quota| worker_quota.spare(&house.key)).sum();
        prop_assert_eq!(house.ledger.granted(&house.key), spare);
    }
}

#[test]
fn a_few_slots_in_advance_save_letters() {
    let mut house = House::new(LedgerKey::Clients, 1000);
    assert_eq!(house.take(0, Patience::Now), Some(Taken::Asked));
    house.deliver_all();
    assert_eq!(house.take(0, Patience::Now), Some(Taken::Took));
    house.give(0);
    assert!(house.up.iter().all(VecDeque::is_empty), "neither a login nor a logout needs a letter");
}

#[test]
fn nobody_overtakes_an_earlier_claim_by_taking_a_spare_slot() {
    let mut house = House::new(LedgerKey::Clients, 1000);
    house.take(0, Patience::Now);
    house.take(0, Patience::Now);
    house.deliver_up(0);
    house.deliver_down(0);
    assert!(house.worker_quotas[0].spare(&LedgerKey::Clients) > 0 && house.claims[0].len() == 1);
    assert_eq!(house.take(0, Patience::Now), Some(Taken::Asked));
}

/// Regression: one answered recall counted for all, so that a claim was denied while a spare slot was in transit to the
/// ledger.
#[test]
fn nobody_is_denied_before_every_recall_is_answered() {
    let (mut ledger, mut answers) = (Ledger::new(2), Vec::new());
    let [lender, asker] = [WorkerId(0), WorkerId(1)];
    let key = || LedgerKey::Clients;
    let ask = |spare| Letter::Ask { key: key(), patience: Patience::Now, spare };
    ledger.set_limit(key(), 8, &mut answers);
    ledger.handle(lender, ask(8), &mut answers);
    ledger.handle(asker, Letter::Took { key: key(), slots: 6 }, &mut answers);
    ledger.handle(asker, ask(0), &mut answers);
    // Slots are returned before the first recall is answered: the lender is granted spare slots again, and recalled again.
    ledger.handle(asker, Letter::Give { key: key(), slots: 6 }, &mut answers);
    ledger.handle(lender, ask(8), &mut answers);
    ledger.handle(asker, Letter::Took { key: key(), slots: 3 }, &mut answers);
    ledger.handle(asker, ask(0), &mut answers);
    let recalls = answers.drain(..).filter(|(to, answer)| (*to, answer) == (lender, &Answer::Recall { key: key() }));
    assert_eq!(recalls.count(), 2);

    ledger.handle(lender, Letter::Home { key: key(), slots: 0 }, &mut answers);
    assert_eq!(answers, []);
    ledger.handle(lender, Letter::Home { key: key(), slots: 1 }, &mut answers);
    assert_eq!(answers, [(asker, Answer::Granted { key: key(), patience: Patience::Now, slots: 1 })]);
}

#[test]
fn nothing_is_given_in_advance_when_there_is_little() {
    let mut house = House::new(LedgerKey::Clients, 4);
    house.take(0, Patience::Now);
    house.deliver_all();
    assert_eq!(house.ledger.granted(&LedgerKey::Clients), 1);
}

#[test]
fn without_a_limit_nobody_waits_but_everything_is_counted() {
    let mut house = House::new(user_servers(), 0);
    (0..WORKERS).for_each(|worker| assert_eq!(house.take(worker, Patience::Wait), Some(Taken::Took)));
    house.deliver_all();
    assert_eq!(house.ledger.granted(&user_servers()), 3);
    // They are counted so that a limit that is set later includes them.
    house.set_limit(4);
    house.take(0, Patience::Wait);
    house.take(1, Patience::Wait);
    house.deliver_all();
    assert_eq!(house.holders.each_ref().map(Vec::len), [2, 1, 1]);
}

#[test]
fn who_stands_in_line_makes_everybody_know_until_it_is_served() {
    let mut house = House::new(user_servers(), 1);
    house.take(0, Patience::Wait);
    house.take(1, Patience::Wait);
    house.deliver_all();
    assert_eq!(house.wanted, [true; WORKERS]);
    house.give(0);
    house.deliver_all();
    assert_eq!((house.wanted, house.holders[1].len()), ([false; WORKERS], 1));
}

#[test]
fn it_is_said_again_that_a_slot_is_wanted_while_others_stand_in_line() {
    let mut house = House::new(user_servers(), 1);
    house.take(0, Patience::Wait);
    house.take(1, Patience::Wait);
    house.take(2, Patience::Wait);
    house.deliver_all();
    house.give(0);
    house.wanted = [false; WORKERS];
    house.deliver_all();
    assert_eq!(house.wanted, [true; WORKERS]);
}

#[test]
fn under_a_lowered_limit_it_is_said_again_for_each_slot_that_comes_home_too_few() {
    let (mut ledger, mut answers) = (Ledger::new(2), Vec::new());
    let [asker, holder] = [WorkerId(0), WorkerId(1)];
    ledger.handle(holder, Letter::Took { key: user_servers(), slots: 3 }, &mut answers);
    ledger.set_limit(user_servers(), 2, &mut answers);
    ledger.handle(asker, Letter::Ask { key: user_servers(), patience: Patience::Wait, spare: 0 }, &mut answers);
    let wanted = (holder, Answer::Wanted { key: user_servers(), is_wanted: true });
    assert!(answers.contains(&wanted));
    answers.clear();
    // The first server that is closed for the ask had no grant: the holder withdraws an ask, and no slot is returned.
    ledger.handle(holder, Letter::Ask { key: user_servers(), patience: Patience::Wait, spare: 0 }, &mut answers);
    ledger.handle(holder, Letter::Withdraw { key: user_servers() }, &mut answers);
    assert!(answers.contains(&wanted), "{answers:?}");
    answers.clear();
    // The next server is not enough either, because two slots above the limit have to be returned.
    ledger.handle(holder, Letter::Give { key: user_servers(), slots: 1 }, &mut answers);
    assert!(answers.contains(&wanted), "{answers:?}");
    answers.clear();
    ledger.handle(holder, Letter::Give { key: user_servers(), slots: 1 }, &mut answers);
    assert!(answers.contains(&(asker, Answer::Granted { key: user_servers(), patience: Patience::Wait, slots: 1 })));
}

#[test]
fn a_minimum_is_denied_rather_than_put_in_line() {
    let mut house = House::new(user_servers(), 1);
    house.take(0, Patience::Wait);
    house.take(1, Patience::Now);
    house.deliver_all();
    assert_eq!((house.denied, house.wanted), (1, [false; WORKERS]));
}

#[test]
fn a_key_without_a_limit_of_its_own_has_that_of_its_kind() {
    let (mut ledger, mut worker_quota, mut answers, mut letters) =
        (Ledger::new(1), WorkerQuota::new(), Vec::new(), Vec::new());
    ledger.set_default(LedgerKind::UserServers, 1, &mut answers);
    worker_quota.set_default(LedgerKind::UserServers, 1);
    worker_quota.set_limit(LedgerKey::UserServers("free".into()), 0);
    assert_eq!(worker_quota.take(&user_servers(), 1, Patience::Wait, &mut letters), Taken::Asked);
    assert_eq!(worker_quota.take(&LedgerKey::UserServers("free".into()), 2, Patience::Wait, &mut letters), Taken::Took);
    worker_quota.inherit_limit(&LedgerKey::UserServers("free".into()));
    assert_eq!(
        worker_quota.take(&LedgerKey::UserServers("free".into()), 3, Patience::Wait, &mut letters),
        Taken::Asked
    );
}

#[test]
fn who_waits_under_a_limit_of_its_own_is_served_when_that_is_given_up() {
    let (mut ledger, mut answers) = (Ledger::new(1), Vec::new());
    let ask = || Letter::Ask { key: user_servers(), patience: Patience::Wait, spare: 0 };
    ledger.set_default(LedgerKind::UserServers, 2, &mut answers);
    ledger.set_limit(user_servers(), 1, &mut answers);
    ledger.handle(WorkerId(0), ask(), &mut answers);
    ledger.handle(WorkerId(0), ask(), &mut answers);
    let granted = |answers: &[(WorkerId, Answer)]| answers.iter().map(|(_, answer)| granted_slots(answer)).sum::<u32>();
    assert_eq!(granted(&answers), 1);
    ledger.inherit_limit(&user_servers(), &mut answers);
    assert_eq!(granted(&answers), 2);
}

/// Regression: a login that was counted while its own claim was still open was counted twice.
#[test]
fn a_claim_is_open_until_it_is_answered_or_withdrawn() {
    let key = LedgerKey::UserClients("ann".into());
    let mut worker_quota = WorkerQuota::new();
    worker_quota.set_limit(key.clone(), 2);
    let (mut letters, mut outcomes) = (Vec::new(), Vec::new());
    assert!(!worker_quota.is_asking(&key, 1));
    for claimant in [1, 2] {
        assert_eq!(worker_quota.take(&key, claimant, Patience::Now, &mut letters), Taken::Asked);
    }
    assert!(worker_quota.is_asking(&key, 1) && worker_quota.is_asking(&key, 2) && !worker_quota.is_asking(&key, 3));
    let granted = Answer::Granted { key: key.clone(), patience: Patience::Now, slots: 1 };
    worker_quota.handle(granted, &mut outcomes, &mut letters);
    assert!(!worker_quota.is_asking(&key, 1) && worker_quota.is_asking(&key, 2));
    assert!(worker_quota.withdraw(&key, 2, &mut letters) && !worker_quota.is_asking(&key, 2));
}
