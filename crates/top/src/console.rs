//! The connection to a console.
//!
//! Always true: an answer takes no more memory than a table may have: rows beyond that are read and counted, and after
//! [`ANSWER_BYTES_MAX`] the connection is closed. Every wait has a time limit.
//! Not here: when the console is asked (`watch`), how the connection is encrypted (`secure`).

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use conninfo::{Address, Counted, Secure, Secured, Stream, clean};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Connection, SimpleQueryMessage};
use tokio_stream::StreamExt as _;

use crate::commands::Commands;
use crate::table::Table;
use crate::target::ConsoleLogin;

/// A connection to a console.
pub(crate) struct Console {
    client: Client,
    connection: Box<Connected>,
    received: Arc<AtomicUsize>,
    notices: Vec<String>,
    /// The commands that it has.
    pub(crate) commands: Commands,
    address: String,
    /// Its answer to `SHOW VERSION`.
    version: String,
}

/// The answer to a command: a table, or the console's error.
pub(crate) type Answer = Result<Table, String>;

impl Console {
    /// Logs in at the first address that accepts a connection.
    ///
    /// # Errors
    /// No address does; the text is for the person at the terminal.
    pub(crate) async fn reach(login: &ConsoleLogin) -> Result<Self, String> {
        let mut reasons: Vec<String> = Vec::new();
        for address in &login.addresses {
            match Self::enter(login, address).await {
                Ok(console) => return Ok(console),
                Err(Refused::Unreachable(why)) => reasons.push(format!("{}: {why}", address.name())),
                Err(Refused::Login(why)) => return Err(format!("{}: {why}", address.name())),
            }
        }
        Err(reasons.join("; "))
    }

    async fn enter(login: &ConsoleLogin, address: &Address) -> Result<Self, Refused> {
        let limit = login.config.get_connect_timeout().copied().unwrap_or(ANSWER_TIME_MAX);
        let late = |_| Refused::Unreachable(format!("no answer within {} s", limit.as_secs()));
        let stream = timeout(limit, open(address)).await.map_err(late)?;
        let stream = stream.map_err(|error| Refused::Unreachable(bare(&error)))?;
        let received = Arc::new(AtomicUsize::new(0));
        let stream = Counted::new(stream, received.clone(), ANSWER_BYTES_MAX);
        let mut config = login.config.clone();
        let secure = match address {
            Address::Socket { .. } => None,
            Address::Tcp { .. } if config.get_ssl_mode() == SslMode::Disable => None,
            Address::Tcp { host, .. } => Some(login.trust.secure(host).map_err(Refused::Login)?),
        };
        // As in libpq, a unix socket is never encrypted: its bytes do not leave the machine.
        if matches!(address, Address::Socket { .. }) {
            config.ssl_mode(SslMode::Disable);
        }
        let login = config.connect_raw(stream, Secure::optional(secure));
        let login = timeout(limit, login).await.map_err(late)?;
        let (client, connection) = login.map_err(|error| Refused::Login(login_words(&error)))?;
        let connection = Box::new(connection);
        let (address, version) = (address.name(), String::new());
        let mut console =
            Self { client, connection, received, notices: Vec::new(), commands: Commands::default(), address, version };
        let version = console.ask("SHOW VERSION").await.map_err(Refused::Login)?;
        // A server that is no console would be asked for tables that it does not have.
        let version = match version {
            Ok(version) => version,
            Err(why) => {
                console.leave().await;
                return Err(Refused::Login(format!("this is no console: {why}")));
            }
        };
        version
            .rows()
            .first()
            .and_then(|row| row.first()?.as_ref())
            .unwrap_or(&String::new())
            .clone_into(&mut console.version);
        // In PgBouncer an unknown command causes an error in its log, so the help is read first; it arrives in a
        // notice.
        let _ = console.ask("SHOW HELP").await.map_err(Refused::Login)?;
        console.commands = Commands::read(&console.notices.join("\n"));
        Ok(console)
    }

