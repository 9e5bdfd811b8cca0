//! Conversations between a client, `>`, and its server, `<`; the tests say in which state they leave the exchange.

use super::*;
use proptest::prelude::*;

/// Plays a conversation: `>` and the kinds of messages that the client sends, `<` and those that the server sends (`Z`
/// with its status in the next character), `!` before a server's message that must be a protocol violation, `-` and `?` before a
/// client's message that must be dropped or is unexpected, `~` before one of which the client sends only a part before it
/// leaves. Returns the final exchange.
fn play(story: &str) -> Exchange {
    let mut exchange = Exchange::default();
    for line in story.split_whitespace() {
        let (side, kinds) = line.split_at(1);
        let mut kinds = kinds.bytes();
        while let Some(kind) = kinds.next() {
            match side {
                ">" => assert_eq!(exchange.asked(kind), Asked::Forward, "{line} in {story}"),
                "~" => {
                    assert_eq!(exchange.asked(kind), Asked::Forward, "{line} in {story}");
                    exchange.torn(kind);
                }
                "-" => assert_eq!(exchange.asked(kind), Asked::Drop, "{line} in {story}"),
                "?" => assert_eq!(exchange.asked(kind), Asked::Unexpected, "{line} in {story}"),
                "<" | "!" => {
                    let status = if kind == b'Z' { kinds.next().into_iter().collect() } else { Vec::new() };
                    let answer = exchange.answered(kind, &status);
                    let is_as_told = if side == "!" { answer.is_err() } else { answer == Ok(Answered::Forward) };
                    assert!(is_as_told, "{line} in {story}: {answer:?}");
                }
                _ => panic!("{line} in {story}"),
            }
        }
    }
    exchange
}

#[track_caller]
fn ends(story: &str) {
    let exchange = play(story);
    assert!(exchange.may_end() && exchange.is_proven(), "{story}: {exchange:?}");
}

#[track_caller]
fn goes_on(story: &str) {
    let exchange = play(story);
    assert!(!exchange.may_end(), "{story}: {exchange:?}");
}

#[test]
fn a_simple_query_ends_with_its_ready() {
    goes_on(">Q <TDDC");
    ends(">Q <TDDC <ZI");
    ends(">Q <I <ZI");
    ends(">Q <E <ZI");
    ends(">Q <TDC <TDC <E <ZI");
}

/// A client whose transactions are counted is not read before it is answered. It would wait forever for the answer to a
/// Sync that a COPY has ignored.
#[test]
fn a_whole_request_awaits_its_ready_and_a_sync_that_a_copy_ignores_none() {
    for story in [">Q", ">PBES", ">F", ">Q <G >dc", ">Q >dc", ">PBE <12G >dcS", ">PBES >dc"] {
        assert!(play(story).awaits_ready(), "{story}");
    }
    for story in ["", ">PBE", ">Q <C <ZI", ">Q <G", ">PBES <12G", ">PBES <12G >dc", ">PBES >dc <12G", ">PBES <12E <ZI"]
    {
        assert!(!play(story).awaits_ready(), "{story}");
    }
}

/// A Terminate waits for these answers, and would wait forever for others.
#[test]
fn the_next_message_is_read_behind_certain_answers() {
    for story in [">Q", ">PBES", ">F", ">Q <G >f", ">PBE <12G >f", ">Q <G >f <E <ZI >PBES", ">PBE <12 >Q"] {
        assert!(play(story).answers_first(), "{story}");
    }
    for story in [
        "",
        ">P",
        ">PBE",
        ">Q <C <ZI",
        ">Q <G",
        ">PBES <12G",
        ">PBE <12G >c",
        ">PBE <12G >f <E",
        ">PBE <12G >f <E >S <ZI >P",
        ">Q <G >f <E <ZI >P",
        ">Q <G >f <E <ZI",
    ] {
        assert!(!play(story).answers_first(), "{story}");
    }
}

#[test]
fn an_open_transaction_keeps_the_loan() {
    goes_on(">Q <C <ZT");
    goes_on(">Q <C <ZT >Q <E <ZE");
    goes_on(">PBES <12C <ZT");
    goes_on(">Q <C <ZT >PBES <12E <ZE");
    ends(">Q <C <ZT >Q <E <ZE >Q <C <ZI");
}

