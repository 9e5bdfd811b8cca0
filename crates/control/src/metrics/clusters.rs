//! The metrics of clusters, and of reads on their replicas.
//!
//! Always true: labels are names of the configuration, words of fixed lists, and names of replication slots, of which there are at
//! most 32 for each cluster.
//! Not here: what hosts and clusters are (crate `cluster`), the alerts (`alerts`).

use std::sync::Arc;

use cluster::{Cluster, Member, Rotation, SlotLag};

use worker::letters::PoolMeasures;

use super::catalog::by_measures;
use super::{Metric, MetricKind, Sample};
use crate::console::show::{View, state_of};

pub(super) const CLUSTER_STATE: Metric = Metric {
    name: "trunkline_cluster_state",
    kind: MetricKind::Gauge,
    help: "1 for what a cluster does: unknown (no primary was found yet), steady, draining and hold (a switchover), failover (the primary does not answer, or is none any more), degraded (that has lasted for longer than hold_timeout), fenced (writes are stopped, since another host may be promoted at any moment).",
    labels: &["cluster", "state"],
    samples: |view| {
        let of =
            |(name, cluster): (&Arc<str>, &Cluster)| Sample::new([name, &state_of(cluster, view).word().into()], 1.0);
        view.clusters.rows().map(of).collect()
    },
};

pub(super) const CLUSTER_MEMBER_ROLE: Metric = Metric {
    name: "trunkline_cluster_member_role",
    kind: MetricKind::Gauge,
    help: "1 for what a host of a cluster is: primary, replica, fenced (it accepts writes, but is not the primary), foreign (it belongs to another cluster), unknown (it has not answered).",
    labels: &["cluster", "host", "role"],
    samples: |view| {
        of_members(view, |cluster, place, member| {
            Some((vec![Arc::clone(member.name()), cluster.role_of(place).word().into()], 1.0))
        })
    },
};

pub(super) const CLUSTER_MEMBER_LAG: Metric = Metric {
    name: "trunkline_cluster_member_lag_bytes",
    kind: MetricKind::Gauge,
    help: "By how many bytes of the write-ahead log a replica is behind the primary in replaying.",
    labels: &["cluster", "host"],
    samples: |view| {
        of_members(view, |cluster, _, member| Some((vec![Arc::clone(member.name())], cluster.lag_of(member)? as f64)))
    },
};

pub(super) const CLUSTER_MEMBER_SUSPECT: Metric = Metric {
    name: "trunkline_cluster_member_suspect",
    kind: MetricKind::Gauge,
    help: "Whether a check of a host of a cluster is late, so that what begins now begins at another host that fits.",
    labels: &["cluster", "host"],
    samples: |view| {
        of_members(view, |cluster, place, member| {
            Some((vec![Arc::clone(member.name())], f64::from(u8::from(cluster.is_suspect(place)))))
        })
    },
};

pub(super) const CLUSTER_SLOT_LAG: Metric = Metric {
    name: "trunkline_cluster_slot_lag_bytes",
    kind: MetricKind::Gauge,
    help: "By how many bytes of the write-ahead log a replication slot of the primary is behind: what its subscriber or standby has not confirmed. The 32 slots of a cluster that are furthest behind, asked for each 5 s.",
    labels: &["cluster", "slot"],
    samples: |view| {
        let of = |(name, cluster): (&Arc<str>, &Cluster)| {
            let of_slot = |slot: &SlotLag| Sample::new([name, &slot.slot], slot.lag as f64);
            cluster.slots().iter().map(of_slot).collect::<Vec<_>>()
        };
        view.clusters.rows().flat_map(of).collect()
    },
};

pub(super) const CLUSTER_MEMBER_LAG_SECONDS: Metric = Metric {
    name: "trunkline_cluster_member_lag_seconds",
    kind: MetricKind::Gauge,
    help: "How long ago the primary had written what a replica has not replayed.",
    labels: &["cluster", "host"],
    samples: |view| {
        of_rotations(view, |rotation, cluster, member| Some(rotation.lag_of(cluster, member)?.time.as_secs_f64()))
    },
};

pub(super) const CLUSTER_MEMBER_IN_ROTATION: Metric = Metric {
    name: "trunkline_cluster_member_in_rotation",
    kind: MetricKind::Gauge,
    help: "Whether a host of a cluster is near enough to the primary for all databases with max_lag or max_lag_time.",
    labels: &["cluster", "host"],
    samples: |view| {
        of_rotations(view, |rotation, _, member| Some(f64::from(u8::from(rotation.is_readable(member.name())?))))
    },
};

pub(super) const READS_ROUTED: Metric = Metric {
    name: "trunkline_reads_routed",
    kind: MetricKind::Counter,
    help: "Reads of clients with read_routing that might have gone to a replica: replica (it was asked), behind (the primary was asked, since no replica was known to have replayed what the client has written, or has asked for), refused and lost (the primary was asked after a replica: it had refused, or was lost).",
    labels: &["database", "user", "result"],
    samples: |view| {
        by_measures(view, |PoolMeasures { reads, .. }| {
            let counts = [
                ("replica", reads.to_replica),
                ("behind", reads.behind),
                ("refused", reads.refused),
                ("lost", reads.lost),
            ];
            counts.map(|(word, count)| (word, count as f64)).to_vec()
        })
    },
};

/// A sample for each host of each cluster of which something is known.
fn of_rotations(view: &View<'_>, value: impl Fn(&Rotation, &Cluster, &Member) -> Option<f64>) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (name, cluster) in view.clusters.rows() {
        let Some(rotation) = view.rotations.of(name) else { continue };
        for member in cluster.members() {
            let Some(value) = value(rotation, cluster, member) else { continue };
            samples.push(Sample::new([name, member.name()], value));
        }
    }
    samples
}

/// A sample for each host of each cluster that has one: the labels behind the cluster, and the value.
fn of_members(
    view: &View<'_>,
    sample: impl Fn(&Cluster, usize, &Member) -> Option<(Vec<Arc<str>>, f64)>,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (name, cluster) in view.clusters.rows() {
        for (place, member) in cluster.members().iter().enumerate() {
            let Some((mut labels, value)) = sample(cluster, place, member) else { continue };
            labels.insert(0, Arc::clone(name));
            samples.push(Sample { labels, value: super::Value::Number(value) });
        }
    }
    samples
}
