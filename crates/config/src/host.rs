//! The hosts of a database: the elements of `host=`.
//!
//! Always true: an address is never looked up as a name.
//! Not here: name lookups (`control`), which of several hosts is dialed next (`worker`).

use core::net::IpAddr;
use std::sync::Arc;

use base::counted;

use crate::mistake::Wrong;
use crate::pairs::port;

/// A place where PostgreSQL may listen.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Host {
    /// The directory of a unix socket.
    Unix(Arc<str>),
    /// The "directory" of an abstract unix socket, without the `@`.
    Abstract(Arc<str>),
    /// A TCP address.
    Ip(IpAddr),
    /// A host name to be looked up.
    Name(Arc<str>),
}

impl Host {
    /// Parses an element of a host list.
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        if text.is_empty() {
            return Err(Wrong::new("invalid host: an element of the list is empty"));
        }
        if text.starts_with(['/', '@']) {
            return Ok(Self::unix(text));
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::Ip(ip));
        }
        if text.contains(':') {
            let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let advice = match inner.is_some_and(|ip| ip.parse::<IpAddr>().is_ok()) {
                true => "write it without brackets",
                false => "a port stands in port=, not behind the host",
            };
            return Err(Wrong::new(format!("invalid host: {text} is no IPv6 address")).advise(Some(advice.to_owned())));
        }
        if text.len() > HOST_BYTES_MAX || text.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(Wrong::new(format!("invalid host: {text} is no name of a host")));
        }
        Ok(Self::Name(text.into()))
    }

    /// The unix socket in a directory, or an abstract one if the name begins with `@`.
    pub(crate) fn unix(dir: &str) -> Self {
        dir.strip_prefix('@').map_or_else(|| Self::Unix(dir.into()), |name| Self::Abstract(name.into()))
    }

    /// Its name or address as in `host=`.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Unix(name) | Self::Name(name) => name.to_string(),
            Self::Abstract(name) => format!("@{name}"),
            Self::Ip(ip) => ip.to_string(),
        }
    }

    /// Parses the host of a member that an agent has told: an address or a name. What comes over the network is no path, and
    /// has no character that no name of a host has.
    fn told(text: &str) -> Option<Self> {
        let is_in_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
        match text.parse::<IpAddr>() {
            Ok(ip) => Some(Self::Ip(ip)),
            Err(_) if text.is_empty() || text.len() > HOST_BYTES_MAX || !text.chars().all(is_in_name) => None,
            Err(_) => Some(Self::Name(text.into())),
        }
    }

    /// Parses a host and port as [`Host::at`] names them; `None` for what is neither an address nor a name.
    pub(crate) fn told_at(place: &str) -> Option<(Self, u16)> {
        let (host, port) = place.rsplit_once(':')?;
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Some((Self::told(inner.unwrap_or(host))?, port))
    }

    /// How the host and a port are named in tables, events and metrics: `db:5432`, `[::1]:5432`, or the path of a socket.
    #[must_use]
    pub fn at(&self, port: u16) -> String {
        match self {
            Self::Name(name) => with_port(name, port),
            Self::Ip(ip) => with_port(&ip.to_string(), port),
            Self::Unix(_) => self.socket_name(port).unwrap_or_default(),
            Self::Abstract(_) => format!("@{}", self.socket_name(port).unwrap_or_default()),
        }
    }

    /// The name of the unix socket for a port: a path, or for an abstract socket the name after its leading NUL byte;
    /// `None` for TCP.
    #[must_use]
    pub fn socket_name(&self, port: u16) -> Option<String> {
        match self {
            Self::Unix(dir) | Self::Abstract(dir) => Some(format!("{dir}/.s.PGSQL.{port}")),
            Self::Ip(_) | Self::Name(_) => None,
        }
    }
}

/// A name or an address with a port: `db:5432`, `[::1]:5432`.
#[must_use]
pub fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The same for a member that an agent has told, if that is an address or a name of a host.
#[must_use]
pub fn told_place(host: &str, port: u16) -> Option<String> {
    Host::told(host).filter(|_| port > 0).map(|host| host.at(port))
}