/// Regression: a server whose client had left in the middle of a message was closed at once, and PostgreSQL went on with
/// the earlier requests.
#[test]
fn a_client_that_leaves_in_the_middle_of_a_message_leaves_what_it_has_asked_before() {
    for story in [">Q ~Q", ">PBE ~P", ">PBES <12 ~B", ">Q ~d", ">Q <G ~f", ">QPBES <TDC <ZT ~Q", ">FQ <V <ZI ~E"] {
        assert!(play(story).is_running(), "{story}");
    }
    for story in
        ["~Q", ">Q <C <ZT ~Q", ">PBE <12C ~B", ">PBES <12E ~B <ZI", ">Q ~Q <TDC <ZI", ">PBE ~P <12E", ">Q ~d <E <ZI"]
    {
        let exchange = play(story);
        // The server must not be sent anything: it would read that as the rest of the message.
        assert!(!exchange.is_running() && !exchange.owes_nothing(), "{story}: {exchange:?}");
    }
}

/// Regression: the client was closed, because a query of our own "would prove nothing". It settles the doubt like any
/// other request.
#[test]
fn a_query_of_ours_settles_whether_a_stray_sync_is_answered() {
    let asked = |story: &str, is_along: bool| {
        let mut exchange = play(story);
        assert!(!exchange.is_proven() && !exchange.is_beyond_proof(), "{story}");
        if is_along {
            exchange.asks_ours_along(1);
        } else {
            exchange.asks_ours();
        }
        exchange
    };
    for (is_along, answers) in [(false, &b"TDC"[..]), (false, b"I"), (false, b"E"), (true, b"2")] {
        for strays in 0..=1 {
            let mut exchange = asked(">PBES <12G >dSdfS <E <ZI", is_along);
            for _ in 0..strays {
                assert!(!exchange.answers_ours(b'Z') && exchange.answers_ours(b'N'));
                assert_eq!(exchange.answered(b'Z', b"I"), Ok(Answered::Forward));
                assert!(exchange.is_ours() && !exchange.may_end());
            }
            for kind in answers {
                for unasked in [b'N', b'S'] {
                    assert_eq!(exchange.answered(unasked, b""), Ok(Answered::Ours));
                }
                assert_eq!(exchange.answered(*kind, b""), Ok(Answered::Ours));
                assert!(exchange.is_proven(), "{exchange:?}");
            }
            if !is_along {
                assert!(exchange.answers_ours(b'Z'));
                assert_eq!(exchange.answered(b'Z', b"I"), Ok(Answered::Ours));
            }
            assert!(exchange.may_end() && exchange.is_proven(), "{exchange:?}");
        }
    }
}

/// Regression: the end waited for a COPY, and the answer to the Query behind it was unexpected.
#[test]
fn the_end_of_no_copy_is_dropped_behind_messages_of_ours() {
    for kind in [b'd', b'c', b'f'] {
        let mut exchange = Exchange::default();
        exchange.asks_ours_along(1);
        assert_eq!(exchange.asked(kind), Asked::Drop);
        assert_eq!(exchange.asked(b'Q'), Asked::Forward);
        assert_eq!(exchange.answered(b'3', b""), Ok(Answered::Ours));
        for (kind, status) in [(b'T', &b""[..]), (b'C', b""), (b'Z', b"I")] {
            assert_eq!(exchange.answered(kind, status), Ok(Answered::Forward));
        }
        assert!(exchange.may_end(), "{exchange:?}");
    }
}

/// Regression: the ReadyForQuery of the Sync was taken for that of the Query, the end of the second COPY was dropped, and
/// its client waited forever.
#[test]
fn the_ready_of_a_stray_sync_is_not_taken_for_a_later_answer() {
    let doubtful = play(">PBES <12G >dSdcS <E <ZI <ZI");
    assert!(!doubtful.is_proven() && !doubtful.is_beyond_proof(), "{doubtful:?}");
    goes_on(">PBES <12G >dSdcS <E <ZI >Qd <ZI >d");
    goes_on(">PBES <12G >dSdcS <E <ZI >Qd <ZI >dc <G");
    ends(">PBES <12G >dSdcS <E <ZI >Qd <ZI >dc <GC <ZI");
    ends(">PBES <12G >dSdcS <E <ZI >QF <ZI <ZI <C <ZI <V <ZI");
    ends(">PBES <12G >dSdcSPBES <E <ZI <ZI <12C <ZI");
    ends(">Q <G >dSdcQ <E <ZI <ZI <TDC <ZI");
    ends(">Q <G >dSdcQ <E <ZI <TDC <ZI");
    // Any answer to a later message settles the doubt, an error too; a Sync changes nothing.
    ends(">PBES <12G >dSdcS <E <ZI >Q <E <ZI");
    ends(">PBES <12G >d <E >S <ZI <ZI");
    ends(">Q <G >dSc <E <ZI <ZI");
    ends(">PBES <12G >d <E <ZI >PBE <1E >P >S <ZI");
    // It is unknown whether the server skips the Query.
    let lost = play(">PBES <12G >d <E >Q <ZI <ZI -");
    assert!(lost.is_beyond_proof() && lost.is_running(), "{lost:?}");
    play(">PBES <12G >d <E >Q <ZI <C <ZI >dc");
    let copying = play(">PBES <12G >d <E >Q <ZI <C <ZI <G");
    assert!(copying.is_copying_in() && !copying.owes_nothing() && !copying.owes_client_nothing());
    assert!(!copying.has_lost_steps(), "there are none");
}

