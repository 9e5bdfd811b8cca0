//! The statements that take most of the time, in bounded memory.
//!
//! Always true: every call is counted either in a row or in the folded sums, so that nothing is lost; with n rows, a
//! statement with more than 1/n of the time has a row ("Space-Saving", Metwally, Agrawal and El Abbadi, 2005).
//! Not here: the normalisation of statements (`route`), which calls are sampled (`worker`).

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::division::{Spent, Sums};

/// The statements of one database, each in a row of its own until heavier ones displace it.
#[derive(Debug)]
pub struct Heaviest {
    rows: Vec<Statement>,
    /// The index in `rows` of each statement, by its hash.
    places: HashMap<u64, u32>,
    folded: StatementSums,
    room: Room,
}

/// The number of rows that all databases of a worker may still add.
#[derive(Clone, Debug)]
pub struct Room(Rc<Cell<u32>>);

/// A statement, and the sums of its calls since it has had its row.
#[derive(Clone, Debug)]
pub struct Statement {
    hash: u64,
    /// The weight by which rows are compared: the statement's time, plus the weight of the row that it displaced.
    weight: u64,
    /// The text without values.
    pub text: Arc<str>,
    /// The application named in a comment of the last call that had one; empty if none had.
    pub application: Box<str>,
    /// The route named in a comment of the last call that had one; empty if none had.
    pub route: Box<str>,
    /// The sums of its calls.
    pub sums: StatementSums,
}

/// Sums over calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatementSums {
    /// The number of calls, and their time by phase.
    pub time: Sums,
    /// Rows that were returned or changed.
    pub rows: u64,
    /// Bytes sent by servers.
    pub bytes: u64,
    /// The number of failed calls.
    pub errors: u64,
    /// Failed calls by SQLSTATE, for the first [`STATES_MAX`] that were seen; others are only in `errors`.
    pub states: [Option<([u8; 5], u64)>; STATES_MAX],
}

/// A sampled call, which also stands for calls that were not sampled.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The number of calls for which it stands; at least 1.
    pub weight: u32,
    /// The time of the call by phase.
    pub spent: Spent,
    /// Rows that the call returned or changed.
    pub rows: u64,
    /// Bytes sent by the server.
    pub bytes: u64,
    /// The SQLSTATE, if the call failed.
    pub state: Option<[u8; 5]>,
}

/// The description of a statement, as needed for a new row.
#[derive(Clone, Debug)]
pub struct Description {
    /// [`Statement::text`].
    pub text: Box<str>,
    /// [`Statement::application`].
    pub application: Box<str>,
    /// [`Statement::route`].
    pub route: Box<str>,
}

impl Room {
    /// Returns room for this number of rows.
    #[must_use]
    pub fn new(rows: u32) -> Self {
        Self(Rc::new(Cell::new(rows)))
    }

    /// Takes a row for a database that has `has` rows, fewer than [`ROWS_MAX`], and only if more than `has` rows are left, so
    /// that the other databases can have as many.
    fn take(&self, has: usize) -> bool {
        let left = self.0.get();
        let is_free = has < ROWS_MAX && has < left as usize;
        if is_free {
            self.0.set(left - 1);
        }
        is_free
    }
}

impl Drop for Heaviest {
    fn drop(&mut self) {
        let left = self.room.0.get();
        self.room.0.set(left + self.rows.len() as u32);
    }
}

impl Heaviest {
    /// Returns an empty table for a database.
    #[must_use]
    pub fn new(room: Room) -> Self {
        Self { rows: Vec::new(), places: HashMap::new(), folded: StatementSums::default(), room }
    }

    /// Adds a call.
    pub fn add(&mut self, hash: u64, description: &Description, call: &Call) {
        let time = (call.spent.total() * u64::from(call.weight)).max(1);
        if let Some(place) = self.places.get(&hash) {
            let row = &mut self.rows[*place as usize];
            row.weight += time;
            row.sums.add(call);
            row.is_asked_by(description);
            return;
        }
        let mut row = Statement {
            hash,
            weight: time,
            text: (*description.text).into(),
            application: "".into(),
            route: "".into(),
            sums: StatementSums::default(),
        };
        row.is_asked_by(description);
        row.sums.add(call);
        if self.room.take(self.rows.len()) {
            self.places.insert(hash, self.rows.len() as u32);
            self.rows.push(row);
            return;
        }
        let lightest = self.rows.iter().enumerate().min_by_key(|(_, row)| row.weight).map(|(place, _)| place);
        let Some(place) = lightest else {
            self.folded.add(call);
            return;
        };
        row.weight += self.rows[place].weight;
        let gone = std::mem::replace(&mut self.rows[place], row);
        self.folded.merge(&gone.sums);
        self.places.remove(&gone.hash);
        self.places.insert(hash, place as u32);
    }

    /// Adds a call of an unknown statement.
    pub fn add_unknown(&mut self, call: &Call) {
        self.folded.add(call);
    }

    /// The statements that have a row, in no particular order.
    #[must_use]
    pub fn rows(&self) -> &[Statement] {
        &self.rows
    }

    /// The sums of all other calls.
    #[must_use]
    pub fn folded(&self) -> &StatementSums {
        &self.folded
    }
}

impl Statement {
    fn is_asked_by(&mut self, description: &Description) {
        let said = [(&mut self.application, &description.application), (&mut self.route, &description.route)];
        said.into_iter().filter(|(_, said)| !said.is_empty()).for_each(|(mine, said)| mine.clone_from(said));
    }
}

