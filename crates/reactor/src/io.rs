//! The only interface between a worker and the outside world, shaped as submissions and completions.
//!
//! Always true: every call returns at once; [`Io::turn`] reports its outcome. The bytes of a connection are sent in the
//! order in which they were queued, and delivered in the order in which they arrived.
//! Not here: the system calls (`kernel`).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use base::{Key, Origin, Time, Wall};

use crate::tls::{Carried, Security, Side};
use crate::{Chunk, Lines, Listener, LogTarget, TcpTuning};

/// The key of an open connection.
pub type Conn = Key;

/// Every operation of a worker on the outside world. The crate `world` implements it with a virtual clock and network.
pub trait Io {
    /// A connection on its way from one worker to another, owned by neither.
    type Socket: Send + fmt::Debug;

    /// The time of this turn.
    fn now(&self) -> Time;

    /// The wall-clock time of this turn.
    fn wall(&self) -> Wall;

    /// The value of a counter that grows evenly with time, at an unknown rate, and that is read in a few nanoseconds.
    /// The counter may jump when the machine is migrated.
    fn ticks(&self) -> u64 {
        crate::ticks::ticks()
    }

    /// For how long the calling thread has run or waited for a processor since it was started. System calls in which it
    /// sends and receives are a part of that; sleeping is not.
    fn awake(&self) -> Duration {
        crate::kernel::common::awake()
    }

    /// Fills `bytes` with cryptographically secure random bytes.
    fn randomness(&mut self, bytes: &mut [u8]);

    /// Returns the address or the credentials of the other end.
    fn peer(&self, socket: &Self::Socket) -> Peer;

    /// Takes a connection into this worker. Each completion about the connection carries `owner`.
    ///
    /// # Errors
    /// The socket cannot be used; it is closed.
    fn adopt(&mut self, socket: Self::Socket, owner: u64) -> io::Result<Conn>;

    /// Opens a connection; [`Completion::Connected`] or [`Completion::ConnectFailed`] follows.
    ///
    /// # Errors
    /// The attempt cannot be started, for example because no descriptor is left.
    fn connect(&mut self, to: &Address, owner: u64) -> io::Result<Conn>;

    /// Starts TLS on a connection of which `said` has been received already. Nothing is received until
    /// [`Completion::Secured`] or [`Completion::Ended`] follows. Bytes queued before this call are sent unencrypted.
    ///
    /// # Errors
    /// TLS cannot be started; the caller has to close the connection. An implementation without TLS always returns this
    /// error.
    fn secure(&mut self, conn: Conn, owner: u64, side: &Side, said: &[u8]) -> io::Result<()> {
        let _ = (conn, owner, side, said);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts to receive from the other side.
    fn receive(&mut self, conn: Conn, how: Receive);

    /// Stops receiving. Bytes that are already under way may still arrive.
    fn pause(&mut self, conn: Conn);

    /// Queues bytes to be sent.
    fn send(&mut self, conn: Conn, chunk: Chunk);

    /// Returns how many queued bytes the kernel has not taken yet.
    fn unsent(&self, conn: Conn) -> usize;

    /// Requests [`Completion::Drained`] for the moment when the kernel has taken everything queued so far.
    fn tell_when_drained(&mut self, conn: Conn);

    /// Closes a connection. No completion about the connection follows.
    fn close(&mut self, conn: Conn, how: Close);

    /// Whether nothing of a connection is under way: no receive is pending and the kernel has taken all queued bytes.
    /// Bytes that were under way when the connection was paused may arrive before that.
    fn is_at_rest(&self, conn: Conn) -> bool;

    /// Takes a connection off this worker. Only a connection without a pending receive and without unsent bytes can go.
    fn release(&mut self, conn: Conn) -> Option<Self::Socket>;

    /// Duplicates a connection for another process; the original stays unchanged. Only an unencrypted connection at
    /// rest can be duplicated.
    ///
    /// # Errors
    /// The connection is encrypted or not at rest, or no descriptor is left.
    fn duplicate(&self, conn: Conn) -> io::Result<Self::Socket>;

    /// Duplicates the listening sockets for another process.
    ///
    /// # Errors
    /// No descriptor is left.
    fn listeners(&self) -> io::Result<Vec<Listener>>;

    /// The local address of a TCP connection, for display.
    fn near_end(&self, conn: Conn) -> Option<SocketAddr>;

    /// The remote address of a TCP connection, for display.
    fn far_end(&self, conn: Conn) -> Option<SocketAddr>;

    /// Changes which listening sockets accept connections.
    fn accept(&mut self, accepting: Accepting);

    /// Whether the last [`Io::accept`] has taken effect: no more connections arrive at a listening socket that is not
    /// open.
    fn is_accepting_at_rest(&self) -> bool;

    /// Changes the socket options of connections opened from now on.
    fn tune(&mut self, tuning: TcpTuning);

    /// Changes where log lines go.
    fn log_to(&mut self, log: Arc<LogTarget>);

    /// Writes lines to the log before it returns.
    fn write_log(&mut self, lines: &Lines);

    /// Receive buffers: (all, those without received bytes).
    fn buffers(&self) -> (usize, usize);

    /// Receive buffers that have ever been used; the others cost no memory.
    fn buffers_touched(&self) -> usize;

    /// Submits all operations, waits for a completion or for `until`, and appends what has happened to `done`.
    fn turn(&mut self, until: Option<Time>, done: &mut Vec<Completion<Self::Socket>>);
}

/// Which listening sockets accept connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepting {
    /// All of them.
    All,
    /// Only unix sockets, so that administrators can still control a shutdown that waits for clients.
    OnlyUnix,
    /// None for now: new connections wait in the kernel until the listening sockets are opened again.
    Paused,
    /// None, for good: the listening sockets are closed and the kernel refuses new connections.
    Closed,
}

