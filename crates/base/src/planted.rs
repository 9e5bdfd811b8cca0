//! Bugs that are planted on purpose, to show that the simulation would catch them.
//!
//! Always true: without the feature `planted` no bug can be planted and [`is`] is a constant `false`, so that a hook leaves
//! no trace in the compiled program; with it at most one bug is planted at a time, by the owner of the process.
//! Not here: the hooks. The bugs of a crate are in its `planted.rs`, each in a function that is named after the rule it
//! breaks and is called where a developer might make the mistake; `docs/planted.md` says of each what a user would see and
//! which checker should see it first.

/// A bug that can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    // Counting the answers that a server owes (`protocol::exchange`, `protocol::server::cleanup`).
    /// When one of several queries sent together is answered, the last of them counts as answered too. Typical of a pooler
    /// with a flag "a query is running" instead of a count.
    LoanEndsEarly,
    /// When a query fails behind which others were sent, its error and its `ReadyForQuery` both count as its answer. Typical of
    /// an error path that decrements the count that the normal path decrements as well.
    ErrorPaidTwice,
    /// After an error in a batch, messages count as skipped up to the last Sync that was sent instead of the next. Typical of
    /// drivers with a pipeline mode that search their queue from the wrong end.
    ErrorSkipsPastSync,
    /// The status in a `ReadyForQuery` is used for simple queries only, so that a BEGIN or COMMIT by the extended protocol goes
    /// unnoticed. Typical of poolers that supported the simple protocol first.
    SyncStatusIgnored,
    /// A failed transaction block counts as no transaction. Typical of a test for "not in a transaction" where "idle" was meant.
    FailedTransactionReturned,
    /// A server is lent again although it may still answer a Sync that a failed COPY may have ignored. Typical of poolers that
    /// count Syncs and do not know that COPY ignores them; `PgBouncer` 1.21 had a bug with COPY (its #1025).
    StraySyncBelieved,
    /// A server that its client left in a transaction is not rolled back. The pooler built into a fork of PostgreSQL showed
    /// one client the open transaction of another (`postgresql.builtin_pool` #8).
    CleanupWithoutRollback,
    /// The reset query is left out after a ROLLBACK. Typical of a cleanup state machine that ends one step early.
    ResetAfterRollbackSkipped,
    /// A prepared statement counts as present on a server once its Parse has been sent, even if the server failed or skipped
    /// it. Typical of poolers that update their tables when a message passes; Odyssey had to redo its handling of errors in a
    /// batch (its #1545).
    UnconfirmedStatementKept,
    /// A server is believed to keep all its prepared statements after DISCARD ALL. Typical of poolers that supported the reset
    /// query before prepared statements.
    DiscardedStatementsBelieved,
    /// A client binds the unnamed statement on a server that may not have it. Typical of every pooler in transaction mode.
    UnnamedBelieved,
    /// The answer to a Parse that we do not forward is sent to the client even if the server skips the messages around it.
    /// Typical of poolers that answer the client as soon as they read its message.
    SkippedAnswerGiven,

    // Which client gets which server (`pool`).
    /// Servers that are being dialed do not count against the size of the pool: while a login is in flight, the next one passes
    /// the same check. Typical of application pools under many first requests.
    PoolSizeIgnoresDials,
    /// Servers that are being dialed do not count against the limit of a database, which several pools share.
    DatabaseLimitIgnoresDials,
    /// When a login fails, the client for which it was made leaves the queue without an error. Typical of pools that tie a
    /// waiting client to a login.
    WaiterForgotten,
    /// The client that came last is served first. Typical of a queue in a vector, with `push` and `pop`.
    LastComeFirstServed,
    /// An alarm that is set is not brought forward for an earlier deadline. Typical of timers with one shared deadline.
    AlarmNotBroughtForward,
    /// When idle servers are closed for their age, lent ones are too. Typical of a maintenance pass over all connections of a
    /// pool.
    LentServerExpired,
    /// A server whose connection ends during its reset, check or cleanup keeps its slot. Typical of a forgotten row in a table
    /// of moves; many pools have lost capacity like this, one connection at a time.
    DeadServerCounted,
    /// A changed limit begins with an empty account, so that slots that were taken before it are never given back. Typical of
    /// rate limiters and quotas that are rebuilt by a reload.
    SlotLostAtReload,
    /// A pause keeps existing servers from being lent, but does not keep new ones from being opened. Typical of a switch that
    /// is checked where a connection is reused, but not where one is opened.
    PauseForgottenByDials,
    /// A pause applies only to the pools that exist when it is ordered. Typical of orders that are carried out but not stored.
    PauseUnknownToNewPools,
    /// A server that was dialed for one replication client is lent to the first waiting client, although it is a walsender with
    /// other commands and the settings of its client. Typical of pools whose logins belong to no client; `PgBouncer`, too, ties
    /// the two late.
    DedicatedServerLent,
    /// When the login for a replication client breaks off, the client is not put back into the queue. Typical of pools that tie
    /// a waiting client to a login.
    DedicatedWaiterForgotten,
    /// A slot that is granted to a claimant that waits no more is neither used nor given back. Typical of semaphores whose
    /// waiters can be cancelled.
    GrantForNobodyLost,

    // Forwarding, limits, cancel requests and the rest of a worker (`worker`, and further rules of `protocol`).
    /// A server of a replication client is returned to the pool like any other if its client leaves between two commands.
    /// Typical of code for disconnected clients that is older than this kind of server.
    DedicatedServerReturned,
    /// Connections that have been packed for another process are still used here, although the other process may have them
    /// already.
    PackedIsTouched,
    /// An online restart loses the request of a client that waits for a server. Typical of state outside the protocol machine,
    /// which is easily forgotten when a session is packed.
    RequestLeftBehind,
    /// A server that was taken over by an online restart is believed to have no prepared statements.
    StatementsLeftBehind,
    /// A server that was taken over by an online restart is believed to have the parameters of the other servers of its pool.
    ParametersLeftBehind,
    /// A loan that would have begun during a SUSPEND never begins. Typical of code that drops what it should postpone.
    LoanForgottenInSuspend,
    /// A client that leaves during its login keeps its slot. Typical of limits whose slots are given back only at logout;
    /// `PgBouncer` 1.24.0 decremented the connection count of a user in the wrong places (its #1238).
    SlotKeptByLeaver,
    /// A cancel request that was meant for one query is sent even if another query runs once its connection is established.
    /// `PgBouncer` before 1.18 could cancel the query of another client like this (its #717).
    CancelIgnoresQuery,
    /// A cancel request counts as delivered once it is written, so that its server is lent while the request is in transit. The
    /// second race of the same report.
    CancelForgottenOnceSent,
    /// A cancel request whose connection breaks off counts as processed by PostgreSQL, although the signal may be sent later.
    /// Typical of poolers that only wait for that connection to end.
    CutOffCancelBelieved,
    /// A cancel request that was given up after `cancel_wait_timeout` counts as processed, although the signal may be sent later.
    LateCancelBelieved,
    /// A cancel request is matched only against the clients of the worker that received it. Typical of poolers with several
    /// processes on one port (`so_reuseport`) without peering.
    CancelToWrongWorker,
    /// Bytes that a client sent behind its startup packet are lost when it moves to its home worker. Typical of programs that
    /// pass a socket on, but not the bytes already read from it.
    EarlyBytesLost,
    /// The result of `auth_query` for a user is used for every database. Typical of a cache with an incomplete key.
    RememberedByUser,
    /// The result of `auth_query` for a user stays cached through a reload. Typical of caches that a reload forgets.
    RememberedThroughReload,
    /// The verdict about a password is applied to the client that now has the table row of the client that was checked. Typical
    /// of answers matched by the index of a row that has been reused.
    VerdictForThePlace,
    /// An incomplete result of `auth_query` is taken for an empty one. Typical of code that reads rows to the end before it
    /// checks for an error.
    TornAnswerIsNobody,
    /// Parameters are set on a server only if its `application_name` differs from the client's. Typical of poolers that compare
    /// a fingerprint of a session instead of the session.
    CatchUpByName,
    /// A server that refuses a client's parameters is lent to the client all the same. Typical of poolers that ignore the
    /// results of their own queries.
    FailedSetIgnored,
    /// A ParameterStatus after a ROLLBACK or a reset is not noticed, because no client has the server then. Typical of caches
    /// of session state that are updated only during a loan.
    RolledBackParameter,
    /// A loan ends in the middle of a message, when a COPY fails within a CopyData message or the client leaves there; the server
    /// takes the next bytes for the rest of it. Typical of proxies that count messages and not bytes.
    HalfMessageLeftBehind,
    /// Messages of a client that has left are still sent to its former server. Typical of buffers that are flushed by the next
    /// user.
    HeldBytesSentAfterAll,
    /// A server is read although its client does not accept the answers. Every proxy has had this bug, and noticed it by its
    /// memory.
    NoBackPressure,
    /// A server whose reading was paused for a slow client is not read again when the client has caught up.
    ResumeForgotten,
    /// The first part of a message header that came in two reads is lost. Typical of proxies tested on one machine, where
    /// headers are never split.
    TornHeaderLost,
    /// A part in the middle of a large message is forwarded twice. Typical of copying loops at the border of a buffer.
    MiddleSentTwice,
    /// Each message of a pipeline counts as a query. Typical of statistics that count messages.
    QueriesCountedTwice,
    /// The CommandComplete of a query of our own is forwarded to the client. Typical of poolers that set parameters on behalf of
    /// a client and hide one answer too few.
    OurAnswerForwarded,
    /// A completion for a connection that is closed already is applied to the connection that reuses its table row. Typical of
    /// kernel completions that carry an index without a generation.
    StaleCompletion,
    /// Cleartext bytes behind an SSLRequest are treated as if they had come over TLS: CVE-2021-23214 of PostgreSQL,
    /// CVE-2021-3935 of `PgBouncer`.
    ClearBytesKept,
    /// A server that refuses TLS is used in cleartext although TLS is required. Typical of libraries whose "require" means
    /// "prefer".
    RefusedTlsForgone,
    /// A cancel request is forwarded to a peer without counting the hop. Typical of forwarders that copy a packet: two processes
    /// with contradicting peer numbers send it to each other for ever.
    ForwardHopUncounted,
    /// A cancel request for a peer that cannot be reached keeps its place. Typical of an error path that reports the error but
    /// does not clean up.
    ForwardSlotLost,
    /// When a peer has finished with a request, the next waiting request is not started. Typical of pools that serve their queue
    /// on arrivals only.
    ForwardWaiterForgotten,
    /// When a peer has finished with a request, another requester is answered. Typical of answers matched to requests by their
    /// order.
    ForwardAnswersAnother,
    /// With `server_fast_close` a session in a transaction is never closed after a RECONNECT. Typical of an order that handles
    /// idle sessions at once and leaves no mark on busy ones.
    BusySessionKept,
    /// The next request of a client is forwarded while the cancel request for the previous one is still in transit. Typical of
    /// every pooler that forgets a cancel request as soon as it is sent.
    CancelMeetsNextQuery,
    /// A database gets one client more than `max_db_client_connections` allows.
    ClientLimitOffByOne,
    /// Clients that logged in before their users had a limit are not counted.
    OldClientsUncounted,
    /// A server is believed to have its client's settings, whatever it has.
    StateOfAnother,
    /// A request that is sent together with the settings for its server is run even if the server refuses the settings.
    AlongUnguarded,
    /// If settings are sent together with a request, the timeout for settings also limits the request. Typical of a timer made
    /// for settings that were sent separately; this bug has been ours.
    MendTimeoutForRequests,
    /// Query timeouts do not end a request that was sent together with settings. The other half of the same bug.
    AlongUntimed,
    /// A request is repeated although a part of its answer has been sent to the client.
    AgainBehindAnswer,
    /// An affinity hold is ended as unused although its client has come back.
    AffinityHoldMistaken,
    /// An affinity hold keeps a server with a client that has reset the settings with which it began.
    AffinityHoldUnlike,
    /// A server is returned although a lock, or another pin, of its client is on it.
    PinForgotten,
    /// A server is not cleaned up after its client left settings or locks on it.
    StateLeftBehind,
    /// A statement whose text comes in several parts is taken for one without effect on the session.
    TornTextUnread,
    /// A setting that a client has reset is set again on its next server.
    ResetUndone,
    /// A statement prepared by SQL that its client has deallocated, or lost with all others, is still prepared on the client's
    /// next servers. Typical of records to which entries are only added.
    DroppedStatementCarried,
    /// RESET ALL and DISCARD ALL are taken for statements without effect.
    EffectForgotten,
    /// Statements prepared by SQL are not compared when a client's state is applied to a server, so that the server keeps the
    /// statements of its former client. Typical of a shortcut that is older than this part of the state.
    StatementsUncompared,
    /// A channel counts as listened to by the shared session before it is, so that notifications in between are lost. Typical of
    /// code that relies on an order before it is carried out.
    ListenerBelieved,
    /// Clients are not told that the shared listening session was lost for a while. Typical of reconnections that are invisible
    /// outside.
    LossUntold,
    /// A notification that the client's own server sends behind the handover mark is forwarded, and so is the same notification
    /// of the shared session. Typical of a handover without a definite point.
    MarkIgnored,
    /// The end of a transaction is forwarded before the client's own notifications of that transaction. Typical of a shared
    /// listener that forwards notifications when they arrive.
    OwnNewsOvertaken,
    /// A LISTEN for a channel that the shared session listens to already is answered at once, so that the client then receives
    /// notifications that were committed before. Typical of joining a stream without knowing its position.
    JoinedAtOnce,
    /// A client receives notifications of a channel after UNLISTEN. Typical of subscriptions to which channels are only added.
    LeftChannelTold,

    // Where clients of a cluster may write (`cluster`, `worker::upstream`, `worker::admin`).
    /// Servers at the former primary are kept when another one is known. Typical of a pooler that looks at roles when it dials, and of every
    /// one that waits for the end of `server_lifetime`.
    FormerPrimaryKept,
    /// A server is dialed at any host that says itself that it is a primary. Typical of libpq's `target_session_attrs`.
    GateIgnoredByDials,
    /// Who waits for an answer of a primary that is gone is told of a crash, after which drivers repeat what they have sent.
    OutcomeTakenForCrash,
    /// Clients that were held are not served when the hold ends. Typical of a flag that is cleared and wakes nobody.
    HeldClientForgotten,
    /// A server keeps the role of its login. Typical of poolers that read `ParameterStatus` only then.
    RoleReportIgnored,
    /// Writes stop when the leader lock may have run out twice. Typical of a lease that counts from when its end is noticed.
    FenceALeaseLate,
    /// A host that accepts writes is the primary, however old its timeline is. Typical of checks that ask for the role alone.
    OlderTimelineBelieved,
    /// A switchover does not wait for the target to replay what the primary has written. Typical of scripts that stop the one and promote
    /// the other.
    CatchUpSkipped,
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

