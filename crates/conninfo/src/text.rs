//! Text from a server, made safe for a terminal.

use std::fmt::Write as _;

/// Makes a text safe for a terminal: control characters, and characters that change the direction or have no width, are
/// escaped, and the text is truncated after [`CLEAN_CHARS_MAX`].
#[must_use]
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len().min(CLEAN_CHARS_MAX));
    for (at, character) in text.chars().enumerate() {
        if at == CLEAN_CHARS_MAX {
            cleaned.push_str("...");
            break;
        }
        // Writing to a string cannot fail.
        let _ = match character {
            '\n' => write!(cleaned, "\\n"),
            '\t' => write!(cleaned, "\\t"),
            '\r' => write!(cleaned, "\\r"),
            character if character.is_ascii_control() => write!(cleaned, "\\x{:02x}", u32::from(character)),
            character if is_unseen(character) => write!(cleaned, "\\u{{{:x}}}", u32::from(character)),
            character => write!(cleaned, "{character}"),
        };
    }
    cleaned
}

/// Whether a character has an effect instead of a visible form.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(u32::from(character),
            0xad | 0x61c | 0x115f | 0x1160 | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164
            | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0xe0000..=0xe0fff)
}

/// Most characters kept of one text.
pub const CLEAN_CHARS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        assert_eq!(clean("\x1b]0;owned\x07"), "\\x1b]0;owned\\x07");
        assert_eq!(clean("a\nb\tc\r\u{9b}31m\u{7f}"), "a\\nb\\tc\\r\\u{9b}31m\\x7f");
        assert_eq!(clean("abc\u{202e}fed\u{200b}"), "abc\\u{202e}fed\\u{200b}");
        assert_eq!(clean("naïve 日本 🐘"), "naïve 日本 🐘");
    }

    #[test]
    fn long_values_are_cut() {
        let cut = clean(&"x".repeat(CLEAN_CHARS_MAX + 1));
        assert_eq!((cut.len(), cut.ends_with("x...")), (CLEAN_CHARS_MAX + 3, true));
        assert_eq!(clean(&"x".repeat(CLEAN_CHARS_MAX)).len(), CLEAN_CHARS_MAX);
    }
}
