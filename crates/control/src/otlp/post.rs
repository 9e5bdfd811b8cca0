//! Posts a batch of spans to a collector.
//!
//! Always true: a post takes at most [`POST_MAX`]; at most [`ANSWER_BYTES_MAX`] bytes of the answer are read. Spans are
//! encoded, and files are read, on a thread that may block. Redirects are not followed, because a token is meant for
//! the configured collector only.
//! Not here: retries (`exporter`).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::header::{self, HeaderMap};
use hyper::{Request, StatusCode};
use tokio::task::spawn_blocking;
use tokio_rustls::rustls::ClientConfig;

use super::encode::encode;
use super::exporter::{Posted, Posting};
use crate::http_client::{HttpConnection, demand, plain};

/// Posts a batch.
pub(crate) async fn post(posting: Posting) -> Posted {
    let prepared = spawn_blocking(move || {
        let hostname = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let tls = demand(&posting.endpoint, "otlp_ca_file", posting.ca_file.as_deref())?;
        Ok::<_, String>((encode(&posting, &hostname), tls, posting))
    });
    let (body, tls, posting) = match prepared.await {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(why)) => return again(why),
        Err(error) => return again(error.to_string()),
    };
    match tokio::time::timeout(POST_MAX, deliver(&posting, body, tls)).await {
        Ok(Ok(posted)) => posted,
        Ok(Err(why)) => again(why),
        Err(_) => again(format!("no answer within {} seconds", POST_MAX.as_secs())),
    }
}

fn again(why: String) -> Posted {
    Posted::Again { after: None, why }
}

async fn deliver(posting: &Posting, body: Vec<u8>, tls: Option<Arc<ClientConfig>>) -> Result<Posted, String> {
    let mut request = Request::post(&*posting.endpoint.target)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close");
    for (key, value) in posting.headers.iter() {
        request = request.header(key, value);
    }
    let request = request.body(Body::from(body)).map_err(|error| format!("it cannot be asked: {error}"))?;
    let mut connection = HttpConnection::open(&posting.endpoint, tls).await?;
    let reply = connection.send(request, ANSWER_BYTES_MAX).await?;
    Ok(judge(reply.status, &reply.headers, &reply.body))
}

/// Interprets the answer (OTLP specification, "OTLP/HTTP Response").
fn judge(status: StatusCode, headers: &HeaderMap, answer: &[u8]) -> Posted {
    let said: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
    if status.is_success() {
        let partial = &said["partialSuccess"];
        // 64-bit numbers are strings in OTLP JSON, but some collectors send numbers.
        let rejected = &partial["rejectedSpans"];
        let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
        return Posted::Taken { rejected, why: plain(partial["errorMessage"].as_str().unwrap_or_default()) };
    }
    let said = plain(said["message"].as_str().unwrap_or_default());
    let colon = if said.is_empty() { "" } else { ": " };
    let why = format!("it answers with status {}{colon}{said}", status.as_u16());
    match status.as_u16() {
        429 | 502 | 503 | 504 => {
            let after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            Posted::Again { after: after.and_then(|text| retry_after(text, jiff::Timestamp::now())), why }
        }
        _ => Posted::Refused { why },
    }
}

/// Parses `Retry-After`: seconds or a date.
fn retry_after(text: &str, now: jiff::Timestamp) -> Option<Duration> {
    if let Ok(secs) = text.trim().parse() {
        return Some(Duration::from_secs(secs));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    Some(Duration::from_secs(u64::try_from(date.as_second() - now.as_second()).unwrap_or(0)))
}

/// Time limit for posting a batch.
const POST_MAX: Duration = Duration::from_secs(10);
/// Maximum size of the answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, retry_after: Option<&'static str>, answer: &str) -> Posted {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static(text));
        }
        judge(StatusCode::from_u16(status).expect("a status"), &headers, answer.as_bytes())
    }

    #[test]
    fn an_answer_tells_whether_to_try_again() {
        let taken = |rejected, why: &str| Posted::Taken { rejected, why: why.to_owned() };
        for answer in ["", "{}", "banana", r#"{"partialSuccess":{}}"#, r#"{"partialSuccess":{"rejectedSpans":"0"}}"#] {
            assert_eq!(judged(200, None, answer), taken(0, ""), "{answer}");
        }
        let partial = r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too\n old"}}"#;
        assert_eq!(judged(200, None, partial), taken(3, "too old"));
        for status in [429, 502, 503, 504] {
            let why = format!("it answers with status {status}: slow down");
            let after = Some(Duration::from_secs(7));
            assert_eq!(judged(status, Some("7"), r#"{"message":"slow down"}"#), Posted::Again { after, why });
        }
        for status in [301, 400, 401, 404, 500] {
            let why = format!("it answers with status {status}");
            assert_eq!(judged(status, Some("7"), ""), Posted::Refused { why });
        }
    }

    #[test]
    fn a_time_to_wait_is_a_number_or_a_date() {
        let now = jiff::Timestamp::from_second(784_111_777).expect("a time");
        let secs = |text| retry_after(text, now).map(|after| after.as_secs());
        assert_eq!(secs("120"), Some(120));
        assert_eq!(secs("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(secs("Sun, 06 Nov 1994 08:40:37 GMT"), Some(0));
        assert_eq!((secs("soon"), secs("-1")), (None, None));
    }
}
