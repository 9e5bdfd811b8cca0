//! The beginning of a replica's answer, which its client is given with the first row: until then the primary may answer instead.
//!
//! Always true: what is given is what the replica has sent, in its order; what was withheld and is not given are no rows.
//! Not here: which errors of a replica are its own (`take_back`).

use reactor::Chunk;
use wire::{Scanner, Step, backend};

/// What a replica has answered so far.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    chunks: Vec<Chunk>,
    bytes: usize,
    scanner: Scanner,
    /// The body of its error.
    error: Option<Vec<u8>>,
}

impl Withheld {
    /// The replica answers. Returns whether the client is given all of it now.
    pub(super) fn push(&mut self, chunk: Chunk) -> bool {
        let mut at = 0;
        let mut is_given = self.bytes + chunk.len() > BYTES_MAX;
        let bytes = chunk.bytes();
        while at < bytes.len() && !is_given {
            let Step::Piece(piece) = self.scanner.next(bytes, at, u32::MAX) else { break };
            at = piece.range.end;
            match piece.kind {
                backend::ERROR_RESPONSE => {
                    let body = self.error.get_or_insert_default();
                    body.extend_from_slice(&bytes[piece.body.clone()]);
                }
                kind => is_given = self.error.is_none() && BEGINS.contains(&kind),
            }
        }
        self.bytes += chunk.len();
        self.chunks.push(chunk);
        is_given
    }

    /// The error that the replica has answered with.
    pub(super) fn error(&self) -> Option<&[u8]> {
        self.error.as_deref()
    }

    /// What the client is given.
    pub(super) fn into_chunks(self) -> Vec<Chunk> {
        self.chunks
    }

    /// What the client is given although the primary answers instead: messages that belong to no request.
    pub(super) fn beside_answer(self) -> Vec<u8> {
        let all: Vec<u8> = self.chunks.iter().flat_map(|chunk| chunk.bytes().iter().copied()).collect();
        let (mut scanner, mut at, mut out) = (Scanner::default(), 0, Vec::new());
        while let Step::Piece(piece) = scanner.next(&all, at, u32::MAX) {
            if matches!(piece.kind, backend::PARAMETER_STATUS | backend::NOTIFICATION_RESPONSE) {
                out.extend_from_slice(&all[piece.range.clone()]);
            }
            at = piece.range.end;
            if at == all.len() {
                break;
            }
        }
        out
    }
}

/// With these the answer itself begins: rows, their end, or a COPY.
const BEGINS: [u8; 7] = [
    backend::DATA_ROW,
    backend::COMMAND_COMPLETE,
    backend::EMPTY_QUERY_RESPONSE,
    backend::PORTAL_SUSPENDED,
    backend::COPY_IN_RESPONSE,
    backend::COPY_OUT_RESPONSE,
    backend::COPY_BOTH_RESPONSE,
];
/// Longer beginnings are given at once.
const BYTES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use wire::write;

    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write::message(&mut out, kind, |out| out.extend_from_slice(body));
        out
    }

    fn pushed(parts: &[&[u8]]) -> (bool, Withheld) {
        let mut withheld = Withheld::default();
        let is_given = parts.iter().fold(false, |_, part| withheld.push(Chunk::Own((*part).into())));
        (is_given, withheld)
    }

    #[test]
    fn the_first_row_gives_all_before_it() {
        let begin = [message(b'1', b""), message(b'T', b"columns")].concat();
        let (is_given, _) = pushed(&[&begin]);
        assert!(!is_given);
        let row = message(b'D', b"row");
        let (is_given, withheld) = pushed(&[&begin[..3], &begin[3..], &row]);
        assert!(is_given);
        assert_eq!(
            withheld.into_chunks().iter().flat_map(|chunk| chunk.bytes().to_vec()).collect::<Vec<_>>(),
            [begin, row].concat()
        );
        assert!(pushed(&[&message(b'C', b"SELECT 0\0")]).0 && pushed(&[&message(b'I', b"")]).0);
    }

    #[test]
    fn an_error_keeps_all_back() {
        let error = message(b'E', b"SERROR\0C25006\0\0");
        let all =
            [&message(b'T', b"columns")[..], &error[..9], &error[9..], &message(b'S', b"a\0b\0"), &message(b'Z', b"I")];
        let (is_given, withheld) = pushed(&all);
        assert!(!is_given);
        assert_eq!(withheld.error(), Some(&b"SERROR\0C25006\0\0"[..]));
        assert_eq!(withheld.beside_answer(), message(b'S', b"a\0b\0"));
    }

    #[test]
    fn a_long_beginning_is_given() {
        let notice = message(b'N', &[b'x'; 40_000]);
        assert!(!pushed(&[&notice]).0 && pushed(&[&notice, &notice]).0);
    }
}
