//! What follows from the decisions about clusters, and the orders that hold clients: SWITCHOVER, HOLD, RELEASE.
//!
//! Always true: whoever orders a switchover is answered once, when it is over; a hold ends by itself.
//! Not here: decisions about clusters (crate `cluster`), how a worker holds clients (`worker::upstream::primary`).

use std::sync::Arc;
use std::time::Duration;

use base::WorkerId;
use cluster::{Event, Gate, News, Replayed, Summary};
use pool::ClientKey;
use reactor::Level;
use worker::letters::{Order as Task, ToWorker};

use crate::clusters::{ClusterTask, Deed, MachineId};
use crate::console::{self, Answer, Hold, Order, Refusal};
use crate::control::{Control, TaskPurpose};
use crate::events::{EventKind, EventRecord};
use crate::pending_orders::ConsoleClient;

impl<S> Control<S> {
    /// Returns the next question to a host or an agent of a cluster, or the next step of a switchover;
    /// [`crate::Event::Cluster`] must follow.
    pub fn next_cluster_task(&mut self) -> Option<ClusterTask> {
        self.clusters.next_task()
    }

    /// Whether a machine is still there.
    pub(crate) fn has_machine(&self, cluster: &str, number: u64) -> bool {
        self.clusters.has(cluster, number)
    }

    /// Whether a cluster is still there.
    pub(crate) fn has_cluster(&self, cluster: &str) -> bool {
        self.clusters.rows().any(|(name, _)| **name == *cluster)
    }

    /// New settings are in force: their clusters are watched.
    pub(crate) fn heed_clusters(&mut self) {
        let changed: Vec<Arc<str>> = self.switchovers.keys().cloned().collect();
        for cluster in &changed {
            if self.clusters.is_as_in(cluster, &self.hands.active.settings) {
                continue;
            }
            // One that cannot be called off any more is carried through, and the new settings are heeded then.
            let deeds = self.clusters.happens_to(self.hands.now.time, cluster, Event::Cancel);
            self.do_for_cluster(cluster, deeds);
        }
        let changed = self.clusters.heed(self.hands.now.time, &self.hands.active.settings);
        if changed.iter().any(|cluster| self.hands.active.standing.gate(cluster).is_some()) {
            self.change_standing(|standing| standing.forget_gates(&changed));
        }
        self.heed_lag_limits();
    }

    /// A question or a step has its outcome.
    pub(crate) fn cluster_happens(&mut self, id: &MachineId, event: Event) {
        let deeds = self.clusters.happens(self.hands.now.time, id, event);
        self.do_for_cluster(&id.cluster, deeds);
        self.turn_replicas(&id.cluster);
    }

    /// Lets the machines look at the time.
    pub(crate) fn tick_clusters(&mut self) {
        for cluster in self.clusters.due(self.hands.now.time) {
            let deeds = self.clusters.happens_to(self.hands.now.time, &cluster, Event::Tick);
            self.do_for_cluster(&cluster, deeds);
        }
    }

    fn do_for_cluster(&mut self, cluster: &Arc<str>, deeds: Vec<Deed>) {
        for deed in deeds {
            match deed {
                Deed::Gate(gate) => self.set_gate(cluster, gate),
                Deed::TryHosts => self.hands.post_all(|| ToWorker::TryHosts(Arc::clone(cluster))),
                Deed::Suspects(hosts) => self.change_standing(|standing| standing.set_suspects(cluster, hosts)),
                Deed::LeaveReplica(host) => {
                    let letter = || ToWorker::LeaveReplica { cluster: Arc::clone(cluster), host: Arc::clone(&host) };
                    self.hands.post_all(letter);
                }
                Deed::Replayed(replayed) => {
                    let replicas: Arc<[Replayed]> = replayed.into();
                    if self.hands.active.settings.routes_reads_of(cluster) {
                        let letter =
                            || ToWorker::Replayed { cluster: Arc::clone(cluster), replicas: Arc::clone(&replicas) };
                        self.hands.post_all(letter);
                    }
                }
                Deed::Drain(id) => self.give(&Task::AwaitDrained(Arc::clone(cluster)), TaskPurpose::Drain(id)),
                Deed::Members(members) => self.members_change(cluster, &members),
                Deed::EndLoans => self.give(&Task::EndLoans(Arc::clone(cluster)), TaskPurpose::EndLoans),
                Deed::Tell(news) => self.tell_of_cluster(cluster, &news),
                Deed::SwitchedOver(outcome) => self.switched_over(cluster, outcome),
            }
        }
    }

