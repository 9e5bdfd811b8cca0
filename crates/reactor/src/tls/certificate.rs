//! What a certificate says beyond what the TLS library asks of it: the names in it, and its hash for channel binding.
//!
//! Always true: bytes that are no certificate yield nothing, and never a panic; nothing here makes a certificate
//! trusted.
//! Not here: whether a certificate is trusted (`demand`, `offer`).

use std::net::IpAddr;

use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// The names in a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Named {
    /// DNS names of its subjectAltName.
    pub(crate) hosts: Vec<String>,
    /// Addresses of its subjectAltName.
    pub(crate) addresses: Vec<IpAddr>,
    /// The first commonName of its subject.
    pub(crate) common: Option<String>,
}

impl Named {
    /// Reads the names of a certificate.
    pub(crate) fn of(certificate: &[u8]) -> Self {
        read_names(certificate).unwrap_or_default()
    }

    /// All names, as `auth_type = cert` compares them: the alternative names if there are any, else the common name.
    pub(crate) fn all(&self) -> Vec<Box<str>> {
        let hosts = self.hosts.iter().map(|host| host.as_str().into());
        let named: Vec<Box<str>> = hosts.chain(self.addresses.iter().map(|ip| ip.to_string().into())).collect();
        if named.is_empty() { self.common.iter().map(|name| name.as_str().into()).collect() } else { named }
    }

    /// Whether its common name is this host's. As in libpq, the common name counts only without a host or address in
    /// the subjectAltName.
    pub(crate) fn has_common_name(&self, host: &str) -> bool {
        let Some(common) = self.common.as_deref().filter(|_| self.hosts.is_empty() && self.addresses.is_empty()) else {
            return false;
        };
        if common.eq_ignore_ascii_case(host) {
            return true;
        }
        // A wildcard stands for exactly one label, the first.
        let (Some(rest), Some((first, own))) = (common.strip_prefix("*."), host.split_once('.')) else { return false };
        !first.is_empty() && rest.contains('.') && rest.eq_ignore_ascii_case(own)
    }
}

/// The hash of a certificate for channel binding (`tls-server-end-point`, RFC 5929): by the hash function of its
/// signature, with SHA-256 in place of MD5 and SHA-1. `None` if the signature algorithm has no hash function of its own
/// (Ed25519) or one that PostgreSQL versions disagree about (RSA-PSS).
pub(crate) fn end_point(certificate: &[u8]) -> Option<Box<[u8]>> {
    let algorithm = Fields::of(certificate)?.algorithm;
    let (name, _) = Der::take(algorithm)?;
    let hash = SIGNATURES.iter().find(|(oid, _)| *oid == name.body).map(|(_, hash)| hash)?;
    Some(match hash {
        Hash::Sha256 => Sha256::digest(certificate).as_slice().into(),
        Hash::Sha384 => Sha384::digest(certificate).as_slice().into(),
        Hash::Sha512 => Sha512::digest(certificate).as_slice().into(),
    })
}

/// The fields of a certificate, borrowed from its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    /// The certificate is X.509 version 1: it has no extensions.
    pub(crate) is_of_first_version: bool,
    /// The signed part.
    pub(crate) signed: &'a [u8],
    /// The signature algorithm: the value of an AlgorithmIdentifier.
    pub(crate) algorithm: &'a [u8],
    /// The signature.
    pub(crate) signature: &'a [u8],
    /// The value of the issuer's Name.
    pub(crate) issuer: &'a [u8],
    /// The validity period, in seconds of the Unix clock.
    pub(crate) valid: (i64, i64),
    /// The value of the subject's Name.
    subject: &'a [u8],
    /// The whole SubjectPublicKeyInfo.
    pub(crate) key: &'a [u8],
    /// What follows the key.
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(certificate: &'a [u8]) -> Option<Self> {
        let (outer, _) = Der::take(certificate)?;
        let (body, after) = Der::take(outer.body)?;
        let signed = &outer.body[..outer.body.len() - after.len()];
        let (algorithm, after) = Der::take(after)?;
        let (signature, _) = Der::take(after)?;
        let mut rest = body.body;
        let (first, after) = Der::take(rest)?;
        let is_of_first_version = first.tag != VERSION;
        if !is_of_first_version {
            rest = after;
        }
        // The serial number, and the algorithm again.
        rest = Der::take(Der::take(rest)?.1)?.1;
        let (issuer, rest) = Der::take(rest)?;
        let (valid, rest) = Der::take(rest)?;
        let (subject, rest) = Der::take(rest)?;
        let (_, after) = Der::take(rest)?;
        let (from, until) = Der::take(valid.body)?;
        Some(Self {
            is_of_first_version,
            signed,
            algorithm: algorithm.body,
            signature: bits(signature)?,
            issuer: issuer.body,
            valid: (seconds(from)?, seconds(Der::take(until)?.0)?),
            subject: subject.body,
            key: &rest[..rest.len() - after.len()],
            rest: after,
        })
    }
}

