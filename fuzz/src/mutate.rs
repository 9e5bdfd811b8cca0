//! New inputs from old ones: flips bits, cuts, copies and splices pieces, inserts lengths and words.
//!
//! Always true: the same seed and the same corpus give the same inputs in the same order.
//! Not here: which inputs are worth keeping, which nobody knows without a compiler that counts branches.

use base::Random;

/// A source of inputs.
pub struct Mutator<'c> {
    random: Random,
    corpus: &'c [Vec<u8>],
    words: &'c [&'c [u8]],
    bytes_max: usize,
}

impl<'c> Mutator<'c> {
    /// Makes inputs from these; `words` are words of the target's language.
    #[must_use]
    pub fn new(seed: u64, corpus: &'c [Vec<u8>], words: &'c [&'c [u8]], bytes_max: usize) -> Self {
        Self { random: Random::new(seed), corpus, words, bytes_max }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = match self.below(32) {
            0 => Vec::new(),
            _ => self.old().to_vec(),
        };
        // Mostly few changes, sometimes many.
        let changes = 1 + self.below(3) + if self.below(4) == 0 { self.below(24) } else { 0 };
        for _ in 0..changes {
            self.change(&mut input);
        }
        input.truncate(self.bytes_max);
        input
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// A position in an input, its end included.
    fn place(&mut self, input: &[u8]) -> usize {
        self.below(input.len() + 1)
    }

    /// A piece of an input; short ones are more likely.
    fn piece(&mut self, input: &[u8]) -> std::ops::Range<usize> {
        let start = self.place(input);
        let longest = input.len() - start;
        let longest = if self.below(2) == 0 { longest.min(8) } else { longest };
        start..start + self.below(longest + 1)
    }

    fn old(&mut self) -> &'c [u8] {
        match self.corpus.len() {
            0 => &[],
            count => {
                let which = self.below(count);
                &self.corpus[which]
            }
        }
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        match self.below(13) {
            0 | 1 => self.flip(input),
            2 => self.set(input),
            3 => {
                let piece = self.piece(input);
                input.drain(piece);
            }
            4 => {
                let at = self.place(input);
                let bytes: Vec<u8> = (0..=self.below(8)).map(|_| self.random.next_u64() as u8).collect();
                input.splice(at..at, bytes);
            }
            5 => {
                let (piece, at) = (self.piece(input), self.place(input));
                let bytes = input[piece].to_vec();
                for _ in 0..=self.below(3) {
                    input.splice(at..at, bytes.iter().copied());
                }
            }
            6 => self.splice(input),
            7 => self.put_length(input),
            8 => self.put_number(input),
            9 => {
                let end = self.place(input);
                input.truncate(end);
            }
            _ => self.put_word(input),
        }
        // Copies of copies grow fast.
        input.truncate(2 * self.bytes_max);
    }

    fn flip(&mut self, input: &mut [u8]) {
        if !input.is_empty() {
            let at = self.below(input.len());
            input[at] ^= 1 << self.below(8);
        }
    }

    fn set(&mut self, input: &mut [u8]) {
        if !input.is_empty() {
            let at = self.below(input.len());
            input[at] = BYTES[self.below(BYTES.len())];
        }
    }

    /// The beginning of this input and the end of another, or a piece of the other in the middle.
    fn splice(&mut self, input: &mut Vec<u8>) {
        let other = self.old();
        let piece = if self.below(2) == 0 { self.place(other)..other.len() } else { self.piece(other) };
        let from = self.place(input);
        let to = if self.below(2) == 0 { input.len() } else { from };
        input.splice(from..to, other[piece].iter().copied());
    }

    /// A length as in messages, often wrong by a little.
    fn put_length(&mut self, input: &mut Vec<u8>) {
        let at = self.place(input);
        let length = match self.below(3) {
            0 => (input.len() - at) as u32,
            1 => ((input.len() - at) as u32).wrapping_add(self.below(9) as u32).wrapping_sub(4),
            _ => LENGTHS[self.below(LENGTHS.len())],
        };
        let end = if self.below(4) == 0 { at } else { (at + 4).min(input.len()) };
        input.splice(at..end, length.to_be_bytes());
    }

    /// Replaces a number in digits by another one.
    fn put_number(&mut self, input: &mut Vec<u8>) {
        let at = self.place(input);
        let Some(start) = input[at..].iter().position(u8::is_ascii_digit) else { return };
        let start = at + start;
        let end = input[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(input.len(), |end| start + end);
        let number = NUMBERS[self.below(NUMBERS.len())];
        input.splice(start..end, number.bytes());
    }

    fn put_word(&mut self, input: &mut Vec<u8>) {
        if self.words.is_empty() {
            return;
        }
        let word = self.words[self.below(self.words.len())];
        let at = self.place(input);
        let end = if self.below(2) == 0 { at } else { (at + word.len()).min(input.len()) };
        input.splice(at..end, word.iter().copied());
    }
}

const BYTES: [u8; 14] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b'\r', b' ', b'\'', b'"', b'\\', b'=', b';', b','];
const LENGTHS: [u32; 14] = [0, 1, 3, 4, 5, 8, 9, 260, 10_000, 10_001, 65_536, 0x4000_0000, 0x7fff_ffff, 0xffff_ffff];
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "00",
    "08",
    "-1",
    "+1",
    "4095",
    "4096",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "1e400",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let corpus = [b"Q\0\0\0\x0dselect 1\0".to_vec(), b"X\0\0\0\x04".to_vec()];
        let words: [&[u8]; 2] = [b"Z", b"begin"];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed, &corpus, &words, 64);
            (0..500).map(|_| mutator.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(7), inputs(7));
        assert_ne!(inputs(7), inputs(8));
        assert!(inputs(7).iter().all(|input| input.len() <= 64));
    }

    #[test]
    fn an_empty_corpus_gives_inputs_too() {
        let mut mutator = Mutator::new(1, &[], &[], 64);
        assert!((0..100).any(|_| !mutator.next_input().is_empty()));
    }
}
