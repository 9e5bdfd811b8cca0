//! What is known of users' secrets; those that a server knows (`auth_query`) are asked through the pool of `auth_user` by the
//! control thread.
//!
//! Always true: a server is asked about whoever has no secret of its own here, at every login or as often as
//! `auth_query_cache_ttl` says; what it tells is for logins of that very user to that very database, and for the logins of
//! that user at servers. What is remembered is forgotten by a reload, and when somebody does not fit it.
//! Not here: asking (`control::secrets`), how a proof goes (`protocol::client::login`).

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::{ScramSecret, Secret, ServerSecret};
use base::planted::{self, Planted};
use base::{Key, Time};
use pool::PoolKey;
use protocol::client::login::{Dice, Known, Login, Method, Step};
use protocol::fault::Fault;
use reactor::{Io, Level};

use crate::admin::console::CONSOLE;
use crate::admission::proof::Demand;
use crate::data::client::{Client, Stage};
use crate::letters::{Inquirer, SecretQuestion, ToControl, Told};
use crate::places::Doubt;
use crate::turn::Worker;

/// What servers have told of users, each for its time.
#[derive(Debug, Default)]
pub(crate) struct RememberedSecrets {
    rows: BTreeMap<(Arc<str>, Arc<str>), Remembered>,
}

#[derive(Debug)]
struct Remembered {
    secret: Arc<Secret>,
    until: Time,
}

/// What a client has shown, to be judged by another secret.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) method: Method,
    pub(crate) dice: Dice,
    pub(crate) body: Vec<u8>,
    /// What it is told if that does not fit either.
    pub(crate) fault: Fault,
}

impl RememberedSecrets {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }

    fn find(&self, database: &str, user: &str, now: Time) -> Option<Arc<Secret>> {
        let mut row = self.rows.get(&(Arc::from(database), Arc::from(user)));
        if planted::is(Planted::RememberedByUser) {
            row = self.rows.iter().find(|((_, of), _)| **of == *user).map(|(_, row)| row);
        }
        row.filter(|row| now < row.until).map(|row| Arc::clone(&row.secret))
    }

    fn keep(&mut self, database: &str, user: &str, secret: Arc<Secret>, until: Time, now: Time) {
        if self.rows.len() >= REMEMBERED_MAX {
            self.rows.retain(|_, row| now < row.until);
        }
        if self.rows.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.rows.iter().min_by_key(|(_, row)| row.until).map(|(name, _)| name.clone())
        {
            self.rows.remove(&oldest);
        }
        self.rows.insert((database.into(), user.into()), Remembered { secret, until });
    }

    /// Whether there was anything to forget.
    pub(crate) fn forget(&mut self, database: &str, user: &str) -> bool {
        self.rows.remove(&(Arc::from(database), Arc::from(user))).is_some()
    }
}

impl<I: Io> Worker<I> {
    /// What is known of a user, and what SCRAM is checked against.
    ///
    /// # Errors
    /// This secret is to be hashed first.
    pub(crate) fn known(
        &mut self,
        user: &str,
        method: Method,
        told: Option<Arc<Secret>>,
    ) -> Result<Known, Arc<Secret>> {
        let settings = &self.force.settings;
        // Who stands in [users] only is nobody, as in PgBouncer.
        let is_told = told.is_some();
        let secret = told.or_else(|| self.force.users.secret(user).cloned());
        let is_asked_by_scram = match secret.as_deref() {
            // As in PostgreSQL, whom a server does not know, or knows no password of, is taken for somebody with a secret of SCRAM.
            None | Some(Secret::None) if method == Method::Md5 => {
                is_told
                    || matches!(
                        self.force.users.like(user, &self.force.mock_key).map(|like| &**like),
                        None | Some(Secret::None | Secret::Scram(_))
                    )
            }
            _ => method == Method::Scram,
        };
        let scram = match secret.as_deref() {
            Some(Secret::Scram(stored)) => Some(ServerSecret::Stored(stored.clone())),
            _ if !is_asked_by_scram => None,
            Some(Secret::Plain(_)) => match (self.derived(user, secret.as_ref()), &secret) {
                (None, Some(secret)) => return Err(secret.clone()),
                (derived, _) => derived.map(ServerSecret::Derived),
            },
            _ => Some(ServerSecret::mock(user, &self.force.mock_key, settings.scram_iterations)),
        };
        let like = self.force.users.iter().next().map(|(_, secret)| secret.clone());
        Ok(Known { user: user.into(), secret, scram, like, channel: None })
    }

    /// What a plaintext secret is checked against by SCRAM, if that has been made of it: once for each secret, since it costs a
    /// millisecond.
    fn derived(&self, user: &str, secret: Option<&Arc<Secret>>) -> Option<Arc<ScramSecret>> {
        let number = self.places.known_user(user)?;
        let (of, derived) = self.places.users[number as usize].derived.as_ref()?;
        let is_of_now = derived.iterations == self.force.settings.scram_iterations;
        // A server tells the same secret at each login.
        (is_of_now && Some(of) == secret).then(|| derived.clone())
    }

