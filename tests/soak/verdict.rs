//! Which errors have a reason in this soak.
//!
//! Always true: an error that would mean that the pooler misunderstood a peer is in none of these lists.
//! Not here: whether the moment was right for one, and what only some configurations explain (`session`).

use tests::message::Complaint;

/// `query_canceled`.
pub(crate) const CANCELLED: &str = "57014";

/// Whether it is PostgreSQL that ends a connection here.
pub(crate) fn is_end_by_server(complaint: &Complaint) -> bool {
    complaint.text.starts_with("terminating connection")
}

/// Whether a session may fail a request with this and go on.
pub(crate) fn may_fail(complaint: &Complaint) -> bool {
    match complaint.code.as_str() {
        CANCELLED => complaint.text == "canceling statement due to user request",
        // A transaction that the client's own last connection left behind still holds its row.
        "55P03" => complaint.text == "canceling statement due to lock timeout",
        // A server that finds its connection half closed in the middle of a COPY says so, and ends.
        "08006" => complaint.text == "unexpected EOF on client connection with an open transaction",
        _ => false,
    }
}

/// Whether a connection may end with this.
pub(crate) fn may_end(complaint: &Complaint) -> bool {
    match complaint.code.as_str() {
        "57P01" => complaint.text == "terminating connection due to administrator command",
        "08P01" => ENDS.iter().any(|start| complaint.text.starts_with(start)),
        // A question behind a slow proxy, or on a busy machine.
        "08006" => complaint.text == "the session's state could not be read from its server",
        _ => false,
    }
}

/// Whether the pooler says this to those who wait.
pub(crate) fn is_notice_of_the_pooler(complaint: &Complaint) -> bool {
    complaint.text == "No server connection available in postgres backend, client being queued"
}

/// How the pooler's own errors begin that proxies, terminations and the settings of `chaos` cause.
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
    // PostgreSQL, when its half-closed connection or a cancel request ends a COPY within a message.
    "terminating connection because protocol synchronization was lost",
];
