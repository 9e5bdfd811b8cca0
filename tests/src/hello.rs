//! The first bytes of a TLS connection, for floods.
//!
//! Always true: they are those of a client that would check certificates and continue; none here continues.
//! Not here: clients that finish a handshake (`real`).

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto};

/// A ClientHello, which several connections may send.
///
/// # Panics
/// When the library fails.
#[must_use]
pub fn client_hello() -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(config), name).expect("a client").write_tls(&mut hello).expect("a buffer");
    hello
}
