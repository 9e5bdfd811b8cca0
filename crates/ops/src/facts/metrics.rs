//! Facts of a Trunkline's `/metrics`: what was asked of each pool between the first and the last of several scrapes.
//!
//! Always true: only differences of counters count, so that a pooler's past does not blur the present; a counter that fell was a restart, and what
//! was before it is left out. Everything is derived: no metric has every loan.
//! Not here: where scrapes come from (`advise::sources`).

use std::collections::BTreeMap;

use super::history::arrivals;
use super::sampled::{Seen, gaps};
use super::{Demand, Hold, Origin, PoolDemand, Sampled};

/// A scrape: the time in seconds, and samples by name and labels.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Scrape {
    pub(crate) at: f64,
    samples: BTreeMap<String, Vec<(Labels, f64)>>,
}

type Labels = BTreeMap<String, String>;

impl Scrape {
    /// Reads the text of Prometheus or OpenMetrics. Samples of other programs are kept as well, and ignored later.
    ///
    /// # Errors
    /// A line is no sample; the text is for a person.
    pub(crate) fn parse(at: f64, text: &str) -> Result<Self, String> {
        let mut scrape = Self { at, samples: BTreeMap::new() };
        let mut count = 0;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || !(line.starts_with("trunkline_")) {
                continue;
            }
            let (name, labels, value) =
                sample(line).ok_or_else(|| format!("line {}: no sample of a metric", number + 1))?;
            if !value.is_finite() || !NAMES.contains(&name.as_str()) {
                continue;
            }
            count += 1;
            if count > SAMPLES_MAX {
                return Err(format!("more than {SAMPLES_MAX} samples"));
            }
            scrape.samples.entry(name).or_default().push((labels, value));
        }
        Ok(scrape)
    }

    /// How many samples it has.
    pub(crate) fn rows(&self) -> usize {
        self.samples.values().map(Vec::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The sum of a metric by database and user. `only` picks samples by their other labels.
    fn by_pool(&self, name: &str, only: impl Fn(&Labels) -> bool) -> BTreeMap<(String, String), f64> {
        let mut sums = BTreeMap::new();
        for (labels, value) in self.samples.get(name).into_iter().flatten().filter(|(labels, _)| only(labels)) {
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            *sums.entry((label("database"), label("user"))).or_insert(0.0) += value;
        }
        sums
    }
}

/// `name{label="value",...} number`.
fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next()? {
                    (place, '"') => break place,
                    (_, '\\') => value.push(match chars.next()?.1 {
                        'n' => '\n',
                        other => other,
                    }),
                    (_, other) => value.push(other),
                }
            };
            labels.insert(label.trim_start_matches(',').trim().to_owned(), value);
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some((name.to_owned(), labels, value))
}

