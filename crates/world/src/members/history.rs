//! What the members of a cluster have committed and replayed, and the checks of it.
//!
//! Always true: a write has one place in the history, however often it is looked at; what an unplanned failover loses is remembered as
//! lost, and no application is to blame the pooler for it.
//! Not here: who is promoted (`patroni`, `troubles`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Time;
use cluster::{Gate, Report};

use crate::postgres::sql::Nonce;

/// The members and their writes.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) now: Time,
    pub(crate) members: Vec<Member>,
    /// Every write that was begun, and every one that was committed.
    begun: BTreeSet<Nonce>,
    committed: BTreeMap<Nonce, Commit>,
    /// Writes that applications were told to be committed.
    acknowledged: BTreeSet<Nonce>,
    /// Writes that were lost with a former primary, without a plan.
    lost: BTreeSet<Nonce>,
    /// The first commit in each database on each timeline.
    first: BTreeMap<(String, u32), Time>,
    /// When each timeline began.
    promoted: BTreeMap<u32, Time>,
    /// Agents promote nobody before the lock of the former primary has run out.
    has_lock: bool,
    /// The databases that read at standbys.
    replicas: BTreeSet<String>,
    /// The writes of the primary that was stopped last.
    stopped: Vec<Nonce>,
    /// The gate in force, and since when.
    gate: (Gate, Time),
    /// What must not happen and has happened.
    pub(crate) wrongs: Vec<String>,
}

/// A commit of a write.
#[derive(Clone, Debug)]
struct Commit {
    host: usize,
    timeline: u32,
    at: Time,
    database: String,
}

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) run: Run,
    pub(crate) in_recovery: bool,
    pub(crate) timeline: u32,
    /// The writes that it has, with the time of their commit.
    rows: Vec<(Nonce, Time)>,
    /// The member whose log it replays.
    pub(crate) follows: Option<usize>,
    lag: Duration,
    /// Nobody reaches it, and it reaches nobody.
    pub(crate) is_cut_off: bool,
    /// The pooler does not reach PostgreSQL on it.
    pub(crate) is_hidden: bool,
    /// How often it was started or stopped.
    pub(crate) stint: u32,
    /// It is being promoted.
    pub(crate) is_rising: bool,
    /// Since when it is the primary.
    pub(crate) primary_since: Time,
}

/// How far PostgreSQL on a member has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Run {
    Up,
    Starting,
    Down,
}

/// As what a member starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// As what it was.
    AsBefore,
    /// As a standby of another one, or of nobody yet.
    Standby(Option<usize>),
}

impl Member {
    /// It accepts writes.
    pub(crate) fn is_primary(&self) -> bool {
        self.run == Run::Up && !self.in_recovery
    }

    /// The pooler reaches PostgreSQL on it.
    pub(crate) fn is_reached(&self) -> bool {
        !self.is_cut_off && !self.is_hidden
    }

    /// How many writes it has.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }
}

impl History {
    pub(super) fn new(now: Time, primary: usize, lags: &[u64], has_lock: bool, replicas: BTreeSet<String>) -> Self {
        let member = |(place, lag): (usize, &u64)| Member {
            run: Run::Up,
            in_recovery: place != primary,
            timeline: 1,
            rows: Vec::new(),
            follows: (place != primary).then_some(primary),
            lag: Duration::from_micros(*lag),
            is_cut_off: false,
            is_hidden: false,
            stint: 0,
            is_rising: false,
            primary_since: now,
        };
        Self {
            now,
            members: lags.iter().enumerate().map(member).collect(),
            begun: BTreeSet::new(),
            committed: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            lost: BTreeSet::new(),
            first: BTreeMap::new(),
            promoted: BTreeMap::from([(1, now)]),
            has_lock,
            replicas,
            stopped: Vec::new(),
            gate: (Gate::Any, now),
            wrongs: Vec::new(),
        }
    }

    /// The member that accepts writes on the newest timeline.
    pub(crate) fn primary(&self) -> Option<usize> {
        let primaries = (0..self.members.len()).filter(|host| self.members[*host].is_primary());
        primaries.max_by_key(|host| self.members[*host].timeline)
    }

