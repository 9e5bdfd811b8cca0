//! Shortens texts.
//!
//! Not here: other omissions in log lines (`reactor`).

/// The beginning of a text, of at most `bytes_max` bytes and ending at a character boundary. For texts of any length that
/// come from unauthenticated peers.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_the_end_of_a_character() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("short", 3), "sho");
        assert_eq!(cut("a\u{e4}", 2), "a");
        assert_eq!(cut("\u{1f600}", 3), "");
    }
}
