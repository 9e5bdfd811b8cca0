//! Both ends of a wire in memory: what one sends the other receives, and what is refused.

use std::sync::Arc;

use base::Origin;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SigningKey as _};

use super::*;
use crate::tls::offer::certificates;
use crate::tls::{Check, Demand, DemandParts, Offer, OfferParts, TermsText};

const TERMS: TermsText<'_> = TermsText { protocols: "secure", ciphers: "default", suites: None, curves: "auto" };

/// A certificate authority.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        Self::named("an authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("an authority") }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a certificate for these names, or for a common name alone, and returns it with its key.
    fn signs(&self, hosts: &[&str], common: &str) -> (String, String) {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("good names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        (signed.pem(), key.serialize_pem())
    }
}

impl Authority {
    /// Signs a certificate in X.509 version 1, which has no version and no extensions, for a common name alone, and
    /// returns it with its key.
    fn signs_as_x509_v1(&self, common: &str) -> (String, String) {
        let (pem, key) = self.signs(&[], common);
        let der = certificates(pem.as_bytes()).expect("one")[0].to_vec();
        let (outer, _) = take_element(&der);
        let (signed, after) = take_element(outer);
        let (algorithm, _) = element(after);
        let mut rest = element(signed).1;
        let mut kept = Vec::new();
        // Serial number, algorithm, issuer, validity, subject, key.
        for _ in 0..6 {
            let (field, after) = element(rest);
            kept.extend_from_slice(field);
            rest = after;
        }
        let signed = wrap(0x30, &kept);
        let signature = [&[0][..], &self.issuer.key().sign(&signed).expect("a signature")].concat();
        let whole = wrap(0x30, &[&signed[..], algorithm, &wrap(0x03, &signature)].concat());
        (to_pem(&whole), key)
    }
}

/// The first element with its header, and the rest.
fn element(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (body, rest) = take_element(bytes);
    let whole = bytes.len() - rest.len();
    assert!(whole >= body.len());
    bytes.split_at(whole)
}

/// The value of the first element, and the rest.
fn take_element(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, head) = match bytes[1] {
        0x81 => (usize::from(bytes[2]), 3),
        0x82 => (usize::from(bytes[2]) << 8 | usize::from(bytes[3]), 4),
        short => (usize::from(short), 2),
    };
    (&bytes[head..head + length], &bytes[head + length..])
}

fn wrap(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag, 0x82, (body.len() >> 8) as u8, body.len() as u8][..], body].concat()
}

