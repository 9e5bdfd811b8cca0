//! SQL text as tokens, with PostgreSQL's own rules (`parser/scan.l`).
//!
//! Always true: tokens come in order and do not overlap; only blanks and comments stand between two of them; a quote is
//! never ended by a byte that only looks like its end, in any encoding that a client may use. What cannot be read, or may
//! be read in two ways, is [`Kind::Broken`].
//! Not here: what a statement does (`classify`).

use std::ops::Range;

/// What decides how a text is read: settings of the connection that sends it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Dialect {
    /// How long a character is.
    pub encoding: Encoding,
    /// Whether a backslash in `'...'` is an escape: `standard_conforming_strings = off`.
    pub backslashes: bool,
}

/// The encodings in which a byte below 0x80 may be part of a longer character. Servers cannot use them, clients can
/// (`mb/pg_wchar.h`, `PG_ENCODING_BE_LAST`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Encoding {
    /// No such byte: UTF8, the ISO and Windows code pages, EUC.
    #[default]
    Safe,
    /// SJIS, `SHIFT_JIS_2004`: a byte from 0x80 on that is no half-width kana begins a character of two bytes.
    Sjis,
    /// BIG5, GBK, UHC: every byte from 0x80 on begins a character of two bytes. (JOHAB could, but PostgreSQL refuses a
    /// byte below 0x80 there.)
    Pairs,
    /// GB18030: two bytes, or four where the second is a digit.
    Gb18030,
}

impl Encoding {
    /// The encoding by the name of a `client_encoding`, in any spelling that PostgreSQL accepts.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        match letters.to_ascii_lowercase().as_str() {
            "sjis" | "shiftjis" | "mskanji" | "win932" | "windows932" | "shiftjis2004" => Self::Sjis,
            "big5" | "win950" | "windows950" | "gbk" | "win936" | "windows936" | "uhc" | "win949" | "windows949" => {
                Self::Pairs
            }
            "gb18030" => Self::Gb18030,
            _ => Self::Safe,
        }
    }

    /// How many bytes the character that begins here has; at least 1.
    #[inline]
    fn length(self, bytes: &[u8]) -> usize {
        if self == Self::Safe { 1 } else { self.length_of_pair(bytes) }
    }

    fn length_of_pair(self, bytes: &[u8]) -> usize {
        self.wanted(bytes).min(bytes.len())
    }

    /// How many bytes it has, though fewer may be there. A character of which only the first byte is there has 2, or 4.
    pub(crate) fn wanted(self, bytes: &[u8]) -> usize {
        let first = bytes[0];
        match self {
            Self::Safe => 1,
            _ if first < 0x80 => 1,
            Self::Sjis if (0xa1..=0xdf).contains(&first) => 1,
            Self::Gb18030 if bytes.get(1).is_some_and(u8::is_ascii_digit) => 4,
            Self::Sjis | Self::Pairs | Self::Gb18030 => 2,
        }
    }
}

/// One token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it stands in the text, with its quotes.
    start: u32,
    end: u32,
}

impl Token {
    /// Where it stands in the text, with its quotes.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in double quotes.
    Quoted,
    /// A name in double quotes with Unicode escapes: `U&"..."`.
    QuotedUnicode,
    /// A string in single quotes in which a backslash is no escape: `'...'`, `N'...'`.
    String,
    /// A string with C escapes: `E'...'`, and `'...'` where backslashes are escapes.
    Escaped,
    /// A string with Unicode escapes: `U&'...'`.
    Unicode,
    /// A string of bits: `B'...'`, `X'...'`.
    Bits,
    /// A dollar-quoted string.
    Dollar,
    /// A number without its sign.
    Number,
    /// `$1`.
    Parameter,
    /// One of `, ( ) [ ] . ; :`, or a sequence of operator characters.
    Symbol,
    /// From here on nothing can be read.
    Broken,
}

/// The tokens of a text, one after the other.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    dialect: Dialect,
}

