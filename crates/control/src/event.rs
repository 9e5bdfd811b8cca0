//! The events of the control thread.
//!
//! Always true: an event is a value that carries everything its treatment needs.
//! Not here: the treatment of events (`control`), the sources of events (`run`).

use std::sync::Arc;

use base::WorkerId;
use pool::ClientKey;
use worker::letters::{ExternalAuth, Found, HashAsker, Hashed, SystemUser, ToControl, Verdict};

use crate::clusters::MachineId;
use crate::http::HttpQuestion;
use crate::otlp::Posted;
use crate::own_clients::OwnClientNews;
use crate::transfer::News;
use crate::zones::Serial;

/// An operating system signal.
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
    /// The name of the signal.
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

/// An event of the control thread.
#[derive(Debug)]
pub enum Event {
    /// A letter arrived.
    Letter(ToControl),
    /// A signal arrived.
    Signal(Signal),
    /// The lookup of a host name has finished.
    Found {
        /// The host name.
        name: Arc<str>,
        /// The result.
        found: Found,
    },
    /// The query for a zone's serial has finished.
    Serial {
        /// The zone.
        zone: Arc<str>,
        /// The serial, or the error.
        serial: Serial,
    },
    /// A question to a host or an agent of a cluster, or a step of a switchover, has an outcome.
    Cluster {
        /// The machine that wanted it.
        id: MachineId,
        /// The outcome.
        event: cluster::Event,
    },
    /// What the names of a database stand for has been asked.
    ReadNames(crate::clusters::ReadNamesFound),
    /// News of a connection to one of our own workers.
    OwnClient {
        /// The number of the connection.
        number: u64,
        /// Received bytes, or its end.
        news: OwnClientNews,
    },
    /// The lookup of an operating system user has finished.
    SystemUser {
        /// The worker that asked.
        from: WorkerId,
        /// The client that logs in.
        client: ClientKey,
        /// The result.
        found: SystemUser,
    },
    /// An external authenticator (PAM or LDAP) has checked a password.
    Judged {
        /// The worker that asked.
        from: WorkerId,
        /// The client that logs in.
        client: ClientKey,
        /// The authenticator.
        authenticator: ExternalAuth,
        /// The result.
        verdict: Verdict,
    },
    /// The hashing of a password has finished.
    Hashed {
        /// The worker that asked.
        from: WorkerId,
        /// The client or server login that needs the hash.
        asker: HashAsker,
        /// The result.
        hashed: Hashed,
    },
    /// A report of the transfer of an online restart.
    News {
        /// The number of the online restart.
        handover: u64,
        /// The report.
        news: News,
    },
    /// An HTTP request arrived.
    Http {
        /// The number of the request.
        number: u64,
        /// The question.
        question: HttpQuestion,
    },
    /// The attempt to post a batch of spans has finished.
    Posted(Posted),
    /// A deadline has passed.
    Tick,
}
