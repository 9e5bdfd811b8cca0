//! HTTP connections: accept, TLS, access control, answer.
//!
//! Always true: the number of connections is bounded, a request head must be short and arrive in time, and an answer
//! must be read in time; passwords are hashed on another thread, one at a time. When the process ends, an answer that has
//! begun is ended properly, also that of the event stream.
//! Not here: the routes (`routes`), the rules of access (`guard`).

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use auth::Secret;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use worker::letters::ActiveConfig;

use super::guard::{Admission, Head, Refused, admit};
use super::pace::Pace;
use super::room::{HttpPlace, Room};
use super::routes::{Asked, FOR_BROWSERS, routes};
use super::stalled::{Socket, Unstalled};
use super::tries::Tries;

/// Serves these listeners for as long as the runtime lives. The TLS terms and users in force are read for each
/// connection.
pub(crate) fn serve(
    listeners: Vec<TcpListener>,
    questions: mpsc::Sender<Asked>,
    active: watch::Receiver<Arc<ActiveConfig>>,
) -> Served {
    let hostname = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let (answering, answered) = mpsc::channel(1);
    let shared = Arc::new(Shared {
        router: routes(questions.clone()),
        questions,
        answering: answering.downgrade(),
        active,
        hostname,
        tries: Mutex::default(),
        hashing: Semaphore::new(HASHINGS_MAX),
        room: Arc::default(),
        pace: Pace::default(),
    });
    for listener in listeners {
        let shared = Arc::clone(&shared);
        tokio::spawn(accept(listener, shared));
    }
    Served { answering, answered }
}

/// The connections that have sent a request.
pub(crate) struct Served {
    answering: mpsc::Sender<Infallible>,
    answered: mpsc::Receiver<Infallible>,
}

impl Served {
    /// Waits until the connections have sent the ends of their answers, which they do when nobody receives their questions
    /// any more. A peer that does not read is not waited for.
    pub(crate) async fn end(self) {
        let Self { answering, mut answered } = self;
        drop(answering);
        let _ = timeout(END_MAX, answered.recv()).await;
    }
}

struct Shared {
    router: Router,
    questions: mpsc::Sender<Asked>,
    /// Held by each connection that has sent a request.
    answering: mpsc::WeakSender<Infallible>,
    active: watch::Receiver<Arc<ActiveConfig>>,
    hostname: String,
    tries: Mutex<Tries>,
    /// Bounds the hashing, so that password guessing occupies at most one CPU.
    hashing: Semaphore,
    room: Arc<Room>,
    pace: Pace,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // A connection without a place is closed without an answer, since sending one would have to be waited
                // for.
                let Some(place) = shared.room.enter(from.ip()) else { continue };
                let shared = Arc::clone(&shared);
                let place = Arc::new(place);
                tokio::spawn(async move {
                    let conversation = timeout(CONNECTION_MAX, converse(stream, from, Arc::clone(&place), shared));
                    // Errors of a connection are ignored: the peer has no answer pending that could report them.
                    tokio::select! {
                        _ = conversation => {}
                        () = place.evicted() => {}
                    }
                });
            }
            // For example, the process is out of descriptors.
            Err(_) => sleep(REST).await,
        }
    }
}

async fn converse(stream: TcpStream, from: SocketAddr, place: Arc<HttpPlace>, shared: Arc<Shared>) -> io::Result<()> {
    let _ = stream.set_nodelay(true);
    // In a large buffer of the system a slow reader makes no progress that could be seen. If it fails, that is all.
    let _ = setsockopt(&stream, sockopt::SndBuf, &SEND_BUFFER_BYTES);
    let mut first = [0];
    timeout(HEAD_MAX, stream.peek(&mut first)).await??;
    if first[0] != TLS_HANDSHAKE {
        return answer(stream, from.ip(), false, place, shared).await;
    }
    let config = shared.active.borrow().tls.offer.as_ref().map(|offer| offer.for_http());
    let Some(config) = config else { return Ok(()) };
    sleep_until(shared.pace.reserve(Instant::now()).into()).await;
    let stream = timeout(HEAD_MAX, TlsAcceptor::from(config).accept(stream)).await??;
    answer(stream, from.ip(), true, place, shared).await
}

