//! A SELECT that only calls functions of PostgreSQL's own whose effect is certain.
//!
//! Always true: what is read here has the same effect whatever the session has set, and no user-defined function can be
//! called instead.
//! Not here: calls among other expressions, whose effect is asked for (`configured`, `classify`).

use crate::act::{Act, NAMES_MAX};
use crate::dirty_state::DirtyState;
use crate::knowledge::Knowledge;
use crate::setting;
use crate::words::Words;

/// Reads a SELECT whose targets are only calls of PostgreSQL's own functions with literals and a certain effect:
/// `set_config` for the session, and `pg_advisory_unlock_all`.
pub(crate) fn calls_alone(words: &Words<'_>, knowledge: Option<&Knowledge>) -> Option<Act> {
    // A user-defined function of this name may come before it in the `search_path`.
    let knowledge = knowledge.filter(|knowledge| !knowledge.has_namesakes());
    let (mut at, mut changes, mut unlocks) = (1, Vec::new(), false);
    loop {
        if changes.len() == NAMES_MAX {
            return None;
        }
        let is_qualified = words.is(at, "pg_catalog") && words.is_symbol(at + 1, b".");
        at += if is_qualified { 2 } else { 0 };
        if !is_qualified && knowledge.is_none() {
            return None;
        }
        at = match () {
            () if words.is(at, "set_config") => {
                let (change, end) = setting::configured(words, at + 1)?;
                changes.extend(change);
                end
            }
            () if words.is(at, "pg_advisory_unlock_all") => {
                unlocks = true;
                if !(words.is_symbol(at + 1, b"(") && words.is_symbol(at + 2, b")")) {
                    return None;
                }
                at + 3
            }
            () => return None,
        };
        if at == words.end() {
            break;
        }
        if !words.is_symbol(at, b",") {
            return None;
        }
        at += 1;
    }
    match (unlocks, changes.is_empty()) {
        (false, _) => Some(Act::Set(changes.into())),
        (true, true) => Some(Act::releasing(DirtyState::LOCKS)),
        (true, false) => None,
    }
}
