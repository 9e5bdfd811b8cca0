//! Facts of a history of a console's `SHOW STATS` and `SHOW POOLS`, PgBouncer's or ours, and of our `SHOW HISTOGRAMS`, as psql prints them.
//!
//! Always true: what was asked between two readings is the difference of their counters; a counter that fell was a restart, and counts from 0.
//! Everything is derived: a reading every few seconds sees few of the moments at which demand is highest.
//! Not here: reading the file or asking a console (`advise::sources`).

use std::collections::{BTreeMap, BTreeSet};

use super::sampled::{Seen, gaps, scv_of_quantiles};
use super::{Demand, Hold, Origin, PoolDemand, Sampled};
use crate::table::short;

/// One reading of a console.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Reading {
    /// Seconds since any origin.
    pub(crate) at: f64,
    /// Of each database: transactions, and the microseconds that servers spent in them.
    stats: BTreeMap<String, (f64, f64)>,
    /// Of each database and user: servers at work, clients that wait, clients, and the longest wait in seconds.
    pools: BTreeMap<(String, String), [f64; 4]>,
    /// Of each database and user, what Trunkline's `SHOW HISTOGRAMS` says since its start.
    spreads: BTreeMap<(String, String), Spread>,
}

/// The transactions of a pool since the start of the pooler. Times are in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Spread {
    transactions: f64,
    /// From beginning to end, all together.
    time: f64,
    /// Of it, the time that was waited for a server.
    waited: f64,
    /// The 50th, 90th, 99th, 99.9th percentile of the whole time, and the longest.
    quantiles: [f64; 5],
    wait_p99: f64,
}

impl Reading {
    pub(crate) fn new(at: f64) -> Self {
        Self { at, ..Self::default() }
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> usize {
        self.stats.len() + self.pools.len() + self.spreads.len()
    }

    /// Takes a row of `SHOW STATS`, `SHOW POOLS` or `SHOW HISTOGRAMS`, by the names of its columns. Other rows are ignored.
    pub(crate) fn take(&mut self, columns: &[String], cells: &[String]) {
        let cell = |name: &str| columns.iter().position(|column| column == name).and_then(|place| cells.get(place));
        let number =
            |name: &str| cell(name).and_then(|text| text.parse::<f64>().ok()).filter(|value| value.is_finite());
        let Some(database) = cell("database").filter(|name| *name != "pgbouncer") else { return };
        if let (Some(count), Some(time)) = (number("total_xact_count"), number("total_xact_time")) {
            self.stats.insert(database.clone(), (count, time));
        } else if let (Some(user), Some(phase), Some(sum)) = (cell("user"), cell("phase"), number("sum")) {
            let spread = self.spreads.entry((database.clone(), user.clone())).or_default();
            let seconds = |name: &str| number(name).unwrap_or(0.0) / 1e6;
            match phase.as_str() {
                "total" => {
                    (spread.transactions, spread.time) = (number("count").unwrap_or(0.0), sum / 1e6);
                    spread.quantiles = ["p50", "p90", "p99", "p999", "max"].map(seconds);
                }
                "waiting" => (spread.waited, spread.wait_p99) = (sum / 1e6, seconds("p99")),
                _ => {}
            }
        } else if let (Some(user), Some(active)) = (cell("user"), number("sv_active")) {
            let waiting = number("cl_waiting").unwrap_or(0.0);
            let clients = number("cl_active").unwrap_or(0.0) + waiting;
            let longest = number("maxwait").unwrap_or(0.0) + number("maxwait_us").unwrap_or(0.0) / 1e6;
            self.pools.insert((database.clone(), user.clone()), [active, waiting, clients, longest]);
        }
    }
}

/// Reads a history: a line `# SECONDS` begins a reading, then come tables as `psql --csv` or psql prints them.
///
/// # Errors
/// The text is no history; the error is for a person.
pub(crate) fn parse_history(text: &str) -> Result<Vec<Reading>, String> {
    let mut readings: Vec<Reading> = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if let Some(time) = line.strip_prefix('#') {
            let at = time_of(time).ok_or_else(|| format!("line {}: \"# SECONDS\" is wanted", number + 1))?;
            if readings.len() >= READINGS_MAX {
                return Err(format!("more than {READINGS_MAX} readings"));
            }
            if readings.last().is_some_and(|last| at < last.at) {
                return Err(format!("line {}: the time goes back", number + 1));
            }
            readings.push(Reading::new(at));
            columns.clear();
            continue;
        }
        if line.trim().is_empty() || line.starts_with('(') || line.trim_start().starts_with("--") {
            continue;
        }
        let cells = cells(line);
        if cells.first().is_some_and(|first| first == "database") {
            columns = cells;
            continue;
        }
        if columns.is_empty() {
            return Err(format!("line {}: a row without the names of its columns", number + 1));
        }
        let Some(reading) = readings.last_mut() else {
            return Err(format!("line {}: \"# SECONDS\" is wanted before the first table", number + 1));
        };
        reading.take(&columns, &cells);
    }
    Ok(readings)
}

