//! What some cases have beside writers and readers: transactions that stay open, and a subscriber.
//!
//! Always true: all of it ends when it is dropped, and what it saw is told in words.
//! Not here: when it is there (`course`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ops::trial::{Cluster, ClusterShape, USER};
use serde_json::json;

use super::lab::{FOLDER, Lab, call};
use super::node::Node;
use super::paths::{self, Path};
use super::patroni;

pub(super) enum Companion {
    None,
    LongTransactions(LongTransactions),
    Subscriber(Box<Subscriber>),
}

impl Companion {
    /// More readers of the ledger, by their names.
    pub(super) fn readers(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Subscriber(subscriber) => vec![(SUBSCRIBER, subscriber.way())],
            Self::None | Self::LongTransactions(_) => Vec::new(),
        }
    }

    /// What became of it.
    pub(super) fn tell(self, lab: &Lab) -> Result<Option<String>, String> {
        match self {
            Self::None => Ok(None),
            Self::LongTransactions(open) => open.tell(lab).map(Some),
            Self::Subscriber(subscriber) => subscriber.tell(lab).map(Some),
        }
    }
}

/// Clients of path D, each in a transaction that has written and waits for its client.
pub(super) struct LongTransactions {
    clients: Vec<Child>,
}

impl LongTransactions {
    pub(super) fn open(lab: &Lab) -> Result<Self, String> {
        let mut open = Self { clients: Vec::new() };
        for number in 0..paths::LONG {
            let file = File::create(log(number)).map_err(|why| why.to_string())?;
            let errors = file.try_clone().map_err(|why| why.to_string())?;
            let mut command = Command::new(lab.trial().programs.path("psql"));
            command.args(["-X", "-q", "-A", "-t", "-v", "VERBOSITY=sqlstate", &paths::long()]);
            let client = command.stdin(Stdio::piped()).stdout(file).stderr(errors).spawn();
            open.clients.push(client.map_err(|why| format!("cannot start psql: {why}"))?);
            // A transaction that has an id has something to lose.
            open.say(number, "BEGIN;\nSELECT pg_current_xact_id() IS NOT NULL;\n");
        }
        let until = Instant::now() + PATIENCE;
        while (0..paths::LONG).any(|number| !read(number).lines().any(|line| line == "t")) {
            if Instant::now() > until {
                return Err(format!("not all transactions are open: {}", read(0)));
            }
            lab.wait(Duration::from_millis(100))?;
        }
        Ok(open)
    }

    fn say(&mut self, number: usize, words: &str) {
        if let Some(input) = self.clients[number].stdin.as_mut() {
            let _ = input.write_all(words.as_bytes());
        }
    }

    fn tell(mut self, lab: &Lab) -> Result<String, String> {
        for number in 0..self.clients.len() {
            self.say(number, "COMMIT;\n");
            drop(self.clients[number].stdin.take());
        }
        let until = Instant::now() + PATIENCE;
        while self.clients.iter_mut().any(|client| client.try_wait().is_ok_and(|status| status.is_none())) {
            if Instant::now() > until {
                return Err("clients with open transactions do not end".into());
            }
            lab.wait(Duration::from_millis(100))?;
        }
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for number in 0..self.clients.len() {
            *ends.entry(end_of(&read(number))).or_default() += 1;
        }
        let ends: Vec<String> = ends.iter().map(|(end, count)| format!("{end}: {count}")).collect();
        Ok(format!("open transactions of path D: {}", ends.join(", ")))
    }
}

