//! `TRACE`: the clients to be traced, and the duration.
//!
//! Always true: a parsed trace names its clients, and ends.
//! Not here: the text of happenings (`happening`), carrying out a trace (`crate::tracing`).

use std::fmt;

use base::Id;
use worker::letters::{TRACERS_MAX, Traced};

use super::Refusal;
use super::act::client_number;

/// A trace that is to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trace {
    pub(crate) traced: Traced,
    pub(crate) seconds: u64,
}

/// Parses a kind, a name, and what follows `FOR`. `invalid` makes the refusal of an invalid command.
pub(super) fn hear(
    (kind, name): (&str, Option<&str>),
    lasts: Option<(&str, Option<&str>)>,
    invalid: impl Fn() -> Refusal,
) -> Result<Trace, Refusal> {
    let Some(known) = KINDS.iter().find(|known| known.eq_ignore_ascii_case(kind)) else {
        return Err(match config::nearest(kind, KINDS) {
            Some(near) => invalid().hinted(format!("Did you mean TRACE {near}?")),
            None => invalid().hinted(USAGE),
        });
    };
    let Some(name) = name.filter(|name| !name.is_empty() || *known == APPLICATION) else {
        return Err(invalid().hinted(USAGE));
    };
    let traced = match *known {
        APPLICATION => Traced::Application(name.into()),
        DATABASE => Traced::Database(name.into()),
        _ => match client_number(name) {
            Some(number) => Traced::Client(number),
            None => {
                let refusal = Refusal::new("invalid client pointer supplied");
                return Err(refusal.hinted(
                    "A client is named as in the log and in every table, C-0x2a, or by its id in SHOW CLIENTS.",
                ));
            }
        },
    };
    Ok(Trace { traced, seconds: lasts.map_or(Ok(SECONDS), |lasts| seconds(lasts, invalid))? })
}

fn seconds((count, unit): (&str, Option<&str>), invalid: impl Fn() -> Refusal) -> Result<u64, Refusal> {
    let is_unit = |unit: &str| UNITS.iter().any(|known| known.eq_ignore_ascii_case(unit));
    let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || !unit.is_none_or(is_unit) {
        return Err(invalid().hinted(USAGE));
    }
    match count.parse() {
        Ok(seconds @ 1..=SECONDS_MAX) => Ok(seconds),
        _ => Err(Refusal::coded("22023", format!("TRACE cannot last {count} seconds"))
            .hinted(format!("A trace lasts from 1 to {SECONDS_MAX} seconds, and {SECONDS} by default."))),
    }
}

/// Describes the traced clients in words.
pub(crate) fn whom(traced: &Traced) -> String {
    match traced {
        Traced::Client(number) => format!("client {}", Id::Client(*number)),
        Traced::Application(name) => format!("application \"{}\"", name.escape_debug()),
        Traced::Database(name) => format!("database \"{}\"", name.escape_debug()),
    }
}

/// The answer when all places for traces are taken.
pub(crate) fn too_many() -> Refusal {
    let text = format!("no more than {TRACERS_MAX} traces at a time");
    Refusal::coded("53400", text)
        .hinted("Another trace has to end first; the log and SHOW EVENTS show who started them.")
}

/// The answer to a trace that an online restart ends.
pub(crate) fn ended_by_restart() -> Refusal {
    Refusal::coded("57P01", "the trace was ended by an online restart")
        .hinted("Connect again, and start another trace in the new process.")
}

/// Formats the command as it is logged.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.traced {
            Traced::Client(number) => write!(f, "TRACE CLIENT {}", Id::Client(*number)),
            Traced::Application(name) => write!(f, "TRACE APPLICATION '{}'", name.escape_debug()),
            Traced::Database(name) => write!(f, "TRACE DATABASE '{}'", name.escape_debug()),
        }?;
        write!(f, " FOR {} SECONDS", self.seconds)
    }
}

const APPLICATION: &str = "APPLICATION";
const DATABASE: &str = "DATABASE";
const KINDS: [&str; 3] = ["CLIENT", APPLICATION, DATABASE];
const UNITS: [&str; 3] = ["SECONDS", "SECOND", "S"];
/// The syntax.
pub(super) const USAGE: &str = "TRACE CLIENT|APPLICATION|DATABASE <name> [FOR <n> [SECONDS]]";
/// The default duration,
const SECONDS: u64 = 60;
/// and the maximum.
const SECONDS_MAX: u64 = 3600;

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(kind: &str, name: Option<&str>, lasts: Option<(&str, Option<&str>)>) -> Result<String, String> {
        let told =
            |refusal: Refusal| format!("{} {}: {}", refusal.sqlstate, refusal.text, refusal.hint.unwrap_or_default());
        hear((kind, name), lasts, || Refusal::new("invalid")).map(|trace| trace.to_string()).map_err(told)
    }

    #[test]
    fn a_client_an_application_or_a_database_is_traced_for_a_while() {
        for (kind, name, lasts, expected) in [
            ("client", "C-0x2A", None, "TRACE CLIENT C-0x2a FOR 60 SECONDS"),
            ("CLIENT", "42", Some(("1", None)), "TRACE CLIENT C-0x2a FOR 1 SECONDS"),
            ("Application", "a'b", Some(("5", Some("second"))), "TRACE APPLICATION 'a\\'b' FOR 5 SECONDS"),
            ("application", "", None, "TRACE APPLICATION '' FOR 60 SECONDS"),
            ("database", "shop", Some(("3600", Some("SECONDS"))), "TRACE DATABASE 'shop' FOR 3600 SECONDS"),
        ] {
            assert_eq!(heard(kind, Some(name), lasts), Ok(expected.to_owned()), "{kind} {name}");
        }
    }

    #[test]
    fn what_is_nearly_right_is_told_what_is_right() {
        let usage = format!("08P01 invalid: {USAGE}");
        let range = |count| {
            Err(format!(
                "22023 TRACE cannot last {count} seconds: A trace lasts from 1 to 3600 seconds, and 60 by default."
            ))
        };
        assert_eq!(heard("clint", Some("C-0x1"), None), Err("08P01 invalid: Did you mean TRACE CLIENT?".to_owned()));
        assert_eq!(heard("databse", None, None), Err("08P01 invalid: Did you mean TRACE DATABASE?".to_owned()));
        assert_eq!(heard("everything", Some("x"), None), Err(usage.clone()));
        assert_eq!(heard("client", None, None), Err(usage.clone()));
        assert_eq!(heard("database", Some(""), None), Err(usage.clone()));
        assert_eq!(heard("database", Some("d"), Some(("soon", None))), Err(usage.clone()));
        assert_eq!(heard("database", Some("d"), Some(("5", Some("minutes")))), Err(usage));
        for count in ["0", "3601", "99999999999999999999999"] {
            assert_eq!(heard("database", Some("d"), Some((count, None))), range(count));
        }
        let refused = heard("client", Some("shop"), None).expect_err("refused");
        assert!(refused.starts_with("08P01 invalid client pointer supplied: A client is named"), "{refused}");
    }
}