/// The time of a mark: seconds.
pub(crate) fn time_of(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|at: &f64| at.is_finite() && *at >= 0.0)
}

/// The cells of a line, separated by `|` with spaces around, or by commas with quotes.
fn cells(line: &str) -> Vec<String> {
    if line.contains('|') {
        return line.split('|').map(|cell| cell.trim().to_owned()).collect();
    }
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}

/// What was asked between the first reading and the last one.
///
/// # Errors
/// There are too few readings.
pub(crate) fn demand_of_history(readings: &[Reading], source: &str) -> Result<Demand, String> {
    let ([first, .., last], true) = (readings, readings.len() >= 2) else {
        return Err(format!("{source}: two readings are needed, with time between them; there is {}", readings.len()));
    };
    let seconds = last.at - first.at;
    if seconds <= 0.0 {
        return Err(format!("{source}: no time passed between the first reading and the last one"));
    }
    let exact = spread_pools(readings, seconds);
    let mut notes = Vec::new();
    let pools = match exact {
        Some(pools) => {
            notes.push(
                "transactions and their times with a server are SHOW HISTOGRAMS', pool by pool; how much the times differ is known since the start of \
                 the pooler"
                    .to_owned(),
            );
            pools
        }
        None => {
            notes.push(
                "approximate: SHOW STATS has sums only. Demand is rate x hold time (Little), hold times are taken as random, and the transactions of a \
                 database are divided among its users by their servers at work"
                    .to_owned(),
            );
            divided_pools(readings, seconds)
        }
    };
    let together = seen(readings, |reading| {
        reading.pools.values().fold([0.0; 2], |sum, pool| [sum[0] + pool[0], sum[1] + pool[1]])
    });
    let sampled = Sampled::of(&together);
    notes.extend(sampled.as_ref().map(Sampled::note));
    notes.extend(arrivals(&pools));
    let clients = readings.iter().map(|reading| reading.pools.values().map(|pool| pool[2]).sum::<f64>());
    Ok(Demand {
        origin: Origin::Derived(format!("{} readings of {source}", readings.len())),
        pools,
        seconds,
        is_of_one_process: true,
        computing: None,
        sampled,
        clients_peak: Some(clients.fold(0.0, f64::max) as u32),
        notes,
    })
}

/// What is known of how irregular arrivals are, in words.
pub(super) fn arrivals(pools: &[PoolDemand]) -> Option<String> {
    let is_told = |pool: &&PoolDemand| (pool.scv_of_arrivals - 1.0).abs() > 1e-9;
    let told: Vec<&PoolDemand> = pools.iter().filter(is_told).collect();
    let most = told.iter().max_by(|a, b| a.scv_of_arrivals.total_cmp(&b.scv_of_arrivals));
    Some(match most {
        Some(most) => format!(
            "arrivals of {} of {} pools are not random, as the variance of their demand shows; scv_a is {} in {}, and 1 would be random",
            told.len(),
            pools.len(),
            short(most.scv_of_arrivals),
            most.name()
        ),
        None => "arrivals are taken as random: nothing shows that they are not".to_owned(),
    })
}

