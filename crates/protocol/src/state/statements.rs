//! Statements that a session has prepared by SQL and that can be prepared on any server.
//!
//! Always true: a server on which all queries of [`Statements::changes_to`] have succeeded has exactly the statements of
//! its client, and the client's `search_path`.
//! Not here: which statements can be carried (`route::prepared`), the settings beside them (`overrides`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hash::hash_of;
use crate::vars::Literal;

/// A statement prepared by SQL.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Statement {
    /// The text of its `PREPARE`.
    pub sql: Box<str>,
    /// The `search_path` under which it was prepared; `None` is the path with which a session begins, where servers do not report it. PostgreSQL looks
    /// its names up anew when the path has changed (`RevalidateCachedQuery` in `utils/cache/plancache.c`), but preparing
    /// it requires that they are found.
    pub search_path: Option<Box<str>>,
}

/// All such statements of a session, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Statements(BTreeMap<Box<str>, Statement>);

/// A query that brings a server's statements closer to its client's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Preparation {
    /// Drops a statement. If the query fails, the statement was not there.
    Drop,
    /// Prepares a statement of this name. If the query fails, the statement is not there.
    Prepare(Box<str>),
    /// Changes `search_path` for the next query.
    Path,
}

impl Statement {
    fn path_bytes(&self) -> usize {
        self.search_path.as_ref().map_or(0, |path| path.len())
    }
}

impl Statements {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each statement with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Statement)> {
        self.0.iter().map(|(name, statement)| (&**name, statement))
    }

    /// Their size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let (texts, paths) = self.bytes_by_kind();
        texts + paths
    }

    /// Whether they exceed what follows a client.
    #[must_use]
    pub fn are_too_much(&self) -> bool {
        let (texts, paths) = self.bytes_by_kind();
        texts > STATEMENT_BYTES_MAX || paths > PATH_BYTES_MAX
    }

    /// The bytes of names and texts, and those of the paths under which the statements were prepared.
    fn bytes_by_kind(&self) -> (usize, usize) {
        self.0.iter().fold((0, 0), |(texts, paths), (name, statement)| {
            (texts + name.len() + statement.sql.len(), paths + statement.path_bytes())
        })
    }

    /// The statement of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Statement> {
        self.0.get(name)
    }

    /// Adds a statement.
    pub fn insert(&mut self, name: &str, statement: Statement) {
        self.0.insert(name.into(), statement);
    }

    /// Notes that those of which no path is known were prepared under this one.
    pub fn note_path(&mut self, path: &str) {
        for statement in self.0.values_mut() {
            statement.search_path.get_or_insert_with(|| path.into());
        }
    }

    /// Removes a statement.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The statements whose names `others` does not have, if there are any.
    #[must_use]
    pub fn missing(&self, others: &Self) -> Option<Self> {
        let missing = self.iter().filter(|(name, _)| others.get(name).is_none());
        let missing = Self(missing.map(|(name, statement)| (name.into(), statement.clone())).collect());
        (!missing.is_empty()).then_some(missing)
    }

    /// Adds `others`, except those whose names are taken, and those for which there is no room: where too many statements
    /// cannot be prepared on any server, some are lost.
    pub fn add(&mut self, others: Self) {
        let mut room = MISSING_BYTES_MAX.saturating_sub(self.bytes());
        for (name, statement) in others.0 {
            let bytes = name.len() + statement.sql.len() + statement.path_bytes();
            if bytes <= room && !self.0.contains_key(&name) {
                room -= bytes;
                self.0.insert(name, statement);
            }
        }
    }

    /// A number that is equal for equal statements, and rarely for others; 0 for none.
    pub(super) fn fingerprint(&self) -> u32 {
        if self.is_empty() { 0 } else { hash_of(&self.0) as u32 }
    }

    /// The queries, one by one, by which a server with these statements gets those of a client; the server has the
    /// client's `search_path` already.
    #[must_use]
    pub fn changes_to(&self, client: &Self, search_path: Option<&str>) -> Vec<(Preparation, Box<str>)> {
        let is_other = |name: &str| client.get(name) != self.get(name);
        let drop = |name: &str| (Preparation::Drop, format!("DEALLOCATE \"{}\"", name.replace('"', "\"\"")).into());
        let mut told: Vec<(Preparation, Box<str>)> =
            self.iter().filter(|(name, _)| is_other(name)).map(|(name, _)| drop(name)).collect();
        let mut path = search_path;
        for (name, statement) in client.iter().filter(|(name, _)| is_other(name)) {
            if path != statement.search_path.as_deref() {
                path = statement.search_path.as_deref();
                told.push((Preparation::Path, set_path(path)));
            }
            told.push((Preparation::Prepare(name.into()), statement.sql.clone()));
        }
        if path != search_path {
            told.push((Preparation::Path, set_path(search_path)));
        }
        told
    }
}

