//! Each rule about what stands around a pooler, and Odyssey's file: where it fires, and where it does not.

use super::trial::{expect, expect_good, lint_all, said};

fn deployment(pod: &str, spec: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: pgbouncer\nspec:\n{spec}  template:\n    spec:\n{pod}      containers:\n        - name: p\n          image: registry/pgbouncer:1.22.1\n"
    )
}

const SPREAD: &str = "      topologySpreadConstraints:\n        - maxSkew: 1\n";
const BUDGET: &str = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: p}\n";
const PRE_STOP: &str = "          lifecycle:\n            preStop:\n              exec:\n                command: [sh, -c, \"sleep 20; kill -INT 1\"]\n";
const INI: &str = "[pgbouncer]\n[databases]\nd = host=10.0.0.1\n";

#[test]
fn a_grace_shorter_than_the_drain_kills_clients() {
    let short = deployment("      terminationGracePeriodSeconds: 120\n", "");
    let findings = lint_all(&[&short], &["--drain", "120"]);
    expect(&findings, "L28", &["E terminationGracePeriodSeconds = 120 < a drain of 120 s + 15 s = 135 s"]);
    expect(&findings, "L28", &["E PgBouncer 1.22 ends at once on SIGTERM"]);
    let line = |part: &str| {
        findings.found.iter().find(|finding| finding.evidence.contains(part)).map(|finding| finding.subject.line)
    };
    assert_eq!(line("a drain of"), Some(8));
    let default = lint_all(&[&(deployment("", "") + &PRE_STOP.replace("20", "120"))], &["--drain", "5"]);
    expect(
        &default,
        "L28",
        &["= 30, and preStop sleeps 120 s", "30 < a drain of 5 s + 120 s of preStop + 15 s = 140 s"],
    );
    let good = deployment("      terminationGracePeriodSeconds: 600\n", "") + PRE_STOP;
    expect_good(&lint_all(&[&good], &["--drain", "500"]), "L28");
    expect(&lint_all(&[&good], &[]), "L28", &["needs --drain"]);
    let newer = deployment("      terminationGracePeriodSeconds: 600\n", "").replace("1.22.1", "1.24.0");
    expect(&lint_all(&[&newer], &["--drain", "500"]), "L28", &["W no preStop"]);
}

#[test]
fn our_own_drain_is_known() {
    let ours = "[trunkline]\nshutdown_timeout = 60\n[databases]\nd = host=10.0.0.1\n";
    let findings = lint_all(&[&deployment("", ""), ours], &[]);
    expect(&findings, "L28", &["30 < shutdown_timeout 60 s + 15 s = 75 s"]);
}

#[test]
fn replicas_are_kept_apart_and_counted_for_the_pools() {
    let findings = lint_all(&[&deployment("", "  replicas: 3\n"), INI], &["--max-connections", "50", "--tenants", "1"]);
    expect(&findings, "L29", &["3 replicas without a PodDisruptionBudget, and without podAntiAffinity"]);
    expect(&findings, "L04", &["3 processes x (20 + 0) = 60"]);
    let good = deployment(SPREAD, "  replicas: 3\n") + BUDGET;
    expect_good(&lint_all(&[&good], &[]), "L29");
    expect_good(&lint_all(&[&deployment("", "  replicas: 1\n")], &[]), "L29");
}

#[test]
fn values_say_less_than_manifests() {
    let findings = lint_all(&["pgbouncer:\n  replicas: 3\nimage:\n  tag: x\n"], &[]);
    expect(&findings, "L29", &["needs the manifests: render the chart"]);
    expect(&findings, "L28", &["needs terminationGracePeriodSeconds", "needs lifecycle.preStop"]);
    let good = "replicaCount: 3\nterminationGracePeriodSeconds: 600\npodDisruptionBudget: {maxUnavailable: 1}\naffinity: {podAntiAffinity: {x: [y]}}\nlifecycle: {preStop: {sleep: {seconds: 5}}}\n";
    let findings = lint_all(&[good], &["--drain", "60"]);
    expect_good(&findings, "L28");
    expect_good(&findings, "L29");
}

#[test]
fn a_configuration_inside_a_manifest_has_the_manifests_lines() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  pgbouncer.ini: |\n    [databases]\n    d = host=10.0.0.1\n    [pgbouncer]\n    max_db_connections = 900\n    pool_mod = x\n";
    let findings = lint_all(&[map], &[]);
    let place =
        |rule: &str| findings.found.iter().find(|finding| finding.rule == rule).map(|finding| finding.subject.line);
    assert_eq!((place("L05"), place("F01")), (Some(9), Some(10)), "{findings:#?}");
}

#[test]
fn settings_that_are_values_are_judged_for_any_database() {
    let pooler = "apiVersion: postgresql.cnpg.io/v1\nkind: Pooler\nmetadata: {name: p}\nspec:\n  instances: 3\n  pgbouncer:\n    poolMode: transaction\n    parameters:\n\
        \x20     max_client_conn: \"1000\"\n      default_pool_size: \"94\"\n      reserve_pool_size: \"18\"\n      max_db_connections: \"900\"\n";
    let findings = lint_all(&[pooler], &["--replicas", "3", "--max-connections", "300"]);
    expect(&findings, "L04", &["3 processes x (94 + 18) = at least 336 connections"]);
    let limit = findings.found.iter().find(|finding| finding.rule == "L05").expect("a limit");
    assert_eq!(limit.subject.line, 12, "{limit:#?}");
    assert!(findings.found.iter().all(|finding| finding.rule != "F01"), "{findings:#?}");
}

