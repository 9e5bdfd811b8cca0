//! The limits on HTTP connections: from this machine, from all other addresses together, and from each of those.
//!
//! Always true: remote connections take no place from those of this machine, and one remote address takes only some of
//! the places of the others; a place is given back when its connection ends.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::tries::block;

/// The number of connections by address; `None` stands for this machine.
#[derive(Debug, Default)]
pub(crate) struct Room {
    connected: Mutex<HashMap<Option<IpAddr>, u32>>,
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct HttpPlace {
    room: Arc<Room>,
    whose: Option<IpAddr>,
}

impl Room {
    /// Takes a place for a connection from this address, if there is one.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<HttpPlace> {
        let whose = (!from.to_canonical().is_loopback()).then(|| block(from));
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let strangers: u32 = connected.iter().filter(|(whose, _)| whose.is_some()).map(|(_, count)| count).sum();
        let count = connected.get(&whose).copied().unwrap_or(0);
        let has_room = match whose {
            None => count < HERE_MAX,
            Some(_) => count < ADDRESS_MAX && strangers < ELSEWHERE_MAX,
        };
        has_room.then(|| {
            connected.insert(whose, count + 1);
            HttpPlace { room: Arc::clone(self), whose }
        })
    }
}

impl Drop for HttpPlace {
    fn drop(&mut self) {
        let mut connected = self.room.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = connected.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                connected.remove(&self.whose);
            }
        }
    }
}

/// Connections from this machine.
const HERE_MAX: u32 = 64;
/// Connections from all other addresses together.
const ELSEWHERE_MAX: u32 = 64;
/// Connections from one of those.
const ADDRESS_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    #[test]
    fn one_address_leaves_room_for_others_and_strangers_leave_this_machine_its_own() {
        let room = Arc::new(Room::default());
        let here = "127.0.0.1".parse().expect("an address");
        let mut places: Vec<_> = (0..100).filter_map(|_| room.enter(address(1))).collect();
        assert_eq!(places.len(), ADDRESS_MAX as usize);
        places.extend((2..200).filter_map(|number| room.enter(address(number))));
        assert_eq!(places.len(), ELSEWHERE_MAX as usize);
        let own: Vec<_> = (0..100).filter_map(|_| room.enter(here)).collect();
        assert_eq!(own.len(), HERE_MAX as usize);
        places.truncate(1);
        assert!(room.enter(address(7)).is_some(), "what was given back is there again");
        drop((places, own));
        assert!(room.connected.lock().expect("nobody has panicked").is_empty(), "nobody is remembered");
    }
}
