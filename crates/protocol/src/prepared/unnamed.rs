//! The unnamed statement: a server keeps the one that was given last, by whichever client, for whichever client comes next.
//!
//! Always true: the unnamed statement that a client binds or describes is the one that PostgreSQL would have after all that
//! this client has sent, whatever of it has failed or was skipped, or none; there is none where it could not be kept.
//! Not here: named statements (`server_statements`), which messages an error skips (`exchange`).
//!
//! A Parse destroys the statement before it, even if it fails itself; so do a Close and a Query; what the server skips, or
//! cannot convert from the client's encoding, destroys nothing (`exec_parse_message` and `drop_unnamed_stmt` in PostgreSQL's
//! `tcop/postgres.c`). The end of a transaction does not destroy it.

use std::ops::RangeInclusive;
use std::rc::Rc;

use route::Class;
use serde::{Deserialize, Serialize};
use wire::frame::HEADER_BYTES;
use wire::frontend;

use super::account::{Account, Charge};
use super::names::Named;
use super::registry::{StatementRegistry, has_literals};
use super::server_statements::{ServerStatements, Sides};
use super::shape::Shape;
use super::statement::Statement;
use super::{Bytes, Tally};
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::pack::Packed;
use crate::planted::is_there;
use crate::vars::{Tracked, Vars, changes_of_dialect};

/// The unnamed statement of one client. It takes memory only from the first one that the client gives.
#[derive(Debug, Default)]
pub struct Unnamed(Option<Box<UnnamedHistory>>);

/// What a client has given as its unnamed statement.
#[derive(Debug, Default)]
struct UnnamedHistory {
    /// What the client has given, in order: the last is in force, and the others come back if the server skips those behind
    /// them.
    given: Vec<Given>,
    /// The Parses of all of these, one behind another.
    texts: Vec<u8>,
    charge: Option<Charge>,
    /// The first and the last message of this loan that have made the client's statement that of the server.
    brought: Option<(Place, Place)>,
}

/// A message that has replaced or destroyed the statement.
#[derive(Debug)]
struct Given {
    place: Place,
    /// Where its Parse ends among the texts. It begins where the one before it ends; there is no statement if that is here.
    end: usize,
    /// There is a Parse, and all of its body is ASCII.
    is_ascii: bool,
    reading: Option<UnnamedReading>,
}

/// How the Parse of an unnamed statement is read.
#[derive(Clone, Debug)]
pub struct UnnamedReading {
    /// The parameters of its client; `None` if an unanswered message may have changed them.
    pub vars: Option<Rc<Vars>>,
    /// What the statement does, if that is of interest to the session state.
    pub class: Option<Rc<Class>>,
    /// The statement as which it is sent, if it is treated as a named one.
    pub statement: Option<Statement>,
}

/// The place of a message among those that were sent to its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Place {
    /// Its number; 0 if it was sent in an earlier loan.
    number: u64,
    epoch: u64,
}

/// [`Unnamed`], on its way to another process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PackedUnnamed {
    /// The statement in force.
    kept: Option<Packed>,
    /// All that the client has given.
    #[serde(default)]
    all: Vec<(Place, Packed)>,
    #[serde(default)]
    brought: Option<(Place, Place)>,
}

/// The commands that a server is sent before and behind a Parse.
type Changes = (Vec<String>, Vec<String>);

impl Unnamed {
    /// The client is lent a server to which it has given no statement. All that it has sent to another has been answered.
    pub fn begin_loan(&mut self) {
        let Some(history) = &mut self.0 else { return };
        history.brought = None;
        if history.given.len() > 1 {
            history.forget_first(history.given.len() - 1);
        }
        if let Some(last) = history.given.last_mut() {
            last.place = EARLIER;
        }
    }

