//! The one door between a worker and the world, shaped as submissions and completions.
//!
//! Always true: every call returns at once; what came of it is heard from [`Io::turn`]. Bytes of one connection are sent
//! in the order in which they were given, and received in the order in which they came.
//! Not here: how the kernel is spoken to (`kernel`).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use base::{Key, Origin, Time, Wall};

use crate::tls::{Carried, Security, Side};
use crate::{Chunk, Lines, Listener, LogTarget, TcpTuning};

/// The name of an open connection.
pub type Conn = Key;

/// What a worker can do to the world. `world` implements it on a virtual clock and network.
pub trait Io {
    /// A connection that belongs to no worker at the moment, on its way from one to another.
    type Socket: Send + fmt::Debug;

    /// The time of this turn.
    fn now(&self) -> Time;

    /// The calendar at this turn.
    fn wall(&self) -> Wall;

    /// What a counter says that grows evenly with time, at a rate of its own, and is read in some nanoseconds. It may stand
    /// elsewhere after the machine was moved.
    fn ticks(&self) -> u64 {
        crate::ticks::ticks()
    }

    /// Fills `bytes` with randomness fit for secrets.
    fn randomness(&mut self, bytes: &mut [u8]);

    /// Who is at the other end.
    fn peer(&self, socket: &Self::Socket) -> Peer;

    /// Makes a connection this worker's own. `owner` is said with everything that is heard of it.
    ///
    /// # Errors
    /// The socket cannot be used; it is closed.
    fn adopt(&mut self, socket: Self::Socket, owner: u64) -> io::Result<Conn>;

    /// Opens a connection; [`Completion::Connected`] or [`Completion::ConnectFailed`] follows.
    ///
    /// # Errors
    /// It could not even be begun, such as when no descriptor is left.
    fn connect(&mut self, to: &Address, owner: u64) -> io::Result<Conn>;

    /// Begins TLS on a connection, of which `said` has been received already. Nothing is asked for meanwhile;
    /// [`Completion::Secured`] or [`Completion::Ended`] follows. What was given to be sent before leaves as it is.
    ///
    /// # Errors
    /// It cannot be begun; the connection wants to be closed. Whoever has no TLS says this always.
    fn secure(&mut self, conn: Conn, owner: u64, side: &Side, said: &[u8]) -> io::Result<()> {
        let _ = (conn, owner, side, said);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Asks for what the other side sends.
    fn receive(&mut self, conn: Conn, how: Receive);

    /// Asks for no more. A little of what is under way may still arrive.
    fn pause(&mut self, conn: Conn);

    /// Gives bytes to be sent.
    fn send(&mut self, conn: Conn, chunk: Chunk);

    /// Bytes given to be sent that the kernel has not taken yet.
    fn unsent(&self, conn: Conn) -> usize;

    /// Asks for [`Completion::Drained`] once everything given so far has been taken by the kernel.
    fn tell_when_drained(&mut self, conn: Conn);

    /// Ends a connection. Nothing more is heard of it.
    fn close(&mut self, conn: Conn, how: Close);

    /// Whether nothing of a connection is under way: it is asked for nothing, and everything given to it has been taken. What
    /// was under way when it was paused may still arrive before.
    fn is_at_rest(&self, conn: Conn) -> bool;

    /// Takes a connection off this worker. Only one that is not asked for bytes and has nothing unsent can go.
    fn release(&mut self, conn: Conn) -> Option<Self::Socket>;

    /// A connection once more, for another process; here it stays as it is. Only one at rest, which nothing secures.
    ///
    /// # Errors
    /// It is not at rest, or no descriptor is left.
    fn duplicate(&self, conn: Conn) -> io::Result<Self::Socket>;

    /// Where newcomers knock, once more, for another process.
    ///
    /// # Errors
    /// No descriptor is left.
    fn listeners(&self) -> io::Result<Vec<Listener>>;

    /// Our end of a TCP connection, for people.
    fn near_end(&self, conn: Conn) -> Option<SocketAddr>;

    /// Their end of a TCP connection, for people.
    fn far_end(&self, conn: Conn) -> Option<SocketAddr>;

    /// Opens the doors, or shuts them for good: who knocks then is refused by the kernel.
    fn accept(&mut self, doors: Doors);

    /// Whether the doors are as they were ordered: nobody comes any more through one that is not open.
    fn are_doors_at_rest(&self) -> bool;

    /// Changes the settings of sockets that will be opened.
    fn tune(&mut self, tuning: TcpTuning);

    /// Changes where log lines go.
    fn log_to(&mut self, log: Arc<LogTarget>);

    /// Writes lines to the log before it returns.
    fn write_log(&mut self, lines: &Lines);

    /// Receive buffers: (all, those in which nothing is).
    fn buffers(&self) -> (usize, usize);

    /// Receive buffers that have ever been used; the others cost no memory.
    fn buffers_touched(&self) -> usize;

    /// Hands over all submissions, waits for something to happen or for `until`, and says what has happened.
    fn turn(&mut self, until: Option<Time>, done: &mut Vec<Completion<Self::Socket>>);
}

/// Whether newcomers are let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doors {
    /// Everywhere.
    Open,
    /// Only by unix sockets: a shutdown that waits is still to be steered.
    OnlyUnix,
    /// Nowhere for now: who knocks waits until they are opened again.
    Resting,
    /// Nowhere.
    Shut,
}

