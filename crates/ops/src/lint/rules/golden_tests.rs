//! The sources' own configurations: what the rules have to say about CERN's and Mattermost's.

use super::trial::{expect, expect_good, ini, said};

/// CERN's first file (before it was tuned).
const CERN: &str = "pool_mode = transaction\nauth_type = scram-sha-256\nlisten_addr = *\nmin_pool_size = 21\ndefault_pool_size = 94\n\
    reserve_pool_size = 18\nreserve_pool_timeout = 2\nmax_db_connections = 900\nmax_user_connections = 900\nmax_client_conn = 2048\n\
    ignore_startup_parameters = extra_float_digits";
const GITLAB: &str = "gitlabhq_production = host=db.cern.example port=6600";

/// Mattermost's first file.
const MATTERMOST: &str = "pool_mode = transaction\nmin_pool_size = 20\ndefault_pool_size = 20\nreserve_pool_size = 5\n\
    max_client_conn = 10000\nmax_db_connections = 20";
const WORKSPACES: &str = "cloud_1 = host=rds.example";

#[test]
fn cerns_file_has_336_connections_and_a_limit_of_900_that_cannot_bind() {
    let findings = ini(CERN, GITLAB, &["--replicas", "3"]);
    expect(&findings, "L04", &["needs --max-connections"]);
    let known = findings.unevaluated.iter().find(|one| one.rule == "L04").and_then(|one| one.known.clone());
    assert_eq!(known.as_deref(), Some("3 processes x (94 + 18) = at least 336 connections"));
    expect(
        &findings,
        "L05",
        &["max_db_connections 900 can never bind with one user", "94 + reserve_pool_size 18 = 112"],
    );
    expect(&findings, "L05", &["max_user_connections 900 can never bind"]);
}

#[test]
fn cerns_tuned_file_has_474_connections() {
    let tuned = CERN
        .replace("min_pool_size = 21", "min_pool_size = 100")
        .replace("default_pool_size = 94", "default_pool_size = 140");
    let findings = ini(&tuned, GITLAB, &["--replicas", "3", "--tenants", "1", "--max-connections", "400"]);
    expect(
        &findings,
        "L04",
        &[
            "E 3 processes x (140 + 18) = 474 connections, and PostgreSQL has 397 (max_connections 400 - 3 reserved - 0 direct)",
        ],
    );
    expect(
        &findings,
        "L05",
        &["900 can never bind: 1 user x (pool_size 140 + reserve_pool_size 18 = 158) = 158 is the most"],
    );
    let enough = ini(&tuned, GITLAB, &["--replicas", "3", "--tenants", "1", "--max-connections", "1000"]);
    expect_good(&enough, "L04");
    expect_good(&enough, "L36");
    let not_twice = ini(&tuned, GITLAB, &["--replicas", "3", "--tenants", "1", "--max-connections", "500"]);
    expect_good(&not_twice, "L04");
    expect(&not_twice, "L36", &["W 2 x 3 x (140 + 18) = 948 connections, and PostgreSQL has 497"]);
}

#[test]
fn mattermosts_first_file_overcommits_ten_to_fifteen_times() {
    let findings = ini(MATTERMOST, WORKSPACES, &["--tenants", "10-15"]);
    expect(
        &findings,
        "L01",
        &[
            "E 10 to 15 users x min_pool_size 20 = 200 to 300 servers that are to stay open, and max_db_connections is 20",
        ],
    );
    expect(&findings, "L02", &["W 10 to 15 users x pool_size 20 / max_db_connections 20 = 10 to 15 times"]);
    expect(&findings, "L03", &["E max_db_connections 20 / 10 to 15 users = 1.33 to 2 servers for each"]);
}

#[test]
fn mattermosts_fixes_are_good() {
    for (min, size, reserve, cap) in [(5, 5, 5, 100), (1, 5, 20, 50)] {
        let fixed = format!(
            "pool_mode = transaction\nmin_pool_size = {min}\ndefault_pool_size = {size}\nreserve_pool_size = {reserve}\n\
             max_client_conn = 10000\nmax_db_connections = {cap}"
        );
        let findings = ini(&fixed, WORKSPACES, &["--tenants", "10-15"]);
        for rule in ["L01", "L02", "L03"] {
            expect_good(&findings, rule);
        }
    }
}

#[test]
fn without_the_number_of_tenants_no_rule_says_that_mattermosts_file_is_good() {
    let findings = ini(MATTERMOST, WORKSPACES, &[]);
    for rule in ["L01", "L02", "L03"] {
        assert_eq!(said(&findings, rule), ["needs --tenants"], "{rule}");
    }
}
