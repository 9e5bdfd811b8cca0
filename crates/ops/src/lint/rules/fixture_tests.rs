//! Each rule has files on which it fires and files on which it does not.
//!
//! Always true: a rule that is added to the catalog without both fails here.
//! Not here: the fixtures of rules that one file of settings is enough for (`pools_tests`, `access_tests`).

use std::collections::BTreeSet;

use super::access_tests::ACCESS_PAIRS;
use super::pools_tests::PAIRS;
use super::trial::lint_all;
use crate::findings::Findings;

/// A rule, the files (and options) on which it fires, and those on which it does not.
struct Fixture {
    rule: &'static str,
    fires: (&'static [&'static str], &'static [&'static str]),
    clean: (&'static [&'static str], &'static [&'static str]),
}

const INI: &str = "[pgbouncer]\n[databases]\nd = host=10.0.0.1\n";
const TLS: &str = "[pgbouncer]\nauth_type = scram-sha-256\nclient_tls_sslmode = require\nworkers = 1\nclient_tls_key_file = k\nclient_tls_cert_file = c\n[databases]\nd = host=x\n";
const FEW: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: pgbouncer}\nspec:\n  replicas: 3\n  template:\n    spec:\n      containers:\n        - {name: p, image: \"pgbouncer:1.22.1\"}\n";
const MANY: &str = "replicaCount: 3\nterminationGracePeriodSeconds: 600\npodDisruptionBudget: {maxUnavailable: 1}\naffinity: {podAntiAffinity: {x: [y]}}\nlifecycle: {preStop: {sleep: {seconds: 5}}}\n";
const HAPROXY: &str = "global\n  maxconn 100\ndefaults\n  timeout client 30m\n  timeout server 30m\nlisten pg\n  bind *:5000\n  option httpchk /replica\n";

const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "F01",
        fires: (&["[pgbouncer]\npool_mod = session\n[databases]\nd = host=x\n"], &[]),
        clean: (&["[pgbouncer]\npool_mode = session\n[databases]\nd = host=x\n"], &[]),
    },
    Fixture {
        rule: "F02",
        fires: (&["; lint: ignore L14\n[pgbouncer]\n[databases]\nd = host=10.0.0.1\n"], &[]),
        clean: (&["; lint: ignore L14 the network is one machine\n[pgbouncer]\n[databases]\nd = host=10.0.0.1\n"], &[]),
    },
    Fixture {
        rule: "F03",
        fires: (&["; lint: ignore L10 not there\n[pgbouncer]\n[databases]\nd = host=10.0.0.1\n"], &[]),
        clean: (&["; lint: ignore L14 the network is one machine\n[pgbouncer]\n[databases]\nd = host=10.0.0.1\n"], &[]),
    },
    Fixture {
        rule: "L22",
        fires: (&[INI], &["--channel-binding", "require"]),
        clean: (&[TLS], &["--channel-binding", "require"]),
    },
    Fixture { rule: "L28", fires: (&[FEW], &["--drain", "120"]), clean: (&[MANY], &["--drain", "60"]) },
    Fixture { rule: "L29", fires: (&[FEW], &[]), clean: (&[MANY], &[]) },
    Fixture { rule: "L30", fires: (&[HAPROXY], &[]), clean: (&[INI], &[]) },
    Fixture {
        rule: "L31",
        fires: (&["scope: s\nname: a\nbootstrap:\n  dcs:\n    ttl: 15\n"], &[]),
        clean: (&["scope: s\nname: a\nbootstrap:\n  dcs:\n    ttl: 30\nwatchdog:\n  mode: required\n"], &[]),
    },
    Fixture {
        rule: "L33",
        fires: (&[HAPROXY, INI], &["--longest-transaction", "3600"]),
        clean: (&[HAPROXY, INI], &["--longest-transaction", "60"]),
    },
];

/// Rules that look at files of secrets or certificates, which their own tests in `access_tests` make.
const OF_OTHER_FILES: [&str; 3] = ["L21", "L23", "L26"];

fn lint(case: (&[&str], &[&str])) -> Findings {
    lint_all(case.0, case.1)
}

#[test]
fn each_fixture_fires_its_rule_or_does_not() {
    for Fixture { rule, fires, clean } in FIXTURES {
        let fired = |findings: &Findings| findings.found.iter().any(|finding| finding.rule == *rule);
        assert!(fired(&lint(*fires)), "{rule} did not fire");
        let findings = lint(*clean);
        assert!(!fired(&findings), "{rule} fired: {:#?}", findings.found);
        let lacking = findings.unevaluated.iter().find(|one| one.rule == *rule);
        assert!(lacking.is_none(), "{rule} was not evaluated: {lacking:?}");
    }
}

#[test]
fn each_rule_of_the_catalog_has_fixtures() {
    let pairs = PAIRS.iter().map(|pair| pair.0).chain(ACCESS_PAIRS.iter().map(|pair| pair.0));
    let tried: BTreeSet<&str> =
        pairs.chain(FIXTURES.iter().map(|fixture| fixture.rule)).chain(OF_OTHER_FILES).collect();
    let known: BTreeSet<&str> = crate::lint::every_rule().map(|rule| rule.id).collect();
    assert_eq!(known.difference(&tried).collect::<Vec<_>>(), Vec::<&&str>::new(), "rules without fixtures");
    assert_eq!(tried.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new(), "fixtures without rules");
}
