//! A spec as text: TOML as a tree of values with their lines, in which single values can be replaced.
//!
//! Always true: the tree is at most [`DEPTH_MAX`] deep, so nothing that reads it can run out of stack.
//! Not here: what the values mean (`read`).

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Mistake;

/// A table: values by name.
pub(super) type Table = BTreeMap<String, Node>;

/// A value and where it is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    /// Counted from 1; 0 for a value that was not in the file.
    pub(super) line: u32,
    pub(super) value: Value,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Text(String),
    Number(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(Table),
}

/// A spec as it was written, before it is checked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SpecTree {
    /// As it was written, for the report.
    pub(crate) text: String,
    /// What was set since, by its path.
    pub(crate) changes: Vec<(String, String)>,
    pub(super) root: Table,
}

impl SpecTree {
    /// Reads TOML.
    ///
    /// # Errors
    /// The text is no TOML, or is too large or too deep: all mistakes.
    pub(crate) fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        if text.len() > BYTES_MAX {
            let text = format!("the spec has {} bytes; at most {BYTES_MAX} are read", text.len());
            return Err(vec![Mistake { line: 0, text }]);
        }
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let line = |error: &toml::de::Error| error.span().map_or(0, |span| line_of(text, span.start));
            let list = errors.iter().map(|error| Mistake { line: line(error), text: error.message().to_owned() });
            let mut list: Vec<Mistake> = list.collect();
            list.sort_by_key(|mistake| mistake.line);
            // One slip of the pen makes several errors of the grammar.
            list.dedup_by_key(|mistake| mistake.line);
            return Err(list);
        }
        let mut mistakes = Vec::new();
        let root = table_of(text, table.get_ref(), 0, &mut mistakes);
        if mistakes.is_empty() { Ok(Self { text: text.to_owned(), changes: Vec::new(), root }) } else { Err(mistakes) }
    }

    /// Replaces or adds a value. The path is made of names and places joined by dots: `pooler.max_db_connections`,
    /// `databases.0.tenants.0.count`. A single name may be any setting of the pooler, or any name that occurs once.
    ///
    /// # Errors
    /// The path leads nowhere, or to several values; the text says so.
    pub(crate) fn set(&mut self, path: &str, written: &str) -> Result<(), String> {
        let value = parse_value(written);
        let mut steps: Vec<String> = path.split('.').map(str::to_owned).collect();
        if let [name] = &steps[..]
            && !self.root.contains_key(name)
        {
            steps = self.places_of(name)?;
        }
        let node = Node { line: 0, value };
        let Some((last, parents)) = steps.split_last() else { return Err("an empty path".to_owned()) };
        let mut table = &mut self.root;
        let mut parents = parents.iter().peekable();
        while let Some(step) = parents.next() {
            let entry = table.entry(step.clone()).or_insert(Node { line: 0, value: Value::Table(Table::new()) });
            table = match &mut entry.value {
                Value::Table(inner) => inner,
                Value::List(list) => {
                    let place =
                        parents.next().ok_or_else(|| format!("\"{path}\" ends in a list: say which, from 0"))?;
                    match place.parse::<usize>().ok().and_then(|place| list.get_mut(place)).map(|node| &mut node.value)
                    {
                        Some(Value::Table(inner)) => inner,
                        _ => return Err(format!("\"{path}\": there is no \"{place}\" in the list \"{step}\"")),
                    }
                }
                _ => return Err(format!("\"{path}\": \"{step}\" has nothing in it")),
            };
        }
        table.insert(last.clone(), node);
        self.changes.push((path.to_owned(), written.to_owned()));
        Ok(())
    }

    /// The path of a name that was written alone.
    fn places_of(&self, name: &str) -> Result<Vec<String>, String> {
        if super::pooler::NAMES.contains(&name) {
            return Ok(vec!["pooler".to_owned(), name.to_owned()]);
        }
        if super::read::TOP.contains(&name) {
            return Ok(vec![name.to_owned()]);
        }
        let mut found: Vec<Vec<String>> = Vec::new();
        let mut open: Vec<(Vec<String>, &Table)> = vec![(Vec::new(), &self.root)];
        let mut names: Vec<&str> = super::pooler::NAMES.into_iter().chain(super::read::TOP).collect();
        while let Some((path, table)) = open.pop() {
            for (key, node) in table {
                names.push(key);
                let here = [&path[..], std::slice::from_ref(key)].concat();
                if key == name {
                    found.push(here.clone());
                }
                match &node.value {
                    Value::Table(inner) => open.push((here, inner)),
                    Value::List(list) => open.extend(list.iter().enumerate().filter_map(|(place, node)| {
                        let Value::Table(inner) = &node.value else { return None };
                        Some(([&here[..], &[place.to_string()]].concat(), inner))
                    })),
                    _ => {}
                }
            }
        }
        match found.len() {
            1 => Ok(found.swap_remove(0)),
            0 => Err(match config::nearest(name, names) {
                Some(near) => format!("the spec has no \"{name}\"; did you mean \"{near}\"?"),
                None => format!("the spec has no \"{name}\"; a new value needs its whole path, such as server.login"),
            }),
            _ => {
                found.sort();
                let paths: Vec<String> = found.iter().map(|path| path.join(".")).collect();
                Err(format!("\"{name}\" occurs more than once; say which: {}", paths.join(", ")))
            }
        }
    }
}

