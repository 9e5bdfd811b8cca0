//! The errors that a client reads from the pooler: text, SQLSTATE, DETAIL and HINT.
//!
//! Always true: everything that a client is told of a fault comes from [`Fault::verdict`]; no text contains a secret.
//! Not here: the faults, each with its text and code (`catalog`); errors of a server, which are passed on whole.

mod catalog;
mod ended_by;
mod shape;
mod unserved;

pub use catalog::{CATALOG, Fault};
pub use ended_by::EndedBy;
pub use shape::Entry;
pub use unserved::{Unserved, WaitCause};

use std::borrow::Cow;
use std::sync::Arc;

use base::counted;
use wire::write::{self, Says};

use crate::prepared::HELD_BYTES_MAX;

/// Who is to blame when a client cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    /// The client's own.
    Client,
    /// The server's, or the network's on the way to it.
    Server,
    /// The operator's: limits, timeouts, console commands.
    Operator,
    /// Ours.
    Ours,
}

/// The error as the client reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The SQLSTATE, five characters.
    pub sqlstate: Cow<'static, str>,
    /// The primary message.
    pub text: Cow<'static, str>,
    /// The DETAIL, with numbers.
    pub detail: Option<String>,
    /// The HINT: what can be done.
    pub hint: Option<Cow<'static, str>>,
}

impl Fault {
    /// The error with which a server refused a login.
    #[must_use]
    pub fn server_said(sqlstate: [u8; 5], text: impl Into<Arc<str>>) -> Self {
        Self::ServerSaid { sqlstate, text: text.into(), detail: None, hint: None, whose: None }
    }

