//! Clients that wait for a server or have one: for `SHOW WAITS` and the status page.
//!
//! Always true: no value of a statement is shown.
//! Not here: the diagnosis in words (`control::diagnosis`).

use base::{Key, Time};
use measure::Phase;
use pool::ServerKey;
use reactor::Io;
use route::{may_lock, may_lock_tables, may_wait_for_advisory_lock, shape_however_read};

use crate::admin::seen::{Doing, LockSigns, PoolMeasures, WaitRow};
use crate::data::client::{Client, ClientStage, Link, Ready};
use crate::letters::Detail;
use crate::observe::statements::text_of;
use crate::registry::PoolPlace;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The row of a client that waits, or has a server.
    pub(crate) fn wait_row_of(&self, key: Key, client: &Client) -> Option<WaitRow> {
        match client.ready() {
            Some(ready) => self.wait_row(key, client, ready),
            None => self.login_row(client),
        }
    }

    fn wait_row(&self, key: Key, client: &Client, ready: &Ready) -> Option<WaitRow> {
        let place = self.registry.pool(ready.pool())?;
        let server_key = ready.link().server();
        let server = server_key.and_then(|server| self.servers.get(server));
        let (doing, since) = self.doing(client, ready)?;
        let (addr, port) = self.address_of_peer(client);
        let holds_advisory = ready.pins().any(|pin| pin.hold.kind == protocol::state::Kind::Lock);
        let pins = ready.pins().map(|pin| pin.hold.words());
        let began = server.and_then(|server| server.xact_since()).unwrap_or(since);
        let head = server.map_or(&[][..], |server| text_of(server.request_head().bytes(), ready).bytes);
        Some(WaitRow {
            database: place.database_name.clone(),
            user: place.user_name.clone(),
            application_name: ready
                .session()
                .vars
                .get(self.hands.active.tracked.application_name())
                .unwrap_or("")
                .into(),
            addr,
            port,
            client: client.id,
            server: server.map(|server| (server.id(), server.pid())),
            doing,
            since: self.wall_of(since),
            doing_for: self.hands.now.since(since),
            transaction: self.hands.now.since(began.min(since)),
            statement: shape_however_read(head, self.encoding_of(ready)),
            locks: LockSigns {
                may_wait: may_lock(head),
                wants_advisory: may_wait_for_advisory_lock(head),
                locks_table: may_lock_tables(head),
                holds_advisory,
            },
            pins: pins.take(PINS_SHOWN).collect::<Vec<_>>().join(", ").into(),
            ends: self.ends(key, server_key),
        })
    }

    /// What a client with a server, or one that waits for a server, does, and since when.
    pub(crate) fn doing(&self, client: &Client, ready: &Ready) -> Option<(Doing, Time)> {
        let server = match ready.link() {
            Link::None => return None,
            Link::Delayed(since) => return Some((Doing::Delayed, since)),
            Link::Waiting(since) | Link::AsksReplica(since) => {
                return Some((Doing::Waits(self.pools.waits_for(ready.pool())?), since));
            }
            Link::Loan(server) => self.servers.get(server),
        };
        Some(match (ready.meter().division.present(), &ready.session().session_effects) {
            (Some((Phase::FirstByte | Phase::Streaming, since)), _) if ready.replication().is_some() => {
                (Doing::Replicates, since)
            }
            (Some((phase, since)), _) => (Doing::In(phase), since),
            (None, Some(session_effects)) if !session_effects.pins().is_empty() => {
                (Doing::Kept, session_effects.kept_since().unwrap_or(client.answered))
            }
            (None, _) => {
                let doing = match self.registry.pool(ready.pool())?.mode {
                    pool::Mode::Session => Doing::Session,
                    _ => Doing::Between,
                };
                (doing, server.map_or(client.answered, |server| server.answered()))
            }
        })
    }

    /// A client that waits for the first server of its pool in order to be let in.
    fn login_row(&self, client: &Client) -> Option<WaitRow> {
        let ClientStage::Login(login) = &client.stage else { return None };
        let (pool, since) = login.waits_since()?;
        let place = self.registry.pool(pool)?;
        let (addr, port) = self.address_of_peer(client);
        let limit = self.hands.active.settings.client_login_timeout;
        Some(WaitRow {
            database: place.database_name.clone(),
            user: place.user_name.clone(),
            application_name: "".into(),
            addr,
            port,
            client: client.id,
            server: None,
            doing: Doing::Waits(self.pools.waits_for(pool)?),
            since: self.wall_of(since),
            doing_for: self.hands.now.since(since),
            transaction: self.hands.now.since(since),
            statement: "".into(),
            locks: LockSigns::default(),
            pins: "".into(),
            ends: limit.map(|limit| ((client.since + limit).since(self.hands.now), "client_login_timeout".into())),
        })
    }

    /// The timeout that ends a wait or a loan, and when it does.
    fn ends(&self, client: Key, server: Option<ServerKey>) -> Option<(std::time::Duration, Box<str>)> {
        let (at, why): (_, Box<str>) = match server {
            Some(server) => self.next_of_server(server).map(|(at, fault)| (at, (*fault.text()).into()))?,
            None => (self.end_of_wait(client)?, "query_wait_timeout".into()),
        };
        Some((at.since(self.hands.now), why))
    }

    fn end_of_wait(&self, client: Key) -> Option<Time> {
        let ready = self.clients.ready(client)?;
        Some(ready.link().waits_since()? + self.pools.limits(ready.pool())?.wait_max?)
    }

    /// The measurements of a pool.
    pub(crate) fn measures(&self, key: pool::PoolKey, place: &PoolPlace, detail: Detail) -> Option<Box<PoolMeasures>> {
        if detail == Detail::None {
            return None;
        }
        let seen = self.pools.snapshot(self.hands.now, key)?;
        let measured = &place.measured;
        let histograms = measured.histograms();
        Some(Box::new(PoolMeasures {
            waits_for: seen.waits_for,
            failure: seen.failure.map(|failure| failure.words().into()),
            limit: if seen.limits.servers_max == 0 { 0 } else { seen.limits.servers_max + seen.limits.reserve_max },
            peak_lent: seen.peak_lent,
            waited: seen.waited,
            sums: measured.sums(),
            lives: measured.lives(),
            evicted_by: measured.evicted_by().to_vec(),
            reads: measured.reads(),
            wait: histograms.map(|histograms| Box::new(histograms.of(Phase::Waiting))),
            total: histograms.map(|histograms| Box::new(histograms.total.clone())),
            histograms: histograms
                .filter(|_| detail == Detail::Histograms)
                .map(|histograms| Box::new(histograms.clone())),
        }))
    }
}

/// Which row a client has, if any.
pub(crate) fn wait_kind(client: &Client) -> Option<WaitKind> {
    match &client.stage {
        _ if client.is_own => None,
        ClientStage::Login(login) => login.waits_since().map(|_| WaitKind::Login),
        ClientStage::Ready(ready) => match ready.link() {
            Link::None => None,
            Link::Waiting(_) | Link::AsksReplica(_) | Link::Delayed(_) => Some(WaitKind::Waits),
            Link::Loan(_) => Some(WaitKind::HasServer),
        },
        _ => None,
    }
}

/// The kinds of rows, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitKind {
    /// It waits in its login for the first server of its pool.
    Login,
    /// It waits for a server.
    Waits,
    /// It has a server.
    HasServer,
}

const PINS_SHOWN: usize = 3;
