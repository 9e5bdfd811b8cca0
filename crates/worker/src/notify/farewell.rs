//! A client goes, and may have listened for all, or be owed what is withheld from it.
//!
//! Always true: nobody waits for a session that has gone.
//! Not here: how it is closed (`data::close`).

use base::Key;
use pool::ClientKey;
use reactor::Io;

use crate::data::client::{Client, Link, Ready, Stage as ClientStage};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client goes: if it is the session for all, nobody waits for it.
    pub(crate) fn listener_goes(&mut self, client: ClientKey) {
        let Some(Client { is_listener: true, stage: ClientStage::Ready(ready), .. }) = self.clients.get(client) else {
            return;
        };
        let Some(database) = self.places.pool(ready.pool).map(|place| place.database) else { return };
        let listening = &mut self.places.databases[database as usize].listening;
        if listening.session.take_if(|session| *session == client).is_some() {
            let everybody = listening.rounds.ends();
            self.release_all(everybody, false);
        }
    }

    /// A client goes: what its server has said before is given to it first.
    pub(crate) fn release_before_farewell(&mut self, client: Key) {
        if let Some(Client { stage: ClientStage::Ready(Ready { link: Link::Loan(server), .. }), .. }) =
            self.clients.get(client)
        {
            self.release(*server);
        }
    }
}
