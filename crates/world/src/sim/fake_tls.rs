//! A stand-in for TLS: a handshake of fixed words, and every byte that follows turned into another.
//!
//! Always true: nobody reads beyond a handshake while it is under way; a byte that is said in clear on an encrypted connection, or
//! encrypted on another one, is nonsense to whoever reads it.
//! Not here: the real thing (`reactor::tls`).

use std::sync::{Arc, OnceLock};

use base::Key;
use reactor::tls::Security;
use reactor::{Completion, End as Ending};

use crate::postgres::manner::HostTls;
use crate::sim::agenda::Event;
use crate::sim::dice::Dice;
use crate::sim::io::{Life, SimSocket};
use crate::sim::net::Net;

/// Who speaks TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeTls {
    /// Clients are offered it.
    pub(crate) is_offered: bool,
    /// They must take it.
    pub(crate) is_required: bool,
    /// Whether a host does.
    pub(crate) hosts: Vec<HostTls>,
}

impl FakeTls {
    /// How many of a thousand times somebody asks for TLS.
    pub(crate) fn habit(&self) -> u32 {
        match self {
            Self { is_required: true, .. } => 1000,
            Self { is_offered: true, .. } => 500,
            _ => 0,
        }
    }

    /// Those of a seed.
    pub(crate) fn draw(seed: u64, hosts: usize) -> Self {
        // Its own stream, so that the stories of seeds without TLS stay what they are.
        let mut dice = Dice::new(seed, TLS_STREAM);
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

/// What a caller says first. It begins as TLS does, so that it may also come without having been asked for.
pub(crate) const HELLO: &[u8] =
    b"\x16\x03\x01\x00\x3e\x01\x00\x00\x3ahello, I should like to speak without being overheard.....";
/// What whoever was called answers.
pub(crate) const ANSWER: &[u8] = b"\x16\x03\x03\x00\x30\x02so be it; this is who I am, and from now on we are alone";

/// A worker's part of a handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shake {
    got: Vec<u8>,
    is_calling: bool,
    /// Its last word has come; somebody beside the worker thinks about it.
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
    /// Bytes or an end have reached a worker's connection on which a handshake is under way.
    pub(crate) fn shake(&mut self, worker: u8, line: Key) {
        let Some((end, Life::Shaking(mut shake))) = self.desk(worker).life_of(line) else { return };
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
        self.desk(worker).set_life(line, Life::Shaking(shake));
    }

    /// Somebody has thought about the last word of a handshake.
    pub(crate) fn handshaken(&mut self, worker: u8, line: Key, is_good: bool) {
        let Some((end, Life::Shaking(shake))) = self.desk(worker).life_of(line) else { return };
        if !is_good {
            self.shake_fails(worker, line, "nonsense in the handshake");
            return;
        }
        if !shake.is_calling {
            self.give(end, ANSWER.to_vec().into());
            self.push_and_tell(end);
        }
        self.end_mut(end).is_encrypted = true;
        self.desk(worker).set_life(line, Life::Open);
        let Some(owner) = self.desk(worker).owner_of(line) else { return };
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
        self.desk(worker).set_life(line, Life::Ended);
        let Some(owner) = self.desk(worker).owner_of(line) else { return };
        self.complete(worker, Completion::<SimSocket>::Ended { owner, end: Ending::Insecure(why.to_owned()) });
    }
}

/// Encrypts bytes, or decrypts them.
pub(crate) fn encrypt(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0xa5);
}

/// A certificate at which nobody looks, and its key, as they are in files.
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
/// The stream of chance for TLS.
const TLS_STREAM: u64 = u64::MAX - 2;
/// What a login can be bound to.
pub(crate) const CHANNEL: &[u8] = b"the hash of a certificate";
/// Who computes a handshake may take so long, in microseconds.
const THINKS: u64 = 20_000;
