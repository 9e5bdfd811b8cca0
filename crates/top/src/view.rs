//! The views: which commands a view asks, which of their columns come first, and which figures are computed.
//!
//! Always true: columns are identified by the names in the console's answer. A column that the console does not have is
//! not shown, and a column that is not named here comes after those that are.
//! Not here: how figures are computed from two answers (`rates`).

use crate::rates::Figure;
use crate::table::Order;

/// One view.
#[derive(Debug)]
pub(crate) struct View {
    /// Its name.
    pub(crate) name: &'static str,
    /// A short name, where there is little room.
    pub(crate) short: &'static str,
    /// A description for the help.
    pub(crate) about: &'static str,
    /// The command whose rows the view shows.
    pub(crate) command: &'static str,
    /// Another command, whose row for the same `database` adds figures.
    pub(crate) beside: Option<&'static str>,
    /// The columns that identify a row; they do not scroll.
    pub(crate) key: &'static [&'static str],
    /// The columns and figures that come next, by name.
    pub(crate) first: &'static [&'static str],
    /// The figures computed from two answers.
    pub(crate) figures: &'static [Figure],
    /// The initial order of rows, if not the console's.
    pub(crate) sort: Option<(&'static str, Order)>,
    /// A column that orders rows with equal values, the largest first.
    pub(crate) among_equals: Option<&'static str>,
}

impl View {
    /// The commands whose answers the view needs.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.command), self.beside].into_iter().flatten()
    }
}

/// The waiting clients, and the sentence on top.
pub(crate) const WAITS: &str = "SHOW WAITS";

/// The source of the sentence if the console has none.
pub(crate) const POOLS: &str = "SHOW POOLS";

const STATS: &str = "SHOW STATS";

/// All views, in the order of their digits.
pub(crate) const VIEWS: &[View] = &[
    View {
        name: "pools",
        short: "pools",
        about: "the pools, and what their databases do per second",
        command: POOLS,
        beside: Some(STATS),
        key: &["database", "user"],
        first: &[
            "cl_active",
            "cl_waiting",
            "sv_active",
            "sv_idle",
            "maxwait",
            "xact/s",
            "query/s",
            "xact_ms",
            "query_ms",
            "wait_ms",
            "waits_for",
            "wait_p99",
            "peak_in_use",
            "sv_login",
            "sv_used",
            "sv_tested",
            "in_kB/s",
            "out_kB/s",
            "pool_mode",
        ],
        figures: TRAFFIC,
        sort: Some(("cl_waiting", Order::Falling)),
        among_equals: Some("xact/s"),
    },
    View {
        name: "waits",
        short: "waits",
        about: "who waits for a server and why, and who has one",
        command: WAITS,
        beside: None,
        key: &["what", "place"],
        first: &[
            "database",
            "user",
            "application_name",
            "doing",
            "for",
            "statement",
            "keeps",
            "ends_in",
            "ends_by",
            "addr",
            "port",
            "client",
            "server",
            "remote_pid",
            "transaction",
            "since",
            "last_error",
        ],
        figures: &[],
        sort: None,
        among_equals: None,
    },
    View {
        name: "applications",
        short: "apps",
        about: "where the time of transactions goes, by application",
        command: "SHOW APPLICATIONS",
        beside: None,
        key: &["application_name"],
        first: &[
            "database",
            "user",
            "xact/s",
            "busy",
            "xact_ms",
            "waiting%",
            "settings%",
            "first_byte%",
            "streaming%",
            "blocked%",
            "thinking%",
            "transactions",
            "total_time",
        ],
        figures: PHASES,
        sort: Some(("busy", Order::Falling)),
        among_equals: Some("total_time"),
    },
    View {
        name: "statements",
        short: "stmts",
        about: "which statements take the time",
        command: "SHOW STATEMENTS",
        beside: None,
        key: &["database"],
        first: &[
            "calls/s",
            "busy",
            "call_ms",
            "statement",
            "waiting%",
            "settings%",
            "first_byte%",
            "streaming%",
            "blocked%",
            "thinking%",
            "calls",
            "total_time",
            "rows",
            "bytes",
            "errors",
            "errors_by_state",
            "application",
            "route",
        ],
        figures: STATEMENTS,
        sort: Some(("busy", Order::Falling)),
        among_equals: Some("total_time"),
    },
    View {
        name: "clients",
        short: "clients",
        about: "the clients",
        command: "SHOW CLIENTS",
        beside: None,
        key: &["database", "user"],
        first: &[
            "application_name",
            "state",
            "addr",
            "port",
            "wait",
            "wait_us",
            "request_time",
            "connect_time",
            "link",
            "remote_pid",
            "tls",
            "memory_bytes",
            "prepared_statements",
            "id",
        ],
        figures: &[],
        sort: None,
        among_equals: None,
    },
    View {
        name: "servers",
        short: "servers",
        about: "the connections to servers",
        command: "SHOW SERVERS",
        beside: None,
        key: &["database", "user"],
        first: &[
            "application_name",
            "state",
            "addr",
            "port",
            "remote_pid",
            "request_time",
            "connect_time",
            "close_needed",
            "link",
            "tls",
            "prepared_statements",
            "id",
        ],
        figures: &[],
        sort: None,
        among_equals: None,
    },
    View {
        name: "churn",
        short: "churn",
        about: "why servers are opened and closed",
        command: "SHOW CHURN",
        beside: None,
        key: &["database", "user", "event", "cause"],
        first: &["count", "per_min", "transactions_per_server"],
        figures: &[Figure::PerSecond { name: "per_min", of: "count", scale: 60.0, average: None }],
        sort: Some(("per_min", Order::Falling)),
        among_equals: Some("count"),
    },
    View {
        name: "databases",
        short: "dbs",
        about: "the databases and their limits",
        command: "SHOW DATABASES",
        beside: None,
        key: &["name"],
        first: &[
            "host",
            "port",
            "database",
            "current_connections",
            "max_connections",
            "current_client_connections",
            "max_client_connections",
            "pool_size",
            "reserve_pool_size",
            "pool_mode",
            "paused",
            "disabled",
        ],
        figures: &[],
        sort: None,
        among_equals: None,
    },
    View {
        name: "stats",
        short: "stats",
        about: "what each database does per second, and has done since the start",
        command: STATS,
        beside: None,
        key: &["database"],
        first: &["xact/s", "query/s", "xact_ms", "query_ms", "wait_ms", "in_kB/s", "out_kB/s"],
        figures: TRAFFIC,
        sort: Some(("xact/s", Order::Falling)),
        among_equals: Some("total_xact_count"),
    },
];