/// A value from the command line: as in the file, or a text without quotes.
fn parse_value(written: &str) -> Value {
    let mut mistakes = Vec::new();
    match DeValue::parse(written) {
        Ok(value) => value_of(written, value.get_ref(), 0, &mut mistakes).filter(|_| mistakes.is_empty()),
        Err(_) => None,
    }
    .unwrap_or_else(|| Value::Text(written.to_owned()))
}

fn table_of(text: &str, table: &DeTable<'_>, depth: usize, mistakes: &mut Vec<Mistake>) -> Table {
    let mut read = Table::new();
    for (key, value) in table {
        if let Some(node) = node_of(text, key.span().start, value, depth, mistakes) {
            read.insert(key.get_ref().clone().into_owned(), node);
        }
    }
    read
}

fn node_of(
    text: &str,
    at: usize,
    value: &Spanned<DeValue<'_>>,
    depth: usize,
    mistakes: &mut Vec<Mistake>,
) -> Option<Node> {
    let line = line_of(text, at);
    if depth >= DEPTH_MAX {
        mistakes.push(Mistake { line, text: "tables and lists are nested too deeply".to_owned() });
        return None;
    }
    match value_of(text, value.get_ref(), depth, mistakes) {
        Some(value) => Some(Node { line, value }),
        None => {
            mistakes
                .push(Mistake { line, text: "neither a number, a text, true, false, a list nor a table".to_owned() });
            None
        }
    }
}

fn value_of(text: &str, value: &DeValue<'_>, depth: usize, mistakes: &mut Vec<Mistake>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(number) => {
            Value::Number(i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()? as f64)
        }
        DeValue::Float(number) => Value::Number(number.as_str().replace('_', "").parse().ok()?),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => return None,
        DeValue::Array(list) => Value::List(
            list.iter().filter_map(|value| node_of(text, value.span().start, value, depth + 1, mistakes)).collect(),
        ),
        DeValue::Table(table) => Value::Table(table_of(text, table, depth + 1, mistakes)),
    })
}

fn line_of(text: &str, at: usize) -> u32 {
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() as u32 + 1
}

/// A recorded day of arrivals is a file of its own.
const BYTES_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> SpecTree {
        SpecTree::parse("[server]\nlogin = \"5 ms\"\n[[databases]]\nname = \"a\"\n[[databases]]\nname = \"b\"\n")
            .expect("TOML")
    }

    #[test]
    fn a_value_is_replaced_by_its_path_or_by_its_name() {
        let mut tree = tree();
        for (path, value) in [("server.login", "7"), ("max_db_connections", "20"), ("databases.1.name", "c")] {
            assert_eq!(tree.set(path, value), Ok(()), "{path}");
        }
        assert_eq!((tree.changes.len(), tree.text.lines().count()), (3, 6));
        let Some(Value::Table(pooler)) = tree.root.get("pooler").map(|node| &node.value) else { panic!("no pooler") };
        assert_eq!(pooler.get("max_db_connections").map(|node| &node.value), Some(&Value::Number(20.0)));
        assert_eq!(tree.set("login", "\"9 ms\""), Ok(()));
    }

    #[test]
    fn a_path_that_leads_nowhere_is_told_with_what_is_near() {
        let mut tree = tree();
        assert!(tree.set("logn", "1").expect_err("none").contains("did you mean \"login\"?"));
        assert!(tree.set("name", "x").expect_err("two").contains("databases.0.name, databases.1.name"));
        assert!(tree.set("databases.7.name", "x").expect_err("none").contains("no \"7\""));
        assert!(tree.set("server.login.much", "x").expect_err("a text").contains("nothing in it"));
    }

    #[test]
    fn all_mistakes_of_the_language_are_told_with_their_lines() {
        let mistakes = SpecTree::parse("a = \nb = 1\nc = = 2\n").expect_err("no TOML");
        assert_eq!(mistakes.iter().map(|mistake| mistake.line).collect::<Vec<_>>(), [1, 3]);
        let deep = format!("a = {}{}", "[".repeat(40), "]".repeat(40));
        assert!(SpecTree::parse(&deep).is_err());
        assert!(SpecTree::parse(&"#".repeat(BYTES_MAX + 1)).is_err());
    }
}
