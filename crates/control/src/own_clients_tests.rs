//! Tests of the control thread's connections to its own workers, without sockets.

use super::*;

use base::{Key, WorkerId};
use wire::backend::{self, TxStatus};
use wire::write;
use worker::letters::{AuthQueryAnswer, Inquirer, SecretQuestion, ToControl, ToWorker};

use crate::Event;
use crate::control::tests::TestControl;

/// Returns all orders for connections, one line for each; of bytes sent only the texts of simple queries are shown.
fn orders(test: &mut TestControl) -> Vec<String> {
    let line = |order| match order {
        OwnClientOrder::Open { number, database, is_listener } => {
            format!("open {number} to {database}{}", if is_listener { " for all" } else { "" })
        }
        OwnClientOrder::Say { number, bytes } => match bytes.as_slice() {
            [b'Q', _, _, _, _, text @ .., 0] => format!("{number}: {}", String::from_utf8_lossy(text)),
            [b'P', ..] => format!("{number}: asks"),
            _ => format!("{number}: logs in"),
        },
        OwnClientOrder::Close { number } => format!("close {number}"),
    };
    std::iter::from_fn(|| test.control.next_own_client_order()).map(line).collect()
}

fn hears(test: &mut TestControl, number: u64, bytes: Vec<u8>) {
    test.happens(Event::OwnClient { number, news: OwnClientNews::Heard(bytes) });
}

fn ends(test: &mut TestControl, number: u64) {
    test.happens(Event::OwnClient { number, news: OwnClientNews::Ended("the connection has ended".to_owned()) });
}

fn ready() -> Vec<u8> {
    let mut out = Vec::new();
    write::ready_for_query(&mut out, TxStatus::Idle);
    out
}

fn row(values: [Option<&str>; 2]) -> Vec<u8> {
    let mut out = Vec::new();
    write::data_row(&mut out, values.into_iter());
    out
}

fn error(severity: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::error(&mut out, write::Says { severity, sqlstate: "57P01", message: "gone", detail: None, hint: None });
    assert_eq!(out[0], backend::ERROR_RESPONSE);
    out
}

fn ask(test: &mut TestControl, number: u32) {
    test.happens(Event::Letter(ToControl::AskSecret(SecretQuestion {
        from: WorkerId(0),
        inquirer: Inquirer::Client(Key::first(number)),
        database: "d".into(),
        asker: "asker".into(),
        sql: "select".into(),
        user: "u".into(),
    })));
}

