//! The databases, the users, and which client uses which.
//!
//! Always true: each of the pooler's databases has the name of a PostgreSQL database, so that `pg_stat_activity` shows whose
//! each backend is.
//! Not here: what clients do (`ops`), which databases a configuration has (`era`).

use super::session::Who;

/// Most clients use this one, in pool mode `transaction`.
pub(crate) const TRANSACTIONS: &str = "soak";
pub(crate) const SESSIONS: &str = "soak_sessions";
pub(crate) const STATEMENTS: &str = "soak_statements";
/// Two users share its servers.
pub(crate) const SHARED: &str = "soak_shared";
/// It is added and removed by reloads.
pub(crate) const GUEST: &str = "soak_guest";
/// The same, in pool mode `session`.
pub(crate) const GUEST_SESSIONS: &str = "soak_guest_sessions";

/// All databases.
pub(crate) const DATABASES: [&str; 6] = [TRANSACTIONS, SESSIONS, STATEMENTS, SHARED, GUEST, GUEST_SESSIONS];
/// The databases that are added and removed.
pub(crate) const GUESTS: [&str; 2] = [GUEST, GUEST_SESSIONS];
/// A user that is added and removed.
pub(crate) const MEMBER: &str = "soak_member";
/// All users, except for those of the console.
pub(crate) const USERS: [&str; 3] = ["u", "v", MEMBER];

/// All pools.
pub(crate) const POOLS: [(&str, &str); 9] = [
    (TRANSACTIONS, "u"),
    (TRANSACTIONS, MEMBER),
    (SESSIONS, "u"),
    (STATEMENTS, "u"),
    (SHARED, "u"),
    (SHARED, "v"),
    (GUEST, "u"),
    (GUEST, "v"),
    (GUEST_SESSIONS, "u"),
];

/// The user and database of the client with this number: most share one pool; a few use each of the others.
pub(crate) fn who(id: usize) -> Who {
    let (database, user) = match id % 20 {
        0 | 10 => (SESSIONS, "u"),
        1 => (STATEMENTS, "u"),
        2 => (SHARED, "u"),
        3 => (SHARED, "v"),
        4 => (TRANSACTIONS, MEMBER),
        5 => (GUEST, "u"),
        6 => (GUEST, "v"),
        7 => (GUEST_SESSIONS, "u"),
        _ => (TRANSACTIONS, "u"),
    };
    Who { id, user, database }
}

/// When a server is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Session,
    Transaction,
    Statement,
}

/// `pool_mode` of a database.
pub(crate) fn mode(database: &str) -> Mode {
    match database {
        SESSIONS | GUEST_SESSIONS => Mode::Session,
        STATEMENTS => Mode::Statement,
        _ => Mode::Transaction,
    }
}
