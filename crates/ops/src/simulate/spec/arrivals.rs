//! When transactions begin, and how long times are, as a spec writes them.
//!
//! Always true: a law that cannot be read is noted as a mistake and replaced by a constant.
//! Not here: drawing from them (`law`, `engine::traffic`).

use super::section::{Section, TIME_WANTED, time_of};
use super::tree::Value;
use super::{Arrivals, Law};

/// The law of a key: a time, or a table that names the law.
pub(super) fn law(section: &Section<'_>, name: &'static str, default: Law) -> Law {
    let Some(node) = section.node(name) else { return default };
    if !matches!(node.value, Value::Table(_)) {
        let time = time_of(node).map(|micros| Law::Constant(seconds(micros)));
        return time.unwrap_or_else(|| {
            section.wrong(name, TIME_WANTED);
            default
        });
    }
    let Some(table) = section.section(name) else { return default };
    let read = law_of(&table);
    table.end();
    read.unwrap_or_else(|| {
        section.wrong(
            name,
            "a law is wanted: a time, { exponential = TIME }, { lognormal = TIME, scv = NUMBER }, \
             { two_point = [TIME, TIME], second = SHARE } or { quantiles = { min = TIME, p50 = TIME, ..., max = TIME } }",
        );
        default
    })
}

fn law_of(table: &Section<'_>) -> Option<Law> {
    // All of them are asked for, so that a misspelled one is told with the nearest name.
    let named = ["exponential", "lognormal", "two_point", "quantiles"].map(|name| (name, table.has(name)));
    let scv = table.number("scv", 1.0, 0.0, 1e4);
    let second = table.number("second", 0.5, 0.0, 1.0);
    let (exponential, lognormal) = (table.time("exponential", 0), table.time("lognormal", 0));
    let points = if table.has("two_point") { table.times("two_point") } else { None };
    match named.iter().find(|(_, is_there)| *is_there)?.0 {
        "exponential" => Some(Law::Exponential { mean: seconds(exponential) }),
        "lognormal" => Some(Law::Lognormal { mean: seconds(lognormal), scv }),
        "two_point" => match points?[..] {
            [first, other] => {
                Some(Law::TwoPoint { first: seconds(first), second: seconds(other), probability: second })
            }
            _ => None,
        },
        _ => quantiles(&table.section("quantiles")?),
    }
}

/// `{ min = "1 ms", p50 = "2 ms", p99 = "40 ms", max = "1 s" }`.
fn quantiles(table: &Section<'_>) -> Option<Law> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (name, share) in QUANTILES {
        if table.has(name) {
            points.push((share, seconds(table.time(name, 0))));
        }
    }
    let is_ascending = points.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    let is_complete = table.has("min") && table.has("max");
    (is_ascending && is_complete).then_some(Law::Quantiles(points))
}

/// The arrivals of a group of so many tenants. `read_file` reads a recording.
pub(super) fn arrivals(
    section: Option<Section<'_>>,
    tenants: u32,
    read_file: &dyn Fn(&str) -> Result<String, String>,
) -> Option<Arrivals> {
    let section = section?;
    let each = if section.flag("per_tenant", false) { f64::from(tenants) } else { 1.0 };
    let names = ["poisson", "constant", "bursts", "mmpp", "users", "recorded"];
    let named: Vec<&str> = names.into_iter().filter(|name| section.has(name)).collect();
    let rate = |name| each * section.number(name, 0.0, 0.0, RATE_MAX);
    let (poisson, constant, bursts) = (rate("poisson"), rate("constant"), rate("bursts"));
    let (on, off) = (section.time("on", 1_000_000).max(1), section.time("off", 9_000_000));
    let think = law(&section, "think", Law::ZERO);
    let users = section.number("users", 0.0, 0.0, 1e6) * each;
    let speed = section.number("speed", 1.0, 1e-3, 1e3);
    let (rates, stays) =
        (section.has("mmpp").then(|| section.numbers("mmpp")), section.has("stays").then(|| section.times("stays")));
    let recorded = section.node("recorded").map(|node| &node.value);
    let read = match named[..] {
        ["poisson"] => Some(Arrivals::Poisson { rate: poisson }),
        ["constant"] => Some(Arrivals::Constant { rate: constant }),
        ["bursts"] => {
            let share = on as f64 / (on + off) as f64;
            Some(Arrivals::Modulated { states: vec![(bursts / share, seconds(on)), (0.0, seconds(off))] })
        }
        ["mmpp"] => {
            let (rates, stays) = (rates.flatten().unwrap_or_default(), stays.flatten().unwrap_or_default());
            if rates.len() < 2 || rates.len() != stays.len() || stays.contains(&0) {
                section.wrong("mmpp", "two rates or more are wanted, and in \"stays\" as many times above 0");
                None
            } else {
                let states = rates.iter().zip(&stays).map(|(rate, stay)| (rate * each, seconds(*stay)));
                Some(Arrivals::Modulated { states: states.collect() })
            }
        }
        ["users"] => Some(Arrivals::Closed { users: users.round().min(1e6) as u32, think }),
        ["recorded"] => recorded.and_then(|value| recording(&section, value, speed, tenants, read_file)),
        _ => {
            section.mistakes().add(
                section.line(),
                format!("{}: exactly one of {} is wanted", section.place("").trim_end_matches('.'), names.join(", ")),
            );
            None
        }
    };
    section.end();
    read
}

fn recording(
    section: &Section<'_>,
    value: &Value,
    speed: f64,
    tenants: u32,
    read_file: &dyn Fn(&str) -> Result<String, String>,
) -> Option<Arrivals> {
    let mut times: Vec<(u64, Option<u32>)> = match value {
        Value::List(list) => match list.iter().map(|node| time_of(node).map(|time| (time, None))).collect() {
            Some(times) => times,
            None => {
                section.wrong("recorded", TIME_WANTED);
                return None;
            }
        },
        Value::Text(path) => match read_file(path).and_then(|text| lines_of(&text, tenants)) {
            Ok(times) => times,
            Err(why) => {
                section.wrong("recorded", &why);
                return None;
            }
        },
        _ => {
            section.wrong("recorded", "a list of times is wanted, or the name of a file");
            return None;
        }
    };
    for (time, _) in &mut times {
        *time = (*time as f64 / speed) as u64;
    }
    times.sort_unstable();
    Some(Arrivals::Recorded(times))
}

/// A line for each arrival: the time in seconds, and after a comma the number of the tenant, from 0.
fn lines_of(text: &str, tenants: u32) -> Result<Vec<(u64, Option<u32>)>, String> {
    let mut times = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (time, tenant) = line.split_once(',').map_or((line, None), |(time, tenant)| (time, Some(tenant)));
        let time = time.trim().parse::<f64>().ok().filter(|time| (0.0..1e8).contains(time));
        let tenant = tenant.map(|tenant| tenant.trim().parse::<u32>().ok().filter(|tenant| *tenant < tenants));
        match (time, tenant) {
            (Some(time), None | Some(Some(_))) => times.push(((time * 1e6) as u64, tenant.flatten())),
            _ => {
                let number = number + 1;
                return Err(format!(
                    "line {number} of the recording: SECONDS or SECONDS,TENANT is wanted, tenants from 0"
                ));
            }
        }
    }
    Ok(times)
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

const QUANTILES: [(&str, f64); 11] = [
    ("min", 0.0),
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99_9", 0.999),
    ("p99_99", 0.9999),
    ("max", 1.0),
];
/// Transactions per second of one group.
const RATE_MAX: f64 = 1e7;
