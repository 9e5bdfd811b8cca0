//! Where programs are played: PostgreSQL itself, and the ways to it through the pooler.
//!
//! Always true: all databases are copies of one template, so that even the numbers of tables are the same; before each
//! performance the tables of all seats are as at the beginning.
//! Not here: what is played.

use std::net::SocketAddr;
use std::time::Duration;

use tests::client::Client;
use tests::pooler::{Ini, Pooler};

use super::play::{Line, Pace, Transcript, play};
use super::program::{Confinement, Program};
use super::rude::misbehave;
use super::sql::{FUNCTIONS, SCENE, SCHEMA, SEED, SWEEP};
use crate::house::House;

/// What all lanes share.
#[derive(Debug)]
pub(super) struct Stage {
    poolers: Vec<(&'static str, Pooler)>,
    postgres: SocketAddr,
    major: u32,
}

/// Databases in which one performance after another takes place.
pub(super) struct Lane<'a> {
    stage: &'a Stage,
    number: usize,
    direct: Client,
    pooled: Client,
    /// How long a message may take.
    pub(super) patience: Duration,
    scenes: usize,
}

/// A way through the pooler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pooler: usize,
    pool: &'static str,
}

impl Stage {
    /// Makes the databases of so many lanes, and starts a pooler for each kernel interface.
    pub(super) fn open(house: &House, name: &str, lanes: usize) -> Self {
        let template = format!("{name}_template");
        house.postgres.database(&template);
        let mut client = house.postgres.client(&template);
        client.run(FUNCTIONS);
        (0..=SEATS).for_each(|seat| client.run(&of_seat(SCHEMA, seat)));
        drop(client);
        house.postgres.await_servers(&template, 0);
        let mut lines = Vec::new();
        for lane in 0..lanes {
            for place in ["direct", "pooled"] {
                house.postgres.query(&format!("create database {place}{lane} template {template}"));
            }
            for (pool, settings) in POOLS {
                let line = house.line_as(&format!("{pool}{lane}"), &format!("pooled{lane}"));
                lines.push(format!("{line} {settings}"));
            }
        }
        let start = |kernel: &'static str| {
            let ini = lines.iter().fold(Ini::default(), |ini, line| ini.database(line));
            let ini =
                ini.set(&format!("io_backend = {kernel}")).set("log_connections = 0").set("log_disconnections = 0");
            // One of both has names for statements without one.
            let ini = ini.set(&format!("reuse_unnamed_statements = {}", u8::from(kernel == KERNELS[1])));
            (kernel, house.start(&ini))
        };
        let (postgres, major) = (house.postgres.address(), house.postgres.major());
        Self { poolers: KERNELS.into_iter().map(start).collect(), postgres, major }
    }

    /// A lane, with its own clients for the scenery.
    pub(super) fn lane(&self, number: usize) -> Lane<'_> {
        let client = |place: &str| Client::login(self.postgres, "u", &format!("{place}{number}"));
        Lane { stage: self, number, direct: client("direct"), pooled: client("pooled"), patience: PATIENCE, scenes: 0 }
    }
}

impl Way {
    /// All ways on which such programs may go; the kernel interface alternates with `turn`.
    pub(super) fn all(confinement: Confinement, turn: u64) -> Vec<Self> {
        let fits = |pool: &str| confinement == Confinement::Transaction || pool == SESSION;
        let pools = POOLS.iter().map(|(pool, _)| *pool).filter(|pool| fits(pool));
        let first = (turn % KERNELS.len() as u64) as usize;
        let way = |(place, pool)| Self { pooler: (first + place) % KERNELS.len(), pool };
        pools.enumerate().map(way).collect()
    }

    /// In words.
    pub(super) fn name(&self) -> String {
        format!("{} with {}", self.pool, KERNELS[self.pooler])
    }
}

