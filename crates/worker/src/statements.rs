//! Prepared statements with names, on their way from a client to the server that it has just now.
//!
//! Always true: only the head of a message is looked at, and copied if it has to be; the values of a Bind are sent from where
//! they were received; a client that uses no names pays for one look at the first bytes of its messages.
//! Not here: what has to be said to a server so that it has what its client means (`protocol::prepared`).

use std::ops::Range;

use base::Key;
use pool::{Mode, PoolKey, ServerKey};
use protocol::exchange::Asked;
use protocol::fault::Fault;
use protocol::prepared::{
    self, Ask, Bytes, Charge, HELD_BYTES_MAX, Head, Library, Moment, Names, Said, Sides, Tally, Way,
};
use protocol::vars::Tracked;
use reactor::{Chunk, Io, Level};
use route::{Act, Class, Dialect, Touches};
use wire::backend::{self, TxStatus};
use wire::frame::{HEADER_BYTES, Part};
use wire::{Piece, frontend, write};

use crate::client::{Client, Fate, Ready, Stage};
use crate::flow::send_part;
use crate::look::without_statements;
use crate::server::Server;
use crate::turn::Worker;

/// The beginning of a message of which too little has come to know what it asks.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) bytes: Vec<u8>,
    pub(crate) body_bytes: usize,
    pub(crate) charge: Charge,
}

/// What following statements takes, beside the two sides.
pub(crate) struct Following<'a> {
    /// `max_prepared_statements`; 0 where nobody is followed.
    pub(crate) max: usize,
    /// Whether the server has what its client has, and nothing else.
    pub(crate) follows: bool,
    /// `reuse_unnamed_statements`.
    pub(crate) reuses: bool,
    pub(crate) library: &'a mut Library,
    pub(crate) moment: Moment,
    pub(crate) tracked: &'a Tracked,
    pub(crate) tally: Tally,
    /// Where in the chunk a Parse without a name stands that has not been bound.
    pub(crate) unbound: Option<Range<usize>>,
}

/// How much of a message is here.
enum Extent {
    /// All of it stands at this place in the chunk.
    Here(Range<usize>),
    /// All of it, the beginning from elsewhere.
    Whole,
    /// Not all of it.
    Part,
}

impl Extent {
    fn of(body: &[u8], body_bytes: usize) -> Self {
        if body.len() == body_bytes { Self::Whole } else { Self::Part }
    }
}

/// What has become of a piece of a message.
pub(crate) enum Taken {
    /// Nothing: it is like any other.
    Not,
    /// It is dealt with up to this place in its chunk; what follows belongs to the server as it is.
    UpTo(usize),
    /// What stands before this place in its chunk has been sent; from there on it is like any other.
    From(usize),
    /// Its client cannot go on.
    Wrong(Fault),
}

