//! The terms of TLS: versions, ciphers and curves, by OpenSSL's names.
//!
//! Always true: an unknown word is an error that names it; a cipher that OpenSSL has and that Trunkline lacks is
//! skipped, as long as another one is left; the order given is the order of preference.
//! Not here: certificates (`offer`, `demand`).

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion, version};

/// The settings as written.
#[derive(Clone, Copy, Debug, Default)]
pub struct TermsText<'a> {
    /// `*_tls_protocols`.
    pub protocols: &'a str,
    /// `*_tls_ciphers`: up to TLS 1.2.
    pub ciphers: &'a str,
    /// `*_tls13_ciphers`.
    pub suites: Option<&'a str>,
    /// `client_tls_ecdhcurve`.
    pub curves: &'a str,
}

/// The versions, ciphers and curves that a handshake may agree on.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) provider: CryptoProvider,
}

impl Terms {
    /// Reads the settings.
    ///
    /// # Errors
    /// Names the unknown word, or says that nothing is left.
    pub(crate) fn read(text: &TermsText<'_>) -> Result<Self, String> {
        let versions = versions(text.protocols)?;
        let mut provider = ring::default_provider();
        let mut chosen = match text.suites {
            Some(names) => suites(names)?,
            None => Cipher::newest().map(|cipher| cipher.suite).collect(),
        };
        chosen.extend(ciphers(text.ciphers)?);
        chosen.retain(|suite| versions.contains(&suite.version()));
        provider.cipher_suites = chosen;
        provider.kx_groups = curves(text.curves)?;
        // A version without a cipher cannot be used.
        let spoken = |version: &&'static SupportedProtocolVersion| {
            provider.cipher_suites.iter().any(|suite| suite.version() == *version)
        };
        let versions: Vec<_> = versions.into_iter().filter(spoken).collect();
        Ok(Self { versions, provider })
    }

    /// Whether no version is left, such as when only TLS 1.0 is allowed.
    pub(crate) fn are_empty(&self) -> bool {
        self.versions.is_empty()
    }
}

/// What a handshake has agreed on, as `PROTOCOL/CIPHER/ECDH=CURVE`.
pub(crate) fn summary(
    version: Option<ProtocolVersion>,
    suite: Option<SupportedCipherSuite>,
    group: Option<NamedGroup>,
) -> String {
    let version = match version {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLS",
    };
    let known = suite.and_then(|suite| CIPHERS.iter().find(|cipher| cipher.suite.suite() == suite.suite()));
    let mut said = format!("{version}/{}", known.map_or("unknown", |cipher| cipher.name));
    if let Some(group) = group {
        let name = CURVES.iter().find(|curve| curve.group.name() == group).map_or("unknown", |curve| curve.names[0]);
        said.push_str("/ECDH=");
        said.push_str(name);
    }
    said
}

/// Bytes that this cipher adds to a record.
pub(crate) fn overhead(suite: Option<SupportedCipherSuite>) -> usize {
    const HEADER: usize = 5;
    const TAG: usize = 16;
    match suite.map(|suite| (suite.version().version, suite.suite())) {
        Some((ProtocolVersion::TLSv1_3, _)) => HEADER + TAG + 1,
        Some((
            _,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        )) => HEADER + TAG,
        _ => HEADER + 8 + TAG,
    }
}

fn versions(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let (mut newer, mut older) = (false, false);
    for word in words(text) {
        let (is_wanted, name) = match word.strip_prefix('!') {
            Some(name) => (false, name),
            None => (true, word),
        };
        match name.to_ascii_lowercase().as_str() {
            "all" | "secure" | "default" | "tlsv1" => (newer, older) = (is_wanted, is_wanted),
            "tlsv1.3" => newer = is_wanted,
            "tlsv1.2" => older = is_wanted,
            // These versions are obsolete, and the TLS library does not have them.
            "tlsv1.0" | "tlsv1.1" => {}
            _ => return Err(format!("invalid protocol version: {word}")),
        }
    }
    let chosen = [(newer, &version::TLS13), (older, &version::TLS12)];
    Ok(chosen.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, version)| version).collect())
}

