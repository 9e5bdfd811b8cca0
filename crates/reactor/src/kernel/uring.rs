//! io_uring: one system call per turn submits all operations and collects all completions.
//!
//! Always true: at most one send and one receive of a connection are under way; memory that the kernel may read or
//! write stays in place until the kernel has reported that it is done (an outbox keeps its chunks, a lent buffer has no
//! other owner); a closed connection keeps its row until its last operation has completed, so no completion meets
//! another connection.
//! Not here: what to do where io_uring is missing (`epoll`), and how that is found out (`probe`).

#[path = "uring_accept.rs"]
mod accept;
#[path = "uring_enter.rs"]
mod enter;
#[path = "uring_sends.rs"]
mod sends;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::Arc;

use base::{Slab, Time, Wall};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::SockAddr;

use self::accept::Acceptor;
use self::sends::Pace;
use crate::io::{Accepting, LINGER};
use crate::kernel::common::{self, Clock, Common};
use crate::kernel::line::{Gather, Line, RingStage, Underway};
use crate::kernel::outbox::Outbox;
use crate::kernel::ring::{BUFFER_GROUP, BufferRing, build_ring};
use crate::kernel::{Equipment, Kernel};
use crate::{
    Address, Buffers, Chunk, Close, Completion, Conn, End, Io, Lines, Listener, LogTarget, Peer, Receive, Socket,
    TcpTuning, Waker,
};

/// The I/O of a worker by io_uring.
pub struct Uring {
    ring: IoUring,
    given: BufferRing,
    buffers: Buffers,
    /// How many buffers the kernel is given; doubled when it ran out, halved when it has not run out for a while.
    given_wanted: u16,
    /// The kernel has run out of buffers since they were last topped up.
    is_short: bool,
    /// When `given_wanted` last changed.
    given_changed: Time,
    lines: Slab<Line>,
    /// Connections with something to send since the last turn: what is queued for a connection in one turn leaves
    /// together.
    unsent: Vec<Conn>,
    /// Connections whose sends have been submitted, or wait for that, so that only their failure is told.
    prompt: Vec<Conn>,
    /// Entries that found the submission queue full.
    backlog: VecDeque<squeue::Entry>,
    /// Connections whose receive found no buffer.
    starved: Vec<Conn>,
    /// Closed connections that still send, the oldest first.
    lingering: VecDeque<(Time, Conn)>,
    acceptors: Vec<Acceptor>,
    accepting: Accepting,
    accept_again: Option<Time>,
    /// Listeners may have to be opened or closed.
    are_acceptors_due: bool,
    spare: Option<OwnedFd>,
    /// The spare descriptor was given up, so that the next client can be told that there are none left.
    is_spare_given: bool,
    waker: Waker,
    /// When the log last reported that the kernel had no memory.
    memory_missed: Option<Time>,
    /// Boxed, because the kernel keeps their addresses.
    #[allow(clippy::vec_box)]
    spent_gathers: Vec<Box<Gather>>,
    common: Common,
}

