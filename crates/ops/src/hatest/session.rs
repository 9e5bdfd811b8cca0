//! A connection to a target, as libpq makes it: one host after the other, until one is what the target wants.
//!
//! Always true: every attempt at a host has a time limit, which includes the login; an answer has at most
//! [`ANSWER_BYTES_MAX`] bytes before the next row is taken.
//! Not here: how often it is tried (`writer`, `reader`, `check`).

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conninfo::{Address, Counted, Secure, Secured, Stream};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Connection, SimpleQueryMessage};
use tokio_stream::StreamExt as _;

use super::answer::{Codes, Failure};
use super::statements::ROLE;
use super::target::{HostOfTarget, Target, Wanted};

/// A session.
pub(crate) struct Session {
    client: Client,
    /// Runs the connection; returns why it ended, unless we ended it.
    connection: Running,
    received: Arc<AtomicUsize>,
}

/// The values of a row.
pub(crate) type Row = Vec<Option<String>>;

impl Session {
    /// Connects to the first host that is what the target wants. `failed` counts, for each host that cannot be used, why.
    ///
    /// # Errors
    /// No host can be used; the text says why the last one could not.
    pub(crate) async fn open(target: &Target, failed: &mut Codes) -> Result<Self, String> {
        Self::open_hearing(target, failed, Rc::new(|_| {})).await
    }

    /// As [`open`](Self::open); `hear` is given the text of each notice.
    ///
    /// # Errors
    /// No host can be used; the text says why the last one could not.
    pub(crate) async fn open_hearing(target: &Target, failed: &mut Codes, hear: Hear) -> Result<Self, String> {
        let mut hosts: Vec<&HostOfTarget> = target.hosts.iter().collect();
        if target.is_random {
            shuffle(&mut hosts);
        }
        let rounds: &[Wanted] = match target.wanted {
            Wanted::PreferStandby => &[Wanted::Standby, Wanted::Any],
            _ => std::slice::from_ref(&target.wanted),
        };
        let mut why = String::new();
        for wanted in rounds {
            for host in &hosts {
                let opened = timeout(target.connect_timeout, Self::enter(target, host, *wanted, &hear)).await;
                match opened.unwrap_or_else(|_| Err(Refusal::of(Failure::Broken("timeout")))) {
                    Ok(session) => return Ok(session),
                    Err(refusal) => {
                        why = format!("{}: {}", host.address.name(), refusal.text);
                        failed.count(refusal.failure.code());
                    }
                }
            }
        }
        Err(why)
    }

