//! The demo's output: lines, a temporary line of progress, paragraphs.
//!
//! Always true: without a terminal there are no control sequences, and each step of progress is printed once, on a line
//! of its own.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};

/// The output of the demo.
#[derive(Debug)]
pub(super) struct Screen {
    is_terminal: bool,
    step: RefCell<String>,
}

impl Screen {
    /// Standard output.
    pub(super) fn of_stdout() -> Self {
        Self { is_terminal: io::stdout().is_terminal(), step: RefCell::default() }
    }

    /// Prints a line.
    pub(super) fn say(&self, line: &str) {
        self.clear_progress();
        write(&format!("{line}\n"));
    }

    /// Prints lines.
    pub(super) fn lines(&self, lines: &[String]) {
        for line in lines {
            self.say(line);
        }
    }

    /// Prints a text, indented.
    pub(super) fn quote(&self, text: &str) {
        for line in text.lines() {
            self.say(&format!("    {line}"));
        }
    }

    /// Prints prose, broken into lines.
    pub(super) fn paragraph(&self, text: &str) {
        self.lines(&wrapped(text, WIDTH));
    }

    /// Shows the current step and its state until the next output.
    pub(super) fn progress(&self, step: &str, state: &str) {
        let is_new = self.step.replace(step.to_owned()) != step;
        if self.is_terminal {
            write(&format!("{CLEAR}  {step}{state}"));
        } else if is_new {
            write(&format!("  {step}\n"));
        }
    }

    /// Removes the line of progress.
    pub(super) fn clear_progress(&self) {
        if self.is_terminal && !self.step.take().is_empty() {
            write(CLEAR);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear_progress();
    }
}

/// Errors are ignored: a reader that has ended (`| head`) must not keep the demo from cleaning up.
fn write(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

fn wrapped(text: &str, wide: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= wide => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

const CLEAR: &str = "\r\x1b[2K";
const WIDTH: usize = 84;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_between_words() {
        assert_eq!(wrapped("one two  three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
    }
}
