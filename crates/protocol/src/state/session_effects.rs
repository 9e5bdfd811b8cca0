//! What a client has done to the state of its session since that state was last known.
//!
//! Always true: a statement that the client has sent counts as executed, whether or not the server has come to it; the
//! channels that it leaves are the exception.
//! Not here: what the server answers to a state probe (`probe`).

use std::collections::BTreeSet;
use std::rc::Rc;

use base::Time;
use route::{Act, Class, DirtyState, Knowledge};

use super::effects::Effects;
use super::locks::{Done, Locks};
use super::long_texts::LongTexts;
use super::noted::Noted;
use super::overrides::{IDENTITY, Overrides};
use super::pins::{FOREIGN, Hold, Kind, LIBRARY, Pin, Pins, TEMP_BUFFERS, TOO_MUCH, UNCOUNTED, UNSEEN, UNTOLD};
use super::probe::{Probe, Seen};
use super::unlisten::Unlistens;
use crate::vars::is_told;

mod reported;

/// The session effects of one client.
#[derive(Clone, Debug, Default)]
pub struct SessionEffects {
    /// What the client may have touched and no probe has asked about.
    touched: DirtyState,
    /// The touched settings whose names are known.
    names: BTreeSet<Box<str>>,
    /// The client listens to a channel through the listener (`subscriptions`), not on its own server.
    listens_elsewhere: bool,
    /// Texts whose effect is certain, unless something undoes it before their transaction ends.
    certain: Effects,
    /// The number of the message with the first effect on parameters that servers report; 0 where there is none.
    parameters_from: u64,
    /// A `DISCARD ALL` and nothing else, whose effect on what the client holds is uncertain, but not that on parameters.
    discard: Effects,
    /// A text of certain effect whose statement has been bound to this portal and not been executed yet.
    bound: Option<(Box<[u8]>, Rc<Class>)>,
    /// Statements of the extended protocol that touch something when they are executed.
    noted: Noted,
    /// The client may have changed what texts mean, until its transaction ends.
    is_local: bool,
    /// What the statements touch that the client has prepared by SQL.
    prepared: DirtyState,
    /// The names of these statements, as far as the client has sent them.
    prepared_names: BTreeSet<Box<str>>,
    /// Statements that the client has prepared were not read: a statement that it binds may do anything.
    is_unread: bool,
    /// Long texts of which the functions of the database will tell whether they were harmless.
    pub(crate) long_texts: LongTexts,
    /// The channels that the client leaves.
    pub unlistens: Unlistens,
    /// The texts that have touched something, the latest last.
    causes: Vec<Rc<Class>>,
    /// What the client holds on its server and can have on no other.
    pins: Pins,
    /// Since when the client has held something there without interruption, numbers of sequences aside.
    kept_since: Option<Time>,
    /// The statement that has last drawn numbers of sequences, where that is of interest; empty if it is unknown.
    drawn_by: Box<str>,
    /// The known state of the session, where its server is probed all the same.
    known: Option<Box<Overrides>>,
    /// The advisory locks that are known without a probe.
    locks: Locks,
}

impl SessionEffects {
    /// For a client whose statements so far nobody has read.
    #[must_use]
    pub fn unread() -> Self {
        Self { touched: DirtyState::ANYTHING, is_unread: true, prepared: DirtyState::ANYTHING, ..Self::default() }
    }

    /// The client begins with statements prepared by SQL that nobody has read: what one does is probed when it has been
    /// executed.
    pub fn begin_with_statements(&mut self) {
        self.prepared = DirtyState::ANYTHING;
    }

    /// Sets whether the client listens to any channel through the listener.
    pub fn listen_elsewhere(&mut self, is_so: bool) {
        self.listens_elsewhere = is_so;
    }

    /// The client sends this text in a simple query.
    pub fn executes(&mut self, class: &Rc<Class>) {
        self.never_executed();
        let is_first = self.touched.is_nothing() && self.certain.0.is_empty();
        self.note(class);
        self.note_executed(class);
        if !self.is_certain(class) {
            self.touch(class);
            self.discard.0.extend((is_first && *class.acts == [Act::DiscardAll]).then(|| class.clone()));
        } else if class.acts.iter().any(Act::has_effect) {
            self.certain.0.push(class.clone());
        }
        if class.may_roll_back() {
            self.effects_in_doubt();
        }
    }

    /// Notes the effects of protocol-level prepared statements that a text executes by SQL.
    fn note_executed(&mut self, class: &Class) {
        for noted in self.executed_by(class) {
            self.note(&noted);
            self.touch(&noted);
        }
    }

