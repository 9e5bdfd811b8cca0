//! The phases of a world: faults, healing, and the checks when everything works again.
//!
//! Always true: the phases follow each other, each within its time; a delay is accused.
//! Not here: what is checked at every event (`checks`).

use std::time::Duration;

use base::Time;
use worker::letters::ToWorker;

use crate::app::{App, Stage};
use crate::checks::checkers::{AT_REST, EVERYTHING, Phase};
use crate::checks::witness::Charge;
use crate::plan::{Habits, Person, USERS};
use crate::state::World;

/// The time in which the last bytes of ended workers reach all applications.
const LAST_WORDS: Duration = Duration::from_secs(1);
impl World {
    /// Looks at everything that is checked periodically.
    pub(crate) fn look(&mut self) {
        self.look_at_memory();
        self.look_at_askers();
        self.look_at_the_silent();
        self.look_at_the_overdue();
        self.look_at_renewals();
        self.look_at_the_held();
        match self.checkers.phase {
            Phase::Faults | Phase::Over => {}
            Phase::Healing { since } => self.look_at_the_healing(since),
            Phase::GoingDown { since } => self.look_at_who_goes_down(since),
            Phase::Gone { since } => self.look_at_who_is_gone(since),
            Phase::Resting { since, is_asked } => self.look_at_rest(since, is_asked),
            Phase::Census { pool, since, has_begun } => self.look_at_the_census(pool, since, has_begun),
            Phase::Crowd { since, has_begun } => self.look_at_the_crowd(since, has_begun),
            Phase::Last { since } => self.look_at_what_is_left(since),
        }
        self.send_mail();
    }

    /// Ends the faults: everything works, and the applications may finish.
    pub(crate) fn heal(&mut self) {
        self.witness.note(|| "HEALS".to_owned());
        self.postgres.hosts.iter_mut().for_each(|host| host.manner.signals_late = 0);
        self.make_peace();
        let mut shape = self.plan.shape.after_faults();
        if self.plan.is_timed {
            // Another client's long statement may run first.
            shape.set("query_wait_timeout", 0);
        }
        let errands = self.errands_left();
        // A stream takes long, and all others may wait for the only server of its pool.
        let streamers = self.apps.iter().filter(|app| app.replicates()).count().max(1) as u32;
        let streams = (STREAMS_HEALED / streamers).clamp(1, HEALED_ERRANDS);
        self.reload(&shape);
        let net = self.net.clone();
        {
            let net = &mut net.borrow_mut();
            for app in &mut self.apps {
                app.calm_down(net, if app.replicates() { streams } else { errands });
            }
        }
        if self.checkers.phase == Phase::Faults {
            self.checkers.phase = Phase::Healing { since: self.witness.now };
        }
        self.send_mail();
    }

    /// Returns how many errands each application may still do after the faults, so that a slow world also reaches
    /// `TRANSACTIONS_MIN`.
    fn errands_left(&self) -> u32 {
        let done = self.witness.tally.get("transactions").copied().unwrap_or(0);
        let missing = TRANSACTIONS_MIN.saturating_sub(done) as u32;
        let mut errands = HEALED_ERRANDS;
        let made_with = |errands: u32| self.apps.iter().map(|app| app.person.errands.min(errands)).sum::<u32>();
        while made_with(errands) < missing && made_with(errands) < made_with(errands + 1) {
            errands += 1;
        }
        errands
    }

    fn is_everybody_done(&mut self) -> bool {
        let late = self.apps.iter().find(|app| {
            app.waits_since
                .is_some_and(|since| self.witness.now.since(since.max(self.faults_ended_at())) > self.patience())
        });
        if let Some(app) = late {
            let (number, database, user) = (app.number, &app.person.database, &app.person.user);
            let doing = match &app.stage {
                Stage::Ready => {
                    format!("{:?}", app.asked.front().map(|request| (request.nonce, request.expects.front())))
                }
                other => format!("{other:?}").chars().take(40).collect(),
            };
            let text = format!("application {number} of {database}/{user} waits too long: {doing}");
            self.witness.accuse(Charge::NotServed, text);
        }
        let board = self.witness.board.clone();
        let board = board.borrow();
        let uninformed = self.apps.iter().find_map(|app| {
            let (note, since) = board.owed(app.number)?;
            let is_late = self.witness.now.since(since.max(self.faults_ended_at())) > self.patience();
            is_late.then(|| format!("application {} is not told of {note:?}", app.number))
        });
        if let Some(text) = uninformed {
            self.witness.accuse(Charge::NotServed, text);
        }
        self.apps.iter().all(App::is_done)
    }

