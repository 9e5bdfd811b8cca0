//! Which tables a statement names.
//!
//! Always true: what is not understood for sure is unknown; a name of the statement's own (`with`), a function and an alias are no tables. A name is
//! as the catalog has it.
//! Not here: what a view or a function does inside; the catalog (`attribution`).

use std::collections::BTreeSet;

use route::lexer::{Dialect, Kind, Lexer, Token, unquote};

/// A table as a statement names it: perhaps a schema, and a name.
pub(crate) type Named = (Option<String>, String);

/// The tables that a statement reads or changes; `None` if that is not known.
pub(crate) fn relations(text: &str) -> Option<BTreeSet<Named>> {
    let tokens: Vec<Token> = Lexer::new(text.as_bytes(), Dialect::default()).take(TOKENS_MAX + 1).collect();
    if tokens.len() > TOKENS_MAX || tokens.iter().any(|token| token.kind == Kind::Broken) {
        return None;
    }
    let reader = Reader { text, tokens };
    if !reader.is_one_of(0, &["select", "insert", "update", "delete", "merge", "with", "table", "("]) {
        return None;
    }
    reader.read()
}

struct Reader<'t> {
    text: &'t str,
    tokens: Vec<Token>,
}

/// A pair of parentheses that is open.
struct Open {
    /// Whether `from` within it belongs to a function such as `extract`.
    is_of_function: bool,
    /// Whether a list of tables goes on behind a comma.
    is_listing: bool,
}

impl Reader<'_> {
    fn read(&self) -> Option<BTreeSet<Named>> {
        let mut found = BTreeSet::new();
        let mut own = BTreeSet::new();
        let mut open = vec![Open { is_of_function: false, is_listing: false }];
        let mut at = 0;
        while at < self.tokens.len() {
            let word = self.word(at);
            let level = open.last_mut()?;
            let is_table_next = match word.as_str() {
                "(" => {
                    let is_of_function = at > 0 && self.is_one_of(at - 1, &FROM_WITHIN);
                    open.push(Open { is_of_function, is_listing: false });
                    at += 1;
                    continue;
                }
                ")" => {
                    open.pop();
                    // More are closed than were opened.
                    open.last()?;
                    at += 1;
                    continue;
                }
                ";" if at + 1 < self.tokens.len() => return None,
                "select" => {
                    level.is_of_function = false;
                    level.is_listing = false;
                    false
                }
                "from" => {
                    let is_comparison = at > 0 && self.is_one_of(at - 1, &["distinct"]) && self.is_compared(at - 1);
                    level.is_listing = !level.is_of_function && !is_comparison;
                    level.is_listing
                }
                "using" => level.is_listing && !self.is_one_of(at + 1, &["("]),
                "join" | "into" => true,
                "table" => at == 0,
                "update" => at == 0 || self.is_one_of(at - 1, &["(", ")"]),
                "," => level.is_listing,
                "with" if at == 0 || self.is_one_of(at - 1, &["("]) => {
                    self.own_names(at, &mut own);
                    false
                }
                "where" | "group" | "order" | "having" | "limit" | "set" | "values" | "returning" | "on" | "window"
                | "union" | "except" | "intersect" | "for" | "offset" | "fetch" => {
                    // Behind `on` the list may go on.
                    level.is_listing &= word == "on";
                    false
                }
                _ => false,
            };
            at += 1;
            if !is_table_next {
                continue;
            }
            while self.is_one_of(at, &["only", "lateral"]) {
                at += 1;
            }
            if self.is_one_of(at, &["("]) {
                continue;
            }
            let (name, next) = self.name(at)?;
            // A function; what it does inside nobody knows, but its name is no table's. `insert into t (a, b)` has a list of columns.
            let is_function = self.is_one_of(next, &["("]) && word != "into";
            if !is_function {
                found.insert(name);
            }
            at = next;
        }
        found.retain(|(schema, name)| schema.is_some() || !own.contains(name));
        Some(found)
    }

    /// `is distinct from`, `is not distinct from`.
    fn is_compared(&self, at: usize) -> bool {
        at > 0
            && (self.is_one_of(at - 1, &["is"])
                || at > 1 && self.is_one_of(at - 1, &["not"]) && self.is_one_of(at - 2, &["is"]))
    }

    /// The names behind `with`: `with a as (...), b (x, y) as materialized (...)`.
    fn own_names(&self, with: usize, own: &mut BTreeSet<String>) {
        let mut depth = 0;
        let mut is_name_next = true;
        for at in with + 1..self.tokens.len() {
            match self.word(at).as_str() {
                "(" => depth += 1,
                ")" if depth == 0 => return,
                ")" => depth -= 1,
                "recursive" if is_name_next => {}
                "," if depth == 0 => is_name_next = true,
                "select" | "insert" | "update" | "delete" | "merge" if depth == 0 => return,
                _ if is_name_next && depth == 0 => {
                    own.extend(self.part(at));
                    is_name_next = false;
                }
                _ => {}
            }
        }
    }

    /// A name with up to two parts, and the place behind it.
    fn name(&self, at: usize) -> Option<(Named, usize)> {
        let first = self.part(at)?;
        if !self.is_one_of(at + 1, &["."]) {
            return Some(((None, first), at + 1));
        }
        let second = self.part(at + 2)?;
        // With a database in front it is rare enough to be left unknown.
        if self.is_one_of(at + 3, &["."]) { None } else { Some(((Some(first), second), at + 3)) }
    }

    fn part(&self, at: usize) -> Option<String> {
        let token = self.tokens.get(at)?;
        let is_name = matches!(token.kind, Kind::Word | Kind::Quoted);
        let text = unquote(token.kind, &self.text.as_bytes()[token.range()], Dialect::default().encoding)
            .filter(|_| is_name)?;
        String::from_utf8(text).ok()
    }

    /// A word in lower case, or a symbol; empty for names in quotes and for values.
    fn word(&self, at: usize) -> String {
        match self.tokens.get(at) {
            Some(token) if matches!(token.kind, Kind::Word | Kind::Symbol) => {
                self.text[token.range()].to_ascii_lowercase()
            }
            _ => String::new(),
        }
    }

    fn is_one_of(&self, at: usize, words: &[&str]) -> bool {
        at < self.tokens.len() && words.contains(&&*self.word(at))
    }
}

