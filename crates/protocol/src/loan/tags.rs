//! What the tags of completed commands tell about the session or the catalog.
//!
//! Always true: a tag is read when it is complete, however it arrived.
//! Not here: other effects of statements on their session (`state`), and what follows from a change of the catalog
//! (`worker::data::catalog`).

use super::client_session::ClientSession;
use super::server_session::ServerSession;
use super::set_parameters::SetParameters;
use crate::state::without_statements;

/// Whether a tag means that the catalog may have changed. A tag does not show what a function has done.
pub(super) fn changes_catalog(tag: &[u8]) -> bool {
    const TAGS: [&[u8]; 6] = [b"ALTER ", b"CREATE ", b"DROP ", b"DO\0", b"CALL\0", b"IMPORT "];
    TAGS.iter().any(|known| tag.starts_with(known))
}

/// Whether a tag is that of a command which only reads or writes rows, or begins or ends a transaction or a part of one: neither
/// [`completed`] nor [`changes_catalog`] has anything to say about it, unless the client has effects that are followed.
#[inline]
pub(super) fn tells_nothing(tag: &[u8]) -> bool {
    const ROWS: [&[u8; 7]; 4] = [b"SELECT ", b"INSERT ", b"UPDATE ", b"DELETE "];
    const TRANSACTIONS: [&[u8]; 6] =
        [b"BEGIN\0", COMMIT, b"SAVEPOINT\0", b"RELEASE\0", ROLLBACK, b"START TRANSACTION\0"];
    tag.first_chunk().is_some_and(|begin| ROWS.contains(&begin)) || TRANSACTIONS.contains(&tag)
}

/// Notes a completed command that has one of those tags.
pub(super) fn completed(mut client: Option<&mut ClientSession>, server: &mut ServerSession, tag: &[u8]) {
    let is_ours = server.exchange.is_ours();
    if tag == DISCARD_ALL {
        server.overrides = None;
        server.set_parameters = SetParameters::default();
        if let Some(session_effects) = client.as_deref_mut().and_then(|client| client.session_effects.as_deref_mut()) {
            session_effects.discarded();
        }
    }
    if DROPS_STATEMENTS.contains(&tag) {
        statements_dropped(client.as_deref_mut().filter(|_| !is_ours), server);
    }
    if tag == DEALLOCATE {
        server.server_statements.dropped(client.as_deref_mut().and_then(|client| client.names.as_deref_mut()));
    }
    if let Some(session_effects) = client.filter(|_| !is_ours).and_then(|client| client.session_effects.as_deref_mut())
    {
        match tag {
            UNLISTEN | DISCARD_ALL => session_effects.unlistens.is_executed(),
            COMMIT => session_effects.unlistens.commits(),
            ROLLBACK => session_effects.unlistens.rolls_back(),
            _ => {}
        }
        if ENDS_TRANSACTIONS.contains(&tag) {
            session_effects.effects_in_doubt();
        }
    }
}

/// All statements of the server are gone, and those of its client if the client has dropped them.
fn statements_dropped(mut client: Option<&mut ClientSession>, server: &mut ServerSession) {
    server.setting_statements.doubt();
    without_statements(&mut server.overrides);
    if let Some(client) = client.as_deref_mut() {
        // These include statements that could not be prepared on this server.
        without_statements(&mut client.overrides);
    }
    server.server_statements.drop_all(client.and_then(|client| client.names.as_deref_mut()));
}

