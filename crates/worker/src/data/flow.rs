//! Back-pressure: we receive from one side only while the other side's queue is below its mark.
//!
//! Always true: a paused connection is resumed when the queue that it was paused for has drained, or when its loan ends.
//! Not here: bytes that wait for a server (`hear`), which have a limit of their own.

use base::Key;
use measure::Phase;
use pool::ServerKey;
use reactor::{Chunk, Conn, Io, Receive};
use wire::{frontend, write};

use crate::data::client::{Client, ClientStage};
use crate::data::pace::Pace;
use crate::data::server::Server;
use crate::lookups::QUEUE_BYTES_MARK;
use crate::observe::tracers::What;
use crate::planted::{is_too_slow, resumes_reading};
use crate::reads::take_back::give_or_withhold;
use crate::tasks::Task;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Forwards a part of a server's bytes to its client.
    pub(crate) fn give_client(&mut self, key: ServerKey, chunk: &Chunk, range: std::ops::Range<usize>) {
        if !range.is_empty() {
            self.give_client_whole(key, chunk.part(range));
        }
    }

    pub(crate) fn give_client_whole(&mut self, key: ServerKey, chunk: Chunk) {
        let Some(client_key) = self.servers.get(key).and_then(Server::client) else { return };
        let Some(client) = self.clients.get_mut(client_key) else { return };
        // Anything that could mix two clients' bytes aborts the process: a restart costs a second, a mixed answer
        // cannot be undone.
        let is_linked = matches!(&client.stage, ClientStage::Ready(ready) if ready.has_loan_of(key));
        assert!(is_linked, "an answer was to be given to a client that has another server");
        let conn = client.conn;
        if let ClientStage::Ready(ready) = &mut client.stage
            && let Some(withheld) = ready.withheld()
        {
            if give_or_withhold(&mut self.hands.io, conn, withheld, chunk) {
                self.mind_flow_to_client(client_key, key);
            }
            return;
        }
        let chunk = unpinned_for(&self.hands.io, conn, chunk);
        self.hands.io.send(conn, chunk);
        self.mind_flow_to_client(client_key, key);
    }

    /// Received bytes as they are kept for a connection that waits. Few bytes are copied, so that they do not occupy a
    /// whole receive buffer; when few buffers are free everything is, so that a waiting connection takes none from the
    /// others.
    pub(crate) fn unpinned(&self, chunk: Chunk) -> Chunk {
        let Chunk::Span(span) = &chunk else { return chunk };
        let (all, free) = self.hands.io.buffers();
        if span.len() > COPIED_BYTES_MAX && free * 2 > all { chunk } else { Chunk::Own((&**span).into()) }
    }

    /// Copies the first piece of a client's held bytes as [`Self::unpinned`] does: it was to be forwarded in this turn,
    /// and has to wait after all. Any other piece was copied when it was held.
    pub(crate) fn unpin_held(&mut self, key: Key) {
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let Some(chunk) = ready.held.as_mut().and_then(|held| held.pop()) else { return };
        let chunk = self.unpinned(chunk);
        let Some(ready) = self.clients.ready_mut(key) else { return };
        ready.held.get_or_insert_default().push_front(chunk);
    }

    /// Pauses a client whose bytes its server does not take as fast as they come.
    pub(crate) fn mind_flow_to_server(&mut self, client: Key, server: ServerKey) {
        let Some(row) = self.servers.get(server) else { return };
        if self.hands.io.unsent(row.conn) > QUEUE_BYTES_MARK {
            self.hands.io.tell_when_drained(row.conn);
            let is_copying = row.session.exchange.is_copying_in();
            self.pause_client(client);
            if is_copying {
                // The server has data of the COPY to work on.
                self.enters_from(client, Phase::Thinking, Phase::FirstByte);
            }
        }
    }

    /// If the server is in a COPY that reads from its client, it waits for data: the client is thinking. A replication
    /// stream, in which both sides send, is not such a COPY.
    pub(crate) fn note_copy_wait(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key).filter(|server| server.session.exchange.is_copying_in()) else {
            return;
        };
        let Some(ready) = server.client().and_then(|client| self.clients.ready_mut(client)) else { return };
        if ready.replication.is_none() && !ready.is_paused {
            ready.meter.division.go_on(self.hands.now, Phase::FirstByte, Phase::Thinking);
            ready.meter.division.go_on(self.hands.now, Phase::Streaming, Phase::Thinking);
        }
    }

    /// Pauses a server whose bytes its client does not take as fast as they come, and notes that an answer is on its way.
    pub(crate) fn mind_flow_to_client(&mut self, client: Key, server: ServerKey) {
        let Some(row) = self.clients.get_mut(client) else { return };
        let conn = row.conn;
        if let ClientStage::Ready(ready) = &mut row.stage {
            let division = &mut ready.meter.division;
            let before = if row.tracers != 0 { division.present() } else { None };
            division.go_on(self.hands.now, Phase::FirstByte, Phase::Streaming);
            if let Some((Phase::FirstByte, since)) = before {
                let after = self.hands.now.since(since);
                self.trace(client, |_, _| Some(What::Answers { after }));
            }
        }
        if is_too_slow(self.hands.io.unsent(conn) > QUEUE_BYTES_MARK) {
            self.hands.io.tell_when_drained(conn);
            if let Some(row) = self.servers.get_mut(server)
                && !std::mem::replace(&mut row.is_paused, true)
            {
                self.hands.io.pause(row.conn);
                self.enters_from(client, Phase::Streaming, Phase::Blocked);
            }
        }
    }

    /// A server owes so many answers that its client is not read, and the `rest` of its bytes is held, until some have
    /// come. PostgreSQL keeps answers to the extended protocol in its buffer until a Sync or Flush, so a Flush is sent.
    pub(crate) fn wait_for_answers(&mut self, key: ServerKey, client: Key, rest: Option<Chunk>) {
        if let Some(rest) = rest.map(|rest| self.unpinned(rest))
            && let Some(ready) = self.clients.ready_mut(client)
        {
            ready.held.get_or_insert_default().push_front(rest);
        }
        let Some(server) = self.servers.get_mut(key) else { return };
        server.is_full = true;
        if server.session.exchange.wants_sync() {
            let mut out = Vec::new();
            write::bare(&mut out, frontend::FLUSH);
            self.hands.io.send(server.conn, out.into());
        }
    }

    /// Reads the client again if its server has given enough of the answers that it owed.
    pub(crate) fn hear_again(&mut self, key: ServerKey) {
        let Some(server) =
            self.servers.get_mut(key).filter(|server| server.is_full && server.session.exchange.has_room())
        else {
            return;
        };
        server.is_full = false;
        if let Some(client) = server.client() {
            self.hands.enqueue(Task::ForwardHeld(client));
        }
    }

    /// Sends the client the answers of our own whose turn has come among those of its server.
    pub(crate) fn give_due(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if !server.session.exchange.has_due() || server.session.scanner.is_in_body() {
            return;
        }
        let out = server.session.take_due();
        self.give_client_whole(key, Chunk::Own(out));
    }

    /// A server answers a question about functions. That is read as it comes, so that one turn reads no more than one
    /// buffer of it.
    pub(crate) fn slow_down(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if !std::mem::replace(&mut server.is_slowed, true) {
            self.receive_next(key);
        }
    }

    /// Receives the next buffer from such a server, or everything as before when its answer is complete.
    pub(crate) fn receive_next(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.is_slowed = server.session.phase.probe().is_some_and(|probe| probe.reads_functions());
        if server.is_paused || server.is_silenced() {
            return;
        }
        let how = if server.is_slowed { Receive::Once } else { Receive::Stream };
        self.hands.io.pause(server.conn);
        self.hands.io.receive(server.conn, how);
    }

    pub(crate) fn pause_client(&mut self, key: Key) {
        let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        if !std::mem::replace(&mut ready.is_paused, true) {
            self.hands.io.pause(*conn);
        }
    }

    pub(crate) fn resume_client(&mut self, key: Key) {
        let Some(Client { conn, stage: ClientStage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        if !std::mem::take(&mut ready.is_paused) {
            return;
        }
        // It has sent much before it was paused, so that more is likely to have arrived than a turn should read.
        if let Pace::Once { .. } = ready.pace {
            ready.pace = if self.admin.is_resting() { Pace::Stream } else { Pace::Waits };
            if ready.pace == Pace::Waits {
                self.paced.push(key);
            }
        }
        if let Some(how) = ready.receives() {
            self.hands.io.receive(*conn, how);
        }
    }

    pub(crate) fn resume_server(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if resumes_reading(std::mem::take(&mut server.is_paused)) {
            if !server.is_silenced() {
                self.hands.io.receive(server.conn, Receive::Stream);
            }
            if let Some(client) = server.client() {
                self.enters_from(client, Phase::Blocked, Phase::Streaming);
                self.note_copy_wait(key);
            }
        }
    }

    /// At the end of a loan neither side is paused for the other any more. A client that does not read its answers is
    /// not read either.
    pub(crate) fn unlink_flow(&mut self, client: Key, server: ServerKey) {
        self.resume_server(server);
        if self.is_behind(client) {
            self.pause_client(client);
        } else {
            self.resume_client(client);
        }
    }

    /// A server's send queue has drained.
    pub(crate) fn server_drained(&mut self, key: ServerKey) {
        if let Some(client) = self.servers.get(key).and_then(|server| server.client()) {
            self.resume_client(client);
            self.note_copy_wait(key);
        }
    }

    /// Receives from a server that has an exchange to finish while the worker is being suspended.
    pub(crate) fn hear_server(&mut self, key: ServerKey) {
        if self.admin.is_resting()
            && let Some(server) = self.servers.get_mut(key)
        {
            server.is_paused = false;
            self.hands.io.receive(server.conn, Receive::Stream);
        }
    }

    pub(crate) fn send_to_client(&mut self, key: Key, out: Vec<u8>) {
        if let Some(client) = self.clients.get(key).filter(|_| !out.is_empty()) {
            self.hands.io.send(client.conn, out.into());
        }
    }
}

/// Received bytes as they are sent to a connection. When few buffers are free a connection that is behind gets a copy,
/// and when hardly any is free every connection does, so that a peer that does not read takes no buffers from the
/// others.
pub(crate) fn unpinned_for<I: Io>(io: &I, conn: Conn, chunk: Chunk) -> Chunk {
    let (all, free) = io.buffers();
    if free * 2 > all {
        return chunk;
    }
    match &chunk {
        Chunk::Span(span) if free * 4 <= all || io.unsent(conn) > 0 => Chunk::Own((&**span).into()),
        _ => chunk,
    }
}

/// Sends a part of a chunk.
pub(crate) fn send_part<I: Io>(io: &mut I, conn: Conn, chunk: &Chunk, range: std::ops::Range<usize>) {
    if !range.is_empty() {
        io.send(conn, chunk.part(range));
    }
}

/// Waiting bytes are copied up to this size; a usual query is smaller.
const COPIED_BYTES_MAX: usize = 1024;
