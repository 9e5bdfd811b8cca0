//! A client that has not said what it wants.
//!
//! Always true: it is heard one piece at a time.
//! Not here: what it says (`accept`).

use base::Wall;

/// A client that has not said what it wants.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) said: Vec<u8>,
    pub(crate) has_spoken: bool,
    /// TLS is being agreed on.
    pub(super) handshake: Option<Handshake>,
    /// It has one of the descriptors that are kept, and may be an operator.
    pub(super) has_kept_descriptor: bool,
    pub(crate) since_wall: Wall,
}

impl Greeting {
    pub(crate) fn new(since_wall: Wall) -> Self {
        Self { said: Vec::new(), has_spoken: false, handshake: None, has_kept_descriptor: false, since_wall }
    }

    /// Whether TLS is being agreed on, which nobody else can go on with.
    pub(crate) fn is_shaking(&self) -> bool {
        self.handshake.is_some()
    }

    /// Whether it has said nothing at all.
    pub(crate) fn is_silent(&self) -> bool {
        !self.has_spoken
    }
}

/// How TLS has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handshake {
    /// The client has asked whether it may.
    ByRequest,
    /// It has begun with it.
    AtOnce,
}
