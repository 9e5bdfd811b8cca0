//! The servers of the programs: one PostgreSQL, and a pooler for each mode and kernel interface in front of it.
//!
//! Always true: PostgreSQL and the pooler authenticate a role in the same way, so a program does not notice which of them it
//! is connected to. The poolers of one kernel interface use a unix socket to PostgreSQL, those of the other use TLS.
//! Not here: what is run there (`trial`).

use std::path::PathBuf;
use std::sync::Arc;

use tests::authority::{Authority, Files};
use tests::place::Place;
use tests::pooler::{Ini, Pooler};
use tests::postgres::{Postgres, SECRET};

/// One throw-away PostgreSQL, and what its clients need.
pub(crate) struct Scene {
    // Dropped before the place, whose directory it lives in.
    pub(crate) postgres: Postgres,
    pub(crate) place: Arc<Place>,
    /// Certificates of the pooler and of PostgreSQL, and the authority that programs trust.
    pooler_files: Files,
    server_files: Files,
    ca: PathBuf,
    /// The certificate of clients that log in by one.
    client_files: Files,
}

/// A column of the matrix.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    mode: &'static str,
    io: &'static str,
}

impl Scene {
    /// Starts PostgreSQL and creates roles, rules and certificates.
    pub(crate) fn set(place: &Arc<Place>) -> Self {
        let postgres = Postgres::start(place);
        let authority = Authority::new("an authority");
        postgres.speak_tls(place, &authority.signs("postgres", &["localhost"]), &authority);
        postgres.query("create role by_tls login; create role by_cert login");
        postgres.rule(place, RULES);
        postgres.database(DATABASE);
        let by_cert = authority.signs("by_cert", &[]);
        Self {
            place: place.clone(),
            pooler_files: authority.signs("pooler", &["localhost"]).files(place),
            server_files: by_cert.files(place),
            ca: authority.file(place),
            client_files: by_cert.own_files(place),
            postgres,
        }
    }

    /// Starts the pooler of a stage, with additional settings; none for the direct stage.
    pub(crate) fn pooler(&self, stage: &Stage, settings: &[String]) -> Option<Pooler> {
        let ini = || settings.iter().fold(self.ini(stage), |ini, line| ini.set(line));
        (stage.name != DIRECT).then(|| Pooler::start(&self.place, &ini()))
    }

    /// The environment of a program.
    pub(crate) fn environment(&self, stage: &Stage, pooler: Option<&Pooler>) -> Vec<(&'static str, String)> {
        let shown = |path: &std::path::Path| path.display().to_string();
        let (port, sockets) = match pooler {
            Some(pooler) => (pooler.port(), shown(pooler.directory())),
            None => (self.postgres.port(), shown(self.postgres.socket_directory())),
        };
        vec![
            ("DRIVERS_PORT", port.to_string()),
            ("DRIVERS_SOCKETS", sockets),
            ("DRIVERS_DATABASE", DATABASE.to_string()),
            ("DRIVERS_SECRET", SECRET.to_string()),
            ("DRIVERS_MODE", stage.mode.to_string()),
            ("DRIVERS_CA", shown(&self.ca)),
            ("DRIVERS_CERT", shown(&self.client_files.certificate)),
            ("DRIVERS_KEY", shown(&self.client_files.key)),
        ]
    }

    fn ini(&self, stage: &Stage) -> Ini {
        let host = match stage.io {
            "io_uring" => self.postgres.socket_directory().display().to_string(),
            _ => "localhost".to_string(),
        };
        let rules = self.place.directory().join("hba");
        self.place.write(&rules, &format!("{RULES}{RULES_OF_THE_POOLER}"));
        // A session keeps its server, and some cases have two or three sessions at a time.
        let servers = if stage.mode == "session" { 5 } else { 2 };
        let line = format!("{DATABASE} = host={host} port={} dbname={DATABASE}", self.postgres.port());
        let files = [("client", &self.pooler_files), ("server", &self.server_files)];
        let ini = files.iter().fold(Ini::new(&line), |ini, (leg, files)| {
            ini.set(&format!("{leg}_tls_cert_file = {}", files.certificate.display()))
                .set(&format!("{leg}_tls_key_file = {}", files.key.display()))
        });
        ini.secret("by_md5", SECRET)
            .secret("by_scram", SECRET)
            .secret("by_tls", "")
            .secret("by_cert", "")
            .set("auth_type = hba")
            .set(&format!("auth_hba_file = {}", rules.display()))
            .set("client_tls_sslmode = allow")
            .set(&format!("client_tls_ca_file = {}", self.ca.display()))
            .set(&format!("pool_mode = {}", stage.mode))
            .set(&format!("io_backend = {}", stage.io))
            .set(&format!("default_pool_size = {servers}"))
            .set("workers = 2")
            .set("max_prepared_statements = 20")
            .set("ignore_startup_parameters = extra_float_digits")
    }
}

/// The name of the stage without a pooler.
pub(crate) const DIRECT: &str = "direct";

/// All columns.
pub(crate) const STAGES: [Stage; 5] = [
    Stage { name: DIRECT, mode: DIRECT, io: "" },
    Stage { name: "transaction/io_uring", mode: "transaction", io: "io_uring" },
    Stage { name: "transaction/epoll", mode: "transaction", io: "epoll" },
    Stage { name: "session/io_uring", mode: "session", io: "io_uring" },
    Stage { name: "session/epoll", mode: "session", io: "epoll" },
];

/// The database of the programs.
pub(crate) const DATABASE: &str = "drivers";

/// Roles that must use TLS, and those that log in by certificate; the same for PostgreSQL and the pooler.
const RULES: &str = "\
hostssl all by_tls all trust
host all by_tls all reject
hostssl all by_cert all cert
host all by_cert all reject
";

/// PostgreSQL has these rules already.
const RULES_OF_THE_POOLER: &str = "\
local all all trust
host all by_md5 all md5
host all by_scram all scram-sha-256
host all all all trust
";
