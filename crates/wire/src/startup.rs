//! Startup packets, the first packets of a connection. They have a length and no kind byte.
//!
//! Always true: a packet is parsed whole or not at all; its length is checked before any of its bytes are kept.
//! Not here: the answers (`protocol::client::greeting`).

use crate::STARTUP_BYTES_MAX;

/// A parsed startup packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Startup<'p> {
    /// `SSLRequest`.
    Ssl,
    /// `GSSENCRequest`.
    GssEnc,
    /// `CancelRequest`.
    Cancel {
        /// The bytes after the request code: process id and secret together, as the pooler sent them in `BackendKeyData`.
        key: Box<[u8]>,
    },
    /// `StartupMessage` of major version 3.
    Session {
        /// The requested minor version.
        minor: u16,
        /// Names and values, in the order sent.
        parameters: Vec<(&'p str, &'p str)>,
    },
    /// Another major version.
    Version {
        /// The requested major version.
        major: u16,
    },
}

/// Why a packet is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartupFault {
    /// The length is too small or too large for a startup packet.
    Length(u32),
    /// The parameter list does not end with a zero byte.
    Terminator,
    /// The packet ends in the middle of a parameter, a parameter has no name, or the body of a request has a wrong length.
    Layout,
    /// A name or value is not UTF-8.
    Encoding,
}

/// The length of the packet at the beginning of `bytes`, which may be more than `bytes` has; `None` while its length word is
/// incomplete.
///
/// # Errors
/// Fails if the length is too small or too large for a startup packet.
pub fn packet_bytes(bytes: &[u8]) -> Result<Option<usize>, StartupFault> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(StartupFault::Length(length));
    }
    Ok(Some(length as usize))
}

impl<'p> Startup<'p> {
    /// Parses one whole packet, including its length word.
    ///
    /// # Errors
    /// Fails if the packet is invalid.
    pub fn parse(packet: &'p [u8]) -> Result<Self, StartupFault> {
        let code = packet
            .get(4..8)
            .and_then(|code| code.first_chunk::<4>())
            .ok_or(StartupFault::Length(packet.len() as u32))?;
        let body = &packet[8..];
        match u32::from_be_bytes(*code) {
            SSL_REQUEST if body.is_empty() => Ok(Self::Ssl),
            GSSENC_REQUEST if body.is_empty() => Ok(Self::GssEnc),
            CANCEL_REQUEST if (8..=260).contains(&body.len()) => Ok(Self::Cancel { key: body.into() }),
            SSL_REQUEST | GSSENC_REQUEST | CANCEL_REQUEST => Err(StartupFault::Layout),
            version if version >> 16 == 3 => {
                Ok(Self::Session { minor: (version & 0xffff) as u16, parameters: parameters(body)? })
            }
            version => Ok(Self::Version { major: (version >> 16) as u16 }),
        }
    }
}

fn parameters(body: &[u8]) -> Result<Vec<(&str, &str)>, StartupFault> {
    let Some((0, strings)) = body.split_last() else { return Err(StartupFault::Terminator) };
    let mut rest = std::str::from_utf8(strings).map_err(|_| StartupFault::Encoding)?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (name, value);
        (name, rest) = string(rest)?;
        (value, rest) = string(rest)?;
        if name.is_empty() {
            return Err(StartupFault::Layout);
        }
        found.push((name, value));
    }
    Ok(found)
}

/// The first string, and what follows its terminator. A loop over the bytes: names and values are too short for a search that has to
/// be set up.
fn string(strings: &str) -> Result<(&str, &str), StartupFault> {
    let end = strings.bytes().position(|byte| byte == 0).ok_or(StartupFault::Layout)?;
    Ok((&strings[..end], &strings[end + 1..]))
}

/// The request code of `SSLRequest`.
pub const SSL_REQUEST: u32 = 80_877_103;
/// The request code of `GSSENCRequest`.
pub const GSSENC_REQUEST: u32 = 80_877_104;
/// The request code of `CancelRequest`.
pub const CANCEL_REQUEST: u32 = 80_877_102;
/// The newest supported minor version of protocol 3.
pub const MINOR_NEWEST: u16 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = (body.len() as u32 + 8).to_be_bytes().to_vec();
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn parameters_come_in_the_order_sent() {
        let bytes = packet(3 << 16 | 2, b"user\0ann\0database\0shop\0\0");
        assert_eq!(
            Startup::parse(&bytes),
            Ok(Startup::Session { minor: 2, parameters: vec![("user", "ann"), ("database", "shop")] })
        );
    }

    #[test]
    fn what_is_wrong_with_a_packet_has_a_name() {
        assert_eq!(packet_bytes(&[0, 0, 0, 7]), Err(StartupFault::Length(7)));
        assert_eq!(packet_bytes(&[0xff; 4]), Err(StartupFault::Length(u32::MAX)));
        assert_eq!(packet_bytes(&[0, 0]), Ok(None));
        assert_eq!(Startup::parse(&packet(3 << 16, b"user\0ann\0x")), Err(StartupFault::Terminator));
        assert_eq!(Startup::parse(&packet(3 << 16, b"")), Err(StartupFault::Terminator));
        assert_eq!(
            Startup::parse(&packet(3 << 16, b"user\0ann\0database\0\0\0")),
            Ok(Startup::Session { minor: 0, parameters: vec![("user", "ann"), ("database", "")] })
        );
        assert_eq!(Startup::parse(&packet(3 << 16, b"user\0")), Err(StartupFault::Layout));
        assert_eq!(Startup::parse(&packet(3 << 16, b"user\0\xff\0\0")), Err(StartupFault::Encoding));
        assert_eq!(Startup::parse(&packet(SSL_REQUEST, b"x")), Err(StartupFault::Layout));
        assert_eq!(Startup::parse(&packet(2 << 16, b"")), Ok(Startup::Version { major: 2 }));
    }

    #[test]
    fn a_cancel_request_names_its_key() {
        assert_eq!(
            Startup::parse(&packet(CANCEL_REQUEST, b"12345678")),
            Ok(Startup::Cancel { key: b"12345678"[..].into() })
        );
        assert_eq!(Startup::parse(&packet(CANCEL_REQUEST, b"1234567")), Err(StartupFault::Layout));
    }

    proptest! {
        #[test]
        fn random_packets_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = packet_bytes(&bytes);
            let _ = Startup::parse(&bytes);
        }
    }
}
