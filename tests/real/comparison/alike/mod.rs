//! Random programs that use all kinds of session state: many clients on few servers, compared with a direct connection for
//! each client.
//!
//! Always true: each client receives the same answers on both sides, with the same ParameterStatus messages and no others, and
//! has the same session state after each step; a program that differs is made as short as possible before it is reported.
//! Not here: the programs (`program`), what another session does to the objects (`elsewhere`), protocol messages in any order and
//! in pieces (`differential`).

mod elsewhere;
mod pair;
mod program;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tests::client::Client;
use tests::message::query;
use tests::pooler::Pooler;

use crate::house::House;

use elsewhere::{FUNCTIONS, Of};
pub(crate) use pair::{KEEPS, seen_alike};
use pair::{Pair, hear};
use program::{Says, Step, draw};

/// A fixed number of programs, the same in each run.
pub(crate) fn random_sessions_are_what_they_would_be_on_a_direct_connection(house: &House) {
    let stage = Stage::open(house, "alike");
    for seed in 0..8 {
        stage.perform(seed, 250).unwrap_or_else(|difference| panic!("{difference}"));
    }
    assert!(stage.verified_count() > 0, "nothing was compared");
}

/// Runs as many steps as `TRUNKLINE_SESSION_STEPS` says, from the seed `TRUNKLINE_SESSION_SEED` on.
// Only when named.
pub(crate) fn as_many_random_sessions_as_wanted(house: &House) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = number("TRUNKLINE_SESSION_STEPS").unwrap_or(STEPS_EACH as u64);
    let first = number("TRUNKLINE_SESSION_SEED").unwrap_or(1000);
    let programs = steps.div_ceil(STEPS_EACH as u64);
    let (next, is_over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    let lane = |number: usize| {
        let stage = Stage::open(house, &format!("alike_long{number}"));
        while !is_over.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= programs {
                break;
            }
            stage.perform(first + at, STEPS_EACH).inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
            if (at + 1).is_multiple_of(100) {
                println!("{} steps are alike", (at + 1) * STEPS_EACH as u64);
            }
        }
        Ok(stage.verified_count())
    };
    let ends: Vec<Result<u64, String>> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|number| scope.spawn(move || lane(number))).collect();
        lanes.into_iter().map(|lane| lane.join().expect("a difference is no panic")).collect()
    });
    let verified: u64 = ends.into_iter().map(|end| end.unwrap_or_else(|difference| panic!("{difference}"))).sum();
    println!("{verified} times what was known of a session was what its server told");
}

/// How often the known state of a session was compared with the answer of a server, and how often they differed.
pub(crate) fn verified(pooler: &Pooler) -> [u64; 2] {
    let answer = pooler.console("SHOW LISTS");
    let items = |list: &str| {
        let row = answer.rows.iter().find(|row| row[0].as_deref() == Some(list)).expect("the console shows it");
        row[1].as_deref().and_then(|items| items.parse().ok()).expect("it is a number")
    };
    ["sessions_verified", "sessions_mistaken"].map(items)
}

/// Programs that run at the same time in the long run, each with a pooler and databases of its own: much of a program is
/// waiting.
const LANES: usize = 3;
/// Steps of one program in the long run.
const STEPS_EACH: usize = 500;
/// How soon the locks of a client that has left must be released. The pooler looks for stranded locks each second.
const LOCKS_GONE_AFTER: Duration = Duration::from_secs(5);
/// How long one answer may take: generous, since others may use the machine.
const PATIENCE: Duration = Duration::from_secs(20);
const CLIENTS: usize = 20;
const SERVERS: usize = 2;
/// Timers that expire during the programs: shorter than one of their statements, and so short that servers come and go.
const TIMERS: [&str; 5] = [
    "server_mend_timeout = 1.5",
    "server_idle_timeout = 1",
    "server_lifetime = 1",
    "sequence_hold_time = 0.1",
    "lock_sweep_interval = 1",
];

/// The pooler, and two equal databases: locks and notifications of one side are not seen on the other.
struct Stage<'a> {
    house: &'a House,
    pooler: Pooler,
    database: String,
    direct: String,
    /// Another session: directly, in the database of each side.
    somebody: [RefCell<Client>; 2],
}

