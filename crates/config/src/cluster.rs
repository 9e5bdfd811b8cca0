//! PostgreSQL servers that replicate each other: a line of `[clusters]`.
//!
//! Always true: a cluster has at least one host, each once, unless its agents are to name them; and a user by whom they are checked. A
//! message never repeats a password.
//! Not here: which of them is the primary (crate `cluster`), checking them (`control::clusters`), members that agents have named
//! (`members`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::Words;
use crate::database::Password;
use crate::endpoint::Endpoint;
use crate::etcd::{Etcd, EtcdLine};
use crate::host::{Host, PORT, match_ports, ports};
use crate::host_traits::HostTraits;
use crate::mistake::Wrong;
use crate::pairs::{limit, pairs, time, unrecognized, word};

/// PostgreSQL servers of which one at a time is the primary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// The name by which databases refer to it.
    pub name: Arc<str>,
    /// The hosts; empty only while no member is known of a cluster that is told its members.
    pub hosts: Vec<Host>,
    /// Whether its hosts are the members that Patroni tells: there is no `hosts=`.
    pub is_told_members: bool,
    /// The hosts as written.
    pub(crate) host_text: Arc<str>,
    /// The port of the first host, and of all of them unless [`Cluster::hosts_with_ports`] says otherwise.
    pub(crate) port: u16,
    /// The port of each host, if they were given one each.
    pub(crate) ports: Vec<u16>,
    /// The weights and zones of the hosts.
    pub(crate) traits: HostTraits,
    /// The user who checks the hosts.
    pub user: Arc<str>,
    /// The password of that user.
    pub password: Option<Password>,
    /// The database in which the hosts are checked.
    pub dbname: Arc<str>,
    /// Patroni's REST interface on each member, as written; empty without Patroni.
    pub patroni: Vec<Arc<Endpoint>>,
    /// Patroni's REST interfaces of members that were told, besides.
    pub(crate) told_agents: Vec<Arc<Endpoint>>,
    /// Patroni's name for the cluster (`scope`), if it is written or the store of the agents is asked.
    pub scope: Option<Arc<str>>,
    /// Where Patroni keeps what it knows; `None` if that is not asked.
    pub etcd: Option<Etcd>,
    /// User and password for Patroni's REST interface.
    pub patroni_login: Option<(Arc<str>, Password)>,
    /// The file of the authorities that certify Patroni; `None` stands for the system's.
    pub patroni_ca_file: Option<Arc<str>>,
    /// The command that stops or demotes the primary in a switchover without Patroni.
    pub demote_command: Option<Arc<str>>,
    /// How long that may take before it is killed, from 1 to 590 s.
    pub demote_timeout: Duration,
    /// The time between two checks of a host, from 0.1 to 60 s.
    pub check_interval: Duration,
    /// How long clients are held at most in a switchover or by HOLD, from 1 to 600 s.
    pub hold_timeout: Duration,
    /// How long a switchover waits for open transactions before it ends them.
    pub drain_timeout: Duration,
    /// How many clients of each database are held at most; `None` is without limit.
    pub hold_clients_max: Option<u32>,
    /// How many bytes of clients of each database are held at most; `None` is without limit.
    pub hold_bytes_max: Option<u32>,
    /// Whether writes stop before the primary's lease with Patroni can have run out.
    pub lease_fencing: LeaseFencing,
}

/// Whether writes stop in time for Patroni to promote another host (`lease_fencing`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LeaseFencing {
    /// With Patroni.
    #[default]
    Auto,
    /// Never.
    Off,
}

impl Words for LeaseFencing {
    const ALL: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("off", Self::Off)];
}

impl Cluster {
    /// Parses a line of `[clusters]`.
    pub(crate) fn parse(name: &str, value: &str) -> Result<Self, Vec<Wrong>> {
        if name.len() > base::NAME_BYTES_MAX {
            let text = format!("cluster name too long: {name} (expected at most {} bytes)", base::NAME_BYTES_MAX);
            return Err(vec![Wrong::new(text)]);
        }
        let mut line = Line { name, ..Line::default() };
        let mut wrongs = Vec::new();
        for (key, value) in pairs(value).map_err(|wrong| vec![wrong])? {
            wrongs.extend(line.assign(key, &value).err());
        }
        if !wrongs.is_empty() {
            return Err(wrongs);
        }
        line.cluster().map_err(|wrong| vec![wrong])
    }

