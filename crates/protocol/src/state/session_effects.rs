//! What a client has done that its session may keep, since that was last known.
//!
//! Always true: what a client has sent counts as done, whether or not the server has come to it; but for the channels that it leaves.
//! Not here: what the server says when it is asked (`probe`).

use std::collections::BTreeSet;
use std::rc::Rc;

use base::Time;
use route::{Act, Class, DirtyState};

use super::effects::Effects;
use super::locks::{Done, Locks};
use super::noted::Noted;
use super::overrides::{IDENTITY, Overrides};
use super::pins::{Hold, Kind, Pin, Pins};
use super::probe::{Probe, Seen};
use super::unlisten::Unlistens;
use crate::vars::is_told;

/// The session effects of one client.
#[derive(Clone, Debug, Default)]
pub struct SessionEffects {
    /// What it may have touched and nobody has looked at.
    touched: DirtyState,
    /// The settings among that whose names are known.
    names: BTreeSet<Box<str>>,
    /// It listens to something, and not on its own server: another one does that for all.
    listens_elsewhere: bool,
    /// Texts whose effect is certain, if nothing undoes it before their transaction ends.
    certain: Effects,
    /// The same of a statement that has been bound to this portal, and is not yet executed.
    bound: Option<(Box<[u8]>, Rc<Class>)>,
    /// Statements of the extended protocol that touch something when they are executed.
    noted: Noted,
    /// It may have changed what texts mean, until its transaction ends.
    is_local: bool,
    /// What the statements touch that it has prepared by SQL.
    prepared: DirtyState,
    /// The names of these, as far as it has said them.
    prepared_names: BTreeSet<Box<str>>,
    /// Nobody has read what it has prepared: what is bound may be anything.
    is_unread: bool,
    /// The channels that it leaves.
    pub unlistens: Unlistens,
    /// The texts that have done that, the latest last.
    causes: Vec<Rc<Class>>,
    /// What it has on its server that can be had on no other.
    pins: Pins,
    /// Since when it has always had something there, numbers of sequences aside.
    kept_since: Option<Time>,
    /// The statement that has drawn numbers of sequences last, where that is of interest; empty if nobody knows it.
    drawn_by: Box<str>,
    /// What its session has, where its server is asked all the same.
    known: Option<Box<Overrides>>,
    /// Its advisory locks, as far as they are known without asking.
    locks: Locks,
}

impl SessionEffects {
    /// Of a client that has come from where nobody took note of what it said.
    #[must_use]
    pub fn unread() -> Self {
        Self { touched: DirtyState::ANYTHING, is_unread: true, prepared: DirtyState::ANYTHING, ..Self::default() }
    }

    /// It begins with statements prepared by SQL that nobody has read: what one does is told when it is executed.
    pub fn begin_with_statements(&mut self) {
        self.prepared = DirtyState::ANYTHING;
    }

    /// Whether it listens to anything through the session that listens for all.
    pub fn listen_elsewhere(&mut self, is_so: bool) {
        self.listens_elsewhere = is_so;
    }

    /// It says this text in a simple query.
    pub fn said(&mut self, class: &Rc<Class>) {
        self.never_executed();
        self.note(class);
        self.executes(class);
        if self.is_certain(class) {
            let is_something = class.acts.iter().any(Act::has_effect);
            if is_something {
                self.certain.0.push(class.clone());
            }
        } else {
            self.touch(class);
        }
        if class.takes_back() {
            self.effects_in_doubt();
        }
    }

    /// A text may execute by SQL what has been prepared by the protocol, and that may do something.
    fn executes(&mut self, class: &Class) {
        for noted in self.executed_by(class) {
            self.note(&noted);
            self.touch(&noted);
        }
    }

    /// What a text executes by SQL that has been prepared by the protocol and is of interest, and what that executes in turn.
    #[must_use]
    pub fn executed_by(&self, class: &Class) -> Vec<Rc<Class>> {
        let mut all: Vec<Rc<Class>> = Vec::new();
        if self.noted.is_empty() {
            return all;
        }
        for name in &class.statements {
            let mut next = self.noted.get(name.as_bytes());
            // What is prepared by the protocol is one statement, and may execute one.
            for _ in 0..EXECUTED_MAX {
                let Some(noted) = next else { break };
                all.push(noted.clone());
                next = noted.statements.first().and_then(|name| self.noted.get(name.as_bytes()));
            }
        }
        all
    }

