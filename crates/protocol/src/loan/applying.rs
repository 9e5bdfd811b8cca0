//! Applies a client's session state to its server, at the beginning of a loan or during one.
//!
//! Always true: what is sent ahead of the client's request is answered before it; if the server rejects what goes along
//! with the request, it skips the request; what was sent counts as the server's state from then on, even if its client
//! leaves before the server has answered.
//! Not here: when that happens, and what becomes of a server that rejects it (`worker::data::catch_up`, `worker::data::own_errors`).

use std::rc::Rc;

use base::{Key, Time};
use wire::{frontend, write};

use super::client_session::ClientSession;
use super::reading::{Texts, bound};
use super::request_text::only_text;
use super::server_session::{DISCARD_SEQUENCES, SequenceOwner, ServerSession};
use crate::planted::{are_other_parameters, are_other_settings, awaited_first};
use crate::prepared::Names;
use crate::request::{is_one_request, messages};
use crate::state::{FunctionCatalog, Overrides, Preparation, needs_nothing};
use crate::vars::Tracked;

/// How a server differs from what its client is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Differences {
    /// All session state follows the client, and not only parameters that PostgreSQL reports.
    pub follows: bool,
    /// Parameters that PostgreSQL reports.
    pub parameters: bool,
    /// Other settings, or statements that are prepared by SQL.
    pub settings: bool,
    /// The server knows sequence values that other clients have drawn, and the client's programs ask for such values.
    pub sequences: bool,
    /// The server has statements under names that a client has mentioned in SQL.
    pub names: bool,
}

impl Differences {
    /// The differences between a server and the client that has it. `follows`: all session state follows the client.
    #[must_use]
    pub fn of(
        server: &ServerSession,
        client: &ClientSession,
        tracked: &Tracked,
        follows: bool,
        function_catalog: &FunctionCatalog,
    ) -> Self {
        Self {
            follows,
            parameters: are_other_parameters(&client.vars, &server.vars, tracked, follows),
            settings: are_other_settings(differ(server, client)),
            sequences: server.sequence_owner.are_others() && function_catalog.asks_for_sequences(client.user),
            names: server.server_statements.has_own(),
        }
    }

    /// Whether nothing differs.
    #[must_use]
    pub fn are_none(self) -> bool {
        !(self.parameters || self.settings || self.sequences || self.names)
    }

    /// Whether only settings differ.
    #[must_use]
    pub fn are_of_settings_only(self) -> bool {
        self.settings && !self.parameters && !self.sequences && !self.names
    }
}

/// The messages that apply a client's session state to a server.
#[derive(Debug)]
pub struct StateMessages {
    /// The bytes for the server; empty where nothing differs.
    pub out: Vec<u8>,
    /// The client's request goes in the same packet.
    pub is_along: bool,
    /// The SQL in them, for the log; empty if they are prepared statements of ours in the packet of the request.
    pub texts: Vec<String>,
}

impl ServerSession {
    /// Takes the server, from which nothing differs, over for this client.
    pub fn applies_nothing(&mut self, client: &ClientSession) {
        self.note_others_state();
        self.was_hasty = false;
        self.preparing = Box::default();
        self.overrides.clone_from(&client.overrides);
    }

    fn note_others_state(&mut self) {
        self.had_others_state = self.overrides.as_ref().is_some_and(|overrides| !overrides.is_empty());
    }

    /// Applies to the server what differs from this client, along with the client's request where `may_go_along` and the
    /// differences allow that.
    pub fn apply(
        &mut self,
        client: &ClientSession,
        client_key: Key,
        differences: Differences,
        may_go_along: bool,
        tracked: &Tracked,
    ) -> StateMessages {
        self.note_others_state();
        let hasty = self.overrides.as_mut().filter(|overrides| differences.settings && overrides.is_hasty());
        let calming = hasty.map(|overrides| Rc::make_mut(overrides).calm());
        self.was_hasty = calming.is_some();
        let (mut closing, mut out) = (Vec::new(), Vec::new());
        if differences.names {
            self.server_statements.close_own(&mut self.exchange, &mut closing);
        }
        let may_go_along = may_go_along && !self.was_hasty && !differences.sequences && closing.is_empty();
        let follows = differences.follows;
        let answers = if may_go_along { self.apply_along(client, (tracked, follows), &mut out) } else { None };
        let mut texts: Vec<String> = calming.into_iter().collect();
        if let Some(answers) = awaited_first(answers) {
            self.is_applied_along = true;
            self.exchange.asks_ours_along(answers);
        } else {
            out.clear();
            let statements = self.apply_before(client, client_key, differences, tracked, &mut texts);
            for sql in texts.iter().map(|sql| &**sql).chain(statements.iter().map(|(_, sql)| &**sql)) {
                write::query(&mut out, sql);
                self.exchange.asks_ours();
            }
            self.preparing = statements.into_iter().map(|(what, _)| what).collect();
            out.splice(..0, closing);
        }
        self.overrides.clone_from(&client.overrides);
        if differences.settings {
            self.placeholders |= client.placeholders;
        }
        StateMessages { out, is_along: answers.is_some(), texts }
    }

