//! The sockets that newcomers knock at.
//!
//! Always true: a listener is made once and shared by all workers; what newcomers inherit (no delay, keepalive, buffers) is
//! set on it, so that accepting one costs no further call.
//! Not here: accepting.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Where.
    pub bound: Bound,
}

/// Where a listener listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound {
    /// On a TCP address.
    Tcp(SocketAddr),
    /// On a unix socket of this path; one with a leading `@` is abstract.
    Unix(Box<str>),
}

impl Listener {
    /// From now on connections are there as soon as they are made (`tcp_defer_accept`).
    pub(crate) fn stop_deferring(&self) -> io::Result<()> {
        defer_accept(&self.fd, 0)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Listener {
    /// One that another process has had.
    #[must_use]
    pub fn inherited(fd: OwnedFd, bound: Bound) -> Self {
        Self { fd, bound }
    }

    /// The same once more.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, bound: self.bound.clone() })
    }
}

/// Settings of TCP sockets (`tcp_*`); 0 leaves the system's own value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpTuning {
    /// `SO_KEEPALIVE`.
    pub keepalive: bool,
    /// `TCP_KEEPIDLE`, seconds.
    pub keepidle_secs: u32,
    /// `TCP_KEEPINTVL`, seconds.
    pub keepintvl_secs: u32,
    /// `TCP_KEEPCNT`.
    pub keepcnt: u32,
    /// `TCP_USER_TIMEOUT`, milliseconds.
    pub user_timeout_ms: u32,
    /// `SO_SNDBUF` and `SO_RCVBUF`, bytes.
    pub socket_buffer: u32,
}

impl TcpTuning {
    pub(crate) fn apply(&self, socket: &Socket) -> io::Result<()> {
        socket.set_tcp_nodelay(true)?;
        if self.keepalive {
            let mut keepalive = TcpKeepalive::new();
            if self.keepidle_secs > 0 {
                keepalive = keepalive.with_time(Duration::from_secs(self.keepidle_secs.into()));
            }
            if self.keepintvl_secs > 0 {
                keepalive = keepalive.with_interval(Duration::from_secs(self.keepintvl_secs.into()));
            }
            if self.keepcnt > 0 {
                keepalive = keepalive.with_retries(self.keepcnt);
            }
            socket.set_tcp_keepalive(&keepalive)?;
        }
        if self.user_timeout_ms > 0 {
            socket.set_tcp_user_timeout(Some(Duration::from_millis(self.user_timeout_ms.into())))?;
        }
        if self.socket_buffer > 0 {
            socket.set_send_buffer_size(self.socket_buffer as usize)?;
            socket.set_recv_buffer_size(self.socket_buffer as usize)?;
        }
        Ok(())
    }
}

/// How a listener is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// `listen_backlog`.
    pub backlog: u32,
    /// `so_reuseport`.
    pub is_port_shared: bool,
    /// `tcp_defer_accept`: wake us only when the first bytes are there, at the latest after so many seconds; 0 is off.
    pub defer_accept_secs: u32,
    /// What newcomers inherit.
    pub tuning: TcpTuning,
}

/// Which step of listening failed.
#[derive(Debug)]
pub struct ListenFault {
    /// The system call.
    pub step: &'static str,
    /// What it said.
    pub error: io::Error,
}

/// Listens on a TCP address.
///
/// # Errors
/// Says which step failed.
pub fn bind_tcp(address: SocketAddr, wanted: &Wanted) -> Result<Listener, ListenFault> {
    let at = |step| move |error| ListenFault { step, error };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(at("socket"))?;
    socket.set_reuse_address(true).map_err(at("setsockopt(SO_REUSEADDR)"))?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(at("setsockopt(IPV6_V6ONLY)"))?;
    }
    if wanted.is_port_shared {
        socket.set_reuse_port(true).map_err(at("setsockopt(SO_REUSEPORT)"))?;
    }
    wanted.tuning.apply(&socket).map_err(at("setsockopt"))?;
    socket.bind(&address.into()).map_err(at("bind"))?;
    if wanted.defer_accept_secs > 0 {
        defer_accept(&socket, wanted.defer_accept_secs).map_err(at("setsockopt(TCP_DEFER_ACCEPT)"))?;
    }
    socket.listen(wanted.backlog.min(i32::MAX as u32) as i32).map_err(at("listen"))?;
    let bound = socket.local_addr().ok().and_then(|local| local.as_socket()).unwrap_or(address);
    Ok(Listener { fd: socket.into(), bound: Bound::Tcp(bound) })
}

/// Listens on a unix socket. A `path` with a leading `@` is an abstract name.
///
/// # Errors
/// Says which step failed.
pub fn bind_unix(path: &str, wanted: &Wanted) -> Result<Listener, ListenFault> {
    let at = |step| move |error| ListenFault { step, error };
    let address = unix_address(path).map_err(at("bind"))?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(at("socket"))?;
    socket.bind(&address).map_err(at("bind"))?;
    socket.listen(wanted.backlog.min(i32::MAX as u32) as i32).map_err(at("listen"))?;
    Ok(Listener { fd: socket.into(), bound: Bound::Unix(path.into()) })
}

/// A socket that a service manager has opened for us, by its number. To be called once for each, before this process has closed
/// any descriptor that was given to it.
///
/// # Errors
/// There is no such socket; says which step failed.
pub fn passed(number: i32, wanted: &Wanted) -> Result<Listener, ListenFault> {
    let at = |step| move |error| ListenFault { step, error };
    // Safe because the descriptor is looked at for the length of one call, which fails if there is none.
    let flags = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) });
    let flags = flags.map_err(|error| ListenFault { step: "fcntl", error: error.into() })?;
    // Safe because it is open, and was opened for us by somebody who does not use it: nobody else here knows it.
    let fd = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, flags | rustix::io::FdFlags::CLOEXEC)
        .map_err(|error| ListenFault { step: "fcntl", error: error.into() })?;
    let socket = Socket::from(fd);
    let local = socket.local_addr().map_err(at("getsockname"))?;
    let bound = match local.as_socket() {
        Some(address) => {
            wanted.tuning.apply(&socket).map_err(at("setsockopt"))?;
            if wanted.defer_accept_secs > 0 {
                defer_accept(&socket, wanted.defer_accept_secs).map_err(at("setsockopt(TCP_DEFER_ACCEPT)"))?;
            }
            Bound::Tcp(address)
        }
        None => Bound::Unix(match (local.as_pathname(), local.as_abstract_namespace()) {
            (Some(path), _) => path.to_string_lossy().into(),
            (None, Some(name)) => format!("@{}", String::from_utf8_lossy(name)).into(),
            (None, None) => "".into(),
        }),
    };
    Ok(Listener { fd: socket.into(), bound })
}

/// The address of a unix socket. A leading `@` stands for the zero byte of an abstract name.
pub(crate) fn unix_address(path: &str) -> io::Result<SockAddr> {
    match path.strip_prefix('@') {
        Some(name) => SockAddr::unix(format!("\0{name}")),
        None => SockAddr::unix(path),
    }
}

fn defer_accept(socket: &impl std::os::fd::AsRawFd, secs: u32) -> io::Result<()> {
    let secs = secs as libc::c_int;
    // Safe because the option takes an int, which lives for the call.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const secs).cast(),
            std::mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
