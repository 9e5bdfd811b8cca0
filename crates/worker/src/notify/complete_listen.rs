//! Ends a client's wait for the listener: the client listens now, or gets a server instead.
//!
//! Always true: messages that the client has sent meanwhile are handled as if they had just arrived.
//! Not here: how the wait begins (`begin_listen`).

use pool::ClientKey;
use reactor::Io;
use wire::backend::TxStatus;
use wire::write;

use crate::data::client::{Client, ClientStage, Link};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Ends the client's wait `number`: the client listens now if the listener has caught up (`has_caught_up`), and gets a
    /// server otherwise.
    pub(crate) fn end_listen_wait(&mut self, key: ClientKey, number: Option<u64>, has_caught_up: bool) {
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let wait = ready.listen_wait.take_if(|wait| number.is_none_or(|number| wait.number == number));
        let (Some(wait), Some(place)) = (wait, self.registry.pool(ready.pool)) else { return };
        let database = place.database;
        let listening = &self.registry.databases[database as usize].listening;
        let losses = listening.losses;
        if !has_caught_up || !wait.channels.iter().all(|channel| listening.is_heard(channel)) {
            self.want_first(key);
            self.skip_rejected(key);
            return;
        }
        ready.session.subscriptions(losses).listens(wait.channels.iter().map(|channel| &**channel));
        for channel in wait.channels {
            self.subscribe(key, database, channel);
        }
        let totals = &mut self.registry.databases[database as usize].totals;
        totals.query_count += 1;
        totals.xact_count += 1;
        let Some(Client { conn, stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(key) else {
            return;
        };
        ready.session.subscriptions(losses).move_to_listener();
        ready.drop_first_request();
        *answered = self.now;
        let (count, tag) = wait.tags;
        let mut out = Vec::new();
        (0..count).for_each(|_| write::command_complete(&mut out, tag));
        write::ready_for_query(&mut out, TxStatus::Idle);
        self.io.send(*conn, out.into());
        self.resume_client(key);
        self.arm_client(key);
        // What the client has sent behind the request that was answered.
        if let Some(ready) = self.clients.ready_mut(key).filter(|ready| ready.link == Link::None) {
            let rest = ready.held.take();
            self.hold_again(key, rest);
        }
    }
}
