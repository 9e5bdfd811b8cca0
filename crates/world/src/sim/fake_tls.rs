//! A stand-in for TLS: a handshake of fixed bytes, after which every byte is changed by XOR.
//!
//! Always true: nobody reads beyond a handshake while it is under way; a plain byte on an encrypted connection, or an
//! encrypted one on another, is nonsense to its reader.
//! Not here: real TLS (`reactor::tls`).

use std::sync::{Arc, OnceLock};

use base::Key;
use reactor::tls::Security;
use reactor::{Completion, End as Ending};

use crate::plan::streams::Stream;
use crate::postgres::manner::HostTls;
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::sim::io::SimSocket;
use crate::sim::net::Net;
use crate::sim::worker_io::Life;

/// Which sides use TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeTls {
    /// TLS is offered to clients.
    pub(crate) is_offered: bool,
    /// TLS is required of clients.
    pub(crate) is_required: bool,
    /// Whether each host offers TLS.
    pub(crate) hosts: Vec<HostTls>,
}

impl FakeTls {
    /// How many of a thousand connections ask for TLS.
    pub(crate) fn habit(&self) -> u32 {
        match self {
            Self { is_required: true, .. } => 1000,
            Self { is_offered: true, .. } => 500,
            _ => 0,
        }
    }

    /// Draws who uses TLS.
    pub(crate) fn draw(seed: u64, hosts: usize) -> Self {
        // A separate stream, so that the worlds of seeds without TLS do not change.
        let mut dice = Dice::new(seed, Stream::Tls.number());
        if dice.chance(600) {
            return Self { hosts: vec![HostTls::None; hosts], ..Self::default() };
        }
        let is_offered = dice.chance(800);
        let is_demanded = dice.chance(300);
        let kinds: &[HostTls] = if is_demanded { &[HostTls::Demanded] } else { &[HostTls::None, HostTls::Offered] };
        let hosts = (0..hosts).map(|_| dice.pick(kinds)).collect();
        Self { is_offered, is_required: is_offered && dice.chance(300), hosts }
    }
}

/// The first bytes of the TLS client. They begin like a ClientHello, so they may also come without an `SSLRequest`.
pub(crate) const HELLO: &[u8] =
    b"\x16\x03\x01\x00\x3e\x01\x00\x00\x3ahello, I should like to speak without being overheard.....";
/// The answer of the TLS server.
pub(crate) const ANSWER: &[u8] = b"\x16\x03\x03\x00\x30\x02so be it; this is who I am, and from now on we are alone";

/// A worker's part of a handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shake {
    got: Vec<u8>,
    is_calling: bool,
    /// The last byte has arrived, and a handshake thread checks it.
    is_thinking: bool,
}

impl Shake {
    pub(crate) fn new(is_calling: bool, said: &[u8]) -> Self {
        Self { got: said.to_vec(), is_calling, is_thinking: false }
    }

    fn awaited(&self) -> &'static [u8] {
        if self.is_calling { ANSWER } else { HELLO }
    }

    fn missing(&self) -> usize {
        self.awaited().len().saturating_sub(self.got.len())
    }
}

impl Net {
    /// Bytes or an end have reached a worker's connection with a handshake under way.
    pub(crate) fn shake(&mut self, worker: u8, line: Key) {
        let Some((end, Life::Handshaking(mut shake))) = self.worker_io(worker).life_of(line) else { return };
        if shake.is_thinking {
            return;
        }
        self.read(end, shake.missing(), &mut shake.got);
        let state = self.end(end);
        let is_over = state.is_reset || (state.is_eof && state.arrived_bytes == 0);
        let is_nonsense = !shake.awaited().starts_with(&shake.got);
        if shake.missing() == 0 || is_nonsense {
            shake.is_thinking = true;
            let pause = self.dice.micros(0..=THINKS);
            self.agenda.after(pause, Event::Handshaken { worker, line, is_good: !is_nonsense });
        } else if is_over {
            self.shake_fails(worker, line, "somebody left in the middle of the handshake");
            return;
        }
        self.worker_io(worker).set_life(line, Life::Handshaking(shake));
    }

    /// The last message of a handshake was checked.
    pub(crate) fn handshaken(&mut self, worker: u8, line: Key, is_good: bool) {
        let Some((end, Life::Handshaking(shake))) = self.worker_io(worker).life_of(line) else { return };
        if !is_good {
            self.shake_fails(worker, line, "nonsense in the handshake");
            return;
        }
        if !shake.is_calling {
            self.give(end, ANSWER.to_vec().into());
            self.push_and_tell(end);
        }
        self.end_mut(end).is_encrypted = true;
        self.worker_io(worker).set_life(line, Life::Open);
        let Some(owner) = self.worker_io(worker).owner_of(line) else { return };
        let end_point = Some(CHANNEL.into());
        let security = Security {
            summary: "fake TLS".into(),
            end_point,
            names: Vec::new(),
            is_protocol_agreed: true,
            is_resumed: false,
        };
        let security = Arc::new(security);
        self.complete(worker, Completion::Secured { owner, security });
    }

    fn shake_fails(&mut self, worker: u8, line: Key, why: &str) {
        self.worker_io(worker).set_life(line, Life::Ended);
        let Some(owner) = self.worker_io(worker).owner_of(line) else { return };
        self.complete(worker, Completion::<SimSocket>::Ended { owner, end: Ending::Insecure(why.to_owned()) });
    }
}

/// Encrypts or decrypts bytes.
pub(crate) fn encrypt(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0xa5);
}

/// A self-signed certificate that nobody checks, and its key, as PEM.
pub(crate) fn papers() -> &'static (String, String) {
    static PAPERS: OnceLock<(String, String)> = OnceLock::new();
    PAPERS.get_or_init(|| match rcgen::generate_simple_self_signed(["pooler".to_owned()]) {
        Ok(paper) => (paper.cert.pem(), paper.signing_key.serialize_pem()),
        Err(why) => panic!("no certificate: {why}"),
    })
}

/// The names of these files.
pub(crate) const CERTIFICATE: &str = "certificate";
pub(crate) const KEY: &str = "key";
/// The channel binding data (`tls-server-end-point`).
pub(crate) const CHANNEL: &[u8] = b"the hash of a certificate";
/// How long the check of a handshake takes at most, microseconds.
const THINKS: u64 = 20_000;
