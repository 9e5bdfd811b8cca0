//! Limits of channels: how many the listener of a database may listen to, for a client and in all.
//!
//! Always true: lowering a limit does not make a client keep its server while it listens to no new channel.
//! Not here: which client listens to what (`notify::channels`).

use pool::PoolKey;
use reactor::Io;

use crate::data::client::Ready;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether a client and its database may listen to these channels as well.
    pub(crate) fn has_room_for<'a>(
        &self,
        ready: &Ready,
        database: u32,
        channels: impl Iterator<Item = &'a str>,
    ) -> bool {
        let (of_client, of_database) =
            (self.hands.active.settings.max_client_channels, self.hands.active.settings.max_db_channels);
        let known = self.registry.database_at(database).listening.channels();
        let has =
            |name: &str| ready.session().subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.has(name));
        let news: Vec<&str> = channels.filter(|name| !has(name)).collect();
        let all = news.len()
            + ready.session().subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.channel_count());
        let unknown = news.iter().filter(|name| !known.contains_key(**name)).count();
        let is_within = |count: usize, limit: u32| limit == 0 || count <= limit as usize;
        // A limit that has been lowered does not make a client keep its server while it listens to no new channel.
        news.is_empty() || is_within(all, of_client) && (unknown == 0 || is_within(known.len() + unknown, of_database))
    }

    /// Whether a pool may have a listener in addition to a server for requests. `pool_size` does not count, since the
    /// listener is outside of it.
    pub(crate) fn may_listen_beside(&self, pool: PoolKey) -> bool {
        let Some(place) = self.registry.pool(pool) else { return false };
        let settings = &self.hands.active.settings;
        let of_database = self.registry.entry_of(pool).and_then(|entry| settings.max_db_connections(entry));
        of_database != Some(1) && settings.max_user_connections(&place.user_name) != Some(1)
    }
}
