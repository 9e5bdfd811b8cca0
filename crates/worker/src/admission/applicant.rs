//! A client that is logging in, and what it waits for.
//!
//! Always true: the client waits for one thing at a time, and that state carries what is needed when the thing comes.
//! Not here: what happens then (`login`, `answers`).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use auth::{Derivation, Password, ScramKeys, Secret};
use base::{Key, Time, Wall};
use measure::LoginStep;
use pool::{PoolKey, ServerKey};
use protocol::client::greeting::Request;
use protocol::client::login::{Dice, Login, Method, Unproved};
use protocol::fault::Fault;
use protocol::vars::Vars;
use reactor::Peer;
use wire::Scanner;

use crate::letters::{ExternalAuth, Right};

/// A client that is logging in.
#[derive(Debug)]
pub(crate) struct LoggingIn {
    /// The secret of its user, as a server has reported it (`auth_query`).
    pub(super) reported_secret: Option<Arc<Secret>>,
    /// Whether that secret comes from the cache (`auth_query_cache_ttl`).
    pub(super) is_secret_cached: bool,
    /// Its password, which an external authenticator has accepted.
    pub(super) judged: Option<Arc<Secret>>,
    pub(super) request: Request,
    /// The dedicated server that is being dialed for it.
    pub(super) dedicating: Option<ServerKey>,
    pub(super) waits: LoginWait,
    /// Which step of the login it has reached.
    pub(super) step: LoginStep,
    /// Bytes that nothing has looked at yet.
    pub(super) unread: Vec<u8>,
}

/// What a client that logs in waits for.
#[derive(Debug)]
pub(crate) enum LoginWait {
    /// Our last byte to be sent, after which the client moves to its home worker.
    Departure { early: Vec<u8>, since_wall: Wall },
    /// A slot of `max_client_conn` from the ledger.
    Slot,
    /// The client's response to an authentication request.
    Proof(Box<Proof>),
    /// The answer to `auth_query`, after which the client has to show this.
    Secret(Demand),
    /// The answer to `auth_query`, which is asked again because the client's proof does not fit the cached secret.
    SecretAgain(Box<Recheck>),
    /// The verdict of this external authenticator on its password.
    Verdict(ExternalAuth, Password),
    /// The hash of a password.
    Hash(Box<Hashing>),
    /// A rate limit, before it may authenticate.
    RateBeforeProof,
    /// A rate limit, before it is let in; with the keys that its proof has shown.
    RateAfterProof(Option<ScramKeys>),
    /// The name of its system user, and whether this map lets that be the database user that the client named.
    SystemUser { map: Option<Arc<str>> },
    /// A slot of its user, after it has been authenticated; with the keys that its proof has shown.
    Admission { keys: Option<ScramKeys> },
    /// The parameters of the pool's first server, or a dedicated server.
    Welcome { pool: PoolKey, since: Time },
}

/// An authentication exchange.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(super) login: Login,
    /// The external authenticator that judges the password.
    pub(super) authenticator: Option<ExternalAuth>,
    pub(super) scanner: Scanner,
    pub(super) body: Vec<u8>,
    /// Method and challenge, if the client's response can be checked against another secret too and the one in use may
    /// be outdated.
    pub(super) again: Option<(Method, Dice)>,
}

impl LoggingIn {
    pub(crate) fn new(request: Request) -> Self {
        let (reported_secret, judged, waits, step) = (None, None, LoginWait::Slot, LoginStep::ClientLimit);
        Self {
            reported_secret,
            is_secret_cached: false,
            judged,
            request,
            dedicating: None,
            waits,
            step,
            unread: Vec::new(),
        }
    }

    /// A client that has been authenticated, and waits for the first server of this pool.
    pub(crate) fn proved(request: Request, pool: PoolKey, since: Time, unread: Vec<u8>) -> Self {
        Self { waits: LoginWait::Welcome { pool, since }, step: LoginStep::Server, unread, ..Self::new(request) }
    }

    pub(crate) fn departing(request: Request, early: Vec<u8>, since_wall: Wall) -> Self {
        Self { waits: LoginWait::Departure { early, since_wall }, step: LoginStep::Startup, ..Self::new(request) }
    }

