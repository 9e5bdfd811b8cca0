//! Dedicated servers, as replication needs them: the client's request for one, the dial, and what the server knows of its client.
//!
//! Always true: a dedicated server is dialed with its client's startup parameters, sends the client its greeting and is
//! closed when the client leaves; the client never gets another server, and no other client gets this one.
//! Not here: how the two are bound (`admission::welcome`) and separated (`data::leave`), whether and when the server
//! may be dialed (`pool::dedicated`), their messages (`protocol::exchange`).

use std::borrow::Cow;

use base::Key;
use measure::Closed;
use pool::{ClientKey, Event, PoolKey, ServerKey};
use protocol::replication::Replication;
use protocol::server::login::Identity;
use reactor::Io;
use wire::backend;

use crate::admission::applicant::add_host;
use crate::data::client::{Client, ClientStage};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Asks the pool for a dedicated server for a client that has authenticated.
    pub(crate) fn want_dedicated(&mut self, key: Key, pool: PoolKey) {
        let settings = &self.hands.active.settings;
        let Some(Client { stage: ClientStage::Login(login), peer, .. }) = self.clients.get_mut(key) else { return };
        if settings.application_name_add_host {
            let place = self.hands.active.tracked.application_name();
            add_host(login.vars_mut(), place, *peer, settings.listen_port);
        }
        let since = self.hands.now;
        self.tell_pools(Event::WantsDedicated { pool, client: key, since });
        self.arm_client(key);
        self.arm_watch();
    }

    /// Prepares the dial of a dedicated server for this client. Returns whether the client is still there; if not, the
    /// server is dropped.
    pub(crate) fn dedicate(&mut self, client_key: ClientKey, key: ServerKey) -> bool {
        let tracked = &self.hands.active.tracked;
        let (dedicated, server) = (self.clients.get_mut(client_key), self.servers.get_mut(key));
        let dedicated = dedicated.and_then(|client| {
            let ClientStage::Login(login) = &mut client.stage else { return None };
            let kind = login
                .request()
                .replication
                .filter(|_| login.waits_for().is_some() && login.dedicated_server().is_none())?;
            login.has_dialed(key);
            let mut parameters = vec![("replication".into(), kind.parameter().into())];
            let vars = login.request().vars.known(tracked);
            parameters.extend(vars.map(|(name, value)| (name.to_owned().into(), value.into())));
            parameters.extend(login.request().options.clone().map(|options| ("options".into(), options)));
            Some(Dedicated { client: client_key, kind, parameters })
        });
        let (Some(dedicated), Some(server)) = (dedicated, server) else {
            self.lose_server(key, Closed::Client, CLIENT_GONE);
            return false;
        };
        server.set_dedicated(dedicated);
        true
    }

    /// Completes the identity for a server's login: a dedicated server gets all startup parameters of its client.
    pub(crate) fn identity_of_dedicated(&mut self, key: ServerKey, mut identity: Identity) -> Identity {
        if let Some(dedicated) = self.servers.get_mut(key).and_then(|server| server.dedicated_mut()) {
            let own = std::mem::take(&mut dedicated.parameters);
            identity.parameters.retain(|(name, _)| !own.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
            identity.parameters.extend(own);
        }
        identity
    }

    /// Whether a dedicated server that closed its connection had finished its stream: a walsender that is told to stop
    /// sends `CommandComplete` and exits. Its client then gets no further error, which it would take for one in the
    /// data it received.
    pub(crate) fn has_said_its_last(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key).filter(|server| server.dedicated().is_some()) else { return false };
        let is_last =
            server.session().scanner.is_between() && server.session().scanner.header()[0] == backend::COMMAND_COMPLETE;
        is_last && server.session().exchange.is_copying_in()
    }
}

/// What a dedicated server knows of its client.
#[derive(Debug)]
pub(crate) struct Dedicated {
    pub(super) client: ClientKey,
    pub(super) kind: Replication,
    /// The client's parameters for the startup packet: a walsender cannot be given them in any other way.
    pub(super) parameters: Vec<(Cow<'static, str>, Box<str>)>,
}

impl Dedicated {
    pub(crate) fn client(&self) -> ClientKey {
        self.client
    }

    pub(crate) fn kind(&self) -> Replication {
        self.kind
    }

    /// Whether the server understands SQL: a walsender without a database does not.
    pub(crate) fn takes_queries(&self) -> bool {
        self.kind == Replication::Logical
    }
}

/// Why a dedicated server is closed whose client has gone before the server was ready.
pub(crate) const CLIENT_GONE: &str = "replication client disconnected";
pub(crate) const CLIENT_GONE_IN_THE_MIDDLE: &str = "client disconnect while server was not ready";
