//! TLS as a connection string asks for it, for connections that drive rustls by bytes.
//!
//! Always true: the modes mean what they mean in libpq (`conninfo::Trust` reads them): `prefer` encrypts where the other side can and goes on where
//! it cannot; `require` and above refuse that; certificates are verified by the same code as for the pooler's own servers.
//! Not here: the handshake (`load/channel`).

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_postgres::config::SslMode;

use crate::hatest::{HostOfTarget, Target};

/// What an encrypted connection needs.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    /// The name that the certificate must have, if names are verified.
    pub(crate) name: ServerName<'static>,
    /// Whether a connection without TLS is refused.
    pub(crate) is_required: bool,
}

/// The TLS for a host of a target; `None` if its connections are not encrypted.
///
/// # Errors
/// The file of authorities cannot be read, or the host is no valid name for a certificate.
pub(crate) fn tls_of(target: &Target, host: &HostOfTarget) -> Result<Option<Tls>, String> {
    let is_required = match host.login.get_ssl_mode() {
        SslMode::Disable => return Ok(None),
        SslMode::Prefer => false,
        _ => true,
    };
    // A mode that verifies nothing reads no file, so that nothing keeps what is only preferred from being encrypted.
    let (config, name) = target.trust.secure(&host.name)?.into_parts();
    Ok(Some(Tls { config, name, is_required }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hatest::Machine;

    /// Whether TLS is required, or `None` for a connection in clear; a refusal may be of the string or of what it names.
    fn secured(conninfo: &str) -> Result<Option<bool>, String> {
        let machine = Machine {
            variable: &|name| (name == "HOME").then(|| "/nowhere".to_owned()),
            passwords: &|_| None,
            user: Some("me".to_owned()),
        };
        let target = Target::read(conninfo, Duration::from_secs(5), &machine)?;
        Ok(tls_of(&target, &target.hosts[0])?.map(|tls| tls.is_required))
    }

    #[test]
    fn nothing_is_sent_in_clear_that_libpq_encrypts() {
        assert_eq!(secured("host=a"), Ok(Some(false)));
        assert_eq!(secured("host=a sslrootcert=/nowhere/ca"), Ok(Some(false)));
        assert_eq!(secured("host=a sslmode=require"), Ok(Some(true)));
        assert_eq!((secured("host=a sslmode=disable"), secured("host=/run sslmode=require")), (Ok(None), Ok(None)));
        for (conninfo, words) in [
            ("host=a sslmode=require sslrootcert=/nowhere/ca", "/nowhere/ca does not exist"),
            ("host=a sslmode=verify-ca", "/nowhere/.postgresql/root.crt does not exist"),
            ("host=a sslmode=prefer sslrootcert=system", "too weak"),
        ] {
            let why = secured(conninfo).expect_err("a refusal");
            assert!(why.contains(words), "{conninfo}: {why}");
        }
    }
}
