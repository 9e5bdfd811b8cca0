//! A client that listens to what is listened to for all already needs no server for that.
//!
//! Always true: from the moment at which such a client is told that it listens, each notification reaches it that is committed afterwards, and
//! none that was committed before it has said LISTEN. Whatever stands in the way, it gets a server instead, as if nobody had tried.
//! Not here: how channels come to the session for all (`listen`), who else waits for that (`own_news`).
//!
//! The session for all tells what was committed before it was asked before it answers ([`protocol::state::Rounds`]): what it tells before its
//! answer is none of the client's, what it tells afterwards is.

use base::Time;
use base::planted::{self, Planted};
use pool::ClientKey;
use reactor::Io;
use wire::backend::TxStatus;
use wire::frame::HEADER_BYTES;
use wire::{frontend, write};

use crate::data::client::{Client, Link, Ready, Stage};
use crate::notify::own_news::{PATIENCE, Waiter};
use crate::turn::Worker;

/// A client that waits for the session for all.
#[derive(Debug)]
pub(crate) struct Joining {
    /// Of this wait.
    number: u64,
    pub(crate) until: Time,
    channels: Vec<Box<str>>,
    /// How many tags answer it, and which.
    tags: (usize, &'static str),
}

impl<I: Io> Worker<I> {
    /// Whether the first message that a client without a server has said, of this length, only listens to what the session for all listens to
    /// already. Then the client waits for that.
    pub(crate) fn joins(&mut self, key: ClientKey, length: u32) -> bool {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(key) else { return false };
        let Some(place) = self.places.pool(ready.pool) else { return false };
        let database = place.database as usize;
        // Where nobody listens this is all.
        if self.places.databases[database].listening.session.is_none() || !place.follows {
            return false;
        }
        let is_known = ready.session.traces.as_ref().is_none_or(|traces| !traces.unlistens.is_any());
        let first = ready
            .held
            .as_ref()
            .filter(|_| ready.session.scanner.torn_header().is_empty() && is_known)
            .and_then(|held| held.first());
        let message = first.and_then(|bytes| bytes.get(..1 + length as usize));
        let Some((&frontend::QUERY, message)) = message.and_then(<[u8]>::split_first) else { return false };
        let Some((0, text)) = message.get(HEADER_BYTES - 1..).and_then(<[u8]>::split_last) else { return false };
        let (pool, may_ask) = (ready.pool, self.rest.is_none() && self.shutdown.is_none());
        let dialect = self.texts.dialect(&ready.session.vars, &self.force.tracked);
        let Some(listens) = route::listens(text, dialect).filter(|_| may_ask) else { return false };
        let listening = &self.places.databases[database].listening;
        if !listens.channels.iter().all(|channel| listening.is_heard(channel))
            || self.server_for_all(database as u32).is_none()
            || !self.may_listen_through_all(pool, key, listens.channels.iter().map(|channel| &**channel))
        {
            return false;
        }
        let listening = &mut self.places.databases[database].listening;
        let number = listening.waits + 1;
        if !listening.rounds.comes(Waiter::Client(key, number)) {
            return false;
        }
        listening.waits = number;
        let until = self.now + PATIENCE;
        if let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) {
            ready.joins = Some(Box::new(Joining { number, until, channels: listens.channels, tags: listens.tags }));
        }
        if planted::is(Planted::JoinedAtOnce) {
            self.end_joining(key, Some(number), true);
            return true;
        }
        self.ask_listener(database as u32);
        self.arm_client(key);
        true
    }

    /// A client no longer waits for the session for all, if this is its wait: it listens now if that `is_level`, and gets a server otherwise.
    pub(crate) fn end_joining(&mut self, key: ClientKey, number: Option<u64>, is_level: bool) {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) else { return };
        let joining = ready.joins.take_if(|joining| number.is_none_or(|number| joining.number == number));
        let (Some(joining), Some(place)) = (joining, self.places.pool(ready.pool)) else { return };
        let database = place.database;
        let listening = &self.places.databases[database as usize].listening;
        let losses = listening.losses;
        if !is_level || !joining.channels.iter().all(|channel| listening.is_heard(channel)) {
            self.want_first(key);
            self.skip_rejected(key);
            return;
        }
        ready.session.subscriptions(losses).listens(joining.channels.iter().map(|channel| &**channel));
        for channel in joining.channels {
            self.subscribe(key, database, channel);
        }
        let totals = &mut self.places.databases[database as usize].totals;
        totals.query_count += 1;
        totals.xact_count += 1;
        let Some(Client { conn, stage: Stage::Ready(ready), answered, .. }) = self.clients.get_mut(key) else { return };
        ready.session.subscriptions(losses).has_moved();
        ready.drop_first_request();
        *answered = self.now;
        let (count, tag) = joining.tags;
        let mut out = Vec::new();
        (0..count).for_each(|_| write::command_complete(&mut out, tag));
        write::ready_for_query(&mut out, TxStatus::Idle);
        self.io.send(*conn, out.into());
        self.resume_client(key);
        self.arm_client(key);
        self.go_on_without_server(key);
    }

    /// What a client without a server has said behind what has been answered is looked at.
    fn go_on_without_server(&mut self, key: ClientKey) {
        let Some(Client { stage: Stage::Ready(ready @ Ready { link: Link::None, .. }), .. }) =
            self.clients.get_mut(key)
        else {
            return;
        };
        let rest = ready.held.take();
        self.hold_again(key, rest);
    }

    /// The session for all has not answered in time: nobody waits for it any longer, until that answers.
    pub(crate) fn join_too_late(&mut self, key: ClientKey) {
        let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get(key) else { return };
        let Some(database) = self.places.pool(ready.pool).map(|place| place.database) else { return };
        let everybody = self.places.databases[database as usize].listening.rounds.is_too_late();
        self.release_all(everybody, false);
        self.end_joining(key, None, false);
    }
}
