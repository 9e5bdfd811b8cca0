//! Sends by io_uring: what is queued for a connection in one turn leaves together.
//!
//! Always true: one send of a connection is under way at a time, and its memory stays in place until the send has
//! completed. A send that does not wait for room completes while it is submitted, and only its failure makes a completion:
//! one that has succeeded does not end the wait for what comes next, for which the kernel would be entered once more.
//! Not here: the queued chunks (`outbox`), the memory of a send (`line`).

use io_uring::{opcode, squeue};

use super::{Op, Uring, word};
use crate::kernel::line::{RingStage, Underway};
use crate::{Completion, Conn, Socket};

impl Uring {
    /// Starts the sends of the connections to which something was queued since the last turn.
    pub(super) fn send_all(&mut self) {
        let mut unsent = std::mem::take(&mut self.unsent);
        // Where several connections are busy, more will have come by the time the sends have completed: the completion of the
        // last one ends the wait.
        if unsent.len() > 1
            && let Some(last) = unsent.pop()
        {
            self.kick(last, Pace::Patient);
        }
        unsent.drain(..).for_each(|conn| self.kick(conn, Pace::Prompt));
        self.unsent = unsent;
    }

    /// Starts a send of the queued chunks, unless one is under way.
    pub(super) fn kick(&mut self, conn: Conn, pace: Pace) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        if line.send != Underway::No
            || line.outbox.is_empty()
            || !matches!(line.stage, RingStage::Open | RingStage::Leaving)
        {
            return;
        }
        let fd = line.target();
        let bytes_max = self.common.tuning.sent_at_once();
        line.send = Underway::Yes;
        line.outbox.join();
        // Where something has to follow the end of a send, its completion is needed.
        let may_be_prompt = pace == Pace::Prompt && line.stage == RingStage::Open && !line.wants_drained;
        let all = line.outbox.bytes();
        let is_prompt = |bytes| may_be_prompt && bytes == all && bytes <= PROMPT_BYTES_MAX;
        let flags = |is_prompt| SEND_FLAGS | if is_prompt { libc::MSG_DONTWAIT } else { 0 };
        let (entry, bytes) = if let Some(bytes) = line.outbox.only() {
            let count = bytes.len().min(bytes_max);
            let send = opcode::Send::new(fd, bytes.as_ptr(), count as u32);
            (send.flags(flags(is_prompt(count))).build(), count)
        } else {
            let gather = line.gather.insert(self.spent_gathers.pop().unwrap_or_default());
            let count = gather.fill(&line.outbox, bytes_max);
            let send = opcode::SendMsg::new(fd, &raw const gather.header);
            (send.flags(flags(is_prompt(count)) as u32).build(), count)
        };
        let entry = if is_prompt(bytes) {
            line.prompt_bytes = bytes as u32;
            self.prompt.push(conn);
            entry.flags(squeue::Flags::SKIP_SUCCESS)
        } else {
            entry
        };
        self.submit(entry.user_data(word(Op::Send, conn.index)));
    }

    /// Ends the sends whose failure the kernel would have told: it has returned since they were submitted, and all completions
    /// have been read.
    pub(super) fn conclude(&mut self, mut prompt: Vec<Conn>, done: &mut Vec<Completion<Socket>>) {
        for conn in prompt.drain(..) {
            let bytes = self.lines.get(conn).map_or(0, |line| line.prompt_bytes);
            if bytes > 0 {
                self.on_send(conn, bytes as i32, done);
            }
        }
        if self.prompt.is_empty() {
            self.prompt = prompt;
        }
    }

    pub(super) fn on_send(&mut self, conn: Conn, result: i32, done: &mut Vec<Completion<Socket>>) {
        let Some(line) = self.lines.get_mut(conn) else { return };
        (line.send, line.prompt_bytes) = (Underway::No, 0);
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
            self.kick(conn, Pace::Patient);
        } else if line.stage == RingStage::Leaving {
            self.bury(conn);
        } else if std::mem::take(&mut line.wants_drained) {
            done.push(Completion::Drained { owner: line.owner });
        }
    }
}

/// Whether a send waits for room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// It fails if the kernel has no room for all of it.
    Prompt,
    /// It waits in the kernel until all of it is sent.
    Patient,
}

/// For more bytes than this the kernel is not expected to have room at once.
const PROMPT_BYTES_MAX: usize = 65_536;
/// The flags of every send. A send of fewer bytes than all is a failure.
const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
/// How many `Gather`s of finished sends are kept for the next ones.
const SPENT_GATHERS_MAX: usize = 64;
