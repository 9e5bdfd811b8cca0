//! The names that one client has given to its statements.
//!
//! Always true: a name exists from the moment its client has asked for it, until the server has failed or skipped that
//! Parse, or its client has closed the name.
//! Not here: which server has the statement (`server_statements`).

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::account::Charge;
use super::registry::{StatementRegistry, shared_bytes};
use super::shape::{LastBind, Listener, Shape, Used};
use super::statement::Statement;
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::state::Overrides;
use crate::vars::{Tracked, Vars, spelled_like, split_dialect};

/// The names of one client.
#[derive(Debug, Default)]
pub struct Names {
    pub(super) named: BTreeMap<Rc<[u8]>, Named>,
    /// Names whose Parse failed or was skipped, the latest last: the server may be asked for one of them, and reports the error.
    pub(super) failed: VecDeque<Rc<[u8]>>,
    /// A name that was given twice, and that the server has refused just now, and the number of the statement that its error
    /// names.
    pub(super) twice: Option<(Rc<[u8]>, u64)>,
    /// The numbers of the last statements whose names could not be given, and these names: errors may still concern them.
    pub(super) former: VecDeque<(u64, Rc<[u8]>)>,
    /// What decides on names and is not answered yet.
    pub(super) doubts: Doubts,
    /// A Bind whose portal the client describes next.
    pub(super) last_bind: Option<LastBind>,
    /// A Bind was sent so that the server refuses it, because its plan is outdated.
    pub(super) has_outdated: bool,
    /// The parameters and settings that were last examined, and the part of them that matters to a statement.
    dialect: Option<Dialect>,
}

/// Messages of a loan whose answers tell what names mean.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Doubts {
    /// A statement that drops names (`DEALLOCATE`, `DISCARD ALL`) has been bound, and may be executed.
    has_bound_drop: bool,
    /// The number of the last message that drops names by SQL, or gives a name that may not be free; 0 where there is none.
    sent: u64,
    /// The number of the last message that gives a name which is closed in front of it, and its epoch: an error in that epoch
    /// skips both.
    reused: (u64, u64),
}

/// Parameters and settings, and the part of them that matters to a statement.
#[derive(Debug)]
struct Dialect {
    vars: Rc<Vars>,
    overrides: Option<Rc<Overrides>>,
    matters: Rc<[u8]>,
}

/// The meaning of a name.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) statement: Statement,
    /// The step that gave the name, while its outcome is not known; otherwise 0.
    pub(super) step: u64,
    /// The name meant something else before, and does so again if this step and the Close before it are skipped.
    pub(super) is_reused: bool,
    pub(super) charge: Charge,
    /// What the client has been told of the statement.
    pub(super) told: Shape,
}

impl Named {
    fn used(&self) -> Used {
        let (statement, told, named_by) = (self.statement.clone(), self.told, self.named_by());
        Used { statement, told, named_by, here: Shape::default() }
    }

    /// The step that gave the name has been answered.
    pub(super) fn settle(&mut self) {
        self.step = 0;
    }

    /// The step that the name depends on, if there is one.
    pub(super) fn named_by(&self) -> u64 {
        if self.is_reused { 0 } else { self.step }
    }

    /// Reads the same text under these parameters, for this client alone unless it `may_share`.
    fn read_under(
        &mut self,
        dialect: &Rc<[u8]>,
        may_share: bool,
        statement_registry: &mut StatementRegistry,
    ) -> Result<(), Fault> {
        self.charge.share(shared_bytes(self.statement.text(), dialect))?;
        let read = match may_share {
            true => statement_registry.find_or_add_like(&self.statement, dialect),
            false => statement_registry.add_like(&self.statement, dialect),
        };
        self.statement = read.ok_or(Fault::StatementsFull)?;
        Ok(())
    }
}

impl Names {
    /// The statement that a name means, as it was read last.
    #[must_use]
    pub fn statement(&self, name: &[u8]) -> Option<&Statement> {
        self.named.get(name).map(|named| &named.statement)
    }

    /// The number of names.
    #[must_use]
    pub fn count(&self) -> usize {
        self.named.len()
    }

