//! The certificate that the poolers present to TLS clients, made for one run of the bench.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ops::trial::{Trial, TrialError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// A self-signed certificate for this machine, and its key.
pub(crate) struct Certificate {
    chain: String,
    key: String,
}

impl Certificate {
    pub(crate) fn new() -> Result<Self, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        Ok(Self { chain: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// What a client needs to trust it.
    pub(crate) fn trusted(&self) -> Result<Arc<ClientConfig>, TrialError> {
        let failed = |why: &dyn std::fmt::Display| TrialError::step("cannot trust a certificate".into(), why);
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(self.chain.as_bytes()).map_err(|why| failed(&why))?;
        roots.add(certificate).map_err(|why| failed(&why))?;
        Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
    }

    /// Writes both to where the poolers' configuration looks for them.
    pub(crate) fn write(&self, trial: &Trial) -> Result<(), TrialError> {
        trial.scratch.write(&trial.system_user, CERTIFICATE_FILE, &self.chain)?;
        let path = trial.scratch.write(&trial.system_user, KEY_FILE, &self.key)?;
        let closed = fs::set_permissions(&path, Permissions::from_mode(0o600));
        closed.map_err(|why| TrialError::step(format!("cannot close {}", path.display()), why))
    }
}

/// File names, beside the configuration.
pub(super) const CERTIFICATE_FILE: &str = "bench.crt";
pub(super) const KEY_FILE: &str = "bench.key";
