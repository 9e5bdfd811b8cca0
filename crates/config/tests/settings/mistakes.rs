//! What an operator reads about a configuration that is refused.

use crate::told;

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    let text = "[pgbouncer]\npool_mod = session\nlisten_port = many\nauth_type = mdf5\n[databases]\napp = hots=db\n\
                pgbouncer =\n[users]\njoe = pool_siz=1\nnonsense\n[peers]\n0 = host=a\n[database]\nx = y\n[rate_limits]\nr = events=logins rate=0\n[rate_limit]\n";
    assert_eq!(
        told(text),
        [
            "t.ini:2: unknown parameter: pgbouncer/pool_mod; did you mean \"pool_mode\"?",
            "invalid value \"many\" for parameter listen_port in configuration (t.ini:3): expected a whole number from 0 to 65535",
            "invalid value \"mdf5\" for parameter auth_type in configuration (t.ini:4): expected one of any, trust, plain, md5, cert, hba, ldap, pam, scram-sha-256; did you mean \"md5\"?",
            "t.ini:6: unrecognized connection parameter: hots; did you mean \"host\"?",
            "t.ini:7: database name \"pgbouncer\" is reserved",
            "t.ini:9: unrecognized user parameter: pool_siz; did you mean \"pool_size\"?",
            "syntax error in configuration (t.ini:10): expected \"key = value\"",
            "t.ini:12: invalid peer id: 0 (expected a whole number from 1 to 65535)",
            "t.ini:13: unknown section [database] in configuration; did you mean \"databases\"?",
            "t.ini:16: invalid rate: 0 (expected a whole number from 1 to 1000000)",
            "t.ini:17: unknown section [rate_limit] in configuration; did you mean \"rate_limits\"?",
        ]
    );
}

#[test]
fn a_key_before_any_section_is_a_mistake() {
    let told = told("listen_port = 1\n[pgbouncer]\n");
    assert_eq!(told, ["syntax error in configuration (t.ini:1): \"listen_port\" stands before any section"]);
}

#[test]
fn the_name_of_the_reads_of_a_database_is_reserved() {
    let text = "[clusters]\nmain = hosts=a user=u\n[databases]\nshop = cluster=main\n\"shop:replica\" = host=b\n\"other:replica\" = host=b\n[pgbouncer]\n";
    let expected =
        "t.ini:5: database name \"shop:replica\" is reserved for the reads of the database without the suffix";
    assert_eq!(told(text), [expected]);
}

#[test]
fn a_key_of_another_section_is_sent_there() {
    let told = told("[pgbouncer]\ndatestyle = ISO\n");
    assert_eq!(
        told,
        ["t.ini:2: unknown parameter: pgbouncer/datestyle; datestyle= belongs into a line of [databases]"]
    );
}

#[test]
fn words_for_numbers_and_units_behind_them_get_advice() {
    assert!(told("[pgbouncer]\nlog_stats = off\n")[0].ends_with("expected 0 or 1; write 0"));
    assert!(told("[pgbouncer]\nquery_timeout = 30s\n")[0].ends_with("; times are plain seconds without a unit"));
    assert!(told("[pgbouncer]\nunix_socket_mode = 770\n")[0].ends_with("; octal begins with a 0: 0770"));
}

#[test]
fn a_network_that_is_none_is_named_with_its_line() {
    let told = |list: &str| told(&format!("[pgbouncer]\nproxy_protocol_from = {list}\n")).remove(0);
    let head = |list: &str| {
        format!(
            "invalid value \"{list}\" for parameter proxy_protocol_from in configuration (t.ini:2): \
             expected ADDRESS, ADDRESS/BITS or unix, separated by commas; not "
        )
    };
    let list = "10.0.0.0/8, balancer";
    assert_eq!(told(list), format!("{}\"balancer\"", head(list)));
    let advice = "; write 10.0.0.0/8 for the network, or 10.0.0.5 for the one address";
    let beyond = format!("\"10.0.0.5/8\", which has bits beyond its network{advice}");
    assert_eq!(told("10.0.0.5/8"), head("10.0.0.5/8") + &beyond);
}

#[test]
fn a_value_that_goes_on_behind_a_semicolon_is_not_told_since_a_password_may_stand_there() {
    let told = told("[databases]\nd = host=a port=5432;password=topsecret\n[pgbouncer]\n");
    assert_eq!(told, ["t.ini:2: the value of port contains \";password=\"; pairs are separated by spaces"]);
}

#[test]
fn a_mistake_in_the_options_of_a_directory_is_told_without_their_password() {
    // The text after a password may be a part of it.
    for (options, mistake) in [
        ("ldapbasdn=x ldapbindpasswd=topsecret", "invalid LDAP option: \"ldapbasdn\""),
        ("ldapbindpasswd=top secret=x", "an unknown option behind ldapbindpasswd"),
    ] {
        let told = told(&format!("[pgbouncer]\nauth_type = ldap\nauth_ldap_options = {options}\n"));
        let expected = format!(
            "invalid value \"***\" for parameter auth_ldap_options in configuration (t.ini:3): expected LDAP options: \
             {mistake}"
        );
        assert_eq!(told, [expected]);
    }
}

#[test]
fn the_console_cannot_hold_secrets() {
    let phrase = "cannot use the reserved \"pgbouncer\" database as an auth_dbname";
    assert_eq!(told("[pgbouncer]\nauth_dbname = pgbouncer\n"), [format!("t.ini:2: {phrase}")]);
}

#[test]
fn a_password_is_in_no_message() {
    let values = [
        "password=hun ter2",
        "password='hunter2",
        "password='hun'ter2",
        "password=hunter2 port=x",
        "password=hunter2 x",
    ];
    for value in values {
        let told = told(&format!("[pgbouncer]\n[databases]\na = {value}\n"));
        assert!(!told.is_empty() && told.iter().all(|line| !line.contains("ter2")), "{told:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_told_and_never_printed() {
    let files = crate::Files::default().with("t.ini", b"[pgbouncer]\nlogfile = \xff\nuser = a\0b\nx\x1b[2J = 1\n");
    let told = crate::lines(&files.load().expect_err("no text"));
    assert_eq!(told[0], "syntax error in configuration (t.ini:2): bytes that are not UTF-8");
    assert_eq!(told[1], "syntax error in configuration (t.ini:3): a NUL byte");
    assert!(told.iter().all(|line| !line.contains(['\u{1b}', '\0', '\n'])), "{told:?}");
}

#[test]
fn rules_without_a_file_of_rules_are_refused() {
    let told = told("[pgbouncer]\nauth_type = hba\n");
    assert_eq!(told, ["t.ini:2: auth_type = hba needs auth_hba_file: without rules nobody is let in"]);
}
