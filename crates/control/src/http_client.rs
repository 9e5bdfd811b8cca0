//! Requests to HTTP servers: a collector of spans, Patroni, etcd.
//!
//! Always true: of an answer at most so many bytes are read as its caller allows. Redirects are not followed, because what
//! proves who we are is meant for the configured server only.
//! Not here: what is asked (`otlp`, `clusters::patroni`, `clusters::etcd`), time limits of whole conversations (their callers).

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use config::Endpoint;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use reactor::tls::{Check, Demand, DemandParts, TermsText};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_stream::StreamExt as _;

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
    pub(crate) async fn send(&mut self, request: Request<Body>, bytes_max: usize) -> Result<HttpReply, String> {
        let (head, body) = self.answer(request).await?.into_parts();
        let body = to_bytes(Body::new(body), bytes_max).await.unwrap_or_default();
        Ok(HttpReply { status: head.status, headers: head.headers, body })
    }

    /// Sends a request whose answer has no end, and passes each line of it on until `takes` wants no more of them, or the answer ends. A line
    /// has at most `bytes_max`.
    ///
    /// # Errors
    /// Why there is no answer, or no line, in words.
    pub(crate) async fn send_for_lines(
        &mut self,
        request: Request<Body>,
        bytes_max: usize,
        takes: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        let response = self.answer(request).await?;
        if !response.status().is_success() {
            return Err(format!("status {}", response.status().as_u16()));
        }
        let mut parts = Body::new(response.into_body()).into_data_stream();
        let mut left = Vec::new();
        while let Some(part) = parts.next().await {
            left.extend_from_slice(&part.map_err(|error| error.to_string())?);
            while let Some(end) = left.iter().position(|byte| *byte == b'\n') {
                let rest = left.split_off(end + 1);
                let line = std::mem::replace(&mut left, rest);
                if !takes(&line) {
                    return Ok(());
                }
            }
            if left.len() > bytes_max {
                return Err("a line of its answer is too long".to_owned());
            }
        }
        Ok(())
    }

    async fn answer(&mut self, mut request: Request<Body>) -> Result<Response<Incoming>, String> {
        let headers = request.headers_mut();
        let authority = self.authority.parse().map_err(|_| format!("\"{}\" is no name of a host", self.authority))?;
        headers.insert(header::HOST, authority);
        let agent = concat!("trunkline/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, header::HeaderValue::from_static(agent));
        self.sender.ready().await.map_err(|error| error.to_string())?;
        self.sender.send_request(request).await.map_err(|error| error.to_string())
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
