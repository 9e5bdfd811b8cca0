//! An online restart on the side of the new process: it finds the old process, receives all of its state, and continues
//! with it.
//!
//! Always true: the new process asks for nothing before it is ready to serve, and uses nothing of the old process
//! before the old process has confirmed that it has let go; until then the new process may end at any moment, and the
//! old one goes on. Only a process of our own operating system user is accepted; connections of others are closed, and
//! do not keep the old process from connecting.
//! Not here: how work continues (`worker`), the start of a process (`trunkline`).

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::stat::{Mode, umask};
use reactor::{Ipc, Listener, Socket};
use worker::letters::{ActiveConfig, Export, Import, Pair};

use crate::packed_clusters::PackedCluster;
use crate::packed_events::PackedEvents;
use crate::transfer::{self, FromNew, FromOld, Hello, PATIENCE, VERSION, connect, meeting_place};
use crate::words_of;

/// The old process, which has greeted us.
#[derive(Debug)]
pub struct Predecessor {
    ipc: Ipc,
    hello: Hello,
    listeners: Vec<Listener>,
    /// The console connection that ordered TAKEOVER; the order ends when it closes.
    _console: UnixStream,
}

/// Everything that the old process hands over.
#[derive(Debug, Default)]
pub struct HandedOver {
    /// Clients and servers.
    pub import: Import<Socket>,
    /// The last number that a client or a server has.
    pub last_id: u64,
    /// `SHOW EVENTS`.
    pub events: PackedEvents,
}

impl Predecessor {
    /// Looks for a process that answers at this unix socket, and receives its greeting. `None` if nobody answers.
    ///
    /// # Errors
    /// The old process exists, but cannot or will not hand over.
    pub fn find(socket: &str, own_uid: u32) -> Result<Option<Self>, String> {
        let Ok(stream) = connect(socket) else { return Ok(None) };
        let failed = |what: &'static str| move |error: io::Error| format!("{what}: {}", words_of(&error));
        let place = meeting_place(socket);
        let listener = listen(&place).map_err(failed("cannot wait for the old process"))?;
        let asked = ask(stream);
        let met = asked.and_then(|console| Ok((console, accept(listener, own_uid)?)));
        if !place.starts_with('@') {
            let _ = fs::remove_file(&place);
        }
        let (console, ipc) = met?;
        match hear(&ipc, PATIENCE).map_err(failed("the old process does not greet"))? {
            (FromOld::Hello(hello), descriptors) if descriptors.len() == hello.listen_addresses.len() => {
                let mut hello = hello;
                let listen_addresses = std::mem::take(&mut hello.listen_addresses);
                let listeners = listen_addresses.into_iter().zip(descriptors);
                let listeners = listeners.map(|(address, fd)| Listener::inherited(fd, address.into())).collect();
                Ok(Some(Self { ipc, hello, listeners, _console: console }))
            }
            (FromOld::Refused(why), _) => Err(why),
            _ => Err("the old process greets in an unknown way".to_owned()),
        }
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.hello.pid
    }

    /// What it has known of its clusters.
    #[must_use]
    pub fn clusters(&self) -> &[PackedCluster] {
        &self.hello.clusters
    }

    /// Its listeners.
    pub fn take_listeners(&mut self) -> Vec<Listener> {
        std::mem::take(&mut self.listeners)
    }

    /// Keeps databases on their previous home workers, where those workers exist, and keeps disabled databases
    /// disabled.
    pub fn shape(&self, active: &mut ActiveConfig) {
        self.hello.shape(active);
    }

    /// Has the old process suspend, which may take as long as its own settings allow, and receives everything.
    ///
    /// # Errors
    /// The old process could not hand over; it goes on.
    pub fn take_all(&self) -> Result<HandedOver, String> {
        let failed = |what: &'static str| move |error: io::Error| format!("{what}: {}", words_of(&error));
        // The old process gives up by itself a little earlier.
        let mut limit = PATIENCE + Duration::from_secs(self.hello.stillness_secs_max.into());
        self.say(&FromNew::Go)?;
        let mut import = Import::default();
        loop {
            let heard = hear(&self.ipc, limit).map_err(failed("the old process does not hand over"))?;
            limit = PATIENCE;
            match heard {
                (FromOld::Part(part), descriptors) => add(&mut import, *part, descriptors)?,
                (FromOld::End { last_id, events }, _) => return Ok(HandedOver { import, last_id, events }),
                (FromOld::Refused(why), _) => return Err(format!("the old process cannot hand over: {why}")),
                _ => return Err("the old process says what nobody has asked".to_owned()),
            }
        }
    }

