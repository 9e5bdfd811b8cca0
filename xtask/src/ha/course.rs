//! The course of a case: heal, write for a while, the fault, and what the ledger says.
//!
//! Always true: the fault comes at a random time within Patroni's `loop_wait`, because the length of an outage depends
//! on that; all four paths see the same fault.
//! Not here: what is done (`cases`), and how it is counted (`ledger`).

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::cases::{Act, Case, Company, Who};
use super::company::{Companion, LongTransactions, Subscriber};
use super::lab::{FOLDER, Lab, call};
use super::ledger::{Ledger, Measured};
use super::node::{self, Node};
use super::patroni::{self, Etcd};
use super::{paths, quota};

/// Runs a case once.
pub(super) fn run(lab: &Lab, case: &Case) -> Result<Measured, String> {
    let outcome = measure(lab, case);
    // However it ended: the next case begins with enough time.
    let unthrottled = unthrottle();
    let measured = outcome?;
    unthrottled?;
    if measured.etcd_changed && !case.touches_etcd() {
        return Err("etcd changed its leader, and the fault does not touch it".into());
    }
    Ok(measured)
}

fn measure(lab: &Lab, case: &Case) -> Result<Measured, String> {
    let primary = lab.heal()?;
    configure(lab, case)?;
    let etcd = patroni::etcd();
    let cast = Cast::read(primary, &etcd);
    for act in case.before {
        cast.act(lab, *act)?;
    }
    if !case.before.is_empty() {
        lab.settle(&[cast.node(Who::Standby), cast.node(Who::Other)])?;
    }
    lab.reach_by_all_paths()?;
    if case.acts.iter().any(|(_, act)| matches!(act, Act::Crowd(_))) {
        pgbench(lab, primary, &["-i", "-q", "-s", "5"])?.wait().map_err(|why| why.to_string())?;
    }
    let companion = match case.company {
        Company::None => Companion::None,
        Company::LongTransactions => Companion::LongTransactions(LongTransactions::open(lab)?),
        Company::Subscriber => Companion::Subscriber(Box::new(Subscriber::begin(lab)?)),
    };
    let steady = STEADY + phase();
    let begun = Instant::now();
    let mut ledger = Ledger::start(lab, steady + Duration::from_secs(case.seconds), primary, &companion.readers())?;
    ledger.wait_until(lab, begun + steady)?;
    let fault = Instant::now();
    for (ms, act) in case.acts {
        ledger.wait_until(lab, fault + Duration::from_millis(*ms))?;
        cast.act(lab, *act)?;
    }
    let mut measured = ledger.finish(lab)?;
    measured.notes.extend(companion.tell(lab)?);
    if case.acts.iter().any(|(_, act)| matches!(act, Act::Throttle(_) | Act::Crowd(_))) {
        measured.notes.push(measured.latency());
    }
    let has_changed =
        |after: &Etcd| etcd.iter().any(|before| before.node == after.node && before.changes != after.changes);
    measured.etcd_changed = patroni::etcd().iter().any(has_changed);
    measured.load = load_average();
    Ok(measured)
}

/// Gives Patroni the settings of the case, and takes those of the case before away.
fn configure(lab: &Lab, case: &Case) -> Result<(), String> {
    let mut settings =
        json!({"synchronous_mode": null, "failsafe_mode": null, "primary_start_timeout": null, "slots": null});
    let own: Value = serde_json::from_str(case.settings).unwrap_or_default();
    for (name, value) in own.as_object().into_iter().flatten() {
        settings[name] = value.clone();
    }
    patroni::configure(&settings)?;
    let until = Instant::now() + LOOP_WAIT * 6;
    // The others take effect within `loop_wait`, which writers write before the fault.
    while case.is_synchronous() && !patroni::members().iter().any(|member| member.is_synchronous) {
        if Instant::now() > until {
            return Err("no standby is synchronous".into());
        }
        lab.wait(Duration::from_millis(300))?;
    }
    Ok(())
}

/// Which node has which role when the case begins.
struct Cast {
    primary: Node,
    standbys: [Node; 2],
}

impl Cast {
    /// The first standby is one that does not lead etcd, because the loss of etcd's leader hits the primary too.
    fn read(primary: Node, etcd: &[Etcd]) -> Self {
        let [first, second, third] = Node::ALL;
        let mut standbys = match primary {
            primary if primary == first => [second, third],
            primary if primary == second => [first, third],
            _ => [first, second],
        };
        if etcd.iter().any(|etcd| etcd.is_leader && etcd.node == standbys[0]) {
            standbys.reverse();
        }
        Self { primary, standbys }
    }

    fn node(&self, who: Who) -> Node {
        match who {
            Who::Primary => self.primary,
            Who::Standby => self.standbys[0],
            Who::Other => self.standbys[1],
        }
    }

