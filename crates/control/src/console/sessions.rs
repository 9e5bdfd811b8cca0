//! All clients of the console that have said something, and how much is kept for them.
//!
//! Always true: what they have prepared, and the rows that they have not fetched, stay under [`KEPT_BYTES_MAX`] together; and one client's under what is
//! still free, so that whoever comes next finds as much as anybody who came before has.
//! Not here: what one of them says (`session`).

use std::collections::BTreeMap;

use wire::request::Request;
use worker::letters::Right;

use super::Refusal;
use super::answer::Answer;
use super::session::{Next, Session};

/// The sessions, by whom they are of.
#[derive(Debug)]
pub(crate) struct Sessions<K> {
    all: BTreeMap<K, Session>,
    /// What is kept for all of them; to count it anew for each request would make everybody wait for everybody.
    kept: usize,
}

impl<K: Ord> Default for Sessions<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), kept: 0 }
    }
}

impl<K: Ord> Sessions<K> {
    /// A client asks for something.
    pub(crate) fn hear(&mut self, asker: K, request: Request, right: Right) -> Next {
        let session = self.all.entry(asker).or_default();
        let before = session.kept();
        let next = session.hear(request, right, room(self.kept, before));
        self.kept = self.kept - before + session.kept();
        next
    }

    /// Writes what came of a client's request, unless it has gone.
    ///
    /// # Errors
    /// There is no room for what the client has not asked for yet; it is to be answered that.
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

    /// A client has gone.
    pub(crate) fn remove(&mut self, asker: &K) {
        self.kept -= self.all.remove(asker).map_or(0, |session| session.kept());
    }
}

/// How many bytes more may be kept for a client that has so many of all: no more than are free then.
fn room(all: usize, own: usize) -> usize {
    KEPT_BYTES_MAX.saturating_sub(all).saturating_sub(own) / 2
}

/// What a client is told for which no more can be kept.
pub(super) fn no_room() -> Refusal {
    let detail = format!(
        "All clients of the console may have prepared, and not fetched, {KEPT_BYTES_MAX} bytes together, and one as much as is left for the others."
    );
    Refusal { detail: Some(detail), ..Refusal::coded("53200", "the console keeps too much for its clients") }
}

/// What is kept for all clients of the console.
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

    /// How many tables of three megabytes a client gets one row of, each by a portal of its own.
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

    /// Everybody who may read the console could have sixteen tables of all clients kept.
    #[test]
    fn rows_that_nobody_fetches_are_bounded_for_all_and_leave_room_for_the_next() {
        let mut sessions = Sessions::default();
        assert_eq!(portals(&mut sessions, 1), 10);
        assert_eq!(portals(&mut sessions, 2), 5);
        assert!(portals(&mut sessions, 3) > 0 && sessions.kept <= KEPT_BYTES_MAX);
        // What is fetched is not kept, nor is what a Sync ends.
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
