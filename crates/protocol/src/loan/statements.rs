//! Forwards messages about named prepared statements from a client to its current server.
//!
//! Always true: only the head of a message is examined, and copied if it has to be; the parameter values of a Bind are
//! sent from where they were received; for a client that uses no names only the first bytes of each message are examined.
//! Not here: which messages give a server the statements that its client means (`prepared`).

mod unnamed;

use std::rc::Rc;

use route::{Act, Class, Dialect, DirtyState};
use wire::backend::TxStatus;
use wire::frame::Part;
use wire::{Piece, frontend, write};

use super::client_session::{ClientSession, RequestFate};
use super::reading::drops_names;
use super::requests::{Progress, ToServer};
use super::server_session::ServerSession;
use crate::exchange::{Asked, Exchange};
use crate::fault::Fault;
use crate::prepared::{
    self, Ask, Bytes, CatalogVersion, Charge, HELD_BYTES_MAX, Head, Kept, MentionedNames, NAME_BYTES_MAX, Sides,
    StatementRegistry, Tally, UnnamedReading, Way,
};
use crate::vars::Tracked;
use unnamed::forget_unnamed;
pub(super) use unnamed::{unnamed_fails, unnamed_reading};

/// The beginning of a message that is too short to tell what it asks.
#[derive(Debug)]
pub struct Collected {
    /// The received part of its body.
    pub bytes: Vec<u8>,
    /// The length of the whole body, according to the header.
    pub body_bytes: usize,
    /// The memory charged to the client for it.
    pub charge: Charge,
}

/// What is needed beside the two sessions to follow statements.
pub(super) struct Following<'a> {
    /// `max_prepared_statements`; 0 where statements do not follow clients.
    pub(super) max: usize,
    /// Whether session state follows clients, so that the server has what its client has and nothing else.
    pub(super) follows: bool,
    /// `reuse_unnamed_statements`.
    pub(super) reuses: bool,
    pub(super) statement_registry: &'a mut StatementRegistry,
    pub(super) catalog_version: CatalogVersion,
    pub(super) tracked: &'a Tracked,
    pub(super) tally: Tally,
}

/// How much of a message is available.
#[derive(Clone, Copy)]
enum Extent {
    /// All of it.
    Whole,
    /// Not all of it.
    Part,
}

impl Extent {
    fn of(body: &[u8], body_bytes: usize) -> Self {
        if body.len() == body_bytes { Self::Whole } else { Self::Part }
    }
}

/// What has been done with a piece of a message.
pub(super) enum Taken {
    /// Nothing of the message itself: it is forwarded like any other.
    Not,
    /// It goes to the server as it is, and has been counted.
    Counted,
    /// It is processed up to this position in the chunk; what follows goes to the server as it is.
    UpTo(usize),
    /// It waits for an answer, with all that follows it: from where it begins in the chunk on, or these bytes if it has begun
    /// before that.
    Waits(Option<Vec<u8>>),
    /// The client cannot continue.
    Wrong(Fault),
}

