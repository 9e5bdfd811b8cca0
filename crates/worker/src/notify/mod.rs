//! LISTEN and NOTIFY: one session of a database listens for all its clients.
//!
//! Always true: who may have missed something is told so; what concerns very many is done a part in each turn.
//! Not here: what one client has heard (`protocol::state::Subscriptions`).

use base::Time;

use crate::notify::backlog::Backlog;
use crate::notify::listening::Alarms;

pub(crate) mod backlog;
pub(crate) mod behind;
pub(crate) mod channels;
pub(crate) mod client_closed;
pub(crate) mod join;
pub(crate) mod joined;
pub(crate) mod later;
pub(crate) mod listen;
pub(crate) mod listener;
pub(crate) mod listening;
pub(crate) mod news;
pub(crate) mod own_news;
pub(crate) mod release;
pub(crate) mod work_off;

/// What is left to be done about notifications, and when; who listens to what stands with each database ([`listening::Listening`]).
#[derive(Debug, Default)]
pub(crate) struct Notify {
    /// What concerns so many clients that it is done in many turns.
    backlog: Backlog,
    /// When servers that listen for all have waited long enough for somebody.
    alarms: Alarms,
}

impl Notify {
    pub(crate) fn begin_turn(&mut self) {
        self.backlog.begin_turn();
    }

    /// Whether this turn does no more of what is done in many turns.
    pub(crate) fn is_spent(&self) -> bool {
        self.backlog.is_spent()
    }

    /// That there is a turn at once, if anything is left.
    pub(crate) fn next_turn(&self, now: Time) -> Option<Time> {
        self.backlog.next_deadline(now)
    }

    /// When somebody has been waited for long enough.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.alarms.next_deadline()
    }
}
