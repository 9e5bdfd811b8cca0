//! Reloading the configuration, `auth_file`, certificates and keys, the name servers and the log file.
//!
//! Always true: after an error in the configuration, in a file that it names or in what TLS needs, nothing has changed;
//! otherwise everything that can change has, between two turns of each worker.
//! Not here: reading the files (`source`), who orders a reload, and what new settings mean for other parts (`control`).

use std::sync::{Arc, RwLock};

use auth::{Hba, IdentMaps, UserFile};
use config::{NameServers, Settings, Warning};
use reactor::{Level, LogTarget};
use worker::letters::TlsTerms;

use crate::hands::Hands;
use crate::source::{self, Source};
use crate::tls::read_tls;

/// The log in force, to which a panic writes its message.
pub type SharedLog = Arc<RwLock<Arc<LogTarget>>>;

/// The source of the settings, and the warnings logged about them.
#[derive(Debug)]
pub(crate) struct Configuration {
    source: Source,
    pub(crate) shared_log: SharedLog,
    /// The warnings about the settings in force.
    told: Vec<Warning>,
}

/// A complete and valid configuration that is to be put in force.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) settings: Settings,
    pub(crate) users: UserFile,
    pub(crate) rules: (Hba, IdentMaps),
    pub(crate) tls: TlsTerms,
}

/// The new configuration, the name servers, and the names of changed settings that need a restart.
type ReadAgain = (Fresh, Option<Arc<NameServers>>, Vec<&'static str>);

impl Configuration {
    /// `told` holds the warnings about the settings in force; they have been logged already.
    pub(crate) fn new(source: Source, shared_log: SharedLog, told: Vec<Warning>) -> Self {
        Self { source, shared_log, told }
    }

    /// Reads everything again, including the name servers, and returns the changed settings that need a restart.
    ///
    /// # Errors
    /// All errors of all files, which have been logged.
    pub(crate) fn read_again<S>(&mut self, hands: &Hands<S>) -> Result<ReadAgain, Vec<String>> {
        let mut loaded = self.source.read_again(&hands.active.settings).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            say(hands, lines, "config file loading failed")
        })?;
        loaded.settings.keep_members(&hands.active.settings);
        let users = self.read_users(&loaded.settings, hands);
        let rules = self.read_rules(&loaded.settings, hands);
        let tls = self.read_tls(&loaded.settings, hands);
        let name_servers = self.read_name_servers(&loaded.settings, hands);
        let (users, rules, tls, name_servers) = match (users, rules, tls, name_servers) {
            (Ok(users), Ok(rules), Ok(tls), Ok(name_servers)) => (users, rules, tls, name_servers),
            (users, rules, tls, name_servers) => {
                let wrong = [users.err(), rules.err(), tls.err(), name_servers.err()];
                return Err(wrong.into_iter().flatten().flatten().collect());
            }
        };
        self.tell_new(loaded.warnings, hands);
        for peer in hands.active.settings.peers.keys().filter(|peer| !loaded.settings.peers.contains_key(peer)) {
            hands.log(Level::Warning, format_args!("dropping peer {peer} as it does not exist anymore"));
        }
        Ok((Fresh { settings: loaded.settings, users, rules, tls }, name_servers, loaded.restart_needed))
    }

    /// Puts settings and secrets in force; the workers are yet to be told. PAUSE, DISABLE and the like stay in effect,
    /// except for databases that are gone.
    pub(crate) fn put_in_force<S>(&self, fresh: Fresh, hands: &mut Hands<S>) {
        let log = self.reopen_log(&fresh.settings, hands);
        let Fresh { settings, users, rules, tls } = fresh;
        hands.active = Arc::new(source::next_config(settings, users, rules, tls, log, &hands.active));
    }

    /// Logs the warnings that have not been logged before, so that a reload every minute does not repeat them every
    /// minute.
    fn tell_new<S>(&mut self, warnings: Vec<Warning>, hands: &Hands<S>) {
        for warning in warnings.iter().filter(|warning| !self.told.contains(warning)) {
            hands.log(Level::Warning, format_args!("{warning}"));
        }
        self.told = warnings;
    }

    /// Reads the secrets from `auth_file`; fails if the file is broken, because half of a file would lock the other
    /// users out.
    ///
    /// # Errors
    /// The errors, which have been logged; likewise for the files below.
    pub(crate) fn read_users<S>(&self, settings: &Settings, hands: &Hands<S>) -> Result<UserFile, Vec<String>> {
        match source::read_users(settings, self.source.files()) {
            Ok((users, problems)) if problems.is_empty() => Ok(users),
            Ok((_, problems)) => {
                Err(say(hands, problems, "auth_file is broken, the old settings and secrets stay in force"))
            }
            // As in PgBouncer, the old secrets stay in force when the file cannot be read.
            Err(text) => {
                hands.log(Level::Error, format_args!("{text}"));
                Ok(hands.active.users.clone())
            }
        }
    }

    /// Reads the HBA and ident rules; fails when a file cannot be read, because an empty set of rules would lock
    /// everybody out, and a missing line may let somebody in.
    pub(crate) fn read_rules<S>(&self, settings: &Settings, hands: &Hands<S>) -> Result<(Hba, IdentMaps), Vec<String>> {
        match source::read_rules(settings, self.source.files()) {
            Ok((hba, idents, lines)) => {
                lines.iter().for_each(|line| hands.log(Level::Warning, format_args!("{line}")));
                Ok((hba, idents))
            }
            Err(lines) => Err(say(hands, lines, "rules cannot be read, the old settings and rules stay in force")),
        }
    }

    /// Reads the name servers; fails when the file is broken, because half of a file would ask different servers.
    pub(crate) fn read_name_servers<S>(
        &self,
        settings: &Settings,
        hands: &Hands<S>,
    ) -> Result<Option<Arc<NameServers>>, Vec<String>> {
        let failed = |lines| say(hands, lines, "resolv_conf is broken, the old settings stay in force");
        source::read_name_servers(settings, self.source.files()).map_err(failed)
    }

    /// Reads the certificates and keys for TLS; fails when one cannot be used.
    pub(crate) fn read_tls<S>(&self, settings: &Settings, hands: &Hands<S>) -> Result<TlsTerms, Vec<String>> {
        read_tls(settings, self.source.files()).inspect_err(|lines| {
            lines.iter().for_each(|line| hands.log(Level::Error, format_args!("{line}")));
        })
    }

    fn reopen_log<S>(&self, settings: &Settings, hands: &Hands<S>) -> Arc<LogTarget> {
        let log = match source::open_log(settings) {
            Ok(log) => Arc::new(log.in_place_of(&hands.active.log)),
            Err(text) => {
                hands.log(Level::Error, format_args!("{text}"));
                return Arc::clone(&hands.active.log);
            }
        };
        // The lock is poisoned only after a panic, and a panic ends the process.
        if let Ok(mut shared_log) = self.shared_log.write() {
            *shared_log = Arc::clone(&log);
        }
        log
    }
}

/// Logs the errors in a file and their consequence, and returns the errors.
fn say<S>(hands: &Hands<S>, lines: Vec<String>, follows: &str) -> Vec<String> {
    lines.iter().for_each(|line| hands.log(Level::Error, format_args!("{line}")));
    hands.log(Level::Error, format_args!("{follows}"));
    lines
}
