//! A connection to a host of a cluster, and the statements that are sent over it.
//!
//! Always true: an answer takes no more bytes than was said when the connection was opened. Certificates are verified as `server_tls_sslmode` says.
//! Not here: time limits (`tasks`), what follows from an answer (crate `cluster`).

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::{Report, SlotLag};
use config::{Host, TlsMode};
use conninfo::{Counted, Secure, Stream};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, SimpleQueryMessage, SimpleQueryRow};

use super::tasks::Means;
use crate::http_client::plain;
use crate::names;
use crate::resolver::Resolver;
use crate::source::words_of;

/// A connection to a host. It ends with this value.
pub(super) struct Session {
    client: Client,
    received: Arc<AtomicUsize>,
    _carried: JoinSet<()>,
}

/// Why a host has no answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) kind: FailedKind,
    pub(super) why: String,
}

/// What that says of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FailedKind {
    /// Nobody listens there.
    Down,
    /// It takes no sessions for now, or the session has ended.
    Refused,
    /// It does not let the user in.
    Denied,
}

impl Failed {
    fn refused(why: impl Into<String>) -> Self {
        Self { kind: FailedKind::Refused, why: why.into() }
    }

    /// Of a connection that was not accepted.
    fn connecting(error: &io::Error) -> Self {
        let is_down = matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound);
        Self { kind: if is_down { FailedKind::Down } else { FailedKind::Refused }, why: words_of(error) }
    }
}

impl Session {
    /// Logs in at a host of a cluster, in the database that its checks use.
    pub(super) async fn open(cluster: Arc<config::Cluster>, member: usize, means: Means) -> Result<Self, Failed> {
        let dbname = Arc::clone(&cluster.dbname);
        Self::open_in(cluster, member, &dbname, ANSWER_BYTES_MAX, means).await
    }

    /// Logs in at a host of a cluster, in any database. An answer may have so many bytes.
    pub(super) async fn open_in(
        cluster: Arc<config::Cluster>,
        member: usize,
        dbname: &str,
        bytes_max: usize,
        means: Means,
    ) -> Result<Self, Failed> {
        let place = cluster.hosts_with_ports().nth(member).map(|(host, port)| (host.clone(), port));
        let (host, port) = place.ok_or_else(|| Failed::refused("the host is not there any more"))?;
        let received = Arc::new(AtomicUsize::new(0));
        let mut config = Config::new();
        config.user(&*cluster.user).dbname(dbname).application_name(APPLICATION_NAME);
        if let Some(password) = &cluster.password {
            config.password(password.expose());
        }
        let mode = match (&host, means.tls_mode) {
            (Host::Unix(_) | Host::Abstract(_), _) | (_, TlsMode::Disable) => SslMode::Disable,
            (_, TlsMode::Allow | TlsMode::Prefer) if means.demand.is_none() => SslMode::Disable,
            (_, TlsMode::Allow | TlsMode::Prefer) => SslMode::Prefer,
            (_, TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull) => SslMode::Require,
        };
        config.ssl_mode(mode);
        let name = match &host {
            Host::Name(name) => name.to_string(),
            Host::Ip(ip) => ip.to_string(),
            Host::Unix(_) | Host::Abstract(_) => String::new(),
        };
        let demand = means.demand.as_ref().filter(|_| mode != SslMode::Disable);
        let secure =
            demand.map(|demand| Secure::with(demand.without_alpn(), &name)).transpose().map_err(Failed::refused)?;
        let counter = Arc::clone(&received);
        let login = match host.socket_name(port) {
            Some(name) => {
                let path = if matches!(host, Host::Abstract(_)) { format!("\0{name}") } else { name };
                let stream = UnixStream::connect(path).await.map_err(|error| Failed::connecting(&error))?;
                log_in(config, stream, (counter, bytes_max), secure)
            }
            None => log_in(config, connect(host, port, means.resolver).await?, (counter, bytes_max), secure),
        };
        let (client, carried) = login.await.map_err(|error| words(&error))?;
        Ok(Self { client, received, _carried: carried })
    }