impl Uring {
    /// Sets up the I/O of the worker that runs on the calling thread.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(equipment: Equipment) -> io::Result<Self> {
        let ring = build_ring(QUEUE_ENTRIES)?;
        let buffers = Buffers::new(equipment.buffers);
        let given = BufferRing::register(&ring, equipment.buffers.next_power_of_two())?;
        let acceptors = equipment.listeners.into_iter().map(Acceptor::new).collect();
        let mut uring = Self {
            ring,
            given,
            buffers,
            given_wanted: GIVEN_AT_FIRST.min(equipment.buffers),
            is_short: false,
            given_changed: Time(0),
            lines: Slab::with_capacity(u32::MAX),
            unsent: Vec::new(),
            prompt: Vec::new(),
            backlog: VecDeque::new(),
            starved: Vec::new(),
            lingering: VecDeque::new(),
            acceptors,
            accepting: Accepting::Closed,
            accept_again: None,
            are_acceptors_due: false,
            spare: common::spare(),
            is_spare_given: false,
            waker: equipment.waker,
            memory_missed: None,
            spent_gathers: Vec::new(),
            common: Common::new(equipment.tuning, equipment.log),
        };
        uring.hear_bell();
        Ok(uring)
    }

    fn hear_bell(&mut self) {
        let bell = types::Fd(self.waker.as_fd().as_raw_fd());
        self.submit(opcode::PollAdd::new(bell, libc::POLLIN as u32).multi(true).build().user_data(word(Op::Bell, 0)));
    }

    fn submit(&mut self, entry: squeue::Entry) {
        if self.backlog.is_empty() {
            // Safe because what an entry points at lives until its completion: see the promise of this file.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    /// Moves the backlog into the submission queue, and submits when that is full.
    fn flush_backlog(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // Safe as in `submit`.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.backlog.pop_front();
            } else if self.ring.submit().is_err() {
                return;
            }
        }
    }

    fn insert(&mut self, fd: OwnedFd, is_unix: bool, owner: u64, dialed: Option<Box<SockAddr>>) -> Conn {
        let stage = if dialed.is_some() { RingStage::Dialing } else { RingStage::Open };
        let line = Line {
            fd: Some(fd),
            owner,
            outbox: Outbox::default(),
            gather: None,
            dialed,
            wanted: None,
            receive: Underway::No,
            send: Underway::No,
            prompt_bytes: 0,
            stage,
            wants_drained: false,
            is_unix,
        };
        let Ok(conn) = self.lines.insert(line) else { unreachable!("descriptors run out before rows do") };
        conn
    }

    /// Submits the receive that the worker wants, unless one is under way.
    fn arm(&mut self, conn: Conn) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        if line.receive != Underway::No || !matches!(line.stage, RingStage::Open) {
            return;
        }
        let fd = line.target();
        let entry = match line.wanted {
            None => return,
            Some(Receive::Stream) => opcode::RecvMulti::new(fd, BUFFER_GROUP).build(),
            Some(Receive::Once) => opcode::Recv::new(fd, std::ptr::null_mut(), 0)
                .buf_group(BUFFER_GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
        };
        line.receive = Underway::Yes;
        self.submit(entry.user_data(word(Op::Receive, conn.index)));
    }

    fn recall(&mut self, op: Op, conn: Conn) {
        self.submit(opcode::AsyncCancel::new(word(op, conn.index)).build().user_data(word(Op::Nobody, 0)));
    }

    /// Closes a connection for good: the cancellation of its operations and the close of its descriptor are submitted
    /// together. Operations refer to the file and not to the descriptor's number, so the number may be reused at once.
    fn bury(&mut self, conn: Conn) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        line.stage = RingStage::Dead;
        line.wanted = None;
        let sending = if line.dialed.is_some() { Op::Connect } else { Op::Send };
        let underway = [(Op::Receive, &mut line.receive), (sending, &mut line.send)].map(|(op, state)| {
            let is_called_back = *state == Underway::Yes;
            if is_called_back {
                *state = Underway::Recalled;
            }
            (op, is_called_back)
        });
        let fd = line.fd.take();
        for (op, _) in underway.into_iter().filter(|(_, is_called_back)| *is_called_back) {
            self.recall(op, conn);
        }
        if let Some(fd) = fd {
            self.submit(opcode::Close::new(types::Fd(fd.into_raw_fd())).build().user_data(word(Op::Nobody, 0)));
        }
        self.bury_if_quiet(conn);
    }

    /// Removes the row of a dead connection when its last operation has completed.
    fn bury_if_quiet(&mut self, conn: Conn) {
        let Some(line) = self.lines.get(conn) else { return };
        if line.stage == RingStage::Dead && line.receive == Underway::No && line.send == Underway::No {
            self.lines.remove(conn);
        }
    }

    fn on_receive(&mut self, conn: Conn, result: i32, flags: u32, done: &mut Vec<Completion<Socket>>) {
        let span = cqueue::buffer_select(flags).map(|id| {
            // Safe because this completion has just named the buffer, and each completion is handled once.
            unsafe { self.given.returned(&self.buffers, id, result.max(0) as usize) }
        });
        let Some(line) = self.lines.get_mut(conn) else { return };
        if !cqueue::more(flags) {
            line.receive = Underway::No;
        }
        if line.stage == RingStage::Dead || line.stage == RingStage::Leaving {
            self.bury_if_quiet(conn);
            return;
        }
        match (result, span) {
            (1.., Some(span)) => {
                if line.wanted == Some(Receive::Once) {
                    line.wanted = None;
                }
                done.push(Completion::Received { owner: line.owner, bytes: span.into() });
                self.arm(conn);
            }
            _ if result == -libc::ENOBUFS => {
                self.is_short = true;
                self.starved.push(conn);
            }
            _ if matches!(-result, libc::ECANCELED | libc::EINTR | libc::EAGAIN) => self.arm(conn),
            _ => self.end(conn, result, done),
        }
    }

    fn on_connect(&mut self, conn: Conn, result: i32, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        line.dialed = None;
        line.send = Underway::No;
        if line.stage == RingStage::Dead {
            self.bury_if_quiet(conn);
        } else if result == 0 {
            line.stage = RingStage::Open;
            done.push(Completion::Connected { owner: line.owner });
            self.arm(conn);
            self.kick(conn, Pace::Prompt);
        } else {
            let error = io::Error::from_raw_os_error(-result);
            done.push(Completion::ConnectFailed { owner: line.owner, error });
            self.bury(conn);
        }
    }

    /// The other side is gone. This is reported once, whichever operation finds it out first.
    fn end(&mut self, conn: Conn, result: i32, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        if line.stage != RingStage::Open {
            return;
        }
        line.stage = RingStage::Ended;
        let end = if result == 0 { End::Eof } else { End::Broken(io::Error::from_raw_os_error(-result)) };
        done.push(Completion::Ended { owner: line.owner, end });
    }

    /// The work before the kernel is entered.
    fn prepare(&mut self) {
        self.send_all();
        if self.spare.is_none() && !self.is_spare_given {
            self.spare = common::spare();
        }
        if self.accept_again.is_some_and(|again| again <= self.common.clock.now) {
            self.accept_again = None;
            self.are_acceptors_due = true;
        }
        if std::mem::take(&mut self.are_acceptors_due) {
            self.update_acceptors();
        }
        self.mind_given();
        self.given.top_up(&self.buffers, self.given_wanted);
        if self.given.lent > 0 {
            for conn in std::mem::take(&mut self.starved) {
                self.arm(conn);
            }
        }
        while self.lingering.front().is_some_and(|(until, _)| *until <= self.common.clock.now) {
            if let Some((_, conn)) = self.lingering.pop_front()
                && self.lines.get(conn).is_some_and(|line| line.stage == RingStage::Leaving)
            {
                self.bury(conn);
            }
        }
        self.flush_backlog();
    }

    /// Adapts the number of given buffers. All connections that found no buffer in a turn count as one shortage.
    fn mind_given(&mut self) {
        let now = self.common.clock.now;
        if std::mem::take(&mut self.is_short) {
            self.given_wanted = self.given_wanted.saturating_mul(2).min(self.buffers.count() as u16);
            self.given_changed = now;
        } else if self.given_wanted > GIVEN_AT_FIRST && now.since(self.given_changed) >= GIVEN_LESS_AFTER {
            self.given_wanted = (self.given_wanted / 2).max(GIVEN_AT_FIRST);
            self.given_changed = now;
        }
    }
}

