//! Facts of Odyssey's configuration, in PgBouncer's words.
//!
//! Always true: a directive that is not known here is ignored, since only Odyssey can say whether it is one; an unbalanced block is a mistake with
//! its line. Passwords are read over.
//! What is included is read as if it stood in the place of the directive, as far as Odyssey does; a circle ends at its depth.
//! Not here: HBA files, groups.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use config::Place;
use pool::Mode;

use super::{Facts, PoolTerms, Pooler, Program, Setting};

/// A block with its directives.
#[derive(Debug)]
struct Block {
    /// `database`, `"shop"`.
    words: Vec<String>,
    parent: usize,
    line: u32,
    directives: Vec<(u32, Vec<String>)>,
}

/// Reads a file, and what it includes by `reader`. Returns the names of the included files.
pub(crate) fn read_odyssey(
    path: &str,
    text: &str,
    reader: &dyn Fn(&str) -> io::Result<Vec<u8>>,
    facts: &mut Facts,
) -> Vec<Arc<str>> {
    let file: Arc<str> = path.into();
    let mut sources = Sources::of(&file, text.to_owned());
    let (blocks, mistakes) = blocks(&mut sources, reader);
    facts.mistakes.extend(mistakes.into_iter().map(|(line, text)| (sources.place(line), text)));
    let reading = Reading { sources: &sources, blocks: &blocks };
    facts.poolers.push(Pooler {
        program: Program::Odyssey,
        file: Arc::clone(&file),
        settings: reading.settings(),
        pools: reading.pools(),
        users: Vec::new(),
        has_user_client_limit: false,
        has_fencing: false,
        auth_file: None,
        hba: None,
        certificate: None,
    });
    sources.files
}

/// The lines of a file and of what it includes, in the order in which they are read; each has a number of its own.
struct Sources {
    /// Files whose rest is to be read; the last is being read.
    open: Vec<Source>,
    /// From which number on lines are of which file, and the line of the first.
    parts: Vec<(u32, Place)>,
    /// What was included.
    files: Vec<Arc<str>>,
    bytes: usize,
    next: u32,
}

struct Source {
    file: Arc<str>,
    text: String,
    /// How many bytes have been read.
    read: usize,
    line: u32,
}

/// What comes next.
enum Next {
    Line(u32, String),
    /// A file is over.
    EndOfFile,
}

impl Sources {
    fn of(file: &Arc<str>, text: String) -> Self {
        let mut sources = Self { open: Vec::new(), parts: Vec::new(), files: Vec::new(), bytes: 0, next: 1 };
        sources.begin(Arc::clone(file), text);
        sources
    }

    fn begin(&mut self, file: Arc<str>, text: String) {
        self.parts.push((self.next, Place { file: Arc::clone(&file), line: 1 }));
        self.open.push(Source { file, text, read: 0, line: 1 });
    }

    /// Goes on with a file that the last line includes.
    fn include(&mut self, name: &str, reader: &dyn Fn(&str) -> io::Result<Vec<u8>>) -> Result<(), String> {
        if self.open.len() > INCLUDE_DEPTH_MAX {
            return Err(format!("more than {INCLUDE_DEPTH_MAX} nested includes: a circle?"));
        }
        if self.files.len() >= INCLUDED_MAX {
            return Err(format!("more than {INCLUDED_MAX} includes"));
        }
        let bytes = reader(name).map_err(|error| format!("cannot read {name}: {error}"))?;
        self.bytes += bytes.len();
        if self.bytes > INCLUDED_BYTES_MAX {
            return Err("the included files are too large".to_owned());
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("cannot read {name}: it is not UTF-8"))?;
        let file: Arc<str> = name.into();
        self.files.push(Arc::clone(&file));
        self.begin(file, text);
        Ok(())
    }

