//! Requests of a logged-in client as values, for code that answers requests itself, such as the console.
//!
//! Always true: a body must be consumed to its last byte to be valid. Parameter values are only counted.
//! Not here: what a request means in the state of its connection.

use crate::frontend;

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// A simple query.
    Query(String),
    /// Parse.
    Parse {
        /// The name of the new statement; empty is the unnamed one.
        statement: String,
        /// The text of the statement.
        text: String,
        /// The number of parameter types.
        types: usize,
    },
    /// Bind.
    Bind {
        /// The name of the new portal; empty is the unnamed one.
        portal: String,
        /// The name of the statement.
        statement: String,
        /// The number of parameter values.
        parameters: usize,
        /// The formats of the result columns: none, one for all, or one for each.
        formats: Vec<i16>,
    },
    /// Describe.
    Describe(Target),
    /// Execute.
    Execute {
        /// The portal.
        portal: String,
        /// The row limit; 0 is no limit.
        rows_max: u32,
    },
    /// Close.
    Close(Target),
    /// Flush.
    Flush,
    /// Sync.
    Sync,
}

/// The target of Describe or Close.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The prepared statement of this name.
    Statement(String),
    /// The portal of this name.
    Portal(String),
}

impl Request {
    /// Whether messages of this kind are requests.
    #[must_use]
    pub fn is_kind(kind: u8) -> bool {
        NAMES.iter().any(|(other, _)| *other == kind)
    }

    /// The name of this kind of message in PostgreSQL's manual.
    #[must_use]
    pub fn name(kind: u8) -> &'static str {
        NAMES.iter().find(|(other, _)| *other == kind).map_or("unknown", |(_, name)| name)
    }

    /// Parses the body of a message of this kind; `None` if the body is invalid or the kind is no request.
    #[must_use]
    pub fn parse(kind: u8, body: &[u8]) -> Option<Self> {
        let mut body = Body { rest: body };
        let request = match kind {
            // A query is accepted without its zero byte at the end, and with further zero bytes in it.
            frontend::QUERY => {
                let text = body.rest.strip_suffix(b"\0").unwrap_or(body.rest);
                return Some(Self::Query(String::from_utf8_lossy(text).into_owned()));
            }
            frontend::PARSE => {
                let (statement, text, types) = (body.string()?, body.string()?, body.count()?);
                body.take(types.checked_mul(4)?)?;
                Self::Parse { statement, text, types }
            }
            frontend::BIND => {
                let (portal, statement) = (body.string()?, body.string()?);
                let codes = body.count()?;
                body.take(codes.checked_mul(2)?)?;
                let parameters = body.count()?;
                for _ in 0..parameters {
                    body.value()?;
                }
                let formats = (0..body.count()?).map(|_| body.number()).collect::<Option<_>>()?;
                Self::Bind { portal, statement, parameters, formats }
            }
            frontend::DESCRIBE => Self::Describe(body.target()?),
            frontend::CLOSE => Self::Close(body.target()?),
            frontend::EXECUTE => {
                let (portal, rows) = (body.string()?, body.take(4)?.first_chunk::<4>()?);
                // PostgreSQL, too, treats a negative row limit as no limit.
                Self::Execute { portal, rows_max: u32::try_from(i32::from_be_bytes(*rows)).unwrap_or(0) }
            }
            frontend::FLUSH => Self::Flush,
            frontend::SYNC => Self::Sync,
            _ => return None,
        };
        body.rest.is_empty().then_some(request)
    }
}

/// Consumes a body from the front.
struct Body<'b> {
    rest: &'b [u8],
}

impl<'b> Body<'b> {
    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn string(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == 0)?;
        let text = self.take(end + 1)?;
        Some(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    fn number(&mut self) -> Option<i16> {
        self.take(2)?.first_chunk::<2>().map(|bytes| i16::from_be_bytes(*bytes))
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// Consumes a value with its length before it, -1 for NULL.
    fn value(&mut self) -> Option<()> {
        let length = i32::from_be_bytes(*self.take(4)?.first_chunk::<4>()?);
        if length == -1 { Some(()) } else { self.take(usize::try_from(length).ok()?).map(drop) }
    }

    fn target(&mut self) -> Option<Target> {
        match self.take(1)? {
            b"S" => self.string().map(Target::Statement),
            b"P" => self.string().map(Target::Portal),
            _ => None,
        }
    }
}

const NAMES: [(u8, &str); 8] = [
    (frontend::QUERY, "Query"),
    (frontend::PARSE, "Parse"),
    (frontend::BIND, "Bind"),
    (frontend::DESCRIBE, "Describe"),
    (frontend::EXECUTE, "Execute"),
    (frontend::CLOSE, "Close"),
    (frontend::FLUSH, "Flush"),
    (frontend::SYNC, "Sync"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_to_their_last_byte() {
        let all: [(u8, &[u8], Request); 9] = [
            (b'Q', b"SHOW POOLS\0", Request::Query("SHOW POOLS".to_owned())),
            (
                b'P',
                b"s\0SHOW x\0\0\x01\0\0\0\x17",
                Request::Parse { statement: "s".to_owned(), text: "SHOW x".to_owned(), types: 1 },
            ),
            (
                b'B',
                b"p\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x01x\0\x02\0\0\0\x01",
                Request::Bind { portal: "p".to_owned(), statement: "s".to_owned(), parameters: 2, formats: vec![0, 1] },
            ),
            (b'D', b"Ss\0", Request::Describe(Target::Statement("s".to_owned()))),
            (b'D', b"P\0", Request::Describe(Target::Portal(String::new()))),
            (b'E', b"p\0\0\0\0\x07", Request::Execute { portal: "p".to_owned(), rows_max: 7 }),
            (b'C', b"Pp\0", Request::Close(Target::Portal("p".to_owned()))),
            (b'H', b"", Request::Flush),
            (b'S', b"", Request::Sync),
        ];
        for (kind, body, request) in all {
            assert_eq!(Request::parse(kind, body).as_ref(), Some(&request));
            assert!(Request::is_kind(kind));
            if kind == b'Q' {
                continue;
            }
            for end in 0..body.len() {
                assert_eq!(Request::parse(kind, &body[..end]), None, "{request:?} without its end");
            }
            assert_eq!(Request::parse(kind, &[body, b"x"].concat()), None, "{request:?} and more");
        }
    }

    #[test]
    fn counts_that_are_lies_are_broken() {
        assert_eq!(Request::parse(b'P', b"\0\0\xff\xff"), None);
        assert_eq!(Request::parse(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), None);
        assert_eq!(Request::parse(b'B', b"\0\0\x7f\xff\0\0\0\0"), None);
        assert_eq!(Request::parse(b'D', b"Xs\0"), None);
        assert_eq!(Request::parse(b'F', b""), None);
        assert!(!Request::is_kind(b'F'));
    }

    #[test]
    fn a_negative_number_of_rows_is_all_of_them() {
        let all = Request::Execute { portal: String::new(), rows_max: 0 };
        assert_eq!(Request::parse(b'E', b"\0\xff\xff\xff\xff"), Some(all));
    }
}
