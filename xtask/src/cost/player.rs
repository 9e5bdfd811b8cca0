//! A client in lock-step: it sends, and waits for the answer before it sends again.
//!
//! Always true: it sends nothing before everything is idle, so the pooler never handles its message in one turn with
//! something else.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use ops::trial::{DATABASE, USER};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::quiet::wait_for_quiet;
use crate::playing::Exchange;

/// A client that is logged in.
pub(super) struct Player {
    stream: Stream,
    door: Door,
}

/// Where a client comes in, and how.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) port: u16,
    /// Parameters of its startup packet besides user and database.
    pub(super) startup: &'static [(String, String)],
    /// How it encrypts, if it does.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

enum Stream {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Player {
    /// Logs in.
    pub(super) fn come(door: Door) -> io::Result<Self> {
        let mut player = Self { stream: door.connect()?, door };
        player.greet()?;
        Ok(player)
    }

    /// Disconnects and logs in again.
    pub(super) fn log_in(&mut self) -> io::Result<()> {
        wait_for_quiet()?;
        self.stream.both().write_all(&message(b'X', b""))?;
        // Waits until the pooler has closed the connection, so that the next connection's turns have nothing left to do
        // for it.
        self.stream.socket().read_to_end(&mut Vec::new())?;
        wait_for_quiet()?;
        self.stream = self.door.connect()?;
        self.greet()
    }

    /// Sends, and reads up to `ReadyForQuery`. An error ends the run.
    pub(super) fn ask(&mut self, messages: &[u8]) -> io::Result<()> {
        self.exchange(messages, 1)?.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    /// Sends, whatever else happens.
    pub(super) fn send(&mut self, messages: &[u8]) -> io::Result<()> {
        self.stream.both().write_all(messages)
    }

    /// Whether an answer has begun to arrive.
    pub(super) fn has_answer(&self) -> io::Result<bool> {
        let socket = self.stream.socket();
        socket.set_nonblocking(true)?;
        let seen = socket.peek(&mut [0]);
        socket.set_nonblocking(false)?;
        match seen {
            Ok(bytes) => Ok(bytes > 0),
            Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(why) => Err(why),
        }
    }

    /// Reads up to `ReadyForQuery`. An error ends the run.
    pub(super) fn read_answer(&mut self) -> io::Result<()> {
        self.read_answers(1)?.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    fn read_answers(&mut self, mut answers: u32) -> io::Result<Option<String>> {
        let stream = self.stream.both();
        let mut error = None;
        while answers > 0 {
            let mut head = [0; 5];
            stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length.saturating_sub(4) as usize];
            stream.read_exact(&mut body)?;
            match head[0] {
                b'Z' => answers -= 1,
                b'E' if error.is_none() => error = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
                _ => {}
            }
        }
        Ok(error)
    }

    fn greet(&mut self) -> io::Result<()> {
        let settings = self.door.startup.iter().map(|(name, value)| format!("{name}\0{value}\0")).collect::<String>();
        let body = format!("user\0{USER}\0database\0{DATABASE}\0{settings}\0");
        let length = body.len() as u32 + 8;
        self.ask(&[&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), body.as_bytes()].concat())
    }
}

impl Exchange for Player {
    fn exchange(&mut self, messages: &[u8], answers: u32) -> io::Result<Option<String>> {
        wait_for_quiet()?;
        self.stream.both().write_all(messages)?;
        self.read_answers(answers)
    }
}

impl Stream {
    fn both(&mut self) -> &mut dyn ReadWrite {
        match self {
            Self::Plain(stream) => stream,
            Self::Secured(stream) => stream.as_mut(),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Secured(stream) => &stream.sock,
        }
    }
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

impl Door {
    fn connect(&self) -> io::Result<Stream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let Some(config) = &self.tls else { return Ok(Stream::Plain(stream)) };
        wait_for_quiet()?;
        // SSLRequest.
        stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47])?;
        stream.read_exact(&mut [0])?;
        let name = ServerName::try_from(HOST).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(Stream::Secured(Box::new(StreamOwned::new(session, stream))))
    }
}

/// A message with its type and length.
pub(super) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

const PATIENCE: Duration = Duration::from_secs(30);
/// The host that the pooler's certificate names.
const HOST: &str = "localhost";
