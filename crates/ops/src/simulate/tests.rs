//! Presets and sweeps as a person runs them, and the knees that are known.

use super::course::{read_spec, study_of};
use super::experiment::{Point, Progress, run_all};
use super::options::SpecSource;
use super::presets::PRESETS;
use super::report::Report;
use super::spec::{Spec, SpecTree};
use super::sweep::Sweep;
use super::{course, story};
use crate::trial::Interrupt;

fn tree(text: &str, values: &[(&str, &str)]) -> SpecTree {
    let mut tree = SpecTree::parse(text).expect("TOML");
    for (path, value) in values {
        assert_eq!(tree.set(path, value), Ok(()));
    }
    tree
}

fn preset(name: &str, values: &[(&str, &str)]) -> SpecTree {
    tree(&course::text_of(&SpecSource::Preset(name.to_owned())).expect("a preset"), values)
}

fn run(tree: &SpecTree) -> Point {
    let spec: Spec = read_spec(tree).unwrap_or_else(|why| panic!("{why}"));
    let points = run_all(&[(Vec::new(), spec)], 2, &Progress::default());
    let point = points.into_iter().flatten().next().expect("one point");
    assert!(point.total.balances(), "{:?}", point.total.balances);
    point
}

#[test]
fn every_preset_is_a_spec_whose_books_balance() {
    for found in PRESETS {
        let short = tree(found.text, &[("duration", "5 s"), ("warm_up", "1 s"), ("events", "[]")]);
        let point = run(&short);
        assert!(point.total.counts.done > 10, "{}: {:?}", found.name, point.total.counts);
        assert!(read_spec(&tree(found.text, &[])).is_ok(), "{}", found.name);
    }
}

#[test]
fn a_preset_that_there_is_not_is_told_with_the_nearest() {
    let told = course::text_of(&SpecSource::Preset("mattermost-2021-tunde".to_owned())).expect_err("no such preset");
    assert!(told.to_string().contains("did you mean \"mattermost-2021-tuned\"?"), "{told}");
    assert!(story::of(&SpecSource::Preset("cern".to_owned())).is_some());
    assert!(story::of(&SpecSource::File("cern".to_owned())).is_none());
}

/// Mattermost's three configurations closed fewer servers one after the other. An hour's lifetime would need hours.
#[test]
fn mattermosts_configurations_are_in_their_order() {
    let values = [("server_lifetime", "300"), ("duration", "12 min"), ("warm_up", "4 min")];
    let [broken, first_fix, tuned] =
        ["broken", "fix1", "tuned"].map(|name| run(&preset(&format!("mattermost-2021-{name}"), &values)).total);
    let closed = [&broken, &first_fix, &tuned].map(|outcome| outcome.disconnections());
    assert!(closed[0] > 10.0 * closed[1] && closed[1] > 1.1 * closed[2], "{closed:?}");
    let ours = run(&preset("mattermost-2021-broken", &[&values[..], &[("behaviour", "trunkline")]].concat())).total;
    assert_eq!(ours.servers.closed[1], 0, "no server is closed to reach a minimum");
    assert!(ours.churn() * 50.0 < broken.churn(), "{} and {}", ours.churn(), broken.churn());
}

/// The published benchmark: 210 transactions a second and 3.8 s; with the pooler 3,305, and 242 ms.
#[test]
fn cerns_benchmarks_are_near_the_published_ones() {
    let [before, after] =
        ["before", "after"].map(|name| run(&preset(&format!("cern-{name}"), &[("duration", "40 s")])).total);
    for (got, published) in [
        (before.throughput(), 210.2),
        (before.response(50.0), 3.805),
        (after.throughput(), 3304.7),
        (after.response(50.0), 0.242),
    ] {
        assert!((got / published - 1.0).abs() < 0.03, "{got} and {published}");
    }
}

