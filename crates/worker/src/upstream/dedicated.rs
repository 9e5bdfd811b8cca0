//! Servers that are one client's alone, as replication needs them: from the wish to the end of both.
//!
//! Always true: such a server is dialed in its client's name, greets it and goes when it goes; the client never gets
//! another one, and nobody else ever gets this one.
//! Not here: whether and when it may be dialed (`pool::private`), what is said on it (`protocol::exchange`).

use std::borrow::Cow;
use std::time::Duration;

use base::planted::{self, Planted};
use base::{Key, Time};
use pool::{ClientKey, Event, Fingerprint, PoolKey, Return, ServerKey};
use protocol::loan::Life;
use protocol::replication::Replication;
use protocol::server::login::Identity;
use reactor::Io;
use wire::backend;

use crate::admission::login::add_host;
use crate::data::client::{Client, Link, Stage as ClientStage};
use crate::data::server::Stage;
use crate::turn::Worker;

/// What a server has to know of the client whose it is.
#[derive(Debug)]
pub(crate) struct Private {
    client: ClientKey,
    pub(crate) kind: Replication,
    /// What the client said, for the startup packet: there is no other way to tell a walsender.
    parameters: Vec<(Cow<'static, str>, Box<str>)>,
}

impl Private {
    /// Whether it understands SQL: a walsender without a database does not.
    pub(crate) fn takes_queries(&self) -> bool {
        self.kind == Replication::Logical
    }
}

impl<I: Io> Worker<I> {
    /// Which stream a client wants, if it wants one.
    pub(crate) fn replication_of(&self, key: Key) -> Option<Replication> {
        match &self.clients.get(key)?.stage {
            ClientStage::Login(login) => login.request.replication,
            ClientStage::Ready(ready) => ready.replication,
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => None,
        }
    }

    /// A client that may come in wants a server for itself alone.
    pub(crate) fn want_private(&mut self, key: Key, pool: PoolKey) {
        let settings = &self.force.settings;
        let Some(Client { stage: ClientStage::Login(login), peer, .. }) = self.clients.get_mut(key) else { return };
        if settings.application_name_add_host {
            let place = self.force.tracked.application_name();
            add_host(&mut login.request.vars, place, *peer, settings.listen_port);
        }
        let since = self.now;
        self.tell_pools(Event::WantsPrivate { pool, client: key, since });
        self.arm_client(key);
    }

    /// A server is to be dialed for this client. Whether it is still there: otherwise there will be no server.
    pub(crate) fn pledge(&mut self, client_key: ClientKey, key: ServerKey) -> bool {
        let tracked = &self.force.tracked;
        let (private, server) = (self.clients.get_mut(client_key), self.servers.get_mut(key));
        let private = private.and_then(|client| {
            let ClientStage::Login(login) = &mut client.stage else { return None };
            let kind = login.request.replication.filter(|_| login.waits_for().is_some() && login.pledged.is_none())?;
            login.pledged = Some(key);
            let mut parameters = vec![("replication".into(), kind.parameter().into())];
            let vars = login.request.vars.known(tracked);
            parameters.extend(vars.map(|(name, value)| (name.to_owned().into(), value.into())));
            parameters.extend(login.request.options.clone().map(|options| ("options".into(), options)));
            Some(Private { client: client_key, kind, parameters })
        });
        let (Some(private), Some(server)) = (private, server) else {
            self.lose_server(key, CLIENT_GONE);
            return false;
        };
        server.private = Some(Box::new(private));
        true
    }

    /// A server goes: if it was pledged to a client, that waits for another one.
    pub(crate) fn unpledge(&mut self, key: ServerKey) {
        let Some(private) = self.servers.get(key).and_then(|server| server.private.as_ref()) else { return };
        if let Some(Client { stage: ClientStage::Login(login), .. }) = self.clients.get_mut(private.client)
            && login.pledged == Some(key)
        {
            login.pledged = None;
        }
    }

