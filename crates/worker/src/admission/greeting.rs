//! A client whose startup packet is not complete.
//!
//! Always true: it is read with one receive at a time.
//! Not here: what is done with its bytes (`accept`).

use base::Wall;

/// A client whose startup packet is not complete.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(super) unread: Vec<u8>,
    pub(super) has_spoken: bool,
    /// A PROXY header must come before anything else.
    pub(super) awaits_proxy_header: bool,
    /// TLS is being negotiated.
    pub(super) handshake: Option<Handshake>,
    /// It uses one of the reserved file descriptors, since it may be an operator.
    pub(super) has_kept_descriptor: bool,
    pub(super) since_wall: Wall,
}

impl Greeting {
    pub(crate) fn new(since_wall: Wall) -> Self {
        Self {
            unread: Vec::new(),
            has_spoken: false,
            awaits_proxy_header: false,
            handshake: None,
            has_kept_descriptor: false,
            since_wall,
        }
    }

    /// Takes over what a previous process has received.
    pub(crate) fn resumes(&mut self, unread: Vec<u8>, has_spoken: bool, awaits_proxy_header: bool) {
        (self.unread, self.has_spoken, self.awaits_proxy_header) = (unread, has_spoken, awaits_proxy_header);
    }

    /// Bytes of the startup packet so far.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.unread
    }

    pub(crate) fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    pub(crate) fn awaits_proxy_header(&self) -> bool {
        self.awaits_proxy_header
    }

    pub(crate) fn since_wall(&self) -> Wall {
        self.since_wall
    }

    /// Whether TLS is being negotiated, which no other worker could continue.
    pub(crate) fn is_shaking(&self) -> bool {
        self.handshake.is_some()
    }

    /// Whether the client has sent nothing at all.
    pub(crate) fn is_silent(&self) -> bool {
        !self.has_spoken
    }
}

/// How TLS has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handshake {
    /// By an SSLRequest.
    ByRequest,
    /// Directly, by a ClientHello.
    AtOnce,
}