    /// The hosts with their ports.
    pub fn hosts_with_ports(&self) -> impl Iterator<Item = (&Host, u16)> {
        let port_at = |place: usize| self.ports.get(place).copied().unwrap_or(self.port);
        self.hosts.iter().enumerate().map(move |(place, host)| (host, port_at(place)))
    }

    /// Patroni's REST interfaces: those that are written, then those of members that were told.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.patroni.iter().chain(&self.told_agents)
    }

    /// Whether its members are checked in the same way as those of another line.
    #[must_use]
    pub fn is_checked_like(&self, other: &Self) -> bool {
        let members = |cluster: &Self| (cluster.hosts.clone(), cluster.ports.clone(), cluster.port);
        let by = |cluster: &Self| (cluster.user.clone(), cluster.password.clone(), cluster.dbname.clone());
        let told = |cluster: &Self| (cluster.is_told_members, cluster.scope.clone(), cluster.etcd.clone());
        members(self) == members(other)
            && by(self) == by(other)
            && told(self) == told(other)
            && self.agents().eq(other.agents())
    }
}

/// The pairs of a line.
#[derive(Default)]
struct Line<'n> {
    name: &'n str,
    hosts: Option<(Vec<Host>, Arc<str>)>,
    ports: Vec<u16>,
    traits: HostTraits,
    user: Option<Arc<str>>,
    password: Option<Password>,
    dbname: Option<Arc<str>>,
    patroni: Vec<Arc<Endpoint>>,
    patroni_user: Option<Arc<str>>,
    patroni_password: Option<Password>,
    patroni_ca_file: Option<Arc<str>>,
    scope: Option<Arc<str>>,
    etcd: EtcdLine,
    demote_command: Option<Arc<str>>,
    demote_timeout: Option<Duration>,
    check_interval: Option<Duration>,
    hold_timeout: Option<Duration>,
    drain_timeout: Option<Duration>,
    hold_clients_max: Option<Option<u32>>,
    hold_bytes_max: Option<Option<u32>>,
    lease_fencing: LeaseFencing,
}

