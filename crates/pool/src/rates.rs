//! Rate limits: how many logins and transactions are admitted, by user, database, client address and `application_name`.
//!
//! Always true: whoever is admitted has a token of each rule that counts it, and whoever is not takes none of any. A rule that stays as it was
//! keeps what it has counted. What admits is told once when a rule begins to hold somebody back, and once when that has ended.
//! Not here: the buckets (`bucket`), who waits in which order (`delayed`), how rules are written (crate `config`).

use core::net::IpAddr;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::bucket::{Buckets, Period, Rate, Whose};

/// One limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateRule {
    /// Its name.
    pub name: Arc<str>,
    /// What is counted.
    pub counts: Counted,
    /// Whose counts are apart from each other.
    pub by: RateKeys,
    /// Whom it is about, if not everybody.
    pub only: RateFilter,
    /// How much is admitted.
    pub rate: Rate,
    /// What becomes of the rest.
    pub excess: Excess,
}

/// What a rule counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Logins.
    Logins,
    /// Transactions.
    Transactions,
}

/// What becomes of somebody for whom there is no token; the worse comes later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Excess {
    /// It waits for one.
    Delay,
    /// It is told an error.
    Reject,
}

/// By what counts are kept apart. By none of it, all have one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateKeys {
    /// The user that the client logs in as.
    pub user: bool,
    /// The database.
    pub database: bool,
    /// The client's address; of IPv6 its network of 64 bits. Clients by unix sockets have one together.
    pub address: bool,
    /// What the client calls itself.
    pub application_name: bool,
}

/// Whom a rule is about: everybody who has all of this.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RateFilter {
    /// This user.
    pub user: Option<Arc<str>>,
    /// This database.
    pub database: Option<Arc<str>>,
    /// An address in this network: its first bits, and how many of them.
    pub address: Option<(IpAddr, u8)>,
    /// This `application_name`.
    pub application_name: Option<Arc<str>>,
}

/// When somebody is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// It has asked to log in. All that is certain is its address: by that it is counted before anything is spent on it.
    Knocks,
    /// It has shown who it is. Before, a stranger could use up the logins of a user whose name it gives.
    LogsIn,
    /// It begins a transaction.
    Begins,
}

/// Who is counted.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// Its user.
    pub user: &'s str,
    /// Its database.
    pub database: &'s str,
    /// Its address; none of a client by a unix socket.
    pub address: Option<IpAddr>,
    /// Its `application_name`.
    pub application_name: &'s str,
}

/// A bucket among those of all rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BucketKey {
    rule: u64,
    whose: Whose,
}

impl BucketKey {
    pub(crate) fn new(rule: u64, whose: Whose) -> Self {
        Self { rule, whose }
    }
}

/// What becomes of somebody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It goes on.
    Admitted,
    /// It waits.
    Delayed(Shortage),
    /// It is told an error.
    Rejected(Shortage),
}

/// What is lacking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// By which rule.
    pub rule: Arc<RateRule>,
    /// In which bucket.
    pub bucket: BucketKey,
    /// When there may be a token.
    pub until: Time,
    /// Whether the rule holds somebody back for the first time after a while.
    pub begins: bool,
}

/// A rule holds nobody back any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relief {
    /// Which.
    pub rule: Arc<RateRule>,
    /// For how long it did.
    pub lasted: Duration,
    /// What it has counted meanwhile.
    pub tally: RateTally,
}

/// What a rule has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateTally {
    /// How many it has admitted.
    pub admitted: u64,
    /// How many have had to wait.
    pub delayed: u64,
    /// How many were told an error.
    pub rejected: u64,
}

/// How a rule looks, for the console. Never used for decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateRow {
    /// Which.
    pub rule: Arc<RateRule>,
    /// What it has done.
    pub tally: RateTally,
    /// Keys whose buckets are not full, and some whose buckets are full again.
    pub keys: usize,
    /// Since when it holds somebody back, if it does.
    pub limiting_since: Option<Time>,
}

/// All rules, and what they have counted.
#[derive(Debug)]
pub struct Rates {
    rows: Vec<Ruled>,
    /// So that nobody can find a name that has the bucket of another one.
    seed: [u8; 32],
    /// Of the last rule that was made.
    number: u64,
}

#[derive(Debug)]
struct Ruled {
    rule: Arc<RateRule>,
    number: u64,
    buckets: Buckets,
    tally: RateTally,
    limiting: Option<Limiting>,
}

/// A rule holds somebody back.
#[derive(Clone, Copy, Debug)]
struct Limiting {
    since: Time,
    /// When that has ended, if nobody else is held back.
    until: Time,
    before: RateTally,
}