    /// The console's address, the user, and the console's version.
    pub(crate) fn title(&self, login: &ConsoleLogin) -> String {
        format!("{}  user {}  {}", self.address, login.user(), self.version)
    }

    /// Asks a command, and returns the console's table or error.
    ///
    /// # Errors
    /// The connection is lost, and why.
    pub(crate) async fn ask(&mut self, command: &str) -> Result<Answer, String> {
        self.received.store(0, Ordering::Relaxed);
        self.notices.clear();
        let command = &*self.commands.with_all_columns(command);
        let Self { client, connection, notices, .. } = self;
        let asked = timeout(ANSWER_TIME_MAX, async {
            tokio::select! {
                biased;
                answer = answer(client, command) => answer.map_err(Some),
                why = ended(connection, notices) => Err(why),
            }
        });
        match asked.await {
            Err(_) => Err(format!("no answer to {command} within {} s", ANSWER_TIME_MAX.as_secs())),
            Ok(Ok(table)) => Ok(Ok(table)),
            Ok(Err(Some(error))) if is_refusal(&error) => Ok(Err(words(&error))),
            Ok(Err(Some(error))) if error.is_closed() => Err(self.reason().await.unwrap_or_else(closed)),
            Ok(Err(Some(error))) => Err(words(&error)),
            Ok(Err(None)) => Err(closed()),
        }
    }

    /// Gives an order that may take long, and passes on what the console tells meanwhile. Ctrl-C has it canceled.
    ///
    /// # Errors
    /// The connection is lost, and why.
    pub(crate) async fn order(
        &mut self,
        command: &str,
        login: &ConsoleLogin,
        tell: &mut impl FnMut(&str),
    ) -> Result<Ordered, String> {
        self.received.store(0, Ordering::Relaxed);
        let Self { client, connection, .. } = self;
        let canceler = client.cancel_token();
        let ordered = answer(client, command);
        tokio::pin!(ordered);
        let mut is_given_up = false;
        loop {
            tokio::select! {
                biased;
                told = told(connection) => match told {
                    Some(Ok(line)) => tell(&line),
                    Some(Err(error)) => return Err(words(&error)),
                    None => return Err(closed()),
                },
                answer = &mut ordered => return match answer {
                    Ok(_) => Ok(Ordered::Done),
                    Err(error) if is_refusal(&error) => Ok(Ordered::Refused(words(&error))),
                    Err(error) => Err(words(&error)),
                },
                _ = tokio::signal::ctrl_c() => {
                    if std::mem::replace(&mut is_given_up, true) {
                        return Err("interrupted: the order goes on without this command".to_owned());
                    }
                    tell("giving up");
                    cancel(&canceler, login, &self.address).await;
                }
            }
        }
    }

    /// Ends the connection with Terminate, so that the pooler does not log a lost client. A console that still has to
    /// answer is waited for, but no longer than [`LEAVE_TIME_MAX`].
    pub(crate) async fn leave(self) {
        let Self { client, mut connection, mut notices, .. } = self;
        // The driver sends Terminate when it has neither a client nor a request.
        drop(client);
        let _ = timeout(LEAVE_TIME_MAX, ended(&mut connection, &mut notices)).await;
    }

    /// Why the connection has ended, if the driver knows.
    async fn reason(&mut self) -> Option<String> {
        let ended = timeout(Duration::from_secs(1), ended(&mut self.connection, &mut self.notices));
        ended.await.ok()?.map(|error| words(&error))
    }
}

/// What has become of an order.
pub(crate) enum Ordered {
    /// It was carried out.
    Done,
    /// It was not, and why.
    Refused(String),
}

