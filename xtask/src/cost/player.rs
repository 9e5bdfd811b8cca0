//! A client in lock-step: it sends, and waits for the answer before it sends again.
//!
//! Always true: it sends nothing before everything is idle, so the pooler never handles its message in one turn with
//! something else.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ops::trial::{DATABASE, USER};

use super::quiet::wait_for_quiet;
use crate::playing::Exchange;

/// A client that is logged in.
pub(super) struct Player {
    stream: TcpStream,
    port: u16,
    startup: &'static [(String, String)],
}

impl Player {
    /// Logs in, with these settings in its startup packet.
    pub(super) fn come(port: u16, startup: &'static [(String, String)]) -> io::Result<Self> {
        let mut player = Self { stream: connect(port)?, port, startup };
        player.greet()?;
        Ok(player)
    }

    /// Disconnects and logs in again.
    pub(super) fn log_in(&mut self) -> io::Result<()> {
        wait_for_quiet()?;
        self.stream.write_all(&message(b'X', b""))?;
        // Waits until the pooler has closed the connection, so that the next connection's turns have nothing left to do
        // for it.
        self.stream.read_to_end(&mut Vec::new())?;
        wait_for_quiet()?;
        self.stream = connect(self.port)?;
        self.greet()
    }

    /// Sends, and reads up to `ReadyForQuery`. An error ends the run.
    pub(super) fn ask(&mut self, messages: &[u8]) -> io::Result<()> {
        self.exchange(messages, 1)?.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    fn greet(&mut self) -> io::Result<()> {
        let settings = self.startup.iter().map(|(name, value)| format!("{name}\0{value}\0")).collect::<String>();
        let body = format!("user\0{USER}\0database\0{DATABASE}\0{settings}\0");
        let length = body.len() as u32 + 8;
        self.ask(&[&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), body.as_bytes()].concat())
    }
}

impl Exchange for Player {
    fn exchange(&mut self, messages: &[u8], mut answers: u32) -> io::Result<Option<String>> {
        wait_for_quiet()?;
        self.stream.write_all(messages)?;
        let mut error = None;
        while answers > 0 {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length.saturating_sub(4) as usize];
            self.stream.read_exact(&mut body)?;
            match head[0] {
                b'Z' => answers -= 1,
                b'E' if error.is_none() => error = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
                _ => {}
            }
        }
        Ok(error)
    }
}

/// A message with its type and length.
pub(super) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

const PATIENCE: Duration = Duration::from_secs(30);