#[test]
fn patronis_times_fit_and_an_old_primary_is_stopped() {
    let member = "scope: demo\nname: a\n";
    let findings = lint_all(&[&format!("{member}bootstrap:\n  dcs:\n    ttl: 15\n    loop_wait: 10\n")], &[]);
    expect(&findings, "L31", &["loop_wait 10 + 2 x retry_timeout 10 = 30 > ttl 15", "ttl 15 < 20", "no watchdog"]);
    let good = format!("{member}bootstrap:\n  dcs:\n    ttl: 30\nwatchdog:\n  mode: required\n");
    expect_good(&lint_all(&[&good], &[]), "L31");
    expect(&lint_all(&[member], &[]), "L31", &["needs the dynamic configuration"]);
    expect(&lint_all(&["ttl: 30\nloop_wait: 10\n"], &[]), "L31", &["needs a member's file"]);
    let fenced = "[trunkline]\n[clusters]\nc = user=u hosts=10.0.0.1,10.0.0.2 patroni=http://10.0.0.1:8008\n[databases]\nd = cluster=c\n";
    let findings = lint_all(&[&format!("{member}bootstrap:\n  dcs:\n    ttl: 30\n"), fenced], &[]);
    assert!(findings.found.iter().all(|finding| finding.rule != "F01"), "{findings:#?}");
    expect_good(&findings, "L31");
}

#[test]
fn a_proxy_has_room_and_patience() {
    let haproxy =
        "global\n  maxconn 100\ndefaults\n  timeout client 30m\n  timeout server 30m\nlisten pg\n  bind *:5000\n";
    let ini = INI.replace("[pgbouncer]", "[pgbouncer]\ndefault_pool_size = 120");
    let findings = lint_all(&[haproxy, &ini], &["--longest-transaction", "3600"]);
    expect(
        &findings,
        "L33",
        &["timeout client 1,800 s < the longest transaction of 3,600 s", "maxconn 100 < 120 servers"],
    );
    expect_good(&lint_all(&[haproxy, INI], &["--longest-transaction", "60"]), "L33");
    expect(&lint_all(&[haproxy, INI], &[]), "L33", &["needs --longest-transaction"]);
}

#[test]
fn replicas_have_a_limit_of_lag() {
    let haproxy = |check: &str| format!("defaults\n  timeout client 1h\nlisten ro\n  option httpchk {check}\n");
    expect(&lint_all(&[&haproxy("/replica")], &[]), "L30", &["W the check /replica has no lag="]);
    expect(
        &lint_all(&[&haproxy("/replica?lag=1MB"), "ttl: 30\nloop_wait: 10\n"], &[]),
        "L30",
        &["I the check", "loop_wait = 10 s old"],
    );
    expect_good(&lint_all(&[&haproxy("/primary")], &[]), "L30");
    let ours = |limit: &str| {
        format!(
            "[trunkline]\n[clusters]\nc = user=u hosts=10.0.0.1,10.0.0.2\n[databases]\nd = cluster=c role=replica {limit}\n"
        )
    };
    expect(&lint_all(&[&ours("")], &[]), "L30", &["without a limit of lag"]);
    expect_good(&lint_all(&[&ours("max_lag=16MB")], &[]), "L30");
}

#[test]
fn odysseys_file_is_judged_by_the_same_rules() {
    let odyssey = |auth: &str, pool: &str| {
        format!(
            "listen {{\n  host \"*\"\n}}\nstorage \"pg\" {{\n  type \"remote\"\n  host \"10.0.0.1\"\n}}\n\
             database default {{\n  user default {{\n    authentication \"{auth}\"\n    storage \"pg\"\n    pool \"transaction\"\n{pool}  }}\n}}\n"
        )
    };
    let findings = lint_all(&[&odyssey("none", "")], &[]);
    for (rule, part) in [
        ("L04", "no limit of servers"),
        ("L07", "neither a database nor a user"),
        ("L11", "without limit"),
        ("L18", "authentication none, listen_addr = *"),
        ("L19", "client_tls_sslmode = disable"),
    ] {
        expect(&findings, rule, &[part]);
    }
    expect_good(&findings, "L14");
    let good = odyssey("scram-sha-256", "    pool_size 10\n    pool_timeout 4000\n    client_max 100\n");
    let findings = lint_all(&[&good], &["--client-timeout", "10", "--replicas", "1", "--tenants", "1"]);
    for rule in ["L07", "L11", "L18"] {
        expect_good(&findings, rule);
    }
    assert_eq!(said(&findings, "L04"), ["needs --max-connections"]);
}

#[test]
fn what_is_around_is_not_evaluated_without_its_file() {
    let findings = lint_all(&[INI], &[]);
    for (rule, needs) in
        [("L28", "needs Kubernetes"), ("L29", "needs Kubernetes"), ("L31", "needs Patroni"), ("L33", "needs HAProxy")]
    {
        expect(&findings, rule, &[needs]);
    }
}