/// Parses the value of `port=`: one port, or several.
pub(crate) fn ports(value: &str) -> Result<Vec<u16>, Wrong> {
    value.split(',').map(|one| port(one.trim_matches(' '))).collect()
}

/// As in libpq, `port=` names one port for all hosts, which leaves the list empty, or one for each.
pub(crate) fn match_ports(ports: &mut Vec<u16>, hosts: usize) -> Result<(), Wrong> {
    if ports.len() > 1 && ports.len() != hosts {
        let text = format!("could not match {} port numbers to {}", ports.len(), counted(hosts, "host"));
        let advice = "port= names one port for all hosts, or one for each";
        return Err(Wrong::new(text).advise(Some(advice.to_owned())));
    }
    if ports.len() == 1 {
        ports.clear();
    }
    Ok(())
}

/// PostgreSQL's port.
pub(crate) const PORT: u16 = 5432;
/// The longest DNS name (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_directory_an_address_or_a_name() {
        assert_eq!(Host::parse("/run/pg"), Ok(Host::Unix("/run/pg".into())));
        assert_eq!(Host::parse("@pg"), Ok(Host::Abstract("pg".into())));
        assert_eq!(Host::parse("10.0.0.1"), Ok(Host::Ip("10.0.0.1".parse().expect("an address"))));
        assert_eq!(Host::parse("fd00::1"), Ok(Host::Ip("fd00::1".parse().expect("an address"))));
        assert_eq!(Host::parse("db-1.example"), Ok(Host::Name("db-1.example".into())));
    }

    #[test]
    fn a_port_behind_a_host_is_refused_with_the_place_where_it_belongs() {
        let wrong = Host::parse("db:5433").expect_err("no port here");
        assert_eq!(wrong.advice.as_deref(), Some("a port stands in port=, not behind the host"));
        let wrong = Host::parse("[::1]").expect_err("no brackets here");
        assert_eq!(wrong.advice.as_deref(), Some("write it without brackets"));
        assert!(Host::parse("").is_err() && Host::parse("a b").is_err() && Host::parse("a/b").is_err());
    }

    #[test]
    fn the_port_is_part_of_the_name_of_a_unix_socket() {
        assert_eq!(Host::Unix("/tmp".into()).socket_name(5432).as_deref(), Some("/tmp/.s.PGSQL.5432"));
        assert_eq!(Host::Abstract("pg".into()).socket_name(1).as_deref(), Some("pg/.s.PGSQL.1"));
        assert_eq!(Host::Name("db".into()).socket_name(1), None);
    }

    #[test]
    fn the_host_of_a_member_that_was_told_is_no_path_and_nothing_odd() {
        for (host, place) in
            [("db-1.x", "db-1.x:7"), ("10.0.0.1", "10.0.0.1:7"), ("fd00:0::1", "[fd00::1]:7"), ("a_b", "a_b:7")]
        {
            assert_eq!(told_place(host, 7).as_deref(), Some(place));
            assert_eq!(Host::told_at(place), Some((Host::told(host).expect("a host"), 7)));
        }
        for host in ["", "/tmp", "@x", "a,b", "a b", "a/b", "a:1", "[::1]", "ä", "a\n", &"x".repeat(256)] {
            assert_eq!(told_place(host, 7), None, "{host}");
        }
        assert_eq!(told_place("a", 0), None);
        for place in ["a", "a:", "a:0", "a:70000", ":1", "/tmp:1", "[x:1"] {
            assert_eq!(Host::told_at(place), None, "{place}");
        }
    }

    #[test]
    fn a_host_is_named_with_its_port() {
        for (host, name) in [
            ("db", "db:7"),
            ("10.0.0.1", "10.0.0.1:7"),
            ("::1", "[::1]:7"),
            ("/tmp", "/tmp/.s.PGSQL.7"),
            ("@pg", "@pg/.s.PGSQL.7"),
        ] {
            assert_eq!(Host::parse(host).expect("a host").at(7), name);
        }
    }
}
