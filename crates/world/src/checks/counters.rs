//! In a world without faults the counters must equal what the applications have seen.
//!
//! Always true: a database made from `*` that was forgotten is counted from zero when it is made again.
//! Not here: the rows of pools, servers and peers (`checks`, `peers`).

use std::collections::BTreeMap;

use worker::letters::Snapshot;

use crate::app::App;
use crate::checks::witness::{Charge, Witness};
use crate::sim::own_clients::OwnClients;

/// The totals of each database when it was last forgotten.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    before: BTreeMap<String, Seen>,
    just_forgotten: Vec<String>,
}

impl Counters {
    /// The log says that a database made from `*` is forgotten.
    pub(crate) fn forget(&mut self, name: &str) {
        self.just_forgotten.push(name.to_owned());
    }

    /// Records the totals of forgotten databases. Nobody has used them for a while, so the applications have seen all
    /// that was counted.
    pub(crate) fn heed_forgotten(&mut self, apps: &[App], own_clients: &OwnClients, witness: &mut Witness) {
        for name in std::mem::take(&mut self.just_forgotten) {
            witness.count("databases forgotten");
            let seen = Seen::of(&name, apps, own_clients);
            self.before.insert(name, seen);
        }
    }

    /// Compares the counters of a worker with the totals of the applications.
    pub(crate) fn check(&self, snapshot: &Snapshot, apps: &[App], own_clients: &OwnClients, witness: &mut Witness) {
        for (name, totals) in &snapshot.stats {
            if people(apps, name).next().is_none() {
                continue;
            }
            let before = self.before.get(&**name).copied().unwrap_or_default();
            let all = Seen::of(name, apps, own_clients);
            let logins = all.logins - before.logins;
            let counts = (all.transactions - before.transactions, all.queries - before.queries);
            let is_exact = people(apps, name).all(App::is_countable);
            if is_exact {
                witness.count("databases counted exactly");
            }
            if totals.client_login_count != logins || (is_exact && (totals.xact_count, totals.query_count) != counts) {
                let (transactions, queries) = counts;
                let text = format!(
                    "{name}: {totals:?}; seen: {logins} logins, {transactions} transactions, {queries} queries"
                );
                witness.accuse(Charge::Counters, text);
            }
        }
    }
}

/// The totals of the applications of a database.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    logins: u64,
    transactions: u64,
    queries: u64,
}

impl Seen {
    fn of(database: &str, apps: &[App], own_clients: &OwnClients) -> Self {
        // The pooler's own queries count as well.
        let own = own_clients.put.get(database).copied().unwrap_or_default();
        let mut seen = Self { logins: 0, transactions: own, queries: own };
        for app in people(apps, database) {
            seen.logins += app.logins;
            seen.transactions += app.transactions;
            seen.queries += app.queries;
        }
        seen
    }
}

fn people<'a>(apps: &'a [App], database: &'a str) -> impl Iterator<Item = &'a App> {
    apps.iter().filter(move |app| *app.person.database == *database)
}
