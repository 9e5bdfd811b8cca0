//! The PROXY protocol, versions 1 and 2: a header before a connection's first bytes, in which a proxy names the client.
//!
//! Always true: a header counts only as a whole, and more bytes never change what has been decided; reading one takes time
//! linear in its length, which is bounded; what follows a header is not looked at. The specification is HAProxy's
//! `doc/proxy-protocol.txt`.
//! Not here: from whom a header is expected (`config`), what its address is good for (`worker::admission`).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io::Write;

/// A header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Its length in bytes.
    pub bytes: usize,
    /// The client's address. `None` if the header names none: the connection is the proxy's own (`LOCAL`), or the proxy does
    /// not know (`UNKNOWN`, `AF_UNSPEC`), or the client uses a Unix socket of the proxy's machine.
    pub client: Option<SocketAddr>,
}

/// Why bytes are no header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderFault {
    /// They begin like something else.
    Missing,
    /// They begin like a header; the text says what is wrong with it.
    Malformed(&'static str),
}

/// The version of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Reads the header at the beginning of a connection. `None` if more bytes are needed.
///
/// # Errors
/// The bytes are not, or not the beginning of, a header.
pub fn read(bytes: &[u8]) -> Result<Option<Header>, HeaderFault> {
    if begins_like(bytes, LINE_START) {
        return if bytes.len() < LINE_START.len() { Ok(None) } else { read_line(bytes) };
    }
    if begins_like(bytes, SIGNATURE) {
        return read_binary(bytes);
    }
    Err(HeaderFault::Missing)
}

/// Whether one of the two texts is the beginning of the other.
fn begins_like(bytes: &[u8], start: &[u8]) -> bool {
    let common = bytes.len().min(start.len());
    bytes[..common] == start[..common]
}

/// Version 1: `PROXY TCP4 192.0.2.7 192.0.2.1 56324 5432` and CR LF.
fn read_line(bytes: &[u8]) -> Result<Option<Header>, HeaderFault> {
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        let is_endless = window.len() == LINE_BYTES_MAX;
        return if is_endless { Err(HeaderFault::Malformed("its line is longer than 107 bytes")) } else { Ok(None) };
    };
    let line = window[LINE_START.len()..end].strip_suffix(b"\r");
    let line = line.ok_or(HeaderFault::Malformed("its line does not end with CR LF"))?;
    let line = std::str::from_utf8(line).map_err(|_| HeaderFault::Malformed("its line is not text"))?;
    let mut words = line.split(' ');
    let client = match words.next() {
        // The rest of the line has no meaning then.
        Some("UNKNOWN") => None,
        Some("TCP4") => Some(endpoint::<Ipv4Addr>(words)?),
        Some("TCP6") => Some(endpoint::<Ipv6Addr>(words)?),
        _ => return Err(HeaderFault::Malformed("its transport is none of TCP4, TCP6 and UNKNOWN")),
    };
    Ok(Some(Header { bytes: end + 1, client }))
}

/// The client of `SOURCE DESTINATION SOURCE-PORT DESTINATION-PORT`.
fn endpoint<'w, A: Into<IpAddr> + std::str::FromStr>(
    mut words: impl Iterator<Item = &'w str>,
) -> Result<SocketAddr, HeaderFault> {
    let mut address = || -> Result<IpAddr, HeaderFault> {
        let parsed = words.next().and_then(|word| word.parse::<A>().ok());
        parsed.map(Into::into).ok_or(HeaderFault::Malformed("an address is missing or not of its transport"))
    };
    let (source, _) = (address()?, address()?);
    let mut port = || words.next().and_then(port).ok_or(HeaderFault::Malformed("a port is missing or no port"));
    let (source_port, _) = (port()?, port()?);
    if words.next().is_some() {
        return Err(HeaderFault::Malformed("there is something after its ports"));
    }
    Ok(told(source, source_port))
}

/// A port in decimal, without sign and leading zeros.
fn port(word: &str) -> Option<u16> {
    let is_decimal = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    word.parse().ok().filter(|_| is_decimal)
}

