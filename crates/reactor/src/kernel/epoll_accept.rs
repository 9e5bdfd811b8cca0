//! Accepting connections by epoll, and closing listeners.
//!
//! Always true: before a listener is closed, the connections that wait at it are accepted; a shortage of descriptors ends accepting for a
//! while only.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::{ACCEPTOR, Epoll};
use crate::kernel::common::{self, ACCEPT_REST};
use crate::{Accepting, Bound, Completion, Listener, Socket};

#[derive(Debug)]
pub(super) struct Acceptor {
    /// `None` once it was closed for good.
    pub(super) listener: Option<Arc<Listener>>,
    is_unix: bool,
    pub(super) is_watched: bool,
    /// How many connections are accepted before epoll is asked again: as many as arrived last time, so that a single
    /// connection costs one call and a burst few.
    accepts: usize,
}

impl Acceptor {
    pub(super) fn new(listener: Arc<Listener>) -> Self {
        let is_unix = matches!(listener.bound, Bound::Unix(_));
        Self { listener: Some(listener), is_unix, is_watched: false, accepts: 1 }
    }
}

impl Epoll {
    /// Opens and closes listening sockets as [`Accepting`] demands. Before a listener is closed, the connections that wait
    /// at it are accepted; the kernel refuses later ones.
    pub(super) fn update_acceptors(&mut self, done: &mut Vec<Completion<Socket>>) {
        for (index, acceptor) in self.acceptors.iter_mut().enumerate() {
            let is_wanted = match self.accepting {
                Accepting::All | Accepting::Paused => true,
                Accepting::OnlyUnix => acceptor.is_unix,
                Accepting::Closed => false,
            };
            let Some(listener) = &acceptor.listener else { continue };
            let may_open = is_wanted && self.accepting != Accepting::Paused && self.accept_again.is_none();
            if may_open && !acceptor.is_watched {
                let name = EventData::new_u64(ACCEPTOR | index as u64);
                let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
                // Set now and not before: another process may use the listener, in blocking mode, until it is opened
                // here.
                let is_ready = rustix::io::ioctl_fionbio(listener.as_fd(), true).is_ok();
                acceptor.is_watched = is_ready && epoll::add(&self.epoll, listener, name, flags).is_ok();
                self.are_acceptors_due |= !acceptor.is_watched;
            } else if !may_open && acceptor.is_watched {
                let _ = epoll::delete(&self.epoll, listener);
                acceptor.is_watched = false;
            }
            if !is_wanted {
                for socket in common::accept_waiting(listener, SocketFlags::NONBLOCK) {
                    done.push(Completion::Accepted { is_last: self.common.is_too_many(&socket.fd), socket });
                }
                acceptor.listener = None;
            }
        }
    }

    pub(super) fn on_acceptable(&mut self, index: usize, done: &mut Vec<Completion<Socket>>) {
        let rounds = self.acceptors.get(index).map_or(0, |acceptor| acceptor.accepts);
        for round in 0..rounds {
            let Some(acceptor) = self.acceptors.get_mut(index) else { return };
            acceptor.accepts = (2 * (round + 1)).min(ACCEPTS_PER_ROUND);
            let (is_unix, Some(listener)) = (acceptor.is_unix, &acceptor.listener) else { return };
            match rustix::net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((fd, from)) => {
                    let is_last = self.spare.is_none() || self.common.is_too_many(&fd);
                    let from = from.and_then(|from| from.try_into().ok());
                    done.push(Completion::Accepted {
                        socket: Socket { fd, is_unix, from, tls: None, is_inherited: false },
                        is_last,
                    });
                    if self.spare.is_none() {
                        return;
                    }
                }
                Err(Errno::AGAIN) => {
                    if let Some(acceptor) = self.acceptors.get_mut(index) {
                        acceptor.accepts = round.max(1);
                    }
                    return;
                }
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => {
                    let error = io::Error::from(error);
                    // Gives up the descriptor in reserve, so that the next client can be told that there are none left.
                    if !common::is_scarce(&error) || self.spare.take().is_none() {
                        self.accept_again = Some(self.common.clock.now + ACCEPT_REST);
                        self.are_acceptors_due = true;
                        done.push(Completion::AcceptFailed(error));
                        return;
                    }
                }
            }
        }
    }
}

/// Connections accepted at one listener in a turn.
const ACCEPTS_PER_ROUND: usize = 64;
