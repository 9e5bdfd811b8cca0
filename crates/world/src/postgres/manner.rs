//! How a host feels, lets sessions in, works and answers.
//!
//! Always true: each host has its own, and a fault may change it.
//! Not here: what comes of it (`postgres`, `session`).

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::Secret;
use protocol::client::login::Method;

/// How a host feels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    Well,
    /// Nobody listens.
    Refusing,
    /// Nobody answers.
    Hanging,
    /// `the database system is starting up`.
    Starting,
    /// `too many clients already`.
    Full,
    /// Sessions end before they say a word.
    Dying,
    /// Sessions speak nonsense.
    Mad,
    /// A proof is wanted that nobody can give.
    Odd,
    /// No password is right.
    Forgetful,
}

/// Whether a host speaks TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostTls {
    None,
    /// It does, for whoever asks.
    Offered,
    /// And the pooler has been told to say nothing to it in clear.
    Demanded,
}

/// How a host lets sessions in, and how fast it works.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) method: Option<Method>,
    /// Microseconds that a statement takes.
    pub(crate) work: (u64, u64),
    /// How many of a thousand statements are joined by a notification.
    pub(crate) notifies: u32,
    /// How many of a thousand cancel requests are signalled late.
    pub(crate) signals_late: u32,
    /// Users' secrets, where they are others than everywhere.
    pub(crate) secrets: Arc<BTreeMap<String, Arc<Secret>>>,
    pub(crate) answers: Answers,
}

/// How a host answers questions about users.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Answers {
    #[default]
    Usual,
    /// The same row twice, which is as good as once.
    Twice,
    /// An error.
    Failing,
    /// It ends with half an answer.
    Dying,
    /// It ends behind the row.
    Torn,
    /// It takes seconds.
    Slow,
}

impl Answers {
    /// How long they take beyond the usual.
    pub(crate) fn millis(self) -> Option<u32> {
        (self == Self::Slow).then_some(SLOW_MILLIS)
    }
}

/// How long a slow answer takes.
const SLOW_MILLIS: u32 = 4000;
