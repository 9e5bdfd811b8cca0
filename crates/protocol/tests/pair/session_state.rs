//! What the worker does at the end of a transaction where session state follows clients: it notes what is known, or
//! probes the server.
//!
//! Always true: a probe is shown by what it asks for, in that order; whether its SQL is right is tested with PostgreSQL.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::Time;
use protocol::loan::{
    ClientSession, LoanPhase, LoanPhaseKind, Probed, ProbedState, ServerSession, Terms, apply_effects, conclude,
    doubt_what_was_read, shared,
};
use protocol::request::is_of_one_statement;
use protocol::state::{Counted, Kind, Overrides, PinRules, Policy, Probe};
use protocol::vars::{Tracked, Vars};
use wire::backend::TxStatus;

use super::notation::Side;
use super::{Stage, client, server};

impl Stage {
    /// Sets the policy for this kind.
    pub(super) fn policy(&mut self, kind: &str, policy: Policy) {
        let place = Kind::ALL.iter().position(|known| known.short() == kind).expect("a kind");
        Rc::make_mut(&mut self.rules).policies[place] = policy;
    }

    /// A client gives a setting in its startup packet.
    pub(super) fn given(&mut self, name: &str, setting: &[&str]) {
        let setting = setting.join(" ");
        let (setting, value) = setting.split_once('=').expect("NAME=VALUE");
        let client = client(&mut self.clients, &mut self.known, &self.tracked, name);
        let mut given = client.initial_overrides.as_deref().cloned().unwrap_or_default();
        given.set(setting, value);
        client.initial_overrides = shared(given);
        client.overrides.clone_from(&client.initial_overrides);
    }

    /// A request was sent alone: if its text already makes a probe necessary, the probe goes in the same packet.
    pub(super) fn ask_in_advance(&mut self, server_name: &str, client_name: &str, said: &[u8]) {
        let terms = terms(self.now, &self.tracked, &self.rules, self.verifies);
        let probe = self.clients[client_name].question(Time(0), terms, &self.function_catalog);
        let client = self.clients.get_mut(client_name).expect("a client");
        let server = self.servers.get_mut(server_name).expect("a server");
        let is_alone = client.subscriptions.is_none()
            && !self.held.contains_key(client_name)
            && !client.is_torn()
            && !client.is_collecting();
        let is_plain = server.exchange.is_proven() && !server.repeatable.is_sent() && server.phase.is_running();
        let Some(session_effects) =
            client.session_effects.as_mut().filter(|session_effects| session_effects.is_asked_for_by_one())
        else {
            return;
        };
        if !is_alone || !is_plain || !is_of_one_statement(said) {
            return;
        }
        if session_effects.awaits_lock_row() {
            server.tells_lock = true;
            self.lines.push(format!("{server_name} will tell of a lock"));
        } else if let Some(probe) = probe {
            server.exchange.asks_ours();
            server.creations_asked = self.function_catalog.creations();
            self.lines.push(format!("{server_name} is asked in advance {}", asked(&probe)));
            server.phase.becomes(LoanPhase::Foreseeing(Box::new(probe)));
        }
    }

