//! Custom settings (names with a dot) that clients of a database mention: no server lists them.
//!
//! Always true: the names of one user take at most twice what [`NAMES_MAX`] and [`BYTES_MAX`] allow, and change nothing
//! for other users. For each client it is known whether the list has all names that the client has mentioned.
//! Not here: which names a text mentions (crate `route`), what is asked (`probe`).

use std::collections::{BTreeMap, BTreeSet};

use base::Time;

/// The custom settings of one database.
#[derive(Debug, Default)]
pub struct Mentioned {
    /// By the user of the servers, whose clients may have set them there.
    users: BTreeMap<u32, OfUser>,
    /// The first names of the database have a bit of their own each.
    bits: BTreeMap<Box<str>, u8>,
}

/// The custom settings of one user. Those that have not been mentioned for the longest time make room.
#[derive(Debug, Default)]
struct OfUser {
    latest: Names,
    /// Names that were mentioned before `latest` was begun, and not since.
    earlier: Names,
    /// When names were last given up: a client that came before may have set one of them.
    incomplete_until: Option<Time>,
}

/// Names, each with the index of its bit.
#[derive(Debug, Default)]
struct Names {
    bits: BTreeMap<Box<str>, u8>,
    bytes: usize,
}

impl Mentioned {
    /// Clients of a user mention settings. Returns their bits: each of the first names has its own, all others share one.
    pub fn mention<'a>(&mut self, user: u32, names: impl Iterator<Item = &'a str>, now: Time) -> u64 {
        let (all, own) = (&mut self.bits, self.users.entry(user).or_default());
        names.fold(0, |bits, name| {
            let place = own.latest.bits.get(name).copied();
            bits | 1 << place.unwrap_or_else(|| own.insert(name, all, now))
        })
    }

    /// The present clients of a user may have mentioned more.
    pub fn miss_some(&mut self, user: u32, now: Time) {
        self.users.entry(user).or_default().incomplete_until = Some(now);
    }

    /// The names that clients of a user have mentioned.
    pub fn of(&self, user: u32) -> impl Iterator<Item = &str> {
        let own = self.users.get(&user).into_iter();
        own.flat_map(|own| own.latest.bits.keys().chain(own.earlier.bits.keys())).map(|name| &**name)
    }

    /// Whether [`Self::of`] has all names that a client may have mentioned that came at this time.
    pub fn is_complete(&self, user: u32, came: Time) -> bool {
        let until = self.users.get(&user).and_then(|own| own.incomplete_until);
        until.is_none_or(|until| came > until)
    }

    /// Forgets users whose numbers are given to others.
    pub fn forget_users(&mut self, users: &BTreeSet<u32>) {
        self.users.retain(|user, _| !users.contains(user));
    }
}

impl OfUser {
    /// Adds a name that is not among the latest; returns the index of its bit.
    fn insert(&mut self, name: &str, all: &mut BTreeMap<Box<str>, u8>, now: Time) -> u8 {
        let known = self.earlier.bits.get(name).or_else(|| all.get(name)).copied();
        let place = known.unwrap_or_else(|| {
            let next = all.len() as u8;
            if next < SHARED_BIT && name.len() <= BYTES_MAX / NAMES_MAX {
                all.insert(name.into(), next);
            }
            next.min(SHARED_BIT)
        });
        if self.latest.is_full(name) {
            let given_up = std::mem::replace(&mut self.earlier, std::mem::take(&mut self.latest));
            if !given_up.bits.is_empty() {
                self.incomplete_until = Some(now);
            }
        }
        if name.len() > BYTES_MAX {
            self.incomplete_until = Some(now);
            return place;
        }
        self.earlier.remove(name);
        self.latest.insert(name, place);
        place
    }
}

impl Names {
    fn is_full(&self, name: &str) -> bool {
        self.bits.len() >= NAMES_MAX || self.bytes + name.len() > BYTES_MAX
    }

    fn insert(&mut self, name: &str, place: u8) {
        self.bytes += name.len();
        self.bits.insert(name.into(), place);
    }

    fn remove(&mut self, name: &str) {
        if self.bits.remove(name).is_some() {
            self.bytes -= name.len();
        }
    }
}