    fn switched_over(&mut self, cluster: &Arc<str>, outcome: Result<Summary, String>) {
        self.forget_drain(cluster);
        match (self.switchovers.remove(cluster), outcome) {
            (Some(asker), Ok(summary)) => self.answer(asker, Answer::noted("SWITCHOVER", summary.to_string())),
            (Some(asker), Err(why)) => self.refuse(asker, failed(&why)),
            (None, _) => {}
        }
        if !self.clusters.is_as_in(cluster, &self.hands.active.settings) {
            self.heed_clusters();
        }
    }

    fn set_gate(&mut self, cluster: &Arc<str>, gate: Gate) {
        self.change_standing(|standing| standing.set_gate(cluster, gate));
    }

    pub(crate) fn tell_of_cluster(&mut self, cluster: &Arc<str>, news: &News) {
        let line = format!("cluster {cluster}: {}", news.text);
        let level = if news.is_warning { Level::Warning } else { Level::Log };
        self.hands.log(level, format_args!("{line}"));
        self.events.add(EventRecord::new(self.hands.now.wall, EventKind::Cluster, &line));
        if let Some(asker) = self.switchovers.get(cluster) {
            let mut bytes = Vec::new();
            console::write_line(&mut bytes, &news.text);
            self.hands.post(asker.at, ToWorker::ConsolePart { client: asker.client, bytes });
        }
    }

    /// Nobody waits any more for clients of the primary of a cluster to be without servers.
    fn forget_drain(&mut self, cluster: &Arc<str>) {
        let is_it = |purpose: &TaskPurpose| matches!(purpose, TaskPurpose::Drain(id) if id.cluster == *cluster);
        for (question, _) in self.pending_orders.take_back(is_it) {
            self.hands.post_all(|| ToWorker::ForgetOrder { question });
        }
    }

    /// Begins a SWITCHOVER.
    pub(crate) fn begin_switchover(
        &mut self,
        asker: ConsoleClient,
        cluster: Option<&str>,
        to: Option<Arc<str>>,
    ) -> Result<(), Refusal> {
        let cluster = self.clusters.find(cluster).map_err(Refusal::new)?;
        if self.clusters.is_busy(&cluster) {
            return Err(failed("another switchover of the cluster is in progress"));
        }
        self.switchovers.insert(Arc::clone(&cluster), asker);
        let deeds = self.clusters.happens_to(self.hands.now.time, &cluster, Event::Switchover(to));
        self.do_for_cluster(&cluster, deeds);
        Ok(())
    }

    /// The console client that has ordered a switchover gives it up, or has gone; then it goes on without him.
    pub(crate) fn leave_switchover(&mut self, from: WorkerId, client: ClientKey, gives_up: bool) {
        let is_his = |asker: &ConsoleClient| *asker == ConsoleClient { at: from, client };
        let found = self.switchovers.iter().find(|(_, asker)| is_his(asker));
        let Some(cluster) = found.map(|(cluster, _)| Arc::clone(cluster)) else { return };
        if gives_up {
            let deeds = self.clusters.happens_to(self.hands.now.time, &cluster, Event::Cancel);
            self.do_for_cluster(&cluster, deeds);
        } else {
            self.switchovers.remove(&cluster);
        }
    }

    /// Begins a HOLD.
    pub(crate) fn hold(&mut self, asker: ConsoleClient, hold: &Hold) {
        let settings = &self.hands.active.settings;
        let cluster =
            settings.database(&hold.name).and_then(|entry| settings.clusters.get(entry.cluster.as_ref()?).cloned());
        let longest = cluster.map_or(HOLD_WITHOUT_CLUSTER, |cluster| cluster.hold_timeout).as_secs();
        let seconds = hold.seconds.unwrap_or(longest);
        self.timed_holds.begins(self.hands.now.time, &Some(Arc::clone(&hold.name)), Some(seconds));
        self.change_standing(|standing| standing.hold(&hold.name));
        self.command(asker, Task::AwaitUnused(Some(Arc::clone(&hold.name))), Order::Hold(hold.clone()));
    }

