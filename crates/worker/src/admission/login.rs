//! A client's login: limits, proof, and the wait for the first server of its pool.
//!
//! Always true: who is refused learns nothing that a stranger should not know: somebody unknown goes the whole way of
//! somebody with a wrong password, and a database that does not exist is told only to who has proved itself.
//! Not here: how a proof goes (`protocol::client::login`), which limits there are (`limits::shared_slots`).

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use auth::{ScramKeys, Secret};
use base::Key;
use base::planted::{self, Planted};
use config::Database;
use pool::{Event, PoolKey};
use protocol::client::greeting::{with_given, write_welcome};
use protocol::client::login::{Dice, Known, Login, Method, PASSWORD_MESSAGE_BYTES_MAX, Step};
use protocol::fault::Fault;
use protocol::loan::{ClientSession, shared};
use protocol::vars::Vars;
use reactor::{Io, Level, Peer, Receive};
use wire::{Scanner, Step as Found, frontend};

use crate::admin::console::CONSOLE;
use crate::admission::applicant::{Proof, Waits};
use crate::admission::proof::{Demand, Entry};
use crate::admission::secrets::Again;
use crate::data::client::{Client, Link, Ready, Stage};
use crate::data::taken::Taken;
use crate::letters::{Inquirer, ToControl};
use crate::places::{Doubt, PoolPlace, Welcome};
use crate::turn::Worker;
use crate::upstream::introduction::begun_with;

