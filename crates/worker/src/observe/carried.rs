//! Finds the trace context in a client's request: in the text of a Query or a Parse.
//!
//! Always true: at most [`MESSAGES_MAX`] messages are read, and at most [`REQUEST_BYTES_MAX`] bytes of them.
//! Not here: how a text carries the context (`route`), what is done with it (`spanning`).

use std::ffi::CStr;

use route::{TraceParent, traceparent};
use wire::frame::HEADER_BYTES;
use wire::frontend;

/// What a request carries, as far as it has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carried<'r> {
    /// Nothing.
    Nothing,
    /// An incomplete text whose comment may still come.
    Torn,
    /// A trace context.
    Context(Context<'r>),
    /// A Bind, of the statement with this name, as first message.
    Bind(&'r [u8]),
}

/// A trace context, and the text that carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Context<'r> {
    pub(super) parent: TraceParent,
    pub(super) text: &'r [u8],
    /// Whether that is all of the text.
    pub(super) is_whole: bool,
    /// The name of the statement that the request prepares without executing it.
    pub(super) prepares: Option<&'r [u8]>,
}

/// What the request that begins with these bytes carries.
pub(crate) fn carried(bytes: &[u8]) -> Carried<'_> {
    let mut is_first = true;
    let mut messages = Messages(bytes).take(MESSAGES_MAX);
    while let Some(message) = messages.next() {
        let found = match message.kind {
            frontend::QUERY => text_of(message.body, message.is_whole).map(|text| (text, None)),
            frontend::PARSE => match field(message.body) {
                Some((name, rest)) => text_of(rest, message.is_whole).map(|text| (text, Some(name))),
                None => return Carried::Torn,
            },
            frontend::BIND if is_first => {
                let name = field(message.body).and_then(|(_, rest)| field(rest));
                return name.map_or(Carried::Nothing, |(name, _)| Carried::Bind(name));
            }
            _ => None,
        };
        is_first = false;
        let Some(((text, is_whole), name)) = found else { continue };
        if let Some(parent) = traceparent(text, is_whole) {
            let prepares = name.filter(|_| !messages.any(|message| message.kind == frontend::EXECUTE));
            return Carried::Context(Context { parent, text, is_whole, prepares });
        }
        if !is_whole {
            return Carried::Torn;
        }
    }
    Carried::Nothing
}

/// Whether these bytes contain an Execute.
pub(crate) fn executes(bytes: &[u8]) -> bool {
    Messages(bytes).take(MESSAGES_MAX).any(|message| message.kind == frontend::EXECUTE)
}

/// The messages in some bytes, as far as they have arrived.
pub(crate) struct Messages<'r>(pub(crate) &'r [u8]);

pub(crate) struct Message<'r> {
    pub(super) kind: u8,
    body: &'r [u8],
    is_whole: bool,
}

impl<'r> Iterator for Messages<'r> {
    type Item = Message<'r>;

    fn next(&mut self) -> Option<Message<'r>> {
        let (&[kind, a, b, c, d], rest) = self.0.split_first_chunk::<HEADER_BYTES>()?;
        let length = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_sub(4);
        let is_whole = length <= rest.len();
        let (body, rest) = rest.split_at(length.min(rest.len()));
        self.0 = rest;
        Some(Message { kind, body, is_whole })
    }
}

/// The text at the beginning of a body, and whether it is complete. A text longer than the limit counts as incomplete.
fn text_of(body: &[u8], is_whole: bool) -> Option<(&[u8], bool)> {
    match field(body) {
        Some((text, _)) => Some((text, true)),
        // The text has no terminating zero: the message is broken.
        None if is_whole && body.len() < REQUEST_BYTES_MAX => None,
        None => Some((body, false)),
    }
}

/// The bytes up to a zero, and those behind it.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // `CStr` searches a word at a time.
    let text = CStr::from_bytes_until_nul(&bytes[..bytes.len().min(REQUEST_BYTES_MAX)]).ok()?;
    Some((text.to_bytes(), &bytes[text.count_bytes() + 1..]))
}

