//! What is asked: the built-in statement, or those of the operator.
//!
//! Always true: without the right to write each statement of an operator runs in a transaction that PostgreSQL keeps from writing, and it is one
//! statement only, so that it cannot end that transaction. The same seed asks the same.
//! Not here: when it is asked (`rig`), our own schema (`own_schema`).

use std::sync::Arc;

use route::lexer::{Dialect, Kind, Lexer};

use crate::load::Dice;

/// Statements that take turns.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Workload {
    templates: Vec<Template>,
    next: usize,
}

#[derive(Clone, PartialEq, Debug)]
enum Template {
    Fixed(Arc<str>),
    Random(Vec<Part>),
}

#[derive(Clone, PartialEq, Debug)]
enum Part {
    Text(String),
    /// A whole number from and to.
    Number(u32, u32),
}

impl Workload {
    /// What does nothing but answer.
    pub(crate) fn built_in() -> Self {
        Self { templates: vec![Template::Fixed("select 1".into())], next: 0 }
    }

    /// Updates one of the accounts of our own schema.
    pub(crate) fn own_writes(schema: &str, accounts: u32) -> Self {
        let text = format!("update {schema}.accounts set balance = balance + {{1..100}} where id = {{1..{accounts}}}");
        Self { templates: vec![template(&text)], next: 0 }
    }

    /// Statements of the operator.
    ///
    /// # Errors
    /// One of them is none, or more than one; its number is told, and not its text.
    pub(crate) fn of(statements: &[String], may_write: bool) -> Result<Self, String> {
        let mut templates = Vec::new();
        for (number, text) in statements.iter().enumerate() {
            let wrong = |what: &str| format!("statement {}: {what}", number + 1);
            let text = text.trim().trim_end_matches(';').trim_end();
            if text.is_empty() {
                return Err(wrong("it is empty"));
            }
            if text.contains('\0') || text.len() > TEXT_BYTES_MAX {
                return Err(wrong("it is too long, or has a zero byte"));
            }
            if may_write {
                templates.push(template(text));
                continue;
            }
            let template_of_text = text.replace(['{', '}'], " ");
            let is_one = Lexer::new(template_of_text.as_bytes(), Dialect::default())
                .all(|token| token.kind != Kind::Broken && &template_of_text.as_bytes()[token.range()] != b";");
            if !is_one {
                return Err(wrong("without --allow-writes it must be one statement"));
            }
            templates.push(template(&format!("{ONLY_READS}{text}")));
        }
        if templates.is_empty() {
            return Err("there is no statement".to_owned());
        }
        Ok(Self { templates, next: 0 })
    }

    /// The next statement.
    pub(crate) fn next(&mut self, dice: &mut Dice) -> Arc<str> {
        let template = &self.templates[self.next % self.templates.len()];
        self.next = (self.next + 1) % self.templates.len();
        match template {
            Template::Fixed(text) => text.clone(),
            Template::Random(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.clone(),
                    Part::Number(from, to) => (u64::from(*from) + u64::from(dice.below(to - from + 1))).to_string(),
                })
                .collect::<String>()
                .into(),
        }
    }
}

/// The statements of a file: one in each line; lines that begin with `--` are comments.
pub(crate) fn statements_of(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.map(str::to_owned).collect()
}

fn template(text: &str) -> Template {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, number, after)) = placeholder(rest) {
        parts.push(Part::Text(before.to_owned()));
        parts.push(number);
        rest = after;
    }
    match parts.is_empty() {
        true => Template::Fixed(text.into()),
        false => {
            parts.push(Part::Text(rest.to_owned()));
            Template::Random(parts)
        }
    }
}

/// The first `{1..1000}`, with what is before and after it.
fn placeholder(text: &str) -> Option<(&str, Part, &str)> {
    for (at, _) in text.match_indices('{') {
        let Some(end) = text[at..].find('}') else { break };
        let inner = &text[at + 1..at + end];
        let Some((from, to)) = inner.split_once("..") else { continue };
        if let (Ok(from), Ok(to)) = (from.trim().parse::<u32>(), to.trim().parse::<u32>())
            && from <= to
            && to - from < u32::MAX
        {
            return Some((&text[..at], Part::Number(from, to), &text[at + end + 1..]));
        }
    }
    None
}

/// In front of a statement, in one message with it: the transaction is that message.
const ONLY_READS: &str = "set transaction read only;";
const TEXT_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_and_statements_take_turns() {
        let statements = ["select {1..3}".to_owned(), "select '{a}' ;".to_owned()];
        let mut workload = Workload::of(&statements, true).expect("statements");
        let mut dice = Dice::new(1, 1);
        for _ in 0..50 {
            let text = workload.next(&mut dice);
            assert!(["select 1", "select 2", "select 3"].contains(&&*text), "{text}");
            assert_eq!(&*workload.next(&mut dice), "select '{a}'");
        }
    }

    #[test]
    fn without_the_right_to_write_a_statement_cannot_leave_its_transaction() {
        let of = |text: &str| Workload::of(&[text.to_owned()], false);
        let mut fine = of("select ';' /* ; */ from t where a = {1..9};").expect("one statement");
        assert!(fine.next(&mut Dice::new(1, 1)).starts_with("set transaction read only;select ';'"));
        for text in
            ["commit; delete from t", "select 1; drop table t", "select 'a", ";", "", "select {1..2};delete from t"]
        {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_has_a_statement_in_each_line() {
        assert_eq!(statements_of("-- mine\nselect 1;\n\n  select 2\n"), ["select 1;", "select 2"]);
    }
}
