//! Servers that are one client's alone, as replication needs them: the wish, and the dial.
//!
//! Always true: such a server is dialed in its client's name, greets it and goes when it goes; the client never gets
//! another one, and nobody else ever gets this one.
//! Not here: how the two come together (`admission::welcome`) and part (`data::leave`), whether and when it may be dialed (`pool::dedicated`), what is said on it (`protocol::exchange`).

use base::Key;
use measure::Closed;
use pool::{ClientKey, Event, PoolKey, ServerKey};
use protocol::server::login::Identity;
use reactor::Io;
use wire::backend;

use crate::admission::applicant::add_host;
use crate::data::client::{Client, Stage as ClientStage};
use crate::upstream::dedicated_client::{CLIENT_GONE, Dedicated};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// A client that may come in wants a server for itself alone.
    pub(crate) fn want_dedicated(&mut self, key: Key, pool: PoolKey) {
        let settings = &self.active.settings;
        let Some(Client { stage: ClientStage::Login(login), peer, .. }) = self.clients.get_mut(key) else { return };
        if settings.application_name_add_host {
            let place = self.active.tracked.application_name();
            add_host(&mut login.request.vars, place, *peer, settings.listen_port);
        }
        let since = self.now;
        self.tell_pools(Event::WantsDedicated { pool, client: key, since });
        self.arm_client(key);
        self.arm_watch();
    }

    /// A server is to be dialed for this client. Whether it is still there: otherwise there will be no server.
    pub(crate) fn dedicate(&mut self, client_key: ClientKey, key: ServerKey) -> bool {
        let tracked = &self.active.tracked;
        let (dedicated, server) = (self.clients.get_mut(client_key), self.servers.get_mut(key));
        let dedicated = dedicated.and_then(|client| {
            let ClientStage::Login(login) = &mut client.stage else { return None };
            let kind =
                login.request.replication.filter(|_| login.waits_for().is_some() && login.dedicating.is_none())?;
            login.dedicating = Some(key);
            let mut parameters = vec![("replication".into(), kind.parameter().into())];
            let vars = login.request.vars.known(tracked);
            parameters.extend(vars.map(|(name, value)| (name.to_owned().into(), value.into())));
            parameters.extend(login.request.options.clone().map(|options| ("options".into(), options)));
            Some(Dedicated { client: client_key, kind, parameters })
        });
        let (Some(dedicated), Some(server)) = (dedicated, server) else {
            self.lose_server(key, Closed::Client, CLIENT_GONE);
            return false;
        };
        server.dedicated = Some(Box::new(dedicated));
        true
    }

    /// Whom a server is logged in as; one that is a client's alone with all that the client said.
    pub(crate) fn identity_of_dedicated(&mut self, key: ServerKey, mut identity: Identity) -> Identity {
        if let Some(dedicated) = self.servers.get_mut(key).and_then(|server| server.dedicated.as_mut()) {
            let own = std::mem::take(&mut dedicated.parameters);
            identity.parameters.retain(|(name, _)| !own.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
            identity.parameters.extend(own);
        }
        identity
    }

    /// Whether a server that has closed its connection had come to the end of its stream: a walsender that is told to stop says
    /// `CommandComplete` and leaves. Its client is told nothing more: it would take that for an error in what it has.
    pub(crate) fn has_said_its_last(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key).filter(|server| server.dedicated.is_some()) else { return false };
        let is_last =
            server.session.scanner.is_between() && server.session.scanner.header()[0] == backend::COMMAND_COMPLETE;
        is_last && server.session.exchange.is_copying_in()
    }
}