#[test]
fn several_queries_in_one_packet_are_all_waited_for() {
    goes_on(">QQQ <C <ZI <C <ZI");
    ends(">QQQ <C <ZI <C <ZI <E <ZI");
}

#[test]
fn a_batch_is_open_until_its_sync_is_answered() {
    goes_on(">PBDE <12TDC");
    goes_on(">PBDEH <12TDC");
    goes_on(">PBDES <12TDC");
    ends(">PBDES <12TDC <ZI");
    ends(">PBDEH <12TDC >S <ZI");
    ends(">PDS <1tn <ZI >PDS <1tT <ZI");
    ends(">BES <2Ds <ZI >ES <DC <ZI");
    ends(">CS <3 <ZI");
    ends(">S <ZI");
}

#[test]
fn pipelined_batches_are_all_waited_for() {
    goes_on(">PBES >PBES <12C <ZI <12C");
    ends(">PBES >PBES <12C <ZI <12C <ZI");
}

#[test]
fn an_error_in_a_batch_skips_to_its_sync() {
    ends(">PBES <E <ZI");
    ends(">PBES >PBES <1E <ZI <12C <ZI");
    goes_on(">PBE <E");
    goes_on(">PBE <E >PBE");
    ends(">PBE <E >PBE >S <ZI");
    ends(">PBES <12E <ZI");
}

/// For instance when a standby cancels what conflicts with its recovery.
#[test]
fn an_error_behind_the_last_answer_of_a_batch_skips_to_its_sync() {
    goes_on(">PBEH <12C <E");
    ends(">PBEH <12C <E >PBES <ZI");
}

#[test]
fn a_query_behind_a_failed_batch_is_skipped_too() {
    goes_on(">PBE >Q <E");
    ends(">PBE >Q <E >S <ZI");
    ends(">PBE <E >Q >S <ZI");
    ends(">PBE >Q <12C <TDC <ZI");
    ends(">PBE >Q <12C <E <ZI");
}

#[test]
fn an_error_of_the_sync_itself_skips_nothing() {
    ends(">PBES >Q <12C <E <ZI <C <ZI");
}

#[test]
fn a_function_call_is_one_exchange() {
    ends(">F <V <ZI");
    ends(">F <E <ZI");
}

/// A client is not read while so many answers are owed, unless its COPY waits for data.
#[test]
fn what_is_owed_has_a_limit() {
    let mut exchange = Exchange::default();
    let mut asked = 0;
    while !exchange.is_full() {
        exchange.asked_step(Step::Hidden);
        asked += 1;
        assert!(asked <= 1024 && !exchange.has_outcome());
    }
    while !exchange.has_room() {
        assert_eq!(exchange.answered(b'3', b""), Ok(Answered::Hidden));
        asked -= 1;
    }
    assert!(asked == 512 && !exchange.is_full());
    let mut copying = Exchange::default();
    copying.asked(b'Q');
    assert!((0..2000).all(|_| copying.asked(b'S') == Asked::Forward));
    assert!(copying.is_full());
    assert_eq!(copying.answered(b'G', b""), Ok(Answered::Forward));
    assert!(!copying.is_full() && copying.has_room());
    // It is unknown which message an answer belongs to, but the COPY waits for its client.
    let mut copying = Exchange::default();
    assert!((0..1024).all(|_| copying.asked(b'Q') == Asked::Forward) && copying.is_full());
    assert_eq!(copying.answered(b'G', b""), Ok(Answered::Forward));
    assert!(copying.is_beyond_proof() && !copying.is_full());
}

