//! Which idle server is lent first.
//!
//! Always true: a server that has been idle for `check_after` is chosen only if all are, and then to be checked first.
//! Among the others the server returned last goes first, so that the rest may age out; with `server_round_robin` the
//! server returned first does. Without round robin, a server that already has the client's settings goes before the
//! server returned last.
//! Not here: whether the client may have a server at all (`pool`), when to dial another (`dial`).

use base::{Slab, Time};

use crate::event::Fit;
use crate::list::{Linked, List};
use crate::slot::Slot;
use crate::{Fingerprint, Limits, Reuse, ServerKey};

/// An idle server, and whether it can be lent as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pick {
    /// Lend it.
    Fresh(ServerKey),
    /// Check it first.
    Aged(ServerKey),
}

/// Chooses among the idle servers of a pool, for a client of this fingerprint. The cost does not depend on their number,
/// except that round robin searches for the oldest fresh server behind the aged ones, which are many only under low load.
pub(crate) fn pick(idle: &List, slots: &Slab<Slot>, limits: &Limits, wanted: Fingerprint, now: Time) -> Option<Pick> {
    let newest = idle.newest()?;
    let slot = slots.get(newest)?;
    if limits.reuse == Reuse::Newest
        && slot.fingerprint != wanted
        && let Some(alike) = alike(idle, slots, wanted).filter(|(_, slot)| !is_aged(slot, limits, now))
    {
        return Some(Pick::Fresh(alike.0));
    }
    if is_aged(slot, limits, now) {
        return Some(Pick::Aged(match limits.reuse {
            Reuse::Newest => newest,
            Reuse::Oldest => idle.oldest()?,
        }));
    }
    match limits.reuse {
        Reuse::Newest => Some(Pick::Fresh(newest)),
        Reuse::Oldest => {
            idle.iter(slots).find(|(_, slot)| !is_aged(slot, limits, now)).map(|(key, _)| Pick::Fresh(key))
        }
    }
}

/// The server that suits a client best among the last [`LAST_RETURNED`]; of several, the one returned last.
fn alike<'a>(idle: &List, slots: &'a Slab<Slot>, wanted: Fingerprint) -> Option<(ServerKey, &'a Slot)> {
    let mut next = idle.newest();
    let mut best = None;
    for _ in 0..LAST_RETURNED {
        let Some((key, slot)) = next.and_then(|key| Some((key, slots.get(key)?))) else { break };
        let fit = slot.fingerprint.fit(wanted);
        if fit > best.map(|(fit, _)| fit) {
            best = fit.map(|fit| (fit, (key, slot)));
        }
        if fit == Some(Fit::Exact) {
            break;
        }
        next = slot.links().older();
    }
    best.map(|(_, found)| found)
}

/// How many idle servers are examined for one that suits a client.
const LAST_RETURNED: usize = 32;