/// Plants a bug, or none, in the whole process, for a program that runs one simulation at a time.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Planted>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
}

/// Whether the plain ways of a transaction are open (decision 0026).
#[cfg(not(feature = "planted"))]
#[inline]
#[must_use]
pub const fn are_ways_open() -> bool {
    true
}

/// Whether the plain ways of a transaction are open (decision 0026). A simulation can close them, to see that nothing but the
/// speed depends on them.
#[cfg(feature = "planted")]
#[must_use]
pub fn are_ways_open() -> bool {
    !ARE_WAYS_CLOSED.load(Ordering::Relaxed)
}

/// Opens or closes the plain ways in the whole process.
#[cfg(feature = "planted")]
pub fn open_ways(are_open: bool) {
    ARE_WAYS_CLOSED.store(!are_open, Ordering::Relaxed);
}

#[cfg(feature = "planted")]
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Like `PLANTED`, it is asked for in many functions, and no program that ships has it.
#[cfg(feature = "planted")]
static ARE_WAYS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The bug that is planted, counted from 1; 0 is none. Passing it as a value would need a parameter for tests in every
/// function. This and the next are the only mutable statics of the project, and no program that ships has them.
#[cfg(feature = "planted")]
static PLANTED: AtomicU8 = AtomicU8::new(0);