    /// Returns the part of these parameters, and of the session's settings, that decides how a statement is read.
    pub fn dialect(&mut self, vars: &Rc<Vars>, tracked: &Tracked, overrides: Option<&Rc<Overrides>>) -> Rc<[u8]> {
        let is_same = |seen: &Option<Rc<Overrides>>| seen.as_ref().map(Rc::as_ptr) == overrides.map(Rc::as_ptr);
        match &self.dialect {
            Some(seen) if Rc::ptr_eq(&seen.vars, vars) && is_same(&seen.overrides) => seen.matters.clone(),
            seen => {
                let mut fresh = vars.dialect(tracked);
                if let Some(overrides) = overrides {
                    overrides.write_dialect(&mut fresh);
                }
                let old = seen.as_ref().map(|seen| &seen.matters).filter(|matters| ***matters == *fresh);
                let matters = old.cloned().unwrap_or_else(|| fresh.into());
                self.dialect =
                    Some(Dialect { vars: vars.clone(), overrides: overrides.cloned(), matters: matters.clone() });
                matters
            }
        }
    }

    /// A loan begins. All that the client has sent before has been answered.
    pub fn begin_loan(&mut self) {
        self.doubts = Doubts::default();
    }

    /// The client binds a statement that drops names.
    pub fn binds_drop(&mut self) {
        self.doubts.has_bound_drop = true;
    }

    /// The client sends a message, the one of this number, that executes what it has bound.
    pub fn executes(&mut self, number: u64) {
        if self.doubts.has_bound_drop {
            self.doubts.sent = number;
        }
    }

    /// The client sends a message, the one of this number, that drops names, or gives one that may not be free.
    pub fn doubts_until(&mut self, number: u64) {
        self.doubts.sent = number;
    }

    /// The client has given a name by the message that was sent last, and has closed it before.
    pub(super) fn has_reused(&mut self, exchange: &Exchange) {
        self.doubts.reused = (exchange.number() - 1, exchange.epoch());
    }

    /// Whether the server still has to tell what names mean to the next message.
    #[inline]
    #[must_use]
    pub fn are_in_doubt(&self, exchange: &Exchange) -> bool {
        let Doubts { sent, reused: (reused, epoch), .. } = self.doubts;
        if sent == 0 && reused == 0 || !exchange.may_step() {
            return false;
        }
        let is_unanswered = |number: u64| (exchange.unanswered()..exchange.number()).contains(&number);
        is_unanswered(sent) || epoch != exchange.epoch() && is_unanswered(reused)
    }

    /// Whether a Describe of the unnamed portal, or an Execute, concerns no name: what names mean is known, the client has bound
    /// nothing that drops any, and no description of a portal is noted.
    #[inline]
    #[must_use]
    pub fn are_at_rest(&self, exchange: &Exchange) -> bool {
        !self.doubts.has_bound_drop && self.last_bind.is_none() && !self.are_in_doubt(exchange)
    }

    /// Drops a name by SQL. Returns whether there was one.
    pub fn deallocate(&mut self, name: &[u8]) -> bool {
        self.named.get(name).is_some_and(|named| named.step == 0) && self.remove(name).is_some()
    }

    /// The client closes a name while it has no server, so that all its messages about names have been answered.
    pub fn close(&mut self, name: &[u8]) {
        self.remove(name);
    }

    /// Whether the unnamed statement is treated as a named one.
    #[must_use]
    pub fn has_unnamed(&self) -> bool {
        self.has(b"")
    }

    /// Forgets the unnamed statement.
    pub fn forget_unnamed(&mut self) {
        self.remove(b"");
    }

    /// Whether the client has a statement of this name that was prepared by SQL.
    pub(super) fn has_by_sql(&self, name: &[u8]) -> bool {
        let overrides = self.dialect.as_ref().and_then(|dialect| dialect.overrides.as_ref());
        overrides.is_some_and(|overrides| {
            std::str::from_utf8(name).is_ok_and(|name| overrides.statements().get(name).is_some())
        })
    }

