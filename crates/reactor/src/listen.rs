//! The listening sockets.
//!
//! Always true: a listener is made once and shared by all workers; the options that accepted connections inherit (no
//! delay, keepalive, buffers) are set on the listener, so that accepting a connection needs no further call.
//! Not here: accepting.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Its address.
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
    /// Turns `tcp_defer_accept` off: connections appear as soon as they are established.
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
    /// A listener that another process had.
    #[must_use]
    pub fn inherited(fd: OwnedFd, bound: Bound) -> Self {
        Self { fd, bound }
    }

    /// Applies our settings to a listener that another process had. Returns the names of those settings that cannot be
    /// changed on a listening socket and stay as that process had them. To be called when that process has let go,
    /// because it listens at the same socket.
    ///
    /// # Errors
    /// Says which step failed.
    pub fn adopt(&self, wanted: &Wanted) -> Result<Vec<&'static str>, ListenFault> {
        let at = |step| move |error| ListenFault { step, error };
        let socket = SockRef::from(&self.fd);
        let mut staying = Vec::new();
        if let Bound::Tcp(address) = self.bound {
            let fresh = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP));
            let fresh = fresh.map_err(at("socket"))?;
            wanted.tuning.apply(&fresh).map_err(at("setsockopt"))?;
            staying = become_like(&socket, &fresh, &wanted.tuning).map_err(at("setsockopt"))?;
            defer_accept(&self.fd, wanted.defer_accept_secs).map_err(at("setsockopt(TCP_DEFER_ACCEPT)"))?;
            if socket.reuse_port().map_err(at("getsockopt(SO_REUSEPORT)"))? != wanted.is_port_shared {
                staying.push("so_reuseport");
            }
        }
        socket.listen(wanted.backlog()).map_err(at("listen"))?;
        Ok(staying)
    }

    /// Duplicates the listener.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, bound: self.bound.clone() })
    }
}

/// Settings of TCP sockets (`tcp_*`); 0 leaves the system's default.
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
    /// Most bytes of one send: not more than the socket buffer is configured to hold. The kernel would take more, as
    /// one segment, and would then send nothing until the other side has acknowledged that segment, which may take 40
    /// ms (delayed acknowledgements).
    pub(crate) fn sent_at_once(&self) -> usize {
        if self.socket_buffer > 0 { self.socket_buffer as usize } else { usize::MAX }
    }

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

/// Gives a listening socket the settings of a fresh one, and returns the names of those that cannot be reset.
fn become_like(socket: &Socket, fresh: &Socket, tuning: &TcpTuning) -> io::Result<Vec<&'static str>> {
    let mut staying = Vec::new();
    tuning.apply(socket)?;
    socket.set_keepalive(fresh.keepalive()?)?;
    let keepalive = TcpKeepalive::new().with_time(fresh.tcp_keepalive_time()?);
    let keepalive = keepalive.with_interval(fresh.tcp_keepalive_interval()?);
    let keepalive = keepalive.with_retries(fresh.tcp_keepalive_retries()?);
    if fresh.keepalive()? {
        socket.set_tcp_keepalive(&keepalive)?;
    }
    socket.set_tcp_user_timeout(fresh.tcp_user_timeout()?)?;
    // A buffer size that was set once is no longer tuned by the kernel, and setting the default size does not bring
    // that back.
    let are_buffers_set = (socket.send_buffer_size()?, socket.recv_buffer_size()?)
        != (fresh.send_buffer_size()?, fresh.recv_buffer_size()?);
    if are_buffers_set {
        staying.push("tcp_socket_buffer");
    }
    Ok(staying)
}

/// The settings of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// `listen_backlog`.
    pub backlog: u32,
    /// `so_reuseport`.
    pub is_port_shared: bool,
    /// `tcp_defer_accept`: a connection appears only when its first bytes have arrived, or after this many seconds; 0
    /// is off.
    pub defer_accept_secs: u32,
    /// What accepted connections inherit.
    pub tuning: TcpTuning,
}

impl Wanted {
    fn backlog(&self) -> i32 {
        self.backlog.min(i32::MAX as u32) as i32
    }
}

/// A failed step of listening.
#[derive(Debug)]
pub struct ListenFault {
    /// The system call.
    pub step: &'static str,
    /// Its error.
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
    socket.listen(wanted.backlog()).map_err(at("listen"))?;
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
    socket.listen(wanted.backlog()).map_err(at("listen"))?;
    Ok(Listener { fd: socket.into(), bound: Bound::Unix(path.into()) })
}

