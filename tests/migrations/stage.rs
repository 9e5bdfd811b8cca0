//! The place of the replicas: a new database, directly or through a pooler of its own.
//!
//! Always true: queries made here go to PostgreSQL directly.
//! Not here: what is expected (`trial`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::Postgres;
use tests::program::{run, without_preferences};

/// One throw-away PostgreSQL.
pub(crate) struct Scene {
    // Dropped before the place, whose directory it lives in.
    postgres: Postgres,
    place: Arc<Place>,
    databases: AtomicU32,
}

/// A column of the matrix.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// The size of the pool; None without a pooler.
    servers: Option<u32>,
}

/// A new database, and the pooler in front of it.
pub(crate) struct Site<'a> {
    scene: &'a Scene,
    database: String,
    pub(crate) pooler: Option<Pooler>,
    /// For files of the replicas.
    pub(crate) directory: PathBuf,
}

impl Scene {
    /// Starts PostgreSQL.
    pub(crate) fn set(place: &Arc<Place>) -> Self {
        Self { postgres: Postgres::start(place), place: place.clone(), databases: AtomicU32::new(0) }
    }

    /// Creates a database, and starts the stage's pooler with additional settings.
    pub(crate) fn site(&self, stage: &Stage, settings: &[String]) -> Site<'_> {
        let database = format!("migrated{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.postgres.database(&database);
        let pooler = stage.servers.map(|servers| {
            let line = format!("{database} = host=127.0.0.1 port={}", self.postgres.port());
            let ini = Ini::new(&line).set("pool_mode = transaction").set(&format!("default_pool_size = {servers}"));
            Pooler::start(&self.place, &settings.iter().fold(ini, |ini, line| ini.set(line)))
        });
        if pooler.is_none() {
            // PostgreSQL finishes the statement of a client that has died, with its locks, unless this is set. The pooler
            // cancels the statement itself, so its servers run without it.
            let look = "client_connection_check_interval = '100ms'";
            self.postgres.query(&format!("alter database {database} set {look}"));
        }
        Site { scene: self, database, pooler, directory: self.place.directory() }
    }
}

impl Site<'_> {
    /// The environment of a replica.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let port = self.pooler.as_ref().map_or(self.scene.postgres.port(), Pooler::port);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        vec![
            ("MIGRATIONS_PORT", port.to_string()),
            ("MIGRATIONS_DATABASE", self.database.clone()),
            ("MIGRATIONS_FOLDER", folder.display().to_string()),
        ]
    }

    /// The rows of a query, one per line, with fields separated by `|`; or the error.
    pub(crate) fn ask(&self, sql: &str) -> Vec<String> {
        let answer = self.scene.postgres.client(&self.database).query(sql);
        let fields = |row: &Vec<Option<String>>| -> Vec<String> { row.iter().flatten().cloned().collect() };
        let rows = answer.rows.iter().map(|row| fields(row).join("|"));
        rows.chain(answer.errors.iter().map(|error| format!("{error:?}"))).collect()
    }

    /// The replicas whose backend runs the long statement of the third step.
    pub(crate) fn at_work(&self) -> Vec<String> {
        self.ask(&format!(
            "select application_name from pg_stat_activity where datname = '{}' and wait_event = 'PgSleep'",
            self.database
        ))
    }

    /// Number of replicas that have a backend.
    pub(crate) fn arrived(&self) -> usize {
        let sql = format!(
            "select distinct application_name from pg_stat_activity where datname = '{}' and application_name ~ '^replica'",
            self.database
        );
        self.ask(&sql).len()
    }

    /// The advisory locks in this database, each with the replica whose backend holds it.
    pub(crate) fn locks(&self) -> Vec<String> {
        self.ask(&format!(
            "select application_name, pid, classid, objid from pg_locks join pg_stat_activity using (pid)
             where locktype = 'advisory' and granted and datname = '{}'",
            self.database
        ))
    }

    /// The schema as `pg_dump` writes it, except for the random key in its output.
    pub(crate) fn schema(&self) -> String {
        let mut dump: Command = self.scene.place.unleashed("pg_dump");
        without_preferences(&mut dump);
        dump.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.scene.postgres.port().to_string(),
            "-U",
            "postgres",
            "--schema-only",
        ]);
        let text = run(dump.arg(&self.database), DUMP_MAX).success();
        let is_drawn = |line: &&str| line.starts_with("\\restrict") || line.starts_with("\\unrestrict");
        text.lines().filter(|line| !is_drawn(line)).collect::<Vec<_>>().join("\n")
    }
}

/// The name of the stage without a pooler.
pub(crate) const DIRECT: &str = "direct";

/// All columns. Some tools need one connection for their lock and one for their work, so the pool has one server more than
/// there are replicas.
pub(crate) const STAGES: [Stage; 3] = [
    Stage { name: DIRECT, servers: None },
    Stage { name: "pool-of-8", servers: Some(8) },
    Stage { name: "pool-of-6", servers: Some(6) },
];

const DUMP_MAX: Duration = Duration::from_secs(60);