    /// Whether it may have prepared a statement of this name by SQL, that is on its server.
    #[must_use]
    pub fn may_have_prepared(&self, name: &str) -> bool {
        let is_held = || self.pins.of(Kind::Statement).any(|pin| *pin.hold.what == *name);
        self.prepared_names.contains(name) || self.pins.has_more(Kind::Statement) || is_held()
    }

    /// Whether it may have prepared statements by SQL whose names nobody knows.
    #[must_use]
    pub fn may_have_prepared_any(&self) -> bool {
        self.touched.has(DirtyState::STATEMENTS)
    }

    /// Whether nothing but the text decides what has become of the session when it has succeeded.
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

    /// Whether it may have something of these kinds on its server.
    fn holds(&self, what: DirtyState) -> bool {
        self.pins.meets(what) || self.touched.meets(what) || self.listens_elsewhere && what.meets(DirtyState::CHANNELS)
    }

    /// What was certain is not any more: its server is asked.
    pub fn effects_in_doubt(&mut self) {
        let effects = std::mem::take(&mut self.certain);
        self.touched |= effects.0.iter().fold(DirtyState::NOTHING, |all, class| all | class.touches);
    }

    /// A statement was bound whose effect would be certain, and something else came before it was executed.
    fn never_executed(&mut self) {
        if let Some((_, class)) = self.bound.take() {
            // It may come about all the same: the settings that it names are asked for.
            self.note(&class);
            self.touch(&class);
        }
    }

    /// It executes a portal: to its end, or `is_partial`.
    pub fn executed(&mut self, portal: &[u8], is_partial: bool) {
        match self.bound.take() {
            Some((bound, class)) if *bound == *portal && !is_partial => self.said(&class),
            other => {
                self.bound = other;
                self.never_executed();
            }
        }
    }

