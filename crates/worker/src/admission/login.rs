//! A client's login: its slot among all clients, and its authentication.
//!
//! Always true: a refused client learns nothing that a stranger should not know: an unknown user goes through the same
//! steps as a wrong password, and only an authenticated client is told that a database does not exist.
//! Not here: the authentication exchange (`protocol::client::login`), the limits (`limits::shared_slots`), answers of
//! other threads (`answers`), how the client reaches its pool (`entry`, `welcome`).

use std::sync::Arc;

use auth::Secret;
use base::Key;
use measure::LoginStep;
use pool::LedgerKey;
use protocol::client::login::{Dice, Known, Login, Method, PASSWORD_MESSAGE_BYTES_MAX, Step};
use protocol::fault::Fault;
use protocol::vars::Vars;
use reactor::{Io, Level, Receive};
use wire::{Scanner, Step as Found, frontend};

use crate::admin::console::CONSOLE;
use crate::admission::applicant::{Demand, Entry, LoginWait, Proof, Recheck};
use crate::data::client::{Client, ClientStage};
use crate::letters::{Inquirer, ToControl};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The client is at its home worker.
    pub(crate) fn begin_login(&mut self, key: Key, early: &[u8]) {
        let Some(login) = self.clients.login_mut(key) else { return };
        login.unread.extend_from_slice(early);
        if self.may_knock(key) {
            self.take_place(key);
        }
    }

    /// Has the client take a slot of `max_client_conn`.
    pub(crate) fn take_place(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        let ClientStage::Login(login) = &client.stage else { return };
        let (is_own, is_at_console) = (client.is_own, *login.request.database == *CONSOLE);
        if is_own {
            self.admit_own(key);
        } else if is_at_console {
            // Console clients need no slot: an operator must be able to connect when all are taken.
            self.prove(key);
        } else {
            if self.take_client_slot(key) {
                self.client_slot_taken(key);
            }
        }
    }

    /// The client has its slot: begins its authentication.
    pub(crate) fn prove(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let ClientStage::Login(login) = &mut client.stage else { return };
        login.step = LoginStep::Password;
        let (user, database) = (login.request.user.clone(), login.request.database.clone());
        let peer = client.peer;
        let mut out = Vec::new();
        login.request.negotiate(&mut out);
        self.log_attempt(key, &database, &user);
        self.send_to_client(key, out);
        // Whoever has no right at the console is told so after the proof: an earlier refusal would tell strangers which
        // names are those of admins.
        let right = if *database == *CONSOLE { self.console_right(&user, peer) } else { None };
        if matches!(right, Some(Entry::Open(_))) {
            self.passed(key, None);
            return;
        }
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
                let Some(login) = self.clients.login_mut(key) else { return };
                login.wait_for(LoginWait::Secret(demand));
                (self.hands.posts.control)(ToControl::AskSecret(question));
            }
            // Whom the console refuses anyway is checked against a mock secret: an error would differ from what a user with a
            // secret reads.
            Err(_) if *database == *CONSOLE && right.is_none() => self.ask_proof(key, demand, None),
            Err(fault) => self.fail_client(key, &fault),
        }
    }

    /// Asks the client for its proof; `reported_secret` is the secret of its user as a server has reported it.
    pub(crate) fn ask_proof(&mut self, key: Key, demand: Demand, reported_secret: Option<Arc<Secret>>) {
        let Some(Client { stage: ClientStage::Login(login), security, .. }) = self.clients.get_mut(key) else { return };
        let user = login.request.user.clone();
        let channel = security.as_ref().and_then(|security| security.end_point.clone());
        let mut authenticator = None;
        let method = match demand {
            Demand::Judgement(known) => {
                authenticator = Some(known);
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
                login.wait_for(LoginWait::SystemUser { map });
                self.ask_system_user(key, uid);
                return;
            }
            Demand::Proof(method) => method,
        };
        let is_old = login.is_secret_cached;
        let known = match self.known(&user, method, reported_secret.clone()) {
            Ok(known) => Known { channel, ..known },
            Err(secret) => {
                self.hash_secret(key, method, reported_secret, secret);
                return;
            }
        };
        let is_scram = method == Method::Scram || matches!(known.secret.as_deref(), Some(Secret::Scram(_)));
        if known.secret.is_none() && authenticator.is_none() {
            self.log_client(key, Level::Log, format_args!("no such user: {user}"));
        }
        let mut dice = Dice { salt: [0; 4], nonce: [0; auth::scram::NONCE_BYTES] };
        self.hands.io.randomness(&mut dice.salt);
        self.hands.io.randomness(&mut dice.nonce);
        let mut out = Vec::new();
        match Login::begin(method, known, dice, &mut out) {
            Ok(Step::Passed(keys)) => {
                self.send_to_client(key, out);
                self.passed(key, keys);
            }
            Ok(Step::ExternalAuth(_) | Step::Derive(..)) => {
                unreachable!("nothing can be judged before it is asked for")
            }
            Ok(Step::Ask(asked)) => {
                self.send_to_client(key, out);
                let Some(client) = self.clients.get_mut(key) else { return };
                let ClientStage::Login(login) = &mut client.stage else { return };
                // A response to SCRAM was computed with the old secret's salt, and says nothing about another secret.
                let again = (is_old && (method == Method::Plain || !is_scram)).then_some((method, dice));
                let proof = Proof { login: asked, authenticator, scanner: Scanner::default(), body: Vec::new(), again };
                login.wait_for(LoginWait::Proof(Box::new(proof)));
                self.hands.io.receive(client.conn, Receive::Stream);
                let unread = std::mem::take(&mut login.unread);
                self.read_proof(key, &unread);
            }
            Err(fault) => {
                self.login_failed_line(key);
                self.fail_client(key, &fault);
            }
        }
    }

    /// Handles bytes of a client during its login.
    pub(crate) fn login_received(&mut self, key: Key, bytes: &[u8]) {
        let Some(login) = self.clients.login_mut(key) else { return };
        if matches!(login.waits, LoginWait::Proof(_)) {
            self.read_proof(key, bytes);
        } else if login.unread.len() + bytes.len() > UNREAD_BYTES_MAX {
            self.fail_client(key, &Fault::UnknownMessage);
        } else {
            login.unread.extend_from_slice(bytes);
        }
    }

    fn read_proof(&mut self, key: Key, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let Some(client) = self.clients.get_mut(key) else { return };
            let proof = match &mut client.stage {
                ClientStage::Login(login) => match &mut login.waits {
                    LoginWait::Proof(proof) => proof,
                    _ => {
                        // The response was complete; the rest is looked at later.
                        self.login_received(key, &bytes[at..]);
                        return;
                    }
                },
                _ => {
                    self.hear_early(key, bytes[at..].to_vec());
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

    fn check_proof(&mut self, key: Key) {
        let Some(login) = self.clients.login_mut(key) else { return };
        let LoginWait::Proof(proof) = std::mem::replace(&mut login.waits, LoginWait::Slot) else { return };
        let mut out = Vec::new();
        let Proof { login: asked, authenticator, scanner, body, again } = *proof;
        match asked.answer(&body, &mut out) {
            Ok(Step::Passed(keys)) => {
                self.send_to_client(key, out);
                self.passed(key, keys);
            }
            Ok(Step::ExternalAuth(password)) => {
                // A password for an external authenticator is only asked for when there is one.
                let Some(authenticator) = authenticator else { return self.fail_client(key, &Fault::Unservable) };
                self.ask_external_auth(key, authenticator, password);
            }
            Ok(Step::Derive(unproved, derivation)) => {
                let fault = Fault::PasswordWrong;
                let again = again.map(|(method, dice)| Recheck { method, dice, body, fault });
                self.hash_proof(key, unproved, derivation, again);
            }
            Ok(Step::Ask(next)) => {
                let proof = Proof { login: next, authenticator, scanner, body: Vec::new(), again };
                login.wait_for(LoginWait::Proof(Box::new(proof)));
                self.send_to_client(key, out);
            }
            Err((fault, why)) => {
                if let Some(why) = why {
                    self.log_client(key, Level::Log, format_args!("SCRAM authentication failed: {why}"));
                }
                let again = again.map(|(method, dice)| Recheck { method, dice, body, fault: fault.clone() });
                self.disproved(key, &fault, again);
            }
        }
    }

    /// The client's proof does not fit. It is checked against another secret, if there may be one.
    pub(crate) fn disproved(&mut self, key: Key, fault: &Fault, again: Option<Recheck>) {
        if !self.doubt_secret(key, again) {
            self.login_failed_line(key);
            self.fail_client(key, fault);
        }
    }

    /// The control thread connects for queries of its own.
    fn admit_own(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Login(login), is_listener, .. }) = self.clients.get_mut(key) else {
            return;
        };
        let is_listener = *is_listener;
        if !is_listener {
            // It takes the parameters of the server as they are.
            login.request.vars = Vars::new(&self.hands.active.tracked);
        }
        let (user, name) = (login.request.user.clone(), login.request.database.clone());
        match self.hands.active.settings.database(&name) {
            Some(entry) => {
                // It logs in as the user that it names, also where `user=` makes clients share one: what they leave
                // behind on their servers must not affect the answer. The shared `LISTEN` client uses the servers of
                // the clients.
                let shared = entry.user.clone().filter(|_| is_listener);
                let database = self.registry.database(&entry.name, Some(entry.clone()));
                if is_listener {
                    self.listener_comes(key, database);
                }
                self.enter_pool(key, database, &entry, shared.as_deref().unwrap_or(&user), None);
            }
            None => self.fail_client(key, &Fault::NoSuchDatabase { name: (&*name).into() }),
        }
    }

    pub(crate) fn client_slot_taken(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else {
            self.limits.give_back(&LedgerKey::Clients, &self.hands);
            return;
        };
        client.slots.has_client_slot = true;
        // A client that would be rejected in any case is not asked for a password; the limit of the database is
        // reported before that of the user.
        let newcomer = match &client.stage {
            ClientStage::Login(login) if login.waits_for().is_none() => Some(&login.request.database),
            _ => None,
        };
        let is_newcomer = newcomer.is_some();
        let full = newcomer.and_then(|name| self.registry.known_database(name)).and_then(|database| {
            let entry = self.registry.database_at(database).entry.as_deref()?;
            self.room_in(database, entry).err()
        });
        match full {
            Some(fault) => self.fail_client(key, &fault),
            None if is_newcomer => self.prove(key),
            // The client comes from another process, which has authenticated it.
            None => {
                if let Some(user) = self.user_slot(key)
                    && self.take_user_slot(key, &user)
                {
                    self.user_slot_taken(key, &user);
                }
            }
        }
    }
}

/// Bytes that a client may send before it is let in.
const UNREAD_BYTES_MAX: usize = 65_536;
