//! What can happen to the control thread.
//!
//! Always true: an event is a value, and says all that there is to know of it.
//! Not here: what is done about it (`control`), where it comes from (`run`).

use std::sync::Arc;

use base::WorkerId;
use pool::ClientKey;
use worker::letters::{ExternalAuth, Found, HashAsker, Hashed, SystemUser, ToControl, Verdict};

use crate::courier::News;
use crate::http::HttpQuestion;
use crate::links::LinkNews;
use crate::otlp::Posted;
use crate::zones::Serial;

/// A signal of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Signal {
    Hangup,
    Terminate,
    Interrupt,
    Quit,
    User1,
    User2,
}

impl Signal {
    /// What the system calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hangup => "SIGHUP",
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::User1 => "SIGUSR1",
            Self::User2 => "SIGUSR2",
        }
    }
}

/// Something has happened.
#[derive(Debug)]
pub enum Event {
    /// A letter has come.
    Letter(ToControl),
    /// A signal has come.
    Signal(Signal),
    /// A lookup is over.
    Found {
        /// Of which name.
        name: Arc<str>,
        /// What came of it.
        found: Found,
    },
    /// Name servers have been asked about a zone.
    Serial {
        /// Which zone.
        zone: Arc<str>,
        /// What they say.
        serial: Serial,
    },
    /// Something has come of a connection to our own workers.
    Link {
        /// Which.
        link: u64,
        /// What.
        news: LinkNews,
    },
    /// It is known who a user of the system is, or that nobody knows.
    SystemUser {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
        /// The answer.
        found: SystemUser,
    },
    /// Somebody has judged a password.
    Judged {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
        /// Who has judged.
        authenticator: ExternalAuth,
        /// The answer.
        verdict: Verdict,
    },
    /// A password has been hashed, or not.
    Hashed {
        /// Who asked.
        from: WorkerId,
        /// For whom.
        asker: HashAsker,
        /// What came of it.
        hashed: Hashed,
    },
    /// The courier of an online restart reports.
    News {
        /// Of which one.
        handover: u64,
        /// What.
        news: News,
    },
    /// Somebody asks something by HTTP.
    Http {
        /// The number of the question.
        number: u64,
        /// What.
        question: HttpQuestion,
    },
    /// A batch of spans was posted, or not.
    Posted(Posted),
    /// A deadline has passed.
    Tick,
}
