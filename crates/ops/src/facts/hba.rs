//! Facts of an HBA file: who may log in from other machines, and by which proof.
//!
//! Always true: the file is read by crate `auth`, as a pooler would read it. A line counts for the connections that it decides: those that no line
//! above it fits, as far as examples show, of which each line has few. Names and options are dropped.
//! Not here: what follows from it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use auth::{Hba, HbaMethod, IdentMaps, LineOutcome, Visit};
use config::Place;

use super::{Observed, read};

/// An HBA file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HbaFile {
    pub(crate) path: Arc<str>,
    /// Its lines, in order; those of the local machine alone are among them.
    pub(crate) lines: Vec<HbaAdmission>,
    /// Lines beyond the most that are judged.
    pub(crate) unread: usize,
}

/// What a line admits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HbaAdmission {
    pub(crate) at: Place,
    /// The method as the file names it; never `reject`.
    pub(crate) method: &'static str,
    /// Whether it decides for clients of other machines.
    pub(crate) clients: Ways,
    /// Whether it decides for an administrator of the console on another machine.
    pub(crate) console: Ways,
}

/// The ways on which a line decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ways {
    /// Without TLS.
    pub(crate) clear: bool,
    pub(crate) tls: bool,
}

impl Ways {
    /// Whether somebody comes on one of them, under a TLS mode of the listener.
    pub(crate) fn are_used(self, tls: Offered) -> bool {
        self.clear && tls != Offered::Always || self.tls && tls != Offered::Never
    }
}

/// Whether connections to the listener use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offered {
    Never,
    AsClientsLike,
    Always,
}

/// Reads an HBA file. Its mistakes are told with their lines.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_hba(
    path: &str,
    ident_path: Option<&str>,
    console_users: &[&str],
    mistakes: &mut Vec<(Place, String)>,
) -> io::Result<HbaFile> {
    let text = read(path)?;
    let maps = ident_path.and_then(|path| read(path).ok()).map(|text| IdentMaps::parse(&text).0).unwrap_or_default();
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let rest = Cell::new(INCLUDED_BYTES_MAX);
    let known: RefCell<BTreeMap<String, Observed<Rc<[u8]>>>> = RefCell::default();
    let fresh = |name: &str| {
        let path = folder.join(name);
        let path = path.to_str().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename).to_string())?;
        let text = read(path).map_err(|why| why.to_string())?;
        let left = rest.get().checked_sub(text.len()).ok_or("files of names are too large")?;
        rest.set(left);
        Ok(text.into())
    };
    let beside = |name: &str| {
        let mut known = known.borrow_mut();
        if let Some(text) = known.get(name) {
            return text.clone().map_err(io::Error::other);
        }
        let text: Observed<Rc<[u8]>> = fresh(name);
        known.insert(name.to_owned(), text.clone());
        text.map_err(io::Error::other)
    };
    Ok(judged(path, &text, &maps, console_users, &beside, mistakes))
}

/// Reads a file of names. One that is read again is not read from the disk.
type Reader<'r> = &'r dyn Fn(&str) -> io::Result<Rc<[u8]>>;

