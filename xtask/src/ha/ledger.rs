//! `trunkline hatest`, which writes and reads by all paths at once, and what its ledger says.
//!
//! Always true: whether a write is lost is asked of the leader as Patroni's, by HAProxy: a former primary may still
//! answer as one.
//! Not here: which paths there are (`paths`).

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use ops::trial::{Kept, ShutdownSignal};
use serde_json::Value;

use super::company::SUBSCRIBER;
use super::lab::Lab;
use super::node::Node;
use super::paths::{self, Path};

/// What was seen on one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) acked: u64,
    /// The longest time between two acknowledged writes.
    pub(super) gap_ms: f64,
    /// Writes that an error answered: they were not done.
    pub(super) refused: u64,
    /// Writes whose connection broke before the answer: nobody knows whether they were done.
    pub(super) unknown: u64,
    /// Acknowledged, and not in the table.
    pub(super) lost: u64,
    /// Refused, and in the table.
    pub(super) phantom: u64,
    pub(super) duplicate: u64,
    /// Attempts to connect that failed.
    pub(super) connects_failed: u64,
    /// Errors of all these kinds, by SQLSTATE or a word.
    pub(super) codes: BTreeMap<String, u64>,
    /// Which hosts acknowledged how many writes.
    pub(super) members: BTreeMap<String, u64>,
    /// When each host acknowledged the first and the last one, in seconds since the start.
    pub(super) times: BTreeMap<String, (f64, f64)>,
    /// Rows that only the former primary has, if it could be asked.
    pub(super) divergence: Option<u64>,
    /// The time within which 99 of 100 acknowledged writes were answered.
    pub(super) p99_ms: f64,
}

impl Seen {
    fn read(of: &Value) -> Result<Self, String> {
        let number = |name: &str| of[name].as_u64().ok_or_else(|| format!("no {name} in {of}"));
        let mut codes: BTreeMap<String, u64> = BTreeMap::new();
        for (code, count) in ["errors", "unknown_codes", "connect_errors"].into_iter().flat_map(|name| counts(of, name))
        {
            *codes.entry(code).or_default() += count;
        }
        Ok(Self {
            acked: number("acked")?,
            gap_ms: of["gap_ms"].as_f64().ok_or_else(|| format!("no gap_ms in {of}"))?,
            refused: number("refused")?,
            unknown: number("unknown")?,
            lost: number("lost")?,
            phantom: number("phantom")?,
            duplicate: number("duplicate")?,
            connects_failed: counts(of, "connect_errors").iter().map(|(_, count)| count).sum(),
            codes,
            members: members(of),
            times: times(of, None),
            divergence: of["divergence"].as_u64(),
            p99_ms: of["p99_ms"].as_f64().unwrap_or_default(),
        })
    }
}

/// What was seen by the reader of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reads {
    /// The longest time between two answers.
    pub(super) gap_ms: f64,
    /// Reads that an error answered, or whose connection broke.
    pub(super) failed: u64,
    /// By how much the newest row was older than one that had been acknowledged before.
    pub(super) stale_ms: f64,
    pub(super) members: BTreeMap<String, u64>,
}

impl Reads {
    fn of(of: &Value) -> Result<Self, String> {
        let number = |name: &str| of[name].as_f64().ok_or_else(|| format!("no {name} in {of}"));
        let failed = [counts(of, "errors"), counts(of, "broken_codes")].concat().iter().map(|(_, count)| count).sum();
        Ok(Self { gap_ms: number("gap_ms")?, failed, stale_ms: number("stale_max_ms")?, members: members(of) })
    }
}

/// The object `name`: how often something happened, by its name.
fn counts(of: &Value, name: &str) -> Vec<(String, u64)> {
    let counts = of[name].as_object().into_iter().flatten();
    counts.map(|(code, count)| (code.clone(), count.as_u64().unwrap_or(0))).collect()
}

