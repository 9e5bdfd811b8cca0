//! What can go wrong with a client, in the words that it reads.
//!
//! Always true: the texts and SQLSTATEs are PgBouncer's wherever it has one, since drivers and scripts match on them; no
//! text contains a secret; [`Fault::verdict`] is the one place that knows them.
//! Not here: what a server says about its own errors, which passes through whole.

use std::borrow::Cow;
use std::sync::Arc;

use wire::frontend;
use wire::write::{self, Says};

use crate::prepared::HELD_BYTES_MAX;

/// Whose fault it is that a client cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    /// The client's own.
    Client,
    /// The server's, or the way to it.
    Server,
    /// The operator's: limits, time limits, orders.
    Operator,
    /// Ours.
    Ours,
}

/// Why a client is told an error and let go.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Fault {
    // How it greets.
    OldProtocol,
    UnknownProtocol { major: u16 },
    NoUser,
    UserTooLong,
    StartupTerminator,
    StartupLayout,
    StartupEncoding,
    StartupParameter { name: Box<str> },
    OptionsFlag,
    OptionsParameter { name: Box<str> },
    UnencryptedAfter { request: &'static str },
    TlsRequired,
    ReplicationUnsupported,
    // How it logs in.
    PasswordBeforeStartup,
    PasswordWrong,
    SaslWrong,
    SaslMechanism,
    PasswordEmpty,
    UserUnknownToTrust,
    UnixSocketRejected,
    CertificateRejected,
    NoMethod,
    NoSuchUser,
    AuthDatabaseDisabled { name: Box<str> },
    LoginRejected,
    LdapUnbuilt,
    NoSuchDatabase { name: Box<str> },
    ConsoleForbidden,
    BouncerConfig,
    // What it sends.
    BadHeader { header: [u8; 5] },
    UnknownMessage,
    UnexpectedInCopy,
    QueryDisallowed,
    TransactionInStatementMode,
    InvalidServerParameter,
    BrokenMessage { kind: u8 },
    StatementUnknown { name: Box<str> },
    StatementInUse { name: Box<str> },
    StatementsLost,
    // What is full.
    StatementsFull,
    ClientsFull { limit: u32 },
    DatabaseClientsFull { limit: u32 },
    UserClientsFull { limit: u32 },
    DescriptorsFull,
    // What took too long.
    QueryWaitTimeout { secs: u64 },
    QueryTimeoutWaiting,
    QueryTimeout,
    IdleTransactionTimeout,
    TransactionTimeout,
    ClientIdleTimeout,
    LoginTimeout,
    LoginTimeoutServerDown { cause: Option<Arc<str>> },
    // What the server does.
    ServerCrashed,
    ServerSurprise,
    ServerSaid { sqlstate: [u8; 5], text: Arc<str> },
    ServerLogin { text: Arc<str> },
    ServerLoginFailing { cause: Arc<str> },
    // What the operator does.
    DatabaseRemoved,
    DatabaseDisabled { name: Box<str> },
    AdminDisconnect,
    ConfigurationChanged,
    ShuttingDown,
    ServersShuttingDown,
    Unservable,
}

/// What an error means for the client that reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Five characters.
    pub sqlstate: Cow<'static, str>,
    /// The primary message.
    pub text: Cow<'static, str>,
    /// More about it, with numbers.
    pub detail: Option<String>,
    /// What can be done.
    pub hint: Option<&'static str>,
}

