//! Counts with their nouns, for sentences.

use std::fmt::Display;

/// Formats a count with its noun, which has a regular plural: `1 server`, `2 servers`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "server")), ["0 servers", "1 server", "2 servers"]);
    }
}