    /// Asks the host what it is.
    pub(super) async fn report(&mut self) -> Result<Report, Failed> {
        self.received.store(0, Ordering::Relaxed);
        let answer = self.client.simple_query(STATE).await.map_err(|error| words(&error))?;
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => read(row),
            _ => None,
        });
        row.ok_or_else(|| Failed::refused("its answer cannot be read"))
    }

    /// Asks a primary for its replication slots.
    pub(super) async fn slots(&mut self) -> Result<Vec<SlotLag>, Failed> {
        self.received.store(0, Ordering::Relaxed);
        let answer = self.client.simple_query(&slots_query()).await.map_err(|error| words(&error))?;
        let slot = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => {
                let slot = plain(row.get(0)?).into();
                Some(SlotLag { slot, lag: row.get(1)?.parse().ok()? })
            }
            _ => None,
        };
        Ok(answer.iter().filter_map(slot).take(SLOTS_MAX).collect())
    }

    /// Returns the rows of a query.
    pub(super) async fn rows(&mut self, sql: &'static str) -> Result<Vec<SimpleQueryRow>, Failed> {
        self.received.store(0, Ordering::Relaxed);
        let answer = self.client.simple_query(sql).await.map_err(|error| words(&error))?;
        let rows = answer.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// Runs a statement.
    pub(super) async fn run(&mut self, sql: &'static str) -> Result<(), Failed> {
        self.received.store(0, Ordering::Relaxed);
        self.client.simple_query(sql).await.map(drop).map_err(|error| words(&error))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// Logs in over a stream.
fn log_in<S: Stream>(
    config: Config,
    stream: S,
    (received, bytes_max): (Arc<AtomicUsize>, usize),
    secure: Option<Secure>,
) -> LoggingIn {
    let stream = Counted::new(stream, received, bytes_max);
    Box::pin(async move {
        let (client, connection) = config.connect_raw(stream, Secure::optional(secure)).await?;
        let mut carried = JoinSet::new();
        carried.spawn(async move { drop(connection.await) });
        Ok((client, carried))
    })
}

/// A login that is under way: the client, and the task that carries its connection.
type LoggingIn = Pin<Box<dyn Future<Output = Result<(Client, JoinSet<()>), Error>> + Send>>;

/// Connects to the first address of a host that accepts a connection.
async fn connect(host: Host, port: u16, resolver: Option<Arc<Resolver>>) -> Result<TcpStream, Failed> {
    let addresses: Vec<IpAddr> = match &host {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) => {
            let found = match resolver {
                Some(resolver) => resolver.addresses(name).await,
                None => names::look_up(name).await,
            };
            found.map_err(|why| Failed::refused(&*why))?.all
        }
        Host::Unix(_) | Host::Abstract(_) => Vec::new(),
    };
    let mut failed = Failed::refused("the name has no address");
    for address in addresses {
        match TcpStream::connect((address, port)).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => failed = Failed::connecting(&error),
        }
    }
    Err(failed)
}

/// The error of a server, or of the connection.
fn words(error: &Error) -> Failed {
    let Some(error) = error.as_db_error() else { return Failed::refused(error.to_string()) };
    // Class 28 is that of logins, 3D000 a database that is not there, 42501 a right that is missing (PostgreSQL, `errcodes.txt`).
    let code = error.code().code();
    let is_denied = code.starts_with("28") || ["3D000", "42501"].contains(&code);
    let kind = if is_denied { FailedKind::Denied } else { FailedKind::Refused };
    Failed { kind, why: format!("{}: {}", error.severity(), error.message()) }
}

/// Reads the answer to [`STATE`].
fn read(row: &SimpleQueryRow) -> Option<Report> {
    let number = |place| row.get(place)?.parse::<u64>().ok();
    let in_recovery = row.get(0)? == "t";
    let position = |place| Some(if in_recovery { number(place)? } else { Report::end_of_record(number(place)?) });
    Some(Report {
        in_recovery,
        // It is shown as a signed number.
        system: row.get(1)?.parse::<i64>().ok()? as u64,
        timeline: row.get(2)?.parse().ok()?,
        replayed: position(3)?,
        received: position(4)?,
        can_promote: row.get(6)? == "t",
        delay: row.get(5).and_then(|secs| secs.parse().ok()).and_then(|secs| Duration::try_from_secs_f64(secs).ok()),
    })
}

/// What a host says of itself, in one row. A primary tells the position up to which it has inserted: with `synchronous_commit = off`
/// commits are acknowledged before they are written. Standbys are sent what it has flushed, which it tells besides: what nobody commits
/// may stay unflushed for long.
const STATE: &str = "\
SELECT r, (pg_catalog.pg_control_system()).system_identifier, \
CASE WHEN r THEN greatest((pg_catalog.pg_control_checkpoint()).timeline_id, (pg_catalog.pg_control_recovery()).min_recovery_end_timeline) \
ELSE ('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::int END, \
(CASE WHEN r THEN coalesce(pg_catalog.pg_last_wal_replay_lsn(), '0/0') ELSE pg_catalog.pg_current_wal_insert_lsn() END - '0/0'::pg_lsn), \
(CASE WHEN r THEN greatest(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn(), '0/0') \
ELSE pg_catalog.pg_current_wal_flush_lsn() END - '0/0'::pg_lsn), \
CASE WHEN r AND pg_catalog.pg_last_wal_receive_lsn() IS DISTINCT FROM pg_catalog.pg_last_wal_replay_lsn() \
THEN extract(epoch FROM pg_catalog.now() - pg_catalog.pg_last_xact_replay_timestamp()) END, \
coalesce(has_function_privilege(to_regprocedure('pg_catalog.pg_promote(boolean,integer)'), 'EXECUTE'), false) \
FROM (SELECT pg_catalog.pg_is_in_recovery() AS r) AS s";

/// Asks for the slots that are furthest behind. A temporary one ends with its connection, such as that of a base backup.
fn slots_query() -> String {
    format!(
        "SELECT slot_name, greatest(pg_catalog.pg_current_wal_lsn() - coalesce(confirmed_flush_lsn, restart_lsn), 0)::bigint \
         FROM pg_catalog.pg_replication_slots WHERE NOT temporary AND coalesce(confirmed_flush_lsn, restart_lsn) IS NOT NULL \
         ORDER BY 2 DESC, 1 LIMIT {SLOTS_MAX}"
    )
}

/// So many slots of a cluster are shown at most.
const SLOTS_MAX: usize = 32;
const APPLICATION_NAME: &str = "trunkline checks";
/// More than one row, or the longest error.
const ANSWER_BYTES_MAX: usize = 64 << 10;
