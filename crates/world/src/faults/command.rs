//! The commands of the operator on the console, and the files that the operator changes.
//!
//! Always true: each command comes from an admin client that waits for the answer.
//! Not here: when a command is given (`faults`), what is remembered of it (`operator`), whether it is carried out
//! (`checks::orders`).

use base::WorkerId;
use control::Event;
use pool::ClientKey;
use wire::Request;
use worker::letters::{Parts, Right, Row, Snapshot, ToControl, ToWorker};

use crate::app::Stage;
use crate::checks::checkers::OF_THE_WORLD;
use crate::faults::evict::Search;
use crate::faults::operator::{RELOAD, secrets};
use crate::plan::Shape;
use crate::sim::dice::Dice;
use crate::sim::io::end_at;
use crate::sim::net::Holder;
use crate::sim::thread::CONFIGURATION;
use crate::state::World;

impl World {
    /// Sends a command on the console, as an admin client that waits for the answer.
    pub(crate) fn command(&mut self, text: String) {
        self.witness.note(|| format!("the operator says {text}"));
        let client = ClientKey::first(u32::MAX - self.operator.said);
        self.operator.said += 1;
        self.operator.asked.insert(client, text.clone());
        let (from, right, by, request) = (WorkerId(0), Right::Admin, Box::default(), Request::Query(text));
        self.control_hears(Event::Letter(ToControl::Console { from, client, right, by, request }));
    }

    /// Writes a changed `auth_file`, or the one of the plan again, and reloads.
    pub(crate) fn change_secrets(&mut self, dice: Option<u64>) {
        let users = secrets(&self.plan, dice.map(|dice| Dice::new(dice, 2)));
        self.disk.write("users", users);
        self.reload_files();
    }

    /// Sends RELOAD. If an online restart is in progress, it is repeated after that.
    pub(crate) fn reload_files(&mut self) {
        self.command(RELOAD.to_owned());
    }

    /// Repeats the commands that an online restart has refused.
    pub(crate) fn say_what_is_owed(&mut self, owed: Vec<String>) {
        for text in owed {
            self.command(text);
        }
    }

    /// Changes the configuration, and reloads.
    pub(crate) fn reload(&mut self, shape: &Shape) {
        self.witness.note(|| format!("these settings come into force:\n{}", shape.text()));
        self.disk.write(CONFIGURATION, shape.text());
        self.reload_files();
    }

    /// Begins a KILL_CLIENT: the operator first asks which clients there are.
    pub(crate) fn seek_client(&mut self, which: u64) {
        let question = SEEKING + self.evicted.asked;
        self.evicted.asked += 1;
        self.evicted.sought.insert(question, Search { which, answered: 0, found: Vec::new() });
        let what = Parts { clients: true, logins: true, ..Parts::default() };
        self.order(|| ToWorker::Show { question, what });
    }

    /// A worker answers which clients it has. Returns whether that was for a KILL_CLIENT.
    pub(crate) fn sought(&mut self, question: u64, snapshot: &Snapshot) -> bool {
        let Some(Search { which, answered, found }) = self.evicted.sought.get_mut(&question) else { return false };
        *answered += 1;
        found.extend(snapshot.clients.iter().chain(&snapshot.logins).filter_map(|row| Some((row.id, end_of(row)?))));
        if usize::from(*answered) == self.serving_workers.len() {
            let (which, found) = (*which, std::mem::take(found));
            self.evicted.sought.remove(&question);
            self.kill_one_of(which, &found);
        }
        true
    }

    pub(crate) fn kill_one_of(&mut self, which: u64, found: &[(u64, u32)]) {
        let Some(&(mut id, end)) = found.get((which / 8 % found.len().max(1) as u64) as usize) else { return };
        let mut known = Some(end);
        if which.is_multiple_of(8) {
            // A mistake of the operator: the number of another client, which may not exist, or come later.
            let newest = found.iter().map(|(id, _)| *id).max().unwrap_or_default();
            (id, known) = (newest + which / 8 % 5, None);
        }
        let is_in = |end: u32| match self.net.borrow().end(end ^ 1).holder {
            Holder::App(app) => matches!(self.apps[app as usize].stage, Stage::Ready),
            _ => false,
        };
        self.evicted.killed.insert(id, known.filter(|&end| is_in(end)));
        self.witness.count("clients to be killed");
        self.command(format!("KILL_CLIENT {id}"));
    }
}

/// Returns the worker's end of a client's connection.
fn end_of(row: &Row) -> Option<u32> {
    end_at(row.addr.parse().ok()?)
}

/// The number of the first request for clients of a KILL_CLIENT.
const SEEKING: u64 = OF_THE_WORLD + 10;
