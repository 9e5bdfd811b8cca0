//! Calls of `set_config`: which setting they name, and whether it ends with its transaction.
//!
//! Always true: a statement is scanned once, however many calls stand in it and in each other.
//! Not here: what follows from it for the statement (`classify`).

use std::collections::BTreeSet;

use crate::setting;
use crate::words::Words;

/// What a call of `set_config` does.
pub(crate) enum Configured {
    /// What it sets ends with its transaction.
    Local,
    /// It sets this for the rest of the session.
    Named(Box<str>),
    /// It may set anything.
    Unclear,
}

impl Configured {
    /// Reads the arguments `('name', ..., local)`, whose parenthesis stands here.
    pub(crate) fn read(words: &Words<'_>, open: usize, local: &LocalCalls) -> Self {
        match () {
            // A name that is not called, or a call in another notation.
            () if !words.is_symbol(open, b"(") => Self::Unclear,
            () if local.opens.contains(&open) => Self::Local,
            () => setting::configured_name(words, open).map_or(Self::Unclear, |name| Self::Named(name.into())),
        }
    }
}

/// The calls in a statement whose last argument is `true`.
pub(crate) struct LocalCalls {
    /// The positions of their opening parentheses.
    opens: BTreeSet<usize>,
}

impl LocalCalls {
    pub(crate) fn of(words: &Words<'_>) -> Self {
        let mut opens = BTreeSet::new();
        // The open calls: their depth, the position of their parenthesis, and that of their last comma.
        let (mut calls, mut depth): (Vec<(i64, usize, usize)>, i64) = (Vec::new(), 0);
        for at in 0..words.end() {
            match words.text(at) {
                Some(b"(" | b"[") => {
                    depth += 1;
                    let is_call = at > 0 && words.name(at - 1).is_some_and(|name| name.bytes() == b"set_config");
                    if is_call && words.is_symbol(at, b"(") {
                        calls.push((depth, at, at));
                    }
                }
                Some(b")" | b"]") => {
                    if let Some((_, open, last)) = calls.pop_if(|(own, ..)| *own == depth)
                        && words.is(last + 1, "true")
                        && last + 2 == at
                    {
                        opens.insert(open);
                    }
                    depth -= 1;
                }
                Some(b",") => {
                    if let Some((_, _, last)) = calls.last_mut().filter(|(own, ..)| *own == depth) {
                        *last = at;
                    }
                }
                _ => {}
            }
        }
        Self { opens }
    }
}
