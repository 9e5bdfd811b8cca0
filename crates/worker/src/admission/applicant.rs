//! A client that is logging in, and what it waits for.
//!
//! Always true: it waits for one thing at a time, and what it waits for carries what is needed when it comes.
//! Not here: what happens then (`login`, `answers`).

use std::collections::BTreeSet;
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
    /// What a server has told of its user's secret.
    pub(crate) told: Option<Arc<Secret>>,
    /// Whether that was some time ago.
    pub(crate) is_told_before: bool,
    /// Its password, which an external authenticator has found right.
    pub(crate) judged: Option<Arc<Secret>>,
    pub(crate) request: Request,
    /// The server that is being dialed for it alone.
    pub(crate) dedicating: Option<ServerKey>,
    pub(crate) waits: Waits,
    /// How far it has come.
    pub(crate) step: LoginStep,
    /// What it said and nobody has looked at.
    pub(crate) said: Vec<u8>,
}

/// What it waits for.
#[derive(Debug)]
pub(crate) enum Waits {
    /// For our last byte to leave, to go home then.
    Departure { early: Vec<u8>, since_wall: Wall },
    /// For the ledger: may it come in?
    Slot,
    /// For the client's proof.
    Proof(Box<Proof>),
    /// For what a server says about its user, and then to show this.
    Secret(Demand),
    /// For the same once more: what it has shown does not fit what was remembered.
    SecretAgain(Box<Again>),
    /// For what this one says about its password.
    Verdict(ExternalAuth, Password),
    /// For a password that is being hashed.
    Hash(Box<Hashing>),
    /// For a rate limit to let it show who it is.
    Knock,
    /// For a rate limit to let it in; it has shown these keys.
    Rate(Option<ScramKeys>),
    /// For its name in the system, and whether this map lets it be who it says.
    SystemUser { map: Option<Arc<str>> },
    /// For one of its user's places, since it has proved who it is; with the keys that its proof has shown.
    Admission { keys: Option<ScramKeys> },
    /// For the parameters that a first server tells, or one that is its alone.
    Welcome { pool: PoolKey, since: Time },
}

/// A proof that is being given.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) login: Login,
    /// Who judges the password that comes.
    pub(crate) authenticator: Option<ExternalAuth>,
    pub(crate) scanner: Scanner,
    pub(crate) body: Vec<u8>,
    /// What was asked, if the answer can be judged by another secret as well, and the one that it is judged by may be old.
    pub(crate) again: Option<(Method, Dice)>,
}

impl LoggingIn {
    pub(crate) fn new(request: Request) -> Self {
        let (told, judged, waits, step) = (None, None, Waits::Slot, LoginStep::ClientLimit);
        Self { told, is_told_before: false, judged, request, dedicating: None, waits, step, said: Vec::new() }
    }

    /// Somebody who has proved who it is, and waits for a first server of this pool.
    pub(crate) fn proved(request: Request, pool: PoolKey, since: Time, said: Vec<u8>) -> Self {
        Self { waits: Waits::Welcome { pool, since }, step: LoginStep::Server, said, ..Self::new(request) }
    }

    pub(crate) fn departing(request: Request, early: Vec<u8>, since_wall: Wall) -> Self {
        Self { waits: Waits::Departure { early, since_wall }, step: LoginStep::Startup, ..Self::new(request) }
    }

    /// It waits for this from now on.
    pub(crate) fn wait_for(&mut self, waits: Waits) {
        self.step = match &waits {
            Waits::Departure { .. } => LoginStep::Startup,
            Waits::Slot => LoginStep::ClientLimit,
            Waits::Proof(_) => LoginStep::Password,
            Waits::Secret(_) | Waits::SecretAgain(_) => LoginStep::AuthQuery,
            Waits::Verdict(..) => LoginStep::ExternalAuth,
            Waits::Hash(_) => LoginStep::Hashing,
            Waits::Knock | Waits::Rate(_) => LoginStep::RateLimit,
            Waits::SystemUser { .. } => LoginStep::SystemUser,
            Waits::Admission { .. } => LoginStep::Admission,
            Waits::Welcome { .. } => LoginStep::Server,
        };
        self.waits = waits;
    }

    /// What goes along, if the client is to go.
    pub(crate) fn departure(&mut self) -> Option<(Request, Vec<u8>, Wall)> {
        match &mut self.waits {
            Waits::Departure { early, since_wall } => Some((self.request.clone(), std::mem::take(early), *since_wall)),
            _ => None,
        }
    }

    /// What it said before it was let in.
    pub(crate) fn into_said(self) -> Vec<u8> {
        self.said
    }

    /// Takes what it waits for, if it is that. Somebody who waits for nothing any more waits for us.
    fn take<T>(&mut self, wanted: impl FnOnce(Waits) -> Result<T, Waits>) -> Option<T> {
        match wanted(std::mem::replace(&mut self.waits, Waits::Slot)) {
            Ok(taken) => Some(taken),
            Err(waits) => {
                self.waits = waits;
                None
            }
        }
    }

