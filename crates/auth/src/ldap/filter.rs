//! LDAP filters: converts their text form (RFC 4515) to the encoding of the protocol (RFC 4511).
//!
//! Always true: a parsed filter is one whole filter; a filter that is nested deeper than `DEPTH_MAX` is refused.
//! Not here: user names within a filter (`LdapSearch::filter_for`).

use super::message::{OCTETS, SEQUENCE, element};

/// An encoded filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter(Vec<u8>);

impl Filter {
    /// Parses a filter such as `(&(uid=ann)(objectClass=*))`.
    ///
    /// # Errors
    /// Returns the reason why the text is no filter.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut rest = text.as_bytes();
        let filter = filter(&mut rest, 0)?;
        match rest.trim_ascii_start() {
            [] => Ok(Self(filter)),
            _ => Err("something stands behind its end"),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn filter(rest: &mut &[u8], depth: usize) -> Result<Vec<u8>, &'static str> {
    if depth == DEPTH_MAX {
        return Err("it is too deep");
    }
    *rest = rest.trim_ascii_start().strip_prefix(b"(").ok_or("a parenthesis is missing")?;
    let (tag, body) = match rest.first() {
        Some(b'&') => (AND, filters(rest, depth)?),
        Some(b'|') => (OR, filters(rest, depth)?),
        Some(b'!') => {
            *rest = &rest[1..];
            (NOT, filter(rest, depth + 1)?)
        }
        _ => {
            let end = unescaped(rest, b')').ok_or("a parenthesis is missing")?;
            let (text, behind) = rest.split_at(end);
            *rest = behind;
            item(text)?
        }
    };
    *rest = rest.trim_ascii_start().strip_prefix(b")").ok_or("a parenthesis is missing")?;
    Ok(element(tag, &body))
}

/// Parses the filters behind `&` or `|`.
fn filters(rest: &mut &[u8], depth: usize) -> Result<Vec<u8>, &'static str> {
    *rest = rest[1..].trim_ascii_start();
    let mut body = Vec::new();
    while rest.starts_with(b"(") {
        body.extend(filter(rest, depth + 1)?);
        *rest = rest.trim_ascii_start();
    }
    Ok(body)
}

/// Encodes a comparison without its parentheses.
fn item(text: &[u8]) -> Result<(u8, Vec<u8>), &'static str> {
    let sign = text.iter().position(|byte| *byte == b'=').ok_or("a comparison has no =")?;
    let (left, value) = (&text[..sign], &text[sign + 1..]);
    let (tag, left) = match left.split_last() {
        Some((b'>', left)) => (GREATER_OR_EQUAL, left),
        Some((b'<', left)) => (LESS_OR_EQUAL, left),
        Some((b'~', left)) => (APPROX, left),
        Some((b':', left)) => return Ok((EXTENSIBLE, extensible(left, value)?)),
        _ => (EQUALITY, left),
    };
    let attribute = described(left)?;
    let pieces: Vec<&[u8]> = split(value);
    match (tag, &pieces[..]) {
        (EQUALITY, [[], []]) => Ok((PRESENT, attribute.to_vec())),
        (EQUALITY, [first, middle @ .., last]) => {
            let mut parts = Vec::new();
            let ends =
                [(0x80, first)].into_iter().chain(middle.iter().map(|piece| (0x81, piece))).chain([(0x82, last)]);
            for (tag, piece) in ends.filter(|(_, piece)| !piece.is_empty()) {
                parts.extend(element(tag, &plain(piece)?));
            }
            Ok((SUBSTRINGS, [element(OCTETS, attribute), element(SEQUENCE, &parts)].concat()))
        }
        _ => Ok((tag, [element(OCTETS, attribute), element(OCTETS, &plain(value)?)].concat())),
    }
}

/// Encodes an extensible match `ATTRIBUTE:dn:RULE:=VALUE`, in which `:dn` and one of ATTRIBUTE and RULE may be missing.
fn extensible(left: &[u8], value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut parts = left.split(|byte| *byte == b':');
    let attribute = parts.next().unwrap_or_default();
    let mut rule = parts.next();
    let is_dn = rule.is_some_and(|word| word.eq_ignore_ascii_case(b"dn"));
    if is_dn {
        rule = parts.next();
    }
    if parts.next().is_some() || attribute.is_empty() && rule.is_none() {
        return Err("a comparison has too much or too little before its =");
    }
    let mut body = Vec::new();
    if let Some(rule) = rule {
        body.extend(element(0x81, described(rule)?));
    }
    if !attribute.is_empty() {
        body.extend(element(0x82, described(attribute)?));
    }
    body.extend(element(0x83, &plain(value)?));
    if is_dn {
        body.extend(element(0x84, &[0xff]));
    }
    Ok(body)
}

/// Checks the name of an attribute or of a matching rule, including options.
fn described(text: &[u8]) -> Result<&[u8], &'static str> {
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._;".contains(byte);
    match !text.is_empty() && text.iter().all(is_good) {
        true => Ok(text),
        false => Err("the name of an attribute has a character that is not allowed there, or none"),
    }
}

