//! Passes over what tells nothing of a text: strings, comments, numbers and symbols, at the speed of memory where that is
//! possible.
//!
//! Always true: a piece may end anywhere, within a character, too; what ends a string or a comment is what ends it for the
//! lexer.
//! Not here: which tokens are kept (`kept`).

use crate::kept::Kept;
use crate::lexer::Encoding;

/// What a place of a text is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// No string and no comment.
    Outside,
    /// A string in single quotes.
    Quoted { escapes: bool },
    /// Behind such a string, which may continue on another line.
    Between { escapes: bool, has_line_end: bool },
    /// A comment that ends with its line, behind a string in single quotes that may continue on another line.
    LineBetween { escapes: bool, has_line_end: bool },
    /// A comment that ends with its line.
    Line,
    /// A comment, and how many comments are open.
    Comment { depth: u32 },
    /// A string in dollar quotes.
    Dollar { tag: Box<[u8]> },
    /// What cannot be read.
    Broken,
}

/// What follows from the beginning of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The next token begins here.
    On(usize),
    /// What begins here cannot be read before more has come; or the text ends here.
    Wait(usize),
}

impl Mode {
    /// Whether a text can end here.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self, Self::Outside | Self::Line | Self::Between { .. } | Self::LineBetween { .. })
    }

    /// Goes on from this place to the end of what it is in.
    pub(crate) fn pass(&mut self, text: &[u8], at: usize, encoding: Encoding, is_last: bool) -> Step {
        match self {
            Self::Outside => Step::On(at),
            Self::Quoted { escapes } => {
                let escapes = *escapes;
                self.quoted(text, at, escapes, encoding, is_last)
            }
            &mut Self::Between { escapes, has_line_end } => self.between(text, at, escapes, has_line_end, is_last),
            &mut (Self::LineBetween { .. } | Self::Line) => {
                let end = match seek(text, at, [b'\n', b'\r'], encoding) {
                    Step::On(end) => end,
                    // Half a character is a part of the comment.
                    Step::Wait(_) if is_last => return Step::Wait(text.len()),
                    wait @ Step::Wait(_) => return wait,
                };
                *self = match *self {
                    Self::LineBetween { escapes, has_line_end } => Self::Between { escapes, has_line_end },
                    _ => Self::Outside,
                };
                Step::On(end)
            }
            Self::Comment { .. } => self.comment(text, at, encoding),
            Self::Dollar { tag } => {
                let step = dollar(text, at, tag, encoding);
                if matches!(step, Step::On(_)) {
                    *self = Self::Outside;
                }
                step
            }
            Self::Broken => Step::Wait(text.len()),
        }
    }

    fn quoted(&mut self, text: &[u8], mut at: usize, escapes: bool, encoding: Encoding, is_last: bool) -> Step {
        let escape = if escapes { b'\\' } else { b'\'' };
        loop {
            at = match seek(text, at, [b'\'', escape], encoding) {
                Step::On(at) => at,
                wait @ Step::Wait(_) => return wait,
            };
            let Some(&next) = text.get(at + 1) else {
                if is_last && text[at] == b'\'' {
                    *self = Self::Outside;
                    return Step::On(at + 1);
                }
                return Step::Wait(at);
            };
            if text[at] != b'\'' {
                let length = encoding.wanted(&text[at + 1..]);
                if at + 1 + length > text.len() || is_cut(&text[at + 1..], encoding) {
                    return Step::Wait(at);
                }
                at += 1 + length;
            } else if next == b'\'' {
                at += 2;
            } else {
                *self = match next {
                    b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | b'-' => Self::Between { escapes, has_line_end: false },
                    _ => Self::Outside,
                };
                return Step::On(at + 1);
            }
        }
    }

    /// Looks for a quote that continues a string: between them are only blanks with a line break, and comments of the kind
    /// that ends with a line (`quotecontinue`).
    fn between(&mut self, text: &[u8], mut at: usize, escapes: bool, mut has_line_end: bool, is_last: bool) -> Step {
        loop {
            match (text.get(at), text.get(at + 1)) {
                (Some(b'\n' | b'\r'), _) => has_line_end = true,
                (Some(b' ' | b'\t' | 0x0b | 0x0c), _) => {}
                (Some(b'-'), Some(b'-')) => {
                    *self = Self::LineBetween { escapes, has_line_end };
                    return Step::On(at + 2);
                }
                (None, _) | (Some(b'-'), None) if !is_last => {
                    *self = Self::Between { escapes, has_line_end };
                    return Step::Wait(at);
                }
                (Some(b'\''), _) if has_line_end => {
                    *self = Self::Quoted { escapes };
                    return Step::On(at + 1);
                }
                _ => {
                    *self = Self::Outside;
                    return Step::On(at);
                }
            }
            at += 1;
        }
    }

    fn comment(&mut self, text: &[u8], mut at: usize, encoding: Encoding) -> Step {
        let Self::Comment { depth } = self else { return Step::On(at) };
        loop {
            at = match seek(text, at, [b'*', b'/'], encoding) {
                Step::On(at) => at,
                wait @ Step::Wait(_) => return wait,
            };
            match (text[at], text.get(at + 1)) {
                (_, None) => return Step::Wait(at),
                (b'/', Some(b'*')) => {
                    *depth += 1;
                    at += 2;
                }
                (b'*', Some(b'/')) => {
                    *depth -= 1;
                    at += 2;
                    if *depth == 0 {
                        *self = Self::Outside;
                        return Step::On(at);
                    }
                }
                _ => at += 1,
            }
        }
    }
}

