//! The LDAP messages (RFC 4511) by which a password is checked: writes requests and parses responses.
//!
//! Always true: the parser is not recursive and trusts no length. A message is bounded by `MESSAGE_BYTES_MAX` before its
//! content is received, an element must end within its enclosing element, and an unknown response is malformed.
//! Not here: the connection to the directory (`control`), filters as text (`filter`).

use super::LdapScope;
use super::filter::Filter;

/// A request to a directory.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// The extended request StartTLS.
    StartTls,
    /// A simple bind, which checks the password of a name.
    Bind {
        /// The distinguished name; empty is an anonymous bind.
        name: &'a str,
        /// The password.
        password: &'a [u8],
    },
    /// A search for the names, without attributes, of the entries that match a filter.
    Search {
        /// The base of the search.
        base: &'a str,
        /// The scope of the search.
        scope: LdapScope,
        /// The filter.
        filter: &'a Filter,
    },
    /// Ends the connection.
    Unbind,
}

/// A response of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// The response to a bind, with this result code.
    Bound(u32),
    /// The response to an extended request, with this result code. With message number 0 it is the notice that the directory
    /// is about to close the connection.
    Extended(u32),
    /// A found entry with this name.
    Entry(String),
    /// The end of a search, with this result code.
    Searched(u32),
    /// A message that is ignored: a reference to another directory, or an intermediate response.
    Aside,
}

/// Why received bytes are no valid LDAP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl Request<'_> {
    /// Encodes the request with this message number, which must be 1 to 127.
    #[must_use]
    pub fn message(&self, number: u8) -> Vec<u8> {
        debug_assert!((1..128).contains(&number));
        let request = match self {
            Self::StartTls => element(EXTENDED_REQUEST, &element(0x80, START_TLS)),
            Self::Bind { name, password } => {
                let parts = [element(INTEGER, &[3]), element(OCTETS, name.as_bytes()), element(0x80, password)];
                element(BIND_REQUEST, &parts.concat())
            }
            Self::Search { base, scope, filter } => {
                let scope = match scope {
                    LdapScope::Base => 0,
                    LdapScope::One => 1,
                    LdapScope::Subtree => 2,
                };
                let parts = [
                    element(OCTETS, base.as_bytes()),
                    element(ENUMERATED, &[scope]),
                    element(ENUMERATED, &[NEVER_DEREF]),
                    element(INTEGER, &[ENTRIES_MAX]),
                    element(INTEGER, &[0]),
                    element(BOOLEAN, &[0]),
                    filter.as_bytes().to_vec(),
                    element(SEQUENCE, &element(OCTETS, NO_ATTRIBUTES)),
                ];
                element(SEARCH_REQUEST, &parts.concat())
            }
            Self::Unbind => element(UNBIND_REQUEST, &[]),
        };
        element(SEQUENCE, &[element(INTEGER, &[number]), request].concat())
    }
}

/// The least length of the message that begins with these bytes. The message is whole when it has that length.
///
/// # Errors
/// Fails if no message begins with these bytes, or if it is too long.
pub fn wanted(bytes: &[u8]) -> Result<usize, Malformed> {
    match bytes.first() {
        None | Some(&SEQUENCE) => {}
        Some(_) => return Err(Malformed("it is no sequence")),
    }
    let (head, body) = match length(bytes)? {
        Length::Known { head, body } => (head, body),
        Length::Wants(count) => return Ok(count),
    };
    match body <= MESSAGE_BYTES_MAX {
        true => Ok(head + body),
        false => Err(Malformed("it is too long")),
    }
}

/// Parses a whole message, and returns its number and the response.
///
/// # Errors
/// Fails if the message is malformed or no known response.
pub fn read(message: &[u8]) -> Result<(u32, Response), Malformed> {
    let mut outer = Elements(message);
    let mut parts = Elements(outer.take(SEQUENCE)?);
    outer.end()?;
    let number = integer(parts.take(INTEGER)?)?;
    let (tag, body) = parts.next()?;
    if !parts.0.is_empty() {
        parts.take(CONTROLS)?;
        parts.end()?;
    }
    let response = match tag {
        BIND_RESPONSE => Response::Bound(outcome(body)?),
        EXTENDED_RESPONSE => Response::Extended(outcome(body)?),
        SEARCH_DONE => Response::Searched(outcome(body)?),
        SEARCH_ENTRY => {
            let mut parts = Elements(body);
            let name = std::str::from_utf8(parts.take(OCTETS)?).map_err(|_| Malformed("a name is not UTF-8"))?;
            parts.take(SEQUENCE)?;
            Response::Entry(name.to_owned())
        }
        SEARCH_REFERENCE | INTERMEDIATE_RESPONSE => Response::Aside,
        _ => return Err(Malformed("it is no response")),
    };
    Ok((number, response))
}

