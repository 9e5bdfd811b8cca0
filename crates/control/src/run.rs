//! The loop of the control thread: waits for letters, signals, lookups and timers, and passes each to [`Control`] as an
//! event.
//!
//! Always true: the loop awaits no slow operation itself; slow operations run in tasks or threads, and other events are
//! handled meanwhile.
//! Not here: what an event means (`control`).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::{Time, Wall};
use nix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use worker::letters::{Found, HashQuestion, ToControl};

use crate::clusters::{MachineId, Means, Sessions};
use crate::control::Control;
use crate::event::{Event, Signal};
use crate::hands::Clocks;
use crate::http::{self, HttpAnswer, HttpQuestion};
use crate::own_clients::{OwnClientNews, OwnClientOrder};
use crate::resolver::{CurrentResolver, Resolver};
use crate::system_users::SystemUserQuestion;
use crate::transfer::{News, Transfer};
use crate::zones::Serial;
use crate::{external_auth, hashings, names, otlp, source};

/// The handlers of the signals that the process handles.
#[derive(Debug)]
pub struct Signals {
    hangup: unix::Signal,
    terminate: unix::Signal,
    interrupt: unix::Signal,
    quit: unix::Signal,
    user1: unix::Signal,
    user2: unix::Signal,
}

impl Signals {
    /// Installs the handlers, so that these signals no longer end the process. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            hangup: unix::signal(SignalKind::hangup())?,
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            quit: unix::signal(SignalKind::quit())?,
            user1: unix::signal(SignalKind::user_defined1())?,
            user2: unix::signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.quit.recv() => Signal::Quit,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.hangup.recv() => Signal::Hangup,
            _ = self.user1.recv() => Signal::User1,
            _ = self.user2.recv() => Signal::User2,
        }
    }
}

/// The clocks of the control thread.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    /// What the clock of the workers (`CLOCK_MONOTONIC`) has shown then: their times can be compared with ours.
    ahead: Duration,
}

impl Clock {
    /// Starts a clock.
    #[must_use]
    pub fn start() -> Self {
        let ahead = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
        Self { origin: Instant::now(), ahead }
    }

    /// Returns the current time on both clocks.
    #[must_use]
    pub fn now(&self) -> Clocks {
        let since = u64::try_from((self.origin.elapsed() + self.ahead).as_micros());
        Clocks { time: Time(since.unwrap_or(u64::MAX)), wall: wall_now() }
    }

    async fn reaches(&self, deadline: Time) {
        let since = Duration::from_micros(deadline.0).saturating_sub(self.ahead);
        match self.origin.checked_add(since) {
            Some(instant) => tokio::time::sleep_until(instant).await,
            None => std::future::pending().await,
        }
    }
}

/// How the service ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// As ordered.
    Well,
    /// Because of a failure, which has been logged.
    Badly,
    /// A new process has taken over; it owns the unix socket now.
    HandedOver,
}

