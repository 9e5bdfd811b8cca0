//! For tests: a kernel without connections, a worker on it, and the hands of one for the rooms that need no worker.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use base::{Time, Wall, WorkerId};
use config::Homes;
use protocol::vars::Tracked;
use reactor::tls::Side;
use reactor::{
    Accepting, Address, Chunk, Close, Completion, Conn, Io, Lines, Listener, LogTarget, Peer, Receive, TcpTuning,
};

use crate::Worker;
use crate::hands::Hands;
use crate::letters::{
    ActiveConfig, Ids, Post, Posts, RateLimits, Standing, TlsTerms, ToControl, ToWorker, Unauthenticated,
};

/// The time, which stands still.
pub(crate) const NOW: Time = Time(1_000_000);

/// A kernel without connections, whose clock stands still.
pub(crate) struct Still {
    wishes: Wishes,
    script: Rc<RefCell<Script>>,
}

/// What a kernel is to answer, and what it was told.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The results of the next attempts to connect. Later ones fail.
    pub(crate) connects: VecDeque<io::Result<Conn>>,
    pub(crate) calls: Vec<Call>,
}

/// What a kernel was told about a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Connect(Address, u64),
    /// TLS is to begin.
    Secure(Conn, u64),
    Send(Conn, Vec<u8>),
    Close(Conn),
}

/// What a kernel was told about receiving: the connection, and how it is received from, if it is.
pub(crate) type Wishes = Rc<RefCell<Vec<(Conn, Option<Receive>)>>>;

impl Io for Still {
    type Socket = ();

    fn now(&self) -> Time {
        NOW
    }

    fn wall(&self) -> Wall {
        Wall(NOW.0 as i64)
    }

    fn awake(&self) -> Duration {
        Duration::ZERO
    }

    fn randomness(&mut self, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn peer(&self, (): &()) -> Peer {
        Peer::Unix { pid: 1, uid: None }
    }

    fn adopt(&mut self, (): (), _: u64) -> io::Result<Conn> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn connect(&mut self, to: &Address, owner: u64) -> io::Result<Conn> {
        let mut script = self.script.borrow_mut();
        script.calls.push(Call::Connect(to.clone(), owner));
        script.connects.pop_front().unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
    }

    fn secure(&mut self, conn: Conn, owner: u64, _: &Side, _: &[u8]) -> io::Result<()> {
        self.script.borrow_mut().calls.push(Call::Secure(conn, owner));
        Ok(())
    }

    fn receive(&mut self, conn: Conn, how: Receive) {
        self.wishes.borrow_mut().push((conn, Some(how)));
    }

    fn pause(&mut self, conn: Conn) {
        self.wishes.borrow_mut().push((conn, None));
    }

    fn send(&mut self, conn: Conn, chunk: Chunk) {
        self.script.borrow_mut().calls.push(Call::Send(conn, chunk.bytes().to_vec()));
    }

    fn unsent(&self, _: Conn) -> usize {
        0
    }

    fn tell_when_drained(&mut self, _: Conn) {}

    fn close(&mut self, conn: Conn, _: Close) {
        self.script.borrow_mut().calls.push(Call::Close(conn));
    }

    fn is_at_rest(&self, _: Conn) -> bool {
        true
    }

    fn release(&mut self, _: Conn) -> Option<()> {
        None
    }

    fn duplicate(&self, _: Conn) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn listeners(&self) -> io::Result<Vec<Listener>> {
        Ok(Vec::new())
    }

    fn near_end(&self, _: Conn) -> Option<SocketAddr> {
        None
    }

    fn far_end(&self, _: Conn) -> Option<SocketAddr> {
        None
    }

    fn accept(&mut self, _: Accepting) {}

    fn is_accepting_at_rest(&self) -> bool {
        true
    }

    fn tune(&mut self, _: TcpTuning) {}

    fn log_to(&mut self, _: Arc<LogTarget>) {}

    fn write_log(&mut self, _: &Lines) {}

    fn buffers(&self) -> (usize, usize) {
        (0, 0)
    }

    fn buffers_touched(&self) -> usize {
        0
    }

    fn turn(&mut self, _: Option<Time>, done: &mut Vec<Completion<()>>) {
        done.push(Completion::Woken);
    }
}

/// Such a worker, and what belongs to it.
pub(crate) struct StillWorker {
    pub(crate) worker: Worker<Still>,
    pub(crate) letters: mpsc::Sender<ToWorker<()>>,
    /// What it has told the control thread.
    pub(crate) told: Letters<ToControl>,
    pub(crate) wishes: Wishes,
}

impl StillWorker {
    /// With so many databases, each of which has a pool.
    pub(crate) fn with_pools(count: usize) -> Self {
        let lines: String =
            (0..count).map(|number| format!("d{number} = host=127.0.0.1 user=u{number} min_pool_size=1\n")).collect();
        let active = active_config(&format!("[databases]\n{lines}[pgbouncer]\nauth_type=any\n"));
        let (told, workers_told) = (Letters::default(), Letters::default());
        let (letters, inbox) = mpsc::channel();
        let wishes = Wishes::default();
        let still = Still { wishes: wishes.clone(), script: Rc::default() };
        let posts = posts(1, &told, &workers_told);
        let worker = Worker::new(WorkerId(0), still, inbox, posts, Arc::new(active), 1);
        Self { worker, letters, told, wishes }
    }
}

/// The hands of worker 0, for the tests of one room.
pub(crate) struct StillHands {
    pub(crate) hands: Hands<Still>,
    pub(crate) script: Rc<RefCell<Script>>,
    /// What the control thread was told.
    pub(crate) told: Letters<ToControl>,
    /// What workers were told, with their numbers.
    pub(crate) workers_told: Letters<(usize, ToWorker<()>)>,
}

/// Letters that were posted.
pub(crate) type Letters<L> = Arc<Mutex<Vec<L>>>;

impl StillHands {
    /// With these settings, and so many workers.
    pub(crate) fn with(settings: &str, workers: usize) -> Self {
        let (told, workers_told) = (Letters::default(), Letters::default());
        let script: Rc<RefCell<Script>> = Rc::default();
        let still = Still { wishes: Wishes::default(), script: script.clone() };
        let posts = posts(workers, &told, &workers_told);
        let hands = Hands::new(WorkerId(0), still, posts, Arc::new(active_config(settings)));
        Self { hands, script, told, workers_told }
    }

