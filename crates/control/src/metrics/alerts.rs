//! Alert rules for Prometheus, with a test for each: series with which it fires, and series with which it does not.
//!
//! Always true: an alert uses only metrics of the catalog (and `up`); its text says what is wrong and what to look at
//! next.
//! Not here: the metrics (`catalog`), the board (`board`).

use std::fmt::Write as _;

/// An alert rule.
pub(super) struct Alert {
    name: &'static str,
    pub(super) expr: &'static str,
    /// How long the condition must hold.
    lasts: &'static str,
    severity: Severity,
    /// One sentence; `{{ $labels.NAME }}` is the value of a label.
    summary: &'static str,
    /// What to look at or to do.
    action: &'static str,
    /// The labels expected in the test that fires.
    labels: &'static [(&'static str, &'static str)],
    /// Series with which it fires, in the notation of promtool, one value a minute.
    fires: &'static [(&'static str, &'static str)],
    /// Series with which it does not fire.
    quiet: &'static [(&'static str, &'static str)],
}

/// How urgent an alert is.
#[derive(Clone, Copy)]
enum Severity {
    /// The operator on call is woken.
    Critical,
    /// It can wait until the next working day.
    Warning,
}

const POOL: &[(&str, &str)] = &[("database", "d"), ("user", "u")];
const DATABASE: &[(&str, &str)] = &[("database", "d")];