impl StatementSums {
    fn add(&mut self, call: &Call) {
        let weight = u64::from(call.weight);
        self.time.add_times(&call.spent, weight);
        // The row count of a command tag may be any number.
        self.rows = self.rows.saturating_add(call.rows.saturating_mul(weight));
        self.bytes += weight * call.bytes;
        if let Some(state) = call.state {
            self.errors += weight;
            self.add_state(state, weight);
        }
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.time.merge(&other.time);
        self.rows = self.rows.saturating_add(other.rows);
        self.bytes += other.bytes;
        self.errors += other.errors;
        other.states.iter().flatten().for_each(|(state, count)| self.add_state(*state, *count));
    }

    fn add_state(&mut self, state: [u8; 5], count: u64) {
        let is_its = |place: &&mut Option<([u8; 5], u64)>| place.is_none_or(|(known, _)| known == state);
        if let Some(place) = self.states.iter_mut().find(is_its) {
            *place = Some((state, place.map_or(0, |(_, before)| before) + count));
        }
    }
}

/// The largest number of statements of a database that have a row.
pub const ROWS_MAX: usize = 1000;
/// The number of SQLSTATEs of a statement that are counted separately.
pub const STATES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::division::{Division, Phase};
    use base::Time;

    fn call(micros: u64) -> Call {
        let mut division = Division::default();
        division.enter(Time(0), Phase::FirstByte);
        let spent = division.end(Time(micros)).expect("a transaction");
        Call { weight: 1, spent, rows: 2, bytes: 10, state: None }
    }

    fn description(number: u64) -> Description {
        Description { text: format!("statement {number}").into(), application: "".into(), route: "".into() }
    }

    fn add(heaviest: &mut Heaviest, number: u64, micros: u64) {
        heaviest.add(number, &description(number), &call(micros));
    }

    #[test]
    fn nothing_is_lost_and_the_heavy_ones_stay() {
        let mut heaviest = Heaviest::new(Room::new(100_000));
        let mut total = 0;
        for round in 0..20_000_u64 {
            // Ten statements take half of the time, among ever new ones.
            for (number, micros) in [(round % 10, 1000), (1000 + round, 1000)] {
                add(&mut heaviest, number, micros);
                total += micros;
            }
        }
        assert_eq!(heaviest.rows().len(), ROWS_MAX);
        let heavy: Vec<_> = heaviest.rows().iter().filter(|row| row.hash < 10).collect();
        assert_eq!(heavy.len(), 10);
        assert!(heavy.iter().all(|row| row.sums.time.count == 2000 && *row.text == format!("statement {}", row.hash)));
        let mut all = *heaviest.folded();
        heaviest.rows().iter().for_each(|row| all.merge(&row.sums));
        assert_eq!((all.time.total(), all.time.count, all.rows, all.bytes), (total, 40_000, 80_000, 400_000));
    }

    #[test]
    fn a_heavy_statement_that_comes_late_finds_a_row() {
        let mut heaviest = Heaviest::new(Room::new(100_000));
        (0..ROWS_MAX as u64).for_each(|number| add(&mut heaviest, number, 100));
        for round in 0..1000 {
            add(&mut heaviest, 1_000_000 + round, 1);
            add(&mut heaviest, 7777, 1000);
        }
        let late = heaviest.rows().iter().find(|row| row.hash == 7777).expect("a row");
        assert!(late.sums.time.count > 990, "{}", late.sums.time.count);
    }

    #[test]
    fn databases_share_the_room_and_give_it_back() {
        let room = Room::new(100);
        let mut first = Heaviest::new(room.clone());
        (0..200).for_each(|number| add(&mut first, number, 10));
        assert_eq!(first.rows().len(), 50, "as many are left for others");
        let mut second = Heaviest::new(room.clone());
        (0..200).for_each(|number| add(&mut second, number, 10));
        assert_eq!(second.rows().len(), 25);
        drop(first);
        (0..200).for_each(|number| add(&mut second, 1000 + number, 10));
        assert_eq!(second.rows().len(), 50);
        let mut none = Heaviest::new(Room::new(0));
        add(&mut none, 1, 10);
        none.add_unknown(&call(5));
        assert_eq!((none.rows().len(), none.folded().time.total()), (0, 15));
        drop(second);
        assert_eq!(room.0.get(), 100);
    }

    #[test]
    fn a_call_stands_for_those_that_were_not_looked_at() {
        let mut heaviest = Heaviest::new(Room::new(10));
        let failed = |state: &[u8; 5]| Call { weight: 16, state: Some(*state), ..call(3) };
        for state in [b"40001", b"40001", b"40P01", b"23505", b"57014", b"XX000"] {
            heaviest.add(1, &description(1), &failed(state));
        }
        let asked = Description { route: "/cart".into(), ..description(1) };
        heaviest.add(1, &asked, &call(3));
        heaviest.add(1, &description(1), &call(3));
        let [row] = heaviest.rows() else { panic!("one row") };
        assert_eq!((row.sums.time.count, row.sums.errors, row.sums.rows), (6 * 16 + 2, 6 * 16, 2 * (6 * 16 + 2)));
        assert_eq!(
            row.sums.states.map(|state| state.map(|(_, count)| count)),
            [Some(32), Some(16), Some(16), Some(16)]
        );
        assert_eq!((&*row.route, &*row.application), ("/cart", ""));
    }
}