impl Io for Uring {
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
        Ok(self.insert(socket.fd, socket.is_unix, owner, None))
    }

    fn connect(&mut self, to: &Address, owner: u64) -> io::Result<Conn> {
        let (fd, address) = common::dialing_socket(to, &self.common.tuning)?;
        let address = Box::new(address);
        let target = types::Fd(fd.as_raw_fd());
        let entry = opcode::Connect::new(target, address.as_ptr().cast(), address.len()).build();
        let conn = self.insert(fd, !matches!(to, Address::Tcp(_)), owner, Some(address));
        if let Some(line) = self.lines.get_mut(conn) {
            line.send = Underway::Yes;
        }
        self.submit(entry.user_data(word(Op::Connect, conn.index)));
        Ok(conn)
    }

    fn receive(&mut self, conn: Conn, how: Receive) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        line.wanted = Some(how);
        self.arm(conn);
    }

    fn pause(&mut self, conn: Conn) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        line.wanted = None;
        if line.receive == Underway::Yes {
            line.receive = Underway::Recalled;
            self.recall(Op::Receive, conn);
        }
    }

    fn send(&mut self, conn: Conn, chunk: Chunk) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        if chunk.is_empty() || !matches!(line.stage, RingStage::Open | RingStage::Dialing) {
            return;
        }
        if line.outbox.is_empty() {
            self.unsent.push(conn);
        }
        line.outbox.push(chunk);
    }

    fn unsent(&self, conn: Conn) -> usize {
        self.lines.get(conn).map_or(0, |line| line.outbox.bytes())
    }

    fn tell_when_drained(&mut self, conn: Conn) {
        if let Some(line) = self.lines.get_mut(conn) {
            line.wants_drained = true;
        }
    }

    fn close(&mut self, conn: Conn, how: Close) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        let may_linger = how == Close::AfterSending && line.stage == RingStage::Open && !line.outbox.is_empty();
        if may_linger {
            line.stage = RingStage::Leaving;
            line.wanted = None;
            self.lingering.push_back((self.common.clock.now + LINGER, conn));
        } else {
            self.bury(conn);
        }
    }

    fn is_at_rest(&self, conn: Conn) -> bool {
        self.lines.get(conn).is_none_or(Line::is_quiet)
    }

    fn release(&mut self, conn: Conn) -> Option<Socket> {
        let line = self.lines.get(conn)?;
        if !line.is_quiet() || line.stage != RingStage::Open {
            return None;
        }
        let line = self.lines.remove(conn)?;
        line.fd.map(|fd| Socket { fd, is_unix: line.is_unix, from: None, tls: None, is_inherited: false })
    }

    fn duplicate(&self, conn: Conn) -> io::Result<Socket> {
        let line = self.lines.get(conn).filter(|line| line.is_quiet() && line.stage == RingStage::Open);
        let fd = line.and_then(|line| line.fd.as_ref()).ok_or(io::ErrorKind::WouldBlock)?;
        Ok(Socket::inherited(fd.try_clone()?, line.is_some_and(|line| line.is_unix)))
    }

    fn listeners(&self) -> io::Result<Vec<Listener>> {
        self.acceptors.iter().filter_map(Acceptor::listener).map(Listener::try_clone).collect()
    }

    fn near_end(&self, conn: Conn) -> Option<SocketAddr> {
        common::near_end(self.lines.get(conn)?.fd.as_ref()?)
    }

    fn far_end(&self, conn: Conn) -> Option<SocketAddr> {
        common::far_end(self.lines.get(conn)?.fd.as_ref()?)
    }

    fn accept(&mut self, accepting: Accepting) {
        (self.accepting, self.are_acceptors_due) = (accepting, true);
    }

    fn is_accepting_at_rest(&self) -> bool {
        matches!(self.accepting, Accepting::All | Accepting::OnlyUnix)
            || self.acceptors.iter().all(Acceptor::is_at_rest)
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
        // A buffer that the kernel was given and has not written to counts as free.
        (self.buffers.count(), self.buffers.free() + usize::from(self.given.lent))
    }

    fn buffers_touched(&self) -> usize {
        self.buffers.touched()
    }

    fn turn(&mut self, until: Option<Time>, done: &mut Vec<Completion<Socket>>) {
        self.prepare();
        self.enter(until);
        self.common.clock = Clock::read();
        let prompt = std::mem::take(&mut self.prompt);
        let is_submitted = self.backlog.is_empty() && self.ring.submission().is_empty();
        let mut is_all_read = false;
        for _ in 0..COMPLETIONS_PER_TURN {
            let Some(entry) = self.ring.completion().next() else {
                is_all_read = true;
                break;
            };
            let (op, index) = unword(entry.user_data());
            let (result, flags) = (entry.result(), entry.flags());
            let conn = self.lines.key_at(index);
            match (op, conn) {
                (Op::Receive, Some(conn)) => self.on_receive(conn, result, flags, done),
                (Op::Send, Some(conn)) => self.on_send(conn, result, done),
                (Op::Connect, Some(conn)) => self.on_connect(conn, result, done),
                (Op::Accept, _) => self.on_accept(index as usize, result, flags, done),
                (Op::Bell, _) => {
                    self.waker.quiet();
                    done.push(Completion::Woken);
                    if !cqueue::more(flags) {
                        self.hear_bell();
                    }
                }
                (Op::Nobody, _) => {}
                (_, None) => unreachable!("a row stays until its last operation has come home"),
            }
        }
        if is_submitted && is_all_read && !self.ring.submission().cq_overflow() {
            self.conclude(prompt, done);
        } else {
            self.prompt.extend(prompt);
        }
    }
}

