//! The migration tools, the program of each, and what each leaves behind.
//!
//! Always true: what a killed replica leaves behind is the same on a direct connection; no pooler can repair it.
//! Not here: how a program is built (`tests::kit`), how it is run (`trial`).

use tests::comparison::Program;
use tests::kit::Language::{Go, Java, Python, Ruby};

/// A migration tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) program: Program,
    /// The first arguments of its command.
    pub(crate) arguments: &'static [&'static str],
    /// Whether one replica has to create the tool's own tables first: replicas that find a database without them can fail,
    /// directly as well, because two create them.
    pub(crate) is_prepared: bool,
    /// The query for the migrations that it has recorded as applied, in their order.
    pub(crate) history: &'static str,
    /// What a killed replica leaves behind in the tool's own tables.
    pub(crate) dirt: Dirt,
}

/// What has to be repaired by hand when a replica was killed at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Dirt {
    /// Nothing: another replica continues.
    None,
    /// All others fail until it is repaired. The query returns whether that is needed.
    OthersFail { sign: &'static str },
    /// All others wait until it is repaired. The query returns whether that is needed.
    OthersWait { sign: &'static str },
}

impl Dirt {
    /// The query that returns `t` when a replica has been killed.
    pub(crate) fn sign(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::OthersFail { sign } | Self::OthersWait { sign } => Some(sign),
        }
    }
}

impl AsRef<Program> for Tool {
    fn as_ref(&self) -> &Program {
        &self.program
    }
}

/// All tools, in the order in which they are run.
pub(crate) const TOOLS: [Tool; 8] = [
    // Records a migration as dirty before it runs it, in a separate transaction.
    Tool {
        program: Program { name: "golang-migrate/pq", language: Go, file: "migrate" },
        arguments: &["postgres"],
        is_prepared: false,
        history: "select version, dirty from schema_migrations",
        dirt: Dirt::OthersFail { sign: "select dirty from schema_migrations" },
    },
    Tool {
        program: Program { name: "golang-migrate/pgx", language: Go, file: "migrate" },
        arguments: &["pgx5"],
        is_prepared: false,
        history: "select version, dirty from schema_migrations",
        dirt: Dirt::OthersFail { sign: "select dirty from schema_migrations" },
    },
    // Holds its lock in a transaction on a separate connection, beside that of the migrations.
    Tool {
        program: Program { name: "flyway", language: Java, file: "FlywayReplica" },
        arguments: &["true"],
        is_prepared: false,
        history: FLYWAY,
        dirt: Dirt::None,
    },
    Tool {
        program: Program { name: "flyway/session-lock", language: Java, file: "FlywayReplica" },
        arguments: &["false"],
        is_prepared: false,
        history: FLYWAY,
        dirt: Dirt::None,
    },
    // Its lock is a row, which is committed before the work begins.
    Tool {
        program: Program { name: "liquibase", language: Java, file: "LiquibaseReplica" },
        arguments: &[],
        is_prepared: true,
        history: "select id, exectype from databasechangelog where author = 'trunkline' order by orderexecuted",
        dirt: Dirt::OthersWait { sign: "select locked from databasechangeloglock" },
    },
    Tool {
        program: Program { name: "alembic", language: Python, file: "alembic_replica.py" },
        arguments: &[],
        is_prepared: false,
        history: "select version_num from alembic_version",
        dirt: Dirt::None,
    },
    Tool {
        program: Program { name: "django", language: Python, file: "django_replica.py" },
        arguments: &[],
        is_prepared: false,
        history: "select app, name from django_migrations order by id",
        dirt: Dirt::None,
    },
    Tool {
        program: Program { name: "rails", language: Ruby(&["active_record", "pg"]), file: "rails_replica.rb" },
        arguments: &[],
        is_prepared: false,
        history: "select version from schema_migrations order by version",
        dirt: Dirt::None,
    },
];

const FLYWAY: &str = "select version, success from flyway_schema_history order by installed_rank";
