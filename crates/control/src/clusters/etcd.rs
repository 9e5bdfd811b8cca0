//! etcd's JSON gateway: `/v3/kv/range`, `/v3/lease/timetolive`, `/v3/watch` and `/v3/auth/authenticate`.
//!
//! Always true: the keys of a cluster are read at once and by a majority of etcd's members (a linearizable read), so that an answer is true for the time of
//! its question; of an answer at most [`ANSWER_BYTES_MAX`] bytes are read. A watch only says that something has changed: what, is read again.
//! Not here: what an answer is worth (`cluster`), time limits (`tasks`).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{AgentMember, StoreAnswer, StoreVersion};
use config::{Cluster, Etcd};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::authorities::Authorities;
use super::patroni::{MEMBERS_MAX, SECONDS_MAX, agent_of};
use super::tokens::Tokens;
use crate::http_client::{HttpConnection, HttpReply, plain};

/// An address of the store, and what asking it needs.
pub(super) struct Gateway {
    cluster: Arc<Cluster>,
    address: usize,
    authorities: Authorities,
    tokens: Tokens,
}

impl Gateway {
    pub(super) fn new(cluster: Arc<Cluster>, address: usize, authorities: Authorities, tokens: Tokens) -> Self {
        Self { cluster, address, authorities, tokens }
    }

    /// Asks for all that the agents keep of the cluster, and how long the lock of its leader lasts.
    ///
    /// # Errors
    /// Why there is no answer, in words.
    pub(super) async fn state(&self) -> Result<StoreAnswer, String> {
        let prefix = self.etcd()?.prefix.as_bytes();
        let range =
            json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(after(prefix)), "limit": KEYS_MAX });
        let state = self.ask("/v3/kv/range", &range).await?;
        let (mut answer, lease) = answer(self.etcd()?, &state)?;
        if let Some(lease) = lease {
            // The lock lasts longer than this, counted from a time before the question.
            let told = self.ask("/v3/lease/timetolive", &json!({ "ID": lease })).await?;
            answer.lock_left = number(&told["TTL"]).map(|secs| Duration::from_secs(secs.min(SECONDS_MAX)));
        }
        Ok(answer)
    }

    /// Waits until something that matters changes after this revision.
    ///
    /// # Errors
    /// Why it cannot be waited for, in words.
    pub(super) async fn change(&self, revision: u64) -> Result<(), String> {
        let prefix = self.etcd()?.prefix.as_bytes();
        let (key, range_end) = (STANDARD.encode(prefix), STANDARD.encode(after(prefix)));
        let start = revision.saturating_add(1).to_string();
        let create = json!({ "create_request": { "key": key, "range_end": range_end, "start_revision": start } });
        let mut connection = self.connect().await?;
        let request = request("/v3/watch", &create, self.tokens.of(&self.cluster).as_deref())?;
        let mut changed = Err("the watch has ended".to_owned());
        let own = self.etcd()?;
        let mut line = |line: &[u8]| -> bool {
            let said = serde_json::from_slice(line).unwrap_or_default();
            match change(own, &said) {
                None => true,
                Some(outcome) => {
                    changed = outcome;
                    false
                }
            }
        };
        connection.send_for_lines(request, ANSWER_BYTES_MAX, &mut line).await?;
        changed
    }

    /// Puts a question, after a login if one is needed.
    async fn ask(&self, path: &'static str, question: &Value) -> Result<Value, String> {
        let known = self.tokens.of(&self.cluster);
        let had_token = known.is_some();
        let token = if had_token { known } else { self.log_in().await? };
        let reply = self.put(path, question, token.as_deref()).await?;
        let is_refused = !reply.status.is_success() && self.etcd()?.login.is_some();
        let reply = match is_refused && had_token {
            // The token may have grown too old.
            true => {
                let token = self.log_in().await?;
                self.put(path, question, token.as_deref()).await?
            }
            false => reply,
        };
        read(path, &reply)
    }

    async fn log_in(&self) -> Result<Option<Arc<str>>, String> {
        let Some((user, password)) = &self.etcd()?.login else { return Ok(None) };
        self.tokens.forget(&self.cluster);
        let path = "/v3/auth/authenticate";
        let said = read(path, &self.put(path, &json!({ "name": **user, "password": password.expose() }), None).await?)?;
        let token = said["token"].as_str().ok_or("it lets nobody in: there is no token in its answer")?;
        self.tokens.know(&self.cluster, token);
        Ok(Some(token.into()))
    }

    async fn put(&self, path: &'static str, question: &Value, token: Option<&str>) -> Result<HttpReply, String> {
        self.connect().await?.send(request(path, question, token)?, ANSWER_BYTES_MAX).await
    }

    async fn connect(&self) -> Result<HttpConnection, String> {
        let etcd = self.etcd()?;
        let endpoint = etcd.addresses.get(self.address).ok_or("it is not there any more")?;
        let tls = self.authorities.demand(&self.cluster, endpoint, "etcd_ca_file", etcd.ca_file.as_ref()).await?;
        HttpConnection::open(endpoint, tls).await
    }

    fn etcd(&self) -> Result<&Etcd, String> {
        self.cluster.etcd.as_ref().ok_or_else(|| "it is not there any more".to_owned())
    }
}

