//! The databases, users and pools of a worker: who they are, and what is known of them beside their pools' machines.
//!
//! Always true: a number stays valid as long as anybody uses what it names; nothing is found by walking a hash.
//! Not here: who gets a server (crate `pool`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use auth::{SaltedPassword, ScramKeys, ScramSecret, Secret};
use base::Time;
use config::{Database, Settings};
use measure::Heaviest;
use pool::PoolKey;
use protocol::fault::{Ender, Unserved};
use protocol::state::{FunctionCatalog, Overrides, PROBED, PinRules};
use protocol::vars::Vars;

use crate::admission::applicant::SecretHashing;
use crate::beside::Beside;
use crate::data::taken::Taken;
use crate::letters::Totals;
use crate::measured::Measured;
use crate::notify::listening::Listening;
use crate::watched::{Watch, Watched};

/// Everything with a name.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) databases: Vec<DatabasePlace>,
    database_numbers: BTreeMap<Arc<str>, u32>,
    /// Numbers of databases that have been forgotten.
    free_databases: Vec<u32>,
    pub(crate) users: Vec<UserPlace>,
    user_numbers: BTreeMap<Arc<str>, u32>,
    /// Numbers of users that have been forgotten.
    free_users: Vec<u32>,
    /// So many are known before those are forgotten that are not in use.
    pub(crate) users_known_max: usize,
    pools: Beside<PoolPlace>,
    pool_keys: BTreeMap<(u32, u32), PoolKey>,
    /// How many scopes of texts there have been.
    pub(crate) scopes: u32,
    /// Whether any user has a `client_idle_timeout`.
    pub(crate) has_idle_timeouts: bool,
    pub(crate) is_sweep_armed: bool,
    /// When pools are looked at for clients that wait.
    pub(crate) watch: Watch,
    /// Addresses of names, and who waits for them.
    pub(crate) names: BTreeMap<Arc<str>, crate::upstream::names::NamePlace>,
}

/// A database in use.
#[derive(Debug)]
pub(crate) struct DatabasePlace {
    pub(crate) name: Arc<str>,
    /// What is configured for it; `None` when it has been removed, or is the console's.
    pub(crate) entry: Option<Arc<Database>>,
    /// Its clients, those logging in included.
    pub(crate) clients: u32,
    pub(crate) totals: Totals,
    /// Since when nobody has used it, for databases made from `*`.
    pub(crate) unused_since: Option<Time>,
    /// Whether a server has said last that there is none of this name.
    pub(crate) is_missing: bool,
    /// Which of several hosts was dialed last.
    pub(crate) host: usize,
    /// What its texts and functions do to sessions, where that is of interest.
    pub(crate) function_catalog: FunctionCatalog,
    /// How often its servers were asked for what, in the order of [`PROBED`].
    pub(crate) probes: [u64; PROBED.len()],
    /// The channels that its clients listen to, where somebody does that for all.
    pub(crate) listening: Listening,
    /// How often its catalog has been changed, as far as servers have said so.
    pub(crate) changes: u64,
    /// Which statements take the time of its servers, as soon as one has been looked at.
    pub(crate) statements: Option<Box<Heaviest>>,
}

/// A user in use: of clients, of servers or both.
#[derive(Debug)]
pub(crate) struct UserPlace {
    pub(crate) name: Arc<str>,
    pub(crate) clients: u32,
    /// The time limits of this user, as they are in force.
    pub(crate) query_timeout: Option<Duration>,
    pub(crate) idle_transaction_timeout: Option<Duration>,
    pub(crate) transaction_timeout: Option<Duration>,
    pub(crate) client_idle_timeout: Option<Duration>,
    /// What SCRAM checks a plaintext secret against, and the secret that it was derived from.
    pub(crate) derived: Option<(Arc<Secret>, Arc<ScramSecret>)>,
    /// Such a secret while that is being derived.
    pub(crate) hashing: Option<Box<SecretHashing>>,
}