    /// The client gives a statement with the Parse that is sent now; `parse` is `None` if not all of it can be kept.
    pub fn prepares(
        &mut self,
        parse: Option<[&[u8]; 2]>,
        reading: UnnamedReading,
        exchange: &Exchange,
        account: &Account,
        statement_registry: &mut StatementRegistry,
    ) {
        let history = self.0.get_or_insert_default();
        let is_again = history.is_again(parse) && !exchange.wants_sync();
        match history.given.last_mut().filter(|_| is_again) {
            Some(given) => (given.place, given.reading) = (Place::next(exchange), Some(reading)),
            None => {
                history.destroys(is_convertible(parse), exchange);
                history.give(Place::next(exchange), parse, reading, account, statement_registry);
            }
        }
        history.brings(exchange);
    }

    /// The client has just given a statement, or closed it where `parse` is `None`, with a message that was sent to the server
    /// under a name, or that we answer: the server has no unnamed statement of the client, or an earlier one.
    pub fn has_sent_renamed(
        &mut self,
        parse: Option<[&[u8]; 2]>,
        reading: UnnamedReading,
        exchange: &Exchange,
        account: &Account,
        statement_registry: &mut StatementRegistry,
    ) {
        let history = self.0.get_or_insert_default();
        history.destroys(is_convertible(parse), exchange);
        let place = Place { number: exchange.number() - 1, epoch: exchange.epoch() };
        history.give(place, parse, reading, account, statement_registry);
        history.brought = None;
    }

    /// The client closes the statement with the message that is sent now.
    pub fn closes(&mut self, exchange: &Exchange) {
        let history = self.0.get_or_insert_default();
        history.is_destroyed(true, exchange);
        history.brings(exchange);
    }

    /// The client has closed the statement while it had no server, so that all its messages have been answered.
    pub fn is_closed(&mut self) {
        self.0 = None;
    }

    /// The client destroys the statement with the Query that is sent now, unless that cannot be converted, which no text
    /// fails to be that `is_ascii`.
    pub fn queries(&mut self, is_ascii: bool, exchange: &Exchange) {
        if let Some(history) = &mut self.0 {
            history.is_destroyed(is_ascii, exchange);
        }
    }

    /// The server has failed at the first and skipped the others of the messages of these numbers; `is_unread`: it could not
    /// even convert the first, which so has destroyed nothing. Returns whether they have given a statement, so that another one
    /// is in force.
    pub fn fails(&mut self, failure: &RangeInclusive<u64>, is_unread: bool) -> bool {
        let Some(history) = &mut self.0 else { return false };
        let is_hit = |place: Place| failure.contains(&place.number);
        // The unnamed statement of another client may still be there.
        history.brought = match history.brought {
            Some((first, last)) if is_hit(first) => (!is_hit(last)).then_some((last, last)),
            Some((first, last)) if is_hit(last) => Some((first, first)),
            brought => brought,
        };
        if !history.given.iter().any(|given| is_hit(given.place)) {
            return false;
        }
        let (given, texts) = (std::mem::take(&mut history.given), std::mem::take(&mut history.texts));
        let mut start = 0;
        for mut given in given {
            let text = start..given.end;
            start = given.end;
            let has_failed = !is_unread && given.place.number == *failure.start();
            if is_hit(given.place) && !has_failed {
                continue;
            }
            history.texts.extend_from_slice(if has_failed { &[] } else { &texts[text] });
            given.end = history.texts.len();
            given.is_ascii &= !has_failed;
            history.given.push(given);
        }
        true
    }

    /// What the statement in force does, if that is of interest to the session state.
    #[must_use]
    pub fn class(&self) -> Option<&Rc<Class>> {
        self.0.as_ref()?.given.last()?.reading.as_ref()?.class.as_ref()
    }