impl<'a> Stage<'a> {
    fn open(house: &'a House, database: &str) -> Self {
        let direct = format!("{database}_direct");
        let size = format!("default_pool_size = {SERVERS}");
        let tracked = "track_extra_parameters = IntervalStyle, search_path, statement_timeout";
        let settings = ["pool_mode = transaction", &size, "max_prepared_statements = 50", tracked];
        let settings = [&settings[..], &TIMERS].concat();
        let pooler = house.pooler(database, &settings);
        let mut setup = house.postgres.client(database);
        setup.run(&format!("create database {direct}"));
        setup.run(&format!("create role {database}_role; grant {database}_role to u"));
        for database in [database, &direct] {
            let mut setup = house.postgres.client(database);
            setup.run("create schema one; create schema two; grant all on schema public to u");
            setup.run(FUNCTIONS);
        }
        let somebody = [&direct, database].map(|database| RefCell::new(house.postgres.client(database)));
        Self { house, pooler, database: database.into(), direct, somebody }
    }

    /// How often a verifying state probe confirmed the known state of a session; none may have contradicted it.
    fn verified_count(&self) -> u64 {
        let [verified, mistaken] = verified(&self.pooler);
        assert_eq!(mistaken, 0, "of {verified}; the log names each");
        verified
    }

    /// Runs a program. In every other program, verifying state probes are switched on.
    ///
    /// # Errors
    /// The difference, with the program made shorter.
    fn perform(&self, seed: u64, length: usize) -> Result<(), String> {
        let verify = format!("SET session_verify = {}", (seed + 1) % 2);
        let answer = self.pooler.console(&verify);
        assert!(answer.errors.is_empty(), "{:?}", answer.errors);
        let mut steps = draw(seed, length);
        let Err(mut why) = self.try_play(&steps) else { return Ok(()) };
        println!("seed {seed}: {why}");
        let mut size = steps.len() / 2;
        let until = Instant::now() + Duration::from_secs(60);
        while size > 0 && Instant::now() < until {
            let mut at = 0;
            while at < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(at..(at + size).min(steps.len()));
                match self.try_play(&fewer) {
                    Err(other) => (steps, why) = (fewer, other),
                    Ok(()) => at += size,
                }
            }
            size /= 2;
        }
        let told: Vec<String> = steps.iter().map(Step::to_string).collect();
        Err(format!("seed {seed}, {why}:\n{}", told.join("\n")))
    }

    /// An answer that does not arrive is a difference, too.
    fn try_play(&self, steps: &[Step]) -> Result<(), String> {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.play(steps)));
        played.unwrap_or_else(|why| Err(why.downcast_ref::<String>().cloned().unwrap_or_default()))
    }

    /// Waits until no advisory lock is left: the locks of a client that has left are released on either side as soon as that
    /// is noticed.
    fn await_no_locks(&self) -> Result<(), String> {
        let until = Instant::now() + LOCKS_GONE_AFTER;
        let locks = format!(
            "select count(*) from pg_locks l join pg_database d on d.oid = l.database
             where locktype = 'advisory' and datname in ('{}', '{}')",
            self.database, self.direct
        );
        while self.somebody[0].borrow_mut().value(&locks) != "0" {
            if Instant::now() > until {
                return Err("a lock is left long after its client".into());
            }
        }
        Ok(())
    }

    fn play(&self, steps: &[Step]) -> Result<(), String> {
        let mut pairs = (0..CLIENTS).map(|who| Pair::come(self, who)).collect::<Result<Vec<_>, _>>()?;
        for step in steps {
            let is_taken = pairs.iter().enumerate().any(|(at, pair)| at != step.who && pair.is_busy);
            let is_change = matches!(step.says, Says::Changes(..));
            if (step.keeps || is_change) && is_taken
                || is_change && pairs[step.who].is_busy
                || pairs[step.who].is_left_out(step)
            {
                continue;
            }
            if let Says::Changes(Of::Roles, _) = step.says {
                pairs.iter_mut().try_for_each(Pair::leave_role)?;
            }
            let step = Step { says: step.says.with_role(&self.database), ..step.clone() };
            pairs[step.who].step(self, &step).map_err(|why| format!("{step}: {why}"))?;
            if step.may_be_heard() {
                hear(&mut pairs).map_err(|why| format!("{step}: {why}"))?;
            }
        }
        // A client that receives too many notifications has received them before this.
        for pair in &mut pairs {
            pair.both(&[query("rollback")])?;
            pair.both(&[query("unlisten *; listen last")])?;
            pair.listens = true;
        }
        pairs[0].both(&[query("notify last")])?;
        hear(&mut pairs)?;
        drop(pairs);
        self.await_no_locks()
    }
}
