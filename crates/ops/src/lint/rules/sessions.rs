//! Rules about session state and what drivers send.
//!
//! Always true: Trunkline keeps session state with its client, so rules about losing it do not fire for it unless that is switched off.
//! Not here: prepared statements (`limits`).

use pool::Mode;

use crate::facts::{Pooler, Program};
use crate::findings::Verdicts;

use super::Case;

/// L09: migrations in transaction mode.
pub(super) fn migrations(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    let mut shared = pooler.lent().filter(|pool| pool.mode != Mode::Session && !is_kept(pooler, pool.is_state_kept));
    let Some(first) = shared.next() else { return };
    let named = pooler.users.iter().find(|user| is_migrating(case, &user.name));
    if let Some(user) = named {
        if user.mode != Mode::Session {
            let evidence = format!(
                "user {} has no pool_mode = session, and its transactions may run on different servers",
                user.name
            );
            verdicts.fires(&first.at, format!("user {}", user.name), evidence);
        }
        return;
    }
    let forced = pooler.lent().find(|pool| {
        let is_shared = pool.mode != Mode::Session && !is_kept(pooler, pool.is_state_kept);
        is_shared && pool.user.as_deref().is_some_and(|user| is_migrating(case, user))
    });
    if let Some(pool) = forced {
        let evidence = format!("{} is in transaction mode", pool.name());
        return verdicts.fires(&pool.at, pool.name(), evidence);
    }
    let has_bypass = pooler.lent().any(|pool| pool.mode == Mode::Session);
    match &case.given.migration_user {
        _ if has_bypass => {}
        Some(user) => {
            let evidence = format!("user {user} has no line in [users], and {} is in transaction mode", first.name());
            verdicts.fires(&first.at, format!("user {user}"), evidence);
        }
        None => verdicts.needs("--migration-user", Some(format!("{} is in transaction mode", first.name()))),
    }
}

/// L17: a startup parameter that a driver sends and the pooler refuses.
pub(super) fn startup_parameters(case: &Case<'_>, pooler: &Pooler, verdicts: &mut Verdicts<'_>) {
    // Odyssey ignores unknown parameters, Trunkline passes them on.
    if pooler.program != Program::Pgbouncer {
        return;
    }
    let ignored = pooler.text("ignore_startup_parameters");
    if ignored.split(',').any(|name| name.trim() == "extra_float_digits") {
        return;
    }
    let shown = "extra_float_digits is not in ignore_startup_parameters".to_owned();
    let Some(drivers) = &case.given.drivers else { return verdicts.needs("--drivers", Some(shown)) };
    let sender = drivers.split(',').map(str::trim).find(|driver| EXTRA_FLOAT_DIGITS.contains(driver));
    if let Some(driver) = sender {
        let evidence = format!("{shown}, and {driver} sends it: its logins are refused");
        verdicts.fires(&pooler.at("ignore_startup_parameters"), "ignore_startup_parameters", evidence);
    }
}

fn is_kept(pooler: &Pooler, is_state_kept: bool) -> bool {
    pooler.program == Program::Trunkline && is_state_kept
}

fn is_migrating(case: &Case<'_>, user: &str) -> bool {
    if let Some(given) = &case.given.migration_user {
        return user == given;
    }
    let user = user.to_ascii_lowercase();
    MIGRATING.iter().any(|part| user.contains(part))
}

/// Parts of the names of users who migrate schemas.
const MIGRATING: [&str; 7] = ["migrat", "owner", "ddl", "flyway", "liquibase", "alembic", "schema"];
/// Drivers that send it at login.
const EXTRA_FLOAT_DIGITS: [&str; 7] =
    ["jdbc", "pgjdbc", "pq", "lib/pq", "postgres_exporter", "pgbouncer_exporter", "exporter"];
