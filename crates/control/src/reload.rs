//! Reading everything again: the configuration, the file of secrets, certificates and keys, the name servers, the log file.
//!
//! Always true: after a mistake in the configuration, in a file that it names or in what TLS needs nothing has changed;
//! otherwise everything that can change has, between two turns of each worker.
//! Not here: reading the files (`source`), who asks for it, and what new settings mean for the other parts (`control`).

use std::sync::{Arc, RwLock};

use auth::{Hba, IdentMaps, UserFile};
use config::{NameServers, Settings, Warning};
use reactor::{Level, LogTarget};
use worker::letters::TlsTerms;

use crate::present::Present;
use crate::source::{self, Source};
use crate::tls::read_tls;

/// Where the last words of a panic go: the log in force.
pub type Speaker = Arc<RwLock<Arc<LogTarget>>>;

/// What the settings are read from, and what has been said of them.
#[derive(Debug)]
pub(crate) struct Configuration {
    source: Source,
    pub(crate) speaker: Speaker,
    /// The warnings about the settings in force.
    told: Vec<Warning>,
}

/// What was read, whole and right, to be put in force.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) settings: Settings,
    pub(crate) users: UserFile,
    pub(crate) rules: (Hba, IdentMaps),
    pub(crate) tls: TlsTerms,
}

/// What was read, the name servers, and settings that only a restart changes.
type ReadAgain = (Fresh, Option<Arc<NameServers>>, Vec<&'static str>);

impl Configuration {
    /// The warnings about what is in force have been logged already.
    pub(crate) fn new(source: Source, speaker: Speaker, told: Vec<Warning>) -> Self {
        Self { source, speaker, told }
    }

    /// Reads everything again, name servers too, and tells what has changed and waits for a restart.
    ///
    /// # Errors
    /// All mistakes of all files, which have been logged.
    pub(crate) fn read_again<S>(&mut self, present: &Present<S>) -> Result<ReadAgain, Vec<String>> {
        let loaded = self.source.read_again(&present.active.settings).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            say(present, lines, "config file loading failed")
        })?;
        let users = self.read_users(&loaded.settings, present);
        let rules = self.read_rules(&loaded.settings, present);
        let tls = self.read_tls(&loaded.settings, present);
        let name_servers = self.read_name_servers(&loaded.settings, present);
        let (users, rules, tls, name_servers) = match (users, rules, tls, name_servers) {
            (Ok(users), Ok(rules), Ok(tls), Ok(name_servers)) => (users, rules, tls, name_servers),
            (users, rules, tls, name_servers) => {
                let wrong = [users.err(), rules.err(), tls.err(), name_servers.err()];
                return Err(wrong.into_iter().flatten().flatten().collect());
            }
        };
        self.tell_new(loaded.warnings, present);
        for peer in present.active.settings.peers.keys().filter(|peer| !loaded.settings.peers.contains_key(peer)) {
            present.log(Level::Warning, format_args!("dropping peer {peer} as it does not exist anymore"));
        }
        Ok((Fresh { settings: loaded.settings, users, rules, tls }, name_servers, loaded.restart_needed))
    }

    /// Puts settings and secrets in force; the workers are still to be told. What operators have ordered stays so, except for
    /// databases that are gone.
    pub(crate) fn put_in_force<S>(&self, fresh: Fresh, present: &mut Present<S>) {
        let log = self.reopen_log(&fresh.settings, present);
        let Fresh { settings, users, rules, tls } = fresh;
        present.active = Arc::new(source::next_config(settings, users, rules, tls, log, &present.active));
    }

    /// Logs the warnings that have not been logged before: whoever reloads every minute wants no line a minute.
    fn tell_new<S>(&mut self, warnings: Vec<Warning>, present: &Present<S>) {
        for warning in warnings.iter().filter(|warning| !self.told.contains(warning)) {
            present.log(Level::Warning, format_args!("{warning}"));
        }
        self.told = warnings;
    }

    /// The secrets as they are in the file now; none when the file is broken, since half of a file would lock the others out.
    ///
    /// # Errors
    /// What is wrong, which has been logged; so with the files below.
    pub(crate) fn read_users<S>(&self, settings: &Settings, present: &Present<S>) -> Result<UserFile, Vec<String>> {
        match source::read_users(settings, self.source.files()) {
            Ok((users, problems)) if problems.is_empty() => Ok(users),
            Ok((_, problems)) => {
                Err(say(present, problems, "auth_file is broken, the old settings and secrets stay in force"))
            }
            // As in PgBouncer: a file that cannot be read takes no secret away from anybody.
            Err(text) => {
                present.log(Level::Error, format_args!("{text}"));
                Ok(present.active.users.clone())
            }
        }
    }

    /// The rules as they are in the files now; none when one cannot be read: no rules would lock everybody out, and all but one may let
    /// somebody in.
    pub(crate) fn read_rules<S>(
        &self,
        settings: &Settings,
        present: &Present<S>,
    ) -> Result<(Hba, IdentMaps), Vec<String>> {
        match source::read_rules(settings, self.source.files()) {
            Ok((hba, idents, lines)) => {
                lines.iter().for_each(|line| present.log(Level::Warning, format_args!("{line}")));
                Ok((hba, idents))
            }
            Err(lines) => Err(say(present, lines, "rules cannot be read, the old settings and rules stay in force")),
        }
    }

    /// The name servers as they are in the file now; none when it is broken: half of a file would ask somebody else.
    pub(crate) fn read_name_servers<S>(
        &self,
        settings: &Settings,
        present: &Present<S>,
    ) -> Result<Option<Arc<NameServers>>, Vec<String>> {
        let failed = |lines| say(present, lines, "resolv_conf is broken, the old settings stay in force");
        source::read_name_servers(settings, self.source.files()).map_err(failed)
    }

    /// What TLS needs, as the files are now; nothing when one cannot be used.
    pub(crate) fn read_tls<S>(&self, settings: &Settings, present: &Present<S>) -> Result<TlsTerms, Vec<String>> {
        read_tls(settings, self.source.files()).inspect_err(|lines| {
            lines.iter().for_each(|line| present.log(Level::Error, format_args!("{line}")));
        })
    }

    fn reopen_log<S>(&self, settings: &Settings, present: &Present<S>) -> Arc<LogTarget> {
        let log = match source::open_log(settings) {
            Ok(log) => Arc::new(log.in_place_of(&present.active.log)),
            Err(text) => {
                present.log(Level::Error, format_args!("{text}"));
                return Arc::clone(&present.active.log);
            }
        };
        // The lock is poisoned only after a panic, and a panic ends the process.
        if let Ok(mut speaker) = self.speaker.write() {
            *speaker = Arc::clone(&log);
        }
        log
    }
}

/// Logs what is wrong with a file, and what follows from it; gives back the former.
fn say<S>(present: &Present<S>, lines: Vec<String>, follows: &str) -> Vec<String> {
    lines.iter().for_each(|line| present.log(Level::Error, format_args!("{line}")));
    present.log(Level::Error, format_args!("{follows}"));
    lines
}