/// World seed 105084: the Sync sent during the COPY had ended the batch, but the next client's Query was taken for one in
/// that batch.
#[test]
fn a_copy_that_has_failed_leaves_no_batch_open() {
    for (next, answers) in [("QQ", "CZCZ"), ("PQS", "1CZZ"), ("FQ", "VZCZ"), ("oQ", "CZCZ"), ("hQS", "3CZZ")] {
        let mut exchange = play(">PBE <12G >dSd <E <ZI");
        assert!(exchange.may_end());
        for kind in next.bytes() {
            match kind {
                b'o' => exchange.asks_ours(),
                b'h' => exchange.asked_step(Step::Hidden),
                _ => assert_eq!(exchange.asked(kind), Asked::Forward),
            }
        }
        assert!(answers.bytes().all(|kind| exchange.answered(kind, b"I").is_ok()));
        assert!(exchange.may_be_lent(), "{next} {exchange:?}");
    }
}

/// World seed 7001692: the same, with settings sent along with the next client's Query.
#[test]
fn a_copy_that_has_failed_leaves_no_batch_open_for_what_goes_along() {
    let mut exchange = play(">PBE <12G >dSd <E <ZI");
    exchange.asks_ours_along(2);
    assert_eq!(exchange.asked(b'Q'), Asked::Forward);
    assert!(b"2CCZ".iter().all(|kind| exchange.answered(*kind, b"I").is_ok()));
    assert!(exchange.may_end() && exchange.may_be_lent(), "{exchange:?}");
}

/// PostgreSQL 18 fails the session's next statement in this case. `h` is a step of ours.
#[test]
fn a_server_that_was_told_a_query_or_function_call_in_a_batch_is_not_lent() {
    let functions = [("F", true), ("PBESF", true), ("QF", true), ("PF", false), ("PBEFS", false), ("hF", false)];
    let queries =
        [("Q", true), ("PBESQ", true), ("QQ", true), ("PBQS", true), ("PBEQS", false), ("hQ", true), ("PBEhQ", false)];
    for (asked, may_be_lent) in functions.into_iter().chain(queries) {
        let mut exchange = Exchange::default();
        for kind in asked.bytes() {
            match kind {
                b'h' => exchange.asked_step(Step::Hidden),
                _ => assert_eq!(exchange.asked(kind), Asked::Forward),
            }
        }
        assert_eq!(exchange.may_be_lent(), may_be_lent, "{asked}");
    }
}

#[test]
fn copy_in_by_a_simple_query() {
    goes_on(">Q <G >dd");
    goes_on(">Q <G >ddc");
    ends(">Q <G >ddc <C <ZI");
    ends(">Q <G >df <E <ZI");
    // The COPY fails in the middle. The server ignores what the client still sends, and we drop it once the loan is over.
    ends(">Q <G >dd <E <ZI -dc");
    ends(">Q <G >dd <E >dc <ZI");
}

#[test]
fn copy_in_by_the_extended_protocol_ignores_the_sync_sent_before_it_began() {
    goes_on(">PBDES <12nG >ddc <C");
    ends(">PBDES <12nG >ddcS <C <ZI");
    let failed = play(">PBDES <12nG >dd <E >cS <ZI");
    assert!(failed.may_end() && !failed.is_proven(), "{failed:?}");
    ends(">PBDES <12nG >d <E <ZI");
}

/// Regression: a COPY that fails at its first data does not read the Sync behind it, which is then answered after the
/// Query. The end of that Query was taken for the end of the COPY, and the server was lent with a ReadyForQuery still to
/// come.
#[test]
fn a_failed_copy_with_a_sync_on_its_way_is_never_proven_again() {
    for story in
        [">QdQS <G <E <ZI <TDC <ZI", ">QdEFS <G <E <ZI <DC <V <ZI", ">QdSQQdcQ <G <E <ZI <ZI <TDC <ZI <G <C <ZI"]
    {
        assert!(!play(story).is_proven(), "{story}");
    }
    // With nothing else under way there is no doubt: the server answers the Sync.
    ends(">PBES <12G >d <E <ZI >Q <TDC <ZI");
}

