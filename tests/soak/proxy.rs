//! The fault proxy: connections pass through it and meet faults that are drawn from the seed.
//!
//! Always true: one thread carries all connections of a proxy and blocks in one place; after `heal` it is transparent, also for
//! connections that met a fault before.
//! Not here: what a fault is (`faults`), one direction (`lane`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::Random;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;
use tests::message::CANCEL_CODE;

use super::faults::{Climate, Fault, Opening, Plan};
use super::lane::{Lane, Step};

/// A running proxy.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Faults that connections have met so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) links: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) reset: AtomicU64,
    pub(crate) half_closed: AtomicU64,
    pub(crate) slowed: AtomicU64,
    pub(crate) cancels: AtomicU64,
}

/// A connection that is open now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    /// The remote port of the connection that the proxy accepted.
    pub(crate) near: u16,
    /// The local port of the connection from the proxy to its target.
    pub(crate) far: u16,
    pub(crate) since: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    is_fair: AtomicBool,
    is_over: AtomicBool,
    counts: Counts,
    passages: Mutex<Vec<Passage>>,
}

impl Proxy {
    /// Listens on a free port and passes everything on to `target`.
    pub(crate) fn start(target: SocketAddr, climate: Climate, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let carrier = Carrier { listener, target, climate, random: Random::new(seed), shared: shared.clone() };
        let thread = std::thread::Builder::new().name(format!("proxy to {target}")).spawn(move || carrier.run())?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// The connections that are open now.
    pub(crate) fn passages(&self) -> Vec<Passage> {
        self.shared.passages().clone()
    }

    /// Injects no more faults.
    pub(crate) fn heal(&self) {
        self.shared.is_fair.store(true, Ordering::Relaxed);
    }

    /// Ends all connections and stops listening.
    pub(crate) fn close(&self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn passages(&self) -> MutexGuard<'_, Vec<Passage>> {
        self.passages.lock().expect("nobody panics while he holds the passages")
    }
}

/// What the thread of a proxy owns.
struct Carrier {
    listener: TcpListener,
    target: SocketAddr,
    climate: Climate,
    random: Random,
    shared: Arc<Shared>,
}

/// Two sockets and the bytes on their way between them.
struct Link {
    near: TcpStream,
    far: TcpStream,
    up: Lane,
    down: Lane,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Too few bytes have arrived to tell; nothing passes.
    Unknown,
    Talk,
    Cancel,
}

impl Carrier {
    fn run(mut self) {
        let mut links: Vec<Link> = Vec::new();
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let Some(ready) = wait(&self.listener, &links) else { continue };
            if self.shared.is_fair.load(Ordering::Relaxed) {
                links.iter_mut().for_each(|link| [&mut link.up, &mut link.down].into_iter().for_each(Lane::heal));
            }
            let now = Instant::now();
            for at in (0..links.len()).rev() {
                if !self.carry(&mut links[at], ready[at], now) {
                    links.swap_remove(at);
                    self.shared.passages().swap_remove(at);
                }
            }
            while let Ok((near, _)) = self.listener.accept() {
                if let Some((link, passage)) = self.open(near) {
                    self.shared.passages().push(passage);
                    links.push(link);
                }
            }
        }
    }

    /// Accepts a connection.
    fn open(&mut self, near: TcpStream) -> Option<(Link, Passage)> {
        let counts = &self.shared.counts;
        counts.links.fetch_add(1, Ordering::Relaxed);
        let plan = match self.shared.is_fair.load(Ordering::Relaxed) {
            true => Plan::default(),
            false => Plan::draw(&mut self.random, self.climate),
        };
        if plan.opening == Opening::Refused {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            reset(&near);
            return None;
        }
        let far = TcpStream::connect_timeout(&self.target, Duration::from_secs(5)).ok()?;
        for socket in [&near, &far] {
            socket.set_nonblocking(true).ok()?;
            socket.set_nodelay(true).ok()?;
        }
        let begin = plan.opening.begin(Instant::now());
        let (up, down) = (Lane::new(plan.up, begin), Lane::new(plan.down, begin));
        let passage =
            Passage { near: near.peer_addr().ok()?.port(), far: far.local_addr().ok()?.port(), since: Instant::now() };
        Some((Link { near, far, up, down, kind: Kind::Unknown }, passage))
    }