    /// Returns what is sent ahead of the request, in this order: the settings, and then the statements that the server prepares.
    fn apply_before(
        &mut self,
        client: &ClientSession,
        client_key: Key,
        differences: Differences,
        tracked: &Tracked,
        texts: &mut Vec<String>,
    ) -> Vec<(Preparation, Box<str>)> {
        let mut statements = Vec::new();
        // Settings are sent by themselves, because their text may be in the encoding that the parameters set.
        if differences.parameters {
            texts.extend(self.vars.catch_up(&client.vars, tracked, differences.follows));
            for place in self.vars.set_by_catch_up(&client.vars, tracked, differences.follows) {
                self.set_parameters.list(place, true);
            }
        }
        if differences.settings {
            let none = Overrides::default();
            let (theirs, ours) =
                (self.overrides.as_deref().unwrap_or(&none), client.overrides.as_deref().unwrap_or(&none));
            texts.extend(theirs.changes_to(ours));
            let reported = self.vars.search_path(tracked).and_then(|_| client.vars.search_path(tracked));
            statements = theirs.preparations_to(ours, reported);
        }
        if differences.sequences {
            texts.push(DISCARD_SEQUENCES.to_owned());
            self.sequence_owner = SequenceOwner::One(client_key);
        }
        statements
    }

    /// Writes the messages that apply the client's session state in the packet of its request. Returns how many answers
    /// they have, or `None` where that is impossible: whether a statement that was prepared under other parameters can be
    /// used is not known before the new ones are in force.
    fn apply_along(
        &mut self,
        client: &ClientSession,
        (tracked, follows): (&Tracked, bool),
        out: &mut Vec<u8>,
    ) -> Option<u32> {
        let are_parameters_same = match follows {
            true => self.vars.read_alike(&client.vars, tracked),
            false => self.vars.differ_in_name_only(&client.vars, tracked),
        };
        if !are_parameters_same {
            return None;
        }
        let none = Overrides::default();
        let (theirs, ours) = (self.overrides.as_deref(), client.overrides.as_deref());
        let mut settings = theirs.unwrap_or(&none).differences(ours.unwrap_or(&none))?;
        let name = tracked.application_name();
        let renamed = client.vars.get(name).filter(|ours| self.vars.get(name).is_some_and(|theirs| theirs != *ours));
        settings.extend(renamed.map(|name| ("application_name", Some(name))));
        let answers = self.setting_statements.set(&settings, out)?;
        if renamed.is_some() {
            self.set_parameters.list(name, true);
            // The server reports the name only when it is ready (`ReportChangedGUCOptions`), long after it has accepted
            // the settings.
            let renamed = self.vars.named_as(&client.vars, tracked);
            let reported = std::mem::replace(&mut self.vars, renamed);
            self.reported_name = reported.get(name).map(Box::from);
        }
        Some(answers)
    }
}

/// Whether the overrides of a client and its server differ.
#[must_use]
pub fn differ(server: &ServerSession, client: &ClientSession) -> bool {
    match (&server.overrides, &client.overrides) {
        (Some(theirs), Some(ours)) => !Rc::ptr_eq(theirs, ours) && theirs != ours,
        (theirs, ours) => theirs.is_some() != ours.is_some(),
    }
}

impl ClientSession {
    /// Whether `request`, all bytes of the client so far in one piece, is one request, which may go along with the session
    /// state that is sent first.
    #[must_use]
    pub fn says_one_request(&self, request: Option<&[u8]>) -> bool {
        let is_between_messages = !self.scanner.is_in_body() && self.scanner.torn_header().is_empty();
        is_between_messages && !self.is_collecting() && request.is_some_and(is_one_request)
    }