/// The pools that both ends of a history have histograms of, if there are any and the pooler was not restarted.
fn spread_pools(readings: &[Reading], seconds: f64) -> Option<Vec<PoolDemand>> {
    let (before, after) = (&readings.first()?.spreads, &readings.last()?.spreads);
    if after.is_empty() || readings.windows(2).any(|pair| has_restarted(&pair[0], &pair[1])) {
        return None;
    }
    let mut pools = Vec::new();
    for ((database, user), now) in after {
        let key = (database.clone(), user.clone());
        let earlier = before.get(&key).copied().unwrap_or_default();
        let count = now.transactions - earlier.transactions;
        if count < 1.0 {
            continue;
        }
        let held = (now.time - now.waited - earlier.time + earlier.waited).max(0.0);
        // With much waiting the whole times say nothing of holding.
        let scv = if now.waited > now.time / 2.0 { 1.0 } else { scv_of_quantiles(now.quantiles) };
        let hold = Hold { mean: held / count, scv };
        let seen = seen(readings, |reading| reading.pools.get(&key).map_or([0.0; 2], |pool| [pool[0], pool[1]]));
        let wait_p99 = Some(now.wait_p99).filter(|_| now.transactions > 0.0);
        pools.push(PoolDemand { wait_p99, ..pool(database, user, count, seconds, hold, &seen) });
    }
    Some(pools)
}

/// Whether a counter of two successive readings has fallen. One that has grown again beyond what it was shows no restart.
fn has_restarted(before: &Reading, after: &Reading) -> bool {
    let mut of_databases = after.stats.iter().filter_map(|(name, now)| Some((before.stats.get(name)?, now)));
    let mut of_pools = after.spreads.iter().filter_map(|(name, now)| Some((before.spreads.get(name)?, now)));
    of_databases.any(|(before, now)| now.0 < before.0 || now.1 < before.1)
        || of_pools.any(|(before, now)| {
            now.transactions < before.transactions || now.time < before.time || now.waited < before.waited
        })
}

/// The pools of a console that knows sums of databases only.
fn divided_pools(readings: &[Reading], seconds: f64) -> Vec<PoolDemand> {
    let mut grown: BTreeMap<&String, (f64, f64)> = BTreeMap::new();
    for pair in readings.windows(2) {
        for (database, (count, time)) in &pair[1].stats {
            let (before, before_time) = pair[0].stats.get(database).copied().unwrap_or((*count, *time));
            let sums = grown.entry(database).or_default();
            let is_restarted = *count < before;
            sums.0 += if is_restarted { *count } else { count - before };
            sums.1 += if is_restarted { *time } else { (time - before_time).max(0.0) };
        }
    }
    let mut pools = Vec::new();
    for (database, (count, time)) in grown {
        if count < 1.0 {
            continue;
        }
        let hold = Hold { mean: time / 1e6 / count, scv: 1.0 };
        for (user, share, seen) in users(readings, database) {
            pools.push(pool(database, user, count * share, seconds, hold, &seen));
        }
    }
    pools
}

/// Servers at work and clients that wait, reading by reading.
fn seen(readings: &[Reading], of: impl Fn(&Reading) -> [f64; 2]) -> Vec<Seen> {
    let seen = |reading: &Reading| {
        let [active, waiting] = of(reading);
        Seen { at: reading.at, active: active as u32, waiting: waiting as u32 }
    };
    readings.iter().map(seen).collect()
}

/// How far pools were used over a history.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PoolUsage {
    /// From the first reading to the last, in seconds.
    pub(crate) seconds: f64,
    /// The number of readings.
    pub(crate) readings: usize,
    /// The longest time between two readings, in seconds.
    pub(crate) gap: f64,
    /// Of each database and user: most servers that were at work at a reading.
    pub(crate) peaks: BTreeMap<(String, String), f64>,
}

