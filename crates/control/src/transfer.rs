//! The dialogue between the two processes of an online restart, and the transfer, which conducts it for the old process.
//!
//! Always true: the old process keeps everything until the new one reports that it has everything, and the old process
//! confirms that it has let go before the new one uses any of it; if anything fails earlier, the old process goes on.
//! Only a process of the same operating system user is accepted; every wait is bounded, and ends when the other process
//! is gone. The transfer never says the final message: the control thread does ([`FinalMessage`]), because it alone knows
//! whether it may be said.
//! Not here: when everything is suspended and who may let go (`handover`), what is packed (`worker`), and the new
//! process (`successor`).

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use base::WorkerId;
use config::Homes;
use reactor::{Bound, DESCRIPTORS_MAX, Ipc, Listener};
use serde::{Deserialize, Serialize};
use worker::letters::{ActiveConfig, Cursor, Export, Ids, Parcel, Post, ToWorker};

use crate::packed_clusters::PackedCluster;
use crate::packed_events::PackedEvents;

/// Version of this dialogue. Another version is refused, and the old process goes on.
pub const VERSION: u64 = 2;

/// Messages of the old process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromOld {
    /// The first message, with the listeners enclosed.
    Hello(Hello),
    /// A part of the state, with the sockets enclosed.
    Part(Box<Export>),
    /// No more parts follow.
    End {
        /// The last number given to a client or a server.
        last_id: u64,
        /// `SHOW EVENTS`. Some megabytes at most, which fit into one letter.
        #[serde(default)]
        events: PackedEvents,
    },
    /// The old process cannot hand over.
    Refused(String),
    /// The old process has let go of everything.
    Bye,
}

/// Messages of the new process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromNew {
    /// The new process is ready to serve, so the old one may be suspended.
    Go,
    /// The new process has everything.
    Done,
}

/// What the new process must know first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The process number of the old process.
    pub pid: u32,
    /// Its number of workers.
    pub workers: u8,
    /// The home worker of each database.
    pub homes: Vec<(String, u8)>,
    /// Databases that were disabled by DISABLE.
    pub disabled: Vec<String>,
    /// What is known of its clusters.
    #[serde(default)]
    pub(crate) clusters: Vec<PackedCluster>,
    /// How long suspension of the old process may take, in seconds: its own limit, which may differ from ours.
    #[serde(default = "stillness_secs_max")]
    pub(crate) stillness_secs_max: u32,
    /// The addresses of its listeners, in the order of the enclosed descriptors.
    #[serde(rename = "doors")]
    pub(crate) listen_addresses: Vec<ListenAddress>,
}

/// The address of a listener.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ListenAddress {
    Tcp(std::net::SocketAddr),
    Unix(String),
}

impl From<&Bound> for ListenAddress {
    fn from(bound: &Bound) -> Self {
        match bound {
            Bound::Tcp(address) => Self::Tcp(*address),
            Bound::Unix(path) => Self::Unix(path.to_string()),
        }
    }
}

impl From<ListenAddress> for Bound {
    fn from(address: ListenAddress) -> Self {
        match address {
            ListenAddress::Tcp(address) => Self::Tcp(address),
            ListenAddress::Unix(path) => Self::Unix(path.into()),
        }
    }
}

/// What the transfer reports to the control thread.
#[derive(Debug)]
pub enum News {
    /// The new process is ready to serve, and waits for the old one to be suspended.
    Ready,
    /// The new process has everything, and waits to hear that it is alone.
    Done(FinalMessage),
    /// The transfer has failed.
    Failed(String),
}

/// The confirmation that this process lets go. If it is dropped unsaid, the other process may use nothing.
pub struct FinalMessage(Box<SendsFinal>);

type SendsFinal = dyn FnOnce() -> io::Result<Option<u32>> + Send;

impl FinalMessage {
    /// `say` sends the confirmation at once, and returns the number of the other process if it can be known.
    #[must_use]
    pub fn new(say: impl FnOnce() -> io::Result<Option<u32>> + Send + 'static) -> Self {
        Self(Box::new(say))
    }

    /// The confirmation over this connection: one small letter on an empty connection, so sending does not block.
    pub(crate) fn over(ipc: Ipc) -> Self {
        Self::new(move || {
            let pid = ipc.peer_pid();
            say(&ipc, &FromOld::Bye, &[] as &[Listener])?;
            // The connection stays open, so that the new process sees it close only when this process ends.
            std::mem::forget(ipc);
            Ok(pid)
        })
    }

