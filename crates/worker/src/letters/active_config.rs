//! Everything that is in force, as a letter brings it.
//!
//! Always true: it is replaced as a whole, between two turns.
//! Not here: what a worker does about it (`admin/reload`).

use std::sync::Arc;

use auth::{Hba, IdentMaps, UserFile};
use config::{Homes, Settings};
use protocol::vars::Tracked;
use reactor::tls::{Demand, Offer};
use reactor::{LogTarget, TcpTuning};

use super::{RateLimits, Standing};

/// Everything that is in force: replaced as a whole, between two turns.
#[derive(Clone, Debug)]
pub struct ActiveConfig {
    /// The configuration.
    pub settings: Settings,
    /// Which worker each database lives on.
    pub homes: Homes,
    /// The file of secrets, as read last.
    pub users: UserFile,
    /// The rules of `auth_type = hba`; none with another one.
    pub hba: Arc<Hba>,
    /// The maps of system users.
    pub idents: Arc<IdentMaps>,
    /// Parameters that follow a client.
    pub tracked: Tracked,
    /// What makes the salts of users that do not exist; random, as old as the process.
    pub mock_key: [u8; 32],
    /// What TLS needs on both legs.
    pub tls: TlsTerms,
    /// Settings of sockets that are opened from now on.
    pub tuning: TcpTuning,
    /// Where log lines go.
    pub log: Arc<LogTarget>,
    /// The user id of this process, who may enter the console by the unix socket.
    pub own_uid: u32,
    /// What operators have ordered and not undone.
    pub standing: Standing,
    /// Rate limits, and what they have counted: the same for as long as the process lives.
    pub rates: Arc<RateLimits>,
}

/// What TLS needs on both legs: certificates, keys and authorities, as read last.
#[derive(Clone, Debug, Default)]
pub struct TlsTerms {
    /// What clients are offered, if anything.
    pub offer: Option<Arc<Offer>>,
    /// What servers must fulfil, if they are asked for TLS at all.
    pub demand: Option<Arc<Demand>>,
    /// Everything that the demand was made of, but for the dedicated key: servers that stand on another one are replaced.
    pub demand_parts: Arc<[u8]>,
}
