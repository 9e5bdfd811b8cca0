//! Which hosts of a cluster databases may read from that allow a replica to be so far behind (`max_lag`, `max_lag_time`).
//!
//! Always true: a host is in rotation only if a check has shown that it is near enough; one that was left comes back when it is within
//! half of the limit; the primary is not behind itself.
//! Not here: how far a host is behind (`lag`), closing servers (`worker::upstream::replicas`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::cluster::Cluster;
use crate::event::News;
use crate::lag::{Lag, LagLimit, Positions};
use crate::member::{Member, MemberRole};

/// The hosts of one cluster that may be read from.
#[derive(Debug, Default)]
pub struct Rotation {
    positions: Positions,
    /// What is known of each host, for each limit that a database has.
    places: BTreeMap<LagLimit, BTreeMap<Arc<str>, Place>>,
    /// The hosts that were replicas at the last look.
    replicas: BTreeSet<Arc<str>>,
}

/// What is known of a host under a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// It may be read from, and was last proved to be near enough at this time.
    In(Time),
    Out,
}

/// What a look at the members has shown.
#[derive(Debug, Default)]
pub struct Turn {
    /// Whether other hosts may be read from now.
    pub is_changed: bool,
    /// The hosts that have become replicas, or answer again.
    pub back: Vec<Arc<str>>,
    /// What an operator should know.
    pub news: Vec<News>,
}

impl Rotation {
    /// Looks at the members. `limits` are those that databases have now.
    pub fn look(&mut self, now: Time, cluster: &Cluster, limits: &BTreeSet<LagLimit>) -> Turn {
        self.positions.look(cluster);
        let mut turn = Turn { back: self.back(cluster), ..Turn::default() };
        let known = self.places.len();
        self.places.retain(|limit, _| limits.contains(limit));
        turn.is_changed = self.places.len() != known;
        for limit in limits {
            if !self.places.contains_key(limit) {
                turn.is_changed = true;
            }
            let places = self.places.entry(*limit).or_default();
            let members = cluster.members();
            places.retain(|name, _| members.iter().any(|member| member.name() == name));
            for (number, member) in members.iter().enumerate() {
                let lag = self.positions.lag_of(cluster, member);
                let was = places.get(member.name()).copied();
                let proved = member.asked().unwrap_or(now);
                let is = match cluster.role_of(number) {
                    MemberRole::Primary => Some(Place::In(proved)),
                    MemberRole::Replica => lag.map(|lag| judge(was, lag, *limit, proved)).or(was),
                    MemberRole::Fenced | MemberRole::Foreign => Some(Place::Out),
                    MemberRole::Unknown => was.map(|was| unproved(now, was)),
                };
                let is_in = |place: Option<Place>| matches!(place, Some(Place::In(_)));
                turn.is_changed |= is_in(was) != is_in(is);
                turn.news.extend(news(member, was, is, lag, *limit));
                match is {
                    Some(is) => places.insert(Arc::clone(member.name()), is),
                    None => places.remove(member.name()),
                };
            }
        }
        turn
    }

    /// The hosts that may be read from, by limits.
    #[must_use]
    pub fn readable(&self) -> BTreeMap<LagLimit, BTreeSet<Arc<str>>> {
        let hosts = |places: &BTreeMap<Arc<str>, Place>| {
            let inside = places.iter().filter(|(_, place)| matches!(place, Place::In(_)));
            inside.map(|(name, _)| Arc::clone(name)).collect()
        };
        self.places.iter().map(|(limit, places)| (*limit, hosts(places))).collect()
    }

    /// How far a member is behind; `None` if it is no replica, or has not answered.
    #[must_use]
    pub fn lag_of(&self, cluster: &Cluster, member: &Member) -> Option<Lag> {
        member.report().filter(|report| report.in_recovery)?;
        self.positions.lag_of(cluster, member)
    }

    /// Whether a host may be read from under each limit that a database has; `None` if none has any.
    #[must_use]
    pub fn is_readable(&self, host: &str) -> Option<bool> {
        let is_in = |places: &BTreeMap<Arc<str>, Place>| matches!(places.get(host), Some(Place::In(_)));
        (!self.places.is_empty()).then(|| self.places.values().all(is_in))
    }

    /// The hosts that are replicas and were none, or did not answer, at the last look.
    fn back(&mut self, cluster: &Cluster) -> Vec<Arc<str>> {
        let members = cluster.members().iter().enumerate();
        let replicas = members.filter(|(place, _)| cluster.role_of(*place) == MemberRole::Replica);
        let replicas: BTreeSet<Arc<str>> = replicas.map(|(_, member)| Arc::clone(member.name())).collect();
        let back = replicas.difference(&self.replicas).cloned().collect();
        self.replicas = replicas;
        back
    }
}

/// Whether a replica may be read from that is so far behind, as was proved at this time.
fn judge(was: Option<Place>, lag: Lag, limit: LagLimit, proved: Time) -> Place {
    let divisor = if was == Some(Place::Out) { RETURNS_AT } else { 1 };
    if lag.exceeds(limit, divisor) { Place::Out } else { Place::In(proved) }
}

/// Whether a host may be read from that does not answer at present.
fn unproved(now: Time, was: Place) -> Place {
    match was {
        Place::In(proved) if now.since(proved) < UNPROVED_MAX => was,
        _ => Place::Out,
    }
}

/// What to tell of a host that is left, or read from again.
fn news(member: &Member, was: Option<Place>, is: Option<Place>, lag: Option<Lag>, limit: LagLimit) -> Option<News> {
    let (name, who) = (member.name(), format!("databases with {limit}"));
    match (was, is, lag) {
        (None | Some(Place::In(_)), Some(Place::Out), Some(lag)) => {
            Some(News { is_warning: true, text: format!("host {name} is {lag}: {who} do not read there") })
        }
        (Some(Place::In(_)), Some(Place::Out), None) => {
            let text = format!("host {name} has not shown how far it is behind: {who} do not read there");
            Some(News { is_warning: true, text })
        }
        (Some(Place::Out), Some(Place::In(_)), _) => {
            Some(News { is_warning: false, text: format!("host {name} is near enough: {who} read there again") })
        }
        _ => None,
    }
}

/// A host comes back when it is within this part of the limit.
const RETURNS_AT: u32 = 2;
/// How long a host that is not answered for may be read from: three checks.
const UNPROVED_MAX: Duration = Duration::from_secs(3);

#[cfg(test)]
#[path = "rotation_tests.rs"]
mod tests;
