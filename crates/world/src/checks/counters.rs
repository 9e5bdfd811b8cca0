//! What the counters must say where nothing goes wrong: exactly what happened, as far as they reach back.
//!
//! Always true: a database made from `*` that was forgotten is counted from zero when it is made again.
//! Not here: the rows of pools, servers and peers (`checks`, `peers`).

use std::collections::BTreeMap;

use worker::letters::Snapshot;

use crate::app::App;
use crate::checks::witness::Charge;
use crate::world::World;

/// What applications have seen of databases until these were forgotten.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    before: BTreeMap<String, Seen>,
    just_forgotten: Vec<String>,
}

impl Counters {
    /// A database made from `*` is forgotten.
    pub(crate) fn forget(&mut self, name: &str) {
        self.just_forgotten.push(name.to_owned());
    }
}

/// What applications have seen of a database.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    logins: u64,
    transactions: u64,
    queries: u64,
}

impl World {
    /// Databases have been forgotten, and nobody has been in them for a while: whoever was has seen all that was counted.
    pub(crate) fn heed_forgotten_counters(&mut self) {
        for name in std::mem::take(&mut self.checkers.counters.just_forgotten) {
            self.witness.count("databases forgotten");
            let seen = self.seen(&name);
            self.checkers.counters.before.insert(name, seen);
        }
    }

    fn seen(&self, database: &str) -> Seen {
        // Our own questions are queries as well.
        let own = self.links.put.get(database).copied().unwrap_or_default();
        let mut seen = Seen { logins: 0, transactions: own, queries: own };
        for app in self.people(database) {
            seen.logins += app.logins;
            seen.transactions += app.transactions;
            seen.queries += app.queries;
        }
        seen
    }

    fn people(&self, database: &str) -> impl Iterator<Item = &App> {
        self.apps.iter().filter(move |app| *app.person.database == *database)
    }

    /// Where nothing went wrong, the counters say exactly what happened.
    pub(crate) fn check_counters(&mut self, snapshot: &Snapshot) {
        for (name, totals) in &snapshot.stats {
            if self.people(name).next().is_none() {
                continue;
            }
            let before = self.checkers.counters.before.get(&**name).copied().unwrap_or_default();
            let all = self.seen(name);
            let logins = all.logins - before.logins;
            let counts = (all.transactions - before.transactions, all.queries - before.queries);
            let is_exact = self.people(name).all(App::is_countable);
            if totals.client_login_count != logins || (is_exact && (totals.xact_count, totals.query_count) != counts) {
                let (transactions, queries) = counts;
                let text = format!(
                    "{name}: {totals:?}; seen: {logins} logins, {transactions} transactions, {queries} queries"
                );
                self.witness.accuse(Charge::Counters, text);
            }
        }
    }
}
