//! The poolers that are measured, and the configuration that all of them get.

use std::path::{Path, PathBuf};

use ops::trial::{DATABASE, USER};

use super::certificate::{CERTIFICATE_FILE, KEY_FILE};
use super::options::Options;
use setup::which;

use crate::house::House;

/// A pooler that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contestant {
    Uring,
    Epoll,
    PgBouncer,
}

impl Contestant {
    pub(super) const ALL: [Self; 3] = [Self::Uring, Self::Epoll, Self::PgBouncer];
    pub(super) const BACKWARD: [Self; 3] = [Self::PgBouncer, Self::Epoll, Self::Uring];
    /// Those whose ratio to PgBouncer is taken.
    pub(super) const OURS: [Self; 2] = [Self::Uring, Self::Epoll];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Uring => "Trunkline io_uring",
            Self::Epoll => "Trunkline epoll",
            Self::PgBouncer => "PgBouncer",
        }
    }

    /// The name in file names and in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Epoll => "epoll",
            Self::PgBouncer => "pgbouncer",
        }
    }

    /// The settings that PgBouncer does not have.
    pub(super) fn own_settings(self) -> &'static str {
        match self {
            Self::Uring => "workers = 1\nio_backend = io_uring\n",
            Self::Epoll => "workers = 1\nio_backend = epoll\n",
            Self::PgBouncer => "",
        }
    }

    /// The configuration: the same for all but for the settings above. `databases_more` entries follow the one in use.
    /// The database [`TAPPED`] reaches PostgreSQL through a relay that counts.
    pub(super) fn ini(self, become_name: Option<&str>, ports: Ports, databases_more: u32) -> String {
        let Ports { server, tap, own } = ports;
        let entry = |name: &str| format!("{name} = host=127.0.0.1 port={server} dbname={DATABASE}\n");
        let more: String = (0..databases_more).map(|number| entry(&format!("database_{number:05}"))).collect();
        let tapped = format!("{TAPPED} = host=127.0.0.1 port={tap} dbname={DATABASE}\n");
        let become_line = become_name.map(|name| format!("user = {name}\n")).unwrap_or_default();
        format!(
            "[databases]\n{}{tapped}{more}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\n\
             {become_line}auth_type = trust\nauth_file = users.txt\nadmin_users = {USER}\npool_mode = transaction\n\
             default_pool_size = {SERVERS}\nmax_client_conn = {CLIENTS_MAX}\nlisten_backlog = 1024\n\
             log_connections = 0\nlog_disconnections = 0\nclient_tls_sslmode = allow\n\
             client_tls_cert_file = {CERTIFICATE_FILE}\nclient_tls_key_file = {KEY_FILE}\n{}",
            entry(DATABASE),
            self.own_settings(),
        )
    }
}

/// The ports of PostgreSQL, of the relay before it, and of the pooler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) server: u16,
    pub(super) tap: u16,
    pub(super) own: u16,
}

/// The programs of the poolers.
#[derive(Debug)]
pub(super) struct Executables {
    pub(super) trunkline: PathBuf,
    pub(super) pgbouncer: PathBuf,
}

impl Executables {
    /// Builds Trunkline and finds PgBouncer, unless the options name other programs.
    pub(super) fn find(house: &House, options: &Options) -> Result<Self, String> {
        let trunkline = options.trunkline.clone().map_or_else(|| house.build_release(), Ok)?;
        let pgbouncer = options.pgbouncer.clone().or_else(|| which("pgbouncer", &[PathBuf::from("/usr/sbin")]));
        let pgbouncer = pgbouncer.ok_or("PgBouncer is not installed; on Debian: sudo apt-get install pgbouncer")?;
        Ok(Self { trunkline: absolute(trunkline), pgbouncer: absolute(pgbouncer) })
    }

    pub(super) fn of(&self, contestant: Contestant) -> &Path {
        match contestant {
            Contestant::Uring | Contestant::Epoll => &self.trunkline,
            Contestant::PgBouncer => &self.pgbouncer,
        }
    }
}

/// Makes a path absolute, because the programs are started from another folder.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// The database that is reached through the relay.
pub(super) const TAPPED: &str = "tapped";

/// `default_pool_size` of each pooler.
pub(super) const SERVERS: u32 = 20;

const CLIENTS_MAX: u32 = 12_000;

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { server: 1, tap: 2, own: 3 };

    #[test]
    fn pgbouncer_gets_the_same_configuration_without_what_it_does_not_know() {
        let ours = Contestant::Epoll.ini(None, PORTS, 0);
        let theirs = Contestant::PgBouncer.ini(None, PORTS, 0);
        assert_eq!(ours.strip_prefix(&theirs), Some("workers = 1\nio_backend = epoll\n"));
    }

    #[test]
    fn the_start_with_many_databases_has_so_many() {
        let ini = Contestant::Uring.ini(Some("postgres"), PORTS, 9_999);
        assert_eq!(ini.lines().filter(|line| line.contains("port=1 dbname=")).count(), 10_000);
    }
}