/// Returns the answer that the worker was sent, which must be its only letter.
fn told(test: &TestControl) -> AuthQueryAnswer {
    match &test.letters(0)[..] {
        [ToWorker::AuthQueryAnswer { answer, .. }] => answer.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns why there is no answer.
fn unanswered(test: &TestControl) -> String {
    match told(test) {
        AuthQueryAnswer::Unanswered(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_about_a_user_is_put_on_a_connection_of_its_own() {
    let mut test = TestControl::new("asks", 1, "");
    ask(&mut test, 1);
    assert_eq!(orders(&mut test), ["open 1 to d", "1: logs in"]);
    hears(&mut test, 1, ready());
    assert_eq!(orders(&mut test), ["1: asks"]);
    let answer = [row([Some("u"), Some("secret")]), row([Some("u"), Some("secret")]), ready()].concat();
    let (begin, rest) = answer.split_at(9);
    hears(&mut test, 1, begin.to_vec());
    assert!(orders(&mut test).is_empty() && test.letters(0).is_empty());
    hears(&mut test, 1, rest.to_vec());
    assert_eq!(orders(&mut test), ["close 1"]);
    assert!(matches!(told(&test), AuthQueryAnswer::User { name, .. } if *name == *"u"));
    // Later news of the connection is ignored.
    ends(&mut test, 1);
    assert!(test.letters(0).is_empty());
}

#[test]
fn a_question_without_an_answer_is_answered_all_the_same() {
    let mut test = TestControl::new("unanswered", 1, "client_login_timeout=3");
    ask(&mut test, 1);
    ends(&mut test, 1);
    assert_eq!(unanswered(&test), "error in auth_query: the connection has ended");
    // The first row that differs ends the answer.
    ask(&mut test, 2);
    hears(&mut test, 2, ready());
    hears(&mut test, 2, [row([Some("u"), Some("a")]), row([Some("u"), None])].concat());
    assert_eq!(unanswered(&test), "expected 1 row from auth_query, not several that differ");
    ask(&mut test, 3);
    hears(&mut test, 3, error("FATAL"));
    ends(&mut test, 3);
    assert!(matches!(told(&test), AuthQueryAnswer::Refused { text, .. } if *text == *"gone"));
    ask(&mut test, 4);
    test.after(3, Event::Tick);
    assert!(test.letters(0).is_empty());
    test.after(1, Event::Tick);
    assert_eq!(unanswered(&test), "no answer to auth_query in time");
    assert_eq!(orders(&mut test).last().map(String::as_str), Some("close 4"));
}

fn listen(test: &mut TestControl, channel: &str, number: u64) {
    let (database, user, channel) = ("d".into(), "u".into(), channel.into());
    test.happens(Event::Letter(ToControl::Listen { database, user, channel, number, is_relied_on: false }));
}

/// Returns the letters to the worker about channels.
fn news(test: &TestControl) -> Vec<String> {
    let line = |letter| match letter {
        ToWorker::Heard { channel, number, .. } => format!("{channel} {number}"),
        ToWorker::Unheard { channels, error, .. } => format!("{channels:?}: {error}"),
        ToWorker::ListenerLost { .. } => "lost".to_owned(),
        other => panic!("{other:?}"),
    };
    test.letters(0).into_iter().map(line).collect()
}

#[test]
fn who_listens_for_all_says_one_thing_after_the_other_and_leaves_when_nobody_needs_it() {
    let mut test = TestControl::new("listens", 1, "");
    listen(&mut test, "a", 1);
    assert_eq!(orders(&mut test), ["open 1 to d for all", "1: logs in"]);
    listen(&mut test, "b", 2);
    assert!(orders(&mut test).is_empty());
    hears(&mut test, 1, ready());
    let marks = format!("1: LISTEN \"{}\"", protocol::state::MARKS);
    assert_eq!(orders(&mut test), [marks]);
    hears(&mut test, 1, ready());
    assert_eq!(orders(&mut test), ["1: LISTEN \"a\""]);
    hears(&mut test, 1, ready());
    assert_eq!((orders(&mut test), news(&test)), (vec!["1: LISTEN \"b\"".to_owned()], vec!["a 1".to_owned()]));
    hears(&mut test, 1, ready());
    assert_eq!(news(&test), ["b 2"]);
    for (channel, said) in [("a", vec!["1: UNLISTEN \"a\""]), ("b", vec![])] {
        test.happens(Event::Letter(ToControl::Unlisten { database: "d".into(), channel: channel.into() }));
        assert_eq!(orders(&mut test), said);
    }
    hears(&mut test, 1, ready());
    assert_eq!(orders(&mut test), ["1: UNLISTEN \"b\""]);
    hears(&mut test, 1, ready());
    test.after(4, Event::Tick);
    assert!(orders(&mut test).is_empty());
    test.after(1, Event::Tick);
    assert_eq!(orders(&mut test), ["close 1"]);
    assert!(news(&test).is_empty(), "nobody misses it");
    listen(&mut test, "a", 3);
    assert_eq!(orders(&mut test), ["open 2 to d for all", "2: logs in"]);
}

#[test]
fn a_session_that_has_ended_is_told_of_and_comes_again_for_what_it_listened_to() {
    let mut test = TestControl::new("lost", 1, "");
    listen(&mut test, "a", 1);
    (0..3).for_each(|_| hears(&mut test, 1, ready()));
    assert_eq!(news(&test), ["a 1"]);
    listen(&mut test, "b", 2);
    orders(&mut test);
    ends(&mut test, 1);
    assert_eq!(news(&test), ["[(\"b\", 2)]: the connection has ended", "lost"]);
    assert_eq!(orders(&mut test), ["close 1"]);
    test.after(1, Event::Tick);
    assert_eq!(orders(&mut test), ["open 2 to d for all", "2: logs in"]);
    // A session that has not been established is not reported as lost.
    hears(&mut test, 2, error("FATAL"));
    ends(&mut test, 2);
    assert!(news(&test).is_empty());
    test.happens(Event::Letter(ToControl::UnlistenAll { database: "d".into() }));
    test.after(1, Event::Tick);
    assert_eq!(orders(&mut test), ["close 2"]);
}

#[test]
fn a_session_that_is_not_answered_is_given_up() {
    let mut test = TestControl::new("silent", 1, "client_login_timeout=3");
    listen(&mut test, "a", 1);
    test.after(4, Event::Tick);
    assert_eq!(news(&test), ["[(\"a\", 1)]: no answer in time"]);
    assert_eq!(orders(&mut test).last().map(String::as_str), Some("close 1"));
    listen(&mut test, "a", 2);
    assert!(orders(&mut test).is_empty(), "each attempt may be a line in the log");
    test.after(1, Event::Tick);
    hears(&mut test, 2, ready());
    test.after(4, Event::Tick);
    let refusal = "[(\"a\", 2)]: it cannot listen to the marks at which it takes over";
    assert_eq!(news(&test), [refusal, "lost"]);
}
