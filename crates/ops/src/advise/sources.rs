//! Where observations come from: files, `/metrics` of a pooler, a console, a PostgreSQL server.
//!
//! Always true: nothing is written to what is asked; an answer has a largest size and a deadline. Ctrl-C ends the time between two readings.
//! Not here: what observations mean (`facts`).

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream as Socket, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::terms::Terms;
use crate::facts::{self, Demand, Reading, Scrape, demand_of_history, demand_of_scrapes, parse_history, time_of};
use crate::trial::Interrupt;

/// The demand that `/metrics` tell, each from a URL, which is asked twice, or from a file. `None` if it was ended early.
pub(super) fn of_metrics(
    names: &[String],
    interval: Duration,
    interrupt: &Interrupt,
) -> Result<Option<Demand>, String> {
    let mut scrapes = Vec::new();
    for name in names {
        if !name.starts_with("http://") {
            scrapes.extend(scrapes_of_file(name)?);
            continue;
        }
        let began = Instant::now();
        for reading in 0..2 {
            if reading > 0 && interrupt.wait(interval).is_err() {
                return Ok(None);
            }
            let (at, text) = timed(began, || fetch(name));
            let text = text.map_err(|why| format!("{name}: {why}"))?;
            scrapes.push(Scrape::parse(at, &text).map_err(|why| format!("{name}: {why}"))?);
        }
    }
    scrapes.sort_by(|a, b| a.at.total_cmp(&b.at));
    demand_of_scrapes(&scrapes, &names.join(", ")).map(Some)
}

/// Asks something. Returns the answer and the time for which it holds, in seconds: nobody knows better than the middle between question and
/// answer, and counters go on while an answer is late.
fn timed<T>(began: Instant, ask: impl FnOnce() -> T) -> (f64, T) {
    let asked = began.elapsed();
    let answer = ask();
    ((asked + began.elapsed()).as_secs_f64() / 2.0, answer)
}

/// The scrapes of a file: each behind a line `# SECONDS`, or one of the time at which the file was written.
fn scrapes_of_file(path: &str) -> Result<Vec<Scrape>, String> {
    let text = read(path)?;
    let mark = |line: &str| line.strip_prefix('#').and_then(time_of);
    let mut parts: Vec<(f64, String)> = Vec::new();
    for line in text.lines() {
        match (mark(line), parts.last_mut()) {
            (Some(at), _) => parts.push((at, String::new())),
            (None, Some((_, part))) => {
                part.push_str(line);
                part.push('\n');
            }
            (None, None) => break,
        }
    }
    if parts.is_empty() {
        let written = std::fs::metadata(path).and_then(|about| about.modified()).ok();
        let at = written.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        parts.push((at.map_or(0.0, |at| at.as_secs_f64()), text));
    }
    parts.iter().map(|(at, text)| Scrape::parse(*at, text).map_err(|why| format!("{path}: {why}"))).collect()
}

/// The demand that a history of a console tells.
pub(super) fn of_history(path: &str) -> Result<Demand, String> {
    let readings = parse_history(&read(path)?).map_err(|why| format!("{path}: {why}"))?;
    demand_of_history(&readings, path)
}

fn read(path: &str) -> Result<String, String> {
    let bytes = facts::read(path).map_err(|why| format!("{path}: {why}"))?;
    String::from_utf8(bytes).map_err(|_| format!("{path}: it is not UTF-8"))
}

/// The body of an answer to GET, by HTTP/1.0, which has neither chunks nor a second answer.
fn fetch(url: &str) -> Result<String, String> {
    let rest = url.strip_prefix("http://").ok_or("only http:// is understood")?;
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let with_port = if authority.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let fails = |why: std::io::Error| why.to_string();
    let address = with_port.to_socket_addrs().map_err(fails)?.next().ok_or("the name has no address")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(fails)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fails)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(fails)?;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(fails)?;
    let (mut answer, mut chunk, until) = (Vec::new(), [0; 1 << 16], Instant::now() + PATIENCE);
    loop {
        match stream.read(&mut chunk).map_err(fails)? {
            0 => break,
            count => answer.extend_from_slice(&chunk[..count]),
        }
        if answer.len() as u64 > facts::FILE_BYTES_MAX || Instant::now() > until {
            return Err("the answer is too long, or takes too long".to_owned());
        }
    }
    let answer = String::from_utf8(answer).map_err(|_| "the answer is not UTF-8")?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer is not HTTP")?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(format!("the answer is \"{}\"", head.lines().next().unwrap_or_default())),
    }
}

