//! The prepared statements of one server, and the messages to it about them.
//!
//! Always true: never more than `max_prepared_statements` are prepared; the least recently used one goes first; a client
//! that prepares a statement is not given one that was prepared before the catalog changed; what was sent is undone here,
//! in reverse order, when the server fails or skips it; a statement in doubt is closed before it is prepared, because
//! closing what is not there is no error.
//! Not here: which statement a name means, and whether it is sent again (`reading`); whether it is still as described
//! (`descriptions`); the place of an answer of ours among the server's answers (`exchange`).

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use base::Time;
use serde::{Deserialize, Serialize};
use wire::{backend, frontend};

use super::account::Charge;
use super::head::Ask;
use super::messages::{OUTDATED, bind_head, push_close, push_describe, push_name};
use super::names::{Named, Names, unsettled};
use super::own::Own;
use super::registry::StatementRegistry;
use super::shape::{Describing, Fit, Shape, Used, Waiting};
use super::statement::{Mark, Statement};
use super::{Account, Bytes, Tally};
use crate::exchange::{Exchange, Outcome, Step};
use crate::fault::Fault;
use crate::planted::{outlives_discard, until_confirmed};
use crate::vars::Tracked;

/// The statements of one server.
#[derive(Debug, Default)]
pub struct ServerStatements {
    pub(super) held: BTreeMap<u64, Held>,
    /// The numbers of the statements held, by when they were last used.
    pub(super) by_use: BTreeMap<u64, u64>,
    /// Steps whose outcome is not known, in order.
    pub(super) pending: VecDeque<Pending>,
    /// The numbers of our names under which the server had statements that are not ours.
    pub(super) taken: Vec<u64>,
    /// The statements that it has under names of its client.
    pub(super) own: Own,
    /// Counts uses and steps.
    pub(super) clock: u64,
    /// Counts loans.
    pub(super) loan: u64,
    /// The hash of the parameters that the server has told, of a description whose columns are to come.
    pub(super) parameters: Option<u64>,
    /// The description whose columns are arriving.
    pub(super) describing: Option<Describing>,
    /// The Bind that waits for the description of its statement.
    pub(super) waiting: Option<Waiting>,
    /// The Bind that has waited for the description of its statement, when it has come again.
    pub(super) waited: Option<Waiting>,
    /// Since this was asked last, the client was given an answer of ours to a Parse.
    pub(super) has_given: bool,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) mark: Mark,
    pub(super) used: u64,
    pub(super) state: State,
    /// The loan in which it was prepared.
    pub(super) loan: u64,
    /// The catalog in which it was prepared.
    pub(super) catalog_version: CatalogVersion,
    /// What the server has told of it.
    pub(super) shape: Shape,
    /// When it was sent, by the clock of uses.
    pub(super) born: u64,
}

/// The catalog of a database as it was at some time. A prepared statement keeps the types that its tables had in it: the same
/// text prepared later may mean other types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CatalogVersion {
    /// The time.
    pub now: Time,
    /// How many changes of its catalog had been seen before.
    pub changes: u64,
}

impl CatalogVersion {
    /// One that no other is like.
    const NEVER: Self = Self { now: Time(0), changes: u64::MAX };

