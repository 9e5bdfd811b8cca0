//! Statements that a session has prepared by SQL, and any server can be given.
//!
//! Always true: a server that is told what stands here has the very statements of its client, and its `search_path`, when all of it has
//! succeeded.
//! Not here: which statements can be carried (`route::prepared`), the settings beside them (`overrides`).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::vars::push_literal;

/// One of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Statement {
    /// Its `PREPARE`.
    pub sql: Box<str>,
    /// The `search_path` under which it has been prepared; `None` is that which a session begins with. What its names mean is looked up
    /// anew when that has changed (`RevalidateCachedQuery` in `utils/cache/plancache.c`), but they must mean something first.
    pub search_path: Option<Box<str>>,
}

/// All of a session, by their names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Statements(BTreeMap<Box<str>, Statement>);

/// One query that brings a server nearer to what its client has prepared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Preparation {
    /// A statement is to be gone. If that fails it was not there.
    Drop,
    /// A statement of this name is to be there. If that fails it is not.
    Prepare(Box<str>),
    /// The `search_path` changes for what comes next.
    Path,
}

impl Statements {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Statement)> {
        self.0.iter().map(|(name, statement)| (&**name, statement))
    }

    /// How many bytes their names, texts and paths have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let path = |statement: &Statement| statement.search_path.as_ref().map_or(0, |path| path.len());
        self.iter().map(|(name, statement)| name.len() + statement.sql.len() + path(statement)).sum()
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Statement> {
        self.0.get(name)
    }

    /// It has this one.
    pub fn insert(&mut self, name: &str, statement: Statement) {
        self.0.insert(name.into(), statement);
    }

    /// It has this one no more.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Those that are not among these, if there are any.
    #[must_use]
    pub fn missing(&self, others: &Self) -> Option<Self> {
        let missing = self.iter().filter(|(name, _)| others.get(name).is_none());
        let missing = Self(missing.map(|(name, statement)| (name.into(), statement.clone())).collect());
        (!missing.is_empty()).then_some(missing)
    }

    /// It has these, too, but for those whose names are taken.
    pub fn add(&mut self, others: Self) {
        for (name, statement) in others.0 {
            self.0.entry(name).or_insert(statement);
        }
    }

    /// A number that is the same for the same statements, and seldom for others; 0 for none.
    pub(super) fn likeness(&self) -> u32 {
        if self.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish() as u32
    }

    /// What a server that has these must be told, one by one, to have those of a client; it has the client's `search_path` already.
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
    let mut sql = String::from("SELECT pg_catalog.set_config('search_path',");
    push_literal(&mut sql, path);
    sql.push_str(",false)");
    sql.into()
}

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
        assert_ne!(server.likeness(), client.likeness());
        assert_eq!(Statements::default().likeness(), 0);
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
