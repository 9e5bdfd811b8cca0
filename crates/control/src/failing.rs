//! Who fails: the part of the diagnosis about failed logins, lost servers, refused and disconnected clients, and queries
//! that fail.
//!
//! Always true: what has failed within the last ten seconds is told, the most frequent first; the failures of clients that
//! follow from failed logins at servers, or from lost servers, are told with these.
//! Not here: what counts as a failure (`worker::failing`), clients that wait (`diagnosis`).

use std::cmp::Reverse;

use measure::{Failing, KEPT, Recent, WINDOW};
use worker::letters::FailingQueries;

use crate::console::show::View;
use crate::diagnosis::Cause;

/// Returns the cause of the most failures, and a sentence about each of the first few kinds; `None` if nothing fails.
pub(crate) fn of(view: &View<'_>) -> Option<(Cause, String)> {
    let recent: Vec<&Recent> = view.snapshots.iter().flat_map(|snapshot| &snapshot.failures).collect();
    let servers: Vec<&Recent> =
        recent.iter().copied().filter(|row| is_about_servers(row) && is_present(view, row)).collect();
    let mut told: Vec<Told> = servers.iter().map(|row| about_servers(row, &recent)).collect();
    let is_told = |row: &&&Recent| !servers.iter().any(|servers| follows(row, servers));
    let clients = recent.iter().filter(|row| !is_about_servers(row) && row.count > 0).filter(is_told);
    told.extend(clients.map(|row| about_clients(row)));
    let queries = view.snapshots.iter().flat_map(|snapshot| &snapshot.failing_queries);
    told.extend(queries.map(about_queries));
    // Who caused the failures is told before whom they hurt.
    told.sort_by_key(|told| (told.cause != Cause::ServerLogins, Reverse(told.count)));
    let cause = told.first()?.cause;
    let more = told.len().saturating_sub(SENTENCES_MAX);
    let mut text: Vec<String> = told.into_iter().take(SENTENCES_MAX).map(|told| told.text).collect();
    if more > 0 {
        text.push(format!("There are {more} further kinds of failures (SHOW EVENTS)."));
    }
    Some((cause, text.join(" ")))
}

struct Told {
    cause: Cause,
    count: u64,
    text: String,
}

fn is_about_servers(row: &Recent) -> bool {
    matches!(row.kind, Failing::ServerLogin | Failing::Server)
}

/// Whether it has failed just now, or is a login that will be tried again later and has not succeeded since.
fn is_present(view: &View<'_>, row: &Recent) -> bool {
    let fails_still = || {
        let pools = view.snapshots.iter().flat_map(|snapshot| &snapshot.pools);
        let mut its = pools.filter(|pool| pool.database == row.database && pool.user == row.user);
        its.any(|pool| pool.measures.as_ref().is_some_and(|measures| measures.failure.is_some()))
    };
    row.count > 0 || row.kind == Failing::ServerLogin && row.ago < KEPT && fails_still()
}

/// Whether the failure of these clients follows from that of these servers.
fn follows(clients: &Recent, servers: &Recent) -> bool {
    let reasons: &[&str] = match servers.kind {
        Failing::ServerLogin => &["ServerSaid", "ServerLoginFailing", "LoginTimeoutServerDown", "ReplicationRefused"],
        _ => &["ServerCrashed"],
    };
    clients.database == servers.database && reasons.contains(&clients.reason)
}

fn about_servers(row: &Recent, all: &[&Recent]) -> Told {
    let clients: u32 = all.iter().filter(|clients| follows(clients, row)).map(|clients| clients.count).sum();
    let hurt = match clients {
        0 => String::new(),
        1 => ", and 1 client failed because of that".to_owned(),
        count => format!(", and {count} clients failed because of that"),
    };
    let (pool, text, within) = (pool_of(row), &row.text, WINDOW.as_secs());
    let (cause, text) = match row.kind {
        Failing::ServerLogin => {
            (Cause::ServerLogins, format!("Logins of the pooler at the servers of {pool} fail: {text}{hurt}."))
        }
        _ => {
            let count = counted(row.count, "server");
            let were = if row.count == 1 { "was" } else { "were" };
            (Cause::ServersLost, format!("{count} of {pool} {were} lost in the last {within} s: {text}{hurt}."))
        }
    };
    Told { cause, count: u64::from(row.count) + u64::from(clients), text }
}

fn about_clients(row: &Recent) -> Told {
    let (within, text) = (WINDOW.as_secs(), &row.text);
    let of = |word| if row.database.is_empty() { String::new() } else { format!(" {word} {}", pool_of(row)) };
    let (cause, who) = match (row.kind, row.count) {
        (Failing::ClientLogin, 1) => (Cause::ClientsRefused, format!("1 login of a client{} failed", of("at"))),
        (Failing::ClientLogin, count) => {
            (Cause::ClientsRefused, format!("{count} logins of clients{} failed", of("at")))
        }
        (_, 1) => (Cause::ClientsFailed, format!("1 client{} was disconnected", of("of"))),
        (_, count) => (Cause::ClientsFailed, format!("{count} clients{} were disconnected", of("of"))),
    };
    Told { cause, count: row.count.into(), text: format!("{who} in the last {within} s: {text}.") }
}