    /// Carries out RELEASE of a database, or of a cluster.
    pub(crate) fn release(&mut self, name: &Arc<str>) -> Result<(), Refusal> {
        let (settings, standing) = (&self.hands.active.settings, &self.hands.active.standing);
        let entry = settings.database(name);
        let cluster = entry.as_ref().and_then(|entry| entry.cluster_of_primary()).cloned();
        let is_followed = |cluster: &&Arc<str>| self.clusters.is_following(cluster);
        let followed = cluster.iter().chain([name]).find(is_followed).cloned();
        let is_held = standing.is_held(name);
        if !is_held && followed.is_none() {
            let refusal = Refusal::new(format!("database {name} is not held"));
            return Err(match cluster.filter(|_| entry.is_some_and(|entry| standing.holds(&entry))) {
                Some(cluster) => {
                    let hint = format!(
                        "Its clients wait with cluster {cluster}: SHOW CLUSTERS says for what. A cancel request gives SWITCHOVER up."
                    );
                    refusal.hinted(hint)
                }
                None => refusal,
            });
        }
        if is_held {
            self.end_hold(name, "RELEASE");
        }
        if let Some(cluster) = followed {
            let deeds = self.clusters.happens_to(self.hands.now.time, &cluster, Event::Cancel);
            self.do_for_cluster(&cluster, deeds);
        }
        Ok(())
    }

    /// Ends a hold; a HOLD that still waits for completion is answered with an error that names `by`.
    pub(crate) fn end_hold(&mut self, name: &Arc<str>, by: &str) {
        self.timed_holds.ends(&Some(Arc::clone(name)));
        self.change_standing(|standing| standing.release(name));
        let is_it = |order: &Order| matches!(order, Order::Hold(hold) if hold.name == *name);
        self.take_back(&Refusal::canceled(&format!("HOLD was ended by {by}")), |_, order| is_it(order));
    }

    /// Ends the holds whose time is over.
    pub(crate) fn end_timed_holds(&mut self) {
        while let Some((Some(name), seconds)) = self.timed_holds.next_over(self.hands.now.time) {
            let hold = Hold { name: Arc::clone(&name), seconds: Some(seconds) };
            let line = format!("the time of {hold} is over, doing {}", Order::Release(Arc::clone(&name)));
            self.hands.log(Level::Log, format_args!("{line}"));
            let event = EventRecord::new(self.hands.now.wall, EventKind::Order, &line);
            self.events.add(EventRecord { database: Arc::clone(&name), ..event });
            self.end_hold(&name, "its time");
        }
    }

    /// Whether clients are held, or are about to be, so that the process must not be suspended or handed over.
    pub(crate) fn holds_somebody(&self) -> bool {
        self.hands.active.standing.is_any_held() || self.clusters.is_any_busy()
    }
}

/// The refusal of a switchover that has not taken place.
fn failed(why: &str) -> Refusal {
    Refusal::coded("55000", format!("no switchover: {why}"))
}