/// Regression: messages behind the Sync are executed if the COPY did not read the Sync; they were taken for skipped, and
/// the server was lent with all of their answers still to come.
#[test]
fn what_was_sent_behind_a_failed_copy_is_not_taken_for_skipped() {
    for story in [">ESdcF <G <E <ZI", ">ESdcPBE <G <E <ZI", ">E <G >dScPBE <E <ZI", ">PBES <12G >d <E >Q <ZI"] {
        assert!(!play(story).is_proven(), "{story}");
    }
}

/// Regression: the end of the first COPY ended the second one, because the first had failed; the Sync behind it was taken
/// for one that a COPY reads, and the server was lent with its ReadyForQuery still to come.
#[test]
fn a_copy_with_something_else_in_it_is_never_proven_again() {
    for story in [">QdQ <G >cS <E <ZI <G <C <ZI", ">PBEdPBES <12G >d <E <ZI", ">QdPS <G", ">PBEPBE <12G"] {
        assert!(!play(story).is_proven(), "{story}");
    }
    // Only the first COPY of each has its end already; the other waits for data.
    assert!(play(">Qdc <G <C <G").is_copying_in() && play(">QSdc <G <C <G").is_copying_in());
}

#[test]
fn a_sync_during_copy_is_ignored() {
    ends(">Q <G >dSdHc <C <ZI");
}

#[test]
fn anything_else_during_copy_ends_the_conversation() {
    play(">Q <G >d ?Q");
    play(">Q <G >d ?P");
    // A COPY that has failed allows other messages.
    ends(">PBE <12G >d <E >PBES <ZI");
}

#[test]
fn a_copy_that_the_client_ended_before_it_was_told_that_it_began() {
    ends(">Qddc <G <C <ZI");
    ends(">Qddf <G <E <ZI");
    ends(">PBEdcS <12G <C <ZI");
}

/// Found by random programs: the answer to a Sync that the COPY had ignored was waited for, and the server stayed lent
/// forever.
#[test]
fn a_copy_whose_sync_and_end_come_before_it_begins() {
    ends(">PBESdcS <12G <C <ZI");
    let failed = play(">PBESdcS <12G <E <ZI");
    assert!(failed.may_end() && !failed.is_proven(), "{failed:?}");
    // The table does not exist: the first Sync counts, and the rest of the COPY belongs to nothing.
    goes_on(">PBESdcS <1E <ZI");
    ends(">PBESdcS <1E <ZI <ZI");
}

/// Found by random programs: only one early end was remembered, and a Query behind the second COPY was refused.
#[test]
fn each_copy_that_is_sent_at_once_has_its_own_end() {
    ends(">QdcQdcQ <G <C <ZI <G <C <ZI <TDC <ZI");
    ends(">QdcQdfQ <E <ZI <G <E <ZI <TDC <ZI");
    ends(">QfPBEcS <G <E <ZI <12G <C <ZI");
    // One Query with two COPYs, and a batch with two COPYs.
    ends(">Qdcdc <G <C <G <C <ZI");
    ends(">PBEdcPBEdcS <12G <C <12G <C <ZI");
    // The end of a COPY that did not begin ends no later COPY.
    goes_on(">QdcQ <E <ZI <G");
    ends(">QdcQ <E <ZI <G >dc <C <ZI");
    goes_on(">PBEc <12C");
    ends(">PBEc <12C >S <ZI");
}

/// Found by random programs: messages behind a COPY in one packet were refused as soon as the COPY had begun.
#[test]
fn what_follows_the_early_end_of_a_copy_may_come_at_any_time() {
    ends(">PBESc <12G <C >CS <3 <ZI");
    ends(">PBESc <12G >Q <C <C <ZI");
}

#[test]
fn copy_out_and_copy_both() {
    ends(">Q <HddcC <ZI");
    ends(">PBES <12HddcC <ZI");
    goes_on(">Q <W >d <d >c");
    ends(">Q <W >d <d >c <cC <ZI");
}

#[test]
fn what_the_server_says_by_itself_is_never_counted() {
    ends("<NSA >Q <NTSDAC <ZI <NSA");
}

#[test]
fn what_is_not_owed_violates_the_protocol() {
    play("!ZI");
    play("!D");
    play(">Q <C <ZI !ZI");
    play(">Q <C <ZI !C");
    play(">PBES !ZI");
    play(">PS <1 !1");
    play(">PS <1 !D");
    play(">Q !1");
    play(">S !C");
    play(">F !D");
    play(">Q <C !ZX");
    play(">Q !q");
    // The batch waits only for its Sync.
    play(">P <1 !D");
    play(">P <1 !d");
    play(">P <1 !G");
}

