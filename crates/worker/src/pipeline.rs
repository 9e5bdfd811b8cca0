//! The requests of a traced client that its server has not answered yet: which messages belong to which request, and what
//! is kept of each until it is answered.
//!
//! Always true: a request ends with the message that the server answers by `ReadyForQuery`: Query, FunctionCall or Sync;
//! at most [`REQUESTS_MAX`] requests are kept, and those behind them are only counted.
//! Not here: what is reported of a request (`tracing`), and whether the client is traced at all (`tracers`).

use std::collections::VecDeque;
use std::ops::Range;

use base::Time;
use route::Dialect;
use wire::frame::HEADER_BYTES;
use wire::frontend;

/// The requests that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    requests: VecDeque<TracedRequest>,
    /// Number of requests behind these that are not kept.
    left_out: u64,
    /// Where in its messages the client is; `None` if that is unknown.
    splitter: Option<Splitter>,
}

/// What is kept of a traced request until it is answered.
#[derive(Debug)]
pub(crate) struct TracedRequest {
    /// When it arrived.
    pub(crate) since: Time,
    /// The beginning of its text, and how to read it.
    pub(crate) text: Box<[u8]>,
    pub(crate) dialect: Dialect,
}

/// A request, or the beginning of one, among the bytes that have arrived together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    /// Its bytes. They begin in the middle of a header if the rest of that has arrived before.
    pub(crate) range: Range<usize>,
    /// The kinds of its first messages.
    pub(crate) kinds: Vec<u8>,
    /// The bytes begin with a message.
    pub(crate) is_at_message: bool,
}

/// Finds out where requests begin in what a client sends.
#[derive(Clone, Default, Debug)]
struct Splitter {
    /// The part of a message's header that has arrived.
    header: Vec<u8>,
    /// Bytes of the present message that have not arrived.
    body_left: usize,
    /// A request has begun that no message has ended yet.
    is_open: bool,
}

impl Pipeline {
    /// Begins with bytes that start with a message, or with the rest of one that is unknown.
    pub(crate) fn begin(is_at_message: bool) -> Self {
        Self { splitter: is_at_message.then(Splitter::default), ..Self::default() }
    }

    /// Returns the requests that begin in these bytes, the next that the client has sent.
    pub(crate) fn split(&mut self, bytes: &[u8]) -> Vec<Begun> {
        self.splitter.as_mut().map(|splitter| splitter.split(bytes)).unwrap_or_default()
    }

    /// Returns whether one more request can be kept; if not, it is counted.
    pub(crate) fn has_room(&mut self) -> bool {
        let has_room = self.requests.len() < REQUESTS_MAX && self.left_out == 0;
        self.left_out += u64::from(!has_room);
        has_room
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, request: TracedRequest) {
        self.requests.push_back(request);
    }

    /// Takes the oldest request, which has been answered; `None` if it was not kept.
    pub(crate) fn answered(&mut self) -> Option<TracedRequest> {
        self.requests.pop_front()
    }
}

impl Splitter {
    fn split(&mut self, bytes: &[u8]) -> Vec<Begun> {
        let mut begun: Vec<Begun> = Vec::new();
        let (mut at, mut is_of_last) = (0, false);
        while at < bytes.len() {
            if self.body_left > 0 {
                let part = self.body_left.min(bytes.len() - at);
                (self.body_left, at) = (self.body_left - part, at + part);
                begun.last_mut().filter(|_| is_of_last).into_iter().for_each(|last| last.range.end = at);
                continue;
            }
            let (start, is_at_message) = (at, self.header.is_empty());
            let part = (HEADER_BYTES - self.header.len()).min(bytes.len() - at);
            self.header.extend_from_slice(&bytes[at..at + part]);
            at += part;
            let Some(&[kind, a, b, c, d]) = self.header.first_chunk::<HEADER_BYTES>() else { break };
            self.header.clear();
            self.body_left = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_sub(4);
            let is_ending = matches!(kind, frontend::QUERY | frontend::FUNCTION_CALL | frontend::SYNC);
            let may_begin = is_ending
                || matches!(
                    kind,
                    frontend::PARSE | frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE | frontend::CLOSE
                );
            if !self.is_open && may_begin {
                begun.push(Begun { range: start..at, kinds: Vec::new(), is_at_message });
                is_of_last = true;
            } else if !self.is_open {
                is_of_last = false;
            }
            if let Some(last) = begun.last_mut().filter(|_| is_of_last) {
                last.range.end = at;
                if last.kinds.len() < KINDS_MAX {
                    last.kinds.push(kind);
                }
            }
            self.is_open = (self.is_open || may_begin) && !is_ending;
        }
        begun
    }
}

/// The largest number of requests of which something is kept.
const REQUESTS_MAX: usize = 32;
/// Maximum number of message kinds recorded.
pub(crate) const KINDS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    /// What is told of bytes that come in pieces of this size: the kinds of each request.
    fn kinds(bytes: &[u8], size: usize) -> Vec<String> {
        let mut pipeline = Pipeline::begin(true);
        let begun = bytes.chunks(size).flat_map(|piece| pipeline.split(piece));
        begun.map(|begun| String::from_utf8(begun.kinds).expect("letters")).collect()
    }

    fn pipelined() -> Vec<u8> {
        let batch =
            [message(b'P', b"\0select 1\0\0\0"), message(b'B', &[0; 8]), message(b'E', &[0; 5]), message(b'S', b"")];
        let query = message(b'Q', b"copy t from stdin\0");
        let copy = [message(b'd', b"1\n"), message(b'c', b"")].concat();
        [batch.concat(), query, copy, message(b'H', b""), message(b'F', &[0; 20]), batch.concat(), message(b'S', b"")]
            .concat()
    }

    #[test]
    fn a_request_ends_where_the_server_is_ready() {
        assert_eq!(kinds(&pipelined(), usize::MAX), ["PBES", "Q", "F", "PBES", "S"]);
        let mut pipeline = Pipeline::begin(true);
        let bytes = pipelined();
        let begun = pipeline.split(&bytes);
        assert!(begun.iter().all(|begun| begun.is_at_message && bytes[begun.range.start] == begun.kinds[0]));
        let query = &begun[1].range;
        assert_eq!(bytes[query.clone()], message(b'Q', b"copy t from stdin\0")[..]);
    }

    #[test]
    fn as_many_requests_are_found_however_the_bytes_are_torn() {
        for size in 1..40 {
            let told = kinds(&pipelined(), size);
            let firsts: String = told.iter().filter_map(|kinds| kinds.chars().next()).collect();
            assert_eq!(firsts, "PQFPS", "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut pipeline = Pipeline::begin(true);
        let kept = (0..1000)
            .filter(|_| {
                let has_room = pipeline.has_room();
                if has_room {
                    pipeline.add(TracedRequest { since: Time(0), text: Box::default(), dialect: Dialect::default() });
                }
                has_room
            })
            .count();
        assert_eq!(kept, REQUESTS_MAX);
        assert!(pipeline.answered().is_some() && !pipeline.has_room(), "the answers are in the order of the requests");
        assert_eq!(std::iter::from_fn(|| pipeline.answered()).count(), REQUESTS_MAX - 1);
        let syncs = b"S\0\0\0\x04".repeat(3);
        assert_eq!(Pipeline::begin(false).split(&syncs), [], "nobody knows where a message begins");
        assert_eq!(pipeline.split(&syncs).len(), 3);
        let long = [b"P\0\0\0\x04".repeat(100), syncs].concat();
        assert_eq!(pipeline.split(&long)[0].kinds.len(), KINDS_MAX);
    }
}
