//! What one process hands over to the next: everything about its connections that is not in the sockets themselves.
//!
//! Always true: these are plain values, with names wherever the other process assigns numbers of its own; parameters
//! and statements are written out, so that a process with other settings can use them. Whoever adds or removes a field
//! here raises `control::transfer::VERSION`, unless the field has a default that was the only meaning before.
//! Not here: packing (`export`), unpacking (`import`), the transport (`control`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::WorkerId;
use protocol::cancel::{CancelKey, KeyName};
use protocol::exchange::Exchange;
use protocol::loan::{AnswerFate, RequestFate};
use protocol::pack::Packed;
use protocol::prepared::{PackedNames, PackedServerStatements, PackedStatement, PackedUnnamed};
use protocol::state::{Hold, Overrides, SettingStatements, Unlistens};
use reactor::Address;
use serde::{Deserialize, Serialize};
use wire::Scanner;

/// A part of a worker's state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Export {
    /// The pools; in the first part of each worker.
    #[serde(default)]
    pub pools: Vec<PackedPool>,
    /// Statements to which the pairs in this part refer.
    #[serde(default)]
    pub statements: Vec<PackedStatement>,
    /// Clients with their servers.
    #[serde(default)]
    pub pairs: Vec<Pair>,
}

/// A part on its way to the other process.
#[derive(Debug)]
pub struct Parcel<S> {
    /// What is packed.
    pub export: Export,
    /// The sockets of the pairs, each client's before its server's.
    pub sockets: Vec<S>,
    /// Listening sockets; in the first part of each worker.
    pub listeners: Vec<reactor::Listener>,
    /// Where the next part begins, if there is one.
    pub next: Option<Cursor>,
    /// Why packing has failed.
    pub fault: Option<String>,
}

/// How far a worker has been packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cursor {
    /// Listeners and pools come first.
    Start,
    /// Then clients, from this place of their table on.
    Clients(u32),
    /// Then servers that no client has.
    Servers(u32),
}

/// The share of one worker.
#[derive(Debug)]
pub struct Imports<S> {
    /// The pools.
    pub pools: Vec<PackedPool>,
    /// All statements, by their numbers.
    pub statements: Arc<BTreeMap<u64, PackedStatement>>,
    /// Clients and servers, with their sockets.
    pub pairs: Vec<(Pair, Vec<S>)>,
    /// Clients on other workers whose cancel keys name this worker.
    pub moved_keys: Vec<(KeyName, WorkerId)>,
}

/// A client, a server, or a client that has a server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Pair {
    /// The client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<PackedClient>,
    /// The server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<PackedServer>,
}

/// The database and the user on its servers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoolName {
    /// The database.
    pub database: String,
    /// The user.
    pub user: String,
}

/// Parameters and their values.
pub(crate) type PackedVars = Vec<(String, String)>;

/// What is known of a pool.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackedPool {
    /// Its database and user.
    pub name: PoolName,
    /// `Database::stamp` of the database's configuration; the servers are not reused where the new process has another one.
    pub(crate) stamp: String,
    /// The welcome of its clients: messages, and parameters.
    pub(crate) welcome: Option<(Packed, PackedVars)>,
    /// The initial state of its servers' sessions.
    #[serde(default)]
    pub(crate) begun: Overrides,
    /// The welcome came from servers that are to be replaced.
    #[serde(default)]
    pub(crate) is_welcome_old: bool,
    /// The SCRAM keys from a client's login.
    pub(crate) keys: Option<(Packed, Packed)>,
    /// Whether session state has followed its clients.
    #[serde(default)]
    pub(crate) follows: bool,
    /// Custom settings (with a dot in their names) that some statement has mentioned.
    #[serde(default)]
    pub(crate) custom: Vec<String>,
    /// There were more of them than are remembered.
    #[serde(default)]
    pub(crate) is_custom_incomplete: bool,
    /// Clients of its user call `currval` or `lastval` for sequences of an earlier transaction.
    #[serde(default, rename = "asks_for_numbers")]
    pub(crate) asks_for_sequences: bool,
    /// The user's secret as a server has returned it (`auth_query`), or as an external authenticator has confirmed it.
    pub(crate) told: Option<Packed>,
}

