//! Rules about what catalogs hold: secrets, functions, slots, tables, indexes.
//!
//! Always true: a database into which the role may not look makes the rule not evaluated for it; equal findings of databases stay apart, because
//! each has names of its own. No secret is known here, only its kind.
//! Not here: sessions.

use std::collections::BTreeMap;

use crate::facts::{HbaLine, Inside, Observed, Postgres, Relation};
use crate::findings::{Severity, Verdicts};

use super::transactions::who;
use super::{Case, at, counted, judged, listed, percent, plain, size, time};

/// Passes each database's answer to `judge`; a database that gave none is told as lacking.
fn each<T>(
    server: &Postgres,
    verdicts: &mut Verdicts<'_>,
    part: fn(&Inside) -> &Observed<Vec<T>>,
    mut judge: impl FnMut(&str, &[T], &mut Verdicts<'_>),
) {
    if server.inside.is_empty() {
        verdicts.needs("a database that the role may connect to", None);
    }
    let mut closed = BTreeMap::<&str, Vec<&str>>::new();
    for (name, inside) in &server.inside {
        match inside.as_ref().and_then(|inside| part(inside).as_ref()) {
            Ok(rows) => judge(name, rows, verdicts),
            Err(why) => closed.entry(why).or_default().push(name),
        }
    }
    for (why, names) in closed {
        verdicts.needs(format!("database {}: {why}", listed(names)), None);
    }
}

fn names(relations: &[&Relation]) -> String {
    listed(relations.iter().map(|relation| &relation.name))
}

/// D27: pg_repack has left something, or waits.
pub(super) fn repack(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let activity = server.activity.as_ref().map_err(String::clone)?;
        let is_repack = |application: &Option<String>| application.as_deref() == Some("pg_repack");
        let is_running_in = |name: &str| {
            activity.iter().any(|one| is_repack(&one.application) && one.database.as_deref() == Some(name))
        };
        each(
            server,
            verdicts,
            |inside| &inside.repack,
            |name, left, verdicts| {
                let place = at(&format!("database {name}"));
                if is_running_in(name) {
                    let is_long = |age: Option<f64>| age.unwrap_or(0.0) > LONG_TRANSACTION;
                    let beside = activity.iter().filter(|one| {
                        one.database.as_deref() == Some(name)
                            && !is_repack(&one.application)
                            && !one.is_own
                            && is_long(one.transaction_age)
                    });
                    let beside: Vec<String> = beside.map(who).collect();
                    if !beside.is_empty() {
                        verdicts.fires(
                            &place,
                            "",
                            format!(
                                "pg_repack runs, and transactions older than {}: {}",
                                time(LONG_TRANSACTION),
                                listed(beside)
                            ),
                        );
                    }
                } else if !left.is_empty() {
                    let left: Vec<&Relation> = left.iter().collect();
                    verdicts.fires(&place, "", format!("no pg_repack runs, and it left {}", names(&left)));
                }
            },
        );
        Ok(())
    });
}

/// D28: weak passwords or lines of pg_hba.conf.
pub(super) fn weak_secrets(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        match &server.secrets {
            Ok(secrets) => {
                let weak: Vec<&str> =
                    secrets.iter().filter(|secret| secret.kind == "md5").map(|secret| &*secret.name).collect();
                if !weak.is_empty() {
                    verdicts.fires(
                        &at("server"),
                        "",
                        format!("md5 secrets, of {}: {}", counted(weak.len(), "role"), listed(weak)),
                    );
                }
            }
            Err(why) => verdicts.needs(why.clone(), None),
        }
        let lines = server.hba.as_ref().map_err(String::clone)?;
        for (kind, evidence) in [
            (&["trust", "password", "md5"][..], "take logins by a weak method"),
            (&[], "take passwords and rows without TLS"),
        ] {
            let is_weak = |line: &&HbaLine| {
                let is_open = if kind.is_empty() {
                    line.kind == "host" && line.method != "reject"
                } else {
                    kind.contains(&&*line.method)
                };
                is_open && line.kind.starts_with("host") && is_remote(line.address.as_deref())
            };
            let weak: Vec<String> = lines
                .iter()
                .filter(is_weak)
                .map(|line| {
                    format!(
                        "{} ({} {} {})",
                        line.line,
                        line.kind,
                        line.address.as_deref().unwrap_or("all"),
                        line.method
                    )
                })
                .collect();
            if !weak.is_empty() {
                verdicts.fires(
                    &at("server"),
                    "pg_hba.conf",
                    format!("lines of pg_hba.conf {evidence}: {}", listed(weak)),
                );
            }
        }
        Ok(())
    });
}

