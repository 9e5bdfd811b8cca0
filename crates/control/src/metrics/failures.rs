//! The metrics of hosts that cannot be reached, and of what fails.
//!
//! Always true: no label has a name that a client may invent.
//! Not here: what counts as a failure (`worker::failing`), the alerts (`alerts`).

use std::sync::Arc;

use measure::{Failing, KnownHost};

use super::{Metric, MetricKind, Sample, Value};
use crate::console::show::{View, hosts_with_state};

pub(super) const HOST_REACHABLE: Metric = Metric {
    name: "trunkline_host_reachable",
    kind: MetricKind::Gauge,
    help: "Whether a host of the databases answered the last login of the pooler (1) or not (0). A host that refuses a login is reachable. It is absent before the first login, and five minutes after a failed one that was not repeated. SHOW HOSTS has the last error.",
    labels: &["host"],
    samples: |view| {
        let of = |(host, is_reachable): &(KnownHost, bool)| Sample::new([&host.name], f64::from(*is_reachable));
        hosts_with_state(view).iter().map(of).collect()
    },
};

pub(super) const HOST_STATE_SECONDS: Metric = Metric {
    name: "trunkline_host_state_seconds",
    kind: MetricKind::Gauge,
    help: "For how long a host has been reachable, or unreachable.",
    labels: &["host"],
    samples: |view| {
        let of = |(host, _): &(KnownHost, bool)| Sample::new([&host.name], host.since.as_secs_f64());
        hosts_with_state(view).iter().map(of).collect()
    },
};

pub(super) const HOST_ROLE: Metric = Metric {
    name: "trunkline_host_role",
    kind: MetricKind::Gauge,
    help: "1 for the role that a server at the host reported last: primary or standby. It is absent before the first login; before PostgreSQL 14 it is known as far as target_session_attrs has asked for it.",
    labels: &["host", "role"],
    samples: |view| {
        let of = |(host, _): &(KnownHost, bool)| Some(Sample::new([&host.name, &host.role?.word().into()], 1.0));
        hosts_with_state(view).iter().filter_map(of).collect()
    },
};

pub(super) const SERVER_LOGIN_FAILURES: Metric = Metric {
    name: "trunkline_server_login_failures",
    kind: MetricKind::Counter,
    help: "Failed logins of the pooler at servers, by reason: unreachable (the connection failed, or an unknown name), refused (the server's error, such as a wrong password), passing (starting up or shutting down).",
    labels: &["reason"],
    samples: |view| failure_totals(view, |kind| (kind == Failing::ServerLogin).then(Vec::new)),
};

pub(super) const CLIENT_FAILURES: Metric = Metric {
    name: "trunkline_client_failures",
    kind: MetricKind::Counter,
    help: "Clients that were disconnected with an error, by stage (login, session) and by reason: the name of the error, or TlsHandshake. Orders of operators, a shutdown and client_idle_timeout are not counted.",
    labels: &["stage", "reason"],
    samples: |view| {
        failure_totals(view, |kind| match kind {
            Failing::ClientLogin => Some(vec!["login"]),
            Failing::Client => Some(vec!["session"]),
            Failing::ServerLogin | Failing::Server => None,
        })
    },
};

pub(super) const RECENT_FAILURES: Metric = Metric {
    name: "trunkline_recent_failures",
    kind: MetricKind::Gauge,
    help: "What has failed within the last minute, by kind: server_login (logins of the pooler), server (ended by itself), client_login, client (disconnected with an error), query (errors within ten seconds, where they are more than usual in that database). Logins of clients have no database here, since they may name any. It is absent while nothing fails.",
    labels: &["kind", "database"],
    samples: recent_failures,
};

/// Sums how often something has failed since the start, for the kinds that get labels in front of the reason.
fn failure_totals(view: &View<'_>, labels: fn(Failing) -> Option<Vec<&'static str>>) -> Vec<Sample> {
    let mut sums = std::collections::BTreeMap::<Vec<&'static str>, u64>::new();
    for (kind, reason, count) in view.snapshots.iter().flat_map(|snapshot| &snapshot.failure_totals) {
        if let Some(mut labels) = labels(*kind) {
            labels.push(reason);
            *sums.entry(labels).or_default() += count;
        }
    }
    let of = |(labels, count): (Vec<&'static str>, u64)| Sample {
        labels: labels.into_iter().map(Arc::from).collect(),
        value: Value::Number(count as f64),
    };
    sums.into_iter().map(of).collect()
}

fn recent_failures(view: &View<'_>) -> Vec<Sample> {
    let mut sums = std::collections::BTreeMap::<(&str, Arc<str>), u64>::new();
    for row in view.snapshots.iter().flat_map(|snapshot| &snapshot.failures) {
        let is_named_by_client = row.kind == Failing::ClientLogin;
        let database = if is_named_by_client { Arc::default() } else { row.database.clone() };
        *sums.entry((row.kind.word(), database)).or_default() += u64::from(row.count_kept);
    }
    for row in view.snapshots.iter().flat_map(|snapshot| &snapshot.failing_queries) {
        *sums.entry(("query", row.database.clone())).or_default() += row.excess.errors;
    }
    sums.into_iter().map(|((kind, database), count)| Sample::new([&kind.into(), &database], count as f64)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use measure::HostRole;
    use worker::letters::Snapshot;

    use super::*;
    use crate::console::show::tests::{settings, with_view};

    #[test]
    fn the_role_of_a_host_is_a_label_once_it_is_known() {
        let settings = settings("[databases]\nd = host=a,b,c port=1\n[pgbouncer]\nauth_type=any\n");
        let host = |name: &str, role| KnownHost {
            name: name.into(),
            is_reachable: true,
            role,
            since: Duration::ZERO,
            heard: Duration::ZERO,
            failed: 0,
            error: None,
        };
        let known_hosts =
            vec![host("a:1", Some(HostRole::Primary)), host("b:1", Some(HostRole::Standby)), host("c:1", None)];
        let snapshots = [Snapshot { known_hosts, ..Snapshot::default() }];
        let samples = with_view(&settings, &snapshots, |view| (HOST_ROLE.samples)(view));
        let labels: Vec<_> = samples.iter().map(|sample| sample.labels.join(" ")).collect();
        assert_eq!(labels, ["a:1 primary", "b:1 standby"]);
    }
}
