//! TLS between a worker and its kernel interface: [`Io`] on both sides.
//!
//! Always true: of an unencrypted connection only is looked at whether it is encrypted; handshakes are done by the
//! handshake pool; the kernel interface reports an encrypted connection under a key of this layer, which replaces it by
//! the worker's owner.
//! Not here: TLS records (`session`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use base::{Key, Origin, Slab, Time, Wall};

use super::handshake_pool::{Home, Job, Return};
use super::session::{Session, State};
use super::stream::{Carried, Stage, Stream};
use super::{HandshakePool, Side};
use crate::{
    Accepting, Address, Chunk, Close, Completion, Conn, End, Io, Kernel, Lines, Listener, LogTarget, Peer, Receive,
    Socket, TcpTuning, Waker,
};

/// A kernel interface with TLS.
pub struct Tls<K> {
    kernel: K,
    streams: Slab<Stream>,
    /// The stream of each connection, by the connection's index; empty as long as no connection is encrypted.
    by_conn: Vec<Option<Key>>,
    /// Streams that may have received bytes or an end to report.
    due: Vec<Key>,
    /// What the kernel interface reported in this turn.
    raw: Vec<Completion<Socket>>,
    handshake_pool: HandshakePool,
    home: Arc<Home>,
    back: Receiver<Return>,
}

impl<K: Kernel> Tls<K> {
    /// Puts TLS on a kernel interface. `waker` is the one of the worker that uses it.
    pub fn new(kernel: K, handshake_pool: HandshakePool, waker: Waker) -> Self {
        let (sender, back) = mpsc::channel();
        Self {
            kernel,
            streams: Slab::with_capacity(u32::MAX),
            by_conn: Vec::new(),
            due: Vec::new(),
            raw: Vec::new(),
            handshake_pool,
            home: Arc::new(Home { back: sender, waker }),
            back,
        }
    }

    fn stream_of(&self, conn: Conn) -> Option<Key> {
        let key = (*self.by_conn.get(conn.index as usize)?)?;
        self.streams.get(key).filter(|stream| stream.conn == conn).map(|_| key)
    }

    fn insert(&mut self, conn: Conn, owner: u64, stage: Stage) -> Key {
        let Ok(key) = self.streams.insert(Stream::new(conn, owner, stage)) else {
            unreachable!("descriptors run out before rows do")
        };
        let index = conn.index as usize;
        if self.by_conn.len() <= index {
            self.by_conn.resize(index + 1, None);
        }
        self.by_conn[index] = Some(key);
        self.kernel.rename(conn, OURS | key.to_bits() & !OURS);
        key
    }

    fn remove(&mut self, key: Key) -> Option<Stream> {
        let stream = self.streams.remove(key)?;
        if let Some(place) = self.by_conn.get_mut(stream.conn.index as usize) {
            *place = None;
        }
        Some(stream)
    }

    /// The stream that a completion names. A completion from before the close of a connection in this turn finds none.
    fn named(&self, owner: u64) -> Option<Key> {
        let key = self.streams.key_at(owner as u32)?;
        ((key.to_bits() ^ owner) & !OURS == 0).then_some(key)
    }

    fn remember(&mut self, key: Key) {
        if let Some(stream) = self.streams.get_mut(key)
            && !std::mem::replace(&mut stream.is_due, true)
        {
            self.due.push(key);
        }
    }

