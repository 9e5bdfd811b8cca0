//! TLS for the driver `tokio-postgres`.
//!
//! Always true: certificates are verified by the same code as for the pooler's own servers.
//! Not here: whether TLS is used at all (the command that connects).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use reactor::tls::{Check, Demand, DemandParts, TermsText};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// A byte stream that can be encrypted.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// What an encrypted connection needs.
pub struct Secure {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Secure {
    /// Prepares TLS for one host. `root_cert` is the path of a file with authorities.
    ///
    /// # Errors
    /// The file of authorities cannot be read, or the host is no valid name for a certificate.
    pub fn new(check: Check, root_cert: Option<&str>, host: &str) -> Result<Self, String> {
        let read = |path: &str| std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"));
        let authorities = root_cert.map(read).transpose()?;
        let terms = TermsText { protocols: "secure", ciphers: "default", suites: None, curves: "auto" };
        let parts = DemandParts { check, authorities: authorities.as_deref(), own: None, terms };
        let demand = Demand::new(&parts)?.ok_or("no version of TLS is left")?;
        Self::with(demand.without_alpn(), host)
    }

    /// TLS for one host with a configuration that is there already.
    ///
    /// # Errors
    /// The host is no valid name for a certificate.
    pub fn with(config: Arc<ClientConfig>, host: &str) -> Result<Self, String> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} cannot be the name of a certificate"))?;
        Ok(Self { config, name })
    }

    /// The configuration and the name, for whoever drives the handshake by bytes.
    #[must_use]
    pub fn into_parts(self) -> (Arc<ClientConfig>, ServerName<'static>) {
        (self.config, self.name)
    }

    /// A connector. Without TLS it fails, but is not called then.
    #[must_use]
    pub fn optional(secure: Option<Self>) -> Connector {
        Connector(secure)
    }
}

/// Encrypts a stream if that is wanted.
pub struct Connector(Option<Secure>);

/// The handshake.
pub type Securing<S> = Pin<Box<dyn Future<Output = io::Result<Secured<S>>> + Send>>;

impl<S: Stream> TlsConnect<S> for Connector {
    type Stream = Secured<S>;
    type Error = io::Error;
    type Future = Securing<S>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let Secure { config, name } = self.0.ok_or_else(|| io::Error::other("nothing to secure with"))?;
            Ok(Secured(Box::new(TlsConnector::from(config).connect(name, stream).await?)))
        })
    }
}

/// An encrypted stream.
pub struct Secured<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: Stream> TlsStream for Secured<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: Stream> AsyncRead for Secured<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: Stream> AsyncWrite for Secured<S> {
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
