//! The databases, users and pools of a worker: their numbers, and what is known of them beside the machines of their pools.
//!
//! Always true: a number stays valid while anything refers to what it names; nothing is found by iterating over a hash table.
//! Not here: which client gets a server (crate `pool`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use auth::{SaltedPassword, ScramKeys, ScramSecret, Secret};
use base::Time;
use config::{Database, ReadRouting, Settings};
use measure::{FailedQueries, Heaviest, Lives};
use pool::{HostChoice, PoolKey};
use protocol::client::statuses::Statuses;
use protocol::fault::{EndedBy, Unserved};
use protocol::state::{FunctionCatalog, Overrides, PROBED, PinRules};
use protocol::vars::Vars;

use crate::admission::applicant::SecretHashing;
use crate::beside::Beside;
use crate::data::accepted::AcceptedParameters;
use crate::letters::Totals;
use crate::measured::{FormerPools, Measured};
use crate::notify::listening::Listening;
use crate::reads::known_names::KnownNames;
use crate::repeated::Repeated;
use crate::watched::{Watch, Watched};

/// The tables of databases, users and pools.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    databases: Vec<DatabasePlace>,
    database_numbers: BTreeMap<Arc<str>, u32>,
    /// Numbers of databases that have been forgotten.
    free_databases: Vec<u32>,
    users: Vec<UserPlace>,
    user_numbers: BTreeMap<Arc<str>, u32>,
    /// Numbers of users that have been forgotten.
    free_users: Vec<u32>,
    /// Unused users are forgotten when more than this many are known.
    users_known_max: usize,
    pools: Beside<PoolPlace>,
    pool_keys: BTreeMap<(u32, u32), PoolKey>,
    former_pools: FormerPools,
    /// Number of function catalogs created so far, which numbers their scopes.
    scopes: u32,
    /// Whether any user has a `client_idle_timeout`.
    has_idle_timeouts: bool,
    /// Whether any user has a timeout of queries or transactions.
    has_loan_timeouts: bool,
    is_sweep_armed: bool,
    /// When pools are checked for waiting clients.
    watch: Watch,
    /// Dials that had to wait for a descriptor.
    delayed_dials: Repeated,
}

/// A database in use.
#[derive(Debug)]
pub(crate) struct DatabasePlace {
    pub(crate) name: Arc<str>,
    /// Its configuration; `None` when it was removed, or is the console.
    pub(crate) entry: Option<Arc<Database>>,
    /// Its clients, those logging in included.
    pub(crate) clients: u32,
    pub(crate) totals: Totals,
    /// Its failed queries, once one has failed.
    pub(crate) failed_queries: Option<Box<FailedQueries>>,
    /// Since when it has been unused, for databases made from `*`.
    pub(crate) unused_since: Option<Time>,
    /// Whether the last login at a server failed because the database does not exist.
    pub(crate) is_missing: bool,
    /// Which of its hosts is dialed next.
    pub(crate) host_choice: HostChoice,
    /// What its statements and functions do to sessions, where session state follows clients.
    pub(crate) function_catalog: FunctionCatalog,
    /// How often its servers were probed for what, in the order of [`PROBED`].
    pub(crate) probes: [u64; PROBED.len()],
    /// The channels that its clients listen to through the listener.
    pub(crate) listening: Listening,
    /// How often its catalog was changed, as far as its servers have shown.
    pub(crate) changes: u64,
    /// The statements that take the most time of its servers; `None` before the first sample.
    pub(crate) statements: Option<Box<Heaviest>>,
    /// What its names stand for, where reads are routed.
    pub(crate) read_names: Option<Box<KnownNames>>,
}

/// A user in use: of clients, of servers, or of both.
#[derive(Debug, Default)]
pub(crate) struct UserPlace {
    pub(crate) name: Arc<str>,
    pub(crate) clients: u32,
    /// The timeouts of this user that are in force.
    pub(crate) query_timeout: Option<Duration>,
    pub(crate) idle_transaction_timeout: Option<Duration>,
    pub(crate) transaction_timeout: Option<Duration>,
    pub(crate) client_idle_timeout: Option<Duration>,
    /// The SCRAM secret derived from a plaintext secret, and that plaintext secret.
    pub(crate) derived: Option<(Arc<Secret>, Arc<ScramSecret>)>,
    /// The derivation of a SCRAM secret that is under way.
    pub(crate) hashing: Option<Box<SecretHashing>>,
}

