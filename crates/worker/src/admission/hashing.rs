//! Passwords that are to be hashed for SCRAM, which is slow by design: threads beside the workers do it, and the control thread
//! says in which order.
//!
//! Always true: nothing is hashed within a turn; who waits for it waits alone, and gives its place up when it leaves; a secret of
//! the users' file is hashed for one client at a time, and all who log in by it wait for that one.
//! Not here: the order (`control::hashings`), what is hashed and why (`protocol::client::login`, `protocol::server::login`).

use std::collections::BTreeSet;
use std::sync::Arc;

use auth::{Derivation, Password, SaltedPassword, ScramSecret, Secret};
use base::{Key, Origin, WorkerId};
use pool::{ClientKey, Failure, ServerKey};
use protocol::client::login::{Method, Unproved};
use protocol::fault::Fault;
use reactor::{Address, Io, Level, Receive};

use crate::admission::applicant::Waits;
use crate::admission::proof::Demand;
use crate::admission::secrets::Again;
use crate::data::client::{Client, Stage as ClientStage};
use crate::data::server::{Server, Stage as ServerStage};
use crate::letters::ToControl;
use crate::turn::Worker;

/// A password that is to be hashed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashQuestion {
    /// Who asks.
    pub from: WorkerId,
    /// For whom.
    pub asker: HashAsker,
    /// Who makes it necessary, as far as that is known.
    pub origin: Origin,
    /// What is to be done.
    pub derivation: Derivation,
}

/// Who needs a hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HashAsker {
    /// A client that logs in.
    Client(ClientKey),
    /// A server that is logged in to.
    Server(ServerKey),
}

/// What came of it, or why it was not done, for the log.
pub type Hashed = Result<Arc<SaltedPassword>, Arc<str>>;

/// What a client that logs in needs a hash for.
#[derive(Debug)]
pub(crate) enum Hashing {
    /// It has sent its password in clear text, and its user has a SCRAM secret.
    Proof {
        /// What the hash is held against.
        unproved: Unproved,
        /// What can be judged by another secret as well, if that does not fit.
        again: Option<Again>,
    },
    /// It is to be asked for SCRAM, and its user's secret is a password in clear text.
    Secret {
        /// Its user's number.
        user: u32,
        /// The secret.
        secret: Arc<Secret>,
        /// How it is to prove itself then.
        method: Method,
        /// What a server has told of its user's secret.
        told: Option<Arc<Secret>>,
    },
}

/// A user's secret that is being hashed, and the clients that wait for that.
#[derive(Debug)]
pub(crate) struct SecretHashing {
    secret: Arc<Secret>,
    derivation: Derivation,
    /// For whom it was asked.
    asker: Key,
    /// The others.
    waiting: BTreeSet<Key>,
}

impl Hashing {
    /// The user whose secret is hashed.
    pub(crate) fn user(&self) -> Option<u32> {
        match self {
            Self::Proof { .. } => None,
            Self::Secret { user, .. } => Some(*user),
        }
    }
}

impl<I: Io> Worker<I> {
    /// Has a client's password hashed, that is then held against its user's secret.
    pub(crate) fn hash_proof(&mut self, key: Key, unproved: Unproved, derivation: Derivation, again: Option<Again>) {
        let (asked, allowed) = (derivation.iterations, self.force.settings.scram_iterations_max);
        if asked > allowed {
            let line = self.client_prefix(key);
            let text =
                format_args!("{line}SCRAM secret has {asked} iterations, more than {allowed} (scram_iterations_max)");
            self.log.add(Level::Error, text);
            self.login_failed_line(key);
            self.fail_client(key, &Fault::BouncerConfig);
            return;
        }
        let Some(Client { stage: ClientStage::Login(login), .. }) = self.clients.get_mut(key) else { return };
        login.waits = Waits::Hash(Box::new(Hashing::Proof { unproved, again }));
        self.hash_for_client(key, derivation);
    }

    /// Has a user's secret hashed, by which a client is then asked for SCRAM.
    pub(crate) fn hash_secret(&mut self, key: Key, method: Method, told: Option<Arc<Secret>>, secret: Arc<Secret>) {
        let Secret::Plain(password) = &*secret else { unreachable!("only a password is hashed") };
        let derivation = self.derivation_of(password.clone());
        let Some(Client { stage: ClientStage::Login(login), .. }) = self.clients.get(key) else { return };
        let user = self.user(&login.request.user.clone());
        let Some(Client { stage: ClientStage::Login(login), conn, .. }) = self.clients.get_mut(key) else { return };
        login.waits = Waits::Hash(Box::new(Hashing::Secret { user, secret: secret.clone(), method, told }));
        // So that it is seen if it goes.
        self.io.receive(*conn, Receive::Stream);
        match &mut self.places.users[user as usize].hashing {
            Some(under_way) if under_way.secret == secret => {
                under_way.waiting.insert(key);
                return;
            }
            // One name may have several passwords, which different servers tell.
            Some(_) => {}
            none => {
                let (derivation, waiting) = (derivation.clone(), BTreeSet::new());
                *none = Some(Box::new(SecretHashing { secret, derivation, asker: key, waiting }));
            }
        }
        self.hash_for_client(key, derivation);
    }