/// How much is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receive {
    /// Whatever comes first, once.
    Once,
    /// Everything, until it is paused.
    Stream,
}

/// How a connection is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// At once; what is unsent is lost.
    Now,
    /// When everything given has been sent, or has failed to be, or [`LINGER`] has passed.
    AfterSending,
}

/// How long a connection that is to be closed may take to send its last words.
pub const LINGER: std::time::Duration = std::time::Duration::from_secs(5);

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    /// By TCP.
    Tcp(SocketAddr),
    /// A unix socket in the file system.
    Unix(Box<str>),
    /// A unix socket with an abstract name (Linux), without its leading zero byte.
    Abstract(Box<str>),
}

/// Who is at the other end of an accepted connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Somebody on the network.
    Tcp(SocketAddr),
    /// Somebody on this machine.
    Unix {
        /// Process id, 0 if unknown.
        pid: u32,
        /// User id, if known.
        uid: Option<u32>,
    },
}

impl Peer {
    /// Where it is, as far as connections are shared out by that.
    #[must_use]
    pub fn origin(self) -> Origin {
        match self {
            Self::Tcp(address) => Origin::of_client(address.ip()),
            Self::Unix { uid, .. } => Origin::LocalClients(uid),
        }
    }
}

impl Address {
    /// Where a server with it is, as far as connections are shared out by that.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self {
            Self::Tcp(address) => Origin::of_server(address.ip()),
            Self::Unix(_) | Self::Abstract(_) => Origin::LocalServers,
        }
    }
}

/// An accepted connection between workers.
#[derive(Debug)]
pub struct Socket {
    pub(crate) fd: OwnedFd,
    /// Whether it came by a unix socket.
    pub(crate) is_unix: bool,
    /// Where it came from, if that was told when it was accepted.
    pub(crate) from: Option<SocketAddr>,
    /// What secures it, if anything does.
    pub(crate) tls: Option<Box<Carried>>,
    /// Another process has had it, which may have waited at it in another way.
    pub(crate) is_inherited: bool,
}

impl Socket {
    /// A connection that another process has had.
    #[must_use]
    pub fn inherited(fd: OwnedFd, is_unix: bool) -> Self {
        Self { fd, is_unix, from: None, tls: None, is_inherited: true }
    }

    /// Whether it is one of a unix socket.
    #[must_use]
    pub fn is_unix(&self) -> bool {
        self.is_unix
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One end of a pair of unix sockets.
impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self { fd, is_unix: true, from: None, tls: None, is_inherited: false }
    }
}

/// Why nothing more comes.
#[derive(Debug)]
pub enum End {
    /// The other side has closed.
    Eof,
    /// The connection broke.
    Broken(io::Error),
    /// TLS was not agreed on, or what came was not what had been sent; in words for the log.
    Insecure(String),
}

/// What has happened.
#[derive(Debug)]
pub enum Completion<S> {
    /// Somebody has connected.
    Accepted {
        /// The connection.
        socket: S,
        /// Whether descriptors have run out: it can be told so, and nothing else.
        is_last: bool,
    },
    /// Accepting failed and is tried again by itself after a pause.
    AcceptFailed(io::Error),
    /// A connection that we opened stands.
    Connected {
        /// Whose.
        owner: u64,
    },
    /// A connection that we opened has failed, and is gone.
    ConnectFailed {
        /// Whose.
        owner: u64,
        /// Why.
        error: io::Error,
    },
    /// Bytes have come.
    Received {
        /// Whose.
        owner: u64,
        /// The bytes.
        bytes: Chunk,
    },
    /// TLS stands: what is sent and received from now on is plain here and secret on the wire.
    Secured {
        /// Whose.
        owner: u64,
        /// How.
        security: Arc<Security>,
    },
    /// Nothing more will come, or can be sent. The connection still wants to be closed.
    Ended {
        /// Whose.
        owner: u64,
        /// Why.
        end: End,
    },
    /// Everything given to be sent has been taken by the kernel.
    Drained {
        /// Whose.
        owner: u64,
    },
    /// Somebody has rung the bell of the letter box.
    Woken,
}

impl<S> Completion<S> {
    /// Whose it is, if it is about a connection that has a name.
    #[must_use]
    pub fn owner(&self) -> Option<u64> {
        match self {
            Self::Connected { owner }
            | Self::ConnectFailed { owner, .. }
            | Self::Received { owner, .. }
            | Self::Secured { owner, .. }
            | Self::Ended { owner, .. }
            | Self::Drained { owner } => Some(*owner),
            Self::Accepted { .. } | Self::AcceptFailed(_) | Self::Woken => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_and_a_server_of_one_address_are_two() {
        let address = "10.0.0.1:5432".parse().expect("an address");
        let (client, server) = (Peer::Tcp(address).origin(), Address::Tcp(address).origin());
        assert!(client != server && server.is_of_servers() && !client.is_of_servers());
        assert!(Address::Unix("/tmp/s".into()).origin().is_of_servers());
        assert_ne!(Peer::Unix { pid: 1, uid: Some(1) }.origin(), Peer::Unix { pid: 1, uid: Some(2) }.origin());
    }
}