/// All alert rules.
pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "TrunklineDown",
        expr: "up{job=\"trunkline\"} == 0",
        lasts: "1m",
        severity: Severity::Critical,
        summary: "Trunkline at {{ $labels.instance }} does not answer Prometheus.",
        action: "Check whether the process runs and http_port is set. The log says why the process ended.",
        labels: &[("instance", "i"), ("job", "trunkline")],
        fires: &[("up{job=\"trunkline\",instance=\"i\"}", "0x20")],
        quiet: &[("up{job=\"trunkline\",instance=\"i\"}", "1x20"), ("up{job=\"other\",instance=\"i\"}", "0x20")],
    },
    Alert {
        name: "TrunklineClientsWait",
        expr: "trunkline_wait_max_seconds > 1",
        lasts: "1m",
        severity: Severity::Critical,
        summary: "Clients of {{ $labels.database }} / {{ $labels.user }} have waited for a server for more than a second.",
        action: "SHOW WAITS says why in its first row, and shows below it which clients have the servers.",
        labels: POOL,
        fires: &[("trunkline_wait_max_seconds{database=\"d\",user=\"u\"}", "2x20")],
        quiet: &[("trunkline_wait_max_seconds{database=\"d\",user=\"u\"}", "0 2 0 0 2 0 0 0 2 0 0 0x10")],
    },
    Alert {
        name: "TrunklinePoolTooSmall",
        expr: "rate(trunkline_wait_reason_seconds_total{reason=\"none_free\"}[5m]) > 1",
        lasts: "10m",
        severity: Severity::Warning,
        summary: "On average more than one client of {{ $labels.database }} / {{ $labels.user }} waits because every server is taken.",
        action: "If the servers are busy (SHOW APPLICATIONS: first_byte), a larger pool_size may help; if their clients are idle in transactions (client_thinking), it does not.",
        labels: &[("database", "d"), ("user", "u"), ("reason", "none_free")],
        fires: &[("trunkline_wait_reason_seconds_total{database=\"d\",user=\"u\",reason=\"none_free\"}", "0+120x20")],
        quiet: &[
            ("trunkline_wait_reason_seconds_total{database=\"d\",user=\"u\",reason=\"none_free\"}", "0+30x20"),
            ("trunkline_wait_reason_seconds_total{database=\"d\",user=\"u\",reason=\"paused\"}", "0+120x20"),
        ],
    },
    Alert {
        name: "TrunklineLimitReached",
        expr: "rate(trunkline_wait_reason_seconds_total{reason=~\"database_limit|user_limit\"}[5m]) > 0.1",
        lasts: "5m",
        severity: Severity::Warning,
        summary: "Clients of {{ $labels.database }} / {{ $labels.user }} wait because of a limit over several pools ({{ $labels.reason }}).",
        action: "max_db_connections or max_user_connections is less than the pools need together: compare SHOW DATABASES and SHOW USERS.",
        labels: &[("database", "d"), ("user", "u"), ("reason", "database_limit")],
        fires: &[(
            "trunkline_wait_reason_seconds_total{database=\"d\",user=\"u\",reason=\"database_limit\"}",
            "0+30x20",
        )],
        quiet: &[("trunkline_wait_reason_seconds_total{database=\"d\",user=\"u\",reason=\"none_free\"}", "0+30x20")],
    },
    Alert {
        name: "TrunklineHostUnreachable",
        expr: "trunkline_host_reachable == 0",
        lasts: "1m",
        severity: Severity::Critical,
        summary: "The host {{ $labels.host }} does not answer logins of the pooler.",
        action: "SHOW HOSTS shows since when, and the last error; the log has a line for each failed login.",
        labels: &[("host", "h:5432")],
        fires: &[("trunkline_host_reachable{host=\"h:5432\"}", "0x20")],
        quiet: &[("trunkline_host_reachable{host=\"h:5432\"}", "1x15 0 1x10")],
    },
    Alert {
        name: "TrunklineNoPrimary",
        expr: "trunkline_cluster_state{state=~\"unknown|failover|degraded|fenced\"} == 1",
        lasts: "30s",
        severity: Severity::Critical,
        summary: "The cluster {{ $labels.cluster }} has no primary that is known and may be written to ({{ $labels.state }}).",
        action: "SHOW CLUSTERS shows each host and why it is not the primary; the log names what was lost.",
        labels: &[("cluster", "main"), ("state", "failover")],
        fires: &[("trunkline_cluster_state{cluster=\"main\",state=\"failover\"}", "1x20")],
        quiet: &[("trunkline_cluster_state{cluster=\"main\",state=\"steady\"}", "1x20")],
    },
    Alert {
        name: "TrunklineTwoPrimaries",
        expr: "trunkline_cluster_member_role{role=\"fenced\"} == 1",
        lasts: "30s",
        severity: Severity::Critical,
        summary: "The host {{ $labels.host }} of the cluster {{ $labels.cluster }} accepts writes, and is not its primary.",
        action: "No client of the pooler writes there, but others may: stop PostgreSQL on it, and rewind it before it joins again.",
        labels: &[("cluster", "main"), ("host", "h:5432"), ("role", "fenced")],
        fires: &[("trunkline_cluster_member_role{cluster=\"main\",host=\"h:5432\",role=\"fenced\"}", "1x20")],
        quiet: &[("trunkline_cluster_member_role{cluster=\"main\",host=\"h:5432\",role=\"primary\"}", "1x20")],
    },
    Alert {
        name: "TrunklineServerLoginsFail",
        expr: "trunkline_recent_failures{kind=\"server_login\"} > 0",
        lasts: "2m",
        severity: Severity::Critical,
        summary: "Logins of the pooler at the servers of {{ $labels.database }} fail.",
        action: "SHOW WAITS says why in its first row: a changed password, a role or database that is gone, too many connections, a host that does not answer.",
        labels: &[("kind", "server_login"), ("database", "d")],
        fires: &[("trunkline_recent_failures{kind=\"server_login\",database=\"d\"}", "4x20")],
        quiet: &[
            ("trunkline_recent_failures{kind=\"server_login\",database=\"d\"}", "0x10 1 0x10"),
            ("trunkline_recent_failures{kind=\"query\",database=\"d\"}", "4x20"),
        ],
    },
    Alert {
        name: "TrunklineClientsRefused",
        expr: "sum by (instance, reason) (rate(trunkline_client_failures_total{stage=\"login\",reason=~\"ClientsFull|DatabaseClientsFull|UserClientsFull|DescriptorsFull|BouncerConfig|TlsHandshake\"}[5m])) > 0.1",
        lasts: "1m",
        severity: Severity::Critical,
        summary: "Clients are not let in, probably by no fault of their own ({{ $labels.reason }}).",
        action: "ClientsFull is max_client_conn, UserClientsFull and DatabaseClientsFull are the limits of a user or a database; TlsHandshake: check whether client_tls_cert_file has expired; BouncerConfig: the log says why.",
        labels: &[("reason", "ClientsFull")],
        fires: &[("trunkline_client_failures_total{stage=\"login\",reason=\"ClientsFull\"}", "0+60x20")],
        quiet: &[("trunkline_client_failures_total{stage=\"login\",reason=\"PasswordWrong\"}", "0+60x20")],
    },
    Alert {
        name: "TrunklineClientsFail",
        expr: "trunkline_recent_failures{kind=\"client\"} > 0",
        lasts: "5m",
        severity: Severity::Warning,
        summary: "For five minutes clients of {{ $labels.database }} have been disconnected with errors.",
        action: "SHOW WAITS names the last error; trunkline_client_failures_total counts them by reason.",
        labels: &[("kind", "client"), ("database", "d")],
        fires: &[("trunkline_recent_failures{kind=\"client\",database=\"d\"}", "1x20")],
        quiet: &[("trunkline_recent_failures{kind=\"client\",database=\"d\"}", "1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 0x8")],
    },
    Alert {
        name: "TrunklineQueriesFail",
        expr: "trunkline_recent_failures{kind=\"query\"} > 0",
        lasts: "1m",
        severity: Severity::Critical,
        summary: "Far more queries of {{ $labels.database }} fail than usually.",
        action: "SHOW WAITS shows their share and the last SQLSTATE, SHOW STATEMENTS which statements fail.",
        labels: &[("kind", "query"), ("database", "d")],
        fires: &[("trunkline_recent_failures{kind=\"query\",database=\"d\"}", "50x20")],
        quiet: &[("trunkline_failed_queries_total{database=\"d\"}", "0+50x20")],
    },
    Alert {
        name: "TrunklineClientsThink",
        expr: "rate(trunkline_phase_seconds_total{phase=\"client_thinking\"}[5m]) > ignoring (phase) 0.5 * sum without (phase) (rate(trunkline_phase_seconds_total[5m])) and on (instance, database, user) trunkline_wait_max_seconds > 0.1",
        lasts: "5m",
        severity: Severity::Warning,
        summary: "Clients of {{ $labels.database }} / {{ $labels.user }} are idle in their transactions for most of the time, while others wait.",
        action: "SHOW WAITS names them (idle in transaction). With idle_transaction_timeout such clients are closed.",
        labels: POOL,
        fires: &[
            ("trunkline_phase_seconds_total{database=\"d\",user=\"u\",phase=\"client_thinking\"}", "0+60x20"),
            ("trunkline_phase_seconds_total{database=\"d\",user=\"u\",phase=\"first_byte\"}", "0+10x20"),
            ("trunkline_wait_max_seconds{database=\"d\",user=\"u\"}", "0.5x20"),
        ],
        quiet: &[
            ("trunkline_phase_seconds_total{database=\"d\",user=\"u\",phase=\"client_thinking\"}", "0+60x20"),
            ("trunkline_phase_seconds_total{database=\"d\",user=\"u\",phase=\"first_byte\"}", "0+10x20"),
            ("trunkline_wait_max_seconds{database=\"d\",user=\"u\"}", "0x20"),
        ],
    },
    Alert {
        name: "TrunklineClientsDoNotRead",
        expr: "rate(trunkline_phase_seconds_total{phase=\"client_blocked\"}[5m]) > 1",
        lasts: "5m",
        severity: Severity::Warning,
        summary: "Clients of {{ $labels.database }} / {{ $labels.user }} do not read their answers, and their servers wait.",
        action: "SHOW WAITS names them (does not read its answer).",
        labels: &[("database", "d"), ("user", "u"), ("phase", "client_blocked")],
        fires: &[("trunkline_phase_seconds_total{database=\"d\",user=\"u\",phase=\"client_blocked\"}", "0+120x20")],
        quiet: &[("trunkline_phase_seconds_total{database=\"d\",user=\"u\",phase=\"streaming\"}", "0+120x20")],
    },
    Alert {
        name: "TrunklineServersChurn",
        expr: "sum by (instance, database) (rate(trunkline_servers_opened_total[5m])) > 0.05 * sum by (instance, database) (rate(trunkline_transactions_total[5m])) and sum by (instance, database) (rate(trunkline_servers_opened_total[5m])) > 0.2",
        lasts: "10m",
        severity: Severity::Warning,
        summary: "Servers of {{ $labels.database }} are opened for fewer than 20 transactions each.",
        action: "SHOW CHURN says why servers are closed: pools that evict each other's servers, short lifetimes, servers that cannot be cleaned.",
        labels: DATABASE,
        fires: &[
            ("trunkline_servers_opened_total{database=\"d\",user=\"u\",cause=\"client\"}", "0+60x30"),
            ("trunkline_transactions_total{database=\"d\"}", "0+600x30"),
        ],
        quiet: &[
            ("trunkline_servers_opened_total{database=\"d\",user=\"u\",cause=\"client\"}", "0+60x30"),
            ("trunkline_transactions_total{database=\"d\"}", "0+60000x30"),
        ],
    },
    Alert {
        name: "TrunklineServersLost",
        expr: "trunkline_recent_failures{kind=\"server\"} > 5",
        lasts: "0m",
        severity: Severity::Critical,
        summary: "PostgreSQL, or the network, has closed more than five servers of {{ $labels.database }} within a minute.",
        action: "PostgreSQL's log says why: a crash, a failover, out of memory, idle_in_transaction_session_timeout.",
        labels: &[("kind", "server"), ("database", "d")],
        fires: &[("trunkline_recent_failures{kind=\"server\",database=\"d\"}", "0x17 10x5")],
        quiet: &[("trunkline_recent_failures{kind=\"server\",database=\"d\"}", "3x20")],
    },
    Alert {
        name: "TrunklineServersPinned",
        expr: "trunkline_pinned_servers > on (instance, database) 0.5 * trunkline_pool_size",
        lasts: "10m",
        severity: Severity::Warning,
        summary: "More than half of the servers of {{ $labels.database }} are pinned by session state of their clients.",
        action: "SHOW PINS shows which clients, why, and since when.",
        labels: DATABASE,
        fires: &[
            ("trunkline_pinned_servers{database=\"d\"}", "15x20"),
            ("trunkline_pool_size{database=\"d\"}", "20x20"),
        ],
        quiet: &[
            ("trunkline_pinned_servers{database=\"d\"}", "5x20"),
            ("trunkline_pool_size{database=\"d\"}", "20x20"),
        ],
    },
    Alert {
        name: "TrunklineWorkerBusy",
        expr: "rate(trunkline_worker_busy_seconds_total[5m]) > 0.9",
        lasts: "5m",
        severity: Severity::Warning,
        summary: "Worker {{ $labels.worker }} is busy for more than nine tenths of the time.",
        action: "SHOW STATS shows the load of each database. More workers help if there are several databases, and processors for the workers.",
        labels: &[("worker", "0")],
        fires: &[("trunkline_worker_busy_seconds_total{worker=\"0\"}", "0+58x20")],
        quiet: &[("trunkline_worker_busy_seconds_total{worker=\"0\"}", "0+40x20")],
    },
    Alert {
        name: "TrunklineSlowTurns",
        expr: "increase(trunkline_slow_turns_total[5m]) > 30",
        lasts: "0m",
        severity: Severity::Warning,
        summary: "More than 30 times within five minutes a connection of {{ $labels.database }} kept its worker from serving all others for 5 ms or more.",
        action: "The log names the connection (slow turn).",
        labels: DATABASE,
        fires: &[("trunkline_slow_turns_total{database=\"d\"}", "0+20x20")],
        quiet: &[("trunkline_slow_turns_total{database=\"d\"}", "0+1x20")],
    },
    Alert {
        name: "TrunklineConnectionsRefused",
        expr: "rate(trunkline_unauthenticated_refused_total[5m]) > 1",
        lasts: "2m",
        severity: Severity::Warning,
        summary: "Connections arrive faster than they log in, and some are refused.",
        action: "SHOW SOCKETS and the log show where they come from; the limit is max_unauthenticated_connections.",
        labels: &[],
        fires: &[("trunkline_unauthenticated_refused_total", "0+120x20")],
        quiet: &[("trunkline_unauthenticated_refused_total", "0+6x20")],
    },
    Alert {
        name: "TrunklineLoginsFail",
        expr: "sum by (instance, step) (rate(trunkline_logins_total{outcome=~\"refused|timed_out\"}[5m])) > 1",
        lasts: "5m",
        severity: Severity::Warning,
        summary: "More than one login a second is refused or times out; the step reached is {{ $labels.step }}.",
        action: "The log has a line with the reason for each; the steps are explained at trunkline_logins_total.",
        labels: &[("step", "password")],
        fires: &[("trunkline_logins_total{step=\"password\",outcome=\"refused\"}", "0+120x20")],
        quiet: &[
            ("trunkline_logins_total{step=\"password\",outcome=\"refused\"}", "0+6x20"),
            ("trunkline_logins_total{step=\"server\",outcome=\"accepted\"}", "0+1200x20"),
        ],
    },
    Alert {
        name: "TrunklineRateLimitRejects",
        expr: "rate(trunkline_rate_limit_rejected_total[5m]) > 0",
        lasts: "2m",
        severity: Severity::Warning,
        summary: "The rate limit {{ $labels.rule }} rejects logins or transactions.",
        action: "SHOW RATE_LIMITS shows how many; the log names the first client.",
        labels: &[("rule", "r")],
        fires: &[("trunkline_rate_limit_rejected_total{rule=\"r\"}", "0+6x20")],
        quiet: &[("trunkline_rate_limit_rejected_total{rule=\"r\"}", "6x20")],
    },
    Alert {
        name: "TrunklinePaused",
        expr: "trunkline_paused == 1",
        lasts: "10m",
        severity: Severity::Warning,
        summary: "Trunkline has been paused for ten minutes.",
        action: "RESUME ends the pause; the log says who or what caused it.",
        labels: &[],
        fires: &[("trunkline_paused", "1x20")],
        quiet: &[("trunkline_paused", "1x5 0x15")],
    },
    Alert {
        name: "TrunklineProtocolViolation",
        expr: "increase(trunkline_protocol_violations_total[1h]) > 0",
        lasts: "0m",
        severity: Severity::Warning,
        summary: "A server broke the protocol in a way that has no explanation.",
        action: "The log has a line for each; please report it.",
        labels: &[],
        fires: &[("trunkline_protocol_violations_total", "0 0 1x18")],
        quiet: &[("trunkline_protocol_violations_total", "1x20")],
    },
    Alert {
        name: "TrunklineLogLinesLost",
        expr: "increase(trunkline_log_lines_lost_total[10m]) > 0",
        lasts: "0m",
        severity: Severity::Warning,
        summary: "Log lines are lost.",
        action: "Check whether the disk is full, or the pipe is not read.",
        labels: &[],
        fires: &[("trunkline_log_lines_lost_total", "0+10x20")],
        quiet: &[("trunkline_log_lines_lost_total", "10x20")],
    },
];

