//! Identifies the statement of a text, whatever its values are: for `SHOW STATEMENTS`.
//!
//! Always true: the result has no value of the text in it, and is short; a text is read once, in linear time.
//! Not here: how a text is shown of which only the beginning is known (`shape`).

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};

use crate::lexer::{Dialect, Kind, Lexer, Token};

/// A statement without its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Normalized {
    /// The hash of the statement, equal for texts that differ only in their values, the lengths of lists of values,
    /// comments, blanks and the case of words.
    pub hash: u64,
    /// The statement, up to [`NORMALIZED_BYTES_MAX`] and an ellipsis.
    pub text: Box<str>,
    /// What its comment says about the sender.
    pub labels: Labels,
}

/// Keys that frameworks write into a comment before or behind a statement (sqlcommenter): `/*application='shop',route='%2Fcart'*/`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Labels {
    /// `application`; empty if it is missing.
    pub application: Box<str>,
    /// `route`; empty if it is missing.
    pub route: Box<str>,
    /// `traceparent`, as W3C Trace Context spells it; empty if it is missing.
    pub traceparent: Box<str>,
}

/// Reads a text. `None` if it has no token, or cannot be read to its end.
#[must_use]
pub fn normalize(text: &[u8], dialect: Dialect) -> Option<Normalized> {
    let mut pieces = Pieces { text, all: Vec::with_capacity(PIECES), group_end: 0, group_has_more: false };
    let (mut first, mut end) = (None, 0);
    for token in Lexer::new(text, dialect) {
        if token.kind == Kind::Broken {
            return None;
        }
        pieces.add(&token, token.range().start > end && first.is_some());
        first = first.or(Some(token.range().start));
        end = token.range().end;
    }
    let mut labels = Labels::default();
    labels.read(&text[..first?]);
    labels.read(&text[end..]);
    let (hash, text) = pieces.write();
    Some(Normalized { hash, text, labels })
}

/// A part of a statement without its values.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Whether a blank or a comment stands before it.
    is_apart: bool,
    what: What,
}

/// What it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// A value, or a parameter that stands for one.
    Value,
    /// More of what stands before it: values, or rows of values.
    More,
    /// A keyword or a name without quotes, by its start and end.
    Word(usize, usize),
    /// Another part of the text, by its start and end.
    Rest(usize, usize),
}

/// The parts of a statement, in which lists of values are folded.
struct Pieces<'t> {
    text: &'t [u8],
    all: Vec<Piece>,
    /// The number of pieces at the end of the last row of values, `(?, ...)`,
    group_end: usize,
    /// and whether that row had more than one value.
    group_has_more: bool,
}