/// How many answers came from which address.
fn members(of: &Value) -> BTreeMap<String, u64> {
    let mut members = BTreeMap::new();
    for member in of["members"].as_array().into_iter().flatten() {
        // A node is listed once for each role.
        let (Some(address), Some(answers)) = (member["address"].as_str(), member["answers"].as_u64()) else { continue };
        *members.entry(host(address)).or_default() += answers;
    }
    members
}

/// When each address answered first and last, in whichever role, or in this one.
fn times(of: &Value, role: Option<&str>) -> BTreeMap<String, (f64, f64)> {
    let mut times: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let all = of["members"].as_array().into_iter().flatten();
    for member in all.filter(|member| role.is_none_or(|role| member["role"] == role)) {
        let span = (member["address"].as_str(), member["first_s"].as_f64(), member["last_s"].as_f64());
        let (Some(address), Some(first), Some(last)) = span else { continue };
        let known = times.entry(host(address)).or_insert((first, last));
        *known = (known.0.min(first), known.1.max(last));
    }
    times
}

fn host(address: &str) -> String {
    address.trim_end_matches(":5432").to_owned()
}

/// A host that became the primary while it was watched.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Acceptance {
    host: String,
    /// When it said first that it is not in recovery, in seconds since the start, as seen every 20 ms.
    at_s: f64,
}

impl Acceptance {
    /// How long after that a path's first write was acknowledged there.
    pub(super) fn first_write_ms(&self, seen: &Seen) -> Option<f64> {
        // It is seen a moment late.
        seen.times.get(&self.host).map(|(first, _)| (1e3 * (first - self.at_s)).max(0.0))
    }

    /// For how long after that a path's writes were acknowledged by another host.
    pub(super) fn old_writes_ms(&self, seen: &Seen) -> f64 {
        let others = seen.times.iter().filter(|(host, _)| **host != self.host);
        others.map(|(_, (_, last))| 1e3 * (last - self.at_s)).fold(0.0, f64::max)
    }
}

/// What one run of a case gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) seen: BTreeMap<Path, Seen>,
    pub(super) read: BTreeMap<Path, Reads>,
    /// The first other host that became the primary.
    pub(super) acceptance: Option<Acceptance>,
    /// What was seen besides.
    pub(super) notes: Vec<String>,
    /// Whether etcd has changed its leader.
    pub(super) etcd_changed: bool,
    pub(super) load: f64,
}

impl Measured {
    /// `primary` is the address of the primary at the start.
    fn read(text: &str, primary: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text.trim()).map_err(|error| format!("no JSON: {error}: {text}"))?;
        let find = |list: &str, path: Path| {
            let mut all = value[list].as_array().into_iter().flatten();
            all.find(|of| of["name"] == path.letter()).ok_or_else(|| format!("no {} in {list}", path.letter()))
        };
        let seen = |path| Ok((path, Seen::read(find("paths", path)?)?));
        let read = |path| Ok((path, Reads::of(find("readers", path)?)?));
        Ok(Self {
            seen: Path::ALL.into_iter().map(seen).collect::<Result<_, String>>()?,
            read: Path::ALL.into_iter().map(read).collect::<Result<_, String>>()?,
            acceptance: acceptance(&value, primary),
            notes: subscriber(&value).into_iter().collect(),
            ..Self::default()
        })
    }

    /// How fast acknowledged writes were answered.
    pub(super) fn latency(&self) -> String {
        let each = self.seen.iter().map(|(path, seen)| format!("{} {:.0} ms", path.letter(), seen.p99_ms));
        format!("99 of 100 writes were answered within {}", each.collect::<Vec<_>>().join(", "))
    }

    pub(super) fn in_short(&self) -> String {
        let line = |(path, seen): (&Path, &Seen)| {
            format!(
                "  {:<22}gap {:>5.1} s, {} acknowledged, {} refused, {} unknown, {} lost, {} duplicate; {:?}; {:?}; readers' gap {:.1} s\n",
                path.label(),
                seen.gap_ms / 1e3,
                seen.acked,
                seen.refused,
                seen.unknown,
                seen.lost,
                seen.duplicate,
                seen.codes,
                seen.members,
                self.read.get(path).map_or(0.0, |read| read.gap_ms) / 1e3
            )
        };
        let mut text: String = self.seen.iter().map(line).collect();
        if let Some(acceptance) = &self.acceptance {
            let words = self.seen.iter().map(|(path, seen)| {
                let first = acceptance.first_write_ms(seen).map_or("never".into(), |ms| format!("{ms:.0} ms"));
                format!("{} {first}, the old one {:.0} ms longer", path.letter(), acceptance.old_writes_ms(seen))
            });
            text +=
                &format!("  first write after {} accepts: {}\n", acceptance.host, words.collect::<Vec<_>>().join("; "));
        }
        text.extend(self.notes.iter().map(|note| format!("  {note}\n")));
        text
    }
}

