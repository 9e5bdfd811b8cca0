//! Which of its hosts the next server of a database is dialed at.
//!
//! Always true: a search tries each host once, the most promising first, and ends with a login that suits the database or when
//! no host is left; a host that could not be reached lately is tried after all others, and one that must not be used is not tried.
//! Of hosts that are equally promising the one with the fewest servers for its weight is chosen, or the next in turn: what is open
//! decides, so that nothing has to be remembered of former choices.
//! Not here: when to dial (`dial`), what a login shows of its host (`worker::upstream::role`).

use std::time::Duration;

use base::Time;

/// How well a host suits its database (`target_session_attrs`), as the last login there has shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Suits {
    /// It is what the database asks for.
    Yes,
    /// It is taken while nothing better is left: a primary for `prefer-standby`.
    Second,
    /// It must not be used.
    No,
}

/// What the line of a database says of one of its hosts, and what the worker knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostTerms {
    /// Its share of the servers, relative to the other hosts; a host with 0 is used only for want of any other.
    pub weight: u32,
    /// It is in another zone than the pooler: hosts that are not are used first.
    pub is_far: bool,
    /// It must not be used now.
    pub is_left: bool,
    /// It has not answered in its time: it is used only for want of any other that fits.
    pub is_suspect: bool,
    /// How many servers the database has there.
    pub servers: u32,
}

impl Default for HostTerms {
    fn default() -> Self {
        Self { weight: 1, is_far: false, is_left: false, is_suspect: false, servers: 0 }
    }
}

/// How one of several equally promising hosts is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostOrder {
    /// The one that was chosen last, until it fails.
    Kept,
    /// The next in turn; if the weights of the hosts differ, as with [`HostOrder::LeastBusy`].
    InTurn,
    /// The one with the fewest servers for its weight.
    LeastBusy,
}

/// What is known of the hosts of a database, by their places in its list.
#[derive(Debug, Default)]
pub struct HostChoice {
    hosts: Vec<Known>,
    /// The host that was chosen last.
    last: Option<usize>,
    /// The one host that may be chosen; `None` if any may.
    only: Option<usize>,
    /// The host at which a server that has moved is to be opened, and since when.
    wished: Option<(usize, Time)>,
}

/// What is known of one host.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    suits: Option<Suits>,
    /// When it could not be reached, if no login has succeeded since.
    failed_at: Option<Time>,
    /// The present search has tried it.
    is_tried: bool,
    /// When its servers were replaced last.
    left_at: Option<Time>,
    /// What was said of it at the last choice.
    terms: HostTerms,
    /// When a login there ended last, or a server was last moved there to find out whether it is back.
    asked_at: Option<Time>,
}

/// Which hosts are tried before which others, wherever they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    Usable,
    Second,
    /// Its weight is 0.
    Spare,
    /// It has not answered in its time.
    Suspect,
    Unsuited,
    Failed,
}

/// How promising a host is, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Promise {
    Suits,
    Unknown,
    Second,
    /// It did not suit last time, which may have changed.
    Unsuited,
    /// It could not be reached lately.
    Failed,
}

impl HostChoice {
    /// Only this host may be chosen from now on, or any of them.
    pub fn keep_to(&mut self, only: Option<usize>) {
        if self.only != only {
            self.only = only;
            self.ends();
        }
    }