    /// A write is run. Returns whether the host takes it.
    pub(crate) fn write(&mut self, host: usize, nonce: Nonce) -> bool {
        if self.members[host].in_recovery {
            return false;
        }
        if !self.begun.insert(nonce) {
            self.wrongs.push(format!("{nonce} is carried out twice, now at host {host}"));
        }
        true
    }

    /// A transaction with these writes is committed.
    pub(crate) fn commit(&mut self, host: usize, database: &str, writes: Vec<Nonce>) {
        let (now, timeline) = (self.now, self.members[host].timeline);
        if writes.is_empty() {
            return;
        }
        self.first.entry((database.to_owned(), timeline)).or_insert(now);
        for nonce in writes {
            self.members[host].rows.push((nonce, now));
            self.committed.insert(nonce, Commit { host, timeline, at: now, database: database.to_owned() });
        }
    }

    /// An application is told that a write is committed.
    pub(crate) fn acknowledge(&mut self, nonce: Nonce) {
        self.acknowledged.insert(nonce);
        let Some(Commit { host, timeline, at, database }) = self.committed.get(&nonce) else {
            self.wrongs.push(format!("{nonce} is said to be committed, and no host has committed it"));
            return;
        };
        let (gate, since) = &self.gate;
        let is_meant = match gate {
            Gate::Only(name) => **name == format!("10.200.0.{host}:5432"),
            Gate::Fenced => false,
            Gate::Any | Gate::Held => true,
        };
        if !is_meant && *at > *since + POSTED {
            self.wrongs.push(format!("{nonce} was written at host {host} while the gate was {gate:?}"));
        }
        let newer = self.first.range((database.clone(), timeline + 1)..);
        let newer = newer.take_while(|((other, _), _)| other == database).find(|(_, first)| *first < at);
        if let Some(((_, newer), _)) = newer {
            let text =
                format!("{nonce} was written at host {host} on timeline {timeline} after others on timeline {newer}");
            self.wrongs.push(text);
        }
        let promoted = self.promoted.range(timeline + 1..).find(|(_, promoted)| *promoted < at);
        if let Some((newer, _)) = promoted.filter(|_| self.has_lock) {
            let text = format!(
                "{nonce} was written at host {host} on timeline {timeline} after the promotion to timeline {newer}"
            );
            self.wrongs.push(text);
        }
    }

    /// A transaction begins in a session, which has told since then that its host is the primary.
    pub(crate) fn reads(&mut self, nonce: Nonce, database: &str, told_for: Duration) {
        if self.replicas.contains(database) && told_for > SOON {
            self.wrongs.push(format!("{nonce} reads at a host that is the primary, as its server has told"));
        }
    }

    /// A gate comes into force.
    pub(super) fn gate_is(&mut self, gate: Gate) {
        if gate != self.gate.0 {
            self.gate = (gate, self.now);
        }
    }

    /// Whether a write was committed anywhere.
    pub(crate) fn is_committed(&self, nonce: Nonce) -> bool {
        self.committed.contains_key(&nonce)
    }

    /// A standby replays what has reached it.
    pub(crate) fn advance(&mut self, host: usize) {
        let now = self.now;
        let Some(leader) = self.members[host].follows.filter(|leader| self.is_linked(host, *leader)) else { return };
        let Ok([member, leader]) = self.members.get_disjoint_mut([host, leader]) else { return };
        let new = leader.rows.get(member.rows.len()..).unwrap_or_default();
        let arrived = new.iter().take_while(|(_, at)| *at + member.lag <= now);
        member.rows.extend(arrived.copied().collect::<Vec<_>>());
        member.timeline = leader.timeline;
    }

    fn is_linked(&self, host: usize, leader: usize) -> bool {
        let is_there = |member: &Member| member.run == Run::Up && !member.is_cut_off;
        let (member, leader) = (&self.members[host], &self.members[leader]);
        member.in_recovery && is_there(member) && is_there(leader)
    }

    /// What PostgreSQL on a member says of itself.
    pub(crate) fn report(&mut self, host: usize) -> Report {
        self.advance(host);
        let member = &self.members[host];
        let position = POSITION + member.rows.len() as u64 * ROW_BYTES;
        Report {
            in_recovery: member.in_recovery,
            system: SYSTEM,
            timeline: member.timeline,
            replayed: position,
            received: position,
            can_promote: true,
            delay: None,
        }
    }

