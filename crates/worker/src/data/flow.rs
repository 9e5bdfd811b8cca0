//! Back-pressure: we receive from one side only while the other side's queue is below its mark.
//!
//! Always true: whoever is paused is resumed when the queue that it was paused for has drained, or when it loses its link.
//! Not here: bytes that wait for a server (`hear`), which have a mark of their own.

use base::Key;
use measure::Phase;
use pool::ServerKey;
use reactor::{Chunk, Conn, Io, Receive};
use wire::{frontend, write};

use crate::data::client::{Client, Stage};
use crate::data::server::Server;
use crate::lookups::QUEUE_BYTES_MARK;
use crate::planted::{goes_on, is_too_slow};
use crate::tasks::Task;
use crate::tracers::What;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Gives a part of what a server has said to its client.
    pub(crate) fn give_client(&mut self, key: ServerKey, chunk: &Chunk, range: std::ops::Range<usize>) {
        if !range.is_empty() {
            self.give_client_whole(key, chunk.part(range));
        }
    }

    /// The same of bytes of our own, in the place of what the server has said.
    pub(crate) fn give_client_own(&mut self, key: ServerKey, bytes: Box<[u8]>) {
        self.give_client_whole(key, Chunk::Own(bytes));
    }

    pub(crate) fn give_client_whole(&mut self, key: ServerKey, chunk: Chunk) {
        let Some(client_key) = self.servers.get(key).and_then(Server::client) else { return };
        let Some(client) = self.clients.get(client_key) else { return };
        // Whatever could mix two clients' bytes ends the process: a restart costs a second, a mixed answer cannot be undone.
        let is_linked = matches!(&client.stage, Stage::Ready(ready) if ready.has_loan_of(key));
        assert!(is_linked, "an answer was to be given to a client that has another server");
        let conn = client.conn;
        let chunk = unpinned_for(&self.io, conn, chunk);
        self.io.send(conn, chunk);
        self.mind_flow_to_client(client_key, key);
    }

    /// Received bytes as they are kept for somebody who waits. A few are copied, so that nobody keeps a whole buffer for them;
    /// when few buffers are left all are, so that who waits takes nothing from who does not.
    pub(crate) fn unpinned(&self, chunk: Chunk) -> Chunk {
        let Chunk::Span(span) = &chunk else { return chunk };
        let (all, free) = self.io.buffers();
        if span.len() > COPIED_BYTES_MAX && free * 2 > all { chunk } else { Chunk::Own((&**span).into()) }
    }

    /// After a client's bytes were given to its server.
    pub(crate) fn mind_flow_to_server(&mut self, client: Key, server: ServerKey) {
        let Some(row) = self.servers.get(server) else { return };
        if self.io.unsent(row.conn) > QUEUE_BYTES_MARK {
            self.io.tell_when_drained(row.conn);
            self.pause_client(client);
        }
    }

    /// After a server's bytes were given to its client.
    pub(crate) fn mind_flow_to_client(&mut self, client: Key, server: ServerKey) {
        let Some(row) = self.clients.get_mut(client) else { return };
        let conn = row.conn;
        if let Stage::Ready(ready) = &mut row.stage {
            let division = &mut ready.meter.division;
            let before = if row.tracers != 0 { division.present() } else { None };
            division.go_on(self.now, Phase::FirstByte, Phase::Streaming);
            if let Some((Phase::FirstByte, since)) = before {
                let after = self.now.since(since);
                self.trace(client, |_, _| Some(What::Answers { after }));
            }
        }
        if is_too_slow(self.io.unsent(conn) > QUEUE_BYTES_MARK) {
            self.io.tell_when_drained(conn);
            if let Some(row) = self.servers.get_mut(server)
                && !std::mem::replace(&mut row.is_paused, true)
            {
                self.io.pause(row.conn);
                self.enters_from(client, Phase::Streaming, Phase::Blocked);
            }
        }
    }

    /// A server owes its client so many answers that the client, and the rest of what it has said, is not heard before it has given some. It keeps those
    /// in a batch to itself until it is told to flush them.
    pub(crate) fn wait_for_answers(&mut self, key: ServerKey, client: Key, rest: Option<Chunk>) {
        if let Some(rest) = rest.map(|rest| self.unpinned(rest))
            && let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(client)
        {
            ready.held.get_or_insert_default().push_front(rest);
        }
        let Some(server) = self.servers.get_mut(key) else { return };
        server.is_full = true;
        if server.session.exchange.wants_sync() {
            let mut out = Vec::new();
            write::bare(&mut out, frontend::FLUSH);
            self.io.send(server.conn, out.into());
        }
    }

    /// A server may have given enough of them.
    pub(crate) fn hear_again(&mut self, key: ServerKey) {
        let Some(server) =
            self.servers.get_mut(key).filter(|server| server.is_full && server.session.exchange.has_room())
        else {
            return;
        };
        server.is_full = false;
        if let Some(client) = server.client() {
            self.enqueue(Task::GoOn(client));
        }
    }

    /// Gives the client the answers that its server was not asked for and that come now.
    pub(crate) fn give_due(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if !server.session.exchange.has_due() || server.session.scanner.is_in_body() {
            return;
        }
        let out = server.session.take_due();
        self.give_client_own(key, out);
    }

    /// A server tells of functions, which are read as they come, so that one turn reads no more than one buffer of them.
    pub(crate) fn slow_down(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if !std::mem::replace(&mut server.is_slowed, true) {
            self.receive_next(key);
        }
    }

    /// Asks such a server for the next buffer, or for everything as before when it has told all.
    pub(crate) fn receive_next(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.is_slowed = server.session.life.probe().is_some_and(|probe| probe.reads_functions());
        if server.is_paused || server.is_silenced() {
            return;
        }
        let how = if server.is_slowed { Receive::Once } else { Receive::Stream };
        self.io.pause(server.conn);
        self.io.receive(server.conn, how);
    }

    pub(crate) fn pause_client(&mut self, key: Key) {
        let Some(Client { conn, stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        if !std::mem::replace(&mut ready.is_paused, true) {
            self.io.pause(*conn);
        }
    }

    pub(crate) fn resume_client(&mut self, key: Key) {
        let Some(Client { conn, stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        if std::mem::take(&mut ready.is_paused) {
            self.io.receive(*conn, Receive::Stream);
        }
    }

    pub(crate) fn resume_server(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if goes_on(std::mem::take(&mut server.is_paused)) {
            if !server.is_silenced() {
                self.io.receive(server.conn, Receive::Stream);
            }
            if let Some(client) = server.client() {
                self.enters_from(client, Phase::Blocked, Phase::Streaming);
            }
        }
    }

    /// At the end of a loan nobody is paused for the other's sake any more. A client that does not take its answers is not
    /// asked for new questions.
    pub(crate) fn unlink_flow(&mut self, client: Key, server: ServerKey) {
        self.resume_server(server);
        if self.is_behind(client) {
            self.pause_client(client);
        } else {
            self.resume_client(client);
        }
    }

    /// A server has taken everything that it was given.
    pub(crate) fn server_drained(&mut self, key: ServerKey) {
        if let Some(client) = self.servers.get(key).and_then(|server| server.client()) {
            self.resume_client(client);
        }
    }

    /// Listens to a server that has something to say although everybody rests.
    pub(crate) fn hear_server(&mut self, key: ServerKey) {
        if self.admin.is_resting()
            && let Some(server) = self.servers.get_mut(key)
        {
            server.is_paused = false;
            self.io.receive(server.conn, Receive::Stream);
        }
    }

    pub(crate) fn send_to_client(&mut self, key: Key, out: Vec<u8>) {
        if let Some(client) = self.clients.get(key).filter(|_| !out.is_empty()) {
            self.io.send(client.conn, out.into());
        }
    }
}

/// Received bytes as they are sent to a connection. One that is behind gets a copy when few buffers are left, and everybody does
/// when hardly any is, so that who does not read takes nothing from who does.
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

/// Received bytes that wait are copied up to here; a pooler's usual query is smaller.
const COPIED_BYTES_MAX: usize = 1024;
