//! Patroni's REST interface: who is the leader, and orders.
//!
//! Always true: an answer is bounded in size and time.
//! Not here: what is ordered when (`course`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::node::Node;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) node: Node,
    pub(super) is_leader: bool,
    /// Whether commits wait for it.
    pub(super) is_synchronous: bool,
    /// "running"; of a standby since Patroni 3.0.4 "streaming".
    pub(super) state: String,
    pub(super) timeline: Option<u64>,
    /// How much of the leader's log a standby lacks, if that is known.
    pub(super) lag_bytes: Option<u64>,
}

/// The members of the cluster, as the first node sees them that answers.
pub(super) fn members() -> Vec<Member> {
    let answer = Node::ALL.into_iter().find_map(|node| call(&node.address(), 8008, "GET", "/cluster", ""));
    answer.and_then(|text| serde_json::from_str(&text).ok()).map(|cluster| read(&cluster)).unwrap_or_default()
}

fn read(cluster: &Value) -> Vec<Member> {
    let members = cluster["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let member = |member: &Value| {
        Some(Member {
            node: Node::named(member["name"].as_str()?)?,
            is_leader: member["role"] == "leader",
            is_synchronous: member["role"] == "sync_standby",
            state: member["state"].as_str()?.to_owned(),
            timeline: member["timeline"].as_u64(),
            lag_bytes: member["lag"].as_u64(),
        })
    };
    members.iter().filter_map(member).collect()
}

/// The leader, if it runs, and all of these nodes follow it closely.
pub(super) fn settled(members: &[Member], wanted: &[Node]) -> Option<Node> {
    let leader = members.iter().find(|member| member.is_leader && member.state == "running")?;
    let following = following(members, leader);
    wanted.iter().all(|node| following.contains(node)).then_some(leader.node)
}

/// Those of these nodes that do not follow the leader closely; none if none runs.
pub(super) fn strays(members: &[Member], wanted: &[Node]) -> Vec<Node> {
    let Some(leader) = members.iter().find(|member| member.is_leader && member.state == "running") else {
        return Vec::new();
    };
    let following = following(members, leader);
    wanted.iter().copied().filter(|node| !following.contains(node)).collect()
}

fn following(members: &[Member], leader: &Member) -> Vec<Node> {
    let follows = |member: &&Member| {
        ["running", "streaming"].contains(&member.state.as_str())
            && member.timeline == leader.timeline
            && (member.is_leader || member.lag_bytes.is_some_and(|lag| lag < CLOSE_BYTES))
    };
    members.iter().filter(follows).map(|member| member.node).collect()
}

/// Asks for a planned switchover. The answer comes when it is over.
pub(super) fn switch_over(leader: Node, candidate: Node) -> Option<String> {
    let order = json!({"leader": leader.name(), "candidate": candidate.name()});
    call(&leader.address(), 8008, "POST", "/switchover", &order.to_string())
}

/// Asks for a planned switchover at a time, as `2026-11-30T07:00:00+00:00`.
pub(super) fn schedule(leader: Node, candidate: Node, at: &str) -> Option<String> {
    let order = json!({"leader": leader.name(), "candidate": candidate.name(), "scheduled_at": at});
    call(&leader.address(), 8008, "POST", "/switchover", &order.to_string())
}

/// Copies a standby anew.
pub(super) fn reinitialize(node: Node) -> Option<String> {
    call(&node.address(), 8008, "POST", "/reinitialize", &json!({"force": true}).to_string())
}

/// Changes the settings that all members share; `null` removes one. They take effect within `loop_wait`.
pub(super) fn configure(settings: &Value) -> Result<(), String> {
    let text = settings.to_string();
    let answer = Node::ALL.into_iter().find_map(|node| call(&node.address(), 8008, "PATCH", "/config", &text));
    answer.map(drop).ok_or_else(|| format!("nobody takes the settings {text}"))
}

/// What a node knows of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Etcd {
    pub(super) node: Node,
    pub(super) is_leader: bool,
    /// How often the leader has changed, as the node has seen it.
    pub(super) changes: u64,
}

/// Of the nodes that answer.
pub(super) fn etcd() -> Vec<Etcd> {
    let ask = |node| read_etcd(node, &call(&node.etcd_address(), 2379, "GET", "/metrics", "")?);
    Node::ALL.into_iter().filter_map(ask).collect()
}

fn read_etcd(node: Node, metrics: &str) -> Option<Etcd> {
    let value = |name: &str| {
        metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<f64>().ok())
    };
    let changes = value("etcd_server_leader_changes_seen_total")? as u64;
    Some(Etcd { node, is_leader: value("etcd_server_is_leader")? > 0.0, changes })
}

/// The body of an answer in HTTP/1.0, of which the end of the connection is the end.
fn call(host: &str, port: u16, method: &str, path: &str, body: &str) -> Option<String> {
    let address: SocketAddr = format!("{host}:{port}").parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(if body.is_empty() { 3 } else { 60 }))).ok()?;
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// A standby with less lag follows closely: Patroni reads the lag every few seconds, and there are always writes.
const CLOSE_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(state: &str, lag: &str) -> Vec<Member> {
        let text = format!(
            r#"{{"members": [
                {{"name": "n1", "role": "leader", "state": "running", "timeline": 4}},
                {{"name": "n2", "role": "replica", "state": "{state}", "timeline": 4, "lag": {lag}}}]}}"#
        );
        read(&serde_json::from_str(&text).expect("JSON"))
    }

    #[test]
    fn a_cluster_is_settled_when_all_follow_the_leader() {
        let [first, second, third] = Node::ALL;
        for state in ["running", "streaming"] {
            assert_eq!(settled(&cluster(state, "0"), &[first, second]), Some(first));
        }
        assert_eq!(settled(&cluster("starting", "0"), &[first, second]), None);
        assert_eq!(settled(&cluster("running", "\"unknown\""), &[first, second]), None);
        assert_eq!(settled(&cluster("running", "2000000"), &[first, second]), None);
        assert_eq!(settled(&cluster("running", "0"), &[first, second, third]), None, "a member is missing");
        assert_eq!(settled(&[], &[first]), None);
        assert_eq!(strays(&cluster("starting", "0"), &[first, second]), [second]);
        assert_eq!(strays(&[], &[first]), []);
    }

    #[test]
    fn the_metrics_of_etcd_tell_its_leader() {
        let text =
            "# TYPE etcd_server_is_leader gauge\netcd_server_is_leader 1\netcd_server_leader_changes_seen_total 2\n";
        let [node, ..] = Node::ALL;
        assert_eq!(read_etcd(node, text), Some(Etcd { node, is_leader: true, changes: 2 }));
        assert_eq!(read_etcd(node, ""), None);
    }
}