fn request(path: &str, question: &Value, token: Option<&str>) -> Result<Request<Body>, String> {
    let mut request = Request::builder().method(Method::POST).uri(path).header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token);
    }
    request.body(question.to_string().into()).map_err(|error| format!("it cannot be asked: {error}"))
}

fn read(path: &str, reply: &HttpReply) -> Result<Value, String> {
    let said: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    match reply.status {
        StatusCode::OK if said.is_object() => Ok(said),
        StatusCode::OK => Err(format!("{path}: its answer cannot be read")),
        status => {
            let why = said["message"].as_str().or(said["error"].as_str()).unwrap_or_default();
            Err(format!("{path}: status {} {}", status.as_u16(), plain(why)).trim_end().to_owned())
        }
    }
}

/// Reads all keys of a cluster. The second part is the lease of the leader lock.
fn answer(etcd: &Etcd, state: &Value) -> Result<(StoreAnswer, Option<String>), String> {
    let header = &state["header"];
    let version = |name: &str| number(&header[name]).ok_or_else(|| format!("/v3/kv/range: it tells no {name}"));
    let version =
        StoreVersion { store: version("cluster_id")?, term: version("raft_term")?, revision: version("revision")? };
    let mut answer = StoreAnswer { version, ..StoreAnswer::default() };
    let (mut leader, mut is_standby_cluster) = (None, false);
    let pairs = state["kvs"].as_array().map_or(&[][..], Vec::as_slice);
    for pair in pairs {
        let (Some(key), Some(value)) = (bytes(&pair["key"]), bytes(&pair["value"])) else { continue };
        let Some(key) = key.strip_prefix(etcd.prefix.as_bytes()).and_then(|key| std::str::from_utf8(key).ok()) else {
            continue;
        };
        match key.strip_prefix("members/") {
            Some(name) if answer.members.len() < MEMBERS_MAX => answer.members.extend(member(name, &value)),
            Some(_) => {}
            None if key == "leader" => {
                let lease = number(&pair["lease"]).filter(|lease| *lease > 0);
                leader = Some((plain(&String::from_utf8_lossy(&value)), lease));
            }
            None if key == "config" => {
                let config: Value = serde_json::from_slice(&value).unwrap_or_default();
                let secs = |name: &str| Some(Duration::from_secs(config[name].as_u64()?.min(SECONDS_MAX)));
                answer.lock = secs("ttl").zip(secs("loop_wait"));
                answer.is_paused = config["pause"].as_bool().unwrap_or(false);
                is_standby_cluster = config["standby_cluster"].is_object();
            }
            None => {}
        }
    }
    if pairs.is_empty() {
        return Err(format!("it has no key that begins with {}", etcd.prefix));
    }
    let mut lease = None;
    // A standby cluster has a leader, but no primary.
    if let Some((name, of)) = leader.filter(|_| !is_standby_cluster)
        && let Some(member) = answer.members.iter_mut().find(|member| *member.name == *name)
    {
        member.is_leader = true;
        lease = of.map(|lease| lease.to_string());
    }
    Ok((answer, lease))
}

/// Reads what Patroni keeps of a member: `conn_url` is `postgres://10.0.0.1:5432/postgres`.
fn member(name: &str, value: &[u8]) -> Option<AgentMember> {
    let member: Value = serde_json::from_slice(value).ok()?;
    let rest = member["conn_url"].as_str()?.split_once("://")?.1;
    let authority = rest.split(['/', '?']).next()?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (place, 5432),
    };
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    Some(AgentMember {
        name: plain(name).into(),
        place: config::told_place(host, port)?,
        agent: member["api_url"].as_str().and_then(agent_of),
        is_leader: false,
        timeline: member["timeline"].as_u64().and_then(|timeline| u32::try_from(timeline).ok()).unwrap_or(0),
    })
}

/// What a line of a watch says: that something that matters has changed, that the watch is over, or nothing.
fn change(etcd: &Etcd, said: &Value) -> Option<Result<(), String>> {
    if let Some(error) = said["error"]["message"].as_str().or(said["error"].as_str()) {
        return Some(Err(plain(error)));
    }
    let result = &said["result"];
    if result["canceled"].as_bool().unwrap_or(false) {
        return Some(Err(plain(result["cancel_reason"].as_str().unwrap_or("the watch was canceled"))));
    }
    let matters = |event: &Value| {
        let key = bytes(&event["kv"]["key"]).unwrap_or_default();
        let key = key.strip_prefix(etcd.prefix.as_bytes()).unwrap_or_default();
        key == b"leader" || key == b"config" || key.starts_with(b"members/")
    };
    let events = result["events"].as_array().map_or(&[][..], Vec::as_slice);
    events.iter().any(matters).then_some(Ok(()))
}

/// A number of 64 bits is a text in JSON.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