fn to_pem(der: &[u8]) -> String {
    let hex = |six: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[usize::from(six)] as char;
    let mut text = String::new();
    for three in der.chunks(3) {
        let mut word = [0; 3];
        word[..three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        let four: String = (0..4).map(|at| hex((bits >> (18 - 6 * at)) as u8 & 63)).collect();
        text.push_str(&four[..three.len() + 1]);
        text.push_str(&"="[..usize::from(three.len() == 2)]);
        text.push_str(&"=="[..2 * usize::from(three.len() == 1)]);
        if text.len().is_multiple_of(64) {
            text.push('\n');
        }
    }
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", text.trim_end())
}

fn offer(own: &(String, String), authorities: Option<&str>, demands: bool, terms: TermsText<'_>) -> Side {
    let parts = OfferParts {
        certificate: own.0.as_bytes(),
        key: own.1.as_bytes(),
        authorities: authorities.map(str::as_bytes),
        demands_certificate: demands,
        terms,
    };
    Side::Called { offer: Arc::new(Offer::new(&parts).expect("an offer")), from: Origin::LocalClients(None) }
}

fn demand(check: Check, authorities: Option<&str>, own: Option<&(String, String)>, host: &str) -> Side {
    let parts = DemandParts {
        check,
        authorities: authorities.map(str::as_bytes),
        own: own.map(|own| (own.0.as_bytes(), own.1.as_bytes())),
        terms: TERMS,
    };
    let demand = Demand::new(&parts).expect("a demand").expect("a protocol");
    Side::Calling { demand: Arc::new(demand), host: host.into() }
}

/// Both ends of a wire.
struct Wire {
    called: Session,
    calling: Session,
}

impl Wire {
    /// Does the handshake until both sides are open or one breaks, and returns that side's error and whether it sent an
    /// alert.
    fn shake(called: &Side, calling: &Side) -> Result<Self, (String, bool)> {
        let mut wire = Self {
            called: Session::new(called).expect("a session"),
            calling: Session::new(calling).expect("a session"),
        };
        let (mut to_called, mut to_calling) = (Vec::new(), Vec::new());
        let (mut is_called_open, mut is_calling_open) = (false, false);
        for _ in 0..10 {
            let taken = wire.calling.take(&mut to_calling);
            to_calling.drain(..taken.used);
            to_called.extend(&taken.out);
            match taken.state {
                State::Open => is_calling_open = true,
                State::Broken(why) => return Err((why, !taken.out.is_empty())),
                _ => {}
            }
            let taken = wire.called.take(&mut to_called);
            to_called.drain(..taken.used);
            to_calling.extend(&taken.out);
            match taken.state {
                State::Open => is_called_open = true,
                State::Broken(why) => return Err((why, !taken.out.is_empty())),
                _ => {}
            }
            if is_called_open && is_calling_open && to_called.is_empty() && to_calling.is_empty() {
                return Ok(wire);
            }
        }
        panic!("they shake hands for ever");
    }
}

#[test]
fn what_one_side_says_the_other_hears_however_it_is_cut() {
    let authority = Authority::new();
    let own = authority.signs(&["db.example"], "db");
    let mut wire =
        Wire::shake(&offer(&own, None, false, TERMS), &demand(Check::Nothing, None, None, "x")).expect("a wire");
    let words: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    let wired = wire.called.encrypt(&mut [], &words).out;
    let mut pending = Vec::new();
    let mut heard = Vec::new();
    for piece in wired.chunks(1371) {
        pending.extend_from_slice(piece);
        let taken = wire.calling.take(&mut pending);
        pending.drain(..taken.used);
        heard.extend(taken.plain);
        assert_eq!(taken.state, State::Open);
    }
    assert!(pending.is_empty() && heard == words);
}

#[test]
fn a_record_needs_exactly_the_room_that_was_foreseen() {
    let authority = Authority::new();
    let own = authority.signs(&["db.example"], "db");
    for (protocols, suites) in [("tlsv1.3", None), ("tlsv1.2", None), ("tlsv1.3", Some("TLS_CHACHA20_POLY1305_SHA256"))]
    {
        let terms = TermsText { protocols, suites, ..TERMS };
        let called = offer(&own, None, false, terms);
        let mut wire = Wire::shake(&called, &demand(Check::Nothing, None, None, "x")).expect("a wire");
        let wired = wire.called.encrypt(&mut [], b"hello").out;
        assert_eq!(wired.len(), 5 + wire.called.overhead, "{protocols} {suites:?}");
        assert_eq!(wired.capacity(), wired.len());
    }
}

#[test]
fn a_farewell_is_heard_as_the_end() {
    let authority = Authority::new();
    let own = authority.signs(&["db.example"], "db");
    let mut wire =
        Wire::shake(&offer(&own, None, false, TERMS), &demand(Check::Nothing, None, None, "x")).expect("a wire");
    let mut wired = wire.calling.encrypt(&mut [], b"bye").out;
    wired.extend(wire.calling.close_notify(&mut []));
    let taken = wire.called.take(&mut wired);
    assert_eq!((taken.plain.as_slice(), taken.state), (&b"bye"[..], State::Over));
    // The called side may still answer.
    assert!(!wire.called.encrypt(&mut [], b"bye").out.is_empty());
}

#[test]
fn bytes_that_were_bent_on_the_way_are_not_heard() {
    let authority = Authority::new();
    let own = authority.signs(&["db.example"], "db");
    let mut wire =
        Wire::shake(&offer(&own, None, false, TERMS), &demand(Check::Nothing, None, None, "x")).expect("a wire");
    let mut wired = wire.called.encrypt(&mut [], b"hello").out;
    let last = wired.len() - 1;
    wired[last] ^= 1;
    let taken = wire.calling.take(&mut wired);
    assert!(matches!(taken.state, State::Broken(_)) && taken.plain.is_empty() && !taken.out.is_empty());
}

#[test]
fn a_certificate_is_checked_as_far_as_it_is_asked_for() {
    let (ours, other) = (Authority::new(), Authority::named("another authority"));
    let (ca, stranger) = (ours.pem(), other.pem());
    let called = offer(&ours.signs(&["db.example"], "db"), None, false, TERMS);
    let try_with = |check, authority: &str, host: &str| {
        Wire::shake(&called, &demand(check, Some(authority), None, host)).map(|_| ()).map_err(|(why, _)| why)
    };
    let unknown = Err("certificate verify failed: unable to get local issuer certificate".to_owned());
    let misnamed = Err("certificate verify failed: it does not name the host".to_owned());
    assert_eq!(try_with(Check::Nothing, &stranger, "other.example"), Ok(()));
    assert_eq!(try_with(Check::Chain, &stranger, "db.example"), unknown);
    assert_eq!(try_with(Check::Chain, &ca, "other.example"), Ok(()));
    assert_eq!(try_with(Check::Chain, &ca, "10.0.0.1"), Ok(()));
    assert_eq!(try_with(Check::ChainAndName, &ca, "other.example"), misnamed);
    assert_eq!(try_with(Check::ChainAndName, &ca, "10.0.0.1"), misnamed);
    assert_eq!(try_with(Check::ChainAndName, &ca, "not a name"), misnamed);
    assert_eq!(try_with(Check::ChainAndName, &ca, "DB.example"), Ok(()));
    assert_eq!(try_with(Check::ChainAndName, &stranger, "db.example"), unknown);
}

#[test]
fn a_common_name_is_a_name_where_there_is_no_other() {
    let authority = Authority::new();
    let called = offer(&authority.signs(&[], "localhost"), None, false, TERMS);
    let try_with =
        |host| Wire::shake(&called, &demand(Check::ChainAndName, Some(&authority.pem()), None, host)).is_ok();
    assert!(try_with("localhost"));
    assert!(!try_with("otherhost"));
}

/// Small installations configure the server's own certificate as the authority; libpq accepts that.
#[test]
fn a_certificate_that_is_its_own_authority_is_good_if_it_is_the_one_named() {
    let make = || {
        let mut params = CertificateParams::new(vec!["db.example".to_owned()]).expect("good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    };
    let (own, other) = (make(), make());
    let called = offer(&own, None, false, TERMS);
    let try_with = |check, ca: &str, host| Wire::shake(&called, &demand(check, Some(ca), None, host)).is_ok();
    assert!(try_with(Check::Chain, &own.0, "other.example"));
    assert!(try_with(Check::ChainAndName, &own.0, "db.example"));
    assert!(!try_with(Check::ChainAndName, &own.0, "other.example"));
    assert!(!try_with(Check::Chain, &other.0, "db.example"));
}

/// `openssl x509 -req` without extensions makes such certificates, and PostgreSQL's documentation recommends it.
#[test]
fn certificates_of_the_first_version_are_checked_as_others_are() {
    let (ours, other) = (Authority::new(), Authority::named("another authority"));
    // An authority with the same name is not the same authority.
    let impostor = Authority::new();
    let ca = ours.pem();
    for protocols in ["tlsv1.2", "tlsv1.3"] {
        let own = ours.signs_as_x509_v1("localhost");
        let called = offer(&own, Some(&ca), false, TermsText { protocols, ..TERMS });
        let shake = |check, ca: &str, own: Option<&(String, String)>, host| {
            let wire = Wire::shake(&called, &demand(check, Some(ca), own, host));
            wire.map(|wire| wire.called.security().names.len()).map_err(|(why, _)| why)
        };
        let failed = |why: &str| Err(format!("certificate verify failed: {why}"));
        let unknown = failed("unable to get local issuer certificate");
        assert_eq!(shake(Check::Nothing, &ca, None, "x"), Ok(0), "{protocols}");
        assert_eq!(shake(Check::Chain, &ca, None, "x"), Ok(0));
        assert_eq!(shake(Check::Chain, &other.pem(), None, "x"), unknown);
        assert_eq!(shake(Check::Chain, &impostor.pem(), None, "x"), unknown);
        assert_eq!(shake(Check::ChainAndName, &ca, None, "localhost"), Ok(0));
        assert_eq!(shake(Check::ChainAndName, &ca, None, "otherhost"), failed("it does not name the host"));
        assert_eq!(shake(Check::Nothing, &ca, Some(&ours.signs_as_x509_v1("ann")), "x"), Ok(1));
        assert_eq!(shake(Check::Nothing, &ca, Some(&impostor.signs_as_x509_v1("ann")), "x"), unknown);
        // Its key is checked like that of any other certificate.
        let stolen = (own.0.clone(), ours.signs(&[], "x").1);
        let parts = (stolen.0.as_bytes(), stolen.1.as_bytes());
        let parts = DemandParts { check: Check::Nothing, authorities: None, own: Some(parts), terms: TERMS };
        assert!(Demand::new(&parts).expect_err("refused").contains("does not belong"));
    }
}

#[test]
fn a_client_certificate_is_verified_whenever_one_is_shown() {
    let (ours, other) = (Authority::new(), Authority::named("another authority"));
    let ca = ours.pem();
    let (server, ann, mallory) = (ours.signs(&["db"], "db"), ours.signs(&[], "ann"), other.signs(&[], "ann"));
    let shake = |demands, own: Option<&(String, String)>| {
        let called = offer(&server, Some(&ca), demands, TERMS);
        Wire::shake(&called, &demand(Check::Nothing, None, own, "db")).map(|wire| wire.called.security().names)
    };
    assert_eq!(shake(true, Some(&ann)), Ok(vec!["ann".into()]));
    assert_eq!(shake(false, None), Ok(vec![]));
    let refused = |answer: Result<Vec<Box<str>>, (String, bool)>| answer.expect_err("refused");
    assert_eq!(refused(shake(true, None)), ("peer did not return a certificate".to_owned(), true));
    let unknown = "certificate verify failed: unable to get local issuer certificate".to_owned();
    assert_eq!(refused(shake(false, Some(&mallory))), (unknown, true));
}

#[test]
fn both_sides_know_the_same_channel() {
    let authority = Authority::new();
    let own = authority.signs(&["db.example"], "db");
    let wire = Wire::shake(&offer(&own, None, false, TERMS), &demand(Check::Nothing, None, None, "x")).expect("a wire");
    let (called, calling) = (wire.called.security(), wire.calling.security());
    assert!(called.end_point.is_some());
    assert_eq!(called.end_point, calling.end_point);
    assert_eq!(&*called.summary, "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519");
    assert_eq!(calling.names, ["db.example".into()]);
}

#[test]
fn a_key_of_another_certificate_and_one_that_is_locked_are_refused_without_a_word_of_them() {
    let authority = Authority::new();
    let (one, other) = (authority.signs(&["a"], "a"), authority.signs(&["b"], "b"));
    let make = |certificate: &str, key: &str| {
        let parts = OfferParts {
            certificate: certificate.as_bytes(),
            key: key.as_bytes(),
            authorities: None,
            demands_certificate: false,
            terms: TERMS,
        };
        Offer::new(&parts).map(|_| ()).expect_err("refused")
    };
    assert_eq!(make(&one.0, &other.1), "the private key does not belong to the certificate");
    assert_eq!(make(&one.0, "nothing"), "no private key found");
    assert_eq!(make("nothing", &one.1), "no certificate found");
    let locked = one.1.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert!(make(&one.0, &locked).starts_with("the private key is encrypted"));
}
