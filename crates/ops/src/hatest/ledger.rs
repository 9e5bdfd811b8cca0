//! What one writer knows of its writes, and the comparison with what is in the table.
//!
//! Always true: a write is unknown until an answer to it was read, so that whatever ends a run early leaves no write
//! that counts as acknowledged or refused without an answer. Each write takes two bits.
//! Not here: reading the table (`verify`).

/// How a write ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The server acknowledged it.
    Acked,
    /// The server refused it, so it is not there.
    Refused,
    /// The row was there already (23505). A writer sends each row once, so somebody else sent it again.
    Doubled,
    /// The connection ended before an answer, or with one that says nothing about the write.
    Unknown,
}

/// The writes of one writer, numbered from 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    sent: u64,
    /// Of each 64 writes: which were acknowledged, and which were refused. A write that is both was doubled.
    words: Vec<Word>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    acked: u64,
    refused: u64,
}

/// Rows that the table has: a bit for each write.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RowSet {
    words: Vec<u64>,
    /// Rows that are there more than once, beyond the first of each.
    doubled: u64,
    /// Rows that no write of this run can have made.
    strange: u64,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Compared {
    /// Acknowledged, but absent.
    pub(crate) lost: u64,
    /// Refused or never sent, but present.
    pub(crate) phantom: u64,
    /// Of unknown outcome, and present.
    pub(crate) unknown_present: u64,
    /// Of unknown outcome, and absent.
    pub(crate) unknown_absent: u64,
    /// Done more than once.
    pub(crate) duplicate: u64,
    /// The lost writes as ranges, first and last number, at most [`RANGES_MAX`].
    pub(crate) lost_ranges: Vec<(u64, u64)>,
}

impl Ledger {
    /// Begins a write, and returns its number.
    pub(crate) fn begin(&mut self) -> u64 {
        let number = self.sent;
        self.sent += 1;
        if self.words.len() as u64 * 64 < self.sent {
            self.words.push(Word::default());
        }
        number
    }

    /// Notes how a write ended that was begun.
    pub(crate) fn end(&mut self, number: u64, outcome: Outcome) {
        debug_assert!(number < self.sent, "a write that was not begun has ended");
        let Some(word) = usize::try_from(number / 64).ok().and_then(|at| self.words.get_mut(at)) else { return };
        let bit = 1 << (number % 64);
        word.acked |= if matches!(outcome, Outcome::Acked | Outcome::Doubled) { bit } else { 0 };
        word.refused |= if matches!(outcome, Outcome::Refused | Outcome::Doubled) { bit } else { 0 };
    }

    /// The number of writes that were begun.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The number of writes with an outcome.
    pub(crate) fn count(&self, outcome: Outcome) -> u64 {
        let bits = |at: usize| self.select(at, outcome).count_ones();
        (0..self.words.len()).map(|at| u64::from(bits(at))).sum()
    }

    /// Compares the writes with the rows of the table.
    pub(crate) fn compare(&self, present: &RowSet) -> Compared {
        let mut compared = Compared { duplicate: present.doubled, phantom: present.strange, ..Compared::default() };
        for at in 0..self.words.len().max(present.words.len()) {
            let there = present.words.get(at).copied().unwrap_or(0);
            let of = |outcome| self.select(at, outcome);
            let lost = of(Outcome::Acked) & !there;
            let count = |bits: u64| u64::from(bits.count_ones());
            compared.lost += count(lost);
            compared.phantom += count((of(Outcome::Refused) | !self.begun(at)) & there);
            compared.unknown_present += count(of(Outcome::Unknown) & there);
            compared.unknown_absent += count(of(Outcome::Unknown) & !there);
            compared.duplicate += count(of(Outcome::Doubled));
            (0..64).filter(|bit| lost >> bit & 1 == 1).for_each(|bit| compared.note_lost(at as u64 * 64 + bit));
        }
        compared
    }

    /// The writes with an outcome among 64.
    fn select(&self, at: usize, outcome: Outcome) -> u64 {
        let Word { acked, refused } = self.words.get(at).copied().unwrap_or_default();
        match outcome {
            Outcome::Acked => acked & !refused,
            Outcome::Refused => refused & !acked,
            Outcome::Doubled => acked & refused,
            Outcome::Unknown => !acked & !refused & self.begun(at),
        }
    }

    /// Which of 64 writes were begun.
    fn begun(&self, at: usize) -> u64 {
        match self.sent.saturating_sub(at as u64 * 64) {
            0 => 0,
            left if left >= 64 => u64::MAX,
            left => (1 << left) - 1,
        }
    }
}