/// Looks for the end of a string in dollar quotes.
fn dollar(text: &[u8], mut at: usize, tag: &[u8], encoding: Encoding) -> Step {
    loop {
        at = match seek(text, at, [b'$', b'$'], encoding) {
            Step::On(at) => at,
            wait @ Step::Wait(_) => return wait,
        };
        let rest = &text[at..];
        match rest.starts_with(tag) {
            true => return Step::On(at + tag.len()),
            false if tag.starts_with(rest) => return Step::Wait(at),
            false => at += 1,
        }
    }
}

/// Looks for one of these bytes at the beginning of a character.
#[inline]
fn seek(text: &[u8], mut at: usize, wanted: [u8; 2], encoding: Encoding) -> Step {
    let is_wanted = |byte: u8| byte == wanted[0] || byte == wanted[1];
    if encoding == Encoding::Safe {
        // Many strings are short: a few words are examined before `memchr` is called.
        for _ in 0..NEAR_WORDS {
            let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
            let word = u64::from_le_bytes(*word);
            let found = zero_bytes(word ^ repeated(wanted[0])) | zero_bytes(word ^ repeated(wanted[1]));
            if found != 0 {
                return Step::On(at + found.trailing_zeros() as usize / 8);
            }
            at += 8;
        }
        let found = match wanted[0] == wanted[1] {
            true => memchr::memchr(wanted[0], &text[at..]),
            false => memchr::memchr2(wanted[0], wanted[1], &text[at..]),
        };
        return found.map_or(Step::Wait(text.len()), |found| Step::On(at + found));
    }
    while at < text.len() {
        if is_wanted(text[at]) {
            return Step::On(at);
        }
        if is_cut(&text[at..], encoding) {
            return Step::Wait(at);
        }
        at += encoding.wanted(&text[at..]);
    }
    Step::Wait(at)
}

/// Where this byte is found first; for names, which are short.
#[inline]
pub(crate) fn first_of(bytes: &[u8], wanted: u8) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let found = zero_bytes(u64::from_le_bytes(*word) ^ repeated(wanted));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes[at..].iter().position(|&byte| byte == wanted).map(|found| at + found)
}

/// A word of eight times this byte.
const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The highest bit of each byte that is zero, from the lowest byte to the first of these; what is above it may be set as well.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}

/// Whether not all bytes of a character are there.
fn is_cut(bytes: &[u8], encoding: Encoding) -> bool {
    // The second byte tells how long a character of GB18030 is.
    encoding != Encoding::Safe
        && (encoding.wanted(bytes) > bytes.len()
            || encoding == Encoding::Gb18030 && bytes.len() == 1 && bytes[0] >= 0x80)
}

/// Passes over blanks, digits, parameters and symbols that matter only by the depth of their parentheses.
#[inline]
pub(crate) fn skip_neutral(text: &[u8], mut at: usize, kept: &mut Kept) -> usize {
    let (mut depth, mut is_something) = (0_i32, 0_u8);
    loop {
        let near = text.len().min(at + NEAR);
        while at < near {
            let what = NEUTRAL[usize::from(text[at])];
            if what & STOP != 0 && !is_parameter(text, at) {
                kept.passed(depth, is_something & SOMETHING != 0);
                return at;
            }
            is_something |= what;
            depth += i32::from(what & OPEN != 0) - i32::from(what & CLOSE != 0);
            at += 1;
        }
        // Long lists of numbers are passed over at once.
        while let Some(pairs) = text.get(at..).and_then(<[u8]>::first_chunk::<{ CHUNK + 1 }>)
            && let (Some(chunk), Some(next)) = (pairs.first_chunk::<CHUNK>(), pairs.last_chunk::<CHUNK>())
            && chunk.iter().zip(next).fold(0, |found, (&byte, &next)| found | u8::from(!is_of_numbers(byte, next))) == 0
        {
            let count = |wanted: u8| chunk.iter().fold(0_u8, |count, &byte| count + u8::from(byte == wanted));
            depth += i32::from(count(b'(')) - i32::from(count(b')'));
            is_something |= u8::from(chunk.iter().fold(0, |all, &byte| all | byte) != b' ');
            at += CHUNK;
        }
        if at == text.len() {
            kept.passed(depth, is_something & SOMETHING != 0);
            return at;
        }
    }
}

/// Whether this is one of the bytes of lists of numbers and parameters, or similar, in front of `next`: from `(` to `,` in the
/// order of ASCII, digits, dots and spaces, and a dollar in front of a digit.
#[inline]
fn is_of_numbers(byte: u8, next: u8) -> bool {
    let is_digit = |byte: u8| byte.wrapping_sub(b'0') < 10;
    byte == b' ' || byte.wrapping_sub(b'(') < 5 || is_digit(byte) || byte == b'.' || (byte == b'$') & is_digit(next)
}

/// Whether a parameter begins here.
#[inline]
fn is_parameter(text: &[u8], at: usize) -> bool {
    text[at] == b'$' && text.get(at + 1).is_some_and(u8::is_ascii_digit)
}

/// What each byte is where only words matter.
const NEUTRAL: [u8; 256] = {
    let mut neutral = [SOMETHING; 256];
    let mut byte = 0;
    while byte < 256 {
        neutral[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => 0,
            b'(' => SOMETHING | OPEN,
            b')' => SOMETHING | CLOSE,
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80.. => STOP,
            b'\'' | b'"' | b'$' | b';' | b'-' | b'/' => STOP,
            _ => SOMETHING,
        };
        byte += 1;
    }
    neutral
};
const SOMETHING: u8 = 1;
const OPEN: u8 = 2;
const CLOSE: u8 = 4;
const STOP: u8 = 8;
/// The words of eight bytes that are examined before `memchr` is called.
const NEAR_WORDS: usize = 4;
/// So many bytes are examined at once.
const CHUNK: usize = 64;
/// After as many bytes one by one.
const NEAR: usize = 24;
