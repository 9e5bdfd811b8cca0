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
    Check, Count, FileMode, Flag, MillisOrNever, MillisOrOff, Names, Port, Reset, Seconds, SecondsOrOff, Span, Text,
    TextOrNone, Timeout, Word,
};
use super::otlp::{Endpoint, Headers, Ratio};
use super::policy::PolicyList;
use super::shape::catalog;
use super::words::{AuthType, IoBackend, LogFormat, NotifyLost, ReadRouting, SessionState, TlsMode};
use crate::network::Networks;
use pool::Mode;
use protocol::state::Unseen;

catalog! {
    /// Users who may run every command on the console.
    admin_users: Names = Some(""), Live, Built;
    /// Append the client's address to its application_name at login.
    application_name_add_host: Flag = Some("0"), Live, Built;
    /// The database in which auth_query runs; if not set, the database of the client.
    auth_dbname: TextOrNone = None, Live, Built;
    /// The file with the user names and their secrets.
    auth_file: TextOrNone = None, Live, Built;
    /// The file with the rules for auth_type hba.
    auth_hba_file: TextOrNone = Some(""), Live, Built;
    /// The file that maps system users to database users.
    auth_ident_file: TextOrNone = None, Live, Built;
    /// How an LDAP directory is queried with auth_type ldap; the options are those of the method ldap in an HBA line.
    auth_ldap_options: Ldap = None, Live, Built;
    /// The query that fetches the secret of a user who is not in auth_file from a server. It runs with pg_catalog first in search_path.
    auth_query: Text = Some("SELECT rolname, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() THEN NULL ELSE rolpassword END FROM pg_catalog.pg_authid WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin"), Live, Built;
    /// How clients authenticate.
    auth_type: Word<AuthType> = Some("md5"), Live, Built;
    /// The user that runs auth_query.
    auth_user: TextOrNone = None, Live, Built;
    /// How long an unused database made from `*` is kept; 0 means no limit.
    autodb_idle_timeout: Timeout = Some("3600"), Live, Built;
    /// How long a cancel request may take to reach its server; 0 means no limit.
    cancel_wait_timeout: Timeout = Some("10"), Live, Built;
    /// How long a client may be idle outside a transaction; 0 means no limit.
    client_idle_timeout: Timeout = Some("0"), Live, Built;
    /// How long a login may take, including the wait for the first server of a pool; 0 means no limit.
    client_login_timeout: Timeout = Some("60"), Live, Built;
    /// The TLS 1.3 cipher suites for clients.
    client_tls13_ciphers: TextOrNone = None, Live, Built;
    /// The certificate authorities that client certificates are verified against.
    client_tls_ca_file: TextOrNone = Some(""), Live, Built;
    /// The certificate that is presented to clients.
    client_tls_cert_file: TextOrNone = Some(""), Live, Built;
    /// The ciphers for clients up to TLS 1.2.
    client_tls_ciphers: Text = Some("default"), Live, Built;
    /// The parameters of the Diffie-Hellman key exchange with clients; only elliptic curves are supported here.
    client_tls_dheparams: Text = Some("auto"), Live, Moot;
    /// The elliptic curves for clients, by OpenSSL's names; auto means all that are supported.
    client_tls_ecdhcurve: Text = Some("auto"), Live, Built;
    /// The private key of client_tls_cert_file.
    client_tls_key_file: TextOrNone = Some(""), Live, Built;
    /// The TLS versions for clients.
    client_tls_protocols: Text = Some("secure"), Live, Built;
    /// Whether clients may or must use TLS, and whether their certificates are verified.
    client_tls_sslmode: Word<TlsMode> = Some("disable"), Live, Built;
    /// The configuration file that a reload reads; a change takes effect at the next reload.
    conffile: TextOrNone = None, Live, Built;
    /// Servers that one pool may have; 0 means unlimited.
    default_pool_size: Count = Some("20"), Live, Built;
    /// Refuse the simple query protocol.
    disable_pqexec: Flag = Some("0"), Restart, Built;
    /// How long the addresses of a host are cached; with resolv_conf, no longer than the TTL that its name server returns.
    dns_max_ttl: Span = Some("15"), Live, Built;
    /// How long a failed lookup of a host is cached.
    dns_nxdomain_ttl: Span = Some("15"), Live, Built;
    /// How often the serial numbers (SOA) of the hosts' zones are queried; when one has grown, all names of that zone are looked up again at once. 0 disables this.
    dns_zone_check_period: Timeout = Some("0"), Live, Built;
    /// How long a client may be idle inside a transaction; 0 means no limit.
    idle_transaction_timeout: Timeout = Some("0"), Live, Built;
    /// Startup parameters that are accepted and ignored.
    ignore_startup_parameters: Names = Some(""), Live, Built;
    /// The name of the Windows service.
    job_name: Text = Some("pgbouncer"), Restart, Moot;
    /// The TCP addresses to listen on; `*` means all, empty means no TCP.
    listen_addr: Names = Some(""), Restart, Built;
    /// How many connections may wait to be accepted (the backlog of listen(2)).
    listen_backlog: Count = Some("128"), Restart, Built;
    /// The TCP port to listen on; also the last part of the name of the unix socket.
    listen_port: Port = Some("6432"), Restart, Built;
    /// Log logins of clients and new server connections.
    log_connections: Flag = Some("1"), Live, Built;
    /// Log the end of each connection with its reason.
    log_disconnections: Flag = Some("1"), Live, Built;
    /// Log the errors that the pooler sends to clients.
    log_pooler_errors: Flag = Some("1"), Live, Built;
    /// Log a line of statistics every stats_period.
    log_stats: Flag = Some("1"), Live, Built;
    /// The file to log to; empty means standard error only.
    logfile: TextOrNone = Some(""), Live, Built;
    /// A notice that every client gets when it logs in.
    login_notify_message: TextOrNone = Some(""), Live, Built;
    /// Clients that the whole process may have; console connections are not counted.
    max_client_conn: Count = Some("100"), Live, Built;
    /// Clients that one database may have; 0 means unlimited.
    max_db_client_connections: Count = Some("0"), Live, Built;
    /// Servers that one database may have for all its users together; 0 means unlimited.
    max_db_connections: Count = Some("0"), Live, Built;
    /// The largest message of a client in bytes; a larger one closes the connection.
    max_packet_size: Count [0..=4294967295] = Some("2147483647"), Live, Built;
    /// Prepared statements that are kept on one server in transaction and statement pooling; 0 passes the clients' statement names on unchanged.
    max_prepared_statements: Count = Some("200"), Live, Built;
    /// Clients that one user may have; 0 means unlimited.
    max_user_client_connections: Count = Some("0"), Live, Built;
    /// Servers that one user may have in all databases together; 0 means unlimited.
    max_user_connections: Count = Some("0"), Live, Built;
    /// Servers of one pool that are kept open even if no client needs them.
    min_pool_size: Count = Some("0"), Live, Built;
    /// The number of this process in its group of peers; 0 means that it has no peers. See `[peers]`.
    peer_id: Count [0..=16383] = Some("0"), Live, Built;
    /// The file that holds the process ID.
    pidfile: TextOrNone = Some(""), Restart, Built;
    /// PgBouncer's buffer for each connection, in bytes; here connections have no buffers.
    pkt_buf: Count = Some("4096"), Restart, Moot;
    /// When a server is given back: at the end of the session, the transaction or the statement.
    pool_mode: Word<Mode> = Some("session"), Live, Built;
    /// How long a pool without clients and servers is kept; 0 means no limit.
    pool_idle_timeout: Timeout = Some("0"), Live, Built;
    /// How long a query may run; 0 means no limit.
    query_timeout: Timeout = Some("0"), Live, Built;
    /// After how long a waiting client gets a notice that it waits for a server; 0 disables the notice.
    query_wait_notify: SecondsOrOff = Some("5"), Live, Built;
    /// How long a client may wait for a server; 0 means no limit.
    query_wait_timeout: Timeout = Some("120"), Live, Built;
    /// Additional servers of one pool, for clients that have waited for reserve_pool_timeout.
    reserve_pool_size: Count = Some("0"), Live, Built;
    /// How long a client waits before its pool opens servers of its reserve; 0 disables the reserve.
    reserve_pool_timeout: Timeout = Some("5"), Live, Built;
    /// The file with the name servers to query, in the format of resolv.conf(5); if empty, the system resolves names.
    resolv_conf: TextOrNone = Some(""), Live, Built;
    /// PgBouncer's limit of reads for one connection in one turn of its event loop.
    sbuf_loopcnt: Count = Some("5"), Live, Moot;
    /// The number of iterations for SCRAM secrets that are made from plain passwords.
    scram_iterations: Count [1..=2147483647] = Some("4096"), Live, Built;
    /// How long a server must have been idle to be checked by server_check_query before it is lent.
    server_check_delay: Span = Some("30"), Live, Built;
    /// The query that checks an idle server before it is lent; `<empty>` is an empty query, an empty value disables the check.
    server_check_query: Check = Some("<empty>"), Live, Built;
    /// How long connecting to a server and logging in may take; 0 means no limit.
    server_connect_timeout: Timeout = Some("15"), Live, Built;
    /// In session mode, close a server that is to be replaced, and its client, when its transaction ends instead of when the client leaves.
    server_fast_close: Flag = Some("0"), Live, Built;
    /// How long a server may be idle before it is closed; 0 means no limit.
    server_idle_timeout: Timeout = Some("600"), Live, Built;
    /// The age at which a server is closed when no client has it; with 0 it is closed after its first loan.
    server_lifetime: Span = Some("3600"), Live, Built;
    /// The pause after a failed connect or login to a server.
    server_login_retry: Span = Some("15"), Live, Built;
    /// The query that resets a server between two clients in session mode; empty means no reset.
    server_reset_query: Reset = Some("DISCARD ALL"), Live, Built;
    /// Run server_reset_query in the other pool modes, too.
    server_reset_query_always: Flag = Some("0"), Live, Built;
    /// Lend the server that has been idle for the longest time first, instead of the one that was used last.
    server_round_robin: Flag = Some("0"), Live, Built;
    /// The TLS 1.3 cipher suites for servers.
    server_tls13_ciphers: TextOrNone = None, Live, Built;
    /// The certificate authorities that server certificates are verified against.
    server_tls_ca_file: TextOrNone = Some(""), Live, Built;
    /// The certificate that is presented to servers.
    server_tls_cert_file: TextOrNone = Some(""), Live, Built;
    /// The ciphers for servers up to TLS 1.2.
    server_tls_ciphers: Text = Some("default"), Live, Built;
    /// The private key of server_tls_cert_file.
    server_tls_key_file: TextOrNone = Some(""), Live, Built;
    /// The TLS versions for servers.
    server_tls_protocols: Text = Some("secure"), Live, Built;
    /// Whether servers may or must use TLS, and whether their certificates are verified.
    server_tls_sslmode: Word<TlsMode> = Some("prefer"), Live, Built;
    /// Allow several processes to listen on the same port (SO_REUSEPORT).
    so_reuseport: Flag = Some("0"), Restart, Built;
    /// The period over which averages are taken, and after which the line of statistics is logged.
    stats_period: Seconds [1..=2147483647] = Some("60"), Live, Built;
    /// Users who may run the read-only commands on the console.
    stats_users: Names = Some(""), Live, Built;
    /// How long SUSPEND and an online restart wait for connections to come to rest before they close those that are still busy; 0 means no limit.
    suspend_timeout: Timeout = Some("10"), Live, Built;
    /// Log to syslog.
    syslog: Flag = Some("0"), Live, Built;
    /// The syslog facility: auth, authpriv, daemon, user, local0 to local7; anything else means daemon.
    syslog_facility: Text = Some("daemon"), Live, Built;
    /// The name of the program in syslog and in the journal.
    syslog_ident: Text = Some("pgbouncer"), Live, Built;
    /// Accept a TCP connection only when it has sent data, or after this many seconds; 0 accepts it at once.
    tcp_defer_accept: Count = Some("1"), Live, Built;
    /// Let the system detect dead TCP connections by keepalive probes.
    tcp_keepalive: Flag = Some("1"), Live, Built;
    /// The number of unanswered keepalive probes that end a TCP connection; 0 means the system's default.
    tcp_keepcnt: Count = Some("0"), Live, Built;
    /// How long a TCP connection is idle before the first keepalive probe; 0 means the system's default.
    tcp_keepidle: SecondsOrOff = Some("0"), Live, Built;
    /// The time between two keepalive probes; 0 means the system's default.
    tcp_keepintvl: SecondsOrOff = Some("0"), Live, Built;
    /// The size of the system's send and receive buffers of a TCP connection in bytes; 0 means the system's default.
    tcp_socket_buffer: Count = Some("0"), Live, Built;
    /// How long sent data may stay unacknowledged before the system closes the TCP connection; 0 means the system's default.
    tcp_user_timeout: MillisOrOff = Some("0"), Live, Built;
    /// Parameters that follow the client from server to server, in addition to those that always do; one that servers do not report is a setting.
    track_extra_parameters: Names = Some("IntervalStyle"), Restart, Built;
    /// How long a transaction may last; 0 means no limit.
    transaction_timeout: Timeout = Some("0"), Live, Built;
    /// The directory of the unix socket, or `@` and the name of an abstract socket; empty means no unix socket.
    unix_socket_dir: TextOrNone = Some("/tmp"), Restart, Built;
    /// The group of the unix socket.
    unix_socket_group: TextOrNone = Some(""), Restart, Built;
    /// The permissions of the unix socket.
    unix_socket_mode: FileMode = Some("0777"), Restart, Built;
    /// The system user that the process becomes after the start.
    user: TextOrNone = None, Restart, Built;
    /// How much is logged: 0 is the normal log, 1 adds DEBUG lines, 2 logs everything.
    verbose: Count = None, Live, Built;

    /// The number of threads that carry the traffic; 0 means one for each available processor.
    workers: Count [0..=255] = Some("0"), Restart, Built;
    /// The kernel interface for network traffic; auto uses io_uring where the kernel and the container allow it, otherwise epoll.
    io_backend: Word<IoBackend> = Some("auto"), Restart, Built;
    /// Concurrent logins to servers of one pool.
    server_dials_max: Count [1..=1000] = Some("4"), Live, Built;
    /// Replication connections that one pool may have, not counted in its size; 0 counts them in its size.
    replication_pool_size: Count = Some("0"), Live, Built;
    /// How long cleaning a server may take whose client has left in the middle of something, before the server is closed. It also limits the state probe and applying the settings of a client.
    server_mend_timeout: Span = Some("5"), Live, Built;
    /// How long a shutdown waits for clients or servers before it closes the remaining clients; 0 means no limit. A shutdown that waits for clients lends no more servers when a quarter of it is left (at most ten seconds), so that transactions that have begun can end.
    shutdown_timeout: Timeout = Some("0"), Live, Built;
    /// How long the results of auth_query are cached; 0 runs the query at each login, as PgBouncer does.
    auth_query_cache_ttl: Timeout = Some("0"), Live, Built;
    /// The unix socket on which syslog listens.
    syslog_socket: Text = Some("/dev/log"), Live, Built;
    /// `follow`: session state follows its client from server to server in transaction pooling. `pgbouncer`: it stays on the server, as with PgBouncer.
    session_state: Word<SessionState> = Some("follow"), Live, Built;
    /// What to do about session state that cannot follow a client and therefore pins its server: `pin`, `warn` or `reject`, for all kinds or by kind (`virtualize` for listen and statement).
    session_policy: PolicyList = Some(""), Live, Built;
    /// Servers of one pool that clients may keep because of their session state; a client that would keep one more is disconnected. 0 means unlimited.
    max_pinned_servers: Count = Some("0"), Live, Built;
    /// How long a client may keep a server because of its session state; 0 means no limit.
    pinned_server_timeout: Timeout = Some("0"), Live, Built;
    /// How listening clients are informed that notifications may have been lost: `disconnect` closes them, `notice` sends a notice, `notify` a notification on `notify_lost_channel`.
    notify_lost: Word<NotifyLost> = Some("disconnect"), Live, Built;
    /// The channel of the notification that `notify_lost = notify` sends.
    notify_lost_channel: Text = Some("trunkline_lost"), Live, Built;
    /// Bytes of notifications that may wait for one client that is in a transaction or does not read. Further ones are lost, and the client is informed of it (notify_lost). 0 means unlimited.
    notify_queue_size: Count = Some("1048576"), Live, Built;
    /// Bytes that may be kept for one client: its prepared statements with their names, and messages that have to be received whole. A client that needs more is closed. 0 means unlimited.
    max_client_memory: Count = Some("33554432"), Live, Built;
    /// Channels that the listener of a database may LISTEN to for one client. A client that listens to more keeps its own server. 0 means unlimited.
    max_client_channels: Count = Some("1000"), Live, Built;
    /// Channels that the listener of a database may LISTEN to for all clients together. A client that listens to further ones keeps its own server. 0 means unlimited.
    max_db_channels: Count = Some("20000"), Live, Built;
    /// How often idle servers are searched for advisory locks that no client is known to hold; 0 disables the search.
    lock_sweep_interval: Timeout = Some("60"), Live, Built;
    /// Whether an unnamed prepared statement whose text is seen again is prepared once and keeps its plan, like a named one.
    reuse_unnamed_statements: Flag = Some("0"), Live, Built;
    /// How long a client keeps its server after it has drawn numbers from sequences, if its user's programs ask for them in a later transaction (`currval`, `lastval`); 0 disables this.
    sequence_hold_time: Timeout = Some("1"), Live, Built;
    /// What to do about session state that functions may have changed: `verify` asks the server, `pin` leaves the server to its client, `ignore` assumes that nothing has changed.
    session_unseen: Word<Unseen> = Some("verify"), Live, Built;
    /// Whether the server is asked for its session state even if that is known, and the answer compared with the known state. It serves to find faults in Trunkline, and costs a query for each transaction.
    session_verify: Flag = Some("0"), Live, Built;
    /// The most SCRAM iterations with which the pooler hashes a password if others determine their number: the server that it logs in to, or the secret against which a password in clear text is checked. A login that asks for more is refused.
    scram_iterations_max: Count [1..=2147483647] = Some("1000000"), Live, Built;
    /// Connections that have not logged in: silent ones, TLS handshakes, logins under way, cancel requests. When the limit is reached, a new connection replaces the youngest one from the address that has most of them, or is refused. 0 means twice max_client_conn, and at least 1000.
    max_unauthenticated_connections: Count = Some("0"), Live, Built;
    /// How many requests a second each worker samples for `SHOW STATEMENTS`; if there are fewer, all of them. 0 samples none.
    track_statements: Count = Some("50"), Live, Built;
    /// The addresses to listen on for HTTP, if http_port is set; `*` means all. Requests from other machines need TLS and the password of a console user.
    http_listen_addr: Names = Some("127.0.0.1"), Restart, Built;
    /// The port for HTTP, which serves metrics, health checks, the console's tables and a page for browsers; 0 disables HTTP.
    http_port: Port = Some("0"), Restart, Built;
    /// The format of log lines: `text` is PgBouncer's, `json` writes each line as one JSON object.
    log_format: Word<LogFormat> = Some("text"), Live, Built;
    /// How long a client must have waited for a server before the log says that its pool begins to wait, and which clients have the servers; another line is logged when the wait is over. 0 disables both.
    log_pool_wait: Timeout = Some("1"), Live, Built;
    /// Log each transaction that has lasted at least this long, with its time by phase and its longest statement without values; 0 logs all, -1 none.
    log_min_duration_transaction: MillisOrNever = Some("-1"), Live, Built;
    /// Whether `TRACE` on the console shows statements as they arrived, with their values and parameters, and errors in full. Statements that mention a password are shown without values all the same.
    trace_values: Flag = Some("0"), Live, Built;
    /// The OpenTelemetry collector to which spans are posted (OTLP over HTTP, as JSON) for statements that carry a `traceparent`: an http or https URL; without a path, `/v1/traces` is used. If empty, no spans are made.
    otlp_endpoint: Endpoint = Some(""), Live, Built;
    /// HTTP headers for the collector, such as `api-key=x`; `%2C` in a value stands for a comma. Their values are never shown.
    otlp_headers: Headers = Some(""), Live, Built;
    /// The file with the certificate authorities that the collector's certificate is verified against; if empty, those of the system.
    otlp_ca_file: TextOrNone = Some(""), Live, Built;
    /// The ratio, from 0 to 1, of traces sampled by the application (as `traceparent` says) for which spans are made. The trace ID decides, so that a trace has either all of its spans or none.
    otlp_sample_ratio: Ratio = Some("1"), Live, Built;
    /// The name of the pooler in its spans (`service.name`).
    otlp_service_name: Text = Some("trunkline"), Live, Built;
    /// Whether spans contain statements as they arrived, with their values. Statements that mention a password are without values all the same.
    otlp_values: Flag = Some("0"), Live, Built;
    /// The addresses and networks of proxies, such as HAProxy or a load balancer; `unix` stands for the Unix socket. Each connection from there must begin with a PROXY protocol header, version 1 or 2, and the address in it is the client's everywhere. From other addresses no such header is accepted. If empty, from none.
    proxy_protocol_from: Networks = Some(""), Live, Built;
    /// Which requests of the clients of a cluster's primary go to its replicas: `off`: none; `explicit`: those that say so, by a comment or as read-only transactions; `automatic`: besides, each statement outside a transaction that is proven only to read.
    read_routing: Word<ReadRouting> = Some("off"), Live, Built;
    /// A further TCP port, at the addresses of `listen_addr`, whose clients belong to replicas: as if each said `trunkline.target_session_attrs=standby` in its startup packet, unless it says something else there. 0: there is none.
    listen_port_replica: Port = Some("0"), Restart, Built;
    /// The zone in which this pooler runs: of the hosts of a database those of the same zone (`zones=`) are used first, and others only while none of these can be used. Empty: zones do not matter.
    zone: Text = Some(""), Live, Built;
}
