//! The session of one client: what it has sent and set, whichever server it has.
//!
//! Always true: it exists from the end of the login to the end of the connection, and passes from loan to loan.
//! Not here: what the client waits for, and its bytes that have not been processed (`worker::data::client`).

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use wire::frame::HEADER_BYTES;
use wire::{Scanner, frontend};

use super::reading::Torn;
use super::statements::Collected;
use crate::exchange::Exchange;
use crate::planted::is_torn;
use crate::prepared::{self, Account, Head, Names, Unnamed};
use crate::state::{Counting, Effects, Overrides, SessionEffects, Subscriptions};
use crate::vars::{Tracked, Vars};

/// The session of one client.
#[derive(Debug)]
pub struct ClientSession {
    /// The number of the user that the client logged in as.
    pub user: u32,
    /// The parameters that PostgreSQL reports.
    pub vars: Rc<Vars>,
    /// The parameters that the session began with.
    pub initial_vars: Rc<Vars>,
    /// Where the messages of the client begin and end.
    pub scanner: Scanner,
    /// What happens to the remaining parts of the current message.
    pub fate: RequestFate,
    /// The prepared statements with names, once there are any.
    pub names: Option<Box<Names>>,
    /// The unnamed prepared statement.
    pub unnamed: Unnamed,
    /// The memory charged to the client for prepared statements and for messages that are being received.
    pub account: Account,
    /// The beginning of a message that is too short to be understood yet.
    pub collected: Option<Box<Collected>>,
    /// The settings that the session began with, to which RESET returns, where session state follows the client.
    pub initial_overrides: Option<Rc<Overrides>>,
    /// The settings of the session, where session state follows the client.
    pub overrides: Option<Rc<Overrides>>,
    /// The custom settings (names with a dot) that the client has ever mentioned where it may have set them
    /// (`pool::Fingerprint::placeholders`).
    pub placeholders: u64,
    /// What the client listens to, where one session listens for all clients.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// What the client may have changed in its session since the session state was last known.
    pub session_effects: Option<Box<SessionEffects>>,
    /// What the transaction does with sequences.
    pub counting: Counting,
    /// The beginning of a text that has to be read and has not arrived completely.
    pub torn_text: Option<Box<Torn>>,
}

/// What happens to all parts of a message from a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RequestFate {
    /// The server receives it.
    Forward,
    /// It is discarded.
    Drop,
    /// It is kept until it is known which statement it concerns.
    Collect,
}

impl ClientSession {
    /// The session of a user that begins with these parameters.
    #[must_use]
    pub fn new(user: u32, vars: Rc<Vars>) -> Self {
        Self {
            user,
            initial_vars: vars.clone(),
            vars,
            scanner: Scanner::default(),
            fate: RequestFate::Forward,
            names: None,
            unnamed: Unnamed::default(),
            account: Account::default(),
            collected: None,
            initial_overrides: None,
            overrides: None,
            placeholders: 0,
            subscriptions: None,
            session_effects: None,
            counting: Counting::default(),
            torn_text: None,
        }
    }

    /// The bytes that are remembered for the client: its prepared statements, its settings and what it keeps on its server.
    #[must_use]
    pub fn memory(&self) -> usize {
        let set = self.overrides.as_ref().map_or(0, |overrides| overrides.bytes());
        self.account.held() + set + self.session_effects.as_ref().map_or(0, |effects| effects.bytes())
    }

