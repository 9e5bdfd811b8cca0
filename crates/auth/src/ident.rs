//! Ident maps: which system user, or name in a certificate, may log in as which database user.
//!
//! Always true: system users match by exact name; for the database user, `all` matches every user.
//! Not here: the rules that refer to maps (`hba`), opening the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hba::{LineOutcome, LineProblem};
use crate::words::{Fields, printable};

/// All maps of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdentMaps {
    maps: BTreeMap<Arc<str>, Vec<Line>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    system_user: String,
    /// The database user; `None` stands for all users.
    user: Option<String>,
}

impl IdentMaps {
    /// Parses a whole file: lines of `MAP SYSTEM-USER USER`.
    #[must_use]
    pub fn parse(text: &[u8]) -> (Self, Vec<LineProblem>) {
        let (mut maps, mut problems) = (Self::default(), Vec::new());
        for (line, content) in (1..).zip(String::from_utf8_lossy(text).lines()) {
            match entry(content) {
                Ok(None) => {}
                Ok(Some((map, entry))) => maps.maps.entry(map).or_default().push(entry),
                // Without it, a map lets fewer in.
                Err(text) => {
                    problems.push(LineProblem { line, text: printable(&text), outcome: LineOutcome::Skipped });
                }
            }
        }
        (maps, problems)
    }

    /// Whether a map of this name exists.
    #[must_use]
    pub fn has(&self, map: &str) -> bool {
        self.maps.contains_key(map)
    }

    /// Whether this map lets this system user log in as this database user.
    #[must_use]
    pub fn allows(&self, map: &str, system_user: &str, user: &str) -> bool {
        let lines = self.maps.get(map).into_iter().flatten();
        let mut those = lines.filter(|line| line.system_user == system_user);
        those.any(|line| line.user.as_deref().is_none_or(|named| named == user))
    }
}

fn entry(line: &str) -> Result<Option<(Arc<str>, Line)>, String> {
    let mut fields = Fields::of(line);
    let Some(map) = fields.next()? else { return Ok(None) };
    let system_user = fields.wanted("a user of the system")?;
    let user = fields.wanted("a user")?;
    if let Some(more) = fields.next()? {
        return Err(format!("\"{more}\" is too much"));
    }
    let is_all = matches!(user.words(), [word] if word.text == "all" && !word.is_quoted);
    let user = if is_all { None } else { Some(user.word()?.to_owned()) };
    Ok(Some((map.word()?.into(), Line { system_user: system_user.word()?.to_owned(), user })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_names_who_may_be_whom() {
        let (maps, problems) = IdentMaps::parse(b"# maps\nm root postgres\nm root ann\n\nm bob all\nn root \"all\"\n");
        assert!(problems.is_empty() && maps.has("m") && !maps.has("o"));
        for (map, system_user, user, is_allowed) in [
            ("m", "root", "postgres", true),
            ("m", "root", "ann", true),
            ("m", "root", "bob", false),
            ("m", "bob", "anybody", true),
            ("n", "root", "all", true),
            ("n", "root", "ann", false),
            ("o", "root", "postgres", false),
        ] {
            assert_eq!(maps.allows(map, system_user, user), is_allowed, "{map} {system_user} {user}");
        }
    }

    #[test]
    fn a_line_that_is_not_one_is_told_and_left_out() {
        let (maps, problems) = IdentMaps::parse(b"m root\nm root ann too much\nm a,b ann\nm x ann\n");
        assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(maps.allows("m", "x", "ann"));
    }
}
