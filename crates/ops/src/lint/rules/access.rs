//! Rules about who may connect, and how that is proven.
//!
//! Always true: secrets are known by their kind and number only.
//! Not here: limits (`limits`).

use crate::facts::{HbaAdmission, KeyKind, Offered, PoolTerms, Pooler, Program};
use crate::findings::{Groups, Severity, Verdicts};

use super::{Case, plain};

/// L18: clients of other machines without a real password.
pub(super) fn open_listener(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    if !pooler.is_open() {
        return;
    }
    let listening = pooler.shown("listen_addr");
    let kind = pooler.text("auth_type");
    if ["trust", "any", "plain"].contains(&kind) {
        return verdicts.fires(
            &pooler.at("auth_type"),
            "auth_type",
            format!("{}, {listening}", pooler.shown("auth_type")),
        );
    }
    if kind == "hba" {
        let tls = pooler.client_tls();
        let is_open = |line: &HbaAdmission| match line.method {
            "trust" => line.clients.are_used(tls),
            "password" | "ldap" => line.clients.clear && tls != Offered::Always,
            _ => false,
        };
        return hba_lines(pooler, verdicts, is_open, |line| {
            let clear = if line.method == "trust" { "" } else { ", without TLS" };
            format!("method {} for clients of other machines{clear}, {listening}", line.method)
        });
    }
    let mut groups = Groups::default();
    for pool in pooler.pools.iter().filter(|pool| pool.auth.as_deref().is_some_and(|auth| OPEN.contains(&auth))) {
        let auth = pool.auth.as_deref().unwrap_or_default();
        groups.add(Severity::Error, &pool.at, &pool.name(), format!("authentication {auth}, {listening}"));
    }
    groups.tell(verdicts);
}

/// Tells the lines of the HBA file of which something is true.
fn hba_lines(
    pooler: &Pooler,
    verdicts: &mut Verdicts<'_>,
    is_wrong: impl Fn(&HbaAdmission) -> bool,
    evidence: impl Fn(&HbaAdmission) -> String,
) {
    let Some(file) = &pooler.hba else {
        return verdicts.needs("auth_hba_file, which cannot be read here", None);
    };
    let mut groups = Groups::default();
    for line in file.lines.iter().filter(|line| is_wrong(line)) {
        groups.add(verdicts.severity(), &line.at, "auth_hba_file", evidence(line));
    }
    groups.tell(verdicts);
    if file.unread > 0 {
        verdicts.needs(format!("fewer lines in auth_hba_file: the last {} are not judged", file.unread), None);
    }
}

/// L19: passwords and rows that anybody on the way can read.
pub(super) fn clear_text(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let is_required =
        |name: &str| ["require", "verify-ca", "verify-full", "verify_ca", "verify_full"].contains(&pooler.text(name));
    let client_tls = pooler.client_tls();
    if !pooler.is_open() || pooler.setting("client_tls_sslmode").is_none() || client_tls == Offered::Always {
        // Nobody of another machine connects without TLS.
    } else if pooler.text("auth_type") == "hba" {
        hba_lines(
            pooler,
            verdicts,
            |line| line.clients.clear,
            |line| {
                let mode = pooler.shown("client_tls_sslmode");
                format!("method {} for clients of other machines without TLS: {mode}, and no hostssl", line.method)
            },
        );
    } else {
        let evidence = format!("{}, {}", pooler.shown("client_tls_sslmode"), pooler.shown("listen_addr"));
        verdicts.fires(&pooler.at("client_tls_sslmode"), "client_tls_sslmode", evidence);
    }
    let remote = pooler.lent().find(|pool| pool.is_remote);
    if let Some(pool) =
        remote.filter(|_| pooler.setting("server_tls_sslmode").is_some() && !is_required("server_tls_sslmode"))
    {
        let evidence = format!("{}, and {} is on {}", pooler.shown("server_tls_sslmode"), pool.name(), pool.server);
        verdicts.fires(&pooler.at("server_tls_sslmode"), "server_tls_sslmode", evidence);
    }
}

