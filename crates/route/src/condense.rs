//! Shortens texts that are too long to be kept, as they arrive: what tells nothing about the session is left out.
//!
//! Always true: what is left is never more harmless than the whole; every byte is read once, but for a few at the end of a
//! piece; what is held is bounded.
//! Not here: which texts are shortened (`protocol::loan`), where their literals and comments end (`skim`), which tokens stay
//! (`kept`).

use crate::kept::Kept;
use crate::lexer::{Dialect, Encoding, Kind, Lexer, dollar_tag, is_of_word};
use crate::skim::{Mode, Step, first_of, skip_neutral};

/// Reads a text piece by piece and keeps what a class can be read from.
#[derive(Debug)]
pub struct Condenser {
    dialect: Dialect,
    mode: Mode,
    /// The end of what has arrived, which cannot be read without what follows.
    rest: Vec<u8>,
    kept: Kept,
    /// Whether what has arrived is ASCII without quotes and backslashes.
    is_read_alike: bool,
    is_given_up: bool,
}

impl Condenser {
    /// At the beginning of a text.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self::with_head(dialect, HEAD_TOKENS)
    }

    /// At the beginning of a text; `head_tokens` tokens are kept at the beginning of each statement.
    #[must_use]
    pub fn with_head(dialect: Dialect, head_tokens: usize) -> Self {
        let (rest, kept) = (Vec::new(), Kept::new(head_tokens.max(1)));
        Self { dialect, mode: Mode::Outside, rest, kept, is_read_alike: true, is_given_up: false }
    }

    /// How the text is read.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether the text is read alike whatever the parameters of its client are.
    #[must_use]
    pub fn is_read_alike(&self) -> bool {
        self.is_read_alike
    }

    /// How many bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.kept.bytes() + self.rest.len()
    }

    /// Reads the next piece, which has no zero byte.
    pub fn push(&mut self, piece: &[u8]) {
        self.is_read_alike &= piece.is_ascii() && memchr::memchr2(b'\'', b'\\', piece).is_none();
        if self.is_given_up {
            return;
        }
        if self.rest.is_empty() {
            let read = self.read(piece, false);
            self.rest.extend_from_slice(&piece[read..]);
        } else {
            let mut text = std::mem::take(&mut self.rest);
            text.extend_from_slice(piece);
            let read = self.read(&text, false);
            text.drain(..read);
            self.rest = text;
        }
        if self.rest.len() > REST_BYTES_MAX || self.kept.bytes() > KEPT_BYTES_MAX {
            (self.rest, self.kept, self.is_given_up) = (Vec::new(), Kept::new(1), true);
        }
    }

    /// Ends the text. Returns what is left of it; `None` if that is too much: the text may do anything.
    #[must_use]
    pub fn end(mut self) -> Option<Vec<u8>> {
        if self.is_given_up {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        self.read(&rest, true);
        Some(self.ended())
    }

    fn ended(mut self) -> Vec<u8> {
        if !self.mode.may_end() {
            self.kept.broken();
        }
        self.kept.into_text()
    }

    /// Reads as much of a text as can be; returns where the rest begins, which is all of it that is needed again.
    fn read(&mut self, text: &[u8], is_last: bool) -> usize {
        let mut at = 0;
        loop {
            let step = match &mut self.mode {
                Mode::Outside => self.outside(text, at, is_last),
                mode => mode.pass(text, at, self.dialect.encoding, is_last),
            };
            match step {
                Step::On(next) => at = next,
                Step::Wait(next) => return next,
            }
        }
    }

    /// Reads tokens up to one that needs a mode of its own.
    fn outside(&mut self, text: &[u8], mut at: usize, is_last: bool) -> Step {
        loop {
            let from = at;
            if self.kept.is_brief() {
                at = skip_neutral(text, at, &mut self.kept);
            }
            while let Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) = text.get(at) {
                at += 1;
            }
            if text.len() < at + AHEAD && !is_last {
                let number = number_before(text, from, at);
                // What follows belongs to the number, or not, if that is a parameter.
                return Step::Wait(number - usize::from(text[from..number].ends_with(b"$")));
            }
            let Some(&byte) = text.get(at) else { return Step::Wait(at) };
            if self.kept.is_brief()
                && let Some(end) = self.passes(text, from, at)
            {
                at = end;
                continue;
            }
            let next = text.get(at + 1).copied().unwrap_or(0);
            let plain = self.dialect.backslashes;
            let token = match byte {
                b'-' if next == b'-' => return self.enters(Mode::Line, at + 2),
                b'/' if next == b'*' => return self.enters(Mode::Comment { depth: 1 }, at + 2),
                b'\'' => self.string(text, at, 0, plain, is_last),
                b'e' | b'E' | b'_' if is_in_number(text, from, at) => {
                    self.token(text, number_before(text, from, at), is_last)
                }
                b'e' | b'E' if next == b'\'' => self.string(text, at, 1, true, is_last),
                b'b' | b'B' | b'x' | b'X' if next == b'\'' => self.string(text, at, 1, false, is_last),
                b'n' | b'N' if next == b'\'' => self.string(text, at, 1, plain, is_last),
                // Where backslashes are escapes, PostgreSQL refuses it.
                b'u' | b'U' if next == b'&' && text.get(at + 2) == Some(&b'\'') && plain => {
                    return self.enters(Mode::Broken, text.len());
                }
                b'u' | b'U' if next == b'&' && text.get(at + 2) == Some(&b'\'') => {
                    self.string(text, at, 2, false, is_last)
                }
                b'$' if !next.is_ascii_digit() => self.dollar(text, at, is_last),
                _ => self.token(text, at, is_last),
            };
            match token {
                Step::On(end) if matches!(self.mode, Mode::Outside) => at = end,
                step => return step,
            }
        }
    }

    /// Passes over a token of a kind that is frequent where only words matter, if it plainly ends within the text. The rules
    /// are in [`Self::outside`].
    #[inline]
    fn passes(&mut self, text: &[u8], from: usize, at: usize) -> Option<usize> {
        let next = *text.get(at + 1)?;
        let end = match text[at] {
            b'-' if next != b'-' => at + 1,
            b'/' if next != b'*' => at + 1,
            b'\'' if !self.dialect.backslashes && self.dialect.encoding == Encoding::Safe => {
                let end = short_string(&text[at + 1..])?;
                at + 1 + end
            }
            b'"' if self.dialect.encoding == Encoding::Safe => {
                let end = at + 2 + first_of(&text[at + 1..], b'"')?;
                if text.len() < end + AHEAD || text[end] == b'"' {
                    return None;
                }
                self.kept.word(&text[at..end], Kind::Quoted);
                return Some(end);
            }
            first @ (b'A'..=b'Z' | b'a'..=b'z') if self.dialect.encoding == Encoding::Safe => {
                let end = at + 1 + text[at + 1..].iter().position(|&byte| !is_of_word(byte))?;
                let is_number = || first | 0x20 == b'e' && is_in_number(text, from, at);
                if text.len() < end + AHEAD || matches!(text[end], b'\'' | b'&') || is_number() {
                    return None;
                }
                self.kept.word(&text[at..end], Kind::Word);
                return Some(end);
            }
            _ => return None,
        };
        self.kept.passed(0, true);
        Some(end)
    }

    fn enters(&mut self, mode: Mode, at: usize) -> Step {
        self.mode = mode;
        Step::On(at)
    }

    /// Reads a token that is no string and no comment.
    fn token(&mut self, text: &[u8], at: usize, is_last: bool) -> Step {
        let Some(token) = Lexer::at(text, at, self.dialect).next() else { return Step::Wait(at) };
        let range = token.range();
        if !is_last && range.end + AHEAD > text.len() {
            return Step::Wait(at);
        }
        let written = &text[range.clone()];
        match token.kind {
            Kind::Word | Kind::Quoted => self.kept.word(written, token.kind),
            Kind::Number | Kind::Parameter => self.kept.value(Some(written)),
            Kind::Symbol => self.kept.symbol(written),
            Kind::Broken => return self.enters(Mode::Broken, text.len()),
            _ => self.kept.keep(written),
        }
        Step::On(range.end)
    }

    /// Reads a string in single quotes, or begins to.
    fn string(&mut self, text: &[u8], at: usize, prefix: usize, escapes: bool, is_last: bool) -> Step {
        if let Some(step) = self.short(text, at, is_last) {
            return step;
        }
        self.kept.value(None);
        self.enters(Mode::Quoted { escapes }, at + prefix + 1)
    }

    /// Reads what begins with a dollar and is no parameter.
    fn dollar(&mut self, text: &[u8], at: usize, is_last: bool) -> Step {
        let rest = &text[at + 1..];
        let tag = rest.iter().position(|&byte| byte == b'$' || !is_of_word(byte));
        if tag.is_none() && !is_last {
            return Step::Wait(at);
        }
        let Some(tag) = tag.and_then(|tag| dollar_tag(&text[at..=at + 1 + tag])) else {
            self.kept.symbol(b"$");
            return Step::On(at + 1);
        };
        if let Some(step) = self.short(text, at, is_last) {
            return step;
        }
        self.kept.value(None);
        self.enters(Mode::Dollar { tag: text[at..at + tag].into() }, at + tag)
    }

    /// Keeps a short string as it is, where strings are kept; one that may still be short waits for its end.
    fn short(&mut self, text: &[u8], at: usize, is_last: bool) -> Option<Step> {
        if self.kept.is_brief() {
            return None;
        }
        let rest = &text[at..text.len().min(at + SHORT_BYTES_MAX)];
        let token = Lexer::at(rest, 0, self.dialect).next()?;
        let end = token.range().end;
        // Whether it continues on another line is told by what follows.
        let behind = rest[end..].iter().find(|byte| !byte.is_ascii_whitespace() && **byte != 0x0b);
        let is_over = match behind {
            _ if token.kind == Kind::Dollar => true,
            Some(byte) => *byte != b'-',
            None => is_last && rest.len() < SHORT_BYTES_MAX,
        };
        if token.kind != Kind::Broken && is_over {
            self.kept.value(Some(&rest[..end]));
            return Some(Step::On(at + end));
        }
        (rest.len() < SHORT_BYTES_MAX && !is_last).then_some(Step::Wait(at))
    }
}

