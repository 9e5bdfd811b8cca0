//! Rate limits as the worker uses them: several rules at once, and delayed clients.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use base::{Key, Time};
use pool::{
    Admission, BucketKey, Counted, Delayed, Excess, Period, Rate, RateFilter, RateKeys, RateRule, RateStage, Rates,
    Subject,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn rule(name: &str, count: u32, burst: u32) -> RateRule {
    RateRule {
        name: name.into(),
        counts: Counted::Transactions,
        by: RateKeys { user: true, ..RateKeys::default() },
        only: RateFilter::default(),
        rate: Rate { count, period: Period::Second, burst },
        excess: Excess::Delay,
    }
}

fn rates(rules: impl IntoIterator<Item = RateRule>) -> Rates {
    let mut rates = Rates::new([7; 32]);
    put(&mut rates, rules);
    rates
}

fn put(rates: &mut Rates, rules: impl IntoIterator<Item = RateRule>) {
    let rules: Vec<_> = rules.into_iter().map(Arc::new).collect();
    rates.put_in_force(rules.iter());
}

fn someone(user: &str) -> Subject<'_> {
    Subject { user, database: "shop", address: None, application_name: "" }
}

fn begins(rates: &mut Rates, now: u64, subject: &Subject<'_>) -> Admission {
    rates.admit(Time(now), RateStage::Begins, subject, false, &|_| false)
}

fn is_admitted(rates: &mut Rates, now: u64, subject: &Subject<'_>) -> bool {
    begins(rates, now, subject) == Admission::Admitted
}

#[test]
fn users_are_counted_apart() {
    let mut rates = rates([rule("r", 10, 1)]);
    assert!(is_admitted(&mut rates, 0, &someone("ann")) && is_admitted(&mut rates, 0, &someone("bob")));
    assert!(!is_admitted(&mut rates, 0, &someone("ann")));
    assert!(is_admitted(&mut rates, 100_000, &someone("ann")));
}

#[test]
fn each_key_counts_apart_and_the_others_together() {
    let at = |address: &str| Subject { address: address.parse().ok(), ..someone("ann") };
    let by = |by| rule("r", 10, 1).counting(by);
    let cases = [
        (
            RateKeys { database: true, ..RateKeys::default() },
            Subject { database: "x", ..someone("ann") },
            someone("bob"),
        ),
        (
            RateKeys { application_name: true, ..RateKeys::default() },
            Subject { application_name: "x", ..someone("ann") },
            Subject { database: "x", ..someone("bob") },
        ),
        (RateKeys { address: true, ..RateKeys::default() }, at("10.0.0.1"), someone("bob")),
        (RateKeys { user: true, ..RateKeys::default() }, someone("bob"), at("10.0.0.1")),
    ];
    for (keys, other, same) in cases {
        let mut rates = rates([by(keys)]);
        assert!(is_admitted(&mut rates, 0, &someone("ann")), "{keys}");
        assert!(is_admitted(&mut rates, 0, &other), "{keys}");
        assert!(!is_admitted(&mut rates, 0, &same), "{keys}");
    }
    // Without a key all clients share one bucket.
    let mut rates = rates([by(RateKeys::default())]);
    assert!(is_admitted(&mut rates, 0, &someone("ann")) && !is_admitted(&mut rates, 0, &at("10.0.0.1")));
}

#[test]
fn an_address_of_ipv6_is_its_network() {
    let at = |address: &str| Subject { address: address.parse().ok(), ..someone("ann") };
    let mut rates = rates([rule("r", 10, 1).counting(RateKeys { address: true, ..RateKeys::default() })]);
    assert!(is_admitted(&mut rates, 0, &at("2001:db8::1")));
    assert!(!is_admitted(&mut rates, 0, &at("2001:db8::ffff:2")));
    assert!(is_admitted(&mut rates, 0, &at("2001:db8:0:1::1")));
    assert!(is_admitted(&mut rates, 0, &at("10.0.0.1")) && is_admitted(&mut rates, 0, &at("10.0.0.2")));
    assert!(!is_admitted(&mut rates, 0, &at("::ffff:10.0.0.1")));
}

#[test]
fn a_rule_is_about_those_whom_it_names_and_no_others() {
    let network: IpAddr = "10.1.0.0".parse().expect("an address");
    let filters = [
        RateFilter { user: Some("ann".into()), ..RateFilter::default() },
        RateFilter { database: Some("sales".into()), ..RateFilter::default() },
        RateFilter { application_name: Some("etl".into()), ..RateFilter::default() },
        RateFilter { address: Some((network, 16)), ..RateFilter::default() },
    ];
    let subject = Subject { user: "ann", database: "sales", address: "10.1.2.3".parse().ok(), application_name: "etl" };
    let other = Subject { user: "bob", database: "shop", address: "10.2.0.1".parse().ok(), application_name: "web" };
    for only in filters {
        let mut rates = rates([RateRule { only, ..rule("r", 1, 1) }]);
        assert!(is_admitted(&mut rates, 0, &subject) && !is_admitted(&mut rates, 0, &subject));
        (0..5).for_each(|_| assert!(is_admitted(&mut rates, 0, &other)));
    }
}

