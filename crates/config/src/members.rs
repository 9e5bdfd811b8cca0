//! Members of a cluster that its agents have told: how they come into the settings in force.
//!
//! Always true: only a cluster without `hosts=` is told its members; there are at most [`HOSTS_MAX`] of them, each once, and all databases
//! of the cluster have the same.
//! Not here: which members there are (crate `cluster`), who puts changed settings in force (`control`).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::Settings;
use crate::cluster::{Cluster, HOSTS_MAX};
use crate::database::Database;
use crate::endpoint::Endpoint;
use crate::host::Host;

/// A member of a cluster that its agents have told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToldMember {
    /// Its host and port: `10.0.0.1:5432`.
    pub place: Arc<str>,
    /// The URL of its agent.
    pub agent: Option<Arc<str>>,
}

impl Settings {
    /// These settings with these members of a cluster. `None` if nothing changes.
    #[must_use]
    pub fn with_members(&self, name: &str, told: &[ToldMember]) -> Option<Self> {
        let old = self.clusters.get(name).filter(|cluster| cluster.is_told_members)?;
        let new = old.with_members(told);
        (new != **old).then(|| self.with_cluster(new))
    }

    /// Keeps the members that settings before have been told, where a cluster is told by the same agents.
    pub fn keep_members(&mut self, before: &Self) {
        for (name, old) in &before.clusters {
            let Some(new) = self.clusters.get(name).filter(|new| new.is_told_like(old)) else { continue };
            let is_new = |agent: &&Arc<Endpoint>| !new.patroni.iter().any(|own| own.authority() == agent.authority());
            let told_agents = old.agents().filter(is_new).filter(|agent| new.may_ask(agent)).take(HOSTS_MAX);
            let kept = Cluster {
                hosts: old.hosts.clone(),
                ports: old.ports.clone(),
                port: old.port,
                host_text: Arc::clone(&old.host_text),
                told_agents: told_agents.cloned().collect(),
                ..Cluster::clone(new)
            };
            *self = self.with_cluster(kept);
        }
    }

    fn with_cluster(&self, cluster: Cluster) -> Self {
        let mut new = self.clone();
        let name = Arc::clone(&cluster.name);
        let of_cluster = |database: &&mut Arc<Database>| database.cluster.as_ref() == Some(&name);
        for database in new.databases.values_mut().chain(&mut new.fallback).filter(of_cluster) {
            Arc::make_mut(database).take_hosts(&cluster);
        }
        new.clusters.insert(name, Arc::new(cluster));
        new
    }
}

impl Cluster {
    /// The members as they are told to others: to the next process, for instance.
    pub fn told_members(&self) -> impl Iterator<Item = ToldMember> {
        let agents = self.told_agents.iter().map(|agent| Some(agent.to_string().into())).chain(std::iter::repeat(None));
        // Which agent is whose does not matter here.
        let hosts = self.hosts_with_ports().filter(|_| self.is_told_members);
        hosts.zip(agents).map(|((host, port), agent)| ToldMember { place: host.at(port).into(), agent })
    }

    fn with_members(&self, told: &[ToldMember]) -> Self {
        let mut seen = BTreeSet::new();
        let places = told.iter().filter_map(|member| Host::told_at(&member.place));
        let places: Vec<(Host, u16)> = places.filter(|place| seen.insert(place.clone())).take(HOSTS_MAX).collect();
        let mut asked: BTreeSet<String> = self.patroni.iter().map(|agent| agent.authority()).collect();
        let urls = told.iter().filter_map(|member| member.agent.as_deref());
        let agents = urls.filter_map(|url| Endpoint::parse_with(url, "/", "").ok()).filter(|agent| self.may_ask(agent));
        let told_agents =
            agents.filter(|agent| asked.insert(agent.authority())).take(HOSTS_MAX).map(Arc::new).collect();
        let texts: Vec<String> = places.iter().map(|(host, _)| host.text()).collect();
        let (hosts, ports): (Vec<Host>, Vec<u16>) = places.into_iter().unzip();
        let port = ports.first().copied().unwrap_or(self.port);
        Self { hosts, ports, port, host_text: texts.join(",").into(), told_agents, ..self.clone() }
    }

    /// Whether an agent is asked that was told: not in clear, if those that are written are not.
    fn may_ask(&self, agent: &Endpoint) -> bool {
        agent.is_tls || self.patroni.is_empty() || self.patroni.iter().any(|written| !written.is_tls)
    }

