//! Facts of a file in PgBouncer's dialect: PgBouncer's and ours.
//!
//! Always true: the file is read by crate `config`, as a start would read it; what that finds wrong is reported with its line, and the rest of the
//! file is judged all the same. Secrets are counted by their kind and dropped.
//! Not here: what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use auth::{Secret, UserFile};
use config::{
    AuthType, CATALOG, Database, Host, LeaseFencing, Loaded, Mistake, Overrides, SessionAttrs, SessionState, Settings,
};

use super::{
    AuthFile, Facts, HbaFile, KeyKind, PoolTerms, Pooler, Program, SecretKinds, Setting, UserTerms, read, read_hba,
};

/// Reads a file that is named `path`, with all that it includes.
///
/// # Errors
/// The file itself cannot be read.
pub(crate) fn read_ini(
    path: &str,
    reader: &dyn Fn(&str) -> io::Result<Vec<u8>>,
    program: Option<Program>,
    facts: &mut Facts,
) -> Result<Vec<Arc<str>>, String> {
    let told = |mistakes: Vec<Mistake>| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let (loaded, mistakes) = config::inspect(path, reader, &Overrides::default()).map_err(told)?;
    facts.mistakes.extend(mistakes.into_iter().map(|mistake| {
        let advice = mistake.advice.as_ref().map_or(String::new(), |advice| format!("; {advice}"));
        (mistake.place, mistake.text + &advice)
    }));
    let is_named_ours = || reader(path).is_ok_and(|text| has_section(&text, b"[trunkline]"));
    let program = program.unwrap_or_else(|| match is_ours(&loaded) || is_named_ours() {
        true => Program::Trunkline,
        false => Program::Pgbouncer,
    });
    let mut pooler = pooler_of(path, &loaded.settings, &loaded, program);
    pooler.auth_file = loaded.settings.auth_file.as_deref().and_then(auth_file);
    pooler.hba = hba(&loaded.settings, &mut facts.mistakes);
    pooler.certificate = loaded.settings.client_tls_cert_file.as_deref().and_then(certificate);
    let mut files = loaded.files;
    files.extend(pooler.hba.as_ref().map(|hba| Arc::clone(&hba.path)));
    facts.poolers.push(pooler);
    Ok(files)
}

/// The facts of settings that were loaded; files that they name are not opened.
pub(crate) fn pooler_of(path: &str, settings: &Settings, loaded: &Loaded, program: Program) -> Pooler {
    let file: Arc<str> = path.into();
    let databases = settings.databases.values().chain(&settings.fallback);
    let pools = databases.map(|database| terms(settings, database, loaded)).collect();
    let limited = settings.users.values().any(|user| user.max_user_client_connections.is_some());
    Pooler {
        program,
        settings: shown(settings, loaded),
        pools,
        users: settings
            .users
            .values()
            .map(|user| UserTerms { name: Arc::clone(&user.name), mode: user.pool_mode.unwrap_or(settings.pool_mode) })
            .collect(),
        has_user_client_limit: limited || settings.max_user_client_connections > 0,
        has_fencing: settings
            .clusters
            .values()
            .any(|cluster| cluster.lease_fencing != LeaseFencing::Off && cluster.agents().next().is_some()),
        auth_file: None,
        hba: None,
        certificate: None,
        file,
    }
}

/// The settings that rules ask for, with their places. Secrets are not among them.
fn shown(settings: &Settings, loaded: &Loaded) -> BTreeMap<&'static str, Setting> {
    let is_wanted =
        |name: &str| CATALOG.iter().any(|entry| entry.name == name && !entry.is_secret && WANTED.contains(&name));
    let rows = settings.show().into_iter().filter(|row| is_wanted(row.key));
    rows.filter_map(|row| {
        let at = loaded.places.setting(row.key);
        Some((row.key, Setting { text: row.value?, is_default: at.line == 0, at }))
    })
    .collect()
}

fn terms(settings: &Settings, database: &Database, loaded: &Loaded) -> PoolTerms {
    let user = database.user.as_deref().unwrap_or_default();
    let limits = settings.pool_limits(database, user);
    let server = match &database.cluster {
        Some(cluster) => format!("cluster {cluster}"),
        None => format!("{}:{}", database.host_text.as_deref().unwrap_or("unix socket"), database.port),
    };
    let at = loaded.places.database(&database.name);
    PoolTerms {
        database: Arc::clone(&database.name),
        user: database.user.clone(),
        at,
        mode: limits.mode,
        size: limits.servers_max,
        min: limits.servers_min,
        reserve: if limits.reserve_after.is_some() { limits.reserve_max } else { 0 },
        reserve_written: limits.reserve_max,
        servers_max: settings.max_db_connections(database),
        clients_max: settings.max_db_client_connections(database),
        wait_max: limits.wait_max,
        server: server.into(),
        dbname: Arc::clone(&database.dbname),
        hosts: database.hosts.len(),
        is_remote: database.cluster.is_some() || database.hosts.iter().any(is_remote),
        is_clustered: database.cluster.is_some(),
        is_of_replicas: matches!(
            database.target_session_attrs,
            SessionAttrs::Standby | SessionAttrs::PreferStandby | SessionAttrs::ReadOnly
        ),
        lag_time_max: database.max_lag.time,
        has_lag_limit: !database.max_lag.is_none(),
        is_state_kept: database.session_state.unwrap_or(settings.session_state) == SessionState::Follow,
        auth: None,
        is_forced_without_password: database.user.is_some() && database.password.is_none(),
        is_console: false,
    }
}

