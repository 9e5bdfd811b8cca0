//! The sessions of all console clients that have sent a request, and how much memory they use together.
//!
//! Always true: prepared statements and unfetched rows of all clients together take at most [`KEPT_BYTES_MAX`] bytes,
//! and those of one client at most as much as is then still free, so that the next client finds as much room as any
//! before it used.
//! Not here: the conversation of a single client (`session`).

use std::collections::BTreeMap;

use wire::request::Request;
use worker::letters::Right;

use super::Refusal;
use super::answer::Answer;
use super::session::{Next, Session};

/// The sessions by client.
#[derive(Debug)]
pub(crate) struct Sessions<K> {
    all: BTreeMap<K, Session>,
    /// The bytes kept for all of them. It is maintained incrementally, because counting it for each request would take
    /// time proportional to the number of clients.
    kept: usize,
}

impl<K: Ord> Default for Sessions<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), kept: 0 }
    }
}

impl<K: Ord> Sessions<K> {
    /// Handles a request of a client.
    pub(crate) fn hear(&mut self, asker: K, request: Request, right: Right) -> Next {
        let session = self.all.entry(asker).or_default();
        let before = session.kept();
        let next = session.hear(request, right, room(self.kept, before));
        self.kept = self.kept - before + session.kept();
        next
    }

    /// Writes the outcome of a client's request, unless the client has disconnected.
    ///
    /// # Errors
    /// There is no room for the rows that the client has not fetched yet; the client must be sent this refusal.
    pub(crate) fn answer(&mut self, asker: &K, answer: Answer) -> Option<Result<Vec<u8>, Refusal>> {
        let session = self.all.get_mut(asker)?;
        let before = session.kept();
        if session.left_by(&answer) > room(self.kept, before) {
            return Some(Err(no_room()));
        }
        let bytes = session.answer(answer);
        self.kept = self.kept - before + session.kept();
        Some(Ok(bytes))
    }

    /// Removes the session of a client that has disconnected.
    pub(crate) fn remove(&mut self, asker: &K) {
        self.kept -= self.all.remove(asker).map_or(0, |session| session.kept());
    }
}

/// Returns how many more bytes may be kept for a client with `own` bytes of `all`: it may not exceed what is free
/// afterwards.
fn room(all: usize, own: usize) -> usize {
    KEPT_BYTES_MAX.saturating_sub(all).saturating_sub(own) / 2
}

/// The error for a client for which no more can be kept.
pub(super) fn no_room() -> Refusal {
    let detail = format!(
        "All clients of the console may have prepared, and not fetched, {KEPT_BYTES_MAX} bytes together, and one as much as is left for the others."
    );
    Refusal { detail: Some(detail), ..Refusal::coded("53200", "the console keeps too much for its clients") }
}

/// The bytes kept for all clients of the console.
const KEPT_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Command;
    use crate::console::show;
    use crate::console::table::{Table, text};

    fn ask(sessions: &mut Sessions<u8>, asker: u8, request: Request) -> Result<Option<Command>, String> {
        match sessions.hear(asker, request, Right::Stats) {
            Next::Say(_) => Ok(None),
            Next::Run(command) => Ok(Some(command)),
            Next::Refuse(refusal) => {
                let told = format!("{} {}", refusal.sqlstate, refusal.text);
                sessions.answer(&asker, Answer::Refused(refusal));
                Err(told)
            }
        }
    }

    fn parse(name: &str, text: &str) -> Request {
        Request::Parse { statement: name.to_owned(), text: text.to_owned(), types: 0 }
    }

    /// Returns for how many portals, each with a table of three megabytes to be fetched later, a client finds room.
    fn portals(sessions: &mut Sessions<u8>, asker: u8) -> usize {
        let columns = show::find("VERSION").expect("a subject").columns();
        ask(sessions, asker, parse("s", "SHOW VERSION")).expect("room");
        for number in 0..16 {
            let (portal, parameters, formats) = (number.to_string(), 0, Vec::new());
            let bind = Request::Bind { portal: portal.clone(), statement: "s".to_owned(), parameters, formats };
            ask(sessions, asker, bind).expect("room");
            let command = ask(sessions, asker, Request::Execute { portal, rows_max: 1 }).expect("a portal");
            assert!(matches!(command, Some(Command::Show(_))));
            let rows = (0..4).map(|_| vec![text("x".repeat(1 << 20))]).collect();
            match sessions.answer(&asker, Answer::Table(Table { columns, rows })).expect("it is there") {
                Ok(bytes) => assert!(bytes.len() < 2 << 20),
                Err(refusal) => {
                    assert_eq!(refusal.sqlstate, "53200");
                    let told = sessions.answer(&asker, Answer::Refused(refusal)).expect("there").expect("room");
                    assert_eq!(told[0], b'E');
                    return number;
                }
            }
        }
        16
    }

    /// Formerly every console user could make the console keep sixteen tables of all clients.
    #[test]
    fn rows_that_nobody_fetches_are_bounded_for_all_and_leave_room_for_the_next() {
        let mut sessions = Sessions::default();
        assert_eq!(portals(&mut sessions, 1), 10);
        assert_eq!(portals(&mut sessions, 2), 5);
        assert!(portals(&mut sessions, 3) > 0 && sessions.kept <= KEPT_BYTES_MAX);
        // Fetched rows are not kept, and Sync closes portals.
        ask(&mut sessions, 1, Request::Sync).expect("room");
        assert!(portals(&mut sessions, 4) >= 5);
        for asker in 1..=4 {
            sessions.remove(&asker);
        }
        assert_eq!(sessions.kept, 0);
    }

    #[test]
    fn rows_that_are_fetched_at_once_need_no_room() {
        let mut sessions = Sessions::default();
        let columns = show::find("VERSION").expect("a subject").columns();
        ask(&mut sessions, 1, parse("", "SHOW VERSION")).expect("room");
        let bind =
            Request::Bind { portal: String::new(), statement: String::new(), parameters: 0, formats: Vec::new() };
        ask(&mut sessions, 1, bind).expect("room");
        let kept = sessions.kept;
        ask(&mut sessions, 1, Request::Execute { portal: String::new(), rows_max: 0 }).expect("a portal");
        let rows = vec![vec![text("x".repeat(KEPT_BYTES_MAX))]];
        let answer = sessions.answer(&1, Answer::Table(Table { columns, rows })).expect("it is there");
        assert!(answer.expect("no room is needed").len() > KEPT_BYTES_MAX && sessions.kept == kept);
    }

    #[test]
    fn names_of_statements_are_bounded_too() {
        let mut sessions = Sessions::default();
        let long = |number: usize| format!("{number}{}", "n".repeat(60_000));
        for asker in 0..10 {
            for number in 0..200 {
                match ask(&mut sessions, asker, parse(&long(number), "SHOW VERSION")) {
                    Ok(_) => assert!(sessions.kept <= KEPT_BYTES_MAX),
                    Err(told) => {
                        assert_eq!(told, "53200 the console keeps too much for its clients");
                        assert!(asker > 3, "{asker}");
                        return;
                    }
                }
            }
        }
        panic!("all of it was kept");
    }
}