impl<'a> Lexer<'a> {
    /// At the beginning of a text, which has no zero byte, and is no longer than a message can be.
    #[must_use]
    pub fn new(text: &'a [u8], dialect: Dialect) -> Self {
        Self { text, at: 0, dialect }
    }

    /// At a later place where a token begins.
    pub(crate) fn at(text: &'a [u8], at: usize, dialect: Dialect) -> Self {
        Self { text, at, dialect }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips blanks and comments; an error where a comment does not end.
    fn skip_blanks(&mut self) -> Result<(), ()> {
        loop {
            match self.peek(0) {
                byte if KINDS[byte as usize] & BLANK != 0 => self.at += 1,
                b'-' if self.peek(1) == b'-' => self.skip_line(),
                b'/' if self.peek(1) == b'*' => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        while self.at < self.text.len() && !matches!(self.peek(0), b'\n' | b'\r') {
            self.at += self.dialect.encoding.length(&self.text[self.at..]);
        }
    }

    fn skip_comment(&mut self) -> Result<(), ()> {
        let mut depth = 0_u32;
        while self.at < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += self.dialect.encoding.length(&self.text[self.at..]),
            }
        }
        Err(())
    }

    /// Skips to behind the closing quote; with `escapes` a backslash includes the next character.
    fn quoted(&mut self, quote: u8, escapes: bool) -> Result<(), ()> {
        while self.at < self.text.len() {
            if self.dialect.encoding == Encoding::Safe {
                let rest = &self.text[self.at..];
                let is_special = |&byte: &u8| byte == quote || byte == b'\\' && escapes;
                self.at += rest.iter().position(is_special).unwrap_or(rest.len());
                if self.at == self.text.len() {
                    return Err(());
                }
            }
            let byte = self.peek(0);
            if byte == quote {
                if self.peek(1) == quote {
                    self.at += 2;
                    continue;
                }
                self.at += 1;
                return Ok(());
            }
            if byte == b'\\' && escapes {
                self.at += 1;
                if self.at == self.text.len() {
                    return Err(());
                }
            }
            self.at += self.dialect.encoding.length(&self.text[self.at..]);
        }
        Err(())
    }

    /// Skips a string, and its continuations on later lines.
    fn string(&mut self, escapes: bool) -> Result<(), ()> {
        loop {
            self.quoted(b'\'', escapes)?;
            let end = self.at;
            if !self.string_continues() {
                self.at = end;
                return Ok(());
            }
        }
    }

    /// Whether the next quote continues the string that has just ended: between them are only blanks with a line break,
    /// and comments of the kind that ends with a line (`quotecontinue`).
    fn string_continues(&mut self) -> bool {
        let mut has_line_end = false;
        loop {
            match self.peek(0) {
                b'\n' | b'\r' => {
                    has_line_end = true;
                    self.at += 1;
                }
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                b'-' if self.peek(1) == b'-' => self.skip_line(),
                b'\'' if has_line_end => {
                    self.at += 1;
                    return true;
                }
                _ => return false,
            }
        }
    }

    fn word(&mut self) {
        if self.dialect.encoding == Encoding::Safe {
            let rest = &self.text[self.at..];
            self.at += rest.iter().position(|&byte| !is_of_word(byte)).unwrap_or(rest.len());
            return;
        }
        while self.at < self.text.len() && is_of_word(self.peek(0)) {
            self.at += self.dialect.encoding.length(&self.text[self.at..]);
        }
    }

    fn number(&mut self) {
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_ascii_digit() || lexer.peek(0) == b'_' && lexer.peek(1).is_ascii_digit() {
                lexer.at += 1;
            }
        };
        digits(self);
        // `1..10` is a range in PL/pgSQL.
        if self.peek(0) == b'.' && self.peek(1) != b'.' {
            self.at += 1;
            digits(self);
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                digits(self);
            }
        }
    }

    /// Reads a token that begins with a dollar: a parameter, a string, or a symbol without a meaning.
    fn dollar(&mut self) -> Kind {
        let rest = &self.text[self.at..];
        if self.peek(1).is_ascii_digit() {
            self.at += 1;
            while self.peek(0).is_ascii_digit() {
                self.at += 1;
            }
            return Kind::Parameter;
        }
        let Some(tag) = dollar_tag(rest) else {
            self.at += 1;
            return Kind::Symbol;
        };
        let begin = self.at + tag;
        match find(&self.text[begin..], &rest[..tag], self.dialect.encoding) {
            Some(end) => {
                self.at = begin + end + tag;
                Kind::Dollar
            }
            None => Kind::Broken,
        }
    }

    fn operator(&mut self) {
        while is_operator(self.peek(0)) && self.at < self.text.len() {
            if matches!((self.peek(0), self.peek(1)), (b'-', b'-') | (b'/', b'*')) {
                return;
            }
            self.at += 1;
        }
    }

    fn prefixed(&mut self, prefix: usize, kind: Kind) -> Kind {
        self.at += prefix + 1;
        let read = match kind {
            Kind::Quoted | Kind::QuotedUnicode => self.quoted(b'"', false),
            Kind::Escaped => self.string(true),
            _ => self.string(false),
        };
        if read.is_ok() { kind } else { Kind::Broken }
    }

    fn token(&mut self) -> Kind {
        let plain = if self.dialect.backslashes { Kind::Escaped } else { Kind::String };
        match (self.peek(0), self.peek(1)) {
            (b'\'', _) => self.prefixed(0, plain),
            (b'"', _) => self.prefixed(0, Kind::Quoted),
            (b'e' | b'E', b'\'') => self.prefixed(1, Kind::Escaped),
            (b'b' | b'B' | b'x' | b'X', b'\'') => self.prefixed(1, Kind::Bits),
            // PostgreSQL's scanner returns the word NCHAR and a string; the difference does not matter here.
            (b'n' | b'N', b'\'') => self.prefixed(1, plain),
            (b'u' | b'U', b'&') if self.peek(2) == b'\'' => {
                // Where backslashes are escapes, PostgreSQL refuses it.
                if self.dialect.backslashes { Kind::Broken } else { self.prefixed(2, Kind::Unicode) }
            }
            (b'u' | b'U', b'&') if self.peek(2) == b'"' => self.prefixed(2, Kind::QuotedUnicode),
            (b'$', _) => self.dollar(),
            (b'.', b'.') => {
                self.at += 2;
                Kind::Symbol
            }
            (b'.', b'0'..=b'9') | (b'0'..=b'9', _) => {
                self.number();
                Kind::Number
            }
            (byte, _) if is_of_word(byte) => {
                self.word();
                Kind::Word
            }
            (byte, _) if is_operator(byte) => {
                self.operator();
                Kind::Symbol
            }
            _ => {
                self.at += 1;
                Kind::Symbol
            }
        }
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    #[inline]
    fn next(&mut self) -> Option<Token> {
        let (text, mut at) = (self.text, self.at);
        while at < text.len() && KINDS[text[at] as usize] & BLANK != 0 {
            at += 1;
        }
        self.at = at;
        // Nearly every token is a word without a quote behind its first letter, a symbol of one byte, or a number of digits.
        let kind = text.get(at).map_or(0, |&byte| KINDS[byte as usize]);
        if kind & LETTER != 0
            && self.dialect.encoding == Encoding::Safe
            && (kind & PREFIX == 0 || !matches!(text.get(at + 1), Some(b'\'' | b'&')))
        {
            while at < text.len() && is_of_word(text[at]) {
                at += 1;
            }
            return Some(self.ends(Kind::Word, at));
        }
        let next = text.get(at + 1).map_or(BLANK, |&byte| KINDS[byte as usize]);
        let is_symbol =
            kind & ALONE != 0 || kind & OPERATOR != 0 && next & OPERATOR == 0 || kind & DOT != 0 && next & LETTER != 0;
        if is_symbol {
            return Some(self.ends(Kind::Symbol, at + 1));
        }
        if kind & DIGIT != 0 {
            at += text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !matches!(text.get(at), Some(b'.' | b'e' | b'E' | b'_')) {
                return Some(self.ends(Kind::Number, at));
            }
        }
        self.any()
    }
}