/// Figures from `SHOW STATS` per second and per transaction. Its times are in microseconds.
const TRAFFIC: &[Figure] = &[
    Figure::PerSecond { name: "xact/s", of: "total_xact_count", scale: 1.0, average: Some("avg_xact_count") },
    Figure::PerSecond { name: "query/s", of: "total_query_count", scale: 1.0, average: Some("avg_query_count") },
    Figure::Each {
        name: "xact_ms",
        of: "total_xact_time",
        per: "total_xact_count",
        scale: 1e-3,
        average: Some("avg_xact_time"),
    },
    Figure::Each {
        name: "query_ms",
        of: "total_query_time",
        per: "total_query_count",
        scale: 1e-3,
        average: Some("avg_query_time"),
    },
    Figure::Each { name: "wait_ms", of: "total_wait_time", per: "total_xact_count", scale: 1e-3, average: None },
    Figure::PerSecond { name: "in_kB/s", of: "total_received", scale: 1e-3, average: Some("avg_recv") },
    Figure::PerSecond { name: "out_kB/s", of: "total_sent", scale: 1e-3, average: Some("avg_sent") },
];

/// Figures from `SHOW APPLICATIONS`: `busy` is the average number of open transactions.
const PHASES: &[Figure] = &[
    Figure::PerSecond { name: "xact/s", of: "transactions", scale: 1.0, average: None },
    Figure::PerSecond { name: "busy", of: "total_time", scale: 1e-6, average: None },
    Figure::Each { name: "xact_ms", of: "total_time", per: "transactions", scale: 1e-3, average: None },
    share("waiting%", "waiting"),
    share("settings%", "settings"),
    share("first_byte%", "first_byte"),
    share("streaming%", "streaming"),
    share("blocked%", "client_blocked"),
    share("thinking%", "client_thinking"),
];

/// Figures from `SHOW STATEMENTS`, likewise.
const STATEMENTS: &[Figure] = &[
    Figure::PerSecond { name: "calls/s", of: "calls", scale: 1.0, average: None },
    Figure::PerSecond { name: "busy", of: "total_time", scale: 1e-6, average: None },
    Figure::Each { name: "call_ms", of: "total_time", per: "calls", scale: 1e-3, average: None },
    share("waiting%", "waiting"),
    share("settings%", "settings"),
    share("first_byte%", "first_byte"),
    share("streaming%", "streaming"),
    share("blocked%", "client_blocked"),
    share("thinking%", "client_thinking"),
];

const fn share(name: &'static str, of: &'static str) -> Figure {
    Figure::Each { name, of, per: "total_time", scale: 100.0, average: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_views_than_digits_and_each_has_a_name_of_its_own() {
        assert!(VIEWS.len() <= 9);
        let names: std::collections::BTreeSet<_> = VIEWS.iter().map(|view| view.name).collect();
        assert_eq!(names.len(), VIEWS.len());
    }

    #[test]
    fn what_is_sorted_by_and_every_figure_that_is_placed_has_a_column() {
        for view in VIEWS {
            let figures: Vec<_> = view.figures.iter().map(Figure::name).collect();
            let derived = view.first.iter().filter(|name| name.contains(['/', '%']) || name.ends_with("_ms"));
            derived.for_each(|name| assert!(figures.contains(name), "{name} in {}", view.name));
            assert!(figures.iter().all(|name| view.first.contains(name)), "{}", view.name);
            assert!(view.sort.is_none_or(|(name, _)| view.first.contains(&name)), "{}", view.name);
        }
    }
}