/// Encodes a BER element with a definite length, as LDAP requires.
pub(super) fn element(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(body.len()) {
        Ok(short @ ..0x80) => out.push(short),
        _ => {
            let length = body.len().to_be_bytes();
            let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
            out.push(0x80 | length.len() as u8);
            out.extend(length);
        }
    }
    out.extend(body);
    out
}

/// The result code of an `LDAPResult`. Further fields behind its texts are ignored.
fn outcome(body: &[u8]) -> Result<u32, Malformed> {
    let mut parts = Elements(body);
    let code = integer(parts.take(ENUMERATED)?)?;
    parts.take(OCTETS)?;
    parts.take(OCTETS)?;
    Ok(code)
}

/// Parses a non-negative integer of at most four bytes.
fn integer(body: &[u8]) -> Result<u32, Malformed> {
    match body {
        [first @ ..0x80, rest @ ..] if rest.len() < 4 => {
            Ok(rest.iter().fold(u32::from(*first), |sum, byte| sum << 8 | u32::from(*byte)))
        }
        _ => Err(Malformed("a number is out of range")),
    }
}

/// Consecutive elements.
struct Elements<'b>(&'b [u8]);

impl<'b> Elements<'b> {
    /// Takes the content of the next element, which must have this tag.
    fn take(&mut self, tag: u8) -> Result<&'b [u8], Malformed> {
        match self.next()? {
            (found, body) if found == tag => Ok(body),
            _ => Err(Malformed("an element is not what it must be")),
        }
    }

    fn next(&mut self) -> Result<(u8, &'b [u8]), Malformed> {
        let (&tag, _) = self.0.split_first().ok_or(Malformed("an element is missing"))?;
        let Length::Known { head, body } = length(self.0)? else { return Err(CUT) };
        let (element, rest) = self.0.split_at_checked(head + body).ok_or(CUT)?;
        self.0 = rest;
        Ok((tag, &element[head..]))
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("something stands behind its end")) }
    }
}

enum Length {
    /// The lengths of the header and of the content.
    Known { head: usize, body: usize },
    /// This many bytes are needed to know the length.
    Wants(usize),
}

/// Parses the length of an element. Some directories encode every length in four bytes, which is allowed.
fn length(bytes: &[u8]) -> Result<Length, Malformed> {
    match bytes.get(1) {
        None => Ok(Length::Wants(2)),
        Some(&short @ ..=0x7f) => Ok(Length::Known { head: 2, body: short.into() }),
        Some(long @ 0x81..=0x84) => {
            let head = 2 + usize::from(long & 0x7f);
            let Some(digits) = bytes.get(2..head) else { return Ok(Length::Wants(head)) };
            let body = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            Ok(Length::Known { head, body })
        }
        Some(_) => Err(Malformed("a length is indefinite or too long")),
    }
}