/// What was asked between scrapes, which must be in the order of their times.
///
/// # Errors
/// There are too few scrapes, or they have no metrics of ours.
pub(crate) fn demand_of_scrapes(scrapes: &[Scrape], source: &str) -> Result<Demand, String> {
    if scrapes.iter().all(Scrape::is_empty) {
        return Err(format!("{source} has no metrics of Trunkline"));
    }
    let ([first, .., last], true) = (scrapes, scrapes.len() >= 2) else {
        return Err(format!("{source}: two scrapes are needed, with time between them; there is {}", scrapes.len()));
    };
    let seconds = last.at - first.at;
    if seconds <= 0.0 {
        return Err(format!("{source}: no time passed between the first scrape and the last one"));
    }
    let counted = |name: &str, only: &dyn Fn(&Labels) -> bool| increase(scrapes, name, only);
    let any = |_: &Labels| true;
    let loans = counted("trunkline_transaction_duration_seconds_count", &any);
    let waiting = counted("trunkline_phase_seconds_total", &|labels| phase(labels) == "waiting");
    let phases = counted("trunkline_phase_seconds_total", &|labels| phase(labels) != "waiting");
    let server = counted("trunkline_phase_seconds_total", &|labels| phase(labels) == "first_byte");
    let peaks = last.by_pool("trunkline_servers_lent_peak", any);
    let sizes = last.by_pool("trunkline_pool_size", any);
    let wanted: Vec<Wanted> = scrapes.iter().map(Wanted::of).collect();
    let mut pools = Vec::new();
    for ((database, user), count) in &loans {
        let key = (database.clone(), user.clone());
        let held = phases.get(&key).copied().unwrap_or(0.0);
        if *count < 1.0 || user.is_empty() {
            continue;
        }
        let hold = Hold { mean: held / count, scv: scv(scrapes, &key, waiting.get(&key).copied().unwrap_or(0.0)) };
        let seen: Vec<Seen> = wanted.iter().map(|wanted| wanted.seen(&key)).collect();
        let sampled = Sampled::of(&seen);
        pools.push(PoolDemand {
            database: database.clone(),
            user: user.clone(),
            loans: *count as u64,
            rate: count / seconds,
            hold,
            scv_of_arrivals: sampled.as_ref().and_then(|sampled| sampled.scv_of_arrivals(hold)).unwrap_or(1.0),
            sampled,
            slots: gaps(&seen),
            recorded: Vec::new(),
            quiet: quiet(scrapes, &key),
            peak: peaks.get(&key).map(|peak| *peak as u32),
            size: sizes.get(&(database.clone(), String::new())).map(|size| *size as u32),
            wait_p99: wait_p99(scrapes, &key, *count),
        });
    }
    let clients = scrapes.iter().map(|scrape| scrape.by_pool("trunkline_clients", any).values().sum::<f64>());
    let working: f64 = server.values().sum();
    let all: f64 = phases.values().sum();
    let together: Vec<Seen> = wanted.iter().map(Wanted::together).collect();
    let sampled = Sampled::of(&together);
    let mut notes = vec![
        "demand is rate x hold time (Little), from counters of every transaction".to_owned(),
        format!(
            "of the time with a server, {:.0} % is waiting for its first byte: computing is less than that",
            working / all.max(1e-9) * 100.0
        ),
    ];
    notes.extend(sampled.as_ref().map(Sampled::note));
    notes.extend(arrivals(&pools));
    Ok(Demand {
        origin: Origin::Derived(format!("{} scrapes of {source}", scrapes.len())),
        pools,
        seconds,
        is_of_one_process: true,
        computing: None,
        sampled,
        clients_peak: Some(clients.fold(0.0, f64::max) as u32),
        notes,
    })
}

/// Servers at work and clients that wait, by pool, at a scrape.
struct Wanted {
    at: f64,
    active: BTreeMap<(String, String), f64>,
    waiting: BTreeMap<(String, String), f64>,
}

impl Wanted {
    fn of(scrape: &Scrape) -> Self {
        let is = |labels: &Labels, state: &str| labels.get("state").is_some_and(|found| found == state);
        Self {
            at: scrape.at,
            active: scrape.by_pool("trunkline_servers", |labels| is(labels, "active")),
            waiting: scrape.by_pool("trunkline_clients", |labels| is(labels, "waiting")),
        }
    }

    fn seen(&self, key: &(String, String)) -> Seen {
        let of = |list: &BTreeMap<_, f64>| list.get(key).copied().unwrap_or(0.0) as u32;
        Seen { at: self.at, active: of(&self.active), waiting: of(&self.waiting) }
    }

    fn together(&self) -> Seen {
        let sum = |list: &BTreeMap<_, f64>| list.values().sum::<f64>() as u32;
        Seen { at: self.at, active: sum(&self.active), waiting: sum(&self.waiting) }
    }
}

fn phase(labels: &Labels) -> &str {
    labels.get("phase").map_or("", |phase| phase)
}

/// How much a counter grew, by pool; what was before a restart is left out, and what is after it counts from 0.
fn increase(scrapes: &[Scrape], name: &str, only: &dyn Fn(&Labels) -> bool) -> BTreeMap<(String, String), f64> {
    let mut sums = BTreeMap::new();
    for pair in scrapes.windows(2) {
        let (before, now) = (pair[0].by_pool(name, only), pair[1].by_pool(name, only));
        for (key, value) in now {
            let earlier = before.get(&key).copied().unwrap_or(0.0);
            let grown = if value >= earlier { value - earlier } else { value };
            *sums.entry(key).or_insert(0.0) += grown;
        }
    }
    sums
}

/// The buckets of a histogram of one pool: upper bounds with how many were at most so long between the first scrape and the last one.
fn buckets(scrapes: &[Scrape], name: &str, key: &(String, String)) -> Vec<(f64, f64)> {
    let bounds = |scrape: &Scrape| -> Vec<(f64, f64)> {
        let of_pool = |labels: &Labels| labels.get("database") == Some(&key.0) && labels.get("user") == Some(&key.1);
        let samples = scrape.samples.get(name).into_iter().flatten().filter(|(labels, _)| of_pool(labels));
        let bound = |labels: &Labels| match labels.get("le")?.as_str() {
            "+Inf" => Some(f64::INFINITY),
            number => number.parse().ok(),
        };
        samples.filter_map(|(labels, value)| Some((bound(labels)?, *value))).collect()
    };
    let (Some(first), Some(last)) = (scrapes.first(), scrapes.last()) else { return Vec::new() };
    let before = bounds(first);
    let mut now = bounds(last);
    let is_restarted = now.iter().zip(&before).any(|(now, before)| now.1 < before.1);
    for (bound, count) in now.iter_mut().filter(|_| !is_restarted) {
        let earlier = before.iter().find(|(earlier, _)| earlier.to_bits() == bound.to_bits());
        *count -= earlier.map_or(0.0, |(_, earlier)| *earlier);
    }
    now.sort_by(|a, b| a.0.total_cmp(&b.0));
    now
}

