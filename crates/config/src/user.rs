//! A user with settings of its own: a line of `[users]`.
//!
//! Always true: `None` means inherited from the database or the settings.
//! Not here: passwords (`auth`), the inherited values (`limits`).

use std::sync::Arc;
use std::time::Duration;

use pool::Mode;

use crate::catalog::{Policies, ReadRouting};
use crate::mistake::Wrong;
use crate::pairs::{count, limit, mode, pairs, policies, time, unrecognized, word};

/// The settings of one user, which override those for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserSettings {
    /// The name of the user.
    pub name: Arc<str>,
    /// The pool mode of this user's pools.
    pub pool_mode: Option<Mode>,
    /// Most servers of one pool of this user; 0 is unlimited.
    pub pool_size: Option<u32>,
    /// Servers of one pool beyond its size.
    pub reserve_pool_size: Option<u32>,
    /// Most servers over all databases, never 0.
    pub max_user_connections: Option<u32>,
    /// Most clients that logged in as this user, never 0.
    pub max_user_client_connections: Option<u32>,
    /// Maximum duration of a query, never zero.
    pub query_timeout: Option<Duration>,
    /// How long a client may be idle in a transaction, never zero.
    pub idle_transaction_timeout: Option<Duration>,
    /// Maximum duration of a transaction, never zero.
    pub transaction_timeout: Option<Duration>,
    /// How long a client may be idle outside a transaction, never zero.
    pub client_idle_timeout: Option<Duration>,
    /// The policies for session state in pools of this user.
    pub session_policy: Policies,
    /// How long a client may wait for a server; `Some(None)` is for ever.
    pub query_wait_timeout: Option<Option<Duration>>,
    /// Which requests go to replicas.
    pub read_routing: Option<ReadRouting>,
}

impl UserSettings {
    /// A user with defaults for everything but its name.
    pub(crate) fn named(name: Arc<str>) -> Self {
        Self {
            name,
            pool_mode: None,
            pool_size: None,
            reserve_pool_size: None,
            max_user_connections: None,
            max_user_client_connections: None,
            query_timeout: None,
            idle_transaction_timeout: None,
            transaction_timeout: None,
            client_idle_timeout: None,
            query_wait_timeout: None,
            read_routing: None,
            session_policy: Policies::default(),
        }
    }

    /// Parses a line of `[users]`.
    pub(crate) fn parse(name: &str, value: &str) -> Result<Self, Vec<Wrong>> {
        if name.len() > USER_BYTES_MAX {
            let text = format!("user name too long: {name} (expected at most {USER_BYTES_MAX} bytes)");
            return Err(vec![Wrong::new(text)]);
        }
        let mut user = Self::named(name.into());
        let mut wrongs = Vec::new();
        for (key, value) in pairs(value).map_err(|wrong| vec![wrong])? {
            wrongs.extend(user.assign(key, &value).err());
        }
        if wrongs.is_empty() { Ok(user) } else { Err(wrongs) }
    }

    fn assign(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        let timeout = || Ok::<_, Wrong>(time(key, value)?.filter(|time| !time.is_zero()));
        match key {
            "pool_mode" => self.pool_mode = Some(mode(value)?),
            "session_policy" => self.session_policy = policies(value)?,
            "pool_size" => self.pool_size = count(key, value)?,
            "reserve_pool_size" => self.reserve_pool_size = count(key, value)?,
            "max_user_connections" => self.max_user_connections = limit(key, value)?,
            "max_user_client_connections" => self.max_user_client_connections = limit(key, value)?,
            "query_timeout" => self.query_timeout = timeout()?,
            "idle_transaction_timeout" => self.idle_transaction_timeout = timeout()?,
            "transaction_timeout" => self.transaction_timeout = timeout()?,
            "client_idle_timeout" => self.client_idle_timeout = timeout()?,
            "query_wait_timeout" => {
                self.query_wait_timeout = time(key, value)?.map(|wait| (!wait.is_zero()).then_some(wait));
            }
            "read_routing" => self.read_routing = Some(word(key, value)?),
            _ => return Err(unrecognized("user", key, USER_KEYS)),
        }
        Ok(())
    }
}

/// The keys of a line of `[users]`.
pub(crate) const USER_KEYS: &[&str] = &[
    "pool_mode",
    "pool_size",
    "reserve_pool_size",
    "max_user_connections",
    "max_user_client_connections",
    "query_timeout",
    "idle_transaction_timeout",
    "transaction_timeout",
    "client_idle_timeout",
    "query_wait_timeout",
    "session_policy",
    "read_routing",
];
/// PgBouncer's limit, which is higher than PostgreSQL's, because not every user exists on a server.
const USER_BYTES_MAX: usize = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_key_is_taken_and_others_get_a_neighbour() {
        for key in USER_KEYS {
            let value = match *key {
                "pool_mode" => "statement",
                "session_policy" => "reject",
                "read_routing" => "automatic",
                _ => "7",
            };
            let user = UserSettings::parse("joe", &format!("{key}={value}")).expect("a good line");
            assert_ne!(user, UserSettings::named("joe".into()), "{key}");
        }
        let wrong = UserSettings::parse("joe", "pool_siz=1").expect_err("mistyped");
        assert_eq!(wrong[0].text, "unrecognized user parameter: pool_siz");
        assert_eq!(wrong[0].advice.as_deref(), Some("did you mean \"pool_size\"?"));
    }

    #[test]
    fn only_the_wait_for_a_server_can_be_switched_off_for_one_user() {
        let user = UserSettings::parse("joe", "query_wait_timeout=0 query_timeout=0 pool_size=0").expect("a good line");
        assert_eq!((user.query_wait_timeout, user.query_timeout, user.pool_size), (Some(None), None, Some(0)));
    }

    #[test]
    fn a_name_longer_than_any_login_is_refused() {
        assert!(UserSettings::parse(&"x".repeat(127), "").is_ok());
        assert!(UserSettings::parse(&"x".repeat(128), "").is_err());
    }
}
