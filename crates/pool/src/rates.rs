//! Rate limits: how many logins and transactions are admitted, by user, database, client address and `application_name`.
//!
//! Always true: a client that is admitted has taken a token of each rule that applies to it; a client that is not admitted
//! takes no token. A rule that a reload does not change keeps its counts. Each rule reports once that it begins to limit, and
//! once that it has stopped.
//! Not here: the buckets (`bucket`), the order of delayed clients (`delayed`), how rules are written (crate `config`).

use core::net::IpAddr;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use base::Time;

use crate::bucket::{Buckets, Period, Rate, Whose};

/// One rate limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateRule {
    /// Its name.
    pub name: Arc<str>,
    /// What is counted.
    pub counts: Counted,
    /// By which keys clients are counted separately.
    pub by: RateKeys,
    /// To which clients the rule applies.
    pub only: RateFilter,
    /// How much is admitted.
    pub rate: Rate,
    /// What happens to a client for which there is no token.
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

/// What happens to a client for which there is no token, in order of severity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Excess {
    /// The client waits for a token.
    Delay,
    /// The client gets an error.
    Reject,
}

/// The keys by which clients are counted separately. Without a key, all clients share one bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateKeys {
    /// The user that the client logs in as.
    pub user: bool,
    /// The database.
    pub database: bool,
    /// The client's address; for IPv6, its /64 network. Clients on Unix sockets share one bucket.
    pub address: bool,
    /// The client's `application_name`.
    pub application_name: bool,
}

/// The clients to which a rule applies: those that match all fields that are set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RateFilter {
    /// This user.
    pub user: Option<Arc<str>>,
    /// This database.
    pub database: Option<Arc<str>>,
    /// An address in this network: network address and prefix length.
    pub address: Option<(IpAddr, u8)>,
    /// This `application_name`.
    pub application_name: Option<Arc<str>>,
}

/// When a client is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateStage {
    /// The client has sent its startup packet. Only its address is certain, by which it can be counted before work is spent on
    /// it.
    Knocks,
    /// The client has been authenticated. If it were counted earlier, anybody could use up the logins of another user by giving
    /// that user's name.
    LogsIn,
    /// The client begins a transaction.
    Begins,
}

/// The client that is counted.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// The user.
    pub user: &'s str,
    /// The database.
    pub database: &'s str,
    /// The client's address; `None` on a Unix socket.
    pub address: Option<IpAddr>,
    /// The `application_name`.
    pub application_name: &'s str,
}

/// A bucket of any rule.
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

/// The decision about a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The client proceeds.
    Admitted,
    /// The client waits.
    Delayed(Shortage),
    /// The client gets an error.
    Rejected(Shortage),
}

/// The missing token of a client that is not admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// The rule.
    pub rule: Arc<RateRule>,
    /// The bucket.
    pub bucket: BucketKey,
    /// When there may be a token.
    pub until: Time,
    /// Whether the rule begins to limit with this client.
    pub begins: bool,
}

/// A rule has stopped limiting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relief {
    /// The rule.
    pub rule: Arc<RateRule>,
    /// For how long the rule limited.
    pub lasted: Duration,
    /// The counts of that time.
    pub tally: RateTally,
}

/// The counts of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateTally {
    /// How many were admitted.
    pub admitted: u64,
    /// How many had to wait.
    pub delayed: u64,
    /// How many got an error.
    pub rejected: u64,
}

/// The visible state of a rule, for the console. Never used for decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateRow {
    /// The rule.
    pub rule: Arc<RateRule>,
    /// The counts of the rule.
    pub tally: RateTally,
    /// How many keys have a bucket: those whose bucket is not full, and some whose bucket is full again.
    pub keys: usize,
    /// Since when the rule limits, if it does.
    pub limiting_since: Option<Time>,
}

/// All rules and their counts.
#[derive(Debug)]
pub struct Rates {
    rows: Vec<Ruled>,
    /// Seeds the hash of the keys, so that nobody can find a name whose hash equals that of another name.
    seed: [u8; 32],
    /// The number of the last rule that was created.
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

/// A rule is limiting.
#[derive(Clone, Copy, Debug)]
struct Limiting {
    since: Time,
    /// When the rule stops limiting, if it holds no other client back until then.
    until: Time,
    before: RateTally,
}

impl Rates {
    /// Returns an empty set of rules. The seed must be secret, and must not change while rules count.
    #[must_use]
    pub fn new(seed: [u8; 32]) -> Self {
        Self { rows: Vec::new(), seed, number: 0 }
    }

    /// Replaces the rules. A rule of the same name that counts the same events keeps its tally; if it also counts by the same
    /// keys, filter and rate, it keeps its buckets.
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

    /// Decides whether a client is admitted. `is_again` marks a client that was delayed before, which is not counted as delayed
    /// once more. Any other client gets no token of a bucket for which a client waits already, as `is_queued` tells.
    pub fn admit(
        &mut self,
        now: Time,
        stage: RateStage,
        subject: &Subject<'_>,
        is_again: bool,
        is_queued: &dyn Fn(BucketKey) -> bool,
    ) -> Admission {
        let mut found = [None; RULES_MAX];
        // A client that one rule rejects does not wait for another rule.
        let mut lacking: Option<((Excess, Time), usize, Whose)> = None;
        for (place, (row, found)) in self.rows.iter_mut().zip(&mut found).enumerate() {
            if row.rule.stage() != stage || !row.rule.only.is_about(subject) {
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

    /// Returns the rules that have stopped limiting; each is reported once.
    pub fn ended(&mut self, now: Time) -> Vec<Relief> {
        self.rows.iter_mut().filter_map(|row| row.relief(now)).collect()
    }

    /// When [`Rates::ended`] may next return a rule.
    #[must_use]
    pub fn next_end(&self) -> Option<Time> {
        self.rows.iter().filter_map(|row| Some(row.limiting?.until)).min()
    }

    /// The visible state of all rules.
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
    /// When the clients to which the rule applies are counted.
    #[must_use]
    pub fn stage(&self) -> RateStage {
        let RateKeys { user, database, application_name, .. } = self.by;
        let is_by_claim = user || database || application_name;
        let only = &self.only;
        let is_about_claim = only.user.is_some() || only.database.is_some() || only.application_name.is_some();
        match self.counts {
            Counted::Transactions => RateStage::Begins,
            Counted::Logins if is_by_claim || is_about_claim => RateStage::LogsIn,
            Counted::Logins => RateStage::Knocks,
        }
    }

    /// Whether another rule of this name counts in the same way, so that its buckets can be kept.
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
    /// Whether a rule with this filter applies to a client.
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

/// The network of an address. An IPv4-mapped IPv6 address counts as IPv4.
#[must_use]
pub fn network_of(address: IpAddr, bits: u8) -> IpAddr {
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

/// The form for the log: `"api" (100 transactions a second by user, burst 200)`.
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

/// The form of the configuration file: `user,database`.
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
    /// The limit in words: `100 transactions a second by user, burst 200`.
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

    /// The largest number of rules. Each rule costs time in each transaction.
    pub const RULES_MAX: usize = RULES_MAX;
}

const RULES_MAX: usize = 32;
/// How many keys of one rule may have a bucket of their own. The others share one bucket.
const KEYS_MAX: usize = 16_384;
/// The prefix length by which addresses are counted separately. A client with one IPv6 address usually has a whole /64
/// network; an IPv4 address is shorter than that and counts as a whole.
const NETWORK_BITS: u8 = 64;
/// A rule stops limiting only after it has held no client back for this time, so that it logs at most two lines per second.
const REST_MIN: Duration = Duration::from_secs(1);