/// The length of what is left of a short string, with its quote, if neither a quote nor a string on the next line can
/// continue it.
#[inline]
fn short_string(rest: &[u8]) -> Option<usize> {
    let near = &rest[..rest.len().min(16)];
    let quote = near.iter().position(|&byte| byte == b'\'')?;
    let behind = *near.get(quote + 1)?;
    (!matches!(behind, b'\'' | b'-' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)).then_some(quote + 1)
}

/// Where the digits begin that end here; nothing before `from` belongs to them.
fn number_before(text: &[u8], from: usize, at: usize) -> usize {
    let digits = text[from..at].iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    at - digits
}

/// Whether what begins here may belong to the number in front of it, which is no parameter.
fn is_in_number(text: &[u8], from: usize, at: usize) -> bool {
    let number = number_before(text, from, at);
    number < at && !text[from..number].ends_with(b"$")
}

/// The class of a long text can be read from this, as a whole.
pub(crate) fn condensed(text: &[u8], dialect: Dialect) -> Vec<u8> {
    let mut condenser = Condenser::new(dialect);
    condenser.read(text, true);
    condenser.ended()
}

/// So many tokens are kept at the beginning of each statement: drivers set the session there, by `set_config` in a WITH.
const HEAD_TOKENS: usize = 64;
/// The longest token is as long but for strings and comments.
const REST_BYTES_MAX: usize = 1024;
/// Longer strings are left out of any statement.
const SHORT_BYTES_MAX: usize = 512;
/// To tell what begins here, no more than this has to be known.
const AHEAD: usize = 3;
/// A text of which more is left may do anything.
const KEPT_BYTES_MAX: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::classify::classify;
    use crate::dirty_state::DirtyState;
    use crate::knowledge::Knowledge;
    use crate::split::Split;
    use crate::words::Words;

    /// What is left of a text that arrives in pieces of this size.
    fn left(text: &[u8], size: usize, dialect: Dialect) -> Option<Vec<u8>> {
        left_of(Condenser::new(dialect), text, size)
    }

    fn left_of(mut condenser: Condenser, text: &[u8], size: usize) -> Option<Vec<u8>> {
        text.chunks(size).for_each(|piece| condenser.push(piece));
        condenser.end()
    }

    fn touches(text: &[u8], dialect: Dialect) -> DirtyState {
        classify(text, dialect, Some(&Knowledge::default())).touches
    }

    /// The words of each statement, each once.
    fn words(text: &[u8], dialect: Dialect) -> (bool, Vec<Vec<Vec<u8>>>) {
        let split = Split::of(text, dialect);
        let of = |range| {
            let words = Words::new(text, &split.tokens[range], dialect.encoding);
            let mut all: Vec<Vec<u8>> =
                words.places(|_, _| true).map(|at| words.text(at).unwrap_or_default().to_vec()).collect();
            all.sort();
            all.dedup();
            all
        };
        (split.is_dark, split.statements().map(of).collect())
    }

    struct Dice(u64);

    impl Dice {
        fn among(&mut self, count: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % count
        }

        fn dialect(&mut self) -> Dialect {
            let encodings = [Encoding::Safe, Encoding::Sjis, Encoding::Pairs, Encoding::Gb18030];
            let encoding = encodings[self.among(8).saturating_sub(4)];
            Dialect { encoding, backslashes: self.among(2) == 0 }
        }
    }

    #[test]
    fn a_long_value_is_left_out_and_what_stands_beside_it_is_not() {
        let long = "it''s; SET a = 1; ".repeat(100);
        for size in [1, 2, 3, 7, 100, 1500] {
            let text = format!("INSERT INTO t VALUES ('{long}', 'short', $$ {long} $$); SELECT 1");
            let short = left(text.as_bytes(), size, Dialect::default()).expect("little is left");
            assert!(touches(&short, Dialect::default()).is_nothing(), "{size}");
            assert!(short.len() < 100, "{size}: {}", short.len());
            let text = format!("INSERT INTO t VALUES ('{long}'); SET b = 2");
            let short = left(text.as_bytes(), size, Dialect::default()).expect("little is left");
            assert_eq!(touches(&short, Dialect::default()), DirtyState::SETTINGS, "{size}");
        }
    }

    #[test]
    fn what_is_left_out_of_a_text_that_does_it_is_anything() {
        let long = "x".repeat(1000);
        for text in [
            format!("DO 'begin /* {long} */ end'; SELECT 1"),
            format!("DO $$ begin /* {long} */ end $$; SELECT 1"),
            format!("SELECT set_config('{long}', 'x', false)"),
        ] {
            let short = left(text.as_bytes(), 10, Dialect::default()).expect("little is left");
            let touches = touches(&short, Dialect::default());
            assert!(touches.has(DirtyState::ANY_SETTING), "{text}: {touches:?}");
        }
    }

    /// However a text is shortened, nothing that was not harmless becomes so.
    #[test]
    fn nothing_becomes_harmless() {
        let parts = [
            "'",
            "''",
            "'a'",
            "\n",
            " ",
            "SET x = 1",
            ";",
            "$$",
            "$a$",
            "E'",
            "\\",
            "--",
            "/*",
            "*/",
            "\"",
            "SELECT",
            "1",
            "do",
            "x'",
            "U&'",
            "into ",
            "temp ",
            "temporary ",
            "t",
            "set_config(",
            "'b', 'c', true)",
            ", false)",
            "(",
            ")",
            "pg_advisory_lock(1)",
            "\"into\" ",
            "local ",
            "U&\"",
            "listen c",
            "1e",
            "5",
            ".",
            "_",
            "$1",
            "$",
        ];
        let mut dice = Dice(1);
        let (mut harmful, mut brief, filler) = (0, 0, "y".repeat(300));
        for _ in 0..40_000 {
            let filler = ["", "", ", 1", &filler][dice.among(4)];
            let count = dice.among(9) + 1;
            let text: String = (0..count).map(|_| [parts[dice.among(parts.len())], filler].concat()).collect();
            let heads = ["", "INSERT INTO t ", "SELECT ", "WITH a AS (SELECT 1) "];
            let (text, dialect) = (heads[dice.among(4)].to_owned() + &text, dice.dialect());
            if !touches(text.as_bytes(), dialect).is_nothing() {
                harmful += 1;
                let (size, head) = (dice.among(400) + 1, dice.among(8));
                // Of a quoted name that does not end nothing is known.
                let Some(short) = left_of(Condenser::with_head(dialect, head), text.as_bytes(), size) else { continue };
                brief += u32::from(short.windows(3).any(|bytes| bytes == b" $0"));
                assert!(!touches(&short, dialect).is_nothing(), "{text:?} in pieces of {size}");
            }
        }
        assert!(harmful > 10_000 && brief > 5000, "{harmful} {brief}");
    }

    /// A word is missed nowhere, and none is found within a string or a comment.
    #[test]
    fn statements_and_their_words_stay_wherever_a_text_is_cut() {
        let alphabet = b"ab eEuUxn019._$-+*/='\"&(;\n\x80\xb1\\),";
        let mut dice = Dice(7);
        let mut dark = 0;
        for _ in 0..60_000 {
            let mut text = b"select ".to_vec();
            for _ in 0..dice.among(24) {
                text.push(alphabet[dice.among(alphabet.len())]);
            }
            let dialect = dice.dialect();
            let (is_dark, expected) = words(&text, dialect);
            dark += u32::from(is_dark);
            for size in [1, 1 + dice.among(9), 1000] {
                let condenser = Condenser::with_head(dialect, dice.among(6));
                let short = left_of(condenser, &text, size).expect("short");
                let (is_dark_too, found) = words(&short, dialect);
                assert_eq!(
                    is_dark_too,
                    is_dark,
                    "{} by {size} {dialect:?}: {}",
                    text.escape_ascii(),
                    short.escape_ascii()
                );
                assert!(
                    is_dark || found == expected,
                    "{} by {size} {dialect:?}: {}",
                    text.escape_ascii(),
                    short.escape_ascii()
                );
            }
        }
        assert!((10_000..50_000).contains(&dark), "{dark}");
    }

    /// A long text that is found plain by what is left of it has the class that it has when all of it is read.
    #[test]
    fn a_long_text_has_the_class_that_all_of_it_has() {
        let known = Knowledge::new(["touch"], false);
        let ends = [
            "",
            ";",
            "; ",
            ";;",
            "; select 1",
            ", touch()",
            ", \"touch\"",
            " into temp t",
            ", nextval('a')",
            ", 'x",
            ", u&\"x\"",
        ];
        let mut plain = 0;
        for head in [
            "insert into t values (1)",
            "select 1",
            "with a as (select 1) select 2",
            "update t set a = 1",
            "merge x",
            "create table t",
        ] {
            for end in ends {
                let text = format!("{head}{}{end}", ", (2, 'a', null, now())".repeat(300));
                let class = classify(text.as_bytes(), Dialect::default(), Some(&known));
                let found = Cache::default().class(text.as_bytes(), Dialect::default(), 0, Some(&known));
                assert_eq!(*found, class, "{head} ... {end}");
                plain += u32::from(class.is_harmless());
            }
        }
        assert!(plain > 20, "{plain}");
    }

    /// Whatever a long text consists of, little of it is kept.
    #[test]
    fn of_any_length_of_values_the_same_is_left() {
        let words = (0..200).map(|number| format!(", \"column {number}\"")).collect::<String>();
        for part in [
            ", (1, 'a', NULL, true, now(), -1.5e10, '2026-01-01'::date, $1, E'\\n', x'ff', array[1, 2])",
            ", 'a'",
            "(",
            " /* a comment */ -- and more\n",
            ", \"a\".\"b\" as c",
            ", .5",
            ", 1_000",
            &words,
            "; ",
            "''",
        ] {
            let text = format!("insert into t values (1{}", part.repeat(3_000_000 / part.len()));
            let short = left(text.as_bytes(), 8192, Dialect::default()).expect("little is left");
            assert!(short.len() < 8000, "{part}: {}", short.len());
        }
        let many: String = (0..200_000).map(|number| format!(", column_{number}")).collect();
        assert!(
            left(format!("select 1{many}").as_bytes(), 8192, Dialect::default()).is_none(),
            "it has too many words"
        );
        let long = format!("select {}", "1".repeat(100_000));
        assert!(left(long.as_bytes(), 8192, Dialect::default()).is_none(), "no number is as long");
    }

    #[test]
    fn what_depends_on_the_parameters_is_known_of_the_whole() {
        for (text, expected) in [("select 1", true), ("select '1'", false), ("select \\", false), ("select ä", false)]
        {
            let mut condenser = Condenser::new(Dialect::default());
            text.as_bytes().chunks(3).for_each(|piece| condenser.push(piece));
            assert_eq!(condenser.is_read_alike(), expected, "{text}");
        }
    }
}
