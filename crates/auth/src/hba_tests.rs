//! HBA rules, and the connections that they match.

use super::*;

fn no_file(_: &str) -> std::io::Result<Vec<u8>> {
    Err(std::io::ErrorKind::NotFound.into())
}

fn hba(text: &str) -> Hba {
    let (hba, problems) = Hba::parse(text.as_bytes(), &IdentMaps::default(), &no_file);
    assert_eq!(problems, []);
    hba
}

fn visit<'v>(from: &str, database: &'v str, user: &'v str) -> Visit<'v> {
    Visit { from: from.parse().ok(), is_tls: false, database, user, is_replication: false }
}

fn problem(line: &str) -> String {
    let (maps, _) = IdentMaps::parse(b"m root ann");
    let (_, problems) = Hba::parse(line.as_bytes(), &maps, &no_file);
    problems.into_iter().next().map_or_else(|| "none".to_owned(), |problem| problem.text)
}

#[test]
fn the_first_rule_that_fits_decides() {
    let hba = hba("host all ann 10.0.0.0/8 reject\nhost all all 10.0.0.0/8 md5\nhost shop all all trust\n");
    let method = |from, database, user| hba.method_for(&visit(from, database, user));
    assert_eq!(method("10.1.2.3", "shop", "ann"), Some(&HbaMethod::Reject));
    assert_eq!(method("10.1.2.3", "shop", "bob"), Some(&HbaMethod::Md5));
    assert_eq!(method("11.1.2.3", "shop", "bob"), Some(&HbaMethod::Trust));
    assert_eq!(method("11.1.2.3", "other", "bob"), None);
}

#[test]
fn a_rule_is_for_a_way_in() {
    let hba = hba("local all all peer\nhostssl all all all scram-sha-256\nhostnossl all all ::1/128 password\n");
    assert_eq!(hba.method_for(&visit("unix", "d", "u")), Some(&HbaMethod::Peer { map: None }));
    assert_eq!(hba.method_for(&visit("::1", "d", "u")), Some(&HbaMethod::Password));
    assert_eq!(hba.method_for(&visit("::2", "d", "u")), None);
    assert_eq!(hba.method_for(&Visit { is_tls: true, ..visit("::2", "d", "u") }), Some(&HbaMethod::Scram));
    assert!(!hba.wants_certificates());
}

#[test]
fn addresses_are_networks_in_both_spellings() {
    let hba = hba(
        "host all all 192.168.4.0 255.255.252.0 trust\nhost all all fe80::/10 md5\nhost all all 0.0.0.0/0 reject\n",
    );
    let method = |from| hba.method_for(&visit(from, "d", "u"));
    for from in ["192.168.4.1", "192.168.7.255", "::ffff:192.168.5.5"] {
        assert_eq!(method(from), Some(&HbaMethod::Trust), "{from}");
    }
    assert_eq!(method("192.168.8.1"), Some(&HbaMethod::Reject));
    assert_eq!(method("febf::1"), Some(&HbaMethod::Md5));
    assert_eq!(method("fec0::1"), None);
}

#[test]
fn names_are_lists_keywords_and_files() {
    let read = |name: &str| {
        assert_eq!(name, "admins");
        Ok(b"ann, bob\n# nobody else\n\"all\"\n".to_vec())
    };
    let text = "host sameuser all all trust\nhost a,\"all\" @admins all md5\nhost \"sameuser\" all all reject\n";
    let (hba, problems) = Hba::parse(text.as_bytes(), &IdentMaps::default(), &read);
    assert_eq!(problems, []);
    let method = |database, user| hba.method_for(&visit("1.1.1.1", database, user));
    assert_eq!(method("eve", "eve"), Some(&HbaMethod::Trust));
    assert_eq!(method("a", "bob"), Some(&HbaMethod::Md5));
    assert_eq!(method("all", "all"), Some(&HbaMethod::Trust));
    assert_eq!(method("a", "all"), Some(&HbaMethod::Md5));
    assert_eq!(method("a", "eve"), None);
    assert_eq!(method("sameuser", "eve"), Some(&HbaMethod::Reject));
}

#[test]
fn physical_replication_has_rules_of_its_own() {
    let hba = hba("host replication all all md5\nhost all all all trust\n");
    let replica = Visit { is_replication: true, ..visit("1.1.1.1", "replication", "u") };
    assert_eq!(hba.method_for(&replica), Some(&HbaMethod::Md5));
    assert_eq!(hba.method_for(&visit("1.1.1.1", "replication", "u")), Some(&HbaMethod::Trust));
}