fn suites(text: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let failed = |why: String| format!("failed to set the TLSv1.3 cipher suites: {why}");
    let mut chosen = Vec::new();
    for word in words(text) {
        let found = Cipher::newest().find(|cipher| cipher.name.eq_ignore_ascii_case(word));
        match found {
            Some(cipher) if !chosen.contains(&cipher.suite) => chosen.push(cipher.suite),
            Some(_) => {}
            None if SUITES_ELSEWHERE.iter().any(|name| name.eq_ignore_ascii_case(word)) => {}
            None => return Err(failed(format!("unknown suite {word}"))),
        }
    }
    if chosen.is_empty() && words(text).next().is_some() {
        return Err(failed(format!("none of {text} is available")));
    }
    Ok(chosen)
}

/// Reads a list of ciphers in OpenSSL's grammar: names and classes; `!` and `-` remove, `+` moves to the end.
fn ciphers(text: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen: Vec<&Cipher> = Vec::new();
    let mut banned: Vec<&Cipher> = Vec::new();
    for word in words(text) {
        if word.starts_with('@') {
            continue;
        }
        let (sign, class) = match word.as_bytes().first() {
            Some(sign @ (b'!' | b'-' | b'+')) => (*sign, &word[1..]),
            _ => (b' ', word),
        };
        let meant = meant_by(class)?;
        match sign {
            b'!' | b'-' => chosen.retain(|cipher| !meant.contains(cipher)),
            b'+' => chosen.sort_by_key(|cipher| meant.contains(cipher)),
            _ => {
                let new = meant.iter().filter(|cipher| !chosen.contains(cipher) && !banned.contains(cipher));
                let new: Vec<&Cipher> = new.copied().collect();
                chosen.extend(new);
            }
        }
        if sign == b'!' {
            banned.extend(meant);
        }
    }
    if chosen.is_empty() {
        return Err(format!("no ciphers for '{text}'"));
    }
    Ok(chosen.into_iter().map(|cipher| cipher.suite).collect())
}

/// The ciphers that a name or a class such as `ECDHE+AESGCM` selects. A cipher that only OpenSSL has selects none.
fn meant_by(class: &str) -> Result<Vec<&'static Cipher>, String> {
    if let Some(cipher) = Cipher::older().find(|cipher| cipher.name.eq_ignore_ascii_case(class)) {
        return Ok(vec![cipher]);
    }
    // Lists that name ciphers of TLS 1.3 as well are common; this setting is for the older versions.
    if Cipher::newest().any(|cipher| cipher.name.eq_ignore_ascii_case(class)) {
        return Ok(Vec::new());
    }
    let mut meant: Vec<&'static Cipher> = Cipher::older().collect();
    for part in class.split('+') {
        let holds: fn(&str) -> bool = match part.to_ascii_lowercase().as_str() {
            "default"
            | "secure"
            | "normal"
            | "fast"
            | "all"
            | "high"
            | "ecdhe"
            | "eecdh"
            | "kecdhe"
            | "keecdh"
            | "tlsv1.2"
            | "complementofdefault"
            | "aead" => |_| true,
            "ecdsa" | "aecdsa" => |name| name.contains("ECDSA"),
            "rsa" | "arsa" => |name| name.contains("-RSA-"),
            "aes" | "aesgcm" => |name| name.contains("AES"),
            "aes256" | "sha384" => |name| name.contains("AES256"),
            "aes128" => |name| name.contains("AES128"),
            "chacha20" => |name| name.contains("CHACHA20"),
            "sha256" => |name| !name.ends_with("SHA384"),
            _ if is_known_elsewhere(part) => |_| false,
            _ => return Err(format!("unknown cipher {class}")),
        };
        meant.retain(|cipher| holds(cipher.name));
    }
    Ok(meant)
}

/// Whether this is a cipher or a class of OpenSSL, by the pieces of its name.
fn is_known_elsewhere(word: &str) -> bool {
    !word.is_empty()
        && word.split('-').all(|piece| PIECES_ELSEWHERE.iter().any(|known| known.eq_ignore_ascii_case(piece)))
}