/// How long a hold lasts if nobody says anything else.
const HOLD_WITHOUT_CLUSTER: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use cluster::{AgentAnswer, AgentMember, Checked, Command, PlannedSwitchover, Report};
    use worker::letters::ToControl;

    use super::*;
    use crate::control::tests::{CLIENT, TestControl};

    const CLUSTER: &str = "[clusters]\nmain = hosts=a,b user=u demote_command=true\n[databases]\nrw = cluster=main\n";

    fn report(in_recovery: bool, timeline: u32) -> Checked {
        let (system, replayed, received, can_promote, delay) = (7, 100, 100, true, None);
        Checked::Answered(Report { in_recovery, system, timeline, replayed, received, can_promote, delay })
    }

    /// Answers all questions about the cluster: `a` is the primary.
    fn answer_checks(test: &mut TestControl) {
        test.happens(crate::Event::Tick);
        while let Some(task) = test.control.next_cluster_task() {
            let event = match task.command {
                Command::Check(member) => Event::Checked { member, outcome: report(member == 1, 1) },
                Command::AskSlots(member) => Event::SlotsTold { member, slots: None },
                Command::Checkpoint { number, .. } => Event::Checkpointed { number, written: Ok(()) },
                other => panic!("{other:?}"),
            };
            test.happens(crate::Event::Cluster { id: task.id, event });
        }
    }

    fn told(test: &TestControl) -> String {
        let letters = test.letters(0).into_iter().filter_map(|letter| match letter {
            ToWorker::ConsoleAnswer { bytes, .. } => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        });
        letters.collect()
    }

    #[test]
    fn a_switchover_holds_clients_and_is_answered_once_when_it_is_over() {
        let mut test = TestControl::new("switchover", 1, CLUSTER);
        answer_checks(&mut test);
        let gate = |test: &TestControl| test.control.hands.active.standing.gate("main").cloned();
        assert_eq!(gate(&test), Some(Gate::Only("a:5432".into())));
        drop(test.letters(0));
        test.says("SWITCHOVER");
        answer_checks(&mut test);
        assert_eq!(gate(&test), Some(Gate::Held));
        let drains = |letter: &ToWorker<()>| matches!(letter, ToWorker::Order { order: Task::AwaitDrained(_), .. });
        assert!(test.letters(0).iter().any(drains));
        test.says("SUSPEND");
        assert!(told(&test).contains("cannot suspend while clients are held"));
        // Whoever has ordered it gives up.
        test.happens(crate::Event::Letter(ToControl::ConsoleCancel { from: WorkerId(0), client: CLIENT }));
        assert!(told(&test).contains("C55000\0Mno switchover: canceled\0"));
        assert_eq!(gate(&test), Some(Gate::Only("a:5432".into())));
    }

    #[test]
    fn health_checks_of_a_cluster_are_answered_as_patroni_answers_them() {
        use crate::HttpQuestion::{Primary, Replica};
        let mut test = TestControl::new("health", 1, CLUSTER);
        let mut asked = 0;
        let mut ask = |test: &mut TestControl, question| {
            asked += 1;
            test.now.time = test.now.time + Duration::from_secs(1);
            drop(test.letters(0));
            test.happens(crate::Event::Http { number: asked, question });
            let letters = test.letters(0);
            let question = letters.iter().find_map(|letter| match letter {
                ToWorker::Show { question, .. } => Some(*question),
                _ => None,
            });
            let (from, snapshot) = (WorkerId(0), Box::default());
            let question = question.expect("the workers are asked");
            test.happens(crate::Event::Letter(ToControl::Shown { from, question, snapshot }));
            let (number, answer) = test.control.next_http_answer().expect("an answer");
            assert_eq!(number, asked);
            (answer.status, String::from_utf8_lossy(&answer.body).trim().to_owned())
        };
        let primary = |cluster: Option<&str>| Primary { cluster: cluster.map(Into::into) };
        assert_eq!(ask(&mut test, primary(None)), (503, "no primary: unknown".to_owned()));
        answer_checks(&mut test);
        assert_eq!(ask(&mut test, primary(Some("main"))), (200, "primary: a:5432".to_owned()));
        assert_eq!(ask(&mut test, primary(Some("x"))), (404, "no such cluster: x".to_owned()));
        let replica = |lag_max| Replica { cluster: None, lag_max };
        assert_eq!(ask(&mut test, replica(None)), (200, "replica: b:5432".to_owned()));
        assert_eq!(ask(&mut test, replica(Some(0))).0, 200);
        let ready = || crate::HttpQuestion::Ready { database: Some("rw".into()) };
        assert_eq!(ask(&mut test, ready()).0, 200);
        test.says("SWITCHOVER");
        answer_checks(&mut test);
        assert_eq!(ask(&mut test, primary(None)), (503, "no primary: draining".to_owned()));
        let held = "clients of database \"rw\" are held (SHOW CLUSTERS, HOLD)".to_owned();
        assert_eq!(ask(&mut test, ready()), (503, held));
    }

    #[test]
    fn a_reload_without_the_cluster_ends_its_switchover() {
        let mut test = TestControl::new("without", 1, CLUSTER);
        answer_checks(&mut test);
        test.says("SWITCHOVER main");
        drop(test.letters(0));
        test.rewrite("ini", CLUSTER, "");
        test.happens(crate::Event::Signal(crate::Signal::Hangup));
        assert!(told(&test).contains("no switchover: canceled"));
        assert_eq!(test.control.hands.active.standing.gate("main"), None);
        assert_eq!(test.control.clusters.next_deadline(), None);
    }

    #[test]
    fn a_suspect_host_that_a_reload_takes_out_of_the_list_is_not_suspect_any_more() {
        let three = CLUSTER.replace("hosts=a,b", "hosts=a,b,c");
        let mut test = TestControl::new("left", 1, &three);
        answer_checks(&mut test);
        // `c` does not answer any more.
        for _ in 0..20 {
            test.now.time = test.now.time + Duration::from_millis(100);
            test.happens(crate::Event::Tick);
            while let Some(task) = test.control.next_cluster_task() {
                if let Command::Check(member @ (0 | 1)) = task.command {
                    let event = Event::Checked { member, outcome: report(member == 1, 1) };
                    test.happens(crate::Event::Cluster { id: task.id, event });
                }
            }
        }
        let is_suspect = |test: &TestControl| test.control.hands.active.standing.is_suspect("main", "c:5432");
        assert!(is_suspect(&test));
        test.rewrite("ini", &three, CLUSTER);
        test.happens(crate::Event::Signal(crate::Signal::Hangup));
        answer_checks(&mut test);
        assert!(!is_suspect(&test));
    }

    #[test]
    fn clients_that_are_held_for_a_time_of_patroni_are_released() {
        let text = "[clusters]\nmain = hosts=a,b user=u patroni=http://a:8008\n[databases]\nrw = cluster=main\n";
        let mut test = TestControl::new("release", 1, text);
        let member = |name: &str| AgentMember {
            name: name.into(),
            place: format!("{name}:5432"),
            is_leader: name == "a",
            ..AgentMember::default()
        };
        let answer = |at: &str| {
            let left = Some(Duration::ZERO);
            let planned = PlannedSwitchover { at: at.into(), left, ..PlannedSwitchover::default() };
            let members = vec![member("a"), member("b")];
            AgentAnswer { members, planned: Some(planned), ..AgentAnswer::default() }
        };
        let play = |test: &mut TestControl, at: &str| {
            test.happens(crate::Event::Tick);
            while let Some(task) = test.control.next_cluster_task() {
                let event = match task.command {
                    Command::Check(member) => Event::Checked { member, outcome: report(member == 1, 1) },
                    Command::AskSlots(member) => Event::SlotsTold { member, slots: None },
                    Command::AskAgent(agent) => Event::AgentTold { agent, answer: Ok(answer(at)) },
                    other => panic!("{other:?}"),
                };
                test.happens(crate::Event::Cluster { id: task.id, event });
            }
        };
        for name in ["rw", "main"] {
            test.now.time = test.now.time + Duration::from_secs(61);
            test.says(&format!("RELEASE {name}"));
            assert!(told(&test).contains(&format!("database {name} is not held")));
            play(&mut test, name);
            let gate = |test: &TestControl| test.control.hands.active.standing.gate("main").cloned();
            assert_eq!(gate(&test), Some(Gate::Held));
            test.says(&format!("RELEASE {name}"));
            assert!(told(&test).contains("RELEASE"));
            assert_eq!(gate(&test), Some(Gate::Only("a:5432".into())));
        }
    }

    #[test]
    fn which_cluster_is_meant_has_to_be_clear() {
        let mut test = TestControl::new("which", 1, "");
        test.says("SWITCHOVER");
        assert!(told(&test).contains("Mthere is no cluster in the configuration\0"));
        let two = "[clusters]\na = hosts=a user=u\nb = hosts=b user=u\n";
        let mut test = TestControl::new("which", 1, two);
        test.says("SWITCHOVER");
        assert!(told(&test).contains("Ma cluster is required: a, b\0"));
        test.says("SWITCHOVER c");
        assert!(told(&test).contains("Mno such cluster: c\0"));
        test.says("SWITCHOVER a");
        assert!(told(&test).contains("Mno switchover: the cluster has no primary at present\0"));
    }

    #[test]
    fn a_hold_ends_after_its_time_although_its_console_has_gone() {
        let mut test = TestControl::new("held", 1, "");
        test.says("HOLD d");
        let question = test.order(0, &Task::AwaitUnused(Some("d".into())));
        test.happens(crate::Event::Letter(ToControl::ConsoleLeft { from: WorkerId(0), client: CLIENT }));
        test.obeyed(0, question, true);
        test.after(29, crate::Event::Tick);
        assert!(test.control.hands.active.standing.is_held("d"));
        test.after(1, crate::Event::Tick);
        assert!(!test.control.hands.active.standing.is_held("d"));
        let line = "the time of HOLD 'd' FOR 30 SECONDS is over, doing RELEASE 'd'";
        assert!(test.log().contains(line), "{}", test.log());
    }
}