    /// Chooses the host for a dial: of those that are most promising, the nearest, and of these the one that `order` says. Hosts that
    /// take turns are all tried before one is known to suit better than another. After `rests` a failed host is as if it had not
    /// failed. `None` if no host may be used.
    pub fn next(&mut self, now: Time, hosts: &[HostTerms], order: HostOrder, rests: Duration) -> Option<usize> {
        self.hosts.resize(hosts.len(), Known::default());
        for (host, terms) in self.hosts.iter_mut().zip(hosts) {
            host.terms = *terms;
        }
        if let Some(only) = self.only.filter(|only| *only < hosts.len()) {
            self.last = Some(only);
            return Some(only);
        }
        let takes_turns = order != HostOrder::Kept;
        let is_by_share = match order {
            HostOrder::Kept => false,
            HostOrder::InTurn => hosts.iter().any(|host| host.weight != hosts[0].weight),
            HostOrder::LeastBusy => true,
        };
        let first = self.last.map_or(0, |last| last + usize::from(takes_turns));
        let in_turn = (0..hosts.len()).map(|step| (first + step) % hosts.len());
        let usable: Vec<usize> = in_turn.filter(|place| !hosts[*place].is_left).collect();
        let untried = usable.iter().filter(|place| !self.hosts[**place].is_tried);
        // Of equals `min_by_key` takes the first.
        let place = untried.min_by_key(|place| {
            let host = &self.hosts[**place];
            let promise = host.promise(now, takes_turns, rests);
            let share = if is_by_share { host.terms.share() } else { 0 };
            (host.terms.rank(promise), host.terms.is_far, promise, share)
        });
        let wished = self.wished.take().map(|(place, _)| place);
        let may_be = |place: &usize| usable.contains(place) && !hosts[*place].is_suspect;
        let wished = wished.filter(|place| may_be(place) && !self.hosts[*place].is_tried);
        let place = wished.or(place.or(usable.first()).copied())?;
        self.last = Some(place);
        Some(place)
    }

    /// A host could not be reached, or takes no logins now. Returns whether the search goes on with another one.
    pub fn fails(&mut self, place: usize, now: Time) -> bool {
        if let Some(host) = self.hosts.get_mut(place) {
            (host.failed_at, host.asked_at) = (Some(now), Some(now));
        }
        self.was_in_vain(place)
    }

    /// A login at a host was refused or led to nothing, which says nothing about the host for other users. Returns whether the
    /// search goes on with another one.
    pub fn was_in_vain(&mut self, place: usize) -> bool {
        if let Some(host) = self.hosts.get_mut(place) {
            host.is_tried = true;
        }
        self.goes_on()
    }

    /// A server has shown how well its host suits. Returns whether it may be used. If not, [`HostChoice::goes_on`] says
    /// whether the search goes on.
    pub fn shows(&mut self, place: usize, suits: Suits) -> bool {
        if let Some(host) = self.hosts.get_mut(place) {
            (host.suits, host.failed_at, host.is_tried) = (Some(suits), None, suits == Suits::No);
        }
        match suits {
            Suits::Yes => true,
            Suits::Second => !self.has_better_than_second(),
            Suits::No => false,
        }
    }