/// The 99th percentile of waits, at most; those who did not wait are in no bucket of that histogram.
fn wait_p99(scrapes: &[Scrape], key: &(String, String), loans: f64) -> Option<f64> {
    let buckets = buckets(scrapes, "trunkline_wait_duration_seconds_bucket", key);
    let waited = buckets.last()?.1;
    let wanted = (loans.max(waited) * 0.99 - (loans - waited).max(0.0)).max(0.0);
    buckets.iter().find(|(_, count)| *count >= wanted).map(|(bound, _)| *bound).filter(|bound| bound.is_finite())
}

/// The variance of transaction times over their squared mean, from the middles of buckets; 1 if there are none. `waiting` is what they waited.
fn scv(scrapes: &[Scrape], key: &(String, String), waiting: f64) -> f64 {
    let buckets = buckets(scrapes, "trunkline_transaction_duration_seconds_bucket", key);
    let (mut low, mut below, mut sum, mut squares, mut count) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (bound, cumulated) in buckets {
        let (number, middle) =
            (cumulated - below, if bound.is_finite() { f64::midpoint(low, bound) } else { low * 1.5 });
        sum += number * middle;
        squares += number * middle * middle;
        count += number;
        (low, below) = (if bound.is_finite() { bound } else { low }, cumulated);
    }
    // Waits make the times more alike or more different; with many of them nothing is known of holding.
    if count < 100.0 || sum <= 0.0 || waiting > sum / 2.0 {
        return 1.0;
    }
    (squares / count / (sum / count).powi(2) - 1.0).max(0.0)
}

/// The mean demand of the quietest of twelve parts of the time in which the pool was busy, rounded.
fn quiet(scrapes: &[Scrape], key: &(String, String)) -> Option<u32> {
    let mean = |pair: &[&Scrape]| {
        let (before, now) = (held(pair[0], key), held(pair[1], key));
        let (held, seconds) = (if now >= before { now - before } else { now }, pair[1].at - pair[0].at);
        (held > 0.0 && seconds > 0.0).then(|| held / seconds)
    };
    if scrapes.len() < SCRAPES_OF_QUIET {
        return None;
    }
    let parts = (scrapes.len() - 1).min(PARTS);
    let bounds: Vec<&Scrape> = (0..=parts).map(|part| &scrapes[part * (scrapes.len() - 1) / parts]).collect();
    bounds.windows(2).filter_map(mean).min_by(f64::total_cmp).map(|mean| mean.round() as u32)
}

/// The time with a server of all transactions of a pool until a scrape.
fn held(scrape: &Scrape, key: &(String, String)) -> f64 {
    let sums = scrape.by_pool("trunkline_phase_seconds_total", |labels| phase(labels) != "waiting");
    sums.get(key).copied().unwrap_or(0.0)
}