impl Lexer<'_> {
    fn ends(&mut self, kind: Kind, at: usize) -> Token {
        let start = std::mem::replace(&mut self.at, at);
        Token { kind, start: start as u32, end: at as u32 }
    }

    /// The next token, whatever it is.
    fn any(&mut self) -> Option<Token> {
        let before = self.at;
        if self.skip_blanks().is_err() {
            self.at = before;
            return Some(self.ends(Kind::Broken, self.text.len()));
        }
        if self.at >= self.text.len() {
            return None;
        }
        let start = self.at;
        let kind = self.token();
        let end = if kind == Kind::Broken { self.text.len() } else { self.at };
        self.at = start;
        Some(self.ends(kind, end))
    }
}

/// Returns the meaning of a name or string, without its quotes, prefix and escapes: a name in lower case, unless it is
/// quoted. `None` for a notation that is rare and hard to read, where the server had better be asked.
#[must_use]
pub fn unquote(kind: Kind, token: &[u8], encoding: Encoding) -> Option<Vec<u8>> {
    if encoding != Encoding::Safe && !token.is_ascii() {
        return None;
    }
    match kind {
        Kind::Word => Some(token.to_ascii_lowercase()),
        Kind::Quoted => undouble(token.get(1..token.len() - 1)?, b'"', false),
        Kind::Dollar => {
            let tag = dollar_tag(token)?;
            Some(token.get(tag..token.len() - tag)?.to_vec())
        }
        Kind::String | Kind::Escaped => {
            let quote = token.iter().position(|&byte| byte == b'\'')?;
            undouble(token.get(quote + 1..token.len() - 1)?, b'\'', kind == Kind::Escaped)
        }
        _ => None,
    }
}

