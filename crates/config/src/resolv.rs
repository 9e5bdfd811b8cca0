//! The file of `resolv_conf`: which name servers are asked, and for which names.
//!
//! Always true: the format is that of `resolv.conf(5)`; as in c-ares a name server may have a port. Unknown words and
//! options are ignored, as by the system's own resolver, but a word that nearly is a known one is a mistake.
//! Not here: opening the file and sending queries (`control`).

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::sync::Arc;

use crate::mistake::{Mistake, Place, Wrong, did_you_mean};

/// The configuration of the resolver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameServers {
    /// The name servers in the order in which they are asked.
    pub servers: Vec<SocketAddr>,
    /// The domains to search for short names, without a dot at the end.
    pub search: Vec<Arc<str>>,
    /// A name with at least this many dots is tried as it is before the search domains (`ndots`).
    pub dots: usize,
    /// How long to wait for an answer of one name server.
    pub patience: Duration,
    /// How often each name server is asked before the lookup fails.
    pub attempts: u32,
    /// Whether each lookup starts with another name server.
    pub rotates: bool,
    /// Whether to use TCP only.
    pub is_tcp_only: bool,
    /// Whether to announce with EDNS that long answers are accepted.
    pub is_extended: bool,
}

impl NameServers {
    /// Parses a file, and returns all mistakes. `own_domain` is searched if the file names no domain.
    #[must_use]
    pub fn parse(file: &str, text: &[u8], own_domain: Option<&str>) -> (Self, Vec<Mistake>) {
        let mut read = Self { servers: Vec::new(), ..Self::system() };
        let (mut search, mut mistakes) = (None, Vec::new());
        let file: Arc<str> = file.into();
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let line = String::from_utf8_lossy(line);
            if let Err(wrong) = read.take_line(&line, &mut search) {
                mistakes.push(wrong.at(Place { file: Arc::clone(&file), line: number }));
            }
        }
        if read.servers.is_empty() && mistakes.is_empty() {
            mistakes.push(Wrong::new("no name server is named").at(Place { file, line: 0 }));
        }
        read.search = search.unwrap_or_else(|| own_domain.and_then(|name| domain(name).ok()).into_iter().collect());
        (read, mistakes)
    }

    /// The defaults of the system's resolver without a file: the name server on this machine.
    #[must_use]
    pub fn system() -> Self {
        Self {
            servers: vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT)],
            search: Vec::new(),
            dots: 1,
            patience: Duration::from_secs(5),
            attempts: 2,
            rotates: false,
            is_tcp_only: false,
            is_extended: false,
        }
    }

    /// The complete names that a name may stand for, each with a dot at the end, in the order in which they are asked.
    #[must_use]
    pub fn names(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let whole = format!("{name}.");
        if name.eq_ignore_ascii_case("localhost") {
            return vec![whole];
        }
        let mut names: Vec<_> = self.search.iter().map(|domain| format!("{name}.{domain}.")).collect();
        let is_long = name.matches('.').count() >= self.dots;
        names.insert(if is_long { 0 } else { names.len() }, whole);
        names
    }

    fn take_line(&mut self, line: &str, search: &mut Option<Vec<Arc<str>>>) -> Result<(), Wrong> {
        let mut words = line.split_ascii_whitespace();
        let Some(word) = words.next().filter(|word| !word.starts_with(['#', ';'])) else { return Ok(()) };
        match word {
            "nameserver" => {
                let server = server(words.next().ok_or_else(|| Wrong::new("nameserver needs an address"))?)?;
                if self.servers.len() == SERVERS_MAX {
                    return Err(Wrong::new(format!("more than {SERVERS_MAX} name servers")));
                }
                self.servers.push(server);
            }
            // The last of `domain` and `search` counts.
            "domain" => *search = Some(words.take(1).map(domain).collect::<Result<_, _>>()?),
            "search" => {
                let domains: Vec<_> = words.filter(|word| *word != ".").map(domain).collect::<Result<_, _>>()?;
                if domains.len() > SEARCH_MAX {
                    return Err(Wrong::new(format!("more than {SEARCH_MAX} domains to search")));
                }
                *search = Some(domains);
            }
            "options" => words.try_for_each(|option| self.take_option(option))?,
            _ if FOREIGN.contains(&word) => {}
            // Ignored, as by the system's resolver, unless it is probably misspelt.
            _ => {
                if let Some(advice) = did_you_mean(word, KEYWORDS) {
                    return Err(Wrong::new(format!("unknown word: {word}")).advise(Some(advice)));
                }
            }
        }
        Ok(())
    }

    fn take_option(&mut self, option: &str) -> Result<(), Wrong> {
        let (name, value) = option.split_once(':').unwrap_or((option, ""));
        let number = |most: u32| match value.parse::<u32>() {
            Ok(number) => Ok(number.min(most)),
            Err(_) => Err(Wrong::new(format!("option {name} needs a number: {option}"))),
        };
        match name {
            "ndots" => self.dots = number(DOTS_MAX)? as usize,
            "timeout" | "retrans" => self.patience = Duration::from_secs(number(PATIENCE_SECS_MAX)?.max(1).into()),
            "attempts" | "retry" => self.attempts = number(ATTEMPTS_MAX)?.max(1),
            "rotate" => self.rotates = true,
            "use-vc" | "usevc" => self.is_tcp_only = true,
            "edns0" => self.is_extended = true,
            _ => {}
        }
        Ok(())
    }
}