    /// Whom a server is logged in as; one that is a client's alone with all that the client said.
    pub(crate) fn identity_of_private(&mut self, key: ServerKey, mut identity: Identity) -> Identity {
        if let Some(private) = self.servers.get_mut(key).and_then(|server| server.private.as_mut()) {
            let own = std::mem::take(&mut private.parameters);
            identity.parameters.retain(|(name, _)| !own.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
            identity.parameters.extend(own);
        }
        identity
    }

    fn want_private_again(&mut self, client_key: ClientKey, since: Time) {
        let pool = match self.clients.get(client_key).map(|client| &client.stage) {
            Some(ClientStage::Login(login)) if login.pledged.is_none() => login.waits_for(),
            _ => None,
        };
        if let Some(pool) = pool {
            self.tell_pools(Event::WantsPrivate { pool, client: client_key, since });
        }
    }

    /// The server that was dialed for a client is ready: from now on the two talk to each other.
    pub(crate) fn bind(&mut self, client_key: ClientKey, server_key: ServerKey, waited: Duration) {
        let Some(server) = self.servers.get_mut(server_key) else {
            // It has gone in this very turn: the client asks for another one.
            self.want_private_again(client_key, Time(self.now.0.saturating_sub(waited.as_micros() as u64)));
            return;
        };
        let welcome = server.welcome.take();
        let is_there = match self.clients.get(client_key).map(|client| &client.stage) {
            Some(ClientStage::Login(login)) => login.pledged == Some(server_key),
            _ => false,
        };
        let (Some(welcome), true) = (welcome, is_there) else {
            self.lose_server(server_key, CLIENT_GONE);
            return;
        };
        // Whatever could mix two clients' bytes ends the process: a restart costs a second, a mixed answer cannot be undone.
        assert!(matches!(server.stage, Stage::Idle), "a server was to be bound that is not at rest");
        server.lends(client_key, Life::Running);
        server.asked = self.now;
        let (pool, vars) = (server.pool, server.session.vars.clone());
        let totals = &mut self.places.databases[server.database as usize].totals;
        totals.wait_time += waited.as_micros() as u64;
        self.let_in(client_key, pool, &welcome, vars, Link::Loan(server_key));
    }

    /// Its client has gone: nobody else could use it.
    pub(crate) fn leave_private(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let is_at_rest = server.session.exchange.may_end();
        if is_at_rest && planted::is(Planted::PrivateServerReturned) {
            server.comes_to_rest();
            self.tell_pools(Event::Returned { server: key, as_: Return::Clean, fingerprint: Fingerprint::default() });
            return;
        }
        let why = if is_at_rest { "replication client was closed" } else { CLIENT_GONE_IN_THE_MIDDLE };
        self.lose_server(key, why);
    }

    /// Whether a server can be told that this is the end: one that streams listens all the time, as long as its client stands
    /// between two messages.
    pub(crate) fn hears_private(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key) else { return false };
        let Some(private) = server.private.as_ref().filter(|_| server.session.exchange.is_copying_in()) else {
            return false;
        };
        match self.clients.get(private.client) {
            Some(Client { stage: ClientStage::Ready(ready), .. }) => !ready.session.is_torn(),
            _ => false,
        }
    }

    /// Whether a server that has closed its connection had come to the end of its stream: a walsender that is told to stop says
    /// `CommandComplete` and leaves. Its client is told nothing more: it would take that for an error in what it has.
    pub(crate) fn has_said_its_last(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key).filter(|server| server.private.is_some()) else { return false };
        let is_last =
            server.session.scanner.is_between() && server.session.scanner.header()[0] == backend::COMMAND_COMPLETE;
        is_last && server.session.exchange.is_copying_in()
    }
}

/// Why a server is closed whose client has gone before it was ready.
pub(crate) const CLIENT_GONE: &str = "replication client disconnected";
const CLIENT_GONE_IN_THE_MIDDLE: &str = "client disconnect while server was not ready";
