//! Facts of HAProxy's configuration: the timeouts, limits and checks of its sections.
//!
//! Always true: a section without a value has that of the `defaults` before it; other lines are ignored.
//! Not here: anything about HTTP.

use std::sync::Arc;

use config::Place;

use super::Facts;

/// A section that passes connections on.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Proxied {
    /// `listen postgres`.
    pub(crate) name: String,
    pub(crate) at: Place,
    /// Seconds without traffic from the client, until its connection is closed.
    pub(crate) client: Option<(f64, Place)>,
    /// The same for the server.
    pub(crate) server: Option<(f64, Place)>,
    /// Most connections: the smallest of the process's, the section's and its servers'.
    pub(crate) maxconn: Option<(f64, Place)>,
    /// Whether it speaks HTTP, so that it leads to no database.
    is_http: bool,
    /// The path of its HTTP check.
    pub(crate) check: Option<(String, Place)>,
}

/// Reads a file.
pub(crate) fn read_haproxy(path: &str, text: &str, facts: &mut Facts) {
    let file: Arc<str> = path.into();
    let mut defaults = blank("defaults", &file, 0);
    let mut global: Option<(f64, Place)> = None;
    let mut current = blank("", &file, 0);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = Place { file: Arc::clone(&file), line: number };
        match words[..] {
            ["global" | "defaults" | "frontend" | "backend" | "listen" | "peers" | "resolvers" | "userlist", ..] => {
                keep(current, &mut found);
                current = match words[0] {
                    "frontend" | "backend" | "listen" => Proxied { name: words.join(" "), at, ..defaults.clone() },
                    "defaults" => blank("defaults", &file, number),
                    other => blank(other, &file, number),
                };
            }
            ["mode", mode, ..] => current.is_http = mode == "http",
            ["timeout", "client", time, ..] => current.client = seconds(time).map(|time| (time, at)),
            ["timeout", "server", time, ..] => current.server = seconds(time).map(|time| (time, at)),
            ["maxconn", most, ..] => {
                let most = most.parse().ok().map(|most| (most, at));
                match &*current.name {
                    "global" => global = most,
                    _ => current.maxconn = most,
                }
            }
            ["option", "httpchk", ..] => {
                if let Some(path) = words.iter().find(|word| word.starts_with('/')) {
                    current.check = Some(((*path).to_owned(), at));
                }
            }
            ["http-check", "send", ..] => {
                if let Some(path) = words.windows(2).find(|pair| pair[0] == "uri").map(|pair| pair[1]) {
                    current.check = Some((path.to_owned(), at));
                }
            }
            ["server" | "default-server", ..] => {
                let most = words.windows(2).find(|pair| pair[0] == "maxconn").and_then(|pair| pair[1].parse().ok());
                let smaller = most.filter(|most: &f64| current.maxconn.as_ref().is_none_or(|(least, _)| most < least));
                if let Some(most) = smaller {
                    current.maxconn = Some((most, at));
                }
            }
            _ => {}
        }
        if current.name == "defaults" {
            defaults = current.clone();
        }
    }
    keep(current, &mut found);
    for proxied in &mut found {
        let is_smaller = |(most, _): &&(f64, Place)| proxied.maxconn.as_ref().is_none_or(|(least, _)| most < least);
        if let Some(smaller) = global.as_ref().filter(is_smaller) {
            proxied.maxconn = Some(smaller.clone());
        }
    }
    facts.proxies.extend(found);
}

fn keep(section: Proxied, found: &mut Vec<Proxied>) {
    let is_proxy = ["frontend ", "backend ", "listen "].iter().any(|word| section.name.starts_with(word));
    if is_proxy && !section.is_http && found.len() < SECTIONS_MAX {
        found.push(section);
    }
}

fn blank(name: &str, file: &Arc<str>, line: u32) -> Proxied {
    let at = Place { file: Arc::clone(file), line };
    Proxied { name: name.to_owned(), at, client: None, server: None, maxconn: None, is_http: false, check: None }
}

/// A time in HAProxy's units: milliseconds if none is written.
fn seconds(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "us" => 1e-6,
        "" | "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// Sections that are judged.
const SECTIONS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_its_own_values_or_those_of_the_defaults() {
        let text = "global\n maxconn 100\ndefaults\n timeout client 30m\n timeout server 5000 # ms\n\
            listen pg\n bind *:5000\n option httpchk OPTIONS /replica?lag=1MB\n timeout server 1h\n\
            listen stats\n mode tcp\nlisten page\n mode http\nbackend b\n maxconn 500\n server a 10.0.0.1:5432 maxconn 50 check\n";
        let mut facts = Facts::default();
        read_haproxy("h.cfg", text, &mut facts);
        let [pg, stats, backend] = &facts.proxies[..] else { panic!("{:#?}", facts.proxies) };
        let value = |said: &Option<(f64, Place)>| said.as_ref().map(|(value, at)| (*value, at.line));
        assert_eq!((value(&pg.client), value(&pg.server)), (Some((1800.0, 4)), Some((3600.0, 9))));
        assert_eq!((value(&stats.server), value(&stats.maxconn)), (Some((5.0, 5)), Some((100.0, 2))));
        assert_eq!(pg.check.as_ref().map(|(path, at)| (&**path, at.line)), Some(("/replica?lag=1MB", 8)));
        assert_eq!(value(&backend.maxconn), Some((50.0, 16)));
    }
}