    fn next(&mut self) -> Option<Next> {
        let source = self.open.last_mut()?;
        let rest = &source.text[source.read..];
        if rest.is_empty() {
            self.open.pop();
            if let Some(source) = self.open.last() {
                self.parts.push((self.next, Place { file: Arc::clone(&source.file), line: source.line }));
            }
            return Some(Next::EndOfFile);
        }
        let line = rest.split('\n').next().unwrap_or_default().to_owned();
        source.read = (source.read + line.len() + 1).min(source.text.len());
        source.line = source.line.saturating_add(1);
        let number = self.next;
        self.next = self.next.saturating_add(1);
        Some(Next::Line(number, line))
    }

    /// Where the line of a number is; 0 is the first file as a whole.
    fn place(&self, number: u32) -> Place {
        let part = self.parts.partition_point(|(first, _)| *first <= number).saturating_sub(1);
        let (first, place) = &self.parts[part];
        let line = if number == 0 { 0 } else { place.line + (number - first) };
        Place { file: Arc::clone(&place.file), line }
    }
}

/// The blocks of a file: the first is the file itself.
fn blocks(sources: &mut Sources, reader: &dyn Fn(&str) -> io::Result<Vec<u8>>) -> (Vec<Block>, Vec<(u32, String)>) {
    let mut blocks = vec![Block { words: Vec::new(), parent: 0, line: 0, directives: Vec::new() }];
    let mut mistakes = Vec::new();
    let (mut current, mut depth) = (0, 0);
    while let Some(next) = sources.next() {
        let (line, text) = match next {
            Next::Line(line, text) => (line, text),
            Next::EndOfFile => {
                if depth > 0 {
                    mistakes.push((blocks[current].line, "{ without }".to_owned()));
                    (current, depth) = (0, 0);
                }
                continue;
            }
        };
        let mut words = Vec::new();
        for word in split(&text) {
            match &*word {
                "{" if depth < DEPTH_MAX => {
                    blocks.push(Block {
                        words: std::mem::take(&mut words),
                        parent: current,
                        line,
                        directives: Vec::new(),
                    });
                    current = blocks.len() - 1;
                    depth += 1;
                }
                "{" => return (blocks, vec![(line, format!("more than {DEPTH_MAX} nested blocks"))]),
                "}" if depth == 0 => mistakes.push((line, "} without {".to_owned())),
                "}" => {
                    finish(&mut blocks[current], line, std::mem::take(&mut words));
                    current = blocks[current].parent;
                    depth -= 1;
                }
                _ => words.push(word),
            }
        }
        match &words[..] {
            [word, name] if depth == 0 && word == "include" => {
                mistakes.extend(sources.include(name, reader).err().map(|why| (line, why)));
            }
            _ => finish(&mut blocks[current], line, words),
        }
    }
    mistakes.truncate(MISTAKES_MAX);
    (blocks, mistakes)
}

fn finish(block: &mut Block, line: u32, words: Vec<String>) {
    if !words.is_empty() {
        block.directives.push((line, words));
    }
}

/// The words of a line; quotes are taken off, `{` and `}` are words.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut chars = line.chars().peekable();
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '#' => break,
            '"' => {
                end(&mut word);
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    word.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
                }
                // An empty text is a word, too.
                word.insert(0, ' ');
                end(&mut word);
            }
            '{' | '}' => {
                end(&mut word);
                word.push(c);
                end(&mut word);
            }
            c if c.is_whitespace() => end(&mut word),
            c => word.push(c),
        }
    }
    end(&mut word);
    words.into_iter().map(|word| word.strip_prefix(' ').map(str::to_owned).unwrap_or(word)).collect()
}

impl Block {
    fn is(&self, word: &str) -> bool {
        self.words.first().is_some_and(|first| first == word)
    }

    /// The value of a directive and its line.
    fn text(&self, name: &str) -> Option<(&str, u32)> {
        let (line, words) = self.directives.iter().rev().find(|(_, words)| words[0] == name)?;
        Some((words.get(1).map_or("", |word| word), *line))
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.0.parse().ok().filter(|number: &f64| *number >= 0.0)
    }

    fn count(&self, name: &str) -> u32 {
        // A number that does not fit is larger than any limit, which is as good as none.
        self.text(name).and_then(|(text, _)| text.parse().ok()).unwrap_or(0)
    }

    fn is_on(&self, name: &str, default: bool) -> bool {
        self.text(name).map_or(default, |(text, _)| text == "yes")
    }
}