/// The demand that a console tells within an interval, asked every second. `None` if it was ended early.
pub(super) fn of_console(conninfo: &str, interval: Duration, interrupt: &Interrupt) -> Result<Option<Demand>, String> {
    let console = Asked::connect(conninfo, "pgbouncer")?;
    let began = Instant::now();
    let mut readings = Vec::new();
    loop {
        let (at, stats) = timed(began, || console.rows("SHOW STATS"));
        let mut reading = Reading::new(at);
        for (columns, rows) in [stats?, console.rows("SHOW POOLS")?] {
            rows.iter().for_each(|row| reading.take(&columns, row));
        }
        readings.push(reading);
        let left = interval.saturating_sub(began.elapsed());
        if left.is_zero() && readings.len() > 1 {
            break;
        }
        if interrupt.wait(left.clamp(Duration::from_millis(10), BETWEEN_READINGS)).is_err() {
            return Ok(None);
        }
    }
    demand_of_history(&readings, "a console").map(Some)
}

/// Fills in what a PostgreSQL server says of itself, where the operator says nothing.
pub(super) fn of_server(conninfo: &str, terms: &mut Terms) -> Result<(), String> {
    let server = Asked::connect(conninfo, "postgres")?;
    let (_, rows) = server.rows(
        "SELECT name, setting, coalesce(unit, '') FROM pg_settings WHERE name IN ('max_connections', \
         'superuser_reserved_connections', 'reserved_connections', 'shared_buffers', 'work_mem', 'huge_pages', 'huge_pages_status')",
    )?;
    let text = |name: &str| rows.iter().find(|row| row.first().is_some_and(|own| own == name));
    let number = |name: &str| {
        let row = text(name)?;
        let factor = match row.get(2)?.as_str() {
            "8kB" => 8192.0,
            "kB" => 1024.0,
            "MB" => 1024.0 * 1024.0,
            _ => 1.0,
        };
        row.get(1)?.parse::<f64>().ok().map(|value| value * factor)
    };
    terms.max_connections = terms.max_connections.or(number("max_connections"));
    let reserved =
        number("superuser_reserved_connections").map(|own| own + number("reserved_connections").unwrap_or(0.0));
    terms.reserved = terms.reserved.or(reserved);
    terms.shared_buffers = terms.shared_buffers.or(number("shared_buffers"));
    terms.work_mem = terms.work_mem.or(number("work_mem"));
    // huge_pages = try may have failed, which only 17 tells.
    let has = |name: &str| text(name).and_then(|row| row.get(1)).is_some_and(|value| value == "on");
    terms.has_huge_pages |= has("huge_pages") || has("huge_pages_status");
    Ok(())
}

/// A connection on which questions are asked. It is not encrypted: consoles and servers that want TLS are not asked.
struct Asked {
    runtime: Runtime,
    client: Client,
}

impl Asked {
    fn connect(conninfo: &str, database: &str) -> Result<Self, String> {
        let mut config: Config = conninfo.parse().map_err(|why| format!("the connection string is wrong: {why}"))?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err("sslmode=require: only connections without TLS are made; use --metrics or --history".to_owned());
        }
        if config.get_dbname().is_none() {
            config.dbname(database);
        }
        if let (None, Ok(password)) = (config.get_password(), std::env::var("PGPASSWORD")) {
            config.password(password);
        }
        config.ssl_mode(SslMode::Disable).application_name("trunkline advise");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
        let login = async { timeout(PATIENCE, log_in(&config)).await };
        let client = runtime.block_on(login).map_err(|_| format!("no login within {} s", PATIENCE.as_secs()))??;
        Ok(Self { runtime, client })
    }

    /// The names of the columns, and the rows of an answer as text.
    fn rows(&self, question: &str) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
        let asked = self.runtime.block_on(async { timeout(PATIENCE, self.client.simple_query(question)).await });
        let messages =
            asked.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?.map_err(|why| said(&why))?;
        let (mut columns, mut rows) = (Vec::new(), Vec::new());
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                columns = row.columns().iter().map(|column| column.name().to_owned()).collect();
                rows.push((0..row.len()).map(|place| row.get(place).unwrap_or_default().to_owned()).collect());
            }
        }
        Ok((columns, rows))
    }
}

/// Logs in to the first host of a connection string.
async fn log_in(config: &Config) -> Result<Client, String> {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let fails = |why: std::io::Error| why.to_string();
    match config.get_hosts().first() {
        Some(Host::Unix(folder)) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            converse(config, UnixStream::connect(path).await.map_err(fails)?).await
        }
        Some(Host::Tcp(name)) => converse(config, Socket::connect((name.as_str(), port)).await.map_err(fails)?).await,
        None => converse(config, Socket::connect(("localhost", port)).await.map_err(fails)?).await,
    }
}

async fn converse<S>(config: &Config, stream: S) -> Result<Client, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(|why| said(&why))?;
    // What ends it is told by the question that gets no answer.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(client)
}

/// An error with what the server says.
fn said(why: &tokio_postgres::Error) -> String {
    match why.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => std::error::Error::source(why).map_or_else(|| why.to_string(), |source| format!("{why}: {source}")),
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
const BETWEEN_READINGS: Duration = Duration::from_secs(1);
