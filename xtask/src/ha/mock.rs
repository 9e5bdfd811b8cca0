//! The mock set: what of the cases can be played without namespaces, with real PostgreSQL servers on the loopback interface and a
//! stand-in for Patroni.
//!
//! Always true: each case of the lab is played, or named as not run; a play is a test of `real`, and fails as that does. Nothing is
//! compared with other paths, and no outage is measured.
//! Not here: the plays (`tests/real/pooling`), and the stand-in (`tests/src/patroni.rs`).

use std::path::Path;

use setup::Purpose;

use super::cases;
use super::namespaces::TRUNKLINE;
use crate::house::House;

/// Plays all that can be played.
pub(super) fn run(house: &House, trunkline: &Path) -> Result<(), String> {
    setup::run(&[Purpose::Test])?;
    let mut command = house.cargo_command();
    command.args(["test", "--quiet", "--package", "tests", "--test", "real", "--no-run"]);
    let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    status.success().then_some(()).ok_or("ha: the tests cannot be built")?;
    let mut failed = Vec::new();
    for (case, tests) in PLAYS {
        println!("{case}: {}", title(case));
        let mut command = house.cargo_command();
        command.args(["test", "--quiet", "--package", "tests", "--test", "real", "--"]).args(*tests);
        let status = command.env(TRUNKLINE, trunkline).status();
        if !status.map_err(|error| format!("cannot start cargo: {error}"))?.success() {
            failed.push(*case);
        }
    }
    for line in not_played() {
        println!("not run: {line}");
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("ha: failed with the stand-in: {}", failed.join(", "))) }
}

fn title(case: &str) -> &'static str {
    let others = cases::ABSENT.iter().copied();
    let mut all = cases::CASES.iter().map(|case| (case.name, case.title)).chain(others);
    all.find(|(name, _)| *name == case).map_or("", |(_, title)| title)
}

/// A line for each case that only the lab can run.
fn not_played() -> Vec<String> {
    let all = cases::not_run(&[]).into_iter();
    all.filter(|line| PLAYS.iter().all(|(case, _)| !line.starts_with(&format!("{case}: ")))).collect()
}

/// Which tests of `real` play which case.
const PLAYS: &[(&str, &[&str])] = &[
    ("6a", &["pooling::clusters::a_switchover_by_patroni_costs_no_error"]),
    ("6b", &["pooling::switchovers::two_hundred_writers_notice_a_switchover_only_as_a_pause"]),
    (
        "6d",
        &[
            "pooling::switchovers::what_cannot_move_is_ended_with_words_at_drain_timeout",
            "pooling::clusters::no_server_stays_at_a_former_primary",
        ],
    ),
    ("6e", &["pooling::clusters::a_switchover_that_fails_leaves_clients_at_the_primary"]),
    ("3", &["pooling::hosts::a_restart_of_a_second_is_a_wait_of_about_a_second"]),
    ("2a", &["pooling::clusters::a_silent_primary_is_left_when_another_one_is_promoted"]),
    ("2b", &["pooling::clusters::clients_follow_the_primary_of_a_cluster"]),
    (
        "1a",
        &[
            "pooling::clusters::a_silent_replica_is_left_by_those_who_wait_for_it",
            "pooling::reads::a_read_outlives_its_replica",
        ],
    ),
    ("4", &["pooling::clusters::writes_stop_before_the_lease_of_the_primary_has_run_out"]),
    ("9", &["pooling::testimony::agents_that_say_what_is_not_so_lead_nobody_to_a_standby"]),
    ("10", &["pooling::testimony::a_primary_that_changes_all_the_time_is_followed_each_time"]),
    ("7-b", &["pooling::cluster_replication::a_subscriber_follows_the_primary_through_switchovers"]),
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_play_is_a_test_and_each_case_is_played_or_named() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/real");
        for (case, plays) in PLAYS {
            assert!(!title(case).is_empty(), "{case}");
            for play in *plays {
                let (file, name) = play.rsplit_once("::").expect("a module");
                let text = fs::read_to_string(tests.join(file.replace("::", "/")).with_extension("rs")).expect(file);
                assert!(text.contains(&format!("pub(crate) fn {name}(")), "{play}");
            }
        }
        assert_eq!(not_played().len() + PLAYS.len(), cases::not_run(&[]).len());
    }
}
