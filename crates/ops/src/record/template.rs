//! A statement and its values apart: what is left of a text when its literals and bound parameters are taken out.
//!
//! Always true: with its values put back a template is the text again, but for comments and parameters, which become literals; a value is
//! in no part of a template. The time is linear in the text.
//! Not here: how values are spread (`spread`).

use route::Dialect;
use route::lexer::{Kind, Lexer};

/// A text in parts: between two of them stands a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Template(pub(super) Vec<String>);

/// A value as SQL writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Literal {
    Null,
    /// A number without its sign.
    Number(String),
    /// A string, without its quotes and escapes if it is a plain one.
    Text(String),
    /// Any other constant, as it was written.
    Other(String),
}

/// What a line says of a request: its text and the values of its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) parameters: Vec<Literal>,
}

impl Said {
    /// Reads what stands behind the sizes in a line: a text, and perhaps ` with $1 = 'a', $2 = NULL`. `None` if it was cut off, or has the
    /// parameters of several executions.
    pub(super) fn read(shown: &str) -> Option<Self> {
        if shown.ends_with("...") {
            return None;
        }
        // A text may contain the words by which its parameters begin: they are where the rest can be read to its end.
        let ends = shown.match_indices(PARAMETERS).map(|(at, _)| at).take(PLACES_TRIED);
        for at in ends {
            match parameters(&shown[at + PARAMETERS.len()..]) {
                Ending::Parameters(parameters) => return Some(Self { text: with_lines(&shown[..at]), parameters }),
                Ending::OfSeveral => return None,
                Ending::Text => {}
            }
        }
        Some(Self { text: with_lines(shown), parameters: Vec::new() })
    }

    /// Takes the values out. `None` if the text cannot be read.
    pub(super) fn apart(&self) -> Option<(Template, Vec<Literal>)> {
        let text = self.text.as_bytes();
        let (mut parts, mut values) = (vec![String::new()], Vec::new());
        let (mut end, mut is_behind_number) = (0, false);
        for token in Lexer::new(text, Dialect::default()) {
            let range = token.range();
            let part = parts.last_mut()?;
            // Comments may hold values; blanks say nothing.
            if range.start > end && end > 0 {
                part.push(' ');
            } else if range.start == end && token.kind == Kind::Word && is_behind_number {
                // `0xBEEF` before PostgreSQL 16 has a number and a word, which later is part of the number.
                return None;
            }
            is_behind_number = token.kind == Kind::Number;
            end = range.end;
            let written = self.text.get(range)?;
            let value = match token.kind {
                Kind::Broken => return None,
                Kind::Word | Kind::Quoted | Kind::QuotedUnicode | Kind::Symbol => {
                    part.push_str(written);
                    continue;
                }
                Kind::Number => Literal::Number(written.to_owned()),
                Kind::String => match written.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
                    Some(inner) => Literal::Text(inner.replace("''", "'")),
                    None => Literal::Other(written.to_owned()),
                },
                Kind::Parameter => {
                    let number: usize = written.get(1..)?.parse().ok()?;
                    match self.parameters.get(number.checked_sub(1)?) {
                        Some(value) => value.clone(),
                        None => return None,
                    }
                }
                Kind::Escaped | Kind::Unicode | Kind::Bits | Kind::Dollar => Literal::Other(written.to_owned()),
            };
            values.push(value);
            parts.push(String::new());
        }
        (end > 0).then_some((Template(parts), values))
    }
}

impl Literal {
    /// As SQL writes it.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Number(text) | Self::Other(text) => text.clone(),
            Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
        }
    }
}

/// What the words by which parameters begin are followed by.
enum Ending {
    /// Parameters, to the end of the line.
    Parameters(Vec<Literal>),
    /// The parameters of a Bind, and those of another one.
    OfSeveral,
    /// No parameters: they are part of a text.
    Text,
}

