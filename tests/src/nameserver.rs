//! A name server with a few names and zones.
//!
//! Always true: it answers over UDP on a port of its own, and records the questions; it ends with its guard.
//! Not here: TCP, or any other feature of a real name server.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A name server on 127.0.0.1.
#[derive(Debug)]
pub struct NameServer {
    port: u16,
    book: Arc<Mutex<Book>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The names and zones, without a trailing dot, and the recorded questions.
#[derive(Debug, Default)]
struct Book {
    addresses: BTreeMap<String, (Vec<IpAddr>, u32)>,
    serials: BTreeMap<String, u32>,
    asked: Vec<String>,
    is_silent: bool,
}

impl NameServer {
    /// Opens one without names.
    ///
    /// # Panics
    /// When no port is free.
    pub fn open() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = socket.local_addr().expect("bound").port();
        let (book, is_over) = (Arc::new(Mutex::new(Book::default())), Arc::new(AtomicBool::new(false)));
        let (known, over) = (book.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let mut packet = [0; PACKET_BYTES_MAX];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let answer = known.lock().expect("nobody panics with it").answer(&packet[..length]);
                if let Some(answer) = answer {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Self { port, book, is_over, thread: Some(thread) }
    }

    /// The line for `resolv.conf`.
    pub fn line(&self) -> String {
        format!("nameserver 127.0.0.1:{}\n", self.port)
    }

    /// Gives a name these addresses, with this TTL in seconds.
    pub fn name(&self, name: &str, addresses: &[&str], ttl: u32) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        self.write(|book| drop(book.addresses.insert(name.to_owned(), (addresses, ttl))));
    }

    /// Gives a zone this serial number.
    pub fn zone(&self, zone: &str, serial: u32) {
        self.write(|book| {
            book.serials.insert(zone.to_owned(), serial);
        });
    }

    /// From now on it does not answer.
    pub fn be_silent(&self) {
        self.write(|book| book.is_silent = true);
    }

    /// The questions so far, such as `db.example A`.
    pub fn asked(&self) -> Vec<String> {
        self.book.lock().expect("nobody panics with it").asked.clone()
    }

    fn write(&self, change: impl FnOnce(&mut Book)) {
        change(&mut self.book.lock().expect("nobody panics with it"));
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let woken =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|own| own.send_to(b"", ("127.0.0.1", self.port)));
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

impl Book {
    /// Returns the answer to a packet, if it is a question that is to be answered.
    fn answer(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = read_name(packet.get(12..)?)?;
        let kind = u16::from_be_bytes(rest.get(..2)?.try_into().ok()?);
        let question = &packet[12..packet.len() - rest.len() + 4];
        let word = match kind {
            A => "A",
            AAAA => "AAAA",
            SOA => "SOA",
            _ => "?",
        };
        self.asked.push(format!("{name} {word}"));
        if self.is_silent {
            return None;
        }
        let records = self.records(&name, kind);
        let is_known = self.addresses.contains_key(&name) || self.serials.contains_key(&name);
        let code = if is_known { 0 } else { NXDOMAIN };
        let count = u8::try_from(records.len()).expect("a few records");
        // The ID of the question; response, authoritative, recursion desired and available; the number of records of each
        // section.
        let mut answer = vec![packet[0], packet[1], 0x85, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0];
        answer.extend_from_slice(question);
        for (ttl, body) in records {
            // A pointer to the name at byte 12.
            answer.extend_from_slice(&[0xc0, 12]);
            answer.extend_from_slice(&kind.to_be_bytes());
            answer.extend_from_slice(&[0, 1]);
            answer.extend_from_slice(&ttl.to_be_bytes());
            answer.extend_from_slice(&u16::try_from(body.len()).expect("short records").to_be_bytes());
            answer.extend_from_slice(&body);
        }
        Some(answer)
    }

    /// The records of a name with this type: TTL and data.
    fn records(&self, name: &str, kind: u16) -> Vec<(u32, Vec<u8>)> {
        let (addresses, ttl) = self.addresses.get(name).cloned().unwrap_or_default();
        let body = |address: IpAddr| match (address, kind) {
            (IpAddr::V4(ip), A) => Some((ttl, ip.octets().to_vec())),
            (IpAddr::V6(ip), AAAA) => Some((ttl, ip.octets().to_vec())),
            _ => None,
        };
        let mut records: Vec<_> = addresses.into_iter().filter_map(body).collect();
        if let (Some(serial), SOA) = (self.serials.get(name), kind) {
            // Two root names; the serial number; four times that do not matter.
            let mut soa = vec![0, 0];
            soa.extend_from_slice(&serial.to_be_bytes());
            soa.extend_from_slice(&[0, 0, 0, 60].repeat(4));
            records.push((60, soa));
        }
        records
    }
}

/// Reads a name, in lower case and without a trailing dot. Returns the rest as well.
fn read_name(mut bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut labels = Vec::new();
    loop {
        let (length, rest) = bytes.split_first()?;
        if *length == 0 {
            return Some((labels.join("."), rest));
        }
        let (label, rest) = rest.split_at_checked(usize::from(*length))?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        bytes = rest;
    }
}

const PACKET_BYTES_MAX: usize = 1500;
const A: u16 = 1;
const SOA: u16 = 6;
const AAAA: u16 = 28;
const NXDOMAIN: u8 = 3;