#[test]
fn late_copy_data_without_an_exchange_is_dropped() {
    ends("-dcf");
}

#[test]
fn what_no_client_may_send_is_told() {
    play("?z");
    play(">Q ?p");
}

#[test]
fn answers_to_our_own_query_are_swallowed() {
    let mut exchange = Exchange::default();
    exchange.asks_ours();
    assert_eq!(exchange.answered(b'C', b""), Ok(Answered::Ours));
    assert_eq!(exchange.answered(b'S', b""), Ok(Answered::Ours));
    assert_eq!(exchange.answered(b'A', b""), Ok(Answered::Forward));
    assert!(!exchange.may_end() && !exchange.is_running());
    assert_eq!(exchange.answered(b'E', b""), Ok(Answered::Ours));
    assert_eq!(exchange.answered(b'Z', b"I"), Ok(Answered::Ours));
    assert!(exchange.may_end());
}

#[test]
fn what_is_told_along_is_answered_before_the_request_and_without_a_ready() {
    for (asked, answers) in [("Q", "TDC"), ("PBES", "12C"), ("S", "")] {
        let mut exchange = Exchange::default();
        exchange.asks_ours_along(3);
        assert!(exchange.owes_client_nothing() && exchange.has_ours_along());
        asked.bytes().for_each(|kind| assert_eq!(exchange.asked(kind), Asked::Forward));
        assert!(!exchange.owes_client_nothing() && exchange.is_running());
        for kind in *b"12DSC" {
            assert!(exchange.is_ours());
            assert_eq!(exchange.answered(kind, b""), Ok(Answered::Ours));
        }
        assert!(!exchange.is_ours() && !exchange.has_ours_along());
        answers.bytes().for_each(|kind| assert_eq!(exchange.answered(kind, b""), Ok(Answered::Forward)));
        assert_eq!(exchange.answered(b'Z', b"I"), Ok(Answered::Forward));
        assert!(exchange.may_end());
    }
    // `OursAlong` has no ReadyForQuery. After an error it stays where it is: nothing behind it is answered.
    let mut exchange = Exchange::default();
    exchange.asks_ours_along(3);
    assert_eq!(exchange.asked(b'Q'), Asked::Forward);
    assert!(exchange.answered(b'Z', b"I").is_err());
    assert_eq!(exchange.answered(b'E', b""), Ok(Answered::Ours));
    assert!(exchange.is_ours());
    // An answer that we give ourselves is due when everything before it is answered.
    let mut exchange = Exchange::default();
    exchange.asks_ours_along(1);
    exchange.asked_step(Step::Given(b'1'));
    assert_eq!(exchange.due(), None);
    assert_eq!(exchange.answered(b'C', b""), Ok(Answered::Ours));
    assert_eq!(exchange.due(), Some(b'1'));
}

/// We may answer instead of the server only with what the server would answer.
#[test]
fn an_answer_that_is_out_may_be_an_error_and_end_the_transaction() {
    for story in ["", ">Q <C <ZI", ">Q <C <ZT", ">Q <C <ZT >PBE <12C", ">PBE"] {
        assert!(play(story).is_in_good_order(), "{story}");
    }
    for story in [">Q", ">Q <C", ">F", ">PBES", ">PBES <12C", ">Q <E <ZE", ">Q <C <ZT >Q <E"] {
        assert!(!play(story).is_in_good_order(), "{story}");
    }
    let mut exchange = play(">Q <C <ZT >Q <E <ZE");
    assert!(!exchange.is_in_good_order());
    assert_eq!(exchange.asked(b'Q'), Asked::Forward);
    assert!(!exchange.is_in_good_order(), "the ROLLBACK may fail, too");
    for (kind, status) in [(b'C', &b""[..]), (b'Z', b"I")] {
        assert_eq!(exchange.answered(kind, status), Ok(Answered::Forward));
    }
    assert!(exchange.is_in_good_order());
}

#[test]
fn a_client_that_leaves_a_batch_open_wants_a_sync() {
    assert!(play(">PBE").wants_sync());
    assert!(play(">PBE <12C").wants_sync());
    assert!(play(">PBE <E").wants_sync());
    assert!(play(">PBEQ").wants_sync());
    assert!(!play(">PBEQS").wants_sync());
    assert!(!play(">PBES").wants_sync());
    let mut exchange = Exchange::default();
    exchange.asked_step(Step::Hidden);
    assert!(exchange.wants_sync());
    assert_eq!(exchange.answered(b'3', b""), Ok(Answered::Hidden));
    assert!(exchange.wants_sync() && !exchange.owes_nothing());
    assert!(!play(">Q").wants_sync());
    assert!(play(">Q <G").is_copying_in());
}

