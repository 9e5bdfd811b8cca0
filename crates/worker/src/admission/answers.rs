//! Answers of other threads about clients that log in.
//!
//! Always true: an answer counts only for the client that still waits for it.
//! Not here: what was asked (`questions`).

use std::sync::Arc;

use auth::{ScramSecret, Secret};
use base::Key;
use pool::{Failure, PoolKey, ServerKey};
use protocol::client::login::{Login, Method, Step};
use protocol::fault::Fault;
use reactor::{Io, Level};

use crate::admission::applicant::{Demand, Hashing, Recheck};
use crate::admission::questions::{HashAsker, Hashed, SystemUser, Verdict};
use crate::data::server::ServerStage;
use crate::letters::{AuthQueryAnswer, Inquirer};
use crate::planted::{asker, fault_of_part};
use crate::registry::Doubt;
use crate::worker::Worker;

impl<I: Io> Worker<I> {
    /// An external authenticator has accepted or rejected a password.
    pub(crate) fn judged(&mut self, key: Key, verdict: Verdict) {
        let key = asker(key, &self.clients);
        let Some(login) = self.clients.login_mut(key) else { return };
        let Some((authenticator, password)) = login.take_awaiting_verdict() else { return };
        match verdict {
            Ok(()) => {
                login.judged = Some(Arc::new(Secret::Plain(password)));
                self.passed(key, None);
            }
            Err(why) => {
                self.log_client(key, Level::Warning, format_args!("{why}"));
                self.login_failed_line(key);
                self.fail_client(key, &authenticator.fault());
            }
        }
    }

    /// A password has been hashed, or could not be.
    pub(crate) fn hashed(&mut self, asker: HashAsker, hashed: Hashed) {
        match asker {
            HashAsker::Client(key) => self.hashed_for_client(key, hashed),
            HashAsker::Server(key) => self.hashed_for_server(key, hashed),
        }
    }

    fn hashed_for_client(&mut self, key: Key, hashed: Hashed) {
        let Some(login) = self.clients.login_mut(key) else { return };
        let salted = match hashed {
            Ok(salted) => salted,
            // A client that waits for the same hash is next, when this one has gone.
            Err(why) if login.is_awaiting_hash() => {
                self.log_client(key, Level::Warning, format_args!("{why}"));
                self.login_failed_line(key);
                self.fail_client(key, &Fault::HashingFull);
                return;
            }
            Err(_) => return,
        };
        match login.take_awaiting_hash().map(|hashing| *hashing) {
            Some(Hashing::Proof { unproved, again }) => match unproved.prove(&salted) {
                Ok(()) => self.passed(key, None),
                Err(fault) => self.disproved(key, &fault, again),
            },
            Some(Hashing::Secret { user, secret, method, reported_secret }) => {
                let place = self.registry.user_at_mut(user);
                place.derived = Some((secret, Arc::new(ScramSecret::of(&salted))));
                let under_way = place.hashing.take_if(|hashing| hashing.asker == key);
                self.ask_proof(key, Demand::Proof(method), reported_secret);
                under_way.into_iter().flat_map(|hashing| hashing.waiting).for_each(|other| self.ask_after_hash(other));
            }
            None => {}
        }
    }

    /// The secret has been hashed that this client waited for together with another client.
    fn ask_after_hash(&mut self, key: Key) {
        let Some(login) = self.clients.login_mut(key) else { return };
        if let Some(Hashing::Secret { method, reported_secret, .. }) =
            login.take_awaiting_hash().map(|hashing| *hashing)
        {
            self.ask_proof(key, Demand::Proof(method), reported_secret);
        }
    }

