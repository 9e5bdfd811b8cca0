//! Patroni's REST interface, as the pooler uses it, without Patroni.
//!
//! Always true: each member has an interface of its own; what they answer is what the test says, and a switchover does what the test
//! says.
//! Not here: replication, elections.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fake_server::FakeServer;

/// The interfaces of all members.
#[derive(Debug)]
pub struct Patroni {
    servers: Vec<FakeServer>,
    model: Arc<Mutex<Model>>,
}

/// What they answer.
struct Model {
    /// Name, port and interface of each member.
    members: Vec<(String, u16, u16)>,
    leader: Option<usize>,
    timeline: u32,
    ttl: u64,
    loop_wait: u64,
    is_paused: bool,
    /// Interfaces that do not answer.
    silent: Vec<bool>,
    /// Members that are not told.
    unknown: Vec<bool>,
    /// What interfaces repeat that have stopped to learn: the leader and the timeline.
    stale: Vec<Option<(Option<usize>, u32)>>,
    /// How often a switchover was asked for.
    asked: u32,
    /// When the leader is to hand over, and to which member.
    scheduled: Option<(Timestamp, usize)>,
    switch_over: Option<SwitchOver>,
}

impl Model {
    /// The leader and the timeline, as an interface knows them.
    fn seen_by(&self, own: usize) -> (Option<usize>, u32) {
        self.stale[own].unwrap_or((self.leader, self.timeline))
    }
}

/// What a switchover to the member of this name does.
type SwitchOver = Box<dyn FnMut(&str) -> Result<(), String> + Send>;

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("leader", &self.leader).finish_non_exhaustive()
    }
}

impl Patroni {
    /// Opens an interface for each PostgreSQL at these ports of 127.0.0.1. The members are `node1`, `node2` and so on; the first one
    /// leads.
    ///
    /// # Panics
    /// When no port is free.
    pub fn open(ports: &[u16]) -> Self {
        let model = Model {
            members: Vec::new(),
            leader: Some(0),
            timeline: 1,
            ttl: 20,
            loop_wait: 5,
            is_paused: false,
            silent: vec![false; ports.len()],
            unknown: vec![false; ports.len()],
            stale: vec![None; ports.len()],
            asked: 0,
            scheduled: None,
            switch_over: None,
        };
        let model = Arc::new(Mutex::new(model));
        let servers: Vec<FakeServer> = (0..ports.len())
            .map(|own| {
                let model = Arc::clone(&model);
                FakeServer::open(move |stream| serve(stream, own, &model))
            })
            .collect();
        let patroni = Self { servers, model };
        let members = ports.iter().zip(&patroni.servers).enumerate();
        patroni.model().members =
            members.map(|(own, (port, server))| (format!("node{}", own + 1), *port, server.port())).collect();
        patroni
    }

    /// The value of `patroni=`.
    pub fn urls(&self) -> String {
        let urls: Vec<_> = self.servers.iter().map(|server| format!("http://127.0.0.1:{}", server.port())).collect();
        urls.join(",")
    }

    /// The URL of one interface.
    pub fn url(&self, member: usize) -> String {
        format!("http://127.0.0.1:{}", self.servers[member].port())
    }

    /// A member is not told any more, or is told again.
    pub fn is_unknown(&self, member: usize, is_unknown: bool) {
        self.model().unknown[member] = is_unknown;
    }

    /// Sets how long the leader lock lasts, and how often it is renewed, in seconds.
    pub fn lock_lasts(&self, ttl: u64, loop_wait: u64) {
        let mut model = self.model();
        (model.ttl, model.loop_wait) = (ttl, loop_wait);
    }

    /// This member leads from now on, or none.
    pub fn leads(&self, leader: Option<usize>) {
        let mut model = self.model();
        model.timeline += 1;
        model.leader = leader;
        model.scheduled = None;
    }

    /// Tells from now on that the leader will hand over to this member after this time, which is up to the test. Returns when.
    pub fn schedules(&self, member: usize, after: Duration) -> Timestamp {
        let at = Timestamp::now() + after;
        self.model().scheduled = Some((at, member));
        at
    }