fn is_remote(host: &Host) -> bool {
    match host {
        Host::Unix(_) | Host::Abstract(_) => false,
        Host::Ip(ip) => !ip.is_loopback(),
        Host::Name(name) => !name.eq_ignore_ascii_case("localhost"),
    }
}

/// Whether the file uses words that PgBouncer does not have.
fn is_ours(loaded: &Loaded) -> bool {
    let own = CATALOG.iter().skip_while(|entry| entry.name != FIRST_OF_OURS);
    let settings = &loaded.settings;
    let has_own_section = !settings.clusters.is_empty() || !settings.rate_limits.is_empty();
    has_own_section || own.into_iter().any(|entry| loaded.places.setting(entry.name).line > 0)
}

fn has_section(text: &[u8], section: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n').any(|line| line.trim_ascii_start().starts_with(section))
}

/// The rules by which clients log in; `None` if there are none, or if their file cannot be read.
fn hba(settings: &Settings, mistakes: &mut Vec<(config::Place, String)>) -> Option<HbaFile> {
    let path = settings.auth_hba_file.as_deref().filter(|_| settings.auth_type == AuthType::Hba)?;
    let users: Vec<&str> = settings.admin_users.iter().chain(&settings.stats_users).map(|user| &**user).collect();
    read_hba(path, settings.auth_ident_file.as_deref(), &users, mistakes).ok()
}

/// What a file of secrets looks like; `None` if it cannot be read.
fn auth_file(path: &str) -> Option<AuthFile> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let (users, _) = UserFile::parse(&read(path).ok()?);
    let mut secrets = SecretKinds::default();
    let mut scram_users = BTreeSet::new();
    for (user, secret) in users.iter() {
        match &**secret {
            Secret::Plain(_) => secrets.plain += 1,
            Secret::Md5(_) => secrets.md5 += 1,
            Secret::Scram(_) => {
                secrets.scram += 1;
                scram_users.insert(Arc::from(user));
            }
            Secret::None => {}
        }
    }
    Some(AuthFile { path: path.to_owned(), mode, secrets, scram_users })
}

/// The algorithm of the first certificate of a PEM file: its key is RSA if it has the identifier of RSA keys.
fn certificate(path: &str) -> Option<KeyKind> {
    use base64::Engine as _;
    let text = String::from_utf8(read(path).ok()?).ok()?;
    let body = text.split_once("-----BEGIN CERTIFICATE-----")?.1.split_once("-----END CERTIFICATE-----")?.0;
    let body: String = body.split_whitespace().collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).ok()?;
    let is_rsa = der.windows(RSA_ENCRYPTION.len()).any(|bytes| bytes == RSA_ENCRYPTION);
    Some(if is_rsa { KeyKind::Rsa } else { KeyKind::Other })
}

/// The first setting of the catalog that PgBouncer does not have.
const FIRST_OF_OURS: &str = "workers";
/// The object identifier 1.2.840.113549.1.1.1 (rsaEncryption) in DER. Signatures have other ones.
const RSA_ENCRYPTION: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// The settings that rules ask for.
pub(crate) const WANTED: [&str; 37] = [
    "admin_users",
    "auth_file",
    "auth_hba_file",
    "auth_query",
    "auth_type",
    "auth_user",
    "client_tls_cert_file",
    "client_tls_sslmode",
    "default_pool_size",
    "ignore_startup_parameters",
    "listen_addr",
    "listen_backlog",
    "max_client_conn",
    "max_db_client_connections",
    "max_db_connections",
    "max_prepared_statements",
    "max_user_client_connections",
    "max_user_connections",
    "min_pool_size",
    "pool_mode",
    "query_wait_timeout",
    "reserve_pool_size",
    "reserve_pool_timeout",
    "server_connect_timeout",
    "server_idle_timeout",
    "server_lifetime",
    "server_login_retry",
    "server_reset_query_always",
    "server_tls_sslmode",
    "session_state",
    "shutdown_timeout",
    "so_reuseport",
    "stats_users",
    "tcp_keepalive",
    "tcp_keepcnt",
    "tcp_keepidle",
    "tcp_user_timeout",
];