    /// Moves bytes. Returns whether the link goes on.
    fn carry(&mut self, link: &mut Link, ready: Ready, now: Instant) -> bool {
        let mut steps = [Step::Fine; 4];
        if ready.near && link.up.has_room() {
            steps[0] = link.up.take(&link.near);
        }
        if ready.far && link.down.has_room() {
            steps[1] = link.down.take(&link.far);
        }
        if link.kind == Kind::Unknown && !self.recognize(link, now) {
            return false;
        }
        if link.kind != Kind::Unknown {
            steps[2] = link.up.give(&link.far, now, &mut self.random);
        }
        steps[3] = link.down.give(&link.near, now, &mut self.random);
        for step in steps {
            match step {
                Step::Fine => {}
                Step::Broken => return false,
                Step::Met(fault) => {
                    self.count(fault);
                    match fault {
                        Fault::Close => return false,
                        Fault::Reset => {
                            reset(&link.near);
                            reset(&link.far);
                            return false;
                        }
                        _ => {}
                    }
                }
            }
        }
        !(link.up.is_over() && link.down.is_over())
    }

    /// Looks whether the connection carries a cancel request, for which other faults are drawn. Returns whether the link
    /// goes on.
    fn recognize(&mut self, link: &mut Link, now: Instant) -> bool {
        let opening = link.up.opening();
        if opening.len() < 8 {
            if link.up.has_source_ended() {
                link.kind = Kind::Talk;
            }
            return true;
        }
        link.kind = match opening[4..8] == CANCEL_CODE.to_be_bytes() {
            true => Kind::Cancel,
            false => Kind::Talk,
        };
        if link.kind == Kind::Talk || self.shared.is_fair.load(Ordering::Relaxed) {
            return true;
        }
        self.shared.counts.cancels.fetch_add(1, Ordering::Relaxed);
        let plan = Plan::of_a_cancel(&mut self.random);
        link.up.replan(plan.up, plan.opening.begin(now));
        link.down.replan(plan.down, now);
        plan.opening != Opening::Refused
    }

    fn count(&self, fault: Fault) {
        let counts = &self.shared.counts;
        let count = match fault {
            Fault::Close => &counts.closed,
            Fault::Reset => &counts.reset,
            Fault::HalfClose => &counts.half_closed,
            Fault::Stall(_) | Fault::Trickle => &counts.slowed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Opening {
    fn begin(&self, now: Instant) -> Instant {
        match self {
            Self::Slow(time) => now + *time,
            Self::Plain | Self::Refused => now,
        }
    }
}

/// Which sides of a link are ready to be read or written.
#[derive(Clone, Copy, Default)]
struct Ready {
    near: bool,
    far: bool,
}

/// The only place that blocks: waits until a socket is ready or a pause ends.
fn wait(listener: &TcpListener, links: &[Link]) -> Option<Vec<Ready>> {
    let now = Instant::now();
    let moments = links.iter().flat_map(|link| [link.up.next_moment(), link.down.next_moment()]).flatten();
    let rest = moments.min().map_or(IDLE, |moment| moment.saturating_duration_since(now).min(IDLE));
    let mut files = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let mut owners = Vec::new();
    for (at, link) in links.iter().enumerate() {
        let near = (&link.near, interest(&link.up, &link.down), Side::Near);
        let far = (&link.far, interest(&link.down, &link.up), Side::Far);
        // A socket without interest is left out, because the kernel would report its errors again and again.
        for (socket, flags, side) in [near, far].into_iter().filter(|(_, flags, _)| !flags.is_empty()) {
            files.push(PollFd::new(socket.as_fd(), flags));
            owners.push((at, side));
        }
    }
    // Rounded up, so that the thread does not spin when a pause is nearly over.
    let millis = u16::try_from(rest.as_micros().div_ceil(1_000)).unwrap_or(u16::MAX);
    poll(&mut files, PollTimeout::from(millis)).ok()?;
    let mut ready = vec![Ready::default(); links.len()];
    for (file, (at, side)) in files[1..].iter().zip(owners) {
        let is_ready = file.revents().is_none_or(|events| !events.is_empty());
        match side {
            Side::Near => ready[at].near = is_ready,
            Side::Far => ready[at].far = is_ready,
        }
    }
    Some(ready)
}

enum Side {
    Near,
    Far,
}

/// A socket is polled for reading while its lane has room, and for writing while the other lane is blocked.
fn interest(source_of: &Lane, sink_of: &Lane) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::POLLIN, source_of.has_room());
    flags.set(PollFlags::POLLOUT, sink_of.is_blocked);
    flags
}

fn reset(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// How late the thread may notice that it is closed or healed.
const IDLE: Duration = Duration::from_millis(20);
