//! A line a second for each path and reader, in the manner of HAtester.
//!
//! Always true: a line tells of the second before it: the server that answered last, or that none did.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::tally::{Member, Members, PRIMARY};

/// The line of a path at `now`.
pub(crate) fn path_line(name: &str, members: &Members, now: Duration, time: &dyn Fn(Duration) -> String) -> String {
    match recent(members, now) {
        Some(member) => format!("{name}: Working with {} Inserted {}", named(member), time(member.last)),
        None => format!("{name}: Trying to connect"),
    }
}

/// The line of a reader at `now`; `newest` is the time in the newest row.
pub(crate) fn reader_line(name: &str, members: &Members, now: Duration, newest: Option<&str>) -> String {
    match recent(members, now) {
        Some(member) => format!("{name}: Working with {} Retrieved {}", named(member), newest.unwrap_or("nothing yet")),
        None => format!("{name}: Trying to connect"),
    }
}

/// A time in microseconds since 1970, as PostgreSQL prints it.
pub(crate) fn timestamp(micros: i64) -> String {
    let time = Timestamp::from_microsecond(micros).unwrap_or_default();
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

fn named(member: &Member) -> String {
    let role = if member.role == PRIMARY { "Primary" } else { "Standby" };
    format!("{role} {}", member.address)
}

fn recent(members: &Members, now: Duration) -> Option<&Member> {
    members.newest().filter(|member| now.saturating_sub(member.last) <= LINE_EVERY)
}

/// The time between two lines.
pub(crate) const LINE_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::tally::STANDBY;
    use super::*;

    #[test]
    fn a_line_names_the_server_of_the_last_second_or_none() {
        let mut members = Members::default();
        let time = |at: Duration| format!("at {}", at.as_millis());
        let s = Duration::from_secs;
        assert_eq!(path_line("A", &members, s(1), &time), "A: Trying to connect");
        members.count("10.0.0.1:5432", PRIMARY, s(1));
        assert_eq!(path_line("A", &members, s(2), &time), "A: Working with Primary 10.0.0.1:5432 Inserted at 1000");
        assert_eq!(path_line("A", &members, s(3), &time), "A: Trying to connect");
        members.count("10.0.0.2:5432", STANDBY, s(3));
        assert_eq!(reader_line("r", &members, s(3), Some("x")), "r: Working with Standby 10.0.0.2:5432 Retrieved x");
    }
}