impl Line<'_> {
    fn assign(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        match key {
            "hosts" => {
                let hosts = value.split(',').map(|host| Host::parse(host.trim())).collect::<Result<_, _>>()?;
                self.hosts = Some((hosts, value.into()));
            }
            "port" => self.ports = ports(value)?,
            "weights" => self.traits.set_weights(value)?,
            "zones" => self.traits.set_zones(value)?,
            "user" => self.user = Some(value.into()),
            "password" => self.password = Some(Password::new(value)),
            "dbname" => self.dbname = Some(value.into()),
            "patroni" => self.patroni = value.split(',').map(|url| patroni(url.trim())).collect::<Result<_, _>>()?,
            "patroni_user" => self.patroni_user = Some(value.into()),
            "patroni_password" => self.patroni_password = Some(Password::new(value)),
            "patroni_ca_file" => self.patroni_ca_file = Some(value.into()),
            "scope" => self.scope = Some(value.into()),
            "etcd" | "etcd_prefix" | "etcd_user" | "etcd_password" | "etcd_ca_file" => self.etcd.assign(key, value)?,
            "demote_command" => self.demote_command = Some(value.into()),
            "demote_timeout" => self.demote_timeout = Some(between(key, value, 1.0, 590)?),
            "check_interval" => self.check_interval = Some(between(key, value, 0.1, 60)?),
            "hold_timeout" => self.hold_timeout = Some(between(key, value, 1.0, 600)?),
            "drain_timeout" => self.drain_timeout = Some(between(key, value, 0.0, 600)?),
            "hold_clients_max" => self.hold_clients_max = Some(limit(key, value)?),
            "hold_bytes_max" => self.hold_bytes_max = Some(limit(key, value)?),
            "lease_fencing" => self.lease_fencing = word(key, value)?,
            _ => return Err(unrecognized("cluster", key, CLUSTER_KEYS)),
        }
        Ok(())
    }

    fn cluster(self) -> Result<Cluster, Wrong> {
        let needs = |what: &str| Wrong::new(format!("cluster \"{}\" has no {what}", self.name));
        let etcd = self.etcd.etcd(self.scope.as_deref().unwrap_or(self.name))?;
        let scope = self.scope.or_else(|| etcd.is_some().then(|| self.name.into()));
        let is_told_members = self.hosts.is_none() && (!self.patroni.is_empty() || etcd.is_some());
        if is_told_members && !self.ports.is_empty() {
            return Err(Wrong::new("port= needs hosts="));
        }
        let none = is_told_members.then(|| (Vec::new(), Arc::default()));
        let no_hosts = || needs("hosts=").advise(Some(TOLD_BY.to_owned()));
        let (hosts, host_text) = self.hosts.or(none).ok_or_else(no_hosts)?;
        let user = self.user.ok_or_else(|| needs("user=").advise(Some(CHECKED_BY.to_owned())))?;
        let mut ports = self.ports;
        let port = ports.first().copied().unwrap_or(PORT);
        match_ports(&mut ports, hosts.len().max(1))?;
        self.traits.match_hosts(hosts.len().max(1))?;
        let patroni_login = match (self.patroni_user, self.patroni_password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err(Wrong::new("patroni_user= and patroni_password= need each other")),
        };
        let cluster = Cluster {
            name: self.name.into(),
            hosts,
            is_told_members,
            host_text,
            port,
            ports,
            traits: self.traits,
            user,
            password: self.password,
            dbname: self.dbname.unwrap_or_else(|| "postgres".into()),
            patroni: self.patroni,
            told_agents: Vec::new(),
            scope,
            etcd,
            patroni_login,
            patroni_ca_file: self.patroni_ca_file,
            demote_command: self.demote_command,
            demote_timeout: self.demote_timeout.unwrap_or(Duration::from_secs(120)),
            check_interval: self.check_interval.unwrap_or(Duration::from_millis(500)),
            hold_timeout: self.hold_timeout.unwrap_or(Duration::from_secs(30)),
            drain_timeout: self.drain_timeout.unwrap_or(Duration::from_secs(10)),
            hold_clients_max: self.hold_clients_max.unwrap_or(Some(HOLD_CLIENTS_MAX)),
            hold_bytes_max: self.hold_bytes_max.unwrap_or(Some(HOLD_BYTES_MAX)),
            lease_fencing: self.lease_fencing,
        };
        let mut seen = BTreeSet::new();
        if let Some((host, port)) = cluster.hosts_with_ports().find(|place| !seen.insert(*place)) {
            return Err(Wrong::new(format!("host {} is there twice", host.at(port))));
        }
        if cluster.hosts.len() > HOSTS_MAX || cluster.patroni.len() > HOSTS_MAX {
            return Err(Wrong::new(format!("more than {HOSTS_MAX} hosts")));
        }
        Ok(cluster)
    }
}

/// Parses the URL of Patroni's REST interface.
fn patroni(text: &str) -> Result<Arc<Endpoint>, Wrong> {
    let elsewhere = "write patroni_user= and patroni_password=";
    let wrong = |why| Wrong::new(format!("invalid patroni: expected a URL such as http://10.0.0.1:8008: {why}"));
    let endpoint = Endpoint::parse_with(text, "/", elsewhere).map_err(wrong)?;
    match &*endpoint.target {
        "/" => Ok(Arc::new(endpoint)),
        _ => Err(wrong("it has a path".to_owned())),
    }
}

fn between(key: &str, value: &str, least: f64, most: u16) -> Result<Duration, Wrong> {
    let secs = time(key, value)?.filter(|time| time.as_secs_f64() >= least && time.as_secs_f64() <= f64::from(most));
    secs.ok_or_else(|| Wrong::new(format!("invalid {key}: {value} (expected seconds from {least} to {most})")))
}

/// The keys of a line of `[clusters]`.
pub(crate) const CLUSTER_KEYS: &[&str] = &[
    "hosts",
    "port",
    "weights",
    "zones",
    "user",
    "password",
    "dbname",
    "patroni",
    "patroni_user",
    "patroni_password",
    "patroni_ca_file",
    "scope",
    "etcd",
    "etcd_prefix",
    "etcd_user",
    "etcd_password",
    "etcd_ca_file",
    "demote_command",
    "demote_timeout",
    "check_interval",
    "hold_timeout",
    "drain_timeout",
    "hold_clients_max",
    "hold_bytes_max",
    "lease_fencing",
];

