//! Which pool a routed client asks for a server: that of the primary, or that of the replicas.
//!
//! Always true: a request that may write, or of which that is not known, goes to the primary; a read goes to a host only if that has
//! replayed what its client has written.
//! Not here: which server of a pool is lent (crate `pool`), what a refusal leads to (`take_back`).

use std::borrow::Cow;
use std::sync::Arc;

use base::{Key, Time};
use cluster::Replayed;
use config::{Database, ReadRouting};
use pool::{ClientKey, PoolKey, ServerKey};
use protocol::exchange::Exchange;
use protocol::request::with_text;
use protocol::vars::READ_ONLY;
use reactor::{Chunk, Io};
use route::Reads;

use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::measured::ReadResult;
use crate::reads::known_names::KnownNames;
use crate::reads::routing::{MinLsn, Read, Routing};
use crate::reads::withheld::Withheld;
use crate::worker::Worker;

/// Where a request goes.
enum Way {
    /// To the primary. It may write, unless it is a read.
    Primary { may_write: bool },
    /// To the primary: it is a read, and no replica is known to be far enough. It may have said so itself, for its whole transaction.
    Behind { promises: bool },
    /// To a replica.
    Replica { read: Read },
    /// To the primary, as this request, in place of so many bytes: its client has asked for a position in the log.
    Position { request: Vec<u8>, instead_of: usize },
}

/// A request of a routed client goes to the primary.
pub(crate) struct Stays {
    /// It is a read for which no replica is far enough.
    pub(crate) is_behind: bool,
}

