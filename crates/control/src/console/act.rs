//! Commands that change something: which there are, and what PgBouncer has and this version has not.
//!
//! Always true: what is understood here is an order that the control thread can carry out.
//! Not here: carrying it out (`control`).

use worker::letters::Shutdown;

/// What an admin may want done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Read everything again.
    Reload,
    /// End the process.
    Shutdown(Shutdown),
}

/// What became of reading a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// It is this order.
    Order(Order),
    /// PgBouncer knows it, this version does not.
    NotYet,
    /// Nobody knows it, or not with this object.
    Unknown,
}

/// Understands a verb and its object.
pub(crate) fn hear(verb: &str, object: Option<&str>) -> Heard {
    let is = |word: &str| verb.eq_ignore_ascii_case(word);
    if LATER.iter().any(|later| is(later)) {
        return Heard::NotYet;
    }
    match object {
        None if is("RELOAD") => Heard::Order(Order::Reload),
        None if is("SHUTDOWN") => Heard::Order(Order::Shutdown(Shutdown::Now)),
        Some(object) if is("SHUTDOWN") => match WAYS.iter().find(|(word, _)| word.eq_ignore_ascii_case(object)) {
            Some((_, way)) => Heard::Order(Order::Shutdown(*way)),
            None => Heard::Unknown,
        },
        _ => Heard::Unknown,
    }
}

impl Order {
    /// The command in its usual writing, for the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reload => "RELOAD",
            Self::Shutdown(Shutdown::Now) => "SHUTDOWN",
            Self::Shutdown(Shutdown::WaitForServers) => "SHUTDOWN WAIT_FOR_SERVERS",
            Self::Shutdown(Shutdown::WaitForClients) => "SHUTDOWN WAIT_FOR_CLIENTS",
        }
    }
}

const WAYS: [(&str, Shutdown); 2] =
    [("WAIT_FOR_SERVERS", Shutdown::WaitForServers), ("WAIT_FOR_CLIENTS", Shutdown::WaitForClients)];

/// The verbs of PgBouncer that this version does not carry out.
const LATER: [&str; 9] =
    ["PAUSE", "RESUME", "SUSPEND", "KILL", "KILL_CLIENT", "DISABLE", "ENABLE", "RECONNECT", "WAIT_CLOSE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_heard_in_any_case_and_only_with_their_own_objects() {
        assert_eq!(hear("reload", None), Heard::Order(Order::Reload));
        assert_eq!(hear("RELOAD", Some("x")), Heard::Unknown);
        assert_eq!(hear("Shutdown", None), Heard::Order(Order::Shutdown(Shutdown::Now)));
        assert_eq!(hear("SHUTDOWN", Some("wait_for_clients")), Heard::Order(Order::Shutdown(Shutdown::WaitForClients)));
        assert_eq!(hear("SHUTDOWN", Some("WAIT_FOR_SERVERS")), Heard::Order(Order::Shutdown(Shutdown::WaitForServers)));
        assert_eq!(hear("SHUTDOWN", Some("now")), Heard::Unknown);
    }

    #[test]
    fn what_is_not_built_is_told_apart_from_nonsense() {
        assert_eq!(hear("pause", Some("db")), Heard::NotYet);
        assert_eq!(hear("KILL_CLIENT", Some("7")), Heard::NotYet);
        assert_eq!(hear("drop", Some("everything")), Heard::Unknown);
    }
}
