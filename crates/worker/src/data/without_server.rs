//! A client without a server sends what needs none: Close, Flush and Sync.
//!
//! Always true: such messages are answered at once and in order, also while every server of the pool is lent; a client that
//! waits for a server, or for the listener, is answered nothing before that.
//! Not here: which messages these are, and what is answered (`protocol::loan`).

use base::Key;
use pool::Mode;
use protocol::loan::{Unaided, may_be_unaided};
use reactor::Io;
use wire::backend;

use crate::data::client::{Client, ClientStage};
use crate::data::want::COLLECTED_BYTES_MAX;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Answers the first held messages of a client without a server, whose first message is of this `kind`, if they need
    /// none. Returns whether no server is to be asked for now.
    pub(crate) fn answers_without_server(&mut self, key: Key, kind: u8) -> bool {
        if !may_be_unaided(kind) || self.admin.is_ending_servers() || self.admin.is_resting() {
            return false;
        }
        let has_statements = self.hands.active.settings.max_prepared_statements > 0;
        let Some(Client { conn, stage: ClientStage::Ready(ready), is_listener: false, answered, .. }) =
            self.clients.get_mut(key)
        else {
            return false;
        };
        // A client whose startup parameters no server has seen yet may have to be refused for them.
        let is_known = ready.last_server.is_some() || ready.are_parameters_accepted;
        let may_be_served = is_known && ready.replication.is_none();
        let place = self.registry.pool(ready.pool).filter(|_| may_be_served);
        let Some(place) = place else { return false };
        let Some(held) = ready.held.as_ref().filter(|_| !ready.session.scanner.is_in_body()) else { return false };
        let bytes: Vec<u8> = ready.session.scanner.torn_header().iter().copied().chain(held.bytes()).collect();
        let follows = has_statements && place.mode != Mode::Session;
        let (end, answers) = match ready.session.answers_unaided(&bytes, follows) {
            Unaided::Nothing => return false,
            Unaided::Wait => return bytes.len() < COLLECTED_BYTES_MAX,
            Unaided::Answered { end, answers } => (end, answers),
        };
        let conn = *conn;
        *answered = self.hands.now;
        ready.hold_from(bytes, end);
        // As for a LISTEN that the listener answers.
        let (database, count) = (place.database, u64::from(answers.contains(&backend::READY_FOR_QUERY)));
        let totals = &mut self.registry.database_at_mut(database).totals;
        (totals.query_count, totals.xact_count) = (totals.query_count + count, totals.xact_count + count);
        self.send_to_client(key, answers);
        if self.is_behind(key) {
            self.hands.io.tell_when_drained(conn);
            self.pause_client(key);
        }
        let rest = self.clients.ready_mut(key).and_then(|ready| ready.held.take());
        self.hold_again(key, rest);
        true
    }
}
