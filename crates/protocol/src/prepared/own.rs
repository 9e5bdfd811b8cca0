//! Statements that a server has under the very names that its client has given them, because SQL texts mention these
//! names: `EXECUTE`, `DEALLOCATE`, `PREPARE` and `EXPLAIN` share one name space with the protocol.
//!
//! Always true: a statement that may be there is known here until it has been closed, and it is closed before the server
//! has another client; names that the client has given by SQL are not among them.
//! Not here: which texts mention which names (crate `route`), the statements that clients share (`server_statements`).

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use wire::{frontend, write};

use super::messages::{push_close, push_name};
use super::names::{Named, Names};
use super::server_statements::{Pending, ServerStatements, Sides, State, Twice};
use super::shape::Shape;
use super::statement::Statement;
use super::{Ask, Bytes};
use crate::exchange::{Exchange, Step};
use crate::fault::Fault;

/// The statements of this kind that one server has.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) names: BTreeMap<Rc<[u8]>, Held>,
    /// Names that the client drops by SQL, in order, each with how many `ReadyForQuery` come before the answer to that.
    dropping: VecDeque<(usize, Rc<[u8]>)>,
}

/// The statement under a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The number of the statement; `None` where it has been closed.
    statement: Option<u64>,
    /// The epoch in which it was sent; `None` where its outcome is unknown.
    epoch: Option<u64>,
    /// The step by which the client has given the name, where the server has to tell whether the client has that name by
    /// SQL; otherwise 0.
    step: u64,
}

impl Held {
    /// A statement that may or may not be there.
    pub(super) const DOUBTED: Self = Self { statement: None, epoch: None, step: 0 };
}

/// What a text does with the statements whose names it mentions.
#[derive(Debug)]
pub struct MentionedNames<'a> {
    /// All names that it mentions.
    pub names: Vec<&'a str>,
    /// The names that it drops, if it is executed.
    pub drops: Vec<&'a str>,
    /// It is a simple query: an error before it must not make the server skip it.
    pub is_query: bool,
}

impl Own {
    /// The server has executed what it was sent.
    pub(super) fn done(&mut self, name: &Rc<[u8]>, statement: Option<u64>) {
        match statement {
            // A statement given under this name before may have been refused meanwhile.
            Some(_) => drop(self.names.entry(name.clone()).or_insert(Held { statement, epoch: None, step: 0 })),
            // Unless more has been sent since.
            None if self.names.get(name).is_some_and(|held| held.statement.is_none()) => drop(self.names.remove(name)),
            None => {}
        }
    }

    /// The server has not executed it: what was there before is there. Where its client was to give the name by this
    /// `step`, that is no statement of the protocol, unless more has been sent since.
    pub(super) fn undone(&mut self, name: &Rc<[u8]>, step: u64) {
        if step == 0 {
            self.names.entry(name.clone()).or_insert(Held::DOUBTED).epoch = None;
            return;
        }
        if self.names.get(name).is_some_and(|held| held.step == step) {
            self.names.remove(name);
        }
    }

    /// The server has not executed the step by which its client was to give a name that it had given already. `is_known`: the
    /// client has the name by the protocol, unless it is not given any more.
    pub(super) fn refused_again(&mut self, name: &Rc<[u8]>, step: u64, is_known: bool) {
        match self.names.get_mut(name).filter(|held| held.step == step) {
            Some(held) if is_known => *held = Held::DOUBTED,
            Some(_) => drop(self.names.remove(name)),
            None => {}
        }
    }
}

impl ServerStatements {
    /// Whether the server may have statements under names of its client.
    #[must_use]
    pub fn has_own(&self) -> bool {
        !self.own.names.is_empty()
    }

    /// Whether it may be given one more.
    #[must_use]
    pub fn has_room_for_own(&self) -> bool {
        self.own.names.len() < OWN_MAX
    }

    /// It is unknown from now on which of these the server has.
    pub fn doubt_own(&mut self) {
        self.own.names.values_mut().for_each(|held| held.epoch = None);
    }