    /// Whether the client has given this name.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        self.named.contains_key(name)
    }

    pub(super) fn has_failed(&self, name: &[u8]) -> bool {
        self.failed.iter().any(|failed| **failed == *name)
    }

    pub(super) fn insert(&mut self, name: Rc<[u8]>, named: Named) -> Option<Named> {
        self.failed.retain(|failed| *failed != name);
        self.named.insert(name, named)
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Named> {
        self.failed.retain(|failed| **failed != *name);
        self.named.remove(name)
    }

    /// Returns the statement of a name, read under these parameters, and the step that the name depends on. Unless
    /// `is_settled`, these may not be all that matter: a statement that was given under others is then read again for
    /// this client alone.
    ///
    /// # Errors
    /// There is no room to read it anew.
    pub(super) fn find(
        &mut self,
        name: &[u8],
        dialect: &Rc<[u8]>,
        is_settled: bool,
        statement_registry: &mut StatementRegistry,
    ) -> Result<Option<Used>, Fault> {
        let Some(named) = self.named.get_mut(name) else { return Ok(None) };
        let own = named.statement.dialect();
        if !Rc::ptr_eq(own, dialect) && **own != **dialect {
            // The client has set a parameter since. Under the old number other clients rely on the old meaning.
            let meant = match is_settled {
                true => dialect_meant(&named.statement, dialect).unwrap_or_else(|| dialect.clone()),
                false => unsettled(dialect),
            };
            if **own != *meant {
                named.read_under(&meant, is_settled, statement_registry)?;
            }
        }
        Ok(Some(named.used()))
    }

    /// Returns the statement of a name as it was read last.
    pub(super) fn last_read(&self, name: &[u8]) -> Option<Used> {
        self.named.get(name).map(Named::used)
    }

    /// Whom the description of a statement is for, which the client has described by this name.
    pub(super) fn listener(&self, name: &[u8]) -> Option<Listener> {
        let (name, named) = self.named.get_key_value(name)?;
        Some(Listener { name: name.clone(), step: named.step })
    }

    /// The client has been told what a statement is like, if the name still means that.
    pub(super) fn told(&mut self, Listener { name, step }: &Listener, statement: u64, shape: Shape) {
        let means = |named: &&mut Named| named.statement.id() == statement && (named.step == 0 || named.step == *step);
        if let Some(named) = self.named.get_mut(name).filter(means) {
            named.told = shape.or(named.told);
        }
    }

    /// Reads a statement again whose meaning cannot be kept; `None` if there is none of this name.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn read_anew(
        &mut self,
        name: &[u8],
        dialect: &Rc<[u8]>,
        statement_registry: &mut StatementRegistry,
    ) -> Result<Option<Statement>, Fault> {
        let Some(named) = self.named.get_mut(name) else { return Ok(None) };
        named.read_under(dialect, true, statement_registry)?;
        Ok(Some(named.statement.clone()))
    }

    /// The step that gave a name has been answered.
    pub(super) fn settle(&mut self, name: &[u8], step: u64) {
        if let Some(named) = self.named.get_mut(name).filter(|named| named.step == step) {
            named.settle();
        }
    }

    /// The step that gave a name has failed or was skipped.
    pub(super) fn fail(&mut self, name: Rc<[u8]>, step: u64) {
        if self.named.get(&name).is_some_and(|named| named.step == step)
            && let Some(named) = self.named.remove(&name)
        {
            self.former.truncate(FAILED_MAX - 1);
            self.former.push_front((named.statement.id(), name.clone()));
            self.remember_failed(name);
        }
    }

    /// The server has refused or skipped a Parse of a name that was in use: the name means what it did, if it still did.
    pub(super) fn refuse_again(&mut self, name: &Rc<[u8]>, step: u64, was: Option<Named>) {
        if self.named.get(name).is_none_or(|named| named.step != step) {
            return;
        }
        match was {
            Some(was) => drop(self.named.insert(name.clone(), was)),
            None => self.fail(name.clone(), step),
        }
    }

    /// The server skips a Parse that was sent to it unchanged.
    pub fn skip(&mut self, name: &[u8]) {
        if !self.has(name) && !self.has_failed(name) {
            self.remember_failed(name.into());
        }
    }

    fn remember_failed(&mut self, name: Rc<[u8]>) {
        if self.failed.len() >= FAILED_MAX {
            self.failed.pop_front();
        }
        self.failed.push_back(name);
    }

    /// The Close of a name was skipped.
    pub(super) fn restore(&mut self, name: Rc<[u8]>, named: Named) {
        self.failed.retain(|failed| *failed != name);
        self.named.entry(name).or_insert(named);
    }

    /// The server has dropped all statements. Those that were asked for since are still to come.
    pub(super) fn drop_settled(&mut self) {
        self.named.retain(|_, named| named.step != 0);
        self.failed.clear();
    }
}