/// Parses an address, or an address with a port: `10.0.0.1`, `10.0.0.1:5353`, `[10.0.0.1]:5353`, `fd00::1`,
/// `[fd00::1]:5353`.
fn server(text: &str) -> Result<SocketAddr, Wrong> {
    if text.contains('%') {
        return Err(Wrong::new(format!("nameserver {text}: an address of one interface only cannot be asked")));
    }
    let bare = |text: &str| text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    let in_brackets = || {
        let (ip, rest) = text.strip_prefix('[')?.split_once(']')?;
        match rest.strip_prefix(':') {
            Some(port) => Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?)),
            None if rest.is_empty() => bare(ip),
            None => None,
        }
    };
    let found = bare(text).or_else(in_brackets).or_else(|| text.parse().ok()).filter(|server| server.port() != 0);
    found.ok_or_else(|| Wrong::new(format!("nameserver {text}: no address of a name server")))
}

/// Parses the name of a domain: labels of 1 to 63 bytes.
fn domain(text: &str) -> Result<Arc<str>, Wrong> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_good = name.len() <= NAME_BYTES_MAX && name.split('.').all(|label| (1..=63).contains(&label.len()));
    if is_good { Ok(name.into()) } else { Err(Wrong::new(format!("{text} is no name of a domain"))) }
}

/// The port of name servers.
const PORT: u16 = 53;

const KEYWORDS: [&str; 4] = ["nameserver", "domain", "search", "options"];

/// Words of other resolvers, which are accepted.
const FOREIGN: [&str; 4] = ["sortlist", "lookup", "hostresorder", "family"];

/// The longest DNS name (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// More name servers than a lookup can wait for.
const SERVERS_MAX: usize = 8;

/// Each search domain may cost a query for each name.
const SEARCH_MAX: usize = 32;

/// As in `resolv.conf(5)`, higher values are reduced to these.
const DOTS_MAX: u32 = 15;
const PATIENCE_SECS_MAX: u32 = 30;
const ATTEMPTS_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn good(text: &str) -> NameServers {
        let (read, mistakes) = NameServers::parse("r.conf", text.as_bytes(), Some("own.example"));
        assert_eq!(mistakes, [], "{text}");
        read
    }

    fn wrong(text: &str) -> Vec<String> {
        let (_, mistakes) = NameServers::parse("r.conf", text.as_bytes(), None);
        mistakes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_as_systems_write_it_is_read_whole() {
        let read = good(
            "# made by a program\n; and a comment\n\nnameserver 10.0.0.1\nnameserver fd00::1 # trailing\r\n\
             domain a.example\nsearch b.example c.example.\n\
             options ndots:2 timeout:3 attempts:4 rotate edns0 trust-ad use-vc\nsortlist 10.0.0.0\nsomething else\n",
        );
        assert_eq!(read.servers, ["10.0.0.1:53".parse().expect("v4"), "[fd00::1]:53".parse().expect("v6")]);
        assert_eq!(read.search, ["b.example".into(), "c.example".into()]);
        assert_eq!((read.dots, read.patience, read.attempts), (2, Duration::from_secs(3), 4));
        assert!(read.rotates && read.is_extended && read.is_tcp_only);
    }

    #[test]
    fn a_name_server_may_have_a_port() {
        let read =
            good("nameserver 10.0.0.1:5353\nnameserver [10.0.0.2]:54\nnameserver [fd00::1]:55\nnameserver [::1]\n");
        let shown: Vec<_> = read.servers.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.1:5353", "10.0.0.2:54", "[fd00::1]:55", "[::1]:53"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert_eq!(
            wrong("nameserver 10.0.0\nnameserver\nnameserver 10.0.0.1:0\nnameserver fe80::1%eth0\n"),
            [
                "r.conf:1: nameserver 10.0.0: no address of a name server",
                "r.conf:2: nameserver needs an address",
                "r.conf:3: nameserver 10.0.0.1:0: no address of a name server",
                "r.conf:4: nameserver fe80::1%eth0: an address of one interface only cannot be asked",
            ]
        );
        assert_eq!(
            wrong("\nnameservr 10.0.0.1\noptions ndots:two\nsearch a..b\n"),
            [
                "r.conf:2: unknown word: nameservr; did you mean \"nameserver\"?",
                "r.conf:3: option ndots needs a number: ndots:two",
                "r.conf:4: a..b is no name of a domain",
            ]
        );
        assert_eq!(wrong("search a.example\n"), ["r.conf: no name server is named"]);
        assert_eq!(wrong(&"nameserver 10.0.0.1\n".repeat(9)), ["r.conf:9: more than 8 name servers"]);
        let search = format!("nameserver ::1\nsearch{}\n", " a".repeat(33));
        assert_eq!(wrong(&search), ["r.conf:2: more than 32 domains to search"]);
    }

    #[test]
    fn a_short_name_is_searched_for_before_it_is_asked_as_it_is() {
        let read = good("nameserver ::1\nsearch a.example b.example\n");
        assert_eq!(read.names("db"), ["db.a.example.", "db.b.example.", "db."]);
        assert_eq!(read.names("db.prod"), ["db.prod.", "db.prod.a.example.", "db.prod.b.example."]);
        assert_eq!(read.names("db."), ["db."]);
        assert_eq!(read.names("LocalHost"), ["LocalHost."]);
        let read = good("nameserver ::1\nsearch a.example\noptions ndots:5\n");
        assert_eq!(read.names("db.prod"), ["db.prod.a.example.", "db.prod."]);
    }

    #[test]
    fn without_a_domain_in_the_file_the_machines_own_is_searched() {
        assert_eq!(good("nameserver ::1\n").search, ["own.example".into()]);
        assert_eq!(good("nameserver ::1\nsearch .\n").search, []);
        let (read, _) = NameServers::parse("r.conf", b"nameserver ::1\n", None);
        assert_eq!(read.search, []);
    }
}
