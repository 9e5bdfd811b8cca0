//! The words in the lines of HBA and ident files.
//!
//! Always true: blanks separate fields, commas separate the words of a field; `#` outside quotes begins a comment; a quoted
//! word is a name and never a keyword.
//! Not here: what the words mean (`hba`, `ident`).

use std::fmt;
use std::sync::Arc;

/// A word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) is_quoted: bool,
}

/// One or more words separated by commas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field(Vec<Word>);

/// The remaining fields of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'l> {
    rest: &'l str,
}

impl Field {
    /// All words.
    pub(crate) fn words(&self) -> &[Word] {
        &self.0
    }

    /// The only word; an error if there are several.
    pub(crate) fn word(&self) -> Result<&str, String> {
        match &self.0[..] {
            [word] => Ok(&word.text),
            _ => Err(format!("\"{self}\" must be one word")),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(|word| &*word.text).collect();
        f.write_str(&words.join(","))
    }
}

impl<'l> Fields<'l> {
    /// The fields of a line.
    pub(crate) fn of(line: &'l str) -> Self {
        Self { rest: line }
    }

    /// The rest of the line that has not been parsed.
    pub(crate) fn rest(&self) -> &'l str {
        self.rest
    }

    /// The next field; `None` at the end of the line.
    pub(crate) fn next(&mut self) -> Result<Option<Field>, String> {
        let mut words = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches(BLANKS);
            let Some(word) = self.word()? else {
                return if words.is_empty() { Ok(None) } else { Err("a comma at the end".to_owned()) };
            };
            words.push(word);
            // Blanks may follow a comma, as in PostgreSQL, or stand before it, as in PgBouncer.
            match self.rest.trim_start_matches(BLANKS).strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None => return Ok(Some(Field(words))),
            }
        }
    }

    /// The next field; an error if there is none.
    pub(crate) fn wanted(&mut self, what: &str) -> Result<Field, String> {
        self.next()?.ok_or_else(|| format!("the line ends where {what} is expected"))
    }

    fn word(&mut self) -> Result<Option<Word>, String> {
        if let Some(quoted) = self.rest.strip_prefix('"') {
            let (mut text, mut from) = (String::new(), quoted);
            loop {
                let Some((part, after)) = from.split_once('"') else {
                    return Err("a quote that does not end on its line".to_owned());
                };
                text.push_str(part);
                match after.strip_prefix('"') {
                    Some(more) => {
                        text.push('"');
                        from = more;
                    }
                    None => {
                        self.rest = after;
                        return Ok(Some(Word { text, is_quoted: true }));
                    }
                }
            }
        }
        let end = self.rest.find([' ', '\t', '\r', '\n', ',', '#', '"']).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        if text.is_empty() {
            return if rest.starts_with(',') { Err("a comma without a word before it".to_owned()) } else { Ok(None) };
        }
        self.rest = rest;
        Ok(Some(Word { text: text.to_owned(), is_quoted: false }))
    }
}

/// The names in an `@` file, separated by blanks, line ends or commas.
pub(crate) fn names_of(text: &[u8]) -> Result<Vec<Arc<str>>, String> {
    let mut names = Vec::new();
    for line in String::from_utf8_lossy(text).lines() {
        let mut fields = Fields::of(line);
        while let Some(field) = fields.next()? {
            names.extend(field.words().iter().map(|word| Arc::from(&*word.text)));
        }
    }
    Ok(names)
}

/// An error text with its control characters escaped, so that it does no harm in a terminal or a log.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() {
            true => shown.extend(char.escape_default()),
            false => shown.push(char),
        }
    }
    shown
}

const BLANKS: [char; 3] = [' ', '\t', '\r'];

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Result<Vec<String>, String> {
        let mut fields = Fields::of(line);
        let mut all = Vec::new();
        while let Some(field) = fields.next()? {
            all.push(field.to_string());
        }
        Ok(all)
    }

    #[test]
    fn blanks_separate_fields_and_commas_words() {
        assert_eq!(
            fields("host a,b,\t c  \"d # e\",f all # no more"),
            Ok(vec!["host".to_owned(), "a,b,c".to_owned(), "d # e,f".to_owned(), "all".to_owned()])
        );
        assert_eq!(fields("a,b , c\td ,e"), Ok(vec!["a,b,c".to_owned(), "d,e".to_owned()]));
        assert_eq!(fields("  # nothing"), Ok(Vec::new()));
        assert_eq!(fields("\"it \"\"is\"\"\""), Ok(vec!["it \"is\"".to_owned()]));
    }

    #[test]
    fn what_is_not_whole_is_a_mistake() {
        for line in ["\"open", "a,", "a ,", "a,,b", "a, ,b", ",a", "a, # b"] {
            assert!(fields(line).is_err(), "{line}");
        }
    }

    #[test]
    fn names_of_a_file_are_those_of_all_its_lines() {
        let names = names_of(b"a b,c\n# no\n\"all\"\n").expect("names");
        assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "b", "c", "all"]);
    }
}