    /// The server has sent `ReadyForQuery`.
    pub(super) fn ready(&mut self, name: &str, client_name: Option<&str>, was_ours: bool) {
        let server = self.servers.get_mut(name).expect("a server");
        if let Some(client) = client_name.and_then(|client| self.clients.get_mut(client))
            && !was_ours
            && let Some(session_effects) = &mut client.session_effects
        {
            let is_outside = server.exchange.status() == TxStatus::Idle;
            session_effects.unlistens.is_ready(is_outside, server.exchange.owes_client_nothing());
        }
        let is_next = was_ours || client_name.is_some() && server.exchange.is_ours();
        if is_next && server.phase.comes_to_probe(was_ours).is_some() {
            self.lines.push(format!("{name} is done with a request, and answers what it was asked"));
            if let Some(client) = client_name.and_then(|client| self.clients.get_mut(client)) {
                doubt_what_was_read(server, client);
            }
            return;
        }
        match server.phase.kind() {
            LoanPhaseKind::ApplyingBefore | LoanPhaseKind::ApplyingAlong | LoanPhaseKind::Deallocating => {
                return self.caught_up(name, client_name);
            }
            LoanPhaseKind::Unapplied => drop(server.phase.becomes(LoanPhase::Running)),
            LoanPhaseKind::Probing => return self.probed(name, client_name),
            _ => {}
        }
        let server = self.servers.get_mut(name).expect("a server");
        let whose = if was_ours { "with what it was asked" } else { "with a request" };
        let status = server.exchange.status();
        let state = if server.exchange.may_end() { "at rest".to_owned() } else { format!("{status:?}").to_lowercase() };
        self.lines.push(format!("{name} is done {whose}, {state}"));
        let Some(client_name) = client_name else { return self.cleaning_goes_on(name) };
        if self.follows && server.exchange.may_end() {
            self.end_of_transaction(name, client_name);
        }
    }

    /// A transaction of a client has ended: notes what is known of its session, or probes its server.
    fn end_of_transaction(&mut self, name: &str, client_name: &str) {
        let (Some(server), Some(client)) = (self.servers.get_mut(name), self.clients.get_mut(client_name)) else {
            return;
        };
        doubt_what_was_read(server, client);
        match client.counting.ends() {
            Counted::Drew => {
                let by = client.session_effects.as_ref().map_or("", |session_effects| session_effects.drawn_by());
                let by = if by.is_empty() { String::new() } else { format!(" by {by:?}") };
                self.lines.push(format!("{client_name} may have drawn numbers{by}"));
            }
            Counted::Asked => self.lines.push(format!("{client_name} has asked for numbers")),
            Counted::Neither => {}
        }
        if !client.session_effects.as_ref().is_some_and(|session_effects| session_effects.is_marked()) {
            if !self.verifies || server.is_verified {
                return;
            }
            let known = server.overrides.as_deref().cloned().unwrap_or_default();
            client.session_effects.get_or_insert_default().verify(known);
        }
        if let Some(session_effects) =
            client.session_effects.as_mut().filter(|session_effects| session_effects.is_asked_for())
            && session_effects.settle_lock(self.now)
        {
            let keeps = pins(client);
            let keeps = if keeps.is_empty() { keeps } else { format!(", and keeps {keeps}") };
            self.lines.push(format!("{client_name} is known to have {}{keeps}", settings(client)));
            return;
        }
        let (terms, client, server) = self.parties(client_name, name);
        if let Some(reset) = apply_effects(server, client, terms) {
            let line = format!("{client_name} is known to have {}", settings(client));
            self.lines.push(line);
            self.goes_back(client_name, reset);
            return;
        }
        self.ask(name, client_name);
    }

    /// Probes the server for what is not known of its session.
    fn ask(&mut self, name: &str, client_name: &str) {
        let terms = terms(self.now, &self.tracked, &self.rules, self.verifies);
        let Some(probe) = self.clients[client_name].question(Time(0), terms, &self.function_catalog) else { return };
        self.lines.push(format!("{name} is asked {}", asked(&probe)));
        let server = self.servers.get_mut(name).expect("a server");
        server.exchange.asks_ours();
        server.creations_asked = self.function_catalog.creations();
        server.phase.becomes(LoanPhase::Probing(Box::new(probe)));
    }

