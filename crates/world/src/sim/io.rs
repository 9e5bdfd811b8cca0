//! The I/O of a simulated worker: [`Io`] on the simulated network.
//!
//! Always true: bytes that a worker sends in a turn reach the network after the turn; a worker gets no completion of a
//! connection that it has closed; receive buffers are the real ones and are counted.
//! Not here: when a worker has its turn (`world`).

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use base::{Key, Time, Wall};
use reactor::tls::Side;
use reactor::{
    Accepting, Address, BUFFER_BYTES, Chunk, Close, Completion, Conn, End as Ending, Io, Lines, Listener, LogTarget,
    Peer, Receive, TcpTuning,
};

use crate::sim::agenda::Event;
use crate::sim::fake_tls::{HELLO, Shake};
use crate::sim::net::{End, Holder, Net};
use crate::sim::worker_io::{Life, Line, Wish, WorkerIo};

/// The end of a connection, as it travels between workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SimSocket(pub(crate) u32);

/// A worker's access to the simulated network.
#[derive(Clone, Debug)]
pub(crate) struct SimIo {
    pub(crate) net: Rc<RefCell<Net>>,
    pub(crate) worker: u8,
}

impl SimIo {
    fn worker_io<T>(&self, ask: impl FnOnce(&mut WorkerIo) -> T) -> T {
        ask(&mut self.net.borrow_mut().worker_ios[usize::from(self.worker)])
    }
}

impl Net {
    pub(crate) fn worker_io(&mut self, worker: u8) -> &mut WorkerIo {
        &mut self.worker_ios[usize::from(worker)]
    }

    /// Plans a turn for a worker that has something to do at `at`.
    pub(crate) fn wake(&mut self, worker: u8, at: Time) {
        let now = self.agenda.now();
        let worker_io = self.worker_io(worker);
        let at = at.max(worker_io.busy_until).max(now);
        if worker_io.turn_at.is_none_or(|planned| planned > at) {
            worker_io.turn_at = Some(at);
            self.agenda.at(at, Event::Turn { worker });
        }
    }

    fn wake_now(&mut self, worker: u8) {
        let now = self.agenda.now();
        self.wake(worker, now);
    }

    /// Queues a completion for a worker.
    pub(crate) fn complete(&mut self, worker: u8, completion: Completion<SimSocket>) {
        self.worker_io(worker).done.push_back(completion);
        self.wake_now(worker);
    }

    /// Bytes or an end have reached a worker's connection.
    pub(crate) fn line_has_news(&mut self, worker: u8, line: Key) {
        let worker_io = self.worker_io(worker);
        let Some(row) = worker_io.lines.get_mut(line) else { return };
        if matches!(row.life, Life::Handshaking(_)) {
            self.shake(worker, line);
            return;
        }
        if row.wish == Wish::Nothing || row.life != Life::Open || row.is_in_ready {
            return;
        }
        row.is_in_ready = true;
        worker_io.ready.push_back(line);
        self.wake_now(worker);
    }

    /// A worker can no longer send on a connection: it gets that completion whether it receives or not.
    pub(crate) fn line_breaks(&mut self, worker: u8, line: Key) {
        let Some(row) = self.worker_io(worker).lines.get_mut(line).filter(|row| row.life == Life::Open) else { return };
        row.life = Life::Ended;
        let (owner, end) = (row.owner, Ending::Broken(io::ErrorKind::BrokenPipe.into()));
        self.complete(worker, Completion::Ended { owner, end });
    }

    /// A worker's connection attempt was accepted or refused.
    pub(crate) fn line_answered(&mut self, worker: u8, line: Key, is_welcome: bool) {
        let worker_io = self.worker_io(worker);
        let Some(row) = worker_io.lines.get_mut(line) else { return };
        let (owner, end) = (row.owner, row.end);
        if is_welcome {
            row.life = Life::Open;
            self.complete(worker, Completion::Connected { owner });
            self.push_and_tell(end);
            self.line_has_news(worker, line);
        } else {
            worker_io.lines.remove(line);
            self.descriptors -= 1;
            self.end_mut(end).is_closed = true;
            let error = io::ErrorKind::ConnectionRefused.into();
            self.complete(worker, Completion::ConnectFailed { owner, error });
        }
    }

