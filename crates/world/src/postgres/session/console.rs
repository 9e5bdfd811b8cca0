//! What the console answers to whoever looks at it.
//!
//! Always true: it answers as a session would, out of the same words, in one go.
//! Not here: what is ordered there (`operator`), who may be let in (`console`).

use std::rc::Rc;

use wire::{Request, backend, write};

use super::Session;
use crate::postgres::sql::Statement;

/// The answer to a request. Its people ask simple queries.
pub(crate) fn answer_of_the_console(request: &Request) -> Vec<u8> {
    let Request::Query(text) = request else { panic!("nobody in this world says {request:?} on the console") };
    let mut session = Session::new(0, 0, 0, 0, Rc::default());
    match Statement::read(text) {
        Some(statement) => drop(session.run(&statement, u32::MAX, 0, true)),
        None if text.trim().is_empty() => write::bare(&mut session.out, backend::EMPTY_QUERY_RESPONSE),
        None => session.fail("42601", "syntax error", false),
    }
    session.ready();
    session.out
}
