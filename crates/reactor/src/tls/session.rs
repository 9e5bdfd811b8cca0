//! One TLS session, driven by bytes: received bytes go in, bytes to be sent and plain text come out.
//!
//! Always true: a session never waits and knows no socket; an error is in words for the log, and comes with the alert
//! for the other side.
//! Not here: where the bytes come from (`layer`), on which thread a handshake is done (`handshake_pool`).

use std::fmt;

use base::Origin;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{CertificateError, CommonState, Error, HandshakeKind};

use super::certificate::{self, Named};
use super::demand::server_name;
use super::offer::ALPN;
use super::{Security, Side, terms};

/// A TLS session.
pub(crate) struct Session {
    machine: Machine,
    /// Bytes that the cipher adds to a record; known after the handshake.
    overhead: usize,
    /// The hash of our own certificate, if we are the TLS server.
    own_end_point: Option<Box<[u8]>>,
    /// The origin of the client, if we are the TLS server.
    called_by: Option<Origin>,
}

/// The library's connection.
enum Machine {
    Called(UnbufferedServerConnection),
    Calling(UnbufferedClientConnection),
}

/// The outcome of processing some bytes.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// How many of the bytes were used; the others are the beginning of an incomplete record.
    pub(crate) used: usize,
    /// Bytes to be sent.
    pub(crate) out: Vec<u8>,
    /// Decrypted bytes.
    pub(crate) plain: Vec<u8>,
    /// The state of the session now.
    pub(crate) state: State,
}

/// The state of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    /// The handshake needs more bytes.
    #[default]
    Handshaking,
    /// Bytes can be sent and received.
    Open,
    /// The other side has sent `close_notify`.
    Over,
    /// The session failed; in words for the log.
    Broken(String),
}

/// What is to be encrypted.
#[derive(Clone, Copy)]
enum Outgoing<'a> {
    Plain(&'a [u8]),
    CloseNotify,
}

impl Session {
    /// Creates a session whose handshake has not begun.
    ///
    /// # Errors
    /// The library refuses; in words for the log.
    pub(crate) fn new(side: &Side) -> Result<Self, String> {
        let (machine, own_end_point, called_by) = match side {
            Side::Called { offer, from } => {
                let machine = UnbufferedServerConnection::new(offer.config.clone()).map(Machine::Called);
                (machine, offer.end_point.clone(), Some(*from))
            }
            Side::Calling { demand, host } => {
                let name = server_name(host);
                (UnbufferedClientConnection::new(demand.config.clone(), name).map(Machine::Calling), None, None)
            }
        };
        Ok(Self { machine: machine.map_err(|error| words(&error))?, overhead: 0, own_end_point, called_by })
    }

    /// Processes received bytes, after those that the last call left unused. They are decrypted in place.
    pub(crate) fn take(&mut self, bytes: &mut [u8]) -> Taken {
        let taken = self.drive(bytes, None);
        if self.overhead == 0 {
            self.overhead = terms::overhead(self.common().negotiated_cipher_suite());
        }
        taken
    }

    /// Encrypts `plain`. `bytes` are those that the last call left unused: the library wants to see them in every call.
    pub(crate) fn encrypt(&mut self, bytes: &mut [u8], plain: &[u8]) -> Taken {
        let records = plain.len().div_ceil(RECORD_BYTES_MAX);
        self.drive(bytes, Some((Outgoing::Plain(plain), plain.len() + records * self.overhead)))
    }

    /// Encrypts `close_notify`: nothing more will be sent.
    pub(crate) fn close_notify(&mut self, bytes: &mut [u8]) -> Vec<u8> {
        self.drive(bytes, Some((Outgoing::CloseNotify, CLOSE_NOTIFY_BYTES_MAX))).out
    }

    fn drive(&mut self, bytes: &mut [u8], outgoing: Option<(Outgoing<'_>, usize)>) -> Taken {
        match &mut self.machine {
            Machine::Called(session) => drive(session, bytes, outgoing),
            Machine::Calling(session) => drive(session, bytes, outgoing),
        }
    }

    /// The origin of the client that has called us, if we are the TLS server.
    pub(crate) fn called_by(&self) -> Option<Origin> {
        self.called_by
    }

    /// Whether the handshake is not complete.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.common().is_handshaking()
    }

    /// What the handshake has agreed on.
    pub(crate) fn security(&self) -> Security {
        let common = self.common();
        let group = common.negotiated_key_exchange_group().map(|group| group.name());
        let summary = terms::summary(common.protocol_version(), common.negotiated_cipher_suite(), group);
        let theirs = common.peer_certificates().and_then(|chain| chain.first());
        let end_point = match &self.machine {
            Machine::Called(_) => self.own_end_point.clone(),
            Machine::Calling(_) => theirs.and_then(|leaf| certificate::end_point(leaf)),
        };
        let names = theirs.map(|leaf| Named::of(leaf).all()).unwrap_or_default();
        let is_protocol_agreed = common.alpn_protocol() == Some(ALPN);
        let is_resumed = common.handshake_kind() == Some(HandshakeKind::Resumed);
        Security { summary: summary.into(), end_point, names, is_protocol_agreed, is_resumed }
    }