/// What is known of a secret from `auth_query` that a server may have refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Doubt {
    /// No server has refused it.
    #[default]
    None,
    /// A server has refused it, and `auth_query` runs again.
    Asking,
    /// `auth_query` has run again and returned no other secret.
    Unchanged,
}

/// What is known of a pool beside its machine.
#[derive(Debug)]
pub(crate) struct PoolPlace {
    pub(crate) database: u32,
    pub(crate) database_name: Arc<str>,
    /// The user on the server.
    pub(crate) user: u32,
    pub(crate) user_name: Arc<str>,
    pub(crate) mode: pool::Mode,
    /// Whether session state follows its clients.
    pub(crate) follows: bool,
    /// The rules for pins of its clients, if it does.
    pub(crate) pin_rules: Rc<PinRules>,
    /// The welcome of its clients, once a server has logged in.
    pub(crate) welcome: Option<Rc<Welcome>>,
    /// The welcome from servers that are to be replaced: used for connections of the control thread, which ignore its
    /// contents.
    pub(crate) welcome_before: Option<Rc<Welcome>>,
    /// The parameters of the client that has logged in last.
    pub(crate) latest: Option<Rc<Vars>>,
    /// Which startup parameters of clients its servers have accepted.
    pub(crate) accepted_parameters: AcceptedParameters,
    /// The SCRAM keys from a client's own login.
    pub(crate) keys: Option<ScramKeys>,
    /// The salted password, which spares the next login its derivation.
    pub(crate) salted: Option<Arc<SaltedPassword>>,
    /// Why its machine was told to pause, if it was.
    pub(crate) paused: Option<pool::CloseReason>,
    /// Since when it has had neither clients nor servers, as of the last sweep.
    pub(crate) unused_since: Option<Time>,
    /// The user's secret from `auth_query`, for logins at servers.
    pub(crate) reported_secret: Option<Arc<Secret>>,
    /// Whether a server has refused that secret.
    pub(crate) doubt: Doubt,
    /// The password of the last client that an external authenticator has accepted. It takes precedence over `auth_file`.
    pub(crate) judged: Option<Arc<Secret>>,
    /// Statistics of its transactions and servers.
    pub(crate) measured: Measured,
    /// Which requests of its clients go to replicas.
    pub(crate) read_routing: ReadRouting,
    /// Of the replicas of a database: the pool whose clients read there.
    pub(crate) home: Option<PoolKey>,
    /// The pool of the replicas, once a client has read there.
    pub(crate) replicas: Option<PoolKey>,
    /// Whether loans end with transactions, and answers concern nobody but who waits for them.
    pub(crate) ends_at_once: bool,
    /// What caused its servers to be replaced last.
    pub(crate) retired_by: EndedBy,
    /// The last explanation given to clients whose wait timed out, and its time.
    pub(crate) unserved: Option<(Time, pool::WaitReason, Arc<Unserved>)>,
    /// The current period of long waits.
    pub(crate) watched: Watched,
    /// Failures of `server_reset_query` on its servers.
    pub(crate) failed_resets: Repeated,
    /// Settings of a client that could not be reset for another.
    pub(crate) refused_resets: Repeated,
}

/// The messages that greet the clients of a pool, and the initial state of their sessions.
#[derive(Clone, Debug)]
pub(crate) struct Welcome {
    /// `AuthenticationOk`, and the `ParameterStatus` messages of parameters that are not tracked.
    pub(crate) fixed: Vec<u8>,
    /// The tracked parameters, as the server reported them.
    pub(crate) statuses: Statuses,
    /// What `connect_query` or a login event trigger has set and prepared, where session state follows clients.
    pub(crate) begun: Option<Rc<Overrides>>,
}