async fn answer<S>(stream: S, from: IpAddr, is_tls: bool, place: Arc<HttpPlace>, shared: Arc<Shared>) -> io::Result<()>
where
    S: Socket + AsyncRead + AsyncWrite + Send + 'static,
{
    let stream = TokioIo::new(Unstalled::new(stream, STALLED_MAX, Arc::clone(&place)));
    let (questions, answering) = (shared.questions.clone(), OnceLock::new());
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        answering.get_or_init(|| shared.answering.upgrade());
        let (shared, answered) = (Arc::clone(&shared), Answered::new(&place));
        async move {
            let response = respond(request.map(Body::new), from, is_tls, &shared).await;
            Ok::<_, Infallible>(response.map(|body| AnswerBody { body, _answered: answered }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(stream, service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(io::Error::other),
        () = questions.closed() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.map_err(io::Error::other)
}

/// The connection is being answered as long as this lasts.
struct Answered(Arc<HttpPlace>);

impl Answered {
    fn new(place: &Arc<HttpPlace>) -> Self {
        place.is_answered();
        Self(Arc::clone(place))
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.waits();
    }
}

/// The body of an answer, whose connection is being answered until it has been written.
struct AnswerBody {
    body: Body,
    _answered: Answered,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn respond(request: Request, from: IpAddr, is_tls: bool, shared: &Shared) -> Response {
    let admission = admission(&request, from, is_tls, &shared.hostname);
    let refused = match admission {
        Admission::Open => None,
        Admission::Password { user, password } => verify(user, password, from, shared).await.err(),
        Admission::Refused(why) => Some(why),
    };
    let mut response = match refused {
        None => shared.router.clone().oneshot(request).await.into_response(),
        Some(why) => refuse(why),
    };
    for (name, value) in FOR_BROWSERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

fn admission(request: &Request, from: IpAddr, is_tls: bool, hostname: &str) -> Admission {
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let head = Head {
        from,
        is_tls,
        method: request.method().as_str(),
        host: request.uri().authority().map(|authority| authority.as_str()).or_else(|| text(header::HOST)),
        origin: text(header::ORIGIN),
        authorization: text(header::AUTHORIZATION),
    };
    admit(&head, hostname)
}

fn refuse(why: Refused) -> Response {
    let (status, words) = why.words();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
    let mut response = (status, format!("{words}\n")).into_response();
    match why {
        Refused::NoPassword | Refused::Wrong => {
            let challenge = HeaderValue::from_static("Basic realm=\"trunkline\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        Refused::Method => {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        _ => {}
    }
    response
}

/// Checks the password of a console user.
async fn verify(user: String, password: String, from: IpAddr, shared: &Shared) -> Result<(), Refused> {
    let tries = || shared.tries.lock().unwrap_or_else(PoisonError::into_inner);
    // One at a time also means that an address cannot have more attempts under way than may fail.
    let Ok(_turn) = shared.hashing.acquire().await else { return Err(Refused::Wrong) };
    if !tries().may(from, Instant::now()) {
        return Err(Refused::TooMany);
    }
    let (secret, may_look) = {
        let active = shared.active.borrow();
        let may_look = active.settings.admin_users.has(&user) || active.settings.stats_users.has(&user);
        let known = active.users.secret(&user);
        // An unknown user is checked against a mock secret, so that timing does not reveal whether a user exists.
        (known.or_else(|| active.users.like(&user, &active.mock_key)).cloned(), may_look && known.is_some())
    };
    let iterations_max = shared.active.borrow().settings.scram_iterations_max;
    let authenticator = move || is_right(secret.as_deref(), &user, password.as_bytes(), iterations_max) & may_look;
    let judged = tokio::task::spawn_blocking(authenticator).await;
    match judged {
        Ok(true) => {
            tries().forget(from);
            Ok(())
        }
        Ok(false) | Err(_) => {
            tries().count(from, Instant::now());
            Err(Refused::Wrong)
        }
    }
}

/// Returns whether a password matches a secret; a secret with more than `scram_iterations_max` iterations matches
/// nothing.
fn is_right(secret: Option<&Secret>, user: &str, password: &[u8], iterations_max: u32) -> bool {
    match (auth::plain::check(secret, user, password), secret) {
        (auth::plain::Check::Done(is_right), _) => is_right,
        (auth::plain::Check::Derive(derivation), Some(Secret::Scram(scram))) if scram.iterations <= iterations_max => {
            auth::plain::fits(scram, &derivation.run())
        }
        (auth::plain::Check::Derive(_), _) => false,
    }
}

/// Passwords hashed at once, each on a thread that may block.
pub const HASHINGS_MAX: usize = 1;
/// The first byte of a TLS connection (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;
/// Time limit for a request head and for a TLS handshake.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Maximum size of a request head; hyper requires at least 8 KiB.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The system's buffer for what is sent on a connection; Linux doubles it. `STALLED_MAX` has to suffice for a slow reader
/// to take a part of it.
const SEND_BUFFER_BYTES: usize = 32 * 1024;
/// A connection whose peer reads nothing for this long is closed.
const STALLED_MAX: Duration = Duration::from_secs(20);
/// Maximum lifetime of a connection; a page that stays open reconnects.
const CONNECTION_MAX: Duration = Duration::from_secs(3600);
/// How long the ends of the answers may delay the end of the process.
const END_MAX: Duration = Duration::from_millis(300);
/// Pause after a failed accept.
const REST: Duration = Duration::from_millis(500);
