//! Why a login at a server did not come about.
//!
//! Always true: one failure is shared by all who suffer from it; cloning it copies no text.
//! Not here: what is done about it (`dial`).

use std::sync::Arc;

/// A failed attempt to log in at a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Whose fault it is, which decides who has to pay.
    pub kind: FailureKind,
    /// What a client or an operator reads: the server's own message, or words such as `connect failed`.
    pub text: Arc<str>,
    /// The server's code, if it gave one.
    pub sqlstate: Option<[u8; 5]>,
    /// The server's own detail.
    pub detail: Option<Arc<str>>,
    /// The server's own hint.
    pub hint: Option<Arc<str>>,
    /// Whose login it was, and where: `host 10.0.0.1, port 5432, user "u"`.
    pub whose: Option<Arc<str>>,
}

/// What kind of failure it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureKind {
    /// No conversation came about or it broke off: refused connection, unknown name, TLS, time-out. Who waits stays.
    Unreachable,
    /// The server answered the login with an ErrorResponse, or cannot be logged in at with the secrets at hand. Who
    /// waits is told.
    Refused,
    /// Waiting helps: the server is starting up or shutting down (SQLSTATE 57P03), or is being asked for another secret. Who
    /// waits stays.
    Passing,
}

impl Failure {
    /// A failure without words from the server.
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

    /// The server cannot be logged in at with the secrets at hand.
    #[must_use]
    pub fn unproved(text: impl Into<Arc<str>>) -> Self {
        Self { kind: FailureKind::Refused, ..Self::unreachable(text) }
    }

    /// What the server said in its ErrorResponse during login. SQLSTATE 57P03 (`cannot_connect_now` in PostgreSQL's
    /// `errcodes.txt`) means that waiting helps, anything else that it does not.
    #[must_use]
    pub fn refused(sqlstate: [u8; 5], text: impl Into<Arc<str>>) -> Self {
        let kind = if &sqlstate == b"57P03" { FailureKind::Passing } else { FailureKind::Refused };
        Self { kind, sqlstate: Some(sqlstate), ..Self::unreachable(text) }
    }

    /// In one line, for an operator: what has happened, whose login it was, and what else is known.
    #[must_use]
    pub fn words(&self) -> String {
        let more = [&self.whose, &self.detail].into_iter().flatten().map(|more| &**more).collect::<Vec<_>>().join(": ");
        match more.as_str() {
            "" => self.text.to_string(),
            more => format!("{} ({more})", self.text),
        }
    }

    /// The same with what else the server said.
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
