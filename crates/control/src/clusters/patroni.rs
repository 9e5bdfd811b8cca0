//! Patroni's REST interface: `GET /cluster`, `/leader` and `/config`, `POST /switchover`.
//!
//! Always true: the words of old and of new versions are understood; of an answer at most [`ANSWER_BYTES_MAX`] bytes are read.
//! Not here: what an answer is worth (`cluster`).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{AgentAnswer, AgentMember, PlannedSwitchover};
use config::{Cluster, Endpoint};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, DATE, HeaderMap};
use hyper::{Method, Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_rustls::rustls::ClientConfig;

use super::authorities::Authorities;
use crate::http_client::{HttpConnection, HttpReply, plain};

/// Asks an agent for the cluster, whether its own member holds the leader lock, and how long that lasts.
///
/// # Errors
/// Why there is no answer, in words.
pub(super) async fn ask(cluster: Arc<Cluster>, agent: usize, known: &Authorities) -> Result<AgentAnswer, String> {
    let interface = Interface::of(cluster, agent, known).await?;
    // The lock is asked for first: its confirmation counts from the time at which the question was put. Each answer counts by itself:
    // without its store Patroni may still say that it holds the lock, but not who else is there.
    let leader = interface.send(Method::GET, "/leader", None).await?;
    let reply = interface.send(Method::GET, "/cluster", None).await;
    let clock = reply.as_ref().ok().and_then(|reply| clock_of(&reply.headers));
    let view = reply.and_then(|reply| json_of("/cluster", &reply)).unwrap_or_default();
    let config = interface.send(Method::GET, "/config", None).await.and_then(|reply| json_of("/config", &reply));
    let own = serde_json::from_slice(&leader.body).unwrap_or_default();
    let answer = answer(leader.status == StatusCode::OK, &own, &view, &config.unwrap_or_default());
    Ok(AgentAnswer { planned: planned(&view["scheduled_switchover"], clock), ..answer })
}

/// Has an agent switch over.
///
/// # Errors
/// Why it has not, in its words.
pub(super) async fn switch_over(
    cluster: Arc<Cluster>,
    agent: usize,
    known: &Authorities,
    from: Arc<str>,
    to: Arc<str>,
) -> Result<(), String> {
    let body = json!({ "leader": *from, "candidate": *to }).to_string();
    let reply = Interface::of(cluster, agent, known).await?.send(Method::POST, "/switchover", Some(body)).await?;
    match reply.status {
        StatusCode::OK => Ok(()),
        status => Err(format!("status {}: {}", status.as_u16(), plain(&String::from_utf8_lossy(&reply.body)))),
    }
}

/// The interface of a member. Patroni closes a connection after each answer (HTTP/1.0).
struct Interface {
    cluster: Arc<Cluster>,
    endpoint: Arc<Endpoint>,
    tls: Option<Arc<ClientConfig>>,
}

impl Interface {
    async fn of(cluster: Arc<Cluster>, agent: usize, known: &Authorities) -> Result<Self, String> {
        let endpoint = Arc::clone(cluster.agents().nth(agent).ok_or("it is not there any more")?);
        let tls = known.demand(&cluster, &endpoint, "patroni_ca_file", cluster.patroni_ca_file.as_ref()).await?;
        Ok(Self { cluster, endpoint, tls })
    }

    async fn send(&self, method: Method, path: &'static str, body: Option<String>) -> Result<HttpReply, String> {
        let mut connection = HttpConnection::open(&self.endpoint, self.tls.clone()).await?;
        connection.send(request(&self.cluster, method, path, body)?, ANSWER_BYTES_MAX).await
    }
}

fn request(cluster: &Cluster, method: Method, path: &str, body: Option<String>) -> Result<Request<Body>, String> {
    let mut request = Request::builder().method(method).uri(path).header(CONNECTION, "close");
    if let Some((user, password)) = &cluster.patroni_login {
        let login = STANDARD.encode(format!("{user}:{}", password.expose()));
        request = request.header(AUTHORIZATION, format!("Basic {login}"));
    }
    if body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    request.body(body.map_or_else(Body::empty, Body::from)).map_err(|error| format!("it cannot be asked: {error}"))
}

fn json_of(path: &str, reply: &HttpReply) -> Result<Value, String> {
    if !reply.status.is_success() {
        return Err(format!("{path}: status {}", reply.status.as_u16()));
    }
    serde_json::from_slice(&reply.body).map_err(|_| format!("{path}: its answer cannot be read"))
}

/// Reads the answers of an agent to `/leader`, `/cluster` and `/config`; null stands for none.
fn answer(holds_lock: bool, own: &Value, view: &Value, config: &Value) -> AgentAnswer {
    let secs = |name: &str| Some(Duration::from_secs(config[name].as_u64()?.min(SECONDS_MAX)));
    let is_paused = [own, view, config].iter().any(|answer| answer["pause"].as_bool().unwrap_or(false));
    let members = view["members"].as_array().map_or(&[][..], Vec::as_slice);
    AgentAnswer {
        own: own["patroni"]["name"].as_str().map(|name| plain(name).into()),
        // Newer versions tell it in both.
        scope: own["patroni"]["scope"].as_str().or(view["scope"].as_str()).map(|scope| plain(scope).into()),
        holds_lock,
        members: members.iter().take(MEMBERS_MAX).filter_map(member).collect(),
        is_paused,
        lock: secs("ttl").zip(secs("loop_wait")),
        planned: None,
    }
}

/// Reads `scheduled_switchover`, of an answer that was given at this time by the clock of who gave it.
fn planned(told: &Value, clock: Option<Timestamp>) -> Option<PlannedSwitchover> {
    let at = told["at"].as_str()?;
    let name = |key: &str| told[key].as_str().map(|name| plain(name).into());
    let left = at.parse::<Timestamp>().ok().zip(clock).and_then(|(at, clock)| left(at, clock));
    Some(PlannedSwitchover { at: plain(at).into(), left, from: name("from"), to: name("to") })
}

/// How long it is at least from a time of a clock that shows full seconds to another time; `None` if that is over.
fn left(at: Timestamp, clock: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(at.duration_since(clock)).ok()?;
    Some(left.saturating_sub(Duration::from_secs(1)))
}

/// The time at which an answer was given, by the clock of who gave it.
fn clock_of(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(DATE)?.to_str().ok()?;
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()
}

fn member(member: &Value) -> Option<AgentMember> {
    let port = member["port"].as_u64().and_then(|port| u16::try_from(port).ok());
    Some(AgentMember {
        name: plain(member["name"].as_str()?).into(),
        // A member that has not started yet has no address.
        place: config::told_place(member["host"].as_str()?, port?)?,
        agent: member["api_url"].as_str().and_then(agent_of),
        // A standby cluster has a leader, but no primary.
        is_leader: matches!(member["role"].as_str(), Some("leader" | "master" | "primary")),
        timeline: member["timeline"].as_u64().and_then(|timeline| u32::try_from(timeline).ok()).unwrap_or(0),
    })
}

/// The URL of an agent without its path.
pub(super) fn agent_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    Some(plain(&format!("{scheme}://{}", rest.split('/').next().unwrap_or_default())))
}