/// The dialect in which PostgreSQL reads a statement while `now` is in force for its client, if that is not `now`.
/// PostgreSQL reads literals once, when a statement is prepared, and again only when it analyses all names again, as for
/// another `search_path`; it never decides again what is a string and what is not (`RevalidateCachedQuery` in
/// `utils/cache/plancache.c`). A text without literals may be prepared under any dialect.
fn dialect_meant(statement: &Statement, now: &Rc<[u8]>) -> Option<Rc<[u8]>> {
    let given = statement.dialect();
    let (of_given, of_now) = (split_dialect(given)?.1, split_dialect(now)?.1);
    if !statement.has_literals() {
        None
    } else if of_given == of_now {
        Some(given.clone())
    } else {
        spelled_like(given, now).map(Rc::from)
    }
}

/// The parameters of a client that may have changed others beside these: no other client has the same.
pub(super) fn unsettled(dialect: &[u8]) -> Rc<[u8]> {
    [b"?", dialect].concat().into()
}

/// How many names are remembered whose Parse failed or was skipped.
const FAILED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::account::Account;
    use super::*;
    use crate::state::Statement as BySql;

    fn named(statement_registry: &mut StatementRegistry, step: u64) -> Named {
        let statement = statement_registry.find_or_add(b"select 1\0\0\0", &Rc::from(&b""[..])).expect("room");
        let charge = statement_registry.charge_all(1).expect("room");
        Named { statement, step, is_reused: false, charge, told: Shape::default() }
    }

    #[test]
    fn what_matters_is_looked_up_when_the_session_has_set_something_else() {
        let (tracked, mut names) = (Tracked::new([]), Names::default());
        let vars = Rc::new(Vars::new(&tracked));
        let has_set = |name: &str, value: &str| {
            let mut overrides = Overrides::default();
            overrides.set(name, value);
            Rc::new(overrides)
        };
        let (a, b) = (has_set("search_path", "a"), has_set("search_path", "b"));
        let mut matters = |overrides: Option<&Rc<Overrides>>| names.dialect(&vars, &tracked, overrides);
        let (none, of_a) = (matters(None), matters(Some(&a)));
        assert!(Rc::ptr_eq(&of_a, &matters(Some(&a))));
        let of_b = matters(Some(&b));
        assert!(none != of_a && none != of_b && of_a != of_b);
        assert_eq!(matters(None), none);
        let mut others = (*vars).clone();
        others.set(tracked.place("DateStyle").expect("tracked"), "German");
        assert_ne!(names.dialect(&Rc::new(others), &tracked, None), none);
    }

    #[test]
    fn what_was_prepared_by_sql_is_known_by_what_was_looked_at_last() {
        let (tracked, mut names) = (Tracked::new([]), Names::default());
        let vars = Rc::new(Vars::new(&tracked));
        let mut overrides = Overrides::default();
        overrides.statements_mut().insert("p", BySql { sql: "prepare p as select 1".into(), search_path: None });
        names.dialect(&vars, &tracked, Some(&Rc::new(overrides)));
        assert!(names.has_by_sql(b"p") && !names.has_by_sql(b"q"));
        names.dialect(&vars, &tracked, None);
        assert!(!names.has_by_sql(b"p"));
    }

    #[test]
    fn a_name_came_to_nothing_until_it_is_given_closed_or_dropped() {
        let (mut statement_registry, mut names) = (StatementRegistry::new(1, 1), Names::default());
        names.insert(b"a"[..].into(), named(&mut statement_registry, 1));
        names.fail(b"a"[..].into(), 2);
        assert!(names.has(b"a") && !names.has_failed(b"a"), "it is another step's by now");
        names.settle(b"a", 2);
        assert!(!names.deallocate(b"a"), "it may still come to nothing");
        names.skip(b"a");
        assert!(!names.has_failed(b"a"), "the name stands for something");
        names.fail(b"a"[..].into(), 1);
        assert!(!names.has(b"a") && names.has_failed(b"a"));
        names.insert(b"a"[..].into(), named(&mut statement_registry, 3));
        assert!(!names.has_failed(b"a"));
        names.refuse_again(&b"a"[..].into(), 2, None);
        assert!(names.has(b"a"), "it has been given again since");
        names.refuse_again(&b"a"[..].into(), 3, None);
        assert!(!names.has(b"a") && names.has_failed(b"a"));
        names.restore(b"a"[..].into(), named(&mut statement_registry, 4));
        assert!(names.has(b"a") && !names.has_failed(b"a"));
        names.settle(b"a", 4);
        assert!(names.deallocate(b"a") && !names.deallocate(b"a"));
        for name in [b"b", b"c"] {
            names.skip(name);
        }
        names.skip(b"b");
        assert_eq!(names.failed.len(), 2, "each is remembered once");
        assert!(names.remove(b"b").is_none() && !names.has_failed(b"b") && names.has_failed(b"c"));
        for name in [b"d", b"e"] {
            names.skip(name);
        }
        names.insert(b"d"[..].into(), named(&mut statement_registry, 5));
        names.insert(b"e"[..].into(), named(&mut statement_registry, 0));
        names.drop_settled();
        assert!(names.has(b"d") && !names.has(b"e") && !names.has_failed(b"c"));
    }

    #[test]
    fn few_of_these_are_remembered_however_they_came_to_nothing() {
        let (mut statement_registry, mut names) = (StatementRegistry::new(1, 1), Names::default());
        for number in 0..100_u32 {
            names.skip(&number.to_be_bytes());
            let name: Rc<[u8]> = [&b"m"[..], &number.to_be_bytes()].concat().into();
            names.insert(name.clone(), named(&mut statement_registry, 2));
            names.refuse_again(&name, 2, None);
            let name: Rc<[u8]> = [&b"f"[..], &number.to_be_bytes()].concat().into();
            names.insert(name.clone(), named(&mut statement_registry, 1));
            names.fail(name, 1);
            assert!(names.failed.len() <= FAILED_MAX);
        }
        assert!(names.has_failed(&99_u32.to_be_bytes()));
    }

    #[test]
    fn the_unnamed_statement_is_one_of_them_until_it_is_forgotten() {
        let (mut statement_registry, mut names) = (StatementRegistry::new(1, 1), Names::default());
        assert!(!names.has_unnamed());
        names.insert(b""[..].into(), named(&mut statement_registry, 0));
        assert!(names.has_unnamed());
        names.forget_unnamed();
        assert!(!names.has_unnamed());
    }

    #[test]
    fn a_name_that_was_given_again_is_not_restored() {
        let (mut statement_registry, mut names) = (StatementRegistry::new(1, 1), Names::default());
        names.insert(b"a"[..].into(), named(&mut statement_registry, 2));
        names.restore(b"a"[..].into(), named(&mut statement_registry, 1));
        assert_eq!(names.named[&b"a"[..]].step, 2);
    }

    #[test]
    fn a_client_is_charged_what_a_name_is_read_under_now() {
        for is_settled in [true, false] {
            let (mut statement_registry, mut names) = (StatementRegistry::new(1, 1), Names::default());
            let (account, text) = (Account::default(), [b'x'; 1000]);
            let dialect = |length: usize| Rc::<[u8]>::from(vec![b'd'; length]);
            let statement = statement_registry.find_or_add(&text, &dialect(0)).expect("room");
            let charge = statement_registry.charge_name(&account, b"a", &text, b"").expect("room");
            let named = Named { statement, step: 0, is_reused: false, charge, told: Shape::default() };
            names.insert(b"a"[..].into(), named);
            let given = account.held();
            let mut held = |length: usize, is_anew: bool| {
                let dialect = dialect(length);
                if is_anew {
                    names.read_anew(b"a", &dialect, &mut statement_registry).expect("room");
                } else {
                    names.find(b"a", &dialect, is_settled, &mut statement_registry).expect("room");
                }
                account.held()
            };
            let (short, long, anew) = (held(100, false), held(300, false), held(700, true));
            assert_eq!(short - given, if is_settled { 100 } else { 101 }, "{is_settled}");
            assert_eq!((long - short, anew - long), (200, if is_settled { 400 } else { 399 }), "{is_settled}");
        }
    }
}