    /// The protocol-level prepared statements of interest that a text executes by SQL, and those that they execute in
    /// turn.
    #[must_use]
    pub fn executed_by(&self, class: &Class) -> Vec<Rc<Class>> {
        let mut all: Vec<Rc<Class>> = Vec::new();
        if self.noted.is_empty() {
            return all;
        }
        for name in &class.statements {
            let mut next = self.noted.get(name.as_bytes());
            // A protocol-level prepared statement is a single statement, so it executes at most one other.
            for _ in 0..EXECUTED_MAX {
                let Some(noted) = next else { break };
                all.push(noted.clone());
                next = noted.statements.first().and_then(|name| self.noted.get(name.as_bytes()));
            }
        }
        all
    }

    /// Whether the client may have prepared a statement of this name by SQL that is still on its server.
    #[must_use]
    pub fn may_have_prepared(&self, name: &str) -> bool {
        let is_held = || self.pins.of(Kind::Statement).any(|pin| *pin.hold.what == *name);
        self.prepared_names.contains(name) || self.pins.has_more(Kind::Statement) || is_held()
    }

    /// Whether the client may have prepared statements by SQL whose names are unknown.
    #[must_use]
    pub fn may_have_prepared_any(&self) -> bool {
        self.touched.has(DirtyState::STATEMENTS)
    }

    /// Whether the text alone decides what the session is like after it has succeeded.
    fn is_certain(&self, class: &Class) -> bool {
        let holds = |touches| self.holds(touches);
        let is_certain = |act: &Act| match act {
            Act::Transaction(_) | Act::ResetAll => true,
            Act::Set(changes) => changes.iter().all(|change| change.certain().is_some() || is_told(&change.name)),
            Act::DiscardAll | Act::Unlisten { .. } => !holds(DirtyState::CHANNELS),
            Act::Prepare { sql, .. } => sql.is_some() && !holds(DirtyState::STATEMENTS),
            Act::Deallocate { .. } => !holds(DirtyState::STATEMENTS),
            Act::Execute { .. } => self.prepared.is_nothing(),
            Act::Lock(call) => call.releases && !holds(DirtyState::LOCKS),
            Act::Other { touches, releases, .. } => touches.is_nothing() && !holds(*releases),
        };
        self.touched.is_nothing() && self.certain.0.len() < CERTAIN_MAX && class.acts.iter().all(is_certain)
    }

    /// Whether the client may hold something of these kinds on its server.
    fn holds(&self, what: DirtyState) -> bool {
        self.pins.meets(what) || self.touched.meets(what) || self.listens_elsewhere && what.meets(DirtyState::CHANNELS)
    }

    /// What was certain no longer is: the server must be probed.
    pub fn effects_in_doubt(&mut self) {
        self.discard.0.clear();
        let effects = std::mem::take(&mut self.certain);
        self.touched |= effects.0.iter().fold(DirtyState::NOTHING, |all, class| all | class.touches);
    }

    /// A statement of certain effect was bound, and something else came before its execution.
    fn never_executed(&mut self) {
        if let Some((_, class)) = self.bound.take() {
            // It may still be executed, so the settings that it names are probed.
            self.note(&class);
            self.touch(&class);
        }
    }

    /// The client executes a portal, to its end unless `is_partial`: it has asked for some rows only. pgjdbc asks for one row of
    /// each of its own SETs.
    pub fn executes_portal(&mut self, portal: &[u8], is_partial: bool) {
        match self.bound.take() {
            Some((bound, class)) if *bound == *portal && (!is_partial || class.returns_no_rows()) => {
                self.executes(&class);
            }
            other => {
                self.bound = other;
                self.never_executed();
            }
        }
    }

