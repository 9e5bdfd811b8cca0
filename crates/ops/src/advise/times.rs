//! The other settings: minima, reserves, times, and limits of clients.
//!
//! Always true: each is a decision with all its candidates, as sizes are. What cannot be concluded says what it needs.
//! Not here: sizes of pools (`sizing`).

use super::candidates::{Candidate, Decision, Unit, Verdict, highest_floor, lowest_ceiling};
use super::need::Traffic;
use super::sizing::{Sizes, change_of};
use super::terms::{LOANS_MIN, Terms};
use crate::facts::{Demand, PoolDemand};
use crate::table::{count, short};

/// The decisions about everything but sizes.
pub(crate) fn others(demand: &Demand, terms: &Terms, sizes: &Sizes) -> Vec<Decision> {
    let known: Vec<f64> = sizes.databases.iter().filter_map(|database| database.verdict.value()).collect();
    // A part of the databases says nothing about all of them.
    let total = if known.len() == sizes.databases.len() { known.iter().sum() } else { 0.0 };
    vec![
        minimum(demand, sizes, total),
        reserve(demand, terms),
        reserve_after(terms),
        idle_timeout(demand, terms, sizes),
        lifetime(terms, sizes, total),
        clients(demand, terms, total),
        query_wait(terms),
    ]
}

fn decision(setting: &'static str, unit: Unit, candidates: Vec<Candidate>, verdict: Verdict) -> Decision {
    Decision { setting, subject: "all pools".to_owned(), unit, candidates, verdict }
}

/// Rounds the floor up, unless a ceiling is below it.
fn floor_or_none(candidates: &[Candidate], needs: &str, value_of: impl Fn(f64) -> f64) -> Verdict {
    let Some((floor_by, floor)) = highest_floor(candidates) else {
        return Verdict::NotConcluded { needs: needs.trim_start_matches("needs ").to_owned() };
    };
    match lowest_ceiling(candidates) {
        Some((ceiling_by, ceiling)) if ceiling < floor => {
            Verdict::NoSizeWorks { floor, floor_by, ceiling, ceiling_by, least_bad: ceiling, remedies: Vec::new() }
        }
        ceiling => {
            let value = value_of(floor);
            let value = ceiling.map_or(value, |(_, ceiling)| value.min(ceiling));
            Verdict::Chosen { value, binding: floor_by }
        }
    }
}

fn minimum(demand: &Demand, sizes: &Sizes, total: f64) -> Decision {
    let quiet: Vec<u32> = demand.pools.iter().filter_map(|pool| pool.quiet).collect();
    let floor = Candidate::floor(
        "quietest busy time",
        quiet.iter().max().map(|quiet| f64::from(*quiet)),
        "median demand in the quietest of twelve parts of the time that are busy at all",
        match quiet.is_empty() {
            true => "needs demand over time: every loan, or a history".to_owned(),
            false => format!("{} of {} pools", quiet.len(), demand.pools.len()),
        },
    );
    let pools = demand.pools.len().max(1) as f64;
    let share = (total > 0.0).then(|| (total / pools).floor());
    let ceiling = Candidate::ceiling(
        "room",
        share,
        "pools x min_pool_size <= max_db_connections, or they take each other's servers for ever",
        format!("{} / {} pools", count(total), count(pools)),
    );
    let least = sizes.pools.iter().filter_map(|pool| pool.verdict.value()).min_by(f64::total_cmp);
    let size = Candidate::ceiling("pool_size", least, "min_pool_size <= pool_size", "the smallest pool".to_owned());
    let candidates = vec![floor, ceiling, size];
    // A minimum is a convenience: if the room is too small, it is as large as the room.
    let verdict = match (highest_floor(&candidates), lowest_ceiling(&candidates)) {
        (Some((_, floor)), Some((name, ceiling))) if ceiling < floor => {
            Verdict::Chosen { value: ceiling, binding: name }
        }
        (Some((name, floor)), _) => Verdict::Chosen { value: floor, binding: name },
        (None, _) => Verdict::NotConcluded { needs: candidates[0].measured.trim_start_matches("needs ").to_owned() },
    };
    decision("min_pool_size", Unit::Connections, candidates, verdict)
}

