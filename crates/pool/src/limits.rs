//! The limits of one pool, as values.
//!
//! Always true: limits are read where a decision is taken and never copied into the state of a pool, so that a changed
//! limit applies from the next event on.
//! Not here: limits of a database or a user over several pools (`quotas`), limits that span workers (`ledger`).

use std::time::Duration;

/// When a loan ends. The pool only stores the mode for the worker, which reports the end of a loan by
/// [`crate::Event::Returned`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// When the client disconnects.
    Session,
    /// After a transaction.
    Transaction,
    /// After a statement; transactions of several statements are refused.
    Statement,
}

/// Which idle server is lent first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reuse {
    /// The server returned last, so that the rest may age out.
    Newest,
    /// The server returned first (`server_round_robin`).
    Oldest,
}

/// The limits of one pool. Names of settings in parentheses are PgBouncer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// When a loan ends (`pool_mode`).
    pub mode: Mode,
    /// Servers of the pool in any state, including those being dialed or closed; 0 is unlimited (`default_pool_size`).
    pub servers_max: u32,
    /// Dedicated servers of the pool in any state; `None` counts them in `servers_max` (`replication_pool_size`).
    pub dedicated_max: Option<u32>,
    /// Servers that are opened before a client asks, and that `server_idle_timeout` does not close (`min_pool_size`).
    pub servers_min: u32,
    /// Servers above `servers_max` for clients that wait too long (`reserve_pool_size`).
    pub reserve_max: u32,
    /// How long the first client in the queue must have waited before the reserve is used (`reserve_pool_timeout`).
    /// `None` turns the reserve off.
    pub reserve_after: Option<Duration>,
    /// Logins of this pool that may be in flight together while logins succeed; 0 counts as 1.
    pub dials_max: u32,
    /// The longest wait in the queue (`query_wait_timeout`). `None` is no limit.
    pub wait_max: Option<Duration>,
    /// How long a server may be idle (`server_idle_timeout`). `None` is no limit.
    pub idle_max: Option<Duration>,
    /// How old a server may get (`server_lifetime`). Zero closes it after a single loan, `None` is no limit.
    pub lifetime_max: Option<Duration>,
    /// Time from the beginning of a failed login to the next attempt (`server_login_retry`), before jitter.
    pub retry_after: Duration,
    /// Which idle server is lent first (`server_round_robin`).
    pub reuse: Reuse,
    /// How long a server must have been idle to be checked before it is lent (`server_check_delay`). Zero is always, `None`
    /// is never.
    pub check_after: Option<Duration>,
    /// Whether a returned server is reset before it is lent again (`server_reset_query`).
    pub reset: bool,
}

impl Limits {
    /// PostgreSQL ends servers that have been idle for this long: one that has been idle for half of it is checked before it is
    /// lent, so that its timeout begins anew. Holds until the limits are applied again.
    pub(crate) fn check_before(&mut self, idle: Duration) {
        let wanted = (idle / 2).max(CHECK_AFTER_MIN);
        self.check_after = self.check_after.map(|after| after.min(wanted));
    }

    /// How many servers the pool may have including its reserve; `None` is unlimited.
    pub(crate) fn ceiling(&self) -> Option<u32> {
        let reserve = if self.reserve_after.is_some() { self.reserve_max } else { 0 };
        (self.servers_max > 0).then(|| self.servers_max.saturating_add(reserve))
    }

    /// Whether a server is closed after a single loan.
    pub(crate) fn is_single_use(&self) -> bool {
        self.lifetime_max == Some(Duration::ZERO)
    }
}

impl Default for Limits {
    /// PgBouncer's defaults, except that PgBouncer dials one server at a time and we dial four.
    fn default() -> Self {
        Self {
            mode: Mode::Session,
            servers_max: 20,
            dedicated_max: None,
            servers_min: 0,
            reserve_max: 0,
            reserve_after: Some(Duration::from_secs(5)),
            dials_max: 4,
            wait_max: Some(Duration::from_secs(120)),
            idle_max: Some(Duration::from_secs(600)),
            lifetime_max: Some(Duration::from_secs(3600)),
            retry_after: Duration::from_secs(15),
            reuse: Reuse::Newest,
            check_after: Some(Duration::from_secs(30)),
            reset: true,
        }
    }
}

/// However soon servers end, of which a client's setting may be the reason, they are not checked before each loan.
const CHECK_AFTER_MIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_that_is_off_does_not_raise_the_ceiling() {
        let limits = Limits { servers_max: 3, reserve_max: 2, ..Limits::default() };
        assert_eq!(limits.ceiling(), Some(5));
        assert_eq!(Limits { reserve_after: None, ..limits }.ceiling(), Some(3));
    }

    #[test]
    fn no_limit_has_no_ceiling_whatever_the_reserve() {
        assert_eq!(Limits { servers_max: 0, reserve_max: 2, ..Limits::default() }.ceiling(), None);
    }
}
