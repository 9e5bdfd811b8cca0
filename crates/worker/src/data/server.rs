//! A server: what is known of it, wherever it stands.
//!
//! Always true: a stage carries what exists only in it; a server is lent to one client at most.
//! Not here: what becomes of what it says (`converse`), how it is reached (`upstream::dial`), lent (`attach`) and cleaned (`upstream::begin_cleanup`).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use base::Time;
use measure::Opened;
use pool::{AffinityHold, ClientKey, Fingerprint, PoolKey};
use protocol::loan::{Life, ServerSession};
use protocol::server::login::ServerLogin;
use protocol::state::Overrides;
use protocol::vars::Vars;
use reactor::tls::{Demand, Security};
use reactor::{Address, Chunk, Conn, TimerId};

use crate::course::{Course, Said};
use crate::notify::listening::Withheld;
use crate::registry::Welcome;
use crate::sampled::Sampled;
use crate::upstream::cleaning::Cleaning;
use crate::upstream::dedicated_client::Dedicated;

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) conn: Conn,
    /// Its number in the logs and on the console.
    pub(crate) id: u64,
    pub(crate) pool: PoolKey,
    pub(crate) database: u32,
    /// Where it is; a cancel request goes there too.
    pub(crate) address: Option<Address>,
    /// Its host as it is configured, which its certificate may have to name.
    pub(crate) host: Arc<str>,
    /// How it is secured, if it is.
    pub(crate) security: Option<Arc<Security>>,
    /// Since when it has been dialed.
    pub(crate) since: Time,
    pub(crate) stage: Stage,
    /// Whose it is alone, if it is nobody else's.
    pub(crate) dedicated: Option<Box<Dedicated>>,
    /// What it has been sent and has answered.
    pub(crate) session: ServerSession,
    /// Who has had it last.
    pub(crate) last_client: Option<ClientKey>,
    /// What its login and `connect_query` have told, until it is ready for its first client.
    pub(crate) welcome: Option<Rc<Welcome>>,
    /// Process id and secret, for cancel requests.
    pub(crate) cancel_key: Box<[u8]>,
    pub(crate) is_paused: bool,
    /// It tells of functions, and is received from buffer by buffer.
    pub(crate) is_slowed: bool,
    /// It owes so many answers that its client waits for some before it is heard again.
    pub(crate) is_full: bool,
    /// What it has said and its client is not given yet.
    pub(crate) withheld: Option<Box<Withheld>>,
    /// What it has said as the session for all, and is looked at in the turns that come ([`Task::GoOn`](crate::notify::backlog::Task::GoOn)).
    pub(crate) later: Option<VecDeque<Chunk>>,
    /// Its client is given that now.
    pub(crate) is_released: bool,
    /// Whether it stays with a client that may come back at once.
    pub(crate) affinity_hold: AffinityHold,
    pub(crate) timer: Option<(TimerId, Time)>,
    /// When the present query and transaction began.
    pub(crate) query_since: Option<Time>,
    pub(crate) xact_since: Option<Time>,
    /// What TLS with it was begun by: cancel requests for it are secured alike, whatever a reload has changed.
    pub(crate) demand: Option<Arc<Demand>>,
    /// When it last said something.
    pub(crate) heard: Time,
    /// When its client's last request had been answered.
    pub(crate) answered: Time,
    /// When it was last asked something by somebody new.
    pub(crate) asked: Time,
    /// How many queries it was asked; names the one that a cancel request is meant for.
    pub(crate) query_number: u64,
    /// What its client has said last.
    pub(crate) said: Said,
    /// The request that is looked at, if the present one is.
    pub(crate) sampled: Option<Box<Sampled>>,
    /// How the present transaction has gone, where long ones are logged.
    pub(crate) course: Option<Box<Course>>,
    /// What it was opened for.
    pub(crate) opened_for: Opened,
    /// It has logged in, and was counted as opened.
    pub(crate) is_counted: bool,
}

