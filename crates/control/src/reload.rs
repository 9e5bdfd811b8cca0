//! Reading everything again: the configuration, the file of secrets, certificates and keys, the name servers, the log file.
//!
//! Always true: after a mistake in the configuration, in a file that it names or in what TLS needs nothing has changed;
//! otherwise everything that can change has, between two turns of each worker.
//! Not here: reading the files (`source`), who asks for it (`control`).

use std::sync::Arc;

use auth::{Hba, IdentMaps, UserFile};
use config::{NameServers, Settings, Warning};
use reactor::{Level, LogTarget};
use worker::letters::{TlsTerms, ToWorker};

use crate::control::Control;
use crate::source;

impl<S> Control<S> {
    /// Reads everything again. Whether the new settings are in force.
    pub(crate) fn reload(&mut self) -> bool {
        let loaded = match self.source.read_again(&self.force.settings) {
            Ok(loaded) => loaded,
            Err(mistakes) => {
                for mistake in mistakes {
                    self.log(Level::Error, format_args!("{mistake}"));
                }
                self.log(Level::Error, format_args!("config file loading failed"));
                return false;
            }
        };
        let Some(users) = self.read_users(&loaded.settings) else { return false };
        let Some(rules) = self.read_rules(&loaded.settings) else { return false };
        let tls = match crate::tls::read_tls(&loaded.settings, self.source.files()) {
            Ok(tls) => tls,
            Err(text) => {
                self.log(Level::Error, format_args!("{text}"));
                return false;
            }
        };
        let Some(name_servers) = self.read_name_servers(&loaded.settings) else { return false };
        self.tell_new(loaded.warnings);
        for peer in self.force.settings.peers.keys().filter(|peer| !loaded.settings.peers.contains_key(peer)) {
            self.log(Level::Warning, format_args!("dropping peer {peer} as it does not exist anymore"));
        }
        self.name_servers = name_servers;
        self.enforce(loaded.settings, users, rules, tls);
        true
    }

    /// Puts settings and secrets in force. What operators have ordered stays so, except for databases that are gone.
    pub(crate) fn enforce(&mut self, settings: Settings, users: UserFile, rules: (Hba, IdentMaps), tls: TlsTerms) {
        let log = self.reopen_log(&settings);
        if settings.stats_period != self.force.settings.stats_period {
            self.period_ends = self.now.time + settings.stats_period;
        }
        let old_period = self.force.settings.dns_zone_check_period;
        if settings.lock_sweep_interval != self.force.settings.lock_sweep_interval {
            self.sweeper.sweep_every(self.now.time, settings.lock_sweep_interval);
        }
        self.force = Arc::new(source::next_force(settings, users, rules, tls, log, &self.force));
        self.heed_zones(old_period);
        self.post_all(|| ToWorker::Force(Arc::clone(&self.force)));
    }

    /// Logs the warnings that have not been logged before: whoever reloads every minute wants no line a minute.
    fn tell_new(&mut self, warnings: Vec<Warning>) {
        for warning in warnings.iter().filter(|warning| !self.told.contains(warning)) {
            self.log(Level::Warning, format_args!("{warning}"));
        }
        self.told = warnings;
    }

    /// The secrets as they are in the file now; `None` when the file is broken, since half of a file would lock the others out.
    pub(crate) fn read_users(&self, settings: &Settings) -> Option<UserFile> {
        match source::read_users(settings, self.source.files()) {
            Ok((users, problems)) if problems.is_empty() => Some(users),
            Ok((_, problems)) => {
                problems.iter().for_each(|problem| self.log(Level::Error, format_args!("{problem}")));
                self.log(Level::Error, format_args!("auth_file is broken, the old settings and secrets stay in force"));
                None
            }
            // As in PgBouncer: a file that cannot be read takes no secret away from anybody.
            Err(text) => {
                self.log(Level::Error, format_args!("{text}"));
                Some(self.force.users.clone())
            }
        }
    }

    /// The rules as they are in the files now; `None` when one cannot be read: no rules would lock everybody out, and all but one may let
    /// somebody in.
    pub(crate) fn read_rules(&self, settings: &Settings) -> Option<(Hba, IdentMaps)> {
        match source::read_rules(settings, self.source.files()) {
            Ok((hba, idents, lines)) => {
                lines.iter().for_each(|line| self.log(Level::Warning, format_args!("{line}")));
                Some((hba, idents))
            }
            Err(lines) => {
                lines.iter().for_each(|line| self.log(Level::Error, format_args!("{line}")));
                self.log(Level::Error, format_args!("rules cannot be read, the old settings and rules stay in force"));
                None
            }
        }
    }

    /// The name servers as they are in the file now; `None` when it is broken: half of a file would ask somebody else.
    pub(crate) fn read_name_servers(&self, settings: &Settings) -> Option<Option<Arc<NameServers>>> {
        match source::read_name_servers(settings, self.source.files()) {
            Ok(servers) => Some(servers),
            Err(lines) => {
                lines.iter().for_each(|line| self.log(Level::Error, format_args!("{line}")));
                self.log(Level::Error, format_args!("resolv_conf is broken, the old settings stay in force"));
                None
            }
        }
    }

    fn reopen_log(&self, settings: &Settings) -> Arc<LogTarget> {
        let log = match source::open_log(settings) {
            Ok(log) => Arc::new(log.in_place_of(&self.force.log)),
            Err(text) => {
                self.log(Level::Error, format_args!("{text}"));
                return Arc::clone(&self.force.log);
            }
        };
        // The lock is poisoned only after a panic, and a panic ends the process.
        if let Ok(mut speaker) = self.speaker.write() {
            *speaker = Arc::clone(&log);
        }
        log
    }
}
