//! Asks an LDAP directory whether a password is a user's, by a bind as that user.
//!
//! Always true: a user is let in only after a successful bind, under the one name that the directory has for the user;
//! if a directory server cannot be reached, the next one is tried, and the answer of the first one reached is final.
//! The length of each part received is known and checked beforehand, and all answers together have at most
//! `ANSWERS_BYTES_MAX` bytes.
//! Not here: the configuration, and the messages (`auth::ldap`), the queue (`external_auth`).

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use auth::ldap::{Filter, MESSAGE_BYTES_MAX, Malformed, Request, Response, read, wanted};
use auth::{LdapOptions, LdapSearch, LdapWay, Password};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use worker::letters::Verdict;

use super::trust;
use crate::source::words_of;

/// Asks whether this is the user's password.
pub(super) async fn check(options: &LdapOptions, user: &str, password: &Password) -> Verdict {
    let name = match &options.way {
        LdapWay::Simple { .. } => options.way.simple_dn(user).unwrap_or_default(),
        LdapWay::Search(search) => {
            let (mut directory, url) = connect(options).await?;
            let found = find(&mut directory, url, search, user).await;
            directory.leave().await;
            found?
        }
    };
    // A bind with an empty name is anonymous, and succeeds with any password (RFC 4513).
    if name.is_empty() {
        return Err("LDAP has an empty name for the user".into());
    }
    let (mut directory, url) = connect(options).await?;
    let bound = directory.bind(&name, password.as_bytes()).await;
    directory.leave().await;
    bound.map_err(|why| format!("LDAP login failed for user {name} on server {url}: {why}").into())
}

/// Connects to the first server that can be reached, and returns its URL as well.
async fn connect(options: &LdapOptions) -> Result<(Directory, &str), Arc<str>> {
    let mut tls = None;
    if options.starts_tls || options.urls.iter().any(|url| url.starts_with("ldaps:")) {
        tls = Some(trust::demand()?.without_alpn());
    }
    let mut why = String::new();
    for url in &options.urls {
        let reached = tokio::time::timeout(CONNECT_MAX, reach(url, options.starts_tls, tls.as_ref())).await;
        match reached.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(directory) => return Ok((directory, url)),
            Err(words) => why = format!("could not connect to LDAP server {url}: {words}"),
        }
    }
    Err(why.into())
}

/// Connects to one server, and negotiates TLS where that is configured.
async fn reach(url: &str, starts_tls: bool, tls: Option<&Arc<ClientConfig>>) -> Result<Directory, String> {
    let (scheme, place) = url.split_once("://").unwrap_or(("ldap", url));
    let is_none = || format!("\"{place}\" is not a host and a port");
    let (host, port) = place.rsplit_once(':').ok_or_else(is_none)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port: u16 = port.parse().map_err(|_| is_none())?;
    let mut stream = TcpStream::connect((host, port)).await.map_err(|error| words_of(&error))?;
    // A request is sent with one call and followed by nothing until its answer, so it must not wait for an
    // acknowledgement (Nagle).
    let _ = stream.set_nodelay(true);
    if starts_tls {
        stream = Directory::new(stream).start_tls().await?;
    }
    let Some(tls) = tls.filter(|_| starts_tls || scheme == "ldaps") else {
        return Ok(Directory::new(Box::new(stream)));
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|_| is_none())?;
    let secured = TlsConnector::from(tls.clone()).connect(name, stream).await;
    Ok(Directory::new(Box::new(secured.map_err(|error| words_of(&error))?)))
}

/// Returns the distinguished name that a directory has for a user.
async fn find(directory: &mut Directory, url: &str, search: &LdapSearch, user: &str) -> Result<String, Arc<str>> {
    let filter = search.filter_for(user)?;
    let searcher = search.bind_password.as_ref().map_or(&b""[..], Password::as_bytes);
    directory.bind(&search.bind_dn, searcher).await.map_err(|why| {
        let name = &search.bind_dn;
        format!("could not perform initial LDAP bind for ldapbinddn \"{name}\" on server \"{url}\": {why}")
    })?;
    let place = format!("filter \"{filter}\" on server \"{url}\"");
    let failed = |why: String| format!("could not search LDAP for {place}: {why}");
    let sent = Filter::parse(&filter).map_err(|why| failed(why.to_owned()))?;
    match directory.search(search, &sent).await.map_err(failed)? {
        Found::One(name) => Ok(name),
        Found::Nobody => Err(format!("LDAP user \"{user}\" does not exist: {place}").into()),
        Found::Several => Err(format!("LDAP user \"{user}\" is not unique: {place}").into()),
    }
}

/// The result of a search.
enum Found {
    Nobody,
    One(String),
    Several,
}