/// The end of all keys that begin with this.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // It ends with a slash.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// The members, the history of thousands of failovers, and the rest. A single line of a watch is shorter.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Members, and a dozen of others.
const KEYS_MAX: usize = 1100;

#[cfg(test)]
mod tests {
    use super::*;

    fn etcd() -> Etcd {
        Etcd { addresses: Vec::new(), prefix: "/service/main/".into(), login: None, ca_file: None }
    }

    fn state(pairs: &[(&str, &str, u64)]) -> Value {
        let pair = |(key, value, lease): &(&str, &str, u64)| {
            let key = STANDARD.encode(format!("/service/main/{key}"));
            json!({ "key": key, "value": STANDARD.encode(value), "lease": lease.to_string(), "mod_revision": "5" })
        };
        let kvs: Vec<Value> = pairs.iter().map(pair).collect();
        json!({ "header": { "cluster_id": "14841639068965178418", "member_id": "1", "revision": "57", "raft_term": "3" }, "kvs": kvs })
    }

    const N1: (&str, &str, u64) = (
        "members/n1",
        r#"{"conn_url":"postgres://10.0.0.1:5432/postgres","api_url":"http://10.0.0.1:8008/patroni","state":"running","role":"master","version":"3.0.2","xlog_location":50332112,"timeline":3}"#,
        7,
    );
    const N2: (&str, &str, u64) = (
        "members/n2",
        r#"{"conn_url":"postgres://[fd00::2]:5433/postgres","api_url":"https://[fd00::2]:8008/patroni","timeline":3}"#,
        8,
    );

    #[test]
    fn the_keys_of_patroni_are_read() {
        let config = ("config", r#"{"ttl":20,"loop_wait":5,"pause":true}"#, 0);
        let (read, lease) =
            answer(&etcd(), &state(&[config, ("leader", "n1", 99), N1, N2, ("status", "{}", 0)])).expect("an answer");
        assert_eq!(
            (read.version, lease.as_deref()),
            (StoreVersion { store: 14_841_639_068_965_178_418, term: 3, revision: 57 }, Some("99"))
        );
        assert!(read.is_paused && read.lock == Some((Duration::from_secs(20), Duration::from_secs(5))));
        let [one, two] = &read.members[..] else { panic!("{read:?}") };
        assert_eq!(
            (&*one.name, &*one.place, one.agent.as_deref(), one.is_leader, one.timeline),
            ("n1", "10.0.0.1:5432", Some("http://10.0.0.1:8008"), true, 3)
        );
        assert_eq!(
            (&*two.place, two.agent.as_deref(), two.is_leader),
            ("[fd00::2]:5433", Some("https://[fd00::2]:8008"), false)
        );
        let standby = ("config", r#"{"standby_cluster":{"host":"x"}}"#, 0);
        let (read, lease) = answer(&etcd(), &state(&[standby, ("leader", "n1", 99), N1])).expect("an answer");
        assert!(!read.members[0].is_leader && lease.is_none());
    }

    #[test]
    fn what_cannot_be_read_is_left_out_or_refused() {
        let odd = [
            ("members/a", "7", 0),
            ("members/b", r#"{"conn_url":"postgres:///tmp"}"#, 0),
            ("members/c", r#"{"conn_url":"postgres://u:p@h:70000/x"}"#, 0),
            ("members/d", r#"{"conn_url":"postgres://u:p@h/x"}"#, 0),
            ("leader", "x\n", 0),
            ("config", "[", 0),
        ];
        let (read, lease) = answer(&etcd(), &state(&odd)).expect("an answer");
        assert_eq!((read.members.len(), &*read.members[0].place, lease), (1, "h:5432", None));
        assert_eq!(answer(&etcd(), &json!({})).expect_err("no header"), "/v3/kv/range: it tells no cluster_id");
        assert_eq!(answer(&etcd(), &state(&[])).expect_err("nothing"), "it has no key that begins with /service/main/");
        let other = json!({ "header": { "cluster_id": 1, "revision": 1, "raft_term": 1 }, "kvs": [{ "key": "!", "value": 7 }, 8] });
        assert!(answer(&etcd(), &other).expect("nothing of ours").0.members.is_empty());
    }

    #[test]
    fn a_watch_tells_what_matters() {
        let key = |key: &str| STANDARD.encode(format!("/service/main/{key}"));
        let event = |name: &str| json!({ "result": { "header": {}, "events": [{ "type": "DELETE", "kv": { "key": key(name) } }] } });
        assert_eq!(change(&etcd(), &json!({ "result": { "header": {}, "created": true } })), None);
        assert_eq!(change(&etcd(), &event("status")), None);
        for name in ["leader", "members/n1", "config"] {
            assert_eq!(change(&etcd(), &event(name)), Some(Ok(())));
        }
        let compacted = json!({ "result": { "canceled": true, "cancel_reason": "compacted" } });
        assert_eq!(change(&etcd(), &compacted), Some(Err("compacted".to_owned())));
        assert_eq!(change(&etcd(), &json!({ "error": { "message": "no leader" } })), Some(Err("no leader".to_owned())));
        assert_eq!(change(&etcd(), &Value::Null), None);
    }
}
