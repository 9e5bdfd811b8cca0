//! A minimal PostgreSQL client that really logs in and runs queries.
//!
//! Always true: it holds a socket and nothing else, so that thousands of clients are cheap; reading an answer takes
//! constant memory.
//! Not here: passwords (the trial's server and poolers trust the loopback interface), TLS, the extended protocol.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A client that is logged in.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
}

/// Why a client failed.
#[derive(Debug)]
pub enum ClientError {
    /// The connection failed or broke.
    Broken(io::Error),
    /// The message of an ErrorResponse.
    Refused(String),
}

impl Client {
    /// Connects to a port of the loopback interface and logs in (StartupMessage, protocol 3.0). Neither this nor any
    /// later read takes longer than `patience`.
    ///
    /// # Errors
    /// The connection fails, or the server refuses or asks for a password.
    pub fn log_in(port: u16, user: &str, database: &str, patience: Duration) -> Result<Self, ClientError> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream };
        client.stream.write_all(&startup(user, database))?;
        client.until_ready()?;
        Ok(client)
    }

    /// Runs SQL by the simple protocol and returns the number of bytes of the answer.
    ///
    /// # Errors
    /// The connection breaks, or the answer contains an error.
    pub fn run(&mut self, sql: &str) -> Result<u64, ClientError> {
        let length = u32::try_from(sql.len() + 5).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        let message = [b"Q", &length.to_be_bytes()[..], sql.as_bytes(), b"\0"].concat();
        self.stream.write_all(&message)?;
        self.until_ready()
    }

    /// Reads up to and including ReadyForQuery.
    fn until_ready(&mut self) -> Result<u64, ClientError> {
        let mut refusal = None;
        let mut bytes = 0;
        loop {
            let mut head = [0; 5];
            match self.stream.read_exact(&mut head) {
                Ok(()) => {}
                // A server that refuses a login closes the connection after the error.
                Err(why) => return Err(refusal.map_or(ClientError::Broken(why), ClientError::Refused)),
            }
            let [kind, length @ ..] = head;
            let body = u64::from(u32::from_be_bytes(length)).saturating_sub(4);
            bytes += body + 5;
            match kind {
                b'Z' => {
                    self.skip(body)?;
                    return refusal.map_or(Ok(bytes), |words| Err(ClientError::Refused(words)));
                }
                b'E' => refusal = Some(refusal_in(&self.short_body(body)?)),
                b'R' if self.short_body(body)?.iter().any(|&byte| byte != 0) => {
                    return Err(ClientError::Refused("a password is wanted".into()));
                }
                b'R' => {}
                _ => self.skip(body)?,
            }
        }
    }

    fn short_body(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        (&self.stream).take(bytes.min(SHORT_BYTES_MAX)).read_to_end(&mut body)?;
        self.skip(bytes.saturating_sub(SHORT_BYTES_MAX))?;
        Ok(body)
    }

    fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        let mut small = [0; 256];
        let mut large = if bytes > 65_536 { vec![0; 262_144] } else { Vec::new() };
        let buffer = if large.is_empty() { &mut small[..] } else { &mut large[..] };
        while bytes > 0 {
            let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
            match self.stream.read(&mut buffer[..most])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => bytes -= count as u64,
            }
        }
        Ok(())
    }
}

impl From<io::Error> for ClientError {
    fn from(why: io::Error) -> Self {
        Self::Broken(why)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(why) => write!(f, "{why}"),
            Self::Refused(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for ClientError {}

fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    for word in ["user", user, "database", database, ""] {
        body.extend_from_slice(word.as_bytes());
        body.push(0);
    }
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &body].concat()
}

/// The message field (`M`) of an ErrorResponse.
fn refusal_in(body: &[u8]) -> String {
    let mut fields = body.split(|&byte| byte == 0);
    let words = fields.find_map(|field| field.strip_prefix(b"M"));
    String::from_utf8_lossy(words.unwrap_or(b"an error without words")).into_owned()
}

/// Longer bodies of the messages that are examined are truncated.
const SHORT_BYTES_MAX: u64 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_startup_message_has_its_length_its_version_and_its_end() {
        let message = startup("a", "b");
        assert_eq!(message, b"\0\0\0\x1b\0\x03\0\0user\0a\0database\0b\0\0");
    }

    #[test]
    fn the_words_of_a_refusal_are_its_message_field() {
        assert_eq!(refusal_in(b"SFATAL\0C53300\0Mtoo many\0\0"), "too many");
        assert_eq!(refusal_in(b""), "an error without words");
    }
}
