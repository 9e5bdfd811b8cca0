//! A configuration of the pooler, and what follows from it for clients.
//!
//! Always true: the next one is drawn from the previous one, so that some things change and others do not.
//! Not here: when it was in force (`eras`), the file (`stage`).

use base::Random;

use super::cast::{self, DATABASES, GUESTS, MEMBER, Mode, SHARED, USERS};

/// The changing part of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Era {
    guests: [Guest; GUESTS.len()],
    /// `pool_size` of each database that has one of its own.
    sizes: [Option<usize>; DATABASES.len()],
    /// Which databases have a `connect_query`: when it changes, all clients need new servers.
    queries: [bool; DATABASES.len()],
    size: usize,
    reserve: usize,
    shared_servers: usize,
    /// How clients are authenticated.
    pub(crate) method: Method,
    /// How often each user's password has been changed.
    passwords: [u64; USERS.len()],
    has_member: bool,
    /// Settings on which no check depends.
    more: Vec<String>,
}

/// A database that is added and removed.
#[derive(Clone, Copy, Default, Debug)]
struct Guest {
    is_away: bool,
    /// Whether all its clients share the servers of one user.
    is_forced: bool,
    /// How often all its clients had to be disconnected, because it was removed or its servers got another user.
    tenure: u64,
}

/// `auth_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    Trust,
    Plain,
    Md5,
    Scram,
}

impl Era {
    /// The configuration during the last checks.
    pub(crate) fn fair() -> Self {
        Self {
            guests: [Guest::default(); GUESTS.len()],
            sizes: [None; DATABASES.len()],
            queries: [false; DATABASES.len()],
            size: POOL_SIZE,
            reserve: 0,
            shared_servers: SHARED_SERVERS,
            method: Method::Trust,
            passwords: [0; USERS.len()],
            has_member: true,
            more: Vec::new(),
        }
    }

    /// The fair configuration after this one.
    pub(crate) fn cleared(&self) -> Self {
        Self { guests: self.guests.map(|guest| guest.becomes(false, false)), ..Self::fair() }
    }

    /// A random next configuration.
    pub(crate) fn next(&self, random: &mut Random) -> Self {
        let mut next = Self { more: draw_settings(random), ..self.clone() };
        next.guests = next.guests.map(|guest| {
            let (moves, changes) = (random.below(3) == 0, random.below(5) == 0);
            guest.becomes(guest.is_away ^ moves, guest.is_forced ^ changes)
        });
        next.has_member ^= random.below(3) == 0;
        for version in &mut next.passwords {
            *version += u64::from(random.below(4) == 0);
        }
        if random.below(2) == 0 {
            next.method = *one_of(random, &[Method::Trust, Method::Plain, Method::Md5, Method::Scram]);
        }
        next.size = *one_of(random, &SIZES);
        next.reserve = *one_of(random, &[0, 0, RESERVE_MAX]);
        next.shared_servers = *one_of(random, &[2, SHARED_SERVERS, SHARED_SERVERS, 6]);
        for size in &mut next.sizes {
            *size = Some(*one_of(random, &SIZES)).filter(|_| random.below(4) == 0);
        }
        for query in &mut next.queries {
            *query ^= random.below(10) == 0;
        }
        next
    }

    /// Returns whether it has this database.
    pub(crate) fn has(&self, database: &str) -> bool {
        self.guest(database).is_none_or(|guest| !guest.is_away)
    }

    /// How often all clients of this database had to be disconnected so far.
    pub(crate) fn tenure(&self, database: &str) -> u64 {
        self.guest(database).map_or(0, |guest| guest.tenure)
    }

    /// Returns whether it has this user.
    pub(crate) fn knows(&self, user: &str) -> bool {
        user != MEMBER || self.has_member
    }

    /// Returns whether it lets this user in.
    pub(crate) fn lets_in(&self, user: &str, password: &str) -> bool {
        self.knows(user) && (self.method == Method::Trust || password == self.password(user))
    }

    /// The user's password, or what it would be if the user were known.
    pub(crate) fn password(&self, user: &str) -> String {
        format!("{user} is no. {}", self.version(user))
    }

    /// The previous password.
    pub(crate) fn old_password(&self, user: &str) -> String {
        format!("{user} is no. {}", self.version(user).wrapping_sub(1))
    }