fn curves(text: &str) -> Result<Vec<&'static dyn SupportedKxGroup>, String> {
    let mut chosen = Vec::new();
    for word in words(text) {
        if ["auto", "none"].iter().any(|all| all.eq_ignore_ascii_case(word)) {
            return Ok(CURVES.iter().map(|curve| curve.group).collect());
        }
        let known = CURVES.iter().find(|curve| curve.names.iter().any(|name| name.eq_ignore_ascii_case(word)));
        match known {
            Some(curve) => chosen.push(curve.group),
            None => return Err(format!("invalid ecdhe curve '{word}'")),
        }
    }
    if chosen.is_empty() {
        return Ok(CURVES.iter().map(|curve| curve.group).collect());
    }
    Ok(chosen)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([':', ',', ' ', '\t', ';']).filter(|word| !word.is_empty())
}

/// A cipher with its name in OpenSSL.
#[derive(PartialEq)]
struct Cipher {
    name: &'static str,
    suite: SupportedCipherSuite,
}

impl Cipher {
    fn newest() -> impl Iterator<Item = &'static Self> {
        CIPHERS.iter().filter(|cipher| cipher.suite.version() == &version::TLS13)
    }

    fn older() -> impl Iterator<Item = &'static Self> {
        CIPHERS.iter().filter(|cipher| cipher.suite.version() == &version::TLS12)
    }
}

/// A curve with its names in OpenSSL, first the one that OpenSSL prints.
struct Curve {
    names: &'static [&'static str],
    group: &'static dyn SupportedKxGroup,
}

/// In our order of preference.
const CIPHERS: &[Cipher] = &[
    Cipher { name: "TLS_AES_256_GCM_SHA384", suite: ring::cipher_suite::TLS13_AES_256_GCM_SHA384 },
    Cipher { name: "TLS_CHACHA20_POLY1305_SHA256", suite: ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256 },
    Cipher { name: "TLS_AES_128_GCM_SHA256", suite: ring::cipher_suite::TLS13_AES_128_GCM_SHA256 },
    Cipher {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        suite: ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    },
    Cipher { name: "ECDHE-RSA-AES256-GCM-SHA384", suite: ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 },
    Cipher {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        suite: ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    },
    Cipher {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        suite: ring::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    },
    Cipher {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        suite: ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    },
    Cipher { name: "ECDHE-RSA-AES128-GCM-SHA256", suite: ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 },
];

const CURVES: &[Curve] = &[
    Curve { names: &["X25519"], group: ring::kx_group::X25519 },
    Curve { names: &["prime256v1", "P-256", "secp256r1"], group: ring::kx_group::SECP256R1 },
    Curve { names: &["secp384r1", "P-384"], group: ring::kx_group::SECP384R1 },
];

/// Suites of TLS 1.3 that only OpenSSL has.
const SUITES_ELSEWHERE: &[&str] = &["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"];

/// The pieces of OpenSSL's names of ciphers and classes (`ciphers(1)`).
#[rustfmt::skip]
const PIECES_ELSEWHERE: &[&str] = &[
    "3DES", "ADH", "aDH", "AECDH", "aDSS", "AES", "AES128", "AES256", "AESCCM", "AESCCM8", "aGOST", "aNULL", "aPSK", "ARIA",
    "ARIA128", "ARIA256", "ARIAGCM", "CAMELLIA", "CAMELLIA128", "CAMELLIA256", "CBC", "CBC3", "CCM", "CCM8", "CHACHA20",
    "COMPLEMENTOFALL", "DES", "DH", "DHE", "DSS", "ECDH", "ECDHE", "ECDSA", "EDH", "eNULL", "EXP", "EXPORT", "GCM", "GOST89",
    "IDEA", "kDHE", "kDHEPSK", "kECDHEPSK", "kEDH", "kPSK", "kRSA", "kRSAPSK", "LOW", "MD5", "MEDIUM", "NULL", "POLY1305",
    "PSK", "RC2", "RC4", "RSA", "SEED", "SHA", "SHA1", "SHA256", "SHA384", "SRP", "SSLv3", "TLSv1", "TLSv1.0",
];

#[cfg(test)]
#[path = "terms_tests.rs"]
mod tests;