impl Planted {
    /// All of them.
    pub const ALL: [Self; 92] = [
        Self::LoanEndsEarly,
        Self::ErrorPaidTwice,
        Self::ErrorSkipsPastSync,
        Self::SyncStatusIgnored,
        Self::FailedTransactionReturned,
        Self::StraySyncBelieved,
        Self::CleanupWithoutRollback,
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
        Self::DedicatedServerLent,
        Self::DedicatedWaiterForgotten,
        Self::GrantForNobodyLost,
        Self::DedicatedServerReturned,
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
        Self::AffinityHoldMistaken,
        Self::AffinityHoldUnlike,
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
        Self::FormerPrimaryKept,
        Self::GateIgnoredByDials,
        Self::OutcomeTakenForCrash,
        Self::HeldClientForgotten,
        Self::RoleReportIgnored,
        Self::FenceALeaseLate,
        Self::OlderTimelineBelieved,
        Self::CatchUpSkipped,
    ];

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LoanEndsEarly => "loan-ends-early",
            Self::ErrorPaidTwice => "error-paid-twice",
            Self::ErrorSkipsPastSync => "error-skips-past-sync",
            Self::SyncStatusIgnored => "sync-status-ignored",
            Self::FailedTransactionReturned => "failed-transaction-returned",
            Self::StraySyncBelieved => "stray-sync-believed",
            Self::CleanupWithoutRollback => "cleanup-without-rollback",
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
            Self::DedicatedServerLent => "dedicated-server-lent",
            Self::DedicatedWaiterForgotten => "dedicated-waiter-forgotten",
            Self::DedicatedServerReturned => "dedicated-server-returned",
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
            Self::AffinityHoldMistaken => "affinity-hold-mistaken",
            Self::AffinityHoldUnlike => "affinity-hold-unlike",
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
            Self::FormerPrimaryKept => "former-primary-kept",
            Self::GateIgnoredByDials => "gate-ignored-by-dials",
            Self::OutcomeTakenForCrash => "outcome-taken-for-crash",
            Self::HeldClientForgotten => "held-client-forgotten",
            Self::RoleReportIgnored => "role-report-ignored",
            Self::FenceALeaseLate => "fence-a-lease-late",
            Self::OlderTimelineBelieved => "older-timeline-believed",
            Self::CatchUpSkipped => "catch-up-skipped",
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

    /// The sources with hooks, one of each crate that has any.
    const HOOKS: [&str; 4] = [
        include_str!("../../cluster/src/planted.rs"),
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
