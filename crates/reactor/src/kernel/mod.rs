//! The two kernel interfaces, and whether this machine allows io_uring (`probe`).
//!
//! Always true: a feature is used only after it has been seen to work here.

pub(crate) mod common;
pub(crate) mod epoll;
pub(crate) mod line;
pub(crate) mod outbox;
pub(crate) mod probe;
pub(crate) mod ring;
pub(crate) mod uring;

use std::sync::Arc;

pub use epoll::Epoll;
pub use probe::{Backend, probe_uring};
pub use uring::Uring;

use crate::{Conn, Io, Listener, LogTarget, Socket, TcpTuning, Waker};

/// A kernel interface on which the TLS layer can stand.
pub trait Kernel: Io<Socket = Socket> {
    /// Sets the owner that later completions of a connection carry.
    fn rename(&mut self, conn: Conn, owner: u64);
}

/// What a worker's kernel interface starts with.
#[derive(Debug)]
pub struct Equipment {
    /// The listening sockets, shared by all workers.
    pub listeners: Vec<Arc<Listener>>,
    /// The waker of this worker's letter box.
    pub waker: Waker,
    /// How many receive buffers of [`crate::BUFFER_BYTES`] there may be.
    pub buffers: u16,
    /// Settings of the sockets that we open.
    pub tuning: TcpTuning,
    /// Where log lines go.
    pub log: Arc<LogTarget>,
}
