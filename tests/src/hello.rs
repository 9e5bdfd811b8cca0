//! The beginning of TLS, for floods.
//!
//! Always true: it is what a client says that checks certificates and goes on; nobody here does.
//! Not here: clients that finish a handshake (`real`).

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto};

/// What a client of TLS begins with; the same may be said by many.
///
/// # Panics
/// When the library does not make it.
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