    /// A server that may be used is ready: the search is over.
    pub fn ends(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.is_tried = false);
    }

    /// The servers at a host are to be replaced. Returns whether they are: not if that was done less than `every` ago.
    pub fn leaves(&mut self, place: usize, now: Time, every: Duration) -> bool {
        let Some(host) = self.hosts.get_mut(place) else { return false };
        let is_due = host.left_at.is_none_or(|at| now >= at + every);
        if is_due {
            host.left_at = Some(now);
        }
        is_due
    }

    /// Whether the search goes on with a host that it has not tried. If not, it is over, and the next dial begins another.
    pub fn goes_on(&mut self) -> bool {
        let goes_on = self.only.is_none() && self.hosts.iter().any(Known::is_to_try);
        if !goes_on {
            self.ends();
        }
        goes_on
    }

    /// How many hosts the present search has not tried, the one that is being tried included.
    #[must_use]
    pub fn left(&self) -> usize {
        if self.only.is_some() {
            return 1;
        }
        self.hosts.iter().filter(|host| host.is_to_try()).count()
    }

    /// What was known of how well a host suits no longer holds.
    pub fn forget(&mut self, place: usize) {
        if let Some(host) = self.hosts.get_mut(place) {
            host.suits = None;
        }
    }

    /// Whether a host may be used, as far as is known, that is not suspect.
    #[must_use]
    pub fn has_unsuspected(&self, now: Time, hosts: &[HostTerms], rests: Duration) -> bool {
        let promise =
            |place: usize| self.hosts.get(place).map_or(Promise::Suits, |host| host.promise(now, true, rests));
        let mut usable = hosts.iter().enumerate().filter(|(_, terms)| !terms.is_left);
        usable.any(|(place, terms)| terms.rank(promise(place)) < Rank::Suspect)
    }

    /// The host at which an idle server at `from` had better be, so that it is closed and the next one opened there: one that is what
    /// the database asks for, nearer, or has fewer servers for its weight. `is_rested`: the server has been idle for a while. Only such
    /// a one is risked for a host of which it is not known whether it is back, once in `rests`.
    pub fn moves(
        &mut self,
        now: Time,
        hosts: &[HostTerms],
        order: HostOrder,
        (from, is_rested): (usize, bool),
        rests: Duration,
    ) -> Option<usize> {
        let is_wished = self.wished.is_some_and(|(_, since)| now < since + WISH_MAX);
        if self.only.is_some() || is_wished || hosts.len() != self.hosts.len() {
            return None;
        }
        let (here, here_terms) = (self.hosts.get(from)?, hosts.get(from)?);
        let is_second = here.suits == Some(Suits::Second);
        let rank_here = here_terms.rank(if is_second { Promise::Second } else { Promise::Suits });
        let is_better = |terms: &HostTerms| {
            let (there, here) = ((terms.rank(Promise::Suits), terms.is_far), (rank_here, here_terms.is_far));
            let has_fewer = order != HostOrder::Kept && here_terms.weight > 0 && terms.share() < here_terms.share_now();
            there < here || there == here && has_fewer
        };
        let is_proved = |host: &Known| host.failed_at.is_none() && host.suits == Some(Suits::Yes);
        // Of a host with servers their reports tell what it is.
        let may_be_back = |host: &Known, terms: &HostTerms| {
            let may_suit = host.suits.is_none_or(|suits| suits == Suits::Yes) || is_second && terms.servers == 0;
            let is_due = host.asked_at.is_none_or(|at| now >= at + rests);
            is_rested && may_suit && is_due
        };
        let others = hosts
            .iter()
            .enumerate()
            .filter(|(place, terms)| *place != from && !terms.is_left && !terms.is_suspect && is_better(terms));
        let fits = |(place, terms): &(usize, &HostTerms)| {
            let host = &self.hosts[*place];
            is_proved(host) || may_be_back(host, terms)
        };
        let best = |(place, terms): &(usize, &HostTerms)| {
            (!is_proved(&self.hosts[*place]), terms.rank(Promise::Suits), terms.is_far, terms.share())
        };
        let (place, _) = others.filter(fits).min_by_key(best)?;
        self.hosts[place].asked_at = Some(now);
        self.wished = Some((place, now));
        Some(place)
    }

    /// A host may be used again: that it failed or did not suit is forgotten.
    pub fn is_back(&mut self, place: usize) {
        let is_doubted = |host: &&mut Known| host.failed_at.is_some() || host.suits != Some(Suits::Yes);
        if let Some(host) = self.hosts.get_mut(place).filter(is_doubted) {
            (host.suits, host.failed_at, host.is_tried, host.asked_at) = (None, None, false, None);
        }
    }

    /// A host that had not answered in its time does so again: that it failed is forgotten, and how well it suits is not.
    pub fn answers_again(&mut self, place: usize) {
        if let Some(host) = self.hosts.get_mut(place) {
            (host.failed_at, host.is_tried, host.asked_at) = (None, false, None);
        }
    }

    /// Whether a host that has not been tried may suit better than [`Suits::Second`].
    fn has_better_than_second(&self) -> bool {
        let may_suit = |host: &Known| host.failed_at.is_none() && host.suits.is_none_or(|suits| suits == Suits::Yes);
        let is_first = |terms: HostTerms| terms.weight > 0 && !terms.is_suspect;
        self.hosts.iter().any(|host| host.is_to_try() && is_first(host.terms) && may_suit(host))
    }
}

impl HostTerms {
    fn rank(&self, promise: Promise) -> Rank {
        match promise {
            Promise::Failed => Rank::Failed,
            Promise::Unsuited => Rank::Unsuited,
            Promise::Suits | Promise::Unknown | Promise::Second if self.is_suspect => Rank::Suspect,
            Promise::Suits | Promise::Unknown | Promise::Second if self.weight == 0 => Rank::Spare,
            Promise::Suits | Promise::Unknown => Rank::Usable,
            Promise::Second => Rank::Second,
        }
    }

