//! Finds the many texts that are one statement that leaves nothing, by reading each byte once.
//!
//! Always true: a text that is found plain gets the same class when it is read completely.
//! Not here: the classes of such texts (`cache`), the complete reading (`classify`).

use crate::builtin::{self, INTO, matters};
use crate::knowledge::Knowledge;
use crate::lexer::{Dialect, Encoding, Kind, Lexer};
use crate::name_filter::NameFilter;
use crate::notify::PG_NOTIFY;
use crate::sequences;
use crate::words::Name;

/// Returns the first word of a text that is one statement that reads or writes tables and contains no name that could
/// matter, judged by each token alone. Most texts are such, and nothing more has to be known of them.
pub(crate) fn plain_verb(text: &[u8], dialect: Dialect, knowledge: &Knowledge) -> Option<&'static [u8]> {
    if knowledge.is_hidden() {
        return None;
    }
    let mut tokens = Lexer::new(text, dialect);
    let first = tokens.next().filter(|verb| verb.kind == Kind::Word)?;
    let verb = VERBS.into_iter().find(|known| text[first.range()].eq_ignore_ascii_case(known))?;
    let lengths = knowledge.lengths() | knowledge.notifier_lengths();
    Reader { text, dialect, knowledge, lengths }.is_plain_from(first.range().end).then_some(verb)
}

struct Reader<'a> {
    text: &'a [u8],
    dialect: Dialect,
    knowledge: &'a Knowledge,
    /// A bit for each length of the name of a function that may matter, modulo 64.
    lengths: u64,
}

impl Reader<'_> {
    /// Whether nothing from here on matters. What is frequent is passed over block by block; what is left is read by the lexer,
    /// whose rules these are.
    fn is_plain_from(&self, mut at: usize) -> bool {
        if self.dialect.encoding != Encoding::Safe {
            return self.are_plain_from(at);
        }
        while at < self.text.len() {
            let mut padded = [0; BLOCK_BYTES];
            let block = Block::of(&self.text[at..], &mut padded);
            let (begin, mut marks) = (at, block.marks);
            at += BLOCK_BYTES;
            loop {
                marks = self.without_names(&block, marks);
                if marks == 0 {
                    break;
                }
                let offset = marks.trailing_zeros() as usize;
                let length = block.length_of_word(offset);
                if offset + length == BLOCK_BYTES && offset != 0 {
                    // A word that may go on is read as a whole, with the next block.
                    at = begin + offset;
                    break;
                }
                let end = match self.passes(begin + offset) {
                    Ok(end) => end,
                    Err(is_end) => return is_end,
                };
                let passed = end - begin;
                if passed >= BLOCK_BYTES || block.is_within_word(passed) {
                    // The next block begins where a token does.
                    at = end;
                    break;
                }
                marks &= u64::MAX << passed;
            }
        }
        true
    }

    /// Returns the marks of a block from the first on that is no name, or one that may matter, or may go on in the next block.
    fn without_names(&self, block: &Block<'_>, mut marks: u64) -> u64 {
        while marks != 0 {
            let offset = marks.trailing_zeros() as usize;
            let length = block.length_of_word(offset);
            let (first, second) = (block.byte(offset), block.byte(offset + 1));
            if offset + length < BLOCK_BYTES && self.is_passed(first, second, length) {
                marks &= marks - 1;
            } else if first == b'"'
                && let Some(length) = block.length_of_name(offset + 1)
                && self.is_passed(second, block.byte(offset + 2), length)
            {
                marks &= u64::MAX << (offset + 1 + length + 1);
            } else {
                break;
            }
        }
        marks
    }

    /// Passes over what begins here, which is no word that means nothing. An error as for [`Self::passes_token`].
    fn passes(&self, at: usize) -> Result<usize, bool> {
        let rest = &self.text[at..];
        let next = rest.get(1).copied().unwrap_or(b' ');
        match rest[0] {
            b'0'..=b'9' => {
                let end = at + digits(rest);
                if !matches!(self.text.get(end), Some(b'.' | b'e' | b'E' | b'_')) {
                    return Ok(end);
                }
                // Where this number begins depends on what is in front of the dot.
                if self.text[..at].ends_with(b".") {
                    return Err(false);
                }
            }
            b'$' if next.is_ascii_digit() => return Ok(at + 1 + digits(&rest[1..])),
            // A quote that is doubled, or the rest of a string on another line, is passed over like a string of its own.
            b'\'' if !self.dialect.backslashes => {
                return memchr::memchr(b'\'', &rest[1..]).map(|length| at + length + 2).ok_or(false);
            }
            b'"' => {
                let length = rest[1..].iter().position(|&byte| byte == b'"').ok_or(false)?;
                if rest.get(length + 2) != Some(&b'"') && self.is_passed(next, rest[2.min(length)], length) {
                    return Ok(at + length + 2);
                }
            }
            b'-' if next != b'-' => return Ok(at + 1),
            b'/' if next != b'*' => return Ok(at + 1),
            _ => {}
        }
        self.passes_token(at)
    }

    /// Whether nothing from here on matters. The lexer reads all of it, token by token.
    fn are_plain_from(&self, mut at: usize) -> bool {
        loop {
            match self.passes_token(at) {
                Ok(end) => at = end,
                Err(is_end) => return is_end,
            }
        }
    }

    /// Passes over one token. An error where none follows, which tells whether that is the end of the text and not something
    /// that may matter.
    fn passes_token(&self, at: usize) -> Result<usize, bool> {
        let text = self.text;
        let Some(token) = Lexer::at(text, at, self.dialect).next() else { return Err(true) };
        let (written, end) = (&text[token.range()], token.range().end);
        let is_plain = match token.kind {
            Kind::Word => !self.may_matter(written, false, end),
            Kind::Quoted => !self.may_matter(&written[1..written.len() - 1], true, end),
            Kind::Symbol => written[0] != b';' || end == text.len(),
            Kind::QuotedUnicode | Kind::Broken => false,
            _ => true,
        };
        if is_plain { Ok(end) } else { Err(false) }
    }

    /// Whether no name that begins with these two bytes and has this length, below 64, matters, however it is quoted. Only the
    /// length is looked at where the database has functions with names of that length.
    #[inline]
    fn is_passed(&self, first: u8, second: u8, length: usize) -> bool {
        length < 64 && (FILTER.lengths(first, second) | self.lengths) >> length & 1 == 0
    }

    /// Whether a name, whose token ends here, may matter by itself or as a function of the database.
    fn may_matter(&self, name: &[u8], is_quoted: bool, end: usize) -> bool {
        let is_suspect =
            |name: &[u8]| name != INTO && matters(name) || name == PG_NOTIFY || self.knowledge.notifies(name);
        name.is_empty()
            || sequences::concerns(name)
            || Name::new(name, is_quoted).is_none_or(|name| is_suspect(name.bytes()))
            || name.eq_ignore_ascii_case(INTO) && self.has_target(end)
    }

    /// Whether a temporary table may be created behind the INTO that ends here.
    fn has_target(&self, at: usize) -> bool {
        let next = Lexer::at(self.text, at, self.dialect).next();
        next.is_some_and(|token| TARGETS.iter().any(|target| self.text[token.range()].eq_ignore_ascii_case(target)))
    }
}