    fn hashed_for_server(&mut self, key: ServerKey, hashed: Hashed) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let conn = server.conn();
        let ServerStage::Login(login) = server.stage_mut() else { return };
        match hashed {
            Ok(salted) => {
                if let Some(out) = login.salted(salted) {
                    self.hands.io.send(conn, out.into());
                }
            }
            Err(why) => {
                self.log_server(key, Level::Warning, format_args!("server login failed: {why}"));
                self.dial_failed(key, Failure::unreachable(why));
            }
        }
    }

    /// The system user of a client is known: checks whether it may be the database user that the client named.
    pub(crate) fn system_user(&mut self, key: Key, found: SystemUser) {
        let Some(login) = self.clients.login(key) else { return };
        let Some(map) = login.awaited_map() else { return };
        let name = match found {
            Ok(name) => name,
            Err(why) => {
                self.log_client(key, Level::Warning, format_args!("{why}"));
                self.login_failed_line(key);
                self.fail_client(key, &Fault::SystemUsersFull);
                return;
            }
        };
        let user = login.request.user.clone();
        // As in PgBouncer, a line in `[users]` sets limits for a user, and does not say that the user exists.
        let is_known = login.reported_secret.is_some() || self.hands.active.users.secret(&user).is_some();
        let is_same = match (&map, name.as_deref()) {
            (_, None) => false,
            (None, Some(name)) => *name == *user,
            (Some(map), Some(name)) => self.hands.active.idents.allows(map, name, &user),
        };
        if is_known && is_same {
            self.passed(key, None);
            return;
        }
        if let (Some(map), false) = (&map, is_same) {
            self.log_client(key, Level::Error, format_args!("ident map {map} cannot be matched"));
        }
        self.fail_client(key, &Fault::UnixSocketRejected);
    }

    /// A server has answered `auth_query`.
    pub(crate) fn auth_query_answered(&mut self, key: Key, answer: AuthQueryAnswer) {
        let Some(login) = self.clients.login_mut(key) else { return };
        if let Some(again) = login.take_awaiting_recheck() {
            self.auth_query_answered_again(key, *again, answer);
            return;
        }
        let Some(demand) = login.take_awaiting_secret() else { return };
        let fault = match answer {
            AuthQueryAnswer::User { name, .. } if *name != *login.request.user => {
                self.log_client(key, Level::Error, format_args!("auth_query response is about another user: {name}"));
                Fault::BouncerConfig
            }
            AuthQueryAnswer::User { secret, .. } => {
                login.reported_secret = Some(secret.clone());
                self.remember_secret(key, &secret);
                self.ask_proof(key, demand, Some(secret));
                return;
            }
            // The client is asked for a proof like any other, and no proof can be right.
            AuthQueryAnswer::Nobody if matches!(demand, Demand::Proof(Method::Plain | Method::Md5 | Method::Scram)) => {
                let user = login.request.user.clone();
                self.log_client(key, Level::Log, format_args!("no such user: {user}"));
                self.ask_proof(key, demand, Some(Arc::new(Secret::None)));
                return;
            }
            AuthQueryAnswer::Nobody => Fault::NoSuchUser,
            AuthQueryAnswer::Unanswered(why) => {
                self.log_client(key, Level::Error, format_args!("{why}"));
                fault_of_part()
            }
            // The detail names the user of our login, and is for the log only: this client has not been authenticated.
            AuthQueryAnswer::Refused { sqlstate, text, detail, .. } => {
                let detail = detail.as_deref().unwrap_or_default();
                self.log_client(key, Level::Error, format_args!("auth_query failed: {text} {detail}"));
                Fault::ServerSaid { sqlstate, text, detail: Some(OWN_LOGIN.into()), hint: None, whose: None }
            }
        };
        self.fail_client(key, &fault);
    }

    /// A server has answered `auth_query` once more: checks what the client has sent against the new secret.
    fn auth_query_answered_again(&mut self, key: Key, again: Recheck, answer: AuthQueryAnswer) {
        let Some(login) = self.clients.login_mut(key) else { return };
        let user = login.request.user.clone();
        match answer {
            AuthQueryAnswer::User { name, secret } if *name == *user => {
                login.reported_secret = Some(secret.clone());
                self.remember_secret(key, &secret);
                // The client has been sent this challenge already; if the new secret needs another one, the client's
                // response does not fit it.
                if let Ok(known) = self.known(&user, again.method, Some(secret))
                    && let Ok(Step::Ask(asked)) = Login::begin(again.method, known, again.dice, &mut Vec::new())
                {
                    match asked.answer(&again.body, &mut Vec::new()) {
                        Ok(Step::Passed(keys)) => {
                            self.passed(key, keys);
                            return;
                        }
                        Ok(Step::Derive(unproved, derivation)) => {
                            self.hash_proof(key, unproved, derivation, None);
                            return;
                        }
                        Ok(Step::Ask(_) | Step::ExternalAuth(_)) | Err(_) => {}
                    }
                }
            }
            AuthQueryAnswer::Unanswered(why) => {
                self.log_client(key, Level::Error, format_args!("{why}"));
            }
            AuthQueryAnswer::User { .. } | AuthQueryAnswer::Nobody | AuthQueryAnswer::Refused { .. } => {}
        }
        self.login_failed_line(key);
        self.fail_client(key, &again.fault);
    }

    /// A server has answered `auth_query` once more for a pool's user: the next servers of the pool log in with that secret.
    pub(crate) fn auth_query_answered_for_pool(&mut self, key: PoolKey, answer: AuthQueryAnswer) {
        let Some(place) = self.registry.pool_mut(key) else { return };
        place.doubt = Doubt::Unchanged;
        match answer {
            AuthQueryAnswer::User { name, secret } if name == place.user_name && !secret.is_none() => {
                if place.reported_secret.as_ref() != Some(&secret) {
                    (place.reported_secret, place.doubt) = (Some(secret), Doubt::None);
                }
            }
            AuthQueryAnswer::Unanswered(why) => {
                let line = self.inquirer_prefix(Inquirer::Pool(key));
                self.hands.log.about(&line, Level::Error, format_args!("{why}"));
            }
            AuthQueryAnswer::User { .. } | AuthQueryAnswer::Nobody | AuthQueryAnswer::Refused { .. } => {}
        }
    }
}

/// The detail that an unauthenticated client is sent when our own login for `auth_query` was refused.
const OWN_LOGIN: &str = "This is about the pooler's own login, which asks for the user (auth_query).";
