//! Commands that change something.
//!
//! Always true: whatever is parsed here is an order that the control thread can carry out.
//! Not here: carrying it out (`orders`).

use std::fmt;
use std::sync::Arc;

use base::Id;
use worker::letters::{Shutdown, Traced, Whose};

use super::pause::{Hold, Pause};
use super::trace::Trace;
use super::{Refusal, pause, trace};

/// An order of an admin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Read everything again.
    Reload,
    /// End the process.
    Shutdown(Shutdown),
    /// Give no servers to clients; answered when no server is lent.
    Pause(Pause),
    /// End a pause.
    Resume(Whose),
    /// Hold the clients of a database; answered when no server is lent.
    Hold(Hold),
    /// End a hold.
    Release(Arc<str>),
    /// Make another member of a cluster its primary; answered when it is.
    Switchover {
        /// The cluster; not needed if there is only one.
        cluster: Option<Arc<str>>,
        /// The member, by its host and port or its name for Patroni; `None` for the one that has received most.
        to: Option<Arc<str>>,
    },
    /// Suspend all workers; answered when they are suspended.
    Suspend,
    /// Hand everything over to a new process that uses this version of the dialogue.
    Takeover(u64),
    /// Replace all servers.
    Reconnect(Whose),
    /// Wait until no server is left that is to be replaced.
    WaitClose(Whose),
    /// Close all clients of databases, and pause the databases.
    Kill(Whose),
    /// Close one client.
    KillClient(u64),
    /// Report what happens to clients; answered when the trace ends.
    Trace(Trace),
    /// Reject new clients of a database.
    Disable(Arc<str>),
    /// Accept new clients of a database again.
    Enable(Arc<str>),
    /// Change a setting until the next reload.
    Set {
        /// The setting.
        key: String,
        /// The value.
        value: String,
    },
}

/// The result of parsing a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// The order.
    Order(Order),
    /// It is incomplete.
    Refused(Refusal),
    /// It is unknown, or does not take this object.
    Unknown,
}

/// Parses a verb and its object. As in PgBouncer, an empty quoted name counts as no object.
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
        ("PAUSE", _) => Heard::Order(Order::Pause(Pause::until_resume(whose()))),
        ("RESUME", _) => Heard::Order(Order::Resume(whose())),
        ("HOLD", _) => match whose() {
            Some(name) => Heard::Order(Order::Hold(Hold { name, seconds: None })),
            None => Heard::Refused(Refusal::new("a database is required").hinted(pause::HOLD_USAGE)),
        },
        ("RELEASE", _) => named(Order::Release),
        ("SWITCHOVER", _) => Heard::Order(Order::Switchover { cluster: whose(), to: None }),
        ("RECONNECT", _) => Heard::Order(Order::Reconnect(whose())),
        ("WAIT_CLOSE", _) => Heard::Order(Order::WaitClose(whose())),
        ("KILL", _) => Heard::Order(Order::Kill(whose())),
        ("KILL_CLIENT", object) => match object.and_then(client_number) {
            Some(id) => Heard::Order(Order::KillClient(id)),
            None => Heard::Refused(Refusal::new("invalid client pointer supplied")),
        },
        ("DISABLE", _) => named(Order::Disable),
        ("ENABLE", _) => named(Order::Enable),
        ("TAKEOVER", Some(object)) => match object.parse() {
            Ok(version) => Heard::Order(Order::Takeover(version)),
            Err(_) => Heard::Unknown,
        },
        ("SUSPEND", None) => Heard::Order(Order::Suspend),
        _ => Heard::Unknown,
    }
}

impl Order {
    /// Returns the database that the order is about, if any.
    pub(crate) fn database(&self) -> Whose {
        match self {
            Self::Pause(Pause { whose, .. })
            | Self::Resume(whose)
            | Self::Reconnect(whose)
            | Self::WaitClose(whose)
            | Self::Kill(whose) => whose.clone(),
            Self::Disable(name)
            | Self::Enable(name)
            | Self::Release(name)
            | Self::Hold(Hold { name, .. })
            | Self::Trace(Trace { traced: Traced::Database(name), .. }) => Some(name.clone()),
            Self::Reload
            | Self::Shutdown(_)
            | Self::Suspend
            | Self::Takeover(_)
            | Self::KillClient(_)
            | Self::Trace(_)
            | Self::Switchover { .. }
            | Self::Set { .. } => None,
        }
    }