/// Reads `'a', $2 = \x01ff, $3 = NULL` to its end.
fn parameters(mut rest: &str) -> Ending {
    let mut values = Vec::new();
    loop {
        let Some((value, behind)) = parameter(rest) else { return Ending::Text };
        values.push(value);
        if behind.is_empty() {
            return Ending::Parameters(values);
        }
        if behind.starts_with(PARAMETERS) {
            return Ending::OfSeveral;
        }
        let next = format!(", ${} = ", values.len() + 1);
        let Some(behind) = behind.strip_prefix(&*next) else { return Ending::Text };
        rest = behind;
    }
}

fn parameter(rest: &str) -> Option<(Literal, &str)> {
    if let Some(behind) = rest.strip_prefix("NULL") {
        return Some((Literal::Null, behind));
    }
    if let Some(hex) = rest.strip_prefix("\\x") {
        let length = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        // What a binary value means depends on its type, which nobody tells.
        return Some((Literal::Other(format!("'\\x{}'", &hex[..length])), &hex[length..]));
    }
    let inner = rest.strip_prefix('\'')?;
    let bytes = inner.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\'' {
            if bytes.get(at + 1) != Some(&b'\'') {
                let text = inner[..at].replace("''", "'");
                return Some((Literal::Text(text), &inner[at + 1..]));
            }
            at += 1;
        }
        at += 1;
    }
    None
}

/// A line shows the end of a line as `\n`. Outside of quotes and comments a backslash is nothing else in SQL; within quotes it may be what it was. A
/// comment to the end of its line ends with it.
fn with_lines(shown: &str) -> String {
    let mut text = String::with_capacity(shown.len());
    let mut at = 0;
    while at < shown.len() {
        let rest = &shown[at..];
        let taken = quoted(rest, text.as_bytes()).unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
        let piece = &rest[..taken];
        if !piece.starts_with('\\') {
            text.push_str(piece);
            at += taken;
            continue;
        }
        let escaped = rest[1..].chars().next();
        text.push(if matches!(escaped, Some('n' | 'r')) { '\n' } else { ' ' });
        at += 1 + match escaped {
            Some('u') => rest[1..].find('}').map_or(1, |end| end + 1),
            Some(other) => other.len_utf8(),
            None => 0,
        };
    }
    text
}

/// How long the comment, string or quoted name is that begins here, as a line shows it; `None` if none does.
fn quoted(rest: &str, before: &[u8]) -> Option<usize> {
    let bytes = rest.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'$' || *byte >= 0x80;
    match bytes[0] {
        b'-' if bytes.get(1) == Some(&b'-') => {
            let ends = ["\\n", "\\r"].iter().filter_map(|end| rest.find(end)).min();
            Some(ends.unwrap_or(rest.len()))
        }
        b'/' if bytes.get(1) == Some(&b'*') => Some(comment(bytes)),
        b'"' => Some(string(bytes, false)),
        b'\'' => {
            let is_escape = matches!(before.last(), Some(b'e' | b'E'))
                && !before.len().checked_sub(2).is_some_and(|place| is_word(&before[place]));
            Some(string(bytes, is_escape))
        }
        b'$' if !before.last().is_some_and(is_word) => {
            let tag = bytes[1..].iter().position(|byte| *byte == b'$' || !is_word(byte))? + 1;
            let is_tag = bytes.get(tag) == Some(&b'$') && !bytes[1].is_ascii_digit();
            let tag = is_tag.then(|| &rest[..=tag])?;
            Some(rest[tag.len()..].find(tag).map_or(rest.len(), |end| end + 2 * tag.len()))
        }
        _ => None,
    }
}

