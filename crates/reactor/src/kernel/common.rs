//! What both kernel interfaces share: clocks, randomness, sockets to be connected, the log.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use base::{Time, Wall};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, SockAddr, SockRef, Type};

use crate::listen::unix_address;
use crate::{Address, Bound, Listener, LogTarget, Peer, Socket, TcpTuning};

/// The clock of a turn, read once for everybody.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// The time of day of `now`, once somebody has asked for it: few turns tell or keep it.
    wall: Cell<Option<Wall>>,
}

impl Clock {
    pub(crate) fn read() -> Self {
        Self { now: Self::read_now(), wall: Cell::new(None) }
    }

    /// The time of day of this turn.
    pub(crate) fn wall(&self) -> Wall {
        if let Some(wall) = self.wall.get() {
            return wall;
        }
        let real = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let since = Self::read_now().since(self.now).as_micros() as i64;
        let wall = Wall(real.tv_sec * 1_000_000 + real.tv_nsec / 1000 - since);
        self.wall.set(Some(wall));
        wall
    }

    /// How long there is to wait at the end of the turn.
    pub(crate) fn left(&self, until: Time) -> Duration {
        let left = until.since(self.now);
        // The turn may have taken some time, which matters little to a wait that is long.
        if left >= LONG { left } else { until.since(Self::read_now()) }
    }

    fn read_now() -> Time {
        let mono = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Time(mono.tv_sec as u64 * 1_000_000 + mono.tv_nsec as u64 / 1000)
    }
}

/// A turn takes a few milliseconds at the longest, and one that takes more is told.
const LONG: Duration = Duration::from_millis(100);

/// For how long the calling thread has run or waited for a processor since it was started. Where `/proc` does not tell
/// (a kernel without `CONFIG_SCHED_INFO`, or no `/proc`), only the time for which it has run.
pub(crate) fn awake() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat");
    told.ok().and_then(|told| read_schedstat(&told)).unwrap_or_else(|| {
        let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(ran.tv_sec as u64, ran.tv_nsec as u32)
    })
}

/// The sum of the first two fields, which are nanoseconds: on a processor, and waiting for one (`Documentation/scheduler/sched-stats.rst`).
fn read_schedstat(text: &str) -> Option<Duration> {
    let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(Duration::from_nanos(ran.saturating_add(waited)))
}

/// Cryptographically secure random bytes, drawn from the system in advance so that a login costs no system call for
/// them. Bytes that were handed out are wiped.
#[derive(Debug)]
pub(crate) struct RandomBytes {
    drawn: [u8; DRAWN_BYTES],
    left: usize,
}

impl RandomBytes {
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(DRAWN_BYTES) {
            if self.left < part.len() {
                draw(&mut self.drawn);
                self.left = DRAWN_BYTES;
            }
            let taken = &mut self.drawn[self.left - part.len()..self.left];
            part.copy_from_slice(taken);
            taken.fill(0);
            self.left -= part.len();
        }
    }
}

fn draw(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system gives no randomness, without which no login is safe: {error}"),
        }
    }
}

/// Opens a socket of the right kind, not connected yet, and returns it with the address to connect it to.
pub(crate) fn dialing_socket(to: &Address, tuning: &TcpTuning) -> io::Result<(OwnedFd, SockAddr)> {
    let (domain, protocol, address) = match to {
        Address::Tcp(address) => (Domain::for_address(*address), Some(Protocol::TCP), SockAddr::from(*address)),
        Address::Unix(path) => (Domain::UNIX, None, SockAddr::unix(&**path)?),
        Address::Abstract(name) => (Domain::UNIX, None, unix_address(&format!("@{name}"))?),
    };
    let socket = socket2::Socket::new(domain, Type::STREAM, protocol)?;
    if matches!(to, Address::Tcp(_)) {
        tuning.apply(&socket)?;
    }
    Ok((socket.into(), address))
}

/// The address or the credentials of the other end.
pub(crate) fn peer(socket: &Socket) -> Peer {
    if socket.is_unix {
        return match rustix::net::sockopt::socket_peercred(&socket.fd) {
            Ok(cred) => Peer::Unix { pid: cred.pid.as_raw_nonzero().get() as u32, uid: Some(cred.uid.as_raw()) },
            Err(_) => Peer::Unix { pid: 0, uid: None },
        };
    }
    if let Some(from) = socket.from {
        return from.into();
    }
    let address = SockRef::from(&socket.fd).peer_addr().ok().and_then(|address| address.as_socket());
    address.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0))).into()
}