    /// Sends the confirmation: from then on the other process owns everything.
    ///
    /// # Errors
    /// The other process was gone before it could receive the confirmation; everything is still ours.
    pub(crate) fn say(self) -> io::Result<Option<u32>> {
        (self.0)()
    }
}

impl fmt::Debug for FinalMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinalMessage").finish_non_exhaustive()
    }
}

/// Transfers everything to the new process.
pub struct Transfer<S> {
    /// The number of the online restart.
    pub number: u64,
    pub(crate) path: String,
    pub(crate) own_uid: u32,
    /// What the new process must know first.
    pub hello: Hello,
    pub(crate) workers: Vec<Post<ToWorker<S>>>,
    pub(crate) ids: Ids,
    /// How long the suspension may take.
    pub(crate) stillness_max: Duration,
    /// Receives the events so far when everything is suspended; closed when the restart is called off.
    pub(crate) still: Receiver<PackedEvents>,
}

impl<S> Transfer<S> {
    /// Returns whether everything is suspended by now.
    ///
    /// # Errors
    /// The restart was called off.
    pub fn is_still(&self) -> Result<bool, &'static str> {
        match self.still.try_recv() {
            Ok(_) => Ok(true),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(CALLED_OFF),
        }
    }

    /// Asks a worker for a parcel that begins at `from`; the receiver yields it. `None` if there is no such worker.
    pub fn pack(&self, worker: WorkerId, from: Cursor) -> Option<Receiver<Parcel<S>>> {
        let (out, parcels) = mpsc::channel();
        self.workers.get(usize::from(worker.0))?(ToWorker::Pack { from, out });
        Some(parcels)
    }
}

impl<S: AsFd> Transfer<S> {
    /// Conducts the whole transfer. `report` receives the news for the control thread.
    pub(crate) fn go(self, report: impl Fn(News)) {
        match self.carry(&report) {
            Ok(final_message) => report(News::Done(final_message)),
            Err(why) => report(News::Failed(why)),
        }
    }

    fn carry(self, report: &impl Fn(News)) -> Result<FinalMessage, String> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| format!("{what}: {}", crate::words_of(&error))
        };
        let stream = connect(&self.path).map_err(failed("cannot reach the new process"))?;
        let ipc = Ipc::new(stream, PATIENCE).map_err(failed("cannot speak to the new process"))?;
        let uid = ipc.peer_uid().map_err(failed("cannot tell who the new process is"))?;
        if uid != self.own_uid {
            return Err(format!("the new process is one of system user {uid}, not of {}", self.own_uid));
        }
        let mut listeners = Vec::new();
        if let Some(parcel) = self.parcel(WorkerId(0), Cursor::Start)? {
            listeners = parcel.listeners;
        }
        let listen_addresses = listeners.iter().map(|listener| ListenAddress::from(&listener.bound)).collect();
        let hello = FromOld::Hello(Hello { listen_addresses, ..self.hello });
        say(&ipc, &hello, &listeners).map_err(failed("cannot greet the new process"))?;
        drop(listeners);
        let this = Transfer { hello: Hello::nothing(), ..self };
        match hear(&ipc).map_err(failed("the new process did not come up"))? {
            Some(FromNew::Go) => {}
            other => return Err(format!("the new process did not come up ({other:?})")),
        }
        report(News::Ready);
        let events = this.await_stillness(&ipc)?;
        this.carry_all(&ipc, events).map_err(failed("the new process was lost on the way"))?;
        match hear(&ipc).map_err(failed("the new process did not take over"))? {
            Some(FromNew::Done) => Ok(FinalMessage::over(ipc)),
            other => Err(format!("the new process did not take over ({other:?})")),
        }
    }

    /// Waits until everything is suspended, while the new process stays connected, for at most `stillness_max`, because
    /// no client is served meanwhile. Returns the events so far.
    fn await_stillness(&self, ipc: &Ipc) -> Result<PackedEvents, String> {
        let mut left = self.stillness_max;
        while !left.is_zero() {
            match self.still.recv_timeout(GLANCE) {
                Ok(events) => return Ok(events),
                Err(RecvTimeoutError::Disconnected) => return Err(CALLED_OFF.to_owned()),
                Err(RecvTimeoutError::Timeout) if ipc.is_silent() => left = left.saturating_sub(GLANCE),
                Err(RecvTimeoutError::Timeout) => {
                    return Err("the new process was lost before everything stood still".to_owned());
                }
            }
        }
        Err(format!("not everything stood still within {} seconds", self.stillness_max.as_secs()))
    }

    fn carry_all(&self, ipc: &Ipc, events: PackedEvents) -> io::Result<()> {
        for worker in 0..self.workers.len() {
            let mut next = Some(Cursor::Start);
            while let Some(from) = next {
                if matches!(self.still.try_recv(), Err(TryRecvError::Disconnected)) {
                    return Err(io::Error::other(CALLED_OFF));
                }
                let parcel = self.parcel(WorkerId(worker as u8), from).map_err(io::Error::other)?;
                let Some(parcel) = parcel else { break };
                if let Some(fault) = parcel.fault {
                    let _ = say(ipc, &FromOld::Refused(fault.clone()), &[] as &[Listener]);
                    return Err(io::Error::other(fault));
                }
                next = parcel.next;
                say(ipc, &FromOld::Part(Box::new(parcel.export)), &parcel.sockets)?;
            }
        }
        say(ipc, &FromOld::End { last_id: self.ids.last(), events }, &[] as &[Listener])
    }

    fn parcel(&self, worker: WorkerId, from: Cursor) -> Result<Option<Parcel<S>>, String> {
        let Some(parcels) = self.pack(worker, from) else { return Ok(None) };
        let parcel = parcels.recv_timeout(PATIENCE);
        parcel.map(Some).map_err(|_| format!("worker {} does not answer", worker.0))
    }
}

