//! Which worker is the home of a database: the worker that owns its pools, its queue and its limits.
//!
//! Always true: a database keeps its home as long as that worker exists. Configured databases are spread evenly. The
//! home of a database made from the fallback follows from its name alone, so that it needs no table.
//! Not here: moving clients there (`worker`).

use std::collections::BTreeMap;
use std::sync::Arc;

use base::WorkerId;

use crate::catalog::Settings;
use crate::derived::line_of;

/// The homes of all databases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Homes {
    workers: u8,
    /// Whether databases of any name may be in use.
    has_fallback: bool,
    assigned: BTreeMap<Arc<str>, WorkerId>,
}

impl Homes {
    /// Assigns each configured database to one of `workers` (0 counts as 1). Databases of `previous` keep their homes,
    /// even while they are not configured: a worker that learns late of their removal still has their servers when they
    /// are configured again. A new database goes to the worker with the fewest, the first of these in a tie, unless it
    /// may be in use already as a database made from the fallback: then it keeps the home of that.
    #[must_use]
    pub fn assign(settings: &Settings, workers: u8, previous: Option<&Self>) -> Self {
        let workers = workers.max(1);
        let kept = |name: &Arc<str>| {
            let home = previous.and_then(|homes| homes.assigned.get(name)).filter(|home| home.0 < workers)?;
            Some((Arc::clone(name), *home))
        };
        let has_fallback = settings.fallback.is_some();
        let known = previous.into_iter().flat_map(|homes| homes.assigned.keys());
        let mut assigned: BTreeMap<_, _> = known.filter_map(kept).collect();
        let by_name = Self { workers, has_fallback, assigned: BTreeMap::new() };
        let may_be_in_use = previous.is_some_and(|homes| homes.has_fallback && homes.workers == workers);
        let mut counts = vec![0_usize; usize::from(workers)];
        for home in settings.databases.keys().filter_map(|name| assigned.get(name)) {
            counts[usize::from(home.0)] += 1;
        }
        for name in settings.databases.keys() {
            assigned.entry(Arc::clone(name)).or_insert_with(|| {
                if may_be_in_use {
                    return by_name.home_of(name);
                }
                let fewest = (0..workers).min_by_key(|worker| counts[usize::from(*worker)]).unwrap_or(0);
                counts[usize::from(fewest)] += 1;
                WorkerId(fewest)
            });
        }
        Self { workers, has_fallback, assigned }
    }

    /// The homes that another process assigned among `workers` workers.
    #[must_use]
    pub fn inherited(workers: u8, assigned: impl IntoIterator<Item = (Arc<str>, u8)>) -> Self {
        let assigned = assigned.into_iter().map(|(name, home)| (name, WorkerId(home))).collect();
        Self { workers: workers.max(1), has_fallback: false, assigned }
    }

    /// The homes of configured databases.
    pub fn assigned(&self) -> impl Iterator<Item = (&Arc<str>, WorkerId)> {
        self.assigned.iter().map(|(name, home)| (name, *home))
    }

    /// The home of any database, configured or not.
    #[must_use]
    pub fn home_of(&self, database: &str) -> WorkerId {
        // The low half of the hash alone depends too much on the last bits of the name's bytes.
        let mixed = |hash: u64| hash ^ (hash >> 32);
        let of_line = || {
            // What is derived from a database is where it is.
            let line = line_of(database).unwrap_or(database);
            let by_name = || WorkerId(u8::try_from(mixed(hash(line)) % u64::from(self.workers)).unwrap_or(0));
            self.assigned.get(line).copied().unwrap_or_else(by_name)
        };
        self.assigned.get(database).copied().unwrap_or_else(of_line)
    }

    /// Number of workers that share the databases, at least 1.
    #[must_use]
    pub fn workers(&self) -> u8 {
        self.workers
    }
}