    /// Returns the first word, which is also the tag of the CommandComplete.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Reload => "RELOAD",
            Self::Shutdown(_) => "SHUTDOWN",
            Self::Pause(_) => "PAUSE",
            Self::Resume(_) => "RESUME",
            Self::Hold(_) => "HOLD",
            Self::Release(_) => "RELEASE",
            Self::Switchover { .. } => "SWITCHOVER",
            Self::Suspend => "SUSPEND",
            Self::Takeover(_) => "TAKEOVER",
            Self::Reconnect(_) => "RECONNECT",
            Self::WaitClose(_) => "WAIT_CLOSE",
            Self::Kill(_) => "KILL",
            Self::KillClient(_) => "KILL_CLIENT",
            Self::Trace(_) => "TRACE",
            Self::Disable(_) => "DISABLE",
            Self::Enable(_) => "ENABLE",
            Self::Set { .. } => "SET",
        }
    }
}

/// Formats the command as PgBouncer logs it.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = self.verb();
        match self {
            Self::Shutdown(Shutdown::WaitForServers) => f.write_str("SHUTDOWN WAIT_FOR_SERVERS"),
            Self::Shutdown(Shutdown::WaitForClients) => f.write_str("SHUTDOWN WAIT_FOR_CLIENTS"),
            Self::Pause(pause) => write!(f, "{pause}"),
            Self::Hold(hold) => write!(f, "{hold}"),
            Self::Switchover { cluster, to } => {
                f.write_str(verb)?;
                if let Some(name) = cluster {
                    write!(f, " '{}'", name.escape_debug())?;
                }
                to.as_ref().map_or(Ok(()), |to| write!(f, " TO '{}'", to.escape_debug()))
            }
            Self::Resume(Some(name))
            | Self::Reconnect(Some(name))
            | Self::WaitClose(Some(name))
            | Self::Kill(Some(name))
            | Self::Release(name)
            | Self::Disable(name)
            | Self::Enable(name) => write!(f, "{verb} '{}'", name.escape_debug()),
            Self::KillClient(number) => write!(f, "{verb} {}", Id::Client(*number)),
            Self::Takeover(number) => write!(f, "{verb} {number}"),
            Self::Trace(trace) => write!(f, "{trace}"),
            // The value may be a secret.
            Self::Set { key, .. } => write!(f, "{verb} {key}"),
            Self::Reload
            | Self::Shutdown(Shutdown::Now)
            | Self::Resume(None)
            | Self::Suspend
            | Self::Reconnect(None)
            | Self::WaitClose(None)
            | Self::Kill(None) => f.write_str(verb),
        }
    }
}

/// The documentation of an order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its syntax.
    pub(crate) usage: &'static str,
    /// What it does, and when it is answered.
    pub(crate) doc: &'static str,
}

/// All orders, in the order of the help.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        usage: "SET key = arg",
        doc: "Changes a setting until the next reload. `SET rate_limits.NAME = '...'` makes or replaces the rate limit of that name, and with `''` removes it. A notice says if only a restart would change the setting. `SET` of parameters that drivers set in every session, such as `client_encoding`, `timezone`, `extra_float_digits` or `application_name`, is accepted from every user and ignored; from `stats_users`, so is `SET` of any key that is not one of our settings.",
    },
    Entry {
        usage: "RELOAD",
        doc: "Reads the configuration, the users, the rules and the certificates again, and reopens the log file. If there is a mistake, nothing changes and the command fails with `F0000`.",
    },
    Entry {
        usage: pause::USAGE,
        doc: "Stops lending servers to clients of one database, or of all. Completes when no server is in use. With `FOR` the pause ends by itself after `n` seconds (86400 at most), also if the console that ordered it has gone; a `PAUSE` that is not complete by then fails. `SHOW DATABASES EXTENDED` shows when. The last `PAUSE` or `KILL` of a database counts.",
    },
    Entry { usage: "RESUME [<db>]", doc: "Ends a pause." },
    Entry {
        usage: pause::HOLD_USAGE,
        doc: "Holds the clients of a database while its primary restarts or changes: new transactions wait, open ones end. Completes when no server is in use. The hold ends by `RELEASE`, or by itself after `n` seconds (600 at most; the `hold_timeout` of its cluster, or 30), also if the console that ordered it has gone.",
    },
    Entry {
        usage: "RELEASE <db>",
        doc: "Ends a hold; also that of a [switchover that Patroni was told for a time](../operating/high-availability.md#a-planned-switchover), which holds all databases of its cluster, and is released by the cluster's name as well.",
    },
    Entry {
        usage: SWITCHOVER_USAGE,
        doc: "Makes another member of a cluster its primary, while clients are held: a checkpoint, the end of open transactions, the replay of all that was written, then Patroni's switchover, or `demote_command` and a promotion. Completes when the new primary accepts writes; if a step fails, clients go on at whichever host proves to be the primary. Without a member, the one that has received most of the log is taken. A cancel request gives up, unless `demote_command` runs already. See [High availability](../operating/high-availability.md#a-planned-switchover).",
    },
    Entry {
        usage: "SUSPEND",
        doc: "Suspends everything: no client is accepted, no request is read, and output that is due is sent. Completes when nothing is under way, or after `suspend_timeout`. `RESUME` ends it.",
    },
    Entry { usage: "DISABLE <db>", doc: "Refuses new clients of a database; its connected clients go on." },
    Entry { usage: "ENABLE <db>", doc: "Accepts new clients of a database again." },
    Entry {
        usage: "RECONNECT [<db>]",
        doc: "Replaces all servers of one database, or of all: idle servers at once, lent ones when they are given back.",
    },
    Entry {
        usage: "KILL [<db>]",
        doc: "Closes all clients and servers of a database, or of all databases in use, and pauses these; `RESUME` accepts clients again.",
    },
    Entry {
        usage: "KILL_CLIENT <client_id>",
        doc: "Closes one client, named by its `id` in `SHOW CLIENTS`, or as in the log and in every table: `C-0x1f`.",
    },
    Entry {
        usage: trace::USAGE,
        doc: "Shows what happens to one client, to the clients with this `application_name`, or to those of a database, as it happens: one `INFO` message for each event, which psql prints at once. Ends after `n` seconds (60 by default, 3600 at most), with a cancel request (Ctrl-C), when the traced client disconnects, or after 100,000 lines; the command tag has the number of lines. See [Tracing](../operating/watching.md#tracing).",
    },
    Entry { usage: "WAIT_CLOSE [<db>]", doc: "Waits until all servers that are to be replaced have been closed." },
    Entry { usage: "SHUTDOWN", doc: "Ends the process at once, without an answer." },
    Entry {
        usage: "SHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS",
        doc: "Ends the process when all servers have been given back, or when all clients have disconnected.",
    },
];

