//! A line of `TRACE`, read again (docs/operating/watching.md#tracing).
//!
//! Always true: what is not understood is nothing, never something else; the time is linear in the line.
//! Not here: what the lines of a session mean together (`recorder`).

use std::time::Duration;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TraceLine<'l> {
    /// The time of day, in microseconds.
    pub(super) at: u64,
    /// The client, as in every table: `C-0x2a`.
    pub(super) client: &'l str,
    pub(super) what: TraceEvent<'l>,
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TraceEvent<'l> {
    LoggedIn {
        user: &'l str,
        application: &'l str,
    },
    /// The server gets a request: the kinds of its messages, and the statement, if it has one.
    Requested {
        kinds: &'l str,
        text: &'l str,
    },
    /// SQLSTATE of an error.
    Failed(&'l str),
    Completed {
        took: Duration,
        rows: u64,
        /// `idle`, `in transaction`, `in failed transaction`.
        status: &'l str,
    },
    Left,
    /// Something that a recording does not keep.
    Other,
}

impl<'l> TraceLine<'l> {
    /// Reads a line: `07:10:31.776805 C-0x2a S-0x3 request: Query, 39 bytes: select 1`.
    pub(super) fn read(line: &'l str) -> Option<Self> {
        let (at, rest) = line.split_once(' ')?;
        let at = time_of_day(at)?;
        let (client, rest) = rest.split_once(' ')?;
        client.strip_prefix("C-")?;
        let words = match rest.strip_prefix("S-") {
            Some(server) => server.split_once(' ')?.1,
            None => rest,
        };
        Some(Self { at, client, what: TraceEvent::read(words) })
    }
}

impl<'l> TraceEvent<'l> {
    fn read(words: &'l str) -> Self {
        Self::understood(words).unwrap_or(Self::Other)
    }

    fn understood(words: &'l str) -> Option<Self> {
        if let Some(request) = words.strip_prefix("request: ") {
            let (kinds, rest) = request.split_once(", ")?;
            let (_, text) = rest.split_once(" bytes")?;
            return Some(Self::Requested { kinds, text: text.strip_prefix(": ").unwrap_or_default() });
        }
        if let Some(answer) = words.strip_prefix("completed after ") {
            let (took, rest) = answer.split_once(" ms: ")?;
            let (rows, rest) = rest.split_once(" row")?;
            let status = rest.rsplit(", ").next()?;
            return Some(Self::Completed { took: millis(took)?, rows: rows.parse().ok()?, status });
        }
        if let Some(error) = words.strip_prefix("error ") {
            let code = error.get(..5)?;
            return code.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some(Self::Failed(code));
        }
        if let Some(login) = words.strip_prefix("login: ") {
            let (who, rest) = login.split_once(", application \"")?;
            let (application, _) = rest.rsplit_once("\", from ")?;
            return Some(Self::LoggedIn { user: who.rsplit_once('/')?.1, application });
        }
        words.starts_with("client left").then_some(Self::Left)
    }
}

/// How many lines this one says were dropped.
pub(super) fn dropped(line: &str) -> Option<u64> {
    let (count, words) = line.split_once(' ')?;
    (words.starts_with("happening") && words.ends_with("dropped")).then(|| count.parse().ok())?
}

/// Microseconds since midnight.
fn time_of_day(text: &str) -> Option<u64> {
    let (clock, micros) = text.split_once('.')?;
    let mut parts = clock.split(':').map(|part| part.parse::<u64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = parts.next().is_none() && hours < 24 && minutes < 60 && seconds < 61 && micros.len() == 6;
    let micros: u64 = micros.parse().ok()?;
    is_time.then_some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
}

fn millis(text: &str) -> Option<Duration> {
    let (whole, part) = text.split_once('.')?;
    let (whole, part): (u64, u64) = (whole.parse().ok()?, part.parse().ok()?);
    Some(Duration::from_micros(whole.checked_mul(1000)?.checked_add(part)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(words: &str) -> TraceEvent<'_> {
        TraceLine::read(words).expect("a line").what
    }

    #[test]
    fn the_lines_of_the_documentation_are_read() {
        let line = TraceLine::read("07:10:31.776805 C-0x2a S-0x3 request: Query, 39 bytes: select 1").expect("a line");
        assert_eq!((line.at, line.client), (25_831_776_805, "C-0x2a"));
        assert_eq!(line.what, TraceEvent::Requested { kinds: "Query", text: "select 1" });
        assert_eq!(
            what("07:10:31.778001 C-0x2a S-0x3 completed after 1.196 ms: 1 row, 64 bytes, in transaction"),
            TraceEvent::Completed { took: Duration::from_micros(1196), rows: 1, status: "in transaction" }
        );
        assert_eq!(
            what("07:10:31.778001 C-0x2a S-0x3 error 42P01: relation ? does not exist"),
            TraceEvent::Failed("42P01")
        );
    }

    #[test]
    fn a_login_names_its_user_and_application() {
        assert_eq!(
            what("07:10:31.764031 C-0x2a login: shop/u/v, application \"a \", from b\", from 10.0.0.1:5"),
            TraceEvent::LoggedIn { user: "v", application: "a \", from b" }
        );
        assert_eq!(what("07:10:31.764031 C-0x2a client left: client close request"), TraceEvent::Left);
        assert_eq!(what("07:10:31.764031 C-0x2a server given back"), TraceEvent::Other);
    }

    #[test]
    fn a_request_without_a_text_has_none() {
        assert_eq!(
            what("07:10:31.764031 C-0x2a S-0x1 request: Sync, 5 bytes"),
            TraceEvent::Requested { kinds: "Sync", text: "" }
        );
    }

    #[test]
    fn what_is_no_line_is_nothing() {
        for line in [
            "",
            "tracing database shop for 60 s",
            "25:00:00.000000 C-0x1 x",
            "07:10:31.7 C-0x1 x",
            "07:10:31.764031 x y",
        ] {
            assert_eq!(TraceLine::read(line), None, "{line}");
        }
        assert_eq!(dropped("1 happening more than can be told was dropped"), Some(1));
        assert_eq!(dropped("812 happenings more than can be told were dropped"), Some(812));
        assert_eq!(dropped("07:10:31.764031 C-0x1 S-0x2 request: Query, 5 bytes: 1 happening dropped"), None);
    }
}
