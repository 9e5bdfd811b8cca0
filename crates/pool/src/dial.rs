//! When a login may begin, so that many waiting clients do not cause many logins at a host that fails.
//!
//! Always true: until a login has succeeded, and again after one has failed, only one login is in flight at a time. After a
//! failure the next login begins `retry_after` plus a jitter of up to a tenth of it after the failed one began, and never
//! in the same turn, unless another host is tried ([`FailureKind::Elsewhere`]) or the worker asks for an attempt
//! ([`Logins::try_again`]). While server after server fails its reset, logins begin one by one, too.
//! Not here: how many logins are needed (`pool`), whether there is room for one (`limits`, `quotas`).

use std::time::Duration;

use base::{Random, Time};

use crate::{Failure, FailureKind, Limits};

/// The outcomes of the logins of a pool.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    health: Health,
    /// Whether the server parameters of a login are known, so that clients can be greeted.
    is_welcomed: bool,
    /// The reset query has failed at the last server that was reset. The query may be wrong, so that each loan takes a
    /// login, which is dear for the host.
    is_reset_failing: bool,
}

#[derive(Debug, Default)]
enum Health {
    /// No login has ended yet.
    #[default]
    Unknown,
    /// The login that ended last has succeeded.
    Well,
    /// The login that ended last has failed.
    Failing {
        failure: Failure,
        /// When the first login of those that have failed since the last success began.
        since: Time,
        /// When the last login began.
        began: Time,
        /// The pause has been cut short.
        is_over: bool,
        /// The addition to the pause, in thousandths of it.
        jitter: u32,
    },
}

impl Logins {
    /// Notes that a login has succeeded.
    pub(crate) fn succeeded(&mut self) {
        (self.health, self.is_welcomed) = (Health::Well, true);
    }

    /// Notes that a dedicated login has succeeded. Its parameters belong to its client and are not used to greet others.
    pub(crate) fn dedicated_succeeded(&mut self) {
        self.health = Health::Well;
    }

    /// Notes that a login that began at `began` has failed. Of several failed logins the one that began last decides when the
    /// next is due.
    pub(crate) fn failed(&mut self, failure: Failure, began: Time, random: &mut Random) {
        if failure.kind == FailureKind::Elsewhere {
            return;
        }
        let (since, began) = match &self.health {
            Health::Failing { since, began: other, .. } => (*since, began.max(*other)),
            Health::Unknown | Health::Well => (began, began),
        };
        let jitter = random.below(JITTER_MAX + 1) as u32;
        self.health = Health::Failing { failure, since, began, is_over: false, jitter };
    }

    /// Ends the pause after a failed login: the next may begin at once.
    pub(crate) fn try_again(&mut self) {
        if let Health::Failing { is_over, .. } = &mut self.health {
            *is_over = true;
        }
    }

    /// Notes whether a server could be reset after its loan.
    pub(crate) fn reset(&mut self, is_failing: bool) {
        self.is_reset_failing = is_failing;
    }

    /// How many logins may be in flight together.
    pub(crate) fn parallel_max(&self, limits: &Limits) -> u32 {
        match self.health {
            Health::Well if !self.is_reset_failing => limits.dials_max.max(1),
            Health::Well | Health::Unknown | Health::Failing { .. } => 1,
        }
    }

    /// When the next login is due, if the last one has failed.
    pub(crate) fn retry_at(&self, limits: &Limits) -> Option<Time> {
        match &self.health {
            Health::Failing { is_over: true, .. } => None,
            Health::Failing { began, jitter, .. } => Some(*began + pause(limits.retry_after, *jitter)),
            Health::Unknown | Health::Well => None,
        }
    }

    /// Whether another login may begin while `in_flight` are in flight.
    pub(crate) fn may_begin(&self, in_flight: u32, limits: &Limits, now: Time) -> bool {
        in_flight < self.parallel_max(limits) && self.retry_at(limits).is_none_or(|due| now >= due)
    }

    /// The failure with which a new waiting client is refused at once: a login of this pool has succeeded before, the last
    /// one has failed for a reason that does not pass by waiting, and the next is not due yet. A host that cannot be reached may
    /// be restarting: clients wait for it as long as for one attempt after another (`server_login_retry`).
    pub(crate) fn refusal(&self, limits: &Limits, now: Time) -> Option<&Failure> {
        let Health::Failing { failure, since, .. } = &self.health else { return None };
        let is_lasting = match failure.kind {
            FailureKind::Refused => true,
            FailureKind::Unreachable => now >= *since + limits.retry_after,
            FailureKind::Passing | FailureKind::Elsewhere => false,
        };
        let is_hopeless = is_lasting && self.retry_at(limits).is_some_and(|due| now < due);
        (is_hopeless && self.is_welcomed).then_some(failure)
    }

    /// Why the last login has failed.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match &self.health {
            Health::Failing { failure, .. } => Some(failure),
            Health::Unknown | Health::Well => None,
        }
    }

    /// Whether the parameters of a login are known.
    pub(crate) fn is_welcomed(&self) -> bool {
        self.is_welcomed
    }
}

fn pause(retry_after: Duration, jitter: u32) -> Duration {
    let retry_after = retry_after.max(RETRY_AT_LEAST);
    retry_after.saturating_add(retry_after.saturating_mul(jitter) / 1000)
}

