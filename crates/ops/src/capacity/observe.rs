//! What is seen of pooler, server and machine while a step runs.
//!
//! Always true: it reads only, over connections of its own and files of the kernel; what it may not see is absent with its reason. It ends when it
//! is told to.
//! Not here: what follows (`evidence`), sampling itself (`doctor`).

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::evidence::{Evidence, PoolUse, Shares};
use crate::connection::{Line, Stop};
use crate::doctor::sample;
use crate::facts::{
    Answers, CONSOLE_COUNTERS, Host, Observed, Tally, Waits, allowed_processors, amount, thread_times, word,
};
use crate::hatest::Target;
use crate::trial::{children_of, cpu_of};

/// Where to look.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    pub(crate) server: Observed<Target>,
    pub(crate) console: Observed<Target>,
    /// The database that the load goes to, by the pooler's name for it.
    pub(crate) database: String,
    pub(crate) is_host: bool,
    pub(crate) cores: Option<f64>,
    pub(crate) pooler_pid: Option<u32>,
}

/// What was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) evidence: Evidence,
    /// The mean time for which a transaction had a server, in seconds.
    pub(crate) service: Observed<f64>,
}

impl Seen {
    /// Where nothing was looked at.
    pub(crate) fn nothing() -> Self {
        Self { evidence: Evidence::default(), service: Err("an observation".to_owned()) }
    }
}

/// A look that goes on.
pub(crate) struct Look {
    stop: watch::Sender<bool>,
    thread: JoinHandle<Seen>,
}

impl Look {
    /// Ends it.
    pub(crate) fn end(self) -> Seen {
        self.stop.send_replace(true);
        let lost =
            || Seen { evidence: Evidence::default(), service: Err("an observation that does not fail".to_owned()) };
        self.thread.join().unwrap_or_else(|_| lost())
    }
}