impl Drop for LongTransactions {
    fn drop(&mut self) {
        for client in &mut self.clients {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// How a transaction ended, by what psql has said: the first SQLSTATE, or that there was none.
fn end_of(text: &str) -> String {
    let code = |line: &str| {
        let (level, code) = line.split_once(':')?;
        ["ERROR", "FATAL"].iter().any(|word| level.ends_with(word)).then(|| code.trim().to_owned())
    };
    text.lines().find_map(code).unwrap_or_else(|| if text.contains("closed") { "closed" } else { "committed" }.into())
}

fn log(number: usize) -> PathBuf {
    PathBuf::from(FOLDER).join(format!("long-{number}.out"))
}

fn read(number: usize) -> String {
    fs::read_to_string(log(number)).unwrap_or_default()
}

/// A PostgreSQL beside the clients, which receives the ledger by logical replication through path D.
pub(super) struct Subscriber {
    server: Cluster,
}

impl Subscriber {
    pub(super) fn begin(lab: &Lab) -> Result<Self, String> {
        // That of an earlier case.
        let _ = fs::remove_dir_all(lab.trial().scratch.path().join("cluster"));
        let shape = ClusterShape { connections_max: 20, buffers_mib: 32, scale: 0 };
        let server = Cluster::start_empty(lab.trial(), PORT, shape, &[]).map_err(|why| why.to_string())?;
        let subscriber = Self { server };
        // The client that measures makes its table on both sides.
        for way in [&Path::HaProxy.writer(), &subscriber.way()] {
            let (way, trunkline) = (format!("A={way}"), Lab::trunkline().display().to_string());
            call(&trunkline, &["hatest", "--duration", "500ms", "--path", &way])?;
        }
        sql(lab, &subscriber.way(), "TRUNCATE hatest_ledger")?;
        sql(lab, &Path::HaProxy.writer(), "DROP PUBLICATION IF EXISTS ledger")?;
        sql(lab, &Path::HaProxy.writer(), "CREATE PUBLICATION ledger FOR TABLE hatest_ledger")?;
        let slot = json!({"type": "logical", "database": "lab", "plugin": "pgoutput"});
        patroni::configure(&json!({"slots": {SLOT: slot}}))?;
        let count = format!("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{SLOT}'");
        let until = Instant::now() + PATIENCE;
        let has = |node: &Node| {
            let way = format!("host={} user=postgres dbname=lab connect_timeout=2", node.address());
            sql(lab, &way, &count).is_ok_and(|count| count == "1")
        };
        while !Node::ALL.iter().all(has) {
            if Instant::now() > until {
                return Err("Patroni does not keep the slot on all nodes".into());
            }
            lab.wait(Duration::from_millis(300))?;
        }
        let order = format!(
            "CREATE SUBSCRIPTION {SLOT} CONNECTION '{}' PUBLICATION ledger WITH (create_slot = false, copy_data = false)",
            Path::Trunkline.writer()
        );
        sql(lab, &subscriber.way(), &order)?;
        Ok(subscriber)
    }

    fn way(&self) -> String {
        format!("host=127.0.0.1 port={} user={USER} dbname=postgres connect_timeout=5", self.server.port())
    }

    /// Waits until both sides have the same rows, at most so long, and says in which they differ.
    fn tell(self, lab: &Lab) -> Result<String, String> {
        let begun = Instant::now();
        let rows = |way: &str| -> Result<BTreeSet<String>, String> {
            let of = "SELECT path, writer, seq FROM hatest_ledger WHERE run = (SELECT max(run) FROM hatest_ledger)";
            Ok(sql(lab, way, of)?.lines().map(str::to_owned).collect())
        };
        loop {
            let (here, there) = (rows(&self.way())?, rows(&Path::HaProxy.writer())?);
            let (only_here, only_there) = (here.difference(&there).count(), there.difference(&here).count());
            let is_equal = only_here == 0 && only_there == 0;
            if is_equal || begun.elapsed() > CATCH_UP {
                return Ok(format!(
                    "the subscriber has {} rows, of which the primary lacks {only_here}; it lacks {only_there} of the primary's, \
                     {:.0} s after the end",
                    here.len(),
                    begun.elapsed().as_secs_f64()
                ));
            }
            lab.wait(Duration::from_millis(500))?;
        }
    }
}

/// What a query answers, as text.
fn sql(lab: &Lab, way: &str, query: &str) -> Result<String, String> {
    let psql = lab.trial().programs.path("psql").display().to_string();
    call(&psql, &["-X", "-A", "-t", "-q", "-c", query, way]).map(|text| text.trim().to_owned())
}

/// The reader of the subscriber.
pub(super) const SUBSCRIBER: &str = "S";

/// The slot, and the subscription.
const SLOT: &str = "lab_ledger";

/// Of the subscriber, on the loopback interface.
const PORT: u16 = 5499;

const PATIENCE: Duration = Duration::from_secs(60);

/// How long after the end the subscriber may still receive rows.
const CATCH_UP: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_transaction_is_its_sqlstate() {
        assert_eq!(end_of("t\n"), "committed");
        assert_eq!(end_of("t\nFATAL:  57P01\nserver closed the connection unexpectedly\n"), "57P01");
        assert_eq!(end_of("t\nserver closed the connection unexpectedly\n"), "closed");
    }
}
