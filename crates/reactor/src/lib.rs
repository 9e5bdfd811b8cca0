//! The hands of a worker: sockets, buffers, timers and the kernel. All the unsafe code of the house lives here.
//!
//! Always true: a worker sees the world only through [`Io`]; what it asks for is a submission, what it hears is a
//! [`Completion`]; after it has closed a connection it hears nothing more of it.
//! Not here: what the bytes mean.

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
pub use io::{Address, Close, Completion, Conn, Doors, End, Io, LINGER, Peer, Receive, Socket};
pub use ipc::{DESCRIPTORS_MAX, Ipc, peer_uid};
pub use kernel::{Backend, Epoll, Equipment, Kernel, Uring, probe_uring};
pub use listen::{Bound, ListenFault, Listener, TcpTuning, Wanted, bind_tcp, bind_unix, passed};
pub use log::{Level, Lines, LogFormat, LogTarget, Subject};
pub use low_priority::step_back;
pub use pam::{Pam, PamVisit};
pub use syslog::SystemLog;
pub use timer::{TICK, TimerId, Wheel};
pub use waker::{Waker, waker};
