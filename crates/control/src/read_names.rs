//! Workers ask what the names of a database stand for, so that reads can be told from writes.
//!
//! Always true: each question has one answer; at most [`UNDER_WAY_MAX`] are put at a time, and one for a database.
//! Not here: the question itself (`clusters::read_names`), what follows from the answer (`worker::reads`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::WorkerId;
use reactor::Level;
use worker::letters::ToWorker;

use crate::clusters::{ReadNamesAsked, ReadNamesFound, ReadNamesTask};
use crate::control::Control;

/// The questions that wait, and the databases whose names could not be read.
#[derive(Debug, Default)]
pub(crate) struct ReadNamesQuestions {
    waiting: VecDeque<ReadNamesAsked>,
    under_way: usize,
    failed: BTreeMap<Arc<str>, String>,
}

impl<S> Control<S> {
    /// A worker asks for the names of a database.
    pub(crate) fn ask_read_names(&mut self, from: WorkerId, database: Arc<str>, creations: u64) {
        let entry = self.hands.active.settings.database(&database);
        let dbname = entry.map_or_else(|| Arc::clone(&database), |entry| Arc::clone(&entry.dbname));
        self.read_names.waiting.push_back(ReadNamesAsked { from, database, dbname, creations });
    }

    /// Returns the next question for the names of a database; [`crate::Event::ReadNames`] must follow.
    pub fn next_read_names(&mut self) -> Option<ReadNamesTask> {
        while self.read_names.under_way < UNDER_WAY_MAX {
            let asked = self.read_names.waiting.pop_front()?;
            let entry = self.hands.active.settings.database(&asked.database);
            let cluster = entry.and_then(|entry| entry.cluster_of_primary().cloned());
            match cluster.and_then(|cluster| self.clusters.read_names_task(&cluster, asked.clone())) {
                Some(task) => {
                    self.read_names.under_way += 1;
                    return Some(task);
                }
                None => self.tell_read_names(&asked, None),
            }
        }
        None
    }

    /// A question has its answer.
    pub(crate) fn read_names_found(&mut self, found: ReadNamesFound) {
        self.read_names.under_way = self.read_names.under_way.saturating_sub(1);
        let ReadNamesFound { asked, names } = found;
        match &names {
            Ok(_) => drop(self.read_names.failed.remove(&asked.database)),
            Err(why) if self.read_names.failed.get(&asked.database) != Some(why) => {
                let database = &asked.database;
                let text = format_args!(
                    "no read of database \"{database}\" is proven, since its names cannot be read (read_routing): {why}"
                );
                self.hands.log(Level::Warning, text);
                if self.read_names.failed.len() >= FAILED_MAX {
                    self.read_names.failed.clear();
                }
                self.read_names.failed.insert(Arc::clone(database), why.clone());
            }
            Err(_) => {}
        }
        self.tell_read_names(&asked, names.ok().map(Arc::new));
    }

    fn tell_read_names(&self, asked: &ReadNamesAsked, names: Option<Arc<route::ReadNames>>) {
        let letter = ToWorker::ReadNames { database: Arc::clone(&asked.database), creations: asked.creations, names };
        self.hands.post(asked.from, letter);
    }
}

const UNDER_WAY_MAX: usize = 4;
/// Databases of which a failure is remembered, so that it is logged once.
const FAILED_MAX: usize = 1000;
