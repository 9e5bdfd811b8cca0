//! A relay in front of PostgreSQL that counts the messages it is sent.
//!
//! Always true: bytes are forwarded unchanged, and a message is counted when it is complete; the login is not counted.
//! Not here: throughput and processor time, which are measured without the relay, because it costs as much as a pooler.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A relay that listens as long as the program runs.
pub(crate) struct Tap {
    port: u16,
    counts: Arc<Mutex<Counts>>,
    gate: Arc<Gate>,
}

/// Whether answers may pass at present.
#[derive(Debug, Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Returns when it is open.
    fn pass(&self) {
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_closed, |is_closed| *is_closed));
    }

    fn set(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = is_closed;
        self.opened.notify_all();
    }
}

/// When answers are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// As soon as they arrive.
    AsTheyCome,
    /// When all requests so far are answered, all at once, so that PostgreSQL's timing does not matter. Not for COPY.
    Whole,
}

/// Counts of forwarded messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Messages to PostgreSQL.
    pub(crate) messages: u64,
    /// Answers of PostgreSQL that end a round trip (ReadyForQuery).
    pub(crate) round_trips: u64,
    /// How often each text was executed, with numbers left out.
    pub(crate) texts: BTreeMap<String, u64>,
}

impl Tap {
    /// Listens on a free port and relays connections to the port `server`.
    pub(crate) fn open(server: u16, answers: Answers) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let counts = Arc::new(Mutex::new(Counts::default()));
        let gate = Arc::new(Gate::default());
        let shared = (Arc::clone(&counts), Arc::clone(&gate));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (counts, gate) = shared.clone();
                // A connection that cannot be relayed is closed, and the pooler reports that.
                thread::spawn(move || relay(&client, server, &counts, answers, &gate));
            }
        });
        Ok(Self { port, counts, gate })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Holds back all answers from now on, or lets them pass.
    pub(crate) fn hold_answers(&self, are_held: bool) {
        self.gate.set(are_held);
    }

    /// Returns the counts since the last call.
    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut *locked(&self.counts))
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // A thread that panicked while it counted has at worst counted too little.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn relay(client: &TcpStream, server: u16, counts: &Arc<Mutex<Counts>>, when: Answers, gate: &Gate) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let (requests, owed) = (Arc::clone(counts), Arc::new(AtomicU64::new(0)));
    let asked = Arc::clone(&owed);
    thread::spawn(move || {
        let mut seen = Requests { is_logged_in: false, asked: 0, texts: BTreeMap::new() };
        let _ = pass(&mut from_client, &mut to_server, |bytes| {
            let taken = seen.take(bytes, &requests);
            asked.fetch_add(std::mem::take(&mut seen.asked), Ordering::SeqCst);
            (taken, Pass::Now)
        });
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client) = (server, client.try_clone()?);
    let passed = pass(&mut from_server, &mut to_client, |bytes| {
        let (taken, answered) = answers(bytes, counts);
        gate.pass();
        let is_owed = owed.fetch_sub(answered, Ordering::SeqCst) > answered;
        (taken, if is_owed && when == Answers::Whole { Pass::Later } else { Pass::Now })
    });
    let _ = client.shutdown(Shutdown::Both);
    passed
}

/// When the bytes read so far are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Now,
    /// Together with the next ones.
    Later,
}

/// Forwards bytes until either side ends. `take` returns how many bytes were whole messages; it sees them before they
/// are forwarded.
fn pass(from: &mut TcpStream, to: &mut TcpStream, mut take: impl FnMut(&[u8]) -> (usize, Pass)) -> io::Result<()> {
    let (mut buffer, mut pending, mut held) = (vec![0; 65_536], Vec::new(), Vec::new());
    loop {
        let count = from.read(&mut buffer)?;
        pending.extend_from_slice(&buffer[..count]);
        held.extend_from_slice(&buffer[..count]);
        let (taken, when) = take(&pending);
        pending.drain(..taken);
        if when == Pass::Now || count == 0 {
            to.write_all(&held)?;
            held.clear();
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// The messages of a pooler on one connection.
struct Requests {
    /// The startup packet, which has no type byte, was read.
    is_logged_in: bool,
    /// How many ReadyForQuery messages the messages taken last ask for.
    asked: u64,
    /// The texts of prepared statements, by name.
    texts: BTreeMap<Vec<u8>, String>,
}

impl Requests {
    fn take(&mut self, bytes: &[u8], counts: &Mutex<Counts>) -> usize {
        let mut taken = 0;
        if !self.is_logged_in {
            let Some((code, length)) = untyped(bytes) else { return 0 };
            self.is_logged_in = code != SSL_REQUEST && code != GSS_REQUEST;
            self.asked += u64::from(self.is_logged_in);
            taken = length;
        }
        while let Some((kind, body)) = frame(&bytes[taken..]) {
            taken += 5 + body.len();
            let mut counts = locked(counts);
            counts.messages += 1;
            self.asked += u64::from(matches!(kind, b'Q' | b'S' | b'F'));
            let text = match kind {
                b'Q' => Some(shown(words(body).next().unwrap_or_default())),
                b'B' => words(body).nth(1).and_then(|name| self.texts.get(name)).cloned(),
                b'P' => {
                    let mut words = words(body);
                    let (name, text) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                    self.texts.insert(name.to_vec(), shown(text));
                    None
                }
                _ => None,
            };
            if let Some(text) = text {
                *counts.texts.entry(text).or_default() += 1;
            }
        }
        taken
    }
}

/// Returns how many bytes were whole messages, and how many of these were ReadyForQuery. The answer to a request for
/// encryption has no length, but it is not a ReadyForQuery either: `N` is read together with what follows it.
fn answers(bytes: &[u8], counts: &Mutex<Counts>) -> (usize, u64) {
    let mut taken = usize::from(bytes.starts_with(b"N") && bytes.get(1).is_none_or(|&byte| byte != 0));
    let mut ready = 0;
    while let Some((kind, body)) = frame(&bytes[taken..]) {
        taken += 5 + body.len();
        ready += u64::from(kind == b'Z');
    }
    locked(counts).round_trips += ready;
    (taken, ready)
}

fn untyped(bytes: &[u8]) -> Option<(u32, usize)> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (length, code) = (number(0)? as usize, number(4)?);
    (bytes.len() >= length).then_some((code, length))
}

fn frame(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?) as usize;
    Some((bytes[0], bytes.get(5..1 + length)?))
}

fn words(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|&byte| byte == 0)
}