/// FNV-1a with 64 bits: the same in every process and every version, unlike the hashes of the standard library.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    fn settings(names: &[&str]) -> Settings {
        let named = |name: &&str| (Arc::from(*name), Arc::new(Database::named((*name).into())));
        Settings { databases: names.iter().map(named).collect(), ..Settings::default() }
    }

    fn homes(homes: &Homes, names: &[&str]) -> Vec<u8> {
        names.iter().map(|name| homes.home_of(name).0).collect()
    }

    #[test]
    fn replicas_are_where_their_database_is() {
        let homes = Homes::assign(&settings(&["a", "b", "c"]), 4, None);
        for name in ["a", "b", "c", "made from the fallback"] {
            assert_eq!(homes.home_of(&format!("{name}:replica")), homes.home_of(name), "{name}");
        }
    }

    #[test]
    fn databases_are_spread_evenly() {
        let spread = Homes::assign(&settings(&["a", "b", "c", "d", "e"]), 2, None);
        assert_eq!(homes(&spread, &["a", "b", "c", "d", "e"]), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn a_database_keeps_its_home_and_a_new_one_goes_where_the_fewest_are() {
        let first = Homes::assign(&settings(&["b", "c", "d"]), 2, None);
        assert_eq!(homes(&first, &["b", "c", "d"]), [0, 1, 0]);
        let second = Homes::assign(&settings(&["a", "b", "d"]), 2, Some(&first));
        assert_eq!(homes(&second, &["a", "b", "d"]), [1, 0, 0]);
    }

    #[test]
    fn a_database_that_only_the_fallback_names_keeps_its_home() {
        let with_fallback =
            |names: &[&str]| Settings { fallback: Some(Arc::new(Database::named("*".into()))), ..settings(names) };
        let names = ["a", "b", "c", "d"];
        let first = Homes::assign(&with_fallback(&names), 4, None);
        assert_eq!(homes(&first, &names), [0, 1, 2, 3]);
        let second = Homes::assign(&with_fallback(&["b"]), 4, Some(&first));
        assert_eq!(homes(&second, &names), [0, 1, 2, 3]);
        let third = Homes::assign(&with_fallback(&names), 4, Some(&second));
        assert_eq!(homes(&third, &names), [0, 1, 2, 3]);
        // A database that was made from the fallback keeps its home when it is configured.
        let new = ["x1", "x2", "x3", "x4", "x5"];
        let fourth = Homes::assign(&with_fallback(&new), 4, Some(&third));
        assert_eq!(homes(&fourth, &new), homes(&third, &new));
    }

    #[test]
    fn a_database_that_comes_back_has_its_home_again() {
        let first = Homes::assign(&settings(&["a", "b", "c"]), 2, None);
        assert_eq!(homes(&first, &["a", "b", "c"]), [0, 1, 0]);
        let without = Homes::assign(&settings(&["a"]), 2, Some(&first));
        let second = Homes::assign(&settings(&["a", "b", "c", "d"]), 2, Some(&without));
        assert_eq!(homes(&second, &["a", "b", "c", "d"]), [0, 1, 0, 1]);
    }

    #[test]
    fn a_home_that_does_not_exist_any_more_is_given_up() {
        let first = Homes::assign(&settings(&["a", "b"]), 2, None);
        assert_eq!(homes(&Homes::assign(&settings(&["a", "b"]), 1, Some(&first)), &["a", "b"]), [0, 0]);
    }

    #[test]
    fn the_home_of_an_unknown_database_follows_from_its_name_in_every_process() {
        let none = Homes::assign(&settings(&[]), 4, None);
        assert_eq!(homes(&none, &["app", "shop", "app", ""]), homes(&none.clone(), &["app", "shop", "app", ""]));
        // The published test values of FNV-1a.
        assert_eq!((hash("a"), hash("foobar")), (0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8));
        assert_eq!(Homes::assign(&settings(&[]), 0, None).home_of("app"), WorkerId(0));
    }
}