    /// The network has taken all bytes of this end.
    pub(crate) fn drained(&mut self, end: u32) {
        let Holder::Worker { worker, line } = self.end(end).holder else { return };
        if let Some(row) = self.worker_io(worker).lines.get(line) {
            let owner = row.owner;
            self.complete(worker, Completion::Drained { owner });
        }
    }

    /// Returns whether no worker accepts for now, but will later.
    pub(crate) fn is_accepting_paused(&self) -> bool {
        let is_any = |accepting| self.worker_ios.iter().any(|worker_io| worker_io.accepting == accepting);
        is_any(Accepting::Paused) && !is_any(Accepting::All)
    }

    /// A client connects to the pooler: a worker accepts it.
    pub(crate) fn accept(&mut self, far: u32) -> bool {
        let open: Vec<u8> =
            (0..self.worker_ios.len() as u8).filter(|&at| self.worker_io(at).accepting == Accepting::All).collect();
        if open.is_empty() {
            return false;
        }
        let worker = self.dice.pick(&open);
        let is_last = self.descriptors >= self.descriptors_max;
        self.descriptors += 1;
        self.complete(worker, Completion::Accepted { socket: SimSocket(far), is_last });
        true
    }

    /// A worker has ended: its connections are closed. The bytes that it has sent before may still arrive.
    pub(crate) fn die(&mut self, worker: u8) {
        let worker_io = self.worker_io(worker);
        worker_io.accepting = Accepting::Closed;
        worker_io.done.clear();
        let lines: Vec<Key> = worker_io.lines.iter().map(|(key, _)| key).collect();
        for line in lines {
            let is_last = self.holds(worker, line);
            if let Some(row) = self.worker_io(worker).lines.remove(line).filter(|_| is_last) {
                self.descriptors -= 1;
                self.close(row.end);
            }
        }
    }

    /// Returns whether the worker still holds the connection, and no other process does.
    fn holds(&mut self, worker: u8, line: Key) -> bool {
        let Some(row) = self.worker_io(worker).lines.get(line) else { return false };
        let end = row.end;
        matches!(self.end(end).holder, Holder::Worker { worker: holder, line: held } if (holder, held) == (worker, line))
    }

    /// The process has ended: connections that nobody has accepted are closed.
    pub(crate) fn die_out(&mut self) {
        let is_outside = |end: &End| !matches!(end.holder, Holder::Nobody | Holder::Worker { .. });
        let outside: Vec<u32> = (0..self.ends.len() as u32).filter(|&end| is_outside(self.end(end))).collect();
        for end in outside {
            if !self.end(end ^ 1).is_closed {
                self.drop_end(end ^ 1);
            }
        }
    }

    /// After a worker's turn: the bytes that it has sent reach the network.
    pub(crate) fn flush(&mut self, worker: u8) {
        let dirty = std::mem::take(&mut self.worker_io(worker).dirty);
        for line in dirty {
            let Some(row) = self.worker_io(worker).lines.get(line) else { continue };
            if row.life != Life::Dialing {
                let end = row.end;
                self.push_and_tell(end);
            }
        }
    }

    /// Collects the completions of a turn.
    fn hear(&mut self, worker: u8, done: &mut Vec<Completion<SimSocket>>) {
        let draws_always = self.turns_take_time();
        let worker_io = self.worker_io(worker);
        // Each connection is read once, as with epoll, or several completions of one are returned together, as with
        // io_uring.
        let draws = draws_always || !worker_io.ready.is_empty();
        let times = if draws && worker_io.dice.chance(300) { 4 } else { 1 };
        for _ in 0..worker_io.ready.len() * times {
            let Some(line) = self.worker_io(worker).ready.pop_front() else { break };
            self.fetch(worker, line);
        }
        done.extend(self.worker_io(worker).done.drain(..));
        let worker_io = self.worker_io(worker);
        if !worker_io.ready.is_empty() {
            // As with epoll: when all buffers are in use, the worker looks again a millisecond later.
            let pause = if worker_io.buffers_in_use() < worker_io.buffers_max { 0 } else { 1000 };
            let at = Time(self.agenda.now().0 + pause);
            self.wake(worker, at);
        }
    }

