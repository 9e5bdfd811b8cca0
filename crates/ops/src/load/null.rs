//! A responder that answers at once: how quick the generator is by itself.
//!
//! Always true: it lets in whoever comes, answers each Query with an empty result, and ends with its guard. It listens on the loopback
//! interface.
//! Not here: what follows from it (`check`).

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use wire::backend::{self, TxStatus};
use wire::frame::{Scanner, Step};
use wire::{frontend, write};

use super::poll::Poll;
use super::session::{Login, Place};

/// A running responder.
#[derive(Debug)]
pub(crate) struct NullResponder {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NullResponder {
    /// Listens on a free port.
    pub(crate) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let mut responder = Responder { poll: Poll::new()?, listener, peers: Vec::new(), buffer: vec![0; 65_536] };
        responder.poll.add(&responder.listener, LISTENER, false)?;
        let thread = std::thread::Builder::new().name("null".to_owned()).spawn(move || {
            // Its listener is its own, and a peer that fails is only closed.
            let _ = responder.serve(&seen);
        })?;
        Ok(Self { address, is_over, thread: Some(thread) })
    }

    #[cfg(test)]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A login there, where any is let in.
    pub(crate) fn login(&self) -> Login {
        Login {
            place: Place::Tcp(self.address),
            user: "null".into(),
            database: "null".into(),
            secret: Arc::default(),
            name: "null".into(),
            tls: None,
        }
    }
}

impl Drop for NullResponder {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Responder {
    poll: Poll,
    listener: TcpListener,
    peers: Vec<Option<Peer>>,
    buffer: Vec<u8>,
}

struct Peer {
    stream: TcpStream,
    /// The startup packet as far as it has come; `None` once it is there.
    startup: Option<Vec<u8>>,
    scanner: Scanner,
}

impl Responder {
    fn serve(&mut self, is_over: &AtomicBool) -> io::Result<()> {
        let mut ready = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            self.poll.wait(LOOK, &mut ready)?;
            for event in ready.drain(..) {
                match event.token {
                    LISTENER => self.accept()?,
                    place => self.answer(place as usize),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => continue,
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let place = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
            self.poll.add(&stream, place as u64, false)?;
            let peer = Some(Peer { stream, startup: Some(Vec::new()), scanner: Scanner::default() });
            match self.peers.get_mut(place) {
                Some(free) => *free = peer,
                None => self.peers.push(peer),
            }
        }
    }

    fn answer(&mut self, place: usize) {
        let Some(peer) = self.peers.get_mut(place).and_then(Option::as_mut) else { return };
        let goes_on = match peer.stream.read(&mut self.buffer) {
            Ok(0) => false,
            Ok(count) => peer.hear(&self.buffer[..count]).is_some_and(|out| peer.stream.write_all(&out).is_ok()),
            Err(why) => why.kind() == ErrorKind::WouldBlock,
        };
        if !goes_on {
            self.peers[place] = None;
        }
    }
}

impl Peer {
    /// The answer to what has come; `None` if the peer goes.
    fn hear(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut at = 0;
        if let Some(startup) = &mut self.startup {
            startup.extend_from_slice(bytes);
            let length = u32::from_be_bytes(*startup.first_chunk()?) as usize;
            if startup.len() < length {
                return Some(out);
            }
            at = bytes.len() - (startup.len() - length);
            self.startup = None;
            write::authentication(&mut out, 0, &[]);
            write::backend_key_data(&mut out, &[0; 8]);
            write::ready_for_query(&mut out, TxStatus::Idle);
        }
        while at < bytes.len() {
            let Step::Piece(piece) = self.scanner.next(bytes, at, u32::MAX) else { break };
            at = piece.range.end;
            match piece.kind {
                frontend::TERMINATE => return None,
                frontend::QUERY if piece.left == 0 => {
                    write::bare(&mut out, backend::EMPTY_QUERY_RESPONSE);
                    write::ready_for_query(&mut out, TxStatus::Idle);
                }
                _ => {}
            }
        }
        Some(out)
    }
}

const LISTENER: u64 = u64::MAX - 1;
const LOOK: Duration = Duration::from_millis(50);
