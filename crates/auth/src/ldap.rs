//! LDAP authentication: the options of `auth_ldap_options` and of an HBA line with the method `ldap`.
//!
//! Always true: parsed options are consistent; no text of a client can change the syntax of a filter or a distinguished
//! name; `Debug` shows no password.
//! Not here: the messages to a directory (`message`, `filter`), the connection to it (`control`).

use std::sync::Arc;

use crate::secret::Password;

mod filter;
mod message;
mod name;

pub use filter::Filter;
pub use message::{MESSAGE_BYTES_MAX, Malformed, Request, Response, read, wanted};

/// A directory, and how to authenticate users with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LdapOptions {
    /// The servers of the directory, as `ldap://HOST:PORT` or `ldaps://HOST:PORT`, in the order in which they are tried.
    pub urls: Vec<String>,
    /// Whether StartTLS is used (`ldaptls`).
    pub starts_tls: bool,
    /// How the distinguished name of a user is found.
    pub way: LdapWay,
    /// The options for display, without the password.
    pub shown: String,
}

/// How the distinguished name of a user is found in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LdapWay {
    /// Simple bind: the distinguished name is built from the user name.
    Simple {
        /// The text before the user name (`ldapprefix`).
        prefix: String,
        /// The text after the user name (`ldapsuffix`).
        suffix: String,
    },
    /// Search and bind: the user is searched for.
    Search(LdapSearch),
}

/// How a user is searched for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LdapSearch {
    /// The distinguished name with which the search binds; empty is an anonymous bind.
    pub bind_dn: String,
    /// The password for that bind.
    pub bind_password: Option<Password>,
    /// The base of the search.
    pub base: String,
    /// The scope of the search.
    pub scope: LdapScope,
    /// The filter, with `$username` for the user name.
    pub filter: String,
}

/// The scope of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LdapScope {
    /// The base entry only.
    Base,
    /// The entries directly below the base.
    One,
    /// The base and all entries below it.
    Subtree,
}

impl LdapOptions {
    /// Parses options: `name=value` or `name="value"`, separated by blanks or commas.
    ///
    /// # Errors
    /// Returns a description of the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > OPTIONS_BYTES_MAX {
            return Err(format!("the LDAP options are longer than {OPTIONS_BYTES_MAX} bytes"));
        }
        let mut given = Given::default();
        let mut rest = text.trim();
        let mut last = String::new();
        let mut shown = Vec::new();
        while !rest.is_empty() {
            // The rest may be a part of a password without quotes, so the error text does not show it.
            let (name, value, after) = option(rest).ok_or_else(|| {
                format!("an LDAP option is written name=value or name=\"value\", not so behind \"{last}\"")
            })?;
            let is_password = name == "ldapbindpasswd";
            let visible = if is_password { HIDDEN.to_owned() } else { value.replace('"', "\"\"") };
            shown.push(format!("{name}=\"{visible}\""));
            given.take(&name, value)?;
            rest = after.trim_start_matches(is_between);
            last = name;
        }
        given.options(shown.join(" "))
    }
}

impl LdapWay {
    /// The distinguished name of a user, if it needs no search.
    #[must_use]
    pub fn simple_dn(&self, user: &str) -> Option<String> {
        match self {
            Self::Simple { prefix, suffix } => Some(format!("{prefix}{}{suffix}", name::escaped(user))),
            Self::Search(_) => None,
        }
    }
}

impl LdapSearch {
    /// The filter that finds a user.
    ///
    /// # Errors
    /// Fails if the user name has a character that could change the filter; the text is for the log.
    pub fn filter_for(&self, user: &str) -> Result<String, Arc<str>> {
        if user.contains(['*', '(', ')', '\\', '/', '\0']) {
            return Err("invalid character in user name for LDAP authentication".into());
        }
        Ok(self.filter.replace(USERNAME, user))
    }
}

/// The given options, before they are checked together.
#[derive(Default)]
struct Given {
    server: Option<String>,
    port: Option<u16>,
    scheme: Option<String>,
    starts_tls: bool,
    prefix: Option<String>,
    suffix: Option<String>,
    base: Option<String>,
    bind_dn: Option<String>,
    bind_password: Option<String>,
    attribute: Option<String>,
    filter: Option<String>,
    scope: Option<LdapScope>,
}