impl Rates {
    /// No rules. The seed is secret, and the same for as long as the rules count.
    #[must_use]
    pub fn new(seed: [u8; 32]) -> Self {
        Self { rows: Vec::new(), seed, number: 0 }
    }

    /// These rules hold from now on. One that counts the same goes on with its counters, and with its buckets if it admits as much as before.
    pub fn put_in_force<'r>(&mut self, rules: impl Iterator<Item = &'r Arc<RateRule>>) {
        let mut old = std::mem::take(&mut self.rows);
        for rule in rules {
            let was = old.iter().position(|row| row.rule.name == rule.name).map(|place| old.swap_remove(place));
            self.number += 1;
            let row = match was {
                Some(was) if was.rule.is_counted_like(rule) => Ruled { rule: rule.clone(), ..was },
                was => {
                    let was = was.filter(|was| was.rule.counts == rule.counts);
                    let (tally, limiting) = was.map_or_else(Default::default, |was| (was.tally, was.limiting));
                    let buckets = Buckets::new(rule.rate, KEYS_MAX);
                    Ruled { rule: rule.clone(), number: self.number, buckets, tally, limiting }
                }
            };
            self.rows.push(row);
        }
    }

    /// Admits somebody, or not. `is_again` is said of whoever waited: it is not counted as delayed once more. Whoever comes anew gets
    /// no token of a bucket for which somebody waits already, as `is_queued` says.
    pub fn admit(
        &mut self,
        now: Time,
        moment: Moment,
        subject: &Subject<'_>,
        is_again: bool,
        is_queued: &dyn Fn(BucketKey) -> bool,
    ) -> Admission {
        let mut found = [None; RULES_MAX];
        // Whoever is to be rejected by one rule does not wait for another one.
        let mut lacking: Option<((Excess, Time), usize, Whose)> = None;
        for (place, (row, found)) in self.rows.iter_mut().zip(&mut found).enumerate() {
            if row.rule.moment() != moment || !row.rule.only.is_about(subject) {
                continue;
            }
            let (whose, until) = row.buckets.look(row.rule.key(&self.seed, subject), now);
            *found = Some(whose);
            let excess = row.rule.excess;
            let must_queue = |bucket| excess == Excess::Delay && !is_again && is_queued(bucket);
            let until = until.or_else(|| must_queue(BucketKey::new(row.number, whose)).then_some(now));
            if let Some(until) = until
                && lacking.is_none_or(|(worst, ..)| worst < (excess, until))
            {
                lacking = Some(((excess, until), place, whose));
            }
        }
        match lacking {
            None => {
                for (row, whose) in self.rows.iter_mut().zip(found) {
                    if let Some(whose) = whose {
                        row.buckets.take(whose, now);
                        row.tally.admitted += 1;
                    }
                }
                Admission::Admitted
            }
            Some(((excess, until), place, whose)) => {
                let shortage = self.rows[place].lacks(now, whose, until, is_again);
                match excess {
                    Excess::Delay => Admission::Delayed(shortage),
                    Excess::Reject => Admission::Rejected(shortage),
                }
            }
        }
    }

    /// The rules that hold nobody back any more; each is told once.
    pub fn ended(&mut self, now: Time) -> Vec<Relief> {
        self.rows.iter_mut().filter_map(|row| row.relief(now)).collect()
    }

    /// When [`Rates::ended`] may tell of one next.
    #[must_use]
    pub fn next_end(&self) -> Option<Time> {
        self.rows.iter().filter_map(|row| Some(row.limiting?.until)).min()
    }

    /// How the rules look.
    #[must_use]
    pub fn snapshot(&self) -> Vec<RateRow> {
        let row = |row: &Ruled| RateRow {
            rule: row.rule.clone(),
            tally: row.tally,
            keys: row.buckets.len(),
            limiting_since: row.limiting.map(|limiting| limiting.since),
        };
        self.rows.iter().map(row).collect()
    }
}

impl Ruled {
    fn lacks(&mut self, now: Time, whose: Whose, until: Time, is_again: bool) -> Shortage {
        let before = self.tally;
        match self.rule.excess {
            Excess::Reject => self.tally.rejected += 1,
            Excess::Delay if !is_again => self.tally.delayed += 1,
            Excess::Delay => {}
        }
        let rests_at = self.buckets.full_at(whose, now).max(now + REST_MIN);
        let begins = self.limiting.is_none();
        let limiting = self.limiting.get_or_insert(Limiting { since: now, until: rests_at, before });
        limiting.until = limiting.until.max(rests_at);
        Shortage { rule: self.rule.clone(), bucket: BucketKey::new(self.number, whose), until, begins }
    }