/// A connection to a directory.
struct Directory<S = Box<dyn Stream>> {
    stream: S,
    /// The number of the last request.
    number: u8,
    /// How many more bytes may be received.
    bytes_left: usize,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl<S: Stream> Directory<S> {
    fn new(stream: S) -> Self {
        Self { stream, number: 0, bytes_left: ANSWERS_BYTES_MAX }
    }

    /// Asks the directory to start TLS. No byte after its answer has been read: clear text that somebody has injected
    /// there makes the handshake fail.
    async fn start_tls(mut self) -> Result<S, String> {
        self.ask(Request::StartTls).await?;
        match self.answer().await? {
            Response::Extended(SUCCESS) => Ok(self.stream),
            Response::Extended(code) => Err(format!("it does not begin TLS: {}", words(code))),
            _ => Err(UNEXPECTED.to_owned()),
        }
    }

    async fn bind(&mut self, name: &str, password: &[u8]) -> Result<(), String> {
        self.ask(Request::Bind { name, password }).await?;
        match self.answer().await? {
            Response::Bound(SUCCESS) => Ok(()),
            Response::Bound(code) => Err(words(code)),
            _ => Err(UNEXPECTED.to_owned()),
        }
    }

    async fn search(&mut self, search: &LdapSearch, filter: &Filter) -> Result<Found, String> {
        self.ask(Request::Search { base: &search.base, scope: search.scope, filter }).await?;
        let mut found = None;
        loop {
            match (self.answer().await?, found) {
                (Response::Entry(name), None) => found = Some(name),
                // The number of further entries does not matter.
                (Response::Entry(_), Some(_)) => return Ok(Found::Several),
                (Response::Aside, before) => found = before,
                (Response::Searched(SUCCESS), found) => return Ok(found.map_or(Found::Nobody, Found::One)),
                (Response::Searched(code), _) => return Err(words(code)),
                (Response::Bound(_) | Response::Extended(_), _) => return Err(UNEXPECTED.to_owned()),
            }
        }
    }

    /// Ends the conversation with an unbind.
    async fn leave(mut self) {
        let _ = self.ask(Request::Unbind).await;
        let _ = self.stream.shutdown().await;
    }

    async fn ask(&mut self, request: Request<'_>) -> Result<(), String> {
        self.number += 1;
        let sent = self.stream.write_all(&request.message(self.number)).await;
        match sent {
            Ok(()) => self.stream.flush().await.map_err(|error| words_of(&error)),
            Err(error) => Err(words_of(&error)),
        }
    }

    /// Returns the next answer to the last request.
    async fn answer(&mut self) -> Result<Response, String> {
        let message = self.receive().await?;
        match read(&message).map_err(malformed)? {
            (number, response) if number == u32::from(self.number) => Ok(response),
            (0, Response::Extended(code)) => Err(format!("it ends the connection: {}", words(code))),
            _ => Err(UNEXPECTED.to_owned()),
        }
    }

    async fn receive(&mut self) -> Result<Vec<u8>, String> {
        let mut message = Vec::new();
        self.allow(MESSAGE_COST)?;
        loop {
            let (there, wanted) = (message.len(), wanted(&message).map_err(malformed)?);
            if there == wanted {
                return Ok(message);
            }
            self.allow(wanted - there)?;
            message.resize(wanted, 0);
            self.stream.read_exact(&mut message[there..]).await.map_err(|error| lost(&error))?;
        }
    }

    fn allow(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or_else(|| format!("it says more than {ANSWERS_BYTES_MAX} bytes"))?;
        Ok(())
    }
}

fn lost(error: &Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
        _ => words_of(error),
    }
}

fn malformed(Malformed(why): Malformed) -> String {
    format!("what it says is not LDAP: {why}")
}

/// Returns the text for a result code, in the words of LDAP clients.
fn words(code: u32) -> String {
    let known = REFUSALS.iter().find(|(known, _)| *known == code).map(|(_, text)| (*text).to_owned());
    known.unwrap_or_else(|| format!("result code {code}"))
}

const SUCCESS: u32 = 0;
const UNEXPECTED: &str = "what it says answers nothing that it was asked";
const REFUSALS: [(u32, &str); 13] = [
    (1, "Operations error"),
    (2, "Protocol error"),
    (3, "Time limit exceeded"),
    (4, "Size limit exceeded"),
    (8, "Strong(er) authentication required"),
    (13, "Confidentiality required"),
    (32, "No such object"),
    (34, "Invalid DN syntax"),
    (49, "Invalid credentials"),
    (50, "Insufficient access"),
    (51, "Server is busy"),
    (52, "Server is unavailable"),
    (53, "Server is unwilling to perform"),
];

/// Time limit for connecting to one server. Less than PgBouncer's 3 seconds, so that a client that waits only 3 seconds
/// still gets the reason why it is not let in.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Maximum size of all answers on one connection: a name or two, with a referral or a diagnostic message.
const ANSWERS_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// What a message counts in addition to its bytes, because a thousand small ones are work as well.
const MESSAGE_COST: usize = 512;