/// Returns the text between two quotes; `None` where it continues on another line, or has escapes that give bytes in digits.
fn undouble(inner: &[u8], quote: u8, escapes: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            _ if byte == quote => {
                bytes.next().filter(|&next| next == quote)?;
                quote
            }
            b'\\' if escapes => match bytes.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 8,
                b'f' => 12,
                b'0'..=b'7' | b'x' | b'u' | b'U' => return None,
                other => other,
            },
            _ => byte,
        });
    }
    Some(out)
}

/// The length of the opening `$tag$`, if one begins here.
pub(crate) fn dollar_tag(bytes: &[u8]) -> Option<usize> {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80;
    let end = 1 + bytes.get(1..)?.iter().position(|&byte| byte == b'$')?;
    let tag = &bytes[1..end];
    let is_tag = tag.first().is_none_or(|&byte| is_first(byte))
        && tag.iter().all(|&byte| is_first(byte) || byte.is_ascii_digit());
    is_tag.then_some(end + 1)
}

/// The next position of `tag` at the beginning of a character.
fn find(bytes: &[u8], tag: &[u8], encoding: Encoding) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'$' && bytes[at..].starts_with(tag) {
            return Some(at);
        }
        at += encoding.length(&bytes[at..]);
    }
    None
}

#[inline]
fn is_operator(byte: u8) -> bool {
    KINDS[byte as usize] & OPERATOR != 0
}

/// Whether a word may continue with this byte.
#[inline]
pub(crate) fn is_of_word(byte: u8) -> bool {
    KINDS[byte as usize] & WORD != 0
}

/// What each byte may be part of.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'b' | b'e' | b'n' | b'u' | b'x' | b'B' | b'E' | b'N' | b'U' | b'X' => WORD | LETTER | PREFIX,
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80.. => WORD | LETTER,
            b'0'..=b'9' => WORD | DIGIT,
            b'$' => WORD,
            b'.' => DOT,
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => BLANK,
            b',' | b'(' | b')' | b';' | b'[' | b']' => ALONE,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'+' | b'-' | b'*' | b'/' | b'%' => OPERATOR,
            b'<' | b'>' | b'=' => OPERATOR,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};
