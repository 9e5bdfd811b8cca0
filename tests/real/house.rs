//! What all tests of this binary share: the programs and one PostgreSQL.

use std::sync::Arc;

use tests::authority::Authority;
use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::runner::skip;

/// A PostgreSQL with TLS.
pub(crate) struct Secure {
    pub(crate) postgres: Postgres,
    /// The authority that signed the server's certificate for `localhost`, and whose client certificates the server accepts.
    pub(crate) authority: Authority,
}

/// The programs and the clusters.
pub(crate) struct House {
    // Dropped before the place, whose directory contains it.
    pub(crate) postgres: Postgres,
    /// Another cluster, which uses TLS.
    pub(crate) secure: Secure,
    pub(crate) place: Arc<Place>,
}

impl House {
    /// Finds the programs and starts PostgreSQL.
    pub(crate) fn open() -> Result<Self, String> {
        let place = Arc::new(Place::find()?);
        // Both start here and not when the first test needs them: a child dies with the thread that started it.
        let (postgres, secure, authority) =
            (Postgres::start(&place), Postgres::start(&place), Authority::new("the authority of PostgreSQL"));
        secure.speak_tls(&place, &authority.signs("postgres", &["localhost"]), &authority);
        Ok(Self { postgres, secure: Secure { postgres: secure, authority }, place })
    }

    /// Returns whether PostgreSQL is older than the version that introduced a feature; if so, prints that the test is
    /// skipped.
    pub(crate) fn is_older_than(&self, major: u32, what: &str) -> bool {
        let own = self.postgres.major();
        if own < major {
            skip(&format!("{what} came with PostgreSQL {major}, and this is {own}"));
        }
        own < major
    }

    /// The line of `[databases]` for a database of the PostgreSQL with TLS.
    pub(crate) fn secure_line(&self, name: &str, database: &str) -> String {
        format!("{name} = host=localhost port={} dbname={database}", self.secure.postgres.port())
    }

    /// The line of `[databases]` for a database of the cluster under its own name.
    pub(crate) fn line(&self, database: &str) -> String {
        self.line_as(database, database)
    }

    /// The line of `[databases]` for a database of the cluster under another name.
    pub(crate) fn line_as(&self, name: &str, database: &str) -> String {
        format!("{name} = host=127.0.0.1 port={} dbname={database}", self.postgres.port())
    }

    /// Starts a pooler.
    pub(crate) fn start(&self, ini: &Ini) -> Pooler {
        Pooler::start(&self.place, ini)
    }

    /// Creates a database and starts a pooler for it, with more settings.
    pub(crate) fn pooler(&self, database: &str, settings: &[&str]) -> Pooler {
        self.start(&self.ini(database, settings))
    }

    /// Creates a database, and returns a configuration for it with more settings.
    pub(crate) fn ini(&self, database: &str, settings: &[&str]) -> Ini {
        self.postgres.database(database);
        settings.iter().fold(Ini::new(&self.line(database)), |ini, setting| ini.set(setting))
    }
}