impl RowSet {
    /// Notes some rows among 64: word `at`, `count` rows, whose numbers are `bits`. Numbers above `sent` writes take no
    /// room, because no writer has written them.
    pub(crate) fn note(&mut self, at: i64, count: u64, bits: u64, sent: u64) {
        let words_max = usize::try_from(sent.div_ceil(64)).unwrap_or(usize::MAX);
        let Some(at) = usize::try_from(at).ok().filter(|at| *at < words_max) else {
            self.strange = self.strange.saturating_add(count);
            return;
        };
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        let again = u64::from((self.words[at] & bits).count_ones());
        self.words[at] |= bits;
        self.doubled = self.doubled.saturating_add(again + count.saturating_sub(u64::from(bits.count_ones())));
    }

    /// The number of rows that are here, but not there.
    pub(crate) fn beyond(&self, there: &Self) -> u64 {
        let there = there.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(there).map(|(here, there)| u64::from((here & !there).count_ones())).sum()
    }
}

impl Compared {
    fn note_lost(&mut self, number: u64) {
        let has_room = self.lost_ranges.len() < RANGES_MAX;
        match self.lost_ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ if has_room => self.lost_ranges.push((number, number)),
            _ => {}
        }
    }
}

/// Most ranges of lost writes that are kept of one writer.
pub(crate) const RANGES_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(outcomes: &[Outcome]) -> Ledger {
        let mut ledger = Ledger::default();
        for outcome in outcomes {
            let number = ledger.begin();
            ledger.end(number, *outcome);
        }
        ledger
    }

    fn present(numbers: &[u64], sent: u64) -> RowSet {
        let mut present = RowSet::default();
        for number in numbers {
            present.note((number / 64) as i64, 1, 1 << (number % 64), sent);
        }
        present
    }

    #[test]
    fn each_kind_of_difference_is_told_apart() {
        use Outcome::{Acked, Doubled, Refused, Unknown};
        let ledger = ledger(&[Acked, Acked, Refused, Refused, Unknown, Unknown, Doubled]);
        let compared = ledger.compare(&present(&[0, 2, 4, 6], 7));
        let wanted = Compared {
            lost: 1,
            phantom: 1,
            unknown_present: 1,
            unknown_absent: 1,
            duplicate: 1,
            lost_ranges: vec![(1, 1)],
        };
        assert_eq!(compared, wanted);
        assert_eq!([Acked, Refused, Unknown, Doubled].map(|outcome| ledger.count(outcome)), [2, 2, 2, 1]);
    }

    #[test]
    fn a_write_without_an_answer_is_unknown() {
        let mut ledger = Ledger::default();
        ledger.begin();
        assert_eq!((ledger.sent(), ledger.count(Outcome::Unknown)), (1, 1));
        assert_eq!(ledger.compare(&RowSet::default()).unknown_absent, 1);
    }

    #[test]
    fn lost_writes_are_told_as_ranges_across_words() {
        let ledger = ledger(&[Outcome::Acked; 200]);
        let there: Vec<u64> = (0..200).filter(|number| !(60..=130).contains(number) && *number != 150).collect();
        let compared = ledger.compare(&present(&there, 200));
        assert_eq!((compared.lost, compared.lost_ranges), (72, vec![(60, 130), (150, 150)]));
        let scattered: Vec<u64> = (0..200).step_by(2).collect();
        let compared = ledger.compare(&present(&scattered, 200));
        assert_eq!((compared.lost, compared.lost_ranges.len()), (100, RANGES_MAX));
    }

    #[test]
    fn rows_that_are_there_twice_are_duplicates() {
        let ledger = ledger(&[Outcome::Acked; 3]);
        let mut rows = RowSet::default();
        rows.note(0, 5, 0b111, 3);
        assert_eq!(ledger.compare(&rows).duplicate, 2);
        rows.note(0, 1, 0b001, 3);
        assert_eq!(ledger.compare(&rows).duplicate, 3);
    }

    #[test]
    fn rows_that_nobody_wrote_are_phantoms_and_take_no_room() {
        let ledger = ledger(&[Outcome::Acked]);
        let mut rows = RowSet::default();
        rows.note(i64::MAX, 2, 0b11, 1);
        rows.note(-1, 1, 1, 1);
        rows.note(0, 2, 0b11, 1);
        assert_eq!((rows.words.len(), ledger.compare(&rows).phantom), (1, 4));
        assert_eq!(ledger.compare(&rows).lost, 0);
    }

    #[test]
    fn divergence_is_what_only_the_old_primary_has() {
        let (old, new) = (present(&[0, 1, 70], 100), present(&[0, 5], 100));
        assert_eq!((old.beyond(&new), new.beyond(&old)), (2, 1));
    }
}