/// The shortest pause, whatever `server_login_retry` is. Otherwise a dial that fails at once, such as for an unknown host
/// name, would be repeated within one turn without end.
const RETRY_AT_LEAST: Duration = Duration::from_millis(100);
/// The largest jitter, in thousandths of the pause.
const JITTER_MAX: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { dials_max: 3, retry_after: Duration::from_secs(10), ..Limits::default() }
    }

    fn failing(began_secs: u64) -> Logins {
        let mut logins = Logins::default();
        logins.succeeded();
        logins.failed(Failure::unreachable("connect failed"), Time::from_secs(began_secs), &mut Random::new(1));
        logins
    }

    #[test]
    fn a_single_probe_goes_first() {
        let mut logins = Logins::default();
        assert!(logins.may_begin(0, &limits(), Time(0)));
        assert!(!logins.may_begin(1, &limits(), Time(0)));
        logins.succeeded();
        assert!(logins.may_begin(2, &limits(), Time(0)));
        assert!(!logins.may_begin(3, &limits(), Time(0)));
    }

    #[test]
    fn logins_go_one_by_one_while_servers_cannot_be_reset() {
        let mut logins = Logins::default();
        logins.succeeded();
        logins.reset(true);
        // There is no pause, since each server can be lent once.
        assert!(logins.may_begin(0, &limits(), Time(0)) && !logins.may_begin(1, &limits(), Time(0)));
        logins.succeeded();
        assert!(!logins.may_begin(1, &limits(), Time(0)), "a login does not prove that the reset works");
        logins.reset(false);
        assert!(logins.may_begin(1, &limits(), Time(0)));
    }

    #[test]
    fn the_pause_counts_from_the_beginning_of_the_failed_attempt_and_has_jitter() {
        let due: Vec<_> = (0..50)
            .map(|seed| {
                let mut logins = Logins::default();
                logins.failed(Failure::unreachable("x"), Time::from_secs(5), &mut Random::new(seed));
                logins.retry_at(&limits()).expect("it is failing")
            })
            .collect();
        assert!(due.iter().all(|due| (Time::from_secs(15)..=Time::from_secs(16)).contains(due)));
        assert!(due.iter().any(|other| *other != due[0]));
    }

    #[test]
    fn an_older_failure_does_not_bring_the_retry_forward() {
        let mut logins = failing(5);
        let due = logins.retry_at(&limits());
        logins.failed(Failure::unreachable("x"), Time::from_secs(1), &mut Random::new(1));
        assert_eq!(logins.retry_at(&limits()), due);
    }

    #[test]
    fn a_login_that_fails_at_once_is_not_tried_again_at_once_even_without_a_pause() {
        let (mut logins, limits) = (Logins::default(), Limits { retry_after: Duration::ZERO, ..limits() });
        logins.failed(Failure::unreachable("DNS"), Time(7), &mut Random::new(1));
        assert!(!logins.may_begin(0, &limits, Time(7)));
        assert!(logins.may_begin(0, &limits, Time::from_secs(1)));
    }

    #[test]
    fn a_newcomer_is_refused_only_until_the_retry_is_due() {
        let mut logins = failing(5);
        logins.failed(Failure::unreachable("connect failed"), Time::from_secs(15), &mut Random::new(1));
        assert!(logins.refusal(&limits(), Time::from_secs(24)).is_some());
        assert!(logins.refusal(&limits(), Time::from_secs(26)).is_none());
        let mut logins = failing(5);
        logins.failed(Failure::refused(*b"28000", "no pg_hba.conf entry"), Time::from_secs(5), &mut Random::new(1));
        assert!(logins.refusal(&limits(), Time::from_secs(6)).is_some(), "a refusal does not pass by waiting");
    }

    #[test]
    fn a_newcomer_waits_for_a_host_that_may_be_restarting() {
        let mut logins = failing(5);
        assert!(logins.refusal(&limits(), Time::from_secs(14)).is_none());
        logins.failed(Failure::unreachable("connect failed"), Time::from_secs(8), &mut Random::new(1));
        assert!(logins.refusal(&limits(), Time::from_secs(14)).is_none());
        assert!(logins.refusal(&limits(), Time::from_secs(15)).is_some(), "it has not come back");
        logins.succeeded();
        logins.failed(Failure::unreachable("connect failed"), Time::from_secs(40), &mut Random::new(1));
        assert!(logins.refusal(&limits(), Time::from_secs(41)).is_none(), "another outage");
    }

    #[test]
    fn the_pause_can_be_cut_short_once() {
        let mut logins = failing(5);
        assert!(!logins.may_begin(0, &limits(), Time::from_secs(6)));
        logins.try_again();
        assert!(
            logins.may_begin(0, &limits(), Time::from_secs(6)) && !logins.may_begin(1, &limits(), Time::from_secs(6))
        );
        logins.failed(Failure::unreachable("connect failed"), Time::from_secs(6), &mut Random::new(1));
        assert!(!logins.may_begin(0, &limits(), Time::from_secs(7)));
    }

    #[test]
    fn another_host_is_tried_at_once() {
        let mut logins = Logins::default();
        logins.succeeded();
        let failure = Failure { kind: FailureKind::Elsewhere, ..Failure::unreachable("connect failed") };
        logins.failed(failure, Time::from_secs(5), &mut Random::new(1));
        assert!(logins.may_begin(2, &limits(), Time::from_secs(5)) && logins.failure().is_none());
    }

    #[test]
    fn a_newcomer_waits_for_a_server_that_is_starting_up() {
        let mut logins = failing(5);
        logins.failed(Failure::refused(*b"57P03", "starting up"), Time::from_secs(5), &mut Random::new(1));
        assert!(logins.refusal(&limits(), Time::from_secs(6)).is_none());
    }

    #[test]
    fn a_changed_pause_counts_at_once() {
        let logins = failing(5);
        let shorter = Limits { retry_after: Duration::from_secs(1), ..limits() };
        assert!(logins.may_begin(0, &shorter, Time::from_secs(7)));
    }
}