#[test]
fn options_belong_to_their_methods() {
    let (maps, _) = IdentMaps::parse(b"m root ann");
    let text = "local all all peer map=m\nhostssl all all all cert map=m\nhost all all all ldap ldapserver=\"b c\" ldapprefix=\"#\"\n";
    let (hba, problems) = Hba::parse(text.as_bytes(), &maps, &no_file);
    assert_eq!(problems, []);
    assert_eq!(hba.method_for(&visit("unix", "d", "u")), Some(&HbaMethod::Peer { map: Some("m".into()) }));
    assert!(hba.wants_certificates());
    let options = crate::LdapOptions::parse("ldapserver=\"b c\" ldapprefix=#").expect("good options");
    let options = HbaMethod::Ldap(std::sync::Arc::new(options));
    assert_eq!(hba.method_for(&visit("1.1.1.1", "d", "u")), Some(&options));
}

#[test]
fn what_is_wrong_with_a_line_is_said() {
    for (line, text) in [
        ("hostgssenc all all all trust", "unknown type \"hostgssenc\", expected local, host, hostssl or hostnossl"),
        ("local all", "the line ends where a user is expected"),
        ("local all all", "the line ends where a method is expected"),
        ("local samerole all trust", "samerole is not supported"),
        ("local all +staff trust", "groups such as +staff are not supported"),
        ("local @nowhere all trust", "cannot read @nowhere: entity not found"),
        (
            "host all all 10.0.0.0/33 trust",
            "invalid address \"10.0.0.0/33\", expected all, ADDRESS/BITS or ADDRESS MASK",
        ),
        ("host all all samehost trust", "invalid address \"samehost\", expected all, ADDRESS/BITS or ADDRESS MASK"),
        ("host all all 10.0.0.0 ffff:: trust", "address 10.0.0.0 and mask ffff:: are of different kinds"),
        (
            "host all all all ldap ldapserver=a ldaptsl=1",
            "invalid LDAP option: \"ldaptsl\": this line rejects whom it fits",
        ),
        ("host all all all pam", "unknown method \"pam\""),
        ("host all all all peer", "peer is for local only"),
        ("local all all peer map=o", "there is no ident map \"o\""),
        ("local all all peer so", "unknown option \"so\", expected map=NAME"),
        ("local all all trust why", "\"why\" is too much"),
        ("host all all 10.0.0.1/8 trust", "10.0.0.1 has bits beyond its mask: this line fits nobody"),
    ] {
        assert_eq!(problem(line), text, "{line}");
    }
}

#[test]
fn a_line_with_host_bits_fits_nobody() {
    let (hba, problems) = Hba::parse(b"host all all 10.0.0.1/8 trust\n", &IdentMaps::default(), &no_file);
    assert!(problems[0].outcome == LineOutcome::Kept && problems[0].line == 1);
    assert_eq!(hba.method_for(&visit("10.0.0.1", "d", "u")), None);
}

/// PgBouncer skips what it cannot read. Skipping a line that rejects would admit whom it was to reject.
#[test]
fn a_line_that_may_reject_is_not_skipped() {
    for (line, expected) in [
        ("hostgssenc all all all trust", LineOutcome::Skipped),
        ("host all all 10.0.0.0/8 cert", LineOutcome::Skipped),
        ("host all all samenet scram-sha-256 # office", LineOutcome::Skipped),
        ("local all +staff md5", LineOutcome::Skipped),
        ("host all all 10.0.0.0 255.0.0.0 gss include_realm=0", LineOutcome::Skipped),
        ("host all all samehost reject", LineOutcome::Doubtful),
        ("host all all all rejct", LineOutcome::Doubtful),
        // A user, a database or an address may have the name of a method.
        ("host trust md5 trust rejct", LineOutcome::Doubtful),
        ("local trust md5 rejct", LineOutcome::Doubtful),
        ("local all", LineOutcome::Doubtful),
        ("local all \"all trust", LineOutcome::Doubtful),
        ("host all all 10.0.0.1/8 reject", LineOutcome::Doubtful),
        ("host all all all ldap nonsense", LineOutcome::Kept),
    ] {
        let (_, problems) = Hba::parse(line.as_bytes(), &IdentMaps::default(), &no_file);
        assert_eq!(problems.iter().map(|problem| problem.outcome).collect::<Vec<_>>(), [expected], "{line}");
    }
}

#[test]
fn an_ldap_line_with_invalid_options_rejects_whom_it_fits() {
    let (hba, _) = Hba::parse(b"host all u all ldap nonsense\nhost all all all trust", &IdentMaps::default(), &no_file);
    assert_eq!(hba.method_for(&visit("10.0.0.1", "d", "u")), Some(&HbaMethod::Reject));
    assert_eq!(hba.method_for(&visit("10.0.0.1", "d", "v")), Some(&HbaMethod::Trust));
}