/// Runs until the process is to end. By then all workers have been told to shut down.
pub async fn run<S: Send + From<OwnedFd> + AsFd + 'static>(
    mut control: Control<S>,
    clock: Clock,
    mut letters: UnboundedReceiver<ToControl>,
    mut signals: Signals,
    http: Vec<TcpListener>,
) -> Ending {
    let (reporter, mut reports) = mpsc::unbounded_channel();
    let mut lookups: JoinSet<(Arc<str>, Found)> = JoinSet::new();
    let mut questions: JoinSet<Event> = JoinSet::new();
    let (hashes, mut hashed) = mpsc::unbounded_channel();
    // The capacity of 1 limits reading from the connections to our own workers to the speed at which control handles the
    // bytes.
    let (teller, mut told) = mpsc::channel(1);
    let mut own_clients = OwnClientSockets { teller, carried: JoinSet::new(), open: BTreeMap::new() };
    let pam = external_auth::Library::default();
    let mut current_resolver = CurrentResolver::default();
    let (asks, mut asked) = mpsc::channel(ASKED_BY_HTTP);
    let (in_force, active) = watch::channel(Arc::clone(&control.hands.active));
    let served = http::serve(http, asks, active);
    let mut askers = Askers::default();
    let sessions = Sessions::default();
    while !control.is_over() {
        let deadline = control.next_deadline();
        let event = tokio::select! {
            signal = signals.next() => Event::Signal(signal),
            Some(letter) = letters.recv() => Event::Letter(letter),
            Some(Ok((name, found))) = lookups.join_next() => Event::Found { name, found },
            Some(Ok(told)) = questions.join_next() => told,
            Some((from, asker, hashed)) = hashed.recv() => Event::Hashed { from, asker, hashed },
            Some((handover, news)) = reports.recv() => Event::News { handover, news },
            Some((number, news)) = told.recv() => Event::OwnClient { number, news },
            Some((question, asker)) = asked.recv() => askers.ask(question, asker),
            // A task that ends has already sent `OwnClientNews::Ended`.
            Some(_) = own_clients.carried.join_next() => continue,
            () = clock.reaches(deadline) => Event::Tick,
        };
        control.handle(clock.now(), event);
        if !Arc::ptr_eq(&control.hands.active, &in_force.borrow()) {
            in_force.send_replace(Arc::clone(&control.hands.active));
            sessions
                .keep(|cluster, number| control.has_machine(cluster, number), |cluster| control.has_cluster(cluster));
        }
        while let Some((number, answer)) = control.next_http_answer() {
            askers.answer(number, answer);
        }
        while let Some(order) = control.next_own_client_order() {
            own_clients.obey(order, &mut control, &clock);
        }
        while let Some(SystemUserQuestion { from, client, uid }) = control.next_system_user() {
            questions.spawn(async move {
                let look_up = tokio::task::spawn_blocking(move || names::user_of_the_system(uid));
                Event::SystemUser { from, client, found: Ok(look_up.await.unwrap_or(None)) }
            });
        }
        while let Some(put) = control.next_password() {
            let (from, client, authenticator) =
                (put.question.from, put.question.client, put.question.authenticator.clone());
            let asked = external_auth::put(put, pam.clone(), control.question_limit());
            questions.spawn(async move { Event::Judged { from, client, authenticator, verdict: asked.await } });
        }
        while let Some(HashQuestion { from, asker, derivation, .. }) = control.next_hashing() {
            let hashes = hashes.clone();
            if let Err(why) = hashings::put(derivation, move |hashed| drop(hashes.send((from, asker, hashed)))) {
                control.handle(clock.now(), Event::Hashed { from, asker, hashed: Err(why) });
            }
        }
        while let Some(task) = control.next_cluster_task() {
            let done = sessions.clone().carry_out(task, means(&control, &mut current_resolver));
            questions.spawn(cluster_event(done));
        }
        while let Some(task) = control.next_read_names() {
            let means = means(&control, &mut current_resolver);
            questions.spawn(async move { Event::ReadNames(task.carry_out(means).await) });
        }
        if let Some(transfer) = control.next_transfer() {
            start_transfer(transfer, &reporter);
        }
        while let Some(name) = control.next_lookup() {
            let resolver = control.name_servers().map(|servers| current_resolver.resolver(servers));
            lookups.spawn(look_up(name, resolver));
        }
        while let Some(posting) = control.next_posting() {
            questions.spawn(async move { Event::Posted(otlp::post(posting).await) });
        }
        while let Some(zone) = control.next_zone() {
            let resolver = control.name_servers().map(|servers| current_resolver.resolver(servers));
            questions.spawn(async move {
                let serial = match resolver {
                    Some(resolver) => resolver.serial(&zone).await,
                    None => ask_the_systems(&zone).await,
                };
                Event::Serial { zone, serial }
            });
        }
    }
    drop((asked, askers));
    served.end().await;
    if let Some(posting) = control.last_posting() {
        // The end of the process is delayed by at most `LAST_POST` for a collector.
        let _ = tokio::time::timeout(LAST_POST, otlp::post(posting)).await;
    }
    match control.has_failed() {
        true => Ending::Badly,
        false if control.has_handed_over() => Ending::HandedOver,
        false => Ending::Well,
    }
}

/// The event that follows from a task of a cluster.
async fn cluster_event(done: impl Future<Output = (MachineId, cluster::Event)>) -> Event {
    let (id, event) = done.await;
    Event::Cluster { id, event }
}

/// How connections to the hosts of clusters are made at present.
fn means<S>(control: &Control<S>, current: &mut CurrentResolver) -> Means {
    let active = &control.hands.active;
    let resolver = control.name_servers().map(|servers| current.resolver(servers));
    Means { tls_mode: active.settings.server_tls_sslmode, demand: active.tls.demand.clone(), resolver }
}

async fn look_up(name: Arc<str>, resolver: Option<Arc<Resolver>>) -> (Arc<str>, Found) {
    let found = match resolver {
        Some(resolver) => resolver.addresses(&name).await,
        None => names::look_up(&name).await,
    };
    (name, found)
}

