//! Checks of settings that are valid each by itself: what this version must refuse, what it ignores, what contradicts.
//!
//! Always true: Trunkline does not start if the configuration asks for protection that this version cannot give.
//! Not here: mistakes within one line (`load`).

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::server::reset::ResetQuery;

use crate::catalog::{AuthType, CATALOG, Settings, State, syslog_facility};
use crate::database::Database;
use crate::load::Found;
use crate::mistake::{Place, Warning, Wrong};

/// Adds a mistake for each combination that must not be served.
pub(crate) fn refuse(settings: &Settings, path: &str, places: &BTreeMap<Arc<str>, Place>, found: &mut Found) {
    for (name, place) in places.iter().filter(|(name, _)| settings.is_of_replicas(name)) {
        let wrong = Wrong::new(format!(
            "database name \"{name}\" is reserved for the reads of the database without the suffix"
        ));
        found.mistakes.push(wrong.at(place.clone()));
    }
    if settings.listen_port_replica != 0 && settings.listen_port_replica == settings.listen_port {
        let wrong = Wrong::new(format!("listen_port_replica is also listen_port: {}", settings.listen_port));
        found.mistakes.push(wrong.at(found.place_of("listen_port_replica", path)));
    }
    if settings.auth_type == AuthType::Hba && settings.auth_hba_file.is_none() {
        let wrong = Wrong::new("auth_type = hba needs auth_hba_file: without rules nobody is let in");
        let place = found.place_of("auth_type", path);
        found.mistakes.push(wrong.at(place));
    }
}

/// Adds a warning for each setting that will not have the effect that it seems to have.
pub(crate) fn warn(settings: &Settings, path: &str, places: &BTreeMap<Arc<str>, Place>, found: &mut Found) {
    warn_of_idle_settings(settings, path, found);
    if syslog_facility(&settings.syslog_facility).is_none() {
        let text = format!("syslog_facility = {} is none that is known, daemon is taken", settings.syslog_facility);
        found.warn("syslog_facility", path, text);
    }
    if settings.auth_type == AuthType::Ldap && settings.auth_ldap_options.is_none() {
        found.warn("auth_type", path, "auth_type = ldap needs auth_ldap_options: no client can log in".to_owned());
    }
    if let Some(doubt) = settings.server_reset_query.as_ref().and_then(ResetQuery::doubt) {
        found.warn("server_reset_query", path, format!("server_reset_query: {doubt}"));
    }
    warn_of_peers(settings, found);
    warn_of_contradictions(settings, path, found);
    for database in settings.fallback.iter().chain(settings.databases.values()) {
        if let (Some(text), Some(place)) = (contradiction(settings, database), places.get(&database.name)) {
            found.warnings.push(Warning { place: place.clone(), text });
        }
    }
}

/// Warns of settings that are accepted and have no effect.
fn warn_of_idle_settings(settings: &Settings, path: &str, found: &mut Found) {
    let defaults = Settings::default();
    for entry in CATALOG {
        if entry.state == State::Moot && (entry.show)(settings) != (entry.show)(&defaults) {
            found.warn(entry.name, path, no_meaning(entry.name));
        }
    }
}

pub(crate) fn no_meaning(name: &str) -> String {
    format!("{name} is accepted but has no meaning here")
}

/// Warns of peers without a `peer_id`: this process forwards no cancel requests, and no peer finds it.
fn warn_of_peers(settings: &Settings, found: &mut Found) {
    let has_others = settings.peers.keys().any(|id| *id != settings.own_peer());
    if let Some(place) = found.peers_at.clone().filter(|_| has_others && settings.own_peer() == 0) {
        let text = "[peers] has no effect without peer_id".to_owned();
        found.warnings.push(Warning { place, text });
    }
}