    fn relief(&mut self, now: Time) -> Option<Relief> {
        let Limiting { since, before, .. } = self.limiting.take_if(|limiting| limiting.until <= now)?;
        let tally = RateTally {
            admitted: self.tally.admitted - before.admitted,
            delayed: self.tally.delayed - before.delayed,
            rejected: self.tally.rejected - before.rejected,
        };
        Some(Relief { rule: self.rule.clone(), lasted: now.since(since), tally })
    }
}

impl RateRule {
    /// When whoever it is about is counted.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let RateKeys { user, database, application_name, .. } = self.by;
        let is_by_claim = user || database || application_name;
        let only = &self.only;
        let is_about_claim = only.user.is_some() || only.database.is_some() || only.application_name.is_some();
        match self.counts {
            Counted::Transactions => Moment::Begins,
            Counted::Logins if is_by_claim || is_about_claim => Moment::LogsIn,
            Counted::Logins => Moment::Knocks,
        }
    }

    /// Whether what another rule of this name has counted is what this one counts.
    fn is_counted_like(&self, other: &Self) -> bool {
        let Self { counts, by, only, rate, .. } = self;
        (counts, by, only, rate) == (&other.counts, &other.by, &other.only, &other.rate)
    }

    fn key(&self, seed: &[u8; 32], subject: &Subject<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        self.by.user.then_some(subject.user).hash(&mut hasher);
        self.by.database.then_some(subject.database).hash(&mut hasher);
        self.by.application_name.then_some(subject.application_name).hash(&mut hasher);
        self.by.address.then(|| subject.address.map(|address| network_of(address, NETWORK_BITS))).hash(&mut hasher);
        hasher.finish()
    }
}

impl RateFilter {
    /// Whether a rule with it is about somebody.
    #[must_use]
    pub fn is_about(&self, subject: &Subject<'_>) -> bool {
        let is = |wanted: &Option<Arc<str>>, name: &str| wanted.as_ref().is_none_or(|wanted| **wanted == *name);
        let is_in = |(network, bits): (IpAddr, u8)| {
            subject.address.is_some_and(|address| network_of(address, bits) == network_of(network, bits))
        };
        is(&self.user, subject.user)
            && is(&self.database, subject.database)
            && is(&self.application_name, subject.application_name)
            && self.address.is_none_or(is_in)
    }
}

/// The first bits of an address; of one of IPv4 that is written as IPv6, those of the former.
fn network_of(address: IpAddr, bits: u8) -> IpAddr {
    let kept = |width: u32, bits: u8| width.saturating_sub(u32::from(bits));
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(kept(u32::BITS, bits)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(kept(u128::BITS, bits)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

/// As the log says it: `"api" (100 transactions a second by user, burst 200)`.
impl fmt::Display for RateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" ({})", self.name, self.limit())
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Logins => "logins",
            Self::Transactions => "transactions",
        })
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delay => "delay",
            Self::Reject => "reject",
        })
    }
}

/// As in the file: `user,database`.
impl fmt::Display for RateKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (self.user, "user"),
            (self.database, "database"),
            (self.address, "address"),
            (self.application_name, "application_name"),
        ];
        let names: Vec<_> = names.iter().filter(|(is_kept, _)| *is_kept).map(|(_, name)| *name).collect();
        f.write_str(&names.join(","))
    }
}

impl RateRule {
    /// What it admits, in words: `100 transactions a second by user, burst 200`.
    #[must_use]
    pub fn limit(&self) -> String {
        let Rate { count, period, burst } = self.rate;
        let period = match period {
            Period::Second => "a second",
            Period::Minute => "a minute",
            Period::Hour => "an hour",
        };
        let by = if self.by == RateKeys::default() { String::new() } else { format!(" by {}", self.by) };
        let counted = self.counts.to_string();
        let counted = if count == 1 { counted.trim_end_matches('s') } else { &counted };
        format!("{count} {counted} {period}{by}, burst {burst}")
    }

    /// More rules than anybody keeps apart: each one costs each transaction.
    pub const RULES_MAX: usize = RULES_MAX;
}

const RULES_MAX: usize = 32;
/// Keys of one rule whose buckets are remembered while they are not full. The rest share one.
const KEYS_MAX: usize = 16_384;
/// Of an address by which counts are kept apart. Whoever has one address of IPv6 has as many as this leaves; one of IPv4 is shorter.
const NETWORK_BITS: u8 = 64;
/// A rule that holds nobody back for so long has ended to, so that a log has two lines for that in a second at most.
const REST_MIN: Duration = Duration::from_secs(1);