struct Reading<'b> {
    sources: &'b Sources,
    blocks: &'b [Block],
}

impl<'b> Reading<'b> {
    fn all(&self, word: &'static str) -> impl Iterator<Item = &'b Block> {
        self.blocks.iter().filter(move |block| block.is(word))
    }

    fn at(&self, line: u32) -> Place {
        self.sources.place(line)
    }

    fn settings(&self) -> BTreeMap<&'static str, Setting> {
        let root = &self.blocks[0];
        let mut settings = BTreeMap::new();
        let mut put = |name: &'static str, value: Option<(String, u32)>, default: Option<&str>| {
            let value = value.or(default.map(|text| (text.to_owned(), 0)));
            if let Some((text, line)) = value {
                settings.insert(name, Setting { text, is_default: line == 0, at: self.at(line) });
            }
        };
        let owned = |(text, line): (&str, u32)| (text.to_owned(), line);
        let millis = |(text, line): (&str, u32)| Some((format!("{}", text.parse::<f64>().ok()? / 1000.0), line));
        let keepalive = root.text("keepalive").map(owned);
        put("max_client_conn", root.text("client_max").map(owned), None);
        put("tcp_keepalive", keepalive.clone(), Some("15"));
        put("tcp_keepidle", keepalive, Some("15"));
        put("tcp_user_timeout", root.text("keepalive_usr_timeout").map(owned), Some("0"));
        put("server_connect_timeout", root.text("backend_connect_timeout_ms").and_then(millis), Some("30"));
        let listens: Vec<&Block> = self.all("listen").collect();
        let addresses = listens.iter().filter_map(|listen| listen.text("host"));
        let line = addresses.clone().map(|(_, line)| line).next().unwrap_or(0);
        let addresses = addresses.map(|(host, _)| host).collect::<Vec<_>>().join(",");
        put("listen_addr", Some((addresses, line)), None);
        let backlogs = listens.iter().map(|listen| listen.text("backlog").unwrap_or(("128", 0)));
        put("listen_backlog", backlogs.min_by_key(|(text, _)| text.parse().unwrap_or(0_u32)).map(owned), None);
        put("client_tls_sslmode", weakest(&listens), None);
        let remote: Vec<&Block> = self
            .all("storage")
            .filter(|storage| storage.text("type").is_none_or(|(kind, _)| kind != "local"))
            .collect();
        put("server_tls_sslmode", weakest(&remote), None);
        let rules: Vec<&Block> = self.rules().map(|(_, rule)| rule).collect();
        let lives = rules.iter().map(|rule| rule.text("server_lifetime").unwrap_or(("3600", 0)));
        put("server_lifetime", lives.max_by_key(|(text, _)| text.parse().unwrap_or(0_u32)).map(owned), None);
        let idles = rules.iter().filter_map(|rule| rule.text("pool_ttl")).filter(|(text, _)| *text != "0");
        put("server_idle_timeout", idles.min_by_key(|(text, _)| text.parse().unwrap_or(0_u32)).map(owned), None);
        settings
    }

    /// The rules: blocks `user` of blocks `database`.
    fn rules(&self) -> impl Iterator<Item = (&'b Block, &'b Block)> {
        let users = self.blocks.iter().filter(|block| block.is("user"));
        let pairs = users.map(|user| (&self.blocks[user.parent], user));
        pairs.filter(|(database, _)| database.is("database"))
    }

    fn pools(&self) -> Vec<PoolTerms> {
        let storages: BTreeMap<&str, &Block> =
            self.all("storage").filter_map(|storage| Some((&**storage.words.get(1)?, storage))).collect();
        self.rules().map(|(database, rule)| self.terms(database, rule, &storages)).collect()
    }

    fn terms(&self, database: &Block, rule: &Block, storages: &BTreeMap<&str, &Block>) -> PoolTerms {
        let name = |block: &Block| block.words.get(1).filter(|name| *name != "default").map(|name| Arc::from(&**name));
        let database: Option<Arc<str>> = name(database);
        let storage = rule.text("storage").and_then(|(name, _)| storages.get(name));
        let said = |name: &str| storage.and_then(|storage| storage.text(name)).map_or("", |(text, _)| text);
        let hosts: Vec<&str> = said("host").split(',').filter(|host| !host.is_empty()).collect();
        let attrs = rule.text("target_session_attrs").map_or("", |(text, _)| text);
        let dbname = rule.text("storage_db").map(|(text, _)| Arc::from(text)).or_else(|| database.clone());
        let lag = rule.number("catchup_timeout").filter(|lag| *lag > 0.0);
        PoolTerms {
            user: name(rule),
            at: self.at(rule.line),
            mode: match rule.text("pool").map_or("", |(text, _)| text) {
                "transaction" => Mode::Transaction,
                "statement" => Mode::Statement,
                _ => Mode::Session,
            },
            size: rule.count("pool_size"),
            min: rule.count("min_pool_size"),
            reserve: 0,
            reserve_written: 0,
            servers_max: None,
            clients_max: Some(rule.count("client_max")).filter(|most| *most > 0),
            wait_max: rule
                .number("pool_timeout")
                .filter(|wait| *wait > 0.0)
                .map(|ms| Duration::from_secs_f64(ms.min(1e12) / 1000.0)),
            server: format!("{}:{}", said("host"), said("port")).into(),
            dbname: dbname.unwrap_or_else(|| "*".into()),
            hosts: hosts.len(),
            is_remote: hosts.iter().any(|host| !is_local(host)),
            is_clustered: false,
            is_of_replicas: ["read-only", "prefer-standby"].contains(&attrs),
            lag_time_max: lag.map(|lag| Duration::from_secs_f64(lag.min(1e9))),
            has_lag_limit: lag.is_some(),
            is_state_kept: !rule.is_on("pool_discard", true),
            auth: rule.text("authentication").map(|(text, _)| text.to_owned()),
            is_forced_without_password: false,
            is_console: said("type") == "local",
            database: database.unwrap_or_else(|| "*".into()),
        }
    }
}

