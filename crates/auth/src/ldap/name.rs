//! Escapes a user name for use in a distinguished name.
//!
//! Always true: any escaped text is a single attribute value (RFC 4514).
//! Not here: the rest of the distinguished name.

/// A value with a backslash before each character that is special in a distinguished name.
pub(super) fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for (place, character) in value.char_indices() {
        let is_first = place == 0;
        let is_last = place + character.len_utf8() == value.len();
        match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => escaped.extend(['\\', character]),
            '#' if is_first => escaped.push_str("\\#"),
            ' ' if is_first || is_last => escaped.push_str("\\ "),
            '\0' => escaped.push_str("\\00"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_a_name_has_none_in_a_value() {
        for (value, expected) in [
            ("ann", "ann"),
            ("Ann O'Neill = x #2", "Ann O'Neill = x #2"),
            ("ann,ou=admins", "ann\\,ou=admins"),
            ("a+b\"c\\d<e>f;g", "a\\+b\\\"c\\\\d\\<e\\>f\\;g"),
            ("#1", "\\#1"),
            (" a b ", "\\ a b\\ "),
            (" ", "\\ "),
            ("a\0", "a\\00"),
            ("Å,ß", "Å\\,ß"),
            ("", ""),
        ] {
            assert_eq!(escaped(value), expected, "{value:?}");
        }
    }
}