impl<I: Io> Worker<I> {
    /// The client is at its home.
    pub(crate) fn begin_login(&mut self, key: Key, early: &[u8]) {
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return };
        login.said.extend_from_slice(early);
        if self.may_knock(key) {
            self.take_place(key);
        }
    }

    /// First it needs a place.
    pub(crate) fn take_place(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        let Stage::Login(login) = &client.stage else { return };
        let (is_own, is_at_console) = (client.is_own, *login.request.database == *CONSOLE);
        if is_own {
            self.admit_own(key);
        } else if is_at_console {
            // Whoever has to mend what is full must come in.
            self.prove(key);
        } else {
            self.take_client_slot(key);
        }
    }

    /// The client has its place: now who is it?
    pub(crate) fn prove(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        let Stage::Login(login) = &client.stage else { return };
        let (user, database) = (login.request.user.clone(), login.request.database.clone());
        let peer = client.peer;
        let mut out = Vec::new();
        login.request.negotiate(&mut out);
        self.log_attempt(key, &database, &user);
        if *database == *CONSOLE {
            match self.console_right(&user, peer) {
                Some(Entry::Open(_)) => {
                    self.send_to_client(key, out);
                    self.passed(key, None);
                    return;
                }
                Some(Entry::ByProof(_)) => {}
                None => {
                    self.login_failed_line(key);
                    self.fail_client(key, &Fault::ConsoleForbidden);
                    return;
                }
            }
        }
        self.send_to_client(key, out);
        let demand = self.demand(key, peer, &database, &user);
        let needs_no_secret = matches!(demand, Demand::Nothing | Demand::Refusal(_) | Demand::Judgement(_));
        if needs_no_secret || self.has_secret(&user) {
            self.ask_proof(key, demand, None);
            return;
        }
        match self.secret_question(Inquirer::Client(key), &database, &user) {
            Ok(None) => self.ask_proof(key, demand, None),
            Ok(Some(question)) => {
                if let Some(secret) = self.remembered_secret(key) {
                    self.ask_proof(key, demand, Some(secret));
                    return;
                }
                let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return };
                login.waits = Waits::Secret(demand);
                (self.posts.control)(ToControl::AskSecret(question));
            }
            Err(fault) => self.fail_client(key, &fault),
        }
    }

    /// Has the client show what it has to; `told` is the secret that a server has told of its user.
    pub(crate) fn ask_proof(&mut self, key: Key, demand: Demand, told: Option<Arc<Secret>>) {
        let Some(Client { stage: Stage::Login(login), security, .. }) = self.clients.get_mut(key) else { return };
        let user = login.request.user.clone();
        let channel = security.as_ref().and_then(|security| security.end_point.clone());
        let mut judge = None;
        let method = match demand {
            Demand::Judgement(known) => {
                judge = Some(known);
                Method::Elsewhere
            }
            Demand::Nothing => {
                self.passed(key, None);
                return;
            }
            Demand::Refusal(fault) => {
                self.fail_client(key, &fault);
                return;
            }
            Demand::SystemUser { uid, map } => {
                login.waits = Waits::SystemUser { map };
                self.ask_system_user(key, uid);
                return;
            }
            Demand::Proof(method) => method,
        };
        let is_old = login.is_told_before;
        let known = match self.known(&user, method, told.clone()) {
            Ok(known) => Known { channel, ..known },
            Err(secret) => {
                self.hash_secret(key, method, told, secret);
                return;
            }
        };
        let is_scram = method == Method::Scram || matches!(known.secret.as_deref(), Some(Secret::Scram(_)));
        if known.secret.is_none() && judge.is_none() {
            let line = self.client_prefix(key);
            self.log.add(Level::Log, format_args!("{line}no such user: {user}"));
        }
        let mut dice = Dice { salt: [0; 4], nonce: [0; auth::scram::NONCE_BYTES] };
        self.io.randomness(&mut dice.salt);
        self.io.randomness(&mut dice.nonce);
        let mut out = Vec::new();
        match Login::begin(method, known, dice, &mut out) {
            Ok(Step::Passed(keys)) => {
                self.send_to_client(key, out);
                self.passed(key, keys);
            }
            Ok(Step::Judge(_) | Step::Derive(..)) => unreachable!("nothing can be judged before it is asked for"),
            Ok(Step::Ask(asked)) => {
                self.send_to_client(key, out);
                let Some(client) = self.clients.get_mut(key) else { return };
                let Stage::Login(login) = &mut client.stage else { return };
                // What answers SCRAM was made from the old secret's salt, and says nothing about another one.
                let again = (is_old && (method == Method::Plain || !is_scram)).then_some((method, dice));
                let proof = Proof { login: asked, judge, scanner: Scanner::default(), body: Vec::new(), again };
                login.waits = Waits::Proof(Box::new(proof));
                self.io.receive(client.conn, Receive::Stream);
                let said = std::mem::take(&mut login.said);
                self.read_proof(key, &said);
            }
            Err(fault) => {
                self.login_failed_line(key);
                self.fail_client(key, &fault);
            }
        }
    }

    /// A client says something during its login.
    pub(crate) fn login_received(&mut self, key: Key, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        if matches!(login.waits, Waits::Proof(_)) {
            self.read_proof(key, bytes);
        } else if login.said.len() + bytes.len() > SAID_BYTES_MAX {
            self.fail_client(key, &Fault::UnknownMessage);
        } else {
            login.said.extend_from_slice(bytes);
        }
    }

    fn read_proof(&mut self, key: Key, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let Some(client) = self.clients.get_mut(key) else { return };
            let proof = match &mut client.stage {
                Stage::Login(login) => match &mut login.waits {
                    Waits::Proof(proof) => proof,
                    _ => {
                        // The proof was complete; the rest is for later.
                        self.login_received(key, &bytes[at..]);
                        return;
                    }
                },
                _ => {
                    self.said_early(key, bytes[at..].to_vec());
                    return;
                }
            };
            let piece = match proof.scanner.next(bytes, at, PASSWORD_MESSAGE_BYTES_MAX) {
                Found::Piece(piece) => piece,
                Found::More => return,
                Found::Bad { .. } => {
                    let header = *proof.scanner.header();
                    self.fail_client(key, &Fault::BadHeader { header });
                    return;
                }
            };
            match piece.kind {
                frontend::PASSWORD => {}
                frontend::TERMINATE => {
                    self.part_from_client(key, "client close request");
                    return;
                }
                _ => {
                    self.fail_client(key, &Fault::UnknownMessage);
                    return;
                }
            }
            proof.body.extend_from_slice(&bytes[piece.body.clone()]);
            at = piece.range.end;
            if piece.is_last() {
                self.check_proof(key);
            }
        }
    }

    /// What a client said before it was let in is its first request.
    pub(crate) fn said_early(&mut self, key: Key, said: Vec<u8>) {
        match self.clients.get(key).map(|client| &client.stage) {
            Some(Stage::Ready(_)) if !said.is_empty() => self.hear(key, said.into()),
            Some(Stage::Console(_)) => self.console_received(key, &said),
            _ => {}
        }
    }

    fn check_proof(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        let Waits::Proof(proof) = std::mem::replace(&mut login.waits, Waits::Slot) else { return };
        let mut out = Vec::new();
        let Proof { login: asked, judge, scanner, body, again } = *proof;
        match asked.answer(&body, &mut out) {
            Ok(Step::Passed(keys)) => {
                self.send_to_client(key, out);
                self.passed(key, keys);
            }
            Ok(Step::Judge(password)) => {
                // Who is asked for a password that is known elsewhere has somebody who judges it.
                let Some(judge) = judge else { return self.fail_client(key, &Fault::Unservable) };
                self.ask_judge(key, judge, password);
            }
            Ok(Step::Derive(unproved, derivation)) => {
                let fault = Fault::PasswordWrong;
                let again = again.map(|(method, dice)| Again { method, dice, body, fault });
                self.hash_proof(key, unproved, derivation, again);
            }
            Ok(Step::Ask(next)) => {
                let proof = Proof { login: next, judge, scanner, body: Vec::new(), again };
                login.waits = Waits::Proof(Box::new(proof));
                self.send_to_client(key, out);
            }
            Err((fault, why)) => {
                if let Some(why) = why {
                    let line = self.client_prefix(key);
                    self.log.add(Level::Log, format_args!("{line}SCRAM authentication failed: {why}"));
                }
                let again = again.map(|(method, dice)| Again { method, dice, body, fault: fault.clone() });
                self.disproved(key, &fault, again);
            }
        }
    }

    /// What the client has shown does not fit. It may be judged by another secret, if there may be one.
    pub(crate) fn disproved(&mut self, key: Key, fault: &Fault, again: Option<Again>) {
        if !self.doubt_secret(key, again) {
            self.login_failed_line(key);
            self.fail_client(key, fault);
        }
    }

    /// The control thread comes with a question of its own.
    fn admit_own(&mut self, key: Key) {
        let Some(Client { stage: Stage::Login(login), is_listener, .. }) = self.clients.get_mut(key) else { return };
        let is_listener = *is_listener;
        if !is_listener {
            // It takes a server as it comes: no parameter is set for it.
            login.request.vars = Vars::new(&self.force.tracked);
        }
        let (user, name) = (login.request.user.clone(), login.request.database.clone());
        match self.force.settings.database(&name) {
            Some(entry) => {
                // As itself, also where clients share one user: what they leave on their servers must not answer. Who listens for them is
                // one of them.
                let shared = entry.user.clone().filter(|_| is_listener);
                let database = self.places.database(&entry.name, Some(entry.clone()));
                if is_listener {
                    self.listener_comes(key, database);
                }
                self.enter_pool(key, database, &entry, shared.as_deref().unwrap_or(&user), None);
            }
            None => self.fail_client(key, &Fault::NoSuchDatabase { name }),
        }
    }

    /// The client belongs to the pool of this user on the server: it is greeted as soon as the pool knows how.
    pub(crate) fn enter_pool(
        &mut self,
        key: Key,
        database: u32,
        entry: &Database,
        on_server: &str,
        keys: Option<ScramKeys>,
    ) {
        let pool = self.pool_for(database, entry, on_server);
        if let (Some(keys), None, Some(place)) = (keys, &entry.user, self.places.pool_mut(pool)) {
            place.keys = Some(keys);
        }
        let Some(client) = self.clients.get_mut(key) else { return };
        let is_own = client.is_own;
        let Stage::Login(login) = &mut client.stage else { return };
        let told = login.told.take().filter(|_| *login.request.user == *on_server);
        let judged = login.judged.take().filter(|_| *login.request.user == *on_server);
        if let Some(place) = self.places.pool_mut(pool).filter(|_| !is_own) {
            place.judged = judged;
            if told.is_some() {
                (place.told, place.doubt) = (told, Doubt::None);
            }
        }
        login.waits = Waits::Welcome { pool, since: self.now };
        let wants_stream = login.request.replication.is_some() && !is_own;
        self.io.receive(client.conn, Receive::Stream);
        if wants_stream {
            self.want_private(key, pool);
        } else if self.places.pool(pool).is_some_and(|place| place.welcome_for(is_own).is_some()) {
            self.welcome(key);
        } else {
            self.tell_pools(Event::Greets { pool, client: key });
            self.arm_client(key);
        }
    }

    /// The pool of a user on a database; opened when it is the first who asks.
    pub(crate) fn pool_for(&mut self, database: u32, entry: &Database, on_server: &str) -> PoolKey {
        let number = self.places.user(on_server, &self.force.settings);
        if let Some(pool) = self.places.pool_key(database, number) {
            return pool;
        }
        self.limit_user(number);
        let limit = self.force.settings.max_db_connections(entry).unwrap_or(0);
        self.pools.set_database_limit(database, limit);
        let limits = self.force.settings.pool_limits(entry, on_server);
        let pool = self.pools.open(self.now, database, number, limits);
        let user_name = self.places.users[number as usize].name.clone();
        let database_name = self.places.databases[database as usize].name.clone();
        self.places.insert_pool(
            pool,
            PoolPlace {
                database,
                database_name,
                user: number,
                user_name,
                mode: limits.mode,
                follows: self.force.settings.follows_state(entry, on_server),
                pin_rules: Rc::new(self.force.settings.pin_rules(entry, on_server)),
                welcome: None,
                welcome_before: None,
                latest: None,
                taken: Taken::default(),
                keys: None,
                salted: None,
                cancels: 0,
                is_paused: false,
                unused_since: None,
                told: None,
                doubt: Doubt::None,
                judged: None,
            },
        );
        self.arm_sweep();
        if !planted::is(Planted::PauseUnknownToNewPools) {
            self.stand(pool);
        }
        pool
    }

    /// Opens the pools that have a minimum and need no client to know their user.
    pub(crate) fn open_forced_pools(&mut self) {
        let force = self.force.clone();
        for (name, entry) in &force.settings.databases {
            let Some(user) = entry.user.clone() else { continue };
            let has_minimum = force.settings.pool_limits(entry, &user).servers_min > 0;
            if has_minimum && force.homes.home_of(name) == self.id {
                let database = self.places.database(name, Some(entry.clone()));
                self.pool_for(database, entry, &user);
            }
        }
    }

    /// The parameters of the pool's servers are known: the client may send queries.
    pub(crate) fn welcome(&mut self, key: Key) {
        let Some(Client { stage: Stage::Login(login), peer, is_own, .. }) = self.clients.get(key) else { return };
        let Some(pool) = login.waits_for() else { return };
        let Some(place) = self.places.pool(pool) else { return };
        let Some(welcome) = place.welcome_for(*is_own).cloned() else { return };
        let mut vars = login.request.vars.clone();
        if self.force.settings.application_name_add_host && !*is_own {
            add_host(&mut vars, self.force.tracked.application_name(), *peer, self.force.settings.listen_port);
        }
        vars.fill_from(&welcome.vars);
        let vars = if vars == *welcome.vars { welcome.vars.clone() } else { self.known_vars.share(vars) };
        self.let_in(key, pool, &welcome, vars, Link::None);
    }

    /// Tells a client that it is let in, by what server it has a link to, and what it may know of its servers.
    pub(crate) fn let_in(&mut self, key: Key, pool: PoolKey, welcome: &Welcome, vars: Rc<Vars>, link: Link) {
        let Some(Client { stage: Stage::Login(login), is_own, .. }) = self.clients.get(key) else { return };
        let is_own = *is_own;
        let (user_name, replication) = (login.request.user.clone(), login.request.replication);
        let minor = login.request.minor;
        let given = login.request.settings.clone();
        let mut placeholders = 0;
        if let Some((database, user)) = self.places.pool(pool).map(|place| (place.database, place.user)) {
            let learned = &mut self.places.databases[database as usize].learned;
            let names = given.iter().map(|(name, _)| name).filter(|name| name.contains('.'));
            placeholders = learned.custom.mention(user, names, self.now);
        }
        if let Some(place) = self.places.pool_mut(pool).filter(|place| place.follows && !is_own) {
            place.latest = Some(vars.clone());
        }
        let user = self.places.user(&user_name, &self.force.settings);
        let cancel_key = self.give_cancel_key(key, minor);
        let mut out = Vec::with_capacity(welcome.fixed.len() + 256);
        let notice = self.force.settings.login_notify_message.as_deref();
        let follows = !given.is_empty() && matches!(link, Link::None);
        let fixed =
            if follows { Cow::Owned(with_given(&welcome.fixed, &given)) } else { Cow::Borrowed(&*welcome.fixed) };
        write_welcome(&mut out, &fixed, &vars, &self.force.tracked, cancel_key.bytes(), notice);
        let Some(client) = self.clients.get_mut(key) else { return };
        let given = shared(given);
        let overrides = if matches!(link, Link::None) { begun_with(&welcome.begun, &given) } else { given.clone() };
        let session = ClientSession { given, overrides, placeholders, ..ClientSession::new(user, vars) };
        let mut ready = Ready { link, replication, ..Ready::new(pool, session, cancel_key) };
        if ready.session.overrides.as_ref().is_some_and(|overrides| !overrides.statements().is_empty()) {
            ready.session.traces.get_or_insert_default().begin_with_statements();
        }
        let ready = Stage::Ready(ready);
        let Stage::Login(login) = std::mem::replace(&mut client.stage, ready) else { return };
        client.answered = self.now;
        if let Some((timer, _)) = client.timer.take() {
            self.timers.remove(timer);
        }
        self.io.send(client.conn, out.into());
        self.io.receive(client.conn, Receive::Stream);
        self.said_early(key, login.said);
        if self.places.has_idle_timeouts {
            self.arm_client(key);
        }
    }

    pub(crate) fn send_to_client(&mut self, key: Key, out: Vec<u8>) {
        if let Some(client) = self.clients.get(key).filter(|_| !out.is_empty()) {
            self.io.send(client.conn, out.into());
        }
    }

    pub(crate) fn login_failed_line(&mut self, key: Key) {
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get(key) else { return };
        let (user, database) = (login.request.user.clone(), login.request.database.clone());
        let line = self.client_prefix(key);
        self.log.add(Level::Log, format_args!("{line}login failed: db={database} user={user}"));
    }
}

/// Appends the client's address to its `application_name` (`application_name_add_host`).
pub(crate) fn add_host(vars: &mut Vars, place: usize, peer: Peer, port: u16) {
    let from = match peer {
        Peer::Tcp(address) => address.to_string(),
        Peer::Unix { pid, .. } => format!("unix({pid}):{port}"),
    };
    let name = vars.get(place).filter(|name| !name.is_empty()).unwrap_or("app").to_owned();
    vars.set(place, &format!("{name} - {from}"));
}

/// What a client may say before it is let in.
const SAID_BYTES_MAX: usize = 65_536;
