//! The console's answers as values, independent of the protocol in which they are written.
//!
//! Always true: an answer to a simple query consists of whole messages and ends with `ReadyForQuery`.
//! Not here: answers in the extended protocol (`session`), which writes the same value in pieces.

use wire::backend::TxStatus;
use wire::write::{self, Says};

use super::Refusal;
use super::formats::Formats;
use super::table::Table;

/// The outcome of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// A table.
    Table(Table),
    /// The command was carried out.
    Done {
        /// The tag of the CommandComplete.
        tag: String,
        /// An additional notice.
        notice: Option<Notice>,
    },
    /// The command was refused.
    Refused(Refusal),
}

/// A notice sent before the CommandComplete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    /// The message.
    pub(crate) text: String,
    /// The detail.
    pub(crate) detail: Option<String>,
}

impl Answer {
    /// A command that was carried out.
    pub(crate) fn done(tag: impl Into<String>) -> Self {
        Self::Done { tag: tag.into(), notice: None }
    }

    /// A command that was carried out, with a notice.
    pub(crate) fn noted(tag: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Done { tag: tag.into(), notice: Some(Notice { text: text.into(), detail: None }) }
    }

    /// Appends the answer to a simple query.
    pub(crate) fn write_simple(&self, out: &mut Vec<u8>) {
        match self {
            Self::Table(table) => {
                table.describe(out, &Formats::TEXT);
                table.rows.iter().for_each(|row| table.write_row(out, row, &Formats::TEXT));
                write::command_complete(out, SHOW);
            }
            Self::Done { tag, notice } => done(out, tag, notice.as_ref()),
            Self::Refused(refusal) => refusal.write(out),
        }
        write::ready_for_query(out, TxStatus::Idle);
    }
}

/// Appends a notice, if any, and the CommandComplete.
pub(super) fn done(out: &mut Vec<u8>, tag: &str, notice: Option<&Notice>) {
    if let Some(Notice { text, detail }) = notice {
        let detail = detail.as_deref();
        write::notice(out, Says { severity: "NOTICE", sqlstate: "00000", message: text, detail, hint: None });
    }
    write::command_complete(out, tag);
}

/// Appends an INFO notice that clients show at once, before the answer.
pub(crate) fn write_line(out: &mut Vec<u8>, line: &str) {
    write::notice(out, Says { severity: "INFO", sqlstate: "00000", message: line, detail: None, hint: None });
}

/// The command tag of every SHOW.
pub(super) const SHOW: &str = "SHOW";
