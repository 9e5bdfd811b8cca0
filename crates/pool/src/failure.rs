//! Why a login at a host failed.
//!
//! Always true: one failure is shared by all clients that it affects; cloning it copies no text.
//! Not here: when the next login begins (`dial`).

use std::sync::Arc;

/// A failed login at a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The kind of the failure, which decides whether waiting clients are refused.
    pub kind: FailureKind,
    /// The text for clients and operators: the server's message, or a text such as `connect failed`.
    pub text: Arc<str>,
    /// The server's SQLSTATE, if there was one.
    pub sqlstate: Option<[u8; 5]>,
    /// The DETAIL field of the server's error.
    pub detail: Option<Arc<str>>,
    /// The HINT field of the server's error.
    pub hint: Option<Arc<str>>,
    /// The address and the user of the login: `host 10.0.0.1, port 5432, user "u"`.
    pub whose: Option<Arc<str>>,
}

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureKind {
    /// The connection failed or broke off: connection refused, unknown host name, TLS, timeout. Waiting clients keep waiting.
    Unreachable,
    /// The server answered the login with an ErrorResponse, or a login is impossible with the known secrets. Waiting clients
    /// are refused.
    Refused,
    /// The cause will pass: the server is starting up or shutting down (SQLSTATE 57P03), another secret is being fetched, or no
    /// host is what the database asks for (`target_session_attrs`). Waiting clients keep waiting.
    Passing,
    /// The host could not be used, and the database has another one that was not tried: the next login begins at once.
    Elsewhere,
}

impl Failure {
    /// Returns a failure without a message from the server.
    #[must_use]
    pub fn unreachable(text: impl Into<Arc<str>>) -> Self {
        Self {
            kind: FailureKind::Unreachable,
            text: text.into(),
            sqlstate: None,
            detail: None,
            hint: None,
            whose: None,
        }
    }

    /// Returns the failure of a login that is impossible with the known secrets.
    #[must_use]
    pub fn unproved(text: impl Into<Arc<str>>) -> Self {
        Self { kind: FailureKind::Refused, ..Self::unreachable(text) }
    }

    /// Returns the failure for an ErrorResponse during login. SQLSTATE 57P03 (`cannot_connect_now` in PostgreSQL's
    /// `errcodes.txt`) passes by waiting; any other is a refusal.
    #[must_use]
    pub fn refused(sqlstate: [u8; 5], text: impl Into<Arc<str>>) -> Self {
        let kind = if &sqlstate == b"57P03" { FailureKind::Passing } else { FailureKind::Refused };
        Self { kind, sqlstate: Some(sqlstate), ..Self::unreachable(text) }
    }

    /// One line for an operator: the text, followed by `whose` and the detail in parentheses.
    #[must_use]
    pub fn words(&self) -> String {
        let more = [&self.whose, &self.detail].into_iter().flatten().map(|more| &**more).collect::<Vec<_>>().join(": ");
        match more.as_str() {
            "" => self.text.to_string(),
            more => format!("{} ({more})", self.text),
        }
    }

    /// Adds the detail and the hint of the server's error.
    #[must_use]
    pub fn explained(self, detail: Option<&str>, hint: Option<&str>) -> Self {
        Self { detail: detail.map(Arc::from), hint: hint.map(Arc::from), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_starting_up_does_not_refuse() {
        assert_eq!(Failure::refused(*b"57P03", "the database system is starting up").kind, FailureKind::Passing);
        assert_eq!(Failure::refused(*b"28P01", "password authentication failed").kind, FailureKind::Refused);
    }

    #[test]
    fn it_is_told_in_one_line() {
        let failure = Failure::unreachable("connect failed").explained(Some("Connection refused"), None);
        assert_eq!(failure.words(), "connect failed (Connection refused)");
        let failure = Failure { whose: Some("host db1, port 5432, user \"u\"".into()), ..failure };
        assert_eq!(failure.words(), "connect failed (host db1, port 5432, user \"u\": Connection refused)");
        assert_eq!(Failure::unreachable("connect timeout").words(), "connect timeout");
    }
}