/// An unauthenticated client can give any name, so names are counted only after authentication.
#[test]
fn logins_are_counted_as_soon_as_their_keys_are_certain() {
    let logins = |by| RateRule { counts: Counted::Logins, ..rule("r", 1, 1) }.counting(by);
    let address = RateKeys { address: true, ..RateKeys::default() };
    assert_eq!(logins(address).stage(), RateStage::Knocks);
    assert_eq!(logins(RateKeys::default()).stage(), RateStage::Knocks);
    assert_eq!(logins(RateKeys { user: true, ..address }).stage(), RateStage::LogsIn);
    assert_eq!(logins(RateKeys { application_name: true, ..RateKeys::default() }).stage(), RateStage::LogsIn);
    let only = RateFilter { database: Some("shop".into()), ..RateFilter::default() };
    assert_eq!(RateRule { only, ..logins(address) }.stage(), RateStage::LogsIn);
    assert_eq!(rule("r", 1, 1).stage(), RateStage::Begins);
}

#[test]
fn whoever_lacks_a_token_of_one_rule_takes_none_of_another() {
    let all = rule("all", 1, 1).counting(RateKeys::default());
    let mut rates = rates([rule("user", 1, 5), all]);
    assert!(is_admitted(&mut rates, 0, &someone("ann")));
    (0..9).for_each(|_| assert!(!is_admitted(&mut rates, 0, &someone("ann"))));
    let tallies: Vec<_> = rates.snapshot().iter().map(|row| (row.tally.admitted, row.tally.delayed)).collect();
    assert_eq!(tallies, [(1, 0), (1, 9)]);
}

#[test]
fn whoever_is_rejected_by_one_rule_does_not_wait_for_another() {
    let strict = RateRule { excess: Excess::Reject, ..rule("strict", 1000, 1) };
    let mut rates = rates([rule("slow", 1, 1), strict]);
    assert!(is_admitted(&mut rates, 0, &someone("ann")));
    let Admission::Rejected(shortage) = begins(&mut rates, 0, &someone("ann")) else { panic!("it is not rejected") };
    assert_eq!((&*shortage.rule.name, shortage.until), ("strict", Time(1000)));
}

#[test]
fn a_newcomer_does_not_overtake_whoever_waits() {
    let mut rates = rates([rule("r", 10, 1)]);
    assert!(is_admitted(&mut rates, 0, &someone("ann")));
    let Admission::Delayed(shortage) = begins(&mut rates, 0, &someone("ann")) else { panic!("it is not delayed") };
    assert_eq!(shortage.until, Time(100_000));
    let mut delayed = Delayed::default();
    let client = |index| Key::first(index);
    delayed.join(client(1), shortage.bucket, shortage.until);
    // There is a token, but the delayed client has not been woken yet.
    let is_queued = |bucket: BucketKey| delayed.is_queued(bucket);
    let newcomer = rates.admit(Time(100_000), RateStage::Begins, &someone("ann"), false, &is_queued);
    assert!(matches!(newcomer, Admission::Delayed(_)));
    assert!(delayed.due(Time(100_000)).is_some_and(|(woken, _)| woken == client(1)));
    let woken = rates.admit(Time(100_000), RateStage::Begins, &someone("ann"), true, &|_| true);
    assert_eq!(woken, Admission::Admitted);
    assert_eq!(rates.snapshot()[0].tally.delayed, 2);
}

#[test]
fn a_rule_tells_once_that_it_begins_and_once_that_it_has_ended() {
    let mut rates = rates([rule("r", 10, 2)]);
    let begin = |rates: &mut Rates, now| match begins(rates, now, &someone("ann")) {
        Admission::Delayed(shortage) => shortage.begins,
        _ => false,
    };
    let told: Vec<_> = (0..5).map(|_| begin(&mut rates, 0)).collect();
    assert_eq!(told, [false, false, true, false, false]);
    assert_eq!(rates.next_end(), Some(Time(1_000_000)));
    assert!(rates.snapshot()[0].limiting_since.is_some());
    assert!(rates.ended(Time(999_999)).is_empty());
    let ended = rates.ended(Time(1_000_000));
    assert_eq!((ended.len(), ended[0].tally.delayed, ended[0].tally.admitted), (1, 3, 0));
    assert!(rates.ended(Time(2_000_000)).is_empty() && rates.next_end().is_none());
    // A slow rate stops limiting only when its bucket is full again.
    put(&mut rates, [rule("r", 1, 5)]);
    assert!((0..6).any(|_| begin(&mut rates, 10_000_000)));
    assert_eq!(rates.next_end(), Some(Time(15_000_000)));
}