    /// How long a client may wait after the faults: the statements of all others may run before.
    fn patience(&self) -> Duration {
        PATIENCE + self.plan.longest * self.apps.len() as u32
    }

    fn faults_ended_at(&self) -> Time {
        match self.checkers.phase {
            Phase::Healing { since } => since,
            _ => Time(0),
        }
    }

    fn look_at_the_healing(&mut self, since: Time) {
        let now = self.witness.now;
        if self.is_everybody_done() {
            self.checkers.phase = Phase::Resting { since: now, is_asked: false };
        } else if now.since(since) > HEALING_MAX + self.patience() {
            let left: Vec<u32> = self.apps.iter().filter(|app| !app.is_done()).map(|app| app.number).collect();
            self.witness.accuse(Charge::NotServed, format!("applications {left:?} never come to an end"));
        }
    }

    fn look_at_who_goes_down(&mut self, since: Time) {
        let now = self.witness.now;
        if now.since(since) > HEALING_MAX {
            let drained = &self.checkers.drained;
            self.witness.accuse(Charge::NotServed, format!("only {drained:?} of the workers have come to their end"));
        }
    }

    fn look_at_who_is_gone(&mut self, since: Time) {
        if self.witness.now.since(since) > LAST_WORDS {
            self.witness.count("ends");
            self.checkers.phase = Phase::Over;
        }
    }

    fn look_at_rest(&mut self, since: Time, is_asked: bool) {
        let now = self.witness.now;
        if now.since(since) < REST {
            return;
        }
        if !is_asked {
            self.order(|| ToWorker::Show { question: AT_REST, what: EVERYTHING });
            self.checkers.phase = Phase::Resting { since, is_asked: true };
            return;
        }
        if self.checkers.shown.len() < self.serving_workers.len() {
            return;
        }
        for (worker, snapshot) in std::mem::take(&mut self.checkers.shown) {
            self.check_rest(worker, &snapshot);
            if self.plan.is_calm {
                self.checkers.counters.check(&snapshot, &self.apps, &self.own_clients, &mut self.witness);
            }
        }
        self.check_buffers();
        self.check_orders();
        if let Some(members) = &self.members {
            members.history.borrow_mut().check_rest();
        }
        self.checkers.phase = Phase::Census { pool: 0, since: now, has_begun: false };
    }

    fn newcomer(&self, user: &str, database: &str, habits: Habits) -> App {
        let habits = Habits { tls: self.plan.tls.habit(), ..habits };
        let number = self.apps.len() as u32;
        let person = Person {
            user: user.to_owned(),
            database: database.to_owned(),
            errands: 1,
            transactions: false,
            proof: self.plan.proof,
            is_proof_unsure: false,
            knows_any_database: false,
        };
        let mut app = App::new(&self.plan, number, person, habits);
        self.renew_password(&mut app);
        app
    }

    fn look_at_the_census(&mut self, pool: usize, since: Time, has_begun: bool) {
        let now = self.witness.now;
        let (db, user) = (pool / 2, USERS[pool % 2]);
        let Some(database) = self.plan.shape.databases.get(db).map(|db| db.name.clone()) else {
            self.checkers.phase = Phase::Crowd { since: now, has_begun: false };
            return;
        };
        let settings = &self.active.settings;
        let Some(entry) = settings.databases.get(&*database).cloned() else { return };
        let unlimited = |limit: Option<u32>| limit.filter(|&limit| limit > 0).unwrap_or(u32::MAX);
        let wanted = settings
            .pool_limits(&entry, user)
            .servers_max
            .min(unlimited(settings.max_db_connections(&entry)))
            .min(unlimited(settings.max_user_connections(user)))
            .min(unlimited(settings.max_user_client_connections(user)))
            .min(unlimited(settings.max_db_client_connections(&entry)))
            .min(settings.max_client_conn) as usize;
        if !has_begun {
            self.checkers.census_most = 0;
            for _ in 0..wanted {
                let app = self.newcomer(user, &database, Habits { sleeps: CENSUS_MILLIS, ..Habits::default() });
                let net = self.net.clone();
                self.arrive(app, &mut net.borrow_mut());
            }
            self.checkers.phase = Phase::Census { pool, since: now, has_begun: true };
            return;
        }
        let busy = self.postgres.sessions.iter().filter(|session| session.is_working()).count();
        self.checkers.census_most = self.checkers.census_most.max(busy);
        if self.is_everybody_done() {
            if self.checkers.census_most < wanted {
                let most = self.checkers.census_most;
                let text = format!("{wanted} clients of {database}/{user} may have servers at once, {most} got them");
                self.witness.accuse(Charge::Slots, text);
            }
            self.checkers.phase = Phase::Census { pool: pool + 1, since: now, has_begun: false };
        } else if now.since(since) > HEALING_MAX {
            self.witness.accuse(Charge::NotServed, format!("the census of {database}/{user} does not end"));
        }
    }