fn judged(
    path: &str,
    text: &[u8],
    maps: &IdentMaps,
    console_users: &[&str],
    beside: Reader<'_>,
    mistakes: &mut Vec<(Place, String)>,
) -> HbaFile {
    let path: Arc<str> = path.into();
    let at = |line: usize| Place { file: Arc::clone(&path), line: u32::try_from(line).unwrap_or(u32::MAX) };
    let text = String::from_utf8_lossy(text);
    let said =
        (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    let mut rules: Vec<(usize, &str, Hba)> = Vec::new();
    let mut unread = 0;
    // Each line has the names of its files for itself.
    let rest = Cell::new(NAMED_BYTES_MAX);
    let of_line = |name: &str| {
        let text = beside(name)?;
        let left = rest.get().checked_sub(text.len()).ok_or_else(|| io::Error::other("lines name too many names"))?;
        rest.set(left);
        Ok(text.to_vec())
    };
    for (number, line) in said {
        if rules.len() >= LINES_MAX {
            unread += 1;
            continue;
        }
        let (rule, problems) = Hba::parse(line.as_bytes(), maps, &of_line);
        mistakes.extend(problems.into_iter().map(|problem| (at(number), problem.text + outcome(problem.outcome))));
        rules.push((number, line, rule));
    }
    let decides = |index: usize, visit: &Visit<'_>| {
        let first = rules[..=index].iter().position(|(_, _, rule)| rule.method_for(visit).is_some());
        first == Some(index)
    };
    let admission = |(index, (number, line, rule)): (usize, &(usize, &str, Hba))| {
        let visits = examples(line, beside);
        let admitted = |visit: &Visit<'_>| {
            rule.method_for(visit).filter(|method| **method != HbaMethod::Reject && decides(index, visit))
        };
        let decided = |is_remote: bool, is_tls: bool| {
            let mut some = visits.iter().filter(|example| example.from.is_some() == is_remote);
            some.find_map(|example| admitted(&example.visit(is_tls)))
        };
        let (clear, tls, local) = (decided(true, false), decided(true, true), decided(false, false));
        let console_users = console_users.iter().take(NAMES_MAX);
        let administrator = |is_tls: bool| {
            let of = |example| console_users.clone().map(move |user| Example::of_console(example, user, is_tls));
            visits.iter().filter(|example| example.from.is_some()).flat_map(of).find_map(|visit| admitted(&visit))
        };
        let (console_clear, console_tls) = (administrator(false), administrator(true));
        let method = clear.or(tls).or(local).or(console_clear).or(console_tls)?;
        Some(HbaAdmission {
            at: at(*number),
            method: word(method),
            clients: Ways { clear: clear.is_some(), tls: tls.is_some() },
            console: Ways { clear: console_clear.is_some(), tls: console_tls.is_some() },
        })
    };
    let lines = rules.iter().enumerate().filter_map(admission).collect();
    HbaFile { lines, unread, path }
}

fn outcome(outcome: LineOutcome) -> &'static str {
    match outcome {
        LineOutcome::Kept => "",
        LineOutcome::Skipped => "; the line is skipped",
        LineOutcome::Doubtful => "; Trunkline refuses the file, and PgBouncer skips the line",
    }
}

fn word(method: &HbaMethod) -> &'static str {
    match method {
        HbaMethod::Trust => "trust",
        HbaMethod::Reject => "reject",
        HbaMethod::Md5 => "md5",
        HbaMethod::Password => "password",
        HbaMethod::Scram => "scram-sha-256",
        HbaMethod::Peer { .. } => "peer",
        HbaMethod::Cert { .. } => "cert",
        HbaMethod::Ldap(_) => "ldap",
    }
}

/// A client that a line may be for.
struct Example {
    /// `None` on this machine's Unix socket.
    from: Option<IpAddr>,
    database: String,
    user: String,
    is_replication: bool,
}

impl Example {
    fn visit(&self, is_tls: bool) -> Visit<'_> {
        let (database, user) = (&*self.database, &*self.user);
        Visit { from: self.from, is_tls, database, user, is_replication: self.is_replication }
    }

    fn of_console<'v>(&self, user: &'v str, is_tls: bool) -> Visit<'v> {
        Visit { from: self.from, is_tls, database: "pgbouncer", user, is_replication: false }
    }
}

/// Clients that a line may be for: names and addresses are taken from its words. Whether it fits them, `auth` says.
fn examples(line: &str, beside: Reader<'_>) -> Vec<Example> {
    let mut fields = fields(line);
    let mut next = || fields.next().unwrap_or_default();
    let Some(way) = next().into_iter().next() else { return Vec::new() };
    let databases = next();
    // The keyword stands for clients that replicate, of whichever database.
    let is_replication = databases.iter().any(|word| word == "replication");
    let [databases, users] = [databases, next()].map(|words| names(words, beside));
    let [address, mask] = [next(), next()].map(|words| words.into_iter().next().unwrap_or_default());
    let addresses = match &*way {
        "local" => vec![None],
        _ => addresses(&address, &mask).into_iter().map(Some).collect(),
    };
    let mut examples = Vec::new();
    for from in addresses {
        for user in users.iter().filter(|_| is_replication) {
            examples.push(Example { from, database: ANYBODY.to_owned(), user: user.clone(), is_replication });
        }
        for database in &databases {
            for user in users.iter().chain(users.iter().any(|user| user == ANYBODY).then_some(database)) {
                examples.push(Example { from, database: database.clone(), user: user.clone(), is_replication: false });
            }
        }
    }
    examples.truncate(EXAMPLES_MAX);
    examples
}

