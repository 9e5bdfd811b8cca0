//! Splits a Rust file into code, comments, test code and paths for the checks.
//!
//! Always true: `code` and `comments` have the lines of the file; what belongs to the other of the two is blank, and
//! the inside of a literal is filled with quotes, so that a word in a string is never taken for code.
//! Not here: macros are not expanded and names are not resolved; a check that needs that belongs in a lint.

/// A file as the checks see it.
pub(super) struct Source {
    code: String,
    comments: String,
    is_test: Vec<bool>,
}

/// A path as written, with the braces of `use` expanded: `std::{fs, io::Read}` is `std::fs` and `std::io::Read`.
pub(super) struct CodePath<'a> {
    pub(super) line: usize,
    pub(super) words: Vec<&'a str>,
    pub(super) is_test: bool,
}

impl CodePath<'_> {
    /// Returns whether `wanted` (`time::Instant`) is part of this path, or may be imported by its `*`.
    pub(super) fn contains(&self, wanted: &str) -> bool {
        let wanted: Vec<&str> = wanted.split("::").collect();
        match self.words.split_last() {
            Some((&"*", before)) if !before.is_empty() => wanted.starts_with(&[before[before.len() - 1]]),
            _ => self.words.windows(wanted.len()).any(|window| window == wanted),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Token<'a> {
    Word(&'a str),
    PathMark,
    Sign(u8),
}

impl Source {
    /// `path` decides whether the whole file is a test.
    pub(super) fn read(path: &str, text: &str) -> Source {
        let (code, comments) = split(text);
        let is_test = test_lines(path, &code);
        Source { code, comments, is_test }
    }

    /// Returns the number of lines with code outside `#[cfg(test)]`. In a file of tests all code counts.
    pub(super) fn code_lines(&self) -> usize {
        let all_test = self.is_test.iter().all(|is_test| *is_test);
        let lines = self.code.lines().zip(&self.is_test);
        lines.filter(|(line, is_test)| (all_test || !**is_test) && !line.trim().is_empty()).count()
    }

    /// The comments, with their line numbers.
    pub(super) fn comment_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.comments.lines().enumerate().map(|(number, line)| (number + 1, line))
    }

    pub(super) fn is_test(&self, line: usize) -> bool {
        self.is_test.get(line - 1).copied().unwrap_or(false)
    }

    /// Returns whether the line above is a `#[cfg(feature = ..)]`.
    pub(super) fn has_feature_above(&self, line: usize) -> bool {
        let above = line.checked_sub(2).and_then(|above| self.code.lines().nth(above));
        above.is_some_and(|above| above.trim().starts_with("#[cfg(feature ="))
    }

    /// The words and signs of the code with their lines. A lifetime is not a word.
    pub(super) fn tokens(&self) -> Vec<(usize, Token<'_>)> {
        let (bytes, mut line, mut at, mut tokens) = (self.code.as_bytes(), 1, 0, Vec::new());
        while at < bytes.len() {
            let end = word_end(bytes, at);
            match bytes[at] {
                b'\n' => line += 1,
                b'\'' => at = word_end(bytes, at + 1).max(at + 1) - 1,
                b':' if bytes.get(at + 1) == Some(&b':') => {
                    tokens.push((line, Token::PathMark));
                    at += 1;
                }
                _ if end > at => {
                    tokens.push((line, Token::Word(&self.code[at..end])));
                    at = end - 1;
                }
                byte if !byte.is_ascii_whitespace() => tokens.push((line, Token::Sign(byte))),
                _ => {}
            }
            at += 1;
        }
        tokens
    }

    /// All paths of the code; a single word is a path too.
    pub(super) fn paths(&self) -> Vec<CodePath<'_>> {
        let (tokens, mut paths, mut at) = (self.tokens(), Vec::new(), 0);
        while at < tokens.len() {
            at = match tokens[at].1 {
                Token::Word(_) => take_paths(&tokens, at, &[], &mut paths),
                _ => at + 1,
            };
        }
        for path in &mut paths {
            path.is_test = self.is_test(path.line);
        }
        paths
    }
}