    /// Whether a statement prepared in an earlier catalog is taken to mean the same in this one.
    fn is_like(self, earlier: Self) -> bool {
        self.changes == earlier.changes && self.now.since(earlier.now) < UNSEEN_MAX
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum State {
    /// The server has confirmed it.
    Sure,
    /// It was sent, as this step and in this epoch.
    Sent { step: u64, epoch: u64 },
    /// It may or may not be there, or may mean something else by now.
    Doubted,
    /// Another text is there under its name.
    Displaced,
}

#[derive(Debug)]
pub(super) enum Pending {
    /// A Parse, for the name of a client or because the server lacked the statement.
    Parse { statement: u64, step: u64, name: Option<Rc<[u8]>> },
    /// A Close of a statement that had to make room, or was in doubt.
    Close { id: u64, epoch: u64, was: Option<Held> },
    /// A Parse that we answer.
    Found { step: u64, name: Rc<[u8]> },
    /// A Parse of a name that its client has given already.
    Twice(Twice),
    /// A Close that we answer.
    Dropped { name: Rc<[u8]>, was: Option<Named> },
    /// A hidden message that changes nothing here, such as a Parse or a Close of the unnamed statement.
    Hidden,
    /// A Describe whose answer is read.
    Describe(Describing),
    /// A Parse under the name of a client, or a Close of that name. `step` is 0, unless the client itself gives the name.
    Own { name: Rc<[u8]>, statement: Option<u64>, step: u64 },
}

/// A Parse of a name in use. If the server accepts it, the name had been dropped there, by SQL that nobody has read.
#[derive(Debug)]
pub(super) struct Twice {
    pub(super) name: Rc<[u8]>,
    pub(super) step: u64,
    /// The number of the statement under whose name the new text is sent; `None` if it is sent under the client's name.
    pub(super) contested: Option<u64>,
    /// How that statement stood.
    pub(super) state: State,
    /// What the name meant, unless it has been dropped since.
    pub(super) was: Option<Named>,
}

impl Pending {
    /// The name that the client gives by it, and the step.
    fn gives(&self) -> Option<(&Rc<[u8]>, u64)> {
        match self {
            Self::Parse { name: Some(name), step, .. } | Self::Found { name, step } => Some((name, *step)),
            Self::Own { name, step: step @ 1.., .. } => Some((name, *step)),
            Self::Twice(Twice { name, step, .. }) => Some((name, *step)),
            _ => None,
        }
    }
}

impl Held {
    /// The statement is used now. The newest one stays the newest without a change to the order.
    #[inline]
    fn is_used(&mut self, clock: &mut u64, by_use: &mut BTreeMap<u64, u64>) {
        if self.used != *clock {
            *clock += 1;
            by_use.remove(&self.used);
            self.used = *clock;
            by_use.insert(*clock, self.mark.id());
        }
    }

    fn is_sent_as(&self, step: u64) -> bool {
        matches!(self.state, State::Sent { step: sent, .. } if sent == step)
    }
}

/// Everything that takes part in a client's message about a statement.
#[derive(Debug)]
pub struct Sides<'a> {
    /// The client's names.
    pub names: &'a mut Names,
    /// The account of the client.
    pub account: &'a Account,
    /// The statements of all clients.
    pub statement_registry: &'a mut StatementRegistry,
    /// What the server owes.
    pub exchange: &'a mut Exchange,
    /// The client's parameters, as far as they decide how a text is read.
    pub dialect: Rc<[u8]>,
    /// The names of the parameters.
    pub tracked: &'a Tracked,
    /// Whether these are known, which they are not where the open transaction may have changed some. A statement read
    /// then is not shared.
    pub is_settled: bool,
    /// Whether the client may have prepared a statement of this name by SQL.
    pub is_by_sql: bool,
    /// `max_prepared_statements`, not 0.
    pub max: usize,
    /// Whether session state follows the client: then the server itself reports that there is no such statement.
    pub follows: bool,
    /// The catalog as it is now.
    pub catalog_version: CatalogVersion,
    /// The counters.
    pub tally: &'a mut Tally,
    /// The client's bytes from the body of its message on, as far as they have come.
    pub behind: &'a [u8],
    /// The bytes to be sent to the server, in order.
    pub out: &'a mut Vec<Bytes>,
}

impl Sides<'_> {
    /// Reads a text to which the client gives this name, and charges the client for it.
    pub(super) fn read(&mut self, name: &[u8], text: &[u8]) -> Result<(Statement, Charge), Fault> {
        let charge = self.statement_registry.charge_name(self.account, name, text, &self.dialect)?;
        let statement = match (self.is_settled, self.exchange.may_step()) {
            (true, true) => self.statement_registry.find_or_add(text, &self.dialect),
            (true, false) => self.statement_registry.add(text, &self.dialect),
            (false, _) => self.statement_registry.add(text, &unsettled(&self.dialect)),
        };
        let statement = statement.ok_or(Fault::StatementsFull)?;
        self.tally.client_parses += 1;
        Ok((statement, charge))
    }
}

/// What happens to the client's own message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It goes to the server as it is, and has not been counted by the exchange.
    AsItIs,
    /// It goes to the server as it is, and has been counted.
    Counted,
    /// It has been replaced, up to this position in its body; what follows goes to the server as it is.
    Replaced(usize),
    /// It waits for what the server answers to what is sent now, and is processed again then.
    Waits,
}

impl ServerStatements {
    /// The server is lent to a client.
    pub fn begin_loan(&mut self) {
        self.loan += 1;
        self.waiting = None;
    }

