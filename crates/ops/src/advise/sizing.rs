//! Sizes of pools, of databases and of the server: every floor and ceiling, and what follows.
//!
//! Always true: with an SLO the replayed waits are the floor, and quantiles of demand are shown to compare; without one, the quantiles are the
//! floor. Ceilings of processors are for servers at work at once, those of memory and of max_connections for open ones.
//! Not here: times and other settings (`times`).

use std::collections::BTreeMap;

use super::candidates::{Candidate, Decision, Remedy, Unit, connections, highest_floor};
use super::ceilings::{Ceilings, of_server, of_work};
use super::need::{Change, Traffic, demand_by_poisson};
use super::rehearsal::Rehearsal;
use super::terms::{EVICTIONS_MAX, LOANS_MIN, LOANS_OF_BOUND, Terms};
use crate::facts::{Demand, PoolDemand};
use crate::simulate::Performance;
use crate::table::{count, short};
use crate::theory::staffing::square_root;

/// Sizes with what led to them.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sizes {
    /// Servers at work at once, as if all pools were one.
    pub(crate) at_work: Decision,
    /// By pool, in the order of the demand's pools.
    pub(crate) pools: Vec<Decision>,
    /// max_db_connections by database.
    pub(crate) databases: Vec<Decision>,
    /// The connections of all processes to the server.
    pub(crate) total: Decision,
}

/// The sizes for a demand.
pub(crate) fn sizes(demand: &Demand, terms: &Terms, rehearsal: &dyn Rehearsal) -> Sizes {
    let change = change_of(demand, terms);
    let work = of_work(demand, terms);
    let open = of_server(demand, terms);
    let all = Traffic::of_all(demand);
    let floors: Vec<Vec<Candidate>> = demand.pools.iter().map(|pool| floors(pool, terms, change)).collect();
    let bounds: Vec<f64> =
        floors.iter().map(|floors| highest_floor(floors).map_or(0.0, |(_, floor)| floor.ceil().max(1.0))).collect();
    let (load, bound): (f64, f64) = (demand.load(), bounds.iter().sum());
    let rest = demand.pools.iter().zip(floors).zip(&bounds).map(|((pool, mut candidates), own)| {
        let others = (load - pool.load()) * change.rate;
        let parts = work.iter().map(|ceiling| part(ceiling, terms.replicas()));
        candidates.extend(parts.map(|ceiling| less(&ceiling, others, "that other pools use in the mean")));
        candidates.extend(open.list.iter().map(|ceiling| less(ceiling, bound - own, "that other pools need")));
        candidates.extend(references(pool, terms));
        let traffic = Traffic::of_pool(pool);
        let verdict =
            connections(&candidates, &needs(pool), |floor, ceiling| remedies(&traffic, terms, change, floor, ceiling));
        Decision { setting: "pool_size", subject: pool.name(), unit: Unit::Connections, candidates, verdict }
    });
    let pools: Vec<Decision> = rest.collect();
    let databases = databases(demand, terms, &pools, rehearsal);
    let total = total(&databases, &pools, terms, &open);
    Sizes { at_work: at_work(demand, terms, &all, &work, change), pools, databases, total }
}

/// How the demand of one process differs from the one that was observed.
pub(crate) fn change_of(demand: &Demand, terms: &Terms) -> Change {
    let processes = if demand.is_of_one_process { 1.0 } else { terms.replicas() };
    Change { rate: terms.growth() / processes, hold: inflation(demand, terms) }
}

/// How much longer servers are lent than was observed, if the scalability law is known: more at work at once slow each other down, and then more
/// are at work. Loans of a simulation were observed alone, others beside each other. Infinite, if that comes to no end.
fn inflation(demand: &Demand, terms: &Terms) -> f64 {
    let Some((alpha, beta)) = terms.scalability else { return 1.0 };
    let law = |n: f64| 1.0 + (n - 1.0).max(0.0) * (alpha + beta * n);
    let observed = if demand.origin.is_approximate() { law(demand.load()) } else { 1.0 };
    let load = demand.load() * terms.growth();
    let mut at_work = load;
    for _ in 0..ROUNDS {
        at_work = load * law(at_work) / observed;
    }
    if at_work < f64::from(u16::MAX) { law(at_work) / observed } else { f64::INFINITY }
}

fn needs(pool: &PoolDemand) -> String {
    match (pool.rate > 0.0).then(|| (LOANS_MIN.saturating_sub(pool.loans)) as f64 / pool.rate) {
        Some(more) if more > 0.0 => format!(
            "{} transactions, of which {} were seen; at {} a second, {} s more",
            count(LOANS_MIN as f64),
            pool.loans,
            short(pool.rate),
            count(more.ceil())
        ),
        _ => format!("{} transactions, of which {} were seen", count(LOANS_MIN as f64), pool.loans),
    }
}