    /// The text, SQLSTATE, DETAIL and HINT of this fault.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let sqlstate = match self {
            Self::ServerSaid { sqlstate, .. } | Self::ReplicationRefused { sqlstate, .. } => {
                Cow::Owned(String::from_utf8_lossy(sqlstate).into_owned())
            }
            _ => Cow::Borrowed(self.sqlstate()),
        };
        Verdict { sqlstate, text: self.text(), detail: self.detail(), hint: self.hint() }
    }

    /// The DETAIL for the log as well, where the text alone would mislead.
    #[must_use]
    pub fn logged_detail(&self) -> Option<String> {
        match self {
            Self::QueryWaitTimeout { .. }
            | Self::QueryTimeoutWaiting { .. }
            | Self::ServerSaid { .. }
            | Self::ServerLoginFailing { .. }
            | Self::LoginTimeoutServerDown { .. }
            | Self::DatabaseRemoved { .. }
            | Self::ConfigurationChanged { .. } => self.detail(),
            _ => None,
        }
    }

    /// The DETAIL: causes and numbers beyond the text.
    fn detail(&self) -> Option<String> {
        Some(match self {
            Self::ServerSaid { detail, whose, .. } | Self::ServerLoginFailing { detail, whose, .. } => {
                login_detail(whose.as_deref(), detail.as_deref())?
            }
            Self::ClientsFull { limit } | Self::DatabaseClientsFull { limit } | Self::UserClientsFull { limit } => {
                format!("The limit is {limit} and all of them are connected.")
            }
            Self::UnauthenticatedFull => {
                "The youngest connections from the address with most of them are closed first.".to_owned()
            }
            Self::HashingFull => "Hashing a password takes as many iterations as its SCRAM secret has.".to_owned(),
            Self::LoginRateExceeded { limit, .. } | Self::TransactionRateExceeded { limit, .. } => {
                format!("The limit is {limit}.")
            }
            Self::QueryWaitTimeout { secs, why } | Self::QueryTimeoutWaiting { secs, why } => {
                why.as_ref()?.detail(*secs)
            }
            Self::LoginTimeoutServerDown { cause: Some(cause) } => {
                format!("The last attempt to reach the server ended with: {cause}")
            }
            Self::DatabaseRemoved { by } => by.of_database().to_owned(),
            Self::ConfigurationChanged { by } => by.of_server().to_owned(),
            Self::PrimaryLeft { host } => format!("The session was at host {host}."),
            Self::OutcomeUnknown { host } => {
                format!("It was at host {host}. The request may have been carried out, or not.")
            }
            Self::HandedOver => "This connection could not be handed over to the new process.".to_owned(),
            Self::ReplicationRefused { text, .. } => format!("The server said: {text}"),
            Self::StatementUnknown { name } | Self::StatementInUse { name } => format!("The name is \"{name}\"."),
            Self::StatementsFull => format!(
                "All clients of a worker may hold {} MiB together, or its share of a quarter of the memory that the control group allows.",
                HELD_BYTES_MAX >> 20
            ),
            Self::ClientMemoryFull { limit, held } => format!("The client holds {held} bytes, and may hold {limit}."),
            Self::ShutdownTimeout { secs } => format!("The shutdown has waited for {}.", counted(*secs, "second")),
            Self::StateUnread { secs } => {
                format!("The server did not answer within {} (server_mend_timeout).", counted(*secs, "second"))
            }
            Self::NotificationsLost => {
                "The server that listens for all clients has ended, or too many notifications waited.".to_owned()
            }
            Self::PinsFull { limit, what } => {
                let servers = counted(*limit, "server");
                format!("Clients keep {servers} of this pool, and this one would keep one more: {what}.")
            }
            Self::InvalidServerParameter { why } => format!("The server said: {why}"),
            Self::PinnedTooLong { secs, what } => {
                format!("For {} the session has held: {what}.", counted(*secs, "second"))
            }
            _ => return None,
        })
    }

    /// The HINT: what the client or its operator may do.
    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::ServerSaid { hint, .. } | Self::ServerLoginFailing { hint, .. } => {
                return hint.as_deref().map(|hint| Cow::Owned(hint.to_owned()));
            }
            Self::LoginRateExceeded { millis, .. } | Self::TransactionRateExceeded { millis, .. } => {
                return Some(format!("Try again in {millis} ms.").into());
            }
            Self::HoldRefused { kind } => kind.instead(),
            Self::HoldFull { .. } => "Try again in some seconds.",
            Self::DescriptorsFull => {
                "Raise the limit of open files (ulimit -n) of the pooler, or lower max_client_conn."
            }
            Self::ProxyHeaderMissing => {
                "Have the proxy send the header (send-proxy-v2 in HAProxy), or remove its address from proxy_protocol_from."
            }
            Self::UnauthenticatedFull => "Try again later, or raise max_unauthenticated_connections.",
            Self::HashingFull => "Try again later, or have clients log in by scram-sha-256.",
            Self::SystemUsersFull => "Try again later, or find out why the system is slow to name its users.",
            Self::QueryWaitTimeout { why, .. } | Self::QueryTimeoutWaiting { why, .. } => why.as_ref()?.hint(),
            Self::TransactionInStatementMode => "Use pool_mode transaction or session for transaction blocks.",
            Self::ReplicationUnknown { .. } => "Valid values are: \"false\", 0, \"true\", 1, \"database\".",
            Self::TargetUnknown { .. } => {
                "Valid values are: any, read-write, read-only, primary, standby, prefer-standby."
            }
            Self::TargetOneHost { .. } => {
                "Connect without it, or with \"any\" or \"prefer-standby\"; several hosts or cluster= on the line of the database give it a choice."
            }
            Self::StatementsFull => "Close statements that are not needed, or prepare fewer different texts.",
            Self::ClientMemoryFull { .. } => "Close prepared statements that are not needed, or prepare shorter texts.",
            Self::ShutdownTimeout { .. } | Self::PrimaryLeft { .. } => "Connect again.",
            Self::OutcomeUnknown { .. } => {
                "Connect again, and find out whether it was carried out before you repeat it."
            }
            Self::StateUnread { .. } => {
                "Connect again. Another session may have locked a system catalog: look in pg_locks."
            }
            Self::AnswerTooLong => {
                "Connect again. The log names the host: check that it is PostgreSQL, and what the session holds there."
            }
            Self::NotificationsLost => "Connect again, LISTEN again, and check what the notifications are about.",
            Self::PinsFull { .. } => "SHOW PINS on the console shows which clients keep them, and why.",
            Self::InvalidServerParameter { .. } => {
                "Check the settings of the session, in its startup packet and later ones."
            }
            Self::StatementsLost | Self::StateLost => {
                "Send the Sync that ends a COPY after its CopyDone, and wait for the answer."
            }
            _ => return None,
        };
        Some(hint.into())
    }

    /// Appends the `ErrorResponse` for the client, with severity FATAL.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_as("FATAL", out);
    }

    /// Appends it with severity ERROR, for a client that stays connected.
    pub fn write_and_go_on(&self, out: &mut Vec<u8>) {
        self.write_as("ERROR", out);
    }

    fn write_as(&self, severity: &str, out: &mut Vec<u8>) {
        let verdict = self.verdict();
        write::error(
            out,
            Says {
                severity,
                sqlstate: &verdict.sqlstate,
                message: &verdict.text,
                detail: verdict.detail.as_deref(),
                hint: verdict.hint.as_deref(),
            },
        );
    }
}