impl Following<'_> {
    /// Looks whether a piece concerns a statement with a name, and sends what has to be sent for it: first what stands before
    /// it in its chunk and has not been sent, from `start` on.
    pub(crate) fn take<I: Io>(
        &mut self,
        io: &mut I,
        ready: &mut Ready,
        server: &mut Server,
        chunk: &Chunk,
        start: usize,
        piece: &Piece,
    ) -> Taken {
        match piece.part {
            _ if ready.fate == Fate::Collect => self.goes_on(io, ready, server, chunk, piece),
            Part::First { body_bytes, .. } if self.max > 0 && prepared::concerns(piece.kind) && is_read(server) => {
                self.begins(io, ready, server, chunk, start, piece, body_bytes as usize)
            }
            // The batch ends without it: it is meant for the next one.
            Part::First { .. } if piece.kind == frontend::SYNC && self.unbound.is_some() => {
                self.end_of_chunk(ready, chunk.bytes());
                Taken::Not
            }
            // Names that it may say are looked for when it is whole, before the server has any of it.
            Part::First { body_bytes, .. }
                if piece.kind == frontend::QUERY && self.may_say_names(ready, server, piece) =>
            {
                send_part(io, server.conn, chunk, start..piece.range.start);
                self.collect(ready, piece, &chunk.bytes()[piece.body.clone()], body_bytes as usize)
            }
            Part::First { .. } if piece.kind == frontend::QUERY => {
                forget_unnamed(ready);
                Taken::Not
            }
            Part::First { .. } if self.max > 0 && piece.kind == frontend::PARSE && server.exchange.is_skipping() => {
                if let Some(name) = prepared::given_name(&chunk.bytes()[piece.body.clone()]) {
                    ready.names.get_or_insert_default().skip(name);
                }
                Taken::Not
            }
            _ => Taken::Not,
        }
    }

    /// Whether a piece drops a statement by SQL (`DEALLOCATE`) that its client has prepared by the protocol, and that is done: no server knows it
    /// by that name, so one is made to be dropped, and the server answers as it should.
    pub(crate) fn deallocates<I: Io>(
        &mut self,
        io: &mut I,
        ready: &mut Ready,
        server: &mut Server,
        chunk: &Chunk,
        start: usize,
        piece: &Piece,
    ) -> bool {
        let is_fit = self.max > 0
            && piece.kind == frontend::QUERY
            && piece.is_whole()
            && server.exchange.owes_nothing()
            && server.exchange.is_proven()
            && server.exchange.status() != TxStatus::Failed;
        let Some(names) = ready.names.as_mut().filter(|_| is_fit) else { return false };
        let text = chunk.bytes()[piece.body.clone()].split_last().map(|(_, text)| text).unwrap_or_default();
        let Some(name) = route::deallocated(text, Dialect::default()) else { return false };
        if !names.deallocate(name.as_bytes()) {
            return false;
        }
        let mut out = Vec::new();
        write::query(&mut out, "PREPARE TRUNKLINE_GONE AS SELECT 1");
        server.exchange.asks_ours();
        write::query(&mut out, "DEALLOCATE TRUNKLINE_GONE");
        server.exchange.asked(frontend::QUERY);
        server.again.forget();
        send_part(io, server.conn, chunk, start..piece.range.start);
        io.send(server.conn, out.into());
        true
    }

    /// What a message says, or binds, has names of statements in it, which mean the same to SQL as to the protocol: the server is made to have
    /// under these names what its client has prepared by the protocol. Whether something has been sent, behind what stands before the message.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn brings<I: Io>(
        &mut self,
        io: &mut I,
        ready: &mut Ready,
        server: &mut Server,
        chunk: &Chunk,
        start: usize,
        piece: &Piece,
        class: &Class,
    ) -> bool {
        let is_unsent = matches!(piece.part, Part::First { .. }) || ready.fate == Fate::Collect;
        let is_fit = self.max > 0 && is_unsent && server.exchange.status() != TxStatus::Failed;
        let Some(names) = ready.names.as_mut().filter(|_| is_fit) else { return false };
        let executed = ready.traces.as_ref().map(|traces| traces.executed_by(class)).unwrap_or_default();
        let all = || [class].into_iter().chain(executed.iter().map(|class| &**class));
        let drops = all().flat_map(|class| &class.acts).filter_map(|act| match act {
            Act::Deallocate { name: Some(name) } if piece.kind != frontend::PARSE => Some(&**name),
            _ => None,
        });
        let names_said = all().flat_map(|class| &class.statements).map(|name| &**name);
        let is_query = piece.kind == frontend::QUERY;
        let said = Said { names: names_said.collect(), drops: drops.collect(), is_query };
        let mut out = Vec::new();
        server.stock.bring_own(&said, names, &mut server.exchange, &mut out);
        if out.is_empty() {
            return false;
        }
        server.again.forget();
        send_part(io, server.conn, chunk, start..piece.range.start);
        io.send(server.conn, out.into());
        true
    }

    #[allow(clippy::too_many_arguments)]
    fn begins<I: Io>(
        &mut self,
        io: &mut I,
        ready: &mut Ready,
        server: &mut Server,
        chunk: &Chunk,
        start: usize,
        piece: &Piece,
        body_bytes: usize,
    ) -> Taken {
        let body = &chunk.bytes()[piece.body.clone()];
        let mut out = Vec::new();
        let way = match prepared::look(piece.kind, body, body_bytes) {
            Ok(Head::Plain) => {
                let extent = match piece.range.len() {
                    bytes if bytes == HEADER_BYTES + body_bytes => Extent::Here(piece.range.clone()),
                    _ => Extent::of(body, body_bytes),
                };
                self.plain(ready, server, piece.kind, body, (extent, body_bytes), &mut out)
            }
            Ok(Head::Named(ask)) => self.ask(ready, server, ask, body_bytes, &mut out),
            Ok(Head::More) => {
                send_part(io, server.conn, chunk, start..piece.range.start);
                return self.collect(ready, piece, body, body_bytes);
            }
            Err(fault) => Err(fault),
        };
        match way {
            Ok(Way::AsItIs) if out.is_empty() => Taken::Not,
            Ok(way) => {
                send_part(io, server.conn, chunk, start..piece.range.start);
                send_all(io, server, out);
                match way {
                    Way::AsItIs => Taken::From(piece.range.start),
                    Way::Replaced(end) => {
                        ready.fate = Fate::Forward;
                        Taken::UpTo(piece.body.start + end)
                    }
                }
            }
            Err(fault) => wrong(ready, fault),
        }
    }

    /// It concerns no statement with a name; the one without is its client's, too.
    fn plain(
        &mut self,
        ready: &mut Ready,
        server: &mut Server,
        kind: u8,
        body: &[u8],
        (extent, body_bytes): (Extent, usize),
        out: &mut Vec<Bytes>,
    ) -> Result<Way, Fault> {
        if let Some(ask) = self.as_named(ready, server, kind, body, &extent) {
            return self.ask(ready, server, ask, body_bytes, out);
        }
        match kind {
            frontend::PARSE => {
                ready.unnamed.given(&server.exchange);
                self.unbound = None;
                match extent {
                    Extent::Here(place) => self.unbound = Some(place),
                    Extent::Whole => {
                        let parse = [ready.scanner.header(), body].concat();
                        ready.unnamed.keep(&parse, &ready.account, self.library);
                    }
                    Extent::Part => {}
                }
                return Ok(Way::AsItIs);
            }
            frontend::BIND => self.unbound = None,
            // Of a portal.
            _ if body.first() != Some(&b'S') => return Ok(Way::AsItIs),
            frontend::CLOSE => {
                self.unbound = None;
                ready.unnamed.forget();
                return Ok(Way::AsItIs);
            }
            _ => {}
        }
        ready.unnamed.bring(&mut server.stock, &mut server.exchange, &mut self.tally, out)?;
        Ok(Way::AsItIs)
    }

    /// What is asked of the statement without a name, if that is treated as one with a name: because its text has come before.
    fn as_named<'b>(
        &mut self,
        ready: &mut Ready,
        server: &Server,
        kind: u8,
        body: &'b [u8],
        extent: &Extent,
    ) -> Option<Ask<'b>> {
        let is_there = ready.names.as_ref().is_some_and(|names| names.has_unnamed());
        if kind != frontend::PARSE {
            return prepared::look_at_unnamed(kind, body).filter(|_| is_there);
        }
        // The stock asks for good order, too, before it answers for the server. Here it is asked because a statement without a name that is
        // refused is gone (`exec_parse_message` in PostgreSQL's `tcop/postgres.c`), and one with a name is what it was before.
        let may_be = self.reuses
            && !matches!(extent, Extent::Part)
            && server.exchange.may_step()
            && server.exchange.is_in_good_order();
        let ask = prepared::look_at_unnamed(kind, body).filter(|_| may_be);
        match ask {
            Some(Ask::Parse { text, .. }) if self.library.comes_again(text) => {
                ready.unnamed.forget();
                self.unbound = None;
                ask
            }
            _ => {
                if let Some(names) = ready.names.as_mut().filter(|_| is_there) {
                    names.forget_unnamed();
                }
                None
            }
        }
    }

    /// What has been given without a name and not been bound is kept, in case that its batch ends without that.
    pub(crate) fn end_of_chunk(&mut self, ready: &mut Ready, bytes: &[u8]) {
        if let Some(parse) = self.unbound.take() {
            ready.unnamed.keep(&bytes[parse], &ready.account, self.library);
        }
    }

    /// Whether a simple query, of which the beginning has come, may say names of statements that its client has prepared by the protocol.
    fn may_say_names(&self, ready: &Ready, server: &Server, piece: &Piece) -> bool {
        let is_short = matches!(piece.part, Part::First { body_bytes, .. } if body_bytes as usize <= SAYING_BYTES_MAX);
        let has_names = ready.names.as_ref().is_some_and(|names| names.count() > 0);
        self.max > 0 && self.follows && has_names && is_short && !piece.is_whole() && is_read(server)
    }

    fn collect(&mut self, ready: &mut Ready, piece: &Piece, body: &[u8], body_bytes: usize) -> Taken {
        // What is claimed and has not come takes no room from others; what can never have room is not waited for.
        if piece.kind == frontend::PARSE && body_bytes > HELD_BYTES_MAX {
            return wrong(ready, Fault::StatementsFull);
        }
        let charge = match self.library.charge(&ready.account, body.len()) {
            Ok(charge) => charge,
            Err(full) => return wrong(ready, full),
        };
        ready.collected = Some(Box::new(Collected { bytes: body.to_vec(), body_bytes, charge }));
        ready.fate = Fate::Collect;
        Taken::UpTo(piece.range.end)
    }

    /// More has come of a message whose beginning was collected.
    fn goes_on<I: Io>(
        &mut self,
        io: &mut I,
        ready: &mut Ready,
        server: &mut Server,
        chunk: &Chunk,
        piece: &Piece,
    ) -> Taken {
        let Some(mut collected) = ready.collected.take() else { return Taken::Not };
        let before = collected.bytes.len();
        if let Err(full) = collected.charge.grow(piece.body.len()) {
            return wrong(ready, full);
        }
        collected.bytes.extend_from_slice(&chunk.bytes()[piece.body.clone()]);
        let is_query = piece.kind == frontend::QUERY;
        let head = if is_query && collected.bytes.len() < collected.body_bytes {
            Ok(Head::More)
        } else if is_read(server) && !is_query {
            prepared::look(piece.kind, &collected.bytes, collected.body_bytes)
        } else {
            // The server has begun to skip, or to read a COPY.
            Ok(Head::Plain)
        };
        if head == Ok(Head::More) {
            ready.collected = Some(collected);
            return Taken::UpTo(piece.range.end);
        }
        let Collected { ref bytes, body_bytes, charge } = *collected;
        // What is kept of it is charged for again.
        drop(charge);
        let mut out = Vec::new();
        let way = match head {
            Ok(Head::Plain) if is_query => {
                forget_unnamed(ready);
                Ok(Way::AsItIs)
            }
            Ok(Head::Plain) if is_read(server) => {
                self.plain(ready, server, piece.kind, bytes, (Extent::of(bytes, body_bytes), body_bytes), &mut out)
            }
            Ok(Head::Named(ask)) => self.ask(ready, server, ask, body_bytes, &mut out),
            Ok(Head::Plain | Head::More) => Ok(Way::AsItIs),
            Err(fault) => Err(fault),
        };
        match way {
            Ok(Way::Replaced(end)) => {
                send_all(io, server, out);
                ready.fate = Fate::Forward;
                Taken::UpTo(piece.range.start + end - before)
            }
            Ok(Way::AsItIs) if server.exchange.asked(piece.kind) == Asked::Forward => {
                send_all(io, server, out);
                let head: Box<[u8]> = [ready.scanner.header(), &bytes[..before]].concat().into();
                io.send(server.conn, Chunk::Own(head));
                ready.fate = Fate::Forward;
                Taken::UpTo(piece.range.start)
            }
            Ok(Way::AsItIs) => wrong(ready, Fault::UnexpectedInCopy),
            Err(fault) => wrong(ready, fault),
        }
    }

    fn ask(
        &mut self,
        ready: &mut Ready,
        server: &mut Server,
        ask: Ask<'_>,
        body_bytes: usize,
        out: &mut Vec<Bytes>,
    ) -> Result<Way, Fault> {
        // Where its transaction has done what nobody can read, any name may have been given there.
        let is_of_any = match ask {
            Ask::Close { .. } => true,
            Ask::Parse { .. } => server.stock.has_room_for_own(),
            Ask::Bind { .. } | Ask::Describe { .. } => false,
        };
        let is_any = is_of_any && ready.traces.as_ref().is_some_and(|traces| traces.may_have_prepared_any());
        let is_by_sql = self.follows && (is_any || may_be_by_sql(ready, ask.name()));
        let names: &mut Names = ready.names.get_or_insert_default();
        if is_by_sql && matches!(ask, Ask::Close { name } if !names.has(name)) {
            // It is asked what that has left.
            ready.traces.get_or_insert_default().doubt(Touches::STATEMENTS);
        }
        let is_settled = ready.traces.as_ref().is_none_or(|traces| !traces.is_meaning_in_doubt());
        let dialect = names.dialect(&ready.vars, self.tracked, ready.overrides.as_ref());
        let mut sides = Sides {
            names,
            account: &ready.account,
            library: self.library,
            exchange: &mut server.exchange,
            dialect,
            tracked: self.tracked,
            is_settled,
            is_by_sql,
            max: self.max,
            follows: self.follows,
            moment: self.moment,
            tally: &mut self.tally,
            out,
        };
        server.stock.ask(ask, body_bytes, &mut sides)
    }
}