/// The fields of a line with their words, as they are written.
fn fields(line: &str) -> impl Iterator<Item = Vec<String>> {
    // Blanks around a comma do not end a field.
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut goes_on = false;
    for part in line.split_whitespace() {
        if !goes_on && !part.starts_with(',') {
            all.push(Vec::new());
        }
        goes_on = part.ends_with(',');
        let words = part.split(',').filter(|word| !word.is_empty()).take(NAMES_MAX);
        let words: Vec<String> = words.map(str::to_owned).collect();
        if let Some(last) = all.last_mut() {
            last.extend(words);
        }
    }
    all.into_iter()
}

/// Some of the names that a field stands for.
fn names(words: Vec<String>, beside: Reader<'_>) -> Vec<String> {
    let named = |word: String| match &*word {
        "all" | "sameuser" => vec![ANYBODY.to_owned()],
        file if file.starts_with('@') => {
            let Ok(text) = beside(&file[1..]) else { return Vec::new() };
            let mut names = text.split(|byte| b", \t\r\n".contains(byte)).filter(|name| !name.is_empty());
            names.next().map(|name| String::from_utf8_lossy(name).into_owned()).into_iter().collect()
        }
        // A quoted word is a name, also if it is a keyword.
        name => vec![name.trim_matches('"').to_owned()],
    };
    words.into_iter().take(NAMES_MAX).flat_map(named).collect()
}

/// Addresses of other machines in what a line has for one, with a mask of its own or without.
fn addresses(word: &str, mask: &str) -> Vec<IpAddr> {
    let anywhere = [IpAddr::V4(ANY_V4), IpAddr::V6(ANY_V6)];
    if word == "all" {
        return anywhere
            .into_iter()
            .chain(of_network(Ipv4Addr::UNSPECIFIED.into(), ones(32)))
            .chain(of_network(Ipv6Addr::UNSPECIFIED.into(), ones(128)))
            .collect();
    }
    let (address, length) = word.split_once('/').unwrap_or((word, ""));
    let Ok(address) = address.parse::<IpAddr>() else { return anywhere.to_vec() };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let host = match (length.parse::<u32>(), mask.parse::<IpAddr>()) {
        (Ok(length), _) => ones(width - length.min(width)),
        (Err(_), Ok(IpAddr::V4(mask))) => u128::from(!mask.to_bits()),
        (Err(_), Ok(IpAddr::V6(mask))) => !mask.to_bits(),
        (Err(_), Err(_)) => 0,
    };
    let known = anywhere.into_iter().filter(|_| address.is_unspecified());
    known.chain(of_network(address, host & ones(width))).collect()
}

/// A few addresses of a network, far from each other: a narrower network that another line has may begin where this one does, or end there.
fn of_network(first: IpAddr, host: u128) -> impl Iterator<Item = IpAddr> {
    let highest = host.checked_ilog2().map_or(0, |bit| 1 << bit);
    let mut parts = vec![0, host, host & 1, highest, (highest >> 1) & host, host ^ highest];
    parts.sort_unstable();
    parts.dedup();
    let addresses = parts.into_iter().filter_map(move |part| match first {
        IpAddr::V4(first) => u32::try_from(part).ok().map(|part| IpAddr::V4((first.to_bits() | part).into())),
        IpAddr::V6(first) => Some(IpAddr::V6((first.to_bits() | part).into())),
    });
    addresses.filter(|address| !address.is_loopback() && !address.is_unspecified())
}

/// As many bits, the lowest ones.
fn ones(count: u32) -> u128 {
    u128::MAX.checked_shr(128 - count).unwrap_or(0)
}

