//! A rate limit: a line of `[rate_limits]`.
//!
//! Always true: a rule defines what it counts and how much of it is admitted; everything else has a default.
//! Not here: counting (`pool::Rates`).

use core::net::IpAddr;
use std::sync::Arc;

use pool::{Counted, Excess, Period, Rate, RateFilter, RateKeys, RateRule};

use crate::mistake::{Wrong, did_you_mean};
use crate::network::Network;
use crate::pairs::{pairs, unrecognized};

/// The keys of a line, each with its meaning.
const KEYS: &[(&str, &str)] = &[
    ("events", "What is counted: `logins` or `transactions`. Required."),
    (
        "rate",
        "How many are admitted: a whole number from 1 to 1000000 per second, or followed by `/s`, `/m` or `/h` per second, minute or \
         hour. Required.",
    ),
    ("burst", "How many are admitted at once after a rest, from 1 to 1000000; by default the number of `rate`."),
    (
        "by",
        "By what clients are counted separately: `user`, `database`, `address`, `application_name`, or several of these, separated by \
         commas. IPv6 addresses are counted by their 64-bit network; all clients by unix sockets are counted together. By default \
         there is one count for all clients.",
    ),
    ("action", "What happens to events beyond the rate: `delay` (the default) or `reject`."),
    ("user", "Only clients that log in as this user."),
    ("database", "Only clients of this database, by the name under which they connect to it."),
    (
        "address",
        "Only clients with this address, or with one in this network, such as `10.0.0.0/8`; never clients by a unix socket.",
    ),
    ("application_name", "Only clients that have this `application_name` when they are counted."),
];

/// Parses a line of `[rate_limits]`.
pub(crate) fn parse(name: &str, value: &str) -> Result<RateRule, Vec<Wrong>> {
    let mut line = Line::default();
    let mut wrongs = Vec::new();
    let mut given = Vec::new();
    for (key, value) in pairs(value).map_err(|wrong| vec![wrong])? {
        if given.contains(&key) {
            wrongs.push(Wrong::new(format!("{key} is given twice for rate limit \"{name}\"")));
        }
        given.push(key);
        wrongs.extend(line.assign(key, &value).err());
    }
    let lacks = |what: &str, example: &str| {
        Wrong::new(format!("rate limit \"{name}\" has no {what}")).advise(Some(format!("write {what}={example}")))
    };
    if !given.contains(&"events") {
        wrongs.push(lacks("events", "transactions, or logins"));
    }
    if !given.contains(&"rate") {
        wrongs.push(lacks("rate", "100, or another whole number"));
    }
    if !is_name(name) {
        let text =
            format!("invalid name of a rate limit: {name} (expected up to {NAME_BYTES_MAX} letters, digits or _)");
        wrongs.push(Wrong::new(text));
    }
    match (line.counts, line.rate) {
        (Some(counts), Some((count, period))) if wrongs.is_empty() => {
            let rate = Rate { count, period, burst: line.burst.unwrap_or(count) };
            let excess = line.excess.unwrap_or(Excess::Delay);
            Ok(RateRule { name: name.into(), counts, by: line.by, only: line.only, rate, excess })
        }
        _ => Err(wrongs),
    }
}

/// The values of a line so far.
#[derive(Default)]
struct Line {
    counts: Option<Counted>,
    by: RateKeys,
    only: RateFilter,
    rate: Option<(u32, Period)>,
    burst: Option<u32>,
    excess: Option<Excess>,
}

impl Line {
    fn assign(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        match key {
            "events" => {
                let words = [("logins", Counted::Logins), ("transactions", Counted::Transactions)];
                self.counts = Some(word(key, value, &words)?);
            }
            "action" => {
                self.excess = Some(word(key, value, &[("delay", Excess::Delay), ("reject", Excess::Reject)])?);
            }
            "rate" => self.rate = Some(rate(value)?),
            "burst" => self.burst = Some(count(key, value)?),
            "by" => self.by = keys(value)?,
            "user" => self.only.user = Some(value.into()),
            "database" => self.only.database = Some(value.into()),
            "application_name" => self.only.application_name = Some(value.into()),
            "address" => self.only.address = Some(network(value)?),
            _ => {
                let names: Vec<_> = KEYS.iter().map(|(name, _)| *name).collect();
                return Err(unrecognized("rate limit", key, &names));
            }
        }
        Ok(())
    }
}

fn word<T: Copy>(key: &str, value: &str, words: &[(&str, T)]) -> Result<T, Wrong> {
    match words.iter().find(|(word, _)| *word == value) {
        Some((_, meaning)) => Ok(*meaning),
        None => {
            let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let wrong = Wrong::new(format!("invalid {key}: {value} (expected {})", names.join(" or ")));
            Err(wrong.advise(did_you_mean(value, names)))
        }
    }
}

fn count(key: &str, value: &str) -> Result<u32, Wrong> {
    let number = value.parse().ok().filter(|number| (1..=Rate::COUNT_MAX).contains(number));
    number.ok_or_else(|| {
        Wrong::new(format!("invalid {key}: {value} (expected a whole number from 1 to {})", Rate::COUNT_MAX))
    })
}

fn rate(value: &str) -> Result<(u32, Period), Wrong> {
    let (number, period) = value.split_once('/').unwrap_or((value, "s"));
    let period = match period {
        "s" => Period::Second,
        "m" => Period::Minute,
        "h" => Period::Hour,
        _ => {
            return Err(Wrong::new(format!(
                "invalid rate: {value} (expected a whole number and perhaps /s, /m or /h)"
            )));
        }
    };
    Ok((count("rate", number)?, period))
}

