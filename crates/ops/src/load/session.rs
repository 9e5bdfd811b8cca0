//! A client connection of the load generator: logs in, asks one thing at a time, and never blocks.
//!
//! Always true: logging in is done by the machine by which the pooler logs in to servers (`protocol::server`); an answer is
//! read to its end, in constant memory however long it is.
//! Not here: TLS (`channel`), and the extended protocol; when something is asked (`driver`).

use std::fmt;
use std::io::{self, ErrorKind, Read as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use auth::scram::NONCE_BYTES;
use auth::{SaltedPassword, Secret};
use protocol::server::login::{Identity, LOGIN_MESSAGE_BYTES_MAX, LoginFault, ServerLogin, Step};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use wire::backend::{self, TxStatus};
use wire::frame::{self, Scanner};
use wire::notice::Notice;
use wire::{frontend, write};

use super::channel::Channel;
use crate::connection::Tls;

/// Where a server or a pooler listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

/// Where, and as whom.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) place: Place,
    pub(crate) user: Arc<str>,
    pub(crate) database: Arc<str>,
    pub(crate) secret: Arc<Secret>,
    /// The `application_name`.
    pub(crate) name: Arc<str>,
    /// Whether, and how, connections are encrypted.
    pub(crate) tls: Option<Tls>,
}

/// The parts of a login, in microseconds of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LoginTimes {
    pub(crate) began: u64,
    pub(crate) connected: u64,
    pub(crate) authenticated: u64,
    pub(crate) ready: u64,
}

/// What came.
#[derive(Debug)]
pub(super) enum Heard {
    /// The login is complete. The salted password saves the next login its hashing.
    LoggedIn(LoginTimes, Option<Arc<SaltedPassword>>),
    /// An answer is complete, with the first error in it.
    Answered { status: TxStatus, error: Option<Refused> },
}

/// An error of the server or the pooler, or a connection that broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    /// Empty for a connection that broke.
    pub(crate) sqlstate: String,
    pub(crate) text: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sqlstate.as_str() {
            "" => f.write_str(&self.text),
            code => write!(f, "{code} {}", self.text),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    channel: Channel,
    stage: Stage,
    scanner: Scanner,
    /// The body of a message that matters, as far as it has come.
    body: Vec<u8>,
    error: Option<Refused>,
    times: LoginTimes,
}

#[derive(Debug)]
enum Stage {
    Connecting(Box<ServerLogin>),
    LoggingIn(Box<ServerLogin>),
    Open,
}

