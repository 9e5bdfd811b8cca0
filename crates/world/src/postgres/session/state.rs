//! The state of a session of the simulated PostgreSQL, and the end of its requests and transactions.
//!
//! Always true: changed parameters are reported before `ReadyForQuery`; an error restores the parameters from before
//! the transaction.
//! Not here: how it handles messages (`session`) and statements (`run`).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use base::Time;
use protocol::client::login::Login;
use wire::backend::TxStatus;
use wire::write;

use super::channels::Channels;
use super::prepared::BySql;
use crate::checks::board::Board;
use crate::members::history::History;
use crate::postgres::sql::{Nonce, Statement};

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) end: u32,
    pub(crate) host: usize,
    pub(crate) number: u32,
    pub(crate) born: Time,
    pub(crate) life: Life,
    /// The TLS handshake is under way.
    pub(crate) is_handshaking: bool,
    pub(super) input: Vec<u8>,
    pub(super) queue: VecDeque<(u8, Vec<u8>)>,
    /// Unsent output.
    pub(crate) out: Vec<u8>,
    pub(crate) is_flushed: bool,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) secret: u32,
    pub(super) vars: Vars,
    /// The parameters as last reported.
    pub(super) reported: Vars,
    /// The parameters at the start of the session, which DISCARD ALL restores.
    pub(super) started: Vars,
    /// The parameters that an error or a ROLLBACK restores.
    pub(super) before: Option<Vars>,
    pub(super) tx: TxStatus,
    /// The application that has begun the transaction.
    pub(super) owner: Option<u32>,
    /// The application that holds an advisory lock of the session.
    pub(super) held: Option<u32>,
    /// The application that has left something behind in the session.
    pub(super) dirty: Option<u32>,
    /// The application that may have pipelined more requests behind a cancelled one.
    pub(super) unsure: Option<u32>,
    /// The application whose request is not answered.
    pub(super) unanswered: Option<u32>,
    pub(super) is_skipping: bool,
    /// Messages of the extended protocol have arrived without a `Sync` after them.
    pub(super) is_in_batch: bool,
    pub(super) copy: Option<Copy>,
    pub(super) parsed: Option<Statement>,
    pub(super) named: Named,
    pub(super) prepared: BySql,
    pub(super) along: Along,
    pub(crate) channels: Channels,
    pub(super) portal: Option<Portal>,
    /// The `auth_query` that was parsed.
    pub(super) about: Option<About>,
    /// The current work.
    pub(super) work: Option<Work>,
    /// When that work began.
    pub(crate) works_since: Time,
    /// When an application began the open transaction.
    pub(crate) begun: Time,
    pub(crate) alarm: u32,
    pub(super) is_session_mode: bool,
    /// The application for which this is a dedicated server.
    pub(crate) alone: Option<u32>,
    /// A physical replication connection, without a database and without SQL.
    pub(super) is_physical: bool,
    /// The history of the cluster, if its host is a member.
    pub(crate) history: Option<Rc<RefCell<History>>>,
    /// The role of the host as reported, and since when that is the one of a primary.
    pub(super) in_recovery: bool,
    pub(super) told_primary: Option<Time>,
    /// The application whose statement it has run last.
    pub(super) last_app: Option<u32>,
    /// The writes of the open transaction.
    pub(super) writes: Vec<Nonce>,
}

/// The stage of a session.
#[derive(Debug)]
pub(crate) enum Life {
    Startup,
    /// It has received a cancel request with this key, and sends the signal late.
    Signals(Vec<u8>),
    Login(Box<Login>),
    Ready,
    Dead,
}

/// The parameters of a session.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Vars {
    pub(super) zone: String,
    /// The TimeZone was set in the session, to whatever value.
    pub(super) is_zone_set: bool,
    pub(super) application_name: String,
    /// The setting `app.mark`, which is not reported.
    pub(super) mark: String,
}

/// A bound statement, and how many of its rows have been sent.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) statement: Statement,
    pub(super) sent: u32,
}

/// What a session works on.
#[derive(Debug)]
pub(super) enum Work {
    /// The rest of a simple query.
    Query {
        rest: VecDeque<String>,
        is_first: bool,
    },
    Execute {
        rows_max: u32,
    },
    Function {
        nonce: Nonce,
    },
    /// The second half of a stream.
    Stream {
        millis: u32,
    },
}

/// A COPY in progress.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) nonce: Nonce,
    pub(super) rows: u32,
    pub(super) is_bad: bool,
    pub(super) is_extended: bool,
    /// For COPY BOTH: the stream that was asked for.
    pub(super) stream: Option<Stream>,
}

/// The parameters of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stream {
    pub(super) rows: u32,
    pub(super) size: u32,
    pub(super) words: u32,
    pub(super) is_ended_by_server: bool,
}

/// A parsed `auth_query`.
#[derive(Clone, Debug)]
pub(super) struct About {
    /// The kind of answer that the text asks for.
    pub(super) word: String,
    pub(super) user: String,
}

