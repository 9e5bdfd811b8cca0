//! Which proof a client is asked for: by `auth_type`, or by the first rule of the HBA file that matches it.
//!
//! Always true: a client that is asked for nothing is let in because a setting or a rule says so; a method that is not
//! implemented lets no client in.
//! Not here: what the rules mean (`auth::hba`), the authentication exchange (`login`).

use std::sync::Arc;

use auth::{HbaMethod, Visit};
use base::Key;
use config::AuthType;
use protocol::client::login::Method;
use protocol::fault::Fault;
use protocol::replication::Replication;
use reactor::{Io, Level, Peer, Receive};

use crate::admin::console::CONSOLE;
use crate::admission::applicant::{Demand, Entry};
use crate::data::client::Client;
use crate::letters::{ExternalAuth, Right, ToControl};
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// Whether and how a client may enter the console.
    pub(crate) fn console_right(&self, user: &str, peer: Peer) -> Option<Entry> {
        let settings = &self.hands.active.settings;
        let is_own = matches!(peer, Peer::Unix { uid: Some(uid), .. } if uid == self.hands.active.own_uid);
        if user == CONSOLE && is_own {
            return Some(Entry::Open(Right::Admin));
        }
        let is_admin = settings.admin_users.has(user);
        match settings.auth_type {
            AuthType::Any if is_admin => Some(Entry::Open(Right::Admin)),
            AuthType::Any => Some(Entry::Open(Right::Stats)),
            _ if is_admin => Some(Entry::ByProof(Right::Admin)),
            _ if settings.stats_users.has(user) => Some(Entry::ByProof(Right::Stats)),
            _ => None,
        }
    }

    /// What this client has to show.
    pub(crate) fn demand(&mut self, key: Key, peer: Peer, database: &str, user: &str) -> Demand {
        match self.hands.active.settings.auth_type {
            AuthType::Any => {
                let entry = self.hands.active.settings.database(database);
                if entry.is_some_and(|entry| entry.user.is_none()) {
                    self.log_client(key, Level::Error, format_args!("auth_type=any requires forced user"));
                    return Demand::Refusal(Fault::BouncerConfig);
                }
                Demand::Nothing
            }
            AuthType::Trust => Demand::Proof(Method::Trust),
            AuthType::Plain => Demand::Proof(Method::Plain),
            AuthType::ScramSha256 => Demand::Proof(Method::Scram),
            AuthType::Hba => self.demand_of_rules(key, peer, database, user),
            AuthType::Cert => self.demand_of_certificate(key, None, user),
            AuthType::Md5 => Demand::Proof(Method::Md5),
            AuthType::Pam => self.demand_of_external_auth(key, database, ExternalAuth::Pam),
            AuthType::Ldap => match self.hands.active.settings.auth_ldap_options.clone() {
                Some(options) => self.demand_of_external_auth(key, database, ExternalAuth::Ldap(options)),
                None => Demand::Refusal(Fault::LdapUnset),
            },
        }
    }

    /// A client with a verified certificate may be any user that the certificate names.
    fn demand_of_certificate(&self, key: Key, map: Option<&Arc<str>>, user: &str) -> Demand {
        let security = self.clients.get(key).and_then(|client| client.security.as_deref());
        let names = security.map_or(&[][..], |security| &security.names);
        let is_named = names.iter().any(|name| match map {
            None => **name == *user,
            Some(map) => self.hands.active.idents.allows(map, name, user),
        });
        if is_named { Demand::Proof(Method::Certificate) } else { Demand::Refusal(Fault::CertificateRejected) }
    }

    fn demand_of_rules(&mut self, key: Key, peer: Peer, database: &str, user: &str) -> Demand {
        let (from, uid) = match peer {
            Peer::Tcp { ip, .. } => (Some(ip), None),
            Peer::Unix { uid, .. } => (None, uid),
        };
        let is_tls = self.clients.get(key).is_some_and(|client| client.security.is_some());
        // As in PostgreSQL, logical replication is judged by the rules for its database.
        let is_replication = self.replication_of(key) == Some(Replication::Physical);
        let visit = Visit { from, is_tls, database, user, is_replication };
        match self.hands.active.hba.method_for(&visit) {
            Some(HbaMethod::Ldap(options)) => {
                let authenticator = ExternalAuth::Ldap(options.clone());
                self.demand_of_external_auth(key, database, authenticator)
            }
            None => Demand::Refusal(Fault::NoMethod),
            Some(HbaMethod::Trust) => Demand::Proof(Method::Trust),
            Some(HbaMethod::Password) => Demand::Proof(Method::Plain),
            Some(HbaMethod::Md5) => Demand::Proof(Method::Md5),
            Some(HbaMethod::Scram) => Demand::Proof(Method::Scram),
            Some(HbaMethod::Reject) => Demand::Refusal(Fault::LoginRejected),
            Some(HbaMethod::Cert { map }) => self.demand_of_certificate(key, map.as_ref(), user),
            Some(HbaMethod::Peer { map }) => match uid {
                Some(uid) => Demand::SystemUser { uid, map: map.clone() },
                None => Demand::Refusal(Fault::UnixSocketRejected),
            },
        }
    }

    /// Asks for the name of a system user.
    pub(crate) fn ask_system_user(&mut self, client: Key, uid: u32) {
        let Some(Client { conn, .. }) = self.clients.get(client) else { return };
        // So that a disconnect is noticed.
        self.hands.io.receive(*conn, Receive::Stream);
        (self.hands.posts.control)(ToControl::SystemUser { from: self.hands.id, client, uid });
    }
}
