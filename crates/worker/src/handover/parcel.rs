//! What one process hands over to the next: everything about a conversation that is not in its sockets.
//!
//! Always true: these are values, with names instead of numbers wherever the other process counts anew; parameters and
//! statements are told in full, so that a process with other settings can make sense of them. Whoever adds or removes a field
//! here raises `control::courier::VERSION`, unless the field has a default that was the only meaning before.
//! Not here: packing (`export`), unpacking (`import`), and how the values travel (`control`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::WorkerId;
use protocol::cancel::{CancelKey, KeyName};
use protocol::exchange::Exchange;
use protocol::loan::{AnswerFate, RequestFate};
use protocol::pack::Packed;
use protocol::prepared::{PackedNames, PackedServerStatements, PackedStatement, PackedUnnamed};
use protocol::state::{Hold, Overrides, Prepared, Unlistens};
use reactor::Address;
use serde::{Deserialize, Serialize};
use wire::Scanner;

/// A part of what a worker has.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Export {
    /// What is known of pools; in the first part of each worker.
    #[serde(default)]
    pub pools: Vec<PackedPool>,
    /// Statements that the pairs in this part hold.
    #[serde(default)]
    pub statements: Vec<PackedStatement>,
    /// Clients with their servers.
    #[serde(default)]
    pub pairs: Vec<Pair>,
}

/// A part on its way to the other process.
#[derive(Debug)]
pub struct Parcel<S> {
    /// What is told.
    pub export: Export,
    /// The sockets of the pairs, each client's before its server's.
    pub sockets: Vec<S>,
    /// Where newcomers knock; in the first part of each worker.
    pub listeners: Vec<reactor::Listener>,
    /// Where to go on, if there is more.
    pub next: Option<Cursor>,
    /// Why it cannot be packed.
    pub fault: Option<String>,
}

/// How far a worker has been packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cursor {
    /// Listeners and pools come first.
    Start,
    /// Then clients, from this place of their table on.
    Clients(u32),
    /// Then servers that nobody has.
    Servers(u32),
}

/// What comes to a worker.
#[derive(Debug)]
pub struct Imports<S> {
    /// What is known of pools.
    pub pools: Vec<PackedPool>,
    /// All statements, by their numbers.
    pub statements: Arc<BTreeMap<u64, PackedStatement>>,
    /// Clients and servers, with their sockets.
    pub pairs: Vec<(Pair, Vec<S>)>,
    /// Clients elsewhere whose keys name this worker.
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
    /// Which.
    pub name: PoolName,
    /// What its servers stand on; they are of no use where that is another text.
    pub(crate) stamp: String,
    /// What its clients are greeted with.
    pub(crate) welcome: Option<(Packed, PackedVars)>,
    /// What their sessions begin with.
    #[serde(default)]
    pub(crate) begun: Overrides,
    /// That was said by servers that are to be replaced.
    #[serde(default)]
    pub(crate) is_welcome_old: bool,
    /// The keys that a client's login has revealed.
    pub(crate) keys: Option<(Packed, Packed)>,
    /// Whether the state of their sessions has followed its clients.
    #[serde(default)]
    pub(crate) follows: bool,
    /// Settings with a dot in their names that somebody has mentioned.
    #[serde(default)]
    pub(crate) custom: Vec<String>,
    /// There have been more than were remembered.
    #[serde(default)]
    pub(crate) is_custom_incomplete: bool,
    /// Programs of its user ask for numbers of sequences that they have drawn in an earlier transaction.
    #[serde(default, rename = "asks_for_numbers")]
    pub(crate) asks_for_sequences: bool,
    /// What a server has told of its user's secret.
    pub(crate) told: Option<Packed>,
}

/// A client.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackedClient {
    /// Its number.
    pub(crate) id: u64,
    /// Microseconds on the clock of the machine.
    pub(crate) since: u64,
    pub(crate) asked: u64,
    /// Whether it came by a unix socket.
    pub is_unix: bool,
    pub(crate) stage: PackedStage,
}