#[test]
fn the_knee_of_tenants_with_one_connection_is_one_server_for_each() {
    let interrupt = Interrupt::listen().expect("signals");
    for tenants in [5, 20, 30] {
        let count = tenants.to_string();
        let values = [
            ("databases.0.tenants.0.count", count.as_str()),
            ("replications", "4"),
            ("duration", "4000 s"),
            ("warm_up", "400 s"),
        ];
        let tree = preset("one-each", &values);
        let sweep = Sweep::parse("conns_per_tenant=0.5..1.5:0.25").expect("a sweep");
        let study = study_of(&tree, read_spec(&tree).expect("a spec"), &[sweep], 2, &interrupt).expect("a study");
        let knee = study.knee.expect("a knee");
        let slot = 1.0 / f64::from(tenants);
        assert!((knee.at - 1.0).abs() < 1e-9, "{tenants} tenants: {knee:?}");
        assert!(
            knee.below.is_some_and(|below| (1.0 - below) < 1.5 * slot) && knee.high - knee.low < 1.5 * slot,
            "{knee:?}"
        );
        assert!(study.balances() && study.is_complete());
    }
}

/// A noisy tenant does not keep quiet ones waiting: their pools are their own.
#[test]
fn quiet_tenants_wait_hardly_longer_beside_a_noisy_one() {
    let with = |factor: &str| run(&preset("noisy-neighbour", &[("events.0.factor", factor)])).total;
    let (alone, beside) = (with("0.1"), with("6"));
    let p99 = |outcome: &super::engine::Outcome| super::engine::seconds_at(&outcome.groups[0].responses, 99.0);
    assert!(p99(&beside) < 2.0 * p99(&alone), "{} and {}", p99(&beside), p99(&alone));
}

#[test]
fn the_numbers_do_not_depend_on_the_number_of_threads() {
    let spec = read_spec(&preset("storm", &[("replications", "3"), ("duration", "40 s"), ("warm_up", "5 s")]))
        .expect("a spec");
    let run = |threads| run_all(&[(Vec::new(), spec.clone())], threads, &Progress::default());
    let (one, three) = (run(1), run(3));
    let (one, three) = (one[0].as_ref().expect("a point"), three[0].as_ref().expect("a point"));
    assert_eq!((one.total.counts, &one.runs), (three.total.counts, &three.runs));
}

#[test]
fn who_ends_a_sweep_early_gets_no_points_of_what_was_not_begun() {
    let progress = Progress::default();
    progress.is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    let spec = read_spec(&preset("storm", &[])).expect("a spec");
    assert!(run_all(&[(Vec::new(), spec)], 2, &progress).iter().all(Option::is_none));
}

#[test]
fn a_report_tells_the_same_in_all_its_forms_and_escapes_what_is_not_ours() {
    let interrupt = Interrupt::listen().expect("signals");
    let values = [("duration", "20 s"), ("warm_up", "5 s"), ("title", "\"a<script>b\"")];
    let tree = preset("noisy-neighbour", &values);
    let spec = || read_spec(&tree).expect("a spec");
    let single = Report::of_study(study_of(&tree, spec(), &[], 1, &interrupt).expect("a study"));
    let json: serde_json::Value = serde_json::from_str(&single.json()).expect("JSON");
    let study = &json["chapters"][0]["studies"][0];
    assert_eq!((&json["schema"], &json["books_balance"]), (&1.into(), &true.into()));
    let setting = &study["settings"][0];
    let sum: u64 =
        setting["wait_histogram"].as_array().expect("pairs").iter().filter_map(|pair| pair[1].as_u64()).sum();
    assert_eq!(setting["wait"]["count"].as_u64(), Some(sum));
    assert!(single.text().contains("All 14 books balance.") && single.text().contains("quiet"), "{}", single.text());
    let html = single.html();
    assert!(html.contains("a&lt;script&gt;b") && !html.contains("<script") && !html.contains("http"), "{html}");
    assert_eq!(html.matches("<svg").count(), 3);

    let sweep = Sweep::parse("default_pool_size=2,5,10").expect("a sweep");
    let swept = Report::of_study(study_of(&tree, spec(), &[sweep], 2, &interrupt).expect("a study"));
    assert_eq!(swept.html().matches("<svg").count(), 4);
    assert!(swept.text().contains("default_pool_size"), "{}", swept.text());
}