impl<I: Io> Worker<I> {
    /// Chooses the pool that a routed client asks for a server for the request that it holds.
    pub(crate) fn choose_pool(&mut self, key: Key) {
        let Some(Client { stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(key) else { return };
        let Some(routing) = ready.routing_mut() else { return };
        routing.asks(*answered);
        let (home, is_sent_home) = (routing.home(), routing.is_sent_home());
        let way = self.way_of_held(key).unwrap_or(Way::Primary { may_write: true });
        let replicas = match &way {
            Way::Replica { .. } if !is_sent_home => self.replicas_of(home),
            _ => None,
        };
        let Some(ready) = self.clients.ready_mut(key) else { return };
        let Some(routing) = ready.routing_mut() else { return };
        match (way, replicas) {
            (Way::Replica { read }, Some(replicas)) => {
                routing.read = Some(read);
                ready.belongs_to(replicas);
            }
            (Way::Replica { read }, None) => routing.stays(read.is_promised()),
            (Way::Behind { promises }, _) => {
                routing.stays(promises);
                self.count_read(key, ReadResult::Behind);
            }
            (Way::Primary { may_write }, _) => routing.goes_to_primary(may_write),
            (Way::Position { request, instead_of }, _) => {
                routing.goes_to_primary(false);
                let held = ready.held_mut().get_or_insert_default();
                held.drop_front(instead_of);
                held.push_front(Chunk::Own(request.into()));
            }
        }
    }

    /// Notes that the request which these bytes begin with goes to the primary as it is; `None` if it does not. Its client has no
    /// server and holds nothing.
    pub(crate) fn stays_at_primary(&mut self, key: Key, bytes: &[u8]) -> Option<Stays> {
        let Some(Client { stage: ClientStage::Ready(ready), answered, .. }) = self.clients.get_mut(key) else {
            return None;
        };
        ready.routing_mut()?.asks(*answered);
        let way = self.way_of_request(key, bytes).unwrap_or(Way::Primary { may_write: true });
        let routing = self.clients.ready_mut(key)?.routing_mut()?;
        let is_behind = match way {
            Way::Primary { may_write } => {
                routing.goes_to_primary(may_write);
                false
            }
            Way::Behind { promises } => {
                routing.stays(promises);
                true
            }
            Way::Replica { .. } | Way::Position { .. } => return None,
        };
        Some(Stays { is_behind })
    }

    /// Where the request goes that a client holds. `None` if that need not be looked at.
    fn way_of_held(&mut self, key: Key) -> Option<Way> {
        let held = self.clients.ready_mut(key)?.held_mut().take()?;
        let bytes = match held.in_one_piece() {
            Some(bytes) => Some(Cow::Borrowed(bytes)),
            None if held.len() <= REQUEST_BYTES_MAX => Some(Cow::Owned(held.bytes().collect())),
            None => None,
        };
        let way = bytes.and_then(|bytes| self.way_of_request(key, &bytes));
        *self.clients.ready_mut(key)?.held_mut() = Some(held);
        way
    }

    /// Where the request goes that these bytes begin with.
    fn way_of_request(&mut self, key: Key, bytes: &[u8]) -> Option<Way> {
        let ready = self.clients.ready(key)?;
        let home = ready.routing()?.home();
        let place = self.registry.pool(home)?;
        let (database, mode) = (place.database, place.read_routing);
        // Notifications come with the answers of the primary.
        let may_be =
            mode != ReadRouting::Off && ready.session().subscriptions.is_none() && ready.session().scanner.is_between();
        if !may_be {
            return None;
        }
        self.ask_for_names(database);
        let ready = self.clients.ready(key)?;
        let place = self.registry.database_at(database);
        let creations = place.function_catalog.creations();
        let (names, number) = KnownNames::names(place.read_names.as_deref(), self.hands.now, creations);
        let tracked = &self.hands.active.tracked;
        let dialect = self.texts.dialect(&ready.session().vars, tracked);
        let texts = &mut self.reads.texts;
        let request = ready.session().read_request(bytes, |text| texts.reads(text, dialect, number, names));
        let is_read_only = || {
            let of_parameter = ready.session().vars.get(tracked.read_only_place());
            of_parameter.or_else(|| ready.session().overrides.as_ref()?.get(READ_ONLY)) == Some("on")
        };
        let request = request?;
        let is_explicit = match request.reads {
            Reads::ForPrimary | Reads::NeedsPrimary => return None,
            Reads::ShowsPosition => {
                let shown = with_text(&bytes[..request.bytes], SHOW_POSITION);
                return Some(Way::Position { request: shown, instead_of: request.bytes });
            }
            Reads::ForReplica | Reads::BeginsReadOnly => true,
            Reads::Proven if is_read_only() => true,
            Reads::Proven if mode == ReadRouting::Automatic => false,
            Reads::Proven => return Some(Way::Primary { may_write: false }),
            Reads::No if is_read_only() => true,
            Reads::No => return None,
        };
        let cluster = place.entry.as_ref()?.cluster_of_primary()?;
        let (routing, asked) = (ready.routing()?, ready.min_lsn());
        let mut replicas = self.reads.replayed.get(cluster)?.iter();
        if !replicas.any(|replica| routing.may_read(replica, asked)) {
            return Some(Way::Behind { promises: is_explicit });
        }
        let read = Read {
            request: (!is_explicit).then(|| bytes[..request.bytes].into()),
            outlives_server: !is_explicit && !request.names_statement,
            withheld: (!is_explicit).then(Withheld::default),
        };
        Some(Way::Replica { read })
    }

    /// Counts a read for the pool to which its client belongs.
    pub(crate) fn count_read(&mut self, client: ClientKey, result: ReadResult) {
        let home = self.clients.ready(client).map(Ready::home);
        if let Some(place) = home.and_then(|home| self.registry.pool_mut(home)) {
            place.measured.count_read(result);
        }
    }

    /// The pool of the replicas beside that of a primary; it is opened for the first read.
    pub(crate) fn replicas_of(&mut self, home: PoolKey) -> Option<PoolKey> {
        let place = self.registry.pool(home)?;
        if let Some(replicas) = place.replicas.filter(|replicas| self.registry.pool(*replicas).is_some()) {
            return Some(replicas);
        }
        let user = Arc::clone(&place.user_name);
        let entry = self.registry.database_at(place.database).entry.clone()?;
        let replicas: Arc<Database> = Arc::new(entry.replicas()?);
        let database = self.registry.database(&replicas.name, Some(Arc::clone(&replicas)));
        let pool = self.pool_for(database, &replicas, &user);
        if let Some(place) = self.registry.pool_mut(pool) {
            (place.home, place.ends_at_once) = (Some(home), false);
            // Nobody is lent a server of replicas without having been asked what for.
            place.read_routing = ReadRouting::Explicit;
        }
        if let Some(place) = self.registry.pool_mut(home) {
            place.replicas = Some(pool);
        }
        self.stand(pool);
        Some(pool)
    }

    /// A server of a replica is lent to a client for a read. Returns whether the client takes it; if not, it asks the primary.
    pub(crate) fn takes_replica(&mut self, client: ClientKey, server: ServerKey, since: Time) -> bool {
        let may_read = self.may_read_at(client, server);
        self.count_read(client, if may_read { ReadResult::ToReplica } else { ReadResult::Behind });
        let Some(ready) = self.clients.ready_mut(client) else { return false };
        if may_read {
            ready.takes(Link::Waiting(since));
            return true;
        }
        self.give_back(server);
        self.ask_primary(client, since);
        false
    }

    /// Whether the host of a server has replayed what a client has written.
    fn may_read_at(&self, client: ClientKey, server: ServerKey) -> bool {
        let asks = self.clients.ready(client).and_then(|ready| Some((ready.routing()?, ready.min_lsn())));
        let (Some((routing, asked)), Some(server)) = (asks, self.servers.get(server)) else { return false };
        let entry = self.registry.database_at(server.database()).entry.as_ref();
        let host = entry.and_then(|entry| {
            let place = entry.place_of(|host, port| server.is_at(host, port))?;
            entry.hosts_with_ports().nth(place)
        });
        let cluster = entry.and_then(|entry| entry.cluster.as_ref());
        let (Some((host, port)), Some(cluster)) = (host, cluster) else { return false };
        let name = host.at(port);
        let is_there = |replica: &Replayed| *replica.host == *name && routing.may_read(replica, asked);
        self.reads.replayed.get(cluster).is_some_and(|replicas| replicas.iter().any(is_there))
    }

    /// The primary is asked for a server instead of the replicas; the client has waited since this time.
    pub(crate) fn ask_primary(&mut self, client: ClientKey, since: Time) {
        let Some(ready) = self.clients.ready_mut(client) else { return };
        let Some(routing) = ready.routing_mut() else { return };
        routing.stays(routing.read.as_ref().is_some_and(Read::is_promised));
        let home = routing.home();
        ready.belongs_to(home);
        ready.takes(Link::None);
        self.want_again(client, since);
    }
}

impl Ready {
    /// The position in the log from which on the client wants to read.
    fn min_lsn(&self) -> MinLsn {
        MinLsn::of(self.session().overrides.as_ref().and_then(|overrides| overrides.get(MIN_LSN)))
    }

    /// The pool to which the client belongs, also while a replica answers it.
    pub(crate) fn home(&self) -> PoolKey {
        self.routing().map_or(self.pool(), |routing| routing.home())
    }

    /// Whether a replica is asked for a server.
    pub(crate) fn is_reading(&self) -> bool {
        self.routing().is_some_and(|routing| routing.is_reading())
    }

    /// The client sends this to the primary: looks whether it writes though it has said that it only reads.
    #[inline]
    pub(crate) fn look_at_promise(&mut self, bytes: &[u8], server: &Exchange) {
        if self.routing().is_some_and(Routing::promises)
            && let Some((session, routing)) = self.session_and_routing()
        {
            let is_torn = !session.scanner.is_between();
            routing.look_at(server.may_end(), |is| is_torn || session.has_text(bytes, is));
        }
    }

    /// The loan is over: the client belongs to its pool alone.
    pub(crate) fn comes_home(&mut self) {
        if let Some(routing) = self.routing_mut() {
            routing.read = None;
            self.belongs_to(self.home());
        }
    }

    /// The client has come from another process, with a server of this pool.
    pub(crate) fn goes_on_reading(&mut self, pool: PoolKey) {
        if self.pool() != pool
            && let Some(routing) = self.routing_mut()
        {
            routing.read = Some(Read { request: None, outlives_server: false, withheld: None });
            self.belongs_to(pool);
        }
    }

    /// The requests of the client are routed from now on, or not any more. It may have written until `wrote_at`, which nobody has seen.
    pub(crate) fn route_reads(&mut self, is_on: bool, wrote_at: Option<Time>) {
        if !self.is_reading() {
            self.belongs_to(self.home());
        }
        match (self.routing(), is_on) {
            (None, true) => self.set_routing(Some(Routing::new(self.pool(), wrote_at))),
            (Some(routing), false) if !routing.is_reading() => self.set_routing(None),
            _ => {}
        }
    }
}

/// The setting with the position in the log that a replica must have replayed to be read from: any session may set it, and it goes
/// with its client as other settings do.
const MIN_LSN: &str = "trunkline.min_lsn";
/// What is asked instead of `SHOW trunkline.lsn`: all that was answered to the client by now was inserted in front of it.
const SHOW_POSITION: &str = "SELECT pg_catalog.pg_current_wal_insert_lsn()::pg_catalog.text AS \"trunkline.lsn\"";
/// A longer request in several pieces goes to the primary.
const REQUEST_BYTES_MAX: usize = 16_384;
