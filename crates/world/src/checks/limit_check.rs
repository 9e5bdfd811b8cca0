//! Limits of clients: the number of connected clients never exceeds them.
//!
//! Always true: a client counts only while both sides have it open, so never more are counted than the pooler has to
//! count.
//! Not here: servers (`postgres`), whether all that may connect do connect (`phases`), the console, which does not
//! count.

use std::time::Duration;

use base::Time;

use crate::app::{App, Stage};
use crate::checks::checkers::{ACQUAINTED, Checkers};
use crate::checks::witness::{Charge, Witness};
use crate::sim::net::Net;

/// Checks the limits when application `number` has logged in. A new configuration has reached every worker after
/// `reach`.
pub(crate) fn check(number: u32, reach: Duration, apps: &[App], net: &Net, checkers: &Checkers, witness: &mut Witness) {
    let is_here = |app: &&App| {
        matches!(app.stage, Stage::Ready)
            && !app.person.is_operator()
            && app.end.is_some_and(|end| !net.end(end).is_closed && !net.end(end ^ 1).is_closed)
    };
    let app = &apps[number as usize];
    let person = &app.person;
    if person.is_operator() {
        return;
    }
    let all: Vec<&App> = apps.iter().filter(is_here).collect();
    let of_database = all.iter().filter(|app| app.person.database == person.database).count();
    let of_user = all.iter().filter(|app| app.person.user == person.user).count();
    let [most, most_of_database, most_of_user] =
        limits(checkers, &person.database, &person.user, witness.now, app.came, reach);
    let counts = [
        ("all", all.len(), most),
        ("its database", of_database, most_of_database),
        ("its user", of_user, most_of_user),
    ];
    for (what, count, most) in counts {
        if count > most as usize {
            let text = format!("application {number} of {person:?} is number {count} of {what}, limit {most}");
            witness.accuse(Charge::LimitExceeded, text);
        }
    }
}

/// Returns the largest number of all clients, of a database and of a user under any configuration in force since the
/// client came.
fn limits(checkers: &Checkers, database: &str, user: &str, now: Time, came: Time, reach: Duration) -> [u32; 3] {
    let mut limits = [0; 3];
    for active in checkers.forces_since(came, reach) {
        let settings = &active.settings;
        let of_database = settings.database(database).map(|entry| settings.max_db_client_connections(&entry));
        // A user that is not known to exist is not counted.
        let of_user = active.users.secret(user).and_then(|_| settings.max_user_client_connections(user));
        let these = [Some(settings.max_client_conn), of_database.unwrap_or(Some(0)), of_user];
        for (limit, this) in limits.iter_mut().zip(these) {
            *limit = this.unwrap_or(u32::MAX).max(*limit);
        }
    }
    if checkers.are_users_lost {
        limits[2] = u32::MAX;
    }
    if now.since(checkers.restarted) < ACQUAINTED {
        // The workers of the new process have not told each other yet which clients they have taken over.
        limits[0] = u32::MAX;
        limits[2] = u32::MAX;
    }
    limits
}