    /// The number of statements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held.len()
    }

    /// A client sends a message about a named statement. `body_bytes` is the length of the whole body.
    ///
    /// # Errors
    /// The client cannot continue.
    pub fn ask(&mut self, ask: Ask<'_>, body_bytes: usize, sides: &mut Sides<'_>) -> Result<Way, Fault> {
        match ask {
            Ask::Parse { name, text } => self.parse(name, text, sides)?,
            // The server has to answer that.
            Ask::Close { name } if sides.is_by_sql && !sides.names.has(name) => return Ok(Way::AsItIs),
            Ask::Close { name } => self.close(name, sides)?,
            Ask::Describe { name } => {
                let Some(Used { statement, .. }) = self.prepared(name, sides)? else { return Ok(Way::AsItIs) };
                let mut out = Vec::with_capacity(statement.name().len() + 7);
                push_describe(&mut out, statement.name());
                sides.out.push(Bytes::Own(out));
                if sides.exchange.may_step() {
                    let told = sides.names.listener(name);
                    self.expect_description(statement.id(), told, Step::ClientDescribe, sides.exchange);
                } else {
                    sides.exchange.asked(frontend::DESCRIBE);
                }
            }
            Ask::Bind { portal, name, end } => {
                let Some(used) = self.prepared(name, sides)? else { return Ok(Way::AsItIs) };
                let ours = match self.fits(name, &used, portal, body_bytes, sides)? {
                    Fit::Yes => used.statement.name(),
                    Fit::No => {
                        sides.names.has_outdated = true;
                        OUTDATED
                    }
                    Fit::Unknown => return Ok(Way::Waits),
                };
                sides.tally.binds += 1;
                sides.out.push(Bytes::Own(bind_head(portal, ours, (body_bytes, end), &[])));
                sides.exchange.asked(frontend::BIND);
                return Ok(Way::Replaced(end));
            }
        }
        // Answers of our own may have been due at once.
        self.settle(sides.exchange, Some(sides.names));
        Ok(Way::Replaced(body_bytes))
    }

    /// A message with a hidden answer is sent, such as a Parse or a Close of the unnamed statement.
    pub(crate) fn expect_hidden(&mut self, exchange: &mut Exchange) {
        self.pending.push_back(Pending::Hidden);
        exchange.asked_step(Step::Hidden);
    }

    fn parse(&mut self, name: &[u8], text: &[u8], sides: &mut Sides<'_>) -> Result<(), Fault> {
        if name.is_empty() {
            // The new statement replaces the old one; if the Parse is skipped there is none.
            sides.names.remove(name);
        } else if sides.names.has(name) && sides.exchange.may_step() && self.is_giving_own(name) {
            return self.parse_own(name, text, sides);
        } else if sides.names.has(name) {
            return self.parse_twice(name, text, sides);
        } else if sides.is_by_sql && sides.exchange.may_step() {
            return self.parse_own(name, text, sides);
        }
        let (mut statement, charge) = sides.read(name, text)?;
        if self.is_contested(statement.id()) {
            statement = sides.statement_registry.add(text, &sides.dialect).ok_or(Fault::StatementsFull)?;
        }
        let name: Rc<[u8]> = name.into();
        if !sides.exchange.may_step() {
            // It is no longer known which answer belongs to which message, so that we can neither hide nor give one: the
            // server itself answers, under a name that no other client has. It is closed after this loan in any case.
            let told = Shape::default();
            let named = Named { statement: statement.clone(), step: 0, is_reused: false, charge, told };
            sides.names.insert(name, named);
            self.send_parse(&statement, State::Sure, Vec::new(), sides);
            sides.exchange.asked(frontend::PARSE);
            return Ok(());
        }
        let step = self.tick();
        let is_reused = self.is_closing(&name);
        let named = Named { statement: statement.clone(), step, is_reused, charge, told: Shape::default() };
        sides.names.insert(name.clone(), named);
        // A server in a failed transaction would refuse the Parse, so the server has to answer it; and whether it warns of a
        // backslash is known when it has answered the first.
        if sides.exchange.is_in_good_order()
            && self.held.get(&statement.id()).is_some_and(|held| sides.catalog_version.is_like(held.catalog_version))
            && self.has(&statement, 0, sides.exchange.epoch()).is_some()
            && (self.is_confirmed(&statement) || !text.contains(&b'\\'))
        {
            self.has_given = true;
            self.pending.push_back(Pending::Found { step, name });
            sides.exchange.asked_step(Step::Given(backend::PARSE_COMPLETE));
        } else {
            self.prepare(statement, step, Some(name), sides);
        }
        if is_reused {
            sides.names.has_reused(sides.exchange);
        }
        Ok(())
    }

    fn close(&mut self, name: &[u8], sides: &mut Sides<'_>) -> Result<(), Fault> {
        let was = sides.names.remove(name);
        if !sides.exchange.may_step() {
            let mut out = Vec::new();
            let ours = was.as_ref().map_or(name, |was| was.statement.name());
            push_close(&mut out, ours);
            sides.out.push(Bytes::Own(out));
            sides.exchange.asked(frontend::CLOSE);
            was.and_then(|was| self.take(was.statement.id()));
            return Ok(());
        }
        self.pending.push_back(Pending::Dropped { name: name.into(), was });
        sides.exchange.asked_step(Step::Given(backend::CLOSE_COMPLETE));
        Ok(())
    }

    /// What is known of a statement that the server has when it reads what is sent now; if it has, the statement counts as
    /// used. A name depends on the very step that gave it, in whatever epoch that is.
    pub(super) fn has(&mut self, statement: &Statement, named_by: u64, now: u64) -> Option<Shape> {
        let held = self.held.get_mut(&statement.id())?;
        let has = match held.state {
            State::Sure => true,
            State::Sent { step, epoch } => epoch == now || step == named_by,
            State::Doubted | State::Displaced => false,
        };
        if has {
            held.is_used(&mut self.clock, &mut self.by_use);
        }
        has.then_some(held.shape)
    }

    /// The beginning of a Bind under the name that its statement has on the server, in place of the first `end` bytes of a body
    /// of `body_bytes`, and `behind` it. `None`, and nothing is done, unless the server certainly has that statement, and has
    /// described it as its client was told, so that nothing has to be sent before the Bind.
    #[inline]
    pub(crate) fn bind_as_told(
        &mut self,
        names: &Names,
        dialect: &Rc<[u8]>,
        (portal, name): (&[u8], &[u8]),
        (body_bytes, end): (usize, usize),
        behind: &[u8],
    ) -> Option<Vec<u8>> {
        let Named { statement, step: 0, told, .. } = names.named.get(name)? else { return None };
        let own = statement.dialect();
        if self.has_own() || !Rc::ptr_eq(own, dialect) && **own != **dialect {
            return None;
        }
        let held = self.held.get_mut(&statement.id())?;
        if held.state != State::Sure || held.shape != *told || !told.is_known() {
            return None;
        }
        held.is_used(&mut self.clock, &mut self.by_use);
        Some(bind_head(portal, statement.name(), (body_bytes, end), behind))
    }

    /// Whether the client has been given an answer of ours to a Parse since this was asked last.
    pub(crate) fn has_given_parse(&mut self) -> bool {
        std::mem::take(&mut self.has_given)
    }

    /// Sends a statement to the server.
    pub(super) fn prepare(&mut self, statement: Statement, step: u64, name: Option<Rc<[u8]>>, sides: &mut Sides<'_>) {
        let (id, epoch) = (statement.id(), sides.exchange.epoch());
        let mut out = Vec::new();
        let is_left_over = |pending: &Pending| matches!(pending, Pending::Close { id: closed, epoch: sent, .. } if *closed == id && *sent != epoch);
        let is_taken = self.taken.contains(&id);
        if is_taken || self.held.contains_key(&id) || self.pending.iter().any(is_left_over) {
            self.taken.retain(|&taken| taken != id);
            self.send_close(id, statement.name(), sides.exchange, &mut out);
        }
        while self.held.len() >= sides.max
            && let Some((_, &oldest)) = self.by_use.first_key_value()
        {
            self.send_close(oldest, &self.held[&oldest].mark.name(), sides.exchange, &mut out);
        }
        self.send_parse(&statement, until_confirmed(State::Sent { step, epoch }, State::Sure), out, sides);
        let kind = if name.is_some() { Step::Client } else { Step::Hidden };
        self.pending.push_back(Pending::Parse { statement: id, step, name });
        sides.exchange.asked_step(kind);
    }

    /// Sends a Parse behind what is to be sent before it, and notes the statement.
    fn send_parse(&mut self, statement: &Statement, state: State, before: Vec<u8>, sides: &mut Sides<'_>) {
        write_parse(statement, before, sides);
        let used = self.tick();
        let (mark, loan, catalog_version) = (statement.mark(), self.loan, sides.catalog_version);
        self.put(Held { mark, used, state, loan, catalog_version, shape: Shape::default(), born: used });
    }

    fn send_close(&mut self, id: u64, name: &[u8], exchange: &mut Exchange, out: &mut Vec<u8>) {
        push_close(out, name);
        let was = self.take(id);
        self.pending.push_back(Pending::Close { id, epoch: exchange.epoch(), was });
        exchange.asked_step(Step::Hidden);
    }

    /// Notes the outcomes of steps. `names` are those of the client that took the steps, if it is still there.
    pub fn settle(&mut self, exchange: &mut Exchange, mut names: Option<&mut Names>) {
        let mut undone = Vec::new();
        while let Some(outcome) = exchange.outcome() {
            let Some(pending) = self.pending.pop_front() else {
                debug_assert!(false, "an outcome of no step");
                continue;
            };
            match outcome {
                Outcome::Done => self.done(pending, names.as_deref_mut()),
                Outcome::Undone => undone.push(pending),
            }
        }
        for pending in undone.into_iter().rev() {
            self.undo(pending, names.as_deref_mut());
        }
    }

    fn done(&mut self, pending: Pending, names: Option<&mut Names>) {
        if let Pending::Describe(describing) = pending {
            self.describing = Some(describing);
            return;
        }
        match &pending {
            Pending::Parse { statement, step, .. } => {
                if let Some(held) = self.sent_as(*statement, *step) {
                    held.state = State::Sure;
                }
                for twice in self.contests() {
                    if matches!(twice.state, State::Sent { step: sent, .. } if sent == *step) {
                        twice.state = State::Sure;
                    }
                }
            }
            Pending::Own { name, statement, .. } => self.own.done(name, *statement),
            // The server has dropped at least this one without a word, and probably all.
            Pending::Twice(Twice { was: Some(was), .. }) if was.step == 0 => self.doubt(|_| true),
            _ => {}
        }
        if let Pending::Twice(twice) = &pending
            && let Some(held) = twice.contested.and_then(|contested| self.held.get_mut(&contested))
        {
            held.state = State::Displaced;
        }
        let Some(names) = names else { return };
        if let Some((name, step)) = pending.gives() {
            names.settle(name, step);
            // The name may be closed or given again already, and comes back if that is skipped.
            self.dropped_names().flatten().filter(|was| was.step == step).for_each(Named::settle);
        }
    }

    /// The server has sent a notice before the outcome of the next step. If that is a Parse, whoever prepares its statement again
    /// is to be sent the notice, too: the server has to answer.
    pub fn noticed(&mut self) {
        let Some(&Pending::Parse { statement, step, .. }) = self.pending.front() else { return };
        if let Some(held) = self.sent_as(statement, step) {
            held.catalog_version = CatalogVersion::NEVER;
        }
    }

    fn undo(&mut self, pending: Pending, names: Option<&mut Names>) {
        match &pending {
            Pending::Parse { statement, step, .. } => self.never_sent(*statement, *step),
            Pending::Own { name, step, .. } => self.own.undone(name, *step),
            Pending::Describe(_) => self.parameters = None,
            _ => {}
        }
        if let Pending::Close { id, was: Some(was), .. } = pending {
            return self.never_closed(id, was);
        }
        if let Pending::Twice(twice) = pending {
            return self.refused_again(twice, names);
        }
        let Some(names) = names else { return };
        if let Some((name, step)) = pending.gives() {
            // A Close that is on its way must not bring back a name that was never given.
            for was in self.dropped_names() {
                was.take_if(|was| was.step == step);
            }
            names.fail(name.clone(), step);
            return;
        }
        if let Pending::Dropped { name, was: Some(still) } = pending {
            // The name is still there, or there for another Close of it that is on its way, unless it has been given again.
            match self.next_of(&name) {
                Some(Pending::Dropped { was, .. }) => *was = Some(still),
                Some(_) => {}
                None => names.restore(name, still),
            }
        }
    }

    /// The next step on its way that closes or gives this name.
    pub(super) fn next_of(&mut self, name: &Rc<[u8]>) -> Option<&mut Pending> {
        self.pending.iter_mut().find(|later| match later {
            Pending::Dropped { name: other, .. } => other == name,
            later => later.gives().is_some_and(|(other, _)| other == name),
        })
    }

    /// What the names meant that are closed, or given again, by what is on its way.
    fn dropped_names(&mut self) -> impl Iterator<Item = &mut Option<Named>> {
        self.pending.iter_mut().filter_map(|pending| match pending {
            Pending::Dropped { was, .. } | Pending::Twice(Twice { was, .. }) => Some(was),
            _ => None,
        })
    }

    /// Returns the statement that was sent as this step: it is held, or is being closed.
    fn sent_as(&mut self, id: u64, step: u64) -> Option<&mut Held> {
        let closing =
            closing(&mut self.pending).filter(|(closed, _)| *closed == id).filter_map(|(_, was)| was.as_mut());
        self.held.get_mut(&id).into_iter().chain(closing).find(|held| held.is_sent_as(step))
    }

    /// The statement that was sent as this step was never prepared.
    fn never_sent(&mut self, id: u64, step: u64) {
        if self.held.get(&id).is_some_and(|held| held.is_sent_as(step)) {
            self.take(id);
        }
        for (_, was) in closing(&mut self.pending) {
            was.take_if(|was| was.is_sent_as(step));
        }
    }

    /// A statement that was to be closed is still there, or there for another Close that is on its way.
    fn never_closed(&mut self, id: u64, still: Held) {
        let next = closing(&mut self.pending).find(|(other, _)| *other == id);
        match next {
            Some((_, was)) => *was = Some(still),
            None if self.held.contains_key(&id) => {}
            None => self.put(still),
        }
    }

    /// The server has dropped all statements: on behalf of a client, if `names` are given, or on ours.
    pub fn drop_all(&mut self, names: Option<&mut Names>) {
        // A Parse that was sent since is still to come.
        let sent = self.pending.iter().filter_map(|pending| match pending {
            Pending::Parse { statement, .. } => Some(*statement),
            Pending::Twice(twice) => twice.contested,
            _ => None,
        });
        let sent: Vec<u64> = sent.collect();
        self.contests().for_each(|twice| twice.state = State::Doubted);
        let by_use = &mut self.by_use;
        self.held.retain(|id, held| outlives_discard(sent.contains(id)) || by_use.remove(&held.used).is_none());
        self.taken.clear();
        for (id, was) in closing(&mut self.pending) {
            was.take_if(|was| was.state == State::Sure || !sent.contains(&id));
        }
        if names.is_some() {
            for was in self.dropped_names() {
                was.take_if(|was| was.step == 0);
            }
        }
        // They are closed all the same before another client comes, because more may have been sent since.
        self.doubt_own();
        if let Some(names) = names {
            names.drop_settled();
        }
    }

    pub(super) fn put(&mut self, held: Held) {
        let (id, used) = (held.mark.id(), held.used);
        self.by_use.insert(used, id);
        self.held.insert(id, held);
    }

    fn take(&mut self, id: u64) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.by_use.remove(&held.used);
        Some(held)
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

