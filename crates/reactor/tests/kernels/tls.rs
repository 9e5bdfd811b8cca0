//! Encrypted connections on both kernel interfaces: the other side is a client of the TLS library itself.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use base::Origin;
use reactor::tls::{Offer, OfferParts, Security, Side, TermsText};
use reactor::{Chunk, Close, Completion, Conn, End, Receive};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};

use super::{Stage, both};

type Stream = StreamOwned<ClientConnection, UnixStream>;

/// The side of Trunkline, and a client that trusts its certificate.
fn parties() -> (Side, Arc<ClientConfig>) {
    let own = rcgen::generate_simple_self_signed(vec!["db".to_owned()]).expect("a certificate");
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let parts = OfferParts {
        certificate: certificate.as_bytes(),
        key: key.as_bytes(),
        authorities: None,
        demands_certificate: false,
        terms: TermsText { protocols: "secure", ciphers: "default", suites: None, curves: "auto" },
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).expect("ours")).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let offer = Arc::new(Offer::new(&parts).expect("an offer"));
    (Side::Called { offer, from: Origin::LocalClients(None) }, Arc::new(config))
}

/// A client that performs `act`, on a thread of its own because it blocks.
fn client(theirs: UnixStream, config: Arc<ClientConfig>, act: fn(&mut Stream)) -> JoinHandle<Stream> {
    let name = ServerName::try_from("db").expect("a name");
    let mut stream = StreamOwned::new(ClientConnection::new(config, name).expect("a client"), theirs);
    thread::spawn(move || {
        act(&mut stream);
        stream
    })
}

/// Starts TLS on our end, and returns what the handshake has agreed on.
fn secure(stage: &mut Stage, conn: Conn, owner: u64, side: &Side) -> Arc<Security> {
    stage.io.secure(conn, owner, side, &[]).expect("TLS is begun");
    stage.until(|completion| match completion {
        Completion::Secured { owner: of, security } if of == owner => Some(security),
        Completion::Ended { end, .. } => panic!("ended: {end:?}"),
        _ => None,
    })
}

fn heard(stage: &mut Stage, owner: u64) -> Vec<u8> {
    stage.until(|completion| match completion {
        Completion::Received { owner: of, bytes } if of == owner => Some(bytes.bytes().to_vec()),
        _ => None,
    })
}

#[test]
fn what_is_said_in_secret_is_heard_and_the_farewell_too() {
    both(|make| {
        let (side, config) = parties();
        let mut stage = make(16);
        let (theirs, conn) = stage.caller(1);
        let them = client(theirs, config, |stream| {
            stream.write_all(b"hello").expect("said");
            let mut answer = Vec::new();
            // An end without `close_notify` would be an error here.
            stream.read_to_end(&mut answer).expect("a farewell");
            assert_eq!(answer, b"good day");
        });
        assert!(secure(&mut stage, conn, 1, &side).summary.starts_with("TLSv1.3/"));
        stage.io.receive(conn, Receive::Stream);
        assert_eq!(heard(&mut stage, 1), b"hello");
        stage.io.send(conn, Chunk::Own((*b"good ").into()));
        stage.io.send(conn, Chunk::Own((*b"day").into()));
        stage.io.close(conn, Close::AfterSending);
        while !them.is_finished() {
            stage.turn();
        }
        them.join().expect("they heard it");
    });
}

