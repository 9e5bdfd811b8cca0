//! What the next request of a client without a server says of the server that may answer it; the texts of those that follow.
//!
//! Always true: a request of which not every message is here, or in which anything else is asked than to run one statement, says nothing; a message
//! that is not whole may have any text.
//! Not here: how a text is read (`route::reads`), which pool is asked for a server (`worker::reads`).

use route::Reads;
use wire::frame::HEADER_BYTES;
use wire::frontend;

use super::client_session::ClientSession;
use super::reading::{name, name_behind};
use crate::prepared::{self, Ask, Head, cut};
use crate::request::messages;

/// What a request says of the server that may answer it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    /// What its statement says.
    pub reads: Reads,
    /// How many bytes it takes.
    pub bytes: usize,
    /// Whether it gives a statement a name, which the server keeps though a later message may fail.
    pub names_statement: bool,
}

impl ClientSession {
    /// Returns what the request at the beginning of these bytes says, where `of` is what its text says. No message has begun before
    /// these bytes.
    pub fn read_request(&self, bytes: &[u8], mut of: impl FnMut(&[u8]) -> Reads) -> Option<ReadRequest> {
        let mut batch = Batch::default();
        for (at, kind, body) in messages(bytes) {
            let end = at + HEADER_BYTES + body.len();
            match kind {
                frontend::QUERY if at == 0 => {
                    let reads = of(name(body).filter(|text| text.len() + 1 == body.len())?);
                    return Some(ReadRequest { reads, bytes: end, names_statement: false });
                }
                frontend::PARSE if batch.reads.is_none() => {
                    let statement = name(body)?;
                    batch.parses = Some(!statement.is_empty());
                    batch.reads = Some(of(name_behind(body, statement.len() + 1)?));
                }
                frontend::BIND if !batch.has_bind => {
                    let named = match prepared::head_of_bind(body)? {
                        Head::Named(Ask::Bind { name, .. }) => Some(name),
                        _ => None,
                    };
                    batch.binds(self, named, &mut of)?;
                }
                frontend::DESCRIBE => {
                    if let (None, Some(name)) = (batch.reads, described(body)) {
                        batch.reads = Some(of(self.text_of(name)?));
                    }
                }
                frontend::EXECUTE if batch.has_bind && !batch.has_execute => batch.has_execute = true,
                frontend::SYNC if body.is_empty() => {
                    let names_statement = batch.parses == Some(true);
                    return Some(ReadRequest { reads: batch.reads?, bytes: end, names_statement });
                }
                _ => return None,
            }
        }
        None
    }

    /// Whether one of these bytes' messages has a text of which `is` is true, or runs a named statement that has; or cannot be read
    /// here as a whole.
    pub fn has_text(&self, bytes: &[u8], is: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut read = 0;
        let mut has = |kind: u8, body: &[u8]| match kind {
            frontend::QUERY | frontend::PARSE => is(body),
            frontend::BIND => match prepared::head_of_bind(body) {
                Some(Head::Named(Ask::Bind { name, .. })) => self.text_of(name).is_none_or(&mut *is),
                _ => false,
            },
            _ => false,
        };
        for (at, kind, body) in messages(bytes) {
            read = at + HEADER_BYTES + body.len();
            if has(kind, body) {
                return true;
            }
        }
        read < bytes.len()
    }

    /// The text of a named statement, as the client has prepared it.
    fn text_of(&self, name: &[u8]) -> Option<&[u8]> {
        let statement = self.names.as_ref()?.statement(cut(name))?;
        Some(statement.text())
    }
}

/// What has been seen of a batch.
#[derive(Default)]
struct Batch {
    reads: Option<Reads>,
    /// Whether it parses a statement, and that has a name.
    parses: Option<bool>,
    has_bind: bool,
    has_execute: bool,
}

impl Batch {
    /// A Bind of the statement that the batch parses itself, which must have no name, or of a named one. `None` for any other.
    fn binds(
        &mut self,
        client: &ClientSession,
        named: Option<&[u8]>,
        of: &mut impl FnMut(&[u8]) -> Reads,
    ) -> Option<()> {
        self.has_bind = true;
        match (self.parses, named) {
            (Some(false), None) => Some(()),
            // That goes to the primary, whatever is bound.
            (Some(true), _) if self.reads == Some(Reads::ShowsPosition) => Some(()),
            (None, Some(name)) => {
                self.reads = Some(of(client.text_of(name)?));
                Some(())
            }
            _ => None,
        }
    }
}