impl Fault {
    /// Whose fault it is.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::ServerCrashed
            | Self::ServerSurprise
            | Self::ServerSaid { .. }
            | Self::ServerLogin { .. }
            | Self::ServerLoginFailing { .. }
            | Self::LoginTimeoutServerDown { .. } => Blame::Server,
            Self::ClientsFull { .. }
            | Self::DatabaseClientsFull { .. }
            | Self::UserClientsFull { .. }
            | Self::DescriptorsFull
            | Self::StatementsFull
            | Self::QueryWaitTimeout { .. }
            | Self::QueryTimeoutWaiting
            | Self::QueryTimeout
            | Self::IdleTransactionTimeout
            | Self::TransactionTimeout
            | Self::ClientIdleTimeout
            | Self::BouncerConfig
            | Self::NoMethod
            | Self::AuthDatabaseDisabled { .. }
            | Self::LoginRejected
            | Self::LdapUnbuilt
            | Self::DatabaseRemoved
            | Self::DatabaseDisabled { .. }
            | Self::AdminDisconnect
            | Self::ConfigurationChanged
            | Self::ShuttingDown
            | Self::ServersShuttingDown => Blame::Operator,
            Self::Unservable => Blame::Ours,
            _ => Blame::Client,
        }
    }

    /// Text and code.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let mut verdict =
            Verdict { sqlstate: Cow::Borrowed(PROTOCOL_VIOLATION), text: self.text(), detail: None, hint: None };
        match self {
            Self::ServerSaid { sqlstate, .. } => {
                verdict.sqlstate = Cow::Owned(String::from_utf8_lossy(sqlstate).into_owned());
            }
            Self::ClientsFull { limit } | Self::DatabaseClientsFull { limit } | Self::UserClientsFull { limit } => {
                verdict.detail = Some(format!("The limit is {limit} and all of them are connected."));
            }
            Self::DescriptorsFull => {
                verdict.sqlstate = Cow::Borrowed(TOO_MANY_CONNECTIONS);
                verdict.hint =
                    Some("Raise the limit of open files (ulimit -n) of the pooler, or lower max_client_conn.");
            }
            Self::QueryWaitTimeout { secs } => {
                verdict.detail = Some(format!("No server connection became free within {secs} seconds."));
                verdict.hint = Some("Look at SHOW POOLS on the console for who holds the servers of this pool.");
            }
            Self::LoginTimeoutServerDown { cause: Some(cause) } => {
                verdict.detail = Some(format!("The last attempt to reach the server ended with: {cause}"));
            }
            Self::TransactionInStatementMode => {
                verdict.hint = Some("Use pool_mode transaction or session for transaction blocks.");
            }
            Self::ReplicationUnsupported => verdict.sqlstate = Cow::Borrowed(FEATURE_NOT_SUPPORTED),
            Self::StatementUnknown { name } | Self::StatementInUse { name } => {
                verdict.detail = Some(format!("The name is \"{name}\"."));
            }
            Self::StatementsFull => {
                verdict.sqlstate = Cow::Borrowed(OUT_OF_MEMORY);
                verdict.detail = Some(format!("All clients of a worker may prepare {HELD_BYTES_MAX} bytes together."));
                verdict.hint = Some("Close statements that are not needed, or prepare fewer different texts.");
            }
            Self::StatementsLost => {
                verdict.hint = Some("Send the Sync that ends a COPY after its CopyDone, and wait for the answer.");
            }
            _ => {}
        }
        verdict
    }

    /// The primary message; also the reason in the log line that says why the client was closed.
    #[must_use]
    pub fn text(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::OldProtocol => "old V2 protocol not supported",
            Self::UnknownProtocol { major } => {
                return format!("unsupported frontend protocol {major}: server supports 3.0 to 3.2").into();
            }
            Self::NoUser => "no username supplied",
            Self::UserTooLong => "username too long",
            Self::StartupTerminator => "invalid startup packet layout: expected terminator as last byte",
            Self::StartupLayout => "invalid startup packet layout",
            Self::StartupEncoding => "startup parameters must be valid UTF-8",
            Self::StartupParameter { name } => return format!("unsupported startup parameter: {name}").into(),
            Self::OptionsFlag => {
                "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed"
            }
            Self::OptionsParameter { name } => {
                return format!("unsupported startup parameter in options: {name}").into();
            }
            Self::UnencryptedAfter { request } => return format!("received unencrypted data after {request}").into(),
            Self::TlsRequired => "SSL required",
            Self::ReplicationUnsupported => "replication connections are not supported by this version",
            Self::PasswordBeforeStartup => "client password pkt before startup packet",
            Self::PasswordWrong => "password authentication failed",
            Self::SaslWrong => "SASL authentication failed",
            Self::SaslMechanism => "client selected an invalid SASL authentication mechanism",
            Self::PasswordEmpty => "empty password returned by client",
            Self::UserUnknownToTrust => "\"trust\" authentication failed",
            Self::UnixSocketRejected => "unix socket login rejected",
            Self::CertificateRejected => "certificate authentication failed",
            Self::NoMethod => "no authentication method is found",
            Self::NoSuchUser => "no such user",
            Self::AuthDatabaseDisabled { name } => {
                return format!("authentication database \"{name}\" is disabled").into();
            }
            Self::LoginRejected => "login rejected",
            Self::LdapUnbuilt => "ldap is not supported by this build",
            Self::NoSuchDatabase { name } => return format!("no such database: {name}").into(),
            Self::ConsoleForbidden => "not allowed",
            Self::BouncerConfig => "bouncer config error",
            Self::BadHeader { header } => {
                let hex: String = header.iter().map(|byte| format!("{byte:02x}")).collect();
                return format!("bad packet header: '{hex}'").into();
            }
            Self::UnknownMessage => "unknown pkt",
            Self::UnexpectedInCopy => "unexpected message during COPY from stdin",
            Self::QueryDisallowed => "PQexec disallowed",
            Self::TransactionInStatementMode => "transaction blocks not allowed in statement pooling mode",
            Self::InvalidServerParameter => "invalid server parameter",
            Self::BrokenMessage { kind } => match *kind {
                frontend::PARSE => "broken Parse packet",
                frontend::BIND => "broken Bind packet",
                frontend::DESCRIBE => "broken Describe packet",
                _ => "broken Close packet",
            },
            Self::StatementUnknown { .. } => "prepared statement did not exist",
            Self::StatementInUse { .. } => "prepared statement name is already in use",
            Self::StatementsLost => "prepared statements cannot be followed through a failed COPY",
            Self::StatementsFull => "prepared statements take too much memory",
            Self::ClientsFull { .. } => "no more connections allowed (max_client_conn)",
            Self::DatabaseClientsFull { .. } => "client connections exceeded (max_db_client_connections)",
            Self::UserClientsFull { .. } => "client connections exceeded (max_user_client_connections)",
            Self::DescriptorsFull => "no more connections allowed (out of file descriptors)",
            Self::QueryWaitTimeout { .. } => "query_wait_timeout",
            Self::QueryTimeoutWaiting => "query_timeout",
            Self::QueryTimeout => "query timeout",
            Self::IdleTransactionTimeout => "idle transaction timeout",
            Self::TransactionTimeout => "transaction timeout",
            Self::ClientIdleTimeout => "client_idle_timeout",
            Self::LoginTimeout => "client_login_timeout",
            Self::LoginTimeoutServerDown { .. } => "client_login_timeout (server down)",
            Self::ServerCrashed => "server conn crashed?",
            Self::ServerSurprise => "server sent what it was not asked for",
            Self::ServerSaid { text, .. } => return text.to_string().into(),
            Self::ServerLogin { text } => return format!("server login failed: {text}").into(),
            Self::ServerLoginFailing { cause } => {
                return format!("server login has been failing, cached error: {cause} (server_login_retry)").into();
            }
            Self::DatabaseRemoved => "database removed",
            Self::DatabaseDisabled { name } => return format!("database \"{name}\" is disabled").into(),
            Self::AdminDisconnect => "admin forced disconnect",
            Self::ConfigurationChanged => "database configuration changed",
            Self::ShuttingDown => "pooler is shutting down",
            Self::ServersShuttingDown => "server shutting down",
            Self::Unservable => "bouncer resources exhaustion",
        })
    }

    /// Appends the `ErrorResponse` that tells the client.
    pub fn write(&self, out: &mut Vec<u8>) {
        let verdict = self.verdict();
        write::error(
            out,
            Says {
                severity: "FATAL",
                sqlstate: &verdict.sqlstate,
                message: &verdict.text,
                detail: verdict.detail.as_deref(),
                hint: verdict.hint,
            },
        );
    }
}