/// Whether an idle server has to be checked before it is lent (`server_check_delay`).
pub(crate) fn is_aged(slot: &Slot, limits: &Limits, now: Time) -> bool {
    limits.check_after.is_some_and(|after| now.since(slot.since) >= after)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Servers that have been idle since these seconds, in order.
    fn idle(since: &[u64]) -> (Slab<Slot>, List, Vec<ServerKey>) {
        let (mut slots, mut list) = (Slab::with_capacity(9), List::default());
        let keys = since.iter().map(|secs| {
            let slot = Slot::new(base::Key::first(0), Time::from_secs(*secs), 0, false);
            let key = slots.insert(slot).expect("room");
            list.push(&mut slots, key);
            key
        });
        let keys = keys.collect();
        (slots, list, keys)
    }

    fn limits(reuse: Reuse, check_secs: Option<u64>) -> Limits {
        Limits { reuse, check_after: check_secs.map(Duration::from_secs), ..Limits::default() }
    }

    #[test]
    fn the_last_returned_is_lent_first() {
        let (slots, list, keys) = idle(&[1, 2, 3]);
        let picked = pick(&list, &slots, &limits(Reuse::Newest, None), Fingerprint::of(0), Time::from_secs(9));
        assert_eq!(picked, Some(Pick::Fresh(keys[2])));
    }

    #[test]
    fn one_that_is_like_the_client_is_lent_first() {
        let (mut slots, list, keys) = idle(&[1, 2, 3]);
        slots.get_mut(keys[0]).expect("a server").fingerprint = Fingerprint::of(7);
        let at = Time::from_secs(9);
        let picked = |limits: &Limits, wanted| pick(&list, &slots, limits, Fingerprint::of(wanted), at);
        assert_eq!(picked(&limits(Reuse::Newest, None), 7), Some(Pick::Fresh(keys[0])));
        assert_eq!(picked(&limits(Reuse::Newest, None), 8), Some(Pick::Fresh(keys[2])));
        assert_eq!(
            picked(&limits(Reuse::Newest, Some(7)), 7),
            Some(Pick::Fresh(keys[2])),
            "it would have to be checked"
        );
        assert_eq!(picked(&limits(Reuse::Oldest, None), 0), Some(Pick::Fresh(keys[0])), "it is its turn");
    }

    #[test]
    fn a_server_without_placeholders_of_others_goes_before_the_last_returned() {
        let (mut slots, list, keys) = idle(&[1, 2, 3]);
        for (key, placeholders) in [(0, 0b001), (1, 0b011), (2, 0b100)] {
            slots.get_mut(keys[key]).expect("a server").fingerprint = Fingerprint { settings: 7, placeholders };
        }
        let picked = |settings, placeholders| {
            let wanted = Fingerprint { settings, placeholders };
            pick(&list, &slots, &limits(Reuse::Newest, None), wanted, Time::from_secs(9))
        };
        assert_eq!(picked(7, 0b001), Some(Pick::Fresh(keys[0])));
        assert_eq!(picked(7, 0b011), Some(Pick::Fresh(keys[1])));
        assert_eq!(picked(7, 0b1001), Some(Pick::Fresh(keys[0])), "it has never had anything else");
        assert_eq!(picked(7, 0b1011), Some(Pick::Fresh(keys[1])), "the last returned of those");
        assert_eq!(picked(7, 0), Some(Pick::Fresh(keys[2])), "each has had something: the last returned");
        assert_eq!(picked(8, 0), Some(Pick::Fresh(keys[2])), "none is like it");
    }

    #[test]
    fn round_robin_lends_the_first_returned() {
        let (slots, list, keys) = idle(&[1, 2, 3]);
        let picked = pick(&list, &slots, &limits(Reuse::Oldest, None), Fingerprint::of(0), Time::from_secs(9));
        assert_eq!(picked, Some(Pick::Fresh(keys[0])));
    }

    #[test]
    fn round_robin_passes_over_those_that_must_be_checked() {
        let (slots, list, keys) = idle(&[1, 5, 6]);
        let picked = pick(&list, &slots, &limits(Reuse::Oldest, Some(5)), Fingerprint::of(0), Time::from_secs(9));
        assert_eq!(picked, Some(Pick::Fresh(keys[1])));
    }

    #[test]
    fn when_all_are_aged_one_is_checked() {
        let (slots, list, keys) = idle(&[1, 2]);
        let picked = pick(&list, &slots, &limits(Reuse::Newest, Some(5)), Fingerprint::of(0), Time::from_secs(9));
        assert_eq!(picked, Some(Pick::Aged(keys[1])));
    }

    #[test]
    fn a_delay_of_nothing_checks_always() {
        let (slots, list, keys) = idle(&[9]);
        let picked = pick(&list, &slots, &limits(Reuse::Newest, Some(0)), Fingerprint::of(0), Time::from_secs(9));
        assert_eq!(picked, Some(Pick::Aged(keys[0])));
    }

    #[test]
    fn nothing_is_picked_from_nothing() {
        let (slots, list, _) = idle(&[]);
        assert_eq!(pick(&list, &slots, &limits(Reuse::Newest, None), Fingerprint::of(0), Time::from_secs(9)), None);
    }
}