impl Hello {
    /// The greeting without the addresses of the listeners, which are filled in later.
    pub(crate) fn new(active: &ActiveConfig, clusters: Vec<PackedCluster>, stillness_max: Duration) -> Self {
        Self {
            pid: std::process::id(),
            workers: active.homes.workers(),
            homes: active.homes.assigned().map(|(name, home)| (name.to_string(), home.0)).collect(),
            disabled: active.standing.disabled().iter().map(|name| name.to_string()).collect(),
            clusters,
            stillness_secs_max: u32::try_from(stillness_max.as_secs()).unwrap_or(u32::MAX),
            listen_addresses: Vec::new(),
        }
    }

    /// Keeps databases on their previous home workers, where those workers exist, and keeps disabled databases
    /// disabled, and begins with its members of clusters.
    pub fn shape(&self, active: &mut ActiveConfig) {
        self.clusters.iter().for_each(|cluster| cluster.shape(active));
        let homes = self.homes.iter().map(|(name, home)| (Arc::from(&**name), *home));
        let previous = Homes::inherited(self.workers, homes);
        active.homes = Homes::assign(&active.settings, active.homes.workers(), Some(&previous));
        for name in self.disabled.iter().filter(|name| active.settings.database(name).is_some()) {
            active.standing.disable(&Arc::from(&**name));
        }
    }

    fn nothing() -> Self {
        let (homes, disabled, listen_addresses) = (Vec::new(), Vec::new(), Vec::new());
        Self { pid: 0, workers: 0, homes, disabled, clusters: Vec::new(), stillness_secs_max: 0, listen_addresses }
    }
}

/// Sends a message, with descriptors.
pub(crate) fn say(ipc: &Ipc, what: &impl Serialize, enclosed: &[impl AsFd]) -> io::Result<()> {
    let letter = serde_json::to_vec(what)?;
    let descriptors: Vec<_> = enclosed.iter().map(AsFd::as_fd).collect();
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::other("more sockets than a letter carries"));
    }
    ipc.send(&letter, &descriptors)
}

/// Receives a message without descriptors; `None` at the end of the connection.
fn hear(ipc: &Ipc) -> io::Result<Option<FromNew>> {
    match ipc.receive()? {
        Some((letter, _)) => Ok(Some(serde_json::from_slice(&letter)?)),
        None => Ok(None),
    }
}

/// Connects to a unix socket; a leading `@` means an abstract name.
pub(crate) fn connect(path: &str) -> io::Result<UnixStream> {
    match path.strip_prefix('@') {
        Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?),
        None => UnixStream::connect(path),
    }
}

/// The path where the new process waits for us, beside the unix socket through which it has found us.
pub(crate) fn meeting_place(socket: &str) -> String {
    format!("{socket}.takeover")
}

/// How long one step may take. If the new process is slower, the restart fails and this process goes on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How long the suspension may take where `suspend_timeout` sets no limit.
pub(crate) const STILLNESS_MAX: Duration = Duration::from_secs(600);
/// Interval at which the transfer checks, during the suspension, whether the new process is still there.
const GLANCE: Duration = Duration::from_millis(100);
const CALLED_OFF: &str = "it was called off";

/// The limit assumed for an old process that does not send one.
fn stillness_secs_max() -> u32 {
    STILLNESS_MAX.as_secs() as u32
}
