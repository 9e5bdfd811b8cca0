//! What the transactions of a pool, and of an application, have come to.
//!
//! Always true: a transaction is counted once, for its pool and its application, when it ends or its client goes; what is kept has a bound, and
//! whatever is beyond it counts as `other`.
//! Not here: which moment is which (`data`), how it is told (`admin::snapshot`).

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use base::Key;
use measure::{Division, Histograms, Lives, Phase, Spent, Sums};
use protocol::vars::Vars;
use reactor::Io;
use wire::frontend;

use crate::data::client::{Client, Ready, Stage};
use crate::worker::Worker;

/// What a pool has come to since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) sums: Sums,
    /// Made with the first transaction.
    pub(crate) histograms: Option<Box<Histograms>>,
    pub(crate) lives: Lives,
}

impl Measured {
    fn add(&mut self, spent: &Spent) {
        self.sums.add(spent);
        self.histograms.get_or_insert_default().record(spent);
    }
}

/// The present transaction of a client, and for which application it counts.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) division: Division,
    /// The parameters that name the application, and its place.
    application: Option<(Rc<Vars>, u32)>,
    /// What its client has said last.
    pub(crate) said: Said,
}

/// The beginning of a client's last request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    bytes: [u8; SAID_BYTES],
    length: u8,
}

impl Default for Said {
    fn default() -> Self {
        Self { bytes: [0; SAID_BYTES], length: 0 }
    }
}

impl Said {
    /// A request begins with these bytes.
    #[inline]
    pub(crate) fn note(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(SAID_BYTES);
        self.bytes[..length].copy_from_slice(&bytes[..length]);
        self.length = length as u8;
    }

    /// The text of it, as far as it is known: of a Query or a Parse its beginning, of a Bind the statement's that the client has named.
    pub(crate) fn text<'r>(&'r self, ready: &'r Ready) -> &'r [u8] {
        let body = self.bytes[..usize::from(self.length)].get(HEADER_BYTES..).unwrap_or_default();
        let behind = |bytes: &'r [u8]| bytes.iter().position(|byte| *byte == 0).map(|end| &bytes[end + 1..]);
        let until_zero = |bytes: &'r [u8]| bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        match self.bytes[0] {
            frontend::QUERY => until_zero(body),
            frontend::PARSE => behind(body).map(until_zero).unwrap_or_default(),
            frontend::BIND => {
                let name = behind(body).map(until_zero).unwrap_or_default();
                let names = ready.session.names.as_ref();
                names.and_then(|names| names.text_of(name)).map(until_zero).unwrap_or_default()
            }
            _ => &[],
        }
    }
}

/// Applications: whoever logs in as the same user to the same database and calls itself the same.
#[derive(Debug, Default)]
pub(crate) struct Applications {
    rows: Vec<Application>,
    places: HashMap<ApplicationName, u32>,
    /// How many transactions were of applications that found no place.
    pub(crate) folded: Sums,
}

/// A database, a user, and what an application calls itself.
type ApplicationName = (Arc<str>, Arc<str>, Box<str>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) name: Box<str>,
    pub(crate) sums: Sums,
}

impl Applications {
    fn place(&mut self, database: &Arc<str>, user: &Arc<str>, name: &str) -> u32 {
        let key = (database.clone(), user.clone(), name.into());
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        if self.rows.len() >= APPLICATIONS_MAX {
            return OTHER;
        }
        let place = self.rows.len() as u32;
        let (database, user, name) = key.clone();
        self.rows.push(Application { database, user, name, sums: Sums::default() });
        self.places.insert(key, place);
        place
    }

    fn add(&mut self, place: u32, spent: &Spent) {
        match self.rows.get_mut(place as usize) {
            Some(row) => row.sums.add(spent),
            None => self.folded.add(spent),
        }
    }

    pub(crate) fn rows(&self) -> &[Application] {
        &self.rows
    }
}

impl<I: Io> Worker<I> {
    /// A client is in this phase of its transaction from now on, which may begin with it.
    pub(crate) fn enters(&mut self, key: Key, phase: Phase) {
        let now = self.now;
        if let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) {
            ready.meter.division.enter(now, phase);
        }
    }

    /// The same for one that is in another phase.
    pub(crate) fn enters_from(&mut self, key: Key, from: Phase, phase: Phase) {
        let now = self.now;
        if let Some(Client { stage: Stage::Ready(ready), .. }) = self.clients.get_mut(key) {
            ready.meter.division.go_on(now, from, phase);
        }
    }

    /// A client's transaction is over, if one had begun: it is counted.
    pub(crate) fn count_transaction(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Stage::Ready(ready) = &mut client.stage else { return };
        let Some(spent) = ready.meter.division.end(self.now).filter(|_| !client.is_own) else { return };
        let Some(place) = self.places.pool_mut(ready.pool) else { return };
        place.measured.add(&spent);
        let vars = &ready.session.vars;
        let known = ready.meter.application.as_ref().filter(|(named_by, _)| Rc::ptr_eq(named_by, vars));
        let application = match known {
            Some((_, application)) => *application,
            None => {
                let name = vars.get(self.force.tracked.application_name()).unwrap_or_default();
                let database = place.database_name.clone();
                let user = &self.places.users[ready.session.user as usize].name;
                let application = self.applications.place(&database, user, name);
                ready.meter.application = Some((vars.clone(), application));
                application
            }
        };
        self.applications.add(application, &spent);
    }
}

/// As much of a request is remembered.
const SAID_BYTES: usize = 96;
/// A message begins with its kind and length.
const HEADER_BYTES: usize = 5;
/// So many applications are told apart in one worker.
const APPLICATIONS_MAX: usize = 500;
const OTHER: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use base::Time;

    fn spent() -> Spent {
        let mut division = Division::default();
        division.enter(Time(0), Phase::FirstByte);
        division.end(Time(7)).expect("a transaction")
    }

    #[test]
    fn applications_beyond_the_bound_count_as_other() {
        let mut applications = Applications::default();
        let (database, user): (Arc<str>, Arc<str>) = ("d".into(), "u".into());
        for number in 0..APPLICATIONS_MAX + 10 {
            let place = applications.place(&database, &user, &number.to_string());
            assert_eq!(place == OTHER, number >= APPLICATIONS_MAX);
            applications.add(place, &spent());
        }
        assert_eq!(applications.place(&database, &user, "3"), 3, "who has a place keeps it");
        assert_eq!((applications.rows().len(), applications.folded.count), (APPLICATIONS_MAX, 10));
        assert_eq!(applications.rows()[3].sums.total(), 7);
    }
}
