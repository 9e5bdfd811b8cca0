//! Where observations come from: files, `/metrics` of a pooler, a console, a PostgreSQL server.
//!
//! Always true: nothing is written to what is asked; an answer has a largest size and a deadline. Ctrl-C ends the time between two readings.
//! Not here: what observations mean (`facts`).

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant, SystemTime};

use conninfo::Trust;
use rustls::{ClientConnection, StreamOwned};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::terms::Terms;
use crate::connection::{Line, console_target, server_target};
use crate::facts::{
    self, Demand, Reading, Record, Scrape, amount, demand_of_history, demand_of_scrapes, parse_history, time_of, word,
};
use crate::hatest::Target;
use crate::trial::Interrupt;

/// The demand that `/metrics` tell, each from a URL, which is asked again and again, or from a file. `None` if it was ended early.
pub(super) fn of_metrics(
    names: &[String],
    interval: Duration,
    interrupt: &Interrupt,
) -> Result<Option<Demand>, String> {
    let mut scrapes = Vec::new();
    for name in names {
        if !name.starts_with("http://") && !name.starts_with("https://") {
            scrapes.extend(scrapes_of_file(name)?);
            continue;
        }
        let began = Instant::now();
        let mut of_url: Vec<Scrape> = Vec::new();
        loop {
            let asked = Instant::now();
            let (at, text) = timed(began, || fetch(name));
            let text = text.map_err(|why| format!("{name}: {why}"))?;
            of_url.push(Scrape::parse(at, &text).map_err(|why| format!("{name}: {why}"))?);
            let left = interval.saturating_sub(began.elapsed());
            if left.is_zero() && of_url.len() > 1 {
                break;
            }
            let rows = of_url.last().map_or(0, Scrape::rows);
            if interrupt.wait(pause(BETWEEN_SCRAPES, asked.elapsed(), rows, interval).min(left)).is_err() {
                return Ok(None);
            }
        }
        scrapes.extend(of_url);
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
    let (is_secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err("only http:// and https:// are understood".to_owned()),
    };
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let has_port = authority.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let (host, with_port) = match authority.rsplit_once(':').filter(|_| has_port) {
        Some((host, _)) => (host, authority.to_owned()),
        None => (authority, format!("{authority}:{}", if is_secure { 443 } else { 80 })),
    };
    let fails = |why: std::io::Error| why.to_string();
    let address = with_port.to_socket_addrs().map_err(fails)?.next().ok_or("the name has no address")?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(fails)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fails)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(fails)?;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain\r\n\r\n");
    match is_secure {
        true => ask(encrypted(stream, host.trim_matches(['[', ']']))?, &request),
        false => ask(stream, &request),
    }
}

/// TLS over a connection, to a host whose certificate an authority of this system, or of `SSL_CERT_FILE`, has signed.
fn encrypted(stream: TcpStream, host: &str) -> Result<impl Read + Write, String> {
    let (config, name) = Trust::System.secure(host)?.into_parts();
    let connection = ClientConnection::new(config, name).map_err(|why| why.to_string())?;
    Ok(StreamOwned::new(connection, stream))
}

fn ask(mut stream: impl Read + Write, request: &str) -> Result<String, String> {
    let fails = |why: std::io::Error| why.to_string();
    stream.write_all(request.as_bytes()).map_err(fails)?;
    let (mut answer, mut chunk, until) = (Vec::new(), [0; 1 << 16], Instant::now() + PATIENCE);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            // Many servers end an encrypted connection without saying so; HTTP/1.0 without a length has no other end.
            Err(why) if why.kind() == ErrorKind::UnexpectedEof && !answer.is_empty() => break,
            Err(why) => return Err(why.to_string()),
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
        }
        if answer.len() as u64 > facts::FILE_BYTES_MAX || Instant::now() > until {
            return Err("the answer is too long, or takes too long".to_owned());
        }
    }
    let answer = String::from_utf8(answer).map_err(|_| "the answer is not UTF-8")?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer is not HTTP")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| body.len() < length) {
        return Err("the answer was cut short".to_owned());
    }
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(format!("the answer is \"{}\"", head.lines().next().unwrap_or_default())),
    }
}