    /// A member stops: at once, or after its standbys have got everything.
    pub(crate) fn stop(&mut self, host: usize, is_clean: bool) {
        for other in (0..self.members.len()).filter(|other| *other != host) {
            self.advance(other);
            let is_linked = self.members[other].follows == Some(host) && self.is_linked(other, host);
            if is_clean && is_linked {
                self.members[other].rows = self.members[host].rows.clone();
            }
        }
        let member = &mut self.members[host];
        if member.is_primary() {
            self.stopped = member.rows.iter().map(|(nonce, _)| *nonce).collect();
        }
        (member.run, member.is_rising) = (Run::Down, false);
        member.stint += 1;
    }

    /// A member begins to start.
    pub(crate) fn start(&mut self, host: usize, start: Start) {
        match start {
            Start::AsBefore => {}
            Start::Standby(Some(leader)) => self.follow(host, leader),
            Start::Standby(None) => (self.members[host].in_recovery, self.members[host].follows) = (true, None),
        }
        let member = &mut self.members[host];
        member.run = Run::Starting;
        member.stint += 1;
    }

    /// A member is a standby of another one from now on. What the other one does not have is lost.
    pub(crate) fn follow(&mut self, host: usize, leader: usize) {
        self.advance(host);
        let of_leader = self.members[leader].rows.clone();
        let member = &mut self.members[host];
        let same = member.rows.iter().zip(&of_leader).take_while(|(ours, theirs)| ours.0 == theirs.0).count();
        self.lost.extend(member.rows.drain(same..).map(|(nonce, _)| nonce));
        (member.in_recovery, member.follows) = (true, Some(leader));
    }

    /// The newest timeline.
    pub(super) fn newest(&self) -> u32 {
        self.promoted.keys().max().copied().unwrap_or_default()
    }

    /// A member begins a new timeline. Where the pooler has ordered that, nothing may be missing.
    pub(crate) fn promote(&mut self, host: usize, is_planned: bool) {
        self.advance(host);
        let newest = self.newest();
        let now = self.now;
        let member = &mut self.members[host];
        (member.in_recovery, member.follows, member.is_rising) = (false, None, false);
        (member.timeline, member.primary_since) = (newest + 1, now);
        let has: BTreeSet<Nonce> = member.rows.iter().map(|(nonce, _)| *nonce).collect();
        self.promoted.insert(newest + 1, now);
        // Whoever promotes it has the other standbys follow it.
        let standbys = (0..self.members.len()).filter(|other| *other != host && self.members[*other].in_recovery);
        standbys.collect::<Vec<_>>().into_iter().for_each(|other| self.follow(other, host));
        let missing = self.acknowledged.iter().filter(|nonce| !has.contains(nonce) && !self.lost.contains(nonce));
        let missing: Vec<Nonce> = missing.copied().collect();
        let is_gone = |nonce: &&Nonce| self.acknowledged.contains(*nonce) && !has.contains(*nonce);
        if let Some(nonce) = self.stopped.iter().find(is_gone).filter(|_| is_planned) {
            self.wrongs.push(format!("the switchover to host {host} has lost {nonce}, which was acknowledged"));
        }
        self.lost.extend(missing);
    }

    /// In peace again: what was acknowledged and not lost with a former primary is there.
    pub(crate) fn check_rest(&mut self) {
        let Some(primary) = self.primary() else {
            self.wrongs.push("there is no primary at the end".to_owned());
            return;
        };
        let has: BTreeSet<Nonce> = self.members[primary].rows.iter().map(|(nonce, _)| *nonce).collect();
        let gone = self.acknowledged.iter().find(|nonce| !has.contains(nonce) && !self.lost.contains(nonce));
        if let Some(nonce) = gone {
            self.wrongs.push(format!("{nonce} was acknowledged, and the primary does not have it"));
        }
    }
}

/// How long a letter takes to a worker at most, and more.
const POSTED: Duration = Duration::from_millis(50);
/// How long a request may be under way.
const SOON: Duration = Duration::from_secs(1);
/// The system identifier of all members.
const SYSTEM: u64 = 7;
/// Where the log begins, and how long it is for each write.
const POSITION: u64 = 16_000_100;
const ROW_BYTES: u64 = 300;