const CHECKED_BY: &str = "it checks the hosts, for which a role with LOGIN is enough";
const TOLD_BY: &str = "with patroni= or etcd= they may be left out: the members of Patroni are the hosts then";
/// `hold_clients_max` and `hold_bytes_max` of lines that do not say.
const HOLD_CLIENTS_MAX: u32 = 50_000;
const HOLD_BYTES_MAX: u32 = 256 << 20;
/// More members than any cluster has.
pub(crate) const HOSTS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn good(value: &str) -> Cluster {
        Cluster::parse("main", value).expect("a good line")
    }

    fn bad(value: &str) -> String {
        Cluster::parse("main", value).expect_err("a bad line").remove(0).text
    }

    #[test]
    fn every_documented_key_is_taken() {
        for key in CLUSTER_KEYS {
            let value = match *key {
                "hosts" => continue,
                "patroni" => "http://a:8008,https://b:8008",
                "etcd" => "http://a:2379",
                "etcd_prefix" | "etcd_ca_file" => "x etcd=http://a:2379",
                "etcd_user" => "x etcd_password=y etcd=http://a:2379",
                "etcd_password" => "y etcd_user=x etcd=http://a:2379",
                "lease_fencing" => "off",
                "patroni_user" => "x patroni_password=y",
                "patroni_password" => "y patroni_user=x",
                _ => "7",
            };
            let text = format!("hosts=a,b user=u {key}={value}");
            assert_ne!(good(&text), good("hosts=a,b user=u"), "{text}");
        }
    }

    #[test]
    fn hosts_have_one_port_or_one_each() {
        let places = |line: &str| good(line).hosts_with_ports().map(|(host, port)| host.at(port)).collect::<Vec<_>>();
        assert_eq!(places("hosts=a,10.0.0.2 user=u"), ["a:5432", "10.0.0.2:5432"]);
        assert_eq!(places("hosts=a,a port=1,2 user=u"), ["a:1", "a:2"]);
        assert_eq!(bad("hosts=a,b port=1,2,3 user=u"), "could not match 3 port numbers to 2 hosts");
        assert_eq!(bad("hosts=a,b,a user=u"), "host a:5432 is there twice");
    }

    #[test]
    fn hosts_have_weights_and_zones() {
        let cluster = good("hosts=a,b weights=3,1 zones=x,y user=u");
        assert_eq!((cluster.traits.weight_at(0), cluster.traits.zone_at(1).map(|zone| &**zone)), (3, Some("y")));
        assert_eq!(bad("hosts=a,b weights=1,2,3 user=u"), "could not match 3 weights to 2 hosts");
        assert!(cluster.is_checked_like(&good("hosts=a,b user=u")), "they do not change how hosts are checked");
    }

    #[test]
    fn what_a_line_lacks_is_said() {
        assert_eq!(bad("user=u"), "cluster \"main\" has no hosts=");
        assert_eq!(bad("patroni=http://a:8008 port=1 user=u"), "port= needs hosts=");
        assert_eq!(bad("hosts=a"), "cluster \"main\" has no user=");
        assert_eq!(bad("hosts=a user=u patroni_user=x"), "patroni_user= and patroni_password= need each other");
        assert_eq!(bad("hosts=a user=u host=b"), "unrecognized cluster parameter: host");
    }

    #[test]
    fn bad_values_are_named_and_passwords_are_not() {
        assert_eq!(
            bad("hosts=a user=u check_interval=0.05"),
            "invalid check_interval: 0.05 (expected seconds from 0.1 to 60)"
        );
        assert_eq!(
            bad("hosts=a user=u hold_timeout=601"),
            "invalid hold_timeout: 601 (expected seconds from 1 to 600)"
        );
        let told = bad("hosts=a user=u patroni=http://u:s3cret@a:8008");
        assert!(told.contains("it has a user in it") && !told.contains("s3cret"), "{told}");
        assert!(bad("hosts=a user=u patroni=http://a:8008/cluster").contains("it has a path"));
        let told = format!(
            "{:?}",
            good(
                "hosts=a user=u password=s3cret patroni_user=p patroni_password=s3cret etcd=http://a:1 etcd_user=e etcd_password=s3cret"
            )
        );
        assert!(!told.contains("s3cret"), "{told}");
    }
}
