//! The startup parameter `replication`: which kind of replication connection a client asks for.
//!
//! Always true: PostgreSQL's values of the parameter are accepted, and no others.
//! Not here: what is sent on such a connection (`exchange`), and who gets one (crate `pool`).

use crate::spelling;

/// The kind of replication connection that a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replication {
    /// The WAL of the whole cluster, byte by byte (`replication=true`).
    Physical,
    /// The changes of one database (`replication=database`); such a connection also answers queries.
    Logical,
}

impl Replication {
    /// Reads the value of the startup parameter; `Ok(None)` is an ordinary session. The words are those of PostgreSQL
    /// (`ProcessStartupPacket` in `backend_startup.c`).
    ///
    /// # Errors
    /// The value is none of these words.
    pub fn parse(value: &str) -> Result<Option<Self>, UnknownWord> {
        match (value, spelling::boolean(value)) {
            ("database", _) => Ok(Some(Self::Logical)),
            (_, Some(is_physical)) => Ok(is_physical.then_some(Self::Physical)),
            (_, None) => Err(UnknownWord),
        }
    }

    /// The value sent to a server.
    #[must_use]
    pub fn parameter(self) -> &'static str {
        match self {
            Self::Physical => "yes",
            Self::Logical => "database",
        }
    }

    /// The word for the log and the console.
    #[must_use]
    pub fn word(of: Option<Self>) -> &'static str {
        match of {
            None => "none",
            Some(Self::Physical) => "physical",
            Some(Self::Logical) => "logical",
        }
    }
}

/// The value of the startup parameter is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownWord;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_postgresql() {
        for on in ["true", "TRUE", "t", "tru", "yes", "y", "on", "On", "1"] {
            assert_eq!(Replication::parse(on), Ok(Some(Replication::Physical)), "{on}");
        }
        for off in ["false", "f", "NO", "n", "off", "of", "0"] {
            assert_eq!(Replication::parse(off), Ok(None), "{off}");
        }
        assert_eq!(Replication::parse("database"), Ok(Some(Replication::Logical)));
        for unknown in ["", "o", "Database", "2", "truest", "onn", "01", " on"] {
            assert_eq!(Replication::parse(unknown), Err(UnknownWord), "{unknown}");
        }
    }

    #[test]
    fn what_a_server_is_told_reads_back() {
        for kind in [Replication::Physical, Replication::Logical] {
            assert_eq!(Replication::parse(kind.parameter()), Ok(Some(kind)));
        }
    }
}
