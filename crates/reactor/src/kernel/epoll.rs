//! epoll: the kernel reports which sockets are ready, then one system call for each transfer. For kernels and
//! containers without io_uring.
//!
//! Always true: an edge is remembered until it is used up, so no readiness is lost; bytes queued during a turn are sent
//! at its end, gathered into one call per connection; a connection receives at most one buffer each round, so that no
//! connection starves another.
//! Not here: which of the two kernel interfaces is used (`trunkline::threads`).

#[path = "epoll_accept.rs"]
mod accept;

use std::collections::VecDeque;
use std::io;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::{Key, Slab, Time, Wall, earliest};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

use self::accept::Acceptor;
use crate::io::{Accepting, LINGER};
use crate::kernel::common::{self, Clock, Common};
use crate::kernel::outbox::Outbox;
use crate::kernel::{Equipment, Kernel};
use crate::{
    Address, BUFFER_BYTES, Buffers, Chunk, Close, Completion, Conn, End, Io, Lines, Listener, LogTarget, Peer, Receive,
    Socket, TcpTuning, Waker,
};

/// The I/O of a worker by epoll.
pub struct Epoll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    lines: Slab<Line>,
    buffers: Buffers,
    /// Connections that are readable and that the worker wants to receive from.
    ready: VecDeque<Conn>,
    /// Connections to which something was queued.
    dirty: Vec<Conn>,
    lingering: VecDeque<(Time, Conn)>,
    acceptors: Vec<Acceptor>,
    accepting: Accepting,
    accept_again: Option<Time>,
    /// Listeners may have to be opened or closed.
    are_acceptors_due: bool,
    spare: Option<OwnedFd>,
    waker: Waker,
    common: Common,
}

#[derive(Debug)]
struct Line {
    fd: OwnedFd,
    owner: u64,
    outbox: Outbox,
    /// What the worker wants to receive.
    wanted: Option<Receive>,
    stage: EpollStage,
    /// The last edge reported it, and nothing has contradicted it since.
    is_readable: bool,
    is_writable: bool,
    /// The other side has sent its last byte.
    is_over: bool,
    is_in_ready: bool,
    is_in_dirty: bool,
    wants_drained: bool,
    is_unix: bool,
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EpollStage {
    Dialing,
    Open,
    /// The other side is gone; the worker was informed and has not closed the connection yet.
    Ended,
    /// The worker has closed it; the row goes when everything is sent.
    Leaving,
}

impl Line {
    /// Queues the connection, if it is readable and the worker wants to receive from it.
    #[inline]
    fn queue_ready(&mut self, conn: Conn, ready: &mut VecDeque<Conn>) {
        if self.is_readable && !self.is_in_ready && self.wanted.is_some() && self.stage == EpollStage::Open {
            self.is_in_ready = true;
            ready.push_back(conn);
        }
    }
}

impl Epoll {
    /// Sets up the I/O of the worker that runs on the calling thread.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(equipment: Equipment) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &equipment.waker, EventData::new_u64(BELL), EventFlags::IN)?;
        let acceptors = equipment.listeners.into_iter().map(Acceptor::new).collect();
        Ok(Self {
            epoll,
            events: Vec::with_capacity(EVENTS_PER_TURN),
            lines: Slab::with_capacity(u32::MAX),
            buffers: Buffers::new(equipment.buffers),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            lingering: VecDeque::new(),
            acceptors,
            accepting: Accepting::Closed,
            accept_again: None,
            are_acceptors_due: false,
            spare: common::spare(),
            waker: equipment.waker,
            common: Common::new(equipment.tuning, equipment.log),
        })
    }

    fn insert(&mut self, fd: OwnedFd, is_unix: bool, owner: u64, stage: EpollStage) -> io::Result<Conn> {
        let line = Line {
            fd,
            owner,
            outbox: Outbox::default(),
            wanted: None,
            stage,
            is_readable: false,
            is_writable: stage == EpollStage::Open,
            is_over: false,
            is_in_ready: false,
            is_in_dirty: false,
            wants_drained: false,
            is_unix,
        };
        let Ok(conn) = self.lines.insert(line) else { unreachable!("descriptors run out before rows do") };
        let Some(line) = self.lines.get(conn) else { unreachable!("the row was just put in") };
        let edges = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if let Err(error) = epoll::add(&self.epoll, &line.fd, EventData::new_u64(conn.to_bits()), edges) {
            self.lines.remove(conn);
            return Err(error.into());
        }
        Ok(conn)
    }