    /// Whether it is told its members by some of the same agents as another line.
    fn is_told_like(&self, other: &Self) -> bool {
        let addresses = |cluster: &Self| cluster.etcd.as_ref().map(|etcd| etcd.addresses.clone()).unwrap_or_default();
        let is_same_store = addresses(self).iter().any(|address| addresses(other).contains(address));
        let is_same_agent =
            self.patroni.iter().any(|agent| other.agents().any(|old| old.authority() == agent.authority()));
        let is_scope_same = self.scope == other.scope;
        self.is_told_members && other.is_told_members && is_scope_same && (is_same_store || is_same_agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> Settings {
        let text = format!(
            "[clusters]\nmain = {line}\n[databases]\nrw = cluster=main\nro = cluster=main role=replica\nother = host=x\n\
             * = cluster=main\n[pgbouncer]\nauth_type = any\n"
        );
        let read = |_: &str| Ok(text.clone().into_bytes());
        crate::load("ini", &read, &crate::Overrides::default()).expect("a configuration").settings
    }

    fn told(places: &[(&str, &str)]) -> Vec<ToldMember> {
        let member =
            |(place, agent): &(&str, &str)| ToldMember { place: (*place).into(), agent: Some((*agent).into()) };
        places.iter().map(member).collect()
    }

    fn hosts(settings: &Settings, database: &str) -> Vec<String> {
        let database = settings.database(database).expect("a database");
        database.hosts_with_ports().map(|(host, port)| host.at(port)).collect()
    }

    fn agents(settings: &Settings) -> Vec<String> {
        settings.clusters["main"].agents().map(|agent| agent.authority()).collect()
    }

    const LINE: &str = "patroni=http://a:8008 user=u";

    #[test]
    fn all_databases_of_a_cluster_get_the_members_that_were_told() {
        let empty = settings(LINE);
        assert!(hosts(&empty, "rw").is_empty() && hosts(&empty, "any").is_empty());
        let members = told(&[("a:5432", "http://a:8008"), ("[fd00::1]:5433", "http://[fd00::1]:8008")]);
        let new = empty.with_members("main", &members).expect("changed settings");
        for database in ["rw", "ro", "any"] {
            assert_eq!(hosts(&new, database), ["a:5432", "[fd00::1]:5433"]);
        }
        assert_eq!(new.database("rw").expect("rw").host_text.as_deref(), Some("a,fd00::1"));
        assert_eq!(
            (hosts(&new, "other"), agents(&new)),
            (vec!["x:5432".to_owned()], vec!["a:8008".to_owned(), "[fd00::1]:8008".to_owned()])
        );
        assert!(Arc::ptr_eq(&new.databases["other"], &empty.databases["other"]));
        assert_eq!(new.with_members("main", &members), None, "nothing has changed");
        assert_eq!(new.with_members("x", &members), None);
        let fixed = settings("hosts=a patroni=http://a:8008 user=u");
        assert_eq!(fixed.with_members("main", &members), None, "hosts= is the list");
        let again: Vec<ToldMember> = new.clusters["main"].told_members().collect();
        assert_eq!(empty.with_members("main", &again).as_ref(), Some(&new));
    }

    #[test]
    fn what_is_no_member_is_left_out_and_there_is_an_end() {
        let odd =
            told(&[("/tmp:1", "ftp://a"), ("a:5432", "http://u:p@b:1"), ("a:5432", "http://b:8008/"), ("b", "x")]);
        let new = settings(LINE).with_members("main", &odd).expect("one member");
        assert_eq!(
            (hosts(&new, "rw"), agents(&new)),
            (vec!["a:5432".to_owned()], vec!["a:8008".to_owned(), "b:8008".to_owned()])
        );
        let many: Vec<ToldMember> = (1..1000)
            .map(|n| ToldMember { place: format!("h{n}:5432").into(), agent: Some(format!("http://h{n}:8008").into()) })
            .collect();
        let new = settings(LINE).with_members("main", &many).expect("members");
        assert_eq!((hosts(&new, "rw").len(), agents(&new).len()), (HOSTS_MAX, HOSTS_MAX + 1));
        // Who proves himself by a certificate is not left for somebody who does not.
        let new = settings("patroni=https://a:8008 user=u").with_members("main", &told(&[("b:1", "http://b:8008")]));
        assert_eq!(agents(&new.expect("a member")), ["a:8008"]);
    }

    #[test]
    fn a_reload_keeps_the_members_while_an_agent_is_the_same() {
        let members = told(&[("a:5432", "http://a:8008"), ("b:5432", "http://b:8008")]);
        let old = settings(LINE).with_members("main", &members).expect("members");
        let reloaded = |line: &str| {
            let mut new = settings(line);
            new.keep_members(&old);
            (hosts(&new, "rw"), agents(&new))
        };
        let both = || vec!["a:5432".to_owned(), "b:5432".to_owned()];
        assert_eq!(reloaded(LINE), (both(), vec!["a:8008".to_owned(), "b:8008".to_owned()]));
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(reloaded("patroni=http://b:8008 user=v"), (both(), named(&["b:8008", "a:8008"])));
        assert_eq!(reloaded("patroni=http://c:8008 user=u"), (vec![], named(&["c:8008"])), "another cluster, perhaps");
        assert_eq!(reloaded("patroni=http://a:8008 scope=x user=u").0, Vec::<String>::new());
        assert_eq!(reloaded("hosts=z patroni=http://a:8008 user=u"), (named(&["z:5432"]), named(&["a:8008"])));
        let mut same = settings(LINE);
        same.keep_members(&old);
        assert_eq!(crate::changes(&old, &same), Vec::<String>::new());
    }
}
