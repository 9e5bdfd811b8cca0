//! Slots of clients, and of a user's servers, that are counted for the whole process; and the clients of a database, which
//! its home worker counts.
//!
//! Always true: a slot is taken before the client or server that it stands for exists, and given back after it has
//! gone.
//! Not here: this worker's quota and the ledger (`lending`), the limits of a pool and the servers of a database
//! (`pool::share`).

use std::sync::Arc;

use base::Key;
use config::{Database, Settings};
use pool::{Answer, Event, LedgerKey, Need, Outcome, Patience, Taken};
use protocol::fault::Fault;
use reactor::Io;

use crate::admin::console::CONSOLE;
use crate::data::client::{Client, ClientStage};
use crate::letters::Right;
use crate::planted::{are_counted, gives_slot_back, is_full};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Counts the existing clients of users that were not limited before and are limited by the new settings. Must run
    /// before the new limits are set, because clients that are already there take their slots without asking the
    /// ledger.
    pub(crate) fn count_clients_of_users(&mut self, old: &Settings) {
        let settings = &self.hands.active.settings;
        let may_be_new = settings.max_user_client_connections > 0
            || settings.users.values().any(|user| user.max_user_client_connections.is_some());
        if !are_counted(may_be_new) {
            return;
        }
        for key in self.clients.keys() {
            let Some((user, database)) = self.uncounted(key) else { continue };
            if old.max_user_client_connections(&user).is_some() {
                continue;
            }
            let Some(slot) = self.user_key(&user, &database) else { continue };
            // The ledger's answer may be two reloads late: the client asked under a limit that was removed and is now back.
            if self.limits.lending.is_asking(&slot, key.to_bits()) {
                continue;
            }
            if self.limits.lending.take(&slot, key.to_bits(), Patience::Now, &self.hands) == Taken::Took
                && let Some(client) = self.clients.get_mut(key)
            {
                client.slots.has_user_slot = true;
            }
        }
    }

    /// User and database of a client that has passed the limit of its user without being counted.
    fn uncounted(&self, key: Key) -> Option<(Arc<str>, Arc<str>)> {
        let client = self.clients.get(key).filter(|client| !client.is_own && !client.slots.has_user_slot)?;
        match &client.stage {
            ClientStage::Ready(ready) => {
                let user = self.registry.user_at(ready.session().user).name.clone();
                Some((user, self.registry.pool(ready.home())?.database_name.clone()))
            }
            ClientStage::Login(login) => {
                // A client that has not authenticated, or waits for the ledger, has not passed.
                let has_passed = login.waits_for().is_some();
                has_passed.then(|| (login.request().user.clone(), login.request().database.clone()))
            }
            ClientStage::Console(console) => {
                (!self.is_admin(console.user())).then(|| (Arc::from(console.user()), CONSOLE.into()))
            }
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) => None,
        }
    }

    /// Tells the pools whether this user's servers are limited, so that its dials have to be asked for.
    pub(crate) fn limit_user(&mut self, number: u32) {
        let is_limited = self.hands.active.settings.max_user_connections(&self.registry.user_at(number).name).is_some();
        self.pools.set_user_limit(number, is_limited);
    }

    /// Takes a slot among all clients (`max_client_conn`); the one among its user's clients is taken after
    /// authentication. Returns whether the client has it at once; otherwise the ledger answers.
    pub(crate) fn take_client_slot(&mut self, key: Key) -> bool {
        self.limits.lending.take(&LedgerKey::Clients, key.to_bits(), Patience::Now, &self.hands) == Taken::Took
    }

    /// The user slot that a client has to take, if its user is limited.
    pub(crate) fn user_slot(&self, key: Key) -> Option<LedgerKey> {
        let subject = self.subject(key)?;
        self.user_key(subject.user, subject.database)
    }

    /// Takes that slot. Returns whether the client has it at once; otherwise the ledger answers.
    pub(crate) fn take_user_slot(&mut self, key: Key, user: &LedgerKey) -> bool {
        self.limits.lending.take(user, key.to_bits(), Patience::Now, &self.hands) == Taken::Took
    }

    /// The key by which a client's user is counted, if that user's clients are limited and the user can be known at all.
    fn user_key(&self, user: &str, database: &str) -> Option<LedgerKey> {
        let settings = &self.hands.active.settings;
        settings.max_user_client_connections(user)?;
        let entry = settings.database(database);
        let may_be_told = settings.auth_user.is_some() || entry.is_some_and(|entry| entry.auth_user.is_some());
        let is_listed = settings.users.contains_key(user) || self.hands.active.users.secret(user).is_some();
        (may_be_told || is_listed).then(|| LedgerKey::UserClients(Arc::from(user)))
    }

    /// Counts a client among those of its database and user; `room_in` was asked before.
    pub(crate) fn count_for_database(&mut self, key: Key, database: u32) {
        self.registry.database_at_mut(database).unused_since = None;
        self.count_in(key, database);
    }

    /// Whether the database may have one more client.
    ///
    /// # Errors
    /// The database has as many clients as it may have.
    pub(crate) fn room_in(&self, database: u32, entry: &Database) -> Result<(), Fault> {
        match self.hands.active.settings.max_db_client_connections(entry) {
            Some(limit) if is_full(self.registry.database_at(database).clients, limit) => {
                Err(Fault::DatabaseClientsFull { limit })
            }
            _ => Ok(()),
        }
    }

    /// Counts a client of the console. Admins are always let in.
    ///
    /// # Errors
    /// The console has as many clients as a database may have.
    pub(crate) fn seat_at_console(&mut self, key: Key, right: Right) -> Result<(), Fault> {
        let limit = self.hands.active.settings.max_db_client_connections;
        let database = self.registry.database(&CONSOLE.into(), None);
        let place = self.registry.database_at_mut(database);
        if right != Right::Admin && limit > 0 && place.clients >= limit {
            return Err(Fault::DatabaseClientsFull { limit });
        }
        self.count_in(key, database);
        Ok(())
    }

    fn count_in(&mut self, key: Key, database: u32) {
        let Some(login) = self.clients.login(key) else { return };
        let user = self.user(&login.request().user.clone());
        self.count_as(key, database, user);
    }

    /// Counts a client among those of this database and this user.
    pub(crate) fn count_as(&mut self, key: Key, database: u32, user: u32) {
        self.registry.database_at_mut(database).clients += 1;
        self.registry.user_at_mut(user).clients += 1;
        if let Some(client) = self.clients.get_mut(key) {
            client.slots.counted = Some((database, user));
        }
    }

    /// Gives back the slots of a client that goes.
    pub(crate) fn unseat(&mut self, key: Key, client: &Client) {
        self.hands.posts.unauthenticated.give_back(&client.peer, client.slots.unauthenticated);
        if let Some((database, user)) = client.slots.counted {
            self.registry.database_at_mut(database).clients -= 1;
            self.registry.user_at_mut(user).clients -= 1;
        }
        if client.slots.has_user_slot {
            let name = match &client.stage {
                ClientStage::Login(login) => login.request().user.clone(),
                ClientStage::Ready(ready) => self.registry.user_at(ready.session().user).name.clone(),
                ClientStage::Console(console) => Arc::from(console.user()),
                ClientStage::Greeting(_) | ClientStage::Cancelling(_) => return,
            };
            self.limits.lending.give(&LedgerKey::UserClients(name), &self.hands);
        }
        if gives_slot_back(client.slots.has_client_slot, matches!(client.stage, ClientStage::Login(_))) {
            self.limits.lending.give(&LedgerKey::Clients, &self.hands);
        }
        if let ClientStage::Login(login) = &client.stage {
            // The client may still wait for the ledger's answer. An answer already on its way finds no client, and its
            // slot is given back then.
            let user = LedgerKey::UserClients(login.request().user.clone());
            self.limits.lending.withdraw(&[LedgerKey::Clients, user], key.to_bits(), &self.hands);
        }
    }

    /// A pool needs one more server of a limited user.
    pub(crate) fn ask_ledger(&mut self, user: u32, need: Need) {
        let patience = if need == Need::Client { Patience::Wait } else { Patience::Now };
        let key = self.servers_key(user);
        if self.limits.lending.take(&key, claim_of(user, need), patience, &self.hands) == Taken::Took {
            self.tell_pools(Event::Granted { user, need });
        }
    }

    pub(crate) fn withdraw_from_ledger(&mut self, user: u32) {
        let key = self.servers_key(user);
        self.limits.lending.withdraw(&[key], claim_of(user, Need::Client), &self.hands);
    }

    pub(crate) fn give_back_to_ledger(&mut self, user: u32) {
        let key = self.servers_key(user);
        self.limits.lending.give(&key, &self.hands);
    }

    fn servers_key(&self, user: u32) -> LedgerKey {
        LedgerKey::UserServers(self.registry.user_at(user).name.clone())
    }

    /// Handles an answer of the ledger.
    pub(crate) fn worker_quota_hears(&mut self, answer: Answer) {
        for outcome in self.limits.lending.hears(answer, &self.hands) {
            match outcome {
                Outcome::Granted { key: LedgerKey::Clients, claimant, .. } => {
                    self.client_slot_taken(Key::from_bits(claimant));
                }
                Outcome::Granted { key: key @ LedgerKey::UserClients(_), claimant, .. } => {
                    self.user_slot_taken(Key::from_bits(claimant), &key);
                }
                Outcome::Granted { key: LedgerKey::UserServers(_), claimant, .. } => {
                    let (user, need) = read_claim(claimant);
                    self.tell_pools(Event::Granted { user, need });
                }
                Outcome::Denied { key: LedgerKey::Clients, claimant, .. } => {
                    let limit = self.hands.active.settings.max_client_conn;
                    self.fail_client(Key::from_bits(claimant), &Fault::ClientsFull { limit });
                }
                Outcome::Denied { key: LedgerKey::UserClients(name), claimant, .. } => {
                    let limit = self.hands.active.settings.max_user_client_connections(&name).unwrap_or(0);
                    self.fail_client(Key::from_bits(claimant), &Fault::UserClientsFull { limit });
                }
                Outcome::Denied { key: LedgerKey::UserServers(_), claimant, .. } => {
                    self.tell_pools(Event::Denied { user: read_claim(claimant).0 });
                }
                Outcome::Wanted { key: LedgerKey::UserServers(name), is_wanted } => {
                    if let Some(user) = self.registry.known_user(&name) {
                        self.tell_pools(Event::Wanted { user, is_wanted });
                    }
                }
                Outcome::Wanted { .. } => {}
            }
            self.settle();
        }
    }
}

/// The claimant's number in the ledger: the user, and what the server is for.
fn claim_of(user: u32, need: Need) -> u64 {
    u64::from(user) << 1 | u64::from(need == Need::Minimum)
}

fn read_claim(claim: u64) -> (u32, Need) {
    ((claim >> 1) as u32, if claim & 1 == 1 { Need::Minimum } else { Need::Client })
}
