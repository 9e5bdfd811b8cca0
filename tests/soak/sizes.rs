//! Whether any pool has more servers than it may have, as PostgreSQL and the kernel see it.
//!
//! Always true: a server counts when PostgreSQL runs a backend for it and the pooler holds its connection at the same
//! instant.
//! A connection that the pooler has closed does not count, even if a proxy still keeps PostgreSQL from noticing.
//! Not here: what the pooler reports about itself (`rest`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use tests::pooler::Pooler;

use super::cast::{self, DATABASES, Mode, POOLS};
use super::era::Era;
use super::eras::Eras;
use super::proxy::Passage;
use super::stage::Stage;

/// The connections of each pool at one moment.
struct Look(BTreeMap<(String, String), Vec<Passage>>);

/// Which servers are counted together.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Pool(&'static str, &'static str),
    Database(&'static str),
}

/// Checks all pools under the configuration in force. Returns the largest number of servers of any pool.
pub(crate) fn check(stage: &Stage<'_>, eras: &Eras) -> Result<usize, String> {
    let before = eras.now();
    let look = Look::take(stage);
    if !eras.now().is_same(before) {
        return Ok(0);
    }
    DATABASES.iter().try_for_each(|database| Limit::Database(database).check(&look, eras).map(drop))?;
    let mut pools = POOLS.iter().map(|(database, user)| Limit::Pool(database, user).check(&look, eras));
    pools.try_fold(0, |most, count| Ok(most.max(count?)))
}

/// How many servers PostgreSQL runs for a pool.
pub(crate) fn servers(stage: &Stage<'_>, database: &str, user: &str) -> usize {
    Look::take(stage).0.get(&(database.to_string(), user.to_string())).map_or(0, Vec::len)
}

impl Look {
    fn take(stage: &Stage<'_>) -> Self {
        // In this order: a connection that had a backend first and is open afterwards was a server all the time in between.
        let rows = stage.postgres.query(PROCESSES).rows;
        let passages = stage.back.passages();
        let held = ports_held(&stage.pooler, stage.back.address().port());
        let mut pools: BTreeMap<_, Vec<Passage>> = BTreeMap::new();
        for row in rows {
            let [Some(database), Some(user), Some(port)] = &row[..] else { continue };
            let passage = passages.iter().find(|passage| Ok(passage.far) == port.parse());
            let server = passage.filter(|passage| held.contains(&passage.near));
            pools.entry((database.clone(), user.clone())).or_default().extend(server);
        }
        Self(pools)
    }
}

impl Limit {
    /// Returns the number of servers. A server above the limit must have been there before the limit was lowered, and may
    /// stay only until its client gives it back.
    fn check(self, look: &Look, eras: &Eras) -> Result<usize, String> {
        let servers: Vec<Passage> =
            look.0.iter().filter(|(pool, _)| self.holds(pool)).flat_map(|(_, servers)| servers).copied().collect();
        let count = servers.len();
        let Some(lowered) = eras.all_since(|era| self.most(era) < count) else { return Ok(count) };
        let newest = servers.iter().map(|server| server.since).max().unwrap_or(lowered);
        let most = self.most(&eras.latest());
        let ago = |moment: Instant| format!("{:.3} s ago", moment.elapsed().as_secs_f64());
        let evidence = || {
            let servers: Vec<_> = servers.iter().map(|server| ago(server.since)).collect();
            format!("{self:?} has {count} servers, {most} allowed since {}; opened {servers:?}", ago(lowered))
        };
        if newest > lowered + ACCEPTED {
            return Err(format!("a server was opened above the limit: {}", evidence()));
        }
        if self.returns() && lowered.elapsed() > SHRUNK {
            return Err(format!("a pool does not shrink: {}", evidence()));
        }
        Ok(count)
    }

    fn holds(self, (database, user): &(String, String)) -> bool {
        match self {
            Self::Pool(own, of) => database == own && user == of,
            Self::Database(own) => database == own,
        }
    }

    fn most(self, era: &Era) -> usize {
        match self {
            Self::Pool(database, _) => era.pool_servers(database),
            Self::Database(database) => era.database_servers(database),
        }
    }

    /// Returns whether clients give their servers back before they leave.
    fn returns(self) -> bool {
        let (Self::Pool(database, _) | Self::Database(database)) = self;
        cast::mode(database) != Mode::Session
    }
}

/// The ports from which the pooler holds established connections to a port of this machine.
fn ports_held(pooler: &Pooler, port: u16) -> BTreeSet<u16> {
    let Ok(files) = fs::read_dir(format!("/proc/{}/fd", pooler.pid())) else { return BTreeSet::new() };
    let sockets: BTreeSet<String> = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok()?.to_str().map(str::to_string))
        .filter(|name| name.starts_with("socket:"))
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let port_of = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() > 9 && port_of(words[2]) == Some(port) && words[3] == ESTABLISHED)
        .filter(|words| sockets.contains(&format!("socket:[{}]", words[9])))
        .filter_map(|words| port_of(words[1]))
        .collect()
}

const PROCESSES: &str = "select datname, usename, client_port from pg_stat_activity where datname like 'soak%'";
const ESTABLISHED: &str = "01";
/// How late a proxy may accept a connection that the pooler began before a limit was lowered.
const ACCEPTED: Duration = Duration::from_secs(5);
/// Within this time every server above a lowered limit has been given back and closed: longer than any transaction here.
pub(crate) const SHRUNK: Duration = Duration::from_secs(45);