/// What a pool needs. Nothing, if there are too few loans to tell.
fn floors(pool: &PoolDemand, terms: &Terms, change: Change) -> Vec<Candidate> {
    if pool.loans < LOANS_OF_BOUND {
        return Vec::new();
    }
    if pool.loans < LOANS_MIN {
        return vec![few(pool, change)];
    }
    floors_of(&Traffic::of_pool(pool), terms, change)
}

/// A pool with too few loans for a percentile: as if there were as much as chance may have hidden.
fn few(pool: &PoolDemand, change: Change) -> Candidate {
    let loans = pool.loans as f64;
    let hidden = (loans + 3.0 * loans.sqrt()) / loans.max(1.0);
    let load = pool.load() * hidden * change.rate;
    Candidate::floor(
        "few transactions",
        Some(demand_by_poisson(load, 0.01)),
        "99 % quantile of Poisson's law for the mean demand and three deviations of its count",
        format!("{loans} transactions, too few for a percentile; a <= {}", short(load)),
    )
}

fn floors_of(traffic: &Traffic, terms: &Terms, change: Change) -> Vec<Candidate> {
    let (load, limit) = (traffic.load(change), terms.wait_limit());
    let derived = if traffic.is_recorded() { "" } else { ", about" };
    let q99 = traffic.demand(0.99, change);
    let how = match (traffic.is_recorded(), traffic.sampled(0.99)) {
        (true, _) => "counted at every change".to_owned(),
        (false, Some(sampled)) => sampled.words(),
        (false, None) => "Poisson's law for the mean demand".to_owned(),
    };
    let demand = Candidate::floor(
        "q99 of simultaneous demand",
        Some(q99),
        "99 % of the time, no more are wanted at once",
        format!("{how}{derived}; mean {}", short(load)),
    );
    let root = Candidate::floor(
        "square-root staffing",
        Some(square_root(load, 0.01)),
        "a + z x sqrt(a), z = 2.33 for 1 %",
        format!("a = {} a second x {} ms = {}", short(traffic.rate(change)), short(traffic.hold() * 1e3), short(load)),
    );
    let mean = Candidate::floor(
        "mean demand",
        Some(load),
        "a = rate x hold time (Little); with fewer, the queue grows without end",
        format!("{} a second x {} ms{derived}", short(traffic.rate(change)), short(traffic.hold() * 1e3)),
    );
    let Some(limit) = limit else {
        let wait = Candidate::floor("p99 wait", None, WAITS, "needs --slo MS".to_owned());
        return vec![wait, demand, root, mean];
    };
    let smallest = traffic.smallest(limit, change);
    let measured = match smallest {
        Some(servers) => {
            let at = |servers: u32| short(traffic.wait_p99(servers, change) * 1e3);
            let fewer =
                if servers > 1 { format!(", {} ms with {}", at(servers - 1), servers - 1) } else { String::new() };
            let way = if traffic.is_recorded() { "replay of every loan" } else { "M/M/c x (scv_a + scv_s)/2, about" };
            format!("{way}: p99 wait {} ms with {servers}{fewer}; at most {} ms", at(servers), short(limit * 1e3))
        }
        None => "no number of servers keeps waits so short".to_owned(),
    };
    let wait = Candidate::floor("p99 wait", smallest.map(f64::from), WAITS, measured);
    vec![wait, demand.shown_only(), root.shown_only(), mean]
}

const WAITS: &str = "the smallest k whose p99 wait is within its share of the SLO";

/// The part of a ceiling that one of several processes has.
fn part(ceiling: &Candidate, processes: f64) -> Candidate {
    let mut own = ceiling.clone();
    if let (true, Some(value)) = (processes > 1.0, ceiling.value) {
        own.value = Some(value / processes);
        own.measured = format!("({}) / {} processes", ceiling.measured, count(processes));
    }
    own
}

/// A ceiling of all pools without what others have of it.
fn less(ceiling: &Candidate, others: f64, whose: &str) -> Candidate {
    let mut own = ceiling.clone();
    if let (true, Some(value)) = (others > 0.0, ceiling.value) {
        own.value = Some((value - others).max(0.0));
        own.measured = format!("{} - {} {whose}", ceiling.measured, short(others));
    }
    own
}

