//! LISTEN and NOTIFY. The listener of a database is one session that listens to the channels of all its clients.
//!
//! Always true: a client that may have missed notifications is told so; work that concerns very many clients is spread
//! over many turns.
//! Not here: the notifications of one client (`protocol::state::Subscriptions`).

use base::Time;

use crate::notify::backlog::Backlog;
use crate::notify::listening::Alarms;

pub(crate) mod backlog;
pub(crate) mod behind;
pub(crate) mod channels;
pub(crate) mod later;
pub(crate) mod listen;
pub(crate) mod listener;
pub(crate) mod listening;
pub(crate) mod news;
pub(crate) mod own_news;
pub(crate) mod work_off;

/// Work left to be done about notifications, and its deadlines. Which client listens to what is kept with each database
/// ([`listening::Listening`]).
#[derive(Debug, Default)]
pub(crate) struct Notify {
    /// Work for so many clients that it is spread over many turns.
    backlog: Backlog,
    /// When listeners stop waiting for slow clients.
    alarms: Alarms,
}

impl Notify {
    /// The time of the next turn if work is left over.
    pub(crate) fn backlog_deadline(&self, now: Time) -> Option<Time> {
        self.backlog.next_deadline(now)
    }

    /// When a listener next stops waiting for a slow client.
    pub(crate) fn next_alarm(&self) -> Option<Time> {
        self.alarms.next_deadline()
    }

    pub(crate) fn begin_turn(&mut self) {
        self.backlog.begin_turn();
    }

    /// Whether this turn has done its part of the work that is spread over many turns.
    pub(crate) fn is_spent(&self) -> bool {
        self.backlog.is_spent()
    }
}
