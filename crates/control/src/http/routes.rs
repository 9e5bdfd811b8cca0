//! The routes of HTTP: which request gets which answer.
//!
//! Always true: every answer forbids browsers to cache it, to show it in a frame, and to load anything from elsewhere.
//! Not here: access control (`guard`); the answers (`Control`).

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use super::compression::accepts_gzip;
use super::queue::{HttpAnswer, HttpQuestion, NO_TABLE, table};
use crate::console::show::CATALOG;

/// A question for the control thread, and the channel for its answer.
pub(crate) type Asked = (HttpQuestion, oneshot::Sender<HttpAnswer>);

/// Returns the routes.
pub(crate) fn routes(questions: mpsc::Sender<Asked>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/live", get(|| async { "alive\n" }))
        .route("/ready", get(ready))
        .route("/primary", get(primary))
        .route("/replica", get(replica))
        .route("/", get(page))
        .route("/api/v1", get(tables))
        .route("/api/v1/overview", get(overview))
        .route("/api/v1/stream", get(stream))
        .route("/api/v1/{table}", get(table_of_console))
        .fallback(|| async {
            (StatusCode::NOT_FOUND, "there are /, /metrics, /live, /ready, /primary, /replica and /api/v1\n")
        })
        .with_state(questions)
}

type HttpQuestions = State<mpsc::Sender<Asked>>;

async fn metrics(State(questions): HttpQuestions, headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let is_open = accepts.contains("application/openmetrics-text");
    let mut response = ask(&questions, HttpQuestion::Metrics { is_open, is_gzip: accepts_gzip(&headers) }).await;
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    response
}

#[derive(Deserialize)]
struct Which {
    db: Option<Box<str>>,
}

async fn ready(State(questions): HttpQuestions, Query(which): Query<Which>) -> Response {
    ask(&questions, HttpQuestion::Ready { database: which.db }).await
}

#[derive(Deserialize)]
struct Where {
    cluster: Option<Box<str>>,
    lag: Option<Box<str>>,
}

async fn primary(State(questions): HttpQuestions, Query(wanted): Query<Where>) -> Response {
    ask(&questions, HttpQuestion::Primary { cluster: wanted.cluster }).await
}

async fn replica(State(questions): HttpQuestions, Query(wanted): Query<Where>) -> Response {
    let lag_max = wanted.lag.as_deref().map(config::byte_count);
    match lag_max {
        Some(None) => respond(HttpAnswer::words(400, "lag= takes bytes, or a number with kB, MB or GB")),
        lag_max => ask(&questions, HttpQuestion::Replica { cluster: wanted.cluster, lag_max: lag_max.flatten() }).await,
    }
}

async fn page() -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("page.html")).into_response()
}

async fn overview(State(questions): HttpQuestions) -> Response {
    ask(&questions, HttpQuestion::Overview).await
}

/// Sends the overview once a second as server-sent events, until the reader disconnects or the process ends, and
/// between them an event `events` with what has happened meanwhile. A reader that reconnects sends its position as
/// `Last-Event-ID`, and misses nothing.
async fn stream(State(questions): HttpQuestions, headers: HeaderMap) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let mut since: Option<u64> = last.and_then(|id| id.parse().ok());
    tokio::spawn(async move {
        loop {
            let Some(overview) = answer_to(&questions, HttpQuestion::Overview).await else { return };
            let Some(news) = answer_to(&questions, HttpQuestion::News { since }).await else { return };
            let next = serde_json::from_str::<Next>(&news).ok().map(|news| news.next);
            let mut events = vec![Event::default().data(overview)];
            if since.is_some() && since != next {
                events.push(Event::default().event("events").data(news));
            }
            since = next;
            // The browser sends this id as `Last-Event-ID` when it reconnects.
            let number = next.map(|next| Event::default().event("at").id(next.to_string()).data(""));
            for event in events.into_iter().chain(number) {
                if sender.send(Ok::<_, std::convert::Infallible>(event)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = sender.closed() => return,
                // The process ends. A body that is not ended would be an error in the reader's log.
                () = questions.closed() => return,
                () = tokio::time::sleep(STREAM_EVERY) => {}
            }
        }
    });
    Sse::new(ReceiverStream::new(receiver)).into_response()
}

/// The number of changes to the events.
#[derive(Deserialize)]
struct Next {
    next: u64,
}

/// Returns the body of the answer if its status is 200.
async fn answer_to(questions: &mpsc::Sender<Asked>, question: HttpQuestion) -> Option<String> {
    let (asker, answer) = oneshot::channel();
    questions.send((question, asker)).await.ok()?;
    let HttpAnswer { status: 200, body, .. } = answer.await.ok()? else { return None };
    String::from_utf8(body.into()).ok()
}

const STREAM_EVERY: Duration = Duration::from_secs(1);

async fn tables() -> Response {
    let names: Vec<_> = CATALOG.iter().filter_map(|subject| table(subject.name)).collect();
    let entry = |subject: &&crate::console::show::Subject| {
        let name = subject.name.to_lowercase();
        serde_json::json!({ "path": format!("/api/v1/{name}"), "shows": subject.doc })
    };
    let body = serde_json::json!({ "tables": names.iter().map(entry).collect::<Vec<_>>() });
    respond(HttpAnswer::json(body.to_string()))
}

async fn table_of_console(State(questions): HttpQuestions, Path(name): Path<Box<str>>) -> Response {
    match table(&name) {
        Some(subject) => ask(&questions, HttpQuestion::Table { name: subject.name }).await,
        None => respond(HttpAnswer::words(404, NO_TABLE)),
    }
}

async fn ask(questions: &mpsc::Sender<Asked>, question: HttpQuestion) -> Response {
    let (sender, receiver) = oneshot::channel();
    if questions.send((question, sender)).await.is_err() {
        return respond(HttpAnswer::words(503, "the pooler goes down"));
    }
    respond(receiver.await.unwrap_or_else(|_| HttpAnswer::words(503, "the pooler goes down")))
}

fn respond(HttpAnswer { status, content_type, is_gzip, body }: HttpAnswer) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
    if is_gzip {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Headers of every answer, for browsers.
pub(crate) const FOR_BROWSERS: [(HeaderName, HeaderValue); 5] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
];