    /// What a server has told of a client's user not long ago, if that is believed.
    pub(crate) fn remembered_secret(&mut self, key: Key) -> Option<Arc<Secret>> {
        self.force.settings.auth_query_cache_ttl?;
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return None };
        let secret = self.remembered.find(&login.request.database, &login.request.user, self.now)?;
        login.told = Some(secret.clone());
        login.is_told_before = true;
        Some(secret)
    }

    /// Remembers what a server has told of a client's user, if there is something to be remembered.
    fn remember_secret(&mut self, key: Key, secret: &Arc<Secret>) {
        let Some(believed) = self.force.settings.auth_query_cache_ttl.filter(|_| !secret.is_none()) else { return };
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get(key) else { return };
        let (database, user) = (&login.request.database, &login.request.user);
        self.remembered.keep(database, user, secret.clone(), self.now + believed, self.now);
    }

    /// A client's proof does not fit. If that was judged by what is remembered, it is forgotten, and where the proof says anything
    /// about another secret the server is asked once more: then the answer is awaited, and the client with it.
    pub(crate) fn doubt_secret(&mut self, key: Key, again: Option<Again>) -> bool {
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return false };
        if !std::mem::take(&mut login.is_told_before) {
            return false;
        }
        let (database, user) = (login.request.database.clone(), login.request.user.clone());
        self.remembered.forget(&database, &user);
        let Some(again) = again else { return false };
        let Ok(Some(question)) = self.secret_question(Inquirer::Client(key), &database, &user) else { return false };
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return false };
        login.await_secret_again(again);
        (self.posts.control)(ToControl::AskSecret(question));
        true
    }

    /// A server has told of a user once more: does what the client has shown fit now?
    fn told_again(&mut self, key: Key, again: Again, told: Told) {
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return };
        let user = login.request.user.clone();
        match told {
            Told::User { name, secret } if *name == *user => {
                login.told = Some(secret.clone());
                self.remember_secret(key, &secret);
                // The same has been asked already; if the new secret asks otherwise, what has come does not answer it.
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
                        Ok(Step::Ask(_) | Step::Judge(_)) | Err(_) => {}
                    }
                }
            }
            Told::Unanswered(why) => {
                let line = self.client_prefix(key);
                self.log.add(Level::Error, format_args!("{line}{why}"));
            }
            Told::User { .. } | Told::Nobody | Told::Refused { .. } => {}
        }
        self.login_failed_line(key);
        self.fail_client(key, &again.fault);
    }

    /// Whether the file of secrets has one of this user.
    pub(crate) fn has_secret(&self, user: &str) -> bool {
        self.force.users.secret(user).is_some_and(|secret| !secret.is_none())
    }

    /// What a server is to be asked about this user, if anybody is there to ask it.
    ///
    /// # Errors
    /// What the client is told when the question cannot be asked as it is configured.
    pub(crate) fn secret_question(
        &mut self,
        inquirer: Inquirer,
        database: &str,
        user: &str,
    ) -> Result<Option<SecretQuestion>, Fault> {
        let force = self.force.clone();
        let settings = &force.settings;
        let entry = settings.database(database);
        if entry.is_none() && database != CONSOLE {
            // Whether it exists is told to nobody who has not proved who they are.
            return Ok(None);
        }
        let own = entry.as_ref();
        let shared = |setting: &Option<String>| setting.as_deref().map(Arc::from);
        let Some(asker) = own.and_then(|entry| entry.auth_user.clone()).or_else(|| shared(&settings.auth_user)) else {
            return Ok(None);
        };
        let asked = own.and_then(|entry| entry.auth_dbname.clone()).or_else(|| shared(&settings.auth_dbname));
        let asked: Arc<str> = asked.unwrap_or_else(|| database.into());
        if *asked == *CONSOLE {
            let line = self.inquirer_prefix(inquirer);
            let text = format_args!("{line}cannot use the reserved \"{CONSOLE}\" database as an auth_dbname");
            self.log.add(Level::Error, text);
            return Err(Fault::BouncerConfig);
        }
        if settings.database(&asked).is_none() {
            let line = self.inquirer_prefix(inquirer);
            self.log.add(Level::Error, format_args!("{line}authentication database \"{asked}\" is not configured."));
            return Err(Fault::BouncerConfig);
        }
        if force.standing.disabled.contains(&asked) {
            return Err(Fault::AuthDatabaseDisabled { name: (*asked).into() });
        }
        let sql = own.and_then(|entry| entry.auth_query.clone()).unwrap_or_else(|| (*settings.auth_query).into());
        Ok(Some(SecretQuestion { from: self.id, inquirer, database: asked, asker, sql, user: user.into() }))
    }

    fn inquirer_prefix(&self, inquirer: Inquirer) -> String {
        match inquirer {
            Inquirer::Client(key) => self.client_prefix(key),
            Inquirer::Pool(key) => match self.places.pool(key) {
                Some(place) => format!("{}/{} ", place.database_name, place.user_name),
                None => String::new(),
            },
        }
    }

    /// A server does not take the password of a pool's user. If it is what a server told of that user once, it is asked for
    /// again: whoever waits in the pool has shown long ago who they are, and will not come once more. Says whether there may be
    /// another one.
    pub(crate) fn doubt_secret_of_pool(&mut self, key: PoolKey) -> bool {
        let Some(place) = self.places.pool(key).filter(|_| self.is_told_secret(key)) else { return false };
        let doubt = place.doubt;
        if doubt == Doubt::Asking {
            return true;
        }
        let (database, user) = (place.database_name.clone(), place.user_name.clone());
        let Ok(Some(question)) = self.secret_question(Inquirer::Pool(key), &database, &user) else { return false };
        // Who asks is in the pool that would have to be asked.
        if question.asker == user {
            return false;
        }
        if let Some(place) = self.places.pool_mut(key) {
            place.doubt = Doubt::Asking;
        }
        (self.posts.control)(ToControl::AskSecret(question));
        doubt == Doubt::None
    }

    /// A server has said once more what it knows of a pool's user: the pool's next servers are logged in by that.
    pub(crate) fn told_of_pool(&mut self, key: PoolKey, told: Told) {
        let Some(place) = self.places.pool_mut(key) else { return };
        place.doubt = Doubt::InVain;
        match told {
            Told::User { name, secret } if name == place.user_name && !secret.is_none() => {
                if place.told.as_ref() != Some(&secret) {
                    (place.told, place.doubt) = (Some(secret), Doubt::None);
                }
            }
            Told::Unanswered(why) => {
                let line = self.inquirer_prefix(Inquirer::Pool(key));
                self.log.add(Level::Error, format_args!("{line}{why}"));
            }
            Told::User { .. } | Told::Nobody | Told::Refused { .. } => {}
        }
    }

    /// A server has said what it knows of a user.
    pub(crate) fn told(&mut self, key: Key, told: Told) {
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return };
        if let Some(again) = login.take_awaiting_again() {
            self.told_again(key, *again, told);
            return;
        }
        let Some(demand) = login.take_awaiting_secret() else { return };
        let fault = match told {
            Told::User { name, .. } if *name != *login.request.user => {
                let line = self.client_prefix(key);
                self.log.add(Level::Error, format_args!("{line}auth_query response is about another user: {name}"));
                Fault::BouncerConfig
            }
            Told::User { secret, .. } => {
                login.told = Some(secret.clone());
                self.remember_secret(key, &secret);
                self.ask_proof(key, demand, Some(secret));
                return;
            }
            // Is asked as anybody is, and cannot answer rightly.
            Told::Nobody if matches!(demand, Demand::Proof(Method::Plain | Method::Md5 | Method::Scram)) => {
                let user = login.request.user.clone();
                let line = self.client_prefix(key);
                self.log.add(Level::Log, format_args!("{line}no such user: {user}"));
                self.ask_proof(key, demand, Some(Arc::new(Secret::None)));
                return;
            }
            Told::Nobody => Fault::NoSuchUser,
            Told::Unanswered(_) if planted::is(Planted::TornAnswerIsNobody) => Fault::NoSuchUser,
            Told::Unanswered(why) => {
                let line = self.client_prefix(key);
                self.log.add(Level::Error, format_args!("{line}{why}"));
                Fault::BouncerConfig
            }
            Told::Refused { sqlstate, text, detail, hint } => Fault::ServerSaid { sqlstate, text, detail, hint },
        };
        self.fail_client(key, &fault);
    }
}