/// The statements that are being closed, each with its number; `None` where it is not there any more.
pub(super) fn closing(pending: &mut VecDeque<Pending>) -> impl Iterator<Item = (u64, &mut Option<Held>)> {
    pending.iter_mut().filter_map(|pending| match pending {
        Pending::Close { id, was, .. } => Some((*id, was)),
        _ => None,
    })
}

/// Writes a Parse behind what is to be sent before it.
fn write_parse(statement: &Statement, out: Vec<u8>, sides: &mut Sides<'_>) {
    write_parse_as(statement.name(), statement, out, sides);
}

/// Writes a Parse of a statement under this name, behind what is to be sent before it.
pub(super) fn write_parse_as(name: &[u8], statement: &Statement, mut out: Vec<u8>, sides: &mut Sides<'_>) {
    let text = statement.text();
    out.push(frontend::PARSE);
    out.extend_from_slice(&((4 + name.len() + 1 + text.len()) as u32).to_be_bytes());
    push_name(&mut out, name);
    if text.len() <= COPIED_BYTES_MAX {
        out.extend_from_slice(text);
        sides.out.push(Bytes::Own(out));
    } else {
        sides.out.extend([Bytes::Own(out), Bytes::Shared(text.clone())]);
    }
    sides.tally.server_parses += 1;
}

/// A table may be changed without us: a statement prepared this long ago is prepared again for the next client that prepares it.
const UNSEEN_MAX: Duration = Duration::from_secs(30);
/// A longer text is sent from where it is kept.
const COPIED_BYTES_MAX: usize = 1024;