    fn queue_ready(&mut self, conn: Conn) {
        if let Some(line) = self.lines.get_mut(conn) {
            line.queue_ready(conn, &mut self.ready);
        }
    }

    /// Sends what the socket takes, and appends the outcome to `done`.
    fn flush(&mut self, conn: Conn, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        line.is_in_dirty = false;
        while !line.outbox.is_empty() && line.is_writable {
            // The calls are limited to `sent_at_once`, so a complete send does not mean that the socket is full.
            let mut gathered = line.outbox.bytes().min(self.common.tuning.sent_at_once());
            let sent = if let Some(bytes) = line.outbox.only() {
                rustix::net::send(&line.fd, &bytes[..gathered], SendFlags::NOSIGNAL)
            } else {
                let mut slices = [IoSlice::new(&[]); GATHER_MAX];
                let count = line.outbox.gather(&mut slices, gathered);
                gathered = slices[..count].iter().map(|slice| slice.len()).sum();
                let nothing = &mut SendAncillaryBuffer::default();
                rustix::net::sendmsg(&line.fd, &slices[..count], nothing, SendFlags::NOSIGNAL)
            };
            match sent {
                Ok(bytes) => {
                    line.outbox.advance(bytes);
                    line.is_writable = bytes == gathered;
                }
                Err(Errno::AGAIN) => line.is_writable = false,
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.end(conn, End::Broken(error.into()), done);
                    return;
                }
            }
        }
        if line.outbox.is_empty() {
            if line.stage == EpollStage::Leaving {
                self.lines.remove(conn);
            } else if std::mem::take(&mut line.wants_drained) {
                done.push(Completion::Drained { owner: line.owner });
            }
        }
    }

    /// Receives one buffer.
    fn fetch(&mut self, conn: Conn, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        line.is_in_ready = false;
        if line.wanted.is_none() || line.stage != EpollStage::Open {
            return;
        }
        let Some(mut blank) = self.buffers.take() else {
            // No buffer is free. The queue is worked off in a later turn, when a buffer is freed.
            line.is_in_ready = true;
            self.ready.push_back(conn);
            return;
        };
        match rustix::net::recv(&line.fd, blank.as_mut_slice(), RecvFlags::empty()) {
            Ok((0, _)) => self.end(conn, End::Eof, done),
            Ok((bytes, _)) => {
                // A short read has emptied the socket, unless its end can be read as well.
                line.is_readable = bytes == BUFFER_BYTES || line.is_over;
                if line.wanted == Some(Receive::Once) {
                    line.wanted = None;
                }
                done.push(Completion::Received { owner: line.owner, bytes: blank.into_span(bytes).into() });
                line.queue_ready(conn, &mut self.ready);
            }
            Err(Errno::AGAIN) => line.is_readable = false,
            Err(Errno::INTR) => self.queue_ready(conn),
            Err(error) => self.end(conn, End::Broken(error.into()), done),
        }
    }

    fn end(&mut self, conn: Conn, end: End, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        match line.stage {
            EpollStage::Open => {
                line.stage = EpollStage::Ended;
                done.push(Completion::Ended { owner: line.owner, end });
            }
            EpollStage::Leaving => drop(self.lines.remove(conn)),
            EpollStage::Dialing | EpollStage::Ended => {}
        }
    }

    fn on_edge(&mut self, conn: Conn, flags: EventFlags, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        let is_over = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        line.is_readable |= flags.intersects(EventFlags::IN | EventFlags::RDHUP) || is_over;
        line.is_over |= flags.contains(EventFlags::RDHUP) || is_over;
        if line.stage == EpollStage::Dialing {
            if flags.contains(EventFlags::OUT) || is_over {
                self.on_dialed(conn, done);
                self.queue_ready(conn);
            }
            return;
        }
        line.is_writable |= flags.contains(EventFlags::OUT) || is_over;
        if line.is_writable && !line.outbox.is_empty() {
            self.flush(conn, done);
            return self.queue_ready(conn);
        }
        line.queue_ready(conn, &mut self.ready);
    }

    fn on_dialed(&mut self, conn: Conn, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        match rustix::net::sockopt::socket_error(&line.fd) {
            Ok(Ok(())) => {
                line.stage = EpollStage::Open;
                line.is_writable = true;
                done.push(Completion::Connected { owner: line.owner });
                self.flush(conn, done);
            }
            Ok(Err(error)) | Err(error) => {
                done.push(Completion::ConnectFailed { owner: line.owner, error: error.into() });
                self.lines.remove(conn);
            }
        }
    }

    fn wait(&mut self, until: Option<Time>, has_news: bool) {
        let until = earliest([self.lingering.front().map(|(until, _)| *until), self.accept_again, until]);
        while self.ready.front().is_some_and(|conn| self.lines.get(*conn).is_none()) {
            self.ready.pop_front();
        }
        let may_fetch = !self.ready.is_empty() && self.buffers.free() > 0;
        let limit = if may_fetch || has_news {
            Some(rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })
        } else if !self.ready.is_empty() {
            Some(rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 })
        } else {
            until.map(|until| {
                // epoll counts whole milliseconds, so the rest is rounded up: a wait that ended too early would have to be repeated.
                let wait = (self.common.clock.left(until).as_micros() as u64).div_ceil(1000) as i64;
                rustix::event::Timespec { tv_sec: wait / 1000, tv_nsec: wait % 1000 * 1_000_000 }
            })
        };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("epoll_wait failed, nothing can be served any more: {error}"),
        }
    }

    fn prepare(&mut self, done: &mut Vec<Completion<Socket>>) {
        if self.spare.is_none() {
            self.spare = common::spare();
        }
        if self.accept_again.is_some_and(|again| again <= self.common.clock.now) {
            self.accept_again = None;
            self.are_acceptors_due = true;
        }
        if std::mem::take(&mut self.are_acceptors_due) {
            self.update_acceptors(done);
        }
        while self.lingering.front().is_some_and(|(until, _)| *until <= self.common.clock.now) {
            if let Some((_, conn)) = self.lingering.pop_front()
                && self.lines.get(conn).is_some_and(|line| line.stage == EpollStage::Leaving)
            {
                self.lines.remove(conn);
            }
        }
    }
}