/// A client.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackedClient {
    /// Its number in the logs and on the console.
    pub(crate) id: u64,
    /// Microseconds of the machine's clock.
    pub(crate) since: u64,
    pub(crate) asked: u64,
    /// Whether it is connected by a unix socket.
    pub is_unix: bool,
    pub(crate) stage: PackedStage,
    /// Its address, if a PROXY header has told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) told_address: Option<SocketAddr>,
}

/// The stage of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PackedStage {
    Greeting {
        said: Packed,
        has_spoken: bool,
        since_wall: i64,
        /// A PROXY header must come before anything else.
        #[serde(default)]
        awaits_proxy_header: bool,
    },
    Welcome {
        pool: PoolName,
        user: String,
        /// The minor version of protocol 3.
        #[serde(default)]
        minor: u16,
        vars: PackedVars,
        #[serde(default)]
        settings: Overrides,
        said: Packed,
        since: u64,
    },
    Ready(Box<PackedReady>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PackedReady {
    pub(crate) pool: PoolName,
    pub(crate) user: String,
    pub(crate) vars: PackedVars,
    #[serde(default)]
    pub(crate) overrides: Overrides,
    #[serde(default)]
    pub(crate) given: Overrides,
    /// The parameters that its session began with, if they differ from the present ones.
    #[serde(default)]
    pub(crate) began: Option<PackedVars>,
    /// The channels it listens to through the listener.
    #[serde(default)]
    pub(crate) channels: Vec<Box<str>>,
    /// Its UNLISTENs that have not taken effect yet.
    #[serde(default)]
    pub(crate) unlistens: Unlistens,
    /// Its pins: what is held, since when, and by which statement.
    #[serde(default)]
    pub(crate) pins: Vec<(Hold, u64, Box<str>)>,
    /// The first bytes of its cancel key; all of them with protocol 3.0.
    pub(crate) cancel_key: Packed,
    /// The rest of the cancel key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cancel_key_rest: Option<Packed>,
    pub(crate) scanner: Scanner,
    pub(crate) fate: RequestFate,
    #[serde(default)]
    pub(crate) names: Option<PackedNames>,
    pub(crate) unnamed: PackedUnnamed,
    /// The beginning of a message that cannot be read yet, and the length of the whole message.
    #[serde(default)]
    pub(crate) collected: Option<(Packed, usize)>,
    pub(crate) is_notified: bool,
    #[serde(default)]
    pub(crate) skips: crate::data::held::Skips,
    pub(crate) is_answer_torn: bool,
    pub(crate) held: Packed,
    /// Since when it has waited for a server.
    #[serde(default)]
    pub(crate) waits_since: Option<u64>,
}

/// A server.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackedServer {
    /// Its number in the logs and on the console.
    pub(crate) id: u64,
    /// Its pool.
    pub pool: PoolName,
    /// The address it was dialed at.
    pub(crate) address: PackedAddress,
    pub(crate) host: String,
    pub(crate) since: u64,
    pub(crate) heard: u64,
    pub(crate) asked: u64,
    pub(crate) query_since: Option<u64>,
    pub(crate) xact_since: Option<u64>,
    pub(crate) query_number: u64,
    pub(crate) exchange: Exchange,
    #[serde(rename = "stock")]
    pub(crate) server_statements: PackedServerStatements,
    pub(crate) vars: PackedVars,
    /// The parameters with which its session began, if they are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<PackedVars>,
    /// The names of the parameters that its session has set.
    #[serde(default)]
    pub(crate) set_parameters: Vec<String>,
    #[serde(default)]
    pub(crate) overrides: Overrides,
    #[serde(default)]
    pub(crate) told_by: SettingStatements,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reported_name: Option<Box<str>>,
    pub(crate) cancel_key: Packed,
    pub(crate) scanner: Scanner,
    pub(crate) fate: AnswerFate,
    #[serde(default)]
    pub(crate) collected: Packed,
    /// When its login was complete, and since when it has been idle or lent.
    pub(crate) times: (u64, u64),
    pub(crate) is_obsolete: bool,
    /// A probe of its session follows its client's request.
    #[serde(default)]
    pub(crate) is_asked_in_advance: bool,
}

