//! Every error that a client can read from the pooler: the one place to add or change one.
//!
//! Always true: the texts and codes are PgBouncer's wherever PgBouncer has the error, since drivers and scripts match on them; no text
//! contains a secret.
//! Not here: details and hints, which need numbers (`fault`); what an admin reads on the console (`control::console`).

use std::sync::Arc;

use wire::Request;

use super::ended_by::EndedBy;
use super::shape::faults;
use super::unserved::Unserved;
use super::{
    ADMIN_SHUTDOWN, CANNOT_CONNECT_NOW, CONFIGURATION_LIMIT_EXCEEDED, CONNECTION_FAILURE, FEATURE_NOT_SUPPORTED,
    IDLE_SESSION_TIMEOUT, INVALID_PARAMETER_VALUE, OUT_OF_MEMORY, PROTOCOL_VIOLATION, SERVERS_OWN,
    TOO_MANY_CONNECTIONS, TRANSACTION_RESOLUTION_UNKNOWN,
};
use crate::state::Kind as Holding;

faults! {
    /// The startup packet is of protocol 2, which PostgreSQL has not spoken since 14.
    OldProtocol = Client, PROTOCOL_VIOLATION, "old V2 protocol not supported";
    /// The startup packet asks for a protocol version that is not known.
    UnknownProtocol { major: u16 } = Client, PROTOCOL_VIOLATION,
        "unsupported frontend protocol {major}: server supports 3.0 to 3.2";
    /// The startup packet names no user.
    NoUser = Client, PROTOCOL_VIOLATION, "no username supplied";
    /// The user name has 128 bytes or more.
    UserTooLong = Client, PROTOCOL_VIOLATION, "username too long";
    /// The startup packet does not end with a zero byte.
    StartupTerminator = Client, PROTOCOL_VIOLATION, "invalid startup packet layout: expected terminator as last byte";
    /// The startup packet cannot be read.
    StartupLayout = Client, PROTOCOL_VIOLATION, "invalid startup packet layout";
    /// A startup parameter is not text.
    StartupEncoding = Client, PROTOCOL_VIOLATION, "startup parameters must be valid UTF-8";
    /// A startup parameter that is neither followed nor listed in `ignore_startup_parameters`.
    StartupParameter { name: Box<str> } = Client, PROTOCOL_VIOLATION, "unsupported startup parameter: {name}";
    /// The startup parameter `options` contains something other than settings.
    OptionsFlag = Client, PROTOCOL_VIOLATION,
        "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
    /// A setting in `options` that is neither followed nor listed in `ignore_startup_parameters`.
    OptionsParameter { name: Box<str> } = Client, PROTOCOL_VIOLATION,
        "unsupported startup parameter in options: {name}";
    /// Unencrypted data followed a request for encryption; an attacker may have injected it.
    UnencryptedAfter { request: &'static str } = Client, PROTOCOL_VIOLATION,
        "received unencrypted data after {request}";
    /// The connection comes from a network of `proxy_protocol_from`, and does not begin with a PROXY protocol header.
    ProxyHeaderMissing = Operator, PROTOCOL_VIOLATION, "PROXY header expected (proxy_protocol_from)";
    /// The connection begins with a PROXY protocol header that cannot be understood.
    ProxyHeaderMalformed { why: &'static str } = Operator, PROTOCOL_VIOLATION, "invalid PROXY header: {why}";
    /// `client_tls_sslmode` demands TLS, and the client connected by TCP without it.
    TlsRequired = Client, PROTOCOL_VIOLATION, "SSL required";
    /// The startup parameter `replication` has an invalid value.
    ReplicationUnknown { value: Box<str> } = Client, INVALID_PARAMETER_VALUE,
        "invalid value for parameter \"replication\": \"{value}\"";
    /// The startup parameter `trunkline.target_session_attrs` has an invalid value.
    TargetUnknown { value: Box<str> } = Client, INVALID_PARAMETER_VALUE,
        "invalid value for parameter \"trunkline.target_session_attrs\": \"{value}\"";
    /// The client asks for hosts of a kind, and a line of the configuration has the name of the pool that it would belong to.
    TargetConfigured { name: Box<str> } = Client, INVALID_PARAMETER_VALUE,
        "database \"{name}\" is configured: connect to it, without trunkline.target_session_attrs";
    /// The client asks for hosts of a kind, and its database has one host.
    TargetOneHost { name: Box<str> } = Client, INVALID_PARAMETER_VALUE,
        "database \"{name}\" has one host: trunkline.target_session_attrs has nothing to choose from";
    /// A password message came before the startup packet.
    PasswordBeforeStartup = Client, PROTOCOL_VIOLATION, "client password pkt before startup packet";
    /// The password is wrong, or the user is unknown.
    PasswordWrong = Client, PROTOCOL_VIOLATION, "password authentication failed";
    /// The SCRAM proof is wrong or malformed, or the user is unknown. With `auth_type = md5` it is `password authentication failed`.
    SaslWrong = Client, PROTOCOL_VIOLATION, "SASL authentication failed";
    /// The client chose a SASL mechanism that it was not offered.
    SaslMechanism = Client, PROTOCOL_VIOLATION, "client selected an invalid SASL authentication mechanism";
    /// The password is empty; an empty password matches nothing.
    PasswordEmpty = Client, PROTOCOL_VIOLATION, "empty password returned by client";
    /// The user is unknown (`trust`).
    UserUnknownToTrust = Client, PROTOCOL_VIOLATION, "\"trust\" authentication failed";
    /// The system user at the other end of the Unix socket may not log in as this user (`peer`).
    UnixSocketRejected = Client, PROTOCOL_VIOLATION, "unix socket login rejected";
    /// The client has no certificate, or the certificate does not name the user (`cert`).
    CertificateRejected = Client, PROTOCOL_VIOLATION, "certificate authentication failed";
    /// No line of the HBA file matches this client.
    NoMethod = Operator, PROTOCOL_VIOLATION, "no authentication method is found";
    /// `auth_query` does not know the user, and the login would ask for no password.
    NoSuchUser = Client, PROTOCOL_VIOLATION, "no such user";
    /// The database in which `auth_query` would run is disabled.
    AuthDatabaseDisabled { name: Box<str> } = Operator, PROTOCOL_VIOLATION,
        "authentication database \"{name}\" is disabled";
    /// A line of the HBA file rejects this client.
    LoginRejected = Operator, PROTOCOL_VIOLATION, "login rejected";
    /// PAM rejects the password, or cannot be asked; the log says why.
    PamWrong = Client, PROTOCOL_VIOLATION, "PAM authentication failed";
    /// The LDAP server rejects the password, or cannot be asked; the log says why.
    LdapWrong = Client, PROTOCOL_VIOLATION, "LDAP authentication failed";
    /// `auth_type = ldap` without `auth_ldap_options`.
    LdapUnset = Operator, PROTOCOL_VIOLATION, "auth_ldap_options is null";
    /// There is no such database; reported only to users who have authenticated.
    NoSuchDatabase { name: Box<str> } = Client, PROTOCOL_VIOLATION, "no such database: {name}";
    /// The user connects to the console, has been authenticated, and is listed neither in `admin_users` nor in `stats_users`.
    ConsoleForbidden = Client, PROTOCOL_VIOLATION, "not allowed";
    /// The login cannot be checked as configured, or `auth_query` failed; the log says why.
    BouncerConfig = Operator, PROTOCOL_VIOLATION, "bouncer config error";
    /// A message begins with bytes that cannot be a message header.
    BadHeader { header: [u8; 5] } = Client, PROTOCOL_VIOLATION, "bad packet header: '{header}'",
        with header = hex(header);
    /// A message of a type that is unknown or that clients may not send at this point.
    UnknownMessage = Client, PROTOCOL_VIOLATION, "unknown pkt";
    /// A message that PostgreSQL does not accept during COPY FROM STDIN.
    UnexpectedInCopy = Client, PROTOCOL_VIOLATION, "unexpected message during COPY from stdin";
    /// A message of a type that the console does not know.
    ConsoleMessage = Client, PROTOCOL_VIOLATION, "bad packet";
    /// A message to the console that is longer than any command.
    ConsoleTooLong = Client, PROTOCOL_VIOLATION, "incomplete pkt";
    /// A simple query, with `disable_pqexec`.
    QueryDisallowed = Client, PROTOCOL_VIOLATION, "PQexec disallowed";
    /// A transaction was left open in statement mode.
    TransactionInStatementMode = Client, PROTOCOL_VIOLATION,
        "transaction blocks not allowed in statement pooling mode";
    /// The server refused a setting that the pooler applied for the client.
    InvalidServerParameter { why: Box<str> } = Client, PROTOCOL_VIOLATION, "invalid server parameter";
    /// A message of the extended protocol is malformed.
    BrokenMessage { kind: u8 } = Client, PROTOCOL_VIOLATION, "broken {kind} packet", with kind = Request::name(*kind);
    /// The client uses a prepared statement that it has not prepared, where sessions do not follow their clients.
    StatementUnknown { name: Box<str> } = Client, PROTOCOL_VIOLATION, "prepared statement did not exist";
    /// The client prepares a statement under a name that it already uses.
    StatementInUse { name: Box<str> } = Client, PROTOCOL_VIOLATION, "prepared statement name is already in use";
    /// After a failed COPY it is unknown which prepared statements the server has.
    StatementsLost = Client, PROTOCOL_VIOLATION, "prepared statements cannot be followed through a failed COPY";
    /// After a failed COPY it is unknown which settings the session has.
    StateLost = Client, PROTOCOL_VIOLATION, "the session's settings cannot be followed through a failed COPY";
    /// The server did not answer the state probe in time (`session_state = follow`).
    StateUnread { secs: u64 } = Server, CONNECTION_FAILURE, "the session's state could not be read from its server";
    /// The server's answer to a query of the pooler's own, such as the state probe, has no end.
    AnswerTooLong = Server, CONNECTION_FAILURE, "the server's answer to a query of the pooler is too long";
    /// Nobody listened on behalf of the client for a while, or it did not read its notifications (`notify_lost = disconnect`).
    NotificationsLost = Server, CONNECTION_FAILURE, "notifications may have been lost";
    /// The session holds something that `session_policy` refuses.
    HoldRefused { kind: Holding } = Operator, FEATURE_NOT_SUPPORTED,
        "{what} are refused in this pool (session_policy)", with what = kind.many();
    /// The session would pin one server more than `max_pinned_servers` allows.
    PinsFull { limit: u32, what: Box<str> } = Operator, TOO_MANY_CONNECTIONS,
        "too many servers are kept by clients (max_pinned_servers)";
    /// The session has kept its server longer than `pinned_server_timeout`.
    PinnedTooLong { secs: u64, what: Box<str> } = Operator, IDLE_SESSION_TIMEOUT,
        "session has kept its server for too long (pinned_server_timeout)";
    /// All clients of a worker together have prepared more than the worker keeps.
    StatementsFull = Operator, OUT_OF_MEMORY, "prepared statements take too much memory";
    /// The pooler would have to remember more for this client than `max_client_memory` allows.
    ClientMemoryFull { limit: usize, held: usize } = Client, OUT_OF_MEMORY, "client holds too much memory (max_client_memory)";
    /// The process has `max_client_conn` clients.
    ClientsFull { limit: u32 } = Operator, PROTOCOL_VIOLATION, "no more connections allowed (max_client_conn)";
    /// The database has `max_db_client_connections` clients.
    DatabaseClientsFull { limit: u32 } = Operator, PROTOCOL_VIOLATION,
        "client connections exceeded (max_db_client_connections)";
    /// The user has `max_user_client_connections` clients.
    UserClientsFull { limit: u32 } = Operator, PROTOCOL_VIOLATION,
        "client connections exceeded (max_user_client_connections)";
    /// `max_unauthenticated_connections` is reached, and no address has more such connections than this one.
    UnauthenticatedFull = Operator, TOO_MANY_CONNECTIONS,
        "too many connections have not logged in (max_unauthenticated_connections)";
    /// The remaining file descriptors are reserved for servers.
    DescriptorsFull = Operator, TOO_MANY_CONNECTIONS, "no more connections allowed (out of file descriptors)";
    /// Too many passwords wait to be hashed; once the queue is full, the address with the most waiting makes room first.
    HashingFull = Operator, TOO_MANY_CONNECTIONS, "too many logins wait for their passwords to be hashed";
    /// Too many clients wait for the system to name their users (`peer`); the system user with the most waiting makes room first.
    SystemUsersFull = Operator, TOO_MANY_CONNECTIONS, "too many logins wait for the names of system users";
    /// A rate limit for logins is used up, with `action=reject`.
    LoginRateExceeded { rule: Box<str>, limit: Box<str>, millis: u64 } = Operator, TOO_MANY_CONNECTIONS,
        "login rate exceeded (rate limit \"{rule}\")";
    /// A rate limit for transactions is used up, with `action=reject`. It is an ERROR, and the session goes on.
    TransactionRateExceeded { rule: Box<str>, limit: Box<str>, millis: u64 } = Operator, CONFIGURATION_LIMIT_EXCEEDED,
        "transaction rate exceeded (rate limit \"{rule}\")";
    /// The client has waited for a server for `query_wait_timeout`; the DETAIL says why.
    QueryWaitTimeout { secs: u64, why: Option<Arc<Unserved>> } = Operator, PROTOCOL_VIOLATION, "query_wait_timeout";
    /// The client has waited for a server for `query_timeout`; the DETAIL says why.
    QueryTimeoutWaiting { secs: u64, why: Option<Arc<Unserved>> } = Operator, PROTOCOL_VIOLATION, "query_timeout";
    /// A query took longer than `query_timeout`.
    QueryTimeout = Operator, PROTOCOL_VIOLATION, "query timeout";
    /// The client sent nothing for `idle_transaction_timeout` inside a transaction.
    IdleTransactionTimeout = Operator, PROTOCOL_VIOLATION, "idle transaction timeout";
    /// A transaction took longer than `transaction_timeout`.
    TransactionTimeout = Operator, PROTOCOL_VIOLATION, "transaction timeout";
    /// The client sent nothing for `client_idle_timeout`.
    ClientIdleTimeout = Operator, PROTOCOL_VIOLATION, "client_idle_timeout";
    /// The client sent nothing for the `idle_session_timeout` of its session, in PostgreSQL's words.
    IdleSessionTimeout = Client, IDLE_SESSION_TIMEOUT, "terminating connection due to idle-session timeout";
    /// The login took longer than `client_login_timeout`.
    LoginTimeout = Client, PROTOCOL_VIOLATION, "client_login_timeout";
    /// No login at a server succeeded within `client_login_timeout`, so that the client could not be greeted.
    LoginTimeoutServerDown { cause: Option<Arc<str>> } = Server, PROTOCOL_VIOLATION,
        "client_login_timeout (server down)";
    /// The server connection was lost in the middle of a request.
    ServerCrashed = Server, PROTOCOL_VIOLATION, "server conn crashed?";
    /// The server sent a message that it was not asked for.
    UnexpectedAnswer = Server, PROTOCOL_VIOLATION, "server sent what it was not asked for";
    /// The server refused the pooler's login: its own text, code, DETAIL and HINT. The DETAIL begins with whose login it was.
    ServerSaid { sqlstate: [u8; 5], text: Arc<str>, detail: Option<Arc<str>>, hint: Option<Arc<str>>, whose: Option<Arc<str>> } =
        Server, SERVERS_OWN, "{text}";
    /// The server refused the login of a replication client: its own code, with its text in the DETAIL.
    ReplicationRefused { sqlstate: [u8; 5], text: Arc<str> } = Server, SERVERS_OWN, "login failed";
    /// Logins at the server fail, and the next attempt is made after `server_login_retry`.
    ServerLoginFailing { cause: Arc<str>, detail: Option<Arc<str>>, hint: Option<Arc<str>>, whose: Option<Arc<str>> } = Server, PROTOCOL_VIOLATION,
        "server login has been failing, cached error: {cause} (server_login_retry)";
    /// `KILL`, or the database is no longer in the configuration.
    DatabaseRemoved { by: EndedBy } = Operator, PROTOCOL_VIOLATION, "database removed";
    /// `DISABLE`.
    DatabaseDisabled { name: Box<str> } = Operator, PROTOCOL_VIOLATION, "database \"{name}\" is disabled";
    /// `KILL_CLIENT`.
    AdminDisconnect = Operator, PROTOCOL_VIOLATION, "admin forced disconnect";
    /// The server of a session, with `server_fast_close`, or of a replication client was to be replaced; the DETAIL says why.
    ConfigurationChanged { by: EndedBy } = Operator, PROTOCOL_VIOLATION, "database configuration changed";
    /// The server was at the former primary of a cluster, or its transaction did not end in time for a switchover.
    PrimaryLeft { host: Arc<str> } = Operator, ADMIN_SHUTDOWN, "terminating connection because the primary changes";
    /// The server at the primary of a cluster was lost before it had answered.
    OutcomeUnknown { host: Arc<str> } = Server, TRANSACTION_RESOLUTION_UNKNOWN, "server at the primary was lost before it answered";
    /// The primary of a cluster changes, and no more clients, or no more bytes of clients, are held meanwhile.
    HoldFull { setting: &'static str } = Operator, CANNOT_CONNECT_NOW, "too many clients wait while the primary changes ({setting})";
    /// The client did not come to rest within `suspend_timeout`.
    SuspendTimeout = Operator, PROTOCOL_VIOLATION, "suspend_timeout";
    /// An online restart could not take the client along: it uses TLS or replication, or is in the middle of something.
    HandedOver = Operator, ADMIN_SHUTDOWN, "terminating connection due to an online restart";
    /// A login during a shutdown.
    ShuttingDown = Operator, PROTOCOL_VIOLATION, "pooler is shutting down";
    /// A request for a server during a shutdown that waits for servers.
    ServersShuttingDown = Operator, PROTOCOL_VIOLATION, "server shutting down";
    /// A shutdown has waited for `shutdown_timeout`, or nearly so, and the client has no server.
    ShutdownTimeout { secs: u64 } = Operator, ADMIN_SHUTDOWN, "pooler is shutting down (shutdown_timeout)";
    /// The pooler cannot go on with this client, through a fault of its own.
    Unservable = Ours, PROTOCOL_VIOLATION, "bouncer resources exhaustion";
}

fn hex(header: &[u8]) -> String {
    header.iter().map(|byte| format!("{byte:02x}")).collect()
}
