//! What an answer, or its absence, says about a write.
//!
//! Always true: only an ERROR, after which the session goes on, says that a write was refused. After a FATAL, or when
//! the connection ends, the write may have been done.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use super::ledger::Outcome;

/// Why something failed: an SQLSTATE, or one word where there is none, such as `closed`.
pub(crate) type Code = String;

/// What is known about an error of the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The server answered with an error.
    Server {
        /// The SQLSTATE.
        sqlstate: String,
        /// Whether the session goes on (`ERROR`).
        goes_on: bool,
        /// The text, safe for a terminal.
        message: String,
    },
    /// Something else ended the connection, or an attempt to connect.
    Broken(&'static str),
}

impl Failure {
    /// The SQLSTATE, or a word.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Server { sqlstate, .. } => sqlstate.clone(),
            Self::Broken(word) => (*word).to_owned(),
        }
    }

    /// The same, with the server's text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Server { sqlstate, message, .. } => format!("{sqlstate}: {message}"),
            Self::Broken(word) => (*word).to_owned(),
        }
    }

    /// What it says about a write that was sent before.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Server { goes_on: false, .. } | Self::Broken(_) => Outcome::Unknown,
            Self::Server { sqlstate, .. } if says_nothing(sqlstate) => Outcome::Unknown,
            Self::Server { sqlstate, .. } if sqlstate == UNIQUE_VIOLATION => Outcome::Doubled,
            Self::Server { .. } => Outcome::Refused,
        }
    }
}

/// Whether the write may have been done all the same: a pooler or the server has lost its peer, is shut down, or says so.
fn says_nothing(sqlstate: &str) -> bool {
    sqlstate.starts_with("08") || ["40003", "57P01", "57P02", "57P03"].contains(&sqlstate)
}

impl From<&tokio_postgres::Error> for Failure {
    fn from(error: &tokio_postgres::Error) -> Self {
        if let Some(answer) = error.as_db_error() {
            let sqlstate = answer.code().code();
            let is_code = sqlstate.len() == 5 && sqlstate.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let sqlstate = if is_code { sqlstate } else { "?????" };
            return Self::Server {
                sqlstate: sqlstate.to_owned(),
                goes_on: answer.severity() == "ERROR",
                message: conninfo::clean(answer.message()),
            };
        }
        if error.is_closed() {
            return Self::Broken("closed");
        }
        let source = std::error::Error::source(error);
        match source.and_then(|source| source.downcast_ref::<std::io::Error>()) {
            Some(error) => Self::from(error),
            None if source.is_some_and(|source| source.to_string().contains("password missing")) => {
                Self::Broken("password")
            }
            None => Self::Broken("protocol"),
        }
    }
}

impl From<&std::io::Error> for Failure {
    fn from(error: &std::io::Error) -> Self {
        Self::Broken(match error.kind() {
            ErrorKind::ConnectionRefused => "refused",
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => "reset",
            ErrorKind::UnexpectedEof => "closed",
            ErrorKind::TimedOut => "timeout",
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "unreachable",
            ErrorKind::NotFound => "no-socket",
            ErrorKind::InvalidData => "tls",
            _ => "io",
        })
    }
}

/// How often something failed for which reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Codes(pub(crate) BTreeMap<Code, u64>);

impl Codes {
    /// Counts a failure.
    pub(crate) fn count(&mut self, code: Code) {
        // A server may invent codes.
        let code = if self.0.len() < CODES_MAX || self.0.contains_key(&code) { code } else { "other".to_owned() };
        *self.0.entry(code).or_default() += 1;
    }

    /// All of them.
    pub(crate) fn sum(&self) -> u64 {
        self.0.values().sum()
    }
}

/// Most different reasons that are kept apart.
const CODES_MAX: usize = 64;
/// The row is there already.
const UNIQUE_VIOLATION: &str = "23505";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_after_which_the_session_goes_on_refuses_a_write() {
        let failure = |sqlstate: &str, goes_on| Failure::Server {
            sqlstate: sqlstate.to_owned(),
            goes_on,
            message: "no".to_owned(),
        };
        let outcome = |sqlstate: &str, goes_on| failure(sqlstate, goes_on).outcome();
        assert_eq!(
            (failure("25006", true).code(), failure("25006", true).text()),
            ("25006".into(), "25006: no".into())
        );
        assert_eq!(outcome("25006", true), Outcome::Refused);
        assert_eq!(outcome("23505", true), Outcome::Doubled);
        for sqlstate in ["08007", "08006", "08P01", "57P01", "57P02", "40003"] {
            assert_eq!(outcome(sqlstate, true), Outcome::Unknown, "{sqlstate}");
        }
        assert_eq!(outcome("25006", false), Outcome::Unknown, "FATAL");
        assert_eq!(Failure::Broken("closed").outcome(), Outcome::Unknown);
    }

    #[test]
    fn a_server_that_invents_codes_takes_no_more_room() {
        let mut codes = Codes::default();
        (0..1000).for_each(|number| codes.count(format!("{number:05}")));
        assert_eq!((codes.0.len(), codes.sum(), codes.0["other"]), (CODES_MAX + 1, 1000, 1000 - CODES_MAX as u64));
    }

    #[test]
    fn what_has_no_sqlstate_has_a_word() {
        let code = |kind: ErrorKind| Failure::from(&std::io::Error::from(kind)).code();
        assert_eq!(code(ErrorKind::ConnectionRefused), "refused");
        assert_eq!(code(ErrorKind::ConnectionReset), "reset");
        assert_eq!(code(ErrorKind::UnexpectedEof), "closed");
    }
}
