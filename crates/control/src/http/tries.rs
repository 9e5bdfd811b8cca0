//! The limit on wrong passwords per address.
//!
//! Always true: the number of remembered addresses is bounded; when it is reached, the address with the oldest wrong
//! password is forgotten.
//! Not here: password checks (`server`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The addresses that have sent wrong passwords.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    wrong: HashMap<IpAddr, Wrong>,
}

#[derive(Clone, Copy, Debug)]
struct Wrong {
    count: u32,
    last: Instant,
}

impl Tries {
    /// Returns whether another password from this address may be checked.
    pub(crate) fn may(&self, from: IpAddr, now: Instant) -> bool {
        let wrong = self.wrong.get(&block(from)).filter(|wrong| now.duration_since(wrong.last) < FORGOTTEN_AFTER);
        wrong.is_none_or(|wrong| wrong.count < WRONG_MAX)
    }

    /// Counts a wrong password from this address.
    pub(crate) fn count(&mut self, from: IpAddr, now: Instant) {
        if self.wrong.len() >= ADDRESSES_MAX && !self.wrong.contains_key(&block(from)) {
            self.wrong.retain(|_, wrong| now.duration_since(wrong.last) < FORGOTTEN_AFTER);
            if self.wrong.len() >= ADDRESSES_MAX
                && let Some(oldest) = self.wrong.iter().min_by_key(|(_, wrong)| wrong.last).map(|(from, _)| *from)
            {
                self.wrong.remove(&oldest);
            }
        }
        let wrong = self.wrong.entry(block(from)).or_insert(Wrong { count: 0, last: now });
        if now.duration_since(wrong.last) >= FORGOTTEN_AFTER {
            wrong.count = 0;
        }
        *wrong = Wrong { count: wrong.count + 1, last: now };
    }

    /// Forgets the wrong passwords of this address after a correct one.
    pub(crate) fn forget(&mut self, from: IpAddr) {
        self.wrong.remove(&block(from));
    }
}

/// Returns the unit that attempts are counted by: an IPv4 address, or an IPv6 /64, since an owner of one IPv6 address
/// usually has the whole /64.
pub(super) fn block(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address => address,
    }
}

const WRONG_MAX: u32 = 10;
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
const ADDRESSES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn ten_wrong_passwords_are_enough_for_a_minute() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        for _ in 0..WRONG_MAX {
            assert!(tries.may(address(1), now));
            tries.count(address(1), now);
        }
        assert!(!tries.may(address(1), now + Duration::from_secs(59)));
        assert!(tries.may(address(1), now + Duration::from_secs(60)));
        assert!(tries.may(address(2), now), "others are not concerned");
        tries.count(address(1), now + Duration::from_secs(60));
        assert!(tries.may(address(1), now + Duration::from_secs(60)), "it begins anew");
        tries.forget(address(1));
        assert!(tries.may(address(1), now));
    }

    #[test]
    fn all_addresses_of_one_network_count_as_one() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        let of = |text: &str| text.parse::<IpAddr>().expect("an address");
        (0..WRONG_MAX).for_each(|_| tries.count(of("2001:db8::1"), now));
        assert!(!tries.may(of("2001:db8::2"), now));
        assert!(tries.may(of("2001:db8:0:1::1"), now));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        (0..5000).for_each(|number| tries.count(address(number), now + Duration::from_millis(number.into())));
        assert_eq!(tries.wrong.len(), ADDRESSES_MAX);
    }
}