    /// Whether a message is partly forwarded, so that the server cannot be taken away.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        is_torn(self.scanner.is_in_body() && self.fate == RequestFate::Forward)
    }

    /// Whether a message has begun of which the server has received nothing yet.
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        self.collected.is_some()
    }

    /// What the client listens to, or is about to. `losses` counts how often the database has lost the session that
    /// listens for all.
    pub fn subscriptions(&mut self, losses: u64) -> &mut Subscriptions {
        let subscriptions = self.subscriptions.get_or_insert_with(|| Box::new(Subscriptions::new(losses)));
        subscriptions.knows_losses(losses);
        subscriptions
    }

    /// What the client listens to, or is about to, if there is anything. `losses` counts how often the database has
    /// lost the session that listens for all.
    pub fn subscriptions_if_any(&mut self, losses: u64) -> Option<&mut Subscriptions> {
        if self.subscriptions.is_some() { Some(self.subscriptions(losses)) } else { None }
    }

    /// Whether this is the value that the client has been told last, of a parameter that is not followed as one in any case: the
    /// server has been given the client's settings, or loses those of another client.
    pub(super) fn has_been_told(&self, tracked: &Tracked, place: usize, value: &str) -> bool {
        !tracked.is_followed(place) && self.vars.get(place) == Some(value)
    }

    /// What the client's request certainly does to parameters that servers report.
    pub(super) fn effects_on_parameters(&self) -> Option<&Effects> {
        self.session_effects.as_ref()?.effects_on_parameters()
    }

    /// The client's value of the parameter at this index of [`Tracked`], of which its server, whose session began with `began`,
    /// reports this value. By a reset the server goes back to what its own session began with, and the client to the value of its
    /// startup packet.
    pub(super) fn value_for<'v>(
        &'v self,
        tracked: &Tracked,
        began: &Vars,
        (place, name): (usize, &str),
        reported: &'v str,
    ) -> &'v str {
        let is_first = tracked.is_of_startup(place) && began.get(place) == Some(reported);
        let Some(effects) = self.effects_on_parameters().filter(|_| is_first) else { return reported };
        let initial = self.initial_vars.get(place).filter(|initial| *initial != reported);
        initial.filter(|_| effects.resets(name) && !effects.sets_to(name, reported)).unwrap_or(reported)
    }

    /// Whether the client has set this value, which a server reports, itself: its `application_name`, or a setting that a
    /// server reports although it is not known to, such as one of an extension.
    pub(super) fn has_set(&self, tracked: &Tracked, (place, name): (Option<usize>, &str), value: &str) -> bool {
        match place.filter(|place| tracked.is_followed(*place)) {
            Some(place) => place == tracked.application_name() && self.vars.get(place) == Some(value),
            None => {
                let overrides = self.overrides.as_ref();
                overrides.is_some_and(|overrides| overrides.get(&name.to_ascii_lowercase()) == Some(value))
            }
        }
    }

    /// Whether the message that begins with this byte begins or continues a request that has to wait until the previous
    /// one is answered.
    pub(super) fn next_waits(&self, exchange: &Exchange, first: u8) -> bool {
        let kind = self.scanner.torn_header().first().copied().unwrap_or(first);
        let is_of_copy = matches!(kind, frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL);
        let is_of_request = !is_of_copy && !matches!(kind, frontend::FLUSH | frontend::TERMINATE);
        is_of_request && !self.scanner.is_in_body() && exchange.awaits_ready()
    }

    /// Whether the message that begins or continues with this byte may depend on what names of statements mean, while the server
    /// has not told that yet.
    #[inline]
    pub(super) fn names_wait(&self, exchange: &Exchange, first: u8) -> bool {
        let Some(names) = self.names.as_ref().filter(|names| names.are_in_doubt(exchange)) else { return false };
        let kind = self.scanner.torn_header().first().copied().unwrap_or(first);
        let kinds = [frontend::PARSE, frontend::BIND, frontend::DESCRIBE, frontend::QUERY];
        names.count() > 0 && kinds.contains(&kind) && !self.scanner.is_in_body()
    }

    /// Whether the message that begins with these bytes binds or describes the unnamed statement, so that it has to wait while it
    /// is unknown which one that is: a Parse in an earlier batch has not been answered, and may have been skipped.
    #[cold]
    pub(super) fn unnamed_waits(&self, bytes: &[u8]) -> bool {
        let torn = self.scanner.torn_header();
        let kind = torn.first().unwrap_or(&bytes[0]);
        if !matches!(*kind, frontend::BIND | frontend::DESCRIBE) {
            return false;
        }
        // The name may be still to come.
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>().filter(|_| torn.is_empty()) else {
            return !self.scanner.is_in_body();
        };
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        let body_bytes = (length as usize).saturating_sub(HEADER_BYTES - 1);
        let head = prepared::head(*kind, &rest[..rest.len().min(body_bytes)], body_bytes);
        !self.scanner.is_in_body() && matches!(head, Ok(Head::Plain | Head::More))
    }

    /// The unnamed statement is another one than that of the Parse that was read last, which the server has failed or skipped.
    pub(super) fn restore_unnamed(&mut self) {
        let class = self.unnamed.class();
        if class.is_some() || self.session_effects.is_some() {
            self.session_effects.get_or_insert_default().restore_unnamed(class);
        }
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.prepares(b"", true);
        }
    }

    /// Notes that none of the client's messages have been read so far, and that a message that has partly arrived cannot be read.
    pub fn begin_unread(&mut self) {
        let mut session_effects = SessionEffects::unread();
        if self.scanner.is_in_body() {
            session_effects.sends_unread();
        }
        self.session_effects = Some(Box::new(session_effects));
        self.counting = Counting::unread();
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::prepared::StatementRegistry;

    fn session() -> (ClientSession, Tracked) {
        let tracked = Tracked::new([]);
        (ClientSession::new(0, Rc::new(Vars::new(&tracked))), tracked)
    }

    #[test]
    fn what_a_server_reports_is_the_clients_own_if_it_has_set_just_that() {
        let (mut client, tracked) = session();
        let mut vars = (*client.vars).clone();
        vars.set(tracked.application_name(), "web");
        vars.set(tracked.place("TimeZone").expect("it is tracked"), "UTC");
        client.vars = Rc::new(vars);
        let mut overrides = Overrides::default();
        overrides.set("search_path", "tenant_a");
        client.overrides = Some(Rc::new(overrides));
        for (name, value, is_own) in [
            ("application_name", "web", true),
            ("application_name", "psql", false),
            ("TimeZone", "UTC", false),
            ("search_path", "tenant_a", true),
            ("Search_Path", "tenant_a", true),
            ("search_path", "tenant_b", false),
            ("work_mem", "tenant_a", false),
        ] {
            let place = tracked.reported_place(name);
            assert_eq!(client.has_set(&tracked, (place, name), value), is_own, "{name} {value}");
        }
        client.overrides = None;
        assert!(!client.has_set(&tracked, (None, "search_path"), "tenant_a"));
    }

    #[test]
    fn a_request_waits_for_the_answer_to_the_one_before() {
        let (mut client, _) = session();
        let mut exchange = Exchange::default();
        assert!(!client.next_waits(&exchange, b'Q'));
        exchange.asked(b'Q');
        for (kind, waits) in [(b'Q', true), (b'P', true), (b'S', true), (b'F', true)]
            .into_iter()
            .chain([b'd', b'c', b'f', b'H', b'X'].map(|kind| (kind, false)))
        {
            assert_eq!(client.next_waits(&exchange, kind), waits, "{}", char::from(kind));
        }
        // The first byte is the rest of a header that says that data of a COPY come.
        client.scanner.next(b"d\0", 0, 1000);
        assert!(!client.next_waits(&exchange, b'Q'));
        let (mut client, _) = session();
        client.scanner.next(b"Q\0\0\0\x10abc", 0, 1000);
        assert!(!client.next_waits(&exchange, b'Q'), "it goes on with a message");
        assert!(client.is_torn());
        client.fate = RequestFate::Drop;
        assert!(!client.is_torn());
    }

    #[test]
    fn what_is_remembered_of_a_client_is_counted_in_bytes() {
        let (mut client, _) = session();
        assert_eq!(client.memory(), 0);
        let statement_registry = StatementRegistry::new(1, 1);
        let charge = statement_registry.charge(&client.account, 100).expect("room");
        let held = client.memory();
        assert!(held >= 100);
        let mut overrides = Overrides::default();
        overrides.set("work_mem", "5MB");
        client.overrides = Some(Rc::new(overrides));
        assert_eq!(client.memory(), held + "work_mem5MB".len());
        let class = Rc::new(route::classify(b"listen a", route::Dialect::default(), None));
        client.session_effects.get_or_insert_default().prepares(b"s", &class, false);
        assert!(client.memory() > held + "work_mem5MB".len());
        drop(charge);
    }

    #[test]
    fn a_client_that_listens_knows_how_often_the_session_for_all_was_lost() {
        let (mut client, _) = session();
        assert!(client.subscriptions_if_any(1).is_none());
        client.subscriptions(1).comes_with(["a".into()].into_iter());
        assert!(client.subscriptions_if_any(1).is_some_and(|subscriptions| !subscriptions.is_owed_word()));
        assert!(client.subscriptions_if_any(2).is_some_and(|subscriptions| subscriptions.is_owed_word()));
        assert!(client.subscriptions(2).is_owed_word());
    }

    #[test]
    fn a_client_that_nobody_has_read_may_have_anything() {
        let (mut client, _) = session();
        client.begin_unread();
        let session_effects = client.session_effects.as_deref().expect("traces");
        assert!(session_effects.is_asked_for() && !session_effects.is_known());
        let asks = route::classify(b"select lastval()", route::Dialect::default(), None);
        client.counting.executes(&asks);
        assert_eq!(client.counting.asking(), None, "it may have drawn the number itself");
        // What can be asked for settles that, unless a part of a message cannot be read.
        assert!(session_effects.is_all_told());
        client.scanner.next(b"Q\0\0\0\x10abc", 0, 1000);
        client.begin_unread();
        assert!(client.session_effects.as_deref().is_some_and(|session_effects| !session_effects.is_all_told()));
    }
}