/// Version 2: signature, version and command, family and transport, the length of the rest, addresses, and TLVs, which are
/// skipped.
fn read_binary(bytes: &[u8]) -> Result<Option<Header>, HeaderFault> {
    let Some(&command) = bytes.get(SIGNATURE.len()) else { return Ok(None) };
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        0x22..=0x2f => return Err(HeaderFault::Malformed("its command is neither LOCAL nor PROXY")),
        _ => return Err(HeaderFault::Malformed("its version is not 2")),
    };
    let Some(&family) = bytes.get(SIGNATURE.len() + 1) else { return Ok(None) };
    let addresses = match family {
        // What follows LOCAL has no meaning.
        _ if is_local => Addresses::None { bytes: 0 },
        0x00 => Addresses::None { bytes: 0 },
        0x11 => Addresses::V4,
        0x21 => Addresses::V6,
        0x31 => Addresses::None { bytes: 216 },
        0x12 | 0x22 | 0x32 => return Err(HeaderFault::Malformed("it is about datagrams")),
        _ => return Err(HeaderFault::Malformed("its address family or transport is not known")),
    };
    let Some(&[high, low]) = bytes.get(SIGNATURE.len() + 2..FIXED_BYTES) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length < addresses.bytes() {
        return Err(HeaderFault::Malformed("it is too short for its addresses"));
    }
    if FIXED_BYTES + length > HEADER_BYTES_MAX {
        return Err(HeaderFault::Malformed("it is longer than 10000 bytes"));
    }
    let Some(rest) = bytes.get(FIXED_BYTES..FIXED_BYTES + length) else { return Ok(None) };
    Ok(Some(Header { bytes: FIXED_BYTES + length, client: addresses.client(rest) }))
}

/// The addresses of a binary header: source, destination, source port, destination port.
enum Addresses {
    V4,
    V6,
    /// None that can be used.
    None {
        bytes: usize,
    },
}

impl Addresses {
    fn bytes(&self) -> usize {
        match self {
            Self::V4 => 12,
            Self::V6 => 36,
            Self::None { bytes } => *bytes,
        }
    }

    fn client(&self, rest: &[u8]) -> Option<SocketAddr> {
        let (source, port) = match self {
            Self::V4 => (IpAddr::from(*rest.first_chunk::<4>()?), rest.get(8..10)?),
            Self::V6 => (IpAddr::from(*rest.first_chunk::<16>()?), rest.get(32..34)?),
            Self::None { .. } => return None,
        };
        Some(told(source, u16::from_be_bytes(*port.first_chunk()?)))
    }
}

/// An IPv4 address that was written as IPv6 is IPv4.
fn told(source: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(source.to_canonical(), port)
}

/// Appends a header that tells where the connection comes from and leads to; `None` writes one that names no client.
pub fn write(out: &mut Vec<u8>, version: Version, ends: Option<(SocketAddr, SocketAddr)>) {
    let ends = ends.map(|(source, target)| of_one_family(source, target));
    match version {
        Version::V1 => write_line(out, ends),
        Version::V2 => write_binary(out, ends),
    }
}

fn write_line(out: &mut Vec<u8>, ends: Option<(SocketAddr, SocketAddr)>) {
    out.extend_from_slice(LINE_START);
    // Writing to a Vec cannot fail.
    let _ = match ends {
        Some((source, target)) => {
            let transport = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (source.ip(), target.ip());
            write!(out, "{transport} {from} {to} {} {}\r\n", source.port(), target.port())
        }
        None => write!(out, "UNKNOWN\r\n"),
    };
}

fn write_binary(out: &mut Vec<u8>, ends: Option<(SocketAddr, SocketAddr)>) {
    out.extend_from_slice(SIGNATURE);
    match ends {
        Some((SocketAddr::V4(source), SocketAddr::V4(target))) => {
            out.extend_from_slice(&[0x21, 0x11, 0, 12]);
            out.extend_from_slice(&source.ip().octets());
            out.extend_from_slice(&target.ip().octets());
            out.extend_from_slice(&source.port().to_be_bytes());
            out.extend_from_slice(&target.port().to_be_bytes());
        }
        Some((SocketAddr::V6(source), SocketAddr::V6(target))) => {
            out.extend_from_slice(&[0x21, 0x21, 0, 36]);
            out.extend_from_slice(&source.ip().octets());
            out.extend_from_slice(&target.ip().octets());
            out.extend_from_slice(&source.port().to_be_bytes());
            out.extend_from_slice(&target.port().to_be_bytes());
        }
        // `of_one_family` leaves no mixed pair.
        _ => out.extend_from_slice(&[0x20, 0x00, 0, 0]),
    }
}

/// Both addresses as IPv4 if both are, else both as IPv6.
fn of_one_family(source: SocketAddr, target: SocketAddr) -> (SocketAddr, SocketAddr) {
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let (source, target) = (plain(source), plain(target));
    let wide = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    };
    if source.is_ipv4() == target.is_ipv4() { (source, target) } else { (wide(source), wide(target)) }
}

/// How a header of version 1 begins.
const LINE_START: &[u8] = b"PROXY ";
/// How a header of version 2 begins.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest header of version 1, with its CR LF.
const LINE_BYTES_MAX: usize = 107;
/// The part of a header of version 2 whose length is known in advance.
const FIXED_BYTES: usize = 16;
/// The longest header that is accepted: as long as the longest startup packet, so that a client can make us keep no more bytes
/// than without a header. TLVs with the client's certificate are some kB long.
const HEADER_BYTES_MAX: usize = crate::STARTUP_BYTES_MAX as usize;

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