/// Starts the thread that hands everything over in an online restart.
fn start_transfer<S: Send + AsFd + 'static>(transfer: Transfer<S>, reporter: &UnboundedSender<(u64, News)>) {
    let (number, reporter, stranded) = (transfer.number, reporter.clone(), reporter.clone());
    let thread = std::thread::Builder::new().name("transfer".to_owned());
    if let Err(error) = thread.spawn(move || transfer.go(|news| drop(reporter.send((number, news))))) {
        let _ = stranded.send((number, News::Failed(format!("cannot start a thread: {error}"))));
    }
}

/// How long a collector may take for the last spans when the process ends.
const LAST_POST: Duration = Duration::from_millis(300);

/// The HTTP requests that wait for their answers.
#[derive(Default)]
struct Askers {
    asked: u64,
    waiting: BTreeMap<u64, oneshot::Sender<HttpAnswer>>,
}

impl Askers {
    fn ask(&mut self, question: HttpQuestion, asker: oneshot::Sender<HttpAnswer>) -> Event {
        self.asked += 1;
        self.waiting.insert(self.asked, asker);
        Event::Http { number: self.asked, question }
    }

    fn answer(&mut self, number: u64, answer: HttpAnswer) {
        // The connection of the request may have closed meanwhile.
        let _ = self.waiting.remove(&number).map(|asker| asker.send(answer));
    }
}

/// Capacity of the queue of HTTP questions; a request that finds it full waits for room.
const ASKED_BY_HTTP: usize = 64;

/// Connections to our own workers, each served by a task.
struct OwnClientSockets {
    teller: mpsc::Sender<(u64, OwnClientNews)>,
    carried: JoinSet<()>,
    open: BTreeMap<u64, (UnboundedSender<Vec<u8>>, AbortHandle)>,
}

impl OwnClientSockets {
    fn obey<S: From<OwnedFd> + AsFd>(&mut self, order: OwnClientOrder, control: &mut Control<S>, clock: &Clock) {
        match order {
            OwnClientOrder::Open { number, database, is_listener } => match UnixStream::pair().and_then(split) {
                Ok((near, far)) => {
                    match is_listener {
                        true => control.connect_listener(&database, far.into()),
                        false => control.connect_own(&database, far.into()),
                    }
                    let (say, said) = mpsc::unbounded_channel();
                    let task = self.carried.spawn(carry(number, near, said, self.teller.clone()));
                    self.open.insert(number, (say, task));
                }
                Err(error) => {
                    let news = OwnClientNews::Ended(source::words_of(&error));
                    control.handle(clock.now(), Event::OwnClient { number, news });
                }
            },
            OwnClientOrder::Say { number, bytes } => {
                if let Some((say, _)) = self.open.get(&number) {
                    let _ = say.send(bytes);
                }
            }
            OwnClientOrder::Close { number } => {
                if let Some((_, task)) = self.open.remove(&number) {
                    task.abort();
                }
            }
        }
    }
}

/// The two ends of a connection to one of our own workers: control's end and the worker's end.
fn split((near, far): (UnixStream, UnixStream)) -> io::Result<(UnixStream, OwnedFd)> {
    Ok((near, far.into_std()?.into()))
}

/// Sends and receives on a connection to one of our own workers until it ends.
async fn carry(
    number: u64,
    mut near: UnixStream,
    mut said: UnboundedReceiver<Vec<u8>>,
    teller: mpsc::Sender<(u64, OwnClientNews)>,
) {
    let (mut reader, mut writer) = near.split();
    let write = async {
        while let Some(bytes) = said.recv().await {
            writer.write_all(&bytes).await?;
        }
        std::future::pending::<io::Result<()>>().await
    };
    let read = async {
        let mut inbox = Vec::with_capacity(RECEIVED_BYTES);
        loop {
            inbox.reserve(RECEIVED_BYTES);
            if reader.read_buf(&mut inbox).await? == 0 {
                return Err(io::Error::other("the connection has ended"));
            }
            let _ = teller.send((number, OwnClientNews::Heard(std::mem::take(&mut inbox)))).await;
        }
    };
    let ended: io::Result<()> = tokio::select! {
        ended = write => ended,
        ended = read => ended,
    };
    let why = ended.map_or_else(|error| source::words_of(&error), |()| String::new());
    let _ = teller.send((number, OwnClientNews::Ended(why))).await;
}

/// Bytes received at once.
const RECEIVED_BYTES: usize = 8 * 1024;

/// Asks the system's name servers for a zone's serial: the system's resolver looks up names, but does not report
/// serials.
async fn ask_the_systems(zone: &str) -> Serial {
    match tokio::task::spawn_blocking(source::system_name_servers).await {
        Ok(servers) => Resolver::new(Arc::new(servers)).serial(zone).await,
        Err(_) => Err("its file could not be read".into()),
    }
}

/// Returns the wall-clock time.
#[must_use]
pub fn wall_now() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
