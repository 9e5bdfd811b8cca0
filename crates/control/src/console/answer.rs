//! What the console answers, as a value: whoever asked decides how it is written.
//!
//! Always true: an answer to a simple query is whole messages and ends with `ReadyForQuery`.
//! Not here: answers to the extended protocol (`session`), which write the same value in pieces.

use wire::backend::TxStatus;
use wire::write::{self, Says};

use super::Refusal;
use super::formats::Formats;
use super::table::Table;

/// What became of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It shows something.
    Table(Table),
    /// It was carried out.
    Done {
        /// The tag of the answer.
        tag: String,
        /// What else there is to say.
        notice: Option<Notice>,
    },
    /// It was not.
    Refused(Refusal),
}

/// Something said beside an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    /// What is said.
    pub(crate) text: String,
    /// More about it.
    pub(crate) detail: Option<String>,
}

impl Answer {
    /// A command was carried out.
    pub(crate) fn done(tag: impl Into<String>) -> Self {
        Self::Done { tag: tag.into(), notice: None }
    }

    /// A command was carried out and there is more to say about it.
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

/// Appends that a command was carried out.
pub(super) fn done(out: &mut Vec<u8>, tag: &str, notice: Option<&Notice>) {
    if let Some(Notice { text, detail }) = notice {
        let detail = detail.as_deref();
        write::notice(out, Says { severity: "NOTICE", sqlstate: "00000", message: text, detail, hint: None });
    }
    write::command_complete(out, tag);
}

/// Appends a line that is shown before the answer, as soon as it comes.
pub(crate) fn write_line(out: &mut Vec<u8>, line: &str) {
    write::notice(out, Says { severity: "INFO", sqlstate: "00000", message: line, detail: None, hint: None });
}

/// The tag of everything that is shown.
pub(super) const SHOW: &str = "SHOW";
