//! The tokens of one statement, by their position.
//!
//! Always true: there is no token at a position behind the end, and it equals nothing.
//! Not here: where a statement ends (`split`).

use crate::lexer::{Encoding, Kind, Token, unquote};

/// A name as the catalog has it, in a buffer of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    length: usize,
}

impl Name {
    /// The name that a token gives; `None` where more than a copy is needed, as for a doubled quote.
    pub(crate) fn new(text: &[u8], is_quoted: bool) -> Option<Self> {
        // PostgreSQL truncates a longer name, at the beginning of a character.
        if text.len() > NAME_BYTES_MAX || is_quoted && text.contains(&b'"') {
            return None;
        }
        let mut name = Self { bytes: [0; NAME_BYTES_MAX], length: text.len() };
        name.bytes[..text.len()].copy_from_slice(text);
        if !is_quoted {
            name.bytes[..text.len()].make_ascii_lowercase();
        }
        Some(name)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The tokens of one statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    text: &'a [u8],
    tokens: &'a [Token],
    encoding: Encoding,
}

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a [u8], tokens: &'a [Token], encoding: Encoding) -> Self {
        Self { text, tokens, encoding }
    }

    /// The tokens from a position on.
    pub(crate) fn from(&self, at: usize) -> Self {
        Self { tokens: self.tokens.get(at..).unwrap_or_default(), ..*self }
    }

    /// The number of tokens.
    pub(crate) fn end(&self) -> usize {
        self.tokens.len()
    }

    /// The length in bytes from the first token to the last.
    pub(crate) fn bytes(&self) -> usize {
        let [first, .., last] = self.tokens else { return self.tokens.first().map_or(0, |token| token.range().len()) };
        last.range().end - first.range().start
    }

    /// The kind of the token at this position.
    pub(crate) fn kind(&self, at: usize) -> Option<Kind> {
        Some(self.tokens.get(at)?.kind)
    }

    /// The token as it is written.
    pub(crate) fn text(&self, at: usize) -> Option<&'a [u8]> {
        Some(&self.text[self.tokens.get(at)?.range()])
    }

    /// The meaning of the token, without quotes; `None` for a name that PostgreSQL would truncate, and for what is not UTF-8.
    pub(crate) fn unquoted(&self, at: usize) -> Option<String> {
        let meaning = unquote(self.kind(at)?, self.text(at)?, self.encoding)?;
        let is_cut = self.is_name(at) && meaning.len() > NAME_BYTES_MAX;
        if is_cut { None } else { String::from_utf8(meaning).ok() }
    }

    /// The name at this position as PostgreSQL has it, which truncates a longer one at the end of a character
    /// (`truncate_identifier` in `parser/scansup.c`); `None` for what is not UTF-8. In a database of another encoding, a
    /// long name with characters beyond ASCII may be truncated elsewhere.
    pub(crate) fn cut_name(&self, at: usize) -> Option<String> {
        let kind = self.kind(at).filter(|_| self.is_name(at))?;
        let mut name = String::from_utf8(unquote(kind, self.text(at)?, self.encoding)?).ok()?;
        name.truncate(base::cut(&name, NAME_BYTES_MAX).len());
        Some(name)
    }

    /// Whether a string stands here, in whatever quotes.
    pub(crate) fn is_string(&self, at: usize) -> bool {
        matches!(self.kind(at), Some(Kind::String | Kind::Escaped | Kind::Unicode | Kind::Dollar))
    }

    /// Whether this keyword stands here.
    pub(crate) fn is(&self, at: usize, keyword: &str) -> bool {
        self.kind(at) == Some(Kind::Word)
            && self.text(at).is_some_and(|text| text.eq_ignore_ascii_case(keyword.as_bytes()))
    }

    /// Whether one of these keywords stands here.
    pub(crate) fn is_one_of(&self, at: usize, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(at, keyword))
    }

    /// Whether these keywords stand here in a row.
    pub(crate) fn are(&self, at: usize, keywords: &[&str]) -> bool {
        keywords.iter().enumerate().all(|(step, keyword)| self.is(at + step, keyword))
    }

    /// Whether this symbol stands here.
    pub(crate) fn is_symbol(&self, at: usize, symbol: &[u8]) -> bool {
        self.kind(at) == Some(Kind::Symbol) && self.text(at) == Some(symbol)
    }

    /// The positions of names and keywords whose first byte and length are wanted. A quoted name always passes.
    pub(crate) fn places(&self, is_wanted: impl Fn(u8, usize) -> bool) -> impl Iterator<Item = usize> {
        let text = self.text;
        let places = self.tokens.iter().enumerate().filter(move |(_, token)| match token.kind {
            Kind::Word => is_wanted(text[token.range().start], token.range().len()),
            kind => kind == Kind::Quoted,
        });
        places.map(|(at, _)| at)
    }

    /// A name as it is written, without its quotes.
    pub(crate) fn bare(&self, at: usize) -> &'a [u8] {
        let text = self.text(at).unwrap_or_default();
        if self.kind(at) == Some(Kind::Quoted) { &text[1..text.len() - 1] } else { text }
    }

    /// The name at this position; `None` where [`Name::new`] cannot read it.
    pub(crate) fn name(&self, at: usize) -> Option<Name> {
        Name::new(self.bare(at), self.kind(at)? == Kind::Quoted)
    }

    /// Whether a name or keyword stands here.
    pub(crate) fn is_name(&self, at: usize) -> bool {
        matches!(self.kind(at), Some(Kind::Word | Kind::Quoted))
    }
}

/// `NAMEDATALEN` without its zero byte (`pg_config_manual.h`).
pub(crate) const NAME_BYTES_MAX: usize = 63;