/// A simple query gives the statement without a name up.
fn forget_unnamed(ready: &mut Ready) {
    if ready.unnamed.is_kept() {
        ready.unnamed.forget();
    }
    if let Some(names) = ready.names.as_mut().filter(|names| names.has_unnamed()) {
        names.forget_unnamed();
    }
}

/// Whether a client may have prepared a statement of this name by SQL.
pub(crate) fn may_be_by_sql(ready: &Ready, name: &[u8]) -> bool {
    if ready.overrides.is_none() && ready.traces.is_none() {
        return false;
    }
    let is_carried = |name: &str| {
        ready.overrides.as_ref().is_some_and(|overrides| overrides.statements().get(name).is_some())
            || ready.traces.as_ref().is_some_and(|traces| traces.may_have_prepared(name))
    };
    std::str::from_utf8(name).is_ok_and(is_carried)
}

/// Whether the server reads what it is sent now as messages of the extended protocol.
fn is_read(server: &Server) -> bool {
    !server.exchange.is_copying_in() && !server.exchange.is_skipping()
}

fn wrong(ready: &mut Ready, fault: Fault) -> Taken {
    ready.fate = Fate::Drop;
    Taken::Wrong(fault)
}

fn send_all<I: Io>(io: &mut I, server: &Server, out: Vec<Bytes>) {
    for bytes in out {
        let chunk = match bytes {
            Bytes::Own(bytes) => Chunk::Own(bytes.into()),
            Bytes::Shared(bytes) => Chunk::Shared(bytes),
        };
        io.send(server.conn, chunk);
    }
}

