//! What a database asks of replicas: how far behind they may be, and what its clients get when none may be used.
//!
//! Always true: a limit is not 0.
//! Not here: which replica is how far behind (`cluster::Rotation`).

use std::time::Duration;

use cluster::LagLimit;

use crate::catalog::Words;
use crate::mistake::Wrong;
use crate::pairs::time;

/// What clients of replicas get when no replica may be used (`when_no_replica`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenNoReplica {
    /// They wait for one.
    #[default]
    Wait,
    /// The primary.
    Primary,
    /// An error, at once.
    Refuse,
}

impl Words for WhenNoReplica {
    const ALL: &'static [(&'static str, Self)] =
        &[("wait", Self::Wait), ("primary", Self::Primary), ("refuse", Self::Refuse)];
}

/// Takes the value of `max_lag=` or `max_lag_time=`.
pub(crate) fn set_limit(limit: &mut LagLimit, key: &str, value: &str) -> Result<(), Wrong> {
    if key == "max_lag" {
        limit.bytes = Some(byte_count(value).filter(|most| *most > 0).ok_or_else(|| {
            Wrong::new(format!("invalid {key}: {value} (expected bytes, or a number with kB, MB or GB, such as 16MB)"))
        })?);
    } else {
        let secs = time(key, value)?.filter(|time| (SHORTEST..=LONGEST).contains(time));
        let wrong = || Wrong::new(format!("invalid {key}: {value} (expected seconds from 0.1 to 86400)"));
        limit.time = Some(secs.ok_or_else(wrong)?);
    }
    Ok(())
}

/// Parses a number of bytes with PostgreSQL's units, as Patroni does: `1048576`, `16MB`.
#[must_use]
pub fn byte_count(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[end..].trim() {
        "" | "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(unit)
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(key: &str, value: &str) -> Result<LagLimit, String> {
        let mut limit = LagLimit::default();
        set_limit(&mut limit, key, value).map(|()| limit).map_err(|wrong| wrong.text)
    }

    #[test]
    fn bytes_are_counted_as_patroni_counts_them() {
        for (text, read) in [
            ("0", Some(0)),
            ("1048576", Some(1 << 20)),
            ("16kB", Some(16 << 10)),
            ("10 MB", Some(10 << 20)),
            ("1GB", Some(1 << 30)),
            ("", None),
            ("MB", None),
            ("-1", None),
            ("1 mile", None),
            ("99999999999GB", None),
        ] {
            assert_eq!(byte_count(text), read, "{text:?}");
        }
    }

    #[test]
    fn a_limit_is_in_bytes_or_in_seconds() {
        for (value, most) in [("1", 1), ("500B", 500), ("64kB", 64 << 10), ("16MB", 16 << 20), ("2GB", 2 << 30)] {
            assert_eq!(limit("max_lag", value).map(|limit| limit.bytes), Ok(Some(most)), "{value}");
        }
        for value in ["0", "16mb", "-1", "MB", "1.5MB", "99999999999999999999", "18446744073709551615GB"] {
            let told = limit("max_lag", value).expect_err(value);
            assert!(told.starts_with("invalid max_lag: "), "{told}");
        }
        let time = limit("max_lag_time", "2.5").map(|limit| limit.time);
        assert_eq!(time, Ok(Some(Duration::from_millis(2500))));
        for value in ["0", "0.05", "86401", "-1"] {
            let told = limit("max_lag_time", value).expect_err(value);
            assert_eq!(told, format!("invalid max_lag_time: {value} (expected seconds from 0.1 to 86400)"));
        }
    }
}
