//! TLS: connections whose bytes are secret on the wire and plain for the worker.
//!
//! Always true: a connection that nobody secured goes the way it went without this; handshakes are done by the [`HandshakePool`], beside
//! the turns; what is received is given on only after it has been decrypted and found whole.
//! Not here: what is said before TLS begins (`SSLRequest` and its answer), and who must use it (`worker`).

mod certificate;
mod demand;
mod handshake_pool;
mod layer;
mod offer;
mod session;
mod stream;
mod terms;
mod x509_v1;

pub use demand::{Check, Demand, DemandParts};
pub use handshake_pool::HandshakePool;
pub use layer::Tls;
pub use offer::{Offer, OfferParts};
pub use stream::Carried;
pub use terms::TermsText;

use std::sync::Arc;

/// Which side of a handshake we are.
#[derive(Clone, Debug)]
pub enum Side {
    /// We were called: a client.
    Called(Arc<Offer>),
    /// We call: a server.
    Calling {
        /// On which terms.
        demand: Arc<Demand>,
        /// The host as it was configured: its certificate must name it, if names are checked.
        host: Arc<str>,
    },
}

/// How a connection is secured, for people and for logins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Security {
    /// `PROTOCOL/CIPHER/ECDH=CURVE`.
    pub summary: Box<str>,
    /// The hash of the certificate of whoever was called (`tls-server-end-point`), if one is defined.
    pub end_point: Option<Box<[u8]>>,
    /// Whom the certificate of the other side names; it has proved that it is theirs.
    pub names: Vec<Box<str>>,
    /// Whether both sides have agreed on PostgreSQL's protocol (ALPN).
    pub is_protocol_agreed: bool,
    /// Whether they have gone on with an earlier session, which costs little.
    pub is_resumed: bool,
}
