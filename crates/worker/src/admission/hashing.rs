//! Hashes passwords for SCRAM, which is slow by design: threads beside the workers do it, in the order that the control
//! thread chooses.
//!
//! Always true: nothing is hashed within a turn; only the client that needs a hash waits for it, and gives up its place
//! when it leaves, which the next client that waited for the same hash takes over; a secret of `auth_file` is hashed for one
//! client at a time, and all clients that log in with it wait for that hash.
//! Not here: what is done with a hash (`answers`), which is made first (`control::hashings`), what is hashed and why
//! (`protocol::client::login`, `protocol::server::login`).

use std::collections::BTreeSet;
use std::sync::Arc;

use auth::{Derivation, Password, Secret};
use base::{Key, Origin};
use pool::ServerKey;
use protocol::client::login::{Method, Unproved};
use protocol::fault::Fault;
use reactor::{Address, Io, Level, Receive};

use crate::admission::applicant::{Hashing, LoginWait, Recheck, SecretHashing};
use crate::admission::questions::{HashAsker, HashQuestion};
use crate::data::client::{Client, ClientStage};
use crate::letters::ToControl;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Has a client's password hashed, which is then compared with its user's secret.
    pub(crate) fn hash_proof(&mut self, key: Key, unproved: Unproved, derivation: Derivation, again: Option<Recheck>) {
        let (asked, allowed) = (derivation.iterations, self.hands.active.settings.scram_iterations_max);
        if asked > allowed {
            let text = format_args!("SCRAM secret has {asked} iterations, more than {allowed} (scram_iterations_max)");
            self.log_client(key, Level::Error, text);
            self.login_failed_line(key);
            self.fail_client(key, &Fault::BouncerConfig);
            return;
        }
        let Some(login) = self.clients.login_mut(key) else { return };
        login.wait_for(LoginWait::Hash(Box::new(Hashing::Proof { unproved, again })));
        self.hash_for_client(key, derivation);
    }

    /// Has a user's secret hashed, with which a client is then asked for SCRAM.
    pub(crate) fn hash_secret(
        &mut self,
        key: Key,
        method: Method,
        reported_secret: Option<Arc<Secret>>,
        secret: Arc<Secret>,
    ) {
        let Secret::Plain(password) = &*secret else { unreachable!("only a password is hashed") };
        let derivation = self.derivation_of(password.clone());
        let Some(login) = self.clients.login(key) else { return };
        let user = self.user(&login.request.user.clone());
        let Some(Client { stage: ClientStage::Login(login), conn, .. }) = self.clients.get_mut(key) else { return };
        login.wait_for(LoginWait::Hash(Box::new(Hashing::Secret {
            user,
            secret: secret.clone(),
            method,
            reported_secret,
        })));
        // So that a disconnect is noticed.
        self.hands.io.receive(*conn, Receive::Stream);
        match &mut self.registry.user_at_mut(user).hashing {
            Some(under_way) if under_way.secret == secret => {
                under_way.waiting.insert(key);
                return;
            }
            // A user may have different passwords, as reported by different servers.
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
        self.hands.io.randomness(&mut salt);
        Derivation { password, salt: salt.into(), iterations: self.hands.active.settings.scram_iterations }
    }

    pub(crate) fn hash_for_client(&mut self, key: Key, derivation: Derivation) {
        let Some(client) = self.clients.get(key) else { return };
        let (asker, origin) = (HashAsker::Client(key), client.peer.origin());
        (self.hands.posts.control)(ToControl::Hash(HashQuestion { from: self.hands.id, asker, origin, derivation }));
    }

    /// Has a password hashed that a server asks for.
    pub(crate) fn hash_for_server(&mut self, key: ServerKey, derivation: Derivation) {
        let Some(server) = self.servers.get(key) else { return };
        let (asker, origin) = (HashAsker::Server(key), server.address().map_or(Origin::LocalServers, Address::origin));
        (self.hands.posts.control)(ToControl::Hash(HashQuestion { from: self.hands.id, asker, origin, derivation }));
    }

    /// A client that waited for a hash has gone.
    pub(crate) fn hash_unneeded(&mut self, key: Key, of_user: Option<u32>) {
        let mut next = None;
        if let Some(under_way) = of_user.map(|user| &mut self.registry.user_at_mut(user).hashing)
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
        (self.hands.posts.control)(ToControl::HashUnneeded { from: self.hands.id, asker: HashAsker::Client(key) });
        if let Some((next, derivation)) = next {
            // It waited for the order of another client, and may come from another address.
            self.hash_for_client(next, derivation);
        }
    }
}
