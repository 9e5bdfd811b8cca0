//! A client gives a name to a statement while its earlier statement of that name may still be there.
//!
//! Always true: the server decides whether the name is in use; what depends on that waits for its answer, and no other client
//! is given the statement that is used to find out.
//! Not here: names that were given by SQL (`own`), errors that name a statement (`refusal`).

use std::rc::Rc;

use super::names::{Named, Names};
use super::server_statements::{Held, Pending, ServerStatements, Sides, State, Twice, write_parse_as};
use super::shape::Shape;
use super::shown;
use super::statement::Statement;
use crate::exchange::Step;
use crate::fault::Fault;

impl ServerStatements {
    /// A client gives a name that it has given already. The server decides: it is sent the new text under the name of a
    /// statement that it has. If it still has that, it refuses the text, as PostgreSQL does; if it has not, because SQL has
    /// dropped it and most likely all, it has the new text there. Until that is known, what depends on names waits
    /// (`ClientSession::names_wait`), and nobody else is given that statement, which is closed before it is prepared again.
    pub(super) fn parse_twice(&mut self, name: &[u8], text: &[u8], sides: &mut Sides<'_>) -> Result<(), Fault> {
        let in_use = || Fault::StatementInUse { name: shown(name) };
        let may_ask = sides.follows && sides.exchange.may_step();
        let Some(contested) = (if may_ask { self.contest(name, sides)? } else { None }) else { return Err(in_use()) };
        let id = contested.id();
        let Some(held) = self.held.get_mut(&id) else { return Err(in_use()) };
        let state = std::mem::replace(&mut held.state, State::Doubted);
        let (statement, charge) = sides.read(name, text)?;
        write_parse_as(contested.name(), &statement, Vec::new(), sides);
        let (name, step): (Rc<[u8]>, _) = (name.into(), self.tick());
        let named = Named { statement, step, is_reused: true, charge, told: Shape::default() };
        let was = sides.names.named.insert(name.clone(), named);
        self.pending.push_back(Pending::Twice(Twice { name, step, contested: Some(id), state, was }));
        sides.names.doubts_until(sides.exchange.number());
        sides.exchange.asked_step(Step::Client);
        Ok(())
    }

    /// The statement whose being there tells whether the server has dropped that of a name in use: this one itself, or any
    /// other. If the server has none at all, it is sent the one that the name means. `None` if that would not tell.
    fn contest(&mut self, name: &[u8], sides: &mut Sides<'_>) -> Result<Option<Statement>, Fault> {
        let Some(named) = sides.names.named.get(name) else { return Ok(None) };
        let (step, named_by, statement) = (named.step, named.named_by(), named.statement.clone());
        let is_there = self.has(&statement, named_by, sides.exchange.epoch()).is_some();
        if !is_there && step == 0 {
            let other = self.by_use.values().rev().find_map(|id| self.held.get(id).filter(|held| held.is_certain()));
            let other = other.filter(|other| !self.is_contested(other.mark.id()));
            if let Some(other) = other.and_then(|other| other.mark.entry()).map(Statement::claim) {
                return Ok(Some(other));
            }
        }
        // As long as the Parse that gave the name may fail, only its own statement tells.
        if !is_there && step != 0 {
            return Ok(None);
        }
        Ok(self.prepared(name, sides)?.map(|used| used.statement))
    }

    /// Whether the server may have another text under the name of this statement.
    pub(super) fn is_contested(&self, id: u64) -> bool {
        self.pending.iter().any(|pending| matches!(pending, Pending::Twice(twice) if twice.contested == Some(id)))
    }

    /// The server has refused a Parse of a name in use, or skipped it.
    pub(super) fn refused_again(&mut self, twice: Twice, names: Option<&mut Names>) {
        let Twice { name, step, contested, state, mut was } = twice;
        match contested {
            Some(contested) => {
                let held = self.held.get_mut(&contested).filter(|held| held.state == State::Doubted);
                held.into_iter().for_each(|held| held.state = state);
            }
            None => self.own.refused_again(&name, step, was.is_some()),
        }
        // What stands behind it comes back to what this one leaves.
        if let Some(Pending::Twice(Twice { was: next, .. }) | Pending::Dropped { was: next, .. }) = self.next_of(&name)
            && next.as_ref().is_some_and(|next| next.step == step)
        {
            *next = was.take();
        }
        let Some(names) = names else { return };
        // The first of several is undone last, and the others are skipped.
        names.twice = contested.map(|contested| (name.clone(), contested));
        names.refuse_again(&name, step, was);
    }

    /// The Parses of names in use that are on their way.
    pub(super) fn contests(&mut self) -> impl Iterator<Item = &mut Twice> {
        self.pending.iter_mut().filter_map(|pending| match pending {
            Pending::Twice(twice) => Some(twice),
            _ => None,
        })
    }
}

impl Held {
    /// Whether the server has something under its name.
    fn is_certain(&self) -> bool {
        matches!(self.state, State::Sure | State::Displaced)
    }
}