/// The demand that a console tells within an interval, asked again and again. `None` if it was ended early.
pub(super) fn of_console(conninfo: &str, interval: Duration, interrupt: &Interrupt) -> Result<Option<Demand>, String> {
    let mut console = Asked::connect(console_target(NAME, conninfo))?;
    let began = Instant::now();
    let mut readings: Vec<Reading> = Vec::new();
    let mut has_histograms = true;
    loop {
        let is_end = readings.len() > 1 && interval.saturating_sub(began.elapsed()).is_zero();
        let asked = Instant::now();
        let (at, stats) = timed(began, || console.records("SHOW STATS"));
        let mut reading = Reading::new(at);
        take(&mut reading, stats?);
        take(&mut reading, console.records("SHOW POOLS")?);
        // Sums of each pool since the start, which only Trunkline has; PgBouncer refuses the question.
        if (readings.is_empty() || is_end) && has_histograms {
            let histograms = console.records("SHOW HISTOGRAMS");
            has_histograms = histograms.is_ok();
            take(&mut reading, histograms.unwrap_or_default());
        }
        let rows = reading.rows();
        readings.push(reading);
        if is_end {
            break;
        }
        let left = interval.saturating_sub(began.elapsed());
        if interrupt.wait(pause(BETWEEN_READINGS, asked.elapsed(), rows, interval).min(left)).is_err() {
            return Ok(None);
        }
    }
    demand_of_history(&readings, "a console").map(Some)
}

fn take(reading: &mut Reading, records: Vec<Record>) {
    for record in records {
        let (columns, cells): (Vec<String>, Vec<String>) = record.into_iter().unzip();
        reading.take(&columns, &cells);
    }
}

/// How long to wait after an answer before asking again: so that answering takes a twentieth of the time at most, and that not too much is kept.
fn pause(least: Duration, took: Duration, rows: usize, interval: Duration) -> Duration {
    let kept = interval.mul_f64((rows as f64 / ROWS_KEPT).min(1.0));
    least.max(took * SHARE_OF_ANSWERS).max(kept)
}

/// Fills in what a PostgreSQL server says of itself, where the operator says nothing.
pub(super) fn of_server(conninfo: &str, terms: &mut Terms) -> Result<(), String> {
    let mut server = Asked::connect(server_target(NAME, conninfo))?;
    let rows = server.records(
        "SELECT name, setting, coalesce(unit, '') AS unit FROM pg_settings WHERE name IN ('max_connections', \
         'superuser_reserved_connections', 'reserved_connections', 'shared_buffers', 'work_mem', 'huge_pages', 'huge_pages_status')",
    )?;
    let find = |name: &str| rows.iter().find(|row| word(row, "name") == name);
    let number = |name: &str| {
        let row = find(name)?;
        let factor = match word(row, "unit").as_str() {
            "8kB" => 8192.0,
            "kB" => 1024.0,
            "MB" => 1024.0 * 1024.0,
            _ => 1.0,
        };
        amount(row, "setting").map(|value| value * factor)
    };
    terms.max_connections = terms.max_connections.or(number("max_connections"));
    let reserved =
        number("superuser_reserved_connections").map(|own| own + number("reserved_connections").unwrap_or(0.0));
    terms.reserved = terms.reserved.or(reserved);
    terms.shared_buffers = terms.shared_buffers.or(number("shared_buffers"));
    terms.work_mem = terms.work_mem.or(number("work_mem"));
    // huge_pages = try may have failed, which only 17 tells.
    let has = |name: &str| find(name).is_some_and(|row| word(row, "setting") == "on");
    terms.has_huge_pages |= has("huge_pages") || has("huge_pages_status");
    Ok(())
}

/// A connection on which questions are asked.
struct Asked {
    runtime: Runtime,
    local: LocalSet,
    line: Line,
}

impl Asked {
    fn connect(target: Result<Target, String>) -> Result<Self, String> {
        let target = target?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
        let local = LocalSet::new();
        let line = local.block_on(&runtime, Line::open(&target))?;
        Ok(Self { runtime, local, line })
    }

    fn records(&mut self, question: &str) -> Result<Vec<Record>, String> {
        self.local.block_on(&self.runtime, self.line.records(question))
    }
}

/// The `application_name`.
const NAME: &str = "trunkline advise";
const PATIENCE: Duration = Duration::from_secs(10);
/// So that a minute has more than a thousand readings, ten of them beyond a 99th percentile.
const BETWEEN_READINGS: Duration = Duration::from_millis(50);
/// A page of metrics is more work for a pooler than two tables of its console.
const BETWEEN_SCRAPES: Duration = Duration::from_millis(250);
const SHARE_OF_ANSWERS: u32 = 20;
/// Rows of all answers together that are kept, at most about.
const ROWS_KEPT: f64 = 2e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_pooler_is_asked_less_often() {
        let (millis, minute) = (Duration::from_millis, Duration::from_secs(60));
        assert_eq!(pause(millis(50), millis(1), 20, minute), millis(50));
        assert_eq!(pause(millis(50), millis(20), 20, minute), millis(400));
        assert_eq!(pause(millis(50), millis(1), 200_000, minute), millis(6000));
        assert_eq!(pause(millis(50), millis(1), usize::MAX, minute), minute);
    }
}