    async fn enter(target: &Target, host: &HostOfTarget, wanted: Wanted, hear: &Hear) -> Result<Self, Refusal> {
        let stream = open(target, host).await.map_err(|error| Refusal::of(Failure::from(&error)))?;
        let received = Arc::new(AtomicUsize::new(0));
        let stream = Counted::new(stream, received.clone(), ANSWER_BYTES_MAX);
        let secure = match host.login.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(target.trust.secure(&host.name).map_err(Refusal::tls)?),
        };
        let login = host.login.connect_raw(stream, Secure::optional(secure)).await;
        let (client, connection) = login.map_err(|error| Refusal::login(&error))?;
        let reported = reported_role(&connection);
        let connection = tokio::task::spawn_local(carry(connection, received.clone(), hear.clone()));
        let mut session = Self { client, connection: Running(connection), received };
        if !matches!(wanted, Wanted::Any) {
            let role = match reported {
                Some(role) => role,
                None => session.ask_role().await.map_err(Refusal::of)?,
            };
            if !wanted.fits(role.0, role.1) {
                let text = "it is not what target_session_attrs asks for".to_owned();
                return Err(Refusal { failure: Failure::Broken("role"), text });
            }
        }
        Ok(session)
    }

    async fn ask_role(&mut self) -> Result<(bool, bool), Failure> {
        let row = self.row(ROLE).await?;
        let is_true = |at: usize| row.get(at).and_then(Option::as_deref) == Some("t");
        Ok((is_true(0), is_true(1)))
    }

    /// Runs a statement, and returns the first row of its answer, which is empty if there is none.
    pub(crate) async fn row(&mut self, sql: &str) -> Result<Row, Failure> {
        let mut first: Option<Row> = None;
        self.rows(sql, |row| first = first.take().or(Some(row))).await?;
        Ok(first.unwrap_or_default())
    }

    /// Runs a statement, and passes on each row.
    pub(crate) async fn rows(&mut self, sql: &str, mut each: impl FnMut(Row)) -> Result<(), Failure> {
        self.received.store(0, Ordering::Relaxed);
        let answer = async {
            let stream = self.client.simple_query_raw(sql).await?;
            tokio::pin!(stream);
            while let Some(message) = stream.next().await {
                if let SimpleQueryMessage::Row(row) = message? {
                    self.received.store(0, Ordering::Relaxed);
                    let value = |at: usize| row.try_get(at).ok().flatten().map(str::to_owned);
                    each((0..row.len().min(COLUMNS_MAX)).map(value).collect());
                }
            }
            Ok::<(), tokio_postgres::Error>(())
        };
        match answer.await {
            Ok(()) => Ok(()),
            Err(error) => match Failure::from(&error) {
                // The connection knows more than the request.
                Failure::Broken("closed") => Err(self.end().await.unwrap_or(Failure::Broken("closed"))),
                failure => Err(failure),
            },
        }
    }

    /// Runs a statement, and returns its rows with the names of their columns; values that are NULL are left out.
    pub(crate) async fn records(&mut self, sql: &str) -> Result<Vec<BTreeMap<String, String>>, Failure> {
        self.received.store(0, Ordering::Relaxed);
        let answer = async {
            let stream = self.client.simple_query_raw(sql).await?;
            tokio::pin!(stream);
            let mut records = Vec::new();
            while let Some(message) = stream.next().await {
                if let SimpleQueryMessage::Row(row) = message? {
                    self.received.store(0, Ordering::Relaxed);
                    let value = |at: usize| {
                        Some((row.columns()[at].name().to_owned(), row.try_get(at).ok().flatten()?.to_owned()))
                    };
                    if records.len() < RECORDS_MAX {
                        records.push((0..row.len()).filter_map(value).collect());
                    }
                }
            }
            Ok::<_, tokio_postgres::Error>(records)
        };
        answer.await.map_err(|error| Failure::from(&error))
    }

    /// Runs a statement, and returns how many rows it has returned or changed, and a digest of what it has returned: equal for equal answers.
    pub(crate) async fn digest(&mut self, sql: &str) -> Result<(u64, u64), Failure> {
        self.received.store(0, Ordering::Relaxed);
        let answer = async {
            let stream = self.client.simple_query_raw(sql).await?;
            tokio::pin!(stream);
            let (mut returned, mut told, mut hasher) = (0, 0, DefaultHasher::new());
            while let Some(message) = stream.next().await {
                match message? {
                    SimpleQueryMessage::Row(row) => {
                        self.received.store(0, Ordering::Relaxed);
                        returned += 1;
                        (0..row.len()).for_each(|at| row.try_get(at).ok().flatten().hash(&mut hasher));
                    }
                    SimpleQueryMessage::CommandComplete(rows) => told += rows,
                    _ => {}
                }
            }
            Ok::<_, tokio_postgres::Error>((told.max(returned), hasher.finish()))
        };
        match answer.await {
            Ok(digest) => Ok(digest),
            Err(error) => match Failure::from(&error) {
                // The connection knows more than the request.
                Failure::Broken("closed") => Err(self.end().await.unwrap_or(Failure::Broken("closed"))),
                failure => Err(failure),
            },
        }
    }

    /// Whether the connection has ended.
    pub(crate) fn is_broken(&self) -> bool {
        self.client.is_closed() || self.connection.0.is_finished()
    }

    /// Why the connection has ended, if it has.
    pub(crate) async fn end(&mut self) -> Option<Failure> {
        timeout(END_TIME_MAX, &mut self.connection.0).await.ok()?.ok()?
    }

    /// Ends the connection with Terminate, so that the server does not log a lost client.
    pub(crate) async fn close(self) {
        let Self { client, mut connection, .. } = self;
        // The driver sends Terminate when it has neither a client nor a request.
        drop(client);
        // Whoever has asked for the end of the connection has taken the outcome of its task.
        if !connection.0.is_finished() {
            let _ = timeout(END_TIME_MAX, &mut connection.0).await;
        }
    }
}