/// By the readers that ask each node directly: the first that was a standby and is one no more.
fn acceptance(value: &Value, primary: &str) -> Option<Acceptance> {
    let is_watch = |reader: &&Value| reader["name"].as_str().and_then(Node::named).is_some();
    let watches = value["readers"].as_array().into_iter().flatten().filter(is_watch);
    let promoted = watches.flat_map(|watch| {
        let standbys = times(watch, Some("standby"));
        let was_standby = move |host: &str, at_s: f64| standbys.get(host).is_some_and(|(first, _)| *first < at_s);
        times(watch, Some("primary")).into_iter().filter(move |(host, (at_s, _))| was_standby(host, *at_s))
    });
    let all = promoted.filter(|(host, _)| host != primary).map(|(host, (at_s, _))| Acceptance { host, at_s });
    all.min_by(|one, other| one.at_s.total_cmp(&other.at_s))
}

fn subscriber(value: &Value) -> Option<String> {
    let mut readers = value["readers"].as_array().into_iter().flatten();
    let stale = readers.find(|reader| reader["name"] == SUBSCRIBER)?["stale_max_ms"].as_f64()?;
    Some(format!("the subscriber was behind acknowledged writes by {:.1} s at most", stale / 1e3))
}

/// The client while it runs.
pub(super) struct Ledger {
    client: Kept,
    /// The address of the primary at the start.
    primary: String,
    until: Instant,
}

