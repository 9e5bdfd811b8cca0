//! What the worker does with a server whose loan has ended, or whose client has left.
//!
//! Always true: the machine's decision is shown in a word, followed by what the server is sent.

use protocol::loan::{Ended, Failed, LoanPhase, ServerSession, is_between};
use protocol::state::Preparation;
use wire::notice::Notice;

use super::notation::Side;
use super::session_state::{overrides, terms};
use super::{Stage, error};

impl Stage {
    /// The pool wants the loan to end now.
    pub(super) fn end(&mut self, client_name: &str) {
        let server_name = self.loans.remove(client_name).expect("a loan");
        let server = self.servers.get_mut(&server_name).expect("a server");
        let client = self.clients.get_mut(client_name).expect("a client");
        let is_marked = client.session_effects.as_ref().is_some_and(|session_effects| session_effects.is_marked());
        if !is_between(server, client) || is_marked {
            self.loans.insert(client_name.to_owned(), server_name);
            self.lines.push("the loan goes on".to_owned());
            return;
        }
        let ended = server.ends(|| self.reset.as_ref());
        self.tell_end(&server_name, ended);
    }

    /// The client disconnects.
    pub(super) fn leave(&mut self, client_name: &str) {
        let server_name = self.loans.remove(client_name).expect("a loan");
        let mut client = self.clients.remove(client_name).expect("a client");
        let server = self.servers.get_mut(&server_name).expect("a server");
        let ended = server.is_left(&mut client, self.reset.as_ref());
        self.tell_end(&server_name, ended);
    }

    /// A cancel request is sent for a server.
    pub(super) fn cancel(&mut self, name: &str) {
        self.servers.get_mut(name).expect("a server").cancels_sent += 1;
    }

    /// The cancel request has finished.
    pub(super) fn cancelled(&mut self, name: &str) {
        let server = self.servers.get_mut(name).expect("a server");
        server.cancels_sent -= 1;
        if server.cancels_sent == 0 && !self.loans.values().any(|server| server == name) {
            self.cleaning_goes_on(name);
        }
    }

    /// A server without a client is ready, or its last cancel request has finished.
    pub(super) fn cleaning_goes_on(&mut self, name: &str) {
        let terms = terms(self.now, &self.tracked, &self.rules, self.verifies);
        let server = self.servers.get_mut(name).expect("a server");
        if server.would_be_cancelled() {
            self.lines.push(format!("{name} waits for the end of cancel requests"));
            return;
        }
        match server.phase {
            LoanPhase::ProbingAlone(_) => {
                let (ended, knowledge) = server.probed_alone(Some(terms));
                if !matches!(server.phase, LoanPhase::ProbingAlone(_)) {
                    let has = overrides(server.overrides.as_deref());
                    self.lines.push(format!("{name}, whose client has left, has {has}"));
                }
                self.learn(name, knowledge);
                self.tell_end(name, ended);
            }
            LoanPhase::Free => {}
            _ => {
                let ended = server.continue_ending();
                self.tell_end(name, ended);
            }
        }
    }

    /// A query of ours has failed.
    pub(super) fn ours_failed(&mut self, name: &str, body: &[u8]) {
        self.lines.push(format!("{name} says to us {}", error(body)));
        let Some(server) = self.servers.get_mut(name).filter(|server| server.exchange.is_ours()) else { return };
        match server.cannot_prepare() {
            Some(Preparation::Prepare(statement)) => {
                return self.lines.push(format!("{name} does not have the statement {statement}"));
            }
            Some(_) => return,
            None => {}
        }
        let failed = server.ours_failed(Notice::parse(body).sqlstate == "57014");
        let client = self.loans.iter().find(|(_, server)| *server == name).map(|(client, _)| client.clone());
        match (failed, client) {
            (Failed::Nothing, _) => {}
            (Failed::NotClean(why), None) => self.tell_end(name, Ended::Closed(why)),
            (Failed::NotTaken(ended), Some(client)) => {
                self.loans.remove(&client);
                self.tell_end(name, ended);
            }
            (Failed::NotReset(ended), Some(client)) => {
                self.loans.remove(&client);
                self.lines.push(format!("{client} wants another server"));
                self.tell_end(name, ended);
            }
            (Failed::CancelledAlong, Some(client)) => {
                self.loans.remove(&client);
                self.close(name, &format!(", and {client} is told that its request was cancelled"));
            }
            (Failed::BeforeUse, Some(client)) => {
                self.loans.remove(&client);
                self.close(name, &format!(", and {client} wants another server"));
            }
            (failed, client) => panic!("{failed:?} with the client {client:?}"),
        }
    }

    /// Later messages of this server are ignored.
    fn close(&mut self, name: &str, why: &str) {
        self.lines.push(format!("{name} is closed{why}"));
        self.gone.insert(name.to_owned());
    }

    fn tell_end(&mut self, name: &str, ended: Ended) {
        let phase = self.servers.get(name).map(|server: &ServerSession| server.phase.kind());
        match ended {
            Ended::Clean => self.lines.push(format!("{name} is free")),
            Ended::Unclean { out, is_cancelled } => {
                let cancelled = if is_cancelled { ", and is cancelled" } else { "" };
                self.lines.push(format!("{name} is nobody's, {:?}{cancelled}", phase.expect("a server")));
                self.to(name, Side::Client, &out);
            }
            Ended::Doomed(why) => self.lines.push(format!("{name} is cancelled, and then closed: {}", why.words())),
            Ended::Closed(why) => self.close(name, &format!(": {}", why.words())),
        }
    }
}