/// Runs the connection until the console tells something, or until it ends.
async fn told(connection: &mut Connected) -> Option<Result<String, tokio_postgres::Error>> {
    poll_fn(|cx| {
        loop {
            match ready!(connection.poll_message(cx)) {
                Some(Ok(AsyncMessage::Notice(notice))) => return Poll::Ready(Some(Ok(clean(notice.message())))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    })
    .await
}

/// Sends a cancel request to the address of a console. If it is lost, the order goes on.
async fn cancel(canceler: &CancelToken, login: &ConsoleLogin, name: &str) {
    let Some(address) = login.addresses.iter().find(|address| address.name() == name) else { return };
    let secure = match address {
        Address::Tcp { host, .. } if login.config.get_ssl_mode() != SslMode::Disable => login.trust.secure(host).ok(),
        Address::Tcp { .. } | Address::Socket { .. } => None,
    };
    let canceling = async {
        if let Ok(stream) = open(address).await {
            let _ = canceler.cancel_query_raw(stream, Secure::optional(secure)).await;
        }
    };
    let _ = timeout(LEAVE_TIME_MAX, canceling).await;
}

/// Runs the connection until it ends, returns why it ended, and keeps the details of notices.
async fn ended(connection: &mut Connected, notices: &mut Vec<String>) -> Option<tokio_postgres::Error> {
    poll_fn(|cx| {
        loop {
            match ready!(connection.poll_message(cx)) {
                Some(Ok(AsyncMessage::Notice(notice))) if notices.len() < NOTICES_MAX => {
                    notices.extend(
                        notice.detail().map(|detail| detail.chars().take(NOTICE_CHARS_MAX).collect::<String>()),
                    );
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Some(error)),
                None => return Poll::Ready(None),
            }
        }
    })
    .await
}

type Connected = Connection<Opened, Secured<Opened>>;
type Opened = Counted<Box<dyn Stream>>;

enum Refused {
    /// Another address may work.
    Unreachable(String),
    /// The console answered and refused the login.
    Login(String),
}

async fn open(address: &Address) -> io::Result<Box<dyn Stream>> {
    Ok(match address {
        Address::Socket { path } => Box::new(UnixStream::connect(path).await?),
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
    })
}

async fn answer(client: &Client, command: &str) -> Result<Table, tokio_postgres::Error> {
    let stream = client.simple_query_raw(command).await?;
    tokio::pin!(stream);
    let mut table = Table::default();
    while let Some(message) = stream.next().await {
        match message? {
            SimpleQueryMessage::RowDescription(columns) => {
                table = Table::new(columns.iter().map(|column| column.name()))
            }
            SimpleQueryMessage::Row(row) => {
                table.push((0..row.len()).map(|at| row.try_get(at).unwrap_or(Some("(not UTF-8)"))));
            }
            _ => {}
        }
    }
    Ok(table)
}

/// Whether an error is the console's answer, after which the connection continues.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| error.severity() == "ERROR")
}

fn closed() -> String {
    "the console has closed the connection".to_owned()
}

/// An error as one line.
fn words(error: &tokio_postgres::Error) -> String {
    let text = match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(error), _) => format!("{}: {}", error.severity(), error.message()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    clean(&text)
}

fn login_words(error: &tokio_postgres::Error) -> String {
    let text = words(error);
    if text.contains("password missing") {
        return "the console asks for a password: set PGPASSWORD, or write a line into ~/.pgpass".to_owned();
    }
    // Both poolers send this to a user who is not allowed on the console.
    if text.ends_with("not allowed") {
        return format!("{text} (the user has to be one of admin_users or stats_users; -U says which)");
    }
    text
}

/// The text of a system error without its number.
fn bare(error: &io::Error) -> String {
    let text = error.to_string();
    clean(text.split(" (os error").next().unwrap_or(&text))
}

/// How long an answer may take before the connection counts as broken.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long the end of a connection may take.
pub(crate) const LEAVE_TIME_MAX: Duration = Duration::from_millis(500);

/// Most notices kept from one answer.
const NOTICES_MAX: usize = 8;
/// Most characters kept from one notice.
const NOTICE_CHARS_MAX: usize = 65_536;

/// Most bytes of an answer: enough for some hundred thousand clients.
const ANSWER_BYTES_MAX: usize = 64 << 20;
