//! The requests of a traced client that its server has not answered yet: which messages belong to which request, and what
//! is kept of each until it is answered.
//!
//! Always true: a request ends with the message that the server answers by `ReadyForQuery`: Query, FunctionCall or Sync,
//! or a Sync behind the data of a COPY whose own Sync the server has ignored; at most [`REQUESTS_MAX`] requests are kept,
//! and those behind them are only counted.
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
    /// Number of requests behind these that are not kept and not answered yet.
    left_out: usize,
    /// Where in its messages the client is; `None` if that is unknown.
    splitter: Option<Splitter>,
}

/// What is kept of a traced request until it is answered.
#[derive(Debug)]
pub(crate) struct TracedRequest {
    /// When it arrived.
    pub(super) since: Time,
    /// The beginning of its text, and how to read it.
    pub(super) text: Box<[u8]>,
    pub(super) dialect: Dialect,
}

/// A request, or the beginning of one, among the bytes that have arrived together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    /// Its bytes. They begin in the middle of a header if the rest of that has arrived before.
    pub(super) range: Range<usize>,
    /// The kinds of its first messages.
    pub(super) kinds: Vec<u8>,
    /// The bytes begin with a message.
    pub(super) is_at_message: bool,
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
    /// The last request is a batch of the extended protocol.
    is_batch: bool,
    /// Data of a COPY has come behind the end of a batch, so that the server has ignored the Sync of that batch.
    awaits_sync: bool,
}

impl Pipeline {
    /// Begins with bytes that start with a message, or with the rest of one that is unknown.
    pub(crate) fn begin(is_at_message: bool) -> Self {
        Self { splitter: is_at_message.then(Splitter::default), ..Self::default() }
    }

    /// Returns the requests that begin in these bytes, the next that the client has sent: those for which there is room,
    /// and how many others there are.
    pub(crate) fn split(&mut self, bytes: &[u8]) -> (Vec<Begun>, usize) {
        let room = if self.left_out == 0 { REQUESTS_MAX - self.requests.len() } else { 0 };
        let (begun, others) = self.splitter.as_mut().map(|splitter| splitter.split(bytes, room)).unwrap_or_default();
        self.left_out += others;
        (begun, others)
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, request: TracedRequest) {
        self.requests.push_back(request);
    }

    /// Takes the oldest request, which has been answered; `None` if it was not kept.
    pub(crate) fn answered(&mut self) -> Option<TracedRequest> {
        if self.requests.is_empty() {
            self.left_out = self.left_out.saturating_sub(1);
        }
        self.requests.pop_front()
    }
}

impl Splitter {
    fn split(&mut self, bytes: &[u8], room: usize) -> (Vec<Begun>, usize) {
        let (mut begun, mut others) = (Vec::<Begun>::new(), 0);
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
            let is_of_batch = matches!(
                kind,
                frontend::PARSE | frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE | frontend::CLOSE
            );
            let is_of_copy = matches!(kind, frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL);
            self.awaits_sync |= is_of_copy && self.is_batch && !self.is_open;
            let is_late_sync = kind == frontend::SYNC && std::mem::take(&mut self.awaits_sync);
            let may_begin = (is_ending || is_of_batch) && !is_late_sync;
            if !self.is_open && may_begin {
                self.is_batch = is_of_batch;
                is_of_last = begun.len() < room;
                match is_of_last {
                    true => begun.push(Begun { range: start..at, kinds: Vec::new(), is_at_message }),
                    false => others += 1,
                }
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
        (begun, others)
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
        let begun = bytes.chunks(size).flat_map(|piece| pipeline.split(piece).0);
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
        let (begun, _) = pipeline.split(&bytes);
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

    /// libpq sends the batch of a COPY with its Sync at once, which the server ignores, and another behind the data.
    #[test]
    fn the_sync_behind_the_data_of_a_copy_is_no_request() {
        let batch =
            [message(b'P', b"\0copy t from stdin\0\0\0"), message(b'B', &[0; 8]), message(b'E', &[0; 5])].concat();
        let (sync, data) = (message(b'S', b""), [message(b'd', b"1\n"), message(b'c', b"")].concat());
        let query = message(b'Q', b"select 1\0");
        let bytes = [&*batch, &sync, &data, &sync, &query, &sync].concat();
        assert_eq!(kinds(&bytes, usize::MAX), ["PBES", "Q", "S"]);
        // Here the COPY ends with the only Sync.
        assert_eq!(kinds(&[batch, data, sync, query].concat(), usize::MAX), ["PBEdcS", "Q"]);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let syncs = |count| b"S\0\0\0\x04".repeat(count);
        let request = || TracedRequest { since: Time(0), text: Box::default(), dialect: Dialect::default() };
        let mut pipeline = Pipeline::begin(true);
        let (begun, others) = pipeline.split(&syncs(1000));
        assert_eq!((begun.len(), others), (REQUESTS_MAX, 1000 - REQUESTS_MAX));
        begun.iter().for_each(|_| pipeline.add(request()));
        assert!(pipeline.answered().is_some());
        assert_eq!(pipeline.split(&syncs(1)), (Vec::new(), 1), "the answers are in the order of the requests");
        assert_eq!(std::iter::from_fn(|| pipeline.answered()).count(), REQUESTS_MAX - 1);
        // The first of those that are left out has been answered, and then all others are.
        (0..1000 - REQUESTS_MAX).for_each(|_| assert!(pipeline.answered().is_none()));
        assert_eq!(pipeline.split(&syncs(2)).0.len(), 2, "there is room again");
        assert_eq!(Pipeline::begin(false).split(&syncs(3)), (Vec::new(), 0), "nobody knows where a message begins");
        let long = [b"P\0\0\0\x04".repeat(100), syncs(3)].concat();
        assert_eq!(pipeline.split(&long).0[0].kinds.len(), KINDS_MAX);
    }
}
