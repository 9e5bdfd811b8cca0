//! A client and a server with only a loan between them: short stories of what they send, and what comes out.
//!
//! Always true: the worker's reaction to a result (`ServerEvent`, `NextStep`) is shown in a word, and done only as far as the story
//! needs it: the client's held request is sent once the server has the client's settings.

mod ending;
pub(crate) mod notation;
mod session_state;
mod sink;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::{Key, Time};
use notation::{Side, bytes, words};
use protocol::fault::Fault;
use protocol::loan::{
    Answers, ClientSession, Differences, Forwarded, LoanPhase, NextStep, Place, Requests, ServerEvent, ServerSession,
    Texts, begin,
};
use protocol::prepared::{StatementRegistry, Tally};
use protocol::server::reset::ResetQuery;
use protocol::state::{FunctionCatalog, Kind, PinRules, Policy, Unseen};
use protocol::vars::{Known, Tracked, Vars};
use sink::Sink;

/// The sessions of a story, and the output since the last line of dashes.
pub(crate) struct Stage {
    tracked: Tracked,
    known: Known,
    statement_registry: StatementRegistry,
    texts: Texts,
    function_catalog: FunctionCatalog,
    scopes: u32,
    rules: Rc<PinRules>,
    /// The time, in seconds.
    now: Time,
    verifies: bool,
    /// The reset query at the end of every loan, if any.
    reset: Option<ResetQuery>,
    tally: Tally,
    /// How many requests have begun when nothing was owed to their clients.
    begun: u32,
    follows: bool,
    statements_max: usize,
    reuses_unnamed: bool,
    refuses_queries: bool,
    one_by_one: bool,
    is_statement_mode: bool,
    withholds: bool,
    is_listener: bool,
    clients: BTreeMap<String, ClientSession>,
    servers: BTreeMap<String, ServerSession>,
    /// The server that each client has.
    loans: BTreeMap<String, String>,
    /// Messages of clients that have not been sent to a server.
    held: BTreeMap<String, Vec<u8>>,
    /// Clients and servers that have failed or left, whose messages are ignored.
    gone: BTreeSet<String>,
    lines: Vec<String>,
    /// Everything that was sent to each, in order.
    sent: BTreeMap<String, Vec<u8>>,
    /// The size in bytes of the parts into which all input is cut; 0 for none.
    cut: usize,
    /// The same, as set by the story.
    parts: usize,
}

/// The outcome of a story.
#[derive(PartialEq, Eq)]
pub(crate) struct Outcome {
    /// What each has been sent.
    sent: BTreeMap<String, Vec<u8>>,
    /// What is known of each session.
    believed: BTreeMap<String, String>,
}

impl Stage {
    /// With all input cut into parts of so many bytes; 0 for none.
    pub(crate) fn new(cut: usize) -> Self {
        Self {
            tracked: Tracked::new([]),
            known: Known::default(),
            statement_registry: StatementRegistry::new(1, 1),
            texts: Texts::default(),
            function_catalog: FunctionCatalog::new(1),
            scopes: 1,
            rules: Rc::new(rules()),
            now: Time(0),
            verifies: false,
            reset: None,
            tally: Tally::default(),
            begun: 0,
            follows: false,
            statements_max: 0,
            reuses_unnamed: false,
            refuses_queries: false,
            one_by_one: false,
            is_statement_mode: false,
            withholds: false,
            is_listener: false,
            clients: BTreeMap::new(),
            servers: BTreeMap::new(),
            loans: BTreeMap::new(),
            held: BTreeMap::new(),
            gone: BTreeSet::new(),
            lines: Vec::new(),
            sent: BTreeMap::new(),
            cut,
            parts: 0,
        }
    }