    /// Whether the client's request can go to a server with other settings because it depends on none of them. No state
    /// probe would be needed at its end: the client keeps nothing on the server, and listens to nothing.
    pub fn needs_nothing(
        &self,
        server: &ServerSession,
        request: Option<&[u8]>,
        texts: &mut Texts,
        tracked: &Tracked,
        function_catalog: &FunctionCatalog,
        now: Time,
    ) -> bool {
        let has_more =
            self.subscriptions.is_some() || self.session_effects.as_ref().is_some_and(|effects| effects.is_marked());
        if has_more || !self.says_one_request(request) {
            return false;
        }
        // A Bind that waits for the description of its statement would not go on before the settings are sent.
        let may_wait = |names: &Names| {
            bound_names(request.unwrap_or_default()).any(|name| server.server_statements.may_wait(names, name))
        };
        if self.names.as_deref().is_some_and(may_wait) {
            return false;
        }
        // Such a text is read alike whatever the settings are.
        let text = only_text(request.unwrap_or_default(), self.names.as_deref());
        let text = text.filter(|text| text.is_ascii() && !text.contains(&b'\\'));
        let Some(text) = text.filter(|text| text.len() <= TEXT_BYTES_MAX && !function_catalog.is_due(now)) else {
            return false;
        };
        let class = texts.class(text, &self.vars, tracked, function_catalog);
        let none = Overrides::default();
        let (theirs, ours) = (server.overrides.as_deref().unwrap_or(&none), self.overrides.as_deref().unwrap_or(&none));
        needs_nothing(&class, theirs, ours)
    }
}

/// The names of the statements that a request binds.
fn bound_names(request: &[u8]) -> impl Iterator<Item = &[u8]> {
    messages(request).filter(|(_, kind, _)| *kind == frontend::BIND).filter_map(|(_, _, body)| bound(body))
}

/// A longer text is not classified before it is sent.
const TEXT_BYTES_MAX: usize = 1024;

/// A transaction ends. If the client changed, even locally, how texts are read, statements prepared in it mean something
/// else to other clients.
pub fn doubt_what_was_read(server: &mut ServerSession, client: &mut ClientSession) {
    if let Some(session_effects) = &mut client.session_effects {
        if session_effects.sets_meaning() {
            server.server_statements.doubt_this_loan();
        }
        session_effects.transaction_ends();
    }
}

/// Begins a loan. `is_anew`: since this client had this server, another client has had it, or this client another server.
pub fn begin(server: &mut ServerSession, client: &mut ClientSession, client_key: Key, is_anew: bool) {
    client.unnamed.begin_loan();
    if let Some(names) = &mut client.names {
        names.begin_loan();
    }
    client.counting.ends();
    server.server_statements.begin_loan();
    server.sequence_owner.come(client_key);
    server.sequences_until = None;
    if is_anew && let Some(overrides) = server.overrides.as_mut().filter(|overrides| overrides.has_identity()) {
        // A role of the same name may be another role by now.
        Rc::make_mut(overrides).doubt_identity();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loan::Collected;
    use crate::prepared::StatementRegistry;
    use crate::vars::Vars;

    #[test]
    fn a_request_behind_a_message_that_has_not_come_whole_does_not_go_along() {
        let new = || ClientSession::new(0, Rc::new(Vars::new(&Tracked::new([]))));
        let mut query = Vec::new();
        write::query(&mut query, "select 1");
        assert!(new().says_one_request(Some(&query)));

        let mut has_torn_header = new();
        has_torn_header.scanner.next(&query[..2], 0, 100);
        assert!(!has_torn_header.says_one_request(Some(&query)));

        let mut is_in_body = new();
        is_in_body.scanner.next(&query[..8], 0, 100);
        assert!(!is_in_body.says_one_request(Some(&query)));

        let mut collects = new();
        let charge = StatementRegistry::new(1, 1).charge(&collects.account, 0).expect("room");
        collects.collected = Some(Box::new(Collected { bytes: Vec::new(), body_bytes: 1, charge }));
        assert!(!collects.says_one_request(Some(&query)));
    }

    /// A role of the same name may be another role by now, wherever another client may have dropped the first one.
    #[test]
    fn a_loan_begins_without_what_belonged_to_the_one_before() {
        let vars = Rc::new(Vars::new(&Tracked::new([])));
        let mut client = ClientSession::new(0, vars.clone());
        let key = Key::first(7);
        let mut overrides = Overrides::default();
        overrides.set("role", "tenant_a");
        for is_anew in [false, true] {
            let mut server = ServerSession::new(vars.clone());
            let theirs = Rc::new(overrides.clone());
            (server.overrides, server.sequences_until) = (Some(theirs.clone()), Some(Time(1)));
            begin(&mut server, &mut client, key, is_anew);
            assert_eq!(server.sequences_until, None);
            assert_eq!(server.sequence_owner, SequenceOwner::One(key));
            let is_in_doubt = server.overrides.as_ref() != Some(&theirs);
            assert_eq!(is_in_doubt, is_anew);
        }
    }
}
