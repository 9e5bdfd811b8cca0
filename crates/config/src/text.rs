//! The grammar of a file, line by line.
//!
//! Always true: the rules are PgBouncer's. Comments are whole lines; more may follow a section on its line; a value is
//! the rest of its line, verbatim except for trailing blanks. A line that cannot be parsed does not hide the next.
//! Not here: the meaning of sections and keys (`load`).

/// A line, or the rest of a line after a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Item<'t> {
    /// `[name]`
    Section(&'t str),
    /// `%include name`
    Include(&'t str),
    /// `key = value`
    Pair(&'t str, &'t str),
}

/// The items of a text with their line numbers, or the syntax error of a line.
pub(crate) struct Items<'t> {
    lines: std::slice::Split<'t, u8, fn(&u8) -> bool>,
    line: u32,
    rest: &'t str,
}

impl<'t> Items<'t> {
    /// Starts at the beginning; a byte order mark is skipped.
    pub(crate) fn of(text: &'t [u8]) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let is_end: fn(&u8) -> bool = |byte| *byte == b'\n';
        Self { lines: text.split(is_end), line: 0, rest: "" }
    }

    /// Number of lines read so far.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    /// The next line that is neither empty nor a comment; comments need not be UTF-8.
    fn next_line(&mut self) -> Option<Result<&'t str, &'static str>> {
        loop {
            let line = self.lines.next()?.trim_ascii();
            self.line += 1;
            if line.is_empty() || line.starts_with(b";") || line.starts_with(b"#") {
                continue;
            }
            if line.contains(&0) {
                return Some(Err("a NUL byte"));
            }
            return Some(std::str::from_utf8(line).map_err(|_| "bytes that are not UTF-8"));
        }
    }
}

impl<'t> Iterator for Items<'t> {
    type Item = (u32, Result<Item<'t>, &'static str>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.rest.starts_with([';', '#']) {
            match self.next_line()? {
                Ok(line) => self.rest = line,
                Err(what) => {
                    self.rest = "";
                    return Some((self.line, Err(what)));
                }
            }
        }
        let (item, rest) = match item(self.rest) {
            Ok((item, rest)) => (Ok(item), rest),
            Err(what) => (Err(what), ""),
        };
        self.rest = rest.trim_ascii_start();
        Some((self.line, item))
    }
}

/// Splits a trimmed, non-empty text into its first item and the rest.
fn item(text: &str) -> Result<(Item<'_>, &str), &'static str> {
    if let Some(name) = text.strip_prefix("%include") {
        return match name.trim_start_matches(BLANKS) {
            "" => Err("%include without the name of a file"),
            trimmed if trimmed.len() == name.len() => Err("%include is not followed by a blank"),
            trimmed => Ok((Item::Include(trimmed), "")),
        };
    }
    if let Some(section) = text.strip_prefix('[') {
        let (name, rest) = section.split_once(']').ok_or("[ without ]")?;
        return Ok((Item::Section(name), rest));
    }
    let (key, rest) = key(text)?;
    let value = rest.trim_start_matches(BLANKS).strip_prefix('=').ok_or("expected \"key = value\"")?;
    Ok((Item::Pair(key, value.trim_start_matches(BLANKS)), ""))
}

/// Splits off a key. PgBouncer documents double quotes and understands single ones; both are accepted here.
fn key(text: &str) -> Result<(&str, &str), &'static str> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (key, rest) = quoted.split_once(quote).ok_or("the quote of a key is not closed")?;
            return if key.is_empty() { Err("an empty key") } else { Ok((key, rest)) };
        }
    }
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '*');
    let end = text.find(|c| !is_key(c)).unwrap_or(text.len());
    match end {
        0 if text.starts_with('=') => Err("= without a key before it"),
        0 => Err("expected \"key = value\", a [section] or a ; comment (names with other characters are quoted)"),
        _ => Ok(text.split_at(end)),
    }
}

const BLANKS: [char; 2] = [' ', '\t'];

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<(u32, Item<'_>)> {
        Items::of(text.as_bytes()).map(|(line, item)| (line, item.expect("a good line"))).collect()
    }

    fn wrong(text: &[u8]) -> &'static str {
        let found: Vec<_> = Items::of(text).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].1.expect_err("a bad line")
    }

    #[test]
    fn a_file_is_sections_pairs_comments_and_includes() {
        let text = "; top\n[pgbouncer]\n  a=1 ; x  \r\n\t# no\n\nb.c-d*\t=\n%include  more.ini \n[databases]";
        let expected = [
            (2, Item::Section("pgbouncer")),
            (3, Item::Pair("a", "1 ; x")),
            (6, Item::Pair("b.c-d*", "")),
            (7, Item::Include("more.ini")),
            (8, Item::Section("databases")),
        ];
        assert_eq!(items(text), expected);
    }

    #[test]
    fn what_follows_a_section_on_its_line_is_read_too() {
        let expected = [(1, Item::Section("databases")), (1, Item::Pair("a", "host=b"))];
        assert_eq!(items("[databases] a = host=b"), expected);
        assert_eq!(items("[databases] ; here\n"), [(1, Item::Section("databases"))]);
    }

    #[test]
    fn keys_may_be_quoted_either_way() {
        assert_eq!(items("'my db' = x"), [(1, Item::Pair("my db", "x"))]);
        assert_eq!(items("\"it's\"=x"), [(1, Item::Pair("it's", "x"))]);
        assert_eq!(wrong(b"'open = x"), "the quote of a key is not closed");
        assert_eq!(wrong(b"'' = x"), "an empty key");
    }

    #[test]
    fn values_are_the_rest_of_the_line_verbatim() {
        assert_eq!(items("a = 'b' = \"c\" # d"), [(1, Item::Pair("a", "'b' = \"c\" # d"))]);
        assert_eq!(items("a = \u{e9}t\u{e9}"), [(1, Item::Pair("a", "\u{e9}t\u{e9}"))]);
    }

    #[test]
    fn what_is_not_understood_is_told_and_the_next_line_is_read() {
        assert_eq!(wrong(b"just words"), "expected \"key = value\"");
        assert_eq!(wrong(b"= 1"), "= without a key before it");
        assert_eq!(wrong(b"[open"), "[ without ]");
        assert_eq!(wrong(b"%include"), "%include without the name of a file");
        assert_eq!(wrong(b"%includes x"), "%include is not followed by a blank");
        assert_eq!(wrong(b"a = \xff"), "bytes that are not UTF-8");
        assert_eq!(wrong(b"a = b\0c"), "a NUL byte");
        let found: Vec<_> = Items::of(b"?\na=1").collect();
        assert!(found[0].1.is_err());
        assert_eq!(found[1], (2, Ok(Item::Pair("a", "1"))));
    }

    #[test]
    fn comments_may_be_in_any_encoding_and_a_byte_order_mark_is_no_text() {
        assert_eq!(items("\u{feff}a=1"), [(1, Item::Pair("a", "1"))]);
        assert_eq!(Items::of(b"; caf\xe9\n# \xff\n").count(), 0);
    }
}
