//! Every metric of ours.
//!
//! To add a metric is to add an entry here; the reference page, the tests and the checks of board and alerts pick it
//! up.
//!
//! Always true: names begin with `trunkline_`, contain their unit, and keep their meaning between releases.

use std::sync::Arc;

use measure::{CancelRequest, Connections, HandshakeOutcome, HandshakePeer, LoginOutcome, LoginStep};
use protocol::state::PROBED;
use worker::letters::{Evicted, PoolMeasures, PoolRow, Snapshot, Totals};

use super::{Metric, MetricKind, Sample, Value, clusters, failures};
use crate::PGBOUNCER_VERSION;
use crate::console::show::View;
use crate::history::gather;

/// A counter of each database.
macro_rules! database {
    ($name:literal, $help:literal, $pick:expr) => {
        Metric {
            name: $name,
            kind: MetricKind::Counter,
            help: $help,
            labels: &["database"],
            samples: |view| by_database(view, $pick),
        }
    };
    // For counters that are 0 for most databases: zero values are left out.
    ($name:literal, $help:literal, $pick:expr, rare) => {
        Metric { samples: |view| occurred(by_database(view, $pick)), ..database!($name, $help, $pick) }
    };
}

/// All metrics of ours, in the order of the output.
pub(crate) const CATALOG: &[Metric] = &[
    Metric {
        name: "trunkline_build_info",
        kind: MetricKind::Gauge,
        help: "Always 1; the labels are the version, and the version of PgBouncer that it is compatible with.",
        labels: &["version", "pgbouncer"],
        samples: |_| vec![Sample::new([&env!("CARGO_PKG_VERSION").into(), &PGBOUNCER_VERSION.into()], 1.0)],
    },
    Metric {
        name: "trunkline_workers",
        kind: MetricKind::Gauge,
        help: "The number of worker threads.",
        labels: &[],
        samples: |view| vec![Sample::only(view.snapshots.len() as f64)],
    },
    Metric {
        name: "trunkline_clients",
        kind: MetricKind::Gauge,
        help: "Clients of a pool: active (they have a server, or are idle), waiting (for a server).",
        labels: &["database", "user", "state"],
        samples: |view| by_pool(view, |row| vec![("active", row.cl_active.into()), ("waiting", row.cl_waiting.into())]),
    },
    Metric {
        name: "trunkline_servers",
        kind: MetricKind::Gauge,
        help: "Servers of a pool: active (lent to a client), idle (ready to be lent), used (idle, to be checked before they are lent), tested (being checked, reset or cleaned), login (being opened), being_canceled (not lent until a cancel request has finished). The last four appear only if they are not 0.",
        labels: &["database", "user", "state"],
        samples: |view| {
            by_pool(view, |row| {
                let rare = [
                    ("used", row.sv_used),
                    ("tested", row.sv_tested),
                    ("login", row.sv_login),
                    ("being_canceled", row.sv_being_canceled),
                ];
                let often = [("active", row.sv_active), ("idle", row.sv_idle)];
                let told = often.into_iter().chain(rare.into_iter().filter(|(_, count)| *count > 0));
                told.map(|(state, count)| (state, count.into())).collect()
            })
        },
    },
    Metric {
        name: "trunkline_wait_max_seconds",
        kind: MetricKind::Gauge,
        help: "How long the first client in the wait queue of a pool has waited; 0 if no client waits.",
        labels: &["database", "user"],
        samples: |view| {
            let rows = pools(view);
            rows.map(|row| Sample::new([&row.database, &row.user], row.maxwait.as_secs_f64())).collect()
        },
    },
    Metric {
        name: "trunkline_pool_size",
        kind: MetricKind::Gauge,
        help: "How many servers each pool of a database may have, without its reserve.",
        labels: &["database"],
        samples: |view| {
            let databases = view.settings.databases.iter();
            let size = |entry: &config::Database| entry.pool_size.unwrap_or(view.settings.default_pool_size);
            databases.map(|(name, entry)| Sample::new([name], f64::from(size(entry)))).collect()
        },
    },
    database!("trunkline_transactions", "Transactions in a database.", |totals| totals.xact_count as f64),
    database!("trunkline_queries", "Queries in a database; a pipeline counts once for each batch.", |totals| totals
        .query_count
        as f64),
    database!("trunkline_transaction_seconds", "Time that servers of a database spent in transactions.", |totals| {
        seconds(totals.xact_time)
    }),
    database!("trunkline_query_seconds", "Time that servers of a database spent on queries.", |totals| {
        seconds(totals.query_time)
    }),
    database!(
        "trunkline_wait_seconds",
        "Time that clients of a database waited for a server.",
        |totals| seconds(totals.wait_time),
        rare
    ),
    database!("trunkline_loans", "How often a server of a database was lent to a client.", |totals| totals
        .server_assignment_count
        as f64),
    database!("trunkline_received_bytes", "Bytes from clients of a database.", |totals| totals.received as f64),
    database!("trunkline_sent_bytes", "Bytes from servers of a database.", |totals| totals.sent as f64),
    database!("trunkline_client_logins", "Logins of clients to a database.", |totals| totals.client_login_count as f64),
    database!(
        "trunkline_client_parses",
        "Statements that clients of a database have prepared.",
        |totals| totals.client_parse_count as f64,
        rare
    ),
    database!(
        "trunkline_server_parses",
        "Statements that had to be prepared on a server of a database.",
        |totals| totals.server_parse_count as f64,
        rare
    ),
    database!(
        "trunkline_slow_turns",
        "How often a connection of a database kept its worker from serving others for 5 ms or more.",
        |totals| totals.slow_turn_count as f64,
        rare
    ),
    Metric {
        name: "trunkline_transaction_duration_seconds",
        kind: MetricKind::Histogram,
        help: "How long the transactions of a pool lasted, from the client's first byte to the last byte of the answer.",
        labels: &["database", "user"],
        samples: |view| distributions(view, |measures| measures.total.as_deref()),
    },
    Metric {
        name: "trunkline_wait_duration_seconds",
        kind: MetricKind::Histogram,
        help: "How long the transactions of a pool waited for a server; it appears when the first one has waited.",
        labels: &["database", "user"],
        samples: |view| distributions(view, |measures| measures.wait.as_deref().filter(|waited| waited.sum() > 0)),
    },
    Metric {
        name: "trunkline_phase_seconds",
        kind: MetricKind::Counter,
        help: "Time of a pool's transactions by phase: waiting (for a server), settings (the client's settings are applied to the server, or the server is asked for its session state), first_byte (the server works), streaming (the server answers), client_blocked (the client does not read), client_thinking (the client is idle in its transaction).",
        labels: &["database", "user", "phase"],
        samples: |view| {
            by_measures(view, |measures| {
                measure::PHASES.iter().map(|(phase, name)| (*name, seconds(measures.sums.of(*phase)))).collect()
            })
        },
    },
    Metric {
        name: "trunkline_wait_reason_seconds",
        kind: MetricKind::Counter,
        help: "Time that all clients of a pool together waited for a server, by reason.",
        labels: &["database", "user", "reason"],
        samples: |view| {
            by_measures(view, |measures| {
                pool::WaitReason::ALL.iter().map(|why| (why.word(), seconds(measures.waited.of(*why)))).collect()
            })
        },
    },
    Metric {
        name: "trunkline_servers_opened",
        kind: MetricKind::Counter,
        help: "Servers that a pool has opened, by cause.",
        labels: &["database", "user", "cause"],
        samples: |view| {
            by_measures(view, |measures| {
                let opened = measure::Opened::ALL.into_iter();
                opened.map(|why| (why.word(), measures.lives.opened(why) as f64)).collect()
            })
        },
    },
    Metric {
        name: "trunkline_servers_closed",
        kind: MetricKind::Counter,
        help: "Servers that a pool has closed, by cause.",
        labels: &["database", "user", "cause"],
        samples: |view| {
            by_measures(view, |measures| {
                let closed = measure::Closed::ALL.into_iter();
                closed.map(|why| (why.word(), measures.lives.closed(why) as f64)).collect()
            })
        },
    },
    Metric {
        name: "trunkline_servers_evicted",
        kind: MetricKind::Counter,
        help: "Servers of a pool that were closed because another pool needed their places, by that other pool. Its labels are empty for clients of another worker, replication clients of the same pool, and clients that need the database without other connections.",
        labels: &["database", "user", "by_database", "by_user"],
        samples: |view| {
            let rows = pools(view).filter_map(|row| Some((row, row.measures.as_deref()?)));
            let sample = |(row, measures): (&PoolRow, &PoolMeasures)| {
                let by =
                    |by: &Evicted| Sample::new([&row.database, &row.user, &by.database, &by.user], by.count as f64);
                measures.evicted_by.iter().map(by).collect::<Vec<_>>()
            };
            rows.flat_map(sample).collect()
        },
    },
    Metric {
        name: "trunkline_servers_lent_peak",
        kind: MetricKind::Gauge,
        help: "The most servers of a pool that were lent at the same time since the start.",
        labels: &["database", "user"],
        samples: |view| {
            let row = |row: &PoolRow| {
                let peak = row.measures.as_ref()?.peak_lent;
                Some(Sample::new([&row.database, &row.user], peak.into()))
            };
            pools(view).filter_map(row).collect()
        },
    },
    Metric {
        name: "trunkline_application_transactions",
        kind: MetricKind::Counter,
        help: "Transactions by application_name; applications that are not counted separately are other.",
        labels: &["database", "user", "application_name"],
        samples: |view| applications(view, |sums| sums.count as f64),
    },
    Metric {
        name: "trunkline_application_seconds",
        kind: MetricKind::Counter,
        help: "Time of an application's transactions.",
        labels: &["database", "user", "application_name"],
        samples: |view| applications(view, |sums| seconds(sums.total())),
    },
    Metric {
        name: "trunkline_application_wait_seconds",
        kind: MetricKind::Counter,
        help: "Time that an application's transactions waited for a server.",
        labels: &["database", "user", "application_name"],
        samples: |view| applications(view, |sums| seconds(sums.of(measure::Phase::Waiting))),
    },
    Metric {
        name: "trunkline_worker_busy_seconds",
        kind: MetricKind::Counter,
        help: "Time that a worker ran or waited for a processor; the rest of the time it slept.",
        labels: &["worker"],
        samples: |view| {
            let workers = view.snapshots.iter().enumerate();
            let busy = |(number, snapshot): (usize, &Snapshot)| {
                Sample::new([&number.to_string().into()], snapshot.busy.as_secs_f64())
            };
            workers.map(busy).collect()
        },
    },
    Metric {
        name: "trunkline_pins",
        kind: MetricKind::Counter,
        help: "How often session state of a client began to pin a server of a database, by its kind.",
        labels: &["database", "kind"],
        samples: |view| {
            let rows = view.snapshots.iter().flat_map(|snapshot| &snapshot.pin_totals);
            rows.map(|row| Sample::new([&row.database, &row.kind.word().into()], row.total as f64)).collect()
        },
    },
    Metric {
        name: "trunkline_probes",
        kind: MetricKind::Counter,
        help: "State probes sent to servers (session_state), by what they asked for.",
        labels: &["kind"],
        samples: |view| {
            let mut sums = [0; PROBED.len()];
            for (_, counts) in view.snapshots.iter().flat_map(|snapshot| &snapshot.probes) {
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let told = PROBED.into_iter().zip(sums).filter(|(_, count)| *count > 0);
            told.map(|(kind, count)| Sample::new([&kind.into()], count as f64)).collect()
        },
    },
    Metric {
        name: "trunkline_pinned_servers",
        kind: MetricKind::Gauge,
        help: "Servers of a database that are pinned by session state of their clients.",
        labels: &["database"],
        samples: |view| {
            let pins = view.snapshots.iter().flat_map(|snapshot| &snapshot.pins);
            let servers: std::collections::BTreeSet<_> = pins.map(|pin| (&pin.database, pin.server)).collect();
            let mut counted = std::collections::BTreeMap::<&Arc<str>, u32>::new();
            servers.into_iter().for_each(|(database, _)| *counted.entry(database).or_default() += 1);
            counted.into_iter().map(|(database, count)| Sample::new([database], count.into())).collect()
        },
    },
    Metric {
        name: "trunkline_logins",
        kind: MetricKind::Counter,
        help: "Logins of clients that have ended, by the step that they had reached and by outcome. Steps: startup (no startup packet yet), tls (handshake), client_limit (waiting for a slot of max_client_conn), rate_limit, auth_query, password (the client has to send it), hashing, external_auth (LDAP, PAM), system_user (peer), admission (waiting for a slot of the user and the database), server (waiting for the first server of the pool). Outcomes: accepted, refused, timed_out, gone (the client disconnected).",
        labels: &["step", "outcome"],
        samples: |view| {
            by_connections(view, |connections| {
                let ends = LoginStep::ALL.into_iter().flat_map(|step| LoginOutcome::ALL.map(|end| (step, end)));
                ends.map(|(step, end)| (vec![step.word(), end.word()], connections.logins(step, end))).collect()
            })
        },
    },
    clusters::CLUSTER_STATE,
    clusters::CLUSTER_MEMBER_ROLE,
    clusters::CLUSTER_MEMBER_LAG,
    clusters::CLUSTER_SLOT_LAG,
    clusters::CLUSTER_MEMBER_LAG_SECONDS,
    clusters::CLUSTER_MEMBER_SUSPECT,
    clusters::CLUSTER_MEMBER_IN_ROTATION,
    clusters::READS_ROUTED,
    failures::HOST_REACHABLE,
    failures::HOST_STATE_SECONDS,
    failures::HOST_ROLE,
    failures::SERVER_LOGIN_FAILURES,
    failures::CLIENT_FAILURES,
    database!(
        "trunkline_failed_queries",
        "Queries of a database to which its server answered with an error; a pipeline counts once.",
        |totals| totals.error_count as f64,
        rare
    ),
    failures::RECENT_FAILURES,
    Metric {
        name: "trunkline_tls_handshakes",
        kind: MetricKind::Counter,
        help: "TLS handshakes that have ended, by the peer (client, server) and by outcome: full (expensive), resumed (an earlier TLS session goes on), failed.",
        labels: &["peer", "outcome"],
        samples: |view| {
            by_connections(view, |connections| {
                let ends = HandshakePeer::ALL.into_iter().flat_map(|peer| HandshakeOutcome::ALL.map(|how| (peer, how)));
                ends.map(|(peer, how)| (vec![peer.word(), how.word()], connections.handshakes(peer, how))).collect()
            })
        },
    },
    Metric {
        name: "trunkline_cancel_requests",
        kind: MetricKind::Counter,
        help: "Cancel requests by outcome: sent (to a server), queued (the query waited for a server and was removed from the wait queue), idle (no query was running), unknown_key, expired (cancel_wait_timeout), forwarded (to a peer), failed (the server or peer could not be reached).",
        labels: &["outcome"],
        samples: |view| {
            by_connections(view, |connections| {
                CancelRequest::ALL.map(|how| (vec![how.word()], connections.cancel_requests(how))).into()
            })
        },
    },
    Metric {
        name: "trunkline_unauthenticated_connections",
        kind: MetricKind::Gauge,
        help: "Connections that have not logged in.",
        labels: &[],
        samples: |view| vec![Sample::only(sum(view, |snapshot| snapshot.unauthenticated.into()))],
    },
    Metric {
        name: "trunkline_unauthenticated_refused",
        kind: MetricKind::Counter,
        help: "Connections that had not logged in and were refused, or closed to make room for others.",
        labels: &[],
        samples: |view| vec![Sample::only(sum(view, |snapshot| snapshot.turned_away as f64))],
    },
    Metric {
        name: "trunkline_hold_refused",
        kind: MetricKind::Counter,
        help: "Clients that were refused because too many clients were held while a primary changes, or too many bytes (hold_clients_max, hold_bytes_max).",
        labels: &[],
        samples: |view| vec![Sample::only(sum(view, |snapshot| snapshot.hold_refused as f64))],
    },
    Metric {
        name: "trunkline_protocol_violations",
        kind: MetricKind::Counter,
        help: "How often a server broke the protocol in a way that has no explanation.",
        labels: &[],
        samples: |view| vec![Sample::only(sum(view, |snapshot| snapshot.protocol_violations as f64))],
    },
    Metric {
        name: "trunkline_log_lines_lost",
        kind: MetricKind::Counter,
        help: "Log lines that could not be written.",
        labels: &[],
        samples: |view| vec![Sample::only(view.log_lines_lost as f64)],
    },
    Metric {
        name: "trunkline_spans_sent",
        kind: MetricKind::Counter,
        help: "Spans that the OpenTelemetry collector has accepted (otlp_endpoint).",
        labels: &[],
        samples: |view| vec![Sample::only(view.spans.sent as f64)],
    },
    Metric {
        name: "trunkline_spans_dropped",
        kind: MetricKind::Counter,
        help: "Spans that were dropped: full (there was no room for them), unreachable (the collector did not answer or was busy for too long), refused (by the collector), switched_off (they waited when otlp_endpoint was removed).",
        labels: &["reason"],
        samples: |view| {
            let dropped = view.spans.dropped().into_iter();
            dropped.map(|(why, count)| Sample::new([&why.into()], count as f64)).collect()
        },
    },
    Metric {
        name: "trunkline_span_export_failures",
        kind: MetricKind::Counter,
        help: "How often posting spans to the collector has failed.",
        labels: &[],
        samples: |view| vec![Sample::only(view.spans.failures as f64)],
    },
    Metric {
        name: "trunkline_rate_limit_delayed",
        kind: MetricKind::Counter,
        help: "Logins or transactions that a rate limit has delayed.",
        labels: &["rule"],
        samples: |view| {
            view.rates.iter().map(|(row, _)| Sample::new([&row.rule.name], row.tally.delayed as f64)).collect()
        },
    },
    Metric {
        name: "trunkline_rate_limit_rejected",
        kind: MetricKind::Counter,
        help: "Logins or transactions that a rate limit has rejected.",
        labels: &["rule"],
        samples: |view| {
            view.rates.iter().map(|(row, _)| Sample::new([&row.rule.name], row.tally.rejected as f64)).collect()
        },
    },
    Metric {
        name: "trunkline_paused",
        kind: MetricKind::Gauge,
        help: "1 while everything is paused, otherwise 0.",
        labels: &[],
        samples: |view| vec![Sample::only(f64::from(u8::from(view.standing.is_all_paused())))],
    },
];

pub(super) fn pools<'v>(view: &'v View<'_>) -> impl Iterator<Item = &'v PoolRow> {
    view.snapshots.iter().flat_map(|snapshot| &snapshot.pools)
}

fn by_pool(view: &View<'_>, pick: fn(&PoolRow) -> Vec<(&'static str, f64)>) -> Vec<Sample> {
    let samples = |row: &PoolRow| {
        let of = |(state, value): (&str, f64)| Sample::new([&row.database, &row.user, &state.into()], value);
        pick(row).into_iter().map(of).collect::<Vec<_>>()
    };
    pools(view).flat_map(samples).collect()
}

