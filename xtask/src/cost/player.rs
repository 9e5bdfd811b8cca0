//! A client in lock-step: it sends, and waits for the answer before it sends again.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ops::trial::USER;

/// A client that is logged in.
pub(super) struct Player {
    stream: TcpStream,
    port: u16,
    database: &'static str,
}

impl Player {
    pub(super) fn come(port: u16, database: &'static str) -> io::Result<Self> {
        let stream = connect(port)?;
        let mut player = Self { stream, port, database };
        player.greet()?;
        Ok(player)
    }

    /// Leaves, and comes again.
    pub(super) fn log_in(&mut self) -> io::Result<()> {
        self.stream.write_all(&message(b'X', b""))?;
        // The pooler closes: then nothing of the old connection is left for the next one's turns.
        self.stream.read_to_end(&mut Vec::new())?;
        self.stream = connect(self.port)?;
        self.greet()
    }

    /// Sends, and reads up to ReadyForQuery.
    pub(super) fn ask(&mut self, messages: &[u8]) -> io::Result<()> {
        self.stream.write_all(messages)?;
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length.saturating_sub(4) as usize];
            self.stream.read_exact(&mut body)?;
            match head[0] {
                b'Z' => return Ok(()),
                b'E' => return Err(io::Error::other(String::from_utf8_lossy(&body).into_owned())),
                _ => {}
            }
        }
    }

    fn greet(&mut self) -> io::Result<()> {
        let body = format!("user\0{USER}\0database\0{}\0\0", self.database);
        let length = body.len() as u32 + 8;
        self.ask(&[&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), body.as_bytes()].concat())
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
