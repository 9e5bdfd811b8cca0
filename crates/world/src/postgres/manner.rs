//! How a host behaves: its mood, authentication, speed and answers.
//!
//! Always true: each host has its own manner, and a fault may change it.
//! Not here: what follows from it (`postgres`, `session`).

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::Secret;
use protocol::client::login::Method;

/// The mood of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    Well,
    /// It refuses connections.
    Refusing,
    /// It does not answer connection attempts.
    Hanging,
    /// `the database system is starting up`.
    Starting,
    /// `too many clients already`.
    Full,
    /// Sessions end before they send anything.
    Dying,
    /// Sessions send nonsense during the login.
    Mad,
    /// It asks for a proof (GSSAPI) that the pooler cannot give.
    Odd,
    /// It accepts no password.
    Forgetful,
}

/// Whether a host offers TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostTls {
    None,
    /// It offers TLS.
    Offered,
    /// It offers TLS, and the pooler must not send anything to it in plain text.
    Demanded,
}

/// How a host authenticates clients, and how fast it works.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) method: Option<Method>,
    /// How long a statement takes, microseconds.
    pub(crate) work: (u64, u64),
    /// How many of a thousand statements have a notification inserted into their answer.
    pub(crate) notifies: u32,
    /// How many of a thousand cancel requests are signalled late.
    pub(crate) signals_late: u32,
    /// Users' secrets on this host, where they differ from those of the world.
    pub(crate) secrets: Arc<BTreeMap<String, Arc<Secret>>>,
    pub(crate) answers: Answers,
}

/// How a host answers `auth_query`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Answers {
    #[default]
    Usual,
    /// The same row twice, which counts as one.
    Twice,
    /// An error.
    Failing,
    /// The session ends in the middle of the answer.
    Dying,
    /// The session ends after the row.
    Torn,
    /// The answer takes seconds.
    Slow,
}

impl Answers {
    /// The additional time of the answer.
    pub(crate) fn millis(self) -> Option<u32> {
        (self == Self::Slow).then_some(SLOW_MILLIS)
    }
}

/// The additional time of a slow answer.
const SLOW_MILLIS: u32 = 4000;