    /// Whether the client has given a statement, or destroyed it, on its server or before.
    #[inline]
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.0.as_ref().is_some_and(|history| !history.given.is_empty())
    }

    /// Whether it is unknown which statement is in force, until an earlier batch has been answered.
    #[inline]
    #[must_use]
    pub fn is_in_doubt(&self, exchange: &Exchange) -> bool {
        let Some(history) = &self.0 else { return false };
        match history.given.last() {
            Some(Given { place, .. }) if place.epoch != exchange.epoch() && *place != EARLIER => {
                exchange.may_step() && place.number >= exchange.unanswered()
            }
            _ => false,
        }
    }

    /// The client binds or describes the statement: appends what the server must be sent first, if it may have another one.
    ///
    /// # Errors
    /// No answer can be hidden now.
    pub fn bring(
        &mut self,
        (vars, tracked): (&Rc<Vars>, &Tracked),
        server_statements: &mut ServerStatements,
        exchange: &mut Exchange,
        tally: &mut Tally,
        out: &mut Vec<Bytes>,
    ) -> Result<(), Fault> {
        let history = self.0.get_or_insert_default();
        if is_there(history.is_here(exchange)) {
            return Ok(());
        }
        if !exchange.may_step() {
            return Err(Fault::StatementUnknown { name: Box::default() });
        }
        // The server itself reports that there is none.
        let (parse, (before, after)) = history.reading(vars, tracked).unwrap_or((&CLOSE, Default::default()));
        tally.server_parses += u64::from(parse[0] == frontend::PARSE);
        let parse = Bytes::Own(parse.to_vec());
        server_statements.set_by_the_way(&before, exchange, out);
        out.push(parse);
        history.brings(exchange);
        server_statements.expect_hidden(exchange);
        server_statements.set_by_the_way(&after, exchange, out);
        Ok(())
    }

    /// Packs it for another process, where its client has these parameters.
    #[must_use]
    pub fn pack(&self, vars: &Rc<Vars>) -> PackedUnnamed {
        let Some(history) = &self.0 else { return PackedUnnamed::default() };
        let mut start = 0;
        let pack = |given: &Given| {
            let text = &history.texts[std::mem::replace(&mut start, given.end)..given.end];
            let given_under = given.reading.as_ref().and_then(|reading| reading.vars.as_ref());
            let is_same = given_under.is_none_or(|given| Rc::ptr_eq(given, vars));
            let is_kept = is_same || !has_literals(of_parse(text));
            (given.place, Packed::from(if is_kept { text } else { &[] }))
        };
        PackedUnnamed { kept: None, all: history.given.iter().map(pack).collect(), brought: history.brought }
    }

    /// Unpacks it from another process.
    #[must_use]
    pub fn unpack(
        packed: PackedUnnamed,
        vars: &Rc<Vars>,
        account: &Account,
        statement_registry: &mut StatementRegistry,
    ) -> Self {
        if packed.kept.is_none() && packed.all.is_empty() && packed.brought.is_none() {
            return Self::default();
        }
        let mut history = UnnamedHistory { brought: packed.brought, ..UnnamedHistory::default() };
        let kept = packed.kept.map(|kept| (EARLIER, kept));
        for (place, Packed(parse)) in kept.into_iter().chain(packed.all) {
            // The statements of a client that comes from another process count as unread.
            let reading = UnnamedReading { vars: Some(vars.clone()), class: None, statement: None };
            history.give(place, Some([&parse, &[]]), reading, account, statement_registry);
        }
        Self(Some(Box::new(history)))
    }

    /// Whether the statement in force has this text, with its zero byte and the types of its parameters.
    #[must_use]
    pub fn is(&self, text: &[u8]) -> bool {
        self.0.as_ref().and_then(|history| history.last()).is_some_and(|(_, parse)| of_parse(parse) == text)
    }

    /// The statement in force, if it was sent as a named one and the server has another unnamed one.
    #[must_use]
    pub fn sent_renamed(&self, exchange: &Exchange) -> Option<&Statement> {
        let history = self.0.as_ref()?;
        let reading = history.given.last()?.reading.as_ref()?;
        reading.statement.as_ref().filter(|_| !history.is_here(exchange))
    }
}

impl UnnamedHistory {
    /// The Parse of the statement in force, and the commands before and behind it by which it is read as its client has given
    /// it, since PostgreSQL reads literals once (`names::dialect_meant`). `None` if there is no statement, or no such commands.
    fn reading(&self, vars: &Rc<Vars>, tracked: &Tracked) -> Option<(&[u8], Changes)> {
        let (given, parse) = self.last()?;
        let Some(given) = given else { return Some((parse, Default::default())) };
        if Rc::ptr_eq(given, vars) || given.read_alike(vars, tracked) || !has_literals(of_parse(parse)) {
            return Some((parse, Default::default()));
        }
        let (given, now) = (given.dialect(tracked), vars.dialect(tracked));
        let changes = |from: &[u8], to: &[u8]| changes_of_dialect(from, to, tracked);
        Some((parse, (changes(&now, &given)?, changes(&given, &now)?)))
    }

