//! Which hosts can be reached, and since when.
//!
//! Always true: a host is known once a login there has ended; a host that answers a login is reachable, even if it refuses
//! the login; a bounded number of hosts is remembered, and of more the one that was heard of longest ago is forgotten.
//! Not here: which host is dialed (`worker::upstream`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Time;

/// How a login at a host has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginEnd<'a> {
    /// It has succeeded.
    Accepted,
    /// The host has answered, and refused it.
    Refused(&'a str),
    /// The host does not answer.
    Unreachable(&'a str),
}

/// What a host is, as its servers have reported it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostRole {
    /// It is not in recovery.
    Primary,
    /// It is in recovery.
    Standby,
}

impl HostRole {
    /// The role in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Standby => "standby",
        }
    }
}

/// A host as one worker knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownHost {
    /// Its name or address, and its port.
    pub name: Arc<str>,
    /// Whether it answered last.
    pub is_reachable: bool,
    /// The role that a server there reported last, if one has.
    pub role: Option<HostRole>,
    /// How long that has been so.
    pub since: Duration,
    /// How long ago a login ended there.
    pub heard: Duration,
    /// How many logins have failed.
    pub failed: u64,
    /// The last error, and how long ago it was.
    pub error: Option<(Arc<str>, Duration)>,
}

/// The hosts of one worker.
#[derive(Debug, Default)]
pub struct Hosts(BTreeMap<Arc<str>, State>);

#[derive(Debug)]
struct State {
    is_reachable: bool,
    role: Option<HostRole>,
    since: Time,
    heard: Time,
    failed: u64,
    error: Option<(Arc<str>, Time)>,
}

impl Hosts {
    /// A login has ended.
    pub fn login_ends(&mut self, now: Time, name: &str, end: LoginEnd<'_>) {
        let is_reachable = !matches!(end, LoginEnd::Unreachable(_));
        let Some(state) = self.known(now, name, is_reachable) else { return };
        if std::mem::replace(&mut state.is_reachable, is_reachable) != is_reachable {
            state.since = now;
        }
        state.heard = now;
        if let LoginEnd::Refused(error) | LoginEnd::Unreachable(error) = end {
            state.failed += 1;
            state.error = Some((error.into(), now));
        }
    }

    /// A server at a host has reported its role. Returns the former role, if it was another.
    pub fn has_role(&mut self, now: Time, name: &str, role: HostRole) -> Option<HostRole> {
        let state = self.known(now, name, true)?;
        state.role.replace(role).filter(|former| *former != role)
    }

    /// Whether a host did not answer last.
    #[must_use]
    pub fn is_unreachable(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|state| !state.is_reachable)
    }

    fn known(&mut self, now: Time, name: &str, is_reachable: bool) -> Option<&mut State> {
        if !self.0.contains_key(name) {
            self.make_room();
            let state = State { is_reachable, role: None, since: now, heard: now, failed: 0, error: None };
            self.0.insert(name.into(), state);
        }
        self.0.get_mut(name)
    }

    /// The hosts.
    pub fn rows(&self, now: Time) -> impl Iterator<Item = KnownHost> {
        self.0.iter().map(move |(name, state)| KnownHost {
            name: name.clone(),
            is_reachable: state.is_reachable,
            role: state.role,
            since: now.since(state.since),
            heard: now.since(state.heard),
            failed: state.failed,
            error: state.error.as_ref().map(|(error, at)| (error.clone(), now.since(*at))),
        })
    }

    fn make_room(&mut self) {
        if self.0.len() >= HOSTS_MAX
            && let Some(oldest) = self.0.iter().min_by_key(|(_, state)| state.heard).map(|(name, _)| name.clone())
        {
            self.0.remove(&oldest);
        }
    }
}

/// One host as all workers know it: who has heard of it last knows its state.
#[must_use]
pub fn merged(rows: impl IntoIterator<Item = KnownHost>) -> Vec<KnownHost> {
    let mut all: BTreeMap<Arc<str>, KnownHost> = BTreeMap::new();
    for row in rows {
        let Some(known) = all.get_mut(&row.name) else {
            all.insert(row.name.clone(), row);
            continue;
        };
        let failed = known.failed + row.failed;
        let errors = [known.error.take(), row.error.clone()];
        let error = errors.into_iter().flatten().min_by_key(|(_, ago)| *ago);
        // If they agree, it has been so since the first of them noticed.
        let since = if known.is_reachable == row.is_reachable { Some(known.since.max(row.since)) } else { None };
        let role = if row.heard < known.heard { row.role.or(known.role) } else { known.role.or(row.role) };
        if row.heard < known.heard {
            *known = row;
        }
        (known.failed, known.error, known.since, known.role) = (failed, error, since.unwrap_or(known.since), role);
    }
    all.into_values().collect()
}

