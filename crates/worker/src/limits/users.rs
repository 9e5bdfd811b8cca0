//! Forgets users that are no longer needed.
//!
//! Always true: a user's number is reused only when a search finds nothing that refers to it; at most twice as many
//! users are known as are in use, and some to spare. The cost of a search is proportional to the users added since
//! the last one.
//! Not here: the table of users (`registry`).

use std::collections::BTreeSet;

use reactor::Io;

use crate::data::client::ClientStage;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// The number of a user, before anything else refers to it. A new user makes the unused ones be forgotten first,
    /// when there are many.
    pub(crate) fn user(&mut self, name: &str) -> u32 {
        if self.registry.known_user(name).is_none() && self.registry.are_users_many() {
            self.forget_unused_users();
        }
        self.registry.user(name, &self.hands.active.settings)
    }

    fn forget_unused_users(&mut self) {
        let used = self.used_users();
        let pools = &mut self.pools;
        self.registry.forget_users(|number| !used.contains(&number) && pools.forget_user(number));
    }

    fn used_users(&self) -> BTreeSet<u32> {
        let of_pools = self.registry.pools().map(|(_, place)| place.user);
        let mut used: BTreeSet<u32> = of_pools.chain(self.users_in_commands()).collect();
        for (_, client) in self.clients.iter() {
            used.extend(client.slots.counted.map(|(_, user)| user));
            match &client.stage {
                // Our own connections are not counted in `slots`.
                ClientStage::Ready(ready) => used.extend([ready.session().user]),
                ClientStage::Login(login) => used.extend(login.hashed_user()),
                ClientStage::Greeting(_) | ClientStage::Cancelling(_) | ClientStage::Console(_) => {}
            }
        }
        used
    }
}
