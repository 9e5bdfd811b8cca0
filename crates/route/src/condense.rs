//! Shortens texts that are too long to be kept: string literals are left out as the text arrives.
//!
//! Always true: what is left is never more harmless than the whole: a parameter stands in the place of a string, and the
//! value of a parameter is unknown.
//! Not here: which texts are shortened (`protocol::loan`).

use crate::lexer::{Dialect, Encoding, Kind, Lexer, Token};

/// Leaves long strings out of the beginning of a text, of which more is to come. A string that has not ended stays open.
pub fn condense(text: &mut Vec<u8>, dialect: Dialect) {
    if dialect.encoding != Encoding::Safe {
        // The last byte may be a part of a character.
        return;
    }
    let tokens: Vec<Token> = Lexer::new(text, dialect).collect();
    let (mut short, mut from) = (Vec::new(), 0);
    for (place, token) in tokens.iter().enumerate() {
        let (range, is_last) = (token.range(), place + 1 == tokens.len());
        // The last string may go on.
        let is_whole = matches!(token.kind, Kind::String | Kind::Dollar) && !is_last;
        let is_open = token.kind == Kind::Broken && text[range.start] == b'\'' && !dialect.backslashes;
        if is_whole && range.len() > STRING_BYTES_MAX {
            short.extend_from_slice(&text[from..range.start]);
            short.extend_from_slice(b" $0 ");
            from = range.end;
        } else if is_open {
            short.extend_from_slice(&text[from..range.start]);
            // The string that will end there lacks its beginning.
            short.extend_from_slice(b" $0 '");
            from = text.len();
        }
    }
    short.extend_from_slice(&text[from..]);
    *text = short;
}

/// A longer string is left out.
const STRING_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::classify;
    use crate::dirty_state::DirtyState;
    use crate::knowledge::Knowledge;

    /// A text as it arrives in pieces of this size.
    fn told(text: &str, size: usize, dialect: Dialect) -> Vec<u8> {
        let mut come = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            come.extend_from_slice(piece);
            condense(&mut come, dialect);
        }
        come
    }

    fn touches(text: &[u8], dialect: Dialect) -> DirtyState {
        classify(text, dialect, Some(&Knowledge::default())).touches
    }

    #[test]
    fn a_long_value_is_left_out_and_what_stands_beside_it_is_not() {
        let long = "it''s; SET a = 1; ".repeat(100);
        for size in [1, 2, 3, 7, 100, 1500] {
            let text = format!("INSERT INTO t VALUES ('{long}', 'short', $$ {long} $$); SELECT 1");
            let short = told(&text, size, Dialect::default());
            assert!(touches(&short, Dialect::default()).is_nothing(), "{size}");
            assert!(size < 5 || short.len() < text.len() / 2, "{size}: {}", short.len());
            let text = format!("INSERT INTO t VALUES ('{long}'); SET b = 2");
            assert_eq!(
                touches(&told(&text, size, Dialect::default()), Dialect::default()),
                DirtyState::SETTINGS,
                "{size}"
            );
        }
    }

    #[test]
    fn what_is_left_out_of_a_text_that_does_it_is_anything() {
        let long = "x".repeat(1000);
        for text in [
            format!("DO 'begin /* {long} */ end'; SELECT 1"),
            format!("DO $$ begin /* {long} */ end $$; SELECT 1"),
            format!("SELECT set_config('{long}', 'x', false)"),
        ] {
            let touches = touches(&told(&text, 10, Dialect::default()), Dialect::default());
            assert!(touches.has(DirtyState::ANY_SETTING), "{text}: {touches:?}");
        }
    }

    /// However a text is shortened, nothing that was not harmless becomes so.
    #[test]
    fn nothing_becomes_harmless() {
        let parts = [
            "'",
            "''",
            "'a'",
            "\n",
            " ",
            "SET x = 1",
            ";",
            "$$",
            "$a$",
            "E'",
            "\\",
            "--",
            "/*",
            "*/",
            "\"",
            "SELECT",
            "1",
            "do",
            "x'",
            "U&'",
        ];
        let mut random = 1_u64;
        let mut next = |count: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % count
        };
        let mut harmful = 0;
        for _ in 0..50_000 {
            let filler = if next(2) == 0 { "y".repeat(300) } else { String::new() };
            let count = next(9) + 1;
            let text: String = (0..count).map(|_| [parts[next(parts.len())], &filler].concat()).collect();
            let dialect = Dialect { backslashes: next(2) == 0, ..Dialect::default() };
            let (short, size) = (|size| told(&text, size, dialect), next(400) + 1);
            if !touches(text.as_bytes(), dialect).is_nothing() {
                harmful += 1;
                assert!(!touches(&short(size), dialect).is_nothing(), "{text:?} in pieces of {size}");
            }
        }
        assert!(harmful > 10_000, "{harmful}");
    }
}
