//! Sampled requests, from which `SHOW STATEMENTS` tells which statements take the time.
//!
//! Always true: no value of a statement is kept; the sample of a request is dropped with its loan.
//! Not here: which requests are sampled (`sampled`), what is shown (`admin::snapshot`).

use base::{Key, Time};
use measure::{Call, Description, Heaviest, Spent};
use pool::ServerKey;
use protocol::loan::{AnswerTally, RequestText, request_text};
use reactor::Io;
use route::{Dialect, normalize};

use crate::data::client::Ready;
use crate::data::server::Server;
use crate::observe::sampled::Sampled;
use crate::worker::Worker;

impl Server {
    /// Samples the request that the client has just begun, which stands for `weight` requests. `bytes` begin with it as
    /// far as it has arrived, or are empty.
    #[cold]
    pub(crate) fn look_at_statement(&mut self, ready: &Ready, bytes: &[u8], weight: u32, dialect: Dialect, now: Time) {
        let text = text_of(bytes, ready);
        let statement = if text.is_whole { described(text.bytes, dialect) } else { None };
        // The wait of a transaction counts for its first request.
        let is_first = self.xact_since() == Some(now);
        let before = if is_first { Spent::default() } else { ready.meter().division.so_far(now) };
        let (sampled, session) = self.sampled();
        session.answer_tally = Some(Box::default());
        *sampled = Some(Box::new(Sampled { weight, statement, before, ..Sampled::default() }));
    }
}

impl<I: Io> Worker<I> {
    /// A sampled request has been answered.
    #[cold]
    pub(crate) fn count_statement(&mut self, key: ServerKey, client: Option<Key>) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let (sampled, session) = server.sampled();
        let Some(sampled) = sampled.take() else { return };
        let last = session.answer_tally.take().map_or_else(AnswerTally::default, |seen| *seen);
        let mut tally = sampled.reported;
        tally.add(&last);
        if let (Some(mut traced), Some(client)) = (sampled.traced, client)
            && let Some(request) = traced.answered()
        {
            self.trace_answer(client, key, request, &last);
        }
        if let (Some(spans), Some(client)) = (sampled.spans, client) {
            self.close_spans(client, key, *spans, &tally, None);
        }
        let Some(ready) = client.and_then(|client| self.clients.ready_unless_own(client)) else { return };
        if sampled.weight == 0 {
            return;
        }
        let Some(server) = self.servers.get(key) else { return };
        let AnswerTally { rows, bytes, state, .. } = tally;
        let spent = ready.meter().division.so_far(self.hands.now).since(&sampled.before);
        let call = Call { weight: sampled.weight, spent, rows, bytes, state };
        let place = self.registry.database_at_mut(server.database());
        let room = &self.sampler.room;
        let statements = place.statements.get_or_insert_with(|| Box::new(Heaviest::new(room.clone())));
        match &sampled.statement {
            Some((hash, description)) => statements.add(*hash, description, &call),
            None => statements.add_unknown(&call),
        }
    }
}

/// The text of the request that begins with these bytes, as far as it is known.
pub(crate) fn text_of<'r>(bytes: &'r [u8], ready: &'r Ready) -> RequestText<'r> {
    request_text(bytes, ready.session().names.as_deref())
}

fn described(text: &[u8], dialect: Dialect) -> Option<(u64, Description)> {
    let normalized = normalize(text, dialect)?;
    let labels = normalized.labels;
    let description = Description { text: normalized.text, application: labels.application, route: labels.route };
    Some((normalized.hash, description))
}
