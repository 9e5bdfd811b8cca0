//! One measured run of one contestant.
//!
//! Always true: the poolers of the loads are started once and stay idle while others run; for memory and start times a
//! new process is started for each run.

use std::collections::BTreeMap;
use std::time::Duration;

use ops::trial::{
    Client, Cluster, ClusterShape, DATABASE, Load, LoadOutcome, Pooler, Protocol, Script, Trial, TrialError, USER,
    cpu_of, free_ports, raise_descriptor_limit, resident_of, resident_peak_of,
};

use super::certificate::Certificate;
use super::contestant::{Contestant, Executables, Ports, SERVERS, TAPPED};
use super::habit::Played;
use super::habit_load;
use super::options::Options;
use super::scenario::Scenario;
use super::tally::{Metric, Readings, Tally};
use super::tap::{Answers, Counts, Tap};
use super::tenants;

/// The readings of a run, or why there are none.
pub(super) type RunResult = Result<Readings, String>;

pub(super) struct Stage<'a> {
    trial: &'a Trial,
    executables: &'a Executables,
    seconds: u32,
    habit_seconds: u32,
    is_telling_texts: bool,
    descriptors: u64,
    tap: Tap,
    // Before the cluster, because fields are dropped in order, and the poolers have to stop first.
    poolers: BTreeMap<Contestant, Pooler>,
    cluster: Cluster,
}

impl<'a> Stage<'a> {
    /// Makes the cluster and starts the contestants. One that does not start is left out of the bench and listed.
    pub(super) fn raise(
        trial: &'a Trial,
        options: &Options,
        executables: &'a Executables,
        tally: &mut Tally,
    ) -> Result<Self, TrialError> {
        let descriptors = raise_descriptor_limit();
        let [port] = free_ports()?;
        eprintln!("PostgreSQL {}: making a throw-away cluster", trial.programs.version);
        let scale = if options.is_quick { 5 } else { 20 };
        let cluster = Cluster::start(trial, port, ClusterShape { connections_max: 500, buffers_mib: 512, scale })?;
        let certificate =
            Certificate::new().map_err(|why| TrialError::step("cannot make a certificate".into(), why))?;
        certificate.write(trial)?;
        let poolers = BTreeMap::new();
        let tap = Tap::open(port, Answers::AsTheyCome)
            .map_err(|why| TrialError::step("no relay before PostgreSQL".into(), why))?;
        let (seconds, is_telling_texts) = (options.seconds, options.is_telling_texts);
        // Habits are so many that a whole run would take an hour for them alone.
        let habit_seconds = if options.only.is_empty() { seconds.min(HABIT_SECONDS_MAX) } else { seconds };
        let mut stage =
            Self { trial, executables, seconds, habit_seconds, is_telling_texts, descriptors, tap, poolers, cluster };
        for contestant in Contestant::ALL {
            match stage.start(contestant, 0) {
                Ok(pooler) => stage.warm_up(contestant, pooler)?,
                Err(TrialError::Interrupted) => return Err(TrialError::Interrupted),
                Err(why) if contestant == Contestant::Uring => tally.absent(contestant, &why.to_string()),
                Err(why) => return Err(why),
            }
        }
        Ok(stage)
    }

    pub(super) fn is_absent(&self, contestant: Contestant) -> bool {
        !self.poolers.contains_key(&contestant)
    }

    /// Habits do not depend on the kernel interface, so they are measured with one of ours.
    pub(super) fn is_for(&self, scenario: Scenario, contestant: Contestant) -> bool {
        match (scenario, contestant) {
            (Scenario::Habit(_), Contestant::Epoll) => self.is_absent(Contestant::Uring),
            (Scenario::Habit(played), Contestant::PgBouncer) => played.habit.not_beside_pgbouncer.is_none(),
            _ => true,
        }
    }

    /// Creates the tables of the habits.
    pub(super) fn fill(&self, tables: &str) -> Result<(), TrialError> {
        let client = Client::log_in(self.cluster.port(), USER, DATABASE, PATIENCE);
        let made = client.and_then(|mut client| client.run(tables));
        made.map(drop).map_err(|why| TrialError::step("cannot make the tables of the habits".into(), why))
    }

    /// Creates the databases of the tenants.
    pub(super) fn fill_tenants(&self) -> Result<(), TrialError> {
        tenants::create(self.cluster.port()).map_err(|why| TrialError::step("cannot make the tenants".into(), why))
    }

    pub(super) fn run(&mut self, scenario: Scenario, contestant: Contestant) -> Result<RunResult, TrialError> {
        match scenario {
            Scenario::Idle { clients } => self.idle(contestant, clients),
            Scenario::Row => self.row(contestant),
            Scenario::Startup { databases } => self.startup(contestant, databases),
            Scenario::Tenants { clients } => self.tenants(contestant, clients),
            Scenario::Habit(played) => self.habit(played, contestant),
            _ => self.load(scenario, contestant),
        }
    }