/// Takes over a socket that a service manager opened for us, by its descriptor number. To be called once for each
/// number, before this process closes any descriptor that was passed to it.
///
/// # Errors
/// There is no such socket, or it cannot accept connections, in which case it is left as it is. Says which step failed.
pub fn passed(number: i32, wanted: &Wanted) -> Result<Listener, ListenFault> {
    let at = |step| move |error| ListenFault { step, error };
    if number < 0 {
        return Err(ListenFault { step: "fcntl", error: rustix::io::Errno::BADF.into() });
    }
    // Safe because the descriptor is borrowed for a few calls only, which fail if there is none.
    let flags = look_at(unsafe { BorrowedFd::borrow_raw(number) })?;
    // Safe because the socket listens, and this process has not opened a listening socket yet: the service manager
    // opened it for us and does not use it, and nothing else in this process knows its number.
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

/// Checks that a descriptor without an owner accepts connections, and returns its flags.
fn look_at(fd: BorrowedFd<'_>) -> Result<rustix::io::FdFlags, ListenFault> {
    let at = |step| move |error: rustix::io::Errno| ListenFault { step, error: error.into() };
    let flags = rustix::io::fcntl_getfd(fd).map_err(at("fcntl"))?;
    let kind = sockopt::socket_type(fd).map_err(at("getsockopt(SO_TYPE)"))?;
    let family = sockopt::socket_domain(fd).map_err(at("getsockopt(SO_DOMAIN)"))?;
    let listens = sockopt::socket_acceptconn(fd).map_err(at("getsockopt(SO_ACCEPTCONN)"))?;
    let unfit = |step, why| Err(ListenFault { step, error: io::Error::other(why) });
    if kind != SocketType::STREAM {
        return unfit("getsockopt(SO_TYPE)", "not a stream socket");
    }
    if ![AddressFamily::INET, AddressFamily::INET6, AddressFamily::UNIX].contains(&family) {
        return unfit("getsockopt(SO_DOMAIN)", "neither TCP nor a unix socket");
    }
    if !listens {
        return unfit("getsockopt(SO_ACCEPTCONN)", "it does not listen");
    }
    Ok(flags)
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn wanted() -> Wanted {
        Wanted { backlog: 7, is_port_shared: false, defer_accept_secs: 0, tuning: TcpTuning::default() }
    }

    /// Such descriptors were once owned before they were examined, and closed together with the error.
    #[test]
    fn what_does_not_listen_is_left_alone() {
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (stream, _other) = UnixStream::pair().expect("a pair");
        let file = std::fs::File::open("/dev/null").expect("a file");
        for (fd, step) in [
            (datagrams.as_fd(), "getsockopt(SO_TYPE)"),
            (stream.as_fd(), "getsockopt(SO_ACCEPTCONN)"),
            (file.as_fd(), "getsockopt(SO_TYPE)"),
        ] {
            assert_eq!(passed(fd.as_raw_fd(), &wanted()).expect_err("no listener").step, step);
            rustix::io::fcntl_getfd(fd).expect("it is still open");
        }
        assert_eq!(passed(-1, &wanted()).expect_err("nothing").step, "fcntl");
        assert_eq!(passed(1 << 30, &wanted()).expect_err("nothing").step, "fcntl");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let bound = Bound::Tcp(listener.local_addr().expect("an address"));
        let number = std::os::fd::IntoRawFd::into_raw_fd(listener);
        assert_eq!(passed(number, &wanted()).expect("a listener").bound, bound);
    }

    /// A process that took over a listener once kept the socket options of its predecessor through all online restarts.
    #[test]
    fn an_inherited_listener_becomes_as_it_is_wanted() {
        let tuning = TcpTuning {
            keepalive: true,
            keepidle_secs: 70,
            keepintvl_secs: 7,
            keepcnt: 3,
            user_timeout_ms: 5000,
            socket_buffer: 0,
        };
        let before = Wanted { tuning, defer_accept_secs: 60, ..wanted() };
        let listener = bind_tcp("127.0.0.1:0".parse().expect("an address"), &before).expect("it listens");
        let Bound::Tcp(address) = listener.bound else { panic!("{listener:?}") };
        let newcomer = || {
            let _knocks = TcpStream::connect(address).expect("it listens");
            SockRef::from(&listener).accept().expect("somebody knocks").0
        };
        assert_eq!(listener.adopt(&wanted()).expect("adopted"), [""; 0]);
        // `accept` returns the connection though it has sent nothing.
        let plain = newcomer();
        let fresh = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        assert!(!plain.keepalive().expect("told"));
        assert_eq!(plain.tcp_user_timeout().expect("told"), fresh.tcp_user_timeout().expect("told"));
        let other = TcpTuning { keepidle_secs: 0, keepcnt: 4, socket_buffer: 65_536, ..tuning };
        assert_eq!(listener.adopt(&Wanted { tuning: other, ..wanted() }).expect("adopted"), [""; 0]);
        let tuned = newcomer();
        assert!(tuned.keepalive().expect("told"));
        assert_eq!(tuned.tcp_keepalive_time().expect("told"), fresh.tcp_keepalive_time().expect("told"));
        assert_eq!(tuned.tcp_keepalive_retries().expect("told"), 4);
        assert_eq!(tuned.tcp_user_timeout().expect("told"), Some(Duration::from_secs(5)));
        // Nobody can reset these.
        let shared = Wanted { is_port_shared: true, ..wanted() };
        assert_eq!(listener.adopt(&shared).expect("adopted"), ["tcp_socket_buffer", "so_reuseport"]);
    }
}
