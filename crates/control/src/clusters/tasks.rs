//! Carries out what the machine of a cluster wants: a question to a host or to Patroni, or a step of a switchover.
//!
//! Always true: each task has one outcome, and all but a watch and a step of a switchover have it within [`CHECK_MAX`] or [`AGENT_MAX`]. The
//! connection over which a host was checked is used for its next check.
//! Not here: when something is asked (crate `cluster`), statements (`session`), Patroni's interface (`patroni`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{Checked, Command, Event, SlotLag};
use config::TlsMode;
use reactor::tls::Demand;
use tokio::time::timeout;

use super::MachineId;
use super::authorities::Authorities;
use super::demotion;
use super::etcd::Gateway;
use super::patroni;
use super::session::{Failed, FailedKind, Session};
use super::tokens::Tokens;
use crate::http_client::plain;
use crate::resolver::Resolver;

/// Something to be done for the machine of a cluster.
#[derive(Debug)]
pub struct ClusterTask {
    /// The machine.
    pub id: MachineId,
    pub(super) cluster: Arc<config::Cluster>,
    /// What is to be done: a question, or a step of a switchover.
    pub command: Command,
}

/// The open connections over which hosts are checked, and what connecting needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    open: Arc<Mutex<Open>>,
    authorities: Authorities,
    tokens: Tokens,
}

/// The open connections: by cluster, number of its machine, and place of the member.
type Open = BTreeMap<(Arc<str>, u64, usize), Session>;

/// How connections to servers are made at present.
#[derive(Clone)]
pub(crate) struct Means {
    /// `server_tls_sslmode`, and what it demands.
    pub(crate) tls_mode: TlsMode,
    pub(crate) demand: Option<Arc<Demand>>,
    /// Whom to ask for host names; `None` for the system's resolver.
    pub(crate) resolver: Option<Arc<Resolver>>,
}

impl Sessions {
    /// Closes the connections of all machines but these, and forgets what belongs to other clusters than these.
    pub(crate) fn keep(&self, has_machine: impl Fn(&str, u64) -> bool, has_cluster: impl Fn(&str) -> bool) {
        self.lock().retain(|(cluster, number, _), _| has_machine(cluster, *number));
        self.authorities.keep(&has_cluster);
        self.tokens.keep(&has_cluster);
    }

    /// Carries out a task, and returns its outcome.
    pub(crate) async fn carry_out(self, task: ClusterTask, means: Means) -> (MachineId, Event) {
        let ClusterTask { id, cluster, command } = task;
        let event = match command {
            Command::Check(member) => {
                let key = (Arc::clone(&id.cluster), id.number, member);
                let open = self.lock().remove(&key);
                let (session, outcome) = check(open, cluster, member, means).await;
                if let Some(session) = session {
                    self.lock().insert(key, session);
                }
                Event::Checked { member, outcome }
            }
            Command::AskSlots(member) => {
                let key = (Arc::clone(&id.cluster), id.number, member);
                Event::SlotsTold { member, slots: self.ask_slots(key).await }
            }
            Command::AskAgent(agent) => {
                let answer = match timeout(AGENT_MAX, patroni::ask(cluster, agent, &self.authorities)).await {
                    Ok(answer) => answer.map_err(Arc::from),
                    Err(_) => Err(late(AGENT_MAX)),
                };
                Event::AgentTold { agent, answer }
            }
            Command::AskStore(address) => {
                let gateway = Gateway::new(cluster, address, self.authorities, self.tokens);
                let answer =
                    timeout(AGENT_MAX, gateway.state()).await.unwrap_or_else(|_| Err(late(AGENT_MAX).to_string()));
                Event::StoreTold(answer.map_err(Arc::from))
            }
            Command::WatchStore { address, revision } => {
                let gateway = Gateway::new(cluster, address, self.authorities, self.tokens);
                // Now and then it is watched anew, in case the connection is dead.
                let change = timeout(WATCH_MAX, gateway.change(revision)).await.unwrap_or(Ok(()));
                Event::StoreChanged(change.map_err(Arc::from))
            }
            Command::Checkpoint { member, number } => {
                Event::Checkpointed { number, written: run(cluster, member, means, "CHECKPOINT").await }
            }
            Command::AskSwitchover { agent, from, to } => {
                let done =
                    match timeout(STEP_MAX, patroni::switch_over(cluster, agent, &self.authorities, from, to)).await {
                        Ok(done) => done.map_err(Arc::from),
                        Err(_) => Err(late(STEP_MAX)),
                    };
                Event::HandedOver(done)
            }
            Command::Demote { from, to } => Event::HandedOver(demotion::run(cluster, from, to).await),
            Command::Promote(member) => Event::Promoted(run(cluster, member, means, PROMOTE).await),
            // The others ask nobody outside.
            Command::Gate(_)
            | Command::TryHosts
            | Command::LeaveReplica(_)
            | Command::Suspects(_)
            | Command::Replayed(_)
            | Command::Drain
            | Command::EndLoans
            | Command::Members(_)
            | Command::Tell(_)
            | Command::SwitchedOver(_) => Event::Tick,
        };
        (id, event)
    }

