//! What clients have been told of their statements, and whether the statements of a server are still like that.
//!
//! PostgreSQL describes a statement when its client asks for that, and refuses to run it once its result has changed
//! (`RevalidateCachedQuery` in `utils/cache/plancache.c`), so that a client can rely on the description. A server that is
//! sent the text anew would run it, with other columns.
//!
//! Always true: a Bind that relies on an earlier description is sent only to a server whose statement has that shape, or is
//! refused as PostgreSQL would refuse it; it waits while the shape is not known, and costs nothing where it is.
//! Not here: what makes two shapes differ (`shape`). *Not done*: a statement without a name that is not treated as a named
//! one, and a name that SQL has mentioned, are bound without a comparison.

use wire::backend::{self, TxStatus};
use wire::frame::HEADER_BYTES;
use wire::frontend;

use super::Bytes;
use super::messages::push_describe;
use super::names::Names;
use super::outdated_plan::result_formats;
use super::server_statements::{Pending, ServerStatements, Sides, State};
use super::shape::{Describing, Fit, LastBind, Listener, Shape, Used, Waiting, of_parameters};
use crate::exchange::{Exchange, Step};
use crate::fault::Fault;

impl ServerStatements {
    /// Whether a statement that its client binds is on the server what the client has been told. `behind` are the client's
    /// bytes from the body of the Bind on, which has `body_bytes`.
    pub(super) fn fits(
        &mut self,
        name: &[u8],
        used: &Used,
        portal: &[u8],
        body_bytes: usize,
        sides: &mut Sides<'_>,
    ) -> Result<Fit, Fault> {
        if used.told == used.here && used.here.is_known() {
            return Ok(Fit::Yes);
        }
        self.compare(name, used, (portal, body_bytes), sides)
    }

    /// Whether a statement that its client binds is on the server what the client has been told, where the shapes are
    /// not known to be equal.
    fn compare(
        &mut self,
        name: &[u8],
        used: &Used,
        (portal, body_bytes): (&[u8], usize),
        sides: &mut Sides<'_>,
    ) -> Result<Fit, Fault> {
        let Used { statement, told: was_told, here, named_by } = used;
        let is_again =
            |waiting: &Waiting| waiting.statement == statement.id() && waiting.again == sides.exchange.number();
        let waited = self.waited.take().filter(is_again);
        if is_described_next(portal, body_bytes, sides.behind) {
            let (statement, number) = (statement.id(), sides.exchange.number());
            let told = if portal.is_empty() { sides.names.listener(name) } else { None };
            sides.names.last_bind = told.map(|told| LastBind { statement, told, number });
            return Ok(Fit::Yes);
        }
        let is_known = here.is_known();
        if !was_told.is_known() || !sides.exchange.may_step() || sides.exchange.status() == TxStatus::Failed {
            return Ok(Fit::Yes);
        }
        match waited {
            Some(waiting) if sides.exchange.unanswered() <= waiting.number => {
                self.waiting = Some(waiting);
                return Ok(Fit::Unknown);
            }
            Some(_) if is_known && was_told.differs(*here) => return Ok(Fit::No),
            _ if is_known && !was_told.differs(*here) => return Ok(Fit::Yes),
            _ => {}
        }
        let mut described = statement.clone();
        if is_known && let Some(held) = self.held.get_mut(&statement.id()) {
            // The server may have read the text before the table changed, and the client may have been told afterwards.
            held.state = State::Doubted;
            described = self.prepare_as_given(described, name, *named_by, sides)?;
        }
        let mut out = Vec::new();
        push_describe(&mut out, described.name());
        sides.out.push(Bytes::Own(out));
        self.expect_description(described.id(), None, Step::HiddenDescribe, sides.exchange);
        let (statement, number) = (described.id(), sides.exchange.number() - 1);
        self.waiting = Some(Waiting { statement, number, again: 0 });
        Ok(Fit::Unknown)
    }

    /// A Describe of a statement is sent.
    pub(super) fn expect_description(
        &mut self,
        statement: u64,
        told: Option<Listener>,
        step: Step,
        exchange: &mut Exchange,
    ) {
        let born = self.held.get(&statement).map_or(0, |held| held.born);
        self.pending.push_back(Pending::Describe(Describing { statement, born, told }));
        exchange.asked_step(step);
    }

    /// The client describes the portal without a name. What it is told is noted, if it has just bound a statement of which it
    /// has been told nothing, or something else. Returns whether the message, which goes to the server as it is, has been
    /// counted.
    #[inline]
    pub fn describes_portal(&mut self, names: &mut Names, exchange: &mut Exchange) -> bool {
        names.last_bind.is_some() && self.describes_last_bind(names, exchange)
    }

    #[cold]
    fn describes_last_bind(&mut self, names: &mut Names, exchange: &mut Exchange) -> bool {
        let is_next = |bind: &LastBind| bind.number + 1 == exchange.number() && exchange.may_step();
        let Some(LastBind { statement, told, .. }) = names.last_bind.take().filter(is_next) else {
            return false;
        };
        self.expect_description(statement, Some(told), Step::ClientDescribe, exchange);
        true
    }

    /// Whether the client's next message is a Bind that has waited for the description of its statement.
    #[must_use]
    pub(crate) fn has_waiting_bind(&self) -> bool {
        self.waiting.is_some()
    }

    /// The Bind that has waited comes again.
    pub(crate) fn comes_again(&mut self, exchange: &Exchange) {
        let again = exchange.number();
        self.waited = self.waiting.take().map(|waiting| Waiting { again, ..waiting });
    }

    /// The server has answered a Describe with a message of this kind, all of whose body has arrived.
    pub fn described(&mut self, kind: u8, body: &[u8], names: Option<&mut Names>) {
        if kind == backend::PARAMETER_DESCRIPTION {
            self.parameters = Some(of_parameters(body));
            return;
        }
        let parameters = self.parameters.take();
        let Some(Describing { statement, born, told }) = self.describing.take() else { return };
        let shape = Shape::new(parameters, (kind == backend::ROW_DESCRIPTION).then_some(body));
        if let Some(held) = self.held.get_mut(&statement).filter(|held| held.born == born) {
            held.shape = shape.or(held.shape);
        }
        if let (Some(told), Some(names)) = (told, names) {
            names.told(&told, statement, shape);
        }
    }

    /// Whether the columns of a description are arriving.
    #[must_use]
    pub fn is_being_described(&self) -> bool {
        self.describing.is_some()
    }

    /// Whether a request that binds this name may have to wait on this server for a description.
    #[must_use]
    pub(crate) fn may_wait(&self, names: &Names, name: &[u8]) -> bool {
        let Some(named) = names.named.get(name).filter(|named| named.told.is_known()) else { return false };
        self.held.get(&named.statement.id()).is_none_or(|held| held.shape != named.told)
    }
}

/// Whether the message behind a Bind describes its portal, and the Bind does not rely on an earlier description all the same,
/// because it tells the format of each column.
fn is_described_next(portal: &[u8], body_bytes: usize, behind: &[u8]) -> bool {
    let Some((bind, next)) = behind.split_at_checked(body_bytes) else { return false };
    let Some((header, body)) = next.split_at_checked(HEADER_BYTES) else { return false };
    let target = body.strip_prefix(b"P").and_then(|body| body.strip_prefix(portal));
    header[0] == frontend::DESCRIBE
        && target.is_some_and(|rest| rest.first() == Some(&0))
        && result_formats(bind).is_some_and(|formats| formats <= 1)
}
