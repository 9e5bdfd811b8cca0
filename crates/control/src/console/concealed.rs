//! Formats errors of servers for a trace, without parts that may be values.
//!
//! Always true: without `trace_values` no part of a message is shown that PostgreSQL may have taken from a value:
//! quoted parts that are not names in the request, numbers, and every message that a user's function may have worded. A
//! message that is not plain ASCII, such as a translated one, is not shown.
//! Not here: requests (`happening`).

use route::mentions;
use worker::letters::Failed;

use super::happening::plain;

/// Formats an error as one line.
pub(super) fn error(failed: &Failed) -> String {
    let state: String = failed.state.iter().map(|byte| char::from(*byte)).collect();
    let field = |kind: u8| {
        let fields = failed.body.split(|byte| *byte == 0);
        fields.filter_map(|field| field.split_first()).find(|(first, _)| **first == kind).map(|(_, text)| text)
    };
    let Some(message) = field(b'M').map(String::from_utf8_lossy) else { return format!("error {state}") };
    let shown = if speaks_of_password(&failed.body) || speaks_of_password(&failed.text) {
        None
    } else if failed.shows_values {
        let detail = field(b'D').map(|detail| format!(" ({})", String::from_utf8_lossy(detail)));
        Some(format!("{message}{}", detail.unwrap_or_default()))
    } else {
        let routine = String::from_utf8_lossy(field(b'R').unwrap_or_default());
        let is_of_user = WORDED_BY_USERS.iter().any(|known| routine.starts_with(known));
        let is_known = CLASSES.iter().any(|class| state.starts_with(class));
        let is_name = |name: &str| mentions(&failed.text, failed.dialect, name);
        if is_known && !is_of_user { without_values(&message, is_name) } else { None }
    };
    match shown {
        Some(shown) => format!("error {state}: {}", plain(&shown)),
        None => format!("error {state}"),
    }
}

/// Removes what may be a value from a message. `None` if that is impossible.
fn without_values(message: &str, is_name: impl Fn(&str) -> bool) -> Option<String> {
    let mut shown = String::new();
    let mut rest = message;
    while let Some((before, behind)) = rest.split_once('"') {
        shown.push_str(before);
        match behind.split_once('"') {
            Some((name, after)) if is_name(name) => {
                shown.push('"');
                shown.push_str(name);
                shown.push('"');
                rest = after;
            }
            // The quoted part may contain quotes itself, so everything up to the last quote may belong to it.
            _ => {
                shown.push_str("\"?\"");
                rest = rest.rsplit_once('"').map_or("", |(_, after)| after);
                break;
            }
        }
    }
    shown.push_str(rest);
    let is_plain = shown.chars().all(|char| char.is_ascii() && char != '\'');
    is_plain.then(|| without_numbers(&shown))
}

/// Replaces each number that stands alone by `?`.
fn without_numbers(text: &str) -> String {
    let mut shown = String::new();
    let mut before = ' ';
    for char in text.chars() {
        if !char.is_ascii_digit() || before.is_ascii_alphabetic() || before == '_' || before == '$' {
            shown.push(char);
            before = char;
        } else if before != '?' {
            shown.push('?');
            before = '?';
        }
    }
    shown
}

/// Returns whether a text may contain a password, or a command about one.
pub(crate) fn speaks_of_password(text: &[u8]) -> bool {
    ["password", "passwd"]
        .iter()
        .any(|word| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes())))
}

/// Error classes (PostgreSQL manual, appendix A) whose messages PostgreSQL itself words.
const CLASSES: [&str; 24] = [
    "08", "0A", "21", "22", "23", "24", "25", "26", "28", "2B", "2D", "34", "3B", "3D", "3F", "40", "42", "44", "53",
    "54", "55", "57", "58", "72",
];
/// Source routines of errors that functions have worded: `RAISE` of PL/pgSQL, and PL/Python's.
const WORDED_BY_USERS: [&str; 2] = ["exec_stmt_raise", "PLy_"];

#[cfg(test)]
mod tests {
    use route::Dialect;

    use super::*;

    fn told(body: &str, text: &str, shows_values: bool) -> String {
        let state = body.split('\0').find_map(|field| field.strip_prefix('C')).unwrap_or("XX000");
        error(&Failed {
            state: state.as_bytes().try_into().expect("five characters"),
            body: body.as_bytes().into(),
            text: text.as_bytes().into(),
            dialect: Dialect::default(),
            shows_values,
        })
    }

    #[test]
    fn names_of_the_request_are_shown_and_values_are_not() {
        for (body, text, expected) in [
            (
                "C42P01\0Mrelation \"shop\" does not exist\0",
                "select * from Shop",
                "error 42P01: relation \"shop\" does not exist",
            ),
            (
                "C22P02\0Minvalid input syntax for type integer: \"x1\"\0",
                "select 'x1'::int",
                "error 22P02: invalid input syntax for type integer: \"?\"",
            ),
            (
                "C22P02\0Minvalid value \"a\"b\" for \"YY\"\0",
                "select to_date('a\"b', 'YY')",
                "error 22P02: invalid value \"?\"",
            ),
            ("C42601\0Msyntax error at or near \"4711\"\0", "selec 4711", "error 42601: syntax error at or near \"?\""),
            (
                "C22001\0Mvalue too long for type character varying(3)\0",
                "",
                "error 22001: value too long for type character varying(?)",
            ),
            ("C42703\0Mcolumn t1.x2 does not exist\0", "", "error 42703: column t1.x2 does not exist"),
            ("C22012\0Mdivision by zero\0", "", "error 22012: division by zero"),
            ("C42P01\0MRelation \u{bb}topsecret\u{ab} existiert nicht\0", "", "error 42P01"),
            ("C22023\0Mbad 'topsecret'\0", "", "error 22023"),
            ("C22012\0", "", "error 22012"),
        ] {
            assert_eq!(told(body, text, false), expected, "{body}");
        }
    }

    #[test]
    fn what_functions_have_worded_is_not_shown() {
        for body in [
            "CP0001\0Mtopsecret\0",
            "C23505\0Mtopsecret\0Rexec_stmt_raise\0",
            "C38000\0MKeyError: topsecret\0",
            "C22000\0Mtopsecret\0RPLy_elog_impl\0",
            "CU0001\0Mtopsecret\0",
        ] {
            assert!(!told(body, "", false).contains("topsecret"), "{body}");
            assert!(told(body, "", true).contains("topsecret"), "{body}");
        }
    }

    #[test]
    fn a_detail_is_shown_with_values_and_never_a_password() {
        let body = "C23505\0Mduplicate key\0DKey (a)=(4711) already exists.\0";
        assert_eq!(told(body, "", true), "error 23505: duplicate key (Key (a)=(4711) already exists.)");
        assert_eq!(told(body, "", false), "error 23505: duplicate key");
        let body = "C42601\0Msyntax error at or near \"topsecret\"\0";
        assert!(!told(body, "alter role x passwd topsecret", true).contains("topsecret"));
    }
}