/// Reads one path tree that begins at `at`, and returns the index behind it.
fn take_paths<'a>(tokens: &[(usize, Token<'a>)], at: usize, prefix: &[&'a str], out: &mut Vec<CodePath<'a>>) -> usize {
    let (line, token) = tokens[at];
    let mut words = prefix.to_vec();
    match token {
        Token::Word(word) => {
            if word != "self" || prefix.is_empty() {
                words.push(word);
            }
            let goes_on = matches!(tokens.get(at + 1), Some((_, Token::PathMark)))
                && matches!(tokens.get(at + 2), Some((_, Token::Word(_) | Token::Sign(b'{' | b'*'))));
            if goes_on {
                return take_paths(tokens, at + 2, &words, out);
            }
            out.push(CodePath { line, words, is_test: false });
            at + 1
        }
        Token::Sign(b'{') => {
            let mut next = at + 1;
            while let Some((_, token)) = tokens.get(next) {
                next = match token {
                    Token::Sign(b'}') => return next + 1,
                    Token::Sign(b',') | Token::PathMark => next + 1,
                    _ => take_paths(tokens, next, prefix, out),
                };
            }
            next
        }
        Token::Sign(b'*') => {
            words.push("*");
            out.push(CodePath { line, words, is_test: false });
            at + 1
        }
        _ => at + 1,
    }
}

/// Splits a text into code and comments, both with the lines of the whole.
fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let (mut code, mut comments) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len()));
    let mut at = 0;
    while at < bytes.len() {
        let (end, what) = piece(bytes, at);
        for &byte in &bytes[at..end] {
            let blank = if byte == b'\n' { b'\n' } else { b' ' };
            let filled = if byte.is_ascii_whitespace() { blank } else { b'"' };
            code.push(match what {
                Piece::Code => byte,
                Piece::Comment => blank,
                Piece::Literal => filled,
            });
            comments.push(if what == Piece::Comment { byte } else { blank });
        }
        at = end;
    }
    (String::from_utf8_lossy(&code).into_owned(), String::from_utf8_lossy(&comments).into_owned())
}

#[derive(Clone, Copy, PartialEq)]
enum Piece {
    Code,
    Comment,
    Literal,
}

/// Returns the kind of the piece that begins at `at`, and its end.
fn piece(bytes: &[u8], at: usize) -> (usize, Piece) {
    let rest = &bytes[at..];
    let starts_word = at == 0 || !is_word(bytes[at - 1]);
    if rest.starts_with(b"//") {
        (at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()), Piece::Comment)
    } else if rest.starts_with(b"/*") {
        (at + block_comment(rest), Piece::Comment)
    } else if let Some(length) = starts_word.then(|| raw_string(rest)).flatten() {
        (at + length, Piece::Literal)
    } else if rest[0] == b'"' {
        (at + closed(rest, b'"'), Piece::Literal)
    } else if let Some(length) = char_literal(rest) {
        (at + length, Piece::Literal)
    } else {
        (at + 1, Piece::Code)
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < rest.len() && depth > 0 {
        let step = match &rest[at..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        at += step.0;
        depth += step.1;
    }
    at
}

/// Returns the length of `r"..."`, `r#"..."#`, `br"..."` or `cr"..."`, if one begins here.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = [&b"r"[..], b"br", b"cr"].into_iter().find(|prefix| rest.starts_with(prefix))?.len();
    let marks = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    if rest.get(prefix + marks) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'#'; marks + 1];
    end[0] = b'"';
    let body = prefix + marks + 1;
    let length = rest[body..].windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| body + length + end.len()))
}

/// Returns the length of a character literal, or None when the quote begins a lifetime.
fn char_literal(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'\'', b'\\', ..] => Some(closed(rest, b'\'')),
        [b'\'', first, ..] => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
        }
        _ => None,
    }
}

