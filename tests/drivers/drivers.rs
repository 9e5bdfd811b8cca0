//! The drivers, and the program of each.

use tests::comparison::Compared;
use tests::kit::Language::{self, Go, Java, Node, Python, Rust};

/// A driver of the matrix.
#[derive(Debug)]
pub(crate) struct Driver {
    /// As its own people call it.
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// The program's name in the folder of its language.
    pub(crate) program: &'static str,
}

impl Compared for Driver {
    fn name(&self) -> &'static str {
        self.name
    }

    fn language(&self) -> Language {
        self.language
    }

    fn program(&self) -> &'static str {
        self.program
    }
}

/// All of them, in the order in which they are run.
pub(crate) const DRIVERS: [Driver; 9] = [
    Driver { name: "psycopg", language: Python, program: "psycopg_cases.py" },
    Driver { name: "asyncpg", language: Python, program: "asyncpg_cases.py" },
    Driver { name: "psycopg2", language: Python, program: "psycopg2_cases.py" },
    Driver { name: "pgx", language: Go, program: "pgx" },
    Driver { name: "pq", language: Go, program: "pq" },
    Driver { name: "pgjdbc", language: Java, program: "Cases" },
    Driver { name: "node-postgres", language: Node, program: "cases.js" },
    Driver { name: "tokio-postgres", language: Rust, program: "tokio-postgres" },
    Driver { name: "sqlx", language: Rust, program: "sqlx" },
];