/// The tags of commands that drop all prepared statements.
const DROPS_STATEMENTS: [&[u8]; 2] = [DISCARD_ALL, b"DEALLOCATE ALL\0"];
const DISCARD_ALL: &[u8] = b"DISCARD ALL\0";
/// The tag of a command that drops one prepared statement.
const DEALLOCATE: &[u8] = b"DEALLOCATE\0";
/// The tags of commands that roll back a transaction, or may begin another one in the middle of a client's request.
const ENDS_TRANSACTIONS: [&[u8]; 3] = [ROLLBACK, b"CALL\0", b"DO\0"];
const ROLLBACK: &[u8] = b"ROLLBACK\0";
/// The tags of other commands that decide which channels are left.
const UNLISTEN: &[u8] = b"UNLISTEN\0";
const COMMIT: &[u8] = b"COMMIT\0";

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::state::{Overrides, Statement};
    use crate::vars::{Tracked, Vars};

    #[test]
    fn commands_that_define_something_change_the_catalog() {
        for (tag, changes) in [
            (&b"ALTER TABLE\0"[..], true),
            (b"CREATE INDEX\0", true),
            (b"DROP VIEW\0", true),
            (b"DO\0", true),
            (b"SELECT 1\0", false),
            (b"COMMIT\0", false),
            (b"DELETE 3\0", false),
            (b"", false),
        ] {
            assert_eq!(changes_catalog(tag), changes, "{tag:?}");
        }
    }

    /// A client and its server, both with a setting and a statement that was prepared by SQL. The client's last statement
    /// has certain effects.
    fn sessions() -> (ClientSession, ServerSession) {
        let vars = Rc::new(Vars::new(&Tracked::new([])));
        let (mut client, mut server) = (ClientSession::new(0, vars.clone()), ServerSession::new(vars));
        let mut overrides = Overrides::default();
        overrides.set("work_mem", "5MB");
        overrides.statements_mut().insert("p", Statement { sql: "prepare p as select 1".into(), search_path: None });
        (client.overrides, server.overrides) = (Some(Rc::new(overrides.clone())), Some(Rc::new(overrides)));
        let class = Rc::new(route::classify(b"set work_mem = '5MB'", route::Dialect::default(), None));
        client.session_effects.get_or_insert_default().executes(&class);
        (client, server)
    }

    /// The number of settings and of statements that are left in a session.
    fn left(overrides: &Option<Rc<Overrides>>) -> (usize, usize) {
        overrides.as_ref().map_or((0, 0), |all| (all.iter().count(), all.statements().iter().count()))
    }

    #[test]
    fn what_drops_all_statements_drops_those_of_both_unless_it_is_ours() {
        let (mut client, mut server) = sessions();
        completed(Some(&mut client), &mut server, b"DEALLOCATE ALL\0");
        assert_eq!((left(&client.overrides), left(&server.overrides)), ((1, 0), (1, 0)));
        let (mut client, mut server) = sessions();
        completed(Some(&mut client), &mut server, DISCARD_ALL);
        assert_eq!(
            (left(&client.overrides), left(&server.overrides)),
            ((1, 0), (0, 0)),
            "its own settings it goes back from"
        );
        let (mut client, mut server) = sessions();
        server.exchange.asks_ours();
        completed(Some(&mut client), &mut server, b"DEALLOCATE ALL\0");
        assert_eq!((left(&client.overrides), left(&server.overrides)), ((1, 1), (1, 0)));
    }

    #[test]
    fn how_a_transaction_may_have_ended_leaves_nothing_certain_unless_it_is_ours() {
        for (tag, is_ours, is_certain) in [
            (ROLLBACK, false, false),
            (b"CALL\0", false, false),
            (b"DO\0", false, false),
            (COMMIT, false, true),
            (ROLLBACK, true, true),
        ] {
            let (mut client, mut server) = sessions();
            if is_ours {
                server.exchange.asks_ours();
            }
            completed(Some(&mut client), &mut server, tag);
            let session_effects = client.session_effects.as_ref().expect("traces");
            let expected = (is_certain, !is_certain);
            let is_known = (session_effects.is_known(), session_effects.is_asked_for());
            assert_eq!(is_known, expected, "{}, {is_ours}", tag.escape_ascii());
        }
    }

    #[test]
    fn statements_by_which_servers_are_told_are_made_anew_when_all_are_gone() {
        let (mut client, mut server) = sessions();
        let told = |server: &mut ServerSession| {
            let mut out = Vec::new();
            server.setting_statements.set(&[("work_mem", Some("1MB"))], &mut out);
            out.first().copied()
        };
        assert_eq!((told(&mut server), told(&mut server)), (Some(b'P'), Some(b'B')));
        completed(Some(&mut client), &mut server, b"DEALLOCATE ALL\0");
        assert_ne!(told(&mut server), Some(b'B'));
    }
}