impl Ledger {
    /// Starts writers on all paths for this long, and readers on all paths, at each node and wherever else is said.
    pub(super) fn start(
        lab: &Lab,
        duration: Duration,
        primary: Node,
        more: &[(&'static str, String)],
    ) -> Result<Self, String> {
        let mut command = Command::new(Lab::trunkline());
        command.args(["hatest", "--json", "--duration", &format!("{}ms", duration.as_millis())]);
        command.args(["--verify", &Path::HaProxy.writer(), "--old-primary", &paths::directly(primary)]);
        let mut reader = |name: &str, way: &str| {
            command.arg("--reader").arg(format!("{name}={way}"));
        };
        Path::ALL.into_iter().for_each(|path| reader(path.letter(), &path.reader()));
        Node::ALL.into_iter().for_each(|node| reader(&node.name(), &paths::directly(node)));
        more.iter().for_each(|(name, way)| reader(name, way));
        for path in Path::ALL {
            command.arg("--path").arg(format!("{}={}", path.letter(), path.writer()));
        }
        let client = lab.trial().start(CLIENT, &mut command, ShutdownSignal::Terminate);
        let client = client.map_err(|error| error.to_string())?;
        Ok(Self { client, primary: primary.address(), until: Instant::now() + duration + PATIENCE })
    }

    /// Waits until then, unless the client ends before.
    pub(super) fn wait_until(&mut self, lab: &Lab, then: Instant) -> Result<(), String> {
        while Instant::now() < then {
            if self.client.ended().is_some() {
                return Err(format!("the client ended early: {}", lab.trial().last_words(CLIENT)));
            }
            let rest = then.saturating_duration_since(Instant::now());
            lab.wait(rest.min(Duration::from_millis(100)))?;
        }
        Ok(())
    }

    /// Waits until the client has written and counted.
    pub(super) fn finish(mut self, lab: &Lab) -> Result<Measured, String> {
        while self.client.ended().is_none() {
            if Instant::now() > self.until {
                return Err("the client does not end".into());
            }
            lab.wait(Duration::from_millis(100))?;
        }
        let text = lab.trial().output(CLIENT);
        Measured::read(&text, &self.primary).map_err(|why| format!("{why}\n{}", lab.trial().last_words(CLIENT)))
    }
}

const CLIENT: &str = "hatest";

/// Beyond its duration: writers that wait for an answer, and the count.
const PATIENCE: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_of_each_path_is_read() {
        let of = |name: &str, gap: f64| {
            serde_json::json!({
                "name": name, "acked": 9, "refused": 1, "unknown": 2, "lost": 0, "phantom": 0, "duplicate": 0, "gap_ms": gap,
                "errors": {"25006": 1}, "unknown_codes": {"57P01": 2}, "connect_errors": {"57P01": 1, "none": 4},
                "members": [{"address": "10.77.0.11", "role": "primary", "answers": 8, "first_s": 0.1, "last_s": 21.5},
                            {"address": "10.77.0.12", "role": "primary", "answers": 1, "first_s": 20.25, "last_s": 30.0}],
                "divergence": 3, "p99_ms": 4.0,
            })
        };
        let reader = |name: &str| {
            serde_json::json!({
                "name": name, "gap_ms": 20.5, "stale_max_ms": 7.0, "errors": {"57P03": 1}, "broken_codes": {"reset": 2},
                "members": [{"address": "10.77.0.12:5432", "role": "standby", "answers": 5},
                            {"address": "10.77.0.12:5432", "role": "primary", "answers": 1}],
            })
        };
        let watch = |name: &str, address: &str, first: f64| {
            serde_json::json!({"name": name, "members": [
                {"address": address, "role": "standby", "answers": 5, "first_s": 0.0, "last_s": first},
                {"address": address, "role": "primary", "answers": 5, "first_s": first, "last_s": 30.0}]})
        };
        let text = serde_json::json!({
            "paths": [of("A", 1.0), of("B", 2.0), of("C", 3.0), of("D", 4.5)],
            "readers": [reader("A"), reader("B"), reader("C"), reader("D"), watch("n1", "10.77.0.11", 0.1), watch("n2", "10.77.0.12", 20.0)],
        });
        let text = text.to_string();
        let measured = Measured::read(&text, "10.77.0.11").expect("a ledger");
        let seen = &measured.seen[&Path::Trunkline];
        assert_eq!((seen.gap_ms, seen.connects_failed, seen.members["10.77.0.11"]), (4.5, 5, 8));
        let acceptance = measured.acceptance.as_ref().expect("n2 was promoted");
        assert_eq!((acceptance.host.as_str(), acceptance.first_write_ms(seen)), ("10.77.0.12", Some(250.0)));
        assert_eq!(acceptance.old_writes_ms(seen), 1500.0, "n1 went on");
        let from_the_start = watch("n2", "10.77.0.12", 0.0);
        assert_eq!(super::acceptance(&serde_json::json!({ "readers": [from_the_start] }), "10.77.0.11"), None);
        assert_eq!(seen.codes["57P01"], 3);
        let read = &measured.read[&Path::Direct];
        assert_eq!((read.failed, read.members["10.77.0.12"]), (3, 6));
        assert!(Measured::read(r#"{"paths": []}"#, "").is_err_and(|why| why == "no A in paths"));
    }
}
