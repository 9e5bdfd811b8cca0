//! The connection to a console, encrypted according to PGSSLMODE.
//!
//! Always true: certificates are verified by the same code as for the pooler's own servers.
//! Not here: whether TLS is used at all (`target`, `console`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use reactor::tls::{Demand, DemandParts, TermsText};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::console::Counted;
use crate::target::ConsoleLogin;

/// What an encrypted connection needs.
pub(crate) struct Secure {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Secure {
    /// Prepares TLS for one host.
    ///
    /// # Errors
    /// The file of authorities cannot be read, or the host is no valid name for a certificate.
    pub(crate) fn new(login: &ConsoleLogin, host: &str) -> Result<Self, String> {
        let read = |path: &String| std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"));
        let authorities = login.root_cert.as_ref().map(read).transpose()?;
        let terms = TermsText { protocols: "secure", ciphers: "default", suites: None, curves: "auto" };
        let parts = DemandParts { check: login.check, authorities: authorities.as_deref(), own: None, terms };
        let demand = Demand::new(&parts)?.ok_or("no version of TLS is left")?;
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} cannot be the name of a certificate"))?;
        Ok(Self { config: demand.without_alpn(), name })
    }

    /// A connector. Without TLS it fails, but is not called then.
    pub(crate) fn optional(secure: Option<Self>) -> impl TlsConnect<Counted, Stream = Secured> {
        Connector(secure)
    }
}

struct Connector(Option<Secure>);

impl TlsConnect<Counted> for Connector {
    type Stream = Secured;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured>> + Send>>;

    fn connect(self, stream: Counted) -> Self::Future {
        Box::pin(async move {
            let Secure { config, name } = self.0.ok_or_else(|| io::Error::other("nothing to secure with"))?;
            Ok(Secured(Box::new(TlsConnector::from(config).connect(name, stream).await?)))
        })
    }
}

/// An encrypted stream.
pub(crate) struct Secured(Box<tokio_rustls::client::TlsStream<Counted>>);

impl TlsStream for Secured {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Secured {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
