//! The rules of an HBA file: which clients may connect from where, and how they authenticate.
//!
//! Always true: the first matching rule decides; an invalid line yields a [`LineProblem`], and the caller must reject the
//! whole file if that line may have been one that rejects clients; a quoted word is a name and never a keyword.
//! Not here: maps of system users (`ident`), opening files.

use core::net::IpAddr;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ident::IdentMaps;
use crate::ldap::LdapOptions;
use crate::words::{Field, Fields, names_of, printable};

/// The authentication method of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HbaMethod {
    /// No authentication.
    Trust,
    /// The connection is rejected.
    Reject,
    /// md5, or SCRAM for a user with a SCRAM secret.
    Md5,
    /// A cleartext password.
    Password,
    /// SCRAM-SHA-256.
    Scram,
    /// The system user at the other end of the Unix socket.
    Peer {
        /// The ident map; without one, the system user and the database user must have the same name.
        map: Option<Arc<str>>,
    },
    /// The client's certificate.
    Cert {
        /// The ident map for the names in the certificate; without one, one of the names must be the database user.
        map: Option<Arc<str>>,
    },
    /// An LDAP directory checks the password, with these options.
    Ldap(Arc<LdapOptions>),
}

/// All rules, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hba {
    rules: Vec<Rule>,
}

/// A client that connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit<'v> {
    /// The client's address; `None` is a Unix socket.
    pub from: Option<IpAddr>,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// The requested database.
    pub database: &'v str,
    /// The requested user.
    pub user: &'v str,
    /// Whether the client requests physical replication, which only rules with the database `replication` match. The keyword
    /// matches no other connection.
    pub is_replication: bool,
}

/// A mistake in a line, to be reported to the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineProblem {
    /// The number of the line, counted from 1.
    pub line: usize,
    /// The mistake.
    pub text: String,
    /// What the mistake makes of the line.
    pub outcome: LineOutcome,
}

/// What a mistake makes of its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineOutcome {
    /// The line yields a rule, which lets nobody in.
    Kept,
    /// The line yields no rule. It was to let clients in, so that those whom it fits are treated by the lines below it,
    /// as in PgBouncer.
    Skipped,
    /// The line rejects nobody, and may have been one that rejects clients, whom a line below it would let in.
    Doubtful,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    way: Way,
    databases: Names,
    users: Names,
    from: From,
    method: HbaMethod,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Local,
    Host,
    HostTls,
    HostClear,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Names {
    are_all: bool,
    is_same_user: bool,
    is_replication: bool,
    names: BTreeSet<Arc<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    Anywhere,
    Network { address: IpAddr, mask: IpAddr },
}

impl Hba {
    /// Parses a whole file. `read` reads the files that lines include with `@`, by the name as it is written there.
    #[must_use]
    pub fn parse(
        text: &[u8],
        maps: &IdentMaps,
        read: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
    ) -> (Self, Vec<LineProblem>) {
        let (mut hba, mut problems) = (Self::default(), Vec::new());
        for (line, content) in (1..).zip(String::from_utf8_lossy(text).lines()) {
            match rule(content, maps, read) {
                Ok(None) => {}
                Ok(Some((rule, text))) => {
                    // A `reject` rule that matches no address would let in the clients that it was meant to reject.
                    let is_in_vain = rule.from.has_host_bits() && rule.method == HbaMethod::Reject;
                    let outcome = if is_in_vain { LineOutcome::Doubtful } else { LineOutcome::Kept };
                    let text = text.or_else(|| rule.matches_nobody());
                    problems.extend(text.map(|text| LineProblem { line, text: printable(&text), outcome }));
                    hba.rules.push(rule);
                }
                Err(text) => {
                    let outcome = if lets_in(content) { LineOutcome::Skipped } else { LineOutcome::Doubtful };
                    problems.push(LineProblem { line, text: printable(&text), outcome });
                }
            }
        }
        (hba, problems)
    }

    /// The authentication method for a client; `None` if no rule matches.
    #[must_use]
    pub fn method_for(&self, visit: &Visit<'_>) -> Option<&HbaMethod> {
        self.rules.iter().find(|rule| rule.fits(visit)).map(|rule| &rule.method)
    }