/// Rules of thumb, and what there is now.
fn references(pool: &PoolDemand, terms: &Terms) -> Vec<Candidate> {
    let mut list = Vec::new();
    if let Some(cores) = terms.cores {
        let measured = format!("{} cores, one spindle", count(cores));
        list.push(Candidate::reference("2 x cores + spindles", Some(2.0 * cores + 1.0), "PostgreSQL's wiki", measured));
    }
    if let Some((threads, each)) = terms.threads {
        let measured = format!("{} threads, {} connections at once each", count(threads), count(each));
        let formula = "threads x (connections - 1) + 1: threads that need several at once cannot lock each other out";
        list.push(Candidate::reference("deadlock freedom", Some(threads * (each - 1.0) + 1.0), formula, measured));
    }
    if let Some(size) = pool.size {
        let waited = pool.wait_p99.map_or(String::new(), |wait| format!("p99 wait {} ms", short(wait * 1e3)));
        list.push(Candidate::reference("the size now", Some(size.into()), "as observed", waited));
    }
    if let Some(peak) = pool.peak {
        list.push(Candidate::reference("peak", Some(peak.into()), "the most at once", "as observed".to_owned()));
    }
    list
}

/// Servers at work, as if all pools were one: what processors and scalability allow.
fn at_work(demand: &Demand, terms: &Terms, all: &Traffic, work: &[Candidate], change: Change) -> Decision {
    let of_all = Change { rate: change.rate * terms.replicas(), ..change };
    let loans: u64 = demand.pools.iter().map(|pool| pool.loans).sum();
    let mut candidates = if loans < LOANS_MIN { Vec::new() } else { floors_of(all, terms, of_all) };
    candidates.extend(work.iter().cloned());
    let verdict = connections(&candidates, &format!("{LOANS_MIN} transactions, of which {loans} were seen"), |f, c| {
        remedies(all, terms, of_all, f, c)
    });
    Decision {
        setting: "servers at work",
        subject: "all pools".to_owned(),
        unit: Unit::Connections,
        candidates,
        verdict,
    }
}

/// max_db_connections of each database, for one process.
fn databases(demand: &Demand, terms: &Terms, pools: &[Decision], rehearsal: &dyn Rehearsal) -> Vec<Decision> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, pool) in demand.pools.iter().enumerate() {
        places.entry(&pool.database).or_default().push(place);
    }
    let of_database = |(name, places): (&&str, &Vec<usize>)| {
        let sizes: Vec<f64> = places.iter().filter_map(|place| pools[*place].verdict.value()).collect();
        let (sum, known) = (sizes.iter().sum::<f64>(), sizes.len());
        let apart = Candidate::floor(
            "sum of pool sizes",
            (known == places.len()).then_some(sum),
            "with so many no pool takes another one's server",
            format!("{known} of {} pools have a size", places.len()),
        );
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        let is_tried = places.len() > 1 && known == places.len() && terms.replicas() <= 1.0;
        // All pools of a database have one size, so that together they may reach for more than the sum.
        let most = largest * places.len() as f64;
        let shared = is_tried.then(|| evictions(name, terms, largest, most, rehearsal)).flatten();
        let candidates = match shared {
            Some(shared) => vec![shared, apart.shown_only()],
            None => vec![apart],
        };
        let verdict = connections(&candidates, "a size of each of its pools", |_, _| Vec::new());
        let subject = (*name).to_owned();
        Decision { setting: "max_db_connections", subject, unit: Unit::Connections, candidates, verdict }
    };
    places.iter().map(of_database).collect()
}

/// The smallest limit of a database under which pools hardly take each other's servers, found from above: far below, pools wait for each other
/// and take nothing, which is no better.
fn evictions(name: &str, terms: &Terms, size: f64, most: f64, rehearsal: &dyn Rehearsal) -> Option<Candidate> {
    let harmless = terms.evictions_max.unwrap_or(EVICTIONS_MAX);
    let limit = terms.wait_limit().unwrap_or(f64::INFINITY);
    let is_enough = |tried: &Performance| tried.churn <= harmless && tried.wait_p99 <= limit;
    let mut step = (most / f64::from(LIMITS_AT_ONCE)).ceil().max(1.0) as u32;
    let (mut good, mut bad) = ((most as u32, None), (0, None));
    loop {
        let lowest = bad.0.max(step);
        let limits: Vec<u32> = (lowest..=good.0).rev().step_by(step as usize).collect();
        let found = rehearsal.limits(name, size as u32, &limits)?;
        for (limit, tried) in limits.iter().zip(found) {
            if is_enough(&tried) {
                good = (*limit, Some(tried));
            } else {
                bad = (*limit, Some(tried));
                break;
            }
        }
        if step == 1 {
            break;
        }
        step = (step / 4).max(1);
    }
    let tried = good.1?;
    let below = bad.1.map_or(String::new(), |below| format!(", {} with {}", short(below.churn), bad.0));
    let measured = format!(
        "the pools themselves on a virtual clock: {} closings for each pool and minute with {}{below}",
        short(tried.churn),
        good.0
    );
    let formula = format!("the smallest limit with at most {harmless} closings for each pool and minute");
    Some(Candidate::floor("evictions", Some(f64::from(good.0)), &formula, measured))
}

