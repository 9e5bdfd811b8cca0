//! The search on stable: inputs until one fails, then the shortest part of it that still fails.
//!
//! Always true: a failure is a panic at a place in our sources; shrinking keeps the place, so it ends with the failure
//! that it began with.
//! Not here: how long a search takes (`main`, the smoke run), and where failing inputs are kept (`main`).

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::Target;

/// Why an input failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The file and line that panicked.
    pub place: String,
    /// The text of the panic.
    pub words: String,
}

/// Runs a target once.
///
/// # Errors
/// The panic of the target.
pub fn attempt(target: &Target, input: &[u8]) -> Result<(), Failure> {
    keep_last_words();
    LAST_WORDS.with_borrow_mut(|words| *words = Words::Kept(None));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let kept = LAST_WORDS.replace(Words::Said);
    match (outcome, kept) {
        (Ok(()), _) => Ok(()),
        (Err(_), Words::Kept(Some(failure))) => Err(failure),
        (Err(_), _) => Err(Failure { place: "somewhere".to_owned(), words: "a panic without words".to_owned() }),
    }
}

/// Returns the shortest input found that fails at the same place.
#[must_use]
pub fn shrink(target: &Target, input: &[u8], failure: &Failure) -> Vec<u8> {
    let still_fails = |input: &[u8]| attempt(target, input).is_err_and(|found| found.place == failure.place);
    let mut best = input.to_vec();
    let mut tries_left = TRIES_MAX;
    let mut size = best.len().next_power_of_two();
    while size > 0 && tries_left > 0 {
        let mut at = 0;
        let before = best.len();
        while at < best.len() && tries_left > 0 {
            let mut shorter = best.clone();
            shorter.drain(at..(at + size).min(best.len()));
            tries_left -= 1;
            if still_fails(&shorter) {
                best = shorter;
            } else {
                at += size;
            }
        }
        // A piece that was needed before may be unnecessary now.
        size = if best.len() < before && size == 1 { 1 } else { size / 2 };
    }
    best
}

/// Keeps panics inside [`attempt`] off standard error: a search that shrinks would print thousands of them.
fn keep_last_words() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |told| {
            let is_kept = LAST_WORDS.with_borrow_mut(|words| match words {
                Words::Said => false,
                Words::Kept(kept) => {
                    let place =
                        told.location().map_or_else(String::new, |place| format!("{}:{}", place.file(), place.line()));
                    let said = told.payload();
                    let words = said.downcast_ref::<&str>().map(|words| (*words).to_owned());
                    let words = words.or_else(|| said.downcast_ref::<String>().cloned()).unwrap_or_default();
                    kept.get_or_insert(Failure { place, words });
                    true
                }
            });
            if !is_kept {
                before(told);
            }
        }));
    });
}

/// What happens to the text of a panic of this thread.
enum Words {
    /// It is printed to standard error, as usual.
    Said,
    /// It is kept here.
    Kept(Option<Failure>),
}

thread_local! {
    static LAST_WORDS: RefCell<Words> = const { RefCell::new(Words::Said) };
}

/// Enough for inputs of some thousand bytes.
const TRIES_MAX: u32 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    const PICKY: Target =
        Target { name: "picky", run: |input| assert!(!input.contains(&b'!'), "no"), words: &[], bytes_max: 99 };

    #[test]
    fn a_failure_has_a_place_and_words() {
        assert_eq!(attempt(&PICKY, b"fine"), Ok(()));
        let failure = attempt(&PICKY, b"not fine!").expect_err("a panic");
        assert!(failure.place.contains("search.rs:"), "{failure:?}");
        assert_eq!(failure.words, "no");
    }

    #[test]
    fn a_failing_input_is_shrunk_to_what_fails() {
        let failure = attempt(&PICKY, b"a long one!").expect_err("a panic");
        assert_eq!(shrink(&PICKY, b"some words ! and more of them", &failure), b"!");
    }
}
