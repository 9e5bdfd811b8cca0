//! Bugs that are planted on purpose, so that the simulation can show that it would catch them.
//!
//! Always true: without the feature `planted` nothing can be planted and [`is`] is `false` when the code is compiled, so
//! that a hook leaves no trace in the program; with it at most one bug is planted at a time, by whoever owns the process.
//! Not here: the hooks. The mistakes of a crate stand in its `planted.rs`, each in a function that is named after the rule
//! it breaks and is called where a tired developer would have made it; `docs/planted.md` says of each what a user would
//! see and which checker should see it first.

/// A bug that can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    // Who owes whom how many answers (`protocol::exchange`, `protocol::server::mend`).
    /// When one of several queries sent together is answered, the last of them counts as answered too. A pooler that keeps
    /// "is a query running" as a flag instead of a count.
    LoanEndsEarly,
    /// An error in a query that others were sent behind pays for the query, and so does its `ReadyForQuery`. Any client or
    /// proxy whose error path decrements the count that the normal path decrements as well.
    ErrorPaidTwice,
    /// An error in a batch skips to the last Sync that was sent, not to the next. Drivers with a pipeline mode, when the
    /// queue is searched from the wrong end.
    ErrorSkipsPastSync,
    /// The status in a `ReadyForQuery` is believed for simple queries only, so that a BEGIN or COMMIT of the extended
    /// protocol goes unnoticed. Poolers that learned the extended protocol later than the simple one.
    SyncStatusIgnored,
    /// A failed transaction counts as none. "Not in a transaction" written where "idle" was meant.
    FailedTransactionReturned,
    /// A server that may still answer a Sync which a failed COPY may have ignored is lent again. Poolers that count Syncs
    /// without knowing that COPY ignores them; `PgBouncer` 1.21 stumbled over COPY (its #1025).
    StraySyncBelieved,
    /// A server that its client left in a transaction is not rolled back. The pooler built into a fork of PostgreSQL showed
    /// one client the open transaction of another (`postgresql.builtin_pool` #8).
    MendWithoutRollback,
    /// After a ROLLBACK the reset query is thought to be unnecessary. A state machine of cleaning that ends one step early.
    ResetAfterRollbackSkipped,
    /// A statement counts as being on a server once it has been sent, even if the server failed or skipped it. Poolers whose
    /// tables are written when a message passes; errors inside a batch are where Odyssey had to begin anew (its #1545).
    UnconfirmedStatementKept,
    /// A server that was told DISCARD ALL is believed to have all its statements still. Every pooler that learned prepared
    /// statements after it had learned to reset.
    DiscardedStatementsBelieved,
    /// A client binds the statement without a name on whatever server comes. Every pooler in transaction mode does.
    UnnamedBelieved,
    /// The answer to a Parse that we do not send is given even if the server skips everything around it. Poolers that write to
    /// the client where they read from it.
    SkippedAnswerGiven,

    // Who gets which server (`pool`).
    /// Servers that are being dialed do not count against the size of the pool: the limit is checked, the login takes its
    /// time, and meanwhile the next one passes the same check. Pools of applications under a storm of first requests.
    PoolSizeIgnoresDials,
    /// The same for the limit of a database, which several pools share.
    DatabaseLimitIgnoresDials,
    /// When a login fails, the client that it was for is taken out of the queue and told nothing. Pools that tie a waiter
    /// to an attempt.
    WaiterForgotten,
    /// Who waits last is served first. A queue kept in a vector, with `push` and `pop`.
    LastComeFirstServed,
    /// An alarm that is set is not brought forward when something is due earlier. Timers with one shared deadline.
    AlarmNotBroughtForward,
    /// When idle servers are closed for their age, one that is lent goes with them. Caretakers that walk all connections of
    /// a pool.
    LentServerExpired,
    /// A server that dies while it is being cleaned keeps its slot. A table of moves in which one row was forgotten; many
    /// pools have lost capacity like this, one connection at a time.
    DeadServerCounted,
    /// A new limit begins with a new account, so that slots that were out when it came are never given back. Rate limiters
    /// and quotas that are rebuilt when the configuration is read again.
    SlotLostAtReload,
    /// A pause keeps what is there from being lent, but not what is opened meanwhile. Switches that are looked at where a
    /// connection is reused and not where one is made.
    PauseForgottenByDials,
    /// A pause concerns the pools that are there when it is ordered, and none that is opened later. Orders that are carried
    /// out and not kept.
    PauseUnknownToNewPools,
    /// A server that was dialed for one replication client goes to whoever waits first: it is a walsender, which knows other
    /// commands and what one client set. Pools in which a login has no addressee; `PgBouncer` ties the two late, too.
    PrivateServerLent,
    /// When the login for a replication client breaks off, the client is not put back into the queue. Pools that tie a waiter
    /// to an attempt.
    PrivateWaiterForgotten,
    /// A slot that is granted to somebody who has stopped waiting is neither used nor given back. Semaphores whose waiters
    /// can be cancelled.
    GrantForNobodyLost,

    // Whose bytes go where, and when (`worker`).
    /// A server of a replication client is given back like any other when its client has left between two commands. Code paths
    /// of "the client is gone" that are older than the new kind of server.
    PrivateServerReturned,
    /// What has been packed for another process goes on here. Whoever forgets that the other may have it already.
    PackedIsTouched,
    /// An online restart takes a client along without the request of its that waits for a server. State that lives outside of
    /// the protocol machine is the first to be forgotten when a conversation is packed.
    RequestLeftBehind,
    /// A server that comes by an online restart is believed to have no statements.
    StatementsLeftBehind,
    /// A server that comes by an online restart is believed to have the parameters of every other.
    ParametersLeftBehind,
    /// A loan that would have begun while the pooler was suspended never begins. Switches that drop what they should put off.
    LoanForgottenInSuspend,
    /// A client that leaves while it is logging in keeps its slot. Limits that are given back at "logged out" only;
    /// `PgBouncer` 1.24.0 counted the connections of a user down at the wrong places (its #1238).
    SlotKeptByLeaver,
    /// A cancel request that was meant for one query is sent at whatever runs when its connection stands. `PgBouncer` before
    /// 1.18 could hit the query of another client like this (its #717).
    CancelIgnoresQuery,
    /// A cancel request counts as arrived when it was written, so that its server is lent while it is still on its way. The
    /// second race of the same report.
    CancelForgottenOnceSent,
    /// A cancel request whose connection is cut off counts as one that PostgreSQL has closed, though the signal may be sent later.
    /// Every pooler that only waits for that connection to end.
    CutOffCancelBelieved,
    /// The same for one that was given up for lack of time.
    LateCancelBelieved,
    /// A cancel request is looked for among the clients of the worker that received it. Poolers with several processes on
    /// one port (`so_reuseport`) without peering.
    CancelToWrongWorker,
    /// What a client sent along with its startup packet is lost when it moves to its home worker. Servers that hand a socket
    /// over, but not what they have read from it.
    EarlyBytesLost,
    /// What a server has told of a user is believed for every database. A cache whose key lacks half of the question.
    RememberedByUser,
    /// What a server has told of a user is believed through a reload. Caches that nobody thought of where everything else is made
    /// anew.
    RememberedThroughReload,
    /// A verdict about a password is for whoever has the place of its client now. Answers that are sorted by the number of a row
    /// that has been given away meanwhile.
    VerdictForThePlace,
    /// An answer about a user that broke off is taken for none. Whoever reads rows until there are no more, and looks for the
    /// error afterwards.
    TornAnswerIsNobody,
    /// Parameters are set anew only when the `application_name` differs. Poolers that compare a fingerprint of a session
    /// instead of the session.
    CatchUpByName,
    /// When the server refuses a client's parameters, the client gets it all the same. Poolers that do not look at what
    /// their own queries answered.
    FailedSetIgnored,
    /// A parameter that falls back with a ROLLBACK or a reset is not noticed, because nobody has the server then. Caches of
    /// session state that listen only while they are used.
    RolledBackParameter,
    /// A loan ends although half a message is on its way, when a COPY fails in the middle of its data or the client leaves
    /// there; the server takes what comes next for the rest. Proxies that count messages and not bytes.
    HalfMessageLeftBehind,
    /// What a client said before it left is sent to its server after all. Buffers that are flushed by whoever comes next.
    HeldBytesSentAfterAll,
    /// A server is read on although its client does not take the answers. Every proxy has had it, and found out by memory.
    NoBackPressure,
    /// A server that was paused for its client's sake is not read again when the client has caught up.
    ResumeForgotten,
    /// Of a message whose header came in two reads, the first part of the header is lost. Proxies tested on one machine,
    /// where headers are never torn.
    TornHeaderLost,
    /// A part in the middle of a large message is forwarded twice. Copying loops at the border of a buffer.
    MiddleSentTwice,
    /// Each message of a pipeline counts as a query. Statistics that count calls and not conversations.
    QueriesCountedTwice,
    /// The end of a query of our own is given to the client. Poolers that set parameters on behalf of a client and swallow
    /// one answer too few.
    OurAnswerForwarded,
    /// What was heard from a connection that is closed already counts as said by whoever took over its row. Completions of
    /// the kernel that name a place and not a tenant.
    StaleCompletion,
    /// What came in clear behind a request for TLS counts as said under TLS. CVE-2021-23214 of PostgreSQL, CVE-2021-3935 of
    /// `PgBouncer`.
    ClearBytesKept,
    /// A server that refuses TLS is spoken to in clear, although it must not be. Libraries whose "require" means "prefer".
    RefusedTlsForgone,
    /// A cancel request is passed on with as many hops as it came with. Forwarders that copy a packet and count in another
    /// place: two processes that disagree about who is who send it to each other for ever.
    ForwardHopUncounted,
    /// A request for a peer that cannot be reached keeps its place. An error path that tells whoever waits, and cleans up
    /// nothing.
    ForwardSlotLost,
    /// When a peer is done with a request, nobody looks who waits for the connection. Pools whose queue is served where
    /// something comes, and not where something goes.
    ForwardWaiterForgotten,
    /// When a peer is done with a request, somebody else is told so. Answers matched to questions by their order.
    ForwardAnswersAnother,
    /// With `server_fast_close` a session in a transaction survives a RECONNECT for good. An order that looks at who is there
    /// and leaves no note for those who are busy.
    BusySessionKept,
    /// A client whose request has been answered goes on while the cancel request for it is still on its way to the server. Every
    /// pooler that forgets a cancel request as soon as it is sent.
    CancelMeetsNextQuery,
    /// One client more than a database may have is let in.
    ClientLimitOffByOne,
    /// Clients that were there before their users were limited are not counted.
    OldClientsUncounted,
    /// A server is taken to have what its client has set, whatever it has.
    StateOfAnother,
    /// A request goes along with what its server is told first, and is run whether or not the server has taken that.
    AlongUnguarded,
    /// Settings that a server is told along with a request have the time that settings have, and so does the request. A timer for
    /// what is said before, moved to where it is said together; this one has been ours.
    MendTimeoutForRequests,
    /// What ends a query does not end one that settings were told along with. The other half of the same.
    AlongUntimed,
    /// A request is said again of which something has been answered.
    AgainBehindAnswer,
    /// A server whose client has come back is taken for one that still waits for it.
    LingerMistaken,
    /// A server lingers with a client that has reset what it began with.
    LingerUnlike,
    /// A server is given back although its client has a lock on it.
    PinForgotten,
    /// A client leaves a server with what it has set and locked, and nobody cleans it.
    StateLeftBehind,
    /// A text that comes in parts is taken for one that touches nothing.
    TornTextUnread,
    /// What a client has reset is set again on its next server.
    ResetUndone,
    /// A statement that its client has dropped by SQL, or lost with all others, is prepared on its next servers all the same. A record
    /// that what is learned is only added to.
    DroppedStatementCarried,
    /// RESET ALL and DISCARD ALL are known to have reset nothing. Whoever takes a certain statement for one without effect.
    EffectForgotten,
    /// What has been prepared by SQL is not compared where settings are told along with a request: a server keeps the statements of
    /// whoever had it before. A shortcut that was there before there was more than settings.
    StatementsUncompared,
    /// A channel counts as listened to for all before anybody does: what is notified in between is lost. Whoever counts on an order as
    /// soon as it is given.
    ListenerBelieved,
    /// Nobody is told that the one who listens for all was away for a while. Reconnections that are only seen from inside.
    LossUntold,
    /// What a client's own server tells behind the mark is told, and told by the one for all as well. Handing over without a point at
    /// which it is done.
    MarkIgnored,
    /// The end of a transaction is told without waiting for what it has notified itself. Whoever listens on behalf of others, and
    /// passes on what it hears when it hears it.
    OwnNewsOvertaken,
    /// A client that listens to what is listened to for all already is told so at once, and then what was committed before. Whoever joins
    /// a stream without asking how far it is.
    JoinedAtOnce,
    /// A client that has left a channel is told of it for ever. Subscriptions that only grow.
    LeftChannelTold,
}