/// The two parts of a SubjectPublicKeyInfo's value: the value of its algorithm, and the key.
pub(crate) fn key_parts(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (algorithm, rest) = Der::take(key)?;
    Some((algorithm.body, bits(Der::take(rest)?.0)?))
}

/// The value of a DER element.
pub(crate) fn value(element: &[u8]) -> Option<&[u8]> {
    Some(Der::take(element)?.0.body)
}

/// The content of a BIT STRING of whole bytes.
fn bits(element: Der<'_>) -> Option<&[u8]> {
    element.body.split_first().filter(|(unused, _)| **unused == 0).map(|(_, bits)| bits)
}

/// A UTCTime or GeneralizedTime in seconds of the Unix clock.
fn seconds(time: Der<'_>) -> Option<i64> {
    let text = std::str::from_utf8(time.body).ok()?.strip_suffix('Z')?;
    let (year, rest) = match time.tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let two = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let (month, day, hour, minute, second) = (two(0)?, two(2)?, two(4)?, two(6)?, two(8)?);
    // Days since 1970 by Howard Hinnant's `days_from_civil`: the year begins in March, so that the leap day is its last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

fn read_names(certificate: &[u8]) -> Option<Named> {
    let fields = Fields::of(certificate)?;
    let mut named = Named { common: common_name(fields.subject), ..Named::default() };
    let mut rest = fields.rest;
    while let Some((field, after)) = Der::take(rest) {
        rest = after;
        if field.tag == EXTENSIONS {
            let (list, _) = Der::take(field.body)?;
            read_extensions(list.body, &mut named);
        }
    }
    Some(named)
}

/// The first common name, as PostgreSQL and OpenSSL read it, also where one relative name has several attributes: with another
/// choice, a certificate with two common names would be another user here than there.
fn common_name(mut subject: &[u8]) -> Option<String> {
    while let Some((mut set, rest)) = Der::take(subject) {
        subject = rest;
        while let Some((pair, others)) = Der::take(set.body) {
            set.body = others;
            let (name, value) = Der::take(pair.body)?;
            if name.body == COMMON_NAME {
                let text = Der::take(value)?.0.body;
                // A name with a zero byte inside would be read differently by others, so it is ignored.
                return std::str::from_utf8(text).ok().filter(|text| !text.contains('\0')).map(str::to_owned);
            }
        }
    }
    None
}

fn read_extensions(mut list: &[u8], named: &mut Named) {
    while let Some((extension, rest)) = Der::take(list) {
        list = rest;
        let Some((name, mut value)) = Der::take(extension.body) else { return };
        if name.body != SUBJECT_ALT_NAME {
            continue;
        }
        // The `critical` flag comes before the octets.
        while let Some((field, after)) = Der::take(value) {
            value = after;
            if field.tag == OCTETS
                && let Some((names, _)) = Der::take(field.body)
            {
                read_alternatives(names.body, named);
            }
        }
    }
}

fn read_alternatives(mut names: &[u8], named: &mut Named) {
    while let Some((name, rest)) = Der::take(names) {
        names = rest;
        match (name.tag, name.body.len()) {
            (ALT_DNS, _) if !name.body.contains(&0) => {
                named.hosts.extend(std::str::from_utf8(name.body).ok().map(str::to_owned));
            }
            (ALT_IP, 4) => named.addresses.extend(<[u8; 4]>::try_from(name.body).ok().map(IpAddr::from)),
            (ALT_IP, 16) => named.addresses.extend(<[u8; 16]>::try_from(name.body).ok().map(IpAddr::from)),
            _ => {}
        }
    }
}

/// A DER element.
#[derive(Clone, Copy)]
struct Der<'a> {
    tag: u8,
    body: &'a [u8],
}

impl<'a> Der<'a> {
    /// The first element of these bytes, and the rest.
    fn take(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (&tag, rest) = bytes.split_first()?;
        let (&short, rest) = rest.split_first()?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(short), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
                (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
            }
            _ => return None,
        };
        let (body, rest) = rest.split_at_checked(length)?;
        Some((Self { tag, body }, rest))
    }
}

enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// Signature algorithms by their object identifiers: RSA (PKCS #1) and ECDSA with each hash.
const SIGNATURES: &[(&[u8], Hash)] = &[
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], Hash::Sha384),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], Hash::Sha512),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3], Hash::Sha384),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4], Hash::Sha512),
];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const ALT_DNS: u8 = 0x82;
const ALT_IP: u8 = 0x87;

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