/// When each alert is evaluated in its test.
const LOOKED_AT: &str = "18m";

/// Returns the rules file.
#[must_use]
pub fn alert_rules() -> String {
    let mut out = format!("{HEAD}groups:\n  - name: trunkline\n    rules:\n");
    for alert in ALERTS {
        let Alert { name, expr, lasts, severity, summary, action, .. } = alert;
        let _ = write!(
            out,
            "      - alert: {name}\n        expr: {}\n        for: {lasts}\n        labels:\n          severity: {}\n        \
             annotations:\n          summary: {}\n          action: {}\n",
            quoted(expr),
            severity.word(),
            quoted(summary),
            quoted(action)
        );
    }
    out
}

/// Returns the tests for `promtool test rules`.
#[must_use]
pub fn alert_tests() -> String {
    let mut out = format!("{HEAD}rule_files:\n  - trunkline.rules.yml\nevaluation_interval: 1m\ntests:\n");
    for alert in ALERTS {
        for (series, is_firing) in [(alert.fires, true), (alert.quiet, false)] {
            out.push_str("  - interval: 1m\n    input_series:\n");
            for (name, values) in series {
                let _ = write!(out, "      - series: {}\n        values: {}\n", quoted(name), quoted(values));
            }
            let _ = write!(
                out,
                "    alert_rule_test:\n      - eval_time: {LOOKED_AT}\n        alertname: {}\n",
                alert.name
            );
            out.push_str(if is_firing { "        exp_alerts:\n" } else { "        exp_alerts: []\n" });
            if is_firing {
                let _ = writeln!(out, "          - exp_labels:\n              severity: {}", alert.severity.word());
                for (label, value) in alert.labels {
                    let _ = writeln!(out, "              {label}: {}", quoted(value));
                }
                let (summary, action) = (quoted(&alert.told()), quoted(alert.action));
                let _ = write!(
                    out,
                    "            exp_annotations:\n              summary: {summary}\n              action: {action}\n"
                );
            }
        }
    }
    out
}

