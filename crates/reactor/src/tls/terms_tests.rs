//! Ciphers, versions and curves as people write them, and what they select.

use super::*;

fn names(text: &str) -> Result<Vec<&'static str>, String> {
    let chosen = ciphers(text)?;
    let name = |suite| CIPHERS.iter().find(|cipher| cipher.suite == suite).map(|cipher| cipher.name);
    Ok(chosen.into_iter().filter_map(name).collect())
}

const ALL: [&str; 6] = [
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
];

#[test]
fn pgbouncers_words_and_opensslls_classes_mean_all_that_is_here() {
    for word in ["default", "secure", "normal", "fast", "HIGH:MEDIUM:+3DES:!aNULL", "ALL:@SECLEVEL=2", "EECDH+AEAD"] {
        assert_eq!(names(word), Ok(ALL.to_vec()), "{word}");
    }
}

#[test]
fn ciphers_are_preferred_in_the_order_in_which_they_are_named() {
    let wanted = ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"];
    assert_eq!(names("ECDHE-RSA-AES128-GCM-SHA256:ecdhe-rsa-aes256-gcm-sha384"), Ok(wanted.to_vec()));
    assert_eq!(names("HIGH:!ECDSA:!CHACHA20:+AES256"), Ok(wanted.to_vec()));
    assert_eq!(names("ECDHE+AESGCM+aRSA:-AES256"), Ok(wanted[..1].to_vec()));
    assert_eq!(names("!AES:!CHACHA20:ALL"), Err("no ciphers for '!AES:!CHACHA20:ALL'".into()));
}

#[test]
fn a_cipher_that_is_not_built_here_is_passed_over_and_an_unknown_one_is_named() {
    let list = "DHE-RSA-AES256-GCM-SHA384:AES256-SHA:ECDHE-RSA-AES256-GCM-SHA384:DES-CBC3-SHA";
    assert_eq!(names(list), Ok(vec!["ECDHE-RSA-AES256-GCM-SHA384"]));
    assert_eq!(names("AES256-SHA"), Err("no ciphers for 'AES256-SHA'".into()));
    assert_eq!(names("HIGH:ECDHE-RSA-AES257-GCM-SHA384"), Err("unknown cipher ECDHE-RSA-AES257-GCM-SHA384".into()));
    assert_eq!(names("HIGH:!nonsense"), Err("unknown cipher nonsense".into()));
}

#[test]
fn suites_of_the_newest_version_are_named_by_themselves() {
    let only = suites("TLS_CHACHA20_POLY1305_SHA256").expect("known");
    assert_eq!(only, [ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256]);
    assert_eq!(suites("TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256").map(|suites| suites.len()), Ok(1));
    let failed = "failed to set the TLSv1.3 cipher suites: unknown suite unknown";
    assert_eq!(suites("unknown"), Err(failed.into()));
    assert!(suites("TLS_AES_128_CCM_SHA256").is_err());
}

#[test]
fn versions_are_added_and_taken_away() {
    let count = |text| versions(text).map(|versions| versions.len());
    for both in ["secure", "all", "default", "tlsv1", "tlsv1.2,tlsv1.3", "tlsv1.0:tlsv1.1:tlsv1.2:tlsv1.3"] {
        assert_eq!(count(both), Ok(2), "{both}");
    }
    assert_eq!(versions("all:!tlsv1.3"), Ok(vec![&version::TLS12]));
    assert_eq!(versions("TLSv1.3"), Ok(vec![&version::TLS13]));
    assert_eq!(count("tlsv1.0"), Ok(0));
    assert_eq!(count("sslv3"), Err("invalid protocol version: sslv3".into()));
}

#[test]
fn a_version_without_a_cipher_is_not_spoken() {
    let text = TermsText { protocols: "secure", ciphers: "default", suites: Some(""), curves: "auto" };
    let terms = Terms::read(&text).expect("good terms");
    assert_eq!(terms.versions, [&version::TLS12]);
}

#[test]
fn curves_have_several_names() {
    let named = |text| curves(text).map(|groups| groups.iter().map(|group| group.name()).collect::<Vec<_>>());
    let all = vec![NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1];
    assert_eq!(named("auto"), Ok(all.clone()));
    assert_eq!(named("none"), Ok(all));
    assert_eq!(named("secp384r1:P-256"), Ok(vec![NamedGroup::secp384r1, NamedGroup::secp256r1]));
    assert_eq!(named("sect571r1"), Err("invalid ecdhe curve 'sect571r1'".into()));
}

#[test]
fn what_was_agreed_on_is_told_as_openssl_tells_it() {
    let newest = ring::cipher_suite::TLS13_AES_256_GCM_SHA384;
    let said = summary(Some(ProtocolVersion::TLSv1_3), Some(newest), Some(NamedGroup::X25519));
    assert_eq!(said, "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519");
    let older = ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384;
    let said = summary(Some(ProtocolVersion::TLSv1_2), Some(older), Some(NamedGroup::secp256r1));
    assert_eq!(said, "TLSv1.2/ECDHE-RSA-AES256-GCM-SHA384/ECDH=prime256v1");
}