/// How much to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receive {
    /// Whatever arrives first, once.
    Once,
    /// Everything, until [`Io::pause`].
    Stream,
}

/// How a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// At once; unsent bytes are lost.
    Now,
    /// When everything queued has been sent, when sending has failed, or after [`LINGER`].
    AfterSending,
}

/// How long a closing connection may take to send its queued bytes.
pub const LINGER: std::time::Duration = std::time::Duration::from_secs(5);

/// Where a PostgreSQL host listens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    /// By TCP.
    Tcp(SocketAddr),
    /// A unix socket in the file system.
    Unix(Box<str>),
    /// A unix socket with an abstract name (Linux), without its leading zero byte.
    Abstract(Box<str>),
}

/// The other end of an accepted connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A TCP connection. Its address and port are separate, because a `SocketAddr` takes half as much memory again, in
    /// the row of each client.
    Tcp {
        /// The remote address.
        ip: IpAddr,
        /// The remote port.
        port: u16,
    },
    /// A unix socket of this machine.
    Unix {
        /// Process id, 0 if unknown.
        pid: u32,
        /// User id, if known.
        uid: Option<u32>,
    },
}

impl Peer {
    /// The address, if it is connected by TCP.
    #[must_use]
    pub fn tcp(self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { ip, port } => Some(SocketAddr::new(ip, port)),
            Self::Unix { .. } => None,
        }
    }

    /// The origin of this client, by which connections are shared out fairly.
    #[must_use]
    pub fn origin(self) -> Origin {
        match self {
            Self::Tcp { ip, .. } => Origin::of_client(ip),
            Self::Unix { uid, .. } => Origin::LocalClients(uid),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp { ip: address.ip(), port: address.port() }
    }
}

impl Address {
    /// The origin of a server with this address, by which connections are shared out fairly.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self {
            Self::Tcp(address) => Origin::of_server(address.ip()),
            Self::Unix(_) | Self::Abstract(_) => Origin::LocalServers,
        }
    }
}

/// An accepted connection on its way to a worker.
#[derive(Debug)]
pub struct Socket {
    pub(crate) fd: OwnedFd,
    /// Whether this is a unix socket.
    pub(crate) is_unix: bool,
    /// The remote address, if the kernel reported it when the connection was accepted.
    pub(crate) from: Option<SocketAddr>,
    /// The TLS session, if the connection is encrypted.
    pub(crate) tls: Option<Box<Carried>>,
    /// Another process had this connection, and may have set its blocking mode otherwise.
    pub(crate) is_inherited: bool,
}

impl Socket {
    /// A connection that another process had.
    #[must_use]
    pub fn inherited(fd: OwnedFd, is_unix: bool) -> Self {
        Self { fd, is_unix, from: None, tls: None, is_inherited: true }
    }

    /// Whether this is a unix socket.
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

/// Why nothing more arrives.
#[derive(Debug)]
pub enum End {
    /// The other side has closed the connection.
    Eof,
    /// The connection broke.
    Broken(io::Error),
    /// The TLS handshake failed, or received bytes were not authentic; in words for the log.
    Insecure(String),
}

/// An event that [`Io::turn`] reports.
#[derive(Debug)]
pub enum Completion<S> {
    /// A connection was accepted.
    Accepted {
        /// The connection.
        socket: S,
        /// Whether descriptors are running out: the worker can only refuse this client.
        is_last: bool,
    },
    /// Accepting failed, and is resumed after a pause.
    AcceptFailed(io::Error),
    /// A connection that we opened is established.
    Connected {
        /// The owner of the connection.
        owner: u64,
    },
    /// A connection that we opened has failed, and is closed.
    ConnectFailed {
        /// The owner of the connection.
        owner: u64,
        /// Why.
        error: io::Error,
    },
    /// Bytes have arrived.
    Received {
        /// The owner of the connection.
        owner: u64,
        /// The bytes.
        bytes: Chunk,
    },
    /// The TLS handshake is complete: from now on bytes are plain text here and encrypted on the wire.
    Secured {
        /// The owner of the connection.
        owner: u64,
        /// What the handshake has agreed on.
        security: Arc<Security>,
    },
    /// Nothing more can be received or sent. The worker still has to close the connection.
    Ended {
        /// The owner of the connection.
        owner: u64,
        /// Why.
        end: End,
    },
    /// The kernel has taken everything that was queued.
    Drained {
        /// The owner of the connection.
        owner: u64,
    },
    /// The worker's [`crate::Waker`] was used.
    Woken,
}

impl<S> Completion<S> {
    /// The owner of the connection, if the completion is about an open one.
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
        let address: SocketAddr = "10.0.0.1:5432".parse().expect("an address");
        let (client, server) = (Peer::from(address).origin(), Address::Tcp(address).origin());
        assert!(client != server && server.is_of_servers() && !client.is_of_servers());
        assert!(Address::Unix("/tmp/s".into()).origin().is_of_servers());
        assert_ne!(Peer::Unix { pid: 1, uid: Some(1) }.origin(), Peer::Unix { pid: 1, uid: Some(2) }.origin());
    }
}
