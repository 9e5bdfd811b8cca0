//! Commands that change something.
//!
//! Always true: what is understood here is an order that the control thread can carry out.
//! Not here: carrying it out (`orders`).

use std::fmt;
use std::sync::Arc;

use worker::letters::{Shutdown, Whose};

use super::Refusal;

/// What an admin may want done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Read everything again.
    Reload,
    /// End the process.
    Shutdown(Shutdown),
    /// Nobody gets a server; answered when nobody has one.
    Pause(Whose),
    /// Undo that.
    Resume(Whose),
    /// Have all servers replaced.
    Reconnect(Whose),
    /// Wait until none is left that is to be replaced.
    WaitClose(Whose),
    /// Send all clients of databases away, and pause these.
    Kill(Whose),
    /// Send one client away.
    KillClient(u64),
    /// Let nobody new in to a database.
    Disable(Arc<str>),
    /// Undo that.
    Enable(Arc<str>),
    /// Change a setting until the next reload.
    Set {
        /// Which.
        key: String,
        /// To what.
        value: String,
    },
}

/// What became of reading a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// It is this order.
    Order(Order),
    /// PgBouncer knows it, this version does not.
    NotYet,
    /// It lacks something.
    Refused(Refusal),
    /// Nobody knows it, or not with this object.
    Unknown,
}

/// Understands a verb and its object. An object that is an empty name in quotes is none, as in PgBouncer.
pub(crate) fn hear(verb: &str, object: Option<&str>) -> Heard {
    let object = object.filter(|object| !object.is_empty());
    let whose = || object.map(Arc::from);
    let named = |order: fn(Arc<str>) -> Order| match whose() {
        Some(name) => Heard::Order(order(name)),
        None => Heard::Refused(Refusal::new("a database is required")),
    };
    match (&*verb.to_ascii_uppercase(), object) {
        ("RELOAD", None) => Heard::Order(Order::Reload),
        ("SHUTDOWN", None) => Heard::Order(Order::Shutdown(Shutdown::Now)),
        ("SHUTDOWN", Some(object)) => match WAYS.iter().find(|(word, _)| word.eq_ignore_ascii_case(object)) {
            Some((_, way)) => Heard::Order(Order::Shutdown(*way)),
            None => Heard::Unknown,
        },
        ("PAUSE", _) => Heard::Order(Order::Pause(whose())),
        ("RESUME", _) => Heard::Order(Order::Resume(whose())),
        ("RECONNECT", _) => Heard::Order(Order::Reconnect(whose())),
        ("WAIT_CLOSE", _) => Heard::Order(Order::WaitClose(whose())),
        ("KILL", _) => Heard::Order(Order::Kill(whose())),
        ("KILL_CLIENT", object) => match object.and_then(|object| object.parse().ok()) {
            Some(id) => Heard::Order(Order::KillClient(id)),
            None => Heard::Refused(Refusal::new("invalid client pointer supplied")),
        },
        ("DISABLE", _) => named(Order::Disable),
        ("ENABLE", _) => named(Order::Enable),
        ("SUSPEND", None) => Heard::NotYet,
        _ => Heard::Unknown,
    }
}

impl Order {
    /// Its first word, which is also the tag of the answer.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Reload => "RELOAD",
            Self::Shutdown(_) => "SHUTDOWN",
            Self::Pause(_) => "PAUSE",
            Self::Resume(_) => "RESUME",
            Self::Reconnect(_) => "RECONNECT",
            Self::WaitClose(_) => "WAIT_CLOSE",
            Self::Kill(_) => "KILL",
            Self::KillClient(_) => "KILL_CLIENT",
            Self::Disable(_) => "DISABLE",
            Self::Enable(_) => "ENABLE",
            Self::Set { .. } => "SET",
        }
    }
}

/// The command as PgBouncer writes it into its log.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = self.verb();
        match self {
            Self::Shutdown(Shutdown::WaitForServers) => f.write_str("SHUTDOWN WAIT_FOR_SERVERS"),
            Self::Shutdown(Shutdown::WaitForClients) => f.write_str("SHUTDOWN WAIT_FOR_CLIENTS"),
            Self::Pause(Some(name))
            | Self::Resume(Some(name))
            | Self::Reconnect(Some(name))
            | Self::WaitClose(Some(name))
            | Self::Kill(Some(name))
            | Self::Disable(name)
            | Self::Enable(name) => write!(f, "{verb} '{}'", name.escape_debug()),
            Self::KillClient(id) => write!(f, "{verb} {id}"),
            // The value may be a secret.
            Self::Set { key, .. } => write!(f, "{verb} {key}"),
            Self::Reload
            | Self::Shutdown(Shutdown::Now)
            | Self::Pause(None)
            | Self::Resume(None)
            | Self::Reconnect(None)
            | Self::WaitClose(None)
            | Self::Kill(None) => f.write_str(verb),
        }
    }
}

const WAYS: [(&str, Shutdown); 2] =
    [("WAIT_FOR_SERVERS", Shutdown::WaitForServers), ("WAIT_FOR_CLIENTS", Shutdown::WaitForClients)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_heard_in_any_case_and_only_with_their_own_objects() {
        let order = |verb, object| match hear(verb, object) {
            Heard::Order(order) => order,
            other => panic!("{other:?}"),
        };
        assert_eq!(order("reload", None), Order::Reload);
        assert_eq!(hear("RELOAD", Some("x")), Heard::Unknown);
        assert_eq!(order("Shutdown", None), Order::Shutdown(Shutdown::Now));
        assert_eq!(order("SHUTDOWN", Some("wait_for_clients")), Order::Shutdown(Shutdown::WaitForClients));
        assert_eq!(order("SHUTDOWN", Some("WAIT_FOR_SERVERS")), Order::Shutdown(Shutdown::WaitForServers));
        assert_eq!(hear("SHUTDOWN", Some("now")), Heard::Unknown);
        assert_eq!(order("pause", None), Order::Pause(None));
        assert_eq!(order("pause", Some("")), Order::Pause(None));
        assert_eq!(order("Resume", Some("Db")), Order::Resume(Some("Db".into())));
        assert_eq!(order("kill_client", Some("17")), Order::KillClient(17));
        assert_eq!(hear("SUSPEND", None), Heard::NotYet);
        assert_eq!(hear("drop", Some("everything")), Heard::Unknown);
    }

    #[test]
    fn what_an_order_lacks_is_said() {
        for (verb, object, text) in [
            ("DISABLE", None, "a database is required"),
            ("enable", Some(""), "a database is required"),
            ("KILL_CLIENT", None, "invalid client pointer supplied"),
            ("KILL_CLIENT", Some("0x7f"), "invalid client pointer supplied"),
        ] {
            assert_eq!(hear(verb, object), Heard::Refused(Refusal::new(text)), "{verb}");
        }
    }

    #[test]
    fn an_order_is_logged_as_pgbouncer_logs_it() {
        let text = |order: Order| order.to_string();
        assert_eq!(text(Order::Pause(None)), "PAUSE");
        assert_eq!(text(Order::Kill(Some("shop".into()))), "KILL 'shop'");
        assert_eq!(text(Order::Enable("a\nb".into())), "ENABLE 'a\\nb'");
        assert_eq!(text(Order::KillClient(7)), "KILL_CLIENT 7");
        assert_eq!(text(Order::Set { key: "auth_query".into(), value: "x".into() }), "SET auth_query");
        assert_eq!(text(Order::Shutdown(Shutdown::WaitForServers)), "SHUTDOWN WAIT_FOR_SERVERS");
    }
}