/// Puts the pooler's own login before the server's DETAIL: a server's error about a login reads as if it were about the
/// client's.
fn login_detail(whose: Option<&str>, detail: Option<&str>) -> Option<String> {
    let whose = whose.map(|whose| format!("This is about the pooler's own login at {whose}."));
    let both = whose.iter().map(String::as_str).chain(detail).collect::<Vec<_>>();
    (!both.is_empty()).then(|| both.join(" "))
}

/// The table of all these errors for the reference page, in Markdown.
#[must_use]
pub fn reference() -> String {
    let head = "| code | text | when | whose fault |\n|---|---|---|---|\n";
    let row = |entry: &Entry| {
        let (code, text) = match entry.sqlstate {
            SERVERS_OWN if entry.text == "{text}" => ("the server's".to_owned(), "the server's".to_owned()),
            SERVERS_OWN => ("the server's".to_owned(), format!("`{}`", entry.text)),
            code => (format!("`{code}`"), format!("`{}`", entry.text)),
        };
        let blame = match entry.blame {
            Blame::Client => "the client's",
            Blame::Server => "the server's",
            Blame::Operator => "the operator's",
            Blame::Ours => "ours",
        };
        format!("| {code} | {text} | {} | {blame} |\n", entry.doc.trim())
    };
    CATALOG.iter().map(row).fold(head.to_owned(), |page, row| page + &row)
}

/// The SQLSTATE that PgBouncer uses for nearly everything.
pub const PROTOCOL_VIOLATION: &str = "08P01";
const ADMIN_SHUTDOWN: &str = "57P01";
/// The SQLSTATE comes from the server.
const SERVERS_OWN: &str = "";
const CONNECTION_FAILURE: &str = "08006";
const FEATURE_NOT_SUPPORTED: &str = "0A000";
/// The SQLSTATE with which PostgreSQL ends a session that was idle for too long.
pub const IDLE_SESSION_TIMEOUT: &str = "57P05";
const OUT_OF_MEMORY: &str = "53200";
const CANNOT_CONNECT_NOW: &str = "57P03";
const TOO_MANY_CONNECTIONS: &str = "53300";
const CONFIGURATION_LIMIT_EXCEEDED: &str = "53400";
const INVALID_PARAMETER_VALUE: &str = "22023";
const TRANSACTION_RESOLUTION_UNKNOWN: &str = "08007";

#[cfg(test)]
mod tests {
    use super::*;
    use wire::notice::Notice;

    #[test]
    fn a_client_reads_severity_code_and_text() {
        let mut out = Vec::new();
        Fault::NoSuchDatabase { name: "shop".into() }.write(&mut out);
        let notice = Notice::parse(&out[5..]);
        assert_eq!((notice.severity.as_str(), notice.sqlstate.as_str()), ("FATAL", "08P01"));
        assert_eq!(notice.message, "no such database: shop");
    }

    #[test]
    fn a_shutdown_that_has_waited_long_enough_says_so() {
        let verdict = Fault::ShutdownTimeout { secs: 30 }.verdict();
        assert_eq!((&*verdict.sqlstate, &*verdict.text), ("57P01", "pooler is shutting down (shutdown_timeout)"));
        assert_eq!(verdict.detail.as_deref(), Some("The shutdown has waited for 30 seconds."));
    }

    #[test]
    fn what_the_server_said_keeps_its_code() {
        let said = Fault::ServerSaid {
            sqlstate: *b"53300",
            text: "sorry, too many clients already".into(),
            detail: Some("It has 3.".into()),
            hint: Some("Come later.".into()),
            whose: Some("host db1, port 5432, user \"u\"".into()),
        };
        let verdict = said.verdict();
        let detail = "This is about the pooler's own login at host db1, port 5432, user \"u\". It has 3.";
        assert_eq!((&*verdict.sqlstate, verdict.detail.as_deref()), ("53300", Some(detail)));
        assert_eq!(verdict.hint.as_deref(), Some("Come later."));
        assert_eq!(said.text(), "sorry, too many clients already");
        assert_eq!(said.blame(), Blame::Server);
    }

