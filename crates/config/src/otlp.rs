//! The headers for the collector of spans: the value of `otlp_headers`.
//!
//! Always true: no shown text contains the value of a header.
//! Not here: its URL (`endpoint`), posting (`control::otlp`).

use std::fmt;

/// Headers that are sent to a collector, such as a token. Their values are secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OtlpHeaders {
    items: Vec<(Box<str>, Box<str>)>,
}

impl OtlpHeaders {
    /// Parses `key=value,key=value`; `%2C` in a value is a comma, as in `OTEL_EXPORTER_OTLP_HEADERS`.
    ///
    /// # Errors
    /// Says what is wrong, without repeating a value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut items: Vec<(Box<str>, Box<str>)> = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or("a pair has no \"=\"")?;
            let key = key.trim().to_ascii_lowercase();
            let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
            if key.is_empty() || !key.bytes().all(is_key) {
                return Err("what stands before a \"=\" is no name of a header".to_owned());
            }
            if OURS.contains(&&*key) {
                return Err(format!("the header {key} is said by the pooler itself"));
            }
            let value = decoded(value.trim()).ok_or_else(|| format!("the value of {key} is not ASCII"))?;
            items.push((key.into(), value.into()));
        }
        Ok(Self { items })
    }

    /// Each header with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.items.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl fmt::Display for OtlpHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (key, _)) in self.items.iter().enumerate() {
            write!(f, "{}{key}=***", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for OtlpHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Decodes `%2C` and other escapes of a value. `None` if the result has anything but visible ASCII characters and
/// blanks.
fn decoded(value: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(char) = rest.chars().next() {
        let escaped = rest.strip_prefix('%').and_then(|behind| behind.get(..2));
        let escaped = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, length) = match escaped {
            Some(byte) => (char::from(byte), 3),
            None => (char, char.len_utf8()),
        };
        if !byte.is_ascii_graphic() && byte != ' ' {
            return None;
        }
        out.push(byte);
        rest = &rest[length..];
    }
    Some(out)
}

/// Headers that Trunkline sets itself.
const OURS: [&str; 7] =
    ["connection", "content-encoding", "content-length", "content-type", "expect", "host", "transfer-encoding"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_open_telemetry_writes_them_and_are_not_shown() {
        let read = OtlpHeaders::parse("api-key = a%2Cb%3d ,, Authorization=Bearer%20x=y").expect("headers");
        assert_eq!(read.iter().collect::<Vec<_>>(), [("api-key", "a,b="), ("authorization", "Bearer x=y")]);
        assert_eq!(format!("{read} {read:?}"), "api-key=***,authorization=*** api-key=***,authorization=***");
        for (text, why) in [
            ("secret", "no \"=\""),
            ("a b=secret", "no name"),
            ("=secret", "no name"),
            ("a=secret%0d%0ax", "not ASCII"),
            ("a=secret\u{e9}", "not ASCII"),
            ("Host=secret", "host is said by the pooler"),
        ] {
            let told = OtlpHeaders::parse(text).expect_err(text);
            assert!(told.contains(why) && !told.contains("secret"), "{text}: {told}");
        }
        assert_eq!(OtlpHeaders::parse("a=%zz%4").expect("headers").iter().next(), Some(("a", "%zz%4")));
    }
}