    /// What it has asked for in its startup packet.
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    pub(crate) fn vars_mut(&mut self) -> &mut Vars {
        &mut self.request.vars
    }

    pub(crate) fn waits(&self) -> &LoginWait {
        &self.waits
    }

    /// Which step of the login it has reached.
    pub(crate) fn step(&self) -> LoginStep {
        self.step
    }

    /// Bytes that nothing has looked at yet.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.unread
    }

    /// The dedicated server that is being dialed for it.
    pub(crate) fn dedicated_server(&self) -> Option<ServerKey> {
        self.dedicating
    }

    /// This dedicated server is being dialed for it.
    pub(crate) fn has_dialed(&mut self, server: ServerKey) {
        self.dedicating = Some(server);
    }

    /// The dedicated server that was being dialed for it is closed.
    pub(crate) fn has_lost_server(&mut self) {
        self.dedicating = None;
    }

    /// Sets what the client waits for from now on.
    pub(crate) fn wait_for(&mut self, waits: LoginWait) {
        self.step = match &waits {
            LoginWait::Departure { .. } => LoginStep::Startup,
            LoginWait::Slot => LoginStep::ClientLimit,
            LoginWait::Proof(_) => LoginStep::Password,
            LoginWait::Secret(_) | LoginWait::SecretAgain(_) => LoginStep::AuthQuery,
            LoginWait::Verdict(..) => LoginStep::ExternalAuth,
            LoginWait::Hash(_) => LoginStep::Hashing,
            LoginWait::RateBeforeProof | LoginWait::RateAfterProof(_) => LoginStep::RateLimit,
            LoginWait::SystemUser { .. } => LoginStep::SystemUser,
            LoginWait::Admission { .. } => LoginStep::Admission,
            LoginWait::Welcome { .. } => LoginStep::Server,
        };
        self.waits = waits;
    }

    /// What the client takes along to its home worker, if it waits to move.
    pub(crate) fn departure(&mut self) -> Option<(Request, Vec<u8>, Wall)> {
        match &mut self.waits {
            LoginWait::Departure { early, since_wall } => {
                Some((self.request.clone(), std::mem::take(early), *since_wall))
            }
            _ => None,
        }
    }

    /// Takes the state that the client waits in, if it is the wanted one. A client that waits for nothing more waits for us.
    fn take<T>(&mut self, wanted: impl FnOnce(LoginWait) -> Result<T, LoginWait>) -> Option<T> {
        match wanted(std::mem::replace(&mut self.waits, LoginWait::Slot)) {
            Ok(taken) => Some(taken),
            Err(waits) => {
                self.waits = waits;
                None
            }
        }
    }

    /// What the client has to show after `auth_query`, if it waits for that.
    pub(crate) fn take_awaiting_secret(&mut self) -> Option<Demand> {
        self.take(|waits| match waits {
            LoginWait::Secret(demand) => Ok(demand),
            waits => Err(waits),
        })
    }

    /// What is to be checked again after `auth_query`, if the client waits for that.
    pub(crate) fn take_awaiting_recheck(&mut self) -> Option<Box<Recheck>> {
        self.take(|waits| match waits {
            LoginWait::SecretAgain(again) => Ok(again),
            waits => Err(waits),
        })
    }

    /// The keys that the client's proof has shown, if it is authenticated and not let in yet.
    pub(crate) fn take_admission(&mut self) -> Option<Option<ScramKeys>> {
        self.take(|waits| match waits {
            LoginWait::Admission { keys } => Ok(keys),
            waits => Err(waits),
        })
    }

    /// The external authenticator and the password, if the client waits for the verdict.
    pub(crate) fn take_awaiting_verdict(&mut self) -> Option<(ExternalAuth, Password)> {
        self.take(|waits| match waits {
            LoginWait::Verdict(authenticator, password) => Ok((authenticator, password)),
            waits => Err(waits),
        })
    }

    /// What the client needs a hash for, if it waits for one.
    pub(crate) fn take_awaiting_hash(&mut self) -> Option<Box<Hashing>> {
        self.take(|waits| match waits {
            LoginWait::Hash(hashing) => Ok(hashing),
            waits => Err(waits),
        })
    }

    /// Whether the client waits for a hash.
    pub(crate) fn is_awaiting_hash(&self) -> bool {
        matches!(self.waits, LoginWait::Hash(_))
    }

    /// The number of the user whose secret is hashed for the client.
    pub(crate) fn hashed_user(&self) -> Option<u32> {
        match &self.waits {
            LoginWait::Hash(hashing) => hashing.user(),
            _ => None,
        }
    }

    /// The keys that the client's proof has shown, if it waits for a rate limit.
    pub(crate) fn take_awaiting_rate(&mut self) -> Option<Option<ScramKeys>> {
        self.take(|waits| match waits {
            LoginWait::RateAfterProof(keys) => Ok(keys),
            waits => Err(waits),
        })
    }

    /// Whether the client waits for a rate limit.
    pub(crate) fn is_awaiting_rate(&self) -> bool {
        matches!(self.waits, LoginWait::RateBeforeProof | LoginWait::RateAfterProof(_))
    }

    /// The ident map for the client's system user, while the name of that user is awaited.
    pub(crate) fn awaited_map(&self) -> Option<Option<Arc<str>>> {
        match &self.waits {
            LoginWait::SystemUser { map } => Some(map.clone()),
            _ => None,
        }
    }

    /// The pool whose first server the client waits for.
    pub(crate) fn waits_for(&self) -> Option<PoolKey> {
        self.waits_since().map(|(pool, _)| pool)
    }

    /// The pool whose first server the client waits for, and since when it waits.
    pub(crate) fn waits_since(&self) -> Option<(PoolKey, Time)> {
        match self.waits {
            LoginWait::Welcome { pool, since } => Some((pool, since)),
            _ => None,
        }
    }
}

