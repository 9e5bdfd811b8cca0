//! Passwords that somebody else knows: the system's modules (PAM) or a directory (LDAP), asked by the control thread.
//!
//! Always true: a client waits for its verdict and nobody waits with it; a password that was right is what its user logs in to
//! servers with, and is in nothing that is logged.
//! Not here: asking (`control::judges`), how the password comes (`login`).

use std::sync::Arc;

use auth::{LdapOptions, Password, Secret};
use base::planted::{self, Planted};
use base::{Key, WorkerId};
use pool::ClientKey;
use protocol::fault::Fault;
use reactor::{Io, Level, Peer};

use crate::admission::proof::Demand;
use crate::data::client::{Client, Stage};
use crate::letters::ToControl;
use crate::turn::Worker;

/// Who knows the passwords.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judge {
    /// The system's modules.
    Pam,
    /// A directory that is asked like this.
    Ldap(Arc<LdapOptions>),
}

/// Is this the password of this user?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PasswordQuestion {
    /// Who asks.
    pub from: WorkerId,
    /// For which client.
    pub client: ClientKey,
    /// Who knows.
    pub judge: Judge,
    /// The user.
    pub user: Arc<str>,
    /// The password.
    pub password: Password,
    /// Where the client comes from, as PAM's modules read it.
    pub host: Arc<str>,
}

/// The answer: it is, or why it is not, for the log.
pub type Verdict = Result<(), Arc<str>>;

impl Judge {
    /// What the client is told if it is not.
    fn fault(&self) -> Fault {
        match self {
            Self::Pam => Fault::PamWrong,
            Self::Ldap(_) => Fault::LdapWrong,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pam => "PAM",
            Self::Ldap(_) => "LDAP",
        }
    }
}

impl<I: Io> Worker<I> {
    /// What a client of a database has to show to a judge. A database with an `auth_user` of its own leaves nothing to one.
    pub(crate) fn demand_of_judge(&mut self, key: Key, database: &str, judge: Judge) -> Demand {
        let has_asker = self.force.settings.database(database).is_some_and(|entry| entry.auth_user.is_some());
        if !has_asker {
            return Demand::Judgement(judge);
        }
        let (line, name) = (self.client_prefix(key), judge.name());
        self.log.add(Level::Error, format_args!("{line}{name} can't be used together with database authentication"));
        Demand::Refusal(Fault::BouncerConfig)
    }

    /// Has somebody else judge a password.
    pub(crate) fn ask_judge(&mut self, key: Key, judge: Judge, password: Password) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let host = match client.peer {
            Peer::Tcp(address) => address.ip().to_string(),
            Peer::Unix { .. } => "unix".to_owned(),
        };
        let Stage::Login(login) = &mut client.stage else { return };
        let user: Arc<str> = login.request.user.as_ref().into();
        login.await_verdict(judge.clone(), password.clone());
        let question = PasswordQuestion { from: self.id, client: key, judge, user, password, host: host.into() };
        (self.posts.control)(ToControl::AskJudge(question));
    }

    /// A judge has spoken.
    pub(crate) fn judged(&mut self, mut key: Key, verdict: Verdict) {
        if planted::is(Planted::VerdictForThePlace) {
            key = self.clients.keys().into_iter().find(|now| now.index == key.index).unwrap_or(key);
        }
        let Some(Client { stage: Stage::Login(login), .. }) = self.clients.get_mut(key) else { return };
        let Some((judge, password)) = login.take_awaiting_verdict() else { return };
        match verdict {
            Ok(()) => {
                login.judged = Some(Arc::new(Secret::Plain(password)));
                self.passed(key, None);
            }
            Err(why) => {
                let line = self.client_prefix(key);
                self.log.add(Level::Warning, format_args!("{line}{why}"));
                self.login_failed_line(key);
                self.fail_client(key, &judge.fault());
            }
        }
    }
}