impl PoolPlace {
    /// The welcome for a client, or for a connection of the control thread.
    pub(crate) fn welcome_for(&self, is_own: bool) -> Option<&Rc<Welcome>> {
        self.welcome.as_ref().or(self.welcome_before.as_ref().filter(|_| is_own))
    }
}

impl DatabasePlace {
    fn new(name: Arc<str>, entry: Option<Arc<Database>>, scope: u32) -> Self {
        Self {
            name,
            entry,
            clients: 0,
            totals: Totals::default(),
            unused_since: None,
            is_missing: false,
            host_choice: HostChoice::default(),
            function_catalog: FunctionCatalog::new(scope),
            probes: [0; PROBED.len()],
            listening: Listening::default(),
            changes: 0,
            statements: None,
            read_names: None,
            failed_queries: None,
        }
    }

    /// Whether it has been made from `*`.
    pub(crate) fn is_automatic(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.automatic)
    }
}

/// Puts a row into a table, where a forgotten one has made room if possible. Returns its number.
fn put<T>(rows: &mut Vec<T>, free: &mut Vec<u32>, row: T) -> u32 {
    if let Some(number) = free.pop() {
        rows[number as usize] = row;
        return number;
    }
    rows.push(row);
    rows.len() as u32 - 1
}

impl Registry {
    /// The database of this number.
    ///
    /// # Panics
    /// When no database has had the number.
    #[inline]
    pub(crate) fn database_at(&self, number: u32) -> &DatabasePlace {
        &self.databases[number as usize]
    }

    /// The database of this number, to be changed.
    ///
    /// # Panics
    /// When no database has had the number.
    #[inline]
    pub(crate) fn database_at_mut(&mut self, number: u32) -> &mut DatabasePlace {
        &mut self.databases[number as usize]
    }

    /// The database of this number, to be changed, and the number of function catalogs created so far.
    pub(crate) fn database_and_scopes(&mut self, number: u32) -> (&mut DatabasePlace, &mut u32) {
        (&mut self.databases[number as usize], &mut self.scopes)
    }

    /// Whether any user has a `client_idle_timeout`.
    pub(crate) fn has_idle_timeouts(&self) -> bool {
        self.has_idle_timeouts
    }

    /// Whether any user has a timeout of queries or transactions.
    pub(crate) fn has_loan_timeouts(&self) -> bool {
        self.has_loan_timeouts
    }

    /// The timeouts of all users are about to be looked up again ([`Registry::time_user`]).
    pub(crate) fn forget_timeouts(&mut self) {
        (self.has_idle_timeouts, self.has_loan_timeouts) = (false, false);
    }

    /// Whether a sweep of unused databases and pools is due at some time.
    pub(crate) fn is_sweep_armed(&self) -> bool {
        self.is_sweep_armed
    }

    /// A sweep is due at some time, or is not any more.
    pub(crate) fn arms_sweep(&mut self, is_armed: bool) {
        self.is_sweep_armed = is_armed;
    }

    /// When pools are checked for waiting clients.
    pub(crate) fn watch_mut(&mut self) -> &mut Watch {
        &mut self.watch
    }

    /// What was counted for a pool of these names that has been closed since.
    pub(crate) fn take_former_pool(&mut self, database: &Arc<str>, user: &Arc<str>) -> Lives {
        self.former_pools.take(database, user)
    }

    /// A dial has to wait for a descriptor. Returns how many have had to, if that is to be told now.
    pub(crate) fn dial_is_delayed(&mut self, now: Time, told_every: Duration) -> Option<u64> {
        self.delayed_dials.happens(now, told_every)
    }

    /// All databases by their numbers, with empty ones for numbers that are free.
    pub(crate) fn databases(&self) -> impl Iterator<Item = (u32, &DatabasePlace)> {
        (0..).zip(&self.databases)
    }

    /// All databases by their numbers, to be changed.
    pub(crate) fn databases_mut(&mut self) -> impl Iterator<Item = (u32, &mut DatabasePlace)> {
        (0..).zip(&mut self.databases)
    }