/// The prepared statements by which the pooler sends settings along with a request, and the one that is bound, with its
/// values.
#[derive(Debug, Default)]
pub(super) struct Along {
    pub(super) prepared: BTreeMap<String, String>,
    pub(super) portal: Option<(String, Vec<String>)>,
}

impl Along {
    pub(super) fn drop_all(&mut self) {
        *self = Self::default();
    }

    pub(super) fn drop_one(&mut self, name: &str) {
        self.prepared.remove(name);
    }
}

/// The statements of a session prepared by `Parse`, by name.
pub(super) type Named = BTreeMap<String, ByName>;

/// A prepared statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ByName {
    pub(super) rows: u32,
    /// The TimeZone under which it was parsed.
    pub(super) zone: String,
    /// It has been bound since it was prepared.
    pub(super) was_bound: bool,
}

/// What a session wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    Nothing,
    /// To be called when this time is over.
    Work(Duration),
    /// To be closed.
    Close,
}

impl Session {
    pub(crate) fn new(end: u32, host: usize, number: u32, secret: u32, board: Rc<RefCell<Board>>) -> Self {
        Self {
            end,
            host,
            number,
            born: Time(0),
            life: Life::Startup,
            is_handshaking: false,
            input: Vec::new(),
            queue: VecDeque::new(),
            out: Vec::new(),
            is_flushed: false,
            user: String::new(),
            database: String::new(),
            secret,
            vars: Vars::default(),
            reported: Vars::default(),
            started: Vars::default(),
            before: None,
            tx: TxStatus::Idle,
            owner: None,
            dirty: None,
            held: None,
            unsure: None,
            unanswered: None,
            is_skipping: false,
            is_in_batch: false,
            copy: None,
            parsed: None,
            named: Named::new(),
            prepared: BySql::default(),
            along: Along::default(),
            channels: Channels::at(board),
            portal: None,
            about: None,
            work: None,
            works_since: Time(0),
            begun: Time(0),
            alarm: 0,
            is_session_mode: false,
            alone: None,
            is_physical: false,
            history: None,
            in_recovery: false,
            told_primary: None,
            last_app: None,
            writes: Vec::new(),
        }
    }

    pub(super) fn row_description(&mut self) {
        write::row_description(
            &mut self.out,
            &[write::Column { name: "row", type_oid: 25, type_bytes: -1, format: 0 }],
        );
    }

    pub(super) fn ready(&mut self) {
        // As in PostgreSQL 14 and later, changed parameters are reported just before `ReadyForQuery`.
        if self.reported.zone != self.vars.zone {
            write::parameter_status(&mut self.out, "TimeZone", &self.vars.zone);
        }
        if self.reported.application_name != self.vars.application_name {
            write::parameter_status(&mut self.out, "application_name", &self.vars.application_name);
        }
        self.reported.clone_from(&self.vars);
        self.report_role();
        if self.tx == TxStatus::Idle {
            self.commit_writes();
            self.commit_channels();
            self.tell_news();
        }
        write::ready_for_query(&mut self.out, self.tx);
        self.is_flushed = true;
        if self.tx == TxStatus::Idle {
            self.owner = None;
            self.before = None;
        }
    }

    /// Returns whether it works on something, and so handles no message.
    pub(crate) fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// The number of bytes that it has read ahead.
    pub(crate) fn unread(&self) -> usize {
        self.input.len() + self.queue.iter().map(|(_, body)| body.len() + 5).sum::<usize>()
    }

    /// Ends the session as `pg_terminate_backend` does.
    pub(crate) fn terminate(&mut self) -> Wish {
        self.alarm += 1;
        self.refuse("57P01", "terminating connection due to administrator command")
    }

    /// Refuses the client with a FATAL error.
    pub(crate) fn refuse(&mut self, sqlstate: &str, message: &str) -> Wish {
        write::error(&mut self.out, write::Says { severity: "FATAL", sqlstate, message, detail: None, hint: None });
        self.life = Life::Dead;
        Wish::Close
    }

    /// From here on an error restores the parameters.
    pub(super) fn transaction_begins(&mut self) {
        if self.before.is_none() {
            self.before = Some(self.vars.clone());
        }
    }

    pub(super) fn roll_back(&mut self) {
        self.writes.clear();
        self.channels.roll_back();
        if let Some(before) = self.before.take() {
            self.vars = before;
        }
    }

    pub(super) fn fail(&mut self, sqlstate: &str, message: &str, is_extended: bool) {
        write::error(&mut self.out, write::Says { severity: "ERROR", sqlstate, message, detail: None, hint: None });
        if self.tx == TxStatus::Open {
            self.tx = TxStatus::Failed;
        }
        self.roll_back();
        self.is_skipping = is_extended;
        if is_extended {
            self.portal = None;
            self.is_flushed = true;
        }
    }

    pub(super) fn complete(&mut self, nonce: Nonce) {
        write::command_complete(&mut self.out, &format!("DONE {nonce}"));
    }
}
