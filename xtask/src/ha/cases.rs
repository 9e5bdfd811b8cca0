//! The cases: what happens to the cluster, when, and what clients of Trunkline may notice.
//!
//! Always true: a case begins with a healthy cluster; who is the primary is read when it begins. A case of the test plan
//! that is not here is named in [`ABSENT`], with the reason.
//! Not here: how a fault is done (`node`), and the course of a case (`course`).

/// Who is hit: by its role when the case begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Primary,
    /// One that does not lead etcd. A switchover goes to it.
    Standby,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A planned switchover to the standby by Patroni's REST interface.
    SwitchOver,
    /// The same, led by Trunkline.
    LedSwitchOver,
    KillPostmaster(Who),
    KillPatroni(Who),
    PowerOff(Who),
    PowerOn(Who),
    Unplug(Who),
    Plug(Who),
    /// Clients and poolers hear nothing of it any more; the other nodes do.
    Mute(Who),
    Unmute(Who),
}

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What happened before the measurement; afterwards the other nodes have settled.
    pub(super) before: &'static [Act],
    /// Each so many milliseconds after the fault.
    pub(super) acts: &'static [(u64, Act)],
    /// How long clients are watched from the fault on.
    pub(super) seconds: u64,
    /// How long at most writers of path D may wait.
    pub(super) gap_seconds_max: f64,
    /// What clients of path D may lose.
    pub(super) loss: Loss,
}

/// Which acknowledged writes may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    None,
    /// Those that no standby had received when the primary was gone: replication is asynchronous.
    NotReplicated,
}

impl Case {
    pub(super) fn named(name: &str) -> Result<&'static Case, String> {
        CASES.iter().find(|case| case.name == name).ok_or_else(|| {
            let all: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            match ABSENT.iter().find(|absent| absent.0 == name) {
                Some((_, why)) => format!("case {name} is not run: {why}"),
                None => format!("no case is called {name}; there are {}", all.join(", ")),
            }
        })
    }
}

/// A line for each case that is not among these.
pub(super) fn not_run(run: &[&'static Case]) -> Vec<String> {
    let cases = CASES.iter().filter(|case| run.iter().all(|other| other.name != case.name));
    let left_out = cases.map(|case| format!("{}: {}", case.name, case.title));
    left_out.chain(ABSENT.iter().map(|(name, why)| format!("{name}: {why}"))).collect()
}

/// In order of worth.
pub(super) const CASES: [Case; 11] = [
    Case {
        name: "6a",
        title: "a planned switchover, asked of Patroni",
        before: &[],
        acts: &[(0, Act::SwitchOver)],
        seconds: 30,
        gap_seconds_max: 6.0,
        loss: Loss::None,
    },
    Case {
        name: "6b",
        title: "a planned switchover, led by `trunkline switchover`",
        before: &[],
        acts: &[(0, Act::LedSwitchOver)],
        seconds: 30,
        gap_seconds_max: 4.5,
        loss: Loss::None,
    },
    Case {
        name: "3",
        title: "the postmaster of the primary is killed",
        before: &[],
        acts: &[(0, Act::KillPostmaster(Who::Primary))],
        seconds: 35,
        gap_seconds_max: 7.0,
        loss: Loss::None,
    },
    Case {
        name: "2a",
        title: "the primary loses power",
        before: &[],
        acts: &[(0, Act::PowerOff(Who::Primary))],
        seconds: 50,
        gap_seconds_max: 25.0,
        loss: Loss::NotReplicated,
    },
    Case {
        name: "1b",
        title: "the primary loses its network for 60 s",
        before: &[],
        acts: &[(0, Act::Unplug(Who::Primary)), (60_000, Act::Plug(Who::Primary))],
        seconds: 80,
        gap_seconds_max: 25.0,
        loss: Loss::NotReplicated,
    },
    Case {
        name: "1a",
        title: "a standby loses its network for 60 s",
        before: &[],
        acts: &[(0, Act::Unplug(Who::Standby)), (60_000, Act::Plug(Who::Standby))],
        seconds: 70,
        gap_seconds_max: 1.0,
        loss: Loss::None,
    },
    Case {
        name: "4",
        title: "Patroni is killed on the primary, whose PostgreSQL goes on",
        before: &[],
        acts: &[(0, Act::KillPatroni(Who::Primary))],
        seconds: 50,
        gap_seconds_max: 25.0,
        loss: Loss::None,
    },
    Case {
        name: "2b",
        title: "the former primary returns after a loss of power",
        before: &[Act::PowerOff(Who::Primary)],
        acts: &[(0, Act::PowerOn(Who::Primary))],
        seconds: 40,
        gap_seconds_max: 1.0,
        loss: Loss::None,
    },
    Case {
        name: "1b'",
        title: "clients and poolers cannot reach the primary for 30 s, the other nodes can",
        before: &[],
        acts: &[(0, Act::Mute(Who::Primary)), (30_000, Act::Unmute(Who::Primary))],
        seconds: 50,
        gap_seconds_max: 31.0,
        loss: Loss::None,
    },
    Case {
        name: "1c",
        title: "the primary and a standby lose their network for 40 s",
        before: &[],
        acts: &[
            (0, Act::Unplug(Who::Primary)),
            (0, Act::Unplug(Who::Standby)),
            (40_000, Act::Plug(Who::Primary)),
            (40_000, Act::Plug(Who::Standby)),
        ],
        seconds: 80,
        gap_seconds_max: 65.0,
        loss: Loss::NotReplicated,
    },
    Case {
        name: "6e",
        title: "a planned switchover whose target loses power meanwhile",
        before: &[],
        // While the primary shuts down, which takes about a second.
        acts: &[(0, Act::SwitchOver), (300, Act::PowerOff(Who::Standby))],
        seconds: 50,
        gap_seconds_max: 25.0,
        loss: Loss::None,
    },
];

/// The other cases of the test plan, and why they are not run.
const ABSENT: [(&str, &str); 12] = [
    ("1b''", "the primary is cut off from etcd only: no packet filter is set up"),
    ("2c", "a standby loses power: to clients it is case 1a without a return"),
    ("3'", "the postmaster of a standby is killed: not written yet"),
    ("4'", "Patroni is killed on a standby: not written yet"),
    ("5", "processors of the primary are busy: no quota of processor time is set up"),
    ("5'", "processors of everything are busy: no quota of processor time is set up"),
    ("6c", "a scheduled switchover: Trunkline does not read Patroni's schedule yet"),
    ("6d", "a switchover under 50 long transactions: the writers' transactions are short"),
    ("7", "replication through a failover: no subscriber is set up"),
    ("8", "the loss of etcd: not written yet"),
    ("9", "false answers of a member: needs no cluster, a test with a made-up Patroni"),
    ("10", "five changes of the primary in 60 s: a test with a made-up Patroni"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_run_or_named_with_the_reason() {
        assert_eq!(not_run(&[]).len(), CASES.len() + ABSENT.len());
        let all: Vec<&'static Case> = CASES.iter().collect();
        assert_eq!(not_run(&all).len(), ABSENT.len());
        assert!(Case::named("6c").is_err_and(|why| why.contains("is not run: a scheduled switchover")));
        assert!(Case::named("6z").is_err_and(|why| why.contains("there are 6a, 6b, 3")));
    }

    #[test]
    fn what_is_done_is_done_while_clients_are_watched() {
        for case in &CASES {
            assert!(case.acts.iter().all(|(ms, _)| *ms < 1000 * case.seconds), "{}", case.name);
            assert!(case.acts.is_sorted_by_key(|(ms, _)| *ms), "{}", case.name);
        }
    }
}