/// Runs a connection until it ends; returns why it ended, unless we ended it.
async fn carry(mut connection: Carried, received: Arc<AtomicUsize>, hear: Hear) -> Option<Failure> {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                received.store(0, Ordering::Relaxed);
                hear(notice.message());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Some(Failure::from(&error)),
            None => return None,
        }
    }
}

/// The task that runs a connection. It ends with its session, because one that waits for an answer would otherwise live
/// as long as its server is silent.
struct Running(JoinHandle<Option<Failure>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a host cannot be used.
struct Refusal {
    failure: Failure,
    text: String,
}

impl Refusal {
    fn of(failure: Failure) -> Self {
        let text = failure.text();
        Self { failure, text }
    }

    fn tls(text: String) -> Self {
        Self { failure: Failure::Broken("tls"), text }
    }

    fn login(error: &tokio_postgres::Error) -> Self {
        let failure = Failure::from(error);
        let text = match (&failure, std::error::Error::source(error)) {
            (Failure::Broken(_), Some(source)) => conninfo::clean(&format!("{error}: {source}")),
            (failure, _) => failure.text(),
        };
        Self { failure, text }
    }
}

/// In recovery, and read-only, if the server has reported both, as PostgreSQL 14 does.
fn reported_role(connection: &Carried) -> Option<(bool, bool)> {
    let is_on = |name: &str| connection.parameter(name).map(|value| value == "on");
    Some((is_on("in_hot_standby")?, is_on("default_transaction_read_only")?))
}

type Opened = Counted<Box<dyn Stream>>;
type Carried = Connection<Opened, Secured<Opened>>;
/// Is given the text of each notice.
pub(crate) type Hear = Rc<dyn Fn(&str)>;

async fn open(target: &Target, host: &HostOfTarget) -> io::Result<Box<dyn Stream>> {
    Ok(match &host.address {
        Address::Socket { path } => Box::new(UnixStream::connect(path).await?),
        Address::Tcp { host: name, port } => {
            let stream = TcpStream::connect((name.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            let socket = SockRef::from(&stream);
            if host.login.get_keepalives() {
                let keepalive = TcpKeepalive::new().with_time(host.login.get_keepalives_idle());
                let interval = host.login.get_keepalives_interval();
                let keepalive = interval.map_or(keepalive.clone(), |interval| keepalive.with_interval(interval));
                let retries = host.login.get_keepalives_retries();
                let keepalive = retries.map_or(keepalive.clone(), |retries| keepalive.with_retries(retries));
                socket.set_tcp_keepalive(&keepalive)?;
            }
            if target.user_timeout.is_some() {
                socket.set_tcp_user_timeout(target.user_timeout)?;
            }
            Box::new(stream)
        }
    })
}

/// Puts hosts into a random order, from the hash keys that the standard library draws for each process and each map.
fn shuffle(hosts: &mut [&HostOfTarget]) {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new();
    hosts.sort_by_cached_key(|host| random.hash_one(host.address.name()));
}

/// Most bytes of a row, or of an answer without rows.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Most columns that are taken of a row.
const COLUMNS_MAX: usize = 8;
/// Most rows of a table that are taken with their names.
const RECORDS_MAX: usize = 50_000;
/// How long a connection has to end, or to say why it has ended.
const END_TIME_MAX: Duration = Duration::from_millis(500);
