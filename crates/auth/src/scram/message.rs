//! Parsers of the four SCRAM messages (RFC 5802, section 7).
//!
//! Always true: a parsed message refers to the received bytes; only decoded values are copied. Optional extensions are
//! skipped where the grammar allows them, mandatory ones (`m=`) are refused.
//! Not here: whether the contents of a message are correct.

use super::fault::{Flaw, Message, ScramFault};
use super::maths::{self, Key};

/// The client's support of channel binding: the flag at the start of its GS2 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binding {
    /// `n`: the client does not support channel binding.
    Unknown,
    /// `y`: the client supports channel binding, and thinks that the server does not.
    Declined,
    /// `p`: the client uses channel binding of the type `tls-server-end-point`.
    Bound,
}

impl Binding {
    /// The GS2 header of the client-first-message.
    pub(super) fn header(self) -> &'static str {
        match self {
            Self::Unknown => "n,,",
            Self::Declined => "y,,",
            Self::Bound => "p=tls-server-end-point,,",
        }
    }

    /// The GS2 header in Base64, as the client-final-message repeats it, followed by the channel binding data if the login uses
    /// channel binding.
    pub(super) fn repeated(self, channel: Option<&[u8]>) -> String {
        let channel = channel.filter(|_| self == Self::Bound).unwrap_or_default();
        maths::base64(&[self.header().as_bytes(), channel].concat())
    }
}

/// client-first-message.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct ClientFirst<'a> {
    pub(super) binding: Binding,
    /// The message without its GS2 header.
    pub(super) bare: &'a [u8],
    pub(super) nonce: &'a [u8],
}

impl<'a> ClientFirst<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ScramFault> {
        let (binding, rest) = match bytes {
            [b'n', b',', rest @ ..] => (Binding::Unknown, rest),
            [b'y', b',', rest @ ..] => (Binding::Declined, rest),
            [b'p', b'=', rest @ ..] => {
                let rest = rest.strip_prefix(b"tls-server-end-point,").ok_or(ScramFault::ChannelBindingUnknown)?;
                (Binding::Bound, rest)
            }
            _ => return Err(Message::ClientFirst.flawed(Flaw::ChannelBindingFlag)),
        };
        let bare = match rest {
            [b',', bare @ ..] => bare,
            [b'a', ..] => return Err(ScramFault::AuthorizationIdentity),
            _ => return Err(Message::ClientFirst.flawed(Flaw::Expected('a'))),
        };
        let mut attributes = Attributes::of(Message::ClientFirst, bare, CLIENT_BYTES_MAX)?;
        attributes.take('n')?;
        let nonce = attributes.take_nonce()?;
        attributes.skip_all()?;
        Ok(Self { binding, bare, nonce })
    }
}

/// server-first-message.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct ServerFirst<'a> {
    pub(super) nonce: &'a [u8],
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u64,
}

impl<'a> ServerFirst<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ScramFault> {
        let mut attributes = Attributes::of(Message::ServerFirst, bytes, SERVER_BYTES_MAX)?;
        let nonce = attributes.take_nonce()?;
        let salt = attributes.take_as('s', maths::from_base64)?;
        let iterations = attributes.take_as('i', number)?;
        attributes.skip_all()?;
        Ok(Self { nonce, salt, iterations })
    }
}

/// client-final-message.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct ClientFinal<'a> {
    /// The GS2 header in Base64.
    pub(super) binding: &'a [u8],
    pub(super) nonce: &'a [u8],
    pub(super) proof: Key,
    /// The message without its proof, which is what the proof signs.
    pub(super) unproven: &'a [u8],
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ScramFault> {
        let mut attributes = Attributes::of(Message::ClientFinal, bytes, CLIENT_BYTES_MAX)?;
        let binding = attributes.take('c')?;
        let nonce = attributes.take_nonce()?;
        while !attributes.is_at('p') {
            if attributes.skip()?.is_none() {
                return Err(Message::ClientFinal.flawed(Flaw::Expected('p')));
            }
        }
        let unproven = &bytes[..attributes.read_bytes()];
        let proof = attributes.take_as('p', maths::key_from_base64)?;
        attributes.end()?;
        Ok(Self { binding, nonce, proof, unproven })
    }
}