impl<I: Io> Worker<I> {
    /// How many statements a server of this pool may have; 0 when its clients are not followed.
    pub(crate) fn statements_max(&self, pool: PoolKey) -> usize {
        let is_session = self.places.pool(pool).is_none_or(|place| place.mode == Mode::Session);
        if is_session { 0 } else { self.force.settings.max_prepared_statements as usize }
    }

    /// The server has answered: what that means for its statements and those of its client.
    pub(crate) fn settle_statements(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let client = server.client().and_then(|client| self.clients.get_mut(client));
        server.stock.settle(&mut server.exchange, client.and_then(names));
    }

    /// Gives the client the answers that its server was not asked for and that come now.
    pub(crate) fn give_due(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if !server.exchange.has_due() || server.scanner.is_in_body() {
            return;
        }
        let mut out = Vec::new();
        while let Some(kind) = server.exchange.due() {
            write::bare(&mut out, kind);
        }
        self.give_client_own(key, out.into());
    }

    /// The server has said that all its statements are gone.
    pub(crate) fn statements_dropped(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key) else { return };
        server.told_by.doubt();
        let client = server.client().filter(|_| !server.exchange.is_ours());
        let mut client = client.and_then(|client| self.clients.get_mut(client));
        without_statements(&mut server.overrides);
        if let Some(Client { stage: Stage::Ready(ready), .. }) = client.as_deref_mut() {
            // Those too that could not be prepared here.
            without_statements(&mut ready.overrides);
        }
        server.stock.drop_all(client.and_then(names));
    }

    /// The server has said that a statement is gone that its client has dropped by SQL.
    pub(crate) fn statement_dropped(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key).filter(|server| server.stock.is_dropping()) else { return };
        let client = server.client().and_then(|client| self.clients.get_mut(client));
        server.stock.dropped(client.and_then(names));
    }

    /// It cannot be told any more which answer is whose.
    pub(crate) fn statements_lost(&mut self, key: ServerKey) {
        let client = self.servers.get(key).and_then(Server::client);
        self.lose_server(key, crate::mend::UNPROVEN);
        if let Some(client) = client {
            self.fail_client(client, &Fault::StatementsLost);
        }
    }

    /// Says in the log which statement it was.
    pub(crate) fn explain_statement(&mut self, client: Key, fault: &Fault) {
        let (name, what) = match fault {
            Fault::StatementUnknown { name } => (name, "not found"),
            Fault::StatementInUse { name } => (name, "was already prepared"),
            _ => return,
        };
        let line = self.client_prefix(client);
        self.log.add(Level::Error, format_args!("{line}prepared statement '{name}' {what}"));
    }
}

/// The names of a client.
fn names(client: &mut Client) -> Option<&mut Names> {
    match &mut client.stage {
        Stage::Ready(ready) => ready.names.as_deref_mut(),
        _ => None,
    }
}

/// An error of a server, as its client is to read it, where that is not as it was sent.
pub(crate) fn reworded_for(client: &mut Client, body: &[u8]) -> Option<Box<[u8]>> {
    let body = names(client)?.reworded(body)?;
    let mut error = Vec::with_capacity(HEADER_BYTES + body.len());
    write::message(&mut error, backend::ERROR_RESPONSE, |out| out.extend_from_slice(&body));
    Some(error.into())
}

/// A longer simple query that comes in pieces is not kept until it is whole: the server is told what its names mean only by shorter ones.
const SAYING_BYTES_MAX: usize = 8192;