    fn start(&self, contestant: Contestant, databases_more: u32) -> Result<Pooler, TrialError> {
        let [port] = free_ports()?;
        let ports = Ports { server: self.cluster.port(), tap: self.tap.port(), own: port };
        let ini = contestant.ini(self.trial.system_user.become_name(), ports, databases_more);
        Pooler::start(self.trial, contestant.key(), self.executables.of(contestant), &ini, port)
    }

    /// Fills the pool, so that no measured run includes logins to servers.
    fn warm_up(&mut self, contestant: Contestant, pooler: Pooler) -> Result<(), TrialError> {
        let load = Load {
            port: pooler.port(),
            database: DATABASE,
            clients: 2 * SERVERS,
            seconds: 1,
            script: Script::SelectOnly,
            protocol: Protocol::Simple,
            is_reconnecting: false,
            is_secured: false,
        };
        self.poolers.insert(contestant, pooler);
        match load.run(self.trial, &mut |_| {})? {
            LoadOutcome::Done(_) => Ok(()),
            LoadOutcome::Failed(why) => Err(TrialError::step(format!("{} does not work", contestant.label()), why)),
        }
    }

    /// Runs a habit on new server connections, because with PgBouncer the settings of the previous habit would still be
    /// in effect. The messages to PostgreSQL are counted in a separate run.
    fn habit(&mut self, played: Played, contestant: Contestant) -> Result<RunResult, TrialError> {
        let Some(pooler) = self.poolers.get_mut(&contestant) else {
            return Ok(Err("it was not started".into()));
        };
        let (port, pid) = (pooler.port(), pooler.pid());
        let console = Client::log_in(port, USER, "pgbouncer", PATIENCE);
        if let Err(why) = console.and_then(|mut console| console.run("RECONNECT")) {
            return Ok(Err(why.to_string()));
        }
        if let Err(why) = habit_load::run(played, port, DATABASE, 1) {
            return Ok(Err(why));
        }
        self.trial.interrupt.wait(Duration::ZERO)?;
        let (before, server_before) = (cpu_of(pid).unwrap_or_default(), self.cluster.cpu());
        let outcome = habit_load::run(played, port, DATABASE, self.habit_seconds);
        let (used, server_used) =
            (cpu_of(pid).unwrap_or_default().since(before), self.cluster.cpu().since(server_before));
        if pooler.has_ended() {
            let what = format!("{} ended during {}", contestant.label(), played.name());
            return Err(TrialError::step(what, self.trial.last_words(contestant.key())));
        }
        let mut readings = match outcome {
            Ok(result) if result.transactions == 0 => return Ok(Err("not one transaction was done".into())),
            Ok(result) => {
                let mut readings = Readings::of_load(result, used);
                readings.set(Metric::ServerCpuUs, server_used.total_us() as f64 / result.transactions as f64);
                readings
            }
            Err(why) => return Ok(Err(why)),
        };
        self.tap.take();
        let counted = match habit_load::run(played, port, TAPPED, 1) {
            Ok(result) => result.transactions.max(1) as f64,
            Err(why) => return Ok(Err(why)),
        };
        let counts = self.tap.take();
        readings.set(Metric::Messages, counts.messages as f64 / counted);
        readings.set(Metric::RoundTrips, counts.round_trips as f64 / counted);
        if self.is_telling_texts {
            tell_texts(&counts, counted);
        }
        Ok(Ok(readings))
    }

    /// The processor time covers the whole run of pgbench, including the logins of its clients.
    fn load(&mut self, scenario: Scenario, contestant: Contestant) -> Result<RunResult, TrialError> {
        let Some(pooler) = self.poolers.get_mut(&contestant) else {
            return Ok(Err("it was not started".into()));
        };
        let Some(load) = scenario.load(pooler.port(), self.seconds) else {
            return Ok(Err("it is no load".into()));
        };
        let before = cpu_of(pooler.pid()).unwrap_or_default();
        let outcome = load.run(self.trial, &mut |_| {})?;
        let used = cpu_of(pooler.pid()).unwrap_or_default().since(before);
        if pooler.has_ended() {
            return Err(TrialError::step(
                format!("{} ended during {}", contestant.label(), scenario.name()),
                self.trial.last_words(contestant.key()),
            ));
        }
        Ok(match outcome {
            LoadOutcome::Failed(why) => Err(why),
            LoadOutcome::Done(result) if result.transactions == 0 => Err("not one transaction was done".into()),
            LoadOutcome::Done(result) => Ok(Readings::of_load(result, used)),
        })
    }