/// The kind of an operation, as the user data of its completion tells it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Nobody = 0,
    Accept = 1,
    Receive = 2,
    Send = 3,
    Connect = 4,
    Bell = 5,
}

fn word(op: Op, index: u32) -> u64 {
    (op as u64) << 32 | u64::from(index)
}

fn unword(word: u64) -> (Op, u32) {
    let op = match word >> 32 {
        1 => Op::Accept,
        2 => Op::Receive,
        3 => Op::Send,
        4 => Op::Connect,
        5 => Op::Bell,
        _ => Op::Nobody,
    };
    (op, word as u32)
}

impl Kernel for Uring {
    fn rename(&mut self, conn: Conn, owner: u64) {
        if let Some(line) = self.lines.get_mut(conn) {
            line.owner = owner;
        }
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}

/// Entries of the submission queue; further ones wait in the backlog.
const QUEUE_ENTRIES: u32 = 1024;
/// Completions handled in a turn, so that a turn is bounded; the rest wait in the ring.
const COMPLETIONS_PER_TURN: usize = 2048;
/// The number of given buffers is halved when the kernel has not run out of them for this long.
const GIVEN_LESS_AFTER: std::time::Duration = std::time::Duration::from_secs(1);
/// Buffers that the kernel is given at first: few, so that they stay in the cache.
const GIVEN_AT_FIRST: u16 = 64;
