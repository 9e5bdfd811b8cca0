//! Connections of the control thread to its own workers, by which it runs queries and listens for all clients, carried
//! over the simulated network.
//!
//! Always true: received bytes reach the control thread at once and unchanged; a session that listens for all forwards
//! no notification to it.
//! Not here: what is asked (`control`), what the answers are (`session::secrets`).

use control::{Event, OwnClientNews, OwnClientOrder};
use wire::backend;
use wire::startup::Startup;

use crate::checks::witness::Charge;
use crate::sim::io::SimSocket;
use crate::sim::net::Holder;
use crate::sim::own_clients::OwnClient;
use crate::state::World;

impl World {
    /// Carries out the control thread's orders for its connections.
    pub(crate) fn carry_own_clients(&mut self) {
        let mut failed = Vec::new();
        let net = self.net.clone();
        while let Some(order) = self.thread.control.next_own_client_order() {
            let net = &mut net.borrow_mut();
            match order {
                OwnClientOrder::Open { number, .. } if net.descriptors >= net.descriptors_max => failed.push(number),
                OwnClientOrder::Open { number, database, is_listener } => {
                    net.descriptors += 1;
                    let end = net.pair(Holder::OwnClient(number));
                    if is_listener {
                        self.witness.count("sessions for all");
                        self.thread.control.connect_listener(&database, SimSocket(end ^ 1));
                    } else {
                        self.thread.control.connect_own(&database, SimSocket(end ^ 1));
                    }
                    let (user, input) = (String::new(), Vec::new());
                    self.own_clients
                        .open
                        .insert(number, OwnClient { end, database, user, is_listener, input, is_in: false });
                }
                OwnClientOrder::Say { number, bytes } => {
                    if let Some(own_client) = self.own_clients.open.get_mut(&number) {
                        if own_client.user.is_empty() {
                            own_client.user = user_of(&bytes).unwrap_or_default();
                        }
                        net.say(own_client.end, bytes);
                    }
                }
                OwnClientOrder::Close { number } => {
                    if let Some(own_client) = self.own_clients.open.remove(&number) {
                        net.drop_end(own_client.end);
                        self.own_client_has_ended(own_client);
                    }
                }
            }
        }
        for number in failed {
            let news = OwnClientNews::Ended("Too many open files".to_owned());
            self.control_hears(Event::OwnClient { number, news });
        }
    }

    fn own_client_has_ended(&mut self, own_client: OwnClient) {
        if own_client.is_listener {
            self.witness.note(|| format!("the session for all of {} has ended", own_client.database));
            self.own_clients.ended.push((own_client.database, own_client.user, self.witness.now));
        }
    }

    /// Handles an event on the control thread's end of a connection.
    pub(crate) fn hear_own_client(&mut self, number: u64, end: u32) {
        let Some(own_client) = self.own_clients.open.get_mut(&number).filter(|own_client| own_client.end == end) else {
            return;
        };
        let mut bytes = Vec::new();
        let is_over = {
            let net = &mut self.net.borrow_mut();
            net.read(end, usize::MAX, &mut bytes);
            net.end(end).is_reset || (net.end(end).is_eof && net.end(end).arrived_bytes == 0)
        };
        own_client.input.extend_from_slice(&bytes);
        let mut at = 0;
        while let Some((kind, _, next)) = crate::message_at(&own_client.input, at) {
            at = next;
            match kind {
                backend::READY_FOR_QUERY if own_client.is_in => {
                    *self.own_clients.put.entry(own_client.database.to_string()).or_default() += 1
                }
                backend::READY_FOR_QUERY => own_client.is_in = true,
                backend::NOTIFICATION_RESPONSE => {
                    let text = format!("the control thread is told of a notification of {}", own_client.database);
                    self.witness.accuse(Charge::ForeignBytes, text);
                }
                _ => {}
            }
        }
        own_client.input.drain(..at);
        if !bytes.is_empty() {
            self.control_hears(Event::OwnClient { number, news: OwnClientNews::Heard(bytes) });
        }
        if is_over && self.own_clients.open.get(&number).is_some_and(|own_client| own_client.end == end) {
            let news = OwnClientNews::Ended("the connection has ended".to_owned());
            self.control_hears(Event::OwnClient { number, news });
        }
    }

    /// Another process has taken over: the connections of the old control thread end.
    pub(crate) fn forget_own_clients(&mut self) {
        for (_, own_client) in std::mem::take(&mut self.own_clients.open) {
            if own_client.is_listener {
                self.witness.board.borrow_mut().gaps.insert(own_client.database.to_string());
            }
            {
                let net = &mut self.net.borrow_mut();
                net.drop_end(own_client.end);
                // A suspended worker may not have read the letter with its other end, and never will.
                net.end_travels(&[own_client.end ^ 1]);
            }
            self.own_client_has_ended(own_client);
        }
    }
}

/// Returns the user of a startup packet.
fn user_of(bytes: &[u8]) -> Option<String> {
    match Startup::parse(bytes) {
        Ok(Startup::Session { parameters, .. }) => {
            parameters.into_iter().find(|(name, _)| *name == "user").map(|(_, user)| user.to_owned())
        }
        _ => None,
    }
}
