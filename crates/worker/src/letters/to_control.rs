//! Letters to the control thread: requests and reports of workers.
//!
//! Always true: a request names the worker that makes it, and its answer is a letter to that worker.
//! Not here: what the control thread does with a letter.

use std::sync::Arc;

use base::WorkerId;
use pool::ClientKey;
use wire::Request;

use super::{
    Commander, Happening, HashAsker, HashQuestion, Inquirer, PasswordQuestion, Report, Right, Snapshot, StatementSpans,
    TRACERS_MAX,
};

/// A letter to the control thread.
#[derive(Debug)]
pub enum ToControl {
    /// Looks up a host name.
    Resolve {
        /// Who asks.
        from: WorkerId,
        /// The name.
        name: Arc<str>,
    },
    /// Asks the primary of a database what its names stand for, so that reads can be told from writes.
    AskReadNames {
        /// Who asks.
        from: WorkerId,
        /// The database, as clients name it.
        database: Arc<str>,
        /// How often functions have been created there so far.
        creations: u64,
    },
    /// Queries a server for a user's secret.
    AskSecret(SecretQuestion),
    /// The client that needed a secret is gone.
    SecretUnneeded {
        /// The worker.
        from: WorkerId,
        /// The client.
        client: ClientKey,
    },
    /// Has a password checked by an external authenticator.
    AskExternalAuth(PasswordQuestion),
    /// The client whose password was to be checked is gone.
    ExternalAuthUnneeded {
        /// The worker.
        from: WorkerId,
        /// The client.
        client: ClientKey,
    },
    /// Hashes a password.
    Hash(HashQuestion),
    /// The client or server for which a password was to be hashed is gone.
    HashUnneeded {
        /// The worker.
        from: WorkerId,
        /// What asked for it.
        asker: HashAsker,
    },
    /// Looks up the name of a system user.
    SystemUser {
        /// The worker.
        from: WorkerId,
        /// The client.
        client: ClientKey,
        /// The user's uid.
        uid: u32,
    },
    /// The client whose system user was to be looked up is gone.
    SystemUserUnneeded {
        /// The worker.
        from: WorkerId,
        /// The client.
        client: ClientKey,
    },
    /// Events for `SHOW EVENTS`.
    Reports {
        /// The worker.
        from: WorkerId,
        /// The events, equal ones merged.
        reports: Vec<Report>,
        /// Number of events that were too many to report.
        dropped: u64,
    },
    /// Events of clients that consoles trace.
    Traced {
        /// The events in order.
        happenings: Vec<Happening>,
        /// Number of events lost for each tracer.
        dropped: [u64; TRACERS_MAX],
    },
    /// Spans of statements that carry a trace context.
    Spans {
        /// The statements, in the order in which they ended.
        statements: Vec<StatementSpans>,
        /// Number of spans that were dropped for lack of room.
        dropped: u64,
    },
    /// A client of the console has read what [`ToWorker::ConsolePart`](super::ToWorker::ConsolePart) brought.
    ConsoleTook {
        /// The client's worker.
        from: WorkerId,
        /// The client.
        client: ClientKey,
    },
    /// A client of the console has sent a request.
    Console {
        /// The client's worker.
        from: WorkerId,
        /// The client.
        client: ClientKey,
        /// What it may do.
        right: Right,
        /// Who it is.
        by: Box<Commander>,
        /// The request.
        request: Request,
    },
    /// A client of the console is gone, perhaps before its answer.
    ConsoleLeft {
        /// The client's worker.
        from: WorkerId,
        /// The client.
        client: ClientKey,
    },
    /// A client listens to a channel to which no client listened before: the listener is to listen to it.
    Listen {
        /// In which database.
        database: Arc<str>,
        /// The user of the client.
        user: Arc<str>,
        /// The channel.
        channel: Box<str>,
        /// The worker's number for the request; later ones are greater.
        number: u64,
        /// The client has no server of its own any more that could continue listening.
        is_relied_on: bool,
    },
    /// No client listens to a channel any more.
    Unlisten {
        /// In which database.
        database: Arc<str>,
        /// The channel.
        channel: Box<str>,
    },
    /// No client listens to any channel of a database any more, and none may: its listener ends.
    UnlistenAll {
        /// In which database.
        database: Arc<str>,
    },
    /// A client of the console cancels its command.
    ConsoleCancel {
        /// The client's worker.
        from: WorkerId,
        /// The client.
        client: ClientKey,
    },
    /// What was ordered with [`ToWorker::Order`] is done, or what it waited for has come.
    Obeyed {
        /// The worker that answers.
        from: WorkerId,
        /// Control's number for the order.
        question: u64,
        /// Whether there was anything to carry it out on.
        is_done: bool,
    },
    /// A worker is suspended, and the console, which lives there, has no client left that could resume it.
    ConsolesGone,
    /// The answer to [`ToWorker::Show`].
    Shown {
        /// The worker that answers.
        from: WorkerId,
        /// Control's number for the question.
        question: u64,
        /// The snapshot.
        snapshot: Box<Snapshot>,
    },
    /// It has changed whether this worker has anything left that the shutdown waits for.
    Drained {
        /// The worker.
        from: WorkerId,
        /// Whether nothing is left.
        is_drained: bool,
    },
}

/// A request to query a server for a user's secret (`auth_query`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretQuestion {
    /// The worker that asks.
    pub from: WorkerId,
    /// What needs the secret.
    pub inquirer: Inquirer,
    /// The database to query.
    pub database: Arc<str>,
    /// The user to log in as.
    pub asker: Arc<str>,
    /// The query, with the user's name as its only parameter.
    pub sql: Arc<str>,
    /// The user.
    pub user: Arc<str>,
}
