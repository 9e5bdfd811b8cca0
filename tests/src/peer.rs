//! One end of a connection, read and written byte by byte.
//!
//! Always true: every read returns, with bytes, at the end of the stream, or at its deadline.
//! Not here: what the bytes mean (`message`, `notation`).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use crate::wait::{LIMIT, try_wait_for};

/// A connection.
#[derive(Debug)]
pub struct Peer {
    stream: Stream,
    received: Vec<u8>,
    taken: usize,
}

/// A message with its type byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type byte.
    pub tag: u8,
    /// The bytes after the length.
    pub body: Vec<u8>,
}

/// Why nothing can be read.
#[derive(Debug)]
pub enum Lost {
    /// The other side closed, in order or by a reset.
    Closed,
    /// The deadline has passed.
    Late,
    /// Something else.
    Failed(io::Error),
    /// The other side sent a length that no message can have.
    Length(i32),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "the connection was closed"),
            Self::Late => write!(f, "nothing came before the deadline"),
            Self::Failed(error) => write!(f, "reading failed: {error}"),
            Self::Length(length) => write!(f, "a message came with the length {length}"),
        }
    }
}

impl Peer {
    /// Connects over TCP.
    ///
    /// # Errors
    /// Those of `connect`.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        Self::accepted(TcpStream::connect_timeout(&address, LIMIT)?)
    }

    /// Connects over TCP from this address of the machine.
    ///
    /// # Errors
    /// Those of `connect`.
    pub fn tcp_from(source: Ipv4Addr, address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        socket.connect_timeout(&address.into(), LIMIT)?;
        Self::accepted(socket.into())
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// When there is none within the ordinary limit.
    pub fn accept(listener: &TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (stream, _) = try_wait_for(LIMIT, || listener.accept().ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "nobody connects"))?;
        Self::accepted(stream)
    }

    /// Takes over an accepted stream.
    ///
    /// # Errors
    /// Those of setting its options.
    pub fn accepted(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self::over(Stream::Tcp(stream)))
    }

    /// Connects to a unix socket.
    ///
    /// # Errors
    /// Those of `connect`.
    pub fn unix(path: &Path) -> io::Result<Self> {
        Ok(Self::over(Stream::Unix(UnixStream::connect(path)?)))
    }

    /// Connects to an abstract unix socket (the name without the leading `@` or NUL).
    ///
    /// # Errors
    /// Those of `connect`.
    pub fn abstract_unix(name: &str) -> io::Result<Self> {
        let address = UnixAddress::from_abstract_name(name)?;
        Ok(Self::over(Stream::Unix(UnixStream::connect_addr(&address)?)))
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// Those of the write, such as a peer that has closed.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When they cannot be sent.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("bytes can be sent");
    }

    /// Sends as many of these bytes as the other side takes until `end`. Returns how many.
    ///
    /// # Errors
    /// Those of the write, such as a peer that has closed.
    pub fn pour(&mut self, bytes: &[u8], end: Instant) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let count = match &mut self.stream {
                Stream::Tcp(stream) => stream.set_write_timeout(Some(left)).and_then(|()| stream.write(&bytes[sent..])),
                Stream::Unix(stream) => {
                    stream.set_write_timeout(Some(left)).and_then(|()| stream.write(&bytes[sent..]))
                }
            };
            match count {
                Ok(count) => sent += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => break,
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(sent)
    }

    /// Sends bytes, each in a separate write.
    ///
    /// # Errors
    /// Those of the write.
    pub fn send_slowly(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.iter().try_for_each(|byte| self.try_send(&[*byte]))
    }

    /// The next message.
    ///
    /// # Errors
    /// When none comes within the ordinary limit.
    pub fn frame(&mut self) -> Result<Frame, Lost> {
        self.frame_within(LIMIT)
    }

    /// The next message.
    ///
    /// # Errors
    /// When none comes within `limit`.
    pub fn frame_within(&mut self, limit: Duration) -> Result<Frame, Lost> {
        let end = Instant::now() + limit;
        let (tag, length) = self.header(end)?;
        let body = self.exactly(length, end)?;
        Ok(Frame { tag, body })
    }

    /// The type and the length of the next message (without the length itself); its body is read and dropped.
    ///
    /// # Errors
    /// When it is not complete within `limit`.
    pub fn skim(&mut self, limit: Duration) -> Result<(u8, usize), Lost> {
        let end = Instant::now() + limit;
        let (tag, length) = self.header(end)?;
        let mut left = length;
        while left > 0 {
            if self.taken == self.received.len() {
                self.fill(end)?;
            }
            let step = left.min(self.received.len() - self.taken);
            self.taken += step;
            left -= step;
        }
        Ok((tag, length))
    }

    /// A packet without a type: a length (of itself and the rest) and a body, as at the start of a connection.
    ///
    /// # Errors
    /// When none comes within the ordinary limit.
    pub fn packet(&mut self) -> Result<Vec<u8>, Lost> {
        let end = Instant::now() + LIMIT;
        let length = self.length(end)?;
        self.exactly(length, end)
    }

    /// Exactly so many bytes.
    ///
    /// # Errors
    /// When they do not come within the ordinary limit.
    pub fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Lost> {
        self.exactly(count, Instant::now() + LIMIT)
    }

    /// Waits until the other side closes; anything before that is an error.
    ///
    /// # Errors
    /// What arrived instead.
    pub fn closed_within(&mut self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        if self.taken < self.received.len() {
            return Err(format!("expected the end, got {:?}", self.text()));
        }
        match self.fill(end) {
            Ok(()) => Err(format!("expected the end, got {:?}", self.text())),
            Err(Lost::Closed) => Ok(()),
            Err(lost) => Err(format!("expected the end: {lost}")),
        }
    }

    /// Returns whether unread bytes have arrived.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        let Stream::Tcp(stream) = &self.stream else { return false };
        stream.set_nonblocking(true).expect("an option");
        let has_bytes = self.received.len() > self.taken || stream.peek(&mut [0]).is_ok_and(|count| count > 0);
        stream.set_nonblocking(false).expect("an option");
        has_bytes
    }

    /// Returns whether the other side closes within `limit`; all bytes before that are dropped.
    pub fn is_closed_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            self.taken = self.received.len();
            match self.fill(end) {
                Ok(()) => {}
                Err(Lost::Closed) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Closes with a reset, like a machine that does not know this connection any more.
    pub fn reset(self) {
        if let Stream::Tcp(stream) = &self.stream {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Shuts down the sending half.
    pub fn finish_sending(&mut self) {
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    fn over(stream: Stream) -> Self {
        Self { stream, received: Vec::new(), taken: 0 }
    }

    fn header(&mut self, end: Instant) -> Result<(u8, usize), Lost> {
        let tag = self.exactly(1, end)?[0];
        Ok((tag, self.length(end)?))
    }

    fn length(&mut self, end: Instant) -> Result<usize, Lost> {
        let bytes = self.exactly(4, end)?;
        let length = i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        usize::try_from(length).ok().and_then(|length| length.checked_sub(4)).ok_or(Lost::Length(length))
    }

    fn exactly(&mut self, count: usize, end: Instant) -> Result<Vec<u8>, Lost> {
        while self.received.len() - self.taken < count {
            self.fill(end)?;
        }
        let bytes = self.received[self.taken..self.taken + count].to_vec();
        self.taken += count;
        Ok(bytes)
    }

    fn fill(&mut self, end: Instant) -> Result<(), Lost> {
        self.received.drain(..self.taken);
        self.taken = 0;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Lost::Late);
        }
        let mut chunk = [0; 65536];
        let count = match &mut self.stream {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut chunk)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut chunk)),
        };
        match count {
            Ok(0) => Err(Lost::Closed),
            Ok(count) => {
                self.received.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Err(Lost::Late),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Err(Lost::Closed),
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(Lost::Failed(error)),
            },
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received[self.taken..]).into_owned()
    }
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}