impl Io for Epoll {
    type Socket = Socket;

    fn now(&self) -> Time {
        self.common.clock.now
    }

    fn wall(&self) -> Wall {
        self.common.clock.wall()
    }

    fn randomness(&mut self, bytes: &mut [u8]) {
        self.common.random.fill(bytes);
    }

    fn peer(&self, socket: &Socket) -> Peer {
        common::peer(socket)
    }

    fn adopt(&mut self, socket: Socket, owner: u64) -> io::Result<Conn> {
        if socket.is_inherited {
            rustix::io::ioctl_fionbio(&socket.fd, true)?;
        }
        self.insert(socket.fd, socket.is_unix, owner, EpollStage::Open)
    }

    fn connect(&mut self, to: &Address, owner: u64) -> io::Result<Conn> {
        let (fd, address) = common::dialing_socket(to, &self.common.tuning)?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        match socket2::SockRef::from(&fd).connect(&address) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        self.insert(fd, !matches!(to, Address::Tcp(_)), owner, EpollStage::Dialing)
    }

    fn receive(&mut self, conn: Conn, how: Receive) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        line.wanted = Some(how);
        self.queue_ready(conn);
    }

    fn pause(&mut self, conn: Conn) {
        if let Some(line) = self.lines.get_mut(conn) {
            line.wanted = None;
        }
    }

    fn send(&mut self, conn: Conn, chunk: Chunk) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        if chunk.is_empty() || !matches!(line.stage, EpollStage::Open | EpollStage::Dialing) {
            return;
        }
        line.outbox.push(chunk);
        if !std::mem::replace(&mut line.is_in_dirty, true) {
            self.dirty.push(conn);
        }
    }

    fn unsent(&self, conn: Conn) -> usize {
        self.lines.get(conn).map_or(0, |line| line.outbox.bytes())
    }

    fn tell_when_drained(&mut self, conn: Conn) {
        if let Some(line) = self.lines.get_mut(conn) {
            line.wants_drained = true;
            if !std::mem::replace(&mut line.is_in_dirty, true) {
                self.dirty.push(conn);
            }
        }
    }

    fn close(&mut self, conn: Conn, how: Close) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        if how == Close::AfterSending && line.stage == EpollStage::Open && !line.outbox.is_empty() {
            line.stage = EpollStage::Leaving;
            line.wanted = None;
            self.lingering.push_back((self.common.clock.now + LINGER, conn));
        } else {
            self.lines.remove(conn);
        }
    }

    fn is_at_rest(&self, conn: Conn) -> bool {
        self.lines.get(conn).is_none_or(|line| line.wanted.is_none() && line.outbox.is_empty())
    }

    fn release(&mut self, conn: Conn) -> Option<Socket> {
        let line = self.lines.get(conn)?;
        if line.wanted.is_some() || !line.outbox.is_empty() || line.stage != EpollStage::Open {
            return None;
        }
        let line = self.lines.remove(conn)?;
        // The next owner watches the socket with an epoll instance of its own; in ours its edges would have no row.
        let _ = epoll::delete(&self.epoll, &line.fd);
        Some(Socket { fd: line.fd, is_unix: line.is_unix, from: None, tls: None, is_inherited: false })
    }

    fn duplicate(&self, conn: Conn) -> io::Result<Socket> {
        let line = self.lines.get(conn).filter(|line| line.stage == EpollStage::Open && self.is_at_rest(conn));
        let line = line.ok_or(io::ErrorKind::WouldBlock)?;
        Ok(Socket::inherited(line.fd.try_clone()?, line.is_unix))
    }

    fn listeners(&self) -> io::Result<Vec<Listener>> {
        self.acceptors.iter().filter_map(|acceptor| acceptor.listener.as_deref()).map(Listener::try_clone).collect()
    }

    fn near_end(&self, conn: Conn) -> Option<SocketAddr> {
        common::near_end(&self.lines.get(conn)?.fd)
    }

    fn far_end(&self, conn: Conn) -> Option<SocketAddr> {
        common::far_end(&self.lines.get(conn)?.fd)
    }

    fn accept(&mut self, accepting: Accepting) {
        (self.accepting, self.are_acceptors_due) = (accepting, true);
        if accepting == Accepting::Paused {
            // At once, because nothing else may start a turn. [`Accepting::Paused`] accepts no connection.
            self.update_acceptors(&mut Vec::new());
        }
    }

    fn is_accepting_at_rest(&self) -> bool {
        matches!(self.accepting, Accepting::All | Accepting::OnlyUnix)
            || self.acceptors.iter().all(|acceptor| !acceptor.is_watched)
    }

    fn tune(&mut self, tuning: TcpTuning) {
        self.common.tuning = tuning;
    }

    fn log_to(&mut self, log: Arc<LogTarget>) {
        self.common.log = log;
    }

    fn write_log(&mut self, lines: &Lines) {
        self.common.log.write(self.common.clock.wall(), lines);
    }

    fn buffers(&self) -> (usize, usize) {
        (self.buffers.count(), self.buffers.free())
    }

    fn buffers_touched(&self) -> usize {
        self.buffers.touched()
    }

    fn turn(&mut self, until: Option<Time>, done: &mut Vec<Completion<Socket>>) {
        self.prepare(done);
        let mut dirty = std::mem::take(&mut self.dirty);
        for conn in dirty.drain(..) {
            self.flush(conn, done);
        }
        // Connections that became dirty meanwhile are in the new list; the memory of the old one is kept for the next
        // turn.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        self.wait(until, !done.is_empty());
        self.common.clock = Clock::read();
        for index in 0..self.events.len() {
            let event = self.events[index];
            match event.data.u64() {
                BELL => {
                    self.waker.quiet();
                    done.push(Completion::Woken);
                }
                acceptor if acceptor & ACCEPTOR == ACCEPTOR => {
                    self.on_acceptable((acceptor & !ACCEPTOR) as usize, done)
                }
                conn => self.on_edge(Key::from_bits(conn), event.flags, done),
            }
        }
        for _ in 0..self.ready.len().min(EVENTS_PER_TURN) {
            let Some(conn) = self.ready.pop_front() else { break };
            self.fetch(conn, done);
        }
    }
}

impl Kernel for Epoll {
    fn rename(&mut self, conn: Conn, owner: u64) {
        if let Some(line) = self.lines.get_mut(conn) {
            line.owner = owner;
        }
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}

/// Events handled in a turn, so that a turn is bounded; the rest wait in the kernel.
const EVENTS_PER_TURN: usize = 1024;
/// Chunks sent with one call.
const GATHER_MAX: usize = 32;
/// The event data of the waker; no key has all bits set.
const BELL: u64 = u64::MAX;
/// The bits that mark a listener; no generation reaches them.
const ACCEPTOR: u64 = 0xffff_fffe_0000_0000;
