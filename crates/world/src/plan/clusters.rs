//! Days with a cluster: its members and agents, which of the databases are of its primary, and what goes wrong with them.
//!
//! Always true: drawn from a separate stream of chance, so that the worlds of other seeds do not change. In a calm day nothing happens
//! to the cluster but switchovers that the pooler leads.
//! Not here: what a trouble does (`members::troubles`), what must not happen (`members::history`).

use std::fmt::Write as _;

use crate::plan::fault::{Command, Fault, What};
use crate::plan::streams::Stream;
use crate::plan::{Db, Plan};
use crate::sim::dice::Dice;

/// A cluster: all hosts of the world are its members.
#[derive(Clone, Debug)]
pub(crate) struct ClusterPlan {
    /// The times of the leader lock, if each member has an agent.
    pub(crate) agents: Option<LockTimes>,
    /// How long a question to a member or an agent takes at most, in each direction, microseconds.
    pub(crate) latency: u64,
    /// How far each member is behind while it is a standby, microseconds.
    pub(crate) lags: Vec<u64>,
    /// How long clients may be held in a switchover, microseconds.
    pub(crate) hold: u64,
}

/// How long the leader lock lasts and how often it is renewed, microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockTimes {
    pub(crate) ttl: u64,
    pub(crate) loop_wait: u64,
}

/// What happens to a cluster.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The operator has the pooler switch over.
    Switchover,
    /// The operator has the agents switch over, which the pooler learns from nobody.
    Elsewhere,
    /// The operator holds a database.
    Hold { database: String, seconds: u64 },
    /// PostgreSQL crashes on a member and starts again at the end.
    Crash { host: Whom },
    /// A member is cut off from everybody.
    CutOff { host: Whom },
    /// PostgreSQL on a member cannot be reached by the pooler; everybody else reaches it.
    Hidden { host: Whom },
    /// The agent of a member is killed.
    NoAgent { host: Whom },
    /// The agent of a member cannot reach its store.
    NoStore { host: Whom },
    /// The agent of a member does not answer in time.
    SlowAgent { host: Whom },
    /// The agent of a member that is a standby names itself as the leader.
    Lie { host: Whom },
    /// Without agents: the operator promotes another member, and the former primary is made a standby at the end, if it runs.
    Promotion,
}

/// Which member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whom {
    /// The one that is the primary then.
    Primary,
    /// The one at this place.
    At(usize),
}

/// Whether the world of a seed has a cluster.
pub(crate) fn is_drawn(seed: u64) -> bool {
    Dice::new(seed, Stream::Clusters.number()).chance(OFTEN)
}

impl Plan {
    /// Makes the world one with a cluster, if it is to be one.
    pub(super) fn draw_cluster(&mut self) -> bool {
        let mut dice = Dice::new(self.seed, Stream::Clusters.number());
        if !dice.chance(OFTEN) {
            return false;
        }
        self.hosts = self.hosts.max(2);
        let tls = self.tls.hosts[0];
        self.tls.hosts.resize(self.hosts, tls);
        let agents = dice.chance(600).then(|| {
            let (ttl, loop_wait) = dice.pick(&[(6, 1), (8, 2), (10, 2)]);
            LockTimes { ttl: ttl * 1_000_000, loop_wait: loop_wait * 1_000_000 }
        });
        let hold = dice.among(4..=15);
        let lag_max = dice.pick(&[1_000, 200_000, 3_000_000]);
        let lags = (0..self.hosts).map(|_| dice.among(0..=lag_max)).collect();
        let latency = dice.pick(&[1_000, 20_000, 150_000]);
        self.heals_at = dice.among(15_000_000..=45_000_000);
        self.draw_lines(&mut dice, agents.is_some(), hold);
        self.cluster = Some(ClusterPlan { agents, latency, lags, hold: hold * 1_000_000 });
        true
    }

    /// Draws the lines of the cluster and of its databases.
    fn draw_lines(&mut self, dice: &mut Dice, has_agents: bool, hold: u64) {
        self.shape.autodb = None;
        // Without any pause the logins at hosts of the wrong role would be most of what happens.
        self.shape.set("server_login_retry", dice.among(1..=3));
        let hosts: Vec<String> = (0..self.hosts).map(|host| format!("10.200.0.{host}")).collect();
        let interval = dice.pick(&["0.2", "0.5", "1"]);
        let drain = if self.is_calm { "10" } else { dice.pick(&["0.3", "1", "3"]) };
        let mut line = format!("main = hosts={} user=checker check_interval={interval}", hosts.join(","));
        let _ = write!(line, " hold_timeout={} drain_timeout={drain}", if self.is_calm { 60 } else { hold });
        if has_agents {
            let agents: Vec<String> = hosts.iter().map(|host| format!("http://{host}:8008")).collect();
            let _ = write!(line, " patroni={}", agents.join(","));
        } else {
            line.push_str(" demote_command=demote");
        }
        self.shape.cluster = Some(line);
        let mut databases = std::mem::take(&mut self.shape.databases);
        let is_calm = self.is_calm;
        for (number, db) in databases.iter_mut().enumerate() {
            // A reader may be at a standby that is promoted and stopped by the next switchover before it reports that.
            let role = if number > 0 && !is_calm && dice.chance(350) { "replica" } else { "primary" };
            // The loan of a session lasts for longer than a switchover waits.
            let mode = if is_calm || number == 0 { "transaction" } else { db.mode };
            *db = Db { name: format!("{mode}{number}"), mode, role: Some(role), connect_query: None, ..db.clone() };
        }
        self.shape.databases = databases;
    }

