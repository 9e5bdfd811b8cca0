//! TLS as a connection string asks for it, for connections that drive rustls by bytes.
//!
//! Always true: the modes mean what they mean in libpq (`hatest::Target` reads them): `prefer` encrypts where the other side can and goes on where
//! it cannot; `require` and above refuse that; certificates are verified by the same code as for the pooler's own servers.
//! Not here: the handshake (`load/channel`).

use std::sync::Arc;

use conninfo::Secure;
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
    let secure = Secure::new(target.check, target.root_cert.as_deref(), &host.name);
    match secure.map(Secure::into_parts) {
        Ok((config, name)) => Ok(Some(Tls { config, name, is_required })),
        // As in libpq, what is only preferred is no reason to fail.
        Err(_) if !is_required => Ok(None),
        Err(why) => Err(why),
    }
}
