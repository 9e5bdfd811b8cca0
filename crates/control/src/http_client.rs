//! Requests to HTTP servers: a collector of spans, Patroni.
//!
//! Always true: of an answer at most so many bytes are read as its caller allows. Redirects are not followed, because what
//! proves who we are is meant for the configured server only.
//! Not here: what is asked (`otlp`, `clusters::patroni`), time limits of whole conversations (their callers).

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use config::Endpoint;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use reactor::tls::{Check, Demand, DemandParts, TermsText};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::source::words_of;
use crate::tls::systems_authorities;

/// A connection to an HTTP server. It ends with this value.
pub(crate) struct HttpConnection {
    sender: SendRequest<Body>,
    authority: String,
    _carried: JoinSet<hyper::Result<()>>,
}

/// An answer, with as much of its body as may be read.
pub(crate) struct HttpReply {
    /// The status.
    pub(crate) status: StatusCode,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body; empty if it is too long.
    pub(crate) body: Bytes,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl HttpConnection {
    /// Connects; with TLS if there is a configuration for it.
    ///
    /// # Errors
    /// Why it cannot be reached, in words.
    pub(crate) async fn open(endpoint: &Endpoint, tls: Option<Arc<ClientConfig>>) -> Result<Self, String> {
        let stream = connect(endpoint, tls).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let mut carried = JoinSet::new();
        carried.spawn(connection);
        Ok(Self { sender, authority: endpoint.authority(), _carried: carried })
    }

    /// Sends a request, to which the headers that are always the same are added, and reads at most `bytes_max` of the answer.
    ///
    /// # Errors
    /// Why there is no answer, in words.
    pub(crate) async fn send(&mut self, mut request: Request<Body>, bytes_max: usize) -> Result<HttpReply, String> {
        let headers = request.headers_mut();
        let authority = self.authority.parse().map_err(|_| format!("\"{}\" is no name of a host", self.authority))?;
        headers.insert(header::HOST, authority);
        let agent = concat!("trunkline/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, header::HeaderValue::from_static(agent));
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let response = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        let body = to_bytes(Body::new(body), bytes_max).await.unwrap_or_default();
        Ok(HttpReply { status: head.status, headers: head.headers, body })
    }
}

async fn connect(endpoint: &Endpoint, tls: Option<Arc<ClientConfig>>) -> Result<Box<dyn Stream>, String> {
    let (host, port) = (&*endpoint.host, endpoint.port);
    let stream = TcpStream::connect((host, port)).await.map_err(|error| words_of(&error))?;
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("\"{host}\" is no name of a host"))?;
    let secured = TlsConnector::from(tls).connect(name, stream).await;
    Ok(Box::new(secured.map_err(|error| words_of(&error))?))
}

/// The TLS configuration for a server whose certificate is verified, also its name. It reads files, so it may block. `setting`
/// names the file of authorities in an error.
///
/// # Errors
/// The file cannot be used, or there is none and the system has no authorities.
pub(crate) fn demand(
    endpoint: &Endpoint,
    setting: &str,
    ca_file: Option<&str>,
) -> Result<Option<Arc<ClientConfig>>, String> {
    if !endpoint.is_tls {
        return Ok(None);
    }
    let authorities =
        match ca_file {
            Some(path) => std::fs::read(path)
                .map_err(|error| format!("{setting}: failed to open {path}: {}", words_of(&error)))?,
            None => systems_authorities()
                .ok_or_else(|| format!("its certificate cannot be verified: {setting} is not set"))?,
        };
    let terms = TermsText { protocols: "secure", ciphers: "default", suites: None, curves: "auto" };
    let parts = DemandParts { check: Check::ChainAndName, authorities: Some(&authorities), own: None, terms };
    let demand = Demand::new(&parts)?.ok_or("no protocol of TLS is left")?;
    Ok(Some(demand.without_alpn()))
}

/// Makes the text of another program safe for a log line.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(WORDS_MAX).collect()
}

/// The number of characters of such a text.
const WORDS_MAX: usize = 200;
