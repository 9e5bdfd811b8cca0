//! What is kept of a long text: its words, most of them once in each statement.
//!
//! Always true: statements end where they end in the whole text; two tokens stand side by side only if they do in the
//! whole; a parameter stands for what is left out between them.
//! Not here: how tokens are found (`condense`).

use crate::lexer::Kind;

/// The part of a text that is kept, and where in it the reading is.
#[derive(Debug)]
pub(crate) struct Kept {
    /// So many tokens at the beginning of a statement are kept.
    head_tokens: usize,
    text: Vec<u8>,
    /// Where the present statement begins in it.
    statement_at: usize,
    /// How many of its tokens have been kept.
    tokens: usize,
    manner: Manner,
    /// Whether something has been left out since the last token.
    has_gap: bool,
    /// How many parentheses are open in the whole statement, and in what is kept of it.
    depth: i32,
    kept_depth: i32,
    seen: Seen,
}

/// How much of a statement is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// It has not begun.
    Unknown,
    /// Everything but long strings.
    Whole,
    /// Everything at the beginning; behind that words, each once.
    Brief,
    /// Everything from here on, of a statement that was brief.
    WholeAgain,
}

impl Kept {
    /// At the beginning of a text; of each statement so many tokens are kept, but at least one.
    pub(crate) fn new(head_tokens: usize) -> Self {
        Self {
            head_tokens,
            text: Vec::new(),
            statement_at: 0,
            tokens: 0,
            manner: Manner::Unknown,
            has_gap: false,
            depth: 0,
            kept_depth: 0,
            seen: Seen::default(),
        }
    }

    /// Whether values and symbols are left out.
    #[inline]
    pub(crate) fn is_brief(&self) -> bool {
        self.manner == Manner::Brief && self.tokens >= self.head_tokens
    }

    /// How many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.seen.bytes()
    }

    pub(crate) fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// Something was passed over that opens so many parentheses more than it closes.
    pub(crate) fn passed(&mut self, depth: i32, is_something: bool) {
        self.depth = self.depth.saturating_add(depth);
        self.has_gap |= is_something;
    }

    /// The text cannot be read from here on.
    pub(crate) fn broken(&mut self) {
        self.text.extend_from_slice(b" '");
    }

    /// Adds a token.
    pub(crate) fn keep(&mut self, token: &[u8]) {
        if self.manner == Manner::Unknown {
            self.manner = if token == b"(" { Manner::Brief } else { Manner::Whole };
        }
        if std::mem::take(&mut self.has_gap) {
            self.text.extend_from_slice(b" $0");
        }
        if !self.text.is_empty() {
            self.text.push(b' ');
        }
        self.text.extend_from_slice(token);
        self.tokens += 1;
    }

    /// Adds a name or keyword.
    pub(crate) fn word(&mut self, word: &[u8], kind: Kind) {
        let first = hash(word);
        if self.is_brief() && self.seen.has(first, word, &self.text, self.statement_at) {
            self.has_gap = true;
            return;
        }
        if self.manner == Manner::Unknown && kind == Kind::Word {
            let is_brief = BRIEF.iter().any(|verb| word.eq_ignore_ascii_case(verb));
            self.manner = if is_brief { Manner::Brief } else { Manner::Whole };
        }
        let name = if kind == Kind::Quoted { &word[1..word.len() - 1] } else { word };
        if self.manner == Manner::Brief && name.eq_ignore_ascii_case(SET_CONFIG) {
            // Its arguments tell what it does, and those of other calls within them.
            self.manner = Manner::WholeAgain;
        }
        if !self.is_brief() || is_kept_each(name) {
            return self.keep(word);
        }
        let at = self.text.len() + if self.has_gap { " $0 " } else { " " }.len();
        self.seen.note(first, (at, word.len()), self.statement_at);
        self.keep(word);
    }

    /// Adds a number, a parameter or a string; `None` for a long one.
    pub(crate) fn value(&mut self, value: Option<&[u8]>) {
        match value.filter(|value| value.len() <= VALUE_BYTES_MAX) {
            _ if self.is_brief() => self.has_gap = true,
            Some(value) => self.keep(value),
            None => self.keep(b"$0"),
        }
    }

    /// Adds a symbol.
    pub(crate) fn symbol(&mut self, symbol: &[u8]) {
        let change = match symbol[0] {
            b'(' => 1,
            b')' => -1,
            b';' if self.depth <= 0 => return self.end_statement(),
            b';' if self.manner != Manner::Whole => {
                self.has_gap = true;
                return;
            }
            _ => 0,
        };
        self.depth = self.depth.saturating_add(change);
        if self.is_brief() {
            self.has_gap = true;
        } else {
            self.kept_depth += change;
            self.keep(symbol);
        }
    }

    fn end_statement(&mut self) {
        if self.manner != Manner::Unknown {
            for _ in 0..self.kept_depth {
                self.keep(b")");
            }
            self.keep(b";");
        }
        (self.manner, self.tokens, self.has_gap, self.depth, self.kept_depth) = (Manner::Unknown, 0, false, 0, 0);
        self.statement_at = self.text.len();
    }
}

