//! The load of a habit: clients that play its script, in the form in which its driver sends it.
//!
//! Always true: a client waits for an answer before it goes on; what is sent at connect is not counted unless each
//! transaction connects.
//! Not here: the script and its messages (`playing`, `habits`), what PostgreSQL is sent for it (`tap`).

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use habits::Reconnects;
use ops::trial::{LoadResult, USER, percentile};

use super::habit::Played;
use crate::playing::{Draws, Exchange, Script};

/// Plays a habit for so many seconds.
pub(super) fn run(played: Played, port: u16, database: &'static str, seconds: u32) -> Result<LoadResult, String> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let come = |number| Client::come(played, port, database, number);
        let clients: io::Result<Vec<Client>> = (0..played.clients()).map(come).collect();
        let clients = clients.map_err(|why| why.to_string())?;
        let begun = Instant::now();
        let is_over = &is_over;
        let all: Vec<_> = clients.into_iter().map(|client| scope.spawn(move || client.work(is_over))).collect();
        thread::sleep(Duration::from_secs(seconds.into()));
        is_over.store(true, Ordering::Relaxed);
        let seconds = begun.elapsed().as_secs_f64();
        let mut took_ms = Vec::new();
        for client in all {
            let took = client.join().map_err(|_| "a client has panicked".to_owned())?;
            took_ms.extend(took.map_err(|why| why.to_string())?);
        }
        Ok(LoadResult {
            transactions: took_ms.len() as u64,
            tps: took_ms.len() as f64 / seconds,
            mean_ms: took_ms.iter().sum::<f64>() / took_ms.len().max(1) as f64,
            p99_ms: percentile(&mut took_ms, 99.0),
        })
    })
}

/// A client, with a connection unless each of its transactions has one of its own.
struct Client {
    played: Played,
    port: u16,
    database: &'static str,
    number: u32,
    open: Option<(Connection, Script)>,
}

impl Client {
    fn come(played: Played, port: u16, database: &'static str, number: u32) -> io::Result<Self> {
        let mut client = Self { played, port, database, number, open: None };
        if played.reconnects == Reconnects::Never {
            client.open = Some(client.connect()?);
        }
        Ok(client)
    }

    fn connect(&self) -> io::Result<(Connection, Script)> {
        let habit = self.played.habit;
        let mut connection = Connection::open(self.port, self.database, &habit.startup)?;
        let mut script = Script::of(habit, self.number, Draws::Varying);
        script.connect(&mut connection)?;
        Ok((connection, script))
    }

    /// How long each run of the script took, in milliseconds.
    fn work(mut self, is_over: &AtomicBool) -> io::Result<Vec<f64>> {
        let mut took_ms = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            match &mut self.open {
                Some((connection, script)) => script.each(connection)?,
                None => {
                    let (mut connection, mut script) = self.connect()?;
                    script.each(&mut connection)?;
                    connection.close()?;
                }
            }
            took_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        Ok(took_ms)
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Logs in, with those of these settings that PgBouncer accepts, too.
    fn open(port: u16, database: &str, startup: &[(String, String)]) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream: BufReader::new(stream) };
        let accepted = startup.iter().filter(|(name, _)| ACCEPTED.contains(&name.to_lowercase().as_str()));
        let settings: String = accepted.map(|(name, value)| format!("{name}\0{value}\0")).collect();
        let body = format!("user\0{USER}\0database\0{database}\0{settings}\0");
        let length = body.len() as u32 + 8;
        let packet = [&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), body.as_bytes()].concat();
        connection.exchange(&packet, 1)?.map_or(Ok(connection), |error| Err(io::Error::other(error)))
    }

    fn close(self) -> io::Result<()> {
        self.stream.into_inner().write_all(b"X\0\0\0\x04")
    }
}

impl Exchange for Connection {
    fn exchange(&mut self, messages: &[u8], mut answers: u32) -> io::Result<Option<String>> {
        self.stream.get_mut().write_all(messages)?;
        let (mut error, mut body) = (None, Vec::new());
        while answers > 0 {
            let mut head = [0; 5];
            match self.stream.read_exact(&mut head) {
                Ok(()) => {}
                // A pooler that refuses a login closes the connection behind the error.
                Err(why) => return error.map_or(Err(why), |error| Err(io::Error::other(error))),
            }
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]).saturating_sub(4);
            body.clear();
            (&mut self.stream).take(length.into()).read_to_end(&mut body)?;
            match head[0] {
                b'Z' => answers -= 1,
                b'E' if error.is_none() => error = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
                _ => {}
            }
        }
        Ok(error)
    }
}

/// Settings that each pooler takes from a startup packet.
const ACCEPTED: [&str; 5] =
    ["application_name", "client_encoding", "datestyle", "standard_conforming_strings", "timezone"];

const PATIENCE: Duration = Duration::from_secs(60);
