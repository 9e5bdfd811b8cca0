//! The collector of spans and the headers for it: the values of `otlp_endpoint` and `otlp_headers`.
//!
//! Always true: no shown text contains the value of a header; a URL contains no user and no password, and nothing that
//! could end a line of a request.
//! Not here: posting (`control::otlp`).

use std::fmt;

/// An OpenTelemetry collector that accepts OTLP over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpEndpoint {
    /// Whether the scheme is `https`.
    pub is_tls: bool,
    /// A name or an address; an IPv6 address without its brackets.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// Path and query for the request line.
    pub target: Box<str>,
}

impl OtlpEndpoint {
    /// Parses a URL. The default path is `/v1/traces`, as with `OTEL_EXPORTER_OTLP_ENDPOINT`.
    ///
    /// # Errors
    /// Says what is wrong with the URL.
    pub fn parse(text: &str) -> Result<Self, String> {
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
            return Err("it has a user in it; otlp_headers is for what proves who we are".to_owned());
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
            "" | "/" => "/v1/traces".to_owned(),
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

impl fmt::Display for OtlpEndpoint {
    /// Without the query, which may contain a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}

impl fmt::Debug for OtlpEndpoint {
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

/// Headers that are sent to a collector, such as a token. Their values are secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OtlpHeaders {
    items: Vec<(Box<str>, Box<str>)>,
}

impl OtlpHeaders {
    /// Parses `key=value,key=value`; `%2C` in a value is a comma, as in `OTEL_EXPORTER_OTLP_HEADERS`.
    ///
    /// # Errors
    /// Says what is wrong, without repeating a value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut items: Vec<(Box<str>, Box<str>)> = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or("a pair has no \"=\"")?;
            let key = key.trim().to_ascii_lowercase();
            let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
            if key.is_empty() || !key.bytes().all(is_key) {
                return Err("what stands before a \"=\" is no name of a header".to_owned());
            }
            if OURS.contains(&&*key) {
                return Err(format!("the header {key} is said by the pooler itself"));
            }
            let value = decoded(value.trim()).ok_or_else(|| format!("the value of {key} is not ASCII"))?;
            items.push((key.into(), value.into()));
        }
        Ok(Self { items })
    }

    /// Each header with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.items.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl fmt::Display for OtlpHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (key, _)) in self.items.iter().enumerate() {
            write!(f, "{}{key}=***", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for OtlpHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Decodes `%2C` and other escapes of a value. `None` if the result has anything but visible ASCII characters and
/// blanks.
fn decoded(value: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(char) = rest.chars().next() {
        let escaped = rest.strip_prefix('%').and_then(|behind| behind.get(..2));
        let escaped = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, length) = match escaped {
            Some(byte) => (char::from(byte), 3),
            None => (char, char.len_utf8()),
        };
        if !byte.is_ascii_graphic() && byte != ' ' {
            return None;
        }
        out.push(byte);
        rest = &rest[length..];
    }
    Some(out)
}

/// Headers that Trunkline sets itself.
const OURS: [&str; 7] =
    ["connection", "content-encoding", "content-length", "content-type", "expect", "host", "transfer-encoding"];

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
            let read = OtlpEndpoint::parse(url).expect(url);
            assert_eq!((&*read.host, read.port, &*read.target, read.is_tls), (host, port, target, is_tls), "{url}");
        }
        let shown = OtlpEndpoint::parse("https://[::1]/x?token=secret").expect("a URL").to_string();
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
            let told = OtlpEndpoint::parse(url).expect_err(url);
            assert!(told.contains(why), "{url}: {told}");
        }
    }

    #[test]
    fn headers_are_read_as_open_telemetry_writes_them_and_are_not_shown() {
        let read = OtlpHeaders::parse("api-key = a%2Cb%3d ,, Authorization=Bearer%20x=y").expect("headers");
        assert_eq!(read.iter().collect::<Vec<_>>(), [("api-key", "a,b="), ("authorization", "Bearer x=y")]);
        assert_eq!(format!("{read} {read:?}"), "api-key=***,authorization=*** api-key=***,authorization=***");
        for (text, why) in [
            ("secret", "no \"=\""),
            ("a b=secret", "no name"),
            ("=secret", "no name"),
            ("a=secret%0d%0ax", "not ASCII"),
            ("a=secret\u{e9}", "not ASCII"),
            ("Host=secret", "host is said by the pooler"),
        ] {
            let told = OtlpHeaders::parse(text).expect_err(text);
            assert!(told.contains(why) && !told.contains("secret"), "{text}: {told}");
        }
        assert_eq!(OtlpHeaders::parse("a=%zz%4").expect("headers").iter().next(), Some(("a", "%zz%4")));
    }
}