impl Lane<'_> {
    /// Plays programs on PostgreSQL itself, one per seat, at the same time.
    ///
    /// # Errors
    /// Why one of them is not fair.
    pub(super) fn directly(&mut self, programs: &[Program]) -> Result<Vec<Transcript>, String> {
        self.sweep();
        set_scene(&mut self.direct);
        let line = self.line(self.stage.postgres, format!("direct{}", self.number), PATIENCE);
        let mut played: Vec<_> = all(&line, programs, |_| Pace::Rules).into_iter().collect::<Result<_, _>>()?;
        see_scene(&mut self.direct, &mut played);
        Ok(played)
    }

    fn line(&self, address: SocketAddr, database: String, patience: Duration) -> Line {
        Line { address, database, patience, tells_again: self.stage.major < 14 }
    }

    fn sweep(&mut self) {
        self.scenes += 1;
        if self.scenes.is_multiple_of(SWEEP_EVERY) {
            for client in [&mut self.direct, &mut self.pooled] {
                (0..SEATS).for_each(|seat| client.run(&of_seat(SWEEP, seat)));
            }
        }
    }

    /// Plays programs through the pooler, one per seat, at the same time; each waits for as much as it was told directly.
    /// Beside them come clients without manners, of the seed `rude`.
    pub(super) fn through(
        &mut self,
        way: &Way,
        programs: &[Program],
        direct: &[Transcript],
        rude: Option<u64>,
    ) -> Vec<Transcript> {
        set_scene(&mut self.pooled);
        let address = self.stage.poolers[way.pooler].1.address();
        let line = self.line(address, format!("{}{}", way.pool, self.number), self.patience);
        let played = std::thread::scope(|scope| {
            if let (Some(seed), Some(program)) = (rude, programs.first()) {
                let (line, confinement) = (&line, program.confinement);
                scope.spawn(move || misbehave(line, seed, SEATS, confinement));
            }
            all(&line, programs, |at| Pace::Marks(&direct[at].marks))
        });
        // Only PostgreSQL's own rules can find a program unfair.
        let mut played: Vec<_> = played.into_iter().map(Result::unwrap_or_default).collect();
        see_scene(&mut self.pooled, &mut played);
        played
    }
}

fn all<'a>(line: &Line, programs: &[Program], pace: impl Fn(usize) -> Pace<'a>) -> Vec<Result<Transcript, String>> {
    std::thread::scope(|scope| {
        let play = |(at, program)| {
            let pace = pace(at);
            scope.spawn(move || play(line, program, pace))
        };
        let threads: Vec<_> = programs.iter().enumerate().map(play).collect();
        threads.into_iter().map(|thread| thread.join().expect("playing does not panic")).collect()
    })
}

/// Writes down what each program has left in its tables. The lock waits for those that vanished in a transaction.
fn see_scene(client: &mut Client, played: &mut [Transcript]) {
    for (seat, transcript) in played.iter_mut().enumerate() {
        let answer = client.query(&of_seat(SCENE, seat));
        assert!(answer.errors.is_empty(), "{answer:?}");
        transcript.left = answer.rows;
    }
}

fn set_scene(client: &mut Client) {
    let scene: Vec<_> = (0..SEATS).map(|seat| of_seat(SEED, seat)).collect();
    client.run(&scene.concat());
}

fn of_seat(sql: &str, seat: usize) -> String {
    sql.replace('$', &seat.to_string())
}

/// How many programs are played at the same time, each on its own tables. One seat more is for clients without manners.
pub(super) const SEATS: usize = 3;

/// Generous: with one server all clients wait for each other.
const PATIENCE: Duration = Duration::from_secs(20);
/// Rounds between two sweeps.
const SWEEP_EVERY: usize = 200;
const SESSION: &str = "session";
const POOLS: [(&str, &str); 4] = [
    ("one", "pool_size=1"),
    ("two", "pool_size=2"),
    ("eight", "pool_size=8"),
    (SESSION, "pool_mode=session pool_size=2"),
];
const KERNELS: [&str; 2] = ["io_uring", "epoll"];