/// The most names in `latest`, and in `earlier`.
const NAMES_MAX: usize = 1000;
/// The most bytes of the names in each of them.
const BYTES_MAX: usize = 64 * 1024;
/// The index of the bit that all later names share.
const SHARED_BIT: u8 = 63;

#[cfg(test)]
mod tests {
    use super::*;

    fn flood(mentioned: &mut Mentioned, user: u32, names: std::ops::Range<usize>, now: Time) {
        let names: Vec<String> = names.map(|number| format!("a.b{number}")).collect();
        mentioned.mention(user, names.iter().map(String::as_str), now);
    }

    fn has(mentioned: &Mentioned, user: u32, name: &str) -> bool {
        mentioned.of(user).any(|known| known == name)
    }

    #[test]
    fn names_are_counted_once_and_the_latest_are_kept() {
        let (mut mentioned, at) = (Mentioned::default(), Time::from_secs);
        for _ in 0..3 {
            flood(&mut mentioned, 1, 0..NAMES_MAX, at(1));
        }
        assert_eq!(mentioned.of(1).count(), NAMES_MAX);
        flood(&mut mentioned, 1, NAMES_MAX..2 * NAMES_MAX, at(2));
        assert!(mentioned.is_complete(1, at(0)) && has(&mentioned, 1, "a.b0"));
        flood(&mut mentioned, 1, 0..1, at(3));
        flood(&mut mentioned, 1, 2 * NAMES_MAX..3 * NAMES_MAX, at(4));
        assert!(has(&mentioned, 1, "a.b0") && !has(&mentioned, 1, "a.b1"), "that was not mentioned again");
        assert!(mentioned.of(1).count() <= 2 * NAMES_MAX);
        assert!(!mentioned.is_complete(1, at(2)), "who came before may have said a.b1");
        assert!(mentioned.is_complete(1, at(5)), "who comes later has to mention it, and is heard then");
    }

    /// Regression: a thousand names of one user made every client of the database keep its server once it set anything.
    #[test]
    fn what_one_user_mentions_is_nothing_to_another() {
        let (mut mentioned, at) = (Mentioned::default(), Time::from_secs);
        mentioned.mention(1, ["app.tenant"].into_iter(), at(1));
        flood(&mut mentioned, 2, 0..9 * NAMES_MAX, at(2));
        assert!(mentioned.of(1).eq(["app.tenant"]) && mentioned.is_complete(1, at(0)));
        assert!(!mentioned.is_complete(2, at(0)));
        mentioned.forget_users(&[2].into());
        assert!(mentioned.of(2).next().is_none() && mentioned.is_complete(2, at(0)));
    }

    #[test]
    fn long_names_have_a_bound_together_and_one_that_is_longer_is_missing() {
        let (mut mentioned, at, long) = (Mentioned::default(), Time::from_secs, "x".repeat(BYTES_MAX / 4));
        for number in 0..100 {
            mentioned.mention(1, [format!("{number}.{long}").as_str()].into_iter(), at(1));
        }
        assert!(mentioned.of(1).map(str::len).sum::<usize>() <= 2 * BYTES_MAX && mentioned.bits.is_empty());
        let mut mentioned = Mentioned::default();
        mentioned.mention(1, [format!("a.{}", "x".repeat(BYTES_MAX)).as_str()].into_iter(), at(1));
        assert!(mentioned.of(1).next().is_none() && !mentioned.is_complete(1, at(1)));
    }

    #[test]
    fn the_first_names_have_bits_of_their_own_whoever_says_them() {
        let mut mentioned = Mentioned::default();
        let now = Time::from_secs(1);
        let one = mentioned.mention(1, ["a.a", "a.b"].into_iter(), now);
        assert_eq!((one.count_ones(), mentioned.mention(2, ["a.b"].into_iter(), now)), (2, 0b10));
        flood(&mut mentioned, 1, 0..100, now);
        assert_eq!(mentioned.mention(1, ["a.b98", "a.b99"].into_iter(), now), 1 << SHARED_BIT);
        assert!(mentioned.bits.len() <= usize::from(SHARED_BIT));
    }
}