/// Whether this bug is planted.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[must_use]
pub const fn is(_bug: Planted) -> bool {
    false
}

/// Whether this bug is planted.
#[cfg(feature = "planted")]
#[must_use]
pub fn is(bug: Planted) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8 + 1
}

/// Plants a bug, or none, in the whole process: for a program that simulates one thing at a time.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Planted>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
}

#[cfg(feature = "planted")]
use std::sync::atomic::{AtomicU8, Ordering};

/// The bug that is planted, counted from 1; 0 is none. Passing it in as a value would put a parameter for tests through
/// every function of the house: this is its one static that can change, and no program that ships has it.
#[cfg(feature = "planted")]
static PLANTED: AtomicU8 = AtomicU8::new(0);

impl Planted {
    /// All of them.
    pub const ALL: [Self; 84] = [
        Self::LoanEndsEarly,
        Self::ErrorPaidTwice,
        Self::ErrorSkipsPastSync,
        Self::SyncStatusIgnored,
        Self::FailedTransactionReturned,
        Self::StraySyncBelieved,
        Self::MendWithoutRollback,
        Self::ResetAfterRollbackSkipped,
        Self::UnconfirmedStatementKept,
        Self::DiscardedStatementsBelieved,
        Self::UnnamedBelieved,
        Self::SkippedAnswerGiven,
        Self::PoolSizeIgnoresDials,
        Self::DatabaseLimitIgnoresDials,
        Self::WaiterForgotten,
        Self::LastComeFirstServed,
        Self::AlarmNotBroughtForward,
        Self::LentServerExpired,
        Self::DeadServerCounted,
        Self::SlotLostAtReload,
        Self::PauseForgottenByDials,
        Self::PauseUnknownToNewPools,
        Self::PrivateServerLent,
        Self::PrivateWaiterForgotten,
        Self::GrantForNobodyLost,
        Self::PrivateServerReturned,
        Self::PackedIsTouched,
        Self::RequestLeftBehind,
        Self::StatementsLeftBehind,
        Self::ParametersLeftBehind,
        Self::LoanForgottenInSuspend,
        Self::SlotKeptByLeaver,
        Self::CancelIgnoresQuery,
        Self::CancelForgottenOnceSent,
        Self::CutOffCancelBelieved,
        Self::LateCancelBelieved,
        Self::CancelToWrongWorker,
        Self::EarlyBytesLost,
        Self::RememberedByUser,
        Self::RememberedThroughReload,
        Self::VerdictForThePlace,
        Self::TornAnswerIsNobody,
        Self::CatchUpByName,
        Self::FailedSetIgnored,
        Self::RolledBackParameter,
        Self::HalfMessageLeftBehind,
        Self::HeldBytesSentAfterAll,
        Self::NoBackPressure,
        Self::ResumeForgotten,
        Self::TornHeaderLost,
        Self::MiddleSentTwice,
        Self::QueriesCountedTwice,
        Self::OurAnswerForwarded,
        Self::StaleCompletion,
        Self::ClearBytesKept,
        Self::RefusedTlsForgone,
        Self::ForwardHopUncounted,
        Self::ForwardSlotLost,
        Self::ForwardWaiterForgotten,
        Self::ForwardAnswersAnother,
        Self::BusySessionKept,
        Self::CancelMeetsNextQuery,
        Self::ClientLimitOffByOne,
        Self::OldClientsUncounted,
        Self::StateOfAnother,
        Self::AlongUnguarded,
        Self::MendTimeoutForRequests,
        Self::AlongUntimed,
        Self::AgainBehindAnswer,
        Self::LingerMistaken,
        Self::LingerUnlike,
        Self::PinForgotten,
        Self::StateLeftBehind,
        Self::TornTextUnread,
        Self::ResetUndone,
        Self::DroppedStatementCarried,
        Self::EffectForgotten,
        Self::StatementsUncompared,
        Self::ListenerBelieved,
        Self::LossUntold,
        Self::MarkIgnored,
        Self::OwnNewsOvertaken,
        Self::JoinedAtOnce,
        Self::LeftChannelTold,
    ];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LoanEndsEarly => "loan-ends-early",
            Self::ErrorPaidTwice => "error-paid-twice",
            Self::ErrorSkipsPastSync => "error-skips-past-sync",
            Self::SyncStatusIgnored => "sync-status-ignored",
            Self::FailedTransactionReturned => "failed-transaction-returned",
            Self::StraySyncBelieved => "stray-sync-believed",
            Self::MendWithoutRollback => "mend-without-rollback",
            Self::ResetAfterRollbackSkipped => "reset-after-rollback-skipped",
            Self::UnconfirmedStatementKept => "unconfirmed-statement-kept",
            Self::DiscardedStatementsBelieved => "discarded-statements-believed",
            Self::UnnamedBelieved => "unnamed-believed",
            Self::SkippedAnswerGiven => "skipped-answer-given",
            Self::PoolSizeIgnoresDials => "pool-size-ignores-dials",
            Self::DatabaseLimitIgnoresDials => "database-limit-ignores-dials",
            Self::WaiterForgotten => "waiter-forgotten",
            Self::LastComeFirstServed => "last-come-first-served",
            Self::AlarmNotBroughtForward => "alarm-not-brought-forward",
            Self::LentServerExpired => "lent-server-expired",
            Self::DeadServerCounted => "dead-server-counted",
            Self::SlotLostAtReload => "slot-lost-at-reload",
            Self::PauseForgottenByDials => "pause-forgotten-by-dials",
            Self::PauseUnknownToNewPools => "pause-unknown-to-new-pools",
            Self::PrivateServerLent => "private-server-lent",
            Self::PrivateWaiterForgotten => "private-waiter-forgotten",
            Self::PrivateServerReturned => "private-server-returned",
            Self::GrantForNobodyLost => "grant-for-nobody-lost",
            Self::PackedIsTouched => "packed-is-touched",
            Self::RequestLeftBehind => "request-left-behind",
            Self::StatementsLeftBehind => "statements-left-behind",
            Self::ParametersLeftBehind => "parameters-left-behind",
            Self::LoanForgottenInSuspend => "loan-forgotten-in-suspend",
            Self::SlotKeptByLeaver => "slot-kept-by-leaver",
            Self::CancelIgnoresQuery => "cancel-ignores-query",
            Self::CancelForgottenOnceSent => "cancel-forgotten-once-sent",
            Self::CutOffCancelBelieved => "cut-off-cancel-believed",
            Self::LateCancelBelieved => "late-cancel-believed",
            Self::CancelToWrongWorker => "cancel-to-wrong-worker",
            Self::EarlyBytesLost => "early-bytes-lost",
            Self::RememberedByUser => "remembered-by-user",
            Self::RememberedThroughReload => "remembered-through-reload",
            Self::VerdictForThePlace => "verdict-for-the-place",
            Self::TornAnswerIsNobody => "torn-answer-is-nobody",
            Self::CatchUpByName => "catch-up-by-name",
            Self::FailedSetIgnored => "failed-set-ignored",
            Self::RolledBackParameter => "rolled-back-parameter",
            Self::HalfMessageLeftBehind => "half-message-left-behind",
            Self::HeldBytesSentAfterAll => "held-bytes-sent-after-all",
            Self::NoBackPressure => "no-back-pressure",
            Self::ResumeForgotten => "resume-forgotten",
            Self::TornHeaderLost => "torn-header-lost",
            Self::MiddleSentTwice => "middle-sent-twice",
            Self::QueriesCountedTwice => "queries-counted-twice",
            Self::OurAnswerForwarded => "our-answer-forwarded",
            Self::StaleCompletion => "stale-completion",
            Self::ClearBytesKept => "clear-bytes-kept",
            Self::RefusedTlsForgone => "refused-tls-forgone",
            Self::ForwardHopUncounted => "forward-hop-uncounted",
            Self::ForwardSlotLost => "forward-slot-lost",
            Self::ForwardWaiterForgotten => "forward-waiter-forgotten",
            Self::ForwardAnswersAnother => "forward-answers-another",
            Self::BusySessionKept => "busy-session-kept",
            Self::CancelMeetsNextQuery => "cancel-meets-next-query",
            Self::ClientLimitOffByOne => "client-limit-off-by-one",
            Self::OldClientsUncounted => "old-clients-uncounted",
            Self::StateOfAnother => "state-of-another",
            Self::AlongUnguarded => "along-unguarded",
            Self::MendTimeoutForRequests => "mend-timeout-for-requests",
            Self::AlongUntimed => "along-untimed",
            Self::AgainBehindAnswer => "again-behind-answer",
            Self::LingerMistaken => "linger-mistaken",
            Self::LingerUnlike => "linger-unlike",
            Self::PinForgotten => "pin-forgotten",
            Self::StateLeftBehind => "state-left-behind",
            Self::TornTextUnread => "torn-text-unread",
            Self::ResetUndone => "reset-undone",
            Self::DroppedStatementCarried => "dropped-statement-carried",
            Self::EffectForgotten => "effect-forgotten",
            Self::StatementsUncompared => "statements-uncompared",
            Self::ListenerBelieved => "listener-believed",
            Self::LossUntold => "loss-untold",
            Self::MarkIgnored => "mark-ignored",
            Self::OwnNewsOvertaken => "own-news-overtaken",
            Self::JoinedAtOnce => "joined-at-once",
            Self::LeftChannelTold => "left-channel-told",
        }
    }

    /// The bug of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_a_name_of_its_own() {
        for (place, bug) in Planted::ALL.into_iter().enumerate() {
            assert_eq!(bug as usize, place, "ALL is in the order of the enum, without gaps");
            assert_eq!(Planted::from_name(bug.name()), Some(bug));
        }
        assert_eq!(Planted::from_name("perfect"), None);
    }

    /// The sources that hook bugs, which are one of each crate that has any.
    const HOOKS: [&str; 3] = [
        include_str!("../../pool/src/planted.rs"),
        include_str!("../../protocol/src/planted.rs"),
        include_str!("../../worker/src/planted.rs"),
    ];

    #[test]
    fn every_bug_has_one_hook_and_one_row_in_the_page() {
        let (hooks, page) = (HOOKS.concat(), include_str!("../../../docs/planted.md"));
        for bug in Planted::ALL {
            let hook = format!("planted::is(Planted::{bug:?})");
            assert_eq!(hooks.matches(&hook).count(), 1, "hooks of {bug:?}");
            let row = format!("| `{}` |", bug.name());
            assert_eq!(page.lines().filter(|line| line.starts_with(&row)).count(), 1, "rows of {bug:?}");
        }
        assert_eq!(hooks.matches("planted::is(").count(), Planted::ALL.len());
    }

    #[test]
    fn nothing_is_planted_unless_somebody_plants_it() {
        assert!(Planted::ALL.into_iter().all(|bug| !is(bug)));
    }
}