    /// Whether the effects of statements are known, and nothing has to be asked for.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.touched.is_nothing() && self.bound.is_none() && !self.certain.0.is_empty()
    }

    /// Whether there are effects that an error or a ROLLBACK would undo.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.certain.0.is_empty()
    }

    /// The transactions have ended well: what they have done to the session.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.certain
    }

    /// What its session has now is known, or it has touched nothing: its server is asked for everything all the same, and is to tell this.
    pub fn verify(&mut self, known: Overrides) {
        self.effects_in_doubt();
        // Who listens elsewhere has not said so to this server.
        self.touched |= DirtyState::ANYTHING.without(DirtyState::FUNCTIONS).without(DirtyState::CHANNELS);
        self.known = Some(Box::new(known));
    }

    /// The effects have been applied to what is known of the session.
    pub fn effects_applied(&mut self) {
        self.forget();
    }

    /// What it has prepared by SQL is gone.
    pub fn has_no_statements(&mut self) {
        (self.prepared, self.prepared_names) = (DirtyState::NOTHING, BTreeSet::new());
    }

    /// What of a text is of interest whether or not its effect is certain.
    fn note(&mut self, class: &Rc<Class>) {
        self.known = None;
        self.is_local |= class.sets_locally;
        if class.sequences.are_drawn {
            self.drawn_by.clone_from(&class.shape);
        }
        if class.takes_back() {
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
            if let Act::Prepare { touches, name, .. } = act {
                self.prepared |= *touches;
                if self.prepared_names.len() < PREPARED_NAMES_MAX {
                    self.prepared_names.insert(name.clone());
                }
            }
            match act {
                Act::Unlisten { channel } if self.listens_elsewhere => self.unlistens.sends(channel.as_deref()),
                Act::DiscardAll if self.listens_elsewhere => self.unlistens.sends(None),
                _ => {}
            }
            match act {
                Act::Set(changes) => self.name_settings(changes.iter().map(|change| &change.name)),
                Act::Other { names, .. } => self.name_settings(names.iter()),
                _ => {}
            }
            // Who becomes somebody else has no role any more (`SetSessionAuthorization` in PostgreSQL's `utils/init/miscinit.c`).
            let [session_authorization, role] = IDENTITY;
            if self.names.contains(session_authorization) && !self.names.contains(role) {
                self.names.insert(role.into());
            }
        }
    }

    /// It changes settings of these names. Of too many, the server is asked for all that it has.
    fn name_settings<'a>(&mut self, names: impl Iterator<Item = &'a Box<str>>) {
        for name in names {
            if self.names.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX {
                self.names.insert(name.clone());
            } else if !self.names.contains(name) {
                self.touched |= DirtyState::ANY_SETTING;
            }
        }
    }

    /// A text may touch the session in a way that only its server can tell.
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

    /// The statement that it has said alone takes or releases an advisory lock, and its server owes nothing before the answer, whose row will tell
    /// what has become of that: whether it is such a statement.
    pub fn awaits_lock_row(&mut self) -> bool {
        self.has_only_called_for_lock() && self.locks.await_row()
    }

    fn has_only_called_for_lock(&self) -> bool {
        let is_all = self.certain.0.is_empty() && self.bound.is_none() && self.known.is_none();
        // What becomes of a lock that is not listed only its server can tell.
        let are_listed = self.pins.has_room_for(Kind::Lock);
        self.touched == DirtyState::LOCKS && is_all && self.names.is_empty() && are_listed
    }

    /// A row has come that may answer that.
    pub fn lock_row(&mut self, body: &[u8]) {
        self.locks.row(body);
    }

    /// Takes into account what the answer has told. False if its server has to be asked.
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

    /// What is known of this may not be so.
    pub fn doubt(&mut self, what: DirtyState) {
        self.touched |= what;
        self.locks.doubt_call();
    }

    /// It begins a request outside of transactions. Whether nothing has to be asked for on account of earlier ones: then what will have to be
    /// is on account of this one.
    pub fn begins_request(&mut self) -> bool {
        let is_known = !self.is_asked_for();
        if is_known {
            self.causes.clear();
        }
        is_known
    }

    /// Whether its server has to be asked, whatever comes of the one statement that it has said, which neither begins nor ends a transaction and
    /// takes no data from the client.
    #[must_use]
    pub fn is_asked_for_by_one(&self) -> bool {
        let [cause] = &*self.causes else { return false };
        let is_plain = matches!(&*cause.acts, [act] if !matches!(act, Act::Transaction(_)));
        let takes_data = cause.shape.get(..COPY.len()).is_none_or(|word| word.eq_ignore_ascii_case(COPY));
        let is_all = self.certain.0.is_empty() && self.bound.is_none() && self.known.is_none();
        self.is_asked_for() && is_plain && !takes_data && is_all
    }

    /// Whether its server has to be asked before anything is known of what it has.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        !self.touched.is_nothing()
    }

    /// The channels that its own server listens to for it.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.pins.of(Kind::Channel).map(|pin| &*pin.hold.what)
    }

    /// Somebody else listens to all of them: its server is to leave them.
    pub fn wants_to_leave(&mut self) {
        self.touched |= DirtyState::CHANNELS;
    }

    /// It gives a statement this text, in a Parse.
    ///
    /// That it draws numbers or asks for them is of interest where it `counts`.
    pub fn given(&mut self, statement: &[u8], class: &Rc<Class>, counts: bool) {
        let is_harmless = class.touches.is_nothing() && !class.sets_locally;
        let class = if is_harmless && !counts { None } else { Some(class) };
        let is_noted = self.noted.note(statement, class);
        self.is_unread |= !is_noted && !is_harmless;
    }

    /// It gives a name that it has given already: nobody knows which of both it means then, if either touches anything.
    pub fn given_twice(&mut self, statement: &[u8], class: &Class) {
        if !class.is_harmless() || class.sets_locally || self.noted.get(statement).is_some() {
            let before = self.noted.forget(statement);
            let both = before.iter().flat_map(|before| &before.statements).chain(&class.statements);
            let statements = both.cloned().collect();
            self.given(statement, &Rc::new(Class { statements, ..Class::unread() }), false);
        }
    }

    /// It binds a statement, and so may execute it: what is known of that. Whether it has prepared it by the protocol, `is_own` tells.
    pub fn bound(&mut self, portal: &[u8], statement: &[u8], is_own: impl Fn() -> bool) -> Option<Rc<Class>> {
        self.never_executed();
        let class = self.noted.get(statement).cloned();
        match &class {
            Some(class) if !class.is_harmless() && self.is_certain(class) => {
                self.bound = Some((portal.into(), class.clone()));
            }
            Some(class) => self.said(class),
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

    /// It does what nobody can read, in a database whose functions are known.
    pub fn dark(&mut self) {
        self.touched |= DirtyState::ANYTHING.with(DirtyState::CALLS);
    }

    /// Nobody else reads the functions of its database, so its server is asked for them.
    pub fn wants_functions(&mut self) {
        self.touched |= DirtyState::FUNCTIONS;
    }

    /// It says a text that nobody has read.
    pub fn unheard(&mut self) {
        self.effects_in_doubt();
        self.touched |= DirtyState::ANYTHING.with(DirtyState::UNTOLD);
    }

    /// Whether the text that it sends next may be read otherwise than by the parameters that are known.
    #[must_use]
    pub fn is_dialect_in_doubt(&self) -> bool {
        let is_named = |name: &str| self.names.contains(name);
        let touched = self.all_touched();
        touched.has(DirtyState::ANY_SETTING)
            || touched.has(DirtyState::SETTINGS)
                && (is_named("standard_conforming_strings") || is_named("client_encoding"))
    }

    /// Whether nobody can tell what a text means that its server reads now.
    #[must_use]
    pub fn is_meaning_in_doubt(&self) -> bool {
        self.sets_meaning() || self.all_touched().meets(DirtyState::ANY_SETTING.with(DirtyState::UNTOLD))
    }

    /// What it has touched, certainly or not.
    fn all_touched(&self) -> DirtyState {
        let certain = self.certain.0.iter().chain(self.bound.iter().map(|(_, class)| class));
        certain.fold(self.touched, |all, class| all | class.touches)
    }

    /// Whether it may have become somebody else.
    #[must_use]
    pub fn may_be_another(&self) -> bool {
        self.touched.has(DirtyState::ANY_SETTING) || IDENTITY.iter().any(|name| self.names.contains(*name))
    }

    /// Whether it has said itself, since that was last known, that it changes what texts mean.
    #[must_use]
    pub fn sets_meaning(&self) -> bool {
        let touched = self.all_touched();
        let is_any = touched.has(DirtyState::ANY_SETTING);
        let is_unnamed = touched.has(DirtyState::SETTINGS) && !is_any && self.names.is_empty();
        self.is_local || is_unnamed || self.names.iter().any(|name| route::decides_meaning(name))
    }

    /// Its transaction has ended.
    pub fn transaction_ends(&mut self) {
        self.never_executed();
        self.is_local = false;
    }

    /// The statement that has drawn numbers of sequences last.
    #[must_use]
    pub fn drawn_by(&self) -> &str {
        &self.drawn_by
    }

    /// Its server is kept for what that statement has drawn.
    pub fn keeps_sequences(&mut self, now: Time) {
        self.pins.push(Pin { hold: Hold::numbers(), since: now, statement: self.drawn_by.clone() });
    }

    /// Numbers of sequences are no reason any more to keep its server: the statement that had drawn them, if they were one.
    pub fn lets_go_of_sequences(&mut self) -> Option<Box<str>> {
        self.pins.remove(Kind::Sequence).pop().map(|pin| pin.statement)
    }

    /// The question that would tell; nothing where nothing has been touched. What was certain is asked along: once the server has told, it counts
    /// for nothing any more.
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

    /// The server has told, and by that the session has these `overrides`. Who has called what may have changed its session keeps it all the same where
    /// that `is_pinned`.
    pub fn seen(&mut self, seen: &Seen, overrides: &Overrides, is_pinned: bool, now: Time) {
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
        // A library cannot be unloaded.
        if self.touched.has(DirtyState::LIBRARIES) {
            self.pin(Hold::library(), DirtyState::LIBRARIES, now);
        }
        if seen.asked.has(DirtyState::STATEMENTS) {
            if seen.statements().any(|name| !self.prepared_names.contains(name)) {
                // A function has prepared it: what it does, nobody has read.
                self.prepared = DirtyState::ANYTHING;
            }
            if seen.statements().next().is_none() {
                (self.prepared, self.prepared_names) = (DirtyState::NOTHING, BTreeSet::new());
            }
        }
        if self.touched.has(DirtyState::UNTOLD) {
            self.pin(Hold::untold(), DirtyState::UNTOLD, now);
        }
        if is_pinned && self.touched.has(DirtyState::CALLS) {
            self.pin(Hold::unseen(), DirtyState::CALLS, now);
        }
        if seen.misses_settings() {
            self.pin(Hold::uncounted(), DirtyState::ANY_SETTING, now);
        }
        if overrides.is_too_much() {
            self.pin(Hold::too_much(), DirtyState::SETTINGS, now);
        }
        if seen.sets_temp_buffers() {
            self.pin(Hold::temp_buffers(), DirtyState::SETTINGS, now);
        }
        if seen.has_foreign_values() {
            self.pin(Hold::foreign(), DirtyState::SETTINGS, now);
        }
        self.note_keeping(now);
        self.forget();
    }

    /// The server could not tell: it stays this client's.
    pub fn unseen(&mut self, now: Time) {
        self.pin(Hold::unknown(), DirtyState::NOTHING, now);
        self.locks.forget_counts();
        self.note_keeping(now);
        self.forget();
    }

    /// Something is held, by whatever touched that.
    fn pin(&mut self, hold: Hold, by: DirtyState, now: Time) {
        if !self.pins.of(hold.kind).any(|pin| pin.hold == hold) {
            self.pin_new(hold, by, now);
        }
    }

    /// The same of what has not been held before.
    fn pin_new(&mut self, hold: Hold, by: DirtyState, now: Time) {
        // Who says so plainly goes before who has called something that may have done it, and the last before the others.
        let causes = || self.causes.iter().rev();
        let plainly = causes().find(|class| class.takes.meets(by));
        let knowingly = || causes().find(|class| class.touches.meets(by) && !class.touches.has(DirtyState::ANYTHING));
        let cause = plainly.or_else(knowingly).or_else(|| causes().find(|class| class.touches.meets(by)));
        let cause = cause.or_else(|| causes().next());
        let statement = cause.map(|class| class.shape.clone()).unwrap_or_default();
        self.pins.push(Pin { hold, since: now, statement });
    }

    /// What has been found has been noted, and what is gone.
    fn note_keeping(&mut self, now: Time) {
        let is_kept = self.pins.kinds().any(|kind| kind != Kind::Sequence);
        self.kept_since = if is_kept { self.kept_since.or(Some(now)) } else { None };
    }

    /// Since when it has kept its server all the time, numbers of sequences aside.
    #[must_use]
    pub fn kept_since(&self) -> Option<Time> {
        self.kept_since
    }

    /// It has a server from elsewhere, which is kept for this.
    pub fn comes_keeping(&mut self, pins: Pins) {
        self.kept_since = pins.iter().map(|pin| pin.since).min();
        self.pins = pins;
    }

    /// Whether a server's answer will tell all that this client has on it.
    #[must_use]
    pub fn is_all_told(&self) -> bool {
        self.pins.is_empty()
            && self.certain.0.is_empty()
            && self.bound.is_none()
            && !self.touched.meets(DirtyState::LIBRARIES.with(DirtyState::UNTOLD))
    }

    /// What was touched is known now, or of no interest any more.
    fn forget(&mut self) {
        (self.is_local, self.touched) = (false, DirtyState::NOTHING);
        self.certain = Effects::default();
        self.bound = None;
        self.names.clear();
        self.causes.clear();
        self.known = None;
        self.locks.doubt_call();
    }

    /// The server has said that everything has been discarded. What else is touched in the same loan is asked for at its end.
    pub fn discarded(&mut self) {
        self.pins.retain(|hold| !hold.kind.is_discarded());
        self.locks.forget_counts();
        self.kept_since = self.kept_since.filter(|_| !self.pins.is_empty());
    }

    /// Whether `DISCARD ALL` ends all that it may have on its server, of which that has perhaps not told yet.
    pub fn can_be_discarded(&self) -> bool {
        self.touched.is_discarded() && self.pins.kinds().all(Kind::is_discarded)
    }

    /// It has left its server, which is made clean or closed, or is another's from now on with what kept it.
    pub fn leave(&mut self) -> Pins {
        self.forget();
        self.kept_since = None;
        self.locks.forget_counts();
        std::mem::take(&mut self.pins)
    }

    /// How many bytes are remembered of statements that touch something, and of what keeps its server.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_pin = |pin: &Pin| size_of::<Pin>() + pin.hold.what.len() + pin.statement.len();
        self.pins.iter().map(of_pin).sum::<usize>() + self.noted.bytes()
    }

    /// What keeps its server.
    #[must_use]
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Whether its server cannot be anybody else's as it is.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        !self.touched.is_nothing() || !self.certain.0.is_empty() || self.bound.is_some() || !self.pins.is_empty()
    }
}