    /// A server has answered a probe.
    fn probed(&mut self, name: &str, client_name: Option<&str>) {
        let server = self.servers.get_mut(name).expect("a server");
        let (Some(client_name), Some(probe)) = (client_name, server.phase.take_probe()) else { return };
        let (terms, client, server) = self.parties(client_name, name);
        let concluded = conclude(server, client, *probe, terms);
        let has = settings(client);
        let told = match concluded {
            Probed::Functions(knowledge) => {
                self.lines.push(format!("{name} tells first what functions set"));
                self.learn(name, knowledge);
                return self.end_of_transaction(name, client_name);
            }
            Probed::State(ProbedState { knowledge, verdict, reset, has_asked_channels, has_left_channels }) => {
                self.learn(name, knowledge);
                self.goes_back(client_name, reset);
                assert!(!has_left_channels, "no story has a server leave channels");
                let channels = if has_asked_channels { ", all channels among that" } else { "" };
                let verdict = match verdict {
                    None => String::new(),
                    Some(Ok(())) => ", as was known".to_owned(),
                    Some(Err(what)) => format!(", other than was known: {what}"),
                };
                format!("tells that it has {has}{channels}{verdict}")
            }
            Probed::Nothing => "tells nothing that can be relied upon".to_owned(),
        };
        let keeps = pins(&self.clients[client_name]);
        let keeps = if keeps.is_empty() { keeps } else { format!(", and keeps {keeps}") };
        self.lines.push(format!("{name} {told}{keeps}"));
        if !keeps.is_empty() {
            self.apply(client_name);
        } else {
            self.end_of_transaction(name, client_name);
        }
    }

    pub(super) fn learn(&mut self, name: &str, knowledge: Option<route::Knowledge>) {
        if let Some(knowledge) = knowledge {
            self.scopes += 1;
            self.function_catalog.learn(knowledge, self.servers[name].creations_asked, self.now, self.scopes);
            self.lines.push(format!("{name} tells functions, which are {} now", self.function_catalog.word(self.now)));
        }
    }

    fn parties(&mut self, client: &str, server: &str) -> (Terms<'_>, &mut ClientSession, &mut ServerSession) {
        let terms = terms(self.now, &self.tracked, &self.rules, self.verifies);
        let client = self.clients.get_mut(client).expect("a client");
        (terms, client, self.servers.get_mut(server).expect("a server"))
    }

    /// The client has reset parameters, and is sent their values.
    fn goes_back(&mut self, name: &str, reset: Option<Vars>) {
        let (Some(client), Some(vars)) = (self.clients.get_mut(name), reset) else { return };
        let told = client.becomes(vars, &self.tracked, &mut self.known);
        self.to(name, Side::Server, &told);
    }

    /// What is known of each session.
    pub(super) fn believed(&self) -> BTreeMap<String, String> {
        let of_client = |client: &ClientSession| {
            let session_effects = client.session_effects.as_deref();
            let asks =
                session_effects.and_then(|session_effects| session_effects.question()).map(|probe| asked(&probe));
            let effects = session_effects.map(|session_effects| {
                let is_dialect_in_doubt = session_effects.is_dialect_in_doubt();
                (session_effects.effects(), is_dialect_in_doubt, session_effects.is_meaning_in_doubt())
            });
            format!("{}, {}, {}, {asks:?}, {effects:?}", settings(client), pins(client), client.placeholders)
        };
        let of_server =
            |server: &ServerSession| format!("{}, {}", overrides(server.overrides.as_deref()), server.placeholders);
        let clients = self.clients.iter().map(|(name, client)| (name.clone(), of_client(client)));
        clients.chain(self.servers.iter().map(|(name, server)| (name.clone(), of_server(server)))).collect()
    }

