//! What an application has asked, what it must be answered, and what it knows of its session.
//!
//! Always true: an answer follows from the request and the transaction it is made in, so that whatever is different was
//! somebody else's, or is missing.
//! Not here: what it asks (`speech`), how answers are compared (`ear`).

use std::collections::{BTreeMap, VecDeque};

use wire::backend::TxStatus;

use super::names::Named;
use crate::postgres::sql::{Nonce, Prepared, Statement};

/// A message that must come, or something to be said when it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// A message without a content that tells anything.
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
    /// Rows, and the end of a table of the console.
    Table,
    /// A tag without a nonce.
    Tag(&'static str),
    Error(&'static str),
    Notice,
    Zone(String),
    Function,
    Ready(TxStatus),
    /// Not a message: now this is said.
    Say(Vec<u8>),
}

/// One request, ended by a `ReadyForQuery`.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) nonce: Nonce,
    /// What is so before it is run.
    pub(crate) before: Belief,
    /// What is said at once.
    pub(crate) bytes: Vec<u8>,
    /// The answers, each with the nonce of its statement.
    pub(crate) expects: VecDeque<(Nonce, Expect)>,
    /// Whether it goes on for long enough to be cancelled.
    pub(crate) is_long: bool,
    /// Syncs of it that a COPY ignores, or that are answered beside the last one if the COPY fails.
    pub(crate) early_syncs: u32,
    /// The number of its last statement.
    pub(crate) last: u32,
    /// Where it waits before it goes on: after so many bytes, for so many answers.
    pub(super) pauses: Vec<(usize, usize)>,
    /// A plan that it uses may be out of date by now.
    pub(super) is_old: bool,
    /// It only listens to a channel, so that it may need no server.
    pub(crate) joins: Option<String>,
}

/// What an application knows of its session.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    pub(crate) tx: TxStatus,
    pub(crate) zone: String,
    /// The TimeZone that its session began with.
    pub(super) began_in: String,
    /// What the TimeZone falls back to if the transaction does not go well.
    pub(crate) zone_before: String,
    /// What it has marked its session with.
    pub(crate) mark: String,
    pub(crate) mark_before: String,
    /// What its session began with, and has again when it takes its mark back.
    pub(crate) given: String,
    /// It may have a lock of its session.
    pub(crate) holds: bool,
    /// It may listen to something.
    pub(super) has_listened: bool,
    /// It has said that it leaves a channel, and its transaction has not ended.
    pub(super) is_leaving: bool,
    /// Nothing that it has said is unanswered: what goes wrong in front of an UNLISTEN leaves the pooler in doubt about that.
    pub(super) is_answered: bool,
    /// What it has notified last.
    pub(super) notified: Option<Nonce>,
    /// The TimeZone that it has been told, or will have been when everything is answered.
    pub(crate) told: String,
    pub(crate) named: Named,
    /// What it has prepared by SQL.
    pub(super) by_sql: BySql,
    /// The statement that it has given without a name, and said nothing since.
    pub(super) unnamed: Option<Statement>,
}

impl Belief {
    /// Outside a transaction.
    pub(crate) fn new(zone: &str) -> Self {
        let [zone, began_in, zone_before, told] = [(); 4].map(|()| zone.to_owned());
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
            told,
            named: Named::default(),
            by_sql: BySql::new(),
            unnamed: None,
        }
    }

    /// Its session begins with a mark.
    pub(crate) fn is_given(&mut self, mark: String) {
        (self.mark, self.mark_before) = (mark.clone(), mark.clone());
        self.given = mark;
    }

    /// A server has what a session began with when its transaction has begun, and in the middle of one it has not.
    pub(super) fn may_unmark(&self) -> bool {
        self.given.is_empty() || self.tx == TxStatus::Idle
    }

    /// Everything is answered.
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

    /// Something has failed.
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

/// What it has prepared, by the names.
pub(super) type BySql = BTreeMap<String, Prepared>;

/// Time zones that applications set.
pub(crate) const ZONES: [&str; 3] = ["UTC", "Europe/Paris", "Asia/Tokyo"];