/// The words of a statement that have been kept, by their places in what is kept.
#[derive(Debug, Default)]
struct Seen {
    places: Box<[(u32, u32)]>,
}

impl Seen {
    fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// Whether a word of this hash is among those that were kept of the statement that begins at `since`.
    #[inline]
    fn has(&self, hash: usize, word: &[u8], text: &[u8], since: usize) -> bool {
        let mut places = self.probed(hash).map_while(|place| self.places.get(place));
        let is_it = |place: &&(u32, u32)| {
            let (from, length) = (place.0 as usize, place.1 as usize);
            from > since && text.get(from..from + length).is_some_and(|kept| is_same(kept, word))
        };
        places.any(|place| is_it(&place))
    }

    /// A word of this hash, which is not among them, will be kept at this place with this length; it is noted if there is room.
    fn note(&mut self, hash: usize, (at, length): (usize, usize), since: usize) {
        if self.places.is_empty() {
            self.places = vec![(0, 0); SEEN_PLACES].into();
        }
        if let Some(free) = self.probed(hash).find(|place| self.places[*place].0 as usize <= since) {
            self.places[free] = (at as u32, length as u32);
        }
    }

    /// The places where a word of this hash may be noted.
    fn probed(&self, hash: usize) -> impl Iterator<Item = usize> + use<> {
        (0..PROBES).map(move |step| (hash + step) % SEEN_PLACES)
    }
}

/// Whether it matters what stands beside this name: together they create a temporary table.
fn is_kept_each(name: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match (name.first().map(|first| first | 0x20), name.len()) {
        (Some(b'i'), 4) => is(b"into"),
        (Some(b't'), 4) => is(b"temp"),
        (Some(b't'), 9) => is(b"temporary"),
        (Some(b'l'), 5) => is(b"local"),
        (Some(b'g'), 6) => is(b"global"),
        _ => false,
    }
}

/// Whether two words are the same. Most are short, and a call of `memcmp` takes longer than to compare them here.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && match one.len() {
            4..8 => (one.first_chunk::<4>(), one.last_chunk::<4>()) == (other.first_chunk(), other.last_chunk()),
            8..=16 => (one.first_chunk::<8>(), one.last_chunk::<8>()) == (other.first_chunk(), other.last_chunk()),
            _ => one == other,
        }
}

/// Fast, and good enough to find a place.
fn hash(word: &[u8]) -> usize {
    let mut hash = word.len() as u64;
    let mut add = |part: u64| hash = (hash.rotate_left(23) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (parts, rest) = word.as_chunks::<8>();
    parts.iter().for_each(|part| add(u64::from_le_bytes(*part)));
    // The last bytes may be read twice.
    add(match (word.last_chunk::<8>(), rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        (Some(last), _, _) => u64::from_le_bytes(*last),
        (None, Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => rest.iter().fold(0, |part, &byte| part << 8 | u64::from(byte)),
    });
    (hash >> 48) as usize
}

/// Statements that read and write tables: which words they have matters, not where or how often.
const BRIEF: [&[u8]; 8] = [b"select", b"insert", b"update", b"delete", b"merge", b"with", b"values", b"table"];
/// A function whose arguments matter.
const SET_CONFIG: &[u8] = b"set_config";
/// A longer value is left out of any statement.
const VALUE_BYTES_MAX: usize = 256;
/// How many words of a statement are noted.
const SEEN_PLACES: usize = 1024;
/// How many places are tried for each.
const PROBES: usize = 8;