/// The address of a server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PackedAddress {
    Tcp(SocketAddr),
    Unix(String),
    Abstract(String),
}

impl From<&Address> for PackedAddress {
    fn from(address: &Address) -> Self {
        match address {
            Address::Tcp(address) => Self::Tcp(*address),
            Address::Unix(path) => Self::Unix(path.to_string()),
            Address::Abstract(name) => Self::Abstract(name.to_string()),
        }
    }
}

impl From<PackedAddress> for Address {
    fn from(packed: PackedAddress) -> Self {
        match packed {
            PackedAddress::Tcp(address) => Self::Tcp(address),
            PackedAddress::Unix(path) => Self::Unix(path.into()),
            PackedAddress::Abstract(name) => Self::Abstract(name.into()),
        }
    }
}

impl PackedClient {
    /// The pool of this client, once it has one.
    #[must_use]
    pub fn pool(&self) -> Option<&PoolName> {
        match &self.stage {
            PackedStage::Greeting { .. } => None,
            PackedStage::Welcome { pool, .. } => Some(pool),
            PackedStage::Ready(ready) => Some(&ready.pool),
        }
    }

    /// The part of its cancel key that identifies it, once it may have queries.
    #[must_use]
    pub fn key_name(&self) -> Option<KeyName> {
        match &self.stage {
            PackedStage::Ready(ready) => CancelKey::parse(&ready.cancel_key.0).map(|key| key.name()),
            _ => None,
        }
    }
}

impl Pair {
    /// Notes that the client reads a message that its server has sent only in part, in case the server turns out to be
    /// of no use.
    #[must_use]
    pub(crate) fn with_torn_answer_noted(mut self) -> Self {
        let is_torn = self
            .server
            .as_ref()
            .is_some_and(|server| server.scanner.is_in_body() && matches!(server.fate, AnswerFate::Forward));
        if let Some(PackedClient { stage: PackedStage::Ready(ready), .. }) = &mut self.client {
            ready.is_answer_torn |= is_torn;
        }
        self
    }

    /// The number of its sockets.
    #[must_use]
    pub fn sockets(&self) -> usize {
        usize::from(self.client.is_some()) + usize::from(self.server.is_some())
    }

    /// The database of this pair, once it has one.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        let pool = self.client.as_ref().and_then(PackedClient::pool);
        pool.or(self.server.as_ref().map(|server| &server.pool)).map(|pool| &*pool.database)
    }

    /// Whether each of its sockets is a unix socket.
    pub fn are_unix(&self) -> impl Iterator<Item = bool> {
        let client = self.client.as_ref().map(|client| client.is_unix);
        let server = self.server.as_ref().map(|server| !matches!(server.address, PackedAddress::Tcp(_)));
        client.into_iter().chain(server)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::forward_to_deserialize_any;

    use super::*;

    /// Records which fields are asked for.
    struct Fields<'f>(&'f mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for Fields<'_> {
        type Error = serde::de::value::Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _name: &'static str,
            fields: &'static [&'static str],
            _visitor: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.extend(fields);
            Err(Self::Error::custom("heard"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
            Err(Self::Error::custom("no struct"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn fields<T: for<'de> Deserialize<'de>>() -> String {
        let mut fields = Vec::new();
        assert!(T::deserialize(Fields(&mut fields)).is_err());
        fields.join(" ")
    }

    /// Other versions of the program read these: fields may be added, and none may be removed or renamed.
    #[test]
    fn what_is_handed_over_has_the_names_that_other_versions_know() {
        assert_eq!(
            fields::<PackedPool>(),
            "name stamp welcome begun is_welcome_old keys follows custom is_custom_incomplete asks_for_numbers told"
        );
        assert_eq!(fields::<PackedClient>(), "id since asked is_unix stage told_address");
        assert_eq!(
            fields::<PackedReady>(),
            "pool user vars overrides given began channels unlistens pins cancel_key cancel_key_rest scanner fate names unnamed collected is_notified skips is_answer_torn held waits_since"
        );
        assert_eq!(
            fields::<PackedServer>(),
            "id pool address host since heard asked query_since xact_since query_number exchange stock vars began set_parameters overrides told_by reported_name cancel_key scanner fate collected times is_obsolete is_asked_in_advance"
        );
    }
}
