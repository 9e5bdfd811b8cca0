//! A command of the program that needs no pooler, run as an operator runs it.

use std::time::Duration;

use tests::program::{Ended, run};
use tests::runner::skip;
use tests::wait::LIMIT;

use crate::house::House;

pub(crate) struct Command<'h> {
    house: &'h House,
    word: &'static str,
}

impl<'h> Command<'h> {
    /// The command of this word, unless another pooler is tested.
    pub(crate) fn of(house: &'h House, word: &'static str) -> Option<Self> {
        if !house.place.is_trunkline() {
            skip("only Trunkline has such a command");
            return None;
        }
        Some(Self { house, word })
    }

    /// Writes a file for it, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.house.place.directory().join(name);
        self.house.place.write(&path, text);
        path.display().to_string()
    }

    /// Runs it with these words; `--check` stands in place of its own word.
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        self.run_within(words, LIMIT)
    }

    /// Runs what takes its time.
    pub(crate) fn run_within(&self, words: &[&str], limit: Duration) -> Ended {
        let mut command = self.house.place.command(self.house.place.pooler(), "KILL");
        if words.first() != Some(&"--check") {
            command.arg(self.word);
        }
        run(command.args(words), limit)
    }
}