    /// Asks a host for its replication slots over the connection of its checks, unless that is in use.
    async fn ask_slots(&self, key: (Arc<str>, u64, usize)) -> Option<Vec<SlotLag>> {
        let mut session = self.lock().remove(&key)?;
        let slots = timeout(CHECK_MAX, session.slots()).await.ok()?.ok()?;
        self.lock().insert(key, session);
        Some(slots)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks a host over an open connection, or a new one. The end of an old connection says nothing about the host.
async fn check(
    open: Option<Session>,
    cluster: Arc<config::Cluster>,
    member: usize,
    means: Means,
) -> (Option<Session>, Checked) {
    let checking = async {
        if let Some(mut session) = open
            && let Ok(report) = session.report().await
        {
            return Ok::<_, Failed>((session, report));
        }
        let mut session = Session::open(cluster, member, means).await?;
        let report = session.report().await?;
        Ok((session, report))
    };
    match timeout(CHECK_MAX, checking).await {
        Ok(Ok((session, report))) => (Some(session), Checked::Answered(report)),
        Ok(Err(Failed { kind, why })) => {
            let why = plain(&why).into();
            let outcome = match kind {
                FailedKind::Down => Checked::Down(why),
                FailedKind::Refused => Checked::Refused(why),
                FailedKind::Denied => Checked::Denied(why),
            };
            (None, outcome)
        }
        Err(_) => (None, Checked::Silent),
    }
}

/// Runs a statement that may take long, over a connection of its own.
async fn run(cluster: Arc<config::Cluster>, member: usize, means: Means, sql: &'static str) -> Result<(), Arc<str>> {
    let running = async { Session::open(cluster, member, means).await?.run(sql).await };
    match timeout(STEP_MAX, running).await {
        Ok(done) => done.map_err(|failed| plain(&failed.why).into()),
        Err(_) => Err(late(STEP_MAX)),
    }
}

fn late(limit: Duration) -> Arc<str> {
    format!("no answer within {} s", limit.as_secs()).into()
}

/// The time limit for a check of a host, connecting included.
const CHECK_MAX: Duration = Duration::from_secs(1);
/// The time limit for the answers of an agent.
const AGENT_MAX: Duration = Duration::from_secs(2);
/// The time limit for a watch of the store, which is asked all the same meanwhile.
const WATCH_MAX: Duration = Duration::from_secs(60);
/// The time limit for a step of a switchover, for which the machine has shorter ones of its own.
const STEP_MAX: Duration = Duration::from_secs(600);
/// Promotes a standby, and waits until it accepts writes (PostgreSQL 12 and later).
const PROMOTE: &str = "SELECT 1 / pg_catalog.pg_promote(true, 600)::int";
