//! The clusters: what their machines want done, and what follows from the outcomes.
//!
//! Always true: there is one machine for each cluster of the configuration; what was asked for a machine that has been replaced is
//! not told to the next one.
//! Not here: decisions (crate `cluster`), questions to hosts and to Patroni (`tasks`).

mod authorities;
mod demotion;
mod etcd;
mod patroni;
mod read_names;
mod session;
mod tasks;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use base::Time;
use cluster::{AgentMember, Cluster, Command, Event, Gate, Heritage, News, Replayed, Summary, Terms};
use config::{LeaseFencing, Settings};

pub(crate) use read_names::ReadNamesAsked;
pub(crate) use tasks::{Means, Sessions};

pub use read_names::{ReadNamesFound, ReadNamesTask};
pub use tasks::ClusterTask;

/// Which machine: those of a cluster have different numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineId {
    /// The cluster.
    pub cluster: Arc<str>,
    number: u64,
}

/// What the rest of the control thread has to do for a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    /// Clients of the primary may write there from now on.
    Gate(Gate),
    /// The hosts of the cluster are tried now.
    TryHosts,
    /// These hosts are suspect, by their hosts and ports, and no others.
    Suspects(BTreeSet<Arc<str>>),
    /// Nobody reads at this host, by its host and port, any more.
    LeaveReplica(Arc<str>),
    /// Tell the workers what replicas have replayed.
    Replayed(Vec<Replayed>),
    /// Tell the machine when no client of the primary has a server.
    Drain(MachineId),
    /// End what is still open.
    EndLoans,
    /// The cluster has these members from now on.
    Members(Vec<AgentMember>),
    /// Log it, and show it as an event.
    Tell(News),
    /// Answer who has ordered the switchover.
    SwitchedOver(Result<Summary, String>),
}

/// A cluster and its machine.
struct Running {
    settings: Arc<config::Cluster>,
    id: MachineId,
    machine: Cluster,
}

/// All clusters.
#[derive(Default)]
pub(crate) struct Clusters {
    running: BTreeMap<Arc<str>, Running>,
    tasks: VecDeque<ClusterTask>,
    numbers: u64,
}

impl Clusters {
    /// Has the clusters of these settings watched, and no others. A machine that takes the place of another
    /// knows what that has found out. Returns the clusters that are gone.
    pub(crate) fn heed(&mut self, now: Time, settings: &Settings) -> Vec<Arc<str>> {
        let clusters = &settings.clusters;
        // A switchover that has been handed over is carried through, whatever the configuration says meanwhile.
        let is_busy = |running: &Running| running.machine.waits_for().is_some();
        let is_gone = |name: &Arc<str>, running: &Running| !clusters.contains_key(name) && !is_busy(running);
        let gone: Vec<Arc<str>> = self
            .running
            .iter()
            .filter(|(name, running)| is_gone(name, running))
            .map(|(name, _)| name.clone())
            .collect();
        self.running.retain(|name, _| !gone.contains(name));
        for (name, new) in clusters {
            match self.running.get_mut(name) {
                Some(running) if running.settings.is_checked_like(new) => {
                    running.settings = Arc::clone(new);
                    running.machine.set_terms(terms_of(new));
                }
                Some(running) if is_busy(running) => {}
                former => {
                    self.numbers += 1;
                    let id = MachineId { cluster: Arc::clone(name), number: self.numbers };
                    let mut machine = machine_of(now, new);
                    if let Some(former) = former {
                        machine.succeed(now, &former.machine);
                    }
                    self.running.insert(Arc::clone(name), Running { settings: Arc::clone(new), id, machine });
                }
            }
        }
        gone
    }

    /// A machine begins with what the one in the process before has known.
    pub(crate) fn inherit_one(&mut self, now: Time, cluster: &str, heritage: &Heritage) {
        if let Some(running) = self.running.get_mut(cluster) {
            running.machine.inherit(now, heritage);
        }
    }

