//! Passwords that are to be hashed for SCRAM, which is slow by design: threads beside the workers do it, and the control thread
//! says in which order.
//!
//! Always true: nothing is hashed within a turn; who waits for it waits alone, and gives its place up when it leaves; a secret of
//! the users' file is hashed for one client at a time, and all who log in by it wait for that one.
//! Not here: the order (`control::hashings`), what is hashed and why (`protocol::client::login`, `protocol::server::login`).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use auth::{Derivation, Password, SaltedPassword, ScramSecret, Secret};
use base::{Key, WorkerId};
use pool::{ClientKey, Failure, ServerKey};
use protocol::client::login::{Method, Unproved};
use protocol::fault::Fault;
use reactor::{Address, Io, Level, Peer, Receive};

use crate::applicant::Waits;
use crate::client::{Client, Stage as ClientStage};
use crate::letters::ToControl;
use crate::proof::Demand;
use crate::secrets::Again;
use crate::server::{Server, Stage as ServerStage};
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashAsker {
    /// A client that logs in.
    Client(ClientKey),
    /// A server that is logged in to.
    Server(ServerKey),
}

/// Where those come from among whom the hashing is shared out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Clients of this address; of IPv6, of this network of 64 bits, which is what one gets who asks for one address.
    Clients(IpAddr),
    /// Clients of the unix socket that this user of the system runs.
    LocalClients(Option<u32>),
    /// Servers of this address.
    Servers(IpAddr),
    /// Servers of unix sockets.
    LocalServers,
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

impl Origin {
    fn of_client(peer: Peer) -> Self {
        match peer {
            Peer::Tcp(address) => Self::Clients(network(address.ip())),
            Peer::Unix { uid, .. } => Self::LocalClients(uid),
        }
    }

    fn of_server(address: Option<&Address>) -> Self {
        match address {
            Some(Address::Tcp(address)) => Self::Servers(network(address.ip())),
            Some(Address::Unix(_) | Address::Abstract(_)) | None => Self::LocalServers,
        }
    }

    /// Whether it is servers that are logged in to, which the operator has chosen, and not clients, which anybody may be.
    #[must_use]
    pub fn is_of_servers(&self) -> bool {
        matches!(self, Self::Servers(_) | Self::LocalServers)
    }
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
        let (asker, origin) = (HashAsker::Client(key), Origin::of_client(client.peer));
        (self.posts.control)(ToControl::Hash(HashQuestion { from: self.id, asker, origin, derivation }));
    }

    /// Has the password hashed that a server asks for.
    pub(crate) fn hash_for_server(&mut self, key: ServerKey, derivation: Derivation) {
        let Some(server) = self.servers.get(key) else { return };
        let (asker, origin) = (HashAsker::Server(key), Origin::of_server(server.address.as_ref()));
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

/// The network that one gets who asks for one address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_one_network_of_ipv6_is_one_and_mapped_addresses_are_those_of_ipv4() {
        let origin =
            |text: &str| Origin::of_client(Peer::Tcp((text.parse::<IpAddr>().expect("an address"), 5000).into()));
        assert_eq!(origin("2001:db8:1:2::7"), origin("2001:db8:1:2:ffff::"));
        assert_ne!(origin("2001:db8:1:2::7"), origin("2001:db8:1:3::7"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.2"), origin("10.0.0.1"));
    }

    #[test]
    fn a_client_and_a_server_of_one_address_are_two() {
        let address = "10.0.0.1:5432".parse().expect("an address");
        let (client, server) = (Origin::of_client(Peer::Tcp(address)), Origin::of_server(Some(&Address::Tcp(address))));
        assert!(client != server && server.is_of_servers() && !client.is_of_servers());
        assert!(Origin::of_server(Some(&Address::Unix("/tmp/s".into()))).is_of_servers());
        assert_ne!(
            Origin::of_client(Peer::Unix { pid: 1, uid: Some(1) }),
            Origin::of_client(Peer::Unix { pid: 1, uid: Some(2) })
        );
    }
}
