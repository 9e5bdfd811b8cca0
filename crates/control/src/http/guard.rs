//! Access control for HTTP, decided from the head of a request and the address it comes from.
//!
//! Always true: requests from this machine need no password, but only names of this machine are accepted as `Host`, so
//! that pages of other sites cannot reach us through a browser (DNS rebinding); requests from elsewhere need TLS and
//! the password of a console user. Only GET and HEAD are possible at all.
//! Not here: password checks (`server`), the limit on wrong passwords (`tries`).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The parts of a request that access control depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'h> {
    /// The address of the peer.
    pub(crate) from: IpAddr,
    pub(crate) is_tls: bool,
    pub(crate) method: &'h str,
    /// The header `Host`, or the authority of the request target.
    pub(crate) host: Option<&'h str>,
    /// The header `Origin`, which browsers send for requests of other sites' pages.
    pub(crate) origin: Option<&'h str>,
    /// The header `Authorization`.
    pub(crate) authorization: Option<&'h str>,
}

/// The decision about a request.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The request is answered.
    Open,
    /// The request is answered if this is the password of a console user.
    Password {
        user: String,
        password: String,
    },
    Refused(Refused),
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Its method is not GET or HEAD.
    Method,
    /// It has no `Host`.
    NoHost,
    /// Its `Host` is not a name of this machine.
    Host,
    /// It comes from a page of another site.
    Origin,
    /// It comes from elsewhere without TLS.
    Clear,
    /// It comes from elsewhere without a password.
    NoPassword,
    /// The password is wrong, or the user is not a console user.
    Wrong,
    /// Too many wrong passwords have come from that address.
    TooMany,
}

impl Refused {
    /// Returns the status and the text of the answer.
    pub(crate) fn words(self) -> (u16, &'static str) {
        match self {
            Self::Method => (405, "only GET and HEAD are answered: HTTP shows, and changes nothing"),
            Self::NoHost => (400, "the request has no Host"),
            Self::Host => (
                421,
                "without a password only names of this machine are answered: localhost, its addresses, its hostname. Behind a proxy, have that send one of them as Host",
            ),
            Self::Origin => (403, "pages of other sites are not answered"),
            Self::Clear => {
                (403, "from another machine only TLS is answered: set client_tls_sslmode and its files, and use https")
            }
            Self::NoPassword => (401, "name a user of admin_users or stats_users, and the password that auth_file has"),
            Self::Wrong => {
                (401, "wrong user or password: a user of admin_users or stats_users who stands in auth_file")
            }
            Self::TooMany => (429, "too many wrong passwords from this address, try again in a minute"),
        }
    }
}

/// Decides about a request with this head. `hostname` is the name of this machine.
pub(crate) fn admit(head: &Head<'_>, hostname: &str) -> Admission {
    if !matches!(head.method, "GET" | "HEAD") {
        return Admission::Refused(Refused::Method);
    }
    let Some(host) = head.host else { return Admission::Refused(Refused::NoHost) };
    if head.origin.is_some_and(|origin| !is_same_site(origin, host)) {
        return Admission::Refused(Refused::Origin);
    }
    if head.from.to_canonical().is_loopback() {
        return match is_of_this_machine(name_of(host), hostname) {
            true => Admission::Open,
            false => Admission::Refused(Refused::Host),
        };
    }
    if !head.is_tls {
        return Admission::Refused(Refused::Clear);
    }
    match head.authorization.and_then(basic) {
        Some((user, password)) => Admission::Password { user, password },
        None => Admission::Refused(Refused::NoPassword),
    }
}

/// Returns whether the origin has the host and port that the request is for.
fn is_same_site(origin: &str, host: &str) -> bool {
    origin.split_once("://").is_some_and(|(_, site)| site.eq_ignore_ascii_case(host))
}

/// Returns a `Host` without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_of_this_machine(name: &str, hostname: &str) -> bool {
    let same = |other: &str| name.eq_ignore_ascii_case(other);
    same("localhost") || name.parse::<IpAddr>().is_ok() || !hostname.is_empty() && same(hostname)
}

/// Decodes the user and password of basic authentication (RFC 7617).
fn basic(authorization: &str) -> Option<(String, String)> {
    let (scheme, credentials) = authorization.split_once(' ')?;
    let decoded = STANDARD.decode(credentials.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let (user, password) =
        String::from_utf8(decoded).ok()?.split_once(':').map(|(u, p)| (u.to_owned(), p.to_owned()))?;
    Some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Head<'_> = Head {
        from: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        is_tls: false,
        method: "GET",
        host: Some("localhost:8080"),
        origin: None,
        authorization: None,
    };

    fn refused(head: &Head<'_>) -> Option<Refused> {
        match admit(head, "db1") {
            Admission::Refused(why) => Some(why),
            Admission::Open | Admission::Password { .. } => None,
        }
    }

    #[test]
    fn from_this_machine_its_own_names_are_answered_without_a_password() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "db1:8080", "10.1.2.3"] {
            assert_eq!(admit(&Head { host: Some(host), ..HERE }, "db1"), Admission::Open, "{host}");
        }
        let mapped = "::ffff:127.0.0.1".parse().expect("an address");
        assert_eq!(admit(&Head { from: mapped, ..HERE }, "db1"), Admission::Open);
        for host in ["evil.example", "localhost.evil.example:8080", "", "db1.evil.example", "[::1"] {
            assert_eq!(refused(&Head { host: Some(host), ..HERE }), Some(Refused::Host), "{host}");
        }
        assert_eq!(refused(&Head { host: Some(""), ..HERE }), Some(Refused::Host));
        assert_eq!(admit(&Head { host: Some(""), ..HERE }, ""), Admission::Refused(Refused::Host));
        assert_eq!(refused(&Head { host: None, ..HERE }), Some(Refused::NoHost));
    }

    #[test]
    fn from_elsewhere_only_a_password_over_tls_counts() {
        let there = Head { from: "10.0.0.7".parse().expect("an address"), host: Some("db1.example"), ..HERE };
        assert_eq!(refused(&there), Some(Refused::Clear));
        let authorization = Some("Basic c3RhdHM6cDpx");
        assert_eq!(
            refused(&Head { authorization, ..there }),
            Some(Refused::Clear),
            "a password in the clear is not looked at"
        );
        let secured = Head { is_tls: true, ..there };
        assert_eq!(refused(&secured), Some(Refused::NoPassword));
        for other in ["Bearer c3RhdHM6cDpx", "Basic", "Basic !", "Basic c3RhdHM="] {
            assert_eq!(refused(&Head { authorization: Some(other), ..secured }), Some(Refused::NoPassword), "{other}");
        }
        let (user, password) = ("stats".to_owned(), "p:q".to_owned());
        assert_eq!(admit(&Head { authorization, ..secured }, "db1"), Admission::Password { user, password });
    }

    #[test]
    fn nothing_is_changed_and_no_other_site_asks() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
            assert_eq!(refused(&Head { method, ..HERE }), Some(Refused::Method), "{method}");
        }
        assert_eq!(refused(&Head { origin: Some("https://evil.example"), ..HERE }), Some(Refused::Origin));
        assert_eq!(refused(&Head { origin: Some("null"), ..HERE }), Some(Refused::Origin));
        assert_eq!(refused(&Head { origin: Some("http://localhost:9"), ..HERE }), Some(Refused::Origin));
        assert_eq!(refused(&Head { origin: Some("http://localhost:8080"), ..HERE }), None);
    }
}
