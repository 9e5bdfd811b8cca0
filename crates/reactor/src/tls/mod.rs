//! TLS: connections whose bytes are encrypted on the wire and plain text for the worker.
//!
//! Always true: an unencrypted connection works as it does without this module; handshakes are done by the
//! [`HandshakePool`], outside the turns; received bytes are delivered only after they were decrypted and authenticated.
//! Not here: what precedes TLS (`SSLRequest` and its answer), and who must use it (`worker`).

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

use base::Origin;

/// Our side of a handshake.
#[derive(Clone, Debug)]
pub enum Side {
    /// We are the TLS server: the other side is a client.
    Called {
        /// The TLS configuration.
        offer: Arc<Offer>,
        /// The origin of the client, by which handshakes take turns. A proxy may have told it, so the socket does not know it.
        from: Origin,
    },
    /// We are the TLS client: the other side is a server.
    Calling {
        /// The TLS configuration.
        demand: Arc<Demand>,
        /// The host as configured: the certificate must name it, if names are checked.
        host: Arc<str>,
    },
}

/// What a handshake has agreed on, for display and for logins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Security {
    /// `PROTOCOL/CIPHER/ECDH=CURVE`.
    pub summary: Box<str>,
    /// The hash of the TLS server's certificate for channel binding (`tls-server-end-point`), if one is defined.
    pub end_point: Option<Box<[u8]>>,
    /// The names in the other side's certificate; the other side has proved that it has the key.
    pub names: Vec<Box<str>>,
    /// Whether both sides have agreed on PostgreSQL's protocol (ALPN).
    pub is_protocol_agreed: bool,
    /// Whether the handshake resumed an earlier session, which costs little.
    pub is_resumed: bool,
}
