//! A loan begins: a pool lends a server to a client.
//!
//! Always true: a server that is lent is idle, owes nothing, stands between two messages and is not dedicated, or the
//! process aborts.
//! Not here: which client gets which server (crate `pool`), which settings the server is sent first (`catch_up`).

use std::rc::Rc;
use std::time::Duration;

use base::Time;
use pool::{AffinityHold, ClientKey, Event, ServerKey};
use protocol::loan::begin;
use reactor::Io;

use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::data::server::ServerStage;
use crate::observe::course::Course;
use crate::watched::WAITED_LONG;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Lends a server to a client. Returns whether the client's held bytes may be forwarded now.
    pub(crate) fn attach(&mut self, client_key: ClientKey, server_key: ServerKey, waited: Duration) -> bool {
        let since = Time(self.hands.now.0.saturating_sub(waited.as_micros() as u64));
        let (ready, is_listener, tracers) = match self.clients.get_mut(client_key) {
            Some(Client { stage: ClientStage::Ready(ready), is_listener, tracers, .. })
                if matches!(ready.link, Link::Waiting(_)) =>
            {
                (ready, *is_listener, *tracers)
            }
            Some(Client { stage: ClientStage::Ready(Ready { link: Link::AsksReplica(_), .. }), .. }) => {
                return self.takes_replica(client_key, server_key, since)
                    && self.attach(client_key, server_key, waited);
            }
            _ => {
                // The client has gone in this very turn, or needs no server any more; the server has been sent nothing.
                self.give_back(server_key);
                return false;
            }
        };
        let Some(server) = self.servers.get_mut(server_key) else {
            // The server has gone in this very turn: the client's request is still held, and waits for another server.
            self.want_again(client_key, since);
            return false;
        };
        // Anything that could mix two clients' bytes aborts the process: a restart costs a second, a mixed answer
        // cannot be undone.
        assert!(matches!(server.stage, ServerStage::Idle), "a server was to be lent that is not at rest");
        assert!(server.session.exchange.may_end(), "a server was to be lent that owes an answer");
        assert!(
            !server.session.is_in_message(),
            "a server was to be lent in the middle of a message to another client"
        );
        assert!(server.dedicated.is_none(), "a server was to be lent that is one client's alone");
        let totals = &mut self.registry.database_at_mut(server.database).totals;
        totals.server_assignment_count += 1;
        server.affinity_hold = AffinityHold::default();
        server.is_full = false;
        server.request_head.forget();
        if server.sampled.take().is_some() {
            server.session.answer_tally = None;
        }
        // The box of the last loan is reused.
        match (self.hands.active.settings.log_min_duration_transaction, &mut server.course) {
            (None, None) => {}
            (None, course) => *course = None,
            (Some(_), course) => **course.get_or_insert_default() = Course::default(),
        }
        totals.wait_time += waited.as_micros() as u64;
        let pool = server.pool;
        ready.link = Link::Loan(server_key);
        let last = (server.last_client.replace(client_key), ready.last_server.replace(server_key));
        let is_anew = last != (Some(client_key), Some(server_key));
        begin(&mut server.session, &mut ready.session, client_key, is_anew);
        if !Rc::ptr_eq(&server.session.vars, &ready.session.vars) && !ready.is_reading() {
            self.tell_of_server(client_key, server_key);
        }
        if waited >= WAITED_LONG
            && let Some(place) = self.registry.pool_mut(pool)
        {
            place.watched.has_waited(self.hands.now, self.hands.active.settings.log_pool_wait, waited);
        }
        if tracers != 0 {
            self.trace_loan(client_key, waited);
        }
        if is_listener {
            self.tell_pools(Event::TakeOutsideSize { server: server_key });
        }
        self.catches_up(server_key, client_key, since)
    }

    /// Tells a client where its server differs from those before in what only servers change, such as the version.
    fn tell_of_server(&mut self, client_key: ClientKey, server_key: ServerKey) {
        let Some(server) = self.servers.get(server_key) else { return };
        let follows = self.registry.pool(server.pool).is_some_and(|place| place.follows);
        let Some(client) = self.clients.get_mut(client_key) else { return };
        let ClientStage::Ready(ready) = &mut client.stage else { return };
        let tracked = &self.hands.active.tracked;
        if let Some(vars) = ready.session.vars.with_those_of_server(&server.session.vars, tracked, follows) {
            let out = ready.session.becomes(vars, tracked, &mut self.known_vars);
            self.hands.io.send(client.conn, out.into());
        }
    }
}