    fn look_at_the_crowd(&mut self, since: Time, has_begun: bool) {
        let now = self.witness.now;
        if !has_begun {
            let settings = &self.active.settings;
            let user = USERS[0];
            let unlimited = |limit: Option<u32>| limit.filter(|&limit| limit > 0).unwrap_or(u32::MAX);
            let database = self.plan.shape.databases[0].name.clone();
            let of_database = settings.database(&database).and_then(|entry| settings.max_db_client_connections(&entry));
            let most = settings
                .max_client_conn
                .min(unlimited(settings.max_user_client_connections(user)))
                .min(unlimited(of_database))
                .min(60);
            for _ in 0..most {
                let habits = Habits { think: (500_000, 500_000), ..Habits::default() };
                let app = self.newcomer(user, &database, habits);
                let net = self.net.clone();
                self.arrive(app, &mut net.borrow_mut());
            }
            self.checkers.phase = Phase::Crowd { since: now, has_begun: true };
        } else if self.is_everybody_done() {
            let last = self.plan.shape.last();
            self.reload(&last);
            self.checkers.phase = Phase::Last { since: now };
        } else if now.since(since) > HEALING_MAX {
            self.witness.accuse(Charge::NotServed, "the crowd does not come to an end".to_owned());
        }
    }

    fn look_at_what_is_left(&mut self, since: Time) {
        if self.witness.now.since(since) < LAST {
            return;
        }
        self.check_buffers();
        for worker in self.serving_workers.clone() {
            let lines = self.net.borrow().worker_ios[usize::from(worker)].lines();
            if lines > 0 {
                self.witness
                    .accuse(Charge::Slots, format!("worker {worker} has {lines} connections, and nobody is here"));
            }
            if let Some(deadline) = self.deadline_of(worker) {
                let text = format!("worker {worker} waits for {deadline:?}, and nobody is here");
                self.witness.accuse(Charge::Memory, text);
            }
        }
        if !self.thread.is_at_rest() || !self.own_clients.is_at_rest() {
            self.witness.accuse(Charge::Slots, "a question of ours is open, and nobody is here".to_owned());
        }
        if self.net.borrow().descriptors > 0 {
            let text = format!("{} descriptors are open, and nobody is here", self.net.borrow().descriptors);
            self.witness.accuse(Charge::Slots, text);
        }
        self.checkers.phase = Phase::Over;
    }
}

const HEALING_MAX: Duration = Duration::from_secs(600);
/// How long a client may wait after the faults, if statements are short.
const PATIENCE: Duration = Duration::from_secs(90);
/// Longer than a connection attempt that began during the faults may hang.
const REST: Duration = Duration::from_secs(20);
/// Longer than any default timeout: timers that are still armed for nothing, which are no leak, have expired by then.
const LAST: Duration = Duration::from_secs(7300);
/// How long each client of a census keeps its server.
const CENSUS_MILLIS: u32 = 4000;
/// The number of transactions of a world, unless a shutdown ends it earlier.
const TRANSACTIONS_MIN: u64 = 1000;
/// The least number of errands of an application after the faults.
const HEALED_ERRANDS: u32 = 8;
/// The number of errands of all replication clients together after the faults: a stream lasts up to three seconds, and
/// nobody may wait for more than 80.
const STREAMS_HEALED: u32 = 24;
