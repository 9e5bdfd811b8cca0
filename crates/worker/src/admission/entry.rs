//! A client that has been authenticated is let in to its database or the console, if there is room.
//!
//! Always true: a client takes a slot of its user only after authentication, so that naming another user takes none of
//! that user's slots.
//! Not here: authentication (`login`), the slots (`limits::shared_slots`).

use std::rc::Rc;
use std::sync::Arc;

use auth::ScramKeys;
use base::Key;
use config::{Database, OneHost, SessionAttrs};
use measure::LoginOutcome;
use pool::LedgerKey;
use protocol::client::greeting;
use protocol::client::statuses::Statuses;
use protocol::fault::Fault;
use protocol::vars::Vars;
use reactor::{Io, Level, Peer, Receive};
use wire::write;

use crate::admin::console::{CONSOLE, ConsoleClient};
use crate::admission::applicant::{Entry, LoginWait};
use crate::data::client::{Client, ClientStage};
use crate::letters::Right;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The client has been authenticated.
    pub(crate) fn passed(&mut self, key: Key, keys: Option<ScramKeys>) {
        self.uncount_unauthenticated(key);
        let Some(login) = self.clients.login(key) else { return };
        if *login.request.database == *CONSOLE {
            self.come_in(key, keys);
        } else if let Some(keys) = self.may_come_in(key, keys) {
            self.come_in(key, keys);
        }
    }

    /// Takes a slot of the client's user. Not before authentication: a client that names another user would take that
    /// user's slot.
    pub(crate) fn come_in(&mut self, key: Key, keys: Option<ScramKeys>) {
        let Some(login) = self.clients.login_mut(key) else { return };
        login.wait_for(LoginWait::Admission { keys });
        let Some(slot) = self.user_slot(key) else {
            self.enter_database_or_console(key);
            return;
        };
        let Some(Client { stage: ClientStage::Login(login), peer, .. }) = self.clients.get(key) else { return };
        let (peer, user, name) = (*peer, login.request.user.clone(), login.request.database.clone());
        let is_at_console = *name == *CONSOLE;
        // An admin needs no slot, and one who may not enter is refused without.
        if is_at_console && (self.is_admin(&user) || self.console_right(&user, peer).is_none()) {
            self.enter_database_or_console(key);
            return;
        }
        // A client that cannot be let in for another reason takes no slot, and gets that error first.
        match self.destination(key, &name) {
            Err(fault) if !is_at_console => self.turn_away(key, &fault),
            _ => {
                if self.take_user_slot(key, &slot) {
                    self.user_slot_taken(key, &slot);
                }
            }
        }
    }

    /// The client has been authenticated and has its slots.
    pub(crate) fn enter_database_or_console(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Login(login), peer, .. }) = self.clients.get_mut(key) else { return };
        let Some(keys) = login.take_admission() else { return };
        let (peer, user, name) = (*peer, login.request.user.clone(), login.request.database.clone());
        if *name == *CONSOLE {
            match self.console_right(&user, peer) {
                Some(Entry::Open(right) | Entry::ByProof(right)) => self.enter_console(key, right),
                None => {
                    self.login_failed_line(key);
                    self.fail_client(key, &Fault::ConsoleForbidden);
                }
            }
            return;
        }
        let entry = self.destination(key, &name).and_then(|entry| Ok((self.asked_for(key, &entry)?, entry)));
        let (asked_for, entry) = match entry {
            Ok(entry) => entry,
            Err(fault) => {
                self.turn_away(key, &fault);
                return;
            }
        };
        let is_new = self.registry.known_database(&name).is_none();
        let database = self.registry.database(&entry.name, Some(entry.clone()));
        if entry.automatic && is_new {
            self.hands.log.add(Level::Log, format_args!("registered new auto-database: {name}"));
            self.arm_sweep();
        }
        self.count_for_database(key, database);
        self.registry.database_at_mut(database).totals.client_login_count += 1;
        let (database, entry) = match asked_for {
            Some(derived) => (self.registry.database(&derived.name, Some(derived.clone())), derived),
            None => (database, entry),
        };
        self.enter_pool(key, database, &entry, entry.user.as_deref().unwrap_or(&user), keys);
    }

    /// What is derived from a database for a client that asks for hosts of another kind (`trunkline.target_session_attrs`).
    ///
    /// # Errors
    /// A line of the configuration has its name, or the database has one host.
    fn asked_for(&self, key: Key, entry: &Database) -> Result<Option<Arc<Database>>, Fault> {
        let Some(login) = self.clients.login(key) else { return Ok(None) };
        let asked = login.request.target_session_attrs.as_deref().and_then(SessionAttrs::of_word);
        let Some(attrs) = asked else { return Ok(None) };
        let derived = entry.asked_for(attrs).map_err(|OneHost| Fault::TargetOneHost { name: (*entry.name).into() })?;
        let Some(derived) = derived else { return Ok(None) };
        if self.hands.active.settings.databases.contains_key(&derived.name) {
            return Err(Fault::TargetConfigured { name: (*derived.name).into() });
        }
        Ok(Some(Arc::new(derived)))
    }

    /// The database that an authenticated client has named.
    ///
    /// # Errors
    /// There is no such database, or it accepts no clients now, or no more clients.
    fn destination(&self, key: Key, name: &str) -> Result<Arc<Database>, Fault> {
        let is_named = |number: &u32| **self.registry.line_name(*number) == *name;
        let number = self.registry.known_database(name).filter(is_named);
        let entry = number.and_then(|number| self.registry.database_at(number).entry.clone());
        // A database that was added during the login may have another home worker: here it does not exist.
        let is_here = self.hands.active.homes.home_of(name) == self.hands.id;
        let entry = entry.or_else(|| self.hands.active.settings.database(name)).filter(|_| is_here);
        let entry = entry.ok_or_else(|| Fault::NoSuchDatabase { name: name.into() })?;
        if self
            .clients
            .get(key)
            .is_some_and(|client| !client.is_own && self.admin.shuts_out(client.is_on_unix_socket()))
        {
            return Err(Fault::ShuttingDown);
        }
        if self.hands.active.standing.disabled().contains(name) {
            return Err(Fault::DatabaseDisabled { name: name.into() });
        }
        number.map_or(Ok(()), |number| self.room_in(number, &entry))?;
        Ok(entry)
    }

    fn turn_away(&mut self, key: Key, fault: &Fault) {
        if matches!(fault, Fault::NoSuchDatabase { .. }) {
            self.login_failed_line(key);
        }
        self.fail_client(key, fault);
    }

    /// Lets a client into the console.
    pub(crate) fn enter_console(&mut self, key: Key, right: Right) {
        if let Err(fault) = self.seat_at_console(key, right) {
            self.fail_client(key, &fault);
            return;
        }
        let Some(Client { stage: ClientStage::Login(login), peer, .. }) = self.clients.get(key) else { return };
        let (user, given) = (login.request.user.clone(), login.request.vars.clone());
        let minor = login.request.minor;
        if *user == *CONSOLE && matches!(peer, Peer::Unix { .. }) {
            self.log_client(key, Level::Log, format_args!("pgbouncer access from unix socket"));
        }
        let tracked = &self.hands.active.tracked;
        let mut vars = Vars::new(tracked);
        let mut fixed = Vec::new();
        write::authentication(&mut fixed, 0, &[]);
        write::parameter_status(&mut fixed, "server_version", &format!("{VERSION}/bouncer"));
        write::parameter_status(&mut fixed, "server_encoding", "UTF8");
        write::parameter_status(&mut fixed, "is_superuser", "on");
        let own = [("client_encoding", "UTF8"), ("DateStyle", "ISO"), ("TimeZone", "GMT")];
        for (name, value) in own.into_iter().chain([("standard_conforming_strings", "on")]) {
            if let Some(place) = tracked.place(name) {
                vars.set(place, value);
            }
        }
        let application_name: Box<str> = given.get(tracked.application_name()).unwrap_or("").into();
        if !application_name.is_empty() {
            vars.set(tracked.application_name(), &application_name);
        }
        let cancel_key = self.cancel.draw_key(key, minor, &mut self.hands);
        let tracked = &self.hands.active.tracked;
        let vars = Rc::new(vars);
        let statuses = Statuses::new(vars.clone(), tracked);
        let out = greeting::welcome(&fixed, &statuses, &vars, tracked, cancel_key.bytes(), None);
        let Some(client) = self.clients.get_mut(key) else { return };
        let console = ConsoleClient::new(right, (&*user).into(), application_name, cancel_key);
        let ClientStage::Login(login) = std::mem::replace(&mut client.stage, ClientStage::Console(Box::new(console)))
        else {
            return;
        };
        if let Some((timer, _)) = client.timer.take() {
            self.hands.timers.remove(timer);
        }
        self.hands.io.send(client.conn, out.into());
        self.hands.io.receive(client.conn, Receive::Stream);
        let database = self.registry.database(&CONSOLE.into(), None);
        let totals = &mut self.registry.database_at_mut(database).totals;
        totals.client_login_count += 1;
        self.hands.connections.login_ends(login.step, LoginOutcome::Accepted);
        self.hear_early(key, login.unread);
    }

    pub(crate) fn user_slot_taken(&mut self, key: Key, user: &LedgerKey) {
        let Some(client) = self.clients.get_mut(key) else {
            self.limits.give_back(user, &self.hands);
            return;
        };
        client.slots.has_user_slot = true;
        self.enter_database_or_console(key);
    }
}

/// The version of PgBouncer whose console is imitated.
const VERSION: &str = "1.25.2";
