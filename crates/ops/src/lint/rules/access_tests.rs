//! Each rule about who may connect: a file on which it fires, and one on which it does not.

use std::os::unix::fs::PermissionsExt as _;

use super::trial::{Scratch, expect, expect_good, ini};

const ONE: &str = "d = host=10.0.0.1";
const SCRAM: &str = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$\
    bbXLVmMtb3sS0fN8fqNUgGqDQOFDAb3bHk5uU0RFZ0I=:bbXLVmMtb3sS0fN8fqNUgGqDQOFDAb3bHk5uU0RFZ0I=";

/// A rule, the settings on which it fires, what it says, and settings on which it does not.
pub(super) const ACCESS_PAIRS: &[(&str, &str, &str, &str)] = &[
    (
        "L18",
        "listen_addr = *\nauth_type = trust",
        "auth_type = trust, listen_addr = *",
        "listen_addr = 127.0.0.1, ::1, localhost\nauth_type = trust",
    ),
    (
        "L18",
        "listen_addr = 10.0.0.1\nauth_type = plain",
        "auth_type = plain",
        "listen_addr = 10.0.0.1\nauth_type = scram-sha-256",
    ),
    (
        "L19",
        "listen_addr = *",
        "client_tls_sslmode = disable (the default)",
        "listen_addr = *\nclient_tls_sslmode = require\nserver_tls_sslmode = require",
    ),
    ("L19", "", "database d is on 10.0.0.1:5432", "server_tls_sslmode = verify-full"),
    ("L20", "", "auth_type = md5 (the default)", "auth_type = scram-sha-256"),
    (
        "L24",
        "auth_user = lookup",
        "reads pg_authid: auth_user lookup",
        "auth_user = lookup\nauth_query = SELECT * FROM pgbouncer.lookup($1)",
    ),
    ("L24", "auth_user = lookup\nauth_query = SELECT * FROM everybody()", "no $1", ""),
    (
        "L25",
        "listen_addr = *\nauth_type = any\nadmin_users = root",
        "admin_users = root",
        "listen_addr = *\nauth_type = scram-sha-256\nadmin_users = root",
    ),
];

#[test]
fn each_rule_fires_where_it_has_to_and_nowhere_else() {
    for (rule, settings, part, good) in ACCESS_PAIRS {
        let findings = ini(settings, ONE, &[]);
        expect(&findings, rule, &[part]);
        assert!(findings.found.iter().any(|finding| finding.rule == *rule), "{rule}");
        expect_good(&ini(good, ONE, &[]), rule);
    }
}

#[test]
fn channel_binding_needs_scram_and_tls_at_trunkline() {
    let words = ["--channel-binding", "require"];
    expect(&ini("auth_type = scram-sha-256\nclient_tls_sslmode = require", ONE, &words), "L22", &["does not offer"]);
    let tls = "auth_type = scram-sha-256\nclient_tls_sslmode = require\nworkers = 1\nclient_tls_key_file = k\nclient_tls_cert_file = c";
    expect_good(&ini(tls, ONE, &words), "L22");
    expect(&ini("auth_type = md5\nworkers = 1", ONE, &words), "L22", &["auth_type = md5"]);
}

#[test]
fn secrets_are_known_by_their_kind_and_the_permissions_of_their_file() {
    let file = Scratch::new("users.txt", &format!("\"a\" \"md5{}\"\n\"b\" \"{SCRAM}\"\n", "0".repeat(32)));
    let permit =
        |mode| std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("permissions");
    permit(0o644);
    let settings = format!("auth_type = scram-sha-256\nauth_file = {}", file.path());
    let findings = ini(&settings, "d = host=10.0.0.1 user=b", &[]);
    expect(&findings, "L20", &["has 1 md5 secrets"]);
    expect(&findings, "L21", &["E user= without password="]);
    expect(&findings, "L26", &["0644"]);
    permit(0o640);
    let findings = ini(&settings, "d = host=10.0.0.1 user=a\ne = host=10.0.0.1 user=b password=secret", &[]);
    expect(&findings, "L21", &["needs the secrets of the server"]);
    expect_good(&findings, "L26");
    let text = format!("{findings:?}");
    assert!(!text.contains("secret\"") && !text.contains("bbXL"), "a secret is in {text}");
    expect(&ini(&settings.replace("scram-sha-256", "trust"), ONE, &[]), "L21", &["no client proves"]);
    expect(&ini("auth_file = /nowhere/users.txt", ONE, &[]), "L26", &["needs auth_file"]);
    expect_good(&ini("", ONE, &[]), "L21");
}