    /// Each client logs in and runs a query. Then every hundredth runs another one, which proves that the connections
    /// were kept.
    fn idle(&self, contestant: Contestant, clients: u32) -> Result<RunResult, TrialError> {
        let needed = u64::from(clients) + DESCRIPTORS_BESIDES;
        if self.descriptors < needed {
            return Ok(Err(format!("{needed} open files are needed and {} allowed", self.descriptors)));
        }
        let pooler = self.start(contestant, 0)?;
        let before = resident_of(pooler.pid()).unwrap_or(0);
        let mut resting: Vec<Client> = Vec::new();
        for number in 0..clients {
            if number % 100 == 0 {
                self.trial.interrupt.wait(Duration::ZERO)?;
            }
            let client = pooler.client(PATIENCE).and_then(|mut client| client.run("SELECT 1").map(|_| client));
            match client {
                Ok(client) => resting.push(client),
                Err(why) => return Ok(Err(format!("client {number} of {clients}: {why}"))),
            }
        }
        let after = resident_of(pooler.pid()).unwrap_or(0);
        for client in resting.iter_mut().step_by(100) {
            if let Err(why) = client.run("SELECT 1") {
                return Ok(Err(format!("a client that had rested: {why}")));
            }
        }
        let bytes = after.saturating_sub(before) as f64 / f64::from(clients);
        Ok(Ok(Readings::of(Metric::IdleBytes, bytes)))
    }

    fn row(&self, contestant: Contestant) -> Result<RunResult, TrialError> {
        let pooler = self.start(contestant, 0)?;
        let before = resident_of(pooler.pid()).unwrap_or(0);
        let sql = format!("SELECT repeat('x', {ROW_BYTES})");
        let answer = pooler.client(PATIENCE).and_then(|mut client| client.run(&sql));
        let peak = resident_peak_of(pooler.pid()).unwrap_or(0);
        Ok(match answer {
            Ok(bytes) if bytes < ROW_BYTES => Err(format!("only {bytes} bytes came")),
            Ok(_) => Ok(Readings::of(Metric::RowGrowthMib, peak.saturating_sub(before) as f64 / 1_048_576.0)),
            Err(why) => Err(why.to_string()),
        })
    }

    /// A new pooler for each run, because its servers are the subject.
    fn tenants(&self, contestant: Contestant, clients: u32) -> Result<RunResult, TrialError> {
        let [port] = free_ports()?;
        let users = tenants::users();
        self.trial.scratch.write(&self.trial.system_user, tenants::USERS_FILE, &users)?;
        let ini = tenants::ini(contestant, self.trial.system_user.become_name(), self.cluster.port(), port);
        let name = format!("{}-tenants", contestant.key());
        let pooler = Pooler::start(self.trial, &name, self.executables.of(contestant), &ini, port)?;
        let mut seen_at = Vec::new();
        let seen = tenants::run(port, clients, self.seconds.max(TENANTS_SECONDS_MIN), &mut || {
            seen_at.push((cpu_of(pooler.pid()).unwrap_or_default(), self.server_logins()));
        });
        let mut seen = match seen {
            Ok(seen) if seen.took_ms.is_empty() => return Ok(Err("not one transaction was done".into())),
            Ok(seen) => seen,
            Err(why) => return Ok(Err(why)),
        };
        let mut readings = Readings::default();
        readings.set(Metric::Tps, seen.tps());
        readings.set(Metric::MeanMs, seen.mean_ms());
        if let Some((p99_ms, slowest_ms)) = seen.slow_ms() {
            readings.set(Metric::P99Ms, p99_ms);
            readings.set(Metric::SlowestMs, slowest_ms);
        }
        if let [(cpu_before, logins_before), (cpu_after, logins_after)] = seen_at[..] {
            let (used, transactions) = (cpu_after.since(cpu_before), seen.took_ms.len() as f64);
            readings.set(Metric::CpuUs, used.total_us() as f64 / transactions);
            readings.set(Metric::CpuUserUs, used.user_us as f64 / transactions);
            readings.set(Metric::LoginsPerMinute, (logins_after - logins_before) as f64 * 60.0 / seen.seconds);
        }
        Ok(Ok(readings))
    }

    /// How many connections PostgreSQL has let in so far, by its log.
    fn server_logins(&self) -> usize {
        self.trial.complaints("postgres").matches("connection authorized:").count()
    }

    fn startup(&self, contestant: Contestant, databases: u32) -> Result<RunResult, TrialError> {
        let pooler = self.start(contestant, databases - 1)?;
        Ok(Ok(Readings::of(Metric::StartupMs, pooler.startup().as_secs_f64() * 1e3)))
    }
}

/// Prints the queries that PostgreSQL got, the most frequent first.
fn tell_texts(counts: &Counts, transactions: f64) {
    let mut texts: Vec<_> = counts.texts.iter().collect();
    texts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (text, &count) in texts.into_iter().take(TEXTS_TOLD_MAX) {
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        eprintln!("    {:>6.3}  {text}", count as f64 / transactions);
    }
}

const HABIT_SECONDS_MAX: u32 = 2;

const TEXTS_TOLD_MAX: usize = 20;
const TEXT_CHARS_MAX: usize = 160;

/// In fewer seconds a client may wait that a longer run would show to wait longer.
const TENANTS_SECONDS_MIN: u32 = 10;

/// PostgreSQL cannot send more than 1 GiB in a row, including the bytes of its message (`MaxAllocSize`).
const ROW_BYTES: u64 = (1 << 30) - 64;

const PATIENCE: Duration = Duration::from_secs(60);

/// Descriptors for servers, listeners, logs, and those of the bench itself.
const DESCRIPTORS_BESIDES: u64 = 500;