    fn fetch(&mut self, worker: u8, line: Key) {
        let worker_io = &mut self.worker_ios[usize::from(worker)];
        let is_full = worker_io.buffers_in_use() >= worker_io.buffers_max;
        let Some(row) = worker_io.lines.get_mut(line) else { return };
        row.is_in_ready = false;
        if row.wish == Wish::Nothing || row.life != Life::Open {
            return;
        }
        let (end, owner) = (row.end, row.owner);
        let state = &self.ends[end as usize];
        if state.is_reset || (state.is_eof && state.arrived_bytes == 0) {
            row.life = Life::Ended;
            let how = if state.is_reset { Ending::Broken(io::ErrorKind::ConnectionReset.into()) } else { Ending::Eof };
            worker_io.done.push_back(Completion::Ended { owner, end: how });
            return;
        }
        if state.arrived_bytes == 0 {
            return;
        }
        let Some(blank) = worker_io.buffers.take().filter(|_| !is_full) else {
            row.is_in_ready = true;
            worker_io.ready.push_back(line);
            return;
        };
        let most = worker_io.piece_max;
        let most = if most < BUFFER_BYTES { worker_io.dice.among(1..=most as u64) as usize } else { most };
        if row.wish == Wish::Once {
            row.wish = Wish::Nothing;
        }
        let is_ours = row.is_ours;
        let mut bytes = Vec::with_capacity(most.min(state.arrived_bytes));
        self.read(end, most, &mut bytes);
        let worker_io = &mut self.worker_ios[usize::from(worker)];
        *(if is_ours { &mut worker_io.heard.0 } else { &mut worker_io.heard.1 }) += bytes.len() as u64;
        worker_io.done.push_back(Completion::Received { owner, bytes: blank.fill(&bytes).into() });
        self.line_has_news_again(worker, line, end);
    }

    fn line_has_news_again(&mut self, worker: u8, line: Key, end: u32) {
        let state = self.end(end);
        if state.arrived_bytes > 0 || state.is_eof || state.is_reset {
            self.line_has_news(worker, line);
        }
    }

    fn new_line(&mut self, worker: u8, end: u32, owner: u64, life: Life) -> Conn {
        let is_ours = life == Life::Dialing || matches!(self.end(end ^ 1).holder, Holder::Session(_));
        let line = Line { end, owner, wish: Wish::Nothing, life, is_in_ready: false, is_ours, tail: Vec::new() };
        let Ok(key) = self.worker_io(worker).lines.insert(line) else { unreachable!("the table has no end") };
        self.end_mut(end).holder = Holder::Worker { worker, line: key };
        key
    }
}

impl Io for SimIo {
    type Socket = SimSocket;

    fn now(&self) -> Time {
        let mut net = self.net.borrow_mut();
        let now = net.agenda.now().0;
        Time(now + net.worker_io(self.worker).ahead)
    }

    fn wall(&self) -> Wall {
        Wall(CALENDAR + self.now().0 as i64)
    }

    fn ticks(&self) -> u64 {
        self.now().0
    }