impl Session {
    /// Begins to connect.
    pub(super) fn open(login: &Login, salted: Option<Arc<SaltedPassword>>, now: u64) -> io::Result<Self> {
        let (socket, address) = match &login.place {
            Place::Tcp(address) => {
                let socket =
                    Socket::new(Domain::for_address(*address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
                socket.set_tcp_nodelay(true)?;
                (socket, SockAddr::from(*address))
            }
            Place::Unix(path) => (Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?, SockAddr::unix(path)?),
        };
        match socket.connect(&address) {
            Ok(()) => {}
            Err(why) if why.raw_os_error() == Some(nix::errno::Errno::EINPROGRESS as i32) => {}
            Err(why) => return Err(why),
        }
        let identity = Identity {
            user: login.user.clone(),
            database: login.database.clone(),
            secret: login.secret.clone(),
            keys: None,
            salted,
            iterations_max: ITERATIONS_MAX,
            channel: None,
            parameters: vec![("application_name".into(), (*login.name).into())],
        };
        let mut channel = Channel::new(socket, login.tls.clone());
        let login = ServerLogin::begin(identity, nonce()?, &mut channel.unsent);
        Ok(Self {
            channel,
            stage: Stage::Connecting(Box::new(login)),
            scanner: Scanner::default(),
            body: Vec::new(),
            error: None,
            times: LoginTimes { began: now, ..LoginTimes::default() },
        })
    }

    /// Whether it waits for its socket to take something.
    pub(super) fn wants_write(&self) -> bool {
        self.channel.wants_write()
    }

    /// Its socket takes something.
    pub(super) fn flush(&mut self, now: u64) -> Result<(), Refused> {
        if matches!(self.stage, Stage::Connecting(_)) {
            self.channel.connected().map_err(broken)?;
            self.times.connected = now;
            self.stage = match std::mem::replace(&mut self.stage, Stage::Open) {
                Stage::Connecting(login) => Stage::LoggingIn(login),
                other => other,
            };
        }
        self.channel.flush();
        Ok(())
    }

    /// Asks something by the simple protocol. Nothing else may be under way.
    pub(super) fn ask(&mut self, sql: &str, now: u64) -> Result<(), Refused> {
        write::query(&mut self.channel.unsent, sql);
        self.flush(now)
    }

    /// Reads what has come, by way of this buffer, until something is complete or nothing more has come.
    pub(super) fn hear(&mut self, buffer: &mut [u8], now: u64) -> Result<Option<Heard>, Refused> {
        loop {
            let count = match self.channel.read(buffer) {
                Ok(0) => return Err(self.error.take().unwrap_or_else(closed)),
                Ok(count) => count,
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(why) => return Err(self.error.take().unwrap_or_else(|| broken(why))),
            };
            let heard = self.take(&buffer[..count], now)?;
            // A short read has emptied the socket, and what comes later makes it ready again.
            if heard.is_some() || count < buffer.len() && !self.channel.may_have_more() {
                return Ok(heard);
            }
        }
    }

    fn take(&mut self, bytes: &[u8], now: u64) -> Result<Option<Heard>, Refused> {
        let (mut at, mut heard) = (0, None);
        while at < bytes.len() {
            match self.scanner.next(bytes, at, u32::MAX) {
                frame::Step::Piece(piece) => {
                    at = piece.range.end;
                    if KINDS_READ.contains(&piece.kind) {
                        if self.body.len() + piece.body.len() > LOGIN_MESSAGE_BYTES_MAX as usize {
                            return Err(nonsense(piece.kind));
                        }
                        self.body.extend_from_slice(&bytes[piece.body.clone()]);
                    }
                    if piece.left == 0 {
                        let body = std::mem::take(&mut self.body);
                        heard = self.message(piece.kind, &body, now)?.or(heard);
                        self.body = body;
                        self.body.clear();
                    }
                }
                frame::Step::More => break,
                frame::Step::Bad { kind, .. } => return Err(nonsense(kind)),
            }
        }
        Ok(heard)
    }

    fn message(&mut self, kind: u8, body: &[u8], now: u64) -> Result<Option<Heard>, Refused> {
        match &mut self.stage {
            Stage::Connecting(login) | Stage::LoggingIn(login) => {
                if kind == backend::AUTHENTICATION && body == [0; 4] {
                    self.times.authenticated = now;
                }
                match login.hear(kind, body).map_err(refused)? {
                    Step::Wait => {}
                    Step::Send(bytes) => self.channel.unsent.extend(bytes),
                    Step::Derive(derivation) => {
                        self.channel.unsent.extend(login.salted(Arc::new(derivation.run())).unwrap_or_default());
                    }
                    Step::Ready(arrival) => {
                        self.times.ready = now;
                        self.stage = Stage::Open;
                        return Ok(Some(Heard::LoggedIn(self.times, arrival.salted)));
                    }
                }
                self.flush(now)?;
                Ok(None)
            }
            Stage::Open => match kind {
                backend::ERROR_RESPONSE => {
                    let notice = Notice::parse(body);
                    self.error.get_or_insert(Refused { sqlstate: notice.sqlstate, text: notice.message });
                    Ok(None)
                }
                backend::READY_FOR_QUERY => {
                    let status = TxStatus::parse(body).ok_or_else(|| nonsense(kind))?;
                    Ok(Some(Heard::Answered { status, error: self.error.take() }))
                }
                backend::COPY_IN_RESPONSE | backend::COPY_BOTH_RESPONSE => Err(nonsense(kind)),
                _ => Ok(None),
            },
        }
    }

    /// Says goodbye, if the socket takes it.
    pub(super) fn terminate(mut self) {
        if self.channel.unsent.is_empty() {
            write::bare(&mut self.channel.unsent, frontend::TERMINATE);
            self.channel.flush();
        }
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

fn broken(why: io::Error) -> Refused {
    Refused { sqlstate: String::new(), text: why.to_string() }
}

fn closed() -> Refused {
    Refused { sqlstate: String::new(), text: "the connection was closed".to_owned() }
}

fn nonsense(kind: u8) -> Refused {
    Refused { sqlstate: String::new(), text: format!("a message '{}' was not expected", kind.escape_ascii()) }
}

fn refused(fault: LoginFault) -> Refused {
    match fault {
        LoginFault::Refused(notice) => Refused { sqlstate: notice.sqlstate, text: notice.message },
        LoginFault::WrongSecret(why) | LoginFault::Unproved(why) => {
            Refused { sqlstate: String::new(), text: why.to_owned() }
        }
        LoginFault::UnknownMethod(code) => Refused {
            sqlstate: String::new(),
            text: format!(
                "the server asks for an authentication method with the number {code}, which is not supported"
            ),
        },
        other => Refused { sqlstate: String::new(), text: format!("the login failed: {other:?}") },
    }
}

fn nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}

/// The messages of which the body matters.
const KINDS_READ: [u8; 7] = [
    backend::AUTHENTICATION,
    backend::BACKEND_KEY_DATA,
    backend::ERROR_RESPONSE,
    backend::NEGOTIATE_PROTOCOL_VERSION,
    backend::NOTICE_RESPONSE,
    backend::PARAMETER_STATUS,
    backend::READY_FOR_QUERY,
];
/// A server that wants a password hashed more often would stop the generator for seconds.
const ITERATIONS_MAX: u32 = 1_000_000;