/// The connections of all processes to the server.
fn total(databases: &[Decision], pools: &[Decision], terms: &Terms, open: &Ceilings) -> Decision {
    let known: Vec<f64> = databases.iter().filter_map(|database| database.verdict.value()).collect();
    let sum: f64 = known.iter().sum();
    let replicas = terms.replicas();
    let floor = Candidate::floor(
        "sum of databases",
        (known.len() == databases.len() && !known.is_empty()).then_some(sum * replicas),
        "processes x sum of max_db_connections",
        format!("{} x {}", count(replicas), count(sum)),
    );
    let sizes: f64 = pools.iter().filter_map(|pool| pool.verdict.value()).sum();
    let apart = Candidate::reference(
        "sum of pool sizes",
        Some(sizes * replicas).filter(|sum| *sum > 0.0),
        "processes x sum of pool_size: the most that pools can open without max_db_connections",
        format!("{} x {}", count(replicas), count(sizes)),
    );
    let mut candidates = vec![floor];
    // These are of one process.
    candidates.extend(
        open.list
            .iter()
            .map(|ceiling| Candidate { value: ceiling.value.map(|value| value * replicas), ..ceiling.clone() }),
    );
    candidates.push(apart);
    let verdict = connections(&candidates, "a total of each database", |floor, ceiling| {
        let closes = |part: f64| ((floor * part) / (floor - ceiling)).clamp(0.0, 1.0);
        vec![
            Remedy {
                what: "bigger server",
                step: "twice the memory and max_connections".to_owned(),
                closes: (ceiling / (floor - ceiling)).clamp(0.0, 1.0),
                enough: Some(format!("{} times as much", short(floor / ceiling.max(1e-9)))),
            },
            Remedy {
                what: "split",
                step: "half of the databases on another server".to_owned(),
                closes: closes(0.5),
                enough: None,
            },
            Remedy { what: "shed", step: "a fifth of the traffic less".to_owned(), closes: closes(0.2), enough: None },
        ]
    });
    Decision {
        setting: "connections to the server",
        subject: "all processes".to_owned(),
        unit: Unit::Connections,
        candidates,
        verdict,
    }
}

/// What would move the floor below the ceiling, the best first.
fn remedies(traffic: &Traffic, terms: &Terms, change: Change, floor: f64, ceiling: f64) -> Vec<Remedy> {
    let brief = traffic.brief();
    let floor_with = |change: Change| {
        highest_floor(&floors_of(&brief, terms, change)).map_or(f64::INFINITY, |(_, floor)| floor.ceil().max(1.0))
    };
    let distance = (floor - ceiling).max(1e-9);
    let closes = |floor_then: f64, ceiling_then: f64| (1.0 - (floor_then - ceiling_then) / distance).clamp(0.0, 1.0);
    let less = |rate: f64, hold: f64| Change { rate: change.rate * rate, hold: change.hold * hold };
    let enough = |of: &dyn Fn(f64) -> Change| {
        let parts = (1..20).map(|twentieth| f64::from(twentieth) / 20.0);
        let found = parts.into_iter().find(|part| floor_with(of(1.0 - part)) <= ceiling.max(1.0));
        found.map(|part| format!("{} % less", count(part * 100.0)))
    };
    let mut list = vec![
        Remedy {
            what: "reduce hold time",
            step: "a fifth less time with a server for each transaction".to_owned(),
            closes: closes(floor_with(less(1.0, 0.8)), ceiling),
            enough: enough(&|left| less(1.0, left)),
        },
        Remedy {
            what: "shed",
            step: "a fifth of the transactions less".to_owned(),
            closes: closes(floor_with(less(0.8, 1.0)), ceiling),
            enough: enough(&|left| less(left, 1.0)),
        },
        Remedy {
            what: "split",
            step: "half of the transactions on another server".to_owned(),
            closes: closes(floor_with(less(0.5, 1.0)), ceiling),
            enough: None,
        },
        Remedy {
            what: "bigger server",
            step: "twice the processors and the memory".to_owned(),
            closes: closes(floor, 2.0 * ceiling),
            enough: Some(format!("{} times as large", short(floor / ceiling.max(1e-9)))),
        },
    ];
    list.sort_by(|a, b| b.closes.total_cmp(&a.closes));
    list
}

/// Rounds after which the number of servers at work has settled, or never does.
const ROUNDS: u32 = 200;
/// Limits that are tried at the same time.
const LIMITS_AT_ONCE: u32 = 8;
