//! Tests of how much of a server's messages is kept and counted: bounds that no loan story is long enough to reach.

use std::rc::Rc;

use wire::frontend;

use super::super::server_session::SMALL_BYTES_MAX;
use super::*;
use crate::vars::Vars;

fn server() -> ServerSession {
    ServerSession::new(Rc::new(Vars::new(&Tracked::new([]))))
}

/// A message of which this many bytes have come, and `left` more are to come.
fn piece(kind: u8, bytes: usize, left: u32) -> Piece {
    let body_bytes = (bytes - HEADER_BYTES) as u32 + left;
    Piece { kind, range: 0..bytes, body: HEADER_BYTES..bytes, left, part: Part::First { carried: 0, body_bytes } }
}

#[test]
fn an_answer_to_us_is_too_long_by_its_rows_its_errors_and_whatever_else_it_says() {
    for (kind, bytes, times) in [
        (backend::DATA_ROW, OWN_ANSWER_BYTES_MAX / 4, 4),
        (backend::NOTICE_RESPONSE, OWN_ANSWER_BYTES_MAX / WORDS_TIMES, 1),
        (backend::ERROR_RESPONSE, 100, ERRORS_MAX),
        (frontend::COPY_DATA, OWN_ANSWER_BYTES_MAX / WORDS_TIMES / 2, 2),
    ] {
        let mut server = server();
        server.exchange.asks_ours();
        for _ in 0..times {
            assert!(!is_endless(&mut server, &piece(kind, bytes, 0)), "{}", char::from(kind));
        }
        assert!(!is_endless(&mut server, &piece(backend::NOTIFICATION_RESPONSE, 100, 0)), "it answers nothing");
        assert!(is_endless(&mut server, &piece(backend::DATA_ROW, HEADER_BYTES, 0)), "{}", char::from(kind));
        assert!(!is_endless(&mut server, &piece(backend::READY_FOR_QUERY, 6, 0)));
        assert_eq!(server.answer_bytes, 0, "the next answer is counted by itself");
    }
}

#[test]
fn the_beginning_of_an_error_counts_by_its_length() {
    let mut server = server();
    server.exchange.asks_ours();
    assert!(!is_endless(&mut server, &piece(backend::ERROR_RESPONSE, 100, 10)));
    assert_eq!(server.answer_bytes, 100 * WORDS_TIMES);
}

/// The counted message ends the answer to settings that went along with the client's request.
#[test]
fn what_ends_an_answer_to_us_is_not_counted_for_the_client() {
    let mut server = server();
    server.answer_bytes = 100;
    assert!(!is_endless(&mut server, &piece(backend::COMMAND_COMPLETE, 11, 0)));
    assert_eq!(server.answer_bytes, 0);
}

#[test]
fn of_a_message_that_comes_in_parts_no_more_is_kept_than_of_its_kind() {
    let part = [b'x'; 40_000];
    for (kind, kept) in [(backend::ERROR_RESPONSE, SMALL_BYTES_MAX), (backend::DATA_ROW, 80_000)] {
        let mut server = server();
        assert_eq!(server.gather(&piece(kind, HEADER_BYTES + part.len(), part.len() as u32), &part), None);
        let last = Piece { part: Part::Later, ..piece(kind, HEADER_BYTES + part.len(), 0) };
        let whole = server.gather(&last, &part).expect("all of it has come");
        assert_eq!(whole.len(), kept, "{}", char::from(kind));
        assert!(server.collected.is_empty());
    }
}
