//! Statistics of transactions by pool and by application.
//!
//! Always true: a transaction is counted once, for its pool and its application, when it ends or its client goes; the
//! number of rows is bounded, and everything beyond counts as `other`.
//! Not here: which event begins which phase (`data`), how statistics are reported (`admin::snapshot`).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{Key, Slab, Time};
use measure::{Closed, Division, Histograms, Lives, Opened, Phase, Spent, Sums};
use protocol::vars::Vars;
use reactor::Io;

use crate::data::client::ClientStage;
use crate::letters::{Evicted, ReadCounts};
use crate::worker::Worker;

/// Statistics of a pool since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    sums: Sums,
    /// Allocated with the first transaction.
    histograms: Option<Box<Histograms>>,
    lives: Lives,
    /// Number of its servers closed for clients of each other pool, by that pool's database and user, which are empty
    /// for a pool of another worker.
    evicted_by: Vec<Evicted>,
    reads: ReadCounts,
}

impl Measured {
    /// Those of a pool that had opened and closed servers before.
    pub(crate) fn continued(lives: Lives) -> Self {
        Self { lives, ..Self::default() }
    }

    /// A server was opened.
    pub(crate) fn opens(&mut self, why: Opened) {
        self.lives.opens(why);
    }

    /// A server was closed.
    pub(crate) fn closes(&mut self, why: Closed) {
        self.lives.closes(why);
    }

    /// The servers that were opened and closed.
    pub(crate) fn lives(&self) -> Lives {
        self.lives
    }

    /// Sums over all transactions.
    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// How long transactions took; `None` before the first one.
    pub(crate) fn histograms(&self) -> Option<&Histograms> {
        self.histograms.as_deref()
    }

    /// The servers that were closed for clients of other pools.
    pub(crate) fn evicted_by(&self) -> &[Evicted] {
        &self.evicted_by
    }

    /// A server was closed for clients of this pool.
    pub(crate) fn count_eviction_for(&mut self, database: Arc<str>, user: Arc<str>) {
        let is_it = |row: &&mut Evicted| row.database == database && row.user == user;
        if let Some(row) = self.evicted_by.iter_mut().find(is_it) {
            row.count += 1;
        } else if self.evicted_by.len() < EVICTED_MAX {
            self.evicted_by.push(Evicted { database, user, count: 1 });
        } else if let Some(last) = self.evicted_by.last_mut() {
            (last.database, last.user) = (OTHER.into(), OTHER.into());
            last.count += 1;
        }
    }

    /// Counts a read of a client of this pool.
    pub(crate) fn count_read(&mut self, result: ReadResult) {
        *match result {
            ReadResult::ToReplica => &mut self.reads.to_replica,
            ReadResult::Behind => &mut self.reads.behind,
            ReadResult::Refused => &mut self.reads.refused,
            ReadResult::Lost => &mut self.reads.lost,
        } += 1;
    }

    /// The reads of its clients.
    pub(crate) fn reads(&self) -> ReadCounts {
        self.reads
    }

    fn add(&mut self, spent: &Spent) {
        self.sums.add(spent);
        self.histograms.get_or_insert_default().record(spent);
    }
}

/// What becomes of a read that might go to a replica; see [`ReadCounts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadResult {
    ToReplica,
    Behind,
    Refused,
    Lost,
}

/// The servers that removed pools have opened and closed, by the names of database and user: a pool that is opened again continues
/// their counts. No more than `FORMER_MAX` pools are remembered; the counts of a pool that finds no room are lost.
#[derive(Debug, Default)]
pub(crate) struct FormerPools(BTreeMap<(Arc<str>, Arc<str>), Lives>);

impl FormerPools {
    pub(crate) fn remember(&mut self, database: Arc<str>, user: Arc<str>, lives: Lives) {
        if lives != Lives::default() && self.0.len() < FORMER_MAX {
            self.0.insert((database, user), lives);
        }
    }

    /// Removes and returns the counts of a pool that is opened again; none if it is new.
    pub(crate) fn take(&mut self, database: &Arc<str>, user: &Arc<str>) -> Lives {
        self.0.remove(&(database.clone(), user.clone())).unwrap_or_default()
    }
}

/// The current transaction of a client, and the application for which it counts.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) division: Division,
    /// The parameters with the application's name, and the application's row.
    application: Option<(Rc<Vars>, Option<Key>)>,
}