    /// Whether any rule needs a client certificate.
    #[must_use]
    pub fn wants_certificates(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.method, HbaMethod::Cert { .. }))
    }
}

impl Rule {
    /// Why this rule matches no client, if so; the words are for the operator.
    fn matches_nobody(&self) -> Option<String> {
        let From::Network { address, .. } = self.from else { return None };
        self.from.has_host_bits().then(|| format!("{address} has bits beyond its mask: this line fits nobody"))
    }

    fn fits(&self, visit: &Visit<'_>) -> bool {
        let is_way = match (self.way, visit.from) {
            (Way::Local, from) => from.is_none(),
            (_, None) => false,
            (Way::Host, _) => true,
            (Way::HostTls, _) => visit.is_tls,
            (Way::HostClear, _) => !visit.is_tls,
        };
        let is_database = match visit.is_replication {
            true => self.databases.is_replication,
            false => self.databases.fit(visit.database, visit.user),
        };
        is_way
            && visit.from.is_none_or(|from| self.from.fits(from))
            && is_database
            && self.users.fit(visit.user, visit.database)
    }
}

impl Names {
    fn fit(&self, name: &str, other: &str) -> bool {
        self.are_all || self.is_same_user && name == other || self.names.contains(name)
    }
}

impl From {
    fn fits(&self, from: IpAddr) -> bool {
        match *self {
            Self::Anywhere => true,
            Self::Network { address, mask } => masked(from.to_canonical(), mask) == Some(bits(address)),
        }
    }

    fn has_host_bits(&self) -> bool {
        match *self {
            Self::Anywhere => false,
            Self::Network { address, mask } => masked(address, mask) != Some(bits(address)),
        }
    }
}

