//! Which errors the soak itself explains.
//!
//! Always true: an error that would mean that the pooler misunderstood a peer is in none of these lists.
//! Not here: whether an error came at a permitted moment, and errors that only some configurations explain (`session`).

use tests::message::Complaint;

/// `query_canceled`.
pub(crate) const CANCELLED: &str = "57014";

/// Returns whether PostgreSQL ends a connection with this error.
pub(crate) fn is_end_by_server(complaint: &Complaint) -> bool {
    complaint.text.starts_with("terminating connection")
}

/// Returns whether a request may fail with this error while the session goes on.
pub(crate) fn may_fail(complaint: &Complaint) -> bool {
    match complaint.code.as_str() {
        CANCELLED => complaint.text == "canceling statement due to user request",
        // A transaction that the client's own previous connection left open still holds the row lock.
        "55P03" => complaint.text == "canceling statement due to lock timeout",
        // A backend that finds its connection half closed in the middle of a COPY reports this and ends.
        "08006" => complaint.text == "unexpected EOF on client connection with an open transaction",
        _ => false,
    }
}

/// Returns whether a connection may end with this error.
pub(crate) fn may_end(complaint: &Complaint) -> bool {
    match complaint.code.as_str() {
        "57P01" => complaint.text == "terminating connection due to administrator command",
        "08P01" => ENDS.iter().any(|start| complaint.text.starts_with(start)),
        // The state probe was too slow behind a proxy or on a busy machine.
        "08006" => complaint.text == "the session's state could not be read from its server",
        _ => false,
    }
}

/// Returns whether this is the notice that the pooler sends to waiting clients.
pub(crate) fn is_notice_of_the_pooler(complaint: &Complaint) -> bool {
    complaint.text == "No server connection available in postgres backend, client being queued"
}

/// Beginnings of the pooler's own errors that proxies, terminations and the settings of `chaos` cause.
const ENDS: [&str; 10] = [
    "server conn crashed?",
    "query_wait_timeout",
    "query_timeout",
    "query timeout",
    "idle transaction timeout",
    "transaction timeout",
    "client_login_timeout",
    "server login failed",
    "server login has been failing",
    // From PostgreSQL, when the half close of its connection or a cancel request ends a COPY within a message.
    "terminating connection because protocol synchronization was lost",
];
