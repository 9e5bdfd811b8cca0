//! The meaning of each console column, for the reference page.
//!
//! Always true: every column of every table has a meaning; an entry for a table takes precedence over one for all
//! tables.
//! Not here: the columns themselves (the other files), the purpose of a table (its `doc`).

/// Returns the meaning of a column of a table; empty if there is no entry.
pub(crate) fn meaning(table: &str, column: &str) -> &'static str {
    let of =
        |tables: &str| MEANINGS.iter().find(|(of, name, _)| *name == column && of.split(' ').any(|one| one == tables));
    of(table).or_else(|| of(ANY)).map_or("", |(_, _, meaning)| meaning)
}

/// Tables, a column, and its meaning there.
type Meaning = (&'static str, &'static str, &'static str);

/// All tables without an entry of their own.
const ANY: &str = "*";

const MEANINGS: &[Meaning] = &[
    ("*", "database", "the database, by the name under which clients connect to it"),
    ("*", "user", "the user that the servers log in as"),
    ("CLIENTS", "user", "the user that the client has logged in as"),
    ("SERVERS", "user", "the user that the pooler has logged in as"),
    (
        "SOCKETS ACTIVE_SOCKETS FDS",
        "user",
        "the user that the client has logged in as, or that the pooler has logged in as at the server",
    ),
    ("CLIENTS", "state", "`active` with a server, `waiting` for one, or `idle`"),
    (
        "SERVERS",
        "state",
        "`active` (lent to a client), `idle`, `used` (idle, to be checked), `tested`, `being_canceled`, `new` (being opened)",
    ),
    ("CLIENTS", "request_time", "when the client last sent a request"),
    ("SERVERS", "request_time", "when the server last got a request"),
    (
        "CLIENTS",
        "wait",
        "seconds that the client has waited for a server, or that its current query has taken on its server",
    ),
    ("SERVERS", "wait", "seconds that the current query has taken"),
    ("CLIENTS", "close_needed", "0"),
    ("CLIENTS", "link", "the name in the log of the server that the client has; empty if it has none"),
    ("SERVERS", "link", "the name in the log of the client that has the server; empty if none has"),
    ("CLIENTS", "remote_pid", "the process ID of the program at the other end of a unix socket; 0 with TCP"),
    ("SERVERS", "remote_pid", "the process ID of the server's backend"),
    ("CLIENTS", "prepared_statements", "prepared statements with a name that the client has"),
    ("SERVERS", "prepared_statements", "prepared statements on the server"),
    ("CLIENTS", "state_detail", "more detail than `state`: what the client waits for, or the phase of its transaction"),
    (
        "SERVERS",
        "state_detail",
        "more detail than `state`: the step of its login or cleanup, or the phase of its client's transaction",
    ),
    ("SERVERS", "application_name", "the `application_name` of its session"),
    ("SERVERS", "id", "the number in decimal; the log shows it in hexadecimal"),
    ("*", "application_name", "the `application_name` of the client"),
    ("PINS APPLICATIONS", "user", "the user that the client has logged in as"),
    (
        "LOCKS",
        "user",
        "the user that the client has logged in as; of the server if no client is known to hold the lock",
    ),
    ("EVENTS", "user", "the user concerned, or the one who gave the order"),
    ("*", "addr", "the remote address; `unix` for a unix socket"),
    ("*", "port", "the remote port"),
    ("*", "client", "the client's name in the log, such as `C-0x1f`, which `KILL_CLIENT` accepts"),
    ("*", "server", "the server connection's name in the log, such as `S-0x2c`"),
    (
        "*",
        "remote_pid",
        "the process ID of the server's backend, or of the program at the other end of a client's unix socket",
    ),
    ("*", "age", "seconds since then"),
    ("*", "statement", "the statement, without its values"),
    ("*", "host", "its host"),
    ("*", "pool_size", "servers that each pool may have"),
    (
        "*",
        "reserve_pool_size",
        "additional servers of each pool, for clients that have waited for `reserve_pool_timeout`",
    ),
    ("*", "pool_mode", "when a server is given back: `session`, `transaction` or `statement`"),
    ("*", "load_balance_hosts", "how one of several hosts is chosen"),
    ("*", "cl_active_cancel_req", "cancel requests that have been forwarded and are not finished yet"),
    ("*", "cl_waiting_cancel_req", "cancel requests that have not been forwarded yet"),
    ("*", "sv_active_cancel", "connections that carry cancel requests"),
    ("*", "sv_login", "connections that are being opened or log in"),
    ("PINS", "ends_by", "the SQL that ends it, or `disconnect`"),
    ("WAITS", "ends_by", "the timeout that ends this"),
    ("CONFIG", "key", "the name of the setting"),
    ("CONFIG", "value", "its value; NULL if it was never set and has no default"),
    ("CONFIG", "default", "its default"),
    ("CONFIG", "changeable", "`yes` if a reload or `SET` changes it, `no` if only a restart does"),
    ("STATE", "key", "`active`, `paused`, `suspended`; also `shutdown` during a shutdown that waits"),
    ("STATE", "value", "`yes` or `no`; for a shutdown, what it waits for and how long"),
    ("TOTALS", "name", "the counter or average, by its name in `SHOW STATS`"),
    ("TOTALS", "value", "its sum over all databases"),
    ("VERSION", "version", "PgBouncer's version, in one row"),
    ("LISTS", "list", "the name of a list, or of a counter"),
    ("LISTS", "items", "the number of entries of the list, or the value of the counter"),
    ("MEM", "name", "the name of the table"),
    ("MEM", "size", "bytes of one entry"),
    ("MEM", "used", "entries in use"),
    ("MEM", "free", "entries that are allocated and unused"),
    ("MEM", "memtotal", "bytes of all entries"),
    ("DATABASES", "name", "the database, by the name under which clients connect to it"),
    ("DATABASES", "host", "its host or hosts; NULL for the unix socket"),
    ("DATABASES", "port", "its port"),
    ("DATABASES", "database", "its name on the server"),
    ("DATABASES", "force_user", "the user of all its servers, if its line in the configuration has `user=`"),
    ("DATABASES", "min_pool_size", "servers that are kept open for each pool"),
    ("DATABASES", "server_lifetime", "the age in seconds at which a server is closed when no client has it"),
    ("DATABASES", "max_connections", "servers of all its pools together (`max_db_connections`); 0 is unlimited"),
    ("DATABASES", "current_connections", "servers that it has at present"),
    ("DATABASES", "max_client_connections", "clients that it may have (`max_db_client_connections`); 0 is unlimited"),
    ("DATABASES", "current_client_connections", "clients that it has at present"),
    (
        "DATABASES",
        "paused",
        "1 if this database was paused by `PAUSE` or `KILL`; `SHOW STATE` shows whether everything is paused",
    ),
    (
        "DATABASES",
        "paused_until",
        "when it resumes by itself (`PAUSE ... FOR`); NULL if it is not paused, or until `RESUME`",
    ),
    ("DATABASES", "disabled", "1 after `DISABLE`"),
    (
        "DATABASES",
        "functions",
        "whether its functions have been read, which saves state probes: `unknown`, `known`, `partly`, `unread`, `ignored`; empty if session state does not follow clients. See [What a session keeps](../operating/running.md#what-a-session-keeps-in-transaction-pooling)",
    ),
    ("POOLS", "cl_active", "clients that have a server, or are idle"),
    ("POOLS", "cl_waiting", "clients that wait for a server"),
    ("POOLS", "sv_active", "servers that are lent to clients"),
    ("POOLS", "sv_active_cancel", "connections that carry cancel requests for servers of the pool"),
    ("POOLS", "sv_being_canceled", "servers that are not lent until a cancel request sent to them has finished"),
    ("POOLS", "sv_idle", "servers that are ready to be lent"),
    ("POOLS", "sv_used", "idle servers that have to be checked before they are lent (`server_check_delay`)"),
    ("POOLS", "sv_tested", "servers that are being checked, reset or cleaned"),
    (
        "POOLS",
        "maxwait",
        "seconds that the first client in the wait queue has waited. If it stays above 0, the pool is too small, or clients keep its servers for too long",
    ),
    ("POOLS", "maxwait_us", "the microseconds part of `maxwait`"),
    (
        "POOLS",
        "wait_p99",
        "microseconds: since the start 99 of 100 transactions have waited for a server no longer than this",
    ),
    ("POOLS", "peak_in_use", "the most servers that were lent at the same time since the start"),
    (
        "POOLS",
        "waits_for",
        "the reason why clients wait at present: `none_free`, `database_limit`, `user_limit`, `dialing`, `unreachable`, `paused`",
    ),
    ("*", "type", "`C` for a client, `S` for a server"),
    ("*", "replication", "`none`, or the kind of replication: `physical`, `logical`"),
    ("*", "state", "the state: `active`, `idle`, `waiting` and so on; `SHOW SOCKETS` puts `cl_` or `sv_` before it"),
    ("CHANNELS", "state", "`shared` if the listener of the database listens to it, `waiting` if not yet"),
    ("*", "local_addr", "the local address"),
    ("*", "local_port", "the local port"),
    ("*", "connect_time", "when the connection was established"),
    ("*", "request_time", "when a client last sent a request, or a server last got one"),
    (
        "*",
        "wait",
        "seconds that a client has waited for a server, or that the current query has taken on the server; for a login, seconds since it connected",
    ),
    ("*", "wait_us", "the microseconds part of `wait`"),
    ("*", "close_needed", "1 if the server is closed as soon as no client has it"),
    ("*", "ptr", "the name in the log, such as `C-0x1f`, where PgBouncer shows an address in memory"),
    ("*", "link", "the name in the log of the server that the client has, or of the client that has the server"),
    ("*", "tls", "TLS version and cipher; empty without TLS"),
    ("*", "prepared_statements", "prepared statements of the client, or on the server"),
    ("*", "id", "the number in decimal, which `KILL_CLIENT` accepts; the log shows it in hexadecimal"),
    (
        "*",
        "state_detail",
        "more detail than `state`: what a client waits for, the phase of its transaction, the step of a server's cleanup",
    ),
    (
        "*",
        "memory_bytes",
        "bytes that are kept for the client: prepared statements, session state, messages that no server has got yet (`max_client_memory`)",
    ),
    ("*", "recv_pos", "0, because connections have no buffers"),
    ("*", "pkt_pos", "0, because connections have no buffers"),
    ("*", "pkt_remain", "0, because connections have no buffers"),
    ("*", "send_pos", "0, because connections have no buffers"),
    ("*", "send_remain", "bytes that wait to be sent to the peer"),
    ("*", "pkt_avail", "bytes from the peer that wait to be processed"),
    ("*", "send_avail", "bytes that wait to be sent to the peer"),
    ("FDS", "fd", "the connection's number, where PgBouncer has a file descriptor"),
    ("FDS", "task", "`client` or `server`"),
    ("FDS", "cancel", "NULL: cancel keys are not shown"),
    (
        "FDS",
        "link",
        "the number of the server that the client has, or of the client that has the server; 0 if there is none",
    ),
    ("FDS", "client_encoding", "NULL"),
    ("FDS", "std_strings", "NULL"),
    ("FDS", "datestyle", "NULL"),
    ("FDS", "timezone", "NULL"),
    ("FDS", "password", "NULL: secrets are not shown"),
    ("FDS", "scram_client_key", "NULL: secrets are not shown"),
    ("FDS", "scram_server_key", "NULL: secrets are not shown"),
    ("USERS", "name", "the user"),
    ("USERS", "pool_size", "`pool_size` of the user's line in `[users]`; empty without one"),
    ("USERS", "reserve_pool_size", "`reserve_pool_size` of the user's line in `[users]`; empty without one"),
    ("USERS", "pool_mode", "`pool_mode` of the user's line in `[users]`; NULL without one"),
    ("USERS", "max_user_connections", "servers that the user may have; 0 is unlimited"),
    ("USERS", "current_connections", "servers that the user has at present"),
    ("USERS", "max_user_client_connections", "clients that the user may have; 0 is unlimited"),
    ("USERS", "current_client_connections", "clients that the user has at present"),
    ("*", "peer_id", "the peer's number in the group"),
    ("PEERS", "port", "its port"),
    ("PEERS", "pool_size", "cancel requests that may be under way to the peer at the same time"),
    ("PINS LOCKS", "since", "when it was first noticed"),
    ("PINS LOCKS WAITS", "remote_pid", "the process ID of the server's backend"),
    (
        "PINS",
        "kind",
        "the kind of session state that pins the server: `lock`, `listen`, `temporary` and so on, as in `session_policy`",
    ),
    ("PINS", "what", "the object itself, such as the key of the lock"),
    ("PIN_TOTALS", "kind", "the kind of session state, as in `SHOW PINS`"),
    ("PIN_TOTALS", "pinned", "servers that it pins at present"),
    ("PIN_TOTALS", "total", "how often it has begun to pin a server since the start"),
    ("LOCKS", "client", "the client that holds it, by its name in the log; NULL if none is known to"),
    ("LOCKS", "key", "the key of the lock, or its two keys"),
    ("LOCKS", "mode", "the mode, as in `pg_locks`"),
    ("CHANNELS", "channel", "the name of the channel"),
    ("CHANNELS", "clients", "clients that LISTEN to it"),
    ("CLUSTERS", "cluster", "its name in the configuration"),
    (
        "CLUSTERS",
        "state",
        "what the cluster does: `unknown` (no primary was found yet), `steady`, `draining` and `hold` (a switchover), `failover` (the primary does not answer, or is none any more), `degraded` (that has lasted for longer than `hold_timeout`), `fenced` (writes are stopped, since another host may be promoted at any moment)",
    ),
    ("CLUSTERS", "host", "a host of the cluster"),
    ("CLUSTERS", "member", "its name for Patroni"),
    (
        "CLUSTERS",
        "role",
        "what it says of itself: `primary`, `replica`, `fenced` (it accepts writes, but is not the primary), `foreign` (it belongs to another cluster), `unknown` (it has not answered)",
    ),
    ("CLUSTERS", "timeline", "its timeline; of a replica that of its last restart point"),
    ("CLUSTERS", "lag", "by how many bytes of the write-ahead log it is behind the primary in replaying"),
    (
        "CLUSTERS",
        "delay_us",
        "how long ago the last transaction that it has replayed was committed, in microseconds; NULL if it has replayed all that it has received",
    ),
    ("CLUSTERS", "error", "why the last check has failed, or that one is late"),
    ("CLUSTERS", "agents", "how many of the interfaces of Patroni have answered the last question, and the last error"),
    ("CLUSTERS", "waits_for", "what a switchover waits for"),
    ("CLUSTERS", "scheduled", "when Patroni will switch over by itself, from which member to which"),
    ("HOSTS", "host", "its name or address and its port, or the path of its socket"),
    (
        "HOSTS",
        "state",
        "`reachable` if it answered the last login, `unreachable` if not; `unknown` if there was none yet, or if the last one failed more than five minutes ago",
    ),
    (
        "HOSTS",
        "role",
        "what a server there has reported at its login or since: `primary` or `standby`; NULL if none has logged in; before PostgreSQL 14 as far as `target_session_attrs` has asked for it",
    ),
    ("HOSTS", "since", "when the state changed last"),
    ("HOSTS", "last_login", "when a login there ended last, well or not"),
    ("HOSTS", "failed_logins", "logins that have failed there since the start, refused ones included"),
    ("HOSTS", "last_error", "the error of the last of these"),
    ("HOSTS", "last_error_time", "when that was"),
    ("HOSTS", "zone", "where it is (`zones=`)"),
    ("HOSTS", "weight", "its share of the servers, relative to the other hosts (`weights=`)"),
    (
        "HOSTS",
        "lag",
        "of a replica of a cluster: by how many bytes of the write-ahead log it is behind the primary in replaying",
    ),
    ("HOSTS", "lag_us", "how long ago the primary had written the first of these, in microseconds"),
    (
        "HOSTS",
        "in_rotation",
        "`no` if it is too far behind for a database with `max_lag=` or `max_lag_time=`; NULL if none has these",
    ),
    ("DNS_HOSTS", "hostname", "the name of the host"),
    ("DNS_HOSTS", "ttl", "seconds for which its addresses are still cached"),
    ("DNS_HOSTS", "addrs", "its addresses, separated by commas"),
    ("DNS_ZONES", "zonename", "the name of the zone"),
    ("DNS_ZONES", "serial", "its last known serial number; 0 if none is known yet"),
    ("DNS_ZONES", "count", "the number of host names in it that have been looked up"),
    (
        "WAITS",
        "what",
        "`summary` in the first row, whose `doing` says what is wrong; then `waiter` for a client that waits for a server, `holder` for a client that has one",
    ),
    ("WAITS", "place", "the client's place in the wait queue"),
    ("WAITS", "doing", "what the client does or waits for"),
    ("WAITS", "since", "when it began to do so"),
    ("WAITS", "statement", "the client's last request, without its values"),
    ("WAITS", "for", "for how many seconds it has done so"),
    ("WAITS", "transaction", "seconds since its transaction began, or since it began to wait"),
    ("WAITS", "keeps", "the session state that pins its server"),
    ("WAITS", "ends_in", "seconds until a timeout of the pooler ends this"),
    ("WAITS", "last_error", "why the last login at the pool's host failed; NULL if it succeeded"),
    ("APPLICATIONS", "transactions", "the number of transactions"),
    ("EVENTS", "time", "when it happened; if the row stands for several events, the time of the first"),
    ("EVENTS", "kind", "the kind of event"),
    ("EVENTS", "host", "the host of the server, or the address of the client; NULL if the row stands for several"),
    ("EVENTS", "count", "the number of events that the row stands for"),
    ("EVENTS", "detail", "what happened"),
    ("EVENTS", "last", "if the row stands for several events, the time of the last"),
    ("STATEMENTS", "calls", "the number of requests, estimated from the sampled ones"),
    ("STATEMENTS", "rows", "rows that were returned or changed (estimated)"),
    ("STATEMENTS", "bytes", "bytes of the answers (estimated)"),
    ("STATEMENTS", "errors", "requests that failed (estimated)"),
    (
        "STATEMENTS",
        "errors_by_state",
        "the number of failed requests by SQLSTATE, for the first four SQLSTATEs that were seen",
    ),
    ("STATEMENTS", "application", "the `application` in the comment of the last request that had one"),
    ("STATEMENTS", "route", "the `route` in the comment of the last request that had one"),
    ("APPLICATIONS STATEMENTS", "total_time", "microseconds in all: the sum of the six columns that follow"),
    ("APPLICATIONS STATEMENTS", "waiting", "microseconds in which clients waited for a server"),
    (
        "APPLICATIONS STATEMENTS",
        "settings",
        "microseconds in which the settings and statements of clients were applied to servers, or servers were asked for their session state",
    ),
    ("APPLICATIONS STATEMENTS", "first_byte", "microseconds from a request to the first byte of its answer"),
    ("APPLICATIONS STATEMENTS", "streaming", "microseconds from the first byte to the end of the answer"),
    ("APPLICATIONS STATEMENTS", "client_blocked", "microseconds in which clients did not read their answers"),
    ("APPLICATIONS STATEMENTS", "client_thinking", "microseconds in which clients were idle in a transaction"),
    ("CHURN", "event", "`opened` or `closed`"),
    ("CHURN", "cause", "why servers were opened or closed"),
    ("CHURN", "count", "the number of servers"),
    ("CHURN", "transactions_per_server", "the number of transactions in the pool for each server that it has opened"),
    (
        "CHURN",
        "evicted_by",
        "the pools that needed the places of evicted servers, as `database/user`, each with the number of servers. `others` stands for clients of another worker, for replication clients of the same pool, and for clients that need the database without other connections",
    ),
    ("HISTOGRAMS", "phase", "the phase of a transaction, or `total`"),
    ("HISTOGRAMS", "count", "transactions that were measured"),
    ("HISTOGRAMS", "sum", "microseconds of all transactions together"),
    ("HISTOGRAMS", "p50", "microseconds that 50 of 100 transactions did not exceed"),
    ("HISTOGRAMS", "p90", "the same for 90 of 100"),
    ("HISTOGRAMS", "p99", "the same for 99 of 100"),
    ("HISTOGRAMS", "p999", "the same for 999 of 1,000"),
    ("HISTOGRAMS", "max", "microseconds of the longest transaction"),
    ("RATE_LIMITS", "name", "the name of the rule"),
    ("RATE_LIMITS", "events", "what is counted: logins or transactions"),
    (
        "RATE_LIMITS",
        "by",
        "by what clients are counted separately: `user`, `database`, `address`, `application_name`; empty if all are counted together",
    ),
    ("RATE_LIMITS", "only", "the clients that the rule applies to; empty for all"),
    ("RATE_LIMITS", "rate", "how many are admitted in a second (`/s`), a minute (`/m`) or an hour (`/h`)"),
    ("RATE_LIMITS", "burst", "how many are admitted at once after a rest"),
    ("RATE_LIMITS", "action", "what happens to those beyond the rate: `delay` or `reject`"),
    ("RATE_LIMITS", "admitted", "events that were admitted at once"),
    ("RATE_LIMITS", "delayed", "events that were delayed"),
    ("RATE_LIMITS", "rejected", "events that were rejected"),
    ("RATE_LIMITS", "keys", "keys that are being counted at present"),
    (
        "RATE_LIMITS",
        "limiting_since",
        "since when the rule has been delaying or rejecting events; NULL if it does not at present",
    ),
    (
        "STATS",
        "slow_turn_count",
        "how often a connection of this database kept its worker from serving others for 5 ms or more",
    ),
    ("STATS", "turn_time_max", "the longest such time, in microseconds"),
];

/// The counters of `SHOW STATS` and related tables: the end of their names, and what is counted.
const COUNTERS: &[(&str, &str)] = &[
    ("server_assignment_count", "times that a server was lent to a client"),
    ("xact_count", "transactions"),
    ("query_count", "queries"),
    ("bytes_received", "bytes from clients"),
    ("bytes_sent", "bytes from servers"),
    ("received", "bytes from clients"),
    ("recv", "bytes from clients"),
    ("sent", "bytes from servers"),
    ("xact_time", "microseconds in transactions"),
    ("query_time", "microseconds in queries"),
    ("wait_time", "microseconds that clients waited for a server"),
    ("client_parse_count", "statements that clients prepared"),
    ("server_parse_count", "statements that had to be prepared on a server"),
    ("bind_count", "prepared statements that were bound"),
    ("client_login_count", "logins of clients"),
];

/// Returns the meaning of a column as a phrase; for a counter it includes the time span.
pub(crate) fn sentence(table: &str, column: &str) -> String {
    let said = meaning(table, column);
    if !said.is_empty() {
        return said.to_owned();
    }
    let (name, span) = match (column.strip_prefix("total_"), column.strip_prefix("avg_")) {
        (Some(name), _) => (name, "since the start"),
        (_, Some(name)) => (name, AVERAGE),
        _ => (column, if table == "STATS_AVERAGES" { AVERAGE } else { "since the start" }),
    };
    let is_mean = span == AVERAGE && matches!(name, "xact_time" | "query_time");
    let span = if is_mean { "on average for each, in the last `stats_period`" } else { span };
    COUNTERS.iter().find(|(end, _)| *end == name).map_or(String::new(), |(_, what)| format!("{what}, {span}"))
}

const AVERAGE: &str = "per second in the last `stats_period`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::show::CATALOG;

    #[test]
    fn every_column_has_a_meaning_and_every_meaning_a_column() {
        for subject in CATALOG {
            for column in subject.columns() {
                assert!(!sentence(subject.name, column.name).is_empty(), "{}.{}", subject.name, column.name);
            }
        }
        for (tables, column, _) in MEANINGS {
            for table in tables.split(' ') {
                let mut subjects = CATALOG.iter().filter(|subject| table == ANY || subject.name == table);
                let is_there = subjects.any(|subject| subject.columns().iter().any(|found| found.name == *column));
                assert!(is_there, "{table}.{column}");
            }
        }
    }
}