const HOSTS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(hosts: &Hosts, at: u64) -> KnownHost {
        hosts.rows(Time::from_secs(at)).next().expect("a host")
    }

    #[test]
    fn a_host_is_reachable_or_not_since_that_changed_and_keeps_its_last_error() {
        let mut hosts = Hosts::default();
        hosts.login_ends(Time::from_secs(10), "a:5432", LoginEnd::Unreachable("connect failed"));
        hosts.login_ends(Time::from_secs(25), "a:5432", LoginEnd::Unreachable("timeout"));
        let down = row(&hosts, 30);
        assert!(hosts.is_unreachable("a:5432") && !hosts.is_unreachable("b:5432"));
        assert_eq!((down.is_reachable, down.since.as_secs(), down.heard.as_secs(), down.failed), (false, 20, 5, 2));
        assert_eq!(down.error.as_ref().map(|(error, ago)| (&**error, ago.as_secs())), Some(("timeout", 5)));
        hosts.login_ends(Time::from_secs(40), "a:5432", LoginEnd::Refused("no such role"));
        let refused = row(&hosts, 50);
        assert_eq!((refused.is_reachable, refused.since.as_secs(), refused.failed), (true, 10, 3));
        hosts.login_ends(Time::from_secs(60), "a:5432", LoginEnd::Accepted);
        assert_eq!((row(&hosts, 60).since.as_secs(), row(&hosts, 60).error.is_some()), (20, true));
    }

    #[test]
    fn the_role_of_a_host_is_the_one_that_was_reported_last() {
        let mut hosts = Hosts::default();
        assert_eq!(hosts.has_role(Time::from_secs(1), "a:5432", HostRole::Standby), None);
        assert_eq!(hosts.has_role(Time::from_secs(2), "a:5432", HostRole::Standby), None);
        assert_eq!(hosts.has_role(Time::from_secs(3), "a:5432", HostRole::Primary), Some(HostRole::Standby));
        hosts.login_ends(Time::from_secs(4), "a:5432", LoginEnd::Unreachable("connect failed"));
        assert_eq!(row(&hosts, 5).role, Some(HostRole::Primary), "what is not reported stays as it was");
        let mut other = Hosts::default();
        other.login_ends(Time::from_secs(5), "a:5432", LoginEnd::Accepted);
        let told = merged(hosts.rows(Time::from_secs(6)).chain(other.rows(Time::from_secs(6))));
        assert_eq!((told[0].role, told[0].is_reachable), (Some(HostRole::Primary), true));
    }

    #[test]
    fn the_worker_that_has_heard_of_a_host_last_knows_its_state() {
        let (mut first, mut second) = (Hosts::default(), Hosts::default());
        first.login_ends(Time::from_secs(10), "a:1", LoginEnd::Unreachable("x"));
        second.login_ends(Time::from_secs(20), "a:1", LoginEnd::Accepted);
        let rows = || first.rows(Time::from_secs(30)).chain(second.rows(Time::from_secs(30)));
        for rows in [rows().collect::<Vec<_>>(), rows().collect::<Vec<_>>().into_iter().rev().collect()] {
            let told = merged(rows);
            assert_eq!((told.len(), told[0].is_reachable, told[0].since.as_secs()), (1, true, 10));
            assert_eq!((told[0].failed, told[0].error.is_some()), (1, true));
        }
    }

    #[test]
    fn a_bounded_number_of_hosts_is_remembered() {
        let mut hosts = Hosts::default();
        for number in 0..HOSTS_MAX as u64 + 5 {
            hosts.login_ends(Time::from_secs(number), &number.to_string(), LoginEnd::Accepted);
        }
        assert_eq!(hosts.0.len(), HOSTS_MAX);
        assert!(!hosts.0.contains_key("4") && hosts.0.contains_key("5"));
    }
}