fn is_remote(address: Option<&str>) -> bool {
    !address.is_some_and(|address| address.starts_with("127.") || matches!(address, "::1" | "localhost" | "samehost"))
}

/// D29: the lookup of secrets is not safe, or not everywhere.
pub(super) fn lookup(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let mut places = BTreeMap::<String, Vec<&str>>::new();
        each(
            server,
            verdicts,
            |inside| &inside.lookups,
            |database, functions, verdicts| {
                for one in functions {
                    let faults = [
                        (!one.is_definer, "it is not SECURITY DEFINER"),
                        (!one.has_search_path, "it has no search_path of its own"),
                        (one.is_public, "everybody may execute it"),
                        (one.owner_may_login, "its owner may log in"),
                        (!one.has_filter, "its text does not leave out superusers, replication and bypassrls roles"),
                    ];
                    let faults: Vec<&str> =
                        faults.into_iter().filter(|(is_so, _)| *is_so).map(|(_, fault)| fault).collect();
                    if !faults.is_empty() {
                        verdicts.fires(
                            &at(&format!("database {database}")),
                            &*one.name,
                            format!("{} (owner {}): {}", one.name, one.owner, faults.join("; ")),
                        );
                    }
                }
            },
        );
        for (database, inside) in &server.inside {
            for one in inside.as_ref().ok().and_then(|inside| inside.lookups.as_ref().ok()).into_iter().flatten() {
                places.entry(one.name.clone()).or_default().push(database);
            }
        }
        let Some((name, has)) = places.iter().max_by_key(|(_, places)| places.len()) else { return Ok(()) };
        let open =
            server.inside.iter().filter(|(_, inside)| inside.as_ref().is_ok_and(|inside| inside.lookups.is_ok()));
        let lacks: Vec<&str> =
            open.map(|(database, _)| &**database).filter(|database| !has.contains(database)).collect();
        // A pooler with auth_dbname asks in one database only.
        if !lacks.is_empty() && !asks_in_one_database(case) {
            let evidence = format!("{name} is in {}, and not in {}", listed(has), listed(lacks));
            verdicts.fires_as(Severity::Warning, &at("server"), &**name, evidence);
        }
        Ok(())
    });
}

fn asks_in_one_database(case: &Case<'_>) -> bool {
    let config = case.seen.pooler.as_ref().ok().and_then(|pooler| pooler.config.as_ref().ok());
    config.and_then(|config| config.get("auth_dbname")).is_some_and(|name| !name.is_empty())
}

/// D32: a replication slot keeps the log.
pub(super) fn slots(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let slots = server.slots.as_ref().map_err(String::clone)?;
        let disk = case.seen.host.as_ref().ok().and_then(|host| host.disk);
        let most = disk.map_or(RETAINED_MAX, |disk| disk * RETAINED_SHARE_MAX);
        for slot in slots {
            let name = &*slot.slot_name;
            if slot.wal_status.as_deref() == Some("lost") {
                verdicts.fires_as(
                    Severity::Error,
                    &at("server"),
                    name,
                    "wal_status = lost: its subscriber cannot go on",
                );
            } else if let Some(retained) = slot.retained.filter(|retained| !slot.active && *retained > most) {
                let of = disk.map_or(String::new(), |disk| format!(", {} of the disk", percent(retained / disk)));
                verdicts.fires(&at("server"), name, format!("inactive, and keeps {} of log{of}", size(retained)));
            }
        }
        let idle: Vec<&str> = slots.iter().filter(|slot| !slot.active).map(|slot| &*slot.slot_name).collect();
        if !idle.is_empty() && server.number("max_slot_wal_keep_size")? < 0.0 {
            let evidence = format!("max_slot_wal_keep_size = -1, and these are inactive: {}", listed(idle));
            verdicts.fires(&at("server"), "max_slot_wal_keep_size", evidence);
        }
        Ok(())
    });
}