#[test]
fn steps_are_taken_where_the_server_reads_them_as_such() {
    for (story, may) in [("", true), (">PBES", true), (">Q <G", false), (">PBE <E", false), (">PBE <E >S", true)] {
        assert_eq!(play(story).may_step(), may, "{story}");
    }
    assert!(!play(">PBE <E").owes_client_nothing(), "it skips what comes before the Sync");
    // The item before it is answered already.
    let mut exchange = play(">PBE <12C");
    exchange.asked_step(Step::Hidden);
    assert!(exchange.is_hiding() && !exchange.has_due());
    let mut exchange = Exchange::default();
    exchange.asked_step(Step::Given(b'1'));
    assert!(exchange.has_due() && exchange.due() == Some(b'1') && !exchange.has_due());
}

/// The server may end a COPY in both directions.
#[test]
fn a_copy_has_ended_when_the_server_is_ready() {
    ends(">Q <W >d <cC <ZI");
}

#[test]
fn no_query_of_ours_is_a_copy() {
    for kind in [b'G', b'W'] {
        let mut exchange = Exchange::default();
        exchange.asks_ours();
        assert_eq!(exchange.answered(kind, b""), Err(ProtocolViolation));
    }
}

#[test]
fn only_work_can_be_cancelled() {
    assert!(play(">Q").is_running());
    assert!(play(">PB").is_running());
    assert!(!play("").is_running());
    assert!(!play(">Q <C <ZT").is_running());
    assert!(!play(">PBE <12C").is_running());
}

/// PostgreSQL's main loop as far as answers are concerned, written independently of the machine: reads one message and
/// returns the kinds of its answers.
#[derive(Default)]
struct Oracle {
    is_skipping: bool,
    is_copying: bool,
    is_copy_extended: bool,
    /// A Sync can fail only if it commits work of a batch.
    is_batch_open: bool,
}

impl Oracle {
    fn reads(&mut self, kind: u8, fails: bool, copies: bool) -> Vec<u8> {
        let answers = self.answers(kind, fails, copies);
        // Failed work is rolled back, and cannot fail again at its Sync.
        self.is_batch_open &= !answers.contains(&b'E');
        answers
    }

    fn answers(&mut self, kind: u8, fails: bool, copies: bool) -> Vec<u8> {
        if self.is_copying {
            return match kind {
                b'd' if fails => self.copy_ends(b"E"),
                b'd' | b'S' | b'H' => vec![],
                b'c' if !fails => self.copy_ends(b"C"),
                _ => self.copy_ends(b"E"),
            };
        }
        if matches!(kind, b'd' | b'c' | b'f') || (self.is_skipping && kind != b'S') {
            return vec![];
        }
        let is_batch_open = std::mem::replace(&mut self.is_batch_open, b"PBDEC".contains(&kind));
        match kind {
            b'S' => {
                self.is_skipping = false;
                if fails && is_batch_open { b"EZ".to_vec() } else { b"Z".to_vec() }
            }
            b'H' => vec![],
            b'Q' if copies => {
                (self.is_copying, self.is_copy_extended) = (true, false);
                b"G".to_vec()
            }
            b'E' if copies && !fails => {
                (self.is_copying, self.is_copy_extended) = (true, true);
                b"G".to_vec()
            }
            b'Q' => {
                if fails {
                    b"EZ".to_vec()
                } else {
                    b"TDCZ".to_vec()
                }
            }
            b'F' => {
                if fails {
                    b"EZ".to_vec()
                } else {
                    b"VZ".to_vec()
                }
            }
            _ if fails => {
                self.is_skipping = true;
                b"E".to_vec()
            }
            b'P' => b"1".to_vec(),
            b'B' => b"2".to_vec(),
            b'C' => b"3".to_vec(),
            b'D' => b"tn".to_vec(),
            _ => b"DC".to_vec(),
        }
    }