    /// Gives the handshake pool a session with the bytes received so far.
    fn send_away(&mut self, key: Key, session: Box<Session>) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let bytes = std::mem::take(&mut stream.pending);
        let far_end = || self.kernel.far_end(stream.conn).map(|address| address.ip());
        let of_server = || far_end().map_or(Origin::LocalServers, Origin::of_server);
        let from = session.called_by().unwrap_or_else(of_server);
        stream.stage =
            Stage::Away(self.handshake_pool.give(from, Job { key, session, bytes, home: Arc::clone(&self.home) }));
    }

    /// Continues a session that returned from the handshake pool.
    fn returned(&mut self, back: Return, done: &mut Vec<Completion<Socket>>) {
        let Return { key, session, taken, rest } = back;
        // The stream of a connection that was closed meanwhile is gone.
        let Some(stream) = self.streams.get_mut(key) else { return };
        let conn = stream.conn;
        // Bytes that arrived meanwhile come after the unused ones.
        let since = std::mem::replace(&mut stream.pending, rest);
        stream.pending.extend(since);
        self.kernel.send(conn, taken.out.into());
        match taken.state {
            State::Handshaking => {
                stream.stage = Stage::Handshaking(session);
                self.kernel.receive(conn, Receive::Once);
            }
            // A client that sends a single message, such as a `CancelRequest`, may have closed its side behind it
            // already.
            state @ (State::Open | State::Over) if !session.is_handshaking() => {
                stream.plain = taken.plain;
                let security = Arc::new(session.security());
                stream.stage = Stage::Open(session);
                done.push(Completion::Secured { owner: stream.owner, security });
                if state == State::Over {
                    stream.end(End::Eof);
                }
            }
            State::Open | State::Over => {
                stream.end(End::Eof);
                stream.give(done);
            }
            State::Broken(why) => {
                stream.end(End::Insecure(why));
                stream.give(done);
            }
        }
    }

    /// Handles received bytes of an encrypted connection.
    fn heard(&mut self, key: Key, bytes: Chunk, done: &mut Vec<Completion<Socket>>) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        match std::mem::replace(&mut stream.stage, Stage::Broken) {
            Stage::Handshaking(session) => {
                stream.pending.extend_from_slice(bytes.bytes());
                self.send_away(key, session);
            }
            stage @ Stage::Open(_) => {
                stream.stage = stage;
                self.read(key, bytes, done);
            }
            stage @ Stage::Away(_) => {
                stream.stage = stage;
                stream.pending.extend_from_slice(bytes.bytes());
            }
            // Bytes after the end of the TLS stream are dropped.
            stage @ (Stage::Over(_) | Stage::Broken) => stream.stage = stage,
        }
    }

    /// Decrypts, delivers what the worker wants, and sends the records of the session itself.
    fn read(&mut self, key: Key, bytes: Chunk, done: &mut Vec<Completion<Socket>>) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let conn = stream.conn;
        let (out, state) = stream.hear(bytes);
        self.kernel.send(conn, out.into());
        match state {
            State::Open | State::Handshaking => {
                let was_once = stream.wish == Some(Receive::Once);
                stream.give(done);
                // A single receive was delivered, but it did not contain a whole record.
                if was_once && stream.wish.is_some() {
                    self.kernel.receive(conn, Receive::Once);
                }
            }
            State::Over => {
                stream.end(End::Eof);
                stream.give(done);
                self.kernel.pause(conn);
            }
            State::Broken(why) => {
                stream.end(End::Insecure(why));
                stream.give(done);
                self.kernel.pause(conn);
            }
        }
    }

    /// Serves the streams that hold bytes for the worker already, or an end to report.
    fn read_due(&mut self, done: &mut Vec<Completion<Socket>>) {
        for key in std::mem::take(&mut self.due) {
            let Some(stream) = self.streams.get_mut(key) else { continue };
            stream.is_due = false;
            match stream.stage {
                Stage::Open(_) if stream.wish.is_some() => self.read(key, Chunk::Own(Box::default()), done),
                Stage::Over(_) if stream.wish.is_some() => stream.give(done),
                Stage::Broken => stream.give(done),
                _ => {}
            }
        }
    }

    /// Reports to the worker what the kernel interface reported about an encrypted connection.
    fn translate(&mut self, completion: Completion<Socket>, done: &mut Vec<Completion<Socket>>) {
        let Some(key) = completion.owner().and_then(|owner| self.named(owner)) else { return };
        let Some(stream) = self.streams.get(key) else { return };
        let owner = stream.owner;
        let has_ended = matches!(stream.stage, Stage::Over(_) | Stage::Broken);
        match completion {
            Completion::Received { bytes, .. } => self.heard(key, bytes, done),
            Completion::Ended { end, .. } if !has_ended => done.push(Completion::Ended { owner, end }),
            Completion::Drained { .. } => done.push(Completion::Drained { owner }),
            // The end was reported already, or no such completion exists for an established connection.
            _ => {}
        }
    }
}