fn reserve(demand: &Demand, terms: &Terms) -> Decision {
    let change = change_of(demand, terms);
    let beyond = demand.pools.iter().filter(|pool| pool.loans >= 10 * LOANS_MIN).filter_map(|pool| {
        let traffic = Traffic::of_pool(pool);
        let is_known = traffic.is_recorded() || traffic.sampled(0.999).is_some();
        is_known.then(|| (traffic.demand(0.999, change), traffic.demand(0.99, change)))
    });
    let largest = beyond.max_by(|a, b| (a.0 - a.1).total_cmp(&(b.0 - b.1)));
    let measured = match largest {
        Some((high, low)) => format!("{} - {}, in the pool where it is most", short(high), short(low)),
        None => format!(
            "needs {} transactions of a pool, recorded, or 5,000 readings of its demand",
            count(10.0 * LOANS_MIN as f64)
        ),
    };
    let value = largest.map(|(high, low)| high - low);
    let floor = Candidate::floor("bursts", value, "q99.9 - q99 of simultaneous demand", measured.clone());
    let candidates = vec![floor];
    let verdict = floor_or_none(&candidates, &measured, f64::ceil);
    decision("reserve_pool_size", Unit::Connections, candidates, verdict)
}

fn reserve_after(terms: &Terms) -> Decision {
    let value = terms.slo.map(|slo| slo / 4.0);
    let measured = if terms.slo.is_some() { terms.slo_text() } else { "needs --slo MS".to_owned() };
    let candidates = vec![Candidate::floor("a quarter of the SLO", value, "SLO / 4", measured)];
    let verdict = floor_or_none(&candidates, "--slo MS", |floor| floor);
    decision("reserve_pool_timeout", Unit::Seconds, candidates, verdict)
}

fn idle_timeout(demand: &Demand, terms: &Terms, sizes: &Sizes) -> Decision {
    let gap_of = |(pool, size): (&PoolDemand, &Decision)| {
        let size = size.verdict.value()? as usize;
        let used = pool.slots.iter().take(size).filter(|slot| slot.uses >= USES_MIN);
        used.map(|slot| slot.gap_p95).max_by(f64::total_cmp)
    };
    let gap = demand.pools.iter().zip(&sizes.pools).filter_map(gap_of).max_by(f64::total_cmp);
    let measured = match gap {
        Some(gap) => format!("{} s, of the server that is used least", short(gap)),
        None => "needs the gaps between uses of each server: every loan, or readings of the demand".to_owned(),
    };
    let floor = Candidate::floor(
        "gap between uses",
        gap,
        "p95 of the gap between two uses of a server, or it is closed for nothing",
        measured.clone(),
    );
    let least = Candidate::floor("a minute", Some(60.0), "less saves nothing", "a rule of ours".to_owned());
    let least = if gap.is_some() { least } else { least.shown_only() };
    let limit = Candidate::ceiling(
        "idle limit",
        terms.idle_limit,
        "before a NAT, a firewall or the server closes the connection",
        terms.idle_limit.map_or_else(|| "needs --idle-limit SECONDS".to_owned(), |limit| format!("{limit} s")),
    );
    let default = Candidate::reference("default", Some(600.0), "PgBouncer's", String::new());
    let candidates = vec![floor, least, limit, default];
    let verdict = floor_or_none(&candidates, &measured, f64::ceil);
    decision("server_idle_timeout", Unit::Seconds, candidates, verdict)
}

fn lifetime(terms: &Terms, sizes: &Sizes, total: f64) -> Decision {
    let value = terms.login_rate.filter(|rate| *rate > 0.0 && total > 0.0).map(|rate| total / (LOGIN_SHARE * rate));
    let measured = match terms.login_rate {
        Some(rate) => format!("{} servers, {} logins a second are possible", count(total), short(rate)),
        None => "needs --login-rate COUNT: logins a second that the server can do".to_owned(),
    };
    let floor =
        Candidate::floor("logins", value, "servers / lifetime <= 1 % of the logins that are possible", measured);
    let growth = Candidate::floor(
        "an hour",
        Some(3600.0),
        "often enough for page tables and caches of a backend to be given back",
        "PgBouncer's default; nothing was measured".to_owned(),
    );
    let mut candidates = vec![floor, growth];
    let verdict = floor_or_none(&candidates, "", f64::ceil);
    // Servers that were opened together must not all be closed together.
    let largest = sizes.pools.iter().filter_map(|pool| pool.verdict.value()).max_by(f64::total_cmp);
    let spread = verdict.value().zip(largest).map(|(lifetime, size)| lifetime / size.max(1.0));
    candidates.push(Candidate::reference(
        "time between closings",
        spread,
        "server_lifetime / pool_size: a pool closes for age one at a time, so that no jitter is needed (without it: +-20 %)",
        "Trunkline and PgBouncer do so; the largest pool".to_owned(),
    ));
    decision("server_lifetime", Unit::Seconds, candidates, verdict)
}

