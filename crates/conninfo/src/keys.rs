//! The keys of a connection string that the driver does not know in libpq's full meaning, taken out of it.
//!
//! Always true: what is left is the same string without these keys, for the driver to parse; a string that is not well
//! formed is left as it is, so that the driver names the mistake.
//! Not here: what the values mean (`trust`, `top::target`, `ops::hatest::target`).

/// A connection string without some of its keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// The rest.
    pub rest: String,
    /// Keys and values, in the order of the string; the last one of a key holds.
    taken: Vec<(String, String)>,
}

impl Split {
    /// Takes these keys out of a URL or of `key=value` pairs.
    #[must_use]
    pub fn of(conninfo: &str, keys: &[&str]) -> Self {
        if conninfo.contains("://") { of_url(conninfo, keys) } else { of_pairs(conninfo, keys) }
    }

    /// The value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.taken.iter().rev().find(|(taken, _)| taken == key).map(|(_, value)| value.as_str())
    }
}

fn of_url(conninfo: &str, keys: &[&str]) -> Split {
    let Some((before, query)) = conninfo.split_once('?') else {
        return Split { rest: conninfo.to_owned(), taken: Vec::new() };
    };
    let (mut kept, mut taken) = (Vec::new(), Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((key, value)) if keys.contains(&key) => taken.push((key.to_owned(), decoded(value))),
            _ => kept.push(pair),
        }
    }
    let rest = if kept.is_empty() { before.to_owned() } else { format!("{before}?{}", kept.join("&")) };
    Split { rest, taken }
}

/// `%2F` is `/`. What is no such sequence stays.
fn decoded(value: &str) -> String {
    let (bytes, mut out, mut at) = (value.as_bytes(), Vec::with_capacity(value.len()), 0);
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.filter(|_| bytes[at] == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn of_pairs(conninfo: &str, keys: &[&str]) -> Split {
    let whole = || Split { rest: conninfo.to_owned(), taken: Vec::new() };
    let (mut rest, mut taken, mut left) = (String::new(), Vec::new(), conninfo.trim_start());
    while !left.is_empty() {
        let Some((key, behind)) = left.split_once('=') else { return whole() };
        let Some((value, after)) = value(behind.trim_start()) else { return whole() };
        let pair = &left[..left.len() - after.len()];
        match key.trim_end() {
            key if keys.contains(&key) => taken.push((key.to_owned(), value)),
            _ => rest.push_str(&format!("{}{}", if rest.is_empty() { "" } else { " " }, pair.trim_end())),
        }
        left = after.trim_start();
    }
    Split { rest, taken }
}

/// The value at the beginning of a text, and what follows it. `None` if a quote is not closed.
fn value(text: &str) -> Option<(String, &str)> {
    let is_quoted = text.starts_with('\'');
    let (mut value, mut characters) = (String::new(), text.char_indices().skip(usize::from(is_quoted)));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, next)| next)),
            '\'' if is_quoted => return Some((value, &text[at + 1..])),
            other if !is_quoted && other.is_whitespace() => return Some((value, &text[at..])),
            other => value.push(other),
        }
    }
    (!is_quoted).then_some((value, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 2] = ["sslmode", "target_session_attrs"];

    #[test]
    fn keys_are_taken_out_of_pairs() {
        let split =
            Split::of("host=a,b  password='it\\'s = x' target_session_attrs = primary port=1 sslmode=require ", &KEYS);
        assert_eq!(split.rest, "host=a,b password='it\\'s = x' port=1");
        assert_eq!((split.value("sslmode"), split.value("target_session_attrs")), (Some("require"), Some("primary")));
        let twice = Split::of("sslmode=a sslmode='b c'", &KEYS);
        assert_eq!((twice.rest.as_str(), twice.value("sslmode")), ("", Some("b c")));
    }

    #[test]
    fn keys_are_taken_out_of_a_url() {
        let split = Split::of("postgres://u:p@a,b/d?sslmode=%2fx%&x=1&target_session_attrs=any", &KEYS);
        assert_eq!((split.rest.as_str(), split.value("sslmode")), ("postgres://u:p@a,b/d?x=1", Some("/x%")));
        assert_eq!(Split::of("postgres://a?sslmode=x", &KEYS).rest, "postgres://a");
    }

    #[test]
    fn what_is_malformed_is_left_to_the_driver() {
        for text in ["host='a sslmode=x", "host", "", "host=a sslmode"] {
            assert_eq!(Split::of(text, &KEYS).rest, text.trim_start(), "{text}");
        }
    }
}
