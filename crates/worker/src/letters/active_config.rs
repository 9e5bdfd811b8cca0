//! The configuration in force, as a letter brings it.
//!
//! Always true: it is replaced as a whole, between two turns.
//! Not here: what a worker does with a new one (`admin/reload`).

use std::sync::Arc;

use auth::{Hba, IdentMaps, UserFile};
use config::{Homes, Settings};
use protocol::vars::Tracked;
use reactor::tls::{Demand, Offer};
use reactor::{LogTarget, TcpTuning};

use super::{RateLimits, Standing};

/// The configuration in force: replaced as a whole, between two turns.
#[derive(Clone, Debug)]
pub struct ActiveConfig {
    /// The configuration.
    pub settings: Settings,
    /// Which worker each database lives on.
    pub homes: Homes,
    /// The contents of `auth_file`, as read last.
    pub users: UserFile,
    /// The rules of `auth_type = hba`; empty with another `auth_type`.
    pub hba: Arc<Hba>,
    /// The maps of `pg_ident.conf`.
    pub idents: Arc<IdentMaps>,
    /// Parameters that follow a client from server to server.
    pub tracked: Tracked,
    /// Key for the salts of users that do not exist; random, and constant while the process lives.
    pub mock_key: [u8; 32],
    /// What TLS needs with clients and with servers.
    pub tls: TlsTerms,
    /// Settings of sockets that are opened from now on.
    pub tuning: TcpTuning,
    /// Where log lines go.
    pub log: Arc<LogTarget>,
    /// The user id of this process, whose user may enter the console by the unix socket.
    pub own_uid: u32,
    /// Orders of operators that are in force, such as PAUSE and DISABLE.
    pub standing: Standing,
    /// The rules of rate limits and their counters, the same object while the process lives.
    pub rates: Arc<RateLimits>,
}

/// Certificates, keys and authorities for TLS with clients and with servers, as read last.
#[derive(Clone, Debug, Default)]
pub struct TlsTerms {
    /// The terms for clients, if TLS is offered.
    pub offer: Option<Arc<Offer>>,
    /// The terms for servers, if TLS is requested of them.
    pub demand: Option<Arc<Demand>>,
    /// Everything that `demand` was made from, except the dedicated key: servers whose TLS stands on other parts are
    /// replaced.
    pub demand_parts: Arc<[u8]>,
}