/// The size of a cluster of hundreds of members.
const ANSWER_BYTES_MAX: usize = 256 << 10;
pub(super) const MEMBERS_MAX: usize = 1000;
/// A day: more than any `ttl`.
pub(super) const SECONDS_MAX: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(holds_lock: bool, view: &str, config: &str) -> AgentAnswer {
        let json = |text| serde_json::from_str::<Value>(text).expect("JSON");
        answer(holds_lock, &json(r#"{"patroni": {"name": "n1"}}"#), &json(view), &json(config))
    }

    #[test]
    fn the_members_are_read_in_the_words_of_old_and_new_versions() {
        for role in ["leader", "master", "primary"] {
            let view = format!(
                r#"{{"members": [{{"name": "n1", "role": "{role}", "state": "running", "api_url": "http://10.0.0.1:8008/patroni", "host": "10.0.0.1", "port": 5432, "timeline": 3}},
                {{"name": "n2", "role": "replica", "state": "streaming", "api_url": "https://[fd00::2]:8008/patroni", "host": "fd00::2", "port": 5433, "timeline": 3, "lag": 0}},
                {{"name": "n3", "role": "replica", "state": "starting"}}], "scope": "main"}}"#
            );
            let answer = read(true, &view, r#"{"ttl": 20, "loop_wait": 5, "retry_timeout": 5}"#);
            assert_eq!(answer.lock, Some((Duration::from_secs(20), Duration::from_secs(5))));
            assert!(answer.holds_lock && !answer.is_paused && answer.own == Some("n1".into()));
            assert_eq!(answer.scope.as_deref(), Some("main"));
            let [first, second] = &answer.members[..] else { panic!("{answer:?}") };
            assert_eq!(
                (&*first.name, &*first.place, first.is_leader, first.timeline),
                ("n1", "10.0.0.1:5432", true, 3)
            );
            assert_eq!((&*second.place, second.agent.as_deref()), ("[fd00::2]:5433", Some("https://[fd00::2]:8008")));
            assert!(!second.is_leader);
        }
    }

    #[test]
    fn a_standby_cluster_has_no_primary_and_a_pause_is_seen() {
        let view =
            r#"{"members": [{"name": "n1", "role": "standby_leader", "host": "a", "port": 5432}], "pause": true}"#;
        let answer = read(true, view, "{}");
        assert!(answer.is_paused && !answer.members[0].is_leader);
        assert_eq!(answer.lock, None, "no time is guessed from an answer that has none");
    }

    #[test]
    fn a_switchover_at_a_time_is_so_far_away_by_the_clock_of_who_tells_it() {
        let clock = |text: &'static str| clock_of(&HeaderMap::from_iter([(DATE, text.parse().expect("a header"))]));
        let noon = clock("Mon, 30 Nov 2026 12:00:00 GMT");
        let told = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let all = told(r#"{"at": "2026-11-30T12:00:10.250000+00:00", "from": "n1", "to": "n2"}"#);
        let read = planned(&all, noon).expect("a switchover");
        assert_eq!(
            (read.left, read.to_string()),
            (Some(Duration::from_millis(9250)), "2026-11-30T12:00:10.250000+00:00 from n1 to n2".to_owned())
        );
        for (text, left) in [
            (r#"{"at": "2026-11-30T13:00:10+01:00"}"#, Some(9)),
            (r#"{"at": "2026-11-30T12:00:00.5+00:00"}"#, Some(0)),
            (r#"{"at": "2026-11-30T11:59:59+00:00"}"#, None),
            (r#"{"at": "tomorrow", "from": 7}"#, None),
        ] {
            let read = planned(&told(text), noon).expect("a switchover");
            assert_eq!((read.left, read.from), (left.map(Duration::from_secs), None), "{text}");
            assert_eq!(planned(&told(text), clock("noon")).and_then(|read| read.left), None, "{text}");
        }
        assert_eq!((planned(&Value::Null, noon), planned(&json!({ "at": 7 }), noon)), (None, None));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(read(true, "null", "null").members, []);
        assert_eq!(read(false, r#"{"members": 7}"#, "{}").members, []);
        let odd = r#"{"members": [7, {"name": 1}, {"name": "a", "host": "h", "port": 70000}, {"name": "b", "host": "h", "port": "x"}]}"#;
        assert_eq!(read(false, odd, r#"{"ttl": "x"}"#).members, []);
        let lock = read(false, "{}", r#"{"ttl": 18446744073709551615, "loop_wait": 18446744073709551615}"#).lock;
        assert_eq!(lock, Some((Duration::from_secs(86_400), Duration::from_secs(86_400))));
        let paths =
            r#"{"members": [{"name": "a", "host": "/tmp", "port": 1}, {"name": "b", "host": "x,y", "port": 1}]}"#;
        assert_eq!(read(false, paths, "{}").members, []);
        let long = format!(r#"{{"members": [{{"name": "{}", "host": "h", "port": 1}}]}}"#, "x".repeat(5000));
        assert!(read(false, &long, "{}").members[0].name.len() <= 200);
    }
}
