//! Names, hashes and times of certificates that the tests generate, and bytes that are no certificate.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use super::*;

fn certificate(common: Option<&str>, hosts: &[&str], algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
    let names: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("good names");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Org");
    if let Some(common) = common {
        params.distinguished_name.push(DnType::CommonName, common);
    }
    let key = KeyPair::generate_for(algorithm).expect("a key");
    params.self_signed(&key).expect("a certificate").der().to_vec()
}

const USUAL: &rcgen::SignatureAlgorithm = &rcgen::PKCS_ECDSA_P256_SHA256;

#[test]
fn alternative_names_come_before_the_common_name() {
    let named = Named::of(&certificate(Some("ann"), &["db.example", "10.0.0.1"], USUAL));
    assert_eq!(named.hosts, ["db.example"]);
    assert_eq!(named.addresses, [IpAddr::from([10, 0, 0, 1])]);
    assert_eq!(named.common.as_deref(), Some("ann"));
    assert_eq!(named.all(), ["db.example".into(), "10.0.0.1".into()]);
    assert!(!named.has_common_name("ann"));
}

#[test]
fn a_common_name_counts_where_nothing_else_is_named() {
    let named = Named::of(&certificate(Some("Db.example"), &[], USUAL));
    assert_eq!(named.all(), ["Db.example".into()]);
    assert!(named.has_common_name("db.EXAMPLE"));
    assert!(!named.has_common_name("db.example.org"));
}

/// A relative name with these common names. `rcgen` writes one common name only.
fn relative_name(names: &[&str]) -> Vec<u8> {
    let element = |tag: u8, body: &[u8]| [&[tag, u8::try_from(body.len()).expect("short")], body].concat();
    let attribute = |name: &&str| element(0x30, &[element(0x06, COMMON_NAME), element(0x0c, name.as_bytes())].concat());
    element(0x31, &names.iter().map(attribute).collect::<Vec<_>>().concat())
}

#[test]
fn the_first_of_several_common_names_counts_as_in_postgresql() {
    let two = [relative_name(&["ann"]), relative_name(&["admin"])].concat();
    assert_eq!(common_name(&two).as_deref(), Some("ann"));
    assert_eq!(common_name(&relative_name(&["ann", "admin"])).as_deref(), Some("ann"));
    // A first name that nobody can read alike is no reason to take the second.
    let unreadable = [relative_name(&["ann\0"]), relative_name(&["admin"])].concat();
    assert_eq!(common_name(&unreadable), None);
}

#[test]
fn a_star_stands_for_one_label() {
    let named = Named { common: Some("*.db.example".into()), ..Named::default() };
    assert!(named.has_common_name("a.db.example"));
    assert!(!named.has_common_name("db.example"));
    assert!(!named.has_common_name("a.b.db.example"));
    assert!(!Named { common: Some("*.example".into()), ..Named::default() }.has_common_name("db.example"));
}

#[test]
fn the_hash_of_a_channel_is_that_of_the_signature() {
    let usual = certificate(None, &["a"], USUAL);
    assert_eq!(end_point(&usual).as_deref(), Some(Sha256::digest(&usual).as_slice()));
    let longer = certificate(None, &["a"], &rcgen::PKCS_ECDSA_P384_SHA384);
    assert_eq!(end_point(&longer).as_deref(), Some(Sha384::digest(&longer).as_slice()));
    assert_eq!(end_point(&certificate(None, &["a"], &rcgen::PKCS_ED25519)), None);
}

#[test]
fn what_is_no_certificate_names_nobody() {
    let whole = certificate(Some("ann"), &["a.example"], USUAL);
    for length in 0..whole.len() {
        let _ = (Named::of(&whole[..length]), end_point(&whole[..length]));
    }
    for at in 0..whole.len() {
        let mut bent = whole.clone();
        bent[at] ^= 0xff;
        let _ = (Named::of(&bent), end_point(&bent));
    }
    assert_eq!(Named::of(b"nonsense"), Named::default());
}

#[test]
fn addresses_of_both_kinds_are_read() {
    let mut params = CertificateParams::default();
    let v6: IpAddr = "::1".parse().expect("an address");
    params.subject_alt_names.push(SanType::IpAddress(v6));
    let key = KeyPair::generate().expect("a key");
    let der = params.self_signed(&key).expect("a certificate").der().to_vec();
    assert_eq!(Named::of(&der).addresses, [v6]);
}

#[test]
fn times_are_read_to_the_second() {
    let time = |tag, body: &'static [u8]| seconds(Der { tag, body });
    assert_eq!(time(UTC_TIME, b"700101000000Z"), Some(0));
    assert_eq!(time(UTC_TIME, b"240229235959Z"), Some(1_709_251_199));
    assert_eq!(time(UTC_TIME, b"491231000000Z"), Some(2_524_521_600));
    assert_eq!(time(GENERALIZED_TIME, b"20500101000000Z"), Some(2_524_608_000));
    assert_eq!(time(GENERALIZED_TIME, b"2050010100000"), None);
    assert_eq!(time(UTC_TIME, b"24022923595\xffZ"), None);
}