/// Splits a value at its unescaped asterisks.
fn split(mut value: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while let Some(place) = unescaped(value, b'*') {
        pieces.push(&value[..place]);
        value = &value[place + 1..];
    }
    pieces.push(value);
    pieces
}

/// The index of the first occurrence of a byte that no backslash escapes.
fn unescaped(text: &[u8], wanted: u8) -> Option<usize> {
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        match byte {
            b'\\' => place += 2,
            byte if *byte == wanted => return Some(place),
            _ => place += 1,
        }
    }
    None
}

/// Resolves the escapes of a value: `\2a`, and `\*` as in LDAP version 2.
fn plain(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut plain = Vec::new();
    let mut rest = value;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'\\', [high, low, behind @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or_default() as u8;
                plain.push(digit(high) << 4 | digit(low));
                rest = behind;
            }
            (b'\\', [escaped @ (b'(' | b')' | b'*' | b'\\'), behind @ ..]) => {
                plain.push(*escaped);
                rest = behind;
            }
            (b'\\', _) => return Err("a backslash escapes nothing"),
            (b'(' | b'*', _) => return Err("a value has a special character, which needs a backslash"),
            _ => plain.push(*first),
        }
    }
    Ok(plain)
}

const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUALITY: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const GREATER_OR_EQUAL: u8 = 0xa5;
const LESS_OR_EQUAL: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const APPROX: u8 = 0xa8;
const EXTENSIBLE: u8 = 0xa9;
/// How deep a filter may be nested. Real filters have about four levels.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// The encoded filter, in which bytes that are not printable are escaped.
    fn sent(text: &str) -> String {
        let bytes = Filter::parse(text).expect(text).0;
        bytes.iter().flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).collect()
    }

    #[test]
    fn comparisons_are_spelled_as_the_standard_says() {
        assert_eq!(sent("(uid=ann)"), r"\xa3\n\x04\x03uid\x04\x03ann");
        assert_eq!(sent("(n>=1)"), r"\xa5\x06\x04\x01n\x04\x011");
        assert_eq!(sent("(n<=1)"), r"\xa6\x06\x04\x01n\x04\x011");
        assert_eq!(sent("(n~=1)"), r"\xa8\x06\x04\x01n\x04\x011");
        assert_eq!(sent("(cn;lang-de=*)"), r"\x87\ncn;lang-de");
        assert_eq!(sent("(n=)"), r"\xa3\x05\x04\x01n\x04\x00");
        assert_eq!(sent(r"(n=\2a\29\)=)"), r"\xa3\t\x04\x01n\x04\x04*))=");
        assert_eq!(sent("(n=a*b*c*d)"), r"\xa4\x11\x04\x01n0\x0c\x80\x01a\x81\x01b\x81\x01c\x82\x01d");
        assert_eq!(sent("(n=*b*)"), r"\xa4\x08\x04\x01n0\x03\x81\x01b");
        assert_eq!(sent("(n:dn:2.4:=v)"), r"\xa9\x0e\x81\x032.4\x82\x01n\x83\x01v\x84\x01\xff");
        assert_eq!(sent("(n:1.2:=v)"), r"\xa9\x0b\x81\x031.2\x82\x01n\x83\x01v");
    }

    #[test]
    fn filters_are_put_together() {
        assert_eq!(sent("(&(a=1)(!(b=2)))"), r"\xa0\x12\xa3\x06\x04\x01a\x04\x011\xa2\x08\xa3\x06\x04\x01b\x04\x012");
        assert_eq!(sent(" (| (a=1) (b=*) ) "), r"\xa1\x0b\xa3\x06\x04\x01a\x04\x011\x87\x01b");
        assert_eq!(sent("(&)"), r"\xa0\x00");
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for (text, why) in [
            ("", "a parenthesis is missing"),
            ("uid=ann", "a parenthesis is missing"),
            ("(uid=ann", "a parenthesis is missing"),
            ("(&(a=1)", "a parenthesis is missing"),
            ("(!(a=1)(b=2))", "a parenthesis is missing"),
            ("(a=1)(b=2)", "something stands behind its end"),
            ("(ann)", "a comparison has no ="),
            ("(=ann)", "the name of an attribute has a character that is not allowed there, or none"),
            ("(u d=ann)", "the name of an attribute has a character that is not allowed there, or none"),
            ("(a=(b)", "a value has a special character, which needs a backslash"),
            ("(a>=*)", "a value has a special character, which needs a backslash"),
            (r"(a=\zz)", "a backslash escapes nothing"),
            ("(:=v)", "a comparison has too much or too little before its ="),
            ("(a:dn:b:c:=v)", "a comparison has too much or too little before its ="),
        ] {
            assert_eq!(Filter::parse(text), Err(why), "{text}");
        }
        let nested = |depth: usize| format!("{}(a=1){}", "(!".repeat(depth), ")".repeat(depth));
        assert!(Filter::parse(&nested(DEPTH_MAX - 1)).is_ok());
        assert_eq!(Filter::parse(&nested(DEPTH_MAX)), Err("it is too deep"));
        assert_eq!(Filter::parse(&"(!".repeat(100_000)), Err("it is too deep"));
    }
}