#[test]
fn a_reload_that_changes_nothing_gives_nobody_a_burst() {
    let mut rates = rates([rule("r", 1, 2), rule("other", 1000, 9)]);
    assert!(is_admitted(&mut rates, 0, &someone("ann")));
    put(&mut rates, [rule("r", 1, 2)]);
    assert!(is_admitted(&mut rates, 0, &someone("ann")) && !is_admitted(&mut rates, 0, &someone("ann")));
    put(&mut rates, [RateRule { excess: Excess::Reject, ..rule("r", 1, 2) }]);
    assert!(matches!(begins(&mut rates, 0, &someone("ann")), Admission::Rejected(_)));
    // A changed rate begins with new buckets, and keeps its tally.
    put(&mut rates, [rule("r", 1, 3)]);
    assert!(is_admitted(&mut rates, 0, &someone("ann")));
    assert_eq!(rates.snapshot()[0].tally.admitted, 3);
    put(&mut rates, []);
    (0..9).for_each(|_| assert!(is_admitted(&mut rates, 0, &someone("ann"))));
}

#[test]
fn a_rule_is_told_in_words() {
    let keys = RateKeys { user: true, address: true, ..RateKeys::default() };
    assert_eq!(
        rule("api", 100, 200).counting(keys).to_string(),
        "\"api\" (100 transactions a second by user,address, burst 200)"
    );
    let logins = RateRule { counts: Counted::Logins, ..rule("l", 5, 1).counting(RateKeys::default()) };
    assert_eq!(logins.to_string(), "\"l\" (5 logins a second, burst 1)");
    assert_eq!(RateRule { rate: rule("l", 1, 1).rate, ..logins }.to_string(), "\"l\" (1 login a second, burst 1)");
}

trait Counting {
    fn counting(self, by: RateKeys) -> Self;
}

impl Counting for RateRule {
    fn counting(self, by: RateKeys) -> Self {
        Self { by, ..self }
    }
}

/// The key by which a rule should count a client, computed without hashing.
fn key_of(rule: &RateRule, subject: &Subject<'_>) -> Option<String> {
    let only = &rule.only;
    if only.user.as_deref().is_some_and(|user| user != subject.user) {
        return None;
    }
    let (user, database) = (rule.by.user.then_some(subject.user), rule.by.database.then_some(subject.database));
    let name = rule.by.application_name.then_some(subject.application_name);
    Some(format!("{user:?} {database:?} {name:?}"))
}

fn any_rule() -> impl Strategy<Value = RateRule> {
    let keys = (any::<bool>(), any::<bool>(), any::<bool>());
    (keys, any::<bool>(), 1_u32..40, 1_u32..5, any::<bool>()).prop_map(
        |((user, database, name), is_narrow, count, burst, rejects)| {
            let by = RateKeys { user, database, application_name: name, address: false };
            let only = RateFilter { user: is_narrow.then(|| "ann".into()), ..RateFilter::default() };
            let excess = if rejects { Excess::Reject } else { Excess::Delay };
            RateRule { by, only, excess, ..rule("", count, burst) }
        },
    )
}

proptest! {
    /// For any window, each rule and each of its keys; and every reported wait ends in the future.
    #[test]
    fn what_is_admitted_never_exceeds_burst_and_rate(
        rules in vec(any_rule(), 1..4),
        tries in vec((0_usize..3, 0_usize..3, 0_usize..3, 0_u64..200_000), 1..250),
    ) {
        let rules: Vec<_> = rules.into_iter().zip(0..).map(|(rule, n)| RateRule { name: format!("{n}").into(), ..rule }).collect();
        let mut rates = rates(rules.clone());
        let mut admitted: HashMap<(usize, String), Vec<u64>> = HashMap::new();
        let names = ["ann", "bob", "cid"];
        let mut now = 1_000_000;
        for (user, database, name, pause) in tries {
            now += pause;
            let subject =
                Subject { user: names[user], database: names[database], address: None, application_name: names[name] };
            match begins(&mut rates, now, &subject) {
                Admission::Admitted => {
                    for (number, rule) in rules.iter().enumerate() {
                        if let Some(key) = key_of(rule, &subject) {
                            admitted.entry((number, key)).or_default().push(now);
                        }
                    }
                }
                Admission::Delayed(shortage) | Admission::Rejected(shortage) => prop_assert!(shortage.until > Time(now)),
            }
        }
        for ((number, _), times) in &admitted {
            let Rate { count, burst, .. } = rules[*number].rate;
            for (first, from) in times.iter().enumerate() {
                for (last, to) in times.iter().enumerate().skip(first) {
                    let beyond = (last - first + 1).saturating_sub(burst as usize) as u64;
                    prop_assert!(beyond * 1_000_000 <= u64::from(count) * (to - from));
                }
            }
        }
    }
}
