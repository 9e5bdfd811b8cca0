//! The fixed lists of words that some settings accept.
//!
//! Always true: the first spelling of a value is the one that is shown.
//! Not here: the meaning of a word (the machines).

use pool::Mode;
use protocol::state::Unseen;

/// A type whose values are written as words.
pub trait Words: Copy + PartialEq + 'static {
    /// Every word, in the order of the documentation.
    const ALL: &'static [(&'static str, Self)];
}

/// How clients authenticate (`auth_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthType {
    /// Everybody is let in, as the forced user of the database.
    Any,
    /// Everybody whose user name is known is let in.
    Trust,
    /// A password in clear text.
    Plain,
    /// md5, or SCRAM for users whose secret in the file is a SCRAM secret.
    Md5,
    /// A TLS certificate that names the user.
    Cert,
    /// The rules of a file.
    Hba,
    /// A password in clear text, which an LDAP directory checks.
    Ldap,
    /// A password in clear text, which PAM checks.
    Pam,
    /// SCRAM-SHA-256.
    ScramSha256,
}

impl AuthType {
    /// Whether this type needs the secrets of `auth_file`.
    #[must_use]
    pub fn needs_secrets(self) -> bool {
        !matches!(self, Self::Any | Self::Pam)
    }
}

/// The kernel interface (`io_backend`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoBackend {
    /// io_uring where the kernel allows it, else epoll.
    Auto,
    /// io_uring, or no start.
    IoUring,
    /// epoll.
    Epoll,
}

/// What happens to the session state when a transaction ends (`session_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionState {
    /// The state stays on the server, for the client that gets the server next.
    Pgbouncer,
    /// The state follows its client; state that cannot follow pins the server to the client.
    Follow,
}

/// Which requests of a database's clients go to replicas of its cluster (`read_routing`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ReadRouting {
    /// None.
    Off,
    /// Those that say so: by a comment, as a read-only transaction, or by `default_transaction_read_only`.
    Explicit,
    /// Besides, each statement outside a transaction that is proven only to read.
    Automatic,
}

/// How listening clients learn that notifications may have been lost (`notify_lost`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotifyLost {
    /// They are disconnected, as they would be without a pooler.
    Disconnect,
    /// By a NOTICE.
    Notice,
    /// By a notification on the channel `notify_lost_channel`.
    Notify,
}

/// The format of log lines (`log_format`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// PgBouncer's format.
    Text,
    /// One JSON object per line.
    Json,
}

/// How TLS is used (`client_tls_sslmode`, `server_tls_sslmode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// Never.
    Disable,
    /// If the other side insists on it.
    Allow,
    /// If the other side supports it.
    Prefer,
    /// Always, without checking certificates.
    Require,
    /// Always, with a certificate of a trusted authority.
    VerifyCa,
    /// Always, with a certificate of a trusted authority for this host name.
    VerifyFull,
}

impl TlsMode {
    /// Whether this mode rules out connections in clear text.
    #[must_use]
    pub fn forbids_clear_text(self) -> bool {
        matches!(self, Self::Require | Self::VerifyCa | Self::VerifyFull)
    }
}

/// The number in RFC 3164 of a syslog facility that PgBouncer knows.
#[must_use]
pub fn syslog_facility(name: &str) -> Option<u8> {
    FACILITIES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The facility that replaces an unknown one.
pub const FACILITY_DAEMON: u8 = 3;

const FACILITIES: [(&str, u8); 12] = [
    ("auth", 4),
    ("authpriv", 10),
    ("daemon", FACILITY_DAEMON),
    ("user", 1),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

impl Words for AuthType {
    const ALL: &'static [(&'static str, Self)] = &[
        ("any", Self::Any),
        ("trust", Self::Trust),
        ("plain", Self::Plain),
        ("md5", Self::Md5),
        ("cert", Self::Cert),
        ("hba", Self::Hba),
        ("ldap", Self::Ldap),
        ("pam", Self::Pam),
        ("scram-sha-256", Self::ScramSha256),
    ];
}

impl Words for IoBackend {
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("io_uring", Self::IoUring), ("epoll", Self::Epoll)];
}

impl Words for TlsMode {
    const ALL: &'static [(&'static str, Self)] = &[
        ("disable", Self::Disable),
        ("allow", Self::Allow),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];
}

impl Words for NotifyLost {
    const ALL: &'static [(&'static str, Self)] =
        &[("disconnect", Self::Disconnect), ("notice", Self::Notice), ("notify", Self::Notify)];
}

impl Words for LogFormat {
    const ALL: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

impl Words for SessionState {
    const ALL: &'static [(&'static str, Self)] = &[("pgbouncer", Self::Pgbouncer), ("follow", Self::Follow)];
}

impl Words for ReadRouting {
    const ALL: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("explicit", Self::Explicit), ("automatic", Self::Automatic)];
}

impl Words for Unseen {
    const ALL: &'static [(&'static str, Self)] =
        &[("verify", Self::Verify), ("pin", Self::Pin), ("ignore", Self::Ignore)];
}

impl Words for Mode {
    const ALL: &'static [(&'static str, Self)] =
        &[("session", Self::Session), ("transaction", Self::Transaction), ("statement", Self::Statement)];
}