    fn common(&self) -> &CommonState {
        match &self.machine {
            Machine::Called(session) => session,
            Machine::Calling(session) => session,
        }
    }
}

/// What the library's two kinds of connections have in common.
trait Unbuffered {
    type Kind;

    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Kind>;

    fn has_more_to_send(&self) -> bool;
}

impl Unbuffered for UnbufferedServerConnection {
    type Kind = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Kind> {
        self.process_tls_records(bytes)
    }

    fn has_more_to_send(&self) -> bool {
        self.wants_write()
    }
}

impl Unbuffered for UnbufferedClientConnection {
    type Kind = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Kind> {
        self.process_tls_records(bytes)
    }

    fn has_more_to_send(&self) -> bool {
        self.wants_write()
    }
}

/// Runs the library until it needs more bytes or has encrypted `outgoing`. Records of the library itself, such as key
/// updates, come before `outgoing`.
fn drive<M: Unbuffered>(machine: &mut M, bytes: &mut [u8], outgoing: Option<(Outgoing<'_>, usize)>) -> Taken {
    let mut taken = Taken::default();
    let mut is_over = false;
    loop {
        let status = machine.process(&mut bytes[taken.used..]);
        taken.used += status.discard;
        match status.state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(Ok(record)) = traffic.next_record() {
                    taken.used += record.discard;
                    taken.plain.extend_from_slice(record.payload);
                }
            }
            Ok(ConnectionState::EncodeTlsData(record)) => encode(record, &mut taken.out),
            Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
            Ok(ConnectionState::PeerClosed) => is_over = true,
            Ok(ConnectionState::WriteTraffic(mut writer)) => {
                taken.state = if is_over { State::Over } else { State::Open };
                if let Some((outgoing, room)) = outgoing
                    && !fill(&mut taken.out, room, |room| outgoing.write(&mut writer, room))
                {
                    taken.state = State::Broken("its keys are used up".to_owned());
                }
                return taken;
            }
            Ok(ConnectionState::BlockedHandshake) => return taken,
            // We never offer early data, so no other state is possible but that both sides have closed.
            Ok(_) => {
                taken.state = State::Over;
                return taken;
            }
            Err(error) => {
                taken.state = State::Broken(words(&error));
                alert(machine, &mut bytes[taken.used..], &mut taken.out);
                return taken;
            }
        }
    }
}

/// After an error, encodes the alert that the library has for the other side. The library is asked for nothing else any
/// more.
fn alert<M: Unbuffered>(machine: &mut M, bytes: &mut [u8], out: &mut Vec<u8>) {
    while machine.has_more_to_send() {
        let Ok(ConnectionState::EncodeTlsData(record)) = machine.process(bytes).state else { return };
        encode(record, out);
    }
}

fn encode<K>(mut record: EncodeTlsData<'_, K>, out: &mut Vec<u8>) {
    fill(out, 0, |room| match record.encode(room) {
        Ok(written) => Ok(written),
        Err(EncodeError::InsufficientSize(wanted)) => Err(Some(wanted.required_size)),
        Err(EncodeError::AlreadyEncoded) => Err(None),
    });
}

impl Outgoing<'_> {
    fn write<K>(self, writer: &mut WriteTraffic<'_, K>, room: &mut [u8]) -> Result<usize, Option<usize>> {
        let written = match self {
            Self::Plain(plain) => writer.encrypt(plain, room),
            Self::CloseNotify => writer.queue_close_notify(room),
        };
        written.map_err(|error| match error {
            EncryptError::InsufficientSize(wanted) => Some(wanted.required_size),
            EncryptError::EncryptExhausted => None,
        })
    }
}

/// Appends what `write` writes: with room for `room` bytes at first, then with as much as it asks for. Returns whether
/// it succeeded.
fn fill(out: &mut Vec<u8>, room: usize, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> bool {
    let start = out.len();
    let mut room = room;
    for _ in 0..2 {
        out.resize(start + room, 0);
        match write(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return true;
            }
            Err(Some(wanted)) => room = wanted,
            Err(None) => break,
        }
    }
    out.truncate(start);
    false
}

/// Words an error with the phrases that users of OpenSSL look for.
fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => {
            let why = match why {
                CertificateError::UnknownIssuer => "unable to get local issuer certificate".to_owned(),
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "certificate has expired".to_owned()
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    "it does not name the host".to_owned()
                }
                why => why.to_string(),
            };
            format!("certificate verify failed: {why}")
        }
        Error::NoCertificatesPresented => "peer did not return a certificate".to_owned(),
        Error::AlertReceived(alert) => format!("the other side says {alert:?}"),
        error => error.to_string(),
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// Most bytes of application data in one record.
const RECORD_BYTES_MAX: usize = 16_384;
/// More than an alert and the records before it need.
const CLOSE_NOTIFY_BYTES_MAX: usize = 256;

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