#[test]
fn an_rsa_certificate_costs_a_processor() {
    let ecdsa = rcgen::generate_simple_self_signed(["a".to_owned()]).expect("a certificate").cert.pem();
    let rsa_key = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
    let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, rsa_key);
    let rsa = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    let judge = |pem: &str, words: &[&str]| {
        let file = Scratch::new("cert.pem", pem);
        ini(
            &format!(
                "client_tls_sslmode = require\nclient_tls_cert_file = {0}\nclient_tls_key_file = {0}",
                file.path()
            ),
            ONE,
            words,
        )
    };
    expect(&judge(&rsa, &["--connect-rate", "100"]), "L23", &["17 % of a processor"]);
    expect(&judge(&rsa, &[]), "L23", &["needs --connect-rate"]);
    expect_good(&judge(&ecdsa, &["--connect-rate", "100"]), "L23");
    expect_good(&judge(&rsa, &["--connect-rate", "10"]), "L23");
    expect_good(&ini("", ONE, &[]), "L23");
}

#[test]
fn rules_of_an_hba_file_are_judged_where_they_decide() {
    let judge = |rules: &str, settings: &str| {
        let file = Scratch::new("hba.conf", rules);
        ini(&format!("listen_addr = *\nauth_type = hba\nauth_hba_file = {}\n{settings}", file.path()), ONE, &[])
    };
    let tls = "client_tls_sslmode = allow\nclient_tls_key_file = k\nclient_tls_cert_file = c";
    let open = judge("local all all trust\nhost all all all trust\n", "admin_users = root");
    let at = |rule: &str| {
        let found = open.found.iter().find(|finding| finding.rule == rule);
        found.map(|finding| (finding.subject.file.ends_with("hba.conf"), finding.subject.line))
    };
    expect(&open, "L18", &["method trust for clients of other machines, listen_addr = *"]);
    expect(&open, "L19", &["client_tls_sslmode = disable (the default), and no hostssl"]);
    expect(&open, "L25", &["method trust for the console, admin_users = root"]);
    assert_eq!((at("L18"), at("L19"), at("L25")), (Some((true, 2)), Some((true, 2)), Some((true, 2))));
    expect(&judge("hostssl all all all md5\n", tls), "L20", &["method md5"]);
    expect(
        &judge("host all all all password\n", tls),
        "L18",
        &["method password for clients of other machines, without TLS"],
    );
    let closed =
        judge("host all all 127.0.0.1/32 trust\nhostnossl all all all reject\nhost all all all scram-sha-256\n", tls);
    for rule in ["L18", "L20", "L25"] {
        expect_good(&closed, rule);
    }
    // Nobody comes by a line that wants TLS where the listener has none, nor by the other kind where it has always.
    let administered = |settings: &str| format!("admin_users = root\n{settings}");
    let always = administered(&tls.replace("allow", "require"));
    for rule in ["L18", "L25"] {
        expect_good(&judge("hostssl all all all trust\n", &administered("")), rule);
        expect_good(&judge("hostnossl all all all trust\n", &always), rule);
    }
    for (rules, settings) in
        [("hostssl all all all trust\n", &always), ("hostnossl all all all trust\n", &administered(tls))]
    {
        expect(&judge(rules, settings), "L25", &["method trust for the console"]);
    }
    let server = "server_tls_sslmode = verify-full\n";
    expect_good(&judge("hostssl all all all scram-sha-256\n", &format!("{server}{tls}")), "L19");
    let wrong = judge("# lint: ignore L18 behind a firewall\nhost all all all trust\nhost all all all gss\n", "");
    assert!(wrong.found.iter().any(|finding| finding.rule == "F01" && finding.subject.line == 3), "{:#?}", wrong.found);
    assert!(wrong.muted.iter().any(|muted| muted.finding.rule == "L18"), "{:#?}", wrong.muted);
    let lost = ini("listen_addr = *\nauth_type = hba\nauth_hba_file = /nowhere", ONE, &[]);
    expect(&lost, "L18", &["needs auth_hba_file, which cannot be read here"]);
}

#[test]
fn a_file_of_names_is_read_once_however_many_lines_have_it() {
    let names: String = (0..500).map(|n| format!("{n:0100}\n")).collect();
    let users = Scratch::new("users", &names);
    let named = format!("@{} 10.0.0.1/32", users.path());
    let rules: String = (0..400).map(|n| format!("host d{n} {named} scram-sha-256\n")).collect();
    let file = Scratch::new("hba.conf", &format!("{rules}host last {named} trust\n"));
    let findings = ini(&format!("listen_addr = *\nauth_type = hba\nauth_hba_file = {}\n", file.path()), ONE, &[]);
    assert!(findings.found.iter().all(|finding| finding.rule != "F01"), "{:#?}", findings.found);
    expect(&findings, "L18", &["method trust for clients of other machines"]);
}