impl Observer {
    /// Begins to look.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn begin(&self) -> Result<Look, String> {
        let (stop, raised) = watch::channel(false);
        let observer = self.clone();
        let thread = std::thread::Builder::new().name("observer".to_owned());
        let thread =
            thread.spawn(move || observer.look(&raised)).map_err(|why| format!("cannot start a thread: {why}"))?;
        Ok(Look { stop, thread })
    }

    fn look(&self, raised: &watch::Receiver<bool>) -> Seen {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
            return Seen::nothing();
        };
        let seen = LocalSet::new().block_on(&runtime, self.observe(raised));
        // A lookup of a host name that is under way is not waited for.
        runtime.shutdown_background();
        seen
    }

    async fn observe(&self, raised: &watch::Receiver<bool>) -> Seen {
        let stop = || Stop::by(raised.clone());
        let pooler = async {
            match self.pooler_pid {
                Some(pid) => self.watch_threads(pid, stop()).await,
                None => Err("--pooler-pid".to_owned()),
            }
        };
        let (console, (waits, cpu), contended, pooler_cpu) =
            tokio::join!(self.watch_console(stop()), self.watch_server(stop()), self.watch_locks(stop()), pooler,);
        let (pool, service) = match console {
            Ok((pool, service)) => (pool, service),
            Err(why) => (Err(why.clone()), Err(why)),
        };
        let shares = waits.map(|waits| shares(&waits));
        let (server_cpu, machine_cpu) = match (cpu, self.cores, &shares) {
            (Ok((server, machine)), ..) => (Ok(server), Ok(machine)),
            (Err(why), Some(cores), Ok(shares)) => (Ok((shares.processor * shares.active / cores).min(1.0)), Err(why)),
            (Err(why), ..) => (Err(why.clone()), Err(why)),
        };
        let evidence =
            Evidence { pool, server_cpu, machine_cpu, waits: shares, contended, pooler_cpu, generator: None };
        Seen { evidence, service }
    }

    /// The pool, and the time with a server.
    async fn watch_console(&self, mut stop: Stop) -> Observed<(Observed<PoolUse>, Observed<f64>)> {
        let mut line = Line::open(self.console.as_ref().map_err(String::clone)?).await?;
        let counters = async |line: &mut Line| {
            let mut answers = Answers::default();
            line.show(&CONSOLE_COUNTERS, &mut answers).await;
            Tally::read(&answers)
        };
        let before = counters(&mut line).await;
        let (mut looks, mut sum) = (0.0, PoolUse::default());
        while line.lost().is_none() {
            let mut answers = Answers::default();
            line.show(&POOL_TABLES, &mut answers).await;
            let pools = answers.rows::<BTreeMap<String, String>>("POOLS")?;
            let of_ours = || pools.iter().filter(|row| word(row, "database") == self.database);
            let total = |column: &str| of_ours().filter_map(|row| amount(row, column)).sum::<f64>();
            sum.taken += total("sv_active");
            sum.waiting += total("cl_waiting");
            looks += 1.0;
            let databases = answers.rows::<BTreeMap<String, String>>("DATABASES").unwrap_or_default();
            let row = databases.iter().find(|row| word(row, "name") == self.database);
            sum.size = row.map_or(sum.size, |row| {
                let size = amount(row, "pool_size").unwrap_or(0.0) + amount(row, "reserve_pool_size").unwrap_or(0.0);
                size * of_ours().count().max(1) as f64
            });
            if stop.or(tokio::time::sleep(BETWEEN_LOOKS)).await.is_none() {
                break;
            }
        }
        let after = counters(&mut line).await;
        line.close().await;
        let pool = match sum.size > 0.0 {
            true => Ok(PoolUse { size: sum.size, taken: sum.taken / looks, waiting: sum.waiting / looks }),
            false => Err(format!("a pool of the database {} with a size", self.database)),
        };
        let service = before.and_then(|before| held(&after?.since(&before)));
        Ok((pool, service))
    }

    /// What sessions wait for, and what processors do.
    async fn watch_server(&self, mut stop: Stop) -> (Observed<Waits>, Observed<(f64, f64)>) {
        let opened = match &self.server {
            Ok(target) => Line::open(target).await,
            Err(why) => Err(why.clone()),
        };
        let mut line = match opened {
            Ok(line) => line,
            Err(why) => return (Err(why.clone()), Err(why)),
        };
        line.limit().await;
        let mut own = Vec::new();
        let mut sees = String::new();
        let asked = line.rows(OWN, |row| {
            let mut values = row.into_iter().flatten();
            own.extend(values.next().and_then(|pid| pid.parse::<u32>().ok()));
            sees = values.next().unwrap_or_default();
        });
        if let Err(why) = asked.await {
            return (Err(why.clone()), Err(why));
        }
        let host = Host::read(Path::new("/"), &Ok(own), None);
        let machine = || crate::facts::machine_times(Path::new("/"));
        let began =
            (Instant::now(), host.processes.as_ref().map(|processes| server_cpu(processes.postmaster)), machine());
        let waits = sample(&mut line, LONG, EVERY, &mut stop, |_| ()).await;
        let waits = match line.lost() {
            _ if sees != "t" => Err("pg_monitor (or pg_read_all_stats), to see the sessions of other roles".to_owned()),
            _ if waits.samples > 0 => Ok(waits),
            Some(why) => Err(format!("samples of waits ({why})")),
            None => Err("samples of waits (none was answered)".to_owned()),
        };
        line.close().await;
        if !self.is_host {
            return (waits, Err("--host, or --cores".to_owned()));
        }
        let cpu = || {
            let processes = host.processes.as_ref().map_err(String::clone)?;
            let used = server_cpu(processes.postmaster) - began.1.map_err(String::clone)?;
            let server = used / began.0.elapsed().as_secs_f64() / host.cores.clone()?;
            let (before, after) = (began.2.clone()?, machine()?);
            Ok((server, (after.0 - before.0) / (after.1 - before.1).max(f64::MIN_POSITIVE)))
        };
        (waits, cpu())
    }

    /// Relations that sessions wait for.
    async fn watch_locks(&self, mut stop: Stop) -> Observed<Vec<(String, u64)>> {
        let mut line = Line::open(self.server.as_ref().map_err(String::clone)?).await?;
        line.limit().await;
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        while line.lost().is_none() {
            let read = |row: Vec<Option<String>>| {
                let mut values = row.into_iter().flatten();
                if let (Some(name), Some(count)) =
                    (values.next(), values.next().and_then(|count| count.parse::<u64>().ok()))
                {
                    *seen.entry(name).or_insert(0) += count;
                }
            };
            line.rows(CONTENDED, read).await?;
            if stop.or(tokio::time::sleep(BETWEEN_LOCKS)).await.is_none() {
                break;
            }
        }
        line.close().await;
        let mut seen: Vec<(String, u64)> = seen.into_iter().collect();
        seen.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        seen.truncate(NAMES_MAX);
        Ok(seen)
    }

    /// The busiest thread of the pooler.
    async fn watch_threads(&self, pid: u32, mut stop: Stop) -> Observed<f64> {
        let root = Path::new("/");
        let allowed = allowed_processors(root, pid)?;
        let (began, before) = (Instant::now(), thread_times(root, pid)?);
        stop.raised().await;
        let (after, seconds) = (thread_times(root, pid)?, began.elapsed().as_secs_f64());
        let used: Vec<f64> =
            after.iter().map(|(thread, time)| (time - before.get(thread).copied().unwrap_or(0.0)) / seconds).collect();
        // A thread has one processor at most, and all threads together what the control group allows.
        Ok(used.iter().copied().fold(0.0, f64::max).max(used.iter().sum::<f64>() / allowed))
    }
}

