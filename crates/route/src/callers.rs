//! Which functions of a database mention which, so that a function may do all that the functions it calls may do.
//!
//! Always true: the work is linear in the number of functions and of their mentions of each other.
//! Not here: what a function does by itself (`body`), what follows from it (`functions`).

use crate::words::Words;

/// The names of functions, each once, in their order. Names with a character beyond ASCII are all equal, because the
/// folding of such a character is up to the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Names {
    names: Vec<Box<[u8]>>,
    /// The lengths of names, a bit for each, by the first byte: most words are no function's name, and need no search.
    lengths: Box<[u64; 256]>,
}

impl Names {
    /// Takes names in any order; sorted ones cost least.
    pub(crate) fn new(mut names: Vec<Box<[u8]>>) -> Self {
        names.sort_unstable();
        names.dedup();
        let mut lengths = Box::new([0; 256]);
        for name in names.iter().filter(|name| !name.is_empty()) {
            lengths[usize::from(name[0])] |= 1 << (name.len() % 64);
        }
        Self { names, lengths }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The names at the positions that are marked.
    pub(crate) fn marked(&self, marks: &[bool]) -> impl Iterator<Item = &[u8]> {
        self.names.iter().zip(marks).filter(|(_, is_marked)| **is_marked).map(|(name, _)| &**name)
    }

    pub(crate) fn place(&self, name: &[u8]) -> Option<usize> {
        self.names.binary_search_by(|known| (**known).cmp(key(name))).ok()
    }

    /// The positions of the names that stand in a text, as often as they stand there. A word that is too long for a name,
    /// or written in a rare way, touches the session anyway.
    pub(crate) fn mentioned(&self, words: &Words<'_>) -> impl Iterator<Item = usize> {
        let is_wanted = |first: u8, length: usize| {
            self.lengths[usize::from(key(&[first.to_ascii_lowercase()])[0])] & 1 << (length % 64) != 0
                || !first.is_ascii()
        };
        let names = words.places(is_wanted).filter_map(|at| words.name(at));
        names.filter_map(|name| self.place(name.bytes()))
    }
}

/// The form by which a name is looked up.
pub(crate) fn key(name: &[u8]) -> &[u8] {
    if name.is_ascii() { name } else { FOREIGN }
}

/// Stands for all names with a character beyond ASCII.
const FOREIGN: &[u8] = b"\x80";

/// Which functions mention which, by their positions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mentioned {
    /// The function that is mentioned, and the one that mentions it.
    pairs: Vec<(u32, u32)>,
    /// The function that has mentioned each one last.
    last: Vec<u32>,
}

impl Mentioned {
    pub(crate) fn new(count: usize) -> Self {
        Self { pairs: Vec::new(), last: vec![u32::MAX; count] }
    }

    /// A text of `caller` mentions these. Returns false if there are too many mentions.
    pub(crate) fn add(&mut self, caller: usize, mentioned: impl Iterator<Item = usize>) -> bool {
        for callee in mentioned {
            if std::mem::replace(&mut self.last[callee], caller as u32) != caller as u32 {
                self.pairs.push((callee as u32, caller as u32));
            }
            if self.pairs.len() > PAIRS_MAX {
                return false;
            }
        }
        true
    }

    /// Sorts the pairs by the function that is mentioned.
    pub(crate) fn sorted(self) -> Callers {
        let mut ends = vec![0; self.last.len() + 1];
        self.pairs.iter().for_each(|(callee, _)| ends[*callee as usize] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end;
        }
        // Each caller goes before those of the same function that have been placed, so that `ends` becomes the list of
        // beginnings.
        let mut callers = vec![0; self.pairs.len()];
        for (callee, caller) in self.pairs {
            ends[callee as usize] -= 1;
            callers[ends[callee as usize]] = caller;
        }
        Callers { starts: ends, callers }
    }
}

/// The functions that mention each function.
pub(crate) struct Callers {
    starts: Vec<usize>,
    callers: Vec<u32>,
}

impl Callers {
    /// Marks the functions that call a marked one, directly or not; each is visited once.
    pub(crate) fn mark(&self, marks: &mut [bool]) {
        let mut found: Vec<usize> = (0..marks.len()).filter(|place| marks[*place]).collect();
        while let Some(place) = found.pop() {
            for caller in &self.callers[self.starts[place]..self.starts[place + 1]] {
                if !std::mem::replace(&mut marks[*caller as usize], true) {
                    found.push(*caller as usize);
                }
            }
        }
    }
}

/// How many mentions of each other the functions may have.
const PAIRS_MAX: usize = 1_000_000;