/// What PgBouncer says for nearly everything.
pub const PROTOCOL_VIOLATION: &str = "08P01";
const OUT_OF_MEMORY: &str = "53200";
const TOO_MANY_CONNECTIONS: &str = "53300";
const FEATURE_NOT_SUPPORTED: &str = "0A000";

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
    fn what_the_server_said_keeps_its_code() {
        let said = Fault::ServerSaid { sqlstate: *b"53300", text: "sorry, too many clients already".into() };
        assert_eq!(said.verdict().sqlstate, "53300");
        assert_eq!(said.text(), "sorry, too many clients already");
        assert_eq!(said.blame(), Blame::Server);
    }

    #[test]
    fn a_full_limit_tells_its_number() {
        let full = Fault::ClientsFull { limit: 100 };
        assert_eq!(full.text(), "no more connections allowed (max_client_conn)");
        assert!(full.verdict().detail.expect("a detail").contains("100"));
    }

    /// Drivers and scripts match on these words, and operators search for them: whoever changes one changes it here too.
    #[test]
    fn every_fault_has_its_words_its_code_and_who_is_to_blame() {
        use Blame::{Client, Operator, Ours, Server};
        let name = || "x".into();
        let text: Arc<str> = "why".into();
        let table: [(Fault, Blame, &str, &str); 63] = [
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
                Fault::ReplicationUnsupported,
                Client,
                "0A000",
                "replication connections are not supported by this version",
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
            (Fault::LdapUnbuilt, Operator, "08P01", "ldap is not supported by this build"),
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
            (Fault::InvalidServerParameter, Client, "08P01", "invalid server parameter"),
            (Fault::BrokenMessage { kind: b'P' }, Client, "08P01", "broken Parse packet"),
            (Fault::BrokenMessage { kind: b'B' }, Client, "08P01", "broken Bind packet"),
            (Fault::BrokenMessage { kind: b'D' }, Client, "08P01", "broken Describe packet"),
            (Fault::BrokenMessage { kind: b'C' }, Client, "08P01", "broken Close packet"),
            (Fault::StatementUnknown { name: name() }, Client, "08P01", "prepared statement did not exist"),
            (Fault::StatementInUse { name: name() }, Client, "08P01", "prepared statement name is already in use"),
            (Fault::StatementsLost, Client, "08P01", "prepared statements cannot be followed through a failed COPY"),
            (Fault::StatementsFull, Operator, "53200", "prepared statements take too much memory"),
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
            (Fault::DescriptorsFull, Operator, "53300", "no more connections allowed (out of file descriptors)"),
            (Fault::QueryWaitTimeout { secs: 2 }, Operator, "08P01", "query_wait_timeout"),
            (Fault::QueryTimeoutWaiting, Operator, "08P01", "query_timeout"),
            (Fault::QueryTimeout, Operator, "08P01", "query timeout"),
            (Fault::IdleTransactionTimeout, Operator, "08P01", "idle transaction timeout"),
            (Fault::TransactionTimeout, Operator, "08P01", "transaction timeout"),
            (Fault::ClientIdleTimeout, Operator, "08P01", "client_idle_timeout"),
            (Fault::LoginTimeoutServerDown { cause: None }, Server, "08P01", "client_login_timeout (server down)"),
            (Fault::ServerCrashed, Server, "08P01", "server conn crashed?"),
            (Fault::ServerSurprise, Server, "08P01", "server sent what it was not asked for"),
            (Fault::ServerLogin { text: text.clone() }, Server, "08P01", "server login failed: why"),
            (
                Fault::ServerLoginFailing { cause: text.clone() },
                Server,
                "08P01",
                "server login has been failing, cached error: why (server_login_retry)",
            ),
            (Fault::DatabaseRemoved, Operator, "08P01", "database removed"),
            (Fault::DatabaseDisabled { name: name() }, Operator, "08P01", "database \"x\" is disabled"),
            (Fault::ConfigurationChanged, Operator, "08P01", "database configuration changed"),
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
    fn what_an_operator_can_do_about_it_is_said() {
        let detail = |fault: Fault| fault.verdict().detail.unwrap_or_default();
        assert!(detail(Fault::QueryWaitTimeout { secs: 7 }).contains("within 7 seconds"));
        let down = Fault::LoginTimeoutServerDown { cause: Some("connect failed".into()) };
        assert!(detail(down).ends_with("ended with: connect failed"));
        for fault in [Fault::DescriptorsFull, Fault::QueryWaitTimeout { secs: 7 }, Fault::TransactionInStatementMode] {
            assert!(fault.verdict().hint.is_some(), "{fault:?}");
        }
    }

    #[test]
    fn a_bad_header_is_shown_in_hex() {
        assert_eq!(Fault::BadHeader { header: *b"Q\0\0\0\x01" }.text(), "bad packet header: '5100000001'");
    }
}