    /// The numbers of databases, those that are free included.
    pub(crate) fn database_numbers(&self) -> std::ops::Range<u32> {
        0..self.databases.len() as u32
    }

    /// The user of this number.
    ///
    /// # Panics
    /// When no user has had the number.
    #[inline]
    pub(crate) fn user_at(&self, number: u32) -> &UserPlace {
        &self.users[number as usize]
    }

    /// The user of this number, to be changed.
    ///
    /// # Panics
    /// When no user has had the number.
    #[inline]
    pub(crate) fn user_at_mut(&mut self, number: u32) -> &mut UserPlace {
        &mut self.users[number as usize]
    }

    /// How many numbers users have, those that are free included.
    pub(crate) fn user_numbers_taken(&self) -> usize {
        self.users.len()
    }

    /// The number of a database; a new one is added with this entry.
    pub(crate) fn database(&mut self, name: &Arc<str>, entry: Option<Arc<Database>>) -> u32 {
        if let Some(&number) = self.database_numbers.get(name) {
            let place = &mut self.databases[number as usize];
            if place.entry.is_none() {
                place.entry = entry;
            }
            return number;
        }
        self.scopes += 1;
        let place = DatabasePlace::new(name.clone(), entry, self.scopes);
        let number = put(&mut self.databases, &mut self.free_databases, place);
        self.database_numbers.insert(name.clone(), number);
        number
    }

    /// Forgets an unused database; its number may be reused.
    pub(crate) fn forget_database(&mut self, number: u32) {
        self.scopes += 1;
        let nobody = DatabasePlace::new("".into(), None, self.scopes);
        let place = std::mem::replace(&mut self.databases[number as usize], nobody);
        self.database_numbers.remove(&place.name);
        self.free_databases.push(number);
    }

    /// The number of a user; a new one is added.
    pub(crate) fn user(&mut self, name: &str, settings: &Settings) -> u32 {
        if let Some(&number) = self.user_numbers.get(name) {
            return number;
        }
        let name: Arc<str> = name.into();
        let place = UserPlace { name: name.clone(), ..UserPlace::default() };
        let number = put(&mut self.users, &mut self.free_users, place);
        self.time_user(number, settings);
        self.user_numbers.insert(name, number);
        number
    }

    /// Forgets the users of these numbers, which may be reused.
    pub(crate) fn forget_users(&mut self, mut is_unused: impl FnMut(u32) -> bool) {
        let unused: BTreeSet<u32> = self.user_numbers.values().copied().filter(|number| is_unused(*number)).collect();
        self.user_numbers.retain(|_, number| !unused.contains(number));
        for &number in &unused {
            self.users[number as usize] = UserPlace::default();
        }
        for database in &mut self.databases {
            database.function_catalog.forget_users(&unused);
        }
        self.free_users.extend(unused);
        self.users_known_max = 2 * self.users_known() + SPARE_USERS;
    }

    /// Whether unused users are to be forgotten before another becomes known.
    pub(crate) fn are_users_many(&self) -> bool {
        self.users_known() >= self.users_known_max
    }

    /// How many users are known.
    pub(crate) fn users_known(&self) -> usize {
        self.user_numbers.len()
    }

    /// The users that are known, and their numbers.
    pub(crate) fn users(&self) -> impl Iterator<Item = (u32, &UserPlace)> {
        self.user_numbers.values().map(|&number| (number, &self.users[number as usize]))
    }

