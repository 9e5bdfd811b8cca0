//! The sockets that newcomers knock at.
//!
//! Always true: a listener is made once and shared by all workers; what newcomers inherit (no delay, keepalive, buffers) is
//! set on it, so that accepting one costs no further call.
//! Not here: accepting.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};

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

    /// What another process has had becomes as it is wanted here. What cannot be changed on a socket that listens stays as that
    /// process had it: the settings in question. To be called when that process has let go: it listens at the same socket.
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
    /// Bytes that one send gives to a socket: not more than its buffer is wanted to hold. The kernel would take more, as one
    /// segment, and no other before the far side has confirmed that one, which may take it 40 ms (delayed acknowledgements).
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

/// Gives a socket that listens the settings of one that does not yet; those that cannot be taken back stay.
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
    // What is set once grows and shrinks by itself no more, so that nobody can set it to the system's own value.
    let are_buffers_set = (socket.send_buffer_size()?, socket.recv_buffer_size()?)
        != (fresh.send_buffer_size()?, fresh.recv_buffer_size()?);
    if are_buffers_set {
        staying.push("tcp_socket_buffer");
    }
    Ok(staying)
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

impl Wanted {
    fn backlog(&self) -> i32 {
        self.backlog.min(i32::MAX as u32) as i32
    }
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

/// A socket that a service manager has opened for us, by its number. To be called once for each, before this process has closed
/// any descriptor that was given to it.
///
/// # Errors
/// There is no such socket, or none that we could accept at: it is left as it is then. Says which step failed.
pub fn passed(number: i32, wanted: &Wanted) -> Result<Listener, ListenFault> {
    let at = |step| move |error| ListenFault { step, error };
    if number < 0 {
        return Err(ListenFault { step: "fcntl", error: rustix::io::Errno::BADF.into() });
    }
    // Safe because the descriptor is looked at for the length of some calls, which fail if there is none.
    let flags = look_at(unsafe { BorrowedFd::borrow_raw(number) })?;
    // Safe because it listens, and we have not opened any that does: it was opened for us by somebody who does not use it, and
    // nobody else here knows it.
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

/// Makes sure that connections can be accepted at a descriptor that nobody owns yet; its flags.
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

    /// They were made ours before anybody looked what they are, and closed with the complaint.
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

    /// Who was taken over kept the tuning of the process before, for as long as there are online restarts.
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
        // It is accepted though it has said nothing.
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
        // Nobody can take these back.
        let shared = Wanted { is_port_shared: true, ..wanted() };
        assert_eq!(listener.adopt(&shared).expect("adopted"), ["tcp_socket_buffer", "so_reuseport"]);
    }
}