    #[test]
    fn a_full_limit_tells_its_number() {
        let full = Fault::ClientsFull { limit: 100 };
        assert_eq!(full.text(), "no more connections allowed (max_client_conn)");
        assert!(full.verdict().detail.expect("a detail").contains("100"));
    }

    /// Drivers and scripts match on these words, and operators search for them: a change must be made here too.
    #[test]
    #[allow(clippy::too_many_lines)] // One line for each fault.
    fn every_fault_has_its_words_its_code_and_who_is_to_blame() {
        use Blame::{Client, Operator, Ours, Server};
        let name = || "x".into();
        let text: Arc<str> = "why".into();
        let table: [(Fault, Blame, &str, &str); 85] = [
            (Fault::OldProtocol, Client, "08P01", "old V2 protocol not supported"),
            (
                Fault::UnknownProtocol { major: 4 },
                Client,
                "08P01",
                "unsupported frontend protocol 4: server supports 3.0 to 3.2",
            ),
            (Fault::NoUser, Client, "08P01", "no username supplied"),
            (Fault::UserTooLong, Client, "08P01", "username too long"),
            (
                Fault::StartupTerminator,
                Client,
                "08P01",
                "invalid startup packet layout: expected terminator as last byte",
            ),
            (Fault::StartupLayout, Client, "08P01", "invalid startup packet layout"),
            (Fault::StartupEncoding, Client, "08P01", "startup parameters must be valid UTF-8"),
            (Fault::StartupParameter { name: name() }, Client, "08P01", "unsupported startup parameter: x"),
            (
                Fault::OptionsFlag,
                Client,
                "08P01",
                "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed",
            ),
            (Fault::OptionsParameter { name: name() }, Client, "08P01", "unsupported startup parameter in options: x"),
            (
                Fault::UnencryptedAfter { request: "SSL request" },
                Client,
                "08P01",
                "received unencrypted data after SSL request",
            ),
            (
                Fault::ReplicationUnknown { value: "sure".into() },
                Client,
                "22023",
                "invalid value for parameter \"replication\": \"sure\"",
            ),
            (
                Fault::TargetUnknown { value: "x".into() },
                Client,
                "22023",
                "invalid value for parameter \"trunkline.target_session_attrs\": \"x\"",
            ),
            (
                Fault::TargetConfigured { name: "x:any".into() },
                Client,
                "22023",
                "database \"x:any\" is configured: connect to it, without trunkline.target_session_attrs",
            ),
            (
                Fault::TargetOneHost { name: name() },
                Client,
                "22023",
                "database \"x\" has one host: trunkline.target_session_attrs has nothing to choose from",
            ),
            (Fault::PasswordBeforeStartup, Client, "08P01", "client password pkt before startup packet"),
            (Fault::PasswordWrong, Client, "08P01", "password authentication failed"),
            (Fault::SaslWrong, Client, "08P01", "SASL authentication failed"),
            (Fault::SaslMechanism, Client, "08P01", "client selected an invalid SASL authentication mechanism"),
            (Fault::PasswordEmpty, Client, "08P01", "empty password returned by client"),
            (Fault::TlsRequired, Client, "08P01", "SSL required"),
            (Fault::UserUnknownToTrust, Client, "08P01", "\"trust\" authentication failed"),
            (Fault::UnixSocketRejected, Client, "08P01", "unix socket login rejected"),
            (Fault::CertificateRejected, Client, "08P01", "certificate authentication failed"),
            (Fault::NoSuchUser, Client, "08P01", "no such user"),
            (
                Fault::AuthDatabaseDisabled { name: name() },
                Operator,
                "08P01",
                "authentication database \"x\" is disabled",
            ),
            (Fault::NoMethod, Operator, "08P01", "no authentication method is found"),
            (Fault::LoginRejected, Operator, "08P01", "login rejected"),
            (Fault::PamWrong, Client, "08P01", "PAM authentication failed"),
            (Fault::LdapWrong, Client, "08P01", "LDAP authentication failed"),
            (Fault::LdapUnset, Operator, "08P01", "auth_ldap_options is null"),
            (Fault::ConsoleForbidden, Client, "08P01", "not allowed"),
            (Fault::BouncerConfig, Operator, "08P01", "bouncer config error"),
            (Fault::UnknownMessage, Client, "08P01", "unknown pkt"),
            (Fault::UnexpectedInCopy, Client, "08P01", "unexpected message during COPY from stdin"),
            (Fault::QueryDisallowed, Client, "08P01", "PQexec disallowed"),
            (
                Fault::TransactionInStatementMode,
                Client,
                "08P01",
                "transaction blocks not allowed in statement pooling mode",
            ),
            (Fault::InvalidServerParameter { why: name() }, Client, "08P01", "invalid server parameter"),
            (Fault::BrokenMessage { kind: b'P' }, Client, "08P01", "broken Parse packet"),
            (Fault::BrokenMessage { kind: b'B' }, Client, "08P01", "broken Bind packet"),
            (Fault::BrokenMessage { kind: b'D' }, Client, "08P01", "broken Describe packet"),
            (Fault::BrokenMessage { kind: b'C' }, Client, "08P01", "broken Close packet"),
            (Fault::StatementUnknown { name: name() }, Client, "08P01", "prepared statement did not exist"),
            (Fault::StatementInUse { name: name() }, Client, "08P01", "prepared statement name is already in use"),
            (Fault::StateLost, Client, "08P01", "the session's settings cannot be followed through a failed COPY"),
            (Fault::StateUnread { secs: 5 }, Server, "08006", "the session's state could not be read from its server"),
            (Fault::AnswerTooLong, Server, "08006", "the server's answer to a query of the pooler is too long"),
            (Fault::NotificationsLost, Server, "08006", "notifications may have been lost"),
            (
                Fault::HoldRefused { kind: crate::state::Kind::Lock },
                Operator,
                "0A000",
                "session-level advisory locks are refused in this pool (session_policy)",
            ),
            (
                Fault::PinsFull { limit: 1, what: name() },
                Operator,
                "53300",
                "too many servers are kept by clients (max_pinned_servers)",
            ),
            (
                Fault::PinnedTooLong { secs: 1, what: name() },
                Operator,
                "57P05",
                "session has kept its server for too long (pinned_server_timeout)",
            ),
            (Fault::StatementsLost, Client, "08P01", "prepared statements cannot be followed through a failed COPY"),
            (Fault::StatementsFull, Operator, "53200", "prepared statements take too much memory"),
            (
                Fault::ClientMemoryFull { limit: 2, held: 1 },
                Client,
                "53200",
                "client holds too much memory (max_client_memory)",
            ),
            (Fault::ClientsFull { limit: 1 }, Operator, "08P01", "no more connections allowed (max_client_conn)"),
            (
                Fault::DatabaseClientsFull { limit: 1 },
                Operator,
                "08P01",
                "client connections exceeded (max_db_client_connections)",
            ),
            (
                Fault::UserClientsFull { limit: 1 },
                Operator,
                "08P01",
                "client connections exceeded (max_user_client_connections)",
            ),
            (
                Fault::UnauthenticatedFull,
                Operator,
                "53300",
                "too many connections have not logged in (max_unauthenticated_connections)",
            ),
            (Fault::DescriptorsFull, Operator, "53300", "no more connections allowed (out of file descriptors)"),
            (Fault::HashingFull, Operator, "53300", "too many logins wait for their passwords to be hashed"),
            (Fault::SystemUsersFull, Operator, "53300", "too many logins wait for the names of system users"),
            (Fault::QueryWaitTimeout { secs: 2, why: None }, Operator, "08P01", "query_wait_timeout"),
            (Fault::QueryTimeoutWaiting { secs: 2, why: None }, Operator, "08P01", "query_timeout"),
            (Fault::QueryTimeout, Operator, "08P01", "query timeout"),
            (Fault::IdleTransactionTimeout, Operator, "08P01", "idle transaction timeout"),
            (Fault::TransactionTimeout, Operator, "08P01", "transaction timeout"),
            (Fault::ClientIdleTimeout, Operator, "08P01", "client_idle_timeout"),
            (Fault::IdleSessionTimeout, Client, "57P05", "terminating connection due to idle-session timeout"),
            (Fault::LoginTimeoutServerDown { cause: None }, Server, "08P01", "client_login_timeout (server down)"),
            (Fault::ServerCrashed, Server, "08P01", "server conn crashed?"),
            (Fault::UnexpectedAnswer, Server, "08P01", "server sent what it was not asked for"),
            (Fault::ReplicationRefused { sqlstate: *b"42501", text: text.clone() }, Server, "42501", "login failed"),
            (
                Fault::ServerLoginFailing { cause: text.clone(), detail: None, hint: None, whose: None },
                Server,
                "08P01",
                "server login has been failing, cached error: why (server_login_retry)",
            ),
            (Fault::DatabaseRemoved { by: EndedBy::Kill }, Operator, "08P01", "database removed"),
            (Fault::DatabaseDisabled { name: name() }, Operator, "08P01", "database \"x\" is disabled"),
            (Fault::ConfigurationChanged { by: EndedBy::Reload }, Operator, "08P01", "database configuration changed"),
            (
                Fault::PrimaryLeft { host: text.clone() },
                Operator,
                "57P01",
                "terminating connection because the primary changes",
            ),
            (
                Fault::OutcomeUnknown { host: text.clone() },
                Server,
                "08007",
                "server at the primary was lost before it answered",
            ),
            (
                Fault::HoldFull { setting: "hold_clients_max" },
                Operator,
                "57P03",
                "too many clients wait while the primary changes (hold_clients_max)",
            ),
            (Fault::HandedOver, Operator, "57P01", "terminating connection due to an online restart"),
            (Fault::SuspendTimeout, Operator, "08P01", "suspend_timeout"),
            (Fault::AdminDisconnect, Operator, "08P01", "admin forced disconnect"),
            (Fault::ShuttingDown, Operator, "08P01", "pooler is shutting down"),
            (Fault::ServersShuttingDown, Operator, "08P01", "server shutting down"),
            (Fault::Unservable, Ours, "08P01", "bouncer resources exhaustion"),
        ];
        for (fault, blame, sqlstate, text) in table {
            assert_eq!(
                (&*fault.text(), &*fault.verdict().sqlstate, fault.blame()),
                (text, sqlstate, blame),
                "{fault:?}"
            );
        }
    }