    /// The interface of a member answers, or does not.
    pub fn is_silent(&self, member: usize, is_silent: bool) {
        self.model().silent[member] = is_silent;
    }

    /// The interface of a member repeats from now on what is true now.
    pub fn stops_to_learn(&self, member: usize) {
        let mut model = self.model();
        model.stale[member] = Some((model.leader, model.timeline));
    }

    /// What a switchover does; if it succeeds, the target leads.
    pub fn on_switchover(&self, act: impl FnMut(&str) -> Result<(), String> + Send + 'static) {
        self.model().switch_over = Some(Box::new(act));
    }

    /// How often a switchover was asked for.
    pub fn asked(&self) -> u32 {
        self.model().asked
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.model)
    }
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().expect("nobody panics with it")
}

/// Answers the requests of a connection.
fn serve(mut stream: TcpStream, own: usize, model: &Mutex<Model>) {
    // Patroni closes a connection after its answer.
    if let Some((line, body)) = read(&mut stream).filter(|_| !lock(model).silent[own]) {
        let (status, answer) = match line.rsplit_once(' ').map_or("", |(request, _)| request) {
            "GET /leader" => (if lock(model).seen_by(own).0 == Some(own) { 200 } else { 503 }, "{}".to_owned()),
            "GET /cluster" => (200, view(&lock(model), own).to_string()),
            "GET /config" => {
                let model = lock(model);
                let answer = json!({ "ttl": model.ttl, "loop_wait": model.loop_wait, "pause": model.is_paused });
                (200, answer.to_string())
            }
            "POST /switchover" => switch_over(model, &body),
            other => (404, other.to_owned()),
        };
        let length = answer.len();
        let date = Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
        let _ = write!(stream, "HTTP/1.0 {status} X\r\nDate: {date}\r\nContent-Length: {length}\r\n\r\n{answer}");
    }
}

fn view(model: &Model, own: usize) -> Value {
    let (leader, timeline) = model.seen_by(own);
    let member = |(place, (name, port, agent)): (usize, &(String, u16, u16))| {
        let role = if leader == Some(place) { "leader" } else { "replica" };
        let state = if role == "leader" { "running" } else { "streaming" };
        let api_url = format!("http://127.0.0.1:{agent}/patroni");
        let host = "127.0.0.1";
        json!({ "name": name, "role": role, "state": state, "api_url": api_url, "host": host, "port": port, "timeline": timeline })
    };
    let known = model.members.iter().enumerate().filter(|(place, _)| !model.unknown[*place]);
    let members: Vec<_> = known.map(member).collect();
    let mut view = json!({ "members": members, "scope": "main" });
    if let Some(((at, to), from)) = model.scheduled.zip(leader) {
        let name = |place: usize| &model.members[place].0;
        view["scheduled_switchover"] = json!({ "at": at.to_string(), "from": name(from), "to": name(to) });
    }
    view
}

/// Others are answered while the switchover is under way.
fn switch_over(model: &Mutex<Model>, body: &[u8]) -> (u16, String) {
    let wish: Value = serde_json::from_slice(body).unwrap_or_default();
    let name = wish["candidate"].as_str().unwrap_or_default().to_owned();
    let (place, act) = {
        let mut model = lock(model);
        model.asked += 1;
        (model.members.iter().position(|(member, ..)| *member == name), model.switch_over.take())
    };
    let (Some(place), Some(mut act)) = (place, act) else { return (412, "no such candidate".to_owned()) };
    let outcome = act(&name);
    let mut model = lock(model);
    model.switch_over = Some(act);
    match outcome {
        Ok(()) => {
            model.timeline += 1;
            model.leader = Some(place);
            (200, format!("Successfully switched over to \"{name}\""))
        }
        Err(why) => (503, why),
    }
}

/// Reads one request: its first line and its body.
fn read(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (head, body) = read_request(stream)?;
    Some((head.lines().next()?.to_owned(), body))
}

/// Reads one request: its head and its body.
pub(crate) fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}