    /// The parameters and the Parse of the statement in force.
    fn last(&self) -> Option<(Option<&Rc<Vars>>, &[u8])> {
        let (last, earlier) = self.given.split_last()?;
        let parse = &self.texts[earlier.last().map_or(0, |before| before.end)..last.end];
        last.reading.as_ref().filter(|_| !parse.is_empty()).map(|reading| (reading.vars.as_ref(), parse))
    }

    /// Whether the server has the client's statement, or none where the client has none, when it reads what is sent now: an
    /// error skips both that and what has brought it there, or the server has answered the latter.
    fn is_here(&self, exchange: &Exchange) -> bool {
        self.brought.is_some_and(|(first, last)| {
            last.epoch == exchange.epoch()
                || exchange.may_step()
                    && first.number < exchange.unanswered()
                    && !exchange.has_asked_ours_since(first.number)
        })
    }

    /// Whether a Parse is that of the only statement, and can be converted from any encoding, so that it leaves what is kept.
    fn is_again(&self, parse: Option<[&[u8]; 2]>) -> bool {
        let [Given { is_ascii: true, .. }] = &self.given[..] else { return false };
        if self.is_wasteful(self.texts.len()) {
            return false;
        }
        let kept = self.texts.split_at_checked(HEADER_BYTES);
        parse.zip(kept).is_some_and(|([header, body], kept)| header == kept.0 && body == kept.1)
    }

    /// What is sent now makes the client's statement that of the server.
    fn brings(&mut self, exchange: &Exchange) {
        let place = Place::next(exchange);
        let before = self.brought.filter(|(first, _)| !exchange.has_asked_ours_since(first.number));
        self.brought = Some((before.map_or(place, |(first, _)| first), place));
    }

    /// A statement is given at this place, and kept if there is room for it.
    fn give(
        &mut self,
        place: Place,
        parse: Option<[&[u8]; 2]>,
        reading: UnnamedReading,
        account: &Account,
        statement_registry: &mut StatementRegistry,
    ) {
        if let Some([header, body]) = parse
            && self.make_room(header.len() + body.len(), account, statement_registry)
        {
            self.texts.extend_from_slice(header);
            self.texts.extend_from_slice(body);
        }
        let text = &self.texts[self.given.last().map_or(0, |before| before.end)..];
        let is_ascii = text.get(HEADER_BYTES..).is_some_and(<[u8]>::is_ascii);
        self.given.push(Given { place, end: self.texts.len(), is_ascii, reading: Some(reading) });
    }

    /// A message leaves no statement, unless the server skips it.
    fn is_destroyed(&mut self, is_ascii: bool, exchange: &Exchange) {
        self.destroys(|| is_ascii, exchange);
        if !self.given.is_empty() {
            let (place, end) = (Place::next(exchange), self.texts.len());
            self.given.push(Given { place, end, is_ascii: false, reading: None });
        }
    }

    /// A message destroys the statement, unless the server skips it, or cannot convert it. Forgets what cannot come back.
    fn destroys(&mut self, is_convertible: impl FnOnce() -> bool, exchange: &Exchange) {
        if self.given.is_empty() {
            return;
        }
        if !exchange.wants_sync() && is_convertible() {
            self.given.clear();
            self.texts.clear();
        } else {
            self.forget_settled(exchange);
        }
    }

    /// Forgets the statements of this batch that cannot come back.
    #[cold]
    fn forget_settled(&mut self, exchange: &Exchange) {
        let unanswered = exchange.unanswered();
        let settled = self.given.iter().rposition(|given| given.place.number < unanswered);
        let count = if exchange.may_step() { settled.unwrap_or(0) } else { 0 };
        // Of very many, the first do not come back.
        self.forget_first(count.max((self.given.len() + 1).saturating_sub(GIVEN_MAX)));
    }