/// The syntax.
pub(super) const SWITCHOVER_USAGE: &str = "SWITCHOVER [<cluster>] [TO <member>]";

const WAYS: [(&str, Shutdown); 2] =
    [("WAIT_FOR_SERVERS", Shutdown::WaitForServers), ("WAIT_FOR_CLIENTS", Shutdown::WaitForClients)];

/// Parses the number of a client: the `id` of `SHOW CLIENTS`, as in PgBouncer, or its name in the log.
pub(super) fn client_number(text: &str) -> Option<u64> {
    Id::client_number(text).or_else(|| text.parse().ok())
}

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
        assert_eq!(order("pause", None), Order::Pause(Pause::until_resume(None)));
        assert_eq!(order("pause", Some("")), Order::Pause(Pause::until_resume(None)));
        assert_eq!(order("Resume", Some("Db")), Order::Resume(Some("Db".into())));
        assert_eq!(order("kill_client", Some("17")), Order::KillClient(17));
        assert_eq!(order("kill_client", Some("C-0x1F")), Order::KillClient(31));
        assert_eq!(order("kill_client", Some("31")).to_string(), "KILL_CLIENT C-0x1f", "as everywhere else in the log");
        assert_eq!(order("suspend", None), Order::Suspend);
        assert_eq!(hear("SUSPEND", Some("db")), Heard::Unknown);
        assert_eq!(hear("drop", Some("everything")), Heard::Unknown);
    }

    #[test]
    fn what_an_order_lacks_is_said() {
        for (verb, object, text) in [
            ("DISABLE", None, "a database is required"),
            ("enable", Some(""), "a database is required"),
            ("KILL_CLIENT", None, "invalid client pointer supplied"),
            ("KILL_CLIENT", Some("0x7f"), "invalid client pointer supplied"),
            ("KILL_CLIENT", Some("C-7f"), "invalid client pointer supplied"),
        ] {
            assert_eq!(hear(verb, object), Heard::Refused(Refusal::new(text)), "{verb}");
        }
    }

    #[test]
    fn an_order_is_logged_as_pgbouncer_logs_it() {
        let text = |order: Order| order.to_string();
        assert_eq!(text(Order::Pause(Pause::until_resume(None))), "PAUSE");
        assert_eq!(text(Order::Kill(Some("shop".into()))), "KILL 'shop'");
        assert_eq!(text(Order::Enable("a\nb".into())), "ENABLE 'a\\nb'");
        assert_eq!(text(Order::KillClient(7)), "KILL_CLIENT C-0x7");
        assert_eq!(text(Order::Set { key: "auth_query".into(), value: "x".into() }), "SET auth_query");
        assert_eq!(text(Order::Shutdown(Shutdown::WaitForServers)), "SHUTDOWN WAIT_FOR_SERVERS");
    }
}
