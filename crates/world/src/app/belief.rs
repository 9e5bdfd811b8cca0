//! The requests of an application, the messages expected in answer, and what the application knows of its session.
//!
//! Always true: the expected messages follow from the request and the state of its transaction, so any other message
//! belongs to somebody else, and a missing one was lost.
//! Not here: what the application asks (`speech`), how answers are compared (`answers`).

use std::collections::{BTreeMap, VecDeque};

use wire::backend::TxStatus;

use super::names::Named;
use crate::postgres::sql::{Nonce, Prepared, Statement};

/// A message that must arrive next, or bytes to be sent at that point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// Any message of this type, whatever its body.
    Bare(u8),
    Row {
        at: u32,
        of: u32,
        size: u32,
    },
    CopyRow {
        at: u32,
        of: u32,
        size: u32,
    },
    Complete,
    /// The rows of a `SHOW` command of the console, and its `CommandComplete`.
    Table,
    /// A `CommandComplete` with this tag, without a nonce.
    Tag(&'static str),
    Error(&'static str),
    Notice,
    Zone(String),
    Function,
    Ready(TxStatus),
    /// Not a message: these bytes are sent now.
    Say(Vec<u8>),
}

/// One request, answered by one `ReadyForQuery`.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) nonce: Nonce,
    /// What the application knows before the request is run.
    pub(crate) before: Belief,
    /// The bytes that are sent at once.
    pub(crate) bytes: Vec<u8>,
    /// The expected answers, each with the nonce of its statement.
    pub(crate) expects: VecDeque<(Nonce, Expect)>,
    /// Whether the request runs for long enough to be cancelled.
    pub(crate) is_long: bool,
    /// `Sync` messages that PostgreSQL ignores during a COPY, but answers with an extra `ReadyForQuery` each if the
    /// COPY fails.
    pub(crate) early_syncs: u32,
    /// The number of the last statement of the request.
    pub(crate) last: u32,
    /// Pauses before the rest is sent: (bytes sent so far, number of answers to wait for).
    pub(super) pauses: Vec<(usize, usize)>,
    /// The request uses a prepared statement whose plan may be out of date ("cached plan must not change result type").
    pub(super) is_old: bool,
    /// The channel, if the request only executes LISTEN and may need no server.
    pub(crate) joins: Option<String>,
    /// What the request does to the writes of its transaction.
    pub(super) effect: Effect,
}

/// What a request does to the writes of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Effect {
    #[default]
    None,
    /// It is a write.
    Writes,
    /// It commits them.
    Commits,
    /// It drops them.
    Drops,
}

/// What an application knows of its session.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    pub(crate) tx: TxStatus,
    pub(crate) zone: String,
    /// The TimeZone at the beginning of the session.
    pub(super) began_in: String,
    /// The TimeZone after a rollback.
    pub(crate) zone_before: String,
    /// The value that the application has set for `app.mark`.
    pub(crate) mark: String,
    pub(crate) mark_before: String,
    /// The value of `app.mark` at the beginning of the session, which RESET restores.
    pub(crate) given: String,
    /// Whether the session may hold a session-level advisory lock.
    pub(crate) holds: bool,
    /// Whether the session may listen to any channel.
    pub(super) has_listened: bool,
    /// The application has sent UNLISTEN in a transaction that has not ended.
    pub(super) is_leaving: bool,
    /// Every earlier request is answered. An error in front of an UNLISTEN would leave the pooler in doubt about the
    /// channels.
    pub(super) is_answered: bool,
    /// The payload of the last NOTIFY in this transaction.
    pub(super) notified: Option<Nonce>,
    /// The TimeZone last reported by `ParameterStatus`, once all requests are answered.
    pub(crate) reported_zone: String,
    pub(crate) named: Named,
    /// The statements prepared by SQL `PREPARE`.
    pub(super) by_sql: BySql,
    /// The unnamed prepared statement, if nothing was sent after its `Parse`.
    pub(super) unnamed: Option<Statement>,
}

impl Belief {
    /// A session outside a transaction.
    pub(crate) fn new(zone: &str) -> Self {
        let [zone, began_in, zone_before, reported_zone] = [(); 4].map(|()| zone.to_owned());
        let [mark, mark_before, given] = [(); 3].map(|()| String::new());
        Self {
            tx: TxStatus::Idle,
            zone,
            began_in,
            zone_before,
            mark,
            mark_before,
            given,
            holds: false,
            has_listened: false,
            is_leaving: false,
            is_answered: false,
            notified: None,
            reported_zone,
            named: Named::default(),
            by_sql: BySql::new(),
            unnamed: None,
        }
    }

    /// The session begins with this value of `app.mark`.
    pub(crate) fn is_given(&mut self, mark: String) {
        (self.mark, self.mark_before) = (mark.clone(), mark.clone());
        self.given = mark;
    }

    /// Returns whether RESET restores the initial mark. A server has the startup value after the transaction has begun,
    /// but not in the middle of one.
    pub(super) fn may_unmark(&self) -> bool {
        self.given.is_empty() || self.tx == TxStatus::Idle
    }

    /// Every request is answered.
    pub(crate) fn settle(&mut self) {
        self.named.settle(self.tx, &self.zone);
        self.is_leaving &= self.tx != TxStatus::Idle;
        self.is_answered = true;
    }

    pub(super) fn come_into_zone(&mut self, zone: String) {
        if zone != self.zone {
            self.named.waver();
            self.zone = zone;
        }
    }

    /// A statement has failed.
    pub(crate) fn fails(&mut self) {
        if self.tx != TxStatus::Idle {
            self.tx = TxStatus::Failed;
            self.mark.clone_from(&self.mark_before);
            self.come_into_zone(self.zone_before.clone());
        }
    }

    pub(super) fn ends(&mut self, is_committed: bool) {
        if !is_committed {
            self.mark.clone_from(&self.mark_before);
            self.come_into_zone(self.zone_before.clone());
        }
        self.tx = TxStatus::Idle;
    }
}

/// Statements prepared by SQL, by name.
pub(super) type BySql = BTreeMap<String, Prepared>;

/// The time zones that applications set.
pub(crate) const ZONES: [&str; 3] = ["UTC", "Europe/Paris", "Asia/Tokyo"];