    /// Tells the old process that everything has arrived, and waits for its confirmation.
    ///
    /// # Errors
    /// The old process has not confirmed, so nothing of it may be used.
    pub fn relieve(&self) -> Result<(), String> {
        self.say(&FromNew::Done)?;
        match hear(&self.ipc, PATIENCE) {
            Ok((FromOld::Bye, _)) => Ok(()),
            Ok(_) => Err("the old process does not let go".to_owned()),
            Err(error) => Err(format!("the old process does not let go: {}", words_of(&error))),
        }
    }

    /// Waits until the old process has ended and removed its pidfile. Returns whether it has.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.ipc.receive(), Ok(None))
    }

    fn say(&self, what: &FromNew) -> Result<(), String> {
        let said = transfer::say(&self.ipc, what, &[] as &[Listener]);
        said.map_err(|error| format!("the old process is gone: {}", words_of(&error)))
    }
}

/// Adds a part of the old process's state.
fn add(import: &mut Import<Socket>, part: Export, descriptors: Vec<OwnedFd>) -> Result<(), String> {
    let expected: usize = part.pairs.iter().map(Pair::sockets).sum();
    if descriptors.len() != expected {
        return Err(format!("the old process has sent {} sockets, not {expected}", descriptors.len()));
    }
    let mut descriptors = descriptors.into_iter();
    import.add(part, |is_unix| descriptors.next().map(|fd| Socket::inherited(fd, is_unix)));
    Ok(())
}

/// Receives a message of the old process with the enclosed descriptors.
fn hear(ipc: &Ipc, limit: Duration) -> io::Result<(FromOld, Vec<OwnedFd>)> {
    let (letter, descriptors) = ipc.receive_within(limit)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((serde_json::from_slice(&letter)?, descriptors))
}

/// Binds a unix socket to which only our own user can connect, unless its name is abstract.
fn listen(place: &str) -> io::Result<UnixListener> {
    if let Some(name) = place.strip_prefix('@') {
        return UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?);
    }
    let _ = fs::remove_file(place);
    // The umask leaves no moment in which other users could connect; no other thread creates files yet.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(place);
    umask(before);
    bound
}

/// Waits until a process of our own user connects. Other users may connect first, because abstract names have no
/// permissions.
fn accept(listener: UnixListener, own_uid: u32) -> Result<Ipc, String> {
    let failed = |error: io::Error| format!("the old process does not come: {}", words_of(&error));
    let (sender, met) = mpsc::channel();
    let (stranger, strangers) = mpsc::sync_channel(1);
    let greet = move || loop {
        match listener.accept().and_then(|(stream, _)| Ok((reactor::peer_uid(&stream)?, stream))) {
            Ok((uid, _)) if uid != own_uid => drop(stranger.try_send(uid)),
            outcome => return drop(sender.send(outcome.map(|(_, stream)| stream))),
        }
    };
    // The thread ends with the process at the latest.
    std::thread::Builder::new().spawn(greet).map_err(failed)?;
    match (met.recv_timeout(PATIENCE), strangers.try_recv()) {
        (Ok(stream), _) => stream.and_then(|stream| Ipc::new(stream, PATIENCE)).map_err(failed),
        (Err(_), Ok(uid)) => {
            Err(format!("the old process does not come, but one of system user {uid}, not of {own_uid}"))
        }
        (Err(_), Err(_)) => Err(failed(io::ErrorKind::TimedOut.into())),
    }
}

/// Logs in to the console of the old process and sends TAKEOVER.
fn ask(mut stream: UnixStream) -> Result<UnixStream, String> {
    let failed = |error: io::Error| format!("the old process does not answer: {}", words_of(&error));
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let parameters = b"\0\x03\0\0user\0pgbouncer\0database\0pgbouncer\0\0";
    let length = (parameters.len() as u32 + 4).to_be_bytes();
    let order = format!("TAKEOVER {VERSION}\0");
    let order_length = (order.len() as u32 + 4).to_be_bytes();
    stream.write_all(&[&length, &parameters[..]].concat()).map_err(failed)?;
    read_answer(&mut stream)?;
    stream.write_all(&[b"Q", &order_length[..], order.as_bytes()].concat()).map_err(failed)?;
    read_answer(&mut stream)?;
    Ok(stream)
}

/// Reads up to `ReadyForQuery`.
fn read_answer(stream: &mut UnixStream) -> Result<(), String> {
    let failed = |error: io::Error| format!("the old process does not answer: {}", words_of(&error));
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).map_err(failed)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4).min(ANSWER_BYTES_MAX)];
        stream.read_exact(&mut body).map_err(failed)?;
        match head[0] {
            b'Z' => return Ok(()),
            b'R' if body != [0; 4] => {
                return Err("the old process asks for a password: is it another user's?".to_owned());
            }
            b'E' => {
                let notice = wire::notice::Notice::parse(&body);
                let hint = notice.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                return Err(format!("the old process does not hand over: {}{hint}", notice.message));
            }
            _ => {}
        }
    }
}

/// No message of the login or of the answer to TAKEOVER is longer.
const ANSWER_BYTES_MAX: usize = 65_536;