    /// Has the applications of the primary write, and all of them take their time.
    pub(super) fn draw_writers(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Writers.number());
        let replicas: Vec<&str> =
            self.shape.databases.iter().filter(|db| db.role == Some("replica")).map(|db| &*db.name).collect();
        for (_, person, habits) in &mut self.people {
            habits.writes = !replicas.contains(&&*person.database);
            habits.think = (0, 2 * self.heals_at / u64::from(person.errands.max(1)));
            habits.rests = 0;
            if self.is_calm {
                // What is kept in a session, or takes long, is nothing that a switchover waits for.
                habits.cancels = 0;
            }
        }
        if self.is_calm {
            for number in 0..dice.among(1..=4) as u32 {
                self.add_trouble(number, Trouble::Switchover, &mut dice);
            }
            return;
        }
        // What takes long is often under way when something happens.
        self.manner.work.1 = dice.pick(&[2_000, 30_000, 200_000]);
        let has_agents = self.cluster.as_ref().is_some_and(|cluster| cluster.agents.is_some());
        let kinds: Vec<u64> = (0..KINDS).filter(|_| dice.chance(500)).collect();
        let count = if kinds.is_empty() { 0 } else { dice.among(1..=10) as u32 };
        for number in 0..count {
            let kind = dice.pick(&kinds);
            let trouble = self.trouble(kind, has_agents, &mut dice);
            self.add_trouble(number, trouble, &mut dice);
        }
        let kinds: Vec<u64> = OTHERS.into_iter().filter(|_| dice.chance(250)).collect();
        for number in 0..if kinds.is_empty() { 0 } else { dice.among(1..=8) as u32 } {
            let what = match What::draw(dice.pick(&kinds), &mut dice, self) {
                What::Order(Command::Suspend | Command::Handover { .. }) => What::Order(Command::Reconnect(None)),
                what => what,
            };
            let lasts = dice.pick(&[1_000, 100_000, 2_000_000]);
            let fault = Fault { at: dice.among(EARLIEST..=self.heals_at), lasts: dice.among(0..=lasts), what };
            self.faults.push((count + number, fault));
        }
    }

    fn trouble(&self, kind: u64, has_agents: bool, dice: &mut Dice) -> Trouble {
        let any = dice.among(0..=self.hosts as u64 - 1) as usize;
        let host = if dice.chance(700) { Whom::Primary } else { Whom::At(any) };
        match kind {
            0 => Trouble::Switchover,
            1 if has_agents => Trouble::Elsewhere,
            1 => Trouble::Promotion,
            2 => {
                let place = dice.among(0..=self.shape.databases.len() as u64 - 1) as usize;
                Trouble::Hold { database: self.shape.databases[place].name.clone(), seconds: dice.among(1..=10) }
            }
            3 => Trouble::Crash { host },
            4 => Trouble::CutOff { host },
            5 => Trouble::Hidden { host },
            6 if has_agents => Trouble::NoAgent { host },
            7 if has_agents => Trouble::NoStore { host },
            8 if has_agents => Trouble::SlowAgent { host },
            9 if has_agents => Trouble::Lie { host },
            6 | 7 => Trouble::Promotion,
            _ => Trouble::Switchover,
        }
    }

    fn add_trouble(&mut self, number: u32, trouble: Trouble, dice: &mut Dice) {
        let longest = if dice.chance(500) { 20_000_000 } else { 4_000_000 };
        // Short of the length of a lease nothing follows from these.
        let lasts = match trouble {
            Trouble::NoAgent { .. } | Trouble::Promotion => longest.max(15_000_000),
            _ => longest,
        };
        let what = What::Cluster(trouble);
        let fault = Fault { at: dice.among(EARLIEST..=self.heals_at), lasts: dice.among(0..=lasts), what };
        self.faults.push((number, fault));
    }
}

/// How many of a thousand worlds have a cluster.
const OFTEN: u32 = 125;
/// The kinds of troubles.
const KINDS: u64 = 10;
/// The other kinds of faults that occur with a cluster: its members have no other moods, and the clock does not jump.
const OTHERS: [u64; 9] = [1, 2, 3, 4, 7, 8, 10, 12, 14];
/// The pooler has to have seen the cluster once.
const EARLIEST: u64 = 2_000_000;
