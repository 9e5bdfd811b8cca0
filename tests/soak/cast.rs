//! Who plays: the databases, the users, and which client belongs where.
//!
//! Always true: each of the pooler's databases is one of PostgreSQL's with the same name, so that PostgreSQL's own list of
//! its processes tells whose server each is.
//! Not here: what they ask (`ops`), which of them a configuration knows (`era`).

use super::session::Who;

/// Most clients share this one, in the pool mode `transaction`.
pub(crate) const TRANSACTIONS: &str = "soak";
pub(crate) const SESSIONS: &str = "soak_sessions";
pub(crate) const STATEMENTS: &str = "soak_statements";
/// Two users share its servers.
pub(crate) const SHARED: &str = "soak_shared";
/// Comes and goes with the configuration.
pub(crate) const GUEST: &str = "soak_guest";
/// The same, in the pool mode `session`.
pub(crate) const GUEST_SESSIONS: &str = "soak_guest_sessions";

/// All databases.
pub(crate) const DATABASES: [&str; 6] = [TRANSACTIONS, SESSIONS, STATEMENTS, SHARED, GUEST, GUEST_SESSIONS];
/// Those that come and go.
pub(crate) const GUESTS: [&str; 2] = [GUEST, GUEST_SESSIONS];
/// A user that comes and goes.
pub(crate) const MEMBER: &str = "soak_member";
/// All users, but for the console's.
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

/// The client with this number: most share one pool; a few are in each of the others.
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
