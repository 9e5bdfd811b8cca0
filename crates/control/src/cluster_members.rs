//! The agents of a cluster have told other members: these come into force as a reload with another list of hosts would.
//!
//! Always true: servers at hosts that stay are kept; nothing is put in force during an online restart, or while a switchover is under
//! way: the machine of the cluster tells it again.
//! Not here: which members there are (crate `cluster`), what they change in the settings (`config::members`).

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{AgentMember, News};
use config::ToldMember;
use worker::letters::{ActiveConfig, ToWorker};

use crate::control::Control;

impl<S> Control<S> {
    /// A cluster has these members from now on.
    pub(crate) fn members_change(&mut self, cluster: &Arc<str>, members: &[AgentMember]) {
        if self.handovers.is_open() || self.clusters.is_busy(cluster) {
            return;
        }
        let told = |member: &AgentMember| ToldMember {
            place: (*member.place).into(),
            agent: member.agent.as_deref().map(Into::into),
        };
        let told: Vec<ToldMember> = members.iter().map(told).collect();
        let old = Arc::clone(&self.hands.active);
        let Some(settings) = old.settings.with_members(cluster, &told) else { return };
        let names: BTreeMap<&str, &str> = members.iter().map(|member| (&*member.place, &*member.name)).collect();
        let places = |settings: &config::Settings| -> Vec<String> {
            let hosts = settings.clusters.get(cluster).into_iter().flat_map(|cluster| cluster.hosts_with_ports());
            hosts.map(|(host, port)| host.at(port)).collect()
        };
        let (before, now) = (places(&old.settings), places(&settings));
        for place in now.iter().filter(|place| !before.contains(place)) {
            let name = names.get(&**place).copied().unwrap_or_default();
            self.tell_of_members(cluster, format!("host {place} is a member now ({name})"));
        }
        for place in before.iter().filter(|place| !now.contains(place)) {
            self.tell_of_members(
                cluster,
                format!("host {place} is no member any more: no interface of Patroni has named it for a minute"),
            );
        }
        self.hands.active = Arc::new(ActiveConfig { settings, ..ActiveConfig::clone(&old) });
        self.heed_clusters();
        self.heed_hosts(&old.settings);
        self.hands.post_config();
        // Who waits for a host need not wait for the next attempt.
        self.hands.post_all(|| ToWorker::TryHosts(Arc::clone(cluster)));
    }

    fn tell_of_members(&mut self, cluster: &Arc<str>, text: String) {
        self.tell_of_cluster(cluster, &News { is_warning: false, text });
    }
}

#[cfg(test)]
mod tests {
    use cluster::{AgentAnswer, Checked, Command, Event, Report};

    use super::*;
    use crate::control::tests::TestControl;

    const CLUSTER: &str = "[clusters]\nmain = patroni=http://a:8008 user=u\n[databases]\nrw = cluster=main\nro = cluster=main role=replica\n";

    /// Answers all questions: `a` is the primary, and agents know these members.
    fn answer(test: &mut TestControl, members: &[&str]) {
        test.happens(crate::Event::Tick);
        let member = |name: &&str| AgentMember {
            name: format!("node-{name}").into(),
            place: format!("{name}:5432"),
            agent: Some(format!("http://{name}:8008")),
            is_leader: *name == "a",
            timeline: 1,
        };
        while let Some(task) = test.control.next_cluster_task() {
            let event = match task.command {
                Command::Check(number) => {
                    let (system, replayed, received, can_promote, delay) = (7, 100, 100, true, None);
                    let report =
                        Report { in_recovery: number > 0, system, timeline: 1, replayed, received, can_promote, delay };
                    Event::Checked { member: number, outcome: Checked::Answered(report) }
                }
                Command::AskAgent(agent) => {
                    let members = members.iter().map(member).collect();
                    Event::AgentTold {
                        agent,
                        answer: Ok(AgentAnswer { members, holds_lock: agent == 0, ..AgentAnswer::default() }),
                    }
                }
                Command::AskSlots(member) => Event::SlotsTold { member, slots: Some(Vec::new()) },
                other => panic!("{other:?}"),
            };
            test.happens(crate::Event::Cluster { id: task.id, event });
            test.happens(crate::Event::Tick);
        }
    }

    fn hosts(test: &TestControl, database: &str) -> Vec<String> {
        let database = test.control.hands.active.settings.database(database).expect("a database");
        database.hosts_with_ports().map(|(host, port)| host.at(port)).collect()
    }

    fn configs(test: &TestControl) -> usize {
        test.letters(0).iter().filter(|letter| matches!(letter, ToWorker::ActiveConfig(_))).count()
    }

    #[test]
    fn members_that_agents_tell_come_into_force_and_a_reload_keeps_them() {
        let mut test = TestControl::new("members", 1, CLUSTER);
        assert!(hosts(&test, "rw").is_empty());
        answer(&mut test, &["a", "b"]);
        assert_eq!(
            (hosts(&test, "rw"), hosts(&test, "ro")),
            (vec!["a:5432".into(), "b:5432".into()], hosts(&test, "rw"))
        );
        assert!(test.letters(0).iter().any(|letter| matches!(letter, ToWorker::TryHosts(name) if **name == *"main")));
        let log = test.log();
        assert!(log.contains("cluster main: host a:5432 is a member now (node-a)"), "{log}");
        assert_eq!(test.control.hands.active.standing.gate("main"), Some(&cluster::Gate::Only("a:5432".into())));
        for _ in 0..20 {
            test.after(1, crate::Event::Tick);
            answer(&mut test, &["a", "b"]);
        }
        assert_eq!(configs(&test), 0, "nothing has changed");
        test.happens(crate::Event::Signal(crate::Signal::Hangup));
        assert_eq!(hosts(&test, "rw"), ["a:5432", "b:5432"]);
        for _ in 0..5 {
            test.after(1, crate::Event::Tick);
            answer(&mut test, &["a", "c"]);
        }
        assert_eq!(hosts(&test, "ro"), ["a:5432", "b:5432", "c:5432"]);
        for _ in 0..80 {
            test.after(1, crate::Event::Tick);
            answer(&mut test, &["a", "c"]);
        }
        assert_eq!(hosts(&test, "ro"), ["a:5432", "c:5432"]);
        assert!(test.log().contains("host b:5432 is no member any more"));
        assert_eq!(test.control.hands.active.standing.gate("main"), Some(&cluster::Gate::Only("a:5432".into())));
    }

    #[test]
    fn nothing_changes_while_a_switchover_is_under_way() {
        let mut test = TestControl::new("members_later", 1, CLUSTER);
        answer(&mut test, &["a", "b"]);
        test.says("SWITCHOVER");
        let members =
            ["a", "b", "c"].map(|name| AgentMember { place: format!("{name}:5432"), ..AgentMember::default() });
        test.control.members_change(&"main".into(), &members);
        assert_eq!(hosts(&test, "rw"), ["a:5432", "b:5432"]);
    }
}