    fn derivation_of(&mut self, password: Password) -> Derivation {
        let mut salt = [0; auth::scram::SALT_BYTES];
        self.io.randomness(&mut salt);
        Derivation { password, salt: salt.into(), iterations: self.force.settings.scram_iterations }
    }

    fn hash_for_client(&mut self, key: Key, derivation: Derivation) {
        let Some(client) = self.clients.get(key) else { return };
        let (asker, origin) = (HashAsker::Client(key), client.peer.origin());
        (self.posts.control)(ToControl::Hash(HashQuestion { from: self.id, asker, origin, derivation }));
    }

    /// Has the password hashed that a server asks for.
    pub(crate) fn hash_for_server(&mut self, key: ServerKey, derivation: Derivation) {
        let Some(server) = self.servers.get(key) else { return };
        let (asker, origin) =
            (HashAsker::Server(key), server.address.as_ref().map_or(Origin::LocalServers, Address::origin));
        (self.posts.control)(ToControl::Hash(HashQuestion { from: self.id, asker, origin, derivation }));
    }

    /// A client that waited for a hash has gone.
    pub(crate) fn hash_unneeded(&mut self, key: Key, of_user: Option<u32>) {
        let mut next = None;
        if let Some(under_way) = of_user.map(|user| &mut self.places.users[user as usize].hashing)
            && let Some(hashing) = under_way
        {
            if hashing.waiting.remove(&key) {
                return;
            }
            if hashing.asker == key {
                next = hashing.waiting.pop_first().map(|next| (next, hashing.derivation.clone()));
                match &next {
                    Some((next, _)) => hashing.asker = *next,
                    None => *under_way = None,
                }
            }
        }
        (self.posts.control)(ToControl::HashUnneeded { from: self.id, asker: HashAsker::Client(key) });
        if let Some((next, derivation)) = next {
            // It has waited in another's place, which may have come from elsewhere.
            self.hash_for_client(next, derivation);
        }
    }

    /// A password has been hashed, or not.
    pub(crate) fn hashed(&mut self, asker: HashAsker, hashed: Hashed) {
        match asker {
            HashAsker::Client(key) => self.hashed_for_client(key, hashed),
            HashAsker::Server(key) => self.hashed_for_server(key, hashed),
        }
    }

    fn hashed_for_client(&mut self, key: Key, hashed: Hashed) {
        let Some(Client { stage: ClientStage::Login(login), .. }) = self.clients.get_mut(key) else { return };
        let salted = match hashed {
            Ok(salted) => salted,
            // Who waits for the same is next, when it has gone.
            Err(why) if login.is_awaiting_hash() => {
                let line = self.client_prefix(key);
                self.log.add(Level::Warning, format_args!("{line}{why}"));
                self.login_failed_line(key);
                self.fail_client(key, &Fault::HashingFull);
                return;
            }
            Err(_) => return,
        };
        match login.take_awaiting_hash().map(|hashing| *hashing) {
            Some(Hashing::Proof { unproved, again }) => match unproved.prove(&salted) {
                Ok(()) => self.passed(key, None),
                Err(fault) => self.disproved(key, &fault, again),
            },
            Some(Hashing::Secret { user, secret, method, told }) => {
                let place = &mut self.places.users[user as usize];
                place.derived = Some((secret, Arc::new(ScramSecret::of(&salted))));
                let under_way = place.hashing.take_if(|hashing| hashing.asker == key);
                self.ask_proof(key, Demand::Proof(method), told);
                under_way.into_iter().flat_map(|hashing| hashing.waiting).for_each(|other| self.ask_after_hash(other));
            }
            None => {}
        }
    }

    /// The secret has been hashed for which a client waits in another's place.
    fn ask_after_hash(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Login(login), .. }) = self.clients.get_mut(key) else { return };
        if let Some(Hashing::Secret { method, told, .. }) = login.take_awaiting_hash().map(|hashing| *hashing) {
            self.ask_proof(key, Demand::Proof(method), told);
        }
    }

    fn hashed_for_server(&mut self, key: ServerKey, hashed: Hashed) {
        let Some(Server { stage: ServerStage::Login(login), conn, .. }) = self.servers.get_mut(key) else { return };
        match hashed {
            Ok(salted) => {
                if let Some(out) = login.salted(salted) {
                    self.io.send(*conn, out.into());
                }
            }
            Err(why) => {
                let line = self.server_prefix(key);
                self.log.add(Level::Warning, format_args!("{line}server login failed: {why}"));
                self.dial_failed(key, Failure::unreachable(why));
            }
        }
    }
}
