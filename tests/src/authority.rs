//! A certificate authority and certificates that it signs, made for one test.
//!
//! Always true: private keys are only in the scratch directory and in memory.
//! Not here: who trusts which authority.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};

use crate::place::Place;

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, both as PEM.
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// An identity in files.
pub struct Files {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Authority {
    /// A new authority of this name.
    ///
    /// # Panics
    /// When the system gives no randomness.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named(name);
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("an authority") }
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these hosts, or for a common name alone.
    ///
    /// # Panics
    /// When the names are invalid.
    pub fn signs(&self, common: &str, hosts: &[&str]) -> Identity {
        self.signs_with(common, hosts, |_| ())
    }

    /// The same, with a certificate that has expired.
    ///
    /// # Panics
    /// When the names are invalid.
    pub fn signs_expired(&self, common: &str, hosts: &[&str]) -> Identity {
        self.signs_with(common, hosts, |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1))
    }

    fn signs_with(&self, common: &str, hosts: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("good names");
        params.distinguished_name = named(common);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// Writes its certificate to a new directory.
    pub fn file(&self, place: &Place) -> PathBuf {
        let path = place.directory().join("ca.crt");
        place.write(&path, &self.pem());
        path
    }
}

impl Identity {
    /// Writes it to files that a child process can read.
    pub fn files(&self, place: &Place) -> Files {
        let directory = place.directory();
        let files = Files::in_directory(&directory);
        place.write(&files.certificate, &self.certificate);
        place.write_secret(&files.key, &self.key);
        files
    }

    /// Overwrites these files with it.
    pub fn replace(&self, files: &Files, place: &Place) {
        place.write(&files.certificate, &self.certificate);
        place.write_secret(&files.key, &self.key);
    }

    /// Writes it to files for programs that run as the user of the tests.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn own_files(&self, place: &Place) -> Files {
        let files = Files::in_directory(&place.directory());
        fs::write(&files.certificate, &self.certificate).expect("the scratch directory takes a file");
        fs::write(&files.key, &self.key).expect("the scratch directory takes a file");
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).expect("our own file");
        files
    }
}

impl Files {
    fn in_directory(directory: &Path) -> Self {
        Self { certificate: directory.join("own.crt"), key: directory.join("own.key") }
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}
