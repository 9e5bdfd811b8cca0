//! Which hosts of the clusters may be read from: what follows from their lag and from the limits of databases.
//!
//! Always true: workers are told when that changes, and not otherwise; of a cluster that is gone nothing is kept.
//! Not here: the decision (`cluster::Rotation`), what a worker does then (`worker::upstream::replicas`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::{LagLimit, Rotation};
use config::Settings;
use worker::letters::ToWorker;

use crate::control::Control;

/// The hosts that may be read from, by cluster.
#[derive(Debug, Default)]
pub(crate) struct Rotations(BTreeMap<Arc<str>, Rotation>);

impl Rotations {
    /// What is known of the hosts of a cluster.
    pub(crate) fn of(&self, cluster: &str) -> Option<&Rotation> {
        self.0.get(cluster)
    }
}

impl<S> Control<S> {
    /// Something has happened to a cluster: looks which of its hosts may be read from now.
    pub(crate) fn turn_replicas(&mut self, cluster: &Arc<str>) {
        let Some((_, machine)) = self.clusters.rows().find(|(name, _)| *name == cluster) else { return };
        let limits = limits_of(&self.hands.active.settings, cluster);
        let rotation = self.rotations.0.entry(Arc::clone(cluster)).or_default();
        let turn = rotation.look(self.hands.now.time, machine, &limits);
        let readable = turn.is_changed.then(|| rotation.readable());
        for host in &turn.back {
            let letter = || ToWorker::ReplicaIsBack { cluster: Arc::clone(cluster), host: Arc::clone(host) };
            self.hands.post_all(letter);
        }
        for news in &turn.news {
            self.tell_of_cluster(cluster, news);
        }
        if let Some(readable) = readable {
            self.change_standing(|standing| standing.set_readable(cluster, readable));
        }
    }

    /// New settings are in force: databases may have other limits.
    pub(crate) fn heed_lag_limits(&mut self) {
        let clusters: Vec<Arc<str>> = self.clusters.rows().map(|(name, _)| Arc::clone(name)).collect();
        self.rotations.0.retain(|name, _| clusters.contains(name));
        for cluster in &clusters {
            self.turn_replicas(cluster);
        }
    }
}

/// The limits that databases have for the replicas of a cluster.
fn limits_of(settings: &Settings, cluster: &str) -> BTreeSet<LagLimit> {
    let all = settings.databases.values().chain(&settings.fallback);
    let ours = all.filter(|entry| entry.cluster.as_deref() == Some(cluster));
    ours.map(|entry| entry.max_lag).filter(|limit| !limit.is_none()).collect()
}

#[cfg(test)]
mod tests {
    use cluster::{Checked, Command, Event, Report};

    use crate::control::tests::TestControl;

    const FILE: &str = "[clusters]\nmain = hosts=a,b user=u\n[databases]\nro = cluster=main role=replica max_lag=100\n";

    /// Answers all questions about the cluster: `a` is the primary, and `b` has replayed so much.
    fn answer_checks(test: &mut TestControl, replayed: u64) {
        test.now.time = test.now.time + std::time::Duration::from_secs(1);
        test.happens(crate::Event::Tick);
        while let Some(task) = test.control.next_cluster_task() {
            let Command::Check(member) = task.command else { continue };
            let (in_recovery, system, timeline, can_promote, delay) = (member == 1, 7, 1, true, None);
            let replayed = if in_recovery { replayed } else { 1000 };
            let report = Report { in_recovery, system, timeline, replayed, received: replayed, can_promote, delay };
            let event = Event::Checked { member, outcome: Checked::Answered(report) };
            test.happens(crate::Event::Cluster { id: task.id, event });
        }
    }

    fn readable(test: &TestControl) -> Option<String> {
        let active = &test.control.hands.active;
        let entry = active.settings.database("ro").expect("a database");
        let hosts = active.standing.readable(&entry)?;
        Some(hosts.iter().map(|name| &**name).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn workers_are_told_which_hosts_may_be_read_from() {
        let mut test = TestControl::new("readable", 1, FILE);
        assert_eq!(readable(&test), None, "nothing has been shown");
        answer_checks(&mut test, 1000);
        assert_eq!(readable(&test).as_deref(), Some("a:5432 b:5432"));
        drop(test.letters(0));
        answer_checks(&mut test, 950);
        assert!(test.letters(0).is_empty(), "nothing has changed");
        answer_checks(&mut test, 800);
        assert_eq!(readable(&test).as_deref(), Some("a:5432"));
        assert_eq!(test.letters(0).len(), 1);
        // Another limit counts at once, and what nobody asks for is forgotten.
        test.rewrite("ini", "max_lag=100", "max_lag=1kB");
        test.happens(crate::Event::Signal(crate::Signal::Hangup));
        assert_eq!(readable(&test).as_deref(), Some("a:5432 b:5432"));
        test.rewrite("ini", "max_lag=1kB", "");
        test.happens(crate::Event::Signal(crate::Signal::Hangup));
        assert_eq!(readable(&test), None);
    }
}