impl Meter {
    /// Whether the application is known for which a transaction of a client with these parameters counts.
    #[inline]
    pub(crate) fn is_known(&self, vars: &Rc<Vars>, applications: &Applications) -> bool {
        let is_it = |place: &Option<Key>| place.is_none_or(|place| applications.has(place));
        self.application.as_ref().is_some_and(|(named_by, place)| Rc::ptr_eq(named_by, vars) && is_it(place))
    }
}

/// Applications: an application is all clients with the same database, user and `application_name`.
#[derive(Debug)]
pub(crate) struct Applications {
    rows: Slab<Application>,
    places: HashMap<ApplicationName, Key>,
    /// Sums of the applications that found no row, or have lost theirs.
    folded: Sums,
}

/// Database, user and `application_name`.
type ApplicationName = (Arc<str>, Arc<str>, Box<str>);

/// One application.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) name: ApplicationName,
    pub(crate) sums: Sums,
    /// When its last transaction ended.
    last: Time,
}

impl Default for Applications {
    fn default() -> Self {
        Self { rows: Slab::with_capacity(APPLICATIONS_MAX), places: HashMap::new(), folded: Sums::default() }
    }
}

impl Applications {
    /// The counters of those without a row of their own.
    pub(crate) fn folded(&self) -> Sums {
        self.folded
    }

    /// The row of an application; `None` when all rows belong to others that are in use.
    fn place(&mut self, name: ApplicationName, now: Time) -> Option<Key> {
        if let Some(place) = self.places.get(&name) {
            return Some(*place);
        }
        if self.rows.len() >= APPLICATIONS_MAX as usize {
            let oldest = self.rows.iter().min_by_key(|(_, row)| row.last).map(|(place, row)| (place, row.last));
            let (place, _) = oldest.filter(|(_, last)| now.since(*last) >= UNUSED_FOR)?;
            let gone = self.rows.remove(place)?;
            self.places.remove(&gone.name);
            self.folded.merge(&gone.sums);
        }
        let place = self.rows.insert(Application { name: name.clone(), sums: Sums::default(), last: now }).ok()?;
        self.places.insert(name, place);
        Some(place)
    }

    fn add(&mut self, place: Option<Key>, spent: &Spent, now: Time) {
        match place.and_then(|place| self.rows.get_mut(place)) {
            Some(row) => {
                row.sums.add(spent);
                row.last = now;
            }
            None => self.folded.add(spent),
        }
    }

    fn has(&self, place: Key) -> bool {
        self.rows.get(place).is_some()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Application> {
        self.rows.iter().map(|(_, row)| row)
    }
}

impl<I: Io> Worker<I> {
    /// A client enters this phase of its transaction, which may begin with it.
    pub(crate) fn enters(&mut self, key: Key, phase: Phase) {
        let now = self.hands.now;
        if let Some(ready) = self.clients.ready_mut(key) {
            ready.meter_mut().division.enter(now, phase);
        }
    }

    /// Does the same for a client in the phase `from`.
    pub(crate) fn enters_from(&mut self, key: Key, from: Phase, phase: Phase) {
        let now = self.hands.now;
        if let Some(ready) = self.clients.ready_mut(key) {
            ready.meter_mut().division.go_on(now, from, phase);
        }
    }

    /// Counts a client's transaction that is over, if one had begun. Returns where its time went, if long ones are logged.
    pub(crate) fn count_transaction(&mut self, key: Key) -> Option<Spent> {
        let client = self.clients.get_mut(key)?;
        let ClientStage::Ready(ready) = &mut client.stage else { return None };
        let spent = ready.meter_mut().division.end(self.hands.now).filter(|_| !client.is_own)?;
        let place = self.registry.pool_mut(ready.pool())?;
        place.measured.add(&spent);
        let vars = &ready.session().vars;
        let known = ready.meter().application.as_ref().filter(|_| ready.meter().is_known(vars, &self.applications));
        let application = match known {
            Some((_, application)) => *application,
            None => {
                let name = vars.get(self.hands.active.tracked.application_name()).unwrap_or_default();
                client.tracers = self.tracers.about(client.id, &place.database_name, name);
                let database = place.database_name.clone();
                let user = &self.registry.user_at(ready.session().user).name;
                let application = self.applications.place((database, user.clone(), name.into()), self.hands.now);
                ready.meter_mut().application = Some((vars.clone(), application));
                application
            }
        };
        self.applications.add(application, &spent, self.hands.now);
        self.hands.active.settings.log_min_duration_transaction.is_some().then_some(spent)
    }
}

/// Number of other pools told apart that have had servers of one pool closed; the last row stands for all others.
const EVICTED_MAX: usize = 32;
/// How many removed pools are remembered with their counts of servers.
const FORMER_MAX: usize = 1000;
const OTHER: &str = "other";
/// Number of applications told apart in one worker.
const APPLICATIONS_MAX: u32 = 500;
/// An application idle for this long may lose its row to another.
const UNUSED_FOR: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn spent() -> Spent {
        let mut division = Division::default();
        division.enter(Time(0), Phase::FirstByte);
        division.end(Time(7)).expect("a transaction")
    }