/// What it is doing.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The name of its host is being looked up.
    Resolving,
    /// It is being connected.
    Connecting,
    /// TLS with it is being agreed on.
    Securing(Securing),
    /// It is being logged in to.
    Login(Box<ServerLogin>),
    /// It runs `connect_query`.
    Introducing,
    /// It waits for a loan.
    Idle,
    /// It is lent.
    Lent {
        /// To whom.
        client: ClientKey,
    },
    /// It is made clean.
    Cleaning(Cleaning),
}

/// How far TLS with a server is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Securing {
    /// It has been asked whether it speaks TLS.
    Asked,
    /// It does, and hands are being shaken.
    Shaking,
}

impl Server {
    /// One that is about to be dialed.
    pub(crate) fn new(conn: Conn, id: u64, pool: PoolKey, database: u32, vars: Rc<Vars>, now: Time) -> Self {
        Self {
            conn,
            id,
            pool,
            database,
            address: None,
            host: "".into(),
            security: None,
            since: now,
            stage: Stage::Resolving,
            dedicated: None,
            session: ServerSession::new(vars),
            last_client: None,
            welcome: None,
            cancel_key: Box::default(),
            is_paused: false,
            is_slowed: false,
            is_full: false,
            withheld: None,
            later: None,
            is_released: false,
            affinity_hold: AffinityHold::default(),
            timer: None,
            query_since: None,
            xact_since: None,
            demand: None,
            heard: now,
            answered: now,
            asked: now,
            query_number: 0,
            said: Said::default(),
            sampled: None,
            course: None,
            opened_for: Opened::Client,
            is_counted: false,
        }
    }

    /// It is lent to this client, or is already, and this is where the loan stands now.
    pub(crate) fn lends(&mut self, client: ClientKey, life: Life) {
        debug_assert!(self.session.life.probe().is_none(), "a server was to be lent that is asked something");
        self.stage = Stage::Lent { client };
        self.session.life.becomes(life);
    }

    /// Nobody has it any more, and it is clean.
    pub(crate) fn comes_to_rest(&mut self) {
        self.stage = Stage::Idle;
        self.session.life.becomes(Life::Free);
    }

    /// Whom it is lent to.
    pub(crate) fn client(&self) -> Option<ClientKey> {
        match self.stage {
            Stage::Lent { client, .. } => Some(client),
            _ => None,
        }
    }

    /// Whether it stays with a client that has not come back, and goes on with a new message.
    pub(super) fn is_held_for_affinity(&self) -> bool {
        let session = &self.session;
        self.affinity_hold.is_waiting() && !session.scanner.is_in_body() && session.exchange.owes_nothing()
    }

    /// The process that serves it, as its key for cancel requests has it; 0 before it is logged in.
    pub(crate) fn pid(&self) -> u32 {
        self.cancel_key.first_chunk().map_or(0, |pid| u32::from_be_bytes(*pid))
    }
}

impl Server {
    /// How long something is withheld from its client.
    pub(crate) fn withheld_until(&self) -> Option<Time> {
        self.withheld.as_ref().map(|withheld| withheld.until)
    }

    /// Whether it is not received from because something is withheld, or has not been looked at.
    pub(crate) fn is_silenced(&self) -> bool {
        self.later.is_some() || self.withheld.as_ref().is_some_and(|withheld| withheld.is_paused)
    }
}

impl Server {
    /// Until when it stays with its client for numbers, while that says nothing.
    pub(crate) fn sequences_due(&self) -> Option<Time> {
        self.session.sequences_until.filter(|_| self.client().is_some() && self.session.exchange.may_end())
    }
}

/// What is set in a session that this client has, or has had last, and which settings with a dot have ever been. Who the session is must be set
/// again for anybody else ([`Overrides::doubt_identity`]), so that it suits nobody else.
pub(crate) fn fingerprint(overrides: Option<&Overrides>, placeholders: u64, client: Option<ClientKey>) -> Fingerprint {
    let Some(overrides) = overrides else { return Fingerprint { settings: 0, placeholders } };
    let mut settings = overrides.fingerprint();
    if overrides.has_identity() {
        let mut hasher = DefaultHasher::new();
        client.hash(&mut hasher);
        settings ^= hasher.finish() as u32;
    }
    Fingerprint { settings, placeholders }
}
