//! What is known of clusters on its way from one process to the next, in an online restart.
//!
//! Always true: the next process writes to a primary no longer than this one would have: a lease is told by a clock that both have, which also runs while the
//! machine sleeps. Members that agents have told come with it, so that servers at their hosts are kept. Other versions read this: fields may be added,
//! and none renamed.
//! Not here: how it travels (`transfer`), what follows from it (`cluster::Cluster::inherit`).

use std::sync::Arc;
use std::time::Duration;

use base::Time;
use cluster::Heritage;
use config::{Settings, ToldMember};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use worker::letters::ActiveConfig;

use crate::clusters::Clusters;

/// A cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PackedCluster {
    name: String,
    /// Host and port of each member, and the URL of an agent, if agents have told the members.
    members: Vec<(String, Option<String>)>,
    /// The primary, if there has been one.
    primary: Option<String>,
    timeline: u32,
    system: Option<u64>,
    /// Until when the primary holds its lock, in microseconds of [`boot_time`].
    lease_until: Option<u64>,
    is_fenced: bool,
}

impl Clusters {
    /// Packs everything for the next process.
    pub(crate) fn pack(&self, now: Time, settings: &Settings) -> Vec<PackedCluster> {
        let clock = boot_time();
        let pack = |(name, machine): (&Arc<str>, &cluster::Cluster)| {
            let heritage = machine.heritage();
            let left = |lease: Time| lease.since(now).as_micros() as u64;
            let told = settings.clusters.get(name).into_iter().flat_map(|cluster| cluster.told_members());
            let told = told.map(|member| (member.place.to_string(), member.agent.map(|agent| agent.to_string())));
            PackedCluster {
                name: name.to_string(),
                members: told.collect(),
                primary: heritage.as_ref().map(|heritage| heritage.primary.to_string()),
                timeline: heritage.as_ref().map_or(0, |heritage| heritage.timeline),
                system: heritage.as_ref().and_then(|heritage| heritage.system),
                lease_until: heritage.as_ref().and_then(|heritage| heritage.lease).map(|lease| clock + left(lease)),
                is_fenced: heritage.is_some_and(|heritage| heritage.is_fenced),
            }
        };
        self.rows().map(pack).collect()
    }

    /// Begins with what the process before has known.
    pub(crate) fn inherit(&mut self, now: Time, packed: &[PackedCluster]) {
        for cluster in packed {
            if let Some(heritage) = cluster.heritage(now, boot_time()) {
                self.inherit_one(now, &cluster.name, &heritage);
            }
        }
    }
}

impl PackedCluster {
    fn heritage(&self, now: Time, clock: u64) -> Option<Heritage> {
        let left = |until: u64| now + Duration::from_micros(until.saturating_sub(clock)).min(LEASE_MAX);
        Some(Heritage {
            primary: self.primary.as_deref()?.into(),
            timeline: self.timeline,
            system: self.system,
            lease: self.lease_until.map(left),
            is_fenced: self.is_fenced,
        })
    }

    /// Puts the members in force, and where clients may write, before anybody is served.
    pub(crate) fn shape(&self, active: &mut ActiveConfig) {
        let told = |(place, agent): &(String, Option<String>)| ToldMember {
            place: place.as_str().into(),
            agent: agent.as_deref().map(Into::into),
        };
        let told: Vec<ToldMember> = self.members.iter().map(told).collect();
        if let Some(settings) = active.settings.with_members(&self.name, &told).filter(|_| !told.is_empty()) {
            active.settings = settings;
        }
        let is_member = |cluster: &Arc<config::Cluster>, primary: &str| {
            cluster.hosts_with_ports().any(|(host, port)| host.at(port) == primary)
        };
        if let Some((name, cluster)) = active.settings.clusters.get_key_value(&*self.name)
            && let Some(heritage) = self.heritage(Time(0), 0)
            && is_member(cluster, &heritage.primary)
        {
            let name = Arc::clone(name);
            active.standing.set_gate(&name, heritage.gate());
        }
    }
}

/// The time since the machine was started, in microseconds.
fn boot_time() -> u64 {
    let micros = clock_gettime(ClockId::CLOCK_BOOTTIME).map(|now| Duration::from(now).as_micros());
    micros.map_or(u64::MAX / 2, |micros| micros as u64)
}

/// No lease is longer.
const LEASE_MAX: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> PackedCluster {
        PackedCluster {
            name: "main".to_owned(),
            members: vec![("a:5432".to_owned(), None), ("b:5432".to_owned(), Some("http://b:8008/".to_owned()))],
            primary: Some("a:5432".to_owned()),
            timeline: 3,
            system: Some(7),
            lease_until: Some(50_000_000),
            is_fenced: false,
        }
    }

    #[test]
    fn a_lease_has_gone_on_running_when_it_arrives() {
        let now = Time::from_secs(1000);
        let lease = |clock: u64| packed().heritage(now, clock * 1_000_000).and_then(|heritage| heritage.lease);
        assert_eq!(lease(42), Some(now + Duration::from_secs(8)));
        assert_eq!(lease(60), Some(now), "it is over");
        let odd = PackedCluster { lease_until: Some(u64::MAX), ..packed() };
        assert_eq!(odd.heritage(now, 0).and_then(|heritage| heritage.lease), Some(now + LEASE_MAX));
    }

    #[test]
    fn what_comes_from_another_version_is_read_as_far_as_it_is_known() {
        let letter = serde_json::to_string(&packed()).expect("values");
        assert_eq!(serde_json::from_str::<PackedCluster>(&letter).expect("the same values"), packed());
        let other = serde_json::from_str::<PackedCluster>(r#"{"name": "main", "later": 1}"#).expect("a cluster");
        assert_eq!((other.heritage(Time(1), 0), other.members.len()), (None, 0));
    }
}
