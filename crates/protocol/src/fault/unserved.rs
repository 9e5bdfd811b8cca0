//! Why a waiting client got no server: the DETAIL and the HINT of `query_wait_timeout` and `query_timeout`.
//!
//! Always true: the reason describes the pool at the moment of the timeout; a text has no more than [`TEXT_MAX`] bytes.
//! Not here: how the reason is found (`worker::data::unserved`).

use std::sync::Arc;

use base::counted;

/// What kept a client from getting a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitCause {
    /// Every server that the pool may have is taken.
    NoneFree,
    /// `max_db_connections` is reached.
    DatabaseLimit,
    /// `max_user_connections` is reached.
    UserLimit,
    /// A server is being opened.
    Opening,
    /// The last login at the host has failed.
    Unreachable,
    /// An operator has paused the database, or everything.
    Paused,
    /// Clients of the database are held while its primary changes or restarts.
    Held,
    /// A rate limit delays the client.
    RateLimit,
}

/// Why the clients of one pool are without a server, determined once for all whose wait ends together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unserved {
    /// What kept the clients from getting a server.
    pub why: WaitCause,
    /// Why the last login failed, if the clients waited for a login.
    pub failure: Option<Arc<str>>,
    /// Who has the servers of the pool, summed up: `3 lent: 2 pinned by session-level advisory locks, 1 in a transaction
    /// for 41 s`.
    pub holders: Box<str>,
}

impl Unserved {
    /// The DETAIL for a client that has waited for so many seconds.
    pub(super) fn detail(&self, secs: u64) -> String {
        let time = counted(secs, "second");
        let mut text = match self.why {
            WaitCause::NoneFree => format!("No server connection became free within {time}"),
            WaitCause::DatabaseLimit => {
                format!("max_db_connections is reached, and no server connection became free within {time}")
            }
            WaitCause::UserLimit => {
                format!("max_user_connections is reached, and no server connection became free within {time}")
            }
            WaitCause::Opening => format!("No server connection was opened or became free within {time}"),
            WaitCause::Unreachable => {
                let failure = self.failure.as_deref().unwrap_or("no login succeeded");
                format!("No server connection could be opened within {time}: {failure}")
            }
            WaitCause::Paused => format!("The pool is paused (PAUSE or KILL), and was not resumed within {time}"),
            WaitCause::Held => {
                format!("Clients were held for {time}: the primary changes or restarts, or may be none any more")
            }
            WaitCause::RateLimit => format!("A rate limit delayed the client for {time}"),
        };
        if !self.holders.is_empty() {
            text.push_str("; ");
            text.push_str(&self.holders);
        }
        text.truncate(base::cut(&text, TEXT_MAX).len());
        text.push('.');
        text
    }

    pub(super) fn hint(&self) -> &'static str {
        match self.why {
            WaitCause::NoneFree | WaitCause::DatabaseLimit | WaitCause::UserLimit => {
                "SHOW WAITS, SHOW PINS and SHOW SERVERS on the console show which clients have the servers of this pool."
            }
            WaitCause::Opening | WaitCause::Unreachable => {
                "The log of the pooler and SHOW WAITS on the console show how logins at the server end."
            }
            WaitCause::Paused => "RESUME on the console ends the pause.",
            WaitCause::Held => "SHOW CLUSTERS on the console shows why, if it is a cluster; RELEASE ends a HOLD.",
            WaitCause::RateLimit => "Look at SHOW RATE_LIMITS on the console.",
        }
    }
}

/// Bound of a DETAIL in bytes: it may contain a server's error message of any length.
const TEXT_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_sentence_of_its_own() {
        use WaitCause::*;
        let all = [NoneFree, DatabaseLimit, UserLimit, Opening, Unreachable, Paused, Held, RateLimit];
        let detail = |why| Unserved { why, failure: None, holders: "".into() }.detail(7);
        let details: std::collections::BTreeSet<String> = all.into_iter().map(detail).collect();
        assert_eq!(details.len(), all.len());
        assert!(details.iter().all(|detail| detail.contains("7 seconds")), "{details:?}");
        let paused = Unserved { why: Paused, failure: None, holders: "".into() };
        assert_eq!(paused.detail(1), "The pool is paused (PAUSE or KILL), and was not resumed within 1 second.");
    }

    #[test]
    fn the_failure_and_who_has_the_servers_are_said() {
        let refused = Unserved {
            why: WaitCause::Unreachable,
            failure: Some("connect failed".into()),
            holders: "1 lent: 1 in a transaction for 41 s".into(),
        };
        assert_eq!(
            refused.detail(2),
            "No server connection could be opened within 2 seconds: connect failed; 1 lent: 1 in a transaction for 41 s."
        );
    }

    #[test]
    fn what_a_server_said_is_cut() {
        let refused =
            Unserved { why: WaitCause::Unreachable, failure: Some("\u{e9}".repeat(5000).into()), holders: "".into() };
        assert!(refused.detail(2).len() <= TEXT_MAX + 1);
    }
}