/// A name that no line has.
const ANYBODY: &str = "\u{1}anybody";
/// Addresses for documentation (RFC 5737, RFC 3849).
const ANY_V4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const ANY_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
/// Lines of an HBA file that are judged: each is compared with those above it.
const LINES_MAX: usize = 1000;
/// Names of a field that are tried.
const NAMES_MAX: usize = 4;
/// Bytes of all files of names together.
const INCLUDED_BYTES_MAX: usize = 16 << 20;
/// Bytes of the files of names that all lines have, one file once for each line: all of them are in memory.
const NAMED_BYTES_MAX: usize = 64 << 20;
/// Clients that are tried for a line.
const EXAMPLES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// Line, method, whether it decides without TLS, with TLS, for the console.
    type Told = (u32, &'static str, bool, bool, bool);

    fn judge(text: &str) -> (Vec<Told>, Vec<String>) {
        let mut mistakes = Vec::new();
        let beside = |_: &str| Ok(b"ann\nbob\n".as_slice().into());
        let file = judged("hba", text.as_bytes(), &IdentMaps::default(), &["root"], &beside, &mut mistakes);
        let line = |one: &HbaAdmission| {
            let console = one.console.are_used(Offered::AsClientsLike);
            (one.at.line, one.method, one.clients.clear, one.clients.tls, console)
        };
        (file.lines.iter().map(line).collect(), mistakes.into_iter().map(|(_, text)| text).collect())
    }

    #[test]
    fn a_line_counts_for_whom_it_decides() {
        for (text, expected) in [
            ("host all all all trust\n", vec![(1, "trust", true, true, true)]),
            ("# all\n\nhostssl all all 0.0.0.0/0 md5\n", vec![(3, "md5", false, true, true)]),
            ("host all all all reject\nhost all all all trust\n", vec![]),
            ("hostnossl all all all reject\nhost all all all md5\n", vec![(2, "md5", false, true, true)]),
            ("host shop app 10.0.0.0/8 password\n", vec![(1, "password", true, true, false)]),
            (
                "host all root 10.0.0.1/32 trust\nhost all all 127.0.0.1/32 trust\n",
                vec![(1, "trust", true, true, true)],
            ),
            ("local all all trust\n", vec![(1, "trust", false, false, false)]),
            ("local shop app md5\n", vec![(1, "md5", false, false, false)]),
            ("local all all reject\nlocal shop app md5\n", vec![]),
            ("host @names , b \"all\" ::/0 scram-sha-256\n", vec![(1, "scram-sha-256", true, true, false)]),
            ("host sameuser all all trust\n", vec![(1, "trust", true, true, false)]),
            // A narrower network above, with the same first address.
            (
                "host all all 10.0.0.0/24 scram-sha-256\nhost all all 10.0.0.0/8 trust\n",
                vec![(1, "scram-sha-256", true, true, true), (2, "trust", true, true, true)],
            ),
            (
                "host all all 192.168.0.0/24 md5\nhost all all 192.168.0.0 255.255.0.0 trust\n",
                vec![(1, "md5", true, true, true), (2, "trust", true, true, true)],
            ),
            ("host all all 0.0.0.0/1 trust\n", vec![(1, "trust", true, true, true)]),
            ("host all all 128.0.0.0/1 reject\nhost all all 0.0.0.0/0 trust\n", vec![(2, "trust", true, true, true)]),
            (
                "host all all fd00::/64 md5\nhost all all fd00::/9 trust\n",
                vec![(1, "md5", true, true, true), (2, "trust", true, true, true)],
            ),
            ("host all all 10.0.0.0/8 reject\nhost all all 10.0.0.0/24 trust\n", vec![]),
        ] {
            assert_eq!(judge(text), (expected, vec![]), "{text}");
        }
    }

    #[test]
    fn a_line_for_replication_counts_for_those_who_replicate() {
        for (text, expected) in [
            ("host replication rep 0.0.0.0/0 trust\n", vec![(1, "trust", true, true, false)]),
            (
                "host all all all reject\nhostssl replication,shop rep 10.0.0.0/8 md5\n",
                vec![(2, "md5", false, true, false)],
            ),
            ("host replication all all reject\nhost replication rep all trust\n", vec![]),
            // Quoted, it is the name of a database.
            ("host all all all reject\nhost \"replication\" rep all trust\n", vec![]),
        ] {
            assert_eq!(judge(text), (expected, vec![]), "{text}");
        }
    }

    #[test]
    fn mistakes_say_what_becomes_of_their_line() {
        let (_, mistakes) = judge("host all all all ident\nhost all all 10.0.0.1/8 reject\nhust all all all reject\n");
        let parts = ["the line is skipped", "fits nobody; Trunkline refuses the file", "unknown type \"hust\""];
        assert!(
            mistakes.len() == 3 && parts.iter().zip(&mistakes).all(|(part, text)| text.contains(part)),
            "{mistakes:?}"
        );
    }

    #[test]
    fn a_long_file_is_judged_as_far_as_it_is_compared() {
        let text: String = (0..5000).map(|n| format!("host d{n} all 10.0.0.1/32 md5\n")).collect();
        let mut mistakes = Vec::new();
        let beside = |_: &str| Ok(Rc::default());
        let file = judged("hba", text.as_bytes(), &IdentMaps::default(), &["root"], &beside, &mut mistakes);
        assert_eq!((file.lines.len(), file.unread), (1000, 4000));
    }
}