/// The metrics that a demand is made of; samples of others are not kept.
const NAMES: [&str; 8] = [
    "trunkline_clients",
    "trunkline_phase_seconds_total",
    "trunkline_pool_size",
    "trunkline_servers",
    "trunkline_servers_lent_peak",
    "trunkline_transaction_duration_seconds_bucket",
    "trunkline_transaction_duration_seconds_count",
    "trunkline_wait_duration_seconds_bucket",
];
/// More than the metrics of ten thousand databases.
const SAMPLES_MAX: usize = 2_000_000;
/// Fewer have no quiet time worth the name.
const SCRAPES_OF_QUIET: usize = 7;
/// The parts of the observed time of which the quietest is sought.
const PARTS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(at: f64, transactions: f64) -> Scrape {
        let (below, within) = (transactions * 0.5, transactions);
        let held = transactions * 0.02;
        let text = format!(
            "# HELP x y\ntrunkline_transaction_duration_seconds_count{{database=\"a\",user=\"u \\\"v\"}} {transactions}\n\
             trunkline_transaction_duration_seconds_bucket{{database=\"a\",user=\"u \\\"v\",le=\"0.01\"}} {below}\n\
             trunkline_transaction_duration_seconds_bucket{{database=\"a\",user=\"u \\\"v\",le=\"0.05\"}} {within}\n\
             trunkline_transaction_duration_seconds_bucket{{database=\"a\",user=\"u \\\"v\",le=\"+Inf\"}} {within}\n\
             trunkline_phase_seconds_total{{database=\"a\",user=\"u \\\"v\",phase=\"waiting\"}} 1\n\
             trunkline_phase_seconds_total{{database=\"a\",user=\"u \\\"v\",phase=\"first_byte\"}} {held}\n\
             trunkline_servers_lent_peak{{database=\"a\",user=\"u \\\"v\"}} 9\n\
             trunkline_pool_size{{database=\"a\"}} 20\n\
             trunkline_clients{{database=\"a\",user=\"u \\\"v\",state=\"active\"}} 31\nother_metric garbage\n"
        );
        Scrape::parse(at, &text).expect("a scrape")
    }

    #[test]
    fn demand_is_what_grew_between_scrapes() {
        let demand = demand_of_scrapes(&[scrape(1000.0, 500.0), scrape(1100.0, 15_500.0)], "x").expect("a demand");
        let pool = &demand.pools[0];
        assert_eq!((pool.user.as_str(), pool.loans, pool.peak, pool.size), ("u \"v", 15_000, Some(9), Some(20)));
        assert!((pool.load() - 3.0).abs() < 1e-9 && (pool.rate - 150.0).abs() < 1e-9, "{pool:?}");
        // Half of 5 ms, half of 30 ms.
        assert!((pool.hold.scv - (462.5 / 306.25 - 1.0)).abs() < 1e-9, "{pool:?}");
        assert!(demand.is_of_one_process && demand.origin.is_approximate() && demand.clients_peak == Some(31));
    }

    #[test]
    fn gauges_of_many_scrapes_are_the_demand_that_they_saw() {
        let scrape = |n: u32| {
            let (active, waiting) = (n % 10, n % 100 / 99);
            let text = format!(
                "trunkline_transaction_duration_seconds_count{{database=\"a\",user=\"u\"}} {}\n\
                 trunkline_phase_seconds_total{{database=\"a\",user=\"u\",phase=\"first_byte\"}} {}\n\
                 trunkline_servers{{database=\"a\",user=\"u\",state=\"active\"}} {active}\n\
                 trunkline_servers{{database=\"a\",user=\"u\",state=\"idle\"}} 9\n\
                 trunkline_clients{{database=\"a\",user=\"u\",state=\"waiting\"}} {waiting}\n",
                n * 100,
                f64::from(n) * 2.0
            );
            Scrape::parse(f64::from(n), &text).expect("a scrape")
        };
        let demand = demand_of_scrapes(&(0..=600).map(scrape).collect::<Vec<_>>(), "x").expect("a demand");
        let pool = &demand.pools[0];
        let seen = pool.sampled.as_ref().and_then(|sampled| sampled.quantile(0.5, 1.0));
        assert_eq!((seen, pool.quiet, pool.slots.len()), (Some(4.0), Some(2), 9));
        assert_eq!((pool.slots[8].uses, pool.slots[8].gap_p95), (59, 9.0), "the ninth is used once in ten readings");
        assert_eq!(demand.sampled, pool.sampled, "there is no other pool");
    }

    #[test]
    fn a_restart_does_not_count_backwards() {
        let list = [scrape(0.0, 9_000.0), scrape(50.0, 10_000.0), scrape(100.0, 1_000.0)];
        assert_eq!(demand_of_scrapes(&list, "x").expect("a demand").pools[0].loans, 2_000);
    }

    #[test]
    fn what_is_no_observation_is_refused() {
        assert!(demand_of_scrapes(&[scrape(0.0, 1.0)], "x").expect_err("one").contains("two scrapes"));
        assert!(
            demand_of_scrapes(&[scrape(0.0, 1.0), scrape(0.0, 1.0)], "x").expect_err("no time").contains("no time")
        );
        let nothing = Scrape::parse(0.0, "up 1\n").expect("others are ignored");
        assert!(demand_of_scrapes(&[nothing.clone(), nothing], "x").expect_err("none").contains("no metrics"));
        for wrong in ["trunkline_x{a=\"b} 1", "trunkline_x", "trunkline_x{} y", "trunkline_x{a=\"\\"] {
            assert!(Scrape::parse(0.0, wrong).is_err(), "{wrong}");
        }
    }
}