    /// How many servers it has for its weight.
    fn share_now(&self) -> u64 {
        u64::from(self.servers) * SHARE / u64::from(self.weight.max(1))
    }

    /// How many servers it would have for its weight with one more, in parts of [`SHARE`].
    fn share(&self) -> u64 {
        (u64::from(self.servers) + 1) * SHARE / u64::from(self.weight.max(1))
    }
}

impl Known {
    /// Whether the present search may still come to it.
    fn is_to_try(&self) -> bool {
        !self.is_tried && !self.terms.is_left
    }

    fn promise(&self, now: Time, takes_turns: bool, rests: Duration) -> Promise {
        match (self.failed_at, self.suits) {
            (Some(at), _) if now < at + rests => Promise::Failed,
            (_, Some(Suits::Yes)) => Promise::Suits,
            (_, None) if takes_turns => Promise::Suits,
            (_, None) => Promise::Unknown,
            (_, Some(Suits::Second)) => Promise::Second,
            (_, Some(Suits::No)) => Promise::Unsuited,
        }
    }
}

/// Fine enough to tell any two numbers of servers by their weights, which are small.
const SHARE: u64 = 1 << 24;
/// After this time a server that was to be opened at a host is not expected any more.
const WISH_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const RESTS: Duration = Duration::from_secs(15);

    fn next(choice: &mut HostChoice, secs: u64, takes_turns: bool) -> usize {
        let order = if takes_turns { HostOrder::InTurn } else { HostOrder::Kept };
        choice.next(Time::from_secs(secs), &[HostTerms::default(); 3], order, RESTS).expect("a host")
    }

    /// Opens so many servers one after the other, and returns how many are at each host then.
    fn open<const N: usize>(choice: &mut HostChoice, hosts: [HostTerms; N], order: HostOrder, count: u32) -> [u32; N] {
        let mut hosts = hosts;
        for _ in 0..count {
            let place = choice.next(Time::from_secs(1), &hosts, order, RESTS).expect("a host");
            assert!(choice.shows(place, Suits::Yes));
            choice.ends();
            hosts[place].servers += 1;
        }
        hosts.map(|host| host.servers)
    }

    fn weights<const N: usize>(weights: [u32; N]) -> [HostTerms; N] {
        weights.map(|weight| HostTerms { weight, ..HostTerms::default() })
    }

    #[test]
    fn servers_are_spread_by_weight() {
        for order in [HostOrder::InTurn, HostOrder::LeastBusy] {
            let mut choice = HostChoice::default();
            assert_eq!(open(&mut choice, weights([3, 1, 2]), order, 12), [6, 2, 4], "{order:?}");
            assert_eq!(open(&mut choice, weights([100, 1]), order, 10), [10, 0], "{order:?}");
            assert_eq!(open(&mut choice, weights([2, 2]), order, 10), [5, 5], "{order:?}");
        }
        assert_eq!(open(&mut HostChoice::default(), weights([1, 9]), HostOrder::Kept, 10), [10, 0]);
    }

    #[test]
    fn the_least_busy_host_is_the_one_with_the_fewest_servers() {
        let mut hosts = weights([1, 1, 1]);
        (hosts[0].servers, hosts[1].servers) = (4, 2);
        assert_eq!(open(&mut HostChoice::default(), hosts, HostOrder::LeastBusy, 6), [4, 4, 4]);
        assert_eq!(open(&mut HostChoice::default(), hosts, HostOrder::InTurn, 6), [6, 4, 2], "whatever is open");
    }

    #[test]
    fn a_host_without_weight_is_used_for_want_of_any_other() {
        let hosts = weights([0, 1, 1]);
        let mut choice = HostChoice::default();
        assert_eq!(open(&mut choice, hosts, HostOrder::InTurn, 4), [0, 2, 2]);
        let now = Time::from_secs(1);
        for _ in 0..2 {
            let place = choice.next(now, &hosts, HostOrder::InTurn, RESTS).expect("a host");
            assert!(place > 0 && choice.fails(place, now));
        }
        assert_eq!(choice.next(now, &hosts, HostOrder::InTurn, RESTS), Some(0));
        assert!(choice.shows(0, Suits::Yes));
        choice.ends();
        assert_ne!(choice.next(Time::from_secs(17), &hosts, HostOrder::InTurn, RESTS), Some(0), "they may be back");
    }

    #[test]
    fn hosts_of_the_same_zone_come_first() {
        let mut hosts = weights([1, 1, 1]);
        hosts[0].is_far = true;
        let mut choice = HostChoice::default();
        assert_eq!(open(&mut choice, hosts, HostOrder::InTurn, 4), [0, 2, 2]);
        assert_eq!(open(&mut choice, hosts, HostOrder::LeastBusy, 4), [0, 2, 2]);
        let now = Time::from_secs(1);
        for _ in 0..2 {
            let place = choice.next(now, &hosts, HostOrder::LeastBusy, RESTS).expect("a host");
            assert!(place > 0 && choice.fails(place, now));
        }
        assert_eq!(choice.next(now, &hosts, HostOrder::LeastBusy, RESTS), Some(0));
        // A primary near by is no match for a standby far away.
        let mut choice = known([Suits::Yes, Suits::Second, Suits::Second]);
        assert_eq!(choice.next(now, &hosts, HostOrder::InTurn, RESTS), Some(0));
    }

    #[test]
    fn a_suspect_host_is_used_for_want_of_another() {
        let now = Time::from_secs(1);
        let mut hosts = weights([1, 1, 1]);
        hosts[1].is_suspect = true;
        let mut choice = HostChoice::default();
        assert_eq!(open(&mut choice, hosts, HostOrder::InTurn, 6), [3, 0, 3]);
        assert!(choice.has_unsuspected(now, &hosts, RESTS));
        // A primary that is near is taken for a suspect standby, and not waited for that.
        let mut choice = HostChoice::default();
        for (place, suits) in [(0, Suits::Second), (1, Suits::Yes)] {
            choice.next(now, &hosts[..2], HostOrder::InTurn, RESTS);
            choice.shows(place, suits);
            choice.ends();
        }
        assert_eq!(choice.next(now, &hosts[..2], HostOrder::InTurn, RESTS), Some(0));
        assert!(choice.shows(0, Suits::Second));
        // Idle servers move away from it, and none moves there.
        assert_eq!(choice.moves(now, &hosts[..2], HostOrder::InTurn, (0, true), RESTS), None);
        // A dial that it has not answered is forgotten when it does again.
        choice.fails(1, now);
        choice.ends();
        choice.answers_again(1);
        let well = weights([1, 1]);
        assert_eq!(choice.moves(now, &well, HostOrder::InTurn, (0, false), RESTS), Some(1));
        assert_eq!(choice.next(now, &well, HostOrder::InTurn, RESTS), Some(1));
        // If the others do not suit, or have failed, it is used.
        choice.shows(0, Suits::No);
        choice.ends();
        assert!(!choice.has_unsuspected(now, &hosts[..2], RESTS));
        assert_eq!(choice.next(now, &hosts[..2], HostOrder::InTurn, RESTS), Some(1));
        hosts[0].is_left = true;
        assert!(!choice.has_unsuspected(now, &hosts[..2], RESTS));
    }

    #[test]
    fn a_host_that_must_not_be_used_is_not_tried() {
        let mut hosts = weights([1, 1]);
        hosts[0].is_left = true;
        let mut choice = HostChoice::default();
        let now = Time::from_secs(1);
        assert_eq!(choice.next(now, &hosts, HostOrder::InTurn, RESTS), Some(1));
        assert_eq!(choice.left(), 1);
        assert!(choice.shows(1, Suits::Second), "the other one may be better, but is not used");
        assert!(!choice.fails(1, now), "no other is tried");
        hosts[1].is_left = true;
        assert_eq!(choice.next(now, &hosts, HostOrder::InTurn, RESTS), None);
        choice.keep_to(Some(0));
        assert_eq!(choice.next(now, &hosts, HostOrder::InTurn, RESTS), Some(0), "the primary of a cluster is used");
        assert_eq!(HostChoice::default().next(now, &[], HostOrder::InTurn, RESTS), None);
    }

    /// A choice of which the hosts have shown how well they suit.
    fn known(suits: [Suits; 3]) -> HostChoice {
        let mut choice = HostChoice::default();
        next(&mut choice, 0, true);
        for (place, suits) in suits.into_iter().enumerate() {
            choice.shows(place, suits);
        }
        choice.ends();
        choice
    }

    #[test]
    fn one_host_alone_may_be_chosen() {
        let mut choice = known([Suits::Yes, Suits::No, Suits::No]);
        choice.keep_to(Some(2));
        assert_eq!((next(&mut choice, 1, true), next(&mut choice, 1, false), choice.left()), (2, 2, 1));
        assert!(!choice.fails(2, Time::from_secs(1)) && !choice.was_in_vain(2), "no other is tried");
        assert_eq!(next(&mut choice, 1, false), 2);
        choice.keep_to(None);
        assert_eq!(next(&mut choice, 2, false), 0);
    }

    #[test]
    fn hosts_take_turns_or_one_is_kept() {
        let mut choice = known([Suits::Yes; 3]);
        assert_eq!([1, 2, 3, 4].map(|secs| next(&mut choice, secs, true)), [1, 2, 0, 1]);
        assert_eq!([5, 6].map(|secs| next(&mut choice, secs, false)), [1, 1]);
        assert_eq!(next(&mut HostChoice::default(), 1, true), 0, "the first host comes first");
    }

    #[test]
    fn a_search_tries_each_host_once() {
        for takes_turns in [true, false] {
            let mut choice = HostChoice::default();
            let mut tried = Vec::new();
            loop {
                let place = next(&mut choice, 1, takes_turns);
                tried.push(place);
                if !choice.fails(place, Time::from_secs(1)) {
                    break;
                }
            }
            assert_eq!(tried, [0, 1, 2]);
            assert_eq!(choice.left(), 3, "the next search begins anew");
        }
    }

    #[test]
    fn a_host_that_could_not_be_reached_is_left_out_for_a_while() {
        let mut choice = known([Suits::Yes; 3]);
        assert_eq!(next(&mut choice, 1, true), 1);
        assert!(choice.fails(1, Time::from_secs(1)));
        assert_eq!(next(&mut choice, 1, true), 2);
        assert!(choice.shows(2, Suits::Yes));
        choice.ends();
        assert_eq!([2, 3, 4].map(|secs| next(&mut choice, secs, true)), [0, 2, 0]);
        assert_eq!([17, 18, 19].map(|secs| next(&mut choice, secs, true)), [1, 2, 0]);
    }

    #[test]
    fn the_primary_is_found_and_then_kept() {
        let mut choice = HostChoice::default();
        assert_eq!(next(&mut choice, 1, false), 0);
        assert!(!choice.shows(0, Suits::No) && choice.goes_on());
        assert_eq!(next(&mut choice, 1, false), 1);
        assert!(choice.shows(1, Suits::Yes));
        assert_eq!([2, 3, 4].map(|secs| next(&mut choice, secs, false)), [1, 1, 1], "nobody asks a replica again");
    }

    #[test]
    fn all_standbys_are_found_in_turn() {
        let mut choice = HostChoice::default();
        assert_eq!(next(&mut choice, 1, true), 0);
        assert!(choice.shows(0, Suits::Yes));
        assert_eq!(next(&mut choice, 1, true), 1);
        assert!(!choice.shows(1, Suits::No) && choice.goes_on());
        assert_eq!(next(&mut choice, 1, true), 2);
        assert!(choice.shows(2, Suits::Yes));
        assert_eq!([2, 3, 4].map(|secs| next(&mut choice, secs, true)), [0, 2, 0]);
    }

    #[test]
    fn after_the_primary_has_failed_one_that_is_not_known_is_tried_before_one_that_did_not_suit() {
        let mut choice = HostChoice::default();
        assert_eq!(next(&mut choice, 1, false), 0);
        choice.shows(0, Suits::No);
        assert_eq!(next(&mut choice, 1, false), 1);
        choice.shows(1, Suits::Yes);
        choice.ends();
        assert_eq!(next(&mut choice, 9, false), 1);
        assert!(choice.fails(1, Time::from_secs(9)));
        assert_eq!(next(&mut choice, 9, false), 2);
        assert!(!choice.shows(2, Suits::No) && choice.goes_on());
        assert_eq!(next(&mut choice, 9, false), 0, "it may have been promoted");
        assert!(choice.shows(0, Suits::Yes));
    }

    #[test]
    fn a_primary_is_taken_for_want_of_a_standby() {
        let mut choice = HostChoice::default();
        assert_eq!(next(&mut choice, 1, true), 0);
        assert!(!choice.shows(0, Suits::Second), "there may be a standby");
        assert!(choice.goes_on());
        assert_eq!(next(&mut choice, 1, true), 1);
        assert!(choice.fails(1, Time::from_secs(1)));
        assert_eq!(next(&mut choice, 1, true), 2);
        assert!(choice.fails(2, Time::from_secs(1)));
        assert_eq!(next(&mut choice, 1, true), 0);
        assert!(choice.shows(0, Suits::Second), "all others have failed");
        choice.ends();
        assert_eq!(next(&mut choice, 2, true), 0);
        assert!(choice.shows(0, Suits::Second));
        assert_eq!(next(&mut choice, 17, true), 1, "the standbys may be back");
        assert!(choice.shows(1, Suits::Yes));
    }

    fn moves(choice: &mut HostChoice, secs: u64, servers: [u32; 3], from: usize) -> Option<usize> {
        let hosts = servers.map(|servers| HostTerms { servers, ..HostTerms::default() });
        choice.moves(Time::from_secs(secs), &hosts, HostOrder::InTurn, (from, true), RESTS)
    }

    #[test]
    fn a_server_moves_to_a_host_that_suits_better() {
        let mut choice = known([Suits::Second, Suits::Yes, Suits::No]);
        assert_eq!(moves(&mut choice, 1, [4, 1, 0], 0), Some(1));
        assert_eq!(moves(&mut choice, 2, [3, 1, 0], 0), None, "one after the other");
        assert_eq!(next(&mut choice, 2, true), 1);
        assert!(choice.shows(1, Suits::Yes));
        choice.ends();
        assert_eq!(moves(&mut choice, 3, [3, 2, 0], 0), Some(1));
        assert_eq!(moves(&mut choice, 9, [3, 2, 0], 0), Some(1), "the last one was never opened");
        assert_eq!(moves(&mut choice, 15, [1, 4, 0], 1), None, "not back, and not to one that does not suit");
    }

    #[test]
    fn servers_move_until_they_are_spread_by_weight() {
        let mut choice = known([Suits::Yes; 3]);
        let mut hosts = weights([2, 1, 1]);
        (hosts[0].servers, hosts[1].servers) = (3, 5);
        let mut moved = 0;
        while let Some(place) = (0..3).find_map(|from| {
            let is_there = hosts[from].servers > 0;
            is_there
                .then(|| choice.moves(Time::from_secs(1), &hosts, HostOrder::LeastBusy, (from, false), RESTS))?
                .map(|to| (from, to))
        }) {
            choice.next(Time::from_secs(1), &hosts, HostOrder::LeastBusy, RESTS);
            hosts[place.0].servers -= 1;
            hosts[place.1].servers += 1;
            moved += 1;
            assert!(moved < 10);
        }
        assert_eq!((hosts.map(|host| host.servers), moved), ([4, 2, 2], 4));
        let mut kept = known([Suits::Yes; 3]);
        assert_eq!(kept.moves(Time::from_secs(1), &hosts, HostOrder::Kept, (0, true), RESTS), None);
        hosts[0].is_far = true;
        assert!(kept.moves(Time::from_secs(1), &hosts, HostOrder::Kept, (0, true), RESTS).is_some(), "nearer");
    }

    #[test]
    fn one_server_finds_out_whether_a_host_is_back() {
        let mut choice = known([Suits::Second, Suits::Yes, Suits::No]);
        assert!(choice.fails(1, Time::from_secs(20)));
        choice.ends();
        assert_eq!(moves(&mut choice, 21, [4, 0, 1], 0), None, "it has just failed");
        let hosts = [4, 0, 1].map(|servers| HostTerms { servers, ..HostTerms::default() });
        let busy = choice.moves(Time::from_secs(36), &hosts, HostOrder::InTurn, (0, false), RESTS);
        assert_eq!(busy, None, "no server that is needed is risked");
        assert_eq!(moves(&mut choice, 36, [4, 0, 1], 0), Some(1));
        assert_eq!(next(&mut choice, 36, true), 1);
        assert!(choice.fails(1, Time::from_secs(38)));
        choice.ends();
        assert_eq!(moves(&mut choice, 52, [4, 0, 1], 0), None);
        choice.is_back(1);
        assert_eq!(moves(&mut choice, 52, [4, 0, 1], 0), Some(1), "its cluster has seen it");
    }

    #[test]
    fn a_host_that_is_back_is_tried_first() {
        let mut choice = known([Suits::Second, Suits::Yes, Suits::No]);
        assert!(choice.fails(1, Time::from_secs(1)));
        choice.ends();
        assert_eq!(next(&mut choice, 2, true), 0);
        choice.is_back(1);
        choice.is_back(7);
        assert_eq!(next(&mut choice, 3, true), 1);
    }

    #[test]
    fn a_doubted_host_is_tried_after_one_that_suits() {
        let mut choice = known([Suits::Yes, Suits::Yes, Suits::No]);
        choice.last = Some(1);
        choice.forget(1);
        assert_eq!([1, 2, 3].map(|secs| next(&mut choice, secs, false)), [0, 0, 0]);
        assert!(choice.fails(0, Time::from_secs(4)));
        assert_eq!(next(&mut choice, 4, false), 1);
    }

    #[test]
    fn a_host_that_refuses_does_not_keep_a_search_from_the_others() {
        let mut choice = HostChoice::default();
        assert_eq!(next(&mut choice, 1, false), 0);
        assert!(choice.fails(0, Time::from_secs(1)), "it restarts");
        assert_eq!(next(&mut choice, 1, false), 1);
        assert!(choice.was_in_vain(1), "it refuses the login");
        assert_eq!(next(&mut choice, 1, false), 2);
        assert!(!choice.was_in_vain(2), "so does this one");
        assert_eq!(next(&mut choice, 17, false), 2, "as if nothing had failed");
        assert!(choice.was_in_vain(2));
        assert_eq!(next(&mut choice, 17, false), 0, "the first is tried again");
    }

    #[test]
    fn a_refused_login_does_not_make_a_host_less_promising_to_others() {
        let mut choice = known([Suits::Yes, Suits::No, Suits::No]);
        assert_eq!(next(&mut choice, 1, false), 0);
        assert!(choice.was_in_vain(0));
        choice.ends();
        assert_eq!(next(&mut choice, 2, false), 0);
    }

    #[test]
    fn a_login_that_leads_to_nothing_does_not_begin_the_search_anew() {
        let mut choice = HostChoice::default();
        for place in 0..3 {
            assert_eq!(next(&mut choice, 1, true), place);
            assert!(choice.shows(place, Suits::Yes));
            assert_eq!(choice.was_in_vain(place), place < 2, "{place}");
        }
    }

    #[test]
    fn the_servers_at_each_host_are_replaced_once_in_a_while() {
        let mut choice = known([Suits::Yes; 3]);
        let leaves = |choice: &mut HostChoice, place, secs| choice.leaves(place, Time::from_secs(secs), RESTS);
        assert!(leaves(&mut choice, 0, 1) && !leaves(&mut choice, 0, 15) && leaves(&mut choice, 1, 15));
        choice.shows(0, Suits::Yes);
        assert!(!leaves(&mut choice, 0, 15) && leaves(&mut choice, 0, 16));
    }

    #[test]
    fn a_list_may_become_shorter_or_longer() {
        let mut choice = known([Suits::No, Suits::No, Suits::Yes]);
        let one = [HostTerms::default()];
        assert_eq!(choice.next(Time::from_secs(1), &one, HostOrder::InTurn, RESTS), Some(0));
        assert!(choice.fails(7, Time::from_secs(1)), "a host that is gone has failed");
        let two = [HostTerms::default(); 2];
        assert_eq!(choice.next(Time::from_secs(2), &two, HostOrder::InTurn, RESTS), Some(1));
    }
}