/// The length of what stands between two quotes, with them.
fn string(bytes: &[u8], has_escapes: bool) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if has_escapes => at += 1,
            byte if byte == bytes[0] => {
                if bytes.get(at + 1) != Some(&bytes[0]) {
                    return at + 1;
                }
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The length of a comment, in which there may be others.
fn comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1_usize);
    while at < bytes.len() && depth > 0 {
        match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'*')) => (at, depth) = (at + 2, depth + 1),
            (b'*', Some(b'/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

const PARAMETERS: &str = " with $1 = ";
/// A hostile text could have the words in a thousand places, and each be read to its end.
const PLACES_TRIED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(shown: &str) -> (String, Vec<String>) {
        let (template, values) = Said::read(shown).and_then(|said| said.apart()).expect("a statement");
        (template.0.join("?"), values.iter().map(Literal::written).collect())
    }

    #[test]
    fn literals_are_taken_out_and_can_be_put_back() {
        let (shown, values) = apart("select * from t where id = 42 and name='it''s' /* 4711 */ and x = E'a\\'b'");
        assert_eq!(shown, "select * from t where id = ? and name=? and x = ?");
        assert_eq!(values, ["42", "'it''s'", "E'a\\'b'"]);
    }

    #[test]
    fn parameters_become_literals() {
        let (shown, values) = apart("select $1, $2, $1, $3 with $1 = 'it''s', $2 = \\x01ff, $3 = NULL");
        assert_eq!(shown, "select ?, ?, ?, ?");
        assert_eq!(values, ["'it''s'", "'\\x01ff'", "'it''s'", "NULL"]);
    }

    #[test]
    fn a_text_may_have_the_words_of_parameters_in_it() {
        let (shown, values) = apart("select ' with $1 = ', $1 with $1 = 'x'");
        assert_eq!((shown.as_str(), values.join(" ").as_str()), ("select ?, ?", "' with $1 = ' 'x'"));
        let (shown, values) = apart("select ' with $1 = '");
        assert_eq!((shown.as_str(), values.join(" ").as_str()), ("select ?", "' with $1 = '"));
    }

    #[test]
    fn lines_end_where_they_did() {
        let said = Said::read("select 1\\n  from t where a = '\\n'").expect("a statement");
        assert_eq!(said.text, "select 1\n  from t where a = '\\n'");
        assert_eq!(apart("select 1 -- 4711\\n, 2").0, "select ? , ?");
    }

    #[test]
    fn quotes_in_comments_open_nothing() {
        for (shown, text) in [
            ("delete from t -- don't keep\\n where id = 5", "delete from t where id = ?"),
            ("select 1 /* it's \" */\\n, 2", "select ? , ?"),
            ("select 1 -- don't\\n , 'x\\nsecret' -- can't\\n", "select ? , ?"),
            ("select E'it\\'s'\\n, 2", "select ? , ?"),
            ("select $$it's$$\\n, $a$ $$ ' $a$\\n, 3", "select ? , ? , ?"),
            ("select a$1, \"q'\"\\nfrom t", "select a$1, \"q'\" from t"),
            ("select 1\\u{b}+ 2", "select ? + ?"),
        ] {
            assert_eq!(apart(shown).0, text, "{shown}");
        }
    }

    #[test]
    fn several_executions_are_no_statement() {
        assert_eq!(Said::read("select $1 with $1 = 'a' with $1 = 'b'"), None);
    }

    #[test]
    fn a_number_that_only_some_versions_know_is_left_out() {
        assert_eq!(Said::read("select 0xDEADBEEF").and_then(|said| said.apart()), None);
    }

    #[test]
    fn what_was_cut_off_or_cannot_be_read_is_nothing() {
        assert_eq!(Said::read("select 'abc..."), None);
        for shown in ["select 'abc", "select $1", "select $2 with $1 = 'a'", ""] {
            assert_eq!(Said::read(shown).and_then(|said| said.apart()), None, "{shown}");
        }
    }

    /// Each place costs at most the rest of the line.
    #[test]
    fn a_line_full_of_beginnings_is_read_in_bounded_time() {
        let line = " with $1 = 'a".repeat(20_000);
        assert!(Said::read(&line).is_some_and(|said| said.parameters.is_empty()));
    }
}
