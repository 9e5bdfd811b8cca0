//! The bytes of a connection of the load generator: in clear, or encrypted.
//!
//! Always true: nothing blocks; before the other side has said that it speaks TLS, nothing but the question is sent; what is read of its
//! answer is the one byte, so that nothing sent in clear is taken for encrypted.
//! Not here: what the bytes mean (`session`), which mode was asked for (`connection::Tls`).

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use rustls::ClientConnection;
use socket2::Socket;

use crate::connection::Tls;

/// A connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: Socket,
    cover: Cover,
    /// What is to be sent, in clear.
    pub(super) unsent: Vec<u8>,
}

#[derive(Debug)]
enum Cover {
    None,
    /// TLS is asked for as soon as the connection is there.
    Wanted(Tls),
    /// The answer is awaited.
    Asked(Tls),
    On(Box<ClientConnection>),
}

impl Channel {
    pub(super) fn new(socket: Socket, tls: Option<Tls>) -> Self {
        Self { socket, cover: tls.map_or(Cover::None, Cover::Wanted), unsent: Vec::new() }
    }

    /// The connection is there, or has failed.
    pub(super) fn connected(&mut self) -> io::Result<()> {
        if let Some(why) = self.socket.take_error()? {
            return Err(why);
        }
        if let Cover::Wanted(tls) = std::mem::replace(&mut self.cover, Cover::None) {
            // A new connection takes eight bytes.
            self.socket.write_all(&SSL_REQUEST)?;
            self.cover = Cover::Asked(tls);
        }
        Ok(())
    }

    /// Whether it waits for its socket to take something.
    pub(super) fn wants_write(&self) -> bool {
        match &self.cover {
            Cover::Asked(_) => false,
            Cover::On(tls) => tls.wants_write() || !self.unsent.is_empty(),
            Cover::None | Cover::Wanted(_) => !self.unsent.is_empty(),
        }
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.cover {
            Cover::Wanted(_) | Cover::Asked(_) => Ok(()),
            Cover::None => {
                while !self.unsent.is_empty() {
                    match self.socket.write(&self.unsent) {
                        Ok(count) => drop(self.unsent.drain(..count)),
                        Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                        Err(why) if why.kind() == ErrorKind::Interrupted => {}
                        Err(why) => return Err(why),
                    }
                }
                Ok(())
            }
            Cover::On(tls) => {
                // Before the handshake is over it is kept, and nothing of it is sent.
                tls.writer().write_all(&self.unsent)?;
                self.unsent.clear();
                while tls.wants_write() {
                    match tls.write_tls(&mut self.socket) {
                        Ok(_) => {}
                        Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                        Err(why) if why.kind() == ErrorKind::Interrupted => {}
                        Err(why) => return Err(why),
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads some bytes; 0 is the end. `WouldBlock` means that nothing more has come.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.cover {
                Cover::None | Cover::Wanted(_) => return self.socket.read(buffer),
                Cover::Asked(_) => {
                    let mut answer = [0];
                    if self.socket.read(&mut answer)? == 0 {
                        return Ok(0);
                    }
                    self.answered(answer[0])?;
                }
                Cover::On(tls) => {
                    match tls.reader().read(buffer) {
                        Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                        other => return other,
                    }
                    if tls.read_tls(&mut self.socket)? == 0 {
                        return Ok(0);
                    }
                    let outcome = tls.process_new_packets().map_err(io::Error::other);
                    // An alert says to the other side why.
                    self.flush()?;
                    outcome?;
                }
            }
        }
    }

    /// Whether what was read of the socket may be more than what was returned.
    pub(super) fn may_have_more(&self) -> bool {
        !matches!(self.cover, Cover::None)
    }

    fn answered(&mut self, answer: u8) -> io::Result<()> {
        let Cover::Asked(tls) = std::mem::replace(&mut self.cover, Cover::None) else { return Ok(()) };
        match answer {
            b'S' => {
                let mut connection = ClientConnection::new(tls.config, tls.name).map_err(io::Error::other)?;
                connection.set_buffer_limit(None);
                self.cover = Cover::On(Box::new(connection));
            }
            b'N' if !tls.is_required => {}
            b'N' => return Err(io::Error::other("it does not speak TLS, which sslmode requires")),
            _ => return Err(io::Error::other("it answers a request for TLS with something else")),
        }
        self.flush()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The protocol's SSLRequest: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