/// Functions with a `from` of their own.
const FROM_WITHIN: [&str; 4] = ["extract", "substring", "trim", "overlay"];
const TOKENS_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Option<Vec<String>> {
        let of = |(schema, name): Named| schema.map_or(name.clone(), |schema| format!("{schema}.{name}"));
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        relations(text).map(|found| sorted(found.into_iter().map(of).collect()))
    }

    #[test]
    fn tables_are_found_wherever_they_stand() {
        for (text, wanted) in [
            ("select * from a, only B as x, \"C d\" where a.id = $1", &["C d", "a", "b"][..]),
            ("select 1 from a join s.b on a.x = b.y left join (select * from c) q on true", &["a", "c", "s.b"]),
            (
                "insert into t (a, b) select x, y from u where z > $1 on conflict (a) do update set b = excluded.b",
                &["t", "u"],
            ),
            ("update t set a = $1 from u where t.id = u.id returning *", &["t", "u"]),
            ("delete from only t using u where t.id = u.id", &["t", "u"]),
            ("select * from a where exists (select from b where b.i = a.i) for update", &["a", "b"]),
            ("with q as (select * from a), r (x) as (select * from q) update b set c = r.x from r", &["a", "b"]),
            ("with recursive q as (select 1 union all select n + 1 from q) select * from q join t using (n)", &["t"]),
            ("select * from a natural join b order by 1 limit $1", &["a", "b"]),
            ("(select * from a) union (select * from b)", &["a", "b"]),
            ("table t", &["t"]),
            ("merge into t using u on t.i = u.i when matched then update set a = $1", &["t"]),
            ("select $1 + $2", &[]),
            ("select * from generate_series($1, $2) g, a", &["a"]),
        ] {
            assert_eq!(
                names(text).as_deref(),
                Some(&wanted.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()[..]),
                "{text}"
            );
        }
    }

    #[test]
    fn a_from_that_names_no_table_is_not_one() {
        for text in [
            "select extract(year from birthday), substring(name from $1), trim(both from name) from people",
            "select * from people where a is distinct from b and c is not distinct from d",
            "select 'from nowhere', \"from\" from people -- from comment",
        ] {
            assert_eq!(names(text), Some(vec!["people".to_owned()]), "{text}");
        }
        assert_eq!(
            names("select overlay(a placing b from (select c from d)) from e"),
            Some(vec!["d".to_owned(), "e".to_owned()])
        );
    }

    #[test]
    fn what_is_not_understood_is_unknown() {
        for text in [
            "copy t from stdin",
            "call p()",
            "select 'open",
            "select 1; select 2",
            "select 1)",
            "select * from a.b.c",
            "",
            "vacuum t",
        ] {
            assert_eq!(names(text), None, "{text}");
        }
    }
}