/// The network bits of an address; `None` if address and mask are of different families.
fn masked(address: IpAddr, mask: IpAddr) -> Option<u128> {
    (address.is_ipv4() == mask.is_ipv4()).then(|| bits(address) & bits(mask))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Whether a line that is no rule has, where a method stands, one that lets clients in: one of ours or of PostgreSQL's.
fn lets_in(line: &str) -> bool {
    let mut fields = Fields::of(line);
    let Ok(Some(way)) = fields.next() else { return false };
    let before_method = if way.word() == Ok("local") { 2 } else { 3 };
    let mut rest = std::iter::from_fn(|| fields.next().transpose());
    rest.by_ref().take(before_method).all(|field| field.is_ok())
        && rest.map_while(Result::ok).any(|field| field.word().is_ok_and(|word| LETTING_IN.contains(&word)))
}

const LETTING_IN: [&str; 13] = [
    "trust",
    "md5",
    "password",
    "scram-sha-256",
    "peer",
    "cert",
    "ldap",
    "pam",
    "ident",
    "gss",
    "sspi",
    "radius",
    "bsd",
];

/// Parses a line into a rule, and what is wrong with it although it is one; `None` for an empty line.
fn rule(
    line: &str,
    maps: &IdentMaps,
    read: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
) -> Result<Option<(Rule, Option<String>)>, String> {
    let mut fields = Fields::of(line);
    let Some(way) = fields.next()? else { return Ok(None) };
    let way = match way.word()? {
        "local" => Way::Local,
        "host" => Way::Host,
        "hostssl" => Way::HostTls,
        "hostnossl" => Way::HostClear,
        other => return Err(format!("unknown type \"{other}\", expected local, host, hostssl or hostnossl")),
    };
    let databases = names(&fields.wanted("a database")?, read)?;
    let users = names(&fields.wanted("a user")?, read)?;
    let from = if way == Way::Local { From::Anywhere } else { from(&mut fields)? };
    let method = fields.wanted("a method")?;
    let method = match method.word()? {
        "trust" => HbaMethod::Trust,
        "reject" => HbaMethod::Reject,
        "md5" => HbaMethod::Md5,
        "password" => HbaMethod::Password,
        "scram-sha-256" => HbaMethod::Scram,
        "peer" if way == Way::Local => HbaMethod::Peer { map: map(&mut fields, maps)? },
        "peer" => return Err("peer is for local only".to_owned()),
        "cert" if way == Way::HostTls => HbaMethod::Cert { map: map(&mut fields, maps)? },
        "cert" => return Err("cert is for hostssl only".to_owned()),
        "ldap" => {
            // PgBouncer keeps such a line, and the login of each client that it fits fails. Without it, the next line could
            // let them in.
            let (method, text) = match ldap(&fields) {
                Ok(method) => (method, None),
                Err(text) => (HbaMethod::Reject, Some(format!("{text}: this line rejects whom it fits"))),
            };
            return Ok(Some((Rule { way, databases, users, from, method }, text)));
        }
        other => return Err(format!("unknown method \"{other}\"")),
    };
    match fields.next()? {
        None => Ok(Some((Rule { way, databases, users, from, method }, None))),
        Some(more) => Err(format!("\"{more}\" is too much")),
    }
}

/// Parses the rest of a line as LDAP options, whose grammar has no `#` comments.
fn ldap(fields: &Fields<'_>) -> Result<HbaMethod, String> {
    LdapOptions::parse(fields.rest()).map(|options| HbaMethod::Ldap(Arc::new(options)))
}

fn names(field: &Field, read: &dyn Fn(&str) -> std::io::Result<Vec<u8>>) -> Result<Names, String> {
    let mut names = Names::default();
    for word in field.words() {
        match &*word.text {
            text if word.is_quoted => drop(names.names.insert(text.into())),
            "all" => names.are_all = true,
            "sameuser" => names.is_same_user = true,
            "replication" => names.is_replication = true,
            "samerole" | "samegroup" => return Err(format!("{} is not supported", word.text)),
            group if group.starts_with('+') => return Err(format!("groups such as {group} are not supported")),
            file if file.starts_with('@') => {
                let text = read(&file[1..]).map_err(|error| format!("cannot read {file}: {error}"))?;
                names.names.extend(names_of(&text)?);
            }
            name => drop(names.names.insert(name.into())),
        }
    }
    Ok(names)
}

fn from(fields: &mut Fields<'_>) -> Result<From, String> {
    let field = fields.wanted("an address")?;
    let text = field.word()?;
    if text == "all" {
        return Ok(From::Anywhere);
    }
    let bad = || format!("invalid address \"{text}\", expected all, ADDRESS/BITS or ADDRESS MASK");
    let (address, mask) = match text.split_once('/') {
        Some((address, length)) => {
            let address: IpAddr = address.parse().map_err(|_| bad())?;
            let length: u32 = length.parse().map_err(|_| bad())?;
            (address, mask_of(address, length).ok_or_else(bad)?)
        }
        None => {
            let address: IpAddr = text.parse().map_err(|_| bad())?;
            let mask = fields.wanted("a mask")?;
            let mask: IpAddr = mask.word()?.parse().map_err(|_| format!("invalid mask \"{mask}\""))?;
            (address, mask)
        }
    };
    if address.is_ipv4() != mask.is_ipv4() {
        return Err(format!("address {address} and mask {mask} are of different kinds"));
    }
    Ok(From::Network { address, mask })
}

/// The mask with this prefix length; `None` if the address has fewer bits.
fn mask_of(address: IpAddr, length: u32) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(_) if length <= 32 => IpAddr::V4(u32::MAX.checked_shl(32 - length).unwrap_or(0).into()),
        IpAddr::V6(_) if length <= 128 => IpAddr::V6(u128::MAX.checked_shl(128 - length).unwrap_or(0).into()),
        _ => return None,
    })
}

fn map(fields: &mut Fields<'_>, maps: &IdentMaps) -> Result<Option<Arc<str>>, String> {
    let Some(option) = fields.next()? else { return Ok(None) };
    match option.word()?.split_once('=') {
        Some(("map", name)) if maps.has(name) => Ok(Some(name.into())),
        Some(("map", name)) => Err(format!("there is no ident map \"{name}\"")),
        _ => Err(format!("unknown option \"{option}\", expected map=NAME")),
    }
}

#[cfg(test)]
#[path = "hba_tests.rs"]
mod tests;