fn clients(demand: &Demand, terms: &Terms, total: f64) -> Decision {
    let processes = if demand.is_of_one_process { 1.0 } else { terms.replicas() };
    let pools = Candidate::floor(
        "client pools",
        terms.client_pools.map(|pools| pools * 2.0 * 1.2 / terms.replicas()),
        "connections of all client pools x 2 (a rolling restart) x 1.2 / processes",
        terms.client_pools.map_or_else(|| "needs --client-pools COUNT".to_owned(), count),
    );
    let seen = Candidate::floor(
        "clients seen",
        demand.clients_peak.map(|peak| f64::from(peak) * terms.growth() * 2.0 * 1.2 / processes),
        "the most clients at once x growth x 2 (a rolling restart) x 1.2 / processes",
        demand.clients_peak.map_or_else(|| "not observed".to_owned(), |peak| count(peak.into())),
    );
    let files = Candidate::ceiling(
        "open files",
        terms.open_files.map(|files| (files - total - FILES_OF_ITS_OWN).max(0.0)),
        "open files - servers - 100",
        terms.open_files.map_or_else(|| "needs --open-files COUNT".to_owned(), count),
    );
    // The configured pools are the truth where they are known.
    let seen = if terms.client_pools.is_some() { seen.shown_only() } else { seen };
    let candidates = vec![pools, seen, files];
    let verdict = floor_or_none(&candidates, "--client-pools COUNT", f64::ceil);
    decision("max_client_conn", Unit::Connections, candidates, verdict)
}

fn query_wait(terms: &Terms) -> Decision {
    let say = |value: Option<f64>, option: &str| {
        value.map_or_else(|| format!("needs {option} SECONDS"), |value| format!("{value} s"))
    };
    let budget = Candidate::floor(
        "failover",
        terms.failover_budget,
        "longer than a failover, or clients see it",
        say(terms.failover_budget, "--failover-budget"),
    );
    let patience = Candidate::ceiling(
        "client's patience",
        terms.client_timeout,
        "shorter than the client's own timeout, or servers work for clients that have gone",
        say(terms.client_timeout, "--client-timeout"),
    );
    let default = Candidate::reference("default", Some(120.0), "PgBouncer's", String::new());
    let candidates = vec![budget, patience, default];
    let verdict = match (terms.failover_budget, terms.client_timeout) {
        (Some(floor), Some(ceiling)) if floor >= ceiling => Verdict::NoSizeWorks {
            floor,
            floor_by: "failover",
            ceiling,
            ceiling_by: "client's patience",
            least_bad: ceiling,
            remedies: Vec::new(),
        },
        (_, Some(ceiling)) => Verdict::Chosen { value: ceiling * 0.9, binding: "client's patience" },
        (Some(floor), None) => Verdict::Chosen { value: floor * 2.0, binding: "failover" },
        (None, None) => {
            Verdict::NotConcluded { needs: "--client-timeout SECONDS or --failover-budget SECONDS".to_owned() }
        }
    };
    let verdict = match verdict {
        Verdict::Chosen { value, .. } if terms.failover_budget.is_some_and(|budget| value <= budget) => {
            let budget = terms.failover_budget.unwrap_or(0.0);
            let ceiling = terms.client_timeout.unwrap_or(budget);
            Verdict::Chosen { value: f64::midpoint(budget, ceiling), binding: "failover" }
        }
        verdict => verdict,
    };
    decision("query_wait_timeout", Unit::Seconds, candidates, verdict)
}

/// Gaps of which a 95th percentile is known.
const USES_MIN: u64 = 20;
/// The share of the possible logins that ageing servers may take.
const LOGIN_SHARE: f64 = 0.01;
/// Files of the pooler that are neither clients nor servers.
const FILES_OF_ITS_OWN: f64 = 100.0;