impl<K: Kernel> Io for Tls<K> {
    type Socket = Socket;

    fn now(&self) -> Time {
        self.kernel.now()
    }

    fn wall(&self) -> Wall {
        self.kernel.wall()
    }

    fn randomness(&mut self, bytes: &mut [u8]) {
        self.kernel.randomness(bytes);
    }

    fn peer(&self, socket: &Socket) -> Peer {
        self.kernel.peer(socket)
    }

    fn adopt(&mut self, mut socket: Socket, owner: u64) -> io::Result<Conn> {
        debug_assert!(owner & OURS != OURS, "a name of ours");
        let carried = socket.tls.take();
        let conn = self.kernel.adopt(socket, owner)?;
        if let Some(carried) = carried {
            let Carried { session, pending, plain } = *carried;
            let key = self.insert(conn, owner, Stage::Open(session));
            if let Some(stream) = self.streams.get_mut(key) {
                (stream.pending, stream.plain) = (pending, plain);
            }
        }
        Ok(conn)
    }

    fn connect(&mut self, to: &Address, owner: u64) -> io::Result<Conn> {
        debug_assert!(owner & OURS != OURS, "a name of ours");
        self.kernel.connect(to, owner)
    }

    fn secure(&mut self, conn: Conn, owner: u64, side: &Side, said: &[u8]) -> io::Result<()> {
        let session = Box::new(Session::new(side).map_err(io::Error::other)?);
        self.kernel.pause(conn);
        // A TLS server sends nothing before the client does, so the handshake pool is not needed yet.
        if said.is_empty() && matches!(side, Side::Called { .. }) {
            self.insert(conn, owner, Stage::Handshaking(session));
            self.kernel.receive(conn, Receive::Once);
            return Ok(());
        }
        let key = self.insert(conn, owner, Stage::Away(None));
        if let Some(stream) = self.streams.get_mut(key) {
            stream.pending = said.to_vec();
        }
        self.send_away(key, session);
        Ok(())
    }

    fn receive(&mut self, conn: Conn, how: Receive) {
        let Some(key) = self.stream_of(conn) else {
            self.kernel.receive(conn, how);
            return;
        };
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.wish = Some(how);
        let has_some = !stream.plain.is_empty() || !stream.pending.is_empty();
        let is_open = matches!(stream.stage, Stage::Open(_));
        if has_some || stream.untold.is_some() {
            self.remember(key);
        }
        // For a single receive, bytes that have arrived already may be enough.
        if is_open && (how == Receive::Stream || !has_some) {
            self.kernel.receive(conn, how);
        }
    }

    fn pause(&mut self, conn: Conn) {
        if let Some(stream) = self.stream_of(conn).and_then(|key| self.streams.get_mut(key)) {
            stream.wish = None;
        }
        self.kernel.pause(conn);
    }

    fn send(&mut self, conn: Conn, chunk: Chunk) {
        let Some(key) = self.stream_of(conn) else {
            self.kernel.send(conn, chunk);
            return;
        };
        let Some(stream) = self.streams.get_mut(key) else { return };
        // Without an established session the other side cannot read it.
        if chunk.is_empty() || !matches!(stream.stage, Stage::Open(_) | Stage::Over(_)) {
            return;
        }
        let (out, state) = stream.encrypt(chunk.bytes());
        self.kernel.send(conn, out.into());
        match state {
            State::Broken(why) => stream.end(End::Insecure(why)),
            State::Over if matches!(stream.stage, Stage::Open(_)) => stream.end(End::Eof),
            _ => {}
        }
        if stream.untold.is_some() || !stream.plain.is_empty() {
            self.remember(key);
        }
    }