/// Returns values from the measurements of pools that have been used; zero values are left out.
pub(super) fn by_measures(view: &View<'_>, pick: fn(&PoolMeasures) -> Vec<(&'static str, f64)>) -> Vec<Sample> {
    let samples = |row: &PoolRow| {
        let of = |(word, value): (&str, f64)| Sample::new([&row.database, &row.user, &word.into()], value);
        row.measures
            .as_ref()
            .map(|measures| pick(measures).into_iter().filter(|(_, value)| *value > 0.0).map(of).collect::<Vec<_>>())
    };
    pools(view).filter_map(samples).flatten().collect()
}

/// A counter with the values of its labels.
type Occurred = (Vec<&'static str>, u64);

/// Sums counters over all workers; those that are 0 are left out.
fn by_connections(view: &View<'_>, pick: fn(&Connections) -> Vec<Occurred>) -> Vec<Sample> {
    let mut sums = std::collections::BTreeMap::<Vec<&'static str>, u64>::new();
    for (labels, count) in view.snapshots.iter().flat_map(|snapshot| pick(&snapshot.connections)) {
        *sums.entry(labels).or_default() += count;
    }
    let told = sums.into_iter().filter(|(_, count)| *count > 0);
    told.map(|(labels, count)| Sample {
        labels: labels.into_iter().map(Arc::from).collect(),
        value: Value::Number(count as f64),
    })
    .collect()
}

fn distributions(view: &View<'_>, pick: fn(&PoolMeasures) -> Option<&measure::Histogram>) -> Vec<Sample> {
    let sample = |row: &PoolRow| {
        let histogram = pick(row.measures.as_ref()?)?;
        Some(Sample::distribution([&row.database, &row.user], histogram))
    };
    pools(view).filter_map(sample).collect()
}

fn applications(view: &View<'_>, pick: fn(&measure::Sums) -> f64) -> Vec<Sample> {
    let mut sums: std::collections::BTreeMap<_, f64> = std::collections::BTreeMap::new();
    let mut other = 0.0;
    for snapshot in view.snapshots {
        for row in &snapshot.applications {
            *sums.entry((&row.database, &row.user, &row.name)).or_default() += pick(&row.sums);
        }
        other += pick(&snapshot.other_applications);
    }
    let nobody: Arc<str> = "".into();
    let folded = Sample::new([&nobody, &nobody, &"other".into()], other);
    let mut samples = vec![folded];
    for ((database, user, name), value) in sums {
        samples.push(Sample::new([database, user, &(**name).into()], value));
    }
    samples
}

/// Sums the totals of each database over all workers.
pub(super) fn by_database(view: &View<'_>, pick: fn(&Totals) -> f64) -> Vec<Sample> {
    let mut sums: std::collections::BTreeMap<Arc<str>, f64> = gather([]).into_keys().map(|name| (name, 0.0)).collect();
    for (name, totals) in view.snapshots.iter().flat_map(|snapshot| &snapshot.stats) {
        *sums.entry(Arc::clone(name)).or_default() += pick(totals);
    }
    sums.iter().map(|(name, value)| Sample::new([name], *value)).collect()
}

/// Removes samples that are 0.
pub(super) fn occurred(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.retain(|sample| sample.value != Value::Number(0.0));
    samples
}

fn sum(view: &View<'_>, pick: fn(&Snapshot) -> f64) -> f64 {
    view.snapshots.iter().map(pick).sum()
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