    /// Closes all of these, before the server has another client.
    pub fn close_own(&mut self, exchange: &mut Exchange, out: &mut Vec<u8>) {
        for (name, _) in std::mem::take(&mut self.own.names) {
            push_close(out, &name);
        }
        self.own.dropping.clear();
        write::bare(out, frontend::SYNC);
        exchange.asks_ours();
    }

    /// A client is about to send a text: appends what the server must be sent first, so that the names in the text mean
    /// there what they mean to the client.
    pub fn bring_own(
        &mut self,
        mentioned: &MentionedNames<'_>,
        names: &Names,
        exchange: &mut Exchange,
        out: &mut Vec<u8>,
    ) {
        if !exchange.may_step() || !exchange.is_proven() {
            return;
        }
        // What is sent outside a batch of the client is ended by a Sync of ours. In the middle of such a batch, the Sync
        // would end it.
        let is_alone = mentioned.is_query && !exchange.wants_sync();
        for name in &mentioned.names {
            self.bring(name.as_bytes(), names, is_alone, exchange, out);
        }
        if is_alone && !out.is_empty() {
            write::bare(out, frontend::SYNC);
            exchange.asks_ours();
        }
        let is_followed = mentioned.drops.len() + self.own.dropping.len() < OWN_MAX;
        if is_followed && mentioned.drops.iter().any(|name| names.has(name.as_bytes())) {
            let before = exchange.count_ready();
            self.own.dropping.extend(mentioned.drops.iter().map(|name| (before, name.as_bytes().into())));
        }
    }

    /// A message that mentions a name goes to the server as it is: sends what must come first, if the server has a
    /// statement under that name that its client does not have any more.
    pub(super) fn clear_own(&mut self, name: &[u8], sides: &mut Sides<'_>) {
        if self.own.names.contains_key(name) && sides.exchange.may_step() {
            let mut out = Vec::new();
            self.bring(name, sides.names, false, sides.exchange, &mut out);
            if !out.is_empty() {
                sides.out.push(Bytes::Own(out));
            }
        }
    }

    fn bring(&mut self, name: &[u8], names: &Names, is_alone: bool, exchange: &mut Exchange, out: &mut Vec<u8>) {
        let (wanted, named_by) = match names.named.get(name) {
            Some(named) => (Some(named.statement.clone()), named.named_by()),
            None => (None, 0),
        };
        let id = wanted.as_ref().map(|wanted| wanted.id());
        let epoch = exchange.epoch();
        let is_there = match self.own.names.get(name) {
            Some(held) => {
                let is_known = held.epoch.is_some_and(|sent| sent == epoch || exchange.owes_nothing());
                held.statement == id && (is_known || self.gives_own(name, named_by, epoch))
            }
            None => id.is_none() || self.own.names.len() >= OWN_MAX,
        };
        if is_there {
            return;
        }
        let name: Rc<[u8]> = name.into();
        // Closing what is not there is no error.
        push_close(out, &name);
        if !is_alone {
            self.own_step(&name, None, exchange);
        }
        if let Some(statement) = wanted {
            push_parse(out, &name, &statement);
            if !is_alone {
                self.own_step(&name, id, exchange);
            }
        } else if is_alone {
            self.own.names.remove(&name);
            return;
        }
        self.own.names.insert(name, Held { statement: id, epoch: Some(epoch), step: 0 });
    }

    /// Whether the client is giving a name of which the server has to tell whether the client has it by SQL, and either
    /// the name depends on that step (`named_by`) or what is sent now is skipped with it.
    pub(super) fn gives_own(&self, given: &[u8], named_by: u64, now: u64) -> bool {
        let falls = named_by != 0 || self.own.names.get(given).is_some_and(|held| held.epoch == Some(now));
        falls && self.is_giving_own(given)
    }