/// What a client has to show in order to log in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// Nothing, not even the name of a user that exists.
    Nothing,
    /// A proof by this method.
    Proof(Method),
    /// Its password, for an external authenticator.
    Judgement(ExternalAuth),
    /// That its system user may be this database user.
    SystemUser {
        /// The system user's number.
        uid: u32,
        /// The ident map, if there is one.
        map: Option<Arc<str>>,
    },
    /// Nothing helps: it is not let in.
    Refusal(Fault),
}

/// How a client may enter the console.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Without a proof.
    Open(Right),
    /// By authenticating as for any database.
    ByProof(Right),
}

/// What a client has shown, to be checked against another secret.
#[derive(Debug)]
pub(crate) struct Recheck {
    pub(super) method: Method,
    pub(super) dice: Dice,
    pub(super) body: Vec<u8>,
    /// The error that the client is sent if that does not fit either.
    pub(super) fault: Fault,
}

/// Why a client that logs in needs a hash.
#[derive(Debug)]
pub(crate) enum Hashing {
    /// It has sent its password in clear text, and its user has a SCRAM secret.
    Proof {
        /// What the hash is compared with.
        unproved: Unproved,
        /// What can be checked against another secret, if that does not fit.
        again: Option<Recheck>,
    },
    /// It is to be asked for SCRAM, and the secret of its user is a password in clear text.
    Secret {
        /// Its user's number.
        user: u32,
        /// The secret.
        secret: Arc<Secret>,
        /// How the client is to prove itself then.
        method: Method,
        /// The secret of its user as a server has reported it.
        reported_secret: Option<Arc<Secret>>,
    },
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

/// A user's secret that is being hashed, and the clients that wait for it.
#[derive(Debug)]
pub(crate) struct SecretHashing {
    pub(super) secret: Arc<Secret>,
    pub(super) derivation: Derivation,
    /// The client for which the hash was asked.
    pub(super) asker: Key,
    /// The other clients that wait for it.
    pub(super) waiting: BTreeSet<Key>,
}

/// Appends the client's address to its `application_name` (`application_name_add_host`).
pub(crate) fn add_host(vars: &mut Vars, place: usize, peer: Peer, port: u16) {
    let from = match peer {
        Peer::Tcp { ip, port } => SocketAddr::new(ip, port).to_string(),
        Peer::Unix { pid, .. } => format!("unix({pid}):{port}"),
    };
    let name = vars.get(place).filter(|name| !name.is_empty()).unwrap_or("app").to_owned();
    vars.set(place, &format!("{name} - {from}"));
}