/// A part of a text.
struct Block<'a> {
    bytes: &'a [u8; BLOCK_BYTES],
    /// A bit for each byte of a word or a number.
    words: u64,
    /// A bit for each byte with which something begins that may mean something: a word, a number, a parameter, a string, a comment,
    /// the end of the statement.
    marks: u64,
}

impl<'a> Block<'a> {
    /// The block at the beginning of a text. Blanks follow where the text is shorter.
    #[inline]
    fn of(text: &'a [u8], padded: &'a mut [u8; BLOCK_BYTES]) -> Self {
        let bytes = text.first_chunk().unwrap_or_else(|| {
            *padded = [b' '; BLOCK_BYTES];
            padded[..text.len()].copy_from_slice(text);
            padded
        });
        let words = mask(bytes, |byte| {
            (byte | 0x20).wrapping_sub(b'a') < 26
                || byte.wrapping_sub(b'0') < 10
                || byte == b'_'
                || byte == b'$'
                || byte >= 0x80
        });
        let others = mask(bytes, |byte| matches!(byte, b'\'' | b'"' | b'-' | b'/' | b';'));
        Self { bytes, words, marks: words & !(words << 1) | others }
    }

    fn byte(&self, offset: usize) -> u8 {
        self.bytes[offset % BLOCK_BYTES]
    }

    /// How many bytes of a word begin here.
    fn length_of_word(&self, offset: usize) -> usize {
        (!(self.words >> offset)).trailing_zeros() as usize
    }

    /// How many bytes a name in quotes has that begins here, if these are bytes of a word and its end is within the block.
    fn length_of_name(&self, offset: usize) -> Option<usize> {
        let length = (!(self.words >> (offset - 1) >> 1)).trailing_zeros() as usize;
        let end = offset + length;
        let is_ended = end + 1 < BLOCK_BYTES && self.byte(end) == b'"' && self.byte(end + 1) != b'"';
        is_ended.then_some(length)
    }

    /// Whether a word is on both sides of this place, which is not at the beginning.
    fn is_within_word(&self, offset: usize) -> bool {
        self.words >> (offset - 1) & 3 == 3
    }
}

