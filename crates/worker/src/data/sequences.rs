//! Values of sequences that a client has drawn and asks for later (`currval`, `lastval`): only the session of one
//! server knows them.
//!
//! Always true: a client that is known to ask is never given a value that another client has drawn; a server is kept
//! for sequences no longer than `sequence_hold_time` after a transaction.
//! Not here: which texts draw and ask (`route::Sequences`), what a transaction has done with sequences
//! (`protocol::state::Counting`).

use pool::{ClientKey, ServerKey};
use protocol::state::{Counted, Kind, Policy};
use reactor::Io;

use crate::data::client::{Client, ClientStage};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A transaction has ended, and so could the loan if its client did not need the values that it has drawn. Returns
    /// whether the client keeps its server, for whatever reason.
    pub(crate) fn count_sequences(&mut self, server_key: ServerKey, client_key: ClientKey, counted: Counted) -> bool {
        let Some(server) = self.servers.get_mut(server_key) else { return false };
        let Some(Client { stage: ClientStage::Ready(ready), is_own: false, .. }) = self.clients.get_mut(client_key)
        else {
            return self.is_marked(client_key);
        };
        if !self.registry.database_at(server.database).function_catalog.asks_for_sequences(ready.session.user) {
            return self.is_marked(client_key);
        }
        let rules = self.registry.pool(server.pool).map(|place| &place.pin_rules);
        let is_refused = rules.is_none_or(|rules| rules.policy(Kind::Sequence) == Policy::Reject);
        let hold = self.hands.active.settings.sequence_hold_time.filter(|_| !is_refused);
        let function_catalog = &mut self.registry.database_at_mut(server.database).function_catalog;
        let session_effects = ready.session.session_effects.get_or_insert_default();
        let mut is_new = false;
        match counted {
            Counted::Asked => {
                function_catalog.numbers.asked(session_effects.drawn_by());
                session_effects.lets_go_of_sequences();
                server.session.sequences_until = None;
            }
            Counted::Drew => {
                if let Some(before) = session_effects.lets_go_of_sequences() {
                    function_catalog.numbers.in_vain(&before);
                }
                let hold = hold.filter(|_| function_catalog.numbers.is_worth_it(session_effects.drawn_by()));
                server.session.sequences_until = hold.map(|hold| self.hands.now + hold);
                is_new = hold.is_some();
                if is_new {
                    session_effects.keeps_sequences(self.hands.now);
                }
            }
            Counted::Neither => {}
        }
        if is_new {
            self.tell_of_pins(server_key, client_key);
        }
        self.is_marked(client_key)
    }
}