/// L20: secrets whose hash is as good as the password.
pub(super) fn md5(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    match pooler.text("auth_type") {
        "md5" => verdicts.fires(&pooler.at("auth_type"), "auth_type", pooler.shown("auth_type")),
        "hba" => hba_lines(pooler, verdicts, |line| line.method == "md5", |_| "method md5".to_owned()),
        _ => {}
    }
    let mut groups = Groups::default();
    for pool in pooler.pools.iter().filter(|pool| pool.auth.as_deref() == Some("md5")) {
        groups.add(Severity::Warning, &pool.at, &pool.name(), "authentication md5".to_owned());
    }
    groups.tell(verdicts);
    if let Some(file) = pooler.auth_file.as_ref().filter(|file| file.secrets.md5 > 0) {
        let evidence = format!("{} has {} md5 secrets", file.path, file.secrets.md5);
        verdicts.fires(&pooler.at("auth_file"), "auth_file", evidence);
    }
}

/// L21: SCRAM secrets with which the pooler cannot log in to a server.
pub(super) fn scram_passthrough(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    if pooler.program == Program::Odyssey || pooler.text("auth_file").is_empty() {
        return;
    }
    let Some(file) = &pooler.auth_file else {
        return verdicts.needs("auth_file, which cannot be read here", None);
    };
    if file.secrets.scram == 0 {
        return;
    }
    let secrets = format!("{} has {} SCRAM secrets", file.path, file.secrets.scram);
    let kind = pooler.text("auth_type");
    if !["scram-sha-256", "md5", "hba"].contains(&kind) {
        let evidence = format!(
            "{secrets}, and with {} no client proves that it has the password: the pooler cannot log in to a server",
            pooler.shown("auth_type")
        );
        return verdicts.fires(&pooler.at("auth_type"), "auth_type", evidence);
    }
    let mut groups = Groups::default();
    let is_forced = |pool: &&PoolTerms| {
        pool.is_forced_without_password && pool.user.as_ref().is_some_and(|user| file.scram_users.contains(user))
    };
    for pool in pooler.lent().filter(is_forced) {
        let evidence = format!(
            "user= without password=, and {} has a SCRAM secret for it: the pooler can log in with that only while the same user logs in to the pooler",
            file.path
        );
        groups.add(Severity::Error, &pool.at, &pool.name(), evidence);
    }
    let mut servers: Vec<&str> = pooler.lent().map(|pool| &*pool.server).collect();
    servers.sort_unstable();
    servers.dedup();
    if servers.len() > 1 && groups.is_empty() {
        let known =
            format!("{secrets} for {} servers, each of which must have the same salt and iterations", servers.len());
        return verdicts.needs("the secrets of the servers", Some(known));
    }
    if groups.is_empty() {
        verdicts.needs("the secrets of the server", Some(secrets));
    }
    groups.tell(verdicts);
}

/// L22: clients that want a channel binding which they cannot get.
pub(super) fn channel_binding(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let has_tls = !["", "disable"].contains(&pooler.text("client_tls_sslmode"));
    let offers = has_tls
        && match pooler.program {
            Program::Trunkline => ["scram-sha-256", "hba"].contains(&pooler.text("auth_type")),
            Program::Odyssey => pooler.lent().all(|pool| pool.auth.as_deref() == Some("scram-sha-256")),
            Program::Pgbouncer => false,
        };
    match case.given.channel_binding.as_deref() {
        Some("require") if !offers => {
            let evidence = match pooler.program {
                Program::Odyssey => {
                    format!(
                        "clients require it; {}, or a rule without scram-sha-256",
                        pooler.shown("client_tls_sslmode")
                    )
                }
                Program::Trunkline => {
                    format!("clients require it; {}, {}", pooler.shown("auth_type"), pooler.shown("client_tls_sslmode"))
                }
                Program::Pgbouncer => "clients require it, and PgBouncer does not offer SCRAM-SHA-256-PLUS".to_owned(),
            };
            verdicts.fires(&pooler.at("auth_type"), "auth_type", evidence);
        }
        Some(_) => {}
        None => verdicts.needs("--channel-binding", None),
    }
}

