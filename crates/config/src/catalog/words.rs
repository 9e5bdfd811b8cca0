//! The fixed lists of words that some settings take.
//!
//! Always true: the first spelling of a value is the one that is shown.
//! Not here: what a word means (the machines).

use pool::Mode;
use protocol::state::Unseen;

/// A type whose values are written as words.
pub trait Words: Copy + PartialEq + 'static {
    /// Every word, in the order of documentation.
    const ALL: &'static [(&'static str, Self)];
}

/// How clients prove who they are (`auth_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthType {
    /// Anybody is let in, as the forced user of the database.
    Any,
    /// Anybody whose name is known is let in.
    Trust,
    /// The password in clear text.
    Plain,
    /// md5, or SCRAM for whom the file holds a SCRAM secret.
    Md5,
    /// TLS certificates that name the user.
    Cert,
    /// Rules of a file.
    Hba,
    /// The password in clear text, which a directory knows.
    Ldap,
    /// The password in clear text, which the system's modules know.
    Pam,
    /// SCRAM-SHA-256.
    ScramSha256,
}

impl AuthType {
    /// Whether it needs the secrets of `auth_file`.
    #[must_use]
    pub fn needs_secrets(self) -> bool {
        !matches!(self, Self::Any | Self::Pam)
    }
}

/// Which interface of the kernel moves the bytes (`io_backend`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoBackend {
    /// io_uring where the kernel allows it, else epoll.
    Auto,
    /// io_uring or nothing.
    IoUring,
    /// epoll.
    Epoll,
}

/// What becomes of the state of a session when its transaction ends (`session_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionState {
    /// It stays on the server, whoever has that next.
    Pgbouncer,
    /// It follows its client; what cannot, keeps the server for it.
    Follow,
}

/// How clients that listen are told that notifications may have been lost (`notify_lost`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotifyLost {
    /// They are disconnected, as they would be without a pooler.
    Disconnect,
    /// By a NOTICE.
    Notice,
    /// By a notification on the channel `notify_lost_channel`.
    Notify,
}

/// How lines of the log look (`log_format`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// As PgBouncer writes them.
    Text,
    /// One JSON object each.
    Json,
}

/// How much TLS is wanted (`client_tls_sslmode`, `server_tls_sslmode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// None.
    Disable,
    /// If the other side insists.
    Allow,
    /// If the other side can.
    Prefer,
    /// Always, without looking at certificates.
    Require,
    /// Always, with a certificate of a known authority.
    VerifyCa,
    /// Always, with a certificate of a known authority for this host name.
    VerifyFull,
}

impl TlsMode {
    /// Whether an operator who wrote this would rather have no connection than one in clear text.
    #[must_use]
    pub fn forbids_clear_text(self) -> bool {
        matches!(self, Self::Require | Self::VerifyCa | Self::VerifyFull)
    }
}

/// The number of a facility of syslog in RFC 3164, of those that PgBouncer knows.
#[must_use]
pub fn syslog_facility(name: &str) -> Option<u8> {
    FACILITIES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// That of [`syslog_facility`] for names that are unknown.
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

impl Words for Unseen {
    const ALL: &'static [(&'static str, Self)] =
        &[("verify", Self::Verify), ("pin", Self::Pin), ("ignore", Self::Ignore)];
}

impl Words for Mode {
    const ALL: &'static [(&'static str, Self)] =
        &[("session", Self::Session), ("transaction", Self::Transaction), ("statement", Self::Statement)];
}