/// What has become of a secret that a server has told and another one has refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Doubt {
    /// It has not been refused.
    #[default]
    None,
    /// It is being asked for again.
    Asking,
    /// It has been asked for again, and there is no other.
    InVain,
}

/// A pool, beside its machine.
#[derive(Debug)]
pub(crate) struct PoolPlace {
    pub(crate) database: u32,
    pub(crate) database_name: Arc<str>,
    /// The user on the server.
    pub(crate) user: u32,
    pub(crate) user_name: Arc<str>,
    pub(crate) mode: pool::Mode,
    /// Whether the state of their sessions follows its clients.
    pub(crate) follows: bool,
    /// What they may hold on its servers, then.
    pub(crate) pin_rules: Rc<PinRules>,
    /// What clients are greeted with, once a server has told.
    pub(crate) welcome: Option<Rc<Welcome>>,
    /// The same, of servers that are to be replaced: good enough for clients of our own, which look at nothing of it.
    pub(crate) welcome_before: Option<Rc<Welcome>>,
    /// The parameters of the client that has logged in last.
    pub(crate) latest: Option<Rc<Vars>>,
    /// What servers have taken of what clients began with.
    pub(crate) taken: Taken,
    /// The keys that a client's own login revealed.
    pub(crate) keys: Option<ScramKeys>,
    /// What spares the next login its work.
    pub(crate) salted: Option<Arc<SaltedPassword>>,
    /// Cancel requests of its clients that are on their way.
    pub(crate) cancels: u32,
    /// Whether its machine has been told that it is paused.
    pub(crate) is_paused: bool,
    /// Since when it has neither clients nor servers, as far as somebody has looked.
    pub(crate) unused_since: Option<Time>,
    /// What a server has told of its user's secret (`auth_query`), for its own logins at servers.
    pub(crate) told: Option<Arc<Secret>>,
    /// Whether a server has refused that.
    pub(crate) doubt: Doubt,
    /// The password that the last one to log in has shown to an external authenticator, who found it right. It is the user's whatever the file says.
    pub(crate) judged: Option<Arc<Secret>>,
    /// What its transactions and servers have come to.
    pub(crate) measured: Measured,
    /// What had its servers replaced last.
    pub(crate) retired_by: Ender,
    /// What clients were told last whose time to wait was over, and when.
    pub(crate) unserved: Option<(Time, pool::WaitReason, Arc<Unserved>)>,
    /// Whether its clients wait.
    pub(crate) watched: Watched,
}

/// What clients of a pool are greeted with, and what their sessions begin with.
#[derive(Clone, Debug)]
pub(crate) struct Welcome {
    /// `AuthenticationOk` and the parameters that follow nobody.
    pub(crate) fixed: Vec<u8>,
    /// The tracked ones, as the server had them.
    pub(crate) vars: Rc<Vars>,
    /// What `connect_query` or a trigger at login had set and prepared, where sessions follow clients.
    pub(crate) begun: Option<Rc<Overrides>>,
}

impl PoolPlace {
    /// What a client is greeted with, or one of our own.
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
            host: usize::MAX,
            function_catalog: FunctionCatalog::new(scope),
            probes: [0; PROBED.len()],
            listening: Listening::default(),
            changes: 0,
            statements: None,
        }
    }

    /// Whether it has been made from `*`.
    pub(crate) fn is_automatic(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.automatic)
    }
}

impl UserPlace {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            clients: 0,
            query_timeout: None,
            idle_transaction_timeout: None,
            transaction_timeout: None,
            client_idle_timeout: None,
            derived: None,
            hashing: None,
        }
    }
}