    /// Whether the effects of all statements are known, so that no probe is needed.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.touched.is_nothing() && self.bound.is_none() && !self.certain.0.is_empty()
    }

    /// The certain effects, which hold once the transactions have succeeded.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.certain
    }

    /// The session is known to have the state `known`, and everything is probed all the same, to compare
    /// (`session_verify`).
    pub fn verify(&mut self, known: Overrides) {
        self.effects_in_doubt();
        // A client that listens through the listener does not listen on this server.
        self.touched |= DirtyState::ANYTHING.without(DirtyState::FUNCTIONS).without(DirtyState::CHANNELS);
        self.known = Some(Box::new(known));
    }

    /// The statements that the client has prepared by SQL are gone.
    pub fn has_no_statements(&mut self) {
        (self.prepared, self.prepared_names) = (DirtyState::NOTHING, BTreeSet::new());
    }

    /// Notes what matters about a text whether or not its effect is certain.
    fn note(&mut self, class: &Rc<Class>) {
        self.known = None;
        self.is_local |= class.sets_locally;
        if class.sequences.are_drawn {
            self.drawn_by.clone_from(&class.shape);
        }
        if class.may_roll_back() {
            self.effects_in_doubt();
        }
        let is_last = self.causes.last().is_some_and(|last| Rc::ptr_eq(last, class));
        if !is_last && !class.touches.is_nothing() && self.causes.len() < CAUSES_MAX {
            self.causes.push(class.clone());
        }
        if class.is_unread && self.prepared_names.len() < PREPARED_NAMES_MAX {
            self.prepared_names.extend(class.statements.iter().cloned());
        }
        for act in &class.acts {
            match act {
                Act::Prepare { touches, name, .. } => {
                    self.prepared |= *touches;
                    if self.prepared_names.len() < PREPARED_NAMES_MAX {
                        self.prepared_names.insert(name.clone());
                    }
                }
                Act::Unlisten { channel } if self.listens_elsewhere => self.unlistens.sends(channel.as_deref()),
                Act::DiscardAll if self.listens_elsewhere => self.unlistens.sends(None),
                Act::Set(changes) => self.name_settings(changes.iter().map(|change| &change.name)),
                Act::Other { names, .. } => self.name_settings(names.iter()),
                _ => {}
            }
            // A new session authorization drops the role (`SetSessionAuthorization` in PostgreSQL's
            // `utils/init/miscinit.c`).
            let [session_authorization, role] = IDENTITY;
            if self.names.contains(session_authorization) && !self.names.contains(role) {
                self.names.insert(role.into());
            }
        }
    }

    /// Notes the names of settings that the client changes. If there are too many, the server is probed for all settings.
    fn name_settings<'a>(&mut self, names: impl Iterator<Item = &'a Box<str>>) {
        for name in names {
            if self.names.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX {
                self.names.insert(name.clone());
            } else if !self.names.contains(name) {
                self.touched |= DirtyState::ANY_SETTING;
            }
        }
    }

    /// Notes that a text may touch the session in a way that only its server can tell.
    fn touch(&mut self, class: &Class) {
        let is_first = self.touched.is_nothing();
        for act in &class.acts {
            self.touched |= match act {
                Act::Execute { .. } => self.prepared,
                Act::Unlisten { .. } if !self.holds(DirtyState::CHANNELS) => DirtyState::NOTHING,
                Act::Lock(call) if call.releases && !self.holds(DirtyState::LOCKS) => DirtyState::NOTHING,
                Act::Other { touches, releases, .. } if !self.holds(*releases) => *touches,
                act => act.touches(),
            };
        }
        if !self.touched.is_nothing() {
            self.effects_in_doubt();
        }
        match &*class.acts {
            [Act::Lock(call)] if is_first => self.locks.called(*call),
            _ => self.locks.doubt_call(),
        }
    }

    /// Called when the server owes nothing before the answer to the client's last statement. If that statement does
    /// nothing but take or release an advisory lock, the row of its answer is awaited; returns whether that is so.
    pub fn awaits_lock_row(&mut self) -> bool {
        self.has_only_called_for_lock() && self.locks.await_row()
    }

    fn has_only_called_for_lock(&self) -> bool {
        let is_all = self.certain.0.is_empty() && self.bound.is_none() && self.known.is_none();
        // Only the server knows what becomes of a lock that is not listed.
        let are_listed = self.pins.has_room_for(Kind::Lock);
        self.touched == DirtyState::LOCKS && is_all && self.names.is_empty() && are_listed
    }

    /// A row has come that may be this answer.
    pub fn lock_row(&mut self, body: &[u8]) {
        self.locks.row(body);
    }

    /// Applies what the answer has told about the lock. Returns false if the server must be probed.
    pub fn settle_lock(&mut self, now: Time) -> bool {
        if !self.has_only_called_for_lock() {
            return false;
        }
        let held = self.pins.of(Kind::Lock).map(|pin| &pin.hold);
        match self.locks.settle(held) {
            None => return false,
            Some(Done::Nothing) => {}
            Some(Done::Taken(hold)) => self.pin(hold, DirtyState::LOCKS, now),
            Some(Done::Released(hold)) => self.pins.retain(|held| *held != hold),
        }
        self.note_keeping(now);
        self.forget();
        true
    }

    /// What is known of `what` may be wrong.
    pub fn doubt(&mut self, what: DirtyState) {
        self.touched |= what;
        self.locks.doubt_call();
    }

    /// The client begins a request outside of transactions. Returns whether no probe is due for earlier requests; a probe
    /// that becomes due is then caused by this one.
    pub fn begins_request(&mut self) -> bool {
        let is_known = !self.is_asked_for();
        if is_known {
            self.causes.clear();
        }
        is_known
    }

    /// Whether the single statement that the client has sent makes a probe necessary, whatever its outcome; the statement
    /// neither begins nor ends a transaction and takes no data from the client.
    #[must_use]
    pub fn is_asked_for_by_one(&self) -> bool {
        let [cause] = &*self.causes else { return false };
        let is_plain = matches!(&*cause.acts, [act] if !matches!(act, Act::Transaction(_)));
        let takes_data = cause.shape.get(..COPY.len()).is_none_or(|word| word.eq_ignore_ascii_case(COPY));
        let is_all = self.certain.0.is_empty() && self.bound.is_none() && self.known.is_none();
        self.is_asked_for() && is_plain && !takes_data && is_all
    }

    /// Whether the server must be probed before the state of the session is known.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        !self.touched.is_nothing()
    }

    /// The channels to which the client's own server listens.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.pins.of(Kind::Channel).map(|pin| &*pin.hold.what)
    }

    /// The listener listens to all of these channels, so the client's own server must leave them.
    pub fn wants_to_leave(&mut self) {
        self.touched |= DirtyState::CHANNELS;
    }

    /// The client prepares a statement with this text (Parse).
    ///
    /// With `counts`, a text also matters if it draws numbers of sequences or asks for them.
    pub fn prepares(&mut self, statement: &[u8], class: &Rc<Class>, counts: bool) {
        let is_harmless = class.touches.is_nothing() && !class.sets_locally;
        let class = if is_harmless && !counts { None } else { Some(class) };
        self.is_unread |= !self.noted.note(statement, class) && !is_harmless;
    }

    /// What the unnamed statement does that the client has prepared last, if that is of interest.
    #[must_use]
    pub fn unnamed(&self) -> Option<&Rc<Class>> {
        self.noted.get(b"")
    }

    /// The unnamed statement is one that does this after all.
    pub fn restore_unnamed(&mut self, class: Option<&Rc<Class>>) {
        self.is_unread |= !self.noted.note(b"", class);
    }

    /// The client prepares a statement under a name that it already uses. Which text the name means is unknown then,
    /// which matters if either touches anything.
    pub fn prepares_again(&mut self, statement: &[u8], class: &Class) {
        if !class.is_harmless() || class.sets_locally || self.noted.get(statement).is_some() {
            let before = self.noted.forget(statement);
            let both = before.iter().flat_map(|before| &before.statements).chain(&class.statements);
            let statements = both.cloned().collect();
            self.prepares(statement, &Rc::new(Class { statements, ..Class::unread() }), false);
        }
    }

    /// The client binds a statement and so may execute it; returns what is known of the statement. `is_own` tells whether
    /// the client has prepared it by the protocol.
    pub fn binds(&mut self, portal: &[u8], statement: &[u8], is_own: impl Fn() -> bool) -> Option<Rc<Class>> {
        self.never_executed();
        let class = self.noted.get(statement).cloned();
        match &class {
            Some(class) if !class.is_harmless() && self.is_certain(class) => {
                self.bound = Some((portal.into(), class.clone()));
            }
            Some(class) => self.executes(class),
            None if self.is_unread => self.touched |= DirtyState::ANYTHING,
            None if !self.prepared.is_nothing() && !statement.is_empty() && !is_own() => {
                self.touched |= self.prepared;
                self.effects_in_doubt();
                self.locks.doubt_call();
            }
            None => {}
        }
        class
    }

    /// The client calls something whose effect cannot be analysed, in a database whose functions are known.
    pub fn calls_unknown(&mut self) {
        self.touched |= DirtyState::ANYTHING.with(DirtyState::CALLS);
    }

    /// The functions of the database are read by a probe of this client's server, because no other client reads them.
    pub fn wants_functions(&mut self) {
        self.touched |= DirtyState::FUNCTIONS;
    }

    /// The client sends a text that nobody reads.
    pub fn sends_unread(&mut self) {
        self.effects_in_doubt();
        self.touched |= DirtyState::ANYTHING.with(DirtyState::UNTOLD);
    }

    /// Decides by the functions of the database, if they are known now, whether long texts were harmless. If one was not, it
    /// may have done anything: its strings are lost.
    pub(crate) fn judge_long_texts(&mut self, knowledge: Option<&Knowledge>) {
        if !self.long_texts.were_harmless(knowledge) {
            self.sends_unread();
        }
    }

    /// Whether the client's next text may have to be read by other parameters than the known ones.
    #[must_use]
    pub fn is_dialect_in_doubt(&self) -> bool {
        let is_named = |name: &str| self.names.contains(name);
        let touched = self.all_touched();
        touched.has(DirtyState::ANY_SETTING)
            || touched.has(DirtyState::SETTINGS)
                && (is_named("standard_conforming_strings") || is_named("client_encoding"))
    }

    /// Whether the meaning of a text that the server reads now is unknown.
    #[must_use]
    pub fn is_meaning_in_doubt(&self) -> bool {
        self.sets_meaning() || self.all_touched().meets(DirtyState::ANY_SETTING.with(DirtyState::UNTOLD))
    }

    /// What the client has touched, certainly or not.
    fn all_touched(&self) -> DirtyState {
        let certain = self.certain.0.iter().chain(self.bound.iter().map(|(_, class)| class));
        certain.fold(self.touched, |all, class| all | class.touches)
    }

    /// Whether the session may have got another user or role.
    #[must_use]
    pub fn may_be_another(&self) -> bool {
        self.touched.has(DirtyState::ANY_SETTING) || IDENTITY.iter().any(|name| self.names.contains(*name))
    }

    /// Whether the client has changed what texts mean by its own statements, since that was last known.
    #[must_use]
    pub fn sets_meaning(&self) -> bool {
        let touched = self.all_touched();
        let is_any = touched.has(DirtyState::ANY_SETTING);
        let is_unnamed = touched.has(DirtyState::SETTINGS) && !is_any && self.names.is_empty();
        self.is_local || is_unnamed || self.names.iter().any(|name| route::decides_meaning(name))
    }

    /// The client's transaction has ended.
    pub fn transaction_ends(&mut self) {
        self.never_executed();
        self.is_local = false;
    }

    /// The statement that has last drawn numbers of sequences.
    #[must_use]
    pub fn drawn_by(&self) -> &str {
        &self.drawn_by
    }

    /// The server is kept for the numbers that this statement has drawn.
    pub fn keeps_sequences(&mut self, now: Time) {
        let hold = Hold::new(Kind::Sequence, "for currval and lastval");
        self.pins.push(Pin { hold, since: now, statement: self.drawn_by.clone() });
    }

    /// The server is no longer kept for numbers of sequences. Returns the statement that had drawn them, if it was.
    pub fn lets_go_of_sequences(&mut self) -> Option<Box<str>> {
        self.pins.remove(Kind::Sequence).pop().map(|pin| pin.statement)
    }

    /// The probe that is due; `None` where nothing was touched. Certain effects are included, because the server's answer
    /// replaces them.
    #[must_use]
    pub fn question(&self) -> Option<Probe> {
        if self.touched.is_nothing() {
            return None;
        }
        let mut probe = Probe::new(self.all_touched(), self.names.iter().map(|name| &**name));
        if let Some(known) = self.known.as_deref() {
            probe.verify(known.clone());
        }
        Some(probe)
    }

    /// The server has answered the probe, by which the session has these `overrides`. With `is_pinned`, a client that has
    /// called something that may have changed its session keeps its server all the same.
    pub fn seen(&mut self, seen: &Seen, overrides: &Overrides, is_pinned: bool, now: Time) {
        self.judge_long_texts(seen.knowledge.as_ref());
        // A session may hold thousands of things.
        let told: BTreeSet<&Hold> = seen.holds.iter().collect();
        self.pins.retain(|hold| !seen.asked.meets(hold.kind.touches()) || told.contains(hold));
        let mut kept: BTreeSet<&Hold> = self.pins.iter().map(|pin| &pin.hold).collect();
        let news: Vec<Hold> = seen.holds.iter().filter(|hold| kept.insert(hold)).cloned().collect();
        for hold in news {
            let by = hold.kind.touches();
            self.pin_new(hold, by, now);
        }
        if seen.asked.has(DirtyState::LOCKS) {
            self.locks.forget_counts();
        }
        if seen.asked.has(DirtyState::STATEMENTS) {
            if seen.statements().any(|name| !self.prepared_names.contains(name)) {
                // A function has prepared it, and its text was not read.
                self.prepared = DirtyState::ANYTHING;
            }
            if seen.statements().next().is_none() {
                self.has_no_statements();
            }
        }
        let touched = self.touched;
        for (is_held, (kind, what), by) in [
            // A library cannot be unloaded.
            (touched.has(DirtyState::LIBRARIES), LIBRARY, DirtyState::LIBRARIES),
            (touched.has(DirtyState::UNTOLD), UNTOLD, DirtyState::UNTOLD),
            (is_pinned && touched.has(DirtyState::CALLS), UNSEEN, DirtyState::CALLS),
            (seen.misses_settings(), UNCOUNTED, DirtyState::ANY_SETTING),
            (overrides.is_too_much(), TOO_MUCH, DirtyState::SETTINGS),
            (seen.sets_temp_buffers(), TEMP_BUFFERS, DirtyState::SETTINGS),
            (seen.has_foreign_values(), FOREIGN, DirtyState::SETTINGS),
        ] {
            if is_held {
                self.pin(Hold::new(kind, what), by, now);
            }
        }
        self.note_keeping(now);
        self.forget();
    }

    /// The server could not answer the probe, so it stays with this client.
    pub fn unseen(&mut self, now: Time) {
        self.pin(Hold::new(Kind::Unknown, "that cannot be read"), DirtyState::NOTHING, now);
        self.locks.forget_counts();
        self.note_keeping(now);
        self.forget();
    }

    /// Pins a hold, unless it is pinned already. The cause is a text that touched `by`.
    fn pin(&mut self, hold: Hold, by: DirtyState, now: Time) {
        if !self.pins.of(hold.kind).any(|pin| pin.hold == hold) {
            self.pin_new(hold, by, now);
        }
    }

    /// Pins a hold that is not pinned yet. The cause is a text that touched `by`.
    fn pin_new(&mut self, hold: Hold, by: DirtyState, now: Time) {
        // A text that plainly takes such a hold is preferred as the cause to one that calls something that may, and the
        // last text to earlier ones.
        let causes = || self.causes.iter().rev();
        let plainly = causes().find(|class| class.takes.meets(by));
        let knowingly = || causes().find(|class| class.touches.meets(by) && !class.touches.has(DirtyState::ANYTHING));
        let cause = plainly.or_else(knowingly).or_else(|| causes().find(|class| class.touches.meets(by)));
        let cause = cause.or_else(|| causes().next());
        let statement = cause.map(|class| class.shape.clone()).unwrap_or_default();
        self.pins.push(Pin { hold, since: now, statement });
    }

    /// Updates since when the server has been kept, after pins have been added and removed.
    fn note_keeping(&mut self, now: Time) {
        let is_kept = self.pins.kinds().any(|kind| kind != Kind::Sequence);
        self.kept_since = if is_kept { self.kept_since.or(Some(now)) } else { None };
    }

    /// Since when the client has kept its server without interruption, numbers of sequences aside.
    #[must_use]
    pub fn kept_since(&self) -> Option<Time> {
        self.kept_since
    }

    /// The client gets a server from another client or process, which these pins keep.
    pub fn comes_keeping(&mut self, pins: Pins) {
        self.kept_since = pins.iter().map(|pin| pin.since).min();
        self.pins = pins;
    }

    /// Whether a server's answer to a probe will tell everything that this client has on it.
    #[must_use]
    pub fn is_all_told(&self) -> bool {
        self.pins.is_empty()
            && self.certain.0.is_empty()
            && self.bound.is_none()
            && self.long_texts.is_empty()
            && !self.touched.meets(DirtyState::LIBRARIES.with(DirtyState::UNTOLD))
    }

    /// What was touched is known now, or no longer matters.
    pub(crate) fn forget(&mut self) {
        (self.is_local, self.touched) = (false, DirtyState::NOTHING);
        (self.certain, self.discard) = (Effects::default(), Effects::default());
        // The next server counts its messages by itself.
        self.parameters_from = 0;
        self.bound = None;
        self.long_texts = LongTexts::default();
        self.names.clear();
        self.causes.clear();
        self.known = None;
        self.locks.doubt_call();
    }

    /// The server has confirmed that everything was discarded. What else the same loan touches is probed at its end.
    pub fn discarded(&mut self) {
        self.pins.retain(|hold| !hold.kind.is_discarded());
        self.locks.forget_counts();
        self.kept_since = self.kept_since.filter(|_| !self.pins.is_empty());
    }

    /// Whether `DISCARD ALL` ends everything that the client may have on its server, including what the server has not
    /// reported yet.
    pub fn can_be_discarded(&self) -> bool {
        self.touched.is_discarded() && self.pins.kinds().all(Kind::is_discarded)
    }

    /// The client has left its server, which is cleaned or closed, or goes to another client together with these pins.
    pub fn leave(&mut self) -> Pins {
        self.forget();
        self.kept_since = None;
        self.locks.forget_counts();
        std::mem::take(&mut self.pins)
    }

    /// How many bytes are kept of statements that touch something, and of pins.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_pin = |pin: &Pin| size_of::<Pin>() + pin.hold.what.len() + pin.statement.len();
        self.pins.iter().map(of_pin).sum::<usize>() + self.noted.bytes() + self.long_texts.bytes()
    }

    /// What pins the client's server.
    #[must_use]
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Whether the server cannot go to another client as it is.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        !self.touched.is_nothing() || !self.certain.0.is_empty() || self.bound.is_some() || !self.pins.is_empty()
    }
}