fn set_path(path: Option<&str>) -> Box<str> {
    let Some(path) = path else { return "RESET search_path".into() };
    format!("SELECT pg_catalog.set_config('search_path',{},false)", Literal(path)).into()
}

/// The most bytes, names and texts, of statements prepared by SQL that follow a client; a client that has more keeps its
/// server.
pub(super) const STATEMENT_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of the paths under which the statements that follow a client were prepared, where each path counts
/// once for each statement; a client that has more keeps its server.
pub(super) const PATH_BYTES_MAX: usize = 256 * 1024;
/// The most bytes that are kept of them, including those that a server could not prepare.
const MISSING_BYTES_MAX: usize = 2 * (STATEMENT_BYTES_MAX + PATH_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(rows: &[(&str, &str, Option<&str>)]) -> Statements {
        let mut all = Statements::default();
        for (name, sql, path) in rows {
            all.insert(name, Statement { sql: (*sql).into(), search_path: path.map(Box::from) });
        }
        all
    }

    fn told(server: &Statements, client: &Statements, path: Option<&str>) -> Vec<String> {
        server.changes_to(client, path).into_iter().map(|(what, sql)| format!("{what:?} {sql}")).collect()
    }

    #[test]
    fn a_server_gets_the_statements_of_its_client_and_keeps_no_others() {
        let server = statements(&[("a", "A1", None), ("b", "B", None), ("o\"k", "O", None)]);
        let client = statements(&[("b", "B", None), ("a", "A2", None), ("c", "C", None)]);
        let expected = ["Drop DEALLOCATE \"a\"", "Drop DEALLOCATE \"o\"\"k\"", "Prepare(\"a\") A2", "Prepare(\"c\") C"];
        assert_eq!(told(&server, &client, None), expected);
        assert!(told(&client, &client, Some("x")).is_empty());
        assert_ne!(server.fingerprint(), client.fingerprint());
        assert_eq!(Statements::default().fingerprint(), 0);
    }

    #[test]
    fn what_is_missing_may_be_added_under_a_free_name() {
        let (client, server) = (statements(&[("a", "A", None), ("b", "B", None)]), statements(&[("b", "B2", None)]));
        let missing = client.missing(&server).expect("some");
        assert_eq!(missing, statements(&[("a", "A", None)]));
        assert_eq!((client.missing(&client), server.missing(&client)), (None, None));
        for (mut now, sql) in [(Statements::default(), "A"), (statements(&[("a", "new", None)]), "new")] {
            now.add(missing.clone());
            assert_eq!(&*now.get("a").expect("there").sql, sql);
        }
    }

    #[test]
    fn texts_and_paths_have_bounds_of_their_own() {
        let (long, path) = ("x".repeat(1000), "p".repeat(1000));
        let many = |count: usize, sql: &str, path: Option<&str>| {
            let mut all = Statements::default();
            let statement = Statement { sql: sql.into(), search_path: path.map(Box::from) };
            (0..count).for_each(|number| all.insert(&format!("s{number:03}"), statement.clone()));
            all
        };
        for (all, bytes, are_too_much) in [
            (many(65, &long, None), 65 * 1004, false),
            (many(66, &long, None), 66 * 1004, true),
            (many(262, "A", Some(&path)), 262 * 1005, false),
            (many(263, "A", Some(&path)), 263 * 1005, true),
        ] {
            assert_eq!((all.bytes(), all.are_too_much()), (bytes, are_too_much));
        }
        let mut all = many(200, "A", Some(&path));
        let others = |from: usize| {
            let rows = (from..from + 300).map(|number| (format!("s{number:05}").into(), all_of(&path)));
            Statements(rows.collect())
        };
        (0..10).for_each(|round| all.add(others(1000 * round)));
        assert!((MISSING_BYTES_MAX - 2000..=MISSING_BYTES_MAX).contains(&all.bytes()), "{}", all.bytes());
    }

    fn all_of(path: &str) -> Statement {
        Statement { sql: "A".into(), search_path: Some(path.into()) }
    }

    #[test]
    fn each_is_prepared_where_its_names_were_found_first() {
        let client = statements(&[("a", "A", Some("one")), ("b", "B", None), ("c", "C", Some("it's"))]);
        let expected = [
            "Prepare(\"a\") A",
            "Path RESET search_path",
            "Prepare(\"b\") B",
            "Path SELECT pg_catalog.set_config('search_path','it''s',false)",
            "Prepare(\"c\") C",
            "Path SELECT pg_catalog.set_config('search_path','one',false)",
        ];
        assert_eq!(told(&Statements::default(), &client, Some("one")), expected);
    }
}
