//! etcd's JSON gateway with the keys of Patroni, as the pooler uses it, without etcd.
//!
//! Always true: what it answers is what the test says; a watch ends with the next change.
//! Not here: a store that can be written to, and leases that run out.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::fake_server::FakeServer;
use crate::patroni::read_request;

/// A store with one address.
#[derive(Debug)]
pub struct Etcd {
    server: FakeServer,
    state: Arc<(Mutex<Model>, Condvar)>,
}

/// What it answers.
#[derive(Debug)]
struct Model {
    revision: u64,
    term: u64,
    /// How often it was changed.
    changes: u64,
    /// The seconds that are left of the lock.
    left: i64,
    /// The keys below `/service/main/`, with their values.
    keys: Vec<(String, String)>,
    is_silent: bool,
    /// How many wait for the next change.
    watchers: u32,
    /// User and password, if it asks for them.
    login: Option<(String, String)>,
    /// How often somebody has logged in.
    logins: u32,
}

impl Etcd {
    /// Opens a store that knows the members `node1`, `node2` and so on at these ports of 127.0.0.1; the first one leads.
    ///
    /// # Panics
    /// When no port is free.
    pub fn open(ports: &[u16]) -> Self {
        let member = |(place, port): (usize, &u16)| {
            let url = format!("postgres://127.0.0.1:{port}/postgres");
            (format!("members/node{}", place + 1), json!({ "conn_url": url, "state": "running" }).to_string())
        };
        let config = ("config".to_owned(), json!({ "ttl": 20, "loop_wait": 5 }).to_string());
        let leader = ("leader".to_owned(), "node1".to_owned());
        let keys = ports.iter().enumerate().map(member).chain([config, leader]).collect();
        let model = Model {
            revision: 10,
            term: 2,
            changes: 0,
            left: 18,
            keys,
            is_silent: false,
            watchers: 0,
            login: None,
            logins: 0,
        };
        let state = Arc::new((Mutex::new(model), Condvar::new()));
        let shared = Arc::clone(&state);
        Self { server: FakeServer::open(move |stream| serve(stream, &shared)), state }
    }

    /// The value of `etcd=`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port())
    }

    /// The member of this name leads from now on; its lock lasts for that many seconds.
    pub fn leads(&self, name: &str, left: i64) {
        self.change(|model| {
            model.left = left;
            model.keys.retain(|(key, _)| key != "leader");
            model.keys.push(("leader".to_owned(), name.to_owned()));
        });
    }

    /// It tells an older state than before, in which this member leads.
    pub fn goes_back(&self, name: &str) {
        self.change(|model| {
            model.revision = 3;
            model.keys.retain(|(key, _)| key != "leader");
            model.keys.push(("leader".to_owned(), name.to_owned()));
        });
    }

    /// It answers, or does not.
    pub fn is_silent(&self, is_silent: bool) {
        self.change(|model| model.is_silent = is_silent);
    }

    /// It asks for a login from now on, and knows no token.
    pub fn asks_for_login(&self, user: &str, password: &str) {
        self.change(|model| (model.login, model.logins) = (Some((user.to_owned(), password.to_owned())), 0));
    }

    /// The tokens that it has given are not valid any more, as after a while.
    pub fn forgets_tokens(&self) {
        lock(&self.state.0).logins += 100;
    }

    /// Whether somebody waits for the next change.
    pub fn is_watched(&self) -> bool {
        lock(&self.state.0).watchers > 0
    }

    /// How often somebody has logged in.
    pub fn logins(&self) -> u32 {
        lock(&self.state.0).logins
    }

    fn change(&self, change: impl FnOnce(&mut Model)) {
        let mut model = lock(&self.state.0);
        model.revision += 1;
        model.changes += 1;
        change(&mut model);
        self.state.1.notify_all();
    }
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the request of a connection.
fn serve(mut stream: TcpStream, state: &(Mutex<Model>, Condvar)) {
    let Some((head, body)) = read_request(&mut stream) else { return };
    if lock(&state.0).is_silent {
        return;
    }
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let token =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("authorization: ").map(str::to_owned));
    let (status, answer) = answer(&mut lock(&state.0), &path, &asked, token.as_deref());
    if path == "/v3/watch" && status == 200 {
        return watch(stream, &asked, state);
    }
    let answer = answer.to_string();
    let length = answer.len();
    let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}");
}

fn answer(model: &mut Model, path: &str, asked: &Value, token: Option<&str>) -> (u16, Value) {
    if path == "/v3/auth/authenticate" {
        let (user, password) = (asked["name"].as_str(), asked["password"].as_str());
        let is_right = model.login.as_ref().is_some_and(|(name, word)| user == Some(name) && password == Some(word));
        model.logins += u32::from(is_right);
        return match is_right {
            true => (200, json!({ "token": format!("t.{}", model.logins) })),
            false => (400, json!({ "error": "etcdserver: authentication failed, invalid user ID or password" })),
        };
    }
    if model.login.is_some() && token != Some(&*format!("t.{}", model.logins)) {
        return (401, json!({ "error": "etcdserver: invalid auth token", "code": 16 }));
    }
    match path {
        "/v3/kv/range" if asked["key"] == json!(STANDARD.encode("/service/main/")) => {
            let pair = |(key, value): &(String, String)| {
                let lease = if key == "leader" { "77" } else { "0" };
                json!({ "key": STANDARD.encode(format!("/service/main/{key}")), "value": STANDARD.encode(value), "lease": lease })
            };
            let kvs: Vec<Value> = model.keys.iter().map(pair).collect();
            (200, json!({ "header": header(model), "kvs": kvs }))
        }
        "/v3/lease/timetolive" if asked["ID"] == json!("77") => {
            (200, json!({ "ID": "77", "TTL": model.left.to_string(), "grantedTTL": "20" }))
        }
        "/v3/watch" => (200, Value::Null),
        _ => (404, json!({ "error": "not found" })),
    }
}

fn header(model: &Model) -> Value {
    json!({ "cluster_id": "1", "member_id": "2", "revision": model.revision.to_string(), "raft_term": model.term.to_string() })
}

/// Tells the next change after the revision that was asked for.
fn watch(mut stream: TcpStream, asked: &Value, state: &(Mutex<Model>, Condvar)) {
    let start = asked["create_request"]["start_revision"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut model = lock(&state.0);
    let created = json!({ "result": { "header": header(&model), "created": true } });
    if write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{created}\n").is_err() {
        return;
    }
    let known = model.changes;
    model.watchers += 1;
    // A watcher that has gone is noticed by then.
    let end = Instant::now() + Duration::from_secs(30);
    while model.revision < start && model.changes == known && !model.is_silent && Instant::now() < end {
        let rest = end.saturating_duration_since(Instant::now());
        model = state.1.wait_timeout(model, rest).unwrap_or_else(PoisonError::into_inner).0;
    }
    model.watchers -= 1;
    let event = json!({ "type": "PUT", "kv": { "key": STANDARD.encode("/service/main/leader") } });
    let _ = writeln!(stream, "{}", json!({ "result": { "header": header(&model), "events": [event] } }));
}