    /// The next user in the order of names behind `after`, and its number.
    pub(crate) fn user_after(&self, after: Option<&str>) -> Option<(u32, &UserPlace)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (_, &number) = self.user_numbers.range::<str, _>((begin, Bound::Unbounded)).next()?;
        Some((number, &self.users[number as usize]))
    }

    /// Looks up the timeouts of a user.
    pub(crate) fn time_user(&mut self, number: u32, settings: &Settings) {
        let user = &mut self.users[number as usize];
        user.query_timeout = settings.query_timeout(&user.name);
        user.idle_transaction_timeout = settings.idle_transaction_timeout(&user.name);
        user.transaction_timeout = settings.transaction_timeout(&user.name);
        user.client_idle_timeout = settings.client_idle_timeout(&user.name);
        self.has_idle_timeouts |= user.client_idle_timeout.is_some();
        self.has_loan_timeouts |= user.query_timeout.is_some()
            || user.idle_transaction_timeout.is_some()
            || user.transaction_timeout.is_some();
    }

    /// The number of a user, if it is known.
    pub(crate) fn known_user(&self, name: &str) -> Option<u32> {
        self.user_numbers.get(name).copied()
    }

    /// The number of a database, if it is known.
    pub(crate) fn known_database(&self, name: &str) -> Option<u32> {
        self.database_numbers.get(name).copied()
    }

    pub(crate) fn pool_key(&self, database: u32, user: u32) -> Option<PoolKey> {
        self.pool_keys.get(&(database, user)).copied()
    }

    pub(crate) fn insert_pool(&mut self, key: PoolKey, place: PoolPlace) {
        self.pool_keys.insert((place.database, place.user), key);
        self.pools.insert(key, place);
    }

    pub(crate) fn remove_pool(&mut self, key: PoolKey) {
        if let Some(place) = self.pools.remove(key) {
            self.pool_keys.remove(&(place.database, place.user));
            self.former_pools.remember(place.database_name, place.user_name, place.measured.lives());
        }
    }

    pub(crate) fn pool(&self, key: PoolKey) -> Option<&PoolPlace> {
        self.pools.get(key)
    }

    pub(crate) fn pool_mut(&mut self, key: PoolKey) -> Option<&mut PoolPlace> {
        self.pools.get_mut(key)
    }

    /// The configuration of a pool's database.
    pub(crate) fn entry_of(&self, pool: PoolKey) -> Option<&Arc<Database>> {
        self.databases[self.pool(pool)?.database as usize].entry.as_ref()
    }

    /// The name of a database as its clients and operators know it: what is derived from a line has that of the line.
    pub(crate) fn line_name(&self, database: u32) -> &Arc<str> {
        let database = &self.databases[database as usize];
        database.entry.as_ref().map_or(&database.name, |entry| entry.line_name())
    }

    /// The number of the line that a database is derived from, else its own: under this number its servers count for
    /// `max_db_connections`.
    pub(crate) fn line_number(&mut self, database: u32, settings: &Settings) -> u32 {
        let name = Arc::clone(self.line_name(database));
        if self.databases[database as usize].name == name {
            return database;
        }
        self.database(&name, settings.database(&name))
    }

    /// The pools of a database.
    pub(crate) fn pools_of(&self, database: u32) -> Vec<PoolKey> {
        self.pool_keys.range((database, 0)..=(database, u32::MAX)).map(|(_, &key)| key).collect()
    }

    /// All pools, by database and user number.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (PoolKey, &PoolPlace)> {
        self.pool_keys.values().filter_map(|&key| Some((key, self.pools.get(key)?)))
    }

    /// At most `most` pools, behind the one with the numbers `after`.
    pub(crate) fn pools_after(&self, after: Option<(u32, u32)>, most: usize) -> Vec<((u32, u32), PoolKey)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.pool_keys.range((begin, Bound::Unbounded)).take(most).map(|(numbers, key)| (*numbers, *key)).collect()
    }

    /// The next pool behind the one with the numbers `after`.
    pub(crate) fn pool_after(&self, after: Option<(u32, u32)>) -> Option<((u32, u32), PoolKey)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.pool_keys.range((begin, Bound::Unbounded)).next().map(|(numbers, key)| (*numbers, *key))
    }

    /// How many pools there are.
    pub(crate) fn pools_known(&self) -> usize {
        self.pool_keys.len()
    }

    pub(crate) fn pool_keys(&self) -> Vec<PoolKey> {
        self.pool_keys.values().copied().collect()
    }
}

/// This many users are known before unused ones are searched for.
const SPARE_USERS: usize = 1000;
