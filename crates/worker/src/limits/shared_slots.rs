//! Slots of clients, and of a user's servers, that are counted for the whole process; and the clients of a database, which
//! its home worker counts.
//!
//! Always true: a slot is taken before the client or server that it stands for exists, and given back after it has
//! gone; worker 0 keeps the ledger, the others send it letters.
//! Not here: how the ledger shares out slots (`pool::ledger`), the limits of a
//! pool and the servers of a database (`pool::share`).

use std::sync::Arc;

use base::{Key, WorkerId};
use config::{Database, Settings};
use pool::{Answer, Event, LedgerKey, LedgerKind, Letter, Need, Outcome, Patience, Taken};
use protocol::fault::Fault;
use reactor::Io;

use crate::admin::console::CONSOLE;
use crate::data::client::{Client, ClientStage};
use crate::letters::{Right, ToWorker};
use crate::planted::{are_counted, gives_slot_back, is_full};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Passes the limits that are in force to the ledger and to this worker's quota.
    pub(crate) fn limit_process(&mut self) {
        let settings = &self.hands.active.settings;
        let mut answers = Vec::new();
        let mut keyed = vec![(LedgerKey::Clients, settings.max_client_conn)];
        for name in settings.users.keys() {
            let clients = settings.max_user_client_connections(name).unwrap_or(0);
            let servers = settings.max_user_connections(name).unwrap_or(0);
            keyed.push((LedgerKey::UserClients(name.clone()), clients));
            keyed.push((LedgerKey::UserServers(name.clone()), servers));
        }
        let kinds = [
            (LedgerKind::UserClients, settings.max_user_client_connections),
            (LedgerKind::UserServers, settings.max_user_connections),
        ];
        for (kind, slots_max) in kinds {
            self.limits.lending.worker_quota.set_default(kind, slots_max);
            if let Some(ledger) = &mut self.limits.lending.ledger {
                ledger.set_default(kind, slots_max, &mut answers);
            }
        }
        // Users that were removed from [users] have the default limits again.
        for name in
            std::mem::take(&mut self.limits.lending.own).iter().filter(|name| !settings.users.contains_key(*name))
        {
            for key in [LedgerKey::UserClients(name.clone()), LedgerKey::UserServers(name.clone())] {
                self.limits.lending.worker_quota.inherit_limit(&key);
                if let Some(ledger) = &mut self.limits.lending.ledger {
                    ledger.inherit_limit(&key, &mut answers);
                }
            }
        }
        self.limits.lending.own = settings.users.keys().cloned().collect();
        for (key, slots_max) in keyed {
            self.limits.lending.worker_quota.set_limit(key.clone(), slots_max);
            if let Some(ledger) = &mut self.limits.lending.ledger {
                ledger.set_limit(key, slots_max, &mut answers);
            }
        }
        self.send_answers(answers);
    }

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
            if self.limits.lending.worker_quota.is_asking(&slot, key.to_bits()) {
                continue;
            }
            if self.take(&slot, key.to_bits(), Patience::Now) == Taken::Took
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
                let user = self.registry.users[ready.session.user as usize].name.clone();
                Some((user, self.registry.pool(ready.pool)?.database_name.clone()))
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
        let is_limited =
            self.hands.active.settings.max_user_connections(&self.registry.users[number as usize].name).is_some();
        self.pools.set_user_limit(number, is_limited);
    }

    /// Takes a slot among all clients (`max_client_conn`); the one among its user's clients is taken after
    /// authentication. Returns whether the client has it at once; otherwise the ledger answers.
    pub(crate) fn take_client_slot(&mut self, key: Key) -> bool {
        self.take(&LedgerKey::Clients, key.to_bits(), Patience::Now) == Taken::Took
    }

    /// The user slot that a client has to take, if its user is limited.
    pub(crate) fn user_slot(&self, key: Key) -> Option<LedgerKey> {
        let subject = self.subject(key)?;
        self.user_key(subject.user, subject.database)
    }

    /// Takes that slot. Returns whether the client has it at once; otherwise the ledger answers.
    pub(crate) fn take_user_slot(&mut self, key: Key, user: &LedgerKey) -> bool {
        self.take(user, key.to_bits(), Patience::Now) == Taken::Took
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
        self.registry.databases[database as usize].unused_since = None;
        self.count_in(key, database);
    }

    /// Whether the database may have one more client.
    ///
    /// # Errors
    /// The database has as many clients as it may have.
    pub(crate) fn room_in(&self, database: u32, entry: &Database) -> Result<(), Fault> {
        match self.hands.active.settings.max_db_client_connections(entry) {
            Some(limit) if is_full(self.registry.databases[database as usize].clients, limit) => {
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
        let place = &mut self.registry.databases[database as usize];
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
        self.registry.databases[database as usize].clients += 1;
        self.registry.users[user as usize].clients += 1;
        if let Some(client) = self.clients.get_mut(key) {
            client.slots.counted = Some((database, user));
        }
    }

    /// Gives back the slots of a client that goes.
    pub(crate) fn unseat(&mut self, key: Key, client: &Client) {
        self.hands.posts.unauthenticated.give_back(&client.peer, client.slots.unauthenticated);
        if let Some((database, user)) = client.slots.counted {
            self.registry.databases[database as usize].clients -= 1;
            self.registry.users[user as usize].clients -= 1;
        }
        if client.slots.has_user_slot {
            let name = match &client.stage {
                ClientStage::Login(login) => login.request().user.clone(),
                ClientStage::Ready(ready) => self.registry.users[ready.session.user as usize].name.clone(),
                ClientStage::Console(console) => Arc::from(console.user()),
                ClientStage::Greeting(_) | ClientStage::Cancelling(_) => return,
            };
            self.give(&LedgerKey::UserClients(name));
        }
        if gives_slot_back(client.slots.has_client_slot, matches!(client.stage, ClientStage::Login(_))) {
            self.give(&LedgerKey::Clients);
        }
        if let ClientStage::Login(login) = &client.stage {
            // The client may still wait for the ledger's answer. An answer already on its way finds no client, and its
            // slot is given back then.
            let user = LedgerKey::UserClients(login.request().user.clone());
            let mut letters = Vec::new();
            self.limits.lending.worker_quota.withdraw(&LedgerKey::Clients, key.to_bits(), &mut letters);
            self.limits.lending.worker_quota.withdraw(&user, key.to_bits(), &mut letters);
            self.send_letters(letters);
        }
    }

    /// A pool needs one more server of a limited user.
    pub(crate) fn ask_ledger(&mut self, user: u32, need: Need) {
        let patience = if need == Need::Client { Patience::Wait } else { Patience::Now };
        let key = self.servers_key(user);
        if self.take(&key, claim_of(user, need), patience) == Taken::Took {
            self.tell_pools(Event::Granted { user, need });
        }
    }

    pub(crate) fn withdraw_from_ledger(&mut self, user: u32) {
        let key = self.servers_key(user);
        let mut letters = Vec::new();
        self.limits.lending.worker_quota.withdraw(&key, claim_of(user, Need::Client), &mut letters);
        self.send_letters(letters);
    }

    pub(crate) fn give_back_to_ledger(&mut self, user: u32) {
        let key = self.servers_key(user);
        self.give(&key);
    }

    fn servers_key(&self, user: u32) -> LedgerKey {
        LedgerKey::UserServers(self.registry.users[user as usize].name.clone())
    }

    pub(crate) fn take(&mut self, key: &LedgerKey, claimant: u64, patience: Patience) -> Taken {
        let mut letters = Vec::new();
        let taken = self.limits.lending.worker_quota.take(key, claimant, patience, &mut letters);
        self.send_letters(letters);
        taken
    }

    pub(crate) fn give(&mut self, key: &LedgerKey) {
        let mut letters = Vec::new();
        self.limits.lending.worker_quota.give(key, &mut letters);
        self.send_letters(letters);
    }

    pub(crate) fn send_letters(&mut self, letters: Vec<Letter>) {
        for letter in letters {
            match &mut self.limits.lending.ledger {
                Some(ledger) => {
                    let mut answers = Vec::new();
                    ledger.handle(self.hands.id, letter, &mut answers);
                    self.send_answers(answers);
                }
                None => (self.hands.posts.workers[0])(ToWorker::Ledger { from: self.hands.id, letter }),
            }
        }
    }

    /// Handles a letter from another worker to the ledger.
    pub(crate) fn ledger_hears(&mut self, from: WorkerId, letter: Letter) {
        let mut answers = Vec::new();
        if let Some(ledger) = &mut self.limits.lending.ledger {
            ledger.handle(from, letter, &mut answers);
        }
        self.send_answers(answers);
    }

    fn send_answers(&mut self, answers: Vec<(WorkerId, Answer)>) {
        for (worker, answer) in answers {
            // Answers to ourselves go by letter as well, because the caller that asked is still running.
            (self.hands.posts.workers[usize::from(worker.0)])(ToWorker::WorkerQuota(answer));
        }
    }

    /// Handles an answer of the ledger.
    pub(crate) fn worker_quota_hears(&mut self, answer: Answer) {
        let (mut outcomes, mut letters) = (Vec::new(), Vec::new());
        self.limits.lending.worker_quota.handle(answer, &mut outcomes, &mut letters);
        self.send_letters(letters);
        for outcome in outcomes {
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

pub(crate) fn read_claim(claim: u64) -> (u32, Need) {
    ((claim >> 1) as u32, if claim & 1 == 1 { Need::Minimum } else { Need::Client })
}
