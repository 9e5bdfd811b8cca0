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
    /// Why nothing more can be sent. What the other side said before is still there to be read.
    failed: Option<io::Error>,
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
        Self { socket, cover: tls.map_or(Cover::None, Cover::Wanted), unsent: Vec::new(), failed: None }
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
            _ if self.failed.is_some() => false,
            Cover::Asked(_) => false,
            Cover::On(tls) => tls.wants_write() || !self.unsent.is_empty(),
            Cover::None | Cover::Wanted(_) => !self.unsent.is_empty(),
        }
    }

    /// Sends what the socket takes. If it fails, that is said when nothing more can be read.
    pub(super) fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(why) = self.send()
        {
            self.failed = Some(why);
        }
        if self.failed.is_some() {
            self.unsent.clear();
        }
    }

    fn send(&mut self) -> io::Result<()> {
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
        match self.take(buffer) {
            Ok(count) if count > 0 => Ok(count),
            Err(why) if why.kind() == ErrorKind::Interrupted => Err(why),
            nothing => self.failed.take().map_or(nothing, Err),
        }
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
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
                    self.flush();
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
        self.flush();
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The protocol's SSLRequest: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use conninfo::Secure;
    use reactor::tls::Check;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    /// A channel whose handshake is over, and the other side of it.
    fn encrypted() -> (Channel, ServerConnection, UnixStream) {
        let (config, name) = Secure::new(Check::Nothing, None, "a").expect("a configuration").into_parts();
        let own = rcgen::generate_simple_self_signed(["a".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
        let server = ServerConfig::builder_with_provider(config.crypto_provider().clone())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key))
            .expect("a configuration");
        let mut server = ServerConnection::new(Arc::new(server)).expect("a server");
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        ours.set_nonblocking(true).expect("a socket");
        let mut channel = Channel::new(Socket::from(ours), Some(Tls { config, name, is_required: true }));
        channel.connected().expect("a connection");
        let mut asked = [0; 8];
        theirs.read_exact(&mut asked).expect("a question");
        theirs.write_all(b"S").expect("an answer");
        theirs.set_nonblocking(true).expect("a socket");
        // All of it is in this thread, so a few turns are enough.
        for _ in 0..9 {
            let _ = channel.read(&mut [0; 64]);
            while server.read_tls(&mut theirs).is_ok_and(|count| count > 0) {
                server.process_new_packets().expect("a handshake");
            }
            while server.wants_write() {
                server.write_tls(&mut theirs).expect("a socket");
            }
        }
        assert!(!server.is_handshaking());
        (channel, server, theirs)
    }

    #[test]
    fn what_was_said_before_the_end_is_read_although_nothing_can_be_sent() {
        let (mut channel, mut server, mut theirs) = encrypted();
        server.writer().write_all(b"farewell").expect("a writer");
        while server.wants_write() {
            server.write_tls(&mut theirs).expect("a socket");
        }
        drop(theirs);
        channel.unsent.extend(b"a question");
        channel.flush();
        assert!(!channel.wants_write(), "it would wait for a socket that takes nothing");
        let mut buffer = [0; 64];
        let count = channel.read(&mut buffer).expect("what was said");
        assert_eq!(&buffer[..count], b"farewell");
        let why = channel.read(&mut buffer).expect_err("nothing more came");
        assert_eq!(why.kind(), ErrorKind::BrokenPipe);
    }
}