    fn unsent(&self, conn: Conn) -> usize {
        self.kernel.unsent(conn)
    }

    fn tell_when_drained(&mut self, conn: Conn) {
        self.kernel.tell_when_drained(conn);
    }

    fn close(&mut self, conn: Conn, how: Close) {
        if let Some(mut stream) = self.stream_of(conn).and_then(|key| self.remove(key)) {
            match &mut stream.stage {
                Stage::Open(session) | Stage::Over(session) if how == Close::AfterSending => {
                    let close_notify = session.close_notify(&mut stream.pending);
                    self.kernel.send(conn, close_notify.into());
                }
                Stage::Away(Some(place)) => self.handshake_pool.forget(place),
                _ => {}
            }
        }
        self.kernel.close(conn, how);
    }

    fn is_at_rest(&self, conn: Conn) -> bool {
        self.kernel.is_at_rest(conn)
    }

    fn release(&mut self, conn: Conn) -> Option<Socket> {
        let Some(key) = self.stream_of(conn) else { return self.kernel.release(conn) };
        if self.streams.get(key).is_none_or(|stream| stream.wish.is_some() || !matches!(stream.stage, Stage::Open(_))) {
            return None;
        }
        let mut socket = self.kernel.release(conn)?;
        let Stream { stage: Stage::Open(session), pending, plain, .. } = self.remove(key)? else { return None };
        socket.tls = Some(Box::new(Carried { session, pending, plain }));
        Some(socket)
    }

    fn duplicate(&self, conn: Conn) -> io::Result<Socket> {
        match self.stream_of(conn) {
            None => self.kernel.duplicate(conn),
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn listeners(&self) -> io::Result<Vec<Listener>> {
        self.kernel.listeners()
    }

    fn near_end(&self, conn: Conn) -> Option<SocketAddr> {
        self.kernel.near_end(conn)
    }

    fn far_end(&self, conn: Conn) -> Option<SocketAddr> {
        self.kernel.far_end(conn)
    }

    fn accept(&mut self, accepting: Accepting) {
        self.kernel.accept(accepting);
    }

    fn is_accepting_at_rest(&self) -> bool {
        self.kernel.is_accepting_at_rest()
    }

    fn tune(&mut self, tuning: TcpTuning) {
        self.kernel.tune(tuning);
    }

    fn log_to(&mut self, log: Arc<LogTarget>) {
        self.kernel.log_to(log);
    }

    fn write_log(&mut self, lines: &Lines) {
        self.kernel.write_log(lines);
    }

    fn buffers(&self) -> (usize, usize) {
        self.kernel.buffers()
    }

    fn buffers_touched(&self) -> usize {
        self.kernel.buffers_touched()
    }

    fn turn(&mut self, until: Option<Time>, done: &mut Vec<Completion<Socket>>) {
        if self.streams.is_empty() {
            self.kernel.turn(until, done);
            return;
        }
        // With bytes to deliver already, the turn does not wait.
        let until = if self.due.is_empty() { until } else { Some(self.kernel.now()) };
        let mut raw = std::mem::take(&mut self.raw);
        self.kernel.turn(until, &mut raw);
        while let Ok(back) = self.back.try_recv() {
            self.returned(back, done);
        }
        self.read_due(done);
        for completion in raw.drain(..) {
            match completion.owner() {
                Some(owner) if owner & OURS == OURS => self.translate(completion, done),
                _ => done.push(completion),
            }
        }
        self.raw = raw;
    }
}

impl<K: std::fmt::Debug> std::fmt::Debug for Tls<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("kernel", &self.kernel)
            .field("streams", &self.streams.len())
            .finish_non_exhaustive()
    }
}

/// The bits that mark the owner of an encrypted connection; no worker uses them.
const OURS: u64 = 0b11 << 62;
