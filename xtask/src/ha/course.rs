//! The course of a case: heal, write for a while, the fault, and what the ledger says.
//!
//! Always true: the fault comes at a random time within Patroni's `loop_wait`, because the length of an outage depends
//! on that; all four paths see the same fault.
//! Not here: what is done (`cases`), and how it is counted (`ledger`).

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::cases::{Act, Case, Who};
use super::lab::Lab;
use super::ledger::{Ledger, Measured};
use super::node::Node;
use super::paths;
use super::patroni::{self, Etcd};

/// Runs a case once.
pub(super) fn run(lab: &Lab, case: &Case) -> Result<Measured, String> {
    let primary = lab.heal()?;
    let etcd = patroni::etcd();
    let cast = Cast::read(primary, &etcd);
    for act in case.before {
        cast.act(lab, *act)?;
    }
    if !case.before.is_empty() {
        lab.settle(&[cast.node(Who::Standby), cast.node(Who::Other)])?;
    }
    lab.reach_by_all_paths()?;
    let steady = STEADY + phase();
    let begun = Instant::now();
    let mut ledger = Ledger::start(lab, steady + Duration::from_secs(case.seconds))?;
    ledger.wait_until(lab, begun + steady)?;
    let fault = Instant::now();
    for (ms, act) in case.acts {
        ledger.wait_until(lab, fault + Duration::from_millis(*ms))?;
        cast.act(lab, *act)?;
    }
    let mut measured = ledger.finish(lab)?;
    let has_changed =
        |after: &Etcd| etcd.iter().any(|before| before.node == after.node && before.changes != after.changes);
    measured.etcd_changed = patroni::etcd().iter().any(has_changed);
    measured.load = load_average();
    Ok(measured)
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
            Act::KillPostmaster(who) => self.node(who).kill_postmaster(),
            Act::KillPatroni(who) => self.node(who).kill_patroni(),
            Act::PowerOff(who) => self.node(who).power_off(),
            Act::PowerOn(who) => self.node(who).power_on(lab),
            Act::Unplug(who) => self.node(who).link("down"),
            Act::Plug(who) => self.node(who).link("up"),
            Act::Mute(who) => self.node(who).hear_clients(false),
            Act::Unmute(who) => self.node(who).hear_clients(true),
        }
    }
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