/// The name of the statement that a Describe is about.
fn described(body: &[u8]) -> Option<&[u8]> {
    body.strip_prefix(b"S").and_then(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::request::request_of as request;
    use crate::vars::{Tracked, Vars};

    fn says(messages: &[(u8, &[u8])]) -> Option<(Reads, bool)> {
        let client = ClientSession::new(0, Rc::new(Vars::new(&Tracked::new([]))));
        let bytes = request(messages);
        let of = |text: &[u8]| if text == b"select 1" { Reads::Proven } else { Reads::No };
        let all = client.read_request(&bytes, of)?;
        assert!(all.bytes <= bytes.len());
        Some((all.reads, all.names_statement))
    }

    const PARSE: (u8, &[u8]) = (b'P', b"\0select 1\0\0\0");
    const BIND: (u8, &[u8]) = (b'B', b"\0\0\0\0\0\0\0\0");
    const DESCRIBE: (u8, &[u8]) = (b'D', b"P\0");
    const EXECUTE: (u8, &[u8]) = (b'E', b"\0\0\0\0\0");
    const SYNC: (u8, &[u8]) = (b'S', b"");

    #[test]
    fn a_query_and_a_batch_of_one_statement_say_what_their_text_says() {
        assert_eq!(says(&[(b'Q', b"select 1\0")]), Some((Reads::Proven, false)));
        assert_eq!(says(&[(b'Q', b"select 2\0")]), Some((Reads::No, false)));
        assert_eq!(says(&[(b'Q', b"select 1\0"), (b'Q', b"select 2\0")]), Some((Reads::Proven, false)));
        assert_eq!(says(&[PARSE, BIND, DESCRIBE, EXECUTE, SYNC]), Some((Reads::Proven, false)));
        assert_eq!(says(&[PARSE, (b'D', b"S\0"), SYNC]), Some((Reads::Proven, false)));
        assert_eq!(says(&[(b'P', b"a\0select 1\0\0\0"), (b'D', b"Sa\0"), SYNC]), Some((Reads::Proven, true)));
    }

    #[test]
    fn what_is_more_or_less_than_one_statement_says_nothing() {
        let named: (u8, &[u8]) = (b'P', b"a\0select 1\0\0\0");
        for messages in [
            vec![PARSE, BIND, EXECUTE],
            vec![PARSE, PARSE, SYNC],
            vec![PARSE, BIND, EXECUTE, BIND, EXECUTE, SYNC],
            vec![PARSE, BIND, EXECUTE, EXECUTE, SYNC],
            vec![named, (b'B', b"\0a\0\0\0\0\0\0\0"), EXECUTE, SYNC],
            vec![BIND, EXECUTE, SYNC],
            vec![(b'B', b"\0a\0\0\0\0\0\0\0"), EXECUTE, SYNC],
            vec![PARSE, BIND, (b'H', b""), EXECUTE, SYNC],
            vec![(b'F', b"\0\0\0\0"), SYNC],
            vec![(b'Q', b"select 1")],
            vec![(b'Q', b"select 1\0x\0")],
            vec![SYNC],
            vec![],
        ] {
            assert_eq!(says(&messages), None, "{messages:?}");
        }
    }

    #[test]
    fn the_texts_of_requests_are_seen() {
        let client = ClientSession::new(0, Rc::new(Vars::new(&Tracked::new([]))));
        let has = |bytes: &[u8]| client.has_text(bytes, &mut |text| text.windows(5).any(|word| word == b"write"));
        let bytes = request(&[(b'Q', b"select 1\0"), (b'Q', b"set transaction read write\0")]);
        assert!(has(&bytes) && has(&bytes[..bytes.len() - 1]), "the second, or what is left of it");
        assert!(!has(&request(&[(b'Q', b"select 1\0"), PARSE, BIND, EXECUTE, SYNC])));
        assert!(!has(&request(&[(b'B', b"write\0\0\0\0\0\0\0\0")])), "a parameter is no text");
        assert!(has(&request(&[(b'P', b"a\0set transaction read write\0\0\0")])));
        assert!(has(&request(&[(b'B', b"\0a\0\0\0\0\0\0\0")])), "a statement that is not known may have any");
        assert!(!has(b"") && has(b"Q"));
    }
}