/// A bit for each byte that is such.
#[inline]
fn mask(bytes: &[u8; BLOCK_BYTES], is_such: impl Fn(u8) -> bool) -> u64 {
    let flags = bytes.map(|byte| u8::from(is_such(byte)));
    let (eights, _) = flags.as_chunks::<8>();
    // The product has the eight flags in its highest byte.
    let bits = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().enumerate().fold(0, |mask, (at, eight)| mask | bits(eight) << (8 * at))
}

/// How many digits stand at the beginning.
fn digits(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len())
}

/// A bit for each byte of a block.
const BLOCK_BYTES: usize = u64::BITS as usize;

/// The first words of statements that only read or write tables.
const VERBS: [&[u8]; 5] = [SELECT, INSERT, b"update", b"delete", b"with"];
/// The one of them that only reads.
pub(crate) const SELECT: &[u8] = b"select";
/// The one of them that creates rows.
pub(crate) const INSERT: &[u8] = b"insert";
/// What stands behind INTO where a statement creates a temporary table.
const TARGETS: [&[u8]; 4] = [b"temp", b"temporary", b"local", b"global"];

/// What has to be looked at, whatever functions the database has: names that matter, a letter with which a string begins, and
/// everything that begins with a byte with which no name does.
static FILTER: NameFilter = {
    let mut filter = builtin::FILTER.or(&sequences::FILTER).with(PG_NOTIFY);
    let mut byte = 0;
    while byte < 256 {
        let first = byte as u8;
        if !(first.is_ascii_alphabetic() || first == b'_' || first >= 0x80) {
            filter = filter.with_all_of(first);
        }
        byte += 1;
    }
    let prefixes: [&[u8]; 4] = [b"b'", b"e'", b"x'", b"u&"];
    let mut at = 0;
    while at < prefixes.len() {
        filter.add(prefixes[at], 1 << 1);
        at += 1;
    }
    filter
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::classify::classify;

    /// What is passed over by its bytes is what is passed over token by token, and is plain when it is read completely.
    #[test]
    fn texts_are_plain_in_every_reading() {
        let blanks = [" ", " ", " ", "\n", "\t"];
        let names = r#"a id users into INTO temp local touch "touch" "Touch" set_config "set_config" pg_temp nextval ts_stat query_to_xml pg_settings insert "users" "into" "a""b" "" 1 42 1e5 e5 1_0 _ u x"#;
        let others = r#", ( ) = 1.e5t 'x' 'it''s' ' E' e'\' N' U&' u&" b'1' \ 1.5 1. . .. $1 $ $$ $a$ - -- / * /* */ ; ä : :: &"#;
        let parts: Vec<&str> = blanks.into_iter().chain(names.split(' ')).chain(others.split(' ')).collect();
        let known = Knowledge::new(["touch", "e5t"], false);
        let long = ["\"n", "n"].map(|quote| format!("{quote}{}\"", "x".repeat(63)));
        let mut random = 1_u64;
        let mut next = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % end
        };
        let mut plain_count = 0;
        for round in 0..200_000 {
            let length = 1 + next(8);
            let mut part = || {
                let number = next(parts.len() + long.len());
                parts.get(number).copied().unwrap_or_else(|| &long[number - parts.len()])
            };
            let text: String = (0..length).map(|_| part()).collect();
            let text = format!("{} {text}", ["select", "update", "insert"][next(3)]);
            let (bytes, dialect) = (text.as_bytes(), Dialect { backslashes: round % 2 == 0, ..Dialect::default() });
            let lengths = known.lengths() | known.notifier_lengths();
            let reader = Reader { text: bytes, dialect, knowledge: &known, lengths };
            let is_plain = reader.is_plain_from(6);
            let is_plain_by_tokens = reader.are_plain_from(6);
            assert!(is_plain == is_plain_by_tokens || !is_plain && text.contains('.'), "{text:?}");
            if is_plain {
                plain_count += 1;
                let class = classify(bytes, dialect, Some(&known));
                let expected = classify(&bytes[..6], dialect, Some(&known));
                assert_eq!(class, Class { sequences: class.sequences, ..expected }, "{text:?}");
            }
        }
        assert!(plain_count > 20_000, "only {plain_count}");
    }

    /// A quote may be the second byte of a character.
    #[test]
    fn strings_end_where_their_encoding_says() {
        let known = Knowledge::default();
        let text = b"select '\x81', ' into temp t --'";
        let pairs = Dialect { encoding: Encoding::Pairs, ..Dialect::default() };
        assert_eq!(plain_verb(text, Dialect::default(), &known), Some(SELECT));
        assert_eq!(plain_verb(text, pairs, &known), None);
    }

    #[test]
    fn nothing_is_plain_where_hidden_functions_may_change_the_session() {
        assert_eq!(plain_verb(b"select 1", Dialect::default(), &Knowledge::new(["touch"], false)), Some(SELECT));
        assert_eq!(plain_verb(b"select 1", Dialect::default(), &Knowledge::new(["touch"], true)), None);
    }
}