/// Returns the length of a literal that begins with its first byte and ends with `mark`.
fn closed(rest: &[u8], mark: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != mark {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Returns for each line whether it is test code.
fn test_lines(path: &str, code: &str) -> Vec<bool> {
    let mut lines = vec![is_test_file(path, code); code.lines().count()];
    let mut from = 0;
    while let Some(found) = code[from..].find(TEST_MARK) {
        let start = from + found;
        let end = start + TEST_MARK.len() + item_length(&code[start + TEST_MARK.len()..]);
        let (first, last) = (line_of(code, start), line_of(code, end));
        lines.iter_mut().take(last).skip(first - 1).for_each(|line| *line = true);
        from = end;
    }
    lines
}

/// A file of tests: `x_tests.rs`, or any file in a crate's folder `tests`.
fn is_test_file(path: &str, code: &str) -> bool {
    path.ends_with("_tests.rs") || path.contains("/tests/") || path.starts_with("tests/") || code.contains(TEST_INSIDE)
}

/// Returns the length of the item behind an attribute: to its `;`, or to its closing brace.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at,
            b'}' => depth -= 1,
            b';' if depth == 0 => return at,
            _ => {}
        }
    }
    code.len()
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    at + bytes.get(at..).map_or(0, |rest| rest.iter().take_while(|b| is_word(**b)).count())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

const TEST_MARK: &str = "#[cfg(test)]";
const TEST_INSIDE: &str = "#![cfg(test)]";

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        Source::read("crates/a/src/lib.rs", text).paths().iter().map(|path| path.words.join("::")).collect()
    }

    #[test]
    fn strings_and_comments_are_no_code() {
        let source = Source::read("a.rs", "let a = \"fs // no\"; // word\nlet b = r#\"x\"y\"#; /* c /* d */ e */ f\n");
        assert!(
            !["fs", "no", "word", "x", "d", "e"]
                .iter()
                .any(|word| source.tokens().iter().any(|t| t.1 == Token::Word(word)))
        );
        assert!(source.code.contains("let b") && source.code.ends_with("f\n"));
        assert!(source.comments.contains("// word") && source.comments.contains("/* c /* d */ e */"));
    }

    #[test]
    fn a_quote_in_a_character_opens_no_string() {
        let source = Source::read("a.rs", "if c == '\"' || c == '\\'' { go::<'static>(\"x\") }");
        assert!(source.code.contains("go"));
        assert!(!source.tokens().iter().any(|(_, token)| *token == Token::Word("static")));
    }

    #[test]
    fn the_braces_of_use_are_taken_apart() {
        let found = paths("use std::{\n fs::{self, File as F}, io::*,\n};\nx::y::<z::Q>();");
        for wanted in ["std::fs", "std::fs::File", "std::io::*", "x::y", "z::Q"] {
            assert!(found.iter().any(|path| path == wanted), "{wanted} is missing in {found:?}");
        }
    }

    #[test]
    fn a_star_may_bring_what_is_looked_for() {
        let source = Source::read("a.rs", "use std::time::*;");
        assert!(source.paths().iter().any(|path| path.contains("time::Instant")));
        assert!(!source.paths().iter().any(|path| path.contains("thread::sleep")));
    }

    #[test]
    fn lines_are_counted_without_blanks_comments_and_tests() {
        let text = "//! Words.\n\nfn a() {\n    // why\n    b();\n}\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\nfn d() {}\n";
        assert_eq!(Source::read("crates/a/src/a.rs", text).code_lines(), 4);
    }

    #[test]
    fn a_test_module_in_its_own_file_ends_with_its_semicolon() {
        let source = Source::read("crates/a/src/a.rs", "#[cfg(test)]\nmod a_tests;\nfn a() {}\n");
        assert!(source.is_test(2) && !source.is_test(3));
    }

    #[test]
    fn a_file_of_tests_counts_all_its_code() {
        assert_eq!(Source::read("crates/a/src/a_tests.rs", "fn a() {}\n\nfn b() {}\n").code_lines(), 2);
    }
}
