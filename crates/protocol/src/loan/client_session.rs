//! What a client has said and set, whichever server it has.
//!
//! Always true: it is there from the end of the login to the end of the connection, and goes from loan to loan.
//! Not here: what the client waits for, and what it has said that nobody has looked at (`worker::data::client`).

use std::rc::Rc;

use base::planted::{self, Planted};
use serde::{Deserialize, Serialize};
use wire::{Scanner, backend, frontend};

use super::reading::Torn;
use super::statements::Collected;
use crate::exchange::Exchange;
use crate::prepared::{Account, Names, Unnamed};
use crate::state::{Counting, Overrides, Subscriptions, Traces};
use crate::vars::{Tracked, Vars};

/// The session of one client.
#[derive(Debug)]
pub struct ClientSession {
    /// The number of the user that the client logged in as.
    pub user: u32,
    /// The parameters that PostgreSQL reports.
    pub vars: Rc<Vars>,
    /// The parameters that the session began with.
    pub began: Rc<Vars>,
    /// Where the messages of the client begin and end.
    pub scanner: Scanner,
    /// What becomes of the rest of the message whose beginning is known.
    pub fate: RequestFate,
    /// The prepared statements with names, once there are any.
    pub names: Option<Box<Names>>,
    /// The one without a name.
    pub unnamed: Unnamed,
    /// What the client holds of these, and of messages that are being received.
    pub account: Account,
    /// The beginning of a message that cannot be understood yet.
    pub collected: Option<Box<Collected>>,
    /// The settings that the session began with, where that follows the client: what RESET goes back to.
    pub given: Option<Rc<Overrides>>,
    /// The settings of the session, where that follows the client.
    pub overrides: Option<Rc<Overrides>>,
    /// The settings with a dot that the client has ever mentioned where it may have set them (`pool::Fingerprint::placeholders`).
    pub placeholders: u64,
    /// What the client listens to, where somebody does that for all.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// What the client may have changed in its session since that was last known.
    pub traces: Option<Box<Traces>>,
    /// What the transaction does with numbers of sequences.
    pub counting: Counting,
    /// A text that the client is saying, if that has to be read.
    pub torn_text: Option<Box<Torn>>,
}

/// What becomes of a message of a client, all its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RequestFate {
    /// The server gets it.
    Forward,
    /// Nobody gets it.
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
            began: vars.clone(),
            vars,
            scanner: Scanner::default(),
            fate: RequestFate::Forward,
            names: None,
            unnamed: Unnamed::default(),
            account: Account::default(),
            collected: None,
            given: None,
            overrides: None,
            placeholders: 0,
            subscriptions: None,
            traces: None,
            counting: Counting::default(),
            torn_text: None,
        }
    }

    /// The bytes that are remembered for the client: its prepared statements, what its session has set and keeps.
    #[must_use]
    pub fn memory(&self) -> usize {
        let set = self.overrides.as_ref().map_or(0, |overrides| overrides.bytes());
        self.account.held() + set + self.traces.as_ref().map_or(0, |traces| traces.bytes())
    }

    /// Whether a message is half forwarded, so that its server cannot be taken away.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.scanner.is_in_body() && self.fate == RequestFate::Forward && !planted::is(Planted::HalfMessageLeftBehind)
    }

    /// Whether a message has begun of which its server has heard nothing yet.
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        self.collected.is_some()
    }

    /// What the client listens to, or is about to, in a database whose session for all has been lost so often.
    pub fn subscriptions(&mut self, losses: u64) -> &mut Subscriptions {
        let subscriptions = self.subscriptions.get_or_insert_with(|| Box::new(Subscriptions::new(losses)));
        subscriptions.knows_losses(losses);
        subscriptions
    }

    /// The same, if the client listens to anything.
    pub fn subscriptions_if_any(&mut self, losses: u64) -> Option<&mut Subscriptions> {
        if self.subscriptions.is_some() { Some(self.subscriptions(losses)) } else { None }
    }

    /// Whether this `ParameterStatus` tells the client what it has set itself: its `application_name`, or a setting that this version of PostgreSQL
    /// reports and that is not one of those that are tracked, such as `search_path` since PostgreSQL 18.
    pub(super) fn has_set(&self, tracked: &Tracked, status: &[u8]) -> bool {
        let Some((name, value)) = backend::parameter_status(status) else { return false };
        match tracked.place(name) {
            Some(place) => place == tracked.application_name() && self.vars.get(place) == Some(value),
            None => {
                let overrides = self.overrides.as_ref();
                overrides.is_some_and(|overrides| overrides.get(&name.to_ascii_lowercase()) == Some(value))
            }
        }
    }

    /// Whether the message that begins with this byte begins a request, or goes on with one, and has to wait until another one is answered.
    pub(super) fn next_waits(&self, exchange: &Exchange, first: u8) -> bool {
        let kind = self.scanner.torn_header().first().copied().unwrap_or(first);
        let is_of_copy = matches!(kind, frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL);
        let is_of_request = !is_of_copy && !matches!(kind, frontend::FLUSH | frontend::TERMINATE);
        is_of_request && !self.scanner.is_in_body() && exchange.awaits_ready()
    }

    /// Nobody has read what the client has said so far, and a message of which a part has come cannot be read.
    pub fn begin_unread(&mut self) {
        let mut traces = Traces::unread();
        if self.scanner.is_in_body() {
            traces.unheard();
        }
        self.traces = Some(Box::new(traces));
        self.counting = Counting::unread();
    }
}