    fn act(&self, lab: &Lab, act: Act) -> Result<(), String> {
        match act {
            Act::SwitchOver => {
                // Patroni answers when all is over.
                let (leader, candidate) = (self.primary, self.standbys[0]);
                thread::spawn(move || {
                    let answer = patroni::switch_over(leader, candidate).unwrap_or_else(|| "no answer".into());
                    eprintln!("  Patroni: {}", answer.trim());
                });
                Ok(())
            }
            Act::LedSwitchOver => {
                let candidate = self.standbys[0];
                let mut command = Command::new(Lab::trunkline());
                command.args(["switchover", "--to", &format!("{}:5432", candidate.address()), &paths::console()]);
                thread::spawn(move || match command.output() {
                    Ok(told) => {
                        let both = [told.stdout, told.stderr].concat();
                        String::from_utf8_lossy(&both).lines().for_each(|line| eprintln!("  Trunkline: {line}"));
                    }
                    Err(error) => eprintln!("  Trunkline: {error}"),
                });
                Ok(())
            }
            Act::Schedule => {
                let at = call("date", &["-u", "-d", "+10 seconds", "+%FT%T+00:00"])?;
                let answer = patroni::schedule(self.primary, self.standbys[0], at.trim());
                eprintln!("  Patroni: {}", answer.ok_or("Patroni takes no schedule")?.trim());
                Ok(())
            }
            Act::KillPostmaster(who) => self.node(who).kill_postmaster(),
            Act::KillPatroni(who) => self.node(who).kill_patroni(),
            Act::PowerOff(who) => self.node(who).power_off(),
            Act::PowerOn(who) => self.node(who).power_on(lab),
            Act::Unplug(who) => self.node(who).link("down"),
            Act::Plug(who) => self.node(who).link("up"),
            Act::Mute(who) => self.node(who).hear_clients(false),
            Act::Unmute(who) => self.node(who).hear_clients(true),
            Act::CutEtcd(who) => self.node(who).etcd_link("down"),
            Act::JoinEtcd(who) => self.node(who).etcd_link("up"),
            Act::KillEtcd => Node::ALL.into_iter().try_for_each(Node::kill_etcd),
            Act::StartEtcd => Node::ALL.into_iter().try_for_each(|node| node.start_etcd(lab)),
            Act::Throttle(who) => {
                let node = self.node(who);
                for number in 0..BUSY {
                    node.start(lab, &format!("busy-{number}"), &busy())?;
                }
                // `nsenter` is none of the node's until it has entered.
                node::wait_until("busy processes", || node.find(is_busy).len() >= BUSY)?;
                quota::limit(&node.name(), QUOTA_PERCENT, &node.everything())
            }
            Act::ThrottleProxies => {
                for number in 0..BUSY {
                    let mut command = Command::new("sh");
                    command.args(["-c", BUSY_LOOP]);
                    node::spawn(command, &Path::new(FOLDER).join(format!("busy-{number}.log")))?;
                }
                quota::limit(PROXIES, QUOTA_PERCENT, &[Lab::proxies(), Lab::own(is_busy)].concat())
            }
            Act::Unthrottle => unthrottle(),
            Act::Crowd(seconds) => {
                pgbench(lab, self.primary, &["-c", "10", "-n", "-T", &seconds.to_string()]).map(drop)
            }
        }
    }
}

/// Ends all busy processes and all quotas.
fn unthrottle() -> Result<(), String> {
    let nodes: Vec<_> = Node::ALL.into_iter().flat_map(|node| node.find(is_busy)).collect();
    let all = [nodes, Lab::own(is_busy)].concat();
    if !all.is_empty() {
        node::kill_all("busy process", &all)?;
    }
    quotas().into_iter().try_for_each(|name| quota::lift(&name))
}

/// Starts pgbench at a node.
fn pgbench(lab: &Lab, node: Node, words: &[&str]) -> Result<Child, String> {
    let mut command = lab.trial().command(&lab.trial().programs.path("pgbench"));
    command.args(["-h", &node.address(), "-U", "postgres"]).args(words).arg("lab");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|why| format!("cannot start pgbench: {why}"))
}

/// A process that never waits.
fn busy() -> [String; 3] {
    ["sh", "-c", BUSY_LOOP].map(str::to_owned)
}

fn is_busy(words: &[String]) -> bool {
    words.iter().any(|word| word == BUSY_LOOP)
}

/// The names of all quotas that a case can set.
fn quotas() -> Vec<String> {
    Node::ALL.into_iter().map(Node::name).chain([PROXIES.to_owned()]).collect()
}

/// A random time below `loop_wait`.
fn phase() -> Duration {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    LOOP_WAIT.mul_f64(f64::from(nanos % 1_000_000) / 1e6)
}

/// Over the last minute, as the kernel says.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// How long writers write before the fault.
const STEADY: Duration = Duration::from_secs(8);

const BUSY_LOOP: &str = "while :; do :; done";

/// How many busy processes want the quota as well.
const BUSY: usize = 10;

/// Of one processor.
const QUOTA_PERCENT: u32 = 20;

/// The quota of HAProxy, PgBouncer and Trunkline.
const PROXIES: &str = "proxies";

/// Patroni's `loop_wait`.
const LOOP_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_one_role() {
        for primary in Node::ALL {
            let etcd = Node::ALL.map(|node| Etcd { node, is_leader: node != primary, changes: 1 });
            let cast = Cast::read(primary, &etcd);
            assert!(Node::ALL.iter().all(|node| *node == primary || cast.standbys.contains(node)));
            assert_ne!(cast.node(Who::Standby), cast.node(Who::Other));
        }
        let [first, second, third] = Node::ALL;
        let etcd = [Etcd { node: second, is_leader: true, changes: 1 }];
        assert_eq!(Cast::read(first, &etcd).node(Who::Standby), third);
    }
}