    /// How many servers a pool of this database may have.
    pub(crate) fn pool_servers(&self, database: &str) -> usize {
        self.own_size(database).unwrap_or(self.size) + self.reserve
    }

    /// How many all pools of this database may have together.
    pub(crate) fn database_servers(&self, database: &str) -> usize {
        if database == SHARED { self.shared_servers } else { usize::MAX }
    }

    /// The settings in the line of a database, besides its address.
    pub(crate) fn database_words(&self, database: &str) -> String {
        let mode = match cast::mode(database) {
            Mode::Transaction => "",
            Mode::Session => " pool_mode=session",
            Mode::Statement => " pool_mode=statement",
        };
        let size = self.own_size(database).map_or(String::new(), |size| format!(" pool_size={size}"));
        let query = if number(database).is_some_and(|at| self.queries[at]) { " connect_query='select 1'" } else { "" };
        let user = if self.guest(database).is_some_and(|guest| guest.is_forced) { " user=v" } else { "" };
        let most = match self.database_servers(database) {
            usize::MAX => String::new(),
            most => format!(" max_db_connections={most}"),
        };
        format!("{mode}{user}{size}{most}{query}")
    }

    /// The lines of `[pgbouncer]`.
    pub(crate) fn settings(&self) -> Vec<String> {
        let method = match self.method {
            Method::Trust => "trust",
            Method::Plain => "plain",
            Method::Md5 => "md5",
            Method::Scram => "scram-sha-256",
        };
        let mut lines = vec![
            format!("auth_type = {method}"),
            format!("default_pool_size = {}", self.size),
            format!("reserve_pool_size = {}", self.reserve),
        ];
        lines.extend(self.more.iter().cloned());
        lines
    }

    fn guest(&self, database: &str) -> Option<Guest> {
        GUESTS.iter().position(|guest| *guest == database).map(|at| self.guests[at])
    }

    fn own_size(&self, database: &str) -> Option<usize> {
        number(database).and_then(|at| self.sizes[at])
    }

    fn version(&self, user: &str) -> u64 {
        USERS.iter().position(|name| *name == user).map_or(0, |at| self.passwords[at])
    }
}

impl Guest {
    fn becomes(self, is_away: bool, is_forced: bool) -> Self {
        let is_end = !self.is_away && (is_away || is_forced != self.is_forced);
        Self { is_away, is_forced, tenure: self.tenure + u64::from(is_end) }
    }
}

fn number(database: &str) -> Option<usize> {
    DATABASES.iter().position(|name| *name == database)
}

/// Settings that may change at any time.
fn draw_settings(random: &mut Random) -> Vec<String> {
    let mut draw = |name: &str, values: &[&str]| format!("{name} = {}", one_of(random, values));
    vec![
        draw("min_pool_size", &["0", "0", "2"]),
        draw("reserve_pool_timeout", &["1", "5"]),
        draw("query_timeout", &["0", "0", "0", "0", "2"]),
        draw("query_wait_timeout", &["20", "20", "3"]),
        draw("idle_transaction_timeout", &["0", "0", "1"]),
        draw("transaction_timeout", &["0", "0", "0", "1"]),
        draw("server_lifetime", &["3600", "3600", "5", "0"]),
        draw("server_idle_timeout", &["600", "1"]),
        draw("server_round_robin", &["0", "1"]),
        draw("server_check_delay", &["30", "0"]),
        draw("server_check_query", &["<empty>", "select 1", ""]),
        draw("server_mend_timeout", &["5", "1"]),
        draw("server_reset_query_always", &["0", "0", "1"]),
        draw("server_dials_max", &["4", "1"]),
    ]
}

fn one_of<'a, T>(random: &mut Random, values: &'a [T]) -> &'a T {
    &values[random.below(values.len() as u64) as usize]
}

/// Servers of a pool during the last checks.
pub(crate) const POOL_SIZE: usize = 5;
/// The most that any configuration allows one pool.
pub(crate) const POOL_SIZE_MAX: usize = SIZE_MAX + RESERVE_MAX;
/// Servers of the database that two users share, during the last checks.
pub(crate) const SHARED_SERVERS: usize = 4;

const SIZE_MAX: usize = 8;
const SIZES: [usize; 7] = [1, 2, 3, POOL_SIZE, POOL_SIZE, POOL_SIZE, SIZE_MAX];
const RESERVE_MAX: usize = 2;