/// L23: handshakes that take more processor time than they have to.
pub(super) fn rsa_key(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    if ["", "disable"].contains(&pooler.text("client_tls_sslmode")) {
        return;
    }
    match (pooler.certificate, case.given.connect_rate) {
        (Some(KeyKind::Rsa), Some(rate)) if rate * RSA_SECONDS > RSA_SHARE_MAX => {
            let evidence = format!(
                "an RSA key, and {} handshakes a second x 1.68 ms = {} % of a processor",
                plain(rate),
                plain((rate * RSA_SECONDS * 100.0).round())
            );
            verdicts.fires(&pooler.at("client_tls_cert_file"), "client_tls_cert_file", evidence);
        }
        (Some(KeyKind::Rsa), None) => verdicts.needs("--connect-rate", Some("the key is RSA".to_owned())),
        (None, _) => verdicts.needs("the certificate (client_tls_cert_file), which cannot be read here", None),
        _ => {}
    }
}

/// L24: a lookup of secrets that may read all of them.
pub(super) fn auth_query(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let user = pooler.text("auth_user");
    if user.is_empty() || pooler.program == Program::Odyssey {
        return;
    }
    let query = pooler.text("auth_query");
    let at = pooler.at("auth_query");
    let is_default = pooler.setting("auth_query").is_none_or(|setting| setting.is_default);
    let lower = query.to_ascii_lowercase();
    if let Some(table) = ["pg_shadow", "pg_authid"].into_iter().find(|table| lower.contains(table)) {
        let whose = if is_default { "the default auth_query" } else { "auth_query" };
        verdicts.fires(&at, "auth_query", format!("{whose} reads {table}: auth_user {user} may read every secret"));
    }
    if !query.contains("$1") {
        verdicts.fires(&at, "auth_query", "auth_query has no $1: it does not ask for one user");
    }
}

/// L25: a console without a password.
pub(super) fn open_console(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    if !pooler.is_open() {
        return;
    }
    let listening = pooler.shown("listen_addr");
    let has_users = ["admin_users", "stats_users"].into_iter().find(|name| !pooler.text(name).is_empty());
    if let Some(name) = has_users.filter(|_| ["trust", "any"].contains(&pooler.text("auth_type"))) {
        let evidence = format!("{}, {}, {listening}", pooler.shown("auth_type"), pooler.shown(name));
        verdicts.fires(&pooler.at(name), name, evidence);
    }
    if let Some(name) = has_users.filter(|_| pooler.text("auth_type") == "hba") {
        let tls = pooler.client_tls();
        let is_free = |line: &HbaAdmission| line.method == "trust" && line.console.are_used(tls);
        hba_lines(pooler, verdicts, is_free, |_| {
            format!("method trust for the console, {}, {listening}", pooler.shown(name))
        });
    }
    let mut groups = Groups::default();
    let is_free = |pool: &&PoolTerms| pool.is_console && pool.auth.as_deref() == Some("none");
    for pool in pooler.pools.iter().filter(is_free) {
        groups.add(Severity::Error, &pool.at, &pool.name(), format!("authentication none for a console, {listening}"));
    }
    groups.tell(verdicts);
}

/// L26: secrets that everybody on the machine can read.
pub(super) fn readable_secrets(_: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    if pooler.text("auth_file").is_empty() {
        return;
    }
    match &pooler.auth_file {
        Some(file) if file.mode & 0o004 != 0 => {
            let evidence = format!("{} has the permissions {:04o}", file.path, file.mode);
            verdicts.fires(&pooler.at("auth_file"), "auth_file", evidence);
        }
        Some(_) => {}
        None => verdicts.needs("auth_file, which cannot be read here", None),
    }
}

/// What proves nothing, or sends the password in clear text.
const OPEN: [&str; 2] = ["none", "clear_text"];
/// What an RSA handshake costs.
const RSA_SECONDS: f64 = 0.001_68;
/// The share of a processor that is worth a note.
const RSA_SHARE_MAX: f64 = 0.1;
