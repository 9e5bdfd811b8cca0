//! A server that is asked by HTTP: the value of `otlp_endpoint`, and an element of `patroni=` and of `etcd=`.
//!
//! Always true: a URL contains no user and no password, and nothing that could end a line of a request.
//! Not here: requests (`control`).

use std::fmt;

/// A server that is asked by HTTP, and what it is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether the scheme is `https`.
    pub is_tls: bool,
    /// A name or an address; an IPv6 address without its brackets.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// Path and query for the request line.
    pub target: Box<str>,
}

impl Endpoint {
    /// Parses the URL of an OpenTelemetry collector. The default path is `/v1/traces`, as with `OTEL_EXPORTER_OTLP_ENDPOINT`.
    ///
    /// # Errors
    /// Says what is wrong with the URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_with(text, "/v1/traces", "otlp_headers is for what proves who we are")
    }

    /// Parses a URL with this default path. `elsewhere` says where the user belongs that a URL must not contain.
    pub(crate) fn parse_with(text: &str, path_if_none: &str, elsewhere: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme, http:// or https://")?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("its scheme is neither http nor https".to_owned()),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it has a blank, or something that is not ASCII, in it".to_owned());
        }
        if rest.contains('#') {
            return Err("it has a fragment (#)".to_owned());
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(format!("it has a user in it; {elsewhere}"));
        }
        let (host, port) = split_authority(authority)?;
        let port = match port {
            None if is_tls => 443,
            None => 80,
            Some(port) => {
                port.parse().ok().filter(|port| *port > 0).ok_or("its port is not a number from 1 to 65535")?
            }
        };
        let target = match path {
            "" | "/" => path_if_none.to_owned(),
            path if path.starts_with('?') => format!("/{path}"),
            path => path.to_owned(),
        };
        Ok(Self { is_tls, host: host.into(), port, target: target.into() })
    }

    /// Host and port for the `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Endpoint {
    /// Without the query, which may contain a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The host and the port of a URL, as written.
fn split_authority(authority: &str) -> Result<(&str, Option<&str>), String> {
    let is_none = || "it has no host".to_owned();
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("its address of IPv6 has no end")?;
            let is_address = host.parse::<core::net::Ipv6Addr>().is_ok();
            if !is_address {
                return Err("what it has in brackets is no address of IPv6".to_owned());
            }
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or("something follows its address of IPv6")?),
            };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() { Err(is_none()) } else { Ok((host, port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_spans_go() {
        for (url, host, port, target, is_tls) in [
            ("http://127.0.0.1:4318/v1/traces", "127.0.0.1", 4318, "/v1/traces", false),
            ("http://collector:4318", "collector", 4318, "/v1/traces", false),
            ("HTTPS://otel.example.com/", "otel.example.com", 443, "/v1/traces", true),
            ("http://[::1]:4318/x?a=b", "::1", 4318, "/x?a=b", false),
            ("http://[::1]?a=b", "::1", 80, "/?a=b", false),
        ] {
            let read = Endpoint::parse(url).expect(url);
            assert_eq!((&*read.host, read.port, &*read.target, read.is_tls), (host, port, target, is_tls), "{url}");
        }
        let shown = Endpoint::parse("https://[::1]/x?token=secret").expect("a URL").to_string();
        assert_eq!(shown, "https://[::1]:443/x");
    }

    #[test]
    fn what_is_no_url_is_refused_by_name() {
        for (url, why) in [
            ("banana", "no scheme"),
            ("127.0.0.1:4318", "no scheme"),
            ("grpc://a:4317", "neither http nor https"),
            ("http://", "no host"),
            ("http://:4318/", "no host"),
            ("http://a:0/", "port"),
            ("http://a:99999/", "port"),
            ("http://a:/", "port"),
            ("http://a:b:1/", "port"),
            ("http://u:p@a/", "user"),
            ("http://a/b c", "blank"),
            ("http://a/\r\nx: y", "blank"),
            ("http://a/#b", "fragment"),
            ("http://[::1", "no end"),
            ("http://[x]/", "no address"),
            ("http://[::1]4318/", "follows"),
        ] {
            let told = Endpoint::parse(url).expect_err(url);
            assert!(told.contains(why), "{url}: {told}");
        }
    }
}