/// The text on one line, with digits replaced, so that texts that differ only in numbers are equal.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut shown = String::new();
    for word in text.split_whitespace() {
        let mut last = ' ';
        shown.extend((!shown.is_empty()).then_some(' '));
        for c in word.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }) {
            if c != '#' || last != '#' {
                shown.push(c);
            }
            last = c;
        }
    }
    shown
}

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    #[test]
    fn requests_are_counted_behind_the_login_with_their_texts() {
        let (mut requests, counts) =
            (Requests { is_logged_in: false, asked: 0, texts: BTreeMap::new() }, Mutex::default());
        let mut bytes = [&12_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes(), b"a\0\0\0"].concat();
        assert_eq!(requests.take(&bytes[..5], &counts), 0);
        bytes.extend(message(b'Q', b"SELECT 17,\n 4\0"));
        bytes.extend(message(b'P', b"s\0SET x = 1\0\0\0"));
        bytes.extend(message(b'B', b"\0s\0\0\0\0\0\0\0"));
        bytes.extend([b'S', 0, 0]);
        assert_eq!(requests.take(&bytes, &counts), bytes.len() - 3);
        let counts = counts.into_inner().expect("nobody else has it");
        let texts: Vec<_> = counts.texts.iter().map(|(text, count)| (text.as_str(), *count)).collect();
        assert_eq!((counts.messages, texts), (3, vec![("SELECT #, #", 1), ("SET x = #", 1)]));
        assert_eq!(requests.asked, 2, "the login and the query");
    }

    #[test]
    fn answers_are_counted_by_their_ends() {
        let counts = Mutex::default();
        let bytes = [&b"N"[..], &message(b'R', b"\0\0\0\0"), &message(b'Z', b"I"), &message(b'Z', b"T")].concat();
        assert_eq!(answers(&bytes, &counts), (bytes.len(), 2));
        assert_eq!(counts.into_inner().expect("nobody else has it").round_trips, 2);
    }

    #[test]
    fn whole_answers_pass_at_once() {
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let tap = Tap::open(server.local_addr().expect("an address").port(), Answers::Whole).expect("a tap");
        let mut client = TcpStream::connect(("127.0.0.1", tap.port())).expect("a connection");
        let login = [&12_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes(), b"a\0\0\0"].concat();
        client.write_all(&[login.clone(), message(b'S', b"")].concat()).expect("sent");
        let (mut relayed, _) = server.accept().expect("relayed");
        relayed.read_exact(&mut vec![0; login.len() + 5]).expect("read");
        relayed.write_all(&message(b'Z', b"I")).expect("answered");
        client.set_read_timeout(Some(std::time::Duration::from_millis(50))).expect("a limit");
        assert!(client.read(&mut [0]).is_err(), "a half of two answers has passed");
        relayed.write_all(&message(b'Z', b"T")).expect("answered");
        client.set_read_timeout(None).expect("no limit");
        let mut answer = [0; 12];
        let count = client.read(&mut answer).expect("both answers");
        assert_eq!(&answer[..count], [message(b'Z', b"I"), message(b'Z', b"T")].concat());
    }

    #[test]
    fn held_answers_pass_when_they_are_let() {
        let gate = Arc::new(Gate::default());
        gate.pass();
        gate.set(true);
        let (passed, waits) = std::sync::mpsc::channel();
        let shared = Arc::clone(&gate);
        let relay = thread::spawn(move || {
            shared.pass();
            passed.send(()).expect("somebody waits");
        });
        assert!(waits.recv_timeout(std::time::Duration::from_millis(50)).is_err(), "it is closed");
        gate.set(false);
        waits.recv().expect("it is open");
        relay.join().expect("the end");
    }

    #[test]
    fn bytes_pass_both_ways() {
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let tap = Tap::open(server.local_addr().expect("an address").port(), Answers::AsTheyCome).expect("a tap");
        let mut client = TcpStream::connect(("127.0.0.1", tap.port())).expect("a connection");
        client.write_all(b"hello").expect("sent");
        let (mut relayed, _) = server.accept().expect("relayed");
        let mut bytes = [0; 5];
        relayed.read_exact(&mut bytes).expect("read");
        relayed.write_all(&message(b'Z', b"I")).expect("answered");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!((&bytes, &answer[..]), (b"hello", &message(b'Z', b"I")[..]));
    }
}