/// Maximum number of messages read.
const MESSAGES_MAX: usize = 16;
/// Maximum number of bytes of a request that are read.
pub(crate) const REQUEST_BYTES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    const COMMENT: &str = "/*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/";

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    fn query(text: &str) -> Vec<u8> {
        message(b'Q', &[text.as_bytes(), b"\0"].concat())
    }

    fn parse(name: &str, text: &str) -> Vec<u8> {
        message(b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"].concat())
    }

    fn context(bytes: &[u8]) -> Option<(String, Option<String>)> {
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match carried(bytes) {
            Carried::Context(context) => Some((words(context.text), context.prepares.map(words))),
            Carried::Nothing | Carried::Torn | Carried::Bind(_) => None,
        }
    }

    #[test]
    fn a_context_comes_with_a_query_or_a_parse() {
        let text = format!("select 1 {COMMENT}");
        assert_eq!(context(&query(&text)), Some((text.clone(), None)));
        assert_eq!(carried(&query("select 1")), Carried::Nothing);
        let (bind, execute, sync) =
            (message(b'B', b"\0s\0\0\0\0\0\0\0"), message(b'E', b"\0\0\0\0\0"), message(b'S', b""));
        let all = [parse("s", &text), bind.clone(), execute.clone(), sync.clone()].concat();
        assert_eq!(context(&all), Some((text.clone(), None)));
        assert_eq!(context(&[parse("s", &text), sync.clone()].concat()), Some((text.clone(), Some("s".into()))));
        let behind =
            [parse("", "begin"), bind.clone(), execute.clone(), parse("", &text), bind.clone(), execute].concat();
        assert_eq!(context(&behind), Some((text, None)), "drivers put BEGIN before the first statement");
        assert_eq!(carried(&[bind, sync].concat()), Carried::Bind(b"s"));
    }

    #[test]
    fn a_text_that_has_not_come_to_its_end_is_waited_for() {
        let all = query(&format!("select {} {COMMENT}", "1,".repeat(1000)));
        for end in [6, 10, 100, all.len() - 2] {
            assert_eq!(carried(&all[..end]), Carried::Torn, "{end}");
        }
        assert!(context(&all).is_some());
        let before = query(&format!("{COMMENT} select {}", "1,".repeat(1000)));
        assert!(context(&before[..200]).is_some(), "the comment has come");
        assert_eq!(carried(&parse("a", "select 1")[..6]), Carried::Torn);
    }

    #[test]
    fn any_bytes_are_looked_at_and_none_beyond_them() {
        let mut random = base::Random::new(3);
        let whole = [parse("s", &format!("select 1 {COMMENT}")), message(b'B', b"\0s\0"), query("select 1")].concat();
        for _ in 0..20_000 {
            let mut bytes = whole[..random.below(whole.len() as u64 + 1) as usize].to_vec();
            for _ in 0..random.below(4).min(bytes.len() as u64) {
                let place = random.below(bytes.len() as u64) as usize;
                bytes[place] = random.next_u64() as u8;
            }
            if let Carried::Context(context) = carried(&bytes) {
                let has = bytes.windows(context.text.len()).any(|part| part == context.text);
                assert!(has && traceparent(context.text, context.is_whole) == Some(context.parent));
            }
            executes(&bytes);
        }
    }

    #[test]
    fn broken_and_endless_messages_cost_no_more_than_others() {
        let many = message(b'H', b"").repeat(100_000);
        assert_eq!(carried(&many), Carried::Nothing);
        assert_eq!(carried(&message(b'Q', b"no zero")), Carried::Nothing);
        assert_eq!(carried(b"Q\0\0\0\0x"), Carried::Nothing);
        assert_eq!(carried(b"Q\0\0"), Carried::Nothing);
        assert_eq!(carried(b""), Carried::Nothing);
        let long = query(&"x".repeat(10 * REQUEST_BYTES_MAX));
        assert_eq!(carried(&long), Carried::Torn);
    }
}