    /// Shows what is known of a session, or what has been counted of statements.
    pub(super) fn show(&mut self, name: &str) {
        if name == "sent" {
            // The number of bytes sent to each side, where output in parts is not shown.
            let sent = self.sent.iter().map(|(name, bytes)| format!("{name} was sent {} bytes", bytes.len()));
            self.lines.extend(sent);
        } else if name == "counts" {
            let (parses, servers, binds) = (self.tally.client_parses, self.tally.server_parses, self.tally.binds);
            let begun = self.begun;
            self.lines.push(format!(
                "counted: {begun} requests that began, {parses} Parse of clients, {servers} to servers, {binds} Bind"
            ));
        } else if name.starts_with('s') {
            let server = server(&mut self.servers, &mut self.known, &self.tracked, name);
            let mentions = if server.placeholders == 0 { "" } else { ", and settings with a dot were named to it" };
            self.lines.push(format!("{name} has {}{mentions}", overrides(server.overrides.as_deref())));
            if let Some(tally) = &server.answer_tally {
                let state = tally.state.map(|state| format!(", {}", state.escape_ascii())).unwrap_or_default();
                self.lines.push(format!("{name} has answered {} rows in {} bytes{state}", tally.rows, tally.bytes));
            }
        } else {
            let client = client(&mut self.clients, &mut self.known, &self.tracked, name);
            let mut line = format!("{name} has {}", settings(client));
            let keeps = pins(client);
            if !keeps.is_empty() {
                line += &format!("; it keeps {keeps}");
            }
            if client.placeholders != 0 {
                line += "; it has named settings with a dot";
            }
            if client.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.awaits_own_news()) {
                line += "; it may have notified";
            }
            if let Some(session_effects) = &mut client.session_effects {
                let left = session_effects.unlistens.take();
                let left = ["a", "b", "c"].into_iter().filter(|channel| left.has(channel)).collect::<Vec<_>>();
                if !left.is_empty() {
                    line += &format!("; it has left {}", left.join(" "));
                }
            }
            self.lines.push(line);
        }
    }
}

pub(super) fn terms<'a>(now: Time, tracked: &'a Tracked, rules: &'a PinRules, verifies: bool) -> Terms<'a> {
    Terms { now, tracked, login: "u", server_user: 0, rules, verifies }
}

/// The settings and statements that follow a client.
fn settings(client: &ClientSession) -> String {
    overrides(client.overrides.as_deref())
}

pub(super) fn overrides(overrides: Option<&Overrides>) -> String {
    let Some(overrides) = overrides else { return "nothing".to_owned() };
    let settings = overrides.iter().map(|(name, value)| match value.len() {
        0..=100 => format!("{name}={value}"),
        length => format!("{name}={length} bytes"),
    });
    let statements = overrides.statements().iter().map(|(name, _)| format!("statement {name}"));
    settings.chain(statements).collect::<Vec<_>>().join(" ")
}

/// What pins a client's server, and which statement is the cause.
fn pins(client: &ClientSession) -> String {
    let pin = |pin: &protocol::state::Pin| match &*pin.statement {
        "" => pin.hold.words().into(),
        statement => format!("{} by {statement:?}", pin.hold.words()),
    };
    client
        .session_effects
        .iter()
        .flat_map(|session_effects| session_effects.pins().iter())
        .map(pin)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What a probe asks for.
fn asked(probe: &Probe) -> String {
    let question = probe.question();
    let mut parts = Vec::new();
    for part in question.split("SELECT ").flat_map(|part| part.split(';')) {
        let letter = part.trim_start_matches("DISTINCT ").as_bytes().get(..3);
        let names =
            || part.split_once("ARRAY[").and_then(|(_, rest)| Some(rest.split_once(']')?.0)).unwrap_or_default();
        let what = match letter {
            Some(b"'s'") if part.contains("ARRAY[") => format!("settings {}", names()),
            Some(b"'d'") => format!("settings one by one {}", names()),
            Some(b"'s'") => "settings".to_owned(),
            Some(b"'i'") if part.contains("'role'") => "without its role".to_owned(),
            Some(b"'i'") => "as who logs in".to_owned(),
            Some(b"'v'") => format!("how it spells {}", part.split(',').nth(1).unwrap_or_default()),
            Some(b"'l'") => "locks".to_owned(),
            Some(b"'n'") => "channels".to_owned(),
            Some(b"'t'") if part.contains("relname") => "temporary".to_owned(),
            Some(b"'h'") => "cursors".to_owned(),
            Some(b"'p'") => "statements".to_owned(),
            Some(b"'r'") => "slots".to_owned(),
            Some(b"'g'") => "functions".to_owned(),
            _ => continue,
        };
        parts.push(what);
    }
    format!("for {}", parts.join(", "))
}
