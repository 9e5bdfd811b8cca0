//! Connection strings: the values in `[databases]`, `[users]`, `[peers]` and `[rate_limits]`, such as `host=db
//! port=5433 dbname='my db'`.
//!
//! Always true: the rules are PgBouncer's. Pairs are separated by spaces (not tabs), a quote within a quoted value is
//! doubled, there are no other escapes, an empty value is an error. A message never repeats a value, which may be a
//! password.
//! Not here: which keys there are.

use std::borrow::Cow;
use std::time::Duration;

use pool::Mode;

use crate::catalog::{Kind, Policies, Word, Words, seconds};
use crate::mistake::{COMMENT, Wrong, did_you_mean};

/// A key and its value, unquoted.
pub(crate) type Pair<'t> = (&'t str, Cow<'t, str>);

/// Splits a connection string into its pairs.
pub(crate) fn pairs(text: &str) -> Result<Vec<Pair<'_>>, Wrong> {
    let mut found = Vec::new();
    let mut rest = blanks(text);
    while !rest.is_empty() {
        let (key, after) = rest.split_at(rest.find([' ', '=']).unwrap_or(rest.len()));
        let Some(after) = blanks(after).strip_prefix('=') else {
            if key.starts_with([';', '#']) {
                return Err(syntax("expected key=value".to_owned()).advise(Some(COMMENT.to_owned())));
            }
            let after = found.last().map_or(String::new(), |(key, _): &Pair<'_>| format!(" after the value of {key}"));
            return Err(syntax(format!("expected key=value{after}"))
                .advise(Some("a value with spaces is written in 'single quotes'".to_owned())));
        };
        if key.is_empty() {
            return Err(syntax("= without a key before it".to_owned()));
        }
        let (value, after) = value(key, blanks(after))?;
        found.push((key, value));
        rest = blanks(after);
    }
    Ok(found)
}

fn value<'t>(key: &str, text: &'t str) -> Result<(Cow<'t, str>, &'t str), Wrong> {
    let (value, rest) = match text.strip_prefix('\'') {
        Some(quoted) => unquote(key, quoted)?,
        None => {
            let (value, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
            (Cow::Borrowed(value), rest)
        }
    };
    if value.is_empty() {
        return Err(syntax(format!("the value of {key} is empty")));
    }
    Ok((value, rest))
}

/// The text up to the closing quote, and what follows it.
fn unquote<'t>(key: &str, text: &'t str) -> Result<(Cow<'t, str>, &'t str), Wrong> {
    let mut end = 0;
    loop {
        let Some(at) = text[end..].find('\'') else {
            return Err(syntax(format!("the quote of the value of {key} is not closed")));
        };
        end += at;
        if !text[end + 1..].starts_with('\'') {
            break;
        }
        end += 2;
    }
    let (inner, rest) = (&text[..end], &text[end + 1..]);
    if !rest.is_empty() && !rest.starts_with(' ') {
        let wrong = syntax(format!("text after the closing quote of the value of {key}"));
        return Err(wrong.advise(Some("a quote inside quotes is doubled".to_owned())));
    }
    let value = if inner.contains('\'') { Cow::Owned(inner.replace("''", "'")) } else { Cow::Borrowed(inner) };
    Ok((value, rest))
}

fn syntax(what: String) -> Wrong {
    Wrong::new(format!("syntax error in connection string: {what}"))
}

fn blanks(text: &str) -> &str {
    text.trim_start_matches(' ')
}

/// Parses a number; a negative one counts as not set, so that the wider setting applies.
pub(crate) fn count(key: &str, value: &str) -> Result<Option<u32>, Wrong> {
    let number: i64 = value.parse().map_err(|_| not_a(key, value, "a whole number"))?;
    if number < 0 {
        return Ok(None);
    }
    u32::try_from(number).map(Some).map_err(|_| not_a(key, value, "a whole number below 4294967296"))
}

/// Parses a limit: 0 counts as not set as well.
pub(crate) fn limit(key: &str, value: &str) -> Result<Option<u32>, Wrong> {
    Ok(count(key, value)?.filter(|limit| *limit > 0))
}

