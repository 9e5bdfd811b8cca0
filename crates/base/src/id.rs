//! The identifiers of connections in logs and on the console: `C-0x118` is a client, `S-0x1f` a server.
//!
//! Always true: the identifier of a client that is written here can be parsed here.
//! Not here: the assignment of numbers (`worker::letters::Ids`).

use std::fmt;

/// The identifier of a connection: its side and a number that is unique on that side since the start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Id {
    /// A client.
    Client(u64),
    /// A server.
    Server(u64),
}

impl Id {
    /// Parses the identifier of a client and returns its number. Hexadecimal digits may be in either case.
    #[must_use]
    pub fn client_number(text: &str) -> Option<u64> {
        let digits = text.strip_prefix("C-0x")?;
        // `from_str_radix` would accept a sign.
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(number) => write!(f, "C-0x{number:x}"),
            Self::Server(number) => write!(f, "S-0x{number:x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_written_is_read() {
        assert_eq!((Id::Client(280).to_string(), Id::Server(31).to_string()), ("C-0x118".into(), "S-0x1f".into()));
        assert_eq!(Id::client_number("C-0x118"), Some(280));
        assert_eq!(Id::client_number("C-0xFF"), Some(255));
        for text in ["", "280", "0x118", "S-0x118", "C-118", "C-0x", "C-0x+1", "C-0x11111111111111111", "c-0x1"] {
            assert_eq!(Id::client_number(text), None, "{text}");
        }
    }
}