impl Given {
    fn take(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "ldapserver" => self.server = Some(value),
            "ldapport" => match value.parse() {
                Ok(port @ 1..) => self.port = Some(port),
                _ => return Err(format!("invalid LDAP port number: \"{value}\"")),
            },
            "ldapscheme" if is_scheme(&value) => self.scheme = Some(value),
            "ldapscheme" => return Err(format!("invalid ldapscheme value: \"{value}\"")),
            "ldaptls" => self.starts_tls = value == "1",
            "ldapprefix" => self.prefix = Some(value),
            "ldapsuffix" => self.suffix = Some(value),
            "ldapbasedn" => self.base = Some(value),
            "ldapbinddn" => self.bind_dn = Some(value),
            "ldapbindpasswd" => self.bind_password = Some(value),
            "ldapsearchattribute" => self.attribute = Some(value),
            "ldapsearchfilter" => self.filter = Some(value),
            "ldapurl" => self.take_url(&value)?,
            // The name may be a part of a password without quotes, so the error text does not show it.
            _ if self.bind_password.is_some() => return Err("an unknown option behind ldapbindpasswd".to_owned()),
            _ => return Err(format!("invalid LDAP option: \"{name}\"")),
        }
        Ok(())
    }

    /// Parses `ldap://HOST:PORT/BASE?ATTRIBUTE?SCOPE?FILTER` (RFC 4516); empty parts count as missing.
    fn take_url(&mut self, url: &str) -> Result<(), String> {
        let bad = |why: &str| format!("could not parse LDAP URL \"{url}\": {why}");
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("no scheme"))?;
        if !is_scheme(scheme) {
            return Err(format!("unsupported LDAP URL scheme: {scheme}"));
        }
        self.scheme = Some(scheme.to_owned());
        let (place, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (place, None),
        };
        if let Some(port) = port {
            let number = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| bad("bad port"))?;
            self.port = Some(number);
        }
        let said = |part: &str| -> Result<Option<String>, String> {
            let text = percent_decoded(part).ok_or_else(|| bad("bad % in it"))?;
            Ok(Some(text).filter(|text| !text.is_empty()))
        };
        let mut parts = rest.split('?');
        let mut next = || said(parts.next().unwrap_or_default());
        self.server = said(host)?.or(self.server.take());
        self.base = next()?.or(self.base.take());
        let attributes = next()?;
        self.attribute =
            attributes.map(|list| list.split(',').next().unwrap_or_default().to_owned()).or(self.attribute.take());
        self.scope = Some(match next()?.as_deref() {
            // A missing scope is `base` in the RFC and in PgBouncer.
            None | Some("base") => LdapScope::Base,
            Some("one" | "onelevel") => LdapScope::One,
            Some("sub" | "subtree") => LdapScope::Subtree,
            Some(_) => return Err(bad("bad scope")),
        });
        self.filter = next()?.or(self.filter.take());
        Ok(())
    }

    fn options(self, shown: String) -> Result<LdapOptions, String> {
        let scheme = self.scheme.unwrap_or_else(|| "ldap".to_owned());
        let is_secure = scheme == "ldaps";
        if is_secure && self.starts_tls {
            return Err("ldaptls cannot be used together with ldaps: it is TLS already".to_owned());
        }
        let port = self.port.unwrap_or(if is_secure { 636 } else { 389 });
        let is_search = self.base.is_some()
            || self.bind_dn.is_some()
            || self.bind_password.is_some()
            || self.attribute.is_some()
            || self.filter.is_some();
        let way = match (self.prefix, self.suffix, self.base) {
            (None, None, Some(base)) => {
                if self.attribute.is_some() && self.filter.is_some() {
                    return Err("cannot use ldapsearchattribute together with ldapsearchfilter".to_owned());
                }
                let filter = match (self.filter, self.attribute) {
                    // OpenLDAP, and so PgBouncer, accepts a filter without its outer parentheses.
                    (Some(filter), _) if filter.starts_with('(') => filter,
                    (Some(filter), _) => format!("({filter})"),
                    (None, attribute) => format!("({}={USERNAME})", attribute.as_deref().unwrap_or("uid")),
                };
                Filter::parse(&filter.replace(USERNAME, "name"))
                    .map_err(|why| format!("invalid LDAP filter \"{filter}\": {why}"))?;
                LdapWay::Search(LdapSearch {
                    bind_dn: self.bind_dn.unwrap_or_default(),
                    bind_password: self.bind_password.and_then(Password::new),
                    base,
                    scope: self.scope.unwrap_or(LdapScope::Subtree),
                    filter,
                })
            }
            (None, None, None) => {
                return Err("authentication method \"ldap\" requires argument \"ldapbasedn\", \"ldapprefix\", or \
                            \"ldapsuffix\" to be set"
                    .to_owned());
            }
            _ if is_search => return Err("cannot mix options for simple bind and search+bind modes".to_owned()),
            (prefix, suffix, _) => {
                LdapWay::Simple { prefix: prefix.unwrap_or_default(), suffix: suffix.unwrap_or_default() }
            }
        };
        let servers = self.server.unwrap_or_default();
        let urls: Vec<_> = servers.split_whitespace().map(|server| format!("{scheme}://{server}:{port}")).collect();
        if urls.is_empty() {
            return Err("ldapserver is missing, and no server is looked for by the name of a domain".to_owned());
        }
        Ok(LdapOptions { urls, starts_tls: self.starts_tls, way, shown })
    }
}