/// Returns the reference of all alerts, in Markdown.
#[must_use]
pub fn alerts_reference() -> String {
    let mut out =
        "| alert | severity | when | for | what it means, and what to do |\n|---|---|---|---|---|\n".to_owned();
    for Alert { name, expr, lasts, severity, summary, action, .. } in ALERTS {
        let summary = summary.replace("{{ $labels.", "*").replace(" }}", "*");
        let (severity, expr) = (severity.word(), expr.replace('|', "\\|"));
        let _ = writeln!(out, "| `{name}` | {severity} | `{expr}` | {lasts} | {summary} {action} |");
    }
    out
}

impl Alert {
    /// Returns the summary with the labels of the test filled in.
    fn told(&self) -> String {
        let fill =
            |text: String, (label, value): &(&str, &str)| text.replace(&format!("{{{{ $labels.{label} }}}}"), value);
        self.labels.iter().fold(self.summary.to_owned(), fill)
    }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// A JSON string is a valid YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const HEAD: &str = "# Written by `cargo xtask gen` from the alerts in crates/control. Not edited by hand.\n";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics::names;

    #[test]
    fn alerts_ask_for_metrics_that_there_are() {
        let known: BTreeSet<String> = names().collect();
        for alert in ALERTS {
            let words = alert.expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let asked: Vec<&str> = words.filter(|word| word.starts_with("trunkline_")).collect();
            assert!(asked.iter().all(|word| known.contains(*word)), "{}: {asked:?}", alert.name);
            assert!(!asked.is_empty() || alert.name == "TrunklineDown", "{}", alert.name);
            for (series, _) in alert.fires.iter().chain(alert.quiet) {
                let name = series.split('{').next().unwrap_or_default();
                assert!(known.contains(name) || name == "up", "{}: {series}", alert.name);
            }
            assert!(!alert.told().contains("{{"), "{}: a label is not filled in", alert.name);
        }
    }

    #[test]
    fn reasons_and_causes_in_alerts_are_those_that_are_told() {
        let words = pool::WaitReason::ALL.iter().map(|why| why.word());
        let closed = measure::Closed::ALL.into_iter().map(measure::Closed::word);
        let opened = measure::Opened::ALL.into_iter().map(measure::Opened::word);
        let phases = measure::PHASES.iter().map(|(_, name)| *name);
        let faults = protocol::fault::CATALOG.iter().map(|entry| entry.name).chain(["TlsHandshake"]);
        let known: BTreeSet<&str> = words.chain(closed).chain(opened).chain(phases).chain(faults).collect();
        for alert in ALERTS {
            for label in ["reason", "cause", "phase"] {
                for part in alert.expr.split(&format!("{label}=")).skip(1) {
                    let value =
                        part.trim_start_matches('~').trim_start_matches('"').split('"').next().unwrap_or_default();
                    assert!(value.split('|').all(|word| known.contains(word)), "{}: {value}", alert.name);
                }
            }
        }
    }
}