const WORD: u8 = 1;
const OPERATOR: u8 = 2;
/// A word may begin with it.
const LETTER: u8 = 4;
/// With a quote behind it, it begins a string.
const PREFIX: u8 = 32;
const BLANK: u8 = 8;
/// It is a token by itself, whatever follows.
const ALONE: u8 = 16;
const DIGIT: u8 = 64;
const DOT: u8 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(Kind, String)> {
        tokens_in(text.as_bytes(), Dialect::default())
    }

    fn tokens_in(text: &[u8], dialect: Dialect) -> Vec<(Kind, String)> {
        let lexer = Lexer::new(text, dialect);
        lexer.map(|token| (token.kind, String::from_utf8_lossy(&text[token.range()]).into_owned())).collect()
    }

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).into_iter().map(|(kind, _)| kind).collect()
    }

    /// The tokens that are read without looking at every rule are those that the rules give.
    #[test]
    fn frequent_tokens_are_read_like_others() {
        let alphabet = b"ab eEuUxn019._$-+*/='\"&(;\n\x80\\";
        let mut random = 1_u64;
        for round in 0..100_000 {
            let mut next = || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as usize
            };
            let text: Vec<u8> = (0..next() % 12).map(|_| alphabet[next() % alphabet.len()]).collect();
            let dialect = Dialect { backslashes: round % 3 == 0, ..Dialect::default() };
            let mut by_rules = Lexer::new(&text, dialect);
            // What cannot be read begins with the blanks before it, or not.
            let plain = |token: Token| (token.kind, (token.kind != Kind::Broken).then_some(token.start), token.end);
            let expected: Vec<_> = std::iter::from_fn(|| by_rules.any()).map(plain).collect();
            let found: Vec<_> = Lexer::new(&text, dialect).map(plain).collect();
            assert_eq!(found, expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn blanks_and_comments_are_nothing() {
        assert_eq!(kinds(" \t\r\n\u{b}\u{c} -- one\n/* two /* nested */ still */ -- three"), []);
        assert_eq!(tokens("a/*'*/b"), [(Kind::Word, "a".into()), (Kind::Word, "b".into())]);
        assert_eq!(kinds("/* never /* ended */"), [Kind::Broken]);
        // A comment may begin in the middle of what would be an operator.
        assert_eq!(tokens("1 +/* x */2").len(), 3);
        assert_eq!(tokens("1 <--x\n2").len(), 3);
    }

    #[test]
    fn strings_end_where_postgres_says() {
        assert_eq!(tokens(r"'a''b' c"), [(Kind::String, "'a''b'".into()), (Kind::Word, "c".into())]);
        assert_eq!(tokens(r"'a\' b"), [(Kind::String, r"'a\'".into()), (Kind::Word, "b".into())]);
        assert_eq!(tokens(r"E'a\' b' c"), [(Kind::Escaped, r"E'a\' b'".into()), (Kind::Word, "c".into())]);
        assert_eq!(
            kinds(r#"b'1' X'f' n'x' U&'\0061' u&"\0061" "a""b""#),
            [Kind::Bits, Kind::Bits, Kind::String, Kind::Unicode, Kind::QuotedUnicode, Kind::Quoted]
        );
        assert_eq!(kinds("'never ended"), [Kind::Broken]);
        assert_eq!(kinds(r"E'never ended\'"), [Kind::Broken]);
    }

    #[test]
    fn a_string_goes_on_in_the_next_line() {
        assert_eq!(tokens("'a' -- x\n  'b'").len(), 1);
        assert_eq!(kinds("'a' 'b'"), [Kind::String, Kind::String]);
        // The second part is read like the first.
        assert_eq!(tokens("E'a'\n'\\' set' x").len(), 2);
        assert_eq!(tokens("'a' /* x */ \n 'b'").len(), 2, "a comment of this kind ends the string");
    }

    #[test]
    fn backslashes_count_where_they_are_said_to() {
        let dialect = Dialect { backslashes: true, ..Dialect::default() };
        assert_eq!(tokens_in(br"'a\' b' c", dialect), [(Kind::Escaped, r"'a\' b'".into()), (Kind::Word, "c".into())]);
        assert_eq!(tokens_in(br"U&'x'", dialect), [(Kind::Broken, "U&'x'".into())]);
    }

    #[test]
    fn dollars_quote_only_with_a_tag() {
        assert_eq!(tokens("$$ ' $x$ $$ a"), [(Kind::Dollar, "$$ ' $x$ $$".into()), (Kind::Word, "a".into())]);
        assert_eq!(tokens("$a$ $b$ $a$").len(), 1);
        assert_eq!(kinds("$1 + $22"), [Kind::Parameter, Kind::Symbol, Kind::Parameter]);
        assert_eq!(tokens("a$$b$$"), [(Kind::Word, "a$$b$$".into())], "a dollar inside a name is a letter");
        assert_eq!(kinds("$1a$ x $"), [Kind::Parameter, Kind::Word, Kind::Word, Kind::Symbol]);
        assert_eq!(kinds("$a$ never $A$"), [Kind::Broken]);
    }

    #[test]
    fn numbers_are_one_token() {
        for number in ["1", "1.5", ".5", "1e10", "1.5E-3", "1_000"] {
            assert_eq!(tokens(number), [(Kind::Number, number.into())]);
        }
        assert_eq!(tokens("1..10").len(), 3);
        assert_eq!(tokens("1e").len(), 2);
    }

    #[test]
    fn a_byte_inside_a_longer_character_ends_nothing() {
        // In SJIS, 0x95 0x5C is one character, whose second byte is a backslash.
        let sjis = Dialect { encoding: Encoding::of("SJIS"), ..Dialect::default() };
        let text = b"E'\x95\x5c' x";
        assert_eq!(tokens_in(text, sjis).len(), 2);
        assert_eq!(tokens_in(text, Dialect::default()), [(Kind::Broken, String::from_utf8_lossy(text).into_owned())]);
        // In GB18030, 0x81 0x30 0x81 0x30 is one character.
        let gb = Dialect { encoding: Encoding::of("gb-18030"), ..Dialect::default() };
        assert_eq!(tokens_in(b"a\x81\x30\x81\x30b c", gb).len(), 2);
        assert_eq!(Encoding::of("utf-8"), Encoding::Safe);
        assert_eq!(Encoding::of("Windows-950"), Encoding::Pairs);
    }

    #[test]
    fn what_a_string_means() {
        let meaning = |text: &str| {
            let token = Lexer::new(text.as_bytes(), Dialect::default()).next().expect("a token");
            let meaning = unquote(token.kind, &text.as_bytes()[token.range()], Encoding::Safe)?;
            Some(String::from_utf8(meaning).expect("readable"))
        };
        assert_eq!(meaning("Search_Path").as_deref(), Some("search_path"));
        assert_eq!(meaning("\"A\"\"b\"").as_deref(), Some("A\"b"));
        assert_eq!(meaning("'it''s \\n'").as_deref(), Some("it's \\n"));
        assert_eq!(meaning("N'x'").as_deref(), Some("x"));
        assert_eq!(meaning(r"E'it\'s\n\\'").as_deref(), Some("it's\n\\"));
        assert_eq!(meaning("$q$ a $q$").as_deref(), Some(" a "));
        assert_eq!(meaning(r"E'\x41'"), None);
        assert_eq!(meaning("'a'\n'b'"), None);
        assert_eq!(meaning("U&'a'"), None);
        assert_eq!(unquote(Kind::String, b"'\x95\x5c'", Encoding::Sjis), None);
    }
}