/// The signature of a server-final-message; an error of the server is a fault.
pub(super) fn server_final(bytes: &[u8]) -> Result<Key, ScramFault> {
    let mut attributes = Attributes::of(Message::ServerFinal, bytes, SERVER_BYTES_MAX)?;
    if attributes.is_at('e') {
        return Err(ScramFault::ServerError(readable(attributes.take('e')?)));
    }
    let signature = attributes.take_as('v', maths::key_from_base64)?;
    attributes.skip_all()?;
    Ok(signature)
}

/// The longest message of a client, in bytes (`PG_MAX_SASL_MESSAGE_LENGTH` of PostgreSQL).
const CLIENT_BYTES_MAX: usize = 1024;

/// The longest message of a server, in bytes; libpq accepts authentication requests of at most 2000 bytes.
const SERVER_BYTES_MAX: usize = 2000;

/// Parses a decimal number without a sign; `u64::MAX` stands for all larger numbers.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits(text).then(|| {
        text.iter().fold(0_u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

impl Message {
    fn flawed(self, flaw: Flaw) -> ScramFault {
        ScramFault::Malformed { message: self, flaw }
    }
}

/// The attributes of a message (`letter=value`, separated by commas), consumed from left to right.
struct Attributes<'a> {
    message: Message,
    bytes: &'a [u8],
    /// Where the next attribute begins; `None` behind the last.
    next: Option<usize>,
}

impl<'a> Attributes<'a> {
    fn of(message: Message, bytes: &'a [u8], bytes_max: usize) -> Result<Self, ScramFault> {
        if bytes.len() > bytes_max {
            return Err(message.flawed(Flaw::TooLong));
        }
        if bytes.contains(&0) {
            return Err(message.flawed(Flaw::Nul));
        }
        Ok(Self { message, bytes, next: Some(0) })
    }

    /// Consumes the next attribute, which must have this letter.
    fn take(&mut self, letter: char) -> Result<&'a [u8], ScramFault> {
        if !self.is_at(letter) && !self.is_at('m') {
            return Err(self.message.flawed(Flaw::Expected(letter)));
        }
        self.skip()?.ok_or(self.message.flawed(Flaw::Expected(letter)))
    }

    fn take_as<T>(&mut self, letter: char, read: fn(&[u8]) -> Option<T>) -> Result<T, ScramFault> {
        read(self.take(letter)?).ok_or(self.message.flawed(Flaw::Invalid(letter)))
    }

    fn take_nonce(&mut self) -> Result<&'a [u8], ScramFault> {
        let nonce = self.take('r')?;
        // There can be no comma, because it would have ended the value.
        if nonce.is_empty() || !nonce.iter().all(u8::is_ascii_graphic) {
            return Err(self.message.flawed(Flaw::Invalid('r')));
        }
        Ok(nonce)
    }

    /// Consumes the next attribute, whatever its letter; `None` at the end.
    fn skip(&mut self) -> Result<Option<&'a [u8]>, ScramFault> {
        let Some(start) = self.next else { return Ok(None) };
        let rest = &self.bytes[start..];
        match rest {
            [b'm', b'=', ..] => return Err(ScramFault::MandatoryExtension),
            [letter, b'=', ..] if letter.is_ascii_alphabetic() => {}
            _ => return Err(self.message.flawed(Flaw::NoAttribute)),
        }
        let length = rest.iter().position(|&byte| byte == b',');
        self.next = length.map(|length| start + length + 1);
        Ok(Some(&rest[2..length.unwrap_or(rest.len())]))
    }

    fn skip_all(&mut self) -> Result<(), ScramFault> {
        while self.skip()?.is_some() {}
        Ok(())
    }

    fn end(&self) -> Result<(), ScramFault> {
        if self.next.is_some() { Err(self.message.flawed(Flaw::Trailing)) } else { Ok(()) }
    }

    /// Whether the next attribute has this letter.
    fn is_at(&self, letter: char) -> bool {
        let rest = self.next.map_or(&[][..], |start| &self.bytes[start..]);
        matches!(rest, [first, b'=', ..] if char::from(*first) == letter)
    }

    /// The length of the consumed attributes, without the comma behind them.
    fn read_bytes(&self) -> usize {
        self.next.map_or(self.bytes.len(), |start| start.saturating_sub(1))
    }
}

/// The text of a peer without control characters, for a log line.
fn readable(words: &[u8]) -> String {
    String::from_utf8_lossy(words).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
