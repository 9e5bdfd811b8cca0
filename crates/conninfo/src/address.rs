//! An address of a server or a console.
//!
//! Not here: the connection to it.

use crate::clean;

/// An address to connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A unix socket.
    Socket {
        /// Its path.
        path: String,
    },
    /// A TCP address.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// A host as libpq takes it: the directory of a unix socket if it begins with `/`, else a name or an address.
    #[must_use]
    pub fn at(host: &str, port: u16) -> Self {
        if host.starts_with('/') { Self::socket(host, port) } else { Self::Tcp { host: host.to_owned(), port } }
    }

    /// The unix socket for a port in this directory.
    #[must_use]
    pub fn socket(directory: &str, port: u16) -> Self {
        Self::Socket { path: format!("{}/.s.PGSQL.{port}", directory.trim_end_matches('/')) }
    }

    /// The address for display.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Socket { path } => clean(path),
            Self::Tcp { host, port } => clean(&format!("{host}:{port}")),
        }
    }

    /// The port, which a unix socket has in its name.
    pub(crate) fn port(&self) -> String {
        match self {
            Self::Socket { path } => path.rsplit('.').next().unwrap_or_default().to_owned(),
            Self::Tcp { port, .. } => port.to_string(),
        }
    }

    /// Whether a line of a file with passwords for `host` matches this address; a unix socket is `localhost` there, or
    /// its directory.
    pub(crate) fn is_at(&self, host: &str) -> bool {
        match self {
            Self::Socket { path } => {
                host == "localhost" || path.rsplit_once('/').is_some_and(|(directory, _)| directory == host)
            }
            Self::Tcp { host: own, .. } => own == host,
        }
    }
}
