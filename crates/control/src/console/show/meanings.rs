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
    ("*", "database", "the database, by the name that clients ask for"),
    ("*", "user", "the user, by the name on the server"),
    ("CLIENTS SERVERS SOCKETS ACTIVE_SOCKETS", "user", "the user that has logged in, or as whom the pooler has"),
    ("*", "application_name", "the `application_name` of the client"),
    ("*", "addr", "the address of the other end; `unix` for a unix socket"),
    ("*", "port", "the port of the other end"),
    ("*", "client", "the number of the client, as in the log and for `KILL_CLIENT`"),
    ("*", "server", "the number of the server connection, as in the log"),
    ("*", "remote_pid", "the process that serves it in PostgreSQL, or the process at the other end of a unix socket"),
    ("*", "since", "since when"),
    ("*", "age", "for how many seconds"),
    ("*", "statement", "the statement, without its values"),
    ("*", "name", "its name"),
    ("*", "count", "how many"),
    ("*", "host", "where it is"),
    ("*", "pool_size", "servers that one pool may have"),
    ("*", "reserve_pool_size", "servers beyond that, for who has waited for `reserve_pool_timeout`"),
    ("*", "pool_mode", "when a server is given back"),
    ("*", "load_balance_hosts", "which of several hosts is dialed"),
    ("*", "cl_active_cancel_req", "cancel requests that have been passed on, and whose end is waited for"),
    ("*", "cl_waiting_cancel_req", "cancel requests that have not been passed on yet"),
    ("*", "sv_active_cancel", "connections that carry cancel requests"),
    ("*", "sv_login", "connections that are being opened"),
    ("*", "ends_by", "what ends it"),
    ("CONFIG", "key", "the setting"),
    ("CONFIG", "value", "its value; NULL where it was never set and has no default"),
    ("CONFIG", "default", "its default"),
    ("CONFIG", "changeable", "whether a running process takes a change: `yes`, or `no` for what waits for a restart"),
    ("STATE", "key", "`active`, `paused`, `suspended`; `shutdown` while one waits"),
    ("STATE", "value", "`yes` or `no`; of a shutdown, what it waits for and how long"),
    ("TOTALS", "name", "the counter or average, by its name in `SHOW STATS`"),
    ("TOTALS", "value", "its sum over all databases"),
    ("VERSION", "version", "PgBouncer's version in the first row, ours in the second"),
    ("LISTS", "list", "the table"),
    ("LISTS", "items", "how many rows it has"),
    ("MEM", "name", "the table"),
    ("MEM", "size", "bytes of one entry"),
    ("MEM", "used", "entries in use"),
    ("MEM", "free", "entries that are kept for use"),
    ("MEM", "memtotal", "bytes of all of them"),
    ("DATABASES", "name", "the database, by the name that clients ask for"),
    ("DATABASES", "host", "its host or hosts; NULL for the unix socket"),
    ("DATABASES", "port", "its port"),
    ("DATABASES", "database", "its name on the server"),
    ("DATABASES", "force_user", "the user of all its servers, if the line names one"),
    ("DATABASES", "min_pool_size", "servers that each pool keeps open"),
    ("DATABASES", "server_lifetime", "seconds after which a server is replaced when nobody has it"),
    ("DATABASES", "max_connections", "servers of all its pools together (`max_db_connections`); 0 is unlimited"),
    ("DATABASES", "current_connections", "servers that it has now"),
    ("DATABASES", "max_client_connections", "clients that it may have (`max_db_client_connections`); 0 is unlimited"),
    ("DATABASES", "current_client_connections", "clients that it has now"),
    ("DATABASES", "paused", "1 while it is paused by name, or everything is"),
    ("DATABASES", "disabled", "1 after `DISABLE`"),
    ("DATABASES", "functions", "whether its functions could be read, which spares their callers questions"),
    ("DATABASES", "reserve_pool", "`reserve_pool_size` under its old name"),
    ("POOLS", "cl_active", "clients that have a server, or want none now"),
    ("POOLS", "cl_waiting", "clients that wait for a server now"),
    ("POOLS", "sv_active", "servers that a client has"),
    ("POOLS", "sv_active_cancel", "connections that carry cancel requests for servers of the pool"),
    ("POOLS", "sv_being_canceled", "servers that are not lent before a cancel request for them has come to its end"),
    ("POOLS", "sv_idle", "servers that wait for a client"),
    ("POOLS", "sv_used", "of those that wait, servers that are checked before they are lent (`server_check_delay`)"),
    ("POOLS", "sv_tested", "servers that are being checked, reset or made clean"),
    (
        "POOLS",
        "maxwait",
        "seconds that the first in the queue has waited: above 0 for long, the pool is too small or its servers are held",
    ),
    ("POOLS", "maxwait_us", "the microseconds beyond those seconds"),
    ("POOLS", "wait_p99", "microseconds: 99 of 100 transactions have not waited longer for a server since the start"),
    ("POOLS", "peak_in_use", "the most servers that were lent at once since the start"),
    (
        "POOLS",
        "waits_for",
        "what who waits now waits for: `none_free`, `database_limit`, `user_limit`, `dialing`, `unreachable`, `paused`",
    ),
    ("*", "type", "`C` for a client, `S` for a server"),
    ("*", "replication", "`none`, or the kind of stream that it is for"),
    (
        "*",
        "state",
        "what it does: `active`, `idle`, `waiting` and the like; in `SHOW SOCKETS` with `cl_` or `sv_` in front",
    ),
    ("CHANNELS", "state", "whether the one server that listens for all listens to it already"),
    ("*", "local_addr", "the address of our end"),
    ("*", "local_port", "the port of our end"),
    ("*", "connect_time", "when it was connected"),
    ("*", "request_time", "when the last request came, or was given to it"),
    ("*", "wait", "seconds that it has waited for a server now"),
    ("*", "wait_us", "the microseconds beyond those seconds"),
    ("*", "close_needed", "1 if it is closed as soon as nobody has it"),
    ("*", "ptr", "its number, in the place of PgBouncer's address in memory"),
    ("*", "link", "the number of the server that the client has, or of the client that has the server"),
    ("*", "tls", "protocol and cipher; empty without TLS"),
    ("*", "prepared_statements", "prepared statements that the client has made, or that are on the server"),
    ("*", "id", "its number, as in the log; for `KILL_CLIENT`"),
    (
        "*",
        "state_detail",
        "what it does, where `state` says less: what a client waits for, the phase of its transaction, how a server is made clean",
    ),
    ("*", "memory_bytes", "bytes that are remembered for it (`max_client_memory`)"),
    ("*", "recv_pos", "0: there is no buffer of its own"),
    ("*", "pkt_pos", "0: there is no buffer of its own"),
    ("*", "pkt_remain", "0: there is no buffer of its own"),
    ("*", "send_pos", "0: there is no buffer of its own"),
    ("*", "send_remain", "bytes that wait to be sent to it"),
    ("*", "pkt_avail", "bytes of it that nobody has looked at"),
    ("*", "send_avail", "bytes that wait to be sent to it"),
    ("FDS", "fd", "its number, in the place of a descriptor"),
    ("FDS", "task", "`client` or `server`"),
    ("FDS", "cancel", "NULL: keys are not told"),
    ("FDS", "link", "the number of the other side of a loan; 0 without one"),
    ("FDS", "client_encoding", "NULL"),
    ("FDS", "std_strings", "NULL"),
    ("FDS", "datestyle", "NULL"),
    ("FDS", "timezone", "NULL"),
    ("FDS", "password", "NULL: secrets are not told"),
    ("FDS", "scram_client_key", "NULL: secrets are not told"),
    ("FDS", "scram_server_key", "NULL: secrets are not told"),
    ("USERS", "name", "the user"),
    ("USERS", "pool_size", "the user's own, if `[users]` has one"),
    ("USERS", "reserve_pool_size", "the user's own, if `[users]` has one"),
    ("USERS", "pool_mode", "the user's own, if `[users]` has one"),
    ("USERS", "max_user_connections", "servers that the user may have; 0 is unlimited"),
    ("USERS", "current_connections", "servers that the user has now"),
    ("USERS", "max_user_client_connections", "clients that the user may have; 0 is unlimited"),
    ("USERS", "current_client_connections", "clients that the user has now"),
    ("*", "peer_id", "the number of the process in its group"),
    ("PEERS", "pool_size", "cancel requests that may be on their way to it at a time"),
    ("PINS", "kind", "what kind of thing keeps the server"),
    ("PINS", "what", "which one"),
    ("PIN_TOTALS", "kind", "the kind of reason"),
    ("PIN_TOTALS", "pinned", "servers that are kept for it now"),
    ("PIN_TOTALS", "total", "how often that has begun since the start"),
    ("LOCKS", "key", "the key or the two keys of the lock"),
    ("LOCKS", "mode", "its mode, as in `pg_locks`"),
    ("CHANNELS", "channel", "the channel"),
    ("CHANNELS", "clients", "clients that LISTEN to it"),
    ("DNS_HOSTS", "hostname", "the name"),
    ("DNS_HOSTS", "ttl", "seconds for which the answer is believed"),
    ("DNS_HOSTS", "addrs", "its addresses"),
    ("DNS_ZONES", "zonename", "the zone"),
    ("DNS_ZONES", "serial", "its serial number as it was told last"),
    ("DNS_ZONES", "count", "names that are looked up in it"),
    (
        "WAITS",
        "what",
        "`summary` in the first row, whose `doing` says what is wrong; then `waiter` or `holder` of a server",
    ),
    ("WAITS", "place", "the place in the queue"),
    ("WAITS", "doing", "what the client does or waits for"),
    ("WAITS", "for", "seconds since it has done that"),
    ("WAITS", "transaction", "seconds since its transaction began"),
    ("WAITS", "keeps", "what its session holds on the server"),
    ("WAITS", "ends_in", "seconds until the pooler ends that by itself"),
    ("WAITS", "last_error", "why the last login at the server failed"),
    ("APPLICATIONS", "transactions", "how many"),
    ("EVENTS", "time", "when it happened; of a row of several, the first time"),
    ("EVENTS", "kind", "what kind of thing it is"),
    ("EVENTS", "host", "whose host it was about, or from where somebody came; NULL where several are one row"),
    ("EVENTS", "detail", "what happened"),
    ("EVENTS", "last", "of a row of several, the last time"),
    ("STATEMENTS", "calls", "how many requests, as far as those that were looked at stand for all"),
    ("STATEMENTS", "rows", "rows that were returned or changed; the same holds"),
    ("STATEMENTS", "bytes", "bytes of the answers; the same holds"),
    ("STATEMENTS", "errors", "requests that have failed; the same holds"),
    ("STATEMENTS", "errors_by_state", "the same by SQLSTATE, the first four that were seen"),
    ("STATEMENTS", "application", "who asked last, as the key `application` of a comment says"),
    ("STATEMENTS", "route", "for what, as its key `route` says"),
    ("APPLICATIONS STATEMENTS", "total_time", "microseconds in all: the sum of the six columns that follow"),
    ("APPLICATIONS STATEMENTS", "waiting", "microseconds without a server"),
    (
        "APPLICATIONS STATEMENTS",
        "settings",
        "microseconds in which servers took over settings and statements of their clients",
    ),
    ("APPLICATIONS STATEMENTS", "first_byte", "microseconds from a request to the first byte of its answer"),
    ("APPLICATIONS STATEMENTS", "streaming", "microseconds from there to the end of the answer"),
    ("APPLICATIONS STATEMENTS", "client_blocked", "microseconds in which clients did not read their answers"),
    ("APPLICATIONS STATEMENTS", "client_thinking", "microseconds in which clients said nothing within a transaction"),
    ("CHURN", "event", "`opened` or `closed`"),
    ("CHURN", "cause", "why"),
    ("CHURN", "transactions_per_server", "transactions of the pool for each server that it has opened"),
    (
        "CHURN",
        "evicted_by",
        "the pools whose clients needed the places of evicted servers, as `database/user`, each with how many; `others` are clients of another worker, replication clients of the pool itself, and clients that need the database alone",
    ),
    ("HISTOGRAMS", "phase", "the phase of a transaction, or `total`"),
    ("HISTOGRAMS", "count", "transactions that were measured"),
    ("HISTOGRAMS", "sum", "microseconds in all"),
    ("HISTOGRAMS", "p50", "microseconds that half of them did not exceed"),
    ("HISTOGRAMS", "p90", "the same of 90 in 100"),
    ("HISTOGRAMS", "p99", "the same of 99 in 100"),
    ("HISTOGRAMS", "p999", "the same of 999 in 1,000"),
    ("HISTOGRAMS", "max", "the longest, in microseconds"),
    ("RATE_LIMITS", "name", "the rule"),
    ("RATE_LIMITS", "events", "what is counted: logins or transactions"),
    ("RATE_LIMITS", "by", "by what it is counted apart"),
    ("RATE_LIMITS", "only", "for whom it holds; empty for all"),
    ("RATE_LIMITS", "rate", "how many in which time"),
    ("RATE_LIMITS", "burst", "how many at once after a rest"),
    ("RATE_LIMITS", "action", "what is done beyond it: `delay` or `reject`"),
    ("RATE_LIMITS", "admitted", "events that went on at once"),
    ("RATE_LIMITS", "delayed", "events that were delayed"),
    ("RATE_LIMITS", "rejected", "events that were rejected"),
    ("RATE_LIMITS", "keys", "keys that are being counted"),
    ("RATE_LIMITS", "limiting_since", "since when it holds somebody back; NULL if it does not"),
    ("STATS", "slow_turn_count", "how often one of this database kept a worker from everybody else for 5 ms or more"),
    ("STATS", "turn_time_max", "the longest of those, in microseconds"),
    ("STATS", "total_requests", "`total_query_count` under its old name"),
];

/// The counters of `SHOW STATS` and related tables: the end of their names, and what is counted.
const COUNTERS: &[(&str, &str)] = &[
    ("server_assignment_count", "times that a server was given to a client"),
    ("xact_count", "transactions"),
    ("query_count", "queries"),
    ("bytes_received", "bytes from clients"),
    ("bytes_sent", "bytes to clients"),
    ("received", "bytes from clients"),
    ("recv", "bytes from clients"),
    ("sent", "bytes to clients"),
    ("xact_time", "microseconds in transactions"),
    ("query_time", "microseconds in queries"),
    ("wait_time", "microseconds that clients waited for a server"),
    ("client_parse_count", "statements that clients prepared"),
    ("server_parse_count", "statements that servers were given to prepare"),
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