    fn copy_ends(&mut self, answer: &[u8]) -> Vec<u8> {
        self.is_copying = false;
        self.is_skipping = self.is_copy_extended && answer == b"E";
        let mut answers = answer.to_vec();
        if !self.is_copy_extended {
            answers.push(b'Z');
        }
        answers
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    /// Whatever a client sends, and however late the server reads it, no answer is a protocol violation, and the loan may end
    /// exactly when the server has read everything, owes nothing and skips nothing.
    #[test]
    fn the_count_agrees_with_the_servers_own_loop(
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0_u8..6, 0_u8..6), 1..60)
    ) {
        let mut exchange = Exchange::default();
        let mut oracle = Oracle::default();
        let mut pipe: VecDeque<(u8, bool, bool)> = VecDeque::new();
        let mut story = String::new();
        for (choice, sends, fails, copies) in steps {
            if sends {
                // During a COPY, or behind a message that may begin one, a client that knows the protocol sends only what
                // belongs to the COPY.
                let behind_the_end = || pipe.iter().rev().take_while(|message| !matches!(message.0, b'c' | b'f'));
                let may_become_copy = behind_the_end().any(|message| message.2 && matches!(message.0, b'Q' | b'E'));
                let is_copying = exchange.is_copying_in() || may_become_copy;
                let kinds: &[u8] = if is_copying { b"dddcfSH" } else { b"QQPBDECSSSFHc" };
                let kind = kinds[choice.index(kinds.len())];
                story += &format!(">{} ", kind as char);
                let was_running = exchange.is_running();
                match exchange.asked(kind) {
                    Asked::Drop => prop_assert!(kind == b'c' && pipe.iter().all(|message| b"SHdcf".contains(&message.0))),
                    asked => {
                        prop_assert_eq!(asked, Asked::Forward, "{}", story);
                        let mut torn = exchange.clone();
                        if !matches!(kind, b'S' | b'H' | b'c') {
                            torn.torn(kind);
                            let is_left = torn.is_running() == was_running && !torn.owes_nothing();
                            prop_assert!(is_left || torn.is_beyond_proof(), "{} in {:?}", story, torn);
                        }
                        pipe.push_back((kind, fails == 0, copies == 0));
                    }
                }
            } else if let Some((kind, fails, copies)) = pipe.pop_front() {
                for answer in oracle.reads(kind, fails, copies) {
                    story += &format!("<{} ", answer as char);
                    prop_assert!(exchange.answered(answer, b"I").is_ok(), "{} in {:?}", story, exchange);
                }
            }
            if exchange.is_beyond_proof() {
                return Ok(());
            }
            if pipe.is_empty() && exchange.is_proven() {
                prop_assert_eq!(exchange.is_copying_in(), oracle.is_copying, "{} in {:?}", story, exchange);
                prop_assert_eq!(exchange.is_skipping(), oracle.is_skipping, "{} in {:?}", story, exchange);
                prop_assert_eq!(exchange.may_step(), !oracle.is_copying && !oracle.is_skipping);
                prop_assert!(!exchange.awaits_ready() && !exchange.is_hiding());
            }
            if exchange.may_end() && !exchange.is_proven() {
                // Such a server is closed where a loan ends now, and is kept where a loan lasts as long as its client:
                // everything that must be answered has been answered, except Syncs.
                prop_assert!(pipe.iter().all(|message| b"SHdcf".contains(&message.0)), "{} in {:?}", story, exchange);
            } else if exchange.may_end() {
                prop_assert!(!oracle.is_copying && !oracle.is_skipping, "{} in {:?}", story, exchange);
                prop_assert!(pipe.iter().all(|message| matches!(message.0, b'H' | b'd' | b'c' | b'f')), "{}", story);
            }
        }
    }
}

/// Regression: a Close that the pooler answers, behind a query of its own, was never answered, and the `ReadyForQuery` of its
/// Sync was more than was asked for. Found by random programs.
#[test]
fn an_answer_of_ours_behind_a_query_of_ours_is_due_when_that_has_ended() {
    let mut exchange = Exchange::default();
    exchange.asks_ours();
    exchange.asked_step(Step::Given(b'3'));
    assert_eq!(exchange.asked(b'S'), Asked::Forward);
    assert_eq!(exchange.due(), None);
    assert_eq!(exchange.answered(b'Z', b"I"), Ok(Answered::Ours));
    assert_eq!((exchange.due(), exchange.outcome()), (Some(b'3'), Some(Outcome::Done)));
    assert_eq!(exchange.answered(b'Z', b"I"), Ok(Answered::Forward));
    assert!(exchange.may_end() && exchange.is_proven());
}