    fn forget_first(&mut self, count: usize) {
        let Some(last) = count.checked_sub(1) else { return };
        let bytes = self.given[last].end;
        self.given.drain(..count);
        self.given.iter_mut().for_each(|given| given.end -= bytes);
        self.texts.drain(..bytes);
    }

    /// Whether there is room for a text of this length behind the others. Together with a long one no others are kept.
    fn make_room(&mut self, bytes: usize, account: &Account, statement_registry: &mut StatementRegistry) -> bool {
        let is_wasteful = self.texts.is_empty() && self.is_wasteful(bytes);
        if self.texts.len() + bytes <= self.texts.capacity() && !is_wasteful {
            return true;
        }
        self.make_more_room(bytes, is_wasteful, account, statement_registry)
    }

    /// Whether too much room is kept for so many bytes.
    fn is_wasteful(&self, bytes: usize) -> bool {
        let capacity = self.texts.capacity();
        capacity > SPARE_BYTES_MAX && bytes < capacity / 4
    }

    #[cold]
    fn make_more_room(
        &mut self,
        bytes: usize,
        is_wasteful: bool,
        account: &Account,
        statement_registry: &mut StatementRegistry,
    ) -> bool {
        if is_wasteful || self.texts.len() + bytes > TEXTS_BYTES_MAX {
            self.forget_first(self.given.len());
            self.texts = Vec::new();
        }
        // What is held is charged anew.
        self.charge = None;
        let (capacity, wanted) = (self.texts.capacity(), self.texts.len() + bytes);
        let charge = |bytes: usize| statement_registry.charge(account, bytes).ok();
        let grown = charge(wanted.max(2 * capacity)).or_else(|| charge(wanted));
        let has_room = grown.is_some();
        if let Some(grown) = &grown {
            self.texts.reserve_exact(grown.bytes() - self.texts.len());
        }
        // A client that gives more than can be kept is told that there is no statement when it uses it in a later batch.
        self.charge = grown.or_else(|| charge(capacity));
        has_room
    }
}

impl ServerStatements {
    /// The unnamed statement is this one again, since what came behind it was skipped. If the server has it, it is treated as a
    /// named one again; returns whether it is.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn names_again(&mut self, statement: Statement, sides: &mut Sides<'_>) -> Result<bool, Fault> {
        let has = self.has(&statement, 0, sides.exchange.epoch()).is_some() || self.is_kept(&statement, sides.exchange);
        if has {
            let (text, dialect) = (statement.text(), statement.dialect());
            let charge = sides.statement_registry.charge_name(sides.account, b"", text, dialect)?;
            let named = Named { statement, step: 0, is_reused: false, charge, told: Shape::default() };
            sides.names.insert(Rc::default(), named);
        }
        Ok(has)
    }
}

/// Whether a Parse can be converted from any encoding of its client: all of it is known, and ASCII.
fn is_convertible(parse: Option<[&[u8]; 2]>) -> impl FnOnce() -> bool {
    move || parse.is_some_and(|[_, body]| body.is_ascii())
}

impl Place {
    /// The place of the message that is sent next.
    fn next(exchange: &Exchange) -> Self {
        Self { number: exchange.number(), epoch: exchange.epoch() }
    }
}

/// The text of a Parse without a name, and what follows it.
fn of_parse(parse: &[u8]) -> &[u8] {
    parse.get(HEADER_BYTES + 1..).unwrap_or_default()
}

/// The place of what was sent to another server.
const EARLIER: Place = Place { number: 0, epoch: 0 };
/// How many statements of one batch may come back.
const GIVEN_MAX: usize = 16;
/// How many bytes they may have together with the last one, unless that is longer by itself.
const TEXTS_BYTES_MAX: usize = 1 << 20;
/// So much room is kept for the next text, however short that is.
const SPARE_BYTES_MAX: usize = 8192;

/// A Close of the unnamed statement.
const CLOSE: [u8; 7] = [frontend::CLOSE, 0, 0, 0, 6, b'S', 0];

#[cfg(test)]
#[path = "unnamed_tests.rs"]
mod tests;