impl Pieces<'_> {
    fn add(&mut self, token: &Token, is_apart: bool) {
        let range = token.range();
        match token.kind {
            Kind::Word => self.push(is_apart, What::Word(range.start, range.end)),
            Kind::Quoted | Kind::QuotedUnicode => self.push(is_apart, What::Rest(range.start, range.end)),
            Kind::Symbol => {
                self.push(is_apart, What::Rest(range.start, range.end));
                if self.text[range] == *b")" {
                    self.end_row();
                }
            }
            _ => self.add_value(is_apart),
        }
    }

    fn push(&mut self, is_apart: bool, what: What) {
        self.all.push(Piece { is_apart, what });
    }

    fn add_value(&mut self, mut is_apart: bool) {
        // A sign belongs to its number where nothing stands before it from which the number could be subtracted.
        let sign = self.all.last().filter(|_| self.is(1, b"-") || self.is(1, b"+")).copied();
        let follows_operator = matches!(self.what(2), Some(What::Rest(start, end)) if SIGN_BEHIND.contains(&self.text[end - 1]) && end - start < 3);
        if let Some(sign) = sign.filter(|_| follows_operator) {
            is_apart = sign.is_apart;
            self.all.pop();
        }
        if !self.is(1, b",") {
            self.push(is_apart, What::Value);
            return;
        }
        match self.what(2) {
            Some(What::More) => drop(self.all.pop()),
            Some(What::Value) => {
                self.all.pop();
                self.push(false, What::More);
            }
            _ => self.push(is_apart, What::Value),
        }
    }

    /// A parenthesis has been closed. If it ends a row of values that follows a row of the same kind, both become one.
    fn end_row(&mut self) {
        let has_more = self.what(2) == Some(What::More);
        let length = if has_more { 4 } else { 3 };
        let is_row = self.what(length - 1) == Some(What::Value) && self.is(length, b"(");
        if !is_row {
            return;
        }
        let begin = self.all.len() - length;
        let follows = self.is(length + 1, b",") && self.group_end + 1 == begin && self.group_has_more == has_more;
        if follows && self.group_end > 0 {
            self.all.truncate(self.group_end);
            if self.what(1) != Some(What::More) {
                self.push(false, What::More);
            }
        }
        (self.group_end, self.group_has_more) = (self.all.len(), has_more);
    }

    /// One of the last pieces; 1 is the last.
    fn what(&self, back: usize) -> Option<What> {
        Some(self.all[self.all.len().checked_sub(back)?].what)
    }

    fn is(&self, back: usize, symbol: &[u8]) -> bool {
        matches!(self.what(back), Some(What::Rest(start, end)) if self.text[start..end] == *symbol)
    }

    fn write(&self) -> (u64, Box<str>) {
        let (mut hasher, mut shown) =
            (DefaultHasher::new(), String::with_capacity(self.text.len().min(NORMALIZED_BYTES_MAX)));
        let mut is_cut = false;
        for piece in &self.all {
            let blank = if piece.is_apart { " " } else { "" };
            let words = match piece.what {
                What::Value => "?".into(),
                What::More => ", ...".into(),
                What::Word(start, end) => {
                    Cow::Owned(String::from_utf8_lossy(&self.text[start..end]).to_ascii_lowercase())
                }
                What::Rest(start, end) => String::from_utf8_lossy(&self.text[start..end]),
            };
            hasher.write(blank.as_bytes());
            hasher.write(words.as_bytes());
            is_cut |= shown.len() + blank.len() + words.len() > NORMALIZED_BYTES_MAX;
            if !is_cut {
                shown.push_str(blank);
                shown.push_str(&words);
            }
        }
        if is_cut {
            shown.push_str(" ...");
        }
        (hasher.finish(), shown.into())
    }
}

impl Labels {
    /// Reads the blanks and comments before or behind a statement.
    fn read(&mut self, blanks: &[u8]) {
        let blanks = &blanks[..blanks.len().min(COMMENT_BYTES_MAX)];
        let Some(begin) = blanks.windows(2).position(|two| two == b"/*") else { return };
        let comment = &blanks[begin + 2..];
        let Some(end) = comment.windows(2).position(|two| two == b"*/") else { return };
        let Ok(comment) = std::str::from_utf8(&comment[..end]) else { return };
        for pair in comment.split(',') {
            let Some((key, value)) = pair.trim().split_once('=') else { continue };
            let Some(value) = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')) else { continue };
            match key {
                "application" => self.application = label(value),
                "route" => self.route = label(value),
                "traceparent" => self.traceparent = label(value),
                _ => {}
            }
        }
    }
}