impl Following<'_> {
    /// Which requests are kept in case the server refuses them.
    pub(super) fn kept(&self) -> Kept {
        match (self.max, self.reuses) {
            (0, _) => Kept::Nothing,
            (_, false) => Kept::Named,
            (_, true) => Kept::All,
        }
    }

    /// Checks whether a piece concerns a named statement, and sends what has to be sent for it, behind the bytes before it.
    pub(super) fn take(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        progress: &mut Progress<'_, impl ToServer>,
        piece: &Piece,
    ) -> Taken {
        if client.fate == RequestFate::Collect {
            return self.continue_collected(client, server, progress, piece);
        }
        let Part::First { body_bytes, .. } = piece.part else { return Taken::Not };
        let body_bytes = body_bytes as usize;
        match piece.kind {
            kind if self.max > 0 && prepared::concerns(kind) && is_read(server) => {
                return self.begins(client, server, progress, piece, body_bytes);
            }
            // A query is searched for names when it is complete, before the server has any of it.
            frontend::QUERY if !piece.is_whole() && self.may_say_names(client, server, body_bytes) => {
                return self.collect(client, progress, piece, body_bytes);
            }
            frontend::QUERY if is_read(server) => {
                let text = piece.is_whole().then(|| &progress.bytes[piece.body.clone()]);
                forget_unnamed(client, server, text);
            }
            frontend::PARSE if self.max > 0 && server.exchange.is_skipping() => {
                let body = &progress.bytes[piece.body.clone()];
                if is_name_to_come(body, body_bytes) {
                    return self.collect(client, progress, piece, body_bytes);
                }
                skip_name(client, body);
            }
            _ => {}
        }
        Taken::Not
    }

    /// Handles a `DEALLOCATE` in SQL of a statement that the client has prepared by the protocol, and returns whether it
    /// has done so. No server knows the statement by that name, so a stand-in is prepared and dropped, and the server
    /// answers as expected.
    pub(super) fn deallocates(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        progress: &mut Progress<'_, impl ToServer>,
        piece: &Piece,
    ) -> bool {
        if piece.kind != frontend::QUERY {
            return false;
        }
        let is_fit = self.max > 0
            && piece.is_whole()
            && server.exchange.owes_nothing()
            && server.exchange.is_proven()
            && server.exchange.status() != TxStatus::Failed;
        let Some(names) = client.names.as_mut().filter(|_| is_fit) else { return false };
        let text = progress.bytes[piece.body.clone()].split_last().map(|(_, text)| text).unwrap_or_default();
        let Some(name) = route::deallocated(text, Dialect::default()) else { return false };
        if !names.deallocate(name.as_bytes()) {
            return false;
        }
        let mut out = Vec::new();
        write::query(&mut out, "PREPARE TRUNKLINE_GONE AS SELECT 1");
        server.exchange.asks_ours();
        write::query(&mut out, "DEALLOCATE TRUNKLINE_GONE");
        server.exchange.asked(frontend::QUERY);
        server.repeatable.forget();
        progress.insert(piece, [Bytes::Own(out)]);
        true
    }

    /// A message, or the statement that it binds, mentions names of statements, which are the same in SQL and in the
    /// protocol: the server is given, under these names, the statements that the client has prepared by the protocol,
    /// behind the bytes before the message.
    pub(super) fn brings(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        progress: &mut Progress<'_, impl ToServer>,
        piece: &Piece,
        class: &Class,
    ) {
        let is_unsent = matches!(piece.part, Part::First { .. }) || client.fate == RequestFate::Collect;
        let is_fit = self.max > 0 && is_unsent && server.exchange.status() != TxStatus::Failed;
        let Some(names) = client.names.as_mut().filter(|_| is_fit) else { return };
        let executed = client.session_effects.as_ref().map(|effects| effects.executed_by(class)).unwrap_or_default();
        let all = || [class].into_iter().chain(executed.iter().map(|class| &**class));
        let drops_names = all().any(drops_names);
        let drops = all().flat_map(|class| &class.acts).filter_map(|act| match act {
            Act::Deallocate { name: Some(name) } if piece.kind != frontend::PARSE => Some(&**name),
            _ => None,
        });
        let is_looked_up = piece.kind != frontend::PARSE || are_names_looked_up_by_parse(class);
        let mentioned_names = all().filter(|_| is_looked_up).flat_map(|class| &class.statements).map(|name| &**name);
        let is_query = piece.kind == frontend::QUERY;
        let mentioned = MentionedNames { names: mentioned_names.collect(), drops: drops.collect(), is_query };
        let mut out = Vec::new();
        server.server_statements.bring_own(&mentioned, names, &mut server.exchange, &mut out);
        if !out.is_empty() {
            server.repeatable.forget();
            progress.insert(piece, [Bytes::Own(out)]);
        }
        match piece.kind {
            _ if !drops_names => {}
            frontend::QUERY => names.doubts_until(server.exchange.number()),
            frontend::BIND => names.binds_drop(),
            _ => {}
        }
    }

    fn begins(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        progress: &mut Progress<'_, impl ToServer>,
        piece: &Piece,
        body_bytes: usize,
    ) -> Taken {
        let (body, behind) = (&progress.bytes[piece.body.clone()], &progress.bytes[piece.body.start..]);
        let head = match prepared::head(piece.kind, body, body_bytes) {
            Ok(Head::More) => return self.collect(client, progress, piece, body_bytes),
            Ok(head) => head,
            Err(fault) => return wrong(client, fault),
        };
        let mut out = self.statement_registry.take_list();
        let way = match head {
            Head::Named(ask) => self.ask(client, server, (ask, body_bytes, behind), &mut out),
            _ => {
                let extent = Extent::of(body, body_bytes);
                self.plain(client, server, piece.kind, body, (extent, body_bytes, behind), &mut out)
            }
        };
        let taken = match way {
            Ok(Way::AsItIs) => {
                if !out.is_empty() {
                    progress.insert(piece, out.drain(..));
                }
                Taken::Not
            }
            Ok(Way::Counted) if matches!(piece.part, Part::First { carried: 0, .. }) => {
                client.fate = RequestFate::Forward;
                Taken::Counted
            }
            Ok(Way::Counted) => {
                out.push(Bytes::Own(from_header(client, body)));
                progress.insert(piece, out.drain(..));
                client.fate = RequestFate::Forward;
                Taken::UpTo(piece.range.end)
            }
            Ok(Way::Replaced(end)) => {
                progress.insert(piece, out.drain(..));
                client.fate = RequestFate::Forward;
                Taken::UpTo(piece.body.start + end)
            }
            Ok(Way::Waits) => {
                progress.insert(piece, out.drain(..));
                // The header may have come in parts.
                let is_whole = matches!(piece.part, Part::First { carried: 0, .. });
                Taken::Waits(if is_whole { None } else { Some(from_header(client, behind)) })
            }
            Err(fault) => wrong(client, fault),
        };
        self.statement_registry.keep_list(out);
        taken
    }

    /// Handles a message that concerns no named statement. The unnamed statement follows the client as well.
    fn plain(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        kind: u8,
        body: &[u8],
        (extent, body_bytes, behind): (Extent, usize, &[u8]),
        out: &mut Vec<Bytes>,
    ) -> Result<Way, Fault> {
        if let Some(ask) = self.as_named(client, server, kind, body, extent) {
            let way = self.ask(client, server, (ask, body_bytes, behind), out)?;
            let parse = match kind {
                frontend::PARSE => Some([&client.scanner.header()[..], body]),
                frontend::CLOSE => None,
                _ => return Ok(way),
            };
            // Should that be skipped, the statement before it is needed again.
            let (exchange, account) = (&server.exchange, &client.account);
            let statement = client.names.as_ref().and_then(|names| names.statement(b"")).cloned();
            let reading = UnnamedReading { statement, ..unnamed_reading(client, self.follows) };
            client.unnamed.has_sent_renamed(parse, reading, exchange, account, self.statement_registry);
            return Ok(way);
        }
        match kind {
            frontend::PARSE => {
                let parse = matches!(extent, Extent::Whole).then(|| [&client.scanner.header()[..], body]);
                let mut reading = unnamed_reading(client, self.follows);
                if parse.is_none() {
                    // It is read when all of it has arrived.
                    reading.class = Some(Rc::new(Class::unread()));
                }
                let (exchange, account) = (&server.exchange, &client.account);
                client.unnamed.prepares(parse, reading, exchange, account, self.statement_registry);
            }
            frontend::BIND => self.brings_unnamed(client, server, out)?,
            frontend::DESCRIBE if body == b"P\0" => {
                let ServerSession { server_statements, exchange, .. } = server;
                if let Some(names) = &mut client.names
                    && server_statements.describes_portal(names, exchange)
                {
                    return Ok(Way::Counted);
                }
            }
            // It concerns a portal.
            _ if body.first() != Some(&b'S') => {}
            frontend::CLOSE => client.unnamed.closes(&server.exchange),
            _ => self.brings_unnamed(client, server, out)?,
        }
        Ok(Way::AsItIs)
    }

    /// Whether a name cannot be converted from the client's encoding, where no conversion is needed.
    fn is_no_text(&self, client: &ClientSession, name: &[u8]) -> bool {
        let is_utf8 = |parameter: &str| {
            self.tracked.reported_place(parameter).is_some_and(|place| client.vars.get(place) == Some("UTF8"))
        };
        // The name may have been cut in the middle of a character.
        let is_wrong = std::str::from_utf8(name).is_err_and(|error| error.error_len().is_some());
        is_wrong && is_utf8("client_encoding") && is_utf8("server_encoding")
    }

    /// Whether a simple query of this length, whose beginning has come, may mention names of statements that the client
    /// has prepared by the protocol.
    fn may_say_names(&self, client: &ClientSession, server: &ServerSession, body_bytes: usize) -> bool {
        let has_names = client.names.as_ref().is_some_and(|names| names.count() > 0);
        // The server may have a name that the client has closed since.
        let may_have = has_names || client.names.is_some() && server.server_statements.has_own();
        self.max > 0 && self.follows && may_have && body_bytes <= SAYING_BYTES_MAX && is_read(server)
    }

    fn collect(
        &mut self,
        client: &mut ClientSession,
        progress: &mut Progress<'_, impl ToServer>,
        piece: &Piece,
        body_bytes: usize,
    ) -> Taken {
        progress.send_before(piece);
        let body = &progress.bytes[piece.body.clone()];
        // Only received bytes are charged, so that a claimed length takes no room from others; a statement that can never
        // have room is not waited for.
        if piece.kind == frontend::PARSE && body_bytes > HELD_BYTES_MAX {
            return wrong(client, Fault::StatementsFull);
        }
        let charge = match self.statement_registry.charge(&client.account, body.len()) {
            Ok(charge) => charge,
            Err(full) => return wrong(client, full),
        };
        client.collected = Some(Box::new(Collected { bytes: body.to_vec(), body_bytes, charge }));
        client.fate = RequestFate::Collect;
        Taken::UpTo(piece.range.end)
    }

    /// More has arrived of a message whose beginning was collected.
    fn continue_collected(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        progress: &mut Progress<'_, impl ToServer>,
        piece: &Piece,
    ) -> Taken {
        let Some(mut collected) = client.collected.take() else { return Taken::Not };
        let before = collected.bytes.len();
        if let Err(full) = collected.charge.grow(piece.body.len()) {
            return wrong(client, full);
        }
        collected.bytes.extend_from_slice(&progress.bytes[piece.body.clone()]);
        let is_query = piece.kind == frontend::QUERY;
        let head = if is_query && collected.bytes.len() < collected.body_bytes {
            Ok(Head::More)
        } else if is_read(server) {
            prepared::head(piece.kind, &collected.bytes, collected.body_bytes)
        } else if piece.kind == frontend::PARSE && server.exchange.is_skipping() {
            let is_to_come = is_name_to_come(&collected.bytes, collected.body_bytes);
            if !is_to_come {
                skip_name(client, &collected.bytes);
            }
            Ok(if is_to_come { Head::More } else { Head::Plain })
        } else {
            // The server has begun to skip, or to read a COPY.
            Ok(Head::Plain)
        };
        if head == Ok(Head::More) {
            client.collected = Some(collected);
            return Taken::UpTo(piece.range.end);
        }
        let Collected { ref bytes, body_bytes, charge } = *collected;
        // The part of it that is kept is charged again.
        drop(charge);
        let mut out = Vec::new();
        let way = match head {
            Ok(Head::Plain) if is_query => {
                if is_read(server) {
                    forget_unnamed(client, server, Some(bytes));
                }
                Ok(Way::AsItIs)
            }
            Ok(Head::Plain) if is_read(server) => {
                let extent = (Extent::of(bytes, body_bytes), body_bytes, &bytes[..]);
                self.plain(client, server, piece.kind, bytes, extent, &mut out)
            }
            Ok(Head::Named(ask)) => self.ask(client, server, (ask, body_bytes, bytes), &mut out),
            Ok(Head::Plain | Head::More) => Ok(Way::AsItIs),
            Err(fault) => Err(fault),
        };
        match way {
            Ok(Way::Replaced(end)) => {
                progress.insert(piece, out);
                client.fate = RequestFate::Forward;
                Taken::UpTo(piece.range.start + end - before)
            }
            Ok(Way::Counted) => {
                out.push(Bytes::Own(from_header(client, bytes)));
                progress.insert(piece, out);
                client.fate = RequestFate::Forward;
                Taken::UpTo(piece.range.end)
            }
            Ok(Way::Waits) => {
                progress.insert(piece, out);
                let mut message = from_header(client, bytes);
                message.extend_from_slice(&progress.bytes[piece.range.end..]);
                Taken::Waits(Some(message))
            }
            Ok(Way::AsItIs) if server.exchange.asked(piece.kind) == Asked::Forward => {
                out.push(Bytes::Own([client.scanner.header(), &bytes[..before]].concat()));
                progress.insert(piece, out);
                client.fate = RequestFate::Forward;
                Taken::UpTo(piece.range.start)
            }
            Ok(Way::AsItIs) => wrong(client, Fault::UnexpectedInCopy),
            Err(fault) => wrong(client, fault),
        }
    }

    fn ask(
        &mut self,
        client: &mut ClientSession,
        server: &mut ServerSession,
        (ask, body_bytes, behind): (Ask<'_>, usize, &[u8]),
        out: &mut Vec<Bytes>,
    ) -> Result<Way, Fault> {
        if matches!(ask, Ask::Parse { .. } | Ask::Close { .. }) && self.is_no_text(client, ask.name()) {
            // The server refuses it.
            return Ok(Way::AsItIs);
        }
        // After a call of unknown effect in its transaction, any name may have been prepared on the server by SQL.
        let is_of_any = match ask {
            Ask::Close { .. } => true,
            Ask::Parse { .. } => server.server_statements.has_room_for_own(),
            Ask::Bind { .. } | Ask::Describe { .. } => false,
        };
        let is_any =
            is_of_any && client.session_effects.as_ref().is_some_and(|effects| effects.may_have_prepared_any());
        let is_by_sql = self.follows && (is_any || may_be_by_sql(client, ask.name()));
        if is_by_sql
            && matches!(ask, Ask::Close { .. })
            && !client.names.as_ref().is_some_and(|names| names.has(ask.name()))
        {
            // The server is probed for the statements that are left.
            client.session_effects.get_or_insert_default().doubt(DirtyState::STATEMENTS);
        }
        let mut sides = self.sides(client, &mut server.exchange, is_by_sql, behind, out);
        let way = server.server_statements.ask(ask, body_bytes, &mut sides);
        if matches!(ask, Ask::Parse { .. }) && server.server_statements.has_given_parse() {
            server.repeatable.relies_on_earlier_parse();
        }
        way
    }

    fn sides<'a>(
        &'a mut self,
        client: &'a mut ClientSession,
        exchange: &'a mut Exchange,
        is_by_sql: bool,
        behind: &'a [u8],
        out: &'a mut Vec<Bytes>,
    ) -> Sides<'a> {
        let is_settled = is_settled(client);
        let names = client.names.get_or_insert_default();
        let dialect = names.dialect(&client.vars, self.tracked, client.overrides.as_ref());
        Sides {
            names,
            account: &client.account,
            statement_registry: self.statement_registry,
            exchange,
            dialect,
            tracked: self.tracked,
            is_settled,
            is_by_sql,
            max: self.max,
            follows: self.follows,
            catalog_version: self.catalog_version,
            tally: &mut self.tally,
            behind,
            out,
        }
    }
}

