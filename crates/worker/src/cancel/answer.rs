//! The answer to a request that was cancelled before a server had begun with it.
//!
//! Always true: it reads like PostgreSQL's own.
//! Not here: when it is sent.

use wire::backend::TxStatus;
use wire::write;

/// The answer to a request that was cancelled before a server had begun with it.
pub(crate) fn write_cancelled(out: &mut Vec<u8>, message: &str, detail: &str) {
    let says = write::Says { severity: "ERROR", sqlstate: QUERY_CANCELED, message, detail: Some(detail), hint: None };
    write::error(out, says);
    write::ready_for_query(out, TxStatus::Idle);
}

/// `query_canceled` (`errcodes.txt`).
pub(crate) const QUERY_CANCELED: &str = "57014";