const CUT: Malformed = Malformed("an element is longer than what it is in");
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x30;
const BIND_REQUEST: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const UNBIND_REQUEST: u8 = 0x42;
const SEARCH_REQUEST: u8 = 0x63;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const SEARCH_REFERENCE: u8 = 0x73;
const EXTENDED_REQUEST: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;
const INTERMEDIATE_RESPONSE: u8 = 0x79;
const CONTROLS: u8 = 0xa0;
const NEVER_DEREF: u8 = 0;
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
const NO_ATTRIBUTES: &[u8] = b"1.1";
/// The size limit of a search. Two entries suffice to know that a user is not unique.
const ENTRIES_MAX: u8 = 2;
/// The longest message that is received. It leaves room for a name, and for the long error texts of some directories.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests encoded by hand according to RFC 4511.
    #[test]
    fn requests_are_spelled_as_the_standard_says() {
        let bind = Request::Bind { name: "", password: b"" }.message(1);
        assert_eq!(bind, [0x30, 0x0c, 2, 1, 1, 0x60, 7, 2, 1, 3, 4, 0, 0x80, 0]);
        assert_eq!(Request::Unbind.message(2), [0x30, 5, 2, 1, 2, 0x42, 0]);
        let tls = Request::StartTls.message(1);
        assert_eq!(tls[..9], [0x30, 29, 2, 1, 1, 0x77, 24, 0x80, 22]);
        let filter = Filter::parse("(uid=ann)").expect("a filter");
        let search = Request::Search { base: "dc=x", scope: LdapScope::Subtree, filter: &filter }.message(2);
        let expected = [
            &[0x30, 45, 2, 1, 2, 0x63, 40, 4, 4][..],
            b"dc=x",
            &[0x0a, 1, 2, 0x0a, 1, 0, 2, 1, 2, 2, 1, 0, 1, 1, 0, 0xa3, 10, 4, 3],
            b"uid\x04\x03ann",
            &[0x30, 5, 4, 3],
            b"1.1",
        ];
        assert_eq!(search, expected.concat());
        assert_eq!(wanted(&search), Ok(search.len()));
    }

    #[test]
    fn long_elements_have_long_lengths() {
        assert_eq!(element(4, &[0; 127])[..2], [4, 127]);
        assert_eq!(element(4, &[0; 128])[..3], [4, 0x81, 128]);
        assert_eq!(element(4, &[0; 256])[..4], [4, 0x82, 1, 0]);
    }

    fn result(tag: u8, code: u8) -> Vec<u8> {
        let body = [element(ENUMERATED, &[code]), element(OCTETS, b""), element(OCTETS, b"why")].concat();
        element(SEQUENCE, &[element(INTEGER, &[7]), element(tag, &body)].concat())
    }

    #[test]
    fn responses_say_how_it_went() {
        assert_eq!(read(&result(BIND_RESPONSE, 49)), Ok((7, Response::Bound(49))));
        assert_eq!(read(&result(EXTENDED_RESPONSE, 0)), Ok((7, Response::Extended(0))));
        assert_eq!(read(&result(SEARCH_DONE, 4)), Ok((7, Response::Searched(4))));
        // Lengths as Active Directory encodes them, and controls.
        let entry = b"\x30\x84\0\0\0\x19\x02\x01\x02\x64\x84\0\0\0\x0c\x04\x04cn=a\x30\x84\0\0\0\0\xa0\x02\x30\0";
        assert_eq!(read(entry), Ok((2, Response::Entry("cn=a".to_owned()))));
        assert_eq!(read(b"\x30\x07\x02\x01\x02\x73\x02\x04\0"), Ok((2, Response::Aside)));
    }

    #[test]
    fn what_is_no_response_is_malformed() {
        let bad = |bytes: &[u8]| read(bytes).expect_err("malformed").0;
        assert_eq!(bad(b""), "an element is missing");
        assert_eq!(bad(b"\x30\0"), "an element is missing");
        assert_eq!(bad(b"\x30\x03\x02\x01\x01"), "an element is missing");
        assert_eq!(bad(b"\x30\x02\x02\x01"), "an element is longer than what it is in");
        assert_eq!(bad(b"\x30\x05\x02\x01\x01\x61"), "an element is longer than what it is in");
        assert_eq!(bad(b"\x30\x02\x02\0"), "a number is out of range");
        assert_eq!(bad(b"\x30\x03\x02\x01\xff"), "a number is out of range");
        assert_eq!(bad(b"\x30\x05\x04\x01\x01\x61\0"), "an element is not what it must be");
        assert_eq!(bad(b"\x30\x05\x02\x01\x01\x60\0"), "it is no response");
        assert_eq!(bad(b"\x30\x05\x02\x01\x01\x61\0"), "an element is missing");
        assert_eq!(bad(b"\x30\x08\x02\x01\x01\x64\x03\x04\x01\xff"), "a name is not UTF-8");
        assert_eq!(bad(&[&result(BIND_RESPONSE, 0)[..], b"\0"].concat()), "something stands behind its end");
    }

    #[test]
    fn a_message_is_known_to_be_too_long_before_it_comes() {
        assert_eq!(wanted(b""), Ok(2));
        assert_eq!(wanted(b"\x30"), Ok(2));
        assert_eq!(wanted(b"\x30\x05"), Ok(7));
        assert_eq!(wanted(b"\x30\x82\x01"), Ok(4));
        assert_eq!(wanted(b"\x30\x82\x01\0"), Ok(260));
        assert_eq!(wanted(b"\x30\x83\x01\0\0"), Ok(5 + MESSAGE_BYTES_MAX));
        assert_eq!(wanted(b"\x30\x83\x01\0\x01"), Err(Malformed("it is too long")));
        assert_eq!(wanted(b"\x30\x84\xff\xff\xff\xff"), Err(Malformed("it is too long")));
        assert_eq!(wanted(b"\x30\x85"), Err(Malformed("a length is indefinite or too long")));
        assert_eq!(wanted(b"\x30\x80"), Err(Malformed("a length is indefinite or too long")));
        assert_eq!(wanted(b"HTTP"), Err(Malformed("it is no sequence")));
    }
}