    /// Simulated workers take no time.
    fn awake(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn randomness(&mut self, bytes: &mut [u8]) {
        self.worker_io(|worker_io| bytes.iter_mut().for_each(|byte| *byte = worker_io.dice.any() as u8));
    }

    fn peer(&self, socket: &SimSocket) -> Peer {
        match self.net.borrow().end(socket.0).uid {
            Some(uid) => Peer::Unix { pid: 1, uid: Some(uid) },
            None => address_of(socket.0).into(),
        }
    }

    fn adopt(&mut self, socket: SimSocket, owner: u64) -> io::Result<Conn> {
        Ok(self.net.borrow_mut().new_line(self.worker, socket.0, owner, Life::Open))
    }

    fn connect(&mut self, to: &Address, owner: u64) -> io::Result<Conn> {
        let mut net = self.net.borrow_mut();
        if net.descriptors >= net.descriptors_max {
            return Err(io::Error::from_raw_os_error(24));
        }
        net.descriptors += 1;
        let end = net.dial(Holder::Nobody, Some(to.clone()));
        Ok(net.new_line(self.worker, end, owner, Life::Dialing))
    }

    fn secure(&mut self, conn: Conn, owner: u64, side: &Side, said: &[u8]) -> io::Result<()> {
        let mut net = self.net.borrow_mut();
        let Some(row) = net.worker_io(self.worker).lines.get_mut(conn) else { return Ok(()) };
        let is_calling = matches!(side, Side::Calling { .. });
        (row.owner, row.wish) = (owner, Wish::Nothing);
        row.life = Life::Handshaking(Shake::new(is_calling, said));
        let end = row.end;
        if is_calling {
            net.give(end, HELLO.to_vec().into());
            net.worker_io(self.worker).dirty.push(conn);
        }
        net.shake(self.worker, conn);
        Ok(())
    }

    fn receive(&mut self, conn: Conn, how: Receive) {
        let mut net = self.net.borrow_mut();
        let Some(row) = net.worker_io(self.worker).lines.get_mut(conn) else { return };
        row.wish = match how {
            Receive::Once => Wish::Once,
            Receive::Stream => Wish::Stream,
        };
        let end = row.end;
        net.line_has_news_again(self.worker, conn, end);
    }

    fn pause(&mut self, conn: Conn) {
        self.worker_io(|worker_io| {
            if let Some(row) = worker_io.lines.get_mut(conn) {
                row.wish = Wish::Nothing;
            }
        });
    }

    fn send(&mut self, conn: Conn, chunk: Chunk) {
        let mut net = self.net.borrow_mut();
        let worker_io = net.worker_io(self.worker);
        let Some(row) = worker_io.lines.get_mut(conn) else { return };
        // Nobody can read it during a handshake.
        if matches!(row.life, Life::Ended | Life::Handshaking(_)) {
            return;
        }
        let end = row.end;
        if let Some(sent) = worker_io.sent.as_mut().filter(|_| row.is_ours) {
            // A client's request may be sent in pieces.
            let bytes = chunk.bytes();
            row.tail.extend(&bytes[..bytes.len().min(NONCE_WITHIN)]);
            if bytes.len() > NONCE_WITHIN {
                // A nonce that is cut off here does not continue in the next piece.
                row.tail.push(0);
            }
            match crate::postgres::sql::first_nonce(&row.tail) {
                Some(nonce) => {
                    sent.push(nonce.app);
                    row.tail.clear();
                }
                None => drop(row.tail.drain(..row.tail.len().saturating_sub(NONCE_WITHIN))),
            }
        }
        if net.end(end).is_reset {
            net.line_breaks(self.worker, conn);
            return;
        }
        net.give(end, chunk);
        let unsent = net.unsent(end);
        let worker_io = net.worker_io(self.worker);
        worker_io.backlog_most = worker_io.backlog_most.max(unsent);
        worker_io.dirty.push(conn);
    }

    fn unsent(&self, conn: Conn) -> usize {
        let mut net = self.net.borrow_mut();
        let Some(row) = net.worker_io(self.worker).lines.get(conn) else { return 0 };
        let end = row.end;
        net.unsent(end)
    }

    fn tell_when_drained(&mut self, conn: Conn) {
        let mut net = self.net.borrow_mut();
        let Some(row) = net.worker_io(self.worker).lines.get(conn) else { return };
        let end = row.end;
        net.want_drained(end);
        net.worker_io(self.worker).dirty.push(conn);
    }

    fn close(&mut self, conn: Conn, how: Close) {
        let mut net = self.net.borrow_mut();
        let is_last = net.holds(self.worker, conn);
        let worker_io = net.worker_io(self.worker);
        let Some(row) = worker_io.lines.remove(conn) else { return };
        if !is_last {
            // Another process holds it as well.
            return;
        }
        worker_io.servers_closed += u64::from(row.is_ours && row.life != Life::Dialing);
        worker_io.done.retain(|completion| owner_of(completion) != Some(row.owner));
        net.descriptors -= 1;
        match how {
            Close::AfterSending if row.life == Life::Open => net.close(row.end),
            _ => net.drop_end(row.end),
        }
    }

    fn is_at_rest(&self, conn: Conn) -> bool {
        let mut net = self.net.borrow_mut();
        let Some(row) = net.worker_io(self.worker).lines.get(conn) else { return true };
        let (end, is_heard) = (row.end, row.wish != Wish::Nothing);
        !is_heard && net.unsent(end) == 0
    }

    fn release(&mut self, conn: Conn) -> Option<SimSocket> {
        let mut net = self.net.borrow_mut();
        let row = net.worker_io(self.worker).lines.get(conn)?;
        let end = row.end;
        if row.wish != Wish::Nothing || row.life != Life::Open || net.unsent(end) > 0 {
            return None;
        }
        net.worker_io(self.worker).lines.remove(conn);
        net.end_mut(end).holder = Holder::Nobody;
        Some(SimSocket(end))
    }

    fn duplicate(&self, conn: Conn) -> io::Result<SimSocket> {
        let end = self.worker_io(|worker_io| worker_io.lines.get(conn).map(|row| row.end));
        end.filter(|_| self.is_at_rest(conn)).map(SimSocket).ok_or(io::ErrorKind::WouldBlock.into())
    }

    fn listeners(&self) -> io::Result<Vec<Listener>> {
        Ok(Vec::new())
    }

    fn near_end(&self, _: Conn) -> Option<SocketAddr> {
        Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6432))
    }

    fn far_end(&self, conn: Conn) -> Option<SocketAddr> {
        self.worker_io(|worker_io| worker_io.lines.get(conn).map(|row| address_of(row.end)))
    }

    fn accept(&mut self, accepting: Accepting) {
        self.worker_io(|worker_io| worker_io.accepting = accepting);
    }

    fn is_accepting_at_rest(&self) -> bool {
        self.worker_io(|worker_io| {
            !worker_io.done.iter().any(|completion| matches!(completion, Completion::Accepted { .. }))
        })
    }

    fn tune(&mut self, _: TcpTuning) {}

    fn log_to(&mut self, _: Arc<LogTarget>) {}

    fn write_log(&mut self, lines: &Lines) {
        self.worker_io(|worker_io| worker_io.log.extend(lines.iter().map(|(level, line)| (level, line.to_owned()))));
    }

    fn buffers(&self) -> (usize, usize) {
        self.worker_io(|worker_io| {
            (worker_io.buffers_max, worker_io.buffers_max.saturating_sub(worker_io.buffers_in_use()))
        })
    }

    fn buffers_touched(&self) -> usize {
        self.worker_io(|worker_io| worker_io.buffers_max)
    }

    fn turn(&mut self, _: Option<Time>, done: &mut Vec<Completion<SimSocket>>) {
        self.net.borrow_mut().hear(self.worker, done);
    }
}

fn owner_of(completion: &Completion<SimSocket>) -> Option<u64> {
    match completion {
        Completion::Connected { owner }
        | Completion::ConnectFailed { owner, .. }
        | Completion::Received { owner, .. }
        | Completion::Secured { owner, .. }
        | Completion::Ended { owner, .. }
        | Completion::Drained { owner } => Some(*owner),
        Completion::Accepted { .. } | Completion::AcceptFailed(_) | Completion::Woken => None,
    }
}

/// An address that encodes the end.
pub(crate) fn address_of(end: u32) -> SocketAddr {
    let [_, b, c, d] = end.to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, b, c, d)), 5000)
}

/// The end that such an address encodes.
pub(crate) fn end_at(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(address) => Some(u32::from_be_bytes(address.octets()) & 0x00ff_ffff),
        IpAddr::V6(_) => None,
    }
}

/// A request shows its nonce within so many bytes.
const NONCE_WITHIN: usize = 100;

/// The date at which every world begins, in microseconds since 1970.
pub(crate) const CALENDAR: i64 = 1_767_225_600_000_000;