    #[test]
    fn every_fault_is_on_the_reference_page_once_and_with_a_sentence() {
        let page = reference();
        for entry in CATALOG {
            let is_sentence = entry.doc.trim().ends_with('.') && entry.doc.trim().len() > 5;
            assert!(is_sentence, "{}: {}", entry.name, entry.doc);
            assert_eq!(CATALOG.iter().filter(|other| other.text == entry.text).count(), 1, "{}", entry.text);
            assert!(entry.text.contains("{text}") || page.contains(&format!("| `{}` |", entry.text)), "{}", entry.text);
        }
    }

    #[test]
    fn what_an_operator_can_do_about_it_is_said() {
        let detail = |fault: Fault| fault.verdict().detail.unwrap_or_default();
        let refused = Fault::InvalidServerParameter { why: "unrecognized configuration parameter \"x\"".into() };
        assert_eq!(detail(refused), "The server said: unrecognized configuration parameter \"x\"");
        let why = Arc::new(Unserved { why: WaitCause::NoneFree, failure: None, holders: "2 lent".into() });
        let late = Fault::QueryWaitTimeout { secs: 7, why: Some(why) };
        assert_eq!(detail(late.clone()), "No server connection became free within 7 seconds; 2 lent.");
        let down = Fault::LoginTimeoutServerDown { cause: Some("connect failed".into()) };
        assert!(detail(down).ends_with("ended with: connect failed"));
        let refused = Fault::ReplicationRefused { sqlstate: *b"42501", text: "must be superuser".into() };
        assert_eq!(detail(refused), "The server said: must be superuser");
        for fault in [
            Fault::HashingFull,
            Fault::SystemUsersFull,
            Fault::DescriptorsFull,
            late,
            Fault::TransactionInStatementMode,
        ] {
            assert!(fault.verdict().hint.is_some(), "{fault:?}");
        }
    }

    #[test]
    fn a_bad_header_is_shown_in_hex() {
        assert_eq!(Fault::BadHeader { header: *b"Q\0\0\0\x01" }.text(), "bad packet header: '5100000001'");
    }
}
