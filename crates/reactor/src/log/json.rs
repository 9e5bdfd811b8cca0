//! A log line as one JSON object (`log_format = json`).
//!
//! Always true: an object is one line; its keys come in a fixed order, and keys without a value are left out; nothing
//! in a value ends a string, begins a line or drives a terminal.
//! Not here: what is worth a line; the text format (`log`).

use std::fmt::Write as _;

use super::subject::Parts;

/// Begins an object, up to where its message goes.
pub(super) fn begin(out: &mut String, time: &str, level: &str, pid: u32, about: Parts<'_>) {
    let _ = write!(out, "{{\"time\":\"{time}\",\"level\":\"{level}\",\"pid\":{pid}");
    let named = [("id", about.id), ("database", about.database), ("user", about.user), ("address", about.address)];
    for (key, value) in named {
        if let Some(value) = value {
            let _ = write!(out, ",\"{key}\":\"");
            push_escaped(out, base::cut(value, super::LINE_BYTES_MAX));
            out.push('"');
        }
    }
    out.push_str(",\"message\":\"");
}

/// Ends the object.
pub(super) fn end(out: &mut String) {
    out.push_str("\"}");
}

/// Appends the contents of a JSON string.
pub(super) fn push_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Some readers take the last two for line ends.
            other if other.is_control() || matches!(other, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_string_ends_it() {
        let mut out = String::new();
        push_escaped(&mut out, "a\"b\\c\nd\te\0f\u{1b}g\u{7f}h\u{85}i\u{2028}j\u{e4}");
        assert_eq!(out, "a\\\"b\\\\c\\nd\\te\\u0000f\\u001bg\\u007fh\\u0085i\\u2028j\u{e4}");
    }

    #[test]
    fn what_a_line_has_nothing_for_is_left_out() {
        let mut out = String::new();
        begin(&mut out, "2026-01-31T12:00:00.123+00:00", "LOG", 7, Parts { user: Some("a\"b"), ..Parts::default() });
        end(&mut out);
        let expected = "{\"time\":\"2026-01-31T12:00:00.123+00:00\",\"level\":\"LOG\",\"pid\":7,\"user\":\"a\\\"b\",\"message\":\"\"}";
        assert_eq!(out, expected);
    }
}