/// The local address of a TCP connection.
pub(crate) fn near_end(fd: impl AsFd) -> Option<SocketAddr> {
    SockRef::from(&fd.as_fd()).local_addr().ok()?.as_socket()
}

/// The remote address of a TCP connection.
pub(crate) fn far_end(fd: impl AsFd) -> Option<SocketAddr> {
    SockRef::from(&fd.as_fd()).peer_addr().ok()?.as_socket()
}

/// Accepts all connections that wait at a listener that is about to be closed. Without this the kernel would reset
/// them, though other processes may listen on the same port (`so_reuseport`).
pub(crate) fn accept_waiting(listener: &Listener, flags: SocketFlags) -> Vec<Socket> {
    let is_unix = matches!(listener.bound, Bound::Unix(_));
    if !is_unix {
        // A connection that `tcp_defer_accept` holds back because it has sent nothing appears with its next packet.
        let _ = listener.stop_deferring();
    }
    let mut accepted = Vec::new();
    if rustix::io::ioctl_fionbio(listener, true).is_err() {
        return accepted;
    }
    while accepted.len() < ACCEPT_WAITING_MAX {
        match rustix::net::acceptfrom_with(listener, flags | SocketFlags::CLOEXEC) {
            Ok((fd, from)) => {
                let from = from.and_then(|from| from.try_into().ok()).filter(|_| !is_unix);
                accepted.push(Socket { fd, is_unix, from, tls: None, is_inherited: false });
            }
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            Err(_) => break,
        }
    }
    accepted
}

/// A descriptor kept in reserve, so that a client can still be told that descriptors have run out.
pub(crate) fn spare() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// Whether an error says that descriptors have run out.
pub(crate) fn is_scarce(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// What both kernel interfaces hold beside their own state.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) clock: Clock,
    pub(crate) tuning: TcpTuning,
    pub(crate) log: Arc<LogTarget>,
    pub(crate) random: RandomBytes,
    /// A client whose descriptor has this number or a higher one is refused: the remaining descriptors are for servers.
    descriptors_for_clients: i32,
}

impl Common {
    pub(crate) fn new(tuning: TcpTuning, log: Arc<LogTarget>) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept = (limit / 8).clamp(DESCRIPTORS_KEPT.0, DESCRIPTORS_KEPT.1);
        let descriptors_for_clients = i32::try_from(limit.saturating_sub(kept)).unwrap_or(i32::MAX);
        let random = RandomBytes { drawn: [0; DRAWN_BYTES], left: 0 };
        Self { clock: Clock::read(), tuning, log, random, descriptors_for_clients }
    }

    /// Whether a client with this descriptor takes one of those kept for servers. The kernel gives out the lowest free
    /// descriptor, so the number tells how many are in use.
    pub(crate) fn is_too_many(&self, fd: &OwnedFd) -> bool {
        fd.as_raw_fd() >= self.descriptors_for_clients
    }
}

/// How long accepting pauses after it has failed.
pub(crate) const ACCEPT_REST: std::time::Duration = std::time::Duration::from_secs(5);

/// More connections than wait to be accepted on any machine that is not being flooded.
const ACCEPT_WAITING_MAX: usize = 4096;
/// Bounds of the number of descriptors kept for servers, files and name lookups; in between it is an eighth of the
/// limit.
const DESCRIPTORS_KEPT: (u64, u64) = (8, 512);
/// Bytes of randomness drawn at once: enough for a few dozen logins.
const DRAWN_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_awake_while_it_runs_and_while_it_waits_for_a_processor() {
        assert_eq!(read_schedstat("1000 23 4\n"), Some(Duration::from_nanos(1023)));
        assert_eq!(read_schedstat("1000"), None);
        assert_eq!(read_schedstat("a b c"), None);
        let (begun, before) = (std::time::Instant::now(), awake());
        while begun.elapsed() < Duration::from_millis(30) {}
        assert!(awake() - before >= Duration::from_millis(20), "{:?} in {:?}", awake() - before, begun.elapsed());
    }

    #[test]
    fn what_was_handed_out_is_not_kept_and_never_handed_out_again() {
        let mut random = RandomBytes { drawn: [0; DRAWN_BYTES], left: 0 };
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut bytes = [0; 16];
            random.fill(&mut bytes);
            assert!(!random.drawn.windows(16).any(|window| window == bytes));
            assert!(seen.insert(bytes));
        }
        let mut long = [0; 2000];
        random.fill(&mut long);
        assert!(long.iter().filter(|&&byte| byte == 0).count() < 100);
    }
}
