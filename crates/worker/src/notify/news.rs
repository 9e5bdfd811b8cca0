//! Passes notifications on to the clients that listen.
//!
//! Always true: a client gets notifications outside of transactions and between two messages, as from PostgreSQL; a
//! client whose notifications may have been lost is told so or disconnected (`notify_lost`).
//! Not here: which client listens to what (`channels`).

use std::ops::Bound;
use std::sync::Arc;

use base::Key;
use config::NotifyLost;
use pool::{ClientKey, ServerKey};
use protocol::fault::Fault;
use protocol::loan::ClientSession;
use protocol::state::{MARKS, channel_of, mark_of};
use reactor::{Io, Level};
use wire::backend::{self, TxStatus};
use wire::write::{self, Says};

use crate::data::client::{ClientStage, Link};
use crate::notify::backlog::Telling;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Notifications for a client may have been lost. It is told once it gets the later ones again, so not while there
    /// is no listener (`is_cut_off`).
    pub(crate) fn tell_of_loss(&mut self, client: ClientKey, is_cut_off: bool) {
        match self.hands.active.settings.notify_lost {
            NotifyLost::Disconnect => self.fail_client(client, &Fault::NotificationsLost),
            NotifyLost::Notice | NotifyLost::Notify => {
                let ready = self.clients.ready_mut(client);
                if let Some(subscriptions) = ready.and_then(|ready| ready.session_mut().subscriptions.as_mut()) {
                    subscriptions.owes_word();
                }
                if !is_cut_off {
                    self.tell_news(client);
                }
            }
        }
    }

    /// A server has sent a complete `NotificationResponse`.
    pub(crate) fn notified(&mut self, server_key: ServerKey, body: &[u8]) {
        let Some(server) = self.servers.get(server_key) else { return };
        let (Some(client_key), number) = (server.client(), server.database()) else { return };
        let Some(client) = self.clients.get_mut(client_key) else { return };
        if client.is_listener {
            self.spread(server_key, number, body);
        } else if let ClientStage::Ready(ready) = &mut client.stage
            && let Some(subscriptions) =
                ready.session_mut().subscriptions_if_any(self.registry.database_at(number).listening.losses)
        {
            let is_told = subscriptions.own(body);
            if is_told {
                self.give_client_whole(server_key, notification(body).into());
            }
            self.tell_news(client_key);
        }
    }

    /// Passes a notification of the listener on to all clients of its channel.
    fn spread(&mut self, server: ServerKey, database: u32, body: &[u8]) {
        let listening = &mut self.registry.database_at_mut(database).listening;
        if channel_of(body) == Some(MARKS) {
            let client = mark_of(body).and_then(|number| Some((number, listening.marks.take(number)?)));
            if let Some((number, client)) = client
                && let Some(ready) = self.clients.ready_mut(client)
                && let Some(subscriptions) = ready.session_mut().subscriptions_if_any(listening.losses)
            {
                subscriptions.shared_mark(number);
            }
            return;
        }
        // Messages behind this one wait if not all clients are served in this turn (`lines_up`).
        let most = if self.tells_all(server) { self.notify.backlog.clients_left().max(1) } else { usize::MAX };
        if let Some(from) = self.tell_all(database, body, Bound::Unbounded, most) {
            self.notify.backlog.tell_later(Telling { server, database, body: body.into(), from });
        }
    }

    /// Passes a notification to `most` clients of its channel, beginning with `from`. Returns where to continue, if
    /// clients are left.
    pub(crate) fn tell_all(&mut self, database: u32, body: &[u8], from: Bound<Key>, most: usize) -> Option<Bound<Key>> {
        let listening = &self.registry.database_at(database).listening;
        let losses = listening.losses;
        let channel = listening.channels.get(channel_of(body)?)?;
        let mut rest = channel.clients.range((from, Bound::Unbounded)).copied();
        let clients: Vec<Key> = rest.by_ref().take(most).collect();
        let next = rest.next().map(Bound::Included);
        self.notify.backlog.tells(clients.len());
        for client in clients {
            let Some(ready) = self.clients.ready_mut(client) else { continue };
            ready.session_mut().subscriptions(losses).shared(body);
            self.tell_news(client);
            self.wait_for_slow_client(database, client);
        }
        next
    }

    /// Passes a notification to `most` of the clients that have not got it yet.
    pub(crate) fn go_on_telling_all(&mut self, telling: Telling, most: usize) {
        let Telling { server, database, body, from } = telling;
        if let Some(from) = self.tell_all(database, &body, from, most) {
            self.notify.backlog.telling.push_front(Telling { server, database, body, from });
        }
    }

    /// Sends a client its pending notifications if it stands outside a transaction and between two messages, as
    /// PostgreSQL does.
    pub(crate) fn tell_news(&mut self, client_key: ClientKey) {
        let queue_max = self.notify_queue_max();
        let active = Arc::clone(&self.hands.active);
        let Some(client) = self.clients.get_mut(client_key) else { return };
        let conn = client.conn;
        let ClientStage::Ready(ready) = &mut client.stage else { return };
        let is_outside = match ready.link() {
            Link::None | Link::Waiting(_) | Link::AsksReplica(_) | Link::Delayed(_) => true,
            Link::Loan(server) => self.servers.get(server).is_some_and(|server| {
                let exchange = &server.session().exchange;
                server.withheld().is_some()
                    || exchange.owes_client_nothing()
                        && exchange.status() == TxStatus::Idle
                        && !server.session().is_in_message()
            }),
        };
        let is_answer_torn = ready.is_answer_torn();
        let Some(number) = self.registry.pool(ready.home()).map(|place| place.database) else { return };
        let listening = &self.registry.database_at(number).listening;
        let ClientSession { subscriptions: Some(subscriptions), session_effects, .. } = ready.session_mut() else {
            return;
        };
        subscriptions.knows_losses(listening.losses);
        if subscriptions.is_owed_word() && active.settings.notify_lost == NotifyLost::Disconnect {
            self.fail_client(client_key, &Fault::NotificationsLost);
            return;
        }
        // Notifications of channels that the client may have left wait until that is known.
        let unlistens = session_effects
            .as_ref()
            .map(|session_effects| &session_effects.unlistens)
            .filter(|unlistens| unlistens.is_any());
        let may_have_left = unlistens.map(|unlistens| |channel: &str| unlistens.may_have(channel));
        let unsent = self.hands.io.unsent(conn);
        // A single notification may be longer than the limit, and so may what was under way when the listener began to
        // wait for the client.
        let is_room_for_one = subscriptions.kept_count() == 1 && unsent == 0;
        let is_waited_for = listening.patience.is_waited_for(&client_key);
        let is_allowed = is_room_for_one || is_waited_for;
        if subscriptions.kept_bytes() + unsent > queue_max && subscriptions.kept_bytes() > 0 && !is_allowed {
            subscriptions.drop_kept();
            if subscriptions.is_owed_word() {
                return;
            }
            let what = format_args!("more notifications wait for it than notify_queue_size allows: they are lost");
            self.log_client(client_key, Level::Warning, what);
            self.tell_of_loss(client_key, false);
            return;
        }
        if unsent > queue_max {
            // The client still reads an answer that is longer than that.
            self.hands.io.tell_when_drained(conn);
            return;
        }
        if !is_outside || is_answer_torn {
            return;
        }
        let mut out = Vec::new();
        if subscriptions.takes_word(|channel| listening.is_heard(channel)) {
            match active.settings.notify_lost {
                NotifyLost::Notify => write_notification(&mut out, &active.settings.notify_lost_channel),
                _ => write_loss(&mut out),
            }
        }
        for body in subscriptions.take_kept(may_have_left) {
            write::message(&mut out, backend::NOTIFICATION_RESPONSE, |out| out.extend_from_slice(&body));
        }
        if !out.is_empty() {
            self.hands.io.send(conn, out.into());
        }
    }
}

fn notification(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, backend::NOTIFICATION_RESPONSE, |out| out.extend_from_slice(body));
    out
}

/// A notification of our own; its process ID is 0.
fn write_notification(out: &mut Vec<u8>, channel: &str) {
    write::message(out, backend::NOTIFICATION_RESPONSE, |out| {
        out.extend_from_slice(&[0; 4]);
        write::c_string(out, channel);
        write::c_string(out, "");
    });
}

fn write_loss(out: &mut Vec<u8>) {
    let verdict = Fault::NotificationsLost.verdict();
    let (sqlstate, hint) =
        ("01000", "Probe again at what the notifications are about: what comes from now on is heard.");
    let says = Says { severity: "NOTICE", sqlstate, message: &verdict.text, detail: None, hint: Some(hint) };
    write::notice(out, says);
}
