//! Sends by io_uring: what is queued for a connection in one turn leaves together.
//!
//! Always true: one send of a connection is under way at a time, and its memory stays in place until the send has
//! completed.
//! Not here: the queued chunks (`outbox`), the memory of a send (`line`).

use io_uring::opcode;

use super::{Op, Uring, word};
use crate::kernel::line::{RingStage, Underway};
use crate::{Completion, Conn, Socket};

impl Uring {
    /// Starts the sends of the connections to which something was queued since the last turn.
    pub(super) fn send_all(&mut self) {
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.drain(..).for_each(|conn| self.kick(conn));
        self.unsent = unsent;
    }

    /// Starts a send of the queued chunks, unless one is under way.
    pub(super) fn kick(&mut self, conn: Conn) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        if line.send != Underway::No
            || line.outbox.is_empty()
            || !matches!(line.stage, RingStage::Open | RingStage::Leaving)
        {
            return;
        }
        let fd = line.target();
        let bytes_max = self.common.tuning.sent_at_once();
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        line.send = Underway::Yes;
        line.outbox.join();
        let entry = if let Some(bytes) = line.outbox.only() {
            opcode::Send::new(fd, bytes.as_ptr(), bytes.len().min(bytes_max) as u32).flags(flags).build()
        } else {
            let gather = line.gather.insert(self.spent_gathers.pop().unwrap_or_default());
            gather.fill(&line.outbox, bytes_max);
            opcode::SendMsg::new(fd, &raw const gather.header).flags(flags as u32).build()
        };
        self.submit(entry.user_data(word(Op::Send, conn.index)));
    }

    pub(super) fn on_send(&mut self, conn: Conn, result: i32, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        line.send = Underway::No;
        if let Some(gather) = line.gather.take()
            && self.spent_gathers.len() < SPENT_GATHERS_MAX
        {
            self.spent_gathers.push(gather);
        }
        if line.stage == RingStage::Dead {
            self.bury_if_quiet(conn);
            return;
        }
        if result < 0 && !matches!(-result, libc::EINTR | libc::EAGAIN) {
            if line.stage == RingStage::Leaving {
                self.bury(conn);
            } else {
                self.end(conn, result, done);
            }
            return;
        }
        line.outbox.advance(result.max(0) as usize);
        if !line.outbox.is_empty() {
            self.kick(conn);
        } else if line.stage == RingStage::Leaving {
            self.bury(conn);
        } else if std::mem::take(&mut line.wants_drained) {
            done.push(Completion::Drained { owner: line.owner });
        }
    }
}

/// How many `Gather`s of finished sends are kept for the next ones.
const SPENT_GATHERS_MAX: usize = 64;
