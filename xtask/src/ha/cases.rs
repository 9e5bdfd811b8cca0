//! The cases: what happens to the cluster, when, and what clients of Trunkline may notice.
//!
//! Always true: a case begins with a healthy cluster and Patroni's usual settings; who is the primary is read when it begins. What of
//! the test plan is not here is named in [`ABSENT`], with the reason.
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
    /// The same, ordered from Patroni for ten seconds later.
    Schedule,
    KillPostmaster(Who),
    KillPatroni(Who),
    PowerOff(Who),
    PowerOn(Who),
    Unplug(Who),
    Plug(Who),
    /// Clients and poolers hear nothing of it any more; the other nodes do.
    Mute(Who),
    Unmute(Who),
    /// Its Patroni and its etcd reach no other etcd any more; all else goes on.
    CutEtcd(Who),
    JoinEtcd(Who),
    /// Every etcd is killed, or started again.
    KillEtcd,
    StartEtcd,
    /// A fifth of a processor for the whole node, and ten busy processes that want it too.
    Throttle(Who),
    /// The same for HAProxy, PgBouncer and Trunkline together.
    ThrottleProxies,
    /// Both end.
    Unthrottle,
    /// Ten clients of pgbench that write as fast as they can, directly at the primary, for so many seconds.
    Crowd(u32),
}

impl Act {
    /// Whether etcd may have to hold an election because of it.
    fn touches_etcd(self) -> bool {
        match self {
            Self::PowerOff(_) | Self::PowerOn(_) | Self::Unplug(_) | Self::Plug(_) => true,
            Self::CutEtcd(_) | Self::JoinEtcd(_) | Self::KillEtcd | Self::StartEtcd => true,
            Self::Throttle(_) | Self::ThrottleProxies | Self::Unthrottle | Self::Crowd(_) => true,
            Self::SwitchOver | Self::LedSwitchOver | Self::Schedule => false,
            Self::KillPostmaster(_) | Self::KillPatroni(_) | Self::Mute(_) | Self::Unmute(_) => false,
        }
    }
}

/// What is beside the writers and readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    None,
    /// Clients of path D whose transactions stay open.
    LongTransactions,
    /// A subscriber of logical replication, by path D.
    Subscriber,
}

#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Whether it is one of the short set.
    pub(super) is_short: bool,
    /// What is changed in Patroni's settings, as JSON; nothing if empty.
    pub(super) settings: &'static str,
    pub(super) company: Company,
    /// What happened before the measurement; afterwards the other nodes have settled.
    pub(super) before: &'static [Act],
    /// Each so many milliseconds after the fault.
    pub(super) acts: &'static [(u64, Act)],
    /// How long clients are watched from the fault on.
    pub(super) seconds: u64,
    /// How long at most writers of path D may wait.
    pub(super) gap_seconds_max: f64,
    /// How many errors of writers path D may have: refused, unknown, and failed connects.
    pub(super) errors_max: u64,
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

    /// Whether an election of etcd belongs to the case. If it does not, it was not the fault that was measured.
    pub(super) fn touches_etcd(&self) -> bool {
        self.acts.iter().map(|(_, act)| *act).chain(self.before.iter().copied()).any(Act::touches_etcd)
    }

    /// Whether commits wait for a standby.
    pub(super) fn is_synchronous(&self) -> bool {
        self.settings.contains("synchronous_mode")
    }
}