/// Parses the first option of a text, and returns its name, its value and the rest.
fn option(text: &str) -> Option<(String, String, &str)> {
    let (name, rest) = match text.starts_with('"') {
        true => quoted(text)?,
        false => text.find('=').map(|end| (text[..end].to_owned(), &text[end..]))?,
    };
    let rest = rest.strip_prefix('=')?;
    let (value, rest) = match rest.starts_with('"') {
        true => quoted(rest)?,
        false => {
            let end = rest.find(is_between).unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        }
    };
    let is_whole = !name.is_empty() && !name.contains(is_between) && !value.is_empty();
    is_whole.then_some((name, value, rest))
}

/// Parses a quoted text, in which a doubled quote stands for a quote, and returns it with the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut inner = String::new();
    let mut rest = &text[1..];
    loop {
        let (before, after) = rest.split_once('"')?;
        inner.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                inner.push('"');
                rest = more;
            }
            None => return Some((inner, after)),
        }
    }
}

fn is_between(character: char) -> bool {
    character == ',' || character.is_whitespace()
}

fn is_scheme(text: &str) -> bool {
    matches!(text, "ldap" | "ldaps")
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        match (first, after.split_at_checked(2)) {
            (b'%', Some((digits, behind))) if digits.iter().all(u8::is_ascii_hexdigit) => {
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = behind;
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The placeholder of the user name in a filter.
const USERNAME: &str = "$username";
/// The text shown instead of a password.
const HIDDEN: &str = "***";
/// The longest text of options, in bytes, as in PgBouncer.
const OPTIONS_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str) -> LdapSearch {
        match LdapOptions::parse(text).expect("good options").way {
            LdapWay::Search(search) => search,
            simple => panic!("{simple:?}"),
        }
    }

    #[test]
    fn a_user_may_be_named_by_what_stands_around_its_name() {
        let text = "ldapserver=127.0.0.1 ldapport=1389 ldapprefix=\"uid=\" ldapsuffix=\",dc=example,dc=net\"";
        let options = LdapOptions::parse(text).expect("good options");
        assert_eq!(options.urls, ["ldap://127.0.0.1:1389"]);
        assert_eq!(options.way.simple_dn("ann").as_deref(), Some("uid=ann,dc=example,dc=net"));
        // This names one user below dc=example, and not `ann` below ou=admins.
        let name = options.way.simple_dn("ann,ou=admins");
        assert_eq!(name.as_deref(), Some("uid=ann\\,ou=admins,dc=example,dc=net"));
        assert!(!options.starts_tls);
    }

    #[test]
    fn a_user_may_be_searched_for() {
        let found = search("ldapserver=a ldapbasedn=\"dc=example,dc=net\"");
        assert_eq!((&*found.base, &*found.filter), ("dc=example,dc=net", "(uid=$username)"));
        assert_eq!((&*found.bind_dn, &found.bind_password, found.scope), ("", &None, LdapScope::Subtree));
        assert_eq!(found.filter_for("ann").as_deref(), Ok("(uid=ann)"));
        let found =
            search("ldapserver=a, ldapbasedn=x ldapsearchattribute=cn ldapbinddn=cn=s ldapbindpasswd=\"s\"\"t\"");
        assert_eq!((&*found.filter, &*found.bind_dn), ("(cn=$username)", "cn=s"));
        assert_eq!(found.bind_password, Password::new("s\"t"));
        assert_eq!(search("ldapserver=a ldapbasedn=x ldapsearchfilter=\"uid=$username\"").filter, "(uid=$username)");
    }

    #[test]
    fn nobody_writes_a_filter_with_a_name() {
        let found = search("ldapserver=a ldapbasedn=x");
        for name in ["*", "a)(uid=b", "a\\2a", "a/b", "a\0"] {
            assert_eq!(
                found.filter_for(name).map_err(|why| why.to_string()),
                Err("invalid character in user name for LDAP authentication".to_owned())
            );
        }
    }

    #[test]
    fn an_address_says_it_all() {
        let text = "ldapurl=\"ldaps://[::1]:1636/dc=example,dc=net?cn,uid?sub\"";
        assert_eq!(LdapOptions::parse(text).expect("good options").urls, ["ldaps://[::1]:1636"]);
        assert_eq!((&*search(text).filter, search(text).scope), ("(cn=$username)", LdapScope::Subtree));
        let found = search("ldapurl=\"ldap://a/dc=x%20y??one?(|(uid=$username)(mail=$username))\"");
        assert_eq!((&*found.base, found.scope), ("dc=x y", LdapScope::One));
        assert_eq!(found.filter_for("ann").as_deref(), Ok("(|(uid=ann)(mail=ann))"));
        assert_eq!(search("ldapurl=ldap://a/dc=x").scope, LdapScope::Base);
    }

    #[test]
    fn several_servers_are_tried_in_their_order_at_the_usual_port() {
        let urls = |text: &str| LdapOptions::parse(text).expect("good options").urls;
        assert_eq!(urls("ldapserver=\"a b\" ldapprefix=x"), ["ldap://a:389", "ldap://b:389"]);
        assert_eq!(urls("ldapserver=a ldapscheme=ldaps ldapprefix=x"), ["ldaps://a:636"]);
    }

    #[test]
    fn what_is_wrong_with_options_is_said() {
        for (text, why) in [
            ("ldapserver=a", "requires argument \"ldapbasedn\", \"ldapprefix\", or \"ldapsuffix\" to be set"),
            ("ldapserver=a ldapprefix=x ldapbasedn=y", "cannot mix options for simple bind and search+bind modes"),
            ("ldapserver=a ldapsuffix=x ldapbinddn=y", "cannot mix options"),
            ("ldapserver=a ldapbasedn=x ldapsearchattribute=a ldapsearchfilter=b", "cannot use ldapsearchattribute"),
            ("ldapserver=a ldapprefix=x ldapport=0", "invalid LDAP port number: \"0\""),
            ("ldapserver=a ldapprefix=x ldapport=70000", "invalid LDAP port number: \"70000\""),
            ("ldapscheme=http", "invalid ldapscheme value: \"http\""),
            ("ldapurl=http://a/x", "unsupported LDAP URL scheme: http"),
            ("ldapurl=ldap://a:x/x", "bad port"),
            ("ldapurl=ldap://a/x?y?z", "bad scope"),
            ("ldapurl=ldap://a/%zz", "bad % in it"),
            ("ldapprefix=x", "ldapserver is missing"),
            ("ldapserver=a ldapscheme=ldaps ldaptls=1 ldapprefix=x", "ldaptls cannot be used together with ldaps"),
            ("ldapserver=a password=x", "invalid LDAP option: \"password\""),
            ("ldapserver", "name=value"),
            ("ldapserver= a", "name=value"),
            ("ldapserver=\"a", "name=value"),
            ("ldapserver=a b ldapprefix=x", "not so behind \"ldapserver\""),
        ] {
            let told = LdapOptions::parse(text).expect_err(text);
            assert!(told.contains(why), "{text}: {told}");
        }
        assert!(LdapOptions::parse(&"x".repeat(1025)).is_err());
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = format!("{:?}", LdapOptions::parse("ldapserver=a ldapbasedn=x ldapbindpasswd=topsecret"));
        assert!(!shown.contains("topsecret"), "{shown}");
        for text in [
            "ldapbindpasswd=topsecret ldapsrever=a",
            "ldapbindpasswd=my topsecret",
            "ldapbindpasswd=\"topsecret",
            "ldapbindpasswd=my topsecret=x",
            "ldapbindpasswd=\"my \"topsecret=\"x y\"",
            "ldapbindpasswd=my \"topsecret\"=x",
            "ldapbindpasswd=a ldapserver=b topsecret=c",
        ] {
            let told = LdapOptions::parse(text).expect_err("a mistake");
            assert!(!told.contains("topsecret"), "{told}");
        }
    }
}