    /// The output since the last call.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// The outcome so far.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome { sent: self.sent.clone(), believed: self.believed() }
    }

    /// Whether output can be shown as messages: a part need not begin where a message does.
    fn is_in_words(&self) -> bool {
        self.cut == 0 && self.parts == 0
    }

    /// Plays one line.
    pub(crate) fn play(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest) {
            ("set", rest) => self.set(rest),
            ("lend", pair) => {
                let (server, client) = pair.split_once(" to ").expect("lend SERVER to CLIENT");
                self.lend(server, client);
            }
            ("end", client) => self.end(client),
            ("leave", client) => self.leave(client),
            ("cancel", server) => self.cancel(server),
            ("cancelled", server) => self.cancelled(server),
            ("show", name) => self.show(name),
            (name, said) if name.ends_with(':') => self.say(name.trim_end_matches(':'), said),
            _ => panic!("no line of a story: {line:?}"),
        }
    }

    fn set(&mut self, what: &str) {
        let words: Vec<&str> = what.split(' ').collect();
        match words.as_slice() {
            ["follows"] => self.follows = true,
            ["statements", max] => self.statements_max = max.parse().expect("a number"),
            ["reuses_unnamed"] => self.reuses_unnamed = true,
            ["refuses_queries"] => self.refuses_queries = true,
            ["one_by_one"] => self.one_by_one = true,
            ["statement_mode"] => self.is_statement_mode = true,
            ["withholds"] => self.withholds = true,
            ["listener"] => self.is_listener = true,
            // The listener listens to these channels for the client.
            ["listened_for", name] => {
                let client = client(&mut self.clients, &mut self.known, &self.tracked, name);
                client.subscriptions(0).comes_with(["a", "b", "c"].map(Box::from).into_iter());
            }
            // Programs of the user ask for numbers that they have drawn in an earlier transaction.
            ["asks_for_numbers"] => self.function_catalog.note_asker(0),
            ["functions_known"] => drop(self.function_catalog.learn(route::Knowledge::default(), 0, self.now, 1)),
            // It is unknown what a function of this name does.
            ["suspects", name] => {
                let _ = self.function_catalog.learn(route::Knowledge::new([*name], false), 0, self.now, 1);
            }
            ["rejects", kind] => self.policy(kind, Policy::Reject),
            ["pins", kind] => self.policy(kind, Policy::Pin),
            ["unseen", what] => {
                let unseen = match *what {
                    "pin" => Unseen::Pin,
                    "ignore" => Unseen::Ignore,
                    _ => Unseen::Verify,
                };
                Rc::make_mut(&mut self.rules).unseen = unseen;
            }
            // How many bytes may be kept for a client.
            ["room", bytes] => self.statement_registry.limit_clients(bytes.parse().expect("a number")),
            // The reset query at the end of every loan of the pool.
            ["resets"] => self.reset = Some(ResetQuery::new("discard all")),
            // The answer to the present request is counted.
            ["tallies", server] => {
                self.servers.get_mut(*server).expect("a server").answer_tally = Some(Box::default());
            }
            ["hasty", server] => self.servers.get_mut(*server).expect("a server").was_hasty = true,
            ["verifies"] => self.verifies = true,
            ["time", secs] => self.now = Time::from_secs(secs.parse().expect("a number")),
            // A setting that the client gives in its startup packet.
            ["given", name, setting @ ..] => self.given(name, setting),
            ["user", name, user] => {
                let client = client(&mut self.clients, &mut self.known, &self.tracked, name);
                client.user = user.parse().expect("a number");
            }
            // Other clients of the user have named more custom settings than are known.
            ["misses_settings"] => self.function_catalog.custom.miss_some(0, self.now),
            // All input comes in parts of so many bytes, unless it is cut anyway.
            ["parts", bytes] if self.cut == 0 => self.parts = bytes.parse().expect("a number"),
            ["parts", _] => {}
            // The client's earlier messages were not read.
            ["unread", name] => client(&mut self.clients, &mut self.known, &self.tracked, name).begin_unread(),
            ["parameter", name, value] => self.parameter(name, value),
            other => panic!("nothing to set: {other:?}"),
        }
    }

    /// Sets a parameter with which a session begins.
    fn parameter(&mut self, name: &str, value: &str) {
        let (who, name) = name.split_once('.').expect("CLIENT.NAME or SERVER.NAME");
        let place = self.tracked.place(name).expect("a parameter that is followed");
        if who.starts_with('s') {
            let server = server(&mut self.servers, &mut self.known, &self.tracked, who);
            let mut vars = (*server.vars).clone();
            vars.set(place, value);
            server.begins_with(self.known.share(vars));
        } else {
            let client = client(&mut self.clients, &mut self.known, &self.tracked, who);
            let mut vars = (*client.vars).clone();
            vars.set(place, value);
            client.vars = self.known.share(vars);
            client.initial_vars = client.vars.clone();
        }
    }

    fn lend(&mut self, server_name: &str, client_name: &str) {
        let client = client(&mut self.clients, &mut self.known, &self.tracked, client_name);
        let server = server(&mut self.servers, &mut self.known, &self.tracked, server_name);
        if !server.exchange.may_end() || server.phase.kind() != protocol::loan::LoanPhaseKind::Free {
            self.lines.push(format!("{server_name} is not free"));
            return;
        }
        self.loans.insert(client_name.to_owned(), server_name.to_owned());
        begin(server, client, key(client_name), true);
        self.apply(client_name);
    }

    /// Gives the server the client's settings, and then sends the held request.
    fn apply(&mut self, client_name: &str) {
        let Some(server_name) = self.loans.get(client_name).cloned() else { return };
        let (Some(client), Some(server)) = (self.clients.get(client_name), self.servers.get_mut(&server_name)) else {
            return;
        };
        let held = self.held.get(client_name).map(Vec::as_slice);
        let differences = Differences::of(server, client, &self.tracked, true, &self.function_catalog);
        if differences.are_of_settings_only()
            && client.needs_nothing(server, held, &mut self.texts, &self.tracked, &self.function_catalog, self.now)
        {
            server.phase.becomes(LoanPhase::Unapplied);
            self.lines.push("needs nothing".to_owned());
            self.forward_held(client_name);
            return;
        }
        let may_go_along = client.says_one_request(held);
        let told = server.apply(client, key(client_name), differences, may_go_along, &self.tracked);
        if told.out.is_empty() {
            server.phase.becomes(LoanPhase::Running);
            self.forward_held(client_name);
            return;
        }
        server.phase.becomes(if told.is_along {
            LoanPhase::ApplyingAlong
        } else {
            LoanPhase::ApplyingBefore(self.now)
        });
        self.to(&server_name, Side::Client, &told.out);
        if told.is_along {
            self.forward_held(client_name);
        }
    }

    fn forward_held(&mut self, client_name: &str) {
        if let Some(held) = self.held.remove(client_name) {
            self.forward(client_name, held);
        }
    }

    fn say(&mut self, name: &str, said: &str) {
        let is_server = name.starts_with('s');
        let said = bytes(if is_server { Side::Server } else { Side::Client }, said);
        let size = [self.cut, self.parts, said.len()].into_iter().find(|bytes| *bytes > 0).unwrap_or(1);
        for part in said.chunks(size) {
            if self.gone.contains(name) {
                return;
            }
            if is_server {
                self.hear_server(name, part);
            } else {
                let client = client(&mut self.clients, &mut self.known, &self.tracked, name);
                let _ = client;
                self.hear_client(name, part.to_vec());
            }
        }
    }

    fn hear_client(&mut self, name: &str, said: Vec<u8>) {
        let server = self.loans.get(name).and_then(|server| self.servers.get(server));
        if server.is_some_and(|server| server.phase.is_running()) && !self.held.contains_key(name) {
            self.forward(name, said);
        } else {
            self.held.entry(name.to_owned()).or_default().extend(said);
        }
    }

    fn forward(&mut self, name: &str, said: Vec<u8>) {
        let mut next = Some(said);
        while let Some(said) = next.take() {
            let server_name = self.loans[name].clone();
            let client = self.clients.get_mut(name).expect("a client");
            let server = self.servers.get_mut(&server_name).expect("a server");
            let is_refusing = self.follows && self.rules.has_refusals();
            let mut requests = Requests {
                now: self.now,
                client: key(name),
                length_max: 1 << 30,
                statements_max: self.statements_max,
                reuses_unnamed: self.reuses_unnamed,
                refuses_queries: self.refuses_queries,
                one_by_one: self.one_by_one,
                follows: self.follows,
                unseen: self.rules.unseen,
                refusals: is_refusing.then(|| self.rules.clone()),
                server_user: 0,
                changes: 0,
                statement_registry: &mut self.statement_registry,
                texts: &mut self.texts,
                tracked: &self.tracked,
                function_catalog: &mut self.function_catalog,
                scopes: &mut self.scopes,
            };
            let mut out = Vec::new();
            let mut to_server = Sink { of: &said, out: &mut out };
            let Forwarded { unsent, next_step, waits, begun, tally, makes_functions, is_alone } =
                requests.hear(client, server, &said, &mut to_server);
            self.begun += begun;
            self.tally.client_parses += tally.client_parses;
            self.tally.server_parses += tally.server_parses;
            self.tally.binds += tally.binds;
            out.extend_from_slice(&said[unsent]);
            let due = if server.exchange.has_due() { server.take_due() } else { Box::default() };
            self.to(&server_name, Side::Client, &out);
            self.to(name, Side::Server, &due);
            if begun > 1 {
                self.lines.push(format!("{name} begins {begun} requests"));
            }
            if makes_functions {
                self.lines.push(format!("{name} may make functions"));
            }
            match next_step {
                NextStep::Go if is_alone => self.ask_in_advance(&server_name, name, &said),
                NextStep::Go => {}
                NextStep::Hold(at) => {
                    assert!(waits, "what is held waits");
                    let words = if self.is_in_words() { words(Side::Client, &said[at..]) } else { String::new() };
                    self.lines.push(format!("{name} waits with {words}"));
                    self.held.insert(name.to_owned(), said[at..].to_vec());
                }
                NextStep::HoldInstead(bytes) => {
                    assert!(waits, "what is held waits");
                    self.lines.push(format!("{name} waits"));
                    self.held.insert(name.to_owned(), bytes);
                }
                NextStep::Instead(bytes) => next = Some(bytes),
                NextStep::Leave => {
                    self.gone.insert(name.to_owned());
                    self.lines.push(format!("{name} leaves"));
                }
                NextStep::Fail(fault) => self.fail(name, &fault),
            }
        }
    }

    fn fail(&mut self, name: &str, fault: &Fault) {
        self.gone.insert(name.to_owned());
        let verdict = fault.verdict();
        self.lines.push(format!("{name} fails: {} {}", verdict.sqlstate, verdict.text));
    }

    fn hear_server(&mut self, name: &str, said: &[u8]) {
        let mut place = Place { start: 0, at: 0 };
        let has_said_all = self.servers.get(name).is_some_and(ServerSession::has_said_all);
        while place.at < said.len() {
            let client_name = self.loans.iter().find(|(_, server)| *server == name).map(|(client, _)| client.clone());
            let server = server(&mut self.servers, &mut self.known, &self.tracked, name);
            let mut client = client_name.as_ref().and_then(|client| self.clients.get_mut(client));
            let mut answers = Answers {
                tracked: &self.tracked,
                known: &mut self.known,
                shares_parameters: server.phase.shares_parameters(),
                is_listener: self.is_listener,
                is_statement_mode: self.is_statement_mode,
                withholds: self.withholds,
            };
            let mut out = Vec::new();
            let mut to_client = Sink { of: said, out: &mut out };
            let heard = loop {
                // A failed query is only counted, and the client is given its error with what follows.
                match answers.hear(client.as_deref_mut(), server, said, &mut place, &mut to_client) {
                    ServerEvent::QueryFailed(_) if place.at < said.len() => {}
                    heard => break heard,
                }
            };
            out.extend_from_slice(&said[place.start..place.at]);
            place.start = place.at;
            if let Some(client) = &client_name {
                self.to(client, Side::Server, &out);
            } else {
                assert!(out.is_empty(), "what nobody is to have was given to nobody");
            }
            if self.heed(name, client_name.as_deref(), heard) {
                return;
            }
        }
        if !has_said_all && self.servers.get(name).is_some_and(ServerSession::has_said_all) {
            self.lines.push(format!("{name} has said why it ends"));
        }
    }

    /// Acts on a server's message; returns whether its later messages are ignored.
    fn heed(&mut self, name: &str, client: Option<&str>, heard: ServerEvent<'_>) -> bool {
        let told = match heard {
            ServerEvent::All | ServerEvent::QueryFailed(_) => return false,
            ServerEvent::Ready { was_ours } => {
                self.ready(name, client, was_ours);
                return false;
            }
            ServerEvent::CaughtUp => {
                self.caught_up(name, client);
                return false;
            }
            ServerEvent::Unexpected { kind, what } => format!("{what}, message kind '{}'", kind.escape_ascii()),
            ServerEvent::FatalError(Some(body)) => format!("takes leave with {}", error(body)),
            ServerEvent::FatalError(None) => "takes leave".to_owned(),
            ServerEvent::Withheld => "is withheld what it ends with".to_owned(),
            ServerEvent::Lost => "cannot be followed any more".to_owned(),
            ServerEvent::Endless => "answers without end".to_owned(),
            ServerEvent::CatalogChange => "has changed the catalog".to_owned(),
            ServerEvent::Error(body) => {
                self.ours_failed(name, &body);
                return false;
            }
            ServerEvent::Notification(body) => {
                let mut message = Vec::new();
                wire::write::message(&mut message, b'A', |out| out.extend_from_slice(&body));
                format!("says to us {}", words(Side::Server, &message))
            }
            ServerEvent::Functions => "tells functions".to_owned(),
            ServerEvent::CopyBegins => "copies".to_owned(),
            ServerEvent::Refused => {
                self.lines.push(format!("{name} has refused the request"));
                self.say_again(name, client.expect("a client"));
                return false;
            }
            ServerEvent::RoleReport => "reports its role".to_owned(),
            ServerEvent::InTransaction => "is in a transaction that may not be".to_owned(),
        };
        let ends = matches!(told.as_str(), "cannot be followed any more" | "answers without end")
            || told.contains("message kind")
            || told.starts_with("takes leave");
        if ends {
            self.gone.insert(name.to_owned());
        }
        let line = format!("{name} {told}");
        // Each row reports this again.
        if told != "tells functions" || self.lines.last() != Some(&line) {
            self.lines.push(line);
        }
        ends
    }

    /// The server drops its plans, and is then sent again the request that it has refused.
    fn say_again(&mut self, name: &str, client: &str) {
        let server = self.servers.get_mut(name).expect("a server");
        self.held.insert(client.to_owned(), server.repeatable.begin_deallocation());
        server.phase.becomes(LoanPhase::Deallocating(self.now));
        server.exchange.asks_ours();
        self.to(name, Side::Client, &bytes(Side::Client, "Q \"deallocate all\""));
    }

    fn caught_up(&mut self, name: &str, client: Option<&str>) {
        let server = self.servers.get_mut(name).expect("a server");
        if !server.exchange.is_ours() {
            server.phase.becomes(LoanPhase::Running);
            server.repeatable.end_deallocation();
            if let Some(client) = client {
                self.forward_held(client);
            }
        }
    }

    /// Sends bytes of the other `side` to a client or server.
    fn to(&mut self, name: &str, side: Side, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.sent.entry(name.to_owned()).or_default().extend_from_slice(bytes);
            // A part need not begin where a message does.
            if self.is_in_words() {
                self.lines.push(format!("{name} < {}", words(side, bytes)));
            }
        }
    }
}

fn client<'a>(
    clients: &'a mut BTreeMap<String, ClientSession>,
    known: &mut Known,
    tracked: &Tracked,
    name: &str,
) -> &'a mut ClientSession {
    clients.entry(name.to_owned()).or_insert_with(|| ClientSession::new(0, known.share(Vars::new(tracked))))
}

fn server<'a>(
    servers: &'a mut BTreeMap<String, ServerSession>,
    known: &mut Known,
    tracked: &Tracked,
    name: &str,
) -> &'a mut ServerSession {
    servers.entry(name.to_owned()).or_insert_with(|| ServerSession::new(known.share(Vars::new(tracked))))
}

fn key(name: &str) -> Key {
    Key::first(u32::from(name.as_bytes()[0]))
}

fn rules() -> PinRules {
    let policy = |kind: Kind| match kind {
        Kind::Channel | Kind::Statement => Policy::Virtualize,
        _ => Policy::Pin,
    };
    PinRules { policies: Kind::ALL.map(policy), servers_max: None, age_max: None, unseen: Unseen::Verify }
}

fn error(body: &[u8]) -> String {
    let mut message = Vec::new();
    wire::write::message(&mut message, b'E', |out| out.extend_from_slice(body));
    words(Side::Server, &message)
}