const COPY: &str = "copy";
/// The most texts that are remembered as causes until the server is probed: the first of a transaction, where programs
/// usually set things.
const CAUSES_MAX: usize = 16;
/// The most texts of certain effect in a loan; with more, the server is probed.
const CERTAIN_MAX: usize = 32;
/// How far a statement is followed that executes another that executes another. PostgreSQL goes on until its stack is
/// full.
const EXECUTED_MAX: usize = 8;
/// The most names that are remembered of statements that the client has prepared by SQL.
const PREPARED_NAMES_MAX: usize = 1000;
/// The most settings changed by a loan that are known by name.
const NAMES_MAX: usize = 1000;
/// The longest such name in bytes. It may have parts, each as long as an identifier; no program has longer ones.
const NAME_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use route::{Dialect, classify};

    /// What a long text does is told by the functions that are read behind it; without them it may be anything.
    #[test]
    fn a_long_text_waits_for_the_functions_to_be_known() {
        let text = b"insert $0 values f";
        for (knowledge, is_all_told) in [(Some(Knowledge::default()), true), (None, false)] {
            let mut session_effects = SessionEffects::default();
            assert!(session_effects.long_texts.add(text, Dialect::default()));
            session_effects.executes(&Rc::new(classify(text, Dialect::default(), None)));
            assert!(!session_effects.is_all_told());
            session_effects.judge_long_texts(knowledge.as_ref());
            assert!(session_effects.long_texts.is_empty());
            assert_eq!(session_effects.is_all_told(), is_all_told);
        }
    }

    #[test]
    fn what_a_transaction_may_have_changed_about_meaning_is_known_until_it_ends() {
        let knowledge = Knowledge::new(["suspect"], false);
        for (text, is_in_doubt, is_said) in [
            ("select 1", false, false),
            ("set local search_path to a", true, true),
            ("set search_path to a", true, true),
            ("set local app.tenant = 'a'", false, false),
            ("set app.tenant = 'a'", false, false),
            ("select pg_advisory_lock(1)", false, false),
            // The text of a call does not say what the function does; the server reports what is left of it.
            ("select suspect()", true, false),
        ] {
            let mut session_effects = SessionEffects::default();
            session_effects.executes(&Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&knowledge))));
            assert_eq!(
                (session_effects.is_meaning_in_doubt(), session_effects.sets_meaning()),
                (is_in_doubt, is_said),
                "{text}"
            );
            session_effects.transaction_ends();
            session_effects.forget();
            assert!(!session_effects.is_meaning_in_doubt(), "{text}");
        }
    }

    /// Regression: the text of an earlier request, after which no probe was due, was taken for the cause of an unread
    /// request that began a transaction, and the probe was sent inside that transaction.
    #[test]
    fn the_cause_of_an_earlier_request_is_none_of_this_one() {
        let mut session_effects = SessionEffects::default();
        let lock = b"select pg_advisory_lock(1)";
        let class = Rc::new(classify(lock, Dialect::default(), Some(&Knowledge::default())));
        assert!(session_effects.begins_request() && !session_effects.is_asked_for_by_one());
        session_effects.note(&class);
        assert!(session_effects.begins_request());
        session_effects.touched |= DirtyState::ANYTHING;
        assert!(session_effects.is_asked_for() && !session_effects.is_asked_for_by_one());
        assert!(!session_effects.begins_request(), "that has to be asked for first");
        session_effects.forget();
        assert!(session_effects.begins_request());
        session_effects.executes(&class);
        assert!(session_effects.is_asked_for_by_one());
    }

    fn class(text: &str) -> Rc<Class> {
        Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default())))
    }

    #[test]
    fn of_too_many_settings_all_are_asked_for() {
        let mut session_effects = SessionEffects::default();
        session_effects.executes(&class("begin"));
        for number in 0..NAMES_MAX {
            session_effects.executes(&class(&format!("set app.x{number} = 1; select pg_advisory_lock(1)")));
        }
        assert!(!session_effects.touched.has(DirtyState::ANY_SETTING));
        session_effects.executes(&class("set app.x0 = 1"));
        assert!(!session_effects.touched.has(DirtyState::ANY_SETTING), "it is among them");
        session_effects.executes(&class("set app.one_more = 1"));
        assert!(session_effects.touched.has(DirtyState::ANY_SETTING) && session_effects.names.len() == NAMES_MAX);
    }

    #[test]
    fn settings_of_long_names_are_asked_for_like_all() {
        let mut session_effects = SessionEffects::default();
        session_effects.executes(&class(&format!("set app.{}.y = 1; select pg_advisory_lock(1)", "x".repeat(60))));
        assert!(!session_effects.touched.has(DirtyState::ANY_SETTING) && session_effects.names.len() == 1);
        let parts = ["y"; 100].join(".");
        session_effects.executes(&class(&format!("set app.{parts} = 1; select pg_advisory_lock(1)")));
        assert!(session_effects.touched.has(DirtyState::ANY_SETTING) && session_effects.names.len() == 1);
    }

    #[test]
    fn who_sets_too_much_keeps_its_server_until_all_is_discarded() {
        let mut session_effects = SessionEffects::default();
        session_effects.executes(&class("select set_config('app.x', repeat('y', 100000), false)"));
        let seen = session_effects.question().and_then(Probe::end).expect("an answer");
        let mut overrides = Overrides::default();
        overrides.set("app.x", &"y".repeat(100_000));
        overrides.set("app.short", "z");
        session_effects.seen(&seen, &overrides, false, Time(0));
        assert_eq!(
            &*session_effects.pins().oldest().expect("one").hold.what,
            "values or statements of more than 64 kB"
        );
        overrides.forget_most();
        assert_eq!(overrides.iter().collect::<Vec<_>>(), [("app.short", "z")]);
        session_effects.seen(&seen, &overrides, false, Time(1));
        assert_eq!(session_effects.pins().iter().count(), 1);
        session_effects.discarded();
        assert!(session_effects.pins().is_empty());
    }

    #[test]
    fn a_server_is_kept_for_numbers_and_let_go() {
        let mut session_effects = SessionEffects::default();
        let text = b"insert into t values (7)";
        let class = classify(text, Dialect::default(), Some(&Knowledge::default()));
        session_effects.executes(&Rc::new(Class { shape: route::shape_of(text, Dialect::default()), ..class }));
        assert!(!session_effects.is_marked());
        session_effects.keeps_sequences(Time::from_secs(1));
        assert!(session_effects.is_marked() && !session_effects.is_asked_for());
        assert_eq!(
            session_effects.pins().iter().map(|pin| &*pin.statement).collect::<Vec<_>>(),
            [session_effects.drawn_by()]
        );
        assert_eq!(session_effects.lets_go_of_sequences().as_deref(), Some("insert into t values (?)"));
        assert_eq!((session_effects.is_marked(), session_effects.lets_go_of_sequences()), (false, None));
    }

    /// Regression: the functions had to be read again, by age, at the end of a transaction that had certainly set or
    /// prepared something. The server was probed for functions only, and what had been set stayed there for the next
    /// client.
    #[test]
    fn what_was_certain_is_asked_along_with_functions() {
        for (text, asked) in
            [("set app.tenant = 'a'", "'app.tenant'"), ("prepare p as select 1", "pg_prepared_statements")]
        {
            let mut session_effects = SessionEffects::default();
            session_effects.executes(&Rc::new(classify(
                text.as_bytes(),
                Dialect::default(),
                Some(&Knowledge::default()),
            )));
            assert!(session_effects.is_known() && session_effects.question().is_none(), "{text}");
            session_effects.wants_functions();
            let question = session_effects.question().map(|probe| probe.question()).unwrap_or_default();
            assert!(question.contains(asked), "{text}: {question}");
        }
    }

    /// Regression: the statement prepared first under a name that is used twice executes another statement, which was not
    /// prepared on its server.
    #[test]
    fn what_is_given_twice_may_execute_what_either_says() {
        let class = |text: &str| Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default())));
        let mut session_effects = SessionEffects::default();
        session_effects.prepares(b"s", &class("execute a"), false);
        session_effects.prepares_again(b"s", &class("commit and chain"));
        let bound = session_effects.binds(b"", b"s", || true);
        assert_eq!(bound.map(|class| class.statements.clone()), Some(["a".into()].into()));
    }

    #[test]
    fn a_statement_that_changes_meaning_does_so_when_it_is_bound() {
        let mut session_effects = SessionEffects::default();
        let class = Rc::new(classify(
            b"select set_config('search_path', $1, true)",
            Dialect::default(),
            Some(&Knowledge::default()),
        ));
        session_effects.prepares(b"s", &class, false);
        assert!(!session_effects.is_meaning_in_doubt());
        assert!(session_effects.binds(b"", b"s", || true).is_some());
        assert!(
            session_effects.is_meaning_in_doubt() && !session_effects.is_marked(),
            "nothing of it outlives its transaction"
        );
    }
}

#[cfg(test)]
#[path = "session_effects_tests.rs"]
mod rules;