/// What its conversation waits for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PackedStage {
    Greeting {
        said: Packed,
        has_spoken: bool,
        since_wall: i64,
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
    /// The parameters that its session began with, if they are others now.
    #[serde(default)]
    pub(crate) began: Option<PackedVars>,
    /// What it listens to where somebody does that for all.
    #[serde(default)]
    pub(crate) channels: Vec<Box<str>>,
    /// Those of them that it leaves.
    #[serde(default)]
    pub(crate) unlistens: Unlistens,
    /// What keeps its server: what is held, since when, and by which statement.
    #[serde(default)]
    pub(crate) pins: Vec<(Hold, u64, Box<str>)>,
    /// The first bytes of its key; all of them for who speaks protocol 3.0.
    pub(crate) cancel_key: Packed,
    /// The rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cancel_key_rest: Option<Packed>,
    pub(crate) scanner: Scanner,
    pub(crate) fate: RequestFate,
    #[serde(default)]
    pub(crate) names: Option<PackedNames>,
    pub(crate) unnamed: PackedUnnamed,
    /// The beginning of a message that cannot be understood yet, and how long all of it is.
    #[serde(default)]
    pub(crate) collected: Option<(Packed, usize)>,
    pub(crate) is_notified: bool,
    #[serde(default)]
    pub(crate) skips: crate::data::held::Skips,
    pub(crate) is_answer_torn: bool,
    pub(crate) held: Packed,
    /// Since when it waits for a server.
    #[serde(default)]
    pub(crate) waits_since: Option<u64>,
}

/// A server.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackedServer {
    /// Its number.
    pub(crate) id: u64,
    /// Its pool.
    pub pool: PoolName,
    /// Where it is.
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
    #[serde(default)]
    pub(crate) overrides: Overrides,
    #[serde(default)]
    pub(crate) told_by: Prepared,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reported_name: Option<Box<str>>,
    pub(crate) cancel_key: Packed,
    pub(crate) scanner: Scanner,
    pub(crate) fate: AnswerFate,
    #[serde(default)]
    pub(crate) collected: Packed,
    /// When its login was complete, and since when it is idle or lent.
    pub(crate) times: (u64, u64),
    pub(crate) is_obsolete: bool,
    /// What its session keeps has been asked behind its client's request.
    #[serde(default)]
    pub(crate) is_asked_in_advance: bool,
}

/// Where a server is.
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
    /// The pool that it belongs to, once it does.
    #[must_use]
    pub fn pool(&self) -> Option<&PoolName> {
        match &self.stage {
            PackedStage::Greeting { .. } => None,
            PackedStage::Welcome { pool, .. } => Some(pool),
            PackedStage::Ready(ready) => Some(&ready.pool),
        }
    }

    /// What a cancel request finds it by, once it may have queries.
    #[must_use]
    pub fn key_name(&self) -> Option<KeyName> {
        match &self.stage {
            PackedStage::Ready(ready) => CancelKey::parse(&ready.cancel_key.0).map(|key| key.name()),
            _ => None,
        }
    }
}

impl Pair {
    /// When the server is in the middle of a message to its client, the client must know that it reads one, even if the
    /// server turns out to be of no use.
    pub(crate) fn note_torn_answer(&mut self) {
        let is_torn = self
            .server
            .as_ref()
            .is_some_and(|server| server.scanner.is_in_body() && matches!(server.fate, AnswerFate::Forward));
        if let Some(PackedClient { stage: PackedStage::Ready(ready), .. }) = &mut self.client {
            ready.is_answer_torn |= is_torn;
        }
    }

    /// How many sockets it has.
    #[must_use]
    pub fn sockets(&self) -> usize {
        usize::from(self.client.is_some()) + usize::from(self.server.is_some())
    }

    /// The database that it belongs to, once it does.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        let pool = self.client.as_ref().and_then(PackedClient::pool);
        pool.or(self.server.as_ref().map(|server| &server.pool)).map(|pool| &*pool.database)
    }

    /// Whether each of its sockets is one of a unix socket.
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

    /// Hears which fields are asked for.
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

    /// Another version of the program reads them: a field may come, and none may go or be called otherwise.
    #[test]
    fn what_is_handed_over_has_the_names_that_other_versions_know() {
        assert_eq!(
            fields::<PackedPool>(),
            "name stamp welcome begun is_welcome_old keys follows custom is_custom_incomplete asks_for_numbers told"
        );
        assert_eq!(fields::<PackedClient>(), "id since asked is_unix stage");
        assert_eq!(
            fields::<PackedReady>(),
            "pool user vars overrides given began channels unlistens pins cancel_key cancel_key_rest scanner fate names unnamed collected is_notified skips is_answer_torn held waits_since"
        );
        assert_eq!(
            fields::<PackedServer>(),
            "id pool address host since heard asked query_since xact_since query_number exchange stock vars overrides told_by reported_name cancel_key scanner fate collected times is_obsolete is_asked_in_advance"
        );
    }
}