/// The weakest TLS mode of several blocks; `disable` if one says none.
fn weakest(blocks: &[&Block]) -> Option<(String, u32)> {
    let modes = blocks.iter().map(|block| block.text("tls").unwrap_or(("disable", 0)));
    let rank = |mode: &str| TLS_MODES.iter().position(|known| *known == mode).unwrap_or(0);
    modes.min_by_key(|(mode, _)| rank(mode)).map(|(mode, line)| (mode.to_owned(), line))
}

fn is_local(host: &str) -> bool {
    let host = host.trim().trim_start_matches("tcp://");
    let name = host.rsplit_once(':').filter(|(name, _)| !name.contains(':')).map_or(host, |(name, _)| name);
    let is_loopback = |name: &str| name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    host.starts_with("unix://") || name == "localhost" || is_loopback(name) || is_loopback(host)
}

const TLS_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify_ca", "verify_full"];
/// The grammar has four levels.
const DEPTH_MAX: usize = 16;
/// As in Odyssey.
const INCLUDE_DEPTH_MAX: usize = 16;
const INCLUDED_MAX: usize = 1000;
const INCLUDED_BYTES_MAX: usize = 64 << 20;
const MISTAKES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# comment\nclient_max 1000\nkeepalive 0\nlisten { host \"*\" port 6432\n}\nlisten {\n  host \"10.0.0.1\"\n  tls \"require\"\n}\n\
        storage \"pg\" {\n  type \"remote\"\n  host \"a:5432,b:5432\"\n  port 5432\n  tls \"verify_full\"\n}\n\
        database \"shop\" {\n  user \"app\" {\n    authentication \"md5\"\n    password \"to {p} s\\\"ecret\"\n    storage \"pg\"\n    pool \"transaction\"\n    pool_size 10\n    pool_timeout 4000\n  }\n}\n\
        storage \"console\" { type \"local\" }\ndatabase default {\n user default {\n  authentication \"none\"\n  storage \"console\"\n }\n}\n";

    fn nothing(_: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    #[test]
    fn what_is_included_is_read_in_its_place_and_keeps_its_lines() {
        let reader = |name: &str| match name {
            "/etc/rules.conf" => Ok(b"# rules\ndatabase \"shop\" {\n user \"app\" {\n  pool_size 7\n }\n".to_vec()),
            "circle" => Ok(b"client_max 5\ninclude \"circle\"\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let text = "client_max 1000\ninclude \"/etc/rules.conf\"\ninclude \"gone\"\nkeepalive 3\nlisten {\n include \"x\"\n host \"*\"\n}\ninclude \"circle\"\n";
        let mut facts = Facts::default();
        let files = read_odyssey("o.conf", text, &reader, &mut facts);
        assert_eq!((files.len(), &*files[0]), (17, "/etc/rules.conf"));
        let pooler = &facts.poolers[0];
        let at = |place: &Place| (place.file.to_string(), place.line);
        assert_eq!((pooler.pools.len(), pooler.pools[0].size), (1, 7));
        assert_eq!(at(&pooler.pools[0].at), ("/etc/rules.conf".to_owned(), 3));
        assert_eq!(at(&pooler.at("tcp_keepidle")), ("o.conf".to_owned(), 4));
        assert_eq!((pooler.text("listen_addr"), at(&pooler.at("listen_addr"))), ("*", ("o.conf".to_owned(), 7)));
        assert_eq!(
            (pooler.text("max_client_conn"), at(&pooler.at("max_client_conn"))),
            ("5", ("circle".to_owned(), 1))
        );
        let told: Vec<_> = facts.mistakes.iter().map(|(place, text)| (at(place), &**text)).collect();
        for (file, line, part) in [
            ("/etc/rules.conf", 2, "{ without }"),
            ("o.conf", 3, "cannot read gone"),
            ("circle", 2, "more than 16 nested includes"),
        ] {
            let is_told = |((of, at), text): &((String, u32), &str)| of == file && *at == line && text.contains(part);
            assert!(told.iter().any(is_told), "{file}:{line}: {part} is not in {told:?}");
        }
        assert_eq!(told.len(), 3, "{told:?}");
    }

    #[test]
    fn rules_are_pools_and_directives_are_settings() {
        let mut facts = Facts::default();
        read_odyssey("o.conf", FILE, &nothing, &mut facts);
        let pooler = &facts.poolers[0];
        assert!(facts.mistakes.is_empty(), "{:?}", facts.mistakes);
        assert_eq!((pooler.number("max_client_conn"), pooler.number("tcp_keepidle")), (Some(1000.0), Some(0.0)));
        assert_eq!((pooler.text("listen_addr"), pooler.text("client_tls_sslmode")), ("*,10.0.0.1", "disable"));
        assert_eq!((pooler.text("server_tls_sslmode"), pooler.at("server_tls_sslmode").line), ("verify_full", 14));
        let [shop, console] = &pooler.pools[..] else { panic!("{:#?}", pooler.pools) };
        assert_eq!((&*shop.database, shop.user.as_deref(), shop.at.line), ("shop", Some("app"), 17));
        assert_eq!((shop.size, shop.hosts, shop.is_remote, shop.mode), (10, 2, true, Mode::Transaction));
        assert_eq!(shop.wait_max, Some(Duration::from_secs(4)));
        assert_eq!((&*console.database, console.is_console, console.auth.as_deref()), ("*", true, Some("none")));
        assert!(!format!("{facts:?}").contains("ecret"));
    }

    #[test]
    fn unbalanced_blocks_are_mistakes_with_their_line() {
        for (text, line, part) in [("a {\nb {\n}\n", 1, "without }"), ("a {\n}\n}\n", 3, "without {")] {
            let mut facts = Facts::default();
            read_odyssey("o.conf", text, &nothing, &mut facts);
            assert_eq!((facts.mistakes.len(), facts.mistakes[0].0.line), (1, line));
            assert!(facts.mistakes[0].1.contains(part));
        }
        let mut facts = Facts::default();
        read_odyssey("o.conf", &"{".repeat(100_000), &nothing, &mut facts);
        assert!(facts.mistakes[0].1.contains("nested"));
    }
}