/// How far pools were used over a history.
pub(crate) fn usage_of_history(readings: &[Reading]) -> PoolUsage {
    let mut usage = PoolUsage { readings: readings.len(), ..PoolUsage::default() };
    if let (Some(first), Some(last)) = (readings.first(), readings.last()) {
        usage.seconds = last.at - first.at;
    }
    usage.gap = readings.windows(2).map(|pair| pair[1].at - pair[0].at).fold(0.0, f64::max);
    for (pool, [active, ..]) in readings.iter().flat_map(|reading| &reading.pools) {
        let peak = usage.peaks.entry(pool.clone()).or_insert(0.0);
        *peak = peak.max(*active);
    }
    usage
}

/// The users of a database with their shares of its work, and what was seen of each.
fn users<'a>(readings: &'a [Reading], database: &str) -> Vec<(&'a str, f64, Vec<Seen>)> {
    let pools = readings.iter().flat_map(|reading| reading.pools.keys()).filter(|(of, _)| of == database);
    let keys: BTreeSet<&(String, String)> = pools.collect();
    if keys.is_empty() {
        return vec![("", 1.0, Vec::new())];
    }
    let of_key = |key: &'a (String, String)| {
        let seen = seen(readings, |reading| reading.pools.get(key).map_or([0.0; 2], |pool| [pool[0], pool[1]]));
        let work: f64 = seen.iter().map(|seen| f64::from(seen.active)).sum();
        (key.1.as_str(), work, seen)
    };
    let users: Vec<(&str, f64, Vec<Seen>)> = keys.into_iter().map(of_key).collect();
    let all: f64 = users.iter().map(|(_, work, _)| work).sum();
    let alike = 1.0 / users.len() as f64;
    users
        .into_iter()
        .map(|(user, work, seen)| (user, if all > 0.0 { work / all } else { alike }, seen))
        .filter(|(_, share, _)| *share > 0.0)
        .collect()
}

fn pool(database: &str, user: &str, loans: f64, seconds: f64, hold: Hold, seen: &[Seen]) -> PoolDemand {
    let mut wanted: Vec<u32> = seen.iter().map(|seen| seen.active.saturating_add(seen.waiting)).collect();
    wanted.sort_unstable();
    // Half of the readings in which it was busy at all wanted at least as many.
    let busy = &wanted[wanted.partition_point(|count| *count == 0)..];
    let sampled = Sampled::of(seen);
    PoolDemand {
        database: database.to_owned(),
        user: user.to_owned(),
        loans: loans as u64,
        rate: loans / seconds,
        hold,
        scv_of_arrivals: sampled.as_ref().and_then(|sampled| sampled.scv_of_arrivals(hold)).unwrap_or(1.0),
        sampled,
        slots: gaps(seen),
        recorded: Vec::new(),
        quiet: (busy.len() >= READINGS_OF_QUIET).then(|| busy[busy.len() / 10]),
        peak: wanted.last().copied(),
        size: None,
        wait_p99: None,
    }
}

