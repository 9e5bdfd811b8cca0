//! A replica does not answer a read: the primary does.
//!
//! Always true: a read is sent again only if it was proven to read, nothing of its answer has reached the client, and nobody has asked
//! for its end.
//! Not here: what is withheld (`withheld`).

use measure::Closed;
use pool::{ClientKey, ServerKey};
use reactor::{Chunk, Conn, Io};
use wire::notice::Notice;

use crate::data::client::{Client, ClientStage, Ready};
use crate::data::flow::unpinned_for;
use crate::measured::ReadResult;
use crate::reads::routing::Routing;
use crate::reads::withheld::Withheld;
use crate::worker::Worker;

impl Routing {
    /// What the replica has answered, as long as the client is not given it.
    pub(crate) fn withheld(&mut self) -> Option<&mut Option<Withheld>> {
        let withheld = &mut self.read.as_mut()?.withheld;
        withheld.is_some().then_some(withheld)
    }
}

impl Ready {
    /// What the replica has answered, as long as the client is not given it.
    pub(crate) fn withheld(&mut self) -> Option<&mut Option<Withheld>> {
        self.routing_mut()?.withheld()
    }
}

/// Gives a client what a replica has sent, as soon as the answer itself has begun. Returns whether anything was given.
pub(crate) fn give_or_withhold<I: Io>(io: &mut I, conn: Conn, withheld: &mut Option<Withheld>, chunk: Chunk) -> bool {
    let is_given = match withheld {
        Some(kept) => kept.push(chunk),
        None => false,
    };
    let Some(kept) = withheld.take_if(|_| is_given) else { return false };
    give(io, conn, kept);
    true
}

/// Gives a client all that was withheld from it.
fn give<I: Io>(io: &mut I, conn: Conn, withheld: Withheld) {
    for chunk in withheld.into_chunks() {
        let chunk = unpinned_for(io, conn, chunk);
        io.send(conn, chunk);
    }
}

impl<I: Io> Worker<I> {
    /// Whether a client is not given an error, because the primary will answer instead.
    pub(crate) fn is_error_withheld(&self, server: ServerKey) -> bool {
        let client = self.servers.get(server).and_then(|server| server.client());
        let ready = client.and_then(|client| self.clients.ready(client));
        let read = ready.and_then(|ready| ready.routing()?.read.as_ref());
        read.is_some_and(|read| read.withheld.is_some() && read.request.is_some())
    }

    /// A replica has answered a read completely. If it was refused, the client's request is held again, for the primary.
    pub(crate) fn read_is_answered(&mut self, server_key: ServerKey, client_key: ClientKey) {
        let Some(server) = self.servers.get(server_key) else { return };
        let was_cancelled = server.session().cancels_sent > 0;
        let Some(Client { stage: ClientStage::Ready(ready), conn, .. }) = self.clients.get_mut(client_key) else {
            return;
        };
        let conn = *conn;
        let Some(withheld) = ready.withheld().and_then(Option::take) else { return };
        let is_refused = withheld.error().is_some_and(|error| !was_cancelled && is_of_replica(error));
        let request = match ready.routing_mut() {
            Some(routing) if is_refused => routing.send_home(),
            _ => None,
        };
        let Some(request) = request else {
            give(&mut self.hands.io, conn, withheld);
            return;
        };
        ready.held_mut().get_or_insert_default().push_front(Chunk::Own(request));
        let beside = withheld.beside_answer();
        if !beside.is_empty() {
            self.hands.io.send(conn, beside.into());
        }
        self.count_read(client_key, ReadResult::Refused);
    }

    /// A client is given what is withheld from it, whatever it is: the worker is being suspended.
    pub(crate) fn give_withheld(&mut self, client: ClientKey) {
        let Some(Client { stage: ClientStage::Ready(ready), conn, .. }) = self.clients.get_mut(client) else { return };
        let conn = *conn;
        let Some(withheld) = ready.withheld().and_then(Option::take) else { return };
        give(&mut self.hands.io, conn, withheld);
    }

    /// A replica is lost while it works on a read. Returns whether the primary is asked instead.
    pub(crate) fn survives_replica(&mut self, server_key: ServerKey, client_key: ClientKey, why: &str) -> bool {
        // Who has asked for the end of the request does not get it begun once more.
        let was_cancelled = self.servers.get(server_key).is_none_or(|server| server.session().cancels_sent > 0);
        let Some(ready) = self.clients.ready_mut(client_key) else { return false };
        let Some(read) = ready.routing().and_then(|routing| routing.read.as_ref()) else { return false };
        if was_cancelled || !read.outlives_server || read.withheld.is_none() || ready.is_marked() {
            return false;
        }
        let request = ready.routing_mut().and_then(Routing::take_back);
        let Some(request) = request else { return false };
        self.lose_server(server_key, Closed::Lost, why);
        let now = self.hands.now;
        let Some(ready) = self.clients.ready_mut(client_key) else { return true };
        ready.session_mut().scanner = wire::Scanner::default();
        ready.held_mut().get_or_insert_default().push_front(Chunk::Own(request));
        self.ask_primary(client_key, now);
        self.count_read(client_key, ReadResult::Lost);
        true
    }
}

/// Whether the primary may answer otherwise than with this error: with any but that of a time limit or a cancel request
/// (`ERRCODE_QUERY_CANCELED`), which has a DETAIL only if it tells of a conflict with recovery (`ProcessInterrupts` in `tcop/postgres.c`).
fn is_of_replica(error: &[u8]) -> bool {
    let said = Notice::parse(error);
    said.sqlstate != "57014" || said.detail.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_no_reason_to_ask_again() {
        assert!(is_of_replica(b"SERROR\0C25006\0Mno\0\0"));
        assert!(is_of_replica(
            b"SERROR\0C57014\0Mno\0DUser query might have needed to see row versions that must be removed.\0\0"
        ));
        assert!(!is_of_replica(b"SERROR\0C57014\0Mcanceling statement due to statement timeout\0\0"));
    }
}
