//! Users whom nobody needs any more are forgotten.
//!
//! Always true: a number is given out again only when nothing refers to it, which is found by looking; so many users are known as are in
//! use, once more as many, and [`SPARE_USERS`]. Looking costs as much as what has come since the last time.
//! Not here: what is known of a user (`places`).

use std::collections::BTreeSet;

use reactor::Io;

use crate::data::client::Stage;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The number of a user, before anything else refers to it. A new one takes the place of those that are not in use, when there are many.
    pub(crate) fn user(&mut self, name: &str) -> u32 {
        if self.registry.known_user(name).is_none() && self.registry.users_known() >= self.registry.users_known_max {
            self.forget_unused_users();
        }
        self.registry.user(name, &self.active.settings)
    }

    fn forget_unused_users(&mut self) {
        let used = self.used_users();
        let pools = &mut self.pools;
        self.registry.forget_users(|number| !used.contains(&number) && pools.forget_user(number));
        self.registry.users_known_max = 2 * self.registry.users_known() + SPARE_USERS;
    }

    fn used_users(&self) -> BTreeSet<u32> {
        let of_pools = self.registry.pools().map(|(_, place)| place.user);
        let mut used: BTreeSet<u32> = of_pools.chain(self.users_in_commands()).collect();
        for (_, client) in self.clients.iter() {
            used.extend(client.seat.counted.map(|(_, user)| user));
            match &client.stage {
                // Our own clients are counted nowhere.
                Stage::Ready(ready) => used.extend([ready.session.user]),
                Stage::Login(login) => used.extend(login.hashed_user()),
                Stage::Greeting(_) | Stage::Cancelling(_) | Stage::Console(_) => {}
            }
        }
        used
    }
}

/// So many users are known before anybody looks for those that are not in use.
const SPARE_USERS: usize = 1000;
