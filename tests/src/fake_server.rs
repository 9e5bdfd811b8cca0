//! A TCP server with any behaviour: it stands for a PostgreSQL server, an LDAP directory or a collector.
//!
//! Always true: each connection has a thread of its own; the server accepts none after its guard is dropped.
//! Not here: what it answers, which each test decides.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, crypto};

use crate::authority::Identity;
use crate::message::{frame, strings};

/// What PostgreSQL sends to a client that needs no password.
pub fn greeting() -> Vec<u8> {
    let parameters = [["server_version", "15.0"], ["client_encoding", "UTF8"], ["standard_conforming_strings", "on"]];
    let parameters = parameters.map(|parameter| frame(b'S', &strings(&parameter))).concat();
    [frame(b'R', &[0; 4]), parameters, frame(b'K', &[0; 8]), frame(b'Z', b"I")].concat()
}

/// A TCP server that answers whatever a test wants.
#[derive(Debug)]
pub struct FakeServer {
    port: u16,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Gives each connection to this function, on a thread of its own.
    ///
    /// # Panics
    /// When no port is free.
    pub fn open(talk: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, talk) = (is_over.clone(), Arc::new(talk));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let talk = talk.clone();
                std::thread::spawn(move || talk(stream));
            }
        });
        Self { port, is_over, thread: Some(thread) }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The configuration of a TLS server with this certificate.
pub(crate) fn tls(identity: &Identity) -> ServerConfig {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("protocols").with_no_client_auth();
    builder.with_single_cert(vec![certificate], key).expect("a certificate with its key")
}