    fn name(number: u32) -> ApplicationName {
        ("d".into(), "u".into(), number.to_string().into())
    }

    #[test]
    fn a_pool_that_is_opened_again_continues_its_counts_and_a_bounded_number_is_remembered() {
        let (mut former, mut lives) = (FormerPools::default(), Lives::default());
        former.remember("idle".into(), "u".into(), lives);
        lives.opens(measure::Opened::Client);
        (0..FORMER_MAX + 10).for_each(|number| former.remember("d".into(), number.to_string().into(), lives));
        assert_eq!(former.0.len(), FORMER_MAX, "a pool without servers takes no room");
        assert_eq!(former.take(&"d".into(), &"0".into()), lives);
        assert_eq!(former.take(&"d".into(), &"0".into()), Lives::default(), "the new pool has them");
        former.remember("e".into(), "u".into(), lives);
        assert_eq!(former.take(&"e".into(), &"u".into()), lives, "there is room again");
    }

    #[test]
    fn who_had_servers_closed_is_told_apart_up_to_a_bound_and_no_server_is_lost() {
        let mut measured = Measured::default();
        for number in 0..EVICTED_MAX as u32 + 10 {
            measured.count_eviction_for("d".into(), number.to_string().into());
            measured.count_eviction_for("d".into(), "0".into());
        }
        let rows = &measured.evicted_by;
        assert_eq!((rows.len(), rows[0].count), (EVICTED_MAX, EVICTED_MAX as u64 + 11));
        assert_eq!((&*rows[EVICTED_MAX - 1].user, rows[EVICTED_MAX - 1].count), ("other", 11));
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 2 * (EVICTED_MAX as u64 + 10));
    }

    #[test]
    fn applications_beyond_the_bound_count_as_other() {
        let (mut applications, now) = (Applications::default(), Time::from_secs(1));
        for number in 0..APPLICATIONS_MAX + 10 {
            let place = applications.place(name(number), now);
            assert_eq!(place.is_none(), number >= APPLICATIONS_MAX);
            applications.add(place, &spent(), now);
        }
        assert!(applications.place(name(3), now).is_some(), "who has a place keeps it");
        assert_eq!((applications.rows().count(), applications.folded.count), (APPLICATIONS_MAX as usize, 10));
        assert!(applications.rows().all(|row| row.sums.total() == 7));
    }

    #[test]
    fn an_application_that_is_not_used_gives_its_place_to_another_and_nothing_is_lost() {
        let mut applications = Applications::default();
        for number in 0..APPLICATIONS_MAX {
            let now = Time::from_secs(u64::from(number) + 1);
            let place = applications.place(name(number), now);
            applications.add(place, &spent(), now);
        }
        let first = applications.place(name(0), Time::from_secs(600)).expect("a place");
        assert_eq!(applications.place(name(1000), Time::from_secs(600)), None, "all are in use");
        let now = Time::from_secs(601);
        let place = applications.place(name(1000), now);
        assert!(place.is_some() && !applications.has(first));
        applications.add(place, &spent(), now);
        // A transaction of a client that still refers to the removed row counts for no other application.
        applications.add(Some(first), &spent(), now);
        let counted: u64 = applications.rows().map(|row| row.sums.count).sum();
        assert_eq!((counted, applications.folded.count), (u64::from(APPLICATIONS_MAX), 2));
    }
}