    /// Whether the client is giving a name under that very name.
    pub(super) fn is_giving_own(&self, given: &[u8]) -> bool {
        self.pending.iter().any(|pending| match pending {
            Pending::Own { name, step: 1.., .. } | Pending::Twice(Twice { name, contested: None, .. }) => {
                **name == *given
            }
            _ => false,
        })
    }

    /// Whether a client has closed a name that it had given, and that Close may still be skipped.
    pub(super) fn is_closing(&self, name: &[u8]) -> bool {
        let is_it = |p: &Pending| matches!(p, Pending::Dropped { name: closed, was: Some(_) } if **closed == *name);
        self.pending.iter().any(is_it)
    }

    fn own_step(&mut self, name: &Rc<[u8]>, statement: Option<u64>, exchange: &mut Exchange) {
        self.pending.push_back(Pending::Own { name: name.clone(), statement, step: 0 });
        exchange.asked_step(Step::Hidden);
    }

    /// A client gives a name that it may have given by SQL: the server has to tell whether that is so. It may have given the
    /// name in this way already, and not have been answered.
    pub(super) fn parse_own(&mut self, name: &[u8], text: &[u8], sides: &mut Sides<'_>) -> Result<(), Fault> {
        let (statement, charge) = sides.read(name, text)?;
        if !sides.names.has(name) {
            // The client may have given the name before, and closed it.
            self.clear_own(name, sides);
        }
        let is_reused = self.is_closing(name);
        let (name, step, id): (Rc<[u8]>, _, _) = (name.into(), self.tick(), statement.id());
        let mut out = Vec::new();
        push_parse(&mut out, &name, &statement);
        sides.out.push(Bytes::Own(out));
        let named = Named { statement, step, is_reused, charge, told: Shape::default() };
        let was = sides.names.insert(name.clone(), named);
        self.own.names.insert(name.clone(), Held { statement: Some(id), epoch: Some(sides.exchange.epoch()), step });
        self.pending.push_back(match was {
            None => Pending::Own { name, statement: Some(id), step },
            was => Pending::Twice(Twice { name, step, contested: None, state: State::Doubted, was }),
        });
        sides.exchange.asked_step(Step::Client);
        if is_reused {
            sides.names.has_reused(sides.exchange);
        }
        Ok(())
    }

    /// The server has dropped a statement by SQL: drops the client's name, if it was a statement of the protocol.
    pub fn dropped(&mut self, names: Option<&mut Names>) {
        if self.own.dropping.front().is_none_or(|(before, _)| *before > 0) {
            return;
        }
        let Some((_, name)) = self.own.dropping.pop_front() else { return };
        if names.is_some_and(|names| names.deallocate(&name)) {
            self.own.names.remove(&name);
        }
    }

    /// The server is ready: what it was to drop and has not dropped by now stays.
    pub fn drops_end(&mut self) {
        self.own.dropping.retain(|(before, _)| *before > 0);
        self.own.dropping.iter_mut().for_each(|(before, _)| *before -= 1);
    }
}

impl Ask<'_> {
    /// The name of the statement.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Parse { name, .. } | Self::Bind { name, .. } | Self::Describe { name } | Self::Close { name } => name,
        }
    }
}

/// Writes a Parse under a name that is not ours.
fn push_parse(out: &mut Vec<u8>, name: &[u8], statement: &Statement) {
    write::message(out, frontend::PARSE, |out| {
        push_name(out, name);
        out.extend_from_slice(statement.text());
    });
}

