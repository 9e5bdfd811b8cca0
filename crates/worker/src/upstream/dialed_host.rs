//! The host of one server: which one it is, and what the dial there has to remember.
//!
//! Always true: name and port are set once, when the server is dialed or arrives from another process.
//! Not here: the address, which a name has found (`host_names`), and how the host is chosen (`pool::HostChoice`).

use std::sync::Arc;

use config::Host;
use reactor::Address;

use crate::upstream::host_names::fixed_address;

/// The host of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct DialedHost {
    /// Its name or address as configured, which its certificate may have to show; empty for a unix socket.
    name: Arc<str>,
    port: u16,
    /// Its place in the list of the database.
    place: u16,
    /// It is known to be out of order, and a failed login there was logged not long ago.
    is_quiet: bool,
    question: RoleQuestion,
}

/// How far a server is with the question for the role of its host, which is asked before PostgreSQL 14.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum RoleQuestion {
    /// It has not been asked.
    #[default]
    None,
    /// It has not answered.
    Asked,
    /// It has answered, with an error, and is used all the same.
    Settled,
}

impl DialedHost {
    /// The host at this place of a database's list, which is about to be dialed.
    pub(super) fn new(host: &Host, port: u16, place: usize, is_quiet: bool) -> Self {
        let name = match host {
            Host::Ip(ip) => ip.to_string().into(),
            Host::Name(name) => name.clone(),
            Host::Unix(_) | Host::Abstract(_) => "".into(),
        };
        Self { name, port, place: place as u16, is_quiet, question: RoleQuestion::None }
    }

    /// No host is known that could be dialed.
    pub(super) fn unknown(is_quiet: bool) -> Self {
        Self { is_quiet, ..Self::default() }
    }

    /// Whether a host has been chosen.
    pub(super) fn is_known(&self) -> bool {
        self.port != 0
    }

    /// The host of a server that was dialed by another process. `port` is that of the database, for a unix socket.
    pub(crate) fn arrived(name: &str, address: &Address, port: u16) -> Self {
        let port = match address {
            Address::Tcp(address) => address.port(),
            Address::Unix(_) | Address::Abstract(_) => port,
        };
        Self { name: name.into(), port, ..Self::default() }
    }

    /// Its name or address; empty for a unix socket.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its name or address for logs and events; `unix` for a unix socket.
    pub(crate) fn word(&self) -> &str {
        if self.name.is_empty() { "unix" } else { &self.name }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn place(&self) -> usize {
        usize::from(self.place)
    }

    /// The list of the database has changed.
    pub(crate) fn stands_at(&mut self, place: usize) {
        self.place = place as u16;
    }

    /// Whether lines about the dial are of use only to who looks for them.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether a server with this address is at that host.
    pub(crate) fn is(&self, host: &Host, port: u16, address: Option<&Address>) -> bool {
        match host {
            Host::Name(name) => self.port == port && self.name == *name,
            Host::Ip(_) | Host::Unix(_) | Host::Abstract(_) if address.is_some() => {
                address == fixed_address(host, port).as_ref()
            }
            Host::Ip(ip) => self.port == port && *self.name == *ip.to_string(),
            Host::Unix(_) | Host::Abstract(_) => false,
        }
    }

    /// Whether both are the same host.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.name == other.name && self.port == other.port
    }

    /// The login has succeeded: whatever happens to the server from now on is worth a line.
    pub(super) fn is_reached(&mut self) {
        self.is_quiet = false;
    }

    /// The question for the role of the host is that far.
    pub(super) fn question_is(&mut self, question: RoleQuestion) {
        self.question = question;
    }

    /// Takes how far the question is, which an answer of the server ends.
    pub(super) fn take_question(&mut self) -> RoleQuestion {
        std::mem::take(&mut self.question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        match text.parse() {
            Ok(ip) => Host::Ip(ip),
            Err(_) if text.starts_with('/') => Host::Unix(text.into()),
            Err(_) => Host::Name(text.into()),
        }
    }

    #[test]
    fn a_server_is_at_its_host_by_name_or_by_address() {
        let tcp = |text: &str| Address::Tcp(text.parse().expect("an address"));
        let by_name = DialedHost::new(&host("db1"), 5432, 1, false);
        assert!(by_name.is(&host("db1"), 5432, Some(&tcp("10.0.0.1:5432"))));
        assert!(!by_name.is(&host("db1"), 5433, None) && !by_name.is(&host("db2"), 5432, None));
        let by_address = DialedHost::new(&host("10.0.0.1"), 5432, 0, false);
        assert!(by_address.is(&host("10.0.0.1"), 5432, None));
        assert!(by_address.is(&host("10.0.0.1"), 5432, Some(&tcp("10.0.0.1:5432"))));
        assert!(!by_address.is(&host("10.0.0.2"), 5432, Some(&tcp("10.0.0.1:5432"))));
        let socket = DialedHost::new(&host("/run"), 5432, 0, false);
        let path = Address::Unix("/run/.s.PGSQL.5432".into());
        assert!(socket.is(&host("/run"), 5432, Some(&path)) && !socket.is(&host("/tmp"), 5432, Some(&path)));
        assert_eq!((socket.word(), by_name.word()), ("unix", "db1"));
    }

    #[test]
    fn a_server_that_arrives_has_the_port_of_its_address() {
        let address = Address::Tcp("10.0.0.1:6000".parse().expect("an address"));
        assert_eq!(DialedHost::arrived("db1", &address, 5432).port(), 6000);
        assert_eq!(DialedHost::arrived("", &Address::Unix("/run/.s.PGSQL.1".into()), 1).port(), 1);
    }
}
