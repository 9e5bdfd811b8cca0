//! Which program a file belongs to, by its content.
//!
//! Always true: a file whose lines do not say it has no kind; it is not guessed from its name. Only the beginning of a file is looked at.
//! Not here: reading the file.

use std::fmt;

/// What kind of file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// PgBouncer's dialect, for PgBouncer.
    Pgbouncer,
    /// PgBouncer's dialect, for Trunkline.
    Trunkline,
    /// PgBouncer's dialect; whose it is, its words say.
    Ini,
    /// Odyssey's.
    Odyssey,
    /// Manifests or values of Kubernetes.
    Kubernetes,
    /// Patroni's, also its dynamic configuration.
    Patroni,
    /// HAProxy's.
    Haproxy,
}

impl Kind {
    /// The kind of a word of the command line.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
    }

    /// The words of the command line.
    pub(crate) fn words() -> String {
        KINDS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// The kind of a file.
    ///
    /// # Errors
    /// Why it has none, in words that follow the file's name.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if bytes.contains(&0) {
            return Err("it is a binary file".to_owned());
        }
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(BEGINNING_BYTES)]).into_owned();
        let is_said = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with(['#', ';']);
        let lines: Vec<&str> = text.lines().filter(is_said).take(LINES_MAX).collect();
        let Some(first) = lines.first() else { return Err("it is empty, or has comments only".to_owned()) };
        // A manifest may contain a whole configuration of a pooler, but begins with a key.
        let is_yaml = first.trim_end() == "---" || top_key(first).is_some();
        if !is_yaml && lines.iter().any(|line| is_section(line)) {
            return Ok(Self::Ini);
        }
        if lines.iter().any(|line| is_odyssey(line)) {
            return Ok(Self::Odyssey);
        }
        if lines.iter().any(|line| is_haproxy(line)) {
            return Ok(Self::Haproxy);
        }
        let keys: Vec<&str> = lines.iter().filter_map(|line| top_key(line)).collect();
        let is_there = |names: &[&str]| keys.iter().any(|key| names.contains(key));
        if is_there(&["scope", "bootstrap", "loop_wait", "ttl", "retry_timeout"]) && !is_there(&["apiVersion"]) {
            return Ok(Self::Patroni);
        }
        if is_there(&KUBERNETES) || is_list_of_manifests(first, &lines) {
            return Ok(Self::Kubernetes);
        }
        Err(format!("its kind is not known; say it with --kind ({})", Self::words()))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Kind {
    /// How reports name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pgbouncer | Self::Ini => "PgBouncer configuration",
            Self::Trunkline => "Trunkline configuration",
            Self::Odyssey => "Odyssey configuration",
            Self::Kubernetes => "Kubernetes manifests or values",
            Self::Patroni => "Patroni configuration",
            Self::Haproxy => "HAProxy configuration",
        }
    }
}

fn is_section(line: &str) -> bool {
    let name = line.trim().strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(name, _)| name);
    name.is_some_and(|name| SECTIONS.contains(&name))
}

fn is_odyssey(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("include \"")
        || line.ends_with('{') && ["listen", "storage ", "database ", "user "].iter().any(|word| line.starts_with(word))
}

fn is_haproxy(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    let is_named = ["frontend", "backend", "listen"].contains(&word) && line.split_whitespace().nth(1).is_some();
    let is_alone = ["global", "defaults"].contains(&line.trim());
    !line.starts_with([' ', '\t']) && !line.contains(['{', ':', '=']) && (is_alone || is_named)
}

/// The key of a line of a YAML mapping that is not indented, or is the first of JSON.
fn top_key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let is_end = rest.is_empty() || rest.starts_with([' ', '\t', '\r']);
    let key = key.trim_matches(['"', '\'']);
    (is_end && !key.is_empty() && !key.contains([' ', '\t', '=', '{'])).then_some(key)
}

/// `{"apiVersion": ...}` or `{"kind": ...}`.
fn is_list_of_manifests(first: &str, lines: &[&str]) -> bool {
    first.trim_start().starts_with('{') && lines.iter().any(|line| line.contains("\"apiVersion\""))
}

const KINDS: [(&str, Kind); 6] = [
    ("pgbouncer", Kind::Pgbouncer),
    ("trunkline", Kind::Trunkline),
    ("odyssey", Kind::Odyssey),
    ("kubernetes", Kind::Kubernetes),
    ("patroni", Kind::Patroni),
    ("haproxy", Kind::Haproxy),
];
const SECTIONS: [&str; 7] = ["pgbouncer", "trunkline", "databases", "users", "peers", "clusters", "rate_limits"];
/// Keys of manifests, and of the values of charts that run poolers.
const KUBERNETES: [&str; 12] = [
    "apiVersion",
    "replicaCount",
    "replicas",
    "terminationGracePeriodSeconds",
    "podDisruptionBudget",
    "podAnnotations",
    "affinity",
    "image",
    "resources",
    "deployment",
    "pgbouncer",
    "strategy",
];
const BEGINNING_BYTES: usize = 1 << 20;
const LINES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_file_say_whose_it_is() {
        for (text, expected) in [
            ("; comment\n[databases]\n* = host=a\n[pgbouncer]\n", Kind::Ini),
            ("%include more.ini\n[trunkline]\nlisten_port = 1\n", Kind::Ini),
            ("storage \"s\" {\n  type \"remote\"\n}\n", Kind::Odyssey),
            ("daemonize no\ninclude \"/etc/odyssey/rules.conf\"\n", Kind::Odyssey),
            ("global\n  maxconn 100\ndefaults\n  mode tcp\n", Kind::Haproxy),
            ("listen postgres\n    bind *:5000\n", Kind::Haproxy),
            ("scope: demo\nname: a\nbootstrap:\n  dcs:\n    ttl: 30\n", Kind::Patroni),
            ("ttl: 30\nloop_wait: 10\n", Kind::Patroni),
            ("apiVersion: apps/v1\nkind: Deployment\n", Kind::Kubernetes),
            ("replicaCount: 3\nimage:\n  tag: \"1\"\n", Kind::Kubernetes),
            ("{\"apiVersion\": \"v1\"}", Kind::Kubernetes),
            ("---\nkind: ConfigMap\napiVersion: v1\ndata:\n  a: |\n    [pgbouncer]\n", Kind::Kubernetes),
        ] {
            assert_eq!(Kind::of(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_no_line_says_has_no_kind() {
        for (bytes, part) in [
            (&b"\x7fELF\0\0"[..], "binary"),
            (b"# nothing\n\n", "empty"),
            (b"", "empty"),
            (b"just some words\n", "--kind"),
            (b"name: x\n", "--kind"),
        ] {
            let why = Kind::of(bytes).expect_err("no kind");
            assert!(why.contains(part), "{why}");
        }
    }
}
