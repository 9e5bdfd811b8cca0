//! Every setting of `[pgbouncer]`: the one place to add or change one.
//!
//! An entry consists of its documentation, its name, its type, the allowed range of a number if that is narrower than
//! the type's, its default (`None` is NULL), whether a change takes effect at a reload (`Live`) or only at the next
//! start (`Restart`), and whether this version uses it (`Built`) or not (`Moot`: the setting has no meaning here).
//!
//! Always true: the order is that of PgBouncer's `SHOW CONFIG`, with our own settings after it.
//! Not here: combinations of values (`check`), the values for one pool (`limits`).

use super::directory::Ldap;
use super::kinds::{
    Check, Count, FileMode, Flag, MillisOrNever, MillisOrOff, Names, Port, Seconds, SecondsOrOff, Span, Text,
    TextOrNone, Timeout, Word,
};
use super::otlp::{Endpoint, Headers, Ratio};
use super::policy::PolicyList;
use super::shape::catalog;
use super::words::{AuthType, IoBackend, LogFormat, NotifyLost, SessionState, TlsMode};
use pool::Mode;
use protocol::state::Unseen;

catalog! {
    /// Users who may do everything on the console.
    admin_users: Names = Some(""), Live, Built;
    /// Append the client's address to its application_name at login.
    application_name_add_host: Flag = Some("0"), Live, Built;
    /// The database in which auth_query runs.
    auth_dbname: TextOrNone = None, Live, Built;
    /// The file of users and their secrets.
    auth_file: TextOrNone = None, Live, Built;
    /// The file of rules for auth_type hba.
    auth_hba_file: TextOrNone = Some(""), Live, Built;
    /// The file that maps system users to database users.
    auth_ident_file: TextOrNone = None, Live, Built;
    /// How a directory is asked with auth_type ldap, as behind the method ldap of an HBA line.
    auth_ldap_options: Ldap = None, Live, Built;
    /// The question that asks a server for the secret of a user who is not in auth_file. It is put with pg_catalog first in search_path.
    auth_query: Text = Some("SELECT rolname, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() THEN NULL ELSE rolpassword END FROM pg_catalog.pg_authid WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin"), Live, Built;
    /// How clients prove who they are.
    auth_type: Word<AuthType> = Some("md5"), Live, Built;
    /// Who asks auth_query.
    auth_user: TextOrNone = None, Live, Built;
    /// How long a database made from `*` is kept when nobody uses it; 0 is for ever.
    autodb_idle_timeout: Timeout = Some("3600"), Live, Built;
    /// How long a cancel request may wait for its connection to a server; 0 is for ever.
    cancel_wait_timeout: Timeout = Some("10"), Live, Built;
    /// How long a client may be silent outside a transaction; 0 is for ever.
    client_idle_timeout: Timeout = Some("0"), Live, Built;
    /// How long a login may take, the wait for the first server of a pool included; 0 is for ever.
    client_login_timeout: Timeout = Some("60"), Live, Built;
    /// The suites of TLS 1.3 for clients.
    client_tls13_ciphers: TextOrNone = None, Live, Built;
    /// The authorities whose client certificates are good.
    client_tls_ca_file: TextOrNone = Some(""), Live, Built;
    /// The certificate that clients see.
    client_tls_cert_file: TextOrNone = Some(""), Live, Built;
    /// The ciphers up to TLS 1.2 for clients.
    client_tls_ciphers: Text = Some("default"), Live, Built;
    /// The parameters of the Diffie-Hellman exchange for clients; there is none here but that of elliptic curves.
    client_tls_dheparams: Text = Some("auto"), Live, Moot;
    /// The elliptic curves for clients, by OpenSSL's names; auto is all that are here.
    client_tls_ecdhcurve: Text = Some("auto"), Live, Built;
    /// The private key of the certificate that clients see.
    client_tls_key_file: TextOrNone = Some(""), Live, Built;
    /// The versions of TLS for clients.
    client_tls_protocols: Text = Some("secure"), Live, Built;
    /// How much TLS clients get.
    client_tls_sslmode: Word<TlsMode> = Some("disable"), Live, Built;
    /// The file that these settings come from; a change is for the next reload.
    conffile: TextOrNone = None, Live, Built;
    /// Servers of one pool; 0 is unlimited.
    default_pool_size: Count = Some("20"), Live, Built;
    /// Refuse the simple query protocol.
    disable_pqexec: Flag = Some("0"), Restart, Built;
    /// How long the addresses of a host are believed; with resolv_conf, at most as long as their name server says.
    dns_max_ttl: Span = Some("15"), Live, Built;
    /// How long it is believed that a host has no address.
    dns_nxdomain_ttl: Span = Some("15"), Live, Built;
    /// How often the serial numbers of the zones that hosts are in are asked for; when one has grown, all its names are looked up again at once. 0 is never.
    dns_zone_check_period: Timeout = Some("0"), Live, Built;
    /// How long a client may be silent inside a transaction; 0 is for ever.
    idle_transaction_timeout: Timeout = Some("0"), Live, Built;
    /// Startup parameters that are accepted and dropped.
    ignore_startup_parameters: Names = Some(""), Live, Built;
    /// The name of the service on Windows.
    job_name: Text = Some("pgbouncer"), Restart, Moot;
    /// The TCP addresses to listen on; `*` is all of them, nothing is no TCP.
    listen_addr: Names = Some(""), Restart, Built;
    /// How many connections may wait to be accepted.
    listen_backlog: Count = Some("128"), Restart, Built;
    /// The TCP port to listen on, and the end of the unix socket's name.
    listen_port: Port = Some("6432"), Restart, Built;
    /// Log logins of clients and new servers.
    log_connections: Flag = Some("1"), Live, Built;
    /// Log the end of connections with the reason.
    log_disconnections: Flag = Some("1"), Live, Built;
    /// Log errors that clients are sent.
    log_pooler_errors: Flag = Some("1"), Live, Built;
    /// Log a line of statistics every stats_period.
    log_stats: Flag = Some("1"), Live, Built;
    /// The file to log to; nothing is standard error only.
    logfile: TextOrNone = Some(""), Live, Built;
    /// A notice for every client that logs in.
    login_notify_message: TextOrNone = Some(""), Live, Built;
    /// Clients of the whole process, the console's not counted.
    max_client_conn: Count = Some("100"), Live, Built;
    /// Clients of one database; 0 is unlimited.
    max_db_client_connections: Count = Some("0"), Live, Built;
    /// Servers of one database over all its users; 0 is unlimited.
    max_db_connections: Count = Some("0"), Live, Built;
    /// The largest packet of a client in bytes; a larger one closes the connection.
    max_packet_size: Count [0..=4294967295] = Some("2147483647"), Live, Built;
    /// Prepared statements that a server keeps in transaction and statement pooling; 0 leaves names to the clients.
    max_prepared_statements: Count = Some("200"), Live, Built;
    /// Clients of one user; 0 is unlimited.
    max_user_client_connections: Count = Some("0"), Live, Built;
    /// Servers of one user over all databases; 0 is unlimited.
    max_user_connections: Count = Some("0"), Live, Built;
    /// Servers of one pool that are kept open even if nobody needs them.
    min_pool_size: Count = Some("0"), Live, Built;
    /// Which member of the group of peers this process is; 0 is none. See `[peers]`.
    peer_id: Count [0..=16383] = Some("0"), Live, Built;
    /// The file that holds the number of the process.
    pidfile: TextOrNone = Some(""), Restart, Built;
    /// PgBouncer's buffer per connection in bytes; an idle connection has none here.
    pkt_buf: Count = Some("4096"), Restart, Moot;
    /// When a server is given back: at the end of the session, the transaction or the statement.
    pool_mode: Word<Mode> = Some("session"), Live, Built;
    /// How long a pool without clients and servers is kept; 0 is for ever.
    pool_idle_timeout: Timeout = Some("0"), Live, Built;
    /// How long a query may run; 0 is for ever.
    query_timeout: Timeout = Some("0"), Live, Built;
    /// After how long a waiting client is told that it waits; 0 is never.
    query_wait_notify: SecondsOrOff = Some("5"), Live, Built;
    /// How long a client may wait for a server; 0 is for ever.
    query_wait_timeout: Timeout = Some("120"), Live, Built;
    /// Servers of one pool beyond its size, for clients that have waited for reserve_pool_timeout.
    reserve_pool_size: Count = Some("0"), Live, Built;
    /// How long a client waits before the reserve of its pool is touched; 0 is no reserve.
    reserve_pool_timeout: Timeout = Some("5"), Live, Built;
    /// The file that names the name servers, as resolv.conf(5) describes it; nothing is to ask the system for addresses.
    resolv_conf: TextOrNone = Some(""), Live, Built;
    /// PgBouncer's number of reads per connection and turn.
    sbuf_loopcnt: Count = Some("5"), Live, Moot;
    /// The iterations of SCRAM secrets that are made from plain passwords.
    scram_iterations: Count [1..=2147483647] = Some("4096"), Live, Built;
    /// How long a server must have been idle to be checked before it is lent.
    server_check_delay: Span = Some("30"), Live, Built;
    /// What an idle server is asked before it is lent; `<empty>` is a query without SQL, nothing is no check.
    server_check_query: Check = Some("<empty>"), Live, Built;
    /// How long connecting to a server and logging in may take; 0 is for ever.
    server_connect_timeout: Timeout = Some("15"), Live, Built;
    /// In session mode, close a server that is to be closed as soon as its transaction ends.
    server_fast_close: Flag = Some("0"), Live, Built;
    /// How long a server may be idle; 0 is for ever.
    server_idle_timeout: Timeout = Some("600"), Live, Built;
    /// How old a server may become; 0 is for a single loan.
    server_lifetime: Span = Some("3600"), Live, Built;
    /// The pause after a failed connect or login.
    server_login_retry: Span = Some("15"), Live, Built;
    /// What a server is told between two clients in session mode; nothing is no reset.
    server_reset_query: TextOrNone = Some("DISCARD ALL"), Live, Built;
    /// Reset servers in the other pool modes too.
    server_reset_query_always: Flag = Some("0"), Live, Built;
    /// Lend the server first that has been idle for the longest time, instead of the shortest.
    server_round_robin: Flag = Some("0"), Live, Built;
    /// The suites of TLS 1.3 to servers.
    server_tls13_ciphers: TextOrNone = None, Live, Built;
    /// The authorities whose server certificates are good.
    server_tls_ca_file: TextOrNone = Some(""), Live, Built;
    /// The certificate that servers see.
    server_tls_cert_file: TextOrNone = Some(""), Live, Built;
    /// The ciphers up to TLS 1.2 to servers.
    server_tls_ciphers: Text = Some("default"), Live, Built;
    /// The private key of the certificate that servers see.
    server_tls_key_file: TextOrNone = Some(""), Live, Built;
    /// The versions of TLS to servers.
    server_tls_protocols: Text = Some("secure"), Live, Built;
    /// How much TLS servers get.
    server_tls_sslmode: Word<TlsMode> = Some("prefer"), Live, Built;
    /// Let several processes listen on one port.
    so_reuseport: Flag = Some("0"), Restart, Built;
    /// The period of averages and of the line of statistics.
    stats_period: Seconds [1..=2147483647] = Some("60"), Live, Built;
    /// Users who may look at everything on the console and change nothing.
    stats_users: Names = Some(""), Live, Built;
    /// How long SUSPEND and an online restart wait for everybody to stand still, before they close who does not; 0 is for ever.
    suspend_timeout: Timeout = Some("10"), Live, Built;
    /// Log to syslog.
    syslog: Flag = Some("0"), Live, Built;
    /// The facility of syslog: auth, authpriv, daemon, user, local0 to local7; anything else is daemon.
    syslog_facility: Text = Some("daemon"), Live, Built;
    /// The name in syslog, and in the journal.
    syslog_ident: Text = Some("pgbouncer"), Live, Built;
    /// Accept a TCP connection only when it has sent something, for up to this many seconds; 0 is at once.
    tcp_defer_accept: Count = Some("1"), Live, Built;
    /// Let the system find out whether the other side of a silent TCP connection is still there.
    tcp_keepalive: Flag = Some("1"), Live, Built;
    /// How many unanswered questions end a silent TCP connection; 0 is the system's choice.
    tcp_keepcnt: Count = Some("0"), Live, Built;
    /// How long a TCP connection is silent before the first question; 0 is the system's choice.
    tcp_keepidle: SecondsOrOff = Some("0"), Live, Built;
    /// The time between two questions; 0 is the system's choice.
    tcp_keepintvl: SecondsOrOff = Some("0"), Live, Built;
    /// The system's buffers of a TCP connection in bytes; 0 is the system's choice.
    tcp_socket_buffer: Count = Some("0"), Live, Built;
    /// How long sent bytes may stay unacknowledged; 0 is the system's choice.
    tcp_user_timeout: MillisOrOff = Some("0"), Live, Built;
    /// Parameters that follow the client from server to server, besides those that always do.
    track_extra_parameters: Names = Some("IntervalStyle"), Restart, Built;
    /// How long a transaction may last; 0 is for ever.
    transaction_timeout: Timeout = Some("0"), Live, Built;
    /// The directory of the unix socket, or `@` and an abstract name; nothing is no unix socket.
    unix_socket_dir: TextOrNone = Some("/tmp"), Restart, Built;
    /// The group of the unix socket.
    unix_socket_group: TextOrNone = Some(""), Restart, Built;
    /// The permissions of the unix socket.
    unix_socket_mode: FileMode = Some("0777"), Restart, Built;
    /// The system user to become after the start.
    user: TextOrNone = None, Restart, Built;
    /// How much is logged: 0, 1 debug, 2 everything.
    verbose: Count = None, Live, Built;

    /// Threads that carry the traffic; 0 is as many as processors are available.
    workers: Count [0..=255] = Some("0"), Restart, Built;
    /// Which interface of the kernel moves the bytes; auto takes io_uring where it is allowed.
    io_backend: Word<IoBackend> = Some("auto"), Restart, Built;
    /// Logins to servers that one pool may have under way together.
    server_dials_max: Count [1..=1000] = Some("4"), Live, Built;
    /// Replication connections of one pool, apart from its size; 0 counts them in it.
    replication_pool_size: Count = Some("0"), Live, Built;
    /// How long a server whose client vanished may take to be proven clean before it is closed.
    server_mend_timeout: Span = Some("5"), Live, Built;
    /// How long a shutdown that waits may wait before it closes the clients that are left; 0 is for ever.
    shutdown_timeout: Timeout = Some("0"), Live, Built;
    /// How long what auth_query has told of a user is believed; 0 asks at each login, as PgBouncer does.
    auth_query_cache_ttl: Timeout = Some("0"), Live, Built;
    /// The unix socket at which syslog listens.
    syslog_socket: Text = Some("/dev/log"), Live, Built;
    /// Whether what clients set in their sessions follows them in transaction pooling, or stays on the server as with PgBouncer.
    session_state: Word<SessionState> = Some("follow"), Live, Built;
    /// What is done about what cannot follow a client and keeps its server: `pin`, `warn`, `reject`, for all kinds or by kind (`virtualize`: listen, statement).
    session_policy: PolicyList = Some(""), Live, Built;
    /// Servers of one pool that may be kept by clients for what they hold; who would keep one more is disconnected. 0 is unlimited.
    max_pinned_servers: Count = Some("0"), Live, Built;
    /// How long a server may be kept by a client for what that holds; 0 is for ever.
    pinned_server_timeout: Timeout = Some("0"), Live, Built;
    /// How clients that listen are told that notifications may have been lost: `disconnect`, `notice`, or `notify` on `notify_lost_channel`.
    notify_lost: Word<NotifyLost> = Some("disconnect"), Live, Built;
    /// The channel on which clients are told that notifications may have been lost, where `notify_lost = notify`.
    notify_lost_channel: Text = Some("trunkline_lost"), Live, Built;
    /// Bytes of notifications that wait for one client, which is in a transaction or does not read; more are lost, and it is told so. 0 is any number.
    notify_queue_size: Count = Some("1048576"), Live, Built;
    /// Bytes that are remembered for one client: its prepared statements with their names, and messages that have to be received whole. A client that needs more is closed. 0 is any number.
    max_client_memory: Count = Some("33554432"), Live, Built;
    /// Channels to which one session listens for one client, in place of its server. Who listens to more keeps a server. 0 is any number.
    max_client_channels: Count = Some("1000"), Live, Built;
    /// Channels to which one session listens for all clients of a database together. Who listens to others then keeps a server. 0 is any number.
    max_db_channels: Count = Some("20000"), Live, Built;
    /// How often idle servers are searched for advisory locks that no client is known to hold; 0 is never.
    lock_sweep_interval: Timeout = Some("60"), Live, Built;
    /// Whether a statement without a name whose text comes again is prepared once and keeps its plan, like one with a name.
    reuse_unnamed_statements: Flag = Some("0"), Live, Built;
    /// How long a server stays with a client that has drawn numbers from sequences, where its user's programs ask for them later (`currval`, `lastval`); 0 is not at all.
    sequence_hold_time: Timeout = Some("1"), Live, Built;
    /// What is done about what functions may have changed in a session: `verify` asks the server, `pin` leaves it to its client, `ignore` takes it to be nothing.
    session_unseen: Word<Unseen> = Some("verify"), Live, Built;
    /// Whether servers are asked what their sessions keep also where that is known, and what they tell is compared with it; for finding faults, since it costs a query for each transaction.
    session_verify: Flag = Some("0"), Live, Built;
    /// How often a password is hashed by SCRAM because somebody else says so: a server that is logged in to, or a SCRAM secret against which a password in clear text is checked. Who asks for more is refused.
    scram_iterations_max: Count [1..=2147483647] = Some("1000000"), Live, Built;
    /// Connections that have not logged in: silent ones, handshakes, logins under way, cancel requests. One more takes the place of the youngest of the address that has most, or is refused. 0 is twice max_client_conn, and at least 1000.
    max_unauthenticated_connections: Count = Some("0"), Live, Built;
    /// So many requests a second are looked at by each worker to tell which statements take the time (`SHOW STATEMENTS`), or all where there are fewer; 0 is none.
    track_statements: Count = Some("50"), Live, Built;
    /// Where HTTP is listened for, if http_port is set: addresses, or `*` for all. From anywhere but this machine it takes a password of a console user, over TLS.
    http_listen_addr: Names = Some("127.0.0.1"), Restart, Built;
    /// The port for HTTP, which serves metrics, health, the console's tables and a page to look at; 0 is none.
    http_port: Port = Some("0"), Restart, Built;
    /// How lines of the log look: as PgBouncer's, or each as one JSON object, with its parts by name.
    log_format: Word<LogFormat> = Some("text"), Live, Built;
    /// How long somebody has waited for a server when the log says that the pool begins to wait, and who has its servers; another line says when that is over. 0 is never.
    log_pool_wait: Timeout = Some("1"), Live, Built;
    /// Log each transaction that has lasted so long, with where its time has gone and its longest statement without values; 0 logs all, -1 none.
    log_min_duration_transaction: MillisOrNever = Some("-1"), Live, Built;
    /// `TRACE` on the console shows the texts of statements as they came, with their values and parameters, and errors as they are. What speaks of a password is shown without values all the same.
    trace_values: Flag = Some("0"), Live, Built;
    /// The collector of OpenTelemetry to which spans of statements that carry a `traceparent` are posted (OTLP over HTTP, as JSON): an http or https URL, without a path that of `/v1/traces`. Nothing is none: no statement is looked at.
    otlp_endpoint: Endpoint = Some(""), Live, Built;
    /// Headers for that collector, such as `api-key=x`; `%2C` in a value is a comma. Values are never shown.
    otlp_headers: Headers = Some(""), Live, Built;
    /// The file of the authorities whose certificates are good for that collector; nothing is those of the system.
    otlp_ca_file: TextOrNone = Some(""), Live, Built;
    /// Which part of the traces whose `traceparent` says that they are sampled has spans here, from 0 to 1. The trace's id decides, so that all spans of a trace are there, or none.
    otlp_sample_ratio: Ratio = Some("1"), Live, Built;
    /// What the pooler is called in its spans (`service.name`).
    otlp_service_name: Text = Some("trunkline"), Live, Built;
    /// Spans have the texts of statements as they came, with their values. What speaks of a password is without values all the same.
    otlp_values: Flag = Some("0"), Live, Built;
}