/// How many of these a server has at most; further names are unknown to it.
const OWN_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use wire::backend::{self, TxStatus};
    use wire::frame::{Scanner, Step as Next};

    use super::super::{Account, CatalogVersion, StatementRegistry, Tally};
    use super::*;
    use crate::vars::Tracked;

    struct Stage {
        names: Names,
        server_statements: ServerStatements,
        exchange: Exchange,
        statement_registry: StatementRegistry,
    }

    impl Stage {
        fn new() -> Self {
            let (names, server_statements, exchange) =
                (Names::default(), ServerStatements::default(), Exchange::default());
            Self { names, server_statements, exchange, statement_registry: StatementRegistry::new(1, 1) }
        }

        fn has(&mut self, name: &str, text: &str) {
            let text = [text.as_bytes(), &[0, 0, 0]].concat();
            let statement = self.statement_registry.find_or_add(&text, &Rc::from(&b""[..])).expect("room");
            let charge = self.statement_registry.charge_all(1).expect("room");
            let named = Named { statement, step: 0, is_reused: false, charge, told: Shape::default() };
            self.names.insert(name.as_bytes().into(), named);
        }

        /// The kinds of the messages that go before a text that mentions these names.
        fn says(&mut self, mentioned: &[&str], is_query: bool) -> String {
            let drops = if is_query { mentioned.to_vec() } else { Vec::new() };
            let mentioned = MentionedNames { names: mentioned.to_vec(), drops, is_query };
            let mut out = Vec::new();
            self.server_statements.bring_own(&mentioned, &self.names, &mut self.exchange, &mut out);
            kinds(&out)
        }

        /// The kinds of the messages that the server is sent when its client asks this about a name that it may have
        /// given by SQL.
        fn asks(&mut self, ask: Ask<'_>) -> String {
            let mut out = Vec::new();
            let mut sides = Sides {
                account: &Account::default(),
                names: &mut self.names,
                statement_registry: &mut self.statement_registry,
                exchange: &mut self.exchange,
                dialect: Rc::from(&b""[..]),
                tracked: &Tracked::new([]),
                is_settled: true,
                is_by_sql: true,
                max: 9,
                follows: true,
                catalog_version: CatalogVersion::default(),
                tally: &mut Tally::default(),
                behind: b"",
                out: &mut out,
            };
            self.server_statements.ask(ask, 0, &mut sides).expect("no fault");
            out.iter().map(|bytes| if let Bytes::Own(bytes) = bytes { kinds(bytes) } else { String::new() }).collect()
        }

        fn hears(&mut self, kinds: &[u8]) {
            for kind in kinds {
                self.exchange.answered(*kind, b"I").expect("owed");
                while self.exchange.due().is_some() {}
                if *kind == backend::READY_FOR_QUERY {
                    self.server_statements.drops_end();
                }
            }
            self.server_statements.settle(&mut self.exchange, Some(&mut self.names));
        }
    }

    fn kinds(bytes: &[u8]) -> String {
        let (mut scanner, mut at, mut kinds) = (Scanner::default(), 0, String::new());
        while let Next::Piece(piece) = scanner.next(bytes, at, u32::MAX) {
            kinds.push(char::from(piece.kind));
            at = piece.range.end;
        }
        kinds
    }

    #[test]
    fn a_name_is_brought_once_and_closed_before_the_next_client() {
        let mut stage = Stage::new();
        stage.has("a", "select 1");
        assert_eq!(stage.says(&["a", "nobody's"], true), "CPS");
        stage.exchange.asked(frontend::QUERY);
        assert_eq!(stage.says(&["a"], true), "", "it is on its way");
        stage.hears(b"31Z");
        assert_eq!(stage.exchange.status(), TxStatus::Idle);
        stage.hears(b"CZ");
        assert_eq!(stage.says(&["a"], false), "");
        stage.has("a", "select 2");
        assert_eq!(stage.says(&["a"], false), "CP", "it is another one by now");
        stage.exchange.asked(frontend::SYNC);
        stage.hears(b"31Z");
        assert!(stage.server_statements.has_own());
        let mut out = Vec::new();
        stage.server_statements.close_own(&mut stage.exchange, &mut out);
        assert_eq!((&*kinds(&out), stage.server_statements.has_own(), stage.exchange.is_ours()), ("CS", false, true));
    }

    #[test]
    fn what_is_skipped_or_may_have_failed_is_brought_again() {
        let mut stage = Stage::new();
        stage.has("a", "select 1");
        assert_eq!(stage.says(&["a"], false), "CP");
        assert_eq!(stage.says(&["a"], false), "", "in the same batch it stands or falls with that");
        stage.exchange.asked(frontend::SYNC);
        assert_eq!(stage.says(&["a"], false), "CP", "nobody knows yet what has become of it");
        stage.exchange.asked(frontend::SYNC);
        stage.hears(b"EZ31Z");
        assert_eq!(stage.says(&["a"], false), "CP");
        stage.exchange.asked(frontend::SYNC);
        stage.hears(b"31Z");
        assert_eq!(stage.says(&["a"], false), "");
        stage.server_statements.doubt_own();
        stage.names.remove(b"a");
        assert_eq!(stage.says(&["a"], true), "CS");
        assert!(!stage.server_statements.has_own());
    }

    /// The server refused the second Parse, although its client had closed the name. Where the server skipped both, its
    /// statement was left for the next client.
    #[test]
    fn a_name_that_is_given_anew_is_closed_first_and_is_there_still_if_that_is_skipped() {
        let (give, close) = (Ask::Parse { name: b"a", text: b"select 1\0\0\0" }, Ask::Close { name: b"a" });
        for (answers, brought) in [(&b"E"[..], "CP"), (b"231", "")] {
            let mut stage = Stage::new();
            assert_eq!(stage.asks(give), "P");
            stage.exchange.asked(frontend::SYNC);
            stage.hears(b"1Z");
            stage.exchange.asked(frontend::BIND);
            assert_eq!((stage.asks(close), stage.asks(give)), (String::new(), "CP".into()));
            stage.exchange.asked(frontend::SYNC);
            stage.hears(answers);
            stage.hears(b"Z");
            assert!(stage.server_statements.has_own() && stage.names.has(b"a"), "{answers:?}");
            assert_eq!(stage.says(&["a"], false), brought, "{answers:?}");
        }
    }

    /// World seed 5002094: a name was closed and given again, and the next batch used it under that name instead of ours,
    /// before it was known that the server would skip both messages.
    #[test]
    fn a_name_that_is_given_anew_is_relied_on_in_the_same_batch_only() {
        let (give, close) = (Ask::Parse { name: b"a", text: b"select 1\0\0\0" }, Ask::Close { name: b"a" });
        let bind = Ask::Bind { portal: b"", name: b"a", end: 3 };
        let mut stage = Stage::new();
        stage.has("a", "select 1");
        stage.exchange.asked(frontend::BIND);
        assert_eq!((stage.asks(close), stage.asks(give)), (String::new(), "P".into()));
        assert_eq!((stage.asks(bind), stage.says(&["a"], false)), (String::new(), String::new()));
        stage.exchange.asked(frontend::BIND);
        stage.exchange.asked(frontend::SYNC);
        assert_eq!((stage.asks(bind), stage.says(&["a"], false)), ("PB".into(), "CP".into()));
        stage.exchange.asked(frontend::SYNC);
        stage.hears(b"EZ1231Z");
        assert!(stage.names.has(b"a"), "the server has skipped the Close");
        assert!(
            stage.server_statements.has_own(),
            "what the second batch has brought is closed before the next client"
        );
        assert_eq!((stage.says(&["a"], false), stage.asks(bind)), (String::new(), "B".into()));
    }

    #[test]
    fn a_name_is_dropped_by_the_tag_of_its_own_text() {
        let mut stage = Stage::new();
        stage.has("a", "select 1");
        stage.has("b", "select 1");
        for name in ["a", "b"] {
            assert_eq!(stage.says(&[name], true), "CPS");
            stage.exchange.asked(frontend::QUERY);
        }
        // The first text fails before it has dropped anything.
        stage.hears(b"31ZEZ31Z");
        stage.server_statements.dropped(Some(&mut stage.names));
        assert!(stage.names.has(b"a") && !stage.names.has(b"b"));
        stage.hears(b"Z");
        assert!(stage.server_statements.own.dropping.is_empty());
    }
}