/// Parses seconds; a negative number counts as not set.
pub(crate) fn time(key: &str, value: &str) -> Result<Option<Duration>, Wrong> {
    let is_unset = value.strip_prefix('-').is_some_and(|number| seconds(number).is_some());
    if is_unset {
        return Ok(None);
    }
    seconds(value).map(Some).ok_or_else(|| not_a(key, value, "seconds"))
}

/// Parses a TCP port, which is never 0.
pub(crate) fn port(value: &str) -> Result<u16, Wrong> {
    let port = value.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| Wrong::new(format!("invalid port: {value} (expected a whole number from 1 to 65535)")))
}

/// Parses a word of a fixed list; `what` names it in the message.
pub(crate) fn word<T: Words>(what: &str, value: &str) -> Result<T, Wrong> {
    Word::<T>::parse(value, None).map_err(|misfit| {
        Wrong::new(format!("invalid {what}: {value} (expected {})", misfit.expected)).advise(misfit.advice)
    })
}

/// Parses the policies for session state.
pub(crate) fn policies(value: &str) -> Result<Policies, Wrong> {
    Policies::read(value).map_err(|misfit| {
        Wrong::new(format!("invalid session_policy: {value} (expected {})", misfit.expected)).advise(misfit.advice)
    })
}

/// Parses a pool mode.
pub(crate) fn mode(value: &str) -> Result<Mode, Wrong> {
    word("pool mode", value)
}

fn not_a(key: &str, value: &str, what: &str) -> Wrong {
    Wrong::new(format!("invalid value \"{value}\" for {key}: expected {what}"))
}

/// The mistake for a key that its section does not have.
pub(crate) fn unrecognized(what: &str, key: &str, names: &[&str]) -> Wrong {
    Wrong::new(format!("unrecognized {what} parameter: {key}")).advise(did_you_mean(key, names.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let pairs = pairs(text).expect("a good string");
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.into_owned())).collect()
    }

    fn wrong(text: &str) -> String {
        pairs(text).expect_err("a bad string").text
    }

    #[test]
    fn pairs_are_separated_by_spaces_and_may_have_some_around_their_sign() {
        let expected = [("host".to_owned(), "db".to_owned()), ("port".to_owned(), "5433".to_owned())];
        for text in ["host=db port=5433", "  host = db   port =5433 ", "host= db port=  5433"] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read(""), []);
        assert_eq!(read("host=db\tport=1"), [("host".to_owned(), "db\tport=1".to_owned())]);
    }

    #[test]
    fn a_quoted_value_doubles_its_quotes_and_has_no_other_escape() {
        assert_eq!(read("password='it''s = \\ good' user=u")[0].1, "it's = \\ good");
        assert_eq!(read("a=''''")[0].1, "'");
        assert_eq!(read("a=x'y")[0].1, "x'y");
    }

    #[test]
    fn what_is_wrong_is_said_without_repeating_a_password() {
        let bad = [
            "password='s3cret",
            "password='s3cret'x",
            "password=''",
            "password=",
            "=s3cret",
            "password='s3''cret",
            "password=my s3cret",
        ];
        for text in bad {
            let said = wrong(text);
            assert!(said.starts_with("syntax error in connection string: "), "{said}");
            assert!(!said.contains("s3"), "{said}");
        }
        assert_eq!(wrong("a=b c"), "syntax error in connection string: expected key=value after the value of a");
    }

    #[test]
    fn negative_numbers_leave_the_choice_to_the_wider_setting() {
        assert_eq!(count("pool_size", "-1"), Ok(None));
        assert_eq!(count("pool_size", "0"), Ok(Some(0)));
        assert_eq!(limit("max_db_connections", "0"), Ok(None));
        assert_eq!(time("query_timeout", "-1"), Ok(None));
        assert_eq!(time("query_timeout", "0.5"), Ok(Some(Duration::from_millis(500))));
    }

    #[test]
    fn a_number_that_is_none_is_an_error_and_not_zero() {
        assert!(count("pool_size", "many").is_err() && count("pool_size", "4294967296").is_err());
        assert!(time("query_timeout", "5s").is_err() && time("query_timeout", "-").is_err());
        for bad in ["0", "x", "65536", "-1"] {
            assert!(port(bad).expect_err("no port").text.starts_with(&format!("invalid port: {bad}")));
        }
        assert!(mode("sesion").expect_err("no mode").text.starts_with("invalid pool mode: sesion"));
    }
}
