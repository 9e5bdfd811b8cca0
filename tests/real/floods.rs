//! Floods from one address, before anybody has logged in, and an honest client from another one.
//!
//! Always true: the flood comes from 127.0.0.2, the client from 127.0.0.1; what is held against each other is told by one of them and counted
//! at the other, so that a slow machine changes nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto};
use tests::message::{SSL_CODE, packet};
use tests::peer::Peer;

use crate::house::House;
use crate::tls::Stage;

pub(crate) fn addresses_take_turns_with_handshakes_of_tls(house: &House) {
    let stage = Stage::new(house, "floods_tls", &["workers = 1", "client_login_timeout = 0", "max_client_conn = 5000"]);
    assert_eq!(stage.ask("floods_tls", "select 1").success(), "1\n");
    let hello = client_hello();
    let mut flood: Vec<Peer> = (0..FLOOD).map(|_| knock_from_elsewhere(stage.pooler.address())).collect();
    for peer in &mut flood {
        peer.send(&packet(&SSL_CODE.to_be_bytes()));
    }
    for peer in &mut flood {
        assert_eq!(peer.bytes(1).expect("an answer"), b"S");
    }
    flood.iter_mut().for_each(|peer| peer.send(&hello));
    assert_eq!(stage.ask("floods_tls", "select 2").success(), "2\n");
    // In the order of coming all of them would have been served before.
    let served = flood.iter().filter(|peer| peer.has_bytes()).count();
    assert!(served < FLOOD / 2, "{served} of {FLOOD} handshakes came before");
}

/// Somebody who is not where the honest client is.
fn knock_from_elsewhere(address: SocketAddr) -> Peer {
    Peer::tcp_from(Ipv4Addr::new(127, 0, 0, 2), address).expect("a connection")
}

/// What a client of TLS begins with; the same may be said by many.
fn client_hello() -> Vec<u8> {
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

/// Handshakes of the flood: more than are done while somebody logs in.
const FLOOD: usize = 1500;