    /// Whether a cluster is watched as these settings say.
    pub(crate) fn is_as_in(&self, cluster: &str, settings: &Settings) -> bool {
        match (self.running.get(cluster), settings.clusters.get(cluster)) {
            (Some(running), Some(new)) => running.settings.is_checked_like(new),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether a switchover of a cluster is under way.
    pub(crate) fn is_busy(&self, cluster: &str) -> bool {
        self.running.get(cluster).is_some_and(|running| running.machine.waits_for().is_some())
    }

    /// Whether the clients of a cluster are held because its agents switch over at a time of their own.
    pub(crate) fn is_following(&self, cluster: &str) -> bool {
        self.running.get(cluster).is_some_and(|running| running.machine.is_following())
    }

    /// Tells a machine of an event. Returns what is to be done for it.
    pub(crate) fn happens(&mut self, now: Time, id: &MachineId, event: Event) -> Vec<Deed> {
        match self.running.get_mut(&id.cluster).filter(|running| running.id == *id) {
            Some(running) => running.handle(now, event, &mut self.tasks),
            None => Vec::new(),
        }
    }

    /// Tells the machine of a cluster of an event.
    pub(crate) fn happens_to(&mut self, now: Time, cluster: &str, event: Event) -> Vec<Deed> {
        match self.running.get_mut(cluster) {
            Some(running) => running.handle(now, event, &mut self.tasks),
            None => Vec::new(),
        }
    }

    /// The clusters for which something is due.
    pub(crate) fn due(&self, now: Time) -> Vec<Arc<str>> {
        let is_due = |running: &Running| running.machine.next_deadline().is_some_and(|deadline| deadline <= now);
        self.running.iter().filter(|(_, running)| is_due(running)).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// When something is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.running.values().filter_map(|running| running.machine.next_deadline()).min()
    }

    /// The question for what a database says of its names; `None` if its cluster has no primary at present.
    pub(crate) fn read_names_task(&self, cluster: &str, asked: ReadNamesAsked) -> Option<ReadNamesTask> {
        let running = self.running.get(cluster)?;
        let primary = running.machine.primary()?;
        let member = running.machine.members().iter().position(|member| member.name() == primary)?;
        Some(ReadNamesTask { cluster: Arc::clone(&running.settings), member, asked })
    }

    /// The next question, or the next step of a switchover; its outcome must be told.
    pub(crate) fn next_task(&mut self) -> Option<ClusterTask> {
        self.tasks.pop_front()
    }

    /// The cluster that is meant by a name, or by none where there is one cluster.
    ///
    /// # Errors
    /// There is none such; the names to choose from.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Arc<str>, String> {
        let names = || self.running.keys().map(|name| &**name).collect::<Vec<_>>().join(", ");
        match name {
            Some(name) => match self.running.get_key_value(name) {
                Some((name, _)) => Ok(Arc::clone(name)),
                None => Err(format!("no such cluster: {name}")),
            },
            None if self.running.is_empty() => Err("there is no cluster in the configuration".to_owned()),
            None if self.running.len() > 1 => Err(format!("a cluster is required: {}", names())),
            None => Ok(self.running.keys().next().cloned().unwrap_or_default()),
        }
    }

    /// The clusters with their machines.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Arc<str>, &Cluster)> {
        self.running.iter().map(|(name, running)| (name, &running.machine))
    }

    /// Whether a machine is still there.
    pub(crate) fn has(&self, cluster: &str, number: u64) -> bool {
        self.running.get(cluster).is_some_and(|running| running.id.number == number)
    }

    /// Whether a switchover of any cluster is under way.
    pub(crate) fn is_any_busy(&self) -> bool {
        self.running.values().any(|running| running.machine.waits_for().is_some())
    }
}

impl Running {
    fn handle(&mut self, now: Time, event: Event, tasks: &mut VecDeque<ClusterTask>) -> Vec<Deed> {
        let mut commands = Vec::new();
        self.machine.handle(now, event, &mut commands);
        let (id, cluster) = (&self.id, &self.settings);
        let mut deeds = Vec::new();
        for command in commands {
            deeds.push(match command {
                Command::Gate(gate) => Deed::Gate(gate),
                Command::TryHosts => Deed::TryHosts,
                Command::LeaveReplica(place) => {
                    let member = self.machine.members().get(place);
                    Deed::LeaveReplica(member.map(|member| Arc::clone(member.name())).unwrap_or_default())
                }
                Command::Suspects(places) => {
                    let members = places.iter().filter_map(|place| self.machine.members().get(*place));
                    Deed::Suspects(members.map(|member| Arc::clone(member.name())).collect())
                }
                Command::Replayed(replayed) => Deed::Replayed(replayed),
                Command::Drain => Deed::Drain(id.clone()),
                Command::EndLoans => Deed::EndLoans,
                Command::Members(members) => Deed::Members(members),
                Command::Tell(news) => Deed::Tell(news),
                Command::SwitchedOver(outcome) => Deed::SwitchedOver(outcome),
                Command::Check(_)
                | Command::AskSlots(_)
                | Command::AskAgent(_)
                | Command::AskStore(_)
                | Command::WatchStore { .. }
                | Command::Checkpoint { .. }
                | Command::AskSwitchover { .. }
                | Command::Demote { .. }
                | Command::Promote(_) => {
                    tasks.push_back(ClusterTask { id: id.clone(), cluster: Arc::clone(cluster), command });
                    continue;
                }
            });
        }
        deeds
    }
}

fn machine_of(now: Time, cluster: &config::Cluster) -> Cluster {
    let members = cluster.hosts_with_ports().map(|(host, port)| host.at(port).into()).collect();
    let agents = cluster.agents().map(|agent| agent.authority().into()).collect();
    let machine = Cluster::new(now, terms_of(cluster), members, agents);
    let addresses = cluster.etcd.iter().flat_map(|etcd| &etcd.addresses).map(|address| address.authority().into());
    let machine = machine.with_store(now, addresses.collect());
    if cluster.is_told_members { machine.told_by_agents(cluster.scope.clone()) } else { machine }
}

fn terms_of(cluster: &config::Cluster) -> Terms {
    Terms {
        check_interval: cluster.check_interval,
        hold_timeout: cluster.hold_timeout,
        drain_timeout: cluster.drain_timeout,
        is_fencing: cluster.lease_fencing == LeaseFencing::Auto,
        can_demote: cluster.demote_command.is_some(),
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.running.keys()).finish()
    }
}
