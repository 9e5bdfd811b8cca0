//! Connections of the control thread to its own workers, by which it runs queries and listens for all clients, carried
//! over the simulated network.
//!
//! Always true: received bytes reach the control thread at once and unchanged; a session that listens for all forwards
//! no notification to it.
//! Not here: what is asked (`control`), what the answers are (`session::secrets`).

use control::{Event, LinkNews, LinkOrder};
use wire::backend;
use wire::startup::Startup;

use crate::checks::witness::Charge;
use crate::sim::io::SimSocket;
use crate::sim::links::Link;
use crate::sim::net::Holder;
use crate::state::World;

impl World {
    /// Carries out the control thread's orders for its connections.
    pub(crate) fn carry_links(&mut self) {
        let mut failed = Vec::new();
        let net = self.net.clone();
        while let Some(order) = self.thread.control.next_link_order() {
            let net = &mut net.borrow_mut();
            match order {
                LinkOrder::Open { link, .. } if net.descriptors >= net.descriptors_max => failed.push(link),
                LinkOrder::Open { link, database, is_listener } => {
                    net.descriptors += 1;
                    let end = net.pair(Holder::Link(link));
                    if is_listener {
                        self.witness.count("sessions for all");
                        self.thread.control.connect_listener(&database, SimSocket(end ^ 1));
                    } else {
                        self.thread.control.connect_own(&database, SimSocket(end ^ 1));
                    }
                    let (user, input) = (String::new(), Vec::new());
                    self.links.open.insert(link, Link { end, database, user, is_listener, input, is_in: false });
                }
                LinkOrder::Say { link, bytes } => {
                    if let Some(link) = self.links.open.get_mut(&link) {
                        if link.user.is_empty() {
                            link.user = user_of(&bytes).unwrap_or_default();
                        }
                        net.say(link.end, bytes);
                    }
                }
                LinkOrder::Close { link } => {
                    if let Some(link) = self.links.open.remove(&link) {
                        net.drop_end(link.end);
                        self.link_has_ended(link);
                    }
                }
            }
        }
        for link in failed {
            let news = LinkNews::Ended("Too many open files".to_owned());
            self.control_hears(Event::Link { link, news });
        }
    }

    fn link_has_ended(&mut self, link: Link) {
        if link.is_listener {
            self.witness.note(|| format!("the session for all of {} has ended", link.database));
            self.links.ended.push((link.database, link.user, self.witness.now));
        }
    }

    /// Handles an event on the control thread's end of a connection.
    pub(crate) fn hear_link(&mut self, number: u64, end: u32) {
        let Some(link) = self.links.open.get_mut(&number).filter(|link| link.end == end) else { return };
        let mut bytes = Vec::new();
        let is_over = {
            let net = &mut self.net.borrow_mut();
            net.read(end, usize::MAX, &mut bytes);
            net.end(end).is_reset || (net.end(end).is_eof && net.end(end).arrived_bytes == 0)
        };
        link.input.extend_from_slice(&bytes);
        let mut at = 0;
        while let Some((kind, _, next)) = crate::message_at(&link.input, at) {
            at = next;
            match kind {
                backend::READY_FOR_QUERY if link.is_in => {
                    *self.links.put.entry(link.database.to_string()).or_default() += 1
                }
                backend::READY_FOR_QUERY => link.is_in = true,
                backend::NOTIFICATION_RESPONSE => {
                    let text = format!("the control thread is told of a notification of {}", link.database);
                    self.witness.accuse(Charge::ForeignBytes, text);
                }
                _ => {}
            }
        }
        link.input.drain(..at);
        if !bytes.is_empty() {
            self.control_hears(Event::Link { link: number, news: LinkNews::Heard(bytes) });
        }
        if is_over && self.links.open.get(&number).is_some_and(|link| link.end == end) {
            let news = LinkNews::Ended("the connection has ended".to_owned());
            self.control_hears(Event::Link { link: number, news });
        }
    }

    /// Another process has taken over: the connections of the old control thread end.
    pub(crate) fn forget_links(&mut self) {
        for (_, link) in std::mem::take(&mut self.links.open) {
            if link.is_listener {
                self.witness.board.borrow_mut().gaps.insert(link.database.to_string());
            }
            {
                let net = &mut self.net.borrow_mut();
                net.drop_end(link.end);
                // A suspended worker may not have read the letter with its other end, and never will.
                net.end_travels(&[link.end ^ 1]);
            }
            self.link_has_ended(link);
        }
    }
}

/// Returns the user of a startup packet.
fn user_of(bytes: &[u8]) -> Option<String> {
    match Startup::parse(bytes) {
        Ok(Startup::Session { parameters, .. }) => {
            parameters.into_iter().find(|(name, _)| name == "user").map(|(_, user)| user)
        }
        _ => None,
    }
}
