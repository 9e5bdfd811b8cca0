//! The certificate that the poolers present to TLS clients, made for one run of the bench.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use ops::trial::{Trial, TrialError};

/// A self-signed certificate for this machine, and its key.
pub(super) struct Certificate {
    chain: String,
    key: String,
}

impl Certificate {
    pub(super) fn new() -> Result<Self, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        Ok(Self { chain: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// Writes both to where the poolers' configuration looks for them.
    pub(super) fn write(&self, trial: &Trial) -> Result<(), TrialError> {
        trial.scratch.write(&trial.system_user, CERTIFICATE_FILE, &self.chain)?;
        let path = trial.scratch.write(&trial.system_user, KEY_FILE, &self.key)?;
        let closed = fs::set_permissions(&path, Permissions::from_mode(0o600));
        closed.map_err(|why| TrialError::step(format!("cannot close {}", path.display()), why))
    }
}

/// File names, beside the configuration.
pub(super) const CERTIFICATE_FILE: &str = "bench.crt";
pub(super) const KEY_FILE: &str = "bench.key";
