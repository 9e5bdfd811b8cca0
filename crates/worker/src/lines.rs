//! The beginnings of log lines about a client or a server, and lines that several files write.
//!
//! Always true: a line names the connection that it is about, with database, user and address as far as they are known.
//! Not here: lines that only one file writes.

use std::fmt;
use std::net::SocketAddr;

use base::{Id, Key};
use pool::ServerKey;
use protocol::fault::Fault;
use protocol::replication::Replication;
use reactor::{Address, Io, Level, Peer, Subject};
use route::Encoding;

use crate::admin::console::CONSOLE;
use crate::data::client::{Client, ClientStage, Ready};
use crate::letters::Inquirer;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Logs a line about a client.
    pub(crate) fn log_client(&mut self, key: Key, level: Level, words: fmt::Arguments<'_>) {
        let line = self.client_prefix(key);
        self.hands.log.about(&line, level, words);
    }

    /// Logs a line about a server.
    pub(crate) fn log_server(&mut self, key: ServerKey, level: Level, words: fmt::Arguments<'_>) {
        let line = self.server_prefix(key);
        self.hands.log.about(&line, level, words);
    }

    /// The beginning of a log line about a client: `C-0x2a: shop/ann@10.0.0.1:5000 `.
    pub(crate) fn client_prefix(&self, key: Key) -> Subject {
        let Some(client) = self.clients.get(key) else { return Subject::default() };
        let (database, user) = match &client.stage {
            ClientStage::Greeting(_) | ClientStage::Cancelling(_) => ("(nodb)", "(nouser)"),
            ClientStage::Login(login) => (&*login.request().database, &*login.request().user),
            ClientStage::Console(console) => (CONSOLE, console.user()),
            ClientStage::Ready(ready) => {
                let database = self.registry.pool(ready.pool()).map_or("(nodb)", |place| &*place.database_name);
                (database, &*self.registry.user_at(ready.session().user).name)
            }
        };
        let id = Id::Client(client.id);
        let of = |address: fmt::Arguments<'_>| Subject::connection(id, database, user, address);
        let port = self.hands.active.settings.listen_port;
        match client.peer {
            Peer::Tcp { ip, port } => Subject::connection_over_tcp(id, database, user, SocketAddr::new(ip, port)),
            Peer::Unix { pid: 0, .. } => of(format_args!("unix:{port}")),
            Peer::Unix { pid, .. } => of(format_args!("unix({pid}):{port}")),
        }
    }

    /// The beginning of a log line about a server.
    pub(crate) fn server_prefix(&self, key: ServerKey) -> Subject {
        let Some(server) = self.servers.get(key) else { return Subject::default() };
        let place = self.registry.pool(server.pool());
        let (database, user) = place.map_or(("(nodb)", "(nouser)"), |place| (&*place.database_name, &*place.user_name));
        let id = Id::Server(server.id());
        let of = |address: fmt::Arguments<'_>| Subject::connection(id, database, user, address);
        let port = server.host().port();
        match server.address() {
            Some(Address::Tcp(address)) => Subject::connection_over_tcp(id, database, user, *address),
            Some(Address::Unix(_) | Address::Abstract(_)) => of(format_args!("unix:{port}")),
            None => of(format_args!("(unknown):{port}")),
        }
    }

    /// The client's `client_encoding`.
    pub(crate) fn encoding_of(&self, ready: &Ready) -> Encoding {
        let place = self.hands.active.tracked.place("client_encoding");
        place.and_then(|place| ready.session().vars.get(place)).map_or(Encoding::Safe, Encoding::of)
    }

    /// The address of a client, and its port.
    pub(crate) fn address_of_peer(&self, client: &Client) -> (String, u16) {
        match client.peer {
            Peer::Tcp { ip, port } => (ip.to_string(), port),
            Peer::Unix { .. } => ("unix".to_owned(), self.hands.active.settings.listen_port),
        }
    }

    pub(crate) fn inquirer_prefix(&self, inquirer: Inquirer) -> Subject {
        match inquirer {
            Inquirer::Client(key) => self.client_prefix(key),
            Inquirer::Pool(key) => match self.registry.pool(key) {
                Some(place) => Subject::pool(&place.database_name, &place.user_name),
                None => Subject::default(),
            },
        }
    }

    pub(crate) fn login_failed_line(&mut self, key: Key) {
        let Some(login) = self.clients.login(key) else { return };
        let (user, database) = (login.request().user.clone(), login.request().database.clone());
        self.log_client(key, Level::Log, format_args!("login failed: db={database} user={user}"));
    }

    /// Logs a login attempt: database, user, TLS and kind of replication.
    pub(crate) fn log_attempt(&mut self, key: Key, database: &str, user: &str) {
        let Some(client) = self.clients.get(key).filter(|_| self.hands.active.settings.log_connections) else { return };
        let tls = client.security.clone();
        let tls = tls.as_ref().map_or("no", |security| &security.summary);
        let stream = Replication::word(self.replication_of(key));
        let words = format_args!("login attempt: db={database} user={user} tls={tls} replication={stream}");
        self.log_client(key, Level::Log, words);
    }

    /// Logs the name of the prepared statement that an error is about.
    pub(crate) fn explain_statement(&mut self, client: Key, fault: &Fault) {
        let (name, what) = match fault {
            Fault::StatementUnknown { name } => (name, "not found"),
            Fault::StatementInUse { name } => (name, "was already prepared"),
            _ => return,
        };
        self.log_client(client, Level::Error, format_args!("prepared statement '{name}' {what}"));
    }
}