/// A client's first bytes arrive with its last ones of the handshake, before the worker has asked for any.
#[test]
fn what_came_early_goes_along_to_another_worker() {
    both(|make| {
        let (side, config) = parties();
        let mut stage = make(16);
        let (theirs, conn) = stage.caller(2);
        let them = client(theirs, config, |stream| {
            let (tls, socket) = (&mut stream.conn, &mut stream.sock);
            let mut wired = Vec::new();
            while tls.is_handshaking() {
                tls.write_tls(&mut wired).expect("a buffer");
                socket.write_all(&std::mem::take(&mut wired)).expect("sent");
                tls.read_tls(socket).expect("an answer");
                tls.process_new_packets().expect("a handshake");
            }
            tls.writer().write_all(b"first").expect("said");
            tls.writer().write_all(b"second").expect("said");
            while tls.wants_write() {
                tls.write_tls(&mut wired).expect("a buffer");
            }
            socket.write_all(&wired).expect("sent");
        });
        secure(&mut stage, conn, 2, &side);
        drop(them.join().expect("they said it"));
        let mut all = Vec::new();
        let socket = stage.io.release(conn).expect("nothing is under way");
        let conn = stage.io.adopt(socket, 3).expect("ours");
        stage.io.receive(conn, Receive::Stream);
        while all.len() < 11 {
            all.extend(heard(&mut stage, 3));
        }
        assert_eq!(all, b"firstsecond");
        let end = stage.until(|completion| match completion {
            Completion::Ended { owner: 3, end } => Some(end),
            _ => None,
        });
        assert!(matches!(end, End::Eof), "{end:?}");
    });
}

#[test]
fn who_is_paused_hears_nothing_and_all_of_it_after() {
    both(|make| {
        let (side, config) = parties();
        let mut stage = make(16);
        let (theirs, conn) = stage.caller(4);
        let them = client(theirs, config, |stream| {
            for _ in 0..64 {
                stream.write_all(&[7; 5000]).expect("said");
            }
        });
        secure(&mut stage, conn, 4, &side);
        stage.io.receive(conn, Receive::Stream);
        let mut all = heard(&mut stage, 4);
        stage.io.pause(conn);
        // The completions of the last turn.
        for done in std::mem::take(&mut stage.done) {
            if let Completion::Received { bytes, .. } = done {
                all.extend_from_slice(bytes.bytes());
            }
        }
        for _ in 0..20 {
            stage.turn();
        }
        assert!(!stage.done.iter().any(|done| matches!(done, Completion::Received { .. })));
        stage.io.receive(conn, Receive::Stream);
        while all.len() < 64 * 5000 {
            all.extend(heard(&mut stage, 4));
        }
        assert!(all.len() == 64 * 5000 && all.iter().all(|&byte| byte == 7));
        drop(them.join());
    });
}

#[test]
fn nonsense_instead_of_a_handshake_is_told_and_answered_with_an_alert() {
    both(|make| {
        let (side, _) = parties();
        let mut stage = make(16);
        let (mut theirs, conn) = stage.caller(5);
        theirs.write_all(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]).expect("said");
        stage.io.secure(conn, 5, &side, &[]).expect("TLS is begun");
        let end = stage.until(|completion| match completion {
            Completion::Ended { owner: 5, end } => Some(end),
            _ => None,
        });
        assert!(matches!(end, End::Insecure(_)), "{end:?}");
        // Plain text would be read as a record.
        stage.io.send(conn, Chunk::Own((*b"error").into()));
        stage.io.close(conn, Close::AfterSending);
        stage.turn();
        stage.turn();
        let mut told = Vec::new();
        theirs.read_to_end(&mut told).expect("the end");
        assert_eq!((told[0], told.len()), (0x15, 7), "{told:?}");
    });
}

#[test]
fn a_connection_that_is_closed_in_the_middle_of_a_handshake_is_heard_of_no_more() {
    both(|make| {
        let (side, config) = parties();
        let mut stage = make(16);
        let (theirs, conn) = stage.caller(6);
        let them = client(theirs, config, |stream| {
            let refused = stream.write_all(b"hello").expect_err("nobody there");
            assert!(matches!(
                refused.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            ));
        });
        stage.io.secure(conn, 6, &side, &[]).expect("TLS is begun");
        stage.io.close(conn, Close::Now);
        while !them.is_finished() {
            stage.turn();
        }
        drop(them.join().expect("they saw it"));
        let about_it = |done: &Completion<_>| {
            matches!(done, Completion::Secured { .. } | Completion::Received { .. } | Completion::Ended { .. })
        };
        assert!(!stage.done.iter().any(about_it), "{:?}", stage.done);
    });
}