fn about_queries(FailingQueries { database, excess }: &FailingQueries) -> Told {
    let (errors, within) = (excess.errors, WINDOW.as_secs());
    let (share, usual) = (excess.share * 100.0, excess.usual * 100.0);
    let state = String::from_utf8_lossy(&excess.state);
    let more = if usual >= 1.0 { format!(", usually {usual:.0} %") } else { String::new() };
    let text = format!(
        "{share:.0} % of the queries of {database} fail{more} ({errors} in the last {within} s, the last with SQLSTATE {state})."
    );
    Told { cause: Cause::QueriesFail, count: errors, text }
}

fn pool_of(row: &Recent) -> String {
    match (row.database.is_empty(), row.user.is_empty()) {
        (true, _) => "several pools".to_owned(),
        (false, true) => row.database.to_string(),
        (false, false) => format!("{}/{}", row.database, row.user),
    }
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Sentences about kinds of failures; the others are only counted.
const SENTENCES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use measure::Excess;
    use worker::letters::{PoolRow, Snapshot};

    use super::*;
    use crate::console::show::tests::{pool_row, settings, with_view};
    use crate::diagnosis;

    fn row(kind: Failing, reason: &'static str, count: u32, text: &str) -> Recent {
        let (database, user, text) = ("d".into(), "u".into(), text.into());
        Recent {
            kind,
            reason,
            database,
            user,
            text,
            count,
            count_kept: count,
            ago: Duration::from_secs(if count == 0 { 30 } else { 1 }),
        }
    }

    fn told_of(snapshot: Snapshot) -> diagnosis::Diagnosis {
        with_view(&settings("[databases]\nd =\n[pgbouncer]\nauth_type=any\n"), &[snapshot], diagnosis::of)
    }

    fn told(failures: Vec<Recent>) -> diagnosis::Diagnosis {
        told_of(Snapshot { failures, pools: vec![pool_row("d", "u")], ..Snapshot::default() })
    }

    #[test]
    fn whoever_fails_is_told_although_nobody_waits() {
        for (failure, cause, text) in [
            (
                row(Failing::ServerLogin, "refused", 2, "password authentication failed"),
                Cause::ServerLogins,
                "Logins of the pooler at the servers of d/u fail: password authentication failed.",
            ),
            (
                row(Failing::Server, "lost", 3, "server conn crashed?"),
                Cause::ServersLost,
                "3 servers of d/u were lost in the last 10 s: server conn crashed?.",
            ),
            (
                Recent {
                    database: "".into(),
                    user: "".into(),
                    ..row(Failing::ClientLogin, "ClientsFull", 1, "no more connections allowed (max_client_conn)")
                },
                Cause::ClientsRefused,
                "1 login of a client failed in the last 10 s: no more connections allowed (max_client_conn).",
            ),
            (
                row(Failing::Client, "QueryTimeout", 9, "query timeout"),
                Cause::ClientsFailed,
                "9 clients of d/u were disconnected in the last 10 s: query timeout.",
            ),
        ] {
            let told = told(vec![failure]);
            assert_eq!((told.cause, told.text.as_str()), (cause, text));
        }
        assert_eq!(told(vec![row(Failing::Client, "QueryTimeout", 0, "query timeout")]).cause, Cause::Well, "long ago");
    }

    #[test]
    fn clients_that_fail_because_of_their_servers_are_told_with_these() {
        let servers = row(Failing::ServerLogin, "refused", 1, "role \"u\" does not exist");
        let clients = row(Failing::ClientLogin, "ServerLoginFailing", 700, "server login has been failing");
        let other = row(Failing::ClientLogin, "PasswordWrong", 7, "password authentication failed");
        let told = told(vec![clients, other, servers]);
        assert_eq!(told.cause, Cause::ServerLogins);
        let text = "Logins of the pooler at the servers of d/u fail: role \"u\" does not exist, and 700 clients failed because of that. 7 logins of clients at d/u failed in the last 10 s: password authentication failed.";
        assert_eq!(told.text, text);
    }

    #[test]
    fn a_login_that_is_tried_again_only_later_is_told_until_then_unless_one_has_succeeded() {
        let before = || vec![row(Failing::ServerLogin, "unreachable", 0, "connect failed")];
        assert_eq!(told(before()).cause, Cause::Well);
        let mut pool: PoolRow = pool_row("d", "u");
        pool.measures.iter_mut().for_each(|measures| measures.failure = Some("connect failed".into()));
        let snapshot = Snapshot { failures: before(), pools: vec![pool], ..Snapshot::default() };
        assert_eq!(told_of(snapshot).cause, Cause::ServerLogins);
    }

    #[test]
    fn queries_that_fail_more_often_than_usually_are_told_with_their_share() {
        let excess = |usual| Excess { errors: 120, share: 0.6, usual, state: *b"42P01" };
        let told = |usual| {
            let failing_queries = vec![FailingQueries { database: "d".into(), excess: excess(usual) }];
            told_of(Snapshot { failing_queries, ..Snapshot::default() })
        };
        assert_eq!(told(0.0).cause, Cause::QueriesFail);
        let text = "60 % of the queries of d fail (120 in the last 10 s, the last with SQLSTATE 42P01).";
        assert_eq!(told(0.0).text, text);
        assert!(told(0.2).text.starts_with("60 % of the queries of d fail, usually 20 % ("));
    }

    #[test]
    fn no_more_than_a_few_kinds_are_told() {
        let reasons = ["A", "B", "C", "D", "E"];
        let told = told(reasons.map(|reason| row(Failing::Client, reason, 1, reason)).into());
        assert!(told.text.ends_with("There are 2 further kinds of failures (SHOW EVENTS)."), "{}", told.text);
    }
}