impl Registry {
    /// The number of a database; a new one is taken in with this entry.
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
        let number = match self.free_databases.pop() {
            Some(number) => {
                self.databases[number as usize] = place;
                number
            }
            None => {
                self.databases.push(place);
                self.databases.len() as u32 - 1
            }
        };
        self.database_numbers.insert(name.clone(), number);
        number
    }

    /// Forgets a database that nobody uses; its number may be given out again.
    pub(crate) fn forget_database(&mut self, number: u32) {
        self.scopes += 1;
        let nobody = DatabasePlace::new("".into(), None, self.scopes);
        let place = std::mem::replace(&mut self.databases[number as usize], nobody);
        self.database_numbers.remove(&place.name);
        self.free_databases.push(number);
    }

    /// The number of a user; a new one is taken in.
    pub(crate) fn user(&mut self, name: &str, settings: &Settings) -> u32 {
        if let Some(&number) = self.user_numbers.get(name) {
            return number;
        }
        let name: Arc<str> = name.into();
        let place = UserPlace::new(name.clone());
        let number = match self.free_users.pop() {
            Some(number) => {
                self.users[number as usize] = place;
                number
            }
            None => {
                self.users.push(place);
                self.users.len() as u32 - 1
            }
        };
        self.time_user(number, settings);
        self.user_numbers.insert(name, number);
        number
    }

    /// Forgets the users of these numbers, which may be given out again.
    pub(crate) fn forget_users(&mut self, mut is_unused: impl FnMut(u32) -> bool) {
        let unused: BTreeSet<u32> = self.user_numbers.values().copied().filter(|number| is_unused(*number)).collect();
        self.user_numbers.retain(|_, number| !unused.contains(number));
        for &number in &unused {
            self.users[number as usize] = UserPlace::new("".into());
        }
        for database in &mut self.databases {
            database.function_catalog.forget_users(&unused);
        }
        self.free_users.extend(unused);
    }

    /// How many users are known.
    pub(crate) fn users_known(&self) -> usize {
        self.user_numbers.len()
    }

    /// The users that are known, and their numbers.
    pub(crate) fn users(&self) -> impl Iterator<Item = (u32, &UserPlace)> {
        self.user_numbers.values().map(|&number| (number, &self.users[number as usize]))
    }

    /// Looks the time limits of a user up.
    pub(crate) fn time_user(&mut self, number: u32, settings: &Settings) {
        let user = &mut self.users[number as usize];
        user.query_timeout = settings.query_timeout(&user.name);
        user.idle_transaction_timeout = settings.idle_transaction_timeout(&user.name);
        user.transaction_timeout = settings.transaction_timeout(&user.name);
        user.client_idle_timeout = settings.client_idle_timeout(&user.name);
        self.has_idle_timeouts |= user.client_idle_timeout.is_some();
    }

    /// The number of a user that is known already.
    pub(crate) fn known_user(&self, name: &str) -> Option<u32> {
        self.user_numbers.get(name).copied()
    }

    /// The number of a database that is known already.
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
        }
    }

    pub(crate) fn pool(&self, key: PoolKey) -> Option<&PoolPlace> {
        self.pools.get(key)
    }

    pub(crate) fn pool_mut(&mut self, key: PoolKey) -> Option<&mut PoolPlace> {
        self.pools.get_mut(key)
    }

    /// The pools of a database.
    pub(crate) fn pools_of(&self, database: u32) -> Vec<PoolKey> {
        self.pool_keys.range((database, 0)..=(database, u32::MAX)).map(|(_, &key)| key).collect()
    }

    /// All pools, by database and user number.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (PoolKey, &PoolPlace)> {
        self.pool_keys.values().filter_map(|&key| Some((key, self.pools.get(key)?)))
    }

    /// So many of them, behind those that have been had, with these numbers.
    pub(crate) fn pools_after(&self, after: Option<(u32, u32)>, most: usize) -> Vec<((u32, u32), PoolKey)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.pool_keys.range((begin, Bound::Unbounded)).take(most).map(|(numbers, key)| (*numbers, *key)).collect()
    }

    pub(crate) fn pool_keys(&self) -> Vec<PoolKey> {
        self.pool_keys.values().copied().collect()
    }
}