/// Users that are remembered in a worker; one more, and the oldest is asked about again.
const REMEMBERED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Arc<Secret> {
        Arc::new(Secret::parse(text))
    }

    #[test]
    fn a_secret_is_remembered_for_its_user_and_database_and_time() {
        let mut remembered = RememberedSecrets::default();
        let (now, until) = (Time::from_secs(1), Time::from_secs(6));
        remembered.keep("d", "u", secret("one"), until, now);
        assert_eq!(remembered.find("d", "u", now), Some(secret("one")));
        assert_eq!(remembered.find("d", "v", now), None);
        assert_eq!(remembered.find("e", "u", now), None);
        assert_eq!(remembered.find("d", "u", until), None);
        assert!(remembered.forget("d", "u") && !remembered.forget("d", "u"));
        assert_eq!(remembered.find("d", "u", now), None);
    }

    #[test]
    fn beyond_the_limit_the_oldest_is_forgotten() {
        let mut remembered = RememberedSecrets::default();
        let now = Time::from_secs(1);
        for number in 0..=REMEMBERED_MAX {
            remembered.keep("d", &format!("u{number}"), secret("x"), Time::from_secs(10 + number as u64), now);
        }
        assert_eq!(remembered.rows.len(), REMEMBERED_MAX);
        assert_eq!(remembered.find("d", "u0", now), None);
        assert!(remembered.find("d", "u1", now).is_some());
    }
}