/// Whether nothing that is unanswered may have changed how the client's texts are read.
fn is_settled(client: &ClientSession) -> bool {
    client.session_effects.as_ref().is_none_or(|effects| !effects.is_meaning_in_doubt())
}

/// Whether the Parse of this text looks at the names that it mentions, as that of an EXECUTE does, whose rows are described.
/// A hidden Parse before any other would be refused with `25P02` in a failed transaction, and hide what is wrong with the text
/// itself; what the names mean is early enough before the Bind. Several statements are refused.
fn are_names_looked_up_by_parse(class: &Class) -> bool {
    !matches!(&*class.acts, [Act::Deallocate { .. } | Act::Prepare { .. }] | [_, _, ..])
}

/// Whether a client may have prepared a statement of this name by SQL.
#[must_use]
pub fn may_be_by_sql(client: &ClientSession, name: &[u8]) -> bool {
    if client.overrides.is_none() && client.session_effects.is_none() {
        return false;
    }
    let is_carried = |name: &str| {
        client.overrides.as_ref().is_some_and(|overrides| overrides.statements().get(name).is_some())
            || client.session_effects.as_ref().is_some_and(|effects| effects.may_have_prepared(name))
    };
    std::str::from_utf8(name).is_ok_and(is_carried)
}

/// Whether the server reads what it is sent now as messages of the extended protocol.
fn is_read(server: &ServerSession) -> bool {
    !server.exchange.is_copying_in() && !server.exchange.is_skipping()
}

/// Whether the name in a Parse may be incomplete.
fn is_name_to_come(body: &[u8], body_bytes: usize) -> bool {
    body.len() < body_bytes.min(NAME_BYTES_MAX) && !body.contains(&0)
}

/// The server skips a Parse. The client cannot know that the name does not exist, and the server reports that when it is bound.
fn skip_name(client: &mut ClientSession, body: &[u8]) {
    if body.first() == Some(&0) {
        client.restore_unnamed();
    }
    if let Some(name) = prepared::given_name(body) {
        client.names.get_or_insert_default().skip(name);
    }
}

/// A message that has begun in an earlier chunk, to be processed again from its header on.
fn from_header(client: &ClientSession, body: &[u8]) -> Vec<u8> {
    [client.scanner.header(), body].concat()
}

fn wrong(client: &mut ClientSession, fault: Fault) -> Taken {
    client.fate = RequestFate::Drop;
    Taken::Wrong(fault)
}

/// A longer simple query that arrives in pieces is not collected: the server is given the statements that it mentions
/// only for shorter ones.
const SAYING_BYTES_MAX: usize = 8192;