    /// The next attempts to connect have these results.
    pub(crate) fn connects(&self, results: impl IntoIterator<Item = io::Result<Conn>>) {
        self.script.borrow_mut().connects.extend(results);
    }

    /// What the kernel was told since the last call.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.script.borrow_mut().calls)
    }
}

/// These settings come into force.
pub(crate) fn configure(hands: &mut Hands<Still>, settings: &str) {
    hands.active = Arc::new(active_config(settings));
}

/// The tasks that were queued since the last call.
pub(crate) fn tasks(hands: &mut Hands<Still>) -> Vec<String> {
    hands.tasks.drain(..).map(|task| format!("{task:?}")).collect()
}

/// The lines that were logged since the last call.
pub(crate) fn lines(hands: &mut Hands<Still>) -> Vec<String> {
    let lines = hands.log.iter().map(|(_, line)| line.to_owned()).collect();
    hands.log.clear();
    lines
}

fn active_config(text: &str) -> ActiveConfig {
    let read = |_: &str| Ok(text.to_owned().into_bytes());
    let settings = config::load("test.ini", &read, &config::Overrides::default()).expect("good settings").settings;
    ActiveConfig {
        homes: Homes::assign(&settings, 1, None),
        tracked: Tracked::new([]),
        rates: Arc::new(RateLimits::new(&settings, [9; 32])),
        settings,
        users: auth::UserFile::default(),
        hba: Arc::default(),
        idents: Arc::default(),
        mock_key: [9; 32],
        tls: TlsTerms::default(),
        tuning: TcpTuning::default(),
        log: Arc::new(LogTarget::new(false, None)),
        own_uid: 0,
        standing: Standing::default(),
    }
}

fn posts(workers: usize, told: &Letters<ToControl>, workers_told: &Letters<(usize, ToWorker<()>)>) -> Posts<()> {
    let told = told.clone();
    let worker = |number: usize| -> Post<ToWorker<()>> {
        let told = workers_told.clone();
        Arc::new(move |letter| told.lock().expect("a list").push((number, letter)))
    };
    Posts {
        workers: (0..workers).map(worker).collect(),
        control: Arc::new(move |letter| told.lock().expect("a list").push(letter)),
        ids: Ids::default(),
        unauthenticated: Unauthenticated::default(),
        held_bytes_max: usize::MAX,
    }
}
