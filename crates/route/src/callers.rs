//! Which functions of a database mention which, so that what one may do, all may do that call it.
//!
//! Always true: the work grows with the functions and with how often they mention each other, not with its square.
//! Not here: what a function does by itself (`body`), what follows from it (`touch`).

use crate::words::Words;

/// The names of functions, each once, by their places in the alphabet. Those with a letter beyond ASCII are all alike: how such a letter is
/// made small is the server's business.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Names {
    names: Vec<Box<[u8]>>,
    /// Which lengths there are, a bit for each, by the first byte: most words are no function's name, and need no search.
    lengths: Box<[u64; 256]>,
}

impl Names {
    /// Of these, in any order; where they stand in order already, that costs least.
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

    /// The names at the places that are marked.
    pub(crate) fn marked(&self, marks: &[bool]) -> impl Iterator<Item = &[u8]> {
        self.names.iter().zip(marks).filter(|(_, is_marked)| **is_marked).map(|(name, _)| &**name)
    }

    pub(crate) fn place(&self, name: &[u8]) -> Option<usize> {
        self.names.binary_search_by(|known| (**known).cmp(key(name))).ok()
    }

    /// The places of the names that stand in a text, as often as they stand there. What is too long to be one, or written in a rare way, touches
    /// the session anyway.
    pub(crate) fn mentioned(&self, words: &Words<'_>) -> impl Iterator<Item = usize> {
        let is_wanted = |first: u8, length: usize| {
            self.lengths[usize::from(key(&[first.to_ascii_lowercase()])[0])] & 1 << (length % 64) != 0
                || !first.is_ascii()
        };
        let names = words.places(is_wanted).filter_map(|at| words.name(at));
        names.filter_map(|name| self.place(name.bytes()))
    }
}

/// What a name is found by.
pub(crate) fn key(name: &[u8]) -> &[u8] {
    if name.is_ascii() { name } else { FOREIGN }
}

/// In the place of all names with a letter beyond ASCII.
const FOREIGN: &[u8] = b"\x80";

/// Who mentions whom, by their places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mentioned {
    /// Who is mentioned, and by whom.
    pairs: Vec<(u32, u32)>,
    /// By whom each has been mentioned last.
    last: Vec<u32>,
}

impl Mentioned {
    pub(crate) fn new(count: usize) -> Self {
        Self { pairs: Vec::new(), last: vec![u32::MAX; count] }
    }

    /// One text of `caller` mentions these. False if there are too many.
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

    /// In the order of who is mentioned.
    pub(crate) fn sorted(self) -> Callers {
        let mut ends = vec![0; self.last.len() + 1];
        self.pairs.iter().for_each(|(callee, _)| ends[*callee as usize] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end;
        }
        // Each goes before those of its kind that have been placed, so that in the end they begin where the ends have been.
        let mut callers = vec![0; self.pairs.len()];
        for (callee, caller) in self.pairs {
            ends[callee as usize] -= 1;
            callers[ends[callee as usize]] = caller;
        }
        Callers { starts: ends, callers }
    }
}

/// By whom each is mentioned.
pub(crate) struct Callers {
    starts: Vec<usize>,
    callers: Vec<u32>,
}

impl Callers {
    /// Marks who calls somebody marked, directly or not: each is looked at once.
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

/// So often functions may mention each other.
const PAIRS_MAX: usize = 1_000_000;
