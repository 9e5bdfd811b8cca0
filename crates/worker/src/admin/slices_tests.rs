//! A worker without connections takes snapshots.

use crate::letters::{Detail, Parts, Snapshot, ToControl, ToWorker};
use crate::still::{NOW, StillWorker};

/// A worker that is asked for snapshots.
struct Asked(StillWorker);

impl Asked {
    fn with_pools(count: usize) -> Self {
        Self(StillWorker::with_pools(count))
    }

    fn ask(&self, question: u64, what: Parts) {
        self.0.letters.send(ToWorker::Show { question, what }).expect("a worker");
    }

    /// Runs a turn, and returns the snapshots that were reported in it.
    fn turn(&mut self) -> Vec<(u64, Snapshot)> {
        self.0.worker.turn(&mut Vec::new());
        let told = std::mem::take(&mut *self.0.told.lock().expect("a list"));
        let shown = |letter| match letter {
            ToControl::Shown { question, snapshot, .. } => Some((question, *snapshot)),
            _ => None,
        };
        told.into_iter().filter_map(shown).collect()
    }

    /// Runs turns until a snapshot is reported. Returns it, and in how many turns it was taken.
    fn shown(&mut self) -> (Snapshot, usize) {
        for turns in 1..10_000 {
            if let Some((_, snapshot)) = self.turn().pop() {
                return (snapshot, turns);
            }
            assert!(self.0.worker.next_deadline().is_some_and(|deadline| deadline <= NOW), "it goes on");
        }
        panic!("the snapshot has no end");
    }
}

fn metrics() -> Parts {
    let measures = Detail::Sums;
    Parts { pools: true, stats: true, memory: true, pins: true, hosts: true, measures, ..Parts::default() }
}

/// A scrape of 4,000 pools was one turn of 10 to 20 milliseconds, in which no client was served.
#[test]
fn a_turn_reads_a_bounded_number_of_pools() {
    let mut asked = Asked::with_pools(4000);
    asked.ask(1, metrics());
    let (snapshot, turns) = asked.shown();
    let users = snapshot.users.iter().filter(|user| user.name.starts_with('u')).count();
    assert_eq!((snapshot.pools.len(), snapshot.databases.len(), users), (4000, 4000, 4000));
    assert_eq!(snapshot.stats.len(), 4000);
    // A pool, its database and its user are at least three rows.
    let rows_per_turn = 3 * 4000 / turns;
    assert!(rows_per_turn <= 400, "{turns} turns");
}

#[test]
fn what_fits_into_a_slice_is_of_one_moment() {
    let mut asked = Asked::with_pools(20);
    asked.ask(1, metrics());
    let (snapshot, turns) = asked.shown();
    assert_eq!((snapshot.pools.len(), turns), (20, 1));
}

#[test]
fn snapshots_are_taken_one_after_the_other() {
    let mut asked = Asked::with_pools(1000);
    let (_, turns) = {
        asked.ask(1, metrics());
        asked.shown()
    };
    (2..5).for_each(|question| asked.ask(question, metrics()));
    let mut order = Vec::new();
    for _ in 0..3 * turns {
        let shown = asked.turn();
        assert!(shown.len() <= 1, "two snapshots of a thousand pools in one turn");
        order.extend(shown.into_iter().map(|(question, _)| question));
    }
    assert_eq!(order, [2, 3, 4]);
    assert!(!asked.0.worker.admin.snapshots.is_any_under_way());
}