fn warn_of_contradictions(settings: &Settings, path: &str, found: &mut Found) {
    let is_judged = settings.auth_type == AuthType::Ldap;
    if settings.auth_type.needs_secrets() && !is_judged && settings.auth_file.is_none() {
        let text = "auth_file is not set, and auth_type needs one: no client can log in".to_owned();
        found.warn("auth_type", path, text);
    }
    if let (Some(login), Some(connect)) = (settings.client_login_timeout, settings.server_connect_timeout)
        && login < connect
    {
        let text =
            "client_login_timeout is shorter than server_connect_timeout: clients give up before the server does";
        found.warn("client_login_timeout", path, text.to_owned());
    }
    if do_owners_answer(settings) {
        found.warn("auth_query", path, OWNERS_ANSWER.to_owned());
    }
    let (size, min) = (settings.default_pool_size, settings.min_pool_size);
    if size > 0 && min > size {
        let text =
            format!("min_pool_size ({min}) is larger than default_pool_size ({size}): a pool never holds that many");
        found.warn("min_pool_size", path, text);
    }
    let (reserve, max) = (reserve(settings, settings.reserve_pool_size), settings.max_db_connections);
    if max > 0 && size.saturating_add(reserve) > max {
        found.warn("max_db_connections", path, too_small("max_db_connections", max, size, reserve));
    }
}

/// A contradiction in the line of one database. Those in the settings for all databases are reported elsewhere.
fn contradiction(settings: &Settings, database: &Database) -> Option<String> {
    let size = database.pool_size.unwrap_or(settings.default_pool_size);
    let min = database.min_pool_size.unwrap_or(settings.min_pool_size);
    let is_size_own = database.pool_size.is_some() || database.min_pool_size.is_some();
    if is_size_own && size > 0 && min > size {
        return Some(format!("min_pool_size ({min}) is larger than pool_size ({size}): a pool never holds that many"));
    }
    if let Some(text) = holds_too_long(settings, database) {
        return Some(text);
    }
    let reserve = reserve(settings, database.reserve_pool_size.unwrap_or(settings.reserve_pool_size));
    let max = database.max_db_connections.unwrap_or(settings.max_db_connections);
    let is_sum_own =
        database.pool_size.is_some() || database.reserve_pool_size.is_some() || database.max_db_connections.is_some();
    if is_sum_own && max > 0 && size.saturating_add(reserve) > max {
        return Some(too_small("max_db_connections", max, size, reserve));
    }
    let query = database.auth_query.as_deref().unwrap_or(&settings.auth_query);
    let is_asked = database.auth_user.is_some() || settings.auth_user.is_some();
    let is_elsewhere = database.auth_dbname.is_some() || settings.auth_dbname.is_some();
    let is_question_own = database.auth_user.is_some() || database.auth_query.is_some();
    let is_new = is_question_own && is_asked && !is_elsewhere && !do_owners_answer(settings);
    (is_new && is_owners(query)).then(|| OWNERS_ANSWER.to_owned())
}

/// Clients that are held in a switchover wait for a server meanwhile.
fn holds_too_long(settings: &Settings, database: &Database) -> Option<String> {
    let cluster = settings.clusters.get(database.cluster_of_primary()?)?;
    let wait = database.query_wait_timeout.unwrap_or(settings.query_wait_timeout)?;
    (wait < cluster.hold_timeout).then(|| {
        let (wait, hold) = (wait.as_secs_f64(), cluster.hold_timeout.as_secs_f64());
        let name = &cluster.name;
        format!("query_wait_timeout ({wait} s) is shorter than hold_timeout of cluster {name} ({hold} s): in a switchover clients may be refused")
    })
}

fn do_owners_answer(settings: &Settings) -> bool {
    settings.auth_user.is_some() && settings.auth_dbname.is_none() && is_owners(&settings.auth_query)
}

/// Whether a query reads from something that the owner of a database can replace: a name without a schema or in
/// `public` that is not one of PostgreSQL's own tables. This does not parse SQL, but finds the usual queries.
fn is_owners(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    let mut words = sql.split(|end: char| end.is_whitespace() || matches!(end, '(' | ')' | ',' | ';'));
    std::iter::from_fn(|| words.by_ref().find(|word| matches!(*word, "from" | "join")).and_then(|_| words.next()))
        .any(|name| name.starts_with("public.") || !name.is_empty() && !name.contains('.') && !name.starts_with("pg_"))
}

const OWNERS_ANSWER: &str = "auth_query is put in the client's own database, since auth_dbname is not set: whoever owns \
                             that database can replace what the question reads, which then runs with the rights of auth_user";

/// The size of a pool's reserve, which is 0 without `reserve_pool_timeout`.
fn reserve(settings: &Settings, size: u32) -> u32 {
    settings.reserve_pool_timeout.map_or(0, |_| size)
}

fn too_small(name: &str, max: u32, size: u32, reserve: u32) -> String {
    format!("{name} ({max}) is smaller than one pool may become ({size} servers and {reserve} in reserve)")
}