    /// What it has to show once a server has told of its user, if that is awaited.
    pub(crate) fn take_awaiting_secret(&mut self) -> Option<Demand> {
        self.take(|waits| match waits {
            Waits::Secret(demand) => Ok(demand),
            waits => Err(waits),
        })
    }

    /// It waits until a server has told of its user once more.
    pub(crate) fn await_secret_again(&mut self, again: Again) {
        self.wait_for(Waits::SecretAgain(Box::new(again)));
    }

    /// What is to be judged anew once a server has told of its user, if that is awaited.
    pub(crate) fn take_awaiting_again(&mut self) -> Option<Box<Again>> {
        self.take(|waits| match waits {
            Waits::SecretAgain(again) => Ok(again),
            waits => Err(waits),
        })
    }

    /// The keys that its proof has shown, if it has proved who it is and is not let in yet.
    pub(crate) fn take_admission(&mut self) -> Option<Option<ScramKeys>> {
        self.take(|waits| match waits {
            Waits::Admission { keys } => Ok(keys),
            waits => Err(waits),
        })
    }

    /// Whether it waits for what a server says about its user.
    pub(crate) fn is_awaiting_secret(&self) -> bool {
        matches!(self.waits, Waits::Secret(_) | Waits::SecretAgain(_))
    }

    /// Somebody else judges its password.
    pub(crate) fn await_verdict(&mut self, authenticator: ExternalAuth, password: Password) {
        self.wait_for(Waits::Verdict(authenticator, password));
    }

    /// Who judges its password, and the password, if that is awaited.
    pub(crate) fn take_awaiting_verdict(&mut self) -> Option<(ExternalAuth, Password)> {
        self.take(|waits| match waits {
            Waits::Verdict(authenticator, password) => Ok((authenticator, password)),
            waits => Err(waits),
        })
    }

    /// Whether its password is being judged.
    pub(crate) fn is_awaiting_verdict(&self) -> bool {
        matches!(self.waits, Waits::Verdict(..))
    }

    /// What it needs a hash for, if it waits for one.
    pub(crate) fn take_awaiting_hash(&mut self) -> Option<Box<Hashing>> {
        self.take(|waits| match waits {
            Waits::Hash(hashing) => Ok(hashing),
            waits => Err(waits),
        })
    }

    /// Whether it waits for a hash.
    pub(crate) fn is_awaiting_hash(&self) -> bool {
        matches!(self.waits, Waits::Hash(_))
    }

    /// The number of the user whose secret is hashed for it.
    pub(crate) fn hashed_user(&self) -> Option<u32> {
        match &self.waits {
            Waits::Hash(hashing) => hashing.user(),
            _ => None,
        }
    }

    /// What it has shown, if it waits for a rate limit.
    pub(crate) fn take_awaiting_rate(&mut self) -> Option<Option<ScramKeys>> {
        self.take(|waits| match waits {
            Waits::Rate(keys) => Ok(keys),
            waits => Err(waits),
        })
    }

    /// Whether it waits for a rate limit.
    pub(crate) fn is_awaiting_rate(&self) -> bool {
        matches!(self.waits, Waits::Knock | Waits::Rate(_))
    }

    /// The map by which its name in the system is judged, while that name is awaited.
    pub(crate) fn awaited_map(&self) -> Option<Option<Arc<str>>> {
        match &self.waits {
            Waits::SystemUser { map } => Some(map.clone()),
            _ => None,
        }
    }

    /// The pool whose first server it waits for.
    pub(crate) fn waits_for(&self) -> Option<PoolKey> {
        self.waits_since().map(|(pool, _)| pool)
    }

    /// The pool whose first server it waits for, and since when.
    pub(crate) fn waits_since(&self) -> Option<(PoolKey, Time)> {
        match self.waits {
            Waits::Welcome { pool, since } => Some((pool, since)),
            _ => None,
        }
    }
}

/// What a client has to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// Nothing, not even that it is known.
    Nothing,
    /// That it can answer this.
    Proof(Method),
    /// Its password, which somebody else knows.
    Judgement(ExternalAuth),
    /// That it is a user of the system who may be this one.
    SystemUser {
        /// The user's number.
        uid: u32,
        /// The map that says who may be whom.
        map: Option<Arc<str>>,
    },
    /// It is not let in.
    Refusal(Fault),
}

/// How somebody enters the console.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Without a proof.
    Open(Right),
    /// Like any login.
    ByProof(Right),
}

/// What a client has shown, to be judged by another secret.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) method: Method,
    pub(crate) dice: Dice,
    pub(crate) body: Vec<u8>,
    /// What it is told if that does not fit either.
    pub(crate) fault: Fault,
}

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

impl Hashing {
    /// The user whose secret is hashed.
    pub(crate) fn user(&self) -> Option<u32> {
        match self {
            Self::Proof { .. } => None,
            Self::Secret { user, .. } => Some(*user),
        }
    }
}

/// A user's secret that is being hashed, and the clients that wait for that.
#[derive(Debug)]
pub(crate) struct SecretHashing {
    pub(super) secret: Arc<Secret>,
    pub(super) derivation: Derivation,
    /// For whom it was asked.
    pub(super) asker: Key,
    /// The others.
    pub(super) waiting: BTreeSet<Key>,
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
