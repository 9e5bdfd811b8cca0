//! Cache of the secrets that servers have reported (`auth_query_cache_ttl`).
//!
//! Always true: the number of entries is bounded; one more, and the oldest is dropped.
//! Not here: when servers are asked (`secrets`).

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::Secret;
use base::Time;

use crate::planted::{forget_all, known_of};

/// Cached secrets by database and user, each until its time is over.
#[derive(Debug, Default)]
pub(crate) struct RememberedSecrets {
    rows: BTreeMap<(Arc<str>, Arc<str>), Remembered>,
}

impl RememberedSecrets {
    pub(crate) fn clear(&mut self) {
        forget_all(&mut self.rows);
    }

    pub(super) fn find(&self, database: &str, user: &str, now: Time) -> Option<Arc<Secret>> {
        let row = known_of(&self.rows, database, user);
        row.filter(|row| now < row.until).map(|row| Arc::clone(&row.secret))
    }

    pub(super) fn keep(&mut self, database: &str, user: &str, secret: Arc<Secret>, until: Time, now: Time) {
        if self.rows.len() >= REMEMBERED_MAX {
            self.rows.retain(|_, row| now < row.until);
        }
        if self.rows.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.rows.iter().min_by_key(|(_, row)| row.until).map(|(name, _)| name.clone())
        {
            self.rows.remove(&oldest);
        }
        self.rows.insert((database.into(), user.into()), Remembered { secret, until });
    }

    /// Drops an entry. Returns whether there was one.
    pub(crate) fn forget(&mut self, database: &str, user: &str) -> bool {
        self.rows.remove(&(Arc::from(database), Arc::from(user))).is_some()
    }
}

#[derive(Debug)]
struct Remembered {
    secret: Arc<Secret>,
    until: Time,
}

/// Entries in one worker; one more, and the oldest is dropped.
const REMEMBERED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Arc<Secret> {
        Arc::new(Secret::parse(text))
    }

    #[test]
    fn a_secret_is_remembered_for_its_user_and_database_and_time() {
        let mut remembered = RememberedSecrets::default();
        let (now, until) = (Time::from_secs(1), Time::from_secs(6));
        remembered.keep("d", "u", secret("one"), until, now);
        assert_eq!(remembered.find("d", "u", now), Some(secret("one")));
        assert_eq!(remembered.find("d", "v", now), None);
        assert_eq!(remembered.find("e", "u", now), None);
        assert_eq!(remembered.find("d", "u", until), None);
        assert!(remembered.forget("d", "u") && !remembered.forget("d", "u"));
        assert_eq!(remembered.find("d", "u", now), None);
    }

    #[test]
    fn beyond_the_limit_the_oldest_is_forgotten() {
        let mut remembered = RememberedSecrets::default();
        let now = Time::from_secs(1);
        for number in 0..=REMEMBERED_MAX {
            remembered.keep("d", &format!("u{number}"), secret("x"), Time::from_secs(10 + number as u64), now);
        }
        assert_eq!(remembered.rows.len(), REMEMBERED_MAX);
        assert_eq!(remembered.find("d", "u0", now), None);
        assert!(remembered.find("d", "u1", now).is_some());
    }
}