fn keys(value: &str) -> Result<RateKeys, Wrong> {
    let mut keys = RateKeys::default();
    for name in value.split(',') {
        match name.trim() {
            "user" => keys.user = true,
            "database" => keys.database = true,
            "address" => keys.address = true,
            "application_name" => keys.application_name = true,
            other => {
                let names = ["user", "database", "address", "application_name"];
                let wrong = Wrong::new(format!("invalid by: {other} (expected some of {})", names.join(", ")));
                return Err(wrong.advise(did_you_mean(other, names)));
            }
        }
    }
    Ok(keys)
}

fn network(value: &str) -> Result<(IpAddr, u8), Wrong> {
    let wrong =
        || Wrong::new(format!("invalid address: {value} (expected an address, or one and the bits of its network)"));
    Network::parse(value).map(|Network { address, bits }| (address, bits)).ok_or_else(wrong)
}

/// Whether the name can be used on the console: `SET rate_limits.NAME`.
fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The name of the rate limit in a key of `SET`, if the key names one.
pub(crate) fn name_of(key: &str) -> Option<&str> {
    key.strip_prefix("rate_limits.")
}

/// The mistake for more rules than there may be.
pub(crate) fn too_many() -> Wrong {
    Wrong::new(format!("more than {} rate limits", RateRule::RULES_MAX))
}

/// The filter of a rule, as written in the file.
#[must_use]
pub fn written_filter(only: &RateFilter) -> String {
    let named = |key: &str, name: &Option<Arc<str>>| name.as_ref().map(|name| format!("{key}={}", quoted(name)));
    let network = only.address.map(|(address, bits)| format!("address={address}/{bits}"));
    let parts = [
        named("user", &only.user),
        named("database", &only.database),
        network,
        named("application_name", &only.application_name),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn quoted(name: &str) -> String {
    if name.contains([' ', '\'']) { format!("'{}'", name.replace('\'', "''")) } else { name.to_owned() }
}

/// The keys of a line for the reference page, in Markdown.
#[must_use]
pub fn reference() -> String {
    let head = "| key | meaning |\n|---|---|\n".to_owned();
    KEYS.iter().fold(head, |page, (key, doc)| page + &format!("| `{key}` | {doc} |\n"))
}

/// With its section it is no longer than a key of the console may be.
const NAME_BYTES_MAX: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(value: &str) -> Vec<String> {
        let wrongs = parse("r", value).expect_err("a bad line");
        wrongs
            .into_iter()
            .map(|wrong| [Some(wrong.text), wrong.advice].into_iter().flatten().collect::<Vec<_>>().join("; "))
            .collect()
    }

    #[test]
    fn a_line_says_what_it_counts_and_how_much() {
        let rule =
            parse("api", "events=transactions by=user,address rate=100 burst=200 action=reject").expect("a good line");
        assert_eq!(rule.to_string(), "\"api\" (100 transactions a second by user,address, burst 200)");
        assert_eq!((rule.excess, rule.only), (Excess::Reject, RateFilter::default()));
        let rule = parse("l", "events=logins rate=30/m").expect("a good line");
        assert_eq!((rule.rate, rule.excess), (Rate { count: 30, period: Period::Minute, burst: 30 }, Excess::Delay));
        assert_eq!(rule.by, RateKeys::default());
    }

    #[test]
    fn whom_a_line_is_about_is_read_and_written_alike() {
        for text in [
            "user=app",
            "user='an''n bee' database=shop address=10.0.0.0/8 application_name=etl",
            "address=2001:db8::/32",
            "address=10.0.0.7/32",
        ] {
            let rule = parse("r", &format!("events=logins rate=1 {text}")).expect("a good line");
            assert_eq!(written_filter(&rule.only), text);
        }
        let mapped = parse("r", "events=logins rate=1 address=::ffff:10.0.0.0/104").expect("a good line");
        assert_eq!(written_filter(&mapped.only), "address=10.0.0.0/8");
    }

    #[test]
    fn what_is_wrong_is_told_all_at_once() {
        assert_eq!(
            wrong("burst=5"),
            [
                "rate limit \"r\" has no events; write events=transactions, or logins",
                "rate limit \"r\" has no rate; write rate=100, or another whole number"
            ]
        );
        assert_eq!(
            wrong("events=login rate=0 burst=x by=usr action=drop adress=1"),
            [
                "invalid events: login (expected logins or transactions); did you mean \"logins\"?",
                "invalid rate: 0 (expected a whole number from 1 to 1000000)",
                "invalid burst: x (expected a whole number from 1 to 1000000)",
                "invalid by: usr (expected some of user, database, address, application_name); did you mean \"user\"?",
                "invalid action: drop (expected delay or reject)",
                "unrecognized rate limit parameter: adress; did you mean \"address\"?",
            ]
        );
        assert_eq!(wrong("events=logins rate=1 rate=2"), ["rate is given twice for rate limit \"r\""]);
        for bad in ["rate=1/d", "rate=1000001", "rate=-1", "rate=0.5", "rate=1/"] {
            assert!(wrong(&format!("events=logins {bad}"))[0].starts_with("invalid rate: "), "{bad}");
        }
        for bad in ["10.0.0", "10.0.0.0/33", "::1/129", "10.0.0.0/-1", "::ffff:10.0.0.0/8", "localhost"] {
            assert!(wrong(&format!("events=logins rate=1 address={bad}"))[0].starts_with("invalid address: "), "{bad}");
        }
    }

    #[test]
    fn a_name_can_be_said_on_the_console() {
        assert!(parse("a_1", "events=logins rate=1").is_ok());
        for bad in ["a-b", "a b", &"x".repeat(49)] {
            assert!(parse(bad, "events=logins rate=1").is_err(), "{bad}");
        }
    }
}
