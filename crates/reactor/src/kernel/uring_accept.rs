//! Accepting connections by io_uring, and closing listeners.
//!
//! Always true: a listener that is to be closed is closed as soon as the cancellation of its accept has completed; when
//! a ring ends, none of its accepts is left behind.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;

use io_uring::{cqueue, opcode, types};
use rustix::net::SocketFlags;

use super::{Op, Uring, unword, word};
use crate::kernel::common::{self, ACCEPT_REST, Clock};
use crate::{Accepting, Bound, Completion, Io as _, Listener, Socket};

pub(super) struct Acceptor {
    /// `None` once it was closed for good.
    listener: Option<Arc<Listener>>,
    /// Closed when the cancellation of its accept has completed.
    leaving: Option<Arc<Listener>>,
    is_unix: bool,
    is_armed: bool,
    /// The cancellation of its accept is under way.
    is_recalled: bool,
}

impl Acceptor {
    pub(super) fn new(listener: Arc<Listener>) -> Self {
        let is_unix = matches!(listener.bound, Bound::Unix(_));
        Self { listener: Some(listener), leaving: None, is_unix, is_armed: false, is_recalled: false }
    }

    pub(super) fn listener(&self) -> Option<&Listener> {
        self.listener.as_deref()
    }

    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_armed
    }
}

impl Uring {
    /// Opens and closes listening sockets as [`Accepting`] demands. Before a listener is closed, the connections that wait
    /// at it are accepted; the kernel refuses later ones.
    pub(super) fn update_acceptors(&mut self) {
        for index in 0..self.acceptors.len() {
            let acceptor = &mut self.acceptors[index];
            let may_open = match self.accepting {
                Accepting::All => true,
                Accepting::OnlyUnix => acceptor.is_unix,
                Accepting::Paused | Accepting::Closed => false,
            };
            let name = word(Op::Accept, index as u32);
            if !may_open {
                if self.accepting != Accepting::Paused
                    && let Some(listener) = acceptor.listener.take()
                    && acceptor.is_armed
                {
                    acceptor.leaving = Some(listener);
                }
                if acceptor.is_armed && !std::mem::replace(&mut acceptor.is_recalled, true) {
                    self.submit(opcode::AsyncCancel::new(name).build().user_data(word(Op::Nobody, 0)));
                }
            } else if !acceptor.is_armed
                && self.accept_again.is_none()
                && let Some(listener) = &acceptor.listener
            {
                // Another process may have had the listener, and may have made it non-blocking.
                let _ = rustix::io::ioctl_fionbio(listener.as_fd(), false);
                let fd = types::Fd(listener.as_fd().as_raw_fd());
                let entry = if self.spare.is_some() {
                    opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build()
                } else {
                    opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                        .flags(libc::SOCK_CLOEXEC)
                        .build()
                };
                acceptor.is_armed = true;
                self.submit(entry.user_data(name));
            }
        }
    }

    pub(super) fn on_accept(&mut self, index: usize, result: i32, flags: u32, done: &mut Vec<Completion<Socket>>) {
        let Some(acceptor) = self.acceptors.get_mut(index) else { return };
        let is_unix = acceptor.is_unix;
        acceptor.is_armed = cqueue::more(flags);
        self.are_acceptors_due |= !acceptor.is_armed;
        let leaving = acceptor.leaving.take_if(|_| !acceptor.is_armed);
        acceptor.is_recalled &= acceptor.is_armed;
        if result >= 0 {
            // Safe because the kernel has just given this descriptor to us, and nobody else knows it.
            let fd = unsafe { OwnedFd::from_raw_fd(result) };
            let is_last = std::mem::take(&mut self.is_spare_given) || self.common.is_too_many(&fd);
            done.push(Completion::Accepted {
                socket: Socket { fd, is_unix, from: None, tls: None, is_inherited: false },
                is_last,
            });
        }
        for socket in leaving.iter().flat_map(|listener| common::accept_waiting(listener, SocketFlags::empty())) {
            done.push(Completion::Accepted { is_last: self.common.is_too_many(&socket.fd), socket });
        }
        if result >= 0 {
            return;
        }
        let error = io::Error::from_raw_os_error(-result);
        match -result {
            libc::ECANCELED | libc::ECONNABORTED | libc::EINTR | libc::EAGAIN => {}
            // A listener that is being closed needs no retry. If descriptors have run out, the one in reserve is given
            // up, so that the next client can be told.
            _ if leaving.is_some() => {}
            _ if common::is_scarce(&error) && self.spare.take().is_some() => self.is_spare_given = true,
            _ => {
                self.is_spare_given = false;
                self.accept_again = Some(self.common.clock.now + ACCEPT_REST);
                done.push(Completion::AcceptFailed(error));
            }
        }
    }
}

impl Drop for Uring {
    /// Cancels the accepts and waits for them. The kernel tears a ring down asynchronously and until then holds the
    /// listening sockets, so that a restarted process could not bind.
    fn drop(&mut self) {
        self.accept(Accepting::Closed);
        self.update_acceptors();
        self.flush_backlog();
        for _ in 0..FAREWELL_ROUNDS {
            if self.acceptors.iter().all(|acceptor| !acceptor.is_armed) {
                return;
            }
            self.common.clock = Clock::read();
            self.enter(Some(self.common.clock.now + FAREWELL_WAIT));
            while let Some(entry) = self.ring.completion().next() {
                if let (Op::Accept, index) = unword(entry.user_data())
                    && let Some(acceptor) = self.acceptors.get_mut(index as usize)
                {
                    acceptor.is_armed = cqueue::more(entry.flags());
                }
            }
        }
    }
}

/// Limits of the wait for cancelled accepts: the number of rounds, and the length of each.
const FAREWELL_ROUNDS: usize = 50;
const FAREWELL_WAIT: std::time::Duration = std::time::Duration::from_millis(20);