/// D33: tables wait for vacuum.
pub(super) fn dead_rows(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        each(
            case.server()?,
            verdicts,
            |inside| &inside.unvacuumed,
            |name, tables, verdicts| {
                let (never, dead): (Vec<&Relation>, Vec<&Relation>) =
                    tables.iter().partition(|table| table.reason.as_deref() == Some("never"));
                let place = at(&format!("database {name}"));
                if let Some(worst) = dead.first() {
                    let (number, limit) = (worst.number.unwrap_or(0.0), worst.limit.unwrap_or(0.0));
                    let evidence = format!(
                        "{} has {} dead rows, and vacuum begins at {}; in all {}: {}",
                        worst.name,
                        plain(number),
                        plain(limit),
                        counted(dead.len(), "table"),
                        names(&dead)
                    );
                    verdicts.fires(&place, "", evidence);
                }
                if !never.is_empty() {
                    verdicts.fires(&place, "", format!("never vacuumed: {}", names(&never)));
                }
            },
        );
        Ok(())
    });
}

/// D35: unused or invalid indexes.
pub(super) fn indexes(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let uptime = server.about.as_ref().map_or(0.0, |about| about.uptime);
        let databases = server.databases.as_ref().map_err(String::clone)?;
        let age = |name: &str| databases.iter().find(|one| one.name == name).and_then(|one| one.since_reset);
        each(
            server,
            verdicts,
            |inside| &inside.indexes,
            |name, indexes, verdicts| {
                let (invalid, unused): (Vec<&Relation>, Vec<&Relation>) =
                    indexes.iter().partition(|index| index.reason.as_deref() == Some("invalid"));
                let place = at(&format!("database {name}"));
                if !invalid.is_empty() {
                    verdicts.fires_as(Severity::Warning, &place, "", format!("invalid: {}", names(&invalid)));
                }
                // Without a reset the statistics are as old as the database, of which the time since the start is a lower bound.
                let age = age(name).unwrap_or(uptime);
                if unused.is_empty() {
                } else if age < STATISTICS_AGE_MIN {
                    let known = format!(
                        "{} of {name} not scanned in {}: {}",
                        counted(unused.len(), "index"),
                        time(age),
                        names(&unused)
                    );
                    verdicts.needs("statistics of at least a day", Some(known));
                } else {
                    let bytes = unused.iter().filter_map(|index| index.number).sum();
                    verdicts.fires(
                        &place,
                        "",
                        format!(
                            "{} ({}) never scanned in {}: {}",
                            counted(unused.len(), "index"),
                            size(bytes),
                            time(age),
                            names(&unused)
                        ),
                    );
                }
            },
        );
        Ok(())
    });
}

/// D36: tables without a primary key.
pub(super) fn unkeyed(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        each(
            case.server()?,
            verdicts,
            |inside| &inside.unkeyed,
            |name, tables, verdicts| {
                if !tables.is_empty() {
                    let tables: Vec<&Relation> = tables.iter().collect();
                    verdicts.fires(
                        &at(&format!("database {name}")),
                        "",
                        format!("{}: {}", counted(tables.len(), "table"), names(&tables)),
                    );
                }
            },
        );
        Ok(())
    });
}

/// Seconds.
const LONG_TRANSACTION: f64 = 60.0;
/// Bytes, where the size of the disk is not known.
const RETAINED_MAX: f64 = 1024.0 * 1024.0 * 1024.0;
const RETAINED_SHARE_MAX: f64 = 0.1;
/// Seconds.
const STATISTICS_AGE_MIN: f64 = 86_400.0;
