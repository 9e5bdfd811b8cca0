//! The I/O layer of a worker: sockets, buffers, timers and kernel calls. All unsafe code of the project is in this
//! crate.
//!
//! Always true: a worker reaches the outside world only through [`Io`]: it submits operations and receives
//! [`Completion`]s. No completion follows for a connection that the worker has closed.
//! Not here: the meaning of the bytes.

mod buffer;
mod chunk;
mod io;
mod ipc;
mod kernel;
mod listen;
mod log;
mod low_priority;
mod pam;
mod syslog;
mod ticks;
mod timer;
pub mod tls;
mod waker;

pub use buffer::{BUFFER_BYTES, Blank, Buffers, Span};
pub use chunk::Chunk;
pub use io::{Accepting, Address, Close, Completion, Conn, End, Io, LINGER, Peer, Receive, Socket};
pub use ipc::{DESCRIPTORS_MAX, Ipc, peer_uid};
pub use kernel::{Backend, Epoll, Equipment, Kernel, Uring, probe_uring};
pub use listen::{Bound, ListenFault, Listener, TcpTuning, Wanted, bind_tcp, bind_unix, passed};
pub use log::{Level, Lines, LogFormat, LogTarget, Subject, open_log_file};
pub use low_priority::step_back;
pub use pam::{Pam, PamVisit};
pub use syslog::SystemLog;
pub use timer::{TICK, TimerId, Wheel};
pub use waker::{Waker, waker};