/// A line for each case that is not among these.
pub(super) fn not_run(run: &[&'static Case]) -> Vec<String> {
    let cases = CASES.iter().filter(|case| run.iter().all(|other| other.name != case.name));
    let left_out = cases.map(|case| format!("{}: {}", case.name, case.title));
    left_out.chain(ABSENT.iter().map(|(name, why)| format!("{name}: {why}"))).collect()
}

/// What most cases have.
const PLAIN: Case = Case {
    name: "",
    title: "",
    is_short: false,
    settings: "",
    company: Company::None,
    before: &[],
    acts: &[],
    seconds: 30,
    gap_seconds_max: 0.5,
    errors_max: 0,
    loss: Loss::None,
};

/// Writers whose answer is lost with the primary: no more than there are.
const IN_FLIGHT: u64 = 2;

/// In order of worth.
pub(super) const CASES: [Case; 28] = [
    Case {
        name: "6a",
        title: "a planned switchover, asked of Patroni",
        is_short: true,
        acts: &[(0, Act::SwitchOver)],
        seconds: 30,
        gap_seconds_max: 6.0,
        ..PLAIN
    },
    Case {
        name: "6b",
        title: "a planned switchover, led by `trunkline switchover`",
        is_short: true,
        acts: &[(0, Act::LedSwitchOver)],
        seconds: 30,
        gap_seconds_max: 4.5,
        ..PLAIN
    },
    Case {
        name: "3",
        title: "the postmaster of the primary is killed",
        is_short: true,
        acts: &[(0, Act::KillPostmaster(Who::Primary))],
        seconds: 35,
        gap_seconds_max: 7.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
    Case {
        name: "2a",
        title: "the primary loses power",
        is_short: true,
        acts: &[(0, Act::PowerOff(Who::Primary))],
        seconds: 50,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        loss: Loss::NotReplicated,
        ..PLAIN
    },
    Case {
        name: "2a-s",
        title: "the primary loses power, with synchronous replication",
        is_short: true,
        settings: r#"{"synchronous_mode": true}"#,
        acts: &[(0, Act::PowerOff(Who::Primary))],
        seconds: 50,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
    Case {
        name: "1b",
        title: "the primary loses its network for 60 s",
        is_short: true,
        acts: &[(0, Act::Unplug(Who::Primary)), (60_000, Act::Plug(Who::Primary))],
        seconds: 80,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        loss: Loss::NotReplicated,
        ..PLAIN
    },
    Case {
        name: "1a",
        title: "a standby loses its network for 60 s",
        is_short: true,
        acts: &[(0, Act::Unplug(Who::Standby)), (60_000, Act::Plug(Who::Standby))],
        seconds: 70,
        gap_seconds_max: 0.5,
        ..PLAIN
    },
    Case {
        name: "4",
        title: "Patroni is killed on the primary, whose PostgreSQL goes on",
        is_short: true,
        acts: &[(0, Act::KillPatroni(Who::Primary))],
        seconds: 50,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
    Case {
        name: "1b''",
        title: "the primary is cut off from etcd for 40 s",
        is_short: true,
        acts: &[(0, Act::CutEtcd(Who::Primary)), (40_000, Act::JoinEtcd(Who::Primary))],
        seconds: 60,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
    Case {
        name: "2b",
        title: "the former primary returns after a loss of power",
        is_short: true,
        before: &[Act::PowerOff(Who::Primary)],
        acts: &[(0, Act::PowerOn(Who::Primary))],
        seconds: 40,
        gap_seconds_max: 0.5,
        ..PLAIN
    },
    Case {
        name: "1b'",
        title: "clients and poolers cannot reach the primary for 30 s, the other nodes can",
        is_short: true,
        acts: &[(0, Act::Mute(Who::Primary)), (30_000, Act::Unmute(Who::Primary))],
        seconds: 50,
        gap_seconds_max: 31.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
    Case {
        name: "6e",
        title: "a planned switchover whose target loses power meanwhile",
        is_short: true,
        // While the primary shuts down, which takes about a second.
        acts: &[(0, Act::SwitchOver), (300, Act::PowerOff(Who::Standby))],
        seconds: 50,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
    Case {
        name: "2c",
        title: "a standby loses power",
        acts: &[(0, Act::PowerOff(Who::Standby))],
        seconds: 40,
        gap_seconds_max: 0.5,
        ..PLAIN
    },
    Case {
        name: "3'",
        title: "the postmaster of a standby is killed",
        acts: &[(0, Act::KillPostmaster(Who::Standby))],
        seconds: 30,
        gap_seconds_max: 0.5,
        ..PLAIN
    },
    Case {
        name: "4'",
        title: "Patroni is killed on a standby, whose PostgreSQL goes on",
        acts: &[(0, Act::KillPatroni(Who::Standby))],
        seconds: 40,
        gap_seconds_max: 0.5,
        ..PLAIN
    },
    Case {
        name: "3-0",
        title: "the postmaster of the primary is killed, and Patroni is told not to wait for its restart",
        settings: r#"{"primary_start_timeout": 0}"#,
        acts: &[(0, Act::KillPostmaster(Who::Primary))],
        seconds: 40,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        loss: Loss::NotReplicated,
        ..PLAIN
    },
    Case {
        name: "1c",
        title: "the primary and a standby lose their network for 40 s",
        acts: &[
            (0, Act::Unplug(Who::Primary)),
            (0, Act::Unplug(Who::Standby)),
            (40_000, Act::Plug(Who::Primary)),
            (40_000, Act::Plug(Who::Standby)),
        ],
        seconds: 80,
        gap_seconds_max: 65.0,
        errors_max: IN_FLIGHT,
        loss: Loss::NotReplicated,
        ..PLAIN
    },
    Case {
        name: "1b''-f",
        title: "the primary is cut off from etcd for 40 s, with Patroni's failsafe mode",
        settings: r#"{"failsafe_mode": true}"#,
        acts: &[(0, Act::CutEtcd(Who::Primary)), (40_000, Act::JoinEtcd(Who::Primary))],
        seconds: 60,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
    Case {
        name: "8",
        title: "every etcd is gone for 40 s",
        acts: &[(0, Act::KillEtcd), (40_000, Act::StartEtcd)],
        seconds: 70,
        gap_seconds_max: 65.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
    Case {
        name: "8-f",
        title: "every etcd is gone for 40 s, with Patroni's failsafe mode",
        settings: r#"{"failsafe_mode": true}"#,
        acts: &[(0, Act::KillEtcd), (40_000, Act::StartEtcd)],
        seconds: 60,
        gap_seconds_max: 0.5,
        ..PLAIN
    },
    Case {
        name: "6c",
        title: "a planned switchover that Patroni was told 10 s before",
        acts: &[(0, Act::Schedule)],
        seconds: 40,
        gap_seconds_max: 6.0,
        ..PLAIN
    },
    Case {
        name: "6d",
        title: "a planned switchover, led by `trunkline switchover`, under 50 open transactions",
        company: Company::LongTransactions,
        acts: &[(0, Act::LedSwitchOver)],
        seconds: 40,
        gap_seconds_max: 15.0,
        ..PLAIN
    },
    Case {
        name: "7",
        title: "logical replication while the primary loses its network for 60 s",
        company: Company::Subscriber,
        acts: &[(0, Act::Unplug(Who::Primary)), (60_000, Act::Plug(Who::Primary))],
        seconds: 80,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        loss: Loss::NotReplicated,
        ..PLAIN
    },
    Case {
        name: "7-b",
        title: "logical replication through a planned switchover, led by `trunkline switchover`",
        company: Company::Subscriber,
        acts: &[(0, Act::LedSwitchOver)],
        seconds: 40,
        gap_seconds_max: 4.5,
        ..PLAIN
    },
    Case {
        name: "5",
        title: "the primary has a fifth of a processor, which ten busy processes want too, for 40 s",
        acts: &[(0, Act::Throttle(Who::Primary)), (40_000, Act::Unthrottle)],
        seconds: 60,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        loss: Loss::NotReplicated,
        ..PLAIN
    },
    Case {
        name: "5-w",
        title: "ten clients write to the primary as fast as they can, for 30 s",
        acts: &[(0, Act::Crowd(30))],
        seconds: 40,
        gap_seconds_max: 2.0,
        ..PLAIN
    },
    Case {
        name: "5'",
        title: "the primary has a fifth of a processor, and so have the poolers, for 40 s",
        acts: &[(0, Act::Throttle(Who::Primary)), (0, Act::ThrottleProxies), (40_000, Act::Unthrottle)],
        seconds: 60,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        loss: Loss::NotReplicated,
        ..PLAIN
    },
    Case {
        name: "1b-s",
        title: "the primary loses its network for 60 s, with synchronous replication",
        settings: r#"{"synchronous_mode": true}"#,
        acts: &[(0, Act::Unplug(Who::Primary)), (60_000, Act::Plug(Who::Primary))],
        seconds: 80,
        gap_seconds_max: 25.0,
        errors_max: IN_FLIGHT,
        ..PLAIN
    },
];

/// What else is in the test plan, and why it is not run here.
pub(super) const ABSENT: [(&str, &str); 6] = [
    ("9", "false answers of a member: needs no cluster; the mock set has it"),
    ("10", "five changes of the primary in 60 s: the mock set has it"),
    ("source profile", "`ttl` 30 s, `loop_wait` 10 s: only the shortest times of Patroni are measured"),
    ("supervisor", "a substitute for a watchdog beside each node: only the harder variant without it is measured"),
    ("readers", "their gaps, and how soon a subscriber goes on, are told in the notes, and no limit is judged by them"),
    (
        "repetitions",
        "writers are watched for 8 s before a fault, not 20, and `full` runs each case three times, not five",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_run_or_named_with_the_reason() {
        assert_eq!(not_run(&[]).len(), CASES.len() + ABSENT.len());
        let all: Vec<&'static Case> = CASES.iter().collect();
        assert_eq!(not_run(&all).len(), ABSENT.len());
        assert!(Case::named("9").is_err_and(|why| why.contains("is not run: false answers")));
        assert!(Case::named("6z").is_err_and(|why| why.contains("there are 6a, 6b, 3")));
    }

    #[test]
    fn no_two_cases_have_the_same_name() {
        for (place, case) in CASES.iter().enumerate() {
            assert!(CASES[..place].iter().all(|other| other.name != case.name), "{}", case.name);
        }
    }

    #[test]
    fn what_is_done_is_done_while_clients_are_watched() {
        for case in &CASES {
            assert!(case.acts.iter().all(|(ms, _)| *ms < 1000 * case.seconds), "{}", case.name);
            assert!(case.acts.is_sorted_by_key(|(ms, _)| *ms), "{}", case.name);
        }
    }

    #[test]
    fn settings_are_an_object_of_json() {
        for case in CASES.iter().filter(|case| !case.settings.is_empty()) {
            let settings: serde_json::Value = serde_json::from_str(case.settings).expect("JSON");
            assert!(settings.is_object(), "{}", case.name);
        }
    }
}
