//! The drivers, and the program of each.

use tests::comparison::Program;
use tests::kit::Language::{Go, Java, Node, Python, Rust};

/// All drivers, in the order in which they are run.
pub(crate) const DRIVERS: [Program; 9] = [
    Program { name: "psycopg", language: Python, file: "psycopg_cases.py" },
    Program { name: "asyncpg", language: Python, file: "asyncpg_cases.py" },
    Program { name: "psycopg2", language: Python, file: "psycopg2_cases.py" },
    Program { name: "pgx", language: Go, file: "pgx" },
    Program { name: "pq", language: Go, file: "pq" },
    Program { name: "pgjdbc", language: Java, file: "Cases" },
    Program { name: "node-postgres", language: Node, file: "cases.js" },
    Program { name: "tokio-postgres", language: Rust, file: "tokio-postgres" },
    Program { name: "sqlx", language: Rust, file: "sqlx" },
];
