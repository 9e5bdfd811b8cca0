//! The client that writes by all paths at once, and what its ledger says.
//!
//! Always true: whether a write is lost is asked of the leader as Patroni's, by HAProxy: a former primary may still
//! answer as one.
//! Not here: which paths there are (`paths`).

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use ops::trial::{Kept, ShutdownSignal};
use serde_json::Value;

use super::lab::{FOLDER, Lab};
use super::paths::Path;

/// What was seen on one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) acked: u64,
    /// The longest time between two acknowledged writes.
    pub(super) gap_ms: u64,
    /// By SQLSTATE, `connect` and `broken`.
    pub(super) errors: BTreeMap<String, u64>,
    /// Writes of which nobody knows whether they were done.
    pub(super) unknown: u64,
    /// Acknowledged, and not in the table.
    pub(super) lost: u64,
    pub(super) duplicates: u64,
}

impl Seen {
    pub(super) fn errors_in_all(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// What one run of a case gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) seen: BTreeMap<Path, Seen>,
    /// Whether etcd has changed its leader.
    pub(super) etcd_changed: bool,
    pub(super) load: f64,
}

impl Measured {
    fn read(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text.trim()).map_err(|error| format!("no JSON: {error}: {text}"))?;
        let seen = |path: Path| {
            let of = &value[path.letter()];
            let number = |name: &str| of[name].as_u64().ok_or_else(|| format!("no {name} of path {}", path.letter()));
            let errors = of["errors"].as_object().into_iter().flatten();
            let seen = Seen {
                acked: number("acked")?,
                gap_ms: number("longest_gap_ms")?,
                errors: errors.map(|(code, count)| (code.clone(), count.as_u64().unwrap_or(0))).collect(),
                unknown: number("unknown")?,
                lost: number("lost")?,
                duplicates: number("duplicates")?,
            };
            Ok((path, seen))
        };
        Ok(Self { seen: Path::ALL.into_iter().map(seen).collect::<Result<_, String>>()?, ..Self::default() })
    }

    pub(super) fn in_short(&self) -> String {
        let line = |(path, seen): (&Path, &Seen)| {
            format!(
                "  {:<22}gap {:>6} ms, {:>5} acknowledged, {:>4} unknown, {} lost, {} duplicates, errors {:?}\n",
                path.label(),
                seen.gap_ms,
                seen.acked,
                seen.unknown,
                seen.lost,
                seen.duplicates,
                seen.errors
            )
        };
        self.seen.iter().map(line).collect()
    }
}

/// The client while it runs.
pub(super) struct Ledger {
    client: Kept,
    until: Instant,
}

impl Ledger {
    /// Starts writers on all paths for this long.
    pub(super) fn start(lab: &Lab, duration: Duration) -> Result<Self, String> {
        let script = std::path::Path::new(FOLDER).join("ledger.py");
        lab.write(&script, LEDGER)?;
        let mut command = Command::new("/usr/bin/python3");
        command.arg(script).args(["--json", "--duration", &duration.as_secs_f64().to_string()]);
        command.args(["--check", &Path::HaProxy.conninfo()]);
        for path in Path::ALL {
            command.arg("--path").arg(format!("{}={}", path.letter(), path.conninfo()));
        }
        let client = lab.trial().start(CLIENT, &mut command, ShutdownSignal::Terminate);
        let client = client.map_err(|error| error.to_string())?;
        Ok(Self { client, until: Instant::now() + duration + PATIENCE })
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
        Measured::read(&text).map_err(|why| format!("{why}\n{}", lab.trial().last_words(CLIENT)))
    }
}

const CLIENT: &str = "ledger";

const LEDGER: &str = include_str!("ledger.py");

/// Beyond its duration: writers that wait for an answer, and the count.
const PATIENCE: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_of_each_path_is_read() {
        let of = |gap: u32| {
            format!(
                r#"{{"acked": 9, "longest_gap_ms": {gap}, "errors": {{"57P01": 2, "connect": 1}}, "unknown": 1, "lost": 0, "duplicates": 0}}"#
            )
        };
        let text = format!(r#"{{"A": {}, "B": {}, "C": {}, "D": {}}}"#, of(1), of(2), of(3), of(4));
        let measured = Measured::read(&text).expect("a ledger");
        assert_eq!(measured.seen[&Path::Trunkline].gap_ms, 4);
        assert_eq!(measured.seen[&Path::Direct].errors_in_all(), 3);
        assert!(Measured::read(r#"{"A": {}}"#).is_err_and(|why| why == "no acked of path A"));
    }
}