/// A value in a comment, in which `%2F` is a slash; short, and without control characters.
fn label(value: &str) -> Box<str> {
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next().filter(|_| bytes.len() < LABEL_BYTES_MAX) {
        let mut after = rest.clone();
        let escaped = match (byte, after.next(), after.next()) {
            (b'%', Some(high), Some(low)) => digit(high).zip(digit(low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(byte));
        if escaped.is_some() {
            rest = after;
        }
    }
    let shown: String = String::from_utf8_lossy(&bytes).chars().filter(|char| !char.is_control()).collect();
    shown.into()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Behind a symbol that ends with one of these, a sign belongs to its number.
const SIGN_BEHIND: &[u8] = b"(,[=<>+-*/%";
/// Most texts have no more pieces than this.
const PIECES: usize = 64;
/// How many bytes of a statement are shown.
pub const NORMALIZED_BYTES_MAX: usize = 500;
/// How many bytes of a comment are read.
const COMMENT_BYTES_MAX: usize = 1000;
/// How many bytes of a value in a comment are kept.
const LABEL_BYTES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        normalize(text.as_bytes(), Dialect::default()).map_or("none".into(), |it| it.text.into_string())
    }

    #[test]
    fn values_and_lists_of_values_are_folded() {
        for (sql, expected) in [
            ("SELECT * FROM t WHERE a = 1", "select * from t where a = ?"),
            ("select  *\nfrom t /* x */ where a = 'secret'", "select * from t where a = ?"),
            ("select $1", "select ?"),
            ("select * from t where a in (1, 2,3)", "select * from t where a in (?, ...)"),
            ("select * from t where a in (-1, +2)", "select * from t where a in (?, ...)"),
            ("select * from t where a in ($1,$2)", "select * from t where a in (?, ...)"),
            ("insert into t values (1, 'a'), (2, 'b'),(3,'c')", "insert into t values (?, ...), ..."),
            ("insert into t (a, b) values ($1, $2)", "insert into t (a, b) values (?, ...)"),
            ("insert into t values (1), (2), (3)", "insert into t values (?), ..."),
            ("insert into t values (1), (2, 3)", "insert into t values (?), (?, ...)"),
            ("select f(1), f(2)", "select f(?), f(?)"),
            ("select (1), 2", "select (?), ?"),
            ("select 5 - 1, a-1", "select ? - ?, a-?"),
            ("update t set a = a + -5 where b = -1", "update t set a = a + ? where b = ?"),
            ("select (1)-1, \"a(\" -1", "select (?)-?, \"a(\" -?"),
            ("select a, 1, b", "select a, ?, b"),
            ("select \"A b\" from T", "select \"A b\" from t"),
            ("select $$secret$$, E'x\\'secret', U&'s', B'1', 1.5e10", "select ?, ..."),
            ("select 1;", "select ?;"),
            ("", "none"),
            ("-- nothing", "none"),
            ("select 'secret", "none"),
            ("select 1 /* secret", "none"),
        ] {
            assert_eq!(text(sql), expected, "{sql}");
        }
    }

    #[test]
    fn the_same_statement_has_the_same_hash_and_another_has_another() {
        let hash = |text: &str| normalize(text.as_bytes(), Dialect::default()).expect("a statement").hash;
        assert_eq!(hash("select 1 from t"), hash("SELECT 'x'  from /* y */ T"));
        assert_ne!(hash("select 1 from t"), hash("select 1 from u"));
        let long = |end: &str| format!("select {} {end}", "a, ".repeat(1000));
        assert_ne!(hash(&long("b")), hash(&long("c")), "though the same is told of both");
    }

    #[test]
    fn what_is_told_is_short_however_long_the_text_is() {
        for sql in [
            format!("select {}", "a,".repeat(100_000)),
            "x".repeat(1_000_000),
            format!("select {}1", "(".repeat(100_000)),
        ] {
            let told = text(&sql);
            assert!(told.len() <= NORMALIZED_BYTES_MAX + 4 && told.ends_with(" ..."), "{told}");
        }
        let rows = format!("insert into t values {}(1, 2)", "(1, 2), ".repeat(100_000));
        assert_eq!(text(&rows), "insert into t values (?, ...), ...");
    }

    #[test]
    fn comments_tell_who_asks() {
        let labels = |text: &str| normalize(text.as_bytes(), Dialect::default()).expect("a statement").labels;
        let one = labels("select 1 /*application='shop',route='%2Fcart%20x',traceparent='00-aa-bb-01'*/;");
        assert_eq!(one, Labels::default(), "it stands in the middle");
        let one = labels("select 1 /*application='shop',db_driver='x',route='%2Fcart',traceparent='00-aa-bb-01'*/");
        assert_eq!((&*one.application, &*one.route, &*one.traceparent), ("shop", "/cart", "00-aa-bb-01"));
        let one = labels("/* application='a' , route='%zz%4' */ select 1");
        assert_eq!((&*one.application, &*one.route), ("a", "%zz%4"));
        let long = labels(&format!("select 1 /*route='{}%0a'*/", "x".repeat(500)));
        assert_eq!(long.route.len(), LABEL_BYTES_MAX);
        assert_eq!(&*labels("select 1 /*route='a%0a%1bb'*/").route, "ab");
        for nothing in ["select 1 /*route=a*/", "select 1 /*route='*/", "select '/*route=''a''*/'", "select 1 /*'='*/"]
        {
            assert_eq!(labels(nothing), Labels::default(), "{nothing}");
        }
    }
}
