//! An LDAP directory with a few entries: simple binds, searches by one attribute.
//!
//! Always true: it answers the requests of clients that check a password, and nothing else; it ends with its guard.
//! Not here: the listener (`fake_server`), groups, or any other feature of a real directory.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ServerConnection, StreamOwned};

use crate::authority::Identity;
use crate::fake_server::{FakeServer, tls};

/// An entry of the directory.
#[derive(Debug, Clone)]
pub struct Person {
    /// The distinguished name.
    pub dn: &'static str,
    /// The value of the attribute `uid`; several may have the same.
    pub uid: &'static str,
    /// The password.
    pub password: &'static str,
}

/// A directory on a port of its own.
#[derive(Debug)]
pub struct Directory(FakeServer);

impl Directory {
    /// Opens a directory with these entries.
    ///
    /// # Panics
    /// When no port is free.
    pub fn open(people: Vec<Person>) -> Self {
        Self(FakeServer::open(move |mut stream| {
            talk(&mut stream, &people);
        }))
    }

    /// The same with TLS: from the beginning, or after StartTLS.
    ///
    /// # Panics
    /// When no port is free, or the certificate is invalid.
    pub fn open_secured(people: Vec<Person>, identity: &Identity, begins: Begins) -> Self {
        let config = Arc::new(tls(identity));
        let secured = move |stream: TcpStream| {
            StreamOwned::new(ServerConnection::new(config.clone()).expect("a good configuration"), stream)
        };
        Self(FakeServer::open(move |mut stream| match begins {
            Begins::AtOnce => {
                talk(&mut secured(stream), &people);
            }
            Begins::WhenAsked => {
                // Nobody can bind in plain text.
                if talk(&mut stream, &[]) == Goes::ToTls {
                    talk(&mut secured(stream), &people);
                }
            }
        }))
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.0.port()
    }
}

/// When TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// `ldaps`.
    AtOnce,
    /// StartTLS.
    WhenAsked,
}

/// How a conversation continues.
#[derive(PartialEq, Eq)]
enum Goes {
    Away,
    ToTls,
}

/// Answers one client until that unbinds, sends nonsense, or asks for StartTLS.
fn talk(stream: &mut (impl Read + Write), people: &[Person]) -> Goes {
    let mut is_known = false;
    while let Some(message) = element(stream) {
        let mut parts = Parts(&message.body);
        let (Some(number), Some(request)) = (parts.next(), parts.next()) else { break };
        let answers = match request.tag {
            BIND_REQUEST => {
                let outcome = bind(&request.body, people);
                is_known = outcome == Some(SUCCESS);
                vec![(BIND_RESPONSE, result(outcome.unwrap_or(PROTOCOL_ERROR)))]
            }
            SEARCH_REQUEST if is_known => search(&request.body, people),
            SEARCH_REQUEST => vec![(SEARCH_DONE, result(INSUFFICIENT_ACCESS))],
            EXTENDED_REQUEST => vec![(EXTENDED_RESPONSE, result(SUCCESS))],
            _ => break,
        };
        for (tag, body) in answers {
            let inner = [written(number.tag, &number.body), written(tag, &body)].concat();
            if stream.write_all(&written(SEQUENCE, &inner)).and_then(|()| stream.flush()).is_err() {
                return Goes::Away;
            }
        }
        if request.tag == EXTENDED_REQUEST {
            return Goes::ToTls;
        }
    }
    Goes::Away
}

/// An anonymous bind (without a name) succeeds.
fn bind(body: &[u8], people: &[Person]) -> Option<u8> {
    let mut parts = Parts(body);
    let (_version, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_right = |person: &Person| person.dn.as_bytes() == name.body && person.password.as_bytes() == password.body;
    Some(if name.body.is_empty() || people.iter().any(is_right) { SUCCESS } else { INVALID_CREDENTIALS })
}

/// Finds the entries for `(uid=...)` below the base.
fn search(body: &[u8], people: &[Person]) -> Vec<(u8, Vec<u8>)> {
    let mut parts = Parts(body);
    let base = parts.next().unwrap_or_default();
    let filter = parts.nth(5).unwrap_or_default();
    let mut sides = Parts(&filter.body);
    let (attribute, value) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
    let fits = |person: &&Person| {
        filter.tag == EQUALITY
            && attribute.body == b"uid"
            && value.body == person.uid.as_bytes()
            && person.dn.as_bytes().ends_with(&base.body)
    };
    let entry = |person: &Person| {
        let body = [written(OCTETS, person.dn.as_bytes()), written(SEQUENCE, &[])].concat();
        (SEARCH_ENTRY, body)
    };
    people.iter().filter(fits).map(entry).chain([(SEARCH_DONE, result(SUCCESS))]).collect()
}

fn result(code: u8) -> Vec<u8> {
    [written(ENUMERATED, &[code]), written(OCTETS, b""), written(OCTETS, b"")].concat()
}

/// A BER element: its tag and its content.
#[derive(Debug, Default)]
struct Element {
    tag: u8,
    body: Vec<u8>,
}

/// A sequence of elements.
struct Parts<'b>(&'b [u8]);

impl Iterator for Parts<'_> {
    type Item = Element;

    fn next(&mut self) -> Option<Element> {
        element(&mut self.0)
    }
}

/// Reads the next element.
fn element(source: &mut impl Read) -> Option<Element> {
    let mut head = [0; 2];
    source.read_exact(&mut head).ok()?;
    let length = match head[1] {
        short @ 0..=0x7f => usize::from(short),
        long => {
            let mut bytes = vec![0; usize::from(long & 0x7f)];
            source.read_exact(&mut bytes).ok()?;
            bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        }
    };
    if length > ELEMENT_BYTES_MAX {
        return None;
    }
    let mut body = vec![0; length];
    source.read_exact(&mut body).ok()?;
    Some(Element { tag: head[0], body })
}

fn written(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("our answers are short").to_be_bytes();
    [&[tag, 0x82], &length[..], body].concat()
}

const ELEMENT_BYTES_MAX: usize = 65_536;
const ENUMERATED: u8 = 0x0a;
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const BIND_REQUEST: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const SEARCH_REQUEST: u8 = 0x63;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const EXTENDED_REQUEST: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;
const EQUALITY: u8 = 0xa3;
const SUCCESS: u8 = 0;
const PROTOCOL_ERROR: u8 = 2;
const INVALID_CREDENTIALS: u8 = 49;
const INSUFFICIENT_ACCESS: u8 = 50;
