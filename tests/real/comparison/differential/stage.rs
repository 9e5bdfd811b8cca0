//! Where programs are run: PostgreSQL itself, and the ways to it through the pooler.
//!
//! Always true: all databases are copies of one template, so that even the OIDs of tables are the same; before each run the
//! tables of all seats are as at the beginning.
//! Not here: which programs are run.

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

/// The databases of one lane, in which one run after another takes place.
pub(super) struct Lane<'a> {
    stage: &'a Stage,
    number: usize,
    direct: Client,
    pooled: Client,
    /// How long a message may take.
    pub(super) patience: Duration,
    scenes: usize,
    /// Programs that parted in a way that `normal` lists.
    pub(super) listed: u64,
}

/// A way through the pooler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pooler: usize,
    pool: &'static str,
}

impl Stage {
    /// Creates the databases of so many lanes, and starts a pooler for each kernel interface.
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
            // One of the two poolers renames unnamed statements for reuse.
            let ini = ini.set(&format!("reuse_unnamed_statements = {}", u8::from(kernel == KERNELS[1])));
            (kernel, house.start(&ini))
        };
        let (postgres, major) = (house.postgres.address(), house.postgres.major());
        Self { poolers: KERNELS.into_iter().map(start).collect(), postgres, major }
    }

    /// A lane, with clients of its own for setting up and reading the tables.
    pub(super) fn lane(&self, number: usize) -> Lane<'_> {
        let client = |place: &str| Client::login(self.postgres, "u", &format!("{place}{number}"));
        Lane {
            stage: self,
            number,
            direct: client("direct"),
            pooled: client("pooled"),
            patience: PATIENCE,
            scenes: 0,
            listed: 0,
        }
    }
}

impl Way {
    /// All ways that fit the confinement; the kernel interface alternates with `turn`.
    pub(super) fn all(confinement: Confinement, turn: u64) -> Vec<Self> {
        let fits = |pool: &str| confinement == Confinement::Transaction || pool == SESSION;
        let pools = POOLS.iter().map(|(pool, _)| *pool).filter(|pool| fits(pool));
        let first = (turn % KERNELS.len() as u64) as usize;
        let way = |(place, pool)| Self { pooler: (first + place) % KERNELS.len(), pool };
        pools.enumerate().map(way).collect()
    }

    /// Describes the way in words.
    pub(super) fn name(&self) -> String {
        format!("{} with {}", self.pool, KERNELS[self.pooler])
    }
}

impl Lane<'_> {
    /// Runs programs on PostgreSQL itself, one per seat, at the same time.
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

    /// Runs programs through the pooler, one per seat, at the same time; each reads as many messages as it received
    /// directly. Beside them run the badly behaved clients of the seed `rude`.
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
        // Only a direct run can find a program unfair.
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

/// Records the contents of each program's tables. The lock waits for clients that vanished in a transaction.
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

/// How many programs run at the same time, each on its own tables. One more seat is for the badly behaved clients.
pub(super) const SEATS: usize = 3;

/// Generous: with one server all clients wait for each other.
const PATIENCE: Duration = Duration::from_secs(20);
/// Rounds between two sweeps.
const SWEEP_EVERY: usize = 40;
const SESSION: &str = "session";
const POOLS: [(&str, &str); 4] = [
    ("one", "pool_size=1"),
    ("two", "pool_size=2"),
    ("eight", "pool_size=8"),
    (SESSION, "pool_mode=session pool_size=2"),
];
const KERNELS: [&str; 2] = ["io_uring", "epoll"];