/// Four months of a reading every ten seconds.
const READINGS_MAX: usize = 1_000_000;
/// Fewer have no quiet time worth the name.
const READINGS_OF_QUIET: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "# 100\ndatabase,total_xact_count,total_xact_time\napp,1000,5000000\npgbouncer,9,9\n\
        database,user,cl_active,cl_waiting,sv_active,maxwait\napp,\"a,b\",10,2,4,0\napp,c,3,0,1,0\n\
        # 200\ndatabase,total_xact_count,total_xact_time\napp,16000,305000000\n\
        database,user,cl_active,cl_waiting,sv_active,maxwait\napp,\"a,b\",12,0,2,0\napp,c,3,0,1,0\n";

    #[test]
    fn the_work_of_a_database_is_divided_among_its_users() {
        let readings = parse_history(CSV).expect("a history");
        let demand = demand_of_history(&readings, "x").expect("a demand");
        let [first, second] = &demand.pools[..] else { panic!("{demand:?}") };
        assert_eq!((first.user.as_str(), first.loans, first.peak), ("a,b", 11_250, Some(6)));
        assert_eq!((second.user.as_str(), second.loans), ("c", 3_750));
        // 150 a second of 20 ms each.
        assert!((demand.load() - 3.0).abs() < 1e-9 && demand.clients_peak == Some(15), "{demand:?}");
        assert!(demand.origin.is_approximate() && demand.is_of_one_process);
    }

    #[test]
    fn our_histograms_tell_each_pool_by_itself() {
        let at = |at: u32, count: u64| {
            let (time, waited) = (count * 25_000, count * 5_000);
            format!(
                "# {at}\ndatabase,total_xact_count,total_xact_time\napp,{count},0\n\
                 database,user,cl_active,cl_waiting,sv_active\napp,a,9,1,2\napp,b,1,0,0\n\
                 database,user,phase,count,sum,p50,p90,p99,p999,max\napp,a,total,{count},{time},25000,25000,25000,25000,25000\n\
                 app,a,waiting,{count},{waited},0,0,9000,9000,9000\napp,b,total,7,700,1,2,3,4,5\napp,b,waiting,7,0,0,0,0,0,0\n"
            )
        };
        let readings = parse_history(&(at(100, 1000) + &at(200, 16_000))).expect("a history");
        let demand = demand_of_history(&readings, "x").expect("a demand");
        let [pool] = &demand.pools[..] else { panic!("only one was used: {demand:?}") };
        assert_eq!((pool.user.as_str(), pool.loans, pool.peak, pool.wait_p99), ("a", 15_000, Some(3), Some(0.009)));
        assert!((pool.rate - 150.0).abs() < 1e-9 && (pool.hold.mean - 0.02).abs() < 1e-9, "{pool:?}");
        assert!(pool.hold.scv < 1e-9, "{pool:?}");
        // The second has grown beyond what it was before.
        for (counts, expected) in [(&[1000, 500][..], 500), (&[1000, 10, 16_000], 16_000)] {
            let text: String = counts.iter().zip(1..).map(|(count, number)| at(number * 100, *count)).collect();
            let restarted = parse_history(&text).expect("a history");
            let loans: Vec<u64> =
                demand_of_history(&restarted, "x").expect("a demand").pools.iter().map(|pool| pool.loans).collect();
            assert_eq!(loans, [expected], "by what SHOW STATS says");
        }
    }

    #[test]
    fn the_most_that_was_at_work_is_kept_of_each_pool() {
        let usage = usage_of_history(&parse_history(CSV).expect("a history"));
        assert_eq!((usage.seconds, usage.readings, usage.gap), (100.0, 2, 100.0));
        let peak = |user: &str| usage.peaks.get(&("app".to_owned(), user.to_owned())).copied();
        assert_eq!((peak("a,b"), peak("c"), usage.peaks.len()), (Some(4.0), Some(1.0), 2));
    }

    #[test]
    fn what_psql_prints_by_itself_is_read_too() {
        let table = "# 1\n database | total_xact_count | total_xact_time\n----------+-----+----\n app | 10 | 20\n(1 row)\n\n\
            # 11\n database | total_xact_count | total_xact_time\n----------+-----+----\n app | 1010 | 5000020\n(1 row)\n";
        let demand = demand_of_history(&parse_history(table).expect("a history"), "x").expect("a demand");
        assert_eq!((demand.pools.len(), demand.pools[0].loans, demand.pools[0].name()), (1, 1000, "app".to_owned()));
        assert!((demand.load() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_history_is_refused_with_its_line() {
        for (text, part) in [
            ("database,total_xact_count\napp,1\n", "line 2: \"# SECONDS\""),
            ("# now\n", "line 1"),
            ("# 1\napp,1\n", "line 2: a row without"),
            ("# 2\n# 1\n", "goes back"),
        ] {
            assert!(parse_history(text).expect_err("wrong").contains(part), "{text}");
        }
        let one = parse_history("# 1\n").expect("a reading");
        assert!(demand_of_history(&one, "x").expect_err("one").contains("two readings"));
    }
}