const COPY: &str = "copy";
/// So many texts are remembered until the server is asked; the first of a transaction, which is where programs set things.
const CAUSES_MAX: usize = 16;
/// So many texts of a loan have a certain effect; more, and the server is asked.
const CERTAIN_MAX: usize = 32;
/// A statement that executes another that executes another is followed so far. PostgreSQL goes on until its stack is full.
const EXECUTED_MAX: usize = 8;
/// So many names of statements that it has prepared by SQL are remembered.
const PREPARED_NAMES_MAX: usize = 1000;
/// So many settings that a loan changes are known by their names.
const NAMES_MAX: usize = 1000;
/// Such a name may have parts, each as long as a name may be; no program has longer ones.
const NAME_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use route::{Dialect, Knowledge, classify};

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
            // Who calls a function that may do anything has not said so, and the server tells what is left of it.
            ("select suspect()", true, false),
        ] {
            let mut session_effects = SessionEffects::default();
            session_effects.said(&Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&knowledge))));
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

    /// The cause of an earlier request, after which nothing had to be asked, was taken for that of one that nobody had read and that began a
    /// transaction: the question was put within that.
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
        session_effects.said(&class);
        assert!(session_effects.is_asked_for_by_one());
    }

    fn class(text: &str) -> Rc<Class> {
        Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default())))
    }

    #[test]
    fn of_too_many_settings_all_are_asked_for() {
        let mut session_effects = SessionEffects::default();
        session_effects.said(&class("begin"));
        for number in 0..NAMES_MAX {
            session_effects.said(&class(&format!("set app.x{number} = 1; select pg_advisory_lock(1)")));
        }
        assert!(!session_effects.touched.has(DirtyState::ANY_SETTING));
        session_effects.said(&class("set app.x0 = 1"));
        assert!(!session_effects.touched.has(DirtyState::ANY_SETTING), "it is among them");
        session_effects.said(&class("set app.one_more = 1"));
        assert!(session_effects.touched.has(DirtyState::ANY_SETTING) && session_effects.names.len() == NAMES_MAX);
    }

    #[test]
    fn settings_of_long_names_are_asked_for_like_all() {
        let mut session_effects = SessionEffects::default();
        session_effects.said(&class(&format!("set app.{}.y = 1; select pg_advisory_lock(1)", "x".repeat(60))));
        assert!(!session_effects.touched.has(DirtyState::ANY_SETTING) && session_effects.names.len() == 1);
        let parts = ["y"; 100].join(".");
        session_effects.said(&class(&format!("set app.{parts} = 1; select pg_advisory_lock(1)")));
        assert!(session_effects.touched.has(DirtyState::ANY_SETTING) && session_effects.names.len() == 1);
    }

    #[test]
    fn who_sets_too_much_keeps_its_server_until_all_is_discarded() {
        let mut session_effects = SessionEffects::default();
        session_effects.said(&class("select set_config('app.x', repeat('y', 100000), false)"));
        let seen = session_effects.question().and_then(Probe::end).expect("an answer");
        let mut overrides = Overrides::default();
        overrides.set("app.x", &"y".repeat(100_000));
        overrides.set("app.short", "z");
        session_effects.seen(&seen, &overrides, false, Time(0));
        assert_eq!(
            &*session_effects.pins().oldest().expect("one").hold.what,
            "more than 64 kB of settings or statements"
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
        session_effects.said(&Rc::new(Class { shape: route::shape_of(text, Dialect::default()), ..class }));
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

    /// Functions came to be read again, by age, at the end of a transaction that had certainly set or prepared something: the server was asked for
    /// functions only, and what had been set stayed there for whoever came next.
    #[test]
    fn what_was_certain_is_asked_along_with_functions() {
        for (text, asked) in
            [("set app.tenant = 'a'", "'app.tenant'"), ("prepare p as select 1", "pg_prepared_statements")]
        {
            let mut session_effects = SessionEffects::default();
            session_effects.said(&Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default()))));
            assert!(session_effects.is_known() && session_effects.question().is_none(), "{text}");
            session_effects.wants_functions();
            let question = session_effects.question().map(|probe| probe.question()).unwrap_or_default();
            assert!(question.contains(asked), "{text}: {question}");
        }
    }

    /// What was prepared first under a name that is given twice, and executes another statement, was not brought to its server.
    #[test]
    fn what_is_given_twice_may_execute_what_either_says() {
        let class = |text: &str| Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&Knowledge::default())));
        let mut session_effects = SessionEffects::default();
        session_effects.given(b"s", &class("execute a"), false);
        session_effects.given_twice(b"s", &class("commit and chain"));
        let bound = session_effects.bound(b"", b"s", || true);
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
        session_effects.given(b"s", &class, false);
        assert!(!session_effects.is_meaning_in_doubt());
        assert!(session_effects.bound(b"", b"s", || true).is_some());
        assert!(
            session_effects.is_meaning_in_doubt() && !session_effects.is_marked(),
            "nothing of it outlives its transaction"
        );
    }
}

#[cfg(test)]
#[path = "session_effects_tests.rs"]
mod rules;
