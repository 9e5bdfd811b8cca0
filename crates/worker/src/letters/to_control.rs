//! Letters to the control thread: what workers ask of it and tell it.
//!
//! Always true: a question names who asks, and its answer is a letter to that worker.
//! Not here: what control does about a letter.

use std::sync::Arc;

use base::WorkerId;
use pool::ClientKey;
use wire::Request;

use super::{
    Commander, Happening, HashAsker, HashQuestion, Inquirer, PasswordQuestion, Report, Right, Snapshot, StatementSpans,
    TRACERS_MAX,
};

/// To the control thread.
#[derive(Debug)]
pub enum ToControl {
    /// Look this name up.
    Resolve {
        /// Who asks.
        from: WorkerId,
        /// The name.
        name: Arc<str>,
    },
    /// A server is to be asked about a user.
    AskSecret(SecretQuestion),
    /// The client for which a server was to be asked is gone.
    SecretUnneeded {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
    },
    /// Somebody who knows is to judge a password.
    AskExternalAuth(PasswordQuestion),
    /// The client whose password was to be judged is gone.
    ExternalAuthUnneeded {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
    },
    /// A password is to be hashed.
    Hash(HashQuestion),
    /// That for which a password was to be hashed is gone.
    HashUnneeded {
        /// Who asked.
        from: WorkerId,
        /// For whom.
        asker: HashAsker,
    },
    /// Who is this user of the system?
    SystemUser {
        /// Who asks.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
        /// The user's number.
        uid: u32,
    },
    /// The client whose user of the system was to be looked up is gone.
    SystemUserUnneeded {
        /// Who asked.
        from: WorkerId,
        /// For which client.
        client: ClientKey,
    },
    /// What has happened, for `SHOW EVENTS`.
    Reports {
        /// Where.
        from: WorkerId,
        /// Different things.
        reports: Vec<Report>,
        /// So many others were too many to tell.
        dropped: u64,
    },
    /// What has happened to clients that consoles trace.
    Traced {
        /// In the order in which it has.
        happenings: Vec<Happening>,
        /// How much more there was for each tracer.
        dropped: [u64; TRACERS_MAX],
    },
    /// What has become of statements that carry the context of a trace.
    Spans {
        /// In the order in which they ended.
        statements: Vec<StatementSpans>,
        /// So many spans besides found no room.
        dropped: u64,
    },
    /// A client of the console has taken what it was given with [`ToWorker::ConsolePart`](super::ToWorker::ConsolePart).
    ConsoleTook {
        /// Where the client is.
        from: WorkerId,
        /// Which it is.
        client: ClientKey,
    },
    /// A client of the console has said something.
    Console {
        /// Where the client is.
        from: WorkerId,
        /// Which it is.
        client: ClientKey,
        /// What it may do.
        right: Right,
        /// Who that is.
        by: Box<Commander>,
        /// What it wants.
        request: Request,
    },
    /// A client of the console is gone, perhaps before its answer.
    ConsoleLeft {
        /// Where the client was.
        from: WorkerId,
        /// Which it was.
        client: ClientKey,
    },
    /// A client listens to a channel that nobody listened to before: somebody is to do that for all.
    Listen {
        /// In which database.
        database: Arc<str>,
        /// As whom.
        user: Arc<str>,
        /// To which.
        channel: Box<str>,
        /// The worker's number for the question; later ones are greater.
        number: u64,
        /// The client has no server of its own any more that could go on with it.
        is_relied_on: bool,
    },
    /// Nobody listens to it any more.
    Unlisten {
        /// In which database.
        database: Arc<str>,
        /// To which.
        channel: Box<str>,
    },
    /// Nobody listens to any channel of a database any more, and nobody may: its session for all ends.
    UnlistenAll {
        /// In which database.
        database: Arc<str>,
    },
    /// A client of the console no longer wants what it waits for.
    ConsoleCancel {
        /// Where the client is.
        from: WorkerId,
        /// Which it is.
        client: ClientKey,
    },
    /// What was ordered with [`ToWorker::Order`] is done, or what it waited for has come.
    Obeyed {
        /// Who answers.
        from: WorkerId,
        /// Control's number for the order.
        question: u64,
        /// Whether there was anything to do it to.
        is_done: bool,
    },
    /// A worker is suspended, and the console, which lives there, has no client left who could wake it.
    ConsolesGone,
    /// What was asked for with [`ToWorker::Show`].
    Shown {
        /// Who answers.
        from: WorkerId,
        /// Control's number for the question.
        question: u64,
        /// What is to be seen.
        snapshot: Box<Snapshot>,
    },
    /// Whether this worker has anything left that the shutdown waits for has changed.
    Drained {
        /// Which.
        from: WorkerId,
        /// Whether nothing is left.
        is_drained: bool,
    },
}

/// What a server is asked about a user (`auth_query`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretQuestion {
    /// Who asks.
    pub from: WorkerId,
    /// For whom.
    pub inquirer: Inquirer,
    /// Which database is asked.
    pub database: Arc<str>,
    /// As whom.
    pub asker: Arc<str>,
    /// The question, with the user's name as its only parameter.
    pub sql: Arc<str>,
    /// The user.
    pub user: Arc<str>,
}