/// The mean time for which a transaction had a server.
fn held(grown: &Tally) -> Observed<f64> {
    if grown.transactions < 1.0 {
        return Err("transactions that the pooler counts".to_owned());
    }
    let held = match grown.phases {
        Some(phases) => {
            phases.settings + phases.first_byte + phases.streaming + phases.client_blocked + phases.client_thinking
        }
        None => (grown.transaction_time - grown.wait_time).max(grown.query_time - grown.wait_time),
    };
    Ok((held / grown.transactions).max(0.0))
}

/// Processor time of the server's processes, in seconds.
fn server_cpu(postmaster: u32) -> f64 {
    let all = children_of(postmaster).into_iter().chain([postmaster]);
    all.filter_map(cpu_of).map(|cpu| cpu.total_us() as f64 / 1e6).sum()
}

/// Shares of sessions that were at work: one that is active and waits for its client's next statement has ended its last one.
fn shares(waits: &Waits) -> Shares {
    let client = waits.at_client();
    let processor = waits.of_type("");
    let disk = waits.of_type("IO") + waits.waiting_for(&["WALWrite"]);
    let lock = waits.of_type("Lock") + waits.of_type("LWLock") - waits.waiting_for(&["WALWrite"]);
    let other =
        ["Timeout", "IPC", "Extension", "BufferPin", "Activity"].map(|kind| waits.of_type(kind)).iter().sum::<f64>();
    let all = client + processor + disk + lock + other;
    let share = |part: f64| if all > 0.0 { part.max(0.0) / all } else { 0.0 };
    Shares {
        active: all / waits.samples.max(1) as f64,
        processor: share(processor),
        disk: share(disk),
        lock: share(lock),
        client: share(client),
        other: share(other),
    }
}

const POOL_TABLES: [&str; 2] = ["POOLS", "DATABASES"];
const OWN: &str = "select pg_backend_pid(), pg_has_role('pg_read_all_stats', 'USAGE')";
/// Sessions that wait for a lock, by the relation that they wait for or want to change.
const CONTENDED: &str = "select l.relation::regclass, count(distinct l.pid) from pg_locks l \
    join pg_class c on c.oid = l.relation and c.relkind in ('r', 'p', 'm') \
    join pg_stat_get_activity(null) a on a.pid = l.pid and a.wait_event_type = 'Lock' \
    where l.database = (select oid from pg_database where datname = current_database()) \
    and (l.mode in ('RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', \
    'ExclusiveLock', 'AccessExclusiveLock') or not l.granted) and l.relation is not null group by 1 order by 2 desc limit 100";
const EVERY: Duration = Duration::from_millis(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
const BETWEEN_LOCKS: Duration = Duration::from_millis(500);
/// Longer than any step.
const LONG: Duration = Duration::from_secs(86_400);
const NAMES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Phases, waits};

    #[test]
    fn shares_add_up_to_one() {
        let seen = waits(
            10,
            &[
                ("active", "", "", 2),
                ("active", "Lock", "transactionid", 6),
                ("active", "IO", "DataFileRead", 1),
                ("active", "Client", "ClientRead", 5),
                ("idle in transaction", "Client", "ClientRead", 1),
                ("idle", "Client", "ClientRead", 50),
            ],
        );
        let shares = shares(&seen);
        assert_eq!((shares.active, shares.processor, shares.lock), (10.0, 0.2, 0.6));
        assert_eq!((shares.disk, shares.client, shares.other), (0.1, 0.1, 0.0));
    }

    #[test]
    fn the_time_with_a_server_is_the_poolers_own_if_it_tells() {
        let phases = Phases { waiting: 50.0, first_byte: 1.5, streaming: 0.5, ..Phases::default() };
        let ours = Tally { transactions: 100.0, transaction_time: 52.0, phases: Some(phases), ..Tally::default() };
        assert_eq!(held(&ours), Ok(0.02));
        let pgbouncer = Tally { transactions: 100.0, transaction_time: 7.0, wait_time: 5.0, ..Tally::default() };
        assert_eq!(held(&pgbouncer), Ok(0.02));
        assert!(held(&Tally::default()).is_err());
    }
}
